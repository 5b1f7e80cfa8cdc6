/*
 * Convolutions on GPUs by threads that have some outputs each (far_direct.h): which are done so, operands, and how much a lane has.
 */
#include "ir/schedule/far_direct.h"
#include "ir/schedule/far_product.h"

#include "base/ints.h"
#include "runtime/gpu_device.h"
#include "runtime/kernel_util.h"

#include <string.h>

enum { PLACES_MOST = 16, LINES_MOST = 8, THREADS = 132 * 1024 };      /* threads: so many keep the chip busy */

static int axis_of_image(int i) { return DEPTH + i; }
static int64_t groups_of(const FarConv *v) { return v->a->m > 1 ? v->a->m : 1; }

/* ---- what kernels are for ---- */

static bool kind_of(const FarConv *v, bool by_kernel, DirectKind *k)
{
    int64_t taps = 1;

    memset(k, 0, sizeof *k);
    k->dt = v->w->dtype;
    k->sum = k->dt == DT_f64 ? DT_f64 : DT_f32;
    k->out = by_kernel ? k->sum : v->y->dtype;
    k->by_kernel = by_kernel;
    k->beside = 1;
    k->deep = v->a->n == SPATIAL;
    k->grouped = v->a->m > 1;
    for (int i = 0; i < SPATIAL; i++) {
        int own = i - (SPATIAL - v->a->n);
        ConvAxis one = {.taps = 1, .out = 1, .step = 1, .apart = 1, .tap_each = 1, .window = 1};
        const ConvAxis *p = own < 0 ? &one : &v->axis[own];
        int64_t n = by_kernel ? p->out : p->taps, each = by_kernel ? p->step : p->apart, stride = by_kernel ? p->apart : p->step;
        if (n > INT8_MAX || p->start > INT16_MAX || p->start < INT16_MIN || each > INT8_MAX || stride > INT8_MAX || p->tap_each > INT8_MAX)
            return false;
        k->taps[i] = (int16_t)n, k->each[i] = (int16_t)each, k->stride[i] = (int16_t)stride, k->start[i] = (int16_t)p->start;
        k->tap[i] = (int16_t)p->tap, k->tap_each[i] = (int16_t)p->tap_each, k->window[i] = by_kernel ? 1 : (int16_t)p->window;
        taps *= by_kernel ? 1 : p->window;
    }
    return k->taps[D_PLACE] <= DIRECT_TAPS && taps <= INT16_MAX;
}

/* Lanes along so many outputs: as many of a group's as have some. What a warp has side by side, of at least 32, is read and written best. */
static int lanes_for(int64_t outputs)
{
    static const struct { int16_t lanes, worth; } ways[] = {{32, 100}, {64, 100}, {48, 98}, {80, 98}, {96, 98}, {112, 98}, {128, 98}, {24, 92},
                                                            {16, 90}, {8, 80}, {4, 70}, {2, 60}, {1, 50}};
    double most = 0;
    int best = 1;

    for (int i = 0; i < (int)(sizeof ways / sizeof *ways); i++) {
        int lanes = ways[i].lanes;
        double used = (double)outputs / (double)round_up(outputs, lanes) * ways[i].worth;
        if (used <= most)
            continue;
        most = used;
        best = lanes;
    }
    return best;
}

/* May a lane have so many outputs, which are of one group? */
static bool may_have(const DirectKind *k, int outputs, int64_t all, int64_t group)
{
    return outputs == 1 || k->pairs || (all % (k->lanes * outputs) == 0 && (!k->grouped || group % (k->lanes * outputs) == 0));
}

/* Instructions for so many steps, and elements that are loaded for them; loads wait for each other more than others do. */
static double instructions(const DirectKind *k, int64_t steps, int64_t loads)
{
    const double load = 1.5, rest = 12;

    return (double)steps * (k->sum == DT_f64 ? 2 : 1) + (double)loads * (load + (k->sum != k->dt)) + rest;
}

