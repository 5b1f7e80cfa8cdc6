/*
 * A session's answer after each edit is that of a fresh check of the text.
 * Programs of the tests are edited at random: lines go or come twice, words
 * become other words of the file, beginnings of things appear, letters vanish.
 */
#include "unit.h"

#include "base/alloc.h"
#include "base/vfs.h"
#include "frontend/check/check.h"
#include "frontend/check/session.h"
#include "frontend/check/spaces.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOT TESTS_ROOT "/.."

static uint64_t seed = 1;

static uint32_t below(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return n ? (uint32_t)(seed >> 33) % n : 0;
}

static char *fresh_answer(const char *path, const char *text, size_t len)
{
    const Source *src = source_add(path, text, len);
    DiagSink sink = {0};
    StrBuf out = {0};
    Unit *u = unit_parse(src, &sink);
    Scope *globals = scope_new_module(sym("__main__"));
    char *s;

    if (!sink.errors) {
        scope_resolve(u, globals, (ScopeOptions){0}, &sink);
        check_unit(u, (CheckOptions){0}, &sink);
    }
    diag_render_json(&sink, &out);
    s = tsr_alloc(out.n + 1);
    memcpy(s, sb_str(&out), out.n + 1);
    sb_done(&out);
    diag_sink_done(&sink);
    scope_free_module(globals);
    unit_free(u);
    source_drop(src);
    return s;
}

static void expect_fresh(OpenFile *f)
{
    const Source *src = session_source(f);
    StrBuf out = {0};
    char *want;

    diag_render_json(session_check(f), &out);
    want = fresh_answer(src->path, src->text, src->len);
    if (strcmp(want, sb_str(&out)))
        print_error("%s\n--- session\n%s--- fresh\n%s--- text\n%s\n", src->path, sb_str(&out), want, src->text);
    assert_string_equal(want, sb_str(&out));
    tsr_free(want);
    sb_done(&out);
}

