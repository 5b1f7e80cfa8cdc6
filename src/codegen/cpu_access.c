/*
 * Accesses to memory: elements of views, and of the buffers that tiles have.
 *
 * An access is a vector of the machine: of elements side by side, of one that all lanes have, or of such as lie apart.
 * It is plain where the cluster knows that it lies within its view, and masked lane by lane where it does not.
 */
#include "codegen/gpu_impl.h"

static LLVMTypeRef pointer_type(CpuCode *e) { return LLVMPointerTypeInContext(e->u->context, 0); }

/* ---- lanes that count ---- */

/* A number of lanes: x where it is one, in 32 bits, in which vectors compare well. */
static LLVMValueRef clamped(CpuCode *e, LLVMValueRef x)
{
    LLVMTypeRef i64 = LLVMInt64TypeInContext(e->u->context);
    LLVMValueRef in[2] = {cpu_intrinsic(e, "llvm.smax", &i64, 1, (LLVMValueRef[]){x, cpu_number(e, -1)}, 2), cpu_number(e, LANES_MAX)};

    return LLVMBuildTrunc(e->u->builder, cpu_intrinsic(e, "llvm.smin", &i64, 1, in, 2), LLVMInt32TypeInContext(e->u->context), "");
}

LLVMValueRef cpu_lane_mask(CpuCode *e, LLVMValueRef from, LLVMValueRef hi, bool counts, LLVMValueRef all)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMTypeRef i32 = LLVMInt32TypeInContext(e->u->context);
    LLVMValueRef lanes[LANES_MAX], number, end, mask;

    if (e->width == 1) {
        mask = cpu_compare(e, counts ? LLVMIntSLT : LLVMIntULT, from, hi);
        return all ? LLVMBuildAnd(b, all, mask, "") : mask;
    }
    for (int i = 0; i < e->width; i++)
        lanes[i] = LLVMConstInt(i32, (unsigned)i, false);
    number = LLVMConstVector(lanes, (unsigned)e->width);
    end = clamped(e, cpu_op(e, LLVMSub, hi, from));
    if (all)                                    /* one choice of a number, where vectors would need one of each lane */
        end = cpu_choose(e, all, end, LLVMConstInt(i32, 0, false));
    mask = LLVMBuildICmp(b, LLVMIntSLT, number, lane_splat(e->u, end, e->width), "");
    if (counts)
        return mask;
    end = clamped(e, cpu_op(e, LLVMSub, cpu_number(e, 0), from));
    return LLVMBuildAnd(b, LLVMBuildICmp(b, LLVMIntSGE, number, lane_splat(e->u, end, e->width), ""), mask, "");
}

enum { BITS_SURE = 62, BITS_PLACE = 47, STEPS_MAX = 6 };

/* Bits that hold the index, which is not negative; more than BITS_SURE: it may be, as far as so many steps show. */
static int bits_of(TileRef v, int steps)
{
    const TileNode *n = v.node, *loop = n->op == TILE_PARAM && n->block ? n->block->owner : NULL;
    int a = 64, b = 64;

    if (n->op == TOP_index)
        return n->attr->i < 0 ? 64 : n->attr->i ? 64 - __builtin_clzll((unsigned long long)n->attr->i) : 1;
    if (n->op == TOP_size)
        return n->attr->i ? 64 : BITS_PLACE;
    if (n->op == TOP_group || n->op == TOP_lane || n->op == TOP_extent)
        return BITS_PLACE;
    if (loop && loop->op == TOP_for && loop->region[0]->params.at[0] == n && steps)
        return bits_of(loop->in[0], steps - 1) <= BITS_SURE ? BITS_SURE : 64;
    if (!steps || n->nin != 2 || (n->op != TOP_iadd && n->op != TOP_imul && n->op != TOP_imin))
        return 64;
    a = bits_of(n->in[0], steps - 1);
    b = bits_of(n->in[1], steps - 1);
    return a > BITS_SURE || b > BITS_SURE ? 64 : n->op == TOP_imul ? a + b : (a > b ? a : b) + (n->op == TOP_iadd);
}

/* Does the index count, from 0 on? That of what kernels of graphs go through does. */
static bool counts(TileRef v) { return bits_of(v, STEPS_MAX) <= BITS_SURE; }

/* ---- buffers: lanes, row-major ---- */

