/*
 * Reductions, in one order whatever the strides, the threads and the batch
 * (R4 of docs/numerics.md):
 *
 *   chunks of 256 elements in row-major order of the reduced axes;
 *   in a chunk, lane l of 8 takes elements l, l + 8, ... left to right, starting from the identity;
 *   lanes combine as ((0+4)+(2+6))+((1+5)+(3+7));
 *   chunks combine by a balanced tree: (0,1), (2,3), ..., an odd last one passes up.
 *
 * The tree needs no list of chunks: complete subtrees wait on a stack like the
 * bits of a counter, and at the end fold from the smallest.  Where chunks are read many at a time, a power of two, those are
 * folded level by level and count as one.  Two layouts:
 * `rows` reads the elements of one result as a run; `columns` works on up to
 * COLS_BYTES of results side by side when those, not the reduced elements, lie in a row.
 * Where nothing has to be converted those are WIDE_BYTES: memory is then read in runs
 * that are long enough to be foreseen, and lanes are in the second cache.
 */
#include "runtime/kernel_util.h"
#include "runtime/cpu.h"

#include "base/alloc.h"

#include <math.h>
#include <string.h>

enum { WIDE = 64, COLS_BYTES = 4096, WIDE_BYTES = 4 * COLS_BYTES, LEVELS = 48, AT_ONCE = 16 };

typedef struct ReduceJob {
    LoopFn *op;                 /* acc = acc op x, on lanes of `accum` */
    ChunksFn *chunks;           /* fast chunks, or NULL */
    ChunksFn *pairs;            /* a level of the tree over chunks, or NULL */
    ChunksFn *run;              /* extremes: of a run as a whole, or NULL */
    RowsFn *rows;               /* rows of results side by side, or NULL */
    DType accum, lane, out;     /* as accumulated, its lane dtype, the result's dtype */
    size_t size;                /* bytes of a lane */
    bool compensated;           /* a sum whose steps' rounding errors are summed too, left to right (Neumaier 1974) */
    bool exact;                 /* any order gives the same: max, any, ints */
    bool columns;
    _Alignas(16) char identity[16];
    Reader in;                  /* kept axes, then reduced axes */
    int64_t nout, nred;
    Tensor *result;
    char *partial;              /* `by chunk`: results of all chunks of one element */
    int64_t element;
    int64_t at_once;            /* chunks that are read together, at most AT_ONCE: a power of two */
    /* columns: the kept axes and the reduced axes apart; work space for each of some parts */
    Reader kept, reduced;
    int64_t parts, cols;
    char *scratch;
} ReduceJob;

/* ---- one step and one chunk ---- */

/* out = a op b on n accumulators; narrow accumulators round after every step. */
static void step(const ReduceJob *j, int64_t n, void *out, const void *a, const void *b)
{
    _Alignas(16) char raw[WIDE * 4];

    j->op(n, out, a, b, NULL);
    for (int64_t i = 0; j->accum != j->lane && i < n; i += WIDE) {
        int64_t k = n - i < WIDE ? n - i : WIDE;
        float *x = (float *)out + i;                /* every narrow accumulator has f32 lanes */
        lane_to_raw(j->accum, x, raw, k);
        raw_to_lane(j->accum, raw, x, k);
    }
}

static void fill_identity(const ReduceJob *j, char *acc, int64_t n)
{
    size_t have = j->size, all = (size_t)n * j->size;

    memcpy(acc, j->identity, j->size);
    for (; have < all; have += have)
        memcpy(acc + have, acc, have < all - have ? have : all - have);
}

/* acc[0 .. 8*w) holds 8 lanes of w results each: combine them into acc[0 .. w). */
static void fold_lanes(const ReduceJob *j, char *acc, int64_t w)
{
    size_t s = j->size * (size_t)w;

    for (int i = 0; i < 4; i++)
        step(j, w, acc + (size_t)i * s, acc + (size_t)i * s, acc + (size_t)(i + 4) * s);
    step(j, w, acc, acc, acc + 2 * s);              /* (0+4)+(2+6) */
    step(j, w, acc + s, acc + s, acc + 3 * s);      /* (1+5)+(3+7) */
    step(j, w, acc, acc, acc + s);
}

