/*
 * Strings, and f-strings as a stack of strings being read: in a hole the
 * ordinary scanner runs, and the hole's own } : ! = end or divide it.
 */
#include "frontend/syntax/lexer.h"

#include <string.h>

/* Is the text being read that of a hole's format spec? */
static bool in_spec(const Lexer *x)
{
    return x->br.n > vec_last(&x->fs).depth && vec_last(&x->br).hole && vec_last(&x->br).spec;
}

/* A string on one line, begun at `from`, that the line's end at e cuts off: brackets opened on the line count as closed. */
static void cut_off(Lexer *x, const char *from, const char *e, const char *what)
{
    int depth = x->line_depth;

    lex_mistake(x, E0111, lex_span_of(x, from, e), what, NULL)->help = "end it with the quote it began with, on this line";
    while (x->fs.n && vec_last(&x->fs).start >= (from < x->line ? from : x->line)) {
        depth = vec_last(&x->fs).depth < depth ? vec_last(&x->fs).depth : depth;
        x->fs.n--;
    }
    if (x->br.n > depth)
        x->br.n = depth;
    if (x->fs.n)
        vec_last(&x->fs).text = x->br.n == vec_last(&x->fs).depth || in_spec(x);
    x->cur = e;
    x->out->open |= e == x->end && e > x->text && e[-1] == '\\';
}

static void open_at_end(Lexer *x, const char *from, const char *what)
{
    const char *e = from;

    while (e < x->end && *e != '\n' && *e != '\r')
        e++;
    lex_mistake(x, E0111, lex_span_of(x, from, e), what, NULL);
    x->cur = x->end;
    x->br.n = x->fs.n = 0;
    x->out->open = true;
}

/* An f-string's hole runs into the closing quote: the string that seemed to begin there did not. */
static bool hole_was_open(Lexer *x, char quote)
{
    if (!x->fs.n || vec_last(&x->fs).triple || vec_last(&x->fs).quote != quote || !x->br.n)
        return false;
    for (int i = x->br.n - 1; i >= vec_last(&x->fs).depth; i--)
        if (x->br.at[i].hole)
            lex_mistake(x, E0118, (Span){x->br.at[i].pos, x->br.at[i].pos + 1}, "expected '}' to close this hole", NULL)->help =
                "close it with '}'; a brace that stands for itself is written '{{'";
    return true;
}

void lex_string(Lexer *x)
{
    const char *p = x->start, *body;
    StringForm form = {0};
    bool triple, ok = true;
    char q;

    for (; *p != '\'' && *p != '"'; p++) {
        form.raw |= *p == 'r' || *p == 'R';
        form.bytes |= *p == 'b' || *p == 'B';
    }
    q = *p;
    triple = x->cur - p == 3;
    for (body = p = x->cur;; p++) {
        if (p >= x->end) {
            if (!triple && hole_was_open(x, q))
                cut_off(x, x->start, p, "f-string");
            else if (triple)
                open_at_end(x, x->start, "triple-quoted string");
            else
                cut_off(x, x->start, p, "string");
            return;
        }
        if (*p == '\\' && p + 1 < x->end) {
            p += p[1] == '\r' && p[2] == '\n' ? 2 : 1;
        } else if (*p == q && (!triple || (p[1] == q && p[2] == q))) {
            break;
        } else if (!triple && (*p == '\n' || *p == '\r')) {
            hole_was_open(x, q);
            cut_off(x, x->start, p, "string");
            return;
        }
    }
    x->cur = p + (triple ? 3 : 1);
    Literal at = {&x->unit->arena, &x->errors, lex_pos_of(x, body)};
    int before = x->errors.all.n;
    const AstText *t = literal_string(at, body, (size_t)(p - body), form, &ok);
    if (!ok && x->bad)
        x->errors.all.n = before;
    x->bad |= !ok;
    lex_emit(x, form.bytes ? TOK_BYTES : TOK_STRING)->u.text = t;
}

void lex_fstring(Lexer *x)
{
    const char *p = x->start;
    FString f = {.text = true, .start = x->start, .depth = x->br.n};

    for (; *p != '\'' && *p != '"'; p++)
        f.raw |= *p == 'r' || *p == 'R';
    f.quote = *p;
    f.triple = x->cur - p == 3;
    lex_emit(x, TOK_FSTART);
    vec_push(&x->fs, f);
}

