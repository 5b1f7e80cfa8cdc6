/*
 * Does a launch write all of a parameter, and never read it?
 *
 * So it does if nothing but stores of blocks take the parameter, and the blocks of one store that stands outside of loops and choices, whose places
 * follow from the group and the launch's sizes, come to all of it. The places are worked out group by group.
 */
#include "ir/tile/tile_impl.h"

#include "base/alloc.h"

#include <string.h>

enum { GROUPS_MOST = 1 << 16, DEPTH = 24 };

typedef struct Fill {
    const TileKernel *k;
    const int64_t *sizes, *group;
    const TileArg *args;
} Fill;

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

static bool number(const Fill *f, const TileNode *n, int depth, int64_t *y);

static bool two(const Fill *f, const TileNode *n, int depth, int64_t *y)
{
    int64_t a, b;

    if (n->nin != 2 || !number(f, n->in[0].node, depth, &a) || !number(f, n->in[1].node, depth, &b))
        return false;
    switch (n->op == TOP_map ? n->attr->op == OP_add ? TOP_iadd : n->attr->op == OP_sub ? TOP_isub : n->attr->op == OP_mul ? TOP_imul
                             : n->attr->op == OP_floordiv ? TOP_idiv : n->attr->op == OP_mod ? TOP_imod : TOP_for : n->op) {
    case TOP_iadd: return !__builtin_add_overflow(a, b, y);
    case TOP_isub: return !__builtin_sub_overflow(a, b, y);
    case TOP_imul: return !__builtin_mul_overflow(a, b, y);
    case TOP_idiv: return b > 0 && (*y = floor_div(a, b), true);
    case TOP_imod: return b > 0 && (*y = a - floor_div(a, b) * b, true);
    case TOP_imin: *y = a < b ? a : b; return true;
    case TOP_imax: *y = a > b ? a : b; return true;
    default: return false;
    }
}

/* What a node is for the group. false: more would have to be known. */
static bool number(const Fill *f, const TileNode *n, int depth, int64_t *y)
{
    if (!depth)
        return false;
    switch (n->op) {
    case TOP_index: *y = n->attr->i; return true;
    case TOP_group: *y = f->group[n->attr->axis]; return true;
    case TOP_const: *y = n->attr->i; return n->type[0].dtype == DT_int64;
    case TOP_size:
        for (int i = 0; i < f->k->size.n; i++)
            if (f->k->size.at[i] == n->attr->name)
                return *y = f->sizes[i], true;
        return false;
    case TOP_to_index: case TOP_to_tile: return number(f, n->in[0].node, depth - 1, y);
    case TOP_map: return n->type[0].dtype == DT_int64 && !n->type[0].rank && two(f, n, depth - 1, y);
    default: return two(f, n, depth - 1, y);
    }
}

/* Do all uses in a block store to it? */
static bool only_stored(const TileBlock *b, const TileNode *param)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        for (int i = 0; i < n->nin; i++)
            if (n->in[i].node == param && !(n->op == TOP_store && i == 0))
                return false;
        for (int r = 0; r < 2; r++)
            if (n->region[r] && !only_stored(n->region[r], param))
                return false;
    }
    for (int i = 0; i < b->yields.n; i++)
        if (b->yields.at[i].node == param)
            return false;
    return true;
}

/* The parameter as blocks of a store: how many along each axis, and in all; the first may begin before it, by `lead`. false: too many to look at. */
typedef struct Blocks { int64_t length[VIEW_RANK], lead[VIEW_RANK], count[VIEW_RANK], all; } Blocks;

