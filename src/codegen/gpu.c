/*
 * Code for NVIDIA GPUs: the frame of a kernel, and what one thread does. What
 * threads do together is in gpu_together.c.
 *
 * The rest is the code for CPUs (cpu.c), in which a thread stands for the task
 * that runs a group: it computes indices and scalars for itself and takes its
 * share of tiles (gpu_walk.c).  Memory of the group lies behind one address,
 * fixed buffers first and those whose extents follow from sizes behind them.
 *
 * A fence is a barrier where someone may have touched that memory since the
 * last one.  All of a group reach it, because what tiles are made of is the
 * same in all threads (ir/tile/vary.h).
 */
#include "codegen/gpu_impl.h"
#include "codegen/gpu_chain.h"

#include "base/alloc.h"

#include "runtime/gpu_launch.h"

#include <string.h>

enum { PTX_KERNEL = 71, BASE_ALIGN = 128, ROLES_ALIGN = 1024, LANES_WORK = 256, LANES_MOST = 1024, LOCAL_MAX = 4096, SHARED_MAX = 227 << 10 };

static TileRef out_of(const TileNode *n) { return (TileRef){(TileNode *)n, 0}; }

/* ---- fences and branches ---- */

LLVMValueRef gpu_lane(CpuCode *e) { return LLVMBuildZExt(e->u->builder, e->gpu->thread, i64_type(e), ""); }

void gpu_fence(CpuCode *e)
{
    if (!e->gpu || e->gpu->clean)
        return;
    if (e->gpu->roles)
        roles_fence(e);
    else
        cpu_intrinsic(e, "llvm.nvvm.barrier0", NULL, 0, NULL, 0);
    e->gpu->clean = true;
}

void gpu_written(CpuCode *e)
{
    if (e->gpu)
        e->gpu->clean = false;
}

void gpu_warp_fence(CpuCode *e)
{
    LLVMValueRef all = i32_number(e, -1);

    cpu_intrinsic(e, "llvm.nvvm.bar.warp.sync", NULL, 0, &all, 1);
}

/* ---- where some threads take part ---- */

GpuIf gpu_if(CpuCode *e, LLVMValueRef is)
{
    LLVMBasicBlockRef then = cpu_block(e);
    GpuIf i = {cpu_block(e)};

    LLVMBuildCondBr(e->u->builder, is, then, i.done);
    LLVMPositionBuilderAtEnd(e->u->builder, then);
    return i;
}

void gpu_end_if(CpuCode *e, GpuIf *i)
{
    LLVMBuildBr(e->u->builder, i->done);
    LLVMPositionBuilderAtEnd(e->u->builder, i->done);
}

LLVMValueRef gpu_load_if(CpuCode *e, DType dt, LLVMValueRef place, LLVMValueRef inside, LLVMValueRef fill)
{
    if (e->gpu->roles && raw_size(dt) <= 8)
        return roles_load_if(e, place, inside, fill);
    LLVMBasicBlockRef from = LLVMGetInsertBlock(e->u->builder), loaded;
    GpuIf i = gpu_if(e, inside);
    LLVMValueRef x = lanes_load(e->u, dt, place, cpu_number(e, 0), 1), phi;

    loaded = LLVMGetInsertBlock(e->u->builder);
    gpu_end_if(e, &i);
    phi = LLVMBuildPhi(e->u->builder, LLVMTypeOf(fill), "");
    LLVMAddIncoming(phi, (LLVMValueRef[]){fill, x}, (LLVMBasicBlockRef[]){from, loaded}, 2);
    return phi;
}

void gpu_store_if(CpuCode *e, DType dt, LLVMValueRef place, LLVMValueRef inside, LLVMValueRef raw)
{
    GpuIf i = gpu_if(e, inside);

    lanes_store(e->u, dt, place, cpu_number(e, 0), raw, 1);
    gpu_end_if(e, &i);
}

/* ---- memory ---- */

