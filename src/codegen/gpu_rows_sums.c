/*
 * What threads have summed of whole rows, together: a thread's elements of a lane, the lanes of a chunk, the chunks of a row.
 *
 * Lanes meet in registers, and so do the chunks of a row within a warp; those of several warps meet in shared memory, in the balanced tree
 * that semantics 9.3 asks for (gpu_rows.c).
 */
#include "codegen/gpu_rows.h"

#include "base/alloc.h"

LLVMValueRef rows_identity(CpuCode *e, const Sink *s) { return cpu_identity(e, (OpId)s->node->attr->op, sink_dtype(s), 1); }

LLVMValueRef rows_sink_join(CpuCode *e, const Sink *s, LLVMValueRef a, LLVMValueRef b)
{
    return cpu_step(e, tile_step_op((OpId)s->node->attr->op), sink_dtype(s), a, b, 1);
}

bool rows_in_turn(const CpuCode *e, const Sink *s)
{
    OpId step = tile_step_op((OpId)s->node->attr->op);

    return e->gpu->whole.halves > 1 && e->gpu->whole.run == 1 && dtype_is_inexact(sink_dtype(s)) && (step == OP_add || step == OP_mul);
}

static LLVMValueRef join_threads(CpuCode *e, const Sink *s, LLVMValueRef x, int from, int end)
{
    for (int by = from; by < end; by *= 2)
        x = rows_sink_join(e, s, x, gpu_other(e, x, by, i32_number(e, -1)));
    return x;
}

/* The elements of a thread, after x. */
static LLVMValueRef follow(CpuCode *e, const Sink *s, LLVMValueRef x, LLVMValueRef *slot)
{
    for (int r = 0; r < rows_registers(e); r++)
        x = rows_sink_join(e, s, x, LLVMBuildLoad2(e->u->builder, lane_type(e->u, sink_dtype(s), 1), slot[r], ""));
    return x;
}

/* What a lane of this thread adds up to in a chunk: with two halves the same in the threads of both. */
static LLVMValueRef lane_sum(CpuCode *e, const Sink *s, LLVMValueRef *slot, int lane)
{
    LLVMValueRef none = i32_number(e, -1), second, x, y;

    if (!rows_in_turn(e, s)) {
        x = LLVMBuildLoad2(e->u->builder, lane_type(e->u, sink_dtype(s), 1), slot[lane], "");
        return e->gpu->whole.halves == 1 ? x : rows_sink_join(e, s, x, gpu_other(e, x, GPU_OCTET, none));
    }
    second = LLVMBuildAnd(e->u->builder, e->gpu->thread, i32_number(e, GPU_OCTET), "");
    second = LLVMBuildICmp(e->u->builder, LLVMIntNE, second, i32_number(e, 0), "");
    x = gpu_other(e, follow(e, s, rows_identity(e, s), slot), GPU_OCTET, none);
    y = follow(e, s, x, slot);
    return cpu_choose(e, second, y, gpu_other(e, y, GPU_OCTET, none));
}

/* A row's chunks, of which a thread takes `each` that follow each other: those beyond the last are identities. */
static LLVMValueRef some_chunks(CpuCode *e, const Sink *s, LLVMValueRef meet, LLVMValueRef chunks, LLVMValueRef row, LLVMValueRef thread, int first,
                                int each)
{
    LLVMValueRef at, there, x;

    if (each > 1)
        return rows_sink_join(e, s, some_chunks(e, s, meet, chunks, row, thread, first, each / 2),
                              some_chunks(e, s, meet, chunks, row, thread, first + each / 2, each / 2));
    at = cpu_op(e, LLVMAdd, thread, cpu_number(e, first));
    there = cpu_compare(e, LLVMIntSLT, at, chunks);
    at = cpu_op(e, LLVMAdd, cpu_op(e, LLVMMul, row, chunks), cpu_choose(e, there, at, cpu_number(e, 0)));
    x = cpu_load_flat(e, sink_dtype(s), meet, at, 1);
    return cpu_choose(e, there, x, rows_identity(e, s));
}

