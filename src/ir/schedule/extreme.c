/*
 * argmax and argmin in a body: what a kernel has no op for is said by ops that it has.
 *
 * The extreme of the row, then the least of the places at which it stands, or at which NaN stands, which wins.  So a row is gone
 * over once more, as it is for softmax.  The node in the body stays what it is: run op by op it is the reference kernel's.
 */
#include "ir/schedule/schedule.h"

#include <limits.h>

static Node *op(Graph *g, OpId id, const Attr *a, const TType *y, const Node *like, Node *x, Node *z, Node *w)
{
    GValue in[3] = {{x, 0}, {z, 0}, {w, 0}};
    Attr none = attr_default();

    return graph_append(g, id, a ? a : &none, in, !x ? 0 : !z ? 1 : !w ? 2 : 3, y, 1, like->span);
}

static TType typed(const TType *like, DType dt)
{
    TType y = *like;

    y.dtype = (uint8_t)dt;
    y.weak = 0;
    y.policy = NULL;
    return y;
}

/* The extreme, as an axis of one element: [..., 1, ...]. */
static Node *extreme(Graph *g, const Node *n, Node *x, int axis)
{
    const TType *xt = &x->type[0];
    TType m = typed(&n->type[0], (DType)xt->dtype), kept = typed(xt, (DType)xt->dtype);
    Attr a = attr_default();

    kept.shape[axis] = 1;
    a.nd[0] = kept.rank;
    for (int i = 0; i < kept.rank; i++)
        a.d[0][i] = kept.shape[i];
    return op(g, OP_reshape, &a, &kept, n, op(g, n->op == OP_argmax ? OP_max : OP_min, n->attr, &m, n, x, NULL, NULL), NULL, NULL);
}

/* Places along the axis: int32 [n, 1, ...]. */
static Node *places(Graph *g, const Node *n, const Node *x, int axis)
{
    TType y = {.dtype = DT_int32, .rank = (uint8_t)(x->type[0].rank - axis)};
    Attr a;

    for (int i = 0; i < y.rank; i++)
        y.shape[i] = i ? 1 : x->type[0].shape[axis];
    a = attr_iota(DT_int32, y.rank, y.shape, -y.rank);
    return op(g, OP_iota, &a, &y, n, NULL, NULL, NULL);
}

static Node *no_place(Graph *g, const Node *n)
{
    TType y = {.dtype = DT_int32};
    Attr a = attr_default();

    a.dtype = DT_int32;
    a.f = INT_MAX;
    return op(g, OP_full, &a, &y, n, NULL, NULL, NULL);
}

Node *schedule_place_of_extreme(Graph *g, const Node *n, Node *x)
{
    int axis = n->attr->axis[0] + x->type[0].rank;
    TType flag = typed(&x->type[0], DT_bool), place = typed(&x->type[0], DT_int32);
    Node *hit = op(g, OP_eq, NULL, &flag, n, x, extreme(g, n, x, axis), NULL);
    Node *at = places(g, n, x, axis), *none = no_place(g, n);

    if (dtype_is_float((DType)x->type[0].dtype))
        hit = op(g, OP_bitor, NULL, &flag, n, hit, op(g, OP_ne, NULL, &flag, n, x, x, NULL), NULL);
    return op(g, OP_min, n->attr, &n->type[0], n, op(g, OP_where, NULL, &place, n, hit, at, none), NULL, NULL);
}
