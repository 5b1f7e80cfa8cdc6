/*
 * Quotients and rests of neighbouring lanes.
 *
 * Numbers of lanes over a size are rows and columns: element i of a matrix is
 * in row i // N, column i % N.  In most strips all lanes are in one row, and
 * their columns are neighbours.  So where a run has such divisions, what the
 * first lane gets is computed at the strip's start, and the run's code is made
 * twice: for strips where no division has a step, and for the others.
 */
#include "codegen/cpu_lane.h"

#include <string.h>

static LLVMTypeRef i64_lanes(CpuCode *e) { return LLVMVectorType(LLVMInt64TypeInContext(e->u->context), (unsigned)e->lanes->width); }

static LLVMValueRef splat(CpuCode *e, LLVMValueRef x) { return lane_splat(e->u, x, e->lanes->width); }

static bool is_wide(LLVMValueRef x) { return LLVMGetTypeKind(LLVMTypeOf(x)) == LLVMVectorTypeKind; }

/* At least 1: lanes that are not here may have any divisor. */
static LLVMValueRef strip_positive(CpuCode *e, LLVMValueRef b)
{
    LLVMTypeRef t = LLVMTypeOf(b);
    LLVMValueRef in[2] = {b, is_wide(b) ? splat(e, cpu_number(e, 1)) : cpu_number(e, 1)};

    return LLVMIsAConstantInt(b) && LLVMConstIntGetSExtValue(b) > 0 ? b : cpu_intrinsic(e, "llvm.smax", &t, 1, in, 2);
}

/* What is below 0 of a remainder makes the quotient one less: towards minus infinity. */
static Quotient floored(CpuCode *e, LLVMValueRef q, LLVMValueRef r, LLVMValueRef b)
{
    LLVMBuilderRef u = e->u->builder;
    LLVMValueRef below = LLVMBuildICmp(u, LLVMIntSLT, r, LLVMConstNull(LLVMTypeOf(r)), "");
    LLVMValueRef one = is_wide(r) ? splat(e, cpu_number(e, 1)) : cpu_number(e, 1);

    return (Quotient){LLVMBuildSelect(u, below, LLVMBuildSub(u, q, one, ""), q, ""), LLVMBuildSelect(u, below, LLVMBuildAdd(u, r, b, ""), r, "")};
}

/*
 * Lanes over lanes above 0.  Machines divide doubles in vectors and integers one by one; the quotient of doubles is that of integers below
 * 2^52, and of larger ones leaves a rest that is divided again.
 */
static Quotient wide_floor_div(CpuCode *e, LLVMValueRef a, LLVMValueRef b)
{
    LLVMBuilderRef u = e->u->builder;
    LLVMTypeRef wide = i64_lanes(e), real = LLVMVectorType(LLVMDoubleTypeInContext(e->u->context), (unsigned)e->lanes->width), over[2] = {wide, real};
    LLVMValueRef by = LLVMBuildSIToFP(u, b, real, ""), zero = LLVMConstNull(wide), q, r, part, next, rest, big;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(u), round = cpu_block(e), done = cpu_block(e);

    LLVMBuildBr(u, round);
    LLVMPositionBuilderAtEnd(u, round);
    q = LLVMBuildPhi(u, wide, "");
    r = LLVMBuildPhi(u, wide, "");
    part = LLVMBuildFDiv(u, LLVMBuildSIToFP(u, r, real, ""), by, "");
    part = cpu_intrinsic(e, "llvm.fptosi.sat", over, 2, &part, 1);
    next = LLVMBuildAdd(u, q, part, "");
    rest = LLVMBuildSub(u, r, LLVMBuildMul(u, part, b, ""), "");
    big = LLVMBuildOr(u, LLVMBuildICmp(u, LLVMIntSGE, rest, b, ""), LLVMBuildICmp(u, LLVMIntSLE, rest, LLVMBuildSub(u, zero, b, ""), ""), "");
    LLVMBuildCondBr(u, mask_any(e, big), round, done);
    LLVMAddIncoming(q, (LLVMValueRef[]){zero, next}, (LLVMBasicBlockRef[]){before, round}, 2);
    LLVMAddIncoming(r, (LLVMValueRef[]){a, rest}, (LLVMBasicBlockRef[]){before, round}, 2);
    LLVMPositionBuilderAtEnd(u, done);
    return floored(e, next, rest, b);
}

