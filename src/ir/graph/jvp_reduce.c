/*
 * JVP rules of reductions, running reductions, sorting, moving and indexing.
 */
#include "ir/graph/rules.h"

#include <string.h>

#define OP(name, nin, nout, fam, shape, dtype, flags, attrs, jvp, ...) void jvp_##jvp(Jvp *j);
#include "ir/core/ops.def"

/* The reduced result spread over the operand again. */
static Tensor *spread(Jvp *j, Tensor *y)
{
    const Tensor *x = j->x[0];
    Dim shape[16];

    memcpy(shape, x->shape, sizeof(Dim) * x->rank);
    for (int i = 0; i < j->a->naxes; i++)
        shape[x->rank + j->a->axis[i]] = 1;
    return r_reshape(j->r, y, x->rank, shape);
}

static void axes_of(const Attr *a, int *axis)
{
    for (int i = 0; i < a->naxes; i++)
        axis[i] = a->axis[i];
}

void jvp_reduce_minmax(Jvp *j)
{
    Rule *r = j->r;
    Tensor *hit = r2(r, OP_eq, j->x[0], spread(j, j->y[0])), *count;
    int axis[16];

    axes_of(j->a, axis);
    count = r_sum(r, r_convert(r, hit, j->x[0]->dtype), j->a->naxes, axis);
    j->dy[0] = r_div(r, r_sum(r, r3(r, OP_where, hit, j->t[0], r_num(r, j->t[0], 0)), j->a->naxes, axis), count);
}

/* y * (dx - sum(y * dx)), of which the derivative the other way has the same form. */
void jvp_as_softmax(Jvp *j)
{
    Rule *r = j->r;
    Tensor *t = r_mul(r, j->y[0], j->t[1]);
    int axis[16];

    axes_of(j->a, axis);
    j->dy[0] = t ? r_sub(r, t, r_mul(r, j->y[0], spread(j, r_sum(r, t, j->a->naxes, axis)))) : NULL;
}

/* The reduced axes moved to the end and joined: [..., n]. */
static Tensor *reduced_last(Jvp *j, Tensor *x)
{
    int order[16], n = 0, rank = x->rank;
    bool gone[16] = {false};
    Dim shape[16], size = 1;

    for (int i = 0; i < j->a->naxes; i++)
        gone[rank + j->a->axis[i]] = true;
    for (int i = 0; i < rank; i++)
        if (!gone[i])
            shape[n] = x->shape[i], order[n++] = i - rank;
    for (int i = 0, k = n; i < rank; i++)
        if (gone[i])
            order[k++] = i - rank, size = dim_mul(size, x->shape[i]);
    shape[n] = size;
    return r_reshape(j->r, r_permute(j->r, x, rank, order), n + 1, shape);
}

static Tensor *running(Rule *r, OpId op, Tensor *x, bool backwards)
{
    Attr a = attr_default();

    a.naxes = 1;
    a.axis[0] = -1;
    a.i = backwards;
    return r_op(r, op, &a, &x, 1);
}

/* prod of all elements before (after) each one along the last axis */
static Tensor *product_of_others(Rule *r, Tensor *x, bool after)
{
    Dim n = x->shape[x->rank - 1];
    Tensor *p = running(r, OP_cumprod, x, after), *one;
    TType y = tensor_type(x);

    y.shape[y.rank - 1] = 1;
    one = r_full(r, &y, 1);
    return after ? r_concat(r, r_slice(r, p, -1, 1, n), one, -1) : r_concat(r, one, r_slice(r, p, -1, 0, dim_sub(n, 1)), -1);
}

