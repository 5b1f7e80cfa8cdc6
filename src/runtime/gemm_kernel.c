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
enum { WIDE_LEVELS = 10 };              /* what fits a small stack */
PANEL_KERNEL(wide_f32, float, WF, 16, 12, 2, WIDE_LEVELS, fma_wide_f32)
PANEL_KERNEL(wide_f64, double, WD, 8, 12, 2, WIDE_LEVELS, fma_wide_f64)
#define WIDE(name, nr) {12, nr, (int64_t)GEMM_BLOCK << (WIDE_LEVELS - 1), 2, name}
#else
#define WIDE(name, nr) {.run = NULL}
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
    .f32 = {6, 16, INT64_MAX, 1, tile_f32}, .f64 = {6, 8, INT64_MAX, 1, tile_f64},
    .wide_f32 = WIDE(wide_f32, 32), .wide_f64 = WIDE(wide_f64, 16),
    .row_f32 = row_f32, .row_f64 = row_f64, .column_f32 = column_f32, .column_f64 = column_f64, .dot_f32 = dot_f32, .dot_f64 = dot_f64,
};
