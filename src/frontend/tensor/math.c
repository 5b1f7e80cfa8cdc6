/*
 * math.c - elementwise functions, as functions and as methods of the same name.
 */
#include "frontend/dist/dist.h"
#include "frontend/tensor/bind.h"
#include "frontend/tensor/tree.h"
#include "frontend/tensor/whole.h"

#include <math.h>
#include <string.h>

static Value unary(Interp *I, Value v, OpId op, const char *name)
{
    Tensor *x = arg_tensor(I, v, name);
    return value_of(chain1(I, op, NULL, x));
}

/* name, what it gives */
#define UNARY_FUNCTIONS(U) \
    U(exp, "e to the x") U(exp2, "2 to the x") U(expm1, "exp(x) - 1, exact near 0") U(log, "The natural logarithm") \
    U(log2, "The logarithm to base 2") U(log10, "The logarithm to base 10") U(log1p, "log(1 + x), exact near 0") \
    U(sqrt, "The square root") U(rsqrt, "1 / sqrt(x)") U(sin, "The sine") U(cos, "The cosine") U(tan, "The tangent") \
    U(asin, "The inverse sine") U(acos, "The inverse cosine") U(atan, "The inverse tangent") U(sinh, "The hyperbolic sine") \
    U(cosh, "The hyperbolic cosine") U(tanh, "The hyperbolic tangent") U(asinh, "The inverse hyperbolic sine") \
    U(acosh, "The inverse hyperbolic cosine") U(atanh, "The inverse hyperbolic tangent") U(erf, "The error function") \
    U(erfc, "1 - erf(x), exact for large x") U(erfinv, "The inverse error function") U(lgamma, "log of the absolute gamma function") \
    U(digamma, "The derivative of lgamma") U(sigmoid, "1 / (1 + exp(-x)), without overflow") U(sign, "-1, 0 or 1; NaN stays") \
    U(floor, "The largest integers not above x") U(ceil, "The smallest integers not below x") U(trunc, "x rounded towards zero") \
    U(isnan, "Which elements are NaN") U(isinf, "Which elements are infinite") U(isfinite, "Which are neither NaN nor infinite") \
    U(conj, "The complex conjugate")

#define U(n, doc) static Value f_##n(Interp *I, Value *a) { return unary(I, a[0], OP_##n, #n); }
UNARY_FUNCTIONS(U)
#undef U

/* Of a tree of tensors: each of them. */
static Value f_stop_gradient(Interp *I, Value *a)
{
    TensorVec leaf = {0};
    Value out = VERR;
    int pos = 0, done = 0;
    if (a[0].tag == V_TENSOR || arg_is_number(a[0]))
        return unary(I, a[0], OP_stop_gradient, "stop_gradient");
    if (!tree_leaves(I, a[0], TREE_ALL, &leaf))
        return VERR;
    if (!leaf.n) {
        vec_free(&leaf);
        return unary(I, a[0], OP_stop_gradient, "stop_gradient");
    }
    while (done < leaf.n && (leaf.at[done] = chain1(I, OP_stop_gradient, NULL, tensor_ref(leaf.at[done]))))
        done++;
    if (done == leaf.n)
        out = tree_rebuild(I, a[0], TREE_ALL, leaf.at, &pos);
    while (done--)
        tensor_unref(leaf.at[done]);
    vec_free(&leaf);
    return out;
}

static Value f_abs(Interp *I, Value *a) { return unary(I, a[0], OP_abs, "abs"); }
static Value f_neg(Interp *I, Value *a) { return unary(I, a[0], OP_neg, "neg"); }
static Value f_logical_not(Interp *I, Value *a) { return unary(I, a[0], OP_lnot, "logical_not"); }

static Value f_real(Interp *I, Value *a)
{
    Tensor *x = arg_tensor(I, a[0], "real");
    return value_of(x && dtype_is_complex(x->dtype) ? chain1(I, OP_real, NULL, x) : x);
}

