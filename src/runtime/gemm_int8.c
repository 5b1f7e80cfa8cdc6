/*
 * Products of bytes by dot-product instructions (AVX512-VNNI), which take four steps of k at a time; matrix units are in gemm_amx.c.
 *
 * Operands are packed into squares (gemm_words.h).  A block of b is packed once and shared by all threads; each takes panels of
 * 32 rows, packs them, and goes over the block 32 columns at a time.  The instruction multiplies unsigned by signed bytes: of b, which comes in
 * vectors, and of a, whose fours are spread to all lanes as they are read.  A signed b is packed with 128 added, an unsigned a with 128 taken
 * off, and what that changes the sums by they begin with: a number for each row, and one for each column.
 */
#include "runtime/gemm_int8.h"

#include "base/ints.h"
#include "runtime/cpu.h"
#include "runtime/each.h"
#include "runtime/gemm_amx.h"
#include "runtime/gemm_words.h"
#include "runtime/storage.h"

#include <string.h>

enum { SIDE = 16, STEPS = 64, SQUARE = SIDE * STEPS, PANEL = 2 * SIDE };
enum { CHUNK_STEPS = 1024, BLOCK_ROWS = 1024, BLOCK_COLUMNS = 1024 };
enum { FEW = 4 };                       /* rows that are not worth a square of them */
enum { WORTH = 4096 };                  /* multiplications that a task should have, in thousands of steps */

typedef struct Bytes {
    const BytesGemm *g;
    uint8_t aflip, bflip;               /* what bytes are changed by: 128, or nothing */
    int64_t i0, j0, k0, rows, columns, steps;   /* this block */
    int64_t squares;                    /* along k */
    uint8_t *a, *b;
    int32_t *of_columns;                /* what the sums of each column begin with; NULL: nothing */
} Bytes;

/* The size of n's blocks, about equal and whole squares of 64: up to a quarter more than `most`, as a few more would cost a block of their own. */
static __attribute__((noinline)) int64_t block_of(int64_t n, int64_t most)
{
    int64_t blocks = (n + most * 3 / 4 - 1) / most;

    return ceil_div(ceil_div(n, blocks > 1 ? blocks : 1), STEPS) * STEPS;
}

#if defined(__x86_64__)
bool bytes_unit_has(BytesUnit u)
{
    switch (u) {
    case BYTES_AMX: return amx_has(AMX_SS);
    case BYTES_VNNI: return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw");
    default: return true;
    }
}

/* ---- VNNI ---- */

#define VNNI __attribute__((target("avx512f,avx512bw,avx512vnni")))

/* ROWS x 16 sums, a row a vector; add: to those in c. They begin with a number of each row and, unless that is NULL, of each column. */
#define SQUARE_FN(name, ROWS) \
    VNNI static void name(bool add, int64_t fours, const uint8_t *a, const uint8_t *b, const int32_t *of_rows, const int32_t *of_columns, \
                          int32_t *c, int64_t crow) \
    { \
        __m512i acc[ROWS], first = of_columns ? _mm512_loadu_si512(of_columns) : _mm512_setzero_si512(); \
        UNROLL for (int i = 0; i < ROWS; i++) { \
            acc[i] = _mm512_add_epi32(first, _mm512_set1_epi32(of_rows[i])); \
            if (add) \
                acc[i] = _mm512_add_epi32(acc[i], _mm512_loadu_si512(c + i * crow)); \
        } \
        for (; fours > 0; fours -= SIDE, a += 2 * SQUARE, b += 2 * SQUARE) \
            for (int t = 0; t < SIDE && t < fours; t++) { \
                __m512i x = _mm512_loadu_si512(b + t * STEPS); \
                UNROLL for (int i = 0; i < ROWS; i++) { \
                    int32_t four; \
                    memcpy(&four, a + i * STEPS + t * 4, sizeof four); \
                    acc[i] = _mm512_dpbusd_epi32(acc[i], x, _mm512_set1_epi32(four)); \
                } \
            } \
        UNROLL for (int i = 0; i < ROWS; i++) \
            _mm512_storeu_si512(c + i * crow, acc[i]); \
    }
SQUARE_FN(vnni_square, SIDE)
SQUARE_FN(vnni_few, FEW)

