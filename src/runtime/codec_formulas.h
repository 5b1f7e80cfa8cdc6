/*
 * codec_formulas.h - conversions of one element, without branches: floats narrower than f32 to and from their codes,
 * and every lane dtype to every other.  codecs.c makes loops of them; formulas.c the code of compiled programs.
 */
#ifndef TSR_RUNTIME_CODEC_FORMULAS_H
#define TSR_RUNTIME_CODEC_FORMULAS_H

#include <complex.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* ---- narrow floats ---- */

static inline uint32_t bits_of(float f)
{
    uint32_t u;

    memcpy(&u, &f, 4);
    return u;
}

static inline float float_of(uint32_t u)
{
    float f;

    memcpy(&f, &u, 4);
    return f;
}

/*
 * f32 to the code of a format of e exponent and m mantissa bits, nearest even.  Normals round by adding just
 * under half a quantum to the bits; subnormals by adding a float whose last bit is worth one quantum.
 */
static inline uint32_t narrow(float f, int e, int m, uint32_t max, uint32_t over, uint32_t nan)
{
    const int bias = (1 << (e - 1)) - 1, drop = 23 - m;
    uint32_t u = bits_of(f), sign = u >> 31 << (e + m), a = u & 0x7fffffff;
    float magic = float_of((uint32_t)(127 + 1 - bias - m + 23) << 23);
    uint32_t small = bits_of(float_of(a) + magic) - bits_of(magic);
    uint32_t normal = ((a + ((1u << (drop - 1)) - 1) + (a >> drop & 1)) >> drop) - ((uint32_t)(127 - bias) << m);
    uint32_t code = a < (uint32_t)(127 + 1 - bias) << 23 ? small : normal;

    code = a >= 0x7f800000u || code > max ? over : code;
    code = a > 0x7f800000u ? nan : code;
    return sign | code;
}

/* The f32 with the value of a code: shift into place, then scale by a power of two (exact, also for subnormals). */
static inline float widen(uint32_t code, int e, int m, uint32_t inf, uint32_t nan)
{
    const int bias = (1 << (e - 1)) - 1;
    uint32_t a = code & ((1u << (e + m)) - 1), sign = code >> (e + m) << 31;
    float v = float_of(a << (23 - m)) * float_of((uint32_t)(254 - bias) << 23);
    uint32_t u = bits_of(v);

    u = a >= inf ? 0x7f800000u : u;
    u = a >= nan ? 0x7fc00000u : u;
    return float_of(u | sign);
}

static inline uint32_t bf16_of(float f)
{
    uint32_t u = bits_of(f);
    uint32_t r = (u + 0x7fff + (u >> 16 & 1)) >> 16;

    return (u & 0x7fffffff) > 0x7f800000u ? (u >> 16) | 0x40 : r;
}

static inline uint32_t f16_of(float f)
{
    uint32_t u = bits_of(f), c = narrow(f, 5, 10, 0x7bff, 0x7c00, 0x7e00);

    return (u & 0x7fffffff) > 0x7f800000u ? (c | (u >> 13 & 0x1ff)) : c;
}

static inline float f16_widen(uint32_t code)
{
    float v = widen(code, 5, 10, 0x7c00, 0x7c01);

    return (code & 0x7fff) > 0x7c00 ? float_of(bits_of(v) | (code & 0x1ff) << 13) : v;
}

static inline uint32_t tf32_of(float f)
{
    uint32_t u = bits_of(f), r = (u + 0xfff + (u >> 13 & 1)) & ~0x1fffu;

    return (u & 0x7fffffff) > 0x7f800000u ? (u & ~0x1fffu) | 0x400000 : r;
}

/* NARROW(dtype, storage C type, code of a float, float of a code) */
#define NARROW_FORMATS(NARROW) \
    NARROW(bf16, uint16_t, bf16_of(x), float_of((uint32_t)c << 16)) \
    NARROW(f16, uint16_t, f16_of(x), f16_widen(c)) \
    NARROW(tf32, uint32_t, tf32_of(x), float_of(c)) \
    NARROW(fp8_e4m3, uint8_t, narrow(x, 4, 3, 0x7e, 0x7f, 0x7f), widen(c, 4, 3, 0x7f, 0x7f)) \
    NARROW(fp8_e5m2, uint8_t, narrow(x, 5, 2, 0x7b, 0x7c, 0x7e), widen(c, 5, 2, 0x7c, 0x7d)) \
    NARROW(fp6, uint8_t, narrow(x, 3, 2, 0x1f, 0x1f, bits_of(x) >> 31 ? 0x20u : 0) & 0x3f, widen(c, 3, 2, 32, 32)) \
    NARROW(fp4, uint8_t, narrow(x, 2, 1, 0x7, 0x7, bits_of(x) >> 31 ? 0x8u : 0) & 0xf, widen(c, 2, 1, 8, 8))

