/* Amortised doubling; formatting writes into the room there is, and again where that was too little. Texts and whole numbers need no printf. */
#include "base/strbuf.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

static __attribute__((noinline)) void enlarge(StrBuf *b, size_t more)
{
    b->cap = b->cap * 2 > b->n + more + 1 ? b->cap * 2 : b->n + more + 32;
    b->s = tsr_realloc(b->s, b->cap);
}

static inline void reserve(StrBuf *b, size_t more)
{
    if (b->n + more + 1 > b->cap)
        enlarge(b, more);
}

void sb_write(StrBuf *b, const char *s, size_t n)
{
    reserve(b, n);
    if (n)
        memcpy(b->s + b->n, s, n);
    b->n += n;
    b->s[b->n] = 0;
}

void sb_putc(StrBuf *b, char c)
{
    reserve(b, 1);
    b->s[b->n++] = c;
    b->s[b->n] = 0;
}

void sb_puts(StrBuf *b, const char *s)
{
    sb_write(b, s, strlen(s));
}

void sb_pad(StrBuf *b, char c, size_t n)
{
    reserve(b, n);
    memset(b->s + b->n, c, n);
    b->n += n;
    b->s[b->n] = 0;
}

static void put_whole(StrBuf *b, unsigned long long v, bool negative)
{
    char digit[24], *p = digit + sizeof digit;

    do
        *--p = (char)('0' + v % 10);
    while (v /= 10);
    if (negative)
        *--p = '-';
    sb_write(b, p, (size_t)(digit + sizeof digit - p));
}

static void put_text(StrBuf *b, const char *s) { sb_puts(b, s ? s : "(null)"); }
static void put_signed(StrBuf *b, long long v) { put_whole(b, v < 0 ? 0 - (unsigned long long)v : (unsigned long long)v, v < 0); }

/* A format of %s, %c, %d, %u, %ld, %lu and %% alone. false: it is not, and nothing is written. */
static bool print_simply(StrBuf *b, const char *fmt, va_list ap)
{
    size_t from = b->n;

    for (const char *end; *fmt; fmt = end + 1) {
        end = strchr(fmt, '%');
        sb_write(b, fmt, end ? (size_t)(end - fmt) : strlen(fmt));
        if (!end)
            return true;
        bool wide = *++end == 'l';
        end += wide;
        if (*end == 'd')
            put_signed(b, wide ? va_arg(ap, long) : va_arg(ap, int));
        else if (*end == 'u')
            put_whole(b, wide ? va_arg(ap, unsigned long) : va_arg(ap, unsigned), false);
        else if (*end == 's' && !wide)
            put_text(b, va_arg(ap, const char *));
        else if (*end == 'c' && !wide)
            sb_putc(b, (char)va_arg(ap, int));
        else if (*end == '%' && !wide)
            sb_putc(b, '%');
        else {
            b->n = from;
            return false;
        }
    }
    return true;
}

void sb_vprintf(StrBuf *b, const char *fmt, va_list ap)
{
    va_list again;
    size_t room;
    bool simple;
    int n;

    va_copy(again, ap);
    simple = print_simply(b, fmt, again);
    va_end(again);
    if (simple)
        return;
    room = b->cap - b->n;
    va_copy(again, ap);
    n = vsnprintf(room ? b->s + b->n : NULL, room, fmt, again);
    va_end(again);
    if (n < 0)                                          /* a precision of hundreds of millions: no memory to print it with */
        tsr_out_of_memory();
    if ((size_t)n >= room) {
        reserve(b, (size_t)n);
        vsnprintf(b->s + b->n, (size_t)n + 1, fmt, ap);
    }
    b->n += (size_t)n;
}

void sb_printf(StrBuf *b, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    sb_vprintf(b, fmt, ap);
    va_end(ap);
}

void sb_put_utf8(StrBuf *b, uint32_t c)
{
    if (c < 0x80) {
        sb_putc(b, (char)c);
        return;
    }
    if (c < 0x800) {
        sb_putc(b, (char)(0xC0 | c >> 6));
    } else {
        if (c < 0x10000) {
            sb_putc(b, (char)(0xE0 | c >> 12));
        } else {
            sb_putc(b, (char)(0xF0 | c >> 18));
            sb_putc(b, (char)(0x80 | (c >> 12 & 63)));
        }
        sb_putc(b, (char)(0x80 | (c >> 6 & 63)));
    }
    sb_putc(b, (char)(0x80 | (c & 63)));
}

void sb_put_json(StrBuf *b, const char *s, size_t n)
{
    sb_putc(b, '"');
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == '"' || c == '\\')
            sb_printf(b, "\\%c", c);
        else if (c == '\n')
            sb_puts(b, "\\n");
        else if (c == '\t')
            sb_puts(b, "\\t");
        else if (c == '\r')
            sb_puts(b, "\\r");
        else if (c < 0x20 || c == 0x7f)
            sb_printf(b, "\\u%04x", c);
        else
            sb_putc(b, (char)c);
    }
    sb_putc(b, '"');
}

char *sb_str(StrBuf *b)
{
    reserve(b, 0);
    b->s[b->n] = 0;
    return b->s;
}

void sb_done(StrBuf *b)
{
    tsr_free(b->s);
    *b = (StrBuf){0};
}
