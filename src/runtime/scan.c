/*
 * Running sums, products and extremes along one axis: sequential in chunks of
 * 256, and each chunk's results meet the total of the chunks before it once.
 * These totals are running sums of the chunks' own ones, in chunks again, so
 * an element's error grows with the logarithm of their number, and no chain
 * of steps is long (a GPU does the same: far_scan.c).
 * From the end when attr.i is set: the same on the axis reversed.
 *
 * One step waits for the one before.  So along the last axis several chunks go on side by side, and along another one whole runs of the last.
 */
#include "runtime/each.h"
#include "runtime/far_moves.h"
#include "runtime/kernel_util.h"
#include "runtime/loops.h"
#include "runtime/scalar.h"

enum { CHUNK = 256, CHAINS = 4, RUN = TILE, RUN_LEAST = 16 };

typedef void PrefixFn(void *run, int64_t n);
typedef void PrefixesFn(TileBuf *run);           /* of CHAINS whole chunks */
typedef struct Prefix { PrefixFn *one; PrefixesFn *several; } Prefix;

typedef struct ScanJob {
    Prefix prefix;              /* NULL: by steps of op */
    LoopFn *op;
    DType accum, lane;
    Reader in, out;             /* the scanned axis last, or the one before */
    int64_t length, inner;      /* of the scanned axis; of the last one, where that is another: it stands behind the scanned one */
} ScanJob;

#define PREFIX(name, T, expr) \
    static void name(void *run, int64_t n) \
    { \
        T *x = run; \
        for (int64_t i = 1; i < n; i++) { \
            T a = x[i - 1], b = x[i]; \
            x[i] = (expr); \
        } \
    } \
    static void name##_several(TileBuf *run) \
    { \
        T *x[CHAINS], now[CHAINS]; \
        UNROLL for (int k = 0; k < CHAINS; k++) { \
            x[k] = (T *)(void *)run[k].at; \
            now[k] = x[k][0]; \
        } \
        for (int64_t i = 1; i < CHUNK; i++) \
            UNROLL for (int k = 0; k < CHAINS; k++) { \
                T a = now[k], b = x[k][i]; \
                now[k] = (expr); \
                x[k][i] = now[k]; \
            } \
    }
PREFIX(sum_f32, float, a + b)
PREFIX(sum_f64, double, a + b)
PREFIX(sum_i32, uint32_t, a + b)
PREFIX(sum_i64, uint64_t, a + b)
PREFIX(max_f32, float, f32_max(a, b))
PREFIX(min_f32, float, f32_min(a, b))

#define BOTH(name) (Prefix){name, name##_several}
static Prefix prefix_of(OpId op, DType accum)
{
    if (op == OP_cumsum)
        switch (accum) {
        case DT_f32: return BOTH(sum_f32);
        case DT_f64: return BOTH(sum_f64);
        case DT_int32: case DT_uint32: return BOTH(sum_i32);
        case DT_int64: case DT_uint64: return BOTH(sum_i64);
        default: return (Prefix){0};
        }
    return accum == DT_f32 && op == OP_cummax ? BOTH(max_f32) : accum == DT_f32 && op == OP_cummin ? BOTH(min_f32) : (Prefix){0};
}

/* out = a op b, rounded to a narrow accumulator. */
static void step(const ScanJob *j, int64_t n, void *out, const void *a, const void *b)
{
    _Alignas(16) char raw[CHUNK * 4];

    j->op(n, out, a, b, NULL);
    if (j->accum != j->lane) {
        lane_to_raw(j->accum, out, raw, n);
        raw_to_lane(j->accum, raw, out, n);
    }
}

static void prefix(const ScanJob *j, char *run, int64_t n)
{
    size_t s = raw_size(j->lane);

    if (j->prefix.one) {
        j->prefix.one(run, n);
        return;
    }
    for (int64_t i = 1; i < n; i++)
        step(j, 1, run + (size_t)i * s, run + (size_t)(i - 1) * s, run + (size_t)i * s);
}

/*
 * The totals of chunks so far, of n lanes side by side.  A level has how many it was given, the running total of the last 256 of them, and that
 * of the levels above, which are given each 256th; the first level is given the chunks' own totals.  Levels are enough for 2^40 elements.
 */
