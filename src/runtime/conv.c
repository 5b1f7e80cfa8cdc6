/*
 * Convolutions, as matrix products: a kernel [O, C * taps] times the windows of its input, one a column.
 *
 * y[b, o, p] sums w[o, c, t] * x[b, c, (p * stride - before + t * dilation) / spread] over (c, t), in gemm's order of that row; places
 * outside the input are zero.  Where the input is spread, a tap between its elements meets nothing and is no part of the
 * sum: which taps meet some depends on p modulo spread / gcd(stride, spread) only, so places fall into phases, each a convolution of fewer taps
 * without a spread (Shi et al., 2016, "Is the deconvolution layer the same as a convolutional layer?").
 *
 * A thread takes a span of output places at a time, lays out their windows, and multiplies them (gemm_here).  Windows are written in runs along
 * the last axis: of one tap for places side by side (a row of the matrix), or of one place for all taps (a column), whichever is longer.
 * A kernel of one tap that moves nothing reads the input where it lies.  Where an image has few places, a span has
 * several images, so that the kernel is read for many columns.
 */
#include "runtime/conv.h"

#include "runtime/gemm.h"
#include "runtime/storage.h"

#include <stdatomic.h>
#include <string.h>

enum {
    WINDOWS = 1 << 18,          /* elements of windows in a span, */
    COLUMNS = 512,              /* or more, for so many columns; images of fewer places are taken together. But not more than */
    WINDOWS_MOST = 1 << 22,     /* so many, */
    COLUMNS_LEAST = 64,         /* unless it is for so few columns */
    ALONE = 1 << 17,            /* products that are not worth a second thread */
};

typedef struct Conv {
    int n;                      /* spatial axes, at least one */
    ConvAxis axis[RANK_MAX];
    DType accum;
    int64_t size;               /* bytes of an element */
    int64_t batch, groups, c, o;            /* images; groups, and channels of one, in and out */
    int64_t xbatch, xchannel, image;        /* strides in elements; places of an image of the result */
    const char *x, *w;
    char *y;
    /* Of the phase. */
    Storage *own;               /* its taps of the kernel; NULL: they are all of w's */
    int64_t taps, k;            /* of a channel; of a row: c * taps */
    int64_t line, lines;        /* places along the last axis; such lines in an image */
    bool lies, joined, whole;   /* x is read as it lies; spans have several images; places lie side by side in the result */
    bool columns;               /* windows are written a column at a time */
    int64_t span_lines, span_places;        /* in a span: lines, and places of each (all, or one line's part) */
    int64_t units, downs, acrosses;         /* images, or 1 when joined; spans of each: over lines, along a line */
    int64_t spans;
    char *room;                 /* of all threads */
    int64_t windows_bytes, sums_bytes, room_bytes;          /* of a thread: its span's windows, its sums; and all, with what gemm_here needs */
    KCtx *ctx;
    _Atomic int64_t next;       /* span that nobody has taken */
    _Atomic int status;
} Conv;

/* Some places: lines from..to of all images (counted through), places at..end of each. */
typedef struct Span { int64_t group, from, to, at, end, columns; } Span;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t round_up(int64_t n, int64_t by) { return (n + by - 1) / by; }

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* ---- windows ---- */

static void copy_apart(char *to, const char *from, int64_t n, int64_t stride, int64_t size)
{
    if (stride == 1)
        memcpy(to, from, (size_t)(n * size));
    else if (size == 4)
        for (int64_t i = 0; i < n; i++)
            memcpy(to + 4 * i, from + 4 * i * stride, 4);
    else if (size == 8)
        for (int64_t i = 0; i < n; i++)
            memcpy(to + 8 * i, from + 8 * i * stride, 8);
    else
        for (int64_t i = 0; i < n; i++)
            memcpy(to + size * i, from + size * i * stride, (size_t)size);
}

