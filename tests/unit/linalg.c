/*
 * Factorisations multiply back, transforms invert, and random numbers have the
 * words of the Philox paper, the right moments and no forbidden values.
 */
#include "tensors.h"

#include "runtime/cpu.h"
#include "runtime/gemm.h"
#include "runtime/philox.h"

#include <math.h>

static Tensor *noise(int64_t batch, int64_t m, int64_t n)
{
    int64_t shape[] = {batch, m, n};
    Tensor *t = tensor_new(DT_f64, 3, shape);

    for (int64_t i = 0; i < batch * m * n; i++)
        ((double *)t->store->data)[i] = (double)(int64_t)rnd() * 0x1p-63;
    return hold(t);
}

static Tensor *transposed(Tensor *x)
{
    Attr a = attr_default();

    a.naxes = 2;
    a.axis[0] = -1, a.axis[1] = -2;
    return hold(run1(OP_permute, &a, x));
}

static Tensor *times(Tensor *x, Tensor *y) { return hold(run2(OP_matmul, NULL, x, y)); }

static double distance(Tensor *x, Tensor *y)
{
    Tensor *d = hold(run2(OP_sub, NULL, x, y));
    double most = 0;

    for (int64_t i = 0; i < tensor_size(d); i++)
        most = fmax(most, fabs(elem_get_f(d, i)));
    return most;
}

static Tensor *identity(int64_t n)
{
    int64_t shape[] = {n, n};
    Tensor *t = tensor_zeros(DT_f64, 2, shape);

    for (int64_t i = 0; i < n; i++)
        elem_set_f(t, i * n + i, 1);
    return hold(t);
}

static void factors_multiply_back(void **state)
{
    for (int64_t n = 1; n < 40; n = n * 2 + 1)
        for (int64_t m = 1; m < 40; m = m * 3) {
            int64_t k = m < n ? m : n;
            Tensor *a = noise(2, m, n), *out[3];
            StrBuf err = {0};
            assert_int_equal(run_ops(OP_qr, NULL, &a, 1, out, &err), K_OK);
            hold(out[0]), hold(out[1]);
            assert_true(distance(times(out[0], out[1]), a) < 1e-13);
            assert_true(distance(times(transposed(out[0]), out[0]), identity(k)) < 1e-13);
            for (int64_t i = 0; i < k; i++)
                assert_true(elem_get_f(out[1], i * n + i) >= 0);
            assert_int_equal(run_ops(OP_svd, NULL, &a, 1, out, &err), K_OK);
            hold(out[0]), hold(out[1]), hold(out[2]);
            Attr r = attr_default();
            r.nd[0] = 3;
            r.d[0][0] = 2, r.d[0][1] = 1, r.d[0][2] = k;
            Tensor *s = hold(run1(OP_reshape, &r, out[1])), *us = hold(run2(OP_mul, NULL, out[0], s));
            assert_true(distance(times(us, out[2]), a) < 1e-13);
            assert_true(distance(times(transposed(out[0]), out[0]), identity(k)) < 1e-13);
            assert_true(distance(times(out[2], transposed(out[2])), identity(k)) < 1e-13);
            for (int64_t i = 1; i < k; i++)
                assert_true(elem_get_f(out[1], i) <= elem_get_f(out[1], i - 1));
            release();
            sb_done(&err);
        }
}

static void symmetric_matrices(void **state)
{
    for (int64_t n = 1; n < 40; n = n * 2 + 1) {
        Tensor *x = noise(2, n, n), *a = hold(run2(OP_add, NULL, times(x, transposed(x)), identity(n))), *out[2], *b = noise(2, n, 3);
        StrBuf err = {0};
        assert_int_equal(run_ops(OP_eigh, NULL, &a, 1, out, &err), K_OK);
        hold(out[0]), hold(out[1]);
        Attr r = attr_default();
        r.nd[0] = 3;
        r.d[0][0] = 2, r.d[0][1] = 1, r.d[0][2] = n;
        Tensor *w = hold(run1(OP_reshape, &r, out[0]));
        assert_true(distance(times(a, out[1]), hold(run2(OP_mul, NULL, out[1], w))) < 1e-12);
        for (int64_t i = 1; i < n; i++)
            assert_true(elem_get_f(out[0], i) >= elem_get_f(out[0], i - 1));
        Tensor *l = hold(run1(OP_cholesky, NULL, a)), *lt = transposed(l);
        assert_true(distance(times(l, lt), a) < 1e-13);
        for (int kind = 0; kind < 4; kind++) {
            Attr t = attr_default();
            t.kind = (uint8_t)kind;
            Tensor *mat = kind & 1 ? lt : l, *y = hold(run2(OP_triangular_solve, &t, mat, b));
            assert_true(distance(times(kind & 2 ? transposed(mat) : mat, y), b) < 1e-12);
        }
        release();
        sb_done(&err);
    }
}

