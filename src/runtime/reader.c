/*
 * Readers and writers: axes are merged where strides allow it, so most operands
 * become one axis of step 1 or 0 and the inner loops are long.
 */
#include "runtime/reader.h"

#include <string.h>

/* Append an axis, merging it with the one before when both step as one. */
static void push_axis(Reader *r, int64_t size, int64_t stride)
{
    int k = r->rank - 1;

    if (size == 1)
        return;
    if (k >= 0 && r->stride[k] == stride * size) {
        r->shape[k] *= size;
        r->stride[k] = stride;
        return;
    }
    r->shape[r->rank] = size;
    r->stride[r->rank++] = stride;
}

static void open_view(Reader *r, DType dt, const char *base, int rank, const int64_t *shape, const int64_t *stride, int64_t offset)
{
    r->dtype = r->as = dt;
    r->rank = 0;
    r->base = (char *)base;
    r->offset = offset;
    for (int i = 0; i < rank; i++)
        push_axis(r, shape[i], stride[i]);
}

void reader_view(Reader *r, const Tensor *t, int rank, const int64_t *shape, const int64_t *stride, int64_t offset)
{
    open_view(r, (DType)t->dtype, storage_read(t->store), rank, shape, stride, offset);
}

void writer_view(Reader *w, const Tensor *t, int rank, const int64_t *shape, const int64_t *stride, int64_t offset)
{
    open_view(w, (DType)t->dtype, storage_data(t->store), rank, shape, stride, offset);
}

void writer_init(Reader *w, const Tensor *t)
{
    writer_view(w, t, t->rank, t->shape, t->stride, t->offset);
}

void reader_init(Reader *r, const Tensor *t)
{
    reader_view(r, t, t->rank, t->shape, t->stride, t->offset);
}

void reader_stretch(Reader *r, const Tensor *t, int rank, const int64_t *shape)
{
    int64_t stride[RANK_MAX];
    int lead = rank - t->rank;

    for (int i = 0; i < rank; i++)
        stride[i] = i < lead || t->shape[i - lead] == 1 ? 0 : t->stride[i - lead];
    reader_view(r, t, rank, shape, stride, t->offset);
}

char *reader_row(const Reader *r)
{
    bool row = r->rank == 0 || (r->rank == 1 && r->stride[0] == 1);

    return row && !is_packed(r->dtype) ? r->base + r->offset * (int64_t)raw_size(r->dtype) : NULL;
}

/* Where linear index i is: digits of i in the merged shape; returns the storage element. */
static int64_t seek(const Reader *r, int64_t i, int64_t *digit)
{
    int64_t at = r->offset;

    for (int k = r->rank - 1; k >= 0; k--) {
        digit[k] = i % r->shape[k];
        at += digit[k] * r->stride[k];
        i /= r->shape[k];
    }
    return at;
}

/* After the last axis is exhausted: step the outer ones. Returns the storage element of the next row. */
static int64_t next_row(const Reader *r, int64_t *digit)
{
    int64_t at = r->offset;
    int k = r->rank - 2;

    digit[r->rank - 1] = 0;
    for (; k >= 0; k--) {
        if (++digit[k] < r->shape[k])
            break;
        digit[k] = 0;
    }
    for (k = r->rank - 2; k >= 0; k--)
        at += digit[k] * r->stride[k];
    return at;
}

#define STRIDED(T, d, ds, s, ss) \
    do { \
        T *d_ = (T *)(d); \
        const T *s_ = (const T *)(s); \
        for (int64_t i_ = 0; i_ < n; i_++) \
            d_[i_ * (ds)] = s_[i_ * (ss)]; \
    } while (0)

typedef struct { uint64_t half[2]; } Sixteen;

/* n elements of `size` bytes between strides. */
static void copy_strided(size_t size, void *d, int64_t ds, const void *s, int64_t ss, int64_t n)
{
    if (ds == 1 && ss == 1) {
        memcpy(d, s, (size_t)n * size);
        return;
    }
    switch (size) {
    case 1: STRIDED(uint8_t, d, ds, s, ss); break;
    case 2: STRIDED(uint16_t, d, ds, s, ss); break;
    case 4: STRIDED(uint32_t, d, ds, s, ss); break;
    case 8: STRIDED(uint64_t, d, ds, s, ss); break;
    default: STRIDED(Sixteen, d, ds, s, ss); break;
    }
}

