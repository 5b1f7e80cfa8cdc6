/*
 * What literals mean.
 *
 * Escapes are Python's, less \N{...}: there is no table of character names.
 * Strings are UTF-8, so an escape may not name half of a surrogate pair.
 */
#include "frontend/syntax/literal.h"

#include <stdlib.h>
#include <string.h>

LexError *lex_error(LexErrors *e, DiagCode code, Span span, const char *a, const char *b)
{
    LexError x = {.code = code, .span = span, .a = a, .b = b};

    vec_push(&e->all, x);
    return &vec_last(&e->all);
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'z') return c - 'a' + 10;
    if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
    return 99;
}

bool literal_int(Literal at, const char *s, size_t n, int base, int64_t *out, bool *edge)
{
    uint64_t v = 0;
    bool over = false;

    for (size_t i = 0; i < n; i++) {
        if (s[i] == '_')
            continue;
        over |= __builtin_mul_overflow(v, (uint64_t)base, &v);
        over |= __builtin_add_overflow(v, (uint64_t)digit_of(s[i]), &v);
    }
    *edge = !over && v == (uint64_t)INT64_MAX + 1;
    if (over || v > (uint64_t)INT64_MAX + 1) {
        lex_error(at.errors, E0115, (Span){at.at, at.at + (uint32_t)n}, NULL, NULL)->help =
            "write it as a float (with a point or exponent) if a rounded value is enough";
        return false;
    }
    *out = (int64_t)v;
    return true;
}

double literal_float(const char *s, size_t n)
{
    char small[64], *buf = n < sizeof small ? small : tsr_alloc(n + 1);
    size_t k = 0;
    double v;

    for (size_t i = 0; i < n; i++)
        if (s[i] != '_')
            buf[k++] = s[i];
    buf[k] = 0;
    v = strtod(buf, NULL);
    if (buf != small)
        tsr_free(buf);
    return v;
}

/* ---- strings ---- */

typedef struct Decoder {
    Literal at;
    const char *begin, *s, *end;
    char *out;                  /* never longer than the source */
    StringForm form;
    bool ok;
} Decoder;

static LexError *complain(Decoder *d, DiagCode code, const char *from, const char *to, const char *what)
{
    uint32_t lo = d->at.at + (uint32_t)(from - d->begin), hi = d->at.at + (uint32_t)(to - d->begin);

    if (code != E0117)
        d->ok = false;
    return lex_error(d->at.errors, code, (Span){lo, hi}, what, NULL);
}

static void put_utf8(Decoder *d, uint32_t c)
{
    unsigned char *o = (unsigned char *)d->out;

    if (c < 0x80) {
        *o++ = (unsigned char)c;
    } else if (c < 0x800) {
        *o++ = (unsigned char)(0xC0 | c >> 6);
        *o++ = (unsigned char)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        *o++ = (unsigned char)(0xE0 | c >> 12);
        *o++ = (unsigned char)(0x80 | (c >> 6 & 63));
        *o++ = (unsigned char)(0x80 | (c & 63));
    } else {
        *o++ = (unsigned char)(0xF0 | c >> 18);
        *o++ = (unsigned char)(0x80 | (c >> 12 & 63));
        *o++ = (unsigned char)(0x80 | (c >> 6 & 63));
        *o++ = (unsigned char)(0x80 | (c & 63));
    }
    d->out = (char *)o;
}

/* \xhh \uhhhh \Uhhhhhhhh, d->s after the letter; `from` at the backslash. */
static void hex_escape(Decoder *d, const char *from, int digits)
{
    uint32_t v = 0;
    int n = 0;

    while (n < digits && d->s < d->end && digit_of(*d->s) < 16) {
        v = v << 4 | (uint32_t)digit_of(*d->s++);
        n++;
    }
    if (n < digits) {
        complain(d, E0116, from, d->s, arena_printf(d->at.arena, "\\%c needs %d hexadecimal digits", from[1], digits));
    } else if (d->form.bytes) {
        *d->out++ = (char)v;
    } else if (v > 0x10FFFF || (v >= 0xD800 && v < 0xE000)) {
        complain(d, E0116, from, d->s, v > 0x10FFFF ? "the escape names no character: U+10FFFF is the last"
                                                    : "the escape names half of a surrogate pair, which is no character");
    } else {
        put_utf8(d, v);
    }
}

