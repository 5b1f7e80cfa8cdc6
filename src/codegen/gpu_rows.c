/*
 * Whole rows in registers: softmax and norms read memory once and write it once.
 *
 * A kernel whose schedule says `whole` has tiles [rows, columns] of all that a row holds.  Semantics 9.3 sums a row by chunks of 256 in eight
 * lanes, and lets lanes and chunks go side by side: so a lane of a chunk is a thread, which has every eighth element of it, 32 registers of each tile
 * that is kept.  Lanes meet in registers, and so do the chunks of a row within a warp; those of several warps meet in
 * shared memory, in the balanced tree that 9.3 asks for.  Chunks beyond the last are taken to hold the identity, which changes no sum.
 *
 * Where rows are gone over in pieces, such a chunk is two: twice the threads have half the registers each, and loops of shorter code, which
 * instruction caches hold.  The second half of a sum goes on from what the first one hands over: every thread sums its elements from
 * nothing, then those of the second half once more from there.  Where sums may go in any order, rows of several operands are halved as well:
 * half the registers, and twice as many warps that wait for memory.
 */
#include "codegen/gpu_rows.h"

#include "base/alloc.h"

enum { KEPT_MOST = 4, DEAR = 8, TWO_BESIDE = 78 << 10 };

int64_t rows_pitch(const WholeRows *w, int64_t bytes)
{
    int64_t pad = GPU_OCTET * bytes;

    return w->chunk * bytes + (pad < ROW_VECTOR ? ROW_VECTOR : pad);
}

void gpu_rows_memory(CpuCode *e)
{
    WholeRows *w = &e->gpu->whole;
    int64_t most = 0;

    for (int i = 0; w->chunk && i < e->k->params.n; i++) {
        const TileType *t = &e->k->params.at[i]->type[0];
        int64_t bytes = row_bytes((DType)t->dtype);
        most = t->rank == 2 && t->stride[1] == 1 && bytes > most && bytes <= ROW_WIDEST ? bytes : most;
    }
    w->pitch = most ? rows_pitch(w, most) : 0;
    if (w->blocks > 1)
        rows_enter_blocks(e);
    if (most)
        rows_held_memory(e);
    if (w->nstay)
        rows_stay_memory(e);
    else if (most && w->run == 1)
        w->stage = cpu_buffer(e, e->gpu->threads / w->each * w->pitch);
    if (w->chunk && !w->held)
        rows_ahead_memory(e);
    if (w->chunk && !w->held && rows_has_loops(e->k, 2) && e->fixed_bytes < TWO_BESIDE)       /* what few groups go over again the L2 cache has */
        cpu_buffer(e, TWO_BESIDE - e->fixed_bytes);
}

/* ---- where a thread's elements are ---- */

static LLVMValueRef lane_of(CpuCode *e) { return LLVMBuildAnd(e->u->builder, e->gpu->thread, i32_number(e, e->gpu->whole.each - 1), ""); }
LLVMValueRef rows_octet(CpuCode *e) { return LLVMBuildUDiv(e->u->builder, e->gpu->thread, i32_number(e, e->gpu->whole.each), ""); }

RowPlace rows_place(CpuCode *e)
{
    const WholeRows *w = &e->gpu->whole;
    LLVMBuilderRef b = e->u->builder;
    LLVMValueRef octet = rows_octet(e), here = i32_number(e, w->here), row = LLVMBuildUDiv(b, octet, here, ""), column;

    column = LLVMBuildAdd(b, LLVMBuildURem(b, octet, here, ""), rows_first_chunk(e), "");
    column = LLVMBuildMul(b, column, i32_number(e, w->chunk), "");
    return (RowPlace){row_wide(e, row), row_wide(e, column), row_wide(e, lane_of(e))};
}

/* Elements of a thread that lie side by side. */
static int side_of(const WholeRows *w) { return w->wide > 1 ? w->wide : w->run; }

/* Where a thread's first element of a chunk is, and how far behind it the one in a register. */
static LLVMValueRef first_of(CpuCode *e, const RowPlace *p) { return cpu_op(e, LLVMMul, p->lane, cpu_number(e, side_of(&e->gpu->whole))); }

