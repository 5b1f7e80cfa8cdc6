/*
 * Moving elements: views where strides can say it, copies where not.
 * Attributes speak of trailing axes; leading ones stay as they are.
 */
#include "runtime/far_moves.h"
#include "ir/core/dim_float.h"
#include "runtime/kernel_util.h"
#include "runtime/loops.h"
#include "runtime/storage.h"

#include <math.h>
#include <string.h>

bool reshape_strides(const Tensor *t, int rank, const int64_t *shape, int64_t *stride)
{
    int i = 0, k = 0;

    while (i < t->rank || k < rank) {
        while (i < t->rank && t->shape[i] == 1)
            i++;
        while (k < rank && shape[k] == 1)
            stride[k++] = 1;
        if (i == t->rank || k == rank)
            break;
        int i0 = i, k0 = k;
        int64_t have = t->shape[i++], want = shape[k++];
        while (have != want)
            if (have < want)
                have *= t->shape[i++];
            else
                want *= shape[k++];
        int64_t step = t->stride[i - 1], run = step * t->shape[i - 1];
        for (int x = i - 2; x >= i0; x--)           /* the old axes of this group step as one; those of 1 have no step */
            if (t->shape[x] != 1) {
                if (t->stride[x] != run)
                    return false;
                run *= t->shape[x];
            }
        for (int x = k - 1; x >= k0; x--) {
            stride[x] = step;
            step *= shape[x];
        }
    }
    return true;
}

KStatus kernel_reshape(KERNEL_ARGS)
{
    int64_t stride[RANK_MAX];

    (void)op, (void)a, (void)nin;
    if (tensor_size(in[0]) != 0 && reshape_strides(in[0], type->rank, type->shape, stride)) {
        out[0] = tensor_view(in[0], type->rank, type->shape, stride, in[0]->offset);
        return K_OK;
    }
    if (!(out[0] = k_result(c, type)))
        return K_NOMEM;
    Tensor flat = *out[0];                          /* the result seen in the operand's shape */
    int64_t step = 1;
    flat.rank = in[0]->rank;
    flat.shape = in[0]->shape;
    flat.stride = stride;
    for (int i = flat.rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= flat.shape[i];
    }
    tensor_assign(&flat, in[0]);
    return K_OK;
}

KStatus kernel_permute(KERNEL_ARGS)
{
    const Tensor *x = in[0];
    int64_t stride[RANK_MAX];
    int lead = x->rank - a->naxes;

    (void)c, (void)op, (void)nin;
    for (int i = 0; i < x->rank; i++)
        stride[i] = x->stride[i < lead ? i : axis_of(a->axis[i - lead], x->rank)];
    out[0] = tensor_view(in[0], x->rank, type->shape, stride, x->offset);
    return K_OK;
}

/* A view that may show elements many times: more of them than can be counted are refused as memory is. */
static KStatus larger_view(KCtx *c, const TType *type, Tensor *x, const int64_t *stride, Tensor **out)
{
    int64_t n;

    if (!shape_elements(type->rank, type->shape, &n))
        return k_no_memory(c, type);
    *out = tensor_view(x, type->rank, type->shape, stride, x->offset);
    return K_OK;
}

KStatus kernel_broadcast(KERNEL_ARGS)
{
    const Tensor *x = in[0];
    int64_t stride[RANK_MAX];
    int lead = type->rank - x->rank;

    (void)op, (void)a, (void)nin;
    for (int i = 0; i < type->rank; i++)
        stride[i] = i < lead || x->shape[i - lead] == 1 ? 0 : x->stride[i - lead];
    return larger_view(c, type, in[0], stride, out);
}

KStatus kernel_slice(KERNEL_ARGS)
{
    const Tensor *x = in[0];
    int64_t stride[RANK_MAX], offset = x->offset;
    int lead = x->rank - a->nd[0];

    (void)c, (void)op, (void)nin;
    memcpy(stride, x->stride, x->rank * sizeof *stride);
    for (int i = lead; i < x->rank; i++) {
        if (type->shape[i] > 0)
            offset += dim_int(a->d[0][i - lead]) * x->stride[i];
        stride[i] *= a->nd[2] > i - lead ? dim_int(a->d[2][i - lead]) : 1;
    }
    out[0] = tensor_view(in[0], x->rank, type->shape, stride, offset);
    return K_OK;
}

