/*
 * Chunks of sums and products as vectors of 8 lanes, one chunk after another: that is how machines foresee memory, and they
 * begin the next chunk while the additions of this one wait for each other.
 */
#include "runtime/sums.h"

#include "runtime/each.h"
#include "runtime/scalar.h"

/* ((0+4)+(2+6))+((1+5)+(3+7)) */
#define FOLD(t, OP) ((t[0] OP t[4]) OP (t[2] OP t[6])) OP ((t[1] OP t[5]) OP (t[3] OP t[7]))

#define CHUNKS(name, T, V, OP, START) \
    typedef T V __attribute__((vector_size(LANES * sizeof(T)))); \
    static inline T name##_fold(const V *acc) \
    { \
        T t[LANES / 2]; \
        V half = *acc OP __builtin_shufflevector(*acc, *acc, 4, 5, 6, 7, 0, 1, 2, 3); \
        half = half OP __builtin_shufflevector(half, half, 2, 3, 0, 1, 6, 7, 4, 5); \
        memcpy(t, &half, sizeof t); \
        return t[0] OP t[1]; \
    } \
    static inline T name##_whole(const T *x) \
    { \
        V acc = {START, START, START, START, START, START, START, START}, y; \
        for (int i = 0; i < CHUNK; i += 16 * LANES) \
            UNROLL for (int k = 0; k < 16; k++) { \
                memcpy(&y, x + i + k * LANES, sizeof y); \
                acc = acc OP y; \
            } \
        return name##_fold(&acc); \
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
        for (; n >= CHUNK; n -= CHUNK, x += CHUNK) \
            *out++ = name##_whole(x); \
        if (n > 0) \
            name##_one(x, n, out); \
    }
#define PAIRS(name, T, OP) \
    static void name##_pairs(const void *run, int64_t n, void *out_) \
    { \
        const T *x = run; \
        T *out = out_; \
        for (int64_t i = 0; i < n / 2; i++) \
            out[i] = x[2 * i] OP x[2 * i + 1]; \
        if (n % 2) \
            out[n / 2] = x[n - 1]; \
    }
CHUNKS(sum_f32, float, SumF32, +, 0)
CHUNKS(sum_f64, double, SumF64, +, 0)
CHUNKS(sum_u32, uint32_t, SumU32, +, 0)
CHUNKS(sum_u64, uint64_t, SumU64, +, 0)
CHUNKS(prod_f32, float, ProdF32, *, 1)
CHUNKS(prod_f64, double, ProdF64, *, 1)
#ifndef TSR_LEAN
PAIRS(sum_f32, float, +)
PAIRS(sum_f64, double, +)
PAIRS(sum_u32, uint32_t, +)
PAIRS(sum_u64, uint64_t, +)
PAIRS(prod_f32, float, *)
PAIRS(prod_f64, double, *)
#endif

/* Of results side by side: each is loaded and stored once for SUM_ROWS of the elements that it gathers. */
#define ADD(a, b) ((a) + (b))
#define GATHER_ROWS(name, T, OP) \
    static void name(const void *x_, int64_t stride, int64_t rows, void *acc_, int64_t n) \
    { \
        const T *x = x_, *y = x + stride, *z = y + stride, *u = z + stride; \
        T *acc = acc_; \
        if (rows == SUM_ROWS) \
            EACH(i, n) \
                acc[i] = OP(OP(OP(OP(acc[i], x[i]), y[i]), z[i]), u[i]); \
        for (; rows < SUM_ROWS && rows; rows--, x += stride) \
            EACH(i, n) \
                acc[i] = OP(acc[i], x[i]); \
    }
GATHER_ROWS(sum_rows_f32, float, ADD)
GATHER_ROWS(sum_rows_f64, double, ADD)
GATHER_ROWS(sum_rows_u32, uint32_t, ADD)
GATHER_ROWS(sum_rows_u64, uint64_t, ADD)
GATHER_ROWS(max_rows_f32, float, f32_max)
GATHER_ROWS(min_rows_f32, float, f32_min)
GATHER_ROWS(max_rows_f64, double, f64_max)
GATHER_ROWS(min_rows_f64, double, f64_min)

