/*
 * Clusters of tiles in registers (gpu_fragment.c): which they are, and the walk over a thread's registers: elements are computed and stored,
 * or stay; the sums of rows meet in the four threads of a row, then in the warps that stand side by side.
 */
#include "codegen/cpu_lane.h"
#include "codegen/gpu_impl.h"

#include "base/alloc.h"

/* ---- clusters ---- */

static TileType shape_of(const Cluster *c)
{
    return (TileType){.kind = TILE_VALUE, .rank = (uint8_t)c->rank, .extent = {c->shape[0], c->rank == 2 ? c->shape[1] : 0}};
}

static bool is_fragment(CpuCode *e, const Cluster *c, TileRef v)
{
    const TileType *t = tile_type(v), shape = shape_of(c);

    if (t->kind != TILE_VALUE || !t->rank || !cpu_val(e, v)->fragment || t->extent[0] != c->shape[0])
        return false;
    return gpu_is_column(t) ? c->rank == 1 || c->shape[1] == 1 || gpu_is_of_units(e, &shape)
                        : t->rank == 2 && c->rank == 2 && t->extent[1] == c->shape[1];
}

static bool has_fragment(CpuCode *e, const Cluster *c)
{
    for (int i = 0; i < c->sinks.n; i++)
        if (is_fragment(e, c, c->sinks.at[i].v))
            return true;
    for (int i = 0; i < c->nodes.n; i++)
        for (int k = 0; k < c->nodes.at[i]->nin; k++)
            if (is_fragment(e, c, c->nodes.at[i]->in[k]))
                return true;
    return false;
}

/* Columns that a chain loads stay in registers, where all that uses them is there. */
static bool is_kept_column(CpuCode *e, const Cluster *c)
{
    TileType t = shape_of(c);

    if (!gpu_is_chain(e) || !gpu_is_column(&t))
        return false;
    for (int i = 0; i < c->sinks.n; i++)
        if (c->sinks.at[i].node || c->sinks.at[i].buffer || c->sinks.at[i].v.index || !gpu_stays(e, c->sinks.at[i].v))
            return false;
    return true;
}

bool gpu_in_fragments(CpuCode *e, const Cluster *c)
{
    TileType t = shape_of(c);
    Fragment f;

    if (e->gpu->whole.chunk)
        return gpu_has_whole_rows(e, c);
    if (c->rank < 1 || c->rank > 2 || c->axis == 0 || !(has_fragment(e, c) || is_kept_column(e, c)) || !gpu_fragment_of(e, &t, &f))
        return false;
    for (int i = 0; i < c->sinks.n; i++)
        if (c->sinks.at[i].stage ||
            (c->sinks.at[i].node && c->sinks.at[i].node->op != TOP_store && (c->sinks.at[i].node->op != TOP_reduce || f.side[0] || !f.columns)))
            return false;
    return true;
}

bool gpu_keep_sinks(CpuCode *e, Cluster *c)
{
    TileType t = shape_of(c);
    bool writes = false;
    Fragment f;

    gpu_fragment_of(e, &t, &f);
    for (int i = 0; i < c->sinks.n; i++) {
        Sink *s = &c->sinks.at[i];
        bool sum = s->node && s->node->op == TOP_reduce;
        TileRef y = sum ? (TileRef){(TileNode *)s->node, 0} : s->v;
        if ((s->node && !sum) || s->buffer || f.side[0] || (sum && !gpu_sums_to_column(e, &t)) || !gpu_stays(e, y))
            writes = true;
        else
            s->kept = arena_array(&e->gpu->arena, LLVMValueRef, sum ? 2 * f.rows : gpu_registers(&f));
    }
    return writes;
}

static void add_register(CpuCode *e, Cluster *c, Sink *s, LLVMValueRef *sum)
{
    OpId op = (OpId)s->node->attr->op;
    LLVMValueRef x = cpu_lanes(e, s->v, &e->spot);

    if (e->masked)
        x = cpu_choose(e, cpu_compare(e, LLVMIntSLT, e->spot.at[1], s->count), x, cpu_identity(e, op, sink_dtype(s), 1));
    *sum = *sum ? cpu_step(e, tile_step_op(op), sink_dtype(s), *sum, x, 1) : x;
}

/* What a sink leaves in registers, behind both ways through the walk: the sums of its rows, or a tile. */
typedef struct Left { LLVMValueRef *slot; int n; } Left;

/* The sums of a sink's rows: two for each 16-row piece, and of each those of even and of odd columns, so that two are under way. */
static LLVMValueRef *sum_of(const Fragment *f, LLVMValueRef *sums, int sink, int row) { return &sums[2 * (sink * 2 * f->rows + row)]; }

