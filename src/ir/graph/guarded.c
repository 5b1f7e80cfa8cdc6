/*
 * Checks of code that may not count.
 *
 * Where examples of a batch part ways, both arms of a branch run for all of
 * them, and a loop goes on for those that are done.  A check in there must only
 * look at the examples that take it: `check(c)` becomes `check(c or not active)`, with `active` as a further
 * parameter, which regions further in are given too.  For the others, what an op could fail with is harmless: indices
 * and exponents of ints are 0, what ints are divided by is 1, and matrices that are to be factored are the identity.
 */
#include "ir/graph/control.h"

#include <string.h>

typedef struct Guarding { Graph *to; GValue *at; GValue idle; GValue active; } Guarding;

static const TType truth = {.dtype = DT_bool};

static GValue append(Graph *g, OpId op, const GValue *in, int nin, const TType *t, Span span)
{
    return (GValue){graph_append(g, op, NULL, in, nin, t, 1, span), 0};
}

/* The node's operands in the new graph, with room for one more in front. */
static GValue *operands(const Guarding *g, const Node *n)
{
    GValue *in = tsr_alloc(sizeof *in * ((size_t)n->nin + 2));

    for (int i = 0; i < n->nin; i++)
        in[i + 1] = (GValue){g->at[n->in[i].node->id].node, n->in[i].index};
    return in + 1;
}

/* An op whose regions have checks: they are guarded by a capture in front of the others. */
static Node *guard_regions(Guarding *g, const Node *n, GValue *in)
{
    int first = n->op == OP_cond;
    Attr a = *n->attr;
    Node *made;

    for (int k = 0; k < 4; k++)
        if (a.region[k])
            a.region[k] = graph_guarded(a.region[k], true);
    if (n->op == OP_while || n->op == OP_scan)
        a.n++;
    if (first)
        in[-1] = in[0];
    in[first - 1] = g->active;
    made = graph_append(g->to, (OpId)n->op, &a, in - 1, n->nin + 1, n->type, n->nout, n->span);
    for (int k = 0; k < 4; k++)
        graph_unref(a.region[k]);
    return made;
}

static bool of_ints(const Node *n) { return !dtype_is_inexact((DType)n->type[0].dtype); }

/* Is operand i an index, or the exponent of an int, which may not be negative? */
static bool is_place(const Node *n, int i)
{
    switch (n->op) {
    case OP_index: return i > 0;
    case OP_index_put: case OP_index_add: return i > 1;
    case OP_pow: return i == 1 && of_ints(n);
    default: return false;
    }
}

/* May operand i be a zero that ints are divided by? */
static bool is_divisor(const Node *n, int i)
{
    return i == 1 && (n->op == OP_floordiv || n->op == OP_mod) && !n->attr->i && of_ints(n);
}

/* May operand i be a matrix without these factors? */
static bool is_matrix(const Node *n, int i) { return i == 0 && (n->op == OP_cholesky || n->op == OP_eigh || n->op == OP_svd); }

bool graph_wants_guard(const Graph *g)
{
    bool wants = graph_effects(g) & OPF_RAISE;

    for (const Node *n = g->first; n && !wants; n = n->next) {
        for (int i = 0; i < n->nin; i++)
            wants |= is_place(n, i) || is_divisor(n, i) || is_matrix(n, i);
        for (int k = 0; n->op != GRAPH_PARAM && k < 4; k++)
            wants |= n->attr->region[k] && graph_wants_guard(n->attr->region[k]);
    }
    return wants;
}

static bool takes_guard(const Node *n)
{
    bool wants = false;

    if (n->op != OP_cond && n->op != OP_call && n->op != OP_while && n->op != OP_scan)
        return false;
    for (int k = 0; k < 4; k++)
        wants |= n->attr->region[k] && graph_wants_guard(n->attr->region[k]);
    return wants;
}

