/*
 * Sums over pieces of rows, where they may go in any order.
 *
 *     t = tree sum                            each thread: a sum of its own, nothing yet
 *     for piece of row: t = push t, reduce x  its elements of the piece are added to that
 *     s = total t                             here the threads meet
 *
 * In the order of semantics 9.3 the threads of a row meet for each piece, with barriers around; here they do once, at the end.
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
    for (const TileNode *n = k->body.first; n && w->run > 1; n = n->next)
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

void rows_add_loose(CpuCode *e, const Sink *s, LLVMValueRef x)
{
    LooseSum *l = loose_of(e, s->node);
    LLVMValueRef before = LLVMBuildLoad2(e->u->builder, type_of(e, l), l->slot, "");
    x = cpu_step(e, tile_step_op(op_of(l)), (DType)l->reduce->type[0].dtype, before, x, 1);
    LLVMBuildStore(e->u->builder, x, l->slot);
}

static void begin(CpuCode *e, LooseSum *l)
{
    l->slot = llvm_slot(e->u, type_of(e, l));
    LLVMBuildStore(e->u->builder, cpu_identity(e, op_of(l), (DType)l->reduce->type[0].dtype, 1), l->slot);
}

static void end(CpuCode *e, LooseSum *l)
{
    const TileType *t = &l->total->type[0];
    LLVMValueRef *slot = &l->slot;
    Sink s = {.node = l->reduce, .v = l->reduce->in[0], .buffer = cpu_buffer(e, cpu_tile_bytes(t))};
    Cluster c = {.rank = 0};

    vec_push(&c.sinks, s);
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
