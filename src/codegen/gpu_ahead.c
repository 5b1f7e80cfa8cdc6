/*
 * Operands of products in shared memory, and those that a loop loads, which come ahead of it: asynchronous copies bring the blocks of the next
 * rounds into a ring of slots while threads, or matrix units, work on this round's.
 *
 * An operand lies in rows with 16 bytes between them, so that what neighbouring threads take of neighbouring rows lies in different banks.  A
 * transposed tile lies as what it was transposed from.
 *
 * A loop around may take chunks of what the product's own loop goes through: then its rounds go on from one chunk to the next.
 */
#include "codegen/gpu_ahead.h"

/* Bytes: of a product by units, beside which another group has room, of all memory of a group that has another one; by threads, and of f64. */
enum { SLOTS = 3, SLOTS_BESIDE = 2, RING_MAX = 110 << 10, RINGS_MAX = 160 << 10, ALONE_MAX = 212 << 10 };

bool operand_is_turned(TileRef v) { return v.node->op == TOP_permute && v.node->attr->axes[0] == 1; }

Operand operand_form(CpuCode *e, const TileNode *n, int operand, bool units, TileRef *v, int *rows)
{
    Operand o = {.bytes = (int)raw_size((DType)tile_type(n->in[operand])->dtype)};
    bool by_steps = operand == 0, from;         /* do its rows lie along the steps? is it what the tile was turned from? */
    LLVMValueRef count = cpu_val(e, n->in[3])->x;

    *v = n->in[operand];
    from = operand_is_turned(*v) && !cpu_val(e, *v)->x;
    if (from) {
        *v = v->node->in[0];
        by_steps = !by_steps;
    }
    o.stage.axis = operand == 0 ? !from : from;
    if (units && !by_steps && o.bytes == 1)
        o.stage.turned = by_steps = true;       /* ldmatrix turns pairs of bytes */
    o.turned = !by_steps;
    *rows = tile_type(*v)->extent[o.stage.turned];
    o.stage.pitch = tile_type(*v)->extent[!o.stage.turned] + (units && o.bytes == 8 ? WIDE_GAP_BYTES : GAP_BYTES) / o.bytes;
    if (units && (!LLVMIsAConstantInt(count) || LLVMConstIntGetSExtValue(count) < tile_type(n->in[0])->extent[1]))
        o.stage.steps = count;
    return o;
}

LLVMValueRef operand_address(CpuCode *e, LLVMValueRef place)
{
    place = LLVMBuildAddrSpaceCast(e->u->builder, place, LLVMPointerTypeInContext(e->u->context, 3), "");
    return LLVMBuildPtrToInt(e->u->builder, place, i32_type(e), "");
}

/* ---- indices of other rounds ---- */

static bool is_number(TileRef v, int64_t i) { return v.node->op == TOP_index && v.node->attr->i == i; }

/* Is v the smaller one of where a loop ends and its number plus its step? */
static bool ends_chunk(TileRef v, const TileNode *loop)
{
    for (int k = 0; v.node->op == TOP_imin && k < 2; k++) {
        const TileNode *sum = v.node->in[!k].node;
        bool adds = sum->op == TOP_iadd && cpu_same(v.node->in[k], loop->in[1]);
        for (int j = 0; adds && j < 2; j++)
            if (sum->in[j].node == loop->region[0]->params.at[0] && is_number(sum->in[!j], loop->in[2].node->attr->i))
                return true;
    }
    return false;
}

/* The loop around one that goes through its chunks in whole steps; else the loop itself. */
static const TileNode *find_around(const TileNode *loop)
{
    const TileNode *a = loop->block->owner;

    if (!a || a->op != TOP_for || loop->in[0].node != a->region[0]->params.at[0] || loop->in[2].node->op != TOP_index ||
        a->in[2].node->op != TOP_index)
        return loop;
    return loop->in[2].node->attr->i > 0 && a->in[2].node->attr->i % loop->in[2].node->attr->i == 0 && ends_chunk(loop->in[1], a) ? a : loop;
}

/* An index of the loop's body as it is when the loop's number is i. NULL: it does not follow from that. */
static LLVMValueRef index_at(CpuCode *e, const Ring *r, TileRef v, LLVMValueRef i)
{
    const TileNode *n = v.node;
    LLVMValueRef a, b;

    if (n == r->loop->region[0]->params.at[0])
        return i;
    if (n->block != r->loop->region[0])
        return r->around != r->loop && n->block == r->around->region[0] && n->op != TOP_index ? NULL : cpu_val(e, v)->x;
    switch (n->op) {
    case TOP_index: case TOP_size: case TOP_group: return cpu_index(e, n);
    case TOP_iadd: case TOP_isub: case TOP_imul: case TOP_idiv: case TOP_imod: case TOP_imin: case TOP_imax: break;
    default: return NULL;
    }
    a = index_at(e, r, n->in[0], i);
    b = a ? index_at(e, r, n->in[1], i) : NULL;
    return b ? cpu_arithmetic(e, n, a, b) : NULL;
}

/* ---- rounds ahead ---- */

static bool is_parameter(const CpuCode *e, TileRef view) { return view.node->op == TILE_PARAM && view.node->block == &e->k->body; }

