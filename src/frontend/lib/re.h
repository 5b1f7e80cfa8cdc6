/* re.h - compiled patterns and matches; shared by re.c and by splitting and replacing in re_sub.c. */
#ifndef TSR_FRONTEND_RE_H
#define TSR_FRONTEND_RE_H

#define PCRE2_CODE_UNIT_WIDTH 8

#include "frontend/lib/lib.h"

#include <pcre2.h>

typedef struct Pattern {
    NativeInst head;
    Value text;
    int flags;
    uint32_t ngroups;
    pcre2_code *code;
} Pattern;

typedef struct Match {
    NativeInst head;
    Value re, text;             /* the Pattern, the str */
    uint32_t n;                 /* groups, with the whole match */
    size_t *at;                 /* start and end byte of each; PCRE2_UNSET: took no part */
} Match;

/* A walk over all matches of p in s. */
typedef struct Scan { const Pattern *p; StrObj *s; size_t at, cut; bool after_empty, done; } Scan;   /* cut: bytes left out at the end */
Value scan_next(Interp *I, Scan *c);                    /* a Match, V_NONE at the end */

Value group_text(const Match *m, uint32_t i, Value dflt);               /* dflt when the group took no part */
int64_t re_group_index(const Pattern *p, Interp *I, Value which);       /* by number or name; -1: IndexError pending */

/* Is the text no pattern? Then why says so. */
bool re_wrong(const char *s, size_t n, StrBuf *why);
Value re_split(Interp *I, const Pattern *p, StrObj *s, int64_t max);
/* The text with up to max matches replaced (0: all), and how many were. */
Value re_substitute(Interp *I, const Pattern *p, Value repl, StrObj *s, int64_t max, int64_t *count);
/* Append what stands for m: repl is a template, or a function of m. */
bool re_replacement(Interp *I, const Match *m, Value repl, StrBuf *b);

#endif
