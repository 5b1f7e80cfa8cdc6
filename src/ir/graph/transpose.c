/*
 * Transposes of the linear ops: from cotangents of results to cotangents of
 * the linear operands.  Cotangents may have the broadcast shape of the result;
 * the caller sums them down to the operand (r_unfit).  Complex numbers follow
 * JAX: the plain transpose, without conjugation.
 */
#include "ir/graph/rules.h"

#include <math.h>
#include <string.h>

#define OP(name, nin, nout, fam, shape, dtype, flags, attrs, jvp, transpose, ...) void transpose_##transpose(Transpose *t);
#include "ir/core/ops.def"

void transpose_none(Transpose *t)
{
    t->r->failed = true;
    trace_fail(t->r->T, OPERR_TRACE, "%s has no reverse derivative", op_info[t->op].name);
}

static Tensor *same_op(Transpose *t, const Attr *a, Tensor *x)
{
    return r_op(t->r, t->op, a, &x, 1);
}

/* The cotangent with the result's full shape, for rules that move elements. */
static Tensor *whole(Transpose *t)
{
    return r_fit(t->r, t->ct[0], &t->yt[0]);
}

/* -- elementwise ------------------------------------------------------------------------------------------------------------ */

void transpose_neg(Transpose *t) { t->dx[0] = r_neg(t->r, t->ct[0]); }

void transpose_real(Transpose *t)
{
    t->dx[0] = dtype_is_complex((DType)t->xt[0].dtype) ? r2(t->r, OP_complex, t->ct[0], r_num(t->r, t->ct[0], 0)) : t->ct[0];
}

void transpose_imag(Transpose *t)
{
    if (dtype_is_complex((DType)t->xt[0].dtype))
        t->dx[0] = r2(t->r, OP_complex, r_num(t->r, t->ct[0], 0), r_neg(t->r, t->ct[0]));
}

void transpose_conj(Transpose *t) { t->dx[0] = r1(t->r, OP_conj, t->ct[0]); }
void transpose_convert(Transpose *t) { t->dx[0] = t->ct[0]; }       /* the caller converts to the operand's dtype */

void transpose_complex(Transpose *t)
{
    if (t->linear[0])
        t->dx[0] = r1(t->r, OP_real, t->ct[0]);
    if (t->linear[1])
        t->dx[1] = r_neg(t->r, r1(t->r, OP_imag, t->ct[0]));
}

void transpose_add(Transpose *t)
{
    t->dx[0] = t->dx[1] = t->ct[0];
}

void transpose_sub(Transpose *t)
{
    t->dx[0] = t->ct[0];
    if (t->linear[1])
        t->dx[1] = r_neg(t->r, t->ct[0]);
}

/* A scalar that cannot make a zero into NaN, as factor or divisor. */
static bool harmless(Tensor *x)
{
    Tensor *c = tensor_concrete(x);
    double v;

    if (!c || c->rank)
        return false;
    v = elem_get_f(c, c->offset);
    return isfinite(v) && v != 0;
}

/*
 * p = ct times or over x. Where the side of a where that was not chosen has an
 * infinite or undefined slope, 0 * inf is 0. Elsewhere p stays, so that its
 * own derivative is right also where ct happens to be 0.
 */
static Tensor *slope_times(Transpose *t, OpId op, Tensor *x)
{
    Rule *r = t->r;
    Tensor *ct = t->ct[0], *p = r2(r, op, ct, x);

    if (!p || !t->masked || harmless(x) || dtype_is_complex((DType)p->dtype))
        return p;
    return r3(r, OP_where, r2(r, OP_bitand, r1(r, OP_isnan, p), r2(r, OP_eq, ct, r_num(r, ct, 0))), r_num(r, p, 0), p);
}

void transpose_mul(Transpose *t)
{
    if (t->linear[0])
        t->dx[0] = slope_times(t, OP_mul, t->x[1]);
    if (t->linear[1])
        t->dx[1] = slope_times(t, OP_mul, t->x[0]);
}

void transpose_div(Transpose *t) { t->dx[0] = slope_times(t, OP_div, t->x[1]); }

void transpose_where(Transpose *t)
{
    Tensor *zero = r_num(t->r, t->ct[0], 0);

    if (t->linear[1])
        t->dx[1] = r3(t->r, OP_where, t->x[0], t->ct[0], zero);
    if (t->linear[2])
        t->dx[2] = r3(t->r, OP_where, t->x[0], zero, t->ct[0]);
}

/* -- reductions -------------------------------------------------------------------------------------------------------------- */

