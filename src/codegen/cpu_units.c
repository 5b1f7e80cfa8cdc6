/*
 * Products of kernels on the matrix units of x86, where their numerics are fast.
 *
 * Operands are packed by the runtime (runtime/unit_dot.h) as sums of bf16: one of numbers of so few bits, two of tf32 and f16, three of f32.
 * A load for the product alone is packed from where it lies.  What a loop takes from outside is packed before it; right operands that groups
 * share are kept for the next group (cpu_keep.c).  When a number has no such parts, or the machine no such unit, all is refused, and the code
 * of cpu_dot.c computes the block.
 *
 *     refused = pack a | pack b            by code = the blocks of cpu_dot.c
 *     by units: sums of a b                both go on at the same place
 */
#include "codegen/cpu_dot.h"

#include "runtime/called.h"
#include "runtime/unit_dot.h"

enum { LEAST = 32, SLOT_TAIL = 64 };    /* rows, columns, steps of what pays; bytes behind a kept operand, where it is said whether it was refused */

/* An operand's numbers: of a tile in a buffer, or of a load that lies in memory; turned: lines are its columns. */
typedef struct Numbers {
    TileRef v;
    bool turned, lies;
} Numbers;

static LLVMTypeRef i64_type(CpuCode *e) { return LLVMInt64TypeInContext(e->u->context); }
static LLVMTypeRef pointer_type(CpuCode *e) { return LLVMPointerTypeInContext(e->u->context, 0); }

/* ---- which products ---- */

static int parts_of(DType dt)
{
    if (dt == DT_bf16 || dtype_holds(DT_bf16, dt))
        return 1;
    if (dt == DT_tf32 || dtype_holds(DT_tf32, dt))
        return 2;
    return dt == DT_f32 ? 3 : 0;
}

int cpu_unit_parts(const CpuCode *e, const TileNode *n)
{
    const TileType *a = tile_type(n->in[0]), *b = tile_type(n->in[1]);
    int x = parts_of((DType)a->dtype), y = parts_of((DType)b->dtype);

    if (!n->attr->fast || e->gpu || e->lanes || e->u->machine->vector_bytes != 64 || n->type[0].dtype != DT_f32 || !x || !y)
        return 0;
    if (a->extent[0] < LEAST || a->extent[1] < LEAST || b->extent[1] < LEAST)
        return 0;
    return x > y ? x : y;
}

/* ---- operands ---- */

static bool is_turned(const TileNode *n) { return n->op == TOP_permute && n->type[0].rank == 2 && n->attr->axes[0] == 1; }

/* What a product alone takes, and is not there yet. */
static bool is_own(CpuCode *e, const TileNode *dot, TileRef v) { return v.node->nuse == 1 && v.node->block == dot->block && !cpu_val(e, v)->x; }

static bool lies(CpuCode *e, const TileNode *dot, TileRef v)
{
    const TileNode *n = v.node;
    DType dt = (DType)n->type[0].dtype;

    return n->op == TOP_load && is_own(e, dot, v) && n->type[0].rank == 2 && tile_fills_zeros(n) && (dt == DT_f32 || dt == DT_bf16);
}

static Numbers numbers_of(CpuCode *e, const TileNode *dot, int operand)
{
    Numbers s = {.v = dot->in[operand]};

    if (tile_converts_plainly(s.v.node) && tile_type(s.v.node->in[0])->dtype == DT_f32 &&
        (s.v.node->type[0].dtype == DT_bf16 || s.v.node->type[0].dtype == DT_tf32) && is_own(e, dot, s.v))
        s.v = s.v.node->in[0];          /* what is packed is rounded as fine */
    if (is_turned(s.v.node) && is_own(e, dot, s.v)) {
        s.v = s.v.node->in[0];
        s.turned = true;
    }
    s.lies = lies(e, dot, s.v);
    s.turned ^= operand == 1;           /* lines of a right operand are its columns */
    return s;
}

