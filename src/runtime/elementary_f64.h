/*
 * elementary_f64.h - f64 exp, log, sin and their like (included by scalar.h).
 *
 * As in elementary.h: without branches or tables, so that compilers vectorise
 * them, and fused only where x_fma says so, so every instruction set, lane and
 * alignment gives the same bits.  There is no wider type to compute in, so the
 * large term of every result is a Pair, an unevaluated sum that is exact to some
 * 2^-60, and small terms are added to its low half.  The last step rounds once;
 * that leaves results within 0.75 ULP, a few within 1 (tests/unit/scalar_f64.c measures).
 */
#ifndef TSR_RUNTIME_ELEMENTARY_F64_H
#define TSR_RUNTIME_ELEMENTARY_F64_H

typedef struct { double hi, lo; } Pair;

/* a + b exactly, for |a| >= |b| or a = 0. */
static inline Pair w_sum(double a, double b)
{
    double s = a + b;

    return (Pair){s, b - (s - a)};
}

/* a * b, where a.lo is below an ULP of a.hi and so is b's. */
static inline Pair w_mul(Pair a, Pair b)
{
    double p = a.hi * b.hi;

    return (Pair){p, x_fma(a.hi, b.hi, -p) + x_fma(a.hi, b.lo, a.lo * b.hi)};
}

/* n / d; as above. */
static inline Pair w_quot(Pair n, Pair d)
{
    double y = 1 / d.hi, q = n.hi * y, r = x_fma(-q, d.lo, x_fma(-q, d.hi, n.hi) + n.lo);

    return (Pair){q, r * y};
}

/* Rounded. */
static inline double w_round(Pair p) { return p.hi + p.lo; }

/* NaN stays. */
static inline double d_clamp(double x, double lo, double hi)
{
    x = lo > x ? lo : x;
    return hi < x ? hi : x;
}

/* x 2^n for |n| < 2000: rounded where the result is subnormal only. */
static inline double w_scale(double x, double n)
{
    double s = x_fma(n, 0.5, X_MAGIC), m = s - X_MAGIC;

    return x * x_pow2(s) * x_pow2(n - m + X_MAGIC);
}

/* ---- exponentials ---- */

/* e^r - 1 - r for |r| <= ln2 / 2. */
static inline double w_exp_tail(double r)
{
    double p = 0x1.1f66d948a47d2p-29;

    p = x_fma(p, r, 0x1.af389ecfc4b9cp-26);
    p = x_fma(p, r, 0x1.27e4e1f7222cbp-22);
    p = x_fma(p, r, 0x1.71de0db2f6b19p-19);
    p = x_fma(p, r, 0x1.a01a01a47a591p-16);
    p = x_fma(p, r, 0x1.a01a01a7c2efep-13);
    p = x_fma(p, r, 0x1.6c16c16c167e2p-10);
    p = x_fma(p, r, 0x1.11111111109b5p-7);
    p = x_fma(p, r, 0x1.5555555555555p-5);
    p = x_fma(p, r, 0x1.5555555555556p-3);
    p = x_fma(p, r, 0.5);
    return r * r * p;
}

/* x = n ln2 + r, r in two parts; the first subtraction is exact. */
static inline Pair w_exp_reduce(double x, double *n)
{
    *n = x_fma(x, M_LOG2E, X_MAGIC) - X_MAGIC;
    double h = x_fma(-*n, M_LN2, x), r = x_fma(-*n, 0x1.abc9e3b39803fp-56, h);

    return (Pair){r, x_fma(-*n, 0x1.abc9e3b39803fp-56, h - r)};
}

/* e^r for a small r in two parts. */
static inline Pair w_exp_small(Pair r)
{
    Pair e = w_sum(1, r.hi);

    e.lo += w_exp_tail(r.hi) + r.lo;
    return e;
}

