/*
 * Convolutions of many groups of few channels, a channel each above all, with groups side by side in vectors.
 *
 * A product per group would have few rows, and windows would be written for nearly as many elements as are multiplied.  Here lane l of all
 * vectors is group l of some that are neighbours: planes of the input are turned, so that a place is a vector, with the zeros around them that
 * windows reach into; the kernel is turned likewise; and a sum for each place goes over the taps in gemm's order, chunks of steps and all,
 * with what it meets read where it lies (GemmBesideFn).  Sums are turned back into planes.
 *
 * Where there are more taps than places, as in a derivative by the kernel, taps go in pieces, lines of them whose part of the input fits the
 * second cache; else places do.
 */
#include "runtime/conv_impl.h"

#include "runtime/cpu.h"
#include "runtime/gemm.h"

#include <string.h>

enum {
    LAID = 1 << 19,             /* bytes of the input that are laid out at once, or a line's */
    TURNED_AT_ONCE = 1 << 14,   /* and turned before they are laid out */
    FEW_CHANNELS = 8,           /* of a group's result: more are a product's work */
};

typedef struct Beside {
    Conv *v;
    const GemmTiles *t;
    ConvRuns runs;              /* along the last axis */
    int64_t lanes, vector;      /* of a vector: elements, bytes */
    int64_t pitch;              /* bytes of a line that is laid out */
    int64_t blocks, outers;     /* vectors of groups; places on the axes before the last two */
    int64_t strips, strip;      /* of the lines of places so many pieces, of so many */
    int64_t tap_planes, tap_lines;              /* taps on the axes before the last two; lines of those that are a piece */
    int64_t laid_bytes, kernel_bytes, places_bytes, turned_bytes, sums_bytes, room_bytes;
    char *room;
    _Atomic int64_t next;
} Beside;

/* What one thread is at: the places of a unit, and the taps of a piece. */
typedef struct Unit {
    int64_t block, image, outer, from, to;      /* lines of places, on the last axis but one */
    int64_t groups;                             /* of the vector, that there are */
    int64_t channel, tap_plane, tap_from, tap_to, k;            /* lines of taps; steps before them */
    char *laid, *kernel, *turned, *sums;
    int64_t *places;
} Unit;

static const ConvAxis *down(const Conv *v) { return &v->axis[v->n - 2]; }
static const ConvAxis *along(const Conv *v) { return &v->axis[v->n - 1]; }

/* ---- what is turned ---- */

/* The plane of the first group that places and taps of the unit meet; NULL: they are outside. */
static const char *plane_of(const Beside *b, const Unit *u)
{
    const Conv *v = b->v;
    int64_t place = u->outer, tap = u->tap_plane, at = u->image * v->xbatch + (u->block * b->lanes * v->c + u->channel) * v->xchannel;

    for (int k = v->n - 3; k >= 0; k--) {
        const ConvAxis *x = &v->axis[k];
        int64_t s = x->start + place % x->out * x->step + tap % x->taps * x->apart;
        if (s < 0 || s >= x->in)
            return NULL;
        at += s * x->xstride;
        place /= x->out;
        tap /= x->taps;
    }
    return v->x + at * v->size;
}

/* A line of turned elements, as it is laid out: every by-th from each start, zeros outside. */
static void lay_line(const Beside *b, const char *turned, char *to)
{
    const ConvRuns *r = &b->runs;
    int64_t n = conv_set_size(r), in = along(b->v)->in;

    for (int64_t set = 0; set < conv_sets(r); set++, to += n * b->vector) {
        int64_t s = r->start + set * conv_set_step(r), lo = s >= 0 ? 0 : least(ceil_div(-s, r->by), n);
        int64_t hi = s >= in ? lo : most(least((in - 1 - s) / r->by + 1, n), lo);
        memset(to, 0, (size_t)(lo * b->vector));
        if (r->by == 1)
            memcpy(to + lo * b->vector, turned + (s + lo) * b->vector, (size_t)((hi - lo) * b->vector));
        for (int64_t j = lo; r->by > 1 && j < hi; j++)
            for (int64_t i = 0; i < b->vector; i += 32)
                memcpy(to + j * b->vector + i, turned + (s + j * r->by) * b->vector + i, 32);
        memset(to + hi * b->vector, 0, (size_t)((n - hi) * b->vector));
    }
}

/* All lines of the input that the unit's places meet by the piece's taps. */
static void lay_input(const Beside *b, const Unit *u)
{
    const Conv *v = b->v;
    const ConvAxis *y = down(v);
    const char *plane = plane_of(b, u);
    int64_t in = along(v)->in, s = y->start + u->from * y->step + u->tap_from * y->apart, at_once = most(TURNED_AT_ONCE / (in * b->vector), 1);
    int64_t n = (u->to - u->from - 1) * y->step + (u->tap_to - u->tap_from - 1) * y->apart + 1;
    int64_t lo = least(most(-s, 0), n), hi = plane ? most(least(y->in - s, n), lo) : lo, lines;

    memset(u->laid, 0, (size_t)(lo * b->pitch));
    for (int64_t i = lo; i < hi; i += lines) {
        lines = least(at_once, hi - i);
        b->t->turn(plane + (s + i) * in * v->size, v->c * v->xchannel, u->groups, lines * in, u->turned, b->lanes);
        for (int64_t j = 0; j < lines; j++)
            lay_line(b, u->turned + j * in * b->vector, u->laid + (i + j) * b->pitch);
    }
    memset(u->laid + hi * b->pitch, 0, (size_t)((n - hi) * b->pitch));
}

