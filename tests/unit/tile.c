/*
 * The Tile IR: kernels written as text give the bits of the ops of tensors,
 * random kernels survive printing, reading, verifying and folding, and the
 * oracle finds what is wrong with an access.
 */
#include "tile_kernels.h"
#include "tile_random.h"
#include "tile_text.h"

/* ---- as eager evaluation ---- */

static Tensor *random_f32(int rank, const int64_t *shape)
{
    Tensor *t = tensor_new(DT_f32, rank, shape);

    for (int64_t i = 0; i < tensor_size(t); i++)
        elem_set_f(t, i, (double)(rnd_to(200001) - 100000) / 16384.0);
    return hold(t);
}

static TileArg arg_of(Tensor *t)
{
    TileArg a = {.base = t->store->data};

    for (int i = 0; i < t->rank; i++) {
        a.extent[i] = t->shape[i];
        a.stride[i] = t->stride[i];
    }
    return a;
}

/* Run a kernel's text; the last argument is the result, which must have the bits of `want`. */
static void expect_tensor(const char *text, const int64_t *sizes, Tensor *const *in, int nin, Tensor *want)
{
    TileKernel *k = tile_of_text(text);
    Tensor *y = hold(tensor_new(want->dtype, want->rank, want->shape));
    StrBuf err = {0};
    TileArg arg[6];

    for (int folded = 0; folded < 2; folded++) {
        memset(y->store->data, 0x55, y->store->nbytes);
        for (int i = 0; i < nin; i++)
            arg[i] = arg_of(in[i]);
        arg[nin] = arg_of(y);
        if (!tile_exec(k, sizes, arg, &err))
            fail_msg("%s", sb_str(&err));
        assert_memory_equal(y->store->data, want->store->data, (size_t)tensor_size(want) * raw_size((DType)want->dtype));
        tile_fold(k);
        assert_true(tile_verify(k, &err));
    }
    tile_kernel_free(k);
    sb_done(&err);
}

static Tensor *reduced(OpId op, Tensor *x, int axis)
{
    Attr a = attr_default();

    a.naxes = 1;
    a.axis[0] = (int8_t)axis;
    return hold(run1(op, &a, x));
}

static Tensor *column(Tensor *x)
{
    return hold(tensor_view(x, 2, (int64_t[]){x->shape[0], 1}, (int64_t[]){1, 1}, 0));
}

static const int64_t matrix_sizes[][2] = {{1, 1}, {4, 256}, {7, 1000}, {5, 257}, {3, 20}, {9, 2049}};

static void softmax_as_ops(void **state)
{
    (void)state;
    for (int s = 0; s < 6; s++) {
        Tensor *x = random_f32(2, matrix_sizes[s]);
        Tensor *e = hold(run1(OP_exp, NULL, hold(run2(OP_sub, NULL, x, column(reduced(OP_max, x, -1))))));
        expect_tensor(softmax_text, matrix_sizes[s], &x, 1, hold(run2(OP_div, NULL, e, column(reduced(OP_sum, e, -1)))));
        release();
    }
}

static Tensor *scalar(double v)
{
    Tensor *t = hold(tensor_new(DT_f32, 0, NULL));

    elem_set_f(t, 0, v);
    return t;
}

static void layer_norm_as_ops(void **state)
{
    (void)state;
    for (int s = 0; s < 6; s++) {
        const int64_t *size = matrix_sizes[s];
        Tensor *x = random_f32(2, size), *g = random_f32(1, &size[1]), *b = random_f32(1, &size[1]), *n = scalar((double)size[1]);
        Tensor *mean = hold(run2(OP_div, NULL, reduced(OP_sum, x, -1), n));
        Tensor *d = hold(run2(OP_sub, NULL, x, column(mean)));
        Tensor *var = hold(run2(OP_div, NULL, reduced(OP_sum, hold(run2(OP_mul, NULL, d, d)), -1), n));
        Tensor *r = hold(run1(OP_rsqrt, NULL, hold(run2(OP_add, NULL, var, scalar(1e-5)))));
        Tensor *y = hold(run2(OP_mul, NULL, hold(run2(OP_mul, NULL, d, column(r))), g));
        expect_tensor(layer_norm_text, size, (Tensor *[]){x, g, b}, 3, hold(run2(OP_add, NULL, y, b)));
        release();
    }
}

