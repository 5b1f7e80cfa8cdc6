/*
 * Products on matrix units.
 *
 * Columns of b are packed for a block of steps, as many as have 1 MB (squares: gemm_words.h); all threads share them.  Each takes panels of
 * 32 rows of a.  A piece of their steps, so few that the first cache has them, goes over the columns, 32 at a time, and then the next piece
 * does.  The piece is copied by tile registers to one place that stays in that cache, from where a lies, or from packed squares where its
 * steps are not neighbours; f32 are split into their parts on the way there, or packed before where that would happen more than twice.
 * Columns and sums are loaded past it (tileloaddt1 takes lines of the second cache and leaves the first one as it is), and the next panel's
 * rows are asked for meanwhile, a few at a time: what the second cache lacks is slow to come.
 *
 * A square of sums is four tile registers.  Between the pieces it waits in a buffer, where its rows are neighbours: rows that are
 * far apart are slow to load and store, so c sees the last piece alone.  Of many matrices each thread computes whole ones.
 */
#include "runtime/gemm_amx.h"

#include "base/alloc.h"
#include "base/ints.h"
#include "runtime/each.h"
#include "runtime/gemm_words.h"
#include "runtime/storage.h"

#include <stdatomic.h>
#include <string.h>

enum { SIDE = AMX_SIDE, PANEL = AMX_PANEL, TWO = AMX_TWO, PIECE = 17 };         /* squares of a piece at most */
enum { PACKED = 1 << 20, PACKED_PARTS = 3 << 18 };      /* bytes of b, of its parts; at most */
enum { BLOCK_STEPS = 2048, PARTS_STEPS = 512, BLOCK_COLUMNS = 1024, BLOCK_ROWS = 2048 };
enum { SPLIT_TIMES = 2 };               /* blocks of columns for each of which rows are split anew, rather than packed for all */
enum { SMALL = 1 << 20 };               /* multiplications that are not worth a second thread */

/* A product, and the block of one matrix at hand. */
typedef struct Product {
    const Gemm *g;
    AmxKind kind;
    int size, side, parts;              /* an element's bytes; steps of a square; packed squares for each */
    int64_t height, block, width;       /* rows, steps and columns of blocks */
    int64_t batch, i0, j0, k0, rows, columns, steps;
    int64_t squares, piece;             /* along k; of a piece, of the last one at most */
    bool lies;                          /* a is read where it lies, but for edges */
    char *a, *b, *own;                  /* packed rows and columns; what each slot has: a piece of 32 rows, and sums of 32 rows */
    uint32_t *odd_a, *odd_b;            /* of f32, which rows of the block and columns of the matrix have no parts: bits, a word a panel */
    int64_t slot;                       /* alone: the thread that computes all of it */
    bool alone;
    _Atomic int64_t next;               /* panel of rows that nobody has taken */
    _Atomic bool failed;                /* no memory */
} Product;

/* ---- packing ---- */

/* Of a panel of 32 lines, `lines` of which there are, the squares of the steps from `at` on, `n` of them: lines without parts. */
static uint32_t pack(const Product *p, const char *from, int64_t line, int64_t step, int64_t lines, int64_t at, int64_t n, bool by_lines, char *to)
{
    uint32_t odd = 0;

    for (int64_t i = at; i < at + n; i++, to += p->parts * TWO) {
        int64_t s = i * p->side, steps = p->steps - s;
        const void *x = from + s * step * p->size;
        if (p->parts > 1)
            odd |= pack_parts(p->parts, false, x, line, step, lines, steps, by_lines, (uint32_t *)(void *)to);
        else if (p->kind == AMX_HALVES)
            pack_halves(x, line, step, lines, steps, by_lines, (uint32_t *)(void *)to);
        else
            pack_bytes(x, line, step, lines, steps, by_lines, (uint8_t *)to);
    }
    return odd;
}

/* Squares of the piece that begins with the one `at`. */
static int64_t in_piece(const Product *p, int64_t at) { return least(p->squares - at, p->piece); }

