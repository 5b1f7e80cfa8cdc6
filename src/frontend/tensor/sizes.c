/*
 * sizes.c - symbolic sizes where natives meet them.
 *
 * Sizes of staged tensors may be expressions (ir/core/dim_ask.h).  Natives
 * compute with dim_add and friends, ask dim_same and dim_ask_ge instead of
 * comparing, and come here for lists of sizes, slices of symbolic axes, and sizes as tensors.
 */
#include "frontend/tensor/bind.h"

#include "frontend/eval/symint.h"

#include <string.h>

bool shape_is(const Tensor *t, int rank, const Dim *shape)
{
    bool same = t->rank == rank;

    for (int i = 0; same && i < rank; i++)
        same = dim_same(t->shape[i], shape[i]);
    return same;
}

Dim shape_product(int rank, const Dim *shape)
{
    Dim n = 1;

    for (int i = 0; i < rank; i++)
        n = dim_mul(n, shape[i]);
    return n;
}

bool size_is_negative(Dim d)
{
    return d == DIM_BAD || (dim_is_const(d) ? false : dim_ask_ge(d, 0) == DIM_REFUTED);
}

bool size_is(Dim d, int64_t number)
{
    int64_t v;

    return dim_const_value(d, &v) && v == number;
}

/* ------------------------------------------------------------- lists of sizes */

bool arg_size_list(Interp *I, Value v, Dim *out, int max, int *n, const char *what)
{
    const Value *at = v.tag == V_LIST ? as_list(v)->at : v.tag == V_TUPLE ? as_tuple(v)->at : &v;
    int64_t k = v.tag == V_LIST ? as_list(v)->n : v.tag == V_TUPLE ? as_tuple(v)->n : 1;

    if (k > max) {
        raise(I, EXC_ValueError, "%s takes at most %d numbers, not %lld", what, max, (long long)k);
        return false;
    }
    for (int64_t i = 0; i < k; i++)
        if (!value_as_size(I, at[i], &out[i]))
            return false;
    *n = (int)k;
    return true;
}

bool arg_shape(Interp *I, Value v, int *rank, Dim *shape)
{
    if (!arg_size_list(I, v, shape, RANK_MAX, rank, "a shape"))
        return false;
    for (int i = 0; i < *rank; i++)
        if (size_is_negative(shape[i])) {
            raise(I, EXC_ShapeError, "a size cannot be negative: %s", dim_text(shape[i]));
            return false;
        }
    return true;
}

/* ------------------------------------------------------------- sizes as tensors */

/* Is it, in this call and so in all that are served, a number of that integer dtype? */
static bool size_fits(DType dt, Dim d)
{
    int bits = dtype_info[dt].bits;
    bool is_unsigned = dtype_info[dt].kind == DK_UINT;

    if (bits == 64)
        return !is_unsigned || dim_ask_ge(d, 0) == DIM_PROVED;
    int64_t most = is_unsigned ? ((int64_t)1 << bits) - 1 : ((int64_t)1 << (bits - 1)) - 1;
    return dim_ask_ge(most, d) == DIM_PROVED && dim_ask_ge(d, dim_const(is_unsigned ? 0 : -most - 1)) == DIM_PROVED;
}

Tensor *size_tensor(Interp *I, Dim d, DType dt)
{
    Attr a = attr_default();
    int64_t v;

    if (dim_const_value(d, &v)) {
        if (dtype_is_int(dt) && !size_fits(dt, d)) {
            raise(I, EXC_OverflowError, "the integer %lld does not fit %s", (long long)v, dtype_info[dt].name);
            return NULL;
        }
        return dtype_is_inexact(dt) ? tensor_scalar_f(dt, (double)v) : tensor_scalar_i(dt, v);
    }
    if (dtype_is_int(dt) && !size_fits(dt, d)) {
        raise(I, EXC_OverflowError, "the integer %s does not fit %s", dim_text(d), dtype_info[dt].name);
        return NULL;
    }
    a.nd[0] = 1;
    a.d[0][0] = d;
    return do_convert(I, run_op(I, OP_dim_value, &a, NULL, 0), dt);
}

Tensor *size_float(Interp *I, Value v, DType dt)
{
    Attr a = attr_default();
    StrBuf formula = {0};
    int n;
    double f;

    if (!symfloat_formula(v, &formula, a.d[0], &n))
        return symfloat_number(I, v, &f) ? tensor_scalar_f(dt, f) : NULL;
    a.nd[0] = (uint8_t)n;
    a.name = sym(sb_str(&formula));
    sb_done(&formula);
    return do_convert(I, run_op(I, OP_dim_float, &a, NULL, 0), dt);
}

Tensor *size_number(Interp *I, Dim d)
{
    Tensor *t = size_tensor(I, d, size_fits(DT_int32, d) ? DT_int32 : DT_int64);

    if (t)
        t->weak = true;
    return t;
}

/* ------------------------------------------------------------- slices */

/* Is a at least b, in this call and all others that are served? */
static bool at_least(Dim a, Dim b) { return dim_ask_ge(a, b) == DIM_PROVED; }

/* One bound: counted from the end when negative, and kept within [lo, hi]. V_NONE: `none`. */
static bool slice_bound(Interp *I, Value v, Dim none, Dim size, Dim lo, Dim hi, Dim *out)
{
    Dim d;

    if (v.tag == V_NONE) {
        *out = none;
        return true;
    }
    if (!value_as_size(I, v, &d))
        return false;
    if (!at_least(d, 0)) {
        d = dim_add(d, size);
        if (!at_least(d, 0))
            d = lo;
    } else if (dim_is_const(d) && hi == size)
        d = dim_min(d, size);                   /* x[:4] serves axes shorter than 4 too */
    else if (!at_least(hi, d))
        d = hi;
    *out = d;
    return true;
}

bool slice_sizes(Interp *I, const SliceObj *s, Dim size, Dim *start, Dim *step, Dim *count)
{
    int64_t by = 1;
    Dim stop, span, minus = dim_const(-1), last = dim_sub(size, 1);

    if (dim_is_const(size) && !is_symint(s->lo) && !is_symint(s->hi) && !is_symint(s->step))
        return slice_resolve(I, s, size, start, step, count);
    if (s->step.tag != V_NONE && !value_as_int(I, s->step, &by))
        return false;
    if (!by) {
        raise(I, EXC_ValueError, "slice step cannot be zero");
        return false;
    }
    if (by > 0 ? !slice_bound(I, s->lo, 0, size, 0, size, start) || !slice_bound(I, s->hi, size, size, 0, size, &stop)
               : !slice_bound(I, s->lo, last, size, minus, last, start) || !slice_bound(I, s->hi, minus, size, minus, last, &stop))
        return false;
    *step = by;
    span = by > 0 ? dim_sub(stop, *start) : dim_sub(*start, stop);
    *count = at_least(span, 0) ? dim_cdiv(span, by > 0 ? by : -by) : 0;
    return true;
}
