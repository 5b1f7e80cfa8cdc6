/* The vocabulary of rules.h. */
#include "ir/graph/rules.h"

#include "ir/graph/numerics.h"

#include <string.h>

Rule rule_begin(Trace *T)
{
    return (Rule){.T = T, .mark = T->temps.n};
}

void rule_end(Rule *r)
{
    while (r->T->temps.n > r->mark)
        tensor_unref(vec_pop(&r->T->temps));
}

Tensor *r_keep(Rule *r, Tensor *t)
{
    if (t)
        vec_push(&r->T->temps, t);
    else
        r->failed = true;
    return t;
}

Tensor *r_op(Rule *r, OpId op, const Attr *a, Tensor *const *x, int n)
{
    Attr fast;

    for (int i = 0; i < n; i++)
        if (!x[i])
            return NULL;
    if (r->fast && n && may_be_fast(op, x[0])) {
        fast = a ? *a : attr_default();
        fast.fast = 1;
        a = &fast;
    }
    return r->failed ? NULL : r_keep(r, op1(r->T, op, a, x, n));
}

Tensor *r_add(Rule *r, Tensor *x, Tensor *y)
{
    return x && y ? r2(r, OP_add, x, y) : x ? x : y;
}

Tensor *r_sub(Rule *r, Tensor *x, Tensor *y)
{
    return x && y ? r2(r, OP_sub, x, y) : x ? x : r_neg(r, y);
}

/* -- numbers ------------------------------------------------------------------------------------------------------------ */

Tensor *r_num(Rule *r, Tensor *like, double v)
{
    Tensor *t = tensor_scalar_i((DType)like->dtype, 0);

    if (dtype_is_complex((DType)like->dtype))
        elem_set_c(t, 0, v, 0);
    else
        elem_set_f(t, 0, v);
    t->weak = like->weak;
    return r_keep(r, t);
}

Tensor *r_int(Rule *r, int64_t v)
{
    return r_keep(r, tensor_scalar_i(DT_int32, v));
}

Tensor *r_full(Rule *r, const TType *y, double v)
{
    Attr a = attr_default();

    a.dtype = y->dtype;
    a.f = v;
    a.nd[0] = y->rank;
    memcpy(a.d[0], y->shape, sizeof(Dim) * y->rank);
    return r_op(r, OP_full, &a, NULL, 0);
}

Tensor *r_zeros(Rule *r, const TType *y)
{
    return r_full(r, y, 0);
}

Tensor *r_iota(Rule *r, const TType *shape, int axis)
{
    Attr a = attr_iota(DT_int32, shape->rank, shape->shape, axis);

    return r_op(r, OP_iota, &a, NULL, 0);
}

Tensor *r_or_zeros(Rule *r, Tensor *t, const Tensor *like)
{
    TType y;

    if (t || r->failed)
        return t;
    y = tensor_type(like);
    return r_zeros(r, &y);
}

/* -- moving -------------------------------------------------------------------------------------------------------------- */

static bool same_shape(const Tensor *x, int rank, const Dim *shape)
{
    return x->rank == rank && !memcmp(x->shape, shape, sizeof(Dim) * (size_t)rank);
}

static Tensor *shaped(Rule *r, OpId op, Tensor *x, int rank, const Dim *shape)
{
    Attr a = attr_default();

    if (!x || same_shape(x, rank, shape))
        return x;
    a.nd[0] = (uint8_t)rank;
    memcpy(a.d[0], shape, sizeof(Dim) * (size_t)rank);
    return r_op(r, op, &a, &x, 1);
}

Tensor *r_reshape(Rule *r, Tensor *x, int rank, const Dim *shape)
{
    return shaped(r, OP_reshape, x, rank, shape);
}

Tensor *r_broadcast(Rule *r, Tensor *x, int rank, const Dim *shape)
{
    return shaped(r, OP_broadcast, x, rank, shape);
}

Tensor *r_permute(Rule *r, Tensor *x, int n, const int *axis)
{
    Attr a = attr_default();

    a.naxes = (uint8_t)n;
    for (int i = 0; i < n; i++)
        a.axis[i] = (int8_t)axis[i];
    return r_op(r, OP_permute, &a, &x, 1);
}

Tensor *r_swap(Rule *r, Tensor *x, int a, int b)
{
    int axis[16], n;

    if (!x || a == b)
        return x;
    n = -(a < b ? a : b);
    for (int i = 0; i < n; i++)
        axis[i] = i - n;
    axis[a + n] = b;
    axis[b + n] = a;
    return r_permute(r, x, n, axis);
}

