/*
 * make.c - tensors from data and from nothing: tensor, zeros, arange, eye ...
 */
#include "frontend/tensor/bind.h"

#include <math.h>
#include <string.h>

static Tensor *full_op(Interp *I, DType dt, int rank, const Dim *shape, double f)
{
    Attr a = attr_default();
    a.dtype = (uint8_t)dt;
    a.f = f;
    a.nd[0] = (uint8_t)rank;
    memcpy(a.d[0], shape, sizeof(Dim) * (size_t)rank);
    return run_op(I, OP_full, &a, NULL, 0);
}

static Value f_tensor(Interp *I, Value *a)
{
    DType dt = DT_NONE;
    const Policy *policy;
    if (!arg_dtype_policy(I, a[1], &dt, &policy))
        return VERR;
    bool rounds = policy && dtype_is_float(dt) && dtype_info[dt].bits < 32;     /* as the policy says, not as data are read */
    Tensor *t = tensor_from_data(I, a[0], rounds ? DT_f32 : dt);
    if (t && t->weak)
        t = do_convert(I, t, (DType)t->dtype);
    return value_of(policy ? do_declare(I, t, dt, policy) : t);
}

static Value filled(Interp *I, Value *a, double f)      /* *shape, dtype, shape= */
{
    DType dt = DT_f32;
    int rank;
    Dim shape[RANK_MAX];
    TupleObj *t = as_tuple(a[0]);
    Value star = a[0], cut = VERR, dtype = a[1];
    uint8_t last = t->n ? t->at[t->n - 1].tag : V_NONE;
    if (last == V_DTYPE || (t->n > 1 && (last == V_CLASS || last == V_NATIVE))) {       /* zeros((2, 3), bf16), zeros((2, 3), bool) */
        dtype = t->at[t->n - 1];
        cut = tuple_new(t->n - 1);
        for (int64_t i = 0; i < t->n - 1; i++)
            as_tuple(cut)->at[i] = value_ref(t->at[i]);
        star = cut;
    }
    bool ok = arg_dtype(I, dtype, &dt) && arg_shape_star(I, star, a[2], &rank, shape);
    if (!is_err(cut))
        value_unref(cut);
    return ok ? with_policy(I, value_of(full_op(I, dt, rank, shape, f)), dtype) : VERR;
}

static Value f_zeros(Interp *I, Value *a) { return filled(I, a, 0.0); }
static Value f_ones(Interp *I, Value *a) { return filled(I, a, 1.0); }

/* The dtype of a fill value given alone. */
static DType number_dtype(Value v)
{
    switch (v.tag) {
    case V_BOOL: return DT_bool;
    case V_INT: return v.i >= INT32_MIN && v.i <= INT32_MAX ? DT_int32 : DT_int64;
    case V_SYMINT: return dim_ask_ge(INT32_MAX, symint_size(v)) == DIM_PROVED ? DT_int32 : DT_int64;
    case V_COMPLEX: return DT_c64;
    case V_TENSOR: return (DType)as_tensor(v)->dtype;
    default: return DT_f32;
    }
}

/* value stretched to a shape: a full op for numbers, a broadcast for tensors. */
static Value full_value(Interp *I, Value value, DType dt, int rank, const Dim *shape)
{
    if (value.tag == V_TENSOR || value.tag == V_COMPLEX || value.tag == V_SYMINT ||
        (value.tag == V_INT && (value.i > 1LL << 53 || value.i < -(1LL << 53)))) {
        Tensor *x = do_convert(I, arg_tensor(I, value, "full"), dt);
        return value_of(do_broadcast(I, x, rank, shape));
    }
    double f;
    if (!value_as_float(I, value, &f))
        return VERR;
    return value_of(full_op(I, dt, rank, shape, f));
}

static Value f_full(Interp *I, Value *a)                /* shape, value, dtype */
{
    DType dt = number_dtype(a[1]);
    int rank;
    Dim shape[RANK_MAX];
    if (!arg_shape(I, a[0], &rank, shape) || !arg_dtype(I, a[2], &dt))
        return VERR;
    return with_policy(I, full_value(I, a[1], dt, rank, shape), a[2]);
}

