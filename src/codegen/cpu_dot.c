/*
 * dot: blocks of the result in vector registers, one fused multiply-add a step
 * and vector, k in order.
 *
 * A row of b is a run of vectors and an element of a a broadcast; where they
 * lie is cpu_operand.c's.  A block is as tall and wide as the registers allow;
 * what is left over at the lower and right edges are smaller blocks.
 */
#include "codegen/cpu_dot.h"

enum { ROWS_MAX = 14, VECTORS_MAX = 4 };

typedef struct Dot {
    const TileNode *n;
    DType dt;                           /* of the sums */
    const TileType *ta, *tb;
    Matrix a, b;
    LLVMValueRef out, steps;            /* where the result goes, unless it is pushed; how many k */
    Sink push;
    int width;
} Dot;

/* Elements of an operand in the sums' dtype. */
static LLVMValueRef converted(CpuCode *e, const Dot *d, DType from, LLVMValueRef lanes)
{
    if (from == d->dt || (lane_dtype(from) == lane_dtype(d->dt) && raw_is_lane(d->dt)))
        return lanes;
    lanes = lanes_convert(e->u, d->dt, from, NULL, lanes_to_raw(e->u, from, lanes, e->width), NULL, NULL, e->width);
    return lanes_of_raw(e->u, d->dt, lanes, e->width);
}

static LLVMValueRef place(CpuCode *e, LLVMValueRef row, int64_t columns, LLVMValueRef column)
{
    return cpu_op(e, LLVMAdd, cpu_op(e, LLVMMul, row, cpu_number(e, columns)), column);
}

/* Where an operand's element at a place along one axis is, `step` elements a place. */
static LLVMValueRef pointer(CpuCode *e, DType dt, LLVMValueRef base, LLVMValueRef at, LLVMValueRef step)
{
    LLVMTypeRef bytes = LLVMArrayType2(LLVMInt8TypeInContext(e->u->context), raw_size(lane_dtype(dt)));
    LLVMValueRef index = cpu_op(e, LLVMMul, at, step);

    return LLVMBuildGEP2(e->u->builder, bytes, base, &index, 1, "");
}

static LLVMValueRef phi_of(CpuCode *e, const CpuLoop *l, LLVMValueRef first, LLVMBasicBlockRef from)
{
    LLVMValueRef phi;

    LLVMPositionBuilder(e->u->builder, l->head, LLVMGetNextInstruction(l->i));
    phi = LLVMBuildPhi(e->u->builder, LLVMTypeOf(first), "");
    LLVMAddIncoming(phi, &first, &from, 1);
    LLVMPositionBuilderAtEnd(e->u->builder, l->body);
    return phi;
}

/* What a block reads in each step: a place in each of its rows of a, and one in b. */
typedef struct Streams { LLVMValueRef a[ROWS_MAX], b; } Streams;

/* One step of k on a block. */
static void step(CpuCode *e, const Dot *d, const Streams *s, LLVMValueRef k, int rows, int vectors, LLVMValueRef acc[ROWS_MAX][VECTORS_MAX])
{
    LLVMValueRef vb[VECTORS_MAX], va, sum, along = cpu_op(e, LLVMMul, k, d->a.across), down = cpu_op(e, LLVMMul, k, d->b.down);
    DType from_a = (DType)d->ta->dtype, from_b = (DType)d->tb->dtype;

    for (int v = 0; v < vectors; v++)
        vb[v] = converted(e, d, from_b, cpu_load_flat(e, from_b, s->b, cpu_op(e, LLVMAdd, down, cpu_number(e, v * d->width)), 1));
    for (int r = 0; r < rows; r++) {
        va = converted(e, d, from_a, cpu_load_flat(e, from_a, s->a[r], along, 0));
        for (int v = 0; v < vectors; v++) {
            sum = formula_emit(e->u, OP_fma, d->dt, (LLVMValueRef[]){va, vb[v], acc[r][v]}, 3, d->width);
            acc[r][v] = cpu_rounded(e, d->dt, sum, d->width);
        }
    }
}