void transpose_sum(Transpose *t)
{
    const TType *x = &t->xt[0];
    Dim shape[16];
    Tensor *c = r_convert(t->r, whole(t), x->dtype);

    memcpy(shape, x->shape, sizeof(Dim) * x->rank);
    for (int i = 0; i < t->a->naxes; i++)
        shape[x->rank + t->a->axis[i]] = 1;
    t->dx[0] = r_broadcast(t->r, r_reshape(t->r, c, x->rank, shape), x->rank, x->shape);
}

void transpose_cumsum(Transpose *t)
{
    Attr a = *t->a;

    a.i = !a.i;
    t->dx[0] = same_op(t, &a, whole(t));
}

/* -- moving ------------------------------------------------------------------------------------------------------------------ */

void transpose_reshape(Transpose *t) { t->dx[0] = r_reshape(t->r, whole(t), t->xt[0].rank, t->xt[0].shape); }
void transpose_broadcast(Transpose *t) { t->dx[0] = whole(t); }
void transpose_flip(Transpose *t) { t->dx[0] = same_op(t, t->a, whole(t)); }

void transpose_permute(Transpose *t)
{
    int n = t->a->naxes, inverse[16];

    for (int i = 0; i < n; i++)
        inverse[t->a->axis[i] + n] = i - n;
    t->dx[0] = r_permute(t->r, whole(t), n, inverse);
}

/* Padding that undoes start:stop:step of an axis of D, when the slice has n elements (step > 0). */
static void unslice_axis(Attr *p, int i, Dim D, Dim n, Dim start, Dim step)
{
    bool empty = dim_same(n, 0);

    p->d[0][i] = empty ? 0 : start;
    p->d[1][i] = empty ? D : dim_sub(dim_sub(D, start), dim_add(dim_mul(step, dim_sub(n, 1)), 1));
    p->d[2][i] = dim_sub(step, 1);
}

void transpose_slice(Transpose *t)
{
    const TType *x = &t->xt[0];
    const Attr *a = t->a;
    Attr p = attr_default();
    Tensor *c = whole(t);
    int n = a->nd[0], lead = x->rank - n;

    p.nd[0] = p.nd[1] = p.nd[2] = (uint8_t)n;
    for (int i = 0; i < n; i++) {
        Dim size = t->yt[0].shape[lead + i], start = a->d[0][i], step = a->nd[2] > i ? a->d[2][i] : 1;
        int64_t s;
        if (dim_const_value(step, &s) && s < 0) {       /* the same elements, in the other order */
            c = r_flip(t->r, c, i - n);
            start = dim_add(start, dim_mul(step, dim_sub(size, 1)));
            step = dim_const(-s);
        }
        unslice_axis(&p, i, x->shape[lead + i], size, start, step);
    }
    t->dx[0] = r_op(t->r, OP_pad, &p, &c, 1);
}

/* c padded where the pad cut, and cut where it padded; what lies between the elements stays. */
static Tensor *unpad(Transpose *t, Tensor *c)
{
    Attr p = attr_default();
    int n = t->a->nd[0];

    p.kind = 1;
    p.nd[0] = p.nd[1] = (uint8_t)n;
    for (int i = 0; i < n; i++) {
        p.d[0][i] = dim_sub(0, t->a->d[0][i]);
        p.d[1][i] = dim_sub(0, t->a->d[1][i]);
    }
    return r_op(t->r, OP_pad, &p, &c, 1);
}

void transpose_pad(Transpose *t)
{
    const TType *x = &t->xt[0];
    Attr s = attr_default();
    bool cuts = t->a->kind;
    Tensor *c = cuts ? unpad(t, whole(t)) : whole(t);
    int n = t->a->nd[0], lead = x->rank - n;

    s.nd[0] = s.nd[1] = s.nd[2] = (uint8_t)n;
    for (int i = 0; i < n; i++) {
        Dim D = x->shape[lead + i], step = dim_add(t->a->nd[2] > i ? t->a->d[2][i] : 0, 1);
        s.d[0][i] = cuts ? 0 : t->a->d[0][i];
        s.d[2][i] = step;
        s.d[1][i] = dim_same(D, 0) ? s.d[0][i] : dim_add(s.d[0][i], dim_add(dim_mul(step, dim_sub(D, 1)), 1));
    }
    t->dx[0] = r_op(t->r, OP_slice, &s, &c, 1);
}

