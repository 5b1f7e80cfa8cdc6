/*
 * Products by matrix units (mma): operands of 16 or 8 bits, sums in registers (gpu_fragment.c).
 *
 * Both operands are put into shared memory as they are, rows of 16-byte pieces with one piece between rows, so that the eight rows of a
 * matrix that ldmatrix takes lie in different banks; a transposed tile lies as what it was transposed from, and ldmatrix turns it.
 * A unit sums more than one step at once and rounds as it likes: such a product is not the one of semantics 9.3,
 * but the same in every run.
 */
#include "codegen/gpu_impl.h"

#include "base/alloc.h"

#include <string.h>

enum { PIECE_ROWS = 16, PIECE_COLUMNS = 8, PIECE_BYTES = 32, GAP_BYTES = 16 };

typedef struct Unit { DType in, out; const char *name; bool newer; } Unit;      /* newer: not of sm_80 */
static const Unit units[] = {
    {DT_bf16, DT_f32, "m16n8k16.row.col.f32.bf16.bf16.f32", false},
    {DT_f16, DT_f32, "m16n8k16.row.col.f32.f16.f16.f32", false},
    {DT_int8, DT_int32, "m16n8k32.row.col.s32.s8.s8.s32", false},
    {DT_uint8, DT_int32, "m16n8k32.row.col.s32.u8.u8.s32", false},
    {DT_fp8_e4m3, DT_f32, "m16n8k32.row.col.f32.e4m3.e4m3.f32", true},
    {DT_fp8_e5m2, DT_f32, "m16n8k32.row.col.f32.e5m2.e5m2.f32", true},
};
enum { UNITS = sizeof units / sizeof *units };

static LLVMTypeRef i32_type(CpuCode *e) { return LLVMInt32TypeInContext(e->u->context); }
static LLVMValueRef i32_number(CpuCode *e, int64_t v) { return LLVMConstInt(i32_type(e), (uint64_t)v, true); }

static const Unit *unit_of(const CpuCode *e, const TileNode *n)
{
    const TileType *a = tile_type(n->in[0]), *b = tile_type(n->in[1]);

    for (int i = 0; i < UNITS; i++)
        if (units[i].in == a->dtype && a->dtype == b->dtype && units[i].out == n->type[0].dtype &&
            (!units[i].newer || strcmp(e->u->machine->cpu, "sm_80")))
            return &units[i];
    return NULL;
}

bool gpu_is_matrix(const CpuCode *e, const TileNode *n)
{
    const TileType *a = tile_type(n->in[0]);
    Fragment f;

    return unit_of(e, n) && gpu_fragment_of(e, &n->type[0], &f) && a->extent[1] * (int)raw_size((DType)a->dtype) % PIECE_BYTES == 0;
}

/* ---- operands in shared memory ---- */

typedef struct Operand {
    Stage stage;
    int bytes;                  /* of an element */
    bool turned;                /* ldmatrix is to turn it */
    LLVMValueRef at;            /* its address in shared memory, an i32 */
} Operand;

static bool is_turned(TileRef v) { return v.node->op == TOP_permute && v.node->attr->axes[0] == 1; }

