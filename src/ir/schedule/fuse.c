/*
 * fuse: nodes that share an iteration space become one `fused` node.
 *
 * Nodes start as groups of their own; walking the graph in order, a node's
 * group joins those of its operands whenever the union is still a region
 * (region.h) and no path leaves it and comes back; then groups that read the same value join.  Before, reductions over
 * different axes get what they need to themselves (apart.c); a value that is used outside as well becomes one more result.  Moves that
 * are used outside stay outside too, as views of the result.  Ops with ordered
 * effects keep their order, nodes in different with blocks stay apart, and those
 * in a block of @tessera.custom (auto=off) stay as they are.
 *
 * A matrix product that only one group uses, element by element, joins that group: the group's kernel takes its blocks as
 * they are finished.  Groups that would save nothing, those with a single op that computes, are left as nodes for
 * the reference kernels.
 */
#include "ir/schedule/fuse_impl.h"
#include "ir/schedule/kept.h"

#include "ir/graph/trace.h"
#include "ir/schedule/region.h"
#include "ir/schedule/steps.h"
#include "runtime/kernel_util.h"
#include "runtime/mesh.h"

#include <string.h>

enum { GROUP_MAX = 64, SEARCH_MAX = 4096, SIBLINGS_NEAR = 64, PICKED = 16 };

/* ---- who uses what ---- */

/* The places that the node there comes after: those of its operands, and of the op with ordered effects before it (-1: none). */
static int earlier(const Fuser *f, int at, int k, int effect)
{
    return k < f->at[at]->nin ? f->place[f->at[at]->in[k].node->id] : effect;
}

static int count_earlier(const Fuser *f, int at, int effect) { return f->at[at]->nin + (f->at[at]->token && effect >= 0); }

static void list_users(Fuser *f)
{
    int total = 0, *next = tsr_calloc(sizeof *next * (size_t)(f->n + 1));

    f->first_use = tsr_calloc(sizeof *f->first_use * (size_t)(f->n + 1));
    for (int i = 0, effect = -1; i < f->n; effect = f->at[i]->token ? i : effect, i++) {
        total += count_earlier(f, i, effect);
        for (int k = 0; k < count_earlier(f, i, effect); k++)
            f->first_use[earlier(f, i, k, effect) + 1]++;
    }
    f->user = tsr_alloc(sizeof *f->user * (size_t)(total + 1));
    for (int i = 0; i < f->n; i++)
        f->first_use[i + 1] += f->first_use[i];
    for (int i = 0, effect = -1; i < f->n; effect = f->at[i]->token ? i : effect, i++)
        for (int k = 0; k < count_earlier(f, i, effect); k++) {
            int p = earlier(f, i, k, effect);
            f->user[f->first_use[p] + next[p]++] = i;
        }
    tsr_free(next);
}

bool fuse_is_pick(const Node *n)
{
    const Node *table = region_looks_up(n) ? n->in[0].node : NULL;

    while (table && region_moves(table))
        table = table->in[0].node;
    return table && table->op != GRAPH_PARAM && !region_copies(table) && table->op != OP_iota &&
           schedule_bytes(&n->type[0]) <= schedule_bytes(gvalue_type(n->in[0])) / PICKED;
}

static void fuser_init(Fuser *f, Graph *g)
{
    memset(f, 0, sizeof *f);
    f->g = g;
    f->place = graph_places(g, &f->at, &f->n);
    list_users(f);
    size_t n = (size_t)f->n + 1;
    f->group = tsr_alloc(sizeof *f->group * n);
    f->slot = tsr_alloc(sizeof *f->slot * n);
    f->order = tsr_alloc(sizeof *f->order * n);
    f->groups = tsr_calloc(sizeof *f->groups * n);
    f->result = tsr_calloc(sizeof *f->result * n);
    f->mark = tsr_calloc(sizeof *f->mark * n);
    f->stack = tsr_alloc(sizeof *f->stack * n);
    for (int i = 0; i < g->results.n; i++)
        f->result[f->place[g->results.at[i].node->id]] = true;
    for (int i = 0; i < f->n; i++) {
        f->slot[i] = f->order[i] = i;
        f->group[i] = region_takes(f->at[i]) && !fuse_is_pick(f->at[i]) && !scope_is_manual(f->at[i]->scope) ? i : -1;
        if (f->group[i] >= 0)
            vec_push(&f->groups[i].node, f->at[i]);
    }
}

