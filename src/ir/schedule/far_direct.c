/*
 * Convolutions by threads: a lane has a strip of places of one line for some outputs, in registers.  For each line of taps it loads what the windows
 * of all these places meet, once, and the taps, and multiplies: of 7 taps and 14 places that are 98 steps for 27 elements.
 *
 *      lanes beside each other: outputs, side by side in memory    then: lines, which share lines of the image in the caches
 *
 * Where each output meets few channels (depthwise and grouped convolutions) there is no product for matrix units.  Of f32 and f64 this is the way
 * of all: outputs of one group meet the same elements, which all lanes of a warp load as one.
 *
 * A sum's order is that of M4: channels, taps, in chunks of 256 steps.  What is outside of the image are zeros, which are part of the sums, as a tap
 * may be infinite.  Strips inside of the image are loaded without a look at each place.
 */
#include "ir/schedule/far_direct.h"

#include <string.h>

static const char *const size_names[D_SIZES] = {"n", "d", "h", "w", "lines", "strips", "o", "blocks", "c", "group", "xn", "xc", "xd", "xh",
                                                "yn", "yd", "yh", "hd", "hh", "hw", "chunks", "steps"};

/* ---- words ---- */

TileRef direct_size(TileBuilder *b, DirectSize s) { return build_size(b, size_names[s]); }
TileRef direct_add(TileBuilder *b, TileRef x, TileRef y) { return build_add2(b, TOP_iadd, x, y); }
TileRef direct_times(TileBuilder *b, TileRef x, TileRef y) { return build_add2(b, TOP_imul, x, y); }
TileRef direct_plus(TileBuilder *b, TileRef x, int64_t n) { return n ? build_add2(b, TOP_iadd, x, build_number(b, n)) : x; }
TileRef direct_over(TileBuilder *b, TileRef x, int64_t n) { return n == 1 ? x : build_add2(b, TOP_idiv, x, build_number(b, n)); }
TileRef direct_rest(TileBuilder *b, TileRef x, int64_t n) { return n == 1 ? build_number(b, 0) : build_add2(b, TOP_imod, x, build_number(b, n)); }
TileRef direct_max(TileBuilder *b, TileRef x, TileRef y) { return build_add2(b, TOP_imax, x, y); }
static TileRef number_times(TileBuilder *b, TileRef x, int64_t n) { return n == 1 ? x : build_times(b, x, n); }

TileRef direct_step(TileBuilder *b, const DirectKind *k, DirectSize s)
{
    TAttr a = tattr_none;

    a.name = sym(size_names[s]);
    a.align = k->pairs ? 2 : 0;
    return build_add(b, TOP_size, &a, NULL, 0);
}

TileRef direct_load(TileBuilder *b, const DirectKind *k, TileRef view, TileRef at, int64_t by)
{
    TAttr a = tattr_none;

    a.vector = k->pairs ? 2 : 0;

    a.rank = 1;
    a.shape[0] = 1;
    a.drop = 1;
    a.within = 1;
    return build_add(b, TOP_load, &a, (TileRef[]){view, direct_plus(b, at, by)}, 2);
}

bool direct_store(TileBuilder *b, const DirectKind *k, TileRef view, TileRef at, int64_t by, TileRef x)
{
    TileRef in[3] = {view, direct_plus(b, at, by), x};
    TAttr a = tattr_none;

    a.vector = k->pairs ? 2 : 0;
    a.drop = 1;
    a.within = 1;
    return in[1].node && x.node && tile_add(b, TOP_store, &a, in, 3);
}

TileRef direct_convert(TileBuilder *b, uint8_t dt, TileRef x)
{
    TAttr a = tattr_none;

    a.op = OP_convert;
    a.dtype = dt;
    return x.node && tile_type(x)->dtype != dt ? build_add(b, TOP_map, &a, &x, 1) : x;
}

static TileRef map(TileBuilder *b, OpId op, const TileRef *in, int n)
{
    TAttr a = tattr_none;

    a.op = (uint8_t)op;
    return build_add(b, TOP_map, &a, in, n);
}

TileRef direct_fma(TileBuilder *b, TileRef x, TileRef y, TileRef sum) { return map(b, OP_fma, (TileRef[]){x, y, sum}, 3); }

TileRef direct_zero(TileBuilder *b, const DirectKind *k)
{
    TAttr a = tattr_none;

    a.dtype = k->sum;
    return build_add(b, TOP_const, &a, NULL, 0);
}

