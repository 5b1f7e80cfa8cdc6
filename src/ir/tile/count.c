/*
 * Counting work: one walk in program order for each group that is looked at.
 *
 * A number is what an index is in lane 0 and how much it grows from one lane to
 * the next; a bool scalar is the share of the lanes for which it holds.  What
 * neither follows from sizes nor from the lane is unknown: an unknown number of
 * trips is one, an unknown condition holds.
 */
#include "ir/tile/count.h"

#include "ir/tile/tile_impl.h"
#include "ir/tile/vary.h"

#include <math.h>

enum { WARP = 32 };                      /* lanes that access memory together */

const char *const tile_access_names[] = {"broadcast", "coalesced", "strided", "random"};

typedef enum { UNKNOWN, KNOWN, SHARE } NumberKind;
typedef struct Number {
    uint8_t kind;
    bool data;                  /* comes from memory: what it addresses is anywhere */
    double at;                  /* KNOWN: in lane 0; SHARE: 0 to 1 */
    double step;                /* KNOWN: from lane to lane */
} Number;

typedef struct Walk {
    const TileKernel *k;
    const int64_t *sizes, *group;
    const TileArg *args;
    const TileAccessSink *sink;
    TileVary vary;
    Number *number;             /* by the number of a value */
    double lanes;
    TileCount *out;
} Walk;

static Number known(double at, double step) { return (Number){KNOWN, false, at, step}; }
static Number share(double part) { return (Number){SHARE, false, part, 0}; }
static Number unknown(bool data) { return (Number){UNKNOWN, data, 0, 0}; }

static bool is_param(TileRef r) { return r.node->op == TILE_PARAM && !r.node->block->owner; }

static Number *slot(Walk *w, TileRef r) { return &w->number[w->vary.number[r.node->id] + (uint32_t)r.index]; }
static Number number_of(Walk *w, TileRef r) { return is_param(r) ? unknown(false) : *slot(w, r); }
static void put(Walk *w, const TileNode *n, int i, Number v) { *slot(w, (TileRef){(TileNode *)n, i}) = v; }

/* ---- numbers ---- */

static int param_place(const TileKernel *k, const TileNode *n)
{
    for (int i = 0; i < (int)k->params.n; i++)
        if (k->params.at[i] == n)
            return i;
    return -1;
}

static Number size_of(Walk *w, Sym name)
{
    for (int i = 0; i < (int)w->k->size.n; i++)
        if (w->k->size.at[i] == name)
            return known((double)w->sizes[i], 0);
    return unknown(false);
}

static Number extent_of(Walk *w, const TileNode *n)
{
    int at = is_param(n->in[0]) ? param_place(w->k, n->in[0].node) : -1;

    if (at >= 0)
        return known((double)w->args[at].extent[n->attr->axis], 0);
    if (n->in[0].node->op == TOP_alloc)
        return number_of(w, n->in[0].node->in[n->attr->axis]);
    return unknown(false);
}

static Number divided(const TileNode *n, Number a, Number b, double lanes)
{
    bool whole = b.at > 0 && b.step == 0;
    double q;

    if (!whole)
        return unknown(a.data | b.data);
    q = floor(a.at / b.at);
    if (n->op == TOP_idiv)                      /* a run of lanes has one quotient */
        return known(q, a.step == 0 || floor((a.at + a.step * (lanes - 1)) / b.at) == q ? 0 : a.step / b.at);
    return known(a.at - q * b.at, a.step);
}

/* The share of the lanes with a + i * step < 0. */
static double share_below_zero(double a, double step, double lanes)
{
    if (step == 0)
        return a < 0;
    if (step > 0)
        return a >= 0 ? 0 : fmin(ceil(-a / step), lanes) / lanes;
    return a < 0 ? 1 : 1 - fmin(floor(a / -step) + 1, lanes) / lanes;
}