static const double MANY = 96;          /* registers, of which so many leave room for half as many lanes */
static double at_once(double threads) { return threads < THREADS ? THREADS : threads; }

/* What one line takes of a lane that has so many at once, k->beside, of n offsets. */
static double line_takes(const DirectKind *k, int n)
{
    int64_t taps = (int64_t)k->taps[D_LINE] * k->taps[D_PLACE], steps = taps * k->places * k->outputs, lines = 0;

    if (k->beside == 1)
        return k->taps[D_LINE] * instructions(k, steps / k->taps[D_LINE], n + k->outputs * k->taps[D_PLACE]);
    for (int at = 0; at <= (k->taps[D_LINE] - 1) * k->each[D_LINE] + (k->beside - 1) * k->stride[D_LINE]; at++)
        lines += direct_line_is_met(k, at);
    return instructions(k, steps * k->beside, lines * n + taps * k->outputs) / k->beside;
}

/* Sums, elements of a line, and taps that are kept for another line. */
static double registers(const DirectKind *k, int n)
{
    int kept = k->beside > 1 ? (k->beside - 1) * k->stride[D_LINE] / k->each[D_LINE] + 1 : 0;

    return k->beside * k->outputs * k->places + n * (k->pairs ? 2 : 1) + kept * k->outputs * k->taps[D_PLACE];
}

/* May a lane have so many lines at once? All their steps are written out. */
static bool may_be_beside(const DirectKind *k, int most, int64_t lines)
{
    enum { STEPS = 2048 };

    return k->beside == 1 || (!k->broken && lines % k->beside == 0 && k->beside * k->outputs * k->places <= most &&
                              k->taps[D_LINE] * k->taps[D_PLACE] <= DIRECT_TAPS &&
                              k->taps[D_LINE] * k->taps[D_PLACE] * k->beside * k->outputs * k->places <= STEPS);
}

/* Lines one after the other, if there are enough without. */
static int16_t lines_in_turn(const DirectKind *k, int64_t lines, double threads)
{
    int16_t n = LINES_MOST;

    while (lines % (n * k->beside) || (n > 1 && threads / n < 2 * THREADS))
        n--;
    return n;
}

/* Outputs, places and lines of a lane, by what they take. false: windows are too far apart. */
static bool choose_places(DirectKind *k, const Image *y, int64_t group)
{
    int most = k->sum == DT_f64 || k->broken ? DIRECT_SUMS / 2 - 4 : DIRECT_SUMS - 8, each = k->pairs ? 2 : 1;
    int64_t rows = y->extent[IMAGE] * y->extent[DEPTH] * y->extent[LINE];
    int16_t offset[DIRECT_VALUES], met[DIRECT_VALUES * DIRECT_TAPS];
    DirectKind best = *k, way = *k;
    double least = 0;

    for (way.outputs = k->pairs ? 2 : OUTPUTS_MOST; way.outputs > (k->pairs ? 1 : 0); way.outputs /= 2)
        for (way.places = 1; way.places <= PLACES_MOST && way.places * way.outputs <= most; way.places++)
            for (way.beside = 1; way.beside <= 4; way.beside *= 2) {
                int n = direct_offsets(&way, way.places, offset, met);
                double lanes = (double)round_up(blocks(y->extent[CHANNEL], way.outputs), way.lanes);
                double threads = (double)rows / way.beside * (double)blocks(y->extent[PLACE], way.places) * lanes, all;
                if (n * each > DIRECT_VALUES - 12 || !may_have(&way, way.outputs, y->extent[CHANNEL], group) ||
                    !may_be_beside(&way, most, y->extent[LINE]))
                    continue;
                all = line_takes(&way, n) * way.beside * at_once(threads) * (1 + registers(&way, n) / MANY);
                if (least > 0 && all >= least)
                    continue;
                least = all;
                way.lines = lines_in_turn(&way, y->extent[LINE], threads);
                best = way;
            }
    *k = best;
    k->whole = least > 0 && y->extent[PLACE] % k->places == 0;
    return least > 0;
}

