/*
 * Matrix products: loops around the tiles of gemm_kernel.c, after Goto and van de Geijn (2008).
 *
 * A thread computes rectangles of c.  It takes GEMM_CHUNK steps at a time: of these it packs columns of b into panels as
 * wide as a tile, which stay in the second cache, and one panel of rows of a after another, which stays in the first while all
 * panels of b pass (several are packed together where that reads longer runs).  Zeros fill the last panels, so a step reads two
 * runs and needs no edges.  Where columns are packed in several goes, packed rows stay in memory for all of them.  Sums of chunks are
 * added up in c itself.  Several threads take blocks of rows, or of columns, until there are no more, and the operand that all of them pass
 * over is packed once for all.  An operand that is small, or used only once or twice, is read where it lies; a few rows of sums stay in memory while
 * b streams through, and over very few steps each row of c is written from end to end.
 */
#include "runtime/gemm.h"

#include "base/ints.h"
#include "runtime/cpu.h"
#include "runtime/storage.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { FEW_BYTES = 16 << 10 };          /* of sums in memory, which stay in the first cache */
enum { LIES_BYTES = 16 << 10 };         /* of a chunk of b, of a tile's rows of a, which need not be packed to be in the first cache */
enum { KEEP_BYTES = 1 << 20 };          /* of packed rows of a that stay while columns of b are packed one block after another */
enum { PASSES = 3 };                    /* panels of rows that pass over a chunk of b in the second cache, which stays as it is */
enum { SOME_PANELS = 8 };               /* of columns for which rows of a are not packed */
enum { SOME_PASSES = 40 };              /* panels of rows for which a chunk of b is not packed that takes an eighth of the second cache */
enum { STEPS_BYTES = 256 << 10, FEW_STEPS = 32 };      /* of a chunk of steps of a that lie apart, which are read where they lie; so few always are */
enum { NEAR_PASSES = 4 };               /* panels of rows for which columns whose steps are neighbours are packed a panel at a time */
enum { SOME_ROWS = 24, STREAM_BYTES = 512 << 10 };     /* b streams through from end to end for so many, where a chunk of it is larger */
enum { FAR_BYTES = 32 << 20 };          /* of b, which comes from memory and not from a cache */
enum { TOGETHER = 8 };                  /* panels of rows that are packed at once where a's columns are what lies side by side */
enum { FINISH_ROWS = 56 };              /* that are finished together: a block of 1024 columns is then in the second cache */
enum { EVEN_PARTS = 3 };                /* tiles of rows that are made alike */
enum { BLOCK_ROWS = 4, BLOCK_COLUMNS = 2 };             /* panels at least that a thread takes of what threads share */
enum { SHARED_BYTES = 4 << 20 };        /* of an operand that is packed for all threads */

/* A tile of a small matrix, and where it begins in a, b and c: in bytes. */
typedef struct Placed { GemmTileFn *run; int64_t a, b, c; } Placed;
enum { TILES_MOST = 16, AT_ONCE = 8 };  /* tiles, and small matrices that a thread takes */

typedef struct Job {
    Gemm g;
    const GemmTiles *t;
    int64_t size, nr;                   /* bytes of an element; columns of a panel */
    bool a_lies, b_lies;                /* are read where they lie */
    int64_t together;                   /* panels of a that are packed at a time */
    int64_t mc;                         /* rows that stay packed for all columns; 0: none do */
    bool thin;                          /* so few steps that rows of c are written from end to end */
    bool few;                           /* rows that are summed in memory while b passes */
    int64_t nc;                         /* columns that are packed together */
    int64_t down, across, parts;        /* rectangles of each matrix; of all */
    int64_t high, wide;                 /* rows and columns that a thread passes over */
    bool by_rows, by_columns;           /* rectangles are blocks of rows, of columns, more than there are threads: they share the other operand */
    int64_t a_bytes, room_bytes;        /* packed a, and all, of a thread */
    char *room, *shared;                /* shared: all of b, or of a, packed, a chunk after another; NULL: nothing is */
    int ntiles;                         /* of each matrix, small and read where it lies; 0: it is computed as large ones are */
    Placed tile[TILES_MOST];
    _Atomic int64_t next;               /* rectangle that nobody has taken */
} Job;