static Value f_imag(Interp *I, Value *a)
{
    Tensor *x = arg_tensor(I, a[0], "imag");
    if (x && !dtype_is_complex(x->dtype))
        return value_of(chain2(I, OP_sub, NULL, tensor_ref(x), x));
    return value_of(chain1(I, OP_imag, NULL, x));
}

/* x rounded to so many decimals, half to even. Takes x; NULL: pending. */
static Tensor *round_to(Interp *I, Tensor *x, int64_t digits)
{
    double scale = pow(10.0, (double)digits);
    DType dt = x->dtype;

    if (dtype_is_complex(dt)) {
        Tensor *im = round_to(I, chain1(I, OP_imag, NULL, tensor_ref(x)), digits);
        return chain2(I, OP_complex, NULL, round_to(I, chain1(I, OP_real, NULL, x), digits), im);
    }
    if (!digits || !dtype_is_inexact(dt))
        return chain1(I, OP_round, NULL, x);
    x = chain1(I, OP_round, NULL, chain2(I, OP_mul, NULL, x, tensor_scalar_f(dt, scale)));
    return chain2(I, OP_div, NULL, x, tensor_scalar_f(dt, scale));
}

/* round(x, digits) */
static Value f_round(Interp *I, Value *a)
{
    int64_t digits = 0;
    Tensor *x = arg_tensor(I, a[0], "round");
    if (!x || (is_given(a[1]) && !value_as_int(I, a[1], &digits))) {
        tensor_unref(x);
        return VERR;
    }
    return value_of(round_to(I, x, digits));
}

/* ------------------------------------------------------------- two operands */

/* Both as tensors; a number beside a tensor takes its dtype. */
static bool two(Interp *I, Value *a, const char *name, Tensor **x, Tensor **y)
{
    bool second = a[0].tag != V_TENSOR && a[1].tag == V_TENSOR;
    *x = *y = NULL;
    if (second) {
        *y = tensor_ref(as_tensor(a[1]));
        *x = arg_beside(I, a[0], *y, name);
    } else if ((*x = arg_tensor(I, a[0], name))) {
        *y = a[0].tag == V_TENSOR ? arg_beside(I, a[1], *x, name) : arg_tensor(I, a[1], name);
    }
    if (*x && *y)
        return true;
    tensor_unref(*x);
    tensor_unref(*y);
    return false;
}

static Value binary(Interp *I, Value *a, OpId op, const char *name)
{
    Tensor *x, *y;
    if (!two(I, a, name, &x, &y))
        return VERR;
    Tensor *out = binary_op(I, op, x, y);
    tensor_unref(x);
    tensor_unref(y);
    return value_of(out);
}

/* name, op, what it gives */
#define BINARY_FUNCTIONS(B) \
    B(maximum, maximum, "The larger elements; NaN wins") B(minimum, minimum, "The smaller elements; NaN wins") \
    B(atan2, atan2, "The angle of the point (y, x)") B(add, add, "x + y") B(subtract, sub, "x - y") B(multiply, mul, "x * y") \
    B(divide, div, "x / y, true division") B(floor_divide, floordiv, "x // y") B(remainder, mod, "x % y, with the sign of y") \
    B(power, pow, "x ** y") B(equal, eq, "x == y") B(not_equal, ne, "x != y") B(less, lt, "x < y") B(less_equal, le, "x <= y") \
    B(greater, gt, "x > y") B(greater_equal, ge, "x >= y") B(bitwise_and, bitand, "x & y") B(bitwise_or, bitor, "x | y") \
    B(bitwise_xor, bitxor, "x ^ y")

#define B(n, op, doc) static Value f_##n(Interp *I, Value *a) { return binary(I, a, OP_##op, #n); }
BINARY_FUNCTIONS(B)
#undef B

