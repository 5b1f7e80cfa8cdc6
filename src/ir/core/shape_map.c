/*
 * Shape rules of elementwise ops, reductions, contractions and making.
 * Letters: m, k, n sizes of matrix products; N batch, C and O channels of convolutions.
 */
#include "ir/core/infer.h"

#define OP(name, nin, nout, fam, shape, ...) bool shape_##shape(Infer *f);
#include "ir/core/ops.def"

static void copy_shape(TType *to, const TType *from, int rank)
{
    to->rank = (uint8_t)rank;
    for (int i = 0; i < rank; i++)
        to->shape[i] = from->shape[i];
}

/* The results are operands, changed. */
bool shape_LAUNCH(Infer *f)
{
    f->nout = f->a->nd[0];
    for (int i = 0; i < f->nout; i++) {
        Dim at = f->a->d[0][i];
        if (at < 0 || at >= f->nin)
            return infer_fail(f, INFER_SHAPE, "launch has no operand %lld", (long long)at);
        f->out[i] = f->in[at];
    }
    return true;
}

bool shape_NONE(Infer *f)
{
    f->nout = 0;
    return f->op != OP_check || f->in[0].dtype == DT_bool || infer_fail(f, INFER_DTYPE, "check takes bools");
}

bool shape_SAME(Infer *f)
{
    for (int i = 0; i < f->a->naxes; i++)
        if (infer_axis(f, f->a->axis[i], f->in[0].rank) < 0)
            return false;
    copy_shape(&f->out[0], &f->in[0], f->in[0].rank);
    return true;
}

/* As SAME, but for the last axis where a number says how much of it there is. */
bool shape_FIRST(Infer *f)
{
    Dim *last = &f->out[0].shape[f->in[0].rank - 1];

    if (!shape_SAME(f) || !f->a->n)
        return shape_SAME(f);
    if (!f->in[0].rank || f->a->n < 0 || dim_ge(*last, f->a->n, NULL, NULL) == DIM_REFUTED)
        return infer_fail(f, INFER_SHAPE, "%s: the first %d of %s", op_info[f->op].name, f->a->n, shape_text(&f->in[0]));
    *last = f->a->n;
    return true;
}

/* Which axis keeps a and b from joining, for the message. */
static bool broadcast_fails(Infer *f, const TType *a, const TType *b)
{
    int n = a->rank < b->rank ? a->rank : b->rank;

    for (int i = 1; i <= n; i++) {
        Dim x = a->shape[a->rank - i], y = b->shape[b->rank - i], j;
        if (!dim_join(x, y, &j))
            return infer_fail(f, INFER_SHAPE, "%s: sizes %s and %s differ at axis %d", call_text(f), dim_text(x), dim_text(y), -i);
    }
    return infer_fail(f, INFER_SHAPE, "%s: shapes do not broadcast", call_text(f));
}

bool shape_BROADCAST(Infer *f)
{
    TType s = f->in[0];

    for (int i = 1; i < f->nin; i++) {
        TType before = s;
        if (!shape_join(&before, &f->in[i], &s))
            return broadcast_fails(f, &before, &f->in[i]);
    }
    copy_shape(&f->out[0], &s, s.rank);
    return true;
}

/* Reductions that have no neutral element need something to reduce. */
static bool needs_element(Infer *f, int axis)
{
    if (!(op_info[f->op].flags & OPF_RAISE) || !dim_same(f->in[0].shape[axis], 0))
        return true;
    for (int i = 0; i < f->in[0].rank; i++)             /* nothing to give either: fine */
        if (i != axis && dim_same(f->in[0].shape[i], 0))
            return true;
    return infer_fail(f, INFER_SHAPE, "%s of %s: the reduced axis is empty", op_info[f->op].name, shape_text(&f->in[0]));
}

bool shape_REDUCE(Infer *f)
{
    const TType *x = &f->in[0];
    bool gone[16] = {false};
    TType *o = &f->out[0];

    for (int i = 0; i < f->a->naxes; i++) {
        int k = infer_axis(f, f->a->axis[i], x->rank);
        if (k < 0 || !needs_element(f, k))
            return false;
        if (gone[k])
            return infer_fail(f, INFER_SHAPE, "%s: axis %d is named twice", op_info[f->op].name, f->a->axis[i]);
        gone[k] = true;
    }
    for (int i = 0; i < x->rank; i++)
        if (!gone[i])
            o->shape[o->rank++] = x->shape[i];
    return true;
}

