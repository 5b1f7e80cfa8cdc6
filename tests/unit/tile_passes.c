/*
 * Passes over kernels keep every bit: kernels are run by the oracle, with its
 * checks, before and behind them, for sizes that are ragged in all ways.
 */
#include "ir/tile/memory.h"
#include "ir/tile/tile.h"

#include "base/alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ALL = TILE_CHECK_BUFFERS | TILE_CHECK_RACES, SIDE = 48 };

/* C = A @ B by blocks of 16, as the kernel language makes it. */
static const char product[] =
    "tessera.tile v1\n"
    "kernel @gemm(%A: view f32[?, 1], %B: view f32[?, 1], %C: view f32[?, 1]) sizes(M, N, K) grid((M+15)//16, (N+15)//16) lanes=1 "
    "schedule=\"stages=STAGES vector=4\" {\n"
    "  %0: index = index {i=16}\n"
    "  %1: index = index {i=0}\n"
    "  %2: index = size {name=\"K\"}\n"
    "  %3: index = group {axis=0}\n"
    "  %4: index = imul %3, %0\n"
    "  %5: index = group {axis=1}\n"
    "  %6: index = imul %5, %0\n"
    "  %7: f32[] = const {dtype=f32}\n"
    "  %8: f32[16, 16] = splat %7 {shape=(16, 16)}\n"
    "  %9: f32[16, 16] = for %10 = %1 to %2 step %0 carry(%11 = %8) {\n"
    "    %12: f32[16, 16] = load %A[%4, %10] {shape=(16, 16)}\n"
    "    %13: f32[16, 16] = load %B[%10, %6] {shape=(16, 16)}\n"
    "    %14: f32[16, 16] = dot %12, %13, %11, %0\n"
    "    yield %14\n"
    "  }\n"
    "  store %C[%4, %6], %9\n"
    "}\n";

/* Rows of A through shared memory, turned round by the lanes of each group, with more barriers than it needs; some rows of B on top. */
static const char turned[] =
    "tessera.tile v1\n"
    "kernel @turned(%A: view f32[?, 1], %B: view f32[?, 1], %C: view f32[?, 1]) sizes(M, N, K) grid(M) lanes=8 schedule=\"stages=STAGES\" {\n"
    "  %0: index = group {axis=0}\n"
    "  %1: index = lane\n"
    "  %2: index = index {i=0}\n"
    "  %3: index = index {i=8}\n"
    "  %4: index = index {i=7}\n"
    "  %5: index = size {name=\"K\"}\n"
    "  %6: view f32[1] shared = alloc %3 {name=\"buf\" dtype=f32 space=shared}\n"
    "  %7: f32[] = const {dtype=f32}\n"
    "  %8: f32[8] = splat %7 {shape=(8)}\n"
    "  barrier\n"
    "  %9: f32[8] = for %10 = %2 to %5 step %3 carry(%11 = %8) {\n"
    "    %12: f32[8] = load %A[%0, %10] {shape=(1, 8) drop=1}\n"
    "    store %6[%2], %12\n"
    "    barrier\n"
    "    barrier\n"
    "    %13: index = isub %4, %1\n"
    "    %14: f32[] = load %6[%13] {shape=(1) drop=1}\n"
    "    barrier\n"
    "    store %6[%1], %14 {drop=1}\n"
    "    barrier\n"
    "    %15: f32[8] = load %6[%2] {shape=(8)}\n"
    "    barrier\n"
    "    %16: f32[8] = map add %11, %15\n"
    "    yield %16\n"
    "  }\n"
    "  barrier\n"
    "  store %C[%0, %2], %9 {drop=1}\n"
    "}\n";

static TileKernel *kernel(const char *text, int stages)
{
    StrBuf all = {0}, err = {0};
    const char *at = strstr(text, "STAGES");
    TileKernel *k;

    sb_printf(&all, "%.*s%d producers=%d%s", (int)(at - text), text, stages, stages % 3, at + 6);       /* a mark, which changes no bit */
    k = tile_parse(sb_str(&all), all.n, &err);
    if (!k)
        fail_msg("%s", sb_str(&err));
    sb_done(&all);
    sb_done(&err);
    return k;
}

static float a[SIDE * SIDE], b[SIDE * SIDE];

