/*
 * Products by matrix units (mma): operands of 16 or 8 bits, sums in registers (gpu_fragment.c).
 *
 * Both operands are put into shared memory as they are, rows of 16-byte pieces with one piece between rows, so that the eight rows of a
 * matrix that ldmatrix takes lie in different banks; a transposed tile lies as what it was transposed from, and ldmatrix turns it.
 * A unit sums more than one step at once and rounds as it likes: such a product is not the one of R4 of docs/numerics.md,
 * but the same in every run.
 *
 * Blocks that a loop loads for a product come ahead of it (gpu_ahead.c).
 */
#include "codegen/gpu_ahead.h"
#include "codegen/gpu_assembly.h"

#include "base/alloc.h"

#include <string.h>

enum { PIECE_BYTES = 32 };

typedef struct Unit { DType left, right, out; const char *name; bool newer; } Unit;      /* newer: not of sm_80 */
static const Unit units[] = {
    {DT_bf16, DT_bf16, DT_f32, "m16n8k16.row.col.f32.bf16.bf16.f32", false},
    {DT_f16, DT_f16, DT_f32, "m16n8k16.row.col.f32.f16.f16.f32", false},
    {DT_int8, DT_int8, DT_int32, "m16n8k32.row.col.s32.s8.s8.s32", false},
    {DT_uint8, DT_uint8, DT_int32, "m16n8k32.row.col.s32.u8.u8.s32", false},
    {DT_fp8_e4m3, DT_fp8_e4m3, DT_f32, "m16n8k32.row.col.f32.e4m3.e4m3.f32", true},
    {DT_fp8_e5m2, DT_fp8_e5m2, DT_f32, "m16n8k32.row.col.f32.e5m2.e5m2.f32", true},
    {DT_fp8_e4m3, DT_fp8_e5m2, DT_f32, "m16n8k32.row.col.f32.e4m3.e5m2.f32", true},
    {DT_fp8_e5m2, DT_fp8_e4m3, DT_f32, "m16n8k32.row.col.f32.e5m2.e4m3.f32", true},
    {DT_f64, DT_f64, DT_f64, "m16n8k4.row.col.f64.f64.f64.f64", true},
};
enum { UNITS = sizeof units / sizeof *units };


static const Unit *unit_of(const CpuCode *e, const TileNode *n)
{
    const TileType *a = tile_type(n->in[0]), *b = tile_type(n->in[1]);

    for (int i = 0; i < UNITS; i++)
        if (units[i].left == a->dtype && units[i].right == b->dtype && units[i].out == n->type[0].dtype &&
            (!units[i].newer || strcmp(e->u->machine->cpu, "sm_80")))
            return &units[i];
    return NULL;
}

bool gpu_is_matrix(const CpuCode *e, const TileNode *n)
{
    const TileType *a = tile_type(n->in[0]);
    Fragment f;

    return unit_of(e, n) && gpu_fragment_of(e, &n->type[0], &f) && !f.side[0] && a->extent[1] * (int)raw_size((DType)a->dtype) % PIECE_BYTES == 0;
}

/* ---- operands in shared memory ---- */

/* Do all steps count? */
static bool takes_all_steps(const TileNode *n)
{
    const TileNode *count = n->in[3].node;

    return count->op == TOP_index && count->attr->i >= tile_type(n->in[0])->extent[1];
}

/* Is every use of v, in a block and those inside it, one as an operand of matrix units with all its steps? */
static bool only_multiplied(CpuCode *e, const TileBlock *b, TileRef v)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        for (int i = 0; i < n->nin; i++)
            if (cpu_same(n->in[i], v) && !(n->op == TOP_dot && i < 2 && gpu_is_matrix(e, n) && takes_all_steps(n)) &&
                !(operand_is_turned((TileRef){(TileNode *)n, 0}) && only_multiplied(e, &e->k->body, (TileRef){(TileNode *)n, 0})))
                return false;
        for (int r = 0; r < 2; r++)
            if (n->region[r] && !only_multiplied(e, n->region[r], v))
                return false;
    }
    for (int i = 0; i < b->yields.n; i++)
        if (cpu_same(b->yields.at[i], v))
            return false;
    return true;
}

