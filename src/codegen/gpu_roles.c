/*
 * Kernels around a product by warpgroups.
 *
 *      one thread (producer)                       warpgroups (consumers)
 *      for each tile of this block:                for each tile of this block:
 *          for each round:                             for each round:
 *              wait until slot s is empty                  wait until slot s is full
 *              copy both operands to it; full when         multiply; the round before is done:
 *              their bytes have come                       its slot is empty
 *                                                      what follows the loop, with the sums in registers
 *
 * Blocks stay on their processors and take the groups of the grid in turn, so that the operands of the next group are on their way while this
 * one's sums are stored.  Groups that lie near each other in both axes run at the same time, for what they share in the L2 cache.
 *
 * The consumers are the threads of gpu.c: what follows the loop is emitted as in any kernel, with sums as fragments, whose layout is
 * that of wgmma; only the stores of whole tiles go through shared memory, by tensor copies.
 */
#include "codegen/gpu_roles.h"

#include "base/alloc.h"

#include <string.h>

enum { DONE_BARRIER = 1, TURN_BARRIER = 3, SLOT_BARRIER = 5, ARRIVALS = GROUP_THREADS / GPU_WARP, OPERAND_GAP = 1024 };

static Roles *roles(const CpuCode *e) { return e->gpu->roles; }

static LLVMValueRef op32(CpuCode *e, LLVMOpcode op, LLVMValueRef x, int64_t y) { return LLVMBuildBinOp(e->u->builder, op, x, i32_number(e, y), ""); }
static LLVMValueRef plus(CpuCode *e, LLVMValueRef x, LLVMValueRef y) { return LLVMBuildAdd(e->u->builder, x, y, ""); }
static LLVMValueRef narrow(CpuCode *e, LLVMValueRef x) { return LLVMBuildTrunc(e->u->builder, x, i32_type(e), ""); }
static LLVMValueRef wide(CpuCode *e, LLVMValueRef x) { return LLVMBuildZExt(e->u->builder, x, i64_type(e), ""); }
static LLVMValueRef get(CpuCode *e, LLVMValueRef slot) { return LLVMBuildLoad2(e->u->builder, i32_type(e), slot, ""); }

/* A number that all lanes of a warp have, as a value that the compiler knows to be so. */
static LLVMValueRef same_in_warp(CpuCode *e, LLVMValueRef x) { return gpu_from(e, x, i32_number(e, 0), i32_number(e, -1)); }

/* This thread's warpgroup in its set. */
static LLVMValueRef warpgroup(CpuCode *e) { return same_in_warp(e, op32(e, LLVMUDiv, e->gpu->thread, GROUP_THREADS)); }

void roles_fence(CpuCode *e) { gpu_named_barrier(e, op32(e, LLVMAdd, roles(e)->set, DONE_BARRIER), roles(e)->threads); }

/* ---- the ring ---- */

static LLVMValueRef full_barrier(CpuCode *e, LLVMValueRef stage)
{
    return plus(e, roles(e)->base, op32(e, LLVMAdd, op32(e, LLVMMul, stage, 8), roles(e)->barriers));
}

static LLVMValueRef empty_barrier(CpuCode *e, LLVMValueRef stage) { return op32(e, LLVMAdd, full_barrier(e, stage), 8 * (int64_t)roles(e)->stages); }

static void enter_ring(CpuCode *e)
{
    roles(e)->stage = llvm_slot(e->u, i32_type(e));
    roles(e)->phase = llvm_slot(e->u, i32_type(e));
    LLVMBuildStore(e->u->builder, i32_number(e, 0), roles(e)->stage);
    LLVMBuildStore(e->u->builder, i32_number(e, 0), roles(e)->phase);
}

static void next_stage(CpuCode *e)
{
    LLVMValueRef s = op32(e, LLVMAdd, get(e, roles(e)->stage), 1);
    LLVMValueRef last = LLVMBuildICmp(e->u->builder, LLVMIntEQ, s, i32_number(e, roles(e)->stages), "");

    LLVMBuildStore(e->u->builder, cpu_choose(e, last, i32_number(e, 0), s), roles(e)->stage);
    LLVMBuildStore(e->u->builder, LLVMBuildXor(e->u->builder, get(e, roles(e)->phase), LLVMBuildZExt(e->u->builder, last, i32_type(e), ""), ""),
                   roles(e)->phase);
}

/* Registers of a thread from here on, all of whose warpgroup are here. */
static void keep_registers(CpuCode *e, int consumers, bool producer)
{
    static const struct { int producer, consumer; } share[] = {[2] = {40, 232}, [3] = {32, 160}};

    if (consumers > 1)
        gpu_keep_registers(e, producer ? share[consumers].producer : share[consumers].consumer, !producer);
}