int64_t rows_behind_first(const CpuCode *e, int number)
{
    int side = side_of(&e->gpu->whole);

    return (int64_t)number / side * side * e->gpu->whole.each + number % side;
}

Spot rows_spot(CpuCode *e, const RowPlace *p, int number)
{
    LLVMValueRef column = cpu_op(e, LLVMAdd, cpu_op(e, LLVMAdd, p->column, first_of(e, p)), cpu_number(e, rows_behind_first(e, number)));

    return (Spot){.at = {p->row, column}, .strip = -1};
}

Spot gpu_rows_spot(CpuCode *e, int number)
{
    RowPlace p = rows_place(e);

    return rows_spot(e, &p, number);
}

/* Are these the numbers of columns, from somewhere on? */
static bool are_columns(const CpuCode *e, TileRef v)
{
    const WholeRows *w = &e->gpu->whole;

    return v.node->op == TOP_iota && v.node->attr->axis == 1 && v.node->type[0].dtype == DT_int64 && v.node->type[0].rank == 2 && w->chunk &&
           v.node->type[0].extent[1] == w->columns;
}

/* Registers compare constants with how far a row's own place is from this thread's first one, by 32 bits; -1: it is in none of them. */
LLVMValueRef gpu_rows_is_place(CpuCode *e, const TileNode *n, LLVMValueRef *in)
{
    LLVMBuilderRef b = e->u->builder;
    int k = n->nin == 2 && are_columns(e, n->in[0]) ? 0 : 1, number = e->gpu->at_register;
    LLVMValueRef first, far, is;
    RowPlace p;

    if (n->attr->op != OP_eq || n->nin != 2 || !are_columns(e, n->in[k]) || tile_type(n->in[1 - k])->extent[1] != 1 || number < 0 || e->width != 1)
        return NULL;
    p = rows_place(e);
    first = cpu_op(e, LLVMAdd, cpu_val(e, n->in[k].node->in[0])->x, cpu_op(e, LLVMAdd, p.column, first_of(e, &p)));
    far = cpu_op(e, LLVMSub, in[1 - k], first);
    is = cpu_compare(e, LLVMIntULT, far, cpu_number(e, e->gpu->whole.columns));
    far = cpu_choose(e, is, LLVMBuildTrunc(b, far, i32_type(e), ""), i32_number(e, -1));
    return lane_bools(e->u, LLVMBuildICmp(b, LLVMIntEQ, far, i32_number(e, rows_behind_first(e, number)), ""), 1);
}

/* ---- clusters ---- */

static bool is_whole(const CpuCode *e, const TileType *t)
{
    return t->rank == 2 && t->extent[0] == e->gpu->whole.rows && t->extent[1] == e->gpu->whole.columns;
}

/* Does it go from memory to memory, element by element? Then nothing has to lie as sums want it, and neighbours may be a thread's. */
static bool goes_through(const CpuCode *e, const Cluster *c)
{
    if (e->gpu->whole.run > 1 || e->gpu->whole.blocks > 1)      /* they are a thread's as it is, or each block has its own */
        return false;
    for (int i = 0; i < c->sinks.n; i++)
        if (!c->sinks.at[i].node || c->sinks.at[i].node->op != TOP_store)
            return false;
    for (int i = 0; i < c->nodes.n; i++) {
        const TileNode *n = c->nodes.at[i];
        if (e->seen[n->id] < n->nuse || rows_is_held(e, n))
            return false;
        for (int k = 0; k < n->nin; k++)
            if (is_whole(e, tile_type(n->in[k])) && e->val[e->first[n->in[k].node->id] + (uint32_t)n->in[k].index].fragment)
                return false;
    }
    return true;
}

bool gpu_has_whole_rows(const CpuCode *e, const Cluster *c)
{
    const WholeRows *w = &e->gpu->whole;

    if (!w->chunk || c->rank != 2 || c->axis == 0 || c->shape[0] != w->rows || c->shape[1] != w->columns || goes_through(e, c))
        return false;
    for (int i = 0; i < c->sinks.n; i++) {
        const Sink *s = &c->sinks.at[i];
        if (s->node ? s->node->op != TOP_store && s->node->op != TOP_reduce : s->stage || s->panel)
            return false;
    }
    return true;
}