enum { LEVELS = 4 };
typedef struct Level { int64_t given; TileBuf run, above; } Level;
typedef struct Totals { Level level[LEVELS]; } Totals;

static void totals_open(Totals *t)
{
    for (int k = 0; k < LEVELS; k++)
        t->level[k].given = 0;
}

/* The next total at level k; out: that of all so far. */
static void totals_add(const ScanJob *j, Totals *t, int k, int64_t n, const void *total, void *out)
{
    Level *l = &t->level[k];
    size_t bytes = (size_t)n * raw_size(j->lane);

    if (l->given && l->given % CHUNK == 0)
        totals_add(j, t, k + 1, n, l->run.at, l->above.at);
    if (l->given % CHUNK)
        step(j, n, l->run.at, l->run.at, total);
    else
        memcpy(l->run.at, total, bytes);
    if (l->given++ < CHUNK)
        memcpy(out, l->run.at, bytes);
    else
        step(j, n, out, l->above.at, l->run.at);
}

/* Up to CHAINS pieces of lines: their prefixes wait for nothing of each other. */
typedef struct Piece { int64_t at, n; bool first, last; } Piece;      /* of its line */

static void open_piece(const ScanJob *j, Piece p, char *buf, char *spare)
{
    const void *x = reader_lanes(&j->in, p.at, p.n, buf, spare);

    if (x != buf)
        memcpy(buf, x, (size_t)p.n * raw_size(j->lane));
}

/* `to` is CHUNK times the element. */
static void repeat(void *to, const void *element, size_t size)
{
    memcpy(to, element, size);
    for (size_t done = size; done < CHUNK * size; done *= 2)
        memcpy((char *)to + done, to, done);
}

/* The total of the chunks before meets the piece; before: that total in all lanes, then the one with this piece. */
static void close_piece(const ScanJob *j, Piece p, char *buf, Totals *totals, char *before, char *spare)
{
    size_t s = raw_size(j->lane);
    _Alignas(16) char own[16], all[16];

    memcpy(own, buf + (size_t)(p.n - 1) * s, s);
    if (p.first)
        totals_open(totals);
    else
        step(j, p.n, buf, before, buf);
    if (!p.last) {
        totals_add(j, totals, 0, 1, own, all);
        repeat(before, all, s);
    }
    raw_convert(j->out.dtype, spare, j->lane, buf, p.n, NULL, 0);
    writer_raw(&j->out, p.at, p.n, spare);
}

/* Lines lo..hi, CHAINS chunks at a time. */
static void scan_part(int64_t lo, int64_t hi, void *st)
{
    const ScanJob *j = st;
    TileBuf buf[CHAINS], spare, before;
    Totals totals;
    int64_t line = lo, i = 0;

    while (line < hi) {
        Piece p[CHAINS];
        bool whole = j->prefix.several;
        int n = 0;
        for (; n < CHAINS && line < hi; n++) {
            int64_t left = j->length - i;
            p[n] = (Piece){line * j->length + i, left < CHUNK ? left : CHUNK, i == 0, left <= CHUNK};
            open_piece(j, p[n], buf[n].at, spare.at);
            i = p[n].last ? 0 : i + CHUNK;
            line += p[n].last;
            whole = whole && p[n].n == CHUNK;
        }
        if (whole && n == CHAINS)
            j->prefix.several(buf);
        else
            for (int k = 0; k < n; k++)
                prefix(j, buf[k].at, p[k].n);
        for (int k = 0; k < n; k++)
            close_piece(j, p[k], buf[k].at, &totals, before.at, spare.at);
    }
}

/*
 * Another axis than the last: a run of elements of the last axis goes along the scanned one, so steps are whole runs.
 * `task` counts runs of RUN elements, those of one row of the last axis together.
 */
