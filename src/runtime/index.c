/*
 * Indexing by tensors.
 *
 * Letters: m batch axes, n indexed axes after them, the rest follow.  An index
 * point is a batch place and a place in the joined shape of the indices; each
 * point names a block of the rest.  All points are resolved and checked first,
 * so a bad index leaves nothing half done; then blocks move in row-major order
 * of points, which says what duplicates mean.
 */
#include "runtime/indices.h"

#include "runtime/far_moves.h"
#include "runtime/kernel_util.h"
#include "runtime/loops.h"

#include "base/alloc.h"

#include <string.h>

typedef struct Points {
    int64_t count;              /* points */
    int64_t block;              /* elements of a block */
    int rest;                   /* axes of a block */
    const int64_t *shape;       /* their sizes */
    int64_t *at;                /* storage offset of each point, in strides of the target */
} Points;

int index_shape(const Attr *a, Tensor *const *in, int lo, int64_t *shape)
{
    int rank = 0;

    for (int i = 0; i < a->m; i++)
        shape[i] = in[0]->shape[i];
    for (int k = lo; k < lo + a->n; k++)
        rank = in[k]->rank - a->m > rank ? in[k]->rank - a->m : rank;
    for (int i = 0; i < rank; i++) {
        int64_t size = 1;
        for (int k = lo; k < lo + a->n; k++) {
            int own = in[k]->rank - rank + i;
            if (own >= a->m && in[k]->shape[own] != 1)
                size = in[k]->shape[own];
        }
        shape[a->m + i] = size;
    }
    return a->m + rank;
}

/* An index operand over all points: its batch axes in front, its own axes aligned at the last. */
static void open_index(Reader *r, const Tensor *t, int m, int rank, const int64_t *shape)
{
    int64_t stride[RANK_MAX] = {0};

    for (int i = 0; i < m; i++)
        stride[i] = t->shape[i] == 1 ? 0 : t->stride[i];
    for (int own = m; own < t->rank; own++)
        stride[rank - t->rank + own] = t->shape[own] == 1 ? 0 : t->stride[own];
    reader_view(r, t, rank, shape, stride, t->offset);
    r->as = DT_int64;
}

/* An index operand: its numbers, and what each is worth. */
typedef struct Numbers { Reader r; int axis; int64_t size, stride; } Numbers;

static void numbers_open(Numbers *x, const Attr *a, const Tensor *t, int k, const Tensor *target, int rank, const int64_t *shape)
{
    open_index(&x->r, t, a->m, rank, shape);
    x->axis = a->m + k;
    x->size = target->shape[x->axis];
    x->stride = target->stride[x->axis];
}

/* Add the operand's part to points lo..hi. false: a number, *wrong, is out of range. */
static bool add_numbers(Numbers *x, const Points *p, int64_t lo, int64_t hi, int64_t *wrong)
{
    TileBuf buf, spare;

    for (int64_t i = lo, n; i < hi; i += n) {
        n = hi - i < TILE ? hi - i : TILE;
        const int64_t *v = reader_lanes(&x->r, i, n, buf.at, spare.at);
        for (int64_t j = 0; j < n; j++) {
            int64_t at = v[j] < 0 ? v[j] + x->size : v[j];
            if (at < 0 || at >= x->size) {
                *wrong = v[j];
                return false;
            }
            p->at[i + j] += at * x->stride;
        }
    }
    return true;
}

/* Add index operand k's part to every point; false: one is out of range. */
static bool add_index(KCtx *c, Numbers *x, const Points *p)
{
    int64_t wrong;

    return add_numbers(x, p, 0, p->count, &wrong) ||
           (k_fail(c, K_INDEX, "index %lld is out of range for axis %d of size %lld", (long long)wrong, x->axis, (long long)x->size), false);
}

