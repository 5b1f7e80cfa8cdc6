/*
 * Convolutions on a GPU: as on the host (runtime/conv.c), the product of the kernel, [O, C * taps], with the windows of the input, one a
 * column; it adds in the order of that row there and here.  The input is padded, its windows are laid out in one move, and the product is
 * one of matrices.  Where the input is spread, as for derivatives of convolutions with a stride, each phase is done so, and goes to its places.
 *
 * A window's elements are a column for each batch, where a batch has places enough to fill blocks of the product; else the columns of all batches
 * stand side by side, and what comes out is turned.  The derivative by the kernel has large windows and few places: there a window is laid out
 * as a row, along which memory goes on, and so does the product.
 *
 * Of bf16, f16 and tf32 the product is one of matrix units.  Where warpgroups have them windows are not laid out at all (far_windows.h), nor where
 * outputs meet so few elements that threads have some each (far_direct.h).
 */
#include "ir/schedule/far_windows.h"

#include "base/ints.h"
#include "runtime/gpu_device.h"
#include "runtime/kernel_util.h"

#include <math.h>
#include <string.h>

enum { WINDOWS_LOG = 32, PART = 8 };        /* bytes of windows, at most; of the memory, at most */
enum { BLOCK = 128, ALIGNED = 16, LONG = 1024 };        /* columns of the product's blocks; bytes that its rows are whole numbers of; steps */

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

/* As much of the input as the phase's windows reach, with zeros around it. */
static void surround(const FarConv *v, Tensor **x)
{
    Attr a = attr_default();
    bool any = false;

    a.kind = 1;
    a.nd[0] = a.nd[1] = (uint8_t)v->a->n;
    for (int i = 0; i < v->a->n; i++) {
        const ConvAxis *p = &v->axis[i];
        a.d[0][i] = dim_const(-p->start);
        a.d[1][i] = dim_const(p->start + (p->out - 1) * p->step + (p->taps - 1) * p->apart - (p->in - 1));
        any = any || a.d[0][i] || a.d[1][i];
    }
    if (any)
        become(v->T, OP_pad, &a, x);
}

/* Where the windows are: of each batch, of all of them in columns, and in rows. */
typedef enum { EACH, COLUMNS, ROWS } Lie;

/* How a product of [places] columns for each of so many batches, along so many steps, has its windows. */
static Lie lie_of(int64_t batches, int64_t groups, int64_t steps, int64_t places, int bytes)
{
    int64_t blocks = round_up(places, BLOCK);

    if (groups == 1 && steps > places && steps >= LONG)
        return ROWS;
    return batches > 1 && (places * bytes % ALIGNED || (blocks - places) * 4 > places) ? COLUMNS : EACH;
}

/* [B, C, s...] to a view with axes B, C, taps..., places... in the order of `lie`: B before C, before the places, or with them before C. */
static void windows(const FarConv *v, Lie lie, Tensor **x)
{
    Attr a = attr_default(), turn = attr_default();
    int n = v->a->n, batch = lie == COLUMNS ? n + 1 : 0, channels = lie == EACH ? 1 : lie == COLUMNS ? 0 : n + 1, taps = channels + 1,
        places = lie == ROWS ? 1 : n + 2;

    a.n = v->a->n;
    a.nd[0] = a.nd[1] = a.nd[2] = (uint8_t)n;
    turn.naxes = (uint8_t)(2 * n + 2);
    turn.axis[batch] = 0;
    turn.axis[channels] = 1;
    for (int i = 0; i < n; i++) {
        a.d[0][i] = v->axis[i].taps;
        a.d[1][i] = v->axis[i].step;
        a.d[2][i] = v->axis[i].apart;
        turn.axis[taps + i] = (int8_t)(2 + n + i);
        turn.axis[places + i] = (int8_t)(2 + i);
    }
    become(v->T, OP_window, &a, x);
    become(v->T, OP_permute, &turn, x);
}

/* The phase's taps of the kernel. */
static void taps_of(const FarConv *v, Tensor **w)
{
    Attr a = attr_default();
    bool all = true;

    a.nd[0] = a.nd[1] = a.nd[2] = (uint8_t)v->a->n;
    for (int i = 0; i < v->a->n; i++) {
        const ConvAxis *p = &v->axis[i];
        a.d[0][i] = p->tap;
        a.d[1][i] = p->window;
        a.d[2][i] = p->tap_each;
        all = all && p->taps == p->window;
    }
    if (!all)
        become(v->T, OP_slice, &a, w);
}