/* So many stages on, an i32. */
static void skip_stages(CpuCode *e, LLVMValueRef n)
{
    LLVMBuilderRef b = e->u->builder;
    int stages = roles(e)->stages;
    LLVMValueRef s = plus(e, get(e, roles(e)->stage), n), turns = op32(e, LLVMAnd, op32(e, LLVMUDiv, s, stages), 1);

    LLVMBuildStore(b, op32(e, LLVMURem, s, stages), roles(e)->stage);
    LLVMBuildStore(b, LLVMBuildXor(b, get(e, roles(e)->phase), turns, ""), roles(e)->phase);
}

/* Sets take turns at multiplying: one waits for its turn, then gives it to the other one. */
static void take_turn(CpuCode *e, bool take)
{
    LLVMValueRef set = take ? roles(e)->set : LLVMBuildXor(e->u->builder, roles(e)->set, i32_number(e, 1), "");

    if (roles(e)->sets == 1)
        return;
    set = op32(e, LLVMAdd, set, TURN_BARRIER);
    if (take)
        gpu_named_barrier(e, set, 2 * roles(e)->threads);
    else
        gpu_named_arrive(e, set, 2 * roles(e)->threads);
}

static void make_barriers(CpuCode *e)
{
    Roles *r = roles(e);
    GpuIf first = gpu_if(e, LLVMBuildICmp(e->u->builder, LLVMIntEQ, e->gpu->thread, i32_number(e, 0), ""));

    for (int s = 0; s < r->stages; s++) {
        gpu_barrier_init(e, full_barrier(e, i32_number(e, s)), 1);
        gpu_barrier_init(e, empty_barrier(e, i32_number(e, s)), ARRIVALS * r->threads / GROUP_THREADS);
    }
    gpu_barriers_ready(e);
    gpu_end_if(e, &first);
    gpu_named_barrier(e, i32_number(e, 0), roles_threads(r));
}

/* ---- groups ---- */

/* The place with number t of a plane of groups, down by across: `order` places down side by side, through all across. */
static void enter_plane(CpuCode *e, LLVMValueRef t, LLVMValueRef down, LLVMValueRef across, LLVMValueRef *at)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMValueRef order = i32_number(e, roles(e)->order), strip = LLVMBuildMul(b, order, across, ""), first, high;

    first = LLVMBuildMul(b, LLVMBuildUDiv(b, t, strip, ""), order, "");
    t = LLVMBuildURem(b, t, strip, "");
    high = LLVMBuildSub(b, down, first, "");
    high = cpu_choose(e, LLVMBuildICmp(b, LLVMIntULT, high, order, ""), high, order);
    at[0] = plus(e, first, LLVMBuildURem(b, t, high, ""));
    at[1] = LLVMBuildUDiv(b, t, high, "");
}

/*
 * The group that is number t of those that blocks take in turn. The plane is that of the grid's last two axes, or what the one axis of a grid
 * goes through row by row.
 */
static void enter_group(CpuCode *e, LLVMValueRef t)
{
    LLVMBuilderRef b = e->u->builder;
    int axes = e->k->grid.n;
    LLVMValueRef row = cpu_size(e, sym("_across")), down, across, at[2];

    if (axes < 2 && !row) {
        cpu_set_groups(e, wide(e, t));
        return;
    }
    across = narrow(e, axes < 2 ? row : cpu_groups(e, axes - 1));
    if (axes < 2) {                             /* rows that are not whole: one by one */
        LLVMValueRef all = narrow(e, cpu_groups(e, 0)), some = LLVMBuildICmp(b, LLVMIntUGT, across, i32_number(e, 1), ""), whole;
        across = cpu_choose(e, some, across, i32_number(e, 1));
        whole = LLVMBuildICmp(b, LLVMIntEQ, LLVMBuildURem(b, all, across, ""), i32_number(e, 0), "");
        across = cpu_choose(e, whole, across, i32_number(e, 1));
        down = LLVMBuildUDiv(b, all, across, "");
        enter_plane(e, t, down, across, at);
        cpu_set_groups(e, wide(e, plus(e, LLVMBuildMul(b, at[0], across, ""), at[1])));
        return;
    }
    down = narrow(e, cpu_groups(e, axes - 2));
    row = LLVMBuildMul(b, down, across, "");
    e->group[0] = wide(e, LLVMBuildUDiv(b, t, row, ""));
    enter_plane(e, LLVMBuildURem(b, t, row, ""), down, across, at);
    e->group[axes - 2] = wide(e, at[0]);
    e->group[axes - 1] = wide(e, at[1]);
}

