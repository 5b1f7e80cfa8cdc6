/*
 * Masks that leave out nothing of a tile, as causal ones do away from the diagonal.
 *
 * where(inside, x, 0.0) of a tile in registers is x if `inside` holds at the tile's corners, and it says on which side of a number others lie
 * that go up or down evenly along both axes, or says several such things at once: what holds at the corners then holds between them.  A truth about
 * the whole tile, as a table of blocks has it, is enough where the condition is that or something else.  So the
 * walk over a tile's registers (gpu_fragment.c) has a way without such masks, which is taken where they leave out nothing. A loop of a chain finds
 * out for all masks of a round before the round begins, where they follow from what is known by then (gpu_chain_late.c).
 */
#include "codegen/gpu_roles.h"

enum { DEPTH = 8, FAR = 1 << 30 };              /* a tile's numbers lie within so many of each other: none wraps around between corners */

static bool is_whole_number(const TileType *t) { return t->dtype == DT_int32 || t->dtype == DT_int64; }

/* Does it go up or down evenly along the axes of its tile? */
static bool is_even(TileRef v, int depth)
{
    const TileNode *n = v.node;
    const TileType *t = tile_type(v);

    if (t->kind != TILE_VALUE || !is_whole_number(t) || !depth)
        return false;
    if (!t->rank)
        return true;
    switch (n->op) {
    case TOP_iota: return true;
    case TOP_splat: return is_even(n->in[0], depth - 1);
    case TOP_reshape:
        return tile_type(n->in[0])->rank == 1 && t->rank == 2 && (t->extent[0] == 1 || t->extent[1] == 1) && is_even(n->in[0], depth - 1);
    case TOP_map:
        if (n->attr->op == OP_convert)
            return !n->attr->saturate && is_even(n->in[0], depth - 1);
        return (n->attr->op == OP_add || n->attr->op == OP_sub) && is_even(n->in[0], depth - 1) && is_even(n->in[1], depth - 1);
    default: return false;
    }
}

/* Is it a constant that no number of a tile can come to by wrapping around? */
static bool is_near(TileRef v)
{
    const TileNode *n = v.node;

    return n->op == TOP_const && !tile_type(v)->rank && is_whole_number(tile_type(v)) && n->attr->i > -FAR && n->attr->i < FAR;
}

/* Does it say on which side of a number others lie? */
static bool is_side(TileRef v)
{
    const TileNode *n = v.node;

    if (n->op != TOP_map || tile_type(v)->rank != 2)
        return false;
    switch (n->attr->op) {
    case OP_lt: case OP_le: case OP_gt: case OP_ge:
        return (is_even(n->in[0], DEPTH) && is_near(n->in[1])) || (is_near(n->in[0]) && is_even(n->in[1], DEPTH));
    default: return false;
    }
}

/* A truth about the whole tile, from indices. */
static bool is_flag(const TileNode *n) { return n->op == TOP_ilt || n->op == TOP_ieq; }

static bool joins(const TileNode *n, OpId op) { return n->op == TOP_map && n->attr->op == op && n->type[0].dtype == DT_bool; }

/* Can corners, and truths about the whole tile, show that it holds everywhere? */
static bool is_inside(TileRef v)
{
    const TileNode *n = v.node;

    if (joins(n, OP_bitand))
        return is_inside(n->in[0]) && is_inside(n->in[1]);
    return is_side(v) || is_flag(n) || (joins(n, OP_bitor) && (is_inside(n->in[0]) || is_inside(n->in[1])));
}

/* The operand that a mask may leave as it is, where its condition holds (1) or does not (2), everywhere; 0: it is no such mask. */
static int kept_by(const TileNode *n)
{
    if (n->op != TOP_map || n->attr->op != OP_where || n->attr->flush)
        return 0;
    if (tile_type_equal(tile_type(n->in[1]), &n->type[0]) && !tile_type(n->in[2])->rank && tile_type(n->in[0])->rank == 2 && is_inside(n->in[0]))
        return 1;
    return tile_type_equal(tile_type(n->in[2]), &n->type[0]) && !tile_type(n->in[1])->rank && is_side(n->in[0]) ? 2 : 0;
}

static bool is_known_before(TileRef v, const TileBlock *body);

/* Is it known before the nodes of a loop's body are? NULL: at the mask. */
static bool is_known_in(TileRef v, const TileBlock *body)
{
    bool known = true;

    if (!body || !is_flag(v.node))
        return !body || is_known_before(v, body);
    for (int i = 0; i < v.node->nin; i++)
        known &= v.node->in[i].node->block != body || roles_is_known(v.node->in[i].node);
    return known;
}

/* The same of what is enough to show that a condition holds. */
static bool shows(TileRef v, const TileBlock *body)
{
    const TileNode *n = v.node;

    if (joins(n, OP_bitand))
        return shows(n->in[0], body) && shows(n->in[1], body);
    if (joins(n, OP_bitor))
        return shows(n->in[0], body) || shows(n->in[1], body);
    return (is_side(v) || is_flag(n)) && is_known_in(v, body);
}

/* An i1: does it hold (1), or not (2), at all corners of the rows from `low` to `high` of a tile? */
static LLVMValueRef at_corners(CpuCode *e, TileRef v, int kept, LLVMValueRef low, LLVMValueRef high)
{
    const TileType *t = tile_type(v);
    LLVMValueRef all = NULL, x;

    for (int i = 0; i < (t->rank ? 4 : 1); i++) {
        LLVMValueRef row = !t->rank || t->extent[0] == 1 ? cpu_number(e, 0) : i < 2 ? low : high;
        Spot p = {.at = {row, cpu_number(e, t->rank && i % 2 ? t->extent[1] - 1 : 0)}, .strip = -1};
        e->known.n = 0;
        x = cpu_lanes(e, v, &p);
        x = LLVMBuildICmp(e->u->builder, kept == 1 ? LLVMIntNE : LLVMIntEQ, x, LLVMConstNull(LLVMTypeOf(x)), "");
        all = all ? LLVMBuildAnd(e->u->builder, all, x, "") : x;
    }
    e->known.n = 0;
    return all;
}

