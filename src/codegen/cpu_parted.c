/*
 * Loops and choices whose lanes go different ways, around places where lanes
 * meet: masks are rows of bytes, and what is carried is in rows.
 *
 * It is as the oracle does it (exec_lane.c): all lanes take a node before any
 * takes the next.
 */
#include "codegen/cpu_lane.h"

#include "base/alloc.h"

static const TileType flags = {.kind = TILE_VALUE, .dtype = DT_bool};

static TileRef out_of(const TileNode *n, int i) { return (TileRef){(TileNode *)n, i}; }
static TileRef param_of(const TileBlock *b, int i) { return (TileRef){b->params.at[i], 0}; }

/* ---- masks ---- */

/* Store the mask of the strip at hand in a row; *some collects whether anybody is in it. */
static void store_mask(CpuCode *e, LLVMValueRef row, LLVMValueRef mask, LLVMValueRef some)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMTypeRef i1 = LLVMInt1TypeInContext(e->u->context);

    e->width = e->lanes->width;
    cpu_store_flat(e, DT_bool, row, e->lanes->first, lane_bools(e->u, mask, e->width), NULL);
    LLVMBuildStore(b, LLVMBuildOr(b, LLVMBuildLoad2(b, i1, some, ""), mask_any(e, mask), ""), some);
}

static LLVMValueRef nobody(CpuCode *e)
{
    LLVMTypeRef i1 = LLVMInt1TypeInContext(e->u->context);
    LLVMValueRef some = llvm_slot(e->u, i1);

    LLVMBuildStore(e->u->builder, LLVMConstNull(i1), some);
    return some;
}

static LLVMValueRef is_somebody(CpuCode *e, LLVMValueRef some)
{
    return LLVMBuildLoad2(e->u->builder, LLVMInt1TypeInContext(e->u->context), some, "");
}

/* A row with the lanes that are here. */
static LLVMValueRef all_here(CpuCode *e)
{
    LLVMValueRef row = row_new(e, &flags);
    CpuLoop l = strip_begin(e);
    LLVMTypeRef bits = LLVMVectorType(LLVMInt1TypeInContext(e->u->context), (unsigned)e->lanes->width);

    store_mask(e, row, e->lanes->mask ? e->lanes->mask : LLVMConstAllOnes(bits), nobody(e));
    strip_end(e, &l);
    return row;
}

/* A block for the lanes of a mask. */
static void block(CpuCode *e, const TileBlock *b, LLVMValueRef mask)
{
    LLVMValueRef here = e->lanes->here;

    e->lanes->here = mask;
    cpu_emit_block(e, b);
    e->lanes->here = here;
}

static void copy_to_params(CpuCode *e, const TileBlock *b, int at, const TileRef *from, int n, LLVMValueRef mask)
{
    TileRef *to = tsr_alloc(sizeof *to * (size_t)(n + 1));

    for (int i = 0; i < n; i++)
        to[i] = param_of(b, at + i);
    rows_copy(e, to, from, n, mask);
    tsr_free(to);
}

static void same_row(CpuCode *e, TileRef to, TileRef from) { e->lanes->row[value_number(e, to)] = e->lanes->row[value_number(e, from)]; }

/* ---- if ---- */

static void part_if(CpuCode *e, const TileNode *n)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMValueRef way[2] = {row_new(e, &flags), row_new(e, &flags)}, some[2] = {nobody(e), nobody(e)}, flag;
    TileRef *to = tsr_alloc(sizeof *to * (size_t)(n->nout + 1));
    CpuLoop l = strip_begin(e);

    strip_bind(e, n->in[0]);
    flag = strip_flag(e, n->in[0]);
    for (int r = 0; r < 2; r++)
        store_mask(e, way[r], mask_and(e, r ? LLVMBuildNot(b, flag, "") : flag, e->lanes->mask), some[r]);
    strip_end(e, &l);
    for (int i = 0; i < n->nout; i++)
        to[i] = out_of(n, i);
    for (int r = 0; r < 2; r++) {
        LLVMBasicBlockRef take = cpu_block(e), done = cpu_block(e);
        LLVMBuildCondBr(b, is_somebody(e, some[r]), take, done);
        LLVMPositionBuilderAtEnd(b, take);
        block(e, n->region[r], way[r]);
        rows_copy(e, to, n->region[r]->yields.at, n->nout, way[r]);
        LLVMBuildBr(b, done);
        LLVMPositionBuilderAtEnd(b, done);
    }
    tsr_free(to);
}

/* ---- loops ---- */

