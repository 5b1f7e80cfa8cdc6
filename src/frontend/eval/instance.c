/*
 * Instances: making them, and what every object can do.
 *
 * A call of a class makes a bare instance, fills the storage that a builtin's subclass has, and runs __init__.
 * The natives are object's own methods, those of exceptions, and `type`.
 */
#include "frontend/eval/eval.h"

/* ------------------------------------------------------------- making them */

Value instance_new(ClassObj *c)
{
    InstanceObj *o = obj_new(V_INSTANCE, sizeof *o);

    c->obj.refs++;
    o->cls = c;
    return vobj(o);
}

static bool user_init(const ClassObj *c) { return c->dunder[D_init].tag == V_FUNC; }

/* The storage of a builtin's subclass: what the builtin's __new__ makes of the arguments, or of none. */
static bool fill_base(Interp *I, InstanceObj *o, Value make, const Value *args, int nargs, const Value *kwvals,
                      const Sym *kwnames, int nkw)
{
    ClassObj *c = o->cls;
    Value *all, v;

    while (!(c->flags & CLASS_NATIVE))
        c = c->base;
    all = tsr_alloc(((size_t)nargs + 1) * sizeof *all);
    all[0] = vobj(c);
    copy_values(all + 1, args, nargs);
    v = value_call_kw(I, make, all, nargs + 1, kwvals, kwnames, nkw);
    tsr_free(all);
    if (is_err(v))
        return false;
    value_unref(o->base);
    o->base = v;
    return true;
}

bool is_exc_class(Interp *I, const ClassObj *c)
{
    return class_derives(c, I->exc_class[EXC_BaseException]);
}

static bool mutable_layout(const ClassObj *c) { return c->layout == V_LIST || c->layout == V_DICT || c->layout == V_SET; }

/* A bare instance of c, before __init__: its builtin storage or its exception arguments are set. */
static Value make_instance(Interp *I, ClassObj *c, const Value *args, int nargs, const Value *kwvals, const Sym *kwnames,
                           int nkw)
{
    Value self, make = c->dunder[D_new];
    InstanceObj *o;

    if (c == I->exc_class[EXC_OSError] && nargs >= 2 && args[0].tag == V_INT)
        c = I->exc_class[errno_class((int)args[0].i)];
    self = instance_new(c);
    o = (InstanceObj *)self.o;
    if (is_exc_class(I, c)) {
        Value t = tuple_new(nargs);
        for (int i = 0; i < nargs; i++)
            as_tuple(t)->at[i] = value_ref(args[i]);
        o->attrs = as_dict(dict_new());
        dict_set_sym(o->attrs, I->s_args, t);
        value_unref(t);
    } else if (make.tag == V_NATIVE) {
        bool none = user_init(c) && mutable_layout(c);
        if (!fill_base(I, o, make, args, none ? 0 : nargs, kwvals, kwnames, none ? 0 : nkw)) {
            value_unref(self);
            return VERR;
        }
    }
    return self;
}

static bool run_init(Interp *I, ClassObj *c, Value self, const Value *args, int nargs, const Value *kwvals,
                     const Sym *kwnames, int nkw)
{
    Value init = c->dunder[D_init], *all, r;

    if (is_err(init)) {
        if ((nargs || nkw) && !is_exc_class(I, c) && is_err(((InstanceObj *)self.o)->base) && is_err(c->dunder[D_new])) {
            raise(I, EXC_TypeError, "%s() takes no arguments", c->name->text);
            return false;
        }
        return true;
    }
    if (init.tag == V_NATIVE && !nkw && is_exc_class(I, c))     /* its arguments are kept already */
        return true;
    all = tsr_alloc(((size_t)nargs + 1) * sizeof *all);
    all[0] = self;
    copy_values(all + 1, args, nargs);
    r = value_call_kw(I, init, all, nargs + 1, kwvals, kwnames, nkw);
    tsr_free(all);
    if (!is_err(r) && r.tag != V_NONE) {
        raise(I, EXC_TypeError, "__init__() should return None, not '%s'", value_type_name(r));
        value_unref(r);
        return false;
    }
    return !is_err(r);
}

static Value call_new(Interp *I, ClassObj *c, const Value *args, int nargs, const Value *kwvals, const Sym *kwnames, int nkw)
{
    Value *all = tsr_alloc(((size_t)nargs + 1) * sizeof *all), r;

    all[0] = vobj(c);
    copy_values(all + 1, args, nargs);
    r = value_call_kw(I, c->dunder[D_new], all, nargs + 1, kwvals, kwnames, nkw);
    tsr_free(all);
    return r;
}

