/*
 * scalar.h - the functions that formulas of scalar.def name: FN(f) for T.
 *
 * The f32 functions are Tessera's own.  They compute in double with plain
 * multiplications and additions, no branches and no fused operations, so that
 * compilers vectorise them and every instruction set, lane and alignment gives
 * the same bits.  Double leaves so much room that results are within 0.51 ULP
 * (tests/unit/scalar.c measures).  The f64 functions come from libm.
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

/* ---- cores in double, good to about 2^-36 ---- */

#define X_MAGIC 0x1.8p52            /* adding it leaves a small number's nearest integer in the low bits */

/* e^r - 1 for |r| <= ln2 / 2: Taylor. */
static inline double x_expm1_small(double r)
{
    double p = 1 / 362880.0;

    p = p * r + 1 / 40320.0;
    p = p * r + 1 / 5040.0;
    p = p * r + 1 / 720.0;
    p = p * r + 1 / 120.0;
    p = p * r + 1 / 24.0;
    p = p * r + 1 / 6.0;
    p = p * r + 0.5;
    return p * r * r + r;
}

/* 2^k from the bits of k + X_MAGIC. */
static inline double x_pow2(double shifted) { return d_of((d_bits(shifted) + 1023) << 52); }

static inline double x_clamp(double x, double lo, double hi)
{
    x = x < lo ? lo : x;
    return x > hi ? hi : x;
}

static inline double x_exp(double x)
{
    x = x_clamp(x, -700, 700);
    double s = x * M_LOG2E + X_MAGIC, n = s - X_MAGIC;
    double r = x - n * 0x1.62e42fee00000p-1 - n * 0x1.a39ef35793c76p-33;

    return (x_expm1_small(r) + 1) * x_pow2(s);
}

static inline double x_expm1(double x)
{
    x = x_clamp(x, -700, 700);
    double s = x * M_LOG2E + X_MAGIC, n = s - X_MAGIC, p = x_pow2(s);
    double r = x - n * 0x1.62e42fee00000p-1 - n * 0x1.a39ef35793c76p-33;

    return x_expm1_small(r) * p + (p - 1);
}

static inline double x_exp2(double x)
{
    x = x_clamp(x, -900, 900);
    double s = x + X_MAGIC, n = s - X_MAGIC;

    return (x_expm1_small((x - n) * M_LN2) + 1) * x_pow2(s);
}

/* Positive normal x = 2^k m with m in [sqrt(1/2), sqrt(2)): k, and log(m) through atanh. */
static inline double x_log_parts(double x, double *k)
{
    uint64_t u = d_bits(x), t = u - 0x3fe6a09e667f3bcd + ((uint64_t)1024 << 52);

    *k = d_of(0x4330000000000000 | t >> 52) - (0x1p52 + 1024);
    double f = d_of(u - ((t & 0xfff0000000000000) - ((uint64_t)1024 << 52))) - 1;
    double s = f / (2 + f), z = s * s, p = 1 / 15.0;
    p = p * z + 1 / 13.0;
    p = p * z + 1 / 11.0;
    p = p * z + 1 / 9.0;
    p = p * z + 1 / 7.0;
    p = p * z + 1 / 5.0;
    p = p * z + 1 / 3.0;
    return 2 * s + 2 * s * z * p;
}

/* The ends of every logarithm: log 0 = -inf, of negative numbers NaN. */
static inline double x_log_ends(double x, double y)
{
    y = x == 0 ? -(double)INFINITY : y;
    y = x < 0 ? (double)NAN : y;
    return x < (double)INFINITY ? y : x;            /* also NaN */
}

static inline double x_log(double x)
{
    double k, l = x_log_parts(x, &k);

    return x_log_ends(x, k * M_LN2 + l);
}

static inline double x_log2(double x)
{
    double k, l = x_log_parts(x, &k);

    return x_log_ends(x, k + l * M_LOG2E);
}

static inline double x_log1p(double x)
{
    double u = 1 + x, y = x_log(u);

    y = x > -1 && x < 0x1p60 ? y + (x - (u - 1)) / u : y;    /* what rounding 1 + x lost */
    return x == 0 ? x : y;
}

/* x - n pi/2 and n mod 4, for |x| <= X_TRIG_MAX; the parts of pi/2 are short, so products with n are exact. */
#define X_TRIG_MAX 0x1p27f

static inline double x_reduce(double x, uint64_t *quadrant)
{
    double s = x * M_2_PI + X_MAGIC, n = s - X_MAGIC;

    *quadrant = d_bits(s) & 3;
    return x - n * 0x1.921fb50000000p+0 - n * 0x1.110b460000000p-26 - n * 0x1.1a62633145c07p-54;
}

static inline double x_sin_small(double r)
{
    double z = r * r, p = 1 / 6227020800.0;

    p = p * z - 1 / 39916800.0;
    p = p * z + 1 / 362880.0;
    p = p * z - 1 / 5040.0;
    p = p * z + 1 / 120.0;
    p = p * z - 1 / 6.0;
    return r + r * z * p;
}

