/*
 * elementary.h - f32 exp, log, sin and their like (included by scalar.h).
 *
 * They are Tessera's own.  They compute in double, without branches, tables or
 * divisions wider than f32, so that compilers vectorise them; additions and
 * multiplications fuse only where x_fma says so, so every instruction set, lane
 * and alignment gives the same bits (without an FMA instruction slowly).  The
 * polynomials are minimax fits with relative errors of 2^-34 and less, which
 * leaves results within 0.51 ULP (tests/unit/scalar.c measures).
 */
#ifndef TSR_RUNTIME_ELEMENTARY_H
#define TSR_RUNTIME_ELEMENTARY_H

#define X_MAGIC 0x1.8p52            /* adding it leaves a small number's nearest integer in the low bits */

static inline double x_fma(double a, double b, double c) { return __builtin_fma(a, b, c); }

/* 1 / d for 2^-126 <= |d| <= 2^126: a division in f32, then one step of Newton's; good to 2^-46. */
static inline double x_recip(double d)
{
    double r = 1.0f / (float)d;

    return x_fma(r, x_fma(-d, r, 1), r);
}

/* sqrt(v) for v = 0 or 2^-60 <= v <= 2^60, likewise. */
static inline double x_sqrt(double v)
{
    float f = sqrtf((float)v);
    double s = f, half = 0.5f / (f + 0x1p-100f);

    return x_fma(x_fma(-s, s, v), half, s);
}

/* ---- exponentials ---- */

/* e^r - 1 for |r| <= ln2 / 2. */
static inline double x_expm1_small(double r)
{
    double p = 0x1.9f089017d26c1p-13;

    p = x_fma(p, r, 0x1.6d8d073ae424ep-10);
    p = x_fma(p, r, 0x1.111270b7bb6e1p-7);
    p = x_fma(p, r, 0x1.55548dc40b3ccp-5);
    p = x_fma(p, r, 0x1.5555544338cfcp-3);
    p = x_fma(p, r, 0x1.0000003a23d72p-1);
    return x_fma(r * r, p, r);
}

/* 2^k from the bits of k + X_MAGIC. */
static inline double x_pow2(double shifted) { return d_of((d_bits(shifted) + 1023) << 52); }

/* NaN stays. */
static inline float f_clamp(float x, float lo, float hi)
{
    x = lo > x ? lo : x;
    return hi < x ? hi : x;
}

/* x = n ln2 + r: r, and n + X_MAGIC. */
static inline double x_exp_reduce(double x, double *shifted)
{
    double s = x_fma(x, M_LOG2E, X_MAGIC), n = s - X_MAGIC;

    *shifted = s;
    return x_fma(-n, 0x1.abc9e3b39803fp-56, x_fma(-n, M_LN2, x));
}

/* For |x| <= 700, as the two below. */
static inline double x_exp(double x)
{
    double s, r = x_exp_reduce(x, &s), p = x_pow2(s);

    return x_fma(x_expm1_small(r), p, p);
}

static inline double x_expm1(double x)
{
    double s, r = x_exp_reduce(x, &s), p = x_pow2(s);

    return x_fma(x_expm1_small(r), p, p - 1);
}

static inline double x_exp2(double x)
{
    double s = x + X_MAGIC, n = s - X_MAGIC, p = x_pow2(s);

    return x_fma(x_expm1_small((x - n) * M_LN2), p, p);
}

/* ---- logarithms ---- */

/* Positive normal x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)). */
static inline double x_split(double x, double *k)
{
    uint64_t u = d_bits(x), t = u - 0x3fe6a09e667f3bcd + ((uint64_t)1024 << 52);

    *k = d_of(0x4330000000000000 | t >> 52) - (0x1p52 + 1024);
    return d_of(u - ((t & 0xfff0000000000000) - ((uint64_t)1024 << 52))) - 1;
}

