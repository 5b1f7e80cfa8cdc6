/*
 * Images of convolutions by matrix units: as they lie where tensor copies can bring boxes of them, channels side by side; else as a copy that does.
 *
 * Results have their channels side by side too, whatever their operands have: a result is a view of that.  So a net of convolutions copies its
 * first image alone.
 *
 * Places that step by a stride are taken from phases of the image (far_windows.h).  Where lines and places of a line are whole numbers of strides,
 * the phases of one image are views of it, each box within one image; else a copy has all images of a phase one behind the other.
 *
 * Of the derivative by the kernel the steps are places, of which boxes have no more than there are: what lies beside them might be infinite.
 */
#include "ir/schedule/far_windows.h"

#include "base/ints.h"
#include "runtime/gpu_device.h"
#include "runtime/kernel_util.h"

#include <stdlib.h>
#include <string.h>

enum { PLACES = 132, ALIGNED = 16, UNIT = 8 };          /* processors of the chip of the figures; bytes, elements that axes are multiples of */
enum { IMAGE, LINE, PLACE, CHANNEL, AXES };

/* ---- operands ---- */

/* Its four axes: extents and steps. Axes that are not there have one place. */
typedef struct Image { Tensor *t; int64_t extent[AXES], step[AXES], offset; } Image;

static Image image_of(Tensor *t, int image, int channel)
{
    Image m = {.t = t, .offset = t->offset};
    int n = t->rank - 2;

    for (int i = 0; i < AXES; i++) {
        int own = i == IMAGE ? image : i == CHANNEL ? channel : 1 + i - (PLANE - n);
        bool there = own >= 2 || i == IMAGE || i == CHANNEL;
        m.extent[i] = there ? t->shape[own] : 1;
        m.step[i] = there ? t->stride[own] : 0;
    }
    return m;
}

static int64_t bytes_of(const Tensor *t) { return dtype_info[t->dtype].sbits / 8; }

/* Can tensor copies bring boxes of it as it lies, elements of `inner` side by side? */
static bool lies_well(const Image *m, int inner)
{
    int64_t bytes = bytes_of(m->t);
    bool well = m->offset * bytes % ALIGNED == 0;

    for (int i = 0; i < AXES; i++)
        well = well && (m->extent[i] == 1 || (i == inner ? m->step[i] == 1 : m->step[i] > 0 && m->step[i] * bytes % ALIGNED == 0));
    return well;
}

/* The tensor with these axes and steps. Takes it over; NULL stays NULL. */
static Tensor *seen(Tensor *t, int rank, const int64_t *extent, const int64_t *step, int64_t offset)
{
    Tensor *v = t ? tensor_view(t, rank, extent, step, offset) : NULL;

    tensor_unref(t);
    return v;
}

/* Zeros before and behind the last four axes, so many of each. Takes it over. */
static Tensor *padded(Trace *T, Tensor *t, const int64_t *before, const int64_t *behind)
{
    Attr a = attr_default();
    Tensor *out[4];
    bool any = false, ok;
    int n = 0;

    a.nd[0] = a.nd[1] = AXES;
    for (int i = 0; i < AXES; i++) {
        a.d[0][i] = before[i];
        a.d[1][i] = behind[i];
        any = any || before[i] || behind[i];
    }
    if (!t || !any)
        return t;
    ok = op_dispatch(T, OP_pad, &a, &t, 1, out, &n);
    tensor_unref(t);
    return ok ? out[0] : NULL;
}

/* Zeros around lines and places that a copy has, too. */
typedef struct Edges { int64_t before[PLANE], behind[PLANE]; } Edges;
static const Edges no_edges;
static const int16_t one_each[PLANE] = {1, 1};

