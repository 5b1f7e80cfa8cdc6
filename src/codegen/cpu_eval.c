/*
 * Elements of tiles as vectors of the machine.
 *
 * A tile is not made: whoever needs its elements at a spot asks for them, and
 * they are computed there from the operands at their spots, once for each
 * strip.  Tiles that have a buffer are read from it.  Accesses to memory are
 * plain where the cluster knows that they lie within their views, and masked
 * lane by lane where it does not.
 */
#include "codegen/gpu_impl.h"

#include <math.h>
#include <string.h>

/* ---- types and constants ---- */

static size_t lane_bytes(DType dt) { return raw_size(lane_dtype(dt)); }

int64_t cpu_tile_bytes(const TileType *t) { return ((tile_elements(t) + 63) / 64 * 64 + 64) * (int64_t)lane_bytes((DType)t->dtype); }

int64_t cpu_level_elements(const CpuCode *e, const TileType *t) { return e->gpu ? tile_elements(t) : (tile_elements(t) + 63) / 64 * 64 + 64; }

int cpu_levels(const CpuCode *e) { return e->gpu ? GPU_LEVELS : TILE_LEVELS; }

static LLVMTypeRef pointer_type(CpuCode *e) { return LLVMPointerTypeInContext(e->u->context, 0); }

static LLVMValueRef real_constant(CpuCode *e, DType dt, const void *raw)
{
    LLVMTypeRef t = lane_type(e->u, dt, 1);
    int64_t i;

    if (dtype_is_float(dt)) {
        uint64_t bits = 0;
        _Alignas(16) char lane[16];
        raw_to_lane(dt, raw, lane, 1);
        memcpy(&bits, lane, lane_bytes(dt));
        return LLVMConstBitCast(LLVMConstInt(LLVMIntTypeInContext(e->u->context, 8 * (unsigned)lane_bytes(dt)), bits, false), t);
    }
    raw_convert(DT_int64, &i, dt, raw, 1, NULL, 0);
    return LLVMConstInt(t, (uint64_t)i, false);
}

LLVMValueRef cpu_constant(CpuCode *e, DType dt, const void *raw)
{
    DType part = dtype_real(dt);

    if (!dtype_is_complex(dt))
        return real_constant(e, dt, raw);
    return lane_complex(e->u, real_constant(e, part, raw), real_constant(e, part, (const char *)raw + raw_size(part)));
}

LLVMValueRef cpu_fill(CpuCode *e, DType dt, const TileNode *n)
{
    _Alignas(16) char raw[16];

    raw_convert(dt, raw, DT_f64, &n->attr->f, 1, NULL, 0);
    return lanes_to_raw(e->u, dt, cpu_constant(e, dt, raw), 1);
}

LLVMValueRef cpu_identity(CpuCode *e, OpId reduction, DType dt, int width)
{
    _Alignas(16) char raw[16];

    tile_identity(reduction, dt, raw);
    return lane_splat(e->u, cpu_constant(e, dt, raw), width);
}

LLVMValueRef cpu_rounded(CpuCode *e, DType dt, LLVMValueRef x, int width)
{
    LLVMValueRef y = raw_is_lane(dt) ? x : formula_rounded(e->u, dt, x, width);

    return y ? y : lanes_of_raw(e->u, dt, lanes_to_raw(e->u, dt, x, width), width);
}

LLVMValueRef cpu_step(CpuCode *e, OpId op, DType dt, LLVMValueRef a, LLVMValueRef b, int width)
{
    LLVMValueRef y = formula_emit(e->u, op, dt, (LLVMValueRef[]){a, b}, 2, width);

    return e->gpu && (op == OP_maximum || op == OP_minimum) ? y : cpu_rounded(e, dt, y, width);     /* one of two that are rounded */
}

/* ---- lanes that count ---- */

/* 0, 1, 2, ... in i64 lanes, after `from`. */
static LLVMValueRef counted(CpuCode *e, LLVMValueRef from, int64_t by)
{
    LLVMValueRef steps[LANES_MAX];

    if (e->width == 1)
        return from;
    for (int i = 0; i < e->width; i++)
        steps[i] = cpu_number(e, i * by);
    return LLVMBuildAdd(e->u->builder, lane_splat(e->u, from, e->width), LLVMConstVector(steps, (unsigned)e->width), "");
}

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

