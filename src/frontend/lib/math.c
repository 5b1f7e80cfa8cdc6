/* The module math, with Python's names, domains and errors; ints stay ints where Python's do. */
#include "frontend/lib/lib.h"

#include "frontend/eval/symint.h"

#include "frontend/syntax/ast.h"

#include <math.h>
#include <stdlib.h>

/* ------------------------------------------------------------- float functions of one argument */

/* f(x); NaN from a number is a domain error, infinity from a finite one is out of range. */
static Value checked(Interp *I, double x, double y, bool can_overflow)
{
    if (isnan(y) && !isnan(x))
        return raise(I, EXC_ValueError, "math domain error");
    if (isinf(y) && isfinite(x))
        return can_overflow ? raise(I, EXC_OverflowError, "math range error") : raise(I, EXC_ValueError, "math domain error");
    return vfloat(y);
}

typedef struct { double (*fn)(double); bool can_overflow; } Fun1;

static Value call1(Interp *I, Value *a, Fun1 f)
{
    double x;

    return value_as_float(I, a[0], &x) ? checked(I, x, f.fn(x), f.can_overflow) : VERR;
}

/* The same of what may follow from sizes that are open (symfloat.c). */
static Value call_named(Interp *I, Value *a, const char *name, Fun1 f)
{
    Value r = symfloat_call(name, a[0]);

    return r.tag == V_NOTIMPL ? call1(I, a, f) : r;
}

static Value f_sqrt(Interp *I, Value *a) { return call_named(I, a, "sqrt", (Fun1){sqrt, false}); }
static Value f_cbrt(Interp *I, Value *a) { return call1(I, a, (Fun1){cbrt, false}); }
static Value f_exp(Interp *I, Value *a) { return call1(I, a, (Fun1){exp, true}); }
static Value f_exp2(Interp *I, Value *a) { return call1(I, a, (Fun1){exp2, true}); }
static Value f_expm1(Interp *I, Value *a) { return call1(I, a, (Fun1){expm1, true}); }
static Value f_log2(Interp *I, Value *a) { return call_named(I, a, "log2", (Fun1){log2, false}); }
static Value f_log10(Interp *I, Value *a) { return call_named(I, a, "log10", (Fun1){log10, false}); }
static Value f_log1p(Interp *I, Value *a) { return call_named(I, a, "log1p", (Fun1){log1p, false}); }
static Value f_sin(Interp *I, Value *a) { return call_named(I, a, "sin", (Fun1){sin, false}); }
static Value f_cos(Interp *I, Value *a) { return call_named(I, a, "cos", (Fun1){cos, false}); }
static Value f_tan(Interp *I, Value *a) { return call1(I, a, (Fun1){tan, false}); }
static Value f_asin(Interp *I, Value *a) { return call1(I, a, (Fun1){asin, false}); }
static Value f_acos(Interp *I, Value *a) { return call1(I, a, (Fun1){acos, false}); }
static Value f_atan(Interp *I, Value *a) { return call1(I, a, (Fun1){atan, false}); }
static Value f_sinh(Interp *I, Value *a) { return call1(I, a, (Fun1){sinh, true}); }
static Value f_cosh(Interp *I, Value *a) { return call1(I, a, (Fun1){cosh, true}); }
static Value f_tanh(Interp *I, Value *a) { return call_named(I, a, "tanh", (Fun1){tanh, false}); }
static Value f_asinh(Interp *I, Value *a) { return call1(I, a, (Fun1){asinh, false}); }
static Value f_acosh(Interp *I, Value *a) { return call1(I, a, (Fun1){acosh, false}); }
static Value f_atanh(Interp *I, Value *a) { return call1(I, a, (Fun1){atanh, false}); }
static Value f_erf(Interp *I, Value *a) { return call1(I, a, (Fun1){erf, false}); }
static Value f_erfc(Interp *I, Value *a) { return call1(I, a, (Fun1){erfc, false}); }
static Value f_fabs(Interp *I, Value *a) { return call1(I, a, (Fun1){fabs, false}); }

