/*
 * Looking up in tables: `index` in a kernel.
 *
 * The launch has resolved the numbers (fused_table.c): for each place of the result's first axes there is one number, where in
 * the table's memory the elements begin that are looked up there.  The table's view has all of that memory as its first axis, and
 * behind it rows and elements as other views have, which step as the axes do that are not looked up.  An axis of the kernel is walked by
 * the numbers or by the table, never by both.
 *
 * One number for the whole block: it is loaded as from any other view.  Several: each gives its part of the block (TOP_gather).
 */
#include "ir/schedule/lower_impl.h"

/* Where a block of the table begins along its axes behind the first, and how far it goes: 1 where it does not move. */
typedef struct Block { TileRef start[2]; int32_t extent[2]; } Block;

static Block block_of(const Lower *l, StrideClass c)
{
    bool up = lower_upright(l);
    Block b;

    b.start[up] = c.outer ? l->row0 : l->zero;
    b.extent[up] = c.outer ? l->s->m : 1;
    b.start[!up] = c.inner ? l->col : l->zero;
    b.extent[!up] = c.inner ? l->s->n : 1;
    return b;
}

static TileRef reshaped(Lower *l, TileRef x, int rank, const int32_t *shape)
{
    TAttr a = tattr_none;

    a.rank = (int8_t)rank;
    for (int i = 0; i < rank; i++)
        a.shape[i] = shape[i];
    return add(l, TOP_reshape, &a, &x, 1);
}

/* The only number of a block, as an index. */
static TileRef only_number(Lower *l, int operand)
{
    TAttr a = tattr_none;
    Block b = block_of(l, l->stride[operand]);
    TileRef x;

    a.rank = 2;
    a.shape[0] = a.shape[1] = 1;
    a.drop = 3;
    x = add(l, TOP_load, &a, (TileRef[]){l->view[operand], b.start[0], b.start[1]}, 3);
    return add(l, TOP_to_index, NULL, &x, 1);
}

static TileRef load_there(Lower *l, TileRef view, TileRef place, const Block *b)
{
    TAttr a = tattr_none;

    a.rank = 3;
    a.shape[0] = 1;
    a.shape[1] = b->extent[0];
    a.shape[2] = b->extent[1];
    a.drop = 1;
    return add(l, TOP_load, &a, (TileRef[]){view, place, b->start[0], b->start[1]}, 4);
}

/* How much of the view there is from a start on, at most so much. */
static TileRef length(Lower *l, TileRef view, int axis, TileRef start, int32_t most)
{
    TAttr a = tattr_none;
    TileRef rest;

    a.axis = (int8_t)axis;
    rest = add2(l, TOP_isub, add(l, TOP_extent, &a, &view, 1), start);
    return add2(l, TOP_imin, index_of(l, most), rest);
}

/* The block's part of the view, without the axes that stand in `drop`, along which it has one element. */
static TileRef part_of(Lower *l, TileRef view, const Block *b, unsigned drop)
{
    TAttr all = tattr_none, some = tattr_none;
    TileRef in[7] = {view, l->zero, b->start[0], b->start[1]};

    some.drop = (uint8_t)drop;
    in[4] = add(l, TOP_extent, &all, &view, 1);
    for (int i = 0; i < 2; i++)
        in[5 + i] = b->extent[i] == 1 ? index_of(l, 1) : length(l, view, i + 1, b->start[i], b->extent[i]);
    return add(l, TOP_part, &some, in, 7);
}

/* A part of the block for each number: [numbers, what extents of the block are not 1]. */
static TileRef gather(Lower *l, TileRef view, TileRef numbers, int32_t count, const Block *b)
{
    TAttr a = tattr_none;
    unsigned drop = (b->extent[0] == 1 ? 2u : 0) | (b->extent[1] == 1 ? 4u : 0);
    TileRef in[2] = {part_of(l, view, b, drop), reshaped(l, numbers, 1, &count)};

    a.i = 1;                                            /* resolved, so known to be in the table */
    a.rank = 1;
    a.shape[0] = count;
    for (int i = 0; i < 2; i++)
        if (b->extent[i] != 1)
            a.shape[a.rank++] = b->extent[i];
    return add(l, TOP_gather, &a, in, 2);
}

static TileRef turned(Lower *l, TileRef x)
{
    TAttr a = tattr_none;

    a.rank = 2;
    a.axes[0] = 1;
    a.axes[1] = 0;
    return add(l, TOP_permute, &a, &x, 1);
}

TileRef lower_look_up(Lower *l, const Node *n, TileRef places)
{
    int table = lower_operand(l, n->in[0].node), numbers = lower_operand(l, n->in[1].node);
    Block b = block_of(l, l->stride[table]);
    const TileType *t = l->ok ? tile_type(places) : NULL;
    int32_t shape[2], count;
    TileRef x;

    if (!t)
        return none();
    count = t->extent[0] * t->extent[1];
    if (count == 1)
        return load_there(l, l->view[table], only_number(l, numbers), &b);
    for (int i = 0; i < 2; i++)
        shape[i] = t->extent[i] * b.extent[i];
    x = gather(l, l->view[table], places, count, &b);
    if (t->extent[1] > 1 && b.extent[0] > 1)            /* numbers along the last axis: their parts lie along the first */
        return turned(l, x);
    return l->ok && tile_type(x)->rank == 1 ? reshaped(l, x, 2, shape) : x;
}
