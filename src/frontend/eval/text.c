/*
 * repr and str of what the evaluator owns: instances, classes, functions,
 * modules, generators and type forms.
 */
#include "frontend/eval/eval.h"

static void at_address(StrBuf *out, const char *what, const char *name, const void *p)
{
    sb_printf(out, "<%s%s%s at 0x%llx>", what, *name ? " " : "", name, (unsigned long long)(uintptr_t)p);
}

/* The text that a special method returned; it must be a str. */
static bool put_text(Interp *I, Value r, const char *method, StrBuf *out)
{
    bool ok = r.tag == V_STR;

    if (ok)
        sb_write(out, as_str(r)->s, as_str(r)->len);
    else if (!is_err(r))
        raise(I, EXC_TypeError, "%s returned non-string (type %s)", method, value_type_name(r));
    value_unref(r);
    return ok;
}

static bool exception_repr(Interp *I, InstanceObj *e, StrBuf *out)
{
    Value args = dict_get_sym(e->attrs, I->s_args);

    sb_printf(out, "%s(", e->cls->name->text);
    for (int64_t i = 0; args.tag == V_TUPLE && i < as_tuple(args)->n; i++) {
        if (i)
            sb_puts(out, ", ");
        if (!value_repr_to(I, as_tuple(args)->at[i], out))
            return false;
    }
    sb_putc(out, ')');
    return true;
}

static bool instance_repr(Interp *I, Value v, StrBuf *out)
{
    InstanceObj *o = (InstanceObj *)v.o;
    Value f = o->cls->dunder[D_repr];

    if (!is_err(f))
        return put_text(I, value_call(I, f, &v, 1), "__repr__", out);
    if (!is_err(o->base))
        return value_repr_to(I, o->base, out);
    if (is_exc_class(I, o->cls) && o->attrs)
        return exception_repr(I, o, out);
    sb_putc(out, '<');
    class_write_name(o->cls, out);
    sb_printf(out, " object at 0x%llx>", (unsigned long long)(uintptr_t)o);
    return true;
}

static bool native_repr(Interp *I, Value v, StrBuf *out)
{
    const NativeType *t = ((NativeInst *)v.o)->type;
    Value f;

    if (t->repr) {
        t->repr(I, v.o, out);
        return !exc_pending(I);
    }
    if (!is_err(f = class_of(I, v)->dunder[D_repr]))
        return put_text(I, value_call(I, f, &v, 1), "__repr__", out);
    at_address(out, t->name, "object", v.o);
    return true;
}

static bool form_part(Interp *I, Value v, StrBuf *out)
{
    if (v.tag == V_CLASS)
        class_write_name((ClassObj *)v.o, out);
    else if (v.tag == V_NONE)
        sb_puts(out, "None");
    else
        return value_repr_to(I, v, out);
    return true;
}

static bool form_repr(Interp *I, TypeFormObj *t, StrBuf *out)
{
    TupleObj *args = as_tuple(t->args);

    if (!form_part(I, t->origin, out))
        return false;
    sb_puts(out, t->op == '[' ? "[" : t->op == '|' ? " | " : " @ ");
    for (int64_t i = 0; i < args->n; i++) {
        if (i)
            sb_puts(out, ", ");
        if (!form_part(I, args->at[i], out))
            return false;
    }
    if (t->op == '[')
        sb_putc(out, ']');
    return true;
}

static bool bound_repr(Interp *I, BoundObj *b, StrBuf *out)
{
    sb_puts(out, "<bound method ");
    if (b->func.tag == V_FUNC)
        sb_puts(out, ((FuncObj *)b->func.o)->code->qualname);
    else if (b->func.tag == V_NATIVE)
        sb_puts(out, ((NativeObj *)b->func.o)->def->name);
    sb_puts(out, " of ");
    if (!value_repr_to(I, b->self, out))
        return false;
    sb_putc(out, '>');
    return true;
}

static bool class_repr(Interp *I, Value v, StrBuf *out)
{
    Value r = class_hook(I, v, "__class_repr__", NULL, 0);

    if (!is_err(r) || exc_pending(I))
        return put_text(I, r, "__class_repr__", out);
    sb_puts(out, "<class '");
    class_write_name((ClassObj *)v.o, out);
    sb_puts(out, "'>");
    return true;
}

bool object_repr_to(Interp *I, Value v, StrBuf *out)
{
    bool ok = true;

    if (!interp_enter(I))
        return false;
    switch (v.tag) {
    case V_INSTANCE: ok = instance_repr(I, v, out); break;
    case V_NATIVEOBJ: ok = native_repr(I, v, out); break;
    case V_TYPEFORM: ok = form_repr(I, (TypeFormObj *)v.o, out); break;
    case V_BOUND: ok = bound_repr(I, (BoundObj *)v.o, out); break;
    case V_CLASS: ok = class_repr(I, v, out); break;
    case V_FUNC: at_address(out, "function", ((FuncObj *)v.o)->code->qualname, v.o); break;
    case V_NATIVE: sb_printf(out, "<built-in function %s>", ((NativeObj *)v.o)->def->name); break;
    case V_MODULE: sb_printf(out, "<module '%s'>", ((ModuleObj *)v.o)->name->text); break;
    case V_GENERATOR: at_address(out, "generator object", ((GenObj *)v.o)->func->code->qualname, v.o); break;
    case V_COROUTINE: at_address(out, "coroutine object", ((GenObj *)v.o)->func->code->qualname, v.o); break;
    default: at_address(out, value_type_name(v), "object", v.o); break;
    }
    interp_leave(I);
    return ok;
}

bool object_str_to(Interp *I, Value v, StrBuf *out)
{
    Value f = v.tag == V_INSTANCE || v.tag == V_NATIVEOBJ ? class_of(I, v)->dunder[D_str] : VERR;
    bool ok;

    if (is_err(f)) {
        Value base = unwrap_base(v);
        if (base.o != v.o && (base.tag == V_STR || is_err(class_of(I, v)->dunder[D_repr])))        /* a text is its own, whatever its repr */
            return value_str_to(I, base, out);
        return object_repr_to(I, v, out);
    }
    if (!interp_enter(I))
        return false;
    ok = put_text(I, value_call(I, f, &v, 1), "__str__", out);
    interp_leave(I);
    return ok;
}
