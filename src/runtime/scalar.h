/*
 * scalar.h - the functions that formulas of scalar.def name: FN(f) for T.
 * Those that are more than an instruction are in elementary*; f64's inverse functions come from libm.
 */
#ifndef TSR_RUNTIME_SCALAR_H
#define TSR_RUNTIME_SCALAR_H

#include <complex.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#undef complex                      /* names of ours: OP_complex, and I in tables */
#undef I

static inline uint64_t d_bits(double x)
{
    uint64_t u;

    memcpy(&u, &x, 8);
    return u;
}

static inline double d_of(uint64_t u)
{
    double x;

    memcpy(&x, &u, 8);
    return x;
}

static inline uint32_t f_bits(float x)
{
    uint32_t u;

    memcpy(&u, &x, 4);
    return u;
}

static inline float f_of(uint32_t u)
{
    float x;

    memcpy(&x, &u, 4);
    return x;
}

/* What scalar.def and elementary_real.def call by the type's name. */
#define f32_bits f_bits
#define f32_of f_of
#define f64_bits d_bits
#define f64_of d_of
#define f64_sqrt sqrt
#define f64_asin asin
#define f64_acos acos
#define f64_asinh asinh
#define f64_acosh acosh
#define f64_atanh atanh
#define f64_erf erf
#define f64_erfc erfc
#define f64_floor floor
#define f64_ceil ceil
#define f64_rint rint
#define f64_trunc trunc
#define f64_fma fma
#define f64_atan2 atan2
static inline float f32_fabs(float a) { return f_of(f_bits(a) & 0x7fffffff); }
static inline float f32_sqrt(float a) { return sqrtf(a); }
static inline float f32_floor(float a) { return floorf(a); }
static inline float f32_ceil(float a) { return ceilf(a); }
static inline float f32_rint(float a) { return rintf(a); }
static inline float f32_trunc(float a) { return truncf(a); }
static inline float f32_fma(float a, float b, float c) { return fmaf(a, b, c); }
static inline double f64_fabs(double x) { return d_of(d_bits(x) & ~(1ull << 63)); }

#include "runtime/polynomial.h"
#include "runtime/elementary_f32.h"
#include "runtime/elementary_f64.h"

#define TRIG_MAX_F32 0x1p20f
#define TRIG_MAX_F64 0x1p27

#define FN(f) f32_##f
#define K(single, wide) (single)
#define REAL float
#define BITS uint32_t
#define PAIR PairF32
#include "runtime/elementary_real.def"
#undef FN
#undef K
#undef REAL
#undef BITS
#undef PAIR
#define FN(f) f64_##f
#define K(single, wide) (wide)
#define REAL double
#define BITS uint64_t
#define PAIR PairF64
#include "runtime/elementary_real.def"
#undef FN
#undef K
#undef REAL
#undef BITS
#undef PAIR

#include "runtime/elementary.h"
#include "runtime/elementary_far.h"

/* ---- f32 and f64 ---- */

/* Larger and smaller: NaN wins, and +0 is above -0.  Equal numbers differ at most in the sign of zero. */
static inline float f32_max(float a, float b)
{
    float same = f_of(f_bits(a) & f_bits(b)), r = a > b ? a : b;

    r = a == b ? same : r;
    return a != a ? a : r;
}

static inline float f32_min(float a, float b)
{
    float same = f_of(f_bits(a) | f_bits(b)), r = a < b ? a : b;

    r = a == b ? same : r;
    return a != a ? a : r;
}

/* Called out of line: rare, or not worth a vector loop (scalar.c). */
float far_sin(float a);
float far_cos(float a);
float far_tan(float a);
float f32_erfinv(float a);
float f32_lgamma(float a);
float f32_digamma(float a);
float f32_mod(float a, float b);
float f32_floordiv(float a, float b);
double f64_erfinv(double a);
double f64_lgamma(double a);
double f64_digamma(double a);
double f64_mod(double a, double b);
double f64_floordiv(double a, double b);
double _Complex c128_div(double _Complex a, double _Complex b);
double _Complex c128_sign(double _Complex a);
double _Complex c128_pow(double _Complex a, double _Complex b);

/* a * b + c for floats narrower than f32: the f32 rounded to odd, which rounds on to them without a second error. */
static inline float f32_fma_odd(float a, float b, float c)
{
    double p = (double)a * b, s = p + c;            /* p is exact: two products of at most 24 bits */
    double t = s - p, e = (p - (s - t)) + (c - t);  /* s + e is the exact sum (Knuth) */
    uint64_t even = (uint64_t)(e != 0) & (~d_bits(s) & 1), away = (uint64_t)((e > 0) == (s > 0));

    s = d_of(d_bits(s) + (even & away) - (even & (away ^ 1)));
    float f = (float)s;
    uint32_t inexact = (uint32_t)((double)f != s) & (uint32_t)(f == f), above = (uint32_t)(f64_fabs((double)f) > f64_fabs(s));
    return f_of((f_bits(f) - (inexact & above)) | inexact);
}

/* Subnormals as zeros. */
static inline float f32_flush(float x) { return f32_fabs(x) < 0x1p-126f ? f_of(f_bits(x) & 1u << 31) : x; }
static inline double f64_flush(double x) { return f64_fabs(x) < 0x1p-1022 ? d_of(d_bits(x) & 1ull << 63) : x; }

/* Do sin, cos and tan of x need more digits of pi than their formulas have? Of NaN and infinity too. */
static inline bool f32_is_far(float x) { return !(f32_fabs(x) <= TRIG_MAX_F32); }
static inline bool f64_is_far(double x) { return !(f64_fabs(x) <= TRIG_MAX_F64); }

/* ---- f64 ---- */

