/*
 * Products of tiles on GPUs, in the order that dot promises: each sum takes its steps one after the other, so a thread does all
 * steps of the sums that are its own (gpu_fragment.c). What they multiply lies in shared memory, blocks that a loop loads rounds ahead
 * (gpu_ahead.c); transposed ones lie as they were loaded.
 */
#include "codegen/gpu_ahead.h"

#include "base/alloc.h"

enum { COLUMNS_MAX = 64 };      /* a thread's: of 128 registers, two rows at least */
enum { AT_ONCE = 8, MANY_AT_ONCE = 16 };        /* steps of a round, so that what they load is under way together; where sums wait (gpu_park.c) */
enum { TOGETHER = 16 };         /* bytes of steps that lie side by side, and are loaded at once */

typedef struct Sums {
    const TileNode *n;
    DType dt;
    Fragment f;
    int count[2];               /* of a thread's rows and columns */
    LLVMValueRef *at[2];        /* where they are */
    LLVMValueRef *slot;         /* of each sum, by register */
    bool laid[2];               /* are the operands blocks that lie in rows with gaps? */
    TileRef v[2];               /* those blocks, of which the operands may be turned */
    LLVMValueRef *run[2];       /* of this step, runs of rows or columns that lie side by side; NULL: they do not */
    LLVMValueRef *some[2];      /* as many steps as lie side by side, of each row or column; NULL: an operand's are loaded one at a time */
} Sums;

/* The register of a thread's row i and column j. */
static int register_of(const Fragment *f, int i, int j)
{
    return f->side[0] ? i * f->side[1] + j : 4 * (i / 2 * f->columns + j / 2) + 2 * (i % 2) + j % 2;
}

/* An element of an operand in the dtype of the sums: of its row or column i. */
static LLVMValueRef element(CpuCode *e, const Sums *s, int operand, int i, LLVMValueRef k, int number)
{
    TileRef v = s->n->in[operand];
    DType from = (DType)tile_type(v)->dtype;
    Spot p = {.at = {operand ? k : s->at[0][i], operand ? s->at[1][i] : k}, .strip = -1};
    LLVMValueRef x;

    if (s->some[operand])
        return LLVMBuildExtractElement(e->u->builder, s->some[operand][i], i32_number(e, number % (TOGETHER / (int)raw_size(from))), "");
    if (s->run[operand])
        return LLVMBuildExtractElement(e->u->builder, s->run[operand][i / s->f.run[operand]], i32_number(e, i % s->f.run[operand]), "");
    x = cpu_lanes(e, v, &p);
    if (from == s->dt)
        return x;
    return lanes_of_raw(e->u, s->dt, lanes_convert(e->u, s->dt, from, NULL, lanes_to_raw(e->u, from, x, 1), NULL, NULL, 1), 1);
}

static bool is_laid_across(const Sums *s, int operand)
{
    bool turned = s->v[operand].node != s->n->in[operand].node;

    return s->laid[operand] && turned == (operand == 0) && tile_type(s->v[operand])->dtype == s->dt;
}

/* Elements of a block, from one on, that lie side by side. */
static LLVMValueRef load_together(CpuCode *e, const Sums *s, int operand, LLVMValueRef row, LLVMValueRef column)
{
    const Val *x = cpu_val(e, s->v[operand]);
    LLVMValueRef at = cpu_op(e, LLVMAdd, cpu_op(e, LLVMMul, row, cpu_number(e, x->pitch)), column), y;

    at = LLVMBuildGEP2(e->u->builder, lane_type(e->u, s->dt, 1), x->x, &at, 1, "");
    y = LLVMBuildLoad2(e->u->builder, lane_type(e->u, s->dt, TOGETHER / (int)raw_size(s->dt)), at, "");
    LLVMSetAlignment(y, TOGETHER);
    return y;
}

/* Runs of rows or columns of step k. */
static void load_runs(CpuCode *e, Sums *s, LLVMValueRef k)
{
    for (int o = 0; o < 2; o++) {
        int run = s->f.run[o];
        s->run[o] = NULL;
        if (!is_laid_across(s, o) || run * (int)raw_size(s->dt) != TOGETHER || tile_type(s->v[o])->extent[1] % run)
            continue;
        s->run[o] = arena_array(&e->gpu->arena, LLVMValueRef, s->count[o] / run);
        for (int i = 0; i < s->count[o]; i += run)
            s->run[o][i / run] = load_together(e, s, o, k, s->at[o][i]);
    }
}

/* Step k, which is number `number` of a round. */
static void step(CpuCode *e, Sums *s, LLVMValueRef k, int number)
{
    LLVMTypeRef t = lane_type(e->u, s->dt, 1);
    LLVMValueRef b[COLUMNS_MAX];

    e->known.n = 0;
    load_runs(e, s, k);
    for (int j = 0; j < s->count[1]; j++)
        b[j] = element(e, s, 1, j, k, number);
    for (int i = 0; i < s->count[0]; i++) {
        LLVMValueRef a = element(e, s, 0, i, k, number);
        for (int j = 0; j < s->count[1]; j++) {
            LLVMValueRef slot = s->slot[register_of(&s->f, i, j)], x[3] = {a, b[j], LLVMBuildLoad2(e->u->builder, t, slot, "")};
            LLVMBuildStore(e->u->builder, cpu_rounded(e, s->dt, formula_emit(e->u, OP_fma, s->dt, x, 3, 1), 1), slot);
        }
    }
}

/* Do an operand's steps lie side by side, in the dtype of the sums? */
static bool lies_by_steps(const Sums *s, int operand)
{
    bool turned = s->v[operand].node != s->n->in[operand].node;

    return s->laid[operand] && turned == (operand == 1) && tile_type(s->v[operand])->dtype == s->dt &&
           tile_type(s->v[operand])->extent[1] % AT_ONCE == 0;
}