typedef struct Groups { LLVMBasicBlockRef head, done; LLVMValueRef t, step; } Groups;

/* Those of a block, or of one set of it: every `every`th, from `first` on. */
static Groups each_group(CpuCode *e, LLVMValueRef first, int every)
{
    LLVMValueRef all = cpu_groups(e, 0), none = NULL;
    LLVMBasicBlockRef body;
    Groups g;

    for (int i = 1; i < 3; i++)
        all = cpu_op(e, LLVMMul, all, cpu_groups(e, i));
    g.t = llvm_slot(e->u, i32_type(e));
    g.step = cpu_intrinsic(e, "llvm.nvvm.read.ptx.sreg.nctaid.x", &(LLVMTypeRef){NULL}, 0, &none, 0);
    first = LLVMBuildMul(e->u->builder, first, g.step, "");
    g.step = op32(e, LLVMMul, g.step, every);
    LLVMBuildStore(e->u->builder, plus(e, first, cpu_intrinsic(e, "llvm.nvvm.read.ptx.sreg.ctaid.x", &(LLVMTypeRef){NULL}, 0, &none, 0)), g.t);
    g.head = cpu_block(e), g.done = cpu_block(e), body = cpu_block(e);
    LLVMBuildBr(e->u->builder, g.head);
    LLVMPositionBuilderAtEnd(e->u->builder, g.head);
    LLVMBuildCondBr(e->u->builder, LLVMBuildICmp(e->u->builder, LLVMIntULT, get(e, g.t), narrow(e, all), ""), body, g.done);
    LLVMPositionBuilderAtEnd(e->u->builder, body);
    enter_group(e, get(e, g.t));
    return g;
}

static void end_group(CpuCode *e, const Groups *g)
{
    LLVMBuildStore(e->u->builder, plus(e, get(e, g->t), g->step), g->t);
    LLVMBuildBr(e->u->builder, g->head);
    LLVMPositionBuilderAtEnd(e->u->builder, g->done);
}

/* Rounds of the loop, an i32: none where it ends before it begins. */
static LLVMValueRef rounds_of(CpuCode *e)
{
    const TileNode *loop = roles(e)->loop;
    LLVMValueRef lo = cpu_val(e, loop->in[0])->x, hi = cpu_val(e, loop->in[1])->x, step = cpu_val(e, loop->in[2])->x, n;

    n = cpu_op(e, LLVMAdd, cpu_op(e, LLVMSub, hi, lo), cpu_op(e, LLVMSub, step, cpu_number(e, 1)));
    n = LLVMBuildSDiv(e->u->builder, n, step, "");
    return narrow(e, cpu_choose(e, cpu_compare(e, LLVMIntSLT, lo, hi), n, cpu_number(e, 0)));
}

/* for r from 0 to n, in 32 bits: through a slot. */
typedef struct Rounds { LLVMBasicBlockRef head, done; LLVMValueRef at; } Rounds;

static Rounds each_round(CpuCode *e, LLVMValueRef n)
{
    Rounds r = {cpu_block(e), cpu_block(e), llvm_slot(e->u, i32_type(e))};
    LLVMBasicBlockRef body = cpu_block(e);

    LLVMBuildStore(e->u->builder, i32_number(e, 0), r.at);
    LLVMBuildBr(e->u->builder, r.head);
    LLVMPositionBuilderAtEnd(e->u->builder, r.head);
    LLVMBuildCondBr(e->u->builder, LLVMBuildICmp(e->u->builder, LLVMIntSLT, get(e, r.at), n, ""), body, r.done);
    LLVMPositionBuilderAtEnd(e->u->builder, body);
    return r;
}

static void end_round(CpuCode *e, const Rounds *r)
{
    LLVMBuildStore(e->u->builder, op32(e, LLVMAdd, get(e, r->at), 1), r->at);
    LLVMBuildBr(e->u->builder, r->head);
    LLVMPositionBuilderAtEnd(e->u->builder, r->done);
}

/* ---- the producer ---- */

/* The numbers that stand before the loop. */
static void emit_indices(CpuCode *e)
{
    for (const TileNode *n = e->k->body.first; n != roles(e)->loop; n = n->next)
        if (n->nout && roles_is_known(roles(e), n))
            cpu_val(e, (TileRef){(TileNode *)n, 0})->x = n->type[0].kind == TILE_INDEX ? cpu_index(e, n) : cpu_scalar(e, n);
}

