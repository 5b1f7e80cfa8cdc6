/*
 * gemm.h - matrix products in one order.
 *
 * c[i, j] sums a[i, k] * b[k, j] over k in blocks of 32: inside a block
 * acc = fma(a, b, acc) from 0, left to right; block sums combine by the balanced tree of
 * reduce.c.  Tiling, threads and batches change no bit.
 */
#ifndef TSR_RUNTIME_GEMM_H
#define TSR_RUNTIME_GEMM_H

#include "runtime/kernel_util.h"

enum { GEMM_BLOCK = 32, GEMM_LEVELS = 32 };     /* levels: of trees over at most 2^31 blocks */
enum { GEMM_ROW = 64, GEMM_COLUMN = 8, GEMM_WIDE_ROWS = 14, GEMM_TILE_BYTES = GEMM_WIDE_ROWS * 32 * 4 };     /* bytes: of the largest tile */
enum { GEMM_CHUNK = 8 * GEMM_BLOCK };           /* steps between stops in packed products: a complete subtree */

/* One batch after another: matrix x starts at a + x * abatch, and so on; strides count elements of the accumulator's lanes. */
typedef struct Gemm {
    DType accum;                /* dtype whose lanes a, b and c hold; narrow ones round after every step */
    int64_t batch, m, n, k;
    const void *a, *b;
    int64_t abatch, arow, acol, bbatch, brow, bcol;
    void *c;                    /* row-major, batches in a row */
} Gemm;

KStatus gemm_run(KCtx *c, Gemm g);

/* A micro-kernel: up to GEMM_CHUNK steps, packed panels a [k][mr] and b [k][nr], tile [mr][nr]. */
typedef struct GemmTile {
    int mr, nr;
    int speed;                  /* multiplications a cycle, relative to the other one */
    void (*run)(int64_t k, const void *a, const void *b, void *tile);   /* NULL: there is none */
    /* Pack f32 lines (at most mr) whose steps are neighbours; NULL: no faster way than element by element. */
    void (*turn)(const float *src, int64_t line, int lines, int64_t k, float *dst);
} GemmTile;

/* Once for each instruction set; wide tiles have twice as much to do at a time, and waste more at edges. */
typedef struct GemmKernels {
    GemmTile f32, f64, wide_f32, wide_f64;
    /* One row times GEMM_ROW columns of an unpacked b whose rows are brow apart. */
    void (*row_f32)(int64_t k, const float *a, int64_t acol, const float *b, int64_t brow, float *out);
    void (*row_f64)(int64_t k, const double *a, int64_t acol, const double *b, int64_t brow, double *out);
    /* GEMM_COLUMN rows, or one, of an unpacked a times one column. */
    void (*column_f32)(int64_t k, const float *a, int64_t arow, int64_t acol, const float *b, int64_t brow, float *out);
    void (*column_f64)(int64_t k, const double *a, int64_t arow, int64_t acol, const double *b, int64_t brow, double *out);
    void (*dot_f32)(int64_t k, const float *a, int64_t arow, int64_t acol, const float *b, int64_t brow, float *out);
    void (*dot_f64)(int64_t k, const double *a, int64_t arow, int64_t acol, const double *b, int64_t brow, double *out);
} GemmKernels;
extern const GemmKernels gemm_base, gemm_v3, gemm_v4;

#endif
