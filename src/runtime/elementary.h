/*
 * elementary.h - the functions that f32 and f64 have different ways for (included by scalar.h).
 *
 * Where pairs of f32 would be many operations, f32 computes in double: without branches, tables or divisions wider than
 * f32, so that compilers vectorise it; what elementary_real.def says of bits holds here, too.  Polynomials are minimax
 * fits with relative errors of 2^-31 and less, which leaves results within 0.51 ULP.  tanh, erf and sigmoid of f32 are half as
 * long as that, and less exact.  f64 needs pairs everywhere.
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

/* sqrt(v) for v = 0 or 2^-60 <= v <= 2^60: 1 / sqrt(v) from its bits (Lomont 2003), two steps of Newton's in f32, one in double; 2^-34. */
static inline double x_sqrt(double v)
{
    float f = (float)v, h = 0.5f * f, y = f_of(0x5f375a86 - (f_bits(f) >> 1));

    y *= f32_fma(-h * y, y, 1.5f);
    y *= f32_fma(-h * y, y, 1.5f);
    double d = y, s = v * d;
    return f64_fma(f64_fma(-s, s, v), 0.5 * d, s);
}

/* ---- exponentials ---- */

/* (e^r - 1 - r) / r^2 for |r| <= ln2 / 2. */
POLY(x_exp_poly, double, f64_fma,
    0x1.9f089017d26c1p-13, 0x1.6d8d073ae424ep-10, 0x1.111270b7bb6e1p-7, 0x1.55548dc40b3ccp-5, 0x1.5555544338cfcp-3,
    0x1.0000003a23d72p-1)

/* (sinh r / r - 1) / z and (cosh r - 1) / z for z = r^2, likewise. */
POLY(x_sinh_poly, double, f64_fma,
    0x1.a16f8967810d3p-13, 0x1.1110b209680fcp-7, 0x1.555555735e155p-3)
POLY(x_cosh_poly, double, f64_fma,
    0x1.6d96368c51a4cp-10, 0x1.5554809d2c890p-5, 0x1.00000042e6e5dp-1)

/* x = n ln2 + r for |x| <= 700: n + X_MAGIC, and r. */
static inline double x_exp_reduce(double x, double *shifted)
{
    double s = f64_fma(x, M_LOG2E, X_MAGIC);

    *shifted = s;
    return f64_fma(X_MAGIC - s, M_LN2, x);
}

/* e^r - 1 for a small r. */
static inline double x_expm1_small(double r) { return f64_fma(r * r, x_exp_poly(r), r); }

/* For |x| <= 700. */
static inline double x_exp(double x)
{
    double s, r = x_exp_reduce(x, &s), p = f64_pow2(s, 0);

    return f64_fma(x_expm1_small(r), p, p);
}

/* ---- logarithms ---- */

/* (log(1 + f) - f) / f^2, 2^-35. */
#define X_LOG_POLY \
    0x1.b6fa14e16f708p-5, -0x1.9459d395677aap-4, 0x1.9a3b088656a0ep-4, -0x1.969f7b85cede9p-4, 0x1.c2f4256604422p-4, \
    -0x1.ffe4db30f27ffp-4, 0x1.24abbfc7f6631p-3, -0x1.5556b36ac268ep-3, 0x1.999910e41f691p-3, -0x1.fffff90f39ed2p-3, \
    0x1.555555cf5a466p-2, -0x1.00000001d92a5p-1
POLY(x_log_poly, double, f64_fma, X_LOG_POLY)

static inline double x_log_small(double f) { return f64_fma(f * f, x_log_poly(f), f); }

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

/* (sin r / r - 1) / z for z = r^2, |r| <= pi / 2. */
#define X_SIN_POLY \
    -0x1.9a678e2ea9dcbp-26, 0x1.71707567633b1p-19, -0x1.a017d94f4fd26p-13, 0x1.11110c49124e2p-7, -0x1.5555554766023p-3
POLY(x_sin_poly, double, f64_fma, X_SIN_POLY)

#define X_PI_LOW 0x1.1a62633145c07p-53

/* sin(x + shift pi), shift 0 or 1/2: x less the nearest multiple of pi, whose parity is the sign. */
static inline double x_sin(double x, double shift)
{
    double s = f64_fma(x, M_1_PI, shift) + X_MAGIC, n = s - X_MAGIC - shift;
    double r = f64_fma(-n, X_PI_LOW, f64_fma(-n, M_PI, x)), z = r * r;

    return d_of(d_bits(f64_fma(r * z, x_sin_poly(z), r)) ^ d_bits(s) << 63);
}