/* Rows of the operand are those of the sums for the left one; of the right one its columns are. */
static Operand stage(CpuCode *e, const TileNode *n, int operand)
{
    TileRef v = n->in[operand];
    Operand o = {.bytes = (int)raw_size((DType)tile_type(v)->dtype)};
    bool by_steps = operand == 0, from = is_turned(v) && !cpu_val(e, v)->x;     /* do its rows lie along the steps? what the tile was turned from */
    LLVMValueRef to;
    int rows;

    if (from) {
        v = v.node->in[0];
        by_steps = !by_steps;
    }
    o.stage.axis = operand == 0 ? !from : from;
    if (!by_steps && o.bytes == 1)
        o.stage.turned = by_steps = true;       /* ldmatrix turns pairs of bytes */
    o.turned = !by_steps;
    rows = tile_type(v)->extent[o.stage.turned];
    o.stage.pitch = tile_type(v)->extent[!o.stage.turned] + GAP_BYTES / o.bytes;
    if (!LLVMIsAConstantInt(cpu_val(e, n->in[3])->x) ||
        LLVMConstIntGetSExtValue(cpu_val(e, n->in[3])->x) < tile_type(n->in[0])->extent[1])
        o.stage.steps = cpu_val(e, n->in[3])->x;
    to = cpu_buffer(e, (int64_t)rows * o.stage.pitch * o.bytes);
    cpu_stage(e, v, &o.stage, to);
    to = LLVMBuildAddrSpaceCast(e->u->builder, to, LLVMPointerTypeInContext(e->u->context, 3), "");
    o.at = LLVMBuildPtrToInt(e->u->builder, to, i32_type(e), "");
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
    LLVMValueRef raw = cut(e, s->stage, cpu_raw(e, s->v, &e->spot)), *at = e->spot.at, place, x;
    LLVMTypeRef element = LLVMIntTypeInContext(e->u->context, 8 * (unsigned)raw_size(dt));
    bool turned = s->stage->turned;

    place = cpu_op(e, LLVMAdd, cpu_op(e, LLVMMul, at[turned], cpu_number(e, s->stage->pitch)), at[!turned]);
    place = LLVMBuildGEP2(e->u->builder, element, s->buffer, &place, 1, "");
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

/* ---- instructions ---- */

static LLVMValueRef assembly(CpuCode *e, LLVMTypeRef result, const char *text, const char *constraints, LLVMValueRef *in, int n, bool effects)
{
    LLVMTypeRef types[16], type;
    LLVMValueRef code, call;
    LLVMAttributeRef convergent;

    for (int i = 0; i < n; i++)
        types[i] = LLVMTypeOf(in[i]);
    type = LLVMFunctionType(result, types, (unsigned)n, false);
    code = LLVMGetInlineAsm(type, text, strlen(text), constraints, strlen(constraints), effects, false, LLVMInlineAsmDialectATT, false);
    call = LLVMBuildCall2(e->u->builder, type, code, in, (unsigned)n, "");
    convergent = LLVMCreateEnumAttribute(e->u->context, LLVMGetEnumAttributeKindForName("convergent", 10), 0);
    LLVMAddCallSiteAttribute(call, LLVMAttributeFunctionIndex, convergent);
    return call;
}

/* Four matrices of 8 rows of 16 bytes: each lane gives the address of a row. */
static void load_matrices(CpuCode *e, LLVMValueRef at, bool turned, LLVMValueRef *out)
{
    LLVMTypeRef word = i32_type(e), four = LLVMStructTypeInContext(e->u->context, (LLVMTypeRef[]){word, word, word, word}, 4, false);
    const char *text = turned ? "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {$0,$1,$2,$3}, [$4];"
                              : "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {$0,$1,$2,$3}, [$4];";
    LLVMValueRef all = assembly(e, four, text, "=r,=r,=r,=r,r,~{memory}", &at, 1, true);

    for (unsigned i = 0; i < 4; i++)
        out[i] = LLVMBuildExtractValue(e->u->builder, all, i, "");
}

static void multiply(CpuCode *e, const Unit *unit, const LLVMValueRef *a, const LLVMValueRef *b, LLVMValueRef *sum)
{
    LLVMTypeRef t = LLVMTypeOf(sum[0]), four = LLVMStructTypeInContext(e->u->context, (LLVMTypeRef[]){t, t, t, t}, 4, false);
    LLVMValueRef in[10] = {a[0], a[1], a[2], a[3], b[0], b[1], sum[0], sum[1], sum[2], sum[3]}, all;
    bool real = unit->out == DT_f32;
    StrBuf text = {0};

    sb_printf(&text, "mma.sync.aligned.%s {$0,$1,$2,$3}, {$4,$5,$6,$7}, {$8,$9}, {$10,$11,$12,$13};", unit->name);
    all = assembly(e, four, sb_str(&text), real ? "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f" : "=r,=r,=r,=r,r,r,r,r,r,r,r,r,r,r", in, 10, false);
    for (unsigned i = 0; i < 4; i++)
        sum[i] = LLVMBuildExtractValue(e->u->builder, all, i, "");
    sb_done(&text);
}

/* ---- a product ---- */

typedef struct Product {
    const Unit *unit;
    Fragment f;
    Operand o[2];
    LLVMValueRef lane, high, wide;
} Product;

static void find_warp(CpuCode *e, Product *p)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMValueRef warp = LLVMBuildUDiv(b, e->gpu->thread, i32_number(e, GPU_WARP), "");

    p->lane = LLVMBuildURem(b, e->gpu->thread, i32_number(e, GPU_WARP), "");
    p->high = LLVMBuildURem(b, warp, i32_number(e, p->f.high), "");
    p->wide = LLVMBuildURem(b, LLVMBuildUDiv(b, warp, i32_number(e, p->f.high), ""), i32_number(e, p->f.wide), "");
}

