/*
 * From groups of nodes to a graph with `fused` nodes, in an order in which each comes after all that it needs.
 */
#include "ir/schedule/fuse_impl.h"

#include "ir/graph/trace.h"
#include "ir/schedule/steps.h"

#include <string.h>

typedef struct Divisor { Dim size; int n; } Divisor;

typedef struct Writer {
    Fuser *f;
    Graph *g;
    Node **at;                  /* node id -> its copy */
    int *result_of;             /* node id -> which result of its group's node it is, -1: it stays inside */
    Node **fused;               /* group -> its node */
    Node **inner;               /* node id -> its copy in the body that is being written */
    Vec(uint32_t) touched;      /* what of it is set */
    Vec(Divisor) divisors;      /* of sizes, as far as the graph's conditions say: kernels have few different ones */
    bool picks;                 /* are there any? */
    bool *waits;                /* group -> is it to be written, and waits for what it needs? */
} Writer;

enum { PICK_STEPS = 64 };

static Node *copy_node(const Writer *w, Graph *to, const Node *n, Node *const *at)
{
    GValue few[16], *in = n->nin <= 16 ? few : tsr_alloc(sizeof *in * n->nin);
    Node *c;

    for (int i = 0; i < n->nin; i++) {
        const Node *source = n->in[i].node;
        int group = w->f->group[w->f->place[source->id]];
        bool fused = to == w->g && group >= 0 && w->result_of[source->id] >= 0;
        in[i] = fused ? (GValue){w->fused[group], w->result_of[source->id]} : (GValue){at[source->id], n->in[i].index};
    }
    Attr a = *n->attr;
    for (int k = 0; k < 4; k++)
        if (a.region[k]) {
            Graph *fused = n->op == OP_call && a.kind == CALL_KERNEL ? schedule_one(a.region[k]) : schedule_fuse(a.region[k]);
            a.region[k] = fused ? fused : graph_ref(a.region[k]);
        }
    to->scope = to == w->g ? n->scope : NULL;           /* a body is in its node's */
    c = graph_append(to, (OpId)n->op, &a, in, n->nin, n->type, n->nout, n->span);
    c->again = n->again;
    for (int k = 0; k < 4; k++)
        graph_unref(a.region[k]);
    if (in != few)
        tsr_free(in);
    return c;
}

static void set_inner(Writer *w, const Node *n, Node *copy)
{
    w->inner[n->id] = copy;
    vec_push(&w->touched, n->id);
}

/* An operand from outside, which is there, or the group's product, becomes the body's; operand collects what the fused node takes. */
static void body_operand(Writer *w, Graph *body, const Node *product, GValue v, GValue *operand, int *n)
{
    if (w->inner[v.node->id])
        return;
    for (int k = 0; v.node == product && k < product->nin; k++)
        body_operand(w, body, NULL, product->in[k], operand, n);
    if (v.node == product || region_copies(v.node)) {
        set_inner(w, v.node, copy_node(w, body, v.node, w->inner));
        return;
    }
    int group = w->f->group[w->f->place[v.node->id]];
    operand[(*n)++] = group >= 0 && w->result_of[v.node->id] >= 0 ? (GValue){w->fused[group], w->result_of[v.node->id]}
                                                                  : (GValue){w->at[v.node->id], v.index};
    TType y = *gvalue_type(v);
    y.weak = 0;
    set_inner(w, v.node, graph_param(body, &y).node);
}

/* Does any condition of the graph say that sizes are equal? Others say nothing of divisors. */
static bool has_equalities(const Graph *g)
{
    for (int i = 0; i < g->conds.n; i++)
        if (g->conds.at[i].rel == DIM_IS_EQ)
            return true;
    return false;
}

/* What divides a size under the conditions of the graph. */
static int divisor(void *st, Dim size)
{
    Writer *w = st;
    const Graph *g = w->f->g;
    Divisor d = {size, 1};

    for (int i = 0; i < w->divisors.n; i++)
        if (w->divisors.at[i].size == size)
            return w->divisors.at[i].n;
    dim_push();
    for (int i = 0; i < g->conds.n; i++)
        dim_cond_assume(&g->conds.at[i]);
    d.n = schedule_divisor(size);
    dim_pop();
    vec_push(&w->divisors, d);
    return d.n;
}

static Sym schedule_name(Writer *w, Graph *body)
{
    Region r;
    StrBuf text = {0};
    const Node *product;
    Graph *epilogue = schedule_epilogue(body, &product);
    bool is_region = region_of_body(epilogue, &r);
    Schedule s = schedule_default(is_region ? &r : NULL);
    Sym name;

    if (is_region && has_equalities(w->f->g))
        s.align = (int16_t)schedule_aligned(&r, divisor, w);
    graph_unref(epilogue);
    schedule_print(&s, &text);
    name = sym(sb_str(&text));
    sb_done(&text);
    return name;
}

