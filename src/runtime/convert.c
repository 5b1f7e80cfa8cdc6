/*
 * Runs of elements between dtypes.
 *
 * Default conversions go raw -> lane -> lane -> raw with branch-free loops that
 * the compiler vectorises.  Where that would round twice (a source wider than
 * f32 into a float narrower than f32), the step through f32 rounds to odd,
 * which the second rounding cannot notice (Boldo and Melquiond, 2008).  Any
 * other rounding mode or policy takes the exact encoder, element by element.
 */
#include "runtime/convert.h"

#include "base/alloc.h"
#include "ir/core/dtype_code.h"
#include "runtime/codec_formulas.h"
#include "runtime/cpu.h"
#include "runtime/philox.h"
#include "runtime/scalar.h"


static const Codecs *codecs(void) { return cpu()->codecs; }

enum { RUN = 256 };             /* elements converted at a time through buffers on the stack */

DType lane_dtype(DType t)
{
    switch (t) {
    case DT_int4: return DT_int8;
    case DT_uint4: return DT_uint8;
    case DT_fp4: case DT_fp6: case DT_fp8_e4m3: case DT_fp8_e5m2: case DT_f16: case DT_bf16: case DT_tf32:
        return DT_f32;
    default: return t;
    }
}

size_t raw_size(DType t)
{
    return dtype_info[t].sbits < 8 ? 1 : dtype_info[t].sbits / 8;
}

/* ---- packed bits: element i occupies bits [i*w, i*w + w), lowest first ---- */

void raw_unpack(DType t, const void *base, int64_t at, int64_t n, uint8_t *dst)
{
    const uint8_t *p = base;
    unsigned w = dtype_info[t].sbits, mask = (1u << w) - 1;

    for (int64_t i = 0; i < n; i++) {
        uint64_t bit = (uint64_t)(at + i) * w;
        unsigned v = p[bit / 8];
        if (bit % 8 + w > 8)
            v |= (unsigned)p[bit / 8 + 1] << 8;
        dst[i] = (uint8_t)(v >> bit % 8 & mask);
    }
}

void raw_pack(DType t, void *base, int64_t at, int64_t n, const uint8_t *src)
{
    uint8_t *p = base;
    unsigned w = dtype_info[t].sbits, mask = (1u << w) - 1;

    for (int64_t i = 0; i < n; i++) {
        uint64_t bit = (uint64_t)(at + i) * w;
        unsigned s = bit % 8, v = (src[i] & mask) << s, m = mask << s;
        p[bit / 8] = (uint8_t)((p[bit / 8] & ~m) | v);
        if (s + w > 8)
            p[bit / 8 + 1] = (uint8_t)((p[bit / 8 + 1] & ~(m >> 8)) | v >> 8);
    }
}

/* ---- narrow floats and 4-bit ints ---- */

static void extend4(const void *src, void *dst, int64_t n)
{
    const uint8_t *s = src;
    int8_t *d = dst;

    for (int64_t i = 0; i < n; i++)
        d[i] = sign_extend4(s[i]);
}

void raw_to_lane(DType t, const void *raw, void *lane, int64_t n)
{
    if (codecs()->decode[t])
        codecs()->decode[t](raw, lane, n);
    else if (t == DT_int4)
        extend4(raw, lane, n);
    else
        memcpy(lane, raw, (size_t)n * raw_size(t));
}

void lane_to_raw(DType t, const void *lane, void *raw, int64_t n)
{
    if (codecs()->encode[t]) {
        codecs()->encode[t](lane, raw, n);
        return;
    }
    memcpy(raw, lane, (size_t)n * raw_size(t));
    if (t == DT_int4 || t == DT_uint4)
        for (int64_t i = 0; i < n; i++)
            ((uint8_t *)raw)[i] &= 15;
}

static void flush_f32(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = f32_flush(x[i]);
}

static void flush_f64(double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = f64_flush(x[i]);
}

void lane_flush(DType t, void *x, int64_t n)
{
    switch (lane_dtype(t)) {
    case DT_f32: flush_f32(x, n); break;
    case DT_c64: flush_f32(x, 2 * n); break;
    case DT_f64: flush_f64(x, n); break;
    case DT_c128: flush_f64(x, 2 * n); break;
    default: break;
    }
}

