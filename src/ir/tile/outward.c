/*
 * The group's work out of where only some of its lanes may be.
 *
 *     v = tile.load(x[row, :])
 *     if tile.local_id() == 0:
 *         out[row] = v.sum()
 *
 * A block value is the whole group's, and the group computes it once, wherever
 * the program says so.  What has no effects and is made of what stands in
 * front of the choice or loop alone is made there; the rest of the block,
 * here the store, stays.  What takes something of the block (a block loaded in
 * it, a value of one lane) cannot leave it, and is refused by the verifier.
 */
#include "ir/tile/tile_impl.h"

#include "base/alloc.h"
#include "ir/tile/vary.h"

typedef struct Outward {
    TileVary vary;
    bool *free;         /* by id: has no effects, and is made of what stands before the block */
    bool *wanted;       /* by id: goes */
    bool changed;
} Outward;

/* Trees are used up, so that they are made where they are filled. */
static bool may_move(const TileNode *n)
{
    return n->op < TOP_COUNT && tile_op_info[n->op].flags == TF_PURE && !n->region[0] && n->op != TOP_tree && n->op != TOP_push && n->op != TOP_total;
}

static void find_free(Outward *o, const TileBlock *b)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        bool yes = may_move(n);
        for (int i = 0; i < n->nin && yes; i++)
            yes = n->in[i].node->block != b || o->free[n->in[i].node->id];
        o->free[n->id] = yes;
    }
}

/* What is the group's and is free, and what that is made of. */
static void find_wanted(Outward *o, const TileBlock *b)
{
    for (const TileNode *n = b->last; n; n = n->prev) {
        o->wanted[n->id] |= o->free[n->id] && tile_is_groups(n);
        for (int i = 0; i < n->nin && o->wanted[n->id]; i++)
            if (n->in[i].node->block == b)
                o->wanted[n->in[i].node->id] = true;
    }
}

static void leave(Outward *o, TileBlock *b)
{
    find_free(o, b);
    find_wanted(o, b);
    for (TileNode *n = b->first, *next; n; n = next) {
        next = n->next;
        if (!o->wanted[n->id])
            continue;
        tile_move(n, b->owner);
        o->changed = true;
    }
}

/* Inner blocks first: what has left one may leave the next. */
static void walk(Outward *o, TileBlock *b)
{
    for (TileNode *n = b->first; n; n = n->next)
        for (int r = 0; r < 2; r++)
            if (n->region[r])
                walk(o, n->region[r]);
    if (b->first && b->owner && o->vary.split[b->first->id])
        leave(o, b);
}

bool tile_outward(TileKernel *k)
{
    Outward o = {0};

    if (k->lanes == 1)
        return false;
    tile_vary(k, &o.vary);
    o.free = tsr_calloc(k->nnodes + 1);
    o.wanted = tsr_calloc(k->nnodes + 1);
    walk(&o, &k->body);
    tsr_free(o.free);
    tsr_free(o.wanted);
    tile_vary_done(&o.vary);
    return o.changed;
}
