/*
 * Kernels against plain loops over multi-indices, on random views: permuted,
 * sliced, reversed, stretched, empty and 0-d, of every dtype.
 */
#include "tensors.h"

#include "runtime/scalar.h"

static void random_shape(int rank, int64_t *shape)
{
    for (int i = 0; i < rank; i++)
        shape[i] = rnd_to(8) == 0 ? 0 : 1 + rnd_to(5);
}

/* A shape that stretches to `full`: some axes 1, some leading ones missing. */
static int narrower(int rank, const int64_t *full, int64_t *shape)
{
    int drop = (int)rnd_to(rank + 1) * (rnd_to(3) == 0);

    for (int i = drop; i < rank; i++)
        shape[i - drop] = rnd_to(3) == 0 ? 1 : full[i];
    return rank - drop;
}

/* The element of an operand that meets index i of the result. */
static double operand_at(const Tensor *t, int rank, const int64_t *i)
{
    int64_t own[RANK_MAX];

    for (int k = 0; k < t->rank; k++)
        own[k] = t->shape[k] == 1 ? 0 : i[rank - t->rank + k];
    return elem_get_f(t, place_of(t, own));
}

static double rounded(DType dt, double v)
{
    Tensor *t = tensor_new(dt, 0, NULL);

    if (dtype_is_inexact(dt))
        elem_set_f(t, 0, v);
    else
        elem_set_i(t, 0, (int64_t)v);               /* wraps */
    v = elem_get_f(t, 0);
    tensor_unref(t);
    return v;
}

static double plain(OpId op, double a, double b)
{
    switch (op) {
    case OP_add: return a + b;
    case OP_sub: return a - b;
    case OP_mul: return a * b;
    case OP_maximum: return a > b ? a : b;
    case OP_minimum: return a < b ? a : b;
    case OP_lt: return a < b;
    case OP_eq: return a == b;
    default: fail(); return 0;
    }
}

static void binary_ops_equal_plain_loops(void **state)
{
    static const OpId ops[] = {OP_add, OP_sub, OP_mul, OP_maximum, OP_minimum, OP_lt, OP_eq};

    for (int round = 0; round < 3000; round++) {
        DType dt = (DType)(DT_int4 + rnd_to(DT_f64 - DT_int4 + 1));
        OpId op = ops[rnd_to(7)];
        int64_t shape[RANK_MAX], sa[RANK_MAX], sb[RANK_MAX], i[RANK_MAX] = {0};
        int rank = (int)rnd_to(5), ra, rb;
        random_shape(rank, shape);
        ra = narrower(rank, shape, sa);
        rb = narrower(rank, shape, sb);
        Tensor *x = random_view(dt, ra, sa), *y = random_view(dt, rb, sb), *z = run2(op, NULL, x, y);
        if (tensor_size(z))
            do {
                double want = plain(op, operand_at(x, z->rank, i), operand_at(y, z->rank, i));
                double got = elem_get_f(z, place_of(z, i));
                if (got != rounded((DType)z->dtype, want))
                    fail_msg("%s of %s: %g, not %g", op_info[op].name, dtype_info[dt].name, got, want);
            } while (next_index(z->rank, z->shape, i));
        tensor_unref(x);
        tensor_unref(y);
        tensor_unref(z);
    }
}

static void conversions_keep_small_numbers(void **state)
{
    for (int from = 0; from < DT_COUNT; from++)
        for (int to = 0; to < DT_COUNT; to++) {
            int64_t shape[] = {3, 1 + rnd_to(50), 2}, i[3] = {0};
            Tensor *x = random_view((DType)from, 3, shape), *y = converted(x, (DType)to);
            do {
                double v = elem_get_f(x, place_of(x, i)), want = v;
                if (to == DT_bool)
                    want = v != 0;
                if (dtype_info[to].kind == DK_UINT && v < 0)
                    want = dtype_info[from].kind == DK_INT ? v + ldexp(1, dtype_info[to].bits) : 0;
                if (to == DT_int4 && dtype_info[from].kind != DK_INT && v > 7)
                    want = dtype_is_int((DType)from) ? v - 16 : 7;
                assert_true(elem_get_f(y, place_of(y, i)) == want);
            } while (next_index(3, shape, i));
            tensor_unref(x);
            tensor_unref(y);
        }
}