bool shape_MATMUL(Infer *f)
{
    const TType *a = &f->in[0], *b = &f->in[1];
    TType x = *a, y = *b, s = {0};
    int ra = a->rank, rb = b->rank;

    if (ra < 2 || rb < 2)
        return infer_fail(f, INFER_SHAPE, "%s: both sides need at least two axes", call_text(f));
    if (!dim_may_equal(a->shape[ra - 1], b->shape[rb - 2]))
        return infer_fail(f, INFER_SHAPE, "%s: inner sizes %s and %s differ", call_text(f), dim_text(a->shape[ra - 1]),
                          dim_text(b->shape[rb - 2]));
    x.rank -= 2, y.rank -= 2;
    if (!shape_join(&x, &y, &s))
        return infer_fail(f, INFER_SHAPE, "%s: leading axes %s and %s do not broadcast", call_text(f), shape_text(&x), shape_text(&y));
    copy_shape(&f->out[0], &s, s.rank);
    f->out[0].shape[f->out[0].rank++] = a->shape[ra - 2];
    f->out[0].shape[f->out[0].rank++] = b->shape[rb - 1];
    return true;
}

/* Positions of a window of k (spread by dil) with the given stride in d elements: (d - dil*(k-1) - 1) // stride + 1. */
static Dim window_count(Dim d, Dim k, Dim stride, Dim dil)
{
    Dim reach = dim_add(dim_mul(dil, dim_sub(k, 1)), 1);

    return dim_add(dim_floordiv(dim_sub(d, reach), stride), 1);
}

bool shape_CONV(Infer *f)
{
    const TType *x = &f->in[0], *w = &f->in[1];
    const Attr *a = f->a;
    int n = a->n;
    Dim groups = a->m ? a->m : 1;
    TType *o = &f->out[0];

    if (x->rank != n + 2 || w->rank != n + 2)
        return infer_fail(f, INFER_SHAPE, "%s: needs input [N, C, %d sizes] and weight [O, C, %d sizes]", call_text(f), n, n);
    if (!dim_may_equal(x->shape[1], dim_mul(w->shape[1], groups)))
        return infer_fail(f, INFER_SHAPE, "%s: input has %s channels, the weight expects %s", call_text(f), dim_text(x->shape[1]),
                          dim_text(dim_mul(w->shape[1], groups)));
    if (groups > 1 && !dim_may_equal(dim_mod(w->shape[0], groups), 0))
        return infer_fail(f, INFER_SHAPE, "%s: %s output channels do not divide into %s groups", call_text(f), dim_text(w->shape[0]),
                          dim_text(groups));
    o->rank = x->rank;
    o->shape[0] = x->shape[0];
    o->shape[1] = w->shape[0];
    for (int i = 0; i < n; i++) {
        Dim spread = a->nd[3] > i ? a->d[3][i] : 1, dil = a->nd[3] > n + i ? a->d[3][n + i] : 1;
        Dim in = spread == 1 ? x->shape[2 + i] : dim_add(dim_mul(spread, dim_sub(x->shape[2 + i], 1)), 1);
        in = dim_add(in, dim_add(a->d[1][i], a->d[2][i]));
        o->shape[2 + i] = window_count(in, w->shape[2 + i], a->d[0][i], dil);
        if (dim_below(o->shape[2 + i], 0) || (dim_below(o->shape[2 + i], 1) && !dim_below(in, 1) && dim_below(dim_sub(in, w->shape[2 + i]), 0)))
            return infer_fail(f, INFER_SHAPE, "%s: the kernel is larger than the padded input at axis %d", call_text(f), i - n);
    }
    return true;
}

bool shape_WINDOW(Infer *f)
{
    const TType *x = &f->in[0];
    const Attr *a = f->a;
    int n = a->n, lead = x->rank - n;
    TType *o = &f->out[0];

    if (lead < 0 || x->rank + n > 16)
        return infer_fail(f, INFER_SHAPE, "window: %s has fewer than %d axes", shape_text(x), n);
    copy_shape(o, x, lead);
    for (int i = 0; i < n; i++) {
        Dim k = window_count(x->shape[lead + i], a->d[0][i], a->d[1][i], a->nd[2] > i ? a->d[2][i] : 1);
        if (dim_below(k, 1))
            return infer_fail(f, INFER_SHAPE, "window of %s over %s: larger than axis %d", dims_text(a->d[0], n), shape_text(x), i - n);
        o->shape[o->rank++] = k;
    }
    for (int i = 0; i < n; i++)
        o->shape[o->rank++] = a->d[0][i];
    return true;
}

