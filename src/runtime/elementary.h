/*
 * elementary.h - the functions that f32 and f64 have different ways for (included by scalar.h).
 *
 * tanh and erf of f32 are half as long as what elementary_real.def would make of them, and less exact.  The others,
 * which programs call rarely, compute in double, without branches, tables or divisions wider than f32, so that
 * compilers vectorise them; what elementary_real.def says of bits holds here, too.  Their polynomials are minimax fits
 * with relative errors of 2^-34 and less, which leaves results within 0.51 ULP.
 */
#ifndef TSR_RUNTIME_ELEMENTARY_H
#define TSR_RUNTIME_ELEMENTARY_H

#define X_MAGIC 0x1.8p52            /* adding it leaves a small number's nearest integer in the low bits */

/* 1 / d for 2^-126 <= |d| <= 2^126: a division in f32, then one step of Newton's; good to 2^-46. */
static inline double x_recip(double d)
{
    double r = 1.0f / (float)d;

    return f64_fma(r, f64_fma(-d, r, 1), r);
}

/* sqrt(v) for v = 0 or 2^-60 <= v <= 2^60, likewise. */
static inline double x_sqrt(double v)
{
    float f = sqrtf((float)v);
    double s = f, half = 0.5f / (f + 0x1p-100f);

    return f64_fma(f64_fma(-s, s, v), half, s);
}

/* ---- exponentials ---- */

/* e^r - 1 for |r| <= ln2 / 2. */
static inline double x_expm1_small(double r)
{
    double p = 0x1.9f089017d26c1p-13;

    p = f64_fma(p, r, 0x1.6d8d073ae424ep-10);
    p = f64_fma(p, r, 0x1.111270b7bb6e1p-7);
    p = f64_fma(p, r, 0x1.55548dc40b3ccp-5);
    p = f64_fma(p, r, 0x1.5555544338cfcp-3);
    p = f64_fma(p, r, 0x1.0000003a23d72p-1);
    return f64_fma(r * r, p, r);
}

/* For |x| <= 700. */
static inline double x_exp(double x)
{
    double s, r = f64_exp_reduce(x, &s).hi, p = f64_pow2(s, 0);

    return f64_fma(x_expm1_small(r), p, p);
}

/* ---- logarithms ---- */

/* log(1 + f), 2^-35. */
static inline double x_log_small(double f)
{
    double p = 0x1.b6fa14e16f708p-5;

    p = f64_fma(p, f, -0x1.9459d395677aap-4);
    p = f64_fma(p, f, 0x1.9a3b088656a0ep-4);
    p = f64_fma(p, f, -0x1.969f7b85cede9p-4);
    p = f64_fma(p, f, 0x1.c2f4256604422p-4);
    p = f64_fma(p, f, -0x1.ffe4db30f27ffp-4);
    p = f64_fma(p, f, 0x1.24abbfc7f6631p-3);
    p = f64_fma(p, f, -0x1.5556b36ac268ep-3);
    p = f64_fma(p, f, 0x1.999910e41f691p-3);
    p = f64_fma(p, f, -0x1.fffff90f39ed2p-3);
    p = f64_fma(p, f, 0x1.555555cf5a466p-2);
    p = f64_fma(p, f, -0x1.00000001d92a5p-1);
    return f64_fma(f * f, p, f);
}

/* Of positive finite numbers; the callers see to the ends. */
static inline double x_log(double x)
{
    double k, f = f64_split(x, &k);

    return f64_fma(k, M_LN2, x_log_small(f));
}

static inline double x_log1p(double x)
{
    double u = 1 + x, k, f = f64_split(u, &k);

    f = k == 0 ? x : f;                             /* what rounding 1 + x lost counts near 1 only */
    return f64_fma(k, M_LN2, x_log_small(f));
}

/* ---- circular functions ---- */

/* sin of |r| <= pi / 2. */
static inline double x_sin_small(double r)
{
    double z = r * r, p = -0x1.9a678e2ea9dcbp-26;

    p = f64_fma(p, z, 0x1.71707567633b1p-19);
    p = f64_fma(p, z, -0x1.a017d94f4fd26p-13);
    p = f64_fma(p, z, 0x1.11110c49124e2p-7);
    p = f64_fma(p, z, -0x1.5555554766023p-3);
    return f64_fma(r * z, p, r);
}

