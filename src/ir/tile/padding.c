/*
 * Does it show in what a launch stores that its blocks reach over the end of its tensors?
 *
 * Behind the end a block has elements that are not there: zeros, mostly.  As long
 * as an element of a block goes into elements at its own place alone, what is
 * not there goes into what is not stored, and blocks of any extent give the same. So axes of tiles
 * are followed from the loads that begin at the group's own place: elementwise ops, transposes, products and sums
 * along other axes leave them where they are; anything else (a sum over such an axis, a reshape of it,
 * a round through memory) shows, as far as is known here.
 */
#include "ir/tile/memory.h"
#include "ir/tile/tile_impl.h"

#include "base/alloc.h"

#include <string.h>

enum { DEPTH = 16 };

/* By value and axis: the place where the axis begins, if that is the group's own; NULL: it does not reach over an end that groups share. */
typedef const TileNode *Tags[TILE_RANK_MAX];

typedef struct Padding {
    uint32_t *number;
    Tags *tag;
    bool shows, changed;
} Padding;

static Tags *tags_of(const Padding *p, TileRef v)
{
    static Tags none;

    return v.node->op == TILE_PARAM && !v.node->block->owner ? &none : &p->tag[p->number[v.node->id] + (uint32_t)v.index];
}

static bool tagged(const Padding *p, TileRef v)
{
    Tags *t = tags_of(p, v);

    for (int i = 0; i < TILE_RANK_MAX; i++)
        if ((*t)[i])
            return true;
    return false;
}

static void join(Padding *p, Tags *to, int axis, const TileNode *from)
{
    if (!from || (*to)[axis] == from)
        return;
    p->shows |= (*to)[axis] != NULL;
    p->changed |= !(*to)[axis];
    (*to)[axis] = from;
}

static void join_all(Padding *p, TileRef to, TileRef from)
{
    for (int i = 0; i < TILE_RANK_MAX; i++)
        join(p, tags_of(p, to), i, (*tags_of(p, from))[i]);
}

/* Does an index follow from which group it is? */
static bool of_group(TileRef v, int depth)
{
    const TileNode *n = v.node;

    if (n->op == TOP_group || depth == 0)
        return true;
    if (n->op == TILE_PARAM)
        return n->block->owner && n->block->owner->nin > 0 && of_group(n->block->owner->in[0], depth - 1);
    for (int i = 0; i < n->nin; i++)
        if (tile_type(n->in[i])->kind != TILE_VIEW && of_group(n->in[i], depth - 1))
            return true;
    return false;
}

/* ---- ops ---- */

static void load(Padding *p, const TileNode *n)
{
    TileRef y = {(TileNode *)n, 0};
    int axis = 0;

    for (int i = 0; i < n->attr->rank; i++) {
        if (n->attr->drop >> i & 1)
            continue;
        if (of_group(n->in[1 + i], DEPTH))
            join(p, tags_of(p, y), axis, n->in[1 + i].node);
        axis++;
    }
    p->shows |= tile_memory_of(n->in[0])->op == TOP_part;
}

static void store(Padding *p, const TileNode *n)
{
    TileRef v = n->in[n->nin - 1];
    int axis = 0;

    for (int i = 0; i < n->nin - 2; i++) {
        const TileNode *tag;
        if (n->attr->drop >> i & 1)
            continue;
        tag = (*tags_of(p, v))[axis++];
        p->shows |= tag && (tag != n->in[1 + i].node || tile_memory_of(n->in[0])->op != TILE_PARAM);
    }
}

/* Elementwise: extents of 1 stretch. */
static void map(Padding *p, const TileNode *n)
{
    TileRef y = {(TileNode *)n, 0};

    for (int i = 0; i < n->nin; i++)
        for (int k = 0; k < tile_type(n->in[i])->rank; k++)
            join(p, tags_of(p, y), k, (*tags_of(p, n->in[i]))[k]);
}

/* Axes of extent 1 come and go. */
static void reshape(Padding *p, const TileNode *n)
{
    const TileType *from = tile_type(n->in[0]), *to = &n->type[0];
    int k = 0;

    for (int i = 0; i < to->rank; i++) {
        if (to->extent[i] == 1)
            continue;
        while (k < from->rank && from->extent[k] == 1)
            p->shows |= (*tags_of(p, n->in[0]))[k++] != NULL;
        if (k == from->rank || from->extent[k] != to->extent[i]) {
            p->shows |= tagged(p, n->in[0]);
            return;
        }
        join(p, tags_of(p, (TileRef){(TileNode *)n, 0}), i, (*tags_of(p, n->in[0]))[k++]);
    }
}

