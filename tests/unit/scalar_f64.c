/*
 * Elementary functions on f64: as near the long double result as
 * accuracy.def states, special values, and the same bits from every instruction
 * set, alignment and place in a run.
 */
#include "tensors.h"

#include "runtime/cpu.h"

#include <math.h>

typedef struct { OpId op; long double (*want)(long double); double lo, hi; } Fn;

static const double stated[OP_COUNT] = {
#define ULP(name, single, wide) [OP_##name] = wide,
#include "runtime/accuracy.def"
};

static long double sigmoidl(long double x) { return 1 / (1 + expl(-x)); }

static const Fn fns[] = {
    {OP_exp, expl, -746, 710},        {OP_exp2, exp2l, -1076, 1025}, {OP_expm1, expm1l, -50, 710},
    {OP_log, logl, 0x1p-1074, 1.7e308}, {OP_log2, log2l, 0x1p-1074, 1.7e308}, {OP_log10, log10l, 0x1p-1074, 1.7e308},
    {OP_log1p, log1pl, -0.99999, 1.7e308}, {OP_sigmoid, sigmoidl, -745, 745},
    {OP_sin, sinl, -1e15, 1e15},      {OP_cos, cosl, -1e15, 1e15},  {OP_tan, tanl, -1e15, 1e15},
    {OP_sinh, sinhl, -711, 711},         {OP_cosh, coshl, -711, 711},     {OP_tanh, tanhl, -25, 25},
    {OP_atan, atanl, -1.7e308, 1.7e308},
};
enum { FNS = sizeof fns / sizeof *fns, N = 40000 };

static double of_bits(uint64_t u)
{
    double x;

    memcpy(&x, &u, 8);
    return x;
}

/* Any double of [lo, hi] by bits, by value, about 0 and about 1 at every scale. */
static double argument(const Fn *f, int i)
{
    double t = (double)(rnd() >> 11) * 0x1p-53, width = f->hi - f->lo > 1e10 ? 1e6 : f->hi - f->lo, x;

    switch (i % 4) {
    case 0: x = of_bits(rnd()); break;
    case 1: x = f->lo < -1e6 ? t * 1e6 : f->lo + t * width; break;
    case 2: x = (t - 0.5) * 8; break;
    default: x = 1 + ldexp(t - 0.5, -(int)rnd_to(50)); break;
    }
    return x >= f->lo && x <= f->hi ? x : t;
}

static double ulp_error(double got, long double want)
{
    double w = (double)want;
    int e;

    if (isinf(w) || isinf(got) || want != want)
        return (w == got) || (want != want && got != got) ? 0 : 1e9;
    frexpl(want, &e);
    return (double)(fabsl(got - want) / ldexpl(1, e - 53 < -1074 ? -1074 : e - 53));
}

static void check(const Fn *f, int64_t n, const double *v)
{
    Tensor *x = of_doubles(DT_f64, n, v), *y = run1(f->op, NULL, x);
    const double *got = y->store->data;

    for (int64_t i = 0; i < n; i++) {
        double err = ulp_error(got[i], f->want(v[i]));
        if (!(err <= stated[f->op]))
            fail_msg("%s(%a): %a, not %La: %.3f ULP", op_info[f->op].name, v[i], got[i], f->want(v[i]), err);
        if (got[i] == 0 && !signbit(got[i]) != !signbit(f->want(v[i])))
            fail_msg("%s(%a): the sign of zero", op_info[f->op].name, v[i]);
    }
    tensor_unref(x);
    tensor_unref(y);
}

static void f64_functions_are_accurate(void **state)
{
    static double v[N];

    for (int k = 0; k < FNS; k++) {
        for (int i = 0; i < N; i++)
            v[i] = argument(&fns[k], i);
        check(&fns[k], N, v);
    }
}

static void special_values(void **state)
{
    static const double points[] = {0.0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, 0x1p-1074, -0x1p-1074, 0x1p-1022, -0x1p-1022, 1e-300, 0x1p-54,
                                    -0x1p-54, 0x1p-27, 0x1p-30, 709.782712893384, 709.7827128933841, 710.4758600739439, 710.475860073944, -708.4,
                                    -744.44, -745.13, -745.14, -746, 800, -800, 1023.9999999999999, 1024, -1074, -1075, -1075.1, 0x1p27, -0x1p27};

    for (int k = 0; k < FNS; k++)
        check(&fns[k], sizeof points / sizeof *points, points);
}

/* Next to multiples of pi / 2, where most digits cancel; also past the bound of the loops. */
static void circular_functions_reduce_well(void **state)
{
    static double v[3000];

    for (int i = 0; i < 3000; i++) {
        double n = i < 1000 ? i + 1 : (double)rnd_to(1ll << (i % 35 + 1)), x = (double)(n * 1.5707963267948966192313216916397514L);
        v[i] = i % 3 == 0 ? x : nextafter(x, i % 3 == 1 ? 0 : 1e300);
    }
    for (int k = 0; k < FNS; k++)
        if (fns[k].op == OP_sin || fns[k].op == OP_cos || fns[k].op == OP_tan)
            check(&fns[k], 3000, v);
}