static Number combined(Walk *w, const TileNode *n)
{
    Number a = number_of(w, n->in[0]), b = number_of(w, n->in[1]);

    if (a.kind != KNOWN || b.kind != KNOWN)
        return unknown(a.data | b.data);
    switch (n->op) {
    case TOP_iadd: return known(a.at + b.at, a.step + b.step);
    case TOP_isub: return known(a.at - b.at, a.step - b.step);
    case TOP_imul: return a.step == 0 || b.step == 0 ? known(a.at * b.at, a.step * b.at + b.step * a.at) : unknown(false);
    case TOP_imin: return b.at < a.at ? b : a;
    case TOP_imax: return b.at > a.at ? b : a;
    case TOP_ilt: return share(share_below_zero(a.at - b.at, a.step - b.step, w->lanes));
    case TOP_ieq: return share(a.at == b.at && a.step == b.step ? 1 : a.step != b.step ? 1 / w->lanes : 0);
    default: return divided(n, a, b, w->lanes);
    }
}

static Number of_bools(Walk *w, const TileNode *n)
{
    Number a = number_of(w, n->in[0]), b = n->nin > 1 ? number_of(w, n->in[1]) : a;
    double x = a.kind == SHARE ? a.at : 1, y = b.kind == SHARE ? b.at : 1;

    switch (n->attr->op) {
    case OP_bitand: return share(fmin(x, y));
    case OP_bitor: return share(fmax(x, y));
    case OP_bitnot: case OP_lnot: return a.kind == SHARE ? share(1 - x) : unknown(a.data);
    default: return unknown(a.data | b.data);
    }
}

static bool any_from_data(Walk *w, const TileNode *n)
{
    for (int i = 0; i < n->nin; i++)
        if (!is_param(n->in[i]) && number_of(w, n->in[i]).data)
            return true;
    return false;
}

static Number value_of(Walk *w, const TileNode *n)
{
    switch (n->op) {
    case TOP_index: return known((double)n->attr->i, 0);
    case TOP_size: return size_of(w, n->attr->name);
    case TOP_group: return known((double)w->group[n->attr->axis], 0);
    case TOP_lane: return known(0, 1);
    case TOP_extent: return extent_of(w, n);
    case TOP_iadd: case TOP_isub: case TOP_imul: case TOP_idiv: case TOP_imod: case TOP_imin: case TOP_imax: case TOP_ilt: case TOP_ieq:
        return combined(w, n);
    case TOP_to_index: case TOP_to_tile: case TOP_uniform: return number_of(w, n->in[0]);
    case TOP_const: return n->type[0].dtype == DT_bool ? share(n->attr->i != 0) : unknown(false);
    case TOP_map: return n->type[0].dtype == DT_bool && n->type[0].rank == 0 ? of_bools(w, n) : unknown(any_from_data(w, n));
    case TOP_load: case TOP_gather: case TOP_atomic: case TOP_update: case TOP_match: return unknown(true);
    default: return unknown(any_from_data(w, n));
    }
}

/* ---- accesses ---- */

/* How far an index moves from lane to lane, also where nobody knows where it begins. false: not by one number. */
static bool step_of(Walk *w, TileRef r, double *step)
{
    Number at = number_of(w, r);
    double more;

    *step = at.kind == KNOWN ? at.step : 0;
    if (at.kind == KNOWN || !tile_varies(&w->vary, r))
        return true;
    if ((r.node->op != TOP_iadd && r.node->op != TOP_isub) || !step_of(w, r.node->in[0], step) || !step_of(w, r.node->in[1], &more))
        return false;
    *step += r.node->op == TOP_iadd ? more : -more;
    return true;
}

/* Starts of an access stand behind the view; lanes of a warp, which share a quotient by 32, take neighbours when only the last one moves, by one. */
static TileAccess access_of_lanes(Walk *w, const TileNode *n, const TileType *view)
{
    TileAccess found = ACCESS_BROADCAST;

    for (int i = 0; i < view->rank; i++) {
        Number at = number_of(w, n->in[1 + i]);
        double step;
        TileAccess own = at.data ? ACCESS_RANDOM : !step_of(w, n->in[1 + i], &step) ? ACCESS_STRIDED : fabs(step) * WARP <= 1 ? ACCESS_BROADCAST
                         : step == 1 && view->stride[i] == 1 ? ACCESS_COALESCED : ACCESS_STRIDED;
        found = own > found ? own : found;
    }
    return found;
}

