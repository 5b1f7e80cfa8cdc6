/*
 * Loops and choices in a strip.
 *
 * Where all lanes go one way they are branches; where they part, a mask says
 * who is there: both sides of a choice run, each if somebody takes it, and a
 * loop goes on until its last lane has left, whose values then stay.
 */
#include "codegen/cpu_lane.h"

#include "base/alloc.h"

enum { SHORT_BLOCK = 12 };              /* nodes that are cheaper than asking whether somebody takes them */

static TileRef out_of(const TileNode *n, int i) { return (TileRef){(TileNode *)n, i}; }
static TileRef param_of(const TileBlock *b, int i) { return (TileRef){b->params.at[i], 0}; }

/* A value as it goes from block to block: lanes if it varies in `as`, else the one. */
static LLVMValueRef carried(CpuCode *e, TileRef as, TileRef v) { return cpu_varies(e, as) ? strip_wide(e, v) : cpu_val(e, v)->x; }

static void take(CpuCode *e, TileRef as, LLVMValueRef x)
{
    if (cpu_varies(e, as))
        strip_set(e, as, x);
    else
        cpu_val(e, as)->x = x;
}

static void block(CpuCode *e, const TileBlock *b, LLVMValueRef mask)
{
    LLVMValueRef here = e->lanes->mask;

    e->lanes->mask = mask;
    for (const TileNode *n = b->first; n && !e->failed; n = n->next)
        strip_node(e, n);
    e->lanes->mask = here;
}

static LLVMValueRef phi(CpuCode *e, LLVMValueRef first, LLVMBasicBlockRef from)
{
    LLVMValueRef y = LLVMBuildPhi(e->u->builder, LLVMTypeOf(first), "");

    LLVMAddIncoming(y, &first, &from, 1);
    return y;
}

static void incoming(LLVMValueRef phi, LLVMValueRef x, LLVMBasicBlockRef from) { LLVMAddIncoming(phi, &x, &from, 1); }

/* Phis for carries, whose first values are there; they are the block's parameters from `at` on. */
static void begin_carries(CpuCode *e, const TileBlock *b, int at, const LLVMValueRef *first, int n, LLVMBasicBlockRef from, LLVMValueRef *phis)
{
    for (int i = 0; i < n; i++) {
        phis[i] = phi(e, first[i], from);
        take(e, param_of(b, at + i), phis[i]);
    }
}

static void wide_operands(CpuCode *e, const TileBlock *b, int at, const TileRef *in, int n, LLVMValueRef *out)
{
    for (int i = 0; i < n; i++)
        out[i] = carried(e, param_of(b, at + i), in[i]);
}

/* What is carried on: of lanes that were not in the round, what it was. */
static void next_carries(CpuCode *e, const TileBlock *to, int at, const TileBlock *b, int n, LLVMValueRef there, LLVMValueRef *phis)
{
    LLVMValueRef *next = tsr_calloc(sizeof *next * (size_t)(n + 1));
    LLVMBasicBlockRef from;

    for (int i = 0; i < n; i++) {
        next[i] = carried(e, param_of(to, at + i), b->yields.at[i]);
        if (there && cpu_varies(e, param_of(to, at + i)))
            next[i] = cpu_choose(e, there, next[i], phis[i]);
    }
    from = LLVMGetInsertBlock(e->u->builder);
    for (int i = 0; i < n; i++)
        incoming(phis[i], next[i], from);
    tsr_free(next);
}

static void results(CpuCode *e, const TileNode *n, const LLVMValueRef *phis)
{
    for (int i = 0; i < n->nout; i++)
        take(e, out_of(n, i), phis[i]);
}

static LLVMValueRef *room(const TileNode *n) { return tsr_calloc(sizeof(LLVMValueRef) * (size_t)(n->nout + 1)); }

/* ---- for ---- */

/* The place of the first round: neighbours stay neighbours as long as all lanes step alike. */
static LaneIndex first_place(CpuCode *e, const TileNode *n)
{
    LaneIndex lo = strip_index(e, n->in[0]), step = strip_index(e, n->in[2]);

    if (!lo.lanes && !step.lanes && is_constant(step.step, 0))
        return (LaneIndex){lo.base, lo.step, NULL, multiple_of_both(lo.multiple, step.multiple)};
    return (LaneIndex){.lanes = index_lanes(e, &lo)};
}

