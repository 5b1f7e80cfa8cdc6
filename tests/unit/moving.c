/*
 * Moving, indexing, sorting and windows against plain loops.
 */
#include "tensors.h"

#include <math.h>
#include <stdlib.h>

static double at1(const Tensor *t, int64_t i) { return elem_get_f(t, t->offset + i * t->stride[0]); }

static void reshape_is_row_major(void **state)
{
    for (int round = 0; round < 500; round++) {
        static const int64_t shapes[][4] = {{2, 3, 4, 5}, {6, 20, 1, 1}, {120, 1, 1, 1}, {5, 4, 3, 2}, {1, 8, 15, 1}, {2, 2, 30, 1}};
        const int64_t *from = shapes[rnd_to(6)], *to = shapes[rnd_to(6)];
        Tensor *x = random_view((DType)rnd_to(DT_COUNT), 4, from), *flat = tensor_copy(x), *y, *z;
        Attr a = attr_default();
        a.nd[0] = 4;
        memcpy(a.d[0], to, 4 * sizeof *to);
        y = run1(OP_reshape, &a, x);
        z = run1(OP_reshape, &a, flat);
        assert_true(z->store == flat->store);                       /* a view */
        assert_true(tensor_same_bits(y, z));
        Tensor *all[] = {x, flat, y, z};
        for (int i = 0; i < 4; i++)
            tensor_unref(all[i]);
    }
}

static void slices_pads_and_flips(void **state)
{
    Tensor *x = of_doubles(DT_int32, 6, (double[]){0, 1, 2, 3, 4, 5}), *y;
    Attr a = attr_default();

    a.nd[0] = a.nd[1] = a.nd[2] = 1;
    a.d[0][0] = 4, a.d[1][0] = dim_const(-1), a.d[2][0] = dim_const(-2);
    y = run1(OP_slice, &a, x);
    assert_text(y, "Tensor([4, 2, 0], shape=(3,), dtype=int32)");
    tensor_unref(y);
    a = attr_default();
    a.nd[0] = a.nd[1] = a.nd[2] = 1;
    a.d[0][0] = 2, a.d[1][0] = 1, a.d[2][0] = 1, a.f = 9;
    y = run1(OP_pad, &a, x);
    assert_text(y, "Tensor([9, 9, 0, 9, 1, 9, 2, 9, 3, 9, 4, 9, 5, 9], shape=(14,), dtype=int32)");
    tensor_unref(y);
    a = attr_default();
    a.naxes = 1;
    a.axis[0] = -1;
    y = run1(OP_flip, &a, x);
    assert_text(y, "Tensor([5, 4, 3, 2, 1, 0], shape=(6,), dtype=int32)");
    tensor_unref(y);
    tensor_unref(x);
}

/* Negative amounts cut; the kernel is asked directly, whatever the typing rule allows. */
static void negative_pads_cut(void **state)
{
    Tensor *x = of_doubles(DT_int4, 5, (double[]){1, 2, 3, 4, 5}), *y;
    TType t = {.dtype = DT_int4, .rank = 1};
    StrBuf err = {0};
    KCtx c = {.err = &err};

    for (int before = -4; before <= 3; before++)
        for (int after = -4; after <= 3; after++)
            for (int gap = 0; gap < 3; gap++) {
                int full = 5 + 4 * gap, size = full + before + after;
                if (size < 0)
                    continue;
                Attr a = attr_default();
                a.nd[0] = a.nd[1] = a.nd[2] = 1;
                a.d[0][0] = dim_const(before), a.d[1][0] = dim_const(after), a.d[2][0] = gap;
                a.f = 7;
                t.shape[0] = size;
                assert_int_equal(kernel_run(&c, OP_pad, &a, &x, 1, &t, &y), K_OK);
                for (int i = 0; i < size; i++) {
                    int s = i - before;
                    double want = s >= 0 && s < full && s % (gap + 1) == 0 ? s / (gap + 1) + 1 : 7;
                    assert_true(at1(y, i) == want);
                }
                tensor_unref(y);
            }
    tensor_unref(x);
}

