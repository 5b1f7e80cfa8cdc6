/*
 * Convolutions, as matrix products: a kernel [O, C * taps] times the windows of its input, one a column.
 *
 * y[b, o, p] sums w[o, c, t] * x[b, c, (p * stride - before + t * dilation) / spread] over (c, t), in gemm's order of that row; places
 * outside the input are zero.  Where the input is spread, a tap between its elements meets nothing and is no part of the
 * sum: which taps meet some depends on p modulo spread / gcd64(stride, spread) only, so places fall into phases, each a convolution of fewer taps
 * without a spread (Shi et al., 2016, "Is the deconvolution layer the same as a convolutional layer?").
 *
 * A thread takes a span of output places at a time, writes their windows (conv_windows.c), some rows of them at a time, and multiplies these
 * (gemm_here), whose chunks of steps are added up as if they were all there.  Where windows are columns and the kernel has few rows, as in
 * derivatives by the kernel, the turned product is computed, which reads windows as they lie.
 * A kernel of one tap that moves nothing reads the input where it lies.  Where an image has few places, a span has
 * several images, so that the kernel is read for many columns.  Few rows of f32 are multiplied without windows (conv_flat.c), and
 * many groups of few channels go another way (conv_groups.c).
 */
#include "runtime/conv_impl.h"

#include "runtime/cpu.h"
#include "runtime/gemm.h"

#include <string.h>

enum {
    WINDOWS = 1 << 18,          /* elements of windows in a span, */
    COLUMNS = 512,              /* or more, for so many columns; images of fewer places are taken together. But */
    WINDOWS_MOST = 1 << 22,     /* not more than so many, where they are all multiplied at once, */
    COLUMNS_LEAST = 64,         /* unless it is for so few columns */
    NEAR = 1 << 17,             /* that are multiplied at once, while the second cache has them, or more, for one chunk of steps */
    TURNED = 128,               /* rows of the kernel that are columns of the product instead, if there are more places: windows need no packing */
    LIES_FROM = 128,            /* places of an image: of fewer, several are copied to be multiplied together */
    LIES_KERNEL = 1 << 18,      /* by a kernel of so many elements, which is read anew for each product */
    ALONE = 1 << 17,            /* products that are not worth a second thread */
};

static bool is_plain(const Conv *v) { return v->accum != DT_f32 && v->accum != DT_f64; }

/* ---- results ---- */

int64_t conv_place(const Conv *v, int64_t line)
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

/* Of images of one place each, side by side in rows. */
static void turn_sums(const Conv *v, const Span *s, const char *sums)
{
    const GemmTiles *t = v->accum == DT_f32 ? &cpu()->gemm->f32 : &cpu()->gemm->f64;

    t->turn(sums, s->columns, v->o, s->columns, v->y + s->from * v->o * v->size, v->o);
}