/* The same of the derivative by the kernel, and lines of taps. */
static bool choose_taps(DirectKind *k, const Image *y, int64_t group, int64_t channels, int64_t chunks)
{
    int most = k->sum == DT_f64 ? DIRECT_SUMS / 2 - 4 : DIRECT_SUMS - 8, taps = k->taps[D_PLACE], lines = k->taps[D_DEPTH] * k->taps[D_LINE];
    int each = k->pairs ? 2 : 1;
    int16_t offset[DIRECT_VALUES], met[DIRECT_VALUES * DIRECT_TAPS];
    int64_t width = y->extent[PLACE];
    DirectKind best = *k;
    double least = 0;

    for (int outputs = k->pairs ? 2 : OUTPUTS_MOST; outputs > (k->pairs ? 1 : 0); outputs /= 2)
        for (int some = 1; some <= lines && some * outputs * taps <= most && may_have(k, outputs, y->extent[CHANNEL], group); some++)
            for (int places = 1; places <= 8 && places <= width; places++) {
                int n = direct_offsets(k, places, offset, met);
                double one = instructions(k, (int64_t)outputs * some * taps, outputs + some * taps);
                double run = instructions(k, (int64_t)places * outputs * some * taps, places * outputs + some * n);
                double step = ((double)(width / places) * run + (double)(width % places) * one) / (double)width + (places - 1) * one / CHUNK;
                double threads = (double)(chunks * channels * blocks(lines, some) * round_up(blocks(y->extent[CHANNEL], outputs), k->lanes));
                double all = step * at_once(threads) * (1 + (outputs * (some * taps + places) + n * each) / MANY);
                if (n * each > DIRECT_VALUES - 12 || outputs * places > DIRECT_SUMS || (least > 0 && all >= least))
                    continue;
                least = all;
                best.outputs = (int16_t)outputs, best.places = (int16_t)places, best.lines = (int16_t)some;
            }
    *k = best;
    return least > 0;
}

/* ---- launches ---- */

/* Elements from the first to the last, which lie at no negative steps. */
static int64_t reach_of(const Image *m)
{
    int64_t last = 0;

    for (int i = 0; i < AXES; i++)
        last += (m->extent[i] - 1) * m->step[i];
    return last + 1;
}

static bool lies_forward(const Image *m)
{
    for (int i = 0; i < AXES; i++)
        if (m->extent[i] > 1 && (m->step[i] < 0 || m->step[i] > INT32_MAX))
            return false;
    return true;
}

/* Its elements as a view of one axis. false: a fault. */
static bool flat(const Image *m, int device, bool write, TileArg *arg)
{
    char *base = far_address(m->t, device, write, false);

    *arg = (TileArg){.base = base ? base + m->offset * (dtype_info[m->t->dtype].sbits / 8) : NULL, .extent = {reach_of(m)}, .stride = {1}};
    return base;
}

static void put_steps(const Image *x, const Image *y, int64_t *sizes)
{
    sizes[D_N] = y->extent[IMAGE], sizes[D_D] = y->extent[DEPTH], sizes[D_H] = y->extent[LINE], sizes[D_W] = y->extent[PLACE];
    sizes[D_O] = y->extent[CHANNEL];
    sizes[D_XN] = x->step[IMAGE], sizes[D_XC] = x->step[CHANNEL], sizes[D_XD] = x->step[DEPTH], sizes[D_XH] = x->step[LINE];
    sizes[D_YN] = y->step[IMAGE], sizes[D_YD] = y->step[DEPTH], sizes[D_YH] = y->step[LINE];
    sizes[D_HD] = x->extent[DEPTH], sizes[D_HH] = x->extent[LINE], sizes[D_HW] = x->extent[PLACE];
    sizes[D_LINES] = sizes[D_STRIPS] = sizes[D_CHUNKS] = sizes[D_STEPS] = 1;
}