static Tensor *as_bool(Interp *I, Tensor *x)
{
    return x && x->dtype != DT_bool ? do_convert(I, x, DT_bool) : x;
}

static Value logical(Interp *I, Value *a, OpId op, const char *name)
{
    Tensor *x = as_bool(I, arg_tensor(I, a[0], name)), *y = x ? as_bool(I, arg_tensor(I, a[1], name)) : NULL;
    return value_of(chain2(I, op, NULL, x, y));
}

static Value f_logical_and(Interp *I, Value *a) { return logical(I, a, OP_bitand, "logical_and"); }
static Value f_logical_or(Interp *I, Value *a) { return logical(I, a, OP_bitor, "logical_or"); }
static Value f_logical_xor(Interp *I, Value *a) { return logical(I, a, OP_bitxor, "logical_xor"); }

static Value f_complex(Interp *I, Value *a)
{
    Tensor *x, *y;
    if (!two(I, a, "as_complex", &x, &y))
        return VERR;
    return value_of(chain2(I, OP_complex, NULL, x, y));
}

static Value f_fma(Interp *I, Value *a)
{
    Tensor *t[3] = {arg_tensor(I, a[0], "fma")}, *y = NULL;
    t[1] = t[0] ? arg_beside(I, a[1], t[0], "fma") : NULL;
    t[2] = t[1] ? arg_beside(I, a[2], t[0], "fma") : NULL;
    if (t[2])
        y = run_op(I, OP_fma, NULL, t, 3);
    for (int i = 0; i < 3; i++)
        tensor_unref(t[i]);
    return value_of(y);
}

/* ------------------------------------------------------------- where, clip */

static Value f_where(Interp *I, Value *a)               /* condition, x, y */
{
    Tensor *x, *y, *out = NULL, *c = as_bool(I, arg_tensor(I, a[0], "where"));
    if (c && !is_given(a[1]) && !is_given(a[2]))
        return tensor_true_places(I, c);
    if (c && (!is_given(a[1]) || !is_given(a[2]))) {
        tensor_unref(c);
        return raise(I, EXC_TypeError, "where() takes a condition and two values, or a condition alone");
    }
    if (!c || !two(I, a + 1, "where", &x, &y)) {
        tensor_unref(c);
        return VERR;
    }
    out = run_op(I, OP_where, NULL, (Tensor *[]){c, x, y}, 3);
    tensor_unref(c);
    tensor_unref(x);
    tensor_unref(y);
    return value_of(out);
}

static Tensor *bound(Interp *I, Tensor *x, Value limit, OpId op)
{
    if (!x || !is_given(limit))
        return x;
    Tensor *l = arg_beside(I, limit, x, "clip"), *y = l ? binary_op(I, op, x, l) : NULL;
    tensor_unref(l);
    tensor_unref(x);
    return y;
}

static Value clip_of(Interp *I, Value *a)
{
    Value lo = arg_either(a[1], a[3]), hi = arg_either(a[2], a[4]);
    if (!is_given(lo) && !is_given(hi))
        return raise(I, EXC_TypeError, "clip needs a lower bound, an upper bound or both");
    return value_of(bound(I, bound(I, arg_tensor(I, a[0], "clip"), lo, OP_maximum), hi, OP_minimum));
}

static Value f_clip(Interp *I, Value *a) { return whole_native(I, WHOLE_CLIP, "clip", clip_of, a); }

/* ------------------------------------------------------------- conversion */

static Value convert(Interp *I, Value x, Value dtype, const char *what)
{
    DType dt = DT_NONE;
    const Policy *policy;
    Tensor *t = arg_tensor(I, x, what);
    if (!t || !arg_dtype_policy(I, dtype, &dt, &policy)) {
        tensor_unref(t);
        return VERR;
    }
    return value_of(dt == DT_NONE ? t : do_declare(I, t, dt, policy));
}