/* A copy with the channels side by side, a multiple of UNIT of them, and, of strides, phase after phase. false: something failed. */
static bool lay(Trace *T, Image *m, const Edges *edges, const int16_t *stride, Tensor **kept)
{
    int64_t before[AXES] = {0}, behind[AXES] = {[CHANNEL] = round_up(m->extent[CHANNEL], UNIT) - m->extent[CHANNEL]};
    Tensor *t, *lies;

    for (int i = 0; i < PLANE; i++) {
        int64_t all = edges->before[i] + m->extent[LINE + i] + edges->behind[i];
        before[LINE + i] = edges->before[i];
        behind[LINE + i] = edges->behind[i] + round_up(all, stride[i]) - all;
    }
    t = padded(T, seen(tensor_ref(m->t), AXES, m->extent, m->step, m->offset), before, behind);

    if (!t)
        return false;
    int64_t extent[6] = {stride[0], stride[1], t->shape[IMAGE], t->shape[LINE] / stride[0], t->shape[PLACE] / stride[1], t->shape[CHANNEL]};
    int64_t step[6] = {t->stride[LINE], t->stride[PLACE], t->stride[IMAGE], t->stride[LINE] * stride[0], t->stride[PLACE] * stride[1],
                       t->stride[CHANNEL]};
    t = seen(t, 6, extent, step, t->offset);
    lies = t ? tensor_contiguous(t) : NULL;
    tensor_unref(t);
    if (!lies)
        return false;
    *kept = lies;
    m->t = lies;
    m->offset = lies->offset;
    m->extent[IMAGE] = extent[0] * extent[1] * extent[2];
    m->extent[LINE] = extent[3], m->extent[PLACE] = extent[4];
    m->step[CHANNEL] = 1;
    m->step[PLACE] = extent[5];
    m->step[LINE] = m->step[PLACE] * extent[4];
    m->step[IMAGE] = m->step[LINE] * extent[3];
    return true;
}

/* Phases of an image as it lies: steps along all of its axes are multiples of that of a place. */
static bool has_phases(const Image *m, const int16_t *stride)
{
    int64_t one = m->step[PLACE];

    return one && m->extent[PLACE] % stride[1] == 0 && m->extent[LINE] % stride[0] == 0 && m->extent[PLACE] > 1 && m->step[LINE] % one == 0 &&
           m->step[IMAGE] % one == 0;
}

/* The image as a kernel sees it, and how far along its first axis images and phases are apart. boxed: boxes are of one image. */
static bool see_image(Trace *T, Image *m, const int16_t *stride, bool boxed, int64_t *sizes, Tensor **kept)
{
    bool strides = stride[0] > 1 || stride[1] > 1;
    int64_t images = m->extent[IMAGE];

    sizes[W_XN] = 1;
    sizes[W_XH] = stride[1] * images;
    sizes[W_XW] = images;
    if (!lies_well(m, CHANNEL) || (strides && !boxed))
        return lay(T, m, &no_edges, stride, kept);
    if (!strides)
        return true;
    sizes[W_XW] = 1;
    sizes[W_XH] = m->step[LINE] / m->step[PLACE];
    sizes[W_XN] = m->step[IMAGE] / m->step[PLACE];
    m->extent[IMAGE] = sizes[W_XN] * (images - 1) + sizes[W_XH] * (stride[0] - 1) + stride[1];
    m->step[IMAGE] = m->step[PLACE];
    for (int i = 0; i < PLANE; i++) {
        m->extent[LINE + i] /= stride[i];
        m->step[LINE + i] *= stride[i];
    }
    return true;
}

static bool argument(const Image *m, int device, bool write, TileArg *arg)
{
    char *base = far_address(m->t, device, write, false);

    *arg = (TileArg){.base = base + m->offset * bytes_of(m->t)};
    memcpy(arg->extent, m->extent, sizeof m->extent);
    memcpy(arg->stride, m->step, sizeof m->step);
    return base;
}

/* ---- schedules ---- */

/* rate: of the units' limit, in hundredths, that the loop reaches; rest: clocks that are not under it. */
typedef struct Way { int16_t rows, columns; int8_t warps, sets, stages; int16_t rate, rest; } Way;
static const Way ways[] = {
    {128, 256, 8, 1, 3, 95, 1600}, {256, 128, 8, 1, 3, 95, 1600}, {128, 192, 4, 2, 0, 95, 700}, {128, 128, 4, 2, 0, 92, 500},
    {256, 64, 8, 1, 0, 80, 1000}, {128, 64, 4, 2, 0, 75, 400}, {64, 256, 4, 2, 0, 75, 500}, {64, 128, 4, 2, 0, 60, 400}, {64, 64, 4, 2, 0, 40, 300},
};
enum { WAYS = sizeof ways / sizeof *ways };