static void lu_permutes_rows(void **state)
{
    int64_t n = 9;
    Tensor *a = noise(1, n, n), *out[2];
    StrBuf err = {0};

    assert_int_equal(run_ops(OP_lu, NULL, &a, 1, out, &err), K_OK);
    hold(out[0]), hold(out[1]);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t k = 0; k <= i && k <= j; k++)
                sum += (k == i ? 1 : elem_get_f(out[0], i * n + k)) * elem_get_f(out[0], k * n + j);
            assert_true(fabs(sum - elem_get_f(a, elem_get_i(out[1], i) * n + j)) < 1e-14);
        }
    release();
    sb_done(&err);
}

static void impossible_matrices_raise(void **state)
{
    Tensor *a = identity(3), *out[3];
    StrBuf err = {0};

    elem_set_f(a, 4, -1);
    assert_int_equal(run_ops(OP_cholesky, NULL, &a, 1, out, &err), K_NUMERIC);
    assert_non_null(strstr(sb_str(&err), "not positive definite"));
    elem_set_f(a, 4, NAN);
    assert_int_equal(run_ops(OP_eigh, NULL, &a, 1, out, &err), K_NUMERIC);
    assert_int_equal(run_ops(OP_svd, NULL, &a, 1, out, &err), K_NUMERIC);
    release();
    sb_done(&err);
}

static void transforms_follow_the_definition(void **state)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 12, 30, 31, 37, 64, 97, 100, 121, 256, 311};

    for (int s = 0; s < 17; s++) {
        int64_t n = sizes[s];
        Tensor *x = tensor_new(DT_c128, 1, &n), *y, *back;
        Attr a = attr_default();
        for (int64_t i = 0; i < n; i++)
            elem_set_c(x, i, (double)rnd_to(100), (double)rnd_to(100));
        y = run1(OP_fft, &a, x);
        a.kind = 1;
        back = run1(OP_fft, &a, y);
        for (int64_t k = 0; k < n; k++) {
            double re = 0, im = 0, xr, xi, yr, yi;
            for (int64_t j = 0; j < n; j++) {
                double angle = -2 * M_PI * (double)(j * k % n) / (double)n;
                elem_get_c(x, j, &xr, &xi);
                re += xr * cos(angle) - xi * sin(angle);
                im += xr * sin(angle) + xi * cos(angle);
            }
            elem_get_c(y, k, &yr, &yi);
            assert_true(fabs(yr - re) + fabs(yi - im) < 1e-9 * (double)n);
            elem_get_c(x, k, &xr, &xi);
            elem_get_c(back, k, &yr, &yi);
            assert_true(fabs(yr - xr) + fabs(yi - xi) < 1e-10);
        }
        tensor_unref(x);
        tensor_unref(y);
        tensor_unref(back);
    }
}

/* The known answers of Random123 (kat_vectors, philox4x32 10). */
static void philox_gives_the_known_words(void **state)
{
    static const struct { uint64_t key, lo, hi; uint32_t want[4]; } kat[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };

    for (int i = 0; i < 3; i++) {
        Philox p = philox(kat[i].key, kat[i].lo, kat[i].hi);
        assert_memory_equal(p.w, kat[i].want, 16);
    }
}

static Tensor *draw(DType dt, Dist kind, int64_t n, double f, int64_t range)
{
    Tensor *key = of_doubles(DT_uint32, 2, (double[]){11, (double)kind}), *r;
    Attr a = attr_default();

    a.nd[0] = 1;
    a.d[0][0] = n;
    a.dtype = (uint8_t)dt;
    a.kind = (uint8_t)kind;
    a.f = f;
    a.i = range;
    r = run1(OP_random, &a, key);
    tensor_unref(key);
    return r;
}

