/*
 * Lanes together: sums over runs of lanes, shuffles, matches.
 *
 * Operands are rows. Halves of a run join, then quarters: in memory while they
 * are long, in a vector at last.  Where lanes may be missing each has a flag,
 * and who is not there is passed over.
 */
#include "codegen/cpu_lane.h"

enum { IN_VECTOR = 32 };                /* lanes of a run that join in a register */

static TileRef out_of(const TileNode *n, int i) { return (TileRef){(TileNode *)n, i}; }

/* Lanes of a run, and the power of two at or above it. */
static int run_of(const CpuCode *e, const TileNode *n) { return n->attr->i && n->attr->i < e->lanes->count ? (int)n->attr->i : e->lanes->count; }

static int power_above(int n)
{
    int p = 1;

    while (p < n)
        p *= 2;
    return p;
}

/* ---- sums ---- */

typedef struct Half { LLVMValueRef x, there; } Half;    /* there: i1s, or NULL: all are */

static Half joined(CpuCode *e, const TileNode *n, Half a, Half b, int width)
{
    LLVMValueRef y = cpu_step(e, tile_step_op((OpId)n->attr->op), (DType)n->type[0].dtype, a.x, b.x, width);

    if (!a.there)
        return (Half){y, NULL};
    y = cpu_choose(e, b.there, cpu_choose(e, a.there, y, b.x), a.x);
    return (Half){y, LLVMBuildOr(e->u->builder, a.there, b.there, "")};
}

static Half half_at(CpuCode *e, DType dt, LLVMValueRef x, LLVMValueRef there, LLVMValueRef at, int width)
{
    e->width = width;
    return (Half){cpu_load_flat(e, dt, x, at, 1), there ? lane_mask(e->u, cpu_load_flat(e, DT_bool, there, at, 1)) : NULL};
}

/* Copies to work on, with room for a whole power of two; lanes behind the last are not there. */
static void copy_row(CpuCode *e, const TileNode *n, LLVMValueRef row, LLVMValueRef x, LLVMValueRef there)
{
    DType dt = (DType)n->type[0].dtype;
    CpuLoop l = strip_begin(e);
    LLVMTypeRef bits = LLVMVectorType(LLVMInt1TypeInContext(e->u->context), (unsigned)e->width);

    cpu_store_flat(e, dt, x, l.i, cpu_load_flat(e, dt, row, l.i, 1), NULL);
    if (there)
        cpu_store_flat(e, DT_bool, there, l.i, lane_bools(e->u, e->lanes->mask ? e->lanes->mask : LLVMConstAllOnes(bits), e->width), NULL);
    strip_end(e, &l);
}

/* The sum of the run from a lane on. */
static LLVMValueRef sum_of_run(CpuCode *e, const TileNode *n, LLVMValueRef x, LLVMValueRef there, LLVMValueRef from, int run)
{
    DType dt = (DType)n->type[0].dtype;
    int half = power_above(run) / 2;
    Half all;

    for (; half >= IN_VECTOR; half /= 2) {
        CpuLoop l = cpu_loop(e, cpu_number(e, 0), cpu_number(e, half), cpu_number(e, e->lanes->width));
        LLVMValueRef at = cpu_op(e, LLVMAdd, from, l.i);
        int width = e->lanes->width;
        all = joined(e, n, half_at(e, dt, x, there, at, width), half_at(e, dt, x, there, cpu_op(e, LLVMAdd, at, cpu_number(e, half)), width), width);
        cpu_store_flat(e, dt, x, at, all.x, NULL);
        if (there)
            cpu_store_flat(e, DT_bool, there, at, lane_bools(e->u, all.there, width), NULL);
        cpu_loop_end(e, &l);
    }
    all = half_at(e, dt, x, there, from, 2 * half);
    for (; half; half /= 2) {
        Half a = {cpu_part_of(e, all.x, 0, half), there ? cpu_part_of(e, all.there, 0, half) : NULL};
        Half b = {cpu_part_of(e, all.x, half, half), there ? cpu_part_of(e, all.there, half, half) : NULL};
        all = joined(e, n, a, b, half);
    }
    e->width = 1;
    return all.x;
}