static Value raise_abstract(Interp *I, ClassObj *c)
{
    Value names = value_to_list(I, dict_get_sym(c->ns, sym("__abstractmethods__")));
    StrBuf text = {0};

    if (is_err(names) || !list_sort(I, as_list(names), VNONE, false)) {
        value_unref(names);
        return VERR;
    }
    for (int64_t i = 0; i < as_list(names)->n; i++)
        sb_printf(&text, "%s%s", i ? ", " : "", as_str(as_list(names)->at[i])->s);
    raise(I, EXC_TypeError, "Can't instantiate abstract class %s with abstract method%s %s", c->name->text,
          as_list(names)->n == 1 ? "" : "s", sb_str(&text));
    sb_done(&text);
    value_unref(names);
    return VERR;
}

Value class_call(Interp *I, ClassObj *c, const Value *args, int nargs, const Value *kwvals, const Sym *kwnames, int nkw)
{
    Value make = c->dunder[D_new], self;

    if (__builtin_expect(c->flags & (CLASS_ABSTRACT | CLASS_HOOKS), 0)) {
        if (c->flags & CLASS_ABSTRACT)
            return raise_abstract(I, c);
        if (!nkw && !is_err(self = class_hook(I, vobj(c), "__class_call__", args, nargs < 3 ? nargs : 0)))
            return self;
        if (exc_pending(I))
            return VERR;
    }
    if (!is_err(make) && ((c->flags & CLASS_NATIVE) || make.tag == V_FUNC)) {
        self = call_new(I, c, args, nargs, kwvals, kwnames, nkw);
        if (is_err(self) || (c->flags & CLASS_NATIVE) || self.tag != V_INSTANCE || !class_derives(class_of(I, self), c))
            return self;
    } else if (c->layout != V_INSTANCE && is_err(make) && (c->flags & CLASS_NATIVE)) {
        return raise(I, EXC_TypeError, "cannot create '%s' instances", c->name->text);
    } else {
        self = make_instance(I, c, args, nargs, kwvals, kwnames, nkw);
    }
    if (is_err(self))
        return self;
    if (!run_init(I, c, self, args, nargs, kwvals, kwnames, nkw)) {
        value_unref(self);
        return VERR;
    }
    return self;
}

/* ------------------------------------------------------------- natives: what every object can do */

/* super().__new__(cls, ...) */
static Value object_new(Interp *I, Value *a)
{
    TupleObj *args = as_tuple(a[1]);
    ClassObj *c = (ClassObj *)a[0].o, *native;

    if (a[0].tag != V_CLASS)
        return raise(I, EXC_TypeError, "__new__ needs a class, got '%s'", value_type_name(a[0]));
    if ((c->flags & CLASS_NATIVE) && c != I->object_class && c->dunder[D_new].tag == V_NATIVE && !is_exc_class(I, c))
        return call_new(I, c, args->at, (int)args->n, NULL, NULL, 0);
    for (native = c; !(native->flags & CLASS_NATIVE);)
        native = native->base;
    if (c == native && !is_err(c->dunder[D_new]))
        return call_new(I, c, args->at, (int)args->n, NULL, NULL, 0);
    if (is_exc_class(I, c) || native->layout == V_INSTANCE)
        return make_instance(I, c, args->at, (int)args->n, NULL, NULL, 0);
    Value self = instance_new(c);
    if (!fill_base(I, (InstanceObj *)self.o, native->dunder[D_new], args->at, (int)args->n, NULL, NULL, 0)) {
        value_unref(self);
        return VERR;
    }
    return self;
}

/* super().__init__(...): fills the storage of a builtin's subclass. */
static Value object_init(Interp *I, Value *a)
{
    TupleObj *args = as_tuple(a[1]);

    if (a[0].tag == V_INSTANCE && !is_err(((InstanceObj *)a[0].o)->base) && args->n) {
        ClassObj *c = class_of(I, a[0]);
        while (!(c->flags & CLASS_NATIVE))
            c = c->base;
        if (mutable_layout(c) &&
            !fill_base(I, (InstanceObj *)a[0].o, c->dunder[D_new], args->at, (int)args->n, NULL, NULL, 0))
            return VERR;
    }
    return VNONE;
}

/* The name in v, or NULL: TypeError is pending. */
static Sym attribute_name(Interp *I, Value v)
{
    if (v.tag == V_STR)
        return str_to_sym(as_str(v));
    raise(I, EXC_TypeError, "attribute name must be string, not '%s'", value_type_name(v));
    return NULL;
}

