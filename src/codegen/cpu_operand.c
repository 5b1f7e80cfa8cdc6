/*
 * The operands of a dot, and its result.
 *
 * The right operand is read row by row as often as the result has blocks below
 * each other, so it is packed (cpu_keep.c) or has a buffer, unless it lies in
 * one of the group's or few blocks read it.  Of the left one single elements are
 * read, so it stays in memory, transposed or not, unless it is kept.  Where the
 * sums to add to are one elementwise op away, as those of attention are, the op
 * is done on the way into the registers.
 */
#include "codegen/cpu_dot.h"

enum { CHEAP_MAP = 4 };                 /* instructions of an op before the sums */

static bool is_turned(const TileNode *n) { return n->op == TOP_permute && n->type[0].rank == 2 && n->attr->axes[0] == 1; }

/* What holds an operand's elements: of a transposed left one, what it is the transpose of. */
static TileRef source(CpuCode *e, const TileNode *n, int operand, bool *turned)
{
    TileRef v = n->in[operand];

    *turned = operand == 0 && is_turned(v.node) && !cpu_val(e, v)->x;
    return *turned ? v.node->in[0] : v;
}

/* Axes of the view that a load's tile of rank 2 has. */
static void kept_axes(const TileNode *l, int axes[2])
{
    int n = 0;

    for (int i = 0; i < tile_type(l->in[0])->rank && n < 2; i++)
        if (!(l->attr->drop >> i & 1))
            axes[n++] = i;
}

/* Read where it lies: a load for this dot alone. */
static bool is_direct(CpuCode *e, const TileNode *n, int operand)
{
    bool turned;
    TileRef v = source(e, n, operand, &turned);
    const TileNode *l = v.node;
    const TileType *view;
    int axes[2];

    if (operand < 2 && cpu_is_packed(e, n, operand))
        return false;
    if (l->op != TOP_load || l->nuse != 1 || l->block != n->block || cpu_val(e, v)->x || (turned && n->in[0].node->nuse != 1))
        return false;
    view = tile_type(l->in[0]);
    if (!raw_is_lane((DType)view->dtype))
        return false;
    kept_axes(l, axes);
    if (operand == 0)
        return true;
    return view->stride[axes[1]] == 1;
}

bool dot_adds_to_map(CpuCode *e, const TileNode *n)
{
    const TileNode *m = n->in[2].node;

    if (m->op != TOP_map || m->attr->op == OP_convert || m->type[0].rank != 2 || m->nuse != 1 || m->block != n->block || cpu_val(e, n->in[2])->x)
        return false;
    return formula_cost((OpId)m->attr->op, tile_map_dtype((OpId)m->attr->op, m->in)) <= CHEAP_MAP;
}

void dot_need_operands(CpuCode *e, const TileNode *n)
{
    bool turned;

    for (int i = 0; i < 2; i++)
        if (!is_direct(e, n, i) && !cpu_is_packed(e, n, i))
            cpu_need(e, source(e, n, i, &turned));
}

void cpu_dot_settle(CpuCode *e, const TileNode *n)
{
    if (!cpu_units_settle(e, n))
        dot_need_operands(e, n);
    if (cpu_unit_begins(e, n))
        ;
    else if (!dot_adds_to_map(e, n))
        cpu_need(e, n->in[2]);
    else
        for (int i = 0; i < n->in[2].node->nin; i++) {
            TileRef v = n->in[2].node->in[i];
            cpu_need(e, v);
            e->seen[v.node->id]++;
        }
    cpu_close(e);
}

/* The load that an operand is, and the axis of its view that is the depth; NULL: it is none, or has other things than zeros behind its end. */
static const TileNode *depth_of(const TileNode *n, int operand, int *axis)
{
    bool turned = is_turned(n->in[operand].node);
    const TileNode *l = turned ? n->in[operand].node->in[0].node : n->in[operand].node;
    int axes[2];

    if (l->op != TOP_load || l->block != n->block || !tile_fills_zeros(l) || l->type[0].rank != 2 || dtype_is_complex((DType)l->type[0].dtype))
        return NULL;
    kept_axes(l, axes);
    *axis = axes[(operand == 0) != turned];
    return l;
}

LLVMValueRef dot_steps(CpuCode *e, const TileNode *n, LLVMValueRef *all)
{
    LLVMTypeRef i64 = LLVMInt64TypeInContext(e->u->context);
    LLVMValueRef room = cpu_number(e, 0);
    const TileNode *l;
    int axis;

    *all = cpu_smaller(e, cpu_val(e, n->in[3])->x, cpu_number(e, tile_type(n->in[0])->extent[1]));
    for (int i = 0; i < 2; i++) {
        l = depth_of(n, i, &axis);
        if (!l)
            return *all;
        room = cpu_intrinsic(e, "llvm.smax", &i64, 1, (LLVMValueRef[]){room, cpu_room(e, l, axis)}, 2);
    }
    return cpu_smaller(e, *all, room);
}

