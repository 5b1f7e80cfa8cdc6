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

/* Elements of an operand lie at base[row * down + column * across]. */
typedef struct Matrix { LLVMValueRef base, down, across; } Matrix;

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

static LLVMValueRef in_matrix(CpuCode *e, const Matrix *m, LLVMValueRef row, LLVMValueRef column)
{
    return cpu_op(e, LLVMAdd, cpu_op(e, LLVMMul, row, m->down), cpu_op(e, LLVMMul, column, m->across));
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
        LLVMValueRef at = in_matrix(e, &d->b, k, cpu_op(e, LLVMAdd, j, cpu_number(e, v * d->width)));
        vb[v] = converted(e, d, from_b, cpu_load_flat(e, from_b, d->b.base, at, 1));
    }
    for (int r = 0; r < rows; r++) {
        va = cpu_load_flat(e, from_a, d->a.base, in_matrix(e, &d->a, cpu_op(e, LLVMAdd, i, cpu_number(e, r)), k), 0);
        va = converted(e, d, from_a, va);
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
    LLVMValueRef size = cpu_number(e, cpu_level_elements(&n->type[0]));
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

/* ---- operands ---- */

/*
 * Read where it lies: a load from a buffer of the group, which whoever filled it has arranged, for this dot alone.  Rows of b
 * are vectors.
 */
bool cpu_dot_direct(CpuCode *e, const TileNode *n, int operand)
{
    const TileNode *l = n->in[operand].node;
    const TileType *view;

    if (operand > 1 || l->op != TOP_load || l->nuse != 1 || l->block != n->block || l->attr->drop || cpu_val(e, n->in[operand])->x)
        return false;
    view = tile_type(l->in[0]);
    return view->space != SPACE_GLOBAL && raw_is_lane((DType)view->dtype) && (operand == 0 || view->stride[1] == 1);
}

static Matrix of_buffer(CpuCode *e, TileRef v)
{
    return (Matrix){cpu_val(e, v)->x, cpu_number(e, tile_type(v)->extent[1]), cpu_number(e, 1)};
}

static Matrix of_view(CpuCode *e, const TileNode *l)
{
    const Val *v = cpu_val(e, l->in[0]);
    LLVMTypeRef element = LLVMArrayType2(LLVMInt8TypeInContext(e->u->context), raw_size((DType)l->type[0].dtype));
    LLVMValueRef at = cpu_op(e, LLVMMul, cpu_val(e, l->in[1])->x, v->stride[0]);

    at = cpu_op(e, LLVMAdd, at, cpu_op(e, LLVMMul, cpu_val(e, l->in[2])->x, v->stride[1]));
    return (Matrix){LLVMBuildGEP2(e->u->builder, element, v->x, &at, 1, ""), v->stride[0], v->stride[1]};
}

static LLVMValueRef either(CpuCode *e, LLVMValueRef a, LLVMBasicBlockRef from_a, LLVMValueRef b, LLVMBasicBlockRef from_b)
{
    LLVMValueRef phi;

    if (a == b)
        return a;
    phi = LLVMBuildPhi(e->u->builder, LLVMTypeOf(a), "");
    LLVMAddIncoming(phi, (LLVMValueRef[]){a, b}, (LLVMBasicBlockRef[]){from_a, from_b}, 2);
    return phi;
}

/* In its view, or at the view's edge in a buffer with what stands for elements outside. */
static Matrix of_load(CpuCode *e, TileRef v)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMBasicBlockRef inside = cpu_block(e), outside = cpu_block(e), done = cpu_block(e), end;
    Matrix x, y;

    LLVMBuildCondBr(b, cpu_fits(e, v.node, -1, NULL), inside, outside);
    LLVMPositionBuilderAtEnd(b, inside);
    x = of_view(e, v.node);
    LLVMBuildBr(b, done);
    LLVMPositionBuilderAtEnd(b, outside);
    cpu_buffered(e, v.node);
    y = of_buffer(e, v);
    end = LLVMGetInsertBlock(b);
    LLVMBuildBr(b, done);
    LLVMPositionBuilderAtEnd(b, done);
    return (Matrix){either(e, x.base, inside, y.base, end), either(e, x.down, inside, y.down, end), either(e, x.across, inside, y.across, end)};
}

static Matrix operand(CpuCode *e, const TileNode *n, int i)
{
    return cpu_dot_direct(e, n, i) ? of_load(e, n->in[i]) : of_buffer(e, n->in[i]);
}

/*
 * May the result lie where acc does, because nobody else looks at acc again?  A block reads its part of acc before it writes it.
 * What a loop carries may when it becomes the same variable of the next round.
 */
static bool in_place(CpuCode *e, const TileNode *n)
{
    TileRef acc = n->in[2];
    const TileBlock *b = n->block;

    if (!cpu_val(e, acc)->x || acc.node->nuse != 1 || acc.node->block != b)
        return false;
    if (acc.node->op == TOP_map || acc.node->op == TOP_dot)
        return true;
    if (acc.node->op != TILE_PARAM || !b->owner || b->owner->op != TOP_for || n->nuse != 1)
        return false;
    for (int i = 0; i < b->yields.n; i++)
        if (b->yields.at[i].node == n)
            return b->params.at[1 + i] == acc.node;
    return false;
}

void cpu_dot(CpuCode *e, const TileNode *n, const TileNode *push_node)
{
    Dot d = {.n = n, .push = {.node = push_node}, .dt = (DType)n->type[0].dtype, .ta = tile_type(n->in[0]), .tb = tile_type(n->in[1])};
    LLVMTypeRef i64 = LLVMInt64TypeInContext(e->u->context);
    LLVMValueRef count = cpu_val(e, n->in[3])->x;
    size_t widest = raw_size(lane_dtype(d.dt));
    int cols = d.tb->extent[1], whole, wide = 2;

    for (int i = 0; i < 2; i++)
        if (raw_size(lane_dtype((DType)tile_type(n->in[i])->dtype)) > widest)
            widest = raw_size(lane_dtype((DType)tile_type(n->in[i])->dtype));
    d.a = operand(e, n, 0);
    d.b = operand(e, n, 1);
    if (!push_node)
        d.out = in_place(e, n) ? cpu_val(e, n->in[2])->x : cpu_buffer(e, cpu_tile_bytes(&n->type[0]));
    if (push_node)
        cpu_begin_push(e, &d.push);
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
    if (push_node)
        cpu_end_push(e, &d.push);
    else
        cpu_val(e, (TileRef){(TileNode *)n, 0})->x = d.out;
}
