/*
 * Moves of elements on a GPU: runtime/far_moves.h.
 *
 * A box is joined to four axes or fewer, of which the last two go in tiles.  Up to three axes more are axes of the same launch, whose places
 * groups work out; boxes of even more are moved one by one.  Elements are moved as bits.  Index tensors are far_points.c's.
 */
#include "runtime/far_moves.h"

#include "ir/schedule/far_impl.h"

#include "base/alloc.h"
#include "runtime/cuda.h"
#include "runtime/kernel_util.h"
#include "runtime/storage.h"

#include <string.h>

static int element_bytes(const Tensor *t) { return dtype_info[t->dtype].sbits / 8; }

static const char *unsigned_of(int bytes)
{
    switch (bytes) {
    case 1: return "uint8";
    case 2: return "uint16";
    case 4: return "uint32";
    case 8: return "uint64";
    default: return NULL;
    }
}

const char *far_bits(const Tensor *t) { return unsigned_of(is_packed((DType)t->dtype) ? 0 : element_bytes(t)); }

static int device_of(const Tensor *t) { return (int)t->store->device; }

bool far_flat(const Tensor *t, int device, bool write, int64_t from, TileArg *arg)
{
    char *base = far_address((Tensor *)t, device, write, false);
    int64_t all = (int64_t)t->store->nbytes / element_bytes(t);

    *arg = (TileArg){.base = base ? base + from * element_bytes(t) : NULL, .extent = {all - from}, .stride = {1}};
    return base;
}

int far_width(int64_t n, int most)
{
    int w = 16;

    while (w < most && w < n)
        w *= 2;
    return w;
}

/* ---- boxes ---- */

enum { AXES = 4, TILE_COLUMNS = 1024, CROSS = 64, BOXES_MAX = 64, OUTER = 3 };
#define MANY_ELEMENTS (INT64_C(1) << 46)
enum { MOVE_FEW = 1024, MOVE_BYTES = 16384, GROUPS_MANY = 1024 };       /* of a tile: elements where there is little to move, else bytes */

typedef struct Box { int rank; int64_t size[RANK_MAX], to[RANK_MAX], from[RANK_MAX]; } Box;

/* Without axes of 1, and with those joined that both sides step through evenly. */
static Box joined(const FarPlace *to, const FarPlace *from, int rank, const int64_t *size)
{
    Box b = {0};

    for (int i = 0; i < rank; i++) {
        int last = b.rank - 1;
        if (size[i] == 1)
            continue;
        if (b.rank && b.to[last] == to->stride[i] * size[i] && b.from[last] == from->stride[i] * size[i]) {
            b.size[last] *= size[i];
            b.to[last] = to->stride[i];
            b.from[last] = from->stride[i];
        } else {
            b.size[b.rank] = size[i];
            b.to[b.rank] = to->stride[i];
            b.from[b.rank++] = from->stride[i];
        }
    }
    return b;
}

/* Where a group's part begins on one side, %fx or %fy. */
#define FAR_FROM(s) \
    "  %%" s "sl: index = size {name=\"" s "l\"}\n" \
    "  %%" s "sk: index = size {name=\"" s "k\"}\n" \
    "  %%" s "sj: index = size {name=\"" s "j\"}\n" \
    "  %%" s "sa: index = size {name=\"" s "a\"}\n" \
    "  %%" s "1: index = imul %%l, %%" s "sl\n" \
    "  %%" s "2: index = imul %%k, %%" s "sk\n" \
    "  %%" s "3: index = imul %%j, %%" s "sj\n" \
    "  %%" s "4: index = imul %%a, %%" s "sa\n" \
    "  %%" s "5: index = iadd %%" s "1, %%" s "2\n" \
    "  %%" s "6: index = iadd %%" s "3, %%" s "4\n" \
    "  %%f" s ": index = iadd %%" s "5, %%" s "6\n"