/* The piece's taps: their vectors of all output channels, and where from its place each finds its element. */
static void lay_kernel(const Beside *b, const Unit *u)
{
    const Conv *v = b->v;
    int64_t wide = along(v)->taps, n = (u->tap_to - u->tap_from) * wide, first = (u->tap_plane * down(v)->taps + u->tap_from) * wide;

    for (int64_t o = 0; o < v->o; o++) {
        int64_t row = v->own ? v->k : v->wrow, at = (u->block * b->lanes * v->o + o) * row + u->channel * (v->own ? v->taps : v->wchannel) + first;
        const char *w = v->own ? storage_data(v->own) : v->w;
        b->t->turn(w + at * v->size, v->o * row, u->groups, n, u->kernel + o * n * b->vector, b->lanes);
    }
    for (int64_t i = 0, q = 0; q < n; i++)
        for (int64_t j = 0; j < wide; j++, q++)
            u->places[q] = i * down(v)->apart * b->pitch + conv_run_place(&b->runs, j) * b->vector;
}

/* ---- sums ---- */

/* Steps q to q + k of the piece for places at..at + columns * times of all lines of the unit. */
static void sum_columns(const Beside *b, const Unit *u, const char *w, int64_t q, int64_t k, int64_t at, int64_t columns, int64_t times,
                        char *sums, bool more)
{
    const Conv *v = b->v;
    int64_t row = down(v)->step * b->pitch, sums_row = v->line * b->vector, lines = u->to - u->from;

    for (int64_t l = 0, rows; l < lines; l += rows) {
        GemmBesideFn *fn = NULL;
        for (rows = least(BESIDE_ROWS, lines - l); !(fn = b->t->beside[rows - 1][columns - 1]); rows--)
            ;
        fn(k, w + q * b->vector, u->laid + l * row + at * b->vector, u->places + q, row, times, sums + l * sums_row + at * b->vector, sums_row,
           more);
    }
}

/* The same for whole lines. */
static void sum_steps(const Beside *b, const Unit *u, const char *w, int64_t q, int64_t k, char *sums, bool more)
{
    int64_t line = b->v->line, columns = ceil_div(line, ceil_div(line, BESIDE_COLUMNS)), times = line / columns;

    sum_columns(b, u, w, q, k, 0, columns, times, sums, more);
    if (times * columns < line)
        sum_columns(b, u, w, q, k, times * columns, line - times * columns, 1, sums, more);
}

/* The piece's steps join the sums: those of a chunk of steps, which come after those of all channels of the chunks before. */
static void sum_piece(const Beside *b, const Unit *u)
{
    const Conv *v = b->v;
    int64_t n = (u->tap_to - u->tap_from) * along(v)->taps, bytes = (u->to - u->from) * v->line * b->vector;
    bool chunks = v->k > GEMM_CHUNK;

    for (int64_t o = 0; o < v->o; o++) {
        char *total = u->sums + o * (chunks ? 2 : 1) * b->sums_bytes, *sums = total + (chunks ? b->sums_bytes : 0);
        for (int64_t q = 0, k; q < n; q += k) {
            int64_t at = u->k + q, end = (at / GEMM_CHUNK + 1) * GEMM_CHUNK;
            k = least(end - at, n - q);
            sum_steps(b, u, u->kernel + o * n * b->vector, q, k, sums, at % GEMM_CHUNK);
            if (!chunks || (at + k != end && at + k != v->k))
                continue;
            if (end == GEMM_CHUNK)
                memcpy(total, sums, (size_t)bytes);
            else
                for (int64_t i = 0; i < bytes / v->size; i++)
                    ((float *)(void *)total)[i] += ((const float *)(const void *)sums)[i];
        }
    }
}

/* Sums become planes of the result. */
static void store_sums(const Beside *b, const Unit *u)
{
    const Conv *v = b->v;
    const ConvAxis *x = along(v);
    int64_t n = (u->to - u->from) * v->line, size = v->size, line = u->outer * down(v)->out + u->from;
    bool whole = v->whole && n == v->image && v->o == 1;

    for (int64_t o = 0; o < v->o; o++) {
        char *y = v->y + ((u->image * v->groups + u->block * b->lanes) * v->o + o) * v->image * size;
        b->t->turn(u->sums + o * (v->k > GEMM_CHUNK ? 2 : 1) * b->sums_bytes, b->lanes, n, u->groups, whole ? y : u->turned, n);
        for (int64_t l = 0; !whole && l < u->to - u->from; l++) {
            int64_t place = conv_place(v, line + l);
            for (int64_t g = 0; g < u->groups; g++) {
                const char *from = u->turned + (g * n + l * v->line) * size;
                char *to = y + (g * v->o * v->image + place) * size;
                conv_copy_apart(to, x->each, from, 1, v->line, size);
            }
        }
    }
}