/* What says how to differentiate it is not looked at. */
KStatus kernel_as_softmax(KERNEL_ARGS)
{
    (void)op, (void)c, (void)a, (void)nin, (void)type;
    out[0] = tensor_ref(in[0]);
    return K_OK;
}

KStatus kernel_flip(KERNEL_ARGS)
{
    const Tensor *x = in[0];
    int64_t stride[RANK_MAX], offset = x->offset;

    (void)c, (void)op, (void)nin, (void)type;
    for (int i = 0; i < x->rank; i++) {
        bool flipped = is_reduced(a, x->rank, i);
        stride[i] = flipped ? -x->stride[i] : x->stride[i];
        if (flipped && x->shape[i] > 0)
            offset += (x->shape[i] - 1) * x->stride[i];
    }
    out[0] = tensor_view(in[0], x->rank, x->shape, stride, offset);
    return K_OK;
}

typedef struct { Reader dst, src; } CopyJob;

static void copy_part(int64_t lo, int64_t hi, void *st)
{
    CopyJob *j = st;

    copy_run(&j->dst, &j->src, lo, hi, NULL);
}

/* Copy a box of src into a box of dst: the same sizes, any strides. */
static void copy_box(const Tensor *dst, const int64_t *dstride, int64_t doff, const Tensor *src, const int64_t *sstride,
                     int64_t soff, int rank, const int64_t *size)
{
    const FarMoves *far = far_moves_of(dst);
    CopyJob j;
    int64_t n = 1;

    for (int i = 0; i < rank; i++)
        n *= size[i];
    if (n <= 0 || (far && dst->dtype == src->dtype && far->box((FarPlace){dst, dstride, doff}, (FarPlace){src, sstride, soff}, rank, size)))
        return;
    writer_view(&j.dst, dst, rank, size, dstride, doff);
    reader_view(&j.src, src, rank, size, sstride, soff);
    if (is_packed(j.dst.dtype))
        copy_part(0, n, &j);
    else
        pool_for(n, 64 * TILE_MAX, copy_part, &j);
}

/* One element with this value, a new reference: the latest are kept, so that they go to a GPU once. */
static Tensor *scalar_kept(DType dt, double v)
{
    enum { KEPT = 16 };
    static struct { DType dt; double v; Tensor *t; } kept[KEPT];
    static int next;
    int was, i = 0;

    while (i < KEPT && !(kept[i].t && kept[i].dt == dt && !memcmp(&kept[i].v, &v, sizeof v)))
        i++;
    if (i < KEPT)
        return tensor_ref(kept[i].t);
    was = device_enter(0);
    i = next++ % KEPT;
    tensor_unref(kept[i].t);
    kept[i].dt = dt;
    kept[i].v = v;
    kept[i].t = tensor_scalar_f(dt, v);
    device_enter(was);
    return kept[i].t ? tensor_ref(kept[i].t) : NULL;
}

/* On a GPU: a box that stands still. */
static bool filled_far(const Tensor *t, int64_t offset, const int64_t *size, double v)
{
    static const int64_t still[RANK_MAX];
    const FarMoves *far = far_moves_of(t);
    Tensor *one = far ? scalar_kept((DType)t->dtype, v) : NULL;
    bool done = false;

    if (one)
        done = far->box((FarPlace){t, t->stride, offset}, (FarPlace){one, still, one->offset}, t->rank, size);
    tensor_unref(one);
    return done;
}

typedef struct { Reader dst; TileBuf run; } FillJob;

static void fill_part(int64_t lo, int64_t hi, void *st)
{
    const FillJob *j = st;

    for (int64_t i = lo; i < hi; i += TILE)
        writer_raw(&j->dst, i, hi - i < TILE ? hi - i : TILE, j->run.at);
}