LLVMValueRef cpu_flat(CpuCode *e, const TileType *t, const Spot *p, int *stride)
{
    LLVMValueRef at = cpu_number(e, 0);
    int64_t step = 1;

    *stride = 0;
    for (int i = t->rank - 1; i >= 0; i--) {
        at = cpu_op(e, LLVMAdd, at, cpu_op(e, LLVMMul, p->at[i], cpu_number(e, step)));
        if (i == p->strip)
            *stride = (int)step;
        step *= t->extent[i];
    }
    return at;
}

LLVMValueRef cpu_load_flat(CpuCode *e, DType dt, LLVMValueRef base, LLVMValueRef at, int stride)
{
    DType lane = lane_dtype(dt);

    if (stride == 0)
        return lane_splat(e->u, lanes_load(e->u, lane, base, at, 1), e->width);
    return stride == 1 ? lanes_load(e->u, lane, base, at, e->width)
                       : lanes_load_strided(e->u, lane, base, at, cpu_number(e, stride), e->width);
}

static LLVMValueRef element(CpuCode *e, DType dt, LLVMValueRef base, LLVMValueRef at)
{
    LLVMTypeRef bytes = LLVMArrayType2(LLVMInt8TypeInContext(e->u->context), raw_size(dt));

    return LLVMBuildGEP2(e->u->builder, bytes, base, &at, 1, "");
}

static LLVMValueRef alignment(CpuCode *e, DType dt)
{
    return LLVMConstInt(LLVMInt32TypeInContext(e->u->context), raw_size(dt), false);
}

/* Store raw lanes where the mask says. */
static void store_masked(CpuCode *e, DType dt, LLVMValueRef place, LLVMValueRef raw, LLVMValueRef mask)
{
    LLVMTypeRef over[2] = {LLVMTypeOf(raw), pointer_type(e)};
    LLVMValueRef in[4] = {raw, place, alignment(e, dt), mask};

    cpu_intrinsic(e, "llvm.masked.store", over, 2, in, 4);
}

void cpu_store_flat(CpuCode *e, DType dt, LLVMValueRef base, LLVMValueRef at, LLVMValueRef lanes, LLVMValueRef mask)
{
    DType lane = lane_dtype(dt);

    if (mask)
        store_masked(e, lane, element(e, lane, base, at), lanes, mask);
    else
        lanes_store(e->u, lane, base, at, lanes, e->width);
}

/* ---- accesses to views ---- */

/* An access: where its first element is, which of its lanes lie within the view, and how far apart they are. */
typedef struct Access {
    const Val *view;
    const TileType *type;
    LLVMValueRef at;            /* in elements from the base */
    LLVMValueRef inside;        /* NULL: all; an i1, or a vector of them */
    LLVMValueRef all;           /* an i1: what `inside` says of all lanes alike; NULL: it differs between them, or there is none */
    LLVMValueRef stride;
    int cls;                    /* 0, 1 or STRIDE_ANY; 0 also where all lanes are one element */
} Access;

static LLVMValueRef and_also(CpuCode *e, LLVMValueRef a, LLVMValueRef b) { return a ? LLVMBuildAnd(e->u->builder, a, b, "") : b; }

/* Where a block begins along an axis of its view. Along the first axis of what is gathered, numbers say where. */
static LLVMValueRef start_of(CpuCode *e, const TileNode *n, int axis)
{
    return n->op == TOP_gather ? cpu_number(e, 0) : cpu_val(e, n->in[1 + axis])->x;
}

/* Is a strip along the axis inside of the view as a whole or not at all? */
static bool ends_with_strip(const CpuCode *e, const TileNode *n, int axis)
{
    return e->width > 1 && n->attr->align && n->attr->align % e->width == 0 && axis == tile_type(n->in[0])->rank - 1;
}

