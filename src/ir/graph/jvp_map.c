/*
 * JVP rules of elementwise ops.  x primals, t tangents, y results.
 * What happens at kinks is tabulated in docs/derivatives.md.
 */
#include "ir/graph/rules.h"

#include <math.h>

#define OP(name, nin, nout, fam, shape, dtype, flags, attrs, jvp, ...) void jvp_##jvp(Jvp *j);
#include "ir/core/ops.def"

static const double ln2 = 0.693147180559945309417, ln10 = 2.302585092994045684018, two_over_sqrt_pi = 1.128379167095512573896;

static Tensor *num(Jvp *j, double v) { return r_num(j->r, j->x[0], v); }
static Tensor *square(Rule *r, Tensor *x) { return r_mul(r, x, x); }
/* dy = t * slope */
static void scale(Jvp *j, Tensor *slope) { j->dy[0] = r_mul(j->r, j->t[0], slope); }
static void over(Jvp *j, Tensor *denominator) { j->dy[0] = r_div(j->r, j->t[0], denominator); }

void jvp_none(Jvp *j) { j->dy[0] = NULL; }

/* The op is linear in its operands together: it maps tangents as it maps values. */
void jvp_linear(Jvp *j)
{
    Tensor *t[64];

    if (j->op == OP_add)
        j->dy[0] = r_add(j->r, j->t[0], j->t[1]);
    else if (j->op == OP_sub)
        j->dy[0] = r_sub(j->r, j->t[0], j->t[1]);
    else if (j->n <= 64) {
        for (int i = 0; i < j->n; i++)
            t[i] = r_or_zeros(j->r, j->t[i], j->x[i]);
        j->dy[0] = r_op(j->r, j->op, j->a, t, j->n);
    } else {
        Tensor **many = tsr_alloc(sizeof *many * (size_t)j->n);
        for (int i = 0; i < j->n; i++)
            many[i] = r_or_zeros(j->r, j->t[i], j->x[i]);
        j->dy[0] = r_op(j->r, j->op, j->a, many, j->n);
        tsr_free(many);
    }
}

/* Linear in each operand: one term for each tangent. */
void jvp_multilinear(Jvp *j)
{
    Tensor *a = r_op(j->r, j->op, j->a, (Tensor *[]){j->t[0], j->x[1]}, 2);
    Tensor *b = r_op(j->r, j->op, j->a, (Tensor *[]){j->x[0], j->t[1]}, 2);

    j->dy[0] = r_add(j->r, a, b);
}

/* Tangents of a loss-scaled type are kept divided by its scale: a step between two scales multiplies, on the wider side. */
void jvp_convert(Jvp *j)
{
    const Policy *from = j->x[0]->policy, *to = j->a->policy;
    double k = (from && from->has_scale ? from->scale : 1) / (to && to->has_scale ? to->scale : 1) * (j->a->f != 0 ? j->a->f : 1);
    bool widens = dtype_info[j->a->dtype].bits > dtype_info[j->x[0]->dtype].bits;
    Tensor *t = j->t[0];

    if (!dtype_is_inexact((DType)j->a->dtype))
        return;
    if (k != 1 && !widens)
        t = r_mul(j->r, t, r_num(j->r, t, k));
    t = r_convert(j->r, t, j->a->dtype);
    if (k != 1 && widens)
        t = r_mul(j->r, t, r_num(j->r, t, k));
    j->dy[0] = t;
}

/* Tangents are rounded to nearest: the key is no operand of the linear map. */
void jvp_dither(Jvp *j) { jvp_convert(j); }

void jvp_abs(Jvp *j)
{
    Rule *r = j->r;
    Tensor *y, *safe;

    if (!dtype_is_complex((DType)j->x[0]->dtype)) {
        scale(j, r1(r, OP_sign, j->x[0]));
        return;
    }
    y = j->y[0];
    safe = r3(r, OP_where, r2(r, OP_eq, y, r_num(r, y, 0)), r_num(r, y, 1), y);
    j->dy[0] = r_div(r, r1(r, OP_real, r_mul(r, j->t[0], r1(r, OP_conj, j->x[0]))), safe);
}