static void spread(CpuCode *e, const TileNode *n, LLVMValueRef row, LLVMValueRef from, int run, LLVMValueRef x)
{
    int width = run < e->lanes->width ? run : e->lanes->width;
    CpuLoop l = cpu_loop(e, cpu_number(e, 0), cpu_number(e, run), cpu_number(e, width));

    e->width = width;
    cpu_store_flat(e, (DType)n->type[0].dtype, row, cpu_op(e, LLVMAdd, from, l.i), lane_splat(e->u, x, width), NULL);
    cpu_loop_end(e, &l);
}

static void lane_sum(CpuCode *e, const TileNode *n)
{
    LaneCode *c = e->lanes;
    int run = run_of(e, n), most = power_above(run), room = (c->count / most + 1) * most + IN_VECTOR;
    DType dt = (DType)n->type[0].dtype;
    LLVMValueRef row = row_of(e, n->in[0]), x = cpu_buffer(e, (int64_t)room * (int64_t)raw_size(lane_dtype(dt))), there = NULL, y;
    TileRef out = out_of(n, 0);

    if (c->here || c->count % most) {
        there = cpu_buffer(e, room);
        LLVMBuildMemSet(e->u->builder, there, LLVMConstNull(LLVMInt8TypeInContext(e->u->context)), cpu_number(e, room), 1);
    }
    copy_row(e, n, row, x, there);
    if (!cpu_varies(e, out)) {
        cpu_val(e, out)->x = sum_of_run(e, n, x, there, cpu_number(e, 0), run);
        return;
    }
    LLVMValueRef *to = &c->row[value_number(e, out)];
    *to = *to ? *to : row_new(e, &n->type[0]);
    CpuLoop l = cpu_loop(e, cpu_number(e, 0), cpu_number(e, c->count), cpu_number(e, run));
    y = sum_of_run(e, n, x, there, l.i, run);
    spread(e, n, *to, l.i, run, y);
    cpu_loop_end(e, &l);
    e->width = 1;
}

/* ---- shuffles and matches ---- */

static LLVMValueRef splat_number(CpuCode *e, int64_t v) { return lane_splat(e->u, cpu_number(e, v), e->lanes->width); }

/* a modulo a number, not negative. */
static LLVMValueRef modulo(CpuCode *e, LLVMValueRef a, int by)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMValueRef r;

    if (power_above(by) == by)
        return LLVMBuildAnd(b, a, splat_number(e, by - 1), "");
    r = LLVMBuildSRem(b, a, splat_number(e, by), "");
    return cpu_choose(e, LLVMBuildICmp(b, LLVMIntSLT, r, splat_number(e, 0), ""), LLVMBuildAdd(b, r, splat_number(e, by), ""), r);
}

/* Elements of a row by lane, all of them within it. */
static LLVMValueRef gathered(CpuCode *e, DType dt, LLVMValueRef row, LLVMValueRef at)
{
    DType lane = lane_dtype(dt);
    LLVMTypeRef type = lane_type(e->u, lane, 1), over[2];
    LLVMValueRef in[4] = {LLVMBuildGEP2(e->u->builder, type, row, &at, 1, "")};

    in[1] = LLVMConstInt(LLVMInt32TypeInContext(e->u->context), raw_size(lane), false);
    over[0] = lane_type(e->u, lane, e->lanes->width);
    over[1] = LLVMTypeOf(in[0]);
    in[2] = LLVMConstAllOnes(LLVMVectorType(LLVMInt1TypeInContext(e->u->context), (unsigned)e->lanes->width));
    in[3] = LLVMConstNull(over[0]);
    return cpu_intrinsic(e, "llvm.masked.gather", over, 2, in, 4);
}