static void fuser_done(Fuser *f)
{
    for (int i = 0; i < f->n; i++)
        vec_free(&f->groups[i].node);
    tsr_free(f->at);
    tsr_free(f->place);
    tsr_free(f->group);
    tsr_free(f->slot);
    tsr_free(f->order);
    tsr_free(f->groups);
    tsr_free(f->first_use);
    tsr_free(f->user);
    tsr_free(f->result);
    tsr_free(f->mark);
    tsr_free(f->stack);
}

/* ---- may two groups join? ---- */

static bool in_either(const Fuser *f, int place, int a, int b) { return f->group[place] >= 0 && (f->group[place] == a || f->group[place] == b); }

/* What runs as one: a group, or a node in none, by the place of its first node. */
static int unit(const Fuser *f, int place) { return f->group[place] < 0 ? place : f->group[place]; }

/*
 * Is there a path from one of the two groups out and back into one? Groups too far from each other to tell count as such.
 * What has a slot behind both leads back to neither.  If there is none, `mark` has what one of them leads to up to there.
 */
static bool comes_back(Fuser *f, int a, int b)
{
    int top = 0, met = 0, both[2] = {a, b}, end = f->slot[a] > f->slot[b] ? f->slot[a] : f->slot[b];

    f->stamp++;
    f->led = 0;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < f->groups[both[k]].node.n; i++)
            f->stack[top++] = f->place[f->groups[both[k]].node.at[i]->id];
    while (top) {
        int p = f->stack[--top];
        if (++met > SEARCH_MAX)
            return true;
        for (int u = f->first_use[p]; u < f->first_use[p + 1]; u++) {
            int q = f->user[u];
            bool inside = in_either(f, q, a, b);
            if (inside && !in_either(f, p, a, b))
                return true;
            if (inside || f->mark[q] == f->stamp || f->slot[unit(f, q)] > end)
                continue;
            f->led++;
            f->mark[q] = f->stamp;
            f->stack[top++] = q;
            if (f->group[q] >= 0)                       /* a group runs as one: what one of its nodes leads to, all do */
                for (int i = 0; i < f->groups[f->group[q]].node.n; i++) {
                    int other = f->place[f->groups[f->group[q]].node.at[i]->id];
                    if (f->mark[other] != f->stamp) {
                        f->mark[other] = f->stamp;
                        f->stack[top++] = other;
                    }
                }
        }
    }
    return false;
}

/* Does the group lead to the other and nowhere else? Then nothing comes back, and nothing in between waits for it. */
static bool only_feeds(const Fuser *f, int group, int other)
{
    const Group *x = &f->groups[group];

    if (f->slot[group] > f->slot[other])
        return false;
    for (int i = 0; i < x->node.n; i++) {
        int p = f->place[x->node.at[i]->id];
        for (int u = f->first_use[p]; u < f->first_use[p + 1]; u++)
            if (!in_either(f, f->user[u], group, other))
                return false;
    }
    return true;
}

static bool used_outside(const FuseUnion *u, int place)
{
    const Fuser *f = u->f;

    if (f->result[place])
        return true;
    for (int k = f->first_use[place]; k < f->first_use[place + 1]; k++) {
        int user = f->user[k];
        if (!in_either(f, user, u->a, u->b) || (region_moves(f->at[user]) && used_outside(u, user)))
            return true;
    }
    return false;
}

bool fuse_seen_outside(void *st, const Node *n)
{
    const FuseUnion *u = st;

    return !region_moves(n) && used_outside(u, u->f->place[n->id]);
}

/* The nodes of both, in graph order. */
static int merge_nodes(const Fuser *f, int a, int b, Node **out)
{
    const Group *x = &f->groups[a], *y = &f->groups[b];
    int i = 0, k = 0, n = 0;

    while (i < x->node.n || k < y->node.n) {
        bool left = k == y->node.n || (i < x->node.n && f->place[x->node.at[i]->id] < f->place[y->node.at[k]->id]);
        out[n++] = left ? x->node.at[i++] : y->node.at[k++];
    }
    return n;
}

