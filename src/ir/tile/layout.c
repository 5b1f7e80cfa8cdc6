/*
 * How buffers lie.  What the program asks for stays.  A buffer that only the
 * group touches, and out of which products take their operands, is permuted
 * in 16-byte pieces over the widest span that its rows hold, as matrix units
 * and tensor copies want it: atoms of 32, 64 and 128 bytes.  Everything else
 * lies row after row: which lanes meet at which banks is the program's own
 * choice, and lint's to judge.
 */
#include "ir/tile/memory.h"
#include "ir/tile/tile_impl.h"
#include "ir/tile/vary.h"

#include "base/alloc.h"

typedef struct Uses { bool by_lanes, for_products; } Uses;
typedef struct Layout { TileKernel *k; Uses *uses; bool changed; } Layout;

/* Does a product take it, be it turned? */
static bool feeds_product(const TileNode *n)
{
    for (const TileNode *m = n->next; m; m = m->next)
        for (int i = 0; i < m->nin; i++)
            if (m->in[i].node == n && ((m->op == TOP_dot && i < 2) || ((m->op == TOP_permute || m->op == TOP_map) && feeds_product(m))))
                return true;
    return false;
}

static void look_at(Layout *s, const TileBlock *b)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        const TileNode *memory = n->nin && tile_type(n->in[0])->kind == TILE_VIEW ? tile_memory_of(n->in[0]) : NULL;
        if (memory && memory->op == TOP_alloc && n->op != TOP_part && n->op != TOP_extent) {
            s->uses[memory->id].by_lanes |= s->k->lanes > 1 && !tile_is_groups(n);
            s->uses[memory->id].for_products |= n->op == TOP_load && feeds_product(n);
        }
        for (int r = 0; r < 2; r++)
            if (n->region[r])
                look_at(s, n->region[r]);
    }
}

static int widest(const TileNode *alloc)
{
    const TileNode *row = alloc->nin ? alloc->in[alloc->nin - 1].node : NULL;
    int64_t bytes = row && row->op == TOP_index ? row->attr->i * dtype_info[alloc->attr->dtype].sbits / 8 : 0;

    return bytes && bytes % SWIZZLE_128 == 0 ? SWIZZLE_128 : bytes && bytes % SWIZZLE_64 == 0 ? SWIZZLE_64
           : bytes && bytes % SWIZZLE_32 == 0 ? SWIZZLE_32 : SWIZZLE_ROWS;
}

bool tile_layout(TileKernel *k)
{
    Layout s = {.k = k};

    if (!pass_runs("tile.layout"))
        return false;
    s.uses = tsr_calloc(sizeof *s.uses * (k->nnodes + 1));
    look_at(&s, &k->body);
    for (TileNode *n = k->body.first; n; n = n->next) {
        TAttr a = *n->attr;
        if (n->op != TOP_alloc || a.space != SPACE_SHARED || a.swizzle)
            continue;
        a.swizzle = (uint8_t)(s.uses[n->id].for_products && !s.uses[n->id].by_lanes && n->nin >= 2 ? widest(n) : SWIZZLE_ROWS);
        tile_set_attr(k, n, &a);
        s.changed = true;
    }
    tsr_free(s.uses);
    pass_done("tile.layout", &tile_ir, k);
    return s.changed;
}
