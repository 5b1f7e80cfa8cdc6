/*
 * BATCH levels: a tensor stands for many, stacked along a leading axis.
 *
 * Ops are defined on trailing axes with free leading ones, so most batching
 * rules only line operands up.  What is the same for all examples stays
 * unbatched as long as an op's rule lets it.
 */
#include "ir/graph/control.h"

#include <limits.h>
#include <string.h>

#define OP(name, nin, nout, fam, shape, dtype, flags, attrs, jvp, transpose, batch, doc) void batch_##batch(Batch *b);
#include "ir/core/ops.def"

static const BatchRule batch_of[OP_COUNT] = {
#define OP(name, nin, nout, fam, shape, dtype, flags, attrs, jvp, transpose, batch, doc) [OP_##name] = batch_##batch,
#include "ir/core/ops.def"
};

Tensor *batch_wrap(Level *lv, Tensor *t)
{
    TType y = tensor_type(t);

    y.rank--;
    memmove(y.shape, y.shape + 1, sizeof(Dim) * y.rank);
    return level_tensor(lv, &y, (Tracer){.primal = tensor_ref(t), .batched = true});
}

Tensor *batch_unwrap(Trace *T, Level *lv, Tensor *t)
{
    Tracer *tr = tracer_of(lv, t);
    Attr a = attr_default();

    if (tr && tr->batched)
        return tensor_ref(tr->primal);
    if (tr)
        t = tr->primal;
    a.nd[0] = (uint8_t)(t->rank + 1);
    a.d[0][0] = lv->batch;
    memcpy(&a.d[0][1], t->shape, sizeof(Dim) * t->rank);
    return op1(T, OP_broadcast, &a, &t, 1);
}

bool apply_batch(Trace *T, Level *lv, OpId op, const Attr *a, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    int room = graph_max_results(op, a);
    Tensor **x = tsr_calloc(sizeof *x * (size_t)(nin + room)), **y = x + nin;
    bool *batched = tsr_calloc((size_t)(nin + room)), *res = batched + nin, any = false;
    Rule r = rule_begin(T);
    Batch b = {.r = &r, .op = op, .a = a, .size = lv->batch, .x = x, .in = batched, .n = nin, .y = y, .out = res};
    bool ok;

    for (int i = 0; i < nin; i++) {
        Tracer *tr = tracer_of(lv, in[i]);
        x[i] = tr ? tr->primal : in[i];
        batched[i] = tr && tr->batched;
        any |= batched[i];
    }
    if (any) {
        batch_of[op](&b);
        *nout = b.ny;
        for (int i = 0; i < b.ny && !r.failed; i++)
            out[i] = res[i] ? batch_wrap(lv, y[i]) : tensor_ref(y[i]);
        ok = !r.failed;
    } else
        ok = op_dispatch(T, op, a, x, nin, out, nout);
    rule_end(&r);
    tsr_free(x);
    tsr_free(batched);
    return ok;
}

/* x with its axis `from` (counted from the front) moved to `to`; a new reference. */
static Tensor *move_axis(Trace *T, Tensor *x, int from, int to)
{
    Attr a = attr_default();
    int n = 0;

    if (from == to)
        return tensor_ref(x);
    a.naxes = x->rank;
    for (int i = 0; i < x->rank; i++) {
        if (n == to)
            a.axis[n++] = (int8_t)(from - x->rank);
        if (i != from)
            a.axis[n++] = (int8_t)(i - x->rank);
    }
    if (n == to)
        a.axis[n] = (int8_t)(from - x->rank);
    return op1(T, OP_permute, &a, &x, 1);
}

static bool batch_size(Trace *T, Tensor *const *in, const int *axis, int n, Dim *size)
{
    bool known = false;

    for (int i = 0; i < n; i++) {
        Dim d;
        if (axis[i] == INT_MIN)
            continue;
        if (axis[i] < 0 || axis[i] >= in[i]->rank)
            return trace_fail(T, OPERR_SHAPE, "vmap: argument %d has %d axes, there is no axis %d to map over", i + 1, in[i]->rank,
                              axis[i]);
        d = in[i]->shape[axis[i]];
        if (known && d != *size && dim_ask_eq(d, *size) == DIM_REFUTED)
            return trace_fail(T, OPERR_SHAPE, "vmap: argument %d has size %s along its mapped axis, others have %s", i + 1,
                              dim_text(d), dim_text(*size));
        *size = known && dim_is_const(*size) ? *size : d;
        known = true;
    }
    return known || trace_fail(T, OPERR_VALUE, "vmap: no argument is mapped");
}

bool trace_vmap(Trace *T, TensorFn fn, Tensor *const *in, const int *axis, int n, const int *out_axis, Tensor **out, int *nout)
{
    Tensor **x = tsr_calloc(sizeof *x * (size_t)(n + fn.max_out + 1)), **y = x + n;
    Level *lv;
    Dim size = 0;
    bool ok = batch_size(T, in, axis, n, &size);

    if (!ok) {
        tsr_free(x);
        return false;
    }
    lv = level_push(T, TRACE_BATCH, apply_batch);
    lv->batch = size;
    for (int i = 0; i < n && ok; i++) {
        Tensor *front = axis[i] == INT_MIN ? tensor_ref(in[i]) : move_axis(T, in[i], axis[i], 0);
        ok = front != NULL;
        x[i] = ok && axis[i] != INT_MIN ? batch_wrap(lv, front) : front;
        if (x[i] != front)
            tensor_unref(front);
    }
    *nout = 0;
    ok = ok && fn.call(fn.self, x, n, y, nout);
    for (int i = 0; i < *nout && ok; i++) {
        Tensor *front;
        if (out_axis && out_axis[i] == INT_MIN) {
            Tracer *tr = tracer_of(lv, y[i]);
            ok = !(tr && tr->batched) ||
                 trace_fail(T, OPERR_VALUE, "vmap: result %d differs between examples, its axis cannot be None", i + 1);
            out[i] = ok ? tensor_ref(tr ? tr->primal : y[i]) : NULL;
            continue;
        }
        front = batch_unwrap(T, lv, y[i]);
        out[i] = front ? move_axis(T, front, 0, out_axis ? (out_axis[i] < 0 ? out_axis[i] + front->rank : out_axis[i]) : 0) : NULL;
        tensor_unref(front);
        ok = out[i] != NULL;
    }
    tensors_unref(x, n + *nout);
    tsr_free(x);
    level_pop(T, lv);
    return ok;
}
