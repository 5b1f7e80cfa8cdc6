/*
 * Convolutions as products whose windows are never laid out (implicit products): a block of rows is a box of places, and what a tap of theirs
 * meets is a box of the image, shifted, with zeros beyond its edges.  Tensor copies bring such boxes.
 *
 *      rows: places      steps: channels, tap by tap         columns: outputs       (a convolution, and the derivative by its input)
 *      rows: outputs     steps: places                       columns: channels of a tap          (the derivative by the kernel)
 *
 * Of the former a round is one tap of some channels: taps go fastest, so that what they share is in the caches.
 *
 * Where each channel is for itself (depthwise convolutions) there is no product: a box is summed tap by tap, in their order, in registers.
 */
#include "ir/schedule/far_windows.h"

static const char *const size_names[W_SIZES] = {"n", "h", "w", "o", "rounds", "part", "parts", "channels", "xn", "xh", "xw"};

static TileRef size_of(TileBuilder *b, WindowSize s) { return build_size(b, size_names[s]); }
static TileRef times(TileBuilder *b, TileRef x, int64_t n) { return n == 1 ? x : build_add2(b, TOP_imul, x, build_number(b, n)); }
static TileRef plus(TileBuilder *b, TileRef x, int64_t n) { return n ? build_add2(b, TOP_iadd, x, build_number(b, n)) : x; }
static TileRef over(TileBuilder *b, TileRef x, int64_t n) { return n == 1 ? x : build_add2(b, TOP_idiv, x, build_number(b, n)); }
static TileRef rest(TileBuilder *b, TileRef x, int64_t n) { return n == 1 ? build_number(b, 0) : build_add2(b, TOP_imod, x, build_number(b, n)); }

/* Where the box with this number begins: image, line, place. */
static void box_at(TileBuilder *b, const WindowKind *k, TileRef number, TileRef *at)
{
    TileRef h = size_of(b, W_H), w = size_of(b, W_W), line = build_add2(b, TOP_idiv, number, w);

    at[0] = times(b, build_add2(b, TOP_idiv, line, h), k->box[0]);
    at[1] = times(b, build_add2(b, TOP_imod, line, h), k->box[1]);
    at[2] = times(b, build_add2(b, TOP_imod, number, w), k->box[2]);
}

/* The same box of the image, shifted to a tap. */
static void shift(TileBuilder *b, const WindowKind *k, const TileRef *tap, const TileRef *at, TileRef *to)
{
    static const WindowSize apart[PLANE] = {W_XH, W_XW};

    to[0] = build_add2(b, TOP_imul, at[0], size_of(b, W_XN));
    for (int i = 0; i < PLANE; i++) {
        TileRef q = plus(b, times(b, tap[i], k->each[i]), k->start[i]);
        to[1 + i] = build_add2(b, TOP_iadd, at[1 + i], over(b, q, k->stride[i]));
        if (k->stride[i] > 1)
            to[0] = build_add2(b, TOP_iadd, to[0], build_add2(b, TOP_imul, rest(b, q, k->stride[i]), size_of(b, apart[i])));
    }
}

static TileRef converted(TileBuilder *b, uint8_t dt, TileRef x)
{
    TAttr a = tattr_none;

    a.op = OP_convert;
    a.dtype = dt;
    return x.node && tile_type(x)->dtype != dt ? build_add(b, TOP_map, &a, &x, 1) : x;
}

static TileRef permuted(TileBuilder *b, TileRef x)
{
    TAttr a = tattr_none;

    a.rank = 2;
    a.axes[0] = 1;
    return build_add(b, TOP_permute, &a, &x, 1);
}

/* A box of places, some channels of each: rows of them. */
static TileRef box_rows(TileBuilder *b, const WindowKind *k, TileRef view, const TileRef *at, TileRef channel, int channels)
{
    TAttr a = tattr_none;
    TileRef x;

    a.rank = 4;
    for (int i = 0; i < 3; i++)
        a.shape[i] = k->box[i];
    a.shape[3] = channels;
    x = build_add(b, TOP_load, &a, (TileRef[]){view, at[0], at[1], at[2], channel}, 5);
    a = tattr_none;
    a.rank = 2;
    a.shape[0] = k->box[0] * k->box[1] * k->box[2];
    a.shape[1] = channels;
    return build_add(b, TOP_reshape, &a, &x, 1);
}

/* Tap by tap: place, and channels, of round i. */
static void round_at(TileBuilder *b, const WindowKind *k, TileRef i, TileRef *tap, TileRef *block)
{
    int taps = k->taps[0] * k->taps[1];
    TileRef number = rest(b, i, taps);

    *block = over(b, i, taps);
    tap[0] = over(b, number, k->taps[1]);
    tap[1] = rest(b, number, k->taps[1]);
}

