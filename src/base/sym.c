/* One open-addressed table of all names, and the spelling help built on names. */
#include "base/sym.h"

#include "base/alloc.h"
#include "base/hash.h"

#include <string.h>

static Sym *table;
static uint32_t used, mask;

static void rehash(void)
{
    uint32_t size = mask ? (mask + 1) * 2 : 1024;
    Sym *old = table;
    uint32_t old_size = mask ? mask + 1 : 0;

    table = tsr_calloc(size * sizeof *table);
    mask = size - 1;
    for (uint32_t i = 0; i < old_size; i++) {
        uint32_t h;
        if (!old[i])
            continue;
        for (h = old[i]->hash & mask; table[h]; h = (h + 1) & mask)
            ;
        table[h] = old[i];
    }
    tsr_free(old);
}

Sym sym_n(const char *text, size_t len)
{
    uint32_t hash = hash_bytes(text, len), h;
    Sym s;

    if (used * 2 >= mask)
        rehash();
    for (h = hash & mask; (s = table[h]); h = (h + 1) & mask)
        if (s->hash == hash && s->len == len && !memcmp(s->text, text, len))
            return s;
    s = tsr_alloc(sizeof *s + len + 1);
    s->hash = hash;
    s->len = (uint32_t)len;
    s->value = NULL;
    memcpy(s->text, text, len);
    s->text[len] = 0;
    used++;
    return table[h] = s;
}

Sym sym(const char *text)
{
    return sym_n(text, strlen(text));
}

enum { LONGEST = 64 };      /* names longer than this are not worth guessing at */

static int min3(int a, int b, int c)
{
    int m = a < b ? a : b;
    return m < c ? m : c;
}

/* One bit for each character that the word has. */
static uint64_t letters(const char *word)
{
    uint64_t set = 0;

    for (; *word; word++)
        set |= (uint64_t)1 << (*word & 63);
    return set;
}

int edit_distance(const char *a, const char *b, int cap)
{
    int row[3][LONGEST + 1];
    int n = (int)strlen(a), m = (int)strlen(b);
    uint64_t in_a = letters(a), in_b = letters(b);

    if (n > LONGEST || m > LONGEST || n - m > cap || m - n > cap)
        return cap + 1;
    if (__builtin_popcountll(in_a & ~in_b) > cap || __builtin_popcountll(in_b & ~in_a) > cap)
        return cap + 1;                                 /* an edit takes one character away and brings one */
    for (int j = 0; j <= m; j++)
        row[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *cur = row[i % 3], *up = row[(i + 2) % 3], *up2 = row[(i + 1) % 3];
        cur[0] = i;
        for (int j = 1; j <= m; j++) {
            cur[j] = min3(up[j] + 1, cur[j - 1] + 1, up[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && up2[j - 2] + 1 < cur[j])
                cur[j] = up2[j - 2] + 1;
        }
    }
    return row[n % 3][m] > cap ? cap + 1 : row[n % 3][m];
}

const char *closest_name(const char *wrong, const char *(*next)(void *), void *state)
{
    int len = (int)strlen(wrong), best = 2 + (len > 4 ? len / 4 : 0);       /* must beat this: of four letters three are right */
    const char *found = NULL, *name;

    if (len < 2)
        return NULL;
    while ((name = next(state))) {
        int d = edit_distance(wrong, name, best);
        bool first = found && d == best && name[0] == wrong[0] && found[0] != wrong[0];     /* of equals, what begins alike */
        if ((d < best || first) && strcmp(name, wrong)) {
            best = d;
            found = name;
        }
    }
    return found;
}
