/*
 * What varies between lanes: a walk in program order that only ever adds to
 * what varies, repeated until nothing is added, because loops carry values back.
 */
#include "ir/tile/vary.h"

#include "ir/tile/tile_impl.h"

enum { TILE_WARP = 32, DEPTH = 6 };

typedef struct Walk { TileVary *v; bool changed; } Walk;

void tile_vary_done(TileVary *v)
{
    tsr_free(v->number);
    tsr_free(v->value);
    tsr_free(v->split);
    tsr_free(v->parts);
    *v = (TileVary){0};
}

/* Parameters of the kernel have no number; they are the launch's. */
static bool of_kernel(TileRef x) { return x.node->op == TILE_PARAM && !x.node->block->owner; }

bool tile_varies(const TileVary *v, TileRef x)
{
    return !of_kernel(x) && v->value[v->number[x.node->id] + (uint32_t)x.index];
}

static void mark(Walk *w, TileRef x, bool varies)
{
    uint8_t *at = &w->v->value[w->v->number[x.node->id] + (uint32_t)x.index];

    w->changed |= varies && !*at;
    *at |= varies;
}

static bool operands_vary(const TileVary *v, const TileNode *n)
{
    for (int i = 0; i < n->nin; i++)
        if (tile_varies(v, n->in[i]))
            return true;
    return false;
}

bool tile_node_varies(const TileVary *v, const TileNode *n)
{
    for (int i = 0; i < n->nout; i++)
        if (tile_varies(v, (TileRef){(TileNode *)n, i}))
            return true;
    return operands_vary(v, n);
}

static bool whole_group(const TileVary *v, const TileNode *n) { return n->attr->i == 0 || n->attr->i >= v->lanes; }

/* ---- within warps ---- */

static bool number_of(TileRef x, int64_t *out)
{
    const TileNode *n = x.node->op == TOP_to_tile ? x.node->in[0].node : x.node;

    *out = n->attr ? n->attr->i : 0;
    return n->op == TOP_index || (n->op == TOP_const && dtype_is_int((DType)n->type[0].dtype));
}

/* The same in all lanes of a warp, and so many warps' lanes. */
static bool of_warps(const TileVary *v, TileRef x, int depth)
{
    const TileNode *n = x.node;
    int64_t number;

    if (number_of(x, &number))
        return number % TILE_WARP == 0;
    if (depth == 0 || of_kernel(x) || tile_varies(v, x) || n->nin != 2)
        return false;
    if (n->op == TOP_imul)
        return of_warps(v, n->in[0], depth - 1) || of_warps(v, n->in[1], depth - 1);
    return (n->op == TOP_iadd || n->op == TOP_isub) && of_warps(v, n->in[0], depth - 1) && of_warps(v, n->in[1], depth - 1);
}

/* The lane's number behind so many warps' lanes. */
static bool is_lane(const TileVary *v, TileRef x, int depth)
{
    const TileNode *n = x.node;

    if (n->op == TOP_to_tile)
        n = n->in[0].node;
    if (n->op == TOP_lane)
        return true;
    if (depth == 0 || n->nin != 2 || (n->op != TOP_iadd && n->op != TOP_isub))
        return false;
    return (is_lane(v, n->in[0], depth - 1) && of_warps(v, n->in[1], depth - 1)) ||
           (n->op == TOP_iadd && of_warps(v, n->in[0], depth - 1) && is_lane(v, n->in[1], depth - 1));
}

/* Which warp a lane is in, or whether it is in one of the first warps. */
static bool asks_warp(const TileVary *v, const TileNode *n)
{
    bool divides = n->op == TOP_idiv || (n->op == TOP_map && n->attr->op == OP_floordiv), shifts = n->op == TOP_map && n->attr->op == OP_shr;
    int64_t number;

    if (n->nin != 2)
        return false;
    if (n->op == TOP_ilt)
        return (is_lane(v, n->in[0], DEPTH) && of_warps(v, n->in[1], DEPTH)) ||
               (number_of(n->in[0], &number) && (number + 1) % TILE_WARP == 0 && is_lane(v, n->in[1], DEPTH));
    return (divides || shifts) && is_lane(v, n->in[0], DEPTH) && number_of(n->in[1], &number) &&
           (shifts ? number >= 5 && number < 63 : number > 0 && number % TILE_WARP == 0);
}