/* Where the gamma function has poles the error is of the domain; elsewhere of the range. */
static Value gamma_of(Interp *I, Value *a, double (*fn)(double))
{
    double x;

    if (!value_as_float(I, a[0], &x))
        return VERR;
    if ((x <= 0 && x == floor(x)) || x == -INFINITY)
        return x == -INFINITY && fn == lgamma ? vfloat(INFINITY) : raise(I, EXC_ValueError, "math domain error");
    return checked(I, x, fn(x), true);
}

static Value f_gamma(Interp *I, Value *a) { return gamma_of(I, a, tgamma); }
static Value f_lgamma(Interp *I, Value *a) { return gamma_of(I, a, lgamma); }

static Value f_degrees(Interp *I, Value *a)
{
    double x;
    return value_as_float(I, a[0], &x) ? vfloat(x * (180.0 / 3.14159265358979323846)) : VERR;
}

static Value f_radians(Interp *I, Value *a)
{
    double x;
    return value_as_float(I, a[0], &x) ? vfloat(x * (3.14159265358979323846 / 180.0)) : VERR;
}

static Value f_isnan(Interp *I, Value *a)
{
    double x;
    return value_as_float(I, a[0], &x) ? vbool(isnan(x)) : VERR;
}

static Value f_isinf(Interp *I, Value *a)
{
    double x;
    return value_as_float(I, a[0], &x) ? vbool(isinf(x)) : VERR;
}

static Value f_isfinite(Interp *I, Value *a)
{
    double x;
    return value_as_float(I, a[0], &x) ? vbool(isfinite(x)) : VERR;
}

/* ------------------------------------------------------------- whole numbers from floats */

static Value whole(Interp *I, Value v, double (*fn)(double), const char *dunder)
{
    Value m, r;
    double x;

    if (v.tag == V_INT || v.tag == V_BOOL)
        return vint(v.i);
    if (v.tag == V_INSTANCE && !is_err(m = value_getattr_opt(I, v, sym(dunder)))) {
        r = value_call(I, m, NULL, 0);
        value_unref(m);
        return r;
    }
    if (!exc_pending(I) && fn == trunc && (v.tag == V_STR || v.tag == V_INSTANCE))
        return raise(I, EXC_TypeError, "type %s doesn't define __trunc__ method", value_type_name(v));
    return exc_pending(I) || !value_as_float(I, v, &x) ? VERR : int_of_float(I, fn(x));
}

static Value f_floor(Interp *I, Value *a) { return whole(I, a[0], floor, "__floor__"); }
static Value f_ceil(Interp *I, Value *a) { return whole(I, a[0], ceil, "__ceil__"); }
static Value f_trunc(Interp *I, Value *a) { return whole(I, a[0], trunc, "__trunc__"); }

/* ------------------------------------------------------------- logarithm, power, two arguments */

static Value log_of(Interp *I, double x)
{
    return isnan(x) || x > 0 ? vfloat(log(x)) : raise(I, EXC_ValueError, "math domain error");
}

static Value f_log(Interp *I, Value *a)
{
    double x, base;
    Value p = is_given(a[1]) ? VNOTIMPL : symfloat_call("log", a[0]), q;

    if (p.tag != V_NOTIMPL)
        return p;
    if (!value_as_float(I, a[0], &x) || is_err(p = log_of(I, x)))
        return VERR;
    if (!is_given(a[1]))
        return p;
    if (!value_as_float(I, a[1], &base) || is_err(q = log_of(I, base)))
        return VERR;
    return q.f == 0 ? raise(I, EXC_ZeroDivisionError, "float division by zero") : vfloat(p.f / q.f);
}

static bool two_floats(Interp *I, Value *a, double *x, double *y)
{
    return value_as_float(I, a[0], x) && value_as_float(I, a[1], y);
}

