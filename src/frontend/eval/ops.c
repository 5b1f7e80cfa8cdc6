/*
 * Operators on any two values: the slow half of arithmetic.
 *
 * The order of tries: numbers, tensors, builtin containers, then special
 * methods (the right operand's reflected one first when its class derives from
 * the left one's), then the storage inside instances of builtin subclasses.
 */
#include "frontend/eval/eval.h"

#include <math.h>

static Value raise_overflow(Interp *I, int64_t a, const char *op, int64_t b)
{
    return raise(I, EXC_OverflowError, "int result of %lld %s %lld does not fit in 64 bits", (long long)a, op,
                 (long long)b);
}

/* ------------------------------------------------------------- numbers */

static int64_t floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;

    return q - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t floor_mod(int64_t a, int64_t b)
{
    int64_t r = a % b;

    return r + (r && (r < 0) != (b < 0) ? b : 0);
}

static Value int_pow(Interp *I, int64_t a, int64_t n)
{
    int64_t result = 1, base = a, left = n;

    if (n < 0) {
        if (!a)
            return raise(I, EXC_ZeroDivisionError, "0.0 cannot be raised to a negative power");
        return vfloat(pow((double)a, (double)n));
    }
    for (;;) {
        if ((left & 1) && __builtin_mul_overflow(result, base, &result))
            return raise_overflow(I, a, "**", n);
        left >>= 1;
        if (!left)
            return vint(result);
        if (__builtin_mul_overflow(base, base, &base))
            return raise_overflow(I, a, "**", n);
    }
}

static Value int_shift(Interp *I, int op, int64_t a, int64_t n)
{
    if (n < 0)
        return raise(I, EXC_ValueError, "negative shift count");
    if (op == AOP_RSHIFT)
        return vint(n > 63 ? (a < 0 ? -1 : 0) : a >> n);
    if (a && (n > 63 || (int64_t)((uint64_t)a << n) >> n != a))
        return raise_overflow(I, a, "<<", n);
    return vint(a ? (int64_t)((uint64_t)a << n) : 0);
}

Value int_binary(Interp *I, int op, int64_t a, int64_t b)
{
    int64_t r;

    switch (op) {
    case AOP_ADD: return __builtin_add_overflow(a, b, &r) ? raise_overflow(I, a, "+", b) : vint(r);
    case AOP_SUB: return __builtin_sub_overflow(a, b, &r) ? raise_overflow(I, a, "-", b) : vint(r);
    case AOP_MUL: return __builtin_mul_overflow(a, b, &r) ? raise_overflow(I, a, "*", b) : vint(r);
    case AOP_DIV:
        return b ? vfloat((double)a / (double)b) : raise(I, EXC_ZeroDivisionError, "division by zero");
    case AOP_FLOORDIV:
        if (!b)
            return raise(I, EXC_ZeroDivisionError, "integer division or modulo by zero");
        return b == -1 && a == INT64_MIN ? raise_overflow(I, a, "//", b) : vint(floor_div(a, b));
    case AOP_MOD:
        if (!b)
            return raise(I, EXC_ZeroDivisionError, "integer modulo by zero");
        return vint(b == -1 ? 0 : floor_mod(a, b));
    case AOP_POW: return int_pow(I, a, b);
    case AOP_LSHIFT: case AOP_RSHIFT: return int_shift(I, op, a, b);
    case AOP_BITAND: return vint(a & b);
    case AOP_BITOR: return vint(a | b);
    case AOP_BITXOR: return vint(a ^ b);
    default: return VNOTIMPL;
    }
}

static double float_mod(double a, double b)
{
    double r = fmod(a, b);

    if (r == 0)
        return copysign(0, b);
    return (r < 0) != (b < 0) ? r + b : r;
}

static double float_floordiv(double a, double b)
{
    double r = fmod(a, b), q = (a - r) / b, f;

    if (r != 0 && (r < 0) != (b < 0))
        q -= 1;
    if (q == 0)
        return copysign(0, a / b);
    f = floor(q);
    return q - f > 0.5 ? f + 1 : f;
}