/* sin(x + shift pi), shift 0 or 1/2: x less the nearest multiple of pi, whose parity is the sign. */
static inline double x_sin(double x, double shift)
{
    double s = f64_fma(x, M_1_PI, shift) + X_MAGIC, n = s - X_MAGIC - shift;
    double r = f64_fma(-n, 0x1.1a62633145c07p-53, f64_fma(-n, M_PI, x));

    return d_of(d_bits(x_sin_small(r)) ^ d_bits(s) << 63);
}

/* atan of |t| <= sqrt(2) - 1. */
static inline double x_atan_small(double t)
{
    double z = t * t, p = 0x1.84f5a21cf60d8p-5;

    p = f64_fma(p, z, -0x1.5b456446d68b6p-4);
    p = f64_fma(p, z, 0x1.c468014015e3fp-4);
    p = f64_fma(p, z, -0x1.247f06778f451p-3);
    p = f64_fma(p, z, 0x1.99991a47d9716p-3);
    p = f64_fma(p, z, -0x1.555554c8979a0p-2);
    return f64_fma(t * z, p, t);
}

/* asin of 0 <= x <= 1; beyond 1/2, *big says so and the result is that of sqrt((1 - x) / 2). */
static inline double x_asin_part(double x, bool *big)
{
    bool far = x > 0.5;
    double v = far ? (1 - x) * 0.5 : x * x, s = far ? x_sqrt(v) : x, p = 0x1.1c3b81bf3f8d5p-5;

    *big = far;
    p = f64_fma(p, v, 0x1.e9515e3522cf5p-8);
    p = f64_fma(p, v, 0x1.935c803860b9cp-6);
    p = f64_fma(p, v, 0x1.ed52ff5c0d6e2p-6);
    p = f64_fma(p, v, 0x1.6ddb2c42c030ep-5);
    p = f64_fma(p, v, 0x1.3332a7ef2b705p-4);
    p = f64_fma(p, v, 0x1.555556093dec8p-3);
    return f64_fma(s * v, p, s);
}

/* ---- the error function ---- */

/* erf on [-1, 1]: fit of erf(x)/x in x^2, 5e-16. */
static inline double x_erf_small(double x)
{
    double z = x * x, p = 9.428596956834164e-09;

    p = f64_fma(p, z, -1.5188281247335167e-07);
    p = f64_fma(p, z, 1.631035651387174e-06);
    p = f64_fma(p, z, -1.4913300906316395e-05);
    p = f64_fma(p, z, 0.00012054681918310599);
    p = f64_fma(p, z, -0.0008548304871782741);
    p = f64_fma(p, z, 0.005223977154105304);
    p = f64_fma(p, z, -0.026866170586496874);
    p = f64_fma(p, z, 0.11283791670580423);
    p = f64_fma(p, z, -0.376126389031744);
    p = f64_fma(p, z, 1.1283791670955121);
    return x * p;
}

/* erfc on [0.9, 11]: exp(-x^2) / (1 + x) times a fit in (x - 3) / (x + 3), 2e-12. */
static inline double x_erfc_large(double x)
{
    x = x > 11 ? 11 : x;
    double r = x_recip((x + 3) * (x + 1)), t = (x - 3) * (x + 1) * r, p = -2.7978212336834124e-06;

    p = f64_fma(p, t, 4.818808677466726e-05);
    p = f64_fma(p, t, -1.9342656969214573e-05);
    p = f64_fma(p, t, -0.0003643979424878819);
    p = f64_fma(p, t, 0.0006454206762324719);
    p = f64_fma(p, t, 0.0016180525745722435);
    p = f64_fma(p, t, -0.009750631751712358);
    p = f64_fma(p, t, 0.021957809381174476);
    p = f64_fma(p, t, -0.023803916847914015);
    p = f64_fma(p, t, -0.010235390619909236);
    p = f64_fma(p, t, 0.09902075376688416);
    p = f64_fma(p, t, -0.23092733306503688);
    p = f64_fma(p, t, 0.7160046047252345);
    return x_exp(-x * x) * p * ((x + 3) * r);
}

/* ---- the functions ---- */