/* x @ y, where z then has the axes of `shape`, of which the first two are turned where the batches are in the columns. */
static Tensor *multiply(const FarConv *v, Tensor *w, Tensor *x, int64_t *shape, bool turned)
{
    Attr product = attr_default(), turn = attr_default();
    int64_t batches = shape[0], outputs = shape[1], rest = 1;
    Tensor *z = NULL;
    int nout = 0, n = v->a->n;

    product.accum = v->a->accum;
    product.dtype = v->y->dtype == v->w->dtype ? DT_NONE : v->y->dtype;
    product.policy = v->a->policy;
    if (!w || !x || !op_dispatch(v->T, OP_matmul, &product, (Tensor *[]){w, x}, 2, &z, &nout))
        z = NULL;
    for (int i = 0; i < n; i++)
        rest *= shape[2 + i];
    if (turned) {
        turn.naxes = 3;
        turn.axis[0] = 1, turn.axis[1] = 0, turn.axis[2] = 2;
        reshape(v->T, &z, 3, (int64_t[]){outputs, batches, rest});
        become(v->T, OP_permute, &turn, &z);
        reshape(v->T, &z, 2, (int64_t[]){batches, outputs * rest});
    }
    reshape(v->T, &z, 2 + n, shape);
    return z;
}

/* [B, O, places...] of the phase. NULL: something failed. */
static Tensor *phase(const FarConv *v, Tensor *input)
{
    int64_t groups = v->a->m > 0 ? v->a->m : 1, rows = v->w->shape[1], places = 1, shape[2 + SPATIAL] = {v->y->shape[0], v->y->shape[1]};
    Tensor *x = tensor_ref(input), *w = tensor_ref((Tensor *)v->w), *z;
    Attr turn = attr_default();
    Lie lie;

    for (int i = 0; i < v->a->n; i++) {
        rows *= v->axis[i].taps;
        places *= v->axis[i].out;
        shape[2 + i] = v->axis[i].out;
    }
    lie = lie_of(shape[0], groups, rows, places, dtype_info[v->w->dtype].sbits / 8);
    surround(v, &x);
    windows(v, lie, &x);
    if (lie == ROWS) {
        reshape(v->T, &x, 3, (int64_t[]){1, shape[0] * places, rows});
        turn.naxes = 2;
        turn.axis[0] = -1, turn.axis[1] = -2;
        become(v->T, OP_permute, &turn, &x);
    } else if (lie == COLUMNS) {
        reshape(v->T, &x, 3, (int64_t[]){groups, rows, shape[0] * places});
    } else {
        reshape(v->T, &x, 4, (int64_t[]){shape[0], groups, rows, places});
    }
    taps_of(v, &w);
    reshape(v->T, &w, 3, (int64_t[]){groups, shape[1] / groups, rows});
    z = multiply(v, w, x, shape, lie != EACH);
    tensor_unref(x);
    tensor_unref(w);
    return z;
}

/* The phase's places in the result get its sums; where it has no taps, zeros. false: something failed. */
static bool put_phase(const FarConv *v, Tensor *x, Tensor *y)
{
    int64_t shape[2 + SPATIAL] = {y->shape[0], y->shape[1]}, stride[2 + SPATIAL] = {y->stride[0], y->stride[1]}, at = y->offset;
    bool some = true, meets = true;
    Tensor *z, *to;

    for (int i = 0; i < v->a->n; i++) {
        const ConvAxis *p = &v->axis[i];
        shape[2 + i] = p->out;
        stride[2 + i] = y->stride[2 + i] * p->each;
        at += y->stride[2 + i] * p->first;
        some = some && p->out;
        meets = meets && p->taps;
    }
    if (!some)
        return true;
    z = meets ? phase(v, x) : tensor_zeros((DType)y->dtype, y->rank, shape);
    to = z ? tensor_view(y, y->rank, shape, stride, at) : NULL;
    if (to)
        tensor_assign(to, z);
    tensor_unref(to);
    tensor_unref(z);
    return to;
}

static Tensor *phases(FarConv *v, Tensor *x, const ConvSpread *d)
{
    Tensor *y = tensor_new((DType)v->y->dtype, v->y->rank, v->y->shape);
    int64_t at[SPATIAL] = {0};
    bool ok = y;
    int i;

    do {
        for (i = 0; i < v->a->n; i++)
            conv_phase(&v->axis[i], &d[i], at[i]);
        ok = ok && put_phase(v, x, y);
        for (i = v->a->n - 1; i >= 0 && ++at[i] == v->axis[i].each; i--)
            at[i] = 0;
    } while (i >= 0 && ok);
    if (ok)
        return y;
    tensor_unref(y);
    return NULL;
}

