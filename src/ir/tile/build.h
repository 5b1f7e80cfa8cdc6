/*
 * build.h - words to build kernels of the Tile IR with: each adds a node where the builder is, and gives a node NULL where an operand is one, or
 * where it cannot be.
 */
#ifndef TSR_IR_TILE_BUILD_H
#define TSR_IR_TILE_BUILD_H

#include "ir/tile/tile_impl.h"

static inline TileRef build_none(void) { return (TileRef){NULL, 0}; }

static inline TileRef build_add(TileBuilder *b, TileOp op, const TAttr *a, const TileRef *in, int nin)
{
    for (int i = 0; i < nin; i++)
        if (!in[i].node)
            return build_none();
    return (TileRef){tile_add(b, op, a, in, nin), 0};
}

static inline TileRef build_add2(TileBuilder *b, TileOp op, TileRef x, TileRef y) { return build_add(b, op, NULL, (TileRef[]){x, y}, 2); }

static inline TileRef build_number(TileBuilder *b, int64_t i)
{
    TAttr a = tattr_none;

    a.i = i;
    return build_add(b, TOP_index, &a, NULL, 0);
}

/* x * n.  Operands are emitted before what is of them, one call after the other: C has no order of its own for arguments. */
static inline TileRef build_times(TileBuilder *b, TileRef x, int64_t n) { return build_add2(b, TOP_imul, x, build_number(b, n)); }

static inline TileRef build_size(TileBuilder *b, const char *name)
{
    TAttr a = tattr_none;

    a.name = sym(name);
    return build_add(b, TOP_size, &a, NULL, 0);
}

/* A tile of this shape that is 0 everywhere: what sums begin with. */
static inline TileRef build_zeros(TileBuilder *b, uint8_t dtype, int rank, const int32_t *shape)
{
    TAttr a = tattr_none;
    TileRef zero;

    a.dtype = dtype;
    zero = build_add(b, TOP_const, &a, NULL, 0);
    a = tattr_none;
    a.rank = (uint8_t)rank;
    for (int i = 0; i < rank; i++)
        a.shape[i] = shape[i];
    return build_add(b, TOP_splat, &a, &zero, 1);
}

static inline TileRef build_group(TileBuilder *b, int axis)
{
    TAttr a = tattr_none;

    a.axis = (int8_t)axis;
    return build_add(b, TOP_group, &a, NULL, 0);
}

#endif
