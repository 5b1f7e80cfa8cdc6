/*
 * Blocks that a loop loads are brought rounds ahead.
 *
 *     for i = lo to hi step s:                for p in 0 .. S-2: copy round p to ring[p]; commit
 *         x = load %A[.., i]                  for i = lo to hi step s stages=S:
 *         ... x ...                  ==>          wait until S-2 batches are under way; barrier
 *                                                 copy round i + (S-1) s to ring[(r + S-1) % S]; commit
 *                                                 x = load ring[r % S]
 *                                                 ... x ...
 *                                             wait for all
 *
 * r is the number of the round.  A slot is filled again in the round after the
 * one that read it, behind the barrier that all lanes have passed since; so
 * one barrier a round is enough.  Copies take what lies within the tensor and
 * fill the rest, as the load did, so every bit stays.  Rounds behind the end
 * are not copied, but committed, so that waits count alike.
 *
 * The form is what back ends for tensor copies need: the ring with its stages,
 * copies of whole blocks, the wait and the barrier of a round.  With
 * producers=W some warps do the copies and nothing else; wait and barrier then
 * are the full and the empty state of a slot (docs/ir.md).
 *
 * A load is brought ahead when it stands in the loop itself, is the group's,
 * comes from memory that the kernel never writes, begins at places that follow
 * from the round's number and from before the loop, none of them negative, and
 * says stages= or the schedule does.
 */
#include "ir/tile/memory.h"
#include "ir/tile/tile_impl.h"
#include "runtime/convert.h"

enum { LOADS = 8, DEPTH = 24, STAGES_MAX = 16, PRODUCERS_MAX = 31 };

typedef struct Ring { TileNode *load; TileRef buffer; } Ring;

typedef struct Pipe {
    TileKernel *k;
    TileMemory memory;
    bool changed;
} Pipe;

typedef struct Loop {
    Pipe *p;
    TileNode *n;                /* the for */
    int64_t stages;
    Ring ring[LOADS];
    int rings;
} Loop;

/* ---- which loads ---- */

static bool of_kernel(TileRef v) { return v.node->op == TILE_PARAM && !v.node->block->owner; }
static TileRef index_of(const TileNode *loop) { return (TileRef){loop->region[0]->params.at[0], 0}; }

static bool stands_in(const TileNode *n, const TileBlock *b)
{
    for (const TileBlock *x = n->block; x; x = x->owner ? x->owner->block : NULL)
        if (x == b)
            return true;
    return false;
}

/* Arithmetic of places: indices, and integers that become some. */
static bool is_index_op(const TileNode *n)
{
    bool scalar = n->nout == 1 && n->type[0].kind == TILE_VALUE && n->type[0].rank == 0 && n->type[0].dtype == DT_int64;

    return (n->op <= TOP_imax && n->op != TOP_extent) || n->op == TOP_to_index ||
           ((n->op == TOP_map || n->op == TOP_const || n->op == TOP_to_tile) && scalar);
}

/* Does an index follow from the loop's own and from what stands before the loop? */
static bool follows(const TileNode *loop, TileRef v, int depth)
{
    if (of_kernel(v) || !stands_in(v.node, loop->region[0]))
        return true;
    if (v.node == index_of(loop).node)
        return true;
    if (depth == DEPTH || !is_index_op(v.node) || v.node->block != loop->region[0])
        return false;
    for (int i = 0; i < v.node->nin; i++)
        if (!follows(loop, v.node->in[i], depth + 1))
            return false;
    return true;
}

/* Is an index never negative, whatever the sizes? */
static bool counts_up(TileRef v, int depth)
{
    const TileNode *n = v.node;
    bool a, b;

    if (depth == DEPTH)
        return false;
    if (n->op == TILE_PARAM && n->block->owner && n->block->owner->op == TOP_for && n == n->block->params.at[0])
        return counts_up(n->block->owner->in[0], depth + 1);
    if (n->op == TOP_index)
        return n->attr->i >= 0;
    if (n->op == TOP_size)
        return !n->attr->i;
    if (n->op == TOP_group || n->op == TOP_lane || n->op == TOP_extent)
        return true;
    if (n->op == TILE_PARAM || !is_index_op(n))
        return false;
    if (n->op == TOP_const)
        return n->attr->i >= 0;
    if (n->op == TOP_to_index || n->op == TOP_to_tile)
        return counts_up(n->in[0], depth + 1);
    if (n->op == TOP_map ? n->nin != 2 || (n->attr->op != OP_floordiv && n->attr->op != OP_mod && n->attr->op != OP_add && n->attr->op != OP_mul)
                         : n->op < TOP_iadd || n->op > TOP_imax || n->op == TOP_isub)
        return false;
    a = counts_up(n->in[0], depth + 1);
    b = counts_up(n->in[1], depth + 1);
    return n->op == TOP_imax ? a || b : n->op == TOP_imod ? true : a && b;
}

