/*
 * Products of bytes on matrix units (AMX) and by dot-product instructions (AVX512-VNNI).
 *
 * Both take four steps of k at a time.  Operands are packed into squares of 1 KiB: of a 16 rows of 64 steps, of b
 * 16 groups of four steps of 16 columns each.  A block of b is packed once and shared by all threads; each takes panels of
 * 32 rows, packs them, and goes over the block 32 columns at a time: two by two squares of sums stay in tile registers.
 * VNNI multiplies unsigned by signed bytes: a signed a is packed with 128 added, and 128 times the sum of b's column is taken off.
 */
#include "runtime/gemm_int8.h"

#include "runtime/cpu.h"
#include "runtime/each.h"
#include "runtime/gemm_words.h"
#include "runtime/storage.h"

#include <string.h>

enum { SIDE = 16, STEPS = 64, SQUARE = SIDE * STEPS, PANEL = 2 * SIDE };
enum { CHUNK_STEPS = 1024, BLOCK_ROWS = 1024, BLOCK_COLUMNS = 1024 };
enum { WORTH = 4096 };                  /* multiplications that a task should have, in thousands of steps */

typedef struct Bytes {
    const BytesGemm *g;
    BytesUnit unit;
    uint8_t flip;                       /* what a's bytes are changed by */
    int64_t i0, j0, k0, rows, columns, steps;   /* this block */
    int64_t squares;                    /* along k */
    uint8_t *a, *b;
} Bytes;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t pieces(int64_t n, int64_t of) { return (n + of - 1) / of; }

#if defined(__x86_64__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- what there is ---- */