/* ---- lane to lane ---- */

void lane_convert(DType to, void *dst, DType from, const void *src, int64_t n)
{
    codecs()->lane[to][from](src, dst, n);
}

/* ---- raw to raw ---- */

/* Does a value of `from` fit f32 exactly? */
static bool exact_in_f32(DType from)
{
    const DTypeInfo *d = &dtype_info[from];

    return from == DT_c64 || from == DT_bool || (dtype_is_float(from) ? d->mbits <= 23 : dtype_is_int(from) && d->bits <= 16);
}

static void clamp4(DType t, void *lane, int64_t n)
{
    int8_t *s = lane;
    uint8_t *u = lane;

    for (int64_t i = 0; i < n; i++)
        if (t == DT_int4)
            s[i] = clamp_int4(s[i]);
        else
            u[i] = clamp_uint4(u[i]);
}

bool convert_to_odd(DType to, DType from) { return codecs()->encode[to] && lane_dtype(from) != DT_f32 && !exact_in_f32(from); }
bool convert_clamps4(DType to, DType from) { return (to == DT_int4 || to == DT_uint4) && dtype_is_inexact(from); }

/* Up to RUN elements by the default rules. */
static void convert_plain(DType to, void *dst, DType from, const void *src, int64_t n)
{
    _Alignas(64) char a[RUN * 16], b[RUN * 16];
    DType lf = lane_dtype(from), lt = lane_dtype(to);
    const void *x = src;

    if (!raw_is_lane(from)) {
        raw_to_lane(from, src, a, n);
        x = a;
    }
    if (lf != lt) {
        void *y = raw_is_lane(to) ? dst : b;
        if (convert_to_odd(to, from)) {
            lane_convert(DT_f64, a, lf, x, n);
            codecs()->to_odd((double *)(void *)a, y, n);
        } else {
            lane_convert(lt, y, lf, x, n);
        }
        x = y;
    }
    if (convert_clamps4(to, from)) {
        if (x != b)
            x = memcpy(b, x, (size_t)n);
        clamp4(to, b, n);
    }
    if (x != dst)
        lane_to_raw(to, x, dst, n);
}

static void int_bounds(DType t, int64_t *lo, uint64_t *hi)
{
    int bits = dtype_info[t].bits;
    bool s = dtype_info[t].kind == DK_INT;

    *lo = s ? INT64_MIN >> (64 - bits) : 0;
    *hi = UINT64_MAX >> (64 - bits + s);
}

/* An integer as sign and magnitude. */
static void lane_int(DType t, const void *lane, int64_t i, bool *neg, uint64_t *mag)
{
    int64_t v;

    *neg = false;
    if (t == DT_uint64) {
        *mag = ((const uint64_t *)lane)[i];
        return;
    }
    codecs()->lane[DT_int64][t]((const char *)lane + (size_t)i * raw_size(t), &v, 1);
    *neg = v < 0;
    *mag = v < 0 ? -(uint64_t)v : (uint64_t)v;
}

static void store_code(DType t, void *dst, int64_t i, uint64_t code)
{
    size_t w = raw_size(t);

    memcpy((char *)dst + (size_t)i * w, &code, w);
}

static uint64_t clamp_int(DType to, bool neg, uint64_t mag)
{
    int64_t lo;
    uint64_t hi;

    int_bounds(to, &lo, &hi);
    if (neg)
        return mag > -(uint64_t)lo ? (uint64_t)lo : -mag;
    return mag > hi ? hi : mag;
}

static bool is_subnormal32(double v) { return v != 0 && fabs(v) < 0x1p-126; }

/* One real or complex part into a float format under o. */
static uint64_t encode_part(DType to, double v, const ConvOpts *o, RoundOpts *r, uint64_t index)
{
    if (o->flush && is_subnormal32(v) && to != DT_f64)
        v = copysign(0.0, v);
    if (o->rounding == ROUND_STOCHASTIC) {
        Philox p = philox(o->seed, index, 0);
        r->noise = (uint64_t)p.w[0] << 32 | p.w[1];
    }
    return dtype_encode(to, v, r);
}

