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

#define DEFINE_CPX DEFINE
#include "runtime/scalar_lanes.def"

const LoopTable PASTE(loops, VARIANT) = {
#define BOO(name, ...) [OP_##name][DT_bool] = name##_bool8,
#include "runtime/scalar.def"
#define INT(name, ...) \
    [OP_##name][DT_int8] = name##_int8, [OP_##name][DT_int16] = name##_int16, [OP_##name][DT_int32] = name##_int32, \
    [OP_##name][DT_int64] = name##_int64, [OP_##name][DT_uint8] = name##_uint8, [OP_##name][DT_uint16] = name##_uint16, \
    [OP_##name][DT_uint32] = name##_uint32, [OP_##name][DT_uint64] = name##_uint64,
#include "runtime/scalar.def"
#define FLT(name, ...) [OP_##name][DT_f64] = name##_f64, [OP_##name][DT_f32] = name##_f32,
#include "runtime/scalar.def"
#define CPX(name, ...) [OP_##name][DT_c64] = name##_c64, [OP_##name][DT_c128] = name##_c128,
#include "runtime/scalar.def"
};

#define FAR(lane, T) \
    static bool any_far_##lane(int64_t n, const T *x) \
    { \
        int64_t far = 0; \
        EACH(i, n) \
            far |= lane##_is_far(x[i]); \
        return far != 0; \
    }
FAR(f32, float)
FAR(f64, double)

const FarFns PASTE(far, VARIANT) = {any_far_f32, any_far_f64};
