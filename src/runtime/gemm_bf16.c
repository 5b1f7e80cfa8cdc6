/*
 * Products of bf16 by dot-product instructions (AVX512-BF16), with the bits of gemm.h.
 *
 * The instruction takes two steps of k, as two multiply-adds that are rounded to nearest one after the other, of the odd halves first.  So the first
 * step of each two is packed into the odd half.  It differs from two plain ones in subnormal numbers, which it takes and gives as zeros.
 * All products, and so all sums of them however they are rounded, are whole multiples of what the lowest bits of the smallest elements
 * make: where that is a normal number there are no subnormal ones, and where it is not, tiles are computed by plain multiply-adds of the
 * same packed elements.
 *
 * Operands are packed into squares of 1 KiB: of a 16 rows of 16 pairs of steps, of b 16 pairs of 16 columns each.  A block of b, one
 * chunk of steps, is packed once and shared by all threads; each takes panels of 32 rows, packs them and goes over the block.  Of many
 * matrices each thread computes whole ones.
 */
#include "runtime/gemm_bf16.h"

#include "base/ints.h"
#include "runtime/cpu.h"
#include "runtime/each.h"
#include "runtime/gemm_words.h"
#include "runtime/storage.h"

#include <stdatomic.h>
#include <string.h>

enum { SIDE = 16, STEPS = 2 * SIDE, SQUARE = SIDE * SIDE, PANEL = 2 * SIDE };      /* SQUARE: in pairs */
enum { SQUARES = GEMM_CHUNK / STEPS, COLUMNS = 1024 };  /* of a chunk; packed together */
enum { SMALL = 1 << 18 };               /* multiplications that are not worth a second thread */
enum { NORMAL = 142 };                  /* two biased exponents whose lowest bits' product is a normal f32: 2 * (127 + 7) - 126 */
enum { NO_LOW = 1000 };
enum { FEW = 4, AHEAD = 2 * PANEL };    /* rows that are not worth a square of them; lines that are asked for ahead */

typedef struct Halves {
    const Gemm *g;
    int64_t batch, j0, k0, columns, steps;      /* the matrix and the block at hand */
    int64_t squares;                    /* along k */
    uint32_t *a, *b;                    /* packed: of each slot, and the block's */
    int32_t *low;                       /* of each panel of b, see find_low */
    int64_t slot;                       /* alone: the thread that computes all of it */
    bool alone;
    _Atomic int64_t next;               /* panel of rows that nobody has taken */
} Halves;

#if defined(__x86_64__)
#include <immintrin.h>

#define WIDE __attribute__((target("avx512f,avx512bw,avx512vl")))
#define DOTS __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

/* ---- squares ---- */

/* acc = a row of sums after the steps of a pair: x has the columns' pairs, w one of a row in all lanes. */
#define DOT(acc, x, w) acc = _mm512_dpbf16_ps(acc, (__m512bh)(x), (__m512bh)(w))
#define PLAIN(acc, x, w) \
    acc = _mm512_fmadd_ps((__m512)_mm512_and_si512(x, odd), (__m512)_mm512_and_si512(w, odd), acc), \
    acc = _mm512_fmadd_ps((__m512)_mm512_slli_epi32(x, 16), (__m512)_mm512_slli_epi32(w, 16), acc)

/* Does this machine round after each of the two, the odd one first? 1 + 2^24 + 1 is 2^24 then, else 2 more. */
DOTS static bool is_in_order(void)
{
    __m512i x = _mm512_set1_epi32(0x45803f80);
    __m512 acc = _mm512_set1_ps(1);

    DOT(acc, x, x);
    return _mm512_cvtss_f32(acc) == 0x1p24f;
}

