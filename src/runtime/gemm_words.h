/*
 * gemm_words.h - words of squares of packed operands, for gemm_bf16.c and gemm_int8.c.
 */
#ifndef TSR_RUNTIME_GEMM_WORDS_H
#define TSR_RUNTIME_GEMM_WORDS_H

#include <stdint.h>

/* to[i][t] = from[t][i] of 16 x 16 words; they may be the same. Where there is no AVX-512 nobody calls it. */
void turn_words(const uint32_t *from, uint32_t *to);

#endif