/* log(1 + f), 2^-35. */
static inline double x_log_small(double f)
{
    double p = 0x1.b6fa14e16f708p-5;

    p = x_fma(p, f, -0x1.9459d395677aap-4);
    p = x_fma(p, f, 0x1.9a3b088656a0ep-4);
    p = x_fma(p, f, -0x1.969f7b85cede9p-4);
    p = x_fma(p, f, 0x1.c2f4256604422p-4);
    p = x_fma(p, f, -0x1.ffe4db30f27ffp-4);
    p = x_fma(p, f, 0x1.24abbfc7f6631p-3);
    p = x_fma(p, f, -0x1.5556b36ac268ep-3);
    p = x_fma(p, f, 0x1.999910e41f691p-3);
    p = x_fma(p, f, -0x1.fffff90f39ed2p-3);
    p = x_fma(p, f, 0x1.555555cf5a466p-2);
    p = x_fma(p, f, -0x1.00000001d92a5p-1);
    return x_fma(f * f, p, f);
}

/* log(1 + f), 2^-46: powers multiply its error. */
static inline double x_log_small_wide(double f)
{
    double p = 0x1.2a132a7a2f902p-5;

    p = x_fma(p, f, -0x1.33e4c3219df6cp-4);
    p = x_fma(p, f, 0x1.3f800fe33f14ap-4);
    p = x_fma(p, f, -0x1.24d6dcb2f0f07p-4);
    p = x_fma(p, f, 0x1.3425a87e2b455p-4);
    p = x_fma(p, f, -0x1.5476a6b357ac4p-4);
    p = x_fma(p, f, 0x1.74ddeaba7b48fp-4);
    p = x_fma(p, f, -0x1.99b05f2d30981p-4);
    p = x_fma(p, f, 0x1.c71767583c212p-4);
    p = x_fma(p, f, -0x1.fffefe9e29cb4p-4);
    p = x_fma(p, f, 0x1.249256af51798p-3);
    p = x_fma(p, f, -0x1.555558080be5cp-3);
    p = x_fma(p, f, 0x1.9999997617dbfp-3);
    p = x_fma(p, f, -0x1.fffffff9ea474p-3);
    p = x_fma(p, f, 0x1.55555555662e0p-2);
    p = x_fma(p, f, -0x1.0000000000ecbp-1);
    return x_fma(f * f, p, f);
}

/* The ends of every logarithm: log 0 = -inf, of negative numbers NaN. */
static inline float f_log_ends(float x, float y)
{
    y = x > 0 ? y : x == 0 ? -INFINITY : NAN;
    return x < INFINITY ? y : x;                    /* also NaN */
}

/* Of positive finite numbers; the callers see to the ends. */
static inline double x_log(double x)
{
    double k, f = x_split(x, &k);

    return x_fma(k, M_LN2, x_log_small(f));
}

static inline double x_log2(double x)
{
    double k, f = x_split(x, &k);

    return x_fma(x_log_small(f), M_LOG2E, k);
}

static inline double x_log2_wide(double x)
{
    double k, f = x_split(x, &k);

    return x_fma(x_log_small_wide(f), M_LOG2E, k);
}

static inline double x_log1p(double x)
{
    double u = 1 + x, k, f = x_split(u, &k);

    f = k == 0 ? x : f;                             /* what rounding 1 + x lost counts near 1 only */
    return x_fma(k, M_LN2, x_log_small(f));
}

/* ---- circular functions ---- */

/* Up to here n pi stays exact enough; beyond, the loops call far_sin and its like instead. */
#define X_TRIG_MAX 0x1p27f

/* sin of |r| <= pi / 2. */
static inline double x_sin_small(double r)
{
    double z = r * r, p = -0x1.9a678e2ea9dcbp-26;

    p = x_fma(p, z, 0x1.71707567633b1p-19);
    p = x_fma(p, z, -0x1.a017d94f4fd26p-13);
    p = x_fma(p, z, 0x1.11110c49124e2p-7);
    p = x_fma(p, z, -0x1.5555554766023p-3);
    return x_fma(r * z, p, r);
}

