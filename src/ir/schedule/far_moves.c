/*
 * Moves of elements on a GPU: runtime/far_moves.h.
 *
 * A box is joined to four axes or fewer, of which the last two go in tiles; boxes of more are moved one by one.  Elements are moved
 * as bits.  Where blocks land on each other (scatter) the host puts those of one place together, in order, and a group of
 * the GPU goes through them: so results are the host's, and nothing is locked.
 */
#include "runtime/far_moves.h"

#include "ir/schedule/far_impl.h"

#include "base/alloc.h"
#include "runtime/cuda.h"
#include "runtime/kernel_util.h"
#include "runtime/storage.h"

#include <string.h>

static int element_bytes(const Tensor *t) { return dtype_info[t->dtype].sbits / 8; }

/* Integers of as many bytes as an element has; NULL: there are none. */
static const char *bits_of(const Tensor *t)
{
    switch (is_packed((DType)t->dtype) ? 0 : element_bytes(t)) {
    case 1: return "uint8";
    case 2: return "uint16";
    case 4: return "uint32";
    case 8: return "uint64";
    default: return NULL;
    }
}

static int device_of(const Tensor *t) { return (int)t->store->device; }

/* The elements of t's storage from one of them on. */
static bool flat_arg(const Tensor *t, int device, bool write, int64_t from, TileArg *arg)
{
    char *base = far_address((Tensor *)t, device, write, false);
    int64_t all = (int64_t)t->store->nbytes / element_bytes(t);

    *arg = (TileArg){.base = base + from * element_bytes(t), .extent = {all - from}, .stride = {1}};
    return base;
}

/* The smallest power of two from 16 to `most` that is not below n. */
static int tile_width(int64_t n, int most)
{
    int w = 16;

    while (w < most && w < n)
        w *= 2;
    return w;
}

/* ---- boxes ---- */

enum { AXES = 4, TILE_COLUMNS = 1024, CROSS = 64, BOXES_MAX = 64 };
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

static const char box_text[] =
    "tessera.tile v1\n"
    "kernel @move(%%x: view %s[?, ?, %s, %s], %%y: view %s[?, ?, ?, %s]) sizes(a, b, m, n) grid(a*b, cdiv(m, %d), cdiv(n, %d)) {\n"
    "  %%0: index = group {axis=0}\n"
    "  %%1: index = size {name=\"b\"}\n"
    "  %%2: index = idiv %%0, %%1\n"
    "  %%3: index = imod %%0, %%1\n"
    "  %%4: index = group {axis=1}\n"
    "  %%5: index = index {i=%d}\n"
    "  %%6: index = imul %%4, %%5\n"
    "  %%7: index = group {axis=2}\n"
    "  %%8: index = index {i=%d}\n"
    "  %%9: index = imul %%7, %%8\n"
    "  %%10: %s[%d, %d] = load %%x[%%2, %%3, %%6, %%9] {shape=(1, 1, %d, %d) drop=3}\n"
    "  store %%y[%%2, %%3, %%6, %%9], %%10 {drop=3}\n"
    "}\n";

