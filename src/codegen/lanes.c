/*
 * Memory and conversions.
 *
 * A complex element is two numbers next to each other: whole vectors of them
 * are loaded and taken apart by shuffles.  Packed elements are bits of bytes,
 * one lane at a time.  Conversions go the way that raw_convert goes (convert.h);
 * what it does element by element, compiled code does by calling it on a run
 * in its stack.
 */
#include "codegen/lanes.h"

#include "ir/core/dtype_code.h"
#include "runtime/called.h"

/* ---- addresses ---- */

static LLVMValueRef i64_value(const Llvm *u, int64_t v) { return LLVMConstInt(LLVMInt64TypeInContext(u->context), (uint64_t)v, true); }

static LLVMTypeRef byte_type(const Llvm *u) { return LLVMInt8TypeInContext(u->context); }

static LLVMValueRef byte_at(Llvm *u, LLVMValueRef base, LLVMValueRef offset)
{
    return LLVMBuildGEP2(u->builder, byte_type(u), base, &offset, 1, "");
}

static LLVMValueRef place(Llvm *u, DType t, LLVMValueRef base, LLVMValueRef index)
{
    return byte_at(u, base, LLVMBuildMul(u->builder, index, i64_value(u, (int64_t)raw_size(t)), ""));
}

static LLVMValueRef number(const Llvm *u, unsigned v) { return LLVMConstInt(LLVMInt32TypeInContext(u->context), v, false); }

static LLVMValueRef load(Llvm *u, LLVMTypeRef type, LLVMValueRef at, size_t align)
{
    LLVMValueRef v = LLVMBuildLoad2(u->builder, type, at, "");

    LLVMSetAlignment(v, (unsigned)align);
    return v;
}

static void store(Llvm *u, LLVMValueRef v, LLVMValueRef at, size_t align)
{
    LLVMSetAlignment(LLVMBuildStore(u->builder, v, at), (unsigned)align);
}

/* ---- complex numbers: real and imaginary parts alternate ---- */

static LLVMTypeRef two_of(LLVMTypeRef part, int width) { return LLVMVectorType(part, 2 * (unsigned)width); }

/* Every second lane of both, from `first` on. */
static LLVMValueRef every_second(Llvm *u, LLVMValueRef both, unsigned first, int width)
{
    LLVMValueRef at[LANES_MAX];

    if (width == 1)
        return LLVMBuildExtractElement(u->builder, both, number(u, first), "");
    for (int i = 0; i < width; i++)
        at[i] = number(u, first + 2 * (unsigned)i);
    return LLVMBuildShuffleVector(u->builder, both, both, LLVMConstVector(at, (unsigned)width), "");
}

static LLVMValueRef load_complex(Llvm *u, DType t, LLVMValueRef at, int width)
{
    LLVMTypeRef part = lane_type(u, dtype_real(t), 1);
    LLVMValueRef both = load(u, two_of(part, width), at, raw_size(t) / 2);
    LLVMValueRef re = every_second(u, both, 0, width), im = every_second(u, both, 1, width);

    return lane_complex(u, re, im);
}

static LLVMValueRef interleaved(Llvm *u, LLVMValueRef z, int width)
{
    LLVMValueRef re = lane_part(u, z, 0), im = lane_part(u, z, 1), at[2 * LANES_MAX];

    if (width == 1)
        return lane_with(u, lane_with(u, LLVMGetPoison(two_of(LLVMTypeOf(re), 1)), re, 0), im, 1);
    for (int i = 0; i < 2 * width; i++)
        at[i] = number(u, (unsigned)(i / 2 + i % 2 * width));
    return LLVMBuildShuffleVector(u->builder, re, im, LLVMConstVector(at, 2 * (unsigned)width), "");
}

/* ---- packed elements: `bits` bits from bit index * bits on, which lie in one byte or two ---- */

typedef struct Bits { LLVMValueRef low, high, shift; unsigned mask; bool spills; } Bits;