/* (e^x - 1) / 4 for -40 <= x <= 710.5: a quarter of it, which does not overflow before sinh does. */
static inline Pair w_quarter_expm1(double x)
{
    double n;
    Pair r = w_exp_reduce(x, &n);
    double p = x_pow2(n + (X_MAGIC - 2)), less = p - 0.25, lost = p > 0.25 ? (p - less) - 0.25 : p - (less + 0.25);
    Pair e = w_sum(less, p * r.hi);

    return w_sum(e.hi, x_fma(p, w_exp_tail(r.hi) + r.lo, e.lo + lost));
}

static inline double f64_exp(double a)
{
    double n;
    Pair e = w_exp_small(w_exp_reduce(d_clamp(a, -746, 710), &n));

    return w_scale(w_round(e), n);
}

static inline double f64_exp2(double a)
{
    double x = d_clamp(a, -1076, 1025), n = (x + X_MAGIC) - X_MAGIC;
    Pair r = w_mul((Pair){x - n, 0}, (Pair){M_LN2, 0x1.abc9e3b39803fp-56}), e = w_exp_small(r);

    return w_scale(w_round(e), n);
}

static inline double f64_expm1(double a)
{
    Pair e = w_quarter_expm1(d_clamp(a, -40, 710));

    return x_abs(a) < 0x1p-54 ? a : 4 * w_round(e);
}

static inline double f64_sinh(double a)
{
    Pair e = w_quarter_expm1(d_clamp(x_abs(a), 0, 710.5));
    Pair d = w_sum(4 * e.hi > 1 ? 4 * e.hi : 1, 4 * e.hi > 1 ? 1 : 4 * e.hi);
    d.lo = x_fma(4, e.lo, d.lo);
    Pair q = w_quot(e, d);
    bool far = e.hi > 0x1p100;                      /* q is next to nothing, and 4 e.hi may overflow */
    Pair y = w_sum(e.hi, far ? 0 : q.hi);
    y.lo += far ? 0 : e.lo + q.lo;

    return x_sign_of(x_abs(a) < 0x1p-27 ? a : 2 * w_round(y), a);
}

static inline double f64_cosh(double a)
{
    double n, x = d_clamp(x_abs(a), 0, 710.5);
    Pair e = w_exp_small(w_exp_reduce(x, &n));
    double p = x_pow2(n + (X_MAGIC - 2));
    e = w_sum(e.hi * p, e.lo * p);

    return 2 * (e.hi + (e.lo + 0.0625 / e.hi));
}

static inline double f64_tanh(double a)
{
    double x = x_abs(a);
    Pair e = w_quarter_expm1(-2 * d_clamp(x, 0, 20)), d = w_sum(0.5, e.hi);

    d.lo += e.lo;
    return x_sign_of(x < 0x1p-54 ? x : w_round(w_quot(e, d)), a);
}

static inline double f64_sigmoid(double a)
{
    double n;
    Pair e = w_exp_small(w_exp_reduce(-d_clamp(x_abs(a), 0, 746), &n));
    e = w_sum(e.hi, e.lo);
    double p = x_pow2((n < -1000 ? -1000 : n) + X_MAGIC);
    Pair d = w_sum(1, e.hi * p);
    d.lo = x_fma(e.lo, p, d.lo);
    double y = w_round(w_quot((Pair){a < 0 ? e.hi : 1, a < 0 ? e.lo : 0}, d));

    return w_scale(y, a < 0 ? n : 0);
}

/* ---- logarithms ---- */

/* As x_split, of subnormal numbers too. */
static inline double w_split(double x, double *k)
{
    bool tiny = x < 0x1p-1022;
    double f = x_split(tiny ? x * 0x1p54 : x, k);

    *k -= tiny ? 54 : 0;
    return f;
}

