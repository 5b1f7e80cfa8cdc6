/*
 * Equality, order, hashing, truth and identity of any values.
 *
 * Equality of containers is theirs (lib/); this file dispatches, and keeps the
 * rule that equal values hash alike: 1, 1.0 and True are one key.
 */
#include "frontend/eval/eval.h"

#include "base/hash.h"

#include <math.h>
#include <string.h>

bool value_is(Value a, Value b)
{
    if (a.tag != b.tag)
        return false;
    return a.tag <= V_NOTIMPL || a.i == b.i;
}

/* ------------------------------------------------------------- numbers */

/* -1 0 1, or 2 when unordered. Exact also where the int has more digits than a float holds. */
static int order_int_float(int64_t a, double b)
{
    double t;

    if (isnan(b))
        return 2;
    if (b >= 9223372036854775808.0)
        return -1;
    if (b < -9223372036854775808.0)
        return 1;
    t = trunc(b);
    if (a != (int64_t)t)
        return a < (int64_t)t ? -1 : 1;
    return b == t ? 0 : b > t ? -1 : 1;
}

static int order_numbers(Value a, Value b)
{
    if (a.tag != V_FLOAT && b.tag != V_FLOAT)
        return a.i < b.i ? -1 : a.i > b.i;
    if (a.tag == V_FLOAT && b.tag == V_FLOAT)
        return isnan(a.f) || isnan(b.f) ? 2 : a.f < b.f ? -1 : a.f > b.f;
    if (b.tag == V_FLOAT)
        return order_int_float(a.i, b.f);
    int r = order_int_float(b.i, a.f);
    return r == 2 ? 2 : -r;
}

static bool by_order(int op, int order)
{
    switch (op) {
    case AOP_EQ: return order == 0;
    case AOP_NE: return order != 0;
    case AOP_LT: return order == -1;
    case AOP_LE: return order == -1 || order == 0;
    case AOP_GT: return order == 1;
    default: return order == 1 || order == 0;
    }
}

static bool is_real(Value v) { return v.tag == V_INT || v.tag == V_FLOAT || v.tag == V_BOOL; }

static bool complex_equal(Value a, Value b)
{
    if (b.tag == V_COMPLEX && a.tag != V_COMPLEX)
        return complex_equal(b, a);
    ComplexObj *x = (ComplexObj *)a.o;
    if (b.tag == V_COMPLEX)
        return x->re == ((ComplexObj *)b.o)->re && x->im == ((ComplexObj *)b.o)->im;
    return x->im == 0 && order_numbers(vfloat(x->re), b) == 0;
}

/* ------------------------------------------------------------- two values */

static Value from_int(int r) { return r < 0 ? VERR : vbool(r); }

static Value compare_bytes(int op, Value a, Value b)
{
    BytesObj *x = (BytesObj *)a.o, *y = (BytesObj *)b.o;
    int r = memcmp(x->s, y->s, x->len < y->len ? x->len : y->len);

    r = r < 0 ? -1 : r > 0 ? 1 : x->len < y->len ? -1 : x->len > y->len;
    return vbool(by_order(op, r));
}

static bool range_equal(const RangeObj *a, const RangeObj *b)
{
    return a->n == b->n && (!a->n || (a->start == b->start && (a->n == 1 || a->step == b->step)));
}

/* Unions are equal when they have the same types, in any order. */
static int unions_equal(Interp *I, TypeFormObj *a, TypeFormObj *b)
{
    Value x = union_types(I, a), y = is_err(x) ? VERR : union_types(I, b);
    int r = is_err(y) ? -1 : as_tuple(x)->n == as_tuple(y)->n;

    for (int64_t i = 0; r == 1 && i < as_tuple(x)->n; i++)
        r = value_contains(I, y, as_tuple(x)->at[i]);
    value_unref(x);
    value_unref(y);
    return r;
}