/* Operands: view, starts; the tile's axes are those of the view without `drop`. */
static Access access(CpuCode *e, const TileNode *n, unsigned drop, const Spot *p)
{
    Access a = {.view = cpu_val(e, n->in[0]), .type = tile_type(n->in[0]), .cls = 0};
    LLVMValueRef rows = NULL, place = NULL;
    bool masked = e->masked && !(n->op != TOP_gather && n->attr->within);
    int axis = 0, across = -1;

    a.at = cpu_number(e, 0);
    for (int i = 0; i < a.type->rank; i++) {
        LLVMValueRef x = start_of(e, n, i), extent = a.view->extent[i];
        bool strip = !(drop >> i & 1) && axis == p->strip;
        if (!(drop >> i & 1))
            x = cpu_op(e, LLVMAdd, x, p->at[axis++]);
        a.at = cpu_op(e, LLVMAdd, a.at, cpu_op(e, LLVMMul, x, a.view->stride[i]));
        if (strip) {
            a.cls = a.type->stride[i];
            a.stride = a.view->stride[i];
        }
        if (masked && strip && !ends_with_strip(e, n, i)) {
            across = i;
            place = x;
        } else if (masked && !(n->op == TOP_gather && i == 0))
            rows = and_also(e, rows, cpu_compare(e, LLVMIntULT, x, extent));
    }
    if (across >= 0) {
        a.inside = cpu_lane_mask(e, place, a.view->extent[across], n->op == TOP_gather || counts(n->in[1 + across]), rows);
    } else if (rows) {
        a.inside = lane_splat(e->u, rows, e->width);
        a.all = rows;
    }
    return a;
}

static LLVMValueRef pointers(CpuCode *e, DType dt, const Access *a)
{
    LLVMValueRef steps = lane_splat(e->u, a->stride, e->width), lane[LANES_MAX];

    for (int i = 0; i < e->width; i++)
        lane[i] = cpu_number(e, i);
    steps = LLVMBuildMul(e->u->builder, steps, LLVMConstVector(lane, (unsigned)e->width), "");
    return element(e, dt, a->view->x, LLVMBuildAdd(e->u->builder, lane_splat(e->u, a->at, e->width), steps, ""));
}

static LLVMValueRef any_lane(CpuCode *e, LLVMValueRef mask)
{
    LLVMTypeRef t = LLVMTypeOf(mask);

    return e->width > 1 ? cpu_intrinsic(e, "llvm.vector.reduce.or", &t, 1, &mask, 1) : mask;
}

/* One element, or where it is outside the one in a slot. */
static LLVMValueRef load_one(CpuCode *e, DType dt, const Access *a, LLVMValueRef fill, LLVMValueRef inside)
{
    LLVMValueRef slot, place = element(e, dt, a->view->x, a->at);

    if (inside && e->gpu)
        return gpu_load_if(e, dt, place, inside, fill);
    if (inside) {
        slot = llvm_slot(e->u, LLVMArrayType2(LLVMInt64TypeInContext(e->u->context), 2));
        lanes_store(e->u, dt, slot, cpu_number(e, 0), fill, 1);
        place = cpu_choose(e, inside, place, slot);
    }
    return lanes_load(e->u, dt, place, cpu_number(e, 0), 1);
}

LLVMValueRef cpu_place(CpuCode *e, const TileNode *n, const Spot *p)
{
    bool masked = e->masked;
    Access a;

    e->masked = false;
    a = access(e, n, n->attr->drop, p);
    e->masked = masked;
    return element(e, (DType)a.type->dtype, a.view->x, a.at);
}

/* Of the strip at hand: is the access one of those that are known to be aligned as a vector? */
static bool is_vector(const CpuCode *e, const TileNode *n)
{
    for (int i = 0; e->gpu && i < e->gpu->vectors.n; i++)
        if (e->gpu->vectors.at[i] == n)
            return true;
    return false;
}

enum { LINE = 64 };                             /* bytes */

void cpu_ask(CpuCode *e, LLVMValueRef place, int cache)
{
    LLVMTypeRef i32 = LLVMInt32TypeInContext(e->u->context), over = pointer_type(e);
    LLVMValueRef in[4] = {place, LLVMConstInt(i32, 0, false), LLVMConstInt(i32, (unsigned long long)(4 - cache), false), LLVMConstInt(i32, 1, false)};

    cpu_intrinsic(e, "llvm.prefetch", &over, 1, in, 4);
}