/* Extremes of narrow floats are those of their lanes; sums are rounded to them at every step. */
static ChunksFn *fast_chunks(OpId op, DType accum)
{
    const Sums *s = cpu()->sums;

    switch (op) {
    case OP_sum: return s->sum[accum];
    case OP_prod: return s->prod[accum];
    case OP_max: case OP_any: return s->max[lane_dtype(accum)];
    case OP_min: case OP_all: return s->min[lane_dtype(accum)];
    default: return NULL;
    }
}

static ChunksFn *fast_pairs(OpId op, DType accum)
{
    const Sums *s = cpu()->sums;

    return op == OP_sum ? s->sum_pairs[accum] : op == OP_prod ? s->prod_pairs[accum] : NULL;
}

static ChunksFn *fast_run(OpId op, DType accum)
{
    const Sums *s = cpu()->sums;

    return op == OP_max || op == OP_any   ? s->max_run[lane_dtype(accum)]
           : op == OP_min || op == OP_all ? s->min_run[lane_dtype(accum)] : NULL;
}

static RowsFn *fast_rows(OpId op, DType accum)
{
    const Sums *s = cpu()->sums;

    return op == OP_sum ? s->sum_rows[accum] : op == OP_max ? s->max_rows[accum] : op == OP_min ? s->min_rows[accum] : NULL;
}

/* A chunk of lanes into one accumulator. */
static void chunk(const ReduceJob *j, const char *run, int64_t n, char *out)
{
    _Alignas(64) char acc[WIDE * 16];
    int64_t w = j->exact ? WIDE : LANES;

    fill_identity(j, acc, w);
    for (int64_t i = 0; i < n; i += w)
        step(j, n - i < w ? n - i : w, acc, acc, run + (size_t)i * j->size);
    if (j->exact)
        for (w /= 2; w; w /= 2)
            step(j, w, acc, acc, acc + (size_t)w * j->size);
    else
        fold_lanes(j, acc, 1);
    memcpy(out, acc, j->size);
}

/* ---- the tree ---- */

typedef struct Tree {
    char *stack;                /* LEVELS subtrees of w accumulators */
    int64_t count;              /* chunks so far */
    int depth;
} Tree;

/* The accumulators to fill next. */
static char *tree_slot(const ReduceJob *j, const Tree *t, int64_t w)
{
    return t->stack + (size_t)t->depth * j->size * (size_t)w;
}

static void tree_join(const ReduceJob *j, Tree *t, int64_t w)
{
    size_t s = j->size * (size_t)w;
    char *b = t->stack + (size_t)(t->depth - 1) * s, *a = b - s;

    step(j, w, a, a, b);
    t->depth--;
}

/* The slot has been filled. */
static void tree_push(const ReduceJob *j, Tree *t, int64_t w)
{
    t->depth++;
    for (int64_t c = ++t->count; !(c & 1); c >>= 1)
        tree_join(j, t, w);
}

static void tree_finish(const ReduceJob *j, Tree *t, int64_t w)
{
    while (t->depth > 1)
        tree_join(j, t, w);
    if (!t->count)
        fill_identity(j, t->stack, w);
}

/* Folds n chunks, level by level, and says how many are left: one, or all where there is no fast way. */
static int64_t fold_chunks(const ReduceJob *j, char *x, int64_t n)
{
    for (; j->pairs && n > 1; n = (n + 1) / 2)
        j->pairs(x, n, x);
    return n;
}

/* ---- layouts ---- */

static void store(const ReduceJob *j, int64_t at, const void *acc, int64_t n)
{
    char *data = storage_data(j->result->store);

    if (is_packed(j->out)) {
        uint8_t raw[COLS_BYTES];
        raw_convert(j->out, raw, j->lane, acc, n, NULL, 0);
        raw_pack(j->out, data, at, n, raw);
    } else {
        raw_convert(j->out, data + at * (int64_t)raw_size(j->out), j->lane, acc, n, NULL, 0);
    }
}

static int64_t chunk_length(const ReduceJob *j, int64_t c)
{
    return j->nred - c * CHUNK < CHUNK ? j->nred - c * CHUNK : CHUNK;
}