static bool union_hash(Interp *I, TypeFormObj *t, uint32_t *out)
{
    Value types = union_types(I, t);
    uint32_t h;
    bool ok = !is_err(types);

    *out = 0;
    for (int64_t i = 0; ok && i < as_tuple(types)->n; i++) {
        ok = value_hash(I, as_tuple(types)->at[i], &h);
        *out += h;
    }
    value_unref(types);
    return ok;
}

/* Type forms and bound methods are equal part by part. */
static int parts_equal(Interp *I, Value a, Value b)
{
    if (a.tag == V_BOUND) {
        BoundObj *x = (BoundObj *)a.o, *y = (BoundObj *)b.o;
        return value_is(x->self, y->self) && value_is(x->func, y->func);
    }
    TypeFormObj *x = (TypeFormObj *)a.o, *y = (TypeFormObj *)b.o;
    if (x->op == '|' && y->op == '|')
        return unions_equal(I, x, y);
    int r = x->op == y->op ? value_equal(I, x->origin, y->origin) : 0;
    return r == 1 ? value_equal(I, x->args, y->args) : r;
}

static Value seq_compare_guarded(Interp *I, int op, Value a, Value b)
{
    int r;

    if (!interp_enter(I))
        return VERR;
    if (a.tag == V_DICT)
        r = op == AOP_EQ || op == AOP_NE ? dict_equal(I, as_dict(a), as_dict(b)) : -2;
    else if (a.tag == V_SET)
        r = set_compare(I, op, a, b);
    else
        r = seq_compare(I, op, a, b);
    interp_leave(I);
    if (r == -2)
        return VNOTIMPL;
    return a.tag == V_DICT && op == AOP_NE && r >= 0 ? vbool(!r) : from_int(r);
}

static const uint8_t cmp_swapped[] = {AOP_EQ, AOP_NE, AOP_GT, AOP_GE, AOP_LT, AOP_LE};

/* Builtin kinds; VNOTIMPL: these two do not know each other. */
static Value compare_builtin(Interp *I, int op, Value a, Value b)
{
    if (is_real(a) && is_real(b))
        return vbool(by_order(op, order_numbers(a, b)));
    if (a.tag == V_STR && b.tag == V_STR) {
        if (op == AOP_EQ || op == AOP_NE)
            return vbool(str_eq(as_str(a), as_str(b)) == (op == AOP_EQ));
        int r = str_compare(as_str(a), as_str(b));
        return vbool(by_order(op, r < 0 ? -1 : r > 0));
    }
    if ((a.tag == V_COMPLEX && (is_real(b) || b.tag == V_COMPLEX)) || (b.tag == V_COMPLEX && is_real(a)))
        return op == AOP_EQ || op == AOP_NE ? vbool(complex_equal(a, b) == (op == AOP_EQ)) : VNOTIMPL;
    if (a.tag == V_DTYPE && (b.tag == V_INSTANCE || b.tag == V_CLASS || b.tag == V_STR))      /* x.policy == Policy(...), x.dtype == "f32" */
        return dtype_op_binary(I, op, a, b);
    if (a.tag == V_STR && b.tag == V_DTYPE)
        return dtype_op_binary(I, cmp_swapped[op - AOP_EQ], b, a);
    if (a.tag != b.tag)
        return VNOTIMPL;
    switch (a.tag) {
    case V_LIST: case V_TUPLE: case V_DICT: case V_SET: return seq_compare_guarded(I, op, a, b);
    case V_BYTES: return compare_bytes(op, a, b);
    case V_SLICE: {
        const SliceObj *s = (SliceObj *)a.o, *t = (SliceObj *)b.o;
        Value x = tuple_of(3, value_ref(s->lo), value_ref(s->hi), value_ref(s->step));
        Value y = tuple_of(3, value_ref(t->lo), value_ref(t->hi), value_ref(t->step));
        Value r = seq_compare_guarded(I, op, x, y);
        value_unref(x);
        value_unref(y);
        return r;
    }
    case V_DTYPE: return dtype_op_binary(I, op, a, b);
    default: break;
    }
    if (op != AOP_EQ && op != AOP_NE)
        return VNOTIMPL;
    if (a.tag == V_RANGE)
        return vbool(range_equal((RangeObj *)a.o, (RangeObj *)b.o) == (op == AOP_EQ));
    if (a.tag == V_TYPEFORM || a.tag == V_BOUND) {
        int r = parts_equal(I, a, b);
        return r < 0 ? VERR : vbool(r == (op == AOP_EQ));
    }
    return VNOTIMPL;
}

