/*
 * Convolutions whose windows are never written, of f32.
 *
 * The part of the input that a span of places meets is laid out with its zeros, so that each tap finds what all places of the span meet as one
 * run of memory: the run of the next tap begins elsewhere, often one element further.  So the product of the kernel with the windows reads its
 * right side where it lies, in steps that are not alike (GemmStrewnFn), and an element that stands in nine windows is written once.  Runs go over
 * the ends of lines: what lies between one line's last place and the next one's first is computed as well, and nobody reads it.
 *
 * On an axis whose places are `step` and whose taps are `apart` elements from each other only every g-th element is met (g divides both), and of
 * those that are step / g apart each set lies by itself, so that neighbouring places are neighbours there.  Images of a span lie one after the other,
 * or where places are few (a derivative by the kernel has 3 by 3 of them, and as images the channels) side by side: then all images of a place are
 * neighbours.
 *
 * Order of memory: channels of the input, sets, and then the axes of `dim`: lines of images, or images within lines.  Axes behind some level
 * (`flat`) are one run; each place of those before it is a run of its own.
 */
#include "runtime/conv_impl.h"

#include "runtime/cpu.h"
#include "runtime/gemm.h"

#include <string.h>

enum {
    COLUMNS = 768,              /* places of a span, about, */
    RUN = 192,                  /* of a run of images side by side, */
    LAID = 1 << 18,             /* and elements that are laid out for it, at most, but of one image or a vector of them */
    WINDOW = 24, COLUMN = 40,   /* cost of an element of windows, multiplications that take as long, and of one where they are columns, */
    COPY = 4, COPY_LINE = 400,  /* of one that is copied, and of a line of them, */
    TURN = 40, TAKE = 40,       /* of one that is turned, or taken from a place apart from the one before, */
    CALL = 8,                   /* and of a run, in columns */
    WAY = 4096,                 /* bytes: rows of the kernel so far apart share lines of the first cache, and are packed */
};

typedef struct Level { int64_t n, pitch, sum; } Level;      /* places; elements from one to the next as it is laid out, and in a row of sums */

typedef struct Flat {
    Conv *v;
    const GemmTiles *t;
    bool inner;                 /* images are side by side */
    int64_t images, from_axis, places;          /* of a span: images, and places of this axis, the first that has several */
    int64_t blocks, ranges, spans;
    int64_t grain[RANK_MAX];    /* of each axis: elements that are met are so far apart; */
    int64_t unit[RANK_MAX], set[RANK_MAX];      /* its sets, and elements from one to the next */
    int64_t pitch[RANK_MAX], size[RANK_MAX];    /* elements from one place to the next; places and what taps reach beyond them */
    int64_t image, channel, laid;               /* elements from one image, one channel to the next; of all */
    int64_t cost;
    int64_t *by;                /* bytes from a tap to the next one, and on into the next channels */
    int64_t sums_bytes, panel_bytes, laid_bytes, room_bytes;
    char *room;
    _Atomic int64_t next;
} Flat;

/* n elements of a line of the input, `step` apart from `at` on: of these lo..hi are there. */
typedef struct Piece { int64_t at, step, n, lo, hi; } Piece;

/* What a thread is at. */
typedef struct FlatSpan {
    int64_t group, image, images, from, to;     /* places of from_axis */
    Level dim[RANK_MAX + 1];      /* the axes and the images, outermost first */
    int flat;                   /* the level from which on a run goes over all */
    int64_t runs, columns;      /* of each run: whole tiles */
    Piece piece;                /* of a line of the first set */
    char *laid, *sums, *panel;
} FlatSpan;

/* ---- plans ---- */

/* Where tap t of an axis begins in sets. */
static int64_t tap_at(const Flat *f, int axis, int64_t t) { return t * (f->v->axis[axis].apart / f->grain[axis]); }

static int64_t reach(const Flat *f, int axis) { return tap_at(f, axis, f->v->axis[axis].taps - 1) / f->unit[axis]; }

static int dims(const Conv *v) { return v->n + 1; }

/* The level of an axis, and that of the images. */
static int level_of(const Flat *f, int axis) { return f->inner ? axis : axis + 1; }
static int level_of_images(const Flat *f) { return f->inner ? f->v->n : 0; }

/* Runs of a span from some level on, and what they cost in columns. */
static int64_t runs_at(const FlatSpan *s, int level, int n, int64_t wide, int64_t *columns)
{
    int64_t runs = 1;

    *columns = 1;
    for (int i = 0; i < n; i++)
        if (i < level)
            runs *= s->dim[i].n;
        else
            *columns += (s->dim[i].n - 1) * s->dim[i].pitch;
    *columns = round_up(*columns, wide);
    return runs;
}

