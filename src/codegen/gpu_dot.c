/*
 * Products of tiles on GPUs, in the order that dot promises: each sum takes its steps one after the other, so a thread does all
 * steps of the sums that are its own.  Those lie apart by the number of threads, so that neighbours read neighbours.
 *
 * Where all that trees of a kernel take is such products, a tree is each thread's own: it pushes its sums as it has them.
 */
#include "codegen/gpu_impl.h"

#include "base/alloc.h"

enum { SIDE_MAX = 8 };          /* sums of a thread along each axis */

typedef struct Sums {
    const TileNode *n;
    DType dt;
    int32_t rows, columns;      /* of the whole product */
    int side[2];                /* of a thread's */
    LLVMValueRef at[2];         /* its first row and column */
    LLVMValueRef slot[SIDE_MAX * SIDE_MAX];
} Sums;

static Sums sums_of(const TileNode *n, const TileType *t) { return (Sums){.n = n, .dt = (DType)t->dtype, .rows = t->extent[0], .columns = t->extent[1]}; }
static int sums_each(const Sums *s) { return s->side[0] * s->side[1]; }

/* As many sums a thread as leave work for all threads. */
static void choose_sides(const CpuCode *e, Sums *s)
{
    int32_t all = s->rows * s->columns;

    s->side[0] = s->side[1] = 1;
    for (int grown = 1; grown; ) {
        grown = 0;
        for (int k = 0; k < 2; k++) {
            int32_t extent = k ? s->columns : s->rows;
            int side = s->side[k] * 2, other = s->side[!k];
            if (side > SIDE_MAX || side > 2 * other || extent % side || all / (side * other) < e->gpu->threads)
                continue;
            s->side[k] = side;
            grown = 1;
        }
    }
}

static LLVMValueRef place(CpuCode *e, const Sums *s, int axis, int i)
{
    int32_t extent = axis ? s->columns : s->rows;

    return cpu_op(e, LLVMAdd, s->at[axis], cpu_number(e, (int64_t)i * (extent / s->side[axis])));
}

/* An element of an operand in the dtype of the sums. */
static LLVMValueRef element(CpuCode *e, const Sums *s, TileRef v, LLVMValueRef i, LLVMValueRef k)
{
    DType from = (DType)tile_type(v)->dtype;
    Spot p = {.at = {i, k}, .strip = -1};
    LLVMValueRef x = cpu_lanes(e, v, &p);

    if (from == s->dt)
        return x;
    return lanes_of_raw(e->u, s->dt, lanes_convert(e->u, s->dt, from, NULL, lanes_to_raw(e->u, from, x, 1), NULL, NULL, 1), 1);
}

static void step(CpuCode *e, const Sums *s, LLVMValueRef k)
{
    LLVMTypeRef t = lane_type(e->u, s->dt, 1);
    LLVMValueRef a[SIDE_MAX], b[SIDE_MAX];

    e->known.n = 0;
    for (int i = 0; i < s->side[0]; i++)
        a[i] = element(e, s, s->n->in[0], place(e, s, 0, i), k);
    for (int j = 0; j < s->side[1]; j++)
        b[j] = element(e, s, s->n->in[1], k, place(e, s, 1, j));
    for (int i = 0; i < s->side[0]; i++)
        for (int j = 0; j < s->side[1]; j++) {
            LLVMValueRef slot = s->slot[i * s->side[1] + j], x[3] = {a[i], b[j], LLVMBuildLoad2(e->u->builder, t, slot, "")};
            LLVMBuildStore(e->u->builder, cpu_rounded(e, s->dt, formula_emit(e->u, OP_fma, s->dt, x, 3, 1), 1), slot);
        }
}

static void begin_sums(CpuCode *e, Sums *s)
{
    e->known.n = 0;
    for (int i = 0; i < s->side[0]; i++)
        for (int j = 0; j < s->side[1]; j++) {
            Spot p = {.at = {place(e, s, 0, i), place(e, s, 1, j)}, .strip = -1};
            LLVMValueRef *slot = &s->slot[i * s->side[1] + j];
            *slot = *slot ? *slot : llvm_slot(e->u, lane_type(e->u, s->dt, 1));
            LLVMBuildStore(e->u->builder, cpu_lanes(e, s->n->in[2], &p), *slot);
        }
}

