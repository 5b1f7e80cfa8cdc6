/*
 * scan.h - the words of the texts of all IRs: white space, punctuation, words, numbers, quoted texts, sizes.
 *
 * A Scan goes over a copy of a text, which ends in a NUL.  The first thing that is wrong is reported with its line and sets
 * `bad`; what is read after that means nothing, so that callers look at `bad` where they would loop or index by it.
 */
#ifndef TSR_IR_SCAN_H
#define TSR_IR_SCAN_H

#include "base/strbuf.h"
#include "base/sym.h"
#include "ir/core/dim.h"

typedef struct Scan {
    const char *at, *end, *start;
    StrBuf *err;
    bool bad;
    StrBuf copy;
} Scan;

void scan_init(Scan *s, const char *text, size_t n, StrBuf *err);
void scan_done(Scan *s);

bool scan_fail(Scan *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));        /* always false */
void scan_skip(Scan *s);                                /* white space and comments */
bool scan_accept(Scan *s, const char *text);            /* is this next, a word as a whole? Then it is behind us */
bool scan_expect(Scan *s, const char *text);
Sym scan_word(Scan *s);
Sym scan_quoted(Scan *s);                               /* "text" with escapes */
int64_t scan_integer(Scan *s);
int64_t scan_between(Scan *s, int64_t lo, int64_t hi);  /* an integer; lo where there is none, or it is another */
double scan_number(Scan *s);
uint8_t scan_dtype(Scan *s);
/* A size expression, up to one of these characters outside of parentheses or the end of the line; var: as dim_parse has it. */
Dim scan_size(Scan *s, const char *ends, Dim (*var)(void *st, Sym name), void *st);
/* The version that texts begin with, and the hash of what the text was, which whoever edits it need not compute. */
void scan_heading(Scan *s);
/* Nothing but white space is left. */
void scan_finish(Scan *s, const char *what);

#endif