TileRef direct_lane(TileBuilder *b, const DirectKind *k, TileRef *row)
{
    TileRef lane = build_add(b, TOP_lane, NULL, NULL, 0), before = number_times(b, build_group(b, 0), direct_lanes(k) / k->lanes);

    *row = direct_add(b, before, direct_over(b, lane, k->lanes));
    return direct_rest(b, lane, k->lanes);
}

TileRef direct_loop(TileBuilder *b, DirectLoop *l, TileRef lo, TileRef hi, int64_t step, TileRef *carried, int n)
{
    TileRef in[3 + 2 * DIRECT_SUMS] = {lo, hi, build_number(b, step)};
    bool all = lo.node && hi.node;

    for (int i = 0; i < n; i++) {
        in[3 + i] = carried[i];
        all = all && carried[i].node;
    }
    *l = (DirectLoop){b->at, all ? tile_add(b, TOP_for, NULL, in, 3 + n) : NULL};
    if (!l->node)
        return build_none();
    b->at = l->node->region[0];
    for (int i = 0; i < n; i++)
        carried[i] = (TileRef){b->at->params.at[1 + i], 0};
    return (TileRef){b->at->params.at[0], 0};
}

static bool close(TileBuilder *b, const DirectLoop *l, const TileRef *x, int n)
{
    for (int i = 0; i < n; i++)
        if (!x[i].node)
            return false;
    return l->node && tile_yield(b, x, n);
}

bool direct_loop_end(TileBuilder *b, DirectLoop *l, TileRef *carried, int n)
{
    if (!close(b, l, carried, n))
        return false;
    b->at = l->outside;
    for (int i = 0; i < n; i++)
        carried[i] = (TileRef){l->node, i};
    return true;
}

bool direct_if(TileBuilder *b, DirectLoop *l, TileRef is)
{
    *l = (DirectLoop){b->at, is.node ? tile_add(b, TOP_if, NULL, &is, 1) : NULL};
    if (l->node)
        b->at = l->node->region[0];
    return l->node;
}

bool direct_else(TileBuilder *b, DirectLoop *l, const TileRef *x, int n)
{
    if (!close(b, l, x, n))
        return false;
    b->at = l->node->region[1];
    return true;
}

bool direct_end_if(TileBuilder *b, DirectLoop *l, TileRef *x, int n) { return direct_loop_end(b, l, x, n); }

bool direct_line_is_met(const DirectKind *k, int at)
{
    bool met = false;

    for (int r = 0; r < k->beside; r++) {
        int from = at - r * k->stride[D_LINE];
        met = met || (from >= 0 && from % k->each[D_LINE] == 0 && from / k->each[D_LINE] < k->taps[D_LINE]);
    }
    return met;
}

int direct_offsets(const DirectKind *k, int places, int16_t *offset, int16_t *at)
{
    int n = 0;

    for (int o = 0; o <= (places - 1) * k->stride[D_PLACE] + (k->taps[D_PLACE] - 1) * k->each[D_PLACE]; o++) {
        bool met = false;
        for (int j = 0; j < places; j++)
            for (int t = 0; t < k->taps[D_PLACE]; t++)
                if (j * k->stride[D_PLACE] + t * k->each[D_PLACE] == o) {
                    if (n < DIRECT_VALUES)
                        at[j * k->taps[D_PLACE] + t] = (int16_t)n;
                    met = true;
                }
        if (met && n < DIRECT_VALUES)
            offset[n] = (int16_t)o;
        n += met;
    }
    return n;
}

/* ---- sums of places ---- */

/*
 * Where a lane is: its first output; its first line, and place, and depth; the first of its places in the image; first elements of image, kernel and
 * result.  inside: which of the offsets are in a line of the image, a bit each; beside: by how much they reach beyond it.
 */
typedef struct Strip {
    TileRef view[3], first, line, depth, place, at, x, w, y, inside, beside;
    int16_t offset[DIRECT_VALUES], met[DIRECT_VALUES * DIRECT_TAPS];
    int n;
} Strip;

/* By how much places from `first` to `last` are outside of an extent: nothing, if that is 0 or less. */
static TileRef beyond(TileBuilder *b, TileRef first, TileRef last, DirectSize extent)
{
    TileRef before = build_add2(b, TOP_isub, build_number(b, 0), first), end = build_add2(b, TOP_isub, last, direct_size(b, extent));

    return direct_max(b, before, direct_plus(b, end, 1));
}