static void scan_across(int64_t lo, int64_t hi, void *st)
{
    const ScanJob *j = st;
    int64_t runs = (j->inner + RUN - 1) / RUN;
    TileBuf now, spare, before, x;
    Totals totals;
    size_t s = raw_size(j->lane);

    for (int64_t task = lo; task < hi; task++) {
        int64_t from = task % runs * RUN, n = j->inner - from < RUN ? j->inner - from : RUN, top = task / runs * j->length;
        totals_open(&totals);
        for (int64_t i = 0; i < j->length; i++) {
            int64_t at = (top + i) * j->inner + from;
            const void *v = reader_lanes(&j->in, at, n, x.at, spare.at), *sum = now.at;
            if (i % CHUNK == 0)
                memcpy(now.at, v, (size_t)n * s);
            else
                step(j, n, now.at, now.at, v);
            if (i >= CHUNK) {
                step(j, n, x.at, before.at, now.at);
                sum = x.at;
            }
            if (i % CHUNK == CHUNK - 1)
                totals_add(j, &totals, 0, n, now.at, before.at);
            raw_convert(j->out.dtype, spare.at, j->lane, sum, n, NULL, 0);
            writer_raw(&j->out, at, n, spare.at);
        }
    }
}

/* t with one axis moved behind the others, or but the last one; reversed if asked. */
static void open_axis(Reader *r, const Tensor *t, int axis, bool across, bool reverse)
{
    int64_t shape[RANK_MAX], stride[RANK_MAX], offset = t->offset;
    int n = 0, to = t->rank - 1 - across;

    for (int i = 0; i < t->rank; i++)
        if (i != axis) {
            n += n == to;
            shape[n] = t->shape[i];
            stride[n++] = t->stride[i];
        }
    shape[to] = t->shape[axis];
    stride[to] = reverse ? -t->stride[axis] : t->stride[axis];
    if (reverse)
        offset += (t->shape[axis] - 1) * t->stride[axis];
    reader_view(r, t, t->rank, shape, stride, offset);
}

static DType accumulator(OpId op, const Attr *a, DType in, DType out)
{
    if (op == OP_cummax || op == OP_cummin)
        return in;
    if (a->accum != DT_NONE && dtype_is_float((DType)a->accum) == dtype_is_float(in) && !dtype_is_complex(in))
        return (DType)a->accum;
    return dtype_is_inexact(in) ? dtype_accum(in) : out;
}

static OpId step_op(OpId op)
{
    switch (op) {
    case OP_cumsum: return OP_add;
    case OP_cumprod: return OP_mul;
    case OP_cummax: return OP_maximum;
    default: return OP_minimum;
    }
}

/* On a GPU, where there are kernels for it. Extremes are as well found among lanes. */
static bool scanned_far(OpId op, const ScanJob *j, Tensor *out, Tensor *x, int axis, bool reverse)
{
    const FarMoves *far = far_moves_of(out);

    return far && (j->accum == j->lane || op == OP_cummax || op == OP_cummin) && far->scan(step_op(op), j->lane, out, x, axis, reverse);
}

KStatus kernel_scan(KERNEL_ARGS)
{
    const Tensor *x = in[0];
    int axis = axis_of(a->axis[0], x->rank);
    ScanJob j = {.length = x->shape[axis]};

    (void)nin;
    j.accum = accumulator(op, a, (DType)x->dtype, (DType)type->dtype);
    j.lane = lane_dtype(j.accum);
    j.op = loop_find(step_op(op), j.accum);
    j.prefix = prefix_of(op, j.accum);
    if (!j.op)
        return k_fail(c, K_VALUE, "%s is not defined for %s", op_info[op].name, dtype_info[j.accum].name);
    if (!(out[0] = k_result(c, type)))
        return K_NOMEM;
    if (!tensor_size(x) || scanned_far(op, &j, out[0], in[0], axis, a->i != 0))
        return K_OK;
    bool across = axis < x->rank - 1 && x->shape[x->rank - 1] >= RUN_LEAST && !is_packed((DType)type->dtype);
    open_axis(&j.in, x, axis, across, a->i != 0);
    open_axis(&j.out, out[0], axis, across, a->i != 0);
    j.in.as = j.accum;
    int64_t lines = tensor_size(x) / j.length;
    if (across) {
        j.inner = x->shape[x->rank - 1];
        pool_for(lines / j.inner * ((j.inner + RUN - 1) / RUN), 16384 / (j.length * RUN) + 1, scan_across, &j);
    } else if (is_packed(j.out.dtype)) {
        scan_part(0, lines, &j);                    /* lines share bytes */
    } else {
        pool_for(lines, 16384 / (j.length + 1) + 1, scan_part, &j);
    }
    return K_OK;
}
