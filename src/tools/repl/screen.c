/*
 * Each drawing builds the whole block as rows that are no wider than the
 * terminal (so the terminal never wraps by itself and every row's place is
 * known), shows the rows around the cursor that fit, and goes out in one write.
 */
#include "tools/repl/screen.h"

#include "base/vec.h"
#include "tools/repl/edit.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utf8proc.h>

static const char *const sgr[STYLE_COUNT] = {
    [STYLE_PLAIN] = "0",   [STYLE_KEYWORD] = "0;35", [STYLE_STRING] = "0;32",
    [STYLE_NUMBER] = "0;36", [STYLE_COMMENT] = "0;90", [STYLE_NAME] = "0;34",
};

typedef struct Layout {
    StrBuf out;                 /* the rows, each beginning at row[i] */
    Vec(size_t) row;
    int width, col, cursor_row, cursor_col;
    int style;                  /* of the last character put, -1: must be said again */
} Layout;

static void window_size(int *rows, int *cols)
{
    struct winsize w = {0};

    ioctl(STDOUT_FILENO, TIOCGWINSZ, &w);
    *rows = w.ws_row > 1 ? w.ws_row : 24;
    *cols = w.ws_col > 9 ? w.ws_col : 80;
}

static void new_row(Layout *l)
{
    if (l->row.n)
        sb_puts(&l->out, "\033[0m");
    vec_push(&l->row, l->out.n);
    l->col = 0;
    l->style = -1;
}

static void put_char(Layout *l, const char *s, size_t n, int width)
{
    if (l->col + width > l->width)
        new_row(l);
    sb_write(&l->out, s, n);
    l->col += width;
}

static void put_ascii(Layout *l, const char *s)
{
    for (; *s; s++)
        if (*s == '\n')
            new_row(l);
        else
            put_char(l, s, 1, 1);
}

static void set_style(Layout *l, bool color, int style, bool match)
{
    int want = style | match << 8;

    if (!color || want == l->style)
        return;
    sb_printf(&l->out, "\033[%s%sm", sgr[style], match ? ";1;4" : "");
    l->style = want;
}

static void mark_cursor(Layout *l)
{
    if (l->col == l->width)
        new_row(l);
    l->cursor_row = l->row.n - 1;
    l->cursor_col = l->col;
}

/* One code point; what has no shape of its own is shown as ^X or U+FFFD. */
static size_t put_codepoint(Layout *l, const View *v, size_t i)
{
    utf8proc_int32_t c;
    utf8proc_ssize_t k = utf8proc_iterate((const utf8proc_uint8_t *)v->text + i, (utf8proc_ssize_t)(v->n - i), &c);

    if (k < 1 || (c >= 0x80 && c < 0xA0)) {
        put_char(l, "\xef\xbf\xbd", 3, 1);
        return k < 1 ? 1 : (size_t)k;
    }
    if (c < 0x20 || c == 0x7F) {
        char shown[2] = {'^', (char)(c ^ 0x40)};
        put_char(l, c == '\t' ? "    " : shown, c == '\t' ? 4 : 2, c == '\t' ? 4 : 2);
    } else {
        put_char(l, v->text + i, (size_t)k, utf8proc_charwidth(c));
    }
    return (size_t)k;
}

static void put_dots(Layout *l, const char *prompt)
{
    size_t n = strlen(prompt);

    while (n-- > 1)
        put_char(l, ".", 1, 1);
    put_char(l, " ", 1, 1);
}

static void lay_out(Layout *l, const Screen *s, const View *v)
{
    new_row(l);
    put_ascii(l, v->prompt);
    for (size_t i = 0; i < v->n;) {
        if (i == v->cursor)
            mark_cursor(l);
        if (v->text[i] == '\n') {
            new_row(l);
            put_dots(l, v->prompt);
            i++;
            continue;
        }
        set_style(l, s->color, v->style[i], i == v->match);
        i += put_codepoint(l, v, i);
    }
    set_style(l, s->color, STYLE_PLAIN, false);
    if (v->cursor >= v->n)
        mark_cursor(l);
    if (v->hint && s->color) {
        set_style(l, true, STYLE_COMMENT, false);
        put_ascii(l, v->hint);
        set_style(l, true, STYLE_PLAIN, false);
    }
    if (v->below) {
        new_row(l);
        put_ascii(l, v->below);
    }
}

static void flush(StrBuf *b)
{
    for (size_t at = 0; at < b->n;) {
        ssize_t n = write(STDOUT_FILENO, b->s + at, b->n - at);
        if (n <= 0)
            break;
        at += (size_t)n;
    }
    sb_done(b);
}

static void put_rows(StrBuf *out, const Layout *l, int first, int count)
{
    for (int i = first; i < first + count; i++) {
        size_t end = i + 1 < l->row.n ? l->row.at[i + 1] : l->out.n;
        if (i > first)
            sb_puts(out, "\r\n");
        sb_write(out, l->out.s + l->row.at[i], end - l->row.at[i]);
    }
}

static void go_to_top(const Screen *s, StrBuf *out)
{
    if (s->cursor_row)
        sb_printf(out, "\033[%dA", s->cursor_row);
    sb_puts(out, "\r\033[J");
}

void screen_draw(Screen *s, const View *v)
{
    Layout l = {0};
    StrBuf out = {0};
    int rows, first, shown;

    window_size(&rows, &l.width);
    lay_out(&l, s, v);
    shown = l.row.n < rows ? l.row.n : rows - 1;
    first = l.cursor_row < shown ? 0 : l.cursor_row - shown + 1;
    sb_puts(&out, "\033[?25l");
    go_to_top(s, &out);
    put_rows(&out, &l, first, shown);
    if (first + shown - 1 > l.cursor_row)
        sb_printf(&out, "\033[%dA", first + shown - 1 - l.cursor_row);
    sb_puts(&out, "\r");
    if (l.cursor_col)
        sb_printf(&out, "\033[%dC", l.cursor_col);
    sb_puts(&out, "\033[?25h");
    s->cursor_row = l.cursor_row - first;
    flush(&out);
    sb_done(&l.out);
    vec_free(&l.row);
}

void screen_leave(Screen *s, const View *v)
{
    View last = *v;
    StrBuf out = {0};

    last.cursor = last.n;
    last.hint = last.below = NULL;
    last.match = SIZE_MAX;
    screen_draw(s, &last);
    sb_puts(&out, "\r\n");
    s->cursor_row = 0;
    flush(&out);
}

void screen_clear(Screen *s)
{
    StrBuf out = {0};

    sb_puts(&out, "\033[H\033[2J");
    s->cursor_row = 0;
    flush(&out);
}
