/*
 * Functions with a user's derivative rules: custom_jvp, custom_vjp, and
 * custom_lin, the linear map that a custom_vjp (or control flow, with region1
 * as its transpose) leaves in a linear graph.
 *
 * Under vmap the op stays: region0 is batched, and the rule is wrapped.  A
 * wrap k is a batch size d0[k] and a mask d1[k] of the operands that were
 * batched; calling the rule opens BATCH levels from the last wrap (the
 * outermost axis) to the first and calls the host inside.
 */
#include "ir/graph/control.h"

#include <string.h>

#define OP(name, nin, nout, fam, shape, dtype, flags, attrs, jvp, transpose, ...) void transpose_##transpose(Transpose *t);
#include "ir/core/ops.def"

enum { RULE_JVP, RULE_FWD, RULE_BWD };

static bool batched_operand(const Attr *a, int wrap, int i)
{
    return a->d[1][wrap] >> i & 1;
}

/* Is operand i of a rule call batched at this wrap? Primals by the mask, tangents like their primals, the rest always. */
static bool in_batch(const Attr *a, int wrap, int rule, int i, int nprimal)
{
    if (rule == RULE_BWD)
        return true;
    return batched_operand(a, wrap, i % nprimal);
}

static bool sum_leading(Trace *T, Tensor **t)
{
    Attr a = attr_default();
    Tensor *s;

    a.naxes = 1;
    a.axis[0] = (int8_t)-(*t)->rank;
    s = op1(T, OP_sum, &a, t, 1);
    tensor_unref(*t);
    *t = s;
    return s != NULL;
}

static bool call_rule(Trace *T, const Attr *a, int wrap, int rule, Tensor *const *in, int nin, Tensor **out, int *nout);

/* One wrap: the rule inside a BATCH level, every result with the batch axis in front. */
static bool call_wrapped(Trace *T, const Attr *a, int wrap, int rule, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Level *lv = level_push(T, TRACE_BATCH, apply_batch);
    Tensor **x = tsr_alloc(sizeof *x * (size_t)(nin + 1));
    int nprimal = rule == RULE_JVP ? nin / 2 : nin;
    bool ok;

    lv->batch = a->d[0][wrap];
    for (int i = 0; i < nin; i++)
        x[i] = in_batch(a, wrap, rule, i, nprimal) ? batch_wrap(lv, in[i]) : tensor_ref(in[i]);
    ok = call_rule(T, a, wrap - 1, rule, x, nin, out, nout);
    for (int i = 0; i < *nout && ok; i++)
        if (out[i]) {
            Tensor *y = batch_unwrap(T, lv, out[i]);
            tensor_unref(out[i]);
            ok = (out[i] = y) != NULL;
            if (ok && rule == RULE_BWD && !batched_operand(a, wrap, i))
                ok = sum_leading(T, &out[i]);
        }
    tensors_unref(x, nin);
    tsr_free(x);
    level_pop(T, lv);
    return ok;
}

static bool call_rule(Trace *T, const Attr *a, int wrap, int rule, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    if (wrap >= 0)
        return call_wrapped(T, a, wrap, rule, in, nin, out, nout);
    if (!T->host_rule)
        return trace_fail(T, OPERR_TRACE, "%s has a rule that only the language can run", a->name ? a->name->text : "a custom function");
    if (T->host_rule(T->host, a->host, rule, in, nin, out, nout))
        return true;
    T->error = OPERR_HOST;
    return false;
}

static bool rule_call(Trace *T, const Attr *a, int rule, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    *nout = 0;
    return call_rule(T, a, a->nd[0] - 1, rule, in, nin, out, nout);
}

/* Tangents as the rule wants them: zeros instead of nothing, also for ints. */
static bool push_tangents(Trace *T, Tensors *v, Tensor *const *x, Tensor *const *t, int n)
{
    for (int i = 0; i < n; i++) {
        Tensor *d = tangent_of(T, x[i], t[i]);
        if (!d)
            return false;
        vec_push(v, d);
    }
    return true;
}

bool custom_forward(Trace *T, const Attr *a, Tensor *const *x, Tensor *const *t, int nin, Tensor **y, Tensor **dy, int *ny)
{
    Tensor **out = tsr_calloc(sizeof *out * HOST_RESULTS);
    Tensors v = {0};
    int n = nin - a->m, got = 0;
    bool ok;

    tensors_push(&v, x + a->m, n);
    ok = push_tangents(T, &v, x + a->m, t + a->m, n) && rule_call(T, a, RULE_JVP, v.at, v.n, out, &got);
    *ny = a->region[0]->results.n;
    if (ok && got != 2 * *ny) {
        tensors_unref(out, got);
        ok = trace_fail(T, OPERR_VALUE, "the rule of %s gave %d values instead of %d results and their tangents",
                        a->name ? a->name->text : "a custom_jvp function", got, *ny);
    }
    for (int i = 0; i < *ny && ok; i++) {
        y[i] = out[i];
        dy[i] = out[*ny + i];
    }
    tsr_free(out);
    tensors_done(&v);
    return ok;
}