bool schedule_totals_as_it_is(const Node *n)
{
    DType in = (DType)gvalue_type(n->in[0])->dtype, out = (DType)n->type[0].dtype;

    if (n->op == OP_argmax || n->op == OP_argmin)
        return false;
    return (n->op != OP_sum && n->op != OP_prod) || accum_dtype(n->attr, in, out) == out;
}

/*
 * A region that reduces over everything: its rows are parts of the whole, whose totals are then combined (fused.c).  So
 * nothing may be computed from a total, or from scalars for outside.
 */
static bool is_total(const Region *r)
{
    for (int i = 0; i < r->nvalues; i++) {
        const RegionValue *v = &r->value[i];
        if (!v->inside || region_moves(v->node))
            continue;
        if (op_info[v->node->op].family == FAM_REDUCE ? !schedule_totals_as_it_is(v->node) : v->pass > 0 || (v->out && !v->has))
            return false;
    }
    return true;
}

/* Reduced axes are walked as one: a table has all of them or none. What is looked up for rows is better looked up once for each. */
static bool walks_tables(const Region *r)
{
    uint16_t reduced = (uint16_t)(region_all(r) & ~region_kept(r));

    for (int i = 0; i < r->nvalues; i++) {
        const RegionValue *v = &r->value[i];
        if ((v->lead && v->has & reduced && (v->has & reduced) != reduced) ||
            (v->inside && region_looks_up(v->node) && v->has != region_all(r)))
            return false;
    }
    return true;
}

/* What the node needs beside its operands when it is lowered: the counter of an argmax, the places of what is looked up. */
static bool needs_one_more(const Node *n) { return n->op == OP_argmax || n->op == OP_argmin || region_looks_up(n); }

static bool is_worth(const Region *r)
{
    int operands = r->ncounters;

    if ((r->nkept < r->naxes && !r->nkept && !is_total(r)) || !walks_tables(r))
        return false;
    for (int i = 0; i < r->nvalues; i++)
        operands += (!r->value[i].inside || r->value[i].out) + (r->value[i].inside && needs_one_more(r->value[i].node));
    return operands <= REGION_OPERANDS;
}

/* Between the slots of a and b, which are `into` now: what neither leads to, then `into`, then what they lead to. */
static void put_in_order(Fuser *f, int a, int b, int into)
{
    int lo = f->slot[a] < f->slot[b] ? f->slot[a] : f->slot[b], hi = f->slot[a] + f->slot[b] - lo, n = lo, behind = 0;

    for (int s = lo; s <= hi; s++) {
        int u = f->order[s];
        if (u < 0 || u == a || u == b)
            continue;
        if (f->mark[u] == f->stamp)
            f->stack[behind++] = u;
        else
            f->order[n++] = u;
    }
    f->order[n++] = into;
    for (int i = 0; i < behind; i++)
        f->order[n++] = f->stack[i];
    while (n <= hi)
        f->order[n++] = -1;
    for (int s = lo; s <= hi; s++)
        if (f->order[s] >= 0)
            f->slot[f->order[s]] = s;
}

/* The same where the first of them leads to nothing before the other: it may as well run where that does. */
static void put_there(Fuser *f, int a, int b, int into)
{
    int first = f->slot[a] < f->slot[b] ? a : b, slot = f->slot[first == a ? b : a];

    f->order[f->slot[first]] = -1;
    f->order[slot] = into;
    f->slot[into] = slot;
}

static void join(Fuser *f, int a, int b)
{
    Node *node[2 * GROUP_MAX];
    Region r;
    FuseUnion u = {f, a, b};
    int n = f->groups[a].node.n + f->groups[b].node.n;

    if (a == b || n > GROUP_MAX)
        return;
    n = merge_nodes(f, a, b, node);
    if (node[0]->scope != f->groups[a].node.at[0]->scope || node[0]->scope != f->groups[b].node.at[0]->scope)
        return;
    if (!region_of(node, n, fuse_seen_outside, &u, &r) || !is_worth(&r))
        return;
    int into = f->place[node[0]->id], from = into == a ? b : a;
    if (only_feeds(f, a, b) || only_feeds(f, b, a))
        f->led = 0;
    else if (comes_back(f, a, b))
        return;
    (f->led ? put_in_order : put_there)(f, a, b, into);
    f->groups[into].node.n = 0;
    for (int i = 0; i < n; i++) {
        vec_push(&f->groups[into].node, node[i]);
        f->group[f->place[node[i]->id]] = into;
    }
    vec_free(&f->groups[from].node);
}