static bool is_nothing(const TileNode *acc)
{
    const TileNode *x = acc->op == TOP_splat ? acc->in[0].node : acc;

    return x->op == TOP_const && x->attr->f == 0 && x->attr->i == 0;
}

bool cpu_units_settle(CpuCode *e, const TileNode *dot)
{
    if (!cpu_unit_parts(e, dot))
        return false;
    for (int i = 0; i < 2; i++) {
        Numbers s = numbers_of(e, dot, i);
        if (!s.lies)
            cpu_need(e, s.v);
    }
    return true;
}

bool cpu_unit_begins(CpuCode *e, const TileNode *dot) { return cpu_unit_parts(e, dot) && is_nothing(dot->in[2].node); }

/* ---- packing ---- */

static LLVMValueRef call(CpuCode *e, const char *name, bool gives, LLVMValueRef *in, unsigned n)
{
    LLVMTypeRef of[9];
    LLVMValueRef fn = LLVMGetNamedFunction(e->u->module, name);
    LLVMTypeRef type;

    for (unsigned i = 0; i < n; i++)
        of[i] = LLVMTypeOf(in[i]);
    type = LLVMFunctionType(gives ? i64_type(e) : LLVMVoidTypeInContext(e->u->context), of, n, false);
    called_offer();
    return LLVMBuildCall2(e->u->builder, type, fn ? fn : LLVMAddFunction(e->u->module, name, type), in, n, "");
}

/* Lines and steps of an operand, all that there may be. */
static void extents(const TileNode *dot, int operand, int64_t *lines, int64_t *steps)
{
    *lines = operand ? tile_type(dot->in[1])->extent[1] : tile_type(dot->in[0])->extent[0];
    *steps = tile_type(dot->in[0])->extent[1];
}

static int64_t packed_bytes(const CpuCode *e, const TileNode *dot, int operand)
{
    int64_t lines, steps;

    extents(dot, operand, &lines, &steps);
    return unit_bytes(cpu_unit_parts(e, dot), lines, steps);
}

static LLVMValueRef pack(CpuCode *e, const TileNode *dot, int operand, bool halves, const LLVMValueRef at[5], LLVMValueRef to)
{
    int64_t lines, steps, how = cpu_unit_parts(e, dot) | (halves ? UNIT_HALVES : 0) | (operand ? 0 : UNIT_LEFT);

    extents(dot, operand, &lines, &steps);
    return call(e, "tsr_unit_pack", true, (LLVMValueRef[]){cpu_number(e, how), at[0], at[1], at[2], at[3], at[4], cpu_number(e, lines),
                                                           cpu_number(e, steps), to}, 9);
}

static LLVMValueRef pack_buffer(CpuCode *e, const TileNode *dot, int operand, const Numbers *s, LLVMValueRef steps, LLVMValueRef to)
{
    LLVMValueRef row = cpu_number(e, tile_type(s->v)->extent[1]), one = cpu_number(e, 1), line = s->turned ? one : row, step = s->turned ? row : one;
    int64_t lines, all;

    extents(dot, operand, &lines, &all);
    return pack(e, dot, operand, false, (LLVMValueRef[]){cpu_val(e, s->v)->x, line, step, cpu_number(e, lines), steps}, to);
}

/* Does the block of a load begin in its view, and are the places of the axes that it has not in it, too? */
static LLVMValueRef begins_inside(CpuCode *e, const TileNode *l)
{
    LLVMValueRef ok = LLVMConstInt(LLVMInt1TypeInContext(e->u->context), 1, false);

    for (int i = 0; i < tile_type(l->in[0])->rank; i++) {
        LLVMValueRef at = cpu_val(e, l->in[1 + i])->x, extent = cpu_val(e, l->in[0])->extent[i];
        ok = LLVMBuildAnd(e->u->builder, ok, cpu_compare(e, LLVMIntSGE, at, cpu_number(e, 0)), "");
        if (l->attr->drop >> i & 1)
            ok = LLVMBuildAnd(e->u->builder, ok, cpu_compare(e, LLVMIntSLT, at, extent), "");
    }
    return ok;
}

