/*
 * How many elements a lane moves at once: as many as 16 bytes hold and the
 * schedule allows, as long as they divide the row that is moved and every row
 * begins at a multiple of them.  Where rows of a parameter begin is for the
 * launch to know: the width holds where they are aligned to it.
 */
#include "ir/tile/tile_impl.h"

enum { ACCESS_BYTES = 16, DEPTH = 16, ALIGNED = 1 << 10 };

typedef struct Vectors { TileKernel *k; int64_t most; bool changed; } Vectors;

static int64_t power_in(int64_t n)
{
    return n == 0 ? ALIGNED : (n & -n) < ALIGNED ? (n & -n) : ALIGNED;
}

/* A power of two that divides an index, at most ALIGNED. */
static int64_t factor_of(TileRef v, int depth)
{
    const TileNode *n = v.node;
    int64_t a, b;

    if (depth == DEPTH)
        return 1;
    if (n->op == TILE_PARAM && n->block->owner && n->block->owner->op == TOP_for && n == n->block->params.at[0]) {
        a = factor_of(n->block->owner->in[0], depth + 1);
        b = factor_of(n->block->owner->in[2], depth + 1);
        return a < b ? a : b;
    }
    switch (n->op) {
    case TOP_index: return power_in(n->attr->i);
    case TOP_size: return n->attr->align ? n->attr->align : 1;
    case TOP_iadd: case TOP_isub: case TOP_imin: case TOP_imax:
        a = factor_of(n->in[0], depth + 1);
        b = factor_of(n->in[1], depth + 1);
        return a < b ? a : b;
    case TOP_imul:
        a = factor_of(n->in[0], depth + 1) * factor_of(n->in[1], depth + 1);
        return a < ALIGNED ? a : ALIGNED;
    default: return 1;
    }
}

int64_t tile_factor(TileRef index) { return factor_of(index, 0); }

static int64_t number_of(TileRef v) { return v.node->op == TOP_index ? v.node->attr->i : 1; }

/* The elements of a row that an access moves, and a power of two that divides where it begins. false: the row's elements are no neighbours. */
static bool row_of(const TileNode *n, int64_t *row, int64_t *from)
{
    const TileType *view = tile_type(n->in[0]), *block;
    const TileNode *to = n->in[0].node;
    int last = view->rank - 1;

    if (last < 0 || view->stride[last] != 1)
        return false;
    if (n->op == TOP_copy || n->op == TOP_copy_async) {
        int rank = to->op == TOP_part ? tile_type(to->in[0])->rank : 0;         /* the last axis stays the last one */
        *from = rank ? factor_of(to->in[rank], 0) : ALIGNED;
        *row = rank ? number_of(to->in[2 * rank]) : to->op == TOP_alloc ? number_of(to->in[last]) : 1;
        return tile_type(n->in[1])->stride[tile_type(n->in[1])->rank - 1] == 1;
    }
    *from = factor_of(n->in[1 + last], 0);
    block = n->op == TOP_load ? &n->type[0] : tile_type(n->in[n->nin - 1]);
    *row = n->attr->drop >> last & 1 ? 1 : block->extent[block->rank - 1];
    return true;
}

static void widen(Vectors *s, TileNode *n)
{
    const TileType *block = n->op == TOP_load ? &n->type[0] : n->op == TOP_store ? tile_type(n->in[n->nin - 1]) : NULL;
    TAttr a = *n->attr;
    int64_t row, from, width = 1, most = ACCESS_BYTES * 8 / dtype_info[tile_type(n->in[0])->dtype].bits;

    if (a.vector || (block && block->rank == 0) || !row_of(n, &row, &from))
        return;
    most = s->most < most ? s->most : most;
    while (2 * width <= most && row % (2 * width) == 0 && from % (2 * width) == 0)
        width *= 2;
    if (width == 1)
        return;
    a.vector = (uint8_t)width;
    tile_set_attr(s->k, n, &a);
    s->changed = true;
}

static void in_block(Vectors *s, TileBlock *b)
{
    for (TileNode *n = b->first; n; n = n->next) {
        if (n->op == TOP_load || n->op == TOP_store || n->op == TOP_copy || n->op == TOP_copy_async)
            widen(s, n);
        for (int r = 0; r < 2; r++)
            if (n->region[r])
                in_block(s, n->region[r]);
    }
}

bool tile_vectors(TileKernel *k)
{
    Vectors s = {.k = k, .most = tile_schedule(k, "vector", ACCESS_BYTES)};

    if (!pass_runs("tile.vectors"))
        return false;
    in_block(&s, &k->body);
    pass_done("tile.vectors", &tile_ir, k);
    return s.changed;
}
