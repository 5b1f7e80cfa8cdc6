/*
 * Scalar functions that loops call out of line: rare arguments, or functions
 * that no vector loop would help.  Also in double, rounded once.
 */
#include "runtime/scalar.h"

/* Once, as few call it. */
static __attribute__((noinline)) FarTurn turn(float a) { return far_turn(a); }

float far_sin(float a) { return f32_far_sin(a, turn(a)); }
float far_cos(float a) { return f32_far_cos(a, turn(a)); }
float far_tan(float a) { return f32_far_tan(a, turn(a)); }
float f32_erfinv(float a) { return (float)f64_erfinv((double)a); }
float f32_lgamma(float a) { return (float)f64_lgamma((double)a); }
float f32_digamma(float a) { return (float)f64_digamma((double)a); }

double f64_lgamma(double a)
{
    int sign;

    return lgamma_r(a, &sign);
}

/*
 * Start from a one-line approximation (Winitzki 2008), then Newton steps on erf, or on erfc in the tails, where
 * 1 - |a| is exact.
 */
double f64_erfinv(double a)
{
    double t = fabs(a), c = 1 - t;

    if (!(t < 1))
        return t == 1 ? copysign(INFINITY, a) : NAN;
    if (t < 1e-9)
        return a * 0.88622692545275801365;          /* sqrt(pi) / 2 */
    double l = log1p(-t * t), k = 2 / (M_PI * 0.147) + l / 2;
    double x = sqrt(sqrt(k * k - l / 0.147) - k);
    for (int i = 0; i < 4; i++) {
        double e = t < 0.5 ? erf(x) - t : c - erfc(x);
        double step = e * 0.88622692545275801365 * exp(x * x);
        x -= step / (1 + x * step);                 /* Halley: erf'' = -2x erf' */
    }
    return copysign(x, a);
}

/* Recurrence up to 10, then the asymptotic series; reflection below zero. */
double f64_digamma(double a)
{
    double sum = 0;

    if (a == 0)
        return copysign(INFINITY, -a);
    if (a < 0) {
        double whole = floor(a);
        if (whole == a)
            return NAN;
        return f64_digamma(1 - a) - M_PI / tan(M_PI * (a - whole));
    }
    for (; a < 10; a++)
        sum -= 1 / a;
    double z = 1 / (a * a);
    double tail = z * (1 / 12.0 - z * (1 / 120.0 - z * (1 / 252.0 - z * (1 / 240.0 - z * (1 / 132.0 - z * 691 / 32760.0)))));
    return sum + log(a) - 0.5 / a - tail;
}

/* Remainder with the sign of the divisor. */
double f64_mod(double a, double b)
{
    double r = fmod(a, b);

    if (r != 0)
        return (r < 0) != (b < 0) ? r + b : r;
    return b != b || r != r ? r : copysign(0.0, b);
}

double f64_floordiv(double a, double b)
{
    double r, q;

    if (b == 0)
        return a / b;
    r = fmod(a, b);
    q = (a - r) / b - (r != 0 && (r < 0) != (b < 0));
    if (q == 0)
        return copysign(0.0, a / b);
    double whole = floor(q);
    return q - whole > 0.5 ? whole + 1 : whole;
}

float f32_mod(float a, float b)
{
    float r = fmodf(a, b);

    if (r != 0)
        return (r < 0) != (b < 0) ? r + b : r;
    return b != b || r != r ? r : copysignf(0, b);
}

float f32_floordiv(float a, float b)
{
    float r, q;

    if (b == 0)
        return a / b;
    r = fmodf(a, b);
    q = (a - r) / b - (r != 0 && (r < 0) != (b < 0));
    if (q == 0)
        return copysignf(0, a / b);
    float whole = floorf(q);
    return q - whole > 0.5f ? whole + 1 : whole;
}

/* Smith's method: no overflow in the squares. */
double _Complex c128_div(double _Complex a, double _Complex b)
{
    double ar = creal(a), ai = cimag(a), br = creal(b), bi = cimag(b), r, d;

    if (fabs(br) >= fabs(bi)) {
        if (br == 0 && bi == 0)
            return f64_cmplx(ar / fabs(br), ai / fabs(br));
        r = bi / br;
        d = br + bi * r;
        return f64_cmplx((ar + ai * r) / d, (ai - ar * r) / d);
    }
    r = br / bi;
    d = br * r + bi;
    return f64_cmplx((ar * r + ai) / d, (ai * r - ar) / d);
}

double _Complex c128_sign(double _Complex a)
{
    double r = cabs(a);

    return r == 0 ? a : f64_cmplx(creal(a) / r, cimag(a) / r);
}

/* Small whole exponents by multiplication: exact where the numbers are. */
double _Complex c128_pow(double _Complex a, double _Complex b)
{
    double n = creal(b);

    if (cimag(b) == 0 && n == floor(n) && fabs(n) <= 64) {
        double _Complex r = 1;
        for (unsigned k = (unsigned)fabs(n); k; k >>= 1, a = c128_cmul(a, a))
            r = k & 1 ? c128_cmul(r, a) : r;
        return n < 0 ? c128_div(1, r) : r;
    }
    if (a == 0)
        return n > 0 ? 0 : f64_cmplx(NAN, NAN);
    return cpow(a, b);
}
