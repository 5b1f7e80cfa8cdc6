/*
 * Code for CPUs from kernels of the Tile IR: the frame of a kernel, indices and
 * views, blocks and control.
 *
 * A group is a round of a loop around the kernel's body.  Indices, scalars and
 * the parts of views are values of LLVM, and phis where a loop carries them;
 * tiles are vectors for as long as nobody needs them whole (cpu_walk.c), and
 * arrays of lanes in the group's memory when somebody does.  A group has one
 * lane here, so barriers are nothing, and an asynchronous copy is a copy.
 */
#include "codegen/cpu_lane.h"
#include "codegen/gpu_impl.h"

#include "base/alloc.h"

#include "runtime/called.h"

#include <stdarg.h>

enum { STACK_MAX = 8 << 10, NODES_MAX = 16000, ALIGN = 64 };

/* ---- small things ---- */

bool cpu_refuse(CpuCode *e, const char *fmt, ...)
{
    va_list ap;

    if (!e->failed) {
        va_start(ap, fmt);
        sb_vprintf(e->err, fmt, ap);
        va_end(ap);
    }
    e->failed = true;
    return false;
}

Val *cpu_val(CpuCode *e, TileRef v) { return &e->val[e->first[v.node->id] + (uint32_t)v.index]; }

static LLVMTypeRef byte_type(CpuCode *e) { return LLVMInt8TypeInContext(e->u->context); }
static LLVMTypeRef pointer_type(CpuCode *e) { return LLVMPointerTypeInContext(e->u->context, 0); }

LLVMValueRef cpu_number(CpuCode *e, int64_t v) { return LLVMConstInt(i64_type(e), (uint64_t)v, true); }

static bool is_number(LLVMValueRef x, int64_t v) { return LLVMIsAConstantInt(x) && LLVMConstIntGetSExtValue(x) == v; }

LLVMValueRef cpu_op(CpuCode *e, LLVMOpcode op, LLVMValueRef a, LLVMValueRef b)
{
    if ((op == LLVMAdd && is_number(a, 0)) || (op == LLVMMul && is_number(a, 1)))
        return b;
    if (((op == LLVMAdd || op == LLVMSub) && is_number(b, 0)) || (op == LLVMMul && is_number(b, 1)))
        return a;
    if (op == LLVMMul && (is_number(a, 0) || is_number(b, 0)))
        return cpu_number(e, 0);
    return LLVMBuildBinOp(e->u->builder, op, a, b, "");
}

LLVMValueRef cpu_compare(CpuCode *e, LLVMIntPredicate p, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildICmp(e->u->builder, p, a, b, ""); }
LLVMValueRef cpu_smaller(CpuCode *e, LLVMValueRef a, LLVMValueRef b)
{
    LLVMTypeRef t = i64_type(e);

    return cpu_intrinsic(e, "llvm.smin", &t, 1, (LLVMValueRef[]){a, b}, 2);
}

LLVMValueRef cpu_choose(CpuCode *e, LLVMValueRef c, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildSelect(e->u->builder, c, a, b, ""); }

LLVMValueRef cpu_intrinsic(CpuCode *e, const char *name, const LLVMTypeRef *over, int nover, LLVMValueRef *in, int n)
{
    return llvm_intrinsic(e->u, name, over, nover, in, n);
}

LLVMBasicBlockRef cpu_block(CpuCode *e) { return LLVMAppendBasicBlockInContext(e->u->context, e->fn, ""); }

static LLVMValueRef offset(CpuCode *e, LLVMValueRef base, LLVMValueRef bytes)
{
    return LLVMBuildGEP2(e->u->builder, byte_type(e), base, &bytes, 1, "");
}

static LLVMValueRef word_at(CpuCode *e, LLVMTypeRef type, LLVMValueRef base, int64_t bytes)
{
    return LLVMBuildLoad2(e->u->builder, type, offset(e, base, cpu_number(e, bytes)), "");
}

LLVMValueRef cpu_buffer(CpuCode *e, int64_t bytes)
{
    LLVMValueRef slot;

    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (!e->gpu && e->stack + bytes <= STACK_MAX) {
        e->stack += bytes;
        slot = llvm_slot(e->u, LLVMArrayType2(byte_type(e), (uint64_t)bytes));
        LLVMSetAlignment(slot, ALIGN);
        return slot;
    }
    slot = offset(e, e->scratch, cpu_number(e, e->fixed_bytes));
    e->fixed_bytes += bytes;
    return slot;
}

