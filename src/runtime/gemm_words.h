/*
 * gemm_words.h - squares of packed operands, for gemm_bf16.c, gemm_int8.c and gemm_amx.c.
 *
 * A square is 1 KiB: of a 16 rows of 16 words, of b 16 words of 16 columns each.  A word has four steps of bytes or two of bf16.
 */
#ifndef TSR_RUNTIME_GEMM_WORDS_H
#define TSR_RUNTIME_GEMM_WORDS_H

#include <stdbool.h>
#include <stdint.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* to[i][t] = from[t][i] of 16 x 16 words; they may be the same. Where there is no AVX-512 nobody calls it. */
void turn_words(const uint32_t *from, uint32_t *to);

/*
 * Two squares of 32 lines, `lines` of which there are, and of 32 steps of bf16 or 64 of bytes, `steps` of which there are: by lines as of a, or by
 * words as of b.  What there is not multiplies to 0.  The first of two steps of bf16 is in the low half.
 */
void pack_halves(const uint16_t *from, int64_t line, int64_t step, int64_t lines, int64_t steps, bool by_lines, uint32_t *to);
/*
 * The same of f32 as sums of `parts` bf16: first two squares of high parts, then of those below.  Three hold every number, two one of 16 bits, one a
 * bf16; of bf16 themselves, `halves`, there is one.  Steps s and s + 16 are a word.  Bit i of what is returned: line i has numbers without such
 * parts: infinities, NaN, those that round to an infinity.
 */
uint32_t pack_parts(int parts, bool halves, const void *from, int64_t line, int64_t step, int64_t lines, int64_t steps, bool by_lines, uint32_t *to);
void pack_bytes(const uint8_t *from, int64_t line, int64_t step, int64_t lines, int64_t steps, bool by_lines, uint8_t *to);

#if defined(__x86_64__)
/* Bytes of four steps of 32 lines become words of 16 lines in each of two squares; of the first 16 lines alone, unless `both`. */
__attribute__((target("avx2"))) static inline void weave_four(const __m256i r[static 4], bool both, void *to)
{
    enum { STEP = 32, SECOND = 1024 };          /* bytes: of eight words; to the second square */
    __m256i low[2], high[2], y[4];
    char *at = to;

    for (int q = 0; q < 2; q++) {
        low[q] = _mm256_unpacklo_epi8(r[2 * q], r[2 * q + 1]);
        high[q] = _mm256_unpackhi_epi8(r[2 * q], r[2 * q + 1]);
    }
    y[0] = _mm256_unpacklo_epi16(low[0], low[1]);       /* lines 0 to 3, and 16 to 19 */
    y[1] = _mm256_unpackhi_epi16(low[0], low[1]);
    y[2] = _mm256_unpacklo_epi16(high[0], high[1]);
    y[3] = _mm256_unpackhi_epi16(high[0], high[1]);
    for (int i = 0; i < 4; i += 2, at += STEP) {
        _mm256_storeu_si256((__m256i *)(void *)at, _mm256_permute2x128_si256(y[i], y[i + 1], 0x20));
        if (both)
            _mm256_storeu_si256((__m256i *)(void *)(at + SECOND), _mm256_permute2x128_si256(y[i], y[i + 1], 0x31));
    }
}
#endif

#endif
