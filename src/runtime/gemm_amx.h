/*
 * gemm_amx.h - products on the matrix units of x86 (AMX).
 *
 * Those of bytes are exact modulo 2^32, as in any order.  Those of bf16 are for fast numerics: even and odd steps are summed apart, 32 of
 * them in a row, and subnormal numbers count as 0.  So are those of f32: each number is the sum of three bf16, and six of the nine products
 * of such parts are summed, all that count in f32 (Henry, Tang, Heinecke 2019, "Leveraging the bfloat16 Artificial Intelligence Datatype For
 * Higher-Precision Computations").  Where tf32's digits are enough, two parts and three products are.  Rows of a and columns of b
 * with infinities or NaN are multiplied as gemm_run does.
 */
#ifndef TSR_RUNTIME_GEMM_AMX_H
#define TSR_RUNTIME_GEMM_AMX_H

#include "runtime/amx.h"
#include "runtime/gemm.h"

/* As gemm_run, of at least one step: strides of a and b count elements of the kind; c holds f32, of bytes 32-bit integers; done may be set. */
KStatus gemm_amx(KCtx *c, const Gemm *g, AmxKind kind);

#endif