/* ---- places ---- */

static Matrix of_buffer(CpuCode *e, TileRef v)
{
    return (Matrix){cpu_val(e, v)->x, cpu_number(e, tile_type(v)->extent[1]), cpu_number(e, 1)};
}

static Matrix of_view(CpuCode *e, const TileNode *l)
{
    const Val *v = cpu_val(e, l->in[0]);
    LLVMTypeRef element = LLVMArrayType2(LLVMInt8TypeInContext(e->u->context), raw_size((DType)l->type[0].dtype));
    LLVMValueRef at = cpu_number(e, 0);
    int axes[2];

    for (int i = 0; i < tile_type(l->in[0])->rank; i++)
        at = cpu_op(e, LLVMAdd, at, cpu_op(e, LLVMMul, cpu_val(e, l->in[1 + i])->x, v->stride[i]));
    kept_axes(l, axes);
    return (Matrix){LLVMBuildGEP2(e->u->builder, element, v->x, &at, 1, ""), v->stride[axes[0]], v->stride[axes[1]]};
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

/* Does what a dot's steps read of a load lie in its view? */
static LLVMValueRef lies_in_view(CpuCode *e, const TileNode *n, int operand, const TileNode *load, LLVMValueRef steps)
{
    int axis;

    if (depth_of(n, operand, &axis) != load)
        return cpu_fits(e, load, -1, NULL, NULL);
    return cpu_fits(e, load, axis, NULL, cpu_compare(e, LLVMIntSLE, steps, cpu_room(e, load, axis)));
}

/* In its view, or at the view's edge in a buffer with what stands for elements outside. */
static Matrix of_load(CpuCode *e, const TileNode *n, int operand, TileRef v, LLVMValueRef steps)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMBasicBlockRef inside = cpu_block(e), outside = cpu_block(e), done = cpu_block(e), end;
    Matrix x, y;

    LLVMBuildCondBr(b, lies_in_view(e, n, operand, v.node, steps), inside, outside);
    LLVMPositionBuilderAtEnd(b, inside);
    x = of_view(e, v.node);
    LLVMBuildBr(b, done);
    LLVMPositionBuilderAtEnd(b, outside);
    cpu_buffered(e, v.node, NULL, 0);
    y = of_buffer(e, v);
    end = LLVMGetInsertBlock(b);
    LLVMBuildBr(b, done);
    LLVMPositionBuilderAtEnd(b, done);
    return (Matrix){either(e, x.base, inside, y.base, end), either(e, x.down, inside, y.down, end), either(e, x.across, inside, y.across, end)};
}

Matrix dot_operand(CpuCode *e, const TileNode *n, int i, LLVMValueRef steps)
{
    bool turned;
    TileRef v = source(e, n, i, &turned);
    Matrix m;

    if (i == 0 && cpu_is_packed(e, n, 0))
        return (Matrix){cpu_packed(e, n, 0), cpu_number(e, cpu_panel(e, n, 0)), cpu_number(e, 1)};
    if (i == 1 && cpu_is_packed(e, n, 1))
        return (Matrix){cpu_packed(e, n, 1), cpu_number(e, cpu_panel(e, n, 1)), cpu_number(e, tile_type(v)->extent[0])};
    m = is_direct(e, n, i) ? of_load(e, n, i, v, steps) : of_buffer(e, v);
    return turned ? (Matrix){m.base, m.across, m.down} : m;
}

/* ---- the result ---- */

/* The parameter of the loop around it that becomes the result in the next round, if the result has no other user. NULL: none. */
static const TileNode *next_round(const TileNode *n)
{
    const TileBlock *b = n->block;

    if (!b->owner || b->owner->op != TOP_for || n->nuse != 1)
        return NULL;
    for (int i = 0; i < b->yields.n; i++)
        if (b->yields.at[i].node == n)
            return b->params.at[1 + i];
    return NULL;
}

LLVMValueRef dot_result(CpuCode *e, const TileNode *n)
{
    TileRef acc = n->in[2];
    const TileNode *next = next_round(n);
    bool alone = acc.node->nuse == 1 && acc.node->block == n->block;

    if (alone && cpu_val(e, acc)->x && (acc.node->op == TOP_map || acc.node->op == TOP_dot || acc.node == next))
        return cpu_val(e, acc)->x;
    if (next && next->nuse == 1 && dot_adds_to_map(e, n))
        for (int i = 0; i < acc.node->nin; i++)
            if (acc.node->in[i].node == next)
                return cpu_val(e, acc.node->in[i])->x;
    return cpu_buffer(e, cpu_tile_bytes(&n->type[0]));
}
