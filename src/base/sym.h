/*
 * sym.h - interned names: equal text is the same pointer for the whole session.
 */
#ifndef TSR_BASE_SYM_H
#define TSR_BASE_SYM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct SymData {
    uint32_t hash, len;
    void *value;            /* the evaluator caches its string object here */
    char text[];            /* NUL-terminated UTF-8 */
} SymData;
typedef SymData *Sym;

Sym sym(const char *text);                      /* the symbol of a C string */
Sym sym_n(const char *text, size_t len);

/* Edit distance with transpositions, capped: > cap is returned as cap + 1. */
int edit_distance(const char *a, const char *b, int cap);

/*
 * Of the candidates that next() yields until NULL, the one a typist most likely
 * meant by `wrong`; NULL when none is near (distance > 1 + len/4; of four letters, > 1).
 */
const char *closest_name(const char *wrong, const char *(*next)(void *state), void *state);

#endif
