/*
 * Formulas, widened.
 *
 * formulas.py has made a list of instructions of each scalar function of
 * runtime/formulas.c (formula_tables.inc).  To widen one is to emit the list
 * with vector types: the same operations in the same order in each lane, none
 * of them fused or reassociated, which is why the bits are the loops'.
 * Functions without a list are called, lane by lane.
 *
 * Two ops are more than their formula, as loop_find.c says: fma of narrow
 * floats, and sin, cos and tan of arguments that need more digits of pi, which
 * branch to calls when some lane has such a one.
 */
#include "codegen/formula.h"

#include "base/alloc.h"

#include "runtime/called.h"
#include "runtime/code.h"
#include "runtime/convert.h"

#include <string.h>

typedef enum { K_i1, K_i8, K_i16, K_i32, K_i64, K_float, K_double } Kind;

typedef enum InstOp {
#define BIN(name, opcode) I_##name,
#define CAST(name, opcode) I_##name,
#define FCMP(name, predicate) I_fcmp_##name,
#define ICMP(name, predicate) I_icmp_##name,
#define CALL(name, operands) I_call_##name,
#include "codegen/formula.def"
    I_select, I_fneg, I_fpclass,
} InstOp;

typedef struct Inst { uint8_t op, kind; uint16_t in[3]; } Inst;     /* kind: of the result */
typedef struct Constant { uint8_t kind; uint64_t bits; } Constant;
typedef struct Formula {
    const char *name;
    CodeFn *called;                     /* NULL: its instructions are the function */
    uint16_t first, count;              /* of insts */
    uint8_t nin, nout;
    uint8_t in[6], out[2];              /* Kinds; the parts of complex numbers one by one */
    uint16_t result[2];                 /* refs: operands, then instructions; from CONSTANTS on, constants */
} Formula;
enum { CONSTANTS = 0x8000 };

#include "codegen/formula_tables.inc"

enum { FORMULAS = sizeof formulas / sizeof *formulas, PARTS_MAX = 6 };

/* ---- types and values ---- */

static LLVMTypeRef scalar_type(const Llvm *u, Kind k)
{
    switch (k) {
    case K_i1: return LLVMInt1TypeInContext(u->context);
    case K_i8: return LLVMInt8TypeInContext(u->context);
    case K_i16: return LLVMInt16TypeInContext(u->context);
    case K_i32: return LLVMInt32TypeInContext(u->context);
    case K_i64: return LLVMInt64TypeInContext(u->context);
    case K_float: return LLVMFloatTypeInContext(u->context);
    default: return LLVMDoubleTypeInContext(u->context);
    }
}

static LLVMTypeRef wide(LLVMTypeRef t, int width) { return width > 1 ? LLVMVectorType(t, (unsigned)width) : t; }

static LLVMTypeRef type_of(const Llvm *u, Kind k, int width) { return wide(scalar_type(u, k), width); }

static Kind kind_of_lane(DType t)
{
    switch (dtype_real(t)) {
    case DT_f32: return K_float;
    case DT_f64: return K_double;
    default: break;
    }
    switch (dtype_info[t].sbits) {
    case 16: return K_i16;
    case 32: return K_i32;
    case 64: return K_i64;
    default: return K_i8;
    }
}

LLVMTypeRef lane_type(const Llvm *u, DType lane, int width)
{
    LLVMTypeRef part = type_of(u, kind_of_lane(lane_dtype(lane)), width);

    return dtype_is_complex(lane) ? LLVMStructTypeInContext(u->context, (LLVMTypeRef[]){part, part}, 2, false) : part;
}

LLVMTypeRef code_type(const Llvm *u, DType t, int width)
{
    return of_dec[t] ? type_of(u, formulas[of_dec[t]].in[0], width) : lane_type(u, t, width);
}

LLVMValueRef lane_part(Llvm *u, LLVMValueRef z, int part) { return LLVMBuildExtractValue(u->builder, z, (unsigned)part, ""); }

LLVMValueRef lane_complex(Llvm *u, LLVMValueRef re, LLVMValueRef im)
{
    LLVMTypeRef part = LLVMTypeOf(re);
    LLVMValueRef z = LLVMGetPoison(LLVMStructTypeInContext(u->context, (LLVMTypeRef[]){part, part}, 2, false));

    return LLVMBuildInsertValue(u->builder, LLVMBuildInsertValue(u->builder, z, re, 0, ""), im, 1, "");
}

