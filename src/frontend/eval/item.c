/*
 * Subscripts, membership and length of any value.
 */
#include "frontend/eval/eval.h"

#include <math.h>
#include <string.h>

static Value method_or(Interp *I, Value v, Dunder d, const Value *args, int nargs, bool *found)
{
    Value f = v.tag == V_INSTANCE || v.tag == V_NATIVEOBJ ? class_of(I, v)->dunder[d] : VERR, all[4] = {v};

    *found = !is_err(f) && f.tag != V_NONE;
    if (!*found)
        return VERR;
    for (int i = 0; i < nargs; i++)
        all[i + 1] = args[i];
    return value_call(I, f, all, nargs + 1);
}

/* ------------------------------------------------------------- v[key] */

static Value dict_item(Interp *I, Value v, Value self, Value key)
{
    Value x = dict_get(I, as_dict(v), key);
    bool found;

    if (!is_err(x))
        return value_ref(x);
    if (exc_pending(I))
        return VERR;
    x = method_or(I, self, D_missing, &key, 1, &found);
    return found ? x : raise_key_error(I, key);
}

static bool is_sequence(Value v)
{
    return v.tag == V_LIST || v.tag == V_TUPLE || v.tag == V_STR || v.tag == V_RANGE || v.tag == V_BYTES;
}

static Value seq_subscript(Interp *I, Value v, Value key)
{
    int64_t i;

    if (key.tag == V_SLICE)
        return seq_slice(I, v, (SliceObj *)key.o);
    if (key.tag != V_INT && key.tag != V_BOOL && key.tag != V_TENSOR && key.tag != V_SYMINT && key.tag != V_INSTANCE)
        return v.tag == V_STR ? raise(I, EXC_TypeError, "string indices must be integers, not '%s'", value_type_name(key))
               : raise(I, EXC_TypeError, "%s indices must be integers or slices, not %s", value_type_name(v),
                     value_type_name(key));
    return value_as_int(I, key, &i) ? seq_item(I, v, i) : VERR;
}

static Value make_form(Value origin, Value key)
{
    TypeFormObj *t = obj_new(V_TYPEFORM, sizeof *t);

    t->op = '[';
    t->origin = value_ref(origin);
    t->args = key.tag == V_TUPLE ? value_ref(key) : tuple_of(1, value_ref(key));
    return vobj(t);
}

/* Names of types and namespaces used as types: list[int], Tensor["B", 4]. */
static bool is_type_like(Value v)
{
    return v.tag == V_CLASS || v.tag == V_TYPEFORM || v.tag == V_DTYPE;
}

static Value class_getitem(Interp *I, Value c, Value key)
{
    Value f = class_find((ClassObj *)c.o, sym("__class_getitem__"), NULL);

    if (is_err(f))
        return make_form(c, key);
    f = f.tag == V_CLASSMETHOD ? ((WrapObj *)f.o)->func : f;
    return value_call(I, f, (Value[]){c, key}, 2);
}

Value value_getitem(Interp *I, Value v, Value key)
{
    Value r, u;
    bool found;

    if (is_sequence(v))
        return seq_subscript(I, v, key);
    if (v.tag == V_DICT)
        return dict_item(I, v, v, key);
    if (v.tag == V_TENSOR)
        return tensor_op_getitem(I, v, key);
    if (v.tag == V_CLASS)
        return class_getitem(I, v, key);
    if (is_type_like(v))
        return make_form(v, key);
    r = method_or(I, v, D_getitem, &key, 1, &found);
    if (found)
        return r;
    u = unwrap_base(v);
    if (u.o != v.o)
        return u.tag == V_DICT ? dict_item(I, u, v, key) : value_getitem(I, u, key);
    return raise(I, EXC_TypeError, "'%s' object is not subscriptable", value_type_name(v));
}

/* ------------------------------------------------------------- v[key] = x, del v[key] */

static bool list_index(Interp *I, ListObj *l, Value key, int64_t *i, const char *doing)
{
    if (!value_as_int(I, key, i))
        return false;
    *i += *i < 0 ? l->n : 0;
    if (*i >= 0 && *i < l->n)
        return true;
    raise(I, EXC_IndexError, "list %s index out of range", doing);
    return false;
}

static bool list_setitem(Interp *I, Value v, Value key, Value x)
{
    ListObj *l = as_list(v);
    int64_t i;
    Value old;

    if (key.tag == V_SLICE)
        return list_set_slice(I, l, (SliceObj *)key.o, x);
    if (key.tag == V_STR || key.tag == V_FLOAT || key.tag == V_NONE || key.tag == V_TUPLE) {
        raise(I, EXC_TypeError, "list indices must be integers or slices, not %s", value_type_name(key));
        return false;
    }
    if (!list_index(I, l, key, &i, "assignment"))
        return false;
    old = l->at[i];
    l->at[i] = value_ref(x);
    value_unref(old);
    return true;
}

