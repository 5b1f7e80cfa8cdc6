/*
 * Tiles in registers, as matrix units leave them.
 *
 * A product of a matrix unit lies in the registers of its group: of each piece
 * of 16 rows and 8 columns a thread has four elements.  What is computed from
 * it element by element is computed there, register by register, and so are
 * sums along its rows, for which the four threads of a row meet; a loop that
 * sums products carries the registers.  For whatever else it is used for it is
 * stored to a buffer, where it is made.
 */
#include "codegen/cpu_lane.h"
#include "codegen/gpu_impl.h"

#include "base/alloc.h"

/* ---- a register at a time ---- */

static void enter_register(CpuCode *e, const Fragment *f, int number)
{
    e->known.n = 0;
    e->spot = gpu_register_spot(e, f, number);
    e->gpu->at_register = number;
    e->gpu->at_line = f->side[0] ? -1 : f->columns ? number / 4 / f->columns * 2 + number / 2 % 2 : number;
    e->gpu->fragment[0] = f->extent[0];
    e->gpu->fragment[1] = f->extent[1];
    if (e->gpu->roles && f->columns)
        roles_enter_register(e, number);
}

void gpu_leave_registers(CpuCode *e)
{
    e->gpu->at_register = -1;
    e->known.n = 0;
}

/* ---- which tiles may stay there ---- */

static bool stays(CpuCode *e, TileRef v);

/* Does a tile lie in the registers of units, or a column beside them? */
static bool is_of_units(const CpuCode *e, const TileType *t)
{
    Fragment f;

    return gpu_fragment_of(e, t, &f) && !f.side[0];
}

static bool use_is_fine(CpuCode *e, const TileNode *n, int i)
{
    const TileType *t = tile_type(n->in[i]), *y = n->nout ? &n->type[0] : NULL;

    switch (n->op) {
    case TOP_dot: return i == 2 || (i < 2 && gpu_is_matrix(e, n));
    case TOP_store: return i == n->nin - 1 && (t->rank == 2 || n->attr->drop);
    case TOP_reduce: return n->attr->axis == 1 && gpu_has_rows(e, t);
    case TOP_splat: case TOP_reshape:
        return gpu_is_column(t) && y->extent[0] == t->extent[0] && is_of_units(e, y) && stays(e, (TileRef){(TileNode *)n, 0});
    case TOP_map:
        if (gpu_is_column(t) && y->rank == 2 && y->extent[0] == t->extent[0] && t->rank == 2)
            return is_of_units(e, y) && stays(e, (TileRef){(TileNode *)n, 0});
        return y->rank == t->rank && y->extent[0] == t->extent[0] && (t->rank == 1 || y->extent[1] == t->extent[1]) &&
               stays(e, (TileRef){(TileNode *)n, 0});
    case TOP_for: case TOP_while: return true;
    default: return false;
    }
}

static bool uses_are_fine(CpuCode *e, const TileBlock *b, TileRef v)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        for (int i = 0; i < n->nin; i++)
            if (cpu_same(n->in[i], v) && !use_is_fine(e, n, i))
                return false;
        for (int r = 0; r < 2; r++)
            if (n->region[r] && !uses_are_fine(e, n->region[r], v))
                return false;
    }
    return true;
}

static bool stays(CpuCode *e, TileRef v)
{
    uint8_t *kept = v.index ? NULL : &e->gpu->kept[v.node->id];
    bool fine;

    if (kept && *kept)
        return *kept == 2;
    fine = uses_are_fine(e, &e->k->body, v);
    if (kept)
        *kept = fine ? 2 : 1;
    return fine;
}

bool gpu_stays(CpuCode *e, TileRef v) { return stays(e, v); }

/* The yield that a loop's parameter gets, the first parameter being the loop's number. */
static int parameter_number(const TileNode *param)
{
    const TileBlock *b = param->block;

    for (int i = 1; b && i < b->params.n; i++)
        if (b->params.at[i] == param)
            return i - 1;
    return -1;
}

static bool is_fragment_type(const CpuCode *e, const TileType *t)
{
    Fragment f;

    return gpu_fragment_of(e, t, &f);
}

/* Is it computed from memory, which may change before the block ends? */
static bool is_loaded(TileRef v)
{
    const TileNode *n = v.node;

    if (!tile_type(v)->rank)                    /* each thread has it */
        return false;
    if (n->op == TOP_load)
        return true;
    for (int i = 0; (n->op == TOP_map || n->op == TOP_splat || n->op == TOP_permute || n->op == TOP_reshape) && i < n->nin; i++)
        if (is_loaded(n->in[i]))
            return true;
    return false;
}

