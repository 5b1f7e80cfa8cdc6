/*
 * What waits for what: whatever meets is in order, by way of others or not, and nothing is said that need not be.
 */
#include "unit.h"

#include "base/alloc.h"
#include "ir/schedule/branches.h"

#include <stdlib.h>
#include <string.h>

enum { THINGS = 60, USES = 3, PLACES = 40 };

typedef struct Case { BranchUse use[THINGS * USES]; int first[THINGS + 1], n; } Case;

static Case random_case(unsigned seed)
{
    Case c = {.n = 1 + rand_r(&seed) % THINGS};

    for (int i = 0; i < c.n; i++) {
        int uses = rand_r(&seed) % (USES + 1);
        c.first[i + 1] = c.first[i] + uses;
        for (int k = c.first[i]; k < c.first[i + 1]; k++) {
            uint64_t from = (uint64_t)(rand_r(&seed) % PLACES);
            c.use[k] = (BranchUse){from, from + 1 + (uint64_t)(rand_r(&seed) % 4), rand_r(&seed) % 3 == 0};
        }
    }
    return c;
}

static bool has_to_wait(const Case *c, int i, int k)
{
    for (int a = c->first[i]; a < c->first[i + 1]; a++)
        for (int b = c->first[k]; b < c->first[k + 1]; b++)
            if ((c->use[a].writes || c->use[b].writes) && c->use[a].from < c->use[b].to && c->use[b].from < c->use[a].to)
                return true;
    return false;
}

/* Does thing i come behind k, by what is said but for entry `without`? */
static bool is_behind(const Branches *y, int i, int k, int without)
{
    bool behind = false;

    for (int a = y->first[i]; a < y->first[i + 1] && !behind; a++)
        behind = a != without && (y->after[a] == k || (y->after[a] > k && is_behind(y, y->after[a], k, without)));
    return behind;
}

static void all_that_meet(void **state)
{
    (void)state;
    for (unsigned seed = 0; seed < 300; seed++) {
        Case c = random_case(seed);
        Branches y = branches_find(c.use, c.first, c.n);
        for (int i = 0; i < c.n; i++) {
            for (int k = 0; k < i; k++)
                assert_true(!has_to_wait(&c, i, k) || is_behind(&y, i, k, -1));
            for (int a = y.first[i]; a < y.first[i + 1]; a++) {
                assert_true(y.after[a] < i && has_to_wait(&c, i, y.after[a]));
                assert_false(is_behind(&y, i, y.after[a], a));
            }
        }
        branches_done(&y);
    }
}

static void very_many(void **state)
{
    enum { MANY = 20000 };
    int *first = tsr_calloc(sizeof *first * (MANY + 1));
    Branches y = branches_find(NULL, first, MANY);

    (void)state;
    assert_int_equal(y.first[MANY], MANY - 1);
    for (int i = 1; i < MANY; i++)
        assert_true(y.first[i] == i - 1 && y.after[i - 1] == i - 1);
    branches_done(&y);
    tsr_free(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_that_meet), cmocka_unit_test(very_many)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