static Bits bits_of_element(Llvm *u, DType t, LLVMValueRef base, LLVMValueRef index)
{
    unsigned w = dtype_info[t].sbits;
    LLVMBuilderRef b = u->builder;
    LLVMValueRef bit = LLVMBuildMul(b, index, i64_value(u, w), ""), last = LLVMBuildAdd(b, bit, i64_value(u, w - 1), "");

    return (Bits){
        .low = byte_at(u, base, LLVMBuildLShr(b, bit, i64_value(u, 3), "")),
        .high = byte_at(u, base, LLVMBuildLShr(b, last, i64_value(u, 3), "")),      /* the same byte when it does not spill */
        .shift = LLVMBuildTrunc(b, LLVMBuildAnd(b, bit, i64_value(u, 7), ""), LLVMInt16TypeInContext(u->context), ""),
        .mask = (1u << w) - 1,
        .spills = 8 % w != 0,
    };
}

static LLVMValueRef short_value(const Llvm *u, unsigned v) { return LLVMConstInt(LLVMInt16TypeInContext(u->context), v, false); }

static LLVMValueRef load_short(Llvm *u, LLVMValueRef at)
{
    return LLVMBuildZExt(u->builder, load(u, byte_type(u), at, 1), LLVMInt16TypeInContext(u->context), "");
}

static void store_short(Llvm *u, LLVMValueRef v, LLVMValueRef at)
{
    store(u, LLVMBuildTrunc(u->builder, v, byte_type(u), ""), at, 1);
}

static LLVMValueRef load_bits(Llvm *u, const Bits *p)
{
    LLVMBuilderRef b = u->builder;
    LLVMValueRef v = load_short(u, p->low);

    if (p->spills)
        v = LLVMBuildOr(b, v, LLVMBuildShl(b, load_short(u, p->high), short_value(u, 8), ""), "");
    v = LLVMBuildAnd(b, LLVMBuildLShr(b, v, p->shift, ""), short_value(u, p->mask), "");
    return LLVMBuildTrunc(b, v, byte_type(u), "");
}

/* The byte at `at`, with v where the mask has ones. */
static void merge(Llvm *u, LLVMValueRef at, LLVMValueRef mask, LLVMValueRef v)
{
    LLVMBuilderRef b = u->builder;

    store_short(u, LLVMBuildOr(b, LLVMBuildAnd(b, load_short(u, at), LLVMBuildNot(b, mask, ""), ""), v, ""), at);
}

static void store_bits(Llvm *u, const Bits *p, LLVMValueRef element)
{
    LLVMBuilderRef b = u->builder;
    LLVMValueRef v = LLVMBuildZExt(b, element, LLVMInt16TypeInContext(u->context), ""), eight = short_value(u, 8), mask;

    v = LLVMBuildShl(b, LLVMBuildAnd(b, v, short_value(u, p->mask), ""), p->shift, "");
    mask = LLVMBuildShl(b, short_value(u, p->mask), p->shift, "");
    merge(u, p->low, mask, v);
    if (p->spills)
        merge(u, p->high, LLVMBuildLShr(b, mask, eight, ""), LLVMBuildLShr(b, v, eight, ""));
}

/* ---- loads and stores ---- */

static LLVMValueRef load_one(Llvm *u, DType t, LLVMValueRef base, LLVMValueRef index)
{
    if (!is_packed(t))
        return dtype_is_complex(t) ? load_complex(u, t, place(u, t, base, index), 1)
                                   : load(u, code_type(u, t, 1), place(u, t, base, index), raw_size(t));
    Bits p = bits_of_element(u, t, base, index);
    return load_bits(u, &p);
}

static void store_one(Llvm *u, DType t, LLVMValueRef base, LLVMValueRef index, LLVMValueRef raw)
{
    if (is_packed(t)) {
        Bits p = bits_of_element(u, t, base, index);
        store_bits(u, &p, raw);
    } else if (dtype_is_complex(t)) {
        store(u, interleaved(u, raw, 1), place(u, t, base, index), raw_size(t) / 2);
    } else {
        store(u, raw, place(u, t, base, index), raw_size(t));
    }
}