/* The block joins the subtrees that wait in the tree, and waits there itself. */
static void push(CpuCode *e, const Dot *d, LLVMValueRef i, LLVMValueRef j, int rows, int vectors, LLVMValueRef acc[ROWS_MAX][VECTORS_MAX])
{
    const TileNode *n = d->push.node;
    LLVMValueRef at[ROWS_MAX][VECTORS_MAX], phi[ROWS_MAX][VECTORS_MAX], sum, level, wait = cpu_val(e, n->in[0])->x;
    LLVMValueRef size = cpu_number(e, cpu_level_elements(e, &n->type[0]));
    LLVMBasicBlockRef from = LLVMGetInsertBlock(e->u->builder);
    OpId op = tile_step_op((OpId)n->type[0].op);
    CpuLoop l;

    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            at[r][v] = place(e, cpu_op(e, LLVMAdd, i, cpu_number(e, r)), d->tb->extent[1], cpu_op(e, LLVMAdd, j, cpu_number(e, v * d->width)));
    l = cpu_loop(e, cpu_number(e, 1), cpu_op(e, LLVMAdd, d->push.joins, cpu_number(e, 1)), cpu_number(e, 1));
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            phi[r][v] = phi_of(e, &l, acc[r][v], from);
    level = cpu_op(e, LLVMMul, cpu_op(e, LLVMSub, d->push.depth, l.i), size);
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++) {
            sum = cpu_load_flat(e, d->dt, wait, cpu_op(e, LLVMAdd, level, at[r][v]), 1);
            acc[r][v] = cpu_step(e, op, d->dt, sum, phi[r][v], d->width);
        }
    from = LLVMGetInsertBlock(e->u->builder);
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            LLVMAddIncoming(phi[r][v], &acc[r][v], &from, 1);
    cpu_loop_end(e, &l);
    level = cpu_op(e, LLVMMul, cpu_op(e, LLVMSub, d->push.depth, d->push.joins), size);
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            cpu_store_flat(e, d->dt, wait, cpu_op(e, LLVMAdd, level, at[r][v]), phi[r][v], NULL);
}

/* rows x vectors of the result from row i, column j. */
static void block(CpuCode *e, const Dot *d, LLVMValueRef i, LLVMValueRef j, int rows, int vectors)
{
    LLVMValueRef acc[ROWS_MAX][VECTORS_MAX], phi[ROWS_MAX][VECTORS_MAX];
    LLVMBasicBlockRef from;
    Streams s = {.b = pointer(e, (DType)d->tb->dtype, d->b.base, j, d->b.across)};
    CpuLoop l;

    for (int r = 0; r < rows; r++)
        s.a[r] = pointer(e, (DType)d->ta->dtype, d->a.base, cpu_op(e, LLVMAdd, i, cpu_number(e, r)), d->a.down);
    e->width = d->width;
    e->masked = true;
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++) {
            Spot p = {.at = {cpu_op(e, LLVMAdd, i, cpu_number(e, r)), cpu_op(e, LLVMAdd, j, cpu_number(e, v * d->width))}, .strip = 1};
            e->known.n = 0;
            acc[r][v] = cpu_lanes(e, d->n->in[2], &p);
        }
    e->known.n = 0;
    from = LLVMGetInsertBlock(e->u->builder);
    l = cpu_loop(e, cpu_number(e, 0), d->steps, cpu_number(e, 1));
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            acc[r][v] = phi[r][v] = phi_of(e, &l, acc[r][v], from);
    step(e, d, &s, l.i, rows, vectors, acc);
    from = LLVMGetInsertBlock(e->u->builder);
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            LLVMAddIncoming(phi[r][v], &acc[r][v], &from, 1);
    cpu_loop_end(e, &l);
    if (d->push.node) {
        push(e, d, i, j, rows, vectors, phi);
        return;
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++) {
            LLVMValueRef column = cpu_op(e, LLVMAdd, j, cpu_number(e, v * d->width));
            cpu_store_flat(e, d->dt, d->out, place(e, cpu_op(e, LLVMAdd, i, cpu_number(e, r)), d->tb->extent[1], column), phi[r][v], NULL);
        }
}