/* As many of the 32 x 32 sums as there are rows and columns, over groups of four steps. */
static void vnni_tile(bool add, int64_t fours, const uint8_t *a, const uint8_t *b, const int32_t *of_rows, const int32_t *of_columns, int32_t *c,
                      int64_t crow, int64_t rows, int64_t columns)
{
    for (int i = 0; i < 2 && i * SIDE < rows; i++)
        for (int j = 0; j < 2 && j * SIDE < columns; j++)
            (rows - i * SIDE <= FEW ? vnni_few : vnni_square)(add, fours, a + i * SQUARE, b + j * SQUARE, of_rows + i * SIDE,
                                                              of_columns ? of_columns + j * SIDE : NULL, c + i * SIDE * crow + j * SIDE, crow);
}

VNNI static void flip_squares(uint8_t *x, uint8_t flip)
{
    for (int i = 0; i < 2 * SQUARE; i += STEPS)
        _mm512_storeu_si512(x + i, _mm512_xor_si512(_mm512_loadu_si512(x + i), _mm512_set1_epi8((char)flip)));
}

/* The sums of each row of a packed panel of a. */
VNNI static void sum_rows(const uint8_t *a, int64_t squares, int32_t *sum)
{
    const __m512i ones = _mm512_set1_epi8(1);

    for (int i = 0; i < PANEL; i++) {
        __m512i all = _mm512_setzero_si512();
        for (int64_t s = 0; s < squares; s++)
            all = _mm512_dpbusd_epi32(all, ones, _mm512_loadu_si512(a + (2 * s + i / SIDE) * SQUARE + i % SIDE * STEPS));
        sum[i] = _mm512_reduce_add_epi32(all);
    }
}

/* 128 times the sums of each column of a packed panel of b. */
VNNI static void sum_columns(const uint8_t *b, int64_t squares, int32_t *sum)
{
    const __m512i ones = _mm512_set1_epi8(1);

    for (int j = 0; j < 2; j++) {
        __m512i all = _mm512_setzero_si512();
        for (int64_t t = 0; t < squares * SIDE; t++)
            all = _mm512_dpbusd_epi32(all, _mm512_loadu_si512(b + (2 * (t / SIDE) + j) * SQUARE + t % SIDE * STEPS), ones);
        _mm512_storeu_si512(sum + j * SIDE, _mm512_slli_epi32(all, 7));
    }
}
#else
bool bytes_unit_has(BytesUnit u) { return u == BYTES_NONE; }
static void vnni_tile(bool add, int64_t fours, const uint8_t *a, const uint8_t *b, const int32_t *r, const int32_t *s, int32_t *c, int64_t crow,
                      int64_t m, int64_t n) { }
static void flip_squares(uint8_t *x, uint8_t flip) { }
static void sum_rows(const uint8_t *a, int64_t squares, int32_t *sum) { }
static void sum_columns(const uint8_t *b, int64_t squares, int32_t *sum) { }
#endif

BytesUnit bytes_unit(void)
{
    if (strcmp(cpu()->name, "v4"))
        return BYTES_NONE;
    return bytes_unit_has(BYTES_AMX) ? BYTES_AMX : bytes_unit_has(BYTES_VNNI) ? BYTES_VNNI : BYTES_NONE;
}

/* ---- packing ---- */

/* Four steps of `halves` (1 or 2) times 16 columns, rows step apart, become 16 groups of four in each of two squares. */
#if defined(__x86_64__)
__attribute__((target("avx2"))) static void weave(const uint8_t *from, int64_t step, int halves, uint8_t *to)
{
    __m256i r[4];

    for (int q = 0; q < 4; q++)
        r[q] = halves == 2 ? _mm256_loadu_si256((const __m256i *)(const void *)(from + q * step))
                           : _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)(from + q * step)));
    weave_four(r, halves == 2, to);
}
#else
static void weave(const uint8_t *from, int64_t step, int halves, uint8_t *to) { }
#endif

/*
 * A square of an operand's `lines` and `steps`: by lines as of a, or by groups of four steps as of b.  What is beyond them is what a
 * change of all bytes makes 0.
 */
