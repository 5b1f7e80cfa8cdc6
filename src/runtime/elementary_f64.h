/*
 * elementary_f64.h - the polynomials of elementary_real.def for f64: minimax fits.
 */
#ifndef TSR_RUNTIME_ELEMENTARY_F64_H
#define TSR_RUNTIME_ELEMENTARY_F64_H

typedef struct { double hi, lo; } PairF64;

/* (e^r - 1 - r - r^2 / 2) / r^3 for |r| <= ln2 / 2. */
POLY(f64_exp_poly, double, f64_fma,
    0x1.1f66d948a47d2p-29, 0x1.af389ecfc4b9cp-26, 0x1.27e4e1f7222cbp-22, 0x1.71de0db2f6b19p-19,
    0x1.a01a01a47a591p-16, 0x1.a01a01a7c2efep-13, 0x1.6c16c16c167e2p-10, 0x1.11111111109b5p-7, 0x1.5555555555555p-5,
    0x1.5555555555556p-3)

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

/* (2 / ln2) (atanh(s) / s - 1 - z / 3) / z^2 for z = s^2, |s| <= 3 - sqrt(8). */
POLY(f64_log2_poly, double, f64_fma,
    0x1.60a8b84c9c6e1p-3, 0x1.592f6fd779ac4p-3, 0x1.8a069e427f402p-3, 0x1.c68f024fcfae1p-3, 0x1.0c9a8503cffdap-2,
    0x1.484b13d730c91p-2, 0x1.a61762a7ae445p-2, 0x1.2776c50ef9bfep-1)

/* (2^r - 1 - r ln2) / r^2 for |r| <= 1/2. */
POLY(f64_exp2_poly, double, f64_fma,
    0x1.b45c0ad8ebddbp-36, 0x1.e9d6b18c96afbp-32, 0x1.e4da3b533cefap-28, 0x1.b524f9415b6c3p-24, 0x1.62c01f7a1241ap-20,
    0x1.ffcbfc67bec1p-17, 0x1.430912f906cf5p-13, 0x1.5d87fe78a509fp-10, 0x1.3b2ab6fba4cbfp-7, 0x1.c6b08d704a0c2p-5,
    0x1.ebfbdff82c58fp-3)

/* (sin r - r) / r^3 for z = r^2, |r| <= pi / 4. */
POLY(f64_sin_poly, double, f64_fma,
    -0x1.ab17d404de5b3p-41, 0x1.61217f0b800d5p-33, -0x1.ae645412c560cp-26, 0x1.71de3a546095bp-19,
    -0x1.a01a01a019938p-13, 0x1.1111111111110p-7, -0x1.5555555555555p-3)

/* (cos r - 1 + z / 2) / z^2 likewise. */
POLY(f64_cos_poly, double, f64_fma,
    -0x1.907da367a37cbp-37, 0x1.1eeb68e93b64cp-29, -0x1.27e4fa17da09ep-22, 0x1.a01a019f4eb01p-16,
    -0x1.6c16c16c16967p-10, 0x1.5555555555555p-5)

/* (atan t - t) / t^3 for z = t^2, |t| <= sqrt(2) - 1. */
POLY(f64_atan_poly, double, f64_fma,
    0x1.0ad36a455cafbp-6, -0x1.1b33b923aa954p-5, 0x1.74ddd408bb4c1p-5, -0x1.ac7a938b69c93p-5, 0x1.e19a13b9fc6dfp-5,
    -0x1.110e880a7a521p-4, 0x1.3b1392d9e785cp-4, -0x1.745d165df3f95p-4, 0x1.c71c71c304b68p-4, -0x1.249249248d7eep-3,
    0x1.9999999999953p-3, -0x1.5555555555555p-2)

#endif
