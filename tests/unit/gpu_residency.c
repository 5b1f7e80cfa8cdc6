/*
 * Storage on GPUs: whichever side wrote last is what both sides read, through views, copies and every order of reads and writes; what a
 * GPU holds is no memory of the host, and nothing is copied that need not be.
 */
#include "gpu.h"

#include "runtime/kernels.h"

static GpuDevice *gpu(int i)
{
    GpuDevice *g = gpu_device(i);

    assert_non_null(g);
    return g;
}

/* 0, 1, ... on the host. */
static Tensor *counting(int64_t n)
{
    Tensor *t = tensor_new(DT_f32, 1, &n);

    for (int64_t i = 0; i < n; i++)
        ((float *)tensor_data(t))[i] = (float)i;
    return t;
}

static Tensor *moved(Tensor *t, int device)
{
    assert_true(tensor_on(&t, device));
    assert_int_equal(t->store->device, device);
    return t;
}

static void expect(const Tensor *t, float a, float b)
{
    const float *x = tensor_read(t);

    for (int64_t i = 0; i < tensor_size(t); i++)
        assert_true(x[i] == a * (float)i + b);
    assert_false(fault_kept);
}

static void moves(void **state)
{
    Tensor *t = moved(counting(1000), 1);

    (void)state;
    assert_null(t->store->data);                        /* nothing on the host */
    assert_int_equal(t->store->away, AWAY_READ | AWAY_WRITE);
    expect(t, 1, 0);
    assert_int_equal(t->store->away, AWAY_WRITE);
    t = moved(t, 0);
    expect(t, 1, 0);
    assert_int_equal(t->store->away, 0);
    t = moved(moved(t, 1), 1 + second());                          /* from GPU to GPU */
    expect(t, 1, 0);
    tensor_unref(t);
    assert_int_equal(gpu_memory(gpu(0)).used, 0);
    assert_int_equal(gpu_memory(gpu(second())).used, 0);
}

static void device_writes(void **state)
{
    Tensor *t = moved(counting(777), 1);

    (void)state;
    assert_true(axpb(gpu(0), storage_on_device(t->store, gpu(0), DEVICE_UPDATE), 777, 2, 1));
    expect(t, 2, 1);
    assert_true(axpb(gpu(0), storage_on_device(t->store, gpu(0), DEVICE_UPDATE), 777, 1, 1));        /* both valid: the host's becomes stale */
    expect(t, 2, 2);
    tensor_unref(t);
}

static void host_writes(void **state)
{
    Tensor *t = moved(counting(100), 1);

    (void)state;
    for (int i = 0; i < 100; i++)
        ((float *)tensor_data(t))[i] = (float)(3 * i);
    assert_int_equal(t->store->away, 0);                /* the GPU's copy is gone */
    assert_true(axpb(gpu(0), storage_on_device(t->store, gpu(0), DEVICE_UPDATE), 100, 1, -1));
    expect(t, 3, -1);
    elem_set_f(t, 5, 100);
    assert_true(axpb(gpu(0), storage_on_device(t->store, gpu(0), DEVICE_UPDATE), 100, 1, 1));
    assert_true(elem_get_f(t, 5) == 101);
    tensor_unref(t);
}

/* A tensor of the host that is lent to a GPU stays one of the host. */
static void lent(void **state)
{
    Tensor *t = counting(64);
    int64_t before, made;

    (void)state;
    assert_true(storage_on_device(t->store, gpu(0), DEVICE_READ) != 0);
    before = counted("upload");
    assert_true(storage_on_device(t->store, gpu(0), DEVICE_READ) != 0);
    assert_int_equal(counted("upload"), before);        /* it is there already */
    expect(t, 1, 0);
    assert_int_equal(t->store->device, 0);
    assert_true(axpb(gpu(0), storage_on_device(t->store, gpu(0), DEVICE_UPDATE), 64, 2, 0));
    made = counted("upload");
    assert_true(axpb(gpu(second()), storage_on_device(t->store, gpu(second()), DEVICE_UPDATE), 64, 1, 5));        /* and from there to another */
    assert_int_equal(counted("upload"), made);
    expect(t, 2, 5);
    tensor_unref(t);
}

static void fills(void **state)
{
    int64_t n = 5000, before = counted("upload");
    int was = device_enter(1);
    Tensor *zeros = tensor_zeros(DT_f32, 1, &n), *t = tensor_new(DT_f32, 1, &n);
    Axpb p;

    (void)state;
    device_enter(was);
    assert_null(zeros->store->data);
    p = (Axpb){storage_on_device(t->store, gpu(0), DEVICE_FILL), n, 0, 0};
    assert_true(gpu_launch(builtin(gpu(0), "count"), &(GpuLaunch){.grid = {1}, .block = {1}, .params = &p, .nbytes = sizeof p}));
    assert_int_equal(counted("upload"), before);
    expect(zeros, 0, 0);
    expect(t, 1, 0);
    tensor_unref(zeros);
    tensor_unref(t);
}