static LLVMValueRef index_value(const Llvm *u, int i) { return LLVMConstInt(LLVMInt32TypeInContext(u->context), (unsigned)i, false); }

static LLVMValueRef lane_at(Llvm *u, LLVMValueRef x, int i, int width)
{
    return width > 1 ? LLVMBuildExtractElement(u->builder, x, index_value(u, i), "") : x;
}

static LLVMValueRef with_lane(Llvm *u, LLVMValueRef all, LLVMValueRef x, int i, int width)
{
    return width > 1 ? LLVMBuildInsertElement(u->builder, all, x, index_value(u, i), "") : x;
}

static bool is_pair(LLVMValueRef x) { return LLVMGetTypeKind(LLVMTypeOf(x)) == LLVMStructTypeKind; }

LLVMValueRef lane_get(Llvm *u, LLVMValueRef x, int i, int width)
{
    if (!is_pair(x))
        return lane_at(u, x, i, width);
    return lane_complex(u, lane_at(u, lane_part(u, x, 0), i, width), lane_at(u, lane_part(u, x, 1), i, width));
}

LLVMValueRef lane_with(Llvm *u, LLVMValueRef all, LLVMValueRef one, int i)
{
    if (!is_pair(all))
        return with_lane(u, all, one, i, 2);
    return lane_complex(u, with_lane(u, lane_part(u, all, 0), lane_part(u, one, 0), i, 2),
                        with_lane(u, lane_part(u, all, 1), lane_part(u, one, 1), i, 2));
}

static LLVMValueRef splat_constant(LLVMValueRef one, int width)
{
    LLVMValueRef all[LANES_MAX];

    if (width == 1)
        return one;
    for (int i = 0; i < width; i++)
        all[i] = one;
    return LLVMConstVector(all, (unsigned)width);
}

static LLVMValueRef splat_part(Llvm *u, LLVMValueRef x, int width)
{
    LLVMValueRef first;

    if (width == 1 || LLVMIsConstant(x))
        return splat_constant(x, width);
    first = LLVMBuildInsertElement(u->builder, LLVMGetPoison(wide(LLVMTypeOf(x), width)), x, index_value(u, 0), "");
    return LLVMBuildShuffleVector(u->builder, first, LLVMGetPoison(LLVMTypeOf(first)), splat_constant(index_value(u, 0), width), "");
}

LLVMValueRef lane_splat(Llvm *u, LLVMValueRef x, int width)
{
    if (!is_pair(x))
        return splat_part(u, x, width);
    return lane_complex(u, splat_part(u, lane_part(u, x, 0), width), splat_part(u, lane_part(u, x, 1), width));
}

LLVMValueRef lane_mask(Llvm *u, LLVMValueRef bools)
{
    return LLVMBuildICmp(u->builder, LLVMIntNE, bools, LLVMConstNull(LLVMTypeOf(bools)), "");
}

LLVMValueRef lane_bools(Llvm *u, LLVMValueRef mask, int width)
{
    return LLVMBuildZExt(u->builder, mask, type_of(u, K_i8, width), "");
}

LLVMValueRef llvm_slot(Llvm *u, LLVMTypeRef type)
{
    LLVMBasicBlockRef here = LLVMGetInsertBlock(u->builder), entry = LLVMGetEntryBasicBlock(LLVMGetBasicBlockParent(here));
    LLVMValueRef first = LLVMGetFirstInstruction(entry), slot;

    if (first)
        LLVMPositionBuilderBefore(u->builder, first);
    else
        LLVMPositionBuilderAtEnd(u->builder, entry);
    slot = LLVMBuildAlloca(u->builder, type, "");
    LLVMPositionBuilderAtEnd(u->builder, here);
    return slot;
}

/* ---- instructions ---- */

/*
 * e^x of elementary_real.def is y 2^n, -174 <= n <= 129: two products with powers of two.  With n <= 101, and x clamped to where the result is just
 * 0, n + NEAR can be added to the exponent of y, and one product with 2^-NEAR rounds as often.
 */
enum { NEAR = 26 };

