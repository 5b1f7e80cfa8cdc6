/*
 * Finding a region's axes.
 *
 * Union-find over (value, axis).  Axes of the literal size 1 take no part: they
 * hold one element wherever the region is.  Two axes go together only when
 * their sizes are the same Dim, so a region never needs a check at run time.
 */
#include "ir/schedule/region.h"

#include "runtime/kernel_util.h"
#include "runtime/kernels.h"
#include "runtime/loops.h"

#include <stddef.h>
#include <string.h>

enum { CLASSES = REGION_VALUES * 6, PLACES = 512 };      /* more places than values: most are found where they belong */

typedef struct Finder {
    Region *r;
    int nclasses;
    int16_t up[CLASSES];        /* union-find */
    Dim size[CLASSES];
    int16_t at[REGION_VALUES][REGION_AXES];     /* class of each axis of a value; -1: none */
    uint8_t rank[REGION_VALUES];
    int16_t place[PLACES];      /* hash of a node -> its value, or one that came before; -1: nobody's */
} Finder;

/* ---- what a region may hold ---- */

static bool plain_dtype(const TType *y)
{
    const DTypeInfo *d = &dtype_info[y->dtype];

    return d->kind != DK_COMPLEX && d->sbits >= 8;
}

/* Division and powers of ints, which an op does for itself where the second operand may be one that it has to refuse: not if that is known. */
static bool refuses_ints(const Node *n)
{
    const Tensor *by;

    if ((n->op != OP_floordiv && n->op != OP_mod && n->op != OP_pow) || dtype_is_inexact((DType)n->type[0].dtype) || (n->op != OP_pow && n->attr->i))
        return false;
    by = n->op != OP_pow && n->in[1].node->op == OP_constant ? n->in[1].node->attr->value : NULL;
    return !by || by->rank || !elem_get_i(by, by->offset);
}

static bool takes_map(const Node *n)
{
    for (int i = 0; i < n->nin; i++)
        if (!plain_dtype(gvalue_type(n->in[i])))
            return false;
    if (n->op == OP_convert)
        return !n->attr->f;
    if (n->op == OP_complex || refuses_ints(n))
        return false;
    return n->op == OP_stop_gradient || loop_find((OpId)n->op, (DType)gvalue_type(n->in[n->nin - 1])->dtype);
}

/* Sums in an accumulator that is its own lane; extremes of a dtype with one. */
static bool takes_reduce(const Node *n)
{
    DType in = (DType)gvalue_type(n->in[0])->dtype, out = (DType)n->type[0].dtype;

    if (!plain_dtype(gvalue_type(n->in[0])))
        return false;
    switch (n->op) {
    case OP_sum: case OP_prod:
        return !n->attr->kind && raw_is_lane(accum_dtype(n->attr, in, out));
    case OP_max: case OP_min: case OP_any: case OP_all:
        return true;
    case OP_argmax: case OP_argmin:                     /* of which extreme.c makes a reduction, and places along one axis */
        return n->attr->naxes == 1;
    default:
        return false;
    }
}

static bool is_one(Dim d) { return d == 1; }

/* The axes of more than one element, in order. */
static int long_axes(const TType *y, Dim *out)
{
    int n = 0;

    for (int i = 0; i < y->rank; i++)
        if (!is_one(y->shape[i]))
            out[n++] = y->shape[i];
    return n;
}

static bool same_but_ones(const TType *a, const TType *b)
{
    Dim x[REGION_AXES], y[REGION_AXES];
    int n = long_axes(a, x);

    return n == long_axes(b, y) && !memcmp(x, y, sizeof(Dim) * (size_t)n);
}

bool region_moves(const Node *n)
{
    switch (n->op) {
    case OP_permute: case OP_broadcast:
        return plain_dtype(&n->type[0]);
    case OP_reshape:
        return plain_dtype(&n->type[0]) && same_but_ones(gvalue_type(n->in[0]), &n->type[0]);
    default:
        return false;
    }
}

