/*
 * Products of few columns where steps of a are rows: as the other product, of b's columns by a's, which is read as it lies, and turned when it is
 * done.
 */
#include "runtime/gemm.h"

#include "base/ints.h"
#include "runtime/cpu.h"
#include "runtime/storage.h"

#include <stdatomic.h>

enum { TURNED_COLUMNS = 32, TURNED_BYTES = 64 << 10 };  /* of c, whose turned sums have so many at a time */
enum { NEAR_BYTES = 32 << 10 };         /* of a chunk of steps of a, which the first cache keeps: it is read as it is */

/* A span is some rows of one matrix. */
typedef struct Turned {
    const Gemm *g;
    int64_t size, rows, spans;          /* rows of a span; spans of a matrix */
    int64_t sums_bytes, room_bytes;     /* of a thread: a span's sums; and all, with what gemm_here needs */
    char *room;
    _Atomic int64_t next;
} Turned;

bool gemm_is_turned(const Gemm *g)
{
    int64_t size = g->accum == DT_f32 ? 4 : 8;

    return g->arow == 1 && g->acol != 1 && g->n > 1 && g->n <= TURNED_COLUMNS && g->m >= 4 * g->n && g->crow == g->n && !g->done &&
           g->k >= 2 * g->n && least(g->k, GEMM_CHUNK) * g->acol * size > NEAR_BYTES;
}

/* Of the rows of c from i on, turned. */
static Gemm turned_part(const Turned *t, int64_t batch, int64_t i, int64_t rows, void *sums)
{
    const Gemm *g = t->g;

    return (Gemm){.accum = g->accum, .batch = 1, .m = g->n, .n = rows, .k = g->k, .a = (const char *)g->b + batch * g->bbatch * t->size,
                  .arow = g->bcol, .acol = g->brow, .b = (const char *)g->a + (batch * g->abatch + i) * t->size, .brow = g->acol, .bcol = 1,
                  .c = sums, .crow = rows};
}

/* Bytes that the span from row i on packs. */
static int64_t turned_room(const Turned *t, int64_t i)
{
    Gemm part = turned_part(t, 0, i, least(t->g->m - i, t->rows), NULL);

    return round_up(gemm_room(&part), 64);
}

static void turned_span(const Turned *t, int64_t which, char *room)
{
    const Gemm *g = t->g;
    const GemmKernels *all = cpu()->gemm;
    int64_t batch = which / t->spans, i = which % t->spans * t->rows, rows = least(g->m - i, t->rows), size = t->size;
    Gemm part = turned_part(t, batch, i, rows, room);

    gemm_here(&part, room + t->sums_bytes);
    (size == 4 ? all->f32 : all->f64).turn(room, rows, g->n, rows, (char *)g->c + (batch * g->cbatch + i * g->n) * size, g->n);
}

static void turned_spans(int64_t lo, int64_t hi, void *st)
{
    Turned *t = st;

    for (int64_t slot = lo, which; slot < hi; slot++)
        while ((which = atomic_fetch_add(&t->next, 1)) < t->spans * t->g->batch)
            turned_span(t, which, t->room + slot * t->room_bytes);
}

KStatus gemm_turned(KCtx *c, const Gemm *g)
{
    int64_t threads = (double)g->batch * (double)g->m * (double)g->n * (double)g->k < GEMM_SMALL ? 1 : pool_threads();
    int64_t each = round_up((g->m * g->batch + threads - 1) / threads, TURNED_COLUMNS);
    Turned t = {.g = g, .size = g->accum == DT_f32 ? 4 : 8};
    Storage *room;

    t.rows = least(least(TURNED_BYTES / t.size / g->n / TURNED_COLUMNS * TURNED_COLUMNS, each), g->m);
    t.spans = (g->m + t.rows - 1) / t.rows;
    t.sums_bytes = round_up(t.rows * g->n * t.size, 64);
    t.room_bytes = t.sums_bytes + most(turned_room(&t, 0), turned_room(&t, (t.spans - 1) * t.rows));     /* spans are alike but for the last */
    if (!(room = storage_new((size_t)(threads * t.room_bytes))))
        return k_fail(c, K_NOMEM, "no memory for %lld bytes of products that are turned", (long long)(threads * t.room_bytes));
    t.room = storage_data(room);
    pool_for(threads, 1, turned_spans, &t);
    storage_unref(room);
    return K_OK;
}
