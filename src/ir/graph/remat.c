/*
 * Checkpoints that keep some values.
 *
 * A checkpointed region keeps its operands and runs again in the backward pass.
 * To keep more, the region is cut at the values to keep: each becomes the
 * result of a checkpointed call of its own, whose operands are the region's and the values
 * kept before.  The backward pass then holds the kept values and, one after
 * the other, what a single piece needs.  What a later piece needs of an
 * earlier one without its being kept is computed there again.
 */
#include "ir/graph/control.h"

#include <string.h>

typedef struct Cut {
    Trace *T;
    const Graph *g;
    const Keep *keep;
    Tensor **val;               /* node id -> value of a parameter or kept node. Owned */
    bool *need;                 /* node id -> does the piece being made compute it? */
    GValue *at;                 /* node id -> the node in the piece */
} Cut;

static bool has_mark(const Keep *k, const Node *n)
{
    const Attr *a = n->attr;

    if (n->op != OP_call || a->kind || !a->name || strncmp(a->name->text, KEEP_MARK, sizeof KEEP_MARK - 1))
        return false;
    if (k->kind == KEEP_MARKED)
        return true;
    for (int i = 0; i < k->nnames; i++)
        if (!strcmp(k->name[i]->text, a->name->text + sizeof KEEP_MARK - 1))
            return true;
    return false;
}

static bool is_kept(const Keep *k, const Node *n)
{
    if (n->op >= OP_COUNT || n->nout != 1)
        return false;
    return k->kind == KEEP_DOTS ? op_info[n->op].family == FAM_CONTRACT : has_mark(k, n);
}

/* Mark what the target needs, back to values that are there; nodes come after their operands. */
static void mark_needed(Cut *c, const Node *last)
{
    for (const Node *n = last ? last : c->g->last; n; n = n->prev)
        for (int i = 0; c->need[n->id] && i < n->nin; i++)
            if (!c->val[n->in[i].node->id])
                c->need[n->in[i].node->id] = true;
}

/* The value as an operand of the piece: a new parameter for one that is there. */
static GValue operand(Cut *c, Graph *piece, Tensors *in, GValue v)
{
    uint32_t id = v.node->id;

    if (c->val[id] && !c->at[id].node) {
        TType y = tensor_type(c->val[id]);
        y.weak = 0;
        c->at[id] = graph_param(piece, &y);
        tensors_push(in, &c->val[id], 1);
    }
    return (GValue){c->at[id].node, v.index};
}

static void copy_node(Cut *c, Graph *piece, Tensors *in, const Node *n)
{
    GValue few[16], *v = n->nin <= 16 ? few : tsr_alloc(sizeof *v * n->nin);

    for (int i = 0; i < n->nin; i++)
        v[i] = operand(c, piece, in, n->in[i]);
    piece->scope = n->scope;
    c->at[n->id].node = graph_append(piece, (OpId)n->op, n->attr, v, n->nin, n->type, n->nout, n->span);
    if (v != few)
        tsr_free(v);
}

/* The piece that computes `last` (NULL: the region's results), run as a checkpointed call. */
static bool run_piece(Cut *c, Node *last, Tensor **out, int *nout)
{
    Graph *piece = graph_new(sym("checkpoint"));
    Tensors in = {0};
    Attr a = attr_default();
    bool ok;

    memset(c->at, 0, sizeof *c->at * (c->g->nnodes + 1));
    mark_needed(c, last);
    for (Node *n = c->g->first; n; n = n->next)
        if (c->need[n->id])
            copy_node(c, piece, &in, n);
    if (last)
        graph_result(piece, c->at[last->id]);
    for (int i = 0; !last && i < c->g->results.n; i++)
        graph_result(piece, operand(c, piece, &in, c->g->results.at[i]));
    a.kind = 1;
    a.region[0] = piece;
    ok = op_dispatch(c->T, OP_call, &a, in.at, in.n, out, nout);
    graph_unref(piece);
    tensors_done(&in);
    memset(c->need, 0, c->g->nnodes + 1);
    return ok;
}

/* Effects happen once, in the first piece that comes after them. */
static bool is_root(const Node *n)
{
    return n->op < OP_COUNT && (op_info[n->op].flags & (OPF_IO | OPF_STATE | OPF_RAISE)) && !n->nout;
}

bool checkpoint_keeping(Trace *T, const Graph *g, const Keep *keep, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    size_t n = g->nnodes + 1;
    Cut c = {T, g, keep, tsr_calloc(sizeof(Tensor *) * n), tsr_calloc(n), tsr_calloc(sizeof(GValue) * n)};
    Span at = T->span;
    int one;
    bool ok = true;

    for (int i = 0; i < nin; i++)
        c.val[g->params.at[i]->id] = tensor_ref(in[i]);
    for (Node *k = g->first; ok && k; k = k->next) {
        c.need[k->id] |= is_root(k);
        if (!is_kept(keep, k))
            continue;
        c.need[k->id] = true;
        ok = run_piece(&c, k, &c.val[k->id], &one);
        T->span = k->span.hi ? k->span : at;    /* the next piece is what keeps it */
    }
    for (int i = 0; i < g->results.n; i++)
        c.need[g->results.at[i].node->id] |= !c.val[g->results.at[i].node->id];
    ok = ok && run_piece(&c, NULL, out, nout);
    T->span = at;
    for (size_t i = 0; i < n; i++)
        tensor_unref(c.val[i]);
    tsr_free(c.val);
    tsr_free(c.need);
    tsr_free(c.at);
    return ok;
}