/* Places along an axis; bits and uniform numbers, each of which a block of the generator gives by itself (numbered.c). */
static bool takes_numbers(const Node *n)
{
    const TType *y = &n->type[0];

    if (n->op == OP_iota)
        return y->rank > 0;
    if (n->op != OP_random || (n->attr->kind != DIST_BITS && n->attr->kind != DIST_UNIFORM))
        return false;
    return n->attr->kind == DIST_BITS ? dtype_is_int((DType)y->dtype) : dtype_is_float((DType)y->dtype);
}

enum { LOOKED_UP_BY = 4 };      /* index operands */

bool region_looks_up(const Node *n) { return n->op == OP_index; }
/*
 * An `index` in a body that is to be lowered has one number for each place of its result's first axes: where in the table's memory the
 * elements are that are looked up there (fused_table.c).
 */
static bool region_is_placed(const Node *n) { return n->op == OP_index && n->attr->i; }

static bool takes_index(const Node *n)
{
    bool ok = n->attr->n > 0 && n->nin <= 1 + LOOKED_UP_BY;

    for (int i = 0; i < n->nin; i++)
        ok = ok && !n->in[i].index && !region_copies(n->in[i].node) && plain_dtype(gvalue_type(n->in[i]));
    for (int i = 1; i < n->nin; i++)
        ok = ok && dtype_is_int((DType)gvalue_type(n->in[i])->dtype);
    return ok;
}

bool region_copies(const Node *n)
{
    Dim d[REGION_AXES];

    if (n->op == OP_constant)
        return plain_dtype(&n->type[0]) && !long_axes(&n->type[0], d);
    return n->op == OP_full && plain_dtype(&n->type[0]);
}

bool region_takes(const Node *n)
{
    if (n->op >= OP_COUNT || n->nout != 1 || !plain_dtype(&n->type[0]))
        return false;
    switch (op_info[n->op].family) {
    case FAM_MAP: return takes_map(n);
    case FAM_REDUCE: return takes_reduce(n);
    case FAM_MOVE: return region_moves(n);
    case FAM_MAKE: case FAM_RANDOM: return takes_numbers(n);
    case FAM_INDEX: return region_looks_up(n) && takes_index(n);
    default: return false;
    }
}

/* ---- classes of axes ---- */

static int find_class(Finder *f, int c)
{
    while (f->up[c] != c)
        c = f->up[c] = f->up[f->up[c]];
    return c;
}

static bool join_classes(Finder *f, int a, int b)
{
    if (a < 0 || b < 0)
        return a < 0 && b < 0;
    a = find_class(f, a);
    b = find_class(f, b);
    if (f->size[a] != f->size[b])
        return false;
    f->up[b] = (int16_t)a;
    return true;
}

static unsigned place_of(const Node *n) { return (unsigned)(((uintptr_t)n >> 4) * 0x9E3779B1u) % PLACES; }

static int value_at(const Finder *f, const Node *n)
{
    for (unsigned h = place_of(n); f->place[h] >= 0; h = (h + 1) % PLACES)
        if (f->r->value[f->place[h]].node == n)
            return f->place[h];
    return -1;
}

static void file_value(Finder *f, int v)
{
    unsigned h = place_of(f->r->value[v].node);

    while (f->place[h] >= 0)
        h = (h + 1) % PLACES;
    f->place[h] = (int16_t)v;
}

/* A value with classes of its own; -1: there are too many. */
static int add_value(Finder *f, const Node *n, bool inside)
{
    int v = f->r->nvalues;
    const TType *y = &n->type[0];

    if (v == REGION_VALUES || f->nclasses + y->rank > CLASSES || y->rank > REGION_AXES || n->nout != 1)
        return -1;
    f->r->value[v] = (RegionValue){.node = n, .inside = inside, .counter = -1};
    file_value(f, v);
    f->rank[v] = y->rank;
    for (int i = 0; i < y->rank; i++) {
        f->at[v][i] = -1;
        if (is_one(y->shape[i]))
            continue;
        f->size[f->nclasses] = y->shape[i];
        f->up[f->nclasses] = (int16_t)f->nclasses;
        f->at[v][i] = (int16_t)f->nclasses++;
    }
    f->r->nvalues++;
    return v;
}

