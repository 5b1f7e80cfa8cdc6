/*
 * Compiled conversions give the bits of raw_convert: every pair of dtypes, with
 * and without options; loads and stores of every dtype, packed ones in any
 * place; flushing; and every code of bf16 and f16 through every op of one operand.
 */
#include "codegen.h"

#include "ir/core/dtype_code.h"
#include "runtime/loops.h"

enum { N = SPECIALS + 4003, ROOM = N + 64, CODES = 1 << 16 };
static const int widths[] = {1, 4, 8, 16};
static _Alignas(64) char from_mem[CODES * 16], want[CODES * 16], got[CODES * 16];

typedef void ConvertFn(int64_t n, void *dst, const void *src);

/* Raw elements of `from`, a slot each: numbers rounded to it, and random codes. */
static void fill_raw(DType from, int64_t n)
{
    static _Alignas(64) char lanes[ROOM * 16];
    uint8_t *p = (uint8_t *)from_mem;
    size_t size = raw_size(from);

    fill_lanes(lane_dtype(from), lanes, n);
    lane_to_raw(from, lanes, from_mem, n);
    for (int64_t i = SPECIALS; i < n; i += 2)
        for (size_t k = 0; k < size && from != DT_bool; k++)
            p[(size_t)i * size + k] = (uint8_t)(is_packed(from) ? rnd() & ((1u << dtype_info[from].sbits) - 1) : rnd());
}

/* Both in memory as slots: a packed dtype is a byte an element here. */
static LLVMValueRef load_slots(Llvm *u, DType t, LLVMValueRef p, LLVMValueRef i, int width)
{
    return lanes_load(u, is_packed(t) ? DT_uint8 : t, p, i, width);
}

static void build_convert(Llvm *u, const char *name, DType to, DType from, const ConvOpts *o, int width)
{
    LLVMValueRef fn = begin_function(u, name, 2), i = llvm_int(u, 0);

    for (int w = width; w; w = w > 1 ? 1 : 0) {
        Loop l = llvm_loop(u, i, LLVMGetParam(fn, 0), w);
        LLVMValueRef x = load_slots(u, from, LLVMGetParam(fn, 2), l.i, w);
        lanes_store(u, is_packed(to) ? DT_uint8 : to, LLVMGetParam(fn, 1), l.i, lanes_convert(u, to, from, o, x, l.i, NULL, w), w);
        llvm_loop_end(u, &l);
        i = l.i;
    }
    LLVMBuildRetVoid(u->builder);
}

static void check_conversion(DType to, DType from, const ConvOpts *o, CodeFn *fn, int width)
{
    int64_t n = N - rnd_to(17), bad;

    memset(want, 0x55, ROOM * 16);
    memset(got, 0x55, ROOM * 16);
    raw_convert(to, want, from, from_mem, n, o, 0);
    ((ConvertFn *)fn)(n, got, from_mem);
    bad = is_packed(to) ? memcmp(want, got, ROOM) : first_difference(to, want, got, ROOM - 64);
    if (is_packed(to) ? bad != 0 : bad >= 0)
        fail_msg("%s from %s, width %d, rounding %d: element %d differs", dtype_info[to].name, dtype_info[from].name, width,
                 o ? o->rounding : 0, (int)bad);
}

static void check_pair(DType to, DType from, const ConvOpts *o, Level level)
{
    Llvm *u = llvm_new("convert", machine_host());
    Code *code;
    char name[8];

    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        snprintf(name, sizeof name, "w%d", widths[w]);
        build_convert(u, name, to, from, o, widths[w]);
    }
    compiled(u, level, "w1", &code);
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        snprintf(name, sizeof name, "w%d", widths[w]);
        check_conversion(to, from, o, code_find(code, name), widths[w]);
    }
    code_free(code);
    llvm_free(u);
}

