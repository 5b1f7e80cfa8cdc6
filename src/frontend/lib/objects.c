/* The builtin functions about objects: identity, classes, attributes, iterators' next element. */
#include "frontend/lib/lib.h"

#include "base/hash.h"
#include "frontend/check/scope.h"
#include "frontend/check/spaces.h"
#include "frontend/eval/eval.h"

#include <math.h>

static Value f_hash(Interp *I, Value *a)
{
    Value v = unwrap_base(a[0]);
    uint32_t h;

    if (v.tag == V_INT || v.tag == V_BOOL)
        return vint(v.i);
    if (v.tag == V_FLOAT && v.f == floor(v.f) && fabs(v.f) < 9e18)
        return vint((int64_t)v.f);
    if (a[0].tag == V_INSTANCE && value_dunder(I, a[0], D_hash).tag == V_FUNC) {
        Value r = value_call_dunder(I, a[0], D_hash, NULL, 0);
        if (is_err(r) || r.tag == V_INT || r.tag == V_BOOL)
            return is_err(r) ? VERR : vint(r.i);
        value_unref(r);
        return raise(I, EXC_TypeError, "__hash__ method should return an integer");
    }
    return value_hash(I, a[0], &h) ? vint((int64_t)hash_u64_inverse(h)) : VERR;     /* so that __hash__ may give the hash of anything */
}

static Value f_id(Interp *I, Value *a)
{
    return vint(is_obj(a[0]) ? (int64_t)(uintptr_t)a[0].o : (int64_t)((uint64_t)a[0].i << 4 | a[0].tag) & INT64_MAX);
}

static Value f_callable(Interp *I, Value *a) { return vbool(value_is_callable(a[0])); }

static Value f_isinstance(Interp *I, Value *a)
{
    bool r = value_isinstance(I, a[0], a[1]);
    return exc_pending(I) ? VERR : vbool(r);
}

/* Enumerations of texts and ints are written in the library: what their members are, too. */
static bool stands_for(ClassObj *c, ClassObj *from)
{
    Value other = class_find(c, sym("__stands_for__"), NULL);
    return other.tag == V_CLASS && class_derives((ClassObj *)other.o, from);
}

static int derives(Interp *I, ClassObj *c, Value from)
{
    if (from.tag == V_CLASS) {
        bool yes = class_includes(I, (ClassObj *)from.o, c) || (!exc_pending(I) && stands_for(c, (ClassObj *)from.o));
        return exc_pending(I) ? -1 : yes;
    }
    if (from.tag == V_TYPEFORM && ((TypeFormObj *)from.o)->op == '|') {
        int r = derives(I, c, ((TypeFormObj *)from.o)->origin);
        return r ? r : derives(I, c, as_tuple(((TypeFormObj *)from.o)->args)->at[0]);
    }
    if (from.tag == V_INSTANCE) {
        Value check = value_getattr_opt(I, from, sym("__subclasscheck__")), cls = vobj(c), r;
        if (!is_err(check)) {
            r = value_call(I, check, &cls, 1);
            int yes = is_err(r) ? -1 : value_truth(I, r);
            value_unref(r);
            value_unref(check);
            return yes;
        }
        if (exc_pending(I))
            return -1;
    }
    if (from.tag != V_TUPLE) {
        raise(I, EXC_TypeError, "issubclass() arg 2 must be a class, a tuple of classes, or a union");
        return -1;
    }
    for (int64_t i = 0; i < as_tuple(from)->n; i++) {
        int r = derives(I, c, as_tuple(from)->at[i]);
        if (r)
            return r;
    }
    return 0;
}

static Value f_issubclass(Interp *I, Value *a)
{
    int r;

    if (a[0].tag != V_CLASS)
        return raise(I, EXC_TypeError, "issubclass() arg 1 must be a class");
    r = derives(I, (ClassObj *)a[0].o, a[1]);
    return r < 0 ? VERR : vbool(r);
}

static Sym attr_name(Interp *I, Value v)
{
    Value s = unwrap_base(v);

    if (s.tag == V_STR)
        return sym_n(as_str(s)->s, as_str(s)->len);
    raise(I, EXC_TypeError, "attribute name must be string, not '%s'", value_type_name(v));
    return NULL;
}

static Value f_getattr(Interp *I, Value *a)
{
    Sym name = attr_name(I, a[1]);
    Value r;

    if (!name)
        return VERR;
    if (is_err(a[2]))
        return value_getattr(I, a[0], name);
    r = value_getattr_opt(I, a[0], name);
    if (!is_err(r))
        return r;
    if (exc_pending(I)) {
        if (!exc_matches(I, EXC_AttributeError))
            return VERR;
        exc_clear(I);
    }
    return value_ref(a[2]);
}

static Value f_hasattr(Interp *I, Value *a)
{
    Sym name = attr_name(I, a[1]);
    Value r = name ? value_getattr_opt(I, a[0], name) : VERR;

    value_unref(r);
    if (is_err(r) && exc_pending(I)) {
        if (!name || !exc_matches(I, EXC_AttributeError))
            return VERR;
        exc_clear(I);
    }
    return vbool(!is_err(r));
}

static Value f_setattr(Interp *I, Value *a)
{
    Sym name = attr_name(I, a[1]);
    return name && value_setattr(I, a[0], name, a[2]) ? VNONE : VERR;
}

static Value f_delattr(Interp *I, Value *a)
{
    Sym name = attr_name(I, a[1]);
    return name && value_delattr(I, a[0], name) ? VNONE : VERR;
}

