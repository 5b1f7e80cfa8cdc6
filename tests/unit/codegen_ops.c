/*
 * Compiled elementwise ops give the bits of the C loops: every op and dtype, in
 * every width with ragged ends, on special values and random bits; and every
 * code of bf16 and f16 through every op of one operand.  Those of fast numerics are
 * near: here with exact functions for a GPU's (bench/gpu/quick.tsr asks a device).
 */
#include "codegen.h"

#include "codegen/formula_quick.h"
#include "runtime/loops.h"

enum { N = SPECIALS + 10003, ROOM = N + 64 };
static const int widths[] = {1, 4, 8, 16};

static _Alignas(64) char operand[3][ROOM * 16], want[ROOM * 16], got[ROOM * 16];

/* The dtype of the op's result lanes. */
static DType result_lane(OpId op, DType as)
{
    switch (op) {
    case OP_eq: case OP_ne: case OP_lt: case OP_le: case OP_gt: case OP_ge: case OP_isnan: case OP_isinf: case OP_isfinite: case OP_lnot:
        return DT_bool;
    case OP_abs: case OP_real: case OP_imag: return dtype_real(lane_dtype(as));
    case OP_complex: return dtype_complex(lane_dtype(as));
    default: return lane_dtype(as);
    }
}

static DType operand_lane(OpId op, DType as, int k) { return op == OP_where && k == 0 ? DT_bool : lane_dtype(as); }

static void step(Llvm *u, OpId op, DType as, LLVMValueRef fn, LLVMValueRef i, int width)
{
    LLVMValueRef x[3];

    for (int k = 0; k < op_info[op].nin; k++)
        x[k] = lanes_load(u, operand_lane(op, as, k), LLVMGetParam(fn, 2 + (unsigned)k), i, width);
    lanes_store(u, result_lane(op, as), LLVMGetParam(fn, 1), i, formula_emit(u, op, as, x, op_info[op].nin, width), width);
}

/* A LoopFn: whole vectors, then what is left one by one. */
static void build_loop(Llvm *u, const char *name, OpId op, DType as, int width)
{
    LLVMValueRef fn = begin_function(u, name, 4), n = LLVMGetParam(fn, 0);
    Loop wide = llvm_loop(u, llvm_int(u, 0), n, width), rest;

    step(u, op, as, fn, wide.i, width);
    llvm_loop_end(u, &wide);
    rest = llvm_loop(u, wide.i, n, 1);
    step(u, op, as, fn, rest.i, 1);
    llvm_loop_end(u, &rest);
    LLVMBuildRetVoid(u->builder);
}

static void check(OpId op, DType as, int width, LoopFn *loop, LoopFn *compiled_loop)
{
    int64_t n = N - rnd_to(17), bad;
    DType result = result_lane(op, as);

    memset(want, 0x55, sizeof want);
    memset(got, 0x55, sizeof got);
    loop(n, want, operand[0], operand[1], operand[2]);
    compiled_loop(n, got, operand[0], operand[1], operand[2]);
    bad = first_difference(result, want, got, ROOM - 64);
    if (bad < 0)
        return;
    int64_t element = dtype_is_complex(result) ? bad / 2 : bad;
    uint64_t bits[5] = {0};
    for (int k = 0; k < 3; k++)
        memcpy(&bits[k], operand[k] + (size_t)element * raw_size(operand_lane(op, as, k)), raw_size(operand_lane(op, as, k)) > 8 ? 8 : raw_size(operand_lane(op, as, k)));
    memcpy(&bits[3], want + (size_t)bad * raw_size(dtype_real(result)), raw_size(dtype_real(result)));
    memcpy(&bits[4], got + (size_t)bad * raw_size(dtype_real(result)), raw_size(dtype_real(result)));
    fail_msg("%s of %s, width %d, element %d: (%llx, %llx, %llx) gives %llx, not %llx", op_info[op].name, dtype_info[as].name, width,
             (int)element, (long long)bits[0], (long long)bits[1], (long long)bits[2], (long long)bits[4], (long long)bits[3]);
}

static void check_op(OpId op, DType as, Level level)
{
    Llvm *u = llvm_new("op", machine_host());
    Code *code;
    char name[8];

    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        snprintf(name, sizeof name, "w%d", widths[w]);
        build_loop(u, name, op, as, widths[w]);
    }
    compiled(u, level, "w1", &code);
    for (int k = 0; k < op_info[op].nin; k++)
        fill_lanes(operand_lane(op, as, k), operand[k], N);
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        snprintf(name, sizeof name, "w%d", widths[w]);
        check(op, as, widths[w], loop_find(op, as), (LoopFn *)code_find(code, name));
    }
    code_free(code);
    llvm_free(u);
}

static bool is_mapped(OpId op) { return op_info[op].family == FAM_MAP && op != OP_convert && op != OP_stop_gradient; }

static void every_op_gives_the_bits_of_its_loop(void **state)
{
    int checked = 0;

    for (int op = 0; op < OP_COUNT; op++)
        for (int as = 0; as < DT_COUNT && is_mapped((OpId)op); as++) {
            LoopFn *loop = loop_find((OpId)op, (DType)as);
            if (op == OP_conj && !dtype_is_complex((DType)as))
                continue;
            assert_int_equal(formula_way((OpId)op, (DType)as) != FORMULA_MISSING, loop != NULL);
            if (!loop || (lane_dtype((DType)as) != (DType)as && !(op == OP_fma && as == DT_bf16)))
                continue;
            check_op((OpId)op, (DType)as, checked++ % 3 ? LEVEL_O1 : LEVEL_O3);
        }
    assert_true(checked > 400);
}

/* ---- fast numerics ---- */

typedef struct { double units, slope, absolute; } Quick;

