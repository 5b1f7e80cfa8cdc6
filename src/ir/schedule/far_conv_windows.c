/*
 * Convolutions on GPUs whose windows are read where the image lies (far_windows.h): what is done, phase by phase.
 *
 * Results have their channels side by side, whatever their operands have: a result is a view of that.  So a net of convolutions copies its first
 * image alone.
 */
#include "ir/schedule/far_images.h"

#include "base/ints.h"
#include "runtime/kernel_util.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNED = 16 };          /* bytes of which products take whole numbers */

static const Edges no_edges;

static int axis_in(const FarConv *v, int i) { return CHANNEL - v->a->n + i; }          /* of an image: axis i of v */

/* ---- what kernels are for ---- */

/* Of an axis of arrays of a WindowKind, in v; negative: it is not there. */
static int number_of_axis(const FarConv *v, int i) { return i == OF_DEPTH ? v->a->n - SPATIAL : i - (PLANE - v->a->n); }

/* What the kernel has to know of axes. false: numbers that it has no room for. */
static bool kind_of(const FarConv *v, bool by_kernel, WindowKind *k)
{
    memset(k, 0, sizeof *k);
    k->dt = v->w->dtype;
    k->sum = DT_f32;
    k->out = by_kernel ? k->sum : v->y->dtype;
    k->by_kernel = by_kernel;
    k->deep = v->a->n == SPATIAL;
    k->grouped = v->a->m > 1;
    for (int i = 0; i < SPATIAL; i++) {
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

/* Axes of the kernel that go backwards, as those of a derivative do, are counted from the other end; those of one tap get a step that
 * depths and lines share. */
static void turn_back(Image *w, WindowKind *k)
{
    for (int i = 0; i < SPATIAL; i++) {
        int axis = image_axis(i);
        if (w->step[axis] >= 0 || w->extent[axis] == 1)
            continue;
        w->offset += w->step[axis] * (w->extent[axis] - 1);
        w->step[axis] = -w->step[axis];
        k->tap[i] = (int16_t)(w->extent[axis] - 1 - k->tap[i]);
        k->tap_each[i] = (int16_t)-k->tap_each[i];
    }
    if (w->extent[LINE] == 1)
        w->step[LINE] = w->extent[DEPTH] == 1 || !w->step[DEPTH] ? 1 : w->step[DEPTH];
    if (w->extent[DEPTH] == 1)
        w->step[DEPTH] = w->step[LINE];
}

/* Do units take the kernel's elements as they lie, channels side by side, or outputs (*across)? */
static bool kernel_lies_well(const Image *w, bool *across)
{
    Image lies = *w;
    WindowKind none = {.across = false};

    turn_back(&lies, &none);
    *across = w->t->dtype != DT_tf32 && !image_lies_well(&lies, CHANNEL) && image_lies_well(&lies, IMAGE);
    if (lies.step[DEPTH] % lies.step[LINE] == 0 && (*across || image_lies_well(&lies, CHANNEL)))
        return true;
    *across = false;
    return false;
}

/* The kernel's elements as they lie, or as a copy. false: something failed. */
static bool see_kernel(Trace *T, Image *w, WindowKind *k)
{
    if (!kernel_lies_well(w, &k->across) || (k->across && k->grouped)) {
        k->across = false;                      /* groups have few outputs */
        return image_lay(T, w, &no_edges, UNIT);
    }
    turn_back(w, k);
    return true;
}

static bool has_strides(const WindowKind *k) { return k->stride[0] > 1 || k->stride[1] > 1; }

/* The image with its channels side by side, and with phases where there are strides. */
static bool see_channels(Trace *T, Image *x, const WindowKind *k)
{
    Edges e = image_whole(x, k->stride);

    return (image_lies_well(x, CHANNEL) && (!has_strides(k) || image_has_phases(x, k->stride))) || image_lay(T, x, &e, UNIT);
}

/* Zeros around the image's depths as far as taps reach: planes of images are one behind the other. extent: of the sums. false: something failed. */
static bool see_depths(Trace *T, Image *x, WindowKind *k, const int64_t *extent)
{
    int64_t first = k->start[OF_DEPTH], reach = (int64_t)(k->taps[OF_DEPTH] - 1) * k->each[OF_DEPTH];
    int64_t last = first + (extent[DEPTH] - 1) * k->stride[OF_DEPTH] + reach;
    Edges e = image_whole(x, k->stride);

    if (first >= 0 && last < x->extent[DEPTH])
        return true;
    e.before[OF_DEPTH] = first < 0 ? -first : 0;
    e.behind[OF_DEPTH] = last >= x->extent[DEPTH] ? last - x->extent[DEPTH] + 1 : 0;
    k->start[OF_DEPTH] = (int16_t)(first + e.before[OF_DEPTH]);
    return image_lay(T, x, &e, UNIT);
}

/* The places of sums, planes along the first axis. */
static void planes_of(const Image *y, int64_t *extent)
{
    memcpy(extent, y->extent, sizeof y->extent);
    extent[IMAGE] *= extent[DEPTH];
    extent[DEPTH] = 1;
}

/* Can phases be copied, which then lie one behind the other? */
static bool can_split(const Image *x) { return x->extent[CHANNEL] % UNIT == 0; }

/* Boxes of one image, for phases as they lie, unless a copy that has more images in a box is worth it. */
static void choose(WindowKind *k, const Image *x, const Image *y, int64_t group, int64_t channels, bool *boxed)
{
    enum { LAID = 4, LAID_CLOCKS = 6000 };      /* more clocks in all by so much of them, and so many */
    WindowKind one = *k;
    int64_t extent[AXES];
    double some, all;

    planes_of(y, extent);
    all = windows_of_places(k, extent, k->deep ? 1 : INT16_MAX, group, channels);
    *boxed = false;
    if (!has_strides(k))
        return;
    some = windows_of_places(&one, extent, 1, group, channels);
    if (some <= all + all / LAID + LAID_CLOCKS || !can_split(x)) {
        *k = one;
        *boxed = true;
    }
}

/* ---- one phase ---- */

/* Boxes of a sum of places, whose blocks are known. */
static void count_boxes(const WindowKind *k, const Image *y, int64_t *sizes)
{
    sizes[W_N] = blocks(y->extent[IMAGE] * y->extent[DEPTH], k->box[0]);
    sizes[W_H] = blocks(y->extent[LINE], k->box[1]), sizes[W_W] = blocks(y->extent[PLACE], k->box[2]);
    sizes[W_O] = blocks(y->extent[CHANNEL], k->block[1]);
    sizes[W_PARTS] = sizes[W_CHANNELS] = sizes[W_PART] = 1;
}

/* m: the image; the kernel or the cotangent; the result. */
static int launch(const FarConv *v, const WindowKind *k, int64_t *sizes, const Image *m)
{
    int device = (int)m->t->store->device;
    FarKernel *f = windows_kernel(k);
    Planes p = image_planes(&m[k->by_kernel ? 1 : 2]);
    TileArg arg[3];

    if (!f->code)
        return 0;
    sizes[W_YN] = p.images, sizes[W_YD] = p.depths;
    sizes[W_D] = m[k->by_kernel ? 1 : 2].extent[DEPTH];
    sizes[W_WD] = k->by_kernel ? 1 : image_depth_lines(&m[1]);
    for (int i = 0; i < 3; i++)
        if (!(i == 1 && !k->by_kernel ? image_kernel(&m[i], device, &arg[i]) : image_argument(&m[i], device, i == 2, &arg[i])))
            return -1;
    return far_launcher(f->code, f->tile, device, sizes, arg, v->T->span);
}

/* Lines of taps for taps, where channels are few and all taps of a line are the phase's. false: something failed. */
static bool merge(const FarConv *v, Image *x, Image *w, WindowKind *k, int64_t places)
{
    int taps = k->taps[1], unit = k->tap[1] == 0 && k->tap_each[1] == 1 && w->extent[PLACE] == taps ? image_run(x, k) : 0;

    Edges e = no_edges;

    if (!unit)
        return true;
    e.behind[1] = (round_up((int64_t)taps * unit, UNIT) - taps * unit + unit - 1) / unit;
    if (!image_lay(v->T, w, &e, unit) || !image_merge(v->T, x, k, unit, places))
        return false;
    w->step[PLACE] = w->extent[CHANNEL] = (int64_t)taps * unit;
    w->extent[PLACE] = 1;
    return true;
}

/* The phase's sums go to their places in y. 1, 0: it is not done so, -1: something failed. Images are taken over. */
static int run_places(const FarConv *v, Image x, Image w, const Image *y)
{
    int64_t sizes[W_SIZES];
    WindowKind k;
    bool boxed;
    int done = 0;

    if (kind_of(v, false, &k)) {
        done = -1;
        image_pick(&x, &k, y->extent);
        if (see_depths(v->T, &x, &k, y->extent) && merge(v, &x, &w, &k, y->extent[PLACE]) && see_channels(v->T, &x, &k) && see_kernel(v->T, &w, &k)) {
            int64_t groups = k.grouped ? v->a->m : 1, group = y->extent[CHANNEL] / groups, channels = x.extent[CHANNEL] / groups;
            choose(&k, &x, y, group, channels, &boxed);
            count_boxes(&k, y, sizes);
            sizes[W_GROUP] = group, sizes[W_EACH] = channels / WINDOW_STEPS;
            sizes[W_ROUNDS] = (int64_t)k.taps[0] * k.taps[1] * k.taps[OF_DEPTH] * blocks(channels, k.block[2]);
            if (image_see(&x, k.stride, boxed, sizes))
                done = launch(v, &k, sizes, (Image[]){x, w, *y});
        }
    }
    image_done(&x);
    image_done(&w);
    return done;
}

/* ---- the derivative by the kernel ---- */

/* What a derivative by the kernel is of; shape: of its parts, [parts, o, depths, lines, places, c], with room for more channels. */
typedef struct KernelSum { Image x, w; WindowKind k; int64_t sizes[W_SIZES], shape[AXES + 1]; bool boxed; } KernelSum;

/* Operands as kernels take them, and a schedule. As run_places. */
static int begin_kernel(const FarConv *v, KernelSum *s)
{
    int64_t channels = s->x.extent[CHANNEL], outputs = s->w.extent[CHANNEL], extent[AXES];
    int unit;

    if (!kind_of(v, true, &s->k) || s->k.tap_each[0] != 1 || s->k.tap_each[1] != 1 || s->k.tap_each[OF_DEPTH] != 1)
        return 0;
    planes_of(&s->w, extent);
    image_pick(&s->x, &s->k, s->w.extent);
    if (!see_depths(v->T, &s->x, &s->k, s->w.extent))
        return -1;
    unit = image_run(&s->x, &s->k);
    memcpy(s->shape, (int64_t[]){0, outputs, s->k.taps[OF_DEPTH], s->k.taps[0], s->k.taps[1], unit ? unit : round_up(channels, UNIT)},
           sizeof s->shape);
    if (unit && !image_merge(v->T, &s->x, &s->k, unit, s->w.extent[PLACE]))
        return -1;
    if (!see_channels(v->T, &s->x, &s->k) || (!image_lies_well(&s->w, CHANNEL) && !image_lay(v->T, &s->w, &no_edges, UNIT)))
        return -1;
    s->boxed = has_strides(&s->k) && windows_of_kernel(&s->k, extent, 1, true, outputs, s->x.extent[CHANNEL], s->sizes);
    if (!s->boxed && has_strides(&s->k) && !can_split(&s->x))
        return 0;
    if (!s->boxed && !windows_of_kernel(&s->k, extent, s->k.deep ? 1 : INT16_MAX, has_strides(&s->k), outputs, s->x.extent[CHANNEL], s->sizes))
        return 0;
    s->sizes[W_N] = blocks(extent[IMAGE], s->k.box[0]);
    s->sizes[W_H] = s->w.extent[LINE] / s->k.box[1], s->sizes[W_W] = s->w.extent[PLACE] / s->k.box[2];
    s->sizes[W_GROUP] = s->sizes[W_EACH] = 1;
    s->sizes[W_O] = blocks(outputs, s->k.block[0]);
    s->sizes[W_CHANNELS] = blocks(s->x.extent[CHANNEL], s->k.block[1]);
    s->shape[0] = s->sizes[W_PARTS];
    return image_see(&s->x, s->k.stride, s->boxed, s->sizes) ? 1 : -1;
}

/* The parts, which are added up. */
static int sum_kernel(const FarConv *v, KernelSum *s, Tensor *y)
{
    int64_t taps = (int64_t)s->k.taps[0] * s->k.taps[1] * s->k.taps[OF_DEPTH], outputs = s->shape[1];
    int64_t each = s->shape[2] * s->shape[3] * s->shape[4] * s->shape[5];
    Image parts = {.t = tensor_new(DT_f32, AXES + 1, s->shape), .extent = {s->shape[0], 1, outputs, taps, each / taps},
                   .step = {outputs * each, outputs * each, each, each / taps, 1}};
    int done = -1;

    if (parts.t) {
        parts.offset = parts.t->offset;
        done = launch(v, &s->k, s->sizes, (Image[]){s->x, s->w, parts});
    }
    if (done == 1)
        done = far_join_parts(parts.t, y, (int)parts.t->store->device);
    image_done(&parts);
    return done;
}

/*
 * Of a cotangent as v's kernel, w, and an image with images and channels exchanged as its input: *y is [o, depths, lines, places, c], with room
 * for more channels. As run_places.
 */
static int run_kernel(const FarConv *v, Image x, Image w, Tensor **y)
{
    KernelSum s = {.x = x, .w = w};
    int done = begin_kernel(v, &s);

    if (done == 1) {
        *y = tensor_new((DType)v->y->dtype, AXES, s.shape + 1);
        done = *y ? sum_kernel(v, &s, *y) : -1;
    }
    image_done(&s.x);
    image_done(&s.w);
    return done;
}

/* ---- all phases ---- */

Tensor *windows_result(const FarConv *v, Tensor *y, bool by_kernel)
{
    int64_t step[RANK_MAX];
    Tensor *z;

    if (!y)
        return NULL;
    step[0] = y->stride[by_kernel ? CHANNEL : IMAGE];
    step[1] = y->stride[by_kernel ? IMAGE : CHANNEL];
    for (int i = 0; i < v->a->n; i++)
        step[2 + i] = y->stride[axis_in(v, i)];
    z = tensor_view(y, v->y->rank, v->y->shape, step, y->offset);
    tensor_unref(y);
    return z;
}

static Tensor *new_result(const FarConv *v, bool zeros)
{
    DType dt = (DType)v->y->dtype;
    int64_t shape[AXES] = {v->y->shape[0], 1, 1, 1, round_up(v->y->shape[1], UNIT)};

    for (int i = 0; i < v->a->n; i++)
        shape[axis_in(v, i)] = v->y->shape[2 + i];
    return windows_result(v, zeros ? tensor_zeros(dt, AXES, shape) : tensor_new(dt, AXES, shape), false);
}

/* Another image of the same elements. */
static Image again(const Image *m)
{
    Image n = *m;

    n.t = tensor_ref(m->t);
    return n;
}

/* Sums of one phase after the other, each to its places. Images are taken over. */
static int run_phases(FarConv *v, const ConvSpread *d, Image x, Image w, Tensor *y, RunPhase *run)
{
    int64_t at[SPATIAL] = {0};
    Image to = image_of(y, 0, 1);
    int done = 1, i;

    do {
        Image phase = to;
        bool some = true;                       /* places, of which some meet taps: others stay zero */
        for (i = 0; i < v->a->n; i++) {
            ConvAxis *p = &v->axis[i];
            int axis = axis_in(v, i);
            conv_phase(p, &d[i], at[i]);
            phase.offset += phase.step[axis] * p->first;
            phase.step[axis] *= p->each;
            phase.extent[axis] = p->out;
            some = some && p->out && p->taps;
        }
        if (some)
            done = run(v, again(&x), again(&w), &phase);
        for (i = v->a->n - 1; i >= 0 && ++at[i] == v->axis[i].each; i--)
            at[i] = 0;
    } while (i >= 0 && done == 1);
    image_done(&to);
    image_done(&x);
    image_done(&w);
    return done;
}

/* All phases of a spread image, and of its kernel, take the same copies. false: something failed. */
static bool lay_once(const FarConv *v, Image *x, Image *w)
{
    bool across;

    return (image_lies_well(x, CHANNEL) || image_lay(v->T, x, &no_edges, UNIT)) &&
           (kernel_lies_well(w, &across) || image_lay(v->T, w, &no_edges, UNIT));
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

static bool is_spread(const FarConv *v, const ConvSpread *d)
{
    bool spread = false;

    for (int i = 0; i < v->a->n; i++)
        spread = spread || d[i].spread != 1;
    return spread;
}

bool windows_by_kernel(const FarConv *v, const ConvSpread *d)
{
    enum { LONG = 128 };
    int64_t taps = 1, places = 1;

    if (is_spread(v, d))
        return false;
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

/* Is it of matrix units? Groups have to be whole blocks of them, and those of tf32 take no operand whose steps lie across. */
static bool fits(const FarConv *v, const Tensor *x, bool by_kernel)
{
    DType dt = (DType)v->w->dtype;
    bool whole = v->a->m <= 1 || (!by_kernel && v->y->shape[1] / v->a->m % WINDOW_STEPS == 0 && v->w->shape[1] % WINDOW_STEPS == 0);

    return is_for((int)x->store->device) && whole && (dt == DT_bf16 || dt == DT_f16 || (dt == DT_tf32 && !by_kernel));
}

/* Is it a product of matrices as they lie, the kernel with each image, of places side by side? */
static bool is_product(const FarConv *v, const Tensor *x)
{
    int64_t places = 1, step = 1, bytes = (int64_t)raw_size((DType)x->dtype);
    bool plain = v->a->m <= 1;

    for (int i = v->a->n - 1; i >= 0; i--) {
        const ConvAxis *p = &v->axis[i];
        plain = plain && p->taps == 1 && p->each == 1 && p->step == 1 && p->start == 0 && p->out == p->in && x->stride[2 + i] == step;
        step *= x->shape[2 + i];
        places *= p->out;
    }
    return plain && places * bytes % ALIGNED == 0 && x->shape[1] > 1 && x->stride[1] >= places && x->stride[1] * bytes % ALIGNED == 0;
}

Tensor *windows_sums(FarConv *v, const ConvSpread *d, Image x, Image w, RunPhase *run)
{
    Tensor *y = new_result(v, !meets_all(v, d));
    int done = -1;

    if (y) {
        done = run_phases(v, d, x, w, y, run);
    } else {
        image_done(&x);
        image_done(&w);
    }
    if (done == 1)
        return y;
    tensor_unref(y);
    return NULL;
}

/* That of units. */
static Tensor *unit_sums(FarConv *v, const ConvSpread *d, Tensor *x, bool spread)
{
    Image m = image_of(x, 0, 1), w = image_of((Tensor *)v->w, 0, 1);

    if (!spread || lay_once(v, &m, &w))
        return windows_sums(v, d, m, w, run_places);
    image_done(&m);
    image_done(&w);
    return NULL;
}

Tensor *far_windows(FarConv *v, const ConvSpread *d, Tensor *x)
{
    bool by_kernel = windows_by_kernel(v, d);
    Tensor *y = NULL;

    if (!fits(v, x, by_kernel) || (!by_kernel && is_product(v, x)))
        return NULL;
    if (!by_kernel)
        return unit_sums(v, d, x, is_spread(v, d));
    if (run_kernel(v, image_of(x, 1, 0), image_of((Tensor *)v->w, 1, 0), &y) == 1)
        return windows_result(v, y, true);
    tensor_unref(y);
    return NULL;
}
