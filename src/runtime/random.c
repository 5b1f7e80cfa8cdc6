/*
 * Random numbers: element i of a draw is a function of (key, i) alone, the four
 * words of Philox block i.  Uniform numbers have as many bits as the dtype has
 * digits below 1, so they are exact in it and never 1.  Normal numbers are
 * Box-Muller of two of them, the first never 0, so never infinite.
 */
#include "runtime/cpu.h"
#include "runtime/kernel_util.h"
#include "runtime/philox.h"

#include <math.h>
#include <string.h>

typedef struct RandomJob {
    uint64_t key;
    int64_t base;               /* where this key's elements begin */
    uint8_t kind;               /* Dist */
    double p;                   /* bernoulli */
    uint64_t range;             /* randint */
    DType dtype;
    Reader out;
} RandomJob;

static uint64_t key_of(const Reader *r, int64_t at)
{
    TileBuf buf, spare;
    const uint32_t *k = reader_lanes(r, at, 2, buf.at, spare.at);

    return (uint64_t)k[1] << 32 | k[0];
}

static double wide_uniform(uint32_t lo, uint32_t hi)
{
    return (double)(((uint64_t)hi << 32 | lo) >> 11) * 0x1p-53;
}

/* Box-Muller; the first number is in (0, 1). */
static double normal_f64(Philox w)
{
    double r = sqrt(-2 * log(wide_uniform(w.w[0], w.w[1]) + 0x1p-54));

    return r * cos(2 * M_PI * wide_uniform(w.w[2], w.w[3]));
}

static void draw_f32(const RandomJob *j, int64_t first, int64_t n, float *out)
{
    if (j->kind == DIST_UNIFORM)
        cpu()->draw->uniform(j->key, (uint64_t)first, n, uniform_digits(j->dtype), out);
    else
        cpu()->draw->normal(j->key, (uint64_t)first, n, out);
}

static void draw_f64(const RandomJob *j, int64_t first, int64_t n, double *out)
{
    for (int64_t i = 0; i < n; i++) {
        Philox w = philox(j->key, (uint64_t)(first + i), 0);
        out[i] = j->kind == DIST_UNIFORM ? wide_uniform(w.w[0], w.w[1]) : normal_f64(w);
    }
}

/* Bits, 0 or 1, and whole numbers: the high half of a 64-bit draw times the range is uniform to one part in 2^64. */
static void draw_int(const RandomJob *j, int64_t first, int64_t n, int64_t *out)
{
    double limit = j->p * 0x1p53;

    for (int64_t i = 0; i < n; i++) {
        Philox w = philox(j->key, (uint64_t)(first + i), 0);
        uint64_t x = (uint64_t)w.w[1] << 32 | w.w[0];
        switch (j->kind) {
        case DIST_BITS: out[i] = (int64_t)x; break;
        case DIST_BERNOULLI: out[i] = (double)(x >> 11) < limit; break;
        default: {
            uint64_t a = j->range >> 32, b = j->range & 0xffffffff;        /* high word of x * range */
            uint64_t mid = (uint64_t)w.w[1] * b + ((uint64_t)w.w[0] * b >> 32);
            uint64_t mid2 = (uint64_t)w.w[0] * a + (mid & 0xffffffff);
            out[i] = (int64_t)((uint64_t)w.w[1] * a + (mid >> 32) + (mid2 >> 32));
        }
        }
    }
}

static void random_part(int64_t lo, int64_t hi, void *st)
{
    const RandomJob *j = st;
    TileBuf lanes, raw;
    bool real = j->kind == DIST_UNIFORM || j->kind == DIST_NORMAL;

    for (int64_t i = lo; i < hi; i += TILE) {
        int64_t n = hi - i < TILE ? hi - i : TILE;
        DType from = !real ? DT_int64 : lane_dtype(j->dtype) == DT_f32 ? DT_f32 : DT_f64;
        if (from == DT_int64)
            draw_int(j, i, n, (int64_t *)(void *)lanes.at);
        else if (from == DT_f32)
            draw_f32(j, i, n, (float *)(void *)lanes.at);
        else
            draw_f64(j, i, n, (double *)(void *)lanes.at);
        raw_convert(j->dtype, raw.at, from, lanes.at, n, NULL, i);
        writer_raw(&j->out, j->base + i, n, raw.at);
    }
}

