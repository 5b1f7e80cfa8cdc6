/*
 * Blocks in blocks: what they hand over, and loops and branches.
 *
 * Indices, scalars, trees and views that a loop carries are phis; tiles have a
 * buffer each, into which the next round's are copied.  A tile that is
 * computed where it is used has a buffer before a block that uses it, because
 * code inside the block runs at other times.
 */
#include "codegen/cpu_lane.h"
#include "codegen/gpu_impl.h"

#include "base/alloc.h"

/* ---- what blocks hand over ---- */

static bool is_tile(const TileType *t) { return t->kind == TILE_VALUE && t->rank > 0; }

static void copy_tile(CpuCode *e, const TileType *t, LLVMValueRef to, LLVMValueRef from)
{
    LLVMValueRef bytes = cpu_number(e, tile_elements(t) * (int64_t)raw_size(lane_dtype((DType)t->dtype)));

    if (e->gpu)
        gpu_copy_tile(e, t, to, from);
    else
        LLVMBuildMemCpy(e->u->builder, to, 16, from, 16, bytes);
}

/* A tile in a buffer at `to`, which has room for a vector behind it: copied from its own, or stretched from a scalar. */
void cpu_fill_tile(CpuCode *e, TileRef v, LLVMValueRef to)
{
    const TileType *t = tile_type(v);
    CpuLoop l;
    Spot p = {.strip = -1};

    if (gpu_store_fragment(e, v, to))
        return;
    if (cpu_val(e, v)->x) {
        if (cpu_val(e, v)->x != to)             /* a dot may have worked in place */
            copy_tile(e, t, to, cpu_val(e, v)->x);
        return;
    }
    gpu_fence(e);
    e->known.n = 0;
    e->width = e->gpu || dtype_is_complex((DType)t->dtype) ? 1 : e->u->machine->vector_bytes / (int)raw_size(lane_dtype((DType)t->dtype));
    for (int i = 0; i < t->rank; i++)
        p.at[i] = cpu_number(e, 0);
    l = cpu_spread(e, tile_elements(t), e->width);
    cpu_store_flat(e, (DType)t->dtype, to, l.i, cpu_lanes(e, v, &p), NULL);
    cpu_loop_end(e, &l);
    gpu_written(e);
    e->known.n = 0;
    e->width = 1;
}

/* Phis for what is not a tile, at the builder's place, with what comes from `from`. */
static LLVMValueRef one_phi(CpuCode *e, LLVMValueRef x, LLVMBasicBlockRef from)
{
    LLVMValueRef phi = LLVMBuildPhi(e->u->builder, LLVMTypeOf(x), "");

    LLVMAddIncoming(phi, &x, &from, 1);
    return phi;
}

static Val phis(CpuCode *e, const TileType *t, const Val *v, LLVMBasicBlockRef from)
{
    Val y = *v;

    y.x = one_phi(e, v->x, from);
    if (t->kind == TILE_TREE)
        y.count = one_phi(e, v->count, from);
    for (int i = 0; t->kind == TILE_VIEW && i < t->rank; i++) {
        y.extent[i] = one_phi(e, v->extent[i], from);
        y.stride[i] = t->stride[i] == STRIDE_ANY ? one_phi(e, v->stride[i], from) : v->stride[i];
    }
    return y;
}

static void also_from(const TileType *t, const Val *phi, const Val *v, LLVMBasicBlockRef from)
{
    LLVMValueRef x = v->x, n = v->count;

    LLVMAddIncoming(phi->x, &x, &from, 1);
    if (t->kind == TILE_TREE)
        LLVMAddIncoming(phi->count, &n, &from, 1);
    for (int i = 0; t->kind == TILE_VIEW && i < t->rank; i++) {
        LLVMValueRef extent = v->extent[i], stride = v->stride[i];
        LLVMAddIncoming(phi->extent[i], &extent, &from, 1);
        if (t->stride[i] == STRIDE_ANY)
            LLVMAddIncoming(phi->stride[i], &stride, &from, 1);
    }
}

/* ---- blocks ---- */

