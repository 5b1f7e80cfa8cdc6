/*
 * Blocks of threads that stay, and rows that come to them.
 *
 * Where a group is one whole row, there are as many blocks of threads as the chip holds, and each takes every so many'th row.  While it is at one,
 * bulk copies (cp.async.bulk) bring its next ones into slots in shared memory.
 *
 *     row         g             g + step      g + 2 step
 *     slot        0             1             0
 *     sent for    before all    before all    behind row g
 *
 * A warp's chunks are its own: their threads send for them, wait for them at the warp's barrier of the slot, and turn there what they store, whose
 * place the chunk that it is computed of has by then left.  So blocks meet for sums alone, and what a kernel begins with is done once for many rows.
 *
 * Rows are whole vectors (the schedule says `stays`).  Where an operand is not aligned as such, nothing is sent for, and elements are copied one by
 * one to the same places, and from there.
 */
#include "codegen/gpu_rows.h"

#include "codegen/gpu_assembly.h"


enum { BARRIER = 8, PLACES = 65536, PLACES_PAIR = 128, MEMORY = 227 << 10, OF_BLOCK = 1 << 10, BLOCKS_MOST = 16 };

/* ---- which kernels ---- */

/* Does it load a row of a parameter from its first element on, one that vectors may bring: the group's, or the same one for all groups? */
static bool is_row(const TileNode *load)
{
    const TileNode *view = load->in[0].node;
    const TileType *t = tile_type(load->in[0]);
    bool same = t->stride[0] == 0, parameter = view->op == TILE_PARAM && !view->block->owner;

    return parameter && rows_end_with_vectors(load) && !load->attr->drop && load->in[1].node->op == (same ? TOP_index : TOP_group) &&
           load->in[2].node->op == TOP_index && load->in[2].node->attr->i == 0 && t->rank == 2 && t->stride[1] == 1 &&
           row_bytes((DType)t->dtype) <= 2;
}

/* Stores of rows, too, go by vectors, and there is nothing else that accesses whole rows. */
static bool may_stay(const WholeRows *w, const TileNode *n)
{
    const TileType *t = n->op == TOP_load ? &n->type[0] : n->op == TOP_store ? tile_type(n->in[n->nin - 1]) : NULL;

    return !n->region[0] && (!t || t->rank != 2 || t->extent[1] != w->columns || is_row(n));
}

void rows_find_stay(WholeRows *w, const TileKernel *k)
{
    int far = 0, near = 0;

    for (const TileNode *n = k->body.first; n; n = n->next) {
        bool whole = n->op == TOP_load && n->type[0].rank == 2 && n->type[0].extent[1] == w->columns, same;
        same = whole && tile_type(n->in[0])->stride[0] == 0;
        near += same;
        far += whole && !same;
        if (!may_stay(w, n) || far > STAY_MOST || near > SENT_MOST) {
            w->nstay = 0;
            return;
        }
        if (whole && !same)
            w->stay[w->nstay++] = n;
    }
}

bool rows_stays(const CpuCode *e, const TileNode *load)
{
    for (int i = 0; i < e->gpu->whole.nstay; i++)
        if (e->gpu->whole.stay[i] == load)
            return true;
    return false;
}

/* Blocks of a processor: registers for pairs of lanes, and shared memory. */
int rows_stay_beside(const CpuCode *e)
{
    int by_places = PLACES / (PLACES_PAIR * e->gpu->threads), by_memory = MEMORY / (int)(e->fixed_bytes + OF_BLOCK);
    int n = by_places < by_memory ? by_places : by_memory;

    return n < 1 ? 1 : n > BLOCKS_MOST ? BLOCKS_MOST : n;
}

/* ---- slots ---- */

static int warps(const CpuCode *e) { return e->gpu->threads / GPU_WARP; }
static int64_t slot_bytes(const CpuCode *e) { return e->gpu->whole.here * e->gpu->whole.pitch; }
static int number_of(const CpuCode *e, const TileNode *load)
{
    int i = 0;

    while (e->gpu->whole.stay[i] != load)
        i++;
    return i;
}

void rows_stay_memory(CpuCode *e)
{
    WholeRows *w = &e->gpu->whole;

    w->ring = cpu_buffer(e, w->nstay * STAY_SLOTS * slot_bytes(e));
    w->full = cpu_buffer(e, (int64_t)w->nstay * STAY_SLOTS * warps(e) * BARRIER);
    w->turn = llvm_slot(e->u, i32_type(e));
}

