/*
 * What a pass computes and a later one needs again: computed again where that is cheap, else kept, in the result that it is anyway, in the
 * place of one that a later pass will store, or in a buffer of the group.
 */
#include "ir/schedule/lower_impl.h"

int schedule_op_cost(const Node *n)
{
    switch (n->op) {
    case OP_add: case OP_sub: case OP_mul: case OP_neg: case OP_abs: case OP_minimum: case OP_maximum: case OP_where: case OP_fma:
    case OP_eq: case OP_ne: case OP_lt: case OP_le: case OP_gt: case OP_ge: case OP_convert: case OP_lnot: case OP_bitand:
    case OP_bitor: case OP_bitxor: case OP_stop_gradient: case OP_reshape: case OP_broadcast: case OP_permute: case OP_iota:
        return 1;
    case OP_div: case OP_sqrt: case OP_rsqrt:
        return 5;
    case OP_random:
        return 60;
    case OP_index:
        return index_rest(n) ? 2 : 8;   /* runs of memory, or an element here and there */
    default:
        return 12;
    }
}

int schedule_gpu_cost(const Node *n)
{
    if (n->attr->fast && n->type[0].dtype != DT_f64)
        switch (n->op) {
#define QUICK(name, units, slope, absolute, cost) case OP_##name: return cost;
#include "runtime/accuracy_quick.def"
        default: break;
        }
    return schedule_op_cost(n);
}

enum { CHEAP = 6 };             /* what is computed again rather than kept */

/* What it costs to compute each element's value in a pass; what an earlier one kept is there. */
static void count_costs(const Lower *l, int pass, int *cost)
{
    for (int v = 0; v < l->r->nvalues; v++) {
        const RegionValue *x = &l->r->value[v];
        cost[v] = x->inside ? schedule_op_cost(x->node) : 0;
        for (int i = 0; x->inside && i < x->node->nin; i++) {
            int w = lower_value(l, x->node->in[i].node);
            if (l->r->value[w].inside && !lower_is_row(l, w))
                cost[v] += l->keep[w] && l->r->value[w].pass < pass ? 1 : cost[w];
        }
        cost[v] = cost[v] < 1000 ? cost[v] : 1000;
    }
}

/* What this pass ends in: operands of its reductions, and results that it is the first to know. */
static void mark_ends(const Lower *l, int pass, bool *need)
{
    for (int v = 0; v < l->r->nvalues; v++) {
        const RegionValue *x = &l->r->value[v];
        need[v] = x->out && !lower_is_row(l, v) && x->pass == pass;
    }
    for (int v = 0; v < l->r->nvalues; v++) {
        const RegionValue *x = &l->r->value[v];
        if (x->inside && is_reduce_node(x->node) && x->pass - 1 == pass)
            need[lower_value(l, x->node->in[0].node)] = true;
    }
}

/* What is needed in the pass besides `need`, which its ends are made of: down to what is there. */
static void add_operands(const Lower *l, int pass, bool *need)
{
    for (int v = l->r->nvalues - 1; v >= 0; v--) {
        const RegionValue *x = &l->r->value[v];
        bool there = !x->inside || lower_is_row(l, v) || (l->keep[v] && x->pass < pass);
        for (int i = 0; need[v] && !there && i < x->node->nin; i++)
            need[lower_value(l, x->node->in[i].node)] = true;
    }
}

/* The first and the last pass that loads each value: for its ends, and for what it is the first to know and keeps. */
static void count_loads(Lower *l)
{
    bool need[REGION_VALUES];

    for (int pass = 0; pass < l->r->npasses; pass++) {
        mark_ends(l, pass, need);
        for (int v = 0; v < l->r->nvalues; v++)
            need[v] |= l->keep[v] && l->r->value[v].pass == pass;
        add_operands(l, pass, need);
        for (int v = 0; v < l->r->nvalues; v++)
            if (need[v] && (!l->r->value[v].inside || (l->keep[v] && l->r->value[v].pass < pass))) {
                l->first[v] = l->first[v] < 0 ? pass : l->first[v];
                l->last[v] = pass;
            }
    }
}

void lower_choose_kept(Lower *l)
{
    bool need[REGION_VALUES];
    int cost[REGION_VALUES];

    for (int pass = 0; pass < l->r->npasses; pass++) {
        mark_ends(l, pass, need);
        count_costs(l, pass, cost);
        for (int v = l->r->nvalues - 1; v >= 0; v--) {
            const RegionValue *x = &l->r->value[v];
            if (!need[v] || !x->inside || lower_is_row(l, v))
                continue;
            if (x->pass < pass && !region_moves(x->node) && x->has == region_all(l->r) && cost[v] > CHEAP && (!l->s->lean || x->out))
                l->keep[v] = true;
            for (int i = 0; !(l->keep[v] && x->pass < pass) && i < x->node->nin; i++)
                need[lower_value(l, x->node->in[i].node)] = true;
        }
    }
    count_loads(l);
}

void lower_choose_copied(Lower *l)
{
    for (int v = 0; v < l->r->nvalues && l->s->near; v++) {
        const RegionValue *x = &l->r->value[v];
        bool plain = !x->inside && !x->out && x->has == region_all(l->r) && lower_operand(l, x->node) >= 0;
        l->keep[v] |= plain && l->last[v] > 0 && !l->product && !l->steady[v];
    }
}

int lower_taken_over(const Lower *l, int v)
{
    const RegionValue *x = &l->r->value[v];

    for (int w = 0; w < l->r->nvalues && x->inside; w++)
        if (l->keep[w] && !l->r->value[w].inside && l->last[w] == x->pass && l->r->value[w].node->type[0].dtype == x->node->type[0].dtype)
            return w;
    return -1;
}

/* Does the pass load what lies outside of the kernel? `need` has what it needs. */
static bool loads_operands(const Lower *l, const bool *need)
{
    for (int v = 0; v < l->r->nvalues; v++)
        if (need[v] && !l->r->value[v].inside && l->r->value[v].has == region_all(l->r))
            return true;
    return false;
}

void lower_find_busy(Lower *l)
{
    bool need[REGION_VALUES];
    int cost[REGION_VALUES];

    for (int pass = 1; pass < l->r->npasses; pass++) {
        int most = 0;
        mark_ends(l, pass, need);
        count_costs(l, pass, cost);
        for (int v = 0; v < l->r->nvalues; v++)
            most = need[v] && cost[v] > most ? cost[v] : most;
        add_operands(l, pass, need);
        if (most > l->work && loads_operands(l, need)) {
            l->busy = pass;
            l->work = most;
        }
    }
}

/*
 * May a value be kept in the place of a result? The last pass stores that one, after whatever is read there, and no pass after the first
 * one reads an operand, which may lie in that place too.
 */
static bool may_live(const Lower *l, int v, int result)
{
    const Node *n = l->body->results.at[result].node;
    const RegionValue *y = region_value(l->r, n), *x = &l->r->value[v];
    bool may = !l->s->beside && y->has == x->has && y->pass > x->pass && y->pass == l->r->npasses - 1 && n->type[0].dtype == x->node->type[0].dtype;

    for (int w = 0; w < l->r->nvalues; w++)
        may &= l->home[w] != result && (l->r->value[w].inside || l->r->value[w].has != x->has || l->last[w] <= x->pass);
    return may;
}

void lower_choose_homes(Lower *l)
{
    for (int v = 0; v < l->r->nvalues; v++)
        for (int i = 0; i < l->body->results.n && l->keep[v] && !l->r->value[v].out && l->home[v] < 0; i++)
            if (may_live(l, v, i))
                l->home[v] = i;
}