/* Forwards the rule's fwd runs; the linear graph gets its residuals with bwd as transpose. */
bool custom_linear(Trace *T, const Attr *a, Tensor *const *x, Tensor *const *t, int nin, Tensor **y, Tensor **dy, int *ny)
{
    Tensor **out = tsr_calloc(sizeof *out * HOST_RESULTS);
    Tensors v = {0};
    Attr b = *a;
    int n = nin - a->m, got = 0, nd;
    bool ok = rule_call(T, a, RULE_FWD, x + a->m, n, out, &got);

    *ny = a->region[0]->results.n;
    if (ok && got < *ny) {
        tensors_unref(out, got);
        ok = trace_fail(T, OPERR_VALUE, "the fwd rule of %s gave %d values for %d results",
                        a->name ? a->name->text : "a custom_vjp function", got, *ny);
    }
    if (ok) {
        memcpy(y, out, sizeof *y * (size_t)*ny);
        for (int i = *ny; i < got; i++)
            vec_push(&v, out[i]);
        b.n = (int16_t)v.n;
        ok = push_tangents(T, &v, x + a->m, t + a->m, n) && op_dispatch(T, OP_custom_lin, &b, v.at, v.n, dy, &nd);
        if (!ok)
            tensors_unref(y, *ny);
    }
    tsr_free(out);
    tensors_done(&v);
    return ok;
}

/* -- transposes --------------------------------------------------------------------------------------------------------------------- */

static bool host_transpose(Transpose *t, Tensors *v)
{
    Tensor *out[HOST_RESULTS] = {NULL};
    Trace *T = t->r->T;
    int nres = t->a->n, nout = 0;

    for (int i = 0; i < t->ny; i++) {
        Tensor *c = t->ct[i] ? tensor_ref(t->ct[i]) : zeros_like(T, &t->yt[i]);
        if (!c)
            return false;
        vec_push(v, c);
    }
    if (!rule_call(T, t->a, RULE_BWD, v->at, v->n, out, &nout))
        return false;
    if (nout != t->n - nres) {
        tensors_unref(out, nout);
        return trace_fail(T, OPERR_VALUE, "the bwd rule of %s gave %d cotangents for %d arguments",
                          t->a->name ? t->a->name->text : "a custom_vjp function", nout, t->n - nres);
    }
    for (int i = 0; i < nout; i++)
        t->dx[nres + i] = out[i] ? r_keep(t->r, out[i]) : NULL;
    return true;
}

static bool region_transpose(Transpose *t, Tensors *v)
{
    Trace *T = t->r->T;
    Attr call = attr_default();
    Graph *g = t->a->region[1];
    Tensor **out = tsr_calloc(sizeof *out * (size_t)(2 * g->results.n + 4));
    int nout = 0;
    bool ok = true;

    for (int i = 0; i < t->ny && ok; i++) {
        Tensor *c = t->ct[i] ? r_fit(t->r, t->ct[i], &t->yt[i]) : r_zeros(t->r, &t->yt[i]);
        ok = c != NULL;
        if (ok)
            vec_push(v, tensor_ref(c));
    }
    call.kind = CALL_CHECKPOINT;
    call.region[0] = g;
    ok = ok && (t->a->kind ? op_dispatch(T, OP_call, &call, v->at, v->n, out, &nout) : graph_apply(T, g, v->at, v->n, out, &nout));
    for (int i = 0; i < nout && ok; i++)
        t->dx[t->a->n + i] = r_keep(t->r, out[i]);
    tsr_free(out);
    return ok;
}

void transpose_custom_lin(Transpose *t)
{
    Tensors v = {0};
    int nres = t->a->n;
    bool ok = true;

    for (int i = 0; i < nres && ok; i++)
        ok = t->x[i] != NULL || trace_fail(t->r->T, OPERR_TRACE, "a residual depends on the tangents");
    if (ok) {
        tensors_push(&v, t->x, nres);
        ok = t->a->host ? host_transpose(t, &v) : region_transpose(t, &v);
    }
    if (!ok)
        t->r->failed = true;
    tensors_done(&v);
}
