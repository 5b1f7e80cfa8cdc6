/* The position space is a sorted array of sources; looking a position up is a binary search, twice. */
#include "base/source.h"

#include "base/alloc.h"
#include "base/vec.h"

#include <string.h>

static Vec(Source *) sources;

static char *copy(const char *s, size_t n)
{
    char *p = tsr_alloc(n + 1);

    if (n)
        memcpy(p, s, n);
    p[n] = 0;
    return p;
}

static void index_lines(Source *s)
{
    const char *end = s->text + s->len, *p;
    uint32_t room = s->len / 32 + 2, n = 1;

    s->line = tsr_alloc(room * sizeof *s->line);
    s->line[0] = 0;
    for (p = s->text; (p = memchr(p, '\n', (size_t)(end - p))); ) {
        if (n == room)
            s->line = tsr_realloc(s->line, (room *= 2) * sizeof *s->line);
        s->line[n++] = (uint32_t)(++p - s->text);
    }
    s->nlines = n;
}

/* Behind the last source; once that is far out, where others were dropped. `at`: its place among the sources. */
static bool find_room(size_t len, uint64_t *base, int *at)
{
    *at = sources.n;
    *base = sources.n ? (uint64_t)vec_last(&sources)->base + vec_last(&sources)->len + 1 : 1;
    if (*base + len + 1 <= UINT32_MAX / 2)
        return true;
    for (uint64_t from = 1, i = 0; i < (uint64_t)sources.n; from = (uint64_t)sources.at[i]->base + sources.at[i]->len + 1, i++)
        if (from + len + 1 <= sources.at[i]->base) {
            *base = from;
            *at = (int)i;
            return true;
        }
    return *base + len + 1 <= UINT32_MAX;
}

const Source *source_add(const char *path, const char *text, size_t len)
{
    return len > SOURCE_MAX ? NULL : source_take(path, copy(text, len), len);
}

const Source *source_take(const char *path, char *text, size_t len)
{
    uint64_t base;
    int at;
    Source *s;

    if (len > SOURCE_MAX || !find_room(len, &base, &at)) {
        tsr_free(text);
        return NULL;
    }
    s = tsr_calloc(sizeof *s);
    s->path = copy(path, strlen(path));
    s->text = text;
    s->len = (uint32_t)len;
    s->base = (uint32_t)base;
    index_lines(s);
    vec_push(&sources, s);
    memmove(&sources.at[at + 1], &sources.at[at], sizeof *sources.at * (size_t)(sources.n - 1 - at));
    sources.at[at] = s;
    return s;
}

const Source *source_of(uint32_t pos)
{
    int lo = 0, hi = sources.n - 1;

    while (lo < hi) {
        int mid = (lo + hi + 1) / 2;
        if (sources.at[mid]->base <= pos)
            lo = mid;
        else
            hi = mid - 1;
    }
    if (!pos || !sources.n || pos < sources.at[lo]->base || pos > sources.at[lo]->base + sources.at[lo]->len)
        return NULL;
    return sources.at[lo];
}

/* The line, from 0, of an offset. */
static uint32_t line_at(const Source *s, uint32_t off)
{
    uint32_t lo = 0, hi = s->nlines - 1;

    while (lo < hi) {
        uint32_t mid = (lo + hi + 1) / 2;
        if (s->line[mid] <= off)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

bool source_same_line(uint32_t a, uint32_t b)
{
    const Source *s = source_of(a);

    return s && s == source_of(b) && line_at(s, a - s->base) == line_at(s, b - s->base);
}

Place source_place(uint32_t pos)
{
    const Source *s = source_of(pos);
    uint32_t off, lo, col = 1;

    if (!s)
        return (Place){0};
    off = pos - s->base;
    lo = line_at(s, off);
    for (uint32_t i = s->line[lo]; i < off; i++)
        col += (s->text[i] & 0xC0) != 0x80;
    return (Place){s, lo + 1, col};
}

const char *source_line(const Source *s, uint32_t line, uint32_t *len)
{
    uint32_t from, to;

    if (line < 1 || line > s->nlines) {
        *len = 0;
        return "";
    }
    from = s->line[line - 1];
    to = line < s->nlines ? s->line[line] - 1 : s->len;
    if (to > from && s->text[to - 1] == '\r')
        to--;
    *len = to - from;
    return s->text + from;
}

/* Bytes that must follow the lead byte, or -1 when it cannot lead. */
static int trail_bytes(unsigned char c)
{
    if (c < 0x80) return c ? 0 : -1;
    if (c < 0xC2) return -1;
    if (c < 0xE0) return 1;
    if (c < 0xF0) return 2;
    return c < 0xF5 ? 3 : -1;
}

/* Are these eight bytes ASCII, none of them zero? */
static bool is_plain8(const unsigned char *t)
{
    uint64_t x;

    memcpy(&x, t, 8);
    return !(((x - 0x0101010101010101u) | x) & 0x8080808080808080u);
}

size_t utf8_check(const char *text, size_t len)
{
    const unsigned char *t = (const unsigned char *)text;
    size_t i = 0;

    while (i < len) {
        int n;
        while (i + 8 <= len && is_plain8(t + i))
            i += 8;
        if (i == len)
            break;
        n = trail_bytes(t[i]);
        if (n < 0 || i + (size_t)n >= len + (n == 0))
            return i;
        for (int k = 1; k <= n; k++)
            if ((t[i + (size_t)k] & 0xC0) != 0x80)
                return i;
        if ((t[i] == 0xE0 && t[i + 1] < 0xA0) || (t[i] == 0xED && t[i + 1] > 0x9F) ||
            (t[i] == 0xF0 && t[i + 1] < 0x90) || (t[i] == 0xF4 && t[i + 1] > 0x8F))
            return i;                       /* overlong, surrogate, beyond U+10FFFF */
        i += (size_t)n + 1;
    }
    return len;
}

static void delete(Source *s)
{
    tsr_free((void *)s->path);
    tsr_free((void *)s->text);
    tsr_free(s->line);
    tsr_free(s);
}

void source_drop(const Source *s)
{
    int i = sources.n - 1;

    if (!s)
        return;
    while (sources.at[i] != s)
        i--;
    sources.n--;
    memmove(&sources.at[i], &sources.at[i + 1], sizeof *sources.at * (size_t)(sources.n - i));
    delete((Source *)s);
}

void source_done(void)
{
    for (int i = 0; i < sources.n; i++)
        delete(sources.at[i]);
    vec_free(&sources);
}