static bool in_advance(const Loop *l, const TileNode *n)
{
    const TileType *view = n->nin ? tile_type(n->in[0]) : NULL;
    TileTouch t;

    if (n->op != TOP_load || n->type[0].rank == 0 || view->space != SPACE_GLOBAL || stands_in(n->in[0].node, l->n->region[0]) ||
        view->rank == TILE_RANK_MAX)
        return false;
    t = tile_touch(&l->p->memory, n);
    if (t.read & l->p->memory.written)
        return false;
    for (int i = 0; i < view->rank; i++)
        if (!follows(l->n, n->in[1 + i], 0) || !counts_up(n->in[1 + i], 0))
            return false;
    return true;
}

static void find_loads(Loop *l)
{
    int64_t all = tile_schedule(l->p->k, "stages", 0);

    for (TileNode *n = l->n->region[0]->first; n; n = n->next) {
        int64_t stages = n->op == TOP_load && n->attr->stages ? n->attr->stages : all;
        if (stages < 2 || l->rings == LOADS || !in_advance(l, n))
            continue;
        l->stages = stages > l->stages ? stages : l->stages;
        l->ring[l->rings++].load = n;
    }
    l->stages = l->stages < STAGES_MAX ? l->stages : STAGES_MAX;
}

/* ---- indices ---- */

static TileRef number(Loop *l, TileNode *at, int64_t v)
{
    TAttr a = tattr_none;

    a.i = v;
    return tile_out(tile_insert(l->p->k, at, TOP_index, &a, NULL, 0));
}

static TileRef index2(Loop *l, TileNode *at, TileOp op, TileRef a, TileRef b)
{
    return tile_out(tile_insert(l->p->k, at, op, NULL, (TileRef[]){a, b}, 2));
}

/* An index of the loop's body with `i` for the loop's own, made anew in front of `at`. */
static TileRef in_round(Loop *l, TileNode *at, TileRef v, TileRef i)
{
    TileRef in[3];

    if (of_kernel(v) || !stands_in(v.node, l->n->region[0]))
        return v;
    if (v.node == index_of(l->n).node)
        return i;
    for (int k = 0; k < v.node->nin; k++)
        in[k] = in_round(l, at, v.node->in[k], i);
    return tile_out(tile_insert(l->p->k, at, (TileOp)v.node->op, v.node->attr, in, v.node->nin));
}

/* The extents of the block that a load takes, with the axes of its view. */
static int64_t extent_of(const TileNode *load, int axis)
{
    int k = 0;

    for (int i = 0; i < axis; i++)
        k += !(load->attr->drop >> i & 1);
    return load->attr->drop >> axis & 1 ? 1 : load->type[0].extent[k];
}

/* ---- rings ---- */

static TileRef make_ring(Loop *l, const TileNode *load)
{
    TileNode *first = l->p->k->body.first;
    const TileNode *memory = tile_memory_of(load->in[0]);
    int rank = tile_type(load->in[0])->rank;
    TileRef extent[TILE_RANK_MAX];
    TAttr a = tattr_none;

    extent[0] = number(l, first, l->stages);
    for (int i = 0; i < rank; i++)
        extent[1 + i] = number(l, first, extent_of(load, i));
    a.dtype = load->type[0].dtype;
    a.space = SPACE_SHARED;
    a.stages = (uint8_t)l->stages;
    for (int i = 0; i < l->p->k->params.n; i++)
        if (l->p->k->params.at[i] == memory)
            a.name = l->p->k->param_name.at[i];
    return tile_out(tile_insert(l->p->k, first, TOP_alloc, &a, extent, 1 + rank));
}