/* Dtypes that products are of: those of units are added up in f32, which may stay as it is. */
static bool takes_dtypes(const Attr *a, DType dt, DType y)
{
    DType accum = accum_dtype(a, dt, y);
    bool narrow = dt == DT_bf16 || dt == DT_f16 || dt == DT_tf32;

    return narrow ? accum == DT_f32 && (y == dt || y == DT_f32) : (dt == DT_f32 || dt == DT_f64) && y == dt && accum == dt;
}

/* And something to add up. */
static bool takes(const Attr *a, Tensor *const *in, const TType *y)
{
    for (int i = 0; i < y->rank; i++)
        if (!y->shape[i])
            return false;
    for (int i = 0; i < a->n; i++)
        if (!in[0]->shape[2 + i] || !in[1]->shape[2 + i])
            return false;
    return a->n >= 1 && a->n <= SPATIAL && in[0]->dtype == in[1]->dtype && in[1]->shape[1] &&
           takes_dtypes(a, (DType)in[0]->dtype, (DType)y->dtype);
}

/* Batches whose windows, of the first phase, fit into memory that may be taken for them. 0: not those of one. */
static int64_t batches_at_once(const FarConv *v, const Tensor *x)
{
    const GpuDevice *g = gpu_look((int)x->store->device - 1);
    double most = fmin((double)(1ull << WINDOWS_LOG), g ? (double)g->memory / PART : 0);
    double bytes = dtype_info[x->dtype].sbits / 8.0 * (double)x->shape[1];

    for (int i = 0; i < v->a->n; i++)
        bytes *= (double)v->axis[i].taps * (double)v->axis[i].out;
    return (int64_t)fmin((double)x->shape[0], most / fmax(bytes, 1));
}

/* Some batches after the others, into the result. */
static Tensor *batches(FarConv *v, const ConvSpread *d, Tensor *x, int64_t each, bool spread)
{
    int64_t all = v->y->shape[0], from[RANK_MAX], to[RANK_MAX];
    Tensor *y = tensor_new((DType)v->y->dtype, v->y->rank, v->y->shape);
    TType part = *v->y;
    bool ok = y;

    memcpy(from, x->shape, sizeof *from * (size_t)x->rank);
    memcpy(to, part.shape, sizeof *to * (size_t)part.rank);
    for (int64_t b = 0; b < all && ok; b += each) {
        from[0] = to[0] = part.shape[0] = least(each, all - b);
        Tensor *some = tensor_view(x, x->rank, from, x->stride, x->offset + b * x->stride[0]);
        Tensor *place = tensor_view(y, y->rank, to, y->stride, y->offset + b * y->stride[0]), *z;
        FarConv w = *v;
        w.y = &part;
        z = !some || !place ? NULL : spread ? phases(&w, some, d) : phase(&w, some);
        ok = z;
        if (ok)
            tensor_assign(place, z);
        tensor_unref(z);
        tensor_unref(place);
        tensor_unref(some);
    }
    if (ok)
        return y;
    tensor_unref(y);
    return NULL;
}

int far_conv(Trace *T, const Attr *a, Tensor *const *in, const TType *y, Tensor **out)
{
    FarConv v = {.T = T, .a = a, .w = in[1], .y = y};
    ConvSpread d[SPATIAL];
    uint32_t dying = T->dying;
    bool spread = false;
    int64_t each;

    if (!takes(a, in, y))
        return 0;
    for (int i = 0; i < a->n; i++) {
        v.axis[i] = (ConvAxis){.in = in[0]->shape[2 + i], .size = y->shape[2 + i], .window = in[1]->shape[2 + i]};
        d[i] = conv_spread(a, i);
        conv_phase(&v.axis[i], &d[i], 0);
        spread = spread || d[i].spread != 1;
    }
    T->dying = 0;
    out[0] = far_windows(&v, d, in[0]);
    if (!out[0])
        out[0] = far_direct(&v, d, in[0]);
    each = out[0] ? 0 : batches_at_once(&v, in[0]);
    if (each)
        out[0] = each < in[0]->shape[0] ? batches(&v, d, in[0], each, spread) : spread ? phases(&v, in[0], d) : phase(&v, in[0]);
    T->dying = dying;
    if (!out[0])
        return 0;
    out[0]->weak = y->weak;
    out[0]->policy = y->policy;
    return 1;
}