/* Memory of one thread: its extents are numbers, so that registers may do. */
static bool own_memory(CpuCode *e, const TileNode *n)
{
    Val *v = cpu_val(e, out_of(n));
    int64_t bytes = (int64_t)raw_size((DType)n->attr->dtype), stride = 1;
    LLVMTypeRef t;

    for (int i = n->nin - 1; i >= 0; i--) {
        if (n->in[i].node->op != TOP_index)
            return cpu_refuse(e, "memory of a lane whose extents are no numbers");
        v->extent[i] = cpu_number(e, n->in[i].node->attr->i);
        v->stride[i] = cpu_number(e, stride);
        stride *= n->in[i].node->attr->i > 0 ? n->in[i].node->attr->i : 1;
        if (stride > LOCAL_MAX)
            return cpu_refuse(e, "more than %d elements of memory of a lane", LOCAL_MAX);
    }
    t = LLVMArrayType2(LLVMInt8TypeInContext(e->u->context), (uint64_t)(bytes * stride));
    v->x = llvm_slot(e->u, t);
    LLVMSetAlignment(v->x, 16);
    v->x = LLVMBuildAddrSpaceCast(e->u->builder, v->x, LLVMPointerTypeInContext(e->u->context, 0), "");
    return true;
}

/* A scalar that each lane stores. */
static void lane_store(CpuCode *e, const TileNode *n)
{
    Spot none = {.strip = -1};

    cpu_settle(e, n);
    e->width = 1;
    e->masked = true;
    e->known.n = 0;
    (n->op == TOP_store ? cpu_store : cpu_atomic)(e, n, n->in[n->nin - 1], &none);
}

/* Is it memory that no other name stands for: a parameter of the kernel or a buffer? */
static bool is_itself(const TileNode *memory)
{
    return memory->op == TOP_alloc || (memory->op == TILE_PARAM && memory->block && !memory->block->owner);
}

bool gpu_writes(const TileBlock *b, const TileNode *memory)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        bool writes = n->op == TOP_store || tile_is_atomic(n->op) || n->op == TOP_copy || n->op == TOP_copy_async;
        if (writes && (cpu_root(n->in[0]) == memory || !is_itself(memory) || !is_itself(cpu_root(n->in[0]))))
            return true;
        for (int r = 0; r < 2; r++)
            if (n->region[r] && gpu_writes(n->region[r], memory))
                return true;
    }
    return false;
}

/* ---- gather ---- */

static void pick(CpuCode *e, const TileNode *n)
{
    const TileType *t = &n->type[0], *rows = tile_type(n->in[1]);
    const Val *view = cpu_val(e, n->in[0]);
    DType dt = (DType)t->dtype;
    LLVMValueRef to = cpu_buffer(e, cpu_tile_bytes(t)), at[TILE_RANK_MAX], place = cpu_number(e, 0), inside = NULL, fill;
    Spot p = {.strip = -1};
    CpuLoop l;

    cpu_need(e, n->in[1]);
    cpu_close(e);
    gpu_fence(e);
    l = cpu_spread(e, tile_elements(t), 1);
    gpu_decode(e, l.i, t->extent, t->rank, -1, at);
    p.at[0] = at[0];
    e->width = 1;
    e->known.n = 0;
    at[0] = lanes_convert(e->u, DT_int64, (DType)rows->dtype, NULL, cpu_raw(e, n->in[1], &p), NULL, NULL, 1);
    for (int i = 0; i < t->rank; i++) {
        LLVMValueRef is = cpu_compare(e, LLVMIntULT, at[i], view->extent[i]);
        inside = inside ? LLVMBuildAnd(e->u->builder, inside, is, "") : is;
        place = cpu_op(e, LLVMAdd, place, cpu_op(e, LLVMMul, at[i], view->stride[i]));
    }
    place = LLVMBuildGEP2(e->u->builder, LLVMArrayType2(LLVMInt8TypeInContext(e->u->context), raw_size(dt)), view->x, &place, 1, "");
    fill = cpu_fill(e, dt, n);
    cpu_store_flat(e, dt, to, l.i, lanes_of_raw(e->u, dt, gpu_load_if(e, dt, place, inside, fill), 1), NULL);
    cpu_loop_end(e, &l);
    gpu_written(e);
    e->known.n = 0;
    cpu_val(e, out_of(n))->x = to;
}

/* ---- nodes ---- */

static bool takes_tiles(const TileNode *n)
{
    for (int i = 0; i < n->nin; i++)
        if (tile_type(n->in[i])->kind == TILE_VALUE && tile_type(n->in[i])->rank)
            return true;
    return false;
}

static bool is_scalar_access(const TileNode *n)
{
    return n->op == TOP_load ? n->type[0].rank == 0 : (n->op == TOP_store || n->op == TOP_atomic) && tile_type(n->in[n->nin - 1])->rank == 0;
}

