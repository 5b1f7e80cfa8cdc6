/* Tokens, trees, limits, recovery: what programs cannot show from outside. */
#include "unit.h"

#include "base/sym.h"
#include "frontend/syntax/token.h"

#include <stdlib.h>
#include <string.h>

typedef struct Parsed {
    const Source *src;
    Unit *unit;
    DiagSink sink;
} Parsed;

static Parsed parse(const char *text)
{
    Parsed p = {.src = source_add("test.tsr", text, strlen(text))};

    p.unit = unit_parse(p.src, &p.sink);
    return p;
}

static void done(Parsed *p)
{
    unit_free(p->unit);
    diag_sink_done(&p->sink);
}

static Ast *statement(const Parsed *p, int i)
{
    assert_true(i < p->unit->module->body.n);
    return p->unit->module->body.at[i];
}

/* The value of a unit of one expression statement. */
static Ast *value(const Parsed *p)
{
    assert_int_equal(p->sink.errors, 0);
    assert_int_equal(statement(p, 0)->kind, AST_ExprStmt);
    return AST_AS(statement(p, 0), ExprStmt)->value;
}

static void assert_text(const Parsed *p, Span s, const char *want)
{
    assert_int_equal(s.hi - s.lo, strlen(want));
    assert_memory_equal(p->src->text + (s.lo - p->src->base), want, strlen(want));
}

/* ---- tokens ---- */

static void lex(const char *text, TokenList *list)
{
    Unit u = {.src = source_add("test.tsr", text, strlen(text))};
    DiagSink sink = {0};

    lex_source(&u, &sink, list, false);
    assert_int_equal(sink.errors, 0);
    vec_free(&u.comments);
    arena_done(&u.arena);
    diag_sink_done(&sink);
}

static void every_keyword_is_one_token(void **state)
{
    const char *word;

    for (int i = 0; (word = keyword_at(i)); i++) {
        TokenList list = {0};
        lex(word, &list);
        assert_int_equal(list.tok.n, 3);                        /* the word, NEWLINE, the end */
        if (list.tok.at[0].kind != TOK_NAME && list.tok.at[0].kind != TOK_CMP)     /* as match and type are; is, which is one of several */
            assert_string_equal(token_name(list.tok.at[0].kind), word);
        tokens_done(&list);
    }
}

static void every_sign_is_one_token(void **state)
{
    for (int i = 0; operator_at(i); i++) {
        const char *sign = operator_at(i);
        TokenList list = {0};
        char text[16] = "1 ";
        if (strchr("([{)]}!", *sign) && strcmp(sign, "!="))
            continue;                                           /* brackets come in pairs, ! in f-strings */
        strcat(text, sign);
        lex(text, &list);
        assert_int_equal(list.tok.n, 4);
        assert_int_equal(list.tok.at[1].span.hi - list.tok.at[1].span.lo, strlen(sign));
        tokens_done(&list);
    }
}

static void soft_keywords_are_names_elsewhere(void **state)
{
    Parsed p = parse("match = case = type = on = where = constraint = 1\n"
                     "match(case)\ntype[on] = where\nmatch[1]: int\nprint(match, type (x), on - 1)\n"
                     "type.case\non.x()\nmatch -1\ntype\n");

    assert_int_equal(p.sink.errors, 0);
    assert_int_equal(statement(&p, 0)->kind, AST_Assign);
    assert_int_equal(statement(&p, 7)->kind, AST_ExprStmt);
    done(&p);
}

/* ---- trees ---- */

static void spans_cover_their_text(void **state)
{
    Parsed p = parse("x = (f(a, b)[1:2] .c)  # comment\n");
    AstAssign *a = AST_AS(statement(&p, 0), Assign);

    assert_text(&p, a->ast.span, "x = (f(a, b)[1:2] .c)");
    assert_text(&p, a->value->span, "(f(a, b)[1:2] .c)");
    assert_int_equal(a->value->parens, 1);
    assert_text(&p, AST_AS(a->value, Attribute)->value->span, "f(a, b)[1:2]");
    assert_int_equal(p.unit->comments.n, 1);
    assert_text(&p, p.unit->comments.at[0].span, "# comment");
    done(&p);
}