/* The bits of its constants then; 1.5 2^23 + NEAR is even as 1.5 2^23 + 254 is, so that n is rounded alike. */
static uint64_t near_constant(uint64_t bits)
{
    bool sum = (bits & 0x7fffffff) == 0x4b4000fe;       /* -120: -104; 89: infinity */

    return sum ? bits - 254 + NEAR : bits == 0xc2f00000 ? 0xc2d00000 : bits == 0x42b20000 ? 0x7f800000 : bits;
}

static LLVMValueRef constant(const Llvm *u, const Constant *c, bool near, int width)
{
    LLVMTypeRef t = scalar_type(u, c->kind), bits = scalar_type(u, c->kind == K_float ? K_i32 : K_i64);
    uint64_t value = near && c->kind == K_float ? near_constant(c->bits) : c->bits;

    return splat_constant(c->kind < K_float ? LLVMConstInt(t, value, false) : LLVMConstBitCast(LLVMConstInt(bits, value, false), t), width);
}

/* llvm.name on operands of one type. */
static LLVMValueRef intrinsic(Llvm *u, const char *name, LLVMValueRef *operands, int n)
{
    LLVMTypeRef over = LLVMTypeOf(operands[0]);

    return llvm_intrinsic(u, name, &over, 1, operands, n);
}

/* A number of f32 that is not zero, or many of the same. */
static bool is_number(LLVMValueRef c)
{
    LLVMBool inexact;

    if (LLVMIsAConstantDataVector(c))
        c = LLVMGetAggregateElement(c, 0);
    return LLVMIsAConstantFP(c) && LLVMGetTypeKind(LLVMTypeOf(c)) == LLVMFloatTypeKind && LLVMConstRealGetDouble(c, &inexact) != 0;
}

/* A branch that is hardly ever taken, and one value for what comes of it. */
typedef struct Rare { LLVMBasicBlockRef before, after; } Rare;

static Rare rare_begin(Llvm *u, LLVMValueRef any)
{
    LLVMValueRef fn = LLVMGetBasicBlockParent(LLVMGetInsertBlock(u->builder));
    LLVMValueRef expect[] = {any, LLVMConstNull(LLVMInt1TypeInContext(u->context))};
    LLVMBasicBlockRef slow = LLVMAppendBasicBlockInContext(u->context, fn, "rare");
    Rare r = {LLVMGetInsertBlock(u->builder), LLVMAppendBasicBlockInContext(u->context, fn, "")};

    LLVMBuildCondBr(u->builder, intrinsic(u, "llvm.expect", expect, 2), slow, r.after);
    LLVMPositionBuilderAtEnd(u->builder, slow);
    return r;
}

/* y where the branch was not taken, else slowly. */
static LLVMValueRef rare_end(Llvm *u, const Rare *r, LLVMValueRef y, LLVMValueRef slowly)
{
    LLVMBasicBlockRef slow = LLVMGetInsertBlock(u->builder);
    LLVMValueRef phi;

    LLVMBuildBr(u->builder, r->after);
    LLVMPositionBuilderAtEnd(u->builder, r->after);
    phi = LLVMBuildPhi(u->builder, LLVMTypeOf(y), "");
    LLVMAddIncoming(phi, (LLVMValueRef[]){y, slowly}, (LLVMBasicBlockRef[]){r->before, slow}, 2);
    return phi;
}

/* 1 / x by an instruction that is where it is, and not done beforehand to save the branch. */
static LLVMValueRef divided_here(Llvm *u, LLVMValueRef x)
{
    LLVMTypeRef f = LLVMTypeOf(x), t = LLVMFunctionType(f, &f, 1, false);
    char text[] = "rcp.rn.f32 $0, $1;", operands[] = "=f,f";
    LLVMValueRef code = LLVMGetInlineAsm(t, text, sizeof text - 1, operands, sizeof operands - 1, true, false, LLVMInlineAsmDialectATT, false);

    return LLVMBuildCall2(u->builder, t, code, &x, 1, "");
}

/*
 * 1 / x as GPUs divide, by a guess and one step of Newton's, which rounds correctly where guess and x are normal numbers: there the step, *off, is
 * small.
 */