/* ring[slot] and what the load of round i takes, as far as it lies within its tensor; a copy between them. */
static void copy_round(Loop *l, TileNode *at, const Ring *r, TileRef i, TileRef slot)
{
    const TileNode *load = r->load;
    int rank = tile_type(load->in[0])->rank;
    TileRef to[1 + 2 * TILE_RANK_MAX + 2], from[1 + 2 * TILE_RANK_MAX], zero = number(l, at, 0), one = number(l, at, 1), views[2];
    TAttr a = tattr_none;

    to[0] = r->buffer;
    from[0] = load->in[0];
    to[1] = slot;
    to[2 + rank] = one;
    for (int k = 0; k < rank; k++) {
        TileRef extent = number(l, at, extent_of(load, k)), size, start = in_round(l, at, load->in[1 + k], i), left;
        a = tattr_none;
        a.axis = (int8_t)k;
        size = tile_out(tile_insert(l->p->k, at, TOP_extent, &a, load->in, 1));
        start = index2(l, at, TOP_imin, start, size);
        left = index2(l, at, TOP_isub, size, start);
        from[1 + k] = start;
        from[1 + rank + k] = index2(l, at, TOP_imin, extent, left);
        to[2 + k] = zero;
        to[3 + rank + k] = extent;
    }
    a = tattr_none;
    views[1] = tile_out(tile_insert(l->p->k, at, TOP_part, &a, from, 1 + 2 * rank));
    a.drop = 1;
    views[0] = tile_out(tile_insert(l->p->k, at, TOP_part, &a, to, 3 + 2 * rank));
    a = tattr_none;
    a.f = load->attr->f;
    a.vector = load->attr->vector;
    tile_insert(l->p->k, at, TOP_copy_async, &a, views, 2);
}

/* All copies of round i, if there is such a round; then the batch ends. */
static void bring(Loop *l, TileNode *at, TileRef i, TileRef slot)
{
    TileRef there = index2(l, at, TOP_ilt, i, l->n->in[1]);
    TileNode *choice = tile_insert(l->p->k, at, TOP_if, NULL, &there, 1), *mark;
    StrBuf err = {0};

    for (int r = 0; r < 2; r++) {
        TileBuilder b = {l->p->k, choice->region[r], at->span, &err};
        if (r == 0) {
            mark = tile_add(&b, TOP_commit, NULL, NULL, 0);         /* something to stand in front of */
            for (int k = 0; k < l->rings; k++)
                copy_round(l, mark, &l->ring[k], i, slot);
            tile_unlink(mark);
        }
        tile_yield(&b, NULL, 0);
    }
    sb_done(&err);
    tile_insert(l->p->k, at, TOP_commit, NULL, NULL, 0);
}

static void wait_for(Loop *l, TileNode *at, int64_t under_way)
{
    TAttr a = tattr_none;

    a.i = under_way;
    tile_insert(l->p->k, at, TOP_wait, &a, NULL, 0);
}

/* ---- the loop ---- */

static void before_loop(Loop *l)
{
    TileRef i = l->n->in[0];

    for (int64_t p = 0; p + 1 < l->stages; p++) {
        bring(l, l->n, i, number(l, l->n, p));
        i = index2(l, l->n, TOP_iadd, i, l->n->in[2]);
    }
}

/* The load becomes one from its slot of the ring. */
static void load_from_ring(Loop *l, const Ring *r, TileRef slot)
{
    TileNode *load = r->load;
    int rank = tile_type(load->in[0])->rank;
    TileRef in[2 + TILE_RANK_MAX];
    TAttr a = *load->attr;
    TileNode *now;

    in[0] = r->buffer;
    in[1] = slot;
    for (int k = 0; k < rank; k++)
        in[2 + k] = number(l, load, 0);
    a.rank = (int8_t)(rank + 1);
    a.shape[0] = 1;
    for (int k = 0; k < rank; k++)
        a.shape[1 + k] = (int32_t)extent_of(load, k);
    a.drop = (uint8_t)(load->attr->drop << 1 | 1);
    a.stages = 0;
    now = tile_insert(l->p->k, load, TOP_load, &a, in, 2 + rank);
    now->span = load->span;
    tile_replace(l->p->k, (TileRef){load, 0}, (TileRef){now, 0});
    tile_unlink(load);
}

static void in_loop(Loop *l)
{
    TileNode *first = l->n->region[0]->first;
    TileRef i = index_of(l->n), stages = number(l, first, l->stages), ahead = number(l, first, l->stages - 1), round, slot, later, filled;

    round = index2(l, first, TOP_idiv, index2(l, first, TOP_isub, i, l->n->in[0]), l->n->in[2]);
    slot = index2(l, first, TOP_imod, round, stages);
    wait_for(l, first, l->stages - 2);
    tile_insert(l->p->k, first, TOP_barrier, NULL, NULL, 0);
    later = index2(l, first, TOP_iadd, i, index2(l, first, TOP_imul, ahead, l->n->in[2]));
    filled = index2(l, first, TOP_imod, index2(l, first, TOP_iadd, round, ahead), stages);
    bring(l, first, later, filled);
    for (int k = 0; k < l->rings; k++)
        load_from_ring(l, &l->ring[k], slot);
}