bool shape_UNWINDOW(Infer *f)
{
    const TType *x = &f->in[0];
    int n = f->a->n, lead = x->rank - 2 * n;

    if (lead < 0)
        return infer_fail(f, INFER_SHAPE, "unwindow: %s has fewer than %d axes", shape_text(x), 2 * n);
    copy_shape(&f->out[0], x, lead);
    for (int i = 0; i < n; i++) {
        Dim count = window_count(f->a->d[3][i], f->a->d[0][i], f->a->d[1][i], f->a->nd[2] > i ? f->a->d[2][i] : 1);
        if (!dim_may_equal(x->shape[lead + i], count) || !dim_may_equal(x->shape[lead + n + i], f->a->d[0][i]))
            return infer_fail(f, INFER_SHAPE, "unwindow of %s: an axis of %s has %s windows of %s", shape_text(x), dim_text(f->a->d[3][i]),
                              dim_text(count), dim_text(f->a->d[0][i]));
        f->out[0].shape[f->out[0].rank++] = f->a->d[3][i];
    }
    return true;
}

/* A key [..., 2] goes with a result [..., rest]: the leading axes are the same. */
static bool key_fits(Infer *f, const TType *k, const Dim *shape, int rank)
{
    if (!k->rank || k->rank - 1 > rank || !dim_may_equal(k->shape[k->rank - 1], 2))
        return infer_fail(f, INFER_SHAPE, "a random key has 2 numbers, this one is %s", shape_text(k));
    for (int i = 0; i < k->rank - 1; i++)
        if (!dim_may_equal(k->shape[i], shape[i]))
            return infer_fail(f, INFER_SHAPE, "%s: keys %s do not lead %s", op_info[f->op].name, shape_text(k), dims_text(shape, rank));
    return true;
}

bool shape_DITHER(Infer *f)
{
    shape_SAME(f);
    return key_fits(f, &f->in[1], f->in[0].shape, f->in[0].rank);
}

bool shape_SHAPE_ATTR(Infer *f)
{
    if (f->op == OP_random && !key_fits(f, &f->in[0], f->a->d[0], f->a->nd[0]))
        return false;
    if (f->op == OP_iota && infer_axis(f, f->a->axis[0], f->a->nd[0]) < 0)
        return false;
    f->out[0].rank = f->a->nd[0];
    for (int i = 0; i < f->a->nd[0]; i++) {
        if (dim_below(f->a->d[0][i], 0))
            return infer_fail(f, INFER_SHAPE, "%s: a size cannot be negative: %s", op_info[f->op].name, dims_text(f->a->d[0], f->a->nd[0]));
        f->out[0].shape[i] = f->a->d[0][i];
    }
    return true;
}

bool shape_SCALAR(Infer *f)
{
    f->out[0].rank = 0;
    return true;
}

/* key [..., 2] and int [...] */
bool shape_KEY(Infer *f)
{
    TType k = f->in[0];

    if (k.rank < 1 || !dim_may_equal(k.shape[k.rank - 1], 2))
        return infer_fail(f, INFER_SHAPE, "a random key has 2 numbers, this one is %s", shape_text(&k));
    k.rank--;
    if (!shape_join(&k, &f->in[1], &f->out[0]))
        return infer_fail(f, INFER_SHAPE, "fold_key: %s and %s do not broadcast", shape_text(&k), shape_text(&f->in[1]));
    f->out[0].shape[f->out[0].rank++] = 2;
    return true;
}

/* -- linear algebra --------------------------------------------------------------------------------------------- */

static bool matrix(Infer *f, const TType *t, bool square)
{
    if (t->rank < 2)
        return infer_fail(f, INFER_SHAPE, "%s needs a matrix, not %s", op_info[f->op].name, shape_text(t));
    if (square && !dim_may_equal(t->shape[t->rank - 1], t->shape[t->rank - 2]))
        return infer_fail(f, INFER_SHAPE, "%s needs a square matrix, not %s", op_info[f->op].name, shape_text(t));
    return true;
}

