/*
 * recompute: what a graph keeps across its fullest point is the least that the
 * rest can be computed from.
 *
 * A training step holds the most between its forward and its backward half:
 * what derivatives need waits there.  Much of that follows from something
 * smaller by a few elementwise ops, which cost less again, inside the kernel
 * that needs them, than writing and reading the value does.  Which values are
 * best kept is a minimum cut: edges lead from ops that are not done twice
 * (products, reductions, draws) through elementwise ops to the uses behind the point; a value's capacity is its
 * bytes.  Among equal cuts the one nearest to the uses is taken, which
 * recomputes least.
 *
 * Sizes are open here; each variable counts as GUESS, so that the result is a
 * property of the graph and not of a call.  A chain that would only move the
 * fullest point elsewhere is left alone: the graph counts only if it then holds less.
 */
#include "ir/schedule/schedule.h"

#include "ir/graph/trace.h"

#include <string.h>

enum {
    GUESS = 128,
    NEAR = 128,                 /* 1/128 of the graph behind the point, at most, still belongs to the first half, */
    NEAREST = 32,               /* or so many nodes, which may be in one kernel with what is before it */
};

static const int64_t INFINITE = INT64_MAX / 4;

typedef struct Edge { int to, next; int64_t room; } Edge;      /* an edge and its reverse are neighbours: e and e ^ 1 */

typedef struct Thin {
    Graph *g;
    int n;
    Node **at;                  /* place -> node */
    int *place;                 /* node id -> place */
    int *base;                  /* place -> that of the value it shows; itself */
    int *last;                  /* place -> the last that uses the value or a view of it; n: a result of the graph */
    int64_t *bytes;             /* place -> of its results; views: 0 */
    int point, near;            /* the fullest point is behind this place; the second half begins behind `near` */
    /* The flow network: place p is in at 2p and out at 2p + 1. */
    int *head, source, sink;
    Vec(Edge) edge;
    bool *met;                  /* place -> is it in the network? */
    int *level, *cursor, *queue;
    bool *late;                 /* vertex -> can it reach the sink? */
    Node **again;               /* place -> its copy in the second half */
} Thin;

/* ---- the graph ---- */

int64_t schedule_guess(Dim d)
{
    int64_t v;

    if (dim_is_const(d))
        return d;
    return dim_eval_each(d, GUESS, &v) && v > 0 ? v : 1;
}

int64_t schedule_bytes(const TType *t)
{
    double bits = dtype_info[t->dtype].sbits;

    for (int k = 0; k < t->rank; k++)
        bits *= (double)schedule_guess(t->shape[k]);
    return (int64_t)(bits / 8 < 1e15 ? bits / 8 : 1e15);
}

static int64_t bytes_of(const Node *n)
{
    int64_t all = 0;

    for (int i = 0; i < n->nout; i++)
        all += schedule_bytes(&n->type[i]);
    return all;
}

static bool is_view(const Node *n)
{
    return n->op == OP_reshape || n->op == OP_permute || n->op == OP_broadcast || n->op == OP_slice;
}

/* It is always there, or is made from nothing. */
static bool is_free(const Node *n) { return n->op == GRAPH_PARAM || n->op == OP_constant; }

bool schedule_is_cheap(const Node *n)
{
    if (n->op >= OP_COUNT || n->nout != 1 || n->token || scope_is_manual(n->scope))
        return false;
    switch (n->op) {
    case OP_pow: case OP_atan2: case OP_lgamma: case OP_digamma: case OP_erfinv: case OP_floordiv: case OP_mod:
        return false;
    default:
        return is_view(n) || region_copies(n) || n->op == OP_iota || (op_info[n->op].family == FAM_MAP && region_takes(n));
    }
}

static void list_nodes(Thin *t)
{
    size_t n = t->g->nnodes + 1;

    t->place = graph_places(t->g, &t->at, &t->n);
    t->base = tsr_alloc(sizeof *t->base * n);
    t->last = tsr_calloc(sizeof *t->last * n);
    t->bytes = tsr_calloc(sizeof *t->bytes * n);
    for (int p = 0; p < t->n; p++) {
        const Node *x = t->at[p];
        bool view = is_view(x);
        t->base[p] = view ? t->base[t->place[x->in[0].node->id]] : p;
        t->bytes[p] = view || is_free(x) ? 0 : bytes_of(x);
        for (int i = 0; i < x->nin; i++)
            t->last[t->base[t->place[x->in[i].node->id]]] = p;
    }
    for (int i = 0; i < t->g->results.n; i++)
        t->last[t->base[t->place[t->g->results.at[i].node->id]]] = t->n;
}

static int a_while(const Thin *t) { return t->n / NEAR > NEAREST ? t->n / NEAR : NEAREST; }