static void concat_joins_any_views(void **state)
{
    for (int round = 0; round < 300; round++) {
        DType dt = (DType)rnd_to(DT_COUNT);
        int64_t sizes[3][3], axis = rnd_to(3), base[] = {1 + rnd_to(3), 1 + rnd_to(4), 1 + rnd_to(5)}, i[3] = {0};
        Tensor *x[3], *y;
        Attr a = attr_default();
        a.naxes = 1;
        a.axis[0] = (int8_t)(axis - 3);
        for (int k = 0; k < 3; k++) {
            memcpy(sizes[k], base, sizeof base);
            sizes[k][axis] = rnd_to(4);
            x[k] = random_view(dt, 3, sizes[k]);
        }
        y = run_op(OP_concat, &a, x, 3);
        if (tensor_size(y))
            do {
                int64_t j[3] = {i[0], i[1], i[2]};
                int k = 0;
                while (j[axis] >= sizes[k][axis])
                    j[axis] -= sizes[k++][axis];
                assert_true(elem_get_f(y, place_of(y, i)) == elem_get_f(x[k], place_of(x[k], j)));
            } while (next_index(3, y->shape, i));
        for (int k = 0; k < 3; k++)
            tensor_unref(x[k]);
        tensor_unref(y);
    }
}

/* Summed back, overlapping windows count each element as often as it was seen. */
static void unwindow_is_the_transpose_of_window(void **state)
{
    for (int round = 0; round < 200; round++) {
        int64_t shape[] = {2, 4 + rnd_to(5), 4 + rnd_to(5)};
        Attr a = attr_default();
        a.n = 2;
        for (int k = 0; k < 2; k++) {
            a.d[0][k] = 1 + rnd_to(3);
            a.d[1][k] = 1 + rnd_to(3);
            a.d[2][k] = 1 + rnd_to(1 + (a.d[0][k] < 3));
            a.d[3][k] = shape[1 + k];
        }
        a.nd[0] = a.nd[1] = a.nd[2] = a.nd[3] = 2;
        Tensor *x = random_view(DT_f32, 3, shape), *w = run1(OP_window, &a, x), *g = random_view(DT_f32, w->rank, w->shape);
        Tensor *back = run1(OP_unwindow, &a, g), *p = run2(OP_mul, NULL, w, g), *q = run2(OP_mul, NULL, x, back);
        Attr all = attr_default();
        double sums[2];
        Tensor *of[] = {p, q};
        for (int k = 0; k < 2; k++) {                               /* <window(x), g> == <x, unwindow(g)> */
            all.naxes = of[k]->rank;
            for (int i = 0; i < all.naxes; i++)
                all.axis[i] = (int8_t)(-1 - i);
            Tensor *s = run1(OP_sum, &all, of[k]);
            sums[k] = elem_get_f(s, 0);
            tensor_unref(s);
        }
        assert_true(sums[0] == sums[1]);
        Tensor *dead[] = {x, w, g, back, p, q};
        for (int i = 0; i < 6; i++)
            tensor_unref(dead[i]);
    }
}

