/*
 * Changing a graph from outside.
 *
 * A group is replaced by one call: its nodes move into a region, and of what
 * stands between its first and its last node all that needs a value of it
 * moves behind the call, in order.  Effects keep theirs, because a node with
 * an ordered effect takes those behind it along.
 */
#include "ir/graph/edit.h"

#include "ir/graph/read.h"
#include "ir/graph/trace.h"
#include "runtime/tensor.h"

#include <string.h>

bool graph_has(const Graph *g, const Node *n)
{
    for (const Node *x = g->first; x; x = x->next)
        if (x == n)
            return true;
    return false;
}

static const char *op_text(const Node *n) { return n->op == GRAPH_PARAM ? "parameter" : op_info[n->op].name; }

static bool same_type(const TType *a, const TType *b)
{
    return a->dtype == b->dtype && a->rank == b->rank && a->policy == b->policy && !memcmp(a->shape, b->shape, sizeof(Dim) * a->rank);
}

void graph_redirect(Graph *g, const Node *from, Node *to, Node *after)
{
    for (Node *n = after->next; n; n = n->next)
        for (int i = 0; i < n->nin; i++)
            if (n->in[i].node == from)
                graph_use(&n->in[i], (GValue){to, n->in[i].index});
    for (int i = 0; i < g->results.n; i++)
        if (g->results.at[i].node == from)
            graph_use(&g->results.at[i], (GValue){to, g->results.at[i].index});
}

static bool before(const Node *a, const Node *b)
{
    for (const Node *n = a; n; n = n->next)
        if (n == b)
            return a != b;
    return false;
}

static const Node *first_user(const Graph *g, const Node *n)
{
    for (const Node *x = g->first; x; x = x->next)
        for (int i = 0; i < x->nin; i++)
            if (x->in[i].node == n)
                return x;
    return NULL;
}

bool graph_replace(Graph *g, Node *n, Node *by, StrBuf *err)
{
    const Node *user = first_user(g, n);

    if (n == by)
        return true;
    if (n->nout != by->nout) {
        sb_printf(err, "%s gives %d values, %s gives %d", op_text(n), n->nout, op_text(by), by->nout);
        return false;
    }
    for (int i = 0; i < n->nout; i++)
        if (!same_type(&n->type[i], &by->type[i])) {
            sb_printf(err, "%s gives ", op_text(n));
            ttype_print(&n->type[i], err);
            sb_printf(err, ", %s gives ", op_text(by));
            ttype_print(&by->type[i], err);
            return false;
        }
    if (user && !before(by, user)) {
        sb_printf(err, "%s is computed after %s is needed", op_text(by), op_text(n));
        return false;
    }
    graph_redirect(g, n, by, g->first);
    for (int i = 0; i < g->first->nin; i++)
        if (g->first->in[i].node == n)
            graph_use(&g->first->in[i], (GValue){by, g->first->in[i].index});
    return true;
}

/* ------------------------------------------------------------- single nodes */

static bool read_attributes(const char *text, Attr *a, StrBuf *err)
{
    Reader p = {0};

    scan_init(&p.s, text, strlen(text), err);
    scan_skip(&p.s);
    while (!p.s.bad && p.s.at < p.s.end) {
        if (!read_attribute(&p, a))
            scan_fail(&p.s, "'%.40s' is no attribute", p.s.at);
        scan_accept(&p.s, ",");
        scan_skip(&p.s);
    }
    map_done(&p.sizes);
    vec_free(&p.conds);
    scan_done(&p.s);
    return !p.s.bad;
}

/* NULL: the op does not take these operands. */
static Node *typed_before(Graph *g, Node *at, OpId op, const Attr *a, const GValue *in, int nin, StrBuf *err)
{
    TType *x = tsr_alloc(sizeof *x * (size_t)(nin + 1)), *y = tsr_alloc(sizeof *y * (size_t)graph_max_results(op, a));
    int nout = 0, code;
    Node *n = NULL;

    for (int i = 0; i < nin; i++)
        x[i] = *gvalue_type(in[i]);
    if (op_infer(op, a, x, nin, y, &nout, err, &code))
        n = graph_before(g, at, op, a, in, nin, y, nout);
    tsr_free(x);
    tsr_free(y);
    return n;
}

Node *graph_insert(Graph *g, Node *at, OpId op, const char *attributes, const GValue *in, int nin, StrBuf *err)
{
    Attr a = attr_default();
    Node *n = NULL;

    if (op_info[op].flags & (OPF_REGIONS | OPF_IO | OPF_STATE | OPF_COLLECTIVE | OPF_RAISE)) {
        sb_printf(err, "%s has effects or regions: a pass adds pure operations", op_info[op].name);
        return NULL;
    }
    for (int i = 0; i < nin; i++)
        if (!before(in[i].node, at)) {
            sb_printf(err, "operand %d (%s) is computed after the place", i + 1, op_text(in[i].node));
            return NULL;
        }
    if (read_attributes(attributes, &a, err))
        n = typed_before(g, at, op, &a, in, nin, err);
    tensor_unref(a.value);
    return n;
}

