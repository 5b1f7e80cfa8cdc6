/*
 * The derivative of a convolution by its kernel, by threads: a lane has some lines of taps for some outputs and one channel, and adds up one chunk
 * of steps, which are places of the cotangent, image after image.  Of a run of places in one line it loads each element once, as places' sums do
 * (far_direct.c).  Sums of chunks are added up by a second kernel (far_join_parts), the first one first.
 */
#include "ir/schedule/far_direct.h"

/* What a lane works on. first: its output; tap: number of its first line of taps; x, y: of image and cotangent, its first elements. */
typedef struct Share { TileRef view[3], chunk, channel, first, wanted, tap, x, y, line[DIRECT_TAPS]; } Share;

static TileRef number_times(TileBuilder *b, TileRef x, int64_t n) { return n == 1 ? x : build_times(b, x, n); }
static int lines_of(const DirectKind *k) { return k->taps[D_DEPTH] * k->taps[D_LINE]; }

/* Elements from the image's first one to a line of taps. */
static TileRef line_at(TileBuilder *b, const DirectKind *k, TileRef tap)
{
    TileRef line = k->deep ? direct_rest(b, tap, k->taps[D_LINE]) : tap, depth;
    TileRef at = direct_times(b, direct_plus(b, number_times(b, line, k->each[D_LINE]), k->start[D_LINE]), direct_step(b, k, D_XH));

    if (!k->deep)
        return at;
    depth = direct_over(b, tap, k->taps[D_LINE]);
    depth = direct_plus(b, number_times(b, depth, k->each[D_DEPTH]), k->start[D_DEPTH]);
    return direct_add(b, at, direct_times(b, depth, direct_step(b, k, D_XD)));
}

static bool begin_share(TileBuilder *b, const DirectKind *k, Share *s)
{
    int lines = lines_of(k), sets = (lines + k->lines - 1) / k->lines;
    TileRef number = build_group(b, 1), lane = direct_lane(b, k, &s->chunk), group;

    s->channel = build_group(b, 2);
    lane = number_times(b, lane, k->pairs ? k->outputs : 1);
    s->first = direct_add(b, number_times(b, direct_over(b, number, sets), k->lanes * k->outputs), lane);
    s->wanted = number_times(b, direct_rest(b, number, sets), k->lines);
    s->tap = build_add2(b, TOP_imin, s->wanted, build_number(b, lines - k->lines));
    s->x = direct_times(b, s->channel, direct_step(b, k, D_XC));
    if (k->pairs) {
        s->x = direct_add(b, s->x, s->first);
    } else if (k->grouped) {
        group = build_add2(b, TOP_idiv, s->first, direct_size(b, D_GROUP));
        s->x = direct_add(b, s->x, group);
    }
    s->x = direct_plus(b, s->x, (int64_t)k->start[D_PLACE] * k->step[0]);
    s->y = s->first;
    for (int r = 0; r < k->lines; r++)
        s->line[r] = direct_add(b, s->x, line_at(b, k, direct_plus(b, s->tap, r)));
    return s->y.node && s->x.node;
}

/* A run of places from x and y on, of image and cotangent. */
static void add_places(TileBuilder *b, const DirectKind *k, const Share *s, int places, TileRef x, TileRef y, TileRef *sum)
{
    int16_t offset[DIRECT_VALUES], met[DIRECT_VALUES * DIRECT_TAPS];
    int n = direct_offsets(k, places, offset, met), taps = k->taps[D_PLACE], each = k->pairs ? 2 : 1;
    TileRef v[DIRECT_VALUES], c[DIRECT_SUMS], at;

    for (int i = 0; i < k->outputs * places; i++)
        c[i] = direct_load(b, k, s->view[1], y, (int64_t)(i / k->outputs) * k->step[1] + (int64_t)(i % k->outputs) * direct_apart(k));
    for (int i = 0; i < k->outputs * places; i++)
        c[i] = direct_convert(b, k->sum, c[i]);
    for (int r = 0; r < k->lines; r++) {
        at = direct_add(b, s->line[r], x);
        for (int i = 0; i < n * each; i++)
            v[i] = direct_load(b, k, s->view[0], at, (int64_t)offset[i / each] * k->step[0] + i % each);
        for (int i = 0; i < n * each; i++)
            v[i] = direct_convert(b, k->sum, v[i]);
        for (int j = 0; j < places; j++)
            for (int u = 0; u < k->outputs; u++)
                for (int t = 0; t < taps; t++) {
                    TileRef *to = &sum[(u * k->lines + r) * taps + t];
                    *to = direct_fma(b, c[j * k->outputs + u], v[met[j * taps + t] * each + (k->pairs ? u : 0)], *to);
                }
    }
}

/* Places of one line from lo to hi, so many at once. x, y: those of place 0. */
static bool add_run(TileBuilder *b, const DirectKind *k, const Share *s, int places, TileRef lo, TileRef hi, TileRef x, TileRef y, TileRef *sum)
{
    int n = k->outputs * k->lines * k->taps[D_PLACE];
    DirectLoop l;
    TileRef i = direct_loop(b, &l, lo, hi, places, sum, n);

    if (!i.node)
        return false;
    x = direct_add(b, x, number_times(b, i, (int64_t)k->stride[D_PLACE] * k->step[0]));
    y = direct_add(b, y, number_times(b, i, k->step[1]));
    add_places(b, k, s, places, x, y, sum);
    return direct_loop_end(b, &l, sum, n);
}