static bool list_delitem(Interp *I, ListObj *l, Value key)
{
    int64_t i;
    Value old;

    if (key.tag == V_SLICE)
        return list_set_slice(I, l, (SliceObj *)key.o, VERR);
    if (!list_index(I, l, key, &i, "deletion"))
        return false;
    old = l->at[i];
    for (l->n--; i < l->n; i++)
        l->at[i] = l->at[i + 1];
    value_unref(old);
    return true;
}

bool value_setitem(Interp *I, Value *v, Value key, Value x)
{
    Value r, u;
    bool found;

    if (v->tag == V_LIST)
        return list_setitem(I, *v, key, x);
    if (v->tag == V_DICT)
        return dict_set(I, as_dict(*v), key, x);
    if (v->tag == V_TENSOR)
        return tensor_op_setitem(I, v, key, x);
    r = method_or(I, *v, D_setitem, (Value[]){key, x}, 2, &found);
    if (found) {
        value_unref(r);
        return !is_err(r);
    }
    u = unwrap_base(*v);
    if (u.o != v->o)
        return value_setitem(I, &u, key, x);
    raise(I, EXC_TypeError, "'%s' object does not support item assignment", value_type_name(*v));
    return false;
}

bool value_delitem(Interp *I, Value v, Value key)
{
    Value r, u;
    bool found;
    int d;

    if (v.tag == V_LIST)
        return list_delitem(I, as_list(v), key);
    if (v.tag == V_DICT) {
        d = dict_del(I, as_dict(v), key);
        if (!d)
            raise_key_error(I, key);
        return d > 0;
    }
    r = method_or(I, v, D_delitem, &key, 1, &found);
    if (found) {
        value_unref(r);
        return !is_err(r);
    }
    u = unwrap_base(v);
    if (u.o != v.o)
        return value_delitem(I, u, key);
    raise(I, EXC_TypeError, "'%s' object doesn't support item deletion", value_type_name(v));
    return false;
}

/* ------------------------------------------------------------- x in v */

static int contains_array(Interp *I, Value v, Value x)
{
    for (int64_t i = 0; i < (v.tag == V_LIST ? as_list(v)->n : as_tuple(v)->n); i++) {
        Value y = value_ref((v.tag == V_LIST ? as_list(v)->at : as_tuple(v)->at)[i]);
        int eq = value_is(y, x) ? 1 : value_equal(I, y, x);
        value_unref(y);
        if (eq)
            return eq;
    }
    return 0;
}

static int contains_text(Interp *I, Value v, Value x)
{
    if (x.tag == V_STR)
        return memmem(as_str(v)->s, as_str(v)->len, as_str(x)->s, as_str(x)->len) != NULL;
    raise(I, EXC_TypeError, "'in <string>' requires string as left operand, not %s", value_type_name(x));
    return -1;
}

static int contains_bytes(BytesObj *b, Value x)
{
    if (x.tag == V_BYTES)
        return memmem(b->s, b->len, ((BytesObj *)x.o)->s, ((BytesObj *)x.o)->len) != NULL;
    return x.tag == V_INT && x.i >= 0 && x.i < 256 && memchr(b->s, (int)x.i, b->len);
}

static int contains_range(const RangeObj *r, Value x)
{
    int64_t i;

    if (x.tag == V_FLOAT && x.f == floor(x.f) && fabs(x.f) < 9e18)
        x = vint((int64_t)x.f);
    if ((x.tag != V_INT && x.tag != V_BOOL) || !r->n)
        return 0;
    i = x.i - r->start;
    return i % r->step == 0 && i / r->step >= 0 && i / r->step < r->n;
}

static int contains_by_iteration(Interp *I, Value v, Value x)
{
    Value it = value_iter(I, v), y;
    int eq = 0;

    if (is_err(it))
        return -1;
    while (!eq && !is_err(y = value_next(I, it))) {
        eq = value_is(y, x) ? 1 : value_equal(I, y, x);
        value_unref(y);
    }
    value_unref(it);
    return exc_pending(I) ? -1 : eq;
}

int value_contains(Interp *I, Value v, Value x)
{
    Value r, u;
    bool found;
    int t;

    switch (v.tag) {
    case V_LIST: case V_TUPLE: return contains_array(I, v, x);
    case V_DICT:
        r = dict_get(I, as_dict(v), x);
        return is_err(r) ? (exc_pending(I) ? -1 : 0) : 1;
    case V_SET: return set_has(I, (SetObj *)v.o, x);
    case V_STR: return contains_text(I, v, x);
    case V_BYTES: return contains_bytes((BytesObj *)v.o, x);
    case V_RANGE: return contains_range((RangeObj *)v.o, x);
    case V_TENSOR: return tensor_op_contains(I, v, x);
    default: break;
    }
    if (v.tag == V_CLASS) {
        r = class_hook(I, v, "__class_contains__", &x, 1);
        found = !is_err(r) || exc_pending(I);
    } else {
        r = method_or(I, v, D_contains, &x, 1, &found);
    }
    if (found) {
        t = is_err(r) ? -1 : truth(I, r);
        value_unref(r);
        return t;
    }
    u = unwrap_base(v);
    if (u.o != v.o)
        return value_contains(I, u, x);
    if (v.tag == V_INSTANCE || v.tag == V_NATIVEOBJ || v.tag == V_ITER || v.tag == V_GENERATOR)
        return contains_by_iteration(I, v, x);
    raise(I, EXC_TypeError, "argument of type '%s' is not iterable", value_type_name(v));
    return -1;
}