/* The round's place: a row, or a number in a slot. */
static void begin_place(CpuCode *e, const TileNode *n, LLVMValueRef *slot)
{
    TileRef i = param_of(n->region[0], 0);

    *slot = NULL;
    if (cpu_varies(e, i)) {
        rows_copy(e, &i, n->in, 1, NULL);
        return;
    }
    *slot = llvm_slot(e->u, LLVMInt64TypeInContext(e->u->context));
    LLVMBuildStore(e->u->builder, cpu_val(e, n->in[0])->x, *slot);
}

static void next_place(CpuCode *e, const TileNode *n, LLVMValueRef slot)
{
    LLVMBuilderRef b = e->u->builder;
    TileRef i = param_of(n->region[0], 0);
    CpuLoop l;

    if (slot) {
        LLVMBuildStore(b, LLVMBuildAdd(b, cpu_val(e, i)->x, cpu_val(e, n->in[2])->x, ""), slot);
        return;
    }
    l = strip_begin(e);
    strip_bind(e, i);
    strip_bind(e, n->in[2]);
    row_store(e, tile_type(i), e->lanes->row[value_number(e, i)], LLVMBuildAdd(b, strip_wide(e, i), strip_wide(e, n->in[2]), ""));
    strip_end(e, &l);
}

static void part_for(CpuCode *e, const TileNode *n)
{
    const TileBlock *b = n->region[0];
    LLVMBuilderRef u = e->u->builder;
    TileRef i = param_of(b, 0);
    LLVMValueRef left = all_here(e), some, slot;
    LLVMBasicBlockRef head = cpu_block(e), body = cpu_block(e), done = cpu_block(e);
    CpuLoop l;

    begin_place(e, n, &slot);
    copy_to_params(e, b, 1, n->in + 3, n->nout, NULL);
    LLVMBuildBr(u, head);
    LLVMPositionBuilderAtEnd(u, head);
    if (slot)
        cpu_val(e, i)->x = LLVMBuildLoad2(u, LLVMInt64TypeInContext(e->u->context), slot, "");
    some = nobody(e);
    l = strip_begin(e);
    strip_bind(e, i);
    strip_bind(e, n->in[1]);
    store_mask(e, left, LLVMBuildAnd(u, lane_mask(e->u, cpu_load_flat(e, DT_bool, left, e->lanes->first, 1)),
                                     LLVMBuildICmp(u, LLVMIntSLT, strip_wide(e, i), strip_wide(e, n->in[1]), ""), ""), some);
    strip_end(e, &l);
    LLVMBuildCondBr(u, is_somebody(e, some), body, done);
    LLVMPositionBuilderAtEnd(u, body);
    block(e, b, left);
    copy_to_params(e, b, 1, b->yields.at, n->nout, left);
    next_place(e, n, slot);
    LLVMBuildBr(u, head);
    LLVMPositionBuilderAtEnd(u, done);
    for (int k = 0; k < n->nout; k++)
        same_row(e, out_of(n, k), param_of(b, 1 + k));
}

static void part_while(CpuCode *e, const TileNode *n)
{
    const TileBlock *test = n->region[0], *b = n->region[1];
    LLVMBuilderRef u = e->u->builder;
    LLVMValueRef left = all_here(e), some;
    LLVMBasicBlockRef head = cpu_block(e), body = cpu_block(e), done = cpu_block(e);
    CpuLoop l;

    copy_to_params(e, test, 0, n->in, n->nout, NULL);
    LLVMBuildBr(u, head);
    LLVMPositionBuilderAtEnd(u, head);
    block(e, test, left);
    some = nobody(e);
    l = strip_begin(e);
    strip_bind(e, test->yields.at[0]);
    store_mask(e, left, LLVMBuildAnd(u, lane_mask(e->u, cpu_load_flat(e, DT_bool, left, e->lanes->first, 1)),
                                     strip_flag(e, test->yields.at[0]), ""), some);
    strip_end(e, &l);
    LLVMBuildCondBr(u, is_somebody(e, some), body, done);
    LLVMPositionBuilderAtEnd(u, body);
    for (int i = 0; i < n->nout; i++)
        same_row(e, param_of(b, i), param_of(test, i));
    block(e, b, left);
    copy_to_params(e, test, 0, b->yields.at, n->nout, left);
    LLVMBuildBr(u, head);
    LLVMPositionBuilderAtEnd(u, done);
    for (int i = 0; i < n->nout; i++)
        same_row(e, out_of(n, i), param_of(test, i));
}

void lanes_part(CpuCode *e, const TileNode *n)
{
    if (n->op == TOP_if)
        part_if(e, n);
    else if (n->op == TOP_for)
        part_for(e, n);
    else
        part_while(e, n);
}