/* The places and runs of a span of so many images and places; its cost in columns. */
static int64_t plan_runs(const Flat *f, FlatSpan *s)
{
    const Conv *v = f->v;
    int64_t wide = f->t->vectors * f->t->lanes, best = 0, columns, step;

    for (int i = 0; i < v->n; i++)
        s->dim[level_of(f, i)] = (Level){i == f->from_axis ? s->to - s->from : v->axis[i].out, f->pitch[i], 0};
    s->dim[level_of_images(f)] = (Level){s->images, f->image, 0};
    for (int level = 0; level < dims(v); level++) {
        int64_t runs = runs_at(s, level, dims(v), wide, &columns), cost = runs * (columns + CALL);
        if (level && cost >= best)
            continue;
        best = cost;
        s->flat = level;
        s->runs = runs;
        s->columns = columns;
    }
    step = s->columns;
    for (int i = dims(v) - 1; i >= 0; i--) {
        s->dim[i].sum = i < s->flat ? step : s->dim[i].pitch;
        step *= i < s->flat ? s->dim[i].n : 1;
    }
    return best;
}

/* How a span is laid out: images and places of it are known. */
static void plan_laid(Flat *f)
{
    const Conv *v = f->v;
    int64_t at = f->inner ? f->images : 1;

    f->image = 1;
    for (int i = v->n - 1; i >= 0; i--) {
        f->pitch[i] = at;
        f->size[i] = (i == f->from_axis ? f->places : v->axis[i].out) + reach(f, i);
        at *= f->size[i];
    }
    if (!f->inner) {
        f->image = at;
        at *= f->images;
    }
    for (int i = v->n - 1; i >= 0; i--) {
        f->set[i] = at;
        at *= f->unit[i];
    }
    f->channel = at;
    f->laid = at * v->c;
}

static FlatSpan span_of(const Flat *f, int64_t i)
{
    const Conv *v = f->v;
    int64_t range = i % f->ranges, block = i / f->ranges % f->blocks;
    FlatSpan s = {.group = i / f->ranges / f->blocks, .image = block * f->images, .from = range * f->places};

    s.images = least(f->images, v->batch - s.image);
    s.to = least(s.from + f->places, v->axis[f->from_axis].out);
    return s;
}

static void plan_counts(Flat *f)
{
    f->blocks = ceil_div(f->v->batch, f->images);
    f->ranges = ceil_div(f->v->axis[f->from_axis].out, f->places);
    f->spans = f->v->groups * f->blocks * f->ranges;
    plan_laid(f);
}

/* As many spans as threads, if there are so many places. */
static void plan_threads(Flat *f)
{
    int64_t threads = pool_threads(), wide = f->inner ? f->t->lanes : 1, most_of = f->v->axis[f->from_axis].out;

    while (threads > 1 && f->spans < 2 * threads && f->images > wide) {
        f->images = most(f->images / 2, wide);
        plan_counts(f);
    }
    while (threads > 1 && f->spans < threads && f->places > 1) {
        f->places = ceil_div(most_of, f->ranges + 1);
        plan_counts(f);
    }
}

static int64_t cost_of(Flat *f)
{
    const Conv *v = f->v;
    FlatSpan s = span_of(f, 0);
    int64_t results = v->groups * v->batch * v->o * v->lines * v->line, laid = f->spans * f->laid, products = plan_runs(f, &s) * v->o * v->k;
    int64_t each = v->axis[v->n - 1].step == 1 ? COPY : TURN;

    if (f->inner)
        return f->spans * products + TURN * laid + TAKE * results;
    results = conv_is_direct(v) ? results : 0;          /* else products of windows have that to copy, too */
    return f->spans * products + each * laid + COPY * results + COPY_LINE * (laid / f->size[v->n - 1] + results / v->line);
}

/* Images one after the other, or part of one. */
static void plan_outer(Flat *f)
{
    int64_t columns, out = f->v->axis[f->from_axis].out;

    f->images = 1;
    f->places = out;
    plan_counts(f);
    columns = out * f->pitch[f->from_axis];
    if (columns > COLUMNS)
        f->places = least(out, ceil_div(out, ceil_div(columns, COLUMNS)));
    else
        f->images = least(least(f->v->batch, most(COLUMNS / columns, 1)), most(LAID / f->laid, 1));
    plan_counts(f);
}

