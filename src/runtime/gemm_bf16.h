/*
 * gemm_bf16.h - products of bf16, summed in f32 in the order of gemm.h, by dot-product instructions.
 */
#ifndef TSR_RUNTIME_GEMM_BF16_H
#define TSR_RUNTIME_GEMM_BF16_H

#include "runtime/gemm.h"

bool gemm_bf16_has(void);               /* are there such instructions (AVX512-BF16)? TESSERA_CPU other than v4 asks for none */
bool gemm_bf16_worth(const Gemm *g);    /* is the product large enough, and are they fast enough here, that it gains by them? */
/* As gemm_run, with the same bits: a and b hold bf16 and their strides count such, c holds f32; done may be set. */
KStatus gemm_bf16(KCtx *c, const Gemm *g);

#endif
