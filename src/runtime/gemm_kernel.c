/*
 * Micro-kernels of matrix products, and packing for them.
 *
 * A tile of `rows` times `vectors` sums stays in registers for up to GEMM_CHUNK steps.  A step takes vectors of a row of b
 * and, for each row of the tile, one element of a in all lanes.  The function is written once and made for each size of tile:
 * sizes are constants where it is inlined, so all its inner loops unroll.  Without FMA instructions each lane
 * calls fma(): slow, and the same bits.  Calls leave nothing in registers, so sizes are arguments then and the code is there once.
 */
#include "runtime/gemm.h"

#include "runtime/each.h"

#include <math.h>
#include <string.h>

#if defined(__AVX512F__)
enum { BYTES = 64, ROWS = 14, VECTORS = 2, VECTORS_MAX = 16, FUSED = 1 };
#elif defined(__FMA__)
enum { BYTES = 32, ROWS = 6, VECTORS = 2, VECTORS_MAX = 8, FUSED = 1 };
#else
enum { BYTES = 32, ROWS = 2, VECTORS = 1, VECTORS_MAX = 1, FUSED = 0 };        /* each lane is a call: nothing is gained by unrolling them */
#endif
_Static_assert(ROWS * VECTORS * BYTES <= GEMM_TILE_BYTES, "the largest tile of all");
enum { AHEAD = 8 };             /* steps that rows of b are asked for before their use */

#if defined(__FMA__) || defined(__FP_FAST_FMAF)
#define SIZED static inline __attribute__((always_inline))      /* made for each size */
#define SPREAD UNROLL
#else
#define SIZED static __attribute__((noinline))
#define SPREAD
#endif

#ifdef __FMA__
#include "runtime/gemm_turn.h"
#endif

typedef float VF __attribute__((vector_size(BYTES)));
typedef double VD __attribute__((vector_size(BYTES)));

/* c = a * b + c in each lane. By pointer: passing wide vectors by value is not the same for every instruction set. */
static inline void fma_f32(const VF *a, const VF *b, VF *c)
{
#if defined(__AVX512F__)
    *c = (VF)_mm512_fmadd_ps((__m512)*a, (__m512)*b, (__m512)*c);
#elif defined(__FMA__)
    *c = (VF)_mm256_fmadd_ps((__m256)*a, (__m256)*b, (__m256)*c);
#else
    for (int i = 0; i < 8; i++)
        (*c)[i] = fmaf((*a)[i], (*b)[i], (*c)[i]);
#endif
}

static inline void fma_f64(const VD *a, const VD *b, VD *c)
{
#if defined(__AVX512F__)
    *c = (VD)_mm512_fmadd_pd((__m512d)*a, (__m512d)*b, (__m512d)*c);
#elif defined(__FMA__)
    *c = (VD)_mm256_fmadd_pd((__m256d)*a, (__m256d)*b, (__m256d)*c);
#else
    for (int i = 0; i < 4; i++)
        (*c)[i] = fma((*a)[i], (*b)[i], (*c)[i]);
#endif
}

#define TILE_ARGS int64_t k, const void *a_, int64_t arow, int64_t acol, const void *b_, int64_t brow, void *c_, int64_t crow, bool add
#define STREWN_ARGS int64_t k, const void *a_, int64_t arow, int64_t acol, const void *b_, const int64_t *by, void *c_, int64_t crow, bool add

/*
 * Places of some rows of a: of a packed panel neighbours, else reached from the first and from the eighth by few distances, all of which stay in
 * registers.  What the compiler does not know it does not compute in other ways that take more.
 */
typedef struct Near { const char *lo, *hi; int64_t step, one, three, five; } Near;
enum { NEAR = 7 };
#define HIDDEN(x) __asm__("" : "+r"(x))
SIZED Near near_rows(bool packed, const void *a, int64_t row, int64_t step)
{
    Near n = {a, (const char *)a + NEAR * row, step, row, 3 * row, 5 * row};

    if (!packed) {
        HIDDEN(n.hi);
        HIDDEN(n.step);
        HIDDEN(n.three);
        HIDDEN(n.five);
    }
    return n;
}

SIZED void near_next(bool packed, Near *n)
{
    n->lo += n->step;
    n->hi += n->step;
    if (!packed) {
        HIDDEN(n->one);
        HIDDEN(n->three);
    }
}

SIZED const char *near_row(const int i, const Near *n)
{
    const char *from = i < NEAR ? n->lo : n->hi;
    const int r = i % NEAR;

    return from + (r == 3 ? n->three : r == 5 ? n->five : r == 6 ? 2 * n->three : r * n->one);
}

