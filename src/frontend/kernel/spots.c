/*
 * Memory at blocks of ints: x[q], x[h, q], x[q, k], as functions that say something about places of a matrix have it.
 *
 * Numbers that go up by one along an axis, as arange(n) + first do, say which part of memory is meant: it is loaded as a slice is, and laid
 * along that axis of the result, which has the blocks' broadcast shape.  Other numbers choose elements of memory of one axis, one by one.
 * What lies outside reads as 0 either way; a number below 0 lies outside.
 */
#include "frontend/kernel/oper.h"

#include <string.h>

enum { DEPTH = 16 };

static bool adds(OpId op) { return op == OP_add || op == OP_sub; }

/* A scalar of ints as a sum of indices. */
static Lin sum_of(Body *B, TileRef v)
{
    if (v.node->op == TOP_const)
        return lin_number(v.node->attr->i);
    if (v.node->op == TOP_to_tile)
        return lin_of(v.node->in[0]);
    return lin_of(kb_emit1(B, TOP_to_index, NULL, v));
}

/* Do v's elements go up by one along one axis, and is it the only one that is longer than 1? From `start` on. */
static bool goes_up(Body *B, TileRef v, Lin *start, int depth)
{
    const TileNode *n = v.node;
    TileRef a, b;
    Lin more;

    if (!depth || !tile_type(v)->rank || !dtype_is_int((DType)tile_type(v)->dtype))
        return false;
    if (n->op == TOP_iota) {
        *start = lin_of(n->in[0]);
        for (int i = 0; i < tile_type(v)->rank; i++)
            if (i != n->attr->axis && tile_type(v)->extent[i] != 1)
                return false;
        return true;
    }
    if (n->op == TOP_reshape || (n->op == TOP_map && n->attr->op == OP_convert))
        return goes_up(B, n->in[0], start, depth - 1);
    if (n->op != TOP_map || !adds(n->attr->op))
        return false;
    a = n->in[0], b = n->in[1];
    if (n->attr->op == OP_add && !tile_type(a)->rank)
        a = n->in[1], b = n->in[0];
    if (tile_type(b)->rank || !goes_up(B, a, start, depth - 1))
        return false;
    more = sum_of(B, b);
    return lin_add(B, *start, more, n->attr->op == OP_add ? 1 : -1, start);
}

/* The axis of a block that is longer than 1; the last one where none is. */
static int long_axis(const TileType *t)
{
    int axis = t->rank - 1;

    for (int i = 0; i < t->rank; i++)
        axis = t->extent[i] != 1 ? i : axis;
    return axis;
}

static int64_t count_of(const TileType *t)
{
    int64_t n = 1;

    for (int i = 0; i < t->rank; i++)
        n *= t->extent[i];
    return n;
}

/* ---- parts of memory ---- */

typedef struct Part { int axis, index; } Part;      /* of the result, and which index it comes from */

/* Slices for the indices that go up. False: one does not, or two of them go along one axis. */
static bool as_slices(Body *B, const KVal *index, int n, KVal *slice, int *axis)
{
    uint32_t taken = 0;
    int rank = 0;
    Lin start, end;

    for (int i = 0; i < n; i++)
        if (index[i].kind == K_BLOCK)
            rank = tile_type(index[i].ref)->rank > rank ? tile_type(index[i].ref)->rank : rank;
    for (int i = 0; i < n; i++) {
        const TileType *t = index[i].kind == K_BLOCK ? tile_type(index[i].ref) : NULL;
        slice[i] = index[i];
        axis[i] = -1;
        if (!t)
            continue;
        if (!goes_up(B, index[i].ref, &start, DEPTH) || !lin_add(B, start, lin_number(count_of(t)), 1, &end))
            return false;
        axis[i] = rank - t->rank + long_axis(t);
        if (taken & 1u << axis[i])
            return false;
        taken |= 1u << axis[i];
        slice[i] = (KVal){.kind = K_TUPLE, .n = 3, .name = sym("slice"), .item = kb_alloc(B, sizeof(KVal) * 3)};
        slice[i].item[0] = kb_int(B, start);
        slice[i].item[1] = kb_int(B, end);
        slice[i].item[2] = (KVal){.kind = K_STATIC, .v = VNONE};
    }
    return true;
}

/* What was loaded, an axis for each block among the indices, with these axes of the result in order. */
static KVal laid(Body *B, KVal v, const KVal *index, const int *axis, int n)
{
    TAttr turn = tattr_none;
    int32_t shape[VIEW_RANK] = {0};
    int rank = 0, own = 0;
    TileRef x = v.ref;

    for (int i = 0; i < n; i++)
        if (axis[i] >= 0)
            rank = tile_type(index[i].ref)->rank > rank ? tile_type(index[i].ref)->rank : rank;
    for (int k = 0; k < rank; k++) {
        int from = 0;
        shape[k] = 1;
        for (int i = 0; i < n; i++) {
            if (axis[i] == k) {
                shape[k] = tile_type(x)->extent[from];
                turn.axes[own++] = (int8_t)from;
            }
            from += axis[i] >= 0;
        }
    }
    turn.rank = (int8_t)own;
    if (own != tile_type(x)->rank)
        return kb_fail(B, "an index by blocks says of each axis where it is");
    for (int i = 0; i < own; i++)
        if (turn.axes[i] != i) {
            x = kb_emit1(B, TOP_permute, &turn, x);
            break;
        }
    return kb_block(B, kb_reshape(B, x, rank, shape), NULL);
}

