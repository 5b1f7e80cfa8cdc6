/*
 * Tiles turned about: rows become columns in squares of vectors, so that memory
 * is read and written along rows on both sides.
 *
 * A square of as many vectors as they have lanes goes through the registers.
 * Each step exchanges halves of neighbouring runs of lanes between two vectors,
 * as far apart as the runs are long: for 16 lanes 4 steps, 64 shuffles.
 */
#include "codegen/cpu_impl.h"

#include "base/alloc.h"

enum { SIDE_MAX = 16 };                 /* squares of bytes take more shuffles than they save, and long to compile */

/* Lanes of a vector, and rows of a square. */
static int side_of(const CpuCode *e, const TileType *t)
{
    return e->u->machine->vector_bytes / (int)raw_size(lane_dtype((DType)t->dtype));
}

bool cpu_turns(const CpuCode *e, TileRef v)
{
    const TileNode *n = v.node;
    const TileType *t = tile_type(v);
    int side;

    if (n->op != TOP_permute || t->rank != 2 || n->attr->axes[0] != 1 || dtype_is_complex((DType)t->dtype) || e->val[e->first[n->id]].x)
        return false;
    side = side_of(e, t);
    return side > 1 && side <= SIDE_MAX && t->extent[0] % side == 0 && t->extent[1] % side == 0;
}

/* Lanes of a and of b, which stand `step` apart: those of either that belong to the first vector, or to the second. */
static LLVMValueRef exchanged(CpuCode *e, LLVMValueRef a, LLVMValueRef b, int side, int step, bool second)
{
    LLVMValueRef pick[LANES_MAX];

    for (int i = 0; i < side; i++) {
        int from = i & step ? side + i - (second ? 0 : step) : i + (second ? step : 0);
        pick[i] = LLVMConstInt(LLVMInt32TypeInContext(e->u->context), (unsigned)from, false);
    }
    return LLVMBuildShuffleVector(e->u->builder, a, b, LLVMConstVector(pick, (unsigned)side), "");
}

static void turn_square(CpuCode *e, LLVMValueRef *x, int side)
{
    for (int step = side / 2; step; step /= 2)
        for (int i = 0; i < side; i++) {
            LLVMValueRef a = x[i], b = x[i | step];
            if (i & step)
                continue;
            x[i] = exchanged(e, a, b, side, step, false);
            x[i | step] = exchanged(e, a, b, side, step, true);
        }
}

/* All squares of n's operand. */
static void walk(CpuCode *e, const TileNode *n, LLVMValueRef to, int panel)
{
    const TileType *t = &n->type[0];
    int side = side_of(e, t);
    LLVMValueRef *x = tsr_alloc(sizeof *x * (size_t)side);
    CpuLoop across = cpu_loop(e, cpu_number(e, 0), cpu_number(e, t->extent[1]), cpu_number(e, side));
    CpuLoop down = cpu_loop(e, cpu_number(e, 0), cpu_number(e, t->extent[0]), cpu_number(e, side));

    e->width = side;
    for (int i = 0; i < side; i++) {
        Spot p = {.at = {cpu_op(e, LLVMAdd, across.i, cpu_number(e, i)), down.i}, .strip = 1};
        e->known.n = 0;
        x[i] = cpu_lanes(e, n->in[0], &p);
    }
    turn_square(e, x, side);
    for (int i = 0; i < side; i++) {
        Spot p = {.at = {cpu_op(e, LLVMAdd, down.i, cpu_number(e, i)), across.i}, .strip = 1};
        cpu_store_flat(e, (DType)t->dtype, to, cpu_packed_at(e, t, &p, panel), x[i], NULL);
    }
    cpu_loop_end(e, &down);
    cpu_loop_end(e, &across);
    e->known.n = 0;
    e->width = 1;
    tsr_free(x);
}

/* A load is turned on its way from memory, masked where it is not in its view; what else is not there yet has a buffer first. */
void cpu_turn(CpuCode *e, const TileNode *n, LLVMValueRef to, int panel)
{
    LLVMBuilderRef b = e->u->builder;
    const TileNode *from = n->in[0].node;
    LLVMBasicBlockRef way[2], done;

    if (from->op != TOP_load)
        cpu_need(e, n->in[0]);
    cpu_close(e);
    to = to ? to : cpu_buffer(e, cpu_tile_bytes(&n->type[0]));
    e->masked = false;
    if (cpu_val(e, n->in[0])->x || from->op != TOP_load) {
        walk(e, n, to, panel);
    } else {
        way[0] = cpu_block(e);
        way[1] = cpu_block(e);
        done = cpu_block(e);
        LLVMBuildCondBr(b, cpu_fits(e, from, -1, NULL, NULL), way[0], way[1]);
        for (int i = 0; i < 2; i++) {
            LLVMPositionBuilderAtEnd(b, way[i]);
            e->masked = i;
            walk(e, n, to, panel);
            LLVMBuildBr(b, done);
        }
        LLVMPositionBuilderAtEnd(b, done);
    }
    e->seen[from->id]++;
    if (from->op == TOP_load && e->seen[from->id] >= from->nuse)
        cpu_forget_load(e, from);
    cpu_val(e, (TileRef){(TileNode *)n, 0})->x = to;
}