/*
 * R, C: the tile's rows and vectors.  Rows of b come from the second cache or from memory and are asked for ahead.  The places of
 * c are asked for during the first steps, a row a step: all at once they would fill the queue of what is missing.  Of a that is
 * not packed each step asks for a line of the rows behind the tile's: machines do not follow so many rows by themselves.
 */
#define TILE_BODY(name, T, V, fma_v) \
    SIZED void name##_step(const int R, const int C, const bool packed, const Near *a, const T *b, int64_t brow, V acc[ROWS][VECTORS_MAX]) \
    { \
        enum { LANES = BYTES / sizeof(T) }; \
        V bv[VECTORS_MAX]; \
        SPREAD for (int j = 0; j < C; j++) { \
            memcpy(&bv[j], b + j * LANES, sizeof(V)); \
            if (j * BYTES % 64 == 0) \
                __builtin_prefetch(b + AHEAD * brow + j * LANES); \
        } \
        SPREAD for (int i = 0; i < R; i++) { \
            V av = *(const T *)(const void *)(packed ? a->lo + i * (int64_t)sizeof(T) : near_row(i, a)) - (V){0}; \
            SPREAD for (int j = 0; j < C; j++) \
                fma_v(&av, &bv[j], &acc[i][j]); \
        } \
    } \
    SIZED void name(const int R, const int C, const bool packed, TILE_ARGS) \
    { \
        enum { LANES = BYTES / sizeof(T), LINE = 64 / sizeof(T) }; \
        const T *b = b_; \
        const char *next = (const char *)a_ + R * arow * (int64_t)sizeof(T); \
        Near a = near_rows(packed, a_, arow * (int64_t)sizeof(T), acol * (int64_t)sizeof(T)); \
        T *c = c_, *ask = c_; \
        V acc[ROWS][VECTORS_MAX]; \
        int64_t q = 0; \
        SPREAD for (int i = 0; i < R; i++) \
            SPREAD for (int j = 0; j < C; j++) \
                acc[i][j] = (V){0}; \
        for (; q < R && q < k; q++, near_next(packed, &a), b += brow, ask += crow) { \
            if (!packed) { \
                __builtin_prefetch(next); \
                next += a.one; \
            } \
            SPREAD for (int j = 0; j < C; j++) \
                __builtin_prefetch(ask + j * LANES, 1); \
            name##_step(R, C, packed, &a, b, brow, acc); \
        } \
        for (; q < k; q++, near_next(packed, &a), b += brow) { \
            if (!packed) { \
                next = q % LINE ? next : a.lo + R * a.one; \
                __builtin_prefetch(next); \
                next += a.one; \
            } \
            name##_step(R, C, packed, &a, b, brow, acc); \
        } \
        if (add) \
            SPREAD for (int i = 0; i < R; i++) \
                SPREAD for (int j = 0; j < C; j++) { \
                    V sum; \
                    memcpy(&sum, c + i * crow + j * LANES, sizeof sum); \
                    acc[i][j] = sum + acc[i][j]; \
                } \
        SPREAD for (int i = 0; i < R; i++) \
            SPREAD for (int j = 0; j < C; j++) \
                memcpy(c + i * crow + j * LANES, &acc[i][j], sizeof(V)); \
    }
TILE_BODY(body_f32, float, VF, fma_f32)
TILE_BODY(body_f64, double, VD, fma_f64)

/* X(rows, vectors): all sizes of tiles, the largest first; Y those that f32 alone has. */
#ifdef __AVX512F__
#define TILES(X, Y) X(14, 2) X(14, 1) Y(12, 2) Y(12, 1) Y(11, 2) Y(11, 1) Y(10, 2) Y(10, 1) Y(9, 2) Y(9, 1) X(8, 2) X(8, 1) Y(7, 2) Y(7, 1) \
    X(6, 2) X(6, 1) Y(5, 2) Y(5, 1) X(4, 2) X(4, 1) X(3, 8) X(3, 4) X(3, 2) X(3, 1) X(2, 8) X(2, 4) X(2, 2) X(2, 1) X(1, 16) X(1, 8) X(1, 4) \
    X(1, 2) X(1, 1)