static void pack_square(const uint8_t *from, int64_t line, int64_t step, int64_t lines, int64_t steps, bool by_lines, uint8_t flip, uint8_t *to)
{
    bool whole = lines >= SIDE && steps >= STEPS, runs = step == 1 && (by_lines || whole);
    int64_t q = 0;

    if (!whole)
        memset(to, flip, SQUARE);
    for (int64_t i = 0; i < lines && i < SIDE && runs; i++)
        memcpy(to + i * STEPS, from + i * line, (size_t)least(steps, STEPS));
    for (; q + 4 <= steps && q < STEPS && !runs && line == 1 && lines >= SIDE && (whole || !by_lines); q += 4)
        weave(from + q * step, step, 1, to + q / 4 * STEPS);
    if (whole && by_lines != runs && (runs || q))
        turn_words((const uint32_t *)(const void *)to, (uint32_t *)(void *)to);
    for (; q < steps && q < STEPS && !runs; q++)
        for (int64_t i = 0; i < lines && i < SIDE; i++)
            to[by_lines ? i * STEPS + q : q / 4 * STEPS + i * 4 + q % 4] = from[q * step + i * line];
}

/* Two squares of 32 lines and 64 steps (gemm_words.h); each byte that there is changes by flip, those that there are not become what it makes 0. */
static void pack_flipped(const uint8_t *from, int64_t line, int64_t step, int64_t lines, int64_t steps, bool by_lines, uint8_t flip, uint8_t *to)
{
    if (line == 1 && step != 1 && lines >= PANEL && steps >= STEPS) {
        for (int q = 0; q < STEPS; q += 4)
            weave(from + q * step, step, 2, to + q / 4 * STEPS);
        for (int i = 0; i < 2 && by_lines; i++)
            turn_words((const uint32_t *)(const void *)(to + i * SQUARE), (uint32_t *)(void *)(to + i * SQUARE));
    } else {
        for (int64_t i = 0; i < PANEL; i += SIDE)
            pack_square(from + i * line, line, step, lines - i, steps, by_lines, flip, to + i / SIDE * SQUARE);
    }
    if (flip)
        flip_squares(to, flip);
}

/* Of a panel of 32 lines, `lines` of which there are, the two squares of 64 steps from the s-th on. */
static void pack_squares(const Bytes *p, const uint8_t *from, int64_t line, int64_t step, int64_t lines, int64_t s, bool by_lines, uint8_t *to)
{
    pack_flipped(from + s * STEPS * step, line, step, lines, p->steps - s * STEPS, by_lines, by_lines ? p->aflip : p->bflip, to + 2 * s * SQUARE);
}

/* Panels of 32 columns: two squares for each 64 steps. */
static void pack_b(int64_t lo, int64_t hi, void *st)
{
    const Bytes *p = st;
    const BytesGemm *g = p->g;
    const uint8_t *from = g->b + p->k0 * g->brow + p->j0 * g->bcol;

    for (int64_t t = lo; t < hi; t++) {
        uint8_t *b = p->b + t * 2 * p->squares * SQUARE;
        for (int64_t s = 0; s < p->squares; s++)
            pack_squares(p, from + t * PANEL * g->bcol, g->bcol, g->brow, p->columns - t * PANEL, s, false, b);
        if (p->of_columns)
            sum_columns(b, p->squares, p->of_columns + t * PANEL);
    }
}

/* ---- blocks ---- */

/* The sums at the lower and right edges are computed in a whole tile beside c. */
static void one_tile(const Bytes *p, const uint8_t *a, const uint8_t *b, const int32_t *of_rows, int64_t i, int64_t j)
{
    const BytesGemm *g = p->g;
    int64_t rows = least(p->rows - i, PANEL), columns = least(p->columns - j, PANEL), crow = g->crow;
    int32_t *c = g->c + (p->i0 + i) * crow + p->j0 + j, beside[PANEL * PANEL], *to = c;

    if (rows < PANEL || columns < PANEL) {
        memset(beside, 0, sizeof beside);
        for (int64_t r = 0; r < rows && p->k0; r++)
            memcpy(beside + r * PANEL, c + r * crow, (size_t)columns * 4);
        to = beside;
        crow = PANEL;
    }
    vnni_tile(p->k0 > 0, ceil_div(p->steps, 4), a, b, of_rows, p->of_columns ? p->of_columns + j : NULL, to, crow, rows, columns);
    for (int64_t r = 0; r < rows && to == beside; r++)
        memcpy(c + r * g->crow, beside + r * PANEL, (size_t)columns * 4);
}