CpuLoop cpu_loop(CpuCode *e, LLVMValueRef lo, LLVMValueRef hi, LLVMValueRef step)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(b);
    CpuLoop l = {.i = lo, .step = step};

    if (LLVMIsAConstantInt(lo) && LLVMIsAConstantInt(hi) && LLVMIsAConstantInt(step) && LLVMConstIntGetSExtValue(lo) < LLVMConstIntGetSExtValue(hi) &&
        LLVMConstIntGetSExtValue(lo) + LLVMConstIntGetSExtValue(step) >= LLVMConstIntGetSExtValue(hi))
        return l;                               /* once */
    l.head = cpu_block(e);
    l.body = cpu_block(e);
    l.done = cpu_block(e);
    LLVMBuildBr(b, l.head);
    LLVMPositionBuilderAtEnd(b, l.head);
    l.i = LLVMBuildPhi(b, i64_type(e), "");
    LLVMAddIncoming(l.i, &lo, &before, 1);
    LLVMBuildCondBr(b, cpu_compare(e, LLVMIntSLT, l.i, hi), l.body, l.done);
    LLVMPositionBuilderAtEnd(b, l.body);
    return l;
}

void cpu_loop_end(CpuCode *e, CpuLoop *l)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMBasicBlockRef from = LLVMGetInsertBlock(b);
    LLVMValueRef next;

    if (!l->head)
        return;
    next = LLVMBuildNSWAdd(b, l->i, l->step, "");
    LLVMAddIncoming(l->i, &next, &from, 1);
    LLVMBuildBr(b, l->head);
    LLVMPositionBuilderAtEnd(b, l->done);
}

/* ---- indices ---- */

/* A divisor that is not positive is the program's fault, which --debug finds; here it must not trap. */
static LLVMValueRef positive(CpuCode *e, LLVMValueRef b)
{
    LLVMTypeRef t = i64_type(e);

    if (LLVMIsAConstantInt(b) && LLVMConstIntGetSExtValue(b) > 0)
        return b;
    return cpu_intrinsic(e, "llvm.smax", &t, 1, (LLVMValueRef[]){b, cpu_number(e, 1)}, 2);
}

static LLVMValueRef floor_div(CpuCode *e, LLVMValueRef a, LLVMValueRef b, bool rest)
{
    LLVMValueRef q = LLVMBuildSDiv(e->u->builder, a, b, ""), r = cpu_op(e, LLVMSub, a, cpu_op(e, LLVMMul, q, b));
    LLVMValueRef below = cpu_compare(e, LLVMIntSLT, r, cpu_number(e, 0));

    if (rest)
        return cpu_choose(e, below, cpu_op(e, LLVMAdd, r, b), r);
    return cpu_choose(e, below, cpu_op(e, LLVMSub, q, cpu_number(e, 1)), q);
}

static int size_at(const CpuCode *e, Sym name)
{
    for (int i = 0; i < e->k->size.n; i++)
        if (e->k->size.at[i] == name)
            return i;
    return 0;
}

LLVMValueRef cpu_arithmetic(CpuCode *e, const TileNode *n, LLVMValueRef a, LLVMValueRef b)
{
    switch (n->op) {
    case TOP_iadd: return cpu_op(e, LLVMAdd, a, b);
    case TOP_isub: return cpu_op(e, LLVMSub, a, b);
    case TOP_imul: return cpu_op(e, LLVMMul, a, b);
    case TOP_idiv: return floor_div(e, a, positive(e, b), false);
    case TOP_imod: return floor_div(e, a, positive(e, b), true);
    case TOP_imin: return cpu_choose(e, cpu_compare(e, LLVMIntSLT, a, b), a, b);
    default: return cpu_choose(e, cpu_compare(e, LLVMIntSGT, a, b), a, b);
    }
}

/* Of the launch: its sizes, then its numbers of groups. */
static LLVMValueRef launch_word(CpuCode *e, int i) { return e->word ? e->word[i] : word_at(e, i64_type(e), e->size, 8 * (int64_t)i); }

static LLVMValueRef size_value(CpuCode *e, const TileNode *n) { return launch_word(e, size_at(e, n->attr->name)); }

LLVMValueRef cpu_size(CpuCode *e, Sym name)
{
    for (int i = 0; i < e->k->size.n; i++)
        if (e->k->size.at[i] == name)
            return launch_word(e, i);
    return NULL;
}