/* A block goes along the view's last axis that it covers more than one element of. */
static TileAccess access_of_block(Walk *w, const TileNode *n, const TileType *view, const TileType *block)
{
    for (int i = view->rank - 1; i >= 0; i--)
        if (n->op == TOP_gather && i == 0 && !number_of(w, n->in[1]).data)
            return ACCESS_STRIDED;
        else if (n->op == TOP_gather && i == 0)
            return view->rank > 1 && block->extent[block->rank - 1] > 1 ? ACCESS_COALESCED : ACCESS_RANDOM;
        else if (view->stride[i] == 1)
            return ACCESS_COALESCED;
    return view->rank ? ACCESS_STRIDED : ACCESS_BROADCAST;
}

static double bytes_of(const TileType *t) { return (double)tile_elements(t) * dtype_info[t->dtype].bits / 8; }

/* `times` is how often the op is done in a group; what lanes do each counts for each of them. */
static void moves(Walk *w, const TileNode *n, const TileType *view, const TileType *what, bool writes, double times)
{
    bool block = what->rank > 0;
    TileAccess a = ACCESS_COALESCED;

    if (view->space != SPACE_GLOBAL) {
        w->out->local += times * bytes_of(what);
        return;
    }
    *(writes ? &w->out->stored : &w->out->loaded) += times * bytes_of(what);
    if (n->op != TOP_copy && n->op != TOP_copy_async)
        a = block ? access_of_block(w, n, view, what) : access_of_lanes(w, n, view);
    w->out->access = a > w->out->access ? a : w->out->access;
    if (w->sink)
        w->sink->see(w->sink->state, n, a);
}

static void copies(Walk *w, const TileNode *n, double times)
{
    const TileType *to = tile_type(n->in[0]), *from = tile_type(n->in[1]);
    TileType whole = *to;
    double elements = 1;

    for (int i = 0; i < to->rank; i++) {
        Number e = unknown(false);
        if (n->in[0].node->op == TOP_alloc)
            e = number_of(w, n->in[0].node->in[i]);
        else if (n->in[0].node->op == TOP_part)
            e = number_of(w, n->in[0].node->in[1 + to->rank + i]);
        elements *= e.kind == KNOWN ? e.at : 1;
    }
    whole.rank = 0;                             /* bytes are counted by the element */
    moves(w, n, from, &whole, false, times * elements);
    moves(w, n, to, &whole, true, times * elements);
}

/* ---- work ---- */

static double steps_of(Walk *w, TileRef count, int64_t most)
{
    Number n = number_of(w, count);

    return n.kind == KNOWN ? fmin(fmax(n.at, 0), (double)most) : (double)most;
}

static double flops_of(Walk *w, const TileNode *n)
{
    const TileType *t = &n->type[0], *a = n->nin && !is_param(n->in[0]) ? tile_type(n->in[0]) : t;
    DType dt = (DType)(n->op == TOP_map ? tile_map_dtype((OpId)n->attr->op, n->in) : t->dtype);

    if (!dtype_is_inexact(dt) && n->op != TOP_dot)
        return 0;
    switch (n->op) {
    case TOP_map: return n->attr->op == OP_convert || n->attr->op == OP_where ? 0 : (double)tile_elements(t);
    case TOP_reduce: return (double)tile_elements(t) * steps_of(w, n->in[1], a->extent[n->attr->axis]);
    case TOP_push: return (double)tile_elements(t);
    case TOP_lane_reduce: return 1;
    case TOP_dot: return 2 * (double)tile_elements(t) * steps_of(w, n->in[3], a->extent[1]);
    default: return 0;
    }
}

static void walk_block(Walk *w, const TileBlock *b, double times);

static void walk_for(Walk *w, const TileNode *n, double times)
{
    const TileBlock *b = n->region[0];
    Number lo = number_of(w, n->in[0]), hi = number_of(w, n->in[1]), by = number_of(w, n->in[2]);
    bool sure = lo.kind == KNOWN && hi.kind == KNOWN && by.kind == KNOWN && by.at > 0;
    double trips = sure ? fmax(ceil((hi.at - lo.at) / by.at), 0) : 1;

    for (int i = 0; i < n->nout; i++)
        *slot(w, (TileRef){b->params.at[1 + i], 0}) = unknown(number_of(w, n->in[3 + i]).data);
    *slot(w, (TileRef){b->params.at[0], 0}) = sure ? known(lo.at + floor(trips / 2) * by.at, lo.step) : unknown(lo.data | hi.data);
    walk_block(w, b, times * trips);
}