static LLVMValueRef newton(Llvm *u, LLVMValueRef one, LLVMValueRef x, int width, LLVMValueRef *off)
{
    LLVMValueRef guess = LLVMGetPoison(LLVMTypeOf(x));

    for (int i = 0; i < width; i++) {
        LLVMValueRef lane = lane_at(u, x, i, width);
        lane = llvm_intrinsic(u, "llvm.nvvm.rcp.approx.ftz.f", NULL, 0, &lane, 1);
        guess = with_lane(u, guess, lane, i, width);
    }
    *off = intrinsic(u, "llvm.fma", (LLVMValueRef[]){LLVMBuildFNeg(u->builder, x, ""), guess, one}, 3);
    return intrinsic(u, "llvm.fma", (LLVMValueRef[]){guess, *off, guess}, 3);
}

/*
 * 1 / x of any x.  The machine's division tests whether x and the guess are normal numbers for each lane, and branches; here lanes share a branch.
 * One lane is divided as it is, once where it is the same for many.
 */
static LLVMValueRef reciprocal(Llvm *u, LLVMValueRef one, LLVMValueRef x, int width)
{
    LLVMValueRef most = LLVMConstNull(scalar_type(u, K_float)), off, y = newton(u, one, x, width, &off), lane, far, slowly;
    Rare r;

    for (int i = 0; i < width; i++) {
        lane = lane_at(u, off, i, width);
        most = intrinsic(u, "llvm.maximum", (LLVMValueRef[]){most, intrinsic(u, "llvm.fabs", &lane, 1)}, 2);
    }
    far = LLVMBuildFCmp(u->builder, LLVMRealUGE, most, LLVMConstReal(LLVMTypeOf(most), 0.5), "");
    r = rare_begin(u, far);
    slowly = y;
    for (int i = 0; i < width; i++) {
        lane = divided_here(u, lane_at(u, x, i, width));
        slowly = with_lane(u, slowly, lane, i, width);
    }
    return rare_end(u, &r, y, slowly);
}

/* a < c ? c : a, which keeps NaN, and its like are one instruction of GPUs. NULL: it is another choice. */
static LLVMValueRef clamped(Llvm *u, LLVMValueRef *x)
{
    LLVMRealPredicate p = LLVMIsAFCmpInst(x[0]) ? LLVMGetFCmpPredicate(x[0]) : LLVMRealPredicateFalse;
    LLVMValueRef in[2] = {x[2], x[1]};

    if (!machine_is_gpu(u->machine) || (p != LLVMRealOLT && p != LLVMRealOGT) || LLVMGetOperand(x[0], 0) != x[2] ||
        LLVMGetOperand(x[0], 1) != x[1] || !is_number(x[1]))
        return NULL;
    return intrinsic(u, p == LLVMRealOLT ? "llvm.maximum" : "llvm.minimum", in, 2);
}

/* Is it 1 of f32? */
static bool is_one(LLVMValueRef c)
{
    LLVMBool inexact;

    return is_number(c) && LLVMConstRealGetDouble(LLVMIsAConstantDataVector(c) ? LLVMGetAggregateElement(c, 0) : c, &inexact) == 1;
}

/* ---- AVX-512's own ---- */

enum { AVX512_BYTES = 64, AS_ALWAYS = 4 };      /* as the machine rounds anyway */

/* Lanes of a register, where the machine has AVX-512 and width is a power of two of whole registers; else 0. */
static int avx512_lanes(const Llvm *u, Kind k, int width)
{
    int lanes = k == K_float ? AVX512_BYTES / 4 : k == K_double ? AVX512_BYTES / 8 : 0;
    bool has = !machine_is_gpu(u->machine) && u->machine->vector_bytes == AVX512_BYTES;

    return has && lanes && width >= lanes && !(width & (width - 1)) ? lanes : 0;
}

/* Lanes from..from + n - 1 of one value, or of two that lie one after the other. */
static LLVMValueRef some_lanes(Llvm *u, LLVMValueRef a, LLVMValueRef b, int from, int n)
{
    LLVMValueRef which[LANES_MAX];

    for (int i = 0; i < n; i++)
        which[i] = index_value(u, from + i);
    return LLVMBuildShuffleVector(u->builder, a, b ? b : LLVMGetPoison(LLVMTypeOf(a)), LLVMConstVector(which, (unsigned)n), "");
}