static void end_sums(CpuCode *e, const Sums *s, LLVMValueRef to)
{
    LLVMTypeRef t = lane_type(e->u, s->dt, 1);
    int stride;

    for (int i = 0; i < s->side[0]; i++)
        for (int j = 0; j < s->side[1]; j++) {
            Spot p = {.at = {place(e, s, 0, i), place(e, s, 1, j)}, .strip = -1};
            cpu_store_flat(e, s->dt, to, cpu_flat(e, &s->n->type[0], &p, &stride), LLVMBuildLoad2(e->u->builder, t, s->slot[i * s->side[1] + j], ""), NULL);
        }
}

static LLVMValueRef steps_of(CpuCode *e, const TileNode *n)
{
    LLVMTypeRef t = LLVMInt64TypeInContext(e->u->context);
    LLVMValueRef count = cpu_intrinsic(e, "llvm.smin", &t, 1, (LLVMValueRef[]){cpu_val(e, n->in[3])->x, cpu_number(e, tile_type(n->in[0])->extent[1])}, 2);

    return cpu_intrinsic(e, "llvm.smax", &t, 1, (LLVMValueRef[]){count, cpu_number(e, 0)}, 2);
}

/* ---- trees of a thread's own ---- */

static bool pushes_sums(const CpuCode *e, const TileBlock *b)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        if (n->op == TOP_push && (n->in[1].node->op != TOP_dot || n->in[1].node != n->prev || n->prev->nuse != 1 || gpu_is_matrix(e, n->in[1].node)))
            return false;
        for (int r = 0; r < 2; r++)
            if (n->region[r] && !pushes_sums(e, n->region[r]))
                return false;
    }
    return true;
}

bool gpu_has_own_tree(const CpuCode *e, const TileType *t)
{
    Sums s = sums_of(NULL, t);

    if (!e->gpu || t->rank != 2 || !pushes_sums(e, &e->k->body))
        return false;
    choose_sides(e, &s);
    return s.rows / s.side[0] * (s.columns / s.side[1]) <= e->gpu->threads;
}

LLVMValueRef gpu_own_tree(CpuCode *e, const TileType *t)
{
    Sums s = sums_of(NULL, t);
    LLVMValueRef memory;

    choose_sides(e, &s);
    memory = llvm_slot(e->u, LLVMArrayType2(lane_type(e->u, s.dt, 1), (uint64_t)GPU_LEVELS * (uint64_t)sums_each(&s)));
    return LLVMBuildAddrSpaceCast(e->u->builder, memory, LLVMPointerTypeInContext(e->u->context, 0), "");
}

static LLVMValueRef level_at(CpuCode *e, const Sums *s, LLVMValueRef level, int i)
{
    return cpu_op(e, LLVMAdd, cpu_op(e, LLVMMul, level, cpu_number(e, sums_each(s))), cpu_number(e, i));
}

static LLVMValueRef sum_now(CpuCode *e, const Sums *s, int i) { return LLVMBuildLoad2(e->u->builder, lane_type(e->u, s->dt, 1), s->slot[i], ""); }

/* Sums become left + themselves, with what waits `first`, first - 1, ... levels below the last one, `n` times. */
static void join_levels(CpuCode *e, const Sums *s, OpId step, LLVMValueRef tree, LLVMValueRef last, LLVMValueRef n)
{
    CpuLoop l = cpu_loop(e, cpu_number(e, 0), n, cpu_number(e, 1));
    LLVMValueRef level = cpu_op(e, LLVMSub, last, l.i);

    for (int i = 0; i < sums_each(s); i++)
        LLVMBuildStore(e->u->builder, cpu_step(e, step, s->dt, cpu_load_flat(e, s->dt, tree, level_at(e, s, level, i), 1), sum_now(e, s, i), 1), s->slot[i]);
    cpu_loop_end(e, &l);
}