static void column_sum_as_ops(void **state)
{
    static const int64_t sizes[][2] = {{1, 1}, {256, 32}, {1000, 7}, {257, 33}, {2500, 9}};

    (void)state;
    for (int s = 0; s < 5; s++) {
        Tensor *x = random_f32(2, sizes[s]);
        expect_tensor(column_sum_text, sizes[s], &x, 1, reduced(OP_sum, x, 0));
        release();
    }
}

static void matmul_as_ops(void **state)
{
    static const int64_t sizes[][3] = {{1, 1, 1}, {12, 32, 32}, {13, 33, 31}, {25, 40, 200}, {2, 3, 1000}};

    (void)state;
    for (int s = 0; s < 5; s++) {
        const int64_t *z = sizes[s];
        Tensor *a = random_f32(2, (int64_t[]){z[0], z[2]}), *b = random_f32(2, (int64_t[]){z[2], z[1]});
        expect_tensor(matmul_text, z, (Tensor *[]){a, b}, 2, hold(run2(OP_matmul, NULL, a, b)));
        release();
    }
}

/* ---- text ---- */

static void expect_same_text(const TileKernel *k)
{
    StrBuf a = {0}, b = {0}, err = {0};
    TileKernel *back;

    tile_print(k, &a);
    if (!(back = tile_parse(sb_str(&a), a.n, &err)))
        fail_msg("%s\n%s", sb_str(&err), sb_str(&a));
    tile_print(back, &b);
    assert_string_equal(sb_str(&a), sb_str(&b));
    tile_kernel_free(back);
    sb_done(&a);
    sb_done(&b);
    sb_done(&err);
}

static void text_is_kept(void **state)
{
    static const char *const texts[] = {softmax_text, layer_norm_text, column_sum_text, matmul_text};

    (void)state;
    for (int i = 0; i < 4; i++) {
        TileKernel *k = tile_of_text(texts[i]);
        StrBuf out = {0};
        expect_same_text(k);
        tile_print(k, &out);
        assert_string_equal(strchr(sb_str(&out), '\n'), strchr(texts[i], '\n'));
        tile_kernel_free(k);
        sb_done(&out);
    }
}

/* ---- random kernels ---- */

static const uint8_t all_dtypes[] = {DT_f32, DT_f32, DT_f32, DT_bf16, DT_f16, DT_f64, DT_int32, DT_int64, DT_int8, DT_uint8, DT_bool,
                                     DT_fp8_e4m3, DT_c64};

static void run_or_fail(RandomKernel *r)
{
    sb_clear(&r->err);
    if (!tile_exec(r->k, r->sizes, r->arg, &r->err)) {
        StrBuf text = {0};
        tile_print(r->k, &text);
        fail_msg("%s\n%s", sb_str(&r->err), sb_str(&text));
    }
}

static void random_kernels(void **state)
{
    int stored = 0;

    (void)state;
    for (int i = 0; i < 150; i++) {
        RandomKernel r;
        void *old[RK_ARGS];
        rk_make(&r, 30, all_dtypes, sizeof all_dtypes);
        sb_clear(&r.err);
        if (!tile_verify(r.k, &r.err))
            fail_msg("%s", sb_str(&r.err));
        expect_same_text(r.k);
        run_or_fail(&r);
        rk_fresh_outputs(&r, old);
        tile_fold(r.k);
        sb_clear(&r.err);
        if (!tile_verify(r.k, &r.err))
            fail_msg("after folding: %s", sb_str(&r.err));
        run_or_fail(&r);
        for (int k = 0; k < r.narg; k++) {
            DType dt = (DType)r.k->params.at[k]->type[0].dtype;
            if (old[k] && !rk_same(dt, old[k], r.arg[k].base, (int64_t)(r.bytes[k] / raw_size(dt))))
                fail_msg("kernel %d: folding changes output %d", i, k);
            stored += old[k] != NULL;
            tsr_free(old[k]);
        }
        assert_false(tile_fold(r.k) && tile_fold(r.k) && tile_fold(r.k));
        rk_done(&r);
    }
    assert_true(stored > 1500);
}

/* ---- what the oracle and the verifier refuse ---- */