/* Chunks [c, c + count) of one result, at most at_once, into `out`. */
static void read_chunks(const ReduceJob *j, int64_t element, int64_t c, int64_t count, char *out)
{
    TileBuf buf, spare;
    int64_t left = j->nred - c * CHUNK, n = left < count * CHUNK ? left : count * CHUNK;
    const char *run = reader_lanes(&j->in, element * j->nred + c * CHUNK, n, buf.at, spare.at);

    if (j->run) {                                   /* each chunk may as well have what all of them give */
        j->run(run, n, out);
        for (int64_t i = 1; i < count; i++)
            memcpy(out + (size_t)i * j->size, out, j->size);
    } else if (j->chunks)
        j->chunks(run, n, out);
    else
        for (int64_t i = 0; i < count; i++)
            chunk(j, run + (size_t)(i * CHUNK) * j->size, chunk_length(j, c + i), out + (size_t)i * j->size);
}

/* Rows of one chunk each, many to a run. */
static void short_rows(const ReduceJob *j, int64_t lo, int64_t hi)
{
    TileBuf buf, spare, some;
    int64_t most = tile_length(reader_width(&j->in)), step = most / j->nred;

    step = step < TILE ? step / 4 * 4 : TILE;       /* packed results: whole bytes */
    for (int64_t o = lo; o < hi; o += step) {
        int64_t n = hi - o < step ? hi - o : step;
        const char *run = reader_lanes(&j->in, o * j->nred, n * j->nred, buf.at, spare.at);
        for (int64_t i = 0; i < n; i++)
            j->chunks(run + (size_t)(i * j->nred) * j->size, j->nred, some.at + (size_t)i * j->size);
        store(j, o, some.at, n);
    }
}

static void rows_part(int64_t lo, int64_t hi, void *st)
{
    const ReduceJob *j = st;
    if (j->chunks && j->nred && j->nred <= CHUNK && 4 * j->nred <= tile_length(reader_width(&j->in))) {
        short_rows(j, lo, hi);
        return;
    }
    _Alignas(64) char stack[LEVELS * 16], some[AT_ONCE * 16], joined[16];
    int64_t chunks = (j->nred + CHUNK - 1) / CHUNK;

    for (int64_t o = lo; o < hi; o++) {
        Tree t = {stack, 0, 0};
        for (int64_t c = 0; c < chunks; c += j->at_once) {
            int64_t count = chunks - c < j->at_once ? chunks - c : j->at_once;
            read_chunks(j, o, c, count, some);
            if (j->run)
                count = 1;
            else if (j->exact && j->chunks) {       /* their order is free: one step of the tree for all */
                j->chunks(some, count, joined);
                memcpy(some, joined, j->size);
                count = 1;
            } else
                count = fold_chunks(j, some, count);
            for (int64_t i = 0; i < count; i++) {
                memcpy(tree_slot(j, &t, 1), some + (size_t)i * j->size, j->size);
                tree_push(j, &t, 1);
            }
        }
        tree_finish(j, &t, 1);
        store(j, o, stack, 1);
    }
}

static void chunks_part(int64_t lo, int64_t hi, void *st)
{
    const ReduceJob *j = st;

    for (int64_t c = lo; c < hi; c += j->at_once)
        read_chunks(j, j->element, c, hi - c < j->at_once ? hi - c : j->at_once, j->partial + (size_t)c * j->size);
}

/* Few results of many elements: chunks in parallel, then the tree over what they gave. */
static void by_chunk(ReduceJob *j)
{
    int64_t chunks = (j->nred + CHUNK - 1) / CHUNK;
    _Alignas(64) char stack[LEVELS * 16];

    for (j->element = 0; j->element < j->nout; j->element++) {
        Tree t = {stack, 0, 0};
        int64_t left = chunks;
        pool_for(chunks, 64, chunks_part, j);
        for (; j->exact && j->chunks && left > 1; left = (left + CHUNK - 1) / CHUNK)
            j->chunks(j->partial, left, j->partial);
        left = fold_chunks(j, j->partial, left);
        for (int64_t c = 0; c < left; c++) {
            memcpy(tree_slot(j, &t, 1), j->partial + (size_t)c * j->size, j->size);
            tree_push(j, &t, 1);
        }
        tree_finish(j, &t, 1);
        store(j, j->element, stack, 1);
    }
}