static Value like(Interp *I, Value *a, double f)        /* x, dtype */
{
    Tensor *x = arg_tensor(I, a[0], "zeros_like");
    DType dt = x ? (DType)x->dtype : DT_f32;
    Value v = x && arg_dtype(I, a[1], &dt) ? with_policy(I, value_of(full_op(I, dt, x->rank, x->shape, f)), a[1]) : VERR;
    tensor_unref(x);
    return v;
}

static Value f_zeros_like(Interp *I, Value *a) { return like(I, a, 0.0); }
static Value f_ones_like(Interp *I, Value *a) { return like(I, a, 1.0); }

static Value f_full_like(Interp *I, Value *a)           /* x, value, dtype */
{
    Tensor *x = arg_tensor(I, a[0], "full_like");
    DType dt = x ? (DType)x->dtype : DT_f32;
    Value v = x && arg_dtype(I, a[2], &dt) ? with_policy(I, full_value(I, a[1], dt, x->rank, x->shape), a[2]) : VERR;
    tensor_unref(x);
    return v;
}

/* ------------------------------------------------------------- ranges */

static Tensor *host_range(Interp *I, DType dt, double lo, double step, int64_t n)
{
    Dim size = n;
    Tensor *t = tensor_new(dt, 1, &size);
    if (!t) {
        raise(I, EXC_MemoryError, "not enough memory for %lld elements", (long long)n);
        return NULL;
    }
    for (int64_t i = 0; i < n; i++)
        elem_set_f(t, i, lo + (double)i * step);
    return t;
}

/* lo + step * (0, 1, ...) where a size is symbolic. */
static Value arange_sizes(Interp *I, Dim lo, Dim hi, Dim step, DType dt)
{
    int64_t by;
    if (!dim_settle(step, &by) || !by)
        return raise(I, EXC_ValueError, "the step of arange cannot be 0");
    Dim span = by > 0 ? dim_sub(hi, lo) : dim_sub(lo, hi);
    Dim n = dim_ask_ge(span, 0) == DIM_PROVED ? dim_cdiv(span, by > 0 ? by : -by) : 0;
    if (dt == DT_NONE)
        dt = dim_ask_ge(INT32_MAX, lo) == DIM_PROVED && dim_ask_ge(INT32_MAX, hi) == DIM_PROVED &&
             dim_ask_ge(lo, dim_const(INT32_MIN)) == DIM_PROVED && dim_ask_ge(hi, dim_const(INT32_MIN)) == DIM_PROVED ? DT_int32 : DT_int64;
    DType wide = dtype_is_inexact(dt) ? DT_f64 : DT_int64;
    Tensor *t = iota_axis(I, wide == DT_f64 ? wide : dt, n);
    if (by != 1)
        t = chain2(I, OP_mul, NULL, t, t ? size_tensor(I, dim_const(by), (DType)t->dtype) : NULL);
    if (lo != 0)
        t = chain2(I, OP_add, NULL, t, t ? size_tensor(I, lo, (DType)t->dtype) : NULL);
    return value_of(do_convert(I, t, dt));
}

static Value arange_int(Interp *I, int64_t lo, int64_t hi, int64_t step, DType dt)
{
    int64_t span;
    if (step > 0 ? __builtin_sub_overflow(hi, lo, &span) : __builtin_sub_overflow(lo, hi, &span))
        return raise(I, EXC_OverflowError, "arange: the range is too long");
    uint64_t s = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    Dim n = span > 0 ? (Dim)(((uint64_t)span - 1) / s + 1) : 0;
    if (dt == DT_NONE)
        dt = lo >= INT32_MIN && lo <= INT32_MAX && hi >= INT32_MIN && hi <= INT32_MAX ? DT_int32 : DT_int64;
    if (dtype_is_inexact(dt))
        return value_of(host_range(I, dt, (double)lo, (double)step, n));
    Tensor *t = tensor_new(dt, 1, &n);
    if (!t)
        return raise(I, EXC_MemoryError, "not enough memory for %lld elements", (long long)n);
    int32_t *to = dt == DT_int32 ? tensor_data(t) : NULL;
    if (to)
        for (Dim i = 0; i < n; i++)
            to[i] = (int32_t)(lo + i * step);
    else
        for (Dim i = 0; i < n; i++)
            elem_set_i(t, i, lo + i * step);
    return tensor_value(t);
}