/*
 * Extremes are the same in any order, so as many lanes as fill vectors.  The loop knows neither NaN nor the order of
 * zeros: each chunk is looked at again for NaN, while the next one is asked for, and where one was met, or the extreme is
 * a zero, all is done again by FN, which knows.  name gives the extreme of each chunk, name_run that of all.
 */
#ifdef TSR_LEAN
enum { VECTORS = false };       /* code is made small, without any */
#else
enum { VECTORS = true };
#endif
#define EXTREME(name, T, WIDTH, BEATS, FN, AGAIN) \
    static void name##_run(const void *run, int64_t n, void *out) \
    { \
        const T *x = run; \
        T t[WIDTH], no[WIDTH] = {0}, best = x[0]; \
        int64_t whole = VECTORS ? n / (WIDTH) * (WIDTH) : 0, i = 0; \
        bool odd = false; \
        if (whole) \
            memcpy(t, x, sizeof t); \
        while (i < whole) { \
            int64_t end = whole - i < CHUNK ? whole : i + CHUNK; \
            for (int64_t k = i; k < end; k += WIDTH) \
                for (int l = 0; l < (WIDTH); l++) \
                    t[l] = x[k + l] BEATS t[l] ? x[k + l] : t[l]; \
            for (; i < end; i += WIDTH) { \
                for (size_t l = 0; l < sizeof t; l += 64) \
                    __builtin_prefetch((const char *)(x + i + CHUNK) + l); \
                for (int l = 0; l < (WIDTH); l++) \
                    no[l] = x[i + l] != x[i + l] ? x[i + l] : no[l]; \
            } \
        } \
        if (whole) { \
            for (int w = (WIDTH) / 2; w; w /= 2) \
                for (int l = 0; l < w; l++) { \
                    t[l] = t[l + w] BEATS t[l] ? t[l + w] : t[l]; \
                    no[l] = no[l + w] != no[l + w] ? no[l + w] : no[l]; \
                } \
            best = t[0], odd = no[0] != no[0]; \
        } \
        for (; i < n; i++) { \
            best = x[i] BEATS best ? x[i] : best; \
            odd |= x[i] != x[i]; \
        } \
        (void)odd; \
        if (AGAIN) \
            for (best = x[0], i = 1; i < n; i++) \
                best = FN(best, x[i]); \
        *(T *)out = best; \
    } \
    static void name(const void *run, int64_t n, void *out) \
    { \
        for (int64_t c = 0; c * CHUNK < n; c++) \
            name##_run((const T *)run + c * CHUNK, n - c * CHUNK < CHUNK ? n - c * CHUNK : CHUNK, (T *)out + c); \
    }
#define ARG_ROW(name, T, BEATS) \
    static void name(const void *row, void *best_, int32_t *at, int32_t index, int64_t n) \
    { \
        const T *x = row; \
        T *best = best_; \
        EACH(i, n) { \
            bool take = (x[i] BEATS best[i] || x[i] != x[i]) & (best[i] == best[i]); \
            best[i] = take ? x[i] : best[i]; \
            at[i] = take ? index : at[i]; \
        } \
    }
#define FIND(name, T) \
    static int64_t name(const void *run, int64_t n, const void *value) \
    { \
        const T *x = run, v = *(const T *)value; \
        int64_t i = 0; \
        for (uint8_t hit = 0; i + 64 <= n; i += 64) { \
            for (int l = 0; l < 64; l++) \
                hit |= (x[i + l] == v) | ((x[i + l] != x[i + l]) & (v != v)); \
            if (hit) \
                break; \
        } \
        while (i < n && !(x[i] == v || (x[i] != x[i] && v != v))) \
            i++; \
        return i; \
    }
