/*
 * What the threads of a group do together: sums over runs of lanes, shuffles, and values of one lane that all get.
 *
 * Runs within a warp go by its exchanges of registers, longer ones through a row of shared memory.
 */
#include "codegen/gpu_impl.h"

static TileRef out_of(const TileNode *n) { return (TileRef){(TileNode *)n, 0}; }

/* ---- lanes of a warp ---- */

typedef LLVMValueRef Exchange(CpuCode *e, LLVMValueRef word, LLVMValueRef lane, LLVMValueRef mask);

static LLVMValueRef exchange_bits(CpuCode *e, LLVMValueRef word, LLVMValueRef bits, LLVMValueRef mask)
{
    return cpu_intrinsic(e, "llvm.nvvm.shfl.sync.bfly.i32", NULL, 0, (LLVMValueRef[]){mask, word, bits, i32_number(e, GPU_WARP - 1)}, 4);
}

static LLVMValueRef exchange_lane(CpuCode *e, LLVMValueRef word, LLVMValueRef lane, LLVMValueRef mask)
{
    return cpu_intrinsic(e, "llvm.nvvm.shfl.sync.idx.i32", NULL, 0, (LLVMValueRef[]){mask, word, lane, i32_number(e, GPU_WARP - 1)}, 4);
}

static unsigned bits_of(LLVMTypeRef t)
{
    switch (LLVMGetTypeKind(t)) {
    case LLVMIntegerTypeKind: return LLVMGetIntTypeWidth(t);
    case LLVMFloatTypeKind: return 32;
    default: return 64;
    }
}

/* A value of any lane type, in words of 32 bits. */
static LLVMValueRef exchanged(CpuCode *e, LLVMValueRef x, LLVMValueRef lane, LLVMValueRef mask, Exchange *how)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMTypeRef t = LLVMTypeOf(x), bits;

    if (LLVMGetTypeKind(t) == LLVMStructTypeKind)
        return lane_complex(e->u, exchanged(e, lane_part(e->u, x, 0), lane, mask, how), exchanged(e, lane_part(e->u, x, 1), lane, mask, how));
    bits = LLVMIntTypeInContext(e->u->context, bits_of(t));
    x = LLVMBuildBitCast(b, x, bits, "");
    if (bits_of(t) <= 32) {
        x = how(e, LLVMBuildZExtOrBitCast(b, x, i32_type(e), ""), lane, mask);
        return LLVMBuildBitCast(b, LLVMBuildTruncOrBitCast(b, x, bits, ""), t, "");
    }
    LLVMValueRef low = how(e, LLVMBuildTrunc(b, x, i32_type(e), ""), lane, mask);
    LLVMValueRef high = how(e, LLVMBuildTrunc(b, LLVMBuildLShr(b, x, cpu_number(e, 32), ""), i32_type(e), ""), lane, mask);
    high = LLVMBuildShl(b, LLVMBuildZExt(b, high, bits, ""), cpu_number(e, 32), "");
    return LLVMBuildBitCast(b, LLVMBuildOr(b, high, LLVMBuildZExt(b, low, bits, ""), ""), t, "");
}

LLVMValueRef gpu_other(CpuCode *e, LLVMValueRef x, int bits, LLVMValueRef mask) { return exchanged(e, x, i32_number(e, bits), mask, exchange_bits); }
LLVMValueRef gpu_from(CpuCode *e, LLVMValueRef x, LLVMValueRef lane, LLVMValueRef mask) { return exchanged(e, x, lane, mask, exchange_lane); }

/* ---- runs of lanes: within a warp in registers, longer ones in shared memory ---- */

static int run_of(CpuCode *e, const TileNode *n) { return n->attr->i && n->attr->i < e->gpu->threads ? (int)n->attr->i : e->gpu->threads; }

/* The threads of this one's warp, the last of which may be short. */
static LLVMValueRef warp_mask(CpuCode *e)
{
    LLVMBuilderRef b = e->u->builder;
    int rest = e->gpu->threads % GPU_WARP;
    LLVMValueRef last;

    if (!rest)
        return i32_number(e, -1);
    last = LLVMBuildICmp(b, LLVMIntUGE, e->gpu->thread, i32_number(e, e->gpu->threads - rest), "");
    return LLVMBuildSelect(b, last, i32_number(e, (int64_t)(1u << rest) - 1), i32_number(e, -1), "");
}

