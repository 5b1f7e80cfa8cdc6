/*
 * reduce.c - sums, extremes, means and running sums.
 *
 * axis= and dim=, keepdims= and keepdim= are the same argument twice.  A mean or
 * variance of a narrow float is summed in f32 and rounded once at the end.
 */
#include "frontend/tensor/bind.h"
#include "frontend/tensor/whole.h"

#include <string.h>

/* Arguments as every reduction has them: x, axis, keepdims, dtype, dim, keepdim. */
typedef struct Reduce { Tensor *x; Attr a; bool keep; DType dtype; } Reduce;

static bool reduce_args(Interp *I, Value *a, const char *name, Reduce *r)
{
    r->a = attr_default();
    r->dtype = DT_NONE;
    r->x = arg_tensor(I, a[0], name);
    if (r->x && arg_axes(I, arg_either(a[1], a[4]), r->x->rank, &r->a) && arg_bool(I, arg_either(a[2], a[5]), &r->keep) &&
        arg_dtype(I, a[3], &r->dtype))
        return true;
    tensor_unref(r->x);
    return false;
}

/* y, with the reduced axes of x back as axes of one. */
static Tensor *keep_axes(Interp *I, Tensor *y, const Tensor *x, const Attr *a)
{
    Dim shape[RANK_MAX];
    memcpy(shape, x->shape, sizeof(Dim) * x->rank);
    for (int i = 0; i < a->naxes; i++)
        shape[x->rank + a->axis[i]] = 1;
    return do_reshape(I, y, x->rank, shape);
}

static Tensor *reduce_op(Interp *I, OpId op, Tensor *x, const Attr *axes, bool keep, DType dtype)
{
    Attr a = *axes;
    a.dtype = (uint8_t)dtype;
    Tensor *y = run_op(I, op, &a, &x, 1);
    return keep ? keep_axes(I, y, x, axes) : y;
}

static Value reduce(Interp *I, Value *a, OpId op, const char *name)
{
    Reduce r;
    if (!reduce_args(I, a, name, &r))
        return VERR;
    if (r.dtype != DT_NONE && !dtype_is_inexact(r.dtype) && dtype_is_inexact((DType)r.x->dtype))
        r.x = do_convert(I, r.x, r.dtype);              /* elements become ints, not their sum */
    Tensor *y = r.x ? reduce_op(I, op, r.x, &r.a, r.keep, r.dtype) : NULL;
    tensor_unref(r.x);
    return value_of(y);
}

static Value f_sum(Interp *I, Value *a) { return reduce(I, a, OP_sum, "sum"); }
static Value f_prod(Interp *I, Value *a) { return reduce(I, a, OP_prod, "prod"); }

static Value reduce_plain(Interp *I, Value *a, OpId op, const char *name)      /* the dtype is the op's */
{
    Reduce r;
    if (!reduce_args(I, a, name, &r))
        return VERR;
    Tensor *y = reduce_op(I, op, r.x, &r.a, r.keep, DT_NONE);
    tensor_unref(r.x);
    return value_of(r.dtype == DT_NONE ? y : do_convert(I, y, r.dtype));
}

static Value f_max(Interp *I, Value *a) { return reduce_plain(I, a, OP_max, "max"); }
static Value f_min(Interp *I, Value *a) { return reduce_plain(I, a, OP_min, "min"); }
static Value f_any(Interp *I, Value *a) { return reduce_plain(I, a, OP_any, "any"); }
static Value f_all(Interp *I, Value *a) { return reduce_plain(I, a, OP_all, "all"); }

/* ------------------------------------------------------------- means */

static Dim reduced_count(const Tensor *x, const Attr *a)
{
    Dim n = 1;
    for (int i = 0; i < a->naxes; i++)
        n = dim_mul(n, x->shape[x->rank + a->axis[i]]);
    return n;
}

/* Ints are averaged as f32; narrow floats are summed in f32. */
static DType mean_dtype(DType t)
{
    return !dtype_is_inexact(t) ? DT_f32 : dtype_accum(t);
}

/* The mean in the accumulator's dtype. */
static Tensor *mean_op(Interp *I, Tensor *x, const Attr *axes, bool keep, Dim count)
{
    DType dt = mean_dtype((DType)x->dtype);
    Tensor *s = do_convert(I, tensor_ref(x), dtype_is_inexact((DType)x->dtype) ? (DType)x->dtype : dt);
    Tensor *y = s ? reduce_op(I, OP_sum, s, axes, keep, dt) : NULL;
    tensor_unref(s);
    DType real = dtype_real(dt);
    return chain2(I, OP_div, NULL, y, y ? do_convert(I, size_tensor(I, count, real), dt) : NULL);
}

static DType result_dtype(const Reduce *r)
{
    if (r->dtype != DT_NONE)
        return r->dtype;
    return dtype_is_inexact((DType)r->x->dtype) ? (DType)r->x->dtype : DT_f32;
}

