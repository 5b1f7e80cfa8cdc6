/*
 * Pieces of long rows, brought a round ahead.
 *
 * Rows that do not fit into registers are gone over in pieces, by loops whose number says where a piece begins.  While a piece is computed,
 * asynchronous copies bring the next one into the other half of a room in shared memory, chunk by chunk; the eight threads of a chunk copy its
 * vectors, and take their elements from there.  So nobody waits for memory but before the first piece, and vectors need no registers.
 *
 *     round          0            1            2
 *     sent for     0, 1           2            3
 *     half 0       [0]           (2)          [2]
 *     half 1       (1)           [1]          (3)
 *
 * A piece is brought where it lies within its loop and its view; the last one, which may not, is read by masks.
 */
#include "codegen/gpu_rows.h"

enum { BYTES_MOST = 40 << 10 };         /* of the rooms: what leaves memory for two groups beside each other */

/* ---- which loads ---- */

static const TileNode *loop_of(const TileNode *load)
{
    const TileNode *loop = load->block->owner;

    return loop && loop->op == TOP_for && load->block == loop->region[0] ? loop : NULL;
}

/* Is it a piece of a row whose place is the loop's number? */
bool rows_is_piece(const CpuCode *e, const TileNode *load)
{
    const WholeRows *w = &e->gpu->whole;
    const TileNode *loop = load->op == TOP_load ? loop_of(load) : NULL, *step = loop ? loop->in[2].node : NULL;

    if (!loop || load->nin != 3 || !w->chunk || load->type[0].rank != 2 || load->type[0].extent[0] != w->rows ||
        load->type[0].extent[1] != w->columns)
        return false;
    return load->in[2].node == loop->region[0]->params.at[0] && load->in[1].node->block != load->block && step->op == TOP_index &&
           step->attr->i == w->columns && tile_type(load->in[0])->stride[0] != 0;
}

/* A piece that copies can bring. */
static bool has_room(const CpuCode *e, const TileNode *load) { return rows_is_piece(e, load) && rows_by_vectors(e, load) && !e->gpu->whole.held; }

static int64_t room_bytes(const CpuCode *e, const TileNode *load)
{
    return 2 * (e->gpu->threads / GPU_OCTET) * rows_pitch(&e->gpu->whole, (int64_t)raw_size(row_dtype(load)));
}

/* Bytes of the rooms of a block's pieces. */
static int64_t block_bytes(const CpuCode *e, const TileBlock *b)
{
    int64_t all = 0;

    for (const TileNode *n = b->first; n; n = n->next)
        all += has_room(e, n) ? room_bytes(e, n) : 0;
    return all;
}

void rows_ahead_memory(CpuCode *e)
{
    WholeRows *w = &e->gpu->whole;
    int64_t most = 0;

    for (const TileNode *n = e->k->body.first; n; n = n->next) {
        int64_t bytes = n->op == TOP_for ? block_bytes(e, n->region[0]) : 0;
        most = bytes > most && bytes <= BYTES_MOST ? bytes : most;
    }
    w->ahead = most && !e->gpu->copies ? cpu_buffer(e, most) : NULL;
}

bool rows_come_ahead(const CpuCode *e, const TileNode *load)
{
    return e->gpu->whole.ahead && has_room(e, load) && load->block->owner->block == &e->k->body && block_bytes(e, load->block) <= BYTES_MOST;
}

/* ---- rooms ---- */

/* Where this thread's chunk of a load lies in a half, 0 or 1, of its room. */
static LLVMValueRef stage_in(CpuCode *e, const TileNode *load, LLVMValueRef half)
{
    int64_t bytes = room_bytes(e, load), before = 0;
    LLVMValueRef at = LLVMBuildMul(e->u->builder, LLVMBuildZExt(e->u->builder, rows_octet(e), i64_type(e), ""),
                                   cpu_number(e, rows_pitch(&e->gpu->whole, (int64_t)raw_size(row_dtype(load)))), "");

    for (const TileNode *n = load->block->first; n != load; n = n->next)
        before += has_room(e, n) ? room_bytes(e, n) : 0;
    at = cpu_op(e, LLVMAdd, at, cpu_op(e, LLVMAdd, cpu_op(e, LLVMMul, half, cpu_number(e, bytes / 2)), cpu_number(e, before)));
    return LLVMBuildGEP2(e->u->builder, LLVMInt8TypeInContext(e->u->context), e->gpu->whole.ahead, &at, 1, "");
}