/* v in a box of t that begins at an offset of its storage. */
static void fill_box(const Tensor *t, int64_t offset, const int64_t *size, double v)
{
    DType dt = (DType)t->dtype;
    FillJob j;
    int64_t n = 1;

    for (int i = 0; i < t->rank; i++)
        n *= size[i];
    if (n <= 0 || filled_far(t, offset, size, v))
        return;
    raw_convert(dt, j.run.at, DT_f64, &v, 1, NULL, 0);
    for (int64_t i = 1; i < n && i < TILE; i++)
        memcpy(j.run.at + (size_t)i * raw_size(dt), j.run.at, raw_size(dt));
    writer_view(&j.dst, t, t->rank, size, t->stride, offset);
    if (is_packed(dt))
        fill_part(0, n, &j);
    else
        pool_for(n, 64 * TILE_MAX, fill_part, &j);
}

static void fill_with(const Tensor *t, double v) { fill_box(t, t->offset, t->shape, v); }

/* v around the box of these sizes at these places: per axis what is before and behind it, within it along the axes before. */
static void fill_around(const Tensor *t, const int64_t *place, const int64_t *size, double v)
{
    int64_t box[RANK_MAX], offset = t->offset;

    memcpy(box, t->shape, t->rank * sizeof *box);
    for (int i = 0; i < t->rank; i++) {
        int64_t behind = place[i] + size[i];
        box[i] = place[i];
        fill_box(t, offset, box, v);
        box[i] = t->shape[i] - behind;
        fill_box(t, offset + behind * t->stride[i], box, v);
        box[i] = size[i];
        offset += place[i] * t->stride[i];
    }
}

/*
 * Along one axis, source element s lands at before + s * (between + 1).  Clip [0, n) of the source to what lands inside
 * [0, size): negative amounts cut.
 */
static void pad_range(int64_t n, int64_t size, int64_t before, int64_t gap, int64_t *lo, int64_t *hi)
{
    *lo = before < 0 ? (-before + gap - 1) / gap : 0;
    *hi = size - before <= 0 ? 0 : (size - before + gap - 1) / gap;
    *hi = *hi < n ? *hi : n;
    *lo = *lo < *hi ? *lo : *hi;
}

KStatus kernel_pad(KERNEL_ARGS)
{
    const Tensor *x = in[0];
    int lead = x->rank - a->nd[0];
    int64_t size[RANK_MAX], place[RANK_MAX], dstride[RANK_MAX], doff = 0, soff = x->offset;
    bool apart = is_packed((DType)type->dtype);         /* is there something between elements? */

    (void)op, (void)nin;
    if (!(out[0] = k_result(c, type)))
        return K_NOMEM;
    for (int i = 0; i < x->rank; i++) {
        int64_t before = i < lead ? 0 : dim_int(a->d[0][i - lead]);
        int64_t gap = i < lead || a->nd[2] <= i - lead ? 1 : 1 + dim_int(a->d[2][i - lead]), lo, hi;
        pad_range(x->shape[i], type->shape[i], before, gap, &lo, &hi);
        size[i] = hi - lo;
        place[i] = before + lo * gap;
        apart = apart || gap != 1 || size[i] <= 0;
        dstride[i] = out[0]->stride[i] * gap;
        doff += place[i] * out[0]->stride[i];
        soff += lo * x->stride[i];
    }
    if (apart)
        fill_with(out[0], a->f);
    else
        fill_around(out[0], place, size, a->f);
    copy_box(out[0], dstride, doff, x, x->stride, soff, x->rank, size);
    return K_OK;
}

/*
 * Do the operands, and nobody else, have memory in which they lie side by side as they would in a result of their own? Then that is it; else NULL.
 * Those that are empty along the axis lie anywhere.
 */
