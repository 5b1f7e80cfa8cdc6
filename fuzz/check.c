/*
 * check.c - any text, its names resolved and its types judged.
 *
 * Every report stands inside the text and renders in both forms, and the time
 * for it is bounded.  One text in eight is judged a second time, after all that
 * the process has seen meanwhile, and must get the same said of it.
 */
#include "judge.h"
#include "session.h"
#include "targets.h"

#include "base/hash.h"

enum { SLACK = 40 };            /* sanitizers, coverage, and the machine shared with other fuzzers */

static void try_text(const uint8_t *data, size_t n)
{
    const char *text = (const char *)data;
    uint32_t dice = hash_bytes(data, n);
    bool effects = dice % 4 == 0;       /* also of texts that speak of none */
    Judged once = {0}, again = {0};

    if (utf8_check(text, n) < n || !judge(text, n, effects, &once))
        return;
    if (once.ns > SLACK * judge_budget(once.tokens))
        tsr_bug("%d tokens took %llu ms", once.tokens, (unsigned long long)(once.ns / 1000000));
    if (dice / 4 % 8 == 0) {
        judge(text, n, effects, &again);
        if (strcmp(sb_str(&once.said), sb_str(&again.said)))
            tsr_bug("judged twice, said differently:\n%s\n%s", sb_str(&once.said), sb_str(&again.said));
    }
    sb_done(&once.said);
    sb_done(&again.said);
}

void fuzz_check(const uint8_t *data, size_t n)
{
    session_alone(try_text, data, n);
}