static void copies_keep_bits_of_any_view(void **state)
{
    for (int round = 0; round < 2000; round++) {
        DType dt = (DType)rnd_to(DT_COUNT);
        int64_t shape[RANK_MAX], i[RANK_MAX] = {0};
        int rank = (int)rnd_to(6);
        random_shape(rank, shape);
        Tensor *x = random_view(dt, rank, shape), *c = tensor_copy(x);
        assert_true(c->contiguous);
        assert_true(tensor_same_bits(x, c));
        if (tensor_size(x))
            do
                assert_true(elem_get_f(x, place_of(x, i)) == elem_get_f(c, place_of(c, i)));
            while (next_index(rank, shape, i));
        /* writing through a view touches its elements only */
        Tensor *y = random_view(dt, rank, shape);
        tensor_assign(y, x);
        assert_true(tensor_same_bits(x, y));
        tensor_unref(x);
        tensor_unref(y);
        tensor_unref(c);
    }
}

static void owning_copies_on_write(void **state)
{
    Tensor *x = of_doubles(DT_f32, 3, (double[]){1, 2, 3}), *y = tensor_ref(x);

    assert_true(tensor_own(&y));
    elem_set_f(y, 0, 9);
    assert_true(elem_get_f(x, 0) == 1);
    Tensor *same = y;
    assert_true(tensor_own(&y) && y == same);
    tensor_unref(x);
    tensor_unref(y);
}

static void sixteen_axes_work(void **state)
{
    int64_t shape[RANK_MAX];

    for (int i = 0; i < RANK_MAX; i++)
        shape[i] = i % 3 == 0 ? 2 : 1;
    Tensor *x = random_view(DT_f32, RANK_MAX, shape), *y = run2(OP_add, NULL, x, x);
    Attr a = attr_default();
    a.naxes = RANK_MAX;
    for (int i = 0; i < RANK_MAX; i++)
        a.axis[i] = (int8_t)(-1 - i);
    Tensor *s = run1(OP_sum, &a, x), *t = run1(OP_sum, &a, y);
    assert_true(2 * elem_get_f(s, 0) == elem_get_f(t, 0));
    tensor_unref(x);
    tensor_unref(y);
    tensor_unref(s);
    tensor_unref(t);
}

static Tensor *one(DType dt, double v) { return of_doubles(dt, 1, &v); }

static double apply2(OpId op, DType dt, double a, double b)
{
    Tensor *x = one(dt, a), *y = one(dt, b), *z = run2(op, NULL, x, y);
    double r = elem_get_f(z, 0);

    tensor_unref(x);
    tensor_unref(y);
    tensor_unref(z);
    return r;
}

static void integers_follow_python(void **state)
{
    assert_true(apply2(OP_floordiv, DT_int32, -7, 2) == -4 && apply2(OP_mod, DT_int32, -7, 3) == 2);
    assert_true(apply2(OP_floordiv, DT_int8, -128, -1) == -128 && apply2(OP_mod, DT_int8, -128, -1) == 0);
    assert_true(apply2(OP_floordiv, DT_int64, (double)INT64_MIN, -1) == (double)INT64_MIN);
    assert_true(apply2(OP_floordiv, DT_uint8, 250, 7) == 35 && apply2(OP_mod, DT_f32, -7.5, 2) == 0.5);
    assert_true(apply2(OP_shl, DT_int32, 1, 32) == 0 && apply2(OP_shl, DT_int8, 1, 7) == -128 && apply2(OP_shl, DT_int32, 1, -1) == 0);
    assert_true(apply2(OP_shr, DT_int32, -8, 1) == -4 && apply2(OP_shr, DT_int32, -8, 99) == -1 && apply2(OP_shr, DT_uint8, 255, 8) == 0);
    assert_true(apply2(OP_add, DT_int8, 100, 100) == -56 && apply2(OP_mul, DT_uint16, 65535, 65535) == 1);
    assert_true(apply2(OP_add, DT_int4, 7, 1) == -8 && apply2(OP_sub, DT_uint4, 0, 1) == 15);
    assert_true(apply2(OP_pow, DT_int32, -3, 3) == -27 && apply2(OP_pow, DT_int32, 0, 0) == 1);
}

