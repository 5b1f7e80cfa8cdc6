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
enum { STEPS_AHEAD = 8 };               /* steps that rows of b are asked for before their use: they come from the second cache */

typedef struct Dot {
    const TileNode *n;
    DType dt;                           /* of the sums */
    const TileType *ta, *tb;
    Matrix a, b;
    LLVMValueRef out, steps;            /* where the result goes, unless it is pushed; how many k */
    LLVMValueRef rest;                  /* is there a step of zeros that is left out? NULL: there is none */
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

/*
 * What a block reads in each step: the element of its first row of a and that of its eighth, from which few distances reach the other rows, and a
 * place in b.  A pointer for each row would be more than there are registers.
 */
enum { NEAR = 7 };
typedef struct Streams { LLVMValueRef lo, hi, one, three, five, b; } Streams;

static LLVMValueRef moved(CpuCode *e, LLVMValueRef p, LLVMValueRef bytes)
{
    return LLVMBuildGEP2(e->u->builder, LLVMInt8TypeInContext(e->u->context), p, &bytes, 1, "");
}

/* The same value, of which the optimiser knows nothing: it would compute a pointer for each row, and have no registers for them. */
static LLVMValueRef hidden(CpuCode *e, LLVMValueRef x)
{
    LLVMTypeRef t = LLVMTypeOf(x), fn = LLVMFunctionType(t, &t, 1, false);
    char text[] = "", operands[] = "=r,0";
    LLVMValueRef code = LLVMGetInlineAsm(fn, text, 0, operands, sizeof operands - 1, false, false, LLVMInlineAsmDialectATT, false);

    return LLVMBuildCall2(e->u->builder, fn, code, &x, 1, "");
}

static LLVMValueRef near_row(CpuCode *e, const Streams *s, int row)
{
    LLVMValueRef from = row < NEAR ? s->lo : s->hi;
    int r = row % NEAR;

    if (r == 3 || r == 6)
        return moved(e, from, r == 3 ? s->three : LLVMBuildShl(e->u->builder, s->three, cpu_number(e, 1), ""));
    if (r == 5)
        return moved(e, from, s->five);
    return r ? moved(e, from, LLVMBuildShl(e->u->builder, s->one, cpu_number(e, r / 2), "")) : from;
}

/* One step of k on a block. */
static void step(CpuCode *e, const Dot *d, const Streams *s, LLVMValueRef k, int rows, int vectors, LLVMValueRef acc[ROWS_MAX][VECTORS_MAX])
{
    LLVMValueRef vb[VECTORS_MAX], va, sum, down = cpu_op(e, LLVMMul, k, d->b.down), zero = cpu_number(e, 0);
    LLVMValueRef later = cpu_op(e, LLVMMul, d->b.down, cpu_number(e, STEPS_AHEAD));
    DType from_a = (DType)d->ta->dtype, from_b = (DType)d->tb->dtype;

    for (int v = 0; v < vectors; v++) {
        LLVMValueRef at = cpu_op(e, LLVMAdd, down, cpu_number(e, v * d->width));
        vb[v] = converted(e, d, from_b, cpu_load_flat(e, from_b, s->b, at, 1));
        cpu_ask(e, pointer(e, from_b, s->b, cpu_op(e, LLVMAdd, at, later), cpu_number(e, 1)), 1);
    }
    for (int r = 0; r < rows; r++) {
        va = converted(e, d, from_a, cpu_load_flat(e, from_a, near_row(e, s, r), zero, 0));
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

/* What the streams of a have in the loop over k: phis, the first step's values of which are given. */
enum { PLACES = 5 };
static LLVMValueRef *stream(Streams *s, int p) { return (LLVMValueRef *[]){&s->lo, &s->hi, &s->one, &s->three, &s->five}[p]; }

static Streams begin_streams(CpuCode *e, const Dot *d, LLVMValueRef i)
{
    LLVMValueRef size = cpu_number(e, (int64_t)raw_size(lane_dtype((DType)d->ta->dtype))), row = cpu_op(e, LLVMMul, d->a.down, size);
    LLVMValueRef lo = pointer(e, (DType)d->ta->dtype, d->a.base, i, d->a.down);

    return (Streams){.lo = lo, .hi = moved(e, lo, cpu_op(e, LLVMMul, row, cpu_number(e, NEAR))), .one = row,
                     .three = cpu_op(e, LLVMMul, row, cpu_number(e, 3)), .five = cpu_op(e, LLVMMul, row, cpu_number(e, 5))};
}

/* A block of a tile, rows x vectors from row i, column j. */
static void load_sums(CpuCode *e, const Dot *d, TileRef v, LLVMValueRef i, LLVMValueRef j, int rows, int vectors,
                      LLVMValueRef acc[ROWS_MAX][VECTORS_MAX])
{
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < vectors; c++) {
            Spot p = {.at = {cpu_op(e, LLVMAdd, i, cpu_number(e, r)), cpu_op(e, LLVMAdd, j, cpu_number(e, c * d->width))}, .strip = 1};
            e->known.n = 0;
            acc[r][c] = cpu_lanes(e, v, &p);
        }
    e->known.n = 0;
}

/* What is added to: in the first round of a loop that sums up (cpu_sums.c) what the loop begins with. */
static void begin_sums(CpuCode *e, const Dot *d, LLVMValueRef i, LLVMValueRef j, int rows, int vectors, LLVMValueRef acc[ROWS_MAX][VECTORS_MAX])
{
    LLVMValueRef start[ROWS_MAX][VECTORS_MAX];
    LLVMBasicBlockRef way[2], from[2], done;

    if (e->sums.dot != d->n || !e->sums.first) {
        load_sums(e, d, d->n->in[2], i, j, rows, vectors, acc);
        return;
    }
    way[0] = cpu_block(e), way[1] = cpu_block(e), done = cpu_block(e);
    LLVMBuildCondBr(e->u->builder, e->sums.first, way[0], way[1]);
    for (int w = 0; w < 2; w++) {
        LLVMPositionBuilderAtEnd(e->u->builder, way[w]);
        load_sums(e, d, w ? d->n->in[2] : d->n->block->owner->in[3], i, j, rows, vectors, w ? acc : start);
        from[w] = LLVMGetInsertBlock(e->u->builder);
        LLVMBuildBr(e->u->builder, done);
    }
    LLVMPositionBuilderAtEnd(e->u->builder, done);
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++) {
            LLVMValueRef phi = LLVMBuildPhi(e->u->builder, LLVMTypeOf(acc[r][v]), "");
            LLVMAddIncoming(phi, (LLVMValueRef[]){start[r][v], acc[r][v]}, from, 2);
            acc[r][v] = phi;
        }
}

/* The block goes to memory, its first element to `base`, rows `down` elements apart. */
static void store_sums(CpuCode *e, const Dot *d, LLVMValueRef base, LLVMValueRef down, LLVMValueRef i, LLVMValueRef j, int rows, int vectors,
                       LLVMValueRef acc[ROWS_MAX][VECTORS_MAX])
{
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++) {
            LLVMValueRef row = cpu_op(e, LLVMMul, cpu_op(e, LLVMAdd, i, cpu_number(e, r)), down);
            cpu_store_flat(e, d->dt, base, cpu_op(e, LLVMAdd, row, cpu_op(e, LLVMAdd, j, cpu_number(e, v * d->width))), acc[r][v], NULL);
        }
}