/* Up to RUN elements under any options, one by one. */
static void convert_exactly(DType to, void *dst, DType from, const void *src, int64_t n, const ConvOpts *o, int64_t first)
{
    _Alignas(64) char a[RUN * 16];
    double _Complex z[RUN];
    DType lf = lane_dtype(from), part = dtype_real(to);
    RoundOpts r = {o->rounding, o->saturate, o->flush, 0};
    bool from_int = dtype_is_int(from), neg;
    uint64_t mag;

    raw_to_lane(from, src, a, n);
    if (!from_int)
        lane_convert(DT_c128, z, lf, a, n);
    for (int64_t i = 0; i < n; i++) {
        uint64_t at = (uint64_t)(first + i);
        if (dtype_is_int(to)) {                     /* from an int: only with saturate */
            lane_int(lf, a, i, &neg, &mag);
            store_code(to, dst, i, clamp_int(to, neg, mag) & (is_packed(to) ? 15 : UINT64_MAX));
            continue;
        }
        double re = from_int ? 0 : creal(z[i]);
        uint64_t c;
        if (from_int) {
            lane_int(lf, a, i, &neg, &mag);
            Philox p = philox(o->seed, at, 0);
            r.noise = (uint64_t)p.w[0] << 32 | p.w[1];
            c = dtype_encode_exact(part, neg, mag, 0, &r);
        } else {
            c = encode_part(part, re, o, &r, at);
        }
        store_code(part, dst, dtype_is_complex(to) ? 2 * i : i, c);
        if (dtype_is_complex(to))
            store_code(part, dst, 2 * i + 1, from_int ? 0 : encode_part(part, cimag(z[i]), o, &r, at ^ 1ull << 63));
    }
}

/* Do the options change anything for this pair? */
static bool is_plain(DType to, DType from, const ConvOpts *o)
{
    if (!o || to == DT_bool)
        return true;
    if (dtype_is_int(to))
        return !(o->saturate && dtype_is_int(from) && to != from);
    return o->rounding == ROUND_NEAREST && !o->saturate && !o->flush;
}

/* Saturation to nearest is common (fp8 training): clamp first, then convert. */
static bool is_clamped(DType to, DType from, const ConvOpts *o)
{
    return o->saturate && o->rounding == ROUND_NEAREST && !o->flush && codecs()->encode[to] && lane_dtype(from) == DT_f32;
}

static void convert_clamped(DType to, void *dst, DType from, const void *src, int64_t n)
{
    _Alignas(64) float a[RUN];
    float max = (float)dtype_max(to);

    raw_to_lane(from, src, a, n);
    for (int64_t i = 0; i < n; i++)
        a[i] = f32_clamp(a[i], max);
    lane_to_raw(to, a, dst, n);
}

/* A wider 64-bit int may not fit a double: narrow floats then need the exact encoder. */
static bool needs_exact_int(DType to, DType from)
{
    return codecs()->encode[to] && dtype_is_int(from) && dtype_info[from].bits == 64;
}

ConvWay convert_way(DType to, DType from, const ConvOpts *o)
{
    bool plain = is_plain(to, from, o);

    if (to == from && plain)
        return CONV_COPY;
    if (plain && !needs_exact_int(to, from))
        return CONV_PLAIN;
    return o && is_clamped(to, from, o) ? CONV_CLAMPED : CONV_EXACT;
}

void bools_from_bytes(void *bytes, int64_t n)
{
    uint8_t *x = bytes;

    for (int64_t i = 0; i < n; i++)
        x[i] = x[i] != 0;
}

void raw_convert(DType to, void *dst, DType from, const void *src, int64_t n, const ConvOpts *o, int64_t first)
{
    static const ConvOpts nearest;
    ConvWay way = convert_way(to, from, o);

    if (way == CONV_COPY) {
        memmove(dst, src, (size_t)n * raw_size(to));
        return;
    }
    for (int64_t i = 0; i < n; i += RUN) {
        int64_t k = n - i < RUN ? n - i : RUN;
        void *d = (char *)dst + (size_t)i * raw_size(to);
        const void *s = (const char *)src + (size_t)i * raw_size(from);
        if (way == CONV_PLAIN)
            convert_plain(to, d, from, s, k);
        else if (way == CONV_CLAMPED)
            convert_clamped(to, d, from, s, k);
        else
            convert_exactly(to, d, from, s, k, o ? o : &nearest, first + i);
    }
}