KStatus kernel_random(KERNEL_ARGS)
{
    RandomJob j = {.kind = a->kind, .p = a->f, .range = (uint64_t)a->i, .dtype = (DType)type->dtype};
    int64_t nkeys = tensor_size(in[0]) / 2;
    Reader key;

    (void)op, (void)nin;
    if (j.kind == DIST_RANDINT && a->i <= 0)
        return k_fail(c, K_VALUE, "randint: the range is empty");
    if (j.kind == DIST_BERNOULLI && !(a->f >= 0 && a->f <= 1))
        return k_fail(c, K_VALUE, "bernoulli: the probability %g is not between 0 and 1", a->f);
    if (!(out[0] = k_result(c, type)))
        return K_NOMEM;
    reader_init(&key, in[0]);
    key.as = DT_uint32;
    writer_init(&j.out, out[0]);
    for (int64_t k = 0; k < nkeys; k++) {       /* each key draws its part as if it were alone */
        int64_t n = tensor_size(out[0]) / nkeys;
        j.key = key_of(&key, 2 * k);
        j.base = k * n;
        pool_for(n, 16 * TILE, random_part, &j);
    }
    return K_OK;
}

typedef struct DitherJob {
    ConvOpts how;
    int64_t base;               /* where this key's elements begin */
    Reader out, in;
} DitherJob;

static void dither_part(int64_t lo, int64_t hi, void *st)
{
    const DitherJob *j = st;
    TileBuf from, to;
    size_t a = raw_size(j->in.dtype), b = raw_size(j->out.dtype);
    int64_t tile = tile_length(a > b ? a : b);

    for (int64_t i = lo; i < hi; i += tile) {
        int64_t n = hi - i < tile ? hi - i : tile;
        const void *x = reader_raw(&j->in, j->base + i, n, from.at);
        raw_convert(j->out.dtype, to.at, j->in.dtype, x, n, &j->how, i);
        writer_raw(&j->out, j->base + i, n, to.at);
    }
}

KStatus kernel_dither(KERNEL_ARGS)
{
    DitherJob j = {.how = {ROUND_STOCHASTIC, a->saturate, a->flush, 0}};
    int64_t nkeys = tensor_size(in[1]) / 2;
    Reader key;

    (void)op, (void)nin;
    if (!(out[0] = k_result(c, type)))
        return K_NOMEM;
    reader_init(&key, in[1]);
    key.as = DT_uint32;
    reader_init(&j.in, in[0]);
    writer_init(&j.out, out[0]);
    for (int64_t k = 0; k < nkeys; k++) {
        int64_t n = tensor_size(out[0]) / nkeys;
        j.how.seed = key_of(&key, 2 * k);
        j.base = k * n;
        pool_for(n, 16 * TILE_MAX, dither_part, &j);
    }
    return K_OK;
}

/* key' = the first words of Philox block (number, 1) under key: apart from every draw, whose second counter word is 0. */
KStatus kernel_fold_key(KERNEL_ARGS)
{
    int64_t shape[RANK_MAX], n;
    TileBuf buf, spare;
    Reader key, number;

    (void)op, (void)a, (void)nin;
    if (!(out[0] = k_result(c, type)))
        return K_NOMEM;
    n = tensor_size(out[0]) / 2;
    memcpy(shape, type->shape, sizeof shape);
    reader_stretch(&key, in[0], type->rank, shape);
    reader_stretch(&number, in[1], type->rank - 1, shape);
    key.as = DT_uint32;
    number.as = DT_int64;
    uint32_t *o = tensor_data(out[0]);
    for (int64_t i = 0; i < n; i++) {
        const int64_t *v = reader_lanes(&number, i, 1, buf.at, spare.at);
        Philox w = philox(key_of(&key, 2 * i), (uint64_t)*v, 1);
        o[2 * i] = w.w[0];
        o[2 * i + 1] = w.w[1];
    }
    return K_OK;
}