/* To the result's buffer; in the last round of a loop that sums up to where its store would copy them. */
static void end_sums(CpuCode *e, const Dot *d, LLVMValueRef i, LLVMValueRef j, int rows, int vectors, LLVMValueRef acc[ROWS_MAX][VECTORS_MAX])
{
    LLVMValueRef down = cpu_number(e, d->tb->extent[1]);
    LLVMBasicBlockRef way[2], done;
    const LoopSums *s = &e->sums;

    if (s->dot != d->n || !s->last) {
        store_sums(e, d, d->out, down, i, j, rows, vectors, acc);
        return;
    }
    way[0] = cpu_block(e), way[1] = cpu_block(e), done = cpu_block(e);
    LLVMBuildCondBr(e->u->builder, s->last, way[0], way[1]);
    for (int w = 0; w < 2; w++) {
        LLVMPositionBuilderAtEnd(e->u->builder, way[w]);
        store_sums(e, d, w ? d->out : s->to, w ? down : cpu_val(e, s->store->in[0])->stride[0], i, j, rows, vectors, acc);
        LLVMBuildBr(e->u->builder, done);
    }
    LLVMPositionBuilderAtEnd(e->u->builder, done);
}

/* Steps of zeros that were left out: -0 + 0 is 0, and nothing else changes. */
static void add_rest(CpuCode *e, const Dot *d, int rows, int vectors, LLVMValueRef acc[ROWS_MAX][VECTORS_MAX])
{
    LLVMTypeRef t = LLVMTypeOf(acc[0][0]);
    LLVMValueRef zero, none;

    if (!d->rest || !dtype_is_inexact(d->dt))
        return;
    none = lane_splat(e->u, LLVMConstReal(d->width > 1 ? LLVMGetElementType(t) : t, -0.0), d->width);
    zero = LLVMBuildSelect(e->u->builder, d->rest, LLVMConstNull(t), none, "");
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            acc[r][v] = LLVMBuildFAdd(e->u->builder, acc[r][v], zero, "");
}

