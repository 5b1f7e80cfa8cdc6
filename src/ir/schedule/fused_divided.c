/*
 * Bodies that a GPU does faster as two kernels.
 *
 * Who multiplies matrices has few threads, and sums down columns have little to do for each; a long formula beside either would wait for
 * them.  So a body is divided:
 *
 *     gelu(x @ w + b)             h = x @ w + b, which is stored, and gelu(h) by a kernel of its own
 *     y = f(x), sum(y, axis=0)    y = f(x), and the sums of what is stored
 *
 * A product keeps what follows it up to a value through which all the rest goes, and all of it where its steps take longer anyway and nothing
 * is summed.  Bits are those of the whole: both halves are bodies like any other.
 */
#include "ir/schedule/far.h"
#include "ir/schedule/fused_impl.h"

#include "base/alloc.h"
#include "runtime/convert.h"

#include <string.h>

enum {
    HEAVY = 16,                 /* schedule_gpu_cost of an element, from which a formula is long */
    LIGHT = 12, LIGHTER = 4,    /* up to which it may stay with the product, or the sums */
    STEPS_A_COST = 200, STEPS_FREE = 1000,   /* of a product: so many hide an op, and so many are worth a value that is stored and read */
    STEPS_TURNS = 24,           /* the same where one warpgroup computes it while another one multiplies */
    COST_OF_TABLE = 4,          /* of an element that is looked up */
    COST_OF_SUMS = 1 << 20,     /* no product hides them: its blocks are no rows */
};

typedef struct Division {
    const Graph *body;
    bool *late;                 /* node -> does it follow from the product, or from a sum? */
    bool *met;                  /* node -> does it stand before the place where find_cut is? */
    bool *part[2];              /* node -> is it computed there? by both where it is cheap */
    int cost;                   /* of what is divided off, an element */
    bool tabled;                /* is it a formula of one bf16? */
} Division;

static bool is_reduction(const Node *n) { return n->op < OP_COUNT && op_info[n->op].family == FAM_REDUCE; }

static bool is_inside(const Node *n) { return n->op != GRAPH_PARAM; }

static int cost_of(const Node *n) { return is_inside(n) && n->op != OP_matmul && !is_reduction(n) && !region_copies(n) ? schedule_gpu_cost(n) : 0; }

static void find_late(Division *d, bool (*begins)(const Node *n))
{
    for (const Node *n = d->body->first; n; n = n->next) {
        d->late[n->id] = begins(n);
        for (int i = 0; i < n->nin; i++)
            d->late[n->id] |= d->late[n->in[i].node->id];
    }
}

/* The node and all that it needs are part of a half; stop: those that the other half stores. */
static void need(const Division *d, const Node *n, bool *part, const bool *stop)
{
    if (part[n->id] || !is_inside(n) || (stop && stop[n->id]))
        return;
    part[n->id] = true;
    for (int i = 0; i < n->nin; i++)
        need(d, n->in[i].node, part, stop);
}

/* ---- behind a product ---- */

static bool is_product(const Node *n) { return n->op == OP_matmul; }

/* The only value up to `last`, the node met last, that those behind it take of what follows from the product; NULL: there are several. */
static const Node *only_way(const Division *d, const Node *last)
{
    const Node *way = NULL;

    for (const Node *n = last->next; n; n = n->next)
        for (int i = 0; i < n->nin; i++) {
            const Node *x = n->in[i].node;
            if (!d->met[x->id] || !d->late[x->id])
                continue;
            if (way && way != x)
                return NULL;
            way = x;
        }
    return way;
}

/* The node behind which a body with a product is divided; NULL: nowhere. */
static const Node *find_cut(Division *d)
{
    const Node *cut = NULL, *way, *at = NULL;
    int cost = 0, before = 0;

    for (const Node *n = d->body->first; n; n = n->next) {
        d->met[n->id] = true;
        cost += d->late[n->id] ? cost_of(n) : 0;
        if (cost > LIGHT || !d->late[n->id] || !(way = only_way(d, n)))
            continue;
        if (cut && raw_size((DType)way->type[0].dtype) > raw_size((DType)at->type[0].dtype))
            continue;
        cut = n;
        at = way;
        before = cost;
    }
    d->cost = cost - before;
    return cut;
}

static bool has_shape_of(const Node *n, const Node *product)
{
    const TType *t = &product->type[0];

    return n->type[0].rank == t->rank && !memcmp(n->type[0].shape, t->shape, sizeof *t->shape * t->rank);
}

/* What goes with each element behind the product without following from it. */
static int cost_beside(const Division *d, const Node *product)
{
    int cost = 0;

    for (const Node *n = d->body->first; n; n = n->next)
        cost += !d->late[n->id] && has_shape_of(n, product) ? cost_of(n) : 0;
    return cost;
}

/*
 * Is what stands behind the cut, and is the only result, computed from the way there alone, a bf16 that becomes another one? Warpgroups look that up
 * (codegen/gpu_roles_table.c) where nothing of the product's shape comes with it.
 */