static LLVMValueRef ones_of(CpuCode *e, LLVMValueRef x)
{
    LLVMTypeRef t = LLVMTypeOf(x);

    return cpu_intrinsic(e, "llvm.ctpop", &t, 1, &x, 1);
}

static void push_sums(CpuCode *e, const Sums *s, Sink *push)
{
    const Val *tree = cpu_val(e, push->node->in[0]);
    LLVMValueRef level = cpu_op(e, LLVMSub, push->depth, push->joins);

    join_levels(e, s, tile_step_op((OpId)push->node->type[0].op), tree->x, cpu_op(e, LLVMSub, push->depth, cpu_number(e, 1)), push->joins);
    for (int i = 0; i < sums_each(s); i++)
        cpu_store_flat(e, s->dt, tree->x, level_at(e, s, level, i), sum_now(e, s, i), NULL);
}

/* ---- products ---- */

static CpuLoop begin_blocks(CpuCode *e, Sums *s)
{
    int32_t blocks[2] = {s->rows / s->side[0], s->columns / s->side[1]};
    CpuLoop l;

    e->width = 1;
    e->masked = true;
    l = cpu_spread(e, (int64_t)blocks[0] * blocks[1], 1);
    gpu_decode(e, l.i, blocks, 2, -1, s->at);
    return l;
}

void gpu_own_total(CpuCode *e, const TileNode *n)
{
    Sums s = sums_of(n, &n->type[0]);
    const Val *tree = cpu_val(e, n->in[0]);
    OpId op = (OpId)tile_type(n->in[0])->op;
    LLVMValueRef to = cpu_buffer(e, cpu_tile_bytes(&n->type[0])), depth, last, none;
    CpuLoop l;

    choose_sides(e, &s);
    gpu_fence(e);
    depth = ones_of(e, LLVMBuildLoad2(e->u->builder, LLVMInt64TypeInContext(e->u->context), tree->count, ""));
    none = cpu_compare(e, LLVMIntEQ, depth, cpu_number(e, 0));
    last = cpu_choose(e, none, cpu_number(e, 0), cpu_op(e, LLVMSub, depth, cpu_number(e, 1)));
    l = begin_blocks(e, &s);
    for (int i = 0; i < sums_each(&s); i++) {
        LLVMValueRef x = cpu_load_flat(e, s.dt, tree->x, level_at(e, &s, last, i), 1);
        s.slot[i] = llvm_slot(e->u, lane_type(e->u, s.dt, 1));
        LLVMBuildStore(e->u->builder, cpu_choose(e, none, cpu_identity(e, op, s.dt, 1), x), s.slot[i]);
    }
    join_levels(e, &s, tile_step_op(op), tree->x, cpu_op(e, LLVMSub, last, cpu_number(e, 1)), last);
    end_sums(e, &s, to);
    cpu_loop_end(e, &l);
    gpu_written(e);
    cpu_val(e, (TileRef){(TileNode *)n, 0})->x = to;
}

void gpu_dot(CpuCode *e, const TileNode *n, const TileNode *push)
{
    Sums s = sums_of(n, &n->type[0]);
    Sink sink = {.node = push, .v = {(TileNode *)n, 0}};
    LLVMValueRef to = push ? NULL : cpu_buffer(e, cpu_tile_bytes(&n->type[0]));
    CpuLoop l, steps;

    for (int i = 0; i < 3; i++)
        cpu_need(e, n->in[i]);
    cpu_close(e);
    gpu_fence(e);
    choose_sides(e, &s);
    if (push)
        cpu_begin_push(e, &sink);
    l = begin_blocks(e, &s);
    begin_sums(e, &s);
    steps = cpu_loop(e, cpu_number(e, 0), steps_of(e, n), cpu_number(e, 1));
    step(e, &s, steps.i);
    cpu_loop_end(e, &steps);
    if (push)
        push_sums(e, &s, &sink);
    else
        end_sums(e, &s, to);
    cpu_loop_end(e, &l);
    gpu_written(e);
    e->known.n = 0;
    if (push)
        cpu_end_push(e, &sink);
    else
        cpu_val(e, (TileRef){(TileNode *)n, 0})->x = to;
}