/* An i1: is it shown that a condition holds everywhere, by what is known by then? */
static LLVMValueRef holds(CpuCode *e, TileRef v, const TileBlock *body, LLVMValueRef low, LLVMValueRef high)
{
    const TileNode *n = v.node;

    if (joins(n, OP_bitand))
        return LLVMBuildAnd(e->u->builder, holds(e, n->in[0], body, low, high), holds(e, n->in[1], body, low, high), "");
    if (!joins(n, OP_bitor))
        return at_corners(e, v, 1, low, high);
    if (!shows(n->in[0], body) || !shows(n->in[1], body))
        return holds(e, n->in[!shows(n->in[0], body)], body, low, high);
    return LLVMBuildOr(e->u->builder, holds(e, n->in[0], body, low, high), holds(e, n->in[1], body, low, high), "");
}

/* An i1: does a mask leave out nothing of these rows? */
static LLVMValueRef keeps_all(CpuCode *e, const TileNode *mask, const TileBlock *body, LLVMValueRef low, LLVMValueRef high)
{
    return kept_by(mask) == 1 ? holds(e, mask->in[0], body, low, high) : at_corners(e, mask->in[0], 2, low, high);
}

/* The rows of a fragment that this thread's warps have, the first and the last one. */
static void rows_of(CpuCode *e, const Fragment *f, LLVMValueRef *low, LLVMValueRef *high)
{
    *low = cpu_number(e, 0), *high = cpu_number(e, f->extent[0] - 1);
    if (!e->gpu->roles)
        return;
    *low = wide(e, op32(e, LLVMMul, role_warpgroup(e), GROUP_ROWS));
    *high = cpu_op(e, LLVMAdd, *low, cpu_number(e, (int64_t)(f->rows - 1) * f->high * (GROUP_ROWS / 4) + GROUP_ROWS - 1));
}

LLVMValueRef gpu_masks_keep(CpuCode *e, const Cluster *c, const Fragment *f)
{
    LLVMValueRef all = NULL, low, high, x;
    bool some = false;

    for (int i = 0; i < c->nodes.n; i++)
        some |= kept_by(c->nodes.at[i]) != 0;
    if (!some || f->side[0] || !f->columns)
        return NULL;
    rows_of(e, f, &low, &high);
    for (int i = 0; i < c->nodes.n; i++) {
        const TileNode *n = c->nodes.at[i];
        if (!kept_by(n))
            continue;
        x = n->block == e->gpu->decided ? LLVMConstInt(LLVMInt1TypeInContext(e->u->context), e->gpu->keeps, false)
                                        : keeps_all(e, n, NULL, low, high);
        all = all ? LLVMBuildAnd(e->u->builder, all, x, "") : x;
    }
    return all;
}

/* A number that needs no other node of the loop's body than such numbers, though the producer would not know it. */
static bool is_constant_or_cast(const TileNode *n)
{
    return !n->type[0].rank && n->type[0].kind == TILE_VALUE &&
           (n->op == TOP_const || n->op == TOP_to_tile || (n->op == TOP_map && n->attr->op == OP_convert));
}

/* Does a condition's value follow from numbers that are known before the body's nodes are? */
static bool is_known_before(TileRef v, const TileBlock *body)
{
    const TileNode *n = v.node;

    if (n->block != body || n->op == TILE_PARAM)
        return true;
    if (!tile_type(v)->rank && !is_constant_or_cast(n))
        return roles_is_known(n);
    for (int i = 0; i < n->nin; i++)
        if (!is_known_before(n->in[i], body))
            return false;
    return true;
}

LLVMValueRef gpu_masks_keep_all(CpuCode *e, const TileBlock *body)
{
    LLVMValueRef all = NULL, low, high, x;
    Fragment f;

    for (const TileNode *n = body->first; n; n = n->next) {
        if (!kept_by(n))
            continue;
        if (!gpu_fragment_of(e, &n->type[0], &f) || f.side[0] || !f.columns)
            return NULL;
        if (!(kept_by(n) == 1 ? shows(n->in[0], body) : is_known_before(n->in[0], body)))
            return NULL;
    }
    for (const TileNode *n = body->first; n; n = n->next) {
        role_emit_known(e, n);
        if (n->nout && is_constant_or_cast(n) && is_known_before((TileRef){(TileNode *)n, 0}, body))
            cpu_val(e, (TileRef){(TileNode *)n, 0})->x = cpu_scalar(e, n);
        if (is_flag(n) && is_known_in((TileRef){(TileNode *)n, 0}, body))
            cpu_val(e, (TileRef){(TileNode *)n, 0})->x = cpu_scalar(e, n);
        if (!kept_by(n))
            continue;
        gpu_fragment_of(e, &n->type[0], &f);
        rows_of(e, &f, &low, &high);
        x = keeps_all(e, n, body, low, high);
        all = all ? LLVMBuildAnd(e->u->builder, all, x, "") : x;
    }
    return all;
}

int gpu_mask_leaves(const CpuCode *e, const TileNode *n)
{
    const Cluster *c = e->gpu->unmasked;

    if (n->block == e->gpu->decided && e->gpu->keeps)
        return kept_by(n);
    for (int i = 0; c && i < c->nodes.n; i++)
        if (c->nodes.at[i] == n)
            return kept_by(n);
    return 0;
}