static TileRef is_not(TileBuilder *b, TileRef beyond) { return build_add2(b, TOP_ilt, beyond, build_number(b, 1)); }

/* Channels of which a lane has elements at the same time. */
static int channels_of(const DirectKind *k) { return k->pairs ? 2 : 1; }

/* ---- bits ---- */

static DType bits_of(const Strip *s) { return s->offset[s->n - 1] < 32 ? DT_uint32 : DT_uint64; }

static TileRef constant(TileBuilder *b, DType dt, int64_t i)
{
    TAttr a = tattr_none;

    a.dtype = (uint8_t)dt;
    a.i = i;
    return build_add(b, TOP_const, &a, NULL, 0);
}

/* All bits from the n'th on, n being brought to between none and all. */
static TileRef bits_from(TileBuilder *b, DType dt, TileRef n)
{
    TAttr a = tattr_none;
    TileRef most = build_number(b, dt == DT_uint32 ? 32 : 64);

    a.dtype = (uint8_t)dt;
    n = build_add2(b, TOP_imin, n, most);
    n = direct_max(b, n, build_number(b, 0));
    n = build_add(b, TOP_to_tile, &a, &n, 1);
    return map(b, OP_shl, (TileRef[]){constant(b, dt, dt == DT_uint32 ? (int64_t)UINT32_MAX : -1), n}, 2);
}

/* Which offsets are in the line. */
static TileRef bits_inside(TileBuilder *b, const Strip *s)
{
    DType dt = bits_of(s);
    TileRef from = bits_from(b, dt, build_add2(b, TOP_isub, build_number(b, 0), s->at)), to, ones;

    to = direct_size(b, D_HW);
    to = bits_from(b, dt, build_add2(b, TOP_isub, to, s->at));
    ones = constant(b, dt, dt == DT_uint32 ? (int64_t)UINT32_MAX : -1);
    to = map(b, OP_bitxor, (TileRef[]){to, ones}, 2);
    return map(b, OP_bitand, (TileRef[]){from, to}, 2);
}

/* ---- lines of the image ---- */

/* From the numbers of group and lane to places. */
static bool begin_strip(TileBuilder *b, const DirectKind *k, Strip *s, TileRef row)
{
    TileRef lines = direct_size(b, D_LINES), rest = row, image = build_group(b, 2), channel;

    s->line = number_times(b, build_add2(b, TOP_imod, rest, lines), k->lines * k->beside);
    rest = build_add2(b, TOP_idiv, rest, lines);
    s->depth = k->deep ? build_add2(b, TOP_imod, rest, direct_size(b, D_D)) : build_number(b, 0);
    if (k->deep)
        rest = build_add2(b, TOP_idiv, rest, direct_size(b, D_D));
    s->place = number_times(b, rest, k->places);
    s->at = direct_plus(b, number_times(b, s->place, k->stride[D_PLACE]), k->start[D_PLACE]);
    s->beside = beyond(b, s->at, direct_plus(b, s->at, s->offset[s->n - 1]), D_HW);
    s->inside = bits_inside(b, s);
    s->x = direct_times(b, image, direct_step(b, k, D_XN));
    s->x = direct_add(b, s->x, number_times(b, s->at, k->step[0]));
    if (k->pairs) {
        s->x = direct_add(b, s->x, s->first);
    } else if (k->grouped) {
        channel = build_add2(b, TOP_idiv, s->first, direct_size(b, D_GROUP));
        channel = direct_times(b, channel, direct_size(b, D_C));
        s->x = direct_add(b, s->x, direct_times(b, channel, direct_step(b, k, D_XC)));
    }
    s->w = s->first;
    s->y = direct_times(b, image, direct_step(b, k, D_YN));
    s->y = direct_add(b, s->y, direct_times(b, s->depth, direct_step(b, k, D_YD)));
    s->y = direct_add(b, s->y, number_times(b, s->place, k->step[1]));
    s->y = direct_add(b, s->y, s->first);
    return s->y.node && s->x.node;
}