bool gpu_is_operand(CpuCode *e, TileRef v)
{
    if (operand_is_turned(v))
        v = v.node->in[0];
    return v.node->op == TOP_load && v.node->type[0].rank == 2 && raw_size((DType)v.node->type[0].dtype) == 2 && e->gpu->units &&
           (cpu_val(e, v)->staged || (!cpu_val(e, v)->x && only_multiplied(e, &e->k->body, v)));
}

void gpu_stage_sink(CpuCode *e, Sink *s)
{
    Stage *form;

    if (s->node || s->stage || s->buffer || s->kept || s->v.node->op != TOP_load || !gpu_is_operand(e, s->v))
        return;
    form = arena_array(&e->gpu->arena, Stage, 1);
    *form = (Stage){.pitch = tile_type(s->v)->extent[1] + GAP_BYTES / 2};
    s->stage = form;
    s->buffer = cpu_buffer(e, (int64_t)tile_type(s->v)->extent[0] * form->pitch * 2);
    cpu_val(e, s->v)->staged = s->buffer;
}

static Operand stage(CpuCode *e, const TileNode *n, int operand)
{
    LLVMValueRef to;
    TileRef v;
    int rows;
    Operand o = operand_form(e, n, operand, true, &v, &rows);

    if (cpu_val(e, v)->staged) {
        o.at = operand_address(e, cpu_val(e, v)->staged);
        return o;
    }
    to = cpu_buffer(e, (int64_t)rows * o.stage.pitch * o.bytes);
    cpu_stage(e, v, &o.stage, to);
    o.at = operand_address(e, to);
    return o;
}

/* Zeros beyond the steps that count. */
static LLVMValueRef cut(CpuCode *e, const Stage *s, LLVMValueRef raw)
{
    LLVMValueRef at = e->spot.at[s->axis], none = LLVMConstNull(LLVMTypeOf(raw));

    if (!s->steps)
        return raw;
    if (e->spot.strip == s->axis)
        return cpu_choose(e, cpu_lane_mask(e, at, s->steps, true, NULL), raw, none);
    return cpu_choose(e, cpu_compare(e, LLVMIntSLT, at, s->steps), raw, none);
}

void gpu_stage_strip(CpuCode *e, const Sink *s)
{
    DType dt = (DType)tile_type(s->v)->dtype;
    LLVMValueRef *at = e->spot.at, place;
    LLVMTypeRef element = LLVMIntTypeInContext(e->u->context, 8 * (unsigned)raw_size(dt));
    bool turned = s->stage->turned;

    place = cpu_op(e, LLVMAdd, cpu_op(e, LLVMMul, at[turned], cpu_number(e, s->stage->pitch)), at[!turned]);
    place = LLVMBuildGEP2(e->u->builder, element, s->buffer, &place, 1, "");
    if (s->stage->by_copies && !e->masked && s->v.node->op == TOP_load && !cpu_val(e, s->v)->x &&
        e->width * (int)raw_size(dt) == PIECE_BYTES / 2 && !turned) {
        gpu_copy_piece(e, place, cpu_place(e, s->v.node, &e->spot), false);
        return;
    }
    LLVMValueRef raw = cut(e, s->stage, cpu_raw(e, s->v, &e->spot)), x;
    if (!turned || e->width == 1) {
        LLVMSetAlignment(LLVMBuildStore(e->u->builder, raw, place), (unsigned)(e->width * (int)raw_size(dt)));
        return;
    }
    for (int i = 0; i < e->width; i++) {
        LLVMValueRef next = cpu_number(e, (int64_t)i * s->stage->pitch);
        x = LLVMBuildExtractElement(e->u->builder, raw, i32_number(e, i), "");
        LLVMBuildStore(e->u->builder, x, LLVMBuildGEP2(e->u->builder, element, place, &next, 1, ""));
    }
}

/* ---- instructions of units ---- */

