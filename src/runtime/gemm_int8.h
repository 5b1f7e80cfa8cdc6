/*
 * gemm_int8.h - products of bytes, summed in 32 bits.
 *
 * Sums of integers are exact modulo 2^32 in any order, so the matrix units and dot-product instructions that machines have for
 * them are used as they are.
 */
#ifndef TSR_RUNTIME_GEMM_INT8_H
#define TSR_RUNTIME_GEMM_INT8_H

#include "runtime/gemm.h"

/* As Gemm: a and b hold bytes, c 32-bit integers. */
typedef struct BytesGemm {
    int64_t m, n, k;
    const uint8_t *a, *b;
    bool asigned, bsigned;
    int64_t arow, acol, brow, bcol;
    int32_t *c;
    int64_t crow;
} BytesGemm;

/* Which instructions there are: AMX, AVX512-VNNI, none. */
typedef enum { BYTES_NONE, BYTES_VNNI, BYTES_AMX } BytesUnit;
BytesUnit bytes_unit(void);             /* the best here; TESSERA_CPU other than v4 asks for none */
bool bytes_unit_has(BytesUnit u);       /* for tests: can this machine run it? */

/* K_INDEX: there is no such unit; nothing is computed. */
KStatus gemm_bytes(KCtx *c, const BytesGemm *g, BytesUnit unit);

#endif
