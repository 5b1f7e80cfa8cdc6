/* Linear probing at a load of at most one half; nothing is ever removed. */
#include "base/map.h"

#include "base/alloc.h"
#include "base/hash.h"

static uint32_t slot_of(const Map *m, uint64_t key)
{
    uint32_t i = hash_u64(key) & (m->cap - 1);

    while (m->key[i] && m->key[i] != key)
        i = (i + 1) & (m->cap - 1);
    return i;
}

bool map_look(const Map *m, uint64_t key, uintptr_t *out)
{
    uint32_t i = slot_of(m, key);

    if (!m->key[i])
        return false;
    if (out)
        *out = m->val[i];
    return true;
}

static void grow(Map *m)
{
    Map old = *m;

    m->cap = old.cap ? old.cap * 2 : 8;
    m->key = tsr_calloc(m->cap * (sizeof *m->key + sizeof *m->val));
    m->val = (uintptr_t *)(m->key + m->cap);
    for (uint32_t i = 0; i < old.cap; i++)
        if (old.key[i]) {
            uint32_t j = slot_of(m, old.key[i]);
            m->key[j] = old.key[i];
            m->val[j] = old.val[i];
        }
    tsr_free(old.key);
}

void map_set(Map *m, uint64_t key, uintptr_t val)
{
    uint32_t i;

    if (m->n * 2 >= m->cap)
        grow(m);
    i = slot_of(m, key);
    m->n += !m->key[i];
    m->key[i] = key;
    m->val[i] = val;
}

void map_done(Map *m)
{
    tsr_free(m->key);
    *m = (Map){0};
}