/* Tiles that are computed where they are used, but are used inside n's blocks, have buffers from here on. */
static void need_captured(CpuCode *e, const TileBlock *b)
{
    for (const TileNode *m = b->first; m; m = m->next) {
        for (int i = 0; i < m->nin; i++)
            if (e->visited[m->in[i].node->id] && cpu_is_virtual(m->in[i].node))
                cpu_need(e, m->in[i]);
        for (int r = 0; r < 2; r++)
            if (m->region[r])
                need_captured(e, m->region[r]);
    }
    for (int i = 0; i < b->yields.n; i++)
        if (e->visited[b->yields.at[i].node->id] && cpu_is_virtual(b->yields.at[i].node))
            cpu_need(e, b->yields.at[i]);
}

void cpu_settle(CpuCode *e, const TileNode *n)
{
    for (int i = 0; i < n->nin; i++)
        if (tile_type(n->in[i])->kind == TILE_VALUE)
            cpu_need(e, n->in[i]);
    for (int r = 0; r < 2; r++)
        if (n->region[r])
            need_captured(e, n->region[r]);
    for (int i = 0; i < e->loads.n; i++)        /* the block may write what they read */
        cpu_need(e, (TileRef){(TileNode *)e->loads.at[i], 0});
    cpu_close(e);
}

static bool makes_tree(const TileBlock *b, TileRef v) { return v.node->op == TOP_tree && v.node->block == b; }

/* Do a block's trees leave it? They lie in memory that its next round uses again. */
bool cpu_trees_stay(CpuCode *e, const TileBlock *b)
{
    for (int i = 0; i < b->yields.n; i++) {
        TileRef v = b->yields.at[i];
        while (v.node->op == TOP_push)
            v = v.node->in[0];
        if (tile_type(v)->kind == TILE_TREE && (makes_tree(b, v) || v.node->op == TOP_for || v.node->op == TOP_if || v.node->op == TOP_while))
            if (v.node->block != &e->k->body)
                return cpu_refuse(e, "a tree that is made inside a loop leaves it");
    }
    return true;
}

/* Has a parameter or a result a place in memory, a buffer or a row of lanes, and not a phi? */
static bool in_memory(const CpuCode *e, TileRef v) { return is_tile(tile_type(v)) || cpu_varies(e, v); }

static bool in_registers(const CpuCode *e, TileRef v) { return is_tile(tile_type(v)) && gpu_carries_fragment(e, v); }

/* Rows of a block's parameters become those of values. */
static void copy_rows(CpuCode *e, const TileBlock *b, int at, const TileRef *from, int n)
{
    TileRef *to = tsr_alloc(sizeof *to * (size_t)(n + 1));

    for (int i = 0; i < n; i++)
        to[i] = (TileRef){b->params.at[at + i], 0};
    if (e->lanes)
        rows_copy(e, to, from, n, NULL);
    tsr_free(to);
}

/* What one value is, in memory or not, another one is too. */
static void same_value(CpuCode *e, TileRef to, TileRef from)
{
    *cpu_val(e, to) = *cpu_val(e, from);
    if (e->lanes)
        e->lanes->row[value_number(e, to)] = e->lanes->row[value_number(e, from)];
}

/* The operands from `skip` on, as the block's parameters from `at` on: tiles get buffers, others phis in this very block. */
static void enter(CpuCode *e, const TileBlock *b, int at, const TileRef *in, int n, LLVMBasicBlockRef before)
{
    for (int i = 0; i < n; i++) {
        const TileType *t = tile_type(in[i]);
        TileRef as = {b->params.at[at + i], 0};
        Val *p = cpu_val(e, as);
        if (in_registers(e, as))
            gpu_fragment_phis(e, as, before);
        else if (!in_memory(e, as))
            *p = phis(e, t, cpu_val(e, in[i]), before);
    }
}

