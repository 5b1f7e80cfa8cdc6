/*
 * Elementary functions: f32 as near the double result as accuracy.def states, over
 * stratified arguments (bench/ulp.c looks at all), special values, and the same bits from every
 * instruction set, alignment and place in a run.
 */
#include "tensors.h"

#include "runtime/cpu.h"

#include <math.h>

typedef struct { OpId op; double (*want)(double); double lo, hi; } Fn;

static const double stated[OP_COUNT] = {
#define ULP(name, single, wide) [OP_##name] = single,
#include "runtime/accuracy.def"
};

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double rsqrt(double x) { return 1 / sqrt(x); }

static const Fn fns[] = {
    {OP_exp, exp, -104, 89},      {OP_exp2, exp2, -150, 128},   {OP_expm1, expm1, -20, 89},
    {OP_log, log, 1e-45, 3e38},   {OP_log2, log2, 1e-45, 3e38}, {OP_log10, log10, 1e-45, 3e38},
    {OP_log1p, log1p, -0.99999, 3e38}, {OP_sqrt, sqrt, 0, 3e38}, {OP_rsqrt, rsqrt, 1e-45, 3e38},
    {OP_sin, sin, -3e38, 3e38},   {OP_cos, cos, -3e38, 3e38},   {OP_tan, tan, -3e38, 3e38},
    {OP_asin, asin, -1, 1},       {OP_acos, acos, -1, 1},       {OP_atan, atan, -3e38, 3e38},
    {OP_sinh, sinh, -90, 90},     {OP_cosh, cosh, -90, 90},     {OP_tanh, tanh, -12, 12},
    {OP_asinh, asinh, -3e38, 3e38}, {OP_acosh, acosh, 1, 3e38}, {OP_atanh, atanh, -1, 1},
    {OP_erf, erf, -5, 5},         {OP_erfc, erfc, -5, 10.5},    {OP_sigmoid, sigmoid, -100, 100},
};
enum { FNS = sizeof fns / sizeof *fns, N = 40000 };

/* Any float of [lo, hi]: half of them by value, half by bits, so that small ones come as often as large ones. */
static float argument(const Fn *f, int i)
{
    if (i % 2) {
        uint32_t u = (uint32_t)rnd();
        float x;
        memcpy(&x, &u, 4);
        if (x >= f->lo && x <= f->hi)
            return x;
    }
    double t = (double)(rnd() >> 11) * 0x1p-53;
    return (float)(f->hi - f->lo > 1e30 ? ldexp(t - 0.5, (int)rnd_to(30)) : f->lo + t * (f->hi - f->lo));
}

static double ulp_error(float got, double want)
{
    float w = (float)want;
    int e;

    if (isinf(w) || isinf(got) || want != want)
        return (w == got) || (want != want && got != got) ? 0 : 1e9;
    frexp(want, &e);
    return fabs((double)got - want) / ldexp(1, e - 24 < -149 ? -149 : e - 24);
}

/* What accuracy.def allows of results near `want`. */
static double allowed(OpId op, double want) { return fabs(want) < 0x1p-126 ? 1 : stated[op]; }

static void f32_functions_are_accurate(void **state)
{
    int64_t n = N;

    for (int k = 0; k < FNS; k++) {
        const Fn *f = &fns[k];
        Tensor *x = tensor_new(DT_f32, 1, &n), *y;
        float *v = x->store->data, *got;
        for (int i = 0; i < N; i++) {
            v[i] = argument(f, i);
            if (v[i] < f->lo || v[i] > f->hi)
                v[i] = (float)((f->lo + f->hi) / 2);
        }
        y = run1(f->op, NULL, x);
        got = y->store->data;
        for (int i = 0; i < N; i++) {
            double err = ulp_error(got[i], f->want(v[i]));
            if (err > allowed(f->op, f->want(v[i])))
                fail_msg("%s(%a): %a, not %a: %.3f ULP", op_info[f->op].name, v[i], got[i], f->want(v[i]), err);
        }
        tensor_unref(x);
        tensor_unref(y);
    }
}

static void pow_is_accurate(void **state)
{
    int64_t n = N;
    Tensor *x = tensor_new(DT_f32, 1, &n), *y = tensor_new(DT_f32, 1, &n), *z;

    for (int i = 0; i < N; i++) {
        ((float *)x->store->data)[i] = (float)ldexp(1 + (double)rnd_to(1 << 20) * 0x1p-20, (int)rnd_to(40) - 20);
        ((float *)y->store->data)[i] = (float)(rnd_to(1 << 20) - (1 << 19)) * 0x1p-14f;
    }
    z = run2(OP_pow, NULL, x, y);
    for (int i = 0; i < N; i++) {
        float a = ((float *)x->store->data)[i], b = ((float *)y->store->data)[i], got = ((float *)z->store->data)[i];
        if (ulp_error(got, pow(a, b)) > allowed(OP_pow, pow(a, b)))
            fail_msg("%a ** %a: %a, not %a", a, b, got, pow(a, b));
    }
    tensor_unref(x);
    tensor_unref(y);
    tensor_unref(z);
}

static float at(OpId op, double v)
{
    Tensor *x = of_doubles(DT_f32, 1, &v), *y = run1(op, NULL, x);
    float r = *(float *)y->store->data;

    tensor_unref(x);
    tensor_unref(y);
    return r;
}

