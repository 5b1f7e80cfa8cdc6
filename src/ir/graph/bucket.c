/*
 * buckets: sums over ranks that need nothing of each other become one.
 *
 * Each collective is a meeting of all ranks, and small tensors pay for little
 * else.  Sums that follow each other with no other effect between, along the
 * same axes and in the same dtype, are joined at the place of the first: their
 * operands lie end to end in one vector, which is summed, and the results are
 * views of it.  Every element is the sum of the same addends in the same order
 * as before.  What an operand needs moves before the first sum; a sum that
 * needs the result of another one stays where it is.
 */
#include "ir/graph/graph.h"
#include "ir/core/op.h"

#include "ir/graph/edit.h"

#include <string.h>

enum { BUCKET = 64, LARGE = 1 << 22 };      /* sums in one; elements from which on copying costs more than a meeting */

typedef struct Bucket { Node *sum[BUCKET]; int n; } Bucket;

static Dim elements(const TType *t)
{
    Dim n = 1;

    for (int i = 0; i < t->rank; i++)
        n = dim_mul(n, t->shape[i]);
    return n;
}

static bool is_small(const TType *t)
{
    int64_t n;

    return !dim_const_value(elements(t), &n) || n < LARGE;
}

static bool go_together(const Node *a, const Node *b)
{
    const TType *x = a->type, *y = b->type;

    return b->op == OP_all_reduce && x->dtype == y->dtype && x->weak == y->weak && x->policy == y->policy && a->scope == b->scope &&
           is_small(y) && graph_attr_same(a->attr, b->attr);
}

static bool reads(const Node *n, const bool *marked)
{
    for (int i = 0; i < n->nin; i++)
        if (marked[n->in[i].node->id])
            return true;
    return false;
}

/* What stands between the first sum and `to` and is needed for it, marked; false: it cannot move there. */
static bool mark_needed(const Node *first, const Node *to, const bool *tied, bool *needed)
{
    for (int i = 0; i < to->nin; i++)
        needed[to->in[i].node->id] = true;
    for (const Node *n = to->prev; n != first; n = n->prev) {
        if (!needed[n->id])
            continue;
        if (tied[n->id] || n->op == GRAPH_PARAM || node_effects(n))
            return false;
        for (int i = 0; i < n->nin; i++)
            needed[n->in[i].node->id] = true;
    }
    return true;
}

static void move_needed(Graph *g, Node *first, const Node *to, const bool *needed)
{
    for (Node *n = first->next, *next; n != to; n = next) {
        next = n->next;
        if (needed[n->id])
            graph_move_before(g, n, first);
    }
}

/*
 * The sums that can join `first`, whose operands are computed before it from now on.  tied: by id, what needs one of their
 * results.
 */
static void collect(Graph *g, Node *first, Bucket *b)
{
    bool *tied = tsr_calloc(g->nnodes + 1), *needed = tsr_calloc(g->nnodes + 1);

    b->n = 0;
    b->sum[b->n++] = first;
    tied[first->id] = true;
    for (Node *n = first->next; n && b->n < BUCKET; n = n->next) {
        bool joins = go_together(first, n) && !reads(n, tied);
        tied[n->id] = reads(n, tied);
        if (joins) {
            memset(needed, 0, g->nnodes + 1);
            joins = mark_needed(first, n, tied, needed);
        }
        if (joins) {
            move_needed(g, first, n, needed);
            b->sum[b->n++] = n;
            tied[n->id] = true;
        } else if (n->op != GRAPH_PARAM && node_effects(n) & ~(unsigned)OPF_RANDOM) {
            break;
        }
    }
    tsr_free(tied);
    tsr_free(needed);
}

static GValue shaped(Graph *g, Node *at, GValue v, const TType *type)
{
    Attr a = attr_default();

    a.nd[0] = type->rank;
    for (int i = 0; i < type->rank; i++)
        a.d[0][i] = type->shape[i];
    return graph_value_before(g, at, OP_reshape, &a, &v, 1, type);
}

static TType vector(const TType *like, Dim n)
{
    TType t = *like;

    t.rank = 1;
    t.shape[0] = n;
    return t;
}

/* [from, from + n) of the vector in the shape of the sum that it was, in its place. */
static GValue part(Graph *g, Node *sum, GValue total, Dim from)
{
    TType t = vector(sum->type, elements(sum->type));
    Attr a = attr_default();
    GValue v;

    a.nd[0] = a.nd[1] = a.nd[2] = 1;
    a.d[0][0] = from;
    a.d[1][0] = dim_add(from, t.shape[0]);
    a.d[2][0] = 1;
    v = graph_value_before(g, sum, OP_slice, &a, &total, 1, &t);
    return sum->type->rank == 1 ? v : shaped(g, sum, v, sum->type);
}

/* The sum of all. */
static Node *join(Graph *g, const Bucket *b)
{
    Node *first = b->sum[0];
    GValue in[BUCKET], total;
    Attr a = attr_default();
    Dim n = 0, from = 0;
    TType all;

    for (int i = 0; i < b->n; i++) {
        TType t = vector(b->sum[i]->type, elements(b->sum[i]->type));
        in[i] = b->sum[i]->type->rank == 1 ? b->sum[i]->in[0] : shaped(g, first, b->sum[i]->in[0], &t);
        n = dim_add(n, t.shape[0]);
    }
    all = vector(first->type, n);
    a.naxes = 1;
    a.axis[0] = -1;
    total = graph_value_before(g, first, OP_concat, &a, in, b->n, &all);
    total = graph_value_before(g, first, OP_all_reduce, first->attr, &total, 1, &all);
    total.node->token = first->token;
    for (int i = 0; i < b->n; i++) {
        GValue v = part(g, b->sum[i], total, from);
        from = dim_add(from, elements(b->sum[i]->type));
        graph_redirect(g, b->sum[i], v.node, b->sum[i]);
        graph_unlink(g, b->sum[i]);
    }
    return total.node;
}

bool graph_bucket(Graph *g)
{
    bool changed = false;
    Bucket b;

    for (Node *n = g->first; n; n = n->next) {
        for (int k = 0; k < 4; k++)
            if (n->attr && n->attr->region[k])
                changed |= graph_bucket(n->attr->region[k]);
        if (n->op != OP_all_reduce || !is_small(n->type))
            continue;
        collect(g, n, &b);
        if (b.n < 2)
            continue;
        n = join(g, &b);
        changed = true;
    }
    return changed;
}