static LLVMValueRef nth(Llvm *u, LLVMValueRef index, LLVMValueRef stride, int i)
{
    return LLVMBuildAdd(u->builder, index, LLVMBuildMul(u->builder, stride, i64_value(u, i), ""), "");
}

LLVMValueRef lanes_load_strided(Llvm *u, DType t, LLVMValueRef base, LLVMValueRef index, LLVMValueRef stride, int width)
{
    LLVMValueRef all = NULL;

    if (width == 1)
        return load_one(u, t, base, index);
    for (int i = 0; i < width; i++) {
        LLVMValueRef one = load_one(u, t, base, nth(u, index, stride, i));
        all = lane_with(u, all ? all : LLVMGetPoison(code_type(u, t, width)), one, i);
    }
    return all;
}

void lanes_store_strided(Llvm *u, DType t, LLVMValueRef base, LLVMValueRef index, LLVMValueRef stride, LLVMValueRef raw, int width)
{
    for (int i = 0; i < width; i++)
        store_one(u, t, base, nth(u, index, stride, i), lane_get(u, raw, i, width));
}

LLVMValueRef lanes_load(Llvm *u, DType t, LLVMValueRef base, LLVMValueRef index, int width)
{
    if (is_packed(t))
        return lanes_load_strided(u, t, base, index, i64_value(u, 1), width);
    if (dtype_is_complex(t))
        return load_complex(u, t, place(u, t, base, index), width);
    return load(u, code_type(u, t, width), place(u, t, base, index), raw_size(t));
}

void lanes_store(Llvm *u, DType t, LLVMValueRef base, LLVMValueRef index, LLVMValueRef raw, int width)
{
    if (is_packed(t))
        lanes_store_strided(u, t, base, index, i64_value(u, 1), raw, width);
    else if (dtype_is_complex(t))
        store(u, interleaved(u, raw, width), place(u, t, base, index), raw_size(t) / 2);
    else
        store(u, raw, place(u, t, base, index), raw_size(t));
}

/* ---- raw and lanes ---- */

LLVMValueRef lanes_side_by_side(Llvm *u, DType t, const LLVMValueRef *raw, int n)
{
    LLVMTypeRef i32 = LLVMInt32TypeInContext(u->context);
    LLVMValueRef pairs = LLVMGetPoison(LLVMVectorType(i32, (unsigned)(n > 1 ? n / 2 : 1))), pair;
    LLVMValueRef all = LLVMGetPoison(LLVMVectorType(code_type(u, t, 1), (unsigned)n));

    for (int i = 0; n > 1 && i < n; i += 2) {
        if (!(pair = formula_pair(u, t, raw[i], raw[i + 1])))
            break;
        pairs = LLVMBuildInsertElement(u->builder, pairs, pair, LLVMConstInt(i32, (unsigned)i / 2, false), "");
        if (i + 2 == n)
            return LLVMBuildBitCast(u->builder, pairs, LLVMTypeOf(all), "");
    }
    for (int i = 0; i < n; i++)
        all = LLVMBuildInsertElement(u->builder, all, raw[i], LLVMConstInt(i32, (unsigned)i, false), "");
    return all;
}

LLVMValueRef lanes_of_raw(Llvm *u, DType t, LLVMValueRef raw, int width)
{
    LLVMValueRef lanes = formula_decode(u, t, raw, width);

    return lanes ? lanes : t == DT_int4 ? formula_more(u, FORMULA_sign_extend4, &raw, width) : raw;
}

LLVMValueRef lanes_to_raw(Llvm *u, DType t, LLVMValueRef lanes, int width)
{
    LLVMValueRef raw = formula_encode(u, t, lanes, width);

    if (raw)
        return raw;
    if (t != DT_int4 && t != DT_uint4)
        return lanes;
    return LLVMBuildAnd(u->builder, lanes, lane_splat(u, LLVMConstInt(byte_type(u), 15, false), width), "");
}

