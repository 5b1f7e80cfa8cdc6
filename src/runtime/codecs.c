/*
 * Conversions of runs as branch-free loops, which compilers vectorise: floats
 * narrower than f32 to and from their codes, and every lane dtype to every
 * other.  Compiled once for each instruction set; all give the same bits, also
 * where a machine instruction takes over.
 */
#include "runtime/codecs.h"

#include "runtime/codec_formulas.h"
#include "runtime/each.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

/* ---- narrow floats ---- */

#define NARROW(dt, S, enc, dec) \
    static void enc_##dt(const void *src, void *dst, int64_t n) \
    { \
        const float *s = src; \
        S *d = dst; \
        EACH(i, n) { \
            float x = s[i]; \
            d[i] = (S)(enc); \
        } \
    } \
    static void dec_##dt(const void *src, void *dst, int64_t n) \
    { \
        const S *s = src; \
        float *d = dst; \
        EACH(i, n) { \
            S c = s[i]; \
            d[i] = dec; \
        } \
    }
NARROW_FORMATS(NARROW)
#undef NARROW

#ifdef __F16C__
/* f16 by the machine's own instructions, in eights. */
static void enc_f16_fast(const void *src, void *dst, int64_t n)
{
    const float *s = src;
    uint16_t *d = dst;
    int64_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(d + i), _mm256_cvtps_ph(_mm256_loadu_ps(s + i), _MM_FROUND_TO_NEAREST_INT));
    enc_f16(s + i, d + i, n - i);
}

static void dec_f16_fast(const void *src, void *dst, int64_t n)
{
    const uint16_t *s = src;
    float *d = dst;
    int64_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(d + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(s + i))));
    dec_f16(s + i, d + i, n - i);
}
#else
#define enc_f16_fast enc_f16
#define dec_f16_fast dec_f16
#endif

/* ---- lane to lane: a loop for each pair, from two columns of kinds ---- */

#define PAIR(from, S, ks, to, T, kt, lo, hi) \
    static void cv_##to##_##from(const void *src, void *dst, int64_t n) \
    { \
        const S *s = src; \
        T *d = dst; \
        EACH(i, n) \
            d[i] = CV_##kt##_##ks(T, S, s[i], lo, hi); \
    }
#define ROW(to, T, kt, lo, hi) LANES2(PAIR, to, T, kt, lo, hi)
LANES(ROW)
#undef PAIR
#undef ROW


/* ---- other steps ---- */

static void odd_floats(const double *s, float *d, int64_t n)
{
    EACH(i, n)
        d[i] = to_odd(s[i]);
}

#define NARROW(dt, S, enc, dec) [DT_##dt] = enc_##dt,
#define CODES(dt, S, enc, dec) [DT_##dt] = dec_##dt,
#define PAIR(from, S, ks, to) [from] = cv_##to##_##from,
#define ROW(to, T, kt, lo, hi) [to] = {LANES2(PAIR, to)},
#define enc_f16 enc_f16_fast
#define dec_f16 dec_f16_fast
const Codecs PASTE(codecs, VARIANT) = {{NARROW_FORMATS(NARROW)}, {NARROW_FORMATS(CODES)}, {LANES(ROW)}, odd_floats};