/* An element where its bit is set, or a pair of them, else zero. */
static bool load_if(TileBuilder *b, const DirectKind *k, TileRef view, TileRef bits, int bit, TileRef at, int64_t by, TileRef *v)
{
    DType dt = (DType)tile_type(bits)->dtype;
    TileRef is = map(b, OP_bitand, (TileRef[]){bits, constant(b, dt, (int64_t)((uint64_t)1 << bit))}, 2);
    TAttr a = tattr_none;
    int n = channels_of(k);
    DirectLoop l;

    is = map(b, OP_ne, (TileRef[]){is, constant(b, dt, 0)}, 2);
    if (!direct_if(b, &l, is))
        return false;
    for (int i = 0; i < n; i++)
        v[i] = direct_load(b, k, view, at, by + i);
    if (!direct_else(b, &l, v, n))
        return false;
    a.dtype = k->dt;
    for (int i = 0; i < n; i++)
        v[i] = build_add(b, TOP_const, &a, NULL, 0);
    return direct_end_if(b, &l, v, n);
}

/* A line of the image, as far as the strip's windows reach, channel after channel of each place. Both ways have the same addresses. */
static bool load_line(TileBuilder *b, const DirectKind *k, const Strip *s, TileRef x, TileRef depth, TileRef line, TileRef *v)
{
    int each = channels_of(k), n = s->n * each;
    TileRef out = beyond(b, line, line, D_HH), bits, at;
    DirectLoop l;

    if (k->deep) {
        out = direct_max(b, out, beyond(b, depth, depth, D_HD));
        x = direct_add(b, x, direct_times(b, depth, direct_step(b, k, D_XD)));
    }
    at = direct_add(b, x, direct_times(b, line, direct_step(b, k, D_XH)));
    if (!direct_if(b, &l, is_not(b, direct_max(b, out, s->beside))))
        return false;
    for (int i = 0; i < n; i++)
        v[i] = direct_load(b, k, s->view[0], at, (int64_t)s->offset[i / each] * k->step[0] + i % each);
    if (!direct_else(b, &l, v, n))
        return false;
    bits = map(b, OP_where, (TileRef[]){is_not(b, out), s->inside, constant(b, bits_of(s), 0)}, 3);
    for (int i = 0; i < s->n; i++)
        if (!load_if(b, k, s->view[0], bits, s->offset[i], at, (int64_t)s->offset[i] * k->step[0], &v[i * each]))
            return false;
    if (!direct_end_if(b, &l, v, n))
        return false;
    for (int i = 0; i < n; i++)
        v[i] = direct_convert(b, k->sum, v[i]);
    return true;
}

/* ---- sums ---- */

/* A sum that ends its chunk where `ends` is joins the chunks before it. */
static void join(TileBuilder *b, const DirectKind *k, TileRef ends, TileRef *sum, TileRef *all)
{
    TileRef joined = map(b, OP_add, (TileRef[]){*all, *sum}, 2);

    *all = map(b, OP_where, (TileRef[]){ends, joined, *all}, 3);
    *sum = map(b, OP_where, (TileRef[]){ends, direct_zero(b, k), *sum}, 3);
}

/* A tap of a line of taps that begins at w, for all outputs. */
static void load_tap(TileBuilder *b, const DirectKind *k, const Strip *s, TileRef w, int line, int tap, TileRef *y)
{
    int64_t at = (int64_t)line * k->tap_each[D_LINE] * k->window[D_PLACE] + k->tap[D_PLACE] + (int64_t)tap * k->tap_each[D_PLACE];

    for (int u = 0; u < k->outputs; u++)
        y[u] = direct_load(b, k, s->view[1], w, at * k->step[2] + (int64_t)u * direct_apart(k));
    for (int u = 0; u < k->outputs; u++)
        y[u] = direct_convert(b, k->sum, y[u]);
}

/* It for all places and outputs. */
static void multiply(TileBuilder *b, const DirectKind *k, const Strip *s, const TileRef *y, int tap, const TileRef *v, TileRef *sum)
{
    int each = channels_of(k);

    for (int u = 0; u < k->outputs; u++)
        for (int j = 0; j < k->places; j++) {
            TileRef *to = &sum[u * k->places + j];
            *to = direct_fma(b, y[u], v[s->met[j * k->taps[D_PLACE] + tap] * each + (k->pairs ? u : 0)], *to);
        }
}