static bool is_tabled(const Division *d, const Node *cut, const Node *product)
{
    const Node *way = only_way(d, cut);

    if (!way || way->type[0].dtype != DT_bf16 || d->body->results.n != 1)
        return false;
    for (const Node *n = product->next; n; n = n->next)
        for (int i = 0; i < n->nin && d->late[n->id]; i++)
            if (!is_inside(n->in[i].node) && has_shape_of(n->in[i].node, product))
                return false;
    for (const Node *n = cut->next; n; n = n->next) {
        bool gives = d->late[n->id] && graph_gives(d->body, n);
        if (d->late[n->id] && (is_reduction(n) || region_copies(n) || gives != (n->type[0].dtype == DT_bf16)))
            return false;
        for (int i = 0; i < n->nin && d->late[n->id]; i++)
            if (!d->late[n->in[i].node->id] && n->in[i].node->op != OP_constant)
                return false;
    }
    return true;
}

static bool divide_product(Division *d)
{
    const Node *cut, *product = d->body->first;
    bool behind = false;

    while (!is_product(product))
        product = product->next;

    find_late(d, is_product);
    if (!(cut = find_cut(d)))
        return false;
    d->cost += cost_beside(d, product);
    for (const Node *n = cut->next; n; n = n->next)
        d->cost = d->late[n->id] && is_reduction(n) ? COST_OF_SUMS : d->cost;
    if (d->cost <= HEAVY)
        return false;
    d->tabled = is_tabled(d, cut, product);
    for (const Node *n = d->body->first; n; n = n->next) {
        if (is_inside(n) && (d->late[n->id] ? !behind : graph_gives(d->body, n)))
            need(d, n, d->part[0], NULL);
        behind |= n == cut;
    }
    for (const Node *n = d->body->first; n; n = n->next)
        if (d->late[n->id] && !d->part[0][n->id])
            d->part[1][n->id] = true;
    for (const Node *n = d->body->first; n; n = n->next)
        for (int i = 0; i < n->nin && d->part[1][n->id] && d->late[n->id]; i++)
            if (!d->late[n->in[i].node->id])
                need(d, n->in[i].node, d->part[1], NULL);
    return true;
}

/* ---- sums down columns ---- */

static bool sums_columns(const Node *n)
{
    bool rows = false;

    for (int i = 0; i < n->attr->naxes; i++)
        rows |= n->attr->axis[i] == -1;
    return is_reduction(n) && !rows;
}

static int part_cost(const Division *d, const bool *part)
{
    int cost = 0;

    for (const Node *n = d->body->first; n; n = n->next)
        cost += part[n->id] && !d->late[n->id] ? cost_of(n) : 0;
    return cost;
}

static bool divide_columns(Division *d)
{
    bool *stored = tsr_calloc(d->body->nnodes + 1), sums = false, ok = true;

    find_late(d, is_reduction);
    for (const Node *n = d->body->first; n; n = n->next) {
        sums |= is_reduction(n);
        ok &= !is_reduction(n) || sums_columns(n);
        stored[n->id] = is_inside(n) && !d->late[n->id] && graph_gives(d->body, n);
        if (stored[n->id])
            need(d, n, d->part[0], NULL);
    }
    for (int i = 0; i < d->body->results.n; i++)
        if (d->late[d->body->results.at[i].node->id])
            need(d, d->body->results.at[i].node, d->part[1], stored);
    d->cost = part_cost(d, d->part[0]);
    ok = ok && sums && d->cost > HEAVY && part_cost(d, d->part[1]) <= LIGHTER;
    tsr_free(stored);
    return ok;
}

/* ---- the two halves ---- */

typedef struct Half {
    Graph *g;
    Node **at;                  /* node of the body -> its copy here, or the parameter that brings it */
    GValue operand[REGION_OPERANDS];
    TType type[REGION_OPERANDS];
    int nin, nout;
    Node *made;
} Half;

typedef struct Writer { const Division *d; Graph *g; Node **outer; Half half[2]; int *result[2]; } Writer;

static bool operand_of(Writer *w, int k, const Node *x)
{
    Half *h = &w->half[k];
    TType t = x->type[0];

    if (h->at[x->id])
        return true;
    if (h->nin == REGION_OPERANDS)
        return false;
    t.weak = 0;
    h->operand[h->nin++] = k && w->d->part[0][x->id] ? (GValue){w->half[0].made, w->result[0][x->id]} : (GValue){w->outer[x->id], 0};
    h->at[x->id] = graph_param(h->g, &t).node;
    return true;
}

/* Does the second half take what the first one has computed? */
static bool crosses(const Division *d, const Node *x)
{
    for (const Node *n = x->next; n && d->part[0][x->id] && !d->part[1][x->id]; n = n->next)
        for (int i = 0; i < n->nin && d->part[1][n->id]; i++)
            if (n->in[i].node == x)
                return true;
    return false;
}

