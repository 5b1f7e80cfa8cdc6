/*
 * How much work kernels are, counted from their text: products, guarded lanes,
 * triangular loops, ragged grids, and how lanes and blocks lie in memory.
 */
#include "tile_text.h"

#include "base/strbuf.h"
#include "ir/tile/count.h"

#include <string.h>

typedef struct Seen { StrBuf text; } Seen;

static void see(void *state, const TileNode *n, TileAccess a)
{
    Seen *s = state;

    sb_printf(&s->text, "%s%s:%s", s->text.n ? " " : "", n->op == TOP_store ? "store" : "load", tile_access_names[a]);
}

/* Count `text` with its one size and all extents n. */
static TileCount count(const char *text, int64_t n, const char *accesses)
{
    Seen seen = {{0}};
    TileAccessSink sink = {see, &seen};
    TileArg arg[3] = {{NULL, {n, n}, {n, 1}}, {NULL, {n, n}, {n, 1}}, {NULL, {n, n}, {n, 1}}};
    TileKernel *k = tile_of_text(text);
    TileCount c;

    assert_true(tile_count(k, &n, arg, &sink, &c));
    assert_string_equal(sb_str(&seen.text), accesses);
    tile_kernel_free(k);
    sb_done(&seen.text);
    return c;
}

/* c[64, 64] += a[64, k] b[k, 64], 32 columns of a at a time. */
static void a_product(void **state)
{
    static const char text[] =
        "tessera.tile v1\nkernel @gemm(%a: view f32[?, 1], %b: view f32[?, 1], %c: view f32[?, 1]) sizes(N) grid((N+63)//64, (N+63)//64) {\n"
        "%0: index = group {axis=0}\n%1: index = group {axis=1}\n%2: index = index {i=64}\n%3: index = imul %0, %2\n%4: index = imul %1, %2\n"
        "%5: index = index {i=0}\n%6: index = index {i=32}\n%7: index = size {name=\"N\"}\n%8: f32[] = const {dtype=f32 f=0}\n"
        "%9: f32[64, 64] = splat %8 {shape=(64, 64)}\n"
        "%10: f32[64, 64] = for %11 = %5 to %7 step %6 carry(%12 = %9) {\n"
        "%13: f32[64, 32] = load %a[%3, %11] {shape=(64, 32)}\n%14: f32[32, 64] = load %b[%11, %4] {shape=(32, 64)}\n"
        "%15: f32[64, 64] = dot %13, %14, %12, %6\nyield %15\n}\nstore %c[%3, %4], %10\n}\n";
    TileCount c = count(text, 1024, "load:coalesced load:coalesced store:coalesced");

    (void)state;
    assert_true(c.groups == 256 && c.flops == 2.0 * 1024 * 1024 * 1024);
    assert_true(c.stored == 4.0 * 1024 * 1024 && c.loaded == 2 * 4.0 * 1024 * 1024 * 16 && c.access == ACCESS_COALESCED);
}

#define LANES "tessera.tile v1\nkernel @f(%a: view f32[1], %b: view f32[1]) sizes(N) grid((N+63)//64) lanes=64 {\n" \
              "%0: index = group {axis=0}\n%1: index = index {i=64}\n%2: index = imul %0, %1\n%3: index = lane\n%4: index = iadd %2, %3\n" \
              "%5: index = size {name=\"N\"}\n%6: bool[] = ilt %4, %5\n"

/* A guard lets N of the lanes through, whatever the last group has. */
static void guarded_lanes(void **state)
{
    static const char text[] = LANES "if %6 {\n%7: f32[] = load %a[%4] {shape=(1) drop=1}\n%8: f32[] = map add %7, %7\nstore %b[%4], %8 {drop=1}\n} else {\n}\n}\n";

    (void)state;
    for (int64_t n = 1; n < 300; n += 23) {
        TileCount c = count(text, n, "load:coalesced store:coalesced");
        assert_true(c.flops == (double)n && c.loaded == 4.0 * (double)n && c.stored == 4.0 * (double)n);
    }
    TileCount none = count(text, 0, "");
    assert_true(none.groups == 0 && none.flops == 0);
}

static void lanes_in_memory(void **state)
{
    (void)state;
    TileCount c = count(LANES "%7: index = index {i=2}\n%8: index = imul %4, %7\n%9: f32[] = load %a[%8] {shape=(1) drop=1}\n"
                        "%10: f32[] = load %a[%0] {shape=(1) drop=1}\nstore %b[%4], %9 {drop=1}\n}\n", 128, "load:strided load:broadcast store:coalesced");
    assert_int_equal(c.access, ACCESS_STRIDED);
    c = count(LANES "%7: f32[] = load %a[%4] {shape=(1) drop=1}\n%8: int32[] = map convert %7 {dtype=int32}\n%9: index = to_index %8\n"
              "%10: f32[] = load %a[%9] {shape=(1) drop=1}\nstore %b[%4], %10 {drop=1}\n}\n", 128, "load:coalesced load:random store:coalesced");
    assert_int_equal(c.access, ACCESS_RANDOM);
}

/* Each group goes as far as its own number: the sum over the groups of a triangle. */
static void triangular_loops(void **state)
{
    static const char text[] =
        "tessera.tile v1\nkernel @tri(%a: view f32[1]) sizes(N) grid(N) {\n%0: index = group {axis=0}\n%1: index = index {i=0}\n%2: index = index {i=1}\n"
        "%3: f32[] = const {dtype=f32 f=1}\n%4: index = iadd %0, %2\n%5: f32[] = for %6 = %1 to %4 step %2 carry(%7 = %3) {\n%8: f32[] = map add %7, %3\nyield %8\n}\n"
        "store %a[%0], %5 {drop=1}\n}\n";
    TileCount c = count(text, 101, "store:broadcast");

    (void)state;
    assert_true(c.flops > 0.95 * 101 * 102 / 2 && c.flops < 1.05 * 101 * 102 / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_product), cmocka_unit_test(guarded_lanes), cmocka_unit_test(lanes_in_memory), cmocka_unit_test(triangular_loops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
