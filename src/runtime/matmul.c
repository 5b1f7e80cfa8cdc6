/*
 * Matrix products and convolutions, both as gemm: a convolution is a product
 * of the kernel [O, C * window] with the windows of its input side by side.
 * m, k and n are the rows, the summed axis and the columns.
 */
#include "runtime/gemm_int8.h"

#include "base/alloc.h"

#include <string.h>

/* Lanes of the accumulator become the result: in place when they are the same, else converted. */
static KStatus finish(KCtx *c, Tensor *sum, const TType *type, Tensor **out)
{
    if (sum->dtype == type->dtype) {
        out[0] = sum;
        return K_OK;
    }
    out[0] = k_result(c, type);
    if (out[0])
        tensor_assign(out[0], sum);
    tensor_unref(sum);
    return out[0] ? K_OK : K_NOMEM;
}

/* Element offset of batch i of an operand whose leading axes stretch to the result's. */
static int64_t batch_offset(const Tensor *t, const TType *type, int64_t i)
{
    int64_t at = 0;

    for (int ax = type->rank - 3, own = t->rank - 3; ax >= 0; ax--, own--) {
        int64_t d = i % type->shape[ax];
        i /= type->shape[ax];
        if (own >= 0 && t->shape[own] != 1)
            at += d * t->stride[own];
    }
    return at;
}

/* The step between batches if it is one number: 0, or the same everywhere. */
static bool batch_step(const Tensor *t, const TType *type, int64_t batch, int64_t *step)
{
    *step = batch > 1 ? batch_offset(t, type, 1) : 0;
    for (int64_t i = 2; i < batch; i++)
        if (batch_offset(t, type, i) != i * *step)
            return false;
    return true;
}

bool matmul_plan(const Tensor *x, const Tensor *y, DType accum, const TType *type, Gemm *out)
{
    int r = type->rank, rx = x->rank, ry = y->rank;
    Gemm g = {.accum = accum, .batch = 1, .m = type->shape[r - 2], .n = type->shape[r - 1], .k = x->shape[rx - 1],
              .arow = x->stride[rx - 2], .acol = x->stride[rx - 1], .brow = y->stride[ry - 2], .bcol = y->stride[ry - 1],
              .a = tensor_read(x), .b = tensor_read(y), .crow = type->shape[r - 1], .cbatch = type->shape[r - 2] * type->shape[r - 1]};

    for (int i = 0; i < r - 2; i++)
        g.batch *= type->shape[i];
    *out = g;
    return batch_step(x, type, g.batch, &out->abatch) && batch_step(y, type, g.batch, &out->bbatch);
}

static KStatus product(KCtx *c, Tensor *x, Tensor *y, DType accum, const TType *type, Tensor *sum, const GemmDone *done)
{
    size_t size = raw_size((DType)sum->dtype);
    const char *a = tensor_read(x), *b = tensor_read(y);
    char *out = storage_data(sum->store);
    Gemm g;
    bool even = matmul_plan(x, y, accum, type, &g);
    int64_t batch = g.batch;
    KStatus s = K_OK;

    g.c = out;
    g.done = done;
    if (even)
        return gemm_run(c, g);
    if (done)
        return K_INDEX;
    g.batch = 1;
    for (int64_t i = 0; i < batch && s == K_OK; i++) {
        g.abatch = g.bbatch = 0;
        g.a = a + batch_offset(x, type, i) * (int64_t)size;
        g.b = b + batch_offset(y, type, i) * (int64_t)size;
        g.c = out + i * g.m * g.n * (int64_t)size;
        s = k_stopped(c) ? K_VALUE : gemm_run(c, g);
    }
    return s;
}

static bool is_bytes(const Tensor *t) { return t->dtype == DT_int8 || t->dtype == DT_uint8; }

/* Bytes summed in 32 bits, where the machine has a unit for that. NULL: the general way is to be taken. */
static Tensor *product_of_bytes(KCtx *c, Tensor *x, Tensor *y, DType accum, const TType *type)
{
    BytesUnit unit = accum == DT_int32 && is_bytes(x) && is_bytes(y) ? bytes_unit() : BYTES_NONE;
    int r = type->rank;
    BytesGemm g = {.m = type->shape[r - 2], .n = type->shape[r - 1], .k = x->shape[x->rank - 1], .crow = type->shape[r - 1],
                   .asigned = x->dtype == DT_int8, .bsigned = y->dtype == DT_int8, .arow = x->stride[x->rank - 2], .acol = x->stride[x->rank - 1],
                   .brow = y->stride[y->rank - 2], .bcol = y->stride[y->rank - 1]};
    TType lanes = *type;
    int64_t batch = 1;
    KStatus s = K_OK;
    Tensor *sum;

    lanes.dtype = DT_int32;
    if (unit == BYTES_NONE || (unit == BYTES_VNNI && !g.bsigned) || !(sum = k_result(c, &lanes)))
        return NULL;
    for (int i = 0; i < r - 2; i++)
        batch *= type->shape[i];
    for (int64_t i = 0; i < batch && s == K_OK && g.m && g.n; i++) {
        g.a = (const uint8_t *)tensor_read(x) + batch_offset(x, type, i);
        g.b = (const uint8_t *)tensor_read(y) + batch_offset(y, type, i);
        g.c = (int32_t *)(void *)storage_data(sum->store) + i * g.m * g.n;
        s = gemm_bytes(c, &g, unit);
    }
    if (s == K_OK)
        return sum;
    tensor_unref(sum);
    return NULL;
}