#define REGISTERS "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10"
/* The least time, in ticks, of some rounds of such an instruction on ten registers. */
#define TICKS_FN(name, op) \
    DOTS static uint64_t name(void) \
    { \
        enum { ROUNDS = 50, TRIES = 20 }; \
        uint64_t least = UINT64_MAX; \
        __asm__ volatile("vzeroall" : : : REGISTERS); \
        for (int i = 0; i < TRIES; i++) { \
            uint64_t from = __builtin_ia32_rdtsc(), took; \
            for (int r = 0; r < ROUNDS; r++) \
                __asm__ volatile(op " %%zmm0, %%zmm0, %%zmm1\n\t" op " %%zmm0, %%zmm0, %%zmm2\n\t" op " %%zmm0, %%zmm0, %%zmm3\n\t" \
                                 op " %%zmm0, %%zmm0, %%zmm4\n\t" op " %%zmm0, %%zmm0, %%zmm5\n\t" op " %%zmm0, %%zmm0, %%zmm6\n\t" \
                                 op " %%zmm0, %%zmm0, %%zmm7\n\t" op " %%zmm0, %%zmm0, %%zmm8\n\t" op " %%zmm0, %%zmm0, %%zmm9\n\t" \
                                 op " %%zmm0, %%zmm0, %%zmm10" \
                                 : : : REGISTERS); \
            took = __builtin_ia32_rdtsc() - from; \
            least = took < least ? took : least; \
        } \
        return least; \
    }
TICKS_FN(dot_ticks, "vdpbf16ps")
TICKS_FN(plain_ticks, "vfmadd231ps")

bool gemm_bf16_has(void) { return !strcmp(cpu()->name, "v4") && __builtin_cpu_supports("avx512bf16") && is_in_order(); }

/* Is it clearly faster than the two multiply-adds that it does? Some machines have it at a quarter of their pace. Asked once. */
static bool is_fast(void)
{
    static _Atomic int8_t answer;       /* 0: nobody has asked */
    int8_t y = atomic_load_explicit(&answer, memory_order_relaxed);

    if (!y) {
        y = gemm_bf16_has() && dot_ticks() * 4 < plain_ticks() * 2 * 3 ? 1 : -1;
        atomic_store_explicit(&answer, y, memory_order_relaxed);
    }
    return y > 0;
}

/* ROWS x 16 sums of a chunk; add: to those in c. */
#define SQUARE_FN(name, HOW, STEP, ROWS) \
    HOW static void name(bool add, int64_t pairs, const uint32_t *a, const uint32_t *b, float *c, int64_t crow) \
    { \
        const __m512i odd = _mm512_set1_epi32((int32_t)0xffff0000); \
        __m512 acc[ROWS]; \
        (void)odd; \
        UNROLL for (int i = 0; i < ROWS; i++) \
            acc[i] = _mm512_setzero_ps(); \
        for (; pairs > 0; pairs -= SIDE, a += 2 * SQUARE, b += 2 * SQUARE) \
            for (int t = 0; t < SIDE && t < pairs; t++) { \
                __m512i x = _mm512_loadu_si512(b + t * SIDE); \
                UNROLL for (int i = 0; i < ROWS; i++) { \
                    __m512i w = _mm512_set1_epi32((int32_t)a[i * SIDE + t]); \
                    STEP(acc[i], x, w); \
                } \
            } \
        UNROLL for (int i = 0; i < ROWS; i++) \
            _mm512_storeu_ps(c + i * crow, add ? _mm512_add_ps(_mm512_loadu_ps(c + i * crow), acc[i]) : acc[i]); \
    }
SQUARE_FN(dot_square, DOTS, DOT, SIDE)
SQUARE_FN(dot_few, DOTS, DOT, FEW)
SQUARE_FN(plain_half, WIDE, PLAIN, SIDE / 2)

static void plain_square(bool add, int64_t pairs, const uint32_t *a, const uint32_t *b, float *c, int64_t crow)
{
    for (int i = 0; i < SIDE; i += SIDE / 2)
        plain_half(add, pairs, a + i * SIDE, b, c + i * crow, crow);
}