/* The most bytes that wait across a place for longer than a while; *where: that place. */
static int64_t fullest(const Thin *t, int *where)
{
    int64_t *change = tsr_calloc(sizeof *change * (size_t)(t->n + 2)), live = 0, most = 0;

    *where = 0;
    for (int p = 0; p < t->n; p++)
        if (t->last[p] > p + a_while(t) && t->last[p] < t->n) {
            change[p] += t->bytes[p];
            change[t->last[p]] -= t->bytes[p];
        }
    for (int p = 0; p < t->n; p++) {
        live += change[p];
        if (live > most) {
            most = live;
            *where = p;
        }
    }
    tsr_free(change);
    return most;
}

/* ---- the network ---- */

static void connect(Thin *t, int from, int to, int64_t room)
{
    vec_push(&t->edge, ((Edge){to, t->head[from], room}));
    t->head[from] = t->edge.n - 1;
    vec_push(&t->edge, ((Edge){from, t->head[to], 0}));
    t->head[to] = t->edge.n - 1;
}

/* A value that the second half can have for nothing. */
static bool is_there(const Thin *t, int p) { return is_free(t->at[p]) || t->last[t->base[p]] == t->n; }

/* The value and what it can be computed from. */
static void enter(Thin *t, int first)
{
    int left = 0, *todo = t->queue;

    if (t->met[first] || is_there(t, first))
        return;
    t->met[first] = true;
    todo[left++] = first;
    while (left) {
        int p = todo[--left];
        const Node *x = t->at[p];
        connect(t, 2 * p, 2 * p + 1, is_view(x) ? INFINITE : t->bytes[p]);
        if (!schedule_is_cheap(x)) {
            connect(t, t->source, 2 * p, INFINITE);
            continue;
        }
        for (int i = 0; i < x->nin; i++) {
            int q = t->place[x->in[i].node->id];
            if (is_there(t, q))
                continue;
            connect(t, 2 * q + 1, 2 * p, INFINITE);
            if (!t->met[q]) {
                t->met[q] = true;
                todo[left++] = q;
            }
        }
    }
}

static void build(Thin *t)
{
    size_t vertices = 2 * (size_t)t->n + 2;

    t->source = 2 * t->n;
    t->sink = 2 * t->n + 1;
    t->head = tsr_alloc(sizeof *t->head * vertices);
    memset(t->head, -1, sizeof *t->head * vertices);
    t->met = tsr_calloc(vertices);
    t->late = tsr_calloc(vertices);
    t->level = tsr_alloc(sizeof *t->level * vertices);
    t->cursor = tsr_alloc(sizeof *t->cursor * vertices);
    t->queue = tsr_alloc(sizeof *t->queue * vertices);
    for (int p = t->near + 1; p < t->n; p++)
        for (int i = 0; i < t->at[p]->nin; i++) {
            int q = t->place[t->at[p]->in[i].node->id];
            if (q > t->point || is_there(t, q))
                continue;
            enter(t, q);
            if (!t->late[q]) {                  /* once */
                t->late[q] = true;
                connect(t, 2 * q + 1, t->sink, INFINITE);
            }
        }
    memset(t->late, 0, vertices);
}

/* Distances from the source along edges with room; false: the sink is out of reach. */
static bool find_levels(Thin *t)
{
    int from = 0, to = 0;

    for (int v = 0; v < 2 * t->n + 2; v++)
        t->level[v] = -1;
    t->level[t->source] = 0;
    t->queue[to++] = t->source;
    while (from < to) {
        int v = t->queue[from++];
        for (int e = t->head[v]; e >= 0; e = t->edge.at[e].next)
            if (t->edge.at[e].room > 0 && t->level[t->edge.at[e].to] < 0) {
                t->level[t->edge.at[e].to] = t->level[v] + 1;
                t->queue[to++] = t->edge.at[e].to;
            }
    }
    return t->level[t->sink] >= 0;
}

/* One way from source to sink along rising levels, as edges in t->queue; 0: there is none any more. */
static int find_way(Thin *t)
{
    int v = t->source, n = 0;

    while (v != t->sink) {
        int e = t->cursor[v];
        while (e >= 0 && !(t->edge.at[e].room > 0 && t->level[t->edge.at[e].to] == t->level[v] + 1))
            e = t->edge.at[e].next;
        t->cursor[v] = e;
        if (e >= 0) {
            t->queue[n++] = e;
            v = t->edge.at[e].to;
        } else if (n) {                         /* nothing leads on from here */
            v = t->edge.at[t->queue[--n] ^ 1].to;
            t->cursor[v] = t->edge.at[t->cursor[v]].next;
        } else
            return 0;
    }
    return n;
}

