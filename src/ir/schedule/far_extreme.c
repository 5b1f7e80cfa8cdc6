/*
 * Reductions on a GPU that are no body of one node as they come.
 *
 * The place of a tensor's extreme among all its elements is the least of the places at which the extreme, a total of its own, or NaN stands:
 * two kernels, as extreme.c has it for rows.  Axes of one element, which bodies of totals do not take, are left out.  Axes that others stand
 * between, as images and places beside channels, are brought together by a copy: their elements are reduced in row-major order anyway.
 */
#include "ir/schedule/far_impl.h"

#include "ir/graph/trace.h"
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

/* Places of a row's elements, or INT_MAX where neither m nor NaN stands; their least. NULL: there is no such op of the dtype. */
static Graph *place_body(DType dt)
{
    static Graph *made[DT_COUNT];
    Graph *g = made[dt];
    TType row = {.dtype = (uint8_t)dt, .rank = 1}, one = {.dtype = (uint8_t)dt};
    Attr at, none = attr_default(), axis = attr_default();
    GValue x, m, in[3];

    if (g)
        return g;
    g = graph_new(sym("op"));
    row.shape[0] = dim_var(sym("extreme_n"), 2, INT32_MAX);
    x = graph_param(g, &row);
    m = graph_param(g, &one);
    at = attr_iota(DT_int32, 1, row.shape, -1);
    none.dtype = DT_int32;
    none.f = INT_MAX;
    axis.naxes = 1;
    axis.axis[0] = -1;
    in[0] = add(g, OP_eq, NULL, (GValue[]){x, m}, 2);
    if (dtype_is_float(dt))
        in[0] = add(g, OP_bitor, NULL, (GValue[]){in[0], add(g, OP_ne, NULL, (GValue[]){x, x}, 2)}, 2);
    in[1] = add(g, OP_iota, &at, NULL, 0);
    in[2] = add(g, OP_full, &none, NULL, 0);
    in[0] = add(g, OP_where, NULL, in, 3);
    graph_result(g, add(g, OP_min, &axis, in, 1));
    return made[dt] = g;
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

static int place(Trace *T, OpId op, Tensor *x, const TType *y, Tensor **out)
{
    Attr axis = attr_default(), none = attr_default();
    TType one = {.dtype = x->dtype};
    Tensor *m;
    int n, done;

    if (x->rank != 1 || x->shape[0] > INT32_MAX || dtype_is_complex((DType)x->dtype) || is_packed((DType)x->dtype) || y->dtype != DT_int32)
        return 0;
    axis.naxes = 1;
    axis.axis[0] = -1;
    done = far_body(T, op == OP_argmax ? OP_max : OP_min, &axis, &x, 1, &one, &m);
    if (done > 0) {
        done = trace_run_fused(T, place_body((DType)x->dtype), &none, (Tensor *[]){x, m}, 2, out, &n);
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