/* What a scalar is computed of lies in memory that others may have written, and may write again once all have read it. */
static void see_memory(CpuCode *e, const TileNode *n)
{
    if (n->nout && n->type[0].kind == TILE_VALUE && n->type[0].rank == 0 && takes_tiles(n) && n->op != TOP_reduce) {
        for (int i = 0; i < n->nin; i++)
            if (tile_type(n->in[i])->kind == TILE_VALUE)
                cpu_need(e, n->in[i]);
        cpu_close(e);
        gpu_fence(e);
        gpu_written(e);
    } else if (e->k->lanes == 1 && n->op == TOP_load && n->type[0].rank == 0 && gpu_writes(&e->k->body, cpu_root(n->in[0]))) {
        cpu_close(e);
        gpu_fence(e);
        gpu_written(e);
    }
}

static void prefetch(CpuCode *e, const TileNode *n)
{
    Spot first = {.strip = -1};
    LLVMValueRef at;

    for (int i = 0; i < TILE_RANK_MAX; i++)
        first.at[i] = cpu_number(e, 0);
    cpu_settle(e, n);
    e->width = 1;
    at = LLVMBuildPtrToInt(e->u->builder, cpu_place(e, n, &first), i64_type(e), "");
    gpu_prefetch(e, at);
}

/* An atomic of the whole group, which asks what was there: the first thread does it, and all get the answer from a place that they share. */
static void take_once(CpuCode *e, const TileNode *n)
{
    DType dt = (DType)n->type[0].dtype;
    LLVMValueRef slot = cpu_buffer(e, (int64_t)raw_size(dt)), zero = cpu_number(e, 0), first;
    Val *old = cpu_val(e, (TileRef){(TileNode *)n, 0});
    GpuIf i;

    cpu_settle(e, n);
    gpu_fence(e);
    first = LLVMBuildICmp(e->u->builder, LLVMIntEQ, e->gpu->thread, i32_number(e, 0), "");
    cpu_take(e, n, first);
    i = gpu_if(e, first);
    cpu_store_flat(e, dt, slot, zero, old->x, NULL);
    gpu_end_if(e, &i);
    gpu_written(e);
    gpu_fence(e);
    old->x = cpu_load_flat(e, dt, slot, zero, 1);
    gpu_written(e);
}

bool gpu_node(CpuCode *e, const TileNode *n)
{
    bool lanes = e->k->lanes > 1;

    if ((e->gpu->roles && roles_node(e, n)) || gpu_rows_tree(e, n))
        return true;
    switch (n->op) {
    case TOP_barrier:
        cpu_settle(e, n);
        gpu_written(e);
        gpu_fence(e);
        return true;
    case TOP_prefetch: prefetch(e, n); return true;
    case TOP_copy: case TOP_copy_async: gpu_copy_view(e, n); return true;
    case TOP_commit: case TOP_wait: gpu_copy_batch(e, n); return true;
    case TOP_gather: pick(e, n); return true;
    case TOP_dot:
        if (gpu_is_matrix(e, n))
            gpu_matrix(e, n);
        else
            gpu_dot(e, n);
        return true;
    case TOP_alloc: return lanes && n->attr->space == SPACE_LOCAL && (own_memory(e, n), true);
    case TOP_lane_reduce: case TOP_shuffle: case TOP_match: case TOP_uniform: return lanes && (gpu_together(e, n), true);
    case TOP_update:
        if (lanes) {
            cpu_settle(e, n);
            cpu_take(e, n, NULL);
        } else {
            take_once(e, n);
        }
        return true;
    case TOP_store: case TOP_atomic:
        if (lanes && gpu_lane_vector(e, n))
            return true;
        if (lanes && is_scalar_access(n)) {
            lane_store(e, n);
            return true;
        }
        return false;
    case TOP_load:
        if (lanes && gpu_lane_vector(e, n))
            return true;
        see_memory(e, n);
        return false;
    default:
        see_memory(e, n);
        return false;
    }
}

/* ---- what is covered ---- */

static bool is_sum_of_floats(const TileNode *n)
{
    return tile_is_atomic(n->op) && (n->attr->op == OP_sum || n->attr->op == OP_prod) && dtype_is_inexact((DType)tile_type(n->in[0])->dtype);
}

static bool is_called(const TileNode *n)
{
    OpId op = (OpId)n->attr->op;

    if (n->op != TOP_map || op == OP_convert)
        return false;
    return formula_way(op, tile_map_dtype(op, n->in)) == FORMULA_CALLED;
}