static void index_reads_and_writes(void **state)
{
    for (int round = 0; round < 300; round++) {
        DType dt = (DType)(DT_int8 + rnd_to(DT_COUNT - DT_int8));
        int64_t shape[] = {2, 3, 4, 5}, points[] = {3, 2}, col[] = {2}, batch[] = {2, 3, 2};
        bool batched = rnd_to(2);
        Attr a = attr_default();
        a.n = 2;
        a.m = batched;
        int64_t i[RANK_MAX] = {0};
        Tensor *x = random_view(dt, 4, shape), *i1 = random_view(DT_int32, batched ? 3 : 2, batched ? batch : points);
        Tensor *i2 = batched ? random_view(DT_int64, 3, batch) : random_view(DT_int64, 1, col), *y, *z;
        hold(i1), hold(i2);
        i1 = tensor_copy(i1), i2 = tensor_copy(i2);
        for (int64_t k = 0; k < tensor_size(i1); k++)
            elem_set_i(i1, k, rnd_to(4) - 2);
        for (int64_t k = 0; k < tensor_size(i2); k++)
            elem_set_i(i2, k, rnd_to(6) - 3);
        y = run_op(OP_index, &a, (Tensor *[]){x, i1, i2}, 3);
        do {                                                        /* y[b, p, q, rest] == x[b, i1, i2, rest] */
            int64_t p1[] = {i[0], i[1], i[2]}, own[4];
            int m = batched;
            const int64_t *p = batched ? p1 : i;
            int64_t v1 = elem_get_i(i1, place_of(i1, p)), v2 = elem_get_i(i2, batched ? place_of(i2, p) : i[1]);
            if (batched)
                own[0] = i[0];
            own[m] = v1 < 0 ? v1 + shape[m] : v1;
            own[m + 1] = v2 < 0 ? v2 + shape[m + 1] : v2;
            for (int k = m + 2, r = m + 2; k < 4; k++, r++)
                own[k] = i[r];
            assert_true(elem_get_f(y, place_of(y, i)) == elem_get_f(x, place_of(x, own)));
        } while (next_index(y->rank, y->shape, i));
        z = run_op(OP_index_put, &a, (Tensor *[]){x, y, i1, i2}, 4);    /* writing back what was read changes nothing */
        assert_true(tensor_same_bits(x, z));
        Tensor *dead[] = {x, i1, i2, y, z};
        for (int k = 0; k < 5; k++)
            tensor_unref(dead[k]);
        release();
    }
}

static void duplicates_have_an_order(void **state)
{
    Tensor *x = hold(of_doubles(DT_bf16, 2, (double[]){256, 0})), *v = hold(of_doubles(DT_bf16, 4, (double[]){1, 1, 1, 1}));
    Tensor *i = hold(of_doubles(DT_int32, 4, (double[]){0, 0, 0, -2})), *y, *out[4];
    Attr a = attr_default();
    StrBuf err = {0};

    a.n = 1;
    y = run_op(OP_index_add, &a, (Tensor *[]){x, v, i}, 3);
    assert_true(at1(y, 0) == 260);                                  /* one rounding, not four that lose everything */
    tensor_unref(y);
    v = hold(of_doubles(DT_bf16, 4, (double[]){1, 2, 3, 4}));
    y = run_op(OP_index_put, &a, (Tensor *[]){x, v, i}, 3);
    assert_true(at1(y, 0) == 4 && at1(x, 0) == 256);
    tensor_unref(y);
    i = hold(of_doubles(DT_int64, 4, (double[]){0, 1, 2, 0}));
    assert_int_equal(run_ops(OP_index, &a, (Tensor *[]){x, i}, 2, out, &err), K_INDEX);
    assert_string_equal(sb_str(&err), "index 2 is out of range for axis 0 of size 2");
    sb_clear(&err);
    i = hold(of_doubles(DT_int64, 1, (double[]){-3}));
    assert_int_equal(run_ops(OP_index_put, &a, (Tensor *[]){x, i, i}, 3, out, &err), K_INDEX);
    sb_done(&err);
    release();
}

static void dynamic_boxes_clamp(void **state)
{
    Tensor *x = of_doubles(DT_int32, 5, (double[]){0, 1, 2, 3, 4}), *v = of_doubles(DT_int32, 2, (double[]){8, 9}), *y;
    Attr a = attr_default();

    a.n = 1;
    a.nd[0] = 1;
    a.d[0][0] = 2;
    for (int64_t s = -3; s < 9; s++) {
        int64_t want = s < 0 ? 0 : s > 3 ? 3 : s;
        Tensor *start = tensor_scalar_i(DT_int64, s);
        y = run_op(OP_dynamic_slice, &a, (Tensor *[]){x, start}, 2);
        assert_true(at1(y, 0) == (double)want && at1(y, 1) == (double)want + 1);
        tensor_unref(y);
        y = run_op(OP_dynamic_update, &a, (Tensor *[]){x, v, start}, 3);
        assert_true(at1(y, want) == 8 && at1(y, want + 1) == 9 && at1(x, want) == (double)want);
        tensor_unref(y);
        tensor_unref(start);
    }
    tensor_unref(x);
    tensor_unref(v);
}