/* Line i, with its end. */
static void line_at(const Source *s, uint32_t i, uint32_t *lo, uint32_t *hi)
{
    *lo = s->line[i];
    *hi = i + 1 < s->nlines ? s->line[i + 1] : s->len;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* A word of the text at or behind a random place. */
static bool word_somewhere(const Source *s, uint32_t *lo, uint32_t *hi)
{
    uint32_t at = below(s->len);

    while (at < s->len && !is_letter(s->text[at]))
        at++;
    while (at && is_letter(s->text[at - 1]))
        at--;
    *lo = at;
    while (at < s->len && is_letter(s->text[at]))
        at++;
    *hi = at;
    return *hi > *lo;
}

static void edit_somehow(OpenFile *f)
{
    static const char *const typed[] = {"x = 1\n", "def made(a):\n    return a\n", "    ", "\n", "(", "print(x)\n", "1", " ",
                                        "else:\n", "# note\n", "import math\n", "zeros(2, 3) @ zeros(4, 5)\n", "\\", "\"\"\"",
                                        "class Made:\n    pass\n", "@jit\n"};
    const Source *s = session_source(f);
    uint32_t lo, hi, from, to;
    char copy[256];

    line_at(s, below(s->nlines), &lo, &hi);
    switch (below(6)) {
    case 0:
        assert_true(session_edit(f, lo, hi, "", 0));
        break;
    case 1:
        line_at(s, below(s->nlines), &from, &to);
        if (to - from < sizeof copy) {
            memcpy(copy, s->text + from, to - from);
            assert_true(session_edit(f, lo, lo, copy, to - from));
        }
        break;
    case 2:
    case 3:
        if (word_somewhere(s, &lo, &hi) && word_somewhere(s, &from, &to) && to - from < sizeof copy) {
            memcpy(copy, s->text + from, to - from);
            assert_true(session_edit(f, lo, hi, copy, to - from));
        }
        break;
    case 4: {
        const char *t = typed[below(sizeof typed / sizeof *typed)];
        assert_true(session_edit(f, lo, lo, t, strlen(t)));
        break;
    }
    default:
        lo = below(s->len + 1);
        hi = lo + below(4);
        if (hi <= s->len)
            session_edit(f, lo, hi, "", 0);             /* may cut a letter in two: refused then */
        break;
    }
}

static void edit_program(Session *s, const char *path, int rounds)
{
    char *text;
    size_t len;
    OpenFile *f;

    assert_int_equal(vfs_read_file(path, SOURCE_MAX, &text, &len), 0);
    f = session_open(s, path, text, len);
    if (f) {
        expect_fresh(f);
        for (int i = 0; i < rounds; i++) {
            edit_somehow(f);
            if (below(3))
                expect_fresh(f);
            if (!below(4)) {                            /* most edits leave a file that can be read */
                session_edit(f, 0, session_source(f)->len, text, len);
                expect_fresh(f);
            }
        }
        session_close(f);
    }
    tsr_free(text);
}

static void edit_folder(const char *folder, int rounds, int one_in)
{
    DIR *d = opendir(folder);
    Session *s = session_new();
    struct dirent *e;
    char path[512];
    int n = 0;

    assert_non_null(d);
    while ((e = readdir(d))) {
        size_t len = strlen(e->d_name);
        if (len < 5 || strcmp(e->d_name + len - 4, ".tsr") || n++ % one_in)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        seed = (uint64_t)n * 7919;
        edit_program(s, path, rounds);
    }
    closedir(d);
    session_free(s);
}

static void test_programs(void **state)
{
    edit_folder(ROOT "/tests/error", 8, 2);
    edit_folder(ROOT "/tests/lang", 8, 8);
    edit_folder(ROOT "/tests/models", 10, 2);
    edit_folder(ROOT "/examples", 6, 1);
}

/* ------------------------------------------------------------- what is kept */

static const char *const many =
    "def a(x: Tensor[\"N\", 3]):\n    return x @ ones(3, 4)\n\n"
    "def b(x: Tensor[\"N\", 3]):\n    return a(x) @ ones(5, 2)\n\n"
    "def c(x: Tensor[\"N\", 7]):\n    return x @ ones(8, 2)\n";

static int count(OpenFile *f)
{
    int n = session_check(f)->errors;

    expect_fresh(f);
    return n;
}

static void replace(OpenFile *f, const char *was, const char *now)
{
    const char *at = strstr(session_source(f)->text, was);
    uint32_t lo;

    assert_non_null(at);
    lo = (uint32_t)(at - session_source(f)->text);
    assert_true(session_edit(f, lo, lo + (uint32_t)strlen(was), now, strlen(now)));
}

static void test_ties(void **state)
{
    Session *s = session_new();
    OpenFile *f = session_open(s, "many.tsr", many, strlen(many));

    assert_int_equal(count(f), 2);
    replace(f, "ones(3, 4)", "ones(3, 5)");
    assert_int_equal(count(f), 1);
    replace(f, "ones(8, 2)", "ones(7, 2)");
    assert_int_equal(count(f), 0);
    replace(f, "def a(", "\n\n# moved\ndef a(");
    assert_int_equal(count(f), 0);
    replace(f, "ones(3, 5)", "ones(3, 6)");
    assert_int_equal(count(f), 1);
    replace(f, "def a(", "def a2(");
    assert_int_equal(count(f), 1);
    replace(f, "def a2(", "def a(");
    replace(f, "    return a(x)", "    retrun a(x)");
    assert_true(count(f) > 0);
    replace(f, "retrun", "return");
    assert_int_equal(count(f), 1);
    session_free(s);
}

/* What is said of a statement that makes a value for nothing is said again when only that statement is looked at. */
static void test_unused(void **state)
{
    Session *s = session_new();
    const char *text = "x = ones(3)\nprint(x)\nx.to(f64)\n";
    OpenFile *f = session_open(s, "unused.tsr", text, strlen(text));

    assert_int_equal(count(f), 0);
    replace(f, "f64", "f16");
    assert_int_equal(count(f), 0);
    session_free(s);
}

static void test_open_imports(void **state)
{
    static const char *const util = "def wide(x: Tensor[\"N\", 3]) -> Tensor[\"N\", 4]:\n    return x @ ones(3, 4)\n";
    static const char *const main_ = "from session_util import wide\nprint(wide(ones(2, 3)) @ ones(4, 1))\n";
    Session *s = session_new();
    OpenFile *m = session_open(s, "session_main.tsr", main_, strlen(main_)), *u;

    assert_int_equal(session_check(m)->errors, 1);      /* there is no such file */
    u = session_open(s, "session_util.tsr", util, strlen(util));
    assert_int_equal(session_check(m)->errors, 0);
    assert_int_equal(session_check(u)->errors, 0);
    replace(u, "-> Tensor[\"N\", 4]:\n    return x @ ones(3, 4)", "-> Tensor[\"N\", 5]:\n    return x @ ones(3, 5)");
    assert_int_equal(session_check(m)->errors, 1);
    assert_int_equal(session_check(u)->errors, 0);
    replace(m, "ones(4, 1)", "ones(5, 1)");
    assert_int_equal(session_check(m)->errors, 0);
    session_close(u);
    assert_int_equal(session_check(m)->errors, 1);
    session_free(s);
}

static void test_bad_edits(void **state)
{
    Session *s = session_new();
    OpenFile *f = session_open(s, "many.tsr", "x = 1\n", 6);

    assert_null(session_open(s, "bad.tsr", "x = \xff\n", 6));
    assert_false(session_edit(f, 3, 2, "", 0));
    assert_false(session_edit(f, 0, 7, "", 0));
    assert_false(session_edit(f, 0, 1, "\xc3", 1));
    assert_int_equal(session_check(f)->errors, 0);
    assert_string_equal(session_source(f)->text, "x = 1\n");
    assert_true(session_edit(f, 0, 6, "", 0));
    assert_int_equal(session_check(f)->errors, 0);
    assert_true(session_edit(f, 0, 0, "y", 1));
    assert_int_equal(count(f), 1);
    session_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ties), cmocka_unit_test(test_unused),
        cmocka_unit_test(test_open_imports),
        cmocka_unit_test(test_bad_edits),
        cmocka_unit_test(test_programs),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    spaces_done();
    return failed;
}