static LLVMValueRef pack_view(CpuCode *e, const TileNode *dot, int operand, const Numbers *s, LLVMValueRef steps, LLVMValueRef to)
{
    const TileNode *l = s->v.node;
    const Val *v = cpu_val(e, l->in[0]);
    DType dt = (DType)tile_type(l->in[0])->dtype;
    LLVMTypeRef element = LLVMArrayType2(LLVMInt8TypeInContext(e->u->context), raw_size(dt));
    LLVMValueRef at = cpu_number(e, 0), zero = cpu_number(e, 0), room[2], odd, p;
    LLVMBasicBlockRef from = LLVMGetInsertBlock(e->u->builder), inside = cpu_block(e), done = cpu_block(e);
    LLVMTypeRef i64 = i64_type(e);
    int axes[2], n = 0;

    for (int i = 0; i < tile_type(l->in[0])->rank; i++) {
        at = cpu_op(e, LLVMAdd, at, cpu_op(e, LLVMMul, cpu_val(e, l->in[1 + i])->x, v->stride[i]));
        if (!(l->attr->drop >> i & 1) && n < 2)
            axes[n++] = i;
    }
    for (int i = 0; i < 2; i++)
        room[i] = cpu_intrinsic(e, "llvm.smax", &i64, 1, (LLVMValueRef[]){cpu_room(e, l, axes[i != s->turned]), zero}, 2);
    LLVMBuildCondBr(e->u->builder, begins_inside(e, l), inside, done);
    from = LLVMGetInsertBlock(e->u->builder);
    LLVMPositionBuilderAtEnd(e->u->builder, inside);
    p = LLVMBuildGEP2(e->u->builder, element, v->x, &at, 1, "");
    odd = pack(e, dot, operand, dt == DT_bf16, (LLVMValueRef[]){p, v->stride[axes[s->turned]], v->stride[axes[!s->turned]], room[0],
                                                                cpu_smaller(e, room[1], steps)}, to);
    LLVMBuildBr(e->u->builder, done);
    LLVMPositionBuilderAtEnd(e->u->builder, done);
    p = LLVMBuildPhi(e->u->builder, i64, "");
    LLVMAddIncoming(p, (LLVMValueRef[]){cpu_number(e, 1), odd}, (LLVMBasicBlockRef[]){from, inside}, 2);
    return p;
}

static bool takes_all_steps(const TileNode *dot)
{
    return dot->in[3].node->op == TOP_index && dot->in[3].node->attr->i >= tile_type(dot->in[0])->extent[1];
}

static LLVMValueRef steps_of(CpuCode *e, const TileNode *dot)
{
    LLVMValueRef all = cpu_number(e, tile_type(dot->in[0])->extent[1]);

    return takes_all_steps(dot) ? all : cpu_smaller(e, cpu_val(e, dot->in[3])->x, all);
}

static LLVMValueRef pack_operand(CpuCode *e, const TileNode *dot, int operand, const Numbers *s, LLVMValueRef to)
{
    return (s->lies ? pack_view : pack_buffer)(e, dot, operand, s, steps_of(e, dot), to);
}

/* ---- packed once for many ---- */

const TileNode *cpu_unit_keeps(CpuCode *e, const TileNode *dot, int64_t *bytes)
{
    Numbers s = numbers_of(e, dot, 1);

    *bytes = packed_bytes(e, dot, 1) + SLOT_TAIL;
    return s.lies && takes_all_steps(dot) ? s.v.node : NULL;
}

LLVMValueRef cpu_unit_fill(CpuCode *e, const TileNode *dot, LLVMValueRef to)
{
    Numbers s = numbers_of(e, dot, 1);
    LLVMValueRef odd = pack_operand(e, dot, 1, &s, to), tail = cpu_number(e, packed_bytes(e, dot, 1));

    return LLVMBuildStore(e->u->builder, odd, LLVMBuildGEP2(e->u->builder, LLVMInt8TypeInContext(e->u->context), to, &tail, 1, ""));
}

