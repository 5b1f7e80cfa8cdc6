/*
 * The driver of elementwise ops: tiles of the result in row-major order, the
 * operands read as lanes of one dtype, one call of the op's loop for each tile,
 * and one rounding to the result's dtype.
 *
 * The operands' common dtype is the result's, except where the result is of
 * another kind (comparisons, abs of a complex number).
 */
#include "runtime/kernel_util.h"
#include "runtime/loops.h"
#include "runtime/past.h"
#include "runtime/scalar.h"
#include "runtime/transpose.h"

#include <string.h>

enum { AHEAD = 2 * TILE_BYTES };      /* bytes that operands are asked for before they are read */

typedef struct MapJob {
    LoopFn *loop;
    int nin;
    Reader in[3];
    DType out;
    Tensor *result;
    bool flush;
    int64_t tile;               /* elements at a time */
    bool past;                  /* tiles go past the caches into place */
} MapJob;

static bool is_constant(const Reader *r)
{
    return r->rank == 0 || (r->rank == 1 && r->stride[0] == 0);
}

/* Where n lanes of the result at index i go: into place, or to buf first. */
static void *out_lanes(const MapJob *m, int64_t i, void *buf)
{
    return raw_is_lane(m->out) && !m->past ? storage_data(m->result->store) + i * (int64_t)raw_size(m->out) : buf;
}

static void store_lanes(const MapJob *m, int64_t i, int64_t n, void *lanes, void *spare)
{
    char *data = storage_data(m->result->store);

    if (raw_is_lane(m->out))
        return;
    if (is_packed(m->out)) {
        lane_to_raw(m->out, lanes, spare, n);
        raw_pack(m->out, data, i, n, spare);
    } else {
        lane_to_raw(m->out, lanes, data + i * (int64_t)raw_size(m->out), n);
    }
}

static void map_part(int64_t lo, int64_t hi, void *st)
{
    const MapJob *m = st;
    TileBuf buf[3], spare, res;
    const void *x[3] = {NULL, NULL, NULL};
    const char *next[3] = {NULL, NULL, NULL};
    int64_t have = hi - lo < m->tile ? hi - lo : m->tile;

    for (int k = 0; k < m->nin; k++)
        if (is_constant(&m->in[k])) {
            x[k] = reader_lanes(&m->in[k], 0, m->in[k].rank ? have : 1, buf[k].at, spare.at);
            if (!m->in[k].rank && x[k] != buf[k].at)
                x[k] = memcpy(buf[k].at, x[k], raw_size(lane_dtype(m->in[k].as)));
            if (m->flush && x[k] == buf[k].at)
                lane_flush(m->in[k].as, buf[k].at, m->in[k].rank ? have : 1);
        }
    for (int64_t i = lo; i < hi; i += m->tile) {
        int64_t n = hi - i < m->tile ? hi - i : m->tile;
        for (int k = 0; k < m->nin; k++) {
            if (is_constant(&m->in[k]))
                continue;
            x[k] = reader_lanes(&m->in[k], i, n, buf[k].at, spare.at);
            next[k] = x[k] != buf[k].at ? (const char *)x[k] + AHEAD : NULL;
            if (m->flush) {
                if (x[k] != buf[k].at)
                    x[k] = memcpy(buf[k].at, x[k], (size_t)n * raw_size(lane_dtype(m->in[k].as)));
                lane_flush(m->in[k].as, buf[k].at, n);
            }
        }
        void *o = out_lanes(m, i, res.at);
        m->loop(n, o, x[0], x[1], x[2]);
        if (m->flush)
            lane_flush(m->out, o, n);
        if (m->past)
            past_copy((char *)storage_data(m->result->store) + i * (int64_t)raw_size(m->out), o, (size_t)n * raw_size(m->out), next, m->nin);
        else
            store_lanes(m, i, n, o, spare.at);
    }
    if (m->past)
        past_done();
}

/* bool < int < float < complex */
static int category(DType t)
{
    int k = dtype_info[t].kind;

    return k == DK_BOOL ? 0 : k <= DK_UINT ? 1 : k == DK_FLOAT ? 2 : 3;
}

/* Where two dtypes meet; a weak one (a Python scalar's) adopts the other as long as its kind can hold it. */
static DType meet(DType x, bool xweak, DType y, bool yweak)
{
    DType s = xweak ? y : x, w = xweak ? x : y, d;

    if (xweak == yweak)
        return dtype_promote(x, y, &d) ? d : dtype_info[x].bits >= dtype_info[y].bits ? x : y;
    if (category(w) <= category(s))
        return s;
    if (category(w) == 3)
        return category(s) == 2 ? dtype_complex(s) : DT_c64;
    return category(w) == 2 ? DT_f32 : w;
}

DType common_dtype(const Tensor *x, const Tensor *y)
{
    return meet((DType)x->dtype, x->weak, (DType)y->dtype, y->weak);
}

/* The dtype of operand k for the loop. */
static DType operand_dtype(OpId op, DType out, int k)
{
    switch (op) {
    case OP_where: return k == 0 ? DT_bool : out;
    case OP_lnot: return DT_bool;
    case OP_complex: return dtype_real(out);
    default: return out;
    }
}

