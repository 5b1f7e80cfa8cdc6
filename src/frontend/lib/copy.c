/*
 * The module copy.
 *
 * copy makes a new container of the same elements; deepcopy copies what is
 * reached as well, each object once, so shared parts stay shared and cycles
 * stay cycles.  Tensors are values: a new reference is a copy.
 */
#include "frontend/lib/lib.h"

#include "base/map.h"

static Value copy_instance(Interp *I, InstanceObj *o)
{
    InstanceObj *n = obj_new(V_INSTANCE, sizeof *n);

    o->cls->obj.refs++;
    n->cls = o->cls;
    if (o->attrs) {
        Value d = dict_copy(I, o->attrs);
        if (is_err(d)) {
            value_unref(vobj(n));
            return VERR;
        }
        n->attrs = as_dict(d);
    }
    n->base = VERR;
    return vobj(n);
}

static Value by_method(Interp *I, Value v, const char *name, const Value *args, int nargs)
{
    Value m = v.tag == V_INSTANCE || v.tag == V_NATIVEOBJ ? value_getattr_opt(I, v, sym(name)) : VERR, r;

    if (is_err(m))
        return VERR;
    r = value_call(I, m, args, nargs);
    value_unref(m);
    return r;
}

static Value set_copy(Interp *I, Value v)
{
    Value s = set_new();

    s.o->flags = v.o->flags;
    if (set_update(I, as_dict(s), v))
        return s;
    value_unref(s);
    return VERR;
}

static Value shallow(Interp *I, Value v)
{
    Value r;

    switch (v.tag) {
    case V_LIST: return value_to_list(I, v);
    case V_DICT: return dict_copy(I, as_dict(v));
    case V_SET: return set_copy(I, v);
    case V_NATIVEOBJ:
        r = by_method(I, v, "copy", NULL, 0);
        return is_err(r) && !exc_pending(I) ? value_ref(v) : r;
    case V_INSTANCE: break;
    default: return value_ref(v);
    }
    r = by_method(I, v, "__copy__", NULL, 0);
    if (!is_err(r) || exc_pending(I))
        return r;
    r = copy_instance(I, (InstanceObj *)v.o);
    if (!is_err(r) && !is_err(((InstanceObj *)v.o)->base)) {
        Value base = shallow(I, ((InstanceObj *)v.o)->base);
        if (is_err(base)) {
            value_unref(r);
            return VERR;
        }
        ((InstanceObj *)r.o)->base = base;
    }
    return r;
}

static Value f_copy(Interp *I, Value *a) { return shallow(I, a[0]); }

/* ------------------------------------------------------------- deep */

typedef struct Deep {
    Interp *I;
    Map seen;                   /* object -> its copy, borrowed */
    Value memo;                 /* the dict that __deepcopy__ gets; also keeps the copies alive */
} Deep;

static Value deep(Deep *d, Value v);

static void note(Deep *d, Value from, Value to)
{
    map_set_ptr(&d->seen, from.o, to.o);
}

static Value deep_list(Deep *d, Value v)
{
    Value out = list_new(as_list(v)->n);

    note(d, v, out);
    for (int64_t i = 0; i < as_list(v)->n; i++) {
        Value x = deep(d, as_list(v)->at[i]);
        if (is_err(x)) {
            value_unref(out);
            return VERR;
        }
        list_push(as_list(out), x);
    }
    return out;
}

static Value deep_tuple(Deep *d, Value v)
{
    int64_t n = as_tuple(v)->n;
    Value out = tuple_new(n);
    bool same = true;
    uintptr_t made;

    for (int64_t i = 0; i < n; i++)
        as_tuple(out)->at[i] = VNONE;
    for (int64_t i = 0; i < n; i++) {
        Value x = deep(d, as_tuple(v)->at[i]);
        if (is_err(x)) {
            value_unref(out);
            return VERR;
        }
        same = same && value_is(x, as_tuple(v)->at[i]);
        as_tuple(out)->at[i] = x;
    }
    if (map_find(&d->seen, (uintptr_t)v.o, &made) || same) {    /* a cycle made it already, or nothing in it was copied */
        value_unref(out);
        return same ? value_ref(v) : value_ref(vobj((Obj *)made));
    }
    note(d, v, out);
    return out;
}

