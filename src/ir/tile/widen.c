/*
 * Rounds of a loop over the depth of products that are one longer product.
 *
 *     for k = 0 to K step 32 carry(acc):       for k = 0 to K step 128 carry(acc):
 *       a = load A[m, k]  [64, 32]       =>      a = load A[m, k]  [64, 128]
 *       b = load B[k, n]  [32, 64]               b = load B[k, n]  [128, 64]
 *       yield dot a, b, acc, 32                  yield dot a, b, acc, min(128, what is left)
 *
 * A dot adds its steps in order, so four dots in a row are one of four times
 * the depth, and its sums stay in registers four times as long.  The loop must do
 * nothing else: its tiles are loads from neighbouring places in neighbouring
 * rounds and elementwise ops on them.  How deep blocks are on a GPU is decided by its shared
 * memory; so this is for machines with caches, which ask for it.
 */
#include "ir/tile/tile_impl.h"

#include "base/alloc.h"
#include "runtime/convert.h"

enum { DEPTH_MAX = 256, BYTES_MAX = 256 << 10, DEEP = 128 };     /* of a wide round; of its right operand; a round that is no better wider */

typedef struct Widen {
    TileKernel *k;
    TileNode *loop;
    int64_t step;
    int8_t *axis;               /* by node id: 1 + the axis of a tile of the loop along the rounds; 0: not known yet */
} Widen;

/* ---- indices ---- */

/* How often the loop's number is in an index of its body; INT64_MIN: not a fixed number of times. */
static int64_t times(const Widen *w, TileRef v, int depth)
{
    const TileNode *n = v.node;
    int64_t a, b;

    if (n == w->loop->region[0]->params.at[0])
        return 1;
    if (n->block != w->loop->region[0])
        return 0;
    if (depth == 0 || n->op == TILE_PARAM || n->nin != 2)
        return n->nin == 0 && n->op != TILE_PARAM ? 0 : INT64_MIN;
    a = times(w, n->in[0], depth - 1);
    b = times(w, n->in[1], depth - 1);
    if (a == INT64_MIN || b == INT64_MIN)
        return INT64_MIN;
    if (n->op == TOP_iadd)
        return a + b;
    if (n->op == TOP_isub)
        return a - b;
    return a || b ? INT64_MIN : 0;
}

static bool is_number(TileRef v, int64_t *out)
{
    *out = v.node->attr->i;
    return v.node->op == TOP_index;
}

/* ---- tiles ---- */

static bool inside(const Widen *w, TileRef v) { return v.node->block == w->loop->region[0]; }

/* The tile's axis along the rounds is this one. false: it is another one, or does not go that way. */
static bool goes_along(Widen *w, TileRef v, int axis);

/* Along its axis the load's places follow the loop's number, round after round; along the others they stand still. */
static bool load_goes_along(Widen *w, const TileNode *n, int axis)
{
    int k = 0;

    for (int i = 0; i < tile_type(n->in[0])->rank; i++) {
        bool along = !(n->attr->drop >> i & 1) && k++ == axis;
        int64_t by = times(w, n->in[1 + i], 8);
        if (by != along || (along && n->attr->shape[i] != w->step))
            return false;
    }
    return true;
}

/* Is the tile or scalar the same in all rounds? The loop stores nothing, so loads are if their places are. */
static bool stands_still(const Widen *w, TileRef v, int depth)
{
    const TileNode *n = v.node;

    if (!inside(w, v))
        return true;
    if (depth == 0 || (n->op != TOP_const && n->op != TOP_load && n->op != TOP_map && n->op != TOP_splat))
        return false;
    for (int i = n->op == TOP_load; i < n->nin; i++)
        if (n->op == TOP_load ? times(w, n->in[i], 8) != 0 : !stands_still(w, n->in[i], depth - 1))
            return false;
    return true;
}

static bool map_goes_along(Widen *w, const TileNode *n, int axis)
{
    for (int i = 0; i < n->nin; i++) {
        const TileType *t = tile_type(n->in[i]);
        if (!(t->rank && t->extent[axis] == w->step ? goes_along(w, n->in[i], axis) : stands_still(w, n->in[i], 8)))
            return false;
    }
    return true;
}