static Value float_pow(Interp *I, double a, double b)
{
    double r;

    if (a == 0 && b < 0)
        return raise(I, EXC_ZeroDivisionError, "0.0 cannot be raised to a negative power");
    if (a < 0 && isfinite(a) && isfinite(b) && b != floor(b)) {
        double m = pow(-a, b), t = M_PI * b;
        return complex_new(m * cos(t), m * sin(t));
    }
    r = pow(a, b);
    if (isinf(r) && isfinite(a) && isfinite(b))
        return raise(I, EXC_OverflowError, "float result of ** is too large");
    return vfloat(r);
}

Value float_binary(Interp *I, int op, double a, double b)
{
    switch (op) {
    case AOP_ADD: return vfloat(a + b);
    case AOP_SUB: return vfloat(a - b);
    case AOP_MUL: return vfloat(a * b);
    case AOP_DIV: return b != 0 ? vfloat(a / b) : raise(I, EXC_ZeroDivisionError, "float division by zero");
    case AOP_FLOORDIV:
        return b != 0 ? vfloat(float_floordiv(a, b)) : raise(I, EXC_ZeroDivisionError, "float floor division by zero");
    case AOP_MOD: return b != 0 ? vfloat(float_mod(a, b)) : raise(I, EXC_ZeroDivisionError, "float modulo");
    case AOP_POW: return float_pow(I, a, b);
    default: return VNOTIMPL;
    }
}

static bool as_complex(Value v, double *re, double *im)
{
    *im = 0;
    if (v.tag == V_COMPLEX) {
        *re = ((ComplexObj *)v.o)->re;
        *im = ((ComplexObj *)v.o)->im;
    } else if (v.tag == V_FLOAT) {
        *re = v.f;
    } else if (v.tag == V_INT || v.tag == V_BOOL) {
        *re = (double)v.i;
    } else {
        return false;
    }
    return true;
}

static Value complex_div(Interp *I, double ar, double ai, double br, double bi)
{
    double d = br * br + bi * bi;

    if (d == 0)
        return raise(I, EXC_ZeroDivisionError, "complex division by zero");
    return complex_new((ar * br + ai * bi) / d, (ai * br - ar * bi) / d);
}

static Value complex_pow(Interp *I, double ar, double ai, double br, double bi)
{
    double r = hypot(ar, ai), t = atan2(ai, ar), m, w;

    if (br == 0 && bi == 0)
        return complex_new(1, 0);
    if (r == 0)
        return br > 0 ? complex_new(0, 0) : raise(I, EXC_ZeroDivisionError, "0.0 to a negative or complex power");
    if (bi == 0 && br == floor(br) && fabs(br) <= 64) {     /* exact for small whole powers */
        double xr = 1, xi = 0;
        for (int i = 0; i < (int)fabs(br); i++) {
            double x = xr * ar - xi * ai;
            xi = xr * ai + xi * ar;
            xr = x;
        }
        return br < 0 ? complex_div(I, 1, 0, xr, xi) : complex_new(xr, xi);
    }
    m = pow(r, br) * exp(-bi * t);
    w = br * t + bi * log(r);
    return complex_new(m * cos(w), m * sin(w));
}

static Value complex_binary(Interp *I, int op, Value a, Value b)
{
    double ar, ai, br, bi;

    if (!as_complex(a, &ar, &ai) || !as_complex(b, &br, &bi))
        return VNOTIMPL;
    switch (op) {
    case AOP_ADD: return complex_new(ar + br, ai + bi);
    case AOP_SUB: return complex_new(ar - br, ai - bi);
    case AOP_MUL: return complex_new(ar * br - ai * bi, ar * bi + ai * br);
    case AOP_DIV: return complex_div(I, ar, ai, br, bi);
    case AOP_POW: return complex_pow(I, ar, ai, br, bi);
    default: return VNOTIMPL;
    }
}

/* Numbers of any two kinds; VNOTIMPL when one is no number. */
static Value number_binary(Interp *I, int op, Value a, Value b)
{
    bool ai = a.tag == V_INT || a.tag == V_BOOL, bi = b.tag == V_INT || b.tag == V_BOOL;

    if (a.tag == V_BOOL && b.tag == V_BOOL && op >= AOP_BITAND && op <= AOP_BITXOR)
        return vbool(int_binary(I, op, a.i, b.i).i);
    if (ai && bi)
        return int_binary(I, op, a.i, b.i);
    if ((ai || a.tag == V_FLOAT) && (bi || b.tag == V_FLOAT))
        return float_binary(I, op, ai ? (double)a.i : a.f, bi ? (double)b.i : b.f);
    return complex_binary(I, op, a, b);
}

