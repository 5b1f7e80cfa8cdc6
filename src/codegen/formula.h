/*
 * formula.h - the elementwise ops and conversions of elements as LLVM code.
 *
 * A value of `width` lanes of a lane dtype (runtime/convert.h) is a vector, or
 * a scalar when width is 1; bools are bytes of 0 and 1; a complex value is a
 * struct of its two parts.  What is emitted is the formula that the loops of
 * runtime/ expand, so it gives their bits on every input, in any width, on any
 * machine and at any level; of a NaN only that it is one.
 */
#ifndef TSR_CODEGEN_FORMULA_H
#define TSR_CODEGEN_FORMULA_H

#include "codegen/llvm.h"
#include "ir/core/op.h"
#include "runtime/formulas.h"

enum { LANES_MAX = 256 };                       /* width of a value */

typedef enum FormulaId {
    FORMULA_NONE,
#define ROW(name) FORMULA_##name,
    FORMULAS_MORE(ROW)
#undef ROW
    FORMULA_COUNT
} FormulaId;

/* How an op is done on operands of dtype `as` (loops.h): not at all, in line, or by a call for each lane. */
typedef enum { FORMULA_MISSING, FORMULA_INLINE, FORMULA_CALLED } FormulaWay;
FormulaWay formula_way(OpId op, DType as);
int formula_cost(OpId op, DType as);            /* instructions of one lane; calls count 100 */

/*
 * op on operands of dtype `as`, whose lanes they are; `where` begins with bools.  Of the cases that the kernels refuse
 * before they run a loop (integers over zero, to negative powers) it makes what the loops make.  Emits at the unit's
 * builder, which may end up in another block.
 */
LLVMValueRef formula_emit(Llvm *u, OpId op, DType as, const LLVMValueRef *operands, int nin, int width);
/* From here on: is it known, on a GPU, that exponentials of f32 are of numbers that are no larger than EXP_NEAR? They are shorter then. */
#define EXP_NEAR 69
void formula_exp_near(Llvm *u, bool near);
/* One of FORMULAS_MORE. */
LLVMValueRef formula_more(Llvm *u, FormulaId id, const LLVMValueRef *operands, int width);
/* Between lane dtypes; a narrow float's code to its f32 and back, unrounded nowhere else. NULL: t is no narrow float. */
LLVMValueRef formula_lane(Llvm *u, DType to, DType from, LLVMValueRef x, int width);
LLVMValueRef formula_decode(Llvm *u, DType t, LLVMValueRef code, int width);
LLVMValueRef formula_encode(Llvm *u, DType t, LLVMValueRef x, int width);
/* The same by the formulas alone. */
LLVMValueRef formula_narrow(Llvm *u, DType t, bool encode, LLVMValueRef x, int width);
/* A lane rounded to t's values, still a lane; NULL: the machine has no way that is shorter than encoding and decoding it. */
LLVMValueRef formula_rounded(Llvm *u, DType t, LLVMValueRef x, int width);

/* Two raw elements as halves of a word, of which GPUs round both at once where neither is needed elsewhere; NULL: there is no such way. */
LLVMValueRef formula_pair(Llvm *u, DType t, LLVMValueRef low, LLVMValueRef high);

LLVMTypeRef lane_type(const Llvm *u, DType lane, int width);
LLVMTypeRef code_type(const Llvm *u, DType t, int width);       /* of raw elements: runtime/convert.h; packed ones as bytes */
LLVMValueRef lane_part(Llvm *u, LLVMValueRef z, int part);      /* of a complex value: 0 real, 1 imaginary */
LLVMValueRef lane_complex(Llvm *u, LLVMValueRef re, LLVMValueRef im);
/* One lane of a value, complex or not, and the value with that lane. */
LLVMValueRef lane_get(Llvm *u, LLVMValueRef x, int i, int width);
LLVMValueRef lane_with(Llvm *u, LLVMValueRef all, LLVMValueRef one, int i);
LLVMValueRef lane_splat(Llvm *u, LLVMValueRef scalar, int width);
/* An i1, or a vector of them, of a bool value, and back. */
LLVMValueRef lane_mask(Llvm *u, LLVMValueRef bools);
LLVMValueRef lane_bools(Llvm *u, LLVMValueRef mask, int width);
/* Room for one value on the function's stack. */
LLVMValueRef llvm_slot(Llvm *u, LLVMTypeRef type);

#endif
