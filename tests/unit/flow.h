/* flow.h - functions and loops of LLVM code, for tests and benchmarks of what goes into them. */
#ifndef TSR_TESTS_FLOW_H
#define TSR_TESTS_FLOW_H

#include "codegen/llvm.h"

static inline LLVMTypeRef llvm_int_type(const Llvm *u) { return LLVMInt64TypeInContext(u->context); }
static inline LLVMTypeRef llvm_pointer_type(const Llvm *u) { return LLVMPointerTypeInContext(u->context, 0); }
static inline LLVMValueRef llvm_int(const Llvm *u, int64_t v) { return LLVMConstInt(llvm_int_type(u), (uint64_t)v, true); }

/* A new function that returns nothing and does not throw; the builder is at its start. */
static inline LLVMValueRef llvm_function(Llvm *u, const char *name, LLVMTypeRef *param, int nparams)
{
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(u->context), param, (unsigned)nparams, false);
    LLVMValueRef fn = LLVMAddFunction(u->module, name, type);
    unsigned nounwind = LLVMGetEnumAttributeKindForName("nounwind", 8);

    LLVMAddAttributeAtIndex(fn, LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(u->context, nounwind, 0));
    LLVMPositionBuilderAtEnd(u->builder, LLVMAppendBasicBlockInContext(u->context, fn, ""));
    return fn;
}

static inline LLVMBasicBlockRef llvm_block(Llvm *u)
{
    return LLVMAppendBasicBlockInContext(u->context, LLVMGetBasicBlockParent(LLVMGetInsertBlock(u->builder)), "");
}

typedef struct Loop {
    LLVMValueRef i;
    LLVMBasicBlockRef head, after;
    int64_t step;
} Loop;

/*
 * for (i = from; i + step <= to; i += step), step > 0: the builder goes into the body and, at the end, behind the loop,
 * where i is the first number that was not done.
 */
static inline Loop llvm_loop(Llvm *u, LLVMValueRef from, LLVMValueRef to, int64_t step)
{
    LLVMBuilderRef b = u->builder;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(b), body;
    Loop l = {.head = llvm_block(u), .step = step};
    LLVMValueRef end;

    body = llvm_block(u);
    l.after = llvm_block(u);
    LLVMBuildBr(b, l.head);
    LLVMPositionBuilderAtEnd(b, l.head);
    l.i = LLVMBuildPhi(b, llvm_int_type(u), "");
    LLVMAddIncoming(l.i, &from, &before, 1);
    end = LLVMBuildNSWAdd(b, l.i, llvm_int(u, step), "");
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLE, end, to, ""), body, l.after);
    LLVMPositionBuilderAtEnd(b, body);
    return l;
}

static inline void llvm_loop_end(Llvm *u, const Loop *l)
{
    LLVMBasicBlockRef last = LLVMGetInsertBlock(u->builder);
    LLVMValueRef next = LLVMBuildNSWAdd(u->builder, l->i, llvm_int(u, l->step), "");

    LLVMBuildBr(u->builder, l->head);
    LLVMAddIncoming(l->i, &next, &last, 1);
    LLVMPositionBuilderAtEnd(u->builder, l->after);
}

#endif
