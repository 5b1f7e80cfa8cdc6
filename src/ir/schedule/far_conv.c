/*
 * Convolutions on a GPU: as on the host (runtime/conv.c), the product of the kernel, [O, C * taps], with the windows of the input, one a
 * column; it adds in the order of that row there and here.  The input is padded, its windows are laid out in one move, and the product is
 * one of matrices.
 *
 * Where the input is spread the host leaves out taps that meet nothing, which zeros would not be: those are the host's.
 */
#include "ir/schedule/far_impl.h"

#include "ir/graph/level.h"
#include "runtime/kernel_util.h"

#include <string.h>

enum { WINDOWS_LOG = 32 };      /* bytes of windows, at most */

/* The op's only result in place of *t, which is given up; once something failed nothing is done any more. */
static void become(Trace *T, OpId op, const Attr *a, Tensor **t)
{
    Tensor *out[4];
    int nout = 0;
    bool ok = *t && op_dispatch(T, op, a, t, 1, out, &nout);

    tensor_unref(*t);
    *t = ok ? out[0] : NULL;
}

static void reshape(Trace *T, Tensor **t, int rank, const int64_t *shape)
{
    Attr a = attr_default();

    a.nd[0] = (uint8_t)rank;
    memcpy(a.d[0], shape, sizeof *shape * (size_t)rank);
    become(T, OP_reshape, &a, t);
}

static int64_t number(const Attr *a, int list, int i, int64_t otherwise) { return a->nd[list] > i ? dim_int(a->d[list][i]) : otherwise; }

static void surround(Trace *T, const Attr *conv, Tensor **x)
{
    Attr a = attr_default();
    bool any = false;

    a.kind = 1;
    a.nd[0] = a.nd[1] = (uint8_t)conv->n;
    for (int i = 0; i < conv->n; i++) {
        a.d[0][i] = number(conv, 1, i, 0);
        a.d[1][i] = number(conv, 2, i, 0);
        any = any || a.d[0][i] || a.d[1][i];
    }
    if (any)
        become(T, OP_pad, &a, x);
}

/* [B, C, s...] to [B, C, taps..., places...], a view. */
static void windows(Trace *T, const Attr *conv, const Tensor *w, Tensor **x)
{
    Attr a = attr_default(), turn = attr_default();
    int n = conv->n;

    a.n = conv->n;
    a.nd[0] = a.nd[1] = a.nd[2] = (uint8_t)n;
    turn.naxes = (uint8_t)(2 * n);
    for (int i = 0; i < n; i++) {
        a.d[0][i] = w->shape[2 + i];
        a.d[1][i] = number(conv, 0, i, 1);
        a.d[2][i] = number(conv, 3, n + i, 1);
        turn.axis[i] = (int8_t)(i - n);
        turn.axis[n + i] = (int8_t)(i - 2 * n);
    }
    become(T, OP_window, &a, x);
    become(T, OP_permute, &turn, x);
}

static bool takes(const Attr *a, Tensor *const *in, const TType *y, DType accum)
{
    double bytes = dtype_info[y->dtype].sbits / 8.0 * (double)in[0]->shape[0] * (double)in[0]->shape[1];

    for (int i = 0; i < a->n; i++) {
        bytes *= (double)in[1]->shape[2 + i] * (double)y->shape[2 + i];
        if (number(a, 3, i, 1) != 1)
            return false;
    }
    for (int i = 0; i < y->rank; i++)
        if (!y->shape[i])
            return false;
    return (y->dtype == DT_f32 || y->dtype == DT_f64) && accum == (DType)y->dtype && in[0]->dtype == y->dtype && in[1]->dtype == y->dtype &&
           a->n > 0 && a->n < 4 && in[1]->shape[1] && bytes < (double)(1ull << WINDOWS_LOG);
}

int far_conv(Trace *T, const Attr *a, Tensor *const *in, const TType *y, Tensor **out)
{
    int64_t groups = a->m > 0 ? a->m : 1, taps = 1, places = 1, rows;
    Tensor *x, *w, *z = NULL;
    Attr product = attr_default();
    uint32_t dying = T->dying;
    int nout = 0;

    if (!takes(a, in, y, accum_dtype(a, (DType)in[0]->dtype, (DType)y->dtype)))
        return 0;
    for (int i = 0; i < a->n; i++) {
        taps *= in[1]->shape[2 + i];
        places *= y->shape[2 + i];
    }
    rows = in[1]->shape[1] * taps;
    T->dying = 0;
    x = tensor_ref(in[0]);
    w = tensor_ref(in[1]);
    surround(T, a, &x);
    windows(T, a, in[1], &x);
    reshape(T, &x, 4, (int64_t[]){y->shape[0], groups, rows, places});
    reshape(T, &w, 3, (int64_t[]){groups, y->shape[1] / groups, rows});
    product.accum = a->accum;
    product.policy = a->policy;
    if (!x || !w || !op_dispatch(T, OP_matmul, &product, (Tensor *[]){w, x}, 2, &z, &nout))
        z = NULL;
    reshape(T, &z, y->rank, y->shape);
    tensor_unref(x);
    tensor_unref(w);
    T->dying = dying;
    if (!z)
        return 0;
    z->weak = y->weak;
    z->policy = y->policy;
    out[0] = z;
    return 1;
}