static void load_operand(CpuCode *e, int operand, LLVMValueRef i, LLVMValueRef stage)
{
    Roles *r = roles(e);
    const RoleOperand *o = &r->o[operand];
    int rank = tile_type(o->load->in[0])->rank;
    LLVMValueRef at[TILE_RANK_MAX], first, to;

    for (int k = 0; k < rank; k++)
        at[k] = narrow(e, gpu_index_at(e, r->loop, o->load->in[rank - k], i));
    to = plus(e, r->base, op32(e, LLVMAdd, op32(e, LLVMMul, stage, o->bytes), o->at));
    first = at[0];
    for (int s = 0; s < o->slabs; s++) {
        at[0] = op32(e, LLVMAdd, first, (int64_t)s * o->box[0]);
        gpu_tensor_load(e, op32(e, LLVMAdd, to, s * o->slab), r->map[operand], at, rank, full_barrier(e, stage));
    }
}

static void produce(CpuCode *e)
{
    Roles *r = roles(e);
    Groups g;
    Rounds n;

    for (int i = 0; i < 2; i++)
        gpu_prefetch_map(e, r->map[i]);
    enter_ring(e);
    g = each_group(e, i32_number(e, 0), 1);
    emit_indices(e);
    n = each_round(e, rounds_of(e));
    LLVMValueRef stage = get(e, r->stage), i = wide(e, get(e, n.at));
    i = cpu_op(e, LLVMAdd, cpu_val(e, r->loop->in[0])->x, cpu_op(e, LLVMMul, i, cpu_val(e, r->loop->in[2])->x));
    gpu_barrier_wait(e, empty_barrier(e, stage), op32(e, LLVMXor, get(e, r->phase), 1));
    gpu_barrier_expect(e, full_barrier(e, stage), r->o[0].bytes + r->o[1].bytes);
    for (int k = 0; k < 2; k++)
        load_operand(e, k, i, stage);
    next_stage(e);
    end_round(e, &n);
    end_group(e, &g);
}

/* ---- products ---- */

static int pieces(const Roles *r) { return r->extent[0] / GROUP_ROWS / (r->threads / GROUP_THREADS); }
static int piece_sums(const Roles *r) { return r->extent[1] / 2; }

/* The low word of a descriptor: where a matrix begins, and the distance of slabs of one whose rows lie side by side. */
static LLVMValueRef describe(CpuCode *e, const RoleOperand *o, LLVMValueRef at)
{
    int64_t apart = o->turned ? o->slab : 16;

    at = op32(e, LLVMLShr, op32(e, LLVMAnd, at, 0x3FFFF), 4);
    return op32(e, LLVMOr, at, (apart >> 4) << 16);
}

/* The descriptor: of groups of eight rows, or steps, that lie one behind the other. */
static LLVMValueRef descriptor(CpuCode *e, const RoleOperand *o, LLVMValueRef low)
{
    int64_t eight = 8 * (int64_t)o->span, mode = o->span == 128 ? 1 : o->span == 64 ? 2 : 3;

    return LLVMBuildOr(e->u->builder, wide(e, low), cpu_number(e, ((eight >> 4) | (mode << 30)) << 32), "");
}

/* How far the matrix of step s, 32 bytes each, lies behind the first one. */
static int64_t step_offset(const Roles *r, const RoleOperand *o, int s)
{
    if (o->turned)
        return (int64_t)s * r->unit.steps * o->span;
    return s * 32 / o->span * o->slab + s * 32 % o->span;
}

/* add: to what the sums are; else they begin with this round. */
static void multiply_round(CpuCode *e, LLVMValueRef group, LLVMValueRef stage, bool add, LLVMValueRef *sum)
{
    Roles *r = roles(e);
    LLVMValueRef low[2], a, b;
    int groups = r->threads / GROUP_THREADS;

    for (int i = 0; i < 2; i++) {
        LLVMValueRef at = plus(e, r->base, op32(e, LLVMAdd, op32(e, LLVMMul, stage, r->o[i].bytes), r->o[i].at));
        if (i == 0)
            at = plus(e, at, op32(e, LLVMMul, group, r->o[0].turned ? r->o[0].slab : (int64_t)GROUP_ROWS * r->o[0].span));
        low[i] = describe(e, &r->o[i], at);
    }
    gpu_wgmma_fence(e);
    for (int p = 0; p < pieces(r); p++)
        for (int s = 0; s < r->extent[2] / r->unit.steps; s++) {
            int64_t down = (int64_t)p * groups * (r->o[0].turned ? r->o[0].slab : (int64_t)GROUP_ROWS * r->o[0].span);
            a = op32(e, LLVMAdd, low[0], (down + step_offset(r, &r->o[0], s)) >> 4);
            b = op32(e, LLVMAdd, low[1], step_offset(r, &r->o[1], s) >> 4);
            gpu_wgmma(e, &r->unit, descriptor(e, &r->o[0], a), descriptor(e, &r->o[1], b), add || s, sum + (size_t)p * (size_t)piece_sums(r));
        }
    gpu_wgmma_commit(e);
}