/* A rectangle of c being computed for one chunk. */
typedef struct Part {
    const Job *p;
    const char *a, *b;                  /* of this chunk: from the first row, from the first column */
    char *c, *pa, *pb;                  /* c from its first element; packed panels */
    int64_t i0, i1, j0, j1;             /* of the matrix */
    int64_t k0, k;
    bool add, last;                     /* not the first chunk; the last one */
    bool there;                         /* these rows are packed already */
    int64_t row, slot;                  /* first row of the batch, counted over all; which thread */
} Part;


/* ---- tiles ---- */

static const GemmTile *tile_for(const GemmTile *t, int64_t rows, int64_t vectors)
{
    while (t->rows > rows || t->vectors > vectors)
        t++;
    return t;
}

static bool has_rows(const GemmTile *t, int64_t rows) { return tile_for(t, rows, 1)->rows == rows; }

/* Rows of the next tiles, of so many that are left: even parts of few, else the largest there are. A few rows alone would wait for their sums. */
static int64_t height_of(const GemmTiles *t, int64_t left)
{
    int64_t parts = (left + t->rows - 1) / t->rows, even = (left + parts - 1) / parts, half = (left + 1) / 2;

    if (parts <= EVEN_PARTS && has_rows(t->tile, even))
        return even;
    return parts == 1 && has_rows(t->tile, half) ? half : tile_for(t->tile, left, 1)->rows;
}

/* Whole vectors of columns of some rows. */
static void cover(const Job *p, int64_t k, const char *a, int64_t arow, int64_t acol, int64_t rows, const char *b, int64_t brow, int64_t vectors,
                  char *c, int64_t crow, bool add)
{
    for (int64_t i = 0, height; i < rows; i += height) {
        const GemmTile *t = p->t->tile;
        height = height_of(p->t, rows - i);
        for (int64_t v = 0; v < vectors; v += t->vectors) {
            t = tile_for(t, height, vectors - v);
            int64_t at = v * p->t->lanes * p->size;
            t->run(k, a + i * arow * p->size, arow, acol, b + at, brow, c + i * crow * p->size + at, crow, add);
        }
    }
}

/* n sums of this chunk join those in c. */
static __attribute__((noinline)) void take(const Part *r, char *c, const char *sums, int64_t n)
{
    if (!r->add)
        memcpy(c, sums, (size_t)(n * r->p->size));
    else if (r->p->size == 4)
        for (int64_t j = 0; j < n; j++)
            ((float *)(void *)c)[j] += ((const float *)(const void *)sums)[j];
    else
        for (int64_t j = 0; j < n; j++)
            ((double *)(void *)c)[j] += ((const double *)(const void *)sums)[j];
}

/* The same for `columns` of a packed panel of b, the last of which may be filled up. */
static void cover_panel(const Part *r, const char *a, int64_t arow, int64_t acol, int64_t rows, const char *b, int64_t columns, char *c)
{
    _Alignas(64) char tile[GEMM_TILE_BYTES];
    const Job *p = r->p;
    int64_t vectors = (columns + p->t->lanes - 1) / p->t->lanes, crow = p->g.crow;
    bool packed = rows == p->t->rows && arow == 1 && acol == rows, edge = columns % p->t->lanes;
    char *to = edge ? tile : c;

    if (edge)
        crow = p->nr;
    if (packed)
        (vectors == 1 ? p->t->narrow : p->t->panel)(r->k, a, 1, acol, b, p->nr, to, crow, r->add && !edge);
    else
        cover(p, r->k, a, arow, acol, rows, b, p->nr, vectors, to, crow, r->add && !edge);
    for (int64_t i = 0; i < rows && edge; i++)
        take(r, c + i * p->g.crow * p->size, tile + i * p->nr * p->size, columns);
}

/* ---- packing ---- */

