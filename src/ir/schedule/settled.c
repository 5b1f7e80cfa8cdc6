/*
 * What a graph need not say any more once it is compiled, and not differentiated.
 *
 * as_softmax and stop_gradient are their first operand.  (A @ B)^T is B^T @ A^T where somebody needs it in memory or element by element: the
 * same sums in the same order, and nothing is left to turn.  Products and views take a transpose as it is.
 */
#include "ir/schedule/schedule.h"

#include "base/alloc.h"

static bool is_rule(const Node *n) { return n->op == OP_as_softmax || n->op == OP_stop_gradient; }

static GValue without_rule(GValue v)
{
    while (is_rule(v.node))
        v = v.node->in[0];
    return v;
}

static void drop_rules(Graph *g)
{
    for (Node *n = g->first; n; n = n->next)
        for (int i = 0; i < n->nin; i++)
            graph_use(&n->in[i], without_rule(n->in[i]));
    for (int i = 0; i < g->results.n; i++)
        graph_use(&g->results.at[i], without_rule(g->results.at[i]));
}

/* The last two axes change places, and no others do. */
static bool swaps(const Node *n)
{
    const Attr *a = n->attr;

    if (n->op != OP_permute || a->naxes < 2 || a->axis[a->naxes - 2] != -1 || a->axis[a->naxes - 1] != -2)
        return false;
    for (int i = 0; i < a->naxes - 2; i++)
        if (a->axis[i] != i - a->naxes)
            return false;
    return true;
}

/* A product that nobody else looks at, turned. */
static bool is_turned(const Node *n)
{
    const Node *x = swaps(n) ? n->in[0].node : NULL;

    return x && x->op == OP_matmul && x->nuse == 1 && !x->attr->policy && n->scope == x->scope;
}

static bool hands_on(const Node *n) { return n->op == OP_permute || n->op == OP_slice || n->op == OP_broadcast; }

/* node id -> does somebody need its value laid out in its own order? */
static bool *find_needed(const Graph *g)
{
    bool *needed = tsr_calloc(g->nnodes + 1);

    for (int i = 0; i < g->results.n; i++)
        needed[g->results.at[i].node->id] = true;
    for (const Node *n = g->last; n; n = n->prev)
        for (int i = 0; i < n->nin; i++)
            needed[n->in[i].node->id] |= hands_on(n) ? needed[n->id] : n->op != OP_matmul;
    return needed;
}

static GValue turned(Graph *g, Node *n, GValue x)
{
    TType t = *gvalue_type(x);
    Dim last = t.shape[t.rank - 1];
    Attr a = attr_default();

    t.shape[t.rank - 1] = t.shape[t.rank - 2];
    t.shape[t.rank - 2] = last;
    a.naxes = 2;
    a.axis[0] = -1;
    a.axis[1] = -2;
    return graph_value_before(g, n, OP_permute, &a, &x, 1, &t);
}

static GValue product_turned(Graph *g, Node *n)
{
    const Node *x = n->in[0].node;
    GValue in[2] = {turned(g, n, x->in[1]), turned(g, n, x->in[0])};

    return graph_value_before(g, n, OP_matmul, x->attr, in, 2, n->type);
}

/* Is there anything to settle? A turned product that nobody needs as it lies stays. */
static bool is_unsettled(const Graph *g)
{
    bool *needed = find_needed(g), any = false;

    for (const Node *n = g->first; n && !any; n = n->next)
        any = is_rule(n) || (needed[n->id] && is_turned(n));
    tsr_free(needed);
    return any;
}

static void turn_products(Graph *g)
{
    bool *needed = find_needed(g);
    uint32_t n = g->nnodes;
    GValue *by = tsr_calloc(sizeof *by * (n + 1));

    for (Node *x = g->first; x; x = x->next) {
        for (int i = 0; i < x->nin; i++)
            if (x->in[i].node->id < n && by[x->in[i].node->id].node)
                graph_use(&x->in[i], by[x->in[i].node->id]);
        if (x->id < n && needed[x->id] && is_turned(x))
            by[x->id] = product_turned(g, x);
    }
    for (int i = 0; i < g->results.n; i++)
        if (g->results.at[i].node->id < n && by[g->results.at[i].node->id].node)
            graph_use(&g->results.at[i], by[g->results.at[i].node->id]);
    tsr_free(by);
    tsr_free(needed);
}

Graph *schedule_settled(const Graph *g)
{
    Graph *out;

    if (!is_unsettled(g))
        return NULL;
    out = graph_clone(g);
    drop_rules(out);
    turn_products(out);
    graph_fold(out);
    return out;
}
