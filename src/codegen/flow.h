/*
 * flow.h - functions and loops of LLVM code.
 */
#ifndef TSR_CODEGEN_FLOW_H
#define TSR_CODEGEN_FLOW_H

#include "codegen/llvm.h"

LLVMValueRef llvm_int(const Llvm *u, int64_t v);       /* an i64 */
LLVMTypeRef llvm_int_type(const Llvm *u);
LLVMTypeRef llvm_pointer_type(const Llvm *u);

/* A new function that returns nothing and does not throw; the builder is at its start. */
LLVMValueRef llvm_function(Llvm *u, const char *name, LLVMTypeRef *param, int nparams);
LLVMBasicBlockRef llvm_block(Llvm *u);                  /* a new block of the builder's function */

/*
 * for (i = from; i + step <= to; i += step), step > 0: the builder goes into the body and, at the end, behind the loop,
 * where i is the first number that was not done.
 */
typedef struct Loop {
    LLVMValueRef i;
    LLVMBasicBlockRef head, after;
    int64_t step;
} Loop;
Loop llvm_loop(Llvm *u, LLVMValueRef from, LLVMValueRef to, int64_t step);
void llvm_loop_end(Llvm *u, const Loop *l);

#endif