/* ---- sums of places ---- */

static int launch_places(const FarConv *v, const DirectKind *k, const Image *x, const Image *w, const Image *y, int64_t *sizes)
{
    int device = (int)x->t->store->device;
    FarKernel *f = direct_kernel(k);
    TileArg arg[3];

    if (!f->code)
        return 0;
    if (!flat(x, device, false, &arg[0]) || !flat(w, device, false, &arg[1]) || !flat(y, device, true, &arg[2]))
        return -1;
    return far_launcher(f->code, f->tile, device, sizes, arg, v->T->span);
}

static bool are_even(const Image *m)
{
    for (int i = 0; i < CHANNEL; i++)
        if (m->extent[i] > 1 && m->step[i] % 2)
            return false;
    return m->offset % 2 == 0 && m->step[CHANNEL] == 1;
}

/* Two channels of 16 bits, each of which is for itself, are loaded as one element of 32. */
static bool may_be_pairs(const DirectKind *k, const Image *x, const Image *y, int64_t group)
{
    return k->grouped && !k->inputs && group == 1 && raw_size((DType)k->dt) == 2 && y->extent[CHANNEL] % 2 == 0 && are_even(x) && are_even(y);
}

/* Operands as kernels take them, and what a lane has of the result. As RunPhase. */
static int begin_places(const FarConv *v, DirectKind *k, Image *x, Image *w, const Image *y, int64_t group)
{
    static const Edges none;
    int64_t outputs = y->extent[CHANNEL];
    bool apart;

    k->inputs = w->extent[IMAGE] > 1;
    k->broken = w->extent[IMAGE] * k->taps[D_DEPTH] * k->taps[D_LINE] * k->taps[D_PLACE] > CHUNK;
    k->lanes = (int16_t)lanes_for(outputs);
    apart = k->grouped && group % k->lanes && x->step[CHANNEL] != 1;           /* what lanes read is to lie side by side */
    if ((apart || !lies_forward(x)) && !image_lay(v->T, x, &none, 1))
        return -1;
    k->pairs = may_be_pairs(k, x, y, group);
    if (k->pairs)
        k->lanes = (int16_t)lanes_for(outputs / 2);
    if (!choose_places(k, y, group))
        return 0;
    return image_lay(v->T, w, &none, 1) ? 1 : -1;
}

/* As RunPhase; the kernel is seen with its channels as images, and its outputs as channels. */
static int run_places(const FarConv *v, Image x, Image w, const Image *y)
{
    int64_t sizes[D_SIZES], group = y->extent[CHANNEL] / groups_of(v);
    DirectKind k;
    int done = kind_of(v, false, &k) ? begin_places(v, &k, &x, &w, y, group) : 0;

    if (done == 1) {
        k.step[0] = (int32_t)x.step[PLACE], k.step[1] = (int32_t)y->step[PLACE], k.step[2] = (int32_t)w.step[PLACE];
        put_steps(&x, y, sizes);
        sizes[D_STRIPS] = blocks(y->extent[PLACE], k.places);
        sizes[D_LINES] = y->extent[LINE] / k.lines / k.beside;
        sizes[D_BLOCKS] = blocks(y->extent[CHANNEL], (int64_t)k.lanes * k.outputs);
        sizes[D_C] = w.extent[IMAGE];
        sizes[D_GROUP] = group;
        done = launch_places(v, &k, &x, &w, y, sizes);
    }
    image_done(&x);
    image_done(&w);
    return done;
}

/* ---- the derivative by the kernel ---- */

/*
 * The image with zeros as far as taps reach, in which channels of groups lie side by side, then those of a group: x is
 * [channels, groups * images, ...].  start is then from there. NULL: something failed.
 */
