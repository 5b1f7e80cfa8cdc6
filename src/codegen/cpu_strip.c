/*
 * A node of a run in the strip at hand: indices, scalars, and each lane's
 * accesses.
 *
 * An index is kept as base + lane * step as long as it is that, so that
 * accesses of neighbours are vectors and what a strip shares is done once.
 * Lanes that are not here compute along, on numbers that mean nothing: they
 * store nothing, and nothing that they do traps.
 */
#include "codegen/cpu_lane.h"

#include <stdlib.h>

enum { APART_MOST = 8 };                /* elements from lane to lane: up to here loading all that lies between costs less than to gather */

/* ---- small things ---- */

bool is_constant(LLVMValueRef x, int64_t v) { return LLVMIsAConstantInt(x) && LLVMConstIntGetSExtValue(x) == v; }

LLVMValueRef mask_and(CpuCode *e, LLVMValueRef a, LLVMValueRef b)
{
    return !a ? b : !b ? a : LLVMBuildAnd(e->u->builder, a, b, "");
}

LLVMValueRef mask_any(CpuCode *e, LLVMValueRef mask)
{
    LLVMTypeRef t = LLVMTypeOf(mask);

    return cpu_intrinsic(e, "llvm.vector.reduce.or", &t, 1, &mask, 1);
}

static LLVMValueRef splat(CpuCode *e, LLVMValueRef x) { return lane_splat(e->u, x, e->lanes->width); }

static bool is_wide(LLVMValueRef x) { return LLVMGetTypeKind(LLVMTypeOf(x)) == LLVMVectorTypeKind; }

static TileRef out_of(const TileNode *n, int i) { return (TileRef){(TileNode *)n, i}; }

/* ---- multiples ---- */

int64_t multiple_of_both(int64_t a, int64_t b)
{
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a < 0 ? -a : a;
}

static int64_t multiple_of_product(int64_t a, int64_t b)
{
    int64_t y;

    return __builtin_mul_overflow(a, b, &y) || y == INT64_MIN ? 1 : llabs(y);
}

int64_t index_multiple(TileRef v, int depth)
{
    const TileNode *n = v.node;

    if (n->op == TOP_index)
        return n->attr->i == INT64_MIN ? 1 : llabs(n->attr->i);
    if (n->op == TILE_PARAM && n->block->owner && n->block->owner->op == TOP_for && n == n->block->params.at[0] && depth < 8)
        return multiple_of_both(index_multiple(n->block->owner->in[0], depth + 1), index_multiple(n->block->owner->in[2], depth + 1));
    switch (depth < 8 ? n->op : TOP_size) {
    case TOP_imul: return multiple_of_product(index_multiple(n->in[0], depth + 1), index_multiple(n->in[1], depth + 1));
    case TOP_iadd: case TOP_isub: case TOP_imin: case TOP_imax:
        return multiple_of_both(index_multiple(n->in[0], depth + 1), index_multiple(n->in[1], depth + 1));
    default: return 1;
    }
}

/* ---- ranges ---- */

typedef struct Range { int64_t lo, hi; } Range;         /* both within */

static const int64_t range_most = (int64_t)1 << 40;     /* sums and products of what is below do not overflow, in a few steps */

static bool range_is(Range *out, int64_t lo, int64_t hi)
{
    *out = (Range){lo, hi};
    return lo <= hi && lo >= -range_most && hi <= range_most;
}

static bool range_of(CpuCode *e, TileRef v, int depth, Range *out);

/* Of corners a op b: sums, differences, products, quotients grow along each operand. */
static bool range_of_corners(CpuCode *e, const TileNode *n, int depth, Range *out)
{
    Range a, b;

    if (!range_of(e, n->in[0], depth + 1, &a) || !range_of(e, n->in[1], depth + 1, &b))
        return false;
    switch (n->op) {
    case TOP_iadd: return range_is(out, a.lo + b.lo, a.hi + b.hi);
    case TOP_isub: return range_is(out, a.lo - b.hi, a.hi - b.lo);
    case TOP_imin: return range_is(out, a.lo < b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi);
    case TOP_imax: return range_is(out, a.lo > b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi);
    case TOP_idiv: return a.lo >= 0 && b.lo > 0 && range_is(out, a.lo / b.hi, a.hi / b.lo);
    case TOP_imul: return a.lo >= 0 && b.lo >= 0 && a.hi < INT32_MAX && b.hi < INT32_MAX && range_is(out, a.lo * b.lo, a.hi * b.hi);
    default: return false;
    }
}

