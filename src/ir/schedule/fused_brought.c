/*
 * Rows that memory has in pieces: sums over batches and pixels of (batch, channel, height, width), and what is made of them.
 *
 * The inner axes are no one axis of an operand or a result then.  Some rows at a time are brought to memory of the thread's own, where they
 * are, the kernel does these rows, and results are taken back from there: what the second cache has by then costs little to copy, and to be
 * read in several passes.  A row is copied in runs, so they must not be too short.
 */
#include "ir/schedule/fused_impl.h"

#include "base/alloc.h"
#include "base/ints.h"
#include "runtime/kernels.h"
#include "runtime/past.h"
#include "runtime/storage.h"

#include <stdatomic.h>
#include <string.h>

enum { RUN_LEAST = 16, LINE = 64 };     /* elements; bytes */

/* To the thread's memory, back from there, and back past the caches. */
typedef enum { BRING, TAKE, TAKE_PAST } Way;

/* How an operand's row lies: axes of more than one element that are not one. */
typedef struct Walk { int n; int64_t size[LAUNCH_AXES], stride[LAUNCH_AXES], bytes; } Walk;

typedef struct Brought {
    const Run *u;
    const Variant *v;
    Way take;
    int64_t rows, each, row, bytes;     /* of all; that are brought at once; elements of one; of each thread's room */
    Walk walk[OPERANDS];
    char *room;
    _Atomic int64_t next;               /* the first row that nobody has taken */
} Brought;

static int64_t product_of(const int64_t *size, int n)
{
    int64_t all = 1;

    for (int i = 0; i < n; i++)
        all *= size[i];
    return all;
}

/* No axes: the operand has none of the inner ones. */
static Walk walk_of(const LaunchSpace *s, int i)
{
    const int64_t *stride = s->arg[i].stride;
    Walk w = {.bytes = s->arg[i].bytes};
    bool any = false;

    for (int a = s->nkept; a < s->naxes; a++) {
        if (s->size[a] == 1)
            continue;
        any |= stride[a] != 0;
        if (w.n && w.stride[w.n - 1] == stride[a] * s->size[a])
            w.size[w.n - 1] *= s->size[a];
        else
            w.size[w.n++] = s->size[a];
        w.stride[w.n - 1] = stride[a];
    }
    w.n = any ? w.n : 0;
    return w;
}

static bool in_runs(const Walk *w, bool result)
{
    bool ok = !w->n || (w->size[w->n - 1] >= RUN_LEAST && (w->stride[w->n - 1] == 1 || (!result && !w->stride[w->n - 1])));

    for (int a = 0; a < w->n; a++)
        ok &= w->stride[a] || !result;
    return ok;
}

bool fused_brings(Run *u)
{
    LaunchSpace *s = &u->space;
    int64_t n = product_of(s->size + s->nkept, s->naxes - s->nkept), step;
    int which, inner = s->nkept;

    if (u->device || !fused_state.compiler || u->c->looks_up || s->ncounters || n < RUN_LEAST || product_of(s->size, s->nkept) < 2)
        return false;
    for (int i = 0; i < s->nargs; i++) {
        Walk w = walk_of(s, i);
        if (s->arg[i].places || (u->c->value[i] && u->c->value[i]->key) || !in_runs(&w, i >= u->nin))
            return false;
    }
    u->lies = tsr_calloc(sizeof *u->lies);
    *u->lies = *s;
    s->naxes = inner + 1;
    s->size[inner] = n;
    for (int i = 0; i < s->nargs; i++) {
        bool brought = walk_of(u->lies, i).n > 0;
        s->arg[i].stride[inner] = brought;
        step = n;
        for (int a = inner - 1; brought && a >= 0; step *= s->size[a--])
            s->arg[i].stride[a] = step;
    }
    return launch_merge(s, &which);
}

/* ---- running ---- */