/* Is it a product, or computed from one element by element? */
static bool comes_from_product(const CpuCode *e, TileRef v, const TileType *t)
{
    const TileNode *n = v.node;

    if (n->op == TOP_dot)
        return true;
    if (n->op == TOP_for)
        return gpu_carries_fragment(e, (TileRef){n->region[0]->params.at[v.index + 1], 0});
    for (int i = 0; n->op == TOP_map && i < n->nin; i++)
        if (is_loaded(n->in[i]))
            return false;
    for (int i = 0; n->op == TOP_map && i < n->nin; i++) {
        const TileType *x = tile_type(n->in[i]);
        if (x->rank == 2 && x->extent[0] == t->extent[0] && x->extent[1] == t->extent[1] && comes_from_product(e, n->in[i], t))
            return true;
    }
    return false;
}

/* Is a product among what a tile is computed from, element by element? */
static bool has_product(TileRef v)
{
    const TileNode *n = v.node;

    if (n->op == TOP_dot)
        return true;
    for (int i = 0; n->op == TOP_map && i < n->nin; i++)
        if (tile_type(n->in[i])->rank == 2 && has_product(n->in[i]))
            return true;
    return false;
}

/* Is a column made of sums along the rows of products? */
static bool comes_from_rows(const CpuCode *e, TileRef v)
{
    const TileNode *n = v.node;

    if (n->op == TOP_reduce)
        return n->attr->axis == 1 && gpu_sums_to_column(e, tile_type(n->in[0])) && has_product(n->in[0]);
    for (int i = 0; (n->op == TOP_map || n->op == TOP_reshape) && i < n->nin; i++)
        if (gpu_is_column(tile_type(n->in[i])) && comes_from_rows(e, n->in[i]))
            return true;
    return false;
}

bool gpu_carries_fragment(const CpuCode *e, TileRef param)
{
    const TileNode *loop = param.node->op == TILE_PARAM && param.node->block ? param.node->block->owner : NULL;
    int i = loop && loop->op == TOP_for && e->gpu ? parameter_number(param.node) : -1;
    const TileNode *last = i >= 0 && i < loop->region[0]->yields.n ? loop->region[0]->yields.at[i].node : NULL;

    return last && is_fragment_type(e, tile_type(param)) &&
           (gpu_is_column(tile_type(param)) ? comes_from_rows(e, loop->region[0]->yields.at[i])
                                        : comes_from_product(e, loop->region[0]->yields.at[i], tile_type(param))) &&
           stays((CpuCode *)e, param) && stays((CpuCode *)e, (TileRef){(TileNode *)loop, i});
}

bool gpu_yields_fragment(const CpuCode *e, const TileBlock *b, int i)
{
    return e->gpu && b->owner && b->owner->op == TOP_for && i + 1 < b->params.n && gpu_carries_fragment(e, (TileRef){b->params.at[i + 1], 0});
}

/* ---- registers ---- */

/* Does it follow from registers alone, so that nobody has to wait for what others wrote? */
static bool needs_no_memory(CpuCode *e, TileRef v)
{
    const TileNode *n = v.node;

    if (!tile_type(v)->rank || cpu_val(e, v)->fragment || gpu_is_brought(e, v))
        return true;
    if (n->op == TOP_load && !cpu_val(e, v)->x)
        return cpu_root(n->in[0])->op == TILE_PARAM && !gpu_writes(&e->k->body, cpu_root(n->in[0]));
    if (cpu_val(e, v)->x || (n->op != TOP_map && n->op != TOP_splat && n->op != TOP_reshape && n->op != TOP_iota))
        return false;
    for (int i = 0; i < n->nin; i++)
        if (tile_type(n->in[i])->kind == TILE_VALUE && !needs_no_memory(e, n->in[i]))
            return false;
    return true;
}

/* Places of elements take no registers between the walks of a chain, which needs them all for sums. */
static LLVMValueRef enter_thread(CpuCode *e)
{
    LLVMValueRef thread = e->gpu->thread;

    if (gpu_is_chain(e))
        e->gpu->thread = gpu_anew(e, thread);
    return thread;
}

enum { ABREAST = 8 };           /* elements whose formulas go on together */

static LLVMValueRef last_instruction(const CpuCode *e) { return LLVMGetLastInstruction(LLVMGetInsertBlock(e->u->builder)); }

