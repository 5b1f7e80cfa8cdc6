/*
 * Matrix products: packing, tiles over threads, and plain loops for the types
 * without a micro-kernel.
 *
 * Both operands are packed whole into panels (as many columns of b and rows of
 * a as a tile has, zero padded), so a tile reads two runs and needs no edges.
 * Then all batches are one parallel loop over patches of tiles, small enough
 * that GEMM_CHUNK steps of a patch's panels stay in cache (Goto and van de Geijn 2008): a patch does
 * one chunk for all its tiles before the next one, and finished chunks wait in
 * a buffer until the tree combines them.  Few rows against a row-major b are not worth packing.
 */
#include "runtime/gemm.h"

#include "base/alloc.h"
#include "runtime/cpu.h"
#include "runtime/scalar.h"
#include "runtime/storage.h"

#include <string.h>

static const GemmKernels *kernels(void) { return cpu()->gemm; }

/* ---- packed tiles, f32 and f64 ---- */

enum { SMALL = 4096 };          /* bytes of panels that stay on the stack */
enum { PATCH_M = 10, PATCH_N = 4 };     /* panels of a and b in a patch */

typedef struct Packed {
    Gemm g;
    const GemmTile *tile;
    size_t size;                /* bytes of an element */
    int64_t mr, nr, mpanels, npanels, abatches, bbatches;
    char *a, *b;                /* packed panels */
    int64_t pm, pn;             /* panels of a patch */
    int64_t mpatches, npatches, patches, parts;
    int64_t chunks;
    char *wait;                 /* for each part: finished chunks of a patch's tiles, by level of the tree */
    int64_t wait_bytes;
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
        if (p->g.acol == 1 && p->size == 4 && p->tile->turn) {
            p->tile->turn((const float *)src, p->g.arow, (int)lines, p->g.k, (float *)p->a + t * p->g.k * p->mr);
            continue;
        }
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

/* sum = wait + sum, elementwise. */
static void join(size_t size, int64_t n, const void *wait, void *sum)
{
    if (size == 4)
        for (int64_t i = 0; i < n; i++)
            ((float *)sum)[i] = ((const float *)wait)[i] + ((float *)sum)[i];
    else
        for (int64_t i = 0; i < n; i++)
            ((double *)sum)[i] = ((const double *)wait)[i] + ((double *)sum)[i];
}

/*
 * A tile's sum over chunk `c` climbs the tree: complete subtrees wait, one a level, like the bits of a counter; after the
 * last chunk they all join.  true: the sum is whole.
 */
static bool climb(const Packed *p, int64_t c, char *wait, int64_t level, char *sum)
{
    int64_t n = p->mr * p->nr;
    int depth = __builtin_popcountll((unsigned long long)c);

    for (int64_t t = c + 1; !(t & 1); t >>= 1)
        join(p->size, n, wait + --depth * level, sum);
    if (c + 1 < p->chunks) {
        memcpy(wait + depth * level, sum, (size_t)n * p->size);
        return false;
    }
    while (depth)
        join(p->size, n, wait + --depth * level, sum);
    return true;
}

static void store_tile(const Packed *p, int64_t batch, int64_t ip, int64_t jp, const char *tile)
{
    const Gemm *g = &p->g;
    int64_t i = ip * p->mr, j = jp * p->nr;
    int64_t rows = g->m - i < p->mr ? g->m - i : p->mr, cols = g->n - j < p->nr ? g->n - j : p->nr;
    char *c = (char *)g->c + ((batch * g->m + i) * g->n + j) * (int64_t)p->size;

    for (int64_t r = 0; r < rows; r++)
        memcpy(c + (size_t)(r * g->n) * p->size, tile + (size_t)(r * p->nr) * p->size, (size_t)cols * p->size);
}

/* All tiles of a patch, chunk by chunk; panels of a go round fastest, so that a panel of b stays in the first cache. */
static void run_patch(const Packed *p, int64_t patch, char *wait)
{
    const Gemm *g = &p->g;
    int64_t pi = patch % p->mpatches * p->pm, pj = patch / p->mpatches % p->npatches * p->pn, batch = patch / p->mpatches / p->npatches;
    int64_t ie = pi + p->pm < p->mpanels ? pi + p->pm : p->mpanels, je = pj + p->pn < p->npanels ? pj + p->pn : p->npanels;
    int64_t size = (int64_t)p->size, bytes = p->mr * p->nr * size, level = p->pm * p->pn * bytes;
    const char *a = p->a + (p->abatches == 1 ? 0 : batch) * p->mpanels * g->k * p->mr * size;
    const char *b = p->b + (p->bbatches == 1 ? 0 : batch) * p->npanels * g->k * p->nr * size;
    _Alignas(64) char tile[GEMM_TILE_BYTES];

    for (int64_t c = 0; c < p->chunks; c++) {
        int64_t k0 = c * GEMM_CHUNK, k = g->k - k0 < GEMM_CHUNK ? g->k - k0 : GEMM_CHUNK;
        for (int64_t j = pj; j < je; j++)
            for (int64_t i = pi; i < ie; i++) {
                p->tile->run(k, a + (i * g->k + k0) * p->mr * size, b + (j * g->k + k0) * p->nr * size, tile);
                if (climb(p, c, wait + ((j - pj) * p->pm + i - pi) * bytes, level, tile))
                    store_tile(p, batch, i, j, tile);
            }
    }
}

static void run_parts(int64_t lo, int64_t hi, void *st)
{
    const Packed *p = st;

    for (int64_t part = lo; part < hi; part++)
        for (int64_t t = part * p->patches / p->parts; t < (part + 1) * p->patches / p->parts; t++)
            run_patch(p, t, p->wait + part * p->wait_bytes);
}

/* Patches as large as caches like, but enough of them for all threads; each part has room for what waits. */
static void plan_patches(Packed *p)
{
    int64_t threads = pool_threads(), levels = 0;

    p->pm = PATCH_M;
    p->pn = PATCH_N;
    p->chunks = p->g.k > GEMM_CHUNK ? (p->g.k + GEMM_CHUNK - 1) / GEMM_CHUNK : 1;
    for (;;) {
        p->mpatches = (p->mpanels + p->pm - 1) / p->pm;
        p->npatches = (p->npanels + p->pn - 1) / p->pn;
        p->patches = p->g.batch * p->mpatches * p->npatches;
        if (threads == 1 || p->patches >= 4 * threads || (p->pm == 1 && p->pn == 1))
            break;
        *(p->pm > p->pn ? &p->pm : &p->pn) /= 2;
    }
    p->parts = threads == 1 || p->g.batch * p->g.m * p->g.n * p->g.k < 1 << 18 ? 1 : 4 * threads;
    p->parts = p->parts < p->patches ? p->parts : p->patches;
    while (p->chunks >> levels)
        levels++;
    p->wait_bytes = p->chunks == 1 ? 0 : levels * p->pm * p->pn * p->mr * p->nr * (int64_t)p->size;
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

    return wide->run && cost(wide, g) < cost(narrow, g) ? wide : narrow;
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
    plan_patches(&p);
    int64_t size = (int64_t)p.size, na = (p.abatches * p.mpanels * p.mr * g->k * size + 63) / 64 * 64;
    int64_t nb = (p.bbatches * p.npanels * p.nr * g->k * size + 63) / 64 * 64, all = na + nb + p.parts * p.wait_bytes;
    _Alignas(64) char few[SMALL];
    Storage *room = all <= SMALL ? NULL : storage_new((size_t)all);
    if (all > SMALL && !room) {
        k_fail(c, K_NOMEM, "no memory for %lld bytes of packed matrices", (long long)all);
        return K_NOMEM;
    }
    p.a = room ? room->data : few;
    p.b = p.a + na;
    p.wait = p.b + nb;
    pool_for(p.abatches * p.mpanels, (1 << 16) / (g->k * p.mr + 1) + 1, pack_a, &p);
    pool_for(p.bbatches * p.npanels, (1 << 16) / (g->k * p.nr + 1) + 1, pack_b, &p);
    pool_for(p.parts, 1, run_parts, &p);
    storage_unref(room);
    return K_OK;
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