/* Steps by columns of the kernel. */
static TileRef taps_of(TileBuilder *b, const WindowKind *k, TileRef view, TileRef column, const TileRef *tap, TileRef channel)
{
    TAttr a = tattr_none;
    TileRef in[5] = {view, column, build_none(), build_none(), channel};

    for (int i = 0; i < PLANE; i++)
        in[2 + i] = plus(b, times(b, tap[i], k->tap_each[i]), k->tap[i]);
    a.rank = 4;
    a.shape[0] = k->block[1];
    a.shape[1] = a.shape[2] = 1;
    a.shape[3] = k->block[2];
    a.drop = 6;
    return permuted(b, build_add(b, TOP_load, &a, in, 5));
}

/* ---- the sums of a block ---- */

typedef struct Sum { TileBlock *outside; TileNode *loop; TileRef i; } Sum;

static bool begin_sum(TileBuilder *b, const WindowKind *k, TileRef lo, TileRef hi, Sum *s)
{
    TileRef in[4] = {lo, hi, build_number(b, 1), build_zeros(b, k->sum, 2, (int32_t[]){k->block[0], k->block[1]})};

    *s = (Sum){.outside = b->at, .loop = in[3].node ? tile_add(b, TOP_for, NULL, in, 4) : NULL};
    if (!s->loop)
        return false;
    b->at = s->loop->region[0];
    s->i = (TileRef){b->at->params.at[0], 0};
    return true;
}

static TileRef end_sum(TileBuilder *b, const WindowKind *k, const Sum *s, TileRef x, TileRef y)
{
    TileRef in[4] = {x, y, {b->at->params.at[1], 0}, build_number(b, k->block[2])}, sum = build_add(b, TOP_dot, NULL, in, 4);

    if (!sum.node || !tile_yield(b, &sum, 1))
        return build_none();
    b->at = s->outside;
    return (TileRef){s->loop, 0};
}

/* ---- the kernels ---- */

static void schedule(TileKernel *t, const WindowKind *k)
{
    StrBuf text = {0};

    sb_printf(&text, "warps=%d sets=%d", k->warps, k->sets);
    if (k->stages)
        sb_printf(&text, " stages=%d", k->stages);
    t->schedule = sym(sb_str(&text));
    sb_done(&text);
}

static bool build_places(TileBuilder *b, const WindowKind *k, const TileRef *view)
{
    TileRef at[3], to[3], tap[PLANE], block, channel, column = times(b, build_group(b, 0), k->block[1]), in[6], x;
    TAttr a = tattr_none;
    Sum s;

    box_at(b, k, build_group(b, 1), at);
    if (!at[0].node || !begin_sum(b, k, build_number(b, 0), size_of(b, W_ROUNDS), &s))
        return false;
    round_at(b, k, s.i, tap, &block);
    channel = times(b, block, k->block[2]);
    shift(b, k, tap, at, to);
    x = box_rows(b, k, view[0], to, channel, k->block[2]);
    x = end_sum(b, k, &s, x, taps_of(b, k, view[1], column, tap, channel));
    x = converted(b, k->out, x);
    a.rank = 4;
    for (int i = 0; i < 3; i++)
        a.shape[i] = k->box[i];
    a.shape[3] = k->block[1];
    in[0] = view[2];
    for (int i = 0; i < 3; i++)
        in[1 + i] = at[i];
    in[4] = column;
    in[5] = build_add(b, TOP_reshape, &a, &x, 1);
    return in[5].node && tile_add(b, TOP_store, &tattr_none, in, 6);
}

static bool build_kernel(TileBuilder *b, const WindowKind *k, const TileRef *view)
{
    TileRef part = build_group(b, 0), column = build_group(b, 1), row = times(b, build_group(b, 2), k->block[0]), lo, hi, number, at[3], to[3], in[6];
    TileRef tap[PLANE], channel, x;
    TAttr a = tattr_none;
    Sum s;

    number = build_add2(b, TOP_idiv, column, size_of(b, W_CHANNELS));
    channel = times(b, build_add2(b, TOP_imod, column, size_of(b, W_CHANNELS)), k->block[1]);
    tap[0] = over(b, number, k->taps[1]);
    tap[1] = rest(b, number, k->taps[1]);
    lo = build_add2(b, TOP_imul, part, size_of(b, W_PART));
    hi = build_add2(b, TOP_imin, size_of(b, W_ROUNDS), build_add2(b, TOP_iadd, lo, size_of(b, W_PART)));
    if (!hi.node || !begin_sum(b, k, lo, hi, &s))
        return false;
    box_at(b, k, s.i, at);
    shift(b, k, tap, at, to);
    x = permuted(b, box_rows(b, k, view[1], at, row, k->block[0]));
    in[5] = end_sum(b, k, &s, x, box_rows(b, k, view[0], to, channel, k->block[1]));
    in[0] = view[2], in[1] = part, in[2] = row, in[3] = number, in[4] = channel;
    a.drop = 5;
    return in[5].node && tile_add(b, TOP_store, &a, in, 6);
}

