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
#include "codegen/gpu_chain.h"

#include "base/alloc.h"

#include <string.h>

enum { TURN_BARRIER = 3 };

/* So many stages on, an i32. */
static void skip_stages(CpuCode *e, LLVMValueRef n)
{
    LLVMBuilderRef b = e->u->builder;
    const RoleRing *g = &roles(e)->ring;
    int stages = g->stages;
    LLVMValueRef s = plus(e, get(e, g->stage), n), turns = op32(e, LLVMAnd, op32(e, LLVMUDiv, s, stages), 1);

    LLVMBuildStore(b, op32(e, LLVMURem, s, stages), g->stage);
    LLVMBuildStore(b, LLVMBuildXor(b, get(e, g->phase), turns, ""), g->phase);
}

static void make_barriers(CpuCode *e)
{
    Roles *r = roles(e);
    GpuIf first = gpu_if(e, LLVMBuildICmp(e->u->builder, LLVMIntEQ, e->gpu->thread, i32_number(e, 0), ""));

    if (!r->chain)
        role_init_ring(e, &r->ring);
    for (int i = 0; r->chain && i < r->chain->nrings; i++)
        role_init_ring(e, &r->chain->ring[i].ring);
    role_init_given(e);
    if (r->chain)
        role_init_ring(e, &r->chain->taken);
    gpu_barriers_ready(e);
    gpu_end_if(e, &first);
    gpu_named_barrier(e, i32_number(e, 0), roles_threads(r));
    role_enter_cluster(e);
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

/* By 32 bits: divisions of 64 need more registers than a producer has. A larger divisor than 2^31 divides as that does; by zero all is 0. */
static LLVMValueRef short_quotient(CpuCode *e, const TileNode *n)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMTypeRef t = i64_type(e);
    LLVMValueRef a = narrow(e, cpu_val(e, n->in[0])->x), by[2] = {cpu_val(e, n->in[1])->x, cpu_number(e, INT64_C(1) << 31)}, none, d, x;

    none = LLVMBuildICmp(b, LLVMIntEQ, by[0], cpu_number(e, 0), "");
    d = narrow(e, cpu_intrinsic(e, "llvm.umin", &t, 1, by, 2));
    d = cpu_choose(e, none, i32_number(e, 1), d);
    x = n->op == TOP_imod || (n->op == TOP_map && n->attr->op == OP_mod) ? LLVMBuildURem(b, a, d, "") : LLVMBuildUDiv(b, a, d, "");
    return cpu_choose(e, none, cpu_number(e, 0), wide(e, x));
}

static LLVMValueRef known(CpuCode *e, const TileNode *n)
{
    return role_is_short_quotient(n) ? short_quotient(e, n) : n->type[0].kind == TILE_INDEX ? cpu_index(e, n) : cpu_scalar(e, n);
}

void role_emit_known(CpuCode *e, const TileNode *n)
{
    if (n->nout && roles_is_known(n))
        cpu_val(e, (TileRef){(TileNode *)n, 0})->x = known(e, n);
}

/* The numbers that stand before the loop. */
static void emit_indices(CpuCode *e)
{
    for (const TileNode *n = e->k->body.first; n != roles(e)->loop; n = n->next)
        role_emit_known(e, n);
}

/* Those of the loop's body when its number is i. */
static void emit_round(CpuCode *e, LLVMValueRef i)
{
    const TileBlock *body = roles(e)->loop->region[0];

    cpu_val(e, (TileRef){body->params.at[0], 0})->x = i;
    for (const TileNode *n = body->first; n; n = n->next)
        role_emit_known(e, n);
}

static void load_operand(CpuCode *e, int operand, LLVMValueRef stage)
{
    Roles *r = roles(e);
    const RoleOperand *o = &r->o[operand];

    role_bring(e, &r->ring, o, o->load, r->map[operand], stage);
}

