/*
 * Elements of tiles as vectors of the machine.
 *
 * A tile is not made: whoever needs its elements at a spot asks for them, and
 * they are computed there from the operands at their spots, once for each
 * strip.  Tiles that have a buffer are read from it.
 */
#include "codegen/formula_quick.h"
#include "codegen/gpu_impl.h"

#include <math.h>
#include <string.h>

/* ---- types and constants ---- */

static size_t lane_bytes(DType dt) { return raw_size(lane_dtype(dt)); }

int64_t cpu_tile_bytes(const TileType *t) { return ((tile_elements(t) + 63) / 64 * 64 + 64) * (int64_t)lane_bytes((DType)t->dtype); }

int64_t cpu_level_elements(const CpuCode *e, const TileType *t) { return e->gpu ? tile_elements(t) : (tile_elements(t) + 63) / 64 * 64 + 64; }

int cpu_levels(const CpuCode *e) { return e->gpu ? GPU_LEVELS : TILE_LEVELS; }

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

/* Lanes of one element. */
static LLVMValueRef cpu_constant(CpuCode *e, DType dt, const void *raw)
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
static LLVMValueRef iota(CpuCode *e, const TileNode *n, const Spot *p)
{
    int axis = n->attr->axis;
    LLVMValueRef at = cpu_op(e, LLVMAdd, cpu_val(e, n->in[0])->x, p->at[axis]);

    at = p->strip == axis ? counted(e, at, 1) : lane_splat(e->u, at, e->width);
    return lanes_convert(e->u, (DType)n->type[0].dtype, DT_int64, NULL, at, NULL, NULL, e->width);
}

/* Sums and products of a fast op may be reassociated and contracted; formulas of several steps keep their order, which their bounds are for. */
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

/* Of a value that is at hand as lanes alone, such as one in registers or a scalar; else NULL. */
static LLVMValueRef only_lanes(CpuCode *e, TileRef v, const Spot *p)
{
    Known *k;

    if (!tile_type(v)->rank)
        return cpu_lanes(e, v, p);
    k = v.index ? NULL : known(e, v, p);
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

static bool is_fast(const TileNode *n, OpId op) { return n->op == TOP_map && n->attr->op == op && n->attr->fast; }

/* The tanh or erf that n adds to 1, or the tanh whose square it takes from 1; else NULL. */
static const TileNode *beside_one(const TileNode *n)
{
    bool adds = is_fast(n, OP_add);
    const TileNode *one = n->in[0].node, *x = n->nin == 2 ? n->in[1].node : NULL;

    if (!x || !(adds || is_fast(n, OP_sub)))
        return NULL;
    if (adds && one->op != TOP_const) {
        one = x;
        x = n->in[0].node;
    }
    if (!adds && is_fast(x, OP_mul) && x->in[0].node == x->in[1].node)
        x = x->in[0].node;
    else if (!adds)
        return NULL;
    if (one->op != TOP_const || one->attr->f != 1 || one->type[0].dtype != DT_f32 || x->type[0].dtype != DT_f32)
        return NULL;
    return is_fast(x, OP_tanh) || (adds && is_fast(x, OP_erf)) ? x : NULL;
}

/* By the formula; under fast numerics GPUs compute f32s, and what is computed as such, in their own way. */
static LLVMValueRef computed(CpuCode *e, const TileNode *n, DType as, const LLVMValueRef *in, const Spot *p)
{
    bool quick = n->attr->fast && e->gpu && lane_dtype(as) == DT_f32;
    const TileNode *x = quick ? beside_one(n) : NULL;
    LLVMValueRef y;

    if (x) {
        Spot s = stretched(e, &x->type[0], &n->type[0], p), t = stretched(e, tile_type(x->in[0]), &x->type[0], &s);
        return formula_beside_one(e->u, (OpId)x->attr->op, n->attr->op == OP_sub, cpu_lanes(e, x->in[0], &t), e->width);
    }
    y = quick ? formula_quick(e->u, (OpId)n->attr->op, in, e->width) : NULL;
    if (y)
        return y;
    y = formula_emit(e->u, (OpId)n->attr->op, as, in, n->nin, e->width);
    if (n->attr->fast)
        let_loose(y);
    return y;
}

/* A bf16 times a power of two that is not below 1: bf16 has the exponents of f32, so the product is one already, or infinite. */
static bool raises_bf16(const TileNode *n)
{
    int exponent;

    for (int i = 0; n->attr->op == OP_mul && n->type[0].dtype == DT_bf16 && i < 2; i++) {
        const TileNode *c = n->in[i].node;
        if (c->op == TOP_const && tile_type(n->in[1 - i])->dtype == DT_bf16 && frexp(fabs(c->attr->f), &exponent) == 0.5 && exponent > 0)
            return true;
    }
    return false;
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
    for (int k = 0; k < n->nin; k++) {                  /* a chain of fma has one product's operands at a time: what it adds to comes first */
        int i = n->attr->op == OP_fma ? (k + 2) % 3 : k;
        Spot s = stretched(e, tile_type(n->in[i]), &n->type[0], p);
        DType dt = n->attr->op == OP_where && i == 0 ? DT_bool : as;
        in[i] = cpu_lanes(e, n->in[i], &s);
        if (n->attr->flush)
            in[i] = lanes_flush(e->u, dt, in[i], e->width);
    }
    y.lane = e->gpu ? gpu_rows_is_place(e, n, in) : NULL;
    if (!y.lane)
        y.lane = computed(e, n, as, in, p);
    if (n->attr->flush)
        y.lane = lanes_flush(e->u, to, y.lane, e->width);
    if (!raw_is_lane(to) && !gives_operands((OpId)n->attr->op, to) && !raises_bf16(n)) {      /* only rounded is it the tile's element */
        LLVMValueRef rounded = n->attr->fast ? y.lane : formula_rounded(e->u, to, y.lane, e->width);      /* fast: when it is stored */
        y.raw = rounded ? NULL : lanes_to_raw(e->u, to, y.lane, e->width);
        y.lane = rounded;
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
    if (cpu_val(e, v)->parked && gpu_register_at(e, v, p) >= 0) {
        y.lane = gpu_parked(e, v, gpu_register_at(e, v, p));
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
    case TOP_load: y.raw = cpu_load_strip(e, n, p); return y;
    case TOP_gather: y.raw = cpu_gather_strip(e, n, p); return y;
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
    case TOP_load: y.raw = cpu_load_strip(e, n, &none); break;
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