/* Steps from k on, for all rows or columns, of operands whose steps lie so. */
static void load_steps(CpuCode *e, Sums *s, LLVMValueRef k)
{
    for (int o = 0; o < 2; o++) {
        if (!lies_by_steps(s, o))
            continue;
        s->some[o] = arena_array(&e->gpu->arena, LLVMValueRef, s->count[o]);
        for (int i = 0; i < s->count[o]; i++)
            s->some[o][i] = load_together(e, s, o, s->at[o][i], k);
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
static void all_steps(CpuCode *e, Sums *s)
{
    int at_once = e->gpu->parks ? MANY_AT_ONCE : AT_ONCE;
    LLVMValueRef steps = steps_of(e, s->n), whole = LLVMBuildAnd(e->u->builder, steps, cpu_number(e, -at_once), "");
    CpuLoop l = cpu_loop(e, cpu_number(e, 0), whole, cpu_number(e, at_once));

    for (int i = 0; i < at_once; i++) {
        LLVMValueRef k = cpu_op(e, LLVMAdd, l.i, cpu_number(e, i));
        if (i % (TOGETHER / (int)raw_size(s->dt)) == 0)
            load_steps(e, s, k);
        step(e, s, k, i);
    }
    cpu_loop_end(e, &l);
    s->some[0] = s->some[1] = NULL;
    l = cpu_loop(e, whole, steps, cpu_number(e, 1));
    step(e, s, l.i, 0);
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

/* ---- operands ---- */

/*
 * Rows of a left operand, and columns of a right one, that lie side by side in the blocks of all products are taken in runs of 16 bytes. Where steps
 * do, threads beside each other take neighbours, whose steps then lie in different banks.
 */
static void find_runs(CpuCode *e, const TileBlock *b, int *least)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        for (int r = 0; r < 2; r++)
            if (n->region[r])
                find_runs(e, n->region[r], least);
        for (int o = 0; n->op == TOP_dot && o < 2; o++) {
            bool turned = operand_is_turned(n->in[o]), runs = turned == (o == 0) && tile_type(n->in[o])->dtype == n->type[0].dtype;
            int bytes = (int)raw_size((DType)n->type[0].dtype), run = runs && bytes >= 4 && bytes <= TOGETHER ? TOGETHER / bytes : 1;
            least[o] = !least[o] || run < least[o] ? run : least[o];
        }
    }
}

void gpu_find_runs(CpuCode *e)
{
    int least[2] = {0, 0};

    find_runs(e, &e->k->body, least);
    for (int o = 0; o < 2; o++)
        e->gpu->run[o] = least[o] ? least[o] : 1;
}

/* A block that is loaded for this product alone, whose elements registers hold as memory does. */
static bool is_laid(CpuCode *e, const TileNode *n, int operand)
{
    TileRef v = n->in[operand];
    DType dt = (DType)tile_type(v)->dtype;
    const Val *x;

    if (operand_is_turned(v) && v.node->nuse == 1 && !cpu_val(e, v)->x)
        v = v.node->in[0];
    x = cpu_val(e, v);
    return v.node->op == TOP_load && v.node->type[0].rank == 2 && v.node->nuse == 1 && !x->x && !x->fragment && !x->staged && lane_dtype(dt) == dt &&
           !is_packed(dt) && raw_size(dt) >= 4 && raw_size(dt) <= 8;
}

/* Those blocks are where the sums are added. */
static void lay(CpuCode *e, Sums *s)
{
    Ring ring;
    bool ahead = s->laid[0] && s->laid[1] && ring_find(e, s->n, true, false, &ring);

    for (int i = 0; i < 2; i++)
        if (!s->laid[i])
            cpu_need(e, s->n->in[i]);
    for (int i = 0; i < 2; i++) {
        int rows;
        Operand o = operand_form(e, s->n, i, false, &s->v[i], &rows);
        if (!s->laid[i] || (ahead && ring.on[i]))
            continue;
        ring.now[i] = cpu_buffer(e, (int64_t)rows * o.stage.pitch * o.bytes);
        cpu_stage(e, s->v[i], &o.stage, ring.now[i]);
    }
    if (ahead)
        ring_turn(e, &ring);
    for (int i = 0; i < 2; i++)
        if (s->laid[i]) {
            cpu_val(e, s->v[i])->x = ring.now[i];
            cpu_val(e, s->v[i])->pitch = tile_type(s->v[i])->extent[1] + GAP_BYTES / (int)raw_size((DType)tile_type(s->v[i])->dtype);
        }
}

static void leave(CpuCode *e, const Sums *s)
{
    for (int i = 0; i < 2; i++)
        if (s->laid[i]) {
            cpu_val(e, s->v[i])->x = NULL;
            cpu_val(e, s->v[i])->pitch = 0;
        }
}

bool gpu_dot(CpuCode *e, const TileNode *n)
{
    Sums s = {.n = n, .dt = (DType)n->type[0].dtype, .laid = {is_laid(e, n, 0), is_laid(e, n, 1)}};
    LLVMTypeRef t = lane_type(e->u, s.dt, 1);
    LLVMValueRef *sums;

    if (!gpu_fragment_of(e, &n->type[0], &s.f))
        return cpu_refuse(e, "a product of %d x %d sums by %d threads", n->type[0].extent[0], n->type[0].extent[1], e->gpu->threads);
    lay(e, &s);
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
    leave(e, &s);
    gpu_written(e);
    e->known.n = 0;
    gpu_set_fragment(e, (TileRef){(TileNode *)n, 0}, sums);
    return true;
}