/* An operand's axes are the result's last ones; one of one element stretches. */
static bool align(Finder *f, int from, int to)
{
    for (int i = 1; i <= f->rank[from]; i++) {
        int a = f->at[from][f->rank[from] - i];
        if (i > f->rank[to] || (a >= 0 && !join_classes(f, a, f->at[to][f->rank[to] - i])))
            return false;
    }
    return true;
}

static bool is_axis_of(const Attr *a, int rank, int axis)
{
    for (int i = 0; i < a->naxes; i++)
        if (a->axis[i] + rank == axis)
            return true;
    return false;
}

static bool link_reduce(Finder *f, const Node *n, int from, int to)
{
    int k = 0;

    for (int i = 0; i < f->rank[from]; i++)
        if (!is_axis_of(n->attr, f->rank[from], i) && !join_classes(f, f->at[from][i], f->at[to][k++]))
            return false;
    return true;
}

static bool link_permute(Finder *f, const Node *n, int from, int to)
{
    int lead = f->rank[to] - n->attr->naxes;

    for (int i = 0; i < f->rank[to]; i++) {
        int source = i < lead ? i : n->attr->axis[i - lead] + f->rank[from];
        if (!join_classes(f, f->at[from][source], f->at[to][i]))
            return false;
    }
    return true;
}

static bool link_reshape(Finder *f, int from, int to)
{
    int k = 0;

    for (int i = 0; i < f->rank[from]; i++) {
        if (f->at[from][i] < 0)
            continue;
        while (f->at[to][k] < 0)
            k++;
        if (!join_classes(f, f->at[from][i], f->at[to][k++]))
            return false;
    }
    return true;
}

/* Keys: their leading axes are the result's, the last one holds the two words of an element. */
static bool link_key(Finder *f, int from, int to)
{
    int last = f->rank[from] - 1;

    f->at[from][last] = -1;
    for (int i = 0; i < last; i++)
        if (!join_classes(f, f->at[from][i], f->at[to][i]))
            return false;
    return true;
}

/* A table: its first axes are looked up, the others are the result's last ones. */
static bool link_table(Finder *f, const Node *n, int from, int to)
{
    int rest = index_rest(n), lead = f->rank[from] - rest;

    for (int i = 0; i < lead; i++)
        f->at[from][i] = -1;
    for (int i = 0; i < rest; i++)
        if (!join_classes(f, f->at[from][lead + i], f->at[to][f->rank[to] - rest + i]))
            return false;
    return true;
}

/* Numbers to look up: batch axes are the result's first, the others end where its axes begin that are not looked up. */
static bool link_numbers(Finder *f, const Node *n, int from, int to)
{
    int batch = region_is_placed(n) ? 0 : n->attr->m, end = f->rank[to] - index_rest(n);

    for (int i = 0; i < f->rank[from]; i++) {
        int a = f->at[from][i], at = i < batch ? i : end - f->rank[from] + i;
        if (a >= 0 && !join_classes(f, a, f->at[to][at]))
            return false;
    }
    return !f->r->value[from].inside;
}

/* What the node takes its operand i as. */
typedef struct Role { bool key; uint8_t lead; } Role;

static Role role_of(const Node *n, int i) { return (Role){n->op == OP_random, n->op == OP_index && i == 0 ? (uint8_t)(n->attr->m + n->attr->n) : 0}; }

/* The operand's value, from outside unless it is there. A value is a key or a table for all that take it, or for none; -1: it cannot be. */
static int operand_value(Finder *f, GValue v, Role as)
{
    int from = value_at(f, v.node);

    if (v.index || (as.key && region_copies(v.node)))
        return -1;
    if (from < 0 && (from = add_value(f, v.node, false)) >= 0) {
        f->r->value[from].key = as.key;
        f->r->value[from].lead = as.lead;
    }
    return from < 0 || f->r->value[from].key != as.key || f->r->value[from].lead != as.lead ? -1 : from;
}

