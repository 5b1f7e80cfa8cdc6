/*
 * What roles share: rings of slots between who brings blocks and who multiplies them, and the groups that a block takes in turn.
 *
 * A slot has two barriers.  The producer waits until it is empty, says how many bytes will come, and sends for them; consumers wait until
 * it is full, and a lane of each of their warps says when it has read it.  Each role goes round the ring with a place and a phase of its own.
 */
#include "codegen/gpu_chain.h"

enum { SECTION_BYTES = 32 << 20, DONE_BARRIER = 1, ARRIVALS = GROUP_THREADS / GPU_WARP };

LLVMValueRef role_same_in_warp(CpuCode *e, LLVMValueRef x) { return gpu_from(e, x, i32_number(e, 0), i32_number(e, -1)); }

LLVMValueRef role_warpgroup(CpuCode *e)
{
    return roles(e)->group ? roles(e)->group : role_same_in_warp(e, op32(e, LLVMUDiv, e->gpu->thread, GROUP_THREADS));
}

void roles_fence(CpuCode *e) { gpu_named_barrier(e, op32(e, LLVMAdd, roles(e)->set, DONE_BARRIER), roles(e)->threads); }

bool gpu_is_chain(const CpuCode *e) { return roles(e) && roles(e)->chain; }
bool roles_read_own(const CpuCode *e) { return roles(e)->reads_own; }

/* ---- the ring ---- */

LLVMValueRef role_full(CpuCode *e, const RoleRing *g, LLVMValueRef stage)
{
    return plus(e, roles(e)->base, op32(e, LLVMAdd, op32(e, LLVMMul, stage, 8), g->barriers));
}

static LLVMValueRef empty_barrier(CpuCode *e, const RoleRing *g, LLVMValueRef stage)
{
    return op32(e, LLVMAdd, role_full(e, g, stage), 8 * (int64_t)g->stages);
}

void role_enter_ring(CpuCode *e, RoleRing *g)
{
    g->stage = llvm_slot(e->u, i32_type(e));
    g->phase = llvm_slot(e->u, i32_type(e));
    LLVMBuildStore(e->u->builder, i32_number(e, 0), g->stage);
    LLVMBuildStore(e->u->builder, i32_number(e, 0), g->phase);
}

LLVMValueRef role_stage(CpuCode *e, const RoleRing *g) { return get(e, g->stage); }

void role_next(CpuCode *e, const RoleRing *g)
{
    LLVMValueRef s = op32(e, LLVMAdd, get(e, g->stage), 1);
    LLVMValueRef last = LLVMBuildICmp(e->u->builder, LLVMIntEQ, s, i32_number(e, g->stages), "");

    LLVMBuildStore(e->u->builder, cpu_choose(e, last, i32_number(e, 0), s), g->stage);
    LLVMBuildStore(e->u->builder, LLVMBuildXor(e->u->builder, get(e, g->phase), LLVMBuildZExt(e->u->builder, last, i32_type(e), ""), ""), g->phase);
}

void role_wait(CpuCode *e, const RoleRing *g) { role_wait_at(e, g, get(e, g->stage), get(e, g->phase)); }
LLVMValueRef role_phase(CpuCode *e, const RoleRing *g) { return get(e, g->phase); }

void role_wait_at(CpuCode *e, const RoleRing *g, LLVMValueRef stage, LLVMValueRef phase)
{
    gpu_barrier_wait(e, role_full(e, g, stage), phase);
}

LLVMValueRef role_peek(CpuCode *e, const RoleRing *g) { return gpu_barrier_peek(e, role_full(e, g, get(e, g->stage)), get(e, g->phase)); }

void role_wait_unless(CpuCode *e, const RoleRing *g, LLVMValueRef full)
{
    gpu_barrier_wait_unless(e, full, role_full(e, g, get(e, g->stage)), get(e, g->phase));
}

LLVMValueRef role_room(CpuCode *e, const RoleRing *g)
{
    LLVMValueRef stage = get(e, g->stage);

    gpu_barrier_wait(e, empty_barrier(e, g, stage), op32(e, LLVMXor, get(e, g->phase), 1));
    return stage;
}

void role_fill(CpuCode *e, const RoleRing *g, LLVMValueRef stage) { gpu_barrier_arrive(e, role_full(e, g, stage)); }

