/*
 * Fitting a graph into memory by recomputation.
 *
 * The graph is followed in its order as the executor would run it, by the rules
 * of plan.h, and written out anew.  Where the next result would not fit, the
 * block is given up that is cheapest to compute again for the memory and the
 * time it frees: cost / (bytes * steps until its next use), as in dynamic tensor
 * rematerialisation (Kirisame et al., 2021), with two differences: the future is
 * known, and the cost counts what else would have to be computed again first.
 * Where a node needs a value that was given up, the nodes behind it are written once more, from what
 * is there, and marked (Node.again) so that they are not merged with the originals.
 *
 * What is given up is freed at its last use before, which is earlier than it is
 * counted here; so the plan of the new graph is at most the budget.
 */
#include "ir/graph/fit.h"

#include "ir/graph/plan.h"

#include <math.h>
#include <string.h>

enum { CHAIN_MAX = 96, GROWTH_MAX = 12, FAR = 1 << 20 };

typedef struct Val {            /* a value of the old graph */
    GValue now;                 /* in the new one; node NULL: not in memory */
    int block, also;            /* where it lies; -1: nowhere that counts */
    int pins;                   /* nodes about to be written that have it */
    bool rows;                  /* in row-major order */
    int *use;                   /* the steps that use it, ascending; nsteps for a result of the graph */
    int uses, next;             /* use[next] is the first that is still to come */
} Val;

typedef struct Block { int64_t bytes; int values, pins; } Block;

typedef struct Fit {
    const Graph *g;
    Graph *out;
    int64_t budget, live, peak, needed;
    int nsteps, at;             /* the step that is being written */
    const Node **step;
    uint32_t *slot;             /* by node id */
    const Node **maker;         /* by slot: its node */
    Val *val;
    int nvals;
    int *pool;                  /* room for all Val.use */
    uint32_t *made;             /* by node id: how often it was written */
    double *cost;               /* by node id */
    Vec(Block) blocks;
    int again, limit;
    uint32_t *seen, round;      /* by node id: met in this count of a chain */
} Fit;

/* ------------------------------------------------------------- sizes and costs */

static int64_t bytes_of(const TType *t)
{
    int64_t v;

    return dim_const_value(ttype_bytes(t), &v) ? v : 0;
}

static double elements(const TType *t)
{
    double n = 1;
    int64_t v;

    for (int i = 0; i < t->rank; i++)
        n *= dim_const_value(t->shape[i], &v) ? (double)v : 1;
    return n;
}

/* About how long a node takes, in elements moved. */
static double cost_of(const Node *n)
{
    double in = 0, out = 1;

    for (int i = 0; i < n->nin; i++)
        in += elements(gvalue_type(n->in[i]));
    for (int i = 0; i < n->nout; i++)
        out += elements(&n->type[i]);
    if (op_info[n->op].flags & OPF_REGIONS)
        return 1000 * (in + out);
    switch (op_info[n->op].family) {
    case FAM_CONTRACT: {                                /* k multiplications for each element of m x n: k^2 = mk * kn / mn */
        double k2 = n->nin == 2 ? elements(gvalue_type(n->in[0])) * elements(gvalue_type(n->in[1])) / out : in;
        return in + out * (k2 > 1 ? sqrt(k2) : 1) / 8;
    }
    case FAM_LINALG: case FAM_SORT: case FAM_FFT:
        return 50 * (in + out);
    case FAM_MAP:
        return op_info[n->op].flags & (OPF_LINEAR | OPF_MULTILINEAR | OPF_NODIFF) ? in + out : in + 4 * out;
    default:
        return in + out;
    }
}

static bool may_repeat(const Node *n)
{
    return n->op != GRAPH_PARAM && n->op != OP_constant && !(node_effects(n) & ~(unsigned)OPF_RANDOM) &&
           !(op_info[n->op].flags & OPF_COLLECTIVE);
}

/* ------------------------------------------------------------- values in memory */

static Val *val_of(Fit *f, GValue v) { return &f->val[f->slot[v.node->id] + (uint32_t)v.index]; }

/* The first use at step `from` or later; FAR when there is none. */
static int next_use(Val *v, int from)
{
    while (v->next < v->uses && v->use[v->next] < from)
        v->next++;
    return v->next < v->uses ? v->use[v->next] : FAR;
}

static int new_block(Fit *f, int64_t bytes)
{
    Block b = {.bytes = bytes};

    vec_push(&f->blocks, b);
    f->live += bytes;
    if (f->live > f->peak)
        f->peak = f->live;
    return f->blocks.n - 1;
}

