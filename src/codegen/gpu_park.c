/*
 * Sums that wait in shared memory.
 *
 * A product whose steps go in chunks has two sums for each element: that of the chunk at hand, and that of the chunks before it, which is
 * looked at once a chunk. Where a thread has no registers for both, the latter wait in shared memory, in places of the thread's own, so that
 * nobody waits for anybody. Neighbouring threads have neighbouring places.
 */
#include "codegen/cpu_lane.h"
#include "codegen/gpu_impl.h"

enum { BESIDE_MAX = 64, AT_ONCE = 8 };          /* words that stay beside those of the chunk at hand; sums that are added up at once */

static int64_t sum_bytes(TileRef v) { return (int64_t)raw_size((DType)tile_type(v)->dtype); }

/* Is it the only thing that a loop carries, which the body adds a loop's result to and does nothing else with? */
static bool is_added_to(TileRef param)
{
    const TileBlock *b = param.node->block;
    const TileNode *next = b && b->yields.n == 1 ? b->yields.at[0].node : NULL;

    if (param.node->op != TILE_PARAM || !next || param.node != b->params.at[1] || param.node->nuse != 1 || next->op != TOP_map ||
        next->attr->op != OP_add)
        return false;
    for (int i = 0; i < 2; i++)
        if (next->in[i].node == param.node && next->in[!i].node->op == TOP_for && next->in[!i].node->block == b)
            return true;
    return false;
}

bool gpu_parks(const CpuCode *e, TileRef param)
{
    Fragment f;

    return gpu_carries_fragment(e, param) && !e->gpu->roles && gpu_fragment_of(e, tile_type(param), &f) && is_added_to(param) &&
           lane_dtype((DType)tile_type(param)->dtype) == tile_type(param)->dtype && sum_bytes(param) >= 4 &&
           gpu_registers(&f) * sum_bytes(param) / 4 > BESIDE_MAX;
}

static LLVMValueRef place(CpuCode *e, TileRef v, int number)
{
    LLVMTypeRef t = lane_type(e->u, (DType)tile_type(v)->dtype, 1);
    LLVMValueRef at = LLVMBuildAdd(e->u->builder, e->gpu->thread, i32_number(e, (int64_t)number * e->gpu->threads), "");

    return LLVMBuildGEP2(e->u->builder, t, cpu_val(e, v)->parked, &at, 1, "");
}

LLVMValueRef gpu_parked(CpuCode *e, TileRef v, int number)
{
    return LLVMBuildLoad2(e->u->builder, lane_type(e->u, (DType)tile_type(v)->dtype, 1), place(e, v, number), "");
}

void gpu_park(CpuCode *e, TileRef param, TileRef from)
{
    LLVMValueRef x[AT_ONCE];
    Fragment f;
    int all;

    gpu_fragment_of(e, tile_type(param), &f);
    all = gpu_registers(&f);
    if (!cpu_val(e, param)->parked) {
        cpu_val(e, param)->parked = cpu_buffer(e, all * sum_bytes(param) * e->gpu->threads);
        e->gpu->parks = true;
        cpu_val(e, param)->fragment = arena_array(&e->gpu->arena, LLVMValueRef, all);      /* it is one, but nobody finds it there */
    }
    for (int i = 0; i < all; i += AT_ONCE) {
        int n = all - i < AT_ONCE ? all - i : AT_ONCE;
        gpu_fragment_some(e, from, &f, i, n, x);
        for (int k = 0; k < n; k++)
            LLVMBuildStore(e->u->builder, x[k], place(e, param, i + k));
    }
}