LLVMValueRef cpu_groups(CpuCode *e, int axis) { return launch_word(e, e->k->size.n + axis); }

static LLVMValueRef to_index(CpuCode *e, const TileNode *n)
{
    DType dt = (DType)tile_type(n->in[0])->dtype;

    return lanes_convert(e->u, DT_int64, dt, NULL, lanes_to_raw(e->u, dt, cpu_val(e, n->in[0])->x, 1), NULL, NULL, 1);
}

LLVMValueRef cpu_index(CpuCode *e, const TileNode *n)
{
    switch (n->op) {
    case TOP_index: return cpu_number(e, n->attr->i);
    case TOP_size: return size_value(e, n);
    case TOP_group: return e->group[n->attr->axis];
    case TOP_lane: return e->gpu && e->k->lanes > 1 ? gpu_lane(e) : cpu_number(e, 0);
    case TOP_match: return cpu_number(e, 1);
    case TOP_extent: return cpu_val(e, n->in[0])->extent[n->attr->axis];
    case TOP_to_index: return to_index(e, n);
    default: return cpu_arithmetic(e, n, cpu_val(e, n->in[0])->x, cpu_val(e, n->in[1])->x);
    }
}

/* ---- views and trees ---- */

void cpu_set_strides(CpuCode *e, Val *v, const TileType *t)
{
    for (int i = 0; i < t->rank; i++)
        if (t->stride[i] != STRIDE_ANY)
            v->stride[i] = cpu_number(e, t->stride[i]);
}

static void bind_param(CpuCode *e, int i)
{
    const TileNode *n = e->k->params.at[i];
    Val *v = &e->val[e->first[n->id]];
    int64_t at = i * (int64_t)sizeof(TileArg);

    v->x = word_at(e, pointer_type(e), e->arg, at + (int64_t)offsetof(TileArg, base));
    for (int k = 0; k < n->type[0].rank; k++) {
        v->extent[k] = word_at(e, i64_type(e), e->arg, at + (int64_t)offsetof(TileArg, extent) + 8 * k);
        v->stride[k] = word_at(e, i64_type(e), e->arg, at + (int64_t)offsetof(TileArg, stride) + 8 * k);
    }
    cpu_set_strides(e, v, &n->type[0]);
}

static LLVMValueRef aligned(CpuCode *e, LLVMValueRef bytes)
{
    return cpu_op(e, LLVMAnd, cpu_op(e, LLVMAdd, bytes, cpu_number(e, ALIGN - 1)), cpu_number(e, -ALIGN));
}

/* Bytes of a buffer; its strides if v is not NULL. In those of lanes, the elements of all lanes lie side by side. */
static LLVMValueRef buffer_bytes(CpuCode *e, const TileNode *n, LLVMValueRef *extent, Val *v)
{
    LLVMValueRef count = cpu_number(e, n->attr->space == SPACE_LOCAL && e->lanes ? (e->lanes->count + ALIGN - 1) / ALIGN * ALIGN : 1);

    for (int i = n->nin - 1; i >= 0; i--) {
        LLVMValueRef some = cpu_choose(e, cpu_compare(e, LLVMIntSGT, extent[i], cpu_number(e, 0)), extent[i], cpu_number(e, 0));
        if (v) {
            v->extent[i] = some;
            v->stride[i] = count;
        }
        count = cpu_op(e, LLVMMul, count, some);
    }
    return aligned(e, cpu_op(e, LLVMAdd, cpu_op(e, LLVMMul, count, cpu_number(e, (int64_t)raw_size((DType)n->attr->dtype))), cpu_number(e, ALIGN)));
}

static void alloc(CpuCode *e, const TileNode *n)
{
    Val *v = cpu_val(e, (TileRef){(TileNode *)n, 0});
    LLVMValueRef extent[TILE_RANK_MAX], bytes;

    for (int i = 0; i < n->nin; i++)
        extent[i] = cpu_val(e, n->in[i])->x;
    bytes = buffer_bytes(e, n, extent, v);
    v->x = offset(e, e->scratch, cpu_op(e, LLVMAdd, e->fixed, e->allocated));
    e->allocated = cpu_op(e, LLVMAdd, e->allocated, bytes);
    if (n->attr->space != SPACE_LOCAL || !e->lanes)
        cpu_set_strides(e, v, &n->type[0]);
}