/* What an index is at most, though it may be known of one side of a minimum alone. */
static bool most_of(CpuCode *e, TileRef v, int depth, int64_t *hi)
{
    int64_t other;
    Range r;

    if (v.node->op != TOP_imin)
        return range_of(e, v, depth, &r) && (*hi = r.hi, true);
    if (!most_of(e, v.node->in[0], depth + 1, hi))
        return most_of(e, v.node->in[1], depth + 1, hi);
    if (most_of(e, v.node->in[1], depth + 1, &other) && other < *hi)
        *hi = other;
    return true;
}

/*
 * Between which numbers an index is, in all lanes of a strip: also in those that are not here, whose arithmetic is the same. So the
 * lane's number goes to the end of the last strip, and of loops only those count that all lanes go through together.
 */
static bool range_of(CpuCode *e, TileRef v, int depth, Range *out)
{
    const TileNode *n = v.node, *x;
    int width = e->lanes->width;
    Range a, b;

    if (depth > 12)
        return false;
    switch (n->op) {
    case TOP_index: return range_is(out, n->attr->i, n->attr->i);
    case TOP_lane: return range_is(out, 0, (e->k->lanes + width - 1) / width * width - 1);
    case TOP_imod: return range_of(e, n->in[1], depth + 1, &b) && b.lo > 0 && range_is(out, 0, b.hi - 1);
    case TOP_iadd: case TOP_isub: case TOP_imul: case TOP_idiv: case TOP_imin: case TOP_imax: return range_of_corners(e, n, depth, out);
    case TOP_to_index:                                      /* x & 15 */
        x = n->in[0].node;
        for (int i = 0; i < 2 && x->op == TOP_map && x->attr->op == OP_bitand; i++)
            if (x->in[i].node->op == TOP_const && x->in[i].node->attr->i >= 0)
                return range_is(out, 0, x->in[i].node->attr->i);
        return false;
    case TILE_PARAM:
        return n->block->owner && n->block->owner->op == TOP_for && n == n->block->params.at[0] && !cpu_varies(e, v) &&
               range_of(e, n->block->owner->in[0], depth + 1, &a) && most_of(e, n->block->owner->in[1], depth + 1, &b.hi) &&
               range_is(out, a.lo, b.hi - 1);
    default: return false;
    }
}

/* Is the index surely within the axis of a buffer? */
static bool surely_within(CpuCode *e, TileRef index, const TileNode *view, int axis)
{
    Range r;

    return view->op == TOP_alloc && view->in[axis].node->op == TOP_index && range_of(e, index, 0, &r) && r.lo >= 0 &&
           r.hi < view->in[axis].node->attr->i;
}

/* ---- values in the strip ---- */

LaneIndex strip_index(CpuCode *e, TileRef v)
{
    if (!cpu_varies(e, v))
        return (LaneIndex){cpu_val(e, v)->x, cpu_number(e, 0), NULL, index_multiple(v, 0)};
    return e->lanes->index[value_number(e, v)];
}

LLVMValueRef index_lanes(CpuCode *e, const LaneIndex *x)
{
    LLVMValueRef count[LANES_MAX];

    if (x->lanes)
        return x->lanes;
    if (is_constant(x->step, 0))
        return splat(e, x->base);
    for (int i = 0; i < e->lanes->width; i++)
        count[i] = cpu_number(e, i);
    return LLVMBuildAdd(e->u->builder, splat(e, x->base), LLVMBuildMul(e->u->builder, splat(e, x->step),
                        LLVMConstVector(count, (unsigned)e->lanes->width), ""), "");
}

LLVMValueRef strip_wide(CpuCode *e, TileRef v)
{
    LLVMValueRef x = cpu_val(e, v)->x;

    if (tile_type(v)->kind == TILE_INDEX) {
        LaneIndex at = strip_index(e, v);
        return index_lanes(e, &at);
    }
    return is_wide(x) ? x : splat(e, x);
}

LLVMValueRef strip_flag(CpuCode *e, TileRef v)
{
    LLVMValueRef flags = cpu_varies(e, v) ? e->lanes->index[value_number(e, v)].lanes : NULL;

    return flags ? flags : lane_mask(e->u, strip_wide(e, v));
}

