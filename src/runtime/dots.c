/*
 * Sums of products of two rows, as gemm.h says: chunks of 256 steps, each a chain of multiply-adds.  One chain would wait
 * for itself at every step, so eight chunks go along together.
 */
#include "runtime/gemm.h"

#include "runtime/each.h"

#include <math.h>

enum { TOGETHER = 8 };

#define DOTS(lane, T, fma) \
    /* n chunks, the last of `tail` steps; missing ones repeat the first, and are not kept. */ \
    static void some_##lane(int n, int64_t tail, const T *a, const T *b, T *sums) \
    { \
        int64_t full = n > 1 ? GEMM_CHUNK : tail, at[TOGETHER], i = 0; \
        T acc[TOGETHER] = {0}, last; \
        for (int c = 0; c < TOGETHER; c++) \
            at[c] = c < n ? c * GEMM_CHUNK : 0; \
        for (; i < tail; i++) \
            UNROLL for (int c = 0; c < TOGETHER; c++) \
                acc[c] = fma(a[at[c] + i], b[at[c] + i], acc[c]); \
        last = acc[n - 1]; \
        at[n - 1] = 0; \
        for (; i < full; i++) \
            UNROLL for (int c = 0; c < TOGETHER; c++) \
                acc[c] = fma(a[at[c] + i], b[at[c] + i], acc[c]); \
        acc[n - 1] = last; \
        for (int c = 0; c < n; c++) \
            sums[c] = acc[c]; \
    } \
    static void all_##lane(const T *a, const T *b, T *sums) \
    { \
        T acc[TOGETHER] = {0}; \
        for (int64_t i = 0; i < GEMM_CHUNK; i++) \
            UNROLL for (int c = 0; c < TOGETHER; c++) \
                acc[c] = fma(a[c * GEMM_CHUNK + i], b[c * GEMM_CHUNK + i], acc[c]); \
        UNROLL for (int c = 0; c < TOGETHER; c++) \
            sums[c] = acc[c]; \
    } \
    static void dot_##lane(int64_t k, const void *pa, const void *pb, void *out) \
    { \
        const T *a = pa, *b = pb; \
        T sums[TOGETHER], total = 0; \
        for (int64_t at = 0, n; at < k; at += n * GEMM_CHUNK) { \
            int64_t left = k - at; \
            n = left < TOGETHER * GEMM_CHUNK ? (left + GEMM_CHUNK - 1) / GEMM_CHUNK : TOGETHER; \
            if (left >= TOGETHER * GEMM_CHUNK) \
                all_##lane(a + at, b + at, sums); \
            else \
                some_##lane((int)n, left - (n - 1) * GEMM_CHUNK, a + at, b + at, sums); \
            for (int64_t c = 0; c < n; c++) \
                total = at + c ? total + sums[c] : sums[c]; \
        } \
        *(T *)out = total; \
    }
DOTS(f32, float, fmaf)
DOTS(f64, double, fma)

const Dots PASTE(dots, VARIANT) = {dot_f32, dot_f64};