/* Whole warps are together: of a run that holds one, what is so of the group. */
static bool differs_in_warps(const TileVary *v, const TileNode *n)
{
    switch (n->op) {
    case TOP_idiv: case TOP_ilt: case TOP_map: return !asks_warp(v, n) && operands_vary(v, n);
    case TOP_lane_reduce: return n->attr->i && n->attr->i < TILE_WARP && operands_vary(v, n);
    case TOP_shuffle: return ((n->attr->i && n->attr->i < TILE_WARP) || tile_varies(v, n->in[1])) && operands_vary(v, n);
    default: return operands_vary(v, n);
    }
}

static bool results_vary(const TileVary *v, const TileNode *n)
{
    if (v->warps && n->op != TOP_lane && n->op != TOP_load && n->op != TOP_match && n->op != TOP_update)
        return differs_in_warps(v, n) && n->op != TOP_uniform && n->op != TOP_over_ranks;
    switch (n->op) {
    case TOP_lane: case TOP_update: return true;
    case TOP_load: return tile_type(n->in[0])->space == SPACE_LOCAL || operands_vary(v, n);
    case TOP_lane_reduce: return !whole_group(v, n) && operands_vary(v, n);
    case TOP_shuffle: return (n->attr->i || tile_varies(v, n->in[1])) && operands_vary(v, n);     /* who is not there: one's own */
    case TOP_match: return true;
    case TOP_uniform: case TOP_over_ranks: return false;
    default: return operands_vary(v, n);
    }
}

/* ---- control ---- */

static void walk_block(Walk *w, const TileBlock *b, bool split);

static void walk_if(Walk *w, const TileNode *n, bool split)
{
    bool parts = tile_varies(w->v, n->in[0]);

    w->v->parts[n->id] |= parts;
    for (int r = 0; r < 2; r++)
        walk_block(w, n->region[r], split || parts);
    for (int i = 0; i < n->nout; i++)
        mark(w, (TileRef){(TileNode *)n, i}, parts || tile_varies(w->v, n->region[0]->yields.at[i]) || tile_varies(w->v, n->region[1]->yields.at[i]));
}

static void carry(Walk *w, const TileBlock *b, int i, bool varies) { mark(w, (TileRef){b->params.at[i], 0}, varies); }

static void walk_for(Walk *w, const TileNode *n, bool split)
{
    const TileBlock *b = n->region[0];
    bool place = tile_varies(w->v, n->in[0]) || tile_varies(w->v, n->in[2]), parts = place || tile_varies(w->v, n->in[1]);

    w->v->parts[n->id] |= parts;
    mark(w, (TileRef){b->params.at[0], 0}, place);
    for (int i = 0; i < n->nout; i++)
        carry(w, b, 1 + i, parts || tile_varies(w->v, n->in[3 + i]));
    walk_block(w, b, split || parts);
    for (int i = 0; i < n->nout; i++) {
        carry(w, b, 1 + i, tile_varies(w->v, b->yields.at[i]));
        mark(w, (TileRef){(TileNode *)n, i}, tile_varies(w->v, (TileRef){b->params.at[1 + i], 0}));
    }
}

static void walk_while(Walk *w, const TileNode *n, bool split)
{
    const TileBlock *test = n->region[0], *body = n->region[1];
    bool parts;

    for (int i = 0; i < n->nout; i++)
        carry(w, test, i, tile_varies(w->v, n->in[i]));
    walk_block(w, test, split || w->v->parts[n->id]);
    parts = tile_varies(w->v, test->yields.at[0]);
    w->changed |= parts && !w->v->parts[n->id];
    w->v->parts[n->id] |= parts;
    for (int i = 0; i < n->nout; i++)
        carry(w, body, i, parts || tile_varies(w->v, (TileRef){test->params.at[i], 0}));
    walk_block(w, body, split || parts);
    for (int i = 0; i < n->nout; i++) {
        carry(w, test, i, parts || tile_varies(w->v, body->yields.at[i]));
        mark(w, (TileRef){(TileNode *)n, i}, tile_varies(w->v, (TileRef){test->params.at[i], 0}));
    }
}