static bool is_power(LLVMValueRef b)
{
    LLVMValueRef one = is_wide(b) && LLVMIsConstant(b) ? LLVMGetAggregateElement(b, 0) : b;
    int64_t v = one && LLVMIsAConstantInt(one) ? LLVMConstIntGetSExtValue(one) : 0;

    return v > 0 && !(v & (v - 1));
}

/* Towards minus infinity. b: above 0, or a number of one lane. */
static Quotient strip_floor_div(CpuCode *e, LLVMValueRef a, LLVMValueRef b)
{
    LLVMBuilderRef u = e->u->builder;
    LLVMValueRef q;

    if (is_wide(a) && !is_power(b))
        return wide_floor_div(e, a, b);
    q = LLVMBuildSDiv(u, a, b, "");
    return floored(e, q, LLVMBuildSub(u, a, LLVMBuildMul(u, q, b, ""), ""), b);
}

/*
 * Neighbours over a number of the run: the first one's quotient and rest, then how often the divisor fits into rest + lane,
 * which is at most once if it is not below the strip's width.
 */
static Quotient neighbours_over(CpuCode *e, Quotient first, LLVMValueRef b)
{
    LLVMBuilderRef u = e->u->builder;
    LLVMTypeRef wide = i64_lanes(e), real = LLVMVectorType(LLVMDoubleTypeInContext(e->u->context), (unsigned)e->lanes->width);
    LaneIndex rest = {first.r, cpu_number(e, 1), NULL, 1};
    LLVMValueRef r = index_lanes(e, &rest), all = splat(e, b), once, more, times;

    once = LLVMBuildZExt(u, LLVMBuildICmp(u, LLVMIntSGE, r, all, ""), wide, "");
    more = LLVMBuildFDiv(u, LLVMBuildSIToFP(u, r, real, ""), LLVMBuildSIToFP(u, all, real, ""), "");
    more = LLVMBuildFPToSI(u, more, wide, "");
    times = LLVMBuildSelect(u, splat(e, cpu_compare(e, LLVMIntSGE, b, cpu_number(e, e->lanes->width))), once, more, "");
    return (Quotient){LLVMBuildAdd(u, splat(e, first.q), times, ""), LLVMBuildSub(u, r, LLVMBuildMul(u, times, all, ""), "")};
}

static LaneIndex divided(CpuCode *e, const TileNode *n, bool rest, const LaneIndex *a, const LaneIndex *b)
{
    LaneCode *c = e->lanes;
    int64_t width = c->width;
    LLVMValueRef by = b->lanes || !is_constant(b->step, 0) ? NULL : strip_positive(e, b->base);
    Quotient y;

    if (by && !a->lanes && is_constant(a->step, 0)) {
        y = strip_floor_div(e, a->base, by);
        return (LaneIndex){rest ? y.r : y.q, cpu_number(e, 0), NULL, rest ? multiple_of_both(a->multiple, b->multiple) : 1};
    }
    if (by && !a->lanes && is_constant(a->step, 1)) {
        if (LLVMIsAConstantInt(by) && LLVMConstIntGetSExtValue(by) % width == 0 && a->multiple % width == 0) {
            y = strip_floor_div(e, a->base, by);
            return (LaneIndex){rest ? y.r : y.q, cpu_number(e, rest), NULL, rest ? multiple_of_both(a->multiple, b->multiple) : 1};
        }
        y = c->whole[n->id] ? (Quotient){c->whole[n->id], c->rest[n->id]} : strip_floor_div(e, a->base, by);
        if (c->straight && c->whole[n->id])
            return (LaneIndex){rest ? y.r : y.q, cpu_number(e, rest), NULL, 1};
        y = neighbours_over(e, y, by);
    } else {
        y = strip_floor_div(e, index_lanes(e, a), strip_positive(e, index_lanes(e, b)));
    }
    return (LaneIndex){.lanes = rest ? y.r : y.q};
}

LaneIndex strip_divided(CpuCode *e, const TileNode *n, const LaneIndex *a, const LaneIndex *b) { return divided(e, n, n->op == TOP_imod, a, b); }

/* ---- at the strip's start ---- */

enum { EARLY_DEPTH = 12 };

/* Is a node's value there before the run? */
static bool is_early(const CpuCode *e, const TileNode *n)
{
    const TileNode *maker = n->op == TILE_PARAM ? n->block->owner : n;

    return !maker || !e->lanes->pending[maker->id];
}