/* Chunks of a row that stand in several warps: a warp takes a row. */
void rows_join_chunks(CpuCode *e, const Sink *s, LLVMValueRef meet, LLVMValueRef chunks, int most)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMValueRef lane = LLVMBuildURem(b, e->gpu->thread, i32_number(e, GPU_WARP), "");
    LLVMValueRef warp = LLVMBuildUDiv(b, e->gpu->thread, i32_number(e, GPU_WARP), "");
    int all = 1, each;
    CpuLoop rows = cpu_loop(e, row_wide(e, warp), cpu_number(e, e->gpu->whole.rows), cpu_number(e, e->gpu->threads / GPU_WARP));

    while (all < most)
        all *= 2;
    each = all > GPU_WARP ? all / GPU_WARP : 1;
    LLVMValueRef x = some_chunks(e, s, meet, chunks, rows.i, cpu_op(e, LLVMMul, row_wide(e, lane), cpu_number(e, each)), 0, each);
    x = join_threads(e, s, x, 1, all / each);
    GpuIf first = gpu_if(e, LLVMBuildICmp(b, LLVMIntEQ, lane, i32_number(e, 0), ""));
    cpu_store_flat(e, sink_dtype(s), s->buffer, rows.i, x, NULL);
    gpu_end_if(e, &first);
    cpu_loop_end(e, &rows);
}

LLVMValueRef rows_chunk_sum(CpuCode *e, const Sink *s, LLVMValueRef *slot)
{
    LLVMValueRef x[2];

    for (int lane = 0; lane < e->gpu->whole.wide; lane++) {
        x[lane] = lane_sum(e, s, slot, lane);
        for (int by = e->gpu->whole.each / 2; by; by /= 2)
            x[lane] = rows_sink_join(e, s, x[lane], gpu_other(e, x[lane], by, i32_number(e, -1)));
    }
    return e->gpu->whole.wide > 1 ? rows_sink_join(e, s, x[0], x[1]) : x[0];
}

/* Chunks, then rows. */
void rows_join(CpuCode *e, const Cluster *c, LLVMValueRef *const *slot)
{
    const WholeRows *w = &e->gpu->whole;
    bool in_warp = w->blocks == 1 && (w->chunks == 1 || w->chunks == 2 || w->chunks == 4);
    int span = in_warp ? w->chunks : w->halves;         /* chunks that are joined here */
    LLVMValueRef *meet = tsr_calloc(sizeof *meet * (size_t)c->sinks.n), octet, at, x;
    int64_t met = 0;

    octet = LLVMBuildAdd(e->u->builder, rows_octet(e), rows_first_chunk(e), "");
    for (int i = 0; i < c->sinks.n; i++) {
        const Sink *s = &c->sinks.at[i];
        if (!sink_reduces(s))
            continue;
        x = rows_chunk_sum(e, s, slot[i]);
        x = join_threads(e, s, x, w->each * w->halves, w->each * span);
        if (!in_warp) {
            int64_t bytes = (int64_t)w->rows * (w->chunks / w->halves) * row_bytes(lane_dtype(sink_dtype(s)));
            meet[i] = cpu_buffer(e, bytes);
            met += bytes;
        }
        at = LLVMBuildURem(e->u->builder, e->gpu->thread, i32_number(e, w->each * span), "");
        if (w->blocks > 1) {
            rows_give(e, s, meet[i], LLVMBuildUDiv(e->u->builder, octet, i32_number(e, span), ""), at, x);
            continue;
        }
        GpuIf first = gpu_if(e, LLVMBuildICmp(e->u->builder, LLVMIntEQ, at, i32_number(e, 0), ""));
        at = LLVMBuildUDiv(e->u->builder, octet, i32_number(e, span), "");
        cpu_store_flat(e, sink_dtype(s), in_warp ? s->buffer : meet[i], row_wide(e, at), x, NULL);
        gpu_end_if(e, &first);
    }
    if (met && w->blocks > 1) {
        rows_await(e, met);
    } else if (met) {
        gpu_written(e);
        gpu_fence(e);
    }
    for (int i = 0; i < c->sinks.n; i++)
        if (meet[i])
            rows_join_chunks(e, &c->sinks.at[i], meet[i], cpu_number(e, w->chunks / w->halves), w->chunks / w->halves);
    tsr_free(meet);
}