/* Images side by side. */
static void plan_inner(Flat *f)
{
    const Conv *v = f->v;
    int64_t lanes = f->t->lanes, images;

    f->images = 1;
    f->places = v->axis[f->from_axis].out;
    plan_counts(f);
    images = least(most(RUN / v->line, lanes), most(LAID / f->laid, lanes));
    f->images = least(v->batch, round_up(ceil_div(v->batch, ceil_div(v->batch, images)), lanes));
    plan_counts(f);
}

static void plan_axes(Flat *f)
{
    f->from_axis = f->v->n - 1;
    for (int i = f->v->n - 1; i >= 0; i--) {
        const ConvAxis *x = &f->v->axis[i];
        f->grain[i] = x->taps > 1 ? gcd64(x->step, x->apart) : x->step;
        f->unit[i] = x->step / f->grain[i];
        f->from_axis = x->out > 1 ? i : f->from_axis;
    }
}

/* The better of the two ways. */
static void plan(Flat *f)
{
    Flat other = {.v = f->v, .t = f->t, .inner = true};

    plan_axes(f);
    plan_axes(&other);
    plan_outer(f);
    plan_inner(&other);
    plan_threads(f);
    plan_threads(&other);
    f->cost = cost_of(f);
    other.cost = cost_of(&other);
    if (other.cost < f->cost)
        *f = other;
}

bool conv_is_flat(const Conv *v)
{
    Flat f = {.v = (Conv *)v, .t = &cpu()->gemm->f32};
    int64_t windows = v->groups * v->batch * v->lines * v->line * v->k;

    if (v->accum != DT_f32 || !f.t->strewn || !v->k || v->lies || (!v->own && v->wrow != v->k))
        return false;
    plan(&f);
    return f.cost < windows * (v->o + (v->columns ? COLUMN : WINDOW));
}

/* ---- laying out ---- */

/* Where place `at` of a set of an axis is in the input. */
static int64_t met(const Flat *f, const FlatSpan *s, int axis, int64_t set, int64_t at)
{
    const ConvAxis *x = &f->v->axis[axis];

    return x->start + (axis == f->from_axis ? s->from * x->step : 0) + f->grain[axis] * (set + f->unit[axis] * at);
}

static Piece piece_of(const Flat *f, const FlatSpan *s, int64_t set)
{
    int last = f->v->n - 1;
    int64_t in = f->v->axis[last].in, at = met(f, s, last, set, 0), step = f->v->axis[last].step;
    int64_t n = f->size[last] - (last == f->from_axis ? f->places - (s->to - s->from) : 0);
    int64_t lo = least(at < 0 ? ceil_div(-at, step) : 0, n);

    return (Piece){at, step, n, lo, at < in ? most(least((in - 1 - at) / step + 1, n), lo) : lo};
}

static void lay_copied(const Flat *f, const Piece *p, const char *line, char *to)
{
    const Conv *v = f->v;
    int64_t step = p->step * v->axis[v->n - 1].xstride;
    float *y = (float *)(void *)to;

    for (int64_t i = 0; i < p->lo; i++)
        y[i] = 0;
    for (int64_t i = p->hi; i < p->n; i++)
        y[i] = 0;
    line += (p->at + p->lo * p->step) * v->axis[v->n - 1].xstride * v->size;
    if (step == 1)
        conv_copy_short(to + p->lo * v->size, line, (p->hi - p->lo) * v->size);
    else
        conv_copy_apart(to + p->lo * v->size, 1, line, step, p->hi - p->lo, v->size);
}

/* The same of all images, which are side by side where they go. */
static void lay_turned(const Flat *f, const FlatSpan *s, const Piece *p, const char *line, char *to)
{
    const Conv *v = f->v;
    const ConvAxis *x = &v->axis[v->n - 1];
    int64_t bytes = f->images * v->size, lo = p->lo, hi = p->hi, step = p->step;

    memset(to, 0, (size_t)(lo * bytes));
    memset(to + hi * bytes, 0, (size_t)((p->n - hi) * bytes));
    line += (p->at + lo * step) * x->xstride * v->size;
    if (hi > lo && step == 1 && x->xstride == 1)
        f->t->turn(line, v->xbatch, s->images, hi - lo, to + lo * bytes, f->images);
    else
        for (int64_t i = lo; i < hi; i++, line += step * x->xstride * v->size)
            for (int64_t j = 0; j < f->images; j++)
                ((float *)(void *)(to + i * bytes))[j] = j < s->images ? ((const float *)(const void *)line)[j * v->xbatch] : 0;
}