/* An index as base and step from what is there before the run. */
static bool early(CpuCode *e, TileRef v, int depth, LaneIndex *out)
{
    const TileNode *n = v.node;
    LaneIndex a, b;

    if (tile_type(v)->kind != TILE_INDEX || depth > EARLY_DEPTH)
        return false;
    if (n->op == TOP_lane) {
        *out = (LaneIndex){e->lanes->first, cpu_number(e, 1), NULL, e->lanes->width};
        return true;
    }
    if (!cpu_varies(e, v) && (is_early(e, n) || n->op == TOP_index || n->op == TOP_size || n->op == TOP_group)) {
        *out = (LaneIndex){is_early(e, n) ? cpu_val(e, v)->x : cpu_index(e, n), cpu_number(e, 0), NULL, index_multiple(v, 0)};
        return true;
    }
    if (e->lanes->whole[n->id]) {                           /* where none has a step, it is this */
        bool rest = n->op == TOP_to_index ? n->in[0].node->attr->op == OP_mod : n->op == TOP_imod;
        *out = (LaneIndex){rest ? e->lanes->rest[n->id] : e->lanes->whole[n->id], cpu_number(e, rest), NULL, 1};
        return true;
    }
    if ((n->op != TOP_iadd && n->op != TOP_isub && n->op != TOP_imul) || !early(e, n->in[0], depth + 1, &a) || !early(e, n->in[1], depth + 1, &b))
        return false;
    return strip_straight(e, (TileOp)n->op, &a, &b, out);
}

/* The operands of a division of indices; through int64 elements, as programs write it, too. */
static bool divides(const TileNode *n, TileRef *a, TileRef *b)
{
    const TileNode *m = n->op == TOP_to_index ? n->in[0].node : n;

    if (n->op == TOP_idiv || n->op == TOP_imod) {
        *a = n->in[0];
        *b = n->in[1];
        return true;
    }
    if (m->op != TOP_map || (m->attr->op != OP_floordiv && m->attr->op != OP_mod) || m->type[0].dtype != DT_int64)
        return false;
    for (int i = 0; i < 2; i++)
        if (m->in[i].node->op != TOP_to_tile || m->in[i].node->type[0].dtype != DT_int64)
            return false;
    *a = m->in[0].node->in[0];
    *b = m->in[1].node->in[0];
    return true;
}

bool strip_waits(const TileNode *n)
{
    const TileNode *to = n->next;
    TileRef a, b;

    return n->op == TOP_map && n->nuse == 1 && to && to->op == TOP_to_index && to->in[0].node == n && divides(to, &a, &b);
}

/* A division whose quotient and rest of the first lane are made now; *none: and none so far has a step in the strip. */
static void begin_division(CpuCode *e, const TileNode *n, LLVMValueRef *none)
{
    LaneCode *c = e->lanes;
    TileRef up, down;
    LaneIndex a, b;
    LLVMValueRef by, fits;
    Quotient y;

    if (c->whole[n->id] || !divides(n, &up, &down) || !early(e, up, 0, &a) || !early(e, down, 0, &b) || !is_constant(a.step, 1) ||
        !is_constant(b.step, 0))
        return;
    by = strip_positive(e, b.base);
    if (LLVMIsAConstantInt(by) && LLVMConstIntGetSExtValue(by) < c->width)
        return;                                             /* a step in every strip, which is no reason to take the others for stepping */
    if (n->op != TOP_to_index && LLVMIsAConstantInt(by) && LLVMConstIntGetSExtValue(by) % c->width == 0 && a.multiple % c->width == 0)
        return;
    y = strip_floor_div(e, a.base, by);
    fits = cpu_compare(e, LLVMIntSLE, cpu_op(e, LLVMAdd, y.r, cpu_number(e, c->width)), by);
    if (by != b.base)
        fits = LLVMBuildAnd(e->u->builder, fits, cpu_compare(e, LLVMIntSGT, b.base, cpu_number(e, 0)), "");
    c->whole[n->id] = y.q;
    c->rest[n->id] = y.r;
    *none = mask_and(e, *none, fits);
}

/* The lanes of elements divided as elements are, which for divisors that are not above 0 is something else. */
static LLVMValueRef as_elements(CpuCode *e, OpId op, LLVMValueRef a, LLVMValueRef b, int width)
{
    return formula_emit(e->u, op, DT_int64, (LLVMValueRef[]){a, b}, 2, width);
}