static GValue as_number(Guarding *g, GValue truth_value, uint8_t dtype, Span span)
{
    TType one = {.dtype = dtype};
    Attr a = attr_default();

    a.dtype = dtype;
    return (GValue){graph_append(g->to, OP_convert, &a, &truth_value, 1, &one, 1, span), 0};
}

/* The int where the code counts, else 0 (or 1). */
static GValue harmless(Guarding *g, GValue x, bool one, Span span)
{
    TType t = *gvalue_type(x);
    GValue y = append(g->to, OP_mul, (GValue[]){x, as_number(g, g->active, t.dtype, span)}, 2, &t, span);

    return one ? append(g->to, OP_add, (GValue[]){y, as_number(g, g->idle, t.dtype, span)}, 2, &t, span) : y;
}

/* Numbers along an axis of what has this shape. */
static GValue places(Guarding *g, const TType *shape, int axis, Span span)
{
    TType t = {.dtype = DT_int32, .rank = shape->rank};
    Attr a = attr_iota(DT_int32, shape->rank, shape->shape, axis);

    memcpy(t.shape, shape->shape, sizeof(Dim) * shape->rank);
    return (GValue){graph_append(g->to, OP_iota, &a, NULL, 0, &t, 1, span), 0};
}

/* The matrices where the code counts, else the identity. */
static GValue with_factors(Guarding *g, GValue x, Span span)
{
    TType t = *gvalue_type(x), is = t;
    GValue same, one;
    Attr a = attr_default();

    is.dtype = DT_bool;
    is.weak = 0;
    same = append(g->to, OP_eq, (GValue[]){places(g, &t, -2, span), places(g, &t, -1, span)}, 2, &is, span);
    a.dtype = t.dtype;
    one = (GValue){graph_append(g->to, OP_convert, &a, &same, 1, &t, 1, span), 0};
    return append(g->to, OP_where, (GValue[]){g->active, x, one}, 3, &t, span);
}

static Node *copy(Guarding *g, const Node *n)
{
    GValue *in = operands(g, n);
    Node *made;

    g->to->scope = n->scope;
    if (n->op == OP_check) {
        TType t = *gvalue_type(in[0]);
        in[0] = append(g->to, OP_bitor, (GValue[]){in[0], g->idle}, 2, &t, n->span);
    }
    for (int i = 0; i < n->nin; i++)
        if (is_matrix(n, i))
            in[i] = with_factors(g, in[i], n->span);
        else if (is_place(n, i) || is_divisor(n, i))
            in[i] = harmless(g, in[i], is_divisor(n, i), n->span);
    made = takes_guard(n) ? guard_regions(g, n, in)
                          : graph_append(g->to, (OpId)n->op, n->attr, in, n->nin, n->type, n->nout, n->span);
    made->again = n->again;
    tsr_free(in - 1);
    return made;
}

Graph *graph_guarded(const Graph *from, bool when)
{
    Guarding g = {.to = graph_new(from->name), .at = tsr_calloc(sizeof *g.at * (from->nnodes + 1))};
    GValue p = graph_param(g.to, &truth);

    for (int i = 0; i < from->params.n; i++)
        g.at[from->params.at[i]->id] = graph_param(g.to, &from->params.at[i]->type[0]);
    g.idle = append(g.to, OP_lnot, &p, 1, &truth, (Span){0, 0});
    g.active = p;
    if (!when) {
        GValue swap = g.idle;
        g.idle = p;
        g.active = swap;
    }
    for (const Node *n = from->first; n; n = n->next)
        if (n->op != GRAPH_PARAM)
            g.at[n->id].node = copy(&g, n);
    g.to->scope = NULL;
    for (int i = 0; i < from->results.n; i++)
        graph_result(g.to, (GValue){g.at[from->results.at[i].node->id].node, from->results.at[i].index});
    for (int i = 0; i < from->conds.n; i++)
        vec_push(&g.to->conds, from->conds.at[i]);
    tsr_free(g.at);
    return g.to;
}
