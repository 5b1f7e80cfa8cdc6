/*
 * arena.h - bump allocation by lifetime.
 *
 * Four lifetimes, four arenas: session (interned things), unit (AST),
 * function (IR), scratch (a pass).  Memory is zeroed, aligned to 8 bytes,
 * and given back all at once, or down to a mark.
 */
#ifndef TSR_BASE_ARENA_H
#define TSR_BASE_ARENA_H

#include "base/alloc.h"

#include <string.h>

typedef struct ArenaChunk ArenaChunk;
typedef struct Arena {
    ArenaChunk *top;    /* newest chunk */
    char *at, *end;     /* free part of it */
    size_t total;       /* bytes handed out */
} Arena;

typedef struct {
    ArenaChunk *top;
    char *at;
    size_t total;
} ArenaMark;

void arena_done(Arena *a);                  /* frees all; an all-zero Arena is a valid empty one */
void *arena_grow(Arena *a, size_t n);       /* n zeroed bytes, a multiple of 8, from a new chunk */
char *arena_strndup(Arena *a, const char *s, size_t n);
char *arena_strdup(Arena *a, const char *s);
char *arena_printf(Arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void *arena_copy(Arena *a, const void *p, size_t n);
ArenaMark arena_mark(const Arena *a);
void arena_release(Arena *a, ArenaMark m);  /* gives back everything newer than m */

/* Zeroed. */
static inline void *arena_alloc(Arena *a, size_t n)
{
    void *p;

    n = n ? (n + 7) & ~(size_t)7 : 8;
    if ((size_t)(a->end - a->at) < n)
        return arena_grow(a, n);
    p = a->at;
    a->at += n;
    a->total += n;
    return memset(p, 0, n);
}

#define arena_new(a, T) ((T *)arena_alloc((a), sizeof(T)))
#define arena_array(a, T, n) ((T *)arena_alloc((a), sizeof(T) * (size_t)(n)))

#endif
