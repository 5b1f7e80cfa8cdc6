/*
 * Runs: nodes that each lane does for itself, in one loop over strips.
 *
 * Lanes of a group see each other's stores only after a barrier, which ends
 * the run, so a strip may be through with the run before the next one begins.
 * The exception are atomics whose order shows in the bits: a run has at most
 * one, and never in a loop, which keeps the oracle's order, lane after lane.
 *
 * Indices that follow from the lane's number in a few steps are computed again
 * wherever they are needed, because as base + lane * step they say which
 * accesses are of neighbours; other values that outlive their run have rows.
 */
#include "codegen/cpu_lane.h"

#include "base/alloc.h"

#include <string.h>

enum { AGAIN_MAX = 24, ROW_STEP = 64 }; /* of LaneCode.cost; lanes that rows come in */

bool cpu_varies(const CpuCode *e, TileRef v) { return e->lanes && tile_varies(&e->lanes->vary, v); }

DType row_dtype(const TileType *t) { return t->kind == TILE_INDEX ? DT_int64 : (DType)t->dtype; }

static TileRef out_of(const TileNode *n, int i) { return (TileRef){(TileNode *)n, i}; }

void lanes_init(CpuCode *e, LaneCode *c)
{
    size_t n = e->k->nnodes + 1;

    c->count = e->k->lanes;
    for (c->width = e->u->machine->vector_bytes / 4; c->width > 2 && c->width / 2 >= c->count; )
        c->width /= 2;
    tile_vary(e->k, &c->vary);
    c->pending = tsr_calloc(n);
    c->cost = tsr_calloc(n);
    c->inside = tsr_calloc(sizeof *c->inside * n);
    c->index = tsr_calloc(sizeof *c->index * (e->nvals + 1));
    c->whole = tsr_calloc(sizeof *c->whole * n);
    c->rest = tsr_calloc(sizeof *c->rest * n);
    c->row = tsr_calloc(sizeof *c->row * (e->nvals + 1));
    e->lanes = c;
}

void lanes_done(LaneCode *c)
{
    tile_vary_done(&c->vary);
    vec_free(&c->run);
    vec_free(&c->bound);
    tsr_free(c->pending);
    tsr_free(c->cost);
    tsr_free(c->inside);
    tsr_free(c->index);
    tsr_free(c->whole);
    tsr_free(c->rest);
    tsr_free(c->row);
}

/* ---- what may stand in a run ---- */

static bool of_lanes(const TileType *t) { return t->kind == TILE_INDEX || (t->kind == TILE_VALUE && t->rank == 0); }

static bool touches(const TileNode *n) { return n->op == TOP_store || tile_is_atomic(n->op); }

/* Of a kernel that asks what was there, the order of all atomics shows. */
static bool order_shows(const CpuCode *e, const TileNode *n) { return n->op == TOP_update || (n->op == TOP_atomic && tile_in_turn(e->k)); }

/* A node without regions of scalars: the lanes' own, or what is the same for all. */
static bool is_scalar(const TileNode *n)
{
    switch (n->op) {
    case TOP_index: case TOP_size: case TOP_group: case TOP_lane: case TOP_extent: case TOP_iadd: case TOP_isub: case TOP_imul: case TOP_idiv:
    case TOP_imod: case TOP_imin: case TOP_imax: case TOP_ilt: case TOP_ieq: case TOP_to_index: case TOP_to_tile: case TOP_const: break;
    case TOP_map: case TOP_splat: case TOP_reshape: case TOP_permute:
        for (int i = 0; i < n->nin; i++)
            if (!of_lanes(tile_type(n->in[i])))
                return false;
        break;
    case TOP_load: break;
    case TOP_prefetch: return true;
    case TOP_store: case TOP_atomic: case TOP_update: return of_lanes(tile_type(n->in[n->nin - 1]));
    default: return false;
    }
    return of_lanes(&n->type[0]);
}

/* Is all of a block lanes' work? *some: is anything of it? */
static bool block_fits(const CpuCode *e, const TileBlock *b, bool *some)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        if (n->op == TOP_for || n->op == TOP_if || n->op == TOP_while) {
            for (int i = 0; i < n->nout; i++)
                if (!of_lanes(&n->type[i]))
                    return false;
            if (!block_fits(e, n->region[0], some) || (n->region[1] && !block_fits(e, n->region[1], some)))
                return false;
        } else if (!is_scalar(n) || order_shows(e, n)) {
            return false;
        }
        *some |= touches(n) || tile_node_varies(&e->lanes->vary, n);
    }
    return true;
}

