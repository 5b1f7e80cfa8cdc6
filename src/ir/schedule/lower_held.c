/*
 * What a program holds in shared memory (with memory.prefetch(x, to="shared")): a block of such an operand is copied there
 * before it is used, and loaded from there.  In a graph it is a convert to its own dtype that says where, and elsewhere means nothing.
 *
 * What is brought beside computing (with prefetch(x, into="smem", overlap="compute")) is, in a loop over blocks, a load with two
 * stages: the next block's copy goes on while this one is used (ir/tile/pipeline.c).
 */
#include "ir/schedule/lower_impl.h"

#include <string.h>

enum { AHEAD_STAGES = 2 };

static bool is_held(const Lower *l, int v)
{
    const RegionValue *x = &l->r->value[v];
    int operand = x->inside && x->node->op == OP_convert && x->node->attr->name ? lower_operand(l, x->node->in[0].node) : -1;

    return operand >= 0 && !(l->product && operand == l->body->params.n - 1);
}

void lower_held_buffers(Lower *l)
{
    for (int v = 0; v < l->r->nvalues; v++) {
        TAttr a = tattr_none;
        TileRef extent[2];
        if (!is_held(l, v))
            continue;
        a.dtype = l->r->value[v].node->type[0].dtype;
        a.space = SPACE_SHARED;
        a.name = l->r->value[v].node->attr->name;
        extent[lower_upright(l)] = index_of(l, l->s->m);
        extent[!lower_upright(l)] = index_of(l, l->s->n);
        l->held[v] = add(l, TOP_alloc, &a, extent, 2);
    }
}

/* How much of a run of `size` places from `start` on lies within the view: *start is at most its end. */
static TileRef within(Lower *l, TileRef view, int axis, TileRef size, TileRef *start)
{
    TAttr a = tattr_none;
    TileRef all;

    a.axis = (int8_t)axis;
    all = add(l, TOP_extent, &a, &view, 1);
    *start = add2(l, TOP_imin, *start, all);
    return add2(l, TOP_imin, size, add2(l, TOP_isub, all, *start));
}

/* Is it brought beside computing, and is there another block to compute with meanwhile? */
static bool comes_ahead(const Lower *l, int v, const TileNode *load)
{
    const TileNode *loop = load->block->owner;

    return loop && loop->op == TOP_for && !strcmp(l->r->value[v].node->attr->name->text, "smem");
}

/* The load of it with the stages that it comes in. */
static TileRef staged(Lower *l, const TileNode *load)
{
    TAttr a = *load->attr;

    a.stages = AHEAD_STAGES;
    return add(l, TOP_load, &a, load->in, load->nin);
}

TileRef lower_held(Lower *l, int v, TileRef x)
{
    const TileNode *load = l->ok ? x.node : NULL;
    TileRef part[5], from, to = l->held[v], at[3];
    TAttr a = tattr_none;

    if (!to.node || !load || load->op != TOP_load || load->nin != 3)
        return x;
    if (comes_ahead(l, v, load))
        return staged(l, load);
    part[0] = to;
    for (int k = 0; k < 2; k++) {
        part[1 + k] = l->zero;
        part[3 + k] = index_of(l, load->attr->shape[k]);
    }
    to = add(l, TOP_part, NULL, part, 5);
    part[0] = load->in[0];
    for (int k = 0; k < 2; k++) {
        part[1 + k] = load->in[1 + k];
        part[3 + k] = within(l, part[0], k, part[3 + k], &part[1 + k]);
    }
    from = add(l, TOP_part, NULL, part, 5);
    add(l, TOP_copy, NULL, (TileRef[]){to, from}, 2);
    at[0] = to, at[1] = at[2] = l->zero;
    a.rank = 2;
    a.shape[0] = load->attr->shape[0];
    a.shape[1] = load->attr->shape[1];
    return add(l, TOP_load, &a, at, 3);
}
