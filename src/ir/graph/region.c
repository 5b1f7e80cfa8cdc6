/*
 * Control flow on concrete operands: regions run by graph_apply.
 *
 * while with kind 1 also keeps a tape: the carries before each round, stacked,
 * for the reverse pass.  The tape is a growing list of references, so keeping
 * it costs no copies until the end.
 */
#include "ir/graph/level.h"
#include "ir/graph/sizes.h"

#include <string.h>

/* x[t] of a concrete tensor, sharing storage. */
static Tensor *element(Tensor *x, int64_t t)
{
    return tensor_view(x, x->rank - 1, x->shape + 1, x->stride + 1, x->offset + t * x->stride[0]);
}

/* dst[t] = y; dst is concrete, owned and row-major. */
static bool store_element(Trace *T, Tensor *dst, int64_t t, const Tensor *y)
{
    Tensor *place;

    if (y->tracer)
        return trace_fail(T, OPERR_TRACE, "a loop over known values gave an unknown one");
    place = element(dst, t);
    tensor_assign(place, y);
    tensor_unref(place);
    return true;
}

static Tensor *new_stack(Trace *T, const TType *of, const Tensor *like, int64_t n)
{
    Dim shape[16] = {n};
    Tensor *t;

    for (int i = 0; i < of->rank; i++) {
        Dim d = like ? like->shape[i] : env_subst(T->dims, of->shape[i]);
        shape[i + 1] = dim_is_const(d) ? d : 0;         /* a size that only a round would find: there was none */
    }
    t = tensor_new((DType)of->dtype, of->rank + 1, shape);
    if (!t)
        trace_fail(T, OPERR_MEMORY, "out of memory for the results of a loop");
    return t;
}

static bool polled(Trace *T)
{
    return !T->poll || T->poll(T->poll_state) || trace_fail(T, OPERR_VALUE, "interrupted");
}

static bool truth(const Tensor *t)
{
    return elem_get_i(t, t->offset) != 0;
}

static bool run_cond(Trace *T, const Attr *a, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    return graph_apply(T, a->region[truth(in[0]) ? 0 : 1], in + 1, nin - 1, out, nout);
}

/* -- while ------------------------------------------------------------------------------------------------------------- */

typedef Vec(Tensor *) Tape;

static bool stack_tape(Trace *T, const Graph *body, int ncap, int ncarry, Tape *tape, Tensor **out)
{
    int64_t n = tape->n / (ncarry ? ncarry : 1);

    for (int i = 0; i < ncarry; i++) {
        const TType *y = &body->params.at[ncap + i]->type[0];
        if (!(out[i] = new_stack(T, y, n ? tape->at[i] : NULL, n)))
            return false;
        for (int64_t t = 0; t < n; t++)
            if (!store_element(T, out[i], t, tape->at[t * ncarry + i]))
                return false;
    }
    return true;
}

/* One round: 1 when the body ran, 0 when the condition is false, -1 on error. val: captures, then carries (owned). */
static int while_round(Trace *T, const Attr *a, Tensor **val, int n, Tape *tape)
{
    int ncap = a->n, ncarry = n - ncap, k;
    Tensor *c = NULL, *next[64], **to = ncarry <= 64 ? next : tsr_alloc(sizeof *to * (size_t)ncarry);
    bool go, ok = polled(T) && graph_apply(T, a->region[0], val, n, &c, &k);

    if (ok && c->tracer)
        ok = trace_fail(T, OPERR_TRACE, "the condition of a loop over known values is unknown");
    go = ok && truth(c);
    tensor_unref(c);
    for (int i = 0; go && tape && i < ncarry; i++)
        vec_push(tape, tensor_ref(val[ncap + i]));
    if (go && (ok = graph_apply_giving(T, a->region[1], val, n, ncap, n, to, &k)))
        for (int i = 0; i < ncarry; i++) {
            tensor_unref(val[ncap + i]);
            val[ncap + i] = to[i];
        }
    if (to != next)
        tsr_free(to);
    return ok ? go : -1;
}

static bool run_while(Trace *T, const Attr *a, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    int ncap = a->n, ncarry = nin - ncap, st;
    Tensor **val = tsr_alloc(sizeof *val * (size_t)(nin + 1));
    Tape tape = {0};

    for (int i = 0; i < nin; i++)
        val[i] = tensor_ref(in[i]);
    do
        st = while_round(T, a, val, nin, a->kind ? &tape : NULL);
    while (st == 1);
    for (int i = 0; st == 0 && i < ncarry; i++)
        out[i] = tensor_ref(val[ncap + i]);
    *nout = ncarry;
    if (st == 0 && a->kind) {
        memset(out + ncarry, 0, sizeof *out * (size_t)ncarry);
        *nout = 2 * ncarry;
        if (!stack_tape(T, a->region[1], ncap, ncarry, &tape, out + ncarry)) {
            tensors_unref(out, *nout);
            st = -1;
        }
    }
    tensors_unref(tape.at, tape.n);
    vec_free(&tape);
    tensors_unref(val, nin);
    tsr_free(val);
    return st == 0;
}