/* One panel: `width` lines of the operand (zeros beyond `lines`), k steps each. */
static void pack(const Job *p, const char *src, int64_t line, int64_t step, int64_t lines, int64_t width, int64_t k, char *dst)
{
    int64_t size = p->size;

    if (line == 1)
        p->t->copy(src, step, lines, k, dst, width);
    else if (step == 1)
        p->t->turn(src, line, lines, k, dst, width);
    else
        for (int64_t q = 0; q < k; q++)
            for (int64_t i = 0; i < width; i++) {
                char *to = dst + (q * width + i) * size;
                if (i < lines)
                    memcpy(to, src + (i * line + q * step) * size, (size_t)size);
                else
                    memset(to, 0, (size_t)size);
            }
}

/* Columns j to je of b, in panels one after another. */
static void pack_columns(const Part *r, int64_t j, int64_t je, char *to)
{
    const Job *p = r->p;
    int64_t width = p->g.bcol == 1 ? je - j : p->nr;

    for (; j < je; j += width, to += width * r->k * p->size)
        pack(p, r->b + j * p->g.bcol * p->size, p->g.bcol, p->g.brow, least(je - j, width), p->nr, r->k, to);
}

/* Rows i to ie of a. */
static void pack_rows(const Part *r, int64_t i, int64_t ie, char *to)
{
    const Job *p = r->p;
    int64_t mr = p->t->rows, width = p->g.arow == 1 ? ie - i : mr;

    for (; i < ie; i += width, to += width * r->k * p->size)
        pack(p, r->a + i * p->g.arow * p->size, p->g.arow, p->g.acol, least(ie - i, width), mr, r->k, to);
}

/* Where line i of this chunk is, the first of a panel. */
static char *shared_at(const Part *r, int64_t i)
{
    const Job *p = r->p;
    int64_t lines = p->by_rows ? round_up(p->g.n, p->nr) : round_up(p->g.m, p->t->rows);

    return p->shared + (r->k0 * lines + i * r->k) * p->size;
}

/* ---- rectangles ---- */

typedef struct Rows { const char *a; int64_t arow, acol, rows; } Rows;

/* Some rows of a, at most a tile's, packed unless they lie well; those before have been asked for. */
static Rows rows_at(const Part *r, int64_t i)
{
    const Job *p = r->p;
    const Gemm *g = &p->g;
    int64_t mr = p->t->rows, left = r->i1 - i, rows = least(left, mr), panel = (i - r->i0) / mr, first = panel % p->together;
    const char *a = r->a + i * g->arow * p->size;
    char *at = r->pa + (p->mc ? panel : first) * mr * r->k * p->size;

    if (p->a_lies)
        return (Rows){a, g->arow, g->acol, height_of(p->t, left)};
    if (p->by_columns)
        return (Rows){shared_at(r, i), 1, mr, rows};
    if (!first && !r->there)
        pack_rows(r, i, least(r->i1, i + p->together * mr), at);
    return (Rows){at, 1, mr, rows};
}

/*
 * Rows of c by b where it lies, columns j0 to je: whole vectors.  The last one begins before the others end; it gives the same again, or (add)
 * what is new of it joins the sums.
 */
static void rows_unpacked(const Part *r, const Rows *x, int64_t i, int64_t je)
{
    _Alignas(64) char tile[GEMM_TILE_BYTES];
    const Job *p = r->p;
    const Gemm *g = &p->g;
    int64_t size = p->size, lanes = p->t->lanes, strip = x->rows <= 3 ? 16 * lanes : p->nr;
    char *c = r->c + i * g->crow * size;

    for (int64_t j = r->j0, columns; j < je; j += columns) {
        int64_t left = least(je - j, strip), from = left < lanes ? je - lanes : j;
        bool apart = left < lanes && r->add;
        columns = most(left, lanes) / lanes * lanes;
        cover(p, r->k, x->a, x->arow, x->acol, x->rows, r->b + from * size, g->brow, columns / lanes, apart ? tile : c + from * size,
              apart ? lanes : g->crow, r->add && !apart);
        for (int64_t row = 0; row < x->rows && apart; row++)
            take(r, c + (row * g->crow + j) * size, tile + (row * lanes + lanes - left) * size, left);
        columns = least(columns, left);
    }
}

/* Rows i to ie are finished in this part's columns. */
static void finish(const Part *r, int64_t i, int64_t ie)
{
    const GemmDone *d = r->p->g.done;

    if (d && r->last && (!d->whole_rows || r->j1 - r->j0 == r->p->g.n))
        d->fn(d->st, r->slot, r->row + i, ie - i, r->j0, r->j1 - r->j0);
}

