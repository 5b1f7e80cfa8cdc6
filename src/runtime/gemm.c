/*
 * Matrix products: packing, tiles over threads, and plain loops for the types
 * without a micro-kernel.
 *
 * Both operands are packed whole into panels (as many columns of b and rows of
 * a as a tile has, zero padded), so a tile reads two runs and needs no edges;
 * then all tiles of all batches are one parallel loop.  Few rows against a row-major b
 * are not worth packing.
 */
#include "runtime/gemm.h"

#include "base/alloc.h"
#include "runtime/cpu.h"
#include "runtime/scalar.h"

#include <string.h>

static const GemmKernels *kernels(void) { return cpu()->gemm; }

/* ---- packed tiles, f32 and f64 ---- */

enum { SMALL = 4096 };          /* bytes of panels that stay on the stack */

typedef struct Packed {
    Gemm g;
    const GemmTile *tile;
    size_t size;                /* bytes of an element */
    int64_t mr, nr, mpanels, npanels, abatches, bbatches;
    char *a, *b;                /* packed panels */
} Packed;

/* One panel: `width` lines of the operand (zeros beyond `lines`), k steps each. */
#define PACK(T) \
    do { \
        const T *s = (const T *)src; \
        T *d = (T *)dst; \
        for (int64_t q = 0; q < k; q++, d += width) { \
            if (line == 1) \
                memcpy(d, s + q * step, (size_t)lines * sizeof(T)); \
            else \
                for (int64_t i = 0; i < lines; i++) \
                    d[i] = s[i * line + q * step]; \
            for (int64_t i = lines; i < width; i++) \
                d[i] = 0; \
        } \
    } while (0)

static void pack(size_t size, const char *src, int64_t line, int64_t step, int64_t lines, int64_t width, int64_t k, char *dst)
{
    if (size == 4)
        PACK(float);
    else
        PACK(double);
}

static void pack_a(int64_t lo, int64_t hi, void *st)
{
    const Packed *p = st;

    for (int64_t t = lo; t < hi; t++) {
        int64_t batch = t / p->mpanels, i = t % p->mpanels * p->mr;
        int64_t lines = p->g.m - i < p->mr ? p->g.m - i : p->mr;
        const char *src = (const char *)p->g.a + (batch * p->g.abatch + i * p->g.arow) * (int64_t)p->size;
        pack(p->size, src, p->g.arow, p->g.acol, lines, p->mr, p->g.k, p->a + t * p->g.k * p->mr * (int64_t)p->size);
    }
}

static void pack_b(int64_t lo, int64_t hi, void *st)
{
    const Packed *p = st;

    for (int64_t t = lo; t < hi; t++) {
        int64_t batch = t / p->npanels, j = t % p->npanels * p->nr;
        int64_t lines = p->g.n - j < p->nr ? p->g.n - j : p->nr;
        const char *src = (const char *)p->g.b + (batch * p->g.bbatch + j * p->g.bcol) * (int64_t)p->size;
        pack(p->size, src, p->g.bcol, p->g.brow, lines, p->nr, p->g.k, p->b + t * p->g.k * p->nr * (int64_t)p->size);
    }
}

/* Tile t: panels of a go round fastest, so that a panel of b stays in cache. */
static void run_tiles(int64_t lo, int64_t hi, void *st)
{
    const Packed *p = st;
    const Gemm *g = &p->g;
    _Alignas(64) char tile[GEMM_TILE_BYTES];

    for (int64_t t = lo; t < hi; t++) {
        int64_t ip = t % p->mpanels, jp = t / p->mpanels % p->npanels, batch = t / p->mpanels / p->npanels;
        int64_t i = ip * p->mr, j = jp * p->nr;
        const char *a = p->a + ((p->abatches == 1 ? 0 : batch) * p->mpanels + ip) * g->k * p->mr * (int64_t)p->size;
        const char *b = p->b + ((p->bbatches == 1 ? 0 : batch) * p->npanels + jp) * g->k * p->nr * (int64_t)p->size;
        p->tile->run(g->k, a, b, tile);
        int64_t rows = g->m - i < p->mr ? g->m - i : p->mr, cols = g->n - j < p->nr ? g->n - j : p->nr;
        char *c = (char *)g->c + ((batch * g->m + i) * g->n + j) * (int64_t)p->size;
        for (int64_t r = 0; r < rows; r++)
            memcpy(c + (size_t)(r * g->n) * p->size, tile + (size_t)(r * p->nr) * p->size, (size_t)cols * p->size);
    }
}