/* Every point at its batch place: batches in row-major order, all points of one together. */
static void start_points(Points *p, const Tensor *target, int m, const int64_t *shape)
{
    int64_t batches = 1, each;

    for (int ax = 0; ax < m; ax++)
        batches *= shape[ax];
    each = batches ? p->count / batches : 0;
    for (int64_t b = 0; b < batches; b++) {
        int64_t at = target->offset;
        for (int64_t q = b, ax = m - 1; ax >= 0; q /= shape[ax], ax--)
            at += q % shape[ax] * target->stride[ax];
        for (int64_t i = 0; i < each; i++)
            p->at[b * each + i] = at;
    }
}

/* How many there are, in how many axes of these sizes, and what a block is; p->at is NULL. */
static int points_count(const Attr *a, Tensor *const *in, int lo, const Tensor *target, Points *p, int64_t *shape)
{
    int rank = index_shape(a, in, lo, shape), m = a->m, n = a->n;

    p->at = NULL;
    p->count = p->block = 1;
    for (int i = 0; i < rank; i++)
        p->count *= shape[i];
    p->rest = target->rank - m - n;
    p->shape = target->shape + m + n;
    for (int i = 0; i < p->rest; i++)
        p->block *= p->shape[i];
    return rank;
}

/* Resolve all points against target, whose sizes are in[0]'s. p->at is to be freed. */
static KStatus points_open(KCtx *c, const Attr *a, Tensor *const *in, int lo, const Tensor *target, Points *p)
{
    int64_t shape[RANK_MAX];
    int rank = points_count(a, in, lo, target, p, shape);

    p->at = k_scratch(c, p->count, sizeof *p->at);
    if (!p->at)
        return K_NOMEM;
    start_points(p, target, a->m, shape);
    for (int k = 0; k < a->n; k++) {
        Numbers x;
        numbers_open(&x, a, in[lo + k], k, target, rank, shape);
        if (!add_index(c, &x, p))
            return K_INDEX;
    }
    return K_OK;
}

typedef struct Places {
    const Attr *a;
    Tensor *const *in;
    Points p;
    int rank;
    int64_t shape[RANK_MAX];
    bool outside;               /* some index is */
} Places;

static void places_part(int64_t lo, int64_t hi, void *st)
{
    Places *w = st;
    int64_t wrong;
    Numbers x;

    for (int k = 0; k < w->a->n; k++) {
        numbers_open(&x, w->a, w->in[1 + k], k, w->in[0], w->rank, w->shape);
        if (!add_numbers(&x, &w->p, lo, hi, &wrong))
            __atomic_store_n(&w->outside, true, __ATOMIC_RELAXED);
    }
}

Tensor *index_places(const Attr *a, Tensor *const *in)
{
    Places w = {.a = a, .in = in};
    Tensor *t;

    w.rank = index_shape(a, in, 1, w.shape);
    if (!(t = tensor_new(DT_int64, w.rank, w.shape)))
        return NULL;
    w.p = (Points){.count = tensor_size(t), .at = tensor_data(t)};
    start_points(&w.p, in[0], a->m, w.shape);
    pool_for(w.p.count, 32768, places_part, &w);
    if (w.outside)
        tensor_unref(t);
    return w.outside ? NULL : t;
}

/* ---- reading ---- */

typedef struct Gather {
    const Points *p;
    const Tensor *x;
    Tensor *out;
} Gather;

/* Blocks of one element: a loop over points for each element size. */
static void gather_elements(const Gather *g, int64_t lo, int64_t hi)
{
    size_t w = raw_size((DType)g->x->dtype);
    const char *s = storage_read(g->x->store);
    char *d = storage_data(g->out->store) + g->out->offset * (int64_t)w;

#define EACH_POINT(W) \
    for (int64_t i = lo; i < hi; i++) \
        memcpy(d + i * (W), s + g->p->at[i] * (W), W)
    switch (w) {
    case 1: EACH_POINT(1); break;
    case 2: EACH_POINT(2); break;
    case 4: EACH_POINT(4); break;
    case 8: EACH_POINT(8); break;
    default: EACH_POINT(16); break;
    }
#undef EACH_POINT
}

/* Blocks that lie across, as columns do, are read a part at a time, all points: neighbours' elements share lines. */
enum { ACROSS = 64 };