/* One chunk of some columns: panels of rows, each by all columns. */
static void run_chunk(const Part *r)
{
    const Job *p = r->p;
    int64_t columns = r->j1 - r->j0, finished = r->i0, whole = p->b_lies && columns >= p->t->lanes ? r->j1 : r->j0;
    const char *pb = p->shared && p->by_rows ? shared_at(r, r->j0) : r->pb;

    if (pb == r->pb)
        pack_columns(r, whole, r->j1, r->pb);
    for (int64_t i = r->i0, ie; i < r->i1; i = ie) {
        Rows x = rows_at(r, i);
        if (whole > r->j0)
            rows_unpacked(r, &x, i, whole);
        int64_t j = whole;
        if (x.rows == p->t->rows && x.arow == 1 && x.acol == x.rows)        /* most of the work of large products: nothing is asked that is known */
            for (const char *b = pb; j + p->nr <= r->j1; j += p->nr, b += p->nr * r->k * p->size)
                p->t->panel(r->k, x.a, 1, x.acol, b, p->nr, r->c + (i * p->g.crow + j) * p->size, p->g.crow, r->add);
        for (; j < r->j1; j += p->nr)
            cover_panel(r, x.a, x.arow, x.acol, x.rows, pb + (j - whole) * r->k * p->size, least(r->j1 - j, p->nr),
                        r->c + (i * p->g.crow + j) * p->size);
        ie = i + x.rows;
        if (ie == r->i1 || ie - finished >= FINISH_ROWS) {
            finish(r, finished, ie);
            finished = ie;
        }
    }
}

/* One chunk of few rows: as many columns at a time as have sums in the first cache. */
static void run_few(const Part *r)
{
    const Job *p = r->p;
    const Gemm *g = &p->g;
    int64_t rows = r->i1 - r->i0, strip = FEW_BYTES / p->size / rows / p->t->lanes * p->t->lanes, size = p->size;

    for (int64_t j = r->j0; j < r->j1; j += strip) {
        int64_t n = least(r->j1 - j, strip), row = round_up(n, p->t->lanes);
        bool turned = g->bcol != 1;
        (turned ? p->t->across : p->t->few)(rows, r->k, r->a + r->i0 * g->arow * size, g->arow, g->acol, r->b + j * g->bcol * size,
                                            turned ? g->bcol : g->brow, n, r->pb, row);
        for (int64_t i = 0; i < rows; i++)
            take(r, r->c + ((r->i0 + i) * g->crow + j) * size, r->pb + i * row * size, n);
    }
    finish(r, r->i0, r->i1);
}

/* The one chunk that there is, of few steps. */
static void run_thin(const Part *r)
{
    const Job *p = r->p;
    const Gemm *g = &p->g;
    int64_t size = p->size;

    for (int64_t i = r->i0, ie; i < r->i1; i = ie) {
        ie = least(i + FINISH_ROWS, r->i1);
        p->t->thin(ie - i, r->k, r->a + i * g->arow * size, g->arow, g->acol, r->b + r->j0 * size, g->brow, r->j1 - r->j0,
                   r->c + (i * g->crow + r->j0) * size, g->crow);
        finish(r, i, ie);
    }
}

/* The next chunk of a part, from step k0 on. */
static void set_chunk(Part *r, const char *a, const char *b, int64_t k0)
{
    const Gemm *g = &r->p->g;

    r->k0 = k0;
    r->k = least(g->k - k0, GEMM_CHUNK);
    r->a = a + k0 * g->acol * r->p->size;
    r->b = b + k0 * g->brow * r->p->size;
    r->add = k0 > 0 || g->more;
    r->last = k0 + GEMM_CHUNK >= g->k;
}

/* Columns j to je, a block of them at a time, each with all of its chunks. */
static void run_columns(Part *r, const char *a, const char *b, int64_t j, int64_t je)
{
    const Job *p = r->p;

    for (r->j0 = j; r->j0 < je; r->j0 = r->j1) {
        r->j1 = least(r->j0 + p->nc, je);
        for (int64_t k0 = 0; !k0 || k0 < p->g.k; k0 += GEMM_CHUNK) {
            set_chunk(r, a, b, k0);
            (p->few ? run_few : p->thin ? run_thin : run_chunk)(r);
        }
    }
}