/* Ask for the strip that lies `i` further along the view's first axis, or -i elements further in memory: each line of the cache once. */
static void ask_ahead(CpuCode *e, DType dt, const Access *a, int64_t i)
{
    LLVMValueRef from = cpu_op(e, LLVMAdd, a->at, i < 0 ? cpu_number(e, -i) : cpu_op(e, LLVMMul, a->view->stride[0], cpu_number(e, i)));
    int size = (int)raw_size(dt);

    for (int k = 0; k < e->width; k += LINE / size)
        cpu_ask(e, element(e, dt, a->view->x, cpu_op(e, LLVMAdd, from, cpu_number(e, k))), 2);
}

LLVMValueRef cpu_load_strip(CpuCode *e, const TileNode *n, const Spot *p)
{
    DType dt = (DType)n->type[0].dtype;
    Access a = access(e, n, n->attr->drop, p);
    LLVMValueRef fill, all, y;

    fill = cpu_fill(e, dt, n);
    if (!a.inside && a.cls == STRIDE_ANY)
        return lanes_load_strided(e->u, dt, a.view->x, a.at, a.stride, e->width);
    if (!a.inside && a.cls == 1) {
        int64_t ahead = n->op != TOP_load ? 0 : n->attr->i ? n->attr->i : e->rows_ahead;
        if (ahead && !e->gpu && !is_packed(dt) && (ahead > 0 || e->width > 1))
            ask_ahead(e, dt, &a, ahead);
        y = lanes_load(e->u, dt, a.view->x, a.at, e->width);
        if (e->width > 1 && is_vector(e, n))
            LLVMSetAlignment(y, (unsigned)(e->width * (int)raw_size(dt)));
        return y;
    }
    if (e->width == 1 || a.cls == 0) {
        y = lane_splat(e->u, load_one(e, dt, &a, fill, a.all ? a.all : a.inside ? any_lane(e, a.inside) : NULL), e->width);
        return a.inside && !a.all && e->width > 1 ? cpu_choose(e, a.inside, y, lane_splat(e->u, fill, e->width)) : y;
    }
    all = lane_splat(e->u, fill, e->width);
    if (a.cls == 1) {
        LLVMTypeRef over[2] = {LLVMTypeOf(all), pointer_type(e)};
        LLVMValueRef in[4] = {element(e, dt, a.view->x, a.at), alignment(e, dt), a.inside, all};
        return cpu_intrinsic(e, "llvm.masked.load", over, 2, in, 4);
    }
    LLVMValueRef in[4] = {pointers(e, dt, &a), alignment(e, dt), a.inside, all};
    LLVMTypeRef over[2] = {LLVMTypeOf(all), LLVMTypeOf(in[0])};
    return cpu_intrinsic(e, "llvm.masked.gather", over, 2, in, 4);
}

/* Numbers along the strip: each lane has a place of its own, which is in the view. */
static LLVMValueRef load_places(CpuCode *e, const TileNode *n, LLVMValueRef numbers, const Spot *p)
{
    DType dt = (DType)n->type[0].dtype;
    Spot rest = *p;
    bool masked = e->masked;
    LLVMValueRef in[4], bits[LANES_MAX];
    LLVMTypeRef over[2];
    Access a;

    rest.at[0] = cpu_number(e, 0);
    rest.strip = -1;
    e->masked = false;
    a = access(e, n, 0, &rest);
    e->masked = masked;
    numbers = LLVMBuildMul(e->u->builder, numbers, lane_splat(e->u, a.view->stride[0], e->width), "");
    in[0] = element(e, dt, a.view->x, LLVMBuildAdd(e->u->builder, numbers, lane_splat(e->u, a.at, e->width), ""));
    if (e->width == 1)
        return lanes_load(e->u, dt, in[0], cpu_number(e, 0), 1);
    for (int i = 0; i < e->width; i++)
        bits[i] = LLVMConstInt(LLVMInt1TypeInContext(e->u->context), 1, false);
    in[1] = alignment(e, dt);
    in[2] = LLVMConstVector(bits, (unsigned)e->width);
    in[3] = lane_splat(e->u, cpu_fill(e, dt, n), e->width);
    over[0] = LLVMTypeOf(in[3]);
    over[1] = LLVMTypeOf(in[0]);
    return cpu_intrinsic(e, "llvm.masked.gather", over, 2, in, 4);
}