/* Is the result's dtype no guide to the operands'? */
static bool result_differs(OpId op)
{
    switch (op) {
    case OP_eq: case OP_ne: case OP_lt: case OP_le: case OP_gt: case OP_ge:
    case OP_isnan: case OP_isinf: case OP_isfinite: case OP_abs: case OP_real: case OP_imag:
        return true;
    default:
        return false;
    }
}

void map_operand_dtypes(OpId op, int nin, const DType *dtype, const bool *weak, DType out, DType *as)
{
    bool differs = result_differs(op);
    DType common = nin == 2 && differs ? meet(dtype[0], weak[0], dtype[1], weak[1]) : dtype[0];

    for (int k = 0; k < nin; k++)
        as[k] = differs ? common : operand_dtype(op, out, k);
}

/* Does any element compare so with zero? */
static bool has_any(const Tensor *t, DType as, OpId compare)
{
    TileBuf buf, spare, zero;
    uint8_t found[TILE_MAX];
    LoopFn *loop = loop_find(compare, as);
    int64_t n = tensor_size(t), tile;
    Reader r;

    reader_init(&r, t);
    r.as = as;
    tile = tile_length(reader_width(&r));
    memset(&zero, 0, sizeof zero);
    for (int64_t i = 0; i < n; i += tile) {
        int64_t k = n - i < tile ? n - i : tile;
        loop(k, found, reader_lanes(&r, i, k, buf.at, spare.at), zero.at, NULL);
        if (memchr(found, 1, (size_t)k))
            return true;
    }
    return false;
}

/* Zero divisors and negative exponents of integers. */
static KStatus check_ints(KCtx *c, OpId op, Tensor *const *in, DType as)
{
    if (dtype_is_inexact(as))
        return K_OK;
    if ((op == OP_floordiv || op == OP_mod) && has_any(in[1], as, OP_eq))
        return k_fail(c, K_ZERODIV, "integer division or modulo by zero");
    if (op == OP_pow && dtype_info[as].kind == DK_INT && has_any(in[1], as, OP_lt))
        return k_fail(c, K_VALUE, "integers to negative integer powers are not integers; convert the base to a float first");
    return K_OK;
}

/*
 * Does the result go past the caches?  Only of ops that wait for memory: what computes longer than its operands take to come is faster
 * where the one happens during the other.
 */
static bool goes_past(const MapJob *m, OpId op)
{
    if (!raw_is_lane(m->out) || m->result->store->refs != 1 || tensor_size(m->result) * (int64_t)raw_size(m->out) < PAST_FROM)
        return false;
    switch (op) {
    case OP_add: case OP_sub: case OP_mul: case OP_neg: case OP_abs: case OP_minimum: case OP_maximum: case OP_where: case OP_div: case OP_sqrt:
        return true;
    default: return false;
    }
}

/* Can the result take over operand t's memory? */
static bool reusable(const Tensor *t, const TType *type)
{
    return tensor_is_own(t) && t->dtype == type->dtype && t->rank == type->rank &&
           !memcmp(t->shape, type->shape, t->rank * sizeof *t->shape) && raw_is_lane((DType)t->dtype);
}

static Tensor *map_result(KCtx *c, Tensor *const *in, int nin, const TType *type)
{
    for (int k = 0; k < nin; k++)
        if (c->dying >> k & 1 && reusable(in[k], type))
            return share(in[k]);
    return k_result(c, type);
}

typedef struct { Reader dst, src; ConvOpts opts; bool plain; } ConvertJob;

static void convert_part(int64_t lo, int64_t hi, void *st)
{
    ConvertJob *j = st;

    copy_run(&j->dst, &j->src, lo, hi, j->plain ? NULL : &j->opts);
}

static KStatus convert_run(KCtx *c, const Attr *a, Tensor *const *in, const TType *type, Tensor **out)
{
    ConvertJob j = {.opts = {a->rounding, a->saturate, a->flush, 0}};

    j.plain = !a->rounding && !a->saturate && !a->flush;
    if (j.plain && in[0]->dtype == type->dtype) {
        out[0] = share(in[0]);
        return K_OK;
    }
    if (!(out[0] = k_result(c, type)))
        return K_NOMEM;
    reader_init(&j.src, in[0]);
    writer_init(&j.dst, out[0]);
    pool_for(tensor_size(out[0]), 16 * TILE_MAX, convert_part, &j);
    return K_OK;
}

/* Crosswise operands as rows. The others, and those for which there is no memory, stay as they are: the result may take their place. */
static void straighten(Tensor *const *in, int nin, Tensor **straight)
{
    for (int k = 0; k < nin; k++) {
        Reader r;
        reader_init(&r, in[k]);
        straight[k] = is_crosswise(&r) ? tensor_copy(in[k]) : NULL;
        straight[k] = straight[k] ? straight[k] : in[k];
    }
}

static KStatus map_rows(KERNEL_ARGS);

