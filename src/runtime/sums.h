/*
 * sums.h - chunks of sums and products, fast, in the order that reduce.c lays down.
 * sums.c is compiled once for each instruction set.
 */
#ifndef TSR_RUNTIME_SUMS_H
#define TSR_RUNTIME_SUMS_H

#include <stdint.h>

enum { CHUNK = 256, LANES = 8 };        /* elements of a chunk; lanes in it */

/* Reduce n elements, chunk by chunk, into (n + CHUNK - 1) / CHUNK results. */
typedef void ChunksFn(const void *run, int64_t n, void *out);

typedef struct Sums {
    ChunksFn *sum_f32, *sum_f64, *sum_u32, *sum_u64, *prod_f32, *prod_f64, *max_f32, *min_f32;
} Sums;
extern const Sums sums_base, sums_v3, sums_v4;

#endif