static Value arange_of(Interp *I, Value *a)             /* start, stop, step, dtype */
{
    DType dt = DT_NONE;
    Value lo = is_given(a[1]) ? a[0] : vint(0), hi = is_given(a[1]) ? a[1] : a[0], step = is_given(a[2]) ? a[2] : vint(1);
    double x, y, s;
    if (!arg_dtype(I, a[3], &dt))
        return VERR;
    if (lo.tag != V_FLOAT && hi.tag != V_FLOAT && step.tag != V_FLOAT) {
        int64_t i, j, k;
        Dim d[3];
        if (is_symint(lo) || is_symint(hi) || is_symint(step))
            return value_as_size(I, lo, &d[0]) && value_as_size(I, hi, &d[1]) && value_as_size(I, step, &d[2])
                   ? arange_sizes(I, d[0], d[1], d[2], dt) : VERR;
        if (!value_as_int(I, lo, &i) || !value_as_int(I, hi, &j) || !value_as_int(I, step, &k))
            return VERR;
        return k ? arange_int(I, i, j, k, dt) : raise(I, EXC_ValueError, "the step of arange cannot be 0");
    }
    if (!value_as_float(I, lo, &x) || !value_as_float(I, hi, &y) || !value_as_float(I, step, &s))
        return VERR;
    double n = ceil((y - x) / s);
    if (!(n < 1e15))
        return raise(I, EXC_ValueError, "arange(%g, %g, %g) has no definite length", x, y, s);
    return value_of(host_range(I, dt == DT_NONE ? DT_f32 : dt, x, s, n > 0 ? (int64_t)n : 0));
}

static Value f_arange(Interp *I, Value *a) { return with_policy(I, arange_of(I, a), a[3]); }

static Value linspace_of(Interp *I, Value *a)           /* start, stop, num, endpoint, dtype */
{
    DType dt = DT_f32;
    double lo, hi;
    int64_t n;
    bool endpoint;
    if (!value_as_float(I, a[0], &lo) || !value_as_float(I, a[1], &hi) || !value_as_int(I, a[2], &n) || !arg_bool(I, a[3], &endpoint) ||
        !arg_dtype(I, a[4], &dt))
        return VERR;
    if (n < 0)
        return raise(I, EXC_ValueError, "linspace cannot make %lld points", (long long)n);
    int64_t gaps = endpoint ? n - 1 : n;
    Tensor *t = host_range(I, dt, lo, gaps > 0 ? (hi - lo) / (double)gaps : 0.0, n);
    if (t && endpoint && n > 1)
        elem_set_f(t, n - 1, hi);
    return value_of(t);
}

static Value f_linspace(Interp *I, Value *a) { return with_policy(I, linspace_of(I, a), a[4]); }

/* Ones where row and column are the same. */
static Value eye_sizes(Interp *I, const Dim *shape, DType dt)
{
    Tensor *row = matrix_places(I, shape, -2), *column = matrix_places(I, shape, -1);

    return value_of(do_convert(I, chain2(I, OP_eq, NULL, row, column), dt));
}

static Value eye_of(Interp *I, Value *a)                /* n, m, dtype */
{
    DType dt = DT_f32;
    Dim shape[2];
    if (!value_as_size(I, a[0], &shape[0]) || !arg_dtype(I, a[2], &dt))
        return VERR;
    shape[1] = shape[0];
    if (is_given(a[1]) && !value_as_size(I, a[1], &shape[1]))
        return VERR;
    if (size_is_negative(shape[0]) || size_is_negative(shape[1]))
        return raise(I, EXC_ShapeError, "a size cannot be negative");
    if (!dim_is_const(shape[0]) || !dim_is_const(shape[1]))
        return eye_sizes(I, shape, dt);
    Tensor *t = tensor_zeros(dt, 2, shape);
    if (!t)
        return raise(I, EXC_MemoryError, "not enough memory for a tensor of this size");
    for (Dim i = 0; i < shape[0] && i < shape[1]; i++)
        elem_set_f(t, i * shape[1] + i, 1.0);
    return tensor_value(t);
}

static Value f_eye(Interp *I, Value *a) { return with_policy(I, eye_of(I, a), a[2]); }

/* ------------------------------------------------------------- parameters */

static Value mark(Value v, bool parameter)
{
    Tensor *t = tensor_ref(as_tensor(v));
    Value p = tensor_value(t);
    p.o->flags = parameter ? TENSOR_IS_PARAMETER : 0;
    return p;
}