/* Operands: view, starts; the tile's axes are those of the view without `drop`. */
static Access access(CpuCode *e, const TileNode *n, unsigned drop, const Spot *p)
{
    Access a = {.view = cpu_val(e, n->in[0]), .type = tile_type(n->in[0]), .cls = 0};
    LLVMValueRef rows = NULL, place = NULL;
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
        if (e->masked && strip) {
            across = i;
            place = x;
        } else if (e->masked && !(n->op == TOP_gather && i == 0))
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

enum { LINE = 64, SECOND_CACHE = 2 };           /* bytes; LLVM's name for it */

/* Ask for the strip that lies `i` further along the view's first axis: each line of the cache once. */
static void ask_ahead(CpuCode *e, const TileNode *n, DType dt, const Access *a)
{
    LLVMTypeRef i32 = LLVMInt32TypeInContext(e->u->context), over = pointer_type(e);
    LLVMValueRef from = cpu_op(e, LLVMAdd, a->at, cpu_op(e, LLVMMul, a->view->stride[0], cpu_number(e, n->attr->i)));
    int size = (int)raw_size(dt);

    for (int i = 0; i < e->width; i += LINE / size) {
        LLVMValueRef in[4] = {element(e, dt, a->view->x, cpu_op(e, LLVMAdd, from, cpu_number(e, i))), LLVMConstInt(i32, 0, false),
                              LLVMConstInt(i32, SECOND_CACHE, false), LLVMConstInt(i32, 1, false)};
        cpu_intrinsic(e, "llvm.prefetch", &over, 1, in, 4);
    }
}

/* Raw lanes of a strip. */
static LLVMValueRef load_strip(CpuCode *e, const TileNode *n, const Spot *p)
{
    DType dt = (DType)n->type[0].dtype;
    Access a = access(e, n, n->attr->drop, p);
    LLVMValueRef fill, all, y;

    fill = cpu_fill(e, dt, n);
    if (!a.inside && a.cls == STRIDE_ANY)
        return lanes_load_strided(e->u, dt, a.view->x, a.at, a.stride, e->width);
    if (!a.inside && a.cls == 1) {
        if (n->op == TOP_load && n->attr->i && !e->gpu)
            ask_ahead(e, n, dt, &a);
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

/* Raw lanes of a strip that is gathered. */
static LLVMValueRef gather_strip(CpuCode *e, const TileNode *n, const Spot *p)
{
    DType dt = (DType)tile_type(n->in[1])->dtype;
    Spot at = {.at = {p->at[0]}, .strip = p->strip == 0 ? 0 : -1}, there = *p;
    LLVMValueRef first = LLVMConstInt(LLVMInt32TypeInContext(e->u->context), 0, false);
    LLVMValueRef numbers = lanes_convert(e->u, DT_int64, dt, NULL, cpu_raw(e, n->in[1], &at), NULL, NULL, e->width);

    if (p->strip == 0)
        return load_places(e, n, numbers, p);
    there.at[0] = e->width == 1 ? numbers : LLVMBuildExtractElement(e->u->builder, numbers, first, "");
    return load_strip(e, n, &there);
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

/* Combine one lane with what is at a place, at once: by compare and exchange. */
void cpu_update(CpuCode *e, OpId op, DType dt, LLVMValueRef place, LLVMValueRef lane)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMTypeRef code = code_type(e->u, dt, 1), bits = LLVMIntTypeInContext(e->u->context, 8 * (unsigned)raw_size(dt));
    LLVMValueRef old = LLVMBuildLoad2(b, bits, place, ""), now, new, pair, phi;
    LLVMBasicBlockRef from = LLVMGetInsertBlock(b), loop = cpu_block(e), done = cpu_block(e);

    LLVMBuildBr(b, loop);
    LLVMPositionBuilderAtEnd(b, loop);
    phi = LLVMBuildPhi(b, bits, "");
    LLVMAddIncoming(phi, &old, &from, 1);
    now = lanes_of_raw(e->u, dt, LLVMBuildBitCast(b, phi, code, ""), 1);
    now = formula_emit(e->u, tile_step_op(op), dt, (LLVMValueRef[]){now, lane}, 2, 1);
    new = LLVMBuildBitCast(b, lanes_to_raw(e->u, dt, now, 1), bits, "");
    pair = LLVMBuildAtomicCmpXchg(b, place, phi, new, LLVMAtomicOrderingSequentiallyConsistent, LLVMAtomicOrderingSequentiallyConsistent, false);
    old = LLVMBuildExtractValue(b, pair, 0, "");
    from = LLVMGetInsertBlock(b);
    LLVMAddIncoming(phi, &old, &from, 1);
    LLVMBuildCondBr(b, LLVMBuildExtractValue(b, pair, 1, ""), done, loop);
    LLVMPositionBuilderAtEnd(b, done);
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
    cpu_update(e, (OpId)n->attr->op, dt, element(e, dt, a.view->x, a.at), lane);
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

/* ---- evaluation ---- */

/* The spot of an operand that is stretched to t. */
static Spot stretched(CpuCode *e, const TileType *x, const TileType *t, const Spot *p)
{
    Spot s = *p;

    for (int i = 0; i < x->rank; i++)
        if (x->extent[i] == 1 && t->extent[i] != 1) {
            s.at[i] = cpu_number(e, 0);
            s.strip = s.strip == i ? -1 : s.strip;
        }
    return s;
}

/* Axes longer than 1, in order, of a tile and its reshaped self are the same. */
static Spot reshaped(CpuCode *e, const TileType *x, const TileType *t, const Spot *p)
{
    Spot s = {.strip = -1};
    int k = 0;

    for (int i = 0; i < x->rank; i++) {
        s.at[i] = cpu_number(e, 0);
        if (x->extent[i] == 1)
            continue;
        while (t->extent[k] == 1)
            k++;
        s.at[i] = p->at[k];
        if (p->strip == k)
            s.strip = i;
        k++;
    }
    return s;
}

static Spot permuted(const TileNode *n, const Spot *p)
{
    Spot s = {.strip = -1};

    for (int i = 0; i < n->type[0].rank; i++) {
        s.at[n->attr->axes[i]] = p->at[i];
        if (p->strip == i)
            s.strip = n->attr->axes[i];
    }
    return s;
}

static LLVMValueRef iota(CpuCode *e, const TileNode *n, const Spot *p)
{
    int axis = n->attr->axis;
    LLVMValueRef at = cpu_op(e, LLVMAdd, cpu_val(e, n->in[0])->x, p->at[axis]);

    at = p->strip == axis ? counted(e, at, 1) : lane_splat(e->u, at, e->width);
    return lanes_convert(e->u, (DType)n->type[0].dtype, DT_int64, NULL, at, NULL, NULL, e->width);
}

/* Sums and products of a fast op may be reassociated and contracted; formulas of several steps keep theirs, which their bounds are for. */
static void let_loose(LLVMValueRef x)
{
    LLVMOpcode op = LLVMIsAInstruction(x) ? LLVMGetInstructionOpcode(x) : LLVMRet;

    if (op == LLVMFAdd || op == LLVMFSub || op == LLVMFMul || op == LLVMFDiv)
        LLVMSetFastMathFlags(x, LLVMFastMathAllowReassoc | LLVMFastMathAllowContract | LLVMFastMathAllowReciprocal | LLVMFastMathNoSignedZeros);
}

static Known *known(CpuCode *e, TileRef v, const Spot *p);

/* Are its results operands, but for their signs, and so in need of no rounding? */
static bool gives_operands(OpId op, DType dt)
{
    return (dt == DT_bf16 || dt == DT_f16) && (op == OP_where || op == OP_neg || op == OP_abs || op == OP_maximum || op == OP_minimum);
}

/* Of a value that is at hand as lanes alone, such as one in registers; else NULL. */
static LLVMValueRef only_lanes(CpuCode *e, TileRef v, const Spot *p)
{
    Known *k = tile_type(v)->rank && !v.index ? known(e, v, p) : NULL;

    return k && !k->lanes.raw ? k->lanes.lane : NULL;
}

/* A convert: lanes of a narrow float are its value in the wider one already, and need not be narrowed to be widened. */
static Lanes converted(CpuCode *e, const TileNode *n, const Spot *p)
{
    DType from = tile_map_dtype(OP_convert, n->in), to = (DType)n->type[0].dtype;
    ConvOpts o = {n->attr->rounding, n->attr->saturate != 0, n->attr->flush != 0, 0};
    Spot s = stretched(e, tile_type(n->in[0]), &n->type[0], p);
    Lanes y = {NULL, NULL};

    if (dtype_is_float(from) && from != to && lane_dtype(from) == to && !o.flush)
        y.lane = only_lanes(e, n->in[0], &s);
    if (from == DT_f32 && !o.rounding && !o.saturate && !o.flush)
        y.lane = formula_rounded(e->u, to, cpu_lanes(e, n->in[0], &s), e->width);
    if (!y.lane)
        y.raw = lanes_convert(e->u, to, from, &o, cpu_raw(e, n->in[0], &s), NULL, NULL, e->width);
    return y;
}

static Lanes map(CpuCode *e, const TileNode *n, const Spot *p)
{
    DType as = tile_map_dtype((OpId)n->attr->op, n->in), to = (DType)n->type[0].dtype;
    LLVMValueRef in[3];
    Lanes y = {NULL, NULL};
    int left = e->gpu ? gpu_mask_leaves(e, n) : 0;

    if (left) {
        Spot s = stretched(e, tile_type(n->in[left]), &n->type[0], p);
        y.lane = cpu_lanes(e, n->in[left], &s);
        return y;
    }
    if (n->attr->op == OP_convert)
        return converted(e, n, p);
    for (int i = 0; i < n->nin; i++) {
        Spot s = stretched(e, tile_type(n->in[i]), &n->type[0], p);
        DType dt = n->attr->op == OP_where && i == 0 ? DT_bool : as;
        in[i] = cpu_lanes(e, n->in[i], &s);
        if (n->attr->flush)
            in[i] = lanes_flush(e->u, dt, in[i], e->width);
    }
    y.lane = e->gpu ? gpu_quick(e, n, as, in[0]) : NULL;
    if (!y.lane)
        y.lane = formula_emit(e->u, (OpId)n->attr->op, as, in, n->nin, e->width);
    if (n->attr->flush)
        y.lane = lanes_flush(e->u, to, y.lane, e->width);
    if (n->attr->fast)
        let_loose(y.lane);
    if (!raw_is_lane(to) && !gives_operands((OpId)n->attr->op, to)) {      /* only rounded is it the tile's element */
        LLVMValueRef rounded = n->attr->fast ? NULL : formula_rounded(e->u, to, y.lane, e->width);
        y.raw = rounded ? NULL : lanes_to_raw(e->u, to, y.lane, e->width);
        y.lane = n->attr->fast ? y.lane : rounded;
    }
    return y;
}

static bool same_spot(const Spot *a, const Spot *b, int rank)
{
    for (int i = 0; i < rank; i++)
        if (a->at[i] != b->at[i])
            return false;
    return a->strip == b->strip;
}

/* Of a buffer whose rows have room: element by element, because a row may begin anywhere. */
static LLVMValueRef load_pitched(CpuCode *e, TileRef v, const Spot *p, int stride)
{
    const Val *x = cpu_val(e, v);
    DType lane = lane_dtype((DType)tile_type(v)->dtype);
    LLVMValueRef at = cpu_op(e, LLVMAdd, cpu_op(e, LLVMMul, p->at[0], cpu_number(e, x->pitch)), p->at[1]);

    if (!stride)
        return lane_splat(e->u, lanes_load(e->u, lane, x->x, at, 1), e->width);
    return lanes_load_strided(e->u, lane, x->x, at, cpu_number(e, p->strip == 0 ? x->pitch : 1), e->width);
}

static Lanes evaluate(CpuCode *e, TileRef v, const Spot *p)
{
    const TileNode *n = v.node;
    const TileType *t = tile_type(v);
    Lanes y = {NULL, NULL};
    int stride;
    Spot s;

    if (t->rank == 0) {                         /* in a strip of lanes it may be one for each of them */
        LLVMValueRef x = cpu_val(e, v)->x;
        y.lane = LLVMGetTypeKind(LLVMTypeOf(x)) == LLVMVectorTypeKind ? x : lane_splat(e->u, x, e->width);
        return y;
    }
    if (cpu_val(e, v)->fragment && gpu_register_at(e, v, p) >= 0) {
        y.lane = cpu_val(e, v)->fragment[gpu_register_at(e, v, p)];
        return y;
    }
    if (cpu_val(e, v)->x) {
        LLVMValueRef at = cpu_flat(e, t, p, &stride);
        if (cpu_val(e, v)->pitch) {
            y.lane = load_pitched(e, v, p, stride);
            return y;
        }
        y.lane = cpu_load_flat(e, (DType)t->dtype, cpu_val(e, v)->x, at, stride);
        return y;
    }
    switch (n->op) {
    case TOP_splat:
        s = stretched(e, tile_type(n->in[0]), t, p);
        y.lane = cpu_lanes(e, n->in[0], &s);
        return y;
    case TOP_reshape:
        s = reshaped(e, tile_type(n->in[0]), t, p);
        y.lane = cpu_lanes(e, n->in[0], &s);
        return y;
    case TOP_permute:
        s = permuted(n, p);
        y.lane = cpu_lanes(e, n->in[0], &s);
        return y;
    case TOP_iota: y.raw = iota(e, n, p); return y;
    case TOP_load: y.raw = load_strip(e, n, p); return y;
    case TOP_gather: y.raw = gather_strip(e, n, p); return y;
    case TOP_map: return map(e, n, p);
    default:
        if (!e->failed)
            tsr_bug("%s has no buffer", tile_op_info[n->op].name);
        y.lane = LLVMGetUndef(lane_type(e->u, lane_dtype((DType)t->dtype), e->width));     /* what comes after a refusal is thrown away */
        return y;
    }
}

/* An evaluation is kept for the strip at hand; code in loops inside it is not looked at from outside. */
static Known *known(CpuCode *e, TileRef v, const Spot *p)
{
    Known k = {v.node, *p, {NULL, NULL}};

    for (int i = 0; i < e->known.n; i++)
        if (e->known.at[i].node == v.node && same_spot(&e->known.at[i].spot, p, tile_type(v)->rank))
            return &e->known.at[i];
    k.lanes = evaluate(e, v, p);
    vec_push(&e->known, k);
    return &vec_last(&e->known);
}

LLVMValueRef cpu_lanes(CpuCode *e, TileRef v, const Spot *p)
{
    Known *k;
    int at;

    if (tile_type(v)->rank == 0 || v.index)
        return evaluate(e, v, p).lane;
    k = known(e, v, p);
    at = (int)(k - e->known.at);
    if (!k->lanes.lane)
        e->known.at[at].lanes.lane = lanes_of_raw(e->u, (DType)tile_type(v)->dtype, k->lanes.raw, e->width);
    return e->known.at[at].lanes.lane;
}

LLVMValueRef cpu_raw(CpuCode *e, TileRef v, const Spot *p)
{
    DType dt = (DType)tile_type(v)->dtype;
    Known *k;
    int at;

    if (tile_type(v)->rank == 0 || v.index)
        return lanes_to_raw(e->u, dt, evaluate(e, v, p).lane, e->width);
    k = known(e, v, p);
    at = (int)(k - e->known.at);
    if (!k->lanes.raw)
        e->known.at[at].lanes.raw = lanes_to_raw(e->u, dt, k->lanes.lane, e->width);
    return e->known.at[at].lanes.raw;
}

/* ---- scalars ---- */

LLVMValueRef cpu_map_lanes(CpuCode *e, const TileNode *n)
{
    Spot none = {.strip = -1};
    Lanes y = map(e, n, &none);

    return y.lane ? y.lane : lanes_of_raw(e->u, (DType)n->type[0].dtype, y.raw, e->width);
}

LLVMValueRef cpu_scalar(CpuCode *e, const TileNode *n)
{
    DType dt = (DType)n->type[0].dtype;
    Spot none = {.strip = -1};
    _Alignas(16) char raw[16];
    Lanes y = {NULL, NULL};

    e->width = 1;
    e->masked = true;
    e->known.n = 0;
    switch (n->op) {
    case TOP_const:
        if (dtype_is_float(dt))
            raw_convert(dt, raw, DT_f64, &n->attr->f, 1, NULL, 0);
        else
            raw_convert(dt, raw, DT_int64, &n->attr->i, 1, NULL, 0);
        return cpu_constant(e, dt, raw);
    case TOP_map: y = map(e, n, &none); break;
    case TOP_load: y.raw = load_strip(e, n, &none); break;
    case TOP_to_tile: y.raw = lanes_convert(e->u, dt, DT_int64, NULL, cpu_val(e, n->in[0])->x, NULL, NULL, 1); break;
    case TOP_reshape: case TOP_splat: case TOP_permute: {
        const TileType *x = tile_type(n->in[0]);
        Spot origin = {.strip = -1};
        for (int i = 0; i < x->rank; i++)
            origin.at[i] = cpu_number(e, 0);
        y.lane = cpu_lanes(e, n->in[0], &origin);
        break;
    }
    case TOP_ilt: case TOP_ieq: {
        LLVMIntPredicate is = n->op == TOP_ilt ? LLVMIntSLT : LLVMIntEQ;
        y.lane = lane_bools(e->u, cpu_compare(e, is, cpu_val(e, n->in[0])->x, cpu_val(e, n->in[1])->x), 1);
        break;
    }
    default: tsr_bug("%s is no scalar", tile_op_info[n->op].name);
    }
    return y.lane ? y.lane : lanes_of_raw(e->u, dt, y.raw, 1);
}