static void walk_if(Walk *w, const TileNode *n, double times)
{
    Number c = number_of(w, n->in[0]);
    double part = c.kind == SHARE ? c.at : 1;

    walk_block(w, n->region[0], times * part);
    walk_block(w, n->region[1], times * (c.kind == SHARE ? 1 - part : 0));
}

static void walk_while(Walk *w, const TileNode *n, double times)
{
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < n->nout; i++)
            *slot(w, (TileRef){n->region[r]->params.at[i], 0}) = unknown(number_of(w, n->in[i]).data);
    walk_block(w, n->region[0], times);
    walk_block(w, n->region[1], times);
}

static void walk_node(Walk *w, const TileNode *n, double times)
{
    double each = times * (tile_is_groups(n) ? 1 : w->lanes);

    for (int i = 0; i < n->nout; i++)
        put(w, n, i, value_of(w, n));
    w->out->flops += each * flops_of(w, n);
    if (n->op == TOP_load || n->op == TOP_gather)
        moves(w, n, tile_type(n->in[0]), &n->type[0], false, each);
    else if (n->op == TOP_store || tile_is_atomic(n->op))
        moves(w, n, tile_type(n->in[0]), tile_type(n->in[n->nin - 1]), true, each);
    else if (n->op == TOP_copy || n->op == TOP_copy_async)
        copies(w, n, each);
    else if (n->op == TOP_for)
        walk_for(w, n, times);
    else if (n->op == TOP_if)
        walk_if(w, n, times);
    else if (n->op == TOP_while)
        walk_while(w, n, times);
}

static void walk_block(Walk *w, const TileBlock *b, double times)
{
    if (times > 0)
        for (const TileNode *n = b->first; n; n = n->next)
            walk_node(w, n, times);
}

/* ---- groups ---- */

static void add(TileCount *sum, const TileCount *c, double times)
{
    sum->flops += times * c->flops;
    sum->loaded += times * c->loaded;
    sum->stored += times * c->stored;
    sum->local += times * c->local;
    sum->access = c->access > sum->access ? c->access : sum->access;
}

static TileCount of_group(Walk *w, const int64_t *groups, int64_t which)
{
    int64_t at[3] = {which % groups[0], which / groups[0] % groups[1], which / groups[0] / groups[1]};
    TileCount c = {0};

    w->group = at;
    w->out = &c;
    walk_block(w, &w->k->body, 1);
    w->sink = NULL;                             /* told once */
    return c;
}

bool tile_count(const TileKernel *k, const int64_t *sizes, const TileArg *args, const TileAccessSink *sink, TileCount *out)
{
    int64_t groups[3], all;
    uint32_t values;
    Walk w = {.k = k, .sizes = sizes, .args = args, .sink = sink, .lanes = k->lanes};
    TileCount first, middle, last;

    *out = (TileCount){0};
    if (!tile_groups(k, sizes, groups))
        return false;
    all = groups[0] * groups[1] * groups[2];
    out->groups = (double)all;
    if (all < 1)
        return true;
    tsr_free(tile_numbers(k, &values));
    tile_vary(k, &w.vary);
    w.number = tsr_calloc((values + 1) * sizeof *w.number);
    first = of_group(&w, groups, 0);
    middle = of_group(&w, groups, (all - 1) / 2);
    last = of_group(&w, groups, all - 1);
    if (first.flops == middle.flops && first.loaded == middle.loaded) {
        add(out, &first, (double)(all - 1));    /* only the last one may be ragged */
        add(out, &last, 1);
    } else {                                    /* Simpson's rule: exact where the work grows as the group's number or its square does */
        add(out, &first, (double)all / 6);
        add(out, &middle, (double)all * 4 / 6);
        add(out, &last, (double)all / 6);
    }
    tsr_free(w.number);
    tile_vary_done(&w.vary);
    return true;
}
