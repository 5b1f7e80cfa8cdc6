/* Words of squares of packed operands, from bf16 and bytes, turned in registers; f32 as sums of three bf16. */
#include "runtime/gemm_words.h"

#include "base/ints.h"

#include <string.h>

enum { SIDE = 16, SQUARE = SIDE * SIDE, PART = 2 * SQUARE };    /* words; of the squares of one part */
enum { PANEL = 2 * SIDE, ROW = 64 };    /* lines of two squares; bytes of a line's steps */

#if defined(__x86_64__)
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

#define PACKING __attribute__((target("avx512f,avx512bw,avx512vl")))

/* Bits of the first n of 64 bytes. */
static uint64_t first_bytes(int64_t n) { return n >= ROW ? ~(uint64_t)0 : n > 0 ? ((uint64_t)1 << n) - 1 : 0; }

/* 32 lines of so many bytes, which are neighbours. */
PACKING static void lay_lines(const char *from, int64_t line, int64_t lines, int64_t bytes, char *to)
{
    uint64_t all = first_bytes(bytes);

    for (int i = 0; i < PANEL; i++, from += line, to += ROW)
        _mm512_storeu_si512(to, _mm512_maskz_loadu_epi8(i < lines ? all : 0, from));
}

/* 32 steps of bf16 of so many lines, which are neighbours: pair after pair. */
PACKING static void pair_lines(const char *from, int64_t step, int64_t bytes, int64_t steps, char *to)
{
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i low = _mm512_or_si512(lanes, _mm512_slli_epi32(_mm512_add_epi32(lanes, _mm512_set1_epi32(PANEL)), 16));
    uint64_t all = first_bytes(bytes);

    for (int s = 0; s < 2 * SIDE; s += 2, from += 2 * step, to += ROW) {
        __m512i x = _mm512_maskz_loadu_epi8(s < steps ? all : 0, from), y = _mm512_maskz_loadu_epi8(s + 1 < steps ? all : 0, from + step);
        _mm512_storeu_si512(to, _mm512_permutex2var_epi16(x, low, y));
        _mm512_storeu_si512(to + SQUARE * 4, _mm512_permutex2var_epi16(x, _mm512_add_epi16(low, _mm512_set1_epi16(SIDE)), y));
    }
}

/* The same of 64 steps of bytes: four after four. */
PACKING static void weave_lines(const char *from, int64_t step, int64_t bytes, int64_t steps, char *to)
{
    uint32_t all = (uint32_t)first_bytes(bytes);

    for (int s = 0; s < 4 * SIDE; s += 4, to += ROW) {
        __m256i r[4];
        for (int q = 0; q < 4; q++, from += step)
            r[q] = _mm256_maskz_loadu_epi8(s + q < steps ? all : 0, from);
        weave_four(r, true, to);
    }
}

#define SPLITTING __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

/* The upper halves of x, which are those of words, and of y. */
SPLITTING static inline void store_halves(__m512i x, __m512i y, uint32_t *to)
{
    _mm512_storeu_si512(to, _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(y, 16), x));
}

/* Its upper half is the nearest bf16; of the largest numbers an infinity. */
SPLITTING static inline __m512i nearest(__m512 x) { return _mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x8000)); }

SPLITTING static inline __m512 without(__m512 x, __m512i part)
{
    return _mm512_sub_ps(x, _mm512_castsi512_ps(_mm512_and_si512(part, _mm512_set1_epi32((int)0xffff0000))));
}

/* The parts of 16 pairs of numbers, to a line of each part's square. What is given is not finite where one of a pair has no parts. */
SPLITTING static inline __m512 split_pairs(int parts, __m512 x, __m512 y, uint32_t *to)
{
    __m512i p = nearest(x), q = nearest(y);
    __m512 rest;

    store_halves(p, q, to);
    if (parts == 1) {
        x = _mm512_castsi512_ps(p), y = _mm512_castsi512_ps(q);
        return _mm512_add_ps(_mm512_sub_ps(x, x), _mm512_sub_ps(y, y));
    }
    x = without(x, p), y = without(y, q);
    rest = _mm512_add_ps(x, y);
    p = nearest(x), q = nearest(y);
    store_halves(p, q, to + PART);
    if (parts > 2)
        store_halves(_mm512_castps_si512(without(x, p)), _mm512_castps_si512(without(y, q)), to + 2 * PART);    /* 8 bits, and zeros */
    return rest;
}

SPLITTING static inline __mmask16 not_finite(__m512 x)
{
    enum { QUIET = 1, PLUS = 8, MINUS = 16, SIGNALLING = 128 };         /* kinds of NaN and of infinities */

    return _mm512_fpclass_ps_mask(x, QUIET | PLUS | MINUS | SIGNALLING);
}

static __mmask16 first_lanes(int64_t n) { return (__mmask16)(n >= SIDE ? 0xffff : n > 0 ? (1 << n) - 1 : 0); }

/* 16 numbers of f32, or of bf16 where that is what lies there, those of some lanes; else 0. */
SPLITTING static inline __m512 numbers(bool halves, __mmask16 lanes, const char *from)
{
    if (halves)
        return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, from)), 16));
    return _mm512_maskz_loadu_ps(lanes, from);
}

/* Of at most 16 lines whose steps, at most 32, are neighbours, line after line; `line` counts bytes. */
SPLITTING static inline __attribute__((always_inline)) uint32_t split_steps(int parts, bool halves, const char *from, int64_t line, int64_t lines,
                                                                           int64_t steps, uint32_t *to)
{
    __mmask16 first = first_lanes(steps), second = first_lanes(steps - SIDE);
    uint32_t odd = 0;

    for (int i = 0; i < SIDE; i++, from += line, to += SIDE) {
        __m512 x = numbers(halves, i < lines ? first : 0, from), y = numbers(halves, i < lines ? second : 0, from + SIDE * (halves ? 2 : 4));
        odd |= (uint32_t)(not_finite(split_pairs(parts, x, y, to)) != 0) << i;
    }
    return odd;
}

