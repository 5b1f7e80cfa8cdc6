/*
 * Rows in parts: where few rows are long, several groups sum one, each some of its chunks, and a second kernel joins what they have.
 *
 * A part is a power of two of chunks and begins at a multiple of that, so it is a subtree of the balanced tree of R4 of docs/numerics.md,
 * and the parts are joined in the same tree.
 */
#include "ir/schedule/lower_impl.h"

#include <math.h>
#include <stdio.h>

bool schedule_parts(const Region *r)
{
    for (int v = 0; v < r->nvalues; v++) {
        const RegionValue *x = &r->value[v];
        if (x->inside && is_reduce_node(x->node) && x->pass != 1)
            return false;
        if (x->out && !region_is_row(r, x) && x->pass)
            return false;
    }
    return r->nkept < r->naxes && r->nkept;
}

int schedule_part_sums(const Region *r, const Node **out)
{
    int n = 0;

    for (int v = 0; v < r->nvalues; v++)
        if (r->value[v].inside && is_reduce_node(r->value[v].node) && n < REGION_OPERANDS)
            out[n++] = r->value[v].node;
    return n;
}

DType schedule_part_dtype(const Node *sum) { return reduce_accum(sum); }

/* The view that holds the parts of sum i: [parts, rows]. */
static TileRef part_view(Lower *l, int i)
{
    return l->view[l->body->params.n + l->body->results.n + i];
}

void lower_store_part(Lower *l, int i, TileRef x)
{
    TAttr a = tattr_none;

    a.rank = 2;
    a.shape[0] = 1;
    a.shape[1] = l->s->m;
    add(l, TOP_store, NULL, (TileRef[]){part_view(l, i), l->part, l->row0, add(l, TOP_reshape, &a, &x, 1)}, 4);
}

TileRef lower_join_parts(Lower *l, int i, const Node *sum, int first, int count)
{
    TAttr a = tattr_none;

    if (count > 1) {
        TileRef x = lower_join_parts(l, i, sum, first, count / 2), y = lower_join_parts(l, i, sum, first + count / 2, count / 2);
        a.op = (uint8_t)tile_step_op((OpId)sum->op);
        a.dtype = reduce_accum(sum);
        return add(l, TOP_map, &a, (TileRef[]){x, y}, 2);
    }
    a.rank = 2;
    a.shape[0] = 1;
    a.shape[1] = l->s->m;
    a.f = sum->op == OP_prod || sum->op == OP_all ? 1.0 : sum->op == OP_max ? -HUGE_VAL : sum->op == OP_min ? HUGE_VAL : 0.0;
    return add(l, TOP_load, &a, (TileRef[]){part_view(l, i), index_of(l, first), l->row0}, 3);
}

void lower_part_views(Lower *l)
{
    const Node *sum[REGION_OPERANDS];
    int n = schedule_part_sums(l->r, sum), first = l->body->params.n + l->body->results.n;

    for (int i = 0; i < n; i++) {
        TileType t = {.kind = TILE_VIEW, .dtype = (uint8_t)reduce_accum(sum[i]), .rank = 2, .space = SPACE_GLOBAL, .stride = {STRIDE_ANY, 1}};
        char name[24];
        snprintf(name, sizeof name, "part%d", i);
        l->view[first + i] = tile_param(l->k, sym(name), &t);
    }
}