static void part(CpuCode *e, const TileNode *n)
{
    Val *v = cpu_val(e, (TileRef){(TileNode *)n, 0});
    const Val *from = cpu_val(e, n->in[0]);
    int rank = tile_type(n->in[0])->rank, axis = 0;
    LLVMValueRef at = cpu_number(e, 0);

    for (int i = 0; i < rank; i++) {
        at = cpu_op(e, LLVMAdd, at, cpu_op(e, LLVMMul, cpu_val(e, n->in[1 + i])->x, from->stride[i]));
        if (n->attr->drop >> i & 1)
            continue;
        v->stride[axis] = from->stride[i];
        v->extent[axis++] = cpu_val(e, n->in[1 + rank + i])->x;
    }
    v->x = offset(e, from->x, cpu_op(e, LLVMMul, at, cpu_number(e, (int64_t)raw_size((DType)n->type[0].dtype))));
}

static void new_tree(CpuCode *e, const TileNode *n)
{
    Val *v = cpu_val(e, (TileRef){(TileNode *)n, 0});
    int64_t level = cpu_level_elements(e, &n->type[0]) * (int64_t)raw_size(lane_dtype((DType)n->type[0].dtype));

    v->x = cpu_buffer(e, level * cpu_levels(e));
    v->count = llvm_slot(e->u, i64_type(e));
    LLVMBuildStore(e->u->builder, cpu_number(e, 0), v->count);
}

/* A view as tile_copy takes it: a TileArg in a slot. */
static LLVMValueRef view_slot(CpuCode *e, const Val *v, int rank)
{
    LLVMValueRef slot = llvm_slot(e->u, LLVMArrayType2(i64_type(e), sizeof(TileArg) / 8));

    LLVMBuildStore(e->u->builder, v->x, slot);
    for (int i = 0; i < rank; i++) {
        LLVMBuildStore(e->u->builder, v->extent[i], offset(e, slot, cpu_number(e, (int64_t)offsetof(TileArg, extent) + 8 * i)));
        LLVMBuildStore(e->u->builder, v->stride[i], offset(e, slot, cpu_number(e, (int64_t)offsetof(TileArg, stride) + 8 * i)));
    }
    return slot;
}

static void copy(CpuCode *e, const TileNode *n)
{
    const TileType *t = tile_type(n->in[0]);
    LLVMTypeRef p = pointer_type(e), i64 = i64_type(e), param[] = {p, p, i64, i64, p};
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(e->u->context), param, 5, false);
    LLVMValueRef fn = LLVMGetNamedFunction(e->u->module, "tsr_tile_copy"), fill = llvm_slot(e->u, LLVMArrayType2(i64, 2));
    uint64_t word[2] = {0, 0};

    called_offer();
    fn = fn ? fn : LLVMAddFunction(e->u->module, "tsr_tile_copy", type);
    raw_convert((DType)t->dtype, word, DT_f64, &n->attr->f, 1, NULL, 0);
    for (int i = 0; i < 2; i++)
        LLVMBuildStore(e->u->builder, cpu_number(e, (int64_t)word[i]), offset(e, fill, cpu_number(e, 8 * i)));
    LLVMBuildCall2(e->u->builder, type, fn, (LLVMValueRef[]){view_slot(e, cpu_val(e, n->in[0]), t->rank), view_slot(e, cpu_val(e, n->in[1]), t->rank),
                   cpu_number(e, t->rank), cpu_number(e, (int64_t)raw_size((DType)t->dtype)), fill}, 5, "");
}

/* ---- nodes ---- */

static bool uses_open(CpuCode *e, const TileNode *n)
{
    for (int i = 0; i < n->nin; i++)
        if (e->waits[n->in[i].node->id])
            return true;
    return false;
}

/* Must a load wait for the stores of the open cluster? */
static bool loads_stored(CpuCode *e, const TileNode *n)
{
    if (!cpu_reads(n))
        return false;
    for (int i = 0; i < e->open.sinks.n; i++)
        if (e->open.sinks.at[i].node && e->open.sinks.at[i].node->op == TOP_store)
            return true;
    return false;
}

static void emit_scalar(CpuCode *e, const TileNode *n)
{
    if (n->op == TOP_reshape || n->op == TOP_splat || n->op == TOP_permute) {
        cpu_need(e, n->in[0]);
        cpu_close(e);
    }
    cpu_val(e, (TileRef){(TileNode *)n, 0})->x = cpu_scalar(e, n);
}