/* Every pair of the numbers that functions of two treat apart. */
static void special_pairs(void **state)
{
    static const double points[] = {0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 1e-45, -1e-45, 3e38, -3e38, 16777217, INFINITY, -INFINITY, NAN};
    enum { P = sizeof points / sizeof *points };
    static const struct { OpId op; double (*want)(double, double); } pairs[] = {{OP_pow, pow}, {OP_atan2, atan2}};

    for (int k = 0; k < 2; k++)
        for (int i = 0; i < P * P; i++) {
            float a = (float)points[i / P], b = (float)points[i % P];
            double p = a, q = b, want = pairs[k].want(p, q);
            Tensor *x = of_doubles(DT_f32, 1, &p), *y = of_doubles(DT_f32, 1, &q), *z = run2(pairs[k].op, NULL, x, y);
            float got = *(float *)z->store->data;
            if (ulp_error(got, want) > allowed(pairs[k].op, want) || (got == got && !signbit(got) != !signbit(want)))
                fail_msg("%s(%g, %g): %g, not %g", op_info[pairs[k].op].name, p, q, got, want);
            tensor_unref(x);
            tensor_unref(y);
            tensor_unref(z);
        }
}

static void special_values(void **state)
{
    for (int k = 0; k < FNS; k++) {
        const double points[] = {0.0, -0.0, 1, -1, INFINITY, -INFINITY, NAN};
        for (int i = 0; i < 7; i++) {
            double want = fns[k].want(points[i]);
            float got = at(fns[k].op, points[i]);
            if (ulp_error(got, fabs(points[i]) == 1 ? want : (float)want) > (fabs(points[i]) == 1 ? allowed(fns[k].op, want) : 0) || (got == got && !signbit(got) != !signbit(want)))
                fail_msg("%s(%g): %g, not %g", op_info[fns[k].op].name, points[i], got, want);
        }
    }
    assert_true(at(OP_log2, 8) == 3 && at(OP_log10, 1000) == 3 && at(OP_exp2, 10) == 1024);
    assert_true(fabsf(at(OP_erfinv, 0.5) - 0.47693628f) < 1e-7f && at(OP_erfinv, 1) == INFINITY && isnan(at(OP_erfinv, 2)));
    assert_true(fabsf(at(OP_lgamma, 10) - 12.801827f) < 1e-5f && fabsf(at(OP_digamma, 1) + 0.57721567f) < 1e-6f);
    assert_true(fabsf(at(OP_digamma, -0.5) - 0.03648998f) < 1e-6f);
    assert_true(at(OP_round, 0.5) == 0 && at(OP_round, 1.5) == 2 && signbit(at(OP_round, -0.3)));
}

/* erf(erfinv(p)) is p, in double. */
static void erfinv_inverts_erf(void **state)
{
    for (int i = -999; i < 1000; i++) {
        double p = i / 1000.0, x;
        Tensor *t = of_doubles(DT_f64, 1, &p), *y = run1(OP_erfinv, NULL, t);
        x = elem_get_f(y, 0);
        assert_true(fabs(erf(x) - p) <= 4e-16);
        tensor_unref(t);
        tensor_unref(y);
    }
}

/* Both tables, and any way of cutting a run. */
static void loops_agree_bit_for_bit(void **state)
{
    static float x[1000], y[1000], whole[1000], part[1000];

    for (int i = 0; i < 1000; i++) {
        uint32_t u = (uint32_t)rnd();
        memcpy(&x[i], &u, 4);
        y[i] = (float)(rnd_to(2000) - 1000) / 64;
    }
    static const OpId others[] = {OP_add, OP_sub, OP_mul, OP_div, OP_fma, OP_pow, OP_atan2, OP_maximum, OP_minimum, OP_floor, OP_round, OP_neg, OP_sign};

    for (int k = 0; k < FNS + 13; k++) {
        OpId op = k < FNS ? fns[k].op : others[k - FNS];
        LoopFn *base = loops_base[op][DT_f32], *fast = (*cpu()->loops)[op][DT_f32];
        static const char *const names[] = {"v3", "v4"};
        base(1000, whole, x, y, y);
        for (int v = 0; v < 2; v++) {
            if (!cpu_find(names[v]))
                continue;
            (*cpu_find(names[v])->loops)[op][DT_f32](1000, part, x, y, y);
            for (int i = 0; i < 1000; i++)
                if (memcmp(&whole[i], &part[i], 4) && (whole[i] == whole[i] || part[i] == part[i]))
                    fail_msg("%s(%a): %a and %a", op_info[op].name, x[i], whole[i], part[i]);
        }
        for (int lo = 0; lo < 1000;) {
            int n = 1 + (int)rnd_to(37);
            n = n > 1000 - lo ? 1000 - lo : n;
            fast(n, part + lo, x + lo, y + lo, y + lo);
            lo += n;
        }
        for (int i = 0; i < 1000; i++)
            if (memcmp(&whole[i], &part[i], 4) && (whole[i] == whole[i] || part[i] == part[i]))
                fail_msg("%s(%a) depends on its place", op_info[op].name, x[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f32_functions_are_accurate),
        cmocka_unit_test(pow_is_accurate),
        cmocka_unit_test(special_values),
        cmocka_unit_test(special_pairs),
        cmocka_unit_test(erfinv_inverts_erf),
        cmocka_unit_test(loops_agree_bit_for_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