static inline double f64_tanh(double a)
{
    double x = f64_fabs(a);
    PairF64 e = f64_quarter_expm1(-2 * f64_within(x, 0, 20)), d = f64_sum(0.5, e.hi);

    d.lo += e.lo;
    return f64_sign_of(x < 0x1p-54 ? x : f64_rounded(f64_quotient(e, d)), a);
}

/* e^x = p + p m for |x| < 80: m, and p, a power of two. */
static inline float f32_exp_parts(float x, float *p)
{
    float s, r = f32_exp_reduce(x, &s).hi;

    *p = f32_pow2(s, 0);
    return f32_fma(r * r, f32_fma(f32_exp_poly(r), r, 0.5f), r);
}

/* Up to 1 a fit; beyond, 1 - 2 / (1 + e^2x), whose second term is below a quarter. */
static inline float f32_tanh(float a)
{
    float x = f32_fabs(a), z = x * x, p, m = f32_exp_parts(f32_within(2 * x, 0, 20), &p);
    float small = f32_fma(x * z, f32_tanh_poly(z), x), large = f32_fma(-2, 1 / f32_fma(m, p, p + 1), 1);

    return f32_sign_of(x < 1 ? small : large, a);
}

/* Up to 1 a fit; beyond, 1 - e^q. */
static inline float f32_erf(float a)
{
    float x = f32_fabs(a), t = f32_within(x, 0, 4), p, m = f32_exp_parts(f32_fma(t, f32_erfc_poly(t), -t), &p);
    float small = f32_fma(x, f32_erf_poly(x * x), x), large = f32_fma(-m, p, 1 - p);

    return f32_sign_of(x < 1 ? small : large, a);
}

static inline float f32_asin(float a)
{
    bool big;
    double y = x_asin_part(f64_fabs(a), &big);

    return (float)f64_sign_of(big ? f64_fma(-2, y, M_PI_2) : y, a);
}

static inline float f32_acos(float a)
{
    bool big;
    double y = x_asin_part(f64_fabs(a), &big), s = f64_sign_of(y, a);

    return (float)(big ? (a < 0 ? f64_fma(-2, y, M_PI) : 2 * y) : M_PI_2 - s);
}

/* The angle of the point (b, a), by the smaller over the larger of the two. */
static inline float f32_atan2(float a, float b)
{
    double y = f64_fabs(a), x = f64_fabs(b), lo = y < x ? y : x, hi = y < x ? x : y;

    lo = hi < (double)INFINITY ? lo : lo < (double)INFINITY ? 0 : 1;
    hi = hi < (double)INFINITY ? hi : 1;
    hi = hi == 0 ? 1 : hi;
    bool near = lo > 0x1.a827999fcef32p-2 * hi;
    double t = (near ? lo - hi : lo) / (near ? lo + hi : hi), r = x_atan_small(t) + (near ? M_PI_4 : 0);
    r = y > x ? M_PI_2 - r : r;
    r = d_bits(b) >> 63 ? M_PI - r : r;
    r = a != a || b != b ? (double)NAN : r;
    return (float)f64_sign_of(r, a);
}

static inline float f32_asinh(float a)
{
    double x = f64_fabs(a), y = x_log1p(x + x * x / (1 + sqrt(f64_fma(x, x, 1))));

    return a - a == 0 ? (float)f64_sign_of(y, a) : a; /* infinity, NaN */
}

static inline float f32_acosh(float a)
{
    double t = (double)a - 1, y = x_log1p(t + sqrt(t * (t + 2)));

    return a < 1 ? NAN : a < INFINITY ? (float)y : a;
}

static inline float f32_atanh(float a)
{
    double x = f64_fabs(a), y = 0.5 * x_log1p(x < 1 ? 2 * x / (1 - x) : 0);

    return x < 1 ? (float)f64_sign_of(y, a) : x == 1 ? a * INFINITY : NAN;
}

static inline float f32_erfc(float a)
{
    double x = f64_fabs(a), big = x_erfc_large(x < 1 ? 1 : x), small = 1 - x_erf_small(x > 1 ? 1 : x);
    double y = x <= 1 ? small : big;

    y = x > 11 ? 0 : y;                             /* NaN stays: x_erfc_large keeps it */
    return (float)(a < 0 ? 2 - y : y);
}

#endif