#elif !defined(__FMA__)
#define TILES(X, Y) X(2, 1) X(1, 1)
#else
#define TILES(X, Y) X(6, 2) X(6, 1) Y(5, 2) Y(5, 1) X(4, 2) X(4, 1) X(3, 4) X(3, 2) X(3, 1) X(2, 4) X(2, 2) X(2, 1) X(1, 8) X(1, 4) X(1, 2) X(1, 1)
#endif
#define F32_FN(R, C) static void f32_##R##x##C(TILE_ARGS) { body_f32(R, C, false, k, a_, arow, acol, b_, brow, c_, crow, add); }
#define F64_FN(R, C) static void f64_##R##x##C(TILE_ARGS) { body_f64(R, C, false, k, a_, arow, acol, b_, brow, c_, crow, add); }
#define F32_ROW(R, C) {R, C, f32_##R##x##C},
#define F64_ROW(R, C) {R, C, f64_##R##x##C},
#define NONE(R, C)
TILES(F32_FN, F32_FN)
TILES(F64_FN, NONE)
static const GemmTile tiles_f32[] = {TILES(F32_ROW, F32_ROW) {0, 0, NULL}}, tiles_f64[] = {TILES(F64_ROW, NONE) {0, 0, NULL}};

#ifdef __FMA__
/* The same of f32 where steps of b are not in equal steps of memory; each is used soon after the one before it, so none is asked for. */
SIZED void strewn(const int R, const int C, STREWN_ARGS)
{
    enum { LANES = BYTES / sizeof(float), LINE = 64 / sizeof(float) };
    const char *b = b_, *next = (const char *)a_ + R * arow * (int64_t)sizeof(float);
    Near a = near_rows(false, a_, arow * (int64_t)sizeof(float), acol * (int64_t)sizeof(float));
    float *c = c_;
    VF acc[ROWS][VECTORS_MAX], bv[VECTORS_MAX];

    UNROLL for (int i = 0; i < R; i++)
        UNROLL for (int j = 0; j < C; j++)
            acc[i][j] = (VF){0};
    for (int64_t q = 0; q < k; b += by[q++], near_next(false, &a)) {
        next = q % LINE ? next + a.one : a.lo + R * a.one;
        __builtin_prefetch(next);
        UNROLL for (int j = 0; j < C; j++)
            memcpy(&bv[j], b + j * BYTES, sizeof(VF));
        UNROLL for (int i = 0; i < R; i++) {
            VF av = *(const float *)(const void *)near_row(i, &a) - (VF){0};
            UNROLL for (int j = 0; j < C; j++)
                fma_f32(&av, &bv[j], &acc[i][j]);
        }
    }
    if (add)
        UNROLL for (int i = 0; i < R; i++)
            UNROLL for (int j = 0; j < C; j++) {
                memcpy(&bv[0], c + i * crow + j * LANES, sizeof(VF));
                acc[i][j] = bv[0] + acc[i][j];
            }
    UNROLL for (int i = 0; i < R; i++)
        UNROLL for (int j = 0; j < C; j++)
            memcpy(c + i * crow + j * LANES, &acc[i][j], sizeof(VF));
}

#ifdef __AVX512F__
#define STREWNS(X) X(14, 2) X(10, 2) X(8, 2) X(6, 2) X(4, 2) X(3, 4) X(3, 2) X(2, 6) X(2, 2) X(1, 12) X(1, 6) X(1, 2)
#else
#define STREWNS(X) X(6, 2) X(5, 2) X(4, 2) X(3, 2) X(2, 4) X(2, 2) X(1, 8) X(1, 4) X(1, 2)
#endif
#define STREWN_FN(R, C) static void strewn_##R##x##C(STREWN_ARGS) { strewn(R, C, k, a_, arow, acol, b_, by, c_, crow, add); }
#define STREWN_ROW(R, C) {R, C, strewn_##R##x##C},
STREWNS(STREWN_FN)
static const GemmStrewn strewn_f32[] = {STREWNS(STREWN_ROW) {0, 0, NULL}};
#else
#define strewn_f32 NULL
#endif
#define strewn_f64 NULL

#define PANEL_FN(name, body, C) \
    static void name(TILE_ARGS) \
    { \
        (void)arow, (void)acol; \
        body(ROWS, C, true, k, a_, 1, ROWS, b_, brow, c_, crow, add); \
    }
PANEL_FN(panel_f32, body_f32, VECTORS)
PANEL_FN(panel_f64, body_f64, VECTORS)
PANEL_FN(narrow_f32, body_f32, 1)
PANEL_FN(narrow_f64, body_f64, 1)

/* ---- packing ---- */

