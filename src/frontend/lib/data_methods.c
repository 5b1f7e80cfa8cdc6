/*
 * The methods of dataclasses: one native type, told apart by its kind.
 *
 * __init__ binds its own arguments against the fields; the messages are those
 * of a function with that signature.  It stores straight into the instance
 * unless the class watches assignments itself.
 */
#include "frontend/lib/dataclasses.h"

#include "base/hash.h"
#include "frontend/syntax/ast.h"
#include "frontend/tensor/tensor_ops.h"

#include <string.h>

enum { BEING_WRITTEN = 1 << 15 };

typedef struct Method { NativeInst head; Value fields; ClassObj *owner; DataMethod kind; Sym post; } Method;

static void method_free(void *p) { value_unref(((Method *)p)->fields); }
static void method_visit(void *p, void (*fn)(Value *, void *), void *st) { fn(&((Method *)p)->fields, st); }

/* ------------------------------------------------------------- __init__ */

typedef struct Bind {
    Interp *I;
    const Method *m;
    DictObj *fields;
    Value *val;                 /* by place in the fields, borrowed; V_ERR: not given */
    const char *cls;
} Bind;

static int count_positional(const Bind *b, int *required)
{
    Value k, v;
    int64_t pos = 0;
    int n = 0;

    *required = 0;
    while (dict_next(b->fields, &pos, &k, &v)) {
        const Field *f = as_field(v);
        if (!f->init || f->kw_only)
            continue;
        n++;
        *required += is_err(f->dflt) && is_err(f->factory);
    }
    return n;
}

static bool bind_positional(Bind *b, Value *args, int nargs)
{
    Value k, v;
    int64_t pos = 0, i = 0;
    int used = 0, required, n;

    while (used < nargs && dict_next(b->fields, &pos, &k, &v)) {
        const Field *f = as_field(v);
        if (f->init && !f->kw_only)
            b->val[i] = args[used++];
        i++;
    }
    if (used == nargs)
        return true;
    n = count_positional(b, &required);
    if (required < n)
        raise(b->I, EXC_TypeError, "%s.__init__() takes from %d to %d positional arguments but %d were given", b->cls,
              required + 1, n + 1, nargs + 1);
    else
        raise(b->I, EXC_TypeError, "%s.__init__() takes %d positional argument%s but %d were given", b->cls, n + 1,
              n ? "s" : "", nargs + 1);
    return false;
}

static bool bind_keyword(Bind *b, Sym name, Value x)
{
    Value k, v;
    int64_t pos = 0, i = 0;

    for (; dict_next(b->fields, &pos, &k, &v); i++) {
        const Field *f = as_field(v);
        if (f->name != name || !f->init)
            continue;
        if (!is_err(b->val[i])) {
            raise(b->I, EXC_TypeError, "%s.__init__() got multiple values for argument '%s'", b->cls, name->text);
            return false;
        }
        b->val[i] = x;
        return true;
    }
    raise(b->I, EXC_TypeError, "%s.__init__() got an unexpected keyword argument '%s'", b->cls, name->text);
    return false;
}

/* "missing 2 required positional arguments: 'x' and 'y'" */
static bool check_missing(Bind *b)
{
    StrBuf names = {0};
    const Field *missing[64];
    Value k, v;
    int64_t pos = 0, i = 0;
    int n = 0;
    bool kw_only = false;

    for (; dict_next(b->fields, &pos, &k, &v); i++) {
        const Field *f = as_field(v);
        if (f->init && is_err(b->val[i]) && is_err(f->dflt) && is_err(f->factory) && n < 64)
            missing[n++] = f;
    }
    if (!n)
        return true;
    for (int j = 0; j < n; j++) {
        sb_printf(&names, "%s'%s'", !j ? "" : j + 1 < n ? ", " : n > 2 ? ", and " : " and ", missing[j]->name->text);
        kw_only = missing[j]->kw_only;
    }
    raise(b->I, EXC_TypeError, "%s.__init__() missing %d required %s argument%s: %s", b->cls, n,
          kw_only ? "keyword-only" : "positional", n == 1 ? "" : "s", names.s);
    sb_done(&names);
    return false;
}

/* Does the class see stores itself: a __setattr__ of its own, or a property of the field's name? */
static bool watched(const ClassObj *c, Sym name)
{
    Value set = c->dunder[D_setattr];

    if (!is_err(set) && set.tag != V_NATIVE && set.tag != V_NATIVEOBJ)
        return true;
    for (; c; c = c->base) {
        Value v = c->ns ? dict_get_sym(c->ns, name) : VERR;
        if (!is_err(v))
            return v.tag == V_PROPERTY;
    }
    return false;
}