/* Is this thread's share its own, not one that another does as well?  NULL: all are. */
static LLVMValueRef owns(CpuCode *e, const Fragment *f)
{
    LLVMBuilderRef b = e->u->builder;
    int64_t all = f->side[0] ? (int64_t)f->extent[0] / f->side[0] * (f->extent[1] / f->side[1]) : (int64_t)f->high * f->wide * GPU_WARP;

    return all < e->gpu->threads && !f->whole ? LLVMBuildICmp(b, LLVMIntULT, e->gpu->thread, i32_number(e, all), "") : NULL;
}

/* Memory is written once: what is stored may have been loaded from there. */
static void store_own(CpuCode *e, Cluster *c, Sink *s, LLVMValueRef own)
{
    int known;
    GpuIf mine;

    cpu_raw(e, s->v, &e->spot);                 /* before the branch, for others as well */
    known = e->known.n;
    mine = gpu_if(e, own);
    cpu_sink_strip(e, c, s);
    gpu_end_if(e, &mine);
    e->known.n = known;
}

/* thread: of the kernel, where this way is the only one without masks, so that elements may be known ahead; else NULL. */
static void each_register(CpuCode *e, Cluster *c, const Fragment *f, bool masked, LLVMValueRef thread, LLVMValueRef *sums, const Left *left)
{
    LLVMValueRef own = owns(e, f), guess[GUESSES_MOST];
    TileRef guessed;
    int guesses = thread ? chain_guess(e, c, f, thread, &guessed, guess) : 0, wait = -1;

    if (guesses)
        wait = gpu_registers(f) - gpu_registers(f) * LEFT_BEHIND / OF_ELEMENTS;
    e->masked = masked;
    for (int r = 0; r < gpu_registers(f); r++) {
        if (r == wait)
            chain_wait_within(e);
        gpu_enter_register(e, f, r);
        if (r < guesses)
            vec_push(&e->known, ((Known){guessed.node, e->spot, {guess[r], NULL}}));
        for (int i = 0; i < c->sinks.n; i++) {
            Sink *s = &c->sinks.at[i];
            if (sink_reduces(s))
                add_register(e, c, s, &sum_of(f, sums, i, r / 4 / f->columns * 2 + r / 2 % 2)[r % 2]);
            else if (s->kept)
                LLVMBuildStore(e->u->builder, cpu_lanes(e, s->v, &e->spot), left[i].slot[r]);
            else if (own && s->node && s->node->op == TOP_store)
                store_own(e, c, s, own);
            else
                cpu_sink_strip(e, c, s);
        }
    }
    gpu_leave_registers(e);
}

/* The four threads of a row, then the warps that stand side by side. */
static void join_rows(CpuCode *e, Cluster *c, const Fragment *f, const Left *left)
{
    LLVMValueRef all = i32_number(e, -1), first, meet;
    Warp w = gpu_warp(e, f);

    first = LLVMBuildICmp(e->u->builder, LLVMIntEQ, LLVMBuildURem(e->u->builder, w.lane, i32_number(e, ROW_LANES), ""), i32_number(e, 0), "");
    for (int i = 0; i < c->sinks.n; i++) {
        Sink *s = &c->sinks.at[i];
        OpId step = sink_reduces(s) ? tile_step_op((OpId)s->node->attr->op) : OP_add;
        if (!sink_reduces(s))
            continue;
        meet = s->buffer;
        if (f->wide > 1)
            meet = cpu_buffer(e, (int64_t)f->wide * c->shape[0] * (int64_t)raw_size(lane_dtype(sink_dtype(s))));
        for (int k = 0; k < 2 * f->rows; k++) {
            LLVMValueRef x = LLVMBuildLoad2(e->u->builder, lane_type(e->u, sink_dtype(s), 1), left[i].slot[k], "");
            Spot p = gpu_register_spot(e, f, 4 * f->columns * (k / 2) + 2 * (k % 2));
            for (int n = 1; n < (chain_joins_late(e, s->node) ? 1 : ROW_LANES); n *= 2)
                x = cpu_step(e, step, sink_dtype(s), x, gpu_other(e, x, n, all), 1);
            if (s->kept) {
                s->kept[k] = x;
                continue;
            }
            GpuIf one = gpu_if(e, first);
            LLVMValueRef at = cpu_op(e, LLVMMul, LLVMBuildZExt(e->u->builder, w.wide, i64_type(e), ""), cpu_number(e, c->shape[0]));
            cpu_store_flat(e, sink_dtype(s), meet, cpu_op(e, LLVMAdd, at, p.at[0]), x, NULL);
            gpu_end_if(e, &one);
        }
        if (f->wide == 1)
            continue;
        gpu_written(e);
        gpu_fence(e);
        CpuLoop l = cpu_spread(e, c->shape[0], 1);
        LLVMValueRef x = cpu_load_flat(e, sink_dtype(s), meet, l.i, 1);
        for (int k = 1; k < f->wide; k++) {
            LLVMValueRef at = cpu_op(e, LLVMAdd, l.i, cpu_number(e, (int64_t)k * c->shape[0]));
            x = cpu_step(e, step, sink_dtype(s), x, cpu_load_flat(e, sink_dtype(s), meet, at, 1), 1);
        }
        cpu_store_flat(e, sink_dtype(s), s->buffer, l.i, x, NULL);
        cpu_loop_end(e, &l);
    }
}