/* The chunk of a piece that is `further` elements on. */
static void send_for(CpuCode *e, const TileNode *load, const RowPlace *p, LLVMValueRef stage, int64_t further)
{
    LLVMValueRef by = cpu_number(e, further * (int64_t)raw_size(row_dtype(load)));

    for (int i = 0; i < rows_vectors(e, load); i++) {
        LLVMValueRef from = rows_vector_place(e, load, p, i);
        from = LLVMBuildGEP2(e->u->builder, LLVMInt8TypeInContext(e->u->context), from, &by, 1, "");
        gpu_copy_piece(e, rows_stage_vector(e, stage, p, i), from, false);
    }
}

/* ---- rounds ---- */

void rows_bring(CpuCode *e, const Cluster *c, const RowPlace *p)
{
    const TileNode *loop = NULL;
    LLVMValueRef number, step, turn, next, half[2];

    for (int i = 0; i < c->nodes.n && !loop; i++)
        loop = rows_come_ahead(e, c->nodes.at[i]) ? c->nodes.at[i]->block->owner : NULL;
    if (!loop)
        return;
    number = cpu_val(e, (TileRef){loop->region[0]->params.at[0], 0})->x;
    step = cpu_number(e, loop->in[2].node->attr->i);
    turn = cpu_op(e, LLVMUDiv, cpu_op(e, LLVMSub, number, cpu_val(e, loop->in[0])->x), step);
    half[0] = cpu_op(e, LLVMAnd, turn, cpu_number(e, 1));
    half[1] = cpu_op(e, LLVMXor, half[0], cpu_number(e, 1));
    next = cpu_op(e, LLVMAdd, number, cpu_op(e, LLVMAdd, step, step));
    gpu_warp_fence(e);
    GpuIf first = gpu_if(e, cpu_compare(e, LLVMIntEQ, turn, cpu_number(e, 0)));
    for (int i = 0; i < c->nodes.n; i++)
        if (rows_come_ahead(e, c->nodes.at[i]))
            send_for(e, c->nodes.at[i], p, stage_in(e, c->nodes.at[i], half[0]), 0);
    gpu_end_if(e, &first);
    gpu_commit_copies(e);
    for (int i = 0; i < c->nodes.n; i++) {
        const TileNode *n = c->nodes.at[i];
        if (!rows_come_ahead(e, n))
            continue;
        LLVMValueRef within = cpu_compare(e, LLVMIntSLE, next, cpu_val(e, n->in[0])->extent[1]);
        within = LLVMBuildAnd(e->u->builder, within, cpu_compare(e, LLVMIntSLE, next, cpu_val(e, loop->in[1])->x), "");
        GpuIf is = gpu_if(e, within);
        send_for(e, n, p, stage_in(e, n, half[1]), loop->in[2].node->attr->i);
        gpu_end_if(e, &is);
    }
    gpu_commit_copies(e);
    gpu_wait_copies(e, 1);
    gpu_warp_fence(e);
    for (int i = 0; i < c->nodes.n; i++)
        if (rows_come_ahead(e, c->nodes.at[i]))
            rows_take(e, c->nodes.at[i], p, stage_in(e, c->nodes.at[i], half[0]));
}

void rows_end_ahead(CpuCode *e, const Cluster *c)
{
    bool any = false;

    for (int i = 0; i < c->nodes.n; i++)
        any |= rows_come_ahead(e, c->nodes.at[i]);
    if (any)
        gpu_wait_copies(e, 0);
}