void gpu_fragment_some(CpuCode *e, TileRef v, const Fragment *f, int first, int n, LLVMValueRef *x)
{
    LLVMValueRef thread, last[ABREAST + 1];

    cpu_close(e);
    if (gpu_is_chain(e))
        chain_value(e, v);
    if (!e->gpu->roles || !needs_no_memory(e, v))
        gpu_fence(e);
    e->width = 1;
    e->masked = true;
    thread = enter_thread(e);
    for (int i = 0; i < n; i += ABREAST) {
        int some = n - i < ABREAST ? n - i : ABREAST;
        last[0] = last_instruction(e);
        for (int k = 0; k < some; k++) {
            enter_register(e, f, first + i + k);
            x[i + k] = cpu_lanes(e, v, &e->spot);
            last[k + 1] = last_instruction(e);
        }
        if (e->gpu->roles && !gpu_is_chain(e)) {
            e->gpu->in_order |= gpu_formula_length(e, v) >= LONG_FORMULA;
            gpu_abreast(e, last, some);
        }
    }
    e->gpu->thread = thread;
    gpu_leave_registers(e);
}

LLVMValueRef gpu_register_of(CpuCode *e, TileRef v, const Fragment *f, int number)
{
    enter_register(e, f, number);
    return cpu_lanes(e, v, &e->spot);
}

void gpu_keep_row(CpuCode *e, TileRef v, const TileType *beside)
{
    LLVMValueRef *x;
    Fragment f;

    gpu_fragment_of(e, beside, &f);
    x = arena_array(&e->gpu->arena, LLVMValueRef, 2 * f.columns);
    e->width = 1;
    e->masked = false;
    for (int i = 0; i < 2 * f.columns; i++) {
        enter_register(e, &f, 4 * (i / 2) + i % 2);
        Spot p = {.at = {cpu_number(e, 0), e->spot.at[1]}, .strip = -1};
        x[i] = cpu_lanes(e, v, &p);
    }
    gpu_leave_registers(e);
    cpu_val(e, v)->fragment = x;
}

LLVMValueRef *gpu_fragment_values(CpuCode *e, TileRef v, const Fragment *f)
{
    LLVMValueRef *x = arena_array(&e->gpu->arena, LLVMValueRef, gpu_registers(f));

    if (e->gpu->roles)
        roles_take_all(e);
    gpu_fragment_some(e, v, f, 0, gpu_registers(f), x);
    return x;
}

LLVMValueRef *gpu_fragment_now(CpuCode *e, TileRef v, int *n)
{
    LLVMValueRef *x;
    Fragment f;

    gpu_fragment_of(e, tile_type(v), &f);
    *n = gpu_registers(&f);
    x = arena_array(&e->gpu->arena, LLVMValueRef, *n);
    e->width = 1;
    e->masked = true;
    for (int i = 0; i < *n; i++) {
        enter_register(e, &f, i);
        x[i] = cpu_lanes(e, v, &e->spot);
    }
    gpu_leave_registers(e);
    return x;
}

void gpu_columns_now(CpuCode *e, TileRef v)
{
    const TileNode *n = v.node;
    int registers;

    if (!tile_type(v)->rank || cpu_val(e, v)->fragment || cpu_val(e, v)->x || (n->op != TOP_map && n->op != TOP_splat && n->op != TOP_reshape))
        return;
    if (gpu_is_column(tile_type(v)) && is_fragment_type(e, tile_type(v))) {
        cpu_val(e, v)->fragment = gpu_fragment_now(e, v, &registers);
        return;
    }
    for (int i = 0; i < n->nin; i++)
        gpu_columns_now(e, n->in[i]);
}

bool gpu_made_of_registers(CpuCode *e, TileRef v)
{
    const TileNode *n = v.node;
    const TileType *t = tile_type(v);

    if (!t->rank || cpu_val(e, v)->fragment)
        return true;
    if (n->op != TOP_map || cpu_val(e, v)->x)
        return false;
    for (int i = 0; i < n->nin; i++)
        if (!gpu_made_of_registers(e, n->in[i]))
            return false;
    return true;
}

void gpu_fragment_raw(CpuCode *e, TileRef v, const Fragment *f, LLVMValueRef *x)
{
    cpu_close(e);
    e->width = 1;
    e->masked = true;
    for (int i = 0; i < gpu_registers(f); i++) {
        enter_register(e, f, i);
        x[i] = cpu_raw(e, v, &e->spot);
    }
    gpu_leave_registers(e);
}

static void store_registers(CpuCode *e, TileRef v, LLVMValueRef to)
{
    const TileType *t = tile_type(v);
    Fragment f;
    int stride;

    gpu_fragment_of(e, t, &f);
    gpu_fence(e);
    e->width = 1;
    for (int i = 0; i < gpu_registers(&f); i++) {
        Spot p = gpu_register_spot(e, &f, i);
        cpu_store_flat(e, (DType)t->dtype, to, cpu_flat(e, t, &p, &stride), cpu_val(e, v)->fragment[i], NULL);
    }
    gpu_written(e);
}