/* The same where lines are neighbours, pair after pair. */
SPLITTING static inline __attribute__((always_inline)) uint32_t split_lines(int parts, bool halves, const char *from, int64_t step, int64_t lines,
                                                                           int64_t steps, uint32_t *to)
{
    __mmask16 all = first_lanes(lines);
    __m512 rest = _mm512_setzero_ps();

    for (int i = 0; i < SIDE; i++, from += step, to += SIDE) {
        __m512 x = numbers(halves, i < steps ? all : 0, from), y = numbers(halves, i + SIDE < steps ? all : 0, from + SIDE * step);
        rest = _mm512_add_ps(rest, split_pairs(parts, x, y, to));
    }
    return not_finite(rest);
}

#define SPLIT(name, parts, halves) \
    SPLITTING static uint32_t name(bool turned, const char *from, int64_t stride, int64_t lines, int64_t steps, uint32_t *to) \
    { \
        return turned ? split_lines(parts, halves, from, stride, lines, steps, to) : split_steps(parts, halves, from, stride, lines, steps, to); \
    }
SPLIT(split_halves, 1, true)
SPLIT(split_one, 1, false)
SPLIT(split_two, 2, false)
SPLIT(split_three, 3, false)
#else
void turn_words(const uint32_t *from, uint32_t *to) { (void)from, (void)to; }
static void lay_lines(const char *from, int64_t line, int64_t lines, int64_t bytes, char *to) { }
static void pair_lines(const char *from, int64_t step, int64_t bytes, int64_t steps, char *to) { }
static void weave_lines(const char *from, int64_t step, int64_t bytes, int64_t steps, char *to) { }
static uint32_t split_none(bool turned, const char *from, int64_t stride, int64_t lines, int64_t steps, uint32_t *to) { return 0; }
#define split_halves split_none
#define split_one split_none
#define split_two split_none
#define split_three split_none
#endif

/* Elements of so many bytes, of at most 16 lines and 32 steps, line after line. */
static void gather_few(const char *from, size_t size, int64_t line, int64_t step, int64_t lines, int64_t steps, char *to)
{
    for (int64_t i = 0; i < lines && i < SIDE; i++)
        for (int64_t s = 0; s < steps && s < 2 * SIDE; s++)
            memcpy(to + (i * 2 * SIDE + s) * (int64_t)size, from + (i * line + s * step) * (int64_t)size, size);
}

/* One square of each part, of at most 16 lines and 32 steps. */
static uint32_t split_square(int parts, bool halves, const char *from, int64_t line, int64_t step, int64_t lines, int64_t steps, bool by_lines,
                             uint32_t *to)
{
    static uint32_t (*const splits[])(bool turned, const char *from, int64_t stride, int64_t lines, int64_t steps, uint32_t *to) = {
        split_halves, split_one, split_two, split_three,
    };
    bool turned = line == 1 && step != 1;
    int64_t size = halves ? 2 : 4;
    char few[SIDE * 2 * SIDE * sizeof(float)];
    uint32_t odd;

    if (!turned && step != 1) {
        gather_few(from, (size_t)size, line, step, lines, steps, few);
        from = few;
        line = 2 * SIDE;
    }
    odd = splits[halves ? 0 : parts](turned, from, (turned ? step : line) * size, lines, steps, to);
    for (int part = 0; part < parts && turned == by_lines; part++)
        turn_words(to + part * PART, to + part * PART);
    return odd;
}

uint32_t pack_parts(int parts, bool halves, const void *from, int64_t line, int64_t step, int64_t lines, int64_t steps, bool by_lines, uint32_t *to)
{
    const char *second = (const char *)from + SIDE * line * (halves ? 2 : 4);
    uint32_t odd = split_square(parts, halves, from, line, step, lines, steps, by_lines, to);

    return odd | split_square(parts, halves, second, line, step, lines - SIDE, steps, by_lines, to + SQUARE) << SIDE;
}

/* Elements of so many bytes, 64 bytes of them a line; strides count bytes. */
static void pack_words(const char *from, int64_t line, int64_t step, int64_t size, int64_t lines, int64_t steps, bool by_lines, char *to)
{
    char few[PANEL * ROW];

    lines = least(lines, PANEL);
    steps = least(steps, ROW / size);
    if (line != size && step != size) {
        for (int64_t i = 0; i < lines; i++)
            for (int64_t s = 0; s < steps; s++)
                memcpy(few + i * ROW + s * size, from + i * line + s * step, (size_t)size);
        from = few;
        line = ROW;
        step = size;
    }
    if (step == size)
        lay_lines(from, line, lines, steps * size, to);
    else
        (size == 1 ? weave_lines : pair_lines)(from, step, lines * size, steps, to);
    for (int i = 0; i < 2 && (step == size) != by_lines; i++, to += SQUARE * 4)
        turn_words((uint32_t *)(void *)to, (uint32_t *)(void *)to);
}

void pack_halves(const uint16_t *from, int64_t line, int64_t step, int64_t lines, int64_t steps, bool by_lines, uint32_t *to)
{
    pack_words((const char *)from, line * 2, step * 2, 2, lines, steps, by_lines, (char *)to);
}

void pack_bytes(const uint8_t *from, int64_t line, int64_t step, int64_t lines, int64_t steps, bool by_lines, uint8_t *to)
{
    pack_words((const char *)from, line, step, 1, lines, steps, by_lines, (char *)to);
}