/* Elements of c with the zeros around them, over the speed: what a tile's shape costs. */
static double cost(const GemmTile *t, const Gemm *g)
{
    int64_t m = (g->m + t->mr - 1) / t->mr * t->mr, n = (g->n + t->nr - 1) / t->nr * t->nr;

    return (double)m * (double)n / t->speed;
}

static const GemmTile *best_tile(const Gemm *g)
{
    const GemmKernels *k = kernels();
    const GemmTile *narrow = g->accum == DT_f32 ? &k->f32 : &k->f64, *wide = g->accum == DT_f32 ? &k->wide_f32 : &k->wide_f64;

    return wide->run && g->k <= wide->kmax && cost(wide, g) < cost(narrow, g) ? wide : narrow;
}

static KStatus run_packed(KCtx *c, const Gemm *g)
{
    Packed p = {.g = *g, .tile = best_tile(g), .size = g->accum == DT_f32 ? 4 : 8};

    p.mr = p.tile->mr;
    p.nr = p.tile->nr;
    p.mpanels = (g->m + p.mr - 1) / p.mr;
    p.npanels = (g->n + p.nr - 1) / p.nr;
    p.abatches = g->abatch ? g->batch : 1;
    p.bbatches = g->bbatch ? g->batch : 1;
    int64_t na = p.abatches * p.mpanels * p.mr * g->k, nb = p.bbatches * p.npanels * p.nr * g->k;
    _Alignas(64) char few[SMALL];
    char *room = (na + nb) * (int64_t)p.size <= SMALL ? few : NULL;
    p.a = room ? room : k_scratch(c, na, p.size);
    p.b = room ? room + na * (int64_t)p.size : p.a ? k_scratch(c, nb, p.size) : NULL;
    if (p.b) {
        int64_t work = g->k * 64 + 1;
        pool_for(p.abatches * p.mpanels, (1 << 16) / (g->k * p.mr + 1) + 1, pack_a, &p);
        pool_for(p.bbatches * p.npanels, (1 << 16) / (g->k * p.nr + 1) + 1, pack_b, &p);
        pool_for(g->batch * p.mpanels * p.npanels, (1 << 20) / work + 1, run_tiles, &p);
    }
    KStatus s = p.b ? K_OK : K_NOMEM;
    tsr_free_aligned(room ? NULL : p.a);
    tsr_free_aligned(room ? NULL : p.b);
    return s;
}

/* ---- few rows: straight from b ---- */

typedef struct Rows {
    Gemm g;
    const GemmKernels *k;
    int64_t tiles;              /* of GEMM_ROW columns; the last overlaps the one before: the same sums twice */
} Rows;

static void run_rows(int64_t lo, int64_t hi, void *st)
{
    const Rows *r = st;
    const Gemm *g = &r->g;

    for (int64_t t = lo; t < hi; t++) {
        int64_t j = t % r->tiles * GEMM_ROW, i = t / r->tiles % g->m, batch = t / r->tiles / g->m;
        j = j + GEMM_ROW > g->n ? g->n - GEMM_ROW : j;
        int64_t a = batch * g->abatch + i * g->arow, b = batch * g->bbatch + j, at = (batch * g->m + i) * g->n + j;
        if (g->accum == DT_f32)
            r->k->row_f32(g->k, (const float *)g->a + a, g->acol, (const float *)g->b + b, g->brow, (float *)g->c + at);
        else
            r->k->row_f64(g->k, (const double *)g->a + a, g->acol, (const double *)g->b + b, g->brow, (double *)g->c + at);
    }
}