void jvp_exp(Jvp *j) { scale(j, j->y[0]); }
void jvp_exp2(Jvp *j) { scale(j, r_mul(j->r, j->y[0], num(j, ln2))); }
void jvp_expm1(Jvp *j) { scale(j, r2(j->r, OP_add, j->y[0], num(j, 1))); }
void jvp_log(Jvp *j) { over(j, j->x[0]); }
void jvp_log2(Jvp *j) { over(j, r_mul(j->r, j->x[0], num(j, ln2))); }
void jvp_log10(Jvp *j) { over(j, r_mul(j->r, j->x[0], num(j, ln10))); }
void jvp_log1p(Jvp *j) { over(j, r2(j->r, OP_add, j->x[0], num(j, 1))); }
void jvp_sqrt(Jvp *j) { over(j, r_mul(j->r, j->y[0], num(j, 2))); }
void jvp_rsqrt(Jvp *j) { scale(j, r_mul(j->r, r_div(j->r, j->y[0], j->x[0]), num(j, -0.5))); }
void jvp_sin(Jvp *j) { scale(j, r1(j->r, OP_cos, j->x[0])); }
void jvp_cos(Jvp *j) { scale(j, r_neg(j->r, r1(j->r, OP_sin, j->x[0]))); }
void jvp_tan(Jvp *j) { scale(j, r2(j->r, OP_add, square(j->r, j->y[0]), num(j, 1))); }
void jvp_sinh(Jvp *j) { scale(j, r1(j->r, OP_cosh, j->x[0])); }
void jvp_cosh(Jvp *j) { scale(j, r1(j->r, OP_sinh, j->x[0])); }
void jvp_tanh(Jvp *j) { scale(j, r2(j->r, OP_sub, num(j, 1), square(j->r, j->y[0]))); }

/* 1 - x^2 as a product, exact near 1 */
static Tensor *one_minus_square(Jvp *j)
{
    return r_mul(j->r, r2(j->r, OP_sub, num(j, 1), j->x[0]), r2(j->r, OP_add, num(j, 1), j->x[0]));
}

static Tensor *square_plus_one(Jvp *j)
{
    return r2(j->r, OP_add, square(j->r, j->x[0]), num(j, 1));
}

void jvp_asin(Jvp *j) { scale(j, r1(j->r, OP_rsqrt, one_minus_square(j))); }
void jvp_acos(Jvp *j) { scale(j, r_neg(j->r, r1(j->r, OP_rsqrt, one_minus_square(j)))); }
void jvp_atan(Jvp *j) { over(j, square_plus_one(j)); }
void jvp_asinh(Jvp *j) { scale(j, r1(j->r, OP_rsqrt, square_plus_one(j))); }
void jvp_acosh(Jvp *j) { scale(j, r1(j->r, OP_rsqrt, r_neg(j->r, one_minus_square(j)))); }
void jvp_atanh(Jvp *j) { over(j, one_minus_square(j)); }

static Tensor *gauss(Jvp *j, double factor)
{
    return r_mul(j->r, r1(j->r, OP_exp, r_neg(j->r, square(j->r, j->x[0]))), num(j, factor));
}

void jvp_erf(Jvp *j) { scale(j, gauss(j, two_over_sqrt_pi)); }
void jvp_erfc(Jvp *j) { scale(j, gauss(j, -two_over_sqrt_pi)); }
void jvp_erfinv(Jvp *j) { scale(j, r_mul(j->r, r1(j->r, OP_exp, square(j->r, j->y[0])), num(j, 1 / two_over_sqrt_pi))); }
void jvp_lgamma(Jvp *j) { scale(j, r1(j->r, OP_digamma, j->x[0])); }

/*
 * The derivative of digamma, the trigamma function: for x < 1/2 by reflection,
 * psi1(x) = pi^2 / sin^2(pi x) - psi1(1 - x); then eight steps of
 * psi1(z) = psi1(z + 1) + 1/z^2 and the asymptotic series (Abramowitz & Stegun 6.4.12).
 */
void jvp_digamma(Jvp *j)
{
    static const double series[] = {1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6};
    Rule *r = j->r;
    Tensor *low = r2(r, OP_lt, j->x[0], num(j, 0.5)), *one = num(j, 1);
    Tensor *z = r3(r, OP_where, low, r2(r, OP_sub, one, j->x[0]), j->x[0]), *sum = NULL, *w, *w2, *p, *s;

    for (int k = 0; k < 8; k++, z = r2(r, OP_add, z, one))
        sum = r_add(r, sum, r_div(r, one, square(r, z)));
    w = r_div(r, one, z);
    w2 = square(r, w);
    p = r_mul(r, w2, w);
    sum = r_add(r, sum, r_add(r, w, r_mul(r, w2, num(j, 0.5))));
    for (size_t k = 0; k < sizeof series / sizeof *series; k++, p = r_mul(r, p, w2))
        sum = r_add(r, sum, r_mul(r, p, num(j, series[k])));
    s = r1(r, OP_sin, r_mul(r, j->x[0], num(j, 3.14159265358979323846)));
    s = r_sub(r, r_div(r, num(j, 9.86960440108935861883), square(r, s)), sum);
    scale(j, r3(r, OP_where, low, s, sum));
}

