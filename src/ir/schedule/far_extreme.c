/*
 * Reductions on a GPU that are no body of one node as they come.
 *
 * The place of a tensor's extreme among all its elements is the least of the places at which the extreme, a total of its own, or NaN stands,
 * as extreme.c has it for rows.  Where the elements are whole rows of a good length, each row's extreme and its place are found at once, in
 * one pass over memory, and then the first row that has the extreme of all.  Axes of one element, which bodies of totals do not take, are left
 * out.  Axes that others stand between, as images and places beside channels, are brought together by a copy: their elements are reduced in
 * row-major order anyway.
 */
#include "ir/schedule/far_impl.h"

#include "ir/graph/trace.h"

#include "base/hash.h"
#include "base/map.h"
#include "runtime/kernel_util.h"

#include <limits.h>

static GValue add(Graph *g, OpId op, const Attr *a, const GValue *in, int nin)
{
    Attr none = attr_default();
    StrBuf err = {0};
    int code;
    Node *n = graph_add(g, op, a ? a : &none, in, nin, (Span){0}, &err, &code);

    sb_done(&err);
    return (GValue){n, 0};
}

static GValue number(Graph *g, int32_t x)
{
    Attr a = attr_default();

    a.dtype = DT_int32;
    a.f = x;
    return add(g, OP_full, &a, NULL, 0);
}

/* Along the last axis. */
static GValue reduced(Graph *g, OpId op, GValue x)
{
    Attr a = attr_default();

    a.naxes = 1;
    a.axis[0] = -1;
    return add(g, op, &a, &x, 1);
}

/* The least of the places at which m or NaN stands in x; INT_MAX where neither does. */
static GValue least_place(Graph *g, GValue x, GValue m, GValue place)
{
    GValue is = add(g, OP_eq, NULL, (GValue[]){x, m}, 2);

    if (dtype_is_float((DType)gvalue_type(x)->dtype))
        is = add(g, OP_bitor, NULL, (GValue[]){is, add(g, OP_ne, NULL, (GValue[]){x, x}, 2)}, 2);
    return reduced(g, OP_min, add(g, OP_where, NULL, (GValue[]){is, place, number(g, INT_MAX)}, 3));
}

static GValue places(Graph *g, Dim n)
{
    Attr a = attr_iota(DT_int32, 1, &n, -1);

    return add(g, OP_iota, &a, NULL, 0);
}

/* What a body is for: all elements and their extreme, rows alone, or rows of so many elements (their extremes and the places of those). */
typedef struct PlaceKind { int32_t dtype, op, rows, columns; } PlaceKind;

static Graph *place_body(const PlaceKind *k)
{
    Graph *g = graph_new(sym("op"));
    Dim r = dim_var(sym("extreme_r"), 1, INT32_MAX), n = dim_var(sym("extreme_n"), 2, INT32_MAX);
    bool joins = k->columns, alone = !k->rows;
    TType x = {.dtype = (uint8_t)k->dtype, .rank = (uint8_t)(alone ? 1 : 2), .shape = {joins ? 1 : r, n}}, at = x;
    GValue v, m, p;

    at.dtype = DT_int32;
    x.shape[0] = at.shape[0] = alone ? n : x.shape[0];
    v = graph_param(g, &x);
    x.rank = 0;
    m = alone ? graph_param(g, &x) : reduced(g, (OpId)k->op, v);
    p = joins ? graph_param(g, &at) : places(g, n);
    if (joins)
        p = add(g, OP_add, NULL, (GValue[]){p, add(g, OP_mul, NULL, (GValue[]){places(g, n), number(g, k->columns)}, 2)}, 2);
    if (k->rows && !joins)
        graph_result(g, m);
    if (k->rows) {
        Attr kept = attr_default();
        kept.nd[0] = 2;
        kept.d[0][0] = joins ? 1 : r, kept.d[0][1] = 1;
        m = add(g, OP_reshape, &kept, &m, 1);
    }
    graph_result(g, least_place(g, v, m, p));
    return g;
}

static Graph *place_body_of(const PlaceKind *k)
{
    static Map made;            /* what it is for -> Graph *, to the end of the process */
    uint64_t key = hash_bytes64(k, sizeof *k) | 1;
    uintptr_t at;
    Graph *g;

    if (map_find(&made, key, &at))
        return (Graph *)at;
    g = place_body(k);
    map_set(&made, key, (uintptr_t)g);
    return g;
}

/* A view without axes of one element; a's axes are then the same ones there. */
static Tensor *without_ones(Tensor *t, Attr *a)
{
    int64_t shape[RANK_MAX], stride[RANK_MAX];
    int rank = 0, naxes = 0, axes[RANK_MAX];

    for (int i = 0; i < t->rank; i++) {
        if (t->shape[i] == 1)
            continue;
        for (int k = 0; k < a->naxes; k++)
            if (a->axis[k] + t->rank == i)
                axes[naxes++] = rank;
        shape[rank] = t->shape[i];
        stride[rank++] = t->stride[i];
    }
    a->naxes = (uint8_t)naxes;
    for (int k = 0; k < naxes; k++)
        a->axis[k] = (int8_t)(axes[k] - rank);
    return tensor_view(t, rank, shape, stride, t->offset);
}