LLVMValueRef strip_shuffle(CpuCode *e, const TileNode *n)
{
    LaneCode *c = e->lanes;
    LLVMBuilderRef b = e->u->builder;
    LaneIndex own = {c->first, cpu_number(e, 1), NULL, 1};
    LLVMValueRef lane = index_lanes(e, &own), from, there;
    int run = n->attr->i ? (int)n->attr->i : c->count;

    if (!cpu_varies(e, n->in[0]))
        return strip_wide(e, n->in[0]);
    from = modulo(e, strip_wide(e, n->in[1]), run);
    if (run < c->count)
        from = LLVMBuildAdd(b, from, LLVMBuildSub(b, lane, modulo(e, lane, run), ""), "");
    there = LLVMBuildICmp(b, LLVMIntSLT, from, splat_number(e, c->count), "");
    from = cpu_choose(e, there, from, lane);
    if (c->here)
        from = cpu_choose(e, lane_mask(e->u, gathered(e, DT_bool, c->here, from)), from, lane);
    return gathered(e, row_dtype(tile_type(n->in[0])), c->row[value_number(e, n->in[0])], from);
}

/* One by one: rare enough. */
static void match(CpuCode *e, const TileNode *n)
{
    LaneCode *c = e->lanes;
    LLVMBuilderRef b = e->u->builder;
    DType dt = lane_dtype(row_dtype(tile_type(n->in[0])));
    LLVMTypeRef bits = LLVMIntTypeInContext(e->u->context, 8 * (unsigned)raw_size(dt)), i64 = LLVMInt64TypeInContext(e->u->context);
    LLVMValueRef row = row_of(e, n->in[0]), *to = &c->row[value_number(e, out_of(n, 0))], found = llvm_slot(e->u, i64), same, at, mine, other;
    CpuLoop lanes, run;

    *to = *to ? *to : row_new(e, &n->type[0]);
    lanes = cpu_loop(e, cpu_number(e, 0), cpu_number(e, c->count), cpu_number(e, 1));
    LLVMBuildStore(b, cpu_number(e, 0), found);
    mine = LLVMBuildLoad2(b, bits, LLVMBuildGEP2(b, bits, row, &lanes.i, 1, ""), "");
    run = cpu_loop(e, cpu_number(e, 0), cpu_number(e, n->attr->i), cpu_number(e, 1));
    at = LLVMBuildAdd(b, LLVMBuildAnd(b, lanes.i, cpu_number(e, -n->attr->i), ""), run.i, "");
    other = LLVMBuildLoad2(b, bits, LLVMBuildGEP2(b, bits, row, &at, 1, ""), "");
    same = LLVMBuildAnd(b, cpu_compare(e, LLVMIntEQ, mine, other), cpu_compare(e, LLVMIntSLT, at, cpu_number(e, c->count)), "");
    e->width = 1;
    if (c->here)
        same = LLVMBuildAnd(b, same, lane_mask(e->u, cpu_load_flat(e, DT_bool, c->here, at, 1)), "");
    same = LLVMBuildShl(b, LLVMBuildZExt(b, same, i64, ""), run.i, "");
    LLVMBuildStore(b, LLVMBuildOr(b, LLVMBuildLoad2(b, i64, found, ""), same, ""), found);
    cpu_loop_end(e, &run);
    cpu_store_flat(e, DT_int64, *to, lanes.i, LLVMBuildLoad2(b, i64, found, ""), NULL);
    cpu_loop_end(e, &lanes);
}

void lanes_together(CpuCode *e, const TileNode *n)
{
    if (n->op == TOP_lane_reduce) {
        lane_sum(e, n);
    } else if (n->op == TOP_match) {
        match(e, n);
    } else {                                    /* one lane's, of a group that is here as a whole */
        LLVMValueRef row = row_of(e, n->in[0]), at = n->op == TOP_uniform ? cpu_number(e, 0) : cpu_val(e, n->in[1])->x;
        e->width = 1;
        if (n->op == TOP_shuffle) {
            at = LLVMBuildSRem(e->u->builder, at, cpu_number(e, e->lanes->count), "");
            at = cpu_choose(e, cpu_compare(e, LLVMIntSLT, at, cpu_number(e, 0)), cpu_op(e, LLVMAdd, at, cpu_number(e, e->lanes->count)), at);
        }
        cpu_val(e, out_of(n, 0))->x = cpu_load_flat(e, row_dtype(&n->type[0]), row, at, 1);
    }
}