static void set_index(CpuCode *e, TileRef v, LaneIndex x)
{
    e->lanes->index[value_number(e, v)] = x;
    vec_push(&e->lanes->bound, v);
}

void strip_set(CpuCode *e, TileRef v, LLVMValueRef lanes)
{
    if (tile_type(v)->kind == TILE_INDEX) {
        set_index(e, v, (LaneIndex){.lanes = lanes});
        return;
    }
    cpu_val(e, v)->x = lanes;
    set_index(e, v, (LaneIndex){0});
}

/* ---- indices ---- */

static LLVMValueRef extreme(CpuCode *e, bool least, LLVMValueRef a, LLVMValueRef b)
{
    LLVMTypeRef t = LLVMTypeOf(a);

    return cpu_intrinsic(e, least ? "llvm.smin" : "llvm.smax", &t, 1, (LLVMValueRef[]){a, b}, 2);
}

bool strip_straight(CpuCode *e, TileOp op, const LaneIndex *a, const LaneIndex *b, LaneIndex *out)
{
    LLVMOpcode code = op == TOP_iadd ? LLVMAdd : LLVMSub;
    bool a_same, b_same;

    if (a->lanes || b->lanes)
        return false;
    a_same = is_constant(a->step, 0);
    b_same = is_constant(b->step, 0);
    if (op != TOP_imul) {
        *out = (LaneIndex){cpu_op(e, code, a->base, b->base), cpu_op(e, code, a->step, b->step), NULL, multiple_of_both(a->multiple, b->multiple)};
        return true;
    }
    if (!a_same && !b_same)
        return false;
    *out = (LaneIndex){cpu_op(e, LLVMMul, a->base, b->base), cpu_op(e, LLVMMul, a_same ? a->base : b->base, a_same ? b->step : a->step), NULL,
                       multiple_of_product(a->multiple, b->multiple)};
    return true;
}

static LaneIndex arithmetic(CpuCode *e, const TileNode *n)
{
    LaneIndex a = strip_index(e, n->in[0]), b = strip_index(e, n->in[1]), y;
    bool straight = !a.lanes && !b.lanes, a_same = straight && is_constant(a.step, 0), b_same = straight && is_constant(b.step, 0);
    LLVMOpcode op = n->op == TOP_iadd ? LLVMAdd : n->op == TOP_isub ? LLVMSub : LLVMMul;

    switch (n->op) {
    case TOP_idiv: case TOP_imod: return strip_divided(e, n, &a, &b);
    case TOP_imin: case TOP_imax:
        if (a_same && b_same)
            return (LaneIndex){extreme(e, n->op == TOP_imin, a.base, b.base), cpu_number(e, 0), NULL, multiple_of_both(a.multiple, b.multiple)};
        return (LaneIndex){.lanes = extreme(e, n->op == TOP_imin, index_lanes(e, &a), index_lanes(e, &b))};
    default:
        if (strip_straight(e, (TileOp)n->op, &a, &b, &y))
            return y;
    }
    return (LaneIndex){.lanes = LLVMBuildBinOp(e->u->builder, op, index_lanes(e, &a), index_lanes(e, &b), "")};
}

static void compare(CpuCode *e, const TileNode *n)
{
    LLVMValueRef is = LLVMBuildICmp(e->u->builder, n->op == TOP_ilt ? LLVMIntSLT : LLVMIntEQ, strip_wide(e, n->in[0]), strip_wide(e, n->in[1]), "");

    strip_set(e, out_of(n, 0), lane_bools(e->u, is, e->lanes->width));
    e->lanes->index[value_number(e, out_of(n, 0))].lanes = is;
}

/* ---- accesses ---- */

typedef struct Access {
    const Val *view;
    DType dtype;
    LaneIndex at;               /* in elements from the base */
    LLVMValueRef one, all;      /* is it inside: of what is the same in the strip, an i1, and of lanes; NULL: yes */
    bool neighbours;
} Access;

static LaneIndex scaled(CpuCode *e, const LaneIndex *x, LLVMValueRef by)
{
    if (x->lanes)
        return (LaneIndex){.lanes = LLVMBuildMul(e->u->builder, x->lanes, splat(e, by), "")};
    return (LaneIndex){cpu_op(e, LLVMMul, x->base, by), cpu_op(e, LLVMMul, x->step, by), NULL, 1};
}

