/*
 * Which loop runs: that of this machine, and the two cases where the row
 * of scalar.def is not the whole truth.  sin, cos and tan of large numbers need
 * more digits of pi than their loops have; fma on narrow floats must not round
 * to f32 first.
 */
#include "runtime/loops.h"

#include "runtime/convert.h"
#include "runtime/cpu.h"
#include "runtime/scalar.h"

static const LoopTable *table(void) { return cpu()->loops; }

/* Where some are large, in blocks of 64: keep what the exact function says of these, run the loop, then put that in place. */
#define CHECKED(lane, T) \
    static void checked_##lane(LoopFn *loop, T (*exact)(T), int64_t n, T *o, const T *x) \
    { \
        T far[64]; \
        if (!cpu()->far->lane(n, x)) { \
            loop(n, o, x, NULL, NULL); \
            return; \
        } \
        for (int64_t lo = 0; lo < n; lo += 64, o += 64, x += 64) { \
            int64_t k = n - lo < 64 ? n - lo : 64; \
            uint64_t mask = 0; \
            for (int64_t i = 0; i < k; i++) \
                if (lane##_is_far(x[i])) { \
                    mask |= 1ull << i; \
                    far[i] = exact(x[i]); \
                } \
            loop(k, o, x, NULL, NULL); \
            for (; mask; mask &= mask - 1) { \
                int i = __builtin_ctzll(mask); \
                o[i] = far[i]; \
            } \
        } \
    }
CHECKED(f32, float)
CHECKED(f64, double)

#define CIRCULAR(name) \
    static void name##_checked_f32(int64_t n, void *out, const void *a, const void *b, const void *c) \
    { \
        (void)b, (void)c; \
        checked_f32((*table())[OP_##name][DT_f32], far_##name, n, out, a); \
    } \
    static void name##_checked_f64(int64_t n, void *out, const void *a, const void *b, const void *c) \
    { \
        (void)b, (void)c; \
        checked_f64((*table())[OP_##name][DT_f64], name, n, out, a); \
    }
CIRCULAR(sin)
CIRCULAR(cos)
CIRCULAR(tan)

static void fma_narrow(int64_t n, void *out, const void *pa, const void *pb, const void *pc)
{
    const float *a = pa, *b = pb, *c = pc;
    float *o = out;

    for (int64_t i = 0; i < n; i++)
        o[i] = f32_fma_odd(a[i], b[i], c[i]);
}

LoopFn *loop_find(OpId op, DType as)
{
    DType lane = lane_dtype(as);

    bool wide = lane == DT_f64;

    if (wide || lane == DT_f32)
        switch (op) {
        case OP_sin: return wide ? sin_checked_f64 : sin_checked_f32;
        case OP_cos: return wide ? cos_checked_f64 : cos_checked_f32;
        case OP_tan: return wide ? tan_checked_f64 : tan_checked_f32;
        case OP_fma:
            if (!wide && as != DT_f32)
                return fma_narrow;
            break;
        default: break;
        }
    return (*table())[op][lane];
}