static Value f_pow(Interp *I, Value *a)
{
    double x, y, r;

    if (!two_floats(I, a, &x, &y))
        return VERR;
    r = pow(x, y);
    if (isnan(r) && !isnan(x) && !isnan(y))
        return raise(I, EXC_ValueError, "math domain error");
    if (isinf(r) && isfinite(x) && isfinite(y))
        return x == 0 ? raise(I, EXC_ValueError, "math domain error") : raise(I, EXC_OverflowError, "math range error");
    return vfloat(r);
}

static Value f_fmod(Interp *I, Value *a)
{
    double x, y;

    if (!two_floats(I, a, &x, &y))
        return VERR;
    if ((isinf(x) || y == 0) && !isnan(x) && !isnan(y))
        return raise(I, EXC_ValueError, "math domain error");
    return vfloat(fmod(x, y));
}

static Value f_remainder(Interp *I, Value *a)
{
    double x, y;

    if (!two_floats(I, a, &x, &y))
        return VERR;
    if ((isinf(x) || y == 0) && !isnan(x) && !isnan(y))
        return raise(I, EXC_ValueError, "math domain error");
    return vfloat(remainder(x, y));
}

static Value f_atan2(Interp *I, Value *a)
{
    double x, y;
    return two_floats(I, a, &x, &y) ? vfloat(atan2(x, y)) : VERR;
}

static Value f_copysign(Interp *I, Value *a)
{
    double x, y;
    return two_floats(I, a, &x, &y) ? vfloat(copysign(x, y)) : VERR;
}

static Value f_nextafter(Interp *I, Value *a)
{
    double x, y;
    return two_floats(I, a, &x, &y) ? vfloat(nextafter(x, y)) : VERR;
}

static Value f_ulp(Interp *I, Value *a)
{
    double x;

    if (!value_as_float(I, a[0], &x))
        return VERR;
    x = fabs(x);
    return vfloat(!isfinite(x) ? x : isinf(nextafter(x, INFINITY)) ? x - nextafter(x, -INFINITY) : nextafter(x, INFINITY) - x);
}

static Value f_isclose(Interp *I, Value *a)
{
    double x, y, rel, abs_tol, diff;

    if (!two_floats(I, a, &x, &y) || !value_as_float(I, a[2], &rel) || !value_as_float(I, a[3], &abs_tol))
        return VERR;
    if (rel < 0 || abs_tol < 0)
        return raise(I, EXC_ValueError, "tolerances must be non-negative");
    if (x == y)
        return vbool(true);
    if (isinf(x) || isinf(y))
        return vbool(false);
    diff = fabs(x - y);
    return vbool(diff <= fabs(rel * y) || diff <= fabs(rel * x) || diff <= abs_tol);
}

static Value f_modf(Interp *I, Value *a)
{
    double x, ip, frac;

    if (!value_as_float(I, a[0], &x))
        return VERR;
    frac = modf(x, &ip);
    return tuple_of(2, vfloat(frac), vfloat(ip));
}

static Value f_frexp(Interp *I, Value *a)
{
    double x, m;
    int e = 0;

    if (!value_as_float(I, a[0], &x))
        return VERR;
    m = isfinite(x) ? frexp(x, &e) : x;
    return tuple_of(2, vfloat(m), vint(e));
}

static Value f_ldexp(Interp *I, Value *a)
{
    double x;
    int64_t e;

    if (!value_as_float(I, a[0], &x) || !value_as_int(I, a[1], &e))
        return VERR;
    e = e > 100000 ? 100000 : e < -100000 ? -100000 : e;
    return checked(I, x, ldexp(x, (int)e), true);
}

/* ------------------------------------------------------------- over sequences */

/* Floats of an iterable; -1 pending. The caller frees *out. */
static int64_t float_list(Interp *I, Value iterable, double **out)
{
    Value l = value_to_list(I, iterable);
    int64_t n;

    *out = NULL;
    if (is_err(l))
        return -1;
    n = as_list(l)->n;
    *out = tsr_alloc((size_t)(n + 1) * sizeof **out);
    for (int64_t i = 0; i < n; i++)
        if (!value_as_float(I, as_list(l)->at[i], &(*out)[i])) {
            n = -1;
            break;
        }
    value_unref(l);
    return n;
}

