/*
 * Micro-kernels of matrix products.
 *
 * A tile keeps its sums in vector registers for a block of 32 steps; finished
 * blocks climb the tree in registers too, and only subtrees that must wait go
 * to a small stack.  Without FMA instructions each lane calls fma(): slow, and
 * the same bits.
 */
#include "runtime/gemm.h"

#include "runtime/each.h"

#include <math.h>
#include <string.h>
#ifdef __FMA__
#include <immintrin.h>
#endif

typedef float VF __attribute__((vector_size(32)));
typedef double VD __attribute__((vector_size(32)));

/* c = a * b + c in each lane. By pointer: passing wide vectors by value is not the same for every instruction set. */
static inline void fma_f32(const VF *a, const VF *b, VF *c)
{
#ifdef __FMA__
    *c = (VF)_mm256_fmadd_ps((__m256)*a, (__m256)*b, (__m256)*c);
#else
    for (int i = 0; i < 8; i++)
        (*c)[i] = fmaf((*a)[i], (*b)[i], (*c)[i]);
#endif
}

static inline void fma_f64(const VD *a, const VD *b, VD *c)
{
#ifdef __FMA__
    *c = (VD)_mm256_fmadd_pd((__m256d)*a, (__m256d)*b, (__m256d)*c);
#else
    for (int i = 0; i < 4; i++)
        (*c)[i] = fma((*a)[i], (*b)[i], (*c)[i]);
#endif
}

#ifdef __AVX512F__
typedef float WF __attribute__((vector_size(64)));
typedef double WD __attribute__((vector_size(64)));
static inline void fma_wide_f32(const WF *a, const WF *b, WF *c) { *c = (WF)_mm512_fmadd_ps((__m512)*a, (__m512)*b, (__m512)*c); }
static inline void fma_wide_f64(const WD *a, const WD *b, WD *c) { *c = (WD)_mm512_fmadd_pd((__m512d)*a, (__m512d)*b, (__m512d)*c); }
#endif

/*
 * R rows of C vectors; VEC lanes of T; trees of LEVELS levels. After each block the counter's trailing zero bits say how many waiting subtrees
 * it completes.
 */
#define TILE_KERNEL(name, T, V, VEC, R, C, LEVELS, fma_v, LOAD_A, LOAD_B, KARGS) \
    static void name KARGS \
    { \
        V wait[LEVELS][R][C], acc[R][C]; \
        int depth = 0; \
        int64_t blocks = 0; \
        memset(acc, 0, sizeof acc); \
        for (int64_t k0 = 0; k0 < k; k0 += GEMM_BLOCK) { \
            int64_t end = k - k0 < GEMM_BLOCK ? k : k0 + GEMM_BLOCK; \
            memset(acc, 0, sizeof acc); \
            for (int64_t q = k0; q < end; q++) { \
                V bv[C]; \
                for (int j = 0; j < C; j++) \
                    memcpy(&bv[j], LOAD_B, sizeof(V)); \
                for (int i = 0; i < R; i++) { \
                    T s = LOAD_A; \
                    V av = s - (V){0}; \
                    for (int j = 0; j < C; j++) \
                        fma_v(&av, &bv[j], &acc[i][j]); \
                } \
            } \
            for (int64_t c = ++blocks; !(c & 1); c >>= 1) { \
                depth--; \
                for (int i = 0; i < R; i++) \
                    for (int j = 0; j < C; j++) \
                        acc[i][j] = wait[depth][i][j] + acc[i][j]; \
            } \
            memcpy(wait[depth++], acc, sizeof acc); \
        } \
        if (depth) \
            memcpy(acc, wait[--depth], sizeof acc); \
        while (depth--) \
            for (int i = 0; i < R; i++) \
                for (int j = 0; j < C; j++) \
                    acc[i][j] = wait[depth][i][j] + acc[i][j]; \
        memcpy(out, acc, sizeof acc); \
    }

/* Packed panels. */
#define PANEL_KERNEL(name, T, V, VEC, R, C, LEVELS, fma_v) \
    TILE_KERNEL(name, T, V, VEC, R, C, LEVELS, fma_v, ((const T *)a)[q * (R) + i], (const T *)b + q * ((C) * (VEC)) + j * (VEC), \
                (int64_t k, const void *a, const void *b, void *out))
