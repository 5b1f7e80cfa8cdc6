/*
 * The pool of a GPU's memory: blocks are aligned, apart, and used again; neighbours join; where the driver has no more, what is free goes
 * back; and where that does not help, the fault says who holds it.
 */
#include "gpu.h"

#include "base/hash.h"

static GpuDevice *g;

static void blocks(void **state)
{
    CUdeviceptr a = gpu_alloc(g, 1), b = gpu_alloc(g, 513), c = gpu_alloc(g, 0);
    int64_t calls = gpu_memory(g).calls;

    (void)state;
    assert_true(a && b && c && a % 512 == 0 && b % 512 == 0 && c % 512 == 0);
    assert_true(b >= a + 512 && c >= b + 1024);
    assert_int_equal(gpu_memory(g).used, 512 + 1024 + 512);
    assert_int_equal(gpu_memory(g).blocks, 3);
    gpu_free(g, b);
    assert_true(gpu_alloc(g, 1000) == b);               /* the same place */
    assert_int_equal(gpu_memory(g).calls, calls);
    gpu_free(g, a);
    gpu_free(g, b);
    gpu_free(g, c);
    gpu_free(g, 0);
    assert_int_equal(gpu_memory(g).used, 0);
    assert_true(gpu_alloc(g, 1 << 20) == a);            /* neighbours have become one */
    gpu_free(g, a);
}

/* Random requests: no two blocks meet, and in the end all are one again. */
static void apart(void **state)
{
    enum { MOST = 100, ROUNDS = 20000 };
    struct { CUdeviceptr at; size_t n; } held[MOST];
    int n = 0;
    GpuMemory m;

    (void)state;
    for (uint64_t r = 0; r < ROUNDS; r++) {
        uint32_t h = hash_u64(r * 977 + 1);
        if (n < MOST && (h & 1 || !n)) {
            size_t size = (h >> 8) % (h & 6 ? 5000 : 300000) + 1;
            CUdeviceptr at = gpu_alloc(g, size);
            assert_true(at != 0);
            for (int i = 0; i < n; i++)
                assert_true(at + size <= held[i].at || held[i].at + held[i].n <= at);
            held[n].at = at;
            held[n++].n = size;
        } else {
            int i = (int)(h >> 4) % n;
            i = i < 0 ? -i : i;
            gpu_free(g, held[i].at);
            held[i] = held[--n];
        }
    }
    while (n)
        gpu_free(g, held[--n].at);
    m = gpu_memory(g);
    assert_int_equal(m.used, 0);
    assert_int_equal(m.blocks, 0);
    gpu_trim(g);
    m = gpu_memory(g);
    assert_int_equal(m.kept, 0);
    assert_int_equal(m.segments, 0);
    assert_int_equal(counted("live"), 0);
}

/* 64 MB there are: free segments of one size make room for another. */
static void makes_room(void **state)
{
    CUdeviceptr a = gpu_alloc(g, 30 << 20), b = gpu_alloc(g, 30 << 20);

    (void)state;
    assert_true(a && b);
    gpu_free(g, a);
    gpu_free(g, b);
    a = gpu_alloc(g, 50 << 20);
    assert_true(a != 0);
    assert_false(fault_kept);
    gpu_free(g, a);
    gpu_trim(g);
}

/* What is asked for is much of the memory: free segments go back before the driver gives it, though there is room for it beside them. */
static void gives_back_first(void **state)
{
    CUdeviceptr a = gpu_alloc(g, 12 << 20), b = gpu_alloc(g, 12 << 20), c;

    (void)state;
    gpu_free(g, a);
    gpu_free(g, b);
    assert_int_equal(gpu_memory(g).segments, 2);
    c = gpu_alloc(g, 24 << 20);
    assert_true(c != 0);
    assert_int_equal(gpu_memory(g).segments, 1);
    assert_int_equal(gpu_memory(g).kept, 0);
    gpu_free(g, c);
    gpu_trim(g);
}