/* ------------------------------------------------------------- containers and types */

static bool is_seq(Value v) { return v.tag == V_STR || v.tag == V_LIST || v.tag == V_TUPLE || v.tag == V_BYTES; }
static bool is_type_value(Value v) { return v.tag == V_CLASS || v.tag == V_TYPEFORM || v.tag == V_DTYPE; }

static Value dict_merge(Interp *I, Value a, Value b)
{
    Value d = dict_copy(I, as_dict(a));

    if (!is_err(d) && !dict_update(I, as_dict(d), b)) {
        value_unref(d);
        return VERR;
    }
    return d;
}

static Value type_form(char op, Value a, Value b)
{
    TypeFormObj *t = obj_new(V_TYPEFORM, sizeof *t);

    t->op = op;
    t->origin = value_ref(a);
    t->args = tuple_of(1, value_ref(b));
    return vobj(t);
}

static bool is_union(Value v) { return v.tag == V_TYPEFORM && ((TypeFormObj *)v.o)->op == '|'; }

/* Append the types of a union to the list, in order and each once; None stands for its class. */
static bool append_types(Interp *I, ListObj *list, Value v)
{
    if (is_union(v))
        return append_types(I, list, ((TypeFormObj *)v.o)->origin) && append_types(I, list, as_tuple(((TypeFormObj *)v.o)->args)->at[0]);
    if (v.tag == V_NONE)
        v = vobj(class_of(I, v));
    int known = value_contains(I, vobj(list), v);
    if (!known)
        list_push(list, value_ref(v));
    return known >= 0;
}

Value union_types(Interp *I, TypeFormObj *t)
{
    Value list = list_new(2), types = VERR;

    if (append_types(I, as_list(list), vobj(t))) {
        types = tuple_new(as_list(list)->n);
        for (int64_t i = 0; i < as_list(list)->n; i++)
            as_tuple(types)->at[i] = value_ref(as_list(list)->at[i]);
    }
    value_unref(list);
    return types;
}

static Value types_binary(int op, Value a, Value b)
{
    if (op == AOP_BITOR && (is_type_value(a) || is_type_value(b)) &&
        (is_type_value(a) || a.tag == V_NONE || a.tag == V_STR) && (is_type_value(b) || b.tag == V_NONE || b.tag == V_STR))
        return type_form('|', a, b);
    if (op == AOP_MATMUL && (a.tag == V_CLASS || a.tag == V_TYPEFORM))
        return type_form('@', a, b);
    return VNOTIMPL;
}

static Value container_binary(Interp *I, int op, Value a, Value b)
{
    if (op == AOP_ADD && a.tag == b.tag && is_seq(a))
        return seq_concat(I, a, b);
    if (op == AOP_MUL && is_seq(a) && (b.tag == V_INT || b.tag == V_BOOL))
        return seq_repeat(I, a, b.i);
    if (op == AOP_MUL && is_seq(b) && (a.tag == V_INT || a.tag == V_BOOL))
        return seq_repeat(I, b, a.i);
    if (op == AOP_MOD && a.tag == V_STR)
        return str_percent(I, as_str(a), b);
    if (op == AOP_MOD && a.tag == V_BYTES && b.tag != V_DICT)
        return bytes_percent(I, as_bytes(a), b);
    if (a.tag == V_SET && b.tag == V_SET)
        return set_binary(I, op, a, b);
    if (a.tag == V_DICT && b.tag == V_DICT && op == AOP_BITOR)
        return dict_merge(I, a, b);
    return VNOTIMPL;
}

/* ------------------------------------------------------------- special methods */

static const char *const reflected[] = {"__radd__", "__rsub__", "__rmul__", "__rtruediv__", "__rfloordiv__", "__rmod__",
    "__rpow__", "__rmatmul__", "__rlshift__", "__rrshift__", "__rand__", "__ror__", "__rxor__"};