static void produce(CpuCode *e)
{
    Roles *r = roles(e);
    LLVMValueRef first, rounds, i, stage;
    RoleGroups g;
    Rounds n;

    for (int k = 0; k < 2; k++)
        gpu_prefetch_map(e, r->map[k]);
    for (int k = 0; k < r->nlate; k++)
        gpu_prefetch_map(e, r->map[r->late[k].map]);
    role_enter_ring(e, &r->ring);
    g = role_each_group(e, i32_number(e, 0), 1);
    emit_indices(e);
    role_split_rounds(e, rounds_of(e), &first, &rounds);
    n = each_round(e, rounds);
    i = wide(e, plus(e, first, get(e, n.at)));
    emit_round(e, cpu_op(e, LLVMAdd, cpu_val(e, r->loop->in[0])->x, cpu_op(e, LLVMMul, i, cpu_val(e, r->loop->in[2])->x)));
    stage = role_make_room(e, &r->ring, r->o[0].bytes + r->o[1].bytes);
    for (int k = 0; k < 2; k++)
        load_operand(e, k, stage);
    role_next(e, &r->ring);
    end_round(e, &n);
    role_bring_late(e);
    role_end_group(e, &g);
}

/* ---- products ---- */

static int pieces(const Roles *r) { return r->extent[0] / GROUP_ROWS / (r->threads / GROUP_THREADS); }
static int piece_sums(const Roles *r) { return r->unit.columns / 2; }

/* The low word of a descriptor: where a matrix begins, and the distance of slabs of one whose rows lie side by side. */
LLVMValueRef role_describe(CpuCode *e, const RoleOperand *o, LLVMValueRef at)
{
    int64_t apart = o->turned ? o->slab : 16;

    at = op32(e, LLVMLShr, op32(e, LLVMAnd, at, 0x3FFFF), 4);
    return op32(e, LLVMOr, at, (apart >> 4) << 16);
}

/* The descriptor: of groups of eight rows, or steps, that lie one behind the other. */
LLVMValueRef role_descriptor(CpuCode *e, const RoleOperand *o, LLVMValueRef low)
{
    int64_t eight = 8 * (int64_t)o->span, mode = o->span == 128 ? 1 : o->span == 64 ? 2 : 3;

    return LLVMBuildOr(e->u->builder, wide(e, low), cpu_number(e, (int64_t)((uint64_t)((eight >> 4) | (mode << 30)) << 32)), "");
}

/* How far the matrix of step s, 32 bytes each, lies behind the first one. */
int64_t role_step(const Wgmma *unit, const RoleOperand *o, int s)
{
    if (o->turned)
        return (int64_t)s * unit->steps * o->span;
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
        low[i] = role_describe(e, &r->o[i], at);
    }
    gpu_wgmma_fence(e);
    for (int p = 0; p < pieces(r); p++)
        for (int s = 0; s < r->extent[2] / r->unit.steps; s++) {
            int64_t down = (int64_t)p * groups * (r->o[0].turned ? r->o[0].slab : (int64_t)GROUP_ROWS * r->o[0].span);
            a = op32(e, LLVMAdd, low[0], (down + role_step(&r->unit, &r->o[0], s)) >> 4);
            b = op32(e, LLVMAdd, low[1], role_step(&r->unit, &r->o[1], s) >> 4);
            gpu_wgmma(e, &r->unit, role_descriptor(e, &r->o[0], a), role_descriptor(e, &r->o[1], b), add || s,
                      sum + (size_t)p * (size_t)piece_sums(r));
        }
    gpu_wgmma_commit(e);
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

/*
 * Sums of bytes, of which units keep fewer bits: those of `interval` rounds, a part, for themselves, then added in f32.  Where a part is one round,
 * and registers are enough for two, one is added up while the next one is under way.  (With a loop in between, ptxas 13.0 has products done one
 * by one.)
 */
typedef struct Part { LLVMValueRef *slot, *sum, last; } Part;  /* last: the slot of the ring that its last round reads */
typedef struct Parts { LLVMValueRef group, *all, left; int sums; Part part[2]; } Parts;         /* left: rounds yet to begin, in a slot */

static void begin_parts(CpuCode *e, LLVMValueRef group, LLVMValueRef rounds, LLVMValueRef *slot, int sums, int parts, Parts *p)
{
    LLVMTypeRef t = lane_type(e->u, roles(e)->out, 1);

    *p = (Parts){.group = group, .all = slot, .left = llvm_slot(e->u, i32_type(e)), .sums = sums};
    LLVMBuildStore(e->u->builder, rounds, p->left);
    for (int k = 0; k < parts; k++) {
        p->part[k] = (Part){arena_array(&e->gpu->arena, LLVMValueRef, sums), arena_array(&e->gpu->arena, LLVMValueRef, sums),
                            llvm_slot(e->u, i32_type(e))};
        for (int i = 0; i < sums; i++)
            p->part[k].slot[i] = llvm_slot(e->u, t);
    }
}

