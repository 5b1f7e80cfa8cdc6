/*
 * Which kernels are done by warpgroups: a loop, around which there is no other,
 * that loads blocks of two parameters and adds their product to zeros, and what
 * is done with the sums.
 *
 * Tensor copies bring whole boxes, zeros where a box leaves its tensor.  They
 * need places along the last axis in steps of 16 bytes, which has to follow
 * from the program: from factors of the indices.
 */
#include "codegen/gpu_chain.h"

#include "codegen/cpu_lane.h"

#include <stdlib.h>
#include <string.h>

enum { STAGES_MOST = 8, STAGES_LEAST = 2, SUMS_MOST = 128, ORDER = 8, BOX_MOST = 256 };

static const struct { DType in, out; const char *name; bool real; } units[] = {
    {DT_bf16, DT_f32, "f32.bf16.bf16", true},
    {DT_f16, DT_f32, "f32.f16.f16", true},
    {DT_tf32, DT_f32, "f32.tf32.tf32", true},
    {DT_fp8_e4m3, DT_f32, "f32.e4m3.e4m3", true},
    {DT_fp8_e5m2, DT_f32, "f32.e5m2.e5m2", true},
    {DT_int8, DT_int32, "s32.s8.s8", false},
    {DT_uint8, DT_int32, "s32.u8.u8", false},
};

