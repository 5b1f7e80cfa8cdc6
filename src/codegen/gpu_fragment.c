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

void gpu_enter_register(CpuCode *e, const Fragment *f, int number)
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

bool gpu_is_of_units(const CpuCode *e, const TileType *t)
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
        if (e->gpu->roles && roles_store_shape(e, n))
            return true;
        return gpu_is_column(t) && y->extent[0] == t->extent[0] && gpu_is_of_units(e, y) && stays(e, (TileRef){(TileNode *)n, 0});
    case TOP_map:
        if (gpu_is_column(t) && y->rank == 2 && y->extent[0] == t->extent[0] && t->rank == 2)
            return gpu_is_of_units(e, y) && stays(e, (TileRef){(TileNode *)n, 0});
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

LLVMValueRef gpu_enter_thread(CpuCode *e)
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
    thread = gpu_enter_thread(e);
    for (int i = 0; i < n; i += ABREAST) {
        int some = n - i < ABREAST ? n - i : ABREAST;
        last[0] = last_instruction(e);
        for (int k = 0; k < some; k++) {
            gpu_enter_register(e, f, first + i + k);
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
    gpu_enter_register(e, f, number);
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
        gpu_enter_register(e, &f, 4 * (i / 2) + i % 2);
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
        gpu_enter_register(e, &f, i);
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
        gpu_enter_register(e, f, i);
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
        LLVMValueRef x = cpu_val(e, v)->parked ? gpu_parked(e, v, i) : cpu_val(e, v)->fragment[i];
        cpu_store_flat(e, (DType)t->dtype, to, cpu_flat(e, t, &p, &stride), x, NULL);
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

    if (gpu_parks(e, param)) {
        gpu_park(e, param, from);
        return;
    }
    gpu_fragment_of(e, tile_type(param), &f);
    cpu_val(e, param)->fragment = gpu_fragment_values(e, from, &f);
}

void gpu_fragment_phis(CpuCode *e, TileRef param, LLVMBasicBlockRef before)
{
    Val *v = cpu_val(e, param);
    Fragment f;

    if (v->parked)
        return;
    gpu_fragment_of(e, tile_type(param), &f);
    for (int i = 0; i < gpu_registers(&f); i++) {
        LLVMValueRef phi = LLVMBuildPhi(e->u->builder, LLVMTypeOf(v->fragment[i]), "");
        LLVMAddIncoming(phi, &v->fragment[i], &before, 1);
        v->fragment[i] = phi;
    }
}

LLVMValueRef *gpu_fragment_next(CpuCode *e, TileRef param, TileRef yields)
{
    Fragment f;

    if (cpu_val(e, param)->parked) {
        gpu_park(e, param, yields);
        return NULL;
    }
    gpu_fragment_of(e, tile_type(yields), &f);
    if (gpu_is_chain(e))
        chain_value(e, yields);
    return cpu_val(e, yields)->fragment && !cpu_val(e, yields)->parked ? cpu_val(e, yields)->fragment : gpu_fragment_values(e, yields, &f);
}

void gpu_fragment_again(CpuCode *e, TileRef param, LLVMValueRef *next, LLVMBasicBlockRef from)
{
    Fragment f;

    if (cpu_val(e, param)->parked)
        return;
    gpu_fragment_of(e, tile_type(param), &f);
    for (int i = 0; i < gpu_registers(&f); i++)
        LLVMAddIncoming(cpu_val(e, param)->fragment[i], &next[i], &from, 1);
}

/* ---- buffers ---- */

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