/* The axes by falling strides, if the elements then lie as rows do. */
static bool dense_order(const Tensor *t, int *order)
{
    int64_t step = 1;

    for (int i = 0; i < t->rank; i++) {
        int k = i;
        for (; k > 0 && t->stride[order[k - 1]] < t->stride[i]; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    for (int i = t->rank - 1; i >= 0; i--) {
        if (t->stride[order[i]] != step)
            return false;
        step *= t->shape[order[i]];
    }
    return true;
}

/* Do all operands, single elements apart, lie in one order of the result's axes that crosses that of rows? */
static bool lie_crosswise(OpId op, const Attr *a, Tensor *const *in, int nin, const TType *type, int *order)
{
    const Tensor *first = NULL;
    bool ok = !(op == OP_convert && (a->rounding || a->flush)) && !is_packed((DType)type->dtype);
    Reader r;

    for (int k = 0; k < nin && ok; k++) {
        const Tensor *t = in[k];
        if (!t->rank)
            continue;
        ok = t->rank == type->rank && !memcmp(t->shape, type->shape, t->rank * sizeof *t->shape) &&
             (!first || !memcmp(t->stride, first->stride, t->rank * sizeof *t->stride));
        first = t;
    }
    if (!ok || !first)
        return false;
    reader_init(&r, first);
    return is_crosswise(&r) && dense_order(first, order);
}

/* A view of t whose axis i is axis[i]; single elements as they are. */
static Tensor *with_axes(Tensor *t, const int *axis)
{
    int64_t shape[RANK_MAX], stride[RANK_MAX];

    for (int i = 0; i < t->rank; i++) {
        shape[i] = t->shape[axis[i]];
        stride[i] = t->stride[axis[i]];
    }
    return t->rank ? tensor_view(t, t->rank, shape, stride, t->offset) : share(t);
}

/* The result lies as the operands do. */
static KStatus map_reordered(KCtx *c, OpId op, const Attr *a, Tensor *const *in, int nin, const TType *type, const int *order, Tensor **out)
{
    Tensor *view[3], *rows;
    TType turned = *type;
    int back[RANK_MAX];
    KStatus s;

    for (int i = 0; i < type->rank; i++) {
        turned.shape[i] = type->shape[order[i]];
        back[order[i]] = i;
    }
    for (int k = 0; k < nin; k++)
        view[k] = with_axes(in[k], order);
    s = map_rows(c, op, a, view, nin, &turned, &rows);
    if (s == K_OK) {
        out[0] = with_axes(rows, back);
        tensor_unref(rows);
    }
    for (int k = 0; k < nin; k++)
        tensor_unref(view[k]);
    return s;
}

KStatus kernel_map(KERNEL_ARGS)
{
    Tensor *straight[3];
    int order[RANK_MAX];
    bool plain = true;
    KStatus s;

    for (int k = 0; k < nin; k++)
        plain &= in[k]->contiguous;
    if (plain)
        return map_rows(c, op, a, in, nin, type, out);
    if (!(c->dying & DYING_ROWS) && lie_crosswise(op, a, in, nin, type, order))
        return map_reordered(c, op, a, in, nin, type, order, out);
    straighten(in, nin, straight);
    s = map_rows(c, op, a, straight, nin, type, out);
    for (int k = 0; k < nin; k++)
        if (straight[k] != in[k])
            tensor_unref(straight[k]);
    return s;
}

static KStatus map_rows(KERNEL_ARGS)
{
    MapJob m = {.nin = nin, .out = (DType)type->dtype, .flush = a && a->flush};
    DType dtype[3] = {DT_NONE}, as[3], last = DT_NONE;
    bool weak[3] = {false};
    size_t widest = raw_size(m.out);
    KStatus s;

    if (op == OP_convert)
        return convert_run(c, a, in, type, out);
    if (op == OP_stop_gradient || (op == OP_conj && !dtype_is_complex((DType)in[0]->dtype))) {
        out[0] = share(in[0]);
        return K_OK;
    }
    for (int k = 0; k < nin; k++) {
        dtype[k] = (DType)in[k]->dtype;
        weak[k] = in[k]->weak;
    }
    map_operand_dtypes(op, nin, dtype, weak, m.out, as);
    for (int k = 0; k < nin; k++) {
        reader_stretch(&m.in[k], in[k], type->rank, type->shape);
        last = m.in[k].as = as[k];
        widest = reader_width(&m.in[k]) > widest ? reader_width(&m.in[k]) : widest;
    }
    m.tile = tile_length(widest > raw_size(lane_dtype(m.out)) ? widest : raw_size(lane_dtype(m.out)));
    m.loop = loop_find(op, last);
    if (!m.loop)
        return k_fail(c, K_VALUE, "%s is not defined for %s", op_info[op].name, dtype_info[last].name);
    if ((s = check_ints(c, op, in, last)) != K_OK)
        return s;
    if (!(m.result = map_result(c, in, nin, type)))
        return K_NOMEM;
    m.past = goes_past(&m, op);
    pool_for(tensor_size(m.result), 16 * TILE_MAX, map_part, &m);
    out[0] = m.result;
    return K_OK;
}