bool role_unit(DType in, DType out, int columns, Wgmma *unit)
{
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (units[i].in == in && units[i].out == out) {
            *unit = (Wgmma){.name = units[i].name, .real = units[i].real, .columns = columns, .steps = 32 / (int)raw_size(in)};
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

static bool is_loop_number(const TileNode *n)
{
    return n->op == TILE_PARAM && n->block->owner && n->block->owner->op == TOP_for && n->block->params.at[0] == n;
}

/* Are a loop's numbers those of its rounds, which are counted in 32 bits? */
static bool counts_rounds(const TileNode *loop)
{
    const TileNode *step = loop->in[2].node;

    return step->op == TOP_index && step->attr->i == 1 && is_never_negative(loop->in[0].node);
}

/* Is it from 0 to below 2^31, as groups and rounds are, and what divisions leave of them? */
static bool is_small(const TileNode *n)
{
    return n->op == TOP_group || role_is_short_quotient(n) || (is_loop_number(n) && counts_rounds(n->block->owner)) ||
           ((n->op == TOP_to_index || n->op == TOP_to_tile) && is_small(n->in[0].node));
}

bool role_is_short_quotient(const TileNode *n)
{
    if (n->op == TOP_idiv || n->op == TOP_imod)
        return is_small(n->in[0].node) && is_never_negative(n->in[1].node);
    return n->op == TOP_map && is_integer(n) && n->nin == 2 && (n->attr->op == OP_floordiv || n->attr->op == OP_mod) && is_small(n->in[0].node) &&
           is_never_negative(n->in[1].node);
}

/* Is it an element of a parameter that nobody writes, so that it is the same whenever it is read? */
static bool is_read_once(const TileNode *n)
{
    const TileNode *view = n->in[0].node;
    bool is = !n->type[0].rank && (n->type[0].dtype == DT_int32 || n->type[0].dtype == DT_int64) && view->op == TILE_PARAM &&
              view->block && !view->block->owner && !gpu_writes(view->block, view);

    for (int i = 1; is && i < n->nin; i++)
        is = roles_is_known(n->in[i].node);
    return is;
}

bool roles_is_known(const TileNode *n)
{
    switch (n->op) {
    case TOP_index: case TOP_size: case TOP_group: return true;
    case TOP_const: return is_integer(n);
    case TOP_load: return is_read_once(n);
    case TOP_extent: return n->in[0].node->op == TILE_PARAM;
    case TOP_to_index: case TOP_to_tile: return roles_is_known(n->in[0].node) && (n->op == TOP_to_index || is_integer(n));
    default:
        if (is_integer(n) && tile_converts_plainly(n))
            return n->in[0].node->op == TOP_load && roles_is_known(n->in[0].node);
        if (is_arithmetic(n))
            return roles_is_known(n->in[0].node) && roles_is_known(n->in[1].node);
        return is_loop_number(n);
    }
}

/* ---- operands ---- */

static bool is_of_kernel(const CpuCode *e, TileRef view) { return view.node->op == TILE_PARAM && view.node->block == &e->k->body; }

/*
 * The part of a parameter that an access is of, which ends earlier than that along one axis. A tensor map has one axis more for it (far_code.h).
 * NULL: it is of a parameter, or of what no map describes.
 */
static const TileNode *part_of(const CpuCode *e, TileRef view, int second)
{
    const TileNode *n = view.node;
    int rank = n->op == TOP_part ? n->type[0].rank : 0;

    if (!rank || rank > GPU_ENDED || n->attr->drop || !is_of_kernel(e, n->in[0]))
        return NULL;
    for (int i = 0; i < rank; i++) {
        const TileNode *start = n->in[1 + i].node, *extent = n->in[1 + rank + i].node;
        bool whole = start->op == TOP_index && !start->attr->i && extent->op == TOP_extent && extent->in[0].node == n->in[0].node &&
                     extent->attr->axis == i;
        if (!(whole || (i == second && roles_is_known(start) && roles_is_known(extent))))
            return NULL;
    }
    return n;
}

/*
 * The axes of an access of two, of a view that a tensor map can describe: the last one is the inner one, or for a load the other one, where its
 * elements are known to lie side by side. false: it is no such access.
 */
static bool map_axes(const CpuCode *e, const TileNode *n, MapAxes *a)
{
    const TileType *view = tile_type(n->in[0]);
    int last = view->rank - 1, kept = view->rank >= 2 && view->rank <= 5 ? ((2 << last) - 1) & ~n->attr->drop : 0, other = -1;

    if (!(kept >> last))
        return false;
    for (int i = 0; i < last; i++)
        if (kept >> i & 1) {
            if (other >= 0)
                return false;
            other = i;
        }
    if (other < 0)
        return false;
    *a = (MapAxes){last, other};
    if (n->op == TOP_load && view->stride[last] != 1 && view->stride[other] == 1)
        *a = (MapAxes){other, last};
    return (view->stride[a->inner] == 1 || view->stride[a->inner] == STRIDE_ANY) && (is_of_kernel(e, n->in[0]) || part_of(e, n->in[0], a->second));
}

/* Bytes of a slab's row: what tensor copies and wgmma permute. */
static int span_of(int64_t bytes) { return bytes % 128 == 0 ? 128 : bytes % 64 == 0 ? 64 : 32; }

/* Is it a load of places that are known, zeros past the ends, of what nobody writes? */
static bool is_fixed(const CpuCode *e, const TileNode *load)
{
    if (load->op != TOP_load || !tile_fills_zeros(load) || gpu_writes(&e->k->body, cpu_root(load->in[0])))
        return false;
    for (int k = 1; k < load->nin; k++)
        if (!roles_is_known(load->in[k].node))
            return false;
    return true;
}

static bool begins_aligned(const TileNode *load, int inner) { return is_aligned(load->in[1 + inner], (int)raw_size((DType)load->type[0].dtype)); }

/* Is it such a load of two axes that a tensor copy can do? */
static bool is_copied(const CpuCode *e, const TileNode *load, MapAxes *a)
{
    return load->type[0].rank == 2 && is_fixed(e, load) && map_axes(e, load, a) && begins_aligned(load, a->inner);
}

bool role_row(const CpuCode *e, const TileNode *load, RoleOperand *o)
{
    const TileType *t = &load->type[0];
    int bytes = t->extent[1] * (int)raw_size((DType)t->dtype);
    MapAxes a;

    if (!is_copied(e, load, &a) || a.inner < a.second || part_of(e, load->in[0], a.second) || t->extent[0] != 1 || t->dtype != DT_f32 ||
        t->extent[1] > BOX_MOST || bytes % ROW_ALIGN)
        return false;
    *o = (RoleOperand){.load = load, .slabs = 1, .box = {t->extent[1], 1}, .axes = a, .bytes = bytes, .slab = bytes};
    return true;
}

bool role_block(const CpuCode *e, const TileNode *load, RoleOperand *o)
{
    const TileType *t = &load->type[0];
    int inner, bytes, across;    /* across: is the inner axis the tile's second one? */

    if (!is_copied(e, load, &o->axes))
        return false;
    bytes = (int)raw_size((DType)t->dtype);
    across = o->axes.inner > o->axes.second;
    inner = t->extent[across] * bytes;
    o->load = load;
    o->part = part_of(e, load->in[0], o->axes.second);
    o->span = span_of(inner);
    if (inner % o->span)
        return false;
    o->slabs = inner / o->span;
    o->box[0] = o->span / bytes;
    o->box[1] = t->extent[!across];
    o->slab = (int64_t)o->box[1] * o->span;
    o->bytes = o->slab * o->slabs;
    return o->box[1] <= BOX_MOST && o->bytes % SLOT_ALIGN == 0;
}

/* Extents of a block of three or four axes as its map has them. false: one is too long for a box. */
static bool fill_box(const TileType *t, int *box)
{
    for (int i = 1; i < t->rank; i++)
        if ((box[i] = t->extent[t->rank - 1 - i]) > BOX_MOST)
            return false;
    return true;
}

/* Does an access go over all axes of a parameter, of three or four, the last one of which lies side by side? Then they are a map's. */
static bool is_boxed(const CpuCode *e, const TileNode *n)
{
    const TileType *view = tile_type(n->in[0]);

    return view->rank > 2 && !n->attr->drop && view->stride[view->rank - 1] == 1 && is_of_kernel(e, n->in[0]);
}

/* A block of more axes, of which a reshape makes rows of the last one: windows of an image. One box has them in their order. */
static bool rows_block(const CpuCode *e, const TileNode *rows, RoleOperand *o)
{
    const TileNode *load = rows->in[0].node;
    const TileType *t = tile_type(rows->in[0]);
    int last = t->rank - 1, bytes = (int)raw_size((DType)t->dtype), inner;

    if (load->block != rows->block || !is_fixed(e, load) || !is_boxed(e, load) || rows->type[0].rank != 2 ||
        rows->type[0].extent[1] != t->extent[last] || !begins_aligned(load, last))
        return false;
    inner = t->extent[last] * bytes;
    *o = (RoleOperand){.load = load, .axes = {last, last - 1}, .span = span_of(inner)};
    o->slabs = inner / o->span;
    o->slab = (int64_t)rows->type[0].extent[0] * o->span;
    o->bytes = o->slab * o->slabs;
    return inner % o->span == 0 && o->bytes % SLOT_ALIGN == 0 && fill_box(t, o->box) && (o->box[0] = o->span / bytes) > 0;
}

static bool find_operand(const CpuCode *e, Roles *r, int i)
{
    RoleOperand *o = &r->o[i];
    TileRef v = r->dot->in[i];
    const TileBlock *b = r->loop->region[0];
    bool turned = v.node->op == TOP_permute;

    if (turned && v.node->block != b)
        return false;
    v = turned ? v.node->in[0] : v;
    if (v.node->block != b || !(v.node->op == TOP_reshape ? rows_block(e, v.node, o) : role_block(e, v.node, o)))
        return false;
    o->turned = (turned == (i == 0)) == (o->axes.inner > o->axes.second);
    r->unit.turned[i] = o->turned;
    return !(o->turned && (r->bytes != 2 || o->span != WIDE_BYTES));
}

/* ---- stores ---- */

TileRef role_stored(const TileNode *store)
{
    TileRef v = store->in[store->nin - 1];

    return tile_type(v)->rank > 2 && v.node->op == TOP_reshape ? v.node->in[0] : v;
}

bool role_is_boxed(const Roles *r, const TileNode *n)
{
    for (int i = 0; i < r->nstores; i++)
        if (r->store[i].box[1] && r->store[i].store->in[r->store[i].store->nin - 1].node == n)
            return true;
    return false;
}

bool roles_store_shape(const CpuCode *e, const TileNode *n) { return role_is_boxed(roles(e), n); }

/* The box of 64 rows of a tile that is stored as a block of more axes. They are powers of two, so that each 64 rows are such a box. */
static bool store_box(const CpuCode *e, const TileNode *n, MapAxes *a, int *box)
{
    const TileType *t = tile_type(n->in[n->nin - 1]);
    int left = GROUP_ROWS;

    if (t->rank < 3 || !is_boxed(e, n) || !fill_box(t, box))
        return false;
    for (int i = 1; i < t->rank; i++) {
        if (box[i] & (box[i] - 1))
            return false;
        box[i] = box[i] < left ? box[i] : left;
        left /= box[i];
    }
    *a = (MapAxes){t->rank - 1, t->rank - 2};
    return left == 1;
}

void role_find_stores(const CpuCode *e, Roles *r, const TileNode *first, int columns)
{
    int taken = r->nmaps;

    for (const TileNode *n = first; n; n = n->next) {
        const TileType *t = n->op == TOP_store ? tile_type(role_stored(n)) : NULL;
        int bytes = t ? (int)raw_size((DType)t->dtype) : 0, rank = t ? tile_type(n->in[0])->rank : 0, box[MAP_AXES] = {0};
        MapAxes a = {0};
        bool fits = t && t->rank == 2 && t->extent[0] == r->extent[0] && (!columns || t->extent[1] == columns) &&
                    (tile_type(n->in[n->nin - 1])->rank > 2 ? store_box(e, n, &a, box) : map_axes(e, n, &a)) &&
                    tile_type(n->in[0])->stride[rank - 1] == 1 &&
                    bytes <= 4 && !is_packed((DType)t->dtype) && !dtype_is_complex((DType)t->dtype) &&
                    is_aligned(n->in[rank], bytes) && (int64_t)t->extent[1] * bytes % 32 == 0 && t->extent[1] % 16 == 0;
        bool before = fits && !is_never_negative(n->in[1 + a.second].node);
        const TileNode *part = fits ? part_of(e, n->in[0], a.second) : NULL;
        for (int i = 1; fits && i <= rank; i++)
            fits = i == 1 + a.second || is_never_negative(n->in[i].node);
        if (fits && !((part || box[1]) && before) && r->nmaps < GPU_MAPS) {
            RoleStore *s = &r->store[r->nstores];
            *s = (RoleStore){.store = n, .part = part, .map = taken + r->nstores, .axes = a, .before = before};
            s->span = span_of((int64_t)t->extent[1] * bytes);
            memcpy(s->box, box, sizeof box);
            r->nstores++;
            r->nmaps++;
        }
    }
}

int64_t role_slots(const Roles *r)
{
    int64_t span = 0;

    for (int i = 0; i < r->nstores; i++)
        span = span > r->store[i].span ? span : r->store[i].span;
    return span * GROUP_ROWS * OUT_SLOTS * roles_groups(r);
}

bool role_reads_own(const TileKernel *k)
{
    for (const TileNode *n = k->body.first; n; n = n->next)
        if (n->op == TOP_load && gpu_writes(&k->body, cpu_root(n->in[0])))
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

/* Do tiles take different numbers of rounds? */
static bool is_uneven(const Roles *r)
{
    for (int i = 0; i < 3; i++)
        if (!is_uniform(r->loop->in[i].node))
            return true;
    return false;
}

/* May two sets of consumers take turns?  What follows the sums takes no memory of the group then besides the slots of stores. */
static bool takes_turns(const Roles *r)
{
    int stores = 0;

    for (const TileNode *n = r->loop->next; n; n = n->next) {
        stores += n->op == TOP_store;
        if ((n->op == TOP_reshape && !role_is_boxed(r, n)) || n->op == TOP_permute)
            return false;
    }
    return stores == r->nstores && r->threads == GROUP_THREADS;
}

/* ---- the kernel ---- */

bool role_is_of_consumers(TileOp op)
{
    switch (op) {
    case TOP_alloc: case TOP_gather: case TOP_dot: case TOP_atomic: case TOP_update: case TOP_tree: case TOP_reduce: case TOP_copy:
    case TOP_copy_async: case TOP_barrier: case TOP_commit: case TOP_wait: return false;
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
        else if (n->region[0] || !role_is_of_consumers((TileOp)n->op))
            return NULL;
    }
    return loop;
}

bool role_is_zeros(TileRef v)
{
    const TileNode *n = v.node;

    return n->op == TOP_splat && n->in[0].node->op == TOP_const && n->in[0].node->attr->f == 0 && n->in[0].node->attr->i == 0;
}

/* The loop's product, if that is all it does. */
static const TileNode *only_product(const TileNode *loop)
{
    const TileBlock *b = loop->region[0];
    const TileNode *dot = b->yields.n == 1 ? b->yields.at[0].node : NULL, *count;

    if (loop->nout != 1 || !dot || dot->op != TOP_dot || dot->in[2].node != b->params.at[1] || !role_is_zeros(loop->in[3]))
        return NULL;
    for (const TileNode *n = b->first; n; n = n->next)
        if (n != dot && (n->region[0] || n->op == TOP_store || !role_is_of_consumers((TileOp)n->op)))
            return NULL;
    count = dot->in[3].node;
    return count->op == TOP_index && count->attr->i >= tile_type(dot->in[0])->extent[1] ? dot : NULL;
}

int64_t role_lay(int64_t *all, int64_t bytes, int64_t align)
{
    int64_t at = (*all + align - 1) / align * align;

    *all = at + bytes;
    return at;
}

/* Where everything is, with as many stages as there is room for or were asked for. */
static bool lay_out(const CpuCode *e, Roles *r)
{
    int64_t round = r->o[0].bytes + r->o[1].bytes, slots = role_slots(r), rest, all = 0, given = roles_given_bytes(r);
    int64_t beside = roles_find_beside(e, r), table = r->chain ? 0 : roles_find_table(r);
    int64_t asked = tile_schedule(e->k, "stages", 0);

    rest = SHARED_MOST - SLOT_ALIGN - slots - given - table;
    asked = asked > 0 && asked < STAGES_MOST ? asked : STAGES_MOST;
    if (rest / round < asked ? rest / round > (rest - beside) / round : (rest - beside) / round < asked)
        beside = r->nbeside = 0;                /* a stage is worth more */
    rest = (rest - beside) / round;
    r->ring.stages = (int)(rest < asked ? rest : asked);
    if (r->ring.stages < STAGES_LEAST)
        return false;
    if (roles_late_rounds(r) >= r->ring.stages) {       /* they are met while the slot before them is still read */
        r->nmaps -= r->nlate;
        r->nlate = 0;
    }
    for (int i = 0; i < 2; i++)
        r->o[i].at = role_lay(&all, r->ring.stages * r->o[i].bytes, SLOT_ALIGN);
    r->slots = role_lay(&all, slots, SLOT_ALIGN);
    r->beside_at = role_lay(&all, beside, SLOT_ALIGN);
    r->table = role_lay(&all, table, ROW_ALIGN);
    r->ring.barriers = role_lay(&all, 2 * 8 * (int64_t)r->ring.stages, 64);
    r->given_barriers = role_lay(&all, 16, 16);
    r->given = role_lay(&all, given, 16);
    r->shared = all;
    return true;
}

/*
 * Rounds after which sums of bytes are added in f32: each one, by turns, where threads have registers for two of them beside the sums, as two
 * warpgroups of one block do; else after more.
 */
static void find_interval(const CpuCode *e, Roles *r)
{
    enum { TWO = 64, STEPS = 512 };
    bool two = r->threads == 2 * GROUP_THREADS && r->extent[0] * r->extent[1] / r->threads <= TWO;
    int64_t steps = tile_schedule(e->k, "promote", two ? r->extent[2] : STEPS);

    r->interval = r->extent[2] < steps ? (int)steps / r->extent[2] : 1;
    r->by_turns = two && r->interval == 1;
}

bool roles_find(CpuCode *e, Roles *r)
{
    int64_t warps = tile_schedule(e->k, "warps", 8), sums;
    const TileType *t;

    *r = (Roles){.sets = 1, .cluster = 1, .loop = e->k->lanes == 1 ? only_loop(e->k) : NULL};
    r->dot = r->loop ? only_product(r->loop) : NULL;
    if (!r->dot || strcmp(e->u->machine->cpu, "sm_90a") || !tile_schedule(e->k, "tensor", 1))
        return false;
    t = tile_type(r->dot->in[0]);
    r->in = (DType)t->dtype;
    r->out = (DType)r->dot->type[0].dtype;
    r->bytes = (int)raw_size(r->in);
    r->extent[0] = t->extent[0], r->extent[1] = r->dot->type[0].extent[1], r->extent[2] = t->extent[1];
    if (tile_type(r->dot->in[1])->dtype != r->in || r->extent[0] % GROUP_ROWS || r->extent[1] % 16 || r->extent[1] > 256 ||
        r->extent[2] * r->bytes % 32 || !role_unit(r->in, r->out, r->extent[1], &r->unit))
        return false;
    r->threads = GROUP_THREADS * (int)(warps / 4 < 1 ? 1 : warps / 4);
    while (r->threads > GROUP_THREADS && (r->extent[0] / GROUP_ROWS) % (r->threads / GROUP_THREADS))
        r->threads -= GROUP_THREADS;
    r->promotes = r->unit.real && r->bytes == 1 && tile_schedule(e->k, "promote", 1);
    sums = r->promotes ? SUMS_MOST * 3 / 4 : tile_schedule(e->k, "sets", 1) == 2 ? SUMS_MOST * 3 / 2 : SUMS_MOST;
    if (r->extent[0] * r->extent[1] / r->threads > sums || r->threads > 3 * GROUP_THREADS)
        return false;
    find_interval(e, r);
    for (int i = 0; i < 3; i++)
        if (!roles_is_known(r->loop->in[i].node))
            return false;
    r->order = (int)tile_schedule(e->k, "order", ORDER);
    if (!find_operand(e, r, 0) || !find_operand(e, r, 1))
        return false;
    r->nmaps = 2;
    role_find_stores(e, r, r->loop->next, r->extent[1]);
    r->reads_own = role_reads_own(e->k);
    r->sets = tile_schedule(e->k, "sets", 1) == 2 && takes_turns(r) ? 2 : 1;
    r->uneven = r->sets > 1 && is_uneven(r);
    roles_find_cluster(e, r);
    roles_find_late(e, r);
    return lay_out(e, r);
}

static int number_of(const CpuCode *e, const TileNode *param)
{
    int i = 0;

    while (e->k->params.at[i] != param)
        i++;
    return i;
}

void role_map(const CpuCode *e, const RoleOperand *o, GpuMap *m)
{
    const TileNode *view = cpu_root(o->load->in[0]);

    *m = (GpuMap){.param = (uint8_t)number_of(e, view), .ends = o->part != NULL, .bytes = (uint8_t)raw_size((DType)view->type[0].dtype),
                  .swizzle = (uint8_t)o->span, .inner = (uint8_t)o->axes.inner, .second = (uint8_t)o->axes.second,
                  .tf32 = view->type[0].dtype == DT_tf32};
    for (int i = 0; i < MAP_AXES; i++)
        m->box[i] = (uint32_t)o->box[i];
}

void role_store_maps(const CpuCode *e, const Roles *r, GpuFrame *frame)
{
    frame->nmaps = r->nmaps;
    for (int i = 0; i < r->nstores; i++) {
        const RoleStore *s = &r->store[i];
        RoleOperand o = {.load = s->store, .part = s->part, .span = s->span, .axes = s->axes, .box = {0, GROUP_ROWS}};
        if (s->box[1])
            memcpy(o.box, s->box, sizeof o.box);
        o.box[0] = o.span / (int)raw_size((DType)o.load->in[0].node->type[0].dtype);
        role_map(e, &o, &frame->map[s->map]);
    }
}

void roles_frame(const CpuCode *e, const Roles *r, GpuFrame *frame)
{
    frame->threads = roles_threads(r);
    frame->cluster = r->cluster;
    frame->share = roles_share(r) ? r->shared_axis : -1;
    if (r->chain) {
        chain_maps(e, r, frame);
        return;
    }
    for (int i = 0; i < 2; i++)
        role_map(e, &r->o[i], &frame->map[i]);
    role_store_maps(e, r, frame);
    for (int i = 0; i < r->nlate; i++)
        role_map(e, &r->late[i].o, &frame->map[r->late[i].map]);
}