/* What the sums of a packed panel's rows begin with: a is signed, and b has 128 more than it had. */
static void begin_rows(const Bytes *p, const uint8_t *a, int32_t *of_rows)
{
    if (p->bflip)
        sum_rows(a, p->squares, of_rows);
    for (int i = 0; i < PANEL; i++)
        of_rows[i] = p->bflip ? (int32_t)(-128u * (uint32_t)of_rows[i] - (p->aflip ? 128u * 128u * (uint32_t)p->steps : 0)) : 0;
}

static void run_panels(int64_t lo, int64_t hi, void *st)
{
    const Bytes *p = st;
    const BytesGemm *g = p->g;
    const uint8_t *from = g->a + p->i0 * g->arow + p->k0 * g->acol;
    int32_t of_rows[PANEL];

    for (int64_t t = lo; t < hi; t++) {
        uint8_t *a = p->a + t * 2 * p->squares * SQUARE;
        for (int64_t s = 0; s < p->squares; s++)
            pack_squares(p, from + t * PANEL * g->arow, g->arow, g->acol, p->rows - t * PANEL, s, true, a);
        begin_rows(p, a, of_rows);
        for (int64_t j = 0; j < p->columns; j += PANEL)
            one_tile(p, a, p->b + j / PANEL * 2 * p->squares * SQUARE, of_rows, t * PANEL, j);
    }
}

static void run_block(Bytes *p)
{
    int64_t panels = ceil_div(p->columns, PANEL);

    p->squares = ceil_div(p->steps, STEPS);
    if (p->i0 == 0)
        pool_for(panels, WORTH / p->steps / 4 + 1, pack_b, p);
    pool_for(ceil_div(p->rows, PANEL), WORTH * 1024 / (p->steps * p->columns * PANEL) + 1, run_panels, p);
}

static KStatus by_tiles(KCtx *c, const BytesGemm *g)
{
    Gemm one = {.batch = 1, .m = g->m, .n = g->n, .k = g->k, .a = g->a, .b = g->b, .arow = g->arow, .acol = g->acol, .brow = g->brow, .bcol = g->bcol,
                .c = g->c, .crow = g->crow};

    return gemm_amx(c, &one, g->asigned ? g->bsigned ? AMX_SS : AMX_SU : g->bsigned ? AMX_US : AMX_UU);
}

KStatus gemm_bytes(KCtx *c, const BytesGemm *g, BytesUnit unit)
{
    Bytes p = {.g = g, .aflip = g->asigned ? 0 : 0x80, .bflip = g->bsigned ? 0x80 : 0};
    int32_t of_columns[BLOCK_COLUMNS * 5 / 4 + STEPS];
    int64_t steps = block_of(g->k, CHUNK_STEPS), rows = block_of(g->m, BLOCK_ROWS), columns = block_of(g->n, BLOCK_COLUMNS);
    int64_t a = rows * steps, b = columns * steps;
    Storage *room;

    if (unit == BYTES_NONE)
        return K_INDEX;
    if (unit == BYTES_AMX && g->k)
        return by_tiles(c, g);
    p.of_columns = p.aflip ? of_columns : NULL;
    for (int64_t i = 0; i < g->m && !g->k; i++)
        memset(g->c + i * g->crow, 0, (size_t)g->n * 4);
    if (!(room = storage_new((size_t)(a + b) + 1)))
        return k_fail(c, K_NOMEM, "no memory for %lld bytes of packed matrices", (long long)(a + b));
    p.a = (uint8_t *)storage_data(room);
    p.b = p.a + a;
    for (p.j0 = 0; p.j0 < g->n; p.j0 += columns)
        for (p.k0 = 0; p.k0 < g->k; p.k0 += steps)
            for (p.i0 = 0; p.i0 < g->m; p.i0 += rows) {
                p.rows = least(g->m - p.i0, rows);
                p.columns = least(g->n - p.j0, columns);
                p.steps = least(g->k - p.k0, steps);
                run_block(&p);
            }
    storage_unref(room);
    return K_OK;
}
