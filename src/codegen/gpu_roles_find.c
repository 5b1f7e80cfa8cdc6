/*
 * Which kernels are done by warpgroups: a loop, around which there is no other,
 * that loads blocks of two parameters and adds their product to zeros, and what
 * is done with the sums.
 *
 * Tensor copies bring whole boxes, zeros where a box leaves its tensor.  They
 * need places along the last axis in steps of 16 bytes, which has to follow
 * from the program: from factors of the indices.
 */
#include "codegen/gpu_roles.h"

#include "codegen/cpu_lane.h"

#include <stdlib.h>
#include <string.h>

enum { SHARED_MOST = 227 << 10, STAGES_MOST = 8, STAGES_LEAST = 2, SLOT_ALIGN = 1024, SUMS_MOST = 128, ORDER = 8, BOX_MOST = 256, WIDE_BYTES = 128 };

static const struct { DType in, out; const char *name; bool real; } units[] = {
    {DT_bf16, DT_f32, "f32.bf16.bf16", true},
    {DT_f16, DT_f32, "f32.f16.f16", true},
    {DT_fp8_e4m3, DT_f32, "f32.e4m3.e4m3", true},
    {DT_fp8_e5m2, DT_f32, "f32.e5m2.e5m2", true},
    {DT_int8, DT_int32, "s32.s8.s8", false},
    {DT_uint8, DT_int32, "s32.u8.u8", false},
};

static bool find_unit(Roles *r)
{
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (units[i].in == r->in && units[i].out == r->out) {
            r->unit = (Wgmma){.name = units[i].name, .real = units[i].real, .columns = r->extent[1], .steps = 32 / r->bytes};
            return true;
        }
    return false;
}

/* ---- indices ---- */

static bool is_aligned(TileRef v, int bytes) { return index_multiple(v, 0) % 16 * bytes % 16 == 0; }

static bool is_integer(const TileNode *n)
{
    return n->nout == 1 && n->type[0].kind == TILE_VALUE && n->type[0].rank == 0 && n->type[0].dtype == DT_int64;
}

/* Is it arithmetic of an index, or the same of scalars that come from indices? */
static bool is_arithmetic(const TileNode *n)
{
    switch (n->op) {
    case TOP_iadd: case TOP_isub: case TOP_imul: case TOP_idiv: case TOP_imod: case TOP_imin: case TOP_imax: return true;
    case TOP_map:
        return is_integer(n) && n->nin == 2 && (n->attr->op == OP_add || n->attr->op == OP_sub || n->attr->op == OP_mul ||
                                                n->attr->op == OP_floordiv || n->attr->op == OP_mod);
    default: return false;
    }
}

static bool is_never_negative(const TileNode *n)
{
    switch (n->op) {
    case TOP_index: return n->attr->i >= 0;
    case TOP_const: return is_integer(n) && n->attr->i >= 0;
    case TOP_size: return n->attr->i == 0;
    case TOP_group: return true;
    case TOP_to_index: case TOP_to_tile: return is_never_negative(n->in[0].node);
    default:
        return is_arithmetic(n) && n->op != TOP_isub && (n->op != TOP_map || n->attr->op != OP_sub) && is_never_negative(n->in[0].node) &&
               is_never_negative(n->in[1].node);
    }
}

bool roles_is_known(const Roles *r, const TileNode *n)
{
    switch (n->op) {
    case TOP_index: case TOP_size: case TOP_group: return true;
    case TOP_const: return is_integer(n);
    case TOP_extent: return n->in[0].node->op == TILE_PARAM;
    case TOP_to_index: case TOP_to_tile: return roles_is_known(r, n->in[0].node) && (n->op == TOP_to_index || is_integer(n));
    default:
        if (is_arithmetic(n))
            return roles_is_known(r, n->in[0].node) && roles_is_known(r, n->in[1].node);
        return n == r->loop->region[0]->params.at[0];
    }
}

/* ---- operands ---- */

static bool is_of_kernel(const CpuCode *e, TileRef view) { return view.node->op == TILE_PARAM && view.node->block == &e->k->body; }

/* Does an access take the last two axes of a view that a tensor map can describe? */
static bool takes_last(const CpuCode *e, const TileNode *n)
{
    const TileType *view = tile_type(n->in[0]);

    return is_of_kernel(e, n->in[0]) && view->rank >= 2 && view->rank <= 5 && n->attr->drop == (1 << (view->rank - 2)) - 1 &&
           (view->stride[view->rank - 1] == 1 || view->stride[view->rank - 1] == STRIDE_ANY);
}