/* A run of one element again and again. */
static void repeat(const char *element, char *to, int64_t bytes, int64_t n)
{
    int64_t done = 1;

    memcpy(to, element, (size_t)bytes);
    for (; done < n; done += least(done, n - done))
        memcpy(to + done * bytes, to, (size_t)(least(done, n - done) * bytes));
}

/* A row's elements from axis a on, between where they lie and the place where they are side by side; gives where that ends. */
static char *copy_row(const Walk *w, int a, char *lies, char *near, Way way)
{
    if (a == w->n - 1) {
        size_t run = (size_t)(w->size[a] * w->bytes);
        if (!w->stride[a])
            repeat(lies, near, w->bytes, w->size[a]);
        else if (way == BRING)
            memcpy(near, lies, run);
        else if (way == TAKE)
            memcpy(lies, near, run);
        else
            past_copy(lies, near, run, NULL, 0);
        return near + run;
    }
    for (int64_t i = 0; i < w->size[a]; i++)
        near = copy_row(w, a + 1, lies + i * w->stride[a] * w->bytes, near, way);
    return near;
}

/* Where a row of an operand begins. */
static char *row_at(const LaunchSpace *lies, int i, int64_t row)
{
    int64_t at = 0;

    for (int a = lies->nkept - 1; a >= 0; row /= lies->size[a--])
        at += row % lies->size[a] * lies->arg[i].stride[a];
    return lies->arg[i].base + at * lies->arg[i].bytes;
}

static void copy_rows(const Brought *b, int i, int64_t row, int64_t rows, char *near, Way way)
{
    for (int64_t r = row; r < row + rows; r++)
        near = copy_row(&b->walk[i], 0, row_at(b->u->lies, i, r), near, way);
}

static int64_t room_of(const Brought *b, int i) { return b->walk[i].n ? ceil_div(b->each * b->row * b->walk[i].bytes, LINE) * LINE : 0; }

static void run_rows(const Brought *b, LaunchSpace *s, char *room, int64_t row, int64_t rows)
{
    char *near[OPERANDS];

    for (int i = 0; i < s->nargs; room += room_of(b, i++)) {
        near[i] = room;
        if (b->walk[i].n)       /* as if all rows were there */
            s->arg[i].base = (char *)((uintptr_t)room - (uintptr_t)(row * b->row * b->walk[i].bytes));
        if (b->walk[i].n && i < b->u->nin)
            copy_rows(b, i, row, rows, room, BRING);
    }
    launch_part(s, &b->v->launch, room, row, rows, 0, b->row);
    for (int i = b->u->nin; i < s->nargs; i++)
        if (b->walk[i].n)
            copy_rows(b, i, row, rows, near[i], b->take);
}

static void run_slots(int64_t lo, int64_t hi, void *st)
{
    Brought *b = st;
    LaunchSpace s = b->u->space;

    for (int64_t slot = lo, row; slot < hi; slot++)
        while ((row = atomic_fetch_add(&b->next, b->each)) < b->rows)
            run_rows(b, &s, b->room + slot * b->bytes, row, least(b->rows - row, b->each));
    past_done();
}

bool fused_run_brought(Run *u, const Variant *v)
{
    const LaunchSpace *s = &u->space, *lies = u->lies;
    Brought b = {.u = u, .v = v, .rows = product_of(lies->size, lies->nkept), .each = schedule_group_rows(&v->schedule), .row = s->size[s->nkept],
                 .take = fused_goes_past(u) ? TAKE_PAST : TAKE};
    int64_t slots = least(pool_threads(), ceil_div(b.rows, b.each));
    Storage *room;

    for (int i = 0; i < s->nargs; i++) {
        b.walk[i] = walk_of(lies, i);
        b.bytes += room_of(&b, i);
    }
    b.bytes += launch_scratch(s, &v->launch);
    if (!(room = storage_new((size_t)(slots * b.bytes))))
        return false;
    b.room = storage_data(room);
    pool_for(slots, 1, run_slots, &b);
    storage_unref(room);
    return true;
}