/* log(1 + f) = f - f^2 / 2 + s (f^2 / 2 + R(s^2)), s = f / (2 + f) (as FreeBSD's e_log.c explains). */
static inline Pair w_log_small(double f)
{
    double s = f / (2 + f), z = s * s, g = 0.5 * f, h = g * f, r = 0x1.2b584aae78a57p-3;

    r = x_fma(r, z, 0x1.39fe606542ddep-3);
    r = x_fma(r, z, 0x1.7462b4ab2ef6bp-3);
    r = x_fma(r, z, 0x1.c71c62e5800a1p-3);
    r = x_fma(r, z, 0x1.2492492df148dp-2);
    r = x_fma(r, z, 0x1.99999999952e2p-2);
    r = x_fma(r, z, 0x1.5555555555558p-1);
    Pair l = w_sum(f, -h);
    l.lo += x_fma(s, x_fma(r, z, h), -x_fma(g, f, -h));
    return l;
}

/* k c + l, where c.hi has few enough digits that k c.hi is exact. */
static inline double w_log_sum(double k, Pair c, Pair l)
{
    Pair s = w_sum(k * c.hi, l.hi);

    return s.hi + (s.lo + x_fma(k, c.lo, l.lo));
}

/* The ends of every logarithm: log 0 = -inf, of negative numbers NaN. */
static inline double d_log_ends(double x, double y)
{
    y = x > 0 ? y : x == 0 ? -(double)INFINITY : (double)NAN;
    return x < (double)INFINITY ? y : x;            /* also NaN */
}

static inline double f64_log(double a)
{
    double k, f = w_split(a, &k);

    return d_log_ends(a, w_log_sum(k, (Pair){0x1.62e42fefa3800p-1, 0x1.ef35793c76730p-45}, w_log_small(f)));
}

static inline double f64_log2(double a)
{
    double k, f = w_split(a, &k);
    Pair l = w_log_small(f);

    l = w_mul(w_sum(l.hi, l.lo), (Pair){M_LOG2E, 0x1.777d0ffda0d24p-56});
    return d_log_ends(a, w_log_sum(k, (Pair){1, 0}, l));
}

static inline double f64_log10(double a)
{
    double k, f = w_split(a, &k);
    Pair l = w_log_small(f);

    l = w_mul(w_sum(l.hi, l.lo), (Pair){0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57});
    return d_log_ends(a, w_log_sum(k, (Pair){0x1.34413509f7800p-2, 0x1.fef311f12b358p-46}, l));
}

static inline double f64_log1p(double a)
{
    double u = 1 + a, lost = x_abs(a) < 1 ? a - (u - 1) : 1 - (u - a), k, f = x_split(u, &k);
    bool near = k == 0;                             /* what rounding 1 + a lost counts beyond */
    Pair l = w_log_small(near ? a : f);

    l.lo += near ? 0 : lost / u;
    double y = w_log_sum(k, (Pair){0x1.62e42fefa3800p-1, 0x1.ef35793c76730p-45}, l);
    y = a > -1 ? y : a == -1 ? -(double)INFINITY : (double)NAN;
    return a == 0 || a == (double)INFINITY ? a : a != a ? a : y;
}

/* ---- powers ---- */

/* log2 of positive finite numbers to 2^-64 of itself: 2 atanh(s), s = f / (2 + f), with the first terms in pairs. */
static inline Pair w_log2(double x)
{
    double k, f = w_split(x, &k), p = 0x1.e02d197c00c78p-5;
    Pair s = w_quot((Pair){f, 0}, w_sum(2, f));
    s = w_sum(s.hi, s.lo);
    Pair z = w_mul(s, s);

    p = x_fma(p, z.hi, 0x1.df7ce9a6bcccbp-5);
    p = x_fma(p, z.hi, 0x1.1118c74823a2ep-4);
    p = x_fma(p, z.hi, 0x1.3b1395d4f9e5fp-4);
    p = x_fma(p, z.hi, 0x1.745d177a8f200p-4);
    p = x_fma(p, z.hi, 0x1.c71c71c6eaa8dp-4);
    p = x_fma(p, z.hi, 0x1.2492492492521p-3);
    Pair t = w_mul(z, w_sum(0x1.999999999999ap-3, p * z.hi)), u = w_sum(0x1.5555555555555p-2, t.hi);
    u.lo += 0x1.5555555555555p-56 + t.lo;
    t = w_mul(z, u);
    u = w_sum(1, t.hi);
    u.lo += t.lo;
    t = w_mul(w_mul(s, u), (Pair){2 * M_LOG2E, 0x1.777d0ffda0d24p-55});
    u = w_sum(k, t.hi);
    return w_sum(u.hi, u.lo + t.lo);
}