/* ---- lane to lane ---- */

/* name, C type, kind, smallest, largest; the columns of the other side follow */
#define LANES(X) \
    X(DT_bool, _Bool, B, 0, 1) X(DT_int8, int8_t, N, INT8_MIN, INT8_MAX) \
    X(DT_int16, int16_t, N, INT16_MIN, INT16_MAX) X(DT_int32, int32_t, N, INT32_MIN, INT32_MAX) \
    X(DT_int64, int64_t, N, INT64_MIN, INT64_MAX) X(DT_uint8, uint8_t, N, 0, UINT8_MAX) \
    X(DT_uint16, uint16_t, N, 0, UINT16_MAX) X(DT_uint32, uint32_t, N, 0, UINT32_MAX) \
    X(DT_uint64, uint64_t, N, 0, UINT64_MAX) X(DT_f32, float, F, 0, 0) X(DT_f64, double, F, 0, 0) \
    X(DT_c64, float _Complex, C, 0, 0) X(DT_c128, double _Complex, C, 0, 0)
#define LANES2(X, ...) \
    X(DT_bool, uint8_t, B, __VA_ARGS__) X(DT_int8, int8_t, N, __VA_ARGS__) X(DT_int16, int16_t, N, __VA_ARGS__) \
    X(DT_int32, int32_t, N, __VA_ARGS__) X(DT_int64, int64_t, N, __VA_ARGS__) X(DT_uint8, uint8_t, N, __VA_ARGS__) \
    X(DT_uint16, uint16_t, N, __VA_ARGS__) X(DT_uint32, uint32_t, N, __VA_ARGS__) \
    X(DT_uint64, uint64_t, N, __VA_ARGS__) X(DT_f32, float, F, __VA_ARGS__) X(DT_f64, double, F, __VA_ARGS__) \
    X(DT_c64, float _Complex, C, __VA_ARGS__) X(DT_c128, double _Complex, C, __VA_ARGS__)

/* Truncated, saturated, NaN as 0. Upper bounds that the float S does not hold round up: hence >=. */
#define CLAMPED(T, S, x, lo, hi) \
    ((x) >= (S)(hi) ? (T)(hi) : (x) <= (S)(lo) ? (T)(lo) : (x) == (x) ? (T)(x) : (T)0)
#define CV_B_B(T, S, x, lo, hi) ((x) != 0)
#define CV_B_N(T, S, x, lo, hi) ((x) != 0)
#define CV_B_F(T, S, x, lo, hi) ((x) != 0)
#define CV_B_C(T, S, x, lo, hi) ((x) != 0)
#define CV_N_B(T, S, x, lo, hi) ((T)(x))
#define CV_N_N(T, S, x, lo, hi) ((T)(x))
#define CV_N_F(T, S, x, lo, hi) CLAMPED(T, S, x, lo, hi)
#define CV_N_C(T, S, x, lo, hi) CLAMPED(T, double, creal(x), lo, hi)
#define CV_F_B(T, S, x, lo, hi) ((T)(x))
#define CV_F_N(T, S, x, lo, hi) ((T)(x))
#define CV_F_F(T, S, x, lo, hi) ((T)(x))
#define CV_F_C(T, S, x, lo, hi) ((T)creal(x))
#define CV_C_B(T, S, x, lo, hi) ((T)(x))
#define CV_C_N(T, S, x, lo, hi) ((T)(x))
#define CV_C_F(T, S, x, lo, hi) ((T)(x))
#define CV_C_C(T, S, x, lo, hi) ((T)(x))

/* ---- steps between ---- */

static inline int8_t sign_extend4(uint8_t x) { return (int8_t)((x & 15) - (x & 8) * 2); }
static inline int8_t clamp_int4(int8_t x) { return x < -8 ? -8 : x > 7 ? 7 : x; }
static inline uint8_t clamp_uint4(uint8_t x) { return x > 15 ? 15 : x; }

/* To [-max, max]; NaN stays. */
static inline float f32_clamp(float x, float max)
{
    x = x > max ? max : x;
    return x < -max ? -max : x;
}

/* A double as a float, rounded to odd: exact, or the neighbour with an odd last bit. */
static inline float to_odd(double x)
{
    float f = (float)x;
    uint32_t u = bits_of(f);

    u -= fabs((double)f) > fabs(x);                 /* towards zero; inf becomes the largest finite */
    u |= (double)f != x;
    return float_of(x != x ? bits_of(f) : u);
}

#endif