#define ANY(a, b) (a)
#define EXTREMES(X, T) \
    EXTREME(max_##X, T, sizeof(T) == 1 ? 128 : 256 / (int)sizeof(T), >, ANY, false) \
    EXTREME(min_##X, T, sizeof(T) == 1 ? 128 : 256 / (int)sizeof(T), <, ANY, false) \
    ARG_ROW(argmax_##X, T, >) \
    ARG_ROW(argmin_##X, T, <) \
    FIND(find_##X, T)
EXTREMES(int8, int8_t)
EXTREMES(int16, int16_t)
EXTREMES(int32, int32_t)
EXTREMES(int64, int64_t)
EXTREMES(uint8, uint8_t)
EXTREMES(uint16, uint16_t)
EXTREMES(uint32, uint32_t)
EXTREMES(uint64, uint64_t)
EXTREME(max_f32, float, 64, >, f32_max, odd || best == 0)
EXTREME(min_f32, float, 64, <, f32_min, odd || best == 0)
EXTREME(max_f64, double, 32, >, f64_max, odd || best == 0)
EXTREME(min_f64, double, 32, <, f64_min, odd || best == 0)
ARG_ROW(argmax_f32, float, >)
ARG_ROW(argmin_f32, float, <)
ARG_ROW(argmax_f64, double, >)
ARG_ROW(argmin_f64, double, <)
FIND(find_f32, float)
FIND(find_f64, double)

#define ORDERED(fn) \
    {[DT_bool] = fn##_uint8, [DT_int8] = fn##_int8, [DT_int16] = fn##_int16, [DT_int32] = fn##_int32, [DT_int64] = fn##_int64, \
     [DT_uint8] = fn##_uint8, [DT_uint16] = fn##_uint16, [DT_uint32] = fn##_uint32, [DT_uint64] = fn##_uint64, \
     [DT_f32] = fn##_f32, [DT_f64] = fn##_f64}
#define RUNS(fn) \
    {[DT_bool] = fn##_uint8_run, [DT_int8] = fn##_int8_run, [DT_int16] = fn##_int16_run, [DT_int32] = fn##_int32_run, \
     [DT_int64] = fn##_int64_run, [DT_uint8] = fn##_uint8_run, [DT_uint16] = fn##_uint16_run, [DT_uint32] = fn##_uint32_run, \
     [DT_uint64] = fn##_uint64_run, [DT_f32] = fn##_f32_run, [DT_f64] = fn##_f64_run}
const Sums PASTE(sums, VARIANT) = {
    .sum = {[DT_f32] = sum_f32, [DT_f64] = sum_f64, [DT_int32] = sum_u32, [DT_uint32] = sum_u32, [DT_int64] = sum_u64,
            [DT_uint64] = sum_u64},
    .prod = {[DT_f32] = prod_f32, [DT_f64] = prod_f64},
#ifndef TSR_LEAN
    .sum_pairs = {[DT_f32] = sum_f32_pairs, [DT_f64] = sum_f64_pairs, [DT_int32] = sum_u32_pairs, [DT_uint32] = sum_u32_pairs,
                  [DT_int64] = sum_u64_pairs, [DT_uint64] = sum_u64_pairs},
    .prod_pairs = {[DT_f32] = prod_f32_pairs, [DT_f64] = prod_f64_pairs},
#endif
    .sum_rows = {[DT_f32] = sum_rows_f32, [DT_f64] = sum_rows_f64, [DT_int32] = sum_rows_u32, [DT_uint32] = sum_rows_u32,
                 [DT_int64] = sum_rows_u64, [DT_uint64] = sum_rows_u64},
    .max_rows = {[DT_f32] = max_rows_f32, [DT_f64] = max_rows_f64}, .min_rows = {[DT_f32] = min_rows_f32, [DT_f64] = min_rows_f64},
    .max = ORDERED(max), .min = ORDERED(min), .max_run = RUNS(max), .min_run = RUNS(min),
    .argmax = ORDERED(argmax), .argmin = ORDERED(argmin), .find = ORDERED(find),
};
