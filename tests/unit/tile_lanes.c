/*
 * Kernels whose groups have several lanes, as the oracle runs them: what
 * varies, choices and loops that part, lanes together, and the faults that the
 * checks find.
 */
#include "ir/tile/tile.h"
#include "ir/tile/vary.h"

#include "runtime/launch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { N = 64 };

/* Run a body with %x and %y of N floats; 8 lanes a group, 2 groups, unless `head` says more. */
static bool run(const char *body, float *x, float *y, unsigned checks, StrBuf *err)
{
    StrBuf text = {0}, again = {0};
    int64_t n = N;
    TileArg arg[2] = {{x, {N}, {1}}, {y, {N}, {1}}};
    TileKernel *k, *copy;
    bool ok;

    sb_printf(&text, "tessera.tile v1\nkernel @f(%%x: view f32[1], %%y: view f32[1]) sizes(N) grid(2) lanes=8 {\n"
                     "%%0: index = index {i=0}\n%%1: index = index {i=8}\n%%2: index = group {axis=0}\n%%3: index = lane\n"
                     "%%4: index = imul %%2, %%1\n%%5: index = iadd %%4, %%3\n%%6: view f32[1] shared = alloc %%1 {name=\"buf\" dtype=f32 space=shared}\n"
                     "%%7: index = index {i=1}\n%%8: index = index {i=7}\n%s}\n", body);
    k = tile_parse(sb_str(&text), text.n, err);
    sb_done(&text);
    if (!k)
        return false;
    tile_print(k, &again);
    copy = tile_parse(sb_str(&again), again.n, err);
    assert_non_null(copy);
    ok = tile_run(copy, &n, arg, checks, err);
    tile_fold(k);
    if (ok && !checks)
        ok = tile_verify(k, err);
    tile_kernel_free(k);
    tile_kernel_free(copy);
    sb_done(&again);
    return ok;
}

static void gives(const char *body, float (*want)(int))
{
    enum { ALL = TILE_CHECK_BUFFERS | TILE_CHECK_RACES };

    for (int round = 0; round < 2; round++) {
        float x[N], y[N];
        StrBuf err = {0};
        for (int i = 0; i < N; i++) {
            x[i] = (float)i;
            y[i] = -1;
        }
        if (!run(body, x, y, round ? ALL : 0, &err))
            fail_msg("%s", sb_str(&err));
        for (int i = 0; i < 16; i++)
            if (y[i] != want(i))
                fail_msg("y[%d] is %g instead of %g", i, (double)y[i], (double)want(i));
        assert_true(y[16] == -1);
        sb_done(&err);
    }
}

static void refuses(const char *body, const char *want)
{
    float x[N] = {0}, y[N] = {0};
    StrBuf err = {0};

    if (run(body, x, y, TILE_CHECK_BUFFERS | TILE_CHECK_RACES, &err))
        fail_msg("no fault: %s", want);
    if (!strstr(sb_str(&err), want))
        fail_msg("'%s' where '%s' is wanted", sb_str(&err), want);
    sb_done(&err);
}

#define LOAD_X "%10: f32[] = load %x[%5] {shape=(1) drop=1}\n"
#define STORE(v) "store %y[%5], " v " {drop=1}\n"

static float reversed(int i) { return (float)(i / 8 * 8 + 7 - i % 8); }
static float doubled_odd(int i) { return i & 1 ? 2 * (float)i : (float)i; }
static float sum_below(int i) { return (float)((i % 8) * (i % 8 - 1) / 2); }
static float last_round(int i) { return i & 1 ? 7 : 8; }
static float run_of_4(int i) { return (float)(i / 4 * 16 + 6); }
static float group_max(int i) { return (float)(i / 8 * 8 + 7); }
static float pair(int i) { return (float)(i ^ 1); }
static float parity_bits(int i) { return i & 1 ? 0xaa : 0x55; }

static void lanes_share_a_buffer(void **state)
{
    (void)state;
    gives(LOAD_X "store %6[%3], %10 {drop=1}\nbarrier\n%11: index = isub %8, %3\n%12: f32[] = load %6[%11] {shape=(1) drop=1}\n" STORE("%12"), reversed);
}

static void choices_part(void **state)
{
    (void)state;
    gives(LOAD_X "%11: index = index {i=2}\n%12: index = imod %3, %11\n%13: bool[] = ieq %12, %7\n"
          "%14: f32[] = if %13 {\n%15: f32[] = map add %10, %10\nyield %15\n} else {\nyield %10\n}\n" STORE("%14"), doubled_odd);
}