/* One line, of all sets of the last axis; line NULL: zeros. */
static void lay_line(const Flat *f, const FlatSpan *s, const char *line, char *to)
{
    const Conv *v = f->v;
    int last = v->n - 1;

    for (int64_t i = 0; i < f->unit[last]; i++, to += f->set[last] * v->size) {
        const Piece p = i ? piece_of(f, s, i) : s->piece;
        if (!line)
            memset(to, 0, (size_t)(p.n * f->pitch[last] * v->size));
        else if (f->inner)
            lay_turned(f, s, &p, line, to);
        else
            lay_copied(f, &p, line, to);
    }
}

/* All lines of an image's channel, from the axis on: sets and places of those before it are known. */
static void lay_axis(const Flat *f, const FlatSpan *s, int axis, const char *from, char *to)
{
    const Conv *v = f->v;
    const ConvAxis *x = &v->axis[axis];
    int64_t n = f->size[axis] - (axis == f->from_axis ? f->places - (s->to - s->from) : 0);

    if (axis == v->n - 1) {
        lay_line(f, s, from, to);
        return;
    }
    for (int64_t set = 0; set < f->unit[axis]; set++)
        for (int64_t i = 0; i < n; i++) {
            int64_t at = met(f, s, axis, set, i);
            lay_axis(f, s, axis + 1, from && at >= 0 && at < x->in ? from + at * x->xstride * v->size : NULL,
                     to + (set * f->set[axis] + i * f->pitch[axis]) * v->size);
        }
}

static void lay(const Flat *f, const FlatSpan *s)
{
    const Conv *v = f->v;
    int64_t images = f->inner ? 1 : s->images;

    for (int64_t c = 0; c < v->c; c++)
        for (int64_t i = 0; i < images; i++)
            lay_axis(f, s, 0, v->x + ((s->image + i) * v->xbatch + (s->group * v->c + c) * v->xchannel) * v->size,
                     s->laid + (c * f->channel + i * f->image) * v->size);
    memset(s->laid + f->laid * v->size, 0, (size_t)(f->laid_bytes - f->laid * v->size));
}

/* ---- products ---- */

/* Where tap t of a channel begins, in bytes. */
static int64_t tap_place(const Flat *f, int64_t t)
{
    const Conv *v = f->v;
    int64_t at = 0;

    for (int i = v->n - 1; i >= 0; i--) {
        const ConvAxis *x = &v->axis[i];
        int64_t u = tap_at(f, i, t % x->taps);
        at += u % f->unit[i] * f->set[i] + u / f->unit[i] * f->pitch[i];
        t /= x->taps;
    }
    return at * v->size;
}

static int64_t step_place(const Flat *f, int64_t k) { return k / f->v->taps * f->channel * f->v->size + tap_place(f, k % f->v->taps); }

static void set_steps(Flat *f)
{
    const Conv *v = f->v;

    for (int64_t t = 0; t < v->taps; t++)
        f->by[t] = t + 1 < v->taps ? tap_place(f, t + 1) - tap_place(f, t) : f->channel * v->size - tap_place(f, t);
    for (int64_t t = v->taps; t < v->taps + GEMM_CHUNK; t++)
        f->by[t] = f->by[t - v->taps];
}

/* Rows of the next tiles: two halves, if there is none of so many. */
static int64_t height_of(const GemmStrewn *t, int64_t left)
{
    const GemmStrewn *best = t;

    for (; t->rows && best->rows != left; t++)
        if (t->rows == left || (t->rows < best->rows && 2 * t->rows >= left))
            best = t;
    return least(best->rows, left);
}

/* Some rows of the kernel, all columns of all runs. */
static void cover(const Flat *f, const FlatSpan *s, int64_t rows, int64_t k, const void *a, int64_t arow, int64_t acol, const char *b,
                  const int64_t *by, char *c, bool add)
{
    int64_t crow = s->runs * s->columns, size = f->v->size, vector = f->t->lanes;

    for (int64_t run = 0; run < s->runs; run++) {
        int64_t at = 0, rest = run;
        for (int i = s->flat - 1; i >= 0; i--) {
            at += rest % s->dim[i].n * s->dim[i].pitch;
            rest /= s->dim[i].n;
        }
        for (int64_t j = 0, vectors; j < s->columns; j += vectors * vector, c += vectors * vector * size) {
            const GemmStrewn *t = f->t->strewn;
            while (t->rows != rows || t->vectors * vector > s->columns - j)
                t++;
            vectors = t->vectors;
            t->run(k, a, arow, acol, b + (at + j) * size, by, c, crow, add);
        }
    }
}