static LLVMValueRef is_first_lane(CpuCode *e)
{
    return LLVMBuildICmp(e->u->builder, LLVMIntEQ, op32(e, LLVMAnd, e->gpu->thread, GPU_WARP - 1), i32_number(e, 0), "");
}

/* This warp has done with the slot. */
static void release(CpuCode *e, LLVMValueRef stage)
{
    GpuIf one = gpu_if(e, is_first_lane(e));

    gpu_barrier_arrive(e, empty_barrier(e, stage));
    gpu_end_if(e, &one);
}

static void load_sums(CpuCode *e, LLVMTypeRef t, LLVMValueRef *slot, LLVMValueRef *sum, int n)
{
    for (int i = 0; i < n; i++)
        sum[i] = LLVMBuildLoad2(e->u->builder, t, slot[i], "");
}

static void store_sums(CpuCode *e, LLVMValueRef *slot, LLVMValueRef *sum, int n)
{
    for (int i = 0; i < n; i++)
        LLVMBuildStore(e->u->builder, sum[i], slot[i]);
}

/* A round for itself, whose sums are added in f32: units keep fewer bits of those of bytes. */
static void add_round(CpuCode *e, LLVMValueRef group, LLVMValueRef stage, LLVMValueRef *slot, int n)
{
    LLVMTypeRef t = lane_type(e->u, roles(e)->out, 1);
    LLVMValueRef *sum = arena_array(&e->gpu->arena, LLVMValueRef, n);

    for (int i = 0; i < n; i++)
        sum[i] = LLVMGetUndef(t);
    multiply_round(e, group, stage, false, sum);
    gpu_wgmma_wait(e, 0, sum, n);
    release(e, stage);
    for (int i = 0; i < n; i++)
        LLVMBuildStore(e->u->builder, LLVMBuildFAdd(e->u->builder, LLVMBuildLoad2(e->u->builder, t, slot[i], ""), sum[i], ""), slot[i]);
}

/* The sums become the result of the loop. */
static void end_sums(CpuCode *e, LLVMValueRef rounds, LLVMValueRef *slot, LLVMValueRef *sum, int n)
{
    Roles *r = roles(e);

    if (r->promotes)
        take_turn(e, false);
    load_sums(e, lane_type(e->u, r->out, 1), slot, sum, n);
    if (r->sets > 1)
        skip_stages(e, rounds);
    e->gpu->clean |= e->fixed_bytes == r->shared;      /* nothing has been put into the group's memory yet */
    gpu_set_fragment(e, (TileRef){(TileNode *)r->loop, 0}, sum);
}

/* The loop: its result is in registers behind it. */
static void consume(CpuCode *e)
{
    Roles *r = roles(e);
    int n = pieces(r) * piece_sums(r);
    LLVMTypeRef t = lane_type(e->u, r->out, 1);
    LLVMValueRef *sum = arena_array(&e->gpu->arena, LLVMValueRef, n), *slot = arena_array(&e->gpu->arena, LLVMValueRef, n);
    LLVMValueRef last = llvm_slot(e->u, i32_type(e)), group = warpgroup(e), rounds = rounds_of(e), stage, some;
    Rounds l;

    for (int i = 0; i < n; i++) {
        slot[i] = llvm_slot(e->u, t);
        LLVMBuildStore(e->u->builder, LLVMConstNull(t), slot[i]);
    }
    LLVMBuildStore(e->u->builder, i32_number(e, 0), last);
    take_turn(e, true);
    l = each_round(e, rounds);
    stage = get(e, r->stage);
    gpu_barrier_wait(e, full_barrier(e, stage), get(e, r->phase));
    if (r->promotes) {
        add_round(e, group, stage, slot, n);
        next_stage(e);
        end_round(e, &l);
        end_sums(e, rounds, slot, sum, n);
        return;
    }
    load_sums(e, t, slot, sum, n);
    multiply_round(e, group, stage, true, sum);
    gpu_wgmma_wait(e, 1, sum, n);
    store_sums(e, slot, sum, n);
    some = LLVMBuildICmp(e->u->builder, LLVMIntNE, get(e, l.at), i32_number(e, 0), "");
    GpuIf before = gpu_if(e, LLVMBuildAnd(e->u->builder, some, is_first_lane(e), ""));
    gpu_barrier_arrive(e, empty_barrier(e, get(e, last)));
    gpu_end_if(e, &before);
    LLVMBuildStore(e->u->builder, stage, last);
    next_stage(e);
    end_round(e, &l);
    take_turn(e, false);
    load_sums(e, t, slot, sum, n);
    gpu_wgmma_wait(e, 0, sum, n);
    store_sums(e, slot, sum, n);
    GpuIf any = gpu_if(e, LLVMBuildICmp(e->u->builder, LLVMIntNE, rounds, i32_number(e, 0), ""));
    release(e, get(e, last));
    gpu_end_if(e, &any);
    end_sums(e, rounds, slot, sum, n);
}