LLVMValueRef role_make_room(CpuCode *e, const RoleRing *g, int64_t bytes)
{
    LLVMValueRef stage = role_room(e, g);

    gpu_barrier_expect(e, role_full(e, g, stage), bytes);
    return stage;
}

/* Registers of a thread from here on, all of whose warpgroup are here. */
void role_keep_registers(CpuCode *e, int consumers, bool producer)
{
    static const struct { int producer, consumer; } share[] = {[2] = {40, 232}, [3] = {32, 160}};

    if (consumers > 1)
        gpu_keep_registers(e, producer ? share[consumers].producer : share[consumers].consumer, !producer);
}

static LLVMValueRef is_first_lane(CpuCode *e)
{
    return LLVMBuildICmp(e->u->builder, LLVMIntEQ, op32(e, LLVMAnd, e->gpu->thread, GPU_WARP - 1), i32_number(e, 0), "");
}

void role_release_if(CpuCode *e, const RoleRing *g, LLVMValueRef stage, LLVMValueRef is)
{
    LLVMValueRef first = is_first_lane(e);

    if (roles_share(roles(e))) {
        role_arrive_everywhere(e, empty_barrier(e, g, stage), is);
        return;
    }
    GpuIf one = gpu_if(e, is ? LLVMBuildAnd(e->u->builder, is, first, "") : first);

    gpu_barrier_arrive(e, empty_barrier(e, g, stage));
    gpu_end_if(e, &one);
}

void role_release(CpuCode *e, const RoleRing *g, LLVMValueRef stage) { role_release_if(e, g, stage, NULL); }

void role_init_ring(CpuCode *e, const RoleRing *g)
{
    int readers = roles_share(roles(e)) ? roles(e)->cluster : 1;

    for (int s = 0; s < g->stages; s++) {
        gpu_barrier_init(e, role_full(e, g, i32_number(e, s)), 1);
        gpu_barrier_init(e, empty_barrier(e, g, i32_number(e, s)), readers * ARRIVALS * roles(e)->threads / GROUP_THREADS);
    }
}

/* ---- boxes ---- */

void role_coordinates(CpuCode *e, const TileNode *n, MapAxes axes, LLVMValueRef *at)
{
    int rank = tile_type(n->in[0])->rank;

    for (int i = 0; i < rank; i++)
        at[i] = narrow(e, cpu_val(e, n->in[1 + gpu_map_axis(rank, axes.inner, axes.second, i)])->x);
}

/*
 * Of a part that begins at row s and has n, a box at its row r has v = n - r rows, but not more than its own b, nor fewer than none: those that
 * begin v rows before the end of the map's long axis, at row s + r + v of the parameter less that length (far_code.h).
 */
int role_end_rows(CpuCode *e, const TileNode *n, const TileNode *part, int second, int rows, LLVMValueRef *at)
{
    int rank = tile_type(n->in[0])->rank;
    LLVMValueRef start, extent, has, none = i32_number(e, 0), all = i32_number(e, rows), end = i32_number(e, GPU_END);

    if (!part)
        return rank;
    start = narrow(e, cpu_val(e, part->in[1 + second])->x);
    extent = narrow(e, cpu_val(e, part->in[1 + rank + second])->x);
    has = LLVMBuildSub(e->u->builder, extent, at[1], "");
    has = cpu_choose(e, LLVMBuildICmp(e->u->builder, LLVMIntSLT, has, none, ""), none, has);
    has = cpu_choose(e, LLVMBuildICmp(e->u->builder, LLVMIntSLT, has, all, ""), has, all);
    for (int i = rank + 1; i > 3; i--)
        at[i] = at[i - 2];
    at[2] = plus(e, plus(e, start, at[1]), has);
    at[1] = LLVMBuildSub(e->u->builder, end, has, "");
    at[3] = end;
    return rank + 2;
}

