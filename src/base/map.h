/*
 * map.h - hash map from a 64-bit key (a pointer, a Sym, an id) to a pointer-sized value.
 * Open addressing; a key of 0 is not allowed.  An all-zero Map is a valid empty one.
 */
#ifndef TSR_BASE_MAP_H
#define TSR_BASE_MAP_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Map {
    uint64_t *key;
    uintptr_t *val;
    uint32_t n, cap;
} Map;

bool map_look(const Map *m, uint64_t key, uintptr_t *out);   /* map_find in a map that is not empty */
void map_set(Map *m, uint64_t key, uintptr_t val);
void map_done(Map *m);

/* false when absent; out may be NULL */
static inline bool map_find(const Map *m, uint64_t key, uintptr_t *out)
{
    return m->n && map_look(m, key, out);
}

static inline void *map_get_ptr(const Map *m, const void *key)
{
    uintptr_t v = 0;
    map_find(m, (uintptr_t)key, &v);
    return (void *)v;
}

static inline void map_set_ptr(Map *m, const void *key, const void *val)
{
    map_set(m, (uintptr_t)key, (uintptr_t)val);
}

#endif