static LLVMValueRef value(CpuCode *e, TileRef v) { return cpu_val(e, v)->x; }

static DType kept_dtype(const TileType *t) { return t->kind == TILE_INDEX ? DT_int64 : (DType)t->dtype; }

/* A row of shared memory with each thread's value, which all see. */
static LLVMValueRef row_of(CpuCode *e, TileRef v)
{
    DType dt = kept_dtype(tile_type(v));
    LLVMValueRef row = cpu_buffer(e, e->gpu->threads * (int64_t)raw_size(lane_dtype(dt)));

    gpu_fence(e);
    e->width = 1;
    cpu_store_flat(e, dt, row, gpu_lane(e), value(e, v), NULL);
    gpu_written(e);
    gpu_fence(e);
    return row;
}

/* Halves of a run join first, then quarters; who lies behind the last lane is passed over. */
static LLVMValueRef join_step(CpuCode *e, const TileNode *n, LLVMValueRef x, LLVMValueRef other, int by)
{
    DType dt = (DType)n->type[0].dtype;
    LLVMValueRef joined = cpu_step(e, tile_step_op((OpId)n->attr->op), dt, x, other, 1), there;

    if (e->gpu->threads % (2 * by) == 0)
        return joined;
    there = LLVMBuildXor(e->u->builder, e->gpu->thread, i32_number(e, by), "");
    there = LLVMBuildICmp(e->u->builder, LLVMIntULT, there, i32_number(e, e->gpu->threads), "");
    return LLVMBuildSelect(e->u->builder, there, joined, x, "");
}

static int power_above(int n)
{
    int p = 1;

    while (p < n)
        p *= 2;
    return p;
}

/* What a thread of each lane's run has; at: its number in the group. */
static LLVMValueRef from_thread(CpuCode *e, TileRef v, int run, LLVMValueRef at)
{
    LLVMValueRef row, x;

    if (run <= GPU_WARP)
        return gpu_from(e, value(e, v), LLVMBuildAnd(e->u->builder, at, i32_number(e, GPU_WARP - 1), ""), warp_mask(e));
    row = row_of(e, v);
    x = cpu_load_flat(e, kept_dtype(tile_type(v)), row, LLVMBuildZExt(e->u->builder, at, i64_type(e), ""), 1);
    gpu_written(e);
    return x;
}

/* Of a last run that is short, and not by halvings, only the first lane has met all others. */
static void share_first(CpuCode *e, TileRef v, int run)
{
    LLVMBuilderRef b = e->u->builder;
    int rest = e->gpu->threads % power_above(run);

    if (rest & (rest - 1))
        cpu_val(e, v)->x = from_thread(e, v, run, LLVMBuildSub(b, e->gpu->thread, LLVMBuildURem(b, e->gpu->thread, i32_number(e, run), ""), ""));
}

static void lane_reduce(CpuCode *e, const TileNode *n)
{
    DType dt = (DType)n->type[0].dtype;
    LLVMValueRef x = value(e, n->in[0]), mask = warp_mask(e);
    int run = run_of(e, n), by = power_above(run) / 2;
    TileRef now = out_of(n);

    for (; by >= GPU_WARP; by /= 2) {
        LLVMValueRef row, place, there;
        cpu_val(e, now)->x = x;
        row = row_of(e, now);
        place = LLVMBuildXor(e->u->builder, e->gpu->thread, i32_number(e, by), "");
        there = LLVMBuildICmp(e->u->builder, LLVMIntULT, place, i32_number(e, e->gpu->threads), "");
        place = LLVMBuildSelect(e->u->builder, there, place, i32_number(e, 0), "");
        x = join_step(e, n, x, cpu_load_flat(e, dt, row, LLVMBuildZExt(e->u->builder, place, i64_type(e), ""), 1), by);
        gpu_written(e);
    }
    for (; by; by /= 2)
        x = join_step(e, n, x, gpu_other(e, x, by, mask), by);
    cpu_val(e, now)->x = x;
    share_first(e, now, run);
}