/* Shewchuk: partials hold the exact sum as non-overlapping doubles, smallest first. */
static int64_t add_partial(double *p, int64_t n, double x)
{
    int64_t kept = 0;

    for (int64_t j = 0; j < n; j++) {
        double y = p[j], hi, lo;
        if (fabs(x) < fabs(y)) {
            double t = x;
            x = y;
            y = t;
        }
        hi = x + y;
        lo = y - (hi - x);
        if (lo != 0)
            p[kept++] = lo;
        x = hi;
    }
    p[kept++] = x;
    return kept;
}

/* The partials' sum, rounded once; halves to even. */
static double round_partials(const double *p, int64_t n)
{
    double hi, lo = 0;

    if (!n)
        return 0;
    hi = p[--n];
    while (n > 0) {
        double x = hi, y = p[--n];
        hi = x + y;
        lo = y - (hi - x);
        if (lo != 0)
            break;
    }
    if (n > 0 && ((lo < 0 && p[n - 1] < 0) || (lo > 0 && p[n - 1] > 0))) {
        double y = lo * 2, x = hi + y;
        if (y == x - hi)
            hi = x;
    }
    return hi;
}

/* The sum, rounded once: math.fsum. */
static double exact_sum(const double *x, int64_t n)
{
    double *p = tsr_alloc((size_t)(n + 2) * sizeof *p), special = 0, s;
    int64_t np = 0;
    bool odd = false;

    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) {
            special += x[i];
            odd = true;
        } else {
            np = add_partial(p, np, x[i]);
        }
    }
    s = odd ? special : round_partials(p, np);
    tsr_free(p);
    return s;
}

static Value f_fsum(Interp *I, Value *a)
{
    double *x, s;
    int64_t n = float_list(I, a[0], &x);
    bool inf = false, finite = true;

    s = n < 0 ? 0 : exact_sum(x, n);
    for (int64_t i = 0; i < n; i++) {
        inf |= isinf(x[i]) != 0;
        finite &= isfinite(x[i]) != 0;
    }
    tsr_free(x);
    if (n < 0)
        return VERR;
    if (isnan(s) && inf)
        return raise(I, EXC_ValueError, "-inf + inf in fsum");
    return finite && !isfinite(s) ? raise(I, EXC_OverflowError, "intermediate overflow in fsum") : vfloat(s);
}

/* The length of a vector, which it overwrites: scaled by a power of two, its squares summed with their rounding errors. */
static double vector_length(double *x, int64_t n)
{
    double top = 0, *part, s;
    bool nan = false;
    int e;

    for (int64_t i = 0; i < n; i++) {
        nan |= isnan(x[i]) != 0;
        top = fabs(x[i]) > top ? fabs(x[i]) : top;
    }
    if (isinf(top) || top == 0 || nan)
        return isinf(top) ? top : nan ? NAN : 0;
    frexp(top, &e);
    part = tsr_alloc((size_t)n * 2 * sizeof *part);
    for (int64_t i = 0; i < n; i++) {
        double y = ldexp(x[i], -e);
        part[2 * i] = y * y;
        part[2 * i + 1] = fma(y, y, -(y * y));
    }
    s = exact_sum(part, 2 * n);
    tsr_free(part);
    return ldexp(sqrt(s), e);
}

static Value f_hypot(Interp *I, Value *a)
{
    double *x, r = 0;
    int64_t n = float_list(I, a[0], &x);

    if (n >= 0)
        r = n == 2 ? hypot(x[0], x[1]) : vector_length(x, n);
    tsr_free(x);
    return n < 0 ? VERR : vfloat(r);
}

static Value f_dist(Interp *I, Value *a)
{
    double *x, *y = NULL;
    int64_t n = float_list(I, a[0], &x), m = n < 0 ? -1 : float_list(I, a[1], &y);
    Value r = VERR;

    if (m >= 0 && n != m)
        raise(I, EXC_ValueError, "both points must have the same number of dimensions");
    for (int64_t i = 0; m == n && i < n; i++)
        x[i] -= y[i];
    if (m >= 0 && m == n)
        r = vfloat(vector_length(x, n));
    tsr_free(x);
    tsr_free(y);
    return r;
}