static void walk_block(Walk *w, const TileBlock *b, bool split)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        w->v->split[n->id] |= split;
        if (n->op == TOP_if)
            walk_if(w, n, split);
        else if (n->op == TOP_for)
            walk_for(w, n, split);
        else if (n->op == TOP_while)
            walk_while(w, n, split);
        else
            for (int i = 0; i < n->nout; i++)
                mark(w, (TileRef){(TileNode *)n, i}, results_vary(w->v, n));
    }
}

static void vary(const TileKernel *k, bool warps, TileVary *out)
{
    uint32_t count;
    Walk w = {out, false};

    *out = (TileVary){.number = tile_numbers(k, &count), .lanes = k->lanes, .warps = warps};
    out->value = tsr_calloc(count + 1);
    out->split = tsr_calloc(k->nnodes + 1);
    out->parts = tsr_calloc(k->nnodes + 1);
    if (k->lanes == 1)
        return;
    do {
        w.changed = false;
        walk_block(&w, &k->body, false);
    } while (w.changed);
}

void tile_vary(const TileKernel *k, TileVary *out) { vary(k, false, out); }

void tile_vary_warps(const TileKernel *k, TileVary *out) { vary(k, true, out); }

/* ---- the rules ---- */

static bool lane_type(const TileType *t) { return t->kind == TILE_INDEX || (t->kind == TILE_VALUE && t->rank == 0); }

/* Views are named by every lane's accesses; what is loaded or stored decides whose they are. */
static bool group_values(const TileNode *n)
{
    for (int i = 0; i < n->nout; i++)
        if (!lane_type(&n->type[i]))
            return true;
    for (int i = 0; i < n->nin; i++)
        if (!lane_type(tile_type(n->in[i])) && tile_type(n->in[i])->kind != TILE_VIEW)
            return true;
    return false;
}

bool tile_is_groups(const TileNode *n)
{
    switch (n->op) {
    case TOP_if: case TOP_for: case TOP_while: return false;
    case TOP_alloc: case TOP_copy: case TOP_copy_async: case TOP_commit: case TOP_wait: case TOP_barrier: case TOP_uniform: case TOP_over_ranks:
        return true;
    case TOP_lane_reduce: case TOP_shuffle: return n->attr->i == 0 || n->attr->i > 32;
    case TOP_part: case TOP_extent: return false;
    default: return group_values(n);
    }
}

static bool takes_varying(const TileVary *v, const TileNode *n)
{
    if (n->op == TOP_lane_reduce || n->op == TOP_shuffle || n->op == TOP_uniform)
        return false;
    return operands_vary(v, n);
}

static bool group_result_varies(const TileVary *v, const TileNode *n)
{
    for (int i = 0; i < n->nout; i++)
        if (!lane_type(&n->type[i]) && tile_varies(v, (TileRef){(TileNode *)n, i}))
            return true;
    return false;
}

static const TileNode *broken_in(const TileBlock *b, const TileVary *v, const char **why)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        bool groups = tile_is_groups(n), local = n->nin && tile_type(n->in[0])->kind == TILE_VIEW && tile_type(n->in[0])->space == SPACE_LOCAL;
        *why = groups && v->split[n->id]       ? "it is the group's work, and stands where some of its lanes may not be"
             : groups && takes_varying(v, n)   ? "it is the group's work, and takes a value that differs between lanes"
             : group_result_varies(v, n)       ? "a tile or a view would differ between lanes"
             : groups && local                 ? "it is the group's work on memory of one lane"
                                               : NULL;
        if (*why)
            return n;
        for (int r = 0; r < 2; r++) {
            const TileNode *bad = n->region[r] ? broken_in(n->region[r], v, why) : NULL;
            if (bad)
                return bad;
        }
    }
    return NULL;
}

const TileNode *tile_vary_broken(const TileKernel *k, const TileVary *v, const char **why)
{
    return k->lanes == 1 ? NULL : broken_in(&k->body, v, why);
}