/* Rows are read in runs as long as PANELS panels, because that is how machines fetch ahead; more panels would be more places to write to at once. */
enum { PANELS = 8, ROWS_AHEAD = 6 };
#define COPY_FN(name, T) \
    static void name(const void *src, int64_t step, int64_t lines, int64_t k, void *dst, int64_t width) \
    { \
        enum { WIDE = VECTORS * BYTES / sizeof(T) }; \
        const T *s = src; \
        T *d = dst; \
        int64_t wide = width == WIDE ? lines / (PANELS * WIDE) * (PANELS * WIDE) : 0; \
        for (int64_t j = 0; j < wide; j += PANELS * WIDE) \
            for (int64_t q = 0; q < k; q++) { \
                const T *from = s + q * step + j; \
                T *to = d + j * k + q * WIDE; \
                UNROLL for (int i = 0; i < PANELS * WIDE; i += WIDE, to += k * WIDE) { \
                    for (size_t c = 0; c < WIDE * sizeof(T); c += 64) \
                        __builtin_prefetch((const char *)(from + ROWS_AHEAD * step + i) + c); \
                    memcpy(to, from + i, WIDE * sizeof(T)); \
                } \
            } \
        s += wide, d += wide * k, lines -= wide; \
        for (int64_t q = 0; q < k && lines; q++, s += step, d += width) { \
            T *to = d; \
            int64_t i = 0; \
            if (lines <= width) \
                __builtin_prefetch(s + 2 * width, 0, 2);    /* the next panels' */ \
            for (; width == WIDE && i + WIDE <= lines; i += WIDE, to += k * WIDE) \
                memcpy(to, s + i, WIDE * sizeof(T)); \
            for (; width == ROWS && i + ROWS <= lines; i += ROWS, to += k * ROWS) \
                memcpy(to, s + i, ROWS * sizeof(T)); \
            for (; i < lines; i += width, to += k * width) \
                for (int64_t t = 0; t < width; t++) \
                    to[t] = i + t < lines ? s[i + t] : 0; \
        } \
    }
COPY_FN(copy_f32, float)
COPY_FN(copy_f64, double)

/* ---- few rows ---- */

/*
 * Rows of sums in memory, row i at acc + i * row, over all columns of some rows of b at a time: b is read from end to end.  Up to GEMM_FEW rows
 * take FEW_STEPS of them, as few runs of memory as hide what the sums wait for; for more rows two vectors of SOME_STEPS stay in registers.
 * Columns are whole vectors: the last ones of b, which fill none, are copied, with zeros behind them.  The last steps are once, for any number
 * of rows: bundles carry them.
 */