/* x^y for x > 0; what is too large or small for an f64 comes out as infinity or 0. */
static inline double w_pow(double x, double y)
{
    Pair t = w_mul((Pair){d_clamp(y, -0x1p65, 0x1p65), 0}, w_log2(x));
    double h = d_clamp(t.hi, -1100, 1100), n = (h + X_MAGIC) - X_MAGIC;
    Pair r = w_mul((Pair){h - n, h == t.hi ? t.lo : 0}, (Pair){M_LN2, 0x1.abc9e3b39803fp-56}), e = w_exp_small(w_sum(r.hi, r.lo));

    return w_scale(w_round(e), n);
}

static inline double f64_pow(double a, double b)
{
    double x = x_abs(a), inf = (double)INFINITY, r = w_pow(x, b), end = (x == 0) == (b > 0) ? 0 : inf;

    r = x == 0 || x == inf ? end : r;
    uint64_t whole = rint(b) == b, odd = whole & (rint(b * 0.5) != b * 0.5);
    double signed_r = d_of(d_bits(r) ^ (d_bits(a) & odd << 63)), low = whole ? signed_r : x < inf ? (double)NAN : r;

    r = a < 0 ? low : signed_r;
    r = x == 1 && x_abs(b) == inf ? 1 : r;
    r = a != a || b != b ? (double)NAN : r;
    return a == 1 || b == 0 ? 1 : r;
}

/* ---- circular functions: up to X_TRIG_MAX, as in elementary.h ---- */

/* x = n pi/2 + r, |r| <= pi / 4, from 159 bits of pi / 2; the low bits of *shifted are n's. */
static inline Pair w_trig_reduce(double x, double *shifted)
{
    double s = x_fma(x, M_2_PI, X_MAGIC), n = s - X_MAGIC;
    double a = x_fma(-n, M_PI_2, x);                /* exact */
    double b = -n * 0x1.1a62633145c07p-54, e = x_fma(-n, 0x1.1a62633145c07p-54, -b);
    double h = a + b, t = h - a, lost = (a - (h - t)) + (b - t);        /* a may be the smaller one */

    *shifted = s;
    return w_sum(h, lost + x_fma(n, 0x1.f1976b7ed8fbcp-110, e));
}

static inline Pair w_sin_small(Pair r)
{
    double z = r.hi * r.hi, p = -0x1.ab17d404de5b3p-41;

    p = x_fma(p, z, 0x1.61217f0b800d5p-33);
    p = x_fma(p, z, -0x1.ae645412c560cp-26);
    p = x_fma(p, z, 0x1.71de3a546095bp-19);
    p = x_fma(p, z, -0x1.a01a01a019938p-13);
    p = x_fma(p, z, 0x1.1111111111110p-7);
    p = x_fma(p, z, -0x1.5555555555555p-3);
    return (Pair){r.hi, x_fma(r.hi * z, p, x_fma(-0.5 * z, r.lo, r.lo))};
}

static inline Pair w_cos_small(Pair r)
{
    double z = r.hi * r.hi, p = -0x1.907da367a37cbp-37;

    p = x_fma(p, z, 0x1.1eeb68e93b64cp-29);
    p = x_fma(p, z, -0x1.27e4fa17da09ep-22);
    p = x_fma(p, z, 0x1.a01a019f4eb01p-16);
    p = x_fma(p, z, -0x1.6c16c16c16967p-10);
    p = x_fma(p, z, 0x1.5555555555555p-5);
    Pair c = w_sum(1, -0.5 * z);
    c.lo += x_fma(z * z, p, -x_fma(0.5, x_fma(r.hi, r.hi, -z), r.hi * r.lo));
    return c;
}