static void reduce(Padding *p, const TileNode *n)
{
    for (int i = 0, k = 0; i < tile_type(n->in[0])->rank; i++) {
        const TileNode *tag = (*tags_of(p, n->in[0]))[i];
        if (i == n->attr->axis)
            p->shows |= tag != NULL;
        else
            join(p, tags_of(p, (TileRef){(TileNode *)n, 0}), k++, tag);
    }
}

static void dot(Padding *p, const TileNode *n)
{
    Tags *y = tags_of(p, (TileRef){(TileNode *)n, 0}), *a = tags_of(p, n->in[0]), *b = tags_of(p, n->in[1]);

    p->shows |= (*a)[1] || (*b)[0];
    join(p, y, 0, (*a)[0]);
    join(p, y, 1, (*b)[1]);
    join_all(p, (TileRef){(TileNode *)n, 0}, n->in[2]);
}

static void walk(Padding *p, const TileBlock *b);

static void control(Padding *p, const TileNode *n)
{
    int before = n->op == TOP_for ? 3 : n->op == TOP_if ? 1 : 0;

    for (int r = 0; r < 2; r++) {
        const TileBlock *b = n->region[r];
        int skip = n->op == TOP_for, test = n->op == TOP_while && r == 0;
        if (!b)
            continue;
        for (int i = 0; n->op != TOP_if && i < n->nout; i++)
            join_all(p, (TileRef){b->params.at[skip + i], 0}, n->in[before + i]);
        walk(p, b);
        for (int i = 0; !test && i < n->nout; i++) {
            join_all(p, (TileRef){(TileNode *)n, i}, b->yields.at[i]);
            for (int k = 0; n->op != TOP_if && k < 2; k++)
                if (n->region[k])
                    join_all(p, (TileRef){n->region[k]->params.at[skip + i], 0}, b->yields.at[i]);
        }
    }
    for (int i = 0; n->op != TOP_if && i < n->nout; i++)
        join_all(p, (TileRef){(TileNode *)n, i}, n->in[before + i]);
}

static void node(Padding *p, const TileNode *n)
{
    switch (n->op) {
    case TOP_load: load(p, n); return;
    case TOP_store: store(p, n); return;
    case TOP_map: case TOP_splat: map(p, n); return;
    case TOP_reshape: reshape(p, n); return;
    case TOP_permute:
        for (int i = 0; i < n->type[0].rank; i++)
            join(p, tags_of(p, (TileRef){(TileNode *)n, 0}), i, (*tags_of(p, n->in[0]))[n->attr->axes[i]]);
        return;
    case TOP_reduce: reduce(p, n); return;
    case TOP_dot: dot(p, n); return;
    case TOP_push:
        join_all(p, (TileRef){(TileNode *)n, 0}, n->in[0]);
        join_all(p, (TileRef){(TileNode *)n, 0}, n->in[1]);
        return;
    case TOP_total: join_all(p, (TileRef){(TileNode *)n, 0}, n->in[0]); return;
    case TOP_for: case TOP_if: case TOP_while: control(p, n); return;
    case TOP_part: case TOP_copy: case TOP_copy_async: case TOP_atomic: case TOP_update: case TOP_extent: p->shows = true; return;
    default:
        for (int i = 0; i < n->nin; i++)
            p->shows |= tile_type(n->in[i])->kind != TILE_VIEW && tagged(p, n->in[i]);
    }
}

static void walk(Padding *p, const TileBlock *b)
{
    for (const TileNode *n = b->first; n && !p->shows; n = n->next)
        node(p, n);
}

bool tile_padding_shows(const TileKernel *k)
{
    uint32_t count;
    Padding p = {.number = tile_numbers(k, &count)};

    p.tag = tsr_calloc(sizeof *p.tag * (count + 1));
    do {
        p.changed = false;
        walk(&p, &k->body);
    } while (p.changed && !p.shows);
    tsr_free(p.tag);
    tsr_free(p.number);
    return p.shows;
}