static bool deep_entries(Deep *d, DictObj *from, DictObj *to)
{
    Value k, v;
    int64_t pos = 0;

    while (dict_next(from, &pos, &k, &v)) {
        value_ref(k), value_ref(v);             /* __deepcopy__ may change what it is copied from */
        Value x = deep(d, k), y = is_err(x) ? VERR : from->obj.kind == V_SET ? VNONE : deep(d, v);
        bool ok = !is_err(y) && dict_set(d->I, to, x, y);
        value_unref(x);
        value_unref(y);
        value_unref(k), value_unref(v);
        if (!ok)
            return false;
    }
    return true;
}

static Value deep_dict(Deep *d, Value v)
{
    Value out = v.tag == V_SET ? set_new() : dict_new();

    out.o->flags = v.o->flags;
    note(d, v, out);
    if (deep_entries(d, as_dict(v), as_dict(out)))
        return out;
    value_unref(out);
    return VERR;
}

static Value deep_instance(Deep *d, Value v)
{
    InstanceObj *o = (InstanceObj *)v.o, *n;
    Value out = by_method(d->I, v, "__deepcopy__", &d->memo, 1), attrs;

    if (!is_err(out) || exc_pending(d->I))
        return out;
    n = obj_new(V_INSTANCE, sizeof *n);
    o->cls->obj.refs++;
    n->cls = o->cls;
    n->base = VERR;
    out = vobj(n);
    note(d, v, out);
    if (o->attrs) {
        attrs = dict_new();
        n->attrs = as_dict(attrs);
        if (!deep_entries(d, o->attrs, n->attrs))
            goto fail;
    }
    if (!is_err(o->base) && is_err(n->base = deep(d, o->base)))
        goto fail;
    return out;
fail:
    value_unref(out);
    return VERR;
}

/* An object made in C that is a sequence (deque): copied by its method, then its elements replaced. */
static Value deep_native(Deep *d, Value v)
{
    Value out = by_method(d->I, v, "copy", NULL, 0);
    int64_t n;

    if (is_err(out))
        return exc_pending(d->I) ? VERR : value_ref(v);
    note(d, v, out);
    n = value_len(d->I, out);
    for (int64_t i = 0; i < n; i++) {
        Value x = value_getitem(d->I, out, vint(i)), y = is_err(x) ? VERR : deep(d, x), to = out;
        bool ok = !is_err(y) && value_setitem(d->I, &to, vint(i), y);
        value_unref(x);
        value_unref(y);
        if (!ok) {
            value_unref(out);
            return VERR;
        }
    }
    if (n >= 0)
        return out;
    value_unref(out);
    return VERR;
}

static Value deep(Deep *d, Value v)
{
    uintptr_t made;
    Value out;

    switch (v.tag) {
    case V_LIST: case V_TUPLE: case V_DICT: case V_SET: case V_INSTANCE: case V_NATIVEOBJ: break;
    default: return value_ref(v);
    }
    if (map_find(&d->seen, (uintptr_t)v.o, &made))
        return value_ref(vobj((Obj *)made));
    if (!interp_enter(d->I))
        return VERR;
    out = v.tag == V_LIST ? deep_list(d, v) : v.tag == V_TUPLE ? deep_tuple(d, v)
          : v.tag == V_INSTANCE ? deep_instance(d, v) : v.tag == V_NATIVEOBJ ? deep_native(d, v) : deep_dict(d, v);
    interp_leave(d->I);
    return out;
}

Value value_deepcopy(Interp *I, Value v)
{
    Deep d = {.I = I, .memo = dict_new()};
    Value out = deep(&d, v);

    map_done(&d.seen);
    value_unref(d.memo);
    return out;
}

static Value f_deepcopy(Interp *I, Value *a) { return value_deepcopy(I, a[0]); }

const NativeDef natives_copy[] = {
    {"", "copy", f_copy, "(x, /)", "A shallow copy: a new container of the same elements."},
    {"copy", "copy", f_copy, "(x, /)", "A shallow copy: a new container of the same elements."},
    {"", "deepcopy", f_deepcopy, "(x, memo=None, /)", "A copy of all that is reached; shared parts stay shared."},
    {"copy", "deepcopy", f_deepcopy, "(x, memo=None, /)", "A copy of all that is reached; shared parts stay shared."},
    {0},
};