/* May the node stand in a run? */
static bool lane_wise(CpuCode *e, const TileNode *n)
{
    bool some = tile_node_varies(&e->lanes->vary, n);

    if (n->op == TOP_shuffle)
        return cpu_varies(e, out_of(n, 0));
    if (n->op != TOP_for && n->op != TOP_if && n->op != TOP_while)
        return is_scalar(n) && (touches(n) || some);
    for (int i = 0; i < n->nout; i++)
        if (!of_lanes(&n->type[i]))
            return false;
    return block_fits(e, n->region[0], &some) && (!n->region[1] || block_fits(e, n->region[1], &some)) && some;
}

/* ---- rows ---- */

/* Its address is made where everybody sees it. */
LLVMValueRef row_new(CpuCode *e, const TileType *t)
{
    int64_t lanes = (e->lanes->count + ROW_STEP - 1) / ROW_STEP * ROW_STEP;
    LLVMBuilderRef b = e->u->builder;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(b);
    LLVMValueRef row;

    LLVMPositionBuilderBefore(b, LLVMGetBasicBlockTerminator(LLVMGetEntryBasicBlock(e->fn)));
    row = cpu_buffer(e, lanes * (int64_t)raw_size(lane_dtype(row_dtype(t))));
    LLVMPositionBuilderAtEnd(b, here);
    return row;
}

void row_store(CpuCode *e, const TileType *t, LLVMValueRef row, LLVMValueRef lanes)
{
    e->width = e->lanes->width;
    cpu_store_flat(e, row_dtype(t), row, e->lanes->first, lanes, NULL);
}

static LLVMValueRef row_load(CpuCode *e, const TileType *t, LLVMValueRef row)
{
    e->width = e->lanes->width;
    return cpu_load_flat(e, row_dtype(t), row, e->lanes->first, 1);
}

/* ---- strips ---- */

static CpuLoop strips_between(CpuCode *e, LLVMValueRef lo, LLVMValueRef hi)
{
    LaneCode *c = e->lanes;
    CpuLoop l = cpu_loop(e, lo, hi, cpu_number(e, c->width));

    e->width = c->width;
    c->first = l.i;
    c->mask = c->here ? lane_mask(e->u, cpu_load_flat(e, DT_bool, c->here, l.i, 1)) : NULL;
    if (c->count % c->width)
        c->mask = mask_and(e, c->mask, cpu_lane_mask(e, l.i, cpu_number(e, c->count), true, NULL));
    return l;
}

CpuLoop strip_begin(CpuCode *e) { return strips_between(e, cpu_number(e, 0), cpu_number(e, e->lanes->count)); }

static void unbind(CpuCode *e)
{
    LaneCode *c = e->lanes;

    for (int i = 0; i < c->bound.n; i++) {
        uint32_t v = value_number(e, c->bound.at[i]);
        if (cpu_varies(e, c->bound.at[i]))
            e->val[v].x = NULL;
        c->index[v] = (LaneIndex){0};
    }
    c->bound.n = 0;
    e->known.n = 0;
}

void strip_end(CpuCode *e, CpuLoop *l)
{
    cpu_loop_end(e, l);
    unbind(e);
    e->lanes->first = e->lanes->mask = NULL;
    e->width = 1;
}

static bool is_bound(const CpuCode *e, TileRef v)
{
    const LaneIndex *x = &e->lanes->index[value_number(e, v)];

    return e->val[value_number(e, v)].x || x->base || x->lanes;
}

void strip_bind(CpuCode *e, TileRef v)
{
    LaneCode *c = e->lanes;
    LLVMValueRef row = c->row[value_number(e, v)];

    if (!cpu_varies(e, v) || is_bound(e, v))
        return;
    if (c->cost[v.node->id]) {
        for (int i = 0; i < v.node->nin; i++)
            strip_bind(e, v.node->in[i]);
        strip_node(e, v.node);
        return;
    }
    if (!row)
        tsr_bug("a value of lanes has no row");
    strip_set(e, v, row_load(e, tile_type(v), row));
}

/* Values that nodes of the run take from outside have lanes at the top of the strip, where all of its code sees them. */
static void bind_operands(CpuCode *e, const TileNode *n);

static void bind_outer(CpuCode *e, TileRef v)
{
    if (!cpu_varies(e, v) || e->lanes->pending[v.node->op == TILE_PARAM ? v.node->block->owner->id : v.node->id])
        return;
    strip_bind(e, v);
}