void jvp_sigmoid(Jvp *j)
{
    scale(j, r_mul(j->r, j->y[0], r2(j->r, OP_sub, num(j, 1), j->y[0])));
}

void jvp_div(Jvp *j)
{
    Rule *r = j->r;
    Tensor *b = r_mul(r, j->t[1], r_div(r, j->y[0], j->x[1]));

    j->dy[0] = r_sub(r, r_div(r, j->t[0], j->x[1]), b);
}

/* a - floor(a / b) * b */
void jvp_mod(Jvp *j)
{
    Tensor *whole = j->t[1] ? r2(j->r, OP_floordiv, j->x[0], j->x[1]) : NULL;

    j->dy[0] = r_sub(j->r, j->t[0], r_mul(j->r, j->t[1], whole));
}

/* d/da a**b for a b known to the rule */
static Tensor *power_slope(Jvp *j, double b)
{
    Rule *r = j->r;

    if (b == 0)
        return NULL;
    if (b == 1)
        return num(j, 1);
    if (b == 2)
        return r_mul(r, j->x[0], num(j, 2));
    return r_mul(r, r2(r, OP_pow, j->x[0], num(j, b - 1)), num(j, b));
}

/* b * a**(b-1), 0 where b is 0 even if a is 0 too */
static Tensor *power_slope_general(Jvp *j)
{
    Rule *r = j->r;
    Tensor *b = j->x[1], *zero = r2(r, OP_eq, b, num(j, 0));
    Tensor *less = r3(r, OP_where, zero, num(j, 1), r2(r, OP_sub, b, num(j, 1)));

    return r3(r, OP_where, zero, num(j, 0), r_mul(r, b, r2(r, OP_pow, j->x[0], less)));
}

/* a**b * log(a), 0 where a is 0 */
static Tensor *exponent_slope(Jvp *j)
{
    Rule *r = j->r;
    Tensor *zero = r2(r, OP_eq, j->x[0], num(j, 0));
    Tensor *log = r1(r, OP_log, r3(r, OP_where, zero, num(j, 1), j->x[0]));

    return r_mul(r, j->y[0], log);
}

void jvp_pow(Jvp *j)
{
    Rule *r = j->r;
    Tensor *b = j->t[1] ? NULL : tensor_concrete(j->x[1]), *da = NULL;

    if (j->t[0] && b && b->rank == 0 && !dtype_is_complex((DType)b->dtype))
        da = r_mul(r, j->t[0], power_slope(j, elem_get_f(b, b->offset)));
    else if (j->t[0])
        da = r_mul(r, j->t[0], power_slope_general(j));
    j->dy[0] = r_add(r, da, j->t[1] ? r_mul(r, j->t[1], exponent_slope(j)) : NULL);
}

/* The part of a tangent that a choice lets through: all, half at ties, none. */
static Tensor *chosen(Jvp *j, Tensor *t, Tensor *mine, Tensor *tie)
{
    Rule *r = j->r;
    Tensor *zero;

    if (!t)
        return NULL;
    zero = r_num(r, t, 0);
    return r3(r, OP_where, tie, r_mul(r, t, r_num(r, t, 0.5)), r3(r, OP_where, mine, t, zero));
}

void jvp_minmax(Jvp *j)
{
    Rule *r = j->r;
    Tensor *tie = r2(r, OP_eq, j->x[0], j->x[1]);
    Tensor *a = chosen(j, j->t[0], r2(r, OP_eq, j->x[0], j->y[0]), tie);

    j->dy[0] = r_add(r, a, chosen(j, j->t[1], r2(r, OP_eq, j->x[1], j->y[0]), tie));
}

void jvp_atan2(Jvp *j)
{
    Rule *r = j->r;
    Tensor *d = r2(r, OP_add, square(r, j->x[0]), square(r, j->x[1]));
    Tensor *a = r_mul(r, j->t[0], r_div(r, j->x[1], d)), *b = r_mul(r, j->t[1], r_div(r, j->x[0], d));

    j->dy[0] = r_sub(r, a, b);
}

void jvp_where(Jvp *j)
{
    Tensor *zero = j->t[1] || j->t[2] ? r_num(j->r, j->t[1] ? j->t[1] : j->t[2], 0) : NULL;

    if (zero)
        j->dy[0] = r3(j->r, OP_where, j->x[0], j->t[1] ? j->t[1] : zero, j->t[2] ? j->t[2] : zero);
}

void jvp_fma(Jvp *j)
{
    Rule *r = j->r;

    j->dy[0] = r_add(r, r_add(r, r_mul(r, j->t[0], j->x[1]), r_mul(r, j->x[0], j->t[1])), j->t[2]);
}
