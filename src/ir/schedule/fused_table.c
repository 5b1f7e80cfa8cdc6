/*
 * Bodies that look up in tables: where the elements lie, before the kernel runs (lower_table.c has what it does with that).
 *
 * The numbers are resolved and checked as the reference kernel does.  What kernels do not walk (a number out of range, a table on
 * a GPU) is done in two steps: each `index` by its own kernel, then the rest as a fused node, whose bits are the same.
 */
#include "ir/schedule/fused_impl.h"

#include "ir/graph/level.h"

#include "base/alloc.h"
#include "runtime/indices.h"

#include <string.h>

enum { LOOKED_UP_MOST = 8, SHORT_ROW = 32 };

bool fused_looks_up(const Graph *body)
{
    for (const Node *n = body->first; n; n = n->next)
        if (region_looks_up(n))
            return true;
    return false;
}

static Tensor *operand(const Run *u, const Node *n)
{
    for (int i = 0; i < u->c->whole->params.n; i++)
        if (u->c->whole->params.at[i] == n)
            return u->x[i];
    return NULL;
}

/* Elements that lie together for each number. A kernel takes rows one by one, so short ones are better looked up by themselves. */
static bool are_short(const Node *n, const Tensor *table)
{
    int64_t each = 1;

    for (int i = n->attr->m + n->attr->n; i < table->rank; i++)
        each *= table->shape[i];
    return each > 1 && each < SHORT_ROW;
}

static Tensor *places(const Run *u, const Node *n)
{
    Tensor *in[LOOKED_UP_MOST];
    int64_t shape[RANK_MAX];

    if (n->nin > LOOKED_UP_MOST)
        return NULL;
    for (int i = 0; i < n->nin; i++)
        if (!(in[i] = operand(u, n->in[i].node)))
            return NULL;
    if (are_short(n, in[0]))
        return NULL;
    int rank = index_shape(n->attr, in, 1, shape);
    return fused_state.rehearses ? fused_ghost(DT_int64, rank, shape) : index_places(n->attr, in);
}

bool fused_places(Run *u)
{
    int at = u->c->whole->params.n;

    for (const Node *n = u->c->whole->first; n; n = n->next)
        if (region_looks_up(n) && !(u->x[at++] = places(u, n)))
            return false;
    return true;
}

/* ---- in two steps ---- */

typedef struct Apart {
    Graph *g, *rest;
    Node **outer, **inner;      /* node of the body -> its copy there */
    GValue operand[REGION_OPERANDS];
    int n;
} Apart;

static void give(Apart *p, const Node *n, Node *copy)
{
    p->outer[n->id] = copy;
    p->inner[n->id] = graph_param(p->rest, &n->type[0]).node;
    p->operand[p->n++] = (GValue){copy, 0};
}

static void copy_into(const Node *n, Graph *g, Node **at, Node **out)
{
    GValue in[8];

    for (int i = 0; i < n->nin; i++)
        in[i] = (GValue){at[n->in[i].node->id], n->in[i].index};
    *out = graph_append(g, (OpId)n->op, n->attr, in, n->nin, n->type, n->nout, n->span);
}

static void copy_nodes(Apart *p, const Graph *body)
{
    Node *copy;

    for (int i = 0; i < body->params.n; i++)
        give(p, body->params.at[i], graph_param(p->g, &body->params.at[i]->type[0]).node);
    for (const Node *n = body->first; n; n = n->next)
        if (region_looks_up(n)) {
            copy_into(n, p->g, p->outer, &copy);
            give(p, n, copy);
        }
    for (const Node *n = body->first; n; n = n->next)
        if (!p->inner[n->id])
            copy_into(n, p->rest, p->inner, &p->inner[n->id]);
}

/* The rest as a fused node, whose results are those of the body that it computes; NULL: there are none. */
static Node *append_rest(Apart *p, const Graph *body, const Attr *how)
{
    TType type[REGION_OPERANDS];
    Attr a = attr_default();
    int n = 0;

    for (int i = 0; i < body->results.n; i++) {
        GValue v = body->results.at[i];
        if (p->outer[v.node->id])               /* looked up, or handed on */
            continue;
        type[n++] = *gvalue_type(v);
        graph_result(p->rest, (GValue){p->inner[v.node->id], v.index});
    }
    a.region[0] = p->rest;
    a.name = how->name;
    return n ? graph_append(p->g, OP_fused, &a, p->operand, p->n, type, n, (Span){0}) : NULL;
}

Graph *fused_apart(const Graph *body, const Attr *how)
{
    size_t size = sizeof(Node *) * ((size_t)body->nnodes + 1);
    Apart p = {graph_new(body->name), graph_new(body->name), tsr_calloc(size), tsr_calloc(size), .n = 0};
    Node *made;

    copy_nodes(&p, body);
    made = append_rest(&p, body, how);
    for (int i = 0, n = 0; i < body->results.n; i++) {
        GValue v = body->results.at[i];
        Node *direct = p.outer[v.node->id];
        graph_result(p.g, direct ? (GValue){direct, v.index} : (GValue){made, n++});
    }
    graph_unref(p.rest);
    tsr_free(p.outer);
    tsr_free(p.inner);
    return p.g;
}

int fused_run_apart(Trace *T, const Graph *body, const Attr *a, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Graph *g = fused_apart(body, a);
    bool ok = graph_apply(T, g, in, nin, out, nout);

    graph_unref(g);
    return ok ? 1 : -1;
}