/* ------------------------------------------------------------- len, numbers */

static int64_t method_len(Interp *I, Value v)
{
    bool found;
    Value r = method_or(I, v, D_len, NULL, 0, &found), u;
    int64_t n;

    if (found) {
        bool ok = !is_err(r) && value_as_int(I, r, &n);
        value_unref(r);
        if (ok && n < 0) {
            raise(I, EXC_ValueError, "__len__() should return >= 0");
            return -1;
        }
        return ok ? n : -1;
    }
    u = unwrap_base(v);
    if (u.o != v.o)
        return value_len(I, u);
    raise(I, EXC_TypeError, "object of type '%s' has no len()", value_type_name(v));
    return -1;
}

static int64_t class_len(Interp *I, Value cls)
{
    Value r = class_hook(I, cls, "__class_len__", NULL, 0);

    if (r.tag == V_INT)
        return r.i;
    if (!exc_pending(I))
        raise(I, EXC_TypeError, "object of type 'type' has no len()");
    value_unref(r);
    return -1;
}

int64_t value_len(Interp *I, Value v)
{
    switch (v.tag) {
    case V_LIST: return as_list(v)->n;
    case V_TUPLE: return as_tuple(v)->n;
    case V_DICT: case V_SET: return as_dict(v)->n;
    case V_STR: return str_nchars(as_str(v));
    case V_BYTES: return ((BytesObj *)v.o)->len;
    case V_RANGE: return ((RangeObj *)v.o)->n;
    case V_TENSOR: return tensor_op_len(I, v);
    case V_CLASS: return class_len(I, v);
    case V_NATIVEOBJ:
        if (((NativeInst *)v.o)->type->len)
            return ((NativeInst *)v.o)->type->len(v.o);
        return method_len(I, v);
    default: return method_len(I, v);
    }
}

bool value_as_int(Interp *I, Value v, int64_t *out)
{
    bool found;
    Value r, u;

    if (v.tag == V_INT || v.tag == V_BOOL) {
        *out = v.i;
        return true;
    }
    if (is_symint(v))
        return symint_number(I, v, out);
    if (v.tag == V_TENSOR)
        return tensor_op_as_int(I, v, out);
    r = method_or(I, v, D_index, NULL, 0, &found);
    if (found) {
        bool ok = !is_err(r) && r.tag == V_INT;
        if (ok)
            *out = r.i;
        else if (!is_err(r))
            raise(I, EXC_TypeError, "__index__ returned non-int (type %s)", value_type_name(r));
        value_unref(r);
        return ok;
    }
    u = unwrap_base(v);
    if (u.o != v.o)
        return value_as_int(I, u, out);
    raise(I, EXC_TypeError, "'%s' object cannot be interpreted as an integer", value_type_name(v));
    return false;
}

bool value_as_float(Interp *I, Value v, double *out)
{
    bool found;
    Value r, u;
    int64_t i;

    if (v.tag == V_FLOAT) {
        *out = v.f;
        return true;
    }
    if (v.tag == V_INT || v.tag == V_BOOL) {
        *out = (double)v.i;
        return true;
    }
    if (is_symint(v)) {
        if (!symint_number(I, v, &i))
            return false;
        *out = (double)i;
        return true;
    }
    if (v.tag == V_SYMFLOAT)
        return symfloat_number(I, v, out);
    if (v.tag == V_TENSOR)
        return tensor_op_as_float(I, v, out);
    r = method_or(I, v, D_float, NULL, 0, &found);
    if (found) {
        bool ok = !is_err(r) && r.tag == V_FLOAT;
        if (ok)
            *out = r.f;
        else if (!is_err(r))
            raise(I, EXC_TypeError, "__float__ returned non-float (type %s)", value_type_name(r));
        value_unref(r);
        return ok;
    }
    u = unwrap_base(v);
    if (u.o != v.o)
        return value_as_float(I, u, out);
    if (v.tag == V_INSTANCE && !is_err(class_of(I, v)->dunder[D_index])) {
        if (!value_as_int(I, v, &i))
            return false;
        *out = (double)i;
        return true;
    }
    raise(I, EXC_TypeError, "must be real number, not %s", value_type_name(v));
    return false;
}
