/*
 * The windows of a span's places, written in runs along the last axis: of one tap for places side by side (a row of the
 * matrix), or of one place for all taps (a column), whichever is longer.
 *
 * An element stands in many windows. Where that is so, the lines of the input that a span meets are laid out first: with zeros where
 * windows reach over the ends, and where runs take every s-th element, each of the s sets by itself. Then a run is a copy of
 * neighbours, whatever strides and dilations are, and nothing is asked about its elements.
 */
#include "runtime/conv_impl.h"

#include <string.h>

/* ---- runs ---- */

static ConvRuns runs_of(const Conv *v, int64_t at, int64_t end)
{
    const ConvAxis *x = &v->axis[v->n - 1];
    ConvRuns r = {.start = x->start + at * x->step, .by = x->step, .n = end - at, .other = x->apart, .others = x->taps};

    if (v->columns) {
        r.by = x->apart;
        r.n = x->taps;
        r.other = x->step;
        r.others = end - at;
    }
    return r;
}

int64_t conv_set_step(const ConvRuns *r) { return r->others > 1 ? gcd64(r->other, r->by) : r->by; }
int64_t conv_sets(const ConvRuns *r) { return r->by / conv_set_step(r); }
int64_t conv_set_size(const ConvRuns *r) { return (r->others - 1) * r->other / r->by + r->n; }

int64_t conv_run_place(const ConvRuns *r, int64_t j)
{
    int64_t at = j * r->other;

    return r->by == 1 ? at : at % r->by / conv_set_step(r) * conv_set_size(r) + at / r->by;
}

#define APART(T, at) \
    for (int64_t i = 0; i < n; i++) \
        ((T *)(void *)to)[at] = ((const T *)(const void *)from)[i * step]
void conv_copy_apart(char *to, int64_t to_step, const char *from, int64_t step, int64_t n, int64_t size)
{
    if (to_step == 1 && step == 1)
        memcpy(to, from, (size_t)(n * size));
    else if (size == 4 && to_step == 1)
        APART(uint32_t, i);
    else if (size == 4)
        APART(uint32_t, i * to_step);
    else if (size == 8)
        APART(uint64_t, i * to_step);
    else
        for (int64_t i = 0; i < n; i++)
            memcpy(to + size * i * to_step, from + size * i * step, (size_t)size);
}

/* n elements of one line of the input, at place s and then `step` apart, zeros outside of it. */
static void copy_line(const Conv *v, char *to, const char *line, int64_t s, int64_t step, int64_t n)
{
    const ConvAxis *x = &v->axis[v->n - 1];
    int64_t lo = s >= 0 ? 0 : ceil_div(-s, step), hi = s >= x->in ? 0 : step == 1 ? x->in - s : (x->in - 1 - s) / step + 1;

    lo = least(lo, n);
    hi = most(least(hi, n), lo);
    if (lo)
        memset(to, 0, (size_t)(lo * v->size));
    if (hi > lo)
        conv_copy_apart(to + lo * v->size, 1, line + (s + lo * step) * x->xstride * v->size, step * x->xstride, hi - lo, v->size);
    if (hi < n)
        memset(to + hi * v->size, 0, (size_t)((n - hi) * v->size));
}

/* ---- lines ---- */

/* Places, or taps, on all axes but the last, counted through. */
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

/* Where the lines are that windows are made of: those of the input, or as they were laid out. */
typedef struct Source {
    const char *at;             /* of the span's first image and the group's first channel, the line that is `first` on the last axis but one */
    int64_t first;
    int64_t image, channel, axis[RANK_MAX];         /* bytes from one to the next */
} Source;

static Source input_of(const Conv *v, const Span *s)
{
    Source x = {.image = v->xbatch * v->size, .channel = v->xchannel * v->size};

    x.at = v->x + s->from / v->lines * x.image + s->group * v->c * x.channel;
    for (int k = 0; k < v->n - 1; k++)
        x.axis[k] = v->axis[k].xstride * v->size;
    return x;
}

static int64_t met(const ConvAxis *x, int64_t place, int64_t tap) { return x->start + place * x->step + tap * x->apart; }