static void gather_part(int64_t lo, int64_t hi, void *st)
{
    const Gather *g = st;
    const Points *p = g->p;
    Reader src, dst;

    if (p->block == 1 && !is_packed((DType)g->x->dtype)) {
        gather_elements(g, lo, hi);
        return;
    }
    writer_init(&dst, g->out);
    reader_view(&src, g->x, p->rest, p->shape, g->x->stride + g->x->rank - p->rest, 0);
    bool rows = !p->rest || g->x->stride[g->x->rank - 1] == 1;
    int64_t part = rows ? p->block : ACROSS;
    for (int64_t from = 0; from < p->block; from += part) {
        int64_t to = p->block - from < part ? p->block : from + part;
        for (int64_t i = lo; i < hi; i++) {
            TileBuf buf;
            src.offset = p->at[i];
            for (int64_t e = from; e < to; e += TILE) {
                int64_t n = to - e < TILE ? to - e : TILE;
                writer_raw(&dst, i * p->block + e, n, reader_raw(&src, e, n, buf.at));
            }
        }
    }
}

/* Rows of the first axis, by one index operand: resolved as they are read. */
typedef struct Rows {
    Gather g;
    Reader index;
    int64_t size, stride;
    bool outside;               /* some index is; which one is looked for afterwards */
} Rows;

static void rows_part(int64_t lo, int64_t hi, void *st)
{
    Rows *w = st;
    Points p = *w->g.p;
    Tensor out = *w->g.out;
    TileBuf buf, spare;
    int64_t at[TILE];

    p.at = at;
    for (int64_t i = lo, n; i < hi; i += n) {
        n = hi - i < TILE ? hi - i : TILE;
        const int64_t *v = reader_lanes(&w->index, i, n, buf.at, spare.at);
        uint64_t wrong = 0;
        for (int64_t j = 0; j < n; j++) {
            int64_t x = v[j] + (v[j] < 0 ? w->size : 0);
            wrong |= (uint64_t)x | (uint64_t)(w->size - 1 - x);         /* the sign of either */
            at[j] = (int64_t)((uint64_t)w->g.x->offset + (uint64_t)x * (uint64_t)w->stride);       /* outside: no place, and not used */
        }
        if (wrong >> 63) {
            __atomic_store_n(&w->outside, true, __ATOMIC_RELAXED);
            return;
        }
        out.offset = w->g.out->offset + i * p.block;
        gather_part(0, n, &(Gather){&p, w->g.x, &out});
    }
}

/* Do the elements of a block lie side by side? */
static bool is_row(const Tensor *x, const Points *p)
{
    int64_t step = 1;

    for (int i = p->rest - 1; i >= 0; i--) {
        if (p->shape[i] != 1 && x->stride[x->rank - p->rest + i] != step)
            return false;
        step *= p->shape[i];
    }
    return true;
}

/* On a GPU, by points that are known; there: on it. */
static bool gathered_far(const Tensor *out, const Tensor *x, const Points *p, Tensor *there)
{
    const FarMoves *far = far_moves_of(out);

    return far && p->block && p->count && is_row(x, p) && far->gather(out, x, &(FarPoints){p->at, there, p->count, p->block});
}

/* values' blocks to a row-major t of the same dtype, or for index_add any. */
static bool scattered_far(OpId op, const Tensor *t, Tensor *values, const Points *p, Tensor *there)
{
    const FarMoves *far = far_moves_of(t);
    Tensor *rows = far && p->block && p->count ? tensor_contiguous(values) : NULL;
    bool done = rows && far->scatter(op, t, rows, &(FarPoints){p->at, there, p->count, p->block});

    tensor_unref(rows);
    return done;
}

enum { SMALL = 1 << 20 };

/* What is looked up in, with blocks that are rows of memory, where y is: a copy if need be. NULL: that is too much of the host's. */
static Tensor *looked_up_far(const Attr *a, Tensor *const *in, const Tensor *y)
{
    int64_t shape[RANK_MAX];
    Points p;

    if (in[0]->store->device != y->store->device)
        return tensor_nbytes(in[0]) <= SMALL ? tensor_copy(in[0]) : NULL;
    points_count(a, in, 1, in[0], &p, shape);
    return is_row(in[0], &p) ? tensor_ref(in[0]) : tensor_contiguous(in[0]);
}