static const Dunder cmp_dunder[] = {D_eq, D_ne, D_lt, D_le, D_gt, D_ge};

static Value call_cmp(Interp *I, int op, Value a, Value b)
{
    Value f, r;
    int t;

    if (a.tag != V_INSTANCE && a.tag != V_NATIVEOBJ)
        return VNOTIMPL;
    ClassObj *c = class_of(I, a);
    f = c->dunder[cmp_dunder[op - AOP_EQ]];
    if (!is_err(f) && f.tag != V_NONE)
        return value_call(I, f, (Value[]){a, b}, 2);
    if (op != AOP_NE || is_err(f = c->dunder[D_eq]) || f.tag == V_NONE)
        return VNOTIMPL;
    r = value_call(I, f, (Value[]){a, b}, 2);
    if (is_err(r) || r.tag == V_NOTIMPL)
        return r;
    t = truth(I, r);
    value_unref(r);
    return t < 0 ? VERR : vbool(!t);
}

static Value compare_methods(Interp *I, int op, Value a, Value b)
{
    bool swap = (b.tag == V_INSTANCE && a.tag == V_INSTANCE && class_of(I, a) != class_of(I, b) &&
                 class_derives(class_of(I, b), class_of(I, a)));
    int back = cmp_swapped[op - AOP_EQ];
    Value r = swap ? call_cmp(I, back, b, a) : call_cmp(I, op, a, b);

    if (r.tag != V_NOTIMPL)
        return r;
    return swap ? call_cmp(I, op, a, b) : call_cmp(I, back, b, a);
}

static Value raise_order(Interp *I, int op, Value a, Value b)
{
    return raise(I, EXC_TypeError, "'%s' not supported between instances of '%s' and '%s'", ast_op_text[op],
                 value_type_name(a), value_type_name(b));
}

/* ==, <, ... of any two values; a tensor's comparison is a tensor. */
static Value compare_rich(Interp *I, int op, Value a, Value b)
{
    Value r = VNOTIMPL, ua, ub;

    if (a.tag == V_INSTANCE || b.tag == V_INSTANCE || a.tag == V_NATIVEOBJ || b.tag == V_NATIVEOBJ)
        r = compare_methods(I, op, a, b);
    if (r.tag != V_NOTIMPL)
        return r;
    if ((is_symbolic(a) || is_symbolic(b)) && a.tag != V_TENSOR && b.tag != V_TENSOR)
        return symint_compare(I, op, a, b);
    if (a.tag == V_TENSOR || b.tag == V_TENSOR) {
        r = tensor_op_compare(I, op, a, b);
        if (r.tag != V_NOTIMPL)
            return r;
    }
    ua = unwrap_base(a);
    ub = unwrap_base(b);
    r = compare_builtin(I, op, ua, ub);
    if (r.tag != V_NOTIMPL)
        return r;
    if (op == AOP_EQ || op == AOP_NE)
        return vbool(value_is(a, b) == (op == AOP_EQ));
    return raise_order(I, op, a, b);
}

Value compare_op(Interp *I, int op, Value a, Value b)
{
    int r;

    switch (op) {
    case AOP_IS: return vbool(value_is(a, b));
    case AOP_IS_NOT: return vbool(!value_is(a, b));
    case AOP_IN: case AOP_NOT_IN:
        r = value_contains(I, b, a);
        return r < 0 ? VERR : vbool(r == (op == AOP_IN));
    default: return compare_rich(I, op, a, b);
    }
}

