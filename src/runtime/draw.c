/*
 * Runs of random numbers.  The words of all blocks come first, as arrays, so
 * that every loop here is one that vectorises.
 */
#include "runtime/draw.h"

#include "runtime/each.h"
#include "runtime/philox.h"
#include "runtime/scalar.h"

enum { RUN = 1024 };

/* The first two words of blocks first, first + 1, ... */
static void words(uint64_t key, uint64_t first, int64_t n, uint32_t *w0, uint32_t *w1)
{
    for (int64_t i = 0; i < n; i++) {
        Philox w = philox(key, first + (uint64_t)i, 0);
        w0[i] = w.w[0];
        w1[i] = w.w[1];
    }
}

static void uniform(uint64_t key, uint64_t first, int64_t n, int digits, float *out)
{
    uint32_t w0[RUN], w1[RUN];
    float scale = f_of((uint32_t)(127 - digits) << 23);

    words(key, first, n, w0, w1);
    for (int64_t i = 0; i < n; i++)
        out[i] = (float)(int32_t)(w0[i] >> (32 - digits)) * scale;
}

/* Box and Muller (1958) in double; the first number is in (0, 1]. */
static void normal(uint64_t key, uint64_t first, int64_t n, float *out)
{
    uint32_t w0[RUN], w1[RUN];

    words(key, first, n, w0, w1);
    for (int64_t i = 0; i < n; i++) {
        double u = ((double)w0[i] + 1) * 0x1p-32, turn = ((double)w1[i] + 0.5) * (0x1p-32 * 2 * M_PI);
        out[i] = (float)(sqrt(-2 * x_log(u)) * x_sin(turn, 0.5));
    }
}

const Draw PASTE(draw, VARIANT) = {uniform, normal};