/* The first round of a part is on its way. */
static void start_part(CpuCode *e, const Parts *p, int k)
{
    const Part *a = &p->part[k];
    LLVMTypeRef t = lane_type(e->u, roles(e)->out, 1);
    LLVMValueRef stage = role_stage(e, &roles(e)->ring);

    for (int i = 0; i < p->sums; i++)
        a->sum[i] = LLVMGetUndef(t);
    role_wait(e, &roles(e)->ring);
    multiply_round(e, p->group, stage, false, a->sum);
    store_sums(e, a->slot, a->sum, p->sums);
    LLVMBuildStore(e->u->builder, stage, a->last);
    role_next(e, &roles(e)->ring);
}

/* Its other rounds: all but the last one are done then. */
static void go_on_with_part(CpuCode *e, const Parts *p, int k)
{
    const Part *a = &p->part[k];
    LLVMTypeRef t = lane_type(e->u, roles(e)->out, 1);
    LLVMValueRef left = get(e, p->left), most = i32_number(e, roles(e)->interval), n, stage;
    Rounds l;

    n = cpu_choose(e, LLVMBuildICmp(e->u->builder, LLVMIntSLT, left, most, ""), left, most);
    LLVMBuildStore(e->u->builder, LLVMBuildSub(e->u->builder, left, n, ""), p->left);
    l = each_round(e, op32(e, LLVMSub, n, 1));
    stage = role_stage(e, &roles(e)->ring);
    role_wait(e, &roles(e)->ring);
    load_sums(e, t, a->slot, a->sum, p->sums);
    multiply_round(e, p->group, stage, true, a->sum);
    gpu_wgmma_wait(e, 1, a->sum, p->sums);
    store_sums(e, a->slot, a->sum, p->sums);
    role_release(e, &roles(e)->ring, get(e, a->last));
    LLVMBuildStore(e->u->builder, stage, a->last);
    role_next(e, &roles(e)->ring);
    end_round(e, &l);
}

/* But so many rounds have been begun behind the part: it is added to the others. */
static void finish_part(CpuCode *e, const Parts *p, int k, int but)
{
    const Part *a = &p->part[k];
    LLVMTypeRef t = lane_type(e->u, roles(e)->out, 1);

    load_sums(e, t, a->slot, a->sum, p->sums);
    gpu_wgmma_wait(e, but, a->sum, p->sums);
    role_release(e, &roles(e)->ring, get(e, a->last));
    for (int i = 0; i < p->sums; i++)
        LLVMBuildStore(e->u->builder, LLVMBuildFAdd(e->u->builder, LLVMBuildLoad2(e->u->builder, t, p->all[i], ""), a->sum[i], ""), p->all[i]);
}

/* One after the other. */
static void add_parts(CpuCode *e, const Parts *p)
{
    int interval = roles(e)->interval;
    Rounds l = each_round(e, op32(e, LLVMUDiv, op32(e, LLVMAdd, get(e, p->left), interval - 1), interval));

    start_part(e, p, 0);
    go_on_with_part(e, p, 0);
    finish_part(e, p, 0, 0);
    end_round(e, &l);
}

/* Part k begins, and the other one is added up. */
static void next_part(CpuCode *e, const Parts *p, int k)
{
    start_part(e, p, k);
    finish_part(e, p, !k, 1);
}

/* By turns: two a round of a loop, and the last one or two behind it. */
static void add_parts_by_turns(CpuCode *e, const Parts *p)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMBasicBlockRef two = cpu_block(e), one = cpu_block(e), done = cpu_block(e);
    GpuIf any = gpu_if(e, LLVMBuildICmp(b, LLVMIntNE, get(e, p->left), i32_number(e, 0), ""));
    LLVMValueRef n = op32(e, LLVMSub, get(e, p->left), 1);
    Rounds l;

    start_part(e, p, 0);
    l = each_round(e, op32(e, LLVMLShr, n, 1));
    next_part(e, p, 1);
    next_part(e, p, 0);
    end_round(e, &l);
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntEQ, op32(e, LLVMAnd, n, 1), i32_number(e, 0), ""), one, two);
    LLVMPositionBuilderAtEnd(b, two);
    next_part(e, p, 1);
    finish_part(e, p, 1, 0);
    LLVMBuildBr(b, done);
    LLVMPositionBuilderAtEnd(b, one);
    finish_part(e, p, 0, 0);
    LLVMBuildBr(b, done);
    LLVMPositionBuilderAtEnd(b, done);
    gpu_end_if(e, &any);
}

