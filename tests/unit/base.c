/* The containers, texts and files that everything stands on. */
#include "unit.h"

#include "base/arena.h"
#include "base/map.h"
#include "base/sha256.h"
#include "base/source.h"
#include "base/strbuf.h"
#include "base/sym.h"
#include "base/vec.h"
#include "base/vfs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void arena_gives_zeroed_aligned_memory(void **state)
{
    Arena a = {0};

    for (size_t n = 1; n < 100000; n = n * 3 + 1) {
        char *p = arena_alloc(&a, n);
        assert_int_equal((uintptr_t)p % 8, 0);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xAA, n);
    }
    arena_done(&a);
}

/* The examples of FIPS 180-4, and lengths around the end of a block against the text of Python's hashlib. */
static void sha256_is_the_standard_one(void **state)
{
    static const struct { const char *text, *hash; } known[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"0123456789012345678901234567890123456789012345678901234", "f34d5a0f80c0cbf84c8c0b90218c22637abd199965249da736a20143c8c9c9d9"},
        {"012345678901234567890123456789012345678901234567890123456789012", "074f6e9ac301d5d1b6df6f1dfb8c6f89c187ea945d352ce6a29279a9c630680b"},
        {"0123456789012345678901234567890123456789012345678901234567890123", "9674d9e078535b7cec43284387a6ee39956188e735a85452b0050b55341cda56"},
    };
    char out[SHA256_TEXT];

    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        sha256_text(known[i].text, strlen(known[i].text), out);
        assert_string_equal(out, known[i].hash);
    }
}

static void arena_release_returns_to_a_mark(void **state)
{
    Arena a = {0};
    char *before = arena_strdup(&a, "kept"), *again;
    ArenaMark m = arena_mark(&a);
    char *first = arena_alloc(&a, 100);

    memset(first, 1, 100);
    arena_alloc(&a, 1 << 20);
    arena_release(&a, m);
    again = arena_alloc(&a, 100);
    assert_ptr_equal(first, again);
    assert_int_equal(again[50], 0);
    assert_string_equal(before, "kept");
    arena_done(&a);
}

static void map_finds_what_was_set(void **state)
{
    Map m = {0};
    uintptr_t v;

    for (uint64_t k = 1; k <= 5000; k++)
        map_set(&m, k * 0x9E3779B97F4A7C15u, k);
    for (uint64_t k = 1; k <= 5000; k++) {
        assert_true(map_find(&m, k * 0x9E3779B97F4A7C15u, &v));
        assert_int_equal(v, k);
    }
    assert_false(map_find(&m, 42, NULL));
    map_done(&m);
}

static void symbols_of_equal_text_are_one(void **state)
{
    assert_ptr_equal(sym("alpha"), sym_n("alphabet", 5));
    assert_ptr_not_equal(sym("alpha"), sym("beta"));
    assert_int_equal(sym("größe")->len, 7);
}

static void edit_distance_counts_swaps_once(void **state)
{
    assert_int_equal(edit_distance("shape", "shpae", 5), 1);
    assert_int_equal(edit_distance("relu", "gelu", 5), 1);
    assert_int_equal(edit_distance("", "abc", 5), 3);
    assert_int_equal(edit_distance("abcdef", "uvwxyz", 2), 3);
}

static void utf8_check_finds_the_first_bad_byte(void **state)
{
    assert_int_equal(utf8_check("a\xc3\xb6z", 4), 4);
    assert_int_equal(utf8_check("a\xff", 2), 1);
    assert_int_equal(utf8_check("ab\xc3", 3), 2);
    assert_int_equal(utf8_check("\xc0\xaf", 2), 0);            /* overlong */
    assert_int_equal(utf8_check("\xed\xa0\x80", 3), 0);        /* surrogate */
    assert_int_equal(utf8_check("\xf4\x90\x80\x80", 4), 0);    /* beyond U+10FFFF */
    assert_int_equal(utf8_check("a\0b", 3), 1);
}

static void places_count_lines_and_code_points(void **state)
{
    const Source *s = source_add("t.tsr", "ä = 1\r\nb = 2\n", 14);
    Place p = source_place(s->base + 8);
    uint32_t n;

    assert_ptr_equal(p.src, s);
    assert_int_equal(p.line, 2);
    assert_int_equal(p.col, 1);
    assert_int_equal(source_place(s->base + 3).col, 3);
    assert_memory_equal(source_line(s, 1, &n), "ä = 1", 6);
    assert_int_equal(n, 6);
    assert_null(source_of(0));
}