/* One tap of the line for all places and outputs. */
static void add_tap(TileBuilder *b, const DirectKind *k, const Strip *s, TileRef w, int tap, const TileRef *v, TileRef *sum)
{
    TileRef y[OUTPUTS_MOST];

    load_tap(b, k, s, w, 0, tap, y);
    multiply(b, k, s, y, tap, v, sum);
}

/* Where a chunk ends within the line of taps, whose first step has the number `step`: tap by tap. */
static bool add_broken(TileBuilder *b, const DirectKind *k, const Strip *s, TileRef w, TileRef step, const TileRef *v, TileRef *sum)
{
    int n = k->outputs * k->places, taps = k->taps[D_PLACE];
    TileRef left = direct_rest(b, step, CHUNK), all[2 * DIRECT_SUMS];
    DirectLoop l;

    if (!direct_if(b, &l, build_add2(b, TOP_ilt, left, build_number(b, CHUNK - taps))))
        return false;
    memcpy(all, sum, sizeof *sum * 2 * (size_t)n);
    for (int t = 0; t < taps; t++)
        add_tap(b, k, s, w, t, v, all);
    if (!direct_else(b, &l, all, 2 * n))
        return false;
    memcpy(all, sum, sizeof *sum * 2 * (size_t)n);
    for (int t = 0; t < taps; t++) {
        TileRef ends = build_add2(b, TOP_ieq, left, build_number(b, CHUNK - 1 - t));
        add_tap(b, k, s, w, t, v, all);
        for (int i = 0; i < n; i++)
            join(b, k, ends, &all[i], &all[n + i]);
    }
    if (!direct_end_if(b, &l, all, 2 * n))
        return false;
    memcpy(sum, all, sizeof *sum * 2 * (size_t)n);
    return true;
}

/* Lines of taps of one channel. number: of the channel among those that an output meets. */
static bool add_lines(TileBuilder *b, const DirectKind *k, const Strip *s, TileRef x, TileRef number, TileRef *sum)
{
    int n = k->outputs * k->places * (k->broken ? 2 : 1), lines = k->taps[D_DEPTH] * k->taps[D_LINE];
    TileRef i = build_number(b, 0), depth, line, w, v[DIRECT_VALUES];
    DirectLoop l;

    if (lines > 1)
        i = direct_loop(b, &l, i, build_number(b, lines), 1, sum, n);
    if (!i.node)
        return false;
    depth = k->deep ? direct_over(b, i, k->taps[D_LINE]) : build_number(b, 0);
    line = k->deep ? direct_rest(b, i, k->taps[D_LINE]) : i;
    w = direct_plus(b, number_times(b, depth, k->tap_each[D_DEPTH]), k->tap[D_DEPTH]);
    w = direct_plus(b, number_times(b, w, k->window[D_LINE]), k->tap[D_LINE]);
    w = direct_add(b, w, number_times(b, line, k->tap_each[D_LINE]));
    w = direct_add(b, w, number_times(b, number, (int64_t)k->window[D_DEPTH] * k->window[D_LINE]));
    w = direct_add(b, s->w, number_times(b, w, (int64_t)k->window[D_PLACE] * k->step[2]));
    depth = direct_plus(b, number_times(b, depth, k->each[D_DEPTH]), k->start[D_DEPTH]);
    depth = direct_add(b, depth, number_times(b, s->depth, k->stride[D_DEPTH]));
    line = direct_plus(b, number_times(b, line, k->each[D_LINE]), k->start[D_LINE]);
    line = direct_add(b, line, number_times(b, s->line, k->stride[D_LINE]));
    if (!load_line(b, k, s, x, depth, line, v))
        return false;
    if (k->broken) {
        TileRef step = direct_add(b, number_times(b, number, lines), i);
        if (!add_broken(b, k, s, w, number_times(b, step, k->taps[D_PLACE]), v, sum))
            return false;
    } else {
        for (int t = 0; t < k->taps[D_PLACE]; t++)
            add_tap(b, k, s, w, t, v, sum);
    }
    return lines == 1 || direct_loop_end(b, &l, sum, n);
}