static bool covered(CpuCode *e, const TileBlock *b)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        if (is_called(n))
            return cpu_refuse(e, "%s of %s, which is a function of the library", op_info[n->attr->op].name,
                              dtype_info[tile_map_dtype((OpId)n->attr->op, n->in)].name);
        if (is_sum_of_floats(n))
            return cpu_refuse(e, "atomic sums of floats, whose order would show");
        if (tile_is_atomic(n->op) && raw_size((DType)tile_type(n->in[0])->dtype) < 4)
            return cpu_refuse(e, "atomic of %s", dtype_info[tile_type(n->in[0])->dtype].name);
        for (int r = 0; r < 2; r++)
            if (n->region[r] && !covered(e, n->region[r]))
                return false;
    }
    return true;
}

/* LLVM may not call functions that are not there. */
static void calls_outside(CpuCode *e)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(e->u->module); f; f = LLVMGetNextFunction(f))
        if (LLVMIsDeclaration(f) && !LLVMGetIntrinsicID(f)) {
            cpu_refuse(e, "%s, which is a function of the library", LLVMGetValueName(f));
            return;
        }
}

static bool has_op(const TileBlock *b, TileOp op)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        if (n->op == op)
            return true;
        for (int r = 0; r < 2; r++)
            if (n->region[r] && has_op(n->region[r], op))
                return true;
    }
    return false;
}

/* Is there a product for matrix units? */
static bool has_units(CpuCode *e, const TileBlock *b)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        if (n->op == TOP_dot && gpu_is_matrix(e, n))
            return true;
        for (int r = 0; r < 2; r++)
            if (n->region[r] && has_units(e, n->region[r]))
                return true;
    }
    return false;
}

/* ---- the frame ---- */

static int words_of(const TileKernel *k)
{
    int n = k->size.n + 3;

    for (int i = 0; i < k->params.n; i++)
        n += 1 + 2 * k->params.at[i]->type[0].rank;
    return n;
}

static LLVMTypeRef frame_type(CpuCode *e, int maps)
{
    LLVMTypeRef type[GPU_WORDS + GPU_MAPS];
    int n = 0;

    while (n < e->k->size.n + 3)
        type[n++] = i64_type(e);
    for (int i = 0; i < e->k->params.n; i++) {
        type[n++] = LLVMPointerTypeInContext(e->u->context, 1);
        for (int r = 2 * e->k->params.at[i]->type[0].rank; r; r--)
            type[n++] = i64_type(e);
    }
    for (int i = 0; i < maps; i++)
        type[n++] = LLVMPointerTypeInContext(e->u->context, 0);
    return LLVMFunctionType(LLVMVoidTypeInContext(e->u->context), type, (unsigned)n, false);
}

static void bind_params(CpuCode *e)
{
    unsigned w = (unsigned)e->k->size.n + 3;

    for (int i = 0; i < e->k->params.n; i++) {
        const TileNode *n = e->k->params.at[i];
        Val *v = &e->val[e->first[n->id]];
        v->x = LLVMBuildAddrSpaceCast(e->u->builder, LLVMGetParam(e->fn, w++), LLVMPointerTypeInContext(e->u->context, 0), "");
        for (int k = 0; k < n->type[0].rank; k++)
            v->extent[k] = LLVMGetParam(e->fn, w++);
        for (int k = 0; k < n->type[0].rank; k++)
            v->stride[k] = LLVMGetParam(e->fn, w++);
        cpu_set_strides(e, v, &n->type[0]);
    }
}

static void annotate(CpuCode *e, const char *what, int64_t number)
{
    LLVMContextRef c = e->u->context;
    LLVMMetadataRef part[3] = {LLVMValueAsMetadata(e->fn), LLVMMDStringInContext2(c, what, strlen(what)), LLVMValueAsMetadata(i32_number(e, number))};

    LLVMAddNamedMetadataOperand(e->u->module, "nvvm.annotations", LLVMMetadataAsValue(c, LLVMMDNodeInContext2(c, part, 3)));
}