static LaneIndex sum(CpuCode *e, const LaneIndex *a, const LaneIndex *b)
{
    if (!a->lanes && !b->lanes)
        return (LaneIndex){cpu_op(e, LLVMAdd, a->base, b->base), cpu_op(e, LLVMAdd, a->step, b->step), NULL, 1};
    return (LaneIndex){.lanes = LLVMBuildAdd(e->u->builder, index_lanes(e, a), index_lanes(e, b), "")};
}

static Access access(CpuCode *e, const TileNode *n)
{
    const TileType *t = tile_type(n->in[0]);
    Access a = {.view = cpu_val(e, n->in[0]), .dtype = (DType)t->dtype, .at = {cpu_number(e, 0), cpu_number(e, 0), NULL, 1}};

    for (int i = 0; i < t->rank; i++) {
        LaneIndex x = strip_index(e, n->in[1 + i]), part = scaled(e, &x, a.view->stride[i]);
        LLVMValueRef extent = a.view->extent[i];
        a.at = sum(e, &a.at, &part);
        if (surely_within(e, n->in[1 + i], n->in[0].node, i))
            continue;
        if (!x.lanes && is_constant(x.step, 0))
            a.one = mask_and(e, a.one, cpu_compare(e, LLVMIntULT, x.base, extent));
        else
            a.all = mask_and(e, a.all, cpu_compare(e, LLVMIntULT, index_lanes(e, &x), splat(e, extent)));
    }
    if (t->space == SPACE_LOCAL)
        a.at = sum(e, &a.at, &(LaneIndex){e->lanes->first, cpu_number(e, 1), NULL, 1});
    a.neighbours = !a.at.lanes && is_constant(a.at.step, 1);
    return a;
}

static LLVMValueRef place(CpuCode *e, DType dt, LLVMValueRef base, LLVMValueRef at)
{
    return LLVMBuildGEP2(e->u->builder, LLVMArrayType2(LLVMInt8TypeInContext(e->u->context), raw_size(dt)), base, &at, 1, "");
}

static LLVMValueRef alignment(CpuCode *e, DType dt) { return LLVMConstInt(LLVMInt32TypeInContext(e->u->context), raw_size(dt), false); }

static LLVMValueRef spare(CpuCode *e) { return llvm_slot(e->u, LLVMArrayType2(LLVMInt64TypeInContext(e->u->context), 2)); }

/* One element for all lanes of the strip; where it is outside, that of a slot. */
static LLVMValueRef load_one(CpuCode *e, const Access *a, LLVMValueRef fill)
{
    LLVMValueRef at = place(e, a->dtype, a->view->x, a->at.base);

    if (a->one) {
        LLVMValueRef slot = spare(e);
        lanes_store(e->u, a->dtype, slot, cpu_number(e, 0), fill, 1);
        at = cpu_choose(e, a->one, at, slot);
    }
    return lanes_load(e->u, a->dtype, at, cpu_number(e, 0), 1);
}

/* Raw lanes `step` elements apart, all of them there: picked of vectors of all that lies between; the last one ends with the last lane. */
static LLVMValueRef load_apart(CpuCode *e, const Access *a, int64_t step)
{
    int width = e->lanes->width, vectors = step < 0 ? 1 : (int)step;
    int64_t span = llabs(step) * (width - 1) + 1;
    LLVMTypeRef i32 = LLVMInt32TypeInContext(e->u->context);
    LLVMValueRef y = NULL, pick[LANES_MAX];

    for (int m = 0; m < vectors; m++) {
        int64_t from = m < vectors - 1 ? (int64_t)m * width : span - width;
        LLVMValueRef at = cpu_op(e, LLVMAdd, a->at.base, cpu_number(e, step < 0 ? step * (width - 1) : from));
        LLVMValueRef v = lanes_load(e->u, a->dtype, a->view->x, at, width);
        for (int i = 0; i < width; i++) {
            int64_t in = (step < 0 ? -step * (width - 1 - i) : step * i) - from;
            pick[i] = LLVMConstInt(i32, (unsigned long long)(in < 0 ? i : in < width ? (y ? width : 0) + in : 0), false);
        }
        y = LLVMBuildShuffleVector(e->u->builder, y ? y : v, v, LLVMConstVector(pick, (unsigned)width), "");
    }
    return y;
}