/* Is the node there so that its operand's kernel need not give it? Then it is not computed there after all. */
static bool comes_again(const Node *n, const Node *operand) { return n->again > operand->again; }

static bool is_one_element(const Node *n)
{
    for (int k = 0; k < n->type[0].rank; k++)
        if (n->type[0].shape[k] != 1)
            return false;
    return true;
}

/*
 * Nodes of one element come last: a kernel of such saves little, and one that gives two of them, say a loss and what its derivative
 * begins with, has all that needs either wait for both.
 */
static void grow_groups(Fuser *f)
{
    for (int i = 0; i < 2 * f->n; i++) {
        Node *n = f->at[i % f->n];
        for (int k = 0; f->group[i % f->n] >= 0 && k < n->nin; k++) {
            int p = f->place[n->in[k].node->id];
            bool now = i >= f->n || !(is_one_element(n) || is_one_element(f->at[p]));
            if (now && f->group[p] >= 0 && n->in[k].index == 0 && !comes_again(n, f->at[p]))
                join(f, f->group[p], f->group[i % f->n]);
        }
    }
}

/* Groups that read the same value, not far from each other, read it once. */
static void join_siblings(Fuser *f)
{
    for (int p = 0; p < f->n; p++)
        for (int u = f->first_use[p]; u + 1 < f->first_use[p + 1]; u++) {
            int a = f->user[u], b = f->user[u + 1];
            bool both = f->group[a] >= 0 && f->group[b] >= 0 && b - a <= SIBLINGS_NEAR;
            if (both && f->at[a]->again == f->at[b]->again)
                join(f, f->group[a], f->group[b]);
        }
}

/* ---- products ---- */

/* The only group that sees the value there, itself or through moves; -1: something else does, or nothing. */
static int only_user(const Fuser *f, int place)
{
    int group = f->first_use[place] < f->first_use[place + 1] ? f->group[f->user[f->first_use[place]]] : -1;
    FuseUnion u = {f, group, group};

    return group < 0 || used_outside(&u, place) ? -1 : group;
}

/* Do the group's elements lie as the product's do, rows of it being rows of the group? */
static bool follows(const Fuser *f, int group, const Node *product)
{
    const Group *x = &f->groups[group];
    FuseUnion u = {f, group, group};
    const RegionValue *v;
    int rank = product->type[0].rank;
    Region r;

    if (!region_of(x->node.at, x->node.n, fuse_seen_outside, &u, &r) || !(v = region_value(&r, product)) || r.naxes < 2)
        return false;
    return v->has == region_all(&r) && v->axis[rank - 1] == r.naxes - 1 && v->axis[rank - 2] == r.naxes - 2 && r.nkept >= r.naxes - 1;
}

/* Is the node a product of values that a kernel takes as operands? */
static bool is_product(const Node *n)
{
    for (int k = 0; k < 2; k++)
        if (schedule_accum(n) == DT_NONE || region_copies(n->in[k].node) || n->in[k].index)
            return false;
    return true;
}

/* ---- sums down the columns of what follows a product ---- */

static bool sums_rows(const Node *n)
{
    bool rows = false;

    for (int i = 0; i < n->attr->naxes; i++)
        rows |= n->attr->axis[i] == -1 || !gvalue_type(n->in[0])->rank;
    return rows || !n->attr->naxes;
}

static bool uses(const Node *n, const Node *x)
{
    for (int k = 0; k < n->nin; k++)
        if (n->in[k].node == x)
            return true;
    return false;
}

/* Is the node in the group for what is marked alone? */
static bool only_for(const Fuser *f, int group, int at, const bool *late)
{
    const Group *x = &f->groups[group];
    FuseUnion u = {f, group, group};
    bool any = false;

    if (used_outside(&u, f->place[x->node.at[at]->id]))
        return false;
    for (int i = at + 1; i < x->node.n; i++) {
        bool user = uses(x->node.at[i], x->node.at[at]);
        if (user && !late[i])
            return false;
        any |= user;
    }
    return any;
}

