/*
 * Narrow floats to f32 and back: by the machine's own instructions where those give the bits of the formulas,
 * else by the formulas.  GPUs round two numbers to the halves of a word at once.
 */
#include "codegen/formula.h"

/* f16 by the machine's own conversion, where it has one. */
static LLVMTypeRef half(const Llvm *u, int width)
{
    LLVMTypeRef one = LLVMHalfTypeInContext(u->context);

    return width > 1 ? LLVMVectorType(one, (unsigned)width) : one;
}

/* bf16s as f32s whose lower halves are zero: on GPUs the two of a word by one instruction each. */
static LLVMValueRef halves(Llvm *u, LLVMValueRef code, int width)
{
    LLVMBuilderRef b = u->builder;
    LLVMTypeRef i32 = LLVMInt32TypeInContext(u->context);
    LLVMValueRef words = LLVMBuildBitCast(b, code, lane_type(u, DT_int32, width / 2), "");
    LLVMValueRef y = LLVMGetPoison(LLVMVectorType(i32, (unsigned)width)), word;

    for (int i = 0; i < width; i++) {
        word = lane_get(u, words, i / 2, width / 2);
        word = i % 2 ? LLVMBuildAnd(b, word, LLVMConstInt(i32, 0xffff0000, false), "") : LLVMBuildShl(b, word, LLVMConstInt(i32, 16, false), "");
        y = lane_with(u, y, word, i);
    }
    return LLVMBuildBitCast(b, y, lane_type(u, DT_f32, width), "");
}

LLVMValueRef formula_decode(Llvm *u, DType t, LLVMValueRef code, int width)
{
    if (t == DT_bf16 && width % 2 == 0 && machine_is_gpu(u->machine))
        return halves(u, code, width);
    if (t == DT_f16 && u->machine->has_f16)
        return LLVMBuildFPExt(u->builder, LLVMBuildBitCast(u->builder, code, half(u, width), ""), lane_type(u, DT_f32, width), "");
    return formula_narrow(u, t, false, code, width);
}

/* The instruction of GPUs that rounds two at once to halves of a word: that for one takes four times as long. An i32. */
static LLVMValueRef rounded_pair(Llvm *u, DType to, LLVMValueRef high, LLVMValueRef low)
{
    const char *name = to == DT_bf16 ? "llvm.nvvm.ff2bf16x2.rn" : "llvm.nvvm.ff2f16x2.rn";
    LLVMValueRef zero = LLVMConstReal(LLVMFloatTypeInContext(u->context), 0.0), two[2] = {high ? high : zero, low ? low : zero};

    return LLVMBuildBitCast(u->builder, llvm_intrinsic(u, name, NULL, 0, two, 2), LLVMInt32TypeInContext(u->context), "");
}

static bool rounds_pairs(const Llvm *u, DType t) { return machine_is_gpu(u->machine) && (t == DT_bf16 || t == DT_f16); }

/* What an f32 was before `formula_rounded` made it t's value, or itself. */
static LLVMValueRef before_rounding(DType t, LLVMValueRef x)
{
    LLVMValueRef call = t == DT_bf16 ? llvm_operand(llvm_operand(x, LLVMBitCast, 0), LLVMBitCast, 0) : NULL;
    LLVMValueRef fn = call && LLVMIsACallInst(call) ? LLVMGetCalledValue(call) : NULL;
    bool rounds = fn && LLVMGetIntrinsicID(fn) == LLVMLookupIntrinsicID("llvm.nvvm.ff2bf16x2.rn", 22);

    return rounds && LLVMIsNull(LLVMGetOperand(call, 1)) ? LLVMGetOperand(call, 0) : x;
}

/* The f32 that `rounded_half` has made the raw element of: what it was before it was a bf16's value, if it is one already. NULL: none has. */
static LLVMValueRef rounded_from(DType t, LLVMValueRef raw)
{
    LLVMValueRef call = llvm_operand(llvm_operand(raw, LLVMTrunc, 0), LLVMBitCast, 0);

    return call && LLVMIsACallInst(call) ? before_rounding(t, LLVMGetOperand(call, 1)) : NULL;
}

LLVMValueRef formula_pair(Llvm *u, DType t, LLVMValueRef low, LLVMValueRef high)
{
    LLVMValueRef a = rounds_pairs(u, t) ? rounded_from(t, low) : NULL, b = a ? rounded_from(t, high) : NULL;

    return b ? rounded_pair(u, t, b, a) : NULL;
}

static LLVMValueRef put(Llvm *u, LLVMValueRef all, LLVMValueRef one, int i, int width) { return width > 1 ? lane_with(u, all, one, i) : one; }

/* Neighbours are rounded together. */
static LLVMValueRef rounded_pairs(Llvm *u, DType to, LLVMValueRef x, int width)
{
    LLVMValueRef y = LLVMGetPoison(lane_type(u, DT_int32, width / 2));

    for (int i = 0; i < width / 2; i++)
        y = put(u, y, rounded_pair(u, to, lane_get(u, x, 2 * i + 1, width), lane_get(u, x, 2 * i, width)), i, width / 2);
    return LLVMBuildBitCast(u->builder, y, code_type(u, DT_bf16, width), "");
}

static LLVMValueRef rounded_half(Llvm *u, DType to, LLVMValueRef x, int width)
{
    LLVMValueRef y = LLVMGetPoison(code_type(u, DT_bf16, width)), one;

    if (width % 2 == 0)
        return rounded_pairs(u, to, x, width);
    for (int i = 0; i < width; i++) {
        one = rounded_pair(u, to, NULL, before_rounding(to, lane_get(u, x, i, width)));
        one = LLVMBuildTrunc(u->builder, one, LLVMInt16TypeInContext(u->context), "");
        y = put(u, y, one, i, width);
    }
    return y;
}

/* The high half of a word is a bf16's value as an f32. */
LLVMValueRef formula_rounded(Llvm *u, DType t, LLVMValueRef x, int width)
{
    if (t != DT_bf16 || width > 1 || !machine_is_gpu(u->machine))
        return NULL;
    return LLVMBuildBitCast(u->builder, rounded_pair(u, t, x, NULL), LLVMFloatTypeInContext(u->context), "");
}

LLVMValueRef formula_encode(Llvm *u, DType t, LLVMValueRef x, int width)
{
    if (rounds_pairs(u, t))
        return rounded_half(u, t, x, width);
    if (t == DT_f16 && u->machine->has_f16)
        return LLVMBuildBitCast(u->builder, LLVMBuildFPTrunc(u->builder, x, half(u, width), ""), code_type(u, DT_bf16, width), "");
    return formula_narrow(u, t, true, x, width);
}