bool graph_set_constant(Graph *g, Node *n, Tensor *value, StrBuf *err)
{
    TType have = {.dtype = value->dtype, .rank = value->rank};
    Attr a = attr_default();

    memcpy(have.shape, value->shape, sizeof(Dim) * value->rank);
    if (n->nout != 1 || n->op == GRAPH_PARAM || have.dtype != n->type[0].dtype || have.rank != n->type[0].rank ||
        memcmp(have.shape, n->type[0].shape, sizeof(Dim) * have.rank)) {
        sb_printf(err, "%s gives ", op_text(n));
        ttype_print(&n->type[0], err);
        sb_puts(err, ", the constant is ");
        ttype_print(&have, err);
        return false;
    }
    a.value = value;
    graph_redirect(g, n, graph_before(g, n, OP_constant, &a, NULL, 0, n->type, 1), n);
    if (!(node_effects(n) & ~(unsigned)OPF_RANDOM))
        graph_unlink(g, n);
    return true;
}

/* ------------------------------------------------------------- groups */

typedef struct Group {
    Graph *g;
    Node **node;                /* in the graph's order */
    int n;
    bool *in;                   /* by node id */
    bool *needs;                /* by node id: computed from the group, outside of it */
    Vec(GValue) result;         /* of the group, used outside */
} Group;

static bool in_group(const Group *u, const Node *n) { return n->id < u->g->nnodes && u->in[n->id]; }

/* NULL: it may be. */
static const char *not_in_group(const Group *u, const Node *n)
{
    if (n->op == GRAPH_PARAM)
        return "it is a parameter";
    if (n->flags & NODE_BINDS && n->op != OP_fused)
        return "how large its result is shows only when it runs";
    if (n->token || node_effects(n) & ~(unsigned)OPF_RANDOM)
        return "it has effects";
    return scope_around(n->scope) != scope_around(u->node[0]->scope) ? "it stands in another block" : NULL;
}

/* The nodes in the graph's order. false: one is no node of it, or may not move. */
static bool group_init(Group *u, Graph *g, Node *const *nodes, int n, StrBuf *err)
{
    const char *why;

    *u = (Group){.g = g, .in = tsr_calloc(g->nnodes + 1), .needs = tsr_calloc(g->nnodes + 1),
                 .node = tsr_calloc(sizeof(Node *) * (size_t)(n + 1))};
    for (int i = 0; i < n; i++)
        u->in[nodes[i]->id] = true;
    for (Node *x = g->first; x; x = x->next)
        if (u->in[x->id] && u->n < n)
            u->node[u->n++] = x;
    if (!n || u->n != n) {
        sb_puts(err, n ? "a node is not in this graph, or named twice" : "a group needs a node");
        return false;
    }
    for (int i = 0; i < n; i++)
        if ((why = not_in_group(u, u->node[i]))) {
            sb_printf(err, "%s cannot be in the group: %s", op_text(u->node[i]), why);
            return false;
        }
    return true;
}

static void group_done(Group *u)
{
    vec_free(&u->result);
    tsr_free(u->in);
    tsr_free(u->needs);
    tsr_free(u->node);
}

/* Mark what comes behind the group because it is computed from it. false: a way leads back into the group. */
static bool mark_behind(Group *u, StrBuf *err)
{
    bool token = false;

    for (const Node *n = u->node[0]; n; n = n->next) {
        bool needs = n->token && token;
        for (int i = 0; i < n->nin; i++) {
            const Node *x = n->in[i].node;
            needs |= u->needs[x->id] || (u->in[x->id] && !u->in[n->id]);
        }
        if (needs && u->in[n->id]) {
            sb_printf(err, "%s needs a value that is computed from the group outside of it", op_text(n));
            return false;
        }
        u->needs[n->id] = needs;
        token |= needs && n->token;
    }
    return true;
}

static bool used_outside(const Group *u, GValue v)
{
    for (const Node *n = v.node->next; n; n = n->next)
        for (int i = 0; i < n->nin && !in_group(u, n); i++)
            if (n->in[i].node == v.node && n->in[i].index == v.index)
                return true;
    for (int i = 0; i < u->g->results.n; i++)
        if (u->g->results.at[i].node == v.node && u->g->results.at[i].index == v.index)
            return true;
    return false;
}