void role_bring(CpuCode *e, const RoleRing *g, const RoleOperand *o, const TileNode *load, LLVMValueRef map, LLVMValueRef stage)
{
    const Roles *r = roles(e);
    bool halved = roles_share(r) && o == &r->o[r->shared_operand];
    int rank;
    LLVMValueRef at[MAP_AXES], first, to, all = LLVMConstInt(LLVMInt16TypeInContext(e->u->context), (1u << r->cluster) - 1, false);

    role_coordinates(e, load, o->axes, at);
    first = at[0];
    to = plus(e, roles(e)->base, op32(e, LLVMAdd, op32(e, LLVMMul, stage, o->bytes), o->at));
    if (halved) {                               /* this block's part of each box, for all */
        at[1] = plus(e, at[1], op32(e, LLVMMul, r->rank, o->box[1]));
        to = plus(e, to, op32(e, LLVMMul, r->rank, (int64_t)o->box[1] * o->span));
    }
    rank = role_end_rows(e, load, o->part, o->axes.second, o->box[1], at);
    for (int s = 0; s < o->slabs; s++) {
        LLVMValueRef place = op32(e, LLVMAdd, to, s * o->slab);
        at[0] = op32(e, LLVMAdd, first, (int64_t)s * o->box[0]);
        if (halved)
            gpu_tensor_load_all(e, place, map, at, rank, role_full(e, g, stage), all);
        else
            gpu_tensor_load(e, place, map, at, rank, role_full(e, g, stage));
    }
}

/* ---- groups ---- */

/* Of what loops load for a place across, at most: all of each matrix that comes through a ring, in kilobytes, an i32 from 1 on. */
static LLVMValueRef streamed(CpuCode *e)
{
    const Chain *c = roles(e)->chain;
    LLVMValueRef all = cpu_number(e, (1 << 10) - 1), one = i32_number(e, 1);

    for (int i = 0; i < c->nrings; i++) {
        TileRef view = c->ring[i].o.load->in[0];
        int rank = tile_type(view)->rank;
        const Val *v = cpu_val(e, view);
        LLVMValueRef bytes = cpu_op(e, LLVMMul, v->extent[rank - 1], cpu_number(e, (int64_t)raw_size((DType)tile_type(view)->dtype)));
        if (!c->ring[i].stays)
            all = cpu_op(e, LLVMAdd, all, cpu_op(e, LLVMMul, v->extent[rank - 2], bytes));
    }
    all = narrow(e, LLVMBuildLShr(e->u->builder, all, cpu_number(e, 10), ""));
    return cpu_choose(e, LLVMBuildICmp(e->u->builder, LLVMIntEQ, all, i32_number(e, 0), ""), one, all);
}

static LLVMValueRef within(CpuCode *e, LLVMValueRef x, LLVMValueRef least, LLVMValueRef most)
{
    x = cpu_choose(e, LLVMBuildICmp(e->u->builder, LLVMIntULT, x, least, ""), least, x);
    return cpu_choose(e, LLVMBuildICmp(e->u->builder, LLVMIntULT, most, x, ""), most, x);
}

static LLVMValueRef quotient_up(CpuCode *e, LLVMValueRef x, LLVMValueRef by)
{
    return LLVMBuildUDiv(e->u->builder, plus(e, x, op32(e, LLVMSub, by, 1)), by, "");
}

/*
 * The place with number t of a plane of groups of a chain, whose groups across load other matrices: as many across side by side as have their
 * matrices in the L2 cache, through all down, the longest first.
 */
static void enter_section(CpuCode *e, LLVMValueRef t, LLVMValueRef down, LLVMValueRef across, LLVMValueRef *at)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMValueRef one = i32_number(e, 1), side = one, first, rest;

    if (roles(e)->chain->uneven) {              /* sections of the same size: the last one's longest groups are not to be the last of all */
        side = within(e, LLVMBuildUDiv(b, i32_number(e, SECTION_BYTES >> 10), streamed(e), ""), one, across);
        side = quotient_up(e, across, quotient_up(e, across, side));
    }
    first = LLVMBuildMul(b, LLVMBuildUDiv(b, t, LLVMBuildMul(b, down, side, ""), ""), side, "");
    rest = LLVMBuildSub(b, t, LLVMBuildMul(b, down, first, ""), "");
    side = within(e, side, one, LLVMBuildSub(b, across, first, ""));
    at[0] = LLVMBuildUDiv(b, rest, side, "");
    at[1] = plus(e, first, LLVMBuildURem(b, rest, side, ""));
    if (roles(e)->chain->grows)
        at[0] = LLVMBuildSub(b, op32(e, LLVMSub, down, 1), at[0], "");
}