static int64_t blocks(int64_t n, int64_t by) { return (n + by - 1) / by; }

/* Clocks of so many tiles of so many rounds, of which the units take some and bringing operands others. */
static double clocks(const Way *w, int64_t tiles, double rounds, int steps)
{
    enum { MULTIPLIED = 2048, BROUGHT = 36, LATENCY = 100 };    /* a clock: products; bytes; of a round, at least */
    double unit = (double)w->rows * w->columns * steps / MULTIPLIED * 100 / w->rate, bring = (double)(w->rows + w->columns) * steps * 2 / BROUGHT;
    double round = unit > bring ? unit : bring;

    return (double)blocks(tiles, PLACES) * (rounds * (round > LATENCY ? round : LATENCY) + w->rest);
}

/*
 * A box of so many rows, powers of two along images, lines and places, that covers them with the fewest; images: so many of a box at most.
 * Returns how many boxes there are.
 */
static int64_t find_box(int rows, const int64_t *extent, int64_t images, int16_t *box)
{
    int64_t least = 0;

    for (int w = 1; w <= rows; w *= 2)
        for (int h = 1; w * h <= rows; h *= 2) {
            int n = rows / w / h;
            int64_t all = blocks(extent[IMAGE], n) * blocks(extent[LINE], h) * blocks(extent[PLACE], w);
            if (n > images || (least && all > least))
                continue;
            least = all;
            box[0] = (int16_t)n, box[1] = (int16_t)h, box[2] = (int16_t)w;
        }
    return least;
}

static void take(WindowKind *k, const Way *w, int steps, const int16_t *box)
{
    k->block[0] = w->rows, k->block[1] = w->columns, k->block[2] = (int16_t)steps;
    k->warps = w->warps, k->sets = w->sets, k->stages = w->stages;
    memcpy(k->box, box, sizeof k->box);
}

/* Of places: extents of the sums' images. Steps are some channels of a tap. Returns the clocks. */
static double choose_places(WindowKind *k, const int64_t *extent, int64_t images, int64_t outputs, int64_t channels)
{
    int64_t taps = k->taps[0] * k->taps[1];
    double least = 0;

    for (int i = 0; i < WAYS; i++)
        for (int steps = 64; steps >= 16; steps /= 2) {
            int16_t box[3];
            int64_t tiles = find_box(ways[i].rows, extent, images, box) * blocks(outputs, ways[i].columns);
            double all = clocks(&ways[i], tiles, (double)(taps * blocks(channels, steps)), steps);
            if (least && all >= least)
                continue;
            least = all;
            take(k, &ways[i], steps, box);
        }
    return least;
}

/* A box of places that are steps: lines and places that divide the sums' own, images that divide theirs where there are phases. Returns boxes. */
static int64_t find_steps(const int64_t *extent, int64_t images, bool whole, int16_t *box)
{
    enum { LEAST = 32, MOST = 80, MULTIPLE = 16 };
    double least = 0;

    for (int64_t w = 1; w <= MOST && w <= extent[PLACE]; w++)
        for (int64_t h = 1; w * h <= MOST && h <= extent[LINE]; h++)
            for (int64_t n = 1; w * h * n <= MOST && n <= images && !(extent[PLACE] % w || extent[LINE] % h); n++) {
                int64_t steps = w * h * n, all = blocks(extent[IMAGE], n) * (extent[LINE] / h) * (extent[PLACE] / w);
                double cost = (double)all * (double)(steps + MULTIPLE);
                if (steps % MULTIPLE || steps < LEAST || (whole && extent[IMAGE] % n) || (least > 0 && cost >= least))
                    continue;
                least = cost;
                box[0] = (int16_t)n, box[1] = (int16_t)h, box[2] = (int16_t)w;
            }
    return least > 0 ? blocks(extent[IMAGE], box[0]) * (extent[LINE] / box[1]) * (extent[PLACE] / box[2]) : 0;
}