bool shape_SQUARE(Infer *f)
{
    if (!matrix(f, &f->in[0], true))
        return false;
    copy_shape(&f->out[0], &f->in[0], f->in[0].rank);
    return true;
}

bool shape_SOLVE(Infer *f)
{
    const TType *a = &f->in[0], *b = &f->in[1];
    TType x = *a, y = *b;

    if (!matrix(f, a, true) || !matrix(f, b, false))
        return false;
    if (!dim_may_equal(a->shape[a->rank - 1], b->shape[b->rank - 2]))
        return infer_fail(f, INFER_SHAPE, "%s: sizes %s and %s differ", call_text(f), dim_text(a->shape[a->rank - 1]),
                          dim_text(b->shape[b->rank - 2]));
    x.rank -= 2, y.rank -= 2;
    if (!shape_join(&x, &y, &f->out[0]))
        return infer_fail(f, INFER_SHAPE, "%s: leading axes do not broadcast", call_text(f));
    f->out[0].shape[f->out[0].rank++] = b->shape[b->rank - 2];
    f->out[0].shape[f->out[0].rank++] = b->shape[b->rank - 1];
    return true;
}

bool shape_LU(Infer *f)
{
    if (!matrix(f, &f->in[0], true))
        return false;
    copy_shape(&f->out[0], &f->in[0], f->in[0].rank);
    copy_shape(&f->out[1], &f->in[0], f->in[0].rank - 1);
    return true;
}

bool shape_EIGH(Infer *f)
{
    if (!matrix(f, &f->in[0], true))
        return false;
    copy_shape(&f->out[0], &f->in[0], f->in[0].rank - 1);
    copy_shape(&f->out[1], &f->in[0], f->in[0].rank);
    return true;
}

/* x [..., m, n] as a result [..., r, c] */
static void matrix_like(TType *o, const TType *x, Dim r, Dim c)
{
    copy_shape(o, x, x->rank);
    o->shape[x->rank - 2] = r;
    o->shape[x->rank - 1] = c;
}

bool shape_QR(Infer *f)
{
    const TType *x = &f->in[0];
    Dim m, n, k;

    if (!matrix(f, x, false))
        return false;
    m = x->shape[x->rank - 2], n = x->shape[x->rank - 1], k = dim_ask_min(m, n);
    matrix_like(&f->out[0], x, m, k);
    matrix_like(&f->out[1], x, k, n);
    return true;
}

bool shape_SVD(Infer *f)
{
    const TType *x = &f->in[0];
    Dim m, n, k;

    if (!matrix(f, x, false))
        return false;
    m = x->shape[x->rank - 2], n = x->shape[x->rank - 1], k = dim_ask_min(m, n);
    matrix_like(&f->out[0], x, m, k);
    copy_shape(&f->out[1], x, x->rank - 1);
    f->out[1].shape[x->rank - 2] = k;
    matrix_like(&f->out[2], x, k, n);
    return true;
}

bool shape_FFT(Infer *f)
{
    const TType *x = &f->in[0];
    TType *o = &f->out[0];

    if (x->rank < 1 || dim_same(x->shape[x->rank - 1], 0))
        return infer_fail(f, INFER_SHAPE, "fft needs a last axis with elements, not %s", shape_text(x));
    copy_shape(o, x, x->rank);
    if (f->a->kind == 2)
        o->shape[x->rank - 1] = dim_add(dim_floordiv(x->shape[x->rank - 1], 2), 1);
    else if (f->a->kind == 3)
        o->shape[x->rank - 1] = f->a->nd[0] ? f->a->d[0][0] : f->a->i ? f->a->i : dim_mul(2, dim_sub(x->shape[x->rank - 1], 1));
    return true;
}

bool shape_SEARCH(Infer *f)
{
    const TType *a = &f->in[0], *b = &f->in[1];
    TType x = *a, y = *b, s = {0};

    if (!a->rank || !b->rank)
        return infer_fail(f, INFER_SHAPE, "%s: both need at least one axis", call_text(f));
    x.rank--, y.rank--;
    if (a->rank > 1 && !shape_join(&x, &y, &s))
        return infer_fail(f, INFER_SHAPE, "%s: leading axes differ", call_text(f));
    copy_shape(&f->out[0], a->rank > 1 ? &s : b, a->rank > 1 ? s.rank : b->rank);
    if (a->rank > 1)
        f->out[0].shape[f->out[0].rank++] = b->shape[b->rank - 1];
    return true;
}
