/* Words of squares of packed operands, turned in registers; f32 as sums of three bf16. */
#include "runtime/gemm_words.h"

enum { SIDE = 16, SQUARE = SIDE * SIDE, PART = 2 * SQUARE };    /* words; of the squares of one part */

#if defined(__x86_64__)
#include <immintrin.h>
#define WIDE __attribute__((target("avx512f")))

WIDE void turn_words(const uint32_t *from, uint32_t *to)
{
    __m512i x[16], y[16];

    for (int i = 0; i < 16; i++)
        x[i] = _mm512_loadu_si512(from + 16 * i);
    for (int i = 0; i < 16; i += 2) {
        y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
    }
    for (int i = 0; i < 16; i += 4)             /* x[i + c]: word c of each quarter, lines i to i + 3 */
        for (int c = 0; c < 4; c++) {
            __m512i p = y[i + (c > 1)], q = y[i + 2 + (c > 1)];
            x[i + c] = c & 1 ? _mm512_unpackhi_epi64(p, q) : _mm512_unpacklo_epi64(p, q);
        }
    for (int c = 0; c < 4; c++) {               /* gather each quarter of the four groups of lines */
        __m512i p = _mm512_shuffle_i32x4(x[c], x[4 + c], 0x88), q = _mm512_shuffle_i32x4(x[8 + c], x[12 + c], 0x88);
        __m512i r = _mm512_shuffle_i32x4(x[c], x[4 + c], 0xdd), s = _mm512_shuffle_i32x4(x[8 + c], x[12 + c], 0xdd);
        _mm512_storeu_si512(to + 16 * c, _mm512_shuffle_i32x4(p, q, 0x88));
        _mm512_storeu_si512(to + 16 * (8 + c), _mm512_shuffle_i32x4(p, q, 0xdd));
        _mm512_storeu_si512(to + 16 * (4 + c), _mm512_shuffle_i32x4(r, s, 0x88));
        _mm512_storeu_si512(to + 16 * (12 + c), _mm512_shuffle_i32x4(r, s, 0xdd));
    }
}
/* The nearest bf16, as f32; from the largest ones on an infinity. */
WIDE static inline __m512i nearest(__m512 x)
{
    return _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x8000)), _mm512_set1_epi32((int)0xffff0000));
}

WIDE static inline __m512 without(__m512 x, __m512i part) { return _mm512_sub_ps(x, _mm512_castsi512_ps(part)); }

WIDE static inline void store_pairs(__m512i x, __m512i y, uint32_t *to)
{
    _mm512_storeu_si512(to, _mm512_or_si512(x, _mm512_srli_epi32(y, 16)));
}

/* The parts of 16 pairs of numbers, to a line of each part's square: which of them have none. */
WIDE static inline __mmask16 split_pairs(__m512 x, __m512 y, uint32_t *to)
{
    const __m512i exponent = _mm512_set1_epi32(0x7f800000);
    __m512i p = nearest(x), q = nearest(y);
    __mmask16 odd = _mm512_cmpeq_epi32_mask(_mm512_and_si512(p, exponent), exponent);

    odd |= _mm512_cmpeq_epi32_mask(_mm512_and_si512(q, exponent), exponent);

    store_pairs(p, q, to);
    x = without(x, p), y = without(y, q);
    p = nearest(x), q = nearest(y);
    store_pairs(p, q, to + PART);
    store_pairs(_mm512_castps_si512(without(x, p)), _mm512_castps_si512(without(y, q)), to + 2 * PART);     /* 8 bits, and zeros */
    return odd;
}

/* Of 16 lines whose 32 steps are neighbours, line after line. */
WIDE static uint32_t split_steps(const float *from, int64_t line, uint32_t *to)
{
    uint32_t odd = 0;

    for (int i = 0; i < SIDE; i++, from += line, to += SIDE)
        odd |= (uint32_t)(split_pairs(_mm512_loadu_ps(from), _mm512_loadu_ps(from + SIDE), to) != 0) << i;
    return odd;
}

/* The same where lines are neighbours, pair after pair. */
WIDE static uint32_t split_lines(const float *from, int64_t step, uint32_t *to)
{
    uint32_t odd = 0;

    for (int i = 0; i < SIDE; i++, from += step, to += SIDE)
        odd |= split_pairs(_mm512_loadu_ps(from), _mm512_loadu_ps(from + SIDE * step), to);
    return odd;
}
#else
void turn_words(const uint32_t *from, uint32_t *to) { (void)from, (void)to; }
static uint32_t split_steps(const float *from, int64_t line, uint32_t *to) { return 0; }
static uint32_t split_lines(const float *from, int64_t step, uint32_t *to) { return 0; }
#endif

/* One square of each part, of at most 16 lines and 32 steps. */
static uint32_t split_square(const float *from, int64_t line, int64_t step, int64_t lines, int64_t steps, bool by_lines, uint32_t *to)
{
    enum { STEPS = 2 * SIDE };
    float few[SIDE * STEPS] = {0};
    bool turned = line == 1 && step != 1 && lines >= SIDE && steps >= STEPS;
    uint32_t odd;

    if (!turned && (step != 1 || lines < SIDE || steps < STEPS)) {
        for (int64_t i = 0; i < lines && i < SIDE; i++)
            for (int64_t s = 0; s < steps && s < STEPS; s++)
                few[i * STEPS + s] = from[i * line + s * step];
        from = few;
        line = STEPS;
    }
    odd = turned ? split_lines(from, step, to) : split_steps(from, line, to);
    for (int part = 0; part < 3 && turned == by_lines; part++)
        turn_words(to + part * PART, to + part * PART);
    return odd;
}

uint32_t pack_thirds(const float *from, int64_t line, int64_t step, int64_t lines, int64_t steps, bool by_lines, uint32_t *to)
{
    uint32_t odd = split_square(from, line, step, lines, steps, by_lines, to);

    return odd | split_square(from + SIDE * line, line, step, lines - SIDE, steps, by_lines, to + SQUARE) << SIDE;
}