static void add_all_rounds(CpuCode *e, LLVMValueRef group, LLVMValueRef rounds, LLVMValueRef *slot, int n)
{
    Parts p;

    begin_parts(e, group, rounds, slot, n, roles(e)->by_turns ? 2 : 1, &p);
    if (roles(e)->by_turns)
        add_parts_by_turns(e, &p);
    else
        add_parts(e, &p);
}

/* The sums become the result of the loop. */
static void end_sums(CpuCode *e, LLVMValueRef rounds, LLVMValueRef *slot, LLVMValueRef *sum, int n)
{
    Roles *r = roles(e);

    if (r->promotes) {
        role_meet_late(e);
        take_turn(e, false);
    }
    load_sums(e, lane_type(e->u, r->out, 1), slot, sum, n);
    if (r->cluster > 1)                         /* blocks beyond the last tile have to leave their slots, too */
        roles_take_all(e);
    if (r->sets > 1)
        skip_stages(e, op32(e, LLVMAdd, r->uneven ? get(e, r->others) : rounds, roles_late_rounds(r)));
    role_join_sums(e, sum, n);
    role_put_beside(e);
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
    LLVMValueRef last = llvm_slot(e->u, i32_type(e)), group = role_warpgroup(e), first, rounds, stage, some;
    Rounds l;

    role_split_rounds(e, rounds_of(e), &first, &rounds);

    for (int i = 0; i < n; i++) {
        slot[i] = llvm_slot(e->u, t);
        LLVMBuildStore(e->u->builder, LLVMConstNull(t), slot[i]);
    }
    LLVMBuildStore(e->u->builder, i32_number(e, 0), last);
    role_load_beside(e);
    take_turn(e, true);
    if (r->promotes) {
        add_all_rounds(e, group, rounds, slot, n);
        end_sums(e, rounds, slot, sum, n);
        return;
    }
    l = each_round(e, rounds);
    stage = role_stage(e, &r->ring);
    role_wait(e, &r->ring);
    load_sums(e, t, slot, sum, n);
    multiply_round(e, group, stage, true, sum);
    gpu_wgmma_wait(e, 1, sum, n);
    store_sums(e, slot, sum, n);
    some = LLVMBuildICmp(e->u->builder, LLVMIntNE, get(e, l.at), i32_number(e, 0), "");
    role_release_if(e, &r->ring, get(e, last), some);
    LLVMBuildStore(e->u->builder, stage, last);
    role_next(e, &r->ring);
    end_round(e, &l);
    role_meet_late(e);
    take_turn(e, false);
    load_sums(e, t, slot, sum, n);
    gpu_wgmma_wait(e, 0, sum, n);
    store_sums(e, slot, sum, n);
    GpuIf any = gpu_if(e, LLVMBuildICmp(e->u->builder, LLVMIntNE, rounds, i32_number(e, 0), ""));
    role_release(e, &r->ring, get(e, last));
    gpu_end_if(e, &any);
    end_sums(e, rounds, slot, sum, n);
}

/* ---- the kernel ---- */

bool roles_node(CpuCode *e, const TileNode *n)
{
    Roles *r = roles(e);

    if (r->chain && chain_node(e, n))
        return true;
    if (n == r->loop) {
        consume(e);
        return true;
    }
    if (role_is_boxed(r, n))
        return true;
    if (!r->chain && (n->op == TOP_idiv || n->op == TOP_imod) && role_is_short_quotient(n)) {
        role_emit_known(e, n);
        return true;
    }
    for (int i = 0; i < r->nstores; i++)
        if (n == r->store[i].store) {
            bool together = role_stores_together(r);
            cpu_close(e);
            if (!together || i == r->nstores - 1)               /* all of them where the last one stands */
                role_store_tiles(e, together ? r->store : &r->store[i], together ? r->nstores : 1);
            return true;
        }
    return false;
}