/* Where the piece that begins there lies in packed lines, of which there are so many, 32 after 32 of them. */
static char *piece_of(const Product *p, char *packed, int64_t lines, int64_t at, int64_t panel)
{
    return packed + (at * ceil_div(lines, PANEL) + panel * in_piece(p, at)) * p->parts * TWO;
}

/* Panels lo..hi of lines, square after square; where lines are neighbours, all panels of a few steps, so that memory is read as it lies. */
static void pack_panels(const Product *p, const char *from, int64_t line, int64_t step, int64_t lines, bool by_lines, int64_t lo, int64_t hi,
                        char *packed, uint32_t *odd)
{
    int64_t group = line == 1 ? 1 : p->piece;

    for (int64_t at = 0; at < p->squares; at += p->piece)
        for (int64_t s = 0; s < in_piece(p, at); s += group)
            for (int64_t t = lo; t < hi; t++) {
                char *to = piece_of(p, packed, lines, at, t) + s * p->parts * TWO;
                int64_t n = least(in_piece(p, at) - s, group);
                odd[t] |= pack(p, from + t * PANEL * line * p->size, line, step, lines - t * PANEL, at + s, n, by_lines, to);
            }
}

/* The t-th panel of rows of the block, from its first step on. */
static const char *rows_of(const Product *p, int64_t t)
{
    return (const char *)p->g->a + (p->batch * p->g->abatch + (p->i0 + t * PANEL) * p->g->arow + p->k0 * p->g->acol) * p->size;
}

static void pack_a(int64_t lo, int64_t hi, void *st)
{
    const Product *p = st;

    pack_panels(p, rows_of(p, 0), p->g->arow, p->g->acol, p->rows, true, lo, hi, p->a, p->odd_a);
}

static void pack_b(int64_t lo, int64_t hi, void *st)
{
    const Product *p = st;
    const Gemm *g = p->g;
    const char *b = (const char *)g->b + (p->batch * g->bbatch + p->k0 * g->brow + p->j0 * g->bcol) * p->size;

    pack_panels(p, b, g->bcol, g->brow, p->columns, false, lo, hi, p->b, p->odd_b + p->j0 / PANEL);
}

/* ---- blocks ---- */

static int64_t own_bytes(const Product *p) { return PIECE * TWO + ceil_div(p->width, PANEL) * PANEL * PANEL * 4; }

static __attribute__((noinline)) void copy_rows(const uint32_t *from, int64_t from_row, uint32_t *to, int64_t to_row, int64_t rows, int64_t columns)
{
    for (int64_t r = 0; r < rows; r++)
        memcpy(to + r * to_row, from + r * from_row, (size_t)columns * sizeof *to);
}

/* The piece that begins with the square `at`, of the t-th panel of rows, to where the first cache keeps it. */
static void bring(Product *p, int64_t at, int64_t t, char *to)
{
    const Gemm *g = p->g;
    int64_t n = in_piece(p, at), rows = p->rows - t * PANEL, lie = rows < PANEL || p->parts > 1 ? 0 : least(p->steps / p->side - at, n);
    int64_t line = g->arow * p->size;

    if (!p->lies) {
        amx_copy(n * p->parts, piece_of(p, p->a, p->rows, at, t), 64, TWO, to);
        return;
    }
    amx_copy(lie, rows_of(p, t) + at * 64, line, 64, to);
    p->odd_a[t] |= pack(p, rows_of(p, t), g->arow, g->acol, rows, at + lie, n - lie, true, to + lie * TWO);
}

/*
 * What is asked for while the piece `at` of the t-th panel of rows passes the j-th of so many panels of columns: a part of the next packed
 * piece, or of the rows of the next panel where they lie.
 */