/* How far apart lanes are that load_apart is for; 0: they are not. */
static int64_t step_apart(const CpuCode *e, const Access *a, LLVMValueRef inside)
{
    int64_t step = a->at.lanes || !LLVMIsAConstantInt(a->at.step) ? 0 : LLVMConstIntGetSExtValue(a->at.step);

    return !inside && !e->lanes->mask && (step == -1 || (step >= 2 && step <= APART_MOST)) ? step : 0;
}

static void load(CpuCode *e, const TileNode *n)
{
    int width = e->lanes->width;
    int64_t step;
    Access a = access(e, n);
    LLVMValueRef inside = a.all, fill, raw;

    fill = cpu_fill(e, a.dtype, n);
    if (!a.at.lanes && is_constant(a.at.step, 0) && !a.all) {
        raw = splat(e, load_one(e, &a, fill));
    } else if ((step = step_apart(e, &a, a.one ? a.one : a.all))) {
        raw = load_apart(e, &a, step);
    } else {
        LLVMValueRef in[4] = {NULL, alignment(e, a.dtype), NULL, splat(e, fill)};
        LLVMTypeRef over[2] = {LLVMTypeOf(in[3]), NULL};
        inside = a.one ? mask_and(e, inside, splat(e, a.one)) : inside;
        in[2] = a.neighbours ? inside : mask_and(e, inside, e->lanes->mask);
        in[0] = place(e, a.dtype, a.view->x, a.neighbours ? a.at.base : index_lanes(e, &a.at));
        in[2] = in[2] ? in[2] : LLVMConstAllOnes(LLVMVectorType(LLVMInt1TypeInContext(e->u->context), (unsigned)width));
        over[1] = LLVMTypeOf(in[0]);
        raw = a.neighbours && !inside ? lanes_load(e->u, a.dtype, a.view->x, a.at.base, width)
                                      : cpu_intrinsic(e, a.neighbours ? "llvm.masked.load" : "llvm.masked.gather", over, 2, in, 4);
    }
    strip_set(e, out_of(n, 0), lanes_of_raw(e->u, a.dtype, raw, width));
}

/* The lanes that are here and inside; NULL: all. */
static LLVMValueRef taking_part(CpuCode *e, const Access *a)
{
    LLVMValueRef mask = mask_and(e, a->all, e->lanes->mask);

    return a->one ? mask_and(e, mask, splat(e, a->one)) : mask;
}

static void store(CpuCode *e, const TileNode *n)
{
    TileRef v = n->in[n->nin - 1];
    int width = e->lanes->width;
    Access a = access(e, n);
    LLVMValueRef mask = taking_part(e, &a), at, raw;

    if (!a.at.lanes && is_constant(a.at.step, 0) && !cpu_varies(e, v)) {
        at = place(e, a.dtype, a.view->x, a.at.base);
        at = mask ? cpu_choose(e, mask_any(e, mask), at, spare(e)) : at;
        lanes_store(e->u, a.dtype, at, cpu_number(e, 0), lanes_to_raw(e->u, a.dtype, cpu_val(e, v)->x, 1), 1);
        return;
    }
    raw = lanes_to_raw(e->u, a.dtype, strip_wide(e, v), width);
    if (a.neighbours && !mask) {
        lanes_store(e->u, a.dtype, a.view->x, a.at.base, raw, width);
        return;
    }
    mask = mask ? mask : LLVMConstAllOnes(LLVMVectorType(LLVMInt1TypeInContext(e->u->context), (unsigned)width));
    at = place(e, a.dtype, a.view->x, a.neighbours ? a.at.base : index_lanes(e, &a.at));
    cpu_intrinsic(e, a.neighbours ? "llvm.masked.store" : "llvm.masked.scatter", (LLVMTypeRef[]){LLVMTypeOf(raw), LLVMTypeOf(at)}, 2,
                  (LLVMValueRef[]){raw, at, alignment(e, a.dtype), mask}, 4);
}

/* Does nobody else update it meanwhile? What a group has is one thread's, and so is a launch whose order shows. */
static bool is_alone(const CpuCode *e, const TileNode *n) { return tile_type(n->in[0])->space != SPACE_GLOBAL || tile_in_turn(e->k); }

