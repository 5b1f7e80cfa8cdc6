/*
 * elementary_f32.h - the polynomials of elementary_real.def for f32: minimax fits.
 */
#ifndef TSR_RUNTIME_ELEMENTARY_F32_H
#define TSR_RUNTIME_ELEMENTARY_F32_H

typedef struct { float hi, lo; } PairF32;

/* (e^r - 1 - r - r^2 / 2) / r^3 for |r| <= ln2 / 2: 2^-31 of e^r - 1. */
static inline float f32_exp_poly(float r)
{
    float p = 0x1.a22dbcp-13f;

    p = f32_fma(p, r, 0x1.6d412cp-10f);
    p = f32_fma(p, r, 0x1.11100cp-7f);
    p = f32_fma(p, r, 0x1.5554f2p-5f);
    return f32_fma(p, r, 0x1.555556p-3f);
}

/* (log(1 + f) - f + f^2 / 2) / f^3 for sqrt(1/2) <= 1 + f <= sqrt(2): 2^-30 of the logarithm. */
static inline float f32_log_poly(float f)
{
    float p = 0x1.13be0cp-4f;

    p = f32_fma(p, f, -0x1.dd992ap-4f);
    p = f32_fma(p, f, 0x1.e6dd24p-4f);
    p = f32_fma(p, f, -0x1.fc3e3ap-4f);
    p = f32_fma(p, f, 0x1.233af6p-3f);
    p = f32_fma(p, f, -0x1.555b8cp-3f);
    p = f32_fma(p, f, 0x1.99a478p-3f);
    p = f32_fma(p, f, -0x1.000008p-2f);
    return f32_fma(p, f, 0x1.555548p-2f);
}

static inline PairF32 f32_log_small(float f)
{
    float h = 0.5f * f, hi = f32_fma(-h, f, f), z = f * f;

    return (PairF32){hi, f32_fma(z * f, f32_log_poly(f), f32_fma(-h, f, f - hi))};
}

/* (atanh(s) / s - 1 - z / 3 - z^2 / 5) / z^3 for z = s^2, |s| <= 3 - sqrt(8). */
static inline float f32_atanh_poly(float z)
{
    float p = 0x1.8aae5ep-4f;

    p = f32_fma(p, z, 0x1.c69d64p-4f);
    return f32_fma(p, z, 0x1.2492bcp-3f);
}

/* (sin r - r) / r^3 for z = r^2, |r| <= 0.8: 2^-32 of the sine. */
static inline float f32_sin_poly(float z)
{
    float p = 0x1.76878cp-19f;

    p = f32_fma(p, z, -0x1.a0439cp-13f);
    p = f32_fma(p, z, 0x1.11116p-7f);
    return f32_fma(p, z, -0x1.555556p-3f);
}

/* (cos r - 1 + z / 2) / z^2 likewise. */
static inline float f32_cos_poly(float z)
{
    float p = 0x1.999a6cp-16f;

    p = f32_fma(p, z, -0x1.6c0b08p-10f);
    return f32_fma(p, z, 0x1.555548p-5f);
}

/* (atan t - t) / t^3 for z = t^2, |t| <= sqrt(2) - 1: 2^-30 of the angle. */
static inline float f32_atan_poly(float z)
{
    float p = -0x1.f2f766p-5f;

    p = f32_fma(p, z, 0x1.b227bp-4f);
    p = f32_fma(p, z, -0x1.23b9d6p-3f);
    p = f32_fma(p, z, 0x1.9991e4p-3f);
    return f32_fma(p, z, -0x1.55554ap-2f);
}

/* (tanh x / x - 1) / z for z = x^2, |x| <= 1: 2^-27 of tanh. */
static inline float f32_tanh_poly(float z)
{
    float p = -0x1.7806d8p-12f;

    p = f32_fma(p, z, 0x1.2db79ep-9f);
    p = f32_fma(p, z, -0x1.04675p-7f);
    p = f32_fma(p, z, 0x1.600bd6p-6f);
    p = f32_fma(p, z, -0x1.b96288p-5f);
    p = f32_fma(p, z, 0x1.110be6p-3f);
    return f32_fma(p, z, -0x1.55553cp-2f);
}

/* erf x / x - 1 for z = x^2, |x| <= 1: 2^-29 of erf. */
static inline float f32_erf_poly(float z)
{
    float p = 0x1.4917a4p-14f;

    p = f32_fma(p, z, -0x1.a3d812p-11f);
    p = f32_fma(p, z, 0x1.540172p-8f);
    p = f32_fma(p, z, -0x1.b7f88cp-6f);
    p = f32_fma(p, z, 0x1.ce2cf2p-4f);
    p = f32_fma(p, z, -0x1.81273ep-2f);
    return f32_fma(p, z, 0x1.06eba8p-3f);
}

/* log(erfc x) / x + 1 on [0.95, 3.95]: 2^-27 of erf. */
static inline float f32_erfc_poly(float x)
{
    float p = 0x1.be79fap-13f;

    p = f32_fma(p, x, -0x1.a434f2p-9f);
    p = f32_fma(p, x, 0x1.768d12p-6f);
    p = f32_fma(p, x, -0x1.aef6e8p-4f);
    p = f32_fma(p, x, -0x1.45817cp-1f);
    return f32_fma(p, x, -0x1.072d06p-3f);
}

#endif