/* sin(x + turns pi/2). */
static inline double w_sin(double x, double turns)
{
    double shifted;
    Pair r = w_trig_reduce(x, &shifted), s = w_sin_small(r), c = w_cos_small(r);
    uint64_t quarter = d_bits(shifted + turns);
    double y = quarter & 1 ? w_round(c) : w_round(s);

    return d_of(d_bits(y) ^ (quarter & 2) << 62);
}

static inline double f64_sin(double a) { return a == 0 ? a : w_sin(a, 0); }
static inline double f64_cos(double a) { return w_sin(a, 1); }

static inline double f64_tan(double a)
{
    double shifted;
    Pair r = w_trig_reduce(a, &shifted), s = w_sin_small(r), c = w_cos_small(r);
    bool odd = d_bits(shifted) & 1;
    s = w_sum(s.hi, s.lo);
    c = w_sum(c.hi, c.lo);
    double y = w_round(w_quot((Pair){odd ? -c.hi : s.hi, odd ? -c.lo : s.lo}, (Pair){odd ? s.hi : c.hi, odd ? s.lo : c.lo}));

    return x_abs(a) < 0x1p-30 ? a : y;
}

/* a where mask is ones, b where it is zero: compilers make branches of this many choices on one condition. */
static inline double w_pick(uint64_t mask, double a, double b) { return d_of((d_bits(a) & mask) | (d_bits(b) & ~mask)); }

/* About 0, pi / 4 or pi / 2, as x_atan_positive. */
static inline double f64_atan(double a)
{
    double x = x_abs(a) > 0x1p100 ? 0x1p100 : x_abs(a);
    uint64_t large = 0 - (uint64_t)(x > 0x1.3504f333f9de6p+1), middle = (0 - (uint64_t)(x > 0x1.a827999fcef32p-2)) & ~large;
    double less = x - 1, u = less - x, more = x + 1, v = more - x;
    Pair n = {w_pick(large, -1, w_pick(middle, less, x)), w_pick(middle, (x - (less - u)) + (-1 - u), 0)};
    Pair d = {w_pick(large, x, w_pick(middle, more, 1)), w_pick(middle, (x - (more - v)) + (1 - v), 0)};
    Pair t = w_quot(n, d);
    double z = t.hi * t.hi, p = 0x1.0ad36a455cafbp-6;

    p = x_fma(p, z, -0x1.1b33b923aa954p-5);
    p = x_fma(p, z, 0x1.74ddd408bb4c1p-5);
    p = x_fma(p, z, -0x1.ac7a938b69c93p-5);
    p = x_fma(p, z, 0x1.e19a13b9fc6dfp-5);
    p = x_fma(p, z, -0x1.110e880a7a521p-4);
    p = x_fma(p, z, 0x1.3b1392d9e785cp-4);
    p = x_fma(p, z, -0x1.745d165df3f95p-4);
    p = x_fma(p, z, 0x1.c71c71c304b68p-4);
    p = x_fma(p, z, -0x1.249249248d7eep-3);
    p = x_fma(p, z, 0x1.9999999999953p-3);
    p = x_fma(p, z, -0x1.5555555555555p-2);
    Pair y = w_sum(w_pick(large, M_PI_2, w_pick(middle, M_PI_4, 0)), t.hi);
    double rest = w_pick(large, 0x1.1a62633145c07p-54, w_pick(middle, 0x1.1a62633145c07p-55, 0));
    y.lo += x_fma(t.hi * z, p, t.lo) + rest;
    return x_sign_of(x < 0x1p-30 ? x : w_round(y), a);
}

#endif