static inline double x_cos_small(double r)
{
    double z = r * r, p = -1 / 87178291200.0;

    p = p * z + 1 / 479001600.0;
    p = p * z - 1 / 3628800.0;
    p = p * z + 1 / 40320.0;
    p = p * z - 1 / 720.0;
    p = p * z + 1 / 24.0;
    return 1 - 0.5 * z + z * z * p;
}

/* sin(x + turns * pi/2). */
static inline double x_sin(double x, uint64_t turns)
{
    uint64_t q;
    double r = x_reduce(x, &q), s = x_sin_small(r), c = x_cos_small(r);

    q += turns;
    return d_of(d_bits(q & 1 ? c : s) ^ (q & 2) << 62);
}

/* atan on [0, inf]: Chebyshev fit of atan(x)/x on [0, 1], 3e-13; reciprocal beyond. */
static inline double x_atan_positive(double x)
{
    double t = x > 1 ? 1 / x : x, z = t * t, p = 0.0001704604046618824;

    p = p * z - 0.0014666686334116588;
    p = p * z + 0.005936376596452122;
    p = p * z - 0.01523249190907656;
    p = p * z + 0.028410612112699588;
    p = p * z - 0.042324616793255394;
    p = p * z + 0.054582394542429476;
    p = p * z - 0.06536228811849373;
    p = p * z + 0.07663177357754078;
    p = p * z - 0.09086360660727331;
    p = p * z + 0.11110640790649381;
    p = p * z - 0.14285684661254053;
    p = p * z + 0.1999999901342103;
    p = p * z - 0.3333333332025471;
    double y = t + t * z * p;
    return x > 1 ? M_PI_2 - y : y;
}

/* erf on [-1, 1]: fit of erf(x)/x in x^2, 5e-16. */
static inline double x_erf_small(double x)
{
    double z = x * x, p = 9.428596956834164e-09;

    p = p * z - 1.5188281247335167e-07;
    p = p * z + 1.631035651387174e-06;
    p = p * z - 1.4913300906316395e-05;
    p = p * z + 0.00012054681918310599;
    p = p * z - 0.0008548304871782741;
    p = p * z + 0.005223977154105304;
    p = p * z - 0.026866170586496874;
    p = p * z + 0.11283791670580423;
    p = p * z - 0.376126389031744;
    p = p * z + 1.1283791670955121;
    return x * p;
}

/* erfc on [0.9, 11]: exp(-x^2) / (1 + x) times a fit in (x - 3) / (x + 3), 2e-12. */
static inline double x_erfc_large(double x)
{
    x = x > 11 ? 11 : x;
    double t = (x - 3) / (x + 3), p = -2.7978212336834124e-06;

    p = p * t + 4.818808677466726e-05;
    p = p * t - 1.9342656969214573e-05;
    p = p * t - 0.0003643979424878819;
    p = p * t + 0.0006454206762324719;
    p = p * t + 0.0016180525745722435;
    p = p * t - 0.009750631751712358;
    p = p * t + 0.021957809381174476;
    p = p * t - 0.023803916847914015;
    p = p * t - 0.010235390619909236;
    p = p * t + 0.09902075376688416;
    p = p * t - 0.23092733306503688;
    p = p * t + 0.7160046047252345;
    return x_exp(-x * x) * p / (1 + x);
}

static inline double x_sign_of(double magnitude, double sign)
{
    return d_of((d_bits(magnitude) & ~(1ull << 63)) | (d_bits(sign) & 1ull << 63));
}

static inline double x_abs(double x) { return d_of(d_bits(x) & ~(1ull << 63)); }

/* ---- f32 ---- */

static inline float f32_fabs(float a) { return f_of(f_bits(a) & 0x7fffffff); }
static inline float f32_exp(float a) { return (float)x_exp(a); }
static inline float f32_exp2(float a) { return (float)x_exp2(a); }
static inline float f32_expm1(float a) { return a == 0 ? a : (float)x_expm1(a); }
static inline float f32_log(float a) { return (float)x_log(a); }
static inline float f32_log2(float a) { return (float)x_log2(a); }
static inline float f32_log10(float a) { return (float)(x_log2(a) * 0.30102999566398119521); }
static inline float f32_log1p(float a) { return (float)x_log1p(a); }
static inline float f32_sqrt(float a) { return sqrtf(a); }
static inline float f32_rsqrt(float a) { return (float)(1 / sqrt((double)a)); }
static inline float f32_floor(float a) { return floorf(a); }
static inline float f32_ceil(float a) { return ceilf(a); }
static inline float f32_rint(float a) { return rintf(a); }
static inline float f32_trunc(float a) { return truncf(a); }
static inline float f32_fma(float a, float b, float c) { return fmaf(a, b, c); }

/* Beyond X_TRIG_MAX the loops call far_sin and its like instead. */
static inline float f32_sin(float a) { return a == 0 ? a : (float)x_sin(a, 0); }
static inline float f32_cos(float a) { return (float)x_sin(a, 1); }