#ifdef __AVX512F__
enum { FEW_STEPS = 4, SOME_STEPS = 8 };
#else
enum { FEW_STEPS = 4, SOME_STEPS = 4 };
#endif
#define FEW_ARGS(T) int64_t rows, int64_t k, const T *a, int64_t arow, int64_t acol, const T *b, int64_t brow, int64_t n, T *acc, int64_t row
#define FEW_BODY(name, T, V, fma_v) \
    static __attribute__((noinline)) void name##_rest(FEW_ARGS(T)) \
    { \
        enum { LANES = BYTES / sizeof(T) }; \
        for (int64_t i = 0; i < rows; i++) \
            for (int64_t q = 0; q < k; q++) { \
                V av = a[i * arow + q * acol] - (V){0}, bv, sum; \
                for (int64_t j = 0; j < n; j += LANES) { \
                    memcpy(&sum, acc + i * row + j, sizeof(V)); \
                    memcpy(&bv, b + q * brow + j, sizeof(V)); \
                    fma_v(&av, &bv, &sum); \
                    memcpy(acc + i * row + j, &sum, sizeof(V)); \
                } \
            } \
    } \
    SIZED void name##_rows(const int R, int64_t k, const T *a, int64_t arow, int64_t acol, const T *b, int64_t brow, int64_t n, T *acc, \
                           int64_t row) \
    { \
        enum { LANES = BYTES / sizeof(T), S = FEW_STEPS }; \
        V av[GEMM_FEW][S], bv, sum[GEMM_FEW]; \
        for (; k >= S; k -= S, a += S * acol, b += S * brow) { \
            SPREAD for (int i = 0; i < R; i++) \
                SPREAD for (int q = 0; q < S; q++) \
                    av[i][q] = a[i * arow + q * acol] - (V){0}; \
            for (int64_t j = 0; j < n; j += LANES) { \
                SPREAD for (int i = 0; i < R; i++) \
                    memcpy(&sum[i], acc + i * row + j, sizeof(V)); \
                SPREAD for (int q = 0; q < S; q++) { \
                    memcpy(&bv, b + q * brow + j, sizeof(V)); \
                    SPREAD for (int i = 0; i < R; i++) \
                        fma_v(&av[i][q], &bv, &sum[i]); \
                } \
                SPREAD for (int i = 0; i < R; i++) \
                    memcpy(acc + i * row + j, &sum[i], sizeof(V)); \
            } \
        } \
    } \
    static inline __attribute__((always_inline)) void name##_strip(const int C, int64_t rows, const T *a, int64_t arow, int64_t acol, \
                                                                   const T *b, int64_t brow, T *acc, int64_t row) \
    { \
        enum { LANES = BYTES / sizeof(T), S = SOME_STEPS }; \
        V bv[S][2], sum[2]; \
        UNROLL for (int q = 0; q < S; q++) \
            UNROLL for (int c = 0; c < C; c++) \
                memcpy(&bv[q][c], b + q * brow + c * LANES, sizeof(V)); \
        for (int64_t i = 0; i < rows; i++, a += arow, acc += row) { \
            UNROLL for (int c = 0; c < C; c++) \
                memcpy(&sum[c], acc + c * LANES, sizeof(V)); \
            UNROLL for (int q = 0; q < S; q++) { \
                V av = a[q * acol] - (V){0}; \
                UNROLL for (int c = 0; c < C; c++) \
                    fma_v(&av, &bv[q][c], &sum[c]); \
            } \
            UNROLL for (int c = 0; c < C; c++) \
                memcpy(acc + c * LANES, &sum[c], sizeof(V)); \
        } \
    } \
    static __attribute__((noinline)) void name##_some(FEW_ARGS(T)) \
    { \
        enum { LANES = BYTES / sizeof(T), S = SOME_STEPS }; \
        for (; k >= S; k -= S, a += S * acol, b += S * brow) { \
            int64_t j = 0; \
            for (; j + 2 * LANES <= n; j += 2 * LANES) \
                name##_strip(2, rows, a, arow, acol, b + j, brow, acc + j, row); \
            if (j < n) \
                name##_strip(1, rows, a, arow, acol, b + j, brow, acc + j, row); \
        } \
    } \
    static __attribute__((noinline)) void name##_vectors(FEW_ARGS(T)) \
    { \
        int64_t steps = rows > GEMM_FEW ? SOME_STEPS : FEW_STEPS, whole = FUSED ? k / steps * steps : 0; \
        if (!FUSED) \
            ; \
        else if (rows == 1) \
            name##_rows(1, k, a, arow, acol, b, brow, n, acc, row); \
        else if (rows == 2) \
            name##_rows(2, k, a, arow, acol, b, brow, n, acc, row); \
        else if (rows == 3) \
            name##_rows(3, k, a, arow, acol, b, brow, n, acc, row); \
        else if (rows == 4) \
            name##_rows(4, k, a, arow, acol, b, brow, n, acc, row); \
        else \
            name##_some(rows, k, a, arow, acol, b, brow, n, acc, row); \
        if (whole < k) \
            name##_rest(rows, k - whole, a + whole * acol, arow, acol, b + whole * brow, brow, n, acc, row); \
    } \
    static void name(int64_t rows, int64_t k, const void *a, int64_t arow, int64_t acol, const void *b_, int64_t brow, int64_t n, void *acc, \
                     int64_t row) \
    { \
        enum { LANES = BYTES / sizeof(T) }; \
        int64_t vectors = n / LANES * LANES; \
        const T *b = b_; \
        memset(acc, 0, (size_t)(rows * row) * sizeof(T)); \
        if (vectors) \
            name##_vectors(rows, k, a, arow, acol, b, brow, vectors, acc, row); \
        if (vectors < n) { \
            _Alignas(64) T last[GEMM_CHUNK * LANES]; \
            for (int64_t q = 0; q < k; q++) \
                for (int64_t j = 0; j < LANES; j++) \
                    last[q * LANES + j] = vectors + j < n ? b[q * brow + vectors + j] : 0; \
            name##_vectors(rows, k, a, arow, acol, last, LANES, LANES, (T *)acc + vectors, row); \
        } \
    }
FEW_BODY(few_f32, float, VF, fma_f32)
FEW_BODY(few_f64, double, VD, fma_f64)

/* ---- few steps ---- */