static void a_header_is_a_span(void **state)
{
    Parsed p = parse("@deco\ndef f(x) -> int:\n    return x\n");

    assert_text(&p, statement(&p, 0)->span, "def f(x) -> int:");
    done(&p);
}

static void literals_have_values(void **state)
{
    static const struct { const char *text; int64_t value; } row[] = {
        {"0", 0}, {"1_000", 1000}, {"0xFF", 255}, {"0o17", 15}, {"0b1_01", 5}, {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", INT64_MIN}, {"0x7FFFFFFFFFFFFFFF", INT64_MAX}, {"00", 0},
    };

    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        Parsed p = parse(row[i].text);
        assert_int_equal(value(&p)->kind, AST_Int);
        assert_true(AST_AS(value(&p), Int)->value == row[i].value);
        done(&p);
    }
}

static void strings_have_bytes(void **state)
{
    static const struct { const char *text, *bytes; } row[] = {
        {"'a' \"b\"", "ab"}, {"'\\n\\t\\\\\\''", "\n\t\\'"}, {"r'\\n'", "\\n"}, {"'\\x41\\u00e9\\U0001F600'", "A\xc3\xa9\xf0\x9f\x98\x80"},
        {"'''a\r\nb'''", "a\nb"}, {"'a\\\nb'", "ab"}, {"'\\101'", "A"}, {"b'\\xff'", "\xff"}, {"''", ""},
    };

    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        Parsed p = parse(row[i].text);
        AstStr *s = AST_AS(value(&p), Str);                     /* Bytes has the same layout */
        assert_int_equal(s->value.n, strlen(row[i].bytes));
        assert_memory_equal(s->value.s, row[i].bytes, s->value.n);
        done(&p);
    }
}

static void fstrings_have_parts(void **state)
{
    Parsed p = parse("f'a{x!r:>{w}}b{y = }{{' 'c'");
    AstFString *f = AST_AS(value(&p), FString);
    AstHole *h = AST_AS(f->parts.at[1], Hole);

    assert_int_equal(f->parts.n, 5);
    assert_int_equal(h->conversion, 'r');
    assert_int_equal(AST_AS(h->spec, FString)->parts.n, 2);
    assert_string_equal(AST_AS(f->parts.at[3], Hole)->debug.s, "y = ");
    assert_string_equal(AST_AS(f->parts.at[4], Str)->value.s, "{c");
    done(&p);
}

static void names_are_normal(void **state)
{
    Parsed p = parse("\xef\xac\x81x");                          /* the ligature fi */

    assert_ptr_equal(AST_AS(value(&p), Name)->id, sym("fix"));
    done(&p);
}

/* ---- mistakes ---- */

static void good_lines_survive_bad_ones(void **state)
{
    Parsed p = parse("a = 1\nb = = 2\nif c d:\n    e = 3\n    f = * 4\nelse:\n    g = 5\nh = 6\n");

    assert_int_equal(p.sink.errors, 3);
    assert_true(p.unit->broken);
    assert_int_equal(p.unit->module->body.n, 4);
    assert_int_equal(statement(&p, 2)->kind, AST_If);
    assert_int_equal(AST_AS(statement(&p, 2), If)->body.n, 2);
    assert_int_equal(AST_AS(statement(&p, 2), If)->orelse.n, 1);
    assert_int_equal(statement(&p, 3)->kind, AST_Assign);
    done(&p);
}

static void repairs_keep_the_tree(void **state)
{
    Parsed p = parse("if x = 3:\n    pass\nwhile x\n    y = 1\ntry:\n    z\nw = 1\n");

    assert_int_equal(p.sink.errors, 3);
    assert_false(p.unit->broken);
    assert_int_equal(p.unit->module->body.n, 4);
    assert_int_equal(AST_AS(statement(&p, 0), If)->test->kind, AST_Compare);
    assert_int_equal(AST_AS(statement(&p, 1), While)->body.n, 1);
    done(&p);
}

static void one_report_a_line(void **state)
{
    Parsed p = parse("x = (1 2 3 = 'open\ny = $ ? !\n) ] }\nf() = g() = 1 +\n");

    assert_int_equal(p.sink.errors, 4);
    done(&p);
}