bool gpu_is_kept_row(const CpuCode *e, const Cluster *c, const Sink *s) { return !s->node && !s->buffer && gpu_has_whole_rows(e, c); }

/* Is it dear to compute again? Loads read memory. */
static bool is_dear(const CpuCode *e, const TileNode *n)
{
    if (!is_whole(e, &n->type[0]))
        return false;
    if (n->op == TOP_load)
        return true;
    return n->op == TOP_map && n->attr->op != OP_convert && formula_cost((OpId)n->attr->op, tile_map_dtype((OpId)n->attr->op, n->in)) > DEAR;
}

static bool is_sink(const Cluster *c, const TileNode *n)
{
    for (int i = 0; i < c->sinks.n; i++)
        if (!c->sinks.at[i].node && c->sinks.at[i].v.node == n)
            return true;
    return false;
}

/* What is cheap is computed again, of what it is computed of. */
void gpu_keep_rows(CpuCode *e, Cluster *c)
{
    bool *again = tsr_calloc((size_t)c->nodes.n);

    for (int i = c->nodes.n - 1; i >= 0; i--) {
        const TileNode *n = c->nodes.at[i];
        if (!again[i] && e->seen[n->id] >= n->nuse)
            continue;
        if (is_dear(e, n)) {
            if (!is_sink(c, n)) {
                vec_push(&c->sinks, ((Sink){.v = {(TileNode *)n, 0}}));
                if (++e->gpu->whole.kept > KEPT_MOST)
                    cpu_refuse(e, "more than %d tiles of whole rows at once", KEPT_MOST);
            }
            continue;
        }
        for (int k = 0; k < i; k++)
            for (int j = 0; j < n->nin; j++)
                again[k] |= n->in[j].node == c->nodes.at[k];
    }
    tsr_free(again);
}

/* ---- the walk ---- */

static LLVMValueRef reduced(CpuCode *e, const Sink *s)
{
    LLVMValueRef x = cpu_lanes(e, s->v, &e->spot);

    return e->masked ? cpu_choose(e, cpu_compare(e, LLVMIntSLT, e->spot.at[1], s->count), x, rows_identity(e, s)) : x;
}

/* What is the same along a row is known for the registers to come. */
static void forget_column(CpuCode *e)
{
    int kept = 0;

    for (int i = 0; i < e->known.n; i++) {
        const Known *k = &e->known.at[i];
        bool here = false;
        for (int a = 0; a < k->node->type[0].rank; a++)
            here |= k->spot.at[a] == e->spot.at[1];
        if (!here)
            e->known.at[kept++] = *k;
    }
    e->known.n = kept;
}

/* Slots by sink and register: of kept tiles and sums in turn all, of other sums one a lane. */
typedef LLVMValueRef *Slots;

static int slots_needed(const CpuCode *e, const Sink *s) { return sink_reduces(s) && !rows_in_turn(e, s) ? e->gpu->whole.wide : rows_registers(e); }

/* sum: by sink, of this register's lane. */
static void one_register(CpuCode *e, Cluster *c, const RowPlace *p, int r, LLVMValueRef *sum, LLVMValueRef **raw, const Slots *slot)
{
    bool ends = (r + 1) % e->gpu->whole.wide == 0;      /* the thread's last lane? */
    bool vectors = !e->masked || e->gpu->whole.ragged;
    const TileNode *staged = NULL;              /* the first store's elements go to their place at once */

    for (int i = 0; i < c->sinks.n; i++) {
        Sink *s = &c->sinks.at[i];
        if (sink_reduces(s) && rows_in_turn(e, s))
            LLVMBuildStore(e->u->builder, reduced(e, s), slot[i][r]);
        else if (sink_reduces(s))
            sum[i] = rows_sink_join(e, s, sum[i] ? sum[i] : rows_identity(e, s), reduced(e, s));
        else if (!s->node)
            LLVMBuildStore(e->u->builder, cpu_lanes(e, s->v, &e->spot), slot[i][r]);
        else if (vectors && raw[i] && e->gpu->whole.run > 1) {
            raw[i][r] = cpu_raw(e, s->v, &e->spot);
            if ((r + 1) % (ROW_VECTOR / row_bytes(row_dtype(s->node))) == 0)
                rows_store_run(e, s->node, p, raw[i], r);
        } else if (vectors && raw[i] && !staged) {
            raw[i][r] = cpu_raw(e, s->v, &e->spot);
            staged = s->node;
            if (ends)
                rows_stage_store(e, row_dtype(staged), p, raw[i], r);
        } else if (vectors && raw[i])
            raw[i][r] = cpu_raw(e, s->v, &e->spot);
        else
            cpu_store(e, s->node, s->v, &e->spot);
    }
}