static bool find_operand(const CpuCode *e, Roles *r, int i)
{
    RoleOperand *o = &r->o[i];
    TileRef v = r->dot->in[i];
    const TileBlock *b = r->loop->region[0];
    bool turned = v.node->op == TOP_permute;
    int rows = r->extent[i], steps = r->extent[2], inner;

    if (turned && v.node->block != b)
        return false;
    o->load = turned ? v.node->in[0].node : v.node;
    o->turned = turned == (i == 0);
    if (o->load->op != TOP_load || o->load->block != b || o->load->attr->f != 0 || !takes_last(e, o->load) ||
        gpu_writes(&e->k->body, o->load->in[0].node) || (o->turned && r->bytes != 2))
        return false;
    for (int k = 1; k < o->load->nin; k++)
        if (!roles_is_known(r, o->load->in[k].node))
            return false;
    if (!is_aligned(o->load->in[o->load->nin - 1], r->bytes))
        return false;
    inner = (o->turned ? rows : steps) * r->bytes;
    o->span = inner % WIDE_BYTES == 0 ? WIDE_BYTES : inner;
    if (o->span != WIDE_BYTES && (o->turned || (inner != 64 && inner != 32)))
        return false;
    o->slabs = inner / o->span;
    o->box[0] = o->span / r->bytes;
    o->box[1] = o->turned ? steps : rows;
    o->slab = (int64_t)o->box[1] * o->span;
    o->bytes = o->slab * o->slabs;
    r->unit.turned[i] = o->turned;
    return o->box[1] <= BOX_MOST && o->bytes % SLOT_ALIGN == 0;
}

/* ---- stores ---- */

static int span_of(int64_t bytes) { return bytes % 128 == 0 ? 128 : bytes % 64 == 0 ? 64 : 32; }

static void find_stores(const CpuCode *e, Roles *r)
{
    for (const TileNode *n = r->loop->next; n; n = n->next) {
        const TileType *t = n->op == TOP_store ? tile_type(n->in[n->nin - 1]) : NULL;
        int bytes = t ? (int)raw_size((DType)t->dtype) : 0, rank = t ? tile_type(n->in[0])->rank : 0;
        bool fits = t && t->rank == 2 && t->extent[0] == r->extent[0] && t->extent[1] == r->extent[1] && takes_last(e, n) &&
                    tile_type(n->in[0])->stride[rank - 1] == 1 &&
                    bytes <= 4 && !is_packed((DType)t->dtype) && !dtype_is_complex((DType)t->dtype) &&
                    is_aligned(n->in[rank], bytes) && (int64_t)t->extent[1] * bytes % 32 == 0;
        for (int i = 1; fits && i <= rank; i++)
            fits = is_never_negative(n->in[i].node);
        if (fits && r->nstores < GPU_MAPS - 2) {
            r->store[r->nstores] = (RoleStore){n, span_of((int64_t)t->extent[1] * bytes), 2 + r->nstores};
            r->nstores++;
        }
    }
}

static bool reads_own(const TileKernel *k)
{
    for (const TileNode *n = k->body.first; n; n = n->next)
        if (n->op == TOP_load && gpu_writes(&k->body, n->in[0].node))
            return true;
    return false;
}

/* Is an index the same for all groups? */
static bool is_uniform(const TileNode *n)
{
    bool same = n->op != TOP_group && n->op != TOP_lane;

    for (int i = 0; same && i < n->nin; i++)
        same = n->in[i].node->op == TILE_PARAM || is_uniform(n->in[i].node);
    return same;
}

/*
 * May two sets of consumers take turns?  All tiles have to take as many rounds, and what follows them no memory of the group besides the slots
 * of stores.
 */
static bool takes_turns(const Roles *r)
{
    int stores = 0;

    for (int i = 0; i < 3; i++)
        if (!is_uniform(r->loop->in[i].node))
            return false;
    for (const TileNode *n = r->loop->next; n; n = n->next) {
        stores += n->op == TOP_store;
        if (n->op == TOP_reshape || n->op == TOP_permute)
            return false;
    }
    return stores == r->nstores && r->threads == GROUP_THREADS;
}

/* ---- the kernel ---- */

static bool is_of_consumers(TileOp op)
{
    switch (op) {
    case TOP_alloc: case TOP_gather: case TOP_dot: case TOP_atomic: case TOP_tree: case TOP_reduce: case TOP_copy: case TOP_copy_async:
    case TOP_barrier: case TOP_commit: case TOP_wait: return false;
    default: return true;
    }
}

/* The only loop of the kernel, and no op of the body that is not for consumers; NULL: it is another kernel. */
static const TileNode *only_loop(const TileKernel *k)
{
    const TileNode *loop = NULL;

    for (const TileNode *n = k->body.first; n; n = n->next) {
        if (n->op == TOP_for && !loop)
            loop = n;
        else if (n->region[0] || !is_of_consumers((TileOp)n->op))
            return NULL;
    }
    return loop;
}

static bool is_zeros(TileRef v)
{
    const TileNode *n = v.node;

    return n->op == TOP_splat && n->in[0].node->op == TOP_const && n->in[0].node->attr->f == 0 && n->in[0].node->attr->i == 0;
}

/* The loop's product, if that is all it does. */
static const TileNode *only_product(const TileNode *loop)
{
    const TileBlock *b = loop->region[0];
    const TileNode *dot = b->yields.n == 1 ? b->yields.at[0].node : NULL, *count;

    if (loop->nout != 1 || !dot || dot->op != TOP_dot || dot->in[2].node != b->params.at[1] || !is_zeros(loop->in[3]))
        return NULL;
    for (const TileNode *n = b->first; n; n = n->next)
        if (n != dot && (n->region[0] || n->op == TOP_store || !is_of_consumers((TileOp)n->op)))
            return NULL;
    count = dot->in[3].node;
    return count->op == TOP_index && count->attr->i >= tile_type(dot->in[0])->extent[1] ? dot : NULL;
}

