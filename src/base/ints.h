/* ints.h - arithmetic of sizes. */
#ifndef TSR_BASE_INTS_H
#define TSR_BASE_INTS_H

#include <stdint.h>

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
/* n / by rounded up, and the multiple of `by` that is; by > 0. */
static inline int64_t ceil_div(int64_t n, int64_t by) { return (n + by - 1) / by; }
static inline int64_t round_up(int64_t n, int64_t by) { return ceil_div(n, by) * by; }

/* The greatest that divides both, of either sign; 0 of zeros. */
static inline int64_t gcd64(int64_t a, int64_t b)
{
    while (b) {
        int64_t t = a % b;
        a = b;
        b = t;
    }
    return a < 0 ? -a : a;
}

#endif