static void enter_tiles(CpuCode *e, const TileBlock *b, int at, const TileRef *in, int n)
{
    for (int i = 0; i < n; i++) {
        const TileType *t = tile_type(in[i]);
        TileRef as = {b->params.at[at + i], 0};
        Val *p = cpu_val(e, as);
        if (in_registers(e, as)) {
            gpu_fragment_begin(e, as, in[i]);
        } else if (is_tile(t)) {
            p->x = cpu_buffer(e, cpu_tile_bytes(t));
            if (!e->sums.in_registers)
                cpu_fill_tile(e, in[i], p->x);
        }
    }
    copy_rows(e, b, at, in, n);
}

/* The next round's values; tiles that are another parameter's are copied aside first. */
static void again(CpuCode *e, const TileBlock *to, int at, const TileBlock *b, int n)
{
    LLVMValueRef *aside = tsr_calloc(sizeof *aside * (size_t)(n + 1)), **next = tsr_calloc(sizeof *next * (size_t)(n + 1));
    LLVMBasicBlockRef from;

    for (int i = 0; i < n; i++) {
        const TileNode *m = b->yields.at[i].node;
        TileRef p = {to->params.at[at + i], 0};
        if (in_registers(e, p)) {
            next[i] = gpu_fragment_next(e, p, b->yields.at[i]);
            continue;
        }
        if (!is_tile(tile_type(b->yields.at[i])) || m->op != TILE_PARAM)
            continue;
        aside[i] = cpu_buffer(e, cpu_tile_bytes(tile_type(b->yields.at[i])));
        cpu_fill_tile(e, b->yields.at[i], aside[i]);
    }
    for (int i = 0; i < n; i++) {
        TileRef p = {to->params.at[at + i], 0};
        if (in_registers(e, p))
            continue;
        if (aside[i])
            copy_tile(e, tile_type(p), cpu_val(e, p)->x, aside[i]);
        else if (is_tile(tile_type(p)))
            cpu_fill_tile(e, b->yields.at[i], cpu_val(e, p)->x);
    }
    copy_rows(e, to, at, b->yields.at, n);
    from = LLVMGetInsertBlock(e->u->builder);
    for (int i = 0; i < n; i++) {
        TileRef p = {to->params.at[at + i], 0};
        if (in_registers(e, p))
            gpu_fragment_again(e, p, next[i], from);
        else if (!in_memory(e, p))
            also_from(tile_type(p), cpu_val(e, p), cpu_val(e, b->yields.at[i]), from);
    }
    tsr_free(aside);
    tsr_free(next);
}

static void leave(CpuCode *e, const TileNode *n, const TileBlock *b, int at)
{
    for (int i = 0; i < n->nout; i++)
        same_value(e, (TileRef){(TileNode *)n, i}, (TileRef){b->params.at[at + i], 0});
}

static LLVMValueRef next_of(CpuCode *e, const TileNode *n, LLVMValueRef i) { return LLVMBuildNSWAdd(e->u->builder, i, cpu_val(e, n->in[2])->x, ""); }

static void emit_for(CpuCode *e, const TileNode *n)
{
    const TileBlock *b = n->region[0];
    LLVMBuilderRef u = e->u->builder;
    LLVMBasicBlockRef before, head = cpu_block(e), body = cpu_block(e), done = cpu_block(e), from;
    LLVMValueRef i, lo = cpu_val(e, n->in[0])->x, next = NULL;
    bool sums;
    int ahead = cpu_units_ahead(e, n);

    cpu_sums_begin(e, n);
    sums = e->sums.dot;
    enter_tiles(e, b, 1, n->in + 3, n->nout);
    before = LLVMGetInsertBlock(u);
    LLVMBuildBr(u, head);
    LLVMPositionBuilderAtEnd(u, head);
    i = one_phi(e, lo, before);
    cpu_val(e, (TileRef){b->params.at[0], 0})->x = i;
    enter(e, b, 1, n->in + 3, n->nout, before);
    LLVMBuildCondBr(u, cpu_compare(e, LLVMIntSLT, i, cpu_val(e, n->in[1])->x), body, done);
    LLVMPositionBuilderAtEnd(u, body);
    if (sums) {
        next = next_of(e, n, i);
        cpu_sums_round(e, lo, i, next, cpu_val(e, n->in[1])->x);
    }
    cpu_emit_block(e, b);
    if (e->failed)                                          /* values are missing */
        return;
    again(e, b, 1, b, n->nout);
    next = next ? next : next_of(e, n, i);              /* else it would take a register all the round */
    from = LLVMGetInsertBlock(u);
    LLVMAddIncoming(i, &next, &from, 1);
    LLVMBuildBr(u, head);
    LLVMPositionBuilderAtEnd(u, done);
    leave(e, n, b, 1);
    e->ahead.n = ahead;
    if (sums)
        cpu_sums_end(e, n);
}