/* y = llvm.x86.avx512.mask.NAME of two operands, for all lanes, register by register; i >= 0: and of that number. */
static LLVMValueRef avx512_each(Llvm *u, const char *name, LLVMValueRef x, LLVMValueRef y, int i, int lanes, int width)
{
    LLVMTypeRef i32 = LLVMInt32TypeInContext(u->context);
    LLVMValueRef all = LLVMConstInt(LLVMIntTypeInContext(u->context, (unsigned)lanes), ~0ull, true), in[6];
    int n = 2;

    if (width > lanes) {
        LLVMValueRef low = avx512_each(u, name, some_lanes(u, x, NULL, 0, width / 2), some_lanes(u, y, NULL, 0, width / 2), i, lanes, width / 2);
        LLVMValueRef high = avx512_each(u, name, some_lanes(u, x, NULL, width / 2, width / 2), some_lanes(u, y, NULL, width / 2, width / 2), i,
                                        lanes, width / 2);
        return some_lanes(u, low, high, 0, width);
    }
    in[0] = x;
    in[1] = y;
    if (i >= 0)
        in[n++] = LLVMConstInt(i32, (unsigned)i, false);
    in[n++] = x;
    in[n++] = all;
    in[n++] = LLVMConstInt(i32, AS_ALWAYS, false);
    return llvm_intrinsic(u, name, NULL, 0, in, n);
}

/* The sum of x and a constant that was computed before; NULL: there is none. */
static LLVMValueRef plus_constant(LLVMValueRef x)
{
    for (LLVMUseRef use = x ? LLVMGetFirstUse(x) : NULL; use; use = LLVMGetNextUse(use)) {
        LLVMValueRef n = LLVMGetUser(use);
        if (llvm_operand(n, LLVMFAdd, 0) == x && LLVMIsConstant(LLVMGetOperand(n, 1)))
            return n;
    }
    return NULL;
}

/*
 * s = fma(x, ., .) or x + . of an x that is no less than some number: let it be no less than what makes an exponent of -519 at most, of f64 -4126,
 * of x times log2(e) or of x itself.  Powers of two are 0 either way; the instruction takes 60 times as long for all that are subnormal or 0 of
 * exponents above -512 and -4096.
 */
static void lower_clamp(Llvm *u, LLVMValueRef s, Kind k, int width)
{
    bool natural = s && LLVMIsACallInst(s);
    LLVMValueRef x = natural ? LLVMGetOperand(s, 0) : llvm_operand(s, LLVMFAdd, 0);
    LLVMValueRef above = llvm_operand(x, LLVMSelect, 2);
    LLVMValueRef test = llvm_operand(above, LLVMSelect, 0);
    LLVMValueRef least = llvm_operand(above, LLVMSelect, 1);
    double low = k == K_float ? (natural ? -360 : -520) : natural ? -2860 : -4128;
    LLVMValueRef to = splat_constant(LLVMConstReal(scalar_type(u, k), low), width);

    for (unsigned i = 0; i < 2 && least && LLVMIsConstant(least) && LLVMIsAFCmpInst(test); i++)
        if (LLVMGetOperand(test, i) == least) {
            LLVMSetOperand(test, i, to);
            LLVMSetOperand(above, 1, to);
            return;
        }
}

/* x 2^n, bits being those of n + NEAR in their low ones. */
static LLVMValueRef raised_near(Llvm *u, LLVMValueRef x, LLVMValueRef bits, int width)
{
    LLVMValueRef far = LLVMBuildShl(u->builder, bits, splat_constant(LLVMConstInt(scalar_type(u, K_i32), 23, false), width), "");
    LLVMValueRef y = LLVMBuildAdd(u->builder, LLVMBuildBitCast(u->builder, x, LLVMTypeOf(bits), ""), far, "");

    y = LLVMBuildBitCast(u->builder, y, LLVMTypeOf(x), "");
    return LLVMBuildFMul(u->builder, y, splat_constant(LLVMConstReal(scalar_type(u, K_float), 1.0 / (1 << NEAR)), width), "");
}

/*
 * x 2^n, as `raised` of elementary_real.def makes it in two halves so that it is rounded once: of (x 2^half) 2^rest these are the factors, and half
 * and rest come from n plus a constant.  One instruction does that, and rounds as often. NULL: it is another product.
 */