static Value f_prod(Interp *I, Value *a)
{
    Value it = value_iter(I, a[0]), acc = value_ref(a[1]), x;

    if (is_err(it)) {
        value_unref(acc);
        return VERR;
    }
    while (!is_err(acc) && !is_err(x = value_next(I, it))) {
        Value next = value_binary(I, AOP_MUL, acc, x);
        value_unref(acc);
        value_unref(x);
        acc = next;
    }
    value_unref(it);
    if (!exc_pending(I))
        return acc;
    value_unref(acc);
    return VERR;
}

static Value f_sumprod(Interp *I, Value *a)
{
    Value p = value_to_list(I, a[0]), q = is_err(p) ? VERR : value_to_list(I, a[1]), acc = vint(0);

    if (!is_err(q) && as_list(p)->n != as_list(q)->n)
        raise(I, EXC_ValueError, "Inputs are not the same length");
    for (int64_t i = 0; !exc_pending(I) && i < as_list(p)->n; i++) {
        Value t = value_binary(I, AOP_MUL, as_list(p)->at[i], as_list(q)->at[i]);
        Value next = is_err(t) ? VERR : value_binary(I, AOP_ADD, acc, t);
        value_unref(t);
        value_unref(acc);
        acc = next;
    }
    value_unref(p);
    value_unref(q);
    if (!exc_pending(I))
        return acc;
    value_unref(acc);
    return VERR;
}

/* ------------------------------------------------------------- number theory */

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t t = a % b;
        a = b;
        b = t;
    }
    return a;
}

static bool magnitude_of(Interp *I, Value v, uint64_t *out)
{
    int64_t i;

    if (v.tag == V_FLOAT) {
        raise(I, EXC_TypeError, "'float' object cannot be interpreted as an integer");
        return false;
    }
    if (!value_as_int(I, v, &i))
        return false;
    *out = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    return true;
}

static Value fits(Interp *I, bool overflow, uint64_t v, const char *name)
{
    if (overflow || v > INT64_MAX)
        return raise(I, EXC_OverflowError, "%s() result does not fit in 64 bits", name);
    return vint((int64_t)v);
}

static Value f_gcd(Interp *I, Value *a)
{
    uint64_t g = 0, x;

    for (int64_t i = 0; i < as_tuple(a[0])->n; i++) {
        if (!magnitude_of(I, as_tuple(a[0])->at[i], &x))
            return VERR;
        g = gcd(g, x);
    }
    return fits(I, false, g, "gcd");
}

static Value f_lcm(Interp *I, Value *a)
{
    uint64_t l = 1, x;
    bool over = false;

    for (int64_t i = 0; i < as_tuple(a[0])->n; i++) {
        if (!magnitude_of(I, as_tuple(a[0])->at[i], &x))
            return VERR;
        over |= x && l && __builtin_mul_overflow(l / gcd(l, x), x, &l);
        l = x ? l : 0;
    }
    return fits(I, over, l, "lcm");
}

static bool natural(Interp *I, Value v, const char *name, int64_t *out)
{
    if (v.tag == V_FLOAT) {
        raise(I, EXC_TypeError, "'float' object cannot be interpreted as an integer");
        return false;
    }
    if (!value_as_int(I, v, out))
        return false;
    if (*out >= 0)
        return true;
    raise(I, EXC_ValueError, "%s", name);
    return false;
}

static Value f_factorial(Interp *I, Value *a)
{
    uint64_t r = 1;
    int64_t n;

    if (!natural(I, a[0], "factorial() not defined for negative values", &n))
        return VERR;
    if (n > 20)
        return raise(I, EXC_OverflowError, "factorial(%lld) does not fit in 64 bits", (long long)n);
    for (int64_t i = 2; i <= n; i++)
        r *= (uint64_t)i;
    return vint((int64_t)r);
}