static void emit_while(CpuCode *e, const TileNode *n)
{
    const TileBlock *test = n->region[0], *b = n->region[1];
    LLVMBuilderRef u = e->u->builder;
    LLVMBasicBlockRef before, head = cpu_block(e), body = cpu_block(e), done = cpu_block(e);

    enter_tiles(e, test, 0, n->in, n->nout);
    before = LLVMGetInsertBlock(u);
    LLVMBuildBr(u, head);
    LLVMPositionBuilderAtEnd(u, head);
    enter(e, test, 0, n->in, n->nout, before);
    cpu_emit_block(e, test);
    if (e->failed)
        return;
    LLVMBuildCondBr(u, lane_mask(e->u, cpu_val(e, test->yields.at[0])->x), body, done);
    LLVMPositionBuilderAtEnd(u, body);
    for (int i = 0; i < n->nout; i++)
        same_value(e, (TileRef){b->params.at[i], 0}, (TileRef){test->params.at[i], 0});
    cpu_emit_block(e, b);
    if (e->failed)
        return;
    again(e, test, 0, b, n->nout);
    LLVMBuildBr(u, head);
    LLVMPositionBuilderAtEnd(u, done);
    leave(e, n, test, 0);
}

static void result_rows(CpuCode *e, const TileNode *n, const TileRef *from)
{
    TileRef *to = tsr_alloc(sizeof *to * (size_t)(n->nout + 1));

    for (int i = 0; i < n->nout; i++)
        to[i] = (TileRef){(TileNode *)n, i};
    if (e->lanes)
        rows_copy(e, to, from, n->nout, NULL);
    tsr_free(to);
}

static void emit_if(CpuCode *e, const TileNode *n)
{
    LLVMBuilderRef u = e->u->builder;
    LLVMBasicBlockRef side[2] = {cpu_block(e), cpu_block(e)}, done = cpu_block(e), end[2];

    for (int i = 0; i < n->nout; i++)
        if (is_tile(&n->type[i]))
            cpu_val(e, (TileRef){(TileNode *)n, i})->x = cpu_buffer(e, cpu_tile_bytes(&n->type[i]));
    LLVMBuildCondBr(u, lane_mask(e->u, cpu_val(e, n->in[0])->x), side[0], side[1]);
    for (int r = 0; r < 2; r++) {
        LLVMPositionBuilderAtEnd(u, side[r]);
        cpu_emit_block(e, n->region[r]);
        if (e->failed)
            return;
        for (int i = 0; i < n->nout; i++)
            if (is_tile(&n->type[i]))
                cpu_fill_tile(e, n->region[r]->yields.at[i], cpu_val(e, (TileRef){(TileNode *)n, i})->x);
        result_rows(e, n, n->region[r]->yields.at);
        end[r] = LLVMGetInsertBlock(u);
        LLVMBuildBr(u, done);
    }
    LLVMPositionBuilderAtEnd(u, done);
    for (int i = 0; i < n->nout; i++) {
        Val *y = cpu_val(e, (TileRef){(TileNode *)n, i});
        if (in_memory(e, (TileRef){(TileNode *)n, i}))
            continue;
        *y = phis(e, &n->type[i], cpu_val(e, n->region[0]->yields.at[i]), end[0]);
        also_from(&n->type[i], y, cpu_val(e, n->region[1]->yields.at[i]), end[1]);
    }
}

void cpu_control(CpuCode *e, const TileNode *n)
{
    cpu_settle(e, n);
    switch (n->op) {
    case TOP_for: emit_for(e, n); break;
    case TOP_if: emit_if(e, n); break;
    default: emit_while(e, n);
    }
}