Value value_compare(Interp *I, int op, Value a, Value b)
{
    return compare_op(I, op, a, b);
}

static int as_truth(Interp *I, Value r)
{
    int t;

    if (is_err(r))
        return -1;
    t = truth(I, r);
    value_unref(r);
    return t;
}

int value_equal(Interp *I, Value a, Value b)
{
    if (a.tag == b.tag && a.tag != V_FLOAT && a.tag != V_TENSOR && value_is(a, b) && a.tag != V_INSTANCE)
        return 1;
    return as_truth(I, compare_rich(I, AOP_EQ, a, b));
}

int value_less(Interp *I, Value a, Value b)
{
    if (a.tag == V_INT && b.tag == V_INT)
        return a.i < b.i;
    return as_truth(I, compare_rich(I, AOP_LT, a, b));
}

/* ------------------------------------------------------------- truth */

static int instance_truth(Interp *I, Value v)
{
    ClassObj *c = class_of(I, v);
    Value f = c->dunder[D_bool];

    if (!is_err(f)) {
        Value r = value_call(I, f, &v, 1);
        if (is_err(r))
            return -1;
        if (r.tag != V_BOOL) {
            raise(I, EXC_TypeError, "__bool__ should return bool, returned %s", value_type_name(r));
            value_unref(r);
            return -1;
        }
        return (int)r.i;
    }
    if (!is_err(c->dunder[D_len])) {
        int64_t n = value_len(I, v);
        return n < 0 ? -1 : n > 0;
    }
    Value u = unwrap_base(v);
    return u.o != v.o ? truth(I, u) : 1;
}

int value_truth_slow(Interp *I, Value v)
{
    switch (v.tag) {
    case V_NONE: return 0;
    case V_FLOAT: return v.f != 0;
    case V_STR: return as_str(v)->len != 0;
    case V_BYTES: return ((BytesObj *)v.o)->len != 0;
    case V_COMPLEX: return ((ComplexObj *)v.o)->re != 0 || ((ComplexObj *)v.o)->im != 0;
    case V_LIST: return as_list(v)->n != 0;
    case V_TUPLE: return as_tuple(v)->n != 0;
    case V_DICT: case V_SET: return as_dict(v)->n != 0;
    case V_RANGE: return ((RangeObj *)v.o)->n != 0;
    case V_TENSOR: return tensor_op_truth(I, v);
    case V_SYMINT: case V_SYMFLOAT: return symint_truth(I, v);
    case V_INSTANCE: case V_NATIVEOBJ: return instance_truth(I, v);
    case V_BOOL: case V_INT: return v.i != 0;
    default: return 1;
    }
}

int value_truth(Interp *I, Value v)
{
    return truth(I, v);
}

/* ------------------------------------------------------------- hashes */

static uint32_t hash_float(double f)
{
    uint64_t bits;

    if (f >= -9223372036854775808.0 && f < 9223372036854775808.0 && f == trunc(f))
        return hash_u64((uint64_t)(int64_t)f);
    memcpy(&bits, &f, sizeof bits);
    return hash_u64(bits ^ 0x5bd1e995);
}

static uint32_t mix(uint32_t h, uint32_t x) { return (h ^ x) * 0x9e3779b1u + (h >> 15); }

static bool hash_tuple(Interp *I, TupleObj *t, uint32_t *out)
{
    uint32_t h = 0x345678 + (uint32_t)t->n, x;

    if (!interp_enter(I))
        return false;
    for (int64_t i = 0; i < t->n; i++) {
        if (!value_hash(I, t->at[i], &x)) {
            interp_leave(I);
            return false;
        }
        h = mix(h, x);
    }
    interp_leave(I);
    *out = h;
    return true;
}