static void multiply(CpuCode *e, const Unit *unit, const LLVMValueRef *a, const LLVMValueRef *b, LLVMValueRef *sum)
{
    LLVMTypeRef t = LLVMTypeOf(sum[0]), four = LLVMStructTypeInContext(e->u->context, (LLVMTypeRef[]){t, t, t, t}, 4, false);
    LLVMValueRef in[10] = {a[0], a[1], a[2], a[3], b[0], b[1], sum[0], sum[1], sum[2], sum[3]}, all;
    bool real = unit->out == DT_f32;
    StrBuf text = {0};

    sb_printf(&text, "mma.sync.aligned.%s {$0,$1,$2,$3}, {$4,$5,$6,$7}, {$8,$9}, {$10,$11,$12,$13};", unit->name);
    all = gpu_assembly(e, four, sb_str(&text), real ? "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f" : "=r,=r,=r,=r,r,r,r,r,r,r,r,r,r,r", in, 10, false);
    for (unsigned i = 0; i < 4; i++)
        sum[i] = LLVMBuildExtractValue(e->u->builder, all, i, "");
    sb_done(&text);
}

/* ---- a product ---- */

typedef struct Product {
    const Unit *unit;
    Fragment f;
    Operand o[2];
    Warp warp;
    LLVMValueRef first[2];      /* first_matrix */
    LLVMValueRef *left;         /* the left operand, where it is in registers: words of two elements, two for each 8-column piece; else NULL */
    int left_columns;           /* of its fragment */
} Product;

static LLVMValueRef added(CpuCode *e, LLVMValueRef x, LLVMValueRef y, int64_t by)
{
    return LLVMBuildAdd(e->u->builder, x, LLVMBuildMul(e->u->builder, y, i32_number(e, by), ""), "");
}

/* Bit k of the lane's number. */
static LLVMValueRef bit(CpuCode *e, const Product *p, int k)
{
    return LLVMBuildAnd(e->u->builder, LLVMBuildLShr(e->u->builder, p->warp.lane, i32_number(e, k), ""), i32_number(e, 1), "");
}

/*
 * The address of this lane's row of four matrices: those of 16 rows of an operand (of the sums' rows or columns) and of 32 bytes of steps,
 * the first of this warp.  Rows come first where they are the left operand's, steps where they are the right one's.
 */
static LLVMValueRef first_matrix(CpuCode *e, const Product *p, int operand)
{
    const Operand *o = &p->o[operand];
    LLVMValueRef in_eight = LLVMBuildAnd(e->u->builder, p->warp.lane, i32_number(e, 7), ""), zero = i32_number(e, 0);
    LLVMValueRef row = operand ? added(e, zero, p->warp.wide, (int64_t)p->f.columns * PIECE_COLUMNS) : added(e, zero, p->warp.high, PIECE_ROWS);
    LLVMValueRef second = operand && p->f.columns == 1 ? zero : bit(e, p, operand ? 4 : 3);    /* 8 rows more, if there are any */
    LLVMValueRef r = added(e, row, second, 8), s = added(e, zero, bit(e, p, operand ? 3 : 4), PIECE_BYTES / 2 / o->bytes);

    if (o->turned)
        s = LLVMBuildAdd(e->u->builder, s, in_eight, "");
    else
        r = LLVMBuildAdd(e->u->builder, r, in_eight, "");
    return added(e, o->at, o->turned ? added(e, r, s, o->stage.pitch) : added(e, s, r, o->stage.pitch), o->bytes);
}

/* The same, so many rows and steps on. */
static LLVMValueRef matrix_at(CpuCode *e, const Product *p, int operand, int64_t rows, int64_t steps)
{
    const Operand *o = &p->o[operand];
    int64_t on = o->turned ? steps * o->stage.pitch + rows : rows * o->stage.pitch + steps;

    return LLVMBuildAdd(e->u->builder, p->first[operand], i32_number(e, on * o->bytes), "");
}