/* -- scan --------------------------------------------------------------------------------------------------------------- */

typedef struct Scan {
    const Attr *a;
    Tensor **val;               /* captures, carries, elements: what the body takes */
    Tensor **res;               /* carries, ys: what it gives */
    Tensor *const *xs;
    Tensor **ys;                /* stacked */
    int ncap, ncarry, nx, ny;
    int64_t len;
} Scan;

static bool scan_step(Trace *T, Scan *s, int64_t t, bool first)
{
    Graph *body = s->a->region[0];
    int nstate = s->ncap + s->ncarry, k;
    bool ok = polled(T);

    for (int i = 0; i < s->nx; i++)
        s->val[nstate + i] = element(s->xs[i], t);
    ok = ok && graph_apply_giving(T, body, s->val, nstate + s->nx, s->ncap, nstate, s->res, &k);
    tensors_unref(s->val + nstate, s->nx);
    for (int i = 0; ok && i < s->ncarry; i++) {
        tensor_unref(s->val[s->ncap + i]);
        s->val[s->ncap + i] = s->res[i];
    }
    if (!ok)
        return false;
    for (int i = 0; i < s->ny; i++) {
        Tensor *y = s->res[s->ncarry + i];
        if (first)
            ok = ok && (s->ys[i] = new_stack(T, gvalue_type(body->results.at[s->ncarry + i]), y, s->len)) != NULL;
        ok = ok && store_element(T, s->ys[i], t, y);
        tensor_unref(y);
    }
    return ok;
}

static bool scan_length(Trace *T, const Attr *a, Tensor *const *xs, int nx, int64_t *len)
{
    if (nx)
        *len = xs[0]->shape[0];
    else if (!a->nd[0] || !dim_const_value(a->d[0][0], len))
        return trace_fail(T, OPERR_TRACE, "scan: the number of steps is not known");
    for (int i = 1; i < nx; i++)
        if (xs[i]->shape[0] != *len)
            return trace_fail(T, OPERR_SHAPE, "scan: leading sizes %lld and %lld differ", (long long)*len, (long long)xs[i]->shape[0]);
    return true;
}

static bool run_scan(Trace *T, const Attr *a, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Graph *body = a->region[0];
    Scan s = {.a = a, .ncap = a->n, .ncarry = a->m, .nx = nin - a->n - a->m, .ny = body->results.n - a->m, .xs = in + a->n + a->m};
    bool ok = scan_length(T, a, s.xs, s.nx, &s.len);

    s.val = tsr_calloc(sizeof *s.val * (size_t)(nin + 1));
    s.res = tsr_calloc(sizeof *s.res * (size_t)(body->results.n + 1));
    s.ys = out + s.ncarry;
    memset(out, 0, sizeof *out * (size_t)body->results.n);
    for (int i = 0; i < s.ncap + s.ncarry; i++)
        s.val[i] = tensor_ref(in[i]);
    for (int64_t k = 0; ok && k < s.len; k++)
        ok = scan_step(T, &s, a->i ? s.len - 1 - k : k, k == 0);
    for (int i = 0; ok && i < s.ny && !s.len; i++)
        ok = (s.ys[i] = new_stack(T, gvalue_type(body->results.at[s.ncarry + i]), NULL, 0)) != NULL;
    for (int i = 0; ok && i < s.ncarry; i++)
        out[i] = tensor_ref(s.val[s.ncap + i]);
    *nout = body->results.n;
    if (!ok)
        tensors_unref(out, *nout);
    tensors_unref(s.val, s.ncap + s.ncarry);
    tsr_free(s.val);
    tsr_free(s.res);
    return ok;
}

bool (*trace_fused_slices)(void);
int (*trace_run_fused)(Trace *T, Graph *body, const Attr *a, Tensor *const *in, int nin, Tensor **out, int *nout);

static bool run_fused(Trace *T, const Attr *a, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Tensor *const *places = T->slices;
    int done = trace_run_fused && !T->watch ? trace_run_fused(T, a->region[0], a, in, nin, out, nout) : 0;

    T->slices = NULL;
    return done ? done > 0 : graph_apply_placing(T, a->region[0], in, nin, places, out, nout);
}

bool apply_region(Trace *T, OpId op, const Attr *a, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    switch (op) {
    case OP_cond:
        return run_cond(T, a, in, nin, out, nout);
    case OP_while:
        return run_while(T, a, in, nin, out, nout);
    case OP_scan:
        return run_scan(T, a, in, nin, out, nout);
    case OP_fused:
        return run_fused(T, a, in, nin, out, nout);
    case OP_custom_lin:
        if (a->host)
            return trace_fail(T, OPERR_TRACE, "%s has a reverse rule only: it cannot be differentiated forwards",
                              a->name ? a->name->text : "a custom_vjp function");
        return graph_apply(T, a->region[0], in, nin, out, nout);
    default:
        return graph_apply(T, a->region[0], in, nin, out, nout);
    }
}
