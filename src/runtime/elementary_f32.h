/*
 * elementary_f32.h - the polynomials of elementary_real.def for f32: minimax fits.
 */
#ifndef TSR_RUNTIME_ELEMENTARY_F32_H
#define TSR_RUNTIME_ELEMENTARY_F32_H

typedef struct { float hi, lo; } PairF32;

/* (e^r - 1 - r - r^2 / 2) / r^3 for |r| <= ln2 / 2: 2^-31 of e^r - 1. */
POLY(f32_exp_poly, float, f32_fma,
    0x1.a22dbcp-13f, 0x1.6d412cp-10f, 0x1.11100cp-7f, 0x1.5554f2p-5f, 0x1.555556p-3f)

/* (log(1 + f) - f + f^2 / 2) / f^3 for sqrt(1/2) <= 1 + f <= sqrt(2): 2^-30 of the logarithm. */
POLY(f32_log_poly, float, f32_fma,
    0x1.13be0cp-4f, -0x1.dd992ap-4f, 0x1.e6dd24p-4f, -0x1.fc3e3ap-4f, 0x1.233af6p-3f, -0x1.555b8cp-3f,
    0x1.99a478p-3f, -0x1.000008p-2f, 0x1.555548p-2f)

static inline PairF32 f32_log_small(float f)
{
    float h = 0.5f * f, hi = f32_fma(-h, f, f), z = f * f;

    return (PairF32){hi, f32_fma(z * f, f32_log_poly(f), f32_fma(-h, f, f - hi))};
}

/* (2 / ln2) (atanh(s) / s - 1 - z / 3) / z^2 for z = s^2, |s| <= 3 - sqrt(8): 2^-21, of what is 2^-11 of the logarithm. */
POLY(f32_log2_poly, float, f32_fma, 0x1.54b144p-2f, 0x1.a5f2dp-2f, 0x1.2776cep-1f)

/* (2^r - 1 - r ln2) / r^2 for |r| <= 1/2: 2^-32 of 2^r. */
POLY(f32_exp2_poly, float, f32_fma, 0x1.00f8acp-16f, 0x1.44075cp-13f, 0x1.5d870ep-10f, 0x1.3b2a62p-7f, 0x1.c6b08ep-5f, 0x1.ebfbep-3f)

/* (sin r - r) / r^3 for z = r^2, |r| <= 0.8: 2^-32 of the sine. */
POLY(f32_sin_poly, float, f32_fma,
    0x1.76878cp-19f, -0x1.a0439cp-13f, 0x1.11116p-7f, -0x1.555556p-3f)

/* (cos r - 1 + z / 2) / z^2 likewise. */
POLY(f32_cos_poly, float, f32_fma,
    0x1.999a6cp-16f, -0x1.6c0b08p-10f, 0x1.555548p-5f)

/* (atan t - t) / t^3 for z = t^2, |t| <= sqrt(2) - 1: 2^-30 of the angle. */
POLY(f32_atan_poly, float, f32_fma, -0x1.f2f766p-5f, 0x1.b227bp-4f, -0x1.23b9d6p-3f, 0x1.9991e4p-3f, -0x1.55554ap-2f)

/* (tanh x / x - 1) / z for z = x^2, |x| <= 1: 2^-27 of tanh. */
POLY(f32_tanh_poly, float, f32_fma,
    -0x1.7806d8p-12f, 0x1.2db79ep-9f, -0x1.04675p-7f, 0x1.600bd6p-6f, -0x1.b96288p-5f, 0x1.110be6p-3f,
    -0x1.55553cp-2f)

/* erf x / x - 1 for z = x^2, |x| <= 1: 2^-29 of erf. */
POLY(f32_erf_poly, float, f32_fma,
    0x1.4917a4p-14f, -0x1.a3d812p-11f, 0x1.540172p-8f, -0x1.b7f88cp-6f, 0x1.ce2cf2p-4f, -0x1.81273ep-2f,
    0x1.06eba8p-3f)

/* log(erfc x) / x + 1 on [0.95, 3.95]: 2^-27 of erf. */
POLY(f32_erfc_poly, float, f32_fma,
    0x1.be79fap-13f, -0x1.a434f2p-9f, 0x1.768d12p-6f, -0x1.aef6e8p-4f, -0x1.45817cp-1f, -0x1.072d06p-3f)

#endif