/* Does a marked node take from the group, or of the product, what is not stored? */
static bool takes_unstored(const Fuser *f, int group, const Node *product, const bool *late)
{
    const Group *x = &f->groups[group];
    FuseUnion u = {f, group, group};

    for (int i = 0; i < x->node.n; i++) {
        if (late[i] && uses(x->node.at[i], product))
            return true;
        for (int k = 0; k < i && late[i]; k++)
            if (!late[k] && uses(x->node.at[i], x->node.at[k]) && !region_copies(x->node.at[k]) && !fuse_seen_outside(&u, x->node.at[k]))
                return true;
    }
    return false;
}

/*
 * Marks what follows from the group's sums, and what is there for them alone; false: it has none, or they are no sums down columns of what is
 * stored.
 */
static bool mark_sums(const Fuser *f, int group, const Node *product, bool *late)
{
    const Group *x = &f->groups[group];
    bool any = false;

    for (int i = 0; i < x->node.n; i++) {
        const Node *n = x->node.at[i];
        late[i] = op_info[n->op].family == FAM_REDUCE;
        if (late[i] && sums_rows(n))
            return false;
        any |= late[i];
        for (int k = 0; k < i; k++)
            late[i] |= late[k] && uses(n, x->node.at[k]);
    }
    for (int i = x->node.n - 1; any && i >= 0; i--)
        late[i] = late[i] || only_for(f, group, i, late);
    return any && !takes_unstored(f, group, product, late);
}

/*
 * Rows of a product are rows of the group but for its sums down columns, which are of what is stored anyway: they become a group of their own,
 * and the rest can be done with the product.
 */
static bool follows_but_for_sums(Fuser *f, int group, const Node *product)
{
    Group *x = &f->groups[group], *sums = NULL;
    Node *node[GROUP_MAX];
    bool late[GROUP_MAX];
    int kept = 0, n = x->node.n, first = -1;

    if (!mark_sums(f, group, product, late))
        return false;
    for (int i = 0; i < n; i++) {
        int place = f->place[x->node.at[i]->id];
        node[i] = x->node.at[i];
        if (!late[i]) {
            x->node.at[kept++] = node[i];
            continue;
        }
        first = first < 0 ? place : first;
        sums = &f->groups[first];
        vec_push(&sums->node, node[i]);
        f->group[place] = first;
    }
    x->node.n = kept;
    if (kept && f->place[x->node.at[0]->id] == group && follows(f, group, product))
        return true;
    for (int i = 0; i < n; i++) {
        x->node.at[i] = node[i];
        f->group[f->place[node[i]->id]] = group;
    }
    x->node.n = n;
    sums->node.n = 0;
    return false;
}

static void add_products(Fuser *f)
{
    for (int i = 0; i < f->n; i++) {
        int group = is_product(f->at[i]) ? only_user(f, i) : -1;
        Group *x = group < 0 ? NULL : &f->groups[group];
        if (x && !x->product && !scope_is_manual(f->at[i]->scope) && f->at[i]->scope == x->node.at[0]->scope &&
            !comes_again(f->at[f->user[f->first_use[i]]], f->at[i]) && (follows(f, group, f->at[i]) || follows_but_for_sums(f, group, f->at[i]))) {
            x->product = f->at[i];
            f->group[i] = group;
        }
    }
}

/* Groups in which fewer than two nodes compute fall apart. */
static void drop_small(Fuser *f)
{
    for (int i = 0; i < f->n; i++) {
        Group *x = &f->groups[i];
        int computing = x->product != NULL;
        for (int k = 0; k < x->node.n; k++)
            computing += !region_moves(x->node.at[k]);
        for (int k = 0; computing < 2 && k < x->node.n; k++)
            f->group[f->place[x->node.at[k]->id]] = -1;
        if (computing < 2 && x->product)
            f->group[f->place[x->product->id]] = -1;
    }
}

/* ---- what was decided before ---- */

/* A place's group and whether it is its product, as it is kept. */
typedef struct Row { int32_t group, product; } Row;

/* Is it the place of a group's first node? */
static bool is_first(const Fuser *f, const Row *row, int group)
{
    return group < f->n && row[group].group == group && !row[group].product && f->group[group] >= 0;
}

/* Each node in no group, or one that a region may hold in a group with a first node, or the one product of such a group. */
static bool is_sane(const Fuser *f, const Row *row)
{
    bool *product = tsr_calloc((size_t)f->n + 1), sane = true;

    for (int i = 0; i < f->n && sane; i++) {
        int group = row[i].group;
        if (group < 0)
            sane = group == -1;
        else if (!is_first(f, row, group))
            sane = false;
        else if (!row[i].product)
            sane = f->group[i] >= 0 && group <= i;
        else if ((sane = !product[group] && is_product(f->at[i])))
            product[group] = true;
    }
    tsr_free(product);
    return sane;
}