LLVMValueRef cpu_gather_strip(CpuCode *e, const TileNode *n, const Spot *p)
{
    DType dt = (DType)tile_type(n->in[1])->dtype;
    Spot at = {.at = {p->at[0]}, .strip = p->strip == 0 ? 0 : -1}, there = *p;
    LLVMValueRef first = LLVMConstInt(LLVMInt32TypeInContext(e->u->context), 0, false);
    LLVMValueRef numbers = lanes_convert(e->u, DT_int64, dt, NULL, cpu_raw(e, n->in[1], &at), NULL, NULL, e->width);

    if (p->strip == 0)
        return load_places(e, n, numbers, p);
    there.at[0] = e->width == 1 ? numbers : LLVMBuildExtractElement(e->u->builder, numbers, first, "");
    return cpu_load_strip(e, n, &there);
}

/*
 * A vector that goes to memory without waiting for what the caches lack of its lines: such stores are of whole lines, so they ask where
 * they go.
 */
static void store_past(CpuCode *e, DType dt, const Access *a, LLVMValueRef raw)
{
    LLVMValueRef place = element(e, dt, a->view->x, a->at), one = LLVMConstInt(LLVMInt32TypeInContext(e->u->context), 1, false);
    LLVMValueRef number = LLVMBuildPtrToInt(e->u->builder, place, LLVMInt64TypeInContext(e->u->context), "");
    LLVMValueRef over = cpu_op(e, LLVMAnd, number, cpu_number(e, LINE - 1));
    LLVMBasicBlockRef way[2] = {cpu_block(e), cpu_block(e)}, done = cpu_block(e);
    LLVMValueRef y;

    LLVMBuildCondBr(e->u->builder, cpu_compare(e, LLVMIntEQ, over, cpu_number(e, 0)), way[0], way[1]);
    LLVMPositionBuilderAtEnd(e->u->builder, way[0]);
    y = LLVMBuildStore(e->u->builder, raw, place);
    LLVMSetAlignment(y, LINE);
    LLVMSetMetadata(y, LLVMGetMDKindIDInContext(e->u->context, "nontemporal", 11), LLVMMDNodeInContext(e->u->context, &one, 1));
    LLVMBuildBr(e->u->builder, done);
    LLVMPositionBuilderAtEnd(e->u->builder, way[1]);
    lanes_store(e->u, dt, a->view->x, a->at, raw, e->width);
    LLVMBuildBr(e->u->builder, done);
    LLVMPositionBuilderAtEnd(e->u->builder, done);
}

/* Does the store, of a strip, go past the caches? */
static bool goes_past(const CpuCode *e, const TileNode *n, DType dt)
{
    return n->op == TOP_store && n->attr->i && !e->gpu && !is_packed(dt) && !dtype_is_complex(dt) && e->width * (int)raw_size(dt) >= LINE;
}

void cpu_store(CpuCode *e, const TileNode *n, TileRef v, const Spot *p)
{
    DType dt = (DType)tile_type(v)->dtype;
    Access a = access(e, n, n->attr->drop, p);
    LLVMValueRef raw = cpu_raw(e, v, p);
    int32_t extent = p->strip >= 0 ? tile_type(v)->extent[p->strip] : e->width;

    if (extent % e->width)                      /* the last strip reaches over the tile's end */
        a.inside = and_also(e, a.inside, cpu_lane_mask(e, p->at[p->strip], cpu_number(e, extent), true, NULL));
    if (e->width == 1 && a.inside && e->gpu) {
        gpu_store_if(e, dt, element(e, dt, a.view->x, a.at), a.inside, raw);
    } else if (e->width == 1) {
        LLVMValueRef place = element(e, dt, a.view->x, a.at);
        if (a.inside)
            place = cpu_choose(e, a.inside, place, llvm_slot(e->u, LLVMArrayType2(LLVMInt64TypeInContext(e->u->context), 2)));
        lanes_store(e->u, dt, place, cpu_number(e, 0), raw, 1);
    } else if (!a.inside) {
        if (a.cls == 1 && is_vector(e, n))
            LLVMSetAlignment(LLVMBuildStore(e->u->builder, raw, element(e, dt, a.view->x, a.at)), (unsigned)(e->width * (int)raw_size(dt)));
        else if (a.cls == 1 && goes_past(e, n, dt))
            store_past(e, dt, &a, raw);
        else if (a.cls == 1)
            lanes_store(e->u, dt, a.view->x, a.at, raw, e->width);
        else
            lanes_store_strided(e->u, dt, a.view->x, a.at, a.stride, raw, e->width);
    } else if (a.cls == 1) {
        store_masked(e, dt, element(e, dt, a.view->x, a.at), raw, a.inside);
    } else {
        LLVMValueRef in[4] = {raw, pointers(e, dt, &a), alignment(e, dt), a.inside};
        LLVMTypeRef over[2] = {LLVMTypeOf(raw), LLVMTypeOf(in[1])};
        cpu_intrinsic(e, "llvm.masked.scatter", over, 2, in, 4);
    }
}

