/* draw.h - runs of uniform and normal f32 numbers, once for each instruction set, and what uniform ones are in each dtype. */
#ifndef TSR_RUNTIME_DRAW_H
#define TSR_RUNTIME_DRAW_H

#include "ir/core/dtype.h"

#include <stdint.h>

typedef struct Draw {
    /* Elements [first, first + n), n <= 1024: multiples of 2^-digits in [0, 1). */
    void (*uniform)(uint64_t key, uint64_t first, int64_t n, int digits, float *out);
    void (*normal)(uint64_t key, uint64_t first, int64_t n, float *out);
} Draw;
/* Uniform numbers are multiples of 2^-digits in [0, 1): as many as the dtype has below 1; fp4 has only a half. */
static inline int uniform_digits(DType t)
{
    return t == DT_fp4 ? 1 : dtype_is_float(t) ? dtype_info[t].mbits + 1 : 24;
}

extern const Draw draw_base, draw_v3, draw_v4;

#endif