/* ---- what follows it ---- */

/*
 * By predicates instead of branches, of which there would be as many as registers. What lies in memory that nobody stores to may be loaded once
 * for all.
 */
LLVMValueRef roles_load_if(CpuCode *e, LLVMValueRef place, LLVMValueRef inside, LLVMValueRef fill)
{
    LLVMTypeRef t = LLVMTypeOf(fill), word;
    LLVMBuilderRef b = e->u->builder;
    LLVMValueRef is = LLVMBuildZExt(b, inside, i32_type(e), ""), x, in[3] = {NULL, is, NULL};
    bool own = roles(e)->reads_own;
    StrBuf text = {0}, constraints = {0};
    unsigned bits = LLVMGetTypeKind(t) == LLVMIntegerTypeKind ? LLVMGetIntTypeWidth(t) : LLVMGetTypeKind(t) == LLVMFloatTypeKind ? 32 : 64;
    char letter = bits == 64 ? 'l' : bits == 32 ? 'r' : 'h';

    word = LLVMIntTypeInContext(e->u->context, bits == 8 ? 16 : bits);
    in[0] = LLVMBuildPtrToInt(b, place, i64_type(e), "");
    x = LLVMBuildBitCast(b, fill, LLVMIntTypeInContext(e->u->context, bits), "");
    in[2] = LLVMBuildZExtOrBitCast(b, x, word, "");
    sb_printf(&text, "{\n.reg .pred P;\nsetp.ne.b32 P, $2, 0;\nmov.b%u $0, $3;\n", bits == 8 ? 16 : bits);
    sb_printf(&text, "@P ld.%c%u $0, [$1];\n}", bits == 8 ? 'u' : 'b', bits);
    sb_printf(&constraints, "=&%c,l,r,%c%s", letter, letter, own ? ",~{memory}" : "");
    x = gpu_assembly(e, word, sb_str(&text), sb_str(&constraints), in, 3, own);
    if (!own)
        gpu_assembly_pure(e, x);
    sb_done(&text);
    sb_done(&constraints);
    return LLVMBuildBitCast(b, LLVMBuildTruncOrBitCast(b, x, LLVMIntTypeInContext(e->u->context, bits), ""), t, "");
}

/* ---- stores ---- */

/* Registers of a tile as words of memory: two of 16 bits a word. *v is what the registers are of, which may be what is yet to be converted. */
static bool packs(TileRef *v, DType dt)
{
    const TileNode *n = v->node;
    bool converts = n->op == TOP_map && n->attr->op == OP_convert && !n->attr->rounding && !n->attr->saturate && !n->attr->flush;

    if (!converts || (dt != DT_bf16 && dt != DT_f16) || tile_type(n->in[0])->dtype != DT_f32 || tile_type(n->in[0])->rank != 2)
        return false;
    *v = n->in[0];
    return true;
}

static LLVMValueRef word_of(CpuCode *e, DType dt, bool pack, LLVMValueRef low, LLVMValueRef high)
{
    LLVMBuilderRef b = e->u->builder;

    if (pack)
        return gpu_pack(e, dt, low, high);
    low = LLVMBuildZExt(b, lanes_to_raw(e->u, dt, low, 1), i32_type(e), "");
    high = LLVMBuildZExt(b, lanes_to_raw(e->u, dt, high, 1), i32_type(e), "");
    return LLVMBuildOr(b, low, LLVMBuildShl(b, high, i32_number(e, 16), ""), "");
}

typedef struct Slabs {
    const RoleStore *s;
    DType dt;
    bool pack;
    int bytes, columns;         /* of an element; of a slab */
    LLVMValueRef lane, row, turn;       /* row: of a slab, that this lane writes; turn: how its pieces are permuted */
    LLVMValueRef slots;         /* this warpgroup's */
} Slabs;

/* 16-byte pieces are permuted by bits of the row's number, as TMA does it. */
static LLVMValueRef turn_of(CpuCode *e, int span, LLVMValueRef row)
{
    int shift = span == 128 ? 0 : span == 64 ? 1 : 2;

    return op32(e, LLVMAnd, op32(e, LLVMLShr, row, shift), span / 16 - 1);
}