static KStatus run_unpacked(const Gemm *g)
{
    Rows r = {*g, kernels(), (g->n + GEMM_ROW - 1) / GEMM_ROW};

    pool_for(g->batch * g->m * r.tiles, (1 << 16) / (g->k * GEMM_ROW + 1) + 1, run_rows, &r);
    return K_OK;
}

/* ---- one column: straight from a ---- */

typedef struct Column {
    Gemm g;
    const GemmKernels *k;
    int64_t height, parts;      /* rows at a time; the last part overlaps the one before: the same sums twice */
} Column;

static void run_column_parts(int64_t lo, int64_t hi, void *st)
{
    const Column *r = st;
    const Gemm *g = &r->g;

    for (int64_t t = lo; t < hi; t++) {
        int64_t i = t % r->parts * r->height, batch = t / r->parts;
        i = i + r->height > g->m ? g->m - r->height : i;
        int64_t a = batch * g->abatch + i * g->arow, b = batch * g->bbatch, at = batch * g->m + i;
        if (g->accum == DT_f32)
            (r->height == 1 ? r->k->dot_f32 : r->k->column_f32)(g->k, (const float *)g->a + a, g->arow, g->acol,
                                                                (const float *)g->b + b, g->brow, (float *)g->c + at);
        else
            (r->height == 1 ? r->k->dot_f64 : r->k->column_f64)(g->k, (const double *)g->a + a, g->arow, g->acol,
                                                                (const double *)g->b + b, g->brow, (double *)g->c + at);
    }
}

static KStatus run_column(const Gemm *g)
{
    Column r = {*g, kernels(), g->m < GEMM_COLUMN ? 1 : GEMM_COLUMN, 0};

    r.parts = (g->m + r.height - 1) / r.height;
    pool_for(g->batch * r.parts, (1 << 15) / (g->k * r.height + 1) + 1, run_column_parts, &r);
    return K_OK;
}

/* ---- the other types: a row of some sums at a time ---- */

#define C64_FMA(a, b, c) \
    f32_cmplx(fmaf(-cimagf(a), cimagf(b), fmaf(crealf(a), crealf(b), crealf(c))), \
              fmaf(cimagf(a), crealf(b), fmaf(crealf(a), cimagf(b), cimagf(c))))
#define C128_FMA(a, b, c) \
    f64_cmplx(fma(-cimag(a), cimag(b), fma(creal(a), creal(b), creal(c))), \
              fma(cimag(a), creal(b), fma(creal(a), cimag(b), cimag(c))))
#define INT_FMA(a, b, c) ((c) + (a) * (b))
#define SHORT_FMA(a, b, c) (uint16_t)((c) + (uint32_t)(a) * (b))
#define WIDTH_OF(T) (512 / sizeof(T) < GEMM_ROW ? 512 / sizeof(T) : GEMM_ROW)      /* waiting sums stay within 24 KiB */
#define KEEP(x, n)
#define ROUND(x, n) round_lanes(g->accum, x, n)

static void round_lanes(DType t, float *x, int64_t n)
{
    _Alignas(16) char raw[GEMM_ROW * 4];

    lane_to_raw(t, x, raw, n);
    raw_to_lane(t, raw, x, n);
}