static void multiply(const Flat *f, const FlatSpan *s)
{
    const Conv *v = f->v;
    const char *w = (v->own ? storage_data(v->own) : v->w) + s->group * v->o * v->k * v->size;
    int64_t row = s->runs * s->columns * v->size;
    bool packs = v->k * v->size % WAY == 0;

    for (int64_t k = 0, n; k < v->k; k += n) {
        const int64_t *by = f->by + k % v->taps;
        const char *b = s->laid + step_place(f, k);
        n = least(v->k - k, GEMM_CHUNK);
        for (int64_t o = 0, rows; o < v->o; o += rows) {
            const char *a = w + (o * v->k + k) * v->size;
            rows = height_of(f->t->strewn, v->o - o);
            if (packs)
                f->t->turn(a, v->k, rows, n, s->panel, rows);
            cover(f, s, rows, n, packs ? s->panel : a, packs ? 1 : v->k, packs ? rows : 1, b, by, s->sums + o * row, k > 0);
        }
    }
}

/* ---- results ---- */

/* The sums of a line's places, whose others are at `at`. */
static void put_line(const Flat *f, const FlatSpan *s, int64_t image, const int64_t at[RANK_MAX])
{
    const Conv *v = f->v;
    const ConvAxis *x = &v->axis[v->n - 1];
    int last = v->n - 1;
    int64_t place = 0, sum = image * s->dim[level_of_images(f)].sum, size = v->size, first = last == f->from_axis ? s->from : 0;
    const Level *d = &s->dim[level_of(f, last)];

    for (int i = 0; i < last; i++) {
        place = place * v->axis[i].size + v->axis[i].first + (at[i] + (i == f->from_axis ? s->from : 0)) * v->axis[i].each;
        sum += at[i] * s->dim[level_of(f, i)].sum;
    }
    place = place * x->size + x->first + first * x->each;
    for (int64_t o = 0; o < v->o; o++)
        conv_copy_apart(v->y + (((s->image + image) * v->groups + s->group) * v->o * v->image + o * v->image + place) * size, x->each,
                        s->sums + (o * s->runs * s->columns + sum) * size, d->sum, d->n, size);
}

static void put(const Flat *f, const FlatSpan *s)
{
    for (int64_t i = 0; i < s->images; i++) {
        int64_t at[RANK_MAX] = {0};
        int k;
        do {
            put_line(f, s, i, at);
            for (k = f->v->n - 2; k >= 0 && ++at[k] == s->dim[level_of(f, k)].n; k--)
                at[k] = 0;
        } while (k >= 0);
    }
}

/* ---- the phase ---- */

static void run_spans(int64_t lo, int64_t hi, void *st)
{
    Flat *f = st;
    int64_t i;

    for (int64_t slot = lo; slot < hi; slot++)
        while (!k_stopped(f->v->ctx) && (i = atomic_fetch_add(&f->next, 1)) < f->spans) {
            FlatSpan s = span_of(f, i);
            s.laid = f->room + slot * f->room_bytes;
            s.sums = s.laid + f->laid_bytes;
            s.panel = s.sums + f->sums_bytes;
            plan_runs(f, &s);
            s.piece = piece_of(f, &s, 0);
            lay(f, &s);
            multiply(f, &s);
            put(f, &s);
        }
}

KStatus conv_run_flat(Conv *v)
{
    Flat f = {.v = v, .t = &cpu()->gemm->f32};
    Storage *room, *by;

    plan(&f);
    FlatSpan s = span_of(&f, 0);
    plan_runs(&f, &s);
    f.laid_bytes = round_up((f.laid + f.t->vectors * f.t->lanes) * v->size, 64);
    f.sums_bytes = round_up(s.runs * (s.columns + CALL) * v->o * v->size, 64);
    f.panel_bytes = round_up(f.t->rows * GEMM_CHUNK * v->size, 64);
    f.room_bytes = f.laid_bytes + f.sums_bytes + f.panel_bytes;
    int64_t threads = least(pool_threads(), f.spans);
    room = storage_new((size_t)(threads * f.room_bytes));
    by = storage_new((size_t)(v->taps + GEMM_CHUNK) * sizeof *f.by);
    if (room && by) {
        f.room = storage_data(room);
        f.by = (int64_t *)(void *)storage_data(by);
        set_steps(&f);
        pool_for(threads, 1, run_spans, &f);
    }
    storage_unref(room);
    storage_unref(by);
    return room && by ? K_OK : K_NOMEM;
}
