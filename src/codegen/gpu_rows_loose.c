/*
 * Sums over pieces of rows, where they may go in any order, and in order where it is known how long rows are at most.
 *
 *     t = tree sum                            each thread: a sum of its own, nothing yet
 *     for piece of row: t = push t, reduce x  its elements of the piece are added to that
 *     s = total t                             here the threads meet
 *
 * In the order of semantics 9.3 the threads of a row meet for each piece, with barriers around; here they do once, at the end.  In order the sums of
 * all chunks of a row lie in shared memory until then, and are joined in the tree that 9.3 asks for.
 */
#include "codegen/gpu_rows.h"

/* ---- which sums ---- */

static bool is_whole_sum(const WholeRows *w, const TileNode *n)
{
    const TileType *t = n->op == TOP_reduce ? tile_type(n->in[0]) : NULL;

    return t && n->attr->axis == 1 && n->nuse == 1 && t->rank == 2 && t->extent[0] == w->rows && t->extent[1] == w->columns;
}

/* The sum that a total is of, if it is begun outside of the one loop that adds to it. */
static bool find_sum(const WholeRows *w, const TileNode *total, LooseSum *out)
{
    const TileNode *loop = total->in[0].node, *push;
    int i = total->in[0].index;

    if (loop->op != TOP_for || loop->nuse < 1 || loop->in[3 + i].node->op != TOP_tree || loop->in[3 + i].node->nuse != 1)
        return false;
    push = loop->region[0]->yields.at[i].node;
    if (push->op != TOP_push || push->nuse != 1 || push->block != loop->region[0] || push->in[0].node != loop->region[0]->params.at[1 + i] ||
        !is_whole_sum(w, push->in[1].node) || push->in[1].node->block != push->block)
        return false;
    *out = (LooseSum){.tree = loop->in[3 + i].node, .reduce = push->in[1].node, .push = push, .total = total};
    return true;
}

void rows_find_loose(WholeRows *w, const TileKernel *k)
{
    w->most = w->run > 1 ? 0 : (int)tile_schedule(k, "held", 0) / TILE_REDUCE_MAX;
    for (const TileNode *n = k->body.first; n && (w->run > 1 || w->most); n = n->next)
        if (n->op == TOP_total && w->nloose < LOOSE_MOST)
            w->nloose += find_sum(w, n, &w->loose[w->nloose]);
}

/* ---- code ---- */

static LooseSum *loose_of(const CpuCode *e, const TileNode *n)
{
    WholeRows *w = &e->gpu->whole;

    for (int i = 0; i < w->nloose; i++) {
        LooseSum *l = &w->loose[i];
        if (n == l->tree || n == l->reduce || n == l->push || n == l->total)
            return l;
    }
    return NULL;
}

bool rows_is_loose(const CpuCode *e, const Sink *s) { return s->node && loose_of(e, s->node); }

static LLVMTypeRef type_of(CpuCode *e, const LooseSum *l) { return lane_type(e->u, lane_dtype((DType)l->reduce->type[0].dtype), 1); }

static OpId op_of(const LooseSum *l) { return (OpId)l->reduce->attr->op; }

/* In order: the place of this thread's chunk among all, which the first of its threads takes. */
static void put_chunk(CpuCode *e, const LooseSum *l, LLVMValueRef x)
{
    const WholeRows *w = &e->gpu->whole;
    LLVMBuilderRef b = e->u->builder;
    const TileNode *loop = l->push->block->owner;
    int threads = GPU_OCTET * w->halves;
    LLVMValueRef number = cpu_val(e, (TileRef){loop->region[0]->params.at[0], 0})->x, at = cpu_op(e, LLVMSub, number, cpu_val(e, loop->in[0])->x);
    GpuIf first = gpu_if(e, LLVMBuildICmp(b, LLVMIntEQ, LLVMBuildURem(b, e->gpu->thread, i32_number(e, threads), ""), i32_number(e, 0), ""));

    at = cpu_op(e, LLVMUDiv, at, cpu_number(e, TILE_REDUCE_MAX));
    at = cpu_op(e, LLVMAdd, at, row_wide(e, LLVMBuildUDiv(b, e->gpu->thread, i32_number(e, threads), "")));
    cpu_store_flat(e, (DType)l->reduce->type[0].dtype, l->slot, at, x, NULL);
    gpu_end_if(e, &first);
}

void rows_add_loose(CpuCode *e, const Sink *s, LLVMValueRef x)
{
    LooseSum *l = loose_of(e, s->node);
    LLVMValueRef before;

    if (e->gpu->whole.most) {
        put_chunk(e, l, x);
        return;
    }
    before = LLVMBuildLoad2(e->u->builder, type_of(e, l), l->slot, "");
    x = cpu_step(e, tile_step_op(op_of(l)), (DType)l->reduce->type[0].dtype, before, x, 1);
    LLVMBuildStore(e->u->builder, x, l->slot);
}

static int chunks_of_piece(const WholeRows *w) { return w->columns / TILE_REDUCE_MAX; }

static void begin(CpuCode *e, LooseSum *l)
{
    const WholeRows *w = &e->gpu->whole;
    int pieces = (w->most + chunks_of_piece(w) - 1) / chunks_of_piece(w);

    if (w->most) {
        l->slot = cpu_buffer(e, (int64_t)pieces * chunks_of_piece(w) * row_bytes(lane_dtype((DType)l->reduce->type[0].dtype)));
        return;
    }
    l->slot = llvm_slot(e->u, type_of(e, l));
    LLVMBuildStore(e->u->builder, cpu_identity(e, op_of(l), (DType)l->reduce->type[0].dtype, 1), l->slot);
}

/* The chunks of all pieces of a row, which are one group's. */
static void join_in_order(CpuCode *e, const LooseSum *l, const Sink *s)
{
    const WholeRows *w = &e->gpu->whole;
    const TileNode *loop = l->push->block->owner;
    LLVMValueRef chunks = cpu_op(e, LLVMSub, cpu_val(e, loop->in[1])->x, cpu_val(e, loop->in[0])->x);

    chunks = cpu_op(e, LLVMUDiv, cpu_op(e, LLVMAdd, chunks, cpu_number(e, TILE_REDUCE_MAX - 1)), cpu_number(e, TILE_REDUCE_MAX));
    gpu_written(e);
    gpu_fence(e);
    rows_join_chunks(e, s, l->slot, chunks, w->most);
}

static void end(CpuCode *e, LooseSum *l)
{
    const TileType *t = &l->total->type[0];
    LLVMValueRef *slot = &l->slot;
    Sink s = {.node = l->reduce, .v = l->reduce->in[0], .buffer = cpu_buffer(e, cpu_tile_bytes(t))};
    Cluster c = {.rank = 0};

    vec_push(&c.sinks, s);
    if (e->gpu->whole.most)
        join_in_order(e, l, &s);
    else
        rows_join(e, &c, &slot);
    gpu_written(e);
    vec_free(&c.sinks);
    cpu_val(e, (TileRef){(TileNode *)l->total, 0})->x = s.buffer;
}

bool gpu_rows_tree(CpuCode *e, const TileNode *n)
{
    LooseSum *l = e->gpu->whole.nloose ? loose_of(e, n) : NULL;
    Val *y = l && n->op != TOP_reduce ? cpu_val(e, (TileRef){(TileNode *)n, 0}) : NULL;

    if (!y)
        return false;
    if (n->op == TOP_total) {
        cpu_close(e);
        end(e, l);
        return true;
    }
    if (n->op == TOP_tree)
        begin(e, l);
    y->x = y->count = l->slot;
    return true;
}