static LLVMValueRef piece_at(CpuCode *e, const Slabs *s, LLVMValueRef slot, LLVMValueRef row, LLVMValueRef turn, LLVMValueRef piece)
{
    LLVMValueRef at = plus(e, slot, op32(e, LLVMMul, row, s->s->span));

    return plus(e, at, op32(e, LLVMShl, LLVMBuildXor(e->u->builder, piece, turn, ""), 4));
}

static LLVMValueRef warp_row(CpuCode *e)
{
    return op32(e, LLVMMul, op32(e, LLVMAnd, op32(e, LLVMLShr, e->gpu->thread, 5), 3), 16);
}

/* The registers x of one slab, of 16 bits: four matrices at a time. */
static void put_halves(CpuCode *e, const Slabs *s, LLVMValueRef slot, LLVMValueRef *x)
{
    LLVMValueRef row = plus(e, warp_row(e), op32(e, LLVMAnd, s->lane, 15)), turn = turn_of(e, s->s->span, row), word[4];

    for (int c = 0; c < s->columns / 16; c++) {
        for (int i = 0; i < 4; i++)
            word[i] = word_of(e, s->dt, s->pack, x[8 * c + 2 * i], x[8 * c + 2 * i + 1]);
        gpu_store_matrices(e, piece_at(e, s, slot, row, turn, op32(e, LLVMAdd, op32(e, LLVMLShr, s->lane, 4), 2 * c)), word);
    }
}

/* The same of 32 or 8 bits: two neighbours at a time. */
static void put_pairs(CpuCode *e, const Slabs *s, LLVMValueRef slot, LLVMValueRef *x)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMTypeRef word = LLVMIntTypeInContext(e->u->context, 8 * (unsigned)s->bytes), two = LLVMVectorType(word, 2);
    LLVMTypeRef shared = LLVMPointerTypeInContext(e->u->context, 3);
    int pair = 2 * s->bytes, four = 4 * pair;   /* bytes of a lane's two elements, of a row's eight */

    for (int h = 0; h < 2; h++) {
        LLVMValueRef row = op32(e, LLVMAdd, plus(e, warp_row(e), op32(e, LLVMLShr, s->lane, 2)), 8 * h), turn = turn_of(e, s->s->span, row);
        for (int j = 0; j < s->columns / 8; j++) {
            LLVMValueRef byte = op32(e, LLVMAdd, op32(e, LLVMMul, op32(e, LLVMAnd, s->lane, 3), pair), (int64_t)j * four);
            LLVMValueRef at = piece_at(e, s, slot, row, turn, op32(e, LLVMLShr, byte, 4)), v = LLVMGetUndef(two);
            at = plus(e, at, op32(e, LLVMAnd, byte, 15));
            for (int c = 0; c < 2; c++) {
                LLVMValueRef raw = lanes_to_raw(e->u, s->dt, x[4 * j + 2 * h + c], 1);
                v = LLVMBuildInsertElement(b, v, LLVMBuildBitCast(b, raw, word, ""), i32_number(e, c), "");
            }
            LLVMSetAlignment(LLVMBuildStore(b, v, LLVMBuildIntToPtr(b, at, shared, "")), (unsigned)pair);
        }
    }
}

static void send_slab(CpuCode *e, const Slabs *s, LLVMValueRef slot, LLVMValueRef row, int64_t column)
{
    const TileNode *n = s->s->store;
    int rank = tile_type(n->in[0])->rank;
    LLVMValueRef at[TILE_RANK_MAX];

    for (int k = 0; k < rank; k++)
        at[k] = narrow(e, cpu_val(e, n->in[rank - k])->x);
    at[0] = op32(e, LLVMAdd, at[0], column);
    at[1] = plus(e, at[1], row);
    gpu_tensor_store(e, roles(e)->map[s->s->map], at, rank, slot);
    gpu_tensor_commit(e);
}