/* The instruction that machines have for an update of integers. false: they have none. */
static bool has_instruction(const TileNode *n, DType dt, LLVMAtomicRMWBinOp *op)
{
    bool is_unsigned = dtype_info[dt].kind == DK_UINT;

    switch (n->attr->op) {
    case OP_sum: *op = LLVMAtomicRMWBinOpAdd; break;
    case OP_max: *op = is_unsigned ? LLVMAtomicRMWBinOpUMax : LLVMAtomicRMWBinOpMax; break;
    case OP_min: *op = is_unsigned ? LLVMAtomicRMWBinOpUMin : LLVMAtomicRMWBinOpMin; break;
    case OP_prod: return false;
    case OP_bitand: *op = LLVMAtomicRMWBinOpAnd; break;
    case OP_bitor: *op = LLVMAtomicRMWBinOpOr; break;
    case OP_bitxor: *op = LLVMAtomicRMWBinOpXor; break;
    default: *op = LLVMAtomicRMWBinOpXchg;
    }
    return dtype_is_int(dt);
}

/* By compare and exchange, until nobody came between. */
static LLVMValueRef until_done(CpuCode *e, const TileNode *n, DType dt, LLVMValueRef place, LLVMValueRef lane, LLVMValueRef expected)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMTypeRef code = code_type(e->u, dt, 1), bits = LLVMIntTypeInContext(e->u->context, 8 * (unsigned)raw_size(dt));
    LLVMValueRef old = LLVMBuildLoad2(b, bits, place, ""), new, pair, phi;
    LLVMBasicBlockRef from = LLVMGetInsertBlock(b), loop = cpu_block(e), done = cpu_block(e);
    OpId step = tile_update_step((OpId)n->attr->op);

    LLVMBuildBr(b, loop);
    LLVMPositionBuilderAtEnd(b, loop);
    phi = LLVMBuildPhi(b, bits, "");
    LLVMAddIncoming(phi, &old, &from, 1);
    new = lanes_of_raw(e->u, dt, LLVMBuildBitCast(b, phi, code, ""), 1);
    new = step == OP_COUNT ? lane : formula_emit(e->u, step, dt, (LLVMValueRef[]){new, lane}, 2, 1);
    new = LLVMBuildBitCast(b, lanes_to_raw(e->u, dt, new, 1), bits, "");
    if (expected) {
        expected = LLVMBuildBitCast(b, lanes_to_raw(e->u, dt, expected, 1), bits, "");
        new = cpu_choose(e, cpu_compare(e, LLVMIntEQ, phi, expected), new, phi);
    }
    pair = LLVMBuildAtomicCmpXchg(b, place, phi, new, LLVMAtomicOrderingSequentiallyConsistent, LLVMAtomicOrderingSequentiallyConsistent, false);
    old = LLVMBuildExtractValue(b, pair, 0, "");
    from = LLVMGetInsertBlock(b);
    LLVMAddIncoming(phi, &old, &from, 1);
    LLVMBuildCondBr(b, LLVMBuildExtractValue(b, pair, 1, ""), done, loop);
    LLVMPositionBuilderAtEnd(b, done);
    return lanes_of_raw(e->u, dt, LLVMBuildBitCast(b, phi, code, ""), 1);
}

LLVMValueRef cpu_update(CpuCode *e, const TileNode *n, DType dt, LLVMValueRef place, LLVMValueRef lane, LLVMValueRef expected)
{
    LLVMAtomicOrdering order = e->gpu ? LLVMAtomicOrderingMonotonic : LLVMAtomicOrderingSequentiallyConsistent;
    LLVMAtomicRMWBinOp op;
    LLVMValueRef old;

    if (expected || !has_instruction(n, dt, &op))
        return until_done(e, n, dt, place, lane, expected);
    old = LLVMBuildAtomicRMW(e->u->builder, op, place, lanes_to_raw(e->u, dt, lane, 1), order, false);
    return lanes_of_raw(e->u, dt, old, 1);
}