PANEL_KERNEL(tile_f32, float, VF, 8, 6, 2, GEMM_LEVELS, fma_f32)
PANEL_KERNEL(tile_f64, double, VD, 4, 6, 2, GEMM_LEVELS, fma_f64)

#ifdef __AVX512F__
/*
 * The wide tiles, 14 rows of two vectors, leave 4 of the 32 registers for what comes in.  Sums are variables by name, which
 * compilers keep in registers where they spill arrays of that many.
 */
enum { WIDE_LEVELS = 5, AHEAD = 16 };   /* of a tree over GEMM_CHUNK steps, and a partial one; steps that b is fetched before its use */
#define WIDE_ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13)
#define WIDE_ZERO(i) l##i = (V){0}, r##i = (V){0};
#define WIDE_STEP(i) { V s = a[i] - (V){0}; fma_v(&s, &left, &l##i); fma_v(&s, &right, &r##i); }
#define WIDE_JOIN(i) l##i = w[i][0] + l##i, r##i = w[i][1] + r##i;
#define WIDE_WAIT(i) w[i][0] = l##i, w[i][1] = r##i;
#define WIDE_NAMES l0, r0, l1, r1, l2, r2, l3, r3, l4, r4, l5, r5, l6, r6, l7, r7, l8, r8, l9, r9, l10, r10, l11, r11, l12, r12, l13, r13
#define WIDE_KERNEL(name, T, VEC_TYPE, VEC, FMA) \
    static void name(int64_t k, const void *a_, const void *b_, void *out) \
    { \
        typedef VEC_TYPE V; \
        V wait[WIDE_LEVELS][GEMM_WIDE_ROWS][2], (*w)[2] = wait[0], left, right, WIDE_NAMES; \
        const T *a = a_, *b = b_; \
        WIDE_ROWS(WIDE_ZERO) \
        for (int64_t k0 = 0, blocks = 0; k0 < k; k0 += GEMM_BLOCK) { \
            int64_t n = k - k0 < GEMM_BLOCK ? k - k0 : GEMM_BLOCK; \
            WIDE_ROWS(WIDE_ZERO) \
            for (; n; n--, a += GEMM_WIDE_ROWS, b += 2 * (VEC)) { \
                memcpy(&left, b, sizeof left); \
                memcpy(&right, b + (VEC), sizeof right); \
                __builtin_prefetch(b + AHEAD * 2 * (VEC)); \
                __builtin_prefetch(b + AHEAD * 2 * (VEC) + (VEC)); \
                WIDE_ROWS(WIDE_STEP) \
            } \
            for (int64_t c = ++blocks; !(c & 1); c >>= 1) { \
                w -= GEMM_WIDE_ROWS; \
                WIDE_ROWS(WIDE_JOIN) \
            } \
            WIDE_ROWS(WIDE_WAIT) \
            w += GEMM_WIDE_ROWS; \
        } \
        if (w > wait[0] + GEMM_WIDE_ROWS) { \
            for (w -= 2 * GEMM_WIDE_ROWS; w >= wait[0]; w -= GEMM_WIDE_ROWS) { \
                WIDE_ROWS(WIDE_JOIN) \
            } \
        } \
        w = wait[0]; \
        WIDE_ROWS(WIDE_WAIT) \
        memcpy(out, wait[0], sizeof wait[0]); \
    }
#define fma_v fma_wide_f32
WIDE_KERNEL(wide_f32, float, WF, 16, fma_wide_f32)
#undef fma_v
#define fma_v fma_wide_f64
WIDE_KERNEL(wide_f64, double, WD, 8, fma_wide_f64)
#undef fma_v

