/*
 * apart: what two reductions over different axes need, each of them computes for itself.
 *
 * A kernel reduces over one set of axes.  The derivative of a norm has sums along rows and, for its weights, sums down columns, of
 * the same few operands; the kernel that had the elementwise ops between would have to write all that the other one needs.  Instead, all but one
 * of such sets get copies of these ops (Node.again keeps them apart when nodes are fused), as long as what the copies read
 * is no more than what would be written and read else.  The original stays with the sums along rows, which need what
 * they sum up once more.  Values that are in memory for someone else anyway are read from there.
 */
#include "ir/schedule/schedule.h"

#include "ir/graph/trace.h"

#include <string.h>

enum { SETS = 8, COST_MOST = 24, NODES_MOST = 48 };     /* sets of axes that are told apart; of a chain of copies */

/* Axes, from the end, as bits. */
typedef struct Sets { uint32_t axes[SETS]; int n; } Sets;

typedef struct Parter {
    Graph *g;
    int n;
    Node **at;                  /* place -> node */
    int *place;                 /* node id -> place */
    Sets sets;
    uint8_t *feeds;             /* place -> the sets that its elements are reduced over, by elementwise ops in between, as bits */
    bool *stored;               /* place -> is the value in memory for someone else? */
    Node **copy;                /* SETS of them a place */
    int *leaf;                  /* places that a chain of copies reads */
    int nleaves, nodes, cost;
    uint8_t sets_met;           /* what the chain's values are reduced over */
    const TType *whole;         /* the type of what the chain ends in; values of other shapes are smaller, and read */
    uint32_t *met, stamp;       /* place -> the chain that met it last */
} Parter;

static bool is_reduction(const Node *n) { return n->op < OP_COUNT && op_info[n->op].family == FAM_REDUCE && n->nin == 1 && n->attr->naxes; }

static bool is_elementwise(const Node *n) { return n->op < OP_COUNT && op_info[n->op].family == FAM_MAP && schedule_is_cheap(n); }

static bool same_shape(const TType *a, const TType *b) { return a->rank == b->rank && !memcmp(a->shape, b->shape, sizeof *a->shape * a->rank); }

/* The bit of a reduction's set of axes; 0: there are too many. */
static uint8_t set_of(Sets *s, const Node *n)
{
    uint32_t axes = 0;

    for (int i = 0; i < n->attr->naxes; i++)
        axes |= 1u << (-n->attr->axis[i] - 1);
    for (int i = 0; i < s->n; i++)
        if (s->axes[i] == axes)
            return (uint8_t)(1u << i);
    if (s->n == SETS)
        return 0;
    s->axes[s->n++] = axes;
    return (uint8_t)(1u << (s->n - 1));
}

/* The set whose reductions keep the original: along rows, if there is one. */
static uint8_t keeper(const Sets *s, uint8_t among)
{
    for (int i = 0; i < s->n; i++)
        if (among >> i & 1 && s->axes[i] & 1)
            return (uint8_t)(1u << i);
    return (uint8_t)(among & -among);
}

static bool is_one_of_many(uint8_t sets) { return sets & (sets - 1); }

/* ---- who needs what ---- */

static void list_nodes(Parter *p)
{
    p->place = graph_places(p->g, &p->at, &p->n);
    p->feeds = tsr_calloc((size_t)p->n + 1);
    p->stored = tsr_calloc(sizeof *p->stored * ((size_t)p->n + 1));
    p->met = tsr_calloc(sizeof *p->met * ((size_t)p->n + 1));
    p->leaf = tsr_alloc(sizeof *p->leaf * ((size_t)p->n + 1));
}

/* Backwards: users come before what they use. */
static bool find_uses(Parter *p)
{
    bool any = false;

    for (int i = 0; i < p->g->results.n; i++)
        p->stored[p->place[p->g->results.at[i].node->id]] = true;
    for (int at = p->n - 1; at >= 0; at--) {
        const Node *n = p->at[at];
        bool maps = is_elementwise(n), reduces = is_reduction(n), moves = region_moves(n);
        uint8_t set = reduces ? set_of(&p->sets, n) : 0;
        for (int i = 0; i < n->nin; i++) {
            int q = p->place[n->in[i].node->id];
            if (maps && same_shape(gvalue_type(n->in[i]), &n->type[0]))
                p->feeds[q] |= p->feeds[at];
            p->feeds[q] |= set;
            p->stored[q] |= n->again > p->at[q]->again;         /* it was kept for them */
            p->stored[q] |= moves ? p->stored[at] : !(maps || reduces || (n->op < OP_COUNT && region_takes(n)));
        }
        any |= is_one_of_many(p->feeds[at]);
    }
    return any;
}