static bool link_node(Finder *f, const Node *n, int to)
{
    bool ok = true;

    for (int i = 0; ok && i < n->nin; i++) {
        int from = operand_value(f, n->in[i], role_of(n, i));
        if (from < 0)
            return false;
        switch (n->op) {
        case OP_index: ok = i ? link_numbers(f, n, from, to) : link_table(f, n, from, to); break;
        case OP_random: ok = link_key(f, from, to); break;
        case OP_permute: ok = link_permute(f, n, from, to); break;
        case OP_reshape: ok = link_reshape(f, from, to); break;
        case OP_broadcast: ok = align(f, from, to); break;
        default: ok = op_info[n->op].family == FAM_REDUCE ? link_reduce(f, n, from, to) : align(f, from, to);
        }
    }
    return ok;
}

/* ---- the region's axes ---- */

static bool is_reduce(const RegionValue *v) { return v->inside && op_info[v->node->op].family == FAM_REDUCE; }

static int count_axes(const Finder *f, int v)
{
    int n = 0;

    for (int i = 0; i < f->rank[v]; i++)
        n += f->at[v][i] >= 0;
    return n;
}

/* The value that shows all axes: what is reduced, else the one with the most. */
static int find_hero(const Finder *f, const RegionValue **reduce)
{
    int hero = -1;

    *reduce = NULL;
    for (int v = 0; v < f->r->nvalues; v++) {
        const RegionValue *x = &f->r->value[v];
        int of = is_reduce(x) ? value_at(f, x->node->in[0].node) : v;
        bool better = hero < 0 || count_axes(f, of) > count_axes(f, hero);
        if (is_reduce(x) && (!*reduce || better)) {
            *reduce = x;
            hero = of;
        } else if (!*reduce && x->inside && better)
            hero = v;
    }
    return hero;
}

static int axis_of_class(Finder *f, const int *class, int n, int c)
{
    for (int i = 0; i < n; i++)
        if (class[i] == find_class(f, c))
            return i;
    return -1;
}

/* Kept axes first, then the reduced ones, both in the hero's order. */
static int order_axes(Finder *f, int hero, const RegionValue *reduce, int *class)
{
    Region *r = f->r;

    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < f->rank[hero]; i++)
            if (f->at[hero][i] >= 0 && (reduce && is_axis_of(reduce->node->attr, f->rank[hero], i)) == pass) {
                class[r->naxes] = find_class(f, f->at[hero][i]);
                r->size[r->naxes] = f->size[class[r->naxes]];
                r->naxes++;
            }
        if (!pass)
            r->nkept = r->naxes;
    }
    return r->naxes;
}

static bool place_value(Finder *f, int v, const int *class)
{
    Region *r = f->r;
    RegionValue *x = &r->value[v];

    for (int i = 0; i < f->rank[v]; i++) {
        x->axis[i] = -1;
        if (f->at[v][i] < 0)
            continue;
        int a = axis_of_class(f, class, r->naxes, f->at[v][i]);
        if (a < 0 || x->has >> a & 1)
            return false;
        x->axis[i] = (int8_t)a;
        x->has |= (uint16_t)(1u << a);
    }
    return true;
}

/* The value's elements are numbered along these axes: an iota's one; of random numbers all but those of their keys. */
static void number_axes(const Finder *f, int v, RegionCounter *out)
{
    const RegionValue *x = &f->r->value[v];
    const Attr *a = x->node->attr;
    int rank = f->rank[v], first = rank + (a->naxes ? a->axis[0] : -1), end = first + 1;

    if (x->node->op == OP_random) {
        first = gvalue_type(x->node->in[0])->rank - 1;
        end = rank;
    }
    out->n = 0;
    for (int i = first; i < end; i++)
        if (x->axis[i] >= 0)
            out->axis[out->n++] = x->axis[i];
}

static bool same_counter(const RegionCounter *a, const RegionCounter *b) { return a->n == b->n && !memcmp(a->axis, b->axis, (size_t)a->n); }