LLVMValueRef lanes_flush(Llvm *u, DType t, LLVMValueRef x, int width)
{
    FormulaId id = dtype_real(lane_dtype(t)) == DT_f64 ? FORMULA_flush_f64 : FORMULA_flush_f32;
    LLVMValueRef part[2];

    if (!dtype_is_inexact(t))
        return x;
    if (!dtype_is_complex(t))
        return formula_more(u, id, &x, width);
    for (int i = 0; i < 2; i++) {
        LLVMValueRef p = lane_part(u, x, i);
        part[i] = formula_more(u, id, &p, width);
    }
    return lane_complex(u, part[0], part[1]);
}

/* ---- conversions ---- */

static LLVMValueRef plain(Llvm *u, DType to, DType from, LLVMValueRef raw, int width)
{
    DType lf = lane_dtype(from), lt = lane_dtype(to);
    LLVMValueRef x = lanes_of_raw(u, from, raw, width);

    if (convert_to_odd(to, from)) {
        x = formula_lane(u, DT_f64, lf, x, width);
        x = formula_more(u, FORMULA_to_odd, &x, width);
    } else if (lf != lt) {
        x = formula_lane(u, lt, lf, x, width);
    }
    if (convert_clamps4(to, from))
        x = formula_more(u, to == DT_int4 ? FORMULA_clamp_int4 : FORMULA_clamp_uint4, &x, width);
    return lanes_to_raw(u, to, x, width);
}

static LLVMValueRef clamped(Llvm *u, DType to, DType from, LLVMValueRef raw, int width)
{
    LLVMValueRef max = LLVMConstReal(LLVMFloatTypeInContext(u->context), dtype_max(to));
    LLVMValueRef x[] = {lanes_of_raw(u, from, raw, width), lane_splat(u, max, width)};

    return lanes_to_raw(u, to, formula_more(u, FORMULA_clamp_f32, x, width), width);
}

/* Bytes in a slot for packed elements, as in memory for others. */
static LLVMValueRef run_slot(Llvm *u, DType t, int width)
{
    return llvm_slot(u, LLVMArrayType2(LLVMInt64TypeInContext(u->context), (raw_size(t) * (unsigned)width + 7) / 8));
}

static LLVMValueRef exact(Llvm *u, DType to, DType from, const ConvOpts *o, LLVMValueRef raw, LLVMValueRef first, LLVMValueRef seed, int width)
{
    static const ConvOpts nearest;
    LLVMTypeRef i64 = LLVMInt64TypeInContext(u->context), ptr = LLVMPointerTypeInContext(u->context, 0);
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(u->context), (LLVMTypeRef[]){i64, ptr, ptr, i64, i64, i64}, 6, false);
    LLVMValueRef fn = LLVMGetNamedFunction(u->module, "tsr_convert_run"), src = run_slot(u, from, width), dst = run_slot(u, to, width);

    called_offer();
    o = o ? o : &nearest;
    fn = fn ? fn : LLVMAddFunction(u->module, "tsr_convert_run", type);
    if (dtype_is_complex(from))
        raw = interleaved(u, raw, width);
    store(u, raw, src, 8);
    int64_t how = to | from << 8 | (int64_t)o->rounding << 16 | (int64_t)o->saturate << 24 | (int64_t)o->flush << 32;
    LLVMBuildCall2(u->builder, type, fn, (LLVMValueRef[]){i64_value(u, how), dst, src, i64_value(u, width),
                   seed ? seed : i64_value(u, (int64_t)o->seed), first ? first : i64_value(u, 0)}, 6, "");
    return dtype_is_complex(to) ? load_complex(u, to, dst, width) : load(u, code_type(u, to, width), dst, 8);
}

LLVMValueRef lanes_convert(Llvm *u, DType to, DType from, const ConvOpts *o, LLVMValueRef raw, LLVMValueRef first, LLVMValueRef seed,
                           int width)
{
    switch (convert_way(to, from, o)) {
    case CONV_COPY: return raw;
    case CONV_PLAIN: return plain(u, to, from, raw, width);
    case CONV_CLAMPED: return clamped(u, to, from, raw, width);
    default: return exact(u, to, from, o, raw, first, seed, width);
    }
}