static void run(const TileKernel *k, const int64_t *size, float *c)
{
    TileArg arg[] = {{a, {size[0], size[2]}, {SIDE, 1}}, {b, {size[2], size[1]}, {SIDE, 1}}, {c, {size[0], size[1]}, {SIDE, 1}}};
    StrBuf err = {0};

    for (int i = 0; i < SIDE * SIDE; i++)
        c[i] = -1;
    if (!tile_run(k, size, arg, ALL, &err))
        fail_msg("%s", sb_str(&err));
    sb_done(&err);
}

static int count(const TileBlock *block, int op)
{
    int n = 0;

    for (const TileNode *m = block->first; m; m = m->next) {
        n += m->op == op;
        for (int r = 0; r < 2; r++)
            n += m->region[r] ? count(m->region[r], op) : 0;
    }
    return n;
}

static void behind(TileKernel *k, const char *passes)
{
    StrBuf err = {0}, first = {0}, again = {0};
    TileKernel *copy;

    for (const char *p = passes; *p; p += strcspn(p, ","), p += *p == ',') {
        char name[32] = "";
        memcpy(name, p, strcspn(p, ","));
        tile_pass_find(name)(k);
        if (!tile_verify(k, &err))
            fail_msg("%s: %s", name, sb_str(&err));
    }
    tile_print(k, &first);
    copy = tile_parse(sb_str(&first), first.n, &err);
    if (!copy)
        fail_msg("%s", sb_str(&err));
    tile_print(copy, &again);
    assert_string_equal(sb_str(&first), sb_str(&again));        /* what passes add is text too */
    tile_kernel_free(copy);
    sb_done(&first);
    sb_done(&again);
    sb_done(&err);
}

static void same_bits(const char *text, const char *passes)
{
    static const int64_t sizes[][3] = {{16, 16, 16}, {33, 17, 40}, {1, 1, 1}, {48, 48, 48}, {20, 8, 7}, {5, 40, 0}, {16, 32, 33}};
    float want[SIDE * SIDE], got[SIDE * SIDE];

    for (int stages = 2; stages <= 5; stages++) {
        TileKernel *k = kernel(text, stages), *after = kernel(text, stages);
        behind(after, passes);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            run(k, sizes[i], want);
            run(after, sizes[i], got);
            assert_memory_equal(want, got, sizeof want);
        }
        tile_kernel_free(k);
        tile_kernel_free(after);
    }
}

static int setup(void **state)
{
    for (int i = 0; i < SIDE * SIDE; i++) {
        a[i] = (float)(i * 37 % 101) / 7.0f - 5;
        b[i] = (float)(i * 53 % 97) / 9.0f - 4;
    }
    return 0;
}

static void pipelines_keep_bits(void **state)
{
    same_bits(product, "pipeline");
    same_bits(turned, "pipeline");
    same_bits(product, "pipeline,sync,barriers,layout,vectors,fold,carries");
    same_bits(turned, "pipeline,sync,barriers,layout,vectors,fold,carries");
    same_bits(turned, "barriers,sync,pipeline,barriers");
}

/* Barriers that are needed stay: the oracle would find the races. Those that are not go. */
static void barriers_are_few(void **state)
{
    TileKernel *k = kernel(turned, 1);

    assert_int_equal(count(&k->body, TOP_barrier), 7);
    behind(k, "barriers");
    assert_int_equal(count(&k->body, TOP_barrier), 4);
    behind(k, "sync");
    assert_int_equal(count(&k->body, TOP_barrier), 4);
    tile_kernel_free(k);
}

static void rounds_are_ahead(void **state)
{
    TileKernel *k = kernel(product, 3);

    behind(k, "pipeline");
    assert_int_equal(count(&k->body, TOP_copy_async), 6);       /* two blocks, in two rounds before the loop and in its own */
    assert_int_equal(count(&k->body, TOP_barrier), 1);
    assert_int_equal(count(&k->body, TOP_alloc), 2);
    tile_kernel_free(k);
    k = kernel(product, 1);                                     /* no rounds in flight: nothing to do */
    behind(k, "pipeline");
    assert_int_equal(count(&k->body, TOP_copy_async), 0);
    tile_kernel_free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pipelines_keep_bits),
        cmocka_unit_test(barriers_are_few),
        cmocka_unit_test(rounds_are_ahead),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