/* A group's part of a matrix, from place (x, b) of one side to (y, b) of the other. */
#define BOX_PART(x, y, b) \
    "  %%4: index = group {axis=1}\n" \
    "  %%5: index = index {i=%d}\n" \
    "  %%6: index = imul %%4, %%5\n" \
    "  %%7: index = group {axis=2}\n" \
    "  %%8: index = index {i=%d}\n" \
    "  %%9: index = imul %%7, %%8\n" \
    "  %%10: %s[%d, %d] = load %%x[%%" x ", %%" b ", %%6, %%9] {shape=(1, 1, %d, %d) drop=3}\n" \
    "  store %%y[%%" y ", %%" b ", %%6, %%9], %%10 {drop=3}\n" \
    "}\n"

static const char box_text[] =
    "tessera.tile v1\n"
    "kernel @move(%%x: view %s[?, ?, %s, %s], %%y: view %s[?, ?, ?, %s]) sizes(a, b, m, n) grid(a*b, cdiv(m, %d), cdiv(n, %d)) {\n"
    "  %%0: index = group {axis=0}\n"
    "  %%1: index = size {name=\"b\"}\n"
    "  %%2: index = idiv %%0, %%1\n"
    "  %%3: index = imod %%0, %%1\n"
    BOX_PART("2", "2", "3");

/*
 * The same with three axes more, in front: the first axis of the views goes by single elements, and a group works out where on it its part begins.
 * l, k, j and a are sizes of these four axes, xl ... ya what their steps are on both sides.
 */
static const char far_box_text[] =
    "tessera.tile v1\n"
    "kernel @move(%%x: view %s[?, ?, %s, %s], %%y: view %s[?, ?, ?, %s]) sizes(a, b, m, n, l, k, j, xl, xk, xj, xa, yl, yk, yj, ya) "
    "grid(l*k*j*a*b, cdiv(m, %d), cdiv(n, %d)) {\n"
    "  %%g: index = group {axis=0}\n"
    "  %%sb: index = size {name=\"b\"}\n"
    "  %%b: index = imod %%g, %%sb\n"
    "  %%g1: index = idiv %%g, %%sb\n"
    "  %%sa: index = size {name=\"a\"}\n"
    "  %%a: index = imod %%g1, %%sa\n"
    "  %%g2: index = idiv %%g1, %%sa\n"
    "  %%sj: index = size {name=\"j\"}\n"
    "  %%j: index = imod %%g2, %%sj\n"
    "  %%g3: index = idiv %%g2, %%sj\n"
    "  %%sk: index = size {name=\"k\"}\n"
    "  %%k: index = imod %%g3, %%sk\n"
    "  %%l: index = idiv %%g3, %%sk\n"
    FAR_FROM("x")
    FAR_FROM("y")
    BOX_PART("fx", "fy", "b");

/* The widest tile of which at most an eighth lies beyond n, else the one that wastes least. */
static int fitting_width(int64_t n, int most)
{
    int w = far_width(n, most), best = w;

    for (; w >= 16 && (best + n - 1) / best * best - n > n / 8; w /= 2)
        if ((n + w - 1) / w * w < (n + best - 1) / best * best)
            best = w;
    return best;
}

/* So many rows that a group has enough to do, and there are enough groups. */
static int tile_rows(const Box *b, int columns, int bytes)
{
    double all = 1;
    int rows = 1, most = MOVE_BYTES / bytes;

    for (int i = 0; i < AXES; i++)
        all *= (double)b->size[i];
    most = all < (double)most * GROUPS_MANY ? MOVE_FEW : most;
    while (rows * columns < most && rows < b->size[2])
        rows *= 2;
    return rows;
}