static Value f_isqrt(Interp *I, Value *a)
{
    int64_t n, r;

    if (!natural(I, a[0], "isqrt() argument must be nonnegative", &n))
        return VERR;
    r = (int64_t)sqrt((double)n);
    while (r > 0 && r > n / r)
        r--;
    while (r + 1 <= n / (r + 1))
        r++;
    return vint(r);
}

static Value f_comb(Interp *I, Value *a)
{
    int64_t n, k;
    uint64_t r = 1;

    if (!natural(I, a[0], "n must be a non-negative integer", &n) || !natural(I, a[1], "k must be a non-negative integer", &k))
        return VERR;
    if (k > n)
        return vint(0);
    k = k > n - k ? n - k : k;
    for (int64_t i = 1; i <= k; i++) {              /* r * (n-k+i) / i is exact: divide what can be divided first */
        uint64_t f = (uint64_t)(n - k + i), d = (uint64_t)i, g = gcd(r, d);
        r /= g;
        d /= g;
        f /= d;
        if (__builtin_mul_overflow(r, f, &r))
            return fits(I, true, 0, "comb");
    }
    return fits(I, false, r, "comb");
}

static Value f_perm(Interp *I, Value *a)
{
    int64_t n, k;
    uint64_t r = 1;

    if (!natural(I, a[0], "n must be a non-negative integer", &n))
        return VERR;
    k = n;
    if (is_given(a[1]) && !natural(I, a[1], "k must be a non-negative integer", &k))
        return VERR;
    if (k > n)
        return vint(0);
    for (int64_t i = 0; i < k; i++)
        if (__builtin_mul_overflow(r, (uint64_t)(n - i), &r) || r > INT64_MAX)
            return fits(I, true, 0, "perm");
    return fits(I, false, r, "perm");
}

static Value c_pi(Interp *I, Value *a) { return vfloat(3.14159265358979323846); }
static Value c_tau(Interp *I, Value *a) { return vfloat(6.28318530717958647692); }
static Value c_e(Interp *I, Value *a) { return vfloat(2.71828182845904523536); }
static Value c_inf(Interp *I, Value *a) { return vfloat(INFINITY); }
static Value c_nan(Interp *I, Value *a) { return vfloat(NAN); }