static const char *const in_place[] = {"__iadd__", "__isub__", "__imul__", "__itruediv__", "__ifloordiv__", "__imod__",
    "__ipow__", "__imatmul__", "__ilshift__", "__irshift__", "__iand__", "__ior__", "__ixor__"};

static bool has_methods(Value v) { return v.tag == V_INSTANCE || v.tag == V_NATIVEOBJ; }

/* v.name(x), or VNOTIMPL when there is no such method. */
static Value try_method(Interp *I, Value v, const char *name, Value x)
{
    Value f;

    if (!has_methods(v) || is_err(f = class_find(class_of(I, v), sym(name), NULL)))
        return VNOTIMPL;
    return value_call(I, f, (Value[]){v, x}, 2);
}

static Value try_dunder(Interp *I, Value v, Dunder d, Value x)
{
    Value f;

    if (!has_methods(v) || is_err(f = class_of(I, v)->dunder[d]))
        return VNOTIMPL;
    return value_call(I, f, (Value[]){v, x}, 2);
}

static bool right_first(Interp *I, Value a, Value b)
{
    ClassObj *ca, *cb;

    if (!has_methods(b) || (ca = class_of(I, a)) == (cb = class_of(I, b)))
        return false;
    return class_derives(cb, ca);
}

static Value methods_binary(Interp *I, int op, Value a, Value b)
{
    bool swap = right_first(I, a, b);
    Value r = swap ? try_method(I, b, reflected[op], a) : try_dunder(I, a, (Dunder)(D_add + op), b);

    if (r.tag != V_NOTIMPL)
        return r;
    return swap ? try_dunder(I, a, (Dunder)(D_add + op), b) : try_method(I, b, reflected[op], a);
}

/* A sequence times an object that says by __index__ how often. */
static Value repeated_by(Interp *I, int op, Value a, Value b)
{
    Value seq = is_seq(a) ? a : b, times = is_seq(a) ? b : a;
    int64_t n;

    if (op != AOP_MUL || !is_seq(seq) || times.tag != V_INSTANCE || is_err(class_find(class_of(I, times), sym("__index__"), NULL)))
        return VNOTIMPL;
    return value_as_int(I, times, &n) ? seq_repeat(I, seq, n) : VERR;
}

static Value binary_or_not(Interp *I, int op, Value a, Value b)
{
    Value r, ua, ub;

    if ((is_symbolic(a) || is_symbolic(b)) && a.tag != V_TENSOR && b.tag != V_TENSOR)
        return symint_binary(I, op, a, b);
    r = number_binary(I, op, a, b);
    if (r.tag != V_NOTIMPL)
        return r;
    if (has_methods(a) || has_methods(b)) {
        r = methods_binary(I, op, a, b);
        if (r.tag != V_NOTIMPL)
            return r;
    }
    if (a.tag == V_TENSOR || b.tag == V_TENSOR)
        return tensor_op_binary(I, op, unwrap_base(a), unwrap_base(b));
    if (a.tag == V_DTYPE && op == AOP_MATMUL)
        return dtype_op_binary(I, op, a, b);
    r = container_binary(I, op, a, b);
    if (r.tag != V_NOTIMPL)
        return r;
    r = types_binary(op, a, b);
    if (r.tag != V_NOTIMPL)
        return r;
    r = repeated_by(I, op, a, b);
    if (r.tag != V_NOTIMPL)
        return r;
    ua = unwrap_base(a);
    ub = unwrap_base(b);
    return ua.o != a.o || ub.o != b.o ? binary_or_not(I, op, ua, ub) : VNOTIMPL;
}

static Value raise_operands(Interp *I, const char *op, Value a, Value b)
{
    if ((a.tag == V_STR || a.tag == V_LIST || a.tag == V_TUPLE) && op[0] == '+' && !op[1])
        return raise(I, EXC_TypeError, "can only concatenate %s (not \"%s\") to %s", value_type_name(a), value_type_name(b),
                     value_type_name(a));
    if (a.tag == V_BYTES && op[0] == '+' && !op[1])
        return raise(I, EXC_TypeError, "can't concat %s to bytes", value_type_name(b));
    if (op[0] == '*' && !op[1] && (is_seq(a) || is_seq(b)))
        return raise(I, EXC_TypeError, "can't multiply sequence by non-int of type '%s'", value_type_name(is_seq(a) ? b : a));
    return raise(I, EXC_TypeError, "unsupported operand type(s) for %s: '%s' and '%s'", op, value_type_name(a),
                 value_type_name(b));
}