/* A tile in a buffer, seen with another shape. */
static void emit_reshape(CpuCode *e, const TileNode *n)
{
    Val *y = cpu_val(e, (TileRef){(TileNode *)n, 0});

    cpu_need(e, n->in[0]);
    cpu_close(e);
    y->x = cpu_val(e, n->in[0])->x;
    if (y->x && tile_type(n->in[0])->rank)
        return;
    y->x = cpu_buffer(e, cpu_tile_bytes(&n->type[0]));
    cpu_fill_tile(e, n->in[0], y->x);
}

static void emit_dot(CpuCode *e, const TileNode *n)
{
    const TileNode *push = n->next;
    bool joins = push && push->op == TOP_push && push->in[1].node == n && n->nuse == 1;

    if (joins && e->waits[push->in[0].node->id])
        cpu_close(e);
    cpu_dot_settle(e, n);
    cpu_dot(e, n, joins ? push : NULL);
    e->done = joins ? push : NULL;
}

static void emit_node(CpuCode *e, const TileNode *n)
{
    if ((e->lanes && cpu_lane_node(e, n)) || (e->gpu && gpu_node(e, n)))
        return;
    if (uses_open(e, n) || loads_stored(e, n))
        cpu_close(e);
    switch (n->op) {
    case TOP_index: case TOP_size: case TOP_group: case TOP_extent: case TOP_iadd: case TOP_isub: case TOP_imul: case TOP_idiv:
    case TOP_imod: case TOP_imin: case TOP_imax: case TOP_to_index: case TOP_lane: case TOP_match:
        cpu_val(e, (TileRef){(TileNode *)n, 0})->x = cpu_index(e, n);
        break;
    case TOP_ilt: case TOP_ieq: case TOP_to_tile: case TOP_const: emit_scalar(e, n); break;
    case TOP_splat: case TOP_iota: case TOP_map: case TOP_permute: case TOP_load: case TOP_reshape:
        if (n->type[0].rank == 0)
            emit_scalar(e, n);
        else if (!cpu_is_virtual(n))
            emit_reshape(e, n);
        else if (n->op == TOP_load)
            vec_push(&e->loads, n);
        break;
    case TOP_reduce: cpu_sink(e, n, n->in[0]); break;
    case TOP_push: case TOP_store: case TOP_atomic: cpu_sink(e, n, n->in[n->nin - 1]); break;
    case TOP_tree: new_tree(e, n); break;
    case TOP_total: cpu_close(e); cpu_total(e, n); break;
    case TOP_dot: emit_dot(e, n); break;
    case TOP_update: cpu_settle(e, n); cpu_take(e, n, NULL); break;
    case TOP_gather:
        if (e->lanes || !cpu_is_virtual(n))
            cpu_pick(e, n);
        else
            vec_push(&e->loads, n);
        break;
    case TOP_alloc: alloc(e, n); break;
    case TOP_part: part(e, n); break;
    case TOP_copy: case TOP_copy_async: cpu_settle(e, n); copy(e, n); break;
    case TOP_lane_reduce: case TOP_shuffle: case TOP_uniform:       /* of one lane, or of what is the same in all */
        cpu_val(e, (TileRef){(TileNode *)n, 0})->x = cpu_val(e, n->in[0])->x;
        break;
    case TOP_commit: case TOP_wait: case TOP_barrier: case TOP_prefetch: break;
    default:
        cpu_control(e, n);
        gpu_written(e);
    }
}

void cpu_emit_block(CpuCode *e, const TileBlock *b)
{
    e->loads.n = 0;
    if (b->owner && b->owner->op != TOP_if && !cpu_trees_stay(e, b))
        return;
    gpu_written(e);                             /* by a round before, or by nobody yet */
    for (const TileNode *n = b->first; n && !e->failed; n = n->next) {
        e->visited[n->id] = true;
        if (n != e->done)
            emit_node(e, n);
    }
    cpu_lane_flush(e);
    for (int i = 0; i < b->yields.n; i++)
        if (tile_type(b->yields.at[i])->kind == TILE_VALUE && !gpu_yields_fragment(e, b, i))
            cpu_need(e, b->yields.at[i]);
    cpu_close(e);
    if (e->gpu && gpu_is_chain(e))
        chain_arrive(e, 0);
    e->loads.n = 0;
}

/* ---- the functions ---- */