/* Rows of c over at most GEMM_THIN steps, each written from end to end: with so few steps that is most of the work. */
#define THIN_BODY(name, T, V, fma_v, fma_one) \
    static inline __attribute__((always_inline)) void name##_row(const int K, const T *a, int64_t acol, const T *b, int64_t brow, int64_t n, T *c) \
    { \
        enum { LANES = BYTES / sizeof(T) }; \
        V av[GEMM_THIN] = {{0}}; \
        int64_t j = 0; \
        UNROLL for (int q = 0; q < K; q++) \
            av[q] = a[q * acol] - (V){0}; \
        for (; j + LANES <= n; j += LANES) { \
            V sum = {0}, bv; \
            UNROLL for (int q = 0; q < K; q++) { \
                memcpy(&bv, b + q * brow + j, sizeof(V)); \
                fma_v(&av[q], &bv, &sum); \
            } \
            memcpy(c + j, &sum, sizeof(V)); \
        } \
        for (; j < n; j++) { \
            T sum = 0; \
            for (int q = 0; q < K; q++) \
                sum = fma_one(a[q * acol], b[q * brow + j], sum); \
            c[j] = sum; \
        } \
    } \
    static void name(int64_t rows, int64_t k, const void *a_, int64_t arow, int64_t acol, const void *b, int64_t brow, int64_t n, void *c_, \
                     int64_t crow) \
    { \
        const T *a = a_; \
        T *c = c_; \
        for (int64_t i = 0; i < rows; i++, a += arow, c += crow) \
            if (!FUSED) \
                name##_row((int)k, a, acol, b, brow, n, c); \
            else if (k == 1) \
                name##_row(1, a, acol, b, brow, n, c); \
            else if (k == 2) \
                name##_row(2, a, acol, b, brow, n, c); \
            else \
                name##_row(3, a, acol, b, brow, n, c); \
    }
THIN_BODY(thin_f32, float, VF, fma_f32, fmaf)
THIN_BODY(thin_f64, double, VD, fma_f64, fma)

/* ---- lanes that are sums of their own ---- */

#ifdef __FMA__
#define BESIDE_ARGS \
    int64_t k, const void *w, const void *x, const int64_t *places, int64_t row, int64_t times, void *sums, int64_t sums_row, bool more
SIZED void beside(const int R, const int C, BESIDE_ARGS)
{
    for (; times > 0; times--, x = (const VF *)x + C, sums = (VF *)sums + C) {
        VF acc[BESIDE_ROWS][BESIDE_COLUMNS], xv, wv;
        UNROLL for (int i = 0; i < R; i++)
            UNROLL for (int j = 0; j < C; j++) {
                acc[i][j] = (VF){0};
                if (more)
                    memcpy(&acc[i][j], (char *)sums + i * sums_row + j * BYTES, BYTES);
            }
        for (int64_t q = 0; q < k; q++) {
            const char *from = (const char *)x + places[q];
            memcpy(&wv, (const char *)w + q * BYTES, BYTES);
            UNROLL for (int i = 0; i < R; i++)
                UNROLL for (int j = 0; j < C; j++) {
                    memcpy(&xv, from + i * row + j * BYTES, BYTES);
                    fma_f32(&wv, &xv, &acc[i][j]);
                }
        }
        UNROLL for (int i = 0; i < R; i++)
            UNROLL for (int j = 0; j < C; j++)
                memcpy((char *)sums + i * sums_row + j * BYTES, &acc[i][j], BYTES);
    }
}

/* X(rows, columns): one row, two of as many as there are registers for, and the derivative of a kernel of 3 by 3. */
#define BESIDES(X) X(1, 1) X(1, 2) X(1, 3) X(1, 4) X(1, 5) X(1, 6) X(1, 7) X(1, 8) \
    X(2, 1) X(2, 2) X(2, 3) X(2, 4) X(2, 5) X(2, 6) WIDE_BESIDES(X) X(3, 3)
#ifdef __AVX512F__
#define WIDE_BESIDES(X) X(2, 7) X(2, 8)
#else
#define WIDE_BESIDES(X)
#endif
#define BESIDE_FN(R, C) static void beside_##R##x##C(BESIDE_ARGS) { beside(R, C, k, w, x, places, row, times, sums, sums_row, more); }
#define BESIDE_ROW(R, C) [R - 1][C - 1] = beside_##R##x##C,
BESIDES(BESIDE_FN)
static GemmBesideFn *const besides_f32[BESIDE_ROWS][BESIDE_COLUMNS] = {BESIDES(BESIDE_ROW)};
#else
#define besides_f32 NULL
#endif
#define besides_f64 NULL

/* ---- the other way of packing ---- */

#define TURN_FN(name, T) \
    static void name(const void *src, int64_t line, int64_t lines, int64_t k, void *dst, int64_t width) \
    { \
        const T *s = src; \
        T *d = dst; \
        for (int64_t q = 0; q < k; q++, d += width) { \
            for (int64_t i = 0; i < lines; i++) \
                d[i] = s[i * line + q]; \
            for (int64_t i = lines; i < width; i++) \
                d[i] = 0; \
        } \
    }