/* Two numbers carry the sum; infinities and NaN go the plain way. */
#define COMPENSATED(name, T, FABS) \
    static void name(const T *x, int64_t n, T *sum) \
    { \
        T total = sum[0], lost = sum[1]; \
        for (int64_t i = 0; i < n; i++) { \
            T t = total + x[i], e = FABS(total) >= FABS(x[i]) ? (total - t) + x[i] : (x[i] - t) + total; \
            lost += e - e == 0 ? e : 0; \
            total = t; \
        } \
        sum[0] = total; \
        sum[1] = lost; \
    }
COMPENSATED(compensate_f32, float, fabsf)
COMPENSATED(compensate_f64, double, fabs)

static void compensated_part(int64_t lo, int64_t hi, void *st)
{
    const ReduceJob *j = st;
    TileBuf buf, spare;
    int64_t tile = tile_length(reader_width(&j->in));

    for (int64_t o = lo; o < hi; o++) {
        float f[2] = {0};
        double d[2] = {0};
        for (int64_t i = 0; i < j->nred; i += tile) {
            int64_t n = j->nred - i < tile ? j->nred - i : tile;
            const void *run = reader_lanes(&j->in, o * j->nred + i, n, buf.at, spare.at);
            if (j->lane == DT_f32)
                compensate_f32(run, n, f);
            else
                compensate_f64(run, n, d);
        }
        f[0] += f[1];
        d[0] += d[1];
        store(j, o, j->lane == DT_f32 ? (void *)f : (void *)d, 1);
    }
}

/* Storage element of linear index i of a reader. */
static int64_t place(const Reader *r, int64_t i)
{
    int64_t at = r->offset;

    if (r->rank == 1)
        return at + i * r->stride[0];
    for (int k = r->rank - 1; k >= 0; k--) {
        at += i % r->shape[k] * r->stride[k];
        i /= r->shape[k];
    }
    return at;
}

/* w elements from storage element `at` as lanes of the accumulator. */
static const void *row_lanes(const ReduceJob *j, int64_t at, int64_t w, char *buf, char *spare)
{
    if (j->in.dtype == j->accum && j->accum == j->lane)
        return j->in.base + at * (int64_t)j->size;
    Reader row = {.dtype = j->in.dtype, .as = j->accum, .rank = 1, .shape = {w}, .stride = {1}, .offset = at, .base = j->in.base};

    return reader_lanes(&row, 0, w, buf, spare);
}

/* A chunk of n rows of w results from `first` on, which lie as the lanes do, into lanes of w results each. */
static void wide_rows(const ReduceJob *j, int64_t first, int64_t n, int64_t w, char *acc, int64_t lanes)
{
    int64_t stride = j->reduced.stride[0];

    for (int64_t i = 0; i < n; i += lanes * SUM_ROWS)
        for (int64_t lane = 0; lane < lanes && i + lane < n; lane++) {
            int64_t left = (n - i - lane + lanes - 1) / lanes;
            j->rows(j->in.base + (first + (i + lane) * stride) * (int64_t)j->size, lanes * stride, left < SUM_ROWS ? left : SUM_ROWS,
                    acc + (size_t)(lane * w) * j->size, w);
        }
}