/* Dinic's algorithm. */
static int64_t fill(Thin *t)
{
    int64_t all = 0;

    while (find_levels(t)) {
        memcpy(t->cursor, t->head, sizeof *t->head * (2 * (size_t)t->n + 2));
        for (int n; (n = find_way(t)) > 0;) {
            int64_t room = INFINITE;
            for (int i = 0; i < n; i++)
                room = t->edge.at[t->queue[i]].room < room ? t->edge.at[t->queue[i]].room : room;
            for (int i = 0; i < n; i++) {
                t->edge.at[t->queue[i]].room -= room;
                t->edge.at[t->queue[i] ^ 1].room += room;
            }
            all += room;
            if (all >= INFINITE)
                return all;
        }
    }
    return all;
}

/* Who can still reach the sink: the side of the cut that is nearest to the uses. */
static void find_late(Thin *t)
{
    int from = 0, to = 0;

    t->late[t->sink] = true;
    t->queue[to++] = t->sink;
    while (from < to) {
        int v = t->queue[from++];
        for (int e = t->head[v]; e >= 0; e = t->edge.at[e].next) {
            int w = t->edge.at[e].to;
            if (t->edge.at[e ^ 1].room > 0 && !t->late[w]) {
                t->late[w] = true;
                t->queue[to++] = w;
            }
        }
    }
}

/* ---- the new graph ---- */

/* Is the value computed again behind the point? */
static bool is_again(const Thin *t, int p) { return p <= t->point && t->met[p] && t->late[2 * p]; }

/* The copy of a node, before `before`; its operands' copies are there. */
static Node *copy_one(Thin *t, const Node *x, Node *before)
{
    Node *c = graph_copy_before(t->g, x, before);

    c->again++;
    for (int i = 0; i < c->nin; i++) {
        int q = t->place[c->in[i].node->id];
        if (is_again(t, q))
            graph_use(&c->in[i], (GValue){t->again[q], 0});
    }
    return c;
}

/* Copies of a node and of all that it needs again. A list of its own, since chains may be long. */
static Node *copy_of(Thin *t, int first, Node *before)
{
    int left = 0, *todo = t->queue;

    todo[left++] = first;
    while (left) {
        int p = todo[left - 1], needs = -1;
        const Node *x = t->at[p];
        for (int i = 0; i < x->nin && needs < 0; i++) {
            int q = t->place[x->in[i].node->id];
            if (is_again(t, q) && !t->again[q])
                needs = q;
        }
        if (needs >= 0) {
            todo[left++] = needs;
            continue;
        }
        if (!t->again[p])
            t->again[p] = copy_one(t, x, before);
        left--;
    }
    return t->again[first];
}

static void rewrite(Thin *t)
{
    t->again = tsr_calloc(sizeof *t->again * (size_t)(t->n + 1));
    for (int p = t->near + 1; p < t->n; p++)
        for (int i = 0; i < t->at[p]->nin; i++) {
            int q = t->place[t->at[p]->in[i].node->id];
            if (is_again(t, q))
                graph_use(&t->at[p]->in[i], (GValue){t->again[q] ? t->again[q] : copy_of(t, q, t->at[p]), 0});
        }
    graph_dce(t->g);
}

static void thin_done(Thin *t)
{
    tsr_free(t->at);
    tsr_free(t->place);
    tsr_free(t->base);
    tsr_free(t->last);
    tsr_free(t->bytes);
    tsr_free(t->head);
    tsr_free(t->met);
    tsr_free(t->late);
    tsr_free(t->level);
    tsr_free(t->cursor);
    tsr_free(t->queue);
    tsr_free(t->again);
    vec_free(&t->edge);
}

int64_t schedule_waiting(const Graph *g)
{
    Thin t = {.g = (Graph *)g};
    int where;
    int64_t bytes;

    list_nodes(&t);
    bytes = fullest(&t, &where);
    thin_done(&t);
    return bytes;
}

/* Where the second half begins: behind what may be in one kernel with what is before the point, so not behind a product or a launch. */
static int find_near(const Thin *t)
{
    int p = t->point + 1, last = t->point + a_while(t);

    while (p < last && p < t->n && !(t->at[p]->op < OP_COUNT && (op_info[t->at[p]->op].family == FAM_CONTRACT || t->at[p]->op == OP_launch)))
        p++;
    return p;
}

static bool is_less(int64_t bytes, int64_t than) { return bytes < than - than / 8; }

Graph *schedule_recompute(const Graph *g)
{
    Thin t = {0};
    int64_t before;
    bool better;

    if (!pass_runs("recompute"))
        return NULL;
    t.g = graph_clone(g);
    list_nodes(&t);
    before = fullest(&t, &t.point);
    t.near = find_near(&t);
    build(&t);
    better = is_less(fill(&t), before);
    if (better) {
        find_late(&t);
        rewrite(&t);
        better = is_less(schedule_waiting(t.g), before);
    }
    thin_done(&t);
    if (better)
        return t.g;
    graph_unref(t.g);
    return NULL;
}
