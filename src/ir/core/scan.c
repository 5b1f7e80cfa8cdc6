/*
 * Words, numbers and names of IR texts, for graphs and kernels alike.
 *
 * Nothing in a text is trusted: a zero byte, a number too large, a string or an
 * escape that does not end are reported like any other mistake.
 */
#include "ir/core/scan.h"

#include "ir/core/dtype.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void scan_init(Scan *s, const char *text, size_t n, StrBuf *err)
{
    *s = (Scan){.err = err};
    sb_write(&s->copy, text, n);
    s->at = s->start = sb_str(&s->copy);
    s->end = s->start + strlen(s->start);
    if (s->end - s->start != (ptrdiff_t)n)
        scan_fail(s, "the text contains a zero byte");
}

void scan_done(Scan *s) { sb_done(&s->copy); }

bool scan_fail(Scan *s, const char *fmt, ...)
{
    va_list ap;
    int line = 1;

    if (s->bad)
        return false;
    s->bad = true;
    for (const char *c = s->start; c < s->at; c++)
        line += *c == '\n';
    sb_printf(s->err, "line %d: ", line);
    va_start(ap, fmt);
    sb_vprintf(s->err, fmt, ap);
    va_end(ap);
    return false;
}

/* ---- tokens ---- */

void scan_skip(Scan *s)
{
    while (s->at < s->end && (isspace((unsigned char)*s->at) || *s->at == '#')) {
        if (*s->at == '#')
            while (s->at < s->end && *s->at != '\n')
                s->at++;
        else
            s->at++;
    }
}

static bool word_byte(char c) { return isalnum((unsigned char)c) || c == '_' || c == '.' || (unsigned char)c >= 0x80; }

bool scan_accept(Scan *s, const char *text)
{
    size_t n = strlen(text);

    scan_skip(s);
    if (s->bad || (size_t)(s->end - s->at) < n || memcmp(s->at, text, n) != 0)
        return false;
    if (n && word_byte(text[n - 1]) && s->at + n < s->end && word_byte(s->at[n]))
        return false;
    s->at += n;
    return true;
}

bool scan_expect(Scan *s, const char *text) { return scan_accept(s, text) || scan_fail(s, "expected '%s'", text); }

Sym scan_word(Scan *s)
{
    const char *from;

    scan_skip(s);
    from = s->at;
    while (s->at < s->end && word_byte(*s->at))
        s->at++;
    if (s->at == from)
        scan_fail(s, "expected a word");
    return sym_n(from, (size_t)(s->at - from));
}

int64_t scan_integer(Scan *s)
{
    char *end;
    long long v;

    scan_skip(s);
    v = strtoll(s->at, &end, 10);
    if (end == s->at)
        scan_fail(s, "expected a number");
    s->at = end;
    return v;
}

int64_t scan_between(Scan *s, int64_t lo, int64_t hi)
{
    int64_t v = scan_integer(s);

    if (!s->bad && (v < lo || v > hi))
        scan_fail(s, "%lld is out of range", (long long)v);
    return s->bad ? lo : v;
}

double scan_number(Scan *s)
{
    char *end;
    double v;

    scan_skip(s);
    v = strtod(s->at, &end);
    if (end == s->at)
        scan_fail(s, "expected a number");
    s->at = end;
    return v;
}

/* ---- quoted texts ---- */

static uint32_t unicode_escape(Scan *s)
{
    uint32_t v = 0;

    for (int i = 0; i < 4; i++, s->at++) {
        int c = s->at < s->end ? tolower((unsigned char)*s->at) : 0;
        if (!isxdigit(c)) {
            scan_fail(s, "bad escape");
            return 0;
        }
        v = v * 16 + (uint32_t)(isdigit(c) ? c - '0' : c - 'a' + 10);
    }
    return v;
}

Sym scan_quoted(Scan *s)
{
    static const char from[] = "nrtbf", to[] = "\n\r\t\b\f";
    StrBuf b = {0};
    Sym y;

    scan_expect(s, "\"");
    while (!s->bad && s->at < s->end && *s->at != '"') {
        char c = *s->at++;
        const char *esc;
        if (c != '\\' || s->at == s->end) {
            sb_putc(&b, c);
            continue;
        }
        c = *s->at++;
        if (c == 'u')
            sb_put_utf8(&b, unicode_escape(s));
        else
            sb_putc(&b, (esc = strchr(from, c)) ? to[esc - from] : c);
    }
    if (!s->bad && s->at >= s->end)
        scan_fail(s, "a string does not end");
    s->at += !s->bad;
    y = sym_n(sb_str(&b), b.n);
    sb_done(&b);
    return y;
}

/* ---- names of the IRs ---- */

uint8_t scan_dtype(Scan *s)
{
    Sym w = scan_word(s);
    DType dt = DT_f32;

    if (!s->bad && !dtype_find(w->text, &dt))
        scan_fail(s, "'%.40s' is not a dtype", w->text);
    return (uint8_t)dt;
}

Dim scan_size(Scan *s, const char *ends, Dim (*var)(void *st, Sym name), void *st)
{
    const char *from;
    int depth = 0;
    StrBuf b = {0};
    Dim d = 0;

    scan_skip(s);
    for (from = s->at; s->at < s->end && *s->at != '\n' && (depth || !strchr(ends, *s->at)); s->at++)
        depth += *s->at == '(' ? 1 : *s->at == ')' ? -1 : 0;
    sb_write(&b, from, (size_t)(s->at - from));
    if (!dim_parse(sb_str(&b), var, st, &d))
        scan_fail(s, "'%.40s' is not a size", sb_str(&b));
    sb_done(&b);
    return d;
}

void scan_heading(Scan *s)
{
    if (!scan_accept(s, "v1"))
        scan_fail(s, "only version 1 of the text form is known");
    if (scan_accept(s, "hash="))
        (void)scan_word(s);
}

void scan_finish(Scan *s, const char *what)
{
    scan_skip(s);
    if (!s->bad && s->at != s->end)
        scan_fail(s, "text behind the %s", what);
}