static AmxAhead ahead_of(const Product *p, int64_t at, int64_t t, int64_t j, int64_t panels)
{
    int64_t next = at + p->piece, bytes, part, from;
    const char *x;

    if (p->rows - (t + 1) * PANEL < (p->lies ? PANEL : next < p->squares ? 1 - PANEL : 1))
        return (AmxAhead){0};
    if (!p->lies) {
        t += next >= p->squares;
        next = next < p->squares ? next : 0;
        part = in_piece(p, next) * p->parts * TWO / panels;
        x = piece_of(p, p->a, p->rows, next, t) + j * part;
        return (AmxAhead){x, x + part};
    }
    bytes = p->steps * p->size;
    from = (at / p->piece * panels + j) * (part = PANEL * bytes / panels / ceil_div(p->squares, p->piece));
    x = rows_of(p, t + 1) + from / bytes * p->g->arow * p->size + from % bytes;
    return (AmxAhead){x, x + least(part, bytes - from % bytes)};
}

/* Sums of 32 rows and columns after the piece `at`, which are in `kept` before and after it but for the first and the last. */
static void one_tile(const Product *p, const char *a, int64_t at, int64_t panel, uint32_t *kept, uint32_t *c, int64_t rows, const AmxAhead *ahead)
{
    int64_t n = in_piece(p, at), columns = least(p->columns - panel * PANEL, PANEL);
    bool whole = rows == PANEL && columns == PANEL, first = at == 0, last = at + n == p->squares;
    AmxSums s = {kept, PANEL, kept, PANEL};

    if (first && !p->k0)
        s.from = NULL;
    else if (first)
        copy_rows(c, p->g->crow, kept, PANEL, rows, columns);
    if (last && whole)
        s.to = c, s.to_row = p->g->crow;
    amx_tile(p->kind, n, a, piece_of(p, p->b, p->columns, at, panel), &s, ahead);
    if (last && !whole)
        copy_rows(kept, PANEL, c, p->g->crow, rows, columns);
}

/* These rows and columns of the matrix, as gemm_run computes them. */
static void by_lanes(const Product *p, void *room, int64_t i, int64_t rows, int64_t j, int64_t columns)
{
    Gemm g = *p->g;

    g.a = (const float *)g.a + p->batch * g.abatch + i * g.arow;
    g.b = (const float *)g.b + p->batch * g.bbatch + j * g.bcol;
    g.c = (float *)g.c + p->batch * g.cbatch + i * g.crow + j;
    g.done = NULL;
    g.batch = 1;
    g.m = rows;
    g.n = columns;
    gemm_here(&g, room);
}

/* Lines of a panel that have no parts: all of them at once, or each. */
static void odd_lines(const Product *p, void *room, int64_t i, int64_t rows, int64_t j, int64_t columns, uint32_t odd, bool of_rows)
{
    int64_t lines = of_rows ? rows : columns;

    if (__builtin_popcount(odd) == lines)
        by_lanes(p, room, i, rows, j, columns);
    for (; odd && __builtin_popcount(odd) < lines; odd &= odd - 1, lines--) {
        int64_t line = __builtin_ctz(odd);
        by_lanes(p, room, of_rows ? i + line : i, of_rows ? 1 : rows, of_rows ? j : j + line, of_rows ? columns : 1);
    }
}

/* The t-th panel of rows of the block is finished, but for lines without parts. */
static void mend_panel(Product *p, int64_t t, int64_t rows)
{
    int64_t n = ceil_div(p->columns, PANEL), i = p->i0 + t * PANEL;
    const uint32_t *odd = p->odd_b + p->j0 / PANEL;
    uint32_t any = p->odd_a[t];
    void *room;

    for (int64_t j = 0; j < n; j++)
        any |= odd[j];
    if (!any)
        return;
    if (!(room = tsr_try_alloc((size_t)gemm_room_max(), 64))) {
        atomic_store(&p->failed, true);
        return;
    }
    odd_lines(p, room, i, rows, p->j0, p->columns, p->odd_a[t], true);
    for (int64_t j = 0; j < n; j++)
        odd_lines(p, room, i, rows, p->j0 + j * PANEL, least(p->columns - j * PANEL, PANEL), odd[j], false);
    tsr_free_aligned(room);
}