Value field_get(Interp *I, Value obj, const Field *f)
{
    InstanceObj *o = (InstanceObj *)obj.o;
    Value v = obj.tag == V_INSTANCE && o->attrs && !(o->cls->flags & CLASS_GETATTRIBUTE) ? dict_get_sym(o->attrs, f->name) : VERR;

    if (!is_err(v) && !watched(o->cls, f->name))
        return value_ref(v);
    return value_getattr(I, obj, f->name);
}

static bool store(Interp *I, Value self, Sym name, Value v)
{
    InstanceObj *o = (InstanceObj *)self.o;

    if (watched(o->cls, name))
        return value_setattr(I, self, name, v);
    if (!o->attrs)
        o->attrs = as_dict(dict_new());
    dict_set_sym(o->attrs, name, v);
    return true;
}

/* The value for a field: given, made, default, as it is declared; V_ERR without pending when there is none. New reference. */
static Value initial(Interp *I, const Field *f, Value given)
{
    Value x = !is_err(given) ? value_ref(given) : is_err(f->factory) ? value_ref(f->dflt) : value_call(I, f->factory, NULL, 0), y;

    if (x.tag != V_TENSOR || is_err(f->element))
        return x;
    y = tensor_as_declared(I, x, f->element);
    value_unref(x);
    return y;
}

static bool store_all(Bind *b, Value self, Value post_args)
{
    Value k, v;
    int64_t pos = 0, i = 0;

    for (; dict_next(b->fields, &pos, &k, &v); i++) {
        const Field *f = as_field(v);
        Value x = initial(b->I, f, b->val[i]);
        bool ok = true;
        if (is_err(x)) {
            if (exc_pending(b->I))
                return false;
            continue;
        }
        if (f->initvar)
            list_push(as_list(post_args), value_ref(x));
        else
            ok = store(b->I, self, f->name, x);
        value_unref(x);
        if (!ok)
            return false;
    }
    return true;
}

static bool defines_anywhere(const ClassObj *c, Sym name)
{
    for (; c; c = c->base)
        if (c->ns && !is_err(dict_get_sym(c->ns, name)))
            return true;
    return false;
}

static bool post_init(Interp *I, const Method *m, Value self, Value args)
{
    Value f, r;

    if (!defines_anywhere(((InstanceObj *)self.o)->cls, m->post))
        return true;
    f = value_getattr_opt(I, self, m->post);
    if (is_err(f))
        return !exc_pending(I);
    r = value_call(I, f, as_list(args)->at, (int)as_list(args)->n);
    value_unref(f);
    value_unref(r);
    return !is_err(r);
}

static Value run_init(Interp *I, Method *m, Value *args, int nargs, Value *kwvals, Sym *kwnames, int nkw)
{
    Bind b = {.I = I, .m = m, .fields = as_dict(m->fields), .cls = m->owner->name->text};
    Value post = list_new(0), few[16] = {VERR};
    bool ok, is_small = b.fields->n < 16;

    b.val = is_small ? few : tsr_calloc((size_t)(b.fields->n + 1) * sizeof *b.val);
    ok = bind_positional(&b, args + 1, nargs - 1);
    for (int i = 0; ok && i < nkw; i++)
        ok = bind_keyword(&b, kwnames[i], kwvals[i]);
    ok = ok && check_missing(&b) && store_all(&b, args[0], post) && post_init(I, m, args[0], post);
    if (!is_small)
        tsr_free(b.val);
    value_unref(post);
    return ok ? VNONE : VERR;
}

/* ------------------------------------------------------------- __repr__ */

static bool put_fields(Interp *I, const Method *m, Value self, StrBuf *b)
{
    Value k, v;
    int64_t pos = 0;
    bool first = true;

    while (dict_next(as_dict(m->fields), &pos, &k, &v)) {
        const Field *f = as_field(v);
        Value x;
        bool ok;
        if (!f->repr || f->initvar)
            continue;
        x = field_get(I, self, f);
        if (is_err(x))
            return false;
        sb_printf(b, "%s%s=", first ? "" : ", ", f->name->text);
        first = false;
        ok = value_repr_to(I, x, b);
        value_unref(x);
        if (!ok)
            return false;
    }
    return true;
}

static Value run_repr(Interp *I, const Method *m, Value self)
{
    StrBuf b = {0};
    bool ok;

    if (self.o->flags & BEING_WRITTEN)
        return str_c("...");
    self.o->flags |= BEING_WRITTEN;
    const ClassObj *c = ((InstanceObj *)self.o)->cls;
    sb_printf(&b, "%s(", c->qualname ? c->qualname : c->name->text);
    ok = put_fields(I, m, self, &b);
    self.o->flags &= (uint16_t)~BEING_WRITTEN;
    sb_putc(&b, ')');
    if (ok)
        return str_steal(&b);
    sb_done(&b);
    return VERR;
}