static void full(void **state)
{
    CUdeviceptr a = gpu_alloc(g, 20 << 20), b = gpu_alloc(g, 20 << 20), c = gpu_alloc(g, 4 << 20);
    FaultKind kind;
    const char *text;
    Tensor *t;
    int64_t n = 10 << 20;

    (void)state;
    assert_true(a && b && c);
    assert_true(gpu_alloc(g, 40 << 20) == 0);
    text = fault_text(&kind);
    assert_int_equal(kind, FAULT_MEMORY);
    assert_non_null(strstr(text, "E0744: gpu:0 has no 40 MB left: tensors of this program hold 44 MB in 3 blocks: 20 MB (2 times), 4.0 MB; "));
    assert_non_null(strstr(text, " of 64 MB"));
    assert_true(gpu_alloc(g, (size_t)1 << 62) == 0);
    fault_text(&kind);
    int was = device_enter(1);
    t = tensor_new(DT_f32, 1, &n);                      /* 40 MB: a header; its room is asked for when it is used */
    device_enter(was);
    assert_non_null(t);
    assert_true(storage_on_device(t->store, g, DEVICE_FILL) == 0);
    fault_text(&kind);
    gpu_free(g, a);
    gpu_free(g, b);
    assert_true(storage_on_device(t->store, g, DEVICE_FILL) != 0);      /* the same tensor, later */
    assert_false(fault_kept);
    tensor_unref(t);
    gpu_free(g, c);
    gpu_trim(g);
}

/* A move that finds no room leaves the tensor where it was. */
static void no_room_to_move(void **state)
{
    int64_t n = 20 << 20;
    Tensor *t = tensor_zeros(DT_f32, 1, &n), *same = t;
    FaultKind kind;

    (void)state;
    assert_false(tensor_on(&t, 1));
    assert_ptr_equal(t, same);
    assert_non_null(strstr(fault_text(&kind), "E0744"));
    assert_true(elem_get_f(t, 7) == 0);
    tensor_unref(t);
    assert_int_equal(gpu_memory(g).used, 0);
}

/* What no running op uses makes room, the oldest first, and is back when it is used: the same elements. */
static void makes_room_by_moving(void **state)
{
    enum { N = 3 };
    int64_t n = 6 << 20, moved = gpu_memory(g).moved;
    Tensor *t[N];

    (void)state;
    for (int i = 0; i < N; i++) {                       /* 24 MB each, of 64 */
        t[i] = tensor_zeros(DT_f32, 1, &n);
        elem_set_f(t[i], 5, i + 1);
        storage_op++;
        assert_true(storage_on_device(t[i]->store, g, DEVICE_UPDATE) != 0);
    }
    assert_int_equal(gpu_memory(g).moved, moved + 1);
    assert_true(!t[0]->store->remote && t[1]->store->remote && t[2]->store->remote);
    assert_true(storage_on_device(t[0]->store, g, DEVICE_READ) != 0);       /* in the op of t[2]: t[1] goes */
    assert_true(!t[1]->store->remote && t[2]->store->remote);
    assert_true(storage_on_device(t[1]->store, g, DEVICE_READ) == 0);       /* all that is there is in use */
    fault_text(&(FaultKind){0});
    for (int i = 0; i < N; i++) {
        assert_true(elem_get_f(t[i], 5) == i + 1);
        tensor_unref(t[i]);
    }
    assert_false(fault_kept);
    assert_int_equal(gpu_memory(g).used, 0);
    gpu_trim(g);
}

/* Elements that stand in the way of a request, and have no other place on the GPU, go to the host like others: no fault, and nothing is lost. */
static void makes_room_where_nothing_moves(void **state)
{
    int64_t n = 3 << 19, moved = gpu_memory(g).moved;                       /* 6 MB, at most a quarter of what is asked for */
    CUdeviceptr whole = gpu_alloc(g, 28 << 20), rest, at;
    Tensor *t = tensor_zeros(DT_f32, 1, &n);

    (void)state;
    gpu_free(g, whole);
    elem_set_f(t, 5, 7);
    assert_true(storage_on_device(t->store, g, DEVICE_UPDATE) == whole);
    rest = gpu_alloc(g, 34 << 20);
    storage_op++;
    at = gpu_alloc(g, 24 << 20);
    assert_true(rest && at);
    assert_false(fault_kept);
    assert_int_equal(gpu_memory(g).moved, moved + 1);
    assert_true(!t->store->remote && elem_get_f(t, 5) == 7);
    gpu_free(g, at);
    gpu_free(g, rest);
    tensor_unref(t);
    assert_int_equal(gpu_memory(g).used, 0);
    gpu_trim(g);
    assert_int_equal(gpu_memory(g).segments, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks), cmocka_unit_test(apart), cmocka_unit_test(makes_room), cmocka_unit_test(gives_back_first),
        cmocka_unit_test(full), cmocka_unit_test(no_room_to_move), cmocka_unit_test(makes_room_by_moving),
        cmocka_unit_test(makes_room_where_nothing_moves),
    };

    fake_begin("memory=64");
    g = gpu_device(0);
    return g ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
