/* branches.h: a walk back from each thing, past those that it waits for already. */
#include "ir/schedule/branches.h"

#include "base/alloc.h"
#include "base/vec.h"

#include <string.h>

enum { MANY = 1 << 13, WORD = 64 };

/* behind: by thing a row of bits, those that it waits for, by way of others or not. */
typedef struct Finder { const BranchUse *use; const int *first; uint64_t *behind; size_t words; } Finder;

static bool meet(const BranchUse *a, const BranchUse *b) { return (a->writes || b->writes) && a->from < b->to && b->from < a->to; }

static bool waits(const Finder *f, int i, int k)
{
    for (int a = f->first[i]; a < f->first[i + 1]; a++)
        for (int b = f->first[k]; b < f->first[k + 1]; b++)
            if (meet(&f->use[a], &f->use[b]))
                return true;
    return false;
}

Branches branches_find(const BranchUse *use, const int *first, int n)
{
    bool many = n > MANY;
    Finder f = {use, first, NULL, ((size_t)n + WORD - 1) / WORD};
    Branches y = {.first = tsr_calloc(sizeof *y.first * ((size_t)n + 1))};
    Vec(int) after = {0};

    f.behind = tsr_calloc(many ? 1 : sizeof *f.behind * f.words * (size_t)n + 1);
    for (int i = 0; i < n; i++) {
        uint64_t *own = f.behind + (many ? 0 : f.words * (size_t)i);
        for (int k = i - 1; k >= 0 && !many; k--) {
            if (own[k / WORD] >> k % WORD & 1 || !waits(&f, i, k))
                continue;
            vec_push(&after, k);
            own[k / WORD] |= (uint64_t)1 << k % WORD;
            for (size_t w = 0; w < f.words; w++)
                own[w] |= f.behind[f.words * (size_t)k + w];
        }
        if (many && i)
            vec_push(&after, i - 1);
        y.first[i + 1] = after.n;
    }
    tsr_free(f.behind);
    y.after = after.at;
    return y;
}

void branches_done(Branches *b)
{
    tsr_free(b->first);
    tsr_free(b->after);
    *b = (Branches){0};
}