/* What rows come to so far, from both ways through the walk to one place. */
static void keep_sums(CpuCode *e, const Cluster *c, const Fragment *f, LLVMValueRef *sums, const Left *left)
{
    for (int i = 0; i < c->sinks.n; i++)
        for (int k = 0; sink_reduces(&c->sinks.at[i]) && k < 2 * f->rows; k++) {
            const Sink *s = &c->sinks.at[i];
            LLVMValueRef *x = sum_of(f, sums, i, k);
            LLVMBuildStore(e->u->builder, cpu_step(e, tile_step_op((OpId)s->node->attr->op), sink_dtype(s), x[0], x[1], 1), left[i].slot[k]);
        }
}

static Left *make_slots(CpuCode *e, const Cluster *c, const Fragment *f)
{
    Left *left = arena_array(&e->gpu->arena, Left, c->sinks.n);

    for (int i = 0; i < c->sinks.n; i++) {
        const Sink *s = &c->sinks.at[i];
        left[i].n = sink_reduces(s) ? 2 * f->rows : s->kept ? gpu_registers(f) : 0;
        left[i].slot = arena_array(&e->gpu->arena, LLVMValueRef, left[i].n + 1);
        for (int k = 0; k < left[i].n; k++)
            left[i].slot[k] = llvm_slot(e->u, lane_type(e->u, sink_dtype(s), 1));
    }
    return left;
}

static void take_kept(CpuCode *e, const Cluster *c, const Left *left)
{
    for (int i = 0; i < c->sinks.n; i++)
        for (int k = 0; c->sinks.at[i].kept && !sink_reduces(&c->sinks.at[i]) && k < left[i].n; k++)
            c->sinks.at[i].kept[k] = LLVMBuildLoad2(e->u->builder, lane_type(e->u, sink_dtype(&c->sinks.at[i]), 1), left[i].slot[k], "");
}

void gpu_walk_fragment(CpuCode *e, Cluster *c)
{
    TileType t = shape_of(c);
    LLVMBasicBlockRef way[2] = {cpu_block(e), cpu_block(e)}, done = cpu_block(e);
    LLVMValueRef *sums, thread = gpu_enter_thread(e), plain, keep;
    Fragment f;
    Left *left;

    if (e->gpu->roles)
        roles_take_all(e);
    gpu_fragment_of(e, &t, &f);
    c->strip = c->rank - 1;
    c->masked_width = c->width = c->plain_width = 1;
    e->width = 1;
    left = make_slots(e, c, &f);
    plain = cpu_compare(e, LLVMIntSGE, cpu_find_ends(e, c).plain, cpu_number(e, c->shape[c->strip]));
    if ((keep = gpu_masks_keep(e, c, &f)))
        plain = LLVMBuildAnd(e->u->builder, plain, keep, "");
    LLVMBuildCondBr(e->u->builder, plain, way[0], way[1]);
    for (int masked = 0; masked < 2; masked++) {
        if (LLVMIsAConstantInt(plain) && LLVMConstIntGetZExtValue(plain) == (unsigned)masked) {
            LLVMPositionBuilderAtEnd(e->u->builder, way[masked]);
            LLVMBuildUnreachable(e->u->builder);
            continue;
        }
        e->gpu->unmasked = masked || !keep ? NULL : c;
        LLVMPositionBuilderAtEnd(e->u->builder, way[masked]);
        sums = tsr_calloc(sizeof *sums * (size_t)(c->sinks.n * 4 * f.rows + 1));
        each_register(e, c, &f, masked, LLVMIsAConstantInt(plain) && !masked ? thread : NULL, sums, left);
        keep_sums(e, c, &f, sums, left);
        tsr_free(sums);
        LLVMBuildBr(e->u->builder, done);
    }
    e->gpu->unmasked = NULL;
    LLVMPositionBuilderAtEnd(e->u->builder, done);
    take_kept(e, c, left);
    join_rows(e, c, &f, left);
    e->gpu->thread = thread;
}