Tensor *r_mT(Rule *r, Tensor *x)
{
    if (x && dtype_is_complex((DType)x->dtype))
        x = r1(r, OP_conj, x);
    return r_swap(r, x, -2, -1);
}

Tensor *r_slice(Rule *r, Tensor *x, int axis, Dim start, Dim stop)
{
    Attr a = attr_default();
    int n = -axis;

    if (!x)
        return NULL;
    a.nd[0] = a.nd[1] = a.nd[2] = (uint8_t)n;
    for (int i = 0; i < n; i++) {
        a.d[0][i] = i ? 0 : start;
        a.d[1][i] = i ? x->shape[x->rank - n + i] : stop;
        a.d[2][i] = 1;
    }
    return r_op(r, OP_slice, &a, &x, 1);
}

static Tensor *with_axes(Rule *r, OpId op, Tensor *x, int n, const int *axis)
{
    Attr a = attr_default();

    a.naxes = (uint8_t)n;
    for (int i = 0; i < n; i++)
        a.axis[i] = (int8_t)axis[i];
    return r_op(r, op, &a, &x, 1);
}

Tensor *r_flip(Rule *r, Tensor *x, int axis)
{
    return with_axes(r, OP_flip, x, 1, &axis);
}

Tensor *r_concat(Rule *r, Tensor *x, Tensor *y, int axis)
{
    Attr a = attr_default();

    a.naxes = 1;
    a.axis[0] = (int8_t)axis;
    return r_op(r, OP_concat, &a, (Tensor *[]){x, y}, 2);
}

Tensor *r_sum(Rule *r, Tensor *x, int n, const int *axis)
{
    return n ? with_axes(r, OP_sum, x, n, axis) : x;
}

Tensor *r_expand(Rule *r, Tensor *x, int axis)
{
    Dim shape[16];
    int at;

    if (!x)
        return NULL;
    at = x->rank + 1 + axis;
    for (int i = 0; i <= x->rank; i++)
        shape[i] = i < at ? x->shape[i] : i == at ? 1 : x->shape[i - 1];
    return r_reshape(r, x, x->rank + 1, shape);
}

Tensor *r_convert(Rule *r, Tensor *x, uint8_t dtype)
{
    Attr a = attr_default();

    if (!x || x->dtype == dtype)
        return x;
    a.dtype = dtype;
    return r_op(r, OP_convert, &a, &x, 1);
}

Tensor *r_matmul(Rule *r, Tensor *x, Tensor *y)
{
    return r2(r, OP_matmul, x, y);
}

Tensor *r_take_last(Rule *r, Tensor *x, Tensor *idx)
{
    Attr a = attr_default();

    if (!x)
        return NULL;
    a.n = 1;
    a.m = (int16_t)(x->rank - 1);
    return r_op(r, OP_index, &a, (Tensor *[]){x, idx}, 2);
}

Tensor *r_tri(Rule *r, Tensor *x, bool upper, bool diagonal)
{
    TType m, y;
    Tensor *row, *col, *keep;

    if (!x)
        return NULL;
    y = tensor_type(x);
    m = (TType){.rank = 2, .shape = {y.shape[y.rank - 2], y.shape[y.rank - 1]}};
    row = r_iota(r, &m, -2);
    col = r_iota(r, &m, -1);
    keep = r2(r, upper ? (diagonal ? OP_le : OP_lt) : (diagonal ? OP_ge : OP_gt), row, col);
    return r3(r, OP_where, keep, x, r_num(r, x, 0));
}

/* -- fitting --------------------------------------------------------------------------------------------------------------- */

Tensor *r_fit(Rule *r, Tensor *t, const TType *y)
{
    return r_broadcast(r, r_convert(r, t, y->dtype), y->rank, y->shape);
}

/* Was an axis of that size stretched to the cotangent's? Summing over one element is right too, so a plain 1 need not ask. */
static bool is_stretched(Dim ct, Dim x) { return ct != x && (x == 1 || (!dim_same(ct, x) && dim_same(x, 1))); }

Tensor *r_unfit(Rule *r, Tensor *ct, const TType *x)
{
    int axis[16], n = 0, lead;

    if (!ct)
        return NULL;
    lead = ct->rank - x->rank;
    for (int i = 0; i < ct->rank; i++)
        if (i < lead || is_stretched(ct->shape[i], x->shape[i - lead]))
            axis[n++] = i - ct->rank;
    ct = r_sum(r, ct, n, axis);
    ct = r_convert(r, ct, x->dtype);
    return r_reshape(r, ct, x->rank, x->shape);
}