static Tensor *are_beside(Tensor *const *in, int nin, int axis, const TType *type)
{
    const Tensor *x = in[0];
    int64_t stride[RANK_MAX], step = 1, at = 0;
    bool so = x->store && x->offset == 0 && x->dtype == type->dtype;
    uint32_t parts = 0;

    for (int i = type->rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= type->shape[i];
    }
    for (int k = 0; k < nin && so; at += in[k++]->shape[axis]) {
        if (k && !in[k]->shape[axis])
            continue;
        parts++;
        so = in[k]->store == x->store && in[k]->offset == at * stride[axis] && in[k]->dtype == x->dtype;
        for (int i = 0; i < type->rank; i++)
            so &= in[k]->stride[i] == stride[i] || in[k]->shape[i] == 1;
    }
    return so && x->store->refs == parts ? tensor_view(in[0], type->rank, type->shape, stride, 0) : NULL;
}

KStatus kernel_concat(KERNEL_ARGS)
{
    int axis = axis_of(a->axis[0], type->rank);
    int64_t at = 0;

    (void)op;
    if ((out[0] = are_beside(in, nin, axis, type)))
        return K_OK;
    if (!(out[0] = k_result(c, type)))
        return K_NOMEM;
    for (int k = 0; k < nin; k++) {
        copy_box(out[0], out[0]->stride, at * out[0]->stride[axis], in[k], in[k]->stride, in[k]->offset, type->rank, in[k]->shape);
        at += in[k]->shape[axis];
    }
    return K_OK;
}

/* Result [lead..., outs..., sizes...]: a step in an out axis is `stride` elements, one in a size axis `dilation`. */
KStatus kernel_window(KERNEL_ARGS)
{
    const Tensor *x = in[0];
    int n = a->n, lead = x->rank - n;
    int64_t stride[RANK_MAX];

    (void)op, (void)nin;
    for (int i = 0; i < lead; i++)
        stride[i] = x->stride[i];
    for (int i = 0; i < n; i++) {
        stride[lead + i] = x->stride[lead + i] * (a->nd[1] > i ? dim_int(a->d[1][i]) : 1);
        stride[lead + n + i] = x->stride[lead + i] * (a->nd[2] > i ? dim_int(a->d[2][i]) : 1);
    }
    return larger_view(c, type, in[0], stride, out);
}

/* dst[...] += src[...] over a box, in lanes. */
static void add_box(Reader *dst, Reader *src, int64_t n, LoopFn *add, DType lane)
{
    TileBuf a, b, spare, sum;

    src->as = dst->as = lane;
    for (int64_t i = 0; i < n; i += TILE) {
        int64_t k = n - i < TILE ? n - i : TILE;
        const void *x = reader_lanes(dst, i, k, a.at, spare.at);
        const void *y = reader_lanes(src, i, k, b.at, spare.at);
        add(k, sum.at, x, y, NULL);
        writer_raw(dst, i, k, sum.at);
    }
}

/*
 * One pass for each place in the window, in row-major order of places: within a pass no two windows meet, so each
 * element's sum has the order of the places. Sums are kept in the accumulator's dtype.
 */
KStatus kernel_unwindow(KERNEL_ARGS)
{
    const Tensor *x = in[0];
    int n = a->n, lead = type->rank - n;
    DType lane = lane_dtype(dtype_accum((DType)x->dtype));
    LoopFn *add = loop_find(OP_add, lane);
    Tensor *sum = tensor_zeros(lane, type->rank, type->shape);
    int64_t shape[RANK_MAX], sstride[RANK_MAX], dstride[RANK_MAX], place[RANK_MAX] = {0}, count = 1, places = 1;

    (void)op, (void)nin;
    if (!sum)
        return k_fail(c, K_NOMEM, "no memory for unwindow");
    for (int i = 0; i < lead + n; i++) {
        shape[i] = x->shape[i];
        sstride[i] = x->stride[i];
        dstride[i] = sum->stride[i] * (i >= lead && a->nd[1] > i - lead ? dim_int(a->d[1][i - lead]) : 1);
        count *= shape[i];
    }
    for (int i = 0; i < n; i++)
        places *= x->shape[lead + n + i];
    for (int64_t p = 0; p < places && count; p++) {
        int64_t soff = x->offset, doff = 0;
        Reader dst, src;
        for (int i = 0; i < n; i++) {
            soff += place[i] * x->stride[lead + n + i];
            doff += place[i] * sum->stride[lead + i] * (a->nd[2] > i ? dim_int(a->d[2][i]) : 1);
        }
        writer_view(&dst, sum, lead + n, shape, dstride, doff);
        reader_view(&src, x, lead + n, shape, sstride, soff);
        add_box(&dst, &src, count, add, lane);
        for (int i = n - 1; i >= 0 && ++place[i] == x->shape[lead + n + i]; i--)
            place[i] = 0;
    }
    if (lane == (DType)type->dtype) {
        out[0] = sum;
        return K_OK;
    }
    if ((out[0] = k_result(c, type)))
        tensor_assign(out[0], sum);
    tensor_unref(sum);
    return out[0] ? K_OK : K_NOMEM;
}