enum { WIDE_COLUMNS = 128 };

/* How many rounds the next tile has, whose slots this set passes over behind its own. Behind the last one there is some number. */
static void look_ahead(CpuCode *e, const RoleGroups *g)
{
    Roles *r = roles(e);

    role_enter_group(e, plus(e, get(e, g->t), role_clusters(e)));
    emit_indices(e);
    LLVMBuildStore(e->u->builder, rounds_of(e), r->others);
    role_enter_group(e, get(e, g->t));
}

/* The consumers of both sets. */
static void consumers(CpuCode *e)
{
    Roles *r = roles(e);
    RoleGroups groups;

    role_keep_registers(e, roles_groups(r), false);
    if (!r->chain)
        role_make_table(e);
    r->set = i32_number(e, 0);
    r->others = llvm_slot(e->u, i32_type(e));
    r->turn = llvm_slot(e->u, i32_type(e));
    LLVMBuildStore(e->u->builder, i32_number(e, 0), r->turn);
    /* Where registers are scarce, too, if blocks are wide: of attention's derivatives by keys, 4 % quicker with 128 columns, 13 % slower with 64. */
    if (r->chain && (r->chain->sums <= SUMS_WITH_ROOM || (r->chain->nriders && r->chain->dot[0].unit.columns >= WIDE_COLUMNS)))
        r->group = role_warpgroup(e);
    if (r->chain)
        chain_begin(e);
    else
        role_enter_ring(e, &r->ring);
    if (r->sets > 1) {
        r->set = role_same_in_warp(e, op32(e, LLVMUDiv, e->gpu->thread, r->threads));
        e->gpu->thread = op32(e, LLVMURem, e->gpu->thread, r->threads);
        GpuIf second = gpu_if(e, LLVMBuildICmp(e->u->builder, LLVMIntEQ, r->set, i32_number(e, 1), ""));
        take_turn(e, false);
        role_enter_group(e, role_cluster_number(e));    /* the first one, which the other set has */
        emit_indices(e);
        skip_stages(e, op32(e, LLVMAdd, rounds_of(e), roles_late_rounds(r)));
        gpu_end_if(e, &second);
    }
    groups = r->chain ? chain_taken(e) : role_each_group(e, r->set, r->sets);
    if (r->uneven)
        look_ahead(e, &groups);
    cpu_emit_block(e, &e->k->body);
    role_end_rest(e);
    if (r->chain)
        chain_end_group(e);
    if (!r->chain || e->fixed_bytes != r->shared)
        gpu_fence(e);                           /* the next group may use the same memory */
    if (r->chain)
        chain_taken_end(e, &groups);
    else
        role_end_group(e, &groups);
    gpu_tensor_wait(e, 0, false);
}

void roles_emit(CpuCode *e)
{
    Roles *r = roles(e);
    LLVMBasicBlockRef producer = cpu_block(e), consumer = cpu_block(e), done = cpu_block(e);
    LLVMValueRef role;

    e->fixed_bytes = r->shared;
    r->base = gpu_shared_address(e, e->scratch);
    r->rank = role_rank(e);
    make_barriers(e);
    role = role_same_in_warp(e, op32(e, LLVMUDiv, e->gpu->thread, GPU_WARP));
    role = LLVMBuildICmp(e->u->builder, LLVMIntUGE, role, i32_number(e, r->sets * r->threads / GPU_WARP), "");
    LLVMBuildCondBr(e->u->builder, role, producer, consumer);
    LLVMPositionBuilderAtEnd(e->u->builder, producer);
    role_keep_registers(e, roles_groups(r), true);
    GpuIf one = gpu_if(e, LLVMBuildICmp(e->u->builder, LLVMIntEQ, e->gpu->thread, i32_number(e, r->sets * r->threads), ""));
    if (r->chain)
        chain_produce(e);
    else
        produce(e);
    gpu_end_if(e, &one);
    LLVMBuildBr(e->u->builder, done);
    LLVMPositionBuilderAtEnd(e->u->builder, consumer);
    consumers(e);
    LLVMBuildBr(e->u->builder, done);
    LLVMPositionBuilderAtEnd(e->u->builder, done);
    role_leave_cluster(e);
    if (r->sets > 1 && e->fixed_bytes != r->shared)
        cpu_refuse(e, "memory of a group that two sets would share");
}