static void leave_block(Fit *f, int b)
{
    if (b >= 0 && --f->blocks.at[b].values == 0)
        f->live -= f->blocks.at[b].bytes;
}

static void put(Fit *f, Val *v, GValue now, int block, int also)
{
    v->now = now;
    v->block = block;
    v->also = also;
    if (block >= 0)
        f->blocks.at[block].values++;
    if (also >= 0)
        f->blocks.at[also].values++;
}

static void drop(Fit *f, Val *v)
{
    leave_block(f, v->block);
    leave_block(f, v->also);
    v->now.node = NULL;
    v->block = v->also = -1;
}

static void pin(Fit *f, Val *v, int by)
{
    v->pins += by;
    if (v->block >= 0)
        f->blocks.at[v->block].pins += by;
    if (v->also >= 0)
        f->blocks.at[v->also].pins += by;
}

/* ------------------------------------------------------------- giving up */

/* What it costs to have the value again, with what would have to be there for it; infinite when that is too much. */
static double price(Fit *f, const Node *n)
{
    const Node *todo[CHAIN_MAX];
    int count = 0, left = 0;
    double sum = 0;

    f->round++;
    todo[left++] = n;
    f->seen[n->id] = f->round;
    while (left) {
        n = todo[--left];
        if (!may_repeat(n) || ++count > CHAIN_MAX)
            return INFINITY;
        sum += f->cost[n->id];
        for (int i = 0; i < n->nin; i++) {
            const Node *x = n->in[i].node;
            if (val_of(f, n->in[i])->now.node || f->seen[x->id] == f->round)
                continue;
            if (left == CHAIN_MAX)
                return INFINITY;
            f->seen[x->id] = f->round;
            todo[left++] = x;
        }
    }
    return sum;
}

typedef struct Offer { double cost; int next; } Offer;

static void offer(Offer *o, double cost, int next)
{
    o->cost += cost;
    o->next = next < o->next ? next : o->next;
}

/* The block to give up, -1: there is none. */
static int choose(Fit *f)
{
    Offer *all = tsr_alloc(sizeof *all * (size_t)(f->blocks.n + 1));
    double best = INFINITY;
    int found = -1;

    for (int b = 0; b < f->blocks.n; b++)
        all[b] = (Offer){0, FAR};
    for (int s = 0; s < f->nvals; s++) {
        Val *v = &f->val[s];
        if (!v->now.node || v->block < 0)
            continue;
        const Block *b = &f->blocks.at[v->block], *c = v->also >= 0 ? &f->blocks.at[v->also] : b;
        if (b->pins || c->pins)
            continue;
        double cost = price(f, f->maker[s]);
        offer(&all[v->block], cost, next_use(v, f->at));
        if (v->also >= 0)
            offer(&all[v->also], cost, next_use(v, f->at));
    }
    for (int b = 0; b < f->blocks.n; b++) {
        const Block *k = &f->blocks.at[b];
        double score = k->values && !k->pins && k->bytes > 0 && all[b].next > f->at
                           ? (all[b].cost + 1) / ((double)k->bytes * (all[b].next - f->at)) : INFINITY;
        if (score < best) {
            best = score;
            found = b;
        }
    }
    tsr_free(all);
    return found;
}

static bool make_room(Fit *f, int64_t bytes)
{
    while (f->live + bytes > f->budget) {
        int b = choose(f);
        if (b < 0) {
            f->needed = f->live + bytes;
            return false;
        }
        for (int s = 0; s < f->nvals; s++)
            if (f->val[s].now.node && (f->val[s].block == b || f->val[s].also == b))
                drop(f, &f->val[s]);
    }
    return true;
}

/* ------------------------------------------------------------- writing nodes */

static int64_t inside_of(Fit *f, const Node *n)
{
    uint64_t scattered = 0;
    int64_t v;

    for (int i = 0; i < n->nin; i++)
        scattered |= (uint64_t)!val_of(f, n->in[i])->rows << (i < 63 ? i : 63);
    return dim_const_value(node_inside(n, scattered), &v) ? v : 0;
}

static int64_t own_bytes(Fit *f, const Node *n, int i)
{
    Lies lies = node_lies(n, n->nin && val_of(f, n->in[0])->rows);

    return lies == LIES_APART || lies == LIES_EITHER ? bytes_of(&n->type[i]) : 0;
}

/* The executor keeps what follows from the sizes alone: giving it up would free nothing. */
static bool stays(const Fit *f, const Node *n)
{
    return n->op == GRAPH_PARAM || n->op == OP_constant || node_is_kept(f->g, n);
}