static void bind_block(CpuCode *e, const TileBlock *b)
{
    for (const TileNode *n = b->first; n; n = n->next)
        bind_operands(e, n);
    for (int i = 0; i < b->yields.n; i++)
        bind_outer(e, b->yields.at[i]);
}

static void bind_operands(CpuCode *e, const TileNode *n)
{
    for (int i = n->op == TOP_shuffle; i < n->nin; i++)
        bind_outer(e, n->in[i]);
    for (int r = 0; r < 2; r++)
        if (n->region[r])
            bind_block(e, n->region[r]);
}

/* ---- the run ---- */

/* Uses of values by nodes of the run, and who is in it, with all that stands in its blocks. */
static void count_uses(CpuCode *e, const TileNode *n, bool in)
{
    LaneCode *c = e->lanes;

    c->pending[n->id] = in;
    for (int i = 0; i < n->nin; i++)
        c->inside[n->in[i].node->id] += in ? 1 : 0;
    for (int r = 0; r < 2; r++) {
        if (!n->region[r])
            continue;
        for (const TileNode *m = n->region[r]->first; m; m = m->next)
            count_uses(e, m, in);
        for (int i = 0; i < n->region[r]->yields.n; i++)
            c->inside[n->region[r]->yields.at[i].node->id] += in ? 1 : 0;
    }
}

/* What is used later goes to its row, or to a slot if it is the same in all lanes. */
static void keep(CpuCode *e, const TileNode *n)
{
    LaneCode *c = e->lanes;

    for (int i = 0; i < n->nout && c->inside[n->id] < n->nuse; i++) {
        TileRef v = out_of(n, i);
        LLVMValueRef *row = &c->row[value_number(e, v)];
        if (c->cost[n->id])
            continue;
        if (cpu_varies(e, v)) {
            *row = *row ? *row : row_new(e, tile_type(v));
            row_store(e, tile_type(v), *row, strip_wide(e, v));
        } else {
            *row = *row ? *row : llvm_slot(e->u, LLVMTypeOf(cpu_val(e, v)->x));
            LLVMBuildStore(e->u->builder, cpu_val(e, v)->x, *row);
        }
    }
}

/* What control in the run gives to all lanes alike. */
static void fetch(CpuCode *e, const TileNode *n)
{
    for (int i = 0; i < n->nout && e->lanes->inside[n->id] < n->nuse; i++) {
        Val *v = cpu_val(e, out_of(n, i));
        if (!cpu_varies(e, out_of(n, i)) && v->x)
            v->x = LLVMBuildLoad2(e->u->builder, LLVMTypeOf(v->x), e->lanes->row[value_number(e, out_of(n, i))], "");
    }
}

/* The run in the strip at hand. */
static void run_strip(CpuCode *e)
{
    LaneCode *c = e->lanes;

    for (int i = 0; i < c->run.n; i++)
        bind_operands(e, c->run.at[i]);
    for (int i = 0; i < c->run.n; i++) {
        strip_node(e, c->run.at[i]);
        keep(e, c->run.at[i]);
    }
}

/* Twice, where divisions decide whether lanes are neighbours. */
static void run_either(CpuCode *e)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMValueRef straight = strip_divisions(e);
    LLVMBasicBlockRef way[2], done;

    if (!straight) {
        run_strip(e);
        return;
    }
    way[0] = cpu_block(e);
    way[1] = cpu_block(e);
    done = cpu_block(e);
    LLVMBuildCondBr(b, straight, way[0], way[1]);
    for (int i = 0; i < 2; i++) {
        LLVMPositionBuilderAtEnd(b, way[i]);
        e->lanes->straight = !i;
        run_strip(e);
        unbind(e);
        LLVMBuildBr(b, done);
    }
    LLVMPositionBuilderAtEnd(b, done);
    strip_divisions_end(e);
}

/* ---- wide strips ---- */

/*
 * A loop that adds up in one or two numbers waits for each sum, and loads what its lanes share for one vector only. So its strips are several
 * vectors, whose sums stay in registers, as long as lanes of a strip are neighbours: no division of them by a number has a step there.
 */
enum { WIDE_VECTORS = 4, WIDE_SUMS = 2 };

static bool divides_strips(const CpuCode *e, const TileNode *n, int width)
{
    TileRef by;

    if ((n->op != TOP_idiv && n->op != TOP_imod) || !cpu_varies(e, n->in[0]))
        return true;
    by = n->in[1];
    return by.node->op != TOP_index || by.node->attr->i % width == 0;
}