static const Quick quick_bounds[OP_COUNT] = {
#define QUICK(name, units, slope, absolute, cost) [OP_##name] = {units, slope, absolute},
#include "runtime/accuracy_quick.def"
};

static double truth(OpId op, double x, double y)
{
    switch (op) {
    case OP_exp: return exp(x);
    case OP_exp2: return exp2(x);
    case OP_log: return log(x);
    case OP_log2: return log2(x);
    case OP_log10: return log10(x);
    case OP_sqrt: return sqrt(x);
    case OP_rsqrt: return 1 / sqrt(x);
    case OP_sigmoid: return 1 / (1 + exp(-x));
    case OP_tanh: return tanh(x);
    case OP_erf: return erf(x);
    default: return x / y;
    }
}

static bool is_allowed(const Quick *q, double x, double want, float got)
{
    double size = fabs(want) < 0x1p-126 ? 0x1p-126 : fabs(want), unit;
    float end = (float)want;

    if (isnan(end) || isinf(end) || isinf(got) || isnan(got))
        return (isnan(end) && isnan(got)) || end == got || size > 0x1.ffff0p127;
    unit = ldexp(1, ilogb(size) - 23);
    return fabs(got - want) <= (q->units + q->slope * fmin(fabs(x), 200)) * unit + q->absolute + (size < 0x1p-125 ? 0x1p-125 : 0);
}

static void quick_loop(Llvm *u, const char *name, OpId op, int width)
{
    LLVMValueRef fn = begin_function(u, name, 4), x[2];
    Loop l = llvm_loop(u, llvm_int(u, 0), LLVMGetParam(fn, 0), width);

    for (unsigned k = 0; k < 2; k++)
        x[k] = lanes_load(u, DT_f32, LLVMGetParam(fn, 2 + k), l.i, width);
    lanes_store(u, DT_f32, LLVMGetParam(fn, 1), l.i, formula_quick(u, op, x, width), width);
    llvm_loop_end(u, &l);
    LLVMBuildRetVoid(u->builder);
}

static void check_quick(OpId op)
{
    enum { MANY = N / 8 * 8 };
    Llvm *u = llvm_new("quick", machine_host());
    const float *x = (float *)operand[0], *y = (float *)operand[1], *wide = (float *)got, *narrow = (float *)want;
    Code *code;

    quick_loop(u, "w8", op, 8);
    quick_loop(u, "w1", op, 1);
    compiled(u, LEVEL_O1, "w8", &code);
    fill_lanes(DT_f32, operand[0], N);
    fill_lanes(DT_f32, operand[1], N);
    ((LoopFn *)code_find(code, "w8"))(MANY, got, operand[0], operand[1], operand[2]);
    ((LoopFn *)code_find(code, "w1"))(MANY, want, operand[0], operand[1], operand[2]);
    for (int i = 0; i < MANY; i++) {
        if (!is_allowed(&quick_bounds[op], x[i], truth(op, x[i], y[i]), wide[i]) && !(fabsf(x[i]) < 0x1p-126f && !quick_bounds[op].absolute))
            fail_msg("%s(%a, %a) gives %a, not %a", op_info[op].name, x[i], y[i], wide[i], truth(op, x[i], y[i]));
        assert_true(wide[i] == narrow[i] || isnan(wide[i]));
    }
    code_free(code);
    llvm_free(u);
}

static void quick_ops_are_as_near_as_stated(void **state)
{
    for (int op = 0; op < OP_COUNT; op++)
        if (quick_bounds[op].units > 0)
            check_quick((OpId)op);
}

static void beside_one_loop(Llvm *u, const char *name, OpId op, bool square)
{
    LLVMValueRef fn = begin_function(u, name, 4), x;
    Loop l = llvm_loop(u, llvm_int(u, 0), LLVMGetParam(fn, 0), 8);

    x = lanes_load(u, DT_f32, LLVMGetParam(fn, 2), l.i, 8);
    lanes_store(u, DT_f32, LLVMGetParam(fn, 1), l.i, formula_beside_one(u, op, square, x, 8), 8);
    llvm_loop_end(u, &l);
    LLVMBuildRetVoid(u->builder);
}

static void what_is_beside_one_is_near(void **state)
{
    enum { MANY = 8000 };
    static const struct { const char *name; OpId op; bool square; } forms[] = {{"tanh", OP_tanh, false}, {"square", OP_tanh, true}, {"erf", OP_erf, false}};
    Llvm *u = llvm_new("beside", machine_host());
    float *x = (float *)operand[0], *y = (float *)got;
    Code *code;

    for (int k = 0; k < 3; k++)
        beside_one_loop(u, forms[k].name, forms[k].op, forms[k].square);
    compiled(u, LEVEL_O1, "erf", &code);
    for (int i = 0; i < MANY; i++)
        x[i] = (float)(i < 7000 ? (i - 3500) / 500.0 : special[i % SPECIALS]);
    x[0] = NAN, x[1] = INFINITY, x[2] = -INFINITY;
    for (int k = 0; k < 3; k++) {
        ((LoopFn *)code_find(code, forms[k].name))(MANY, got, operand[0], operand[1], operand[2]);
        for (int i = 0; i < MANY; i++) {
            double t = forms[k].op == OP_erf ? erf(x[i]) : tanh(x[i]), truth = forms[k].square ? 1 - t * t : 1 + t;
            if (!(fabs(y[i] - truth) <= 0x1p-21) && !(isnan(y[i]) && isnan(truth)))
                fail_msg("%s %a: %a, not %a", forms[k].name, x[i], y[i], truth);
        }
    }
    code_free(code);
    llvm_free(u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_beside_one_is_near),
        cmocka_unit_test(every_op_gives_the_bits_of_its_loop),
        cmocka_unit_test(quick_ops_are_as_near_as_stated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