void gpu_set_fragment(CpuCode *e, TileRef v, LLVMValueRef *x)
{
    Val *y = cpu_val(e, v);

    y->fragment = x;
    y->x = NULL;
    if (stays(e, v))
        return;
    LLVMValueRef to = cpu_buffer(e, cpu_tile_bytes(tile_type(v)));
    store_registers(e, v, to);
    y->x = to;
}

bool gpu_store_fragment(CpuCode *e, TileRef v, LLVMValueRef to)
{
    if (!e->gpu || !cpu_val(e, v)->fragment || cpu_val(e, v)->x)
        return false;
    store_registers(e, v, to);
    return true;
}

/* ---- loops ---- */

void gpu_fragment_begin(CpuCode *e, TileRef param, TileRef from)
{
    Fragment f;

    gpu_fragment_of(e, tile_type(param), &f);
    cpu_val(e, param)->fragment = gpu_fragment_values(e, from, &f);
}

void gpu_fragment_phis(CpuCode *e, TileRef param, LLVMBasicBlockRef before)
{
    Val *v = cpu_val(e, param);
    Fragment f;

    gpu_fragment_of(e, tile_type(param), &f);
    for (int i = 0; i < gpu_registers(&f); i++) {
        LLVMValueRef phi = LLVMBuildPhi(e->u->builder, LLVMTypeOf(v->fragment[i]), "");
        LLVMAddIncoming(phi, &v->fragment[i], &before, 1);
        v->fragment[i] = phi;
    }
}

LLVMValueRef *gpu_fragment_next(CpuCode *e, TileRef yields)
{
    Fragment f;

    gpu_fragment_of(e, tile_type(yields), &f);
    if (gpu_is_chain(e))
        chain_value(e, yields);
    return cpu_val(e, yields)->fragment ? cpu_val(e, yields)->fragment : gpu_fragment_values(e, yields, &f);
}

void gpu_fragment_again(CpuCode *e, TileRef param, LLVMValueRef *next, LLVMBasicBlockRef from)
{
    Fragment f;

    gpu_fragment_of(e, tile_type(param), &f);
    for (int i = 0; i < gpu_registers(&f); i++)
        LLVMAddIncoming(cpu_val(e, param)->fragment[i], &next[i], &from, 1);
}

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
    return gpu_is_column(t) ? c->rank == 1 || c->shape[1] == 1 || is_of_units(e, &shape)
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

static void give_buffer(CpuCode *e, TileRef v, FragmentBuffers *made)
{
    Val *x = tile_type(v)->kind == TILE_VALUE && tile_type(v)->rank ? cpu_val(e, v) : NULL;

    if (!x || !x->fragment || x->x)
        return;
    LLVMValueRef to = cpu_buffer(e, cpu_tile_bytes(tile_type(v)));
    store_registers(e, v, to);
    x->x = to;
    vec_push(made, v);
}

void gpu_lend_buffers(CpuCode *e, const Cluster *c, FragmentBuffers *made)
{
    for (int i = 0; i < c->sinks.n; i++)
        give_buffer(e, c->sinks.at[i].v, made);
    for (int i = 0; i < c->nodes.n; i++)
        for (int k = 0; k < c->nodes.at[i]->nin; k++)
            give_buffer(e, c->nodes.at[i]->in[k], made);
}

void gpu_end_buffers(CpuCode *e, FragmentBuffers *made)
{
    for (int i = 0; i < made->n; i++) {
        cpu_val(e, made->at[i])->x = NULL;
        cpu_val(e, made->at[i])->pitch = 0;
    }
    vec_free(made);
}

/* Columns that a chain loads stay in registers, where all that uses them is there. */
static bool is_kept_column(CpuCode *e, const Cluster *c)
{
    TileType t = shape_of(c);

    if (!gpu_is_chain(e) || !gpu_is_column(&t))
        return false;
    for (int i = 0; i < c->sinks.n; i++)
        if (c->sinks.at[i].node || c->sinks.at[i].buffer || c->sinks.at[i].v.index || !stays(e, c->sinks.at[i].v))
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
        if ((s->node && !sum) || s->buffer || f.side[0] || (sum && !gpu_sums_to_column(e, &t)) || !stays(e, y))
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
        enter_register(e, f, r);
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
    LLVMValueRef *sums, thread = enter_thread(e), plain, keep;
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