static void expect_fault(const char *body, const char *want)
{
    StrBuf text = {0}, err = {0};
    int64_t n = 8;
    float x[8] = {0};
    TileArg arg = {x, {8}, {1}};
    TileKernel *k;

    sb_printf(&text, "tessera.tile v1\nkernel @f(%%x: view f32[1]) sizes(N) grid(1) {\n"
                     "%%0: index = index {i=0}\n%%1: index = size {name=\"N\"}\n%%2: index = index {i=4}\n"
                     "%%3: view f32[1] shared = alloc %%1 {dtype=f32 space=shared}\n%s}\n", body);
    k = tile_parse(sb_str(&text), text.n, &err);
    if (k && tile_exec(k, &n, &arg, &err))
        fail_msg("no fault: %s", want);
    if (!strstr(sb_str(&err), want))
        fail_msg("'%s' where '%s' is wanted", sb_str(&err), want);
    tile_kernel_free(k);
    sb_done(&text);
    sb_done(&err);
}

static void faults_are_named(void **state)
{
    (void)state;
    expect_fault("%4: f32[4] = load %3[%0] {shape=(4)}\n", "%4, load: element [0] of the buffer is read, but was never written");
    expect_fault("%4: view f32[1] = part %x[%2], %1\n", "%4, part: the part from 4 of 8 elements does not lie within the 8 of axis 0");
    expect_fault("%4: f32[4] = load %x[%0] {shape=(4)}\nstore %3[%0], %4\n%5: f32[8] = load %3[%0] {shape=(8)}\n", "element [4]");
    expect_fault("copy_async %3, %x\ncommit\n%4: f32[4] = load %3[%0] {shape=(4)}\n", "while a copy to it is under way");
    expect_fault("copy_async %3, %x\ncommit\nwait {i=0}\n%4: f32[4] = load %3[%0] {shape=(4)}\n", "before a barrier");
    expect_fault("copy_async %3, %x\ncommit\nwait {i=1}\nbarrier\n%4: f32[4] = load %3[%0] {shape=(4)}\n", "while a copy to it is under way");
    expect_fault("copy_async %3, %x\n%4: f32[4] = load %x[%0] {shape=(4)}\nstore %3[%0], %4\n", "is written while a copy");
    expect_fault("copy_async %3, %x\n", "still under way at the end");
    expect_fault("%4: index = idiv %1, %0\n", "the divisor 0 is not positive");
    expect_fault("for %4 = %0 to %1 step %0 {\n}\n", "the step 0 is not positive");
    expect_fault("%4: f32[4] = load %x[%2] {shape=(4) align=8}\n", "%4, load: from its start on the view has no multiple of 8 elements");
    expect_fault("%4: f32[4] = load %x[%2] {shape=(4) align=6}\n", "a power of two");
    expect_fault("%4: tree sum f32[] = tree sum {dtype=f32 shape=()}\n%5: f32[] = total %4\n%6: f32[] = total %4\n", "used more than once");
}

static void waited_for(void **state)
{
    static const char text[] =
        "tessera.tile v1\nkernel @f(%x: view f32[1], %y: view f32[1]) sizes(N) grid(1) {\n"
        "%0: index = index {i=0}\n%1: index = index {i=8}\n%2: view f32[1] shared = alloc %1 {dtype=f32 space=shared}\n"
        "copy_async %2, %x {f=7}\ncommit\nwait {i=0}\nbarrier\n%3: f32[8] = load %2[%0] {shape=(8)}\nstore %y[%0], %3\n}\n";
    float x[5] = {1, 2, 3, 4, 5}, y[8] = {0}, want[8] = {1, 2, 3, 4, 5, 7, 7, 7};
    TileArg arg[2] = {{x, {5}, {1}}, {y, {8}, {1}}};
    TileKernel *k = tile_of_text(text);
    StrBuf err = {0};
    int64_t n = 5;

    (void)state;
    assert_true(tile_exec(k, &n, arg, &err));
    assert_memory_equal(y, want, sizeof y);
    tile_kernel_free(k);
    sb_done(&err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softmax_as_ops),
        cmocka_unit_test(layer_norm_as_ops),
        cmocka_unit_test(column_sum_as_ops),
        cmocka_unit_test(matmul_as_ops),
        cmocka_unit_test(text_is_kept),
        cmocka_unit_test(random_kernels),
        cmocka_unit_test(faults_are_named),
        cmocka_unit_test(waited_for),
    };

    pool_init(0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