/* Axes but the last may stand in any order: rows of tiles are those that lie side by side in the source, if the columns do not, else the longest. */
static void choose_rows(Box *b)
{
    int rows = AXES - 2;
    bool beside = b->from[AXES - 1] == 1;

    for (int i = rows - 1; i >= 0; i--) {
        bool better = beside ? b->size[i] > b->size[rows] : b->size[i] > 1 && b->from[i] == 1;
        rows = better ? i : rows;
    }
    for (int64_t *v = b->size, k = 0; k < 3; k++, v = k == 1 ? b->to : b->from) {
        int64_t one = v[rows];
        v[rows] = v[AXES - 2];
        v[AXES - 2] = one;
    }
}

/* Crosswise: what lies side by side in the source are elements of a column. */
static FarKernel *box_kernel(const char *bits, const Box *b, int bytes, bool outer)
{
    bool across = b->from[3] != 1 && b->from[2] == 1 && b->size[2] > 1;
    int columns = across ? far_width(b->size[3], CROSS) : fitting_width(b->size[3], TILE_COLUMNS);
    int rows = across ? far_width(b->size[2], CROSS) : tile_rows(b, columns, bytes);

    const char *text = outer ? far_box_text : box_text;

    return far_kernel_of(text, bits, across ? "1" : "?", b->from[3] == 1 ? "1" : "?", bits, b->to[3] == 1 ? "1" : "?", rows, columns, rows,
                         columns, bits, rows, columns, rows, columns);
}

/* One of four axes, at these offsets behind the two bases. */
static bool move_box(const FarKernel *f, int device, const Box *b, char *to, char *from)
{
    TileArg arg[2] = {{.base = from}, {.base = to}};

    for (int i = 0; i < AXES; i++) {
        arg[0].extent[i] = arg[1].extent[i] = b->size[i];
        arg[0].stride[i] = b->from[i];
        arg[1].stride[i] = b->to[i];
    }
    return far_launch(f, device, b->size, arg) != 0;
}

/* One of four axes, and of the `outer` ones, three at most, that stand before these. */
static bool move_boxes(const FarKernel *f, int device, const Box *b, const Box *last, int outer, char *to, char *from)
{
    int64_t size[15] = {last->size[0], last->size[1], last->size[2], last->size[3], 1, 1, 1};
    TileArg arg[2] = {{.base = from}, {.base = to}};

    for (int i = 0; i < outer; i++) {
        int k = b->rank - AXES - outer + i, at = OUTER - outer + i;
        size[AXES + at] = b->size[k];
        size[AXES + OUTER + at] = b->from[k];
        size[AXES + OUTER + AXES + at] = b->to[k];
    }
    size[AXES + OUTER + OUTER] = last->from[0];
    size[AXES + OUTER + AXES + OUTER] = last->to[0];
    for (int i = 0; i < AXES; i++) {
        arg[0].extent[i] = arg[1].extent[i] = i ? last->size[i] : MANY_ELEMENTS;
        arg[0].stride[i] = i ? last->from[i] : 1;
        arg[1].stride[i] = i ? last->to[i] : 1;
    }
    return far_launch(f, device, size, arg) != 0;
}

/* Do these axes go upwards on both sides? */
static bool go_up(const Box *b, int from, int n)
{
    for (int i = from; i < from + n; i++)
        if (b->to[i] < 0 || b->from[i] < 0)
            return false;
    return true;
}

/* Axes but the last may stand in any order: the shortest ones go in front, for which boxes are moved one by one. */
static void shortest_first(Box *b)
{
    for (int i = 0; i < b->rank - 1; i++)
        for (int k = i; k > 0 && b->size[k] < b->size[k - 1]; k--)
            for (int64_t *v = b->size, n = 0; n < 3; n++, v = n == 1 ? b->to : b->from) {
                int64_t one = v[k];
                v[k] = v[k - 1];
                v[k - 1] = one;
            }
}

/* The last four axes, in front of which go axes of 1 where there are fewer. */
static Box last_axes(const Box *b)
{
    Box last = {.rank = AXES};

    for (int i = 0; i < AXES; i++) {
        int k = b->rank - AXES + i;
        last.size[i] = k < 0 ? 1 : b->size[k];
        last.to[i] = k < 0 ? 0 : b->to[k];
        last.from[i] = k < 0 ? 0 : b->from[k];
    }
    if (b->rank < 1)
        last.to[3] = last.from[3] = 1;
    choose_rows(&last);
    return last;
}