static void views_and_copies(void **state)
{
    Tensor *t = moved(counting(60), 1), *v, *own, *c;
    int64_t shape[] = {5}, stride[] = {2}, row[] = {10}, one[] = {1};

    (void)state;
    v = tensor_view(t, 1, shape, stride, 20);
    assert_true(((const float *)tensor_read(v))[2] == 22);
    assert_true(axpb(gpu(0), storage_on_device(t->store, gpu(0), DEVICE_UPDATE), 60, 1, 100));
    assert_true(elem_get_f(v, v->offset + 4) == 124);
    own = tensor_ref(v);
    assert_true(tensor_own(&own));                      /* shared: a copy, the others stay */
    elem_set_f(own, own->offset, -1);
    assert_true(elem_get_f(t, 20) == 120);
    tensor_unref(own);
    tensor_unref(v);
    assert_true(axpb(gpu(0), storage_on_device(t->store, gpu(0), DEVICE_UPDATE), 60, 1, 1));
    v = tensor_view(t, 1, row, one, 30);
    int was = device_enter(1);
    int64_t before = counted("download");
    c = tensor_copy(v);                                 /* rows of bytes stay on the GPU */
    device_enter(was);
    assert_int_equal(counted("download"), before);
    assert_true(((const float *)tensor_read(c))[3] == 134);
    c = moved(c, 0);
    assert_true(((const float *)tensor_read(c))[9] == 140);
    tensor_unref(c);
    tensor_unref(v);
    tensor_unref(t);
}

/* Kernels of the host on operands of GPUs: the result is right, and lies where it is put. */
static void host_kernels(void **state)
{
    Tensor *x = moved(counting(3000), 1), *y = moved(counting(3000), 1), *out = NULL, *in[] = {x, y};
    TType type = {.dtype = DT_f32, .rank = 1, .shape = {3000}};
    StrBuf err = {0};
    KCtx c = {.err = &err};

    (void)state;
    assert_int_equal(kernel_run(&c, OP_add, &attr_none, in, 2, &type, &out), K_OK);
    expect(out, 2, 0);
    storage_place(out->store, 1);
    assert_true(axpb(gpu(0), storage_on_device(out->store, gpu(0), DEVICE_UPDATE), 3000, 1, 1));
    expect(out, 2, 1);
    tensor_unref(out);
    assert_int_equal(kernel_run_dying(&c, OP_mul, &attr_none, in, 2, &type, &out, 1), K_OK);     /* in the memory of an operand */
    assert_true(elem_get_f(out, 50) == 2500);
    assert_true(axpb(gpu(0), storage_on_device(out->store, gpu(0), DEVICE_UPDATE), 3000, 1, 1));
    assert_true(elem_get_f(out, 50) == 2501);
    tensor_unref(out);
    tensor_unref(x);
    tensor_unref(y);
    sb_done(&err);
}

/* Every order of a few reads and writes on either side, against the same on the host alone. */
static void all_orders(void **state)
{
    enum { STEPS = 6, KINDS = 5, N = 40 };

    (void)state;
    for (int code = 0, end = 15625; code < end; code++) {               /* KINDS to the power of STEPS */
        Tensor *t = code & 1 ? moved(counting(N), 1) : counting(N), *keep = NULL;
        float a = 1, b = 0;
        for (int s = 0, rest = code; s < STEPS; s++, rest /= KINDS) {
            int64_t n = N;
            switch (rest % KINDS) {
            case 0:
                expect(t, a, b);
                break;
            case 1:
                assert_true(axpb(gpu(0), storage_on_device(t->store, gpu(0), DEVICE_UPDATE), n, 1, 1));
                b += 1;
                break;
            case 2: {
                float *x = tensor_data(t);
                for (int i = 0; i < N; i++)
                    x[i] += 2;
                b += 2;
                break;
            }
            case 3:
                assert_true(storage_on_device(t->store, gpu(s & second()), DEVICE_READ) != 0);
                break;
            case 4:
                tensor_unref(keep);
                keep = tensor_copy(t);
                expect(keep, a, b);
                break;
            }
        }
        expect(t, a, b);
        tensor_unref(keep);
        tensor_unref(t);
    }
    assert_int_equal(gpu_memory(gpu(0)).used, 0);
}

typedef struct Many { Tensor *t; } Many;

static void read_part(int64_t lo, int64_t hi, void *st)
{
    const Many *m = st;

    for (int64_t i = lo; i < hi; i++)
        if (((const float *)tensor_read(m->t))[i] != (float)i)
            abort();
}

/* Threads of a kernel ask at once; one brings the bytes. */
static void threads(void **state)
{
    pool_init(4);
    (void)state;
    for (int k = 0; k < 50; k++) {
        Many m = {moved(counting(4096), 1)};
        pool_for(4096, 64, read_part, &m);
        tensor_unref(m.t);
    }
}

static void large(void **state)
{
    int64_t n = (6 << 20) + 13;                         /* more than the pinned lanes hold at once */
    Tensor *t = moved(counting(n), 1);

    (void)state;
    assert_true(axpb(gpu(0), storage_on_device(t->store, gpu(0), DEVICE_UPDATE), n, 1, 1));
    expect(t, 1, 1);
    tensor_unref(t);
    t = moved(counting(0), 1);                          /* and nothing at all */
    assert_true(storage_on_device(t->store, gpu(0), DEVICE_UPDATE) != 0);
    t = moved(t, 0);
    tensor_unref(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moves), cmocka_unit_test(device_writes), cmocka_unit_test(host_writes), cmocka_unit_test(lent), cmocka_unit_test(fills),
        cmocka_unit_test(views_and_copies), cmocka_unit_test(host_kernels), cmocka_unit_test(all_orders), cmocka_unit_test(threads),
        cmocka_unit_test(large),
    };

    fake_begin("devices=2,memory=256");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
