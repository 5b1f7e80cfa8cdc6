/*
 * Building graphs.
 *
 * Nodes are appended in program order and typed by the op table.  A pure node
 * equal to one that exists is that one (hash-consing), so a graph under
 * construction has no common subexpressions; ops with regions and effects are
 * always new nodes, which also keeps a recomputed region (checkpoint) apart
 * from the original.
 */
#include "ir/graph/graph.h"

#include "ir/graph/edit.h"
#include "ir/graph/sizes.h"
#include "runtime/tensor.h"

#include <string.h>

static const Attr *plain_attr(void)
{
    static Attr a;
    static bool made;

    if (!made) {
        a = attr_default();
        made = true;
    }
    return &a;
}

void (*graph_code_free)(struct FusedCode *code);

Graph *graph_new(Sym name)
{
    Graph *g = tsr_calloc(sizeof *g);

    graph_init();
    g->refs = 1;
    g->name = name;
    return g;
}

Graph *graph_ref(Graph *g)
{
    if (g)
        g->refs++;
    return g;
}

static void drop_attr(const Attr *a)
{
    if (a == plain_attr())
        return;
    for (int i = 0; i < 4; i++)
        graph_unref(a->region[i]);
    tensor_unref(a->value);
}

void graph_unref(Graph *g)
{
    if (!g || --g->refs)
        return;
    for (Node *n = g->first; n; n = n->next)
        drop_attr(n->attr);
    vec_free(&g->params);
    vec_free(&g->results);
    map_done(&g->cse);
    vec_free(&g->conds);
    size_plan_free(g->sizes);
    if (g->code)
        graph_code_free(g->code);
    arena_done(&g->arena);
    tsr_free(g);
}

/* A copy of *a in the graph's arena that holds references; equal attributes without payload share one. */
static const Attr *keep_attr(Graph *g, const Attr *a)
{
    Attr *c;

    if (!a || attr_equal(a, plain_attr()))
        return plain_attr();
    c = arena_new(&g->arena, Attr);
    *c = *a;
    for (int i = 0; i < 4; i++)
        graph_ref(c->region[i]);
    if (c->value)
        tensor_ref(c->value);
    return c;
}

static uint16_t symbolic(const Attr *a)
{
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < a->nd[k]; i++) {
            int64_t v;
            if (!dim_is_const(a->d[k][i]) && !dim_const_value(a->d[k][i], &v))
                return NODE_SYMBOLIC;
        }
    return 0;
}

/* Results whose sizes are found by the op itself, or inside its regions. */
static uint16_t binds(OpId op, const TType *type, int nout)
{
    if (op >= OP_COUNT || (op != OP_nonzero && !(op_info[op].flags & OPF_REGIONS)))
        return 0;
    for (int k = 0; k < nout; k++)
        for (int i = 0; i < type[k].rank; i++)
            if (!dim_is_const(type[k].shape[i]))
                return NODE_BINDS;
    return 0;
}

unsigned graph_effects(const Graph *g)
{
    unsigned flags = 0;

    for (const Node *n = g->first; n; n = n->next)
        flags |= node_effects(n);
    return flags;
}

unsigned node_effects(const Node *n)
{
    unsigned flags;

    if (n->op == GRAPH_PARAM)
        return 0;
    flags = op_effects((OpId)n->op);
    for (int k = 0; k < 4 && op_info[n->op].flags & OPF_REGIONS; k++)
        if (n->attr->region[k])
            flags |= graph_effects(n->attr->region[k]);
    return flags;
}

static Node *link_node(Graph *g, Node *n)
{
    n->id = g->nnodes++;
    if (node_effects(n) & (OPF_IO | OPF_STATE | OPF_COLLECTIVE | OPF_RAISE))
        n->token = ++g->tokens;
    n->prev = g->last;
    if (g->last)
        g->last->next = n;
    else
        g->first = n;
    g->last = n;
    return n;
}