/* Onto what a place and a tap meet on the first n axes; NULL: they are outside. */
static const char *line_at(const Conv *v, const Source *x, const char *channel, int n, const Count *place, const Count *tap)
{
    for (int k = 0; k < n; k++) {
        int64_t s = met(&v->axis[k], place->at[k], tap->at[k]);
        if (s < 0 || s >= v->axis[k].in)
            return NULL;
        channel += (k == v->n - 2 ? s - x->first : s) * x->axis[k];
    }
    return channel;
}

/* ---- laying out ---- */

/* What is laid out for a span: images, and of the last axis but one the lines from..to, of all other axes all. */
typedef struct Laid { int64_t images, from, to, outer; } Laid;

static Laid laid_of(const Conv *v, int64_t lo, int64_t hi)
{
    const ConvAxis *y = &v->axis[v->n - 2];
    Laid l = {(hi - 1) / v->lines - lo / v->lines + 1, 0, y->in, 1};

    if (v->n == 2 && !v->joined) {
        l.from = least(most(met(y, lo % v->lines, 0), 0), y->in);
        l.to = most(least(met(y, (hi - 1) % v->lines, y->taps - 1) + 1, y->in), l.from);
    }
    for (int k = 0; k < v->n - 2; k++)
        l.outer *= v->axis[k].in;
    return l;
}

int64_t conv_laid_bytes(Conv *v)
{
    ConvRuns r = runs_of(v, 0, v->span_places);
    const ConvAxis *y = &v->axis[v->n - 2];
    int64_t images = v->joined ? (v->span_lines + v->lines - 2) / v->lines + 1 : 1, lines = y->in;

    if (v->n == 2 && !v->joined)
        lines = least(lines, (v->span_lines - 1) * y->step + (y->taps - 1) * y->apart + 1);
    for (int k = 0; k < v->n - 2; k++)
        lines *= v->axis[k].in;
    int64_t elements = images * v->c * lines * conv_sets(&r) * conv_set_size(&r);
    v->laid = v->k * v->span_lines * v->span_places >= 2 * elements;
    return v->laid ? elements * v->size : 0;
}

static void lay_line(const Conv *v, const ConvRuns *r, const char *from, char *to)
{
    int64_t sets = conv_sets(r), step = conv_set_step(r), n = conv_set_size(r);

    for (int64_t i = 0; i < sets; i++, to += n * v->size)
        copy_line(v, to, from, r->start + i * step, r->by, n);
}

/* fresh: not yet done. */
static Source lay(const Conv *v, const Span *s, const ConvRuns *r, bool fresh, char *to)
{
    Source in = input_of(v, s), x = {.at = to};
    Laid l = laid_of(v, s->from, s->to);
    int64_t line = conv_sets(r) * conv_set_size(r) * v->size;

    x.first = l.from;
    x.axis[v->n - 2] = line;
    for (int k = v->n - 3; k >= 0; k--)
        x.axis[k] = x.axis[k + 1] * v->axis[k + 1].in;
    x.channel = l.outer * (l.to - l.from) * line;
    x.image = v->c * x.channel;
    for (int64_t i = 0; fresh && i < l.images * v->c * l.outer; i++) {
        const char *from = in.at + i / l.outer / v->c * in.image + i / l.outer % v->c * in.channel;
        int64_t rest = i % l.outer;
        for (int k = v->n - 3; k >= 0; k--) {
            from += rest % v->axis[k].in * in.axis[k];
            rest /= v->axis[k].in;
        }
        for (int64_t y = l.from; y < l.to; y++, to += line)
            lay_line(v, r, from + y * in.axis[v->n - 2], to);
    }
    return x;
}

/* ---- windows ---- */

