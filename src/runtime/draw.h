/* draw.h - runs of uniform and normal f32 numbers, once for each instruction set. */
#ifndef TSR_RUNTIME_DRAW_H
#define TSR_RUNTIME_DRAW_H

#include <stdint.h>

typedef struct Draw {
    /* Elements [first, first + n), n <= 1024: multiples of 2^-digits in [0, 1). */
    void (*uniform)(uint64_t key, uint64_t first, int64_t n, int digits, float *out);
    void (*normal)(uint64_t key, uint64_t first, int64_t n, float *out);
} Draw;
extern const Draw draw_base, draw_v3, draw_v4;

#endif