/* ---- single elements ---- */

/* Does a block of ints come from memory? Then the numbers are data, of which one that lies outside is a fault. */
static bool from_memory(TileRef v, int depth)
{
    const TileNode *n = v.node;

    if (!depth || n->op == TILE_PARAM || tile_type(v)->kind != TILE_VALUE)
        return false;
    if (n->op == TOP_load || n->op == TOP_gather)
        return true;
    for (int i = 0; i < n->nin; i++)
        if (from_memory(n->in[i], depth - 1))
            return true;
    return false;
}

/* Where elements of the block lie behind the end of what it was loaded from; UNSET: it is not known that any do. */
static KVal behind_end(Body *B, KVal index)
{
    const TileType t = *tile_type(index.ref);
    KVal y = KUNSET;

    for (int k = 0; k < t.rank; k++) {
        int32_t shape[VIEW_RANK] = VIEW_ONES;
        const AxisTag *tag = &index.tag[k];
        KVal here;
        if (tag->moved || tag->none || (!tag->size.n && !tag->size.c))
            continue;
        shape[k] = t.extent[k];
        here = kb_compare(B, AOP_GE, kb_block(B, kb_iota(B, &tag->start, t.rank, shape, k), NULL), kb_int(B, tag->size));
        y = y.kind == K_UNSET || kb_bad(here) ? here : kb_apply(B, OP_bitor, (KVal[]){y, here}, 2);
    }
    return y;
}

/* With --debug, numbers that are data are asked whether they are of the memory: but not where the block has none, which read as 0. */
static KVal asked(Body *B, const KPlace *p, KVal index, TAttr *a)
{
    KVal behind, outside;

    if (!B->spec->debug || !from_memory(index.ref, DEPTH))
        return index;
    a->i = 2;
    behind = behind_end(B, index);
    if (behind.kind == K_UNSET || kb_bad(behind))
        return behind.kind == K_UNSET ? index : behind;
    index = kb_cast(B, index, DT_int64);
    outside = kb_apply(B, OP_bitor, (KVal[]){kb_compare(B, AOP_LT, index, kb_number(0)),
                                             kb_compare(B, AOP_GE, index, kb_int(B, p->axis[0].size))}, 2);
    if (kb_bad(outside))
        return outside;
    behind = kb_apply(B, OP_bitand, (KVal[]){behind, outside}, 2);
    return kb_bad(behind) ? behind : kb_apply(B, OP_where, (KVal[]){behind, kb_number(INT64_MIN), index}, 3);
}

static KVal chosen(Body *B, const KPlace *p, KVal ints)
{
    const TileType t = *tile_type(ints.ref);
    int32_t all = (int32_t)count_of(&t);
    TAttr a = tattr_none;
    TileRef y, index;

    if (p->rank != 1 || p->held)
        return kb_fail(B, "E0611: ints that do not go up by one choose elements of memory with one axis, which is not sliced");
    a.rank = 1;
    a.shape[0] = all;
    ints = asked(B, p, ints, &a);
    if (kb_bad(ints))
        return ints;
    index = ints.ref;
    y = kb_emit2(B, TOP_gather, &a, p->view, t.rank == 1 ? index : kb_reshape(B, index, 1, &all));
    B->uses_blocks = true;
    return y.node ? kb_block(B, kb_reshape(B, y, t.rank, t.extent), NULL) : KBAD;
}

/* ---- the index ---- */

bool kplace_is_spots(const KVal *index, int n)
{
    for (int i = 0; i < n; i++)
        if (index[i].kind == K_BLOCK && dtype_is_int((DType)tile_type(index[i].ref)->dtype))
            return true;
    return false;
}

KVal kplace_spots(Body *B, KVal base, const KVal *index, int n)
{
    KVal slice[VIEW_RANK], y;
    int axis[VIEW_RANK];

    if (n > VIEW_RANK)
        return kb_fail(B, "%d indices where there are %d axes", n, kplace_free(base.place));
    if (!as_slices(B, index, n, slice, axis))
        return B->failed ? KBAD : n == 1 ? chosen(B, base.place, index[0])
                                         : kb_fail(B, "E0611: several indices by blocks are such that go up by one, each along another axis");
    y = kb_subscript(B, base, slice, n);
    if (kb_bad(y))
        return y;
    y = kb_value(B, y);
    return kb_bad(y) ? y : laid(B, y, index, axis, n);
}