static bool divide(const Fill *f, const TileNode *store, const TileArg *arg, Blocks *b)
{
    const TileType *t = &store->in[store->nin - 1].node->type[store->in[store->nin - 1].index];
    int rank = store->in[0].node->type[0].rank, axis = 0;
    int64_t x;

    b->all = 1;
    for (int i = 0; i < rank; i++) {
        b->length[i] = store->attr->drop >> i & 1 ? 1 : axis < t->rank ? t->extent[axis++] : 0;
        if (b->length[i] < 1 || arg->extent[i] < 1 || !number(f, store->in[1 + i].node, DEPTH, &x))
            return false;
        b->lead[i] = floor_div(x, b->length[i]) * b->length[i] - x;         /* of any group's, which all of them have if they come to all */
        b->lead[i] += b->lead[i] ? b->length[i] : 0;
        b->count[i] = (arg->extent[i] + b->lead[i] + b->length[i] - 1) / b->length[i];
        if (__builtin_mul_overflow(b->all, b->count[i], &b->all) || b->all > GROUPS_MOST)
            return false;
    }
    return true;
}

/* The block that a group stores. -1: none of these; -2: nobody knows. */
static int64_t block_of(const Fill *f, const TileNode *store, const Blocks *b)
{
    int64_t at = 0, x;

    for (int i = 0; i < store->in[0].node->type[0].rank; i++) {
        if (!number(f, store->in[1 + i].node, DEPTH, &x))
            return -2;
        x += b->lead[i];
        if (x < 0 || x % b->length[i] || x / b->length[i] >= b->count[i])
            return -1;
        at = at * b->count[i] + x / b->length[i];
    }
    return at;
}

static bool comes_to_all(Fill *f, const TileNode *store, const TileArg *arg, const int64_t *groups)
{
    int64_t all = groups[0] * groups[1] * groups[2], done = 0, at = 0;
    uint8_t *has;
    Blocks b;

    f->group = (int64_t[3]){0, 0, 0};
    if (!divide(f, store, arg, &b) || all < b.all || all > GROUPS_MOST)
        return false;
    has = tsr_calloc((size_t)b.all);
    for (int64_t g = 0; g < all && at != -2; g++) {
        int64_t group[3] = {g / (groups[1] * groups[2]), g / groups[2] % groups[1], g % groups[2]};
        f->group = group;
        at = block_of(f, store, &b);
        done += at >= 0 && !has[at];
        if (at >= 0)
            has[at] = 1;
    }
    tsr_free(has);
    return done == b.all;
}

bool tile_fills(const TileKernel *k, int param, const int64_t *sizes, const TileArg *args)
{
    const TileNode *p = k->params.at[param];
    Fill f = {.k = k, .sizes = sizes, .args = args};
    int64_t groups[3];

    if (k->lanes != 1 || !only_stored(&k->body, p) || !tile_groups(k, sizes, groups) || groups[0] > GROUPS_MOST || groups[1] > GROUPS_MOST ||
        groups[2] > GROUPS_MOST)
        return false;
    for (const TileNode *n = k->body.first; n; n = n->next)
        if (n->op == TOP_store && n->in[0].node == p && comes_to_all(&f, n, &args[param], groups))
            return true;
    return false;
}

/* The memory that a view is a part of: a parameter, a buffer, or, where that shows nowhere, what gives it. */
static const TileNode *memory_of(TileRef view)
{
    while (view.node->op == TOP_part)
        view = view.node->in[0];
    return view.node;
}

static bool is_of_loop(const TileNode *n) { return n->op == TILE_PARAM && n->block && n->block->owner; }

static bool may_write(const TileBlock *b, const TileNode *param)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        const TileNode *to = n->op == TOP_store || tile_is_atomic(n->op) || n->op == TOP_copy || n->op == TOP_copy_async ? memory_of(n->in[0]) : NULL;
        if (to && (to == param || is_of_loop(to) || (to->op != TILE_PARAM && to->op != TOP_alloc)))
            return true;
        for (int r = 0; r < 2; r++)
            if (n->region[r] && may_write(n->region[r], param))
                return true;
    }
    return false;
}

bool tile_writes_to(const TileKernel *k, int param) { return may_write(&k->body, k->params.at[param]); }