static Tensor *lay_image(const FarConv *v, Tensor *x, const Image *y, DirectKind *k)
{
    int64_t groups = groups_of(v), extent[SPATIAL + 3] = {x->shape[1] / groups}, step[SPATIAL + 3] = {x->stride[1]};
    Attr a = attr_default();
    int n = v->a->n, nout = 0;
    Tensor *t, *out[4];
    bool any = false;

    a.nd[0] = a.nd[1] = (uint8_t)(n + 3);
    memset(a.d, 0, sizeof *a.d * 2);
    for (int i = 0; i < n; i++) {
        int axis = SPATIAL - n + i;
        int64_t first = k->start[axis], places = y->extent[axis_of_image(axis)];
        int64_t last = first + (places - 1) * k->stride[axis] + (int64_t)(k->taps[axis] - 1) * k->each[axis];
        extent[1 + i] = x->shape[2 + i];
        step[1 + i] = x->stride[2 + i];
        a.d[0][1 + i] = first < 0 ? -first : 0;
        a.d[1][1 + i] = last >= extent[1 + i] ? last - extent[1 + i] + 1 : 0;
        any = any || a.d[0][1 + i] || a.d[1][1 + i];
        k->start[axis] = (int16_t)(first < 0 ? 0 : first);
    }
    extent[n + 1] = x->shape[0], step[n + 1] = x->stride[0];
    extent[n + 2] = groups, step[n + 2] = x->stride[1] * extent[0];
    t = tensor_view(x, n + 3, extent, step, x->offset);
    if (t && any) {
        bool ok = op_dispatch(v->T, OP_pad, &a, &t, 1, out, &nout);
        tensor_unref(t);
        t = ok ? out[0] : NULL;
    }
    out[0] = t ? tensor_contiguous(t) : NULL;
    tensor_unref(t);
    return out[0];
}

/* That as an image whose channels are those of a group. Takes t over. */
static Image image_laid(Tensor *t, int n)
{
    Image m = {.t = t, .offset = t->offset, .extent = {t->shape[0], 1, 1, 1, t->shape[n + 1]}, .step = {t->stride[0], 0, 0, 0, t->stride[n + 1]}};

    for (int i = 0; i < n; i++) {
        int axis = CHANNEL - n + i;
        m.extent[axis] = t->shape[1 + i];
        m.step[axis] = t->stride[1 + i];
    }
    if (n < 2)
        m.step[LINE] = 0;
    return m;
}

static bool has_room(const Tensor *x, int64_t elements)
{
    enum { PART = 8 };
    const GpuDevice *g = gpu_look((int)x->store->device - 1);

    return g && elements < (int64_t)(g->memory / PART / 4);
}

/* Sums of chunks, then theirs, as [channels, depths, lines, places, outputs]. As RunPhase. */
static int sum_chunks(const FarConv *v, const DirectKind *k, const Image *x, const Image *y, int64_t *sizes, Tensor **sum)
{
    int device = (int)x->t->store->device;
    int64_t shape[AXES + 1] = {sizes[D_CHUNKS], x->extent[CHANNEL], k->taps[D_DEPTH], k->taps[D_LINE], k->taps[D_PLACE], y->extent[CHANNEL]};
    Tensor *parts = tensor_new((DType)k->sum, AXES + 1, shape);
    FarKernel *f = direct_kernel(k);
    TileArg arg[3];
    int done = f->code ? -1 : 0;

    *sum = tensor_new((DType)v->y->dtype, AXES, shape + 1);
    if (f->code && parts && *sum && far_flat(x->t, device, false, x->offset, &arg[0]) && flat(y, device, false, &arg[1]) &&
        far_flat(parts, device, true, parts->offset, &arg[2]))
        done = far_launcher(f->code, f->tile, device, sizes, arg, v->T->span);
    if (done == 1)
        done = far_join_parts(parts, *sum, device);
    tensor_unref(parts);
    if (done != 1) {
        tensor_unref(*sum);
        *sum = NULL;
    }
    return done;
}