static Value object_setattr(Interp *I, Value *a)
{
    Sym name = attribute_name(I, a[1]);

    if (!name)
        return VERR;
    AttrCache c = {.name = name, .key = sym_obj(name), .hint = -1};
    return attr_store_plain(I, a[0], &c, value_ref(a[2])) ? VNONE : VERR;
}

static Value object_delattr(Interp *I, Value *a)
{
    Sym name = attribute_name(I, a[1]);

    if (!name)
        return VERR;
    return (a[0].tag == V_INSTANCE ? attr_delete_plain : value_delattr)(I, a[0], name) ? VNONE : VERR;
}

static Value object_getattribute(Interp *I, Value *a)
{
    Sym name = attribute_name(I, a[1]);

    if (!name)
        return VERR;
    AttrCache c = {.name = name, .key = sym_obj(name), .hint = -1};
    Value r = attr_plain(I, a[0], &c);

    return is_err(r) && !exc_pending(I) ? raise_no_attr(I, a[0], name) : r;
}

static Value object_init_subclass(Interp *I, Value *a)
{
    if (as_dict(a[1])->n)
        return raise(I, EXC_TypeError, "%s.__init_subclass__() takes no keyword arguments", ((ClassObj *)a[0].o)->name->text);
    return VNONE;
}

static Value object_eq(Interp *I, Value *a)
{
    return value_is(a[0], a[1]) ? vbool(true) : VNOTIMPL;
}

static Value object_hash(Interp *I, Value *a)
{
    return vint((int64_t)((uintptr_t)a[0].o >> 4));
}

static Value object_text(Interp *I, Value *a)
{
    StrBuf b = {0};

    sb_putc(&b, '<');
    class_write_name(class_of(I, a[0]), &b);
    sb_printf(&b, " object at 0x%llx>", (unsigned long long)(uintptr_t)a[0].o);
    return str_steal(&b);
}

static Value base_exc_init(Interp *I, Value *a)
{
    InstanceObj *e = (InstanceObj *)a[0].o;

    if (a[0].tag != V_INSTANCE || !e->attrs)
        return raise(I, EXC_TypeError, "an exception expected, got '%s'", value_type_name(a[0]));
    dict_set_sym(e->attrs, I->s_args, a[1]);
    return VNONE;
}

static Value base_exc_str(Interp *I, Value *a)
{
    return exc_str(I, (InstanceObj *)a[0].o);
}

static Value base_exc_with_traceback(Interp *I, Value *a)
{
    return value_ref(a[0]);
}

static Value base_exc_add_note(Interp *I, Value *a)
{
    InstanceObj *e = (InstanceObj *)a[0].o;
    Sym notes = sym("__notes__");
    Value l = dict_get_sym(e->attrs, notes);

    if (a[1].tag != V_STR)
        return raise(I, EXC_TypeError, "note must be a str, not '%s'", value_type_name(a[1]));
    if (is_err(l)) {
        l = list_new(1);
        dict_set_sym(e->attrs, notes, l);
        value_unref(l);
    }
    if (l.tag != V_LIST)
        return raise(I, EXC_TypeError, "Cannot add note: __notes__ is not a list");
    list_push(as_list(l), value_ref(a[1]));
    return VNONE;
}

/* The exception as it shows when nobody catches it. */
static Value exception_text(Interp *I, Value *a)
{
    StrBuf text = {0};
    Value r;

    if (a[0].tag != V_INSTANCE || !class_derives(class_of(I, a[0]), I->exc_class[EXC_BaseException]))
        return raise(I, EXC_TypeError, "an exception expected, got '%s'", value_type_name(a[0]));
    exc_render(I, a[0], &text);
    r = str_new(sb_str(&text), text.n);
    sb_done(&text);
    return r;
}

/* What the except block around is handling, as (class, exception, traceback). */
static Value exc_info(Interp *I, Value *a)
{
    Value e = I->handling;

    if (e.tag != V_INSTANCE)
        return tuple_of(3, VNONE, VNONE, VNONE);
    return tuple_of(3, value_type(I, e), value_ref(e), value_getattr(I, e, sym("__traceback__")));
}

static Value oserror_value(Interp *I, Value *a) { return value_ref(vobj(I->exc_class[EXC_OSError])); }