/* .to(dtype), .to("bf16"), .to("cpu") */
/* x in a dtype with saturation, or as the format does. */
static Value in_dtype(Interp *I, Value x, Value target, bool saturate)
{
    Attr at = attr_default();
    DType dt = (DType)as_tensor(x)->dtype;

    if (!saturate)
        return convert(I, x, target, ".to");
    if (!arg_dtype_policy(I, target, &dt, &at.policy))
        return VERR;
    at.dtype = dt;
    at.saturate = 1;
    return value_of(run1(I, OP_convert, &at, as_tensor(x)));
}

/* x in a dtype or at a place, whichever the target is. */
static Value to_target(Interp *I, Value x, Value target, bool saturate)
{
    DType dt;
    const Policy *policy;
    int device, is_policy = target.tag == V_INSTANCE ? policy_of_object(I, target, &dt, &policy) : 1;

    if (is_policy < 0)
        return VERR;
    if ((target.tag == V_STR && !dtype_find(as_str(target)->s, &dt)) || !is_policy)
        return arg_device(I, target, &device) ? device_move(I, as_tensor(x), device) : VERR;
    return in_dtype(I, x, target, saturate);
}

static Value f_to(Interp *I, Value *a)                  /* self, target, dtype, device, saturate */
{
    Value x = value_ref(a[0]), y;
    bool saturate, any = false;

    if (!arg_bool(I, a[4], &saturate)) {
        value_unref(x);
        return VERR;
    }
    for (int i = 1; i <= 3 && !is_err(x); i++) {
        if (!is_given(a[i]))
            continue;
        any = true;
        y = i == 2 ? in_dtype(I, x, a[i], saturate) : to_target(I, x, a[i], saturate);
        value_unref(x);
        x = y;
    }
    if (any)
        return x;
    value_unref(x);
    return raise(I, EXC_TypeError, "to() takes a dtype, a device, or both: x.to(bf16), x.to(\"gpu:0\", bf16)");
}

static Value f_cast(Interp *I, Value *a) { return convert(I, a[0], a[1], "cast"); }

static Value f_cast_like(Interp *I, Value *a)
{
    Tensor *like = arg_tensor(I, a[1], "cast_like");
    Value v = like ? value_of(do_declare(I, arg_tensor(I, a[0], "cast_like"), (DType)like->dtype, like->policy)) : VERR;
    tensor_unref(like);
    return v;
}

static Value m_float(Interp *I, Value *a) { return value_of(do_convert(I, tensor_ref(as_tensor(a[0])), DT_f32)); }
static Value m_half(Interp *I, Value *a) { return value_of(do_convert(I, tensor_ref(as_tensor(a[0])), DT_f16)); }
static Value m_same(Interp *I, Value *a) { return value_ref(a[0]); }

/* ------------------------------------------------------------- the tables */

#define X1 "(x: Tensor | float, /) -> Tensor"
#define X2 "(x: Tensor | float, y: Tensor | float, /) -> Tensor"
#define S1 "(self) -> Tensor"
#define S2 "(self, y: Tensor | float, /) -> Tensor"

