/*
 * Blocks of threads that work together (clusters): they reach each other's shared memory and barriers.
 *
 * Blocks that divide the steps (`split=P`): each does its share of a tile's rounds, then hands its sums to the first one, which adds them to
 * its own in the order of the blocks' numbers, and goes on with the tile alone.  So a product with few tiles and many steps, which
 * memory limits, has all processors bring it, and the bits are the same in each run.
 *
 *      block p > 0                                         block 0
 *      wait until its place there is free; store the sums  wait until `full` has counted all bytes; add them
 *      there, by stores that `full` counts                 arrive at `free` of the others; what follows the loop
 *
 * Blocks that share (`cluster=2`): they take tiles side by side along one of the grid's last two axes, and the operand that does not depend on it,
 * the larger one, is the same for both.  Each brings half of it, to both.  A slot is empty when the consumers of both blocks have read it.
 *
 * Those stores are the generic proxy's, as the loads of who takes the sums are, so the barriers alone order them.  Tensor copies, which
 * gpu_roles_late.c has beside loads, need a fence of proxies.
 *
 * No block ends before all have come to the end, and none begins before the barriers of all are made.
 */
#include "codegen/gpu_roles.h"

#include "base/alloc.h"

enum { FULL = 0, FREE = 8, CLUSTER_MOST = 8, GIVEN_MOST = 64 << 10, EIGHT_ROWS = 8 };

/* ---- what a schedule asks for ---- */

/* Does an index depend on the group's number along an axis of the grid? */
static bool follows(const TileNode *n, int axis)
{
    if (n->op == TOP_group)
        return n->attr->axis == axis;
    if (n->op == TILE_PARAM)
        return false;
    for (int i = 0; i < n->nin; i++)
        if (follows(n->in[i].node, axis))
            return true;
    return false;
}

static bool load_follows(const TileNode *load, int axis)
{
    for (int i = 0; i < load->nin; i++)
        if (follows(load->in[i].node, axis))
            return true;
    return false;
}

/* The operand that does not depend on where along an axis of the grid a tile is, in boxes that can be halved; -1: there is none, or both do not. */
static int shared_along(const Roles *r, int axis)
{
    int operand = -1;

    for (int i = 0; i < 3; i++)
        if (follows(r->loop->in[i].node, axis))
            return -1;
    for (int i = 0; i < 2; i++)
        if (!load_follows(r->o[i].load, axis)) {
            if (operand >= 0)
                return -1;
            operand = i;
        }
    return operand >= 0 && !r->o[operand].box[2] && r->o[operand].box[1] % (2 * EIGHT_ROWS) == 0 ? operand : -1;
}

/* false: there is none. */
static bool find_shared(const CpuCode *e, Roles *r)
{
    int axes = e->k->grid.n;
    bool found = false;

    for (int axis = axes - 1; axes > 1 && axis >= axes - 2; axis--) {
        int operand = shared_along(r, axis);
        if (operand < 0 || (found && r->o[operand].bytes <= r->o[r->shared_operand].bytes))
            continue;
        r->shared_operand = operand;
        r->shared_axis = axis;
        found = true;
    }
    return found;
}

int64_t roles_given_bytes(const Roles *r)
{
    return roles_split(r) ? (r->cluster - 1) * (int64_t)r->extent[0] * r->extent[1] * 4 : 0;
}

void roles_find_cluster(const CpuCode *e, Roles *r)
{
    int64_t split = tile_schedule(e->k, "split", 1), share = tile_schedule(e->k, "cluster", 1);

    r->cluster = 1;
    if (split > 1 && split <= CLUSTER_MOST && r->sets == 1) {
        r->cluster = (int)split;
        r->splits = true;
        if (roles_given_bytes(r) <= GIVEN_MOST)
            return;
        r->cluster = 1;
        r->splits = false;
    }
    if (share == 2 && find_shared(e, r)) {
        r->cluster = 2;
        r->o[r->shared_operand].box[1] /= 2;
    }
}