/* All of it on a GPU, the points too: y is index's result, or what is written to. false: the host finds the points. */
static bool indexed_far(OpId op, const Attr *a, Tensor *const *in, const Tensor *y)
{
    const FarMoves *far = far_moves_of(y);
    int64_t shape[RANK_MAX];
    Tensor *there, *target;
    Points p;
    int lo = op == OP_index ? 1 : 2, rank;
    bool done;

    if (!far || !(target = op == OP_index ? looked_up_far(a, in, y) : tensor_ref((Tensor *)y)))
        return false;
    rank = points_count(a, in, lo, target, &p, shape);
    there = p.block ? far->places(a, in + lo, target, rank, shape) : NULL;
    done = there && (op == OP_index ? gathered_far(y, target, &p, there) : scattered_far(op, y, in[1], &p, there));
    tensor_unref(there);
    tensor_unref(target);
    return done;
}

/* false: it is another kind of index, or one is out of range. */
static bool gather_rows(const Attr *a, Tensor *const *in, Tensor *out)
{
    const Tensor *x = in[0];
    Points p = {.block = 1, .rest = x->rank - 1, .shape = x->shape + 1};
    Rows w = {.g = {&p, x, out}, .size = x->rank ? x->shape[0] : 0, .stride = x->rank ? x->stride[0] : 0};

    if (a->m || a->n != 1 || is_packed((DType)x->dtype) || far_moves_of(out))
        return false;
    for (int i = 1; i < x->rank; i++)
        p.block *= x->shape[i];
    reader_init(&w.index, in[1]);
    w.index.as = DT_int64;
    if (p.block)
        pool_for(tensor_size(in[1]), 32768 / (p.block + 1) + 1, rows_part, &w);
    return p.block && !w.outside;
}

KStatus kernel_index(KERNEL_ARGS)
{
    Points p;
    KStatus s;

    (void)op, (void)nin;
    if (!(out[0] = k_result(c, type)))
        return K_NOMEM;
    if (gather_rows(a, in, out[0]))
        return K_OK;
    if (indexed_far(OP_index, a, in, out[0]))
        return K_OK;
    tensor_unref(out[0]);
    s = points_open(c, a, in, 1, in[0], &p);
    if (s == K_OK && !(out[0] = k_result(c, type)))
        s = K_NOMEM;
    if (s == K_OK && !gathered_far(out[0], in[0], &p, NULL)) {
        Gather g = {&p, in[0], out[0]};
        if (is_packed((DType)in[0]->dtype))
            gather_part(0, p.count, &g);
        else if (p.block)
            pool_for(p.count, 32768 / (p.block + 1) + 1, gather_part, &g);
    }
    tsr_free_aligned(p.at);
    return s;
}

/* ---- writing ---- */

/* A row-major tensor with x's elements that may be written: x itself when the caller gives it up. */
static Tensor *writable(KCtx *c, Tensor *x, int operand)
{
    if (c->dying >> operand & 1 && tensor_is_own(x))
        return share(x);
    Tensor *t = tensor_copy(x);
    if (!t)
        k_fail(c, K_NOMEM, "no memory for a copy of %zu bytes", tensor_nbytes(x));
    return t;
}

