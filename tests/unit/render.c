/* row: DBG-16 TYP-28
 * Diagnostics as text and as JSON, compared with what they must look like. */
#include "unit.h"

#include "base/diag.h"

#include <stdio.h>
#include <string.h>

static const Source *source;

/* The span of the n-th occurrence (from 0) of some text. */
static Span at(const char *text, int n)
{
    const char *p = strstr(source->text, text);

    while (n--)
        p = strstr(p + 1, text);
    uint32_t lo = source->base + (uint32_t)(p - source->text);
    return (Span){lo, lo + (uint32_t)strlen(text)};
}

static void open_source(const char *text)
{
    source = source_add("model.tsr", text, strlen(text));
}

static void check(DiagSink *sink, DiagStyle style, const char *want)
{
    StrBuf b = {0};

    diag_render(sink, style, &b);
    assert_string_equal(sb_str(&b), want);
    sb_done(&b);
    diag_sink_done(sink);
}

static void an_error_shows_its_line_between_its_neighbours(void **state)
{
    DiagSink sink = {0};

    open_source("counter = 1\nprint(conuter)\nprint(2)\n");
    diag_help(DIAG_AT(&sink, E0201, at("conuter", 0), "conuter"), "did you mean '%s'?", "counter");
    check(&sink, (DiagStyle){0},
          "Error: unknown name 'conuter' [E0201]\n"
          " --> model.tsr:2:7\n"
          "  |\n"
          "1 | counter = 1\n"
          "2 | print(conuter)\n"
          "  |       ~~~~~~~\n"
          "3 | print(2)\n"
          "Possible fixes:\n"
          "  1. did you mean 'counter'?\n");
}

static void other_places_are_labelled_in_order(void **state)
{
    DiagSink sink = {0};
    Diag *d;

    open_source("def f(a,\n      b,\n      c,\n      a):\n    pass\n");
    d = DIAG_AT(&sink, E0208, at("a", 1), "a");
    diag_label(d, at("a", 0), "first here");
    diag_note(d, "one\ntwo");
    check(&sink, (DiagStyle){0},
          "Error: duplicate parameter 'a' [E0208]\n"
          " --> model.tsr:4:7\n"
          "  |\n"
          "1 | def f(a,\n"
          "  |       - first here\n"
          "...\n"
          "3 |       c,\n"
          "4 |       a):\n"
          "  |       ~\n"
          "5 |     pass\n"
          "  = one\n"
          "    two\n"
          "Possible fixes:\n"
          "  1. give one of them another name\n");
}

static void tabs_and_wide_characters_keep_the_underline_in_place(void **state)
{
    DiagSink sink = {0};

    open_source("\t\xe6\x97\xa5\xe6\x9c\xac = nam\n");
    DIAG_AT(&sink, E0201, at("nam", 0), "nam");
    check(&sink, (DiagStyle){0},
          "Error: unknown name 'nam' [E0201]\n"
          " --> model.tsr:1:7\n"
          "  |\n"
          "1 |     \xe6\x97\xa5\xe6\x9c\xac = nam\n"
          "  |            ~~~\n");
}

static void a_span_of_many_lines_marks_the_first_and_the_last(void **state)
{
    DiagSink sink = {0};
    Span span;

    open_source("f(1,\n  2,\n  3,\n  4)\n");
    span = (Span){source->base, source->base + source->len - 1};
    DIAG_AT(&sink, E0902, span, "f", "x");
    check(&sink, (DiagStyle){0},
          "Error: f() needs an argument 'x' [E0902]\n"
          " --> model.tsr:1:1\n"
          "  |\n"
          "1 | f(1,\n"
          "  | ~~~~\n"
          "2 |   2,\n"
          "...\n"
          "4 |   4)\n"
          "  |   ~~\n"
          "Possible fixes:\n"
          "  1. pass 'x' too, or give the parameter a default\n");
}

static void reports_are_sorted_and_one_a_place(void **state)
{
    DiagSink sink = {0};
    StrBuf b = {0};

    open_source("aa + bb\n");
    DIAG_AT(&sink, E0201, at("bb", 0), "bb");
    DIAG_AT(&sink, E0201, at("aa", 0), "aa");
    DIAG_AT(&sink, E0209, at("bb", 0), "again");
    diag_render_json(&sink, &b);
    assert_string_equal(sb_str(&b),
        "{\"severity\": \"error\", \"code\": \"E0201\", \"message\": \"unknown name 'aa'\", \"file\": \"model.tsr\", \"line\": 1, "
        "\"col\": 1, \"end_line\": 1, \"end_col\": 3, \"labels\": [], \"notes\": [], \"help\": []}\n"
        "{\"severity\": \"error\", \"code\": \"E0201\", \"message\": \"unknown name 'bb'\", \"file\": \"model.tsr\", \"line\": 1, "
        "\"col\": 6, \"end_line\": 1, \"end_col\": 8, \"labels\": [], \"notes\": [], \"help\": []}\n");
    sb_done(&b);
    diag_sink_done(&sink);
}

static void what_is_past_the_limit_is_counted(void **state)
{
    DiagSink sink = {.limit = 1};
    StrBuf b = {0};

    open_source("aa\nbb\ncc\n");
    DIAG_AT(&sink, E0201, at("aa", 0), "aa");
    DIAG_AT(&sink, E0201, at("bb", 0), "bb");
    DIAG_AT(&sink, E0201, at("cc", 0), "cc");
    diag_render(&sink, (DiagStyle){0}, &b);
    assert_non_null(strstr(sb_str(&b), "and 2 more errors\n"));
    assert_null(strstr(sb_str(&b), "'bb'"));
    sb_done(&b);
    diag_sink_done(&sink);
}

static void colour_and_ascii_are_choices(void **state)
{
    DiagSink sink = {0};
    StrBuf b = {0};

    open_source("x\n");
    diag_note(DIAG_AT(&sink, E0201, at("x", 0), "x"), "here \xe2\x86\x90");
    diag_render(&sink, (DiagStyle){.color = true, .ascii = true}, &b);
    assert_non_null(strstr(sb_str(&b), "\033[1;31mError:\033[0m"));
    assert_non_null(strstr(sb_str(&b), "here <-\n"));
    sb_done(&b);
    diag_sink_done(&sink);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_shows_its_line_between_its_neighbours),
        cmocka_unit_test(other_places_are_labelled_in_order),
        cmocka_unit_test(tabs_and_wide_characters_keep_the_underline_in_place),
        cmocka_unit_test(a_span_of_many_lines_marks_the_first_and_the_last),
        cmocka_unit_test(reports_are_sorted_and_one_a_place),
        cmocka_unit_test(what_is_past_the_limit_is_counted),
        cmocka_unit_test(colour_and_ascii_are_choices),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