/* cos of |r| <= pi / 4. */
static inline double x_cos_small(double r)
{
    double z = r * r, p = 1 / 479001600.0;

    p = x_fma(p, z, -1 / 3628800.0);
    p = x_fma(p, z, 1 / 40320.0);
    p = x_fma(p, z, -1 / 720.0);
    p = x_fma(p, z, 1 / 24.0);
    return x_fma(z * z, p, x_fma(-0.5, z, 1));
}

/* sin(x + shift pi), shift 0 or 1/2: x less the nearest multiple of pi, whose parity is the sign. */
static inline double x_sin(double x, double shift)
{
    double s = x_fma(x, M_1_PI, shift) + X_MAGIC, n = s - X_MAGIC - shift;
    double r = x_fma(-n, 0x1.1a62633145c07p-53, x_fma(-n, M_PI, x));

    return d_of(d_bits(x_sin_small(r)) ^ d_bits(s) << 63);
}

static inline double x_tan(double x)
{
    double t = x_fma(x, M_2_PI, X_MAGIC), n = t - X_MAGIC;
    double r = x_fma(-n, 0x1.1a62633145c07p-54, x_fma(-n, M_PI_2, x)), s = x_sin_small(r), c = x_cos_small(r);
    bool odd = d_bits(t) & 1;

    return (odd ? -c : s) * x_recip(odd ? s : c);
}

/* atan of |t| <= sqrt(2) - 1. */
static inline double x_atan_small(double t)
{
    double z = t * t, p = 0x1.84f5a21cf60d8p-5;

    p = x_fma(p, z, -0x1.5b456446d68b6p-4);
    p = x_fma(p, z, 0x1.c468014015e3fp-4);
    p = x_fma(p, z, -0x1.247f06778f451p-3);
    p = x_fma(p, z, 0x1.99991a47d9716p-3);
    p = x_fma(p, z, -0x1.555554c8979a0p-2);
    return x_fma(t * z, p, t);
}

/* atan on [0, inf]: about 0, pi / 4 or pi / 2. */
static inline double x_atan_positive(double x)
{
    x = x > 0x1p100 ? 0x1p100 : x;
    double n = x > 0x1.3504f333f9de6p+1 ? -1 : x > 0x1.a827999fcef32p-2 ? x - 1 : x;
    double d = x > 0x1.3504f333f9de6p+1 ? x : x > 0x1.a827999fcef32p-2 ? x + 1 : 1;
    double from = x > 0x1.3504f333f9de6p+1 ? M_PI_2 : x > 0x1.a827999fcef32p-2 ? M_PI_4 : 0;

    return from + x_atan_small(n * x_recip(d));
}

/* asin of 0 <= x <= 1; beyond 1/2, *big says so and the result is that of sqrt((1 - x) / 2). */
static inline double x_asin_part(double x, bool *big)
{
    bool far = x > 0.5;
    double v = far ? (1 - x) * 0.5 : x * x, s = far ? x_sqrt(v) : x, p = 0x1.1c3b81bf3f8d5p-5;

    *big = far;
    p = x_fma(p, v, 0x1.e9515e3522cf5p-8);
    p = x_fma(p, v, 0x1.935c803860b9cp-6);
    p = x_fma(p, v, 0x1.ed52ff5c0d6e2p-6);
    p = x_fma(p, v, 0x1.6ddb2c42c030ep-5);
    p = x_fma(p, v, 0x1.3332a7ef2b705p-4);
    p = x_fma(p, v, 0x1.555556093dec8p-3);
    return x_fma(s * v, p, s);
}

/* ---- the error function ---- */