/* ---- making ---- */

KStatus kernel_constant(KERNEL_ARGS)
{
    (void)c, (void)op, (void)in, (void)nin, (void)type;
    out[0] = share(a->value);
    return K_OK;
}

KStatus kernel_full(KERNEL_ARGS)
{
    (void)op, (void)in, (void)nin;
    if (!(out[0] = k_result(c, type)))
        return K_NOMEM;
    if (a->f == 0 && !signbit(a->f) && !out[0]->offset && tensor_nbytes(out[0]) == out[0]->store->nbytes)
        storage_zero(out[0]->store);                        /* many zeros take no memory before they are touched */
    else
        fill_with(out[0], a->f);
    return K_OK;
}

KStatus kernel_iota(KERNEL_ARGS)
{
    int64_t index[TILE], n, stride[RANK_MAX] = {0};
    int axis = type->rank ? axis_of(a->naxes ? a->axis[0] : -1, type->rank) : 0;
    TileBuf raw;
    Tensor *line;

    (void)op, (void)in, (void)nin;
    if (!type->rank)
        return kernel_full(c, op, a, in, nin, type, out);
    if (!(out[0] = k_result(c, type)))
        return K_NOMEM;
    n = type->shape[axis];
    if (!(line = tensor_new((DType)type->dtype, 1, &n))) {
        tensor_unref(out[0]);
        return k_fail(c, K_NOMEM, "no memory for iota");
    }
    Reader w;
    writer_init(&w, line);
    for (int64_t i = 0; i < n; i += TILE) {
        int64_t k = n - i < TILE ? n - i : TILE;
        for (int64_t j = 0; j < k; j++)
            index[j] = i + j;
        raw_convert((DType)type->dtype, raw.at, DT_int64, index, k, NULL, 0);
        writer_raw(&w, i, k, raw.at);
    }
    stride[axis] = 1;
    copy_box(out[0], out[0]->stride, 0, line, stride, 0, type->rank, type->shape);
    tensor_unref(line);
    return K_OK;
}

KStatus kernel_dim_value(KERNEL_ARGS)
{
    (void)op, (void)in, (void)nin, (void)type;
    out[0] = tensor_scalar_i(DT_int64, dim_int(a->d[0][0]));
    return out[0] ? K_OK : k_fail(c, K_NOMEM, "no memory for a number");
}

KStatus kernel_dim_float(KERNEL_ARGS)
{
    int64_t size[DIM_FLOAT_SIZES];
    double x;

    (void)op, (void)in, (void)nin, (void)type;
    if (a->nd[0] > DIM_FLOAT_SIZES)
        return k_fail(c, K_VALUE, "a formula of more than %d sizes", DIM_FLOAT_SIZES);
    for (int i = 0; i < a->nd[0]; i++)
        size[i] = dim_int(a->d[0][i]);
    if (!dim_float_eval(a->name->text, size, a->nd[0], &x))
        return k_fail(c, K_VALUE, "the formula '%s' is malformed", a->name->text);
    out[0] = tensor_scalar_f(DT_f64, x);
    return out[0] ? K_OK : k_fail(c, K_NOMEM, "no memory for a number");
}
