/*
 * Convolutions as products whose windows are never laid out (implicit products): a block of rows is a box of places, and what a tap of theirs
 * meets is a box of the image, shifted, with zeros beyond its edges.  Tensor copies bring such boxes.
 *
 *      rows: places      steps: channels, tap by tap         columns: outputs       (a convolution, and the derivative by its input)
 *      rows: outputs     steps: places                       columns: channels of a tap          (the derivative by the kernel)
 *
 * Of the former a round is one tap of some channels: taps go fastest, so that what they share is in the caches.
 */
#include "ir/schedule/far_windows.h"

#include <string.h>

static const char *const size_names[W_SIZES] = {"n", "h", "w", "o", "rounds", "part", "parts", "channels", "xn", "xd", "xh", "xw",
                                                "d", "yn", "yd", "wd", "group", "each"};

static TileRef size_of(TileBuilder *b, WindowSize s) { return build_size(b, size_names[s]); }
static TileRef times(TileBuilder *b, TileRef x, int64_t n) { return n == 1 ? x : build_add2(b, TOP_imul, x, build_number(b, n)); }
static TileRef plus(TileBuilder *b, TileRef x, int64_t n) { return n ? build_add2(b, TOP_iadd, x, build_number(b, n)) : x; }
static TileRef over(TileBuilder *b, TileRef x, int64_t n) { return n == 1 ? x : build_add2(b, TOP_idiv, x, build_number(b, n)); }
static TileRef rest(TileBuilder *b, TileRef x, int64_t n) { return n == 1 ? build_number(b, 0) : build_add2(b, TOP_imod, x, build_number(b, n)); }

/* Where a box is: image (or, of some with depth, plane), line, place; depth. */
typedef struct Where { TileRef at[3], depth; } Where;

/* Where the box with this number begins. */
static Where box_at(TileBuilder *b, const WindowKind *k, TileRef number)
{
    TileRef h = size_of(b, W_H), w = size_of(b, W_W), line = build_add2(b, TOP_idiv, number, w), image = build_add2(b, TOP_idiv, line, h), depths;
    Where x = {.depth = build_none()};

    x.at[0] = k->deep ? image : times(b, image, k->box[0]);
    x.at[1] = times(b, build_add2(b, TOP_imod, line, h), k->box[1]);
    x.at[2] = times(b, build_add2(b, TOP_imod, number, w), k->box[2]);
    if (k->deep) {
        depths = size_of(b, W_D);
        x.at[0] = build_add2(b, TOP_idiv, image, depths);
        x.depth = build_add2(b, TOP_imod, image, depths);
    }
    return x;
}

/* That box of the result, or of the cotangent. */
static void place_of(TileBuilder *b, const WindowKind *k, const Where *x, TileRef *to)
{
    memcpy(to, x->at, sizeof x->at);
    if (k->deep) {
        to[0] = build_add2(b, TOP_imul, x->at[0], size_of(b, W_YN));
        to[0] = build_add2(b, TOP_iadd, to[0], build_add2(b, TOP_imul, x->depth, size_of(b, W_YD)));
    }
}

/* The same box of the image, shifted to a tap. */
static void shift(TileBuilder *b, const WindowKind *k, const TileRef *tap, const Where *x, TileRef *to)
{
    static const WindowSize apart[PLANE] = {W_XH, W_XW};

    to[0] = build_add2(b, TOP_imul, x->at[0], size_of(b, W_XN));
    if (k->deep) {
        TileRef q = plus(b, times(b, tap[OF_DEPTH], k->each[OF_DEPTH]), k->start[OF_DEPTH]);
        q = build_add2(b, TOP_iadd, q, times(b, x->depth, k->stride[OF_DEPTH]));
        to[0] = build_add2(b, TOP_iadd, to[0], build_add2(b, TOP_imul, q, size_of(b, W_XD)));
    }
    for (int i = 0; i < PLANE; i++) {
        TileRef q = plus(b, times(b, tap[i], k->each[i]), k->start[i]);
        to[1 + i] = build_add2(b, TOP_iadd, x->at[1 + i], over(b, q, k->stride[i]));
        if (k->stride[i] > 1)
            to[0] = build_add2(b, TOP_iadd, to[0], build_add2(b, TOP_imul, rest(b, q, k->stride[i]), size_of(b, apart[i])));
    }
}

/* The tap with this number. */
static void tap_at(TileBuilder *b, const WindowKind *k, TileRef number, TileRef *tap)
{
    TileRef line = over(b, number, k->taps[1]);

    tap[1] = rest(b, number, k->taps[1]);
    tap[0] = k->deep ? rest(b, line, k->taps[0]) : line;
    tap[OF_DEPTH] = k->deep ? over(b, line, k->taps[0]) : build_none();
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
    int taps = k->taps[0] * k->taps[1] * k->taps[OF_DEPTH];

    *block = over(b, i, taps);
    tap_at(b, k, rest(b, i, taps), tap);
}

