/*
 * source.h - source texts and places in them.
 *
 * All texts share one 32-bit position space: each Source owns [base, base+len],
 * so a place is one number, a Span two, and 0 means "nowhere".  A source lives
 * until it is dropped or the session ends; positions behind the last one are given again.
 */
#ifndef TSR_BASE_SOURCE_H
#define TSR_BASE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Span { uint32_t lo, hi; } Span;      /* half open; {0,0}: no place */

typedef struct Source {
    const char *path;       /* as shown to the user */
    const char *text;       /* NUL-terminated; valid UTF-8 once source_add accepted it */
    uint32_t len, base;
    uint32_t *line;         /* offset of each line's first byte */
    uint32_t nlines;
} Source;

typedef struct Place {      /* 1-based; columns count code points */
    const Source *src;
    uint32_t line, col;
} Place;

enum { SOURCE_MAX = 16 << 20 };     /* bytes in one source text */

/* Register a text (copied). NULL only when the position space is full or len > SOURCE_MAX. */
const Source *source_add(const char *path, const char *text, size_t len);
const Source *source_take(const char *path, char *text, size_t len);    /* the same, the text, of tsr_alloc and with a NUL behind it, is its own */
const Source *source_of(uint32_t pos);              /* NULL for 0 */
Place source_place(uint32_t pos);                   /* line and column of a position */
bool source_same_line(uint32_t a, uint32_t b);      /* of two positions of one source */
/* The text of 1-based line `line` without its line end; *len gets its bytes. */
const char *source_line(const Source *s, uint32_t line, uint32_t *len);
/* Offset of the first byte that is not valid UTF-8 (or is NUL), or len. */
size_t utf8_check(const char *text, size_t len);
void source_drop(const Source *s);                   /* nothing may name a place in it any more; NULL: nothing */
void source_done(void);

static inline Span span_join(Span a, Span b)
{
    if (!a.hi) return b;
    if (!b.hi) return a;
    return (Span){a.lo < b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi};
}

#endif