static void sorting_is_stable_with_nan_last(void **state)
{
    static const int64_t lengths[] = {0, 1, 2, 17, 1000, 1024, 5000};

    for (int k = 0; k < 7; k++)
        for (int down = 0; down < 2; down++) {
            int64_t n = lengths[k], shape[] = {3, n};
            Tensor *x = random_view(k % 2 ? DT_f32 : DT_int16, 2, shape);
            Attr a = attr_default();
            a.i = down;
            Tensor *order = run1(OP_argsort, &a, x), *values = run1(OP_sort, &a, x);
            for (int64_t r = 0; r < 3; r++)
                for (int64_t i = 0; i < n; i++) {
                    int64_t p = elem_get_i(order, r * n + i);
                    double v = elem_get_f(x, place_of(x, (int64_t[]){r, p}));
                    assert_true(v == elem_get_f(values, r * n + i));
                    if (!i)
                        continue;
                    int64_t q = elem_get_i(order, r * n + i - 1);
                    double u = elem_get_f(x, place_of(x, (int64_t[]){r, q}));
                    assert_true(down ? u > v || (u == v && q < p) : u < v || (u == v && q < p));
                }
            tensor_unref(x);
            tensor_unref(order);
            tensor_unref(values);
        }
    Tensor *x = hold(of_doubles(DT_f16, 5, (double[]){NAN, 1, -0.0, 0, -INFINITY}));
    Attr a = attr_default();
    assert_text(hold(run1(OP_argsort, &a, x)), "Tensor([4, 2, 3, 1, 0], shape=(5,), dtype=int32)");
    a.i = 1;
    assert_text(hold(run1(OP_argsort, &a, x)), "Tensor([1, 2, 3, 4, 0], shape=(5,), dtype=int32)");
    release();
}

static void running_sums(void **state)
{
    for (int64_t n = 0; n < 1100; n += 137)
        for (int back = 0; back < 2; back++) {
            int64_t shape[] = {n, 3};
            Tensor *x = random_view(DT_int32, 2, shape), *y;
            Attr a = attr_default();
            a.naxes = 1;
            a.axis[0] = -2;
            a.i = back;
            y = run1(OP_cumsum, &a, x);
            for (int64_t c = 0; c < 3; c++) {
                double sum = 0;
                for (int64_t i = 0; i < n; i++) {
                    int64_t at[] = {back ? n - 1 - i : i, c};
                    sum += elem_get_f(x, place_of(x, at));
                    assert_true(elem_get_f(y, place_of(y, at)) == sum);
                }
            }
            tensor_unref(x);
            tensor_unref(y);
        }
    Tensor *x = hold(of_doubles(DT_f32, 4, (double[]){1, NAN, 0, 5}));
    Attr a = attr_default();
    a.naxes = 1;
    a.axis[0] = -1;
    assert_text(hold(run1(OP_cummax, &a, x)), "Tensor([1.0, nan, nan, nan], shape=(4,), dtype=f32)");
    release();
}