/* Of the derivative by the kernel: so many parts of so many rounds. */
static bool choose_kernel(WindowKind *k, const int64_t *extent, int64_t images, bool whole, int64_t outputs, int64_t channels, int64_t *sizes)
{
    enum { PARTS = 64, JOINED = 2000, JOIN = 4000, ROUNDS = 4 };        /* bytes a clock; clocks; a part's, at least */
    int64_t taps = k->taps[0] * k->taps[1];
    double least = 0;
    int16_t box[3];

    sizes[W_ROUNDS] = find_steps(extent, images, whole, box);
    for (int i = 0; i < WAYS && sizes[W_ROUNDS]; i++)
        for (int64_t parts = 1; parts <= PARTS && parts * ROUNDS <= sizes[W_ROUNDS] + ROUNDS; parts++) {
            int64_t tiles = blocks(outputs, ways[i].rows) * taps * blocks(channels, ways[i].columns), each = blocks(sizes[W_ROUNDS], parts);
            double all = clocks(&ways[i], tiles * parts, (double)each, box[0] * box[1] * box[2]) + JOIN +
                         (double)(parts * outputs * taps * channels) * 8 / JOINED;
            if (least > 0 && all >= least)
                continue;
            least = all;
            take(k, &ways[i], box[0] * box[1] * box[2], box);
            sizes[W_PART] = each;
            sizes[W_PARTS] = blocks(sizes[W_ROUNDS], each);
        }
    return least > 0;
}

/* ---- one phase ---- */

static int number_of_axis(const FarConv *v, int i) { return i - (PLANE - v->a->n); }   /* of an axis of the plane, in v; negative: it is not there */

/* What the kernel has to know of axes. false: numbers that it has no room for. */
static bool kind_of(const FarConv *v, bool by_kernel, WindowKind *k)
{
    memset(k, 0, sizeof *k);
    k->dt = v->w->dtype;
    k->sum = k->dt == DT_f64 ? DT_f64 : DT_f32;
    k->out = by_kernel ? k->sum : v->y->dtype;
    k->by_kernel = by_kernel;
    for (int i = 0; i < PLANE; i++) {
        int own = number_of_axis(v, i);
        ConvAxis one = {.taps = 1, .out = 1, .step = 1, .apart = 1, .tap_each = 1};
        const ConvAxis *p = own < 0 ? &one : &v->axis[own];
        int64_t taps = by_kernel ? p->out : p->taps, each = by_kernel ? p->step : p->apart, stride = by_kernel ? p->apart : p->step;
        if (taps > INT8_MAX || p->start > INT16_MAX || p->start < INT16_MIN || each > INT8_MAX || stride > INT8_MAX || p->tap_each > INT8_MAX)
            return false;
        k->taps[i] = (int16_t)taps, k->each[i] = (int16_t)each, k->stride[i] = (int16_t)stride, k->start[i] = (int16_t)p->start;
        k->tap[i] = (int16_t)p->tap, k->tap_each[i] = (int16_t)p->tap_each;
    }
    return true;
}

/* Axes of the kernel that go backwards, as those of a derivative do, are counted from the other end. */
static void turn_back(Image *w, WindowKind *k)
{
    for (int i = 0; i < PLANE; i++)
        if (w->step[LINE + i] < 0 && w->extent[LINE + i] > 1) {
            w->offset += w->step[LINE + i] * (w->extent[LINE + i] - 1);
            w->step[LINE + i] = -w->step[LINE + i];
            k->tap[i] = (int16_t)(w->extent[LINE + i] - 1 - k->tap[i]);
            k->tap_each[i] = (int16_t)-k->tap_each[i];
        }
}

/* Boxes of one image for phases as they lie, unless a copy that has more images in a box is worth it. */
static double choose(WindowKind *k, const Image *x, const Image *y, int64_t channels, bool *boxed)
{
    enum { LAID = 4, LAID_CLOCKS = 6000 };      /* more clocks in all by so much of them, and so many */
    bool strides = k->stride[0] > 1 || k->stride[1] > 1;
    WindowKind one = *k;
    double some, all = choose_places(k, y->extent, INT16_MAX, y->extent[CHANNEL], channels);

    *boxed = false;
    if (!strides || !lies_well(x, CHANNEL) || !has_phases(x, k->stride))
        return all;
    some = choose_places(&one, y->extent, 1, y->extent[CHANNEL], channels);
    if (some > all + all / LAID + LAID_CLOCKS)
        return all;
    *k = one;
    *boxed = true;
    return some;
}

