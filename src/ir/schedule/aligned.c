/*
 * What a graph's conditions say of the divisors of sizes, as `where D % 8 == 0` of a signature, for kernels.
 *
 * A launch merges axes (runtime/launch.h), but the last one of a map, and those that rows are reduced over, stay factors of its inner axis.
 * Sizes that are numbers are not looked at: who needs to know sees them.
 */
#include "ir/schedule/schedule.h"

int schedule_divisor(Dim d)
{
    int n = 1;

    while (!dim_is_const(d) && n < ALIGN_MOST && dim_divides(2 * n, d) == DIM_PROVED)
        n *= 2;
    return n;
}

int schedule_aligned(const Region *r, int (*divisor)(void *st, Dim size), void *st)
{
    int n = 1, first = r->nkept < r->naxes ? r->nkept : r->naxes - 1;

    for (int a = first; a >= 0 && a < r->naxes; a++) {
        int one = divisor(st, r->size[a]);
        n = one > n ? one : n;
    }
    return n > 1 ? n : 0;
}