/* erf on [-1, 1]: fit of erf(x)/x in x^2, 5e-16. */
static inline double x_erf_small(double x)
{
    double z = x * x, p = 9.428596956834164e-09;

    p = x_fma(p, z, -1.5188281247335167e-07);
    p = x_fma(p, z, 1.631035651387174e-06);
    p = x_fma(p, z, -1.4913300906316395e-05);
    p = x_fma(p, z, 0.00012054681918310599);
    p = x_fma(p, z, -0.0008548304871782741);
    p = x_fma(p, z, 0.005223977154105304);
    p = x_fma(p, z, -0.026866170586496874);
    p = x_fma(p, z, 0.11283791670580423);
    p = x_fma(p, z, -0.376126389031744);
    p = x_fma(p, z, 1.1283791670955121);
    return x * p;
}

/* erfc on [0.9, 11]: exp(-x^2) / (1 + x) times a fit in (x - 3) / (x + 3), 2e-12. */
static inline double x_erfc_large(double x)
{
    x = x > 11 ? 11 : x;
    double r = x_recip((x + 3) * (x + 1)), t = (x - 3) * (x + 1) * r, p = -2.7978212336834124e-06;

    p = x_fma(p, t, 4.818808677466726e-05);
    p = x_fma(p, t, -1.9342656969214573e-05);
    p = x_fma(p, t, -0.0003643979424878819);
    p = x_fma(p, t, 0.0006454206762324719);
    p = x_fma(p, t, 0.0016180525745722435);
    p = x_fma(p, t, -0.009750631751712358);
    p = x_fma(p, t, 0.021957809381174476);
    p = x_fma(p, t, -0.023803916847914015);
    p = x_fma(p, t, -0.010235390619909236);
    p = x_fma(p, t, 0.09902075376688416);
    p = x_fma(p, t, -0.23092733306503688);
    p = x_fma(p, t, 0.7160046047252345);
    return x_exp(-x * x) * p * ((x + 3) * r);
}

/* ---- f32 ---- */

static inline float f32_fabs(float a) { return f_of(f_bits(a) & 0x7fffffff); }
static inline float f32_exp(float a) { return (float)x_exp(f_clamp(a, -110, 90)); }
static inline float f32_exp2(float a) { return (float)x_exp2(f_clamp(a, -160, 130)); }
static inline float f32_expm1(float a) { return a == 0 ? a : (float)x_expm1(f_clamp(a, -110, 90)); }
static inline float f32_log(float a) { return f_log_ends(a, (float)x_log(a)); }
static inline float f32_log2(float a) { return f_log_ends(a, (float)x_log2(a)); }
static inline float f32_log10(float a) { return f_log_ends(a, (float)(x_log2(a) * 0.30102999566398119521)); }

static inline float f32_sqrt(float a) { return sqrtf(a); }
static inline float f32_floor(float a) { return floorf(a); }
static inline float f32_ceil(float a) { return ceilf(a); }
static inline float f32_rint(float a) { return rintf(a); }
static inline float f32_trunc(float a) { return truncf(a); }
static inline float f32_fma(float a, float b, float c) { return fmaf(a, b, c); }

static inline float f32_log1p(float a)
{
    float y = (float)x_log1p(a);

    y = a > -1 ? y : a == -1 ? -INFINITY : NAN;
    return a == 0 || a == INFINITY ? a : a != a ? a : y;
}

/* f32 to start with, and one step of Newton's. */
static inline float f32_rsqrt(float a)
{
    float f = 1 / sqrtf(a);
    double r = f, e = x_fma(-(double)a * r, r, 1), y = x_fma(r * 0.5, e, r);

    return e == e ? (float)y : f;                   /* 0 and infinity: 0 times infinity */
}

static inline float f32_sin(float a) { return a == 0 ? a : (float)x_sin(a, 0); }
static inline float f32_cos(float a) { return (float)x_sin(a, 0.5); }
static inline float f32_tan(float a) { return a == 0 ? a : (float)x_tan(a); }
static inline float f32_atan(float a) { return (float)x_sign_of(x_atan_positive(x_abs(a)), a); }