static void emit_group(Writer *w, int group)
{
    Group *x = &w->f->groups[group];
    Graph *body = graph_new(sym("body"));
    FuseUnion u = {w->f, group, group};
    GValue operand[REGION_VALUES];
    TType types[REGION_OPERANDS];
    Attr a = attr_default();
    int nin = 0, nout = 0;

    for (int i = 0; i < x->node.n; i++) {
        Node *n = x->node.at[i];
        for (int k = 0; k < n->nin; k++)
            body_operand(w, body, x->product, n->in[k], operand, &nin);
        set_inner(w, n, copy_node(w, body, n, w->inner));
        if (fuse_seen_outside(&u, n)) {
            types[nout] = n->type[0];
            w->result_of[n->id] = nout++;
            graph_result(body, (GValue){w->inner[n->id], 0});
        }
    }
    a.region[0] = body;
    a.name = schedule_name(w, body);
    w->g->scope = x->node.at[0]->scope;
    w->fused[group] = graph_append(w->g, OP_fused, &a, operand, nin, types, nout, vec_last(&x->node)->span);
    graph_unref(body);
    for (int i = 0; i < w->touched.n; i++)
        w->inner[w->touched.at[i]] = NULL;
    w->touched.n = 0;
}

static bool group_waits(const Writer *w, int place)
{
    int group = w->f->group[place];

    return group >= 0 && w->result_of[w->f->at[place]->id] == -1 && !w->fused[group];
}

/* Is the value in the new graph, if only as one that stays inside its group? */
static bool is_there(const Writer *w, int place)
{
    const Node *n = w->f->at[place];

    return !group_waits(w, place) && (w->at[n->id] || (w->f->group[place] >= 0 && !region_moves(n)));
}

/* The first operand from outside that is not there; -1: all are. */
static int missing_operand(const Writer *w, const Node *n, int group)
{
    for (int i = 0; i < n->nin; i++) {
        int p = w->f->place[n->in[i].node->id];
        bool inside = group >= 0 && (w->f->group[p] == group || region_copies(n->in[i].node));
        if (!inside && !is_there(w, p))
            return p;
    }
    return -1;
}

/* Does what is at the place, which is not there, need a group that waits? Where that is far to see, it counts as such. */
static bool needs_waiting(const Writer *w, int place, int *left)
{
    const Fuser *f = w->f;
    int of = f->group[place];
    const Group *x = of >= 0 ? &f->groups[of] : NULL;

    if ((x && w->waits[of]) || --*left < 0)
        return true;
    for (int i = 0; i < (x ? x->node.n + (x->product != NULL) : 1); i++) {
        const Node *n = !x ? f->at[place] : i < x->node.n ? x->node.at[i] : x->product;
        for (int k = 0; k < n->nin; k++) {
            int p = f->place[n->in[k].node->id];
            if ((of < 0 || f->group[p] != of) && !is_there(w, p) && needs_waiting(w, p, left))
                return true;
        }
    }
    return false;
}

/*
 * A pick from the value there, or from a view of it, that is not there and could be without what waits; -1: none.  A pick needs not come first:
 * of two groups that read what the other's pick is from, one goes without.
 */
static int pick_before(const Writer *w, int place)
{
    const Fuser *f = w->f;
    int found = -1;

    for (int u = f->first_use[place]; u < f->first_use[place + 1] && found < 0; u++) {
        const Node *n = f->at[f->user[u]];
        int left = PICK_STEPS;
        if (region_moves(n))
            found = pick_before(w, f->user[u]);
        else if (fuse_is_pick(n) && f->place[n->in[0].node->id] == place && !is_there(w, f->user[u]) && !needs_waiting(w, f->user[u], &left))
            found = f->user[u];
    }
    return found;
}

/* The same of all that the group reads. */
static int missing_pick(const Writer *w, int group)
{
    const Group *x = &w->f->groups[group];
    int found = -1;

    for (int i = 0; i < x->node.n && found < 0; i++)
        for (int k = 0; k < x->node.at[i]->nin && found < 0; k++) {
            const Node *from = x->node.at[i]->in[k].node;
            bool outside = w->f->group[w->f->place[from->id]] != group;
            while (outside && region_moves(from))
                from = from->in[0].node;
            found = outside ? pick_before(w, w->f->place[from->id]) : -1;
        }
    return found;
}

/* What must be there before the node, or before its group if that is to be written. */
static int missing(const Writer *w, int place)
{
    int group = w->f->group[place], p = -1;

    if (!group_waits(w, place))
        return missing_operand(w, w->f->at[place], -1);
    for (int i = 0; i < w->f->groups[group].node.n && p < 0; i++)
        p = missing_operand(w, w->f->groups[group].node.at[i], group);
    p = p < 0 && w->f->groups[group].product ? missing_operand(w, w->f->groups[group].product, -1) : p;
    return p < 0 && w->picks ? missing_pick(w, group) : p;
}

/* The node, or its group and, if it is a move that is used outside, the node as well. Chains may be long: a list of its own. */
static void emit(Writer *w, int place)
{
    int *todo = w->f->stack, left = 0;

    todo[left++] = place;
    while (left) {
        int at = todo[left - 1], before;
        if (group_waits(w, at))
            w->waits[w->f->group[at]] = true;
        before = is_there(w, at) ? -1 : missing(w, at);
        if (before >= 0 && left > w->f->n)
            tsr_bug("groups of a schedule wait for each other");
        if (before >= 0)
            todo[left++] = before;
        else if (is_there(w, at))
            left--;
        else if (group_waits(w, at))
            emit_group(w, w->f->group[at]);
        else
            w->at[w->f->at[at]->id] = copy_node(w, w->g, w->f->at[at], w->at);
    }
}