static LLVMValueRef turn_of(CpuCode *e) { return LLVMBuildLoad2(e->u->builder, i32_type(e), e->gpu->whole.turn, ""); }

/* A load's slot of a turn, an i32; it counts through all loads' slots. */
static LLVMValueRef slot_of(CpuCode *e, const TileNode *load, LLVMValueRef turn)
{
    LLVMValueRef at = LLVMBuildURem(e->u->builder, turn, i32_number(e, STAY_SLOTS), "");

    return LLVMBuildAdd(e->u->builder, at, i32_number(e, (int64_t)number_of(e, load) * STAY_SLOTS), "");
}

/* This thread's chunk in it. */
static LLVMValueRef chunk_at(CpuCode *e, LLVMValueRef slot)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMValueRef at = LLVMBuildMul(b, slot, i32_number(e, slot_bytes(e)), "");

    at = row_wide(e, LLVMBuildAdd(b, at, LLVMBuildMul(b, rows_octet(e), i32_number(e, e->gpu->whole.pitch), ""), ""));
    return LLVMBuildGEP2(b, LLVMInt8TypeInContext(e->u->context), e->gpu->whole.ring, &at, 1, "");
}

static LLVMValueRef barrier_at(CpuCode *e, LLVMValueRef slot)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMValueRef warp = LLVMBuildUDiv(b, e->gpu->thread, i32_number(e, GPU_WARP), ""), at;

    at = LLVMBuildAdd(b, LLVMBuildMul(b, slot, i32_number(e, warps(e)), ""), warp, "");
    at = LLVMBuildMul(b, at, i32_number(e, BARRIER), "");
    return LLVMBuildAdd(b, gpu_shared_address(e, e->gpu->whole.full), at, "");
}

LLVMValueRef rows_parity(CpuCode *e)
{
    return e->gpu->whole.nstay ? LLVMBuildAnd(e->u->builder, turn_of(e), i32_number(e, 1), "") : i32_number(e, 0);
}

LLVMValueRef rows_stay_stage(CpuCode *e) { return chunk_at(e, slot_of(e, e->gpu->whole.stay[0], turn_of(e))); }

/* ---- rows ---- */

/* The first thread of each chunk: as much of it as the row has. */
static void send(CpuCode *e, const TileNode *load, LLVMValueRef group, LLVMValueRef turn)
{
    const WholeRows *w = &e->gpu->whole;
    LLVMBuilderRef b = e->u->builder;
    int64_t bytes = row_bytes(row_dtype(load));
    const Val *view = cpu_val(e, load->in[0]);
    LLVMValueRef slot = slot_of(e, load, turn), chunk = LLVMBuildAdd(b, rows_octet(e), rows_first_chunk(e), ""), first, some, at;
    GpuIf leads = gpu_if(e, LLVMBuildICmp(b, LLVMIntEQ, LLVMBuildURem(b, e->gpu->thread, i32_number(e, w->each), ""), i32_number(e, 0), "")), any;

    first = row_wide(e, LLVMBuildMul(b, chunk, i32_number(e, w->chunk), ""));
    some = cpu_op(e, LLVMSub, view->extent[1], first);
    some = cpu_choose(e, cpu_compare(e, LLVMIntSLT, some, cpu_number(e, w->chunk)), some, cpu_number(e, w->chunk));
    some = cpu_choose(e, cpu_compare(e, LLVMIntSGT, some, cpu_number(e, 0)), some, cpu_number(e, 0));
    some = LLVMBuildTrunc(b, cpu_op(e, LLVMMul, some, cpu_number(e, bytes)), i32_type(e), "");
    gpu_barrier_expect_some(e, barrier_at(e, slot), some);
    any = gpu_if(e, LLVMBuildICmp(b, LLVMIntNE, some, i32_number(e, 0), ""));
    at = cpu_op(e, LLVMMul, cpu_op(e, LLVMAdd, cpu_op(e, LLVMMul, group, view->stride[0]), first), cpu_number(e, bytes));
    at = LLVMBuildGEP2(b, LLVMInt8TypeInContext(e->u->context), view->x, &at, 1, "");
    gpu_bulk_load(e, gpu_shared_address(e, chunk_at(e, slot)), at, some, barrier_at(e, slot));
    gpu_end_if(e, &any);
    gpu_end_if(e, &leads);
}

