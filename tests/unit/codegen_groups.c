/*
 * Kernels whose groups have several lanes, compiled for CPUs, give the
 * oracle's bits: random ones, with loops and choices whose lanes part, shared
 * and own memory, lanes together and atomics, for every instruction set that
 * this machine runs.
 */
#include "codegen.h"
#include "lane_random.h"
#include "tile_text.h"

#include "codegen/cpu.h"
#include "runtime/cpu.h"
#include "runtime/launch.h"

#include <stdlib.h>

enum { N = 160, ROWS = 9, COLUMNS = 13, GROUPS = 3, LANES_MOST = 100, COUNTS = 5 };

typedef struct Data {
    float x[N], m[ROWS * COLUMNS], y[GROUPS * LANES_MOST * LR_OUT], w[COUNTS];
    int32_t z[COUNTS];
} Data;

static void fill(Data *d)
{
    memset(d, 0, sizeof *d);
    for (int i = 0; i < N; i++)
        d->x[i] = (float)(rnd_to(2001) - 1000) / 64;
    for (int i = 0; i < ROWS * COLUMNS; i++)
        d->m[i] = (float)(rnd_to(2001) - 1000) / 256;
}

static void arguments(Data *d, int lanes, TileArg *arg)
{
    arg[0] = (TileArg){d->x, {N}, {1}};
    arg[1] = (TileArg){d->m, {ROWS, COLUMNS}, {COLUMNS, 1}};
    arg[2] = (TileArg){d->y, {GROUPS * lanes, LR_OUT}, {LR_OUT, 1}};
    arg[3] = (TileArg){d->z, {COUNTS}, {1}};
    arg[4] = (TileArg){d->w, {COUNTS}, {1}};
}

static void differs(const TileKernel *k, const Machine *m, const char *what, int64_t at, double got, double want)
{
    StrBuf text = {0};

    tile_print(k, &text);
    fail_msg("%s: %s[%lld] is %.9g instead of %.9g\n%s", m->cpu, what, (long long)at, got, want, sb_str(&text));
}

static void same(const TileKernel *k, const Machine *m, const Data *got, const Data *want)
{
    int64_t y = first_difference(DT_f32, got->y, want->y, GROUPS * LANES_MOST * LR_OUT), w = first_difference(DT_f32, got->w, want->w, COUNTS);
    int64_t x = first_difference(DT_f32, got->x, want->x, N);

    if (x >= 0)
        differs(k, m, "x", x, (double)got->x[x], (double)want->x[x]);
    if (y >= 0)
        differs(k, m, "y", y, (double)got->y[y], (double)want->y[y]);
    if (w >= 0)
        differs(k, m, "w", w, (double)got->w[w], (double)want->w[w]);
    for (int i = 0; i < COUNTS; i++)
        if (got->z[i] != want->z[i])
            differs(k, m, "z", i, got->z[i], want->z[i]);
}

static void run(const TileKernel *k, const Machine *m, Level level, Data *d)
{
    Llvm *u = llvm_new("kernel", m);
    StrBuf err = {0};
    Code *code;
    int64_t sizes[2] = {N, GROUPS}, bytes;
    TileArg arg[5];
    KernelFn *fn;
    char *scratch;

    if (!cpu_emit(u, k, "f", &err))
        fail_msg("%s", sb_str(&err));
    if (getenv("SHOW")) {
        llvm_print(u, &err);
        fprintf(stderr, "%s\n", sb_str(&err));
        sb_clear(&err);
    }
    fn = (KernelFn *)compiled(u, level, "f", &code);
    bytes = ((int64_t (*)(const int64_t *))code_find(code, "f.scratch"))(sizes);
    scratch = tsr_try_alloc((size_t)bytes + 64, 64);
    memset(scratch, 0x5a, (size_t)bytes + 64);
    arguments(d, k->lanes, arg);
    fn(sizes, arg, scratch, 0, GROUPS);
    for (int i = 0; i < 64; i++)
        assert_int_equal(scratch[bytes + i], 0x5a);
    tsr_free_aligned(scratch);
    code_free(code);
    llvm_free(u);
    sb_done(&err);
}

static void compare(const char *text)
{
    static const char *const machines[] = {"base", "v3", "v4"};
    static Data given, want, got;
    TileKernel *k = tile_of_text(text);
    StrBuf err = {0};
    int64_t n = N;
    TileArg arg[5];

    fill(&given);
    want = given;
    arguments(&want, k->lanes, arg);
    if (!tile_run(k, &n, arg, 0, &err))
        fail_msg("%s\n%s", sb_str(&err), text);
    for (int i = 0; i < 3; i++) {
        if (!cpu_find(machines[i]))
            continue;
        got = given;
        run(k, machine_find(machines[i]), rnd_to(4) ? LEVEL_O1 : LEVEL_O0, &got);
        same(k, machine_find(machines[i]), &got, &want);
    }
    sb_done(&err);
    tile_kernel_free(k);
}

static void random_kernels(void **state)
{
    static const int lanes[] = {1, 2, 3, 5, 8, 16, 20, 32, 48, 64, 100};
    const char *rounds = getenv("ROUNDS");

    (void)state;
    for (int i = 0; i < (rounds ? atoi(rounds) : 60); i++) {
        LaneRandom r;
        lr_kernel(&r, lanes[rnd_to(11)], GROUPS);
        if (getenv("SHOW"))
            fprintf(stderr, "%s\n", sb_str(&r.text));
        compare(sb_str(&r.text));
        sb_done(&r.text);
    }
}

/* Rows by number, some of them outside, wider and narrower than the view. */
static void rows_by_number(void **state)
{
    static const char *const bodies[] = {
        "%2: int32[8] = iota %1 {dtype=int32 shape=(8) axis=0}\n%3: f32[8, 5] = gather %m, %2 {shape=(8, 5) f=1.5}\n"
        "%4: f32[8] = reduce sum %3, %9 {axis=1}\nstore %x[%0], %4\n",
        "%2: int32[12] = iota %1 {dtype=int32 shape=(12) axis=0}\n%3: f32[12, 20] = gather %m, %2 {shape=(12, 20) f=-2}\n"
        "%4: f32[12] = reduce sum %3, %9 {axis=1}\nstore %x[%0], %4\n",
        "%2: int64[16] = iota %1 {dtype=int64 shape=(16) axis=0}\n%3: f32[16] = gather %x, %2 {shape=(16) f=7}\nstore %w[%0], %3\nstore %x[%0], %3\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        StrBuf text = {0};
        sb_puts(&text, "tessera.tile v1\nkernel @f(%x: view f32[1], %m: view f32[?, 1], %y: view f32[?, 1], %z: view int32[1], %w: view f32[1]) ");
        sb_printf(&text, "sizes(N) grid(3) lanes=4 {\n%%0: index = index {i=0}\n%%1: index = index {i=-3}\n%%9: index = index {i=20}\n%s}\n", bodies[i]);
        compare(sb_str(&text));
        sb_done(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_kernels),
        cmocka_unit_test(rows_by_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