/* The group's first node that is no move. */
static const Node *computing(const Group *x)
{
    int i = 0;

    while (region_moves(x->node.at[i]))
        i++;
    return x->node.at[i];
}

/* Does the group sum up more than it gives? Then the sooner it runs, the sooner is what it reads given back. */
static bool shrinks(const Fuser *f, int group)
{
    const Group *x = &f->groups[group];
    FuseUnion u = {f, group, group};
    int64_t reads = 0, gives = 0;
    bool reduces = false;

    for (int i = 0; i < x->node.n; i++) {
        const Node *n = x->node.at[i];
        reduces |= op_info[n->op].family == FAM_REDUCE;
        gives += fuse_seen_outside(&u, n) ? schedule_bytes(&n->type[0]) : 0;
        for (int k = 0; k < n->nin; k++)
            if (f->group[f->place[n->in[k].node->id]] != group && schedule_bytes(gvalue_type(n->in[k])) > reads)
                reads = schedule_bytes(gvalue_type(n->in[k]));
    }
    return reduces && !x->product && gives <= reads / 4;
}

/* The place by which all is there that a group reads, where groups run at their last nodes. */
static int ready(const Fuser *f, int group)
{
    const Group *x = &f->groups[group];
    int at = 0;

    for (int i = 0; i < x->node.n; i++)
        for (int k = 0; k < x->node.at[i]->nin; k++) {
            int p = f->place[x->node.at[i]->in[k].node->id], of = f->group[p];
            p = of >= 0 && of != group ? f->place[vec_last(&f->groups[of].node)->id] : p;
            at = of != group && p > at ? p : at;
        }
    return at;
}

/* A group that can run at this place, and had better: one behind another. */
typedef struct Early { int *first, *next; } Early;

static Early find_early(const Fuser *f)
{
    Early e = {tsr_alloc(sizeof *e.first * ((size_t)f->n + 1)), tsr_alloc(sizeof *e.next * ((size_t)f->n + 1))};

    memset(e.first, -1, sizeof *e.first * ((size_t)f->n + 1));
    for (int i = f->n - 1; i >= 0; i--)
        if (f->group[i] == i && shrinks(f, i)) {
            int at = ready(f, i);
            e.next[i] = e.first[at];
            e.first[at] = i;
        }
    return e;
}

/* A group runs where its last node stood, unless a value of it is needed before, or it makes less of more. */
static void write_nodes(Writer *w)
{
    Fuser *f = w->f;
    Early early = find_early(f);

    for (int i = 0; i < f->n; i++)
        w->picks |= fuse_is_pick(f->at[i]);
    for (int i = 0; i < f->g->params.n; i++) {
        const Node *p = f->g->params.at[i];
        w->at[p->id] = graph_param(w->g, &p->type[0]).node;
        w->at[p->id]->span = p->span;
    }
    for (int i = 0; i < f->n; i++) {
        int group = f->group[i];
        if (group < 0)
            emit(w, i);
        else if (f->at[i] == vec_last(&f->groups[group].node))
            emit(w, f->place[computing(&f->groups[group])->id]);
        for (int k = early.first[i]; k >= 0; k = early.next[k])
            emit(w, f->place[computing(&f->groups[k])->id]);
    }
    tsr_free(early.first);
    tsr_free(early.next);
}

Graph *fuse_write(Fuser *f)
{
    size_t n = f->g->nnodes + 1;
    Writer w = {.f = f, .g = graph_new(f->g->name), .at = tsr_calloc(sizeof(Node *) * n), .result_of = tsr_alloc(sizeof(int) * n),
                .fused = tsr_calloc(sizeof(Node *) * ((size_t)f->n + 1)),
                .inner = tsr_calloc(sizeof(Node *) * n), .waits = tsr_calloc((size_t)f->n + 1)};

    memset(w.result_of, -1, sizeof(int) * n);
    write_nodes(&w);
    for (int i = 0; i < f->g->conds.n; i++)
        vec_push(&w.g->conds, f->g->conds.at[i]);
    for (int i = 0; i < f->g->results.n; i++) {
        GValue v = f->g->results.at[i];
        int p = f->place[v.node->id];
        emit(&w, p);
        bool fused = f->group[p] >= 0 && w.result_of[v.node->id] >= 0;
        graph_result(w.g, fused ? (GValue){w.fused[f->group[p]], w.result_of[v.node->id]} : (GValue){w.at[v.node->id], v.index});
    }
    w.g->scope = NULL;
    tsr_free(w.at);
    tsr_free(w.result_of);
    tsr_free(w.fused);
    tsr_free(w.inner);
    tsr_free(w.waits);
    vec_free(&w.touched);
    vec_free(&w.divisors);
    return w.g;
}