/* Tensor maps are parameters of 128 bytes that stay where the launch put them. */
static void bind_maps(CpuCode *e, int maps)
{
    LLVMContextRef c = e->u->context;
    LLVMTypeRef bytes = LLVMArrayType2(LLVMInt8TypeInContext(c), 128);
    LLVMMetadataRef number[GPU_MAPS], part[3] = {LLVMValueAsMetadata(e->fn), LLVMMDStringInContext2(c, "grid_constant", 13), NULL};

    for (int i = 0; i < maps; i++) {
        unsigned at = (unsigned)(words_of(e->k) + i);
        LLVMAddAttributeAtIndex(e->fn, at + 1, LLVMCreateTypeAttribute(c, LLVMGetEnumAttributeKindForName("byval", 5), bytes));
        LLVMAddAttributeAtIndex(e->fn, at + 1, LLVMCreateEnumAttribute(c, LLVMGetEnumAttributeKindForName("align", 5), 64));
        number[i] = LLVMValueAsMetadata(i32_number(e, at + 1));
        e->gpu->roles->map[i] = LLVMBuildPtrToInt(e->u->builder, LLVMGetParam(e->fn, at), i64_type(e), "");
    }
    part[2] = LLVMMDNodeInContext2(c, number, (size_t)maps);
    LLVMAddNamedMetadataOperand(e->u->module, "nvvm.annotations", LLVMMetadataAsValue(c, LLVMMDNodeInContext2(c, part, 3)));
}

static LLVMValueRef group_memory(CpuCode *e)
{
    LLVMValueRef g = LLVMAddGlobalInAddressSpace(e->u->module, LLVMArrayType2(LLVMInt8TypeInContext(e->u->context), 0), "tsr_shared", 3);

    LLVMSetLinkage(g, LLVMExternalLinkage);
    LLVMSetAlignment(g, e->gpu->roles ? ROLES_ALIGN : BASE_ALIGN);
    return LLVMConstAddrSpaceCast(g, LLVMPointerTypeInContext(e->u->context, 0));
}

/* Does the kernel multiply f64s, whose sums take twice the registers? */
static bool has_wide_sums(const TileBlock *b)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        if (n->op == TOP_dot && raw_size((DType)n->type[0].dtype) > 4)
            return true;
        for (int r = 0; r < 2; r++)
            if (n->region[r] && has_wide_sums(n->region[r]))
                return true;
    }
    return false;
}

static void emit_frame(CpuCode *e, const char *name, const GpuFrame *frame)
{
    LLVMValueRef word[GPU_WORDS], fixed, group;
    LLVMBasicBlockRef start;

    cpu_begin_function(e, name, frame_type(e, frame->nmaps));
    LLVMSetFunctionCallConv(e->fn, PTX_KERNEL);
    annotate(e, "maxntidx", frame->threads);
    if (e->gpu->roles)
        annotate(e, "minctasm", frame->resident);
    else if (e->gpu->units && e->gpu->threads <= LANES_WORK && !has_wide_sums(&e->k->body))
        annotate(e, "minctasm", 2);             /* one group's products beside the other's copies */
    for (int i = 0; i < e->k->size.n + 3; i++)
        word[i] = LLVMGetParam(e->fn, (unsigned)i);
    e->word = word;
    e->scratch = group_memory(e);
    e->allocated = cpu_number(e, 0);
    fixed = cpu_fixed_begin(e, name);
    start = cpu_block(e);
    LLVMBuildBr(e->u->builder, start);
    LLVMPositionBuilderAtEnd(e->u->builder, start);
    e->gpu->thread = cpu_intrinsic(e, "llvm.nvvm.read.ptx.sreg.tid.x", NULL, 0, NULL, 0);
    group = cpu_intrinsic(e, "llvm.nvvm.read.ptx.sreg.ctaid.x", NULL, 0, NULL, 0);
    bind_params(e);
    gpu_rows_memory(e);
    if (e->gpu->roles) {
        bind_maps(e, frame->nmaps);
        roles_emit(e);
    } else if (!gpu_rows_stay(e)) {
        cpu_set_groups(e, LLVMBuildZExt(e->u->builder, gpu_rows_group(e, group), i64_type(e), ""));
        cpu_emit_block(e, &e->k->body);
    }
    if (gpu_rows_beside(e))
        annotate(e, "minctasm", gpu_rows_beside(e));
    LLVMBuildRetVoid(e->u->builder);
    cpu_fixed_end(e, fixed);
    e->word = NULL;
}

/* Threads that the largest tiles have work for: eight a row of a sum, else one for a vector of elements. */
static int64_t useful_threads(const TileBlock *b)
{
    int64_t most = 0, n;

    for (const TileNode *m = b->first; m; m = m->next) {
        const TileType *t = m->op == TOP_reduce ? tile_type(m->in[0]) : m->nout ? &m->type[0] : NULL;
        if (t && t->kind == TILE_VALUE && t->rank) {
            n = m->op == TOP_reduce ? tile_elements(t) / t->extent[m->attr->axis] * 8 : tile_elements(t) / 4;
            most = n > most ? n : most;
        }
        for (int r = 0; r < 2; r++)
            if (m->region[r] && (n = useful_threads(m->region[r])) > most)
                most = n;
    }
    return most;
}