/* Boxes of a sum of places, whose blocks are known. */
static void count_boxes(const WindowKind *k, const Image *y, int64_t *sizes)
{
    sizes[W_N] = blocks(y->extent[IMAGE], k->box[0]), sizes[W_H] = blocks(y->extent[LINE], k->box[1]), sizes[W_W] = blocks(y->extent[PLACE], k->box[2]);
    sizes[W_O] = blocks(y->extent[CHANNEL], k->block[1]);
    sizes[W_PARTS] = sizes[W_CHANNELS] = sizes[W_PART] = 1;
}

static int launch(const FarConv *v, const FarKernel *f, const int64_t *sizes, const Image *m)
{
    int device = (int)m->t->store->device;
    TileArg arg[3];

    for (int i = 0; i < 3; i++)
        if (!argument(&m[i], device, i == 2, &arg[i]))
            return -1;
    return far_launcher(f->code, f->tile, device, sizes, arg, v->T->span);
}

/* The phase's sums go to their places in y. 1, 0: it is not done so, -1: something failed. */
static int run_places(const FarConv *v, Image x, const Image *y)
{
    Image w = image_of((Tensor *)v->w, 0, 1);
    Tensor *kept[2] = {NULL, NULL};
    int64_t sizes[W_SIZES];
    WindowKind k;
    FarKernel *f;
    bool boxed, ok;
    int done;

    if (!kind_of(v, false, &k))
        return 0;
    turn_back(&w, &k);
    k.across = !lies_well(&w, CHANNEL) && lies_well(&w, IMAGE) && dtype_info[k.dt].sbits == 16;
    choose(&k, &x, y, x.extent[CHANNEL], &boxed);
    count_boxes(&k, y, sizes);
    sizes[W_ROUNDS] = (int64_t)k.taps[0] * k.taps[1] * blocks(x.extent[CHANNEL], k.block[2]);
    if (!(f = windows_kernel(&k))->code)
        return 0;
    ok = see_image(v->T, &x, k.stride, boxed, sizes, &kept[0]);
    if (ok && !k.across && !lies_well(&w, CHANNEL))
        ok = lay(v->T, &w, &no_edges, one_each, &kept[1]);
    done = ok ? launch(v, f, sizes, (Image[]){x, w, *y}) : -1;
    tensor_unref(kept[0]);
    tensor_unref(kept[1]);
    return done;
}

/* ---- each channel for itself ---- */

/* Zeros around the image as far as boxes reach, with which each load is whole; start is then from there. */
static Edges reach(WindowKind *k, const Image *x, const Image *y)
{
    Edges e;

    for (int i = 0; i < PLANE; i++) {
        int64_t first = k->start[i], places = round_up(y->extent[LINE + i], k->box[1 + i]);
        int64_t last = first + (places - 1) * k->stride[i] + (int64_t)(k->taps[i] - 1) * k->each[i];
        e.before[i] = first < 0 ? -first : 0;
        e.behind[i] = last >= x->extent[LINE + i] ? last - x->extent[LINE + i] + 1 : 0;
        k->start[i] = (int16_t)(first + e.before[i]);
    }
    return e;
}