/* (atan t / t - 1) / z for z = t^2, |t| <= sqrt(2) - 1. */
POLY(x_atan_poly, double, f64_fma,
    0x1.84f5a21cf60d8p-5, -0x1.5b456446d68b6p-4, 0x1.c468014015e3fp-4, -0x1.247f06778f451p-3, 0x1.99991a47d9716p-3,
    -0x1.555554c8979a0p-2)

/* The angle whose tangent is low / high, for 0 <= low <= high and high scaled by `scale` between 2^-126 and 2^125. */
static inline double x_atan(float low, float high, double scale)
{
    bool near = low > 0x1.a8279ap-2f * high;
    double lo = low * scale, hi = high * scale, t = (near ? lo - hi : lo) * x_recip(near ? lo + hi : hi), z = t * t;

    return f64_fma(t * z, x_atan_poly(z), t) + (near ? M_PI_4 : 0);
}

/* (asin s / s - 1) / v for v = s^2 <= 1/4. */
POLY(x_asin_poly, double, f64_fma,
    0x1.335876ab0f218p-5, 0x1.d9184cea3def8p-7, 0x1.049216ba7ff56p-5, 0x1.6caec4dcc0d1ap-5, 0x1.33387cef6103ep-4,
    0x1.55554c5f0cc92p-3)

/* asin of the smaller of 0 <= x <= 1 and sqrt((1 - x) / 2), which is that one beyond 1/2. */
static inline double x_asin_part(float x)
{
    double root = x_sqrt((1 - x) * 0.5f), s = x < root ? x : root, v = s * s;

    return f64_fma(s * v, x_asin_poly(v), s);
}

/* ---- the error function ---- */

/* erf(x) / x on [-1, 1] in z = x^2, 5e-16. */
POLY(x_erf_poly, double, f64_fma,
    9.428596956834164e-09, -1.5188281247335167e-07, 1.631035651387174e-06, -1.4913300906316395e-05,
    0.00012054681918310599, -0.0008548304871782741, 0.005223977154105304, -0.026866170586496874, 0.11283791670580423,
    -0.376126389031744, 1.1283791670955121)

/* erfc(x) (1 + x) e^(x^2) on [0.9, 11] in (x - 3) / (x + 3), 2e-12. */
POLY(x_erfc_poly, double, f64_fma,
    -2.7978212336834124e-06, 4.818808677466726e-05, -1.9342656969214573e-05, -0.0003643979424878819,
    0.0006454206762324719, 0.0016180525745722435, -0.009750631751712358, 0.021957809381174476, -0.023803916847914015,
    -0.010235390619909236, 0.09902075376688416, -0.23092733306503688, 0.7160046047252345)

static inline double x_erfc_large(double x)
{
    x = x > 11 ? 11 : x;
    double r = x_recip((x + 3) * (x + 1));

    return x_exp(-x * x) * x_erfc_poly((x - 3) * (x + 1) * r) * ((x + 3) * r);
}

/* ---- the functions ---- */

static inline double f64_sinh(double a)
{
    PairF64 e = f64_quarter_expm1(f64_within(f64_fabs(a), 0, 710.5));
    PairF64 d = f64_sum(4 * e.hi > 1 ? 4 * e.hi : 1, 4 * e.hi > 1 ? 1 : 4 * e.hi);
    d.lo = f64_fma(4, e.lo, d.lo);
    PairF64 q = f64_quotient(e, d);
    bool far = e.hi > 0x1p100;          /* q is next to nothing, and 4 e.hi may overflow */
    PairF64 y = f64_sum(e.hi, far ? 0 : q.hi);
    y.lo += far ? 0 : e.lo + q.lo;

    return f64_sign_of(f64_fabs(a) < 0x1p-27 ? a : 2 * f64_rounded(y), a);
}

static inline double f64_tanh(double a)
{
    double x = f64_fabs(a);
    PairF64 e = f64_quarter_expm1(-2 * f64_within(x, 0, 20)), d = f64_sum(0.5, e.hi);

    d.lo += e.lo;
    return f64_sign_of(x < 0x1p-54 ? x : f64_rounded(f64_quotient(e, d)), a);
}

/* With x = n ln2 + r: 2^(n-1) e^r - 2^(-n-1) e^-r, sorted by sinh r and cosh r. */
static inline float f32_sinh(float a)
{
    double s, r = x_exp_reduce(f32_within(a, -90, 90), &s), z = r * r, p = f64_pow2(s, -1), q = d_of((1022 - d_bits(s)) << 52);
    double odd = f64_fma(r * z, x_sinh_poly(z), r), even = f64_fma(z, x_cosh_poly(z), 1);

    return f32_sign_of((float)f64_fma(p + q, odd, (p - q) * even), a);
}

