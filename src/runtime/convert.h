/*
 * convert.h - runs of elements between dtypes.
 *
 * Two forms of a run of n elements, both plain arrays:
 *   raw   one storage element per slot; packed types (4 and 6 bits) take a byte each
 *   lane  what kernels compute with: a C type per lane dtype.  int4 and uint4 widen to a byte,
 *         floats narrower than f32 and tf32 to f32; the others are their own lane dtype
 */
#ifndef TSR_RUNTIME_CONVERT_H
#define TSR_RUNTIME_CONVERT_H

#include "ir/core/dtype.h"

typedef struct ConvOpts {
    uint8_t rounding;           /* Rounding */
    bool saturate, flush;
    uint64_t seed;              /* ROUND_STOCHASTIC: element i draws from Philox(seed, i) */
} ConvOpts;

DType lane_dtype(DType t);
size_t raw_size(DType t);       /* bytes of a slot */
static inline bool is_packed(DType t) { return dtype_info[t].sbits % 8 != 0; }

/* Packed bits starting at element `at` of base, to and from byte slots. */
void raw_unpack(DType t, const void *base, int64_t at, int64_t n, uint8_t *dst);
void raw_pack(DType t, void *base, int64_t at, int64_t n, const uint8_t *src);

/* Bytes from outside as elements of bools, which loops take to be 0 or 1: what is not 0 becomes 1. */
void bools_from_bytes(void *bytes, int64_t n);

/* Runs whose raw and lane forms are the same need no conversion. */
static inline bool raw_is_lane(DType t) { return lane_dtype(t) == t; }
void raw_to_lane(DType t, const void *raw, void *lane, int64_t n);
void lane_to_raw(DType t, const void *lane, void *raw, int64_t n);      /* nearest even; overflow as the format does */
/* Between lane dtypes: ints wrap, floats to int truncate and saturate with NaN as 0, to bool is != 0. */
void lane_flush(DType t, void *lane, int64_t n);     /* subnormals to zero, where t has lanes of floats */
void lane_convert(DType to, void *dst, DType from, const void *src, int64_t n);

/* How raw_convert goes about a pair, for those who make code of it. */
typedef enum {
    CONV_COPY,
    CONV_PLAIN,                 /* raw -> lane -> lane -> raw, with the two steps below */
    CONV_CLAMPED,               /* through f32, clamped to the largest finite value */
    CONV_EXACT,                 /* one by one by the exact encoder */
} ConvWay;
ConvWay convert_way(DType to, DType from, const ConvOpts *o);
bool convert_to_odd(DType to, DType from);          /* plain: lane -> f64 -> f32 rounded to odd -> raw, else it would round twice */
bool convert_clamps4(DType to, DType from);         /* plain: lanes are brought into the range of int4 or uint4 */
/*
 * Raw to raw, rounded once whatever the dtypes.  o NULL: nearest even, no saturation.
 * `first` is the linear index of the first element, for stochastic rounding.
 */
void raw_convert(DType to, void *dst, DType from, const void *src, int64_t n, const ConvOpts *o, int64_t first);

#endif