/* A line of the image, `at` lines behind the first one that a lane meets, for all lines of the result that meet it. y: taps that are loaded. */
static void add_met(TileBuilder *b, const DirectKind *k, const Strip *s, TileRef w, int at, const TileRef *v, TileRef *y, TileRef *sum)
{
    for (int r = 0; r < k->beside; r++) {
        int from = at - r * k->stride[D_LINE], line = from / k->each[D_LINE];
        if (from < 0 || from % k->each[D_LINE] || line >= k->taps[D_LINE])
            continue;
        for (int t = 0; t < k->taps[D_PLACE]; t++) {
            TileRef *own = &y[(line * k->taps[D_PLACE] + t) * k->outputs];
            if (!own->node)
                load_tap(b, k, s, w, line, t, own);
            multiply(b, k, s, own, t, v, &sum[r * k->outputs * k->places]);
        }
    }
}

/* As add_lines, of several lines of the result at once: a line of the image is loaded once for all of them. */
static bool add_beside(TileBuilder *b, const DirectKind *k, const Strip *s, TileRef x, TileRef number, TileRef *sum)
{
    int n = k->beside * k->outputs * k->places, last = (k->taps[D_LINE] - 1) * k->each[D_LINE] + (k->beside - 1) * k->stride[D_LINE];
    TileRef i = build_number(b, 0), depth, line, w, v[DIRECT_VALUES], y[DIRECT_TAPS * OUTPUTS_MOST] = {{NULL, 0}};
    DirectLoop l;

    if (k->taps[D_DEPTH] > 1)
        i = direct_loop(b, &l, i, build_number(b, k->taps[D_DEPTH]), 1, sum, n);
    if (!i.node)
        return false;
    w = direct_plus(b, number_times(b, i, k->tap_each[D_DEPTH]), k->tap[D_DEPTH]);
    w = direct_add(b, w, number_times(b, number, k->window[D_DEPTH]));
    w = direct_plus(b, number_times(b, w, k->window[D_LINE]), k->tap[D_LINE]);
    w = direct_add(b, s->w, number_times(b, w, (int64_t)k->window[D_PLACE] * k->step[2]));
    depth = direct_plus(b, number_times(b, i, k->each[D_DEPTH]), k->start[D_DEPTH]);
    depth = direct_add(b, depth, number_times(b, s->depth, k->stride[D_DEPTH]));
    line = direct_plus(b, number_times(b, s->line, k->stride[D_LINE]), k->start[D_LINE]);
    for (int at = 0; at <= last; at++) {
        if (!direct_line_is_met(k, at))
            continue;
        if (!load_line(b, k, s, x, depth, direct_plus(b, line, at), v))
            return false;
        add_met(b, k, s, w, at, v, y, sum);
    }
    return k->taps[D_DEPTH] == 1 || direct_loop_end(b, &l, sum, n);
}

static bool add_channels(TileBuilder *b, const DirectKind *k, const Strip *s, TileRef *sum)
{
    bool (*add)(TileBuilder *, const DirectKind *, const Strip *, TileRef, TileRef, TileRef *) = k->beside > 1 ? add_beside : add_lines;
    int n = k->beside * k->outputs * k->places * (k->broken ? 2 : 1);
    TileRef i = build_number(b, 0);
    DirectLoop l;

    if (!k->inputs)
        return add(b, k, s, s->x, i, sum);
    i = direct_loop(b, &l, i, direct_size(b, D_C), 1, sum, n);
    return i.node && add(b, k, s, direct_add(b, s->x, direct_times(b, i, direct_step(b, k, D_XC))), i, sum) && direct_loop_end(b, &l, sum, n);
}

/* What is left of the last chunk joins the others, if there are any steps in it. */
static void join_last(TileBuilder *b, const DirectKind *k, TileRef *sum)
{
    int n = k->outputs * k->places;
    TileRef steps = number_times(b, direct_size(b, D_C), k->taps[D_DEPTH] * k->taps[D_LINE] * k->taps[D_PLACE]);
    TileRef some = build_add2(b, TOP_ilt, build_number(b, 0), direct_rest(b, steps, CHUNK));

    for (int i = 0; i < n; i++) {
        TileRef joined = map(b, OP_add, (TileRef[]){sum[n + i], sum[i]}, 2);
        sum[i] = map(b, OP_where, (TileRef[]){some, joined, sum[n + i]}, 3);
    }
}