/* Run j of n lines of places one below the other. */
static void write_runs(const Conv *v, const ConvRuns *r, const Source *x, const char *plane, int64_t y, int64_t n, int64_t j, char *to)
{
    const ConvAxis *axis = &v->axis[v->n - 2];
    int64_t bytes = r->n * v->size, lo = plane && y < 0 ? least(ceil_div(-y, axis->step), n) : 0;
    int64_t hi = !plane || y >= axis->in ? 0 : least((axis->in - 1 - y) / axis->step + 1, n), on = axis->step * x->axis[v->n - 2];

    hi = most(hi, lo);
    if (lo)
        memset(to, 0, (size_t)(lo * bytes));
    if (hi > lo) {
        const char *from = plane + (y + lo * axis->step - x->first) * x->axis[v->n - 2];
        if (v->laid) {
            from += conv_run_place(r, j) * v->size;
            for (int64_t i = lo; i < hi; i++, from += on)
                conv_copy_short(to + i * bytes, from, bytes);
        } else {
            for (int64_t i = lo; i < hi; i++, from += on)
                copy_line(v, to + i * bytes, from, r->start + j * r->other, r->by, r->n);
        }
    }
    if (hi < n)
        memset(to + hi * bytes, 0, (size_t)((n - hi) * bytes));
}

/* One row: a channel's tap, for all places of the span, of which this is the first. */
static void write_row(const Conv *v, const Span *s, const ConvRuns *r, const Source *x, const char *channel, Count place, const Count *taps,
                      int64_t j, char *to)
{
    int last = v->n - 2;
    int64_t n;

    for (int64_t l = s->from; l < s->to; l += n) {
        n = least(v->axis[last].out - place.at[last], s->to - l);
        write_runs(v, r, x, line_at(v, x, channel, last, &place, taps), met(&v->axis[last], place.at[last], taps->at[last]), n, j, to);
        to += n * r->n * v->size;
        place.at[last] += n - 1;
        if (count_on(v, false, &place))
            channel += x->image;
    }
}

/* Lines of taps, all but the last axis, counted over all channels. */
static int64_t tap_lines(const Conv *v) { return v->taps / most(v->axis[v->n - 1].taps, 1); }

static void write_rows(const Conv *v, const Span *s, const ConvRuns *r, const Source *x, int64_t line, int64_t lines, char *to)
{
    Count place = count_at(v, false, s->from % v->lines), taps = count_at(v, true, line % tap_lines(v));
    int64_t channel = line / tap_lines(v);

    for (; lines > 0; lines--, channel += count_on(v, true, &taps))
        for (int64_t j = 0; j < r->others; j++, to += s->columns * v->size)
            write_row(v, s, r, x, x->at + channel * x->channel, place, &taps, j, to);
}

/* The columns of a line's places: rows from..to of them. */
static void write_columns(const Conv *v, const Span *s, const ConvRuns *r, const Source *x, int64_t at, int64_t from, int64_t to, char *windows)
{
    int64_t column = v->kept * v->size, line = from / r->n, channel = line / tap_lines(v), end;
    const char *image = x->at + (at / v->lines - s->from / v->lines) * x->image;
    Count place = count_at(v, false, at % v->lines), taps = count_at(v, true, line % tap_lines(v));

    for (; from < to; from = end, channel += count_on(v, true, &taps)) {
        int64_t first = from % r->n, bytes;
        const char *source = line_at(v, x, image + channel * x->channel, v->n - 1, &place, &taps);
        end = least(from - first + r->n, to);
        bytes = (end - from) * v->size;
        for (int64_t j = 0; j < r->others; j++)
            if (!source)
                memset(windows + j * column, 0, (size_t)bytes);
            else if (v->laid)
                conv_copy_short(windows + j * column, source + (conv_run_place(r, j) + first) * v->size, bytes);
            else
                copy_line(v, windows + j * column, source, r->start + j * r->other + first * r->by, r->by, end - from);
        windows += bytes;
    }
}

int64_t conv_unit(const Conv *v) { return v->axis[v->n - 1].taps; }

int64_t conv_write_windows(const Conv *v, const Span *s, int64_t from, int64_t to, char *windows, char *laid)
{
    if (!v->k)                  /* taps that meet no element */
        return 0;
    ConvRuns r = runs_of(v, s->at, s->end);
    Source x = v->laid ? lay(v, s, &r, !from, laid) : input_of(v, s);
    int64_t line = from / conv_unit(v), lines = ceil_div(to, conv_unit(v)) - line;

    if (v->columns)
        for (int64_t l = s->from; l < s->to; l++, windows += r.others * v->kept * v->size)
            write_columns(v, s, &r, &x, l, from, to, windows);
    else
        write_rows(v, s, &r, &x, line, lines, windows);
    return v->columns ? 0 : from - line * conv_unit(v);
}