/* rows x vectors of the result from row i, column j. */
static void block(CpuCode *e, const Dot *d, LLVMValueRef i, LLVMValueRef j, int rows, int vectors)
{
    LLVMValueRef acc[ROWS_MAX][VECTORS_MAX], phi[ROWS_MAX][VECTORS_MAX];
    LLVMBasicBlockRef from;
    Streams s, next;
    LLVMValueRef across = cpu_op(e, LLVMMul, d->a.across, cpu_number(e, (int64_t)raw_size(lane_dtype((DType)d->ta->dtype)))), b;
    CpuLoop l;

    e->width = d->width;
    e->masked = true;
    begin_sums(e, d, i, j, rows, vectors, acc);
    s = begin_streams(e, d, i);
    b = pointer(e, (DType)d->tb->dtype, d->b.base, j, d->b.across);
    from = LLVMGetInsertBlock(e->u->builder);
    l = cpu_loop(e, cpu_number(e, 0), d->steps, cpu_number(e, 1));
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            acc[r][v] = phi[r][v] = phi_of(e, &l, acc[r][v], from);
    for (int p = 0; p < PLACES; p++)
        *stream(&s, p) = phi_of(e, &l, *stream(&s, p), from);
    s.b = b;
    step(e, d, &s, l.i, rows, vectors, acc);
    next = s;
    next.lo = moved(e, s.lo, across);
    next.hi = moved(e, s.hi, across);
    from = LLVMGetInsertBlock(e->u->builder);
    for (int p = 0; p < PLACES; p++) {
        LLVMValueRef again = hidden(e, *stream(&next, p));
        LLVMAddIncoming(*stream(&s, p), &again, &from, 1);
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            LLVMAddIncoming(phi[r][v], &acc[r][v], &from, 1);
    cpu_loop_end(e, &l);
    add_rest(e, d, rows, vectors, phi);
    if (d->push.node)
        push(e, d, i, j, rows, vectors, phi);
    else
        end_sums(e, d, i, j, rows, vectors, phi);
}

/* Where places along an axis end of which somebody sees the result. */
static LLVMValueRef seen(CpuCode *e, const Dot *d, int axis, int hi)
{
    LLVMValueRef end = cpu_number(e, hi);

    return e->sums.dot == d->n && e->sums.store ? cpu_smaller(e, end, e->sums.seen[axis]) : end;
}

/* Blocks of rows [lo, hi), whole ones. */
static void rows_of(CpuCode *e, const Dot *d, LLVMValueRef j, int lo, int hi, int rows, int vectors)
{
    CpuLoop down;

    if (lo == hi)
        return;
    down = cpu_loop(e, cpu_number(e, lo), seen(e, d, 0, hi), cpu_number(e, rows));
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
    over = cpu_loop(e, cpu_number(e, lo), seen(e, d, 1, hi), cpu_number(e, vectors * d->width));
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
    LLVMBasicBlockRef done = NULL;
    LLVMValueRef all;
    int cols = d.tb->extent[1], whole;

    if (!push_node)
        d.out = dot_result(e, n);
    if (!push_node && cpu_unit_parts(e, n))
        done = cpu_unit_dot(e, n, dot_adds_to_map(e, n), d.out);
    d.steps = dot_steps(e, n, &all);
    d.rest = d.steps == all ? NULL : cpu_compare(e, LLVMIntSLT, d.steps, all);
    d.a = dot_operand(e, n, 0, d.steps);
    d.b = dot_operand(e, n, 1, d.steps);
    if (push_node)
        cpu_begin_push(e, &d.push);
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
    if (done) {
        LLVMBuildBr(e->u->builder, done);
        LLVMPositionBuilderAtEnd(e->u->builder, done);
    }
    if (push_node)
        cpu_end_push(e, &d.push);
    else
        cpu_val(e, (TileRef){(TileNode *)n, 0})->x = d.out;
}