/* The thread whose number in this one's run is given. */
static LLVMValueRef lane_in_run(CpuCode *e, LLVMValueRef number, int run)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMValueRef k = LLVMBuildTrunc(b, number, i32_type(e), ""), first;

    first = LLVMBuildSub(b, e->gpu->thread, LLVMBuildURem(b, e->gpu->thread, i32_number(e, run), ""), "");
    if (run & (run - 1)) {
        LLVMValueRef r = LLVMBuildTrunc(b, LLVMBuildSRem(b, number, cpu_number(e, run), ""), i32_type(e), "");
        k = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSLT, r, i32_number(e, 0), ""), LLVMBuildAdd(b, r, i32_number(e, run), ""), r, "");
    } else
        k = LLVMBuildAnd(b, k, i32_number(e, run - 1), "");
    return LLVMBuildAdd(b, first, k, "");
}

static void shuffle(CpuCode *e, const TileNode *n)
{
    LLVMBuilderRef b = e->u->builder;
    int run = run_of(e, n);
    LLVMValueRef at = lane_in_run(e, value(e, n->in[1]), run), there = LLVMBuildICmp(b, LLVMIntULT, at, i32_number(e, e->gpu->threads), "");

    cpu_val(e, out_of(n))->x = from_thread(e, n->in[0], run, LLVMBuildSelect(b, there, at, e->gpu->thread, ""));
}

static LLVMValueRef same_bits(CpuCode *e, DType dt, LLVMValueRef a, LLVMValueRef b)
{
    return lane_mask(e->u, formula_emit(e->u, OP_eq, dt, (LLVMValueRef[]){a, b}, 2, 1));
}

static void match(CpuCode *e, const TileNode *n)
{
    LLVMBuilderRef b = e->u->builder;
    int run = run_of(e, n);
    DType dt = kept_dtype(tile_type(n->in[0]));
    LLVMValueRef x = value(e, n->in[0]), all = cpu_number(e, 0), mask = warp_mask(e);

    if (run == GPU_WARP && e->gpu->threads % GPU_WARP == 0 && tile_type(n->in[0])->kind == TILE_INDEX) {
        all = cpu_intrinsic(e, "llvm.nvvm.match.any.sync.i64", NULL, 0, (LLVMValueRef[]){mask, x}, 2);
        cpu_val(e, out_of(n))->x = LLVMBuildZExt(b, all, i64_type(e), "");
        return;
    }
    for (int i = 0; i < run; i++) {
        LLVMValueRef at = lane_in_run(e, cpu_number(e, i), run), there = LLVMBuildICmp(b, LLVMIntULT, at, i32_number(e, e->gpu->threads), ""), is;
        is = same_bits(e, dt, x, gpu_from(e, x, LLVMBuildAnd(b, at, i32_number(e, GPU_WARP - 1), ""), mask));
        is = LLVMBuildZExt(b, LLVMBuildAnd(b, is, there, ""), i64_type(e), "");
        all = LLVMBuildOr(b, all, LLVMBuildShl(b, is, cpu_number(e, i), ""), "");
    }
    cpu_val(e, out_of(n))->x = all;
}

static void uniform(CpuCode *e, const TileNode *n)
{
    LLVMValueRef row = row_of(e, n->in[0]);

    cpu_val(e, out_of(n))->x = cpu_load_flat(e, kept_dtype(&n->type[0]), row, cpu_number(e, 0), 1);
    gpu_written(e);
}

bool gpu_together(CpuCode *e, const TileNode *n)
{
    if ((run_of(e, n) <= GPU_WARP && n->op != TOP_uniform ? &e->gpu->in_warps : &e->gpu->vary)->split[n->id])
        return cpu_refuse(e, "%s where some lanes may be missing", tile_op_info[n->op].name);
    if (n->op == TOP_match && run_of(e, n) > GPU_WARP)
        return cpu_refuse(e, "match of more than a warp");
    switch (n->op) {
    case TOP_lane_reduce: lane_reduce(e, n); break;
    case TOP_shuffle: shuffle(e, n); break;
    case TOP_match: match(e, n); break;
    default: uniform(e, n);
    }
    return true;
}