/* 16 steps of 14 lines at s, `line` elements apart, to d[step][14]. What a store writes beyond its 14 the next one overwrites. */
static inline void turn_f32(const float *s, int64_t line, int lines, float *d)
{
    __m512 x[16], y[16];

    for (int i = 0; i < 16; i++)
        x[i] = i < lines ? _mm512_loadu_ps(s + i * line) : _mm512_setzero_ps();
    for (int i = 0; i < 16; i += 2) {
        y[i] = _mm512_unpacklo_ps(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_ps(x[i], x[i + 1]);
    }
    for (int i = 0; i < 16; i += 4)             /* x[i + c]: step c of each quarter, lines i to i + 3 */
        for (int c = 0; c < 4; c++) {
            __m512d p = _mm512_castps_pd(y[i + (c > 1)]), q = _mm512_castps_pd(y[i + 2 + (c > 1)]);
            x[i + c] = _mm512_castpd_ps(c & 1 ? _mm512_unpackhi_pd(p, q) : _mm512_unpacklo_pd(p, q));
        }
    for (int c = 0; c < 4; c++) {               /* gather each quarter of the four groups of lines */
        __m512 p = _mm512_shuffle_f32x4(x[c], x[4 + c], 0x88), q = _mm512_shuffle_f32x4(x[8 + c], x[12 + c], 0x88);
        __m512 r = _mm512_shuffle_f32x4(x[c], x[4 + c], 0xdd), t = _mm512_shuffle_f32x4(x[8 + c], x[12 + c], 0xdd);
        y[c] = _mm512_shuffle_f32x4(p, q, 0x88);
        y[8 + c] = _mm512_shuffle_f32x4(p, q, 0xdd);
        y[4 + c] = _mm512_shuffle_f32x4(r, t, 0x88);
        y[12 + c] = _mm512_shuffle_f32x4(r, t, 0xdd);
    }
    for (int q = 0; q < 15; q++)
        _mm512_storeu_ps(d + q * GEMM_WIDE_ROWS, y[q]);
    _mm512_mask_storeu_ps(d + 15 * GEMM_WIDE_ROWS, (1 << GEMM_WIDE_ROWS) - 1, y[15]);
}

static void turn_wide_f32(const float *s, int64_t line, int lines, int64_t k, float *d)
{
    int64_t q = 0;

    for (; q + 16 <= k; q += 16)
        turn_f32(s + q, line, lines, d + q * GEMM_WIDE_ROWS);
    for (; q < k; q++)
        for (int i = 0; i < GEMM_WIDE_ROWS; i++)
            d[q * GEMM_WIDE_ROWS + i] = i < lines ? s[i * line + q] : 0;
}
#define WIDE(name, nr, turn) {GEMM_WIDE_ROWS, nr, 2, name, turn}
#else
#define WIDE(name, nr, turn) {.run = NULL}
#endif
TILE_KERNEL(row_f32, float, VF, 8, 1, 8, GEMM_LEVELS, fma_f32, a[q * acol], b + q * brow + j * 8,
            (int64_t k, const float *a, int64_t acol, const float *b, int64_t brow, float *out))
TILE_KERNEL(row_f64, double, VD, 4, 1, 16, GEMM_LEVELS, fma_f64, a[q * acol], b + q * brow + j * 4,
            (int64_t k, const double *a, int64_t acol, const double *b, int64_t brow, double *out))

/* Scalars: a column has no neighbours to make vectors of, but rows of a that do not wait for each other. */
static inline void fma_one_f32(const float *a, const float *b, float *c) { *c = fmaf(*a, *b, *c); }
static inline void fma_one_f64(const double *a, const double *b, double *c) { *c = fma(*a, *b, *c); }
#define COLUMN_KERNEL(name, T, R, fma_v) \
    TILE_KERNEL(name, T, T, 1, R, 1, GEMM_LEVELS, fma_v, a[i * arow + q * acol], b + q * brow + j, \
                (int64_t k, const T *a, int64_t arow, int64_t acol, const T *b, int64_t brow, T *out))
COLUMN_KERNEL(column_f32, float, GEMM_COLUMN, fma_one_f32)
COLUMN_KERNEL(column_f64, double, GEMM_COLUMN, fma_one_f64)
COLUMN_KERNEL(dot_f32, float, 1, fma_one_f32)
COLUMN_KERNEL(dot_f64, double, 1, fma_one_f64)

const GemmKernels PASTE(gemm, VARIANT) = {
    .f32 = {6, 16, 1, tile_f32, NULL}, .f64 = {6, 8, 1, tile_f64, NULL},
    .wide_f32 = WIDE(wide_f32, 32, turn_wide_f32), .wide_f64 = WIDE(wide_f64, 16, NULL),
    .row_f32 = row_f32, .row_f64 = row_f64, .column_f32 = column_f32, .column_f64 = column_f64, .dot_f32 = dot_f32, .dot_f64 = dot_f64,
};