/* Is this the last that is needed of the value, once the node at the current step has it? */
static bool done_with(Fit *f, Val *v, bool original)
{
    return next_use(v, original ? f->at + 1 : f->at) == FAR;
}

static int taken_operand(Fit *f, const Node *n, bool original)
{
    for (int k = 0; k < n->nin; k++) {
        Val *v = val_of(f, n->in[k]);
        const Block *b = v->block >= 0 ? &f->blocks.at[v->block] : NULL;
        if (node_may_take(n, k) && !stays(f, n->in[k].node) && b && b->values == 1 && b->pins == 1 && v->also < 0 && v->rows &&
            done_with(f, v, original))
            return k;
    }
    return -1;
}

/* Where result i of the new node lies, and its place among the values. */
static void place_result(Fit *f, const Node *n, Node *made, int i, int take)
{
    Val *x = n->nin ? val_of(f, n->in[0]) : NULL, *v = val_of(f, (GValue){(Node *)(uintptr_t)n, i});
    Lies lies = node_lies(n, x && x->rows);
    int from = node_returns(n, i);
    GValue now = {made, i};

    v->rows = node_row_major(n, x && x->rows);
    if (lies == LIES_NOWHERE)
        put(f, v, now, -1, -1);
    else if (lies == LIES_WITHIN)
        put(f, v, now, x->block, x->also);
    else if (take >= 0) {
        Val *t = val_of(f, n->in[take]);
        put(f, v, now, t->block, -1);
    } else
        put(f, v, now, new_block(f, bytes_of(&n->type[i])), lies == LIES_EITHER ? x->block : from >= 0 ? val_of(f, n->in[from])->block : -1);
}

static Node *copy_node(Fit *f, const Node *n)
{
    GValue few[16], *in = n->nin <= 16 ? few : tsr_alloc(sizeof *in * n->nin);
    Node *c;

    for (int i = 0; i < n->nin; i++)
        in[i] = val_of(f, n->in[i])->now;
    c = graph_append(f->out, (OpId)n->op, n->attr, in, n->nin, n->type, n->nout, n->span);
    c->again = f->made[n->id] ? n->again + f->made[n->id] : n->again;
    f->again += f->made[n->id]++ > 0;
    if (in != few)
        tsr_free(in);
    return c;
}

/* Write the node, whose operands are in memory and pinned. */
static bool write_node(Fit *f, const Node *n, bool original)
{
    int take = taken_operand(f, n, original);
    int64_t need = inside_of(f, n);
    Node *c;

    for (int i = 0; i < n->nout && take < 0; i++)
        need += own_bytes(f, n, i);
    if (!make_room(f, need) || f->out->nnodes > (uint32_t)f->limit)
        return false;
    if (f->live + need > f->peak)
        f->peak = f->live + need;
    c = copy_node(f, n);
    for (int i = 0; i < n->nout; i++) {
        Val *v = val_of(f, (GValue){(Node *)(uintptr_t)n, i});
        if (v->now.node)                            /* another result of the node was still there */
            drop(f, v);
        place_result(f, n, c, i, take);
    }
    for (int i = 0; i < n->nin; i++)
        pin(f, val_of(f, n->in[i]), -1);
    for (int i = 0; i < n->nin; i++) {
        Val *v = val_of(f, n->in[i]);
        if (v->now.node && !stays(f, n->in[i].node) && !v->pins && done_with(f, v, original))
            drop(f, v);
    }
    for (int i = 0; original && i < n->nout; i++) {
        Val *v = val_of(f, (GValue){(Node *)(uintptr_t)n, i});
        if (stays(f, n))
            pin(f, v, 1);
        else if (next_use(v, f->at) == FAR)
            drop(f, v);
    }
    return true;
}

typedef struct Pending { const Node *node; int at; } Pending;        /* operands before `at` are in memory and pinned */

/* Write the node, and before it whatever it needs that is not in memory. A list of its own, since chains may be long. */
static bool write_with_operands(Fit *f, const Node *n, bool original)
{
    Vec(Pending) todo = {0};
    bool ok = true;

    vec_push(&todo, ((Pending){n, 0}));
    while (ok && todo.n) {
        Pending *p = &todo.at[todo.n - 1];
        if (p->at < p->node->nin) {
            GValue need = p->node->in[p->at];
            Val *v = val_of(f, need);
            if (v->now.node) {
                pin(f, v, 1);
                p->at++;
            } else if (todo.n > f->limit)
                ok = false;
            else
                vec_push(&todo, ((Pending){need.node, 0}));
            continue;
        }
        ok = write_node(f, p->node, original && todo.n == 1);
        todo.n--;
    }
    vec_free(&todo);
    return ok;
}