/* The same for some rows at a time, which are packed once for each chunk. */
static void run_rows(Part *r, const char *a, const char *b, int64_t j, int64_t je)
{
    const Job *p = r->p;
    int64_t i1 = r->i1;

    for (; r->i0 < i1; r->i0 = r->i1) {
        r->i1 = least(r->i0 + p->mc, i1);
        for (int64_t k0 = 0; !k0 || k0 < p->g.k; k0 += GEMM_CHUNK) {
            set_chunk(r, a, b, k0);
            for (r->j0 = j; r->j0 < je; r->j0 = r->j1) {
                r->j1 = least(r->j0 + p->nc, je);
                r->there = r->j0 > j;
                run_chunk(r);
            }
        }
    }
}

static void run_part(const Job *p, int64_t part, int64_t slot)
{
    const Gemm *g = &p->g;
    int64_t di = part % p->down, dj = part / p->down % p->across, batch = part / p->down / p->across;
    int64_t mr = p->t->rows, ms = (g->m + mr - 1) / mr, ns = (g->n + p->nr - 1) / p->nr, size = p->size;
    const char *a = (const char *)g->a + batch * g->abatch * size, *b = (const char *)g->b + batch * g->bbatch * size;
    char *room = p->room + slot * p->room_bytes;
    int64_t i0 = di * ms / p->down * mr, i1 = least((di + 1) * ms / p->down * mr, g->m);
    Part r = {.p = p, .slot = slot, .row = batch * g->m, .pa = room, .pb = room + p->a_bytes, .c = (char *)g->c + batch * g->cbatch * size,
              .i0 = i0, .i1 = i1};

    (p->mc ? run_rows : run_columns)(&r, a, b, dj * ns / p->across * p->nr, least((dj + 1) * ns / p->across * p->nr, g->n));
    if (g->done && g->done->whole_rows && p->nc < g->n)
        g->done->fn(g->done->st, slot, r.row + i0, i1 - i0, 0, g->n);
}

/* A matrix of few tiles. */
static void run_small(const Job *p, int64_t batch)
{
    const Gemm *g = &p->g;
    const char *a = (const char *)g->a + batch * g->abatch * p->size, *b = (const char *)g->b + batch * g->bbatch * p->size;
    char *c = (char *)g->c + batch * g->cbatch * p->size;

    for (int i = 0; i < p->ntiles; i++)
        p->tile[i].run(g->k, a + p->tile[i].a, g->arow, g->acol, b + p->tile[i].b, g->brow, c + p->tile[i].c, g->crow, false);
}

/* One thread: rectangles until there are no more. */
static void run_parts(int64_t lo, int64_t hi, void *st)
{
    Job *p = st;

    int64_t n = p->ntiles ? AT_ONCE : 1;

    for (int64_t slot = lo, t; slot < hi; slot++)
        while ((t = atomic_fetch_add(&p->next, n)) < p->parts)
            for (int64_t i = t; i < t + n && i < p->parts; i++)
                p->ntiles ? run_small(p, i) : run_part(p, i, slot);
}

/* ---- plans ---- */

/*
 * Blocks of some panels along the longer side, several for each thread: one that is slower for a while takes fewer.  For long sides alone, and for
 * what can be packed at once.
 */
static bool plan_shared(Job *p, int64_t threads, int64_t ms, int64_t ns)
{
    const Gemm *g = &p->g;
    bool rows = g->m >= g->n || (g->done && g->done->whole_rows);
    int64_t panels = rows ? ms : ns, each = most(rows ? BLOCK_ROWS : BLOCK_COLUMNS, panels / (16 * threads)), parts = panels / each;

    if (threads == 1 || g->batch > 1 || least(g->m, g->n) <= SOME_ROWS || g->k <= GEMM_THIN || parts < 4 * threads ||
        (rows ? g->n : g->m) * g->k * p->size > SHARED_BYTES)
        return false;
    p->by_rows = rows;
    p->by_columns = !rows;
    p->down = rows ? parts : 1;
    p->across = rows ? 1 : parts;
    p->high = rows ? (g->m + threads - 1) / threads : g->m;
    p->wide = rows ? g->n : (g->n + threads - 1) / threads;
    return true;
}

