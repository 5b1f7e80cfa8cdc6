/*
 * Compiled elementwise ops give the bits of the C loops: every op and dtype, in
 * every width with ragged ends, on special values and random bits; and every
 * code of bf16 and f16 through every op of one operand.
 */
#include "codegen.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_gives_the_bits_of_its_loop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
