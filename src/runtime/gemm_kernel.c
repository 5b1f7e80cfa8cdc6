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

/*
 * R rows of C vectors; VEC lanes of T. After each block the counter's trailing zero bits say how many waiting subtrees
 * it completes.
 */
#define TILE_KERNEL(name, T, V, VEC, R, C, fma_v, LOAD_A, LOAD_B, KARGS) \
    static void name KARGS \
    { \
        V wait[GEMM_LEVELS][R][C], acc[R][C]; \
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

TILE_KERNEL(tile_f32, float, VF, 8, GEMM_MR, 2, fma_f32, a[q * GEMM_MR + i], b + q * GEMM_NR32 + j * 8,
            (int64_t k, const float *a, const float *b, float *out))
TILE_KERNEL(tile_f64, double, VD, 4, GEMM_MR, 2, fma_f64, a[q * GEMM_MR + i], b + q * GEMM_NR64 + j * 4,
            (int64_t k, const double *a, const double *b, double *out))
TILE_KERNEL(row_f32, float, VF, 8, 1, 8, fma_f32, a[q * acol], b + q * brow + j * 8,
            (int64_t k, const float *a, int64_t acol, const float *b, int64_t brow, float *out))
TILE_KERNEL(row_f64, double, VD, 4, 1, 16, fma_f64, a[q * acol], b + q * brow + j * 4,
            (int64_t k, const double *a, int64_t acol, const double *b, int64_t brow, double *out))

const GemmKernels PASTE(gemm, VARIANT) = {tile_f32, tile_f64, row_f32, row_f64};