Value binary_slow(Interp *I, int op, Value a, Value b)
{
    Value r = binary_or_not(I, op, a, b);

    return r.tag == V_NOTIMPL ? raise_operands(I, ast_op_text[op], a, b) : r;
}

Value value_binary(Interp *I, int op, Value a, Value b)
{
    if (op >= AOP_EQ)
        return compare_op(I, op, a, b);
    return binary_slow(I, op, a, b);
}

Value inplace_op(Interp *I, int op, Value a, Value b)
{
    Value r = try_method(I, a, in_place[op], b);
    char text[8];

    if (r.tag != V_NOTIMPL)
        return r;
    if (is_symint(b) && a.tag == V_LIST) {
        b = symint_settled(I, b);
        return is_err(b) ? VERR : inplace_op(I, op, a, b);
    }
    if (a.tag == V_LIST && op == AOP_ADD) {
        SliceObj end = {.lo = vint(((ListObj *)a.o)->n), .hi = VNONE, .step = VNONE};
        Value items = b.tag == V_LIST && b.o != a.o ? value_ref(b) : value_to_list(I, b);
        bool ok = !is_err(items) && list_set_slice(I, as_list(a), &end, items);
        value_unref(items);
        return ok ? value_ref(a) : VERR;
    }
    if (a.tag == V_LIST && op == AOP_MUL && b.tag == V_INT) {
        SliceObj all = {.lo = VNONE, .hi = VNONE, .step = VNONE};
        Value more = seq_repeat(I, a, b.i);
        bool ok = !is_err(more) && list_set_slice(I, as_list(a), &all, more);
        value_unref(more);
        return ok ? value_ref(a) : VERR;
    }
    if (a.tag == V_DICT && op == AOP_BITOR)
        return dict_update(I, as_dict(a), b) ? value_ref(a) : VERR;
    if (a.tag == V_SET && b.tag == V_SET && op == AOP_BITOR && !(a.o->flags & 1))
        return set_update(I, (SetObj *)a.o, b) ? value_ref(a) : VERR;
    r = binary_or_not(I, op, a, b);
    if (r.tag != V_NOTIMPL)
        return r;
    snprintf(text, sizeof text, "%s=", ast_op_text[op]);
    return raise_operands(I, text, a, b);
}

/* ------------------------------------------------------------- one operand */

static Value int_unary(Interp *I, int op, int64_t a)
{
    if (op == AOP_NEG && a == INT64_MIN)
        return raise(I, EXC_OverflowError, "int result of -(%lld) does not fit in 64 bits", (long long)a);
    return vint(op == AOP_NEG ? -a : op == AOP_INVERT ? ~a : a);
}

Value value_unary(Interp *I, int op, Value a)
{
    static const Dunder special[] = {D_neg, D_pos, D_invert};
    static const char *const text[] = {"-", "+", "~"};
    Value f, u;
    int t;

    if (op == AOP_NOT) {
        t = truth(I, a);
        return t < 0 ? VERR : vbool(!t);
    }
    if (a.tag == V_INT || a.tag == V_BOOL)
        return int_unary(I, op, a.i);
    if (a.tag == V_FLOAT && op != AOP_INVERT)
        return vfloat(op == AOP_NEG ? -a.f : a.f);
    if (a.tag == V_COMPLEX && op != AOP_INVERT) {
        ComplexObj *c = (ComplexObj *)a.o;
        return op == AOP_NEG ? complex_new(-c->re, -c->im) : value_ref(a);
    }
    if (is_symbolic(a))
        return symint_unary(I, op, a);
    if (a.tag == V_TENSOR)
        return tensor_op_unary(I, op, a);
    if (has_methods(a) && !is_err(f = class_of(I, a)->dunder[special[op - AOP_NEG]]))
        return value_call(I, f, &a, 1);
    u = unwrap_base(a);
    if (u.o != a.o)
        return value_unary(I, op, u);
    return raise(I, EXC_TypeError, "bad operand type for unary %s: '%s'", text[op - AOP_NEG], value_type_name(a));
}