static bool box(FarPlace to, FarPlace from, int rank, const int64_t *size)
{
    Box b = joined(&to, &from, rank, size), last;
    const char *bits = far_bits(to.t);
    int device = device_of(to.t), outer = b.rank > AXES ? b.rank - AXES : 0;
    int64_t boxes = 1, each = element_bytes(to.t);
    int within;
    char *base[2];
    FarKernel *f;

    if (outer)
        shortest_first(&b);
    last = last_axes(&b);
    within = outer > OUTER ? OUTER : outer;
    if (!go_up(&b, outer - within, within) || last.to[0] < 0 || last.from[0] < 0)
        within = 0;
    outer -= within;
    for (int i = 0; i < outer; i++)
        if ((boxes *= b.size[i]) > BOXES_MAX)
            return false;
    if (!bits || !(f = box_kernel(bits, &last, (int)each, within))->code)
        return false;
    if (!(base[1] = far_address((Tensor *)from.t, device, false, false)) || !(base[0] = far_address((Tensor *)to.t, device, true, false)))
        return true;
    for (int64_t i = 0; i < boxes; i++) {
        int64_t at[2] = {to.offset, from.offset}, left = i;
        for (int k = outer - 1; k >= 0; left /= b.size[k], k--) {
            at[0] += left % b.size[k] * b.to[k];
            at[1] += left % b.size[k] * b.from[k];
        }
        base[0] += at[0] * each, base[1] += at[1] * each;
        if (!(within ? move_boxes(f, device, &b, &last, within, base[0], base[1]) : move_box(f, device, &last, base[0], base[1])))
            return false;
        base[0] -= at[0] * each, base[1] -= at[1] * each;
    }
    return true;
}

/* ---- numbers for a GPU ---- */

Tensor *far_numbers(DType dt, const void *v, int64_t n)
{
    int was = device_enter(0);
    Tensor *t = tensor_new(dt, 1, &n);

    device_enter(was);
    if (t)
        memcpy(storage_data(t->store), v, (size_t)n * raw_size(dt));
    return t;
}

/* ---- reading by place ---- */

static const char gather_one[] =
    "tessera.tile v1\n"
    "kernel @gather(%%x: view %s[1], %%at: view int64[1], %%y: view %s[1]) sizes(n, w) grid(cdiv(n, %d)) {\n"
    "  %%0: index = group {axis=0}\n"
    "  %%1: index = index {i=%d}\n"
    "  %%2: index = imul %%0, %%1\n"
    "  %%3: int64[%d] = load %%at[%%2] {shape=(%d)}\n"
    "  %%4: %s[%d] = gather %%x, %%3 {shape=(%d)}\n"
    "  store %%y[%%2], %%4\n"
    "}\n";

/* Words of blocks, of which a lane has GATHER_LANE, all under way before the first is written. */
static const char gather_head[] =
    "tessera.tile v1\n"
    "kernel @gather(%%x: view %s[1], %%at: view int64[1], %%y: view %s[1]) sizes(n, w) grid(cdiv(n*w, %d)) lanes=256 {\n"
    "  %%n: index = size {name=\"n\"}\n"
    "  %%w: index = size {name=\"w\"}\n"
    "  %%all: index = imul %%n, %%w\n"
    "  %%one: index = index {i=1}\n"
    "  %%last: index = isub %%all, %%one\n"
    "  %%each: index = index {i=%d}\n"
    "  %%ratio: index = index {i=%d}\n"
    "  %%g: index = group {axis=0}\n"
    "  %%g0: index = imul %%g, %%each\n"
    "  %%lane: index = lane\n"
    "  %%q: index = iadd %%g0, %%lane\n";