static LaneIndex each_place(CpuCode *e, const LaneIndex *first, LLVMBasicBlockRef from)
{
    LaneIndex at = *first;

    if (first->lanes)
        at.lanes = phi(e, first->lanes, from);
    else
        at.base = phi(e, first->base, from);
    return at;
}

static void set_place(CpuCode *e, TileRef i, const LaneIndex *x)
{
    strip_set(e, i, NULL);
    if (cpu_varies(e, i))
        e->lanes->index[value_number(e, i)] = *x;
    else
        cpu_val(e, i)->x = x->base;
}

static void next_place(CpuCode *e, const TileNode *n, const LaneIndex *x)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMValueRef at = x->lanes ? x->lanes : x->base, step = x->lanes ? strip_wide(e, n->in[2]) : strip_index(e, n->in[2]).base;
    LLVMValueRef next = LLVMBuildAdd(b, at, step, "");

    incoming(at, next, LLVMGetInsertBlock(b));
}

/* Do all lanes of the strip at hand go through the same rounds, although those of others may go through others? */
static bool rounds_alike(CpuCode *e, const TileNode *n)
{
    for (int i = 0; i < 3; i++) {
        LaneIndex x = strip_index(e, n->in[i]);
        if (x.lanes || !is_constant(x.step, 0))
            return false;
    }
    return true;
}

static void strip_for(CpuCode *e, const TileNode *n)
{
    const TileBlock *b = n->region[0];
    LLVMBuilderRef u = e->u->builder;
    LLVMBasicBlockRef before, head, body = cpu_block(e), done = cpu_block(e);
    LLVMValueRef *first = room(n), *phis = room(n), there = NULL, go, hi;
    bool parts = e->lanes->vary.parts[n->id] && !rounds_alike(e, n);
    LaneIndex start = first_place(e, n), at;

    wide_operands(e, b, 1, n->in + 3, n->nout, first);
    hi = parts ? strip_wide(e, n->in[1]) : strip_index(e, n->in[1]).base;
    head = cpu_block(e);
    before = LLVMGetInsertBlock(u);
    LLVMBuildBr(u, head);
    LLVMPositionBuilderAtEnd(u, head);
    at = each_place(e, &start, before);
    begin_carries(e, b, 1, first, n->nout, before, phis);
    set_place(e, param_of(b, 0), &at);
    if (parts)
        there = mask_and(e, cpu_compare(e, LLVMIntSLT, index_lanes(e, &at), hi), e->lanes->mask);
    go = parts ? mask_any(e, there) : cpu_compare(e, LLVMIntSLT, at.base, hi);
    LLVMBuildCondBr(u, go, body, done);
    LLVMPositionBuilderAtEnd(u, body);
    block(e, b, parts ? there : e->lanes->mask);
    next_carries(e, b, 1, b, n->nout, there, phis);
    next_place(e, n, &at);
    LLVMBuildBr(u, head);
    LLVMPositionBuilderAtEnd(u, done);
    results(e, n, phis);
    tsr_free(first);
    tsr_free(phis);
}

/* ---- while ---- */

static void strip_while(CpuCode *e, const TileNode *n)
{
    const TileBlock *test = n->region[0], *b = n->region[1];
    LLVMBuilderRef u = e->u->builder;
    LLVMBasicBlockRef before, head = cpu_block(e), body = cpu_block(e), done = cpu_block(e);
    LLVMTypeRef bits = LLVMVectorType(LLVMInt1TypeInContext(e->u->context), (unsigned)e->lanes->width);
    LLVMValueRef *first = room(n), *phis = room(n), there = NULL, go, here = e->lanes->mask;
    bool parts = e->lanes->vary.parts[n->id];

    wide_operands(e, test, 0, n->in, n->nout, first);
    before = LLVMGetInsertBlock(u);
    LLVMBuildBr(u, head);
    LLVMPositionBuilderAtEnd(u, head);
    begin_carries(e, test, 0, first, n->nout, before, phis);
    if (parts)
        there = phi(e, here ? here : LLVMConstAllOnes(bits), before);
    block(e, test, parts ? there : here);
    if (parts) {
        LLVMValueRef left = there;
        there = mask_and(e, left, strip_flag(e, test->yields.at[0]));
        go = mask_any(e, there);
        LLVMBuildCondBr(u, go, body, done);
        LLVMPositionBuilderAtEnd(u, body);
        for (int i = 0; i < n->nout; i++)
            take(e, param_of(b, i), carried(e, param_of(b, i), param_of(test, i)));
        block(e, b, there);
        next_carries(e, test, 0, b, n->nout, there, phis);
        incoming(left, there, LLVMGetInsertBlock(u));
    } else {
        LLVMBuildCondBr(u, lane_mask(e->u, cpu_val(e, test->yields.at[0])->x), body, done);
        LLVMPositionBuilderAtEnd(u, body);
        for (int i = 0; i < n->nout; i++)
            take(e, param_of(b, i), carried(e, param_of(b, i), param_of(test, i)));
        block(e, b, here);
        next_carries(e, test, 0, b, n->nout, NULL, phis);
    }
    LLVMBuildBr(u, head);
    LLVMPositionBuilderAtEnd(u, done);
    results(e, n, phis);
    tsr_free(first);
    tsr_free(phis);
}