static inline double f64_max(double a, double b)
{
    double same = d_of(d_bits(a) & d_bits(b)), r = a > b ? a : b;

    r = a == b ? same : r;
    return a != a ? a : r;
}

static inline double f64_min(double a, double b)
{
    double same = d_of(d_bits(a) | d_bits(b)), r = a < b ? a : b;

    r = a == b ? same : r;
    return a != a ? a : r;
}

/* ---- complex: c64 computes in c128 where more than additions are involved ---- */

/* a + bi, also where a or b is infinite: C's CMPLX, which clang 14 lacks. */
static inline float _Complex f32_cmplx(float a, float b)
{
    float part[2] = {a, b};
    float _Complex z;

    memcpy(&z, part, sizeof z);
    return z;
}

static inline double _Complex f64_cmplx(double a, double b)
{
    double part[2] = {a, b};
    double _Complex z;

    memcpy(&z, part, sizeof z);
    return z;
}

static inline float _Complex c64_cmul(float _Complex a, float _Complex b)
{
    float ar = crealf(a), ai = cimagf(a), br = crealf(b), bi = cimagf(b);

    return f32_cmplx(ar * br - ai * bi, ar * bi + ai * br);
}

static inline double _Complex c128_cmul(double _Complex a, double _Complex b)
{
    double ar = creal(a), ai = cimag(a), br = creal(b), bi = cimag(b);

    return f64_cmplx(ar * br - ai * bi, ar * bi + ai * br);
}

#define c128_cdiv c128_div
#define c128_csign c128_sign
#define c128_cpow c128_pow
#define c128_fabs f64_fabs
#define c128_cabs cabs
#define c128_creal creal
#define c128_cimag cimag
#define c128_conj conj
#define c128_cexp cexp
#define c128_clog clog
#define c128_csqrt csqrt
#define c128_csin csin
#define c128_ccos ccos
#define c128_ctan ctan
#define c128_casin casin
#define c128_cacos cacos
#define c128_catan catan
#define c128_csinh csinh
#define c128_ccosh ccosh
#define c128_ctanh ctanh
#define c128_casinh casinh
#define c128_cacosh cacosh
#define c128_catanh catanh
#define c64_cdiv(a, b) (float _Complex)c128_div(a, b)
#define c64_csign(a) (float _Complex)c128_sign(a)
#define c64_cpow(a, b) (float _Complex)c128_pow(a, b)
#define c64_fabs f32_fabs
#define c64_cabs(a) (float)cabs(a)
#define c64_creal crealf
#define c64_cimag cimagf
#define c64_conj conjf
#define c64_cexp(a) (float _Complex)cexp(a)
#define c64_clog(a) (float _Complex)clog(a)
#define c64_csqrt(a) (float _Complex)csqrt(a)
#define c64_csin(a) (float _Complex)csin(a)
#define c64_ccos(a) (float _Complex)ccos(a)
#define c64_ctan(a) (float _Complex)ctan(a)
#define c64_casin(a) (float _Complex)casin(a)
#define c64_cacos(a) (float _Complex)cacos(a)
#define c64_catan(a) (float _Complex)catan(a)
#define c64_csinh(a) (float _Complex)csinh(a)
#define c64_ccosh(a) (float _Complex)ccosh(a)
#define c64_ctanh(a) (float _Complex)ctanh(a)
#define c64_casinh(a) (float _Complex)casinh(a)
#define c64_cacosh(a) (float _Complex)cacosh(a)
#define c64_catanh(a) (float _Complex)catanh(a)

/* ---- integers: division floors; by zero gives 0, which the driver has refused before; the lowest by -1 wraps ---- */

static inline int64_t int_floordiv(int64_t a, int64_t b)
{
    int64_t by = b == 0 || b == -1 ? 1 : b, q = a / by, r = a - q * by;

    return b == -1 ? (int64_t)(0 - (uint64_t)a) : b ? q - ((r != 0) & ((r ^ b) < 0)) : 0;
}

static inline int64_t int_mod(int64_t a, int64_t b)
{
    int64_t r = a % (b == 0 || b == -1 ? 1 : b);

    return r + (b & -(int64_t)((r != 0) & ((r ^ b) < 0)));
}

/* Up to 32 bits: a quotient in double is off by less than what parts it from the next integer, and vectorises. */
static inline int64_t short_floordiv(int64_t a, int64_t b) { return (int64_t)floor((double)a / (double)(b ? b : 1)); }
static inline int64_t short_mod(int64_t a, int64_t b) { return (int64_t)((double)a - floor((double)a / (double)(b ? b : 1)) * (double)b); }

/* a^b, wrapping; b is not negative (the driver has refused those). */
static inline uint64_t int_pow(uint64_t a, uint64_t b)
{
    uint64_t r = 1;

    for (; b; b >>= 1, a *= a)
        r *= b & 1 ? a : 1;
    return r;
}

static inline int64_t int_abs(int64_t a) { return a < 0 ? (int64_t)(0 - (uint64_t)a) : a; }
static inline int64_t int_sign(int64_t a) { return (a > 0) - (a < 0); }
static inline int64_t int_shr(int64_t a, uint64_t b) { return a >> (b < 63 ? b : 63); }
static inline uint64_t uint_abs(uint64_t a) { return a; }
static inline uint64_t uint_sign(uint64_t a) { return a != 0; }
static inline uint64_t uint_shr(uint64_t a, uint64_t b) { return b < 64 ? a >> (b & 63) : 0; }
static inline uint64_t uint_floordiv(uint64_t a, uint64_t b) { return a / (b | (b == 0)) & (0 - (uint64_t)(b != 0)); }
static inline uint64_t uint_mod(uint64_t a, uint64_t b) { return a % (b | (b == 0)); }
#define uint_pow int_pow

#endif