static const char gather_load[] =
    "  %%o%d: index = index {i=%d}\n"
    "  %%f%d: index = iadd %%q, %%o%d\n"
    "  %%q%d: index = imin %%f%d, %%last\n"
    "  %%i%d: index = idiv %%q%d, %%w\n"
    "  %%c%d: index = imod %%q%d, %%w\n"
    "  %%a%d: int64[] = load %%at[%%i%d] {shape=(1) drop=1}\n"
    "  %%b%d: index = to_index %%a%d\n"
    "  %%u%d: index = idiv %%b%d, %%ratio\n"
    "  %%p%d: index = iadd %%u%d, %%c%d\n"
    "  %%x%d: %s[] = load %%x[%%p%d] {shape=(1) drop=1}\n";

enum { GATHER_LANE = 4, GATHER_LANES = 256 };

/* Of words of so many bytes. */
static FarKernel *gather_kernel(int bytes, bool single, int ratio)
{
    const struct { char name[8]; int32_t bytes, single, ratio; } what = {"gather", bytes, single, ratio};
    const char *bits = unsigned_of(bytes);
    uint64_t key = far_key(&what, sizeof what);
    FarKernel *f = far_known(key);
    StrBuf text = {0};

    if (f)
        return f;
    if (single) {
        sb_printf(&text, gather_one, bits, bits, GATHER_LANES, GATHER_LANES, GATHER_LANES, GATHER_LANES, bits, GATHER_LANES, GATHER_LANES);
    } else {
        sb_printf(&text, gather_head, bits, bits, GATHER_LANE * GATHER_LANES, GATHER_LANE * GATHER_LANES, ratio);
        for (int k = 0; k < GATHER_LANE; k++)
            sb_printf(&text, gather_load, k, k * GATHER_LANES, k, k, k, k, k, k, k, k, k, k, k, k, k, k, k, k, k, k, bits, k);
        for (int k = 0; k < GATHER_LANE; k++)
            sb_printf(&text, "  store %%y[%%q%d], %%x%d {drop=1}\n", k, k);
        sb_puts(&text, "}\n");
    }
    f = far_read(key, sb_str(&text));
    sb_done(&text);
    return f;
}

/* Elements of the largest words, of eight bytes at most, that blocks of x and all that leads to them consist of. */
static int word_elements(const Tensor *x, const Tensor *to, int64_t block)
{
    int64_t step = 1, all = block | x->offset | to->offset;
    int n = 8 / element_bytes(x);

    for (int i = x->rank - 1; i >= 0; i--) {
        bool within = x->stride[i] == step && step * x->shape[i] <= block;
        step *= within ? x->shape[i] : 1;
        all |= within || x->shape[i] == 1 ? 0 : x->stride[i];
    }
    while (all % n)
        n /= 2;
    return n;
}

static bool gather(const Tensor *to, const Tensor *x, const FarPoints *p)
{
    const char *bits = far_bits(to);
    int ratio = bits ? word_elements(x, to, p->block) : 1, device = device_of(to);
    FarKernel *f = bits ? gather_kernel(ratio * element_bytes(to), p->block == 1, ratio) : NULL;
    Tensor *places;
    TileArg arg[3];
    bool done = true;

    if (!f || !f->code || !(places = p->there ? tensor_ref(p->there) : far_numbers(DT_int64, p->at, p->count)))
        return false;
    if (far_flat(x, device, false, 0, &arg[0]) && far_flat(places, device, false, 0, &arg[1]) && far_flat(to, device, true, to->offset, &arg[2])) {
        arg[0].extent[0] /= ratio;
        arg[2].extent[0] = p->count * p->block / ratio;
        done = far_launch(f, device, (int64_t[]){p->count, p->block / ratio}, arg) != 0;
    }
    tensor_unref(places);
    return done;
}

const FarMoves far_moves_made = {box, far_places, gather, far_scatter, far_scan, far_sort, far_first, far_nonzero, far_search, far_prefetch};