/* The place with number t of a plane of groups, down by across: `order` places down side by side, through all across. */
static void enter_plane(CpuCode *e, LLVMValueRef t, LLVMValueRef down, LLVMValueRef across, LLVMValueRef *at)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMValueRef order = i32_number(e, roles(e)->order), strip = LLVMBuildMul(b, order, across, ""), first, high;

    if (roles(e)->chain) {
        enter_section(e, t, down, across, at);
        return;
    }
    first = LLVMBuildMul(b, LLVMBuildUDiv(b, t, strip, ""), order, "");
    t = LLVMBuildURem(b, t, strip, "");
    high = LLVMBuildSub(b, down, first, "");
    high = cpu_choose(e, LLVMBuildICmp(b, LLVMIntULT, high, order, ""), high, order);
    at[0] = plus(e, first, LLVMBuildURem(b, t, high, ""));
    at[1] = LLVMBuildUDiv(b, t, high, "");
}

static bool is_shared_axis(const CpuCode *e, int axis) { return roles_share(roles(e)) && roles(e)->shared_axis == axis; }

/* Of so many places along an axis of the grid, those of whole clusters, the last one of which may reach beyond them. */
static LLVMValueRef shared_places(CpuCode *e, int axis, LLVMValueRef n)
{
    return is_shared_axis(e, axis) ? op32(e, LLVMUDiv, op32(e, LLVMAdd, n, roles(e)->cluster - 1), roles(e)->cluster) : n;
}

/*
 * The group that is number t of those that blocks take in turn. The plane is that of the grid's last two axes, or what the one axis of a grid
 * goes through row by row.
 */
void role_enter_group(CpuCode *e, LLVMValueRef t)
{
    LLVMBuilderRef b = e->u->builder;
    int axes = e->k->grid.n;
    LLVMValueRef row = cpu_size(e, sym("_across")), down, across, at[2];

    if (axes < 2 && !row) {
        cpu_set_groups(e, wide(e, t));
        return;
    }
    across = narrow(e, axes < 2 ? row : cpu_groups(e, axes - 1));
    if (gpu_is_chain(e))
        across = gpu_anew(e, across);
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
    down = shared_places(e, axes - 2, narrow(e, cpu_groups(e, axes - 2)));
    across = shared_places(e, axes - 1, across);
    row = LLVMBuildMul(b, down, across, "");
    e->group[0] = wide(e, LLVMBuildUDiv(b, t, row, ""));
    enter_plane(e, LLVMBuildURem(b, t, row, ""), down, across, at);
    for (int i = 0; i < 2; i++) {
        if (is_shared_axis(e, axes - 2 + i))
            at[i] = plus(e, op32(e, LLVMMul, at[i], roles(e)->cluster), roles(e)->rank);
        e->group[axes - 2 + i] = wide(e, at[i]);
    }
}

RoleGroups role_each_group(CpuCode *e, LLVMValueRef first, int every)
{
    LLVMValueRef all = cpu_number(e, 1), t;
    LLVMBasicBlockRef body;
    RoleGroups g;

    for (int i = 0; i < 3; i++) {
        LLVMValueRef groups = cpu_groups(e, i);
        if (is_shared_axis(e, i))
            groups = wide(e, shared_places(e, i, narrow(e, groups)));
        all = cpu_op(e, LLVMMul, all, groups);
    }
    g.t = llvm_slot(e->u, i32_type(e));
    g.step = role_clusters(e);
    first = LLVMBuildMul(e->u->builder, first, g.step, "");
    g.step = op32(e, LLVMMul, g.step, every);
    LLVMBuildStore(e->u->builder, plus(e, first, role_cluster_number(e)), g.t);
    g.head = cpu_block(e), g.done = cpu_block(e), body = cpu_block(e);
    LLVMBuildBr(e->u->builder, g.head);
    LLVMPositionBuilderAtEnd(e->u->builder, g.head);
    t = get(e, g.t);
    LLVMBuildCondBr(e->u->builder, LLVMBuildICmp(e->u->builder, LLVMIntULT, t, narrow(e, all), ""), body, g.done);
    LLVMPositionBuilderAtEnd(e->u->builder, body);
    role_enter_group(e, t);
    return g;
}

void role_end_group(CpuCode *e, const RoleGroups *g)
{
    LLVMBuildStore(e->u->builder, plus(e, get(e, g->t), g->step), g->t);
    LLVMBuildBr(e->u->builder, g->head);
    LLVMPositionBuilderAtEnd(e->u->builder, g->done);
}