static LLVMValueRef added(CpuCode *e, LLVMValueRef x, LLVMValueRef y, int64_t by)
{
    return LLVMBuildAdd(e->u->builder, x, LLVMBuildMul(e->u->builder, y, i32_number(e, by), ""), "");
}

/* Bit k of the lane's number. */
static LLVMValueRef bit(CpuCode *e, const Product *p, int k)
{
    return LLVMBuildAnd(e->u->builder, LLVMBuildLShr(e->u->builder, p->lane, i32_number(e, k), ""), i32_number(e, 1), "");
}

/*
 * The address of this lane's row of four matrices: those of 16 rows of an operand (of the sums' rows or columns, from `row` on) and of the
 * 32 bytes of steps from step `k` on.  Rows come first where they are the left operand's, steps where they are the right one's.
 */
static LLVMValueRef matrix_at(CpuCode *e, const Product *p, int operand, LLVMValueRef row, int k)
{
    const Operand *o = &p->o[operand];
    LLVMValueRef in_eight = LLVMBuildAnd(e->u->builder, p->lane, i32_number(e, 7), ""), rows = bit(e, p, operand ? 4 : 3), steps = bit(e, p, operand ? 3 : 4);
    int half = PIECE_BYTES / 2 / o->bytes;
    LLVMValueRef r = added(e, row, rows, 8), s = added(e, i32_number(e, k), steps, half), at;

    if (o->turned)
        s = LLVMBuildAdd(e->u->builder, s, in_eight, "");
    else
        r = LLVMBuildAdd(e->u->builder, r, in_eight, "");
    at = o->turned ? added(e, r, s, o->stage.pitch) : added(e, s, r, o->stage.pitch);
    return added(e, o->at, at, o->bytes);
}

static void multiply_steps(CpuCode *e, const Product *p, int k, LLVMValueRef *sums)
{
    const Fragment *f = &p->f;
    LLVMValueRef a[4], (*b)[2] = tsr_calloc(sizeof *b * (size_t)(f->columns + 1)), first = LLVMBuildMul(e->u->builder, p->wide, i32_number(e, f->columns * PIECE_COLUMNS), "");

    for (int j = 0; j < f->columns; j += 2) {
        LLVMValueRef four[4], row = LLVMBuildAdd(e->u->builder, first, i32_number(e, (int64_t)(j + 1 < f->columns ? j : j - (f->columns > 1)) * PIECE_COLUMNS), "");
        load_matrices(e, matrix_at(e, p, 1, row, k), p->o[1].turned, four);
        bool last = j + 1 == f->columns && f->columns > 1;     /* an odd one comes with the one before it */
        memcpy(b[j], four + 2 * last, sizeof b[j]);
        if (j + 1 < f->columns)
            memcpy(b[j + 1], four + 2, sizeof b[j]);
    }
    for (int i = 0; i < f->rows; i++) {
        LLVMValueRef row = added(e, i32_number(e, (int64_t)i * f->high * PIECE_ROWS), p->high, PIECE_ROWS);
        load_matrices(e, matrix_at(e, p, 0, row, k), p->o[0].turned, a);
        for (int j = 0; j < f->columns; j++)
            multiply(e, p->unit, a, b[j], &sums[4 * (i * f->columns + j)]);
    }
    tsr_free(b);
}

void gpu_matrix(CpuCode *e, const TileNode *n)
{
    Product p = {.unit = unit_of(e, n)};
    int bytes = (int)raw_size((DType)tile_type(n->in[0])->dtype);
    TileRef to = {(TileNode *)n, 0};
    LLVMValueRef *sums;

    gpu_fragment_of(e, &n->type[0], &p.f);
    sums = gpu_fragment_values(e, n->in[2], &p.f);
    for (int i = 0; i < 2; i++) {
        p.o[i] = stage(e, n, i);
        e->gpu->staging = i == 0;
    }
    gpu_fence(e);
    find_warp(e, &p);
    for (int k = 0; k < tile_type(n->in[0])->extent[1]; k += PIECE_BYTES / bytes)
        multiply_steps(e, &p, k, sums);
    gpu_written(e);                             /* others may still read the operands */
    gpu_set_fragment(e, to, sums);
}
