/*
 * strbuf.h - text under construction.  An all-zero StrBuf is a valid empty one; always NUL-terminated once written.
 *
 * All these append, and none fails: memory that runs out goes where base/alloc.h says.  What is appended may not stand in b itself.
 */
#ifndef TSR_BASE_STRBUF_H
#define TSR_BASE_STRBUF_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

typedef struct StrBuf {
    char *s;
    size_t n, cap;
} StrBuf;

void sb_putc(StrBuf *b, char c);
void sb_puts(StrBuf *b, const char *s);
void sb_write(StrBuf *b, const char *s, size_t n);      /* any bytes, NUL too */
void sb_printf(StrBuf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void sb_vprintf(StrBuf *b, const char *fmt, va_list ap);
void sb_put_utf8(StrBuf *b, uint32_t codepoint);
void sb_pad(StrBuf *b, char c, size_t n);               /* c, n times */
void sb_put_json(StrBuf *b, const char *s, size_t n);   /* quoted and escaped */
char *sb_str(StrBuf *b);                                /* its text, "" when empty; owned by b */
void sb_done(StrBuf *b);                                /* frees it; b is empty again */
static inline void sb_clear(StrBuf *b) { b->n = 0; }    /* keeps the memory; s is stale until the next write */

#endif