KStatus kernel_matmul(KERNEL_ARGS)
{
    DType accum = accum_dtype(a, common_dtype(in[0], in[1]), (DType)type->dtype);
    Tensor *bytes = product_of_bytes(c, in[0], in[1], accum, type);
    if (bytes)
        return finish(c, bytes, type, out);
    Tensor *x = lanes_of(c, in[0], accum), *y = x ? lanes_of(c, in[1], accum) : NULL, *sum = NULL;
    TType lanes = *type;
    KStatus s = K_NOMEM;

    (void)op, (void)nin;
    lanes.dtype = (uint8_t)lane_dtype(accum);
    if (y && (sum = k_result(c, &lanes)))
        s = product(c, x, y, accum, type, sum, NULL);
    tensor_unref(x);
    tensor_unref(y);
    if (s == K_OK)
        return finish(c, sum, type, out);
    tensor_unref(sum);
    return s;
}

bool matmul_in_steps(const Tensor *x, const Tensor *y, const Tensor *sum)
{
    TType type = {.dtype = sum->dtype, .rank = (uint8_t)sum->rank};
    int64_t batch = 1, step;

    memcpy(type.shape, sum->shape, sizeof *sum->shape * (size_t)sum->rank);
    for (int i = 0; i < sum->rank - 2; i++)
        batch *= sum->shape[i];
    return batch_step(x, &type, batch, &step) && batch_step(y, &type, batch, &step);
}

KStatus matmul_into(KCtx *c, Tensor *x, Tensor *y, DType accum, Tensor *sum, const GemmDone *done)
{
    TType type = {.dtype = sum->dtype, .rank = (uint8_t)sum->rank};
    KStatus s = K_NOMEM;

    memcpy(type.shape, sum->shape, sizeof *sum->shape * (size_t)sum->rank);
    x = lanes_of(c, x, accum);
    y = x ? lanes_of(c, y, accum) : NULL;
    if (y)
        s = product(c, x, y, accum, &type, sum, done);
    tensor_unref(x);
    tensor_unref(y);
    return s;
}

/* ---- convolution ---- */

/* n spatial axes; g groups; C and O channels in and out; P output places; K = C / g * window. */
typedef struct Conv {
    int n;
    int64_t groups, C, O, P, K;
    int64_t in[RANK_MAX], out[RANK_MAX], win[RANK_MAX];     /* spatial sizes */
    int64_t stride[RANK_MAX], before[RANK_MAX], spread[RANK_MAX], dilation[RANK_MAX];
    const Tensor *x;            /* lanes */
    size_t size;
    char *cols;                 /* [K, places of one block] */
    int64_t batch, group, place, places;
} Conv;

static int64_t attr_at(const Attr *a, int list, int i, int64_t otherwise)
{
    return a->nd[list] > i ? dim_int(a->d[list][i]) : otherwise;
}

static void conv_open(Conv *v, const Attr *a, const Tensor *x, const Tensor *w, const TType *type)
{
    int n = v->n = a->n;

    v->groups = a->m > 0 ? a->m : 1;
    v->C = x->shape[x->rank - n - 1];
    v->O = w->shape[0];
    v->P = 1;
    v->K = w->shape[1];
    v->x = x;
    v->size = raw_size((DType)x->dtype);
    for (int i = 0; i < n; i++) {
        v->in[i] = x->shape[x->rank - n + i];
        v->win[i] = w->shape[2 + i];
        v->out[i] = type->shape[type->rank - n + i];
        v->stride[i] = attr_at(a, 0, i, 1);
        v->before[i] = attr_at(a, 1, i, 0);
        v->spread[i] = attr_at(a, 3, i, 1);
        v->dilation[i] = attr_at(a, 3, n + i, 1);
        v->P *= v->out[i];
        v->K *= v->win[i];
    }
}