/* n elements of one line of the input, at place s and then `step` apart, zeros outside of it. */
static void copy_line(const Conv *v, char *to, const char *line, int64_t s, int64_t step, int64_t n)
{
    const ConvAxis *x = &v->axis[v->n - 1];
    int64_t lo = s >= 0 ? 0 : round_up(-s, step), hi = s >= x->in ? 0 : step == 1 ? x->in - s : (x->in - 1 - s) / step + 1;

    lo = least(lo, n);
    hi = most(least(hi, n), lo);
    memset(to, 0, (size_t)(lo * v->size));
    if (hi > lo)
        copy_apart(to + lo * v->size, line + (s + lo * step) * x->xstride * v->size, hi - lo, step * x->xstride, v->size);
    memset(to + hi * v->size, 0, (size_t)((n - hi) * v->size));
}

/* Places, or taps, on all axes but the last, counted through; n of each axis. */
typedef struct Count { int64_t at[RANK_MAX]; } Count;

static Count count_at(const Conv *v, bool taps, int64_t i)
{
    Count c = {{0}};

    for (int k = v->n - 2; k >= 0; k--) {
        int64_t n = taps ? v->axis[k].taps : v->axis[k].out;
        c.at[k] = i % n;
        i /= n;
    }
    return c;
}

/* On to the next; true: from the last to the first. */
static bool count_on(const Conv *v, bool taps, Count *c)
{
    int k = v->n - 2;

    while (k >= 0 && ++c->at[k] == (taps ? v->axis[k].taps : v->axis[k].out))
        c->at[k--] = 0;
    return k < 0;
}

/* The line of a channel that a place and a tap meet; NULL: they are outside. */
static const char *line_at(const Conv *v, const char *channel, const Count *place, const Count *tap)
{
    int64_t at = 0;

    for (int k = v->n - 2; k >= 0; k--) {
        const ConvAxis *x = &v->axis[k];
        int64_t s = x->start + place->at[k] * x->step + tap->at[k] * x->apart;
        if (s < 0 || s >= x->in)
            return NULL;
        at += s * x->xstride;
    }
    return channel + at * v->size;
}

/* The first element of an image's channel in the span's group. */
static const char *channel_at(const Conv *v, const Span *s, int64_t image, int64_t channel)
{
    return v->x + (image * v->xbatch + (s->group * v->c + channel) * v->xchannel) * v->size;
}

/* One row: a channel's tap, for all places of the span. */
static void write_row(const Conv *v, const Span *s, int64_t row, char *to)
{
    const ConvAxis *x = &v->axis[v->n - 1];
    int64_t width = s->end - s->at, tap = row % v->taps, first = x->start + s->at * x->step + tap % x->taps * x->apart, image = s->from / v->lines;
    const char *from = channel_at(v, s, image, row / v->taps);
    Count place = count_at(v, false, s->from % v->lines), taps = count_at(v, true, tap / x->taps);

    for (int64_t l = s->from; l < s->to; l++, to += width * v->size) {
        const char *line = line_at(v, from, &place, &taps);
        if (line)
            copy_line(v, to, line, first, x->step, width);
        else
            memset(to, 0, (size_t)(width * v->size));
        if (count_on(v, false, &place))
            from += v->xbatch * v->size;
    }
}

/* The columns of a line's places: all channels and taps of each. */
static void write_columns(const Conv *v, const Span *s, int64_t line, char *to)
{
    const ConvAxis *x = &v->axis[v->n - 1];
    int64_t channel = 0;
    Count place = count_at(v, false, line % v->lines), taps = count_at(v, true, 0);

    while (channel < v->c) {
        const char *from = line_at(v, channel_at(v, s, line / v->lines, channel), &place, &taps);
        char *run = to;
        for (int64_t p = s->at; p < s->end; p++, run += v->k * v->size)
            if (from)
                copy_line(v, run, from, x->start + p * x->step, x->apart, x->taps);
            else
                memset(run, 0, (size_t)(x->taps * v->size));
        to += x->taps * v->size;
        channel += count_on(v, true, &taps);
    }
}

static void write_windows(const Conv *v, const Span *s, char *to)
{
    if (v->columns)
        for (int64_t l = s->from; l < s->to; l++, to += (s->end - s->at) * v->k * v->size)
            write_columns(v, s, l, to);
    else
        for (int64_t row = 0; row < v->k; row++, to += s->columns * v->size)
            write_row(v, s, row, to);
}

/* ---- results ---- */