static void all_registers(CpuCode *e, Cluster *c, const RowPlace *p, const Nears *near, LLVMValueRef **raw, const Slots *slot)
{
    int wide = e->gpu->whole.wide;
    LLVMValueRef *sum = tsr_calloc(sizeof *sum * (size_t)(c->sinks.n * wide));          /* by lane and sink */

    for (int r = 0; r < rows_registers(e); r++) {
        e->spot = rows_spot(e, p, r);
        e->gpu->at_register = r;
        rows_take_near(e, near, p, r);
        one_register(e, c, p, r, &sum[r % wide * c->sinks.n], raw, slot);
        forget_column(e);
    }
    for (int i = 0; i < c->sinks.n; i++)
        for (int lane = 0; sum[i] && lane < wide; lane++)
            LLVMBuildStore(e->u->builder, sum[lane * c->sinks.n + i], slot[i][lane]);
    tsr_free(sum);
}

/* ---- exponentials ---- */

static bool is_exponential(const CpuCode *e, const TileNode *n)
{
    bool exact = n->op == TOP_map && n->attr->op == OP_exp && !n->attr->fast;

    return exact && lane_dtype(tile_map_dtype(OP_exp, n->in)) == DT_f32 && is_whole(e, &n->type[0]);
}

static bool has_exponentials(const CpuCode *e, const Cluster *c)
{
    bool any = false;

    for (int i = 0; i < c->nodes.n; i++)
        any |= is_exponential(e, c->nodes.at[i]);
    return any;
}

static void registers_and_stores(CpuCode *e, Cluster *c, const RowPlace *p, const Nears *near, LLVMValueRef **raw, const Slots *slot)
{
    all_registers(e, c, p, near, raw, slot);
    for (int i = 0; i < c->sinks.n; i++)
        if (raw[i] && e->gpu->whole.run == 1)
            rows_store_turned(e, c->sinks.at[i].node, p, raw[i]);
}

/* The largest element of each row of a tile, if the kernel has found it out: a reduction before this. */
static const TileNode *largest_of(CpuCode *e, TileRef v)
{
    for (const TileNode *n = e->k->body.first; n; n = n->next)
        if (n->op == TOP_reduce && n->attr->op == OP_max && n->attr->axis == 1 && n->in[0].node == v.node && n->in[0].index == v.index)
            return cpu_val(e, (TileRef){(TileNode *)n, 0})->x ? n : NULL;
    return NULL;
}

/* Differences to a number of the row grow with what they are of, so the largest one is that of the row's largest element; NULL: it is not known. */
static LLVMValueRef largest_difference(CpuCode *e, const TileNode *n, const RowPlace *p)
{
    const TileNode *sub = n->in[0].node, *most = NULL;
    Spot row = {.at = {p->row}, .strip = -1};
    LLVMValueRef in[2];

    if (sub->op == TOP_map && sub->attr->op == OP_sub && sub->nin == 2 && is_whole(e, tile_type(sub->in[0])) && tile_type(sub->in[1])->extent[1] == 1)
        most = largest_of(e, sub->in[0]);
    if (!most)
        return NULL;
    e->spot = rows_spot(e, p, 0);
    in[0] = cpu_lanes(e, (TileRef){(TileNode *)most, 0}, &row);
    in[1] = cpu_lanes(e, sub->in[1], &e->spot);
    forget_column(e);
    return formula_emit(e->u, OP_sub, DT_f32, in, 2, 1);
}