static void division_by_integer_zero_is_refused(void **state)
{
    Tensor *x = of_doubles(DT_int32, 3, (double[]){1, 2, 3}), *y = of_doubles(DT_int32, 3, (double[]){1, 0, 3}), *out[4];
    StrBuf err = {0};

    assert_int_equal(run_ops(OP_floordiv, NULL, (Tensor *[]){x, y}, 2, out, &err), K_ZERODIV);
    assert_int_equal(run_ops(OP_mod, NULL, (Tensor *[]){x, y}, 2, out, &err), K_ZERODIV);
    tensor_unref(y);
    y = of_doubles(DT_int32, 3, (double[]){1, -1, 3});
    assert_int_equal(run_ops(OP_pow, NULL, (Tensor *[]){x, y}, 2, out, &err), K_VALUE);
    tensor_unref(x);
    tensor_unref(y);
    sb_done(&err);
}

static void special_floats_follow_ieee(void **state)
{
    assert_true(isnan(apply2(OP_maximum, DT_f32, NAN, 1)) && isnan(apply2(OP_maximum, DT_f32, 1, NAN)));
    assert_true(isnan(apply2(OP_minimum, DT_f64, NAN, 1)) && isnan(apply2(OP_minimum, DT_bf16, 1, NAN)));
    assert_true(!signbit(apply2(OP_maximum, DT_f32, -0.0, 0)) && signbit(apply2(OP_minimum, DT_f32, 0, -0.0)));
    assert_true(apply2(OP_pow, DT_f32, 0, 0) == 1 && apply2(OP_pow, DT_f32, NAN, 0) == 1 && apply2(OP_pow, DT_f32, 1, NAN) == 1);
    assert_true(apply2(OP_pow, DT_f32, -2, 3) == -8 && isnan(apply2(OP_pow, DT_f32, -2, 0.5)) && apply2(OP_pow, DT_f32, 0, -1) == INFINITY);
    assert_true(apply2(OP_pow, DT_f32, -0.0, -3) == -INFINITY && apply2(OP_pow, DT_f32, -INFINITY, 3) == -INFINITY);
    assert_true(apply2(OP_pow, DT_f32, -1, INFINITY) == 1 && apply2(OP_pow, DT_f32, 0.5, INFINITY) == 0);
    assert_true(isnan(apply2(OP_pow, DT_f32, NAN, 2)) && apply2(OP_pow, DT_f32, -INFINITY, 0.5) == INFINITY);
    assert_true(apply2(OP_floordiv, DT_f32, 1, 0) == INFINITY && isnan(apply2(OP_mod, DT_f32, 1, 0)));
}

static void flush_clears_subnormals(void **state)
{
    Attr a = attr_default();
    Tensor *x = of_doubles(DT_f32, 3, (double[]){1e-40, -1e-40, 1}), *zero = one(DT_f32, 0), *y;

    y = run2(OP_add, &a, x, zero);
    assert_true(elem_get_f(y, 0) > 0);
    tensor_unref(y);
    a.flush = 1;
    y = run2(OP_add, &a, x, zero);
    assert_true(elem_get_f(y, 0) == 0 && elem_get_f(y, 1) == 0 && elem_get_f(y, 2) == 1);
    tensor_unref(x);
    tensor_unref(y);
    tensor_unref(zero);
}

