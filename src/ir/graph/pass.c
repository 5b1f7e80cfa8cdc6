/*
 * The passes: fold, cse, dce.
 *
 * Each walks the nodes once in order with facts in arrays by node id, and
 * keeps node order, so effects stay ordered.  Regions are visited first.
 */
#include "ir/graph/level.h"

#include <string.h>

enum { FOLD_MAX = 4096 };               /* elements a folded constant may have */

const PassInfo graph_pass[] = {
#define PASS(name, function, when, help) {#name, help, function, PASS_##when},
#include "ir/graph/pass.def"
    {0},
};

const PassInfo *graph_pass_find(const char *name)
{
    for (const PassInfo *p = graph_pass; p->name; p++)
        if (!strcmp(p->name, name))
            return p;
    return NULL;
}

void graph_optimise(Graph *g)
{
    for (const PassInfo *p = graph_pass; p->name; p++)
        if (p->when == PASS_STAGED)
            p->run(g);
}

static bool in_regions(Graph *g, GraphPass run)
{
    bool changed = false;

    for (Node *n = g->first; n; n = n->next)
        for (int k = 0; k < 4; k++)
            if (n->attr->region[k])
                changed |= run(n->attr->region[k]);
    return changed;
}

/* -- dce ------------------------------------------------------------------------------------------------------------------ */

/* Must the node run even when nobody looks at its results? */
static bool must_stay(const Node *n)
{
    return n->op == GRAPH_PARAM || node_effects(n) & ~(unsigned)OPF_RANDOM;
}

bool graph_dce(Graph *g)
{
    bool changed = in_regions(g, graph_dce);

    for (Node *n = g->last, *prev; n; n = prev) {
        prev = n->prev;
        if (!n->nuse && !must_stay(n)) {
            graph_unlink(g, n);
            changed = true;
        }
    }
    if (changed) {                      /* what was forgotten must not be found again */
        map_done(&g->cse);
        memset(&g->cse, 0, sizeof g->cse);
    }
    return changed;
}

/* -- replacing ---------------------------------------------------------------------------------------------------------------- */

static void use(GValue *at, GValue v)
{
    at->node->nuse--;
    v.node->nuse++;
    *at = v;
}

/* Let users of a's results see those of b, from b's result `shift` on. */
static void replace_uses(Graph *g, Node *a, Node *b, int shift)
{
    for (Node *n = a->next; n && a->nuse; n = n->next)
        for (int i = 0; i < n->nin; i++)
            if (n->in[i].node == a)
                use(&n->in[i], (GValue){b, n->in[i].index + shift});
    for (int i = 0; i < g->results.n; i++)
        if (g->results.at[i].node == a)
            use(&g->results.at[i], (GValue){b, g->results.at[i].index + shift});
}

/* -- cse -------------------------------------------------------------------------------------------------------------------- */

bool graph_cse(Graph *g)
{
    bool changed = in_regions(g, graph_cse);

    map_done(&g->cse);
    memset(&g->cse, 0, sizeof g->cse);
    for (Node *n = g->first, *next; n; n = next) {
        Node *same;
        next = n->next;
        if (n->op == GRAPH_PARAM || !(same = graph_find_or_file(g, n)))
            continue;
        replace_uses(g, n, same, 0);
        graph_unlink(g, n);
        changed = true;
    }
    return changed;
}

/* -- fold --------------------------------------------------------------------------------------------------------------------- */

/* A move that gives its operand back. */
static bool is_identity(const Node *n)
{
    const TType *x, *y;

    if (n->op == GRAPH_PARAM || n->nin != 1 || n->nout != 1)
        return false;
    x = gvalue_type(n->in[0]), y = &n->type[0];
    if (x->dtype != y->dtype || x->rank != y->rank || x->policy != y->policy || memcmp(x->shape, y->shape, sizeof(Dim) * x->rank))
        return false;
    switch (n->op) {
    case OP_reshape: case OP_broadcast:
        return true;
    case OP_convert:
        return !n->attr->flush;
    case OP_permute:
        for (int i = 0; i < n->attr->naxes; i++)
            if (n->attr->axis[i] != i - n->attr->naxes)
                return false;
        return true;
    default:
        return false;
    }
}

static bool small(const TType *y)
{
    int64_t n = 1;

    for (int i = 0; i < y->rank; i++) {
        if (!dim_is_const(y->shape[i]) || (y->shape[i] && n > FOLD_MAX / y->shape[i]))
            return false;
        n *= y->shape[i];
    }
    return n <= FOLD_MAX;
}

/* The node's value if all it depends on are constants; NULL otherwise, also when it would raise. */
static Tensor *folded(Node *n)
{
    Tensor *in[16], *out[1] = {NULL};
    Trace T;
    int nout;
    bool ok;

    if (n->op == GRAPH_PARAM || n->op == OP_constant || n->nout != 1 || n->nin == 0 || n->nin > 16 || n->flags & NODE_SYMBOLIC ||
        op_info[n->op].family >= FAM_CONTROL || n->op == OP_stop_gradient || !small(&n->type[0]))
        return NULL;
    for (int i = 0; i < n->nin; i++) {
        if (n->in[i].node->op != OP_constant)
            return NULL;
        in[i] = n->in[i].node->attr->value;
    }
    trace_init(&T);
    ok = apply_concrete(&T, (OpId)n->op, n->attr, in, n->nin, out, &nout);
    trace_done(&T);
    return ok ? out[0] : NULL;
}

static void become_constant(Graph *g, Node *n, Tensor *value)
{
    Attr a = attr_default();
    Node *c;

    a.value = value;
    c = graph_append(g, OP_constant, &a, NULL, 0, n->type, 1, n->span);
    graph_move_before(g, c, n);
    replace_uses(g, n, c, 0);
}

bool graph_fold(Graph *g)
{
    bool changed = in_regions(g, graph_fold);

    for (Node *n = g->first, *next; n; n = next) {
        Tensor *v;
        next = n->next;
        if (is_identity(n) && n->nuse) {
            replace_uses(g, n, n->in[0].node, n->in[0].index);
            changed = true;
        } else if (n->nuse && (v = folded(n))) {
            become_constant(g, n, v);
            tensor_unref(v);
            changed = true;
        }
    }
    return graph_dce(g) || changed;
}