static Value f_Parameter(Interp *I, Value *a)
{
    Tensor *t = tensor_from_data(I, a[0], DT_NONE);
    if (!t)
        return VERR;
    Value plain = tensor_value(t), p = mark(plain, true);
    value_unref(plain);
    return p;
}

static Value t_new(Interp *I, Value *a) { return f_tensor(I, a + 1); }

static Value f_is_parameter(Interp *I, Value *a)
{
    return vbool(a[0].tag == V_TENSOR && (a[0].o->flags & TENSOR_IS_PARAMETER));
}

static Value f_is_tensor(Interp *I, Value *a) { return vbool(a[0].tag == V_TENSOR); }

static Value v_pi(Interp *I, Value *a) { return vfloat(3.14159265358979323846); }
static Value v_inf(Interp *I, Value *a) { return vfloat(INFINITY); }
static Value v_nan(Interp *I, Value *a) { return vfloat(NAN); }

const NativeDef tensor_make_natives[] = {
    {"", "tensor", f_tensor, "(data, dtype: dtype | str | None = None) -> Tensor",
     "A tensor of numbers, (nested) lists, ranges or tensors. Floats give f32, ints int32 (int64 when they need it); ragged data raises ShapeError."},
    {"", "zeros", f_zeros, "(*sizes, dtype: dtype | str | None = None, shape: tuple | list | int | None = None) -> Tensor",
     "All zeros: zeros(2, 3), zeros((2, 3)); f32 unless dtype says otherwise."},
    {"", "ones", f_ones, "(*sizes, dtype: dtype | str | None = None, shape: tuple | list | int | None = None) -> Tensor", "All ones."},
    {"", "empty", f_zeros, "(*sizes, dtype: dtype | str | None = None, shape: tuple | list | int | None = None) -> Tensor",
     "A tensor to be written to: zeros, so that programs stay deterministic."},
    {"", "full", f_full, "(shape: tuple | list | int, value: float | Tensor, dtype: dtype | str | None = None) -> Tensor", "Every element `value`."},
    {"", "zeros_like", f_zeros_like, "(x: Tensor, dtype: dtype | str | None = None) -> Tensor", "Zeros of x's shape and dtype."},
    {"", "ones_like", f_ones_like, "(x: Tensor, dtype: dtype | str | None = None) -> Tensor", "Ones of x's shape and dtype."},
    {"", "empty_like", f_zeros_like, "(x: Tensor, dtype: dtype | str | None = None) -> Tensor", "A tensor of x's shape and dtype to be written to."},
    {"", "full_like", f_full_like, "(x: Tensor, value: float | Tensor, dtype: dtype | str | None = None) -> Tensor", "`value` everywhere, with x's shape and dtype."},
    {"", "arange", f_arange, "(start: int | float, stop: int | float | None = None, step: int | float = 1, dtype: dtype | str | None = None) -> Tensor",
     "start, start + step, ... below stop; one argument is the stop. Ints give int32, floats f32."},
    {"", "linspace", f_linspace, "(start: float, stop: float, num: int = 50, endpoint: bool = True, dtype: dtype | str | None = None) -> Tensor",
     "num points from start to stop, the end included unless endpoint is False."},
    {"", "eye", f_eye, "(n: int, m: int | None = None, dtype: dtype | str | None = None) -> Tensor", "The identity matrix [n, m or n]."},
    {"", "Tensor", NULL, "type[Tensor]", "The type of tensors; Tensor[\"B\", 4, f32] in annotations says shape and dtype."},
    {"", "DType", NULL, "type[dtype]", "The type of dtypes."},
    {"Tensor", "__new__", t_new, "(cls, data, dtype: dtype | str | None = None) -> Tensor", "tensor(data, dtype)."},
    {"", "Parameter", f_Parameter, "(data)", "The tensor marked as trained: grad without argnums differentiates by it."},
    {"", "is_parameter", f_is_parameter, "(x) -> bool", "Was x made by Parameter?"},
    {"", "is_tensor", f_is_tensor, "(x) -> bool", "Is x a tensor?"},
    {"", "pi", v_pi, "float", "The ratio of a circle's circumference to its diameter."},
    {"", "INF", v_inf, "float", "Positive infinity."},
    {"", "NAN", v_nan, "float", "Not a number."},
    {0},
};
