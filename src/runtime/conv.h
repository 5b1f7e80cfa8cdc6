/* conv.h - how a convolution falls into phases, each a convolution of fewer taps without a spread (conv.c). */
#ifndef TSR_RUNTIME_CONV_H
#define TSR_RUNTIME_CONV_H

#include "ir/core/op.h"

/* How the op's attributes put one spatial axis. */
typedef struct ConvSpread { int64_t stride, before, spread, dilation; } ConvSpread;
ConvSpread conv_spread(const Attr *a, int axis);

/* One spatial axis of a phase: place j's tap u is at start + j * step + u * apart of the input. */
typedef struct ConvAxis {
    int64_t in, out, taps;      /* sizes: of the input, and of the phase's places and taps */
    int64_t start, step, apart;
    int64_t xstride;            /* elements */
    int64_t first, each;        /* the phase's places in the result: first, first + each, ... */
    int64_t tap, tap_each;      /* its taps in the kernel, likewise */
    int64_t size, window;       /* of the result; of the kernel */
} ConvAxis;

/* Phase `at` of an axis of which size and window are known, one of the `each` that it says: its places, and the taps that meet elements there. */
void conv_phase(ConvAxis *x, const ConvSpread *d, int64_t at);

#endif
