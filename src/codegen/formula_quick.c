/*
 * Formulas under fast numerics, on GPUs.
 *
 * A GPU has five functions that are nearly right in one instruction: 2^x, log2 x, 1/x, 1/sqrt(x) and sqrt(x).  The formulas here are the
 * shortest around them that keep what programs rely on:
 *
 *     exp(x) = 2^(x log2 e)       the product's rounding costs some units more the farther x is from 0: slope in accuracy_quick.def
 *     tanh(x)                     near 0 a polynomial, so that small ones have all their digits; else 1 - 2 / (1 + e^2|x|)
 *     erf(x)                      likewise; else 1 - 2^q(|x|)
 *     1 + tanh(x)                 2 / (1 + e^-2x), and 1 - tanh(x)^2 from that; 1 + erf(x) likewise by one power of two
 *     a / b = (a (1 / (b k))) k   k a power of two that keeps 1 / (b k) a normal number, so no quotient overflows or vanishes early; all
 *                                 but two multiplications depend on b alone, and are done once where a row is divided by its sum
 *
 * Each lane is done alone, since that is what the instructions do.
 */
#include "codegen/formula_quick.h"

typedef enum Approximation { EX2, LG2, RCP, RSQRT, SQRT } Approximation;

typedef struct Quick { Llvm *u; int width; } Quick;

/* ---- one operation on all lanes ---- */

static LLVMValueRef number(const Quick *q, double v)
{
    return lane_splat(q->u, LLVMConstReal(LLVMFloatTypeInContext(q->u->context), v), q->width);
}

static LLVMValueRef call(const Quick *q, const char *name, bool overloaded, LLVMValueRef *in, int n)
{
    LLVMTypeRef over = LLVMTypeOf(in[0]);

    return llvm_intrinsic(q->u, name, &over, overloaded, in, n);
}

static LLVMValueRef add(const Quick *q, LLVMValueRef x, LLVMValueRef y) { return LLVMBuildFAdd(q->u->builder, x, y, ""); }
static LLVMValueRef mul(const Quick *q, LLVMValueRef x, LLVMValueRef y) { return LLVMBuildFMul(q->u->builder, x, y, ""); }
static LLVMValueRef times(const Quick *q, LLVMValueRef x, double by) { return mul(q, x, number(q, by)); }
static LLVMValueRef fused(const Quick *q, LLVMValueRef x, LLVMValueRef y, LLVMValueRef z)
{
    return call(q, "llvm.fma", true, (LLVMValueRef[]){x, y, z}, 3);
}

static LLVMValueRef magnitude(const Quick *q, LLVMValueRef x) { return call(q, "llvm.fabs", true, &x, 1); }
static LLVMValueRef signed_as(const Quick *q, LLVMValueRef x, LLVMValueRef y) { return call(q, "llvm.copysign", true, (LLVMValueRef[]){x, y}, 2); }

/* y where x < limit, else z. */
static LLVMValueRef below(const Quick *q, LLVMValueRef x, double limit, LLVMValueRef y, LLVMValueRef z)
{
    return LLVMBuildSelect(q->u->builder, LLVMBuildFCmp(q->u->builder, LLVMRealOLT, x, number(q, limit), ""), y, z, "");
}

static LLVMValueRef polynomial(const Quick *q, LLVMValueRef x, const double *c, int n)
{
    LLVMValueRef y = number(q, c[n - 1]);

    for (int i = n - 2; i >= 0; i--)
        y = fused(q, y, x, number(q, c[i]));
    return y;
}

/* ---- the chip's functions ---- */

/* 2^x and 1/x give 0 for what is below 2^-126, which their callers allow for; the others take and give subnormal numbers. */
static LLVMValueRef approximation(const Quick *q, Approximation a, LLVMValueRef x)
{
    static const char *const name[] = {
        [EX2] = "llvm.nvvm.ex2.approx.ftz.f", [LG2] = "llvm.nvvm.lg2.approx.f", [RCP] = "llvm.nvvm.rcp.approx.ftz.f",
        [RSQRT] = "llvm.nvvm.rsqrt.approx.f", [SQRT] = "llvm.nvvm.sqrt.approx.f",
    };
    static const OpId exact[] = {[EX2] = OP_exp2, [LG2] = OP_log2, [RSQRT] = OP_rsqrt, [SQRT] = OP_sqrt};
    LLVMValueRef y = x, one;

    if (!machine_is_gpu(q->u->machine))
        return a == RCP ? LLVMBuildFDiv(q->u->builder, number(q, 1), x, "") : formula_emit(q->u, exact[a], DT_f32, &x, 1, q->width);
    for (int i = 0; i < q->width; i++) {
        one = q->width > 1 ? lane_get(q->u, x, i, q->width) : x;
        one = call(q, name[a], false, &one, 1);
        y = q->width > 1 ? lane_with(q->u, y, one, i) : one;
    }
    return y;
}

static LLVMValueRef power(const Quick *q, LLVMValueRef x) { return approximation(q, EX2, x); }

/* ---- formulas ---- */

#define LOG2E 0x1.715476p0
#define LN2 0x1.62e43p-1
#define LOG10_2 0x1.344136p-2