/* The least biased exponent of numbers other than 0; so low that nothing helps, where one is subnormal; high where there are none. */
WIDE static int32_t find_low(const uint32_t *packed, int64_t n)
{
    const __m512i bits = _mm512_set1_epi16(0x7fff), one = _mm512_set1_epi16(1);
    __m512i low = _mm512_set1_epi16(-1);
    uint16_t lane[2 * SIDE], all = UINT16_MAX;

    for (int64_t i = 0; i < n; i += SIDE)       /* 0 becomes the greatest of all */
        low = _mm512_min_epu16(low, _mm512_sub_epi16(_mm512_and_si512(_mm512_loadu_si512(packed + i), bits), one));
    _mm512_storeu_si512(lane, low);
    for (int i = 0; i < 2 * SIDE; i++)
        all = lane[i] < all ? lane[i] : all;
    return all == UINT16_MAX ? NO_LOW : all + 1 < 1 << 7 ? -NO_LOW : (all + 1) >> 7;
}

/* ---- packing ---- */

/* Pairs of 16 lines whose steps are neighbours, the first step in the odd half, line after line. */
WIDE static void pair_steps(const uint16_t *from, int64_t line, uint32_t *to)
{
    for (int i = 0; i < SIDE; i++, from += line, to += SIDE) {
        __builtin_prefetch(from + AHEAD * line, 0, 2);
        _mm512_storeu_si512(to, _mm512_rol_epi32(_mm512_loadu_si512(from), 16));
    }
}

/* The same where lines are neighbours, pair after pair. */
WIDE static void pair_lines(const uint16_t *from, int64_t step, uint32_t *to)
{
    for (int t = 0; t < SIDE; t++, from += 2 * step, to += SIDE) {
        __m512i x = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)from));
        __m512i y = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(from + step)));
        __builtin_prefetch(from + AHEAD, 0, 2);
        __builtin_prefetch(from + step + AHEAD, 0, 2);
        _mm512_storeu_si512(to, _mm512_or_si512(_mm512_slli_epi32(x, 16), y));
    }
}
#else
bool gemm_bf16_has(void) { return false; }
static bool is_fast(void) { return false; }
static void dot_square(bool add, int64_t pairs, const uint32_t *a, const uint32_t *b, float *c, int64_t crow) { }
static void dot_few(bool add, int64_t pairs, const uint32_t *a, const uint32_t *b, float *c, int64_t crow) { }
static void plain_square(bool add, int64_t pairs, const uint32_t *a, const uint32_t *b, float *c, int64_t crow) { }
static int32_t find_low(const uint32_t *packed, int64_t n) { return 0; }
static void pair_steps(const uint16_t *from, int64_t line, uint32_t *to) { }
static void pair_lines(const uint16_t *from, int64_t step, uint32_t *to) { }
#endif

/*
 * A square of an operand's `lines` and `steps`: by lines as of a, or by pairs as of b.  What is beyond them is 0 in b and -0 in a: adding
 * -0 changes no sum.
 */
static void pack_square(const uint16_t *from, int64_t line, int64_t step, int64_t lines, int64_t steps, bool by_lines, uint32_t *to)
{
    bool whole = lines >= SIDE && steps >= STEPS;

    if (whole && step == 1 && by_lines) {
        pair_steps(from, line, to);
    } else if (whole && line == 1 && !by_lines) {
        pair_lines(from, step, to);
    } else if (whole && (step == 1 || line == 1)) {
        if (step == 1)
            pair_steps(from, line, to);
        else
            pair_lines(from, step, to);
        turn_words(to, to);
    } else {
        for (int i = 0; i < SQUARE; i++)
            to[i] = by_lines ? 0x80008000 : 0;
        for (int64_t i = 0; i < lines && i < SIDE; i++)
            for (int64_t q = 0; q < steps && q < STEPS; q++) {
                uint32_t *pair = to + (by_lines ? i * SIDE + q / 2 : q / 2 * SIDE + i), x = from[i * line + q * step];
                *pair = q % 2 ? (*pair & 0xffff0000) | x : (*pair & 0xffff) | x << 16;
            }
    }
}

