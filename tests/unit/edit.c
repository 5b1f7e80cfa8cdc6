/* The interactive session's text buffer and history. */
#include "unit.h"

#include "tools/repl/buffer.h"
#include "tools/repl/history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void insert(Buffer *b, const char *s)
{
    buffer_insert(b, s, strlen(s));
}

static void text_goes_in_and_out(void **state)
{
    Buffer b = {0};

    buffer_set(&b, "ac");
    b.cursor = 1;
    insert(&b, "b");
    assert_string_equal(b.text.s, "abc");
    buffer_kill(&b, 1, 3);
    assert_string_equal(b.text.s, "a");
    assert_string_equal(sb_str(&b.cut), "bc");
    buffer_remove(&b, 0, 1);
    assert_string_equal(b.text.s, "");
    buffer_done(&b);
}

static void cursor_moves_by_visible_characters(void **state)
{
    Buffer b = {0};

    buffer_set(&b, "e\xcc\x81\xf0\x9f\x98\x80x");     /* e with a combining accent, an emoji, x */
    assert_int_equal(buffer_next(&b, 0), 3);
    assert_int_equal(buffer_next(&b, 3), 7);
    assert_int_equal(buffer_prev(&b, 7), 3);
    assert_int_equal(buffer_prev(&b, 3), 0);
    assert_int_equal(buffer_prev(&b, 0), 0);
    assert_int_equal(buffer_next(&b, 8), 8);
    buffer_done(&b);
}

static void words_are_names_and_numbers(void **state)
{
    Buffer b = {0};

    buffer_set(&b, "foo.bar_1 + x");
    assert_int_equal(buffer_word_left(&b, 9), 4);
    assert_int_equal(buffer_word_left(&b, 4), 0);
    assert_int_equal(buffer_word_right(&b, 0), 3);
    assert_int_equal(buffer_word_right(&b, 3), 9);
    buffer_done(&b);
}

static void up_and_down_keep_the_column(void **state)
{
    Buffer b = {0};

    buffer_set(&b, "abcdef\nxy\nlonger");
    b.cursor = 5;
    assert_true(buffer_vertical(&b, 1));
    assert_int_equal(b.cursor, 9);
    assert_true(buffer_vertical(&b, 1));
    assert_int_equal(b.cursor, 12);
    assert_false(buffer_vertical(&b, 1));
    b.cursor = 0;
    assert_false(buffer_vertical(&b, -1));
    buffer_done(&b);
}

static void check_indent(const char *line, const char *want)
{
    Buffer b = {0};

    buffer_set(&b, line);
    buffer_newline(&b);
    assert_string_equal(b.text.s + strlen(line), want);
    buffer_done(&b);
}

static void new_lines_are_indented(void **state)
{
    check_indent("x = 1", "\n");
    check_indent("if x:", "\n    ");
    check_indent("    for i in x:", "\n        ");
    check_indent("        return 1", "\n    ");
    check_indent("    returned = 1", "\n    ");
    check_indent("f(", "\n    ");
    check_indent("    pass", "\n");
}

static void undo_goes_back(void **state)
{
    Buffer b = {0};

    buffer_set(&b, "one");
    buffer_save(&b);
    insert(&b, " two");
    buffer_save(&b);
    insert(&b, " three");
    assert_true(buffer_undo(&b));
    assert_string_equal(b.text.s, "one two");
    assert_true(buffer_undo(&b));
    assert_string_equal(b.text.s, "one");
    assert_false(buffer_undo(&b));
    buffer_done(&b);
}

static void history_survives_and_keeps_each_text_once(void **state)
{
    char dir[] = "/tmp/tessera-history-XXXXXX", path[64];
    History h;

    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/deep/er/history", dir);
    setenv("TESSERA_HISTORY", path, 1);
    history_open(&h);
    history_add(&h, "a = 1");
    history_add(&h, "def f():\n    return '\\n'");
    history_add(&h, "a = 1");
    assert_int_equal(h.entry.n, 2);
    history_close(&h);
    history_open(&h);
    assert_int_equal(h.entry.n, 2);
    assert_string_equal(h.entry.at[0], "def f():\n    return '\\n'");
    assert_string_equal(h.entry.at[1], "a = 1");
    assert_int_equal(history_search(&h, "return", 5), 0);
    assert_int_equal(history_search(&h, "nothing", 5), -1);
    history_close(&h);
    unlink(path);
    snprintf(path, sizeof path, "%s/deep/er", dir);
    rmdir(path);
    snprintf(path, sizeof path, "%s/deep", dir);
    rmdir(path);
    rmdir(dir);
}

static void no_history_is_fine(void **state)
{
    History h;

    setenv("TESSERA_HISTORY", "", 1);
    history_open(&h);
    history_add(&h, "x");
    assert_int_equal(h.entry.n, 1);
    history_close(&h);
    setenv("TESSERA_HISTORY", "/proc/no/such/folder/history", 1);
    history_open(&h);
    history_add(&h, "x");
    assert_int_equal(h.entry.n, 1);
    history_close(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_goes_in_and_out),
        cmocka_unit_test(cursor_moves_by_visible_characters),
        cmocka_unit_test(words_are_names_and_numbers),
        cmocka_unit_test(up_and_down_keep_the_column),
        cmocka_unit_test(new_lines_are_indented),
        cmocka_unit_test(undo_goes_back),
        cmocka_unit_test(history_survives_and_keeps_each_text_once),
        cmocka_unit_test(no_history_is_fine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
