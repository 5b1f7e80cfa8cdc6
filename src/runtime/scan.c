/*
 * Running sums, products and extremes along one axis: sequential in chunks of
 * 256, and each chunk's results meet the total of the chunks before it once,
 * so an element's error grows with the number of chunks, not of elements.
 * From the end when attr.i is set: the same on the axis reversed.
 */
#include "runtime/kernel_util.h"
#include "runtime/loops.h"
#include "runtime/scalar.h"

enum { CHUNK = 256 };

typedef void PrefixFn(void *run, int64_t n);

typedef struct ScanJob {
    PrefixFn *prefix;           /* NULL: by steps of op */
    LoopFn *op;
    DType accum, lane;
    Reader in, out;             /* the scanned axis last */
    int64_t length;
} ScanJob;

#define PREFIX(name, T, expr) \
    static void name(void *run, int64_t n) \
    { \
        T *x = run; \
        for (int64_t i = 1; i < n; i++) { \
            T a = x[i - 1], b = x[i]; \
            x[i] = (expr); \
        } \
    }
PREFIX(sum_f32, float, a + b)
PREFIX(sum_f64, double, a + b)
PREFIX(sum_i32, uint32_t, a + b)
PREFIX(sum_i64, uint64_t, a + b)
PREFIX(max_f32, float, f32_max(a, b))
PREFIX(min_f32, float, f32_min(a, b))

static PrefixFn *prefix_fn(OpId op, DType accum)
{
    if (op == OP_cumsum)
        switch (accum) {
        case DT_f32: return sum_f32;
        case DT_f64: return sum_f64;
        case DT_int32: case DT_uint32: return sum_i32;
        case DT_int64: case DT_uint64: return sum_i64;
        default: return NULL;
        }
    return accum != DT_f32 ? NULL : op == OP_cummax ? max_f32 : op == OP_cummin ? min_f32 : NULL;
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

    if (j->prefix) {
        j->prefix(run, n);
        return;
    }
    for (int64_t i = 1; i < n; i++)
        step(j, 1, run + (size_t)i * s, run + (size_t)(i - 1) * s, run + (size_t)i * s);
}

static void scan_line(const ScanJob *j, int64_t line)
{
    TileBuf buf, spare;
    _Alignas(64) char before[CHUNK * 16];
    size_t s = raw_size(j->lane);

    for (int64_t i = 0; i < j->length; i += CHUNK) {
        int64_t n = j->length - i < CHUNK ? j->length - i : CHUNK, at = line * j->length + i;
        const void *x = reader_lanes(&j->in, at, n, buf.at, spare.at);
        if (x != buf.at)
            memcpy(buf.at, x, (size_t)n * s);
        prefix(j, buf.at, n);
        if (i)
            step(j, n, buf.at, before, buf.at);
        for (int64_t k = 0; k < CHUNK && i + n < j->length; k++)
            memcpy(before + (size_t)k * s, buf.at + (size_t)(n - 1) * s, s);
        raw_convert(j->out.dtype, spare.at, j->lane, buf.at, n, NULL, 0);
        writer_raw(&j->out, at, n, spare.at);
    }
}

static void scan_part(int64_t lo, int64_t hi, void *st)
{
    for (int64_t line = lo; line < hi; line++)
        scan_line(st, line);
}

/* t with one axis moved last, reversed if asked. */
static void open_axis(Reader *r, const Tensor *t, int axis, bool reverse)
{
    int64_t shape[RANK_MAX], stride[RANK_MAX], offset = t->offset;
    int n = 0;

    for (int i = 0; i < t->rank; i++)
        if (i != axis) {
            shape[n] = t->shape[i];
            stride[n++] = t->stride[i];
        }
    shape[n] = t->shape[axis];
    stride[n] = reverse ? -t->stride[axis] : t->stride[axis];
    if (reverse)
        offset += (t->shape[axis] - 1) * t->stride[axis];
    reader_view(r, t, n + 1, shape, stride, offset);
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

KStatus kernel_scan(KERNEL_ARGS)
{
    const Tensor *x = in[0];
    int axis = axis_of(a->axis[0], x->rank);
    ScanJob j = {.length = x->shape[axis]};

    (void)nin;
    j.accum = accumulator(op, a, (DType)x->dtype, (DType)type->dtype);
    j.lane = lane_dtype(j.accum);
    j.op = loop_find(step_op(op), j.accum);
    j.prefix = prefix_fn(op, j.accum);
    if (!j.op)
        return k_fail(c, K_VALUE, "%s is not defined for %s", op_info[op].name, dtype_info[j.accum].name);
    if (!(out[0] = k_result(c, type)))
        return K_NOMEM;
    if (!tensor_size(x))
        return K_OK;
    open_axis(&j.in, x, axis, a->i != 0);
    open_axis(&j.out, out[0], axis, a->i != 0);
    j.in.as = j.accum;
    int64_t lines = tensor_size(x) / j.length;
    if (is_packed(j.out.dtype))
        scan_part(0, lines, &j);                    /* lines share bytes */
    else
        pool_for(lines, 16384 / (j.length + 1) + 1, scan_part, &j);
    return K_OK;
}