/* A block of a view, of which tap `tap`'s channels are those of all places. */
static TileRef some(TileBuilder *b, const WindowKind *k, TileRef view, const TileRef *at, TileRef channel, bool places)
{
    TAttr a = tattr_none;

    a.rank = 4;
    for (int i = 0; i < 3; i++)
        a.shape[i] = places ? k->box[i] : 1;
    a.shape[3] = k->block[1];
    return converted(b, k->sum, build_add(b, TOP_load, &a, (TileRef[]){view, at[0], at[1], at[2], channel}, 5));
}

/* The sum of a line of taps is added to what those before came to. */
static TileRef add_line(TileBuilder *b, const WindowKind *k, const TileRef *view, const TileRef *at, TileRef channel, TileRef line, TileRef sum)
{
    TileRef to[3], tap[PLANE] = {line}, w[3] = {build_number(b, 0)};
    TAttr fma = tattr_none;

    fma.op = OP_fma;
    for (int i = 0; i < k->taps[1]; i++) {
        tap[1] = build_number(b, i);
        shift(b, k, tap, at, to);
        for (int j = 0; j < PLANE; j++)
            w[1 + j] = plus(b, times(b, tap[j], k->tap_each[j]), k->tap[j]);
        sum = build_add(b, TOP_map, &fma, (TileRef[]){some(b, k, view[1], w, channel, false), some(b, k, view[0], to, channel, true), sum}, 3);
    }
    return sum;
}

static bool build_channels(TileBuilder *b, const WindowKind *k, const TileRef *view)
{
    TileRef at[3], channel = times(b, build_group(b, 0), k->block[1]), in[4] = {build_number(b, 0), build_number(b, k->taps[0]), build_number(b, 1)};
    TileBlock *outside = b->at;
    const int32_t shape[4] = {k->box[0], k->box[1], k->box[2], k->block[1]};
    TileNode *loop;

    box_at(b, k, build_group(b, 1), at);
    in[3] = build_zeros(b, k->sum, 4, shape);
    loop = in[3].node ? tile_add(b, TOP_for, NULL, in, 4) : NULL;
    if (!loop)
        return false;
    b->at = loop->region[0];
    in[3] = add_line(b, k, view, at, channel, (TileRef){b->at->params.at[0], 0}, (TileRef){b->at->params.at[1], 0});
    if (!in[3].node || !tile_yield(b, &in[3], 1))
        return false;
    b->at = outside;
    in[3] = converted(b, k->out, (TileRef){loop, 0});
    return in[3].node && tile_add(b, TOP_store, &tattr_none, (TileRef[]){view[2], at[0], at[1], at[2], channel, in[3]}, 6);
}

static bool build(TileBuilder *b, const void *what)
{
    const WindowKind *k = what;
    int8_t lies[4] = {STRIDE_ANY, STRIDE_ANY, STRIDE_ANY, 1}, across[4] = {1, STRIDE_ANY, STRIDE_ANY, STRIDE_ANY};
    TileRef view[3] = {far_view(b, "x", (DType)k->dt, 4, lies), far_view(b, "w", (DType)k->dt, 4, k->across ? across : lies),
                       far_view(b, "y", (DType)k->out, 4, lies)};
    Dim size[W_SIZES];

    for (int i = 0; i < W_SIZES; i++)
        size[i] = tile_size(b->k, sym(size_names[i]));
    if (!k->by_channel)
        schedule(b->k, k);
    if (k->by_kernel) {
        vec_push(&b->k->grid, size[W_PARTS]);
        vec_push(&b->k->grid, dim_mul(size[W_CHANNELS], k->taps[0] * k->taps[1]));
        vec_push(&b->k->grid, size[W_O]);
        return build_kernel(b, k, view);
    }
    vec_push(&b->k->grid, size[W_O]);
    vec_push(&b->k->grid, dim_mul(dim_mul(size[W_N], size[W_H]), size[W_W]));
    return k->by_channel ? build_channels(b, k, view) : build_places(b, k, view);
}

FarKernel *windows_kernel(const WindowKind *k) { return far_kernel_for(k, sizeof *k, "windows", build); }