/* The t-th panel of rows, by all columns of the block. */
static void run_panel(Product *p, int64_t slot, int64_t t)
{
    const Gemm *g = p->g;
    int64_t i = p->i0 + t * PANEL, rows = least(p->rows - t * PANEL, PANEL);
    uint32_t *c = (uint32_t *)g->c + p->batch * g->cbatch + i * g->crow + p->j0;
    char *near = p->own + (p->alone ? 0 : slot) * own_bytes(p);
    uint32_t *kept = (uint32_t *)(void *)(near + PIECE * TWO);
    int64_t panels = ceil_div(p->columns, PANEL);

    for (int64_t at = 0; at < p->squares; at += p->piece) {
        bring(p, at, t, near);
        for (int64_t j = 0; j < panels; j++) {
            AmxAhead ahead = ahead_of(p, at, t, j, panels);
            one_tile(p, near, at, j, kept + j * PANEL * PANEL, c + j * PANEL, rows, &ahead);
        }
    }
    if (p->parts > 1 && p->k0 + p->steps == g->k)
        mend_panel(p, t, rows);
    if (g->done && p->k0 + p->steps == g->k)
        g->done->fn(g->done->st, slot, p->batch * g->m + i, rows, p->j0, p->columns);
}

static void run_slots(int64_t lo, int64_t hi, void *st)
{
    Product *p = st;

    amx_begin();
    for (int64_t slot = lo, t; slot < hi; slot++)
        while ((t = atomic_fetch_add(&p->next, 1)) * PANEL < p->rows)
            run_panel(p, p->alone ? p->slot : slot, t);
    amx_end();
}

/* For all panels of so many lines, by all threads or alone. */
static void each_panel(Product *p, int64_t lines, int64_t threads, void (*fn)(int64_t lo, int64_t hi, void *st))
{
    if (p->alone)
        fn(0, ceil_div(lines, PANEL), p);
    else
        pool_for(ceil_div(lines, PANEL), threads > 1 ? 1 : ceil_div(lines, PANEL), fn, p);
}

static void run_block(Product *p, int64_t threads)
{
    each_panel(p, p->columns, threads, pack_b);
    atomic_store(&p->next, 0);
    if (p->alone)
        run_slots(0, 1, p);
    else
        pool_for(threads, 1, run_slots, p);
}

/* A word for each panel of rows of a block, and of columns of the matrix. */
static int64_t odd_bytes(const Product *p) { return (ceil_div(p->height, PANEL) + ceil_div(p->g->n, PANEL)) * (int64_t)sizeof *p->odd_a; }

static __attribute__((noinline)) void run_matrix(Product *p, int64_t threads)
{
    const Gemm *g = p->g;

    for (p->i0 = 0; p->i0 < g->m; p->i0 += p->height) {
        memset(p->odd_a, 0, (size_t)odd_bytes(p));
        for (p->k0 = 0; p->k0 < g->k; p->k0 += p->block) {
            p->rows = least(g->m - p->i0, p->height);
            p->steps = least(g->k - p->k0, p->block);
            p->squares = ceil_div(p->steps, p->side);
            p->piece = ceil_div(p->squares, ceil_div(p->squares, PIECE / p->parts));
            if (!p->lies)
                each_panel(p, p->rows, threads, pack_a);
            for (p->j0 = 0; p->j0 < g->n; p->j0 += p->width) {
                p->columns = least(g->n - p->j0, p->width);
                run_block(p, threads);
            }
        }
    }
}

typedef struct Matrices {
    Product p;
    int64_t bytes;                      /* of the room of each slot */
    char *room;
    _Atomic int64_t next;
} Matrices;

static __attribute__((noinline)) int64_t packed_bytes(const Product *p, int64_t lines)
{
    return ceil_div(lines, PANEL) * ceil_div(p->block, p->side) * p->parts * TWO;
}