/* type(name, bases, namespace): a class as a class statement makes it. */
static Value class_by_hand(Interp *I, Value *a)
{
    Value name = unwrap_base(a[1]), bases = unwrap_base(a[2]), ns = unwrap_base(a[3]), cls, key, value;
    ClassObj *base = NULL;

    if (name.tag != V_STR || bases.tag != V_TUPLE || ns.tag != V_DICT)
        return raise(I, EXC_TypeError, "type() takes a name, a tuple of bases and a dict");
    if (as_tuple(bases)->n > 1)
        return raise(I, EXC_TypeError, "multiple inheritance is not in the language");
    if (as_tuple(bases)->n) {
        if (as_tuple(bases)->at[0].tag != V_CLASS)
            return raise(I, EXC_TypeError, "bases must be types");
        base = (ClassObj *)as_tuple(bases)->at[0].o;
    }
    for (int64_t pos = 0; dict_next(as_dict(ns), &pos, &key, &value);)
        if (key.tag != V_STR)
            return raise(I, EXC_TypeError, "the names of attributes are text, not '%s'", value_type_name(key));
    cls = class_new(I, str_to_sym(as_str(name)), base, as_dict(ns));
    class_complete(I, (ClassObj *)cls.o);
    return cls;
}

static Value type_new(Interp *I, Value *a)
{
    return is_err(a[2]) ? value_type(I, a[1]) : class_by_hand(I, a);
}

static Value ellipsis_value(Interp *I, Value *a) { return (Value){.tag = V_ELLIPSIS}; }
static Value notimpl_value(Interp *I, Value *a) { return VNOTIMPL; }

/* stand_for(x, v): natives take the object x for v, as they take one of a builtin's subclass for what it holds. */
static Value stand_for(Interp *I, Value *a)
{
    InstanceObj *o = (InstanceObj *)a[0].o;

    if (a[0].tag != V_INSTANCE)
        return raise(I, EXC_TypeError, "stand_for() needs an object, got '%s'", value_type_name(a[0]));
    value_ref(a[1]);
    value_unref(o->base);
    o->base = a[1];
    return VNONE;
}

const NativeDef natives_class[] = {
    {"", "type", NULL, "type[type]", "the class of a value"},
    {"type", "__new__", type_new, "(cls, x, bases: tuple = ..., namespace: dict = ..., /) -> Any", "the class of x; a class from a name, bases and attributes"},
    {"", "Ellipsis", ellipsis_value, "ellipsis", "the value of ..."},
    {"", "NotImplemented", notimpl_value, "NotImplementedType", "what a binary special method returns for operands it does not know"},
    {"", "IOError", oserror_value, "type[OSError]", "OSError's older name"},
    {"", "EnvironmentError", oserror_value, "type[OSError]", "OSError's older name"},
    {"", "object", NULL, "type[object]", "the base of all classes"},
    {"_core", "stand_for", stand_for, "(x, value) -> None", "natives take the object x for the value"},
    {"_core", "exception_text", exception_text, "(e) -> str", "the traceback and the message, as they show when nobody catches the exception"},
    {"sys", "exc_info", exc_info, "() -> tuple", "the class, the exception and the traceback that the except block around is handling; None three times outside of one"},
    {"BaseException", "__init__", base_exc_init, "(self, *args) -> None", "keep the arguments"},
    {"BaseException", "__str__", base_exc_str, "(self) -> str", "the message"},
    {"BaseException", "with_traceback", base_exc_with_traceback, "(self, tb: Any) -> Any", "the exception itself"},
    {"BaseException", "add_note", base_exc_add_note, "(self, note: str) -> None", "a line shown below the message"},
    {0},
};

/* Found by super() and by class access where nothing else is: these never shadow a class's own methods. */
const NativeDef object_methods[] = {
    {"object", "__new__", object_new, "(cls, *args) -> Any", "a bare instance"},
    {"object", "__init__", object_init, "(self, *args) -> None", "does nothing"},
    {"object", "__setattr__", object_setattr, "(self, name: str, value: Any) -> None", "set an attribute"},
    {"object", "__delattr__", object_delattr, "(self, name: str) -> None", "delete an attribute"},
    {"object", "__getattribute__", object_getattribute, "(self, name: str) -> Any", "get an attribute"},
    {"object", "__init_subclass__", object_init_subclass, "(self, **keywords) -> None", "does nothing"},
    {"object", "__eq__", object_eq, "(self, other: Any) -> bool", "identity"},
    {"object", "__hash__", object_hash, "(self) -> int", "by identity"},
    {"object", "__repr__", object_text, "(self) -> str", "<X object at ...>"},
    {"object", "__str__", object_text, "(self) -> str", "<X object at ...>"},
    {0},
};