static inline float f32_tan(float a)
{
    uint64_t q;
    double r = x_reduce(a, &q), s = x_sin_small(r), c = x_cos_small(r);
    double n = q & 1 ? -c : s, d = q & 1 ? s : c;

    return a == 0 ? a : (float)(n / d);
}

static inline float f32_atan(float a) { return (float)x_sign_of(x_atan_positive(x_abs(a)), a); }

static inline float f32_asin(float a)
{
    double x = x_abs(a);

    return (float)x_sign_of(x_atan_positive(x / sqrt((1 - x) * (1 + x))), a);
}

static inline float f32_acos(float a)
{
    double x = x_abs(a), y = x_atan_positive(sqrt((1 - x) * (1 + x)) / x);

    return (float)(a < 0 ? M_PI - y : y);
}

static inline float f32_sinh(float a)
{
    double x = x_abs(a), e = x_expm1(x);

    return (float)x_sign_of((e + e / (e + 1)) * 0.5, a);
}

static inline float f32_cosh(float a)
{
    double e = x_exp(x_abs(a));

    return (float)((e + 1 / e) * 0.5);
}

static inline float f32_tanh(float a)
{
    double x = x_abs(a), e = x_expm1(2 * (x > 20 ? 20 : x));

    return (float)x_sign_of(e / (e + 2), a);
}

static inline float f32_asinh(float a)
{
    double x = x_abs(a), y = x_log1p(x + x * x / (1 + sqrt(1 + x * x)));

    y = x == (double)INFINITY ? x : y;
    return (float)x_sign_of(y, a);
}

static inline float f32_acosh(float a)
{
    double t = (double)a - 1, y = x_log1p(t + sqrt(t * (t + 2)));

    return (float)(a < 1 ? (double)NAN : y);
}

static inline float f32_atanh(float a)
{
    double x = x_abs(a), y = 0.5 * x_log1p(2 * x / (1 - x));

    return (float)x_sign_of(x > 1 ? (double)NAN : y, a);
}

static inline float f32_erf(float a)
{
    double x = x_abs(a), big = 1 - x_erfc_large(x < 1 ? 1 : x), small = x_erf_small(x > 1 ? 1 : x);

    return (float)x_sign_of(x <= 1 ? small : big, a);
}

static inline float f32_erfc(float a)
{
    double x = x_abs(a), big = x_erfc_large(x < 1 ? 1 : x), small = 1 - x_erf_small(x > 1 ? 1 : x);
    double y = x <= 1 ? small : big;

    y = x > 11 ? 0 : y;                             /* NaN stays: x_erfc_large keeps it */
    return (float)(a < 0 ? 2 - y : y);
}

static inline float f32_sigmoid(float a) { return (float)(1 / (1 + x_exp(-(double)a))); }

static inline float f32_pow(float a, float b)
{
    double x = x_abs(a), y = b, l = x_log2(x), r = x_exp2(y * l);
    double half = y * 0.5;
    bool whole = rint(y) == y, odd = whole && rint(half) != half, negative = f_bits(a) >> 31;

    r = negative && odd ? -r : r;
    r = a < 0 && !whole && x < (double)INFINITY ? (double)NAN : r;
    r = x == 1 && x_abs(y) == (double)INFINITY ? 1 : r;
    r = a == 1 || b == 0 ? 1 : r;
    return (float)r;
}

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
float f32_atan2(float a, float b);
float f32_mod(float a, float b);
float f32_floordiv(float a, float b);
double f64_rsqrt(double a);
double f64_sigmoid(double a);
double f64_erfinv(double a);
double f64_lgamma(double a);
double f64_digamma(double a);
double f64_mod(double a, double b);
double f64_floordiv(double a, double b);
double _Complex c128_div(double _Complex a, double _Complex b);
double _Complex c128_sign(double _Complex a);
double _Complex c128_pow(double _Complex a, double _Complex b);

/* a * b + c for floats narrower than f32: the f32 rounded to odd, which rounds on to them without a second error. */
float f32_fma_odd(float a, float b, float c);

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

#define f64_fabs x_abs
#define f64_exp exp
#define f64_exp2 exp2
#define f64_expm1 expm1
#define f64_log log
#define f64_log2 log2
#define f64_log10 log10
#define f64_log1p log1p
#define f64_sqrt sqrt
#define f64_sin sin
#define f64_cos cos
#define f64_tan tan
#define f64_asin asin
#define f64_acos acos
#define f64_atan atan
#define f64_sinh sinh
#define f64_cosh cosh
#define f64_tanh tanh
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
#define f64_pow pow
#define f64_atan2 atan2

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
#define c128_fabs x_abs
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
    if (b == 0 || b == -1)
        return b ? (int64_t)(0 - (uint64_t)a) : 0;
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static inline int64_t int_mod(int64_t a, int64_t b)
{
    if (b == 0 || b == -1)
        return 0;
    int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

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
static inline uint64_t uint_floordiv(uint64_t a, uint64_t b) { return b ? a / b : 0; }
static inline uint64_t uint_mod(uint64_t a, uint64_t b) { return b ? a % b : 0; }
#define uint_pow int_pow

#endif