static void check_pow(int64_t n, const double *a, const double *b)
{
    Tensor *x = of_doubles(DT_f64, n, a), *y = of_doubles(DT_f64, n, b), *z = run2(OP_pow, NULL, x, y);
    const double *got = z->store->data;

    for (int64_t i = 0; i < n; i++) {
        long double want = powl(a[i], b[i]);
        if (!(ulp_error(got[i], want) <= 0.75) || (got[i] == got[i] && !signbit(got[i]) != !signbit(want)))
            fail_msg("%a ** %a: %a, not %La", a[i], b[i], got[i], want);
    }
    tensor_unref(x);
    tensor_unref(y);
    tensor_unref(z);
}

/* Bases of every size and close to 1; exponents up to where the result leaves the range. */
static void pow_is_accurate(void **state)
{
    static double x[N], y[N];

    for (int i = 0; i < N; i++) {
        double t = (double)(rnd() >> 11) * 0x1p-53, u = (double)(rnd() >> 11) * 0x1p-53 - 0.5;
        x[i] = i % 2 ? ldexp(1 + t, (int)rnd_to(2000) - 1000) : 1 + ldexp(t - 0.5, -(int)rnd_to(50));
        y[i] = i % 3 ? u * 8 : u * 2000 / (fabs(log2(x[i])) + 1e-300);
    }
    check_pow(N, x, y);
}

/* Every pair of the numbers that powers treat apart. */
static void special_powers(void **state)
{
    static const double points[] = {0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 0x1p-1074, -0x1p-1074, 1e-300, 1.7e308, -1.7e308, 0x1.fffffffffffffp52,
                                    -0x1.fffffffffffffp52, 0x1p53, INFINITY, -INFINITY, NAN, 1 + 0x1p-52, 1 - 0x1p-53, 1e18, -1e18, 1074, -1074, 1023.5};
    enum { P = sizeof points / sizeof *points };
    static double x[P * P], y[P * P];

    for (int i = 0; i < P * P; i++)
        x[i] = points[i / P], y[i] = points[i % P];
    check_pow(P * P, x, y);
}

static void whole_results_are_exact(void **state)
{
    for (int i = -300; i <= 300; i++) {
        double v[] = {ldexp(1, i), i};
        Tensor *x = of_doubles(DT_f64, 2, v), *l = run1(OP_log2, NULL, x), *e = run1(OP_exp2, NULL, x);
        assert_true(elem_get_f(l, 0) == i && elem_get_f(e, 1) == v[0]);
        tensor_unref(x);
        tensor_unref(l);
        tensor_unref(e);
    }
    double ten = 1;
    for (int i = 0; i <= 22; i++, ten *= 10) {
        Tensor *x = of_doubles(DT_f64, 1, &ten), *l = run1(OP_log10, NULL, x);
        assert_true(elem_get_f(l, 0) == i);
        tensor_unref(x);
        tensor_unref(l);
    }
}

static void same(OpId op, const double *x, const double *a, const double *b, const char *why)
{
    for (int i = 0; i < 1000; i++)
        if (memcmp(&a[i], &b[i], 8) && (a[i] == a[i] || b[i] == b[i]))
            fail_msg("%s(%a): %a and %a: %s", op_info[op].name, x[i], a[i], b[i], why);
}

static const double *exponents(void)
{
    static double y[1000];

    for (int i = 0; i < 1000; i++)
        y[i] = (double)(rnd_to(2000) - 1000) / 64;
    return y;
}

/* Every table, and any way of cutting a run. */
static void loops_agree_bit_for_bit(void **state)
{
    static const char *const names[] = {"v3", "v4"};
    static double x[1000], whole[1000], part[1000];

    const double *y = exponents();

    for (int k = 0; k <= FNS; k++) {
        OpId op = k < FNS ? fns[k].op : OP_pow;
        for (int i = 0; i < 1000; i++)
            x[i] = i % 5 ? argument(&fns[k % FNS], i) : of_bits(rnd());
        loops_base[op][DT_f64](1000, whole, x, y, NULL);
        for (int v = 0; v < 2; v++) {
            if (!cpu_find(names[v]))
                continue;
            (*cpu_find(names[v])->loops)[op][DT_f64](1000, part, x, y, NULL);
            same(op, x, whole, part, names[v]);
        }
        for (int lo = 0, n; lo < 1000; lo += n) {
            n = 1 + (int)rnd_to(37);
            n = n > 1000 - lo ? 1000 - lo : n;
            (*cpu()->loops)[op][DT_f64](n, part + lo, x + lo, y + lo, NULL);
        }
        same(op, x, whole, part, "its place");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f64_functions_are_accurate),
        cmocka_unit_test(special_values),
        cmocka_unit_test(circular_functions_reduce_well),
        cmocka_unit_test(pow_is_accurate),
        cmocka_unit_test(special_powers),
        cmocka_unit_test(whole_results_are_exact),
        cmocka_unit_test(loops_agree_bit_for_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
