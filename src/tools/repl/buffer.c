/* Offsets are bytes; moving goes by visible characters, so that a base letter and its marks stay together. */
#include "tools/repl/buffer.h"

#include <ctype.h>
#include <string.h>
#include <utf8proc.h>

enum { INDENT = 4, UNDO_MAX = 200 };

static int32_t codepoint(const Buffer *b, size_t at)
{
    utf8proc_int32_t c = -1;

    utf8proc_iterate((const utf8proc_uint8_t *)b->text.s + at, (utf8proc_ssize_t)(b->text.n - at), &c);
    return c;
}

/* A mark or joiner that belongs to the character before it. */
static bool is_extension(int32_t c)
{
    return c > 0x7F && (utf8proc_charwidth(c) == 0 || c == 0x200D);
}

size_t buffer_prev(const Buffer *b, size_t at)
{
    do {
        while (at > 0 && (b->text.s[--at] & 0xC0) == 0x80) {}
    } while (at > 0 && is_extension(codepoint(b, at)));
    return at;
}

size_t buffer_next(const Buffer *b, size_t at)
{
    if (at >= b->text.n)
        return b->text.n;
    do {
        at++;
        while (at < b->text.n && (b->text.s[at] & 0xC0) == 0x80)
            at++;
    } while (at < b->text.n && is_extension(codepoint(b, at)));
    return at;
}

size_t buffer_line_start(const Buffer *b, size_t at)
{
    while (at > 0 && b->text.s[at - 1] != '\n')
        at--;
    return at;
}

size_t buffer_line_end(const Buffer *b, size_t at)
{
    while (at < b->text.n && b->text.s[at] != '\n')
        at++;
    return at;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (c & 0x80);
}

size_t buffer_word_left(const Buffer *b, size_t at)
{
    while (at > 0 && !is_word(b->text.s[at - 1]))
        at--;
    while (at > 0 && is_word(b->text.s[at - 1]))
        at--;
    return at;
}

size_t buffer_word_right(const Buffer *b, size_t at)
{
    while (at < b->text.n && !is_word(b->text.s[at]))
        at++;
    while (at < b->text.n && is_word(b->text.s[at]))
        at++;
    return at;
}

bool buffer_in_indent(const Buffer *b)
{
    for (size_t i = buffer_line_start(b, b->cursor); i < b->cursor; i++)
        if (b->text.s[i] != ' ')
            return false;
    return true;
}

/* ------------------------------------------------------------- changes */

void buffer_set(Buffer *b, const char *text)
{
    sb_clear(&b->text);
    sb_puts(&b->text, text);
    sb_str(&b->text);
    b->cursor = b->text.n;
}

void buffer_insert(Buffer *b, const char *s, size_t n)
{
    size_t tail = b->text.n - b->cursor;

    sb_pad(&b->text, ' ', n);
    memmove(b->text.s + b->cursor + n, b->text.s + b->cursor, tail);
    memcpy(b->text.s + b->cursor, s, n);
    b->cursor += n;
}

void buffer_remove(Buffer *b, size_t from, size_t to)
{
    if (from >= to)
        return;
    memmove(b->text.s + from, b->text.s + to, b->text.n - to);
    b->text.n -= to - from;
    b->text.s[b->text.n] = 0;
    b->cursor = from;
}

void buffer_kill(Buffer *b, size_t from, size_t to)
{
    if (from >= to)
        return;
    sb_clear(&b->cut);
    sb_write(&b->cut, b->text.s + from, to - from);
    buffer_remove(b, from, to);
}

static bool starts_with_word(const char *s, const char *word)
{
    size_t n = strlen(word);

    return !strncmp(s, word, n) && !is_word(s[n]);
}

/* Blanks for a line that follows the one in [from, to). */
static size_t next_indent(const char *text, size_t from, size_t to)
{
    static const char *const leavers[] = {"return", "pass", "break", "continue", "raise"};
    size_t indent = 0, end = to;

    while (from + indent < to && text[from + indent] == ' ')
        indent++;
    while (end > from && text[end - 1] == ' ')
        end--;
    if (end > from && strchr(":([{", text[end - 1]))
        return indent + INDENT;
    for (size_t i = 0; i < sizeof leavers / sizeof *leavers; i++)
        if (starts_with_word(text + from + indent, leavers[i]))
            return indent >= INDENT ? indent - INDENT : 0;
    return indent;
}

void buffer_newline(Buffer *b)
{
    size_t n = next_indent(b->text.s, buffer_line_start(b, b->cursor), b->cursor);

    buffer_insert(b, "\n", 1);
    while (n--)
        buffer_insert(b, " ", 1);
}

bool buffer_vertical(Buffer *b, int lines)
{
    size_t start = buffer_line_start(b, b->cursor), end = buffer_line_end(b, b->cursor), col = 0, at;

    if (lines < 0 ? start == 0 : end == b->text.n)
        return false;
    for (size_t i = start; i < b->cursor; i = buffer_next(b, i))
        col++;
    at = lines < 0 ? buffer_line_start(b, start - 1) : end + 1;
    while (col-- && at < b->text.n && b->text.s[at] != '\n')
        at = buffer_next(b, at);
    b->cursor = at;
    return true;
}

/* ------------------------------------------------------------- undo */

static void forget_oldest(Buffer *b)
{
    tsr_free(b->undo.at[0].text);
    memmove(b->undo.at, b->undo.at + 1, (size_t)--b->undo.n * sizeof *b->undo.at);
}

void buffer_save(Buffer *b)
{
    BufferState s = {.cursor = b->cursor};

    if (b->undo.n && !strcmp(vec_last(&b->undo).text, sb_str(&b->text)))
        return;
    s.text = tsr_alloc(b->text.n + 1);
    memcpy(s.text, sb_str(&b->text), b->text.n + 1);
    vec_push(&b->undo, s);
    if (b->undo.n > UNDO_MAX)
        forget_oldest(b);
}

bool buffer_undo(Buffer *b)
{
    while (b->undo.n) {
        BufferState s = vec_pop(&b->undo);
        bool differs = strcmp(s.text, sb_str(&b->text));
        buffer_set(b, s.text);
        b->cursor = s.cursor;
        tsr_free(s.text);
        if (differs)
            return true;
    }
    return false;
}

void buffer_done(Buffer *b)
{
    for (int i = 0; i < b->undo.n; i++)
        tsr_free(b->undo.at[i].text);
    vec_free(&b->undo);
    sb_done(&b->text);
    sb_done(&b->cut);
}