void cpu_set_groups(CpuCode *e, LLVMValueRef g)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMTypeRef word = e->gpu ? i32_type(e) : i64_type(e);      /* launches there have fewer than 2^31 groups, and divide long numbers slowly */
    int axes = e->k->grid.n;

    g = LLVMBuildTruncOrBitCast(b, g, word, "");
    for (int i = axes - 1; i > 0; i--) {
        LLVMValueRef n = LLVMBuildTruncOrBitCast(b, cpu_groups(e, i), word, "");
        e->group[i] = LLVMBuildZExtOrBitCast(b, LLVMBuildURem(b, g, n, ""), i64_type(e), "");
        g = LLVMBuildUDiv(b, g, n, "");
    }
    e->group[0] = LLVMBuildZExtOrBitCast(b, g, i64_type(e), "");
}

/* Extents of buffers, and bounds of loops, again, in terms of sizes alone. */
LLVMValueRef cpu_uniform(CpuCode *e, const TileNode *n)
{
    if (n->op == TOP_index)
        return cpu_number(e, n->attr->i);
    if (n->op == TOP_size)
        return size_value(e, n);
    return cpu_arithmetic(e, n, cpu_uniform(e, n->in[0].node), cpu_uniform(e, n->in[1].node));
}

void cpu_begin_function(CpuCode *e, const char *name, LLVMTypeRef type)
{
    e->fn = LLVMAddFunction(e->u->module, name, type);
    LLVMAddAttributeAtIndex(e->fn, LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(e->u->context, LLVMGetEnumAttributeKindForName("nounwind", 8), 0));
    LLVMPositionBuilderAtEnd(e->u->builder, cpu_block(e));
    e->size = LLVMGetParam(e->fn, 0);
}

static void emit_scratch(CpuCode *e, const char *name)
{
    LLVMTypeRef p = pointer_type(e);
    LLVMValueRef bytes, extent[TILE_RANK_MAX];
    StrBuf own = {0};

    sb_printf(&own, "%s.scratch", name);
    cpu_begin_function(e, sb_str(&own), LLVMFunctionType(i64_type(e), &p, 1, false));
    bytes = cpu_op(e, LLVMAdd, cpu_keep_bytes(e), cpu_number(e, e->fixed_bytes));
    for (const TileNode *n = e->k->body.first; n; n = n->next) {
        if (n->op != TOP_alloc)
            continue;
        for (int i = 0; i < n->nin; i++)
            extent[i] = cpu_uniform(e, n->in[i].node);
        bytes = cpu_op(e, LLVMAdd, bytes, buffer_bytes(e, n, extent, NULL));
    }
    LLVMBuildRet(e->u->builder, bytes);
    sb_done(&own);
}

/* How many bytes buffers of known size take together is known when all code is there, and used before. */
LLVMValueRef cpu_fixed_begin(CpuCode *e, const char *name)
{
    StrBuf own = {0};
    LLVMValueRef global;

    sb_printf(&own, "%s_fixed", name);
    global = LLVMAddGlobal(e->u->module, i64_type(e), sb_str(&own));
    sb_done(&own);
    LLVMSetLinkage(global, LLVMPrivateLinkage);
    LLVMSetGlobalConstant(global, true);
    e->fixed = LLVMBuildLoad2(e->u->builder, i64_type(e), global, "");
    return global;
}

void cpu_fixed_end(CpuCode *e, LLVMValueRef fixed) { LLVMSetInitializer(fixed, cpu_number(e, e->fixed_bytes)); }

static void emit_kernel(CpuCode *e, const char *name)
{
    LLVMTypeRef p = pointer_type(e), i64 = i64_type(e), param[] = {p, p, p, i64, i64};
    LLVMBasicBlockRef start;
    LLVMValueRef fixed, kept;
    CpuLoop l;

    cpu_begin_function(e, name, LLVMFunctionType(LLVMVoidTypeInContext(e->u->context), param, 5, false));
    e->arg = LLVMGetParam(e->fn, 1);
    e->scratch = LLVMGetParam(e->fn, 2);
    fixed = cpu_fixed_begin(e, name);
    start = cpu_block(e);                       /* slots go to the entry, before everything else */
    LLVMBuildBr(e->u->builder, start);
    LLVMPositionBuilderAtEnd(e->u->builder, start);
    for (int i = 0; i < e->k->params.n; i++)
        bind_param(e, i);
    kept = cpu_keep_begin(e);
    l = cpu_loop(e, LLVMGetParam(e->fn, 3), LLVMGetParam(e->fn, 4), cpu_number(e, 1));
    cpu_set_groups(e, cpu_keep_group(e, l.i));
    e->allocated = kept;
    cpu_emit_block(e, &e->k->body);
    cpu_loop_end(e, &l);
    LLVMBuildRetVoid(e->u->builder);
    cpu_fixed_end(e, fixed);
}