static bool write_results(Fit *f)
{
    bool ok = true;

    f->at = f->nsteps;
    for (int i = 0; ok && i < f->g->results.n; i++) {
        Val *v = val_of(f, f->g->results.at[i]);
        ok = v->now.node || write_with_operands(f, f->g->results.at[i].node, false);
        if (ok)
            pin(f, v, 1);
    }
    for (int i = 0; ok && i < f->g->results.n; i++)
        graph_result(f->out, val_of(f, f->g->results.at[i])->now);
    return ok;
}

/* ------------------------------------------------------------- the whole */

static void count_uses(Fit *f)
{
    int *room = f->pool;

    for (int at = 0; at < f->nsteps; at++)
        for (int i = 0; i < f->step[at]->nin; i++)
            val_of(f, f->step[at]->in[i])->uses++;
    for (int i = 0; i < f->g->results.n; i++)
        val_of(f, f->g->results.at[i])->uses++;
    for (int s = 0; s < f->nvals; s++) {
        f->val[s].use = room;
        room += f->val[s].uses;
        f->val[s].uses = 0;
    }
    for (int at = 0; at < f->nsteps; at++)
        for (int i = 0; i < f->step[at]->nin; i++) {
            Val *v = val_of(f, f->step[at]->in[i]);
            v->use[v->uses++] = at;
        }
    for (int i = 0; i < f->g->results.n; i++) {
        Val *v = val_of(f, f->g->results.at[i]);
        v->use[v->uses++] = f->nsteps;
    }
}

static void fit_init(Fit *f, const Graph *g, int64_t budget)
{
    size_t n = g->nnodes + 1, uses = (size_t)g->results.n + 1;

    *f = (Fit){.g = g, .out = graph_new(g->name), .budget = budget};
    f->slot = tsr_calloc(sizeof *f->slot * n);
    f->step = tsr_calloc(sizeof *f->step * n);
    f->cost = tsr_calloc(sizeof *f->cost * n);
    f->made = tsr_calloc(sizeof *f->made * n);
    f->seen = tsr_calloc(sizeof *f->seen * n);
    for (const Node *k = g->first; k; k = k->next) {
        f->slot[k->id] = (uint32_t)f->nvals;
        f->nvals += k->nout;
        uses += k->nin;
        if (k->op != GRAPH_PARAM) {
            f->step[f->nsteps++] = k;
            f->cost[k->id] = cost_of(k);
        }
    }
    f->val = tsr_calloc(sizeof *f->val * (size_t)(f->nvals + 1));
    f->maker = tsr_calloc(sizeof *f->maker * (size_t)(f->nvals + 1));
    f->pool = tsr_calloc(sizeof *f->pool * uses);
    for (const Node *k = g->first; k; k = k->next)
        for (int i = 0; i < k->nout; i++) {
            f->maker[f->slot[k->id] + (uint32_t)i] = k;
            f->val[f->slot[k->id] + (uint32_t)i].block = f->val[f->slot[k->id] + (uint32_t)i].also = -1;
        }
    f->limit = GROWTH_MAX * (int)g->nnodes + 64;
    count_uses(f);
}

static void fit_done(Fit *f)
{
    tsr_free(f->slot);
    tsr_free(f->step);
    tsr_free(f->cost);
    tsr_free(f->made);
    tsr_free(f->seen);
    tsr_free(f->val);
    tsr_free(f->maker);
    tsr_free(f->pool);
    vec_free(&f->blocks);
}

static void copy_params(Fit *f)
{
    for (int i = 0; i < f->g->params.n; i++) {
        Val *v = val_of(f, (GValue){f->g->params.at[i], 0});
        put(f, v, graph_param(f->out, &f->g->params.at[i]->type[0]), -1, -1);
        v->rows = true;
    }
    for (int i = 0; i < f->g->conds.n; i++)
        vec_push(&f->out->conds, f->g->conds.at[i]);
}

Graph *graph_fit(const Graph *g, int64_t budget, FitReport *report)
{
    Fit f;
    bool ok = true;

    fit_init(&f, g, budget);
    copy_params(&f);
    for (; ok && f.at < f.nsteps; f.at++)
        ok = write_with_operands(&f, f.step[f.at], true);
    ok = ok && write_results(&f);
    *report = (FitReport){.peak = f.peak, .again = f.again, .needed = f.needed};
    fit_done(&f);
    if (ok)
        return f.out;
    graph_unref(f.out);
    return NULL;
}