Node *graph_append(Graph *g, OpId op, const Attr *a, const GValue *in, int nin, const TType *type, int nout, Span span)
{
    Node *n = arena_new(&g->arena, Node);

    n->op = (uint16_t)op;
    n->nin = (uint16_t)nin;
    n->nout = (uint16_t)nout;
    n->span = span;
    n->scope = g->scope;
    n->attr = keep_attr(g, a);
    n->flags = symbolic(n->attr) | binds(op, type, nout);
    n->type = arena_array(&g->arena, TType, nout ? nout : 1);
    for (int i = 0; i < nout; i++)
        n->type[i] = type[i];
    n->in = arena_array(&g->arena, GValue, nin ? nin : 1);
    for (int i = 0; i < nin; i++) {
        n->in[i] = in[i];
        in[i].node->nuse++;
    }
    return link_node(g, n);
}

Node *graph_before(Graph *g, Node *at, OpId op, const Attr *a, const GValue *in, int nin, const TType *type, int nout)
{
    Sym scope = g->scope;
    Node *n;

    g->scope = at->scope;
    n = graph_append(g, op, a, in, nin, type, nout, at->span);
    g->scope = scope;
    graph_move_before(g, n, at);
    return n;
}

Node *graph_copy_before(Graph *g, const Node *n, Node *at)
{
    Node *c = graph_before(g, at, (OpId)n->op, n->attr, n->in, n->nin, n->type, n->nout);

    c->span = n->span;
    c->scope = n->scope;
    c->again = n->again;
    return c;
}

void graph_set_attr(Graph *g, Node *n, const Attr *a)
{
    const Attr *was = n->attr;

    n->attr = keep_attr(g, a);
    n->flags = (uint16_t)((n->flags & ~NODE_SYMBOLIC) | symbolic(n->attr));
    drop_attr(was);
}

void graph_use(GValue *at, GValue v)
{
    at->node->nuse--;
    v.node->nuse++;
    *at = v;
}

GValue graph_param(Graph *g, const TType *t)
{
    Node *n = graph_append(g, (OpId)GRAPH_PARAM, NULL, NULL, 0, t, 1, (Span){0, 0});

    vec_push(&g->params, n);
    return (GValue){n, 0};
}

void graph_result(Graph *g, GValue v)
{
    v.node->nuse++;
    vec_push(&g->results, v);
}

void graph_unlink(Graph *g, Node *n)
{
    for (int i = 0; i < n->nin; i++)
        n->in[i].node->nuse--;
    *(n->prev ? &n->prev->next : &g->first) = n->next;
    *(n->next ? &n->next->prev : &g->last) = n->prev;
    drop_attr(n->attr);
    n->attr = plain_attr();
}

void graph_move_before(Graph *g, Node *n, Node *before)
{
    *(n->prev ? &n->prev->next : &g->first) = n->next;
    *(n->next ? &n->next->prev : &g->last) = n->prev;
    n->prev = before->prev;
    n->next = before;
    *(before->prev ? &before->prev->next : &g->first) = n;
    before->prev = n;
}

/* -- hash-consing ---------------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t h, uint64_t v)
{
    h ^= v + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
    return h * 0xff51afd7ed558ccdu;
}

static uint64_t hash_node(OpId op, const Attr *a, const GValue *in, int nin)
{
    uint64_t h = mix(17, op), f;

    memcpy(&f, &a->f, sizeof f);
    h = mix(mix(mix(h, a->dtype | (uint64_t)a->kind << 8 | (uint64_t)a->naxes << 16), f), (uint64_t)a->i);
    h = mix(h, (uint64_t)(a->n * 65536 + a->m));
    for (int i = 0; i < a->naxes; i++)
        h = mix(h, (uint64_t)a->axis[i]);
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < a->nd[k]; i++)
            h = mix(h, (uint64_t)a->d[k][i]);
    for (int i = 0; i < nin; i++)
        h = mix(h, (uint64_t)in[i].node->id * 64 + (uint64_t)in[i].index);
    return h ? h : 1;
}

bool graph_attr_same(const Attr *a, const Attr *b)
{
    Attr x = *a;

    if (a->value && b->value && a->value != b->value && tensor_same_bits(a->value, b->value) && a->value->weak == b->value->weak)
        x.value = b->value;
    return attr_equal(&x, b);
}

/* What an equal node must have besides attributes and operands. */
typedef struct Apart { uint32_t again; Sym scope; } Apart;