static bool hash_set(Interp *I, SetObj *s, uint32_t *out)
{
    int64_t pos = 0;
    uint32_t h = 0x9d5f;
    Value k, v;

    while (dict_next(s, &pos, &k, &v)) {
        uint32_t x;
        if (!value_hash(I, k, &x))
            return false;
        h += x * 0x85ebca6bu;               /* order does not count */
    }
    *out = h;
    return true;
}

static bool unhashable(Interp *I, Value v)
{
    raise(I, EXC_TypeError, "unhashable type: '%s'", value_type_name(v));
    return false;
}

static bool hash_instance(Interp *I, Value v, uint32_t *out)
{
    ClassObj *c = class_of(I, v), *at_eq = NULL, *at_hash = NULL;
    Value f = c->dunder[D_hash], r;
    int64_t h;

    class_find(c, I->dunder_sym[D_eq], &at_eq);
    class_find(c, I->dunder_sym[D_hash], &at_hash);
    if (f.tag == V_NONE || (at_eq && at_eq != at_hash && (!at_hash || class_derives(at_eq, at_hash))))
        return unhashable(I, v);
    if (is_err(f)) {
        Value u = unwrap_base(v);
        if (u.o != v.o)
            return value_hash(I, u, out);
        *out = hash_u64((uint64_t)(uintptr_t)v.o);
        return true;
    }
    r = value_call(I, f, &v, 1);
    if (is_err(r) || !value_as_int(I, r, &h))
        return value_unref(r), false;
    value_unref(r);
    *out = hash_u64((uint64_t)h);
    return true;
}

bool value_hash(Interp *I, Value v, uint32_t *out)
{
    uint32_t h;
    int64_t i;
    double f;

    switch (v.tag) {
    case V_STR: *out = str_hash(as_str(v)); return true;
    case V_INT: case V_BOOL: *out = hash_u64((uint64_t)v.i); return true;
    case V_FLOAT: *out = hash_float(v.f); return true;
    case V_NONE: case V_ELLIPSIS: case V_NOTIMPL: *out = v.tag; return true;
    case V_TUPLE: return hash_tuple(I, as_tuple(v), out);
    case V_BYTES: *out = hash_bytes(((BytesObj *)v.o)->s, ((BytesObj *)v.o)->len); return true;
    case V_COMPLEX:
        h = hash_float(((ComplexObj *)v.o)->re);
        *out = ((ComplexObj *)v.o)->im == 0 ? h : mix(h, hash_float(((ComplexObj *)v.o)->im));
        return true;
    case V_SET:
        return v.o->flags & 1 ? hash_set(I, (SetObj *)v.o, out) : unhashable(I, v);
    case V_SYMINT:
        if (!symint_number(I, v, &i))
            return false;
        *out = hash_u64((uint64_t)i);
        return true;
    case V_SYMFLOAT:
        if (!symfloat_number(I, v, &f))
            return false;
        *out = hash_float(f);
        return true;
    case V_LIST: case V_DICT: case V_SLICE: case V_TENSOR: return unhashable(I, v);
    case V_RANGE:
        *out = mix(hash_u64((uint64_t)((RangeObj *)v.o)->start), hash_u64((uint64_t)((RangeObj *)v.o)->n));
        return true;
    case V_DTYPE: *out = mix(as_dtype(v)->dtype, hash_u64((uintptr_t)as_dtype(v)->policy)); return true;
    case V_TYPEFORM:
        return ((TypeFormObj *)v.o)->op == '|' ? union_hash(I, (TypeFormObj *)v.o, out) : value_hash(I, ((TypeFormObj *)v.o)->origin, out);
    case V_BOUND:
        *out = mix(hash_u64((uint64_t)((BoundObj *)v.o)->self.i), hash_u64((uint64_t)((BoundObj *)v.o)->func.i));
        return true;
    case V_INSTANCE: case V_NATIVEOBJ: return hash_instance(I, v, out);
    default: *out = hash_u64((uint64_t)(uintptr_t)v.o); return true;
    }
}