static Value f_vars(Interp *I, Value *a)
{
    if (is_err(a[0]))
        return value_call(I, prelude_get(I, "locals"), NULL, 0);
    Value d = value_getattr_opt(I, a[0], sym("__dict__"));

    if (!is_err(d) || exc_pending(I))
        return d;
    return raise(I, EXC_TypeError, "vars() argument must have __dict__ attribute");
}

static bool add_names(Interp *I, SetObj *out, DictObj *from)
{
    Value k, v;
    int64_t pos = 0;

    while (from && dict_next(from, &pos, &k, &v))
        if (k.tag == V_STR && !set_add(I, out, k))
            return false;
    return true;
}

static bool add_sym(Interp *I, SetObj *out, Sym name)
{
    return set_add(I, out, str_sym(name));
}

/* A module's own names; of a built-in one also those that are made on first use. */
static bool add_module_names(Interp *I, SetObj *out, ModuleObj *m)
{
    const Space *builtin = m->path ? NULL : space_builtin(m->name->text);
    bool ok = add_names(I, out, m->attrs);

    for (int i = 0; ok && builtin && i < builtin->names.n; i++)
        ok = add_sym(I, out, builtin->names.at[i]);
    for (int i = 0; ok && m->scope && i < m->scope->locals.n; i++)
        ok = i >= m->nslots || is_err(m->slot[i]) || add_sym(I, out, m->scope->locals.at[i].name);
    return ok;
}

/* Names of the attributes of an object, its class and its bases; V_ERR: pending. */
static Value attribute_names(Interp *I, Value *a)
{
    Value names = set_new(), cls = a[0].tag == V_CLASS ? value_ref(a[0]) : value_type(I, a[0]), list = VERR;
    bool ok = !is_err(cls);

    if (a[0].tag == V_INSTANCE)
        ok = ok && add_names(I, as_dict(names), ((InstanceObj *)a[0].o)->attrs);
    if (a[0].tag == V_MODULE)
        ok = ok && add_module_names(I, as_dict(names), (ModuleObj *)a[0].o);
    for (ClassObj *c = ok ? (ClassObj *)cls.o : NULL; ok && c; c = c->base)
        ok = add_names(I, as_dict(names), c->ns);
    if (ok)
        list = value_to_list(I, names);
    value_unref(cls);
    value_unref(names);
    return list;
}

/* dir(x): those names, or what its __dir__ gives, sorted. */
static Value f_dir(Interp *I, Value *a)
{
    Value own = a[0].tag == V_INSTANCE ? value_getattr_opt(I, a[0], sym("__dir__")) : VERR, list, names;

    if (exc_pending(I))
        return VERR;
    if (is_err(own)) {
        list = attribute_names(I, a);
    } else {
        names = value_call(I, own, NULL, 0);
        list = is_err(names) ? VERR : value_to_list(I, names);
        value_unref(names);
        value_unref(own);
    }
    if (!is_err(list) && !list_sort(I, as_list(list), VNONE, false)) {
        value_unref(list);
        return VERR;
    }
    return list;
}

Value raise_exit(Interp *I, Value code)
{
    Value cls = vobj(exc_class(I, EXC_SystemExit)), e = value_call(I, cls, &code, is_given(code));

    if (is_err(e))
        return VERR;
    raise_value(I, e);
    value_unref(e);
    return VERR;
}

static Value f_exit(Interp *I, Value *a) { return raise_exit(I, a[0]); }

/* ------------------------------------------------------------- iterating */

static Value f_next(Interp *I, Value *a)
{
    Value r = value_next(I, a[0]);

    if (!is_err(r) || exc_pending(I))
        return r;
    return is_err(a[1]) ? raise_stop(I, a[0]) : value_ref(a[1]);
}

const NativeDef natives_objects[] = {
    {"", "hash", f_hash, "(obj, /) -> int", "An int that is equal for equal values; TypeError for values that can change."},
    {"", "id", f_id, "(obj, /) -> int", "An int that is the object's alone while it lives."},
    {"", "callable", f_callable, "(obj, /) -> bool", "Can it be called?"},
    {"", "isinstance", f_isinstance, "(obj, class_or_tuple, /) -> bool", "Is obj an instance of the class, of one of them, or of a subclass?"},
    {"", "issubclass", f_issubclass, "(cls, class_or_tuple, /) -> bool", "Is cls the class, one of them, or derived from it?"},
    {"", "getattr", f_getattr, "(object, name: str, default=..., /)", "object.name; without it default, or AttributeError."},
    {"", "hasattr", f_hasattr, "(obj, name: str, /) -> bool", "Has it that attribute?"},
    {"", "setattr", f_setattr, "(obj, name: str, value, /) -> None", "obj.name = value"},
    {"", "delattr", f_delattr, "(obj, name: str, /) -> None", "del obj.name"},
    {"", "vars", f_vars, "(object=..., /) -> dict", "The attributes of an instance, class or module; without one, locals()."},
    {"", "dir", f_dir, "(object, /) -> list[str]", "Names of the attributes, sorted."},
    {"", "next", f_next, "(iterator, default=..., /)", "The iterator's next element; at its end default, or StopIteration."},
    {"", "exit", f_exit, "(code=None, /) -> None", "Leave the program: SystemExit."},
    {"", "quit", f_exit, "(code=None, /) -> None", "Leave the program: SystemExit."},
    {0},
};
