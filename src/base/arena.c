/*
 * Each chunk is four times the last, up to eight megabytes, so that large arenas soon are on huge pages; the newest is bumped, older ones
 * wait for release.
 */
#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct ArenaChunk {
    ArenaChunk *prev;
    size_t size;
    _Alignas(16) char data[];
};

/* Chunks of HUGE_CHUNK and more are on huge pages from end to end (alloc.c): that takes a tenth of the system's time for small ones. */
enum { FIRST_CHUNK = 1024, LARGEST_CHUNK = 1 << 23, HUGE_CHUNK = 1 << 22 };

static void add_chunk(Arena *a, size_t n)
{
    size_t size = a->top ? a->top->size * 4 : FIRST_CHUNK;
    ArenaChunk *c;

    if (size > LARGEST_CHUNK)
        size = LARGEST_CHUNK;
    if (size < n)
        size = n;
    c = size < HUGE_CHUNK ? tsr_alloc(sizeof *c + size) : tsr_try_alloc(size + sizeof *c, 2 * sizeof(void *));
    if (!c)
        tsr_out_of_memory();
    c->size = size;
    c->prev = a->top;
    a->top = c;
    a->at = c->data;
    a->end = c->data + c->size;
}

void *arena_grow(Arena *a, size_t n)
{
    add_chunk(a, n);
    return arena_alloc(a, n);
}

void arena_release(Arena *a, ArenaMark m)
{
    while (a->top != m.top) {
        ArenaChunk *prev = a->top->prev;
        tsr_free(a->top);
        a->top = prev;
    }
    a->at = m.at;
    a->end = a->top ? a->top->data + a->top->size : NULL;
    a->total = m.total;
}

ArenaMark arena_mark(const Arena *a)
{
    return (ArenaMark){a->top, a->at, a->total};
}

void arena_done(Arena *a)
{
    arena_release(a, (ArenaMark){0});
}

void *arena_copy(Arena *a, const void *p, size_t n)
{
    void *q = arena_alloc(a, n);

    return n ? memcpy(q, p, n) : q;
}

char *arena_strndup(Arena *a, const char *s, size_t n)
{
    char *p = arena_alloc(a, n + 1);

    if (n)
        memcpy(p, s, n);
    return p;
}

char *arena_strdup(Arena *a, const char *s)
{
    return arena_strndup(a, s, strlen(s));
}

char *arena_printf(Arena *a, const char *fmt, ...)
{
    va_list ap;
    int n;
    char *p;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    p = arena_alloc(a, (size_t)n + 1);
    va_start(ap, fmt);
    vsnprintf(p, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return p;
}