/* Whether all of a kernel's divisions of lanes by numbers leave strips of this width whole. */
static bool strips_whole(const CpuCode *e, const TileBlock *b, int width)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        if (!divides_strips(e, n, width))
            return false;
        for (int r = 0; r < 2; r++)
            if (n->region[r] && !strips_whole(e, n->region[r], width))
                return false;
    }
    return true;
}

/* Does a loop of all lanes stand in n, or n be one, that adds up in few numbers? Then *ok; one that does in many, or parts lanes, makes it no. */
static bool sums_up(const CpuCode *e, const TileNode *n, bool *ok)
{
    int sums = 0;

    if (n->op == TOP_while || tile_is_atomic(n->op) || n->op == TOP_shuffle)
        return false;
    for (int i = 0; n->op == TOP_for && i < n->nout; i++) {
        TileRef v = out_of(n, i);
        if (!cpu_varies(e, v))
            continue;
        if (tile_type(v)->kind != TILE_VALUE || raw_size(lane_dtype(row_dtype(tile_type(v)))) > 4)
            return false;
        sums++;
    }
    if (sums > WIDE_SUMS || (n->op == TOP_for && e->lanes->vary.parts[n->id]))
        return false;
    *ok |= sums > 0;
    for (int r = 0; r < 2; r++)
        for (const TileNode *m = n->region[r] ? n->region[r]->first : NULL; m; m = m->next)
            if (!sums_up(e, m, ok))
                return false;
    return true;
}

/* The width that the strips of the run should have: the vector's or several times as much. */
static int strip_width(const CpuCode *e)
{
    const LaneCode *c = e->lanes;
    bool ok = false;

    for (int i = 0; i < c->run.n; i++)
        if (!sums_up(e, c->run.at[i], &ok))
            return c->width;
    for (int wide = c->width * WIDE_VECTORS; ok && wide > c->width; wide /= 2)
        if (c->count % wide == 0 && strips_whole(e, &e->k->body, wide))
            return wide;
    return c->width;
}

/* The strip at hand where divisions have a step in it, one vector after another. */
static void run_narrow(CpuCode *e, int width)
{
    LaneCode *c = e->lanes;
    LLVMValueRef first = c->first, mask = c->mask;
    int wide = c->width;
    CpuLoop l;

    c->width = width;
    l = strips_between(e, first, cpu_op(e, LLVMAdd, first, cpu_number(e, wide)));
    run_either(e);
    strip_end(e, &l);
    e->width = c->width = wide;
    c->first = first;
    c->mask = mask;
}

static void run_wide(CpuCode *e, int width)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMValueRef straight = strip_divisions(e);
    LLVMBasicBlockRef whole, parts, done;

    if (!straight) {
        run_strip(e);
        return;
    }
    whole = cpu_block(e);
    parts = cpu_block(e);
    done = cpu_block(e);
    LLVMBuildCondBr(b, straight, whole, parts);
    LLVMPositionBuilderAtEnd(b, whole);
    e->lanes->straight = true;
    run_strip(e);
    unbind(e);
    strip_divisions_end(e);
    LLVMBuildBr(b, done);
    LLVMPositionBuilderAtEnd(b, parts);
    run_narrow(e, width);
    LLVMBuildBr(b, done);
    LLVMPositionBuilderAtEnd(b, done);
}

static void run_strips(CpuCode *e)
{
    LaneCode *c = e->lanes;
    int width = c->width;
    CpuLoop l;

    c->width = strip_width(e);
    l = strip_begin(e);
    if (c->width > width)
        run_wide(e, width);
    else
        run_either(e);
    strip_end(e, &l);
    c->width = width;
}

void cpu_lane_flush(CpuCode *e)
{
    LaneCode *c = e->lanes;

    if (!c || !c->run.n)
        return;
    for (int i = 0; i < c->run.n; i++)
        count_uses(e, c->run.at[i], true);
    run_strips(e);
    for (int i = 0; i < c->run.n; i++)
        fetch(e, c->run.at[i]);
    for (int i = 0; i < c->run.n; i++)
        count_uses(e, c->run.at[i], false);
    memset(c->inside, 0, sizeof *c->inside * (e->k->nnodes + 1));
    c->run.n = 0;
    c->writes = c->ordered = false;
}