/* Results [o, o + w), whose elements lie side by side in memory. work holds 8 lanes, two rows and the tree's stack. */
static void columns_block(const ReduceJob *j, int64_t o, int64_t w, char *work)
{
    char *acc = work, *buf = acc + LANES * WIDE_BYTES, *spare = buf + 4 * COLS_BYTES, *stack = spare + 4 * COLS_BYTES;
    int64_t base = place(&j->kept, o), chunks = (j->nred + CHUNK - 1) / CHUNK, lanes = j->exact ? 1 : LANES;
    Tree t = {stack, 0, 0};

    for (int64_t c = 0; c < chunks; c++) {
        int64_t n = chunk_length(j, c);
        fill_identity(j, acc, lanes * w);
        if (j->rows)
            wide_rows(j, base + place(&j->reduced, c * CHUNK), n, w, acc, lanes);
        for (int64_t i = 0; !j->rows && i < n; i++) {
            char *lane = acc + (size_t)(i % lanes * w) * j->size;
            int64_t at = base + place(&j->reduced, c * CHUNK + i);
            step(j, w, lane, lane, row_lanes(j, at, w, buf, spare));
        }
        if (lanes > 1)
            fold_lanes(j, acc, w);
        memcpy(tree_slot(j, &t, w), acc, (size_t)w * j->size);
        tree_push(j, &t, w);
    }
    tree_finish(j, &t, w);
    store(j, o, stack, w);
}

/* Work space of a part: rows are converted through forms of up to four times the accumulator's bytes; the tree has a level for each doubling. */
static int64_t columns_room(const ReduceJob *j)
{
    int64_t levels = 2;

    for (int64_t c = j->nred / CHUNK; c; c /= 2)
        levels++;
    return LANES * WIDE_BYTES + 8 * COLS_BYTES + levels * WIDE_BYTES;
}

static void columns_part(int64_t lo, int64_t hi, void *st)
{
    const ReduceJob *j = st;
    int64_t width = j->kept.shape[j->kept.rank - 1], quads = (j->nout + 3) / 4;

    for (int64_t part = lo; part < hi; part++) {    /* results share bytes by fours at most */
        int64_t end = (part + 1) * quads / j->parts * 4;
        end = end < j->nout ? end : j->nout;
        for (int64_t o = part * quads / j->parts * 4, w; o < end; o += w) {
            int64_t left = width - o % width;
            w = end - o < left ? end - o : left;
            w = w < j->cols ? w : j->cols;
            columns_block(j, o, w, j->scratch + part * columns_room(j));
        }
    }
}

static KStatus by_columns(KCtx *c, ReduceJob *j)
{
    int64_t most = j->nout * j->nred / 32768 + 1, blocks = (j->nout + 15) / 16;

    if (j->in.dtype != j->accum || j->accum != j->lane || j->reduced.rank != 1)
        j->rows = NULL;
    j->cols = (int64_t)((j->rows ? WIDE_BYTES : COLS_BYTES) / j->size);
    j->parts = pool_threads() == 1 ? 1 : 4 * pool_threads();
    j->parts = j->parts < most ? j->parts : most;
    j->parts = j->parts < blocks ? j->parts : blocks;
    if (!(j->scratch = k_scratch(c, j->parts, (size_t)columns_room(j))))
        return K_NOMEM;
    pool_for(j->parts, 1, columns_part, j);
    tsr_free_aligned(j->scratch);
    return K_OK;
}

/* ---- setting up ---- */

static OpId step_op(OpId op)
{
    switch (op) {
    case OP_sum: case OP_any: return OP_add;
    case OP_prod: case OP_all: return OP_mul;
    case OP_max: return OP_maximum;
    default: return OP_minimum;
    }
}

static void set_identity(ReduceJob *j, OpId op)
{
    double v = op == OP_prod || op == OP_all ? 1 : op == OP_max ? -INFINITY : op == OP_min ? INFINITY : 0;
    double z[2] = {v, 0};

    lane_convert(j->lane, j->identity, DT_c128, z, 1);      /* infinity saturates to the ends of ints */
    if (j->lane == DT_bool)
        j->identity[0] = op == OP_all || op == OP_min || op == OP_prod;
}

static DType accumulator(OpId op, const Attr *a, DType in, DType out)
{
    switch (op) {
    case OP_any: case OP_all: return DT_bool;
    case OP_max: case OP_min: return in;
    default: break;
    }
    return accum_dtype(a, in, out);
}