static bool store_sums(TileBuilder *b, const DirectKind *k, const Strip *s, TileRef line, const TileRef *sum)
{
    TileRef left = build_add2(b, TOP_isub, direct_size(b, D_W), s->place), y = direct_add(b, s->y, direct_times(b, line, direct_step(b, k, D_YH)));
    TileRef x[OUTPUTS_MOST];
    DirectLoop l;

    for (int j = 0; j < k->places; j++) {
        if (!k->whole && !direct_if(b, &l, build_add2(b, TOP_ilt, build_number(b, j), left)))
            return false;
        for (int u = 0; u < k->outputs; u++)
            x[u] = direct_convert(b, k->out, sum[u * k->places + j]);
        for (int u = 0; u < k->outputs; u++)
            if (!direct_store(b, k, s->view[2], y, (int64_t)j * k->step[1] + (int64_t)u * direct_apart(k), x[u]))
                return false;
        if (!k->whole && !(direct_else(b, &l, NULL, 0) && direct_end_if(b, &l, NULL, 0)))
            return false;
    }
    return true;
}

static bool add_line(TileBuilder *b, const DirectKind *k, const Strip *s, TileRef line)
{
    int each = k->outputs * k->places, n = each * k->beside * (k->broken ? 2 : 1);
    TileRef sum[2 * DIRECT_SUMS];
    Strip own = *s;

    own.line = line;
    for (int i = 0; i < n; i++)
        sum[i] = direct_zero(b, k);
    if (!add_channels(b, k, &own, sum))
        return false;
    if (k->broken)
        join_last(b, k, sum);
    for (int r = 0; r < k->beside; r++)
        if (!store_sums(b, k, &own, direct_plus(b, line, r), &sum[r * each]))
            return false;
    return true;
}

/* The lines of a lane, one after the other: where it is has to be found out once. */
static bool add_lines_of(TileBuilder *b, const DirectKind *k, const Strip *s)
{
    TileRef zero = build_number(b, 0), i;
    DirectLoop l;

    if (k->lines == 1)
        return add_line(b, k, s, s->line);
    i = direct_loop(b, &l, zero, build_number(b, k->lines), 1, NULL, 0);
    return i.node && add_line(b, k, s, direct_add(b, s->line, number_times(b, i, k->beside))) && direct_loop_end(b, &l, NULL, 0);
}

static bool build_places(TileBuilder *b, const DirectKind *k)
{
    const int8_t flat[1] = {1};
    TileRef row, lane, rows, out;
    DirectLoop l;
    Strip s;

    s.view[0] = far_view(b, "x", (DType)k->dt, 1, flat);
    s.view[1] = far_view(b, "taps", (DType)k->dt, 1, flat);
    s.view[2] = far_view(b, "y", (DType)k->out, 1, flat);
    lane = direct_lane(b, k, &row);
    s.n = direct_offsets(k, k->places, s.offset, s.met);
    lane = number_times(b, lane, k->pairs ? k->outputs : 1);
    s.first = direct_add(b, number_times(b, build_group(b, 1), k->lanes * k->outputs), lane);
    rows = direct_size(b, D_LINES);
    rows = direct_times(b, rows, direct_size(b, D_STRIPS));
    if (k->deep)
        rows = direct_times(b, rows, direct_size(b, D_D));
    out = build_add2(b, TOP_isub, row, rows);
    out = direct_max(b, out, build_add2(b, TOP_isub, s.first, direct_size(b, D_O)));
    return direct_if(b, &l, build_add2(b, TOP_ilt, out, build_number(b, 0))) && begin_strip(b, k, &s, row) && add_lines_of(b, k, &s) &&
           direct_else(b, &l, NULL, 0) && direct_end_if(b, &l, NULL, 0);
}

/* ---- kernels ---- */

static bool build(TileBuilder *b, const void *what)
{
    const DirectKind *k = what;
    Dim size[D_SIZES], rows;

    for (int i = 0; i < D_SIZES; i++)
        size[i] = tile_size(b->k, sym(size_names[i]));
    b->k->lanes = direct_lanes(k);
    rows = k->by_kernel ? size[D_CHUNKS] : dim_mul(dim_mul(size[D_LINES], size[D_STRIPS]), size[D_D]);
    vec_push(&b->k->grid, dim_cdiv(rows, direct_lanes(k) / k->lanes));
    vec_push(&b->k->grid, size[D_BLOCKS]);
    vec_push(&b->k->grid, k->by_kernel ? size[D_C] : size[D_N]);
    return k->by_kernel ? direct_build_kernel(b, k) : build_places(b, k);
}

FarKernel *direct_kernel(const DirectKind *k) { return far_kernel_for(k, sizeof *k, "direct", build); }