static void set_room(Product *p, char *room)
{
    p->a = room;
    p->b = p->a + (p->lies ? 0 : packed_bytes(p, p->height));
    p->own = p->b + packed_bytes(p, p->width);
    p->odd_a = (uint32_t *)(void *)(p->own + (p->alone ? 1 : pool_threads()) * own_bytes(p));
    p->odd_b = p->odd_a + ceil_div(p->height, PANEL);
}

/* Whole matrices: this thread's are those that nobody has taken. */
static void run_matrices(int64_t lo, int64_t hi, void *st)
{
    Matrices *all = st;

    for (int64_t slot = lo; slot < hi; slot++) {
        Product p = all->p;
        p.alone = true;
        p.slot = slot;
        set_room(&p, all->room + slot * all->bytes);
        while ((p.batch = atomic_fetch_add(&all->next, 1)) < all->p.g->batch)
            run_matrix(&p, 1);
        if (p.failed)
            atomic_store(&all->p.failed, true);
    }
}

/* About equal parts of n, whole squares of 64, of at most so many; a quarter more rather than a small one more. */
static __attribute__((noinline)) int64_t part_of(int64_t n, int64_t of)
{
    int64_t parts = (n + of * 3 / 4 - 1) / of;

    return ceil_div(ceil_div(n, most(parts, 1)), 64) * 64;
}

/* Blocks: whole rows of c where those are asked for, else no more columns than have so many bytes for the steps of a block. */
static void choose_blocks(Product *p)
{
    const Gemm *g = p->g;
    bool rows = g->done && g->done->whole_rows;
    int64_t packed = p->parts * TWO / (PANEL * p->side);        /* bytes of an element */
    int64_t most_steps = p->parts > 1 ? PARTS_STEPS : BLOCK_STEPS;

    p->block = part_of(g->k, rows ? most(PACKED / (packed * g->n), PIECE * 32) : most_steps);
    p->width = rows ? g->n : part_of(g->n, least((p->parts > 1 ? PACKED_PARTS : PACKED) / (p->block * packed), BLOCK_COLUMNS));
    p->height = part_of(g->m, BLOCK_ROWS);
}

KStatus gemm_amx(KCtx *c, const Gemm *g, AmxKind kind)
{
    int64_t threads = (double)g->batch * (double)g->m * (double)g->n * (double)g->k < SMALL ? 1 : pool_threads();
    bool apart = g->batch >= 2 * threads;       /* enough matrices that nobody needs to help another */
    bool bytes = kind < AMX_HALVES, f32 = kind >= AMX_THIRDS;
    Matrices all = {.p = {.g = g, .kind = kind, .size = bytes ? 1 : f32 ? 4 : 2, .side = bytes ? 64 : 32,
                          .parts = amx_parts(kind)}};
    Product *p = &all.p;
    int64_t slots = apart ? threads : 1;
    Storage *room;

    if (!amx_has(kind))
        return K_INDEX;
    choose_blocks(p);
    p->lies = g->acol == 1 && (!f32 || g->n <= SPLIT_TIMES * p->width);
    all.bytes = (p->lies ? 0 : packed_bytes(p, p->height)) + packed_bytes(p, p->width) + (apart ? 1 : pool_threads()) * own_bytes(p) + odd_bytes(p);
    if (!(room = storage_new((size_t)(slots * all.bytes))))
        return k_fail(c, K_NOMEM, "no memory for %lld bytes of packed matrices", (long long)all.bytes);
    all.room = storage_data(room);
    set_room(p, all.room);
    if (apart)
        pool_for(threads, 1, run_matrices, &all);
    for (p->batch = 0; p->batch < g->batch && !apart; p->batch++)
        run_matrix(p, threads);
    storage_unref(room);
    return p->failed ? k_fail(c, K_NOMEM, "no memory for a matrix product") : K_OK;
}