/* ---- units ---- */

static void run_unit(const Beside *b, Unit *u)
{
    const Conv *v = b->v;
    int64_t lines = down(v)->taps;

    u->k = 0;
    for (u->channel = 0; u->channel < v->c; u->channel++)
        for (u->tap_plane = 0; u->tap_plane < b->tap_planes; u->tap_plane++)
            for (u->tap_from = 0; u->tap_from < lines; u->tap_from = u->tap_to) {
                u->tap_to = least(u->tap_from + b->tap_lines, lines);
                lay_input(b, u);
                lay_kernel(b, u);
                sum_piece(b, u);
                u->k += (u->tap_to - u->tap_from) * along(v)->taps;
            }
    store_sums(b, u);
}

static Unit unit_at(const Beside *b, int64_t i, char *room)
{
    const Conv *v = b->v;
    Unit u = {.from = i % b->strips * b->strip, .outer = i / b->strips % b->outers, .image = i / b->strips / b->outers % v->batch,
              .block = i / b->strips / b->outers / v->batch};

    u.to = least(u.from + b->strip, down(v)->out);
    u.groups = least(v->groups - u.block * b->lanes, b->lanes);
    u.laid = room;
    u.kernel = u.laid + b->laid_bytes;
    u.places = (int64_t *)(void *)(u.kernel + b->kernel_bytes);
    u.turned = u.kernel + b->kernel_bytes + b->places_bytes;
    u.sums = u.turned + b->turned_bytes;
    return u;
}

static void run_units(int64_t lo, int64_t hi, void *st)
{
    Beside *b = st;
    int64_t i;

    for (int64_t slot = lo; slot < hi; slot++)
        while ((i = atomic_fetch_add(&b->next, 1)) < b->blocks * b->v->batch * b->outers * b->strips) {
            Unit u = unit_at(b, i, b->room + slot * b->room_bytes);
            run_unit(b, &u);
        }
}

static int64_t lines_of_cache(int64_t bytes) { return round_up(bytes, 64); }

/* Whatever there is less of, places or taps, goes all at once: it is what is kept while the input passes. */
static void plan(Beside *b)
{
    const Conv *v = b->v;
    const ConvAxis *x = along(v), *y = down(v);
    int64_t lines, places;

    b->runs = (ConvRuns){.start = x->start, .by = x->step, .n = x->out, .other = x->apart, .others = x->taps};
    b->pitch = conv_sets(&b->runs) * conv_set_size(&b->runs) * b->vector;
    lines = most(LAID / b->pitch, 1);
    b->strip = y->out;
    b->tap_lines = y->taps;
    if (y->taps > y->out)
        b->tap_lines = least(most((lines - 1 - (y->out - 1) * y->step) / y->apart + 1, 1), y->taps);
    else
        b->strip = least(most((lines - 1 - (y->taps - 1) * y->apart) / y->step + 1, 1), y->out);
    b->strips = ceil_div(y->out, b->strip);
    b->outers = v->lines / y->out;
    b->tap_planes = v->taps / y->taps / x->taps;
    b->blocks = ceil_div(v->groups, b->lanes);
    places = b->strip * x->out;
    b->laid_bytes = ((b->strip - 1) * y->step + (b->tap_lines - 1) * y->apart + 1) * b->pitch;
    b->kernel_bytes = v->o * b->tap_lines * x->taps * b->vector;
    b->places_bytes = lines_of_cache(b->tap_lines * x->taps * (int64_t)sizeof(int64_t));
    b->sums_bytes = places * b->vector;
    b->turned_bytes = most(most(TURNED_AT_ONCE, x->in * b->vector), b->sums_bytes);
    b->room_bytes = b->laid_bytes + b->kernel_bytes + b->places_bytes + b->turned_bytes + v->o * (v->k > GEMM_CHUNK ? 2 : 1) * b->sums_bytes;
}

bool conv_is_beside(const Conv *v)
{
    const GemmTiles *t = &cpu()->gemm->f32;

    return v->accum == DT_f32 && t->beside && v->groups >= t->lanes / 2 && v->o <= FEW_CHANNELS;
}

bool conv_planes_lie(const Tensor *t, int n)
{
    int64_t step = 1;

    for (int i = t->rank - 1; i >= t->rank - n; i--) {
        if (t->shape[i] > 1 && t->stride[i] != step)
            return false;
        step *= t->shape[i];
    }
    return true;
}

KStatus conv_run_beside(Conv *v)
{
    const GemmTiles *t = &cpu()->gemm->f32;
    Beside b = {.v = v, .t = t, .lanes = t->lanes, .vector = t->lanes * v->size};
    int64_t threads;
    Storage *room;

    plan(&b);
    threads = least(pool_threads(), b.blocks * v->batch * b.outers * b.strips);
    if (!(room = storage_new((size_t)(threads * b.room_bytes))))
        return K_NOMEM;
    b.room = storage_data(room);
    pool_for(threads, 1, run_units, &b);
    storage_unref(room);
    return K_OK;
}