/* Sums of a span, row by row, become elements of the result. */
static void spread_sums(const Conv *v, const Span *s, const char *sums)
{
    if (v->whole && v->image == 1 && !v->turned && v->groups == 1 && !is_plain(v)) {
        turn_sums(v, s, sums);
        return;
    }
    const ConvAxis *x = &v->axis[v->n - 1];
    int64_t width = s->end - s->at, size = v->size;

    for (int64_t l = s->from; l < s->to; l++) {
        int64_t place = conv_place(v, l % v->lines) + s->at * x->each;
        for (int64_t o = 0; o < v->o; o++) {
            char *to = v->y + ((l / v->lines * v->groups * v->o + s->group * v->o + o) * v->image + place) * size;
            const char *from = sums + (v->turned ? (l - s->from) * width * v->o + o : o * s->columns + (l - s->from) * width) * size;
            conv_copy_apart(to, x->each, from, v->turned ? v->o : 1, width, size);
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

static bool is_direct(const Conv *v) { return v->whole && (v->turned ? v->image == 1 : !v->joined); }

/* The product of the turned matrices, which is the turned one, with the same bits. */
static void turn(Gemm *g)
{
    Gemm was = *g;

    g->m = was.n, g->n = was.m;
    g->a = was.b, g->arow = was.bcol, g->acol = was.brow;
    g->b = was.a, g->brow = was.acol, g->bcol = was.arow;
    g->crow = g->n;
}

/* The windows' rows from k on; before them there are `skipped` more. */
static Gemm span_gemm(const Conv *v, const Span *s, int64_t k, int64_t skipped, char *windows, char *sums)
{
    const char *w = v->own ? storage_data(v->own) : v->w;
    Gemm g = {.accum = v->accum, .batch = 1, .m = v->o, .n = s->columns, .k = least(v->k - k, v->block), .more = k > 0};

    g.arow = v->own ? v->k : v->wrow;
    g.acol = v->own || v->taps > 1 ? 1 : v->wchannel;
    g.a = w + (s->group * v->o * g.arow + k * g.acol) * v->size;
    if (v->lies) {
        const ConvAxis *x = &v->axis[v->n - 1];
        g.b = v->x + (s->from / v->lines * v->xbatch + s->group * v->c * v->xchannel + (s->from % v->lines * v->line + s->at) * x->xstride) * v->size;
        g.brow = v->xchannel;
        g.bcol = x->xstride;
    } else {
        g.brow = v->columns ? 1 : s->columns;
        g.bcol = v->columns ? v->kept : 1;
        g.b = windows + skipped * g.brow * v->size;
    }
    g.c = sums;
    g.crow = s->columns;
    if (v->turned)
        turn(&g);
    if (is_direct(v)) {
        g.c = v->y + ((s->from / v->lines * v->groups + s->group) * v->o * v->image + s->from % v->lines * v->line + s->at) * v->size;
        g.crow = v->turned ? v->groups * v->o : v->image;
    }
    return g;
}

static KStatus run_span(Conv *v, const Span *s, char *room)
{
    char *sums = room + v->windows_bytes;
    KStatus status = K_OK;

    for (int64_t k = 0; !k || k < v->k; k += v->block) {
        int64_t skipped = v->lies ? 0 : conv_write_windows(v, s, k, least(k + v->block, v->k), room, sums + v->sums_bytes);
        Gemm g = span_gemm(v, s, k, skipped, room, sums);
        if (is_plain(v))
            status = gemm_run(v->ctx, g);
        else
            gemm_here(&g, sums + v->sums_bytes + v->laid_bytes);
    }
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

static int64_t lines_of_cache(int64_t bytes) { return round_up(bytes, 64); }

/* All spans of the phase. */
static KStatus run_threads(Conv *v)
{
    int64_t columns = v->span_lines * v->span_places, threads = is_plain(v) || v->o * v->k * columns * v->spans < ALONE ? 1 : pool_threads();
    Storage *room;

    v->windows_bytes = v->lies ? 0 : lines_of_cache(columns * v->kept * v->size);
    v->sums_bytes = is_direct(v) ? 0 : lines_of_cache(columns * v->o * v->size);
    v->laid_bytes = lines_of_cache(conv_laid_bytes(v));
    v->room_bytes = v->windows_bytes + v->sums_bytes + v->laid_bytes + (is_plain(v) ? 0 : gemm_room_max());
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

static bool is_joined(const Conv *v) { return !v->lies && v->line * v->lines < COLUMNS && v->batch > 1; }

bool conv_is_direct(const Conv *v) { return v->whole && !v->columns && !is_joined(v); }

static void plan_spans(Conv *v)
{
    int64_t k = v->k + 1, columns = most(WINDOWS / k, COLUMNS), all, threads = pool_threads();

    v->joined = is_joined(v);
    all = v->lines * (v->joined ? v->batch : 1);
    if (v->lies)
        columns = v->line * v->lines;
    else if (is_plain(v))
        columns = most(least(columns, WINDOWS_MOST / k), COLUMNS_LEAST);
    if (threads > 1 && v->groups * (v->joined ? 1 : v->batch) < threads)        /* else there are spans for all */
        columns = least(columns, most(ceil_div(all * v->line, 2 * threads), COLUMNS_LEAST));
    v->span_lines = least(most(columns / most(v->line, 1), 1), most(all, 1));
    v->span_places = v->span_lines > 1 ? v->line : least(v->line, columns);
    v->units = v->joined ? 1 : v->batch;
    v->downs = ceil_div(all, v->span_lines);
    v->acrosses = ceil_div(v->line, v->span_places);
    columns = v->span_lines * v->span_places;
    v->block = v->lies || is_plain(v) ? most(v->k, 1) : most(NEAR / most(columns, 1) / GEMM_CHUNK, 1) * GEMM_CHUNK;
    v->kept = least(v->k, v->block + (v->columns ? 0 : 2 * conv_unit(v)));
    v->turned = v->columns && v->o <= least(columns, TURNED);
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
            memcpy(to, v->w + (row / v->c * v->wrow + row % v->c * v->wchannel + from) * v->size, (size_t)v->size);
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
    v->lies = lies_well(v) && (v->batch == 1 || v->line * v->lines >= LIES_FROM || v->o * v->k < LIES_KERNEL);
    if (!v->line || !v->lines)
        return K_OK;
    if (!take_taps(v))
        return K_NOMEM;
    if (v->beside && v->k) {
        s = conv_run_beside(v);
    } else if (conv_is_flat(v)) {
        s = conv_run_flat(v);
    } else {
        plan_spans(v);
        s = run_threads(v);
    }
    storage_unref(v->own);
    return s;
}

void conv_phase(ConvAxis *x, const ConvSpread *d, int64_t at)
{
    int64_t s = at * d->stride - d->before;

    x->each = d->spread / gcd64(d->stride, d->spread);
    x->tap_each = d->spread / gcd64(d->dilation, d->spread);
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

static Conv conv_of(KCtx *c, const Attr *a, const Tensor *x, const Tensor *w, DType accum)
{
    Conv v = {.n = (int)most(a->n, 2), .accum = accum, .size = (int64_t)raw_size((DType)x->dtype), .image = 1, .ctx = c};

    v.batch = x->shape[0];
    v.groups = a->m > 0 ? a->m : 1;
    v.c = w->shape[1];
    v.o = w->shape[0] / v.groups;
    v.beside = conv_is_beside(&v);
    return v;
}

static KStatus conv_run(Conv v, const Attr *a, const Tensor *x, const Tensor *w, Tensor *sum)
{
    int n = a->n, first = x->rank - n;
    ConvSpread d[RANK_MAX];

    v.xbatch = x->stride[first - 2];
    v.xchannel = x->stride[first - 1];
    v.wrow = w->stride[0];
    v.wchannel = w->stride[1];
    v.x = tensor_read(x);
    v.w = tensor_read(w);
    v.y = storage_data(sum->store);
    for (int k = 0, i = n - v.n; i < n; i++, k++) {
        v.axis[k] = (ConvAxis){.in = 1, .xstride = 1, .size = 1, .window = 1};      /* an axis that is not there: one place of one tap */
        d[k] = (ConvSpread){1, 0, 1, 1};
        if (i < 0)
            continue;
        v.axis[k] = (ConvAxis){.in = x->shape[first + i], .xstride = x->stride[first + i], .size = sum->shape[first + i], .window = w->shape[2 + i]};
        d[k] = conv_spread(a, i);
        v.image *= v.axis[k].size;
    }
    return v.batch && v.o ? run_phases(&v, d) : K_OK;
}

/* t with its elements side by side, or those of the last n axes; false: no memory. */
static bool whole(Tensor **t)
{
    Tensor *y = tensor_contiguous(*t);

    tensor_unref(*t);
    *t = y;
    return y;
}

static bool planes(Tensor **t, int n) { return conv_planes_lie(*t, n) || whole(t); }

/* The kernel, as products read it: of one tap it may be turned. */
static bool kernel(Tensor **t)
{
    const Tensor *w = *t;
    int64_t taps = 1;

    for (int i = 2; i < w->rank; i++)
        taps *= w->shape[i];
    return (taps == 1 && (w->stride[0] == 1 || w->stride[1] == 1)) || whole(t);
}

KStatus kernel_conv(KERNEL_ARGS)
{
    DType accum = accum_dtype(a, common_dtype(in[0], in[1]), (DType)type->dtype);
    Tensor *x = lanes_of(c, in[0], accum), *y = x ? lanes_of(c, in[1], accum) : NULL;
    TType lanes = *type;
    KStatus s = K_NOMEM;
    Tensor *sum = NULL;

    (void)op, (void)nin;
    lanes.dtype = (uint8_t)lane_dtype(accum);
    if (y) {
        Conv v = conv_of(c, a, x, y, accum);
        if (v.beside ? planes(&x, a->n) && planes(&y, a->n) : kernel(&y))
            sum = k_result(c, &lanes);
        if (sum)
            s = conv_run(v, a, x, y, sum);
    }
    tensor_unref(x);
    tensor_unref(y);
    if (s == K_OK)
        return sum_as(c, sum, type, out);
    tensor_unref(sum);
    return s == K_NOMEM ? k_no_memory(c, type) : s;
}