/* Neighbours, each its own element: all at once. */
static void update_neighbours(CpuCode *e, const TileNode *n, const Access *a, LLVMValueRef mask)
{
    int width = e->lanes->width;
    LLVMValueRef at = place(e, a->dtype, a->view->x, a->at.base), raw, lanes;
    LLVMTypeRef over[2] = {NULL, LLVMTypeOf(at)};

    mask = mask ? mask : LLVMConstAllOnes(LLVMVectorType(LLVMInt1TypeInContext(e->u->context), (unsigned)width));
    raw = splat(e, cpu_fill(e, a->dtype, n));
    over[0] = LLVMTypeOf(raw);
    raw = cpu_intrinsic(e, "llvm.masked.load", over, 2, (LLVMValueRef[]){at, alignment(e, a->dtype), mask, raw}, 4);
    lanes = lanes_of_raw(e->u, a->dtype, raw, width);
    lanes = formula_emit(e->u, tile_step_op((OpId)n->attr->op), a->dtype, (LLVMValueRef[]){lanes, strip_wide(e, n->in[n->nin - 1])}, 2, width);
    raw = lanes_to_raw(e->u, a->dtype, lanes, width);
    cpu_intrinsic(e, "llvm.masked.store", over, 2, (LLVMValueRef[]){raw, at, alignment(e, a->dtype), mask}, 4);
}

/* One element that is nobody else's: what was there. */
static LLVMValueRef update_alone(CpuCode *e, const TileNode *n, DType dt, LLVMValueRef at, LLVMValueRef lane, LLVMValueRef expected)
{
    OpId step = tile_update_step((OpId)n->attr->op);
    LLVMValueRef raw = lanes_load(e->u, dt, at, cpu_number(e, 0), 1), old = lanes_of_raw(e->u, dt, raw, 1), next;
    LLVMTypeRef bits = LLVMIntTypeInContext(e->u->context, 8 * (unsigned)raw_size(dt));

    next = lanes_to_raw(e->u, dt, step == OP_COUNT ? lane : formula_emit(e->u, step, dt, (LLVMValueRef[]){old, lane}, 2, 1), 1);
    if (expected) {
        expected = LLVMBuildBitCast(e->u->builder, lanes_to_raw(e->u, dt, expected, 1), bits, "");
        next = cpu_choose(e, cpu_compare(e, LLVMIntEQ, LLVMBuildBitCast(e->u->builder, raw, bits, ""), expected), next, raw);
    }
    lanes_store(e->u, dt, at, cpu_number(e, 0), next, 1);
    return old;
}

/* Lanes in memory, once, from where each is taken in its turn; NULL stays. */
static LLVMValueRef laid_out(CpuCode *e, LLVMValueRef lanes)
{
    LLVMValueRef slot = lanes ? llvm_slot(e->u, LLVMTypeOf(lanes)) : NULL;

    if (lanes)
        LLVMBuildStore(e->u->builder, lanes, slot);
    return slot;
}

static LLVMValueRef lane_of(CpuCode *e, LLVMValueRef slot, LLVMValueRef lanes, LLVMValueRef i)
{
    LLVMTypeRef t = lanes ? LLVMGetElementType(LLVMTypeOf(lanes)) : NULL;

    return lanes ? LLVMBuildLoad2(e->u->builder, t, LLVMBuildGEP2(e->u->builder, t, slot, &i, 1, ""), "") : NULL;
}

/* Bit i of the mask. */
static LLVMValueRef is_there(CpuCode *e, LLVMValueRef mask, LLVMValueRef i)
{
    LLVMTypeRef bits = LLVMIntTypeInContext(e->u->context, (unsigned)e->lanes->width), flag = LLVMInt1TypeInContext(e->u->context);
    LLVMBuilderRef b = e->u->builder;

    if (!mask)
        return LLVMConstInt(flag, 1, false);
    mask = LLVMBuildZExt(b, LLVMBuildBitCast(b, mask, bits, ""), LLVMInt64TypeInContext(e->u->context), "");
    return LLVMBuildTrunc(b, LLVMBuildLShr(b, mask, i, ""), flag, "");
}

