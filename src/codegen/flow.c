/*
 * Functions and loops.  A loop tests at its head, as the ragged end of a run may be empty; LLVM turns that around.
 */
#include "codegen/flow.h"

LLVMTypeRef llvm_int_type(const Llvm *u) { return LLVMInt64TypeInContext(u->context); }
LLVMTypeRef llvm_pointer_type(const Llvm *u) { return LLVMPointerTypeInContext(u->context, 0); }
LLVMValueRef llvm_int(const Llvm *u, int64_t v) { return LLVMConstInt(llvm_int_type(u), (uint64_t)v, true); }

LLVMValueRef llvm_function(Llvm *u, const char *name, LLVMTypeRef *param, int nparams)
{
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(u->context), param, (unsigned)nparams, false);
    LLVMValueRef fn = LLVMAddFunction(u->module, name, type);
    unsigned nounwind = LLVMGetEnumAttributeKindForName("nounwind", 8);

    LLVMAddAttributeAtIndex(fn, LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(u->context, nounwind, 0));
    LLVMPositionBuilderAtEnd(u->builder, LLVMAppendBasicBlockInContext(u->context, fn, ""));
    return fn;
}

LLVMBasicBlockRef llvm_block(Llvm *u)
{
    return LLVMAppendBasicBlockInContext(u->context, LLVMGetBasicBlockParent(LLVMGetInsertBlock(u->builder)), "");
}

Loop llvm_loop(Llvm *u, LLVMValueRef from, LLVMValueRef to, int64_t step)
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

void llvm_loop_end(Llvm *u, const Loop *l)
{
    LLVMBasicBlockRef last = LLVMGetInsertBlock(u->builder);
    LLVMValueRef next = LLVMBuildNSWAdd(u->builder, l->i, llvm_int(u, l->step), "");

    LLVMBuildBr(u->builder, l->head);
    LLVMAddIncoming(l->i, &next, &last, 1);
    LLVMPositionBuilderAtEnd(u->builder, l->after);
}