static bool node_is(const Node *n, OpId op, Apart x, const Attr *a, const GValue *in, int nin)
{
    if (n->op != op || n->again != x.again || n->scope != x.scope || n->nin != nin || !graph_attr_same(n->attr, a))
        return false;
    for (int i = 0; i < nin; i++)
        if (n->in[i].node != in[i].node || n->in[i].index != in[i].index)
            return false;
    return true;
}

static bool is_pure(OpId op)
{
    return !(op_info[op].flags & (OPF_IO | OPF_STATE | OPF_REGIONS | OPF_COLLECTIVE | OPF_MEMORY)) && op_info[op].nout != 0 &&
           op_info[op].family != FAM_CONTROL;
}

enum { PROBES = 8 };

/* The node equal to these, or NULL and the free key to file a new one under (0: none). */
static Node *find_equal(Graph *g, OpId op, Apart x, const Attr *a, const GValue *in, int nin, uint64_t *key)
{
    uint64_t h = hash_node(op, a, in, nin) + x.again;

    for (int i = 0; i < PROBES; i++, h++) {
        uintptr_t v;
        if (!h || !map_find(&g->cse, h, &v)) {
            *key = h;
            return NULL;
        }
        if (node_is((Node *)v, op, x, a, in, nin))
            return (Node *)v;
    }
    *key = 0;
    return NULL;
}

Node *graph_find_or_file(Graph *g, Node *n)
{
    uint64_t key = 0;
    Node *same = is_pure((OpId)n->op) ? find_equal(g, (OpId)n->op, (Apart){n->again, n->scope}, n->attr, n->in, n->nin, &key) : NULL;

    if (key)
        map_set(&g->cse, key, (uintptr_t)n);
    return same;
}

int graph_max_results(OpId op, const Attr *a)
{
    int n = 4 + (op_info[op].nout < 0 && a ? a->nd[0] : 0);         /* launch: the operands that d0 counts */

    for (int k = 0; op_info[op].nout < 0 && a && k < 4; k++)
        n += a->region[k] ? 2 * a->region[k]->results.n : 0;
    return n;
}

/* Types have the shortest form of a size that the conditions so far allow. */
static void know_sizes(TType *y, int n)
{
    for (int k = 0; k < n; k++)
        for (int i = 0; i < y[k].rank; i++)
            if (!dim_is_const(y[k].shape[i]))
                y[k].shape[i] = dim_known(y[k].shape[i]);
}

Node *graph_add(Graph *g, OpId op, const Attr *a, const GValue *in, int nin, Span span, StrBuf *err, int *code)
{
    TType few[8], four[4], *types = few, *out = four;
    uint64_t key = 0;
    int nout = 0;
    bool wide = op_info[op].nout < 0;
    Node *n = NULL;

    a = a ? a : plain_attr();
    if (is_pure(op) && (n = find_equal(g, op, (Apart){0, g->scope}, a, in, nin, &key)))
        return n;
    if (nin > 8)
        types = tsr_alloc(sizeof(TType) * (size_t)nin);
    if (wide)
        out = tsr_alloc(sizeof(TType) * (size_t)graph_max_results(op, a));
    for (int i = 0; i < nin; i++)
        types[i] = *gvalue_type(in[i]);
    if (op_infer(op, a, types, nin, out, &nout, err, code)) {
        know_sizes(out, nout);
        n = graph_append(g, op, a, in, nin, out, nout, span);
        if (key)
            map_set(&g->cse, key, (uintptr_t)n);
    }
    if (types != few)
        tsr_free(types);
    if (wide)
        tsr_free(out);
    return n;
}

