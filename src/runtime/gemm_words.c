/* Words of squares of packed operands, turned in registers. */
#include "runtime/gemm_words.h"

#if defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("avx512f"))) void turn_words(const uint32_t *from, uint32_t *to)
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
#else
void turn_words(const uint32_t *from, uint32_t *to) { (void)from, (void)to; }
#endif