/* ---- numbers ---- */

static LLVMValueRef special(CpuCode *e, const char *name)
{
    LLVMValueRef none = NULL;

    return cpu_intrinsic(e, name, &(LLVMTypeRef){NULL}, 0, &none, 0);
}

LLVMValueRef role_rank(CpuCode *e)
{
    return roles(e)->cluster > 1 ? op32(e, LLVMURem, special(e, "llvm.nvvm.read.ptx.sreg.ctaid.x"), roles(e)->cluster) : i32_number(e, 0);
}

LLVMValueRef role_cluster_number(CpuCode *e)
{
    LLVMValueRef block = special(e, "llvm.nvvm.read.ptx.sreg.ctaid.x");

    return roles(e)->cluster > 1 ? op32(e, LLVMUDiv, block, roles(e)->cluster) : block;
}

LLVMValueRef role_clusters(CpuCode *e)
{
    LLVMValueRef blocks = special(e, "llvm.nvvm.read.ptx.sreg.nctaid.x");

    return roles(e)->cluster > 1 ? op32(e, LLVMUDiv, blocks, roles(e)->cluster) : blocks;
}

void role_split_rounds(CpuCode *e, LLVMValueRef all, LLVMValueRef *first, LLVMValueRef *n)
{
    const Roles *r = roles(e);

    *first = i32_number(e, 0);
    *n = all;
    if (!roles_split(r))
        return;
    *first = op32(e, LLVMUDiv, LLVMBuildMul(e->u->builder, all, r->rank, ""), r->cluster);
    *n = op32(e, LLVMUDiv, LLVMBuildMul(e->u->builder, all, op32(e, LLVMAdd, r->rank, 1), ""), r->cluster);
    *n = LLVMBuildSub(e->u->builder, *n, *first, "");
}

/* ---- beginning and end ---- */

void role_enter_cluster(CpuCode *e)
{
    Roles *r = roles(e);

    if (r->cluster <= 1)
        return;
    gpu_cluster_barrier(e);
}

void role_leave_cluster(CpuCode *e)
{
    if (roles(e)->cluster > 1)
        gpu_cluster_barrier(e);
}

static LLVMValueRef barrier_at(CpuCode *e, int64_t which)
{
    return plus(e, roles(e)->base, i32_number(e, roles(e)->given_barriers + which));
}

void role_init_given(CpuCode *e)
{
    const Roles *r = roles(e);
    int warps = r->threads / GPU_WARP;

    if (!roles_split(r))
        return;
    gpu_barrier_init(e, barrier_at(e, FULL), 1);
    gpu_barrier_init(e, barrier_at(e, FREE), warps);
}

/* ---- sums of a tile ---- */

static LLVMValueRef lane_of(CpuCode *e) { return op32(e, LLVMAnd, e->gpu->thread, GPU_WARP - 1); }

static LLVMValueRef is_zero(CpuCode *e, LLVMValueRef x) { return LLVMBuildICmp(e->u->builder, LLVMIntEQ, x, i32_number(e, 0), ""); }

/* Where sum i of this thread lies, of those that block `giver`, an i32 from 1 on, gives: sums of neighbours side by side. */
static LLVMValueRef given_at(CpuCode *e, LLVMValueRef giver, int n, int i)
{
    const Roles *r = roles(e);
    LLVMValueRef at = op32(e, LLVMMul, op32(e, LLVMSub, giver, 1), 4 * (int64_t)n * r->threads);

    at = plus(e, plus(e, r->base, at), op32(e, LLVMMul, e->gpu->thread, 4));
    return op32(e, LLVMAdd, at, r->given + 4 * (int64_t)i * r->threads);
}

