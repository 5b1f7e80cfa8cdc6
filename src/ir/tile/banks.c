/*
 * Banks and sectors, by looking at the 32 lanes of a warp one by one: exact,
 * whatever the addresses come from.
 */
#include "ir/tile/banks.h"

#include <stdbool.h>

enum { EACH_MAX = 16, ADDRESSES_MAX = WARP_LANES * EACH_MAX * 4 };

/* The largest power of two that divides n, at most `most`, itself one. */
static int64_t power_in(int64_t n, int64_t most)
{
    int64_t p = 1;

    while (p < most && n % (2 * p) == 0)
        p *= 2;
    return p;
}

int64_t bank_xor(int64_t at, int64_t cols, int size)
{
    int64_t word = size >= BANK_BYTES ? 1 : BANK_BYTES / size, words, line, span, row, place;

    if (cols < 1 || cols % word)
        return at;
    words = cols / word;                                            /* words, or elements that are wider, of a row */
    line = LINE_BYTES / (size > BANK_BYTES ? size : BANK_BYTES);
    span = power_in(words, line);
    row = at / cols * words / (words < line ? line : words);        /* several short rows are one line */
    place = at % cols / word;
    return at / cols * cols + (place ^ (row % span)) * word + at % word;
}

/* Puts x into a set of n numbers unless it is there. */
static int put(int64_t *set, int n, int64_t x)
{
    for (int i = 0; i < n; i++)
        if (set[i] == x)
            return n;
    set[n] = x;
    return n + 1;
}

static int ways_of(const int64_t *from, int n, int size)
{
    int64_t words[ADDRESSES_MAX];
    int count = 0, load[BANKS] = {0}, worst = 1;

    for (int i = 0; i < n; i++)
        for (int64_t b = 0; from[i] >= 0 && b < size; b += BANK_BYTES)
            count = put(words, count, (from[i] + b) / BANK_BYTES);
    for (int i = 0; i < count; i++)
        worst = ++load[words[i] % BANKS] > worst ? load[words[i] % BANKS] : worst;
    return worst;
}

int bank_ways(const int64_t *from, int lanes, int each, int size)
{
    int bytes = each * size > BANK_BYTES ? each * size : BANK_BYTES, together = bytes < LINE_BYTES ? LINE_BYTES / bytes : 1, worst = 1;

    for (int l = 0; l < lanes; l += together) {
        int n = lanes - l < together ? lanes - l : together, ways = ways_of(from + (int64_t)l * each, n * each, size);
        ways = bytes > LINE_BYTES ? ways * LINE_BYTES / bytes : ways;        /* one lane's vector takes several lines in any case */
        worst = ways > worst ? ways : worst;
    }
    return worst;
}

int bank_sectors(const int64_t *from, int lanes, int each, int size, int *fewest)
{
    int64_t sectors[ADDRESSES_MAX], places[WARP_LANES * EACH_MAX];
    int n = 0, distinct = 0;

    for (int i = 0; i < lanes * each; i++) {
        if (from[i] < 0)
            continue;
        n = put(sectors, n, from[i] / SECTOR_BYTES);
        n = put(sectors, n, (from[i] + size - 1) / SECTOR_BYTES);
        distinct = put(places, distinct, from[i]);
    }
    *fewest = (distinct * size + SECTOR_BYTES - 1) / SECTOR_BYTES;
    return n;
}
