/*
 * Inner loops of the elementwise ops, expanded from scalar.def for each lane
 * dtype.  VARIANT names the table this compilation fills.
 */
#include "runtime/loops.h"

#include "runtime/each.h"
#include "runtime/scalar.h"


#define BEGIN(fn) \
    static void fn(int64_t n, void *out, const void *pa, const void *pb, const void *pc) \
    { \
        (void)pb, (void)pc;
#define LOOP1(fn, Res, expr) \
    BEGIN(fn) \
        const T *x = pa; \
        Res *o = out; \
        EACH(i, n) { \
            T a = x[i]; \
            o[i] = (expr); \
        } \
    }
#define LOOP2(fn, Res, expr) \
    BEGIN(fn) \
        const T *x = pa, *y = pb; \
        Res *o = out; \
        EACH(i, n) { \
            T a = x[i], b = y[i]; \
            o[i] = (expr); \
        } \
    }
#define LOOP3(fn, Res, expr) \
    BEGIN(fn) \
        const T *x = pa, *y = pb, *z = pc; \
        Res *o = out; \
        EACH(i, n) { \
            T a = x[i], b = y[i], c = z[i]; \
            o[i] = (expr); \
        } \
    }
#define LOOPW(fn, Res, expr) \
    BEGIN(fn) \
        const uint8_t *x = pa; \
        const T *y = pb, *z = pc; \
        Res *o = out; \
        EACH(i, n) { \
            uint8_t a = x[i]; \
            T b = y[i], c = z[i]; \
            o[i] = (expr); \
        } \
    }
#define DEFINE(name, arity, result, expr) LOOP##arity(PASTE(name, X), RES_##result, expr)
#define RES_T T
#define RES_B _Bool
#define RES_R REAL
#define RES_Z CPLX

/* bool: bytes of 0 and 1, which vectorise where _Bool does not */
#define X bool8
#define T uint8_t
#define BOO DEFINE
#include "runtime/scalar.def"
#undef X
#undef T

/* integers */
#define FN(f) PASTE(INTS, f)
#define DIV(f) PASTE(short, f)
#define INTS int
#define X i8
#define T int8_t
#define U uint32_t
#define WIDTH 8
#define INT DEFINE
#include "runtime/scalar.def"
#undef X
#undef T
#undef WIDTH
#define X i16
#define T int16_t
#define WIDTH 16
#define INT DEFINE
#include "runtime/scalar.def"
#undef X
#undef T
#undef WIDTH
#define X i32
#define T int32_t
#define WIDTH 32
#define INT DEFINE
#include "runtime/scalar.def"
#undef X
#undef T
#undef U
#undef WIDTH
#undef DIV
#define DIV FN
#define X i64
#define T int64_t
#define U uint64_t
#define WIDTH 64
#define INT DEFINE
#include "runtime/scalar.def"
#undef X
#undef T
#undef U
#undef WIDTH
#undef DIV
#undef INTS
#define INTS uint
#define DIV(f) PASTE(short, f)
#define X u8
#define T uint8_t
#define U uint32_t
#define WIDTH 8
#define INT DEFINE
#include "runtime/scalar.def"
#undef X
#undef T
#undef WIDTH
#define X u16
#define T uint16_t
#define WIDTH 16
#define INT DEFINE
#include "runtime/scalar.def"
#undef X
#undef T
#undef WIDTH
#define X u32
#define T uint32_t
#define WIDTH 32
#define INT DEFINE
#include "runtime/scalar.def"
#undef X
#undef T
#undef U
#undef WIDTH
#undef DIV
#define DIV FN
#define X u64
#define T uint64_t
#define U uint64_t
#define WIDTH 64
#define INT DEFINE
#include "runtime/scalar.def"
#undef X
#undef T
#undef U
#undef WIDTH
#undef DIV
#undef INTS
#undef FN

/* floats */
#define FN(f) PASTE(X, f)
#define X f32
#define T float
#define CPLX float _Complex
#define FLT DEFINE
#include "runtime/scalar.def"
#undef X
#undef T
#undef CPLX
#define X f64
#define T double
#define CPLX double _Complex
#define FLT DEFINE
#include "runtime/scalar.def"
#undef X
#undef T
#undef CPLX

/* complex */
#define X c64
#define T float _Complex
#define REAL float
#define CPX DEFINE
#include "runtime/scalar.def"
#undef X
#undef T
#undef REAL
#define X c128
#define T double _Complex
#define REAL double
#define CPX DEFINE
#include "runtime/scalar.def"
#undef X
#undef T
#undef REAL
#undef FN

const LoopTable PASTE(loops, VARIANT) = {
#define BOO(name, ...) [OP_##name][DT_bool] = name##_bool8,
#include "runtime/scalar.def"
#define INT(name, ...) \
    [OP_##name][DT_int8] = name##_i8, [OP_##name][DT_int16] = name##_i16, [OP_##name][DT_int32] = name##_i32, \
    [OP_##name][DT_int64] = name##_i64, [OP_##name][DT_uint8] = name##_u8, [OP_##name][DT_uint16] = name##_u16, \
    [OP_##name][DT_uint32] = name##_u32, [OP_##name][DT_uint64] = name##_u64,
#include "runtime/scalar.def"
#define FLT(name, ...) [OP_##name][DT_f64] = name##_f64, [OP_##name][DT_f32] = name##_f32,
#include "runtime/scalar.def"
#define CPX(name, ...) [OP_##name][DT_c64] = name##_c64, [OP_##name][DT_c128] = name##_c128,
#include "runtime/scalar.def"
};