/* As run_places, of convolutions with as many groups as channels. */
static int run_channels(const FarConv *v, Image x, const Image *y)
{
    enum { TAPS = 64, WIDE = 64, LEAST = 8, ELEMENTS = 4096, LINES = 4 };
    Image w = image_of((Tensor *)v->w, 1, 0);
    Tensor *kept[2] = {NULL, NULL};
    int64_t sizes[W_SIZES];
    WindowKind k;
    FarKernel *f;
    Edges e;
    bool ok;
    int done;

    if (!kind_of(v, false, &k) || k.taps[0] * k.taps[1] > TAPS)
        return 0;
    k.by_channel = true;
    turn_back(&w, &k);
    for (k.block[1] = WIDE; k.block[1] > LEAST && k.block[1] / 2 >= y->extent[CHANNEL]; k.block[1] /= 2)
        ;
    k.box[0] = 1;
    for (k.box[1] = LINES; k.box[1] > 1 && k.box[1] / 2 >= y->extent[LINE]; k.box[1] /= 2)
        ;
    for (k.box[2] = (int16_t)(ELEMENTS / k.block[1] / k.box[1]); k.box[2] > 1 && k.box[2] / 2 >= y->extent[PLACE]; k.box[2] /= 2)
        ;
    e = reach(&k, &x, y);
    count_boxes(&k, y, sizes);
    sizes[W_ROUNDS] = 1;
    if (!(f = windows_kernel(&k))->code)
        return 0;
    ok = lay(v->T, &x, &e, k.stride, &kept[0]) && lay(v->T, &w, &no_edges, one_each, &kept[1]);
    sizes[W_XN] = 1;
    sizes[W_XW] = x.extent[IMAGE] / k.stride[0] / k.stride[1];
    sizes[W_XH] = sizes[W_XW] * k.stride[1];
    done = ok ? launch(v, f, sizes, (Image[]){x, w, *y}) : -1;
    tensor_unref(kept[0]);
    tensor_unref(kept[1]);
    return done;
}

/* ---- the derivative by the kernel ---- */

/* As run_places, of a cotangent as v's kernel and an image, with images and channels exchanged, as v's input: y is [o, lines, places, c]. */
static int run_kernel(const FarConv *v, Image x, Tensor *y)
{
    int64_t sizes[W_SIZES] = {0};
    Image w = image_of((Tensor *)v->w, 1, 0), parts;
    Tensor *kept[3] = {NULL, NULL, NULL};
    TileArg arg[3];
    WindowKind k;
    FarKernel *f;
    bool strides, boxed, ok;
    int device = (int)x.t->store->device, done = -1;

    if (!kind_of(v, true, &k))
        return 0;
    strides = k.stride[0] > 1 || k.stride[1] > 1;
    for (int i = 0; i < PLANE; i++)
        if (k.tap_each[i] != 1 || w.step[LINE + i] < 0)
            return 0;
    boxed = strides && lies_well(&x, CHANNEL) && has_phases(&x, k.stride) &&
            choose_kernel(&k, w.extent, 1, true, w.extent[CHANNEL], x.extent[CHANNEL], sizes);
    if (!boxed && !choose_kernel(&k, w.extent, INT16_MAX, strides, w.extent[CHANNEL], x.extent[CHANNEL], sizes))
        return 0;
    sizes[W_N] = blocks(w.extent[IMAGE], k.box[0]), sizes[W_H] = w.extent[LINE] / k.box[1], sizes[W_W] = w.extent[PLACE] / k.box[2];
    sizes[W_O] = blocks(w.extent[CHANNEL], k.block[0]);
    sizes[W_CHANNELS] = blocks(x.extent[CHANNEL], k.block[1]);
    if (!(f = windows_kernel(&k))->code)
        return 0;
    int64_t taps = k.taps[0] * k.taps[1], shape[4] = {sizes[W_PARTS], y->shape[0], taps, y->shape[y->rank - 1]};
    ok = see_image(v->T, &x, k.stride, boxed, sizes, &kept[0]) && (lies_well(&w, CHANNEL) || lay(v->T, &w, &no_edges, one_each, &kept[1])) &&
         (kept[2] = tensor_new(DT_f32, 4, shape)) && argument(&x, device, false, &arg[0]) && argument(&w, device, false, &arg[1]);
    if (ok) {
        parts = (Image){.t = kept[2], .offset = kept[2]->offset};
        memcpy(parts.extent, shape, sizeof shape);
        memcpy(parts.step, kept[2]->stride, sizeof shape);
        ok = argument(&parts, device, true, &arg[2]);
    }
    if (ok)
        done = far_launcher(f->code, f->tile, device, sizes, arg, v->T->span);
    if (done == 1)
        done = far_join_parts(kept[2], y, device);
    for (int i = 0; i < 3; i++)
        tensor_unref(kept[i]);
    return done;
}

/* ---- all phases ---- */

/* [B, O, s...] as what lies [B, s..., O], or [O, s..., B] turned. Takes y over. */
static Tensor *as_result(Tensor *y, bool turned)
{
    int64_t shape[RANK_MAX], step[RANK_MAX];
    int last = y->rank - 1;

    for (int i = 0; i <= last; i++) {
        int own = i == 0 ? (turned ? last : 0) : i == 1 ? (turned ? 0 : last) : i - 1;
        shape[i] = y->shape[own];
        step[i] = y->stride[own];
    }
    return seen(y, y->rank, shape, step, y->offset);
}