/* Lane after lane, but for neighbours of whom nobody meets another. */
static void atomic(CpuCode *e, const TileNode *n)
{
    int width = e->lanes->width;
    Access a = access(e, n);
    LLVMValueRef mask = taking_part(e, &a), index, values, expected, at, old, taken = NULL, slot[3];
    bool alone = is_alone(e, n);
    LLVMBasicBlockRef take, next;
    LLVMBuilderRef b = e->u->builder;
    CpuLoop l;

    if (alone && a.neighbours && n->op == TOP_atomic) {
        update_neighbours(e, n, &a, mask);
        return;
    }
    index = index_lanes(e, &a.at);
    values = strip_wide(e, n->in[n->nin - 1]);
    expected = cpu_expected(e, n, strip_wide);
    slot[0] = laid_out(e, index);
    slot[1] = laid_out(e, values);
    slot[2] = laid_out(e, expected);
    if (n->op == TOP_update)
        taken = laid_out(e, LLVMConstNull(LLVMTypeOf(values)));
    take = cpu_block(e);
    next = cpu_block(e);
    l = cpu_loop(e, cpu_number(e, 0), cpu_number(e, width), cpu_number(e, 1));
    LLVMBuildCondBr(b, is_there(e, mask, l.i), take, next);
    LLVMPositionBuilderAtEnd(b, take);
    at = place(e, a.dtype, a.view->x, lane_of(e, slot[0], index, l.i));
    old = (alone ? update_alone : cpu_update)(e, n, a.dtype, at, lane_of(e, slot[1], values, l.i), lane_of(e, slot[2], expected, l.i));
    if (taken)
        LLVMBuildStore(b, old, LLVMBuildGEP2(b, LLVMTypeOf(old), taken, &l.i, 1, ""));
    LLVMBuildBr(b, next);
    LLVMPositionBuilderAtEnd(b, next);
    cpu_loop_end(e, &l);
    if (taken)
        strip_set(e, out_of(n, 0), LLVMBuildLoad2(b, LLVMTypeOf(values), taken, ""));
}

/* ---- nodes ---- */

/* What is the same in all lanes, as elsewhere. */
static void same_for_all(CpuCode *e, const TileNode *n)
{
    cpu_val(e, out_of(n, 0))->x = n->type[0].kind == TILE_INDEX ? cpu_index(e, n) : cpu_scalar(e, n);
    e->width = e->lanes->width;
    e->known.n = 0;
}

void strip_node(CpuCode *e, const TileNode *n)
{
    int width = e->lanes->width;
    DType dt = n->nout ? (DType)n->type[0].dtype : DT_f32;
    TileRef y = out_of(n, 0);

    e->width = width;
    if (n->op == TOP_for || n->op == TOP_if || n->op == TOP_while) {
        strip_control(e, n);
        return;
    }
    if (n->nout && !cpu_varies(e, y)) {
        same_for_all(e, n);
        return;
    }
    switch (n->op) {
    case TOP_lane: set_index(e, y, (LaneIndex){e->lanes->first, cpu_number(e, 1), NULL, width}); break;
    case TOP_ilt: case TOP_ieq: compare(e, n); break;
    case TOP_to_index: {
        DType from = (DType)tile_type(n->in[0])->dtype;
        LaneIndex quotient;
        if (strip_quotient(e, n, &quotient)) {
            set_index(e, y, quotient);
            break;
        }
        if (strip_waits(n->in[0].node))
            strip_set(e, n->in[0], cpu_map_lanes(e, n->in[0].node));
        strip_set(e, y, lanes_convert(e->u, DT_int64, from, NULL, lanes_to_raw(e->u, from, strip_wide(e, n->in[0]), width), NULL, NULL, width));
        break;
    }
    case TOP_to_tile:
        strip_set(e, y, lanes_of_raw(e->u, dt, lanes_convert(e->u, dt, DT_int64, NULL, strip_wide(e, n->in[0]), NULL, NULL, width), width));
        break;
    case TOP_splat: case TOP_reshape: case TOP_permute: strip_set(e, y, strip_wide(e, n->in[0])); break;
    case TOP_map:
        if (!strip_waits(n))
            strip_set(e, y, cpu_map_lanes(e, n));
        break;
    case TOP_load: load(e, n); break;
    case TOP_prefetch: break;
    case TOP_store: store(e, n); break;
    case TOP_atomic: case TOP_update: atomic(e, n); break;
    case TOP_shuffle: strip_set(e, y, strip_shuffle(e, n)); break;
    default: set_index(e, y, arithmetic(e, n));
    }
}