LLVMValueRef row_of(CpuCode *e, TileRef v)
{
    LaneCode *c = e->lanes;
    LLVMValueRef row;
    CpuLoop l;

    cpu_lane_flush(e);
    row = cpu_varies(e, v) && !c->cost[v.node->id] ? c->row[value_number(e, v)] : NULL;
    if (row)
        return row;
    row = row_new(e, tile_type(v));
    l = strip_begin(e);
    strip_bind(e, v);
    row_store(e, tile_type(v), row, strip_wide(e, v));
    strip_end(e, &l);
    return row;
}

void rows_copy(CpuCode *e, const TileRef *to, const TileRef *from, int n, LLVMValueRef mask)
{
    LLVMValueRef *lanes = tsr_calloc(sizeof *lanes * (size_t)(n + 1)), there = NULL;
    bool some = false;
    CpuLoop l;

    cpu_lane_flush(e);
    for (int i = 0; i < n; i++)
        some |= cpu_varies(e, to[i]);
    if (some) {
        l = strip_begin(e);
        if (mask)
            there = lane_mask(e->u, cpu_load_flat(e, DT_bool, mask, e->lanes->first, 1));
        for (int i = 0; i < n; i++) {
            strip_bind(e, from[i]);
            lanes[i] = cpu_varies(e, to[i]) ? strip_wide(e, from[i]) : NULL;
        }
        for (int i = 0; i < n; i++) {
            LLVMValueRef *row = lanes[i] ? &e->lanes->row[value_number(e, to[i])] : NULL;
            if (!row)
                continue;
            *row = *row ? *row : row_new(e, tile_type(to[i]));
            if (there)
                lanes[i] = cpu_choose(e, there, lanes[i], row_load(e, tile_type(to[i]), *row));
            row_store(e, tile_type(to[i]), *row, lanes[i]);
        }
        strip_end(e, &l);
    }
    tsr_free(lanes);
}

/* ---- joining ---- */

static int again_cost(const CpuCode *e, const TileNode *n)
{
    int cost = 1;

    switch (n->op) {
    case TOP_lane: return 1;
    case TOP_idiv: case TOP_imod: cost = 4; break;
    case TOP_iadd: case TOP_isub: case TOP_imul: case TOP_imin: case TOP_imax: case TOP_ilt: case TOP_ieq: break;
    default: return 0;
    }
    for (int i = 0; i < n->nin; i++) {
        int part = cpu_varies(e, n->in[i]) ? e->lanes->cost[n->in[i].node->id] : 1;
        if (!part)
            return 0;
        cost += part;
    }
    return cost > AGAIN_MAX ? 0 : cost;
}

/* The open cluster, and loads that the run's stores may disturb, are done before it. */
static void settle(CpuCode *e, bool writes)
{
    for (int i = 0; i < e->loads.n && writes; i++)
        cpu_need(e, out_of(e->loads.at[i], 0));
    cpu_close(e);
}

static bool has_control(const TileNode *n) { return n->region[0] != NULL; }

static bool takes_pending(const CpuCode *e, const TileNode *n)
{
    for (int i = 0; i < n->nin; i++)
        for (int k = 0; k < e->lanes->run.n; k++)
            if (e->lanes->run.at[k] == n->in[i].node)
                return true;
    return false;
}

static void join(CpuCode *e, const TileNode *n)
{
    LaneCode *c = e->lanes;
    bool writes = touches(n) || has_control(n);

    if (n->op == TOP_shuffle && cpu_varies(e, n->in[0]))
        c->row[value_number(e, n->in[0])] = row_of(e, n->in[0]);
    settle(e, writes);
    if (order_shows(e, n) && c->ordered)
        cpu_lane_flush(e);
    c->writes |= writes;
    c->ordered |= order_shows(e, n);
    c->cost[n->id] = (uint8_t)again_cost(e, n);
    vec_push(&c->run, n);
}

/* Inner nodes are computed in their strips and never again. */
bool cpu_lane_node(CpuCode *e, const TileNode *n)
{
    LaneCode *c = e->lanes;

    if (lane_wise(e, n)) {
        join(e, n);
        return true;
    }
    if (is_scalar(n)) {
        if (takes_pending(e, n) || (n->op == TOP_load && c->writes))
            cpu_lane_flush(e);
        return false;
    }
    cpu_lane_flush(e);
    switch (n->op) {
    case TOP_lane_reduce: case TOP_match: case TOP_uniform: case TOP_shuffle:
        cpu_close(e);
        lanes_together(e, n);
        return true;
    case TOP_for: case TOP_if: case TOP_while:
        if (!c->vary.parts[n->id])
            return false;
        cpu_settle(e, n);
        lanes_part(e, n);
        return true;
    default: return false;
    }
}