/* Values that are numbered alike share a counter. false: there are too many. */
static bool find_counters(const Finder *f)
{
    Region *r = f->r;

    for (int v = 0; v < r->nvalues; v++) {
        RegionValue *x = &r->value[v];
        RegionCounter c;
        if (!x->inside || (x->node->op != OP_iota && x->node->op != OP_random))
            continue;
        number_axes(f, v, &c);
        for (x->counter = 0; x->counter < r->ncounters && !same_counter(&r->counter[x->counter], &c); )
            x->counter++;
        if (x->counter == REGION_COUNTERS)
            return false;
        if (x->counter == r->ncounters)
            r->counter[r->ncounters++] = c;
    }
    return true;
}

/* Every reduction goes over all the reduced axes, in the same order. */
static bool reduces_alike(const Region *r, const RegionValue *v, const RegionValue *operand)
{
    int rank = gvalue_type(v->node->in[0])->rank, next = r->nkept;

    for (int i = 0; i < rank; i++) {
        int a = operand->axis[i];
        bool reduced = is_axis_of(v->node->attr, rank, i);
        if (reduced != (a >= r->nkept) || (reduced && a != next++))
            return false;
    }
    return next == r->naxes && r->nkept < r->naxes;
}

/* When each value is first known, and what may be seen outside. */
static bool find_passes(const Finder *f)
{
    Region *r = f->r;

    r->npasses = 1;
    for (int v = 0; v < r->nvalues; v++) {
        RegionValue *x = &r->value[v];
        if (!x->inside)
            continue;
        for (int i = 0; i < x->node->nin; i++) {
            const RegionValue *y = &r->value[value_at(f, x->node->in[i].node)];
            x->pass = y->pass > x->pass ? y->pass : x->pass;
        }
        if (is_reduce(x)) {
            if (!reduces_alike(r, x, &r->value[value_at(f, x->node->in[0].node)]))
                return false;
            x->pass++;
        }
        if (x->out && (region_moves(x->node) || (x->has != region_all(r) && !(r->nkept < r->naxes && x->has == region_kept(r)))))
            return false;
        if (!region_is_row(r, x) || r->naxes == r->nkept)
            r->npasses = x->pass + 1 > r->npasses ? x->pass + 1 : r->npasses;
        else if (is_reduce(x))
            r->npasses = x->pass > r->npasses ? x->pass : r->npasses;
    }
    return true;
}

const RegionValue *region_value(const Region *r, const Node *n)
{
    for (int i = 0; i < r->nvalues; i++)
        if (r->value[i].node == n)
            return &r->value[i];
    return NULL;
}

static bool link_all(Finder *f, Node *const *node, int n, bool (*is_out)(void *st, const Node *n), void *st)
{
    for (int i = 0; i < n; i++) {
        int v = add_value(f, node[i], true);
        if (v < 0 || !link_node(f, node[i], v))
            return false;
        f->r->value[v].out = is_out(st, node[i]);
    }
    return true;
}

static bool place_all(Finder *f)
{
    const RegionValue *reduce;
    int class[REGION_AXES], hero = find_hero(f, &reduce);

    if (hero < 0)
        return false;
    order_axes(f, hero, reduce, class);
    for (int v = 0; v < f->r->nvalues; v++)
        if (!place_value(f, v, class))
            return false;
    return true;
}

bool region_of(Node *const *node, int n, bool (*is_out)(void *st, const Node *n), void *st, Region *out)
{
    Finder *f = tsr_alloc(sizeof *f);
    bool ok;

    memset(out, 0, offsetof(Region, value));
    f->r = out;
    f->nclasses = 0;
    memset(f->place, -1, sizeof f->place);
    ok = link_all(f, node, n, is_out, st) && place_all(f) && find_counters(f) && find_passes(f);
    tsr_free(f);
    return ok;
}

/* ---- the body of a fused node ---- */

static bool is_result(void *body, const Node *n) { return graph_gives(body, n); }

bool region_of_body(const Graph *body, Region *out)
{
    Node *node[REGION_VALUES];
    int n = 0;

    for (Node *x = body->first; x; x = x->next) {
        if (x->op == GRAPH_PARAM || region_copies(x))
            continue;
        if (n == REGION_VALUES || !region_takes(x))
            return false;
        node[n++] = x;
    }
    return region_of(node, n, is_result, (void *)body, out);
}