/* e^x 2^more = p + p m for |x| < 80, or as far as p is a normal number: m, and p, a power of two. */
static inline float f32_exp_parts(float x, int more, float *p)
{
    float s, r = f32_exp_reduce(x, &s).hi;

    *p = f32_pow2(s, more);
    return f32_fma(r * r, f32_fma(f32_exp_poly(r), r, 0.5f), r);
}

/* 1 / (1 + e^-a), both numbers by 2^32 smaller: so its inverse is normal where the result is not. What is lost of 1 + p about a = -17 costs most. */
static inline float f32_sigmoid(float a)
{
    float p, m = f32_exp_parts(f32_within(-a, -18, 105), -32, &p);

    return 1 / f32_fma(m, p, p + 0x1p-32f) * 0x1p-32f;
}

/* 1 / (1 + e^-a), e^-a = p (1 + r + tail): 1 + p, then p r, each with what its rounding loses. */
static inline double f64_sigmoid(double a)
{
    double s;
    PairF64 r = f64_exp_reduce(f64_within(-a, -700, 746), &s);
    bool tiny = s > X_MAGIC + 1000;                 /* the result; the denominator would overflow, and its 1 is nothing */
    double p = f64_pow2(s, tiny ? -128 : 0), more = p + 1, lost = (p - more) + 1, d = f64_fma(p, r.hi, more);
    double rest = f64_fma(p, f64_exp_tail(r.hi) + r.lo, f64_fma(p, r.hi, more - d) + lost), y = 1 / (d + rest);

    y = f64_fma(y, f64_fma(-y, rest, f64_fma(-y, d, 1)), y);
    return y * (a < -746 ? 0 : tiny ? 0x1p-128 : 1);
}

/* Up to 1 a fit; beyond, 1 - 2 / (1 + e^2x), whose second term is below a quarter. */
static inline float f32_tanh(float a)
{
    float x = f32_fabs(a), z = x * x, p, m = f32_exp_parts(20 < 2 * x ? 20 : 2 * x, 0, &p);
    float small = f32_fma(x * z, f32_tanh_poly(z), x), large = f32_fma(-2, 1 / f32_fma(m, p, p + 1), 1);

    return f32_sign_of(x < 1 ? small : large, a);
}

/* Up to 1 a fit; beyond, 1 - e^q. */
static inline float f32_erf(float a)
{
    float x = f32_fabs(a), t = f32_within(x, 0, 4), p, m = f32_exp_parts(f32_fma(t, f32_erfc_poly(t), -t), 0, &p);
    float small = f32_fma(x, f32_erf_poly(x * x), x), large = f32_fma(-m, p, 1 - p);

    return f32_sign_of(x < 1 ? small : large, a);
}

static inline float f32_asin(float a)
{
    float x = f32_fabs(a);
    double y = x_asin_part(x);

    return f32_sign_of(x <= 1 ? (float)(x > 0.5f ? f64_fma(-2, y, M_PI_2) : y) : NAN, a);
}

static inline float f32_acos(float a)
{
    float x = f32_fabs(a);
    double y = x_asin_part(x), s = f64_sign_of(y, a), far = a < 0 ? f64_fma(-2, y, M_PI) : 2 * y;

    return x <= 1 ? (float)(x > 0.5f ? far : M_PI_2 - s) : NAN;
}

/* The angle of the point (b, a), by the smaller over the larger of the two, both scaled so that the larger is 1 to 2. */
static inline float f32_atan2(float a, float b)
{
    float y = f32_fabs(a), x = f32_fabs(b), lo = y < x ? y : x, hi = y < x ? x : y, inf = INFINITY;

    lo = hi < inf ? lo : lo < inf ? 0 : 1;
    hi = hi < inf ? hi : 1;
    hi = hi > 0 ? hi : 1;
    double scale = d_of(((uint64_t)2046 << 52) - (d_bits(hi) & (uint64_t)0x7ff << 52)), r = x_atan(lo, hi, scale);
    r = y > x ? M_PI_2 - r : r;
    r = f_bits(b) >> 31 ? M_PI - r : r;
    return f32_sign_of(a != a || b != b ? (float)NAN : (float)r, a);
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
    double x = f64_fabs(a), big = x_erfc_large(x < 1 ? 1 : x), t = x > 1 ? 1 : x, small = 1 - t * x_erf_poly(t * t);
    double y = x <= 1 ? small : big;

    y = x > 11 ? 0 : y;                             /* NaN stays: x_erfc_large keeps it */
    return (float)(a < 0 ? 2 - y : y);
}

#endif