static bool write_half(Writer *w, int k)
{
    Half *h = &w->half[k];
    const Division *d = w->d;
    GValue in[8];
    Attr a = attr_default();

    for (const Node *n = d->body->first; n; n = n->next) {
        if (!d->part[k][n->id])
            continue;
        for (int i = 0; i < n->nin; i++) {
            if (!operand_of(w, k, n->in[i].node))
                return false;
            in[i] = (GValue){h->at[n->in[i].node->id], 0};
        }
        h->at[n->id] = graph_append(h->g, (OpId)n->op, n->attr, in, n->nin, n->type, 1, n->span);
        if (!(graph_gives(d->body, n) && !(k && d->part[0][n->id])) && !(k == 0 && crosses(d, n)))
            continue;
        if (h->nout == REGION_OPERANDS)
            return false;
        w->result[k][n->id] = h->nout;
        h->type[h->nout++] = n->type[0];
        graph_result(h->g, (GValue){h->at[n->id], 0});
    }
    a.region[0] = h->g;
    h->made = graph_append(w->g, OP_fused, &a, h->operand, h->nin, h->type, h->nout, (Span){0});
    return h->nin > 0 && h->nout > 0;
}

static bool write_both(Writer *w)
{
    const Graph *body = w->d->body;

    for (int i = 0; i < body->params.n; i++)
        w->outer[body->params.at[i]->id] = graph_param(w->g, &body->params.at[i]->type[0]).node;
    if (!write_half(w, 0) || !write_half(w, 1))
        return false;
    for (int i = 0; i < body->results.n; i++) {
        const Node *n = body->results.at[i].node;
        int k = w->d->part[0][n->id] ? 0 : 1;
        if (!w->d->part[k][n->id])
            return false;
        graph_result(w->g, (GValue){w->half[k].made, w->result[k][n->id]});
    }
    return true;
}

static Graph *write_division(const Division *d)
{
    size_t n = (size_t)d->body->nnodes + 1;
    Writer w = {.d = d, .g = graph_new(d->body->name), .outer = tsr_calloc(sizeof *w.outer * n)};
    bool ok;

    for (int k = 0; k < 2; k++) {
        w.half[k] = (Half){.g = graph_new(d->body->name), .at = tsr_calloc(sizeof *w.half[k].at * n)};
        w.result[k] = tsr_calloc(sizeof *w.result[k] * n);
    }
    ok = write_both(&w);
    for (int k = 0; k < 2; k++) {
        graph_unref(w.half[k].g);
        tsr_free(w.half[k].at);
        tsr_free(w.result[k]);
    }
    tsr_free(w.outer);
    if (ok)
        return w.g;
    graph_unref(w.g);
    return NULL;
}

/* The body as two; NULL: it is better done as one. *cost: of the formula that is divided off, an element. */
static Graph *divide(const Graph *body, int *cost, bool *tabled)
{
    size_t n = (size_t)body->nnodes + 1;
    Division d = {.body = body, .late = tsr_calloc(n), .met = tsr_calloc(n), .part = {tsr_calloc(n), tsr_calloc(n)}};
    bool product = graph_has_op(body, OP_matmul);
    Graph *g = (product ? divide_product(&d) : divide_columns(&d)) ? write_division(&d) : NULL;

    *cost = d.cost;
    *tabled = d.tabled;
    tsr_free(d.late);
    tsr_free(d.met);
    tsr_free(d.part[0]);
    tsr_free(d.part[1]);
    return g;
}

/* Do warpgroups take turns at the product, so that one multiplies while another one computes what follows? Rows have to be of whole 16 bytes. */
static bool takes_turns(int device, const Tensor *x, const Tensor *y)
{
    int chip = far_chip(device);

    return chip >= 90 && chip < 100 && far_made_for < 0 && raw_size((DType)x->dtype) == 2 && y->rank == 2 && x->shape[x->rank - 1] % 8 == 0 &&
           y->shape[1] % 8 == 0;
}

int fused_divided_cost(const FusedCode *c) { return c->divided_tabled ? COST_OF_TABLE : c->divided_cost; }

/* A product that takes long enough, as those do that no matrix unit computes, hides what follows it. */
bool fused_divides(FusedCode *c, Tensor *const *in, int device)
{
    const Tensor *x = c->product ? in[c->factor[0]] : NULL;
    int64_t steps, cost;

    if (!c->divides_asked)
        c->divided = c->looks_up ? NULL : divide(c->whole, &c->divided_cost, &c->divided_tabled);
    c->divides_asked = true;
    if (!c->divided || !x)
        return c->divided;
    steps = x->shape[x->rank - 1], cost = c->divided_cost;
    if (takes_turns(device, x, in[c->factor[1]]) && fused_divided_cost(c) * STEPS_TURNS <= steps)
        return false;
    return raw_size((DType)x->dtype) <= 2 && cost * STEPS_A_COST > steps + STEPS_FREE;
}
