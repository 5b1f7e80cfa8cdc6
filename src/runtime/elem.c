/*
 * Single elements, slowly, and whole tensors, through readers.
 */
#include "runtime/tensor.h"

#include "ir/core/dtype_code.h"
#include "runtime/convert.h"
#include "runtime/far_moves.h"
#include "runtime/kernels.h"
#include "runtime/reader.h"
#include "runtime/storage.h"
#include "runtime/transpose.h"

#include <complex.h>
#include <string.h>

/* The element at storage index `at` as dtype `as` (a lane dtype). */
static void elem_load(const Tensor *t, int64_t at, DType as, void *out)
{
    _Alignas(16) char raw[16], lane[16];
    DType dt = (DType)t->dtype;
    size_t bytes = raw_size(dt), first = (size_t)at * bytes;

    if (is_packed(dt))
        raw_unpack(dt, storage_read(t->store), at, 1, (uint8_t *)raw);
    else if (!(t->store->away & AWAY_READ) || !storage_far->part(t->store, first, raw, bytes))
        memcpy(raw, storage_read(t->store) + first, bytes);
    raw_to_lane(dt, raw, lane, 1);
    lane_convert(as, out, lane_dtype(dt), lane, 1);
}

static void elem_store(const Tensor *t, int64_t at, DType from, const void *v)
{
    _Alignas(16) char raw[16];
    DType dt = (DType)t->dtype;
    char *base = storage_data(t->store);

    raw_convert(dt, raw, from, v, 1, NULL, 0);
    if (is_packed(dt))
        raw_pack(dt, base, at, 1, (uint8_t *)raw);
    else
        memcpy(base + at * (int64_t)raw_size(dt), raw, raw_size(dt));
}

double elem_get_f(const Tensor *t, int64_t at)
{
    double v;

    elem_load(t, at, DT_f64, &v);
    return v;
}

int64_t elem_get_i(const Tensor *t, int64_t at)
{
    int64_t v;

    elem_load(t, at, DT_int64, &v);
    return v;
}

void elem_get_c(const Tensor *t, int64_t at, double *re, double *im)
{
    double _Complex v;

    elem_load(t, at, DT_c128, &v);
    *re = creal(v);
    *im = cimag(v);
}

void elem_set_f(Tensor *t, int64_t at, double v)
{
    elem_store(t, at, DT_f64, &v);
}

void elem_set_i(Tensor *t, int64_t at, int64_t v)
{
    elem_store(t, at, DT_int64, &v);
}

void elem_set_c(Tensor *t, int64_t at, double re, double im)
{
    double v[2] = {re, im};

    elem_store(t, at, DT_c128, v);
}

typedef struct { Reader dst, src; } Copy;

static void copy_part(int64_t lo, int64_t hi, void *st)
{
    Copy *c = st;

    copy_run(&c->dst, &c->src, lo, hi, NULL);
}

void tensor_assign(Tensor *dst, const Tensor *src)
{
    Copy c;
    int64_t n = tensor_size(dst);
    const FarMoves *far = far_moves_of(dst);

    if (!n || (far && dst->dtype == src->dtype &&
               far->box((FarPlace){dst, dst->stride, dst->offset}, (FarPlace){src, src->stride, src->offset}, dst->rank, dst->shape)))
        return;
    writer_init(&c.dst, dst);
    reader_init(&c.src, src);
    if (dst->dtype == src->dtype && reader_row(&c.dst) && is_crosswise(&c.src)) {
        copy_crosswise(reader_row(&c.dst), &c.src);
        return;
    }
    if (is_packed((DType)dst->dtype) && !dst->contiguous)
        copy_part(0, n, &c);            /* neighbours share bytes: one thread */
    else
        pool_for(n, 64 * TILE_MAX, copy_part, &c);
}

bool tensor_same_bits(const Tensor *a, const Tensor *b)
{
    TileBuf x, y;
    Reader r, s;
    int64_t n = tensor_size(a);

    if (a->dtype != b->dtype || a->rank != b->rank || memcmp(a->shape, b->shape, a->rank * sizeof *a->shape))
        return false;
    reader_init(&r, a);
    reader_init(&s, b);
    for (int64_t i = 0; i < n; i += TILE) {
        int64_t k = n - i < TILE ? n - i : TILE;
        if (memcmp(reader_raw(&r, i, k, x.at), reader_raw(&s, i, k, y.at), (size_t)k * raw_size(r.dtype)))
            return false;
    }
    return true;
}
