/* Views are followed to what they are parts of; parameters are different memory (tile.h). */
#include "ir/tile/memory.h"

#include "base/alloc.h"

#include <string.h>

enum { BITS = 64 };

const TileNode *tile_memory_of(TileRef view)
{
    while (view.node->op == TOP_part)
        view = view.node->in[0];
    return view.node;
}

static uint64_t bit_of(const TileMemory *m, TileRef view)
{
    int bit = m->bit[tile_memory_of(view)->id];

    return bit < 0 ? 0 : (uint64_t)1 << bit;
}

TileTouch tile_touch(const TileMemory *m, const TileNode *n)
{
    switch (n->op) {
    case TOP_load: case TOP_gather: return (TileTouch){bit_of(m, n->in[0]), 0};
    case TOP_store: return (TileTouch){0, bit_of(m, n->in[0])};
    case TOP_atomic: case TOP_update: return (TileTouch){bit_of(m, n->in[0]), bit_of(m, n->in[0])};
    case TOP_copy: case TOP_copy_async: return (TileTouch){bit_of(m, n->in[1]), bit_of(m, n->in[0])};
    case TOP_wait: return (TileTouch){0, m->copied};
    default: return (TileTouch){0, 0};
    }
}

static bool number(TileMemory *m, const TileNode *n, int *next)
{
    if (*next == BITS)
        return false;
    m->bit[n->id] = (int8_t)(*next)++;
    return true;
}

static bool number_allocs(TileMemory *m, const TileBlock *b, int *next)
{
    for (const TileNode *n = b->first; n; n = n->next)
        if (n->op == TOP_alloc && n->attr->space == SPACE_SHARED && !number(m, n, next))
            return false;
    return true;
}

static void note_writes(TileMemory *m, const TileBlock *b)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        m->written |= tile_touch(m, n).written;
        m->copied |= n->op == TOP_copy_async ? bit_of(m, n->in[0]) : 0;
        for (int r = 0; r < 2; r++)
            if (n->region[r])
                note_writes(m, n->region[r]);
    }
}

bool tile_memory(const TileKernel *k, TileMemory *m)
{
    int next = 0;
    bool ok = true;

    *m = (TileMemory){.bit = tsr_alloc(k->nnodes + 1)};
    memset(m->bit, -1, k->nnodes + 1);
    for (int i = 0; i < k->params.n && ok; i++)
        ok = number(m, k->params.at[i], &next);
    ok = ok && number_allocs(m, &k->body, &next);
    if (ok)
        note_writes(m, &k->body);
    return ok;
}

void tile_memory_done(TileMemory *m) { tsr_free(m->bit); }

/* ---- atomics ---- */

static bool order_shows(const TileBlock *b)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        if (n->op == TOP_update || (n->op == TOP_atomic && dtype_is_inexact((DType)tile_type(n->in[0])->dtype)))
            return true;
        for (int r = 0; r < 2; r++)
            if (n->region[r] && order_shows(n->region[r]))
                return true;
    }
    return false;
}

bool tile_in_turn(const TileKernel *k) { return order_shows(&k->body); }