static void unfinished_text_is_told_from_wrong_text(void **state)
{
    static const struct { const char *text; InputState want; } row[] = {
        {"x = 1\n", INPUT_COMPLETE}, {"", INPUT_COMPLETE}, {"# c\n", INPUT_COMPLETE}, {"if x:\n    y\n", INPUT_COMPLETE},
        {"if x:\n", INPUT_OPEN}, {"f(1,\n", INPUT_OPEN}, {"x = [1,\n# c\n", INPUT_OPEN}, {"\"\"\"abc\n", INPUT_OPEN},
        {"@jit\n", INPUT_OPEN}, {"try:\n    x\n", INPUT_OPEN}, {"x = 1 + \\\n", INPUT_OPEN}, {"match x:\n", INPUT_OPEN},
        {"x = = 1\n", INPUT_BAD}, {"x = (1]\n", INPUT_BAD}, {"'abc", INPUT_BAD}, {")\n", INPUT_BAD}, {"x = 1 +\n", INPUT_BAD},
    };

    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        assert_int_equal(input_state(row[i].text, strlen(row[i].text)), row[i].want);
}

/* ---- limits: one less, exactly, one more ---- */

static int errors_of(const char *before, const char *unit, int n, const char *middle, const char *after)
{
    StrBuf b = {0};
    Parsed p;
    int errors;

    sb_puts(&b, before);
    for (int i = 0; i < n; i++)
        sb_puts(&b, unit);
    sb_puts(&b, middle);
    for (int i = 0; i < n; i++)
        sb_puts(&b, after);
    p = parse(sb_str(&b));
    errors = p.sink.errors;
    done(&p);
    sb_done(&b);
    return errors;
}

static void nesting_is_bounded(void **state)
{
    static const struct { const char *before, *unit, *middle, *after; int most; } row[] = {
        {"x = ", "(", "1", ")", NEST_MAX}, {"x = ", "[", "1", "]", NEST_MAX}, {"x = ", "f(", "1", ")", NEST_MAX},
        {"", "-", "1", "", AST_HEIGHT_MAX - 2}, {"", "not ", "1", "", AST_HEIGHT_MAX - 2}, {"1", "+1", "", "", AST_HEIGHT_MAX - 2},
        {"a", ".b", "", "", AST_HEIGHT_MAX - 2}, {"", "lambda: ", "1", "", AST_HEIGHT_MAX - 2},
    };

    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        for (int d = -1; d <= 1; d++)
            assert_int_equal(errors_of(row[i].before, row[i].unit, row[i].most + d, row[i].middle, row[i].after), d > 0);
        assert_int_equal(errors_of(row[i].before, row[i].unit, 100000, row[i].middle, row[i].after), 1);
    }
}

static void names_are_bounded(void **state)
{
    assert_int_equal(errors_of("", "a", NAME_MAX_BYTES, "", ""), 0);
    assert_int_equal(errors_of("", "a", NAME_MAX_BYTES + 1, "", ""), 1);
}

static int forget(void **state)
{
    source_done();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_keyword_is_one_token, forget),
        cmocka_unit_test_teardown(every_sign_is_one_token, forget),
        cmocka_unit_test_teardown(soft_keywords_are_names_elsewhere, forget),
        cmocka_unit_test_teardown(spans_cover_their_text, forget),
        cmocka_unit_test_teardown(a_header_is_a_span, forget),
        cmocka_unit_test_teardown(literals_have_values, forget),
        cmocka_unit_test_teardown(strings_have_bytes, forget),
        cmocka_unit_test_teardown(fstrings_have_parts, forget),
        cmocka_unit_test_teardown(names_are_normal, forget),
        cmocka_unit_test_teardown(good_lines_survive_bad_ones, forget),
        cmocka_unit_test_teardown(repairs_keep_the_tree, forget),
        cmocka_unit_test_teardown(one_report_a_line, forget),
        cmocka_unit_test_teardown(unfinished_text_is_told_from_wrong_text, forget),
        cmocka_unit_test_teardown(nesting_is_bounded, forget),
        cmocka_unit_test_teardown(names_are_bounded, forget),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
