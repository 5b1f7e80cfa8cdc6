/*
 * dot: blocks of the result in vector registers, one fused multiply-add a step
 * and vector, k in order.
 *
 * Operands have buffers, so a row of b is a run of vectors and an element of a
 * a broadcast.  A block is as tall and wide as the registers allow; what is
 * left over at the lower and right edges are smaller blocks.
 */
#include "codegen/cpu_impl.h"

enum { ROWS_MAX = 14, VECTORS_MAX = 4 };

typedef struct Dot {
    const TileNode *n;
    DType dt;                           /* of the sums */
    const TileType *ta, *tb;
    LLVMValueRef a, b, out, steps;      /* buffers; how many k */
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

static LLVMValueRef phi_of(CpuCode *e, const CpuLoop *l, LLVMValueRef first, LLVMBasicBlockRef from)
{
    LLVMValueRef phi;

    LLVMPositionBuilder(e->u->builder, l->head, LLVMGetNextInstruction(l->i));
    phi = LLVMBuildPhi(e->u->builder, LLVMTypeOf(first), "");
    LLVMAddIncoming(phi, &first, &from, 1);
    LLVMPositionBuilderAtEnd(e->u->builder, l->body);
    return phi;
}

/* One step of k on a block. */
static void step(CpuCode *e, const Dot *d, LLVMValueRef i, LLVMValueRef j, LLVMValueRef k, int rows, int vectors,
                 LLVMValueRef acc[ROWS_MAX][VECTORS_MAX])
{
    LLVMValueRef vb[VECTORS_MAX], va, sum;
    DType from_a = (DType)d->ta->dtype, from_b = (DType)d->tb->dtype;

    for (int v = 0; v < vectors; v++) {
        LLVMValueRef at = place(e, k, d->tb->extent[1], cpu_op(e, LLVMAdd, j, cpu_number(e, v * d->width)));
        vb[v] = converted(e, d, from_b, cpu_load_flat(e, from_b, d->b, at, 1));
    }
    for (int r = 0; r < rows; r++) {
        va = cpu_load_flat(e, from_a, d->a, place(e, cpu_op(e, LLVMAdd, i, cpu_number(e, r)), d->ta->extent[1], k), 0);
        va = converted(e, d, from_a, va);
        for (int v = 0; v < vectors; v++) {
            sum = formula_emit(e->u, OP_fma, d->dt, (LLVMValueRef[]){va, vb[v], acc[r][v]}, 3, d->width);
            acc[r][v] = cpu_rounded(e, d->dt, sum, d->width);
        }
    }
}

/* rows x vectors of the result from row i, column j. */
static void block(CpuCode *e, const Dot *d, LLVMValueRef i, LLVMValueRef j, int rows, int vectors)
{
    LLVMValueRef acc[ROWS_MAX][VECTORS_MAX], phi[ROWS_MAX][VECTORS_MAX];
    LLVMBasicBlockRef from;
    CpuLoop l;

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
    step(e, d, i, j, l.i, rows, vectors, acc);
    from = LLVMGetInsertBlock(e->u->builder);
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            LLVMAddIncoming(phi[r][v], &acc[r][v], &from, 1);
    cpu_loop_end(e, &l);
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++) {
            LLVMValueRef column = cpu_op(e, LLVMAdd, j, cpu_number(e, v * d->width));
            cpu_store_flat(e, d->dt, d->out, place(e, cpu_op(e, LLVMAdd, i, cpu_number(e, r)), d->tb->extent[1], column), phi[r][v], NULL);
        }
}

/* All rows of columns [lo, hi), a multiple of the block's width. */
static void columns(CpuCode *e, const Dot *d, int lo, int hi, int vectors)
{
    int most = (e->u->machine->vector_registers - vectors - 1) / vectors, m = d->ta->extent[0];
    int rows = most < ROWS_MAX ? most : ROWS_MAX;
    CpuLoop over, down;

    if (lo == hi)
        return;
    rows = rows > 12 ? 12 : rows;
    rows = rows > m ? m : rows;
    while (rows > most / 2 && m % rows)         /* rather no rest than a little taller */
        rows--;
    over = cpu_loop(e, cpu_number(e, lo), cpu_number(e, hi), cpu_number(e, vectors * d->width));
    if (m / rows) {
        down = cpu_loop(e, cpu_number(e, 0), cpu_number(e, m / rows * rows), cpu_number(e, rows));
        block(e, d, down.i, over.i, rows, vectors);
        cpu_loop_end(e, &down);
    }
    if (m % rows)
        block(e, d, cpu_number(e, m / rows * rows), over.i, m % rows, vectors);
    cpu_loop_end(e, &over);
}

void cpu_dot(CpuCode *e, const TileNode *n)
{
    Dot d = {.n = n, .dt = (DType)n->type[0].dtype, .ta = tile_type(n->in[0]), .tb = tile_type(n->in[1])};
    LLVMTypeRef i64 = LLVMInt64TypeInContext(e->u->context);
    LLVMValueRef count = cpu_val(e, n->in[3])->x;
    size_t widest = raw_size(lane_dtype(d.dt));
    int cols = d.tb->extent[1], whole, wide = 2;

    for (int i = 0; i < 2; i++)
        if (raw_size(lane_dtype((DType)tile_type(n->in[i])->dtype)) > widest)
            widest = raw_size(lane_dtype((DType)tile_type(n->in[i])->dtype));
    d.a = cpu_val(e, n->in[0])->x;
    d.b = cpu_val(e, n->in[1])->x;
    d.out = cpu_buffer(e, cpu_tile_bytes(&n->type[0]));
    d.steps = cpu_intrinsic(e, "llvm.smin", &i64, 1, (LLVMValueRef[]){count, cpu_number(e, d.ta->extent[1])}, 2);
    for (d.width = e->u->machine->vector_bytes / (int)widest; d.width > 1; d.width /= 2) {
        whole = cols / d.width * d.width;
        if (whole)
            break;
    }
    whole = cols / (wide * d.width) * (wide * d.width);
    columns(e, &d, 0, whole, wide);
    for (int lo = whole; lo < cols; ) {
        while (lo + d.width > cols)
            d.width /= 2;
        whole = lo + (cols - lo) / d.width * d.width;
        columns(e, &d, lo, whole, 1);
        lo = whole;
    }
    e->width = 1;
    cpu_val(e, (TileRef){(TileNode *)n, 0})->x = d.out;
}