#define X "(x: float, /) -> float"
#define XY "(x: float, y: float, /) -> float"
const NativeDef natives_math[] = {
    {"math", "pi", c_pi, "float", "3.14159..."},
    {"math", "tau", c_tau, "float", "2 pi"},
    {"math", "e", c_e, "float", "2.71828..."},
    {"math", "inf", c_inf, "float", "Infinity."},
    {"math", "nan", c_nan, "float", "Not a number."},
    {"math", "sqrt", f_sqrt, X, "The square root; ValueError below 0."},
    {"math", "cbrt", f_cbrt, X, "The cube root."},
    {"math", "exp", f_exp, X, "e to the x."},
    {"math", "exp2", f_exp2, X, "2 to the x."},
    {"math", "expm1", f_expm1, X, "exp(x) - 1, exact near 0."},
    {"math", "log", f_log, "(x: float, base: float | None = None, /) -> float", "The logarithm to base e or another."},
    {"math", "log2", f_log2, X, "The logarithm to base 2."},
    {"math", "log10", f_log10, X, "The logarithm to base 10."},
    {"math", "log1p", f_log1p, X, "log(1 + x), exact near 0."},
    {"math", "sin", f_sin, X, "The sine of x in radians."},
    {"math", "cos", f_cos, X, "The cosine of x in radians."},
    {"math", "tan", f_tan, X, "The tangent of x in radians."},
    {"math", "asin", f_asin, X, "The angle whose sine is x."},
    {"math", "acos", f_acos, X, "The angle whose cosine is x."},
    {"math", "atan", f_atan, X, "The angle whose tangent is x."},
    {"math", "atan2", f_atan2, "(y: float, x: float, /) -> float", "The angle of the point (x, y)."},
    {"math", "sinh", f_sinh, X, "The hyperbolic sine."},
    {"math", "cosh", f_cosh, X, "The hyperbolic cosine."},
    {"math", "tanh", f_tanh, X, "The hyperbolic tangent."},
    {"math", "asinh", f_asinh, X, "The inverse hyperbolic sine."},
    {"math", "acosh", f_acosh, X, "The inverse hyperbolic cosine."},
    {"math", "atanh", f_atanh, X, "The inverse hyperbolic tangent."},
    {"math", "erf", f_erf, X, "The error function."},
    {"math", "erfc", f_erfc, X, "1 - erf(x)."},
    {"math", "gamma", f_gamma, X, "The gamma function."},
    {"math", "lgamma", f_lgamma, X, "The logarithm of |gamma(x)|."},
    {"math", "fabs", f_fabs, X, "The absolute value as a float."},
    {"math", "degrees", f_degrees, X, "Radians to degrees."},
    {"math", "radians", f_radians, X, "Degrees to radians."},
    {"math", "isnan", f_isnan, "(x: float, /) -> bool", "Is it NaN?"},
    {"math", "isinf", f_isinf, "(x: float, /) -> bool", "Is it infinite?"},
    {"math", "isfinite", f_isfinite, "(x: float, /) -> bool", "Is it neither infinite nor NaN?"},
    {"math", "floor", f_floor, "(x: float, /) -> int", "The largest int not above x."},
    {"math", "ceil", f_ceil, "(x: float, /) -> int", "The smallest int not below x."},
    {"math", "trunc", f_trunc, "(x: float, /) -> int", "x without its fraction."},
    {"math", "pow", f_pow, XY, "x to the y, as floats."},
    {"math", "fmod", f_fmod, XY, "The rest of x / y with the sign of x."},
    {"math", "remainder", f_remainder, XY, "x minus the nearest multiple of y."},
    {"math", "copysign", f_copysign, XY, "|x| with the sign of y."},
    {"math", "nextafter", f_nextafter, XY, "The next float after x towards y."},
    {"math", "ulp", f_ulp, X, "The value of the last bit of x."},
    {"math", "isclose", f_isclose, "(a: float, b: float, *, rel_tol: float = 1e-09, abs_tol: float = 0.0) -> bool", "Are they equal up to a tolerance?"},
    {"math", "modf", f_modf, "(x: float, /) -> tuple[float, float]", "Fraction and whole part."},
    {"math", "frexp", f_frexp, "(x: float, /) -> tuple[float, int]", "Mantissa in [0.5, 1) and exponent."},
    {"math", "ldexp", f_ldexp, "(x: float, i: int, /) -> float", "x times 2 to the i."},
    {"math", "fsum", f_fsum, "(seq: Iterable, /) -> float", "The exact sum, rounded once."},
    {"math", "hypot", f_hypot, "(*coordinates) -> float", "The length of the vector."},
    {"math", "dist", f_dist, "(p: Iterable, q: Iterable, /) -> float", "The distance between two points."},
    {"math", "prod", f_prod, "(iterable: Iterable, /, *, start=1)", "The product of the elements."},
    {"math", "sumprod", f_sumprod, "(p: Iterable, q: Iterable, /)", "The sum of the products of pairs."},
    {"math", "gcd", f_gcd, "(*integers) -> int", "The greatest common divisor."},
    {"math", "lcm", f_lcm, "(*integers) -> int", "The least common multiple."},
    {"math", "factorial", f_factorial, "(n: int, /) -> int", "1 * 2 * ... * n; OverflowError above 20."},
    {"math", "isqrt", f_isqrt, "(n: int, /) -> int", "The whole part of the square root."},
    {"math", "comb", f_comb, "(n: int, k: int, /) -> int", "Ways to choose k of n."},
    {"math", "perm", f_perm, "(n: int, k: int | None = None, /) -> int", "Ways to choose k of n in order."},
    {0},
};
