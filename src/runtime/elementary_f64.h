/*
 * elementary_f64.h - the polynomials of elementary_real.def for f64: minimax fits.
 */
#ifndef TSR_RUNTIME_ELEMENTARY_F64_H
#define TSR_RUNTIME_ELEMENTARY_F64_H

typedef struct { double hi, lo; } PairF64;

/* (e^r - 1 - r - r^2 / 2) / r^3 for |r| <= ln2 / 2. */
static inline double f64_exp_poly(double r)
{
    double p = 0x1.1f66d948a47d2p-29;

    p = f64_fma(p, r, 0x1.af389ecfc4b9cp-26);
    p = f64_fma(p, r, 0x1.27e4e1f7222cbp-22);
    p = f64_fma(p, r, 0x1.71de0db2f6b19p-19);
    p = f64_fma(p, r, 0x1.a01a01a47a591p-16);
    p = f64_fma(p, r, 0x1.a01a01a7c2efep-13);
    p = f64_fma(p, r, 0x1.6c16c16c167e2p-10);
    p = f64_fma(p, r, 0x1.11111111109b5p-7);
    p = f64_fma(p, r, 0x1.5555555555555p-5);
    return f64_fma(p, r, 0x1.5555555555556p-3);
}

/* log(1 + f) = f - f^2 / 2 + s (f^2 / 2 + R(s^2)), s = f / (2 + f) (as FreeBSD's e_log.c explains). */
static inline PairF64 f64_log_small(double f)
{
    double s = f / (2 + f), z = s * s, g = 0.5 * f, h = g * f, r = 0x1.2b584aae78a57p-3, rest = f64_fma(g, f, -h);

    r = f64_fma(r, z, 0x1.39fe606542ddep-3);
    r = f64_fma(r, z, 0x1.7462b4ab2ef6bp-3);
    r = f64_fma(r, z, 0x1.c71c62e5800a1p-3);
    r = f64_fma(r, z, 0x1.2492492df148dp-2);
    r = f64_fma(r, z, 0x1.99999999952e2p-2);
    r = f64_fma(r, z, 0x1.5555555555558p-1);
    double hi = f - h;
    return (PairF64){hi, (-h - (hi - f)) + f64_fma(s, f64_fma(r, z, h), -rest)};
}

/* (atanh(s) / s - 1 - z / 3 - z^2 / 5) / z^3 for z = s^2, |s| <= 3 - sqrt(8). */
static inline double f64_atanh_poly(double z)
{
    double p = 0x1.e02d197c00c78p-5;

    p = f64_fma(p, z, 0x1.df7ce9a6bcccbp-5);
    p = f64_fma(p, z, 0x1.1118c74823a2ep-4);
    p = f64_fma(p, z, 0x1.3b1395d4f9e5fp-4);
    p = f64_fma(p, z, 0x1.745d177a8f200p-4);
    p = f64_fma(p, z, 0x1.c71c71c6eaa8dp-4);
    return f64_fma(p, z, 0x1.2492492492521p-3);
}

/* (sin r - r) / r^3 for z = r^2, |r| <= pi / 4. */
static inline double f64_sin_poly(double z)
{
    double p = -0x1.ab17d404de5b3p-41;

    p = f64_fma(p, z, 0x1.61217f0b800d5p-33);
    p = f64_fma(p, z, -0x1.ae645412c560cp-26);
    p = f64_fma(p, z, 0x1.71de3a546095bp-19);
    p = f64_fma(p, z, -0x1.a01a01a019938p-13);
    p = f64_fma(p, z, 0x1.1111111111110p-7);
    return f64_fma(p, z, -0x1.5555555555555p-3);
}

/* (cos r - 1 + z / 2) / z^2 likewise. */
static inline double f64_cos_poly(double z)
{
    double p = -0x1.907da367a37cbp-37;

    p = f64_fma(p, z, 0x1.1eeb68e93b64cp-29);
    p = f64_fma(p, z, -0x1.27e4fa17da09ep-22);
    p = f64_fma(p, z, 0x1.a01a019f4eb01p-16);
    p = f64_fma(p, z, -0x1.6c16c16c16967p-10);
    return f64_fma(p, z, 0x1.5555555555555p-5);
}

/* (atan t - t) / t^3 for z = t^2, |t| <= sqrt(2) - 1. */
static inline double f64_atan_poly(double z)
{
    double p = 0x1.0ad36a455cafbp-6;

    p = f64_fma(p, z, -0x1.1b33b923aa954p-5);
    p = f64_fma(p, z, 0x1.74ddd408bb4c1p-5);
    p = f64_fma(p, z, -0x1.ac7a938b69c93p-5);
    p = f64_fma(p, z, 0x1.e19a13b9fc6dfp-5);
    p = f64_fma(p, z, -0x1.110e880a7a521p-4);
    p = f64_fma(p, z, 0x1.3b1392d9e785cp-4);
    p = f64_fma(p, z, -0x1.745d165df3f95p-4);
    p = f64_fma(p, z, 0x1.c71c71c304b68p-4);
    p = f64_fma(p, z, -0x1.249249248d7eep-3);
    p = f64_fma(p, z, 0x1.9999999999953p-3);
    return f64_fma(p, z, -0x1.5555555555555p-2);
}

#endif