/* An element of f64, as this lane gives it to the unit: of the rows from one on, or the columns, that of its row or column and its step. */
static LLVMValueRef load_double(CpuCode *e, const Product *p, int operand, int64_t rows, int64_t steps)
{
    LLVMTypeRef shared = LLVMPointerTypeInContext(e->u->context, 3), t = LLVMDoubleTypeInContext(e->u->context);
    LLVMValueRef place = LLVMBuildIntToPtr(e->u->builder, matrix_at(e, p, operand, rows, steps), shared, "");

    return LLVMBuildLoad2(e->u->builder, t, place, "");
}

static LLVMValueRef first_double(CpuCode *e, const Product *p, int operand)
{
    const Operand *o = &p->o[operand];
    LLVMValueRef zero = i32_number(e, 0);
    LLVMValueRef row = operand ? added(e, zero, p->warp.wide, (int64_t)p->f.columns * PIECE_COLUMNS) : added(e, zero, p->warp.high, PIECE_ROWS);
    LLVMValueRef step = LLVMBuildURem(e->u->builder, p->warp.lane, i32_number(e, ROW_LANES), "");

    row = LLVMBuildAdd(e->u->builder, row, LLVMBuildUDiv(e->u->builder, p->warp.lane, i32_number(e, ROW_LANES), ""), "");
    return added(e, o->at, o->turned ? added(e, row, step, o->stage.pitch) : added(e, step, row, o->stage.pitch), o->bytes);
}

/* Four steps of f64, which the unit adds one after the other, each rounded, as fma does. */
static void multiply_doubles(CpuCode *e, const Product *p, int k, LLVMValueRef *sums)
{
    const Fragment *f = &p->f;
    LLVMTypeRef t = LLVMDoubleTypeInContext(e->u->context), four = LLVMStructTypeInContext(e->u->context, (LLVMTypeRef[]){t, t, t, t}, 4, false);
    LLVMValueRef *b = tsr_calloc(sizeof *b * (size_t)f->columns), in[7];
    StrBuf text = {0};

    sb_printf(&text, "mma.sync.aligned.%s {$0,$1,$2,$3}, {$4,$5}, {$6}, {$7,$8,$9,$10};", p->unit->name);
    for (int j = 0; j < f->columns; j++)
        b[j] = load_double(e, p, 1, (int64_t)j * PIECE_COLUMNS, k);
    for (int i = 0; i < f->rows; i++) {
        for (int h = 0; h < 2; h++)
            in[h] = load_double(e, p, 0, (int64_t)i * f->high * PIECE_ROWS + 8 * h, k);
        for (int j = 0; j < f->columns; j++) {
            LLVMValueRef *sum = &sums[4 * (i * f->columns + j)], all;
            in[2] = b[j];
            memcpy(in + 3, sum, 4 * sizeof *sum);
            all = gpu_assembly(e, four, sb_str(&text), "=d,=d,=d,=d,d,d,d,d,d,d,d", in, 7, false);
            for (unsigned c = 0; c < 4; c++)
                sum[c] = LLVMBuildExtractValue(e->u->builder, all, c, "");
        }
    }
    sb_done(&text);
    tsr_free(b);
}

static void multiply_steps(CpuCode *e, const Product *p, int k, LLVMValueRef *sums)
{
    const Fragment *f = &p->f;
    LLVMValueRef a[4], (*b)[2] = tsr_calloc(sizeof *b * (size_t)(f->columns + 1));

    for (int j = 0; j < f->columns; j += 2) {
        bool last = j + 1 == f->columns && f->columns > 1;     /* an odd one comes with the one before it */
        LLVMValueRef four[4];
        gpu_load_matrices(e, matrix_at(e, p, 1, (int64_t)(j - last) * PIECE_COLUMNS, k), p->o[1].turned, four);
        memcpy(b[j], four + 2 * last, sizeof b[j]);
        if (j + 1 < f->columns)
            memcpy(b[j + 1], four + 2, sizeof b[j]);
    }
    for (int i = 0; i < f->rows; i++) {
        if (p->left)
            memcpy(a, &p->left[2 * (i * p->left_columns + k / PIECE_COLUMNS)], sizeof a);
        else
            gpu_load_matrices(e, matrix_at(e, p, 0, (int64_t)i * f->high * PIECE_ROWS, k), p->o[0].turned, a);
        for (int j = 0; j < f->columns; j++)
            multiply(e, p->unit, a, b[j], &sums[4 * (i * f->columns + j)]);
    }
    tsr_free(b);
}