/* The rows of a group, if there is one and rows are sent for. */
static void send_all(CpuCode *e, LLVMValueRef group, LLVMValueRef turn)
{
    const WholeRows *w = &e->gpu->whole;
    LLVMValueRef is = cpu_compare(e, LLVMIntSLT, group, cpu_groups(e, 0));
    GpuIf some = gpu_if(e, LLVMBuildAnd(e->u->builder, is, w->sent_for, ""));

    for (int i = 0; i < w->nstay; i++)
        send(e, w->stay[i], group, turn);
    gpu_end_if(e, &some);
}

/* ---- rows that are not aligned as vectors ---- */

/* The elements of this thread's chunk between a row and shared memory, one after the other; load: into there. */
static void by_elements(CpuCode *e, const TileNode *n, const RowPlace *p, LLVMValueRef stage, bool load)
{
    const WholeRows *w = &e->gpu->whole;
    DType dt = row_dtype(n);
    CpuLoop l = cpu_loop(e, p->lane, cpu_number(e, w->chunk), cpu_number(e, w->each));
    Spot s = {.at = {cpu_number(e, 0), cpu_op(e, LLVMAdd, p->column, l.i)}, .strip = -1};
    GpuIf inside = gpu_if(e, cpu_compare(e, LLVMIntSLT, s.at[1], cpu_room(e, n, 1)));
    LLVMValueRef place = cpu_place(e, n, &s), none = cpu_number(e, 0);

    if (load)
        lanes_store(e->u, dt, stage, l.i, lanes_load(e->u, dt, place, none, 1), 1);
    else
        lanes_store(e->u, dt, place, none, lanes_load(e->u, dt, stage, l.i, 1), 1);
    gpu_end_if(e, &inside);
    cpu_loop_end(e, &l);
}

void rows_bring_by_elements(CpuCode *e, const TileNode *load, const RowPlace *p, LLVMValueRef stage) { by_elements(e, load, p, stage, true); }
void rows_store_by_elements(CpuCode *e, const TileNode *store, const RowPlace *p) { by_elements(e, store, p, rows_stay_stage(e), false); }

/* The row at hand is there, or brought now. */
static void await(CpuCode *e, const TileNode *load, const RowPlace *p, LLVMValueRef slot)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMBasicBlockRef way[2] = {cpu_block(e), cpu_block(e)}, done = cpu_block(e);
    LLVMValueRef turn = LLVMBuildUDiv(b, turn_of(e), i32_number(e, STAY_SLOTS), "");

    LLVMBuildCondBr(b, e->gpu->whole.sent_for, way[0], way[1]);
    LLVMPositionBuilderAtEnd(b, way[0]);
    gpu_barrier_wait(e, barrier_at(e, slot), LLVMBuildAnd(b, turn, i32_number(e, 1), ""));
    LLVMBuildBr(b, done);
    LLVMPositionBuilderAtEnd(b, way[1]);
    rows_bring_by_elements(e, load, p, chunk_at(e, slot));
    gpu_warp_fence(e);
    LLVMBuildBr(b, done);
    LLVMPositionBuilderAtEnd(b, done);
}

void rows_take_stay(CpuCode *e, const Cluster *c, const RowPlace *p)
{
    for (int i = 0; i < c->nodes.n; i++) {
        const TileNode *n = c->nodes.at[i];
        LLVMValueRef slot = rows_stays(e, n) ? slot_of(e, n, turn_of(e)) : NULL;
        if (!slot)
            continue;
        await(e, n, p, slot);
        rows_take(e, n, p, chunk_at(e, slot));
    }
}

/* ---- the kernel ---- */

/* What the kernel names before its first row. */
static void bind_numbers(CpuCode *e)
{
    for (const TileNode *n = e->k->body.first; n; n = n->next)
        if (n->op == TOP_index)
            cpu_val(e, (TileRef){(TileNode *)n, 0})->x = cpu_number(e, n->attr->i);
}

/* Are all rows that go by vectors aligned? The places of the first group tell. */
static LLVMValueRef all_aligned(CpuCode *e)
{
    LLVMValueRef is = cpu_compare(e, LLVMIntEQ, cpu_number(e, 0), cpu_number(e, 0));

    for (const TileNode *n = e->k->body.first; n; n = n->next)
        if ((n->op == TOP_load || n->op == TOP_store) && rows_by_vectors(e, n))
            is = rows_are_aligned(e, n, is);
    return is;
}