static void behind_loop(Loop *l)
{
    TileNode *next = l->n->next;
    StrBuf err = {0};
    TileBuilder b = {l->p->k, l->n->block, l->n->span, &err};
    TAttr a = tattr_none;
    bool closed = l->n->block->closed;

    if (next) {
        wait_for(l, next, 0);
    } else {
        l->n->block->closed = false;
        tile_add(&b, TOP_wait, &a, NULL, 0);
        l->n->block->closed = closed;
    }
    sb_done(&err);
}

static void pipeline(Loop *l)
{
    TAttr a = *l->n->attr;
    int64_t producers = tile_schedule(l->p->k, "producers", 0);

    for (int k = 0; k < l->rings; k++)
        l->ring[k].buffer = make_ring(l, l->ring[k].load);
    before_loop(l);
    in_loop(l);
    behind_loop(l);
    a.stages = (uint8_t)l->stages;
    a.producers = (uint8_t)(producers < 0 ? 0 : producers < PRODUCERS_MAX ? producers : PRODUCERS_MAX);
    tile_set_attr(l->p->k, l->n, &a);
    l->p->changed = true;
}

/* Innermost loops with loads of their own; a loop around one that is a pipeline already is none. */
static bool in_block(Pipe *p, TileBlock *b)
{
    bool any = false;

    for (TileNode *n = b->first; n; n = n->next) {
        bool inner = false;
        for (int r = 0; r < 2; r++)
            inner |= n->region[r] && in_block(p, n->region[r]);
        if (n->op == TOP_for && !inner && !n->attr->stages) {
            Loop l = {.p = p, .n = n};
            find_loads(&l);
            if (l.rings) {
                pipeline(&l);
                inner = true;
            }
        }
        any |= inner || n->op == TOP_copy_async || n->op == TOP_wait;
    }
    return any;
}

bool tile_pipeline(TileKernel *k)
{
    Pipe p = {.k = k};

    if (!pass_runs("tile.pipeline"))
        return false;
    if (tile_memory(k, &p.memory) && !p.memory.copied)      /* a kernel with copies of its own waits for what it means */
        in_block(&p, &k->body);
    tile_memory_done(&p.memory);
    pass_done("tile.pipeline", &tile_ir, k);
    return p.changed;
}

/* ---- a kernel of its own ---- */

/* Does a load ask to be brought ahead, in a kernel without products, which back ends bring ahead by themselves? */
static bool asks(const TileBlock *b, bool all, bool *product)
{
    bool any = false;

    for (const TileNode *n = b->first; n; n = n->next) {
        *product |= n->op == TOP_dot || n->op == TOP_alloc;
        any |= n->op == TOP_load && (all || n->attr->stages > 1);
        for (int r = 0; r < 2; r++)
            any |= n->region[r] && asks(n->region[r], all, product);
    }
    return any;
}

enum { SLOT = 64 };             /* what a buffer's place is rounded to */

static int64_t ring_bytes(const TileBlock *b)
{
    int64_t bytes = 0;

    for (const TileNode *n = b->first; n; n = n->next) {
        int64_t elements = n->op == TOP_alloc;
        for (int i = 0; n->op == TOP_alloc && i < n->nin; i++)
            elements *= n->in[i].node->op == TOP_index ? n->in[i].node->attr->i : 0;
        bytes += elements ? (elements * (int64_t)raw_size((DType)n->attr->dtype) + 2 * SLOT - 1) / SLOT * SLOT : 0;
    }
    return bytes;
}

TileKernel *tile_pipelined(const TileKernel *k, int64_t most, int64_t *bytes)
{
    StrBuf text = {0}, err = {0};
    TileKernel *ahead;
    bool product = false;

    if (!pass_runs("tile.pipeline") || tile_schedule(k, "producers", 0) > 0)
        return NULL;
    if (!asks(&k->body, tile_schedule(k, "stages", 0) > 1, &product) || product)
        return NULL;
    tile_print(k, &text);
    ahead = tile_parse(sb_str(&text), text.n, &err);
    if (!ahead)
        tsr_bug("a kernel's text is not read back: %s", sb_str(&err));
    if (!tile_pipeline(ahead) || (*bytes = ring_bytes(&ahead->body)) > most) {
        tile_kernel_free(ahead);
        ahead = NULL;
    } else {
        tile_layout(ahead);
    }
    sb_done(&text);
    sb_done(&err);
    return ahead;
}