static void emit_text(Lexer *x, const char *from, const char *to, bool spec)
{
    const FString *f = &vec_last(&x->fs);
    StringForm form = {.raw = f->raw, .doubled = !spec};
    Literal at = {&x->unit->arena, &x->errors, lex_pos_of(x, from)};
    int before = x->errors.all.n;
    bool ok = true;
    const AstText *t;

    if (from == to)
        return;
    t = literal_string(at, from, (size_t)(to - from), form, &ok);
    if (!ok && x->bad)
        x->errors.all.n = before;
    x->bad |= !ok;
    x->start = from;
    x->cur = to;
    lex_emit(x, TOK_FTEXT)->u.text = t;
}

/* Skip an escape in an f-string's text, p at the backslash: the next byte belongs to it unless it is a brace. */
static const char *skip_escape(const Lexer *x, const char *p, bool raw)
{
    if (p + 1 >= x->end || p[1] == '{' || p[1] == '}')
        return p + 1;
    if (!raw && p[1] == 'N' && p[2] == '{') {
        while (p < x->end && *p != '}' && *p != '\n')
            p++;
        return p < x->end ? p + 1 : p;
    }
    return p + (p[1] == '\r' && p[2] == '\n' ? 3 : 2);
}

/* The text of an f-string or of a format spec, up to what ends or interrupts it. */
void lex_fstring_text(Lexer *x)
{
    FString f = vec_last(&x->fs);
    bool spec = in_spec(x);
    const char *from = x->cur, *p = from;

    for (;; p++) {
        while (p < x->end && *p == '\\')
            p = skip_escape(x, p, f.raw);
        if (p >= x->end || (!f.triple && (*p == '\n' || *p == '\r')))
            break;
        if (*p == f.quote && (!f.triple || (p[1] == f.quote && p[2] == f.quote)))
            break;
        if (*p == '{' || *p == '}') {
            if (spec || p[1] != *p)
                break;
            p++;
        }
    }
    emit_text(x, from, p, spec);
    x->start = p;
    x->cur = p + 1;
    if (p >= x->end && f.triple) {
        open_at_end(x, f.start, "triple-quoted f-string");
    } else if (p >= x->end || *p == '\n' || *p == '\r') {
        cut_off(x, f.start, p, "f-string");
    } else if (*p == '{') {
        lex_open_bracket(x, '{', TOK_FLBRACE, true);
        vec_last(&x->fs).text = false;
    } else if (*p == '}' && spec) {
        x->br.n--;
        lex_emit(x, TOK_FRBRACE);
    } else if (*p == '}') {
        lex_mistake(x, E0118, lex_span_of(x, p, p + 1), "single '}' is not allowed", NULL)->help =
            "write '}}' for a brace in the text";
    } else if (spec) {
        lex_mistake(x, E0118, (Span){vec_last(&x->br).pos, vec_last(&x->br).pos + 1}, "expected '}' to close this hole", NULL)->help =
            "close it with '}'; a brace that stands for itself is written '{{'";
        x->br.n = f.depth;
        x->cur = p + (f.triple ? 3 : 1);
        x->fs.n--;
    } else {
        x->cur = p + (f.triple ? 3 : 1);
        lex_emit(x, TOK_FEND);
        x->fs.n--;
    }
}

/* Is the scanner directly inside a hole's braces, so that } : ! = are the hole's own? */
bool lex_at_hole(const Lexer *x)
{
    return x->fs.n && x->br.n && vec_last(&x->br).hole;
}

void lex_right_brace(Lexer *x)
{
    if (lex_at_hole(x)) {
        x->br.n--;
        lex_emit(x, TOK_FRBRACE);
        vec_last(&x->fs).text = true;
    } else {
        lex_close_bracket(x, '}', TOK_RBRACE);
    }
}

bool lex_colon_of_hole(Lexer *x)
{
    if (!lex_at_hole(x))
        return false;
    x->cur = x->start + 1;
    lex_emit(x, TOK_FCOLON);
    vec_last(&x->br).spec = true;
    vec_last(&x->fs).text = true;
    return true;
}

void lex_equals(Lexer *x)
{
    const char *p = x->cur;

    while (p < x->end && (*p == ' ' || *p == '\t'))
        p++;
    if (lex_at_hole(x) && (*p == '}' || *p == ':' || *p == '!')) {
        x->cur = p;
        lex_emit(x, TOK_FEQUAL);
    } else {
        lex_emit(x, TOK_EQ);
    }
}