/* Can an operand be brought rounds ahead: a block of a parameter that nobody writes, at a place that follows from the loop's number? */
static bool comes_ahead(CpuCode *e, const Ring *r, const Operand *o, const TileNode *load)
{
    if (load->op != TOP_load || load->block != r->n->block || cpu_val(e, (TileRef){(TileNode *)load, 0})->x || o->stage.turned || o->stage.steps ||
        !is_parameter(e, load->in[0]) || gpu_writes(&e->k->body, load->in[0].node))
        return false;
    for (int i = 1; i < load->nin; i++)
        if (!index_at(e, r, load->in[i], r->i))
            return false;
    return true;
}

/* left: is the left operand in memory? Those that come ahead leave room for another product's. */
bool ring_find(CpuCode *e, const TileNode *n, bool left, bool units, Ring *r)
{
    int64_t all = 0;

    *r = (Ring){.loop = n->block->owner, .n = n, .slots = e->gpu->parks ? SLOTS_BESIDE : SLOTS};
    if (!r->loop || r->loop->op != TOP_for || e->gpu->copies)
        return false;
    r->around = find_around(r->loop);
    r->i = cpu_val(e, (TileRef){r->loop->region[0]->params.at[0], 0})->x;
    for (int k = left ? 0 : 1; k < 2; k++) {
        int rows;
        r->o[k] = operand_form(e, n, k, units, &r->v[k], &rows);
        if (cpu_val(e, r->v[k])->staged || !comes_ahead(e, r, &r->o[k], r->v[k].node))
            continue;
        r->on[k] = r->o[k].stage.by_copies = true;
        r->bytes[k] = ((int64_t)rows * r->o[k].stage.pitch * r->o[k].bytes + 127) / 128 * 128;
        all += r->slots * r->bytes[k];
    }
    return all && (units && r->o[1].bytes <= 4 ? all <= RING_MAX && e->fixed_bytes + all <= RINGS_MAX : e->fixed_bytes + all <= ALONE_MAX);
}

static LLVMValueRef slot_at(CpuCode *e, const Ring *r, int operand, LLVMValueRef round)
{
    LLVMValueRef bytes = LLVMBuildURem(e->u->builder, round, cpu_number(e, r->slots), "");

    bytes = LLVMBuildMul(e->u->builder, bytes, cpu_number(e, r->bytes[operand]), "");
    return LLVMBuildGEP2(e->u->builder, LLVMInt8TypeInContext(e->u->context), r->base[operand], &bytes, 1, "");
}

/* What round i, `ahead` after this one, loads: into its slot. */
static void bring(CpuCode *e, const Ring *r, int ahead)
{
    LLVMValueRef step = cpu_val(e, r->loop->in[2])->x, i = cpu_op(e, LLVMAdd, r->i, cpu_op(e, LLVMMul, step, cpu_number(e, ahead)));
    LLVMValueRef round = cpu_op(e, LLVMAdd, r->round, cpu_number(e, ahead)), former[TILE_RANK_MAX + 1];
    GpuIf there = gpu_if(e, cpu_compare(e, LLVMIntSLT, i, cpu_val(e, r->around->in[1])->x));

    for (int k = 0; k < 2; k++) {
        const TileNode *load = r->v[k].node;
        LLVMValueRef now[TILE_RANK_MAX + 1];
        if (!r->on[k])
            continue;
        for (int a = 1; a < load->nin; a++)
            now[a] = index_at(e, r, load->in[a], i);
        for (int a = 1; a < load->nin; a++) {
            former[a] = cpu_val(e, load->in[a])->x;
            cpu_val(e, load->in[a])->x = now[a];
        }
        e->gpu->staging = true;
        cpu_stage(e, r->v[k], &r->o[k].stage, slot_at(e, r, k, round));
        for (int a = load->nin - 1; a > 0; a--)
            cpu_val(e, load->in[a])->x = former[a];
    }
    e->gpu->staging = false;
    gpu_end_if(e, &there);
    gpu_commit_copies(e);
}

/* This round's operands are there, and those of a later round are on their way. */
void ring_turn(CpuCode *e, Ring *r)
{
    LLVMValueRef lo = cpu_val(e, r->around->in[0])->x, step = cpu_val(e, r->loop->in[2])->x;

    cpu_close(e);
    for (int k = 0; k < 2; k++)
        if (r->on[k])
            r->base[k] = cpu_buffer(e, r->slots * r->bytes[k]);
    r->round = LLVMBuildSDiv(e->u->builder, cpu_op(e, LLVMSub, r->i, lo), step, "");
    GpuIf first = gpu_if(e, cpu_compare(e, LLVMIntEQ, r->i, lo));
    gpu_written(e);
    gpu_fence(e);                               /* nobody is at the rounds of the loop's last time */
    for (int ahead = 0; ahead < r->slots - 1; ahead++)
        bring(e, r, ahead);
    gpu_end_if(e, &first);
    gpu_wait_copies(e, r->slots - 2);
    gpu_written(e);
    gpu_fence(e);
    bring(e, r, r->slots - 1);                     /* into the last round's slot, which everybody has left; nobody reads it before another fence */
    e->gpu->clean = true;
    for (int k = 0; k < 2; k++)
        if (r->on[k])
            r->now[k] = slot_at(e, r, k, r->round);
}
