/*
 * sums.h - chunks of sums, products and extremes, fast, in the order that reduce.c lays down.
 * sums.c is compiled once for each instruction set.
 */
#ifndef TSR_RUNTIME_SUMS_H
#define TSR_RUNTIME_SUMS_H

#include "ir/core/dtype.h"

#include <stdint.h>

enum { CHUNK = 256, LANES = 8 };        /* elements of a chunk; lanes in it */

/* Reduce n elements, chunk by chunk, into (n + CHUNK - 1) / CHUNK results. */
typedef void ChunksFn(const void *run, int64_t n, void *out);

/* acc[i] = acc[i] op x[i] op x[stride + i] op ... of so many rows, 1 to SUM_ROWS of them. */
enum { SUM_ROWS = 4 };
typedef void RowsFn(const void *x, int64_t stride, int64_t rows, void *acc, int64_t n);

/* best[i] = x[i] and at[i] = index wherever x[i] beats best[i]; NaN beats numbers, and nothing beats NaN. */
typedef void ArgRowFn(const void *x, void *best, int32_t *at, int32_t index, int64_t n);

/* The place of the first element that is *value (any NaN is NaN), or n. */
typedef int64_t FindFn(const void *run, int64_t n, const void *value);

/* By lane dtype; NULL: not there. Extremes of bools are those of bytes. */
typedef struct Sums {
    ChunksFn *sum[DT_COUNT], *prod[DT_COUNT], *max[DT_COUNT], *min[DT_COUNT];
    RowsFn *sum_rows[DT_COUNT], *max_rows[DT_COUNT], *min_rows[DT_COUNT];
    ChunksFn *sum_pairs[DT_COUNT], *prod_pairs[DT_COUNT];   /* of neighbours, into (n + 1) / 2 results: an odd last one stays. In place, too */
    ChunksFn *max_run[DT_COUNT], *min_run[DT_COUNT];        /* one result for the whole run, which is not empty */
    ArgRowFn *argmax[DT_COUNT], *argmin[DT_COUNT];
    FindFn *find[DT_COUNT];
} Sums;
extern const Sums sums_base, sums_v3, sums_v4;

#endif