/* a * b + c of f16: rounded once from the exact sum. */
static void narrow_fma_rounds_once(void **state)
{
    for (int i = 0; i < 2000; i++) {
        uint16_t u[3] = {(uint16_t)rnd(), (uint16_t)rnd(), (uint16_t)rnd()};
        Tensor *x[3];
        long double want;
        for (int k = 0; k < 3; k++) {
            x[k] = one(DT_f16, 0);
            u[k] = (u[k] & 0x7c00) == 0x7c00 ? 0x3c01 : u[k];
            memcpy(x[k]->store->data, &u[k], 2);
        }
        Tensor *y = run_op(OP_fma, NULL, x, 3);
        want = (long double)elem_get_f(x[0], 0) * elem_get_f(x[1], 0) + elem_get_f(x[2], 0);
        double got = elem_get_f(y, 0), step = fmax(ldexp(1, ilogb(got) - 10), 0x1p-24);
        if (isfinite(got) && got != 0)
            assert_true(fabsl(want - got) <= (long double)step / 2);
        for (int k = 0; k < 3; k++)
            tensor_unref(x[k]);
        tensor_unref(y);
    }
}

static void operands_given_up_are_reused(void **state)
{
    int64_t n = 5;
    Tensor *x = tensor_zeros(DT_f32, 1, &n), *y = of_doubles(DT_f32, 5, (double[]){1, 2, 3, 4, 5}), *out[4];
    TType t = {.dtype = DT_f32, .rank = 1, .shape = {5}};
    StrBuf err = {0};
    KCtx c = {.err = &err};

    assert_int_equal(kernel_run_dying(&c, OP_add, NULL, (Tensor *[]){x, y}, 2, &t, out, 1), K_OK);
    assert_ptr_equal(out[0]->store, x->store);
    assert_true(elem_get_f(out[0], 4) == 5);
    tensor_unref(out[0]);
    assert_int_equal(kernel_run(&c, OP_add, NULL, (Tensor *[]){x, y}, 2, &t, out), K_OK);
    assert_ptr_not_equal(out[0]->store, x->store);
    tensor_unref(out[0]);
    Tensor *keep = tensor_ref(x);
    assert_int_equal(kernel_run_dying(&c, OP_add, NULL, (Tensor *[]){x, y}, 2, &t, out, 1), K_OK);
    assert_ptr_not_equal(out[0]->store, x->store);
    tensor_unref(out[0]);
    tensor_unref(keep);
    tensor_unref(x);
    tensor_unref(y);
}

static void every_map_op_has_loops(void **state)
{
    for (int op = 0; op < OP_COUNT; op++) {
        int have = 0;
        if (op_info[op].family != FAM_MAP || op == OP_convert || op == OP_stop_gradient)
            continue;
        for (int dt = 0; dt < DT_COUNT; dt++) {
            Tensor *x[3], *out[4];
            StrBuf err = {0};
            for (int k = 0; k < 3; k++)
                x[k] = one(op == OP_where && k == 0 ? DT_bool : (DType)dt, 1);
            if (run_ops((OpId)op, NULL, x, op_info[op].nin, out, &err) == K_OK) {
                tensor_unref(out[0]);
                have++;
            }
            for (int k = 0; k < 3; k++)
                tensor_unref(x[k]);
            sb_done(&err);
        }
        if (have < 2)
            fail_msg("%s runs on %d dtypes", op_info[op].name, have);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(binary_ops_equal_plain_loops),
        cmocka_unit_test(conversions_keep_small_numbers),
        cmocka_unit_test(copies_keep_bits_of_any_view),
        cmocka_unit_test(owning_copies_on_write),
        cmocka_unit_test(sixteen_axes_work),
        cmocka_unit_test(integers_follow_python),
        cmocka_unit_test(division_by_integer_zero_is_refused),
        cmocka_unit_test(special_floats_follow_ieee),
        cmocka_unit_test(flush_clears_subnormals),
        cmocka_unit_test(narrow_fma_rounds_once),
        cmocka_unit_test(operands_given_up_are_reused),
        cmocka_unit_test(every_map_op_has_loops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