static bool goes_along(Widen *w, TileRef v, int axis)
{
    TileNode *n = v.node;

    if (!inside(w, v) || n->op == TILE_PARAM || v.index)
        return false;
    if (w->axis[n->id])
        return w->axis[n->id] == axis + 1;
    w->axis[n->id] = (int8_t)(axis + 1);
    switch (n->op) {
    case TOP_load: return load_goes_along(w, n, axis);
    case TOP_map: return map_goes_along(w, n, axis);
    case TOP_permute: return goes_along(w, n->in[0], n->attr->axes[axis]);
    case TOP_splat: return tile_type(n->in[0])->rank == 0 && !inside(w, n->in[0]);
    default: return false;
    }
}

/* A product of the round's whole depth, added to what the round before gave. */
static bool dot_fits(Widen *w, TileNode *n)
{
    const TileBlock *b = w->loop->region[0];
    int64_t count;
    bool added = false;

    if (!is_number(n->in[3], &count) || count != w->step || tile_type(n->in[0])->extent[1] != w->step || n->nuse != 1 || n->in[2].node->nuse != 1)
        return false;
    for (int i = 0; i < b->yields.n; i++)
        added |= b->yields.at[i].node == n && n->in[2].node == b->params.at[1 + i];
    return added && goes_along(w, n->in[0], 1) && goes_along(w, n->in[1], 0);
}

/* Is the node products' work, or an index? */
static bool node_fits(Widen *w, TileNode *n)
{
    switch (n->op) {
    case TOP_index: case TOP_size: case TOP_group: case TOP_extent: case TOP_iadd: case TOP_isub: case TOP_imul: case TOP_idiv:
    case TOP_imod: case TOP_imin: case TOP_imax: case TOP_const: return true;
    case TOP_dot: return dot_fits(w, n);
    case TOP_load: case TOP_map: case TOP_permute: case TOP_splat: return true;
    default: return false;
    }
}

/* Every tile that goes along is used by what goes along, or is one of a dot's operands. */
static bool users_fit(const Widen *w, const TileNode *n)
{
    for (int i = 0; i < n->nin; i++) {
        const TileNode *x = n->in[i].node;
        if (x->block == n->block && w->axis[x->id] && n->op != TOP_dot && !w->axis[n->id])
            return false;
    }
    return true;
}

/* ---- the loop ---- */

static bool loop_fits(Widen *w)
{
    TileBlock *b = w->loop->region[0];
    bool some = false;

    if (!is_number(w->loop->in[2], &w->step) || w->step < 2 || w->step >= DEEP || !w->loop->nout)
        return false;
    for (TileNode *n = b->first; n; n = n->next) {
        if (!node_fits(w, n))
            return false;
        some |= n->op == TOP_dot;
    }
    for (TileNode *n = b->first; n; n = n->next)
        if (!users_fit(w, n))
            return false;
    for (int i = 0; i < b->yields.n; i++)
        if (b->yields.at[i].node->op != TOP_dot || !inside(w, b->yields.at[i]))
            return false;
    return some;
}

/* How many rounds at a time: right operands stay in the second cache, and what a block of the product reads in the first. */
static int64_t rounds(const Widen *w)
{
    int64_t most = DEPTH_MAX / w->step;

    for (const TileNode *n = w->loop->region[0]->first; n; n = n->next) {
        if (n->op != TOP_dot)
            continue;
        int64_t bytes = tile_elements(tile_type(n->in[1])) * (int64_t)raw_size(lane_dtype((DType)n->type[0].dtype));
        int64_t elements = tile_elements(tile_type(n->in[0])), right = tile_elements(tile_type(n->in[1]));
        elements = elements > right ? elements : right;
        most = most * bytes > BYTES_MAX ? BYTES_MAX / bytes : most;
        most = most * elements > TILE_ELEMENTS_MAX ? TILE_ELEMENTS_MAX / elements : most;
    }
    return most;
}

static TileNode *index_node(TileBuilder *b, TileOp op, int64_t i, TileRef x, TileRef y)
{
    TAttr a = tattr_none;

    a.i = i;
    return tile_add(b, op, op == TOP_index ? &a : NULL, (TileRef[]){x, y}, op == TOP_index ? 0 : 2);
}