static int64_t place_of(const Conv *v, int64_t line)
{
    int64_t at = 0, wide = 1;

    for (int i = v->n - 1; i >= 0; i--) {
        const ConvAxis *x = &v->axis[i];
        int64_t j = i == v->n - 1 ? 0 : line % x->out;
        line = i == v->n - 1 ? line : line / x->out;
        at += (x->first + j * x->each) * wide;
        wide *= x->size;
    }
    return at;
}

/* Sums of a span, row by row, become elements of the result. */
static void spread_sums(const Conv *v, const Span *s, const char *sums)
{
    const ConvAxis *x = &v->axis[v->n - 1];
    int64_t width = s->end - s->at, size = v->size;

    for (int64_t l = s->from; l < s->to; l++) {
        int64_t place = place_of(v, l % v->lines) + s->at * x->each;
        for (int64_t o = 0; o < v->o; o++) {
            char *to = v->y + ((l / v->lines * v->groups * v->o + s->group * v->o + o) * v->image + place) * size;
            const char *from = sums + (o * s->columns + (l - s->from) * width) * size;
            for (int64_t p = 0; p < width; p++)
                memcpy(to + p * x->each * size, from + p * size, (size_t)size);
        }
    }
}

/* ---- spans ---- */

static Span span_at(const Conv *v, int64_t i)
{
    int64_t across = i % v->acrosses, down = i / v->acrosses % v->downs, unit = i / v->acrosses / v->downs % v->units;
    int64_t lines = v->joined ? v->lines * v->batch : v->lines, from = down * v->span_lines;
    Span s = {.group = i / v->acrosses / v->downs / v->units, .from = unit * v->lines + from, .at = across * v->span_places};

    s.to = unit * v->lines + least(from + v->span_lines, lines);
    s.end = least(s.at + v->span_places, v->line);
    s.columns = (s.to - s.from) * (s.end - s.at);
    return s;
}

static bool is_direct(const Conv *v) { return v->whole && !v->joined; }
static bool is_plain(const Conv *v) { return v->accum != DT_f32 && v->accum != DT_f64; }

static Gemm span_gemm(const Conv *v, const Span *s, char *windows, char *sums)
{
    const char *w = v->own ? storage_data(v->own) : v->w;
    Gemm g = {.accum = v->accum, .batch = 1, .m = v->o, .n = s->columns, .k = v->k, .arow = v->k, .acol = 1};

    g.a = w + s->group * v->o * v->k * v->size;
    if (v->lies) {
        const ConvAxis *x = &v->axis[v->n - 1];
        g.b = channel_at(v, s, s->from / v->lines, 0) + (s->from % v->lines * v->line + s->at) * x->xstride * v->size;
        g.brow = v->xchannel;
        g.bcol = x->xstride;
    } else {
        g.b = windows;
        g.brow = v->columns ? 1 : s->columns;
        g.bcol = v->columns ? v->k : 1;
    }
    g.c = sums;
    g.crow = s->columns;
    if (is_direct(v)) {
        g.c = v->y + ((s->from / v->lines * v->groups + s->group) * v->o * v->image + s->from % v->lines * v->line + s->at) * v->size;
        g.crow = v->image;
    }
    return g;
}

static KStatus run_span(Conv *v, const Span *s, char *room)
{
    char *sums = room + v->windows_bytes;
    Gemm g = span_gemm(v, s, room, sums);
    KStatus status = K_OK;

    if (!v->lies)
        write_windows(v, s, room);
    if (is_plain(v))
        status = gemm_run(v->ctx, g);
    else
        gemm_here(&g, sums + v->sums_bytes);
    if (!is_direct(v))
        spread_sums(v, s, sums);
    return status;
}

/* One thread: spans until there are no more. */
static void run_spans(int64_t lo, int64_t hi, void *st)
{
    Conv *v = st;
    int64_t i;

    for (int64_t slot = lo; slot < hi; slot++)
        while (v->status == K_OK && (i = atomic_fetch_add(&v->next, 1)) < v->spans) {
            Span span = span_at(v, i);
            KStatus s = run_span(v, &span, v->room + slot * v->room_bytes);
            if (s != K_OK)
                v->status = s;
        }
}

static int64_t lines_of_cache(int64_t bytes) { return round_up(bytes, 64) * 64; }

