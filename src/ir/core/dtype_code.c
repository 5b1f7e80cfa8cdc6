/*
 * Encoding and decoding of float formats by their table row alone.
 *
 * A finite code read as an integer grows with the value, and the code of
 * r quanta (r < 2^(m+1)) above exponent field E is ((E - 1) << m) + r, also for
 * subnormals, whose E is 1.  So rounding to an integer count of quanta and one
 * addition give the code, carries into the exponent included.
 */
#include "ir/core/dtype_code.h"

#include <math.h>
#include <string.h>

typedef struct Format {
    int m, bias;
    uint64_t sign, max, inf, nan;       /* codes; inf 0: none; nan 0: none */
} Format;

static Format format_of(DType t)
{
    const DTypeInfo *d = &dtype_info[t];
    int m = d->mbits, e = d->ebits;
    Format f = {.m = m, .bias = (1 << (e - 1)) - 1, .sign = 1ull << (m + e)};

    if (t == DT_fp4 || t == DT_fp6) {
        f.max = f.sign - 1;
    } else if (t == DT_fp8_e4m3) {
        f.max = f.sign - 2;
        f.nan = f.sign - 1;
    } else {
        f.inf = ((1ull << e) - 1) << m;
        f.max = f.inf - 1;
        f.nan = f.inf | (1ull << (m - 1));
    }
    return f;
}

/* tf32 is kept as an f32 whose low 13 bits are zero; all others as their own code. */
static int storage_shift(DType t) { return t == DT_tf32 ? 13 : 0; }

static uint64_t overflow_code(const Format *f, bool neg, const RoundOpts *o)
{
    bool keep = o->saturate || o->rounding == ROUND_ZERO || (o->rounding == ROUND_UP && neg) ||
                (o->rounding == ROUND_DOWN && !neg);

    if (keep || !(f->inf | f->nan))
        return f->max;
    return f->inf ? f->inf : f->nan;
}

/* Should the magnitude go up?  frac: the dropped part as a 0.64 fixed-point number; sticky: more below it. */
static bool rounds_up(bool neg, bool odd, uint64_t frac, bool sticky, const RoundOpts *o)
{
    const uint64_t half = 1ull << 63;

    switch (o->rounding) {
    case ROUND_ZERO: return false;
    case ROUND_UP: return !neg && (frac || sticky);
    case ROUND_DOWN: return neg && (frac || sticky);
    case ROUND_AWAY: return frac >= half;
    case ROUND_STOCHASTIC: return o->noise < frac;
    default: return frac > half || (frac == half && (sticky || odd));
    }
}

uint64_t dtype_encode_exact(DType t, bool neg, uint64_t sig, int exp, const RoundOpts *o)
{
    Format f = format_of(t);
    uint64_t s = neg ? f.sign : 0, frac, r;
    bool sticky = false;

    if (!sig)
        return s << storage_shift(t);
    int lz = __builtin_clzll(sig);
    sig <<= lz;
    int e = exp + 63 - lz;                      /* value is 1.xxx * 2^e */
    int field = e + f.bias > 1 ? e + f.bias : 1;
    int drop = field - f.bias - f.m - e + 63;   /* bits of sig below one quantum; at least 63 - m */
    if (drop > 64) {
        r = 0;
        frac = drop > 127 ? 0 : sig >> (drop - 64);
        sticky = drop > 127 || (sig << (128 - drop)) != 0;
    } else {
        r = drop == 64 ? 0 : sig >> drop;
        frac = drop == 64 ? sig : sig << (64 - drop);
    }
    r += rounds_up(neg, r & 1, frac, sticky, o);
    uint64_t code = (uint64_t)field > f.max >> f.m ? f.max + 1 : ((uint64_t)(field - 1) << f.m) + r;
    if (code > f.max && o->rounding == ROUND_STOCHASTIC) {      /* past the last value there is no upper neighbour */
        RoundOpts nearest = {.saturate = o->saturate};
        code = dtype_encode_exact(t, false, sig, exp - lz, &nearest) >> storage_shift(t);
    } else if (code > f.max) {
        code = overflow_code(&f, neg, o);
    } else if (o->flush && code < (1ull << f.m) && f.bias >= 127) {
        code = 0;
    }
    return (s | code) << storage_shift(t);
}

uint64_t dtype_encode(DType t, double v, const RoundOpts *o)
{
    Format f = format_of(t);
    uint64_t bits, s;

    memcpy(&bits, &v, 8);
    s = bits >> 63 ? f.sign : 0;
    if (v != v) {
        if (t == DT_f64)
            return bits | 1ull << 51;
        if (f.inf && f.m > 2)                   /* keep what fits of the payload */
            return (s | f.nan | ((bits & ((1ull << 51) - 1)) >> (52 - f.m))) << storage_shift(t);
        return f.nan ? (s | f.nan) << storage_shift(t) : 0;
    }
    if (isinf(v))
        return (s | (o->saturate || !(f.inf | f.nan) ? f.max : f.inf ? f.inf : f.nan)) << storage_shift(t);
    int e = (int)(bits >> 52 & 0x7ff);
    uint64_t sig = (bits & ((1ull << 52) - 1)) | (e ? 1ull << 52 : 0);
    return dtype_encode_exact(t, bits >> 63, sig, (e ? e : 1) - 1075, o);
}

double dtype_decode(DType t, uint64_t code)
{
    Format f = format_of(t);
    uint64_t c, mant;
    double v;

    code >>= storage_shift(t);
    c = code & (f.sign - 1);
    mant = c & ((1ull << f.m) - 1);
    if (t == DT_f64) {
        memcpy(&v, &code, 8);
        return v;
    }
    if (c > f.max) {
        uint64_t bits = f.inf && c == f.inf ? 0x7ffull << 52 : 0x7ff8ull << 48 | (f.inf ? mant << (52 - f.m) : 0);
        bits |= code & f.sign ? 1ull << 63 : 0;
        memcpy(&v, &bits, 8);
        return v;
    }
    int field = (int)(c >> f.m);
    v = field ? ldexp((double)(mant | 1ull << f.m), field - f.bias - f.m) : ldexp((double)mant, 1 - f.bias - f.m);
    return code & f.sign ? -v : v;
}

double dtype_max(DType t)
{
    return dtype_decode(t, format_of(t).max << storage_shift(t));
}