static LLVMValueRef scaled(Llvm *u, LLVMValueRef *x, Kind k, bool near, int width)
{
    LLVMValueRef rest = llvm_operand(llvm_operand(x[1], LLVMBitCast, 0), LLVMShl, 0);
    LLVMValueRef bits = llvm_operand(rest, LLVMSub, 0), half = llvm_operand(rest, LLVMSub, 1);
    LLVMValueRef first = llvm_operand(x[0], LLVMFMul, 0), n;
    int lanes = avx512_lanes(u, k, width);

    if (!first || !half || (!lanes && !near) || llvm_operand(half, LLVMLShr, 0) != bits ||
        llvm_operand(llvm_operand(llvm_operand(x[0], LLVMFMul, 1), LLVMBitCast, 0), LLVMShl, 0) != half ||
        !(n = plus_constant(llvm_operand(bits, LLVMBitCast, 0))))
        return NULL;
    if (near)
        return raised_near(u, first, bits, width);
    lower_clamp(u, llvm_operand(bits, LLVMBitCast, 0), k, width);
    return avx512_each(u, k == K_float ? "llvm.x86.avx512.mask.scalef.ps.512" : "llvm.x86.avx512.mask.scalef.pd.512", first, n, -1, lanes, width);
}

/* The greater or less of two: an instruction that knows -0 from +0 but prefers a number to a NaN, which their sum brings back. NULL: not here. */
static LLVMValueRef ranged(Llvm *u, bool greater, Kind k, const LLVMValueRef *x, int width)
{
    enum { LESS = 4, GREATER = 5 };     /* with the sign of the one that is chosen */
    int lanes = avx512_lanes(u, k, width);
    LLVMValueRef y;

    if (!lanes)
        return NULL;
    y = avx512_each(u, k == K_float ? "llvm.x86.avx512.mask.range.ps.512" : "llvm.x86.avx512.mask.range.pd.512", x[0], x[1],
                    greater ? GREATER : LESS, lanes, width);
    return LLVMBuildSelect(u->builder, LLVMBuildFCmp(u->builder, LLVMRealUNO, x[0], x[1], ""), LLVMBuildFAdd(u->builder, x[0], x[1], ""), y, "");
}

/*
 * Does a formula divide 1 by nothing but numbers from 2^-32 to 2^120, and NaN? That of tanh does by 1 + e^2|x|, that of sigmoid by (1 + e^-x) / 2^32,
 * and both bound the exponent.
 */
static bool divides_within(const Formula *f) { return f == &formulas[of_op[OP_tanh][DT_f32]] || f == &formulas[of_op[OP_sigmoid][DT_f32]]; }

void formula_exp_near(Llvm *u, bool near) { u->exp_near = near; }
static bool is_near(const Llvm *u, const Formula *f) { return u->exp_near && f == &formulas[of_op[OP_exp][DT_f32]]; }

static LLVMValueRef inst(Llvm *u, const Formula *f, const Inst *i, LLVMValueRef *x, int width)
{
    LLVMBuilderRef b = u->builder;
    bool divides = i->op == I_fdiv && machine_is_gpu(u->machine) && is_one(x[0]);
    LLVMValueRef y, off;

    if (divides && divides_within(f))
        return newton(u, x[0], x[1], width, &off);
    if (divides && width > 1)
        return reciprocal(u, x[0], x[1], width);
    if (i->op == I_fmul && (y = scaled(u, x, i->kind, is_near(u, f), width)))
        return y;
    switch ((InstOp)i->op) {
#define BIN(name, opcode) case I_##name: return LLVMBuildBinOp(b, opcode, x[0], x[1], "");
#define CAST(name, opcode) case I_##name: return LLVMBuildCast(b, opcode, x[0], type_of(u, i->kind, width), "");
#define FCMP(name, predicate) case I_fcmp_##name: return LLVMBuildFCmp(b, predicate, x[0], x[1], "");
#define ICMP(name, predicate) case I_icmp_##name: return LLVMBuildICmp(b, predicate, x[0], x[1], "");
#define CALL(name, operands) case I_call_##name: return intrinsic(u, "llvm." #name, x, operands);
#include "codegen/formula.def"
    case I_select: return (y = clamped(u, x)) ? y : LLVMBuildSelect(b, x[0], x[1], x[2], "");
    case I_fneg: return LLVMBuildFNeg(b, x[0], "");
    case I_fpclass: break;
    }
    return intrinsic(u, "llvm.is.fpclass", x, 2);
}

