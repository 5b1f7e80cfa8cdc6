/*
 * Images of convolutions (far_windows.h): as they lie where tensor copies can bring boxes of them, channels side by side; else as a copy that does.
 *
 * Places that step by a stride are taken from phases of the image.  Where lines and places of a line are whole numbers of strides, as a copy has
 * them, the phases of one image are views of it, each box within one image.  Another copy has all images of a phase one behind the other.
 *
 * Of few channels, as pictures have, a window's line is one run of memory, places of taps and their channels: those are the channels of a view whose
 * places overlap, and a tap of it is a line.
 */
#include "ir/schedule/far_images.h"

#include "base/ints.h"
#include "base/strbuf.h"
#include "runtime/kernel_util.h"

#include <string.h>

enum { ALIGNED = 16 };          /* bytes that axes are multiples of */

Image image_of(Tensor *t, int image, int channel)
{
    Image m = {.t = tensor_ref(t), .offset = t->offset};
    int n = t->rank - 2;

    for (int i = 0; i < AXES; i++) {
        int own = i == IMAGE ? image : i == CHANNEL ? channel : i - 2 + n;
        bool there = own >= 2 || i == IMAGE || i == CHANNEL;
        m.extent[i] = there ? t->shape[own] : 1;
        m.step[i] = there ? t->stride[own] : 0;
    }
    return m;
}

void image_done(Image *m)
{
    tensor_unref(m->t);
    m->t = NULL;
}

static int64_t bytes_of(const Tensor *t) { return dtype_info[t->dtype].sbits / 8; }

bool image_lies_well(const Image *m, int inner)
{
    int64_t bytes = bytes_of(m->t);
    bool well = m->offset * bytes % ALIGNED == 0;

    for (int i = 0; i < AXES; i++)
        well = well && (m->extent[i] == 1 || (i == inner ? m->step[i] == 1 : m->step[i] > 0 && m->step[i] * bytes % ALIGNED == 0));
    return well;
}

static int64_t common(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b, b = rest;
    }
    return a;
}

/* Elements from one place of the first axis to the next. */
static int64_t plane_step(const Image *m)
{
    return m->extent[DEPTH] == 1 ? m->step[IMAGE] : m->extent[IMAGE] == 1 ? m->step[DEPTH] : common(m->step[IMAGE], m->step[DEPTH]);
}

Planes image_planes(const Image *m)
{
    int64_t one = plane_step(m);

    return (Planes){m->extent[IMAGE] == 1 || !one ? 1 : m->step[IMAGE] / one, m->extent[DEPTH] == 1 || !one ? 1 : m->step[DEPTH] / one};
}

int64_t image_depth_lines(const Image *m) { return m->extent[DEPTH] == 1 ? 1 : m->step[DEPTH] / m->step[LINE]; }

/* Of base, extents and strides all but the axes that are given. */
static bool argument(const Image *m, int device, bool write, const int64_t *extent, const int64_t *step, TileArg *arg)
{
    char *base = far_address(m->t, device, write, false);

    *arg = (TileArg){.base = base ? base + m->offset * bytes_of(m->t) : NULL};
    memcpy(arg->extent, extent, sizeof *extent * (AXES - 1));
    memcpy(arg->stride, step, sizeof *step * (AXES - 1));
    return base;
}

bool image_argument(const Image *m, int device, bool write, TileArg *arg)
{
    Planes p = image_planes(m);
    int64_t all = (m->extent[IMAGE] - 1) * p.images + (m->extent[DEPTH] - 1) * p.depths + 1;

    return argument(m, device, write, (int64_t[]){all, m->extent[LINE], m->extent[PLACE], m->extent[CHANNEL]},
                    (int64_t[]){plane_step(m), m->step[LINE], m->step[PLACE], m->step[CHANNEL]}, arg);
}

bool image_kernel(const Image *m, int device, TileArg *arg)
{
    int64_t lines = (m->extent[DEPTH] - 1) * image_depth_lines(m) + m->extent[LINE];

    return argument(m, device, false, (int64_t[]){m->extent[IMAGE], lines, m->extent[PLACE], m->extent[CHANNEL]},
                    (int64_t[]){m->step[IMAGE], m->step[LINE], m->step[PLACE], m->step[CHANNEL]}, arg);
}

/* ---- copies ---- */

/* The tensor with these axes and steps. Takes it over; NULL stays NULL. */
static Tensor *seen(Tensor *t, int rank, const int64_t *extent, const int64_t *step, int64_t offset)
{
    Tensor *v = t ? tensor_view(t, rank, extent, step, offset) : NULL;

    tensor_unref(t);
    return v;
}

/* A copy in the order of the axes. Takes t over. */
static Tensor *copied(Tensor *t)
{
    Tensor *lies = t ? tensor_contiguous(t) : NULL;

    tensor_unref(t);
    return lies;
}

/* Zeros before and behind the last axes, so many of each. Takes t over. */
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

