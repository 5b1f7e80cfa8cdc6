/*
 * dtype_code.h - the bit patterns of the float formats, exactly.
 *
 * One encoder serves every format and rounding mode: it takes an exact number
 * (sign, 64-bit integer, power of two), so that a value is rounded once however
 * wide its source was.  Slow and plain; runtime/convert.c has the fast paths,
 * and the tests compare the two.
 *
 * Formats without an infinity (e4m3) overflow to NaN, those without NaN either
 * (fp6, fp4) to their largest value; with `saturate` every format does that.
 * NaN becomes +0 where there is no NaN.
 */
#ifndef TSR_IR_DTYPE_CODE_H
#define TSR_IR_DTYPE_CODE_H

#include "ir/core/dtype.h"

typedef struct RoundOpts {
    uint8_t rounding;           /* Rounding; ROUND_AWAY is to nearest with ties away from zero */
    bool saturate;              /* overflow gives the largest finite value */
    bool flush;                 /* subnormal results of formats with f32's or f64's range become zero */
    uint64_t noise;             /* ROUND_STOCHASTIC: 64 uniform bits */
} RoundOpts;

/* The code of (-1)^neg * sig * 2^exp in float format t. */
uint64_t dtype_encode_exact(DType t, bool neg, uint64_t sig, int exp, const RoundOpts *o);
uint64_t dtype_encode(DType t, double v, const RoundOpts *o);
double dtype_decode(DType t, uint64_t code);            /* every code of every float format is a double */
double dtype_max(DType t);                              /* largest finite value of a float format */

#endif