/* The widest tile of which at most an eighth lies beyond n, else the one that wastes least. */
static int fitting_width(int64_t n, int most)
{
    int w = tile_width(n, most), best = w;

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
static FarKernel *box_kernel(const char *bits, const Box *b, int bytes)
{
    bool across = b->from[3] != 1 && b->from[2] == 1 && b->size[2] > 1;
    int columns = across ? tile_width(b->size[3], CROSS) : fitting_width(b->size[3], TILE_COLUMNS);
    int rows = across ? tile_width(b->size[2], CROSS) : tile_rows(b, columns, bytes);

    return far_kernel_of(box_text, bits, across ? "1" : "?", b->from[3] == 1 ? "1" : "?", bits, b->to[3] == 1 ? "1" : "?", rows, columns, rows,
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
    const char *bits = bits_of(to.t);
    int device = device_of(to.t), outer = b.rank > AXES ? b.rank - AXES : 0;
    int64_t boxes = 1, each = element_bytes(to.t);
    char *base[2];
    FarKernel *f;

    if (outer)
        shortest_first(&b);
    last = last_axes(&b);
    for (int i = 0; i < outer; i++)
        if ((boxes *= b.size[i]) > BOXES_MAX)
            return false;
    if (!bits || !(f = box_kernel(bits, &last, (int)each))->code)
        return false;
    if (!(base[1] = far_address((Tensor *)from.t, device, false, false)) || !(base[0] = far_address((Tensor *)to.t, device, true, false)))
        return true;
    for (int64_t i = 0; i < boxes; i++) {
        int64_t at[2] = {to.offset, from.offset}, left = i;
        for (int k = outer - 1; k >= 0; left /= b.size[k], k--) {
            at[0] += left % b.size[k] * b.to[k];
            at[1] += left % b.size[k] * b.from[k];
        }
        if (!move_box(f, device, &last, base[0] + at[0] * each, base[1] + at[1] * each))
            return false;
    }
    return true;
}

/* ---- numbers for a GPU ---- */

/* n of them, to be freed. NULL: a fault is kept, or there is no memory. */
static Tensor *numbers(const int64_t *v, int64_t n)
{
    int was = device_enter(0);
    Tensor *t = tensor_new(DT_int64, 1, &n);

    device_enter(was);
    if (t)
        memcpy(storage_data(t->store), v, (size_t)n * sizeof *v);
    return t;
}

static bool number_arg(Tensor *t, int device, TileArg *arg) { return t && flat_arg(t, device, false, 0, arg); }

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

static const char gather_blocks[] =
    "tessera.tile v1\n"
    "kernel @gather(%%x: view %s[1], %%at: view int64[1], %%y: view %s[?, 1]) sizes(n, w) grid(n, cdiv(w, %d)) {\n"
    "  %%0: index = group {axis=0}\n"
    "  %%1: index = group {axis=1}\n"
    "  %%2: index = index {i=%d}\n"
    "  %%3: index = imul %%1, %%2\n"
    "  %%4: int64[] = load %%at[%%0] {shape=(1) drop=1}\n"
    "  %%5: index = to_index %%4\n"
    "  %%6: index = iadd %%5, %%3\n"
    "  %%7: %s[%d] = load %%x[%%6] {shape=(%d)}\n"
    "  store %%y[%%0, %%3], %%7 {drop=1}\n"
    "}\n";

static FarKernel *gather_kernel(const char *bits, int64_t block)
{
    int w = block == 1 ? 256 : tile_width(block, TILE_COLUMNS);

    if (block == 1)
        return far_kernel_of(gather_one, bits, bits, w, w, w, w, bits, w, w);
    return far_kernel_of(gather_blocks, bits, bits, w, w, bits, w, w);
}

static bool gather(const Tensor *to, const Tensor *x, const int64_t *at, int64_t count, int64_t block)
{
    const char *bits = bits_of(to);
    int device = device_of(to);
    FarKernel *f = bits ? gather_kernel(bits, block) : NULL;
    Tensor *places;
    TileArg arg[3];
    bool done = true;

    if (!f || !f->code || !(places = numbers(at, count)))
        return false;
    if (flat_arg(x, device, false, 0, &arg[0]) && number_arg(places, device, &arg[1]) && flat_arg(to, device, true, to->offset, &arg[2])) {
        if (block > 1)
            arg[2] = (TileArg){.base = arg[2].base, .extent = {count, block}, .stride = {block, 1}};
        arg[2].extent[0] = count;
        done = far_launch(f, device, (int64_t[]){count, block}, arg) != 0;
    }
    tensor_unref(places);
    return done;
}

/* ---- writing by place ---- */

/* Blocks by where they land: those of place[k] are order[first[k]], order[first[k] + 1], ... */
typedef struct Landing { int64_t n, *place, *first, *order; } Landing;

typedef struct Block { int64_t at, i; } Block;

/* By place, those of one place in order (radix sort, least significant digit first). */
static void sort_blocks(Block *x, Block *spare, int64_t n, int64_t largest)
{
    enum { BITS = 11, BUCKETS = 1 << BITS };
    int64_t start[BUCKETS + 1];

    for (int shift = 0; largest >> shift; shift += BITS) {
        memset(start, 0, sizeof start);
        for (int64_t k = 0; k < n; k++)
            start[(x[k].at >> shift & (BUCKETS - 1)) + 1]++;
        for (int d = 0; d < BUCKETS; d++)
            start[d + 1] += start[d];
        for (int64_t k = 0; k < n; k++)
            spare[start[x[k].at >> shift & (BUCKETS - 1)]++] = x[k];
        memcpy(x, spare, (size_t)n * sizeof *x);
    }
}

static Landing land(const int64_t *at, int64_t count)
{
    Landing l = {0, tsr_alloc((size_t)count * sizeof *l.place), tsr_alloc((size_t)(count + 1) * sizeof *l.first),
                 tsr_alloc((size_t)count * sizeof *l.order)};
    Block *b = tsr_alloc(2 * (size_t)count * sizeof *b);
    int64_t largest = 0;
    bool sorted = true;

    for (int64_t i = 0; i < count; i++) {
        b[i] = (Block){at[i], i};
        largest = at[i] > largest ? at[i] : largest;
        sorted &= !i || at[i - 1] <= at[i];
    }
    if (!sorted)
        sort_blocks(b, b + count, count, largest);
    for (int64_t i = 0; i < count; i++) {
        if (!i || b[i].at != b[i - 1].at) {
            l.place[l.n] = b[i].at;
            l.first[l.n++] = i;
        }
        l.order[i] = b[i].i;
    }
    l.first[l.n] = count;
    tsr_free(b);
    return l;
}

static const char scatter_head[] =
    "tessera.tile v1\n"
    "kernel @scatter(%%v: view %s[?, 1], %%place: view int64[1], %%first: view int64[1], %%order: view int64[1], %%y: view %s[1]) "
    "sizes(u, w) grid(u, cdiv(w, %d)) {\n"
    "  %%0: index = group {axis=0}\n"
    "  %%1: index = group {axis=1}\n"
    "  %%2: index = index {i=%d}\n"
    "  %%3: index = imul %%1, %%2\n"
    "  %%4: int64[] = load %%place[%%0] {shape=(1) drop=1}\n"
    "  %%5: index = to_index %%4\n"
    "  %%6: index = size {name=\"w\"}\n"
    "  %%7: view %s[1] = part %%y[%%5], %%6\n"
    "  %%8: index = index {i=1}\n"
    "  %%9: index = iadd %%0, %%8\n"
    "  %%10: int64[] = load %%first[%%9] {shape=(1) drop=1}\n"
    "  %%11: index = to_index %%10\n";

static const char put_last[] =
    "  %%12: index = isub %%11, %%8\n"
    "  %%13: int64[] = load %%order[%%12] {shape=(1) drop=1}\n"
    "  %%14: index = to_index %%13\n"
    "  %%15: %s[%d] = load %%v[%%14, %%3] {shape=(1, %d) drop=1}\n"
    "  store %%7[%%3], %%15\n"
    "}\n";

static const char add_all[] =
    "  %%12: int64[] = load %%first[%%0] {shape=(1) drop=1}\n"
    "  %%13: index = to_index %%12\n"
    "  %%14: %s[%d] = load %%7[%%3] {shape=(%d)}\n"
    "  %%15: %s[%d] = map convert %%14 {dtype=%s}\n"
    "  %%16: %s[%d] = for %%17 = %%13 to %%11 step %%8 carry(%%18 = %%15) {\n"
    "    %%19: int64[] = load %%order[%%17] {shape=(1) drop=1}\n"
    "    %%20: index = to_index %%19\n"
    "    %%21: %s[%d] = load %%v[%%20, %%3] {shape=(1, %d) drop=1}\n"
    "    %%22: %s[%d] = map convert %%21 {dtype=%s}\n"
    "    %%23: %s[%d] = map add %%18, %%22\n"
    "    yield %%23\n"
    "  }\n"
    "  %%24: %s[%d] = map convert %%16 {dtype=%s}\n"
    "  store %%7[%%3], %%24\n"
    "}\n";

/* Sums of integers are in their own dtype, those of floats in their accumulator. */
static bool adds(DType dt) { return dt == DT_f32 || dt == DT_f64 || dt == DT_bf16 || dt == DT_f16 || dt == DT_int32 || dt == DT_int64; }

static FarKernel *scatter_kernel(OpId op, const Tensor *to, const Tensor *values, int64_t block)
{
    DType dt = (DType)to->dtype, accum = dtype_is_inexact(dt) ? dtype_accum(dt) : dt;
    const char *d = op == OP_index_add ? dtype_info[dt].name : bits_of(to), *v = op == OP_index_add ? dtype_info[values->dtype].name : d;
    const char *a = dtype_info[accum].name;
    int w = tile_width(block, TILE_COLUMNS);
    StrBuf text = {0};
    FarKernel *f;

    if (!d || (op == OP_index_add ? !adds(dt) || !adds((DType)values->dtype) : dt != values->dtype))
        return NULL;
    sb_printf(&text, scatter_head, v, d, w, w, d);
    if (op == OP_index_put)
        sb_printf(&text, put_last, d, w, w);
    else
        sb_printf(&text, add_all, d, w, w, a, w, a, a, w, v, w, w, a, w, a, a, w, d, w, d);
    f = far_kernel(sb_str(&text));
    sb_done(&text);
    return f;
}

static bool scatter(OpId op, const Tensor *to, const Tensor *values, const int64_t *at, int64_t count, int64_t block)
{
    FarKernel *f = scatter_kernel(op, to, values, block);
    int device = device_of(to);
    TileArg arg[5];
    bool done = true;

    if (!f || !f->code)
        return false;
    Landing l = land(at, count);
    Tensor *place = numbers(l.place, l.n), *first = numbers(l.first, l.n + 1), *order = numbers(l.order, count);
    if (flat_arg(values, device, false, values->offset, &arg[0]) && number_arg(place, device, &arg[1]) && number_arg(first, device, &arg[2]) &&
        number_arg(order, device, &arg[3]) && flat_arg(to, device, true, 0, &arg[4])) {
        arg[0] = (TileArg){.base = arg[0].base, .extent = {count, block}, .stride = {block, 1}};
        done = far_launch(f, device, (int64_t[]){l.n, block}, arg) != 0;
    }
    tensor_unref(place);
    tensor_unref(first);
    tensor_unref(order);
    tsr_free(l.place);
    tsr_free(l.first);
    tsr_free(l.order);
    return done;
}

const FarMoves far_moves_made = {box, gather, scatter, far_scan, far_sort};