static void list_results(Group *u)
{
    for (int i = 0; i < u->n; i++)
        for (int k = 0; k < u->node[i]->nout; k++) {
            GValue v = {u->node[i], k};
            if (used_outside(u, v))
                vec_push(&u->result, v);
        }
}

GValue *graph_group_inputs(Node *const *nodes, int n, int *nin)
{
    Vec(GValue) in = {0};

    for (int i = 0; i < n; i++)
        for (int k = 0; k < nodes[i]->nin; k++) {
            GValue v = nodes[i]->in[k];
            bool seen = v.node->op == OP_constant;
            for (int j = 0; j < n; j++)
                seen |= nodes[j] == v.node;
            for (int j = 0; j < in.n; j++)
                seen |= in.at[j].node == v.node && in.at[j].index == v.index;
            if (!seen)
                vec_push(&in, v);
        }
    *nin = in.n;
    return in.at;
}

/* What the group computes, as a graph of its own. */
static Graph *group_region(const Group *u, const GValue *in, int nin)
{
    Graph *g = graph_new(sym("body"));
    GValue *at = tsr_calloc(sizeof *at * (u->g->nnodes + 1)), few[16];

    for (int i = 0; i < u->n; i++) {
        const Node *n = u->node[i];
        GValue *x = n->nin <= 16 ? few : tsr_alloc(sizeof *x * n->nin);
        Node *c;
        for (int k = 0; i == 0 && k < nin; k++)
            (void)graph_param(g, gvalue_type(in[k]));
        for (int k = 0; k < n->nin; k++) {
            const Node *from = n->in[k].node;
            if (from->op == OP_constant && !at[from->id].node)  /* known to the region, too */
                at[from->id].node = graph_append(g, OP_constant, from->attr, NULL, 0, from->type, 1, from->span);
            x[k] = (GValue){at[from->id].node, n->in[k].index};
            for (int j = 0; !in_group(u, n->in[k].node) && j < nin; j++)
                if (in[j].node == n->in[k].node && in[j].index == n->in[k].index)
                    x[k] = (GValue){g->params.at[j], 0};
        }
        c = graph_append(g, (OpId)n->op, n->attr, x, n->nin, n->type, n->nout, n->span);
        c->again = n->again;
        at[n->id] = (GValue){c, 0};
        if (x != few)
            tsr_free(x);
    }
    for (int i = 0; i < u->result.n; i++)
        graph_result(g, (GValue){at[u->result.at[i].node->id].node, u->result.at[i].index});
    tsr_free(at);
    return g;
}

/* The call stands behind the group's last node; what needs the group comes behind the call, in order. */
static void move_behind(Group *u, Node *call)
{
    Node *at = call;

    for (Node *n = u->node[0], *next; n != call; n = next) {
        next = n->next;
        if (!u->needs[n->id])
            continue;
        graph_move_before(u->g, n, at);
        graph_move_before(u->g, at, n);
        at = n;
    }
}

static void replace_results(Group *u, Node *call)
{
    for (Node *n = call->next; n; n = n->next)
        for (int i = 0; i < n->nin; i++)
            for (int k = 0; k < u->result.n; k++)
                if (n->in[i].node == u->result.at[k].node && n->in[i].index == u->result.at[k].index)
                    graph_use(&n->in[i], (GValue){call, k});
    for (int i = 0; i < u->g->results.n; i++)
        for (int k = 0; k < u->result.n; k++)
            if (u->g->results.at[i].node == u->result.at[k].node && u->g->results.at[i].index == u->result.at[k].index)
                graph_use(&u->g->results.at[i], (GValue){call, k});
    for (int i = u->n; i-- > 0;)
        if (!u->node[i]->nuse)
            graph_unlink(u->g, u->node[i]);
}

static bool region_fits(const Group *u, const Graph *r, const GValue *in, int nin, StrBuf *err)
{
    bool fits = r->params.n == nin && r->results.n == u->result.n && !(graph_effects(r) & ~(unsigned)OPF_RANDOM);

    for (int i = 0; fits && i < nin; i++)
        fits = same_type(&r->params.at[i]->type[0], gvalue_type(in[i]));
    for (int i = 0; fits && i < r->results.n; i++)
        fits = same_type(gvalue_type(r->results.at[i]), gvalue_type(u->result.at[i]));
    if (!fits)
        sb_printf(err, "the replacement takes %d and gives %d values, the group %d and %d, or their types differ, or it has effects",
                  r->params.n, r->results.n, nin, u->result.n);
    return fits;
}