const NativeDef tensor_math_natives[] = {
#define U(n, doc) {"", #n, f_##n, X1, doc ", elementwise."}, {"Tensor", #n, f_##n, S1, doc ", elementwise."},
    UNARY_FUNCTIONS(U)
#undef U
    {"", "stop_gradient", f_stop_gradient, "(x: Any, /) -> Any", "x, a tensor or a tree of tensors, with derivative 0."},
    {"Tensor", "stop_gradient", f_stop_gradient, S1, "x, with derivative 0."},
#define B(n, op, doc) {"", #n, f_##n, X2, doc ", elementwise; shapes broadcast."}, {"Tensor", #n, f_##n, S2, doc ", elementwise; shapes broadcast."},
    BINARY_FUNCTIONS(B)
#undef B
    {"Tensor", "abs", f_abs, S1, "The absolute values."},
    {"Tensor", "__abs__", f_abs, S1, "The absolute values."},
    {"Tensor", "neg", f_neg, S1, "-x."},
    {"Tensor", "round", f_round, "(self, digits: int = 0) -> Tensor", "Rounded to that many decimals, halves to even."},
    {"Tensor", "__round__", f_round, "(self, digits: int = 0) -> Tensor", "Rounded to that many decimals, halves to even."},
    {"Tensor", "pow", f_power, S2, "x ** y, elementwise."},
    {"", "neg", f_neg, X1, "-x, elementwise."},
    {"", "real", f_real, X1, "The real part."},
    {"", "imag", f_imag, X1, "The imaginary part; zeros for real tensors."},
    {"", "as_complex", f_complex, X2, "x + y*1j."},
    {"", "fma", f_fma, "(x: Tensor, y: Tensor | float, z: Tensor | float, /) -> Tensor", "x * y + z, rounded once."},
    {"", "logical_not", f_logical_not, X1, "Which elements are zero."},
    {"", "logical_and", f_logical_and, X2, "Where both are nonzero."},
    {"", "logical_or", f_logical_or, X2, "Where either is nonzero."},
    {"", "logical_xor", f_logical_xor, X2, "Where exactly one is nonzero."},
    {"", "where", f_where, "(condition: Tensor | bool, x: Tensor | float | None = None, y: Tensor | float | None = None, /) -> Tensor | tuple",
     "x where the condition holds, else y; shapes broadcast, and no derivative comes from the side not chosen. Of a condition alone: where it holds, an index tensor for each axis."},
    {"", "clip", f_clip, "(x: Tensor | float, lo: Tensor | float | None = None, hi: Tensor | float | None = None, *, min: Tensor | float | None = None, max: Tensor | float | None = None) -> Tensor",
     "x with elements below lo raised to lo and those above hi lowered to hi."},
    {"Tensor", "clip", f_clip, "(self, lo: Tensor | float | None = None, hi: Tensor | float | None = None, *, min: Tensor | float | None = None, max: Tensor | float | None = None) -> Tensor",
     "Elements below lo raised to lo and those above hi lowered to hi."},
    {"Tensor", "clamp", f_clip, "(self, lo: Tensor | float | None = None, hi: Tensor | float | None = None, *, min: Tensor | float | None = None, max: Tensor | float | None = None) -> Tensor",
     "clip under PyTorch's name."},
    {"Tensor", "to", f_to, "(self, target: dtype | str | None = None, dtype: dtype | str | None = None, *, device: str | None = None, saturate: bool = False) -> Tensor",
     "In another dtype, on another device, or both, as PyTorch has it. Rounds to nearest; overflows as the format does unless saturate."},
    {"Tensor", "astype", f_cast, "(self, dtype: dtype | str, *, copy: bool = True) -> Tensor", "In another dtype; tensors are values, so copy changes nothing."},
    {"", "cast", f_cast, "(x: Tensor | float, dtype: dtype | str) -> Tensor", "x in another dtype."},
    {"", "cast_like", f_cast_like, "(x: Tensor | float, like: Tensor) -> Tensor", "x in the dtype of `like`."},
    {"Tensor", "cast_like", f_cast_like, "(self, like: Tensor) -> Tensor", "In the dtype of `like`."},
    {"Tensor", "float", m_float, S1, "As f32."},
    {"Tensor", "half", m_half, S1, "As f16."},
    {"Tensor", "clone", m_same, S1, "The tensor: tensors are values, so nothing needs copying."},
    {"Tensor", "copy", m_same, S1, "The tensor: tensors are values, so nothing needs copying."},
    {"Tensor", "contiguous", m_same, S1, "The tensor: layout is not visible."},
    {"Tensor", "cpu", m_same, S1, "The tensor on the CPU, where it is."},
    {"Tensor", "detach", f_stop_gradient, S1, "stop_gradient(x)."},
    {0},
};