LLVMValueRef cpu_expected(CpuCode *e, const TileNode *n, LLVMValueRef (*lanes)(CpuCode *e, TileRef v))
{
    return n->op == TOP_update && tile_expects(n) ? lanes(e, n->in[n->nin - 2]) : NULL;
}

static LLVMValueRef scalar_lane(CpuCode *e, TileRef v) { return cpu_lanes(e, v, &(Spot){.strip = -1}); }

void cpu_take(CpuCode *e, const TileNode *n, LLVMValueRef who)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMBasicBlockRef from[2], first = cpu_block(e), done = cpu_block(e);
    LLVMValueRef lane, expected, way[2];
    Access a;

    e->width = 1;
    e->masked = true;
    e->known.n = 0;
    a = access(e, n, n->attr->drop, &(Spot){.strip = -1});
    lane = scalar_lane(e, n->in[n->nin - 1]);
    expected = cpu_expected(e, n, scalar_lane);
    way[0] = LLVMConstNull(LLVMTypeOf(lane));
    from[0] = LLVMGetInsertBlock(b);
    who = who && a.inside ? LLVMBuildAnd(b, who, a.inside, "") : who ? who : a.inside;
    LLVMBuildCondBr(b, who ? who : LLVMConstInt(LLVMInt1TypeInContext(e->u->context), 1, false), first, done);
    LLVMPositionBuilderAtEnd(b, first);
    way[1] = cpu_update(e, n, (DType)n->type[0].dtype, element(e, (DType)n->type[0].dtype, a.view->x, a.at), lane, expected);
    from[1] = LLVMGetInsertBlock(b);
    LLVMBuildBr(b, done);
    LLVMPositionBuilderAtEnd(b, done);
    lane = LLVMBuildPhi(b, LLVMTypeOf(lane), "");
    LLVMAddIncoming(lane, way, from, 2);
    cpu_val(e, (TileRef){(TileNode *)n, 0})->x = lane;
    e->known.n = 0;
}

void cpu_atomic(CpuCode *e, const TileNode *n, TileRef v, const Spot *p)
{
    DType dt = (DType)tile_type(v)->dtype;
    LLVMBuilderRef b = e->u->builder;
    Access a = access(e, n, n->attr->drop, p);
    LLVMValueRef lane = cpu_lanes(e, v, p);
    LLVMBasicBlockRef done = cpu_block(e), first = cpu_block(e);

    LLVMBuildCondBr(b, a.inside ? a.inside : LLVMConstInt(LLVMInt1TypeInContext(e->u->context), 1, false), first, done);
    LLVMPositionBuilderAtEnd(b, first);
    cpu_update(e, n, dt, element(e, dt, a.view->x, a.at), lane, NULL);
    LLVMBuildBr(b, done);
    LLVMPositionBuilderAtEnd(b, done);
}

LLVMValueRef cpu_room(CpuCode *e, const TileNode *n, int axis)
{
    return cpu_op(e, LLVMSub, cpu_val(e, n->in[0])->extent[axis], start_of(e, n, axis));
}

LLVMValueRef cpu_fits(CpuCode *e, const TileNode *n, int except, const LLVMValueRef *upto, LLVMValueRef all)
{
    const Val *view = cpu_val(e, n->in[0]);
    const TileType *t = cpu_reads(n) ? NULL : tile_type(n->in[n->nin - 1]);
    int rank = tile_type(n->in[0])->rank, axis = 0;

    for (int i = n->op == TOP_gather; i < rank; i++) {
        LLVMValueRef x = start_of(e, n, i);
        int32_t length = cpu_reads(n) ? n->attr->shape[i] : n->attr->drop >> i & 1 ? 1 : t->extent[axis++];
        LLVMValueRef end = cpu_op(e, LLVMAdd, x, upto && upto[i] ? upto[i] : cpu_number(e, length));
        all = and_also(e, all, cpu_compare(e, LLVMIntSLE, cpu_number(e, 0), x));
        if (i != except)
            all = and_also(e, all, cpu_compare(e, LLVMIntSLE, end, view->extent[i]));
    }
    return all;
}