static bool recall(Fuser *f, const Kept *k)
{
    Row *row = tsr_alloc(sizeof *row * ((size_t)f->n + 1));
    bool found = kept_read(k, row, sizeof *row * (size_t)f->n) && is_sane(f, row);

    for (int i = 0; i < f->n && found; i++)
        f->groups[i].node.n = 0;
    for (int i = 0; i < f->n && found; i++) {
        f->group[i] = row[i].group;
        if (row[i].group >= 0 && row[i].product)
            f->groups[row[i].group].product = f->at[i];
        else if (row[i].group >= 0)
            vec_push(&f->groups[row[i].group].node, f->at[i]);
    }
    tsr_free(row);
    return found;
}

static void remember(const Fuser *f, const Kept *k)
{
    Row *row = tsr_alloc(sizeof *row * ((size_t)f->n + 1));

    for (int i = 0; i < f->n; i++)
        row[i] = (Row){f->group[i], f->group[i] >= 0 && f->groups[f->group[i]].product == f->at[i]};
    kept_write(k, row, sizeof *row * (size_t)f->n);
    tsr_free(row);
}

static void decide(Fuser *f)
{
    Kept k = kept_of(f->g, "fuse");

    if (recall(f, &k))
        return;
    grow_groups(f);
    join_siblings(f);
    add_products(f);
    drop_small(f);
    remember(f, &k);
}

static bool any_group(const Fuser *f)
{
    bool any = false;

    for (int i = 0; i < f->n; i++)
        any |= f->group[i] >= 0;
    return any;
}

static Graph *fused(Graph *g)
{
    Fuser f;
    Graph *out;
    bool regions = false;

    for (const Node *n = g->first; n; n = n->next)
        regions |= n->op < OP_COUNT && op_info[n->op].flags & OPF_REGIONS;
    fuser_init(&f, g);
    decide(&f);
    out = any_group(&f) || regions || schedule_asks(g) ? fuse_write(&f) : NULL;
    fuser_done(&f);
    if (out)
        schedule_together(out);
    if (out)
        pass_done("fuse", &graph_ir, out);
    return out;
}

/* The fused graph; where nothing was fused, the settled one, if something was. Takes both. */
static Graph *or_settled(Graph *out, Graph *settled)
{
    if (!out && settled && pass_runs("fuse"))
        return settled;
    graph_unref(settled);
    return out;
}

Graph *schedule_fuse(Graph *g)
{
    Graph *settled = schedule_settled(g), *plain = settled ? settled : g;
    Graph *equal = pass_runs("fuse") ? schedule_equal(plain) : NULL, *from = equal ? equal : plain;
    Graph *apart = pass_runs("fuse") ? schedule_apart(from) : NULL, *out = pass_runs("fuse") ? fused(apart ? apart : from) : NULL;

    graph_unref(apart);
    graph_unref(equal);
    return or_settled(out, settled);
}

static Graph *fused_or_same(Graph *g)
{
    Graph *made = schedule_fuse(g);

    return made ? made : graph_ref(g);
}

/* The thinner graph, if it then keeps less: what waits inside a kernel takes nothing. */
static Graph *thinner(Graph *g)
{
    Kept k = kept_of(g, "thin");
    uint8_t less = 1;
    bool known = kept_read(&k, &less, sizeof less);
    Graph *thin = less ? schedule_recompute(g) : NULL, *again = thin ? fused_or_same(thin) : NULL, *plain = NULL;

    if (!known || !again)
        plain = schedule_fuse(g);
    if (!known) {
        less = again && schedule_waiting(again) < schedule_waiting(plain ? plain : g);
        kept_write(&k, &less, sizeof less);
    }
    graph_unref(thin);
    graph_unref(less && again ? plain : again);
    return less && again ? again : plain;
}

Graph *schedule_make(Graph *g)
{
    Graph *settled = schedule_settled(g), *made = or_settled(thinner(settled ? settled : g), settled);

    if (made && !device_is_far(device_now))
        schedule_slices(made);
    return made;
}