/* Split the axes of t into kept and reduced ones. */
static void split_axes(ReduceJob *j, const Tensor *t, const Attr *a)
{
    int64_t shape[RANK_MAX], stride[RANK_MAX];
    int n = 0, nk = 0;

    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < t->rank; i++)
            if (is_reduced(a, t->rank, i) == pass) {
                shape[n] = t->shape[i];
                stride[n++] = t->stride[i];
            }
        if (!pass)
            nk = n;
    }
    j->nout = j->nred = 1;
    for (int i = 0; i < n; i++)
        *(i < nk ? &j->nout : &j->nred) *= shape[i];
    reader_view(&j->in, t, n, shape, stride, t->offset);
    reader_view(&j->kept, t, nk, shape, stride, t->offset);
    reader_view(&j->reduced, t, n - nk, shape + nk, stride + nk, 0);
}

static bool wants_columns(const ReduceJob *j)
{
    const Reader *k = &j->kept, *r = &j->reduced;

    return k->rank > 0 && k->stride[k->rank - 1] == 1 && k->shape[k->rank - 1] >= 8 && r->rank > 0 && r->stride[r->rank - 1] != 1;
}

static KStatus refuse_empty(KCtx *c, OpId op, const Tensor *t)
{
    StrBuf shape = {0};

    for (int i = 0; i < t->rank; i++)
        sb_printf(&shape, "%s%lld", i ? ", " : "", (long long)t->shape[i]);
    k_fail(c, K_VALUE, "%s of no elements: an axis of [%s] that it goes over has size 0", op_info[op].name, sb_str(&shape));
    sb_done(&shape);
    return K_VALUE;
}

/* any and all of a row of bools: as far as the first that decides. */
static void decide(const ReduceJob *j, OpId op)
{
    bool found = memchr(reader_row(&j->in), op == OP_any, (size_t)j->nred) != NULL;

    store(j, 0, &(uint8_t){found == (op == OP_any)}, 1);
}

static KStatus reduce_run(KCtx *c, ReduceJob *j, OpId op)
{
    int64_t chunks = (j->nred + CHUNK - 1) / CHUNK, grain;

    if ((op == OP_any || op == OP_all) && j->nout == 1 && j->nred && j->in.dtype == DT_bool && reader_row(&j->in)) {
        decide(j, op);
        return K_OK;
    }
    if (j->compensated) {
        grain = 4096 / (j->nred + 1) + 1;
        pool_for(j->nout, (grain + 3) / 4 * 4, compensated_part, j);
        return K_OK;
    }
    j->at_once = reader_row(&j->in) && j->in.dtype == j->lane ? AT_ONCE : tile_length(reader_width(&j->in)) / CHUNK;
    if (j->nout < 2 * pool_threads() && j->nred > 32768) {
        if (!(j->partial = k_scratch(c, chunks, j->size)))
            return K_NOMEM;
        by_chunk(j);
        tsr_free_aligned(j->partial);
        return K_OK;
    }
    if (wants_columns(j))
        return by_columns(c, j);
    grain = 16384 / (j->nred + 1) + 1;
    grain = (grain + 3) / 4 * 4;                    /* packed results: whole bytes */
    pool_for(j->nout, grain, rows_part, j);
    return K_OK;
}

static KStatus kernel_arg(KERNEL_ARGS);

KStatus kernel_reduce(KERNEL_ARGS)
{
    ReduceJob j = {.out = (DType)type->dtype};
    KStatus s;

    if (op == OP_argmax || op == OP_argmin)
        return kernel_arg(c, op, a, in, nin, type, out);
    split_axes(&j, in[0], a);
    if ((op == OP_max || op == OP_min) && !j.nred && j.nout)
        return refuse_empty(c, op, in[0]);
    j.in.as = j.accum = accumulator(op, a, (DType)in[0]->dtype, j.out);
    j.lane = lane_dtype(j.accum);
    j.size = raw_size(j.lane);
    j.op = loop_find(step_op(op), j.accum);
    if (!j.op)
        return k_fail(c, K_VALUE, "%s is not defined for %s", op_info[op].name, dtype_info[j.accum].name);
    j.chunks = fast_chunks(op, j.accum);
    j.pairs = fast_pairs(op, j.accum);
    j.run = fast_run(op, j.accum);
    j.rows = fast_rows(op, j.accum);
    j.compensated = op == OP_sum && a->kind == 1 && (j.lane == DT_f32 || j.lane == DT_f64);
    j.exact = (op != OP_sum && op != OP_prod) || !dtype_is_inexact(j.accum);
    set_identity(&j, op);
    if (!(j.result = k_result(c, type)))
        return K_NOMEM;
    s = reduce_run(c, &j, op);
    if (s == K_OK)
        out[0] = j.result;
    else
        tensor_unref(j.result);
    return s;
}