static inline float f32_asin(float a)
{
    bool big;
    double y = x_asin_part(x_abs(a), &big);

    return (float)x_sign_of(big ? x_fma(-2, y, M_PI_2) : y, a);
}

static inline float f32_acos(float a)
{
    bool big;
    double y = x_asin_part(x_abs(a), &big), s = x_sign_of(y, a);

    return (float)(big ? (a < 0 ? x_fma(-2, y, M_PI) : 2 * y) : M_PI_2 - s);
}

/* The angle of the point (b, a), by the smaller over the larger of the two. */
static inline float f32_atan2(float a, float b)
{
    double y = x_abs(a), x = x_abs(b), lo = y < x ? y : x, hi = y < x ? x : y;

    lo = hi < (double)INFINITY ? lo : lo < (double)INFINITY ? 0 : 1;
    hi = hi < (double)INFINITY ? hi : 1;
    hi = hi == 0 ? 1 : hi;
    bool near = lo > 0x1.a827999fcef32p-2 * hi;
    double t = (near ? lo - hi : lo) / (near ? lo + hi : hi), r = x_atan_small(t) + (near ? M_PI_4 : 0);
    r = y > x ? M_PI_2 - r : r;
    r = d_bits(b) >> 63 ? M_PI - r : r;
    r = a != a || b != b ? (double)NAN : r;
    return (float)x_sign_of(r, a);
}

static inline float f32_sinh(float a)
{
    double e = x_expm1(f_clamp(f32_fabs(a), 0, 100));

    return (float)x_sign_of(x_fma(e, x_recip(e + 1), e) * 0.5, a);
}

static inline float f32_cosh(float a)
{
    double e = x_exp(f_clamp(f32_fabs(a), 0, 100));

    return (float)((e + x_recip(e)) * 0.5);
}

static inline float f32_tanh(float a)
{
    double e = x_expm1(2 * f_clamp(f32_fabs(a), 0, 20));

    return (float)x_sign_of(e * x_recip(e + 2), a);
}

static inline float f32_asinh(float a)
{
    double x = x_abs(a), y = x_log1p(x + x * x / (1 + sqrt(x_fma(x, x, 1))));

    return a - a == 0 ? (float)x_sign_of(y, a) : a; /* infinity, NaN */
}

static inline float f32_acosh(float a)
{
    double t = (double)a - 1, y = x_log1p(t + sqrt(t * (t + 2)));

    return a < 1 ? NAN : a < INFINITY ? (float)y : a;
}

static inline float f32_atanh(float a)
{
    double x = x_abs(a), y = 0.5 * x_log1p(x < 1 ? 2 * x / (1 - x) : 0);

    return x < 1 ? (float)x_sign_of(y, a) : x == 1 ? a * INFINITY : NAN;
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

static inline float f32_sigmoid(float a)
{
    double e = x_exp(-f_clamp(f32_fabs(a), 0, 110));

    return (float)((a < 0 ? e : 1) * x_recip(1 + e));
}

static inline float f32_pow(float a, float b)
{
    double x = x_abs(a), y = b, inf = (double)INFINITY, l = x_log2_wide(x);

    l = x > 0 ? l : -1e300;                         /* of 0; of NaN too, which the end gives back */
    l = x < inf ? l : 1e300;
    double t = y * l, r;
    t = t < -200 ? -200 : t;
    t = t > 200 ? 200 : t;
    r = x_exp2(t);
    uint64_t whole = rint(y) == y, odd = whole & (rint(y * 0.5) != y * 0.5);
    double signed_r = d_of(d_bits(r) ^ (d_bits((double)a) & odd << 63)), low = whole ? signed_r : x < inf ? (double)NAN : r;

    r = a < 0 ? low : signed_r;
    r = x == 1 ? (x_abs(y) == inf ? 1 : r) : r;
    r = a != a || b != b ? (double)NAN : r;
    r = a == 1 ? 1 : r;
    return (float)(b == 0 ? 1 : r);
}

#endif