/* The largest number that the cluster has an exponential of by what is known of rows, or NaN; NULL: elements have to be looked at. */
static LLVMValueRef largest_known(CpuCode *e, const Cluster *c, const RowPlace *p)
{
    LLVMValueRef most = NULL, x;

    for (int i = 0; i < c->nodes.n; i++) {
        if (!is_exponential(e, c->nodes.at[i]))
            continue;
        if (!(x = largest_difference(e, c->nodes.at[i], p)))
            return NULL;
        most = most ? cpu_step(e, OP_maximum, DT_f32, most, x, 1) : x;
    }
    return most;
}

/* The largest number that this thread has an exponential of, or NaN. */
static LLVMValueRef largest_exponent(CpuCode *e, Cluster *c, const RowPlace *p, const Nears *near)
{
    LLVMValueRef most = LLVMConstReal(lane_type(e->u, DT_f32, 1), 0), x;

    for (int r = 0; r < rows_registers(e); r++) {
        e->spot = rows_spot(e, p, r);
        e->gpu->at_register = r;
        rows_take_near(e, near, p, r);
        for (int i = 0; i < c->nodes.n; i++)
            if (is_exponential(e, c->nodes.at[i])) {
                x = cpu_lanes(e, c->nodes.at[i]->in[0], &e->spot);
                most = cpu_step(e, OP_maximum, DT_f32, most, x, 1);
            }
        forget_column(e);
    }
    return most;
}

/* As that. Where no exponential of a warp is of a large number, as in softmax, where all are of negative ones, the shorter formula does. */
static void exponentials(CpuCode *e, Cluster *c, const RowPlace *p, const Nears *near, LLVMValueRef **raw, const Slots *slot)
{
    LLVMValueRef most = largest_known(e, c, p);
    LLVMBasicBlockRef way[2] = {cpu_block(e), cpu_block(e)}, done = cpu_block(e);

    most = most ? most : largest_exponent(e, c, p, near);
    most = gpu_any(e, LLVMBuildFCmp(e->u->builder, LLVMRealUGT, most, LLVMConstReal(LLVMTypeOf(most), EXP_NEAR), ""));
    LLVMBuildCondBr(e->u->builder, most, way[1], way[0]);
    for (int far = 0; far < 2; far++) {
        LLVMPositionBuilderAtEnd(e->u->builder, way[far]);
        e->known.n = 0;
        formula_exp_near(e->u, !far);
        registers_and_stores(e, c, p, near, raw, slot);
        LLVMBuildBr(e->u->builder, done);
    }
    formula_exp_near(e->u, false);
    LLVMPositionBuilderAtEnd(e->u->builder, done);
    e->known.n = 0;
}

/* All of the tile is there, or, ragged, so much of its rows as are some vectors. */
static void plain_way(CpuCode *e, Cluster *c, const Slots *slot, LLVMValueRef **raw, bool ragged)
{
    RowPlace p = rows_place(e);
    Nears near = {0};

    e->masked = e->gpu->whole.ragged = ragged;
    e->known.n = 0;
    rows_load(e, c, &p, &near);
    (has_exponentials(e, c) ? exponentials : registers_and_stores)(e, c, &p, &near, raw, slot);
    e->gpu->whole.ragged = false;
    rows_forget(e, c);
    gpu_leave_registers(e);
    vec_free(&near);
}

/* Is it known of all accesses by vectors that rows end with a vector, wherever that is? */
static bool ends_with_vectors(const CpuCode *e, const Cluster *c)
{
    bool any = false;

    for (int i = 0; i < c->nodes.n; i++) {
        const TileNode *n = c->nodes.at[i];
        if (n->op != TOP_load || !rows_by_vectors(e, n))
            continue;
        if (!rows_end_with_vectors(n) || rows_come_ahead(e, n))
            return false;
        any = true;
    }
    for (int i = 0; i < c->sinks.n; i++) {
        const TileNode *n = c->sinks.at[i].node;
        if (!n || n->op != TOP_store || !rows_by_vectors(e, n))
            continue;
        if (!rows_end_with_vectors(n))
            return false;
        any = true;
    }
    return any;
}