/* Of a panel of 32 lines, `lines` of which there are, the two squares of 32 steps from the s-th on. */
static void pack_squares(const Halves *p, const uint16_t *from, int64_t line, int64_t step, int64_t lines, int64_t s, bool by_lines, uint32_t *to)
{
    from += s * STEPS * step;
    to += 2 * s * SQUARE;
    for (int64_t i = 0; i < PANEL; i += SIDE, to += SQUARE) {
        if (i < lines)
            pack_square(from + i * line, line, step, lines - i, p->steps - s * STEPS, by_lines, to);
        else
            memset(to, 0, SQUARE * sizeof *to);
    }
}

static int64_t panel_pairs(const Halves *p) { return 2 * p->squares * SQUARE; }

static void pack_b(int64_t lo, int64_t hi, void *st)
{
    const Halves *p = st;
    const Gemm *g = p->g;
    const uint16_t *b = (const uint16_t *)g->b + p->batch * g->bbatch + p->k0 * g->brow + p->j0 * g->bcol;

    int64_t band = g->bcol == 1 ? 1 : p->squares;       /* rows of b go from end to end, columns that lie so do */
    for (int64_t s0 = 0; s0 < p->squares; s0 += band)
        for (int64_t t = lo; t < hi; t++)
            for (int64_t s = s0; s < s0 + band; s++)
                pack_squares(p, b + t * PANEL * g->bcol, g->bcol, g->brow, p->columns - t * PANEL, s, false, p->b + t * panel_pairs(p));
    for (int64_t t = lo; t < hi; t++)
        p->low[t] = find_low(p->b + t * panel_pairs(p), panel_pairs(p));
}

/* ---- blocks ---- */

/* 32 x 32 sums; those at the lower and right edges are computed beside c. */
static void one_tile(const Halves *p, const uint32_t *a, const uint32_t *b, bool plain, float *c, int64_t rows, int64_t columns)
{
    float beside[PANEL * PANEL], *to = c;
    int64_t crow = p->g->crow;

    if (rows < PANEL || columns < PANEL) {
        for (int64_t r = 0; r < rows && p->k0; r++)
            memcpy(beside + r * PANEL, c + r * crow, (size_t)columns * sizeof *c);
        to = beside;
        crow = PANEL;
    }
    for (int i = 0; i < 2 && i * SIDE < rows; i++)
        for (int j = 0; j < 2 && j * SIDE < columns; j++)
            (plain ? plain_square : rows <= FEW ? dot_few : dot_square)(p->k0 > 0, (p->steps + 1) / 2, a + i * SQUARE, b + j * SQUARE,
                                                                        to + i * SIDE * crow + j * SIDE, crow);
    for (int64_t r = 0; r < rows && to == beside; r++)
        memcpy(c + r * p->g->crow, beside + r * PANEL, (size_t)columns * sizeof *c);
}

/* Rows from i on, a panel of them, by all columns of the block. */
static void run_panel(const Halves *p, int64_t slot, int64_t i)
{
    const Gemm *g = p->g;
    int64_t rows = least(g->m - i, PANEL);
    const uint16_t *from = (const uint16_t *)g->a + p->batch * g->abatch + i * g->arow + p->k0 * g->acol;
    float *c = (float *)g->c + p->batch * g->cbatch + i * g->crow + p->j0;
    uint32_t *a = p->a + (p->alone ? 0 : slot) * PANEL * GEMM_CHUNK / 2;
    int32_t low;

    for (int64_t s = 0; s < p->squares; s++)
        pack_squares(p, from, g->arow, g->acol, rows, s, true, a);
    low = find_low(a, panel_pairs(p));
    for (int64_t j = 0; j < p->columns; j += PANEL)
        one_tile(p, a, p->b + j / PANEL * panel_pairs(p), low + p->low[j / PANEL] < NORMAL, c + j, rows, least(p->columns - j, PANEL));
    if (g->done && p->k0 + p->steps == g->k)
        g->done->fn(g->done->st, slot, p->batch * g->m + i, rows, p->j0, p->columns);
}