static void gather(const Reader *r, int64_t at, int64_t stride, int64_t n, char *dst)
{
    if (is_packed(r->dtype)) {
        if (stride == 1)
            raw_unpack(r->dtype, r->base, at, n, (uint8_t *)dst);
        else
            for (int64_t i = 0; i < n; i++)
                raw_unpack(r->dtype, r->base, at + i * stride, 1, (uint8_t *)dst + i);
        return;
    }
    size_t w = raw_size(r->dtype);
    copy_strided(w, dst, 1, r->base + at * (int64_t)w, stride, n);
}

static void scatter(const Reader *w, int64_t at, int64_t stride, int64_t n, const char *src)
{
    if (is_packed(w->dtype)) {
        if (stride == 1)
            raw_pack(w->dtype, w->base, at, n, (const uint8_t *)src);
        else
            for (int64_t i = 0; i < n; i++)
                raw_pack(w->dtype, w->base, at + i * stride, 1, (const uint8_t *)src + i);
        return;
    }
    size_t size = raw_size(w->dtype);
    copy_strided(size, w->base + at * (int64_t)size, stride, src, 1, n);
}

/* Call step on each piece of [i, i + n) that lies on one line of the last axis. */
static void pieces(const Reader *r, int64_t i, int64_t n, char *run,
                   void (*step)(const Reader *, int64_t at, int64_t stride, int64_t n, char *run))
{
    int64_t digit[RANK_MAX], at = seek(r, i, digit);
    int last = r->rank - 1;
    size_t w = raw_size(r->dtype);

    if (last < 0) {
        step(r, at, 1, n, run);
        return;
    }
    for (;;) {
        int64_t left = r->shape[last] - digit[last], k = n < left ? n : left;
        step(r, at, r->stride[last], k, run);
        n -= k;
        if (!n)
            return;
        run += (size_t)k * w;
        at = next_row(r, digit);
    }
}

static void scatter_piece(const Reader *w, int64_t at, int64_t stride, int64_t n, char *run)
{
    scatter(w, at, stride, n, run);
}

const void *reader_raw(const Reader *r, int64_t i, int64_t n, void *buf)
{
    int64_t digit[RANK_MAX], at;
    int last = r->rank - 1;

    if (!is_packed(r->dtype) && (last < 0 || r->stride[last] == 1)) {
        at = seek(r, i, digit);
        if (last < 0 || digit[last] + n <= r->shape[last])
            return r->base + at * (int64_t)raw_size(r->dtype);
    }
    pieces(r, i, n, buf, gather);
    return buf;
}

const void *reader_lanes(const Reader *r, int64_t i, int64_t n, void *buf, void *spare)
{
    if (r->dtype == r->as && raw_is_lane(r->as))
        return reader_raw(r, i, n, buf);
    const void *raw = reader_raw(r, i, n, spare);
    if (r->dtype != r->as) {
        raw_convert(r->as, buf, r->dtype, raw, n, NULL, 0);
        if (raw_is_lane(r->as))
            return buf;
        raw = memcpy(spare, buf, (size_t)n * raw_size(r->as));
    }
    raw_to_lane(r->as, raw, buf, n);
    return buf;
}

void writer_raw(const Reader *w, int64_t i, int64_t n, const void *raw)
{
    pieces(w, i, n, (char *)(uintptr_t)raw, scatter_piece);
}

size_t reader_width(const Reader *r)
{
    size_t a = raw_size(r->dtype), b = raw_size(r->as), c = raw_size(lane_dtype(r->as));

    a = a > b ? a : b;
    return a > c ? a : c;
}

void copy_run(const Reader *dst, const Reader *src, int64_t lo, int64_t hi, const ConvOpts *o)
{
    TileBuf a, b;
    size_t ws = raw_size(src->dtype), wd = raw_size(dst->dtype);
    int64_t tile = tile_length(ws > wd ? ws : wd);
    char *row = reader_row(dst);

    for (int64_t i = lo; i < hi; i += tile) {
        int64_t n = hi - i < tile ? hi - i : tile;
        bool same = src->dtype == dst->dtype && !o;
        const void *raw = reader_raw(src, i, n, row && same ? row + i * (int64_t)wd : a.at);
        if (row && same && raw == row + i * (int64_t)wd)
            continue;
        if (row && !same) {
            raw_convert(dst->dtype, row + i * (int64_t)wd, src->dtype, raw, n, o, i);
            continue;
        }
        if (src->dtype != dst->dtype || o) {
            raw_convert(dst->dtype, b.at, src->dtype, raw, n, o, i);
            raw = b.at;
        }
        writer_raw(dst, i, n, raw);
    }
}
