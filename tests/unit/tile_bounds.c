/*
 * Intervals of what kernels store, from their text: extremes and sums of nothing, trees of no rounds, loops in loops.
 */
#include "ir/tile/bounds.h"

#include "base/strbuf.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* Of parameter 0 of a kernel with one size, N, which is n. */
static TileBounds bounds(const char *body, int64_t n)
{
    StrBuf err = {0}, text = {0};
    TileKernel *k;
    TileBounds b;

    sb_printf(&text, "tessera.tile v1\nkernel @f(%%y: view f32[1]) sizes(N) grid(1) {\n"
                     "%%0: index = index {i=0}\n%%1: index = index {i=1}\n%%2: index = size {name=\"N\"}\n%%3: f32[] = const {dtype=f32 f=2}\n%s}\n", body);
    k = tile_parse(sb_str(&text), text.n, &err);
    if (!k)
        fail_msg("%s", sb_str(&err));
    b = tile_bounds(k, &n, 0);
    tile_kernel_free(k);
    sb_done(&text);
    return b;
}

static void of_nothing(void **state)
{
    TileBounds b = bounds("%4: f32[4] = splat %3 {shape=(4)}\n%5: f32[] = reduce max %4, %2 {axis=0}\nstore %y[%0], %5 {drop=1}\n", 0);

    (void)state;
    assert_true(b.lo == -INFINITY && b.hi == 2);
    b = bounds("%4: f32[4] = splat %3 {shape=(4)}\n%5: f32[] = reduce min %4, %2 {axis=0}\nstore %y[%0], %5 {drop=1}\n", 0);
    assert_true(b.lo == 2 && b.hi == INFINITY);
    b = bounds("%4: f32[4] = splat %3 {shape=(4)}\n%5: f32[] = reduce max %4, %2 {axis=0}\nstore %y[%0], %5 {drop=1}\n", 3);
    assert_true(b.lo == 2 && b.hi == 2 && !b.nan);
}

static const char rounds[] = "%4: tree max f32[] = tree max {dtype=f32 shape=()}\n"
    "%5: tree max f32[] = for %6 = %0 to %2 step %1 carry(%7 = %4) {\n%8: tree max f32[] = push %7, %3\nyield %8\n}\n"
    "%9: f32[] = total %5\nstore %y[%0], %9 {drop=1}\n";

static void of_rounds(void **state)
{
    TileBounds b = bounds(rounds, 0);

    (void)state;
    assert_true(b.lo == -INFINITY && b.hi == -INFINITY);
    b = bounds(rounds, 5);
    assert_true(b.lo == 2 && b.hi == 2);
    b = bounds(rounds, 1 << 20);                            /* too many to walk one by one: perhaps none */
    assert_true(b.lo == -INFINITY && b.hi == 2);
}

/* Each loop hands on what grows, so each may be walked again and again for each time that the one around it is. */
static void loops_in_loops(void **state)
{
    enum { DEPTH = 14 };
    StrBuf text = {0};
    TileBounds b;
    int id = 4;

    (void)state;
    for (int i = 0; i < DEPTH; i++, id += 3)
        sb_printf(&text, "%%%d: f32[] = for %%%d = %%0 to %%2 step %%1 carry(%%%d = %%%d) {\n", id, id + 1, id + 2, i ? id - 1 : 3);
    sb_printf(&text, "%%%d: f32[] = map add %%%d, %%3\nyield %%%d\n", id, id - 1, id);
    for (int i = DEPTH - 1; i > 0; i--)
        sb_printf(&text, "}\nyield %%%d\n", 4 + 3 * i);
    sb_puts(&text, "}\nstore %y[%0], %4 {drop=1}\n");
    b = bounds(sb_str(&text), 1 << 20);
    assert_true(b.lo <= 2 && b.hi == INFINITY);
    sb_done(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_nothing), cmocka_unit_test(of_rounds), cmocka_unit_test(loops_in_loops)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