/* Rectangles: enough for the threads, with as little to pack as can be. */
static void plan_parts(Job *p, int64_t threads)
{
    int64_t ms = (p->g.m + p->t->rows - 1) / p->t->rows, ns = (p->g.n + p->nr - 1) / p->nr;
    double best = 0;

    p->down = p->across = 1;
    bool shared = plan_shared(p, threads, ms, ns);
    for (int64_t d = 1; !shared && p->g.batch < 2 * threads && d <= least(threads, ms); d++) {
        int64_t a = p->g.done && p->g.done->whole_rows ? 1 : least((threads + d * p->g.batch - 1) / (d * p->g.batch), ns);
        double high = (double)((ms + d - 1) / d * p->t->rows), wide = (double)((ns + a - 1) / a * p->nr);
        double cost = high * wide + 16 * (high + wide);         /* of the largest rectangle: products, and packing */
        if (best == 0 || cost < best)
            best = cost, p->down = d, p->across = a;
    }
    p->parts = p->g.batch * p->down * p->across;
    if (!shared) {
        p->high = least(round_up((p->g.m + p->down - 1) / p->down, p->t->rows), p->g.m);       /* as parts have whole tiles of rows */
        p->wide = (p->g.n + p->across - 1) / p->across;
    }
}

/* Half of the second cache holds packed columns. */
static int64_t packed_bytes(void)
{
    long second = sysconf(_SC_LEVEL2_CACHE_SIZE);

    return second < 512 << 10 ? 256 << 10 : second > 2 << 20 ? 1 << 20 : second / 2;
}

static int64_t packed_columns(const Job *p) { return packed_bytes() / (GEMM_CHUNK * p->size) / p->nr * p->nr; }

/*
 * Do rows of a lie a power of two apart, so that their places at one step are one of the first cache's?  Columns of one tile or two are all the
 * same fewer than what a copy takes, where the cache has about as many ways.
 */
static bool rows_meet(const Job *p, int64_t wide)
{
    enum { WAY = 4096 };
    long ways = sysconf(_SC_LEVEL1_DCACHE_ASSOC);

    return p->g.arow * p->size % WAY == 0 && (wide > 2 * p->nr || p->t->rows - 2 > (ways > 0 ? ways : 8));
}

/* Which operands lie well, and how much is packed at a time. */
static void plan_blocks(Job *p)
{
    const Gemm *g = &p->g;
    int64_t mr = p->t->rows, k = least(g->k, GEMM_CHUNK), size = p->size;
    int64_t high = p->high, wide = p->wide;

    bool turned = p->t->across && g->brow == 1 && g->bcol != 1;
    bool far = g->k * wide * size > FAR_BYTES;
    bool streams = g->bcol == 1 && high <= SOME_ROWS && k * wide * size > STREAM_BYTES;
    p->few = streams || (turned && high <= GEMM_FEW);
    p->thin = !p->few && !g->more && k && k <= GEMM_THIN && g->bcol == 1 && wide >= 4 * p->nr;
    bool filled = wide < p->nr && wide % p->t->lanes && high > PASSES * mr;     /* packed, that is one tile of columns and not two */
    p->b_lies = g->bcol == 1 && g->n >= p->t->lanes && !filled &&
                (p->few || p->thin || high <= GEMM_FEW || k * g->brow * size <= (high <= SOME_PASSES * mr ? packed_bytes() / 4 : LIES_BYTES) ||
                 (high <= PASSES * mr && k * wide * size <= packed_bytes()));
    bool near = g->acol == 1 ? mr * g->arow * size <= LIES_BYTES : g->arow == 1 && k * g->acol * size <= 8 * LIES_BYTES;
    bool apart = g->arow == 1 ? k > FEW_STEPS && k * g->acol * size > (wide > 2 * p->nr ? 8 * LIES_BYTES : STEPS_BYTES) : rows_meet(p, wide);
    bool small = (high * g->arow + k * g->acol) * size <= 3 * LIES_BYTES || (p->b_lies && near) || (wide <= SOME_PANELS * p->nr && !apart);
    p->a_lies = p->few || p->thin || high <= 8 || ((g->acol == 1 || g->arow == 1) && small);
    p->nc = p->few && turned ? (g->k <= GEMM_CHUNK && !far ? g->n : g->done ? 4 * p->nr : far ? p->t->lanes : p->nr)
            : p->b_lies ? g->n : high <= NEAR_PASSES * mr && g->brow == 1 ? p->nr : packed_columns(p);
    p->together = g->arow == 1 && g->acol != 1 && !p->a_lies ? least(TOGETHER, (high + mr - 1) / mr) : 1;
    int64_t some = p->together * mr;            /* rows that are packed at a time */
    p->mc = p->a_lies || p->nc >= wide ? 0 : least(KEEP_BYTES / (k * size) / some, (high + some - 1) / some) * some;
    p->a_bytes = p->a_lies ? 0 : round_up((p->mc ? p->mc : some) * k * size, 64);
    int64_t packed = p->b_lies ? p->nr : least(p->nc, round_up(wide + p->nr, p->nr));
    p->room_bytes = p->few ? least(FEW_BYTES, high * round_up(wide, p->nr) * size) : p->a_bytes + round_up(packed * k * size, 64);
}