static void replace_operand(TileNode *n, int i, TileRef v)
{
    n->in[i].node->nuse--;
    n->in[i] = v;
    v.node->nuse++;
}

/* An index in front of a node: made at the end of the kernel's body, which is open, and moved. */
static TileRef index_before(Widen *w, TileNode *where, TileOp op, int64_t i, TileRef x, TileRef y)
{
    StrBuf err = {0};
    TileBuilder b = {w->k, &w->k->body, where->span, &err};
    TileNode *n = index_node(&b, op, i, x, y);

    sb_done(&err);
    if (!n)
        tsr_bug("widen: an index that does not fit");
    if (n != where)
        tile_move(n, where);
    return tile_out(n);
}

static void widen_tile(Widen *w, TileNode *n, int64_t by)
{
    int axis = w->axis[n->id] - 1, k = 0;
    TAttr a = *n->attr;

    n->type[0].extent[axis] *= (int32_t)by;
    if (n->op == TOP_splat)
        a.shape[axis] *= (int32_t)by;
    if (n->op == TOP_load)
        for (int i = 0; i < a.rank; i++)
            if (!(a.drop >> i & 1) && k++ == axis)
                a.shape[i] *= (int32_t)by;
    n->attr = arena_copy(&w->k->arena, &a, sizeof a);
}

static void widen_loop(Widen *w, int64_t by)
{
    static const TileRef none = {NULL, 0};
    TileNode *loop = w->loop, *first = loop->region[0]->first;
    TileRef one = index_before(w, loop, TOP_index, w->step, none, none), wide = index_before(w, loop, TOP_index, w->step * by, none, none);
    TileRef less = index_before(w, loop, TOP_index, w->step - 1, none, none), up = index_before(w, loop, TOP_iadd, 0, loop->in[1], less);
    TileRef i = {loop->region[0]->params.at[0], 0}, left;

    left = index_before(w, first, TOP_isub, 0, up, i);
    left = index_before(w, first, TOP_idiv, 0, left, one);
    left = index_before(w, first, TOP_imul, 0, left, one);
    left = index_before(w, first, TOP_imin, 0, left, wide);
    replace_operand(loop, 2, wide);
    for (TileNode *n = first; n; n = n->next) {
        if (n->op == TOP_dot)
            replace_operand(n, 3, left);
        else if (w->axis[n->id])
            widen_tile(w, n, by);
    }
}

/* Has a loop a product in it? */
static bool has_products(const TileBlock *b)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        if (n->op == TOP_dot && b->owner && b->owner->op == TOP_for)
            return true;
        for (int r = 0; r < 2; r++)
            if (n->region[r] && has_products(n->region[r]))
                return true;
    }
    return false;
}

static void each_loop(Widen *w, TileBlock *b, bool *changed)
{
    for (TileNode *n = b->first; n; n = n->next) {
        for (int r = 0; r < 2; r++)
            if (n->region[r])
                each_loop(w, n->region[r], changed);
        if (n->op != TOP_for)
            continue;
        w->loop = n;
        if (loop_fits(w) && rounds(w) > 1) {
            widen_loop(w, rounds(w));
            *changed = true;
        }
    }
}

bool tile_widen(TileKernel *k)
{
    Widen w = {.k = k};
    bool changed = false;

    if (!pass_runs("tile.widen"))
        return false;
    w.axis = tsr_calloc(k->nnodes + 1);
    each_loop(&w, &k->body, &changed);
    tsr_free(w.axis);
    pass_done("tile.widen", &tile_ir, k);
    return changed;
}

TileKernel *tile_widened(const TileKernel *k)
{
    StrBuf text = {0}, err = {0};
    TileKernel *wide;

    if (!has_products(&k->body))
        return NULL;
    tile_print(k, &text);
    wide = tile_parse(sb_str(&text), text.n, &err);
    if (!wide)
        tsr_bug("a kernel's text is not read back: %s", sb_str(&err));
    if (!tile_widen(wide)) {
        tile_kernel_free(wide);
        wide = NULL;
    }
    sb_done(&text);
    sb_done(&err);
    return wide;
}
