/*
 * Rows that several blocks of threads have together.
 *
 * A row that is too long for the registers of one block is divided among those of a cluster, which reach each other's shared memory.  Each has
 * as many chunks of it, and what stands in gpu_rows.c goes for all of them; only where the chunks' sums meet are they together.
 *
 *      block 0                         block 1
 *      sums of its chunks, to both     sums of its chunks, to both     stores that a barrier of the other side counts
 *      wait for all bytes              wait for all bytes
 *      join all chunks                 join all chunks                 in the order of R4, so both have the same
 *
 * Each cluster of sums has a barrier and a place of its own, and a block does one group.  Nobody stores into a block before it has begun, and
 * nobody ends before all has come that others store there.
 */
#include "codegen/gpu_rows.h"

#include "codegen/gpu_assembly.h"

#include <string.h>

enum { MEETINGS_MOST = 8, BARRIER = 8, PLACES_OF_64 = 1024, THREADS_BESIDE = 1024, LOOSE_THREADS = 256, LOOSE_BESIDE = 1280 };

bool rows_may_divide(const CpuCode *e, bool tensor)
{
    const WholeRows *w = &e->gpu->whole;

    return tensor && !strcmp(e->u->machine->cpu, "sm_90a") && w->chunk && w->rows == 1 && w->blocks <= GPU_OCTET;
}

LLVMValueRef gpu_rows_group(CpuCode *e, LLVMValueRef block)
{
    int blocks = e->gpu->whole.blocks;

    return blocks > 1 ? LLVMBuildUDiv(e->u->builder, block, i32_number(e, blocks), "") : block;
}

LLVMValueRef rows_first_chunk(CpuCode *e)
{
    const WholeRows *w = &e->gpu->whole;
    LLVMValueRef none = NULL, block;

    if (w->blocks <= 1)
        return i32_number(e, 0);
    block = cpu_intrinsic(e, "llvm.nvvm.read.ptx.sreg.ctaid.x", &(LLVMTypeRef){NULL}, 0, &none, 0);
    return LLVMBuildMul(e->u->builder, LLVMBuildURem(e->u->builder, block, i32_number(e, w->blocks), ""), i32_number(e, w->here), "");
}

static LLVMValueRef meeting(CpuCode *e, int number)
{
    return LLVMBuildAdd(e->u->builder, gpu_shared_address(e, e->gpu->whole.meetings), i32_number(e, (int64_t)number * BARRIER), "");
}

static LLVMValueRef is_first(CpuCode *e) { return LLVMBuildICmp(e->u->builder, LLVMIntEQ, e->gpu->thread, i32_number(e, 0), ""); }

void rows_enter_blocks(CpuCode *e)
{
    GpuIf first;

    e->gpu->whole.meetings = cpu_buffer(e, MEETINGS_MOST * BARRIER);
    first = gpu_if(e, is_first(e));
    for (int i = 0; i < MEETINGS_MOST; i++)
        gpu_barrier_init(e, meeting(e, i), 1);
    gpu_barriers_ready(e);
    gpu_end_if(e, &first);
    gpu_cluster_arrive(e);
}

void rows_meet_blocks(CpuCode *e)
{
    if (!e->gpu->whole.met)
        gpu_cluster_wait(e);
    e->gpu->whole.met = true;
}

void rows_give(CpuCode *e, const Sink *s, LLVMValueRef meet, LLVMValueRef at, LLVMValueRef thread, LLVMValueRef x)
{
    WholeRows *w = &e->gpu->whole;
    LLVMBuilderRef b = e->u->builder;
    int64_t bytes = row_bytes(lane_dtype((DType)tile_type(s->v)->dtype));
    LLVMValueRef to;

    if (bytes != 4 && bytes != 8) {
        cpu_refuse(e, "sums of %lld bytes of rows of several blocks of threads", (long long)bytes);
        return;
    }
    rows_meet_blocks(e);
    to = LLVMBuildAdd(b, gpu_shared_address(e, meet), LLVMBuildMul(b, at, i32_number(e, bytes), ""), "");
    for (int i = 0; i < w->blocks; i += w->each) {
        int left = w->blocks - i < w->each ? w->blocks - i : w->each;
        LLVMValueRef block = LLVMBuildAdd(b, thread, i32_number(e, i), "");
        GpuIf gives = gpu_if(e, LLVMBuildICmp(b, LLVMIntULT, thread, i32_number(e, left), ""));
        gpu_store_at(e, gpu_in_block(e, to, block), x, gpu_in_block(e, meeting(e, w->nmeetings), block));
        gpu_end_if(e, &gives);
    }
}

void rows_await(CpuCode *e, int64_t bytes)
{
    WholeRows *w = &e->gpu->whole;
    GpuIf first = gpu_if(e, is_first(e));

    gpu_barrier_expect(e, meeting(e, w->nmeetings), bytes);
    gpu_end_if(e, &first);
    gpu_barrier_wait_others(e, meeting(e, w->nmeetings), rows_parity(e));
    if (++w->nmeetings == MEETINGS_MOST)
        cpu_refuse(e, "more than %d sums of rows of several blocks of threads", MEETINGS_MOST - 1);
}

/* What it stores all blocks do; another one may still have to load what was there. */
void gpu_rows_apart(CpuCode *e, const Cluster *c)
{
    for (int i = 0; i < c->sinks.n; i++)
        if (c->sinks.at[i].node && c->sinks.at[i].node->op == TOP_store) {
            gpu_cluster_meet(e);
            return;
        }
}

/*
 * Groups of a processor that are to have registers beside each other, once the kernel is known: where a thread keeps one tile only, 64 are enough.
 * Large blocks of a cluster wait for each other longer, and where sums may go in any order 48 are nearly enough: one more block is worth what spills.
 */
int gpu_rows_beside(const CpuCode *e)
{
    const WholeRows *w = &e->gpu->whole;
    bool keeps_one = w->chunk && w->kept == 1 && w->run == 1 && e->gpu->threads <= PLACES_OF_64;

    if (w->nstay)
        return rows_stay_beside(e);
    if (w->blocks > 1 && w->run > 1 && e->gpu->threads >= LOOSE_THREADS)
        return LOOSE_BESIDE / e->gpu->threads;
    if (w->blocks > 1)
        return (THREADS_BESIDE + e->gpu->threads / 2) / e->gpu->threads;
    if (w->held)
        return w->two_held && 2 * e->gpu->threads <= PLACES_OF_64 ? 2 : 1;
    return keeps_one ? PLACES_OF_64 / e->gpu->threads : 0;
}