/* Tiles of a matrix that is read where it lies, has one chunk and whole vectors of columns, as run_chunk would go over them. */
static void plan_tiles(Job *p)
{
    const Gemm *g = &p->g;
    int64_t lanes = p->t->lanes, size = p->size;

    if (!p->a_lies || !p->b_lies || p->few || p->thin || g->done || !g->k || g->k > GEMM_CHUNK || g->n % lanes || p->down * p->across > 1)
        return;
    for (int64_t i = 0, rows; i < g->m; i += rows) {
        rows = height_of(p->t, g->m - i);
        for (int64_t j = 0, vectors; j < g->n; j += vectors * lanes) {
            const GemmTile *t = tile_for(p->t->tile, rows, (g->n - j) / lanes);
            vectors = t->vectors;
            if (p->ntiles == TILES_MOST || t->rows != rows) {
                p->ntiles = 0;
                return;
            }
            p->tile[p->ntiles++] = (Placed){t->run, i * g->arow * size, j * size, (i * g->crow + j) * size};
        }
    }
}

int64_t gemm_room_max(void) { return packed_bytes() + KEEP_BYTES + TOGETHER * GEMM_CHUNK * 64 * 8; }

/* One column as one row: the same products, and c has the same places. */
static void transpose(Gemm *g)
{
    Gemm t = *g;

    t.m = g->n, t.n = g->m, t.crow = g->m;
    t.a = g->b, t.abatch = g->bbatch, t.arow = g->bcol, t.acol = g->brow;
    t.b = g->a, t.bbatch = g->abatch, t.brow = g->acol, t.bcol = g->arow;
    *g = t;
}

/* A job of one thread. */
static Job job_here(const Gemm *g, void *room)
{
    const GemmKernels *all = cpu()->gemm;
    Job p = {.g = *g, .t = g->accum == DT_f32 ? &all->f32 : &all->f64, .size = g->accum == DT_f32 ? 4 : 8, .room = room};

    if (g->n == 1 && g->m > 1 && g->crow == 1)
        transpose(&p.g);
    p.nr = p.t->vectors * p.t->lanes;
    plan_parts(&p, 1);
    plan_blocks(&p);
    return p;
}

int64_t gemm_room(const Gemm *g) { return job_here(g, NULL).room_bytes; }

void gemm_here(const Gemm *g, void *room)
{
    Job p = job_here(g, room);

    run_part(&p, 0, 0);
}

/* Panels that are packed together, of all chunks. */
static int64_t shared_lines(const Job *p) { return TOGETHER * (p->by_rows ? p->nr : p->t->rows); }
static int64_t shared_groups(const Job *p) { return ((p->by_rows ? p->g.n : p->g.m) + shared_lines(p) - 1) / shared_lines(p); }

