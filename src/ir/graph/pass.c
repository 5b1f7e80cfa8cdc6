/*
 * The passes: fold, cse, dce, algebra.
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

static bool verify(const void *g, StrBuf *err) { return graph_verify(g, err); }
static void print(const void *g, StrBuf *out) { graph_print_placed(g, "graph", out); }
const PassIr graph_ir = {verify, print};

bool graph_pass_run(const PassInfo *p, Graph *g)
{
    bool changed = pass_runs(p->name) && p->run(g);

    pass_done(p->name, &graph_ir, g);
    return changed;
}

void graph_optimise(Graph *g)
{
    pass_done("stage", &graph_ir, g);
    for (const PassInfo *p = graph_pass; p->name; p++)
        if (p->when == PASS_STAGED)
            graph_pass_run(p, g);
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

/* A division of ints, which fails where the divisor is zero: plain calls compute it, and say so. */
static bool may_fail(const Node *n)
{
    const Tensor *by;

    if ((n->op != OP_floordiv && n->op != OP_mod) || dtype_is_float((DType)n->type[0].dtype))
        return false;
    by = n->in[1].node->op == OP_constant ? n->in[1].node->attr->value : NULL;
    return !by || by->rank || !elem_get_i(by, by->offset);
}

/* Must the node run even when nobody looks at its results? */
static bool must_stay(const Node *n)
{
    return n->op == GRAPH_PARAM || node_effects(n) & ~(unsigned)OPF_RANDOM || may_fail(n);
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

/*
 * What stands for the results of each node, by id: a pass that replaces nodes in order tells their
 * users when it comes to them, so that it walks the graph once.  node NULL: nothing does.
 */
typedef struct { GValue *by; uint32_t n; } Standins;

static Standins standins_new(const Graph *g)
{
    return (Standins){tsr_calloc(sizeof(GValue) * (g->nnodes + 1)), g->nnodes};
}

static void stand_in(Standins *s, const Node *n, GValue by)
{
    s->by[n->id] = by;
}

static void tell(const Standins *s, GValue *at)
{
    GValue by = at->node->id < s->n ? s->by[at->node->id] : (GValue){NULL, 0};

    if (by.node)
        graph_use(at, (GValue){by.node, at->index + by.index});
}

static void tell_node(const Standins *s, Node *n)
{
    for (int i = 0; i < n->nin; i++)
        tell(s, &n->in[i]);
}

static void standins_done(Graph *g, Standins *s)
{
    for (int i = 0; i < g->results.n; i++)
        tell(s, &g->results.at[i]);
    tsr_free(s->by);
}

/* -- cse -------------------------------------------------------------------------------------------------------------------- */

bool graph_cse(Graph *g)
{
    bool changed = in_regions(g, graph_cse);
    Standins found = standins_new(g);
    Vec(Node *) twins = {0};

    map_done(&g->cse);
    memset(&g->cse, 0, sizeof g->cse);
    for (Node *n = g->first, *next; n; n = next) {
        Node *same;
        next = n->next;
        tell_node(&found, n);
        if (n->op == GRAPH_PARAM || !(same = graph_find_or_file(g, n)))
            continue;
        stand_in(&found, n, (GValue){same, 0});
        vec_push(&twins, n);
    }
    standins_done(g, &found);
    for (int i = 0; i < twins.n; i++)
        graph_unlink(g, twins.at[i]);
    changed |= twins.n > 0;
    vec_free(&twins);
    return changed;
}

/* -- fold --------------------------------------------------------------------------------------------------------------------- */

/* A conversion that changes no value which the dtype holds. */
static bool is_plain(const Node *n) { return !n->attr->flush && n->attr->f == 0 && !n->attr->name; }

/* A move that gives its operand back. A conversion may leave out the policy that a type names, unless a result has it. */
static bool is_identity(const Graph *g, const Node *n)
{
    const TType *x, *y;

    if (n->op == GRAPH_PARAM || n->nin != 1 || n->nout != 1)
        return false;
    x = gvalue_type(n->in[0]), y = &n->type[0];
    if (x->dtype != y->dtype || x->rank != y->rank || memcmp(x->shape, y->shape, sizeof(Dim) * x->rank) ||
        (x->policy != y->policy && (y->policy || n->op != OP_convert || graph_gives(g, n))))
        return false;
    switch (n->op) {
    case OP_reshape: case OP_broadcast:
        return true;
    case OP_convert:
        return is_plain(n);
    case OP_permute:
        for (int i = 0; i < n->attr->naxes; i++)
            if (n->attr->axis[i] != i - n->attr->naxes)
                return false;
        return true;
    default:
        return false;
    }
}

/* What a float was before it went to one that holds them all, if the node takes it back from there: nothing was rounded. node NULL: it does not. */
static GValue converted_back(const Graph *g, const Node *n)
{
    const Node *x = n->op == OP_convert ? n->in[0].node : NULL;
    const TType *was = x && x->op == OP_convert ? gvalue_type(x->in[0]) : NULL, *y = &n->type[0];

    if (!was || !is_plain(n) || !is_plain(x) || was->dtype != y->dtype || !dtype_is_float((DType)x->type[0].dtype) ||
        !dtype_holds((DType)x->type[0].dtype, (DType)y->dtype) || (was->policy != y->policy && (y->policy || graph_gives(g, n))))
        return (GValue){NULL, 0};
    return x->in[0];
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

static GValue constant_before(Graph *g, Node *n, Tensor *value)
{
    Attr a = attr_default();

    a.value = value;
    return graph_value_before(g, n, OP_constant, &a, NULL, 0, n->type);
}

bool graph_fold(Graph *g)
{
    bool changed = in_regions(g, graph_fold);
    Standins made = standins_new(g);

    for (Node *n = g->first, *next; n; n = next) {
        Tensor *v;
        GValue was;
        next = n->next;
        tell_node(&made, n);
        was = is_identity(g, n) ? n->in[0] : converted_back(g, n);
        if (was.node && n->nuse) {
            stand_in(&made, n, was);
            changed = true;
        } else if (n->nuse && (v = folded(n))) {
            stand_in(&made, n, constant_before(g, n, v));
            tensor_unref(v);
            changed = true;
        }
    }
    standins_done(g, &made);
    return graph_dce(g) || changed;
}

/* -- algebra ------------------------------------------------------------------------------------------------------------------ */

/* One permutation for two of as many axes: result axis i comes from axis[i] of x's operand. */
static GValue permute_twice(Graph *g, Node *n, const Node *x)
{
    Attr a = attr_default();
    bool moves = false;

    if (n->attr->naxes != x->attr->naxes)
        return (GValue){NULL, 0};
    a.naxes = n->attr->naxes;
    for (int i = 0; i < a.naxes; i++) {
        a.axis[i] = x->attr->axis[n->attr->axis[i] + a.naxes];
        moves |= a.axis[i] != i - a.naxes;
    }
    return moves ? graph_value_before(g, n, OP_permute, &a, x->in, 1, n->type) : x->in[0];
}

static bool swaps_last_two(const Node *n)
{
    return n->attr->naxes == 2 && n->attr->axis[0] == -1 && n->attr->axis[1] == -2;
}

static GValue transposed(Graph *g, Node *n, GValue x)
{
    TType t = *gvalue_type(x);
    Dim last = t.shape[t.rank - 1];

    t.shape[t.rank - 1] = t.shape[t.rank - 2];
    t.shape[t.rank - 2] = last;
    return graph_value_before(g, n, OP_permute, n->attr, &x, 1, &t);
}

/* (A @ B)^T is B^T @ A^T, when nobody else needs A @ B; each element is the same sum in the same order. */
static GValue product_transposed(Graph *g, Node *n, const Node *x)
{
    GValue in[2];

    if (!swaps_last_two(n) || x->nuse != 1)
        return (GValue){NULL, 0};
    in[0] = transposed(g, n, x->in[1]);
    in[1] = transposed(g, n, x->in[0]);
    return graph_value_before(g, n, OP_matmul, x->attr, in, 2, n->type);
}

static bool same_type(const TType *a, const TType *b)
{
    return a->dtype == b->dtype && a->rank == b->rank && a->policy == b->policy && !memcmp(a->shape, b->shape, sizeof(Dim) * a->rank);
}

/* A transform and its inverse: what went in, as the complex numbers that come out. */
static GValue transform_undone(Graph *g, Node *n, const Node *x)
{
    enum { FFT, IFFT, RFFT, IRFFT };
    int outer = n->attr->kind, inner = x->attr->kind;
    const TType *was = gvalue_type(x->in[0]);
    Attr a = attr_default();

    if (!(outer == FFT && inner == IFFT) && !(outer == IFFT && inner == FFT) && !(outer == IRFFT && inner == RFFT))
        return (GValue){NULL, 0};
    if (same_type(was, &n->type[0]))
        return x->in[0];
    if (outer == IRFFT || was->policy || dtype_is_complex((DType)was->dtype))
        return (GValue){NULL, 0};
    a.dtype = n->type[0].dtype;
    return graph_value_before(g, n, OP_convert, &a, x->in, 1, n->type);
}

/* What equals the node and is simpler; node NULL: nothing known. */
static GValue simpler(Graph *g, Node *n)
{
    const Node *x = n->op != GRAPH_PARAM && n->nin == 1 && n->nout == 1 ? n->in[0].node : NULL;

    if (x && n->op == OP_permute && x->op == OP_permute)
        return permute_twice(g, n, x);
    if (x && n->op == OP_permute && x->op == OP_matmul)
        return product_transposed(g, n, x);
    if (x && n->op == OP_fft && x->op == OP_fft)
        return transform_undone(g, n, x);
    if (x && n->op == x->op && (n->op == OP_neg || n->op == OP_conj) && same_type(gvalue_type(x->in[0]), &n->type[0]))
        return x->in[0];
    return (GValue){NULL, 0};
}

bool graph_algebra(Graph *g)
{
    bool changed = in_regions(g, graph_algebra);
    Standins made = standins_new(g);

    for (Node *n = g->first, *next; n; n = next) {
        GValue by;
        next = n->next;
        tell_node(&made, n);
        by = n->nuse ? simpler(g, n) : (GValue){NULL, 0};
        if (by.node) {
            stand_in(&made, n, by);
            changed = true;
        }
    }
    standins_done(g, &made);
    return graph_dce(g) || changed;
}