/* The kernel lends the tile registers to processes that ask. */
static bool amx_permitted(void)
{
    enum { REQUEST = 0x1023, TILE_DATA = 18 };
    unsigned a, b, c, d;
    static int answer = -1;

    if (answer >= 0)
        return answer;
    __asm__("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(7), "c"(0));
    answer = d >> 24 & 1 && d >> 25 & 1 && !syscall(SYS_arch_prctl, REQUEST, TILE_DATA);
    return answer;
}

bool bytes_unit_has(BytesUnit u)
{
    switch (u) {
    case BYTES_AMX: return amx_permitted();
    case BYTES_VNNI: return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw");
    default: return true;
    }
}

/* ---- AMX ---- */

typedef struct TileConfig {
    uint8_t palette, start, zero[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} TileConfig;

static void amx_begin(void)
{
    TileConfig t = {.palette = 1};

    for (int i = 0; i < 8; i++)
        t.bytes[i] = 64, t.rows[i] = SIDE;
    __asm__ volatile("ldtilecfg %0" : : "m"(t));
}

static void amx_end(void) { __asm__ volatile("tilerelease"); }

#define TILE_LOAD(t, from, stride) __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t : : "r"(from), "r"((int64_t)(stride)) : "memory")
#define TILE_STORE(t, to, stride) __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" : : "r"(to), "r"((int64_t)(stride)) : "memory")
#define AMX_LOOP(dot) \
    for (int64_t s = 0; s < squares; s++, a += 2 * SQUARE, b += 2 * SQUARE) { \
        TILE_LOAD(4, a, STEPS); \
        TILE_LOAD(6, b, STEPS); \
        TILE_LOAD(5, a + SQUARE, STEPS); \
        TILE_LOAD(7, b + SQUARE, STEPS); \
        __asm__ volatile(dot " %tmm6, %tmm4, %tmm0\n\t" dot " %tmm7, %tmm4, %tmm1\n\t" dot " %tmm6, %tmm5, %tmm2\n\t" dot " %tmm7, %tmm5, %tmm3"); \
    }

/* 32 x 32 sums; add: to those in c. */
static void amx_tile(bool asigned, bool bsigned, bool add, int64_t squares, const uint8_t *a, const uint8_t *b, int32_t *c, int64_t crow)
{
    int64_t stride = crow * 4;

    __asm__ volatile("tilezero %tmm0\n\ttilezero %tmm1\n\ttilezero %tmm2\n\ttilezero %tmm3");
    if (add) {
        TILE_LOAD(0, c, stride);
        TILE_LOAD(1, c + SIDE, stride);
        TILE_LOAD(2, c + SIDE * crow, stride);
        TILE_LOAD(3, c + SIDE * crow + SIDE, stride);
    }
    if (asigned && bsigned)
        AMX_LOOP("tdpbssd")
    else if (asigned)
        AMX_LOOP("tdpbsud")
    else if (bsigned)
        AMX_LOOP("tdpbusd")
    else
        AMX_LOOP("tdpbuud")
    TILE_STORE(0, c, stride);
    TILE_STORE(1, c + SIDE, stride);
    TILE_STORE(2, c + SIDE * crow, stride);
    TILE_STORE(3, c + SIDE * crow + SIDE, stride);
}

/* ---- VNNI ---- */

/* 16 x 16 sums: 16 rows of one vector, and the columns' sums of b times 128 that are taken off. */
__attribute__((target("avx512f,avx512bw,avx512vnni")))
static void vnni_square(bool shifted, bool add, int64_t fours, const uint8_t *a, const uint8_t *b, int32_t *c, int64_t crow)
{
    __m512i acc[SIDE], off = _mm512_setzero_si512(), middle = _mm512_set1_epi8((char)0x80);

    UNROLL for (int i = 0; i < SIDE; i++)
        acc[i] = add ? _mm512_loadu_si512(c + i * crow) : _mm512_setzero_si512();
    for (; fours > 0; fours -= SIDE, a += 2 * SQUARE, b += 2 * SQUARE)
        for (int t = 0; t < SIDE && t < fours; t++) {
            __m512i x = _mm512_loadu_si512(b + t * STEPS);
            off = _mm512_dpbusd_epi32(off, middle, x);
            UNROLL for (int i = 0; i < SIDE; i++) {
                int32_t four;
                memcpy(&four, a + i * STEPS + t * 4, sizeof four);
                acc[i] = _mm512_dpbusd_epi32(acc[i], _mm512_set1_epi32(four), x);
            }
        }
    UNROLL for (int i = 0; i < SIDE; i++)
        _mm512_storeu_si512(c + i * crow, shifted ? _mm512_sub_epi32(acc[i], off) : acc[i]);
}

/* As many of the 32 x 32 sums as there are rows and columns, over groups of four steps. */
static void vnni_tile(bool asigned, bool add, int64_t fours, const uint8_t *a, const uint8_t *b, int32_t *c, int64_t crow, int64_t rows,
                      int64_t columns)
{
    for (int i = 0; i < 2 && i * SIDE < rows; i++)
        for (int j = 0; j < 2 && j * SIDE < columns; j++)
            vnni_square(asigned, add, fours, a + i * SQUARE, b + j * SQUARE, c + i * SIDE * crow + j * SIDE, crow);
}
#else
bool bytes_unit_has(BytesUnit u) { return u == BYTES_NONE; }
static void amx_begin(void) { }
static void amx_end(void) { }
static void amx_tile(bool as, bool bs, bool add, int64_t squares, const uint8_t *a, const uint8_t *b, int32_t *c, int64_t crow) { }
static void vnni_tile(bool as, bool add, int64_t fours, const uint8_t *a, const uint8_t *b, int32_t *c, int64_t crow, int64_t m, int64_t n) { }
#endif

BytesUnit bytes_unit(void)
{
    if (strcmp(cpu()->name, "v4"))
        return BYTES_NONE;
    return bytes_unit_has(BYTES_AMX) ? BYTES_AMX : bytes_unit_has(BYTES_VNNI) ? BYTES_VNNI : BYTES_NONE;
}

/* ---- packing ---- */

/* Four steps of 16 columns, rows step apart, become 16 groups of four. */
static void weave(const uint8_t *from, int64_t step, uint8_t *to)
{
#if defined(__SSE2__)
    __m128i r[4], lo, hi;

    for (int q = 0; q < 4; q++)
        memcpy(&r[q], from + q * step, sizeof r[q]);
    for (int half = 0; half < 2; half++) {
        lo = half ? _mm_unpackhi_epi8(r[0], r[1]) : _mm_unpacklo_epi8(r[0], r[1]);
        hi = half ? _mm_unpackhi_epi8(r[2], r[3]) : _mm_unpacklo_epi8(r[2], r[3]);
        _mm_storeu_si128((__m128i *)(void *)(to + half * 32), _mm_unpacklo_epi16(lo, hi));
        _mm_storeu_si128((__m128i *)(void *)(to + half * 32 + 16), _mm_unpackhi_epi16(lo, hi));
    }
#else
    for (int i = 0; i < SIDE * 4; i++)
        to[i] = from[i % 4 * step + i / 4];
#endif
}

/* 16 columns of 64 steps as 16 groups of four steps; what lies beyond the ends is 0. */
static void pack_b_square(const Bytes *p, int64_t k, int64_t j, uint8_t *to)
{
    const BytesGemm *g = p->g;
    const uint8_t *from = g->b + (p->k0 + k) * g->brow + (p->j0 + j) * g->bcol;
    int64_t steps = least(p->steps - k, STEPS), columns = least(p->columns - j, SIDE), q = 0;

    if (steps < STEPS || columns < SIDE)
        memset(to, 0, SQUARE);
    for (; q + 4 <= steps && g->bcol == 1 && columns == SIDE; q += 4)
        weave(from + q * g->brow, g->brow, to + q / 4 * STEPS);
    if (g->brow == 1 && steps == STEPS && columns == SIDE && q == 0) {
        for (int i = 0; i < SIDE; i++)
            memcpy(to + i * STEPS, from + i * g->bcol, STEPS);
        turn_words((const uint32_t *)(const void *)to, (uint32_t *)(void *)to);
        q = steps;
    }
    for (; q < steps; q++)
        for (int64_t i = 0; i < columns; i++)
            to[q / 4 * STEPS + i * 4 + q % 4] = from[q * g->brow + i * g->bcol];
}

static void pack_a_square(const Bytes *p, int64_t i, int64_t k, uint8_t *to)
{
    const BytesGemm *g = p->g;
    const uint8_t *from = g->a + (p->i0 + i) * g->arow + (p->k0 + k) * g->acol;
    int64_t steps = least(p->steps - k, STEPS), rows = least(p->rows - i, SIDE);

    if (steps < STEPS || rows < SIDE)
        memset(to, 0, SQUARE);
    if (g->acol != 1 && g->arow == 1 && steps == STEPS && rows == SIDE) {
        for (int q = 0; q < STEPS; q += 4)
            weave(from + q * g->acol, g->acol, to + q / 4 * STEPS);
        turn_words((const uint32_t *)(const void *)to, (uint32_t *)(void *)to);
        rows = 0;
    }
    for (int64_t r = 0; r < rows; r++, from += g->arow) {
        if (g->acol == 1 && steps == STEPS)
            memcpy(to + r * STEPS, from, STEPS);
        else
            for (int64_t q = 0; q < steps; q++)
                to[r * STEPS + q] = from[q * g->acol];
    }
    for (int q = 0; q < SQUARE && p->flip; q++)
        to[q] ^= p->flip;
}

/* Panels of 32 columns: two squares for each 64 steps. */
static void pack_b(int64_t lo, int64_t hi, void *st)
{
    const Bytes *p = st;

    for (int64_t t = lo; t < hi; t++)
        for (int64_t s = 0; s < 2 * p->squares; s++)
            pack_b_square(p, s / 2 * STEPS, t * PANEL + s % 2 * SIDE, p->b + (t * 2 * p->squares + s) * SQUARE);
}

/* ---- blocks ---- */

/* The sums at the lower and right edges are computed in a whole tile beside c. */
static void one_tile(const Bytes *p, const uint8_t *a, const uint8_t *b, int64_t i, int64_t j)
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
    if (p->unit == BYTES_AMX)
        amx_tile(g->asigned, g->bsigned, p->k0 > 0, p->squares, a, b, to, crow);
    else
        vnni_tile(g->asigned, p->k0 > 0, pieces(p->steps, 4), a, b, to, crow, rows, columns);
    for (int64_t r = 0; r < rows && to == beside; r++)
        memcpy(c + r * g->crow, beside + r * PANEL, (size_t)columns * 4);
}

static void run_panels(int64_t lo, int64_t hi, void *st)
{
    const Bytes *p = st;

    if (p->unit == BYTES_AMX)
        amx_begin();
    for (int64_t t = lo; t < hi; t++) {
        uint8_t *a = p->a + t * 2 * p->squares * SQUARE;
        for (int64_t s = 0; s < 2 * p->squares; s++)
            pack_a_square(p, t * PANEL + s % 2 * SIDE, s / 2 * STEPS, a + s * SQUARE);
        for (int64_t j = 0; j < p->columns; j += PANEL)
            one_tile(p, a, p->b + j / PANEL * 2 * p->squares * SQUARE, t * PANEL, j);
    }
    if (p->unit == BYTES_AMX)
        amx_end();
}

static void run_block(Bytes *p)
{
    int64_t panels = pieces(p->columns, PANEL);

    p->squares = pieces(p->steps, STEPS);
    if (p->i0 == 0)
        pool_for(panels, WORTH / p->steps / 4 + 1, pack_b, p);
    pool_for(pieces(p->rows, PANEL), WORTH * 1024 / (p->steps * p->columns * PANEL) + 1, run_panels, p);
}

KStatus gemm_bytes(KCtx *c, const BytesGemm *g, BytesUnit unit)
{
    Bytes p = {.g = g, .unit = unit, .flip = unit == BYTES_VNNI && g->asigned ? 0x80 : 0};
    int64_t steps = pieces(least(g->k, CHUNK_STEPS), STEPS) * STEPS;
    int64_t a = pieces(least(g->m, BLOCK_ROWS), PANEL) * PANEL * steps, b = pieces(least(g->n, BLOCK_COLUMNS), PANEL) * PANEL * steps;
    Storage *room;

    if (unit == BYTES_NONE || (unit == BYTES_VNNI && !g->bsigned))
        return K_INDEX;
    for (int64_t i = 0; i < g->m && !g->k; i++)
        memset(g->c + i * g->crow, 0, (size_t)g->n * 4);
    if (!(room = storage_new((size_t)(a + b) + 1)))
        return k_fail(c, K_NOMEM, "no memory for %lld bytes of packed matrices", (long long)(a + b));
    p.a = (uint8_t *)storage_data(room);
    p.b = p.a + a;
    for (p.j0 = 0; p.j0 < g->n; p.j0 += BLOCK_COLUMNS)
        for (p.k0 = 0; p.k0 < g->k; p.k0 += CHUNK_STEPS)
            for (p.i0 = 0; p.i0 < g->m; p.i0 += BLOCK_ROWS) {
                p.rows = least(g->m - p.i0, BLOCK_ROWS);
                p.columns = least(g->n - p.j0, BLOCK_COLUMNS);
                p.steps = least(g->k - p.k0, CHUNK_STEPS);
                run_block(&p);
            }
    storage_unref(room);
    return K_OK;
}
