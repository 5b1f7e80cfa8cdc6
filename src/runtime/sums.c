/*
 * Chunks of sums and products as vectors of 8 lanes.  Four chunks advance
 * together, so that one chunk's chain of additions does not have to wait for
 * itself.
 */
#include "runtime/sums.h"

#include "runtime/scalar.h"

#define PASTE_(a, b) a##_##b
#define PASTE(a, b) PASTE_(a, b)

/* ((0+4)+(2+6))+((1+5)+(3+7)) */
#define FOLD(t, OP) ((t[0] OP t[4]) OP (t[2] OP t[6])) OP ((t[1] OP t[5]) OP (t[3] OP t[7]))

#define CHUNKS(name, T, V, OP, START) \
    typedef T V __attribute__((vector_size(LANES * sizeof(T)))); \
    static void name##_four(const T *x, T *out) \
    { \
        V acc[4], y; \
        T t[LANES]; \
        for (int c = 0; c < 4; c++) \
            acc[c] = (V){START, START, START, START, START, START, START, START}; \
        for (int i = 0; i < CHUNK; i += LANES) \
            for (int c = 0; c < 4; c++) { \
                memcpy(&y, x + c * CHUNK + i, sizeof y); \
                acc[c] = acc[c] OP y; \
            } \
        for (int c = 0; c < 4; c++) { \
            memcpy(t, &acc[c], sizeof t); \
            out[c] = FOLD(t, OP); \
        } \
    } \
    static void name##_one(const T *x, int64_t n, T *out) \
    { \
        T t[LANES] = {START, START, START, START, START, START, START, START}; \
        V acc, y; \
        int64_t i = 0; \
        memcpy(&acc, t, sizeof acc); \
        for (; i + LANES <= n; i += LANES) { \
            memcpy(&y, x + i, sizeof y); \
            acc = acc OP y; \
        } \
        memcpy(t, &acc, sizeof acc); \
        for (int l = 0; i < n; i++, l++) \
            t[l] = t[l] OP x[i]; \
        *out = FOLD(t, OP); \
    } \
    static void name(const void *run, int64_t n, void *out_) \
    { \
        const T *x = run; \
        T *out = out_; \
        for (; n >= 4 * CHUNK; n -= 4 * CHUNK, x += 4 * CHUNK, out += 4) \
            name##_four(x, out); \
        for (; n > 0; n -= CHUNK, x += CHUNK, out++) \
            name##_one(x, n < CHUNK ? n : CHUNK, out); \
    }
CHUNKS(sum_f32, float, SumF32, +, 0)
CHUNKS(sum_f64, double, SumF64, +, 0)
CHUNKS(sum_u32, uint32_t, SumU32, +, 0)
CHUNKS(sum_u64, uint64_t, SumU64, +, 0)
CHUNKS(prod_f32, float, ProdF32, *, 1)
CHUNKS(prod_f64, double, ProdF64, *, 1)

/* Extremes are the same in any order: 32 lanes. */
#define EXTREME(name, FN, START) \
    static void name(const void *run, int64_t n, void *out_) \
    { \
        const float *x = run; \
        float *out = out_; \
        for (; n > 0; n -= CHUNK, x += CHUNK, out++) { \
            float t[32]; \
            int64_t k = n < CHUNK ? n : CHUNK, i = 0; \
            for (int l = 0; l < 32; l++) \
                t[l] = START; \
            for (; i + 32 <= k; i += 32) \
                for (int l = 0; l < 32; l++) \
                    t[l] = FN(t[l], x[i + l]); \
            for (int l = 0; i < k; i++, l++) \
                t[l] = FN(t[l], x[i]); \
            for (int w = 16; w; w /= 2) \
                for (int l = 0; l < w; l++) \
                    t[l] = FN(t[l], t[l + w]); \
            *out = t[0]; \
        } \
    }
EXTREME(max_f32, f32_max, -INFINITY)
EXTREME(min_f32, f32_min, INFINITY)

const Sums PASTE(sums, VARIANT) = {sum_f32, sum_f64, sum_u32, sum_u64, prod_f32, prod_f64, max_f32, min_f32};