static LLVMValueRef quick_sigmoid(const Quick *q, LLVMValueRef x)
{
    return approximation(q, RCP, add(q, power(q, times(q, x, -LOG2E)), number(q, 1)));
}

static LLVMValueRef quick_tanh(const Quick *q, LLVMValueRef x)
{
    static const double c[] = {-0x1.555554p-2, 0x1.110eep-3, -0x1.b955dcp-5, 0x1.59e1c8p-6, -0x1.9ada6p-8};     /* (tanh(x) / x - 1) / x^2 */
    LLVMValueRef a = magnitude(q, x), s = mul(q, x, x);
    LLVMValueRef small = fused(q, mul(q, x, s), polynomial(q, s, c, 5), x);
    LLVMValueRef r = approximation(q, RCP, add(q, power(q, times(q, a, 2 * LOG2E)), number(q, 1)));

    return below(q, a, 0.6, small, signed_as(q, fused(q, number(q, -2), r, number(q, 1)), x));
}

static LLVMValueRef quick_erf(const Quick *q, LLVMValueRef x)
{
    static const double near[] = {                  /* erf(x) / x */
        0x1.20dd74p+0, -0x1.81273ep-2, 0x1.ce2d1p-4, -0x1.b7fabap-6, 0x1.541277p-8, -0x1.a45088p-11, 0x1.4a569p-14,
    };
    static const double far[] = {                   /* log2(1 - erf(x)) */
        -0x1.21a868p-10, -0x1.9fd384p+0, -0x1.d81ba6p-1, -0x1.312892p-3, 0x1.0b27e2p-5, -0x1.448608p-8, 0x1.df745cp-12, -0x1.413fe8p-16,
    };
    LLVMValueRef a = magnitude(q, x), s = mul(q, x, x), t = below(q, a, 4, a, number(q, 4)), y;

    y = LLVMBuildFSub(q->u->builder, number(q, 1), power(q, polynomial(q, t, far, 8)), "");
    y = below(q, a, 1, mul(q, x, polynomial(q, s, near, 7)), signed_as(q, y, x));
    return LLVMBuildSelect(q->u->builder, LLVMBuildFCmp(q->u->builder, LLVMRealUNO, x, x, ""), x, y, "");
}

/* The formula's, for a number that is known: it becomes a product. */
static LLVMValueRef quick_div(const Quick *q, LLVMValueRef x, LLVMValueRef y)
{
    LLVMValueRef size, k;

    if (LLVMIsConstant(y))
        return NULL;
    size = magnitude(q, y);
    k = below(q, size, 0x1p-125, number(q, 0x1p24), below(q, size, 0x1p125, number(q, 1), number(q, 0x1p-3)));
    return mul(q, mul(q, x, approximation(q, RCP, mul(q, y, k))), k);
}

/* 2 - p or p, p = 1 - erf|x| = 2^(|x| r(|x|)): as near as 1 + erf(x) is rounded, and nearer where that is small. */
static LLVMValueRef one_and_erf(const Quick *q, LLVMValueRef x)
{
    static const double r[] = {-0x1.a0bef4p+0, -0x1.d62f2cp-1, -0x1.3113dep-3, 0x1.e28cdap-6, -0x1.2dc286p-9, -0x1.e3fe24p-12, 0x1.a45b92p-14};
    LLVMValueRef t = call(q, "llvm.minimum", true, (LLVMValueRef[]){magnitude(q, x), number(q, 4)}, 2);
    LLVMValueRef p = power(q, mul(q, t, polynomial(q, t, r, 7)));

    return below(q, x, 0, p, LLVMBuildFSub(q->u->builder, number(q, 2), p, ""));
}

LLVMValueRef formula_beside_one(Llvm *u, OpId op, bool square, LLVMValueRef x, int width)
{
    Quick q = {u, width};
    LLVMValueRef s, twice;

    if (op == OP_erf)
        return one_and_erf(&q, x);
    s = approximation(&q, RCP, add(&q, power(&q, times(&q, x, -2 * LOG2E)), number(&q, 1)));
    twice = add(&q, s, s);
    return square ? mul(&q, twice, LLVMBuildFSub(u->builder, number(&q, 2), twice, "")) : twice;
}

LLVMValueRef formula_quick(Llvm *u, OpId op, const LLVMValueRef *x, int width)
{
    Quick q = {u, width};

    switch (op) {
    case OP_exp: return power(&q, times(&q, x[0], LOG2E));
    case OP_exp2: return power(&q, x[0]);
    case OP_log: return times(&q, approximation(&q, LG2, x[0]), LN2);
    case OP_log2: return approximation(&q, LG2, x[0]);
    case OP_log10: return times(&q, approximation(&q, LG2, x[0]), LOG10_2);
    case OP_sqrt: return approximation(&q, SQRT, x[0]);
    case OP_rsqrt: return approximation(&q, RSQRT, x[0]);
    case OP_sigmoid: return quick_sigmoid(&q, x[0]);
    case OP_tanh: return quick_tanh(&q, x[0]);
    case OP_erf: return quick_erf(&q, x[0]);
    case OP_div: return quick_div(&q, x[0], x[1]);
    default: return NULL;
    }
}