/*
 * A left operand that is in registers stays there: what a unit leaves of two neighbouring pieces of 8 columns is what it takes for 16 steps, two
 * elements in a word.
 */
static bool take_registers(CpuCode *e, const TileNode *n, Product *p)
{
    TileRef v = n->in[0];
    Fragment f;
    LLVMValueRef *x;
    int registers;

    if (raw_size((DType)tile_type(v)->dtype) != 2 || !gpu_fragment_of(e, tile_type(v), &f) || f.side[0] || !f.columns || f.columns % 2)
        return false;
    if (f.wide != 1 || p->f.wide != 1 || f.high != p->f.high || f.rows != p->f.rows || !takes_all_steps(n) || !gpu_made_of_registers(e, v))
        return false;
    registers = gpu_registers(&f);
    x = arena_array(&e->gpu->arena, LLVMValueRef, registers);
    gpu_fragment_raw(e, v, &f, x);
    for (int i = 0; i < registers; i += 2) {
        LLVMTypeRef two = LLVMVectorType(LLVMTypeOf(x[i]), 2);
        LLVMValueRef word = LLVMBuildInsertElement(e->u->builder, LLVMGetUndef(two), x[i], i32_number(e, 0), "");
        word = LLVMBuildInsertElement(e->u->builder, word, x[i + 1], i32_number(e, 1), "");
        x[i / 2] = LLVMBuildBitCast(e->u->builder, word, i32_type(e), "");
    }
    p->left = x;
    p->left_columns = f.columns;
    return true;
}

/* Is an operand made of nothing that is written while the other one is staged: of no registers, and of no tile that the other may be made of, too? */
static bool is_apart(CpuCode *e, TileRef v)
{
    if (tile_type(v)->kind != TILE_VALUE || tile_type(v)->rank == 0 || cpu_val(e, v)->x)
        return true;
    if (cpu_val(e, v)->fragment || v.node->nuse > 1)
        return false;
    for (int i = 0; i < v.node->nin; i++)
        if (!is_apart(e, v.node->in[i]))
            return false;
    return true;
}

void gpu_matrix(CpuCode *e, const TileNode *n)
{
    Product p = {.unit = unit_of(e, n)};
    bool apart = is_apart(e, n->in[1]);
    int bytes = (int)raw_size((DType)tile_type(n->in[0])->dtype);
    TileRef to = {(TileNode *)n, 0};
    LLVMValueRef *sums;
    int left;                   /* the first operand that lies in memory */
    bool ahead;
    Ring ring;

    gpu_fragment_of(e, &n->type[0], &p.f);
    sums = gpu_fragment_values(e, n->in[2], &p.f);
    left = take_registers(e, n, &p) ? 1 : 0;
    ahead = ring_find(e, n, !left, true, &ring);
    for (int i = left; i < 2; i++) {
        if (ahead && ring.on[i])
            continue;
        p.o[i] = stage(e, n, i);
        e->gpu->staging = i == 0 && apart;
    }
    e->gpu->staging = false;
    if (ahead)
        ring_turn(e, &ring);
    for (int i = left; i < 2; i++)
        if (ahead && ring.on[i]) {
            p.o[i] = ring.o[i];
            p.o[i].at = operand_address(e, ring.now[i]);
        }
    gpu_fence(e);
    p.warp = gpu_warp(e, &p.f);
    for (int i = left; i < 2; i++)
        p.first[i] = bytes == 8 ? first_double(e, &p, i) : first_matrix(e, &p, i);
    for (int k = 0; k < tile_type(n->in[0])->extent[1]; k += PIECE_BYTES / bytes)
        (bytes == 8 ? multiply_doubles : multiply_steps)(e, &p, k, sums);
    gpu_written(e);                             /* others may still read the operands */
    gpu_set_fragment(e, to, sums);
}
