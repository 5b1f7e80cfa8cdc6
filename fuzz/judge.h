/*
 * judge.h - one text through the checker, for whoever tries many in one process.
 */
#ifndef TSR_FUZZ_JUDGE_H
#define TSR_FUZZ_JUDGE_H

#include "base/strbuf.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct Judged {
    StrBuf said;                /* all reports as JSON, behind the effects where they were asked for */
    uint64_t ns;                /* processor time that parsing, resolving and checking took */
    int tokens;
    bool parsed;                /* only then names and types were looked at */
} Judged;

/* Judge a text that is valid UTF-8; false: too large a text. What is said of it stands inside it. */
bool judge(const char *text, size_t n, bool effects, Judged *out);
/* The most time that a text of so many tokens may take, on an optimised build: 50 ms + 10 us a token. */
uint64_t judge_budget(int tokens);

#endif