/* y, which it takes, in the dtype of the result, with the policy that x has in that dtype. */
static Tensor *settled(Interp *I, Tensor *y, const Reduce *r, DType dt)
{
    return y ? do_declare(I, y, dt, r->dtype == DT_NONE && dt == (DType)r->x->dtype ? r->x->policy : NULL) : NULL;
}

static Value f_mean(Interp *I, Value *a)
{
    Reduce r;
    if (!reduce_args(I, a, "mean", &r))
        return VERR;
    Tensor *y = mean_op(I, r.x, &r.a, r.keep, reduced_count(r.x, &r.a));
    y = settled(I, y, &r, result_dtype(&r));
    tensor_unref(r.x);
    return value_of(y);
}

/* The mean of squared deviations: two passes, so that large means cost no digits. */
static Tensor *variance(Interp *I, Reduce *r, int64_t ddof)
{
    Tensor *x = do_convert(I, tensor_ref(r->x), mean_dtype((DType)r->x->dtype));
    Dim n = x ? reduced_count(x, &r->a) : 0;
    Tensor *mean = x ? mean_op(I, x, &r->a, true, n) : NULL;
    Tensor *d = chain2(I, OP_sub, NULL, x, mean);
    if (d && dtype_is_complex((DType)d->dtype))
        d = chain1(I, OP_abs, NULL, d);
    Tensor *sq = d ? run_op(I, OP_mul, NULL, (Tensor *[]){d, d}, 2) : NULL;
    tensor_unref(d);
    Tensor *y = sq ? mean_op(I, sq, &r->a, r->keep, dim_is_const(n) && n < ddof ? 0 : dim_sub(n, ddof)) : NULL;
    tensor_unref(sq);
    return y;
}

/* The square root of a variance, which it takes; where that is 0 the derivative is 0, not the root's infinite one times 0. */
static Tensor *deviation(Interp *I, Tensor *variance)
{
    Tensor *zero = variance ? tensor_scalar_f((DType)variance->dtype, 0) : NULL, *one = zero ? tensor_scalar_f((DType)variance->dtype, 1) : NULL;
    Tensor *none = one ? run_op(I, OP_eq, NULL, (Tensor *[]){variance, zero}, 2) : NULL;
    Tensor *some = none ? run_op(I, OP_where, NULL, (Tensor *[]){none, one, variance}, 3) : NULL;
    Tensor *root = chain1(I, OP_sqrt, NULL, some), *y = root ? run_op(I, OP_where, NULL, (Tensor *[]){none, zero, root}, 3) : NULL;

    tensor_unref(variance), tensor_unref(zero), tensor_unref(one), tensor_unref(none), tensor_unref(root);
    return y;
}

static Value spread(Interp *I, Value *a, bool root, const char *name)          /* + unbiased, ddof, correction */
{
    Reduce r;
    bool unbiased;
    int64_t ddof = 0;
    Value given = arg_either(a[7], a[8]);
    if (!reduce_args(I, a, name, &r))
        return VERR;
    bool ok = arg_bool(I, a[6], &unbiased) && (!is_given(given) || arg_int_list(I, given, &ddof, 1, &(int){0}, "ddof"));
    Tensor *y = ok ? variance(I, &r, is_given(given) ? ddof : unbiased) : NULL;
    if (root)
        y = deviation(I, y);
    y = settled(I, y, &r, dtype_real(result_dtype(&r)));
    tensor_unref(r.x);
    return value_of(y);
}

static Value var_of(Interp *I, Value *a) { return spread(I, a, false, "var"); }
static Value std_of(Interp *I, Value *a) { return spread(I, a, true, "std"); }
static Value f_var(Interp *I, Value *a) { return whole_native(I, WHOLE_VAR, "var", var_of, a); }
static Value f_std(Interp *I, Value *a) { return whole_native(I, WHOLE_STD, "std", std_of, a); }

/* ------------------------------------------------------------- positions */

static Value arg_extreme(Interp *I, Value *a, OpId op, const char *name)       /* x, axis, keepdims, dim, keepdim */
{
    Tensor *x = arg_tensor(I, a[0], name);
    Value axis = arg_either(a[1], a[3]);
    Attr at = attr_default();
    bool keep;
    int k = -1;
    if (!x || !arg_bool(I, arg_either(a[2], a[4]), &keep) || (is_given(axis) && !arg_axis(I, axis, x->rank, &k))) {
        tensor_unref(x);
        return VERR;
    }
    Tensor *flat = tensor_ref(x);
    Dim n = shape_product(x->rank, x->shape);
    if (!is_given(axis)) {
        flat = do_reshape(I, flat, 1, &n);
        arg_axes(I, VNONE, x->rank, &at);
    } else {
        at.naxes = 1;
        at.axis[0] = (int8_t)k;
    }
    Attr one = attr_default();
    one.naxes = 1;
    one.axis[0] = (int8_t)k;
    Tensor *y = flat && flat->rank ? chain1(I, op, &one, flat) : chain1(I, op, &one, do_reshape(I, flat, 1, &n));
    if (y && keep)
        y = keep_axes(I, y, x, &at);
    tensor_unref(x);
    return value_of(y);
}