/* Lanes of this warp that are numbers of other blocks than the first one say that its places are free. */
static void set_free(CpuCode *e)
{
    LLVMValueRef lane = lane_of(e), other;

    other = LLVMBuildICmp(e->u->builder, LLVMIntULT, op32(e, LLVMSub, lane, 1), i32_number(e, roles(e)->cluster - 1), "");
    GpuIf tells = gpu_if(e, other);
    gpu_barrier_arrive_at(e, gpu_in_block(e, barrier_at(e, FREE), lane));
    gpu_end_if(e, &tells);
}

static void give(CpuCode *e, LLVMValueRef *sum, int n)
{
    LLVMValueRef first = i32_number(e, 0), to, full;

    gpu_barrier_wait(e, barrier_at(e, FREE), op32(e, LLVMXor, get(e, roles(e)->turn), 1));
    to = gpu_in_block(e, given_at(e, roles(e)->rank, n, 0), first);
    full = gpu_in_block(e, barrier_at(e, FULL), first);
    for (int i = 0; i < n; i++)
        gpu_store_at(e, op32(e, LLVMAdd, to, 4 * (int64_t)i * roles(e)->threads), sum[i], full);
}

static void take(CpuCode *e, LLVMValueRef *sum, int n)
{
    const Roles *r = roles(e);
    LLVMBuilderRef b = e->u->builder;
    LLVMTypeRef shared = LLVMPointerTypeInContext(e->u->context, 3), t = LLVMTypeOf(sum[0]);

    GpuIf one = gpu_if(e, is_zero(e, e->gpu->thread));
    gpu_barrier_expect(e, barrier_at(e, FULL), roles_given_bytes(r));
    gpu_end_if(e, &one);
    gpu_barrier_wait_others(e, barrier_at(e, FULL), get(e, r->turn));
    for (int p = 1; p < r->cluster; p++)
        for (int i = 0; i < n; i++) {
            LLVMValueRef x = LLVMBuildLoad2(b, t, LLVMBuildIntToPtr(b, given_at(e, i32_number(e, p), n, i), shared, ""), "");
            sum[i] = r->unit.real ? LLVMBuildFAdd(b, sum[i], x, "") : LLVMBuildAdd(b, sum[i], x, "");
        }
    gpu_warp_fence(e);
    set_free(e);
}

void role_join_sums(CpuCode *e, LLVMValueRef *sum, int n)
{
    Roles *r = roles(e);
    LLVMBuilderRef b = e->u->builder;
    LLVMBasicBlockRef giver, taker, next;

    if (roles_share(r)) {
        r->rest = gpu_if(e, cpu_compare(e, LLVMIntSLT, e->group[r->shared_axis], cpu_groups(e, r->shared_axis)));
    }
    if (!roles_split(r))
        return;
    giver = cpu_block(e), taker = cpu_block(e), next = cpu_block(e);
    LLVMBuildCondBr(b, is_zero(e, r->rank), taker, giver);
    LLVMPositionBuilderAtEnd(b, giver);
    give(e, sum, n);
    LLVMBuildBr(b, next);
    LLVMPositionBuilderAtEnd(b, taker);
    take(e, sum, n);
    r->rest = (GpuIf){next};
}

void role_end_rest(CpuCode *e)
{
    Roles *r = roles(e);

    if (r->cluster <= 1)
        return;
    gpu_end_if(e, &r->rest);
    LLVMBuildStore(e->u->builder, op32(e, LLVMXor, get(e, r->turn), 1), r->turn);
}

/* ---- slots that both fill ---- */

void role_arrive_everywhere(CpuCode *e, LLVMValueRef bar, LLVMValueRef is)
{
    LLVMValueRef lane = lane_of(e), tells = LLVMBuildICmp(e->u->builder, LLVMIntULT, lane, i32_number(e, roles(e)->cluster), "");
    GpuIf each = gpu_if(e, is ? LLVMBuildAnd(e->u->builder, is, tells, "") : tells);

    gpu_barrier_arrive_at(e, gpu_in_block(e, bar, lane));
    gpu_end_if(e, &each);
}