/* ------------------------------------------------------------- comparing, hashing */

/* The fields that count, as a tuple. */
static Value compared(Interp *I, const Method *m, Value self, bool for_hash)
{
    Value l = list_new(8), k, v, t;
    int64_t pos = 0;

    while (dict_next(as_dict(m->fields), &pos, &k, &v)) {
        const Field *f = as_field(v);
        Value x;
        if (f->initvar || !(for_hash && f->hash >= 0 ? f->hash : f->compare))
            continue;
        x = field_get(I, self, f);
        if (is_err(x)) {
            value_unref(l);
            return VERR;
        }
        list_push(as_list(l), x);
    }
    t = tuple_from(I, l);
    value_unref(l);
    return t;
}

/* Are the fields that count equal, one by one? 1, 0, -1 */
static int fields_equal(Interp *I, const Method *m, Value a, Value b)
{
    Value k, v;
    int64_t pos = 0;
    int r = 1;

    while (r > 0 && dict_next(as_dict(m->fields), &pos, &k, &v)) {
        const Field *f = as_field(v);
        Value x, y;
        if (f->initvar || !f->compare)
            continue;
        x = field_get(I, a, f);
        y = is_err(x) ? VERR : field_get(I, b, f);
        r = is_err(y) ? -1 : value_is(x, y) ? 1 : value_equal(I, x, y);
        value_unref(x);
        value_unref(y);
    }
    return r;
}

static Value run_compare(Interp *I, const Method *m, Value a, Value b, int op)
{
    Value x, y;
    int r;

    if (op == AOP_EQ && b.tag == V_INSTANCE && ((InstanceObj *)b.o)->cls == ((InstanceObj *)a.o)->cls) {
        r = fields_equal(I, m, a, b);
        return r < 0 ? VERR : vbool(r);
    }
    if (b.tag != V_INSTANCE || ((InstanceObj *)b.o)->cls != ((InstanceObj *)a.o)->cls)
        return VNOTIMPL;
    x = compared(I, m, a, false);
    y = is_err(x) ? VERR : compared(I, m, b, false);
    r = is_err(y) ? -1 : seq_compare(I, op, x, y);
    value_unref(x);
    value_unref(y);
    return r < 0 ? VERR : vbool(r);
}

static Value run_hash(Interp *I, const Method *m, Value self)
{
    Value t = compared(I, m, self, true);
    uint32_t h = 0;
    bool ok = !is_err(t) && value_hash(I, t, &h);

    value_unref(t);
    return ok ? vint((int64_t)hash_u64_inverse(h)) : VERR;
}

static Value refuse(Interp *I, const char *what, Value name)
{
    return raise(I, EXC_FrozenInstanceError, "cannot %s field '%s'", what, name.tag == V_STR ? as_str(name)->s : "?");
}

static Value method_call(Interp *I, void *p, Value *args, int nargs, Value *kwvals, Sym *kwnames, int nkw)
{
    static const int op[] = {[DM_EQ] = AOP_EQ, [DM_LT] = AOP_LT, [DM_LE] = AOP_LE, [DM_GT] = AOP_GT, [DM_GE] = AOP_GE};
    Method *m = p;

    if (!nargs || args[0].tag != V_INSTANCE)
        return raise(I, EXC_TypeError, "a method of dataclass %s needs an instance", m->owner->name->text);
    switch (m->kind) {
    case DM_INIT: return run_init(I, m, args, nargs, kwvals, kwnames, nkw);
    case DM_REPR: return run_repr(I, m, args[0]);
    case DM_HASH: return run_hash(I, m, args[0]);
    default: break;
    }
    if (nargs < 2)
        return raise(I, EXC_TypeError, "missing an argument");
    if (m->kind == DM_SETATTR || m->kind == DM_DELATTR)
        return refuse(I, m->kind == DM_SETATTR ? "assign to" : "delete", args[1]);
    return run_compare(I, m, args[0], args[1], op[m->kind]);
}

static Value method_getattr(Interp *I, void *p, Sym name)
{
    static const char *const text[] = {"__init__", "__repr__", "__eq__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__",
                                       "__setattr__", "__delattr__"};

    return !strcmp(name->text, "__name__") ? str_c(text[((Method *)p)->kind]) : VERR;
}

static const NativeType method_type = {"function", method_free, method_visit, .call = method_call, .getattr = method_getattr,
                                       .binds = true};

Value data_method_new(DataMethod kind, ClassObj *owner, Value fields)
{
    Method *m = nativeobj_new(&method_type, sizeof *m);

    m->fields = value_ref(fields);
    m->owner = owner;           /* the class owns the method, not the other way round */
    m->kind = kind;
    m->post = sym("__post_init__");
    return vobj(m);
}