/* Slab after slab through two slots of the warpgroup: one is written while the other one is stored. */
static void store_tile(CpuCode *e, const RoleStore *store)
{
    Roles *r = roles(e);
    TileRef v = store->store->in[store->store->nin - 1];
    Slabs s = {.s = store, .dt = (DType)tile_type(v)->dtype};
    LLVMValueRef group = warpgroup(e), own = plus(e, op32(e, LLVMMul, r->set, r->threads / GROUP_THREADS), group), one, barrier, *x;
    int64_t slot_bytes = (int64_t)GROUP_ROWS * store->span;
    int number = 0;
    Fragment f;

    barrier = op32(e, LLVMAdd, own, SLOT_BARRIER);
    s.pack = packs(&v, s.dt);
    s.bytes = (int)raw_size(s.dt);
    s.columns = store->span / s.bytes;
    gpu_fragment_of(e, tile_type(v), &f);
    x = arena_array(&e->gpu->arena, LLVMValueRef, s.columns / 2);
    s.lane = op32(e, LLVMAnd, e->gpu->thread, GPU_WARP - 1);
    s.slots = plus(e, r->base, op32(e, LLVMAdd, op32(e, LLVMMul, own, OUT_SLOTS * slot_bytes), r->slots));
    one = LLVMBuildICmp(e->u->builder, LLVMIntEQ, op32(e, LLVMAnd, e->gpu->thread, GROUP_THREADS - 1), i32_number(e, 0), "");
    for (int p = 0; p < f.rows; p++)
        for (int c = 0; c < r->extent[1]; c += s.columns, number++) {
            LLVMValueRef slot = op32(e, LLVMAdd, s.slots, number % OUT_SLOTS * slot_bytes);
            LLVMValueRef row = op32(e, LLVMAdd, op32(e, LLVMMul, group, GROUP_ROWS), (int64_t)p * r->threads / 2);
            gpu_fragment_some(e, v, &f, 4 * (p * f.columns + c / 8), s.columns / 2, x);
            GpuIf waits = gpu_if(e, one);
            gpu_tensor_wait(e, number ? OUT_SLOTS - 1 : 0, true);
            gpu_end_if(e, &waits);
            gpu_named_barrier(e, barrier, GROUP_THREADS);
            if (s.bytes == 2)
                put_halves(e, &s, slot, x);
            else
                put_pairs(e, &s, slot, x);
            gpu_proxy_fence(e);
            gpu_named_barrier(e, barrier, GROUP_THREADS);
            GpuIf sends = gpu_if(e, one);
            send_slab(e, &s, slot, row, c);
            gpu_end_if(e, &sends);
        }
}

/* ---- the kernel ---- */

bool roles_node(CpuCode *e, const TileNode *n)
{
    Roles *r = roles(e);

    if (n == r->loop) {
        consume(e);
        return true;
    }
    for (int i = 0; i < r->nstores; i++)
        if (n == r->store[i].store) {
            cpu_close(e);
            store_tile(e, &r->store[i]);
            return true;
        }
    return false;
}

/* The consumers of both sets. */
static void consumers(CpuCode *e)
{
    Roles *r = roles(e);
    Groups g;

    keep_registers(e, roles_groups(r), false);
    r->set = i32_number(e, 0);
    enter_ring(e);
    if (r->sets > 1) {
        r->set = same_in_warp(e, op32(e, LLVMUDiv, e->gpu->thread, r->threads));
        e->gpu->thread = op32(e, LLVMURem, e->gpu->thread, r->threads);
        GpuIf second = gpu_if(e, LLVMBuildICmp(e->u->builder, LLVMIntEQ, r->set, i32_number(e, 1), ""));
        take_turn(e, false);
        cpu_set_groups(e, cpu_number(e, 0));    /* whichever: rounds are the same in all */
        emit_indices(e);
        skip_stages(e, rounds_of(e));
        gpu_end_if(e, &second);
    }
    g = each_group(e, r->set, r->sets);
    cpu_emit_block(e, &e->k->body);
    gpu_fence(e);                               /* the next group may use the same memory */
    end_group(e, &g);
    gpu_tensor_wait(e, 0, false);
}

void roles_emit(CpuCode *e)
{
    Roles *r = roles(e);
    LLVMBasicBlockRef producer = cpu_block(e), consumer = cpu_block(e), done = cpu_block(e);
    LLVMValueRef role;

    e->fixed_bytes = r->shared;
    r->base = gpu_shared_address(e, e->scratch);
    make_barriers(e);
    role = same_in_warp(e, op32(e, LLVMUDiv, e->gpu->thread, GPU_WARP));
    role = LLVMBuildICmp(e->u->builder, LLVMIntUGE, role, i32_number(e, r->sets * r->threads / GPU_WARP), "");
    LLVMBuildCondBr(e->u->builder, role, producer, consumer);
    LLVMPositionBuilderAtEnd(e->u->builder, producer);
    keep_registers(e, roles_groups(r), true);
    GpuIf one = gpu_if(e, LLVMBuildICmp(e->u->builder, LLVMIntEQ, e->gpu->thread, i32_number(e, r->sets * r->threads), ""));
    produce(e);
    gpu_end_if(e, &one);
    LLVMBuildBr(e->u->builder, done);
    LLVMPositionBuilderAtEnd(e->u->builder, consumer);
    consumers(e);
    LLVMBuildBr(e->u->builder, done);
    LLVMPositionBuilderAtEnd(e->u->builder, done);
    if (r->sets > 1 && e->fixed_bytes != r->shared)
        cpu_refuse(e, "memory of a group that two sets would share");
}
