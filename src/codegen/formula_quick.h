/*
 * formula_quick.h - elementwise ops by the chip's own approximations: what fast numerics allow on GPUs.
 *
 * The bounds are those of runtime/accuracy_quick.def.  The same op on the same element has the same bits wherever it stands; NaN, infinities, signs
 * and overflow are those of the exact formula.  On a machine that is no GPU the exact formulas stand for the approximations: tests of the rest.
 */
#ifndef TSR_CODEGEN_FORMULA_QUICK_H
#define TSR_CODEGEN_FORMULA_QUICK_H

#include "codegen/formula.h"

/* op on lanes of f32; NULL: there is no quicker way than formula_emit's. */
LLVMValueRef formula_quick(Llvm *u, OpId op, const LLVMValueRef *x, int width);
/* 1 + op x, op tanh or erf; square, of tanh: 1 - tanh^2 x. As GELU and its derivative have them, without what the op alone needs near 0. */
LLVMValueRef formula_beside_one(Llvm *u, OpId op, bool square, LLVMValueRef x, int width);

#endif