void transpose_concat(Transpose *t)
{
    int axis = t->a->axis[0];
    Tensor *c = whole(t);
    Dim at = 0;

    for (int i = 0; i < t->n; i++) {
        Dim end = dim_add(at, t->xt[i].shape[t->xt[i].rank + axis]);
        if (t->linear[i])
            t->dx[i] = r_slice(t->r, c, axis, at, end);
        at = end;
    }
}

void transpose_window(Transpose *t)
{
    Attr a = *t->a;
    Tensor *c = whole(t);

    a.nd[3] = (uint8_t)a.n;
    for (int i = 0; i < a.n; i++)
        a.d[3][i] = t->xt[0].shape[t->xt[0].rank - a.n + i];
    t->dx[0] = r_op(t->r, OP_unwindow, &a, &c, 1);
}

void transpose_unwindow(Transpose *t)
{
    Attr a = *t->a;
    Tensor *c = whole(t);

    a.nd[3] = 0;
    t->dx[0] = r_op(t->r, OP_window, &a, &c, 1);
}

/* -- indexing ----------------------------------------------------------------------------------------------------------------- */

/* op on operand 0 (and 1) with the same index operands, which start at `from` here. */
static Tensor *indexed(Transpose *t, OpId op, Tensor *x, Tensor *v, int from)
{
    Tensor *in[20];
    int n = 0;

    in[n++] = x;
    if (v)
        in[n++] = v;
    for (int i = from; i < t->n && n < 20; i++)
        in[n++] = t->x[i];
    return r_op(t->r, op, t->a, in, n);
}

void transpose_index(Transpose *t)
{
    t->dx[0] = indexed(t, OP_index_add, r_zeros(t->r, &t->xt[0]), whole(t), 1);
}

/* A store's losers, values that a later duplicate overwrote, get nothing: each place remembers who wrote last. */
static Tensor *only_winners(Transpose *t, Tensor *c)
{
    TType ids = t->xt[1], board = t->xt[0], flat = {.rank = 1};
    Tensor *id, *last;
    int rest = t->xt[0].rank - t->a->m - t->a->n, nidx = ids.rank - t->a->m - rest;

    if (!c || nidx == 0)
        return c;
    ids.dtype = board.dtype = DT_int32;
    flat.shape[0] = 1;
    for (int i = 0; i < ids.rank; i++)
        flat.shape[0] = dim_mul(flat.shape[0], ids.shape[i]);
    id = r_reshape(t->r, r_iota(t->r, &flat, -1), ids.rank, ids.shape);
    last = indexed(t, OP_index, indexed(t, OP_index_put, r_zeros(t->r, &board), id, 2), NULL, 2);
    return r3(t->r, OP_where, r2(t->r, OP_eq, id, last), c, r_num(t->r, c, 0));
}

void transpose_index_put(Transpose *t)
{
    Tensor *c = whole(t);

    if (t->linear[0])
        t->dx[0] = indexed(t, OP_index_put, c, r_zeros(t->r, &t->xt[1]), 2);
    if (t->linear[1])
        t->dx[1] = only_winners(t, indexed(t, OP_index, c, NULL, 2));
}

void transpose_index_add(Transpose *t)
{
    Tensor *c = whole(t);

    t->dx[0] = c;
    if (t->linear[1])
        t->dx[1] = indexed(t, OP_index, c, NULL, 2);
}

void transpose_dynamic_slice(Transpose *t)
{
    t->dx[0] = indexed(t, OP_dynamic_update, r_zeros(t->r, &t->xt[0]), whole(t), 1);
}

void transpose_dynamic_update(Transpose *t)
{
    const TType *v = &t->xt[1];
    Tensor *c = whole(t), *in[20];
    Attr a = *t->a;
    int n = 0;

    if (t->linear[0])
        t->dx[0] = indexed(t, OP_dynamic_update, c, r_zeros(t->r, v), 2);
    if (!t->linear[1])
        return;
    a.nd[0] = (uint8_t)a.n;
    memcpy(a.d[0], &v->shape[v->rank - a.n], sizeof(Dim) * (size_t)a.n);
    in[n++] = c;
    for (int i = 2; i < t->n && n < 20; i++)
        in[n++] = t->x[i];
    t->dx[1] = r_op(t->r, OP_dynamic_slice, &a, in, n);
}

/* -- contractions ---------------------------------------------------------------------------------------------------------------- */

