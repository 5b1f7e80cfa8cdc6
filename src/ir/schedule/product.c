/*
 * Bodies of `fused` nodes that hold a matrix product.
 *
 * The product is computed by runtime/gemm.c, in blocks; what follows it, elementwise or along its rows, is a region
 * like any other whose last operand is the product, and runs on each block as it is finished (fused.c).
 */
#include "ir/schedule/schedule.h"

#include "base/alloc.h"
#include "runtime/kernel_util.h"

#include <string.h>

DType schedule_accum(const Node *n)
{
    const TType *a, *b;
    DType accum, in;

    if (n->op != OP_matmul || n->type[0].rank < 2)
        return DT_NONE;
    a = gvalue_type(n->in[0]);
    b = gvalue_type(n->in[1]);
    if (a->weak != b->weak || !dtype_promote((DType)a->dtype, (DType)b->dtype, &in))
        return DT_NONE;
    accum = accum_dtype(n->attr, in, (DType)n->type[0].dtype);
    return accum == DT_f32 || accum == DT_f64 ? accum : DT_NONE;
}

static const Node *find_product(const Graph *body)
{
    for (const Node *n = body->first; n; n = n->next)
        if (n->op == OP_matmul)
            return n;
    return NULL;
}

/* The product as an operand: its lanes, and what rounds them to its dtype. */
static Node *product_operand(Graph *g, const Node *product)
{
    TType lanes = product->type[0];
    Attr a = attr_default();
    Node *p;

    lanes.dtype = (uint8_t)schedule_accum(product);
    lanes.weak = 0;
    p = graph_param(g, &lanes).node;
    if (lanes.dtype == product->type[0].dtype)
        return p;
    a.dtype = product->type[0].dtype;
    return graph_append(g, OP_convert, &a, &(GValue){p, 0}, 1, product->type, 1, product->span);
}

static bool is_place(const Node *n) { return n->op == OP_argmax || n->op == OP_argmin; }

static bool has_other(const Graph *body)
{
    bool has = false;

    for (const Node *n = body->first; n; n = n->next)
        has |= is_place(n) || region_looks_up(n);
    return has;
}

/* Where the elements lie that are looked up: one more operand. */
static Node *places_operand(Graph *g, const Node *n)
{
    TType y = n->type[0];

    y.dtype = DT_int64;
    y.weak = 0;
    y.policy = NULL;
    y.rank = (uint8_t)(y.rank - index_rest(n));
    return graph_param(g, &y).node;
}

static Node *looked_up(Graph *g, const Node *n, Node *table, Node *places)
{
    Attr a = *n->attr;

    a.i = 1;
    return graph_append(g, OP_index, &a, (GValue[]){{table, 0}, {places, 0}}, 2, n->type, 1, n->span);
}

Graph *schedule_epilogue(Graph *body, const Node **product)
{
    Node **at, **places;
    Graph *g;

    *product = find_product(body);
    if (!*product && !has_other(body))
        return graph_ref(body);
    g = graph_new(body->name);
    at = tsr_calloc(sizeof *at * (body->nnodes + 1));
    for (int i = 0; i < body->params.n; i++)
        at[body->params.at[i]->id] = graph_param(g, &body->params.at[i]->type[0]).node;
    places = tsr_calloc(sizeof *places * (body->nnodes + 1));
    for (const Node *n = body->first; n; n = n->next)
        if (region_looks_up(n))
            places[n->id] = places_operand(g, n);
    if (*product)
        at[(*product)->id] = product_operand(g, *product);
    for (const Node *n = body->first; n; n = n->next) {
        GValue in[8];
        if (at[n->id])
            continue;
        for (int i = 0; i < n->nin; i++)
            in[i] = (GValue){at[n->in[i].node->id], n->in[i].index};
        at[n->id] = is_place(n) ? schedule_place_of_extreme(g, n, in[0].node)
                    : region_looks_up(n) ? looked_up(g, n, in[0].node, places[n->id])
                                : graph_append(g, (OpId)n->op, n->attr, in, n->nin, n->type, n->nout, n->span);
    }
    for (int i = 0; i < body->results.n; i++)
        graph_result(g, (GValue){at[body->results.at[i].node->id], body->results.at[i].index});
    tsr_free(at);
    tsr_free(places);
    return g;
}