/* Barriers, and zeros behind the rows' ends. */
static void prepare(CpuCode *e)
{
    const WholeRows *w = &e->gpu->whole;
    LLVMBuilderRef b = e->u->builder;
    LLVMTypeRef vector = LLVMVectorType(i32_type(e), ROW_VECTOR / 4);
    LLVMValueRef thread = row_wide(e, e->gpu->thread), at;
    CpuLoop l = cpu_loop(e, thread, cpu_number(e, (int64_t)w->nstay * STAY_SLOTS * warps(e)), cpu_number(e, e->gpu->threads));

    at = LLVMBuildMul(b, LLVMBuildTrunc(b, l.i, i32_type(e), ""), i32_number(e, BARRIER), "");
    gpu_barrier_init(e, LLVMBuildAdd(b, gpu_shared_address(e, w->full), at, ""), GPU_WARP / w->each);
    cpu_loop_end(e, &l);
    gpu_barriers_ready(e);
    l = cpu_loop(e, cpu_op(e, LLVMMul, thread, cpu_number(e, ROW_VECTOR)), cpu_number(e, w->nstay * STAY_SLOTS * slot_bytes(e)),
                 cpu_number(e, (int64_t)e->gpu->threads * ROW_VECTOR));
    at = LLVMBuildGEP2(b, LLVMInt8TypeInContext(e->u->context), w->ring, &l.i, 1, "");
    LLVMSetAlignment(LLVMBuildStore(b, LLVMConstNull(vector), at), ROW_VECTOR);
    cpu_loop_end(e, &l);
    gpu_proxy_fence(e);
    gpu_written(e);
    gpu_fence(e);
}

/* The first row of this block, and how far its next one is, i64s. */
static void rows_of_block(CpuCode *e, LLVMValueRef *first, LLVMValueRef *step)
{
    LLVMValueRef none = NULL, all, block;

    all = cpu_intrinsic(e, "llvm.nvvm.read.ptx.sreg.nctaid.x", &(LLVMTypeRef){NULL}, 0, &none, 0);
    block = cpu_intrinsic(e, "llvm.nvvm.read.ptx.sreg.ctaid.x", &(LLVMTypeRef){NULL}, 0, &none, 0);
    *first = row_wide(e, gpu_rows_group(e, block));
    *step = row_wide(e, gpu_rows_group(e, all));
}

bool gpu_rows_stay(CpuCode *e)
{
    WholeRows *w = &e->gpu->whole;
    LLVMBuilderRef b = e->u->builder;
    LLVMValueRef first, step, next;
    CpuLoop rows;

    if (!w->nstay)
        return false;
    rows_of_block(e, &first, &step);
    bind_numbers(e);
    cpu_set_groups(e, first);
    for (const TileNode *n = e->k->body.first; n; n = n->next)
        if (n->op == TOP_group)
            cpu_val(e, (TileRef){(TileNode *)n, 0})->x = e->group[0];
    w->sent_for = all_aligned(e);
    prepare(e);
    if (w->blocks > 1)
        rows_meet_blocks(e);
    rows_send_near(e);
    w->begun = true;
    LLVMBuildStore(b, i32_number(e, 0), w->turn);
    next = first;
    for (int i = 0; i < STAY_SLOTS; i++) {
        send_all(e, next, i32_number(e, i));
        next = cpu_op(e, LLVMAdd, next, step);
    }
    rows = cpu_loop(e, first, cpu_groups(e, 0), step);
    gpu_written(e);
    e->known.n = 0;
    e->gpu->thread = gpu_anew(e, e->gpu->thread);       /* what follows from it for each element is no registers' worth through all rows */
    cpu_set_groups(e, rows.i);
    cpu_emit_block(e, &e->k->body);
    gpu_proxy_fence(e);
    gpu_warp_fence(e);
    next = cpu_op(e, LLVMAdd, rows.i, cpu_op(e, LLVMMul, step, cpu_number(e, STAY_SLOTS)));
    send_all(e, next, turn_of(e));
    LLVMBuildStore(b, LLVMBuildAdd(b, turn_of(e), i32_number(e, 1), ""), w->turn);
    if (w->blocks > 1 && w->nmeetings < 2)
        gpu_cluster_barrier(e);                 /* nobody gives sums for the next row to who has not taken those of this one */
    cpu_loop_end(e, &rows);
    return true;
}