static void pack_shared(int64_t lo, int64_t hi, void *st)
{
    const Job *p = st;
    const Gemm *g = &p->g;
    int64_t groups = shared_groups(p);

    for (Part r = {.p = p}; lo < hi; lo++) {
        int64_t i = lo % groups * shared_lines(p), end = least(i + shared_lines(p), p->by_rows ? g->n : g->m);
        set_chunk(&r, g->a, g->b, lo / groups * GEMM_CHUNK);
        if (p->by_rows)
            pack_columns(&r, i, end, shared_at(&r, i));
        else
            pack_rows(&r, i, end, shared_at(&r, i));
    }
}

/* Memory for what is shared, and it packed; where there is none, each thread packs for itself. */
static Storage *pack_for_all(Job *p)
{
    const Gemm *g = &p->g;
    int64_t lines = p->by_rows ? round_up(g->n, p->nr) : round_up(g->m, p->t->rows);
    bool packs = p->by_rows ? !p->b_lies && !p->few && !p->thin : p->by_columns && !p->a_lies;
    Storage *s = packs ? storage_new((size_t)(lines * g->k * p->size)) : NULL;

    p->shared = s ? storage_data(s) : NULL;
    p->by_columns &= s != NULL;
    p->by_rows &= s != NULL;
    if (s)
        pool_for(shared_groups(p) * ((g->k + GEMM_CHUNK - 1) / GEMM_CHUNK), 1, pack_shared, p);
    return s;
}

static KStatus run_tiles(KCtx *c, const Gemm *g)
{
    enum { FEW = 8192 };                /* bytes that stay on the stack */
    const GemmKernels *all = cpu()->gemm;
    Job p = {.g = *g, .t = g->accum == DT_f32 ? &all->f32 : &all->f64, .size = g->accum == DT_f32 ? 4 : 8};
    int64_t threads = pool_threads();
    _Alignas(64) char few[FEW];
    Storage *room = NULL, *shared;

    p.nr = p.t->vectors * p.t->lanes;
    if ((double)g->batch * (double)g->m * (double)g->n * (double)(g->k + 1) < GEMM_SMALL)
        threads = 1;
    plan_parts(&p, threads);
    plan_blocks(&p);
    plan_tiles(&p);
    threads = least(threads, p.parts);
    if (threads * p.room_bytes > FEW && !(room = storage_new((size_t)(threads * p.room_bytes)))) {
        threads = 1;
        room = storage_new((size_t)p.room_bytes);
        if (!room)
            return k_fail(c, K_NOMEM, "no memory for %lld bytes of packed matrices", (long long)p.room_bytes);
    }
    p.room = room ? storage_data(room) : few;
    shared = pack_for_all(&p);
    pool_for(threads, 1, run_parts, &p);
    storage_unref(shared);
    storage_unref(room);
    return K_OK;
}

/* Batches that only repeat b are more rows of a. */
static void merge_batches(Gemm *g)
{
    if (g->batch == 1 || g->bbatch != 0 || g->abatch != g->m * g->arow || g->cbatch != g->m * g->crow)
        return;
    g->m *= g->batch;
    g->batch = 1;
}

/* A sum for each of some batches, of rows. */
static void dots_part(int64_t lo, int64_t hi, void *st)
{
    const Gemm *g = st;
    const Dots *dots = cpu()->dots;
    int64_t size = g->accum == DT_f32 ? 4 : 8;

    for (int64_t x = lo; x < hi; x++)
        (size == 4 ? dots->f32 : dots->f64)(g->k, (const char *)g->a + x * g->abatch * size, (const char *)g->b + x * g->bbatch * size,
                                            (char *)g->c + x * g->cbatch * size);
}

KStatus gemm_run(KCtx *c, Gemm g)
{
    if (!g.batch || !g.m || !g.n)
        return K_OK;
    merge_batches(&g);
    if (g.accum != DT_f32 && g.accum != DT_f64)
        return gemm_plain(c, &g);
    if (g.m == 1 && g.n == 1 && g.k > 1 && g.acol == 1 && g.brow == 1 && !g.done) {
        pool_for(g.batch, GEMM_SMALL / g.k + 1, dots_part, &g);
        return K_OK;
    }
    if (g.n == 1 && g.m > 1 && g.crow == 1 && !g.done)
        transpose(&g);
    return gemm_is_turned(&g) ? gemm_turned(c, &g) : run_tiles(c, &g);
}
