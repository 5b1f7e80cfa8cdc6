/*
 * Products of tiles on GPUs, in the order that dot promises: each sum takes its steps one after the other, so a thread does all
 * steps of the sums that are its own (gpu_fragment.c). What they multiply lies in shared memory.
 */
#include "codegen/gpu_impl.h"

#include "base/alloc.h"

enum { COLUMNS_MAX = 64 };      /* a thread's: of 128 registers, two rows at least */
enum { AT_ONCE = 8 };           /* steps of a round, so that what they load is under way together */

typedef struct Sums {
    const TileNode *n;
    DType dt;
    Fragment f;
    int count[2];               /* of a thread's rows and columns */
    LLVMValueRef *at[2];        /* where they are */
    LLVMValueRef *slot;         /* of each sum, by register */
} Sums;

/* The register of a thread's row i and column j. */
static int register_of(const Fragment *f, int i, int j)
{
    return f->side[0] ? i * f->side[1] + j : 4 * (i / 2 * f->columns + j / 2) + 2 * (i % 2) + j % 2;
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
    LLVMValueRef b[COLUMNS_MAX];

    e->known.n = 0;
    for (int j = 0; j < s->count[1]; j++)
        b[j] = element(e, s, s->n->in[1], k, s->at[1][j]);
    for (int i = 0; i < s->count[0]; i++) {
        LLVMValueRef a = element(e, s, s->n->in[0], s->at[0][i], k);
        for (int j = 0; j < s->count[1]; j++) {
            LLVMValueRef slot = s->slot[register_of(&s->f, i, j)], x[3] = {a, b[j], LLVMBuildLoad2(e->u->builder, t, slot, "")};
            LLVMBuildStore(e->u->builder, cpu_rounded(e, s->dt, formula_emit(e->u, OP_fma, s->dt, x, 3, 1), 1), slot);
        }
    }
}

static LLVMValueRef steps_of(CpuCode *e, const TileNode *n)
{
    LLVMTypeRef t = LLVMInt64TypeInContext(e->u->context);
    LLVMValueRef most[2] = {cpu_val(e, n->in[3])->x, cpu_number(e, tile_type(n->in[0])->extent[1])}, least[2] = {NULL, cpu_number(e, 0)};

    least[0] = cpu_intrinsic(e, "llvm.smin", &t, 1, most, 2);
    return cpu_intrinsic(e, "llvm.smax", &t, 1, least, 2);
}

/* All steps: as many at once as there are, then the rest one by one. */
static void all_steps(CpuCode *e, const Sums *s)
{
    LLVMValueRef steps = steps_of(e, s->n), whole = LLVMBuildAnd(e->u->builder, steps, cpu_number(e, -AT_ONCE), "");
    CpuLoop l = cpu_loop(e, cpu_number(e, 0), whole, cpu_number(e, AT_ONCE));

    for (int i = 0; i < AT_ONCE; i++)
        step(e, s, cpu_op(e, LLVMAdd, l.i, cpu_number(e, i)));
    cpu_loop_end(e, &l);
    l = cpu_loop(e, whole, steps, cpu_number(e, 1));
    step(e, s, l.i);
    cpu_loop_end(e, &l);
}

static void find_places(CpuCode *e, Sums *s)
{
    s->count[0] = s->f.side[0] ? s->f.side[0] : 2 * s->f.rows;
    s->count[1] = s->f.side[0] ? s->f.side[1] : 2 * s->f.columns;
    for (int axis = 0; axis < 2; axis++) {
        s->at[axis] = arena_array(&e->gpu->arena, LLVMValueRef, s->count[axis]);
        for (int i = 0; i < s->count[axis]; i++)
            s->at[axis][i] = gpu_register_spot(e, &s->f, axis ? register_of(&s->f, 0, i) : register_of(&s->f, i, 0)).at[axis];
    }
}

bool gpu_dot(CpuCode *e, const TileNode *n)
{
    Sums s = {.n = n, .dt = (DType)n->type[0].dtype};
    LLVMTypeRef t = lane_type(e->u, s.dt, 1);
    LLVMValueRef *sums;

    if (!gpu_fragment_of(e, &n->type[0], &s.f))
        return cpu_refuse(e, "a product of %d x %d sums by %d threads", n->type[0].extent[0], n->type[0].extent[1], e->gpu->threads);
    for (int i = 0; i < 2; i++)
        cpu_need(e, n->in[i]);
    sums = gpu_fragment_values(e, n->in[2], &s.f);
    s.slot = arena_array(&e->gpu->arena, LLVMValueRef, gpu_registers(&s.f));
    for (int i = 0; i < gpu_registers(&s.f); i++) {
        s.slot[i] = llvm_slot(e->u, t);
        LLVMBuildStore(e->u->builder, sums[i], s.slot[i]);
    }
    gpu_fence(e);
    e->width = 1;
    e->masked = true;
    find_places(e, &s);
    all_steps(e, &s);
    for (int i = 0; i < gpu_registers(&s.f); i++)
        sums[i] = LLVMBuildLoad2(e->u->builder, t, s.slot[i], "");
    gpu_written(e);
    e->known.n = 0;
    gpu_set_fragment(e, (TileRef){(TileNode *)n, 0}, sums);
    return true;
}