#ifdef __FMA__
/* A place that is a step from the one before it, and not a number times a step from the first: those would each take a register. */
static inline const float *walk(const float *at, int64_t step)
{
    at += step;
    __asm__("" : "+r"(at));
    return at;
}

/*
 * A square of `lines` of a panel to d, of whose steps `width` elements are left: whole ones of columns, a tile's rows, and others.  What a store
 * writes beyond the width the next ones overwrite; those of rows that would pass the square's last step are masked.
 */
SIZED void put_square(const float *s, int64_t line, int64_t lines, float *d, int64_t step, int64_t width)
{
    enum { WITHIN = SQUARE + 1 - (SQUARE + ROWS - 1) / ROWS };          /* stores of a tile's rows that end in the square */
    Row y[SQUARE];

    if (lines == SQUARE && width >= SQUARE) {
        turn_square(s, line, SQUARE, y);
        UNROLL for (int t = 0; t < SQUARE; t++)
            put_row(d + t * step, y[t]);
    } else if (lines == ROWS && step == ROWS) {
        turn_square(s, line, ROWS, y);
        UNROLL for (int t = 0; t < WITHIN; t++)
            put_row(d + t * ROWS, y[t]);
        UNROLL for (int t = WITHIN; t < SQUARE; t++)
            put_few(d + t * ROWS, y[t], ROWS);
    } else {
        turn_some(s, line, lines, y);
        for (int t = 0; t < SQUARE; t++)
            put_few(d + t * step, y[t], width);
    }
}

/* Lines in groups of a square's. */
static void turn_f32(const void *src, int64_t line, int64_t lines, int64_t k, void *dst, int64_t width)
{
    enum { LINE = 16 };
    const float *s = src;
    float *d = dst;
    int64_t whole = k / SQUARE * SQUARE;

    for (int64_t i = 0; i < width; i += SQUARE) {
        int64_t group = lines - i < 0 ? 0 : lines - i < SQUARE ? lines - i : SQUARE;
        for (int64_t q = 0; q < whole; q += SQUARE) {
            for (int64_t t = 0; q % LINE == 0 && t < group; t++)        /* the next panel's */
                __builtin_prefetch(s + (i + t + width) * line + q, 0, 2);
            put_square(s + i * line + q, line, group, d + q * width + i, width, width - i);
        }
        for (int64_t q = whole, n; q < k && k >= FOUR; q += n) {
            Row y[FOUR];
            n = turn_rest(s + i * line, line, group, q, k, y);
            for (int64_t t = 0; t < n; t++)
                put_few(d + (q + t) * width + i, y[FOUR - n + t], width - i);
        }
        for (int64_t q = 0; q < k && k < FOUR; q++)
            for (int64_t t = i; t < i + SQUARE && t < width; t++)
                d[q * width + t] = t < lines ? s[t * line + q] : 0;
    }
}

/*
 * Sums of R rows over whole squares of steps of C squares of columns, a square at a time: the machine turns the next one while sums wait for
 * their multiplications, one after the other in each sum.  far: b comes from memory, and is asked for ahead, into the second cache.
 */
enum { LINE = 16, FAR_AHEAD = 256 };
static inline __attribute__((always_inline)) void across_rows(const int R, const int C, bool far, int64_t whole, const float *a, int64_t arow,
                                                              int64_t acol, const float *s, int64_t line, VF sums[GEMM_FEW])
{
    VF sum[GEMM_FEW] = {{0}};

    for (int64_t q = 0; q < whole; q += SQUARE)
        UNROLL for (int c = 0; c < C; c++) {
            Row y[SQUARE];
            for (int t = 0; far && q % LINE == 0 && t < SQUARE; t++)
                __builtin_prefetch(s + t * line + q + FAR_AHEAD, 0, 2);
            turn_square(s + c * SQUARE * line + q, line, SQUARE, y);
            UNROLL for (int i = 0; i < R; i++) {
                const float *at = a + i * arow + q * acol;
                UNROLL for (int t = 0; t < SQUARE; t++, at = walk(at, acol)) {
                    VF av = *at - (VF){0}, bv = (VF)y[t];
                    fma_f32(&av, &bv, &sum[c * R + i]);
                }
            }
        }
    memcpy(sums, sum, sizeof sum);
}

#define ACROSS_FN(name, R, C) \
    static __attribute__((noinline)) void name(bool far, int64_t whole, const float *a, int64_t arow, int64_t acol, const float *s, \
                                               int64_t line, VF sums[GEMM_FEW]) \
    { \
        across_rows(R, C, far, whole, a, arow, acol, s, line, sums); \
    }