/* Steps by columns of the kernel. */
static TileRef taps_of(TileBuilder *b, const WindowKind *k, TileRef view, TileRef column, const TileRef *tap, TileRef channel)
{
    TAttr a = tattr_none;
    TileRef in[5] = {view, column, build_none(), build_none(), channel};

    for (int i = 0; i < PLANE; i++)
        in[2 + i] = plus(b, times(b, tap[i], k->tap_each[i]), k->tap[i]);
    if (k->deep) {
        TileRef depth = plus(b, times(b, tap[OF_DEPTH], k->tap_each[OF_DEPTH]), k->tap[OF_DEPTH]);
        in[2] = build_add2(b, TOP_iadd, in[2], build_add2(b, TOP_imul, depth, size_of(b, W_WD)));
    }
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

/* Of the group that has this output. */
static TileRef first_channel(TileBuilder *b, TileRef output)
{
    TileRef group = build_add2(b, TOP_idiv, output, size_of(b, W_GROUP));

    return times(b, build_add2(b, TOP_imul, group, size_of(b, W_EACH)), WINDOW_STEPS);
}

static bool build_places(TileBuilder *b, const WindowKind *k, const TileRef *view)
{
    TileRef to[3], tap[SPATIAL], block, channel, column = times(b, build_group(b, 0), k->block[1]), in[6], x;
    Where at = box_at(b, k, build_group(b, 1));
    TAttr a = tattr_none;
    Sum s;

    if (!at.at[0].node || !begin_sum(b, k, build_number(b, 0), size_of(b, W_ROUNDS), &s))
        return false;
    round_at(b, k, s.i, tap, &block);
    channel = times(b, block, k->block[2]);
    shift(b, k, tap, &at, to);
    x = box_rows(b, k, view[0], to, k->grouped ? build_add2(b, TOP_iadd, channel, first_channel(b, column)) : channel, k->block[2]);
    x = end_sum(b, k, &s, x, taps_of(b, k, view[1], column, tap, channel));
    x = converted(b, k->out, x);
    a.rank = 4;
    for (int i = 0; i < 3; i++)
        a.shape[i] = k->box[i];
    a.shape[3] = k->block[1];
    in[0] = view[2];
    place_of(b, k, &at, &in[1]);
    in[4] = column;
    in[5] = build_add(b, TOP_reshape, &a, &x, 1);
    return in[5].node && tile_add(b, TOP_store, &tattr_none, in, 6);
}

static bool build_kernel(TileBuilder *b, const WindowKind *k, const TileRef *view)
{
    TileRef part = build_group(b, 0), column = build_group(b, 1), row = times(b, build_group(b, 2), k->block[0]), lo, hi, number, to[3], in[6];
    TileRef tap[SPATIAL], channel, x;
    Where at;
    TAttr a = tattr_none;
    Sum s;

    number = build_add2(b, TOP_idiv, column, size_of(b, W_CHANNELS));
    channel = times(b, build_add2(b, TOP_imod, column, size_of(b, W_CHANNELS)), k->block[1]);
    tap_at(b, k, number, tap);
    lo = build_add2(b, TOP_imul, part, size_of(b, W_PART));
    hi = build_add2(b, TOP_imin, size_of(b, W_ROUNDS), build_add2(b, TOP_iadd, lo, size_of(b, W_PART)));
    if (!hi.node || !begin_sum(b, k, lo, hi, &s))
        return false;
    at = box_at(b, k, s.i);
    place_of(b, k, &at, to);
    x = permuted(b, box_rows(b, k, view[1], to, row, k->block[0]));
    shift(b, k, tap, &at, to);
    in[5] = end_sum(b, k, &s, x, box_rows(b, k, view[0], to, channel, k->block[1]));
    in[0] = view[2], in[1] = part, in[2] = row, in[3] = number, in[4] = channel;
    a.drop = 5;
    return in[5].node && tile_add(b, TOP_store, &a, in, 6);
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
    schedule(b->k, k);
    if (k->by_kernel) {
        vec_push(&b->k->grid, size[W_PARTS]);
        vec_push(&b->k->grid, dim_mul(size[W_CHANNELS], k->taps[0] * k->taps[1] * k->taps[OF_DEPTH]));
        vec_push(&b->k->grid, size[W_O]);
        return build_kernel(b, k, view);
    }
    vec_push(&b->k->grid, size[W_O]);
    vec_push(&b->k->grid, dim_mul(dim_mul(size[W_N], size[W_H]), size[W_W]));
    return build_places(b, k, view);
}

FarKernel *windows_kernel(const WindowKind *k) { return far_kernel_for(k, sizeof *k, "windows", build); }