bool graph_has_effect(const Graph *g, unsigned flags)
{
    for (const Node *n = g->first; n; n = n->next) {
        if (n->op == GRAPH_PARAM)
            continue;
        if (op_info[n->op].flags & flags)
            return true;
        for (int i = 0; i < 4; i++)
            if (n->attr->region[i] && graph_has_effect(n->attr->region[i], flags))
                return true;
    }
    return false;
}

int *graph_places(const Graph *g, Node ***at, int *n)
{
    int *place = tsr_alloc(sizeof *place * (g->nnodes + 1));

    *n = 0;
    if (at)
        *at = tsr_alloc(sizeof **at * (g->nnodes + 1));
    for (Node *x = g->first; x; x = x->next) {
        place[x->id] = *n;
        if (at)
            (*at)[*n] = x;
        ++*n;
    }
    return place;
}

bool graph_gives(const Graph *g, const Node *n)
{
    for (int i = 0; i < g->results.n; i++)
        if (g->results.at[i].node == n)
            return true;
    return false;
}

bool graph_has_op(const Graph *g, OpId op)
{
    for (const Node *n = g->first; n; n = n->next) {
        if (n->op == op)
            return true;
        for (int i = 0; n->op != GRAPH_PARAM && i < 4; i++)
            if (n->attr->region[i] && graph_has_op(n->attr->region[i], op))
                return true;
    }
    return false;
}

static Dim same_size(void *st, Dim d)
{
    (void)st;
    return d;
}

Graph *graph_clone(const Graph *g)
{
    return graph_resize(g, same_size, NULL);
}

static Attr resize_attr(const Attr *a, Dim (*size)(void *st, Dim d), void *st)
{
    Attr b = *a;

    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < b.nd[k]; i++)
            b.d[k][i] = size(st, b.d[k][i]);
        if (b.region[k])
            b.region[k] = size == same_size ? graph_ref(b.region[k]) : graph_resize(b.region[k], size, st);
    }
    return b;
}

static void resize_types(TType *to, const TType *from, int n, Dim (*size)(void *st, Dim d), void *st)
{
    for (int k = 0; k < n; k++) {
        to[k] = from[k];
        for (int i = 0; i < to[k].rank; i++)
            to[k].shape[i] = size(st, to[k].shape[i]);
    }
}

Graph *graph_resize(const Graph *g, Dim (*size)(void *st, Dim d), void *st)
{
    Graph *c = graph_new(g->name);
    Node **at = tsr_calloc(sizeof *at * (g->nnodes + 1));

    for (Node *n = g->first; n; n = n->next) {
        GValue few[16], *in = n->nin <= 16 ? few : tsr_alloc(sizeof *in * n->nin);
        Attr a = resize_attr(n->attr, size, st);
        for (int i = 0; i < n->nin; i++)
            in[i] = (GValue){at[n->in[i].node->id], n->in[i].index};
        c->scope = n->scope;
        at[n->id] = graph_append(c, (OpId)n->op, &a, in, n->nin, n->type, n->nout, n->span);
        at[n->id]->again = n->again;
        resize_types(at[n->id]->type, n->type, n->nout, size, st);
        for (int k = 0; k < 4; k++)
            graph_unref(a.region[k]);
        if (in != few)
            tsr_free(in);
    }
    c->scope = NULL;
    for (int i = 0; i < g->params.n; i++)
        vec_push(&c->params, at[g->params.at[i]->id]);
    for (int i = 0; i < g->conds.n; i++) {
        DimCond cond = g->conds.at[i];
        cond.a = size(st, cond.a);
        cond.b = size(st, cond.b);
        vec_push(&c->conds, cond);
    }
    for (int i = 0; i < g->results.n; i++)
        graph_result(c, (GValue){at[g->results.at[i].node->id], g->results.at[i].index});
    tsr_free(at);
    return c;
}
