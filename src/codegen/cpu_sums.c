/*
 * Loops over the depth of a product, whose sums begin in registers and end in memory.
 *
 *     for k carry(acc = 0) { yield dot(a, b, acc) }
 *     store C[..], acc
 *
 * Between rounds the sums are in a buffer.  The first round has no need of zeros there: a block begins with them in its registers.  The last one
 * puts its blocks where the store would copy them to, if all of them lie there, and then there is nothing left to copy.  At the lower and right
 * edges of what is stored to, blocks that lie outside are left out, as nobody sees them.
 */
#include "codegen/cpu_dot.h"

/* The product whose sums a loop of nothing else carries. NULL: it has another form. */
static const TileNode *product_of(const CpuCode *e, const TileNode *loop)
{
    const TileBlock *b = loop->region[0];
    const TileNode *dot;

    if (loop->nout != 1 || loop->type[0].rank != 2)
        return NULL;
    dot = b->yields.at[0].node;
    if (dot->op != TOP_dot || cpu_unit_parts(e, dot))
        return NULL;
    if (dot->block != b || dot->nuse != 1 || dot->in[2].node != b->params.at[1] || dot->in[2].node->nuse != 1)
        return NULL;
    for (const TileNode *n = b->first; n; n = n->next)
        if (n->region[0] || tile_op_info[n->op].flags & (TF_WRITE | TF_ORDER))
            return NULL;
    return dot;
}

static bool reads(const TileBlock *b, const TileNode *memory)
{
    for (const TileNode *n = b->first; n; n = n->next)
        if (tile_op_info[n->op].flags & TF_READ && cpu_root(n->in[0]) == memory)
            return true;
    return false;
}

/* The store that alone takes the sums, with nothing but numbers between. */
static const TileNode *store_of(const TileNode *loop)
{
    const TileNode *n = loop->next;
    const TileType *view;

    while (n && n->op != TOP_store && tile_op_info[n->op].flags == TF_PURE && n->nout == 1 && n->type[0].kind == TILE_INDEX)
        n = n->next;
    if (!n || n->op != TOP_store || n->in[n->nin - 1].node != loop || loop->nuse != 1 || n->attr->i)
        return NULL;
    view = tile_type(n->in[0]);
    if (view->space != SPACE_GLOBAL || view->rank != 2 || view->stride[1] != 1 || !raw_is_lane((DType)view->dtype))
        return NULL;
    return n->in[0].node->op == TILE_PARAM && !reads(loop->region[0], cpu_root(n->in[0])) ? n : NULL;
}

static bool begins_alike(const TileNode *start) { return start->op == TOP_splat && tile_type(start->in[0])->rank == 0; }

void cpu_sums_begin(CpuCode *e, const TileNode *loop)
{
    const TileNode *dot = e->gpu || e->lanes ? NULL : product_of(e, loop);
    LoopSums *s = &e->sums;

    *s = (LoopSums){.dot = dot};
    if (!dot)
        return;
    s->store = store_of(loop);
    s->in_registers = begins_alike(loop->in[3].node) && !cpu_val(e, loop->in[3])->x;
    if (!s->store)
        return;
    for (const TileNode *n = loop->next; n != s->store; n = n->next)
        cpu_val(e, (TileRef){(TileNode *)n, 0})->x = cpu_index(e, n);
    s->to = cpu_place(e, s->store, &(Spot){.at = {cpu_number(e, 0), cpu_number(e, 0)}, .strip = -1});
    s->fits = cpu_fits(e, s->store, -1, NULL, NULL);
    for (int axis = 0; axis < 2; axis++)
        s->seen[axis] = cpu_smaller(e, cpu_room(e, s->store, axis), cpu_number(e, loop->type[0].extent[axis]));
}

void cpu_sums_round(CpuCode *e, LLVMValueRef lo, LLVMValueRef i, LLVMValueRef next, LLVMValueRef hi)
{
    LoopSums *s = &e->sums;

    if (s->in_registers)
        s->first = cpu_compare(e, LLVMIntEQ, i, lo);
    if (s->store)
        s->last = LLVMBuildAnd(e->u->builder, s->fits, cpu_compare(e, LLVMIntSGE, next, hi), "");
}

/* Without a round the buffer has nothing yet. */
static void without_rounds(CpuCode *e, const TileNode *loop, LLVMValueRef ran)
{
    LLVMBasicBlockRef none = cpu_block(e), done = cpu_block(e);
    LLVMValueRef to = cpu_val(e, (TileRef){loop->region[0]->params.at[1], 0})->x;

    LLVMBuildCondBr(e->u->builder, ran, done, none);
    LLVMPositionBuilderAtEnd(e->u->builder, none);
    cpu_fill_tile(e, loop->in[3], to);
    LLVMBuildBr(e->u->builder, done);
    LLVMPositionBuilderAtEnd(e->u->builder, done);
}

void cpu_sums_end(CpuCode *e, const TileNode *loop)
{
    LLVMBasicBlockRef copy, done;
    LoopSums s = e->sums;
    LLVMValueRef ran = cpu_compare(e, LLVMIntSLT, cpu_val(e, loop->in[0])->x, cpu_val(e, loop->in[1])->x);

    e->sums = (LoopSums){0};
    if (s.in_registers)
        without_rounds(e, loop, ran);
    if (!s.store)
        return;
    copy = cpu_block(e), done = cpu_block(e);
    LLVMBuildCondBr(e->u->builder, LLVMBuildAnd(e->u->builder, ran, s.fits, ""), done, copy);
    LLVMPositionBuilderAtEnd(e->u->builder, copy);
    cpu_sink(e, s.store, s.store->in[s.store->nin - 1]);
    cpu_close(e);
    LLVMBuildBr(e->u->builder, done);
    LLVMPositionBuilderAtEnd(e->u->builder, done);
    e->done = s.store;
}