/*
 * Row q of the columns matrix: one channel and place in the window, for each output place of the block. Input places
 * outside the (spread) input are zero.
 */
static void fill_row(const Conv *v, int64_t q)
{
    const Tensor *x = v->x;
    int64_t place[RANK_MAX], offset[RANK_MAX], rest = q, channel, base, p = v->place;
    char *dst = v->cols + q * v->places * (int64_t)v->size;
    int first = x->rank - v->n;

    for (int i = v->n - 1; i >= 0; i--) {
        offset[i] = rest % v->win[i] * v->dilation[i] - v->before[i];
        rest /= v->win[i];
    }
    channel = v->group * (v->C / v->groups) + rest;
    base = x->offset + v->batch * x->stride[first - 2] + channel * x->stride[first - 1];
    for (int i = v->n - 1; i >= 0; i--) {
        place[i] = p % v->out[i];
        p /= v->out[i];
    }
    const char *from = storage_read(x->store);
    for (int64_t t = 0; t < v->places; t++, dst += v->size) {
        int64_t at = base;
        bool inside = true;
        for (int i = 0; i < v->n; i++) {
            int64_t s = place[i] * v->stride[i] + offset[i];
            inside = inside && s >= 0 && s % v->spread[i] == 0 && s / v->spread[i] < v->in[i];
            at += inside ? s / v->spread[i] * x->stride[first + i] : 0;
        }
        if (inside)
            memcpy(dst, from + at * (int64_t)v->size, v->size);
        else
            memset(dst, 0, v->size);
        for (int i = v->n - 1; i >= 0 && ++place[i] == v->out[i]; i--)
            place[i] = 0;
    }
}

static void fill_rows(int64_t lo, int64_t hi, void *st)
{
    for (int64_t q = lo; q < hi; q++)
        fill_row(st, q);
}

/* All output places of one batch element and group, in blocks of columns that stay in cache. */
static KStatus conv_group(KCtx *c, Conv *v, const Tensor *w, DType accum, Tensor *sum, int64_t block)
{
    int64_t og = v->O / v->groups;

    for (v->place = 0; v->place < v->P; v->place += block) {
        v->places = v->P - v->place < block ? v->P - v->place : block;
        pool_for(v->K, 16384 / (v->places + 1) + 1, fill_rows, v);
        Gemm g = {.accum = accum, .batch = 1, .m = og, .n = v->places, .k = v->K, .arow = v->K, .acol = 1, .brow = v->places,
                  .bcol = 1, .b = v->cols};
        g.a = (const char *)tensor_read(w) + v->group * og * v->K * (int64_t)v->size;
        g.c = storage_data(sum->store) + ((v->batch * v->O + v->group * og) * v->P + v->place) * (int64_t)v->size;
        g.crow = v->P;
        KStatus s = gemm_run(c, g);
        if (s != K_OK)
            return s;
    }
    return K_OK;
}

static KStatus conv_run(KCtx *c, const Attr *a, Tensor *x, Tensor *w, DType accum, const TType *type, Tensor *sum)
{
    Conv v = {0};
    KStatus s = K_OK;

    conv_open(&v, a, x, w, type);
    int64_t block = (1 << 18) / (v.K + 1);
    block = block < 64 ? 64 : block;
    block = block > v.P ? v.P : block;
    v.cols = k_scratch(c, v.K * block + 1, v.size);
    if (!v.cols)
        s = K_NOMEM;
    for (v.batch = 0; v.batch < x->shape[0] && s == K_OK; v.batch++)
        for (v.group = 0; v.group < v.groups && s == K_OK; v.group++)
            s = k_stopped(c) ? K_VALUE : conv_group(c, &v, w, accum, sum, block);
    tsr_free_aligned(v.cols);
    return s;
}

KStatus kernel_conv(KERNEL_ARGS)
{
    DType accum = accum_dtype(a, common_dtype(in[0], in[1]), (DType)type->dtype);
    Tensor *x = lanes_of(c, in[0], accum), *y = x ? lanes_of(c, in[1], accum) : NULL;
    Tensor *w = y ? tensor_contiguous(y) : NULL, *sum = NULL;
    TType lanes = *type;
    KStatus s = K_NOMEM;

    (void)op, (void)nin;
    lanes.dtype = (uint8_t)lane_dtype(accum);
    if (w && (sum = k_result(c, &lanes)))
        s = conv_run(c, a, x, w, accum, type, sum);
    tensor_unref(x);
    tensor_unref(y);
    tensor_unref(w);
    if (s == K_OK)
        return finish(c, sum, type, out);
    tensor_unref(sum);
    return s;
}