static void strbuf_json_escapes(void **state)
{
    StrBuf b = {0};

    sb_put_json(&b, "a\"\n\x01\\", 5);
    assert_string_equal(sb_str(&b), "\"a\\\"\\n\\u0001\\\\\"");
    sb_done(&b);
}

/* ------------------------------------------------------------- files that fail */

static int calls, fail_call;

static int fault(void)
{
    return ++calls == fail_call ? ENOSPC : 0;
}

static int bad_open(const char *p, int flags, int mode, int *fd) { int e = fault(); return e ? e : vfs_posix.open(p, flags, mode, fd); }
static int bad_write(int fd, const void *p, size_t n, size_t *put) { int e = fault(); return e ? (*put = 0, e) : vfs_posix.write(fd, p, n, put); }
static int bad_fsync(int fd) { int e = fault(); return e ? e : vfs_posix.fsync(fd); }
static int bad_close(int fd) { int e = fault(), r = vfs_posix.close(fd); return e ? e : r; }
static int bad_rename(const char *a, const char *b) { int e = fault(); return e ? e : vfs_posix.rename(a, b); }
static int bad_read(int fd, void *p, size_t n, size_t *got) { int e = fault(); return e ? (*got = 0, e) : vfs_posix.read(fd, p, n, got); }
static int plain_unlink(const char *p) { return vfs_posix.unlink(p); }

static const Vfs faulty = {bad_open, bad_read, bad_write, bad_fsync, bad_close, bad_rename, plain_unlink};

static void expect_content(const char *path, const char *want)
{
    char *data;
    size_t n;

    vfs_set(NULL);
    assert_int_equal(vfs_read_file(path, 100, &data, &n), 0);
    assert_string_equal(data, want);
    tsr_free(data);
}

/* Whatever step fails, the file is the old one or the new one, and no temporary stays. */
static void replacing_a_file_is_all_or_nothing(void **state)
{
    char dir[] = "/tmp/tessera-unit-XXXXXX", path[64], tmp[96];
    bool ok = false;

    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/file", dir);
    snprintf(tmp, sizeof tmp, "%s.tmp%ld", path, (long)getpid());
    for (fail_call = 1; !ok; fail_call++) {
        vfs_set(NULL);
        assert_int_equal(vfs_write_atomic(path, "old", 3), 0);
        vfs_set(&faulty);
        calls = 0;
        ok = vfs_write_atomic(path, "new", 3) == 0;
        expect_content(path, ok ? "new" : "old");
        assert_int_not_equal(access(tmp, F_OK), 0);
        assert_true(fail_call < 20);
    }
    unlink(path);
    rmdir(dir);
}

static void reading_reports_errors_and_limits(void **state)
{
    char *data;
    size_t n;

    assert_int_equal(vfs_read_file("/nowhere/at/all", 10, &data, &n), ENOENT);
    assert_int_equal(vfs_read_file("/tmp", 10, &data, &n), EISDIR);
    assert_int_equal(vfs_read_file("/etc/passwd", 10, &data, &n), EFBIG);
}

/* A failed small allocation unwinds to the recovery point, once. */
static void failed_allocations_unwind(void **state)
{
    static jmp_buf recovery;
    void *p;

    tsr_oom_set(&recovery);
    if (!setjmp(recovery)) {
        tsr_alloc_fail_at(1, false);
        p = tsr_alloc(10);
        tsr_free(p);
        fail_msg("the allocation should have failed");
    }
    tsr_alloc_fail_at(1, false);
    assert_null(tsr_try_alloc(10, 64));
    tsr_alloc_fail_at(0, false);
    p = tsr_alloc(10);
    tsr_free(p);
    tsr_oom_set(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_is_the_standard_one), cmocka_unit_test(arena_gives_zeroed_aligned_memory),
        cmocka_unit_test(arena_release_returns_to_a_mark),
        cmocka_unit_test(map_finds_what_was_set),
        cmocka_unit_test(symbols_of_equal_text_are_one),
        cmocka_unit_test(edit_distance_counts_swaps_once),
        cmocka_unit_test(utf8_check_finds_the_first_bad_byte),
        cmocka_unit_test(places_count_lines_and_code_points),
        cmocka_unit_test(strbuf_json_escapes),
        cmocka_unit_test(replacing_a_file_is_all_or_nothing),
        cmocka_unit_test(reading_reports_errors_and_limits),
        cmocka_unit_test(failed_allocations_unwind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
