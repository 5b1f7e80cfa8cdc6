/*
 * elementary_far.h - sin, cos and tan of f32s beyond TRIG_MAX (included by scalar.h).
 *
 * An f32 is m 2^e with 24 bits in m.  Of 2 / pi only the bits matter whose products with it are not whole multiples of four:
 * 160 of them from a place that e names give the quarter of the circle in the top two bits of a product, and 126 bits of what is left
 * (Payne and Hanek 1983).  No branches and no tables: GPUs have this as a list of instructions, too.  Results are
 * rounded from double.
 */
#ifndef TSR_RUNTIME_ELEMENTARY_FAR_H
#define TSR_RUNTIME_ELEMENTARY_FAR_H

/* Bits 32 (skip + k) ... of 2 / pi: the word for each skip from 0 to 3. */
static inline uint64_t far_word(int skip, uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3)
{
    uint32_t low = skip & 1 ? w1 : w0, high = skip & 1 ? w3 : w2;

    return skip & 2 ? high : low;
}

/* |a| = n pi/2 + r, |r| <= pi / 4, for 2^20 <= |a| < infinity: r, and in *quarter n's lowest bits. */
static inline double far_rest(float a, uint64_t *quarter)
{
    uint32_t bits = f_bits(a) & 0x7fffffff;
    uint64_t m = (bits & 0x7fffff) | 0x800000, t;
    int e = (int)(bits >> 23) - 150, skip = e < 2 ? 0 : (e - 2) >> 5, shift = 34 - e + 32 * skip;       /* 1 to 37 */
    uint64_t p0, p1, p2, p3, p4, p5;

    t = m * far_word(skip, 0xdb629599, 0x3c439041, 0xfe5163ab, 0xdebbc561), p0 = t & 0xffffffff;
    t = m * far_word(skip, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab) + (t >> 32), p1 = t & 0xffffffff;
    t = m * far_word(skip, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041) + (t >> 32), p2 = t & 0xffffffff;
    t = m * far_word(skip, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599) + (t >> 32), p3 = t & 0xffffffff;
    t = m * far_word(skip, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0) + (t >> 32), p4 = t & 0xffffffff;
    p5 = t >> 32;
    bool more = shift >= 32;
    p0 = more ? p1 : p0, p1 = more ? p2 : p1, p2 = more ? p3 : p2, p3 = more ? p4 : p3, p4 = more ? p5 : p4;
    uint32_t by = (uint32_t)shift & 31;
    uint64_t low = ((p1 << 32 | p0) >> by & 0xffffffff) | ((p2 << 32 | p1) >> by) << 32;
    uint64_t high = ((p3 << 32 | p2) >> by & 0xffffffff) | ((p4 << 32 | p3) >> by) << 32;
    uint64_t whole = high << 2 | low >> 62;             /* of a quarter; the nearest one: a signed number */

    *quarter = (high >> 62) + (whole >> 63);
    return ((double)(int64_t)whole * 0x1p-64 + (double)(int64_t)(low << 2 >> 1) * 0x1p-127) * M_PI_2;
}

/* sin and cos of the rest, and the quarter. A call would be none of a list's instructions. */
typedef struct { double sin, cos; uint64_t quarter; } FarTurn;

static inline __attribute__((always_inline)) FarTurn far_turn(float a)
{
    uint64_t quarter;
    PairF64 r = {far_rest(a, &quarter), 0};

    return (FarTurn){f64_rounded(f64_sin_small(r)), f64_rounded(f64_cos_small(r)), quarter};
}

/* sin(|a| + turns pi/2), its sign flipped where `sign` is the sign bit; of NaN and infinity NaN. */
static inline float far_turned(float a, FarTurn t, uint64_t turns, uint32_t sign)
{
    double y = (t.quarter + turns) & 1 ? t.cos : t.sin;
    float f = (float)d_of(d_bits(y) ^ ((t.quarter + turns) & 2) << 62);

    return f32_fabs(a) < INFINITY ? f_of(f_bits(f) ^ sign) : NAN;
}

static inline float f32_far_sin(float a, FarTurn t) { return far_turned(a, t, 0, f_bits(a) & 0x80000000); }
static inline float f32_far_cos(float a, FarTurn t) { return far_turned(a, t, 1, 0); }

static inline float f32_far_tan(float a, FarTurn t)
{
    float f = (float)((t.quarter & 1 ? -t.cos : t.sin) / (t.quarter & 1 ? t.sin : t.cos));

    return f32_fabs(a) < INFINITY ? f_of(f_bits(f) ^ (f_bits(a) & 0x80000000)) : NAN;
}

#endif