static void uniform_numbers_stay_below_one(void **state)
{
    static const DType types[] = {DT_fp4, DT_fp6, DT_fp8_e4m3, DT_fp8_e5m2, DT_f16, DT_bf16, DT_tf32, DT_f32, DT_f64};
    enum { N = 100000 };

    for (int k = 0; k < 9; k++) {
        Tensor *u = draw(types[k], DIST_UNIFORM, N, 0, 0);
        double sum = 0, step = k == 0 ? 0.5 : ldexp(1, -dtype_info[types[k]].mbits - 1);
        for (int64_t i = 0; i < N; i++) {
            double v = elem_get_f(u, i);
            assert_true(v >= 0 && v < 1);
            sum += v;
        }
        assert_true(fabs(sum / N - (1 - fmin(step, 0.5)) / 2) < 6 * 0.29 / sqrt(N));
        tensor_unref(u);
    }
}

static void normal_numbers_have_their_moments(void **state)
{
    static const DType types[] = {DT_f32, DT_f64, DT_bf16};
    enum { N = 200000 };

    for (int k = 0; k < 3; k++) {
        Tensor *x = draw(types[k], DIST_NORMAL, N, 0, 0);
        double s1 = 0, s2 = 0, s3 = 0, s4 = 0;
        for (int64_t i = 0; i < N; i++) {
            double v = elem_get_f(x, i);
            assert_true(isfinite(v));
            s1 += v, s2 += v * v, s3 += v * v * v, s4 += v * v * v * v;
        }
        assert_true(fabs(s1 / N) < 6 / sqrt(N) && fabs(s2 / N - 1) < 6 * sqrt(2.0 / N));
        assert_true(fabs(s3 / N) < 6 * sqrt(15.0 / N) && fabs(s4 / N - 3) < 6 * sqrt(96.0 / N) + 0.01);
        tensor_unref(x);
    }
}

static void other_draws(void **state)
{
    enum { N = 60000 };
    int64_t count[6] = {0};
    Tensor *r = draw(DT_int32, DIST_RANDINT, N, 0, 6), *b = draw(DT_f32, DIST_BERNOULLI, N, 0.3, 0), *wide;
    double ones = 0;

    for (int64_t i = 0; i < N; i++) {
        count[elem_get_i(r, i)]++;
        ones += elem_get_f(b, i);
    }
    for (int k = 0; k < 6; k++)
        assert_true(fabs((double)count[k] - N / 6.0) < 6 * sqrt(N / 6.0));
    assert_true(fabs(ones - 0.3 * N) < 6 * sqrt(N * 0.21));
    wide = draw(DT_int64, DIST_RANDINT, 1000, 0, INT64_MAX);
    for (int64_t i = 0; i < 1000; i++)
        assert_true(elem_get_i(wide, i) >= 0);
    tensor_unref(r);
    tensor_unref(b);
    tensor_unref(wide);
    b = draw(DT_f32, DIST_BERNOULLI, 1000, 1, 0);                   /* certain */
    for (int64_t i = 0; i < 1000; i++)
        assert_true(elem_get_f(b, i) == 1);
    tensor_unref(b);
}

/* Element i of a draw does not depend on how many are drawn. */
static void draws_are_prefixes(void **state)
{
    Tensor *a = draw(DT_f32, DIST_NORMAL, 5000, 0, 0), *b = draw(DT_f32, DIST_NORMAL, 77, 0, 0);

    assert_memory_equal(a->store->data, b->store->data, 77 * 4);
    tensor_unref(a);
    tensor_unref(b);
}

/* What is turned into rows of any width ends with the last one. */
static void turned_rows_end(void **state)
{
    enum { K = 40, LINE = 48, MOST = 40, GUARD = 32 };
    float from[MOST * LINE], to[K * MOST + GUARD];

    (void)state;
    for (int i = 0; i < MOST * LINE; i++)
        from[i] = (float)(i + 1);
    for (int width = 1; width <= MOST; width++)
        for (int k = 1; k <= K; k++) {
            for (int i = 0; i < K * MOST + GUARD; i++)
                to[i] = -1;
            cpu()->gemm->f32.turn(from, LINE, width, k, to, width);
            for (int i = 0; i < K * MOST + GUARD; i++)
                assert_true(to[i] == (i < k * width ? from[i % width * LINE + i / width] : -1));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(factors_multiply_back),
        cmocka_unit_test(symmetric_matrices),
        cmocka_unit_test(lu_permutes_rows),
        cmocka_unit_test(impossible_matrices_raise),
        cmocka_unit_test(transforms_follow_the_definition),
        cmocka_unit_test(philox_gives_the_known_words),
        cmocka_unit_test(uniform_numbers_stay_below_one),
        cmocka_unit_test(normal_numbers_have_their_moments),
        cmocka_unit_test(other_draws),
        cmocka_unit_test(draws_are_prefixes),
        cmocka_unit_test(turned_rows_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