/* ---- if ---- */

static bool is_short(const TileBlock *b)
{
    int count = 0;

    for (const TileNode *n = b->first; n; n = n->next, count++)
        if (n->region[0] || n->op == TOP_load || n->op == TOP_store || tile_is_atomic(n->op) || n->op == TOP_map || n->op == TOP_idiv ||
            n->op == TOP_imod)
            return false;
    return count <= SHORT_BLOCK;
}

/* One side of a choice, if somebody takes it: its results, or zeros. */
static void side(CpuCode *e, const TileNode *n, const TileBlock *b, LLVMValueRef mask, LLVMValueRef *out)
{
    LLVMBuilderRef u = e->u->builder;
    LLVMBasicBlockRef before, way, done, end;

    if (is_short(b)) {
        block(e, b, mask);
        for (int i = 0; i < n->nout; i++)
            out[i] = strip_wide(e, b->yields.at[i]);
        return;
    }
    way = cpu_block(e);
    done = cpu_block(e);
    before = LLVMGetInsertBlock(u);
    LLVMBuildCondBr(u, mask_any(e, mask), way, done);
    LLVMPositionBuilderAtEnd(u, way);
    block(e, b, mask);
    for (int i = 0; i < n->nout; i++)
        out[i] = strip_wide(e, b->yields.at[i]);
    end = LLVMGetInsertBlock(u);
    LLVMBuildBr(u, done);
    LLVMPositionBuilderAtEnd(u, done);
    for (int i = 0; i < n->nout; i++) {
        LLVMValueRef y = phi(e, out[i], end);
        incoming(y, LLVMConstNull(LLVMTypeOf(y)), before);
        out[i] = y;
    }
}

static void parted_if(CpuCode *e, const TileNode *n)
{
    LLVMValueRef *way[2] = {room(n), room(n)}, flag = strip_flag(e, n->in[0]), here = e->lanes->mask;

    for (int r = 0; r < 2; r++)
        side(e, n, n->region[r], mask_and(e, r ? LLVMBuildNot(e->u->builder, flag, "") : flag, here), way[r]);
    for (int i = 0; i < n->nout; i++)
        strip_set(e, out_of(n, i), cpu_choose(e, flag, way[0][i], way[1][i]));
    tsr_free(way[0]);
    tsr_free(way[1]);
}

static void common_if(CpuCode *e, const TileNode *n)
{
    LLVMBuilderRef u = e->u->builder;
    LLVMBasicBlockRef way[2] = {cpu_block(e), cpu_block(e)}, done = cpu_block(e), end[2];
    LLVMValueRef *x[2] = {room(n), room(n)};

    LLVMBuildCondBr(u, lane_mask(e->u, cpu_val(e, n->in[0])->x), way[0], way[1]);
    for (int r = 0; r < 2; r++) {
        LLVMPositionBuilderAtEnd(u, way[r]);
        block(e, n->region[r], e->lanes->mask);
        for (int i = 0; i < n->nout; i++)
            x[r][i] = carried(e, out_of(n, i), n->region[r]->yields.at[i]);
        end[r] = LLVMGetInsertBlock(u);
        LLVMBuildBr(u, done);
    }
    LLVMPositionBuilderAtEnd(u, done);
    for (int i = 0; i < n->nout; i++) {
        LLVMValueRef y = phi(e, x[0][i], end[0]);
        incoming(y, x[1][i], end[1]);
        take(e, out_of(n, i), y);
    }
    tsr_free(x[0]);
    tsr_free(x[1]);
}

void strip_control(CpuCode *e, const TileNode *n)
{
    if (n->op == TOP_for)
        strip_for(e, n);
    else if (n->op == TOP_while)
        strip_while(e, n);
    else if (e->lanes->vary.parts[n->id])
        parted_if(e, n);
    else
        common_if(e, n);
}