/* Each factor's tangent times the product of the other factors: right with zeros among them. */
void jvp_prod(Jvp *j)
{
    Rule *r = j->r;
    Tensor *x = r_convert(r, j->x[0], j->y[0]->dtype), *t = r_convert(r, j->t[0], j->y[0]->dtype), *others;

    if (!j->a->naxes) {
        j->dy[0] = t;
        return;
    }
    x = r->failed ? NULL : reduced_last(j, x);
    t = r->failed ? NULL : reduced_last(j, t);
    if (r->failed || dim_same(x->shape[x->rank - 1], 0))
        return;
    others = r_mul(r, product_of_others(r, x, false), product_of_others(r, x, true));
    j->dy[0] = r_sum(r, r_mul(r, t, others), 1, (int[]){-1});
}

/* Bring the op's axis to the end, and back. */
static Tensor *axis_last(Jvp *j, Tensor *x) { return r_swap(j->r, x, j->a->axis[0], -1); }

/*
 * dy_i = sum over k <= i of t_k * prod over l <= i, l != k of x_l: the products
 * come from a matrix whose row k is x with a 1 in place k, so zeros do no harm.
 */
void jvp_cumprod(Jvp *j)
{
    Rule *r = j->r;
    Tensor *x = axis_last(j, j->x[0]), *t = axis_last(j, j->t[0]), *m, *row, *col, *keep;
    TType sq;
    Dim n;

    if (!x || !t)
        return;
    n = x->shape[x->rank - 1];
    sq = (TType){.rank = 2, .shape = {n, n}};
    row = r_iota(r, &sq, -2);
    col = r_iota(r, &sq, -1);
    m = r3(r, OP_where, r2(r, OP_eq, row, col), r_num(r, x, 1), r_expand(r, x, -2));
    m = running(r, OP_cumprod, m, j->a->i);
    keep = r2(r, j->a->i ? OP_ge : OP_le, row, col);
    m = r_mul(r, r3(r, OP_where, keep, m, r_num(r, x, 0)), r_expand(r, t, -1));
    j->dy[0] = axis_last(j, r_sum(r, m, 1, (int[]){-2}));
}

/* Which element holds the running extreme: the last one that set or met it. */
void jvp_cumminmax(Jvp *j)
{
    Rule *r = j->r;
    Tensor *x = axis_last(j, j->x[0]), *t = axis_last(j, j->t[0]), *y = axis_last(j, j->y[0]), *place, *far;
    TType type;

    if (!x || !t || !y)
        return;
    type = tensor_type(x);
    place = r_iota(r, &type, -1);
    far = r_int(r, j->a->i ? INT32_MAX : 0);
    place = r3(r, OP_where, r2(r, OP_eq, x, y), place, far);
    place = running(r, j->a->i ? OP_cummin : OP_cummax, place, j->a->i);
    j->dy[0] = axis_last(j, r_take_last(r, t, place));
}

void jvp_sort(Jvp *j)
{
    j->dy[0] = r_take_last(j->r, j->t[0], r_op(j->r, OP_argsort, j->a, &j->x[0], 1));
}

void jvp_pad(Jvp *j)
{
    Attr a = *j->a;

    a.f = 0;
    j->dy[0] = r_op(j->r, j->op, &a, &j->t[0], 1);
}

/* -- indexing: linear in operand 0 (and the values), at fixed places ------------------------------------------------------ */

static void at_same_places(Jvp *j, int values)
{
    Tensor *in[20];

    if (j->n > 20) {
        j->r->failed = true;
        trace_fail(j->r->T, OPERR_VALUE, "too many index operands");
        return;
    }
    for (int i = 0; i < j->n; i++)
        in[i] = i < values ? r_or_zeros(j->r, j->t[i], j->x[i]) : j->x[i];
    j->dy[0] = r_op(j->r, j->op, j->a, in, j->n);
}

void jvp_index(Jvp *j) { at_same_places(j, 1); }
void jvp_index_put(Jvp *j) { at_same_places(j, 2); }
void jvp_index_add(Jvp *j) { at_same_places(j, 2); }
void jvp_dynamic_update(Jvp *j) { at_same_places(j, 2); }
