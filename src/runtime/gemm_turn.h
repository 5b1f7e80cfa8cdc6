/*
 * gemm_turn.h - squares of f32 turned in registers, for gemm_kernel.c, which says what SIZED is.
 *
 * SQUARE steps of SQUARE lines, or four steps of them, become vectors that each have one step of all lines.
 */
#ifndef TSR_RUNTIME_GEMM_TURN_H
#define TSR_RUNTIME_GEMM_TURN_H

#include "runtime/each.h"

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

enum { FOUR = 4 };              /* steps, and lines, of what is turned together: 128 bits */
#ifdef __AVX512F__
enum { SQUARE = 16 };
typedef __m512 Row;
#define UNPACK(which, x, y) _mm512_unpack##which(x, y)
#define PAIRS(which, x, y) _mm512_castpd_ps(_mm512_unpack##which(_mm512_castps_pd(x), _mm512_castps_pd(y)))
static inline __m128 get_four(bool is, const float *at) { return is ? _mm_loadu_ps(at) : _mm_setzero_ps(); }

/* Four steps of four lines, `apart` elements from each other, those of them that are among so many of all. */
static inline Row get_fours(const float *at, int64_t apart, int64_t lines)
{
    __m512 x = _mm512_castps128_ps512(get_four(lines > 0, at));

    x = _mm512_insertf32x4(x, get_four(lines > FOUR, at + apart), 1);
    x = _mm512_insertf32x4(x, get_four(lines > 2 * FOUR, at + 2 * apart), 2);
    return _mm512_insertf32x4(x, get_four(lines > 3 * FOUR, at + 3 * apart), 3);
}

static inline __m256 get_eight(bool is, const float *at) { return is ? _mm256_loadu_ps(at) : _mm256_setzero_ps(); }

/* Eight steps of two lines. */
static inline Row get_eights(const float *at, int64_t apart, int64_t lines)
{
    __m512d x = _mm512_castps_pd(_mm512_castps256_ps512(get_eight(lines > 0, at)));

    return _mm512_castpd_ps(_mm512_insertf64x4(x, _mm256_castps_pd(get_eight(lines > FOUR, at + apart)), 1));
}

static inline void put_row(float *to, __m512 x) { _mm512_storeu_ps(to, x); }
static inline void put_few(float *to, __m512 x, int64_t n) { _mm512_mask_storeu_ps(to, n < 16 ? (__mmask16)((1u << n) - 1) : (__mmask16)0xffff, x); }
#elif defined(__FMA__)
enum { SQUARE = 8 };
typedef __m256 Row;
#define UNPACK(which, x, y) _mm256_unpack##which(x, y)
#define PAIRS(which, x, y) _mm256_castpd_ps(_mm256_unpack##which(_mm256_castps_pd(x), _mm256_castps_pd(y)))
static inline __m128 get_four(bool is, const float *at) { return is ? _mm_loadu_ps(at) : _mm_setzero_ps(); }

/* The same of two lines. */
static inline Row get_fours(const float *at, int64_t apart, int64_t lines)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(get_four(lines > 0, at)), get_four(lines > FOUR, at + apart), 1);
}

static inline void put_row(float *to, __m256 x) { _mm256_storeu_ps(to, x); }
static inline void put_few(float *to, __m256 x, int64_t n)
{
    static const int32_t some[16] = {-1, -1, -1, -1, -1, -1, -1, -1};

    if (n >= 8)
        _mm256_storeu_ps(to, x);
    else
        _mm256_maskstore_ps(to, _mm256_loadu_si256((const __m256i *)(const void *)(some + 8 - n)), x);
}
#endif

/* Lines f, f + 4, ... of four steps, for each f of four, become steps of all lines. */
SIZED void turn_fours(const Row x[FOUR], Row y[FOUR])
{
    Row a = UNPACK(lo_ps, x[0], x[1]), b = UNPACK(hi_ps, x[0], x[1]), c = UNPACK(lo_ps, x[2], x[3]), d = UNPACK(hi_ps, x[2], x[3]);

    y[0] = PAIRS(lo_pd, a, c);
    y[1] = PAIRS(hi_pd, a, c);
    y[2] = PAIRS(lo_pd, b, d);
    y[3] = PAIRS(hi_pd, b, d);
}

/* Four steps of up to SQUARE lines at s, `line` elements apart, zeros for the others, to rows at y. */
SIZED void turn_steps(const float *s, int64_t line, int64_t lines, Row y[FOUR])
{
    Row x[FOUR];

    UNROLL for (int f = 0; f < FOUR; f++)
        x[f] = get_fours(s + f * line, FOUR * line, lines - f);
    turn_fours(x, y);
}

/*
 * SQUARE steps.  Loads put parts of lines side by side: the machine does that without its one unit for shuffles, which turning waits for.
 */
SIZED void turn_square(const float *s, int64_t line, int64_t lines, Row y[SQUARE])
{
#ifdef __AVX512F__
    enum { EIGHT = 8 };
    UNROLL for (int q = 0; q < SQUARE; q += EIGHT) {
        Row x[FOUR], low[FOUR], high[FOUR];             /* lines 0 to 7, 8 to 15: steps i and i + 4 of four lines each */
        UNROLL for (int f = 0; f < FOUR; f++)
            x[f] = get_eights(s + f * line + q, FOUR * line, lines - f);
        turn_fours(x, low);
        UNROLL for (int f = 0; f < FOUR; f++)
            x[f] = get_eights(s + (EIGHT + f) * line + q, FOUR * line, lines - EIGHT - f);
        turn_fours(x, high);
        UNROLL for (int i = 0; i < FOUR; i++) {
            y[q + i] = _mm512_shuffle_f32x4(low[i], high[i], 0x88);
            y[q + FOUR + i] = _mm512_shuffle_f32x4(low[i], high[i], 0xdd);
        }
    }
#else
    for (int q = 0; q < SQUARE; q += FOUR)
        turn_steps(s + q, line, lines, y + q);
#endif
}

/* A square of fewer lines, too. Whole ones and a tile's rows are what there mostly is. */
static __attribute__((noinline)) void turn_some(const float *s, int64_t line, int64_t lines, Row *y)
{
    if (lines == SQUARE)
        turn_square(s, line, SQUARE, y);
    else
        turn_square(s, line, lines, y);
}

/*
 * Of the steps from q to k, fewer than a square, the next ones: four or what is left of them, as the last rows of y; how many.  There are at least
 * four steps before k.
 */
static __attribute__((noinline)) int64_t turn_rest(const float *s, int64_t line, int64_t lines, int64_t q, int64_t k, Row y[FOUR])
{
    int64_t left = k - q < FOUR ? k - q : FOUR;

    if (lines == SQUARE)
        turn_steps(s + q + left - FOUR, line, SQUARE, y);
    else
        turn_steps(s + q + left - FOUR, line, lines, y);
    return left;
}

#endif
