/*
 * Transposes of convolution: both are convolutions again.
 *
 * y[n, o, i] = sum over c, k of x[n, c, (i*stride + k*dilation - before) / spread] w[o, c, k].
 * Letters: N batch, C and O channels, g groups, S input, K kernel and I output sizes of an axis.
 */
#include "ir/graph/rules.h"

#include <string.h>

#define OP(name, nin, nout, fam, shape, dtype, flags, attrs, jvp, transpose, ...) void transpose_##transpose(Transpose *t);
#include "ir/core/ops.def"

typedef struct Axis { Dim stride, before, spread, dilation, S, K, I; } Axis;

static Axis axis_of(const Transpose *t, int i)
{
    const Attr *a = t->a;
    int n = a->n;

    return (Axis){a->d[0][i], a->d[1][i], a->nd[3] > i ? a->d[3][i] : 1, a->nd[3] > n + i ? a->d[3][n + i] : 1,
                  t->xt[0].shape[2 + i], t->xt[1].shape[2 + i], t->yt[0].shape[2 + i]};
}

/* d * (n - 1) + 1: what n elements cover when d apart */
static Dim cover(Dim n, Dim d)
{
    return dim_add(dim_mul(d, dim_sub(n, 1)), 1);
}

static void set_axis(Attr *a, int i, Dim stride, Dim before, Dim after, Dim spread, Dim dilation)
{
    int n = a->n;

    a->nd[0] = a->nd[1] = a->nd[2] = (uint8_t)n;
    a->nd[3] = (uint8_t)(2 * n);
    a->d[0][i] = stride;
    a->d[1][i] = before;
    a->d[2][i] = after;
    a->d[3][i] = spread;
    a->d[3][n + i] = dilation;
}

/* [g * p, q, ...] as [g * q, p, ...], inside each of the g groups */
static Tensor *swap_channels(Rule *r, Tensor *w, Dim g)
{
    int n, axis[16];
    Dim s[16];

    if (!w)
        return NULL;
    n = w->rank - 2;
    s[0] = g;
    s[1] = dim_floordiv(w->shape[0], g);
    memcpy(s + 2, w->shape + 1, sizeof(Dim) * (size_t)(n + 1));
    w = r_reshape(r, w, n + 3, s);
    for (int i = 0; i < n + 3; i++)
        axis[i] = i - (n + 3);
    axis[1] = 2 - (n + 3), axis[2] = 1 - (n + 3);
    w = r_permute(r, w, n + 3, axis);
    if (!w)
        return NULL;
    s[0] = dim_mul(g, w->shape[1]);
    memcpy(s + 1, w->shape + 2, sizeof(Dim) * (size_t)(n + 1));
    return r_reshape(r, w, n + 2, s);
}

/* dx: the cotangent, spread by the stride, with the kernel turned around */
static Tensor *input_cotangent(Transpose *t, Tensor *c)
{
    Attr a = attr_default();
    Dim g = t->a->m ? t->a->m : 1;
    Tensor *w = swap_channels(t->r, t->x[1], g);

    a.n = t->a->n, a.m = t->a->m, a.accum = t->a->accum;
    for (int i = 0; i < a.n; i++) {
        Axis x = axis_of(t, i);
        Dim reach = dim_mul(x.dilation, dim_sub(x.K, 1)), before = dim_sub(reach, x.before);
        Dim after = dim_sub(dim_sub(dim_add(cover(x.S, x.spread), reach), cover(x.I, x.stride)), before);
        set_axis(&a, i, x.spread, before, after, x.stride, x.dilation);
        w = r_flip(t->r, w, i - a.n);
    }
    return r_op(t->r, OP_conv, &a, (Tensor *[]){c, w}, 2);
}

/* [N, g * C, ...] as [C, g * N, ...] */
static Tensor *batch_to_channels(Rule *r, Tensor *x, Dim g)
{
    int n = x->rank - 2, axis[16];
    Dim s[16];

    s[0] = x->shape[0], s[1] = g, s[2] = dim_floordiv(x->shape[1], g);
    memcpy(s + 3, x->shape + 2, sizeof(Dim) * (size_t)n);
    for (int i = 0; i < n + 3; i++)
        axis[i] = i - (n + 3);
    axis[0] = 2 - (n + 3), axis[1] = 1 - (n + 3), axis[2] = -(n + 3);
    x = r_permute(r, r_reshape(r, x, n + 3, s), n + 3, axis);
    if (!x)
        return NULL;
    s[0] = x->shape[0], s[1] = dim_mul(x->shape[1], x->shape[2]);
    memcpy(s + 2, x->shape + 3, sizeof(Dim) * (size_t)n);
    return r_reshape(r, x, n + 2, s);
}

/* dw: input correlated with the cotangent, batch and channels changing places */
static Tensor *kernel_cotangent(Transpose *t, Tensor *c)
{
    Rule *r = t->r;
    Attr a = attr_default();
    Dim g = t->a->m ? t->a->m : 1;
    Tensor *x = batch_to_channels(r, t->x[0], g);

    a.n = t->a->n, a.m = t->a->m, a.accum = t->a->accum;
    for (int i = 0; i < a.n; i++) {
        Axis s = axis_of(t, i);
        Dim need = dim_add(dim_mul(s.dilation, dim_sub(s.K, 1)), cover(s.I, s.stride));
        set_axis(&a, i, s.dilation, s.before, dim_sub(dim_sub(need, cover(s.S, s.spread)), s.before), s.spread, s.stride);
    }
    c = r_swap(r, c, -(a.n + 2), -(a.n + 1));               /* [O, N, I...] */
    c = r_op(r, OP_conv, &a, (Tensor *[]){x, c}, 2);        /* [C / g, O, K...] */
    return r_swap(r, c, -(a.n + 2), -(a.n + 1));
}

void transpose_conv(Transpose *t)
{
    Tensor *c = r_convert(t->r, r_fit(t->r, t->ct[0], &t->yt[0]), t->xt[0].dtype);

    if (t->linear[0])
        t->dx[0] = input_cotangent(t, c);
    if (t->linear[1])
        t->dx[1] = c ? kernel_cotangent(t, c) : NULL;
}