/* ---- index of the first largest or smallest ---- */

typedef struct ArgJob {
    ReduceJob j;
    ChunksFn *chunks;           /* the extreme of each chunk */
    ArgRowFn *row;              /* results side by side */
    FindFn *find;
} ArgJob;

/* The extreme of each chunk, and only in the chunk that has the best one the place. */
static void arg_part(int64_t lo, int64_t hi, void *st)
{
    const ArgJob *a = st;
    TileBuf buf, spare;
    _Alignas(16) char best[16], top[AT_ONCE * 16];
    int32_t *out = tensor_data(a->j.result);
    int64_t tile = tile_length(reader_width(&a->j.in));
    size_t size = a->j.size;

    for (int64_t o = lo; o < hi; o++) {
        int64_t at = 0;
        for (int64_t i = 0; i < a->j.nred; i += tile) {
            int64_t n = a->j.nred - i < tile ? a->j.nred - i : tile;
            const char *run = reader_lanes(&a->j.in, o * a->j.nred + i, n, buf.at, spare.at);
            int32_t where = i ? -1 : 0;
            a->chunks(run, n, top);
            if (!i)
                memcpy(best, top, size);
            for (int32_t c = i == 0; c * CHUNK < n; c++)
                a->row(top + (size_t)c * size, best, &where, c, 1);
            if (where >= 0)
                at = i + where * CHUNK + a->find(run + (size_t)where * CHUNK * size, n - where * CHUNK, best);
        }
        out[o] = (int32_t)at;
    }
}

/* Results whose elements lie side by side: a row of them at a time. */
static void arg_columns(int64_t lo, int64_t hi, void *st)
{
    const ArgJob *a = st;
    const ReduceJob *j = &a->j;
    TileBuf best, buf, spare;
    int32_t *out = tensor_data(j->result);
    int64_t width = j->kept.shape[j->kept.rank - 1], most = tile_length(reader_width(&j->in));

    for (int64_t o = lo, w; o < hi; o += w) {
        w = width - o % width < most ? width - o % width : most;
        w = hi - o < w ? hi - o : w;
        int64_t base = place(&j->kept, o);
        memcpy(best.at, row_lanes(j, base + place(&j->reduced, 0), w, buf.at, spare.at), (size_t)w * j->size);
        memset(out + o, 0, (size_t)w * sizeof *out);
        for (int64_t i = 1; i < j->nred; i++)
            a->row(row_lanes(j, base + place(&j->reduced, i), w, buf.at, spare.at), best.at, out + o, (int32_t)i, w);
    }
}

static KStatus kernel_arg(KERNEL_ARGS)
{
    const Sums *sums = cpu()->sums;
    bool low = op == OP_argmin;
    ArgJob w = {0};

    (void)nin;
    split_axes(&w.j, in[0], a);
    if (!w.j.nred && w.j.nout)
        return refuse_empty(c, op, in[0]);
    w.j.accum = (DType)in[0]->dtype;
    w.j.lane = lane_dtype(w.j.accum);
    w.j.size = raw_size(w.j.lane);
    w.chunks = (low ? sums->min : sums->max)[w.j.lane];
    w.row = (low ? sums->argmin : sums->argmax)[w.j.lane];
    w.find = sums->find[w.j.lane];
    if (!w.find)
        return k_fail(c, K_VALUE, "%s is not defined for %s", op_info[op].name, dtype_info[in[0]->dtype].name);
    if (!(w.j.result = k_result(c, type)))
        return K_NOMEM;
    if (w.j.nred && wants_columns(&w.j))
        pool_for(w.j.nout, (16384 / (w.j.nred + 1) + 16) / 16 * 16, arg_columns, &w);
    else
        pool_for(w.j.nout, 8192 / (w.j.nred + 1) + 1, arg_part, &w);
    out[0] = w.j.result;
    return K_OK;
}