#define PLAIN(name, T, FMA, ROUNDED) \
    static void name(const Gemm *g, const void *a_, const void *b_, void *c_, int64_t w) \
    { \
        const T *a = a_, *b = b_; \
        T wait[GEMM_LEVELS][WIDTH_OF(T)], *acc, *c = c_; \
        int64_t blocks = 0; \
        int depth = 0; \
        for (int64_t k0 = 0; k0 < g->k; k0 += GEMM_BLOCK) { \
            int64_t end = g->k - k0 < GEMM_BLOCK ? g->k : k0 + GEMM_BLOCK; \
            acc = wait[depth++]; \
            for (int64_t j = 0; j < w; j++) \
                acc[j] = 0; \
            for (int64_t q = k0; q < end; q++) { \
                T x = a[q * g->acol]; \
                for (int64_t j = 0; j < w; j++) \
                    acc[j] = FMA(x, b[q * g->brow + j * g->bcol], acc[j]); \
                ROUNDED(acc, w); \
            } \
            for (int64_t n = ++blocks; !(n & 1); n >>= 1, depth--) { \
                for (int64_t j = 0; j < w; j++) \
                    wait[depth - 2][j] += wait[depth - 1][j]; \
                ROUNDED(wait[depth - 2], w); \
            } \
        } \
        for (; depth > 1; depth--) { \
            for (int64_t j = 0; j < w; j++) \
                wait[depth - 2][j] += wait[depth - 1][j]; \
            ROUNDED(wait[depth - 2], w); \
        } \
        for (int64_t j = 0; j < w; j++) \
            c[j] = depth ? wait[0][j] : 0; \
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
    Gemm g;
    PlainFn *fn;
    int64_t width, tiles;       /* of columns */
} Plain;

static void run_plain(int64_t lo, int64_t hi, void *st)
{
    const Plain *p = st;
    const Gemm *g = &p->g;
    int64_t size = (int64_t)raw_size(lane_dtype(g->accum));

    for (int64_t t = lo; t < hi; t++) {
        int64_t j = t % p->tiles * p->width, i = t / p->tiles % g->m, batch = t / p->tiles / g->m;
        const char *a = (const char *)g->a + (batch * g->abatch + i * g->arow) * size;
        const char *b = (const char *)g->b + (batch * g->bbatch + j * g->bcol) * size;
        char *c = (char *)g->c + ((batch * g->m + i) * g->n + j) * size;
        p->fn(g, a, b, c, g->n - j < p->width ? g->n - j : p->width);
    }
}

/* Batches that only repeat b are more rows of a. */
static void merge_batches(Gemm *g)
{
    if (g->batch == 1 || g->bbatch != 0 || g->abatch != g->m * g->arow)
        return;
    g->m *= g->batch;
    g->batch = 1;
}

/* One row as one column: the same products, and c has the same places. */
static void transpose(Gemm *g)
{
    Gemm t = *g;

    t.m = g->n, t.n = g->m;
    t.a = g->b, t.abatch = g->bbatch, t.arow = g->bcol, t.acol = g->brow;
    t.b = g->a, t.bbatch = g->abatch, t.brow = g->acol, t.bcol = g->arow;
    *g = t;
}

KStatus gemm_run(KCtx *c, Gemm g)
{
    if (!g.batch || !g.m || !g.n)
        return K_OK;
    merge_batches(&g);
    if (g.m == 1 && g.bcol != 1 && (g.accum == DT_f32 || g.accum == DT_f64))
        transpose(&g);
    if (g.n == 1 && (g.accum == DT_f32 || g.accum == DT_f64))
        return run_column(&g);
    if (g.accum == DT_f32 || g.accum == DT_f64)
        return g.m <= 3 && g.n >= GEMM_ROW && g.bcol == 1 ? run_unpacked(&g) : run_packed(c, &g);
    Plain p = {.g = g, .fn = plain_fn(g.accum)};
    size_t size = raw_size(lane_dtype(g.accum));
    p.width = 512 / size < GEMM_ROW ? (int64_t)(512 / size) : GEMM_ROW;
    p.tiles = (g.n + p.width - 1) / p.width;
    if (!p.fn)
        return k_fail(c, K_VALUE, "matrix products do not accumulate in %s", dtype_info[g.accum].name);
    pool_for(g.batch * g.m * p.tiles, 4096 / (g.k + 1) + 1, run_plain, &p);
    return K_OK;
}