/* Correlation by definition. */
static void convolutions_follow_the_definition(void **state)
{
    for (int round = 0; round < 150; round++) {
        int64_t g = 1 + rnd_to(2), cg = 1 + rnd_to(2), og = 1 + rnd_to(2), i[RANK_MAX] = {0};
        int64_t sx[] = {2, g * cg, 3 + rnd_to(6), 3 + rnd_to(6)}, sw[] = {g * og, cg, 1 + rnd_to(3), 1 + rnd_to(3)};
        Attr a = attr_default();
        Tensor *out[4], *x = random_view(DT_f32, 4, sx), *w = random_view(DT_f32, 4, sw);
        StrBuf err = {0};
        a.n = 2;
        a.m = (int16_t)g;
        a.nd[0] = a.nd[1] = a.nd[2] = 2, a.nd[3] = 4;
        for (int k = 0; k < 2; k++) {
            a.d[0][k] = 1 + rnd_to(3);
            a.d[1][k] = dim_const(rnd_to(4) - 1);
            a.d[2][k] = dim_const(rnd_to(4) - 1);
            a.d[3][k] = 1 + rnd_to(2);
            a.d[3][2 + k] = 1 + rnd_to(2);
        }
        if (run_ops(OP_conv, &a, (Tensor *[]){x, w}, 2, out, &err) == K_OK) {
            if (tensor_size(out[0])) do {
                double want = 0;
                int64_t group = i[1] / og;
                for (int64_t c = 0; c < cg; c++)
                    for (int64_t p = 0; p < sw[2]; p++)
                        for (int64_t q = 0; q < sw[3]; q++) {
                            int64_t before[2], s[2];
                            dim_const_value(a.d[1][0], &before[0]);
                            dim_const_value(a.d[1][1], &before[1]);
                            s[0] = i[2] * a.d[0][0] + p * a.d[3][2] - before[0];
                            s[1] = i[3] * a.d[0][1] + q * a.d[3][3] - before[1];
                            if (s[0] < 0 || s[1] < 0 || s[0] % a.d[3][0] || s[1] % a.d[3][1])
                                continue;
                            s[0] /= a.d[3][0], s[1] /= a.d[3][1];
                            if (s[0] < sx[2] && s[1] < sx[3])
                                want += elem_get_f(x, place_of(x, (int64_t[]){i[0], group * cg + c, s[0], s[1]})) *
                                        elem_get_f(w, place_of(w, (int64_t[]){i[1], c, p, q}));
                        }
                assert_true(elem_get_f(out[0], place_of(out[0], i)) == want);
            } while (next_index(4, out[0]->shape, i));
            tensor_unref(out[0]);
        }
        sb_done(&err);
        tensor_unref(x);
        tensor_unref(w);
    }
}

static void printing(void **state)
{
    int64_t shape[] = {3, 40}, big[] = {2, 600};
    Tensor *x = tensor_zeros(DT_int8, 2, shape), *y = tensor_zeros(DT_int8, 2, big);
    StrBuf b = {0};

    tensor_print(x, &b);
    assert_true(strstr(sb_str(&b), "0],\n        [0, 0") != NULL);
    sb_clear(&b);
    tensor_print(y, &b);
    assert_string_equal(sb_str(&b), "Tensor([[0, 0, 0, ..., 0, 0, 0], [0, 0, 0, ..., 0, 0, 0]], shape=(2, 600), dtype=int8)");
    sb_clear(&b);
    elem_print(DT_f32, 16777216, &b);
    sb_putc(&b, ' ');
    elem_print(DT_f64, 1e16, &b);
    sb_putc(&b, ' ');
    elem_print(DT_f64, 1e-5, &b);
    sb_putc(&b, ' ');
    elem_print(DT_f64, 5e-324, &b);
    sb_putc(&b, ' ');
    elem_print(DT_bf16, 0.10009765625, &b);
    assert_string_equal(sb_str(&b), "16777216.0 1e+16 1e-05 5e-324 0.1");
    sb_done(&b);
    tensor_unref(x);
    tensor_unref(y);
}

/* Every printed number reads back as itself. */
static void digits_read_back(void **state)
{
    for (int i = 0; i < 20000; i++) {
        uint32_t u = (uint32_t)rnd();
        float f;
        StrBuf b = {0};
        memcpy(&f, &u, 4);
        elem_print(DT_f32, f, &b);
        if (f == f)
            assert_true(strtof(sb_str(&b), NULL) == f);
        sb_done(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reshape_is_row_major),
        cmocka_unit_test(slices_pads_and_flips),
        cmocka_unit_test(negative_pads_cut),
        cmocka_unit_test(concat_joins_any_views),
        cmocka_unit_test(unwindow_is_the_transpose_of_window),
        cmocka_unit_test(index_reads_and_writes),
        cmocka_unit_test(duplicates_have_an_order),
        cmocka_unit_test(dynamic_boxes_clamp),
        cmocka_unit_test(sorting_is_stable_with_nan_last),
        cmocka_unit_test(running_sums),
        cmocka_unit_test(convolutions_follow_the_definition),
        cmocka_unit_test(printing),
        cmocka_unit_test(digits_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