static int operands_of(const Inst *i)
{
    switch ((InstOp)i->op) {
#define BIN(name, opcode) case I_##name: return 2;
#define CAST(name, opcode) case I_##name: return 1;
#define FCMP(name, predicate) case I_fcmp_##name: return 2;
#define ICMP(name, predicate) case I_icmp_##name: return 2;
#define CALL(name, operands) case I_call_##name: return operands;
#include "codegen/formula.def"
    case I_select: return 3;
    case I_fneg: return 1;
    case I_fpclass: break;
    }
    return 2;
}

static LLVMValueRef at(const Llvm *u, const LLVMValueRef *values, unsigned ref, bool near, int width)
{
    return ref < CONSTANTS ? values[ref] : constant(u, &constants[ref - CONSTANTS], near, width);
}

static void expand(Llvm *u, const Formula *f, const LLVMValueRef *in, LLVMValueRef *out, int width)
{
    LLVMValueRef values[PARTS_MAX + FORMULA_LENGTH], x[3];
    bool near = is_near(u, f);

    memcpy(values, in, f->nin * sizeof *in);
    for (int k = 0; k < f->count; k++) {
        const Inst *i = &insts[f->first + k];
        for (int j = 0; j < operands_of(i); j++)        /* which classes: an immediate, the same for all lanes */
            x[j] = at(u, values, i->in[j], near, i->op == I_fpclass && j ? 1 : width);
        values[f->nin + k] = inst(u, f, i, x, width);
    }
    for (int k = 0; k < f->nout; k++)
        out[k] = at(u, values, f->result[k], near, width);
}

/* ---- calls ---- */

static LLVMValueRef function(Llvm *u, const Formula *f, LLVMTypeRef *type)
{
    LLVMTypeRef param[2 + PARTS_MAX];
    LLVMValueRef fn = LLVMGetNamedFunction(u->module, f->name);
    unsigned nounwind = LLVMGetEnumAttributeKindForName("nounwind", 8);

    for (int k = 0; k < f->nout; k++)
        param[k] = LLVMPointerTypeInContext(u->context, 0);
    for (int k = 0; k < f->nin; k++)
        param[f->nout + k] = scalar_type(u, f->in[k]);
    *type = LLVMFunctionType(LLVMVoidTypeInContext(u->context), param, f->nout + f->nin, false);
    if (fn)
        return fn;
    fn = LLVMAddFunction(u->module, f->name, *type);
    LLVMAddAttributeAtIndex(fn, LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(u->context, nounwind, 0));
    return fn;
}

static void call_lanes(Llvm *u, const Formula *f, const LLVMValueRef *in, LLVMValueRef *out, int width)
{
    LLVMValueRef arg[2 + PARTS_MAX];
    LLVMTypeRef type;
    LLVMValueRef fn = function(u, f, &type);

    for (int k = 0; k < f->nout; k++) {
        arg[k] = llvm_slot(u, scalar_type(u, f->out[k]));
        out[k] = LLVMGetPoison(type_of(u, f->out[k], width));
    }
    for (int i = 0; i < width; i++) {
        for (int k = 0; k < f->nin; k++)
            arg[f->nout + k] = lane_at(u, in[k], i, width);
        LLVMBuildCall2(u->builder, type, fn, arg, f->nout + f->nin, "");
        for (int k = 0; k < f->nout; k++)
            out[k] = with_lane(u, out[k], LLVMBuildLoad2(u->builder, scalar_type(u, f->out[k]), arg[k], ""), i, width);
    }
}

/* ---- a formula on values ---- */

static LLVMValueRef apply(Llvm *u, unsigned id, const LLVMValueRef *operands, int nin, int width)
{
    const Formula *f = &formulas[id];
    LLVMValueRef in[PARTS_MAX], out[2];
    int n = 0;

    for (int k = 0; k < nin; k++) {
        bool parts = is_pair(operands[k]);
        if (n + 1 + parts > f->nin)
            tsr_bug("too many operands of %s", f->name);
        in[n++] = parts ? lane_part(u, operands[k], 0) : operands[k];
        if (parts)
            in[n++] = lane_part(u, operands[k], 1);
    }
    for (int k = 0; k < f->nin; k++)
        if (n != f->nin || LLVMTypeOf(in[k]) != type_of(u, f->in[k], width))
            tsr_bug("operand %d of %s is of another type", k, f->name);
    if (f->called)
        called_offer();
    (f->called ? call_lanes : expand)(u, f, in, out, width);
    return f->nout == 2 ? lane_complex(u, out[0], out[1]) : out[0];
}