static void loops_part(void **state)
{
    (void)state;
    gives("%10: index = for %12 = %0 to %3 step %7 carry(%13 = %0) {\n%14: index = iadd %13, %12\nyield %14\n}\n"
          "%15: int32[] = to_tile %10 {dtype=int32}\n%16: f32[] = map convert %15 {dtype=f32}\n" STORE("%16"), sum_below);
    gives("%10: index, %11: index = while carry(%12 = %0, %13 = %0) {\n%14: bool[] = ilt %12, %3\nyield %14\n} do(%15, %16) {\n"
          "%17: index = iadd %16, %15\n%18: index = iadd %15, %7\nyield %18, %17\n}\n"
          "%19: int32[] = to_tile %11 {dtype=int32}\n%20: f32[] = map convert %19 {dtype=f32}\n" STORE("%20"), sum_below);
    /* each lane takes every second number from its own on and leaves when it is past 6: what is carried stays what it was */
    gives("%10: index = index {i=2}\n%11: index = for %12 = %3 to %8 step %10 carry(%13 = %3) {\n%14: index = iadd %12, %10\nyield %14\n}\n"
          "%15: int32[] = to_tile %11 {dtype=int32}\n%16: f32[] = map convert %15 {dtype=f32}\n" STORE("%16"), last_round);
}

static void lanes_together(void **state)
{
    (void)state;
    gives(LOAD_X "%11: f32[] = lane_reduce sum %10 {i=4}\n" STORE("%11"), run_of_4);
    gives(LOAD_X "%11: f32[] = lane_reduce max %10 {i=0}\n" STORE("%11"), group_max);
    gives(LOAD_X "%11: index = index {i=2}\n%12: index = imod %3, %11\n%13: index = imul %12, %11\n%14: index = isub %7, %13\n"
          "%15: index = iadd %3, %14\n%16: f32[] = shuffle %10, %15 {i=8}\n" STORE("%16"), pair);
    gives("%10: index = index {i=2}\n%11: index = imod %3, %10\n%12: index = match %11 {i=32}\n"
          "%13: int32[] = to_tile %12 {dtype=int32}\n%14: f32[] = map convert %13 {dtype=f32}\n" STORE("%14"), parity_bits);
}

static void races_are_found(void **state)
{
    (void)state;
    refuses(LOAD_X "store %6[%3], %10 {drop=1}\n%11: index = isub %8, %3\n%12: f32[] = load %6[%11] {shape=(1) drop=1}\n", "data race on shared 'buf': tile 0 reads [7], which tile 7 writes");
    refuses(LOAD_X "store %y[%0], %10 {drop=1}\n", "data race on global 'y': tile 1 writes [0], which tile 0 writes");
    refuses(LOAD_X "%11: bool[] = ieq %3, %0\nif %11 {\nstore %y[%0], %10 {drop=1}\n} else {\n}\n", "data race on global 'y': group 1 writes [0], which group 0 writes");
    refuses("%9: f32[8] = load %x[%4] {shape=(8)}\nstore %6[%0], %9\n%10: f32[] = load %6[%3] {shape=(1) drop=1}\n", "tile 0 reads [0], which the group writes");
    refuses("copy_async %6, %x\ncommit\nbarrier\n%10: f32[] = load %6[%3] {shape=(1) drop=1}\nwait {i=0}\n", "data race with a copy that is under way: shared 'buf'");
    refuses("%9: f32[8] = load %x[%4] {shape=(8)}\nstore %6[%0], %9\nbarrier\n%10: f32[8] = load %6[%0] {shape=(8)}\ncopy_async %6, %x\n",
            "an asynchronous copy writes [0], which the group reads");
}

static void other_faults_are_found(void **state)
{
    (void)state;
    refuses("%10: index = iadd %3, %7\n%11: f32[] = load %6[%10] {shape=(1) drop=1}\n", "never written");
    refuses(LOAD_X "%11: index = iadd %3, %7\nstore %6[%11], %10 {drop=1}\n", "out of bounds: tile 7 of group 0 writes shared 'buf' at [8], which has only [8]");
    refuses("%10: bool[] = ilt %3, %7\n%11: bool[] = uniform %10\n", "divergent barrier: 7 of 8 tiles");
}

static void the_verifier_knows_lanes(void **state)
{
    static const char alone[] = "where some of its lanes may not be", varying[] = "takes a value that differs between lanes";

    (void)state;
    refuses("%10: bool[] = ilt %3, %7\nif %10 {\nbarrier\n} else {\n}\n", alone);
    refuses("%10: bool[] = ilt %3, %7\nif %10 {\n%11: f32[8] = load %x[%4] {shape=(8)}\nstore %y[%4], %11\n} else {\n}\n", alone);
    refuses("for %10 = %0 to %3 step %7 {\nbarrier\n}\n", alone);
    refuses("%10: f32[8] = load %x[%3] {shape=(8)}\n", varying);
    refuses(LOAD_X "%11: f32[8] = splat %10 {shape=(8)}\n", varying);
    refuses("%10: view f32[1] = part %x[%3], %7\n", "a tile or a view would differ");
    refuses(LOAD_X "%11: f32[] = lane_reduce sum %10 {i=6}\n", "a power of two");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_share_a_buffer),
        cmocka_unit_test(choices_part),
        cmocka_unit_test(loops_part),
        cmocka_unit_test(lanes_together),
        cmocka_unit_test(races_are_found),
        cmocka_unit_test(other_faults_are_found),
        cmocka_unit_test(the_verifier_knows_lanes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