static Tensor *product(Transpose *t, Tensor *x, Tensor *y)
{
    Attr a = attr_default();

    a.accum = t->a->accum;
    a.fast = t->a->fast;
    a.compute = a.fast && t->a->compute == DT_tf32 ? DT_tf32 : a.compute;      /* its operands are f32 then, as these are */
    return r_op(t->r, OP_matmul, &a, (Tensor *[]){x, y}, 2);
}

/* [..., m, n] as [... * m, n]. */
static Tensor *as_rows(Transpose *t, Tensor *x, const TType *y)
{
    Dim shape[2] = {y->shape[0], y->shape[y->rank - 1]};

    for (int i = 1; i < y->rank - 1; i++)
        shape[0] = dim_mul(shape[0], y->shape[i]);
    return r_reshape(t->r, x, 2, shape);
}

/*
 * The cotangent of the second operand.  One matrix that all of a batch were multiplied with gets one product over
 * all their rows, rather than a product for each that are then added.
 */
static Tensor *of_second(Transpose *t, Tensor *c)
{
    const TType *x = &t->xt[0];

    if (t->xt[1].rank != 2 || x->rank <= 2)
        return product(t, r_swap(t->r, t->x[0], -2, -1), c);
    return product(t, r_swap(t->r, as_rows(t, t->x[0], x), -2, -1), as_rows(t, c, &t->yt[0]));
}

void transpose_matmul(Transpose *t)
{
    Rule *r = t->r;
    Tensor *c = r_convert(r, whole(t), t->xt[t->linear[0] ? 0 : 1].dtype);

    if (t->linear[0])
        t->dx[0] = product(t, c, r_swap(r, t->x[1], -2, -1));
    if (t->linear[1])
        t->dx[1] = of_second(t, c);
}

void transpose_triangular_solve(Transpose *t)
{
    Attr a = *t->a;

    a.kind ^= 2;
    t->dx[1] = r_op(t->r, OP_triangular_solve, &a, (Tensor *[]){t->x[0], whole(t)}, 2);
}

/* -- fft ---------------------------------------------------------------------------------------------------------------------------- */

static Tensor *fft(Rule *r, int kind, int64_t n, Tensor *x)
{
    Attr a = attr_default();

    a.kind = (uint8_t)kind;
    a.i = n;
    return r_op(r, OP_fft, &a, &x, 1);
}

static Dim last(const TType *y) { return y->shape[y->rank - 1]; }

/* rfft is real -> [n to complex] -> fft -> first half: back by zero padding, fft, real part */
static Tensor *transpose_rfft(Transpose *t, Tensor *c)
{
    Attr p = attr_default();

    p.nd[0] = p.nd[1] = 1;
    p.d[1][0] = dim_sub(last(&t->xt[0]), last(&t->yt[0]));
    return r1(t->r, OP_real, fft(t->r, 0, 0, r_op(t->r, OP_pad, &p, &c, 1)));
}

/*
 * irfft of n results: x_k counts once for k = 0 and, n even, k = n/2, twice
 * otherwise (its mirror image is there too): rfft of the cotangent, conjugated
 * to the plain transpose, times that count over n.
 */
static Tensor *transpose_irfft(Transpose *t, Tensor *c)
{
    Rule *r = t->r;
    Dim n = last(&t->yt[0]), half = last(&t->xt[0]);
    TType row = {.rank = 1, .shape = {half}};
    Tensor *k = r_iota(r, &row, -1), *y = fft(r, 2, 0, c), *once, *count, *size;
    Attr dv = attr_default();

    if (!y || !k)
        return NULL;
    dv.nd[0] = 1;
    dv.d[0][0] = n;
    size = r_op(r, OP_dim_value, &dv, NULL, 0);
    once = r2(r, OP_bitor, r2(r, OP_eq, k, r_int(r, 0)), r2(r, OP_eq, r_mul(r, k, r_int(r, 2)), size));
    count = r3(r, OP_where, once, r_num(r, c, 1), r_num(r, c, 2));
    count = r_div(r, count, r_convert(r, size, c->dtype));
    y = r_slice(r, y, -1, 0, half);
    return r1(r, OP_conj, r_mul(r, y, r2(r, OP_complex, count, r_num(r, c, 0))));
}

void transpose_fft(Transpose *t)
{
    Tensor *c = whole(t);

    switch (t->a->kind) {
    case 2:
        t->dx[0] = c ? transpose_rfft(t, c) : NULL;
        break;
    case 3:
        t->dx[0] = c ? transpose_irfft(t, c) : NULL;
        break;
    default:                            /* the matrices of fft and ifft are symmetric */
        t->dx[0] = fft(t->r, t->a->kind, 0, c);
        break;
    }
}