static void every_conversion_gives_the_bits_of_its_loop(void **state)
{
    for (int from = 0; from < DT_COUNT; from++) {
        fill_raw((DType)from, ROOM);
        for (int to = 0; to < DT_COUNT; to++)
            check_pair((DType)to, (DType)from, NULL, (from + to) % 4 ? LEVEL_O1 : LEVEL_O3);
    }
}

static void options_count(void **state)
{
    static const ConvOpts options[] = {
        {.saturate = true}, {.rounding = ROUND_ZERO}, {.rounding = ROUND_UP, .saturate = true}, {.rounding = ROUND_DOWN, .flush = true},
        {.rounding = ROUND_AWAY}, {.flush = true}, {.rounding = ROUND_STOCHASTIC, .seed = 1234567},
    };
    static const DType from[] = {DT_f32, DT_f64, DT_int64, DT_bf16, DT_c64}, to[] = {DT_fp8_e4m3, DT_bf16, DT_f32, DT_fp4, DT_int8, DT_c64};

    for (int k = 0; k < 5; k++) {
        fill_raw(from[k], ROOM);
        for (int j = 0; j < 6; j++)
            for (size_t o = 0; o < sizeof options / sizeof *options; o++)
                check_pair(to[j], from[k], &options[o], LEVEL_O1);
    }
}

/* dst[i] = src[i + 3] by strides of one, then every third to every second. */
static void build_moves(Llvm *u, DType t)
{
    LLVMValueRef fn = begin_function(u, "row", 2), x;
    Loop l = llvm_loop(u, llvm_int(u, 0), LLVMGetParam(fn, 0), 8);

    x = lanes_load(u, t, LLVMGetParam(fn, 2), LLVMBuildAdd(u->builder, l.i, llvm_int(u, 3), ""), 8);
    lanes_store(u, t, LLVMGetParam(fn, 1), l.i, x, 8);
    llvm_loop_end(u, &l);
    LLVMBuildRetVoid(u->builder);
    fn = begin_function(u, "strided", 2);
    l = llvm_loop(u, llvm_int(u, 0), LLVMGetParam(fn, 0), 8);
    x = lanes_load_strided(u, t, LLVMGetParam(fn, 2), LLVMBuildMul(u->builder, l.i, llvm_int(u, 3), ""), llvm_int(u, 3), 8);
    lanes_store_strided(u, t, LLVMGetParam(fn, 1), LLVMBuildMul(u->builder, l.i, llvm_int(u, 2), ""), llvm_int(u, 2), x, 8);
    llvm_loop_end(u, &l);
    LLVMBuildRetVoid(u->builder);
}

static void move(DType t, int64_t to, int64_t from)
{
    uint8_t one[16];

    if (is_packed(t)) {
        raw_unpack(t, from_mem, from, 1, one);
        raw_pack(t, want, to, 1, one);
    } else {
        memcpy(want + (size_t)to * raw_size(t), from_mem + (size_t)from * raw_size(t), raw_size(t));
    }
}

static void memory_keeps_bits_of_every_dtype(void **state)
{
    for (int t = 0; t < DT_COUNT; t++) {
        Llvm *u = llvm_new("moves", machine_host());
        Code *code;
        build_moves(u, (DType)t);
        ConvertFn *row = (ConvertFn *)compiled(u, LEVEL_O1, "row", &code), *strided = (ConvertFn *)code_find(code, "strided");
        for (int i = 0; i < 4096; i++)
            from_mem[i] = (char)rnd();
        memset(want, 0x55, 4096);
        memset(got, 0x55, 4096);
        row(64, got, from_mem);
        for (int i = 0; i < 64; i++)
            move((DType)t, i, i + 3);
        assert_memory_equal(want, got, 4096);
        strided(64, got, from_mem);
        for (int i = 0; i < 64; i++)
            move((DType)t, 2 * i, 3 * i);
        assert_memory_equal(want, got, 4096);
        code_free(code);
        llvm_free(u);
    }
}

