/*
 * Sizes that a graph's conditions say are equal become one, so that what has them can be fused: both halves of x[:, :64] and x[:, 64:], which are
 * min(n, 64) and n - min(n, 64) long, where a call has added them.
 */
#include "ir/schedule/schedule.h"

#include "ir/core/dim_ask.h"

typedef struct Equal { Dim from, to; } Equal;
typedef Vec(Equal) Equals;

static Dim stands_for(const Equals *e, Dim d)
{
    for (int i = 0; i < e->n; i++)
        if (e->at[i].from == d)
            return e->at[i].to;
    return d;
}

/* One of both stands for the other, and for what that stood for: a number rather than anything else. */
static void join(Equals *e, Dim a, Dim b)
{
    a = stands_for(e, a);
    b = stands_for(e, b);
    if (a == b)
        return;
    if (dim_is_const(b)) {
        Dim c = a;
        a = b;
        b = c;
    }
    for (int i = 0; i < e->n; i++)
        if (e->at[i].to == b)
            e->at[i].to = a;
    vec_push(e, ((Equal){b, a}));
}

/* Put in what stands for the sizes of the nodes' results, or say only whether there are such. Parameters bind theirs, and regions are apart. */
static bool replace(const Equals *e, Graph *g, bool in_place)
{
    bool any = false;

    for (Node *n = g->first; n; n = n->next)
        for (int k = 0; n->op != GRAPH_PARAM && !(op_info[n->op].flags & OPF_REGIONS) && k < n->nout; k++)
            for (int i = 0; i < n->type[k].rank; i++) {
                Dim d = stands_for(e, n->type[k].shape[i]);
                any |= d != n->type[k].shape[i];
                if (in_place)
                    n->type[k].shape[i] = d;
            }
    return any;
}

Graph *schedule_equal(Graph *g)
{
    Equals e = {0};
    Graph *out = NULL;

    for (int i = 0; i < g->conds.n; i++)
        if (g->conds.at[i].rel == DIM_IS_EQ)
            join(&e, g->conds.at[i].a, g->conds.at[i].b);
    if (e.n && replace(&e, g, false)) {
        out = graph_clone(g);
        replace(&e, out, true);
    }
    vec_free(&e);
    return out;
}