/* All above 0 in the strip at hand, an i1. */
static LLVMValueRef all_positive(CpuCode *e, const LaneIndex *b)
{
    LLVMBuilderRef u = e->u->builder;

    if (!b->lanes && is_constant(b->step, 0))
        return cpu_compare(e, LLVMIntSGT, b->base, cpu_number(e, 0));
    return LLVMBuildNot(u, mask_any(e, LLVMBuildICmp(u, LLVMIntSLE, index_lanes(e, b), LLVMConstNull(i64_lanes(e)), "")), "");
}

/* Where divisors are above 0, as indices are divided; else as elements. */
static LLVMValueRef either_way(CpuCode *e, const TileNode *n, const LaneIndex *a, const LaneIndex *b)
{
    LLVMBuilderRef u = e->u->builder;
    LLVMBasicBlockRef way[2] = {cpu_block(e), cpu_block(e)}, done = cpu_block(e), end[2];
    OpId op = (OpId)n->in[0].node->attr->op;
    LLVMValueRef x[2], y;
    LaneIndex quick;

    LLVMBuildCondBr(u, all_positive(e, b), way[0], way[1]);
    LLVMPositionBuilderAtEnd(u, way[0]);
    quick = divided(e, n, op == OP_mod, a, b);
    x[0] = index_lanes(e, &quick);
    end[0] = LLVMGetInsertBlock(u);
    LLVMBuildBr(u, done);
    LLVMPositionBuilderAtEnd(u, way[1]);
    x[1] = as_elements(e, op, index_lanes(e, a), index_lanes(e, b), e->lanes->width);
    end[1] = LLVMGetInsertBlock(u);
    LLVMBuildBr(u, done);
    LLVMPositionBuilderAtEnd(u, done);
    y = LLVMBuildPhi(u, i64_lanes(e), "");
    LLVMAddIncoming(y, x, end, 2);
    return y;
}

static bool is_there(const LaneIndex *x) { return x->base || x->lanes; }

bool strip_quotient(CpuCode *e, const TileNode *n, LaneIndex *out)
{
    LaneCode *c = e->lanes;
    TileRef up, down;
    LaneIndex a, b;
    bool rest;

    if (!divides(n, &up, &down))
        return false;
    rest = n->in[0].node->attr->op == OP_mod;
    a = strip_index(e, up);
    b = strip_index(e, down);
    if (!is_there(&a) || !is_there(&b))
        return false;
    if (c->straight && c->whole[n->id])
        *out = (LaneIndex){rest ? c->rest[n->id] : c->whole[n->id], cpu_number(e, rest), NULL, 1};
    else if (!a.lanes && !b.lanes && is_constant(a.step, 0) && is_constant(b.step, 0))
        *out = (LaneIndex){as_elements(e, (OpId)n->in[0].node->attr->op, a.base, b.base, 1), cpu_number(e, 0), NULL, 1};
    else
        *out = (LaneIndex){.lanes = either_way(e, n, &a, &b)};
    return true;
}

/* Divisions in what a node is computed from again, in it, and in its blocks: inner ones first. */
static void look(CpuCode *e, const TileNode *n, int depth, LLVMValueRef *none)
{
    for (int i = 0; i < n->nin && depth < EARLY_DEPTH; i++)
        if (!e->lanes->pending[n->in[i].node->id] && e->lanes->cost[n->in[i].node->id])
            look(e, n->in[i].node, depth + 1, none);
    if ((n->op == TOP_idiv || n->op == TOP_imod || n->op == TOP_to_index) && cpu_varies(e, (TileRef){(TileNode *)n, 0}))
        begin_division(e, n, none);
    for (int r = 0; r < 2; r++)
        for (const TileNode *m = n->region[r] ? n->region[r]->first : NULL; m; m = m->next)
            look(e, m, depth, none);
}

LLVMValueRef strip_divisions(CpuCode *e)
{
    LLVMValueRef none = NULL;

    for (int i = 0; i < e->lanes->run.n; i++)
        look(e, e->lanes->run.at[i], 0, &none);
    return none;
}

void strip_divisions_end(CpuCode *e)
{
    memset(e->lanes->whole, 0, sizeof *e->lanes->whole * (e->k->nnodes + 1));
    e->lanes->straight = false;
}