/* Is the op done again for a reduction over another set? Else its result is read. */
static bool is_copied(const Parter *p, int at) { return !p->stored[at] && is_elementwise(p->at[at]) && same_shape(&p->at[at]->type[0], p->whole); }

/* What copies of the value there would read; false: something that is not in memory without them, or they would cost too much. */
static bool find_leaves(Parter *p, int at)
{
    const Node *n = p->at[at];
    bool ok = true;

    if (p->met[at] == p->stamp)
        return true;
    p->met[at] = p->stamp;
    p->sets_met |= p->feeds[at];
    if (!is_copied(p, at)) {
        p->leaf[p->nleaves++] = at;
        return p->stored[at] || !same_shape(&n->type[0], p->whole) || !region_takes(n) || n->op == OP_iota || is_reduction(n) || region_moves(n);
    }
    p->cost += schedule_op_cost(n);
    ok = ++p->nodes <= NODES_MOST && p->cost <= COST_MOST;
    for (int i = 0; ok && i < n->nin; i++)
        ok = find_leaves(p, p->place[n->in[i].node->id]);
    return ok;
}

/* Follow what a reduction's operand is computed of; true: what copies read is no more than writing and reading the operand, and half as much. */
static bool is_worth(Parter *p, int at)
{
    int64_t bytes = 0, most = 3 * schedule_bytes(&p->at[at]->type[0]);
    bool ok;

    p->stamp++;
    p->whole = &p->at[at]->type[0];
    p->nleaves = p->nodes = p->cost = p->sets_met = 0;
    ok = find_leaves(p, at);
    for (int i = 0; i < p->nleaves; i++)
        bytes += schedule_bytes(&p->at[p->leaf[i]]->type[0]);
    return ok && bytes <= most;
}

/* ---- copies ---- */

/* The copy of the value there for a set, before `before`; operands that are not copied are the originals. */
static Node *copy_of(Parter *p, int at, int set, Node *before)
{
    Node **slot = &p->copy[at * SETS + set], *x = p->at[at];

    if (*slot || !is_copied(p, at))
        return *slot ? *slot : x;
    for (int i = 0; i < x->nin; i++)
        copy_of(p, p->place[x->in[i].node->id], set, before);
    *slot = graph_copy_before(p->g, x, before);
    (*slot)->again += 1 + (uint32_t)set;
    for (int i = 0; i < x->nin; i++)
        graph_use(&(*slot)->in[i], (GValue){copy_of(p, p->place[x->in[i].node->id], set, before), x->in[i].index});
    return *slot;
}

/* A reduction over another set than the keeper's has copies of its own, and at least stays out of the keeper's kernel. */
static void part(Parter *p, Node *n)
{
    int q = p->place[n->in[0].node->id], set = 0;
    uint8_t own = set_of(&p->sets, n);
    bool worth = is_worth(p, q);

    if (!own || !is_one_of_many(p->sets_met) || own == keeper(&p->sets, p->sets_met))
        return;
    while (own >> set > 1)
        set++;
    if (worth)
        graph_use(&n->in[0], (GValue){copy_of(p, q, set, n), n->in[0].index});
    n->again = p->at[q]->again + 1 + (uint32_t)set;
}

static void parter_done(Parter *p)
{
    tsr_free(p->at);
    tsr_free(p->place);
    tsr_free(p->feeds);
    tsr_free(p->stored);
    tsr_free(p->met);
    tsr_free(p->leaf);
    tsr_free(p->copy);
}

Graph *schedule_apart(Graph *g)
{
    Parter p = {.g = g};
    Graph *out = NULL;
    bool any;

    if (!pass_runs("apart"))
        return NULL;
    list_nodes(&p);
    any = find_uses(&p);
    parter_done(&p);
    if (!any)
        return NULL;
    p = (Parter){.g = out = graph_clone(g)};
    list_nodes(&p);
    find_uses(&p);
    p.copy = tsr_calloc(sizeof *p.copy * SETS * ((size_t)p.n + 1));
    for (int at = 0; at < p.n; at++)
        if (is_reduction(p.at[at]))
            part(&p, p.at[at]);
    parter_done(&p);
    graph_dce(out);
    pass_done("apart", &graph_ir, out);
    return out;
}
