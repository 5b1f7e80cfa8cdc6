/* Amortised doubling; formatting measures first, then writes in place. */
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

void sb_vprintf(StrBuf *b, const char *fmt, va_list ap)
{
    va_list again;
    int n;

    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    if (n < 0)                                          /* a precision of hundreds of millions: no memory to print it with */
        tsr_out_of_memory();
    reserve(b, (size_t)n);
    vsnprintf(b->s + b->n, (size_t)n + 1, fmt, ap);
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