static void run_slots(int64_t lo, int64_t hi, void *st)
{
    Halves *p = st;

    for (int64_t slot = lo, t; slot < hi; slot++)
        while ((t = atomic_fetch_add(&p->next, 1)) * PANEL < p->g->m)
            run_panel(p, p->alone ? p->slot : slot, t * PANEL);
}

/* One matrix, `width` columns at a time: by all threads, or alone. */
static void run_matrix(Halves *p, int64_t width, int64_t threads)
{
    const Gemm *g = p->g;

    for (p->j0 = 0; p->j0 < g->n; p->j0 += width)
        for (p->k0 = 0; p->k0 < g->k; p->k0 += GEMM_CHUNK) {
            p->columns = least(g->n - p->j0, width);
            p->steps = least(g->k - p->k0, GEMM_CHUNK);
            p->squares = ceil_div(p->steps, STEPS);
            atomic_store(&p->next, 0);
            if (p->alone) {
                pack_b(0, ceil_div(p->columns, PANEL), p);
                run_slots(0, 1, p);
            } else {
                pool_for(ceil_div(p->columns, PANEL), threads > 1 ? 1 : ceil_div(p->columns, PANEL), pack_b, p);
                pool_for(threads, 1, run_slots, p);
            }
        }
}

typedef struct Matrices {
    const Gemm *g;
    int64_t width, threads;
    char *room;
    int64_t bytes;                      /* of each slot */
    _Atomic int64_t next;
} Matrices;

static int64_t b_pairs(int64_t width) { return ceil_div(width, PANEL) * PANEL * GEMM_CHUNK / 2; }

static Halves halves(const Matrices *all, int64_t slot)
{
    char *room = all->room + slot * all->bytes;
    uint32_t *b = (uint32_t *)(void *)room;
    uint32_t *a = b + b_pairs(all->width);

    return (Halves){.g = all->g, .b = b, .a = a, .low = (int32_t *)(void *)(a + all->threads * PANEL * GEMM_CHUNK / 2)};
}

/* Whole matrices: this thread's are those that nobody has taken. */
static void run_matrices(int64_t lo, int64_t hi, void *st)
{
    Matrices *all = st;

    for (int64_t slot = lo; slot < hi; slot++) {
        Halves p = halves(all, slot);
        p.alone = true;
        p.slot = slot;
        while ((p.batch = atomic_fetch_add(&all->next, 1)) < all->g->batch)
            run_matrix(&p, all->width, 1);
    }
}

bool gemm_bf16_worth(const Gemm *g) { return g->n >= SIDE && g->k >= STEPS && is_fast(); }

KStatus gemm_bf16(KCtx *c, const Gemm *g)
{
    int64_t threads = (double)g->batch * (double)g->m * (double)g->n * (double)g->k < SMALL ? 1 : pool_threads();
    bool apart = g->batch >= 2 * threads;       /* enough matrices that nobody needs to help another */
    Matrices all = {.g = g, .threads = apart ? 1 : threads,
                    .width = g->done && g->done->whole_rows ? g->n : least(g->n, COLUMNS)};
    Storage *room;

    all.bytes = (b_pairs(all.width) + all.threads * PANEL * GEMM_CHUNK / 2 + ceil_div(all.width, PANEL) + SIDE) * 4 / 64 * 64;
    if (!(room = storage_new((size_t)((apart ? threads : 1) * all.bytes))))
        return k_fail(c, K_NOMEM, "no memory for %lld bytes of packed matrices", (long long)all.bytes);
    all.room = storage_data(room);
    if (apart) {
        pool_for(threads, 1, run_matrices, &all);
    } else {
        Halves p = halves(&all, 0);
        for (p.batch = 0; p.batch < g->batch; p.batch++)
            run_matrix(&p, all.width, threads);
    }
    storage_unref(room);
    return K_OK;
}