static void octal_escape(Decoder *d)
{
    uint32_t v = 0;

    for (int n = 0; n < 3 && d->s < d->end && *d->s >= '0' && *d->s <= '7'; n++)
        v = v * 8 + (uint32_t)(*d->s++ - '0');
    if (d->form.bytes)
        *d->out++ = (char)v;
    else
        put_utf8(d, v);
}

static void unknown_escape(Decoder *d, const char *from)
{
    const char *to = d->s;
    LexError *e;

    while (to < d->end && (*to & 0xC0) == 0x80)
        to++;
    e = complain(d, E0117, from, to, arena_strndup(d->at.arena, from, (size_t)(to - from)));
    e->help = "double the backslash, or make the string raw: r\"...\"";
    e->fix = arena_printf(d->at.arena, "\\%.*s", (int)(to - from), from);
    *d->out++ = '\\';
    d->s = from + 1;
    *d->out++ = *d->s++;
}

static void named_escape(Decoder *d, const char *from)
{
    while (d->s < d->end && *d->s != '}')
        d->s++;
    if (d->s < d->end)
        d->s++;
    complain(d, E0116, from, d->s, "\\N{...} is not supported: names of characters are not known here")->help =
        "write the character itself, or its number as \\uXXXX";
}

/* One escape, d->s at the backslash. */
static void escape(Decoder *d)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    const char *begin = d->s++, *k;
    char c = d->s < d->end ? *d->s++ : 0;

    if (c == '\n') {
        return;
    } else if (c == '\r') {
        d->s += d->s < d->end && *d->s == '\n';
    } else if (c && (k = strchr(from, c))) {
        *d->out++ = to[k - from];
    } else if (c == 'x') {
        hex_escape(d, begin, 2);
    } else if ((c == 'u' || c == 'U') && !d->form.bytes) {
        hex_escape(d, begin, c == 'u' ? 4 : 8);
    } else if (c == 'N' && !d->form.bytes && d->s < d->end && *d->s == '{') {
        named_escape(d, begin);
    } else if (c >= '0' && c <= '7') {
        d->s--;
        octal_escape(d);
    } else if (c) {
        unknown_escape(d, begin);
    } else {
        *d->out++ = '\\';
    }
}

static void decode(Decoder *d)
{
    while (d->s < d->end) {
        char c = *d->s;
        if (c == '\\' && !d->form.raw) {
            escape(d);
        } else if (d->form.doubled && (c == '{' || c == '}')) {
            *d->out++ = c;
            d->s += 2;
        } else if (c == '\r') {
            *d->out++ = '\n';               /* line ends inside strings are \n, as in Python */
            d->s += d->s + 1 < d->end && d->s[1] == '\n' ? 2 : 1;
        } else {
            if (d->form.bytes && (unsigned char)c >= 0x80 && d->ok)
                complain(d, E0116, d->s, d->s + 1, "bytes can only contain ASCII characters")->help =
                    "write other bytes as \\xhh, or encode a string";
            *d->out++ = c;
            d->s++;
        }
    }
}

const AstText *literal_string(Literal at, const char *s, size_t n, StringForm form, bool *ok)
{
    char *buf = arena_alloc(at.arena, n + 1);
    Decoder d = {.at = at, .begin = s, .s = s, .end = s + n, .out = buf, .form = form, .ok = true};
    AstText *t = arena_new(at.arena, AstText);

    decode(&d);
    *d.out = 0;
    t->s = buf;
    t->n = (uint32_t)(d.out - buf);
    *ok &= d.ok;
    return t;
}