/* As many as the kernel's lanes, or the warps of its schedule, or those that have something to do. */
static int threads_of(const TileKernel *k)
{
    int64_t n = k->lanes > 1 ? k->lanes : tile_schedule(k, "warps", 0) * GPU_WARP;

    if (k->lanes > 1 || n > 0)
        return (int)(n < 2 * LANES_MOST ? n : 2 * LANES_MOST);
    n = useful_threads(&k->body) / GPU_WARP * GPU_WARP;
    return n < GPU_WARP ? GPU_WARP : n > LANES_WORK ? LANES_WORK : (int)n;
}

/* Blocks of these that fit on a processor. */
static int residents(int64_t shared, int threads)
{
    int64_t by_memory = (228 << 10) / (shared + 1024), by_threads = 2048 / threads, n = by_memory < by_threads ? by_memory : by_threads;

    return n < 1 ? 1 : n > 4 ? 4 : (int)n;
}

enum { RINGS_MAX = 96 << 10 };            /* bytes of buffers for what is brought ahead: two groups of a processor have room for theirs */

static bool emit_kernel(Llvm *u, const TileKernel *k, const char *name, bool tensor, GpuFrame *frame, StrBuf *err)
{
    GpuCode gpu = {.threads = threads_of(k), .clean = true, .at_register = -1};
    CpuCode e = {.u = u, .k = k, .err = err, .gpu = &gpu};
    Roles roles;
    Chain chain;
    int n = gpu_rows_begin(&gpu, k, tensor && !strcmp(u->machine->cpu, "sm_90a"));

    gpu.threads = n ? n : gpu.threads;
    if (gpu.threads > LANES_MOST)
        return cpu_refuse(&e, "%d lanes: a group has at most %d", gpu.threads, LANES_MOST);
    if (words_of(k) > GPU_WORDS - 16 * GPU_MAPS - 8)
        return cpu_refuse(&e, "%d parameters: too many for one kernel", words_of(k));
    if (gpu_rows_refuse(&e, tensor) || !cpu_begin(&e))
        return false;
    gpu_find_runs(&e);
    tile_vary(k, &gpu.vary);
    tile_vary_warps(k, &gpu.in_warps);
    gpu.kept = tsr_calloc(k->nnodes + 1);
    gpu.units = true;
    gpu.sums_rows = has_op(&k->body, TOP_reduce);
    gpu.copies = has_op(&k->body, TOP_copy_async);
    *frame = (GpuFrame){.threads = gpu.threads, .cluster = gpu.whole.blocks, .share = -1};
    if (tensor && (roles_find(&e, &roles) || chain_find(&e, &roles, &chain))) {
        gpu.roles = &roles;
        gpu.threads = roles.threads;
        roles_frame(&e, &roles, frame);
        frame->resident = roles_groups(&roles) > 1 ? 1 : residents(roles.shared, frame->threads);
    } else {
        gpu.units = has_units(&e, &k->body);
    }
    if (covered(&e, &k->body))
        emit_frame(&e, name, frame);
    if (!e.failed && e.fixed_bytes > SHARED_MAX)
        cpu_refuse(&e, "%lld bytes of shared memory", (long long)e.fixed_bytes);
    if (!e.failed)
        calls_outside(&e);
    frame->shared = e.fixed_bytes;
    frame->resident = gpu.whole.nstay ? gpu_rows_beside(&e) : frame->resident;
    if (gpu.in_order)
        LLVMSetModuleInlineAsm2(u->module, GPU_IN_ORDER, sizeof GPU_IN_ORDER - 1);
    tile_vary_done(&gpu.vary);
    tile_vary_done(&gpu.in_warps);
    vec_free(&gpu.vectors);
    vec_free(&gpu.taken);
    tsr_free(gpu.kept);
    arena_done(&gpu.arena);
    cpu_end(&e);
    return !e.failed;
}

bool gpu_emit(Llvm *u, const TileKernel *k, const char *name, bool tensor, GpuFrame *frame, StrBuf *err)
{
    int64_t rings = 0;
    TileKernel *ahead = tile_pipelined(k, RINGS_MAX, &rings);
    bool ok = emit_kernel(u, ahead ? ahead : k, name, tensor, frame, err);

    frame->shared += ahead ? rings : 0;                 /* a launch adds the buffers that the kernel itself has */
    tile_kernel_free(ahead);
    return ok;
}