static Node *put_call(Group *u, GroupAs as, Graph *region, const GValue *in, int nin)
{
    Attr a = attr_default();
    TType *y = tsr_alloc(sizeof *y * (size_t)(u->result.n + 1));
    Node *call, *last = u->node[u->n - 1];

    for (int i = 0; i < u->result.n; i++)
        y[i] = *gvalue_type(u->result.at[i]);
    a.region[0] = region;
    a.name = as.name;
    a.kind = as.kind;
    u->g->scope = scope_around(u->node[0]->scope);
    call = graph_append(u->g, as.op, &a, in, nin, y, u->result.n, last->span);
    u->g->scope = NULL;
    if (last->next != call)
        graph_move_before(u->g, call, last->next);
    tsr_free(y);
    move_behind(u, call);
    replace_results(u, call);
    return call;
}

Node *graph_group_as(Graph *g, Node *const *nodes, int n, GroupAs as, Graph *region, StrBuf *err)
{
    Group u;
    Node *call = NULL;
    GValue *in;
    int nin;

    if (group_init(&u, g, nodes, n, err) && mark_behind(&u, err)) {
        in = graph_group_inputs(u.node, u.n, &nin);
        list_results(&u);
        if (region ? region_fits(&u, region, in, nin, err) : u.result.n > 0) {
            Graph *r = region ? graph_ref(region) : group_region(&u, in, nin);
            call = put_call(&u, as, r, in, nin);
            graph_unref(r);
        } else if (!region)
            sb_puts(err, "nobody uses what the group computes");
        tsr_free(in);
    }
    group_done(&u);
    return call;
}

Node *graph_group(Graph *g, Node *const *nodes, int n, Sym name, StrBuf *err)
{
    return graph_group_as(g, nodes, n, (GroupAs){.op = OP_call, .name = name}, NULL, err);
}

/* ------------------------------------------------------------- patterns */

/* The node of g that is op of these operands; NULL: there is none. */
static Node *find_node(Graph *g, const Node *want, const GValue *in)
{
    for (Node *n = g->first; n; n = n->next) {
        bool same = n->op == want->op && n->nin == want->nin && n->nout == want->nout && graph_attr_same(n->attr, want->attr);
        for (int i = 0; same && i < n->nin; i++)
            same = n->in[i].node == in[i].node && n->in[i].index == in[i].index;
        if (same && (n->op != OP_constant || same_type(&n->type[0], &want->type[0])))
            return n;
    }
    return NULL;
}

int graph_match(Graph *g, const Graph *pattern, GValue v, Node **out)
{
    Node **at = tsr_calloc(sizeof *at * (pattern->nnodes + 1));
    int found = 0;
    bool all = pattern->params.n == 1 && pattern->results.n == 1;

    for (const Node *n = pattern->first; all && n; n = n->next) {
        GValue few[16];
        if (n->op == GRAPH_PARAM || n->nin > 16) {
            all = n->op == GRAPH_PARAM;
            continue;
        }
        for (int i = 0; i < n->nin; i++)
            few[i] = n->in[i].node->op == GRAPH_PARAM ? v : (GValue){at[n->in[i].node->id], n->in[i].index};
        all = (at[n->id] = find_node(g, n, few)) != NULL;
        if (all && n->op != OP_constant)
            out[found++] = at[n->id];
    }
    tsr_free(at);
    return all ? found : 0;
}

/* ------------------------------------------------------------- what stays */

bool graph_keep(Graph *g, Node *const *nodes, int n, StrBuf *err)
{
    bool *keep = tsr_calloc(g->nnodes + 1), ok = true;

    for (int i = 0; i < n; i++)
        keep[nodes[i]->id] = true;
    for (Node *x = g->first; ok && x; x = x->next) {
        bool stays = keep[x->id] |= x->op == GRAPH_PARAM;
        if (!stays && node_effects(x) & ~(unsigned)OPF_RANDOM) {
            sb_printf(err, "%s has effects, so it must stay", op_text(x));
            ok = false;
        }
        for (int i = 0; ok && stays && i < x->nin; i++)
            if (!keep[x->in[i].node->id]) {
                sb_printf(err, "%s stays and needs %s, which does not", op_text(x), op_text(x->in[i].node));
                ok = false;
            }
    }
    for (int i = 0; ok && i < g->results.n; i++)
        if (!keep[g->results.at[i].node->id]) {
            sb_printf(err, "%s is a result, so it must stay", op_text(g->results.at[i].node));
            ok = false;
        }
    for (Node *x = g->last, *prev; ok && x; x = prev) {
        prev = x->prev;
        if (!keep[x->id])
            graph_unlink(g, x);
    }
    tsr_free(keep);
    return ok;
}

bool graph_text_is_whole(const Graph *g)
{
    for (const Node *n = g->first; n; n = n->next) {
        if (n->op == GRAPH_PARAM)
            continue;
        if (n->attr->host)
            return false;
        for (int k = 0; k < 4; k++)
            if (n->attr->region[k] && !graph_text_is_whole(n->attr->region[k]))
                return false;
    }
    return true;
}