/* The steps of a chunk that are in line `row` of all lines. */
static bool add_row(TileBuilder *b, const DirectKind *k, const Share *s, TileRef row, TileRef from, TileRef to, TileRef *sum)
{
    TileRef w = direct_size(b, D_W), h = direct_size(b, D_H), before = direct_times(b, row, w), zero = build_number(b, 0);
    TileRef lo = direct_max(b, build_add2(b, TOP_isub, from, before), zero), hi = build_add2(b, TOP_imin, build_add2(b, TOP_isub, to, before), w);
    TileRef line = build_add2(b, TOP_imod, row, h), image = build_add2(b, TOP_idiv, row, h), x, y, whole;

    y = direct_add(b, s->y, direct_times(b, line, direct_step(b, k, D_YH)));
    x = direct_times(b, number_times(b, line, k->stride[D_LINE]), direct_step(b, k, D_XH));
    if (k->deep) {
        TileRef d = direct_size(b, D_D), depth = build_add2(b, TOP_imod, image, d);
        image = build_add2(b, TOP_idiv, image, d);
        y = direct_add(b, y, direct_times(b, depth, direct_step(b, k, D_YD)));
        x = direct_add(b, x, direct_times(b, number_times(b, depth, k->stride[D_DEPTH]), direct_step(b, k, D_XD)));
    }
    y = direct_add(b, y, direct_times(b, image, direct_step(b, k, D_YN)));
    x = direct_add(b, x, direct_times(b, image, direct_step(b, k, D_XN)));
    if (k->places == 1)
        return add_run(b, k, s, 1, lo, hi, x, y, sum);
    whole = build_add2(b, TOP_isub, hi, lo);
    whole = direct_add(b, lo, number_times(b, direct_over(b, whole, k->places), k->places));
    return add_run(b, k, s, k->places, lo, whole, x, y, sum) && add_run(b, k, s, 1, whole, hi, x, y, sum);
}

static bool store_taps(TileBuilder *b, const DirectKind *k, const Share *s, const TileRef *sum)
{
    int taps = k->taps[D_PLACE];
    TileRef o = direct_size(b, D_O), part = direct_add(b, direct_times(b, s->chunk, direct_size(b, D_C)), s->channel), at;
    DirectLoop l;

    for (int r = 0; r < k->lines; r++) {
        TileRef tap = direct_plus(b, s->tap, r);        /* the last lanes have some lines that others have, too */
        if (!direct_if(b, &l, build_add2(b, TOP_ilt, s->wanted, direct_plus(b, tap, 1))))
            return false;
        at = direct_add(b, number_times(b, part, lines_of(k)), tap);
        at = number_times(b, at, taps);
        for (int t = 0; t < taps; t++) {
            TileRef to = direct_add(b, direct_times(b, direct_plus(b, at, t), o), s->first);
            for (int u = 0; u < k->outputs; u++)
                if (!direct_store(b, k, s->view[2], to, (int64_t)u * direct_apart(k), sum[(u * k->lines + r) * taps + t]))
                    return false;
        }
        if (!direct_else(b, &l, NULL, 0) || !direct_end_if(b, &l, NULL, 0))
            return false;
    }
    return true;
}

bool direct_build_kernel(TileBuilder *b, const DirectKind *k)
{
    const int8_t flat[1] = {1};
    int n = k->outputs * k->lines * k->taps[D_PLACE];
    TileRef from, to, lo, hi, row, out, sum[DIRECT_SUMS];
    DirectLoop l, rows;
    Share s;

    s.view[0] = far_view(b, "x", (DType)k->dt, 1, flat);
    s.view[1] = far_view(b, "cotangent", (DType)k->dt, 1, flat);
    s.view[2] = far_view(b, "parts", (DType)k->out, 1, flat);
    if (!begin_share(b, k, &s))
        return false;
    out = build_add2(b, TOP_isub, s.chunk, direct_size(b, D_CHUNKS));
    out = direct_max(b, out, build_add2(b, TOP_isub, s.first, direct_size(b, D_O)));
    if (!direct_if(b, &l, build_add2(b, TOP_ilt, out, build_number(b, 0))))
        return false;
    from = build_times(b, s.chunk, CHUNK);
    to = build_add2(b, TOP_imin, direct_plus(b, from, CHUNK), direct_size(b, D_STEPS));
    lo = build_add2(b, TOP_idiv, from, direct_size(b, D_W));
    hi = direct_plus(b, build_add2(b, TOP_idiv, direct_plus(b, to, -1), direct_size(b, D_W)), 1);
    for (int i = 0; i < n; i++)
        sum[i] = direct_zero(b, k);
    row = direct_loop(b, &rows, lo, hi, 1, sum, n);
    return row.node && add_row(b, k, &s, row, from, to, sum) && direct_loop_end(b, &rows, sum, n) && store_taps(b, k, &s, sum) &&
           direct_else(b, &l, NULL, 0) && direct_end_if(b, &l, NULL, 0);
}