/* ---- what is covered ---- */

static bool covered(CpuCode *e, const TileBlock *b)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        for (int i = 0; i < n->nout; i++)
            if (n->type[i].kind != TILE_INDEX && is_packed((DType)n->type[i].dtype))
                return cpu_refuse(e, "%s of %s, whose elements share bytes", tile_op_info[n->op].name, dtype_info[n->type[i].dtype].name);
        for (int i = 0; i < n->nout && e->k->lanes > 1; i++)
            if (n->type[i].kind == TILE_VALUE && n->type[i].rank == 0 && dtype_is_complex((DType)n->type[i].dtype))
                return cpu_refuse(e, "%s of lanes", dtype_info[n->type[i].dtype].name);
        if (n->op == TOP_over_ranks)
            return cpu_refuse(e, "sums over ranks, which wait for one another");
        if (n->op == TOP_say)
            return cpu_refuse(e, "print(), which is the interpreter's");
        if (n->op == TOP_reduce && tile_type(n->in[0])->extent[n->attr->axis] > TILE_REDUCE_MAX &&
            !(e->gpu && (e->gpu->whole.chunk || n->attr->fast)))
            return cpu_refuse(e, "%d elements of an axis summed at once", tile_type(n->in[0])->extent[n->attr->axis]);
        if (tile_is_atomic(n->op) && raw_size((DType)tile_type(n->in[0])->dtype) > 8)
            return cpu_refuse(e, "atomic of %s", dtype_info[tile_type(n->in[0])->dtype].name);
        for (int r = 0; r < 2; r++)
            if (n->region[r] && !covered(e, n->region[r]))
                return false;
    }
    return true;
}

static bool accepts(CpuCode *e)
{
    if (e->k->nnodes > NODES_MAX)
        return cpu_refuse(e, "%u nodes: too many for one kernel", e->k->nnodes);
    for (int i = 0; i < e->k->params.n; i++)
        if (is_packed((DType)e->k->params.at[i]->type[0].dtype))
            return cpu_refuse(e, "a view of %s, whose elements share bytes", dtype_info[e->k->params.at[i]->type[0].dtype].name);
    return covered(e, &e->k->body);
}

static void number_values(CpuCode *e)
{
    const TileKernel *k = e->k;
    size_t n = k->nnodes + 1;

    e->first = tile_numbers(k, &e->nvals);
    for (int i = 0; i < k->params.n; i++)
        e->first[k->params.at[i]->id] = e->nvals++;
    e->val = tsr_calloc(sizeof *e->val * (e->nvals + 1));
    e->seen = tsr_calloc(sizeof *e->seen * n);
    e->asked = tsr_calloc(sizeof *e->asked * n);
    e->waits = tsr_calloc(n);
    e->gathered = tsr_calloc(n);
    e->visited = tsr_calloc(n);
}

bool cpu_begin(CpuCode *e)
{
    bool ok = accepts(e);

    if (ok)
        number_values(e);
    return ok;
}

void cpu_end(CpuCode *e)
{
    tsr_free(e->first);
    tsr_free(e->val);
    tsr_free(e->seen);
    tsr_free(e->asked);
    tsr_free(e->waits);
    tsr_free(e->gathered);
    tsr_free(e->visited);
    vec_free(&e->open.sinks);
    vec_free(&e->open.nodes);
    vec_free(&e->known);
    vec_free(&e->loads);
    vec_free(&e->kept);
    vec_free(&e->ahead);
}

bool cpu_emit(Llvm *u, const TileKernel *k, const char *name, StrBuf *err)
{
    CpuCode e = {.u = u, .k = k, .err = err};
    LaneCode lanes = {0};

    if (!cpu_begin(&e))
        return false;
    if (k->lanes > 1)
        lanes_init(&e, &lanes);
    emit_kernel(&e, name);
    if (!e.failed)
        emit_scratch(&e, name);
    cpu_end(&e);
    lanes_done(&lanes);
    return !e.failed;
}