static UnitPacked *find_ahead(CpuCode *e, const TileNode *dot, int operand, const Numbers *s)
{
    for (int i = 0; i < e->ahead.n; i++) {
        UnitPacked *p = &e->ahead.at[i];
        if (cpu_same(p->v, s->v) && p->operand == operand && p->turned == s->turned && p->parts == cpu_unit_parts(e, dot))
            return p;
    }
    return NULL;
}

static UnitPacked packed(CpuCode *e, const TileNode *dot, int operand)
{
    Numbers s = numbers_of(e, dot, operand);
    UnitPacked p = {.v = s.v, .operand = operand, .turned = s.turned, .parts = cpu_unit_parts(e, dot)}, *ahead = find_ahead(e, dot, operand, &s);
    LLVMValueRef tail = cpu_number(e, packed_bytes(e, dot, operand));

    if (ahead)
        return *ahead;
    if (operand == 1 && (p.at = cpu_unit_kept(e, dot, s.v.node))) {
        p.odd = LLVMBuildGEP2(e->u->builder, LLVMInt8TypeInContext(e->u->context), p.at, &tail, 1, "");
        p.odd = LLVMBuildLoad2(e->u->builder, i64_type(e), p.odd, "");
        return p;
    }
    p.at = cpu_buffer(e, packed_bytes(e, dot, operand));
    p.odd = pack_operand(e, dot, operand, &s, p.at);
    return p;
}

static void ahead_of(CpuCode *e, const TileNode *loop, const TileBlock *b)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        for (int i = 0; i < 2 && n->op == TOP_dot && cpu_unit_parts(e, n); i++) {
            Numbers s = numbers_of(e, n, i);
            if (e->visited[s.v.node->id] && cpu_val(e, s.v)->x && takes_all_steps(n) && !find_ahead(e, n, i, &s)) {
                UnitPacked p = packed(e, n, i);
                vec_push(&e->ahead, p);
            }
        }
        for (int r = 0; r < 2; r++)
            if (n->region[r])
                ahead_of(e, loop, n->region[r]);
    }
}

int cpu_units_ahead(CpuCode *e, const TileNode *loop)
{
    int before = e->ahead.n;

    if (!e->gpu && !e->lanes)
        ahead_of(e, loop, loop->region[0]);
    return before;
}

/* ---- the product ---- */

LLVMBasicBlockRef cpu_unit_dot(CpuCode *e, const TileNode *dot, bool acc_is_map, LLVMValueRef out)
{
    const TileType *t = &dot->type[0];
    UnitPacked a = packed(e, dot, 0), b = packed(e, dot, 1);
    LLVMValueRef refused = LLVMBuildOr(e->u->builder, a.odd, b.odd, ""), from = LLVMConstNull(pointer_type(e));
    LLVMBasicBlockRef by_units = cpu_block(e), by_code = cpu_block(e), done = cpu_block(e);

    LLVMBuildCondBr(e->u->builder, cpu_compare(e, LLVMIntEQ, refused, cpu_number(e, 0)), by_units, by_code);
    LLVMPositionBuilderAtEnd(e->u->builder, by_units);
    if (acc_is_map) {
        cpu_buffered(e, dot->in[2].node, out, 0);
        cpu_val(e, dot->in[2])->x = NULL;               /* code has it in registers */
    }
    if (!is_nothing(dot->in[2].node))
        from = acc_is_map ? out : cpu_val(e, dot->in[2])->x;
    call(e, "tsr_unit_dot", false, (LLVMValueRef[]){cpu_number(e, a.parts), cpu_number(e, t->extent[0]), cpu_number(e, t->extent[1]),
                                                    cpu_number(e, tile_type(dot->in[0])->extent[1]), a.at, b.at, from, out}, 8);
    LLVMBuildBr(e->u->builder, done);
    LLVMPositionBuilderAtEnd(e->u->builder, by_code);
    dot_need_operands(e, dot);
    cpu_close(e);
    return done;
}