KStatus kernel_index_put(KERNEL_ARGS)
{
    Tensor *t = writable(c, in[0], 0);
    Points p = {0};
    Reader src, dst;
    bool far = t && indexed_far(OP_index_put, a, in, t);
    KStatus s = far ? K_OK : t ? points_open(c, a, in, 2, t, &p) : K_NOMEM;

    (void)op, (void)nin, (void)type;
    if (far || (s == K_OK && scattered_far(OP_index_put, t, in[1], &p, NULL))) {
        out[0] = t;
    } else if (s == K_OK) {
        reader_init(&src, in[1]);
        writer_view(&dst, t, p.rest, p.shape, t->stride + t->rank - p.rest, 0);
        for (int64_t i = 0; i < p.count; i++)
            for (int64_t e = 0; e < p.block; e += TILE) {
                TileBuf buf, cast;
                int64_t n = p.block - e < TILE ? p.block - e : TILE;
                const void *raw = reader_raw(&src, i * p.block + e, n, buf.at);
                if (src.dtype != dst.dtype) {
                    raw_convert(dst.dtype, cast.at, src.dtype, raw, n, NULL, 0);
                    raw = cast.at;
                }
                dst.offset = p.at[i];
                writer_raw(&dst, e, n, raw);
            }
        out[0] = t;
    } else {
        tensor_unref(t);
    }
    tsr_free_aligned(p.at);
    return s;
}

/* sum[point block] += values, where sum is row-major lanes. */
static void add_blocks(const Points *p, const Tensor *sum, const Tensor *values, LoopFn *add)
{
    size_t w = raw_size((DType)sum->dtype);
    char *to = storage_data(sum->store);
    Reader src;

    reader_init(&src, values);
    src.as = (DType)sum->dtype;
    for (int64_t i = 0; i < p->count; i++) {
        char *dst = to + (size_t)p->at[i] * w;
        for (int64_t e = 0; e < p->block; e += TILE, dst += TILE * w) {
            TileBuf buf, spare;
            int64_t n = p->block - e < TILE ? p->block - e : TILE;
            add(n, dst, dst, reader_lanes(&src, i * p->block + e, n, buf.at, spare.at), NULL);
        }
    }
}

/* The first operand to be written to on a GPU, or as a copy there: what is written, and where, is on one. NULL: nothing is. */
static Tensor *written_far(KCtx *c, Tensor *x)
{
    if (far_moves_of(x))
        return writable(c, x, 0);
    return devices_used && far_moves && device_is_far(device_now) ? tensor_copy(x) : NULL;
}

/* On a GPU. NULL: the host does it, or says what is wrong. */
static Tensor *added_far(KCtx *c, const Attr *a, Tensor *const *in)
{
    Tensor *t = written_far(c, in[0]);
    Points p = {0};
    bool done = t && (indexed_far(OP_index_add, a, in, t) ||
                      (points_open(c, a, in, 2, t, &p) == K_OK && scattered_far(OP_index_add, t, in[1], &p, NULL)));

    tsr_free_aligned(p.at);
    if (done)
        return t;
    tensor_unref(t);
    sb_clear(c->err);
    return NULL;
}

/* Sums are kept in the accumulator's dtype and rounded once. */
KStatus kernel_index_add(KERNEL_ARGS)
{
    DType dt = (DType)in[0]->dtype, lane = dtype_is_inexact(dt) ? lane_dtype(dtype_accum(dt)) : lane_dtype(dt);
    Tensor *sum = NULL;
    Points p = {0};
    KStatus s = K_OK;

    (void)op, (void)nin;
    if ((out[0] = added_far(c, a, in)))
        return K_OK;
    if (lane == dt)
        sum = writable(c, in[0], 0);
    else if ((sum = tensor_new(lane, in[0]->rank, in[0]->shape)))
        tensor_assign(sum, in[0]);
    s = sum ? points_open(c, a, in, 2, sum, &p) : k_fail(c, K_NOMEM, "no memory for index_add");
    if (s == K_OK) {
        add_blocks(&p, sum, in[1], loop_find(OP_add, lane));
        out[0] = lane == dt ? tensor_ref(sum) : k_result(c, type);
        if (!out[0])
            s = K_NOMEM;
        else if (lane != dt)
            tensor_assign(out[0], sum);
    }
    tensor_unref(sum);
    tsr_free_aligned(p.at);
    return s;
}

/* ---- boxes at starts known only now; starts clamp so that the box fits ---- */