/* t, which is contiguous, is the image from now on; steps are those of these axes. false: it is NULL. */
static bool become(Image *m, Tensor *t, const int64_t *extent)
{
    if (!t)
        return false;
    tensor_unref(m->t);
    m->t = t;
    m->offset = t->offset;
    for (int64_t i = AXES - 1, step = 1; i >= 0; step *= extent[i--])
        m->step[i] = step;
    return true;
}

/* A place of few channels a lane: what is outside of the image is read as 0. */
static const char few_text[] =
    "tessera.tile v1\n"
    "kernel @lay_few(%%x: view %s[?, ?, ?, ?], %%y: view %s[1]) sizes(n, h, w, bh, bw) grid(cdiv(n*h*w, 256)) lanes=256 {\n"
    "  %%n: index = size {name=\"n\"}\n"
    "  %%h: index = size {name=\"h\"}\n"
    "  %%w: index = size {name=\"w\"}\n"
    "  %%bh: index = size {name=\"bh\"}\n"
    "  %%bw: index = size {name=\"bw\"}\n"
    FAR_LANE
    "  %%nh: index = imul %%n, %%h\n"
    "  %%all: index = imul %%nh, %%w\n"
    "  %%here: bool[] = ilt %%q, %%all\n"
    "  if %%here {\n"
    "    %%place: index = imod %%q, %%w\n"
    "    %%l0: index = idiv %%q, %%w\n"
    "    %%line: index = imod %%l0, %%h\n"
    "    %%image: index = idiv %%l0, %%h\n"
    "    %%ww: index = isub %%place, %%bw\n"
    "    %%hh: index = isub %%line, %%bh\n"
    "    %%unit: index = index {i=%d}\n"
    "    %%at: index = imul %%q, %%unit\n";

static FarKernel *few_kernel(const char *bits, int unit)
{
    struct { char name[8], bits[8]; int32_t unit; } what = {"few", "", unit};
    StrBuf b = {0};
    uint64_t key;
    FarKernel *f;

    memcpy(what.bits, bits, strlen(bits));
    key = far_key(&what, sizeof what);
    if ((f = far_known(key)))
        return f;
    sb_printf(&b, few_text, bits, bits, unit);
    for (int u = 0; u < unit; u++)
        sb_printf(&b, "    %%k%d: index = index {i=%d}\n    %%v%d: %s[] = load %%x[%%image, %%hh, %%ww, %%k%d] {shape=(1, 1, 1, 1) drop=15}\n",
                  u, u, u, bits, u);
    for (int u = 0; u < unit; u++)
        sb_printf(&b, "    %%o%d: index = iadd %%at, %%k%d\n    store %%y[%%o%d], %%v%d {drop=1}\n", u, u, u, u);
    sb_puts(&b, "  } else {\n  }\n}\n");
    f = far_read(key, sb_str(&b));
    sb_done(&b);
    return f;
}

/* The same as image_lay, of the image of these extents. NULL: it cannot, or something failed. */
static Tensor *lay_few(const Image *m, const Edges *e, const int64_t *extent)
{
    int device = (int)m->t->store->device;
    FarKernel *f = few_kernel(far_bits(m->t), (int)extent[CHANNEL]);
    Tensor *t = f->code ? tensor_new((DType)m->t->dtype, AXES, extent) : NULL;
    int64_t sizes[5] = {extent[IMAGE], extent[LINE], extent[PLACE], e->before[0], e->before[1]};
    TileArg arg[2];

    if (t && image_argument(m, device, false, &arg[0]) && far_flat(t, device, true, t->offset, &arg[1]) && far_launch(f, device, sizes, arg) > 0)
        return t;
    tensor_unref(t);
    return NULL;
}

bool image_lay(Trace *T, Image *m, const Edges *e, int unit)
{
    enum { FEW = 16 };
    int64_t before[AXES] = {0}, behind[AXES] = {0}, extent[AXES] = {m->extent[IMAGE]};
    Tensor *t;

    extent[CHANNEL] = round_up(m->extent[CHANNEL], unit);
    behind[CHANNEL] = extent[CHANNEL] - m->extent[CHANNEL];
    for (int k = 0; k < SPATIAL; k++) {
        int i = image_axis(k);
        before[i] = e->before[k];
        behind[i] = e->behind[k];
        extent[i] = before[i] + m->extent[i] + behind[i];
    }
    t = extent[CHANNEL] <= FEW && extent[DEPTH] == 1 && far_bits(m->t) ? lay_few(m, e, extent) : NULL;
    if (!t)
        t = copied(padded(T, seen(tensor_ref(m->t), AXES, m->extent, m->step, m->offset), before, behind));
    memcpy(&m->extent[DEPTH], &extent[DEPTH], SPATIAL * sizeof *extent);
    return become(m, t, extent);
}