static Value f_argmax(Interp *I, Value *a) { return arg_extreme(I, a, OP_argmax, "argmax"); }
static Value f_argmin(Interp *I, Value *a) { return arg_extreme(I, a, OP_argmin, "argmin"); }

/* ------------------------------------------------------------- running */

static Value running(Interp *I, Value *a, OpId op, const char *name)           /* x, axis, dim, reverse */
{
    Tensor *x = arg_tensor(I, a[0], name);
    Value axis = arg_either(a[1], a[2]);
    Attr at = attr_default();
    bool reverse;
    int k = -1;
    if (!x || !arg_bool(I, a[3], &reverse) || (is_given(axis) && !arg_axis(I, axis, x->rank, &k))) {
        tensor_unref(x);
        return VERR;
    }
    Dim n = shape_product(x->rank, x->shape);
    if (!is_given(axis))
        x = do_reshape(I, x, 1, &n);
    at.naxes = 1;
    at.axis[0] = (int8_t)k;
    at.i = reverse;
    return value_of(chain1(I, op, &at, x));
}

static Value f_as_softmax(Interp *I, Value *a)          /* y, x, axis */
{
    Tensor *y = arg_tensor(I, a[0], "as_softmax"), *x = y ? arg_tensor(I, a[1], "as_softmax") : NULL;
    Attr at = attr_default();

    if (!x || !arg_axes(I, a[2], x->rank, &at)) {
        tensor_unref(y);
        tensor_unref(x);
        return VERR;
    }
    return value_of(chain2(I, OP_as_softmax, &at, y, x));
}

static Value f_cumsum(Interp *I, Value *a) { return running(I, a, OP_cumsum, "cumsum"); }
static Value f_cumprod(Interp *I, Value *a) { return running(I, a, OP_cumprod, "cumprod"); }
static Value f_cummax(Interp *I, Value *a) { return running(I, a, OP_cummax, "cummax"); }
static Value f_cummin(Interp *I, Value *a) { return running(I, a, OP_cummin, "cummin"); }

#define AX "axis: int | tuple | list | None = None, keepdims: bool = False, dtype: dtype | str | None = None, *, " \
    "dim: int | tuple | list | None = None, keepdim: bool | None = None"
#define AXU AX ", unbiased: bool = False, ddof: int | None = None, correction: int | None = None"
#define POS "axis: int | None = None, keepdims: bool = False, *, dim: int | None = None, keepdim: bool | None = None"
#define RUN "axis: int | None = None, *, dim: int | None = None, reverse: bool = False"
#define BOTH(name, fn, args, doc) {"", name, fn, "(x: Tensor, " args ") -> Tensor", doc}, {"Tensor", name, fn, "(self, " args ") -> Tensor", doc}

/* sum, max, min, any and all are Python's builtins too: the library's functions of these names call the methods. */
const NativeDef tensor_reduce_natives[] = {
    {"Tensor", "sum", f_sum, "(self, " AX ") -> Tensor", "The sum over the axes (all of them by default), in the operand's dtype unless dtype is given."},
    BOTH("prod", f_prod, AX, "The product over the axes."),
    {"Tensor", "max", f_max, "(self, " AX ") -> Tensor", "The largest element over the axes; NaN wins."},
    {"Tensor", "min", f_min, "(self, " AX ") -> Tensor", "The smallest element over the axes; NaN wins."},
    BOTH("amax", f_max, AX, "The largest element over the axes."),
    BOTH("amin", f_min, AX, "The smallest element over the axes."),
    {"Tensor", "any", f_any, "(self, " AX ") -> Tensor", "Is any element over the axes true?"},
    {"Tensor", "all", f_all, "(self, " AX ") -> Tensor", "Are all elements over the axes true?"},
    BOTH("mean", f_mean, AX, "The mean over the axes; of ints in f32."),
    BOTH("var", f_var, AXU, "The population variance over the axes; unbiased=True divides by n - 1, ddof (correction) by n - ddof."),
    BOTH("std", f_std, AXU, "The population standard deviation over the axes; unbiased=True divides by n - 1, ddof (correction) by n - ddof."),
    BOTH("argmax", f_argmax, POS, "The index of the first largest element along an axis (of the flattened tensor by default); int32."),
    BOTH("argmin", f_argmin, POS, "The index of the first smallest element along an axis; int32."),
    {"", "as_softmax", f_as_softmax, "(y: Tensor, x: Tensor, axis: int | tuple | list = -1) -> Tensor",
     "y, which is softmax of x along the axes: with the derivative of that, y * (dx - sum(y * dx)), which needs nothing but y."},
    BOTH("cumsum", f_cumsum, RUN, "Running sums along an axis."),
    BOTH("cumprod", f_cumprod, RUN, "Running products along an axis."),
    BOTH("cummax", f_cummax, RUN, "Running maxima along an axis."),
    BOTH("cummin", f_cummin, RUN, "Running minima along an axis."),
    {0},
};