static void subnormals_are_flushed(void **state)
{
    static const DType dtypes[] = {DT_f32, DT_f64, DT_c64, DT_c128, DT_int32};

    for (int k = 0; k < 5; k++) {
        DType t = dtypes[k], part = dtype_real(t);
        Llvm *u = llvm_new("flush", machine_host());
        LLVMValueRef fn = begin_function(u, "f", 2);
        Loop l = llvm_loop(u, llvm_int(u, 0), LLVMGetParam(fn, 0), 4);
        Code *code;
        lanes_store(u, t, LLVMGetParam(fn, 1), l.i, lanes_flush(u, t, lanes_load(u, t, LLVMGetParam(fn, 2), l.i, 4), 4), 4);
        llvm_loop_end(u, &l);
        LLVMBuildRetVoid(u->builder);
        ConvertFn *f = (ConvertFn *)compiled(u, LEVEL_O1, "f", &code);
        fill_lanes(t, from_mem, 512);
        memcpy(want, from_mem, 512 * raw_size(t));
        for (int i = 0; i < 1024 && dtype_is_inexact(t) && (size_t)i * raw_size(part) < 512 * raw_size(t); i++) {
            if (part == DT_f32 && fabsf(((float *)(void *)want)[i]) < 0x1p-126f)
                ((float *)(void *)want)[i] = copysignf(0, ((float *)(void *)want)[i]);
            if (part == DT_f64 && fabs(((double *)(void *)want)[i]) < 0x1p-1022)
                ((double *)(void *)want)[i] = copysign(0, ((double *)(void *)want)[i]);
        }
        f(512, got, from_mem);
        assert_int_equal(first_difference(t, want, got, 512), -1);
        code_free(code);
        llvm_free(u);
    }
}

/* Raw to lanes, the op, and back to raw, where the result is of the same dtype. */
static void check_codes(OpId op, DType t)
{
    static float lanes[CODES], result[CODES];
    Llvm *u = llvm_new("codes", machine_host());
    LLVMValueRef fn = begin_function(u, "f", 2), x;
    Loop l = llvm_loop(u, llvm_int(u, 0), LLVMGetParam(fn, 0), 16);
    uint16_t *codes = (uint16_t *)(void *)from_mem;
    Code *code;
    int64_t bad;

    x = lanes_of_raw(u, t, lanes_load(u, t, LLVMGetParam(fn, 2), l.i, 16), 16);
    x = formula_emit(u, op, t, &x, 1, 16);
    lanes_store(u, t, LLVMGetParam(fn, 1), l.i, lanes_to_raw(u, t, x, 16), 16);
    llvm_loop_end(u, &l);
    LLVMBuildRetVoid(u->builder);
    ConvertFn *f = (ConvertFn *)compiled(u, LEVEL_O1, "f", &code);
    for (int i = 0; i < CODES; i++)
        codes[i] = (uint16_t)i;
    raw_to_lane(t, codes, lanes, CODES);
    loop_find(op, t)(CODES, result, lanes, NULL, NULL);
    lane_to_raw(t, result, want, CODES);
    f(CODES, got, codes);
    if ((bad = first_difference(t, want, got, CODES)) >= 0)
        fail_msg("%s of %s %04x: %04x, not %04x", op_info[op].name, dtype_info[t].name, (int)bad, ((uint16_t *)(void *)got)[bad],
                 ((uint16_t *)(void *)want)[bad]);
    code_free(code);
    llvm_free(u);
}

static void every_code_of_the_halves(void **state)
{
    for (int op = 0; op < OP_COUNT; op++) {
        if (op_info[op].family != FAM_MAP || op_info[op].nin != 1 || !loop_find((OpId)op, DT_f32) || op == OP_isnan || op == OP_isinf || op == OP_isfinite)
            continue;
        check_codes((OpId)op, DT_bf16);
        check_codes((OpId)op, DT_f16);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_conversion_gives_the_bits_of_its_loop), cmocka_unit_test(options_count),
        cmocka_unit_test(memory_keeps_bits_of_every_dtype),            cmocka_unit_test(subnormals_are_flushed),
        cmocka_unit_test(every_code_of_the_halves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