/* Blocks of rows [lo, hi), whole ones. */
static void rows_of(CpuCode *e, const Dot *d, LLVMValueRef j, int lo, int hi, int rows, int vectors)
{
    CpuLoop down;

    if (lo == hi)
        return;
    down = cpu_loop(e, cpu_number(e, lo), cpu_number(e, hi), cpu_number(e, rows));
    block(e, d, down.i, j, rows, vectors);
    cpu_loop_end(e, &down);
}

/* All rows of columns [lo, hi), a multiple of the block's width: in blocks of the same height, or of two that differ by a row. */
static void columns(CpuCode *e, const Dot *d, int lo, int hi, int vectors)
{
    int most = (e->u->machine->vector_registers - vectors - 1) / vectors, m = d->ta->extent[0], blocks, rows, taller;
    CpuLoop over;

    if (lo == hi)
        return;
    most = most < ROWS_MAX ? most : ROWS_MAX;
    blocks = (m + most - 1) / most;
    rows = m / blocks;
    taller = m % blocks;
    over = cpu_loop(e, cpu_number(e, lo), cpu_number(e, hi), cpu_number(e, vectors * d->width));
    rows_of(e, d, over.i, 0, taller * (rows + 1), rows + 1, vectors);
    rows_of(e, d, over.i, taller * (rows + 1), m, rows, vectors);
    cpu_loop_end(e, &over);
}

/* Lanes of a vector of the widest dtype there is in it. */
static int full_width(const CpuCode *e, const TileNode *n)
{
    size_t widest = raw_size(lane_dtype((DType)n->type[0].dtype));

    for (int i = 0; i < 2; i++)
        if (raw_size(lane_dtype((DType)tile_type(n->in[i])->dtype)) > widest)
            widest = raw_size(lane_dtype((DType)tile_type(n->in[i])->dtype));
    return e->u->machine->vector_bytes / (int)widest;
}

int cpu_dot_width(const CpuCode *e, const TileNode *n)
{
    int width = full_width(e, n);

    while (width > 1 && width > n->type[0].extent[1])
        width /= 2;
    return width;
}

void cpu_dot(CpuCode *e, const TileNode *n, const TileNode *push_node)
{
    Dot d = {.n = n, .push = {.node = push_node}, .dt = (DType)n->type[0].dtype, .ta = tile_type(n->in[0]), .tb = tile_type(n->in[1])};
    LLVMTypeRef i64 = LLVMInt64TypeInContext(e->u->context);
    LLVMValueRef count = cpu_val(e, n->in[3])->x;
    int cols = d.tb->extent[1], whole;

    d.a = dot_operand(e, n, 0);
    d.b = dot_operand(e, n, 1);
    if (!push_node)
        d.out = dot_result(e, n);
    if (push_node)
        cpu_begin_push(e, &d.push);
    d.steps = cpu_intrinsic(e, "llvm.smin", &i64, 1, (LLVMValueRef[]){count, cpu_number(e, d.ta->extent[1])}, 2);
    d.width = cpu_dot_width(e, n);
    whole = cols / (DOT_WIDE * d.width) * (DOT_WIDE * d.width);
    columns(e, &d, 0, whole, DOT_WIDE);
    for (int lo = whole; lo < cols; ) {
        while (lo + d.width > cols)
            d.width /= 2;
        whole = lo + (cols - lo) / d.width * d.width;
        columns(e, &d, lo, whole, 1);
        lo = whole;
    }
    e->width = 1;
    if (push_node)
        cpu_end_push(e, &d.push);
    else
        cpu_val(e, (TileRef){(TileNode *)n, 0})->x = d.out;
}