static int64_t box_offset(const Attr *a, const Tensor *x, Tensor *const *starts, const int64_t *size)
{
    int64_t at = x->offset;

    for (int i = 0; i < a->n; i++) {
        int ax = x->rank - a->n + i;
        int64_t s = elem_get_i(starts[i], starts[i]->offset), most = x->shape[ax] - size[ax];
        s = s < 0 ? 0 : s > most ? most : s;
        at += s * x->stride[ax];
    }
    return at;
}

KStatus kernel_dynamic_slice(KERNEL_ARGS)
{
    Tensor *view = tensor_view(in[0], type->rank, type->shape, in[0]->stride, box_offset(a, in[0], in + 1, type->shape));

    (void)op, (void)nin;
    if ((out[0] = k_result(c, type)))
        tensor_assign(out[0], view);
    tensor_unref(view);
    return out[0] ? K_OK : K_NOMEM;
}

KStatus kernel_dynamic_update(KERNEL_ARGS)
{
    Tensor *t = writable(c, in[0], 0), *view;

    (void)op, (void)nin, (void)type;
    if (!t)
        return K_NOMEM;
    view = tensor_view(t, in[1]->rank, in[1]->shape, t->stride, box_offset(a, t, in + 2, in[1]->shape));
    tensor_assign(view, in[1]);
    tensor_unref(view);
    out[0] = t;
    return K_OK;
}

/* ---- where are the true ones? ---- */

/* Sum of n bytes that are 0 or 1. */
static int64_t count_ones(const uint8_t *v, int64_t n)
{
    int64_t count = 0, i = 0;
    uint64_t eight;

    for (; i + 8 <= n; i += 8) {
        memcpy(&eight, v + i, 8);
        count += (int64_t)(eight * 0x0101010101010101 >> 56);
    }
    for (; i < n; i++)
        count += v[i];
    return count;
}

/*
 * Coordinates of elements found[0 .. k) of a tile; *first is, from where the tile begins, the first one of the row of the last
 * axis whose other coordinates are in place.
 */
static void put_places(const Tensor *x, const int32_t *found, int64_t k, int64_t *first, int64_t *place, int32_t *o)
{
    int last = x->rank - 1;

    for (int64_t i = 0; i < k; i++, o += x->rank) {
        while (found[i] - *first >= x->shape[last]) {
            *first += x->shape[last];
            for (int ax = last - 1; ax >= 0 && ++place[ax] == x->shape[ax]; ax--)
                place[ax] = 0;
        }
        for (int ax = 0; ax < last; ax++)
            o[ax] = (int32_t)place[ax];
        o[last] = (int32_t)(found[i] - *first);
    }
}

KStatus kernel_nonzero(KERNEL_ARGS)
{
    const Tensor *x = in[0];
    TileBuf buf, spare;
    int64_t n = tensor_size(x), count = 0, place[RANK_MAX] = {0}, first = 0;
    int32_t found[TILE];
    TType t = *type;
    Reader r;

    (void)op, (void)a, (void)nin;
    if (far_moves_of(x) && (out[0] = far_moves_of(x)->nonzero(in[0])))
        return K_OK;
    reader_init(&r, x);
    r.as = DT_bool;
    for (int64_t i = 0; i < n; i += TILE) {
        int64_t k = n - i < TILE ? n - i : TILE;
        count += count_ones(reader_lanes(&r, i, k, buf.at, spare.at), k);
    }
    t.shape[0] = count;
    t.shape[1] = x->rank;
    if (!(out[0] = k_result(c, &t)))
        return K_NOMEM;
    int32_t *o = tensor_data(out[0]);
    for (int64_t i = 0; i < n && x->rank; i += TILE) {
        int64_t k = n - i < TILE ? n - i : TILE, m = 0;
        const uint8_t *v = reader_lanes(&r, i, k, buf.at, spare.at);
        for (int64_t j = 0; j < k; j++) {
            found[m] = (int32_t)(x->rank == 1 ? i + j : j);
            m += v[j];
        }
        if (x->rank == 1)
            memcpy(o, found, (size_t)m * sizeof *o);
        else
            put_places(x, found, m, &first, place, o);
        first -= k;
        o += m * x->rank;
    }
    return K_OK;
}