/* As begin_places; y: the cotangent, of which outputs come to lie side by side; *laid: the image. */
static bool begin_taps(const FarConv *v, DirectKind *k, Tensor *x, Image *y, int64_t chunks, Tensor **laid)
{
    int64_t outputs = y->extent[CHANNEL], group = outputs / groups_of(v), channels = x->shape[0];
    static const Edges none;

    k->inputs = channels > 1;
    if (!((y->step[CHANNEL] == 1 && lies_forward(y)) || image_lay(v->T, y, &none, 1)))
        return false;
    k->pairs = may_be_pairs(k, y, y, group);
    k->lanes = (int16_t)lanes_for(k->pairs ? outputs / 2 : outputs);
    *laid = choose_taps(k, y, group, channels, chunks) ? lay_image(v, x, y, k) : NULL;
    return *laid;
}

/* x is [channels, groups * images, ...], v's kernel the cotangent, [outputs, images, ...]. NULL: it is not done so. */
static Tensor *by_kernel(const FarConv *v, Tensor *x)
{
    Image y = image_of((Tensor *)v->w, 1, 0), m;
    int64_t sizes[D_SIZES], steps = y.extent[IMAGE] * y.extent[DEPTH] * y.extent[LINE] * y.extent[PLACE], chunks = blocks(steps, CHUNK);
    Tensor *laid, *sum = NULL;
    DirectKind k;

    if (kind_of(v, true, &k) && has_room(x, chunks * x->shape[0] * k.taps[0] * k.taps[1] * k.taps[2] * y.extent[CHANNEL]) &&
        begin_taps(v, &k, x, &y, chunks, &laid)) {
        m = image_laid(laid, v->a->n);
        k.step[0] = (int32_t)m.step[PLACE], k.step[1] = (int32_t)y.step[PLACE];
        put_steps(&m, &y, sizes);
        sizes[D_CHUNKS] = chunks;
        sizes[D_STEPS] = steps;
        sizes[D_BLOCKS] = blocks(y.extent[CHANNEL], (int64_t)k.lanes * k.outputs) * blocks((int64_t)k.taps[D_DEPTH] * k.taps[D_LINE], k.lines);
        sizes[D_C] = x->shape[0];
        sizes[D_GROUP] = y.extent[CHANNEL] / groups_of(v);
        sum_chunks(v, &k, &m, &y, sizes, &sum);
        image_done(&m);
    }
    image_done(&y);
    return sum ? windows_result(v, sum, false) : NULL;
}

/*
 * Is it so that products take longer? Those of groups have to have windows laid out, for few steps each. Of one group that is worth it for results
 * that meet many elements; but not for the derivative by the kernel, whose windows are large, nor for the first layers of nets.
 */
static bool fits(const FarConv *v, bool by_kernel)
{
    enum { FEW = 32, SIDE = 16 };
    int64_t meets = by_kernel ? v->y->shape[0] : v->w->shape[1], taps = 1;

    for (int i = 0; i < v->a->n; i++)
        taps *= by_kernel ? v->axis[i].out : v->axis[i].window;
    if (v->a->m > 1)
        return meets <= FEW;
    if (v->y->dtype != DT_f32 || v->w->dtype != DT_f32 || taps == 1 || product_slack(v->a))
        return false;
    return by_kernel || (taps * meets <= CHUNK && v->y->shape[1] >= SIDE);
}

Tensor *far_direct(FarConv *v, const ConvSpread *d, Tensor *x)
{
    bool derivative = windows_by_kernel(v, d);

    if (!fits(v, derivative))
        return NULL;
    if (derivative)
        return by_kernel(v, x);
    return windows_sums(v, d, image_of(x, 0, 1), image_of((Tensor *)v->w, 1, 0), run_places);
}