/* All spans of the phase. */
static KStatus run_threads(Conv *v)
{
    int64_t columns = v->span_lines * v->span_places, threads = is_plain(v) || v->o * v->k * columns * v->spans < ALONE ? 1 : pool_threads();
    Storage *room;

    v->windows_bytes = v->lies ? 0 : lines_of_cache(columns * v->k * v->size);
    v->sums_bytes = is_direct(v) ? 0 : lines_of_cache(columns * v->o * v->size);
    v->room_bytes = v->windows_bytes + v->sums_bytes + (is_plain(v) ? 0 : gemm_room_max());
    threads = least(threads, v->spans);
    if (!(room = storage_new((size_t)(threads * v->room_bytes))))
        return K_NOMEM;
    v->room = storage_data(room);
    v->next = 0;
    pool_for(threads, 1, run_spans, v);
    storage_unref(room);
    return v->status;
}

/* ---- phases ---- */

/* Can a product read x itself? One tap, each place's own, and places in equal steps. */
static bool lies_well(const Conv *v)
{
    int64_t wide = v->axis[v->n - 1].xstride;

    for (int i = v->n - 1; i >= 0; i--) {
        const ConvAxis *x = &v->axis[i];
        if (x->taps != 1 || x->start || (x->step != 1 && x->out != 1) || x->out != x->in || (x->in > 1 && x->xstride != wide))
            return false;
        wide *= x->in;
    }
    return true;
}

static void plan_spans(Conv *v)
{
    int64_t k = v->k + 1, columns = most(least(most(WINDOWS / k, COLUMNS), WINDOWS_MOST / k), COLUMNS_LEAST), all, threads = pool_threads();

    v->joined = !v->lies && v->line * v->lines < COLUMNS && v->batch > 1;
    all = v->lines * (v->joined ? v->batch : 1);
    if (v->lies)
        columns = v->line * v->lines;
    if (threads > 1 && v->groups * (v->joined ? 1 : v->batch) < threads)        /* else there are spans for all */
        columns = least(columns, most(round_up(all * v->line, 2 * threads), COLUMNS_LEAST));
    v->span_lines = least(most(columns / most(v->line, 1), 1), most(all, 1));
    v->span_places = v->span_lines > 1 ? v->line : least(v->line, columns);
    v->units = v->joined ? 1 : v->batch;
    v->downs = round_up(all, v->span_lines);
    v->acrosses = round_up(v->line, v->span_places);
    v->spans = v->groups * v->units * v->downs * v->acrosses;
}

/* The phase's taps of the kernel, in order. */
static bool take_taps(Conv *v)
{
    int64_t window = 1, at[RANK_MAX];
    char *to;

    v->own = NULL;
    for (int i = 0; i < v->n; i++)
        window *= v->axis[i].window;
    if (v->taps == window)
        return true;
    if (!(v->own = storage_new((size_t)(v->groups * v->o * v->k * v->size))))
        return false;
    to = storage_data(v->own);
    for (int64_t row = 0; row < v->groups * v->o * v->c; row++)
        for (int64_t t = 0; t < v->taps; t++, to += v->size) {
            int64_t rest = t, from = 0, wide = 1;
            for (int i = v->n - 1; i >= 0; i--) {
                at[i] = v->axis[i].tap + rest % v->axis[i].taps * v->axis[i].tap_each;
                rest /= v->axis[i].taps;
                from += at[i] * wide;
                wide *= v->axis[i].window;
            }
            memcpy(to, v->w + (row * window + from) * v->size, (size_t)v->size);
        }
    return true;
}

static KStatus run_phase(Conv *v)
{
    const ConvAxis *last = &v->axis[v->n - 1];
    KStatus s;

    v->taps = v->lines = 1;
    v->whole = true;
    for (int i = 0; i < v->n; i++) {
        v->taps *= v->axis[i].taps;
        v->lines *= i < v->n - 1 ? v->axis[i].out : 1;
        v->whole &= v->axis[i].out == v->axis[i].size;
    }
    v->k = v->c * v->taps;
    v->line = last->out;
    v->columns = v->k && last->taps > last->out;
    v->lies = lies_well(v);
    if (!v->line || !v->lines)
        return K_OK;
    if (!take_taps(v))
        return K_NOMEM;
    plan_spans(v);
    s = run_threads(v);
    storage_unref(v->own);
    return s;
}