LLVMValueRef formula_more(Llvm *u, FormulaId id, const LLVMValueRef *operands, int width)
{
    return apply(u, of_x[id], operands, formulas[of_x[id]].nin, width);
}

/* ---- arguments far from zero ---- */

/* y, but exact(x) in the lanes of the mask, of which there are hardly ever any. */
static LLVMValueRef patched(Llvm *u, LLVMValueRef y, LLVMValueRef x, LLVMValueRef mask, FormulaId exact, int width)
{
    Rare r = rare_begin(u, width > 1 ? intrinsic(u, "llvm.vector.reduce.or", &mask, 1) : mask);

    return rare_end(u, &r, y, LLVMBuildSelect(u->builder, mask, formula_more(u, exact, &x, width), y, ""));
}

static FormulaId exact_of(OpId op, bool wide)
{
    switch (op) {
    case OP_sin: return wide ? FORMULA_far_sin_f64 : FORMULA_far_sin_f32;
    case OP_cos: return wide ? FORMULA_far_cos_f64 : FORMULA_far_cos_f32;
    case OP_tan: return wide ? FORMULA_far_tan_f64 : FORMULA_far_tan_f32;
    default: return FORMULA_NONE;
    }
}

/* ---- ops ---- */

/* Ops that leave their operand as it is. */
static bool is_identity(OpId op, DType lane) { return op == OP_stop_gradient || (op == OP_conj && !dtype_is_complex(lane)); }

static unsigned id_of(OpId op, DType as)
{
    DType lane = lane_dtype(as);

    return op == OP_fma && lane == DT_f32 && as != DT_f32 ? of_x[FORMULA_fma_odd] : of_op[op][lane];
}

FormulaWay formula_way(OpId op, DType as)
{
    unsigned id = id_of(op, as);

    if (is_identity(op, lane_dtype(as)))
        return FORMULA_INLINE;
    return !id ? FORMULA_MISSING : formulas[id].called ? FORMULA_CALLED : FORMULA_INLINE;
}

int formula_cost(OpId op, DType as)
{
    const Formula *f = &formulas[id_of(op, as)];

    return f->called ? 100 : f->count;
}

/* GPUs choose f32s as the language does in one instruction: NaN wins, and -0 is below +0. AVX-512 takes three. NULL: there are none for the op. */
static LLVMValueRef chosen(Llvm *u, OpId op, DType lane, const LLVMValueRef *operands, int width)
{
    if (op != OP_maximum && op != OP_minimum)
        return NULL;
    if (!machine_is_gpu(u->machine))
        return ranged(u, op == OP_maximum, kind_of_lane(lane), operands, width);
    if (lane != DT_f32)
        return NULL;
    return intrinsic(u, op == OP_maximum ? "llvm.maximum" : "llvm.minimum", (LLVMValueRef[]){operands[0], operands[1]}, 2);
}

LLVMValueRef formula_emit(Llvm *u, OpId op, DType as, const LLVMValueRef *operands, int nin, int width)
{
    DType lane = lane_dtype(as);
    unsigned id = id_of(op, as);
    LLVMValueRef y;

    if (is_identity(op, lane))
        return operands[0];
    if (!id)
        tsr_bug("%s of %s has no formula", op_info[op].name, dtype_info[as].name);
    if ((y = chosen(u, op, lane, operands, width)))
        return y;
    y = apply(u, id, operands, nin, width);
    if ((lane == DT_f32 || lane == DT_f64) && exact_of(op, false) != FORMULA_NONE) {
        bool wide_lane = lane == DT_f64;
        LLVMValueRef far = formula_more(u, wide_lane ? FORMULA_is_far_f64 : FORMULA_is_far_f32, operands, width);
        y = patched(u, y, operands[0], lane_mask(u, far), exact_of(op, wide_lane), width);
    }
    return y;
}

/* ---- conversions ---- */

LLVMValueRef formula_lane(Llvm *u, DType to, DType from, LLVMValueRef x, int width)
{
    return apply(u, of_lane[to][from], &x, 1, width);
}

LLVMValueRef formula_narrow(Llvm *u, DType t, bool encode, LLVMValueRef x, int width)
{
    unsigned id = encode ? of_enc[t] : of_dec[t];

    return id ? apply(u, id, &x, 1, width) : NULL;
}
