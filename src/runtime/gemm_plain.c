/*
 * Matrix products of the types without tiles, a row of some sums at a time: integers, complex numbers, and narrow
 * accumulators, which round after every step.
 */
#include "runtime/gemm.h"
#include "runtime/scalar.h"

enum { WIDTH = 64 };            /* sums at a time, at most */

#define C64_FMA(a, b, c) \
    f32_cmplx(fmaf(-cimagf(a), cimagf(b), fmaf(crealf(a), crealf(b), crealf(c))), \
              fmaf(cimagf(a), crealf(b), fmaf(crealf(a), cimagf(b), cimagf(c))))
#define C128_FMA(a, b, c) \
    f64_cmplx(fma(-cimag(a), cimag(b), fma(creal(a), creal(b), creal(c))), \
              fma(cimag(a), creal(b), fma(creal(a), cimag(b), cimag(c))))
#define INT_FMA(a, b, c) ((c) + (a) * (b))
#define SHORT_FMA(a, b, c) (uint16_t)((c) + (uint32_t)(a) * (b))
#define KEEP(x, n)
#define ROUND(x, n) round_lanes(g->accum, x, n)

static void round_lanes(DType t, float *x, int64_t n)
{
    _Alignas(16) char raw[WIDTH * 4];

    lane_to_raw(t, x, raw, n);
    raw_to_lane(t, raw, x, n);
}

#define PLAIN(name, T, FMA, ROUNDED) \
    static void name(const Gemm *g, const void *a_, const void *b_, void *c_, int64_t w) \
    { \
        const T *a = a_, *b = b_; \
        T chunk[WIDTH], *c = c_; \
        for (int64_t j = 0; j < w; j++) \
            c[j] = 0; \
        for (int64_t k0 = 0; k0 < g->k; k0 += GEMM_CHUNK) { \
            int64_t end = g->k - k0 < GEMM_CHUNK ? g->k : k0 + GEMM_CHUNK; \
            T *acc = k0 ? chunk : c; \
            for (int64_t j = 0; j < w; j++) \
                acc[j] = 0; \
            for (int64_t q = k0; q < end; q++) { \
                T x = a[q * g->acol]; \
                for (int64_t j = 0; j < w; j++) \
                    acc[j] = FMA(x, b[q * g->brow + j * g->bcol], acc[j]); \
                ROUNDED(acc, w); \
            } \
            for (int64_t j = 0; j < w && k0; j++) \
                c[j] += chunk[j]; \
            if (k0) { \
                ROUNDED(c, w); \
            } \
        } \
    }
PLAIN(plain_u8, uint8_t, (uint8_t)SHORT_FMA, KEEP)
PLAIN(plain_u16, uint16_t, SHORT_FMA, KEEP)
PLAIN(plain_u32, uint32_t, INT_FMA, KEEP)
PLAIN(plain_u64, uint64_t, INT_FMA, KEEP)
PLAIN(plain_c64, float _Complex, C64_FMA, KEEP)
PLAIN(plain_c128, double _Complex, C128_FMA, KEEP)
PLAIN(plain_narrow, float, f32_fma_odd, ROUND)

typedef void PlainFn(const Gemm *g, const void *a, const void *b, void *c, int64_t w);

static PlainFn *plain_fn(DType accum)
{
    switch (accum) {
    case DT_int8: case DT_uint8: case DT_int4: case DT_uint4: return plain_u8;
    case DT_int16: case DT_uint16: return plain_u16;
    case DT_int32: case DT_uint32: return plain_u32;
    case DT_int64: case DT_uint64: return plain_u64;
    case DT_c64: return plain_c64;
    case DT_c128: return plain_c128;
    default: return lane_dtype(accum) == DT_f32 ? plain_narrow : NULL;
    }
}

typedef struct Plain {
    const Gemm *g;
    PlainFn *fn;
    int64_t tiles;              /* of WIDTH columns */
} Plain;

static void run_plain(int64_t lo, int64_t hi, void *st)
{
    const Plain *p = st;
    const Gemm *g = p->g;
    int64_t size = (int64_t)raw_size(lane_dtype(g->accum));

    for (int64_t t = lo; t < hi; t++) {
        int64_t j = t % p->tiles * WIDTH, i = t / p->tiles % g->m, batch = t / p->tiles / g->m;
        const char *a = (const char *)g->a + (batch * g->abatch + i * g->arow) * size;
        const char *b = (const char *)g->b + (batch * g->bbatch + j * g->bcol) * size;
        char *c = (char *)g->c + (batch * g->cbatch + i * g->crow + j) * size;
        p->fn(g, a, b, c, g->n - j < WIDTH ? g->n - j : WIDTH);
    }
}

KStatus gemm_plain(KCtx *c, const Gemm *g)
{
    Plain p = {g, plain_fn(g->accum), (g->n + WIDTH - 1) / WIDTH};

    if (!p.fn)
        return k_fail(c, K_VALUE, "matrix products do not accumulate in %s", dtype_info[g->accum].name);
    pool_for(g->batch * g->m * p.tiles, 4096 / (g->k + 1) + 1, run_plain, &p);
    return K_OK;
}