/* Chunks of which nothing is seen are left out, where nobody has registers of them. */
static void masked_way(CpuCode *e, Cluster *c, LLVMValueRef end, const Slots *slot, LLVMValueRef **raw)
{
    RowPlace p = rows_place(e);
    Nears none = {0};
    bool kept = false;
    GpuIf some;

    e->masked = true;
    e->known.n = 0;
    rows_end_ahead(e, c);
    for (int i = 0; i < c->sinks.n; i++) {
        const Sink *s = &c->sinks.at[i];
        for (int r = 0; sink_reduces(s) && r < slots_needed(e, s); r++)
            LLVMBuildStore(e->u->builder, rows_identity(e, s), slot[i][r]);
        kept |= !s->node;
    }
    if (!kept)
        some = gpu_if(e, cpu_compare(e, LLVMIntSLT, p.column, end));
    all_registers(e, c, &p, &none, raw, slot);
    if (!kept)
        gpu_end_if(e, &some);
    gpu_leave_registers(e);
}

static LLVMValueRef all_aligned(CpuCode *e, const Cluster *c, LLVMValueRef is)
{
    for (int i = 0; i < c->nodes.n; i++)
        if (c->nodes.at[i]->op == TOP_load && rows_by_vectors(e, c->nodes.at[i]))
            is = rows_are_aligned(e, c->nodes.at[i], is);
    for (int i = 0; i < c->sinks.n; i++)
        if (c->sinks.at[i].node && c->sinks.at[i].node->op == TOP_store && rows_by_vectors(e, c->sinks.at[i].node))
            is = rows_are_aligned(e, c->sinks.at[i].node, is);
    return is;
}

/* ---- all of it ---- */

static Slots slots_of(CpuCode *e, const Sink *s)
{
    int n = slots_needed(e, s);
    Slots x = arena_alloc(&e->gpu->arena, sizeof *x * (size_t)n);

    for (int r = 0; r < n; r++)
        x[r] = llvm_slot(e->u, lane_type(e->u, sink_dtype(s), 1));
    return x;
}

/* Kept tiles from both ways to one place. */
static void take_kept(CpuCode *e, const Sink *s, const Slots slot, int registers)
{
    LLVMValueRef *x = arena_alloc(&e->gpu->arena, sizeof *x * (size_t)registers);

    for (int r = 0; r < registers; r++)
        x[r] = LLVMBuildLoad2(e->u->builder, lane_type(e->u, sink_dtype(s), 1), slot[r], "");
    cpu_val(e, s->v)->fragment = x;
}

/* What the threads have summed, together, but for sums that go on. */
static void add_sums(CpuCode *e, const Cluster *c, const Slots *slot)
{
    Cluster rest = {.rank = 0};
    Vec(Slots) slots = {0};

    for (int i = 0; i < c->sinks.n; i++) {
        const Sink *s = &c->sinks.at[i];
        if (!sink_reduces(s))
            continue;
        if (rows_is_loose(e, s)) {
            rows_add_loose(e, s, e->gpu->whole.run == 1 ? rows_chunk_sum(e, s, slot[i])
                                                        : LLVMBuildLoad2(e->u->builder, lane_type(e->u, sink_dtype(s), 1), slot[i][0], ""));
            continue;
        }
        vec_push(&rest.sinks, *s);
        vec_push(&slots, slot[i]);
    }
    rows_join(e, &rest, slots.at);
    vec_free(&rest.sinks);
    vec_free(&slots);
}

/* Of one row: the first column behind those of this thread's warp. */
static LLVMValueRef end_of_warp(CpuCode *e)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMValueRef warp = LLVMBuildUDiv(b, e->gpu->thread, i32_number(e, GPU_WARP), ""), chunk;

    chunk = LLVMBuildMul(b, LLVMBuildAdd(b, warp, i32_number(e, 1), ""), i32_number(e, GPU_WARP / e->gpu->whole.each), "");
    chunk = LLVMBuildAdd(b, chunk, rows_first_chunk(e), "");
    return row_wide(e, LLVMBuildMul(b, chunk, i32_number(e, e->gpu->whole.chunk), ""));
}