void conv_phase(ConvAxis *x, const ConvSpread *d, int64_t at)
{
    int64_t s = at * d->stride - d->before;

    x->each = d->spread / gcd(d->stride, d->spread);
    x->tap_each = d->spread / gcd(d->dilation, d->spread);
    x->first = at;
    x->out = at < x->size ? (x->size - 1 - at) / x->each + 1 : 0;
    x->tap = 0;
    while (x->tap < x->tap_each && (s + x->tap * d->dilation) % d->spread)
        x->tap++;
    x->taps = x->tap < least(x->tap_each, x->window) ? (x->window - 1 - x->tap) / x->tap_each + 1 : 0;
    x->start = (s + x->tap * d->dilation) / d->spread;
    x->step = x->each * d->stride / d->spread;
    x->apart = x->tap_each * d->dilation / d->spread;
    if (!x->taps)
        x->tap = x->start = 0;
}

static KStatus run_phases(Conv *v, const ConvSpread *d)
{
    int64_t at[RANK_MAX] = {0};
    KStatus s = K_OK;
    int i;

    do {
        for (i = 0; i < v->n; i++)
            conv_phase(&v->axis[i], &d[i], at[i]);
        s = k_stopped(v->ctx) ? K_VALUE : run_phase(v);
        for (i = v->n - 1; i >= 0 && ++at[i] == v->axis[i].each; i--)
            at[i] = 0;
    } while (i >= 0 && s == K_OK);
    return s;
}

/* ---- the op ---- */

static int64_t attr_at(const Attr *a, int list, int i, int64_t otherwise)
{
    return a->nd[list] > i ? dim_int(a->d[list][i]) : otherwise;
}

ConvSpread conv_spread(const Attr *a, int axis)
{
    return (ConvSpread){attr_at(a, 0, axis, 1), attr_at(a, 1, axis, 0), attr_at(a, 3, axis, 1), attr_at(a, 3, a->n + axis, 1)};
}

static KStatus conv_run(KCtx *c, const Attr *a, const Tensor *x, const Tensor *w, DType accum, Tensor *sum)
{
    int n = a->n, first = x->rank - n;
    Conv v = {.n = n, .accum = accum, .size = (int64_t)raw_size((DType)x->dtype), .groups = a->m > 0 ? a->m : 1, .image = 1, .ctx = c};
    ConvSpread d[RANK_MAX];

    v.batch = x->shape[0];
    v.c = w->shape[1];
    v.o = w->shape[0] / v.groups;
    v.xbatch = x->stride[first - 2];
    v.xchannel = x->stride[first - 1];
    v.x = tensor_read(x);
    v.w = tensor_read(w);
    v.y = storage_data(sum->store);
    for (int i = 0; i < n; i++) {
        v.axis[i] = (ConvAxis){.in = x->shape[first + i], .xstride = x->stride[first + i], .size = sum->shape[first + i], .window = w->shape[2 + i]};
        d[i] = conv_spread(a, i);
        v.image *= v.axis[i].size;
    }
    if (!n) {                   /* one place of one tap */
        v.n = 1;
        v.axis[0] = (ConvAxis){.in = 1, .xstride = 1, .size = 1, .window = 1};
        d[0] = (ConvSpread){1, 0, 1, 1};
    }
    return v.batch && v.o ? run_phases(&v, d) : K_OK;
}

KStatus kernel_conv(KERNEL_ARGS)
{
    DType accum = accum_dtype(a, common_dtype(in[0], in[1]), (DType)type->dtype);
    Tensor *x = lanes_of(c, in[0], accum), *y = x ? lanes_of(c, in[1], accum) : NULL;
    Tensor *w = y ? tensor_contiguous(y) : NULL, *sum = NULL;
    TType lanes = *type;
    KStatus s = K_NOMEM;

    (void)op, (void)nin;
    lanes.dtype = (uint8_t)lane_dtype(accum);
    if (w && (sum = k_result(c, &lanes)))
        s = conv_run(c, a, x, w, accum, sum);
    tensor_unref(x);
    tensor_unref(y);
    tensor_unref(w);
    if (s == K_OK)
        return sum_as(c, sum, type, out);
    tensor_unref(sum);
    return s == K_NOMEM ? k_no_memory(c, type) : s;
}