ACROSS_FN(across1, 1, 1)
ACROSS_FN(across2, 2, 1)
ACROSS_FN(across3, 3, 1)
ACROSS_FN(across4, 4, 1)
ACROSS_FN(across1x2, 1, 2)

/* The same of fewer columns. */
static __attribute__((noinline)) void across_one(int64_t rows, int64_t whole, const float *a, int64_t arow, int64_t acol, const float *s,
                                                 int64_t line, int64_t lines, VF sums[GEMM_FEW])
{
    VF sum[GEMM_FEW] = {{0}};

    for (int64_t q = 0; q < whole; q += SQUARE) {
        Row y[SQUARE];
        turn_some(s + q, line, lines, y);
        for (int64_t i = 0; i < rows; i++) {
            VF x = sum[i];
            UNROLL for (int t = 0; t < SQUARE; t++) {
                VF av = a[i * arow + (q + t) * acol] - (VF){0}, bv = (VF)y[t];
                fma_f32(&av, &bv, &x);
            }
            sum[i] = x;
        }
    }
    memcpy(sums, sum, sizeof sum);
}

/* The steps after the whole squares. */
static __attribute__((noinline)) void across_rest(int64_t rows, int64_t whole, int64_t k, const float *a, int64_t arow, int64_t acol, const float *s,
                                                  int64_t line, int64_t lines, VF sums[GEMM_FEW])
{
    for (int64_t q = whole, n; q < k && k >= FOUR; q += n) {
        Row y[FOUR];
        n = turn_rest(s, line, lines, q, k, y);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t t = 0; t < n; t++) {
                VF av = a[i * arow + (q + t) * acol] - (VF){0}, bv = (VF)y[FOUR - n + t];
                fma_f32(&av, &bv, &sums[i]);
            }
    }
    for (int64_t i = 0; i < rows && k < FOUR; i++)
        for (int64_t q = 0; q < k; q++)
            for (int64_t t = 0; t < lines; t++)
                sums[i][t] = fmaf(a[i * arow + q * acol], s[t * line + q], sums[i][t]);
}

/*
 * One row takes two squares of columns side by side, as a sum waits for the multiplication before; not where steps between columns are powers
 * of two: that would be more lines than the first cache keeps.
 */
static bool are_two(int64_t rows, int64_t n, int64_t line)
{
    enum { WAY = 1024 };

    return rows == 1 && n >= 2 * SQUARE && line % WAY;
}

/*
 * Rows of sums, at most GEMM_FEW, over k steps of b whose steps are neighbours: its columns, `line` apart, are turned in registers and used
 * there, SQUARE of them at a time; the last ones with some before them, which get the same sums again.  Where there are no more of them b is far.
 */
static void across_f32(int64_t rows, int64_t k, const void *a_, int64_t arow, int64_t acol, const void *b_, int64_t line, int64_t n, void *sums_,
                       int64_t row)
{
    const float *a = a_, *b = b_;
    float *sums = sums_;
    int64_t lines = n < SQUARE ? n : SQUARE, whole = k / SQUARE * SQUARE;

    for (int64_t j = 0, squares; j < n; j += squares * lines) {
        VF sum[GEMM_FEW];
        squares = are_two(rows, n - j, line) ? 2 : 1;
        j = j + lines > n ? n - lines : j;
        const float *s = b + j * line;
        if (n < SQUARE)
            across_one(rows, whole, a, arow, acol, s, line, lines, sum);
        else if (squares == 2)
            across1x2(false, whole, a, arow, acol, s, line, sum);
        else
            (rows == 1 ? across1 : rows == 2 ? across2 : rows == 3 ? across3 : across4)(n == SQUARE, whole, a, arow, acol, s, line, sum);
        for (int64_t c = 0; c < squares; c++) {
            if (whole < k)
                across_rest(rows, whole, k, a, arow, acol, s + c * SQUARE * line, line, lines, sum + c * rows);
            for (int64_t i = 0; i < rows; i++)
                memcpy(sums + i * row + j + c * SQUARE, &sum[c * rows + i], (size_t)lines * sizeof(float));
        }
    }
}
#else
TURN_FN(turn_f32, float)
#define across_f32 NULL
#endif
TURN_FN(turn_f64, double)
#define across_f64 NULL

#define SET(T, V) \
    {BYTES / sizeof(V), ROWS, VECTORS, tiles_##T, panel_##T, narrow_##T, turn_##T, copy_##T, few_##T, across_##T, thin_##T, besides_##T, strewn_##T}
const GemmKernels PASTE(gemm, VARIANT) = {SET(f32, float), SET(f64, double)};