static int64_t lay(int64_t *all, int64_t bytes, int64_t align)
{
    int64_t at = (*all + align - 1) / align * align;

    *all = at + bytes;
    return at;
}

/* Where everything is, with as many stages as there is room for or were asked for. */
static bool lay_out(const CpuCode *e, Roles *r)
{
    int64_t round = r->o[0].bytes + r->o[1].bytes, slots = 0, rest, all = 0;
    int64_t asked = tile_schedule(e->k, "stages", 0);

    for (int i = 0; i < r->nstores; i++)
        slots = slots > r->store[i].span ? slots : r->store[i].span;
    slots *= (int64_t)GROUP_ROWS * OUT_SLOTS * roles_groups(r);
    rest = SHARED_MOST - SLOT_ALIGN - slots;
    r->ring.stages = rest / round < STAGES_MOST ? (int)(rest / round) : STAGES_MOST;
    if (asked > 0 && asked < r->ring.stages)
        r->ring.stages = (int)asked;
    if (r->ring.stages < STAGES_LEAST)
        return false;
    for (int i = 0; i < 2; i++)
        r->o[i].at = lay(&all, r->ring.stages * r->o[i].bytes, SLOT_ALIGN);
    r->slots = lay(&all, slots, SLOT_ALIGN);
    r->ring.barriers = lay(&all, 2 * 8 * (int64_t)r->ring.stages, 64);
    r->shared = all;
    return true;
}

bool roles_find(CpuCode *e, Roles *r)
{
    int64_t warps = tile_schedule(e->k, "warps", 8);
    const TileType *t;

    *r = (Roles){.sets = 1, .loop = e->k->lanes == 1 ? only_loop(e->k) : NULL};
    r->dot = r->loop ? only_product(r->loop) : NULL;
    if (!r->dot || strcmp(e->u->machine->cpu, "sm_90a") || !tile_schedule(e->k, "tensor", 1))
        return false;
    t = tile_type(r->dot->in[0]);
    r->in = (DType)t->dtype;
    r->out = (DType)r->dot->type[0].dtype;
    r->bytes = (int)raw_size(r->in);
    r->extent[0] = t->extent[0], r->extent[1] = r->dot->type[0].extent[1], r->extent[2] = t->extent[1];
    if (tile_type(r->dot->in[1])->dtype != r->in || r->extent[0] % GROUP_ROWS || r->extent[1] % 16 || r->extent[1] > 256 ||
        r->extent[2] * r->bytes % 32 || !find_unit(r))
        return false;
    r->threads = GROUP_THREADS * (int)(warps / 4 < 1 ? 1 : warps / 4);
    while (r->threads > GROUP_THREADS && (r->extent[0] / GROUP_ROWS) % (r->threads / GROUP_THREADS))
        r->threads -= GROUP_THREADS;
    r->promotes = r->unit.real && r->bytes == 1 && tile_schedule(e->k, "promote", 1);
    if (r->extent[0] * r->extent[1] / r->threads > (r->promotes ? SUMS_MOST * 3 / 4 : SUMS_MOST) || r->threads > 3 * GROUP_THREADS)
        return false;
    for (int i = 0; i < 3; i++)
        if (!roles_is_known(r, r->loop->in[i].node))
            return false;
    r->order = (int)tile_schedule(e->k, "order", ORDER);
    if (!find_operand(e, r, 0) || !find_operand(e, r, 1))
        return false;
    find_stores(e, r);
    r->reads_own = reads_own(e->k);
    r->sets = tile_schedule(e->k, "sets", 1) == 2 && takes_turns(r) ? 2 : 1;
    return lay_out(e, r);
}

void roles_maps(const CpuCode *e, const Roles *r, GpuFrame *frame)
{
    int param[GPU_MAPS];
    const TileNode *of[GPU_MAPS] = {r->o[0].load->in[0].node, r->o[1].load->in[0].node};

    for (int i = 0; i < r->nstores; i++)
        of[2 + i] = r->store[i].store->in[0].node;
    frame->nmaps = 2 + r->nstores;
    for (int i = 0; i < frame->nmaps; i++) {
        for (param[i] = 0; e->k->params.at[param[i]] != of[i]; )
            param[i]++;
        frame->map[i].param = (uint8_t)param[i];
        frame->map[i].bytes = (uint8_t)raw_size((DType)of[i]->type[0].dtype);
        frame->map[i].swizzle = (uint8_t)(i < 2 ? r->o[i].span : r->store[i - 2].span);
        frame->map[i].box[0] = i < 2 ? (uint32_t)r->o[i].box[0] : frame->map[i].swizzle / frame->map[i].bytes;
        frame->map[i].box[1] = i < 2 ? (uint32_t)r->o[i].box[1] : GROUP_ROWS;
    }
}