Edges image_whole(const Image *m, const int16_t *stride)
{
    Edges e = {{0}, {0}};

    for (int i = 0; i < PLANE; i++)
        e.behind[i] = round_up(m->extent[LINE + i], stride[i]) - m->extent[LINE + i];
    return e;
}

/* ---- phases ---- */

bool image_has_phases(const Image *m, const int16_t *stride)
{
    int64_t one = m->step[PLACE];

    return one && m->extent[PLACE] % stride[1] == 0 && m->extent[LINE] % stride[0] == 0 && m->extent[PLACE] > 1 && m->step[LINE] % one == 0 &&
           m->step[DEPTH] % one == 0 && m->step[IMAGE] % one == 0;
}

/* A copy, phase after phase, of a multiple of UNIT channels. */
static bool split(Image *m, const int16_t *stride)
{
    int64_t extent[7] = {stride[0], stride[1], m->extent[IMAGE], m->extent[DEPTH], m->extent[LINE] / stride[0], m->extent[PLACE] / stride[1],
                         m->extent[CHANNEL]};
    int64_t step[7] = {m->step[LINE], m->step[PLACE], m->step[IMAGE], m->step[DEPTH], m->step[LINE] * stride[0], m->step[PLACE] * stride[1],
                       m->step[CHANNEL]};
    int64_t all[AXES] = {extent[0] * extent[1] * extent[2], extent[3], extent[4], extent[5], extent[6]};
    Tensor *t = seen(tensor_ref(m->t), 7, extent, step, m->offset);

    memcpy(m->extent, all, sizeof all);
    return become(m, copied(t), all);
}

bool image_see(Image *m, const int16_t *stride, bool boxed, int64_t *sizes)
{
    int64_t images = m->extent[IMAGE], planes = images * m->extent[DEPTH];
    Planes p = image_planes(m);

    sizes[W_XN] = p.images;
    sizes[W_XD] = p.depths;
    sizes[W_XH] = stride[1] * planes;
    sizes[W_XW] = planes;
    if (stride[0] == 1 && stride[1] == 1)
        return true;
    if (!boxed) {
        sizes[W_XN] = m->extent[DEPTH];
        sizes[W_XD] = 1;
        return split(m, stride);
    }
    sizes[W_XW] = 1;
    sizes[W_XH] = m->step[LINE] / m->step[PLACE];
    sizes[W_XD] = m->step[DEPTH] / m->step[PLACE];
    sizes[W_XN] = m->step[IMAGE] / m->step[PLACE];
    m->extent[IMAGE] = sizes[W_XN] * (images - 1) + sizes[W_XD] * (m->extent[DEPTH] - 1) + sizes[W_XH] * (stride[0] - 1) + stride[1];
    m->step[IMAGE] = m->step[PLACE];
    m->extent[DEPTH] = 1;
    for (int i = 0; i < PLANE; i++) {
        m->extent[LINE + i] /= stride[i];
        m->step[LINE + i] *= stride[i];
    }
    return true;
}

void image_pick(Image *x, WindowKind *k, const int64_t *extent)
{
    for (int i = 0; i < PLANE; i++) {
        int64_t last = k->start[i] + (extent[LINE + i] - 1) * k->stride[i];
        if (k->taps[i] > 1 || k->stride[i] == 1 || k->start[i] < 0 || last >= x->extent[LINE + i])
            continue;
        x->offset += k->start[i] * x->step[LINE + i];
        x->step[LINE + i] *= k->stride[i];
        x->extent[LINE + i] = extent[LINE + i];
        k->stride[i] = 1;
        k->start[i] = 0;
    }
}

/* ---- lines of taps ---- */

int image_run(const Image *x, const WindowKind *k)
{
    enum { FEW = 16 };
    int unit = 1;

    while (unit < x->extent[CHANNEL] || unit * k->stride[1] % UNIT)
        unit *= 2;
    return k->taps[1] > 1 && k->each[1] == 1 && unit <= FEW ? unit : 0;
}

bool image_merge(Trace *T, Image *x, WindowKind *k, int unit, int64_t places)
{
    int64_t first = k->start[1], last = first + (places - 1) * k->stride[1] + k->taps[1] - 1, wide;
    Edges e = image_whole(x, (int16_t[]){k->stride[0], 1});

    e.before[1] = first < 0 ? -first : 0;
    e.behind[1] = last >= x->extent[PLACE] ? last - x->extent[PLACE] + 1 : 0;
    wide = e.before[1] + x->extent[PLACE] + e.behind[1];
    e.behind[1] += round_up(wide, UNIT * k->stride[1]) - wide;         /* lines at multiples of what tensor copies need, and of a place */
    if (!image_lay(T, x, &e, unit))
        return false;
    x->offset += (first + e.before[1]) * unit;
    x->extent[PLACE] = places;
    x->step[PLACE] = (int64_t)k->stride[1] * unit;
    x->extent[CHANNEL] = (int64_t)k->taps[1] * unit;
    k->taps[1] = k->stride[1] = 1;
    k->start[1] = 0;
    return true;
}