static Tensor *new_result(const FarConv *v, bool turned)
{
    int64_t shape[RANK_MAX] = {v->y->shape[turned ? 1 : 0]};
    int last = v->y->rank - 1;

    for (int i = 1; i < last; i++)
        shape[i] = v->y->shape[1 + i];
    shape[last] = v->y->shape[turned ? 0 : 1];
    return tensor_new((DType)v->y->dtype, v->y->rank, shape);
}

/* Sums of one phase after the other, each to its places. */
static int run_phases(FarConv *v, const ConvSpread *d, Image x, Tensor *y, bool by_channel)
{
    int64_t at[SPATIAL] = {0};
    int done = 1, i;

    do {
        Image to = image_of(y, 0, 1);
        bool some = true;
        for (i = 0; i < v->a->n; i++) {
            ConvAxis *p = &v->axis[i];
            int axis = LINE + i + PLANE - v->a->n;
            conv_phase(p, &d[i], at[i]);
            to.offset += to.step[axis] * p->first;
            to.step[axis] *= p->each;
            to.extent[axis] = p->out;
            some = some && p->out;
        }
        done = !some ? 1 : by_channel ? run_channels(v, x, &to) : run_places(v, x, &to);
        for (i = v->a->n - 1; i >= 0 && ++at[i] == v->axis[i].each; i--)
            at[i] = 0;
    } while (i >= 0 && done == 1);
    return done;
}

/* Have all phases of an axis taps? */
static bool meets_all(const FarConv *v, const ConvSpread *d)
{
    for (int i = 0; i < v->a->n; i++) {
        ConvAxis p = v->axis[i];
        for (int64_t at = 0; at < v->axis[i].each; at++) {
            conv_phase(&p, &d[i], at);
            if (p.out && !p.taps)
                return false;
        }
    }
    return true;
}

static bool is_by_kernel(const FarConv *v)
{
    enum { LONG = 128 };
    int64_t taps = 1, places = 1;

    for (int i = 0; i < v->a->n; i++) {
        taps *= v->axis[i].taps;
        places *= v->axis[i].out;
    }
    return taps > places && taps * v->w->shape[1] >= LONG;
}

/* TESSERA_WINDOWS (src/tools/options.def): by kernels for warpgroups, on any chip. */
static bool is_for(int device)
{
    const char *way = getenv("TESSERA_TMA"), *asked = getenv("TESSERA_WINDOWS");
    int chip = far_chip(device);

    if (asked)
        return *asked == '1';
    return (!way || *way != '0') && chip >= 90 && chip < 100 && far_made_for < 0;
}

/* Is it of matrix units? */
static bool fits(const FarConv *v, const Tensor *x)
{
    DType dt = (DType)v->y->dtype;

    return is_for((int)x->store->device) && v->a->m <= 1 && (dt == DT_bf16 || dt == DT_f16) && v->y->shape[1] % UNIT == 0;
}

Tensor *far_windows(FarConv *v, const ConvSpread *d, Tensor *x)
{
    bool spread = false, by_kernel, by_channel = v->a->m > 1 && v->a->m == x->shape[1] && v->a->m == v->y->shape[1];
    Tensor *y, *z;
    int done;

    for (int i = 0; i < v->a->n; i++)
        spread = spread || d[i].spread != 1;
    by_kernel = !spread && is_by_kernel(v);
    if (v->a->n > PLANE || !(by_channel ? !by_kernel : fits(v, x)) || (by_kernel && v->y->shape[0] % UNIT) || !meets_all(v, d) ||
        !(y = new_result(v, by_kernel)))
        return NULL;
    z = as_result(tensor_ref(y), by_kernel);
    done = !z ? -1 : by_kernel ? run_kernel(v, image_of(x, 1, 0), y) : run_phases(v, d, image_of(x, 0, 1), z, by_channel);
    tensor_unref(y);
    if (done == 1)
        return z;
    tensor_unref(z);
    return NULL;
}
