/* codegen.h - making functions of LLVM code in tests, and data that shows differences. */
#ifndef TSR_TESTS_CODEGEN_H
#define TSR_TESTS_CODEGEN_H

#include "flow.h"
#include "tensors.h"

#include "codegen/lanes.h"
#include "runtime/code.h"
#include "runtime/convert.h"

#include <math.h>

/* u's function of that name, compiled; the caller frees *code. */
static inline CodeFn *compiled(Llvm *u, Level level, const char *name, Code **code)
{
    StrBuf object = {0}, err = {0};
    CodeFn *fn;

    if (!llvm_verify(u, &err) || !llvm_optimise(u, level, &err) || !llvm_object(u, level, &object, &err) ||
        !(*code = code_load(object.s, object.n, &err)))
        fail_msg("%s: %s", name, sb_str(&err));
    fn = code_find(*code, name);
    assert_non_null(fn);
    sb_done(&object);
    sb_done(&err);
    return fn;
}

/* A new function of pointers and an i64 before them. */
static inline LLVMValueRef begin_function(Llvm *u, const char *name, int pointers)
{
    LLVMTypeRef param[8] = {llvm_int_type(u)};

    for (int i = 0; i < pointers; i++)
        param[1 + i] = llvm_pointer_type(u);
    return llvm_function(u, name, param, 1 + pointers);
}

/* ---- data ---- */

static const double special[] = {
    0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, 7, 10, 127, 128, 255, 256, -128, -129, 32767, 32768, 65535, 65536, 1e-10, 1e10, 0.1, 100, -100,
    88.7, -103.9, 0x1p-149, -0x1p-149, 0x1p-126, 0x1.fffffcp-127, 0x1p-1074, 0x1p-1022, 0x1.fffffep127, -0x1.fffffep127, 0x1p127, 0x1p128,
    0x1.fffffffffffffp1023, 2147483647, 2147483648.0, -2147483648.0, 4294967295.0, 4294967296.0, 0x1p63, -0x1p63, 0x1p64, 0x1p27, 0x1.000002p27,
    0x1p28, 1e22, M_PI, M_PI_2, M_PI_4, 0.9999999, 1.0000001, 15, -8, -9, 448, 464, 57344, 61440, 65504, 65520, 28, 6, 7.5, 0x1p-9, 0x1p-10,
    /* next to what lies between two narrow numbers: rounding by way of f32 would take them for it */
    0x1.0100000001p0, 0x1.02ffffffffp0, 0x1.0020000001p0, 0x1.005fffffffp0, 0x1.1000000001p0, 0x1.2000000001p0, 16842753, -16973823,
};
enum { SPECIALS = sizeof special / sizeof *special };

/* Element i of n: numbers that end cases, then random bits, random small numbers, and NaNs of every sort. */
static inline void fill_lane(DType lane, void *at, int64_t i)
{
    static const uint32_t odd[] = {0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000, 0x7f800001, 0x7fffffff, 0xff923456};
    uint64_t bits = rnd();
    double v = i < SPECIALS ? special[i] : (double)(int64_t)rnd_to(2000) / 64 - 15;
    float f = (float)v;
    size_t size = raw_size(lane);

    if (lane == DT_bool)
        bits &= 1;
    else if (lane == DT_f32 && i >= SPECIALS && i % 16 == 1)
        bits = odd[rnd_to(7)];
    else if (lane == DT_f64 && i >= SPECIALS && i % 16 == 1)
        bits = (uint64_t)odd[rnd_to(7)] << 32;
    else if (lane == DT_f64 && (i < SPECIALS || i % 2))
        memcpy(&bits, &v, 8);
    else if (lane == DT_f32 && (i < SPECIALS || i % 2))
        memcpy(&bits, &f, 4);
    else if (dtype_is_int(lane) && (i < SPECIALS || i % 2))
        bits = (uint64_t)(int64_t)fmax(fmin(v, 9e18), -9e18);
    memcpy(at, &bits, size);
}

static inline void fill_lanes(DType lane, void *data, int64_t n)
{
    DType part = dtype_real(lane);
    int64_t parts = dtype_is_complex(lane) ? 2 * n : n;

    for (int64_t i = 0; i < parts; i++)     /* parts of complex numbers meet each other out of step */
        fill_lane(part, (char *)data + (size_t)i * raw_size(part), part == lane ? i : i % 2 ? (i * 7) % 1000 : i / 2);
}

/* The same value: the same bits, or NaN both times. */
static inline bool same_element(DType part, const void *a, const void *b)
{
    double x, y;

    if (!memcmp(a, b, raw_size(part)))
        return true;
    if (!dtype_is_float(part))
        return false;
    if (lane_dtype(part) == part) {
        lane_convert(DT_f64, &x, part, a, 1);
        lane_convert(DT_f64, &y, part, b, 1);
    } else {
        float f[2];
        raw_to_lane(part, a, &f[0], 1);
        raw_to_lane(part, b, &f[1], 1);
        x = f[0], y = f[1];
    }
    return x != x && y != y;
}

/* The first of n elements that differs; -1: none does. */
static inline int64_t first_difference(DType t, const void *a, const void *b, int64_t n)
{
    DType part = dtype_real(t);
    size_t size = raw_size(part);

    n *= dtype_is_complex(t) ? 2 : 1;
    for (int64_t i = 0; i < n; i++)
        if (!same_element(part, (const char *)a + (size_t)i * size, (const char *)b + (size_t)i * size))
            return i;
    return -1;
}

#endif