/* [kept..., reduced] with the axes that are reduced as one: a copy. NULL: there is no memory. */
static Tensor *reduced_last(Tensor *t, const Attr *a)
{
    int64_t shape[RANK_MAX], stride[RANK_MAX], n = 1;
    int rank = 0;
    Tensor *view, *rows, *last;

    for (int reduced = 0; reduced < 2; reduced++)
        for (int i = 0; i < t->rank; i++) {
            bool is = false;
            for (int k = 0; k < a->naxes; k++)
                is = is || a->axis[k] + t->rank == i;
            if (is != reduced)
                continue;
            shape[rank] = t->shape[i];
            stride[rank++] = t->stride[i];
            n *= reduced ? t->shape[i] : 1;
        }
    view = tensor_view(t, rank, shape, stride, t->offset);
    rows = tensor_contiguous(view);
    rank -= a->naxes;
    shape[rank] = n;
    for (int64_t i = rank, step = 1; i >= 0; step *= shape[i--])
        stride[i] = step;
    last = rows ? tensor_view(rows, rank + 1, shape, stride, rows->offset) : NULL;
    tensor_unref(view);
    tensor_unref(rows);
    return last;
}

/* The length of rows that n elements are cut into: so that there are not many, and each fits a block's registers. 0: no such length divides n. */
static int64_t row_length(int64_t n)
{
    enum { LEAST = 1024, MOST = 8192, VECTOR = 8, MANY = 1 << 14 };

    for (int step = VECTOR; step; step = step > 1 ? 1 : 0)
        for (int64_t c = MOST; c >= LEAST; c -= step)
            if (n % c == 0 && n / c >= 2 && n / c <= MANY)
                return c;
    return 0;
}

static Tensor *shaped(Tensor *t, int64_t rows, int64_t columns)
{
    return tensor_view(t, 2, (Dim[]){rows, columns}, (int64_t[]){columns, 1}, t->offset);
}

/* Row by row, then among rows. */
static int place_by_rows(Trace *T, OpId extreme, Tensor *x, int64_t columns, Tensor **out)
{
    PlaceKind k = {.dtype = x->dtype, .op = (int32_t)extreme, .rows = 1};
    int64_t rows = x->shape[0] / columns;
    Attr none = attr_default();
    Tensor *all = shaped(x, rows, columns), *each[2], *in[2], *one;
    int n, done = trace_run_fused(T, place_body_of(&k), &none, &all, 1, each, &n);

    tensor_unref(all);
    if (done <= 0)
        return done;
    k.columns = (int32_t)columns;
    for (int i = 0; i < 2; i++)
        in[i] = shaped(each[i], 1, rows);
    done = trace_run_fused(T, place_body_of(&k), &none, in, 2, &one, &n);
    for (int i = 0; i < 2; i++)
        tensor_unref(in[i]), tensor_unref(each[i]);
    if (done > 0) {
        out[0] = tensor_view(one, 0, NULL, NULL, one->offset);
        tensor_unref(one);
    }
    return done;
}

static int place(Trace *T, OpId op, Tensor *x, const TType *y, Tensor **out)
{
    OpId extreme = op == OP_argmax ? OP_max : OP_min;
    PlaceKind k = {.dtype = x->dtype};
    Attr axis = attr_default(), none = attr_default();
    TType one = {.dtype = x->dtype};
    int64_t columns;
    Tensor *m;
    int n, done;

    if (x->rank != 1 || x->shape[0] > INT32_MAX || dtype_is_complex((DType)x->dtype) || is_packed((DType)x->dtype) || y->dtype != DT_int32)
        return 0;
    if (x->stride[0] == 1 && (columns = row_length(x->shape[0])) && (done = place_by_rows(T, extreme, x, columns, out)) != 0)
        return done;
    axis.naxes = 1;
    axis.axis[0] = -1;
    done = far_body(T, extreme, &axis, &x, 1, &one, &m);
    if (done > 0) {
        done = trace_run_fused(T, place_body_of(&k), &none, (Tensor *[]){x, m}, 2, out, &n);
        tensor_unref(m);
    }
    return done;
}

int far_reduce(Trace *T, OpId op, const Attr *a, Tensor *const *in, const TType *y, Tensor **out)
{
    int done = far_body(T, op, a, in, 1, y, out);
    TType flat = *y;
    Attr left = *a;
    int64_t stride[RANK_MAX];
    Tensor *x;

    if (done || tensor_size(in[0]) < 2 || !(x = without_ones(in[0], &left)))
        return done;
    flat.rank = 0;
    for (int i = 0; i < y->rank; i++)
        if (y->shape[i] != 1)
            flat.shape[flat.rank++] = y->shape[i];
    if (left.naxes && x->rank < in[0]->rank)
        done = far_body(T, op, &left, &x, 1, &flat, out);
    if (!done && (op == OP_argmax || op == OP_argmin) && left.naxes)
        done = place(T, op, x, y, out);
    if (!done && left.naxes > 1 && left.naxes < x->rank) {
        Tensor *last = reduced_last(x, &left);
        left.naxes = 1;
        left.axis[0] = -1;
        done = last ? far_body(T, op, &left, &last, 1, &flat, out) : 0;
        tensor_unref(last);
    }
    tensor_unref(x);
    if (done > 0 && reshape_strides(out[0], y->rank, y->shape, stride)) {
        x = tensor_view(out[0], y->rank, y->shape, stride, out[0]->offset);
        tensor_unref(out[0]);
        out[0] = x;
        x->weak = y->weak;
        x->policy = y->policy;
    }
    return done;
}