/* Of one row that is in registers already: each warp looks for itself whether its elements are there. */
static bool goes_by_warps(const CpuCode *e, const Cluster *c)
{
    bool loads = e->gpu->whole.ahead || e->gpu->whole.held;

    for (int i = 0; i < c->nodes.n; i++)
        loads |= cpu_reads(c->nodes.at[i]);
    return e->gpu->whole.rows == 1 && !loads;
}

void gpu_walk_rows(CpuCode *e, Cluster *c)
{
    LLVMBasicBlockRef way[2] = {cpu_block(e), cpu_block(e)}, done = cpu_block(e);
    int registers = rows_registers(e), columns = e->gpu->whole.columns;
    Slots *slot = arena_alloc(&e->gpu->arena, sizeof *slot * (size_t)c->sinks.n);
    LLVMValueRef **raw = arena_alloc(&e->gpu->arena, sizeof *raw * (size_t)c->sinks.n), plain, least;
    bool ragged, held, split;
    Ends ends;

    if (!e->gpu->whole.begun && !rows_has_loops(e->k, 1))
        rows_send_near(e);
    e->gpu->whole.begun = true;
    c->strip = 1;
    c->masked_width = c->width = c->plain_width = 1;
    e->width = 1;
    e->gpu->fragment[0] = c->shape[0];
    e->gpu->fragment[1] = c->shape[1];
    for (int i = 0; i < c->sinks.n; i++) {
        const Sink *s = &c->sinks.at[i];
        slot[i] = sink_reduces(s) || !s->node ? slots_of(e, s) : NULL;
        raw[i] = !slot[i] && rows_by_vectors(e, s->node) ? arena_alloc(&e->gpu->arena, sizeof **raw * (size_t)registers) : NULL;
    }
    ends = cpu_find_ends(e, c);
    ragged = ends_with_vectors(e, c);
    least = goes_by_warps(e, c) && !ragged ? end_of_warp(e) : cpu_number(e, ragged ? 1 : columns);
    plain = all_aligned(e, c, cpu_compare(e, LLVMIntSGE, ends.plain, least));
    held = rows_may_take(e, c, &plain);
    if (e->gpu->whole.nstay && ragged)          /* what is not aligned is copied by elements */
        plain = LLVMConstInt(LLVMInt1TypeInContext(e->u->context), 1, false);
    split = ragged && e->gpu->whole.rows == 1;
    LLVMBuildCondBr(e->u->builder, plain, way[0], way[1]);
    LLVMPositionBuilderAtEnd(e->u->builder, way[0]);
    if (split) {                                /* all warps, or pieces, but those at its end, or these too, have none past it */
        LLVMBasicBlockRef full = cpu_block(e), last = cpu_block(e);
        LLVMBuildCondBr(e->u->builder, cpu_compare(e, LLVMIntSGE, ends.plain, held ? cpu_number(e, columns) : end_of_warp(e)), full, last);
        LLVMPositionBuilderAtEnd(e->u->builder, full);
        plain_way(e, c, slot, raw, false);
        LLVMBuildBr(e->u->builder, done);
        LLVMPositionBuilderAtEnd(e->u->builder, last);
        plain_way(e, c, slot, raw, true);
    } else {
        plain_way(e, c, slot, raw, ragged);
    }
    LLVMBuildBr(e->u->builder, done);
    LLVMPositionBuilderAtEnd(e->u->builder, way[1]);
    masked_way(e, c, ends.end, slot, raw);
    LLVMBuildBr(e->u->builder, done);
    LLVMPositionBuilderAtEnd(e->u->builder, done);
    for (int i = 0; i < c->sinks.n; i++)
        if (!c->sinks.at[i].node)
            take_kept(e, &c->sinks.at[i], slot[i], registers);
    add_sums(e, c, slot);
}
