/*
 * Reverse mode of control flow, by recomputation.
 *
 * The forward pass keeps the operands and, for loops, the carries at the start
 * of every round (scan stacks them, while writes a tape).  The linear graph
 * gets one custom_lin node holding two closed regions: the map of tangents
 * forwards, and its transpose.  The transpose of a loop is a scan backwards
 * over the saved carries, which runs each round again and pulls the
 * cotangents through it; captures' cotangents add up as carries, in reverse
 * order, so weights are never stacked.  A checkpointed call is the same with
 * no loop.  Effects do not happen again in a recomputation.
 *
 * A round of a while counts only where its condition holds at the saved
 * carries: under vmap the tape goes on until the last example is done, and for
 * the others those rounds did not happen.  A while that keeps a tape itself
 * (the derivative of a derivative) has cotangents for the tape too: they join
 * those of the carries at the start of their round.
 */
#include "ir/graph/control.h"

#include <string.h>

typedef struct Lin {
    Trace *T;
    OpId op;
    const Attr *a;
    Graph *body;                /* whose results are the op's */
    const bool *active;         /* operands that have a tangent */
    int nin, nsaved;
} Lin;

static bool taped(const Lin *s) { return s->op == OP_while && s->a->kind; }

/* Pull cotangents of g's inexact results back to its active parameters. */
static bool graph_pull(Trace *T, Graph *g, Tensor *const *x, Tensor *const *ct, const bool *active, Tensor **out, int *nout)
{
    GraphFn f = {T, g};
    int nr = g->results.n, np = g->params.n, ny, k = 0;
    Tensor **y = tsr_calloc(sizeof *y * (size_t)(2 * nr + np + 1)), **all = y + nr, **dx = all + nr;
    Pullback *p = trace_vjp(T, graph_fn(&f), x, np, y, &ny);
    bool ok = p != NULL;

    for (int i = 0; i < nr; i++)
        all[i] = inexact(result_of(g, i)) ? ct[k++] : NULL;
    ok = ok && pullback_call(T, p, all, dx);
    for (int i = 0; i < np && ok; i++)
        if (active[i])
            out[(*nout)++] = tensor_ref(dx[i]);
    tensors_unref(y, nr);
    tensors_unref(dx, np);
    pullback_free(p);
    tsr_free(y);
    return ok;
}

/* -- the transpose of a loop ------------------------------------------------------------------------------------------------------ */

typedef struct Loop {
    Trace *T;
    Graph *body, *cond;         /* cond: of a while, NULL for a scan */
    bool taped;
    const bool *active;         /* for the operands */
    bool *pulled;               /* for the body: inexact carries too */
    int ncap, ncarry, nx, ny;
    int ncc, nacc, nyc;         /* cotangents of carries, sums for captures, cotangents of ys */
} Loop;

static int count_inexact_params(const Graph *g, int lo, int n)
{
    int k = 0;

    for (int i = lo; i < lo + n; i++)
        k += inexact(param_of(g, i));
    return k;
}

static void loop_init(Loop *l, const Lin *s)
{
    int ncap = s->a->n, ncarry = s->op == OP_scan ? s->a->m : s->nin - ncap, n = s->nin;

    *l = (Loop){.T = s->T, .body = s->body, .cond = s->op == OP_while ? s->a->region[0] : NULL, .taped = taped(s),
                .active = s->active, .ncap = ncap, .ncarry = ncarry, .nx = n - ncap - ncarry, .ny = s->body->results.n - ncarry};
    l->pulled = tsr_calloc((size_t)n + 1);
    for (int i = 0; i < n; i++)
        l->pulled[i] = i >= ncap && i < ncap + ncarry ? inexact(param_of(s->body, i)) : s->active[i];
    for (int i = 0; i < ncap; i++)
        l->nacc += s->active[i];
    l->ncc = count_inexact_params(s->body, ncap, ncarry);
    for (int i = ncarry; i < s->body->results.n; i++)
        l->nyc += inexact(result_of(s->body, i));
    if (l->taped)
        l->nyc = l->ncc;
}

/* Of a while: did the round happen? Then what it pulled back, else what came in (carries) or nothing (captures). */
static Tensor *if_live(Rule *r, Tensor *live, Tensor *pulled, Tensor *otherwise)
{
    return live ? r3(r, OP_where, live, pulled, otherwise) : pulled;
}

/* The round's cotangents in dx (captures, carries, xs) as the next carries and ys of the backward scan. */
static bool round_results(Loop *l, Tensor *live, Tensor *const *in, Tensor **dx, int ndx, Tensor **out, int *nout)
{
    Tensor *const *cc = in + l->ncap, *const *acc = cc + l->ncc, *const *tape = acc + l->nacc + l->ncarry + l->nx;
    Rule r = rule_begin(l->T);
    int n = 0;

    for (int i = 0; i < l->ncc; i++) {
        Tensor *d = if_live(&r, live, dx[l->nacc + i], cc[i]);
        out[n++] = l->taped ? r2(&r, OP_add, d, tape[i]) : d;
    }
    for (int i = 0; i < l->nacc; i++)
        out[n++] = r2(&r, OP_add, acc[i], if_live(&r, live, dx[i], r_num(&r, dx[i], 0)));
    for (int i = l->nacc + l->ncc; i < ndx; i++)
        out[n++] = dx[i];
    for (int i = 0; i < n && !r.failed; i++)
        tensor_ref(out[i]);
    *nout = r.failed ? 0 : n;
    rule_end(&r);
    return !r.failed;
}

/* (captures; carry cotangents, sums; saved carries, xs, y cotangents) -> (carry cotangents, sums; x cotangents) */
static bool loop_round(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Loop *l = self;
    Tensor *const *cap = in, *const *cc = cap + l->ncap, *const *acc = cc + l->ncc, *const *saved = acc + l->nacc;
    Tensor *const *xs = saved + l->ncarry, *const *yc = xs + l->nx;
    int n = l->ncap + l->ncarry + l->nx, k = 0, nlive = 0;
    Tensor **x = tsr_calloc(sizeof *x * (size_t)(2 * n + l->ncc + l->nyc + 1)), **ct = x + n, **dx = ct + l->ncc + l->nyc, *live = NULL;
    bool ok;

    (void)nin;
    memcpy(x, cap, sizeof *x * (size_t)l->ncap);
    memcpy(x + l->ncap, saved, sizeof *x * (size_t)l->ncarry);
    memcpy(x + l->ncap + l->ncarry, xs, sizeof *x * (size_t)l->nx);
    memcpy(ct, cc, sizeof *x * (size_t)l->ncc);
    if (!l->taped)
        memcpy(ct + l->ncc, yc, sizeof *x * (size_t)l->nyc);
    ok = graph_pull(l->T, l->body, x, ct, l->pulled, dx, &k);
    ok = ok && (!l->cond || graph_apply(l->T, l->cond, x, n, &live, &nlive));
    *nout = 0;
    ok = ok && round_results(l, live, in, dx, k, out, nout);
    tensor_unref(live);
    tensors_unref(dx, k);
    tsr_free(x);
    return ok;
}

static Graph *stage_round(Loop *l)
{
    const Graph *b = l->body;
    int n = 0, total = l->ncap + l->ncc + l->nacc + l->ncarry + l->nx + l->nyc;
    TType *y = tsr_alloc(sizeof *y * (size_t)(total + 1));
    Graph *g;

    for (int i = 0; i < l->ncap; i++)
        y[n++] = *param_of(b, i);
    for (int i = 0; i < l->ncarry; i++)
        if (inexact(param_of(b, l->ncap + i)))
            y[n++] = *param_of(b, l->ncap + i);
    for (int i = 0; i < l->ncap; i++)
        if (l->active[i])
            y[n++] = *param_of(b, i);
    for (int i = 0; i < l->ncarry + l->nx; i++)
        y[n++] = *param_of(b, l->ncap + i);
    for (int i = l->ncarry; i < b->results.n; i++)
        if (inexact(result_of(b, i)))
            y[n++] = *result_of(b, i);
    for (int i = 0; i < l->ncarry && l->taped; i++)
        if (inexact(param_of(b, l->ncap + i)))
            y[n++] = *param_of(b, l->ncap + i);
    g = stage(l->T, sym("backward"), (TensorFn){loop_round, l, l->ncc + l->nacc + l->nx}, y, n, NULL, NULL);
    tsr_free(y);
    return g;
}

/* Results of the backward scan, for the operands that asked. */
static void pick_cotangents(const Loop *l, Tensor **got, int ngot, Tensor **out, int *nout)
{
    int cc = 0;

    for (int i = 0; i < l->nacc; i++)
        out[(*nout)++] = tensor_ref(got[l->ncc + i]);
    for (int i = 0; i < l->ncarry; i++)
        if (l->pulled[l->ncap + i]) {
            if (l->active[l->ncap + i])
                out[(*nout)++] = tensor_ref(got[cc]);
            cc++;
        }
    for (int i = l->ncc + l->nacc; i < ngot; i++)
        out[(*nout)++] = tensor_ref(got[i]);
}

/* in: captures, initial carries, xs, saved carries, then cotangents of carries and ys. */
static bool loop_reverse(Lin *s, Tensor *const *in, Tensor **out, int *nout)
{
    Trace *T = s->T;
    Attr b = attr_default();
    Tensors v = {0};
    Tensor **got;
    Loop l;
    int n = 0;
    bool ok;

    loop_init(&l, s);
    b.n = (int16_t)l.ncap;
    b.m = (int16_t)(l.ncc + l.nacc);
    b.i = s->op == OP_scan ? !s->a->i : 1;
    b.nd[0] = 1;
    b.d[0][0] = s->nsaved ? in[s->nin]->shape[0] : s->a->d[0][0];
    b.region[0] = stage_round(&l);
    ok = b.region[0] != NULL;
    tensors_push(&v, in, l.ncap);
    tensors_push(&v, in + s->nin + s->nsaved, l.ncc);
    for (int i = 0; i < l.ncap && ok; i++)
        if (s->active[i]) {
            TType y = tensor_type(in[i]);
            Tensor *z = zeros_like(T, &y);
            if ((ok = z != NULL))
                vec_push(&v, z);
        }
    tensors_push(&v, in + s->nin, l.ncarry);
    tensors_push(&v, in + l.ncap + l.ncarry, l.nx);
    tensors_push(&v, in + s->nin + s->nsaved + l.ncc, l.nyc);
    got = tsr_calloc(sizeof *got * (size_t)(ok ? graph_max_results(OP_scan, &b) : 1));
    ok = ok && op_dispatch(T, OP_scan, &b, v.at, v.n, got, &n);
    if (ok)
        pick_cotangents(&l, got, n, out, nout);
    tensors_unref(got, n);
    tsr_free(got);
    tensors_done(&v);
    graph_unref(b.region[0]);
    tsr_free(l.pulled);
    return ok;
}

/* -- the transpose of a branch ---------------------------------------------------------------------------------------------------- */

typedef struct Arm { Trace *T; Graph *g; const bool *active; } Arm;

static bool call_arm(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Arm *m = self;

    (void)nin;
    *nout = 0;
    return graph_pull(m->T, m->g, in, in + m->g->params.n, m->active, out, nout);
}

/* The region (parameters, cotangents of inexact results) -> cotangents of active parameters. */
static Graph *stage_arm(Trace *T, Graph *g, const bool *active)
{
    Arm m = {T, g, active};
    TType *y = tsr_alloc(sizeof *y * (size_t)(g->params.n + g->results.n + 1));
    int n = 0;
    Graph *arm;

    for (int i = 0; i < g->params.n; i++)
        y[n++] = *param_of(g, i);
    for (int i = 0; i < g->results.n; i++)
        if (inexact(result_of(g, i)))
            y[n++] = *result_of(g, i);
    arm = stage(T, sym("backward"), (TensorFn){call_arm, &m, g->params.n}, y, n, NULL, NULL);
    tsr_free(y);
    return arm;
}

static bool cond_reverse(Lin *s, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Attr b = attr_default();
    bool ok;

    b.region[0] = stage_arm(s->T, s->a->region[0], s->active + 1);
    b.region[1] = b.region[0] ? stage_arm(s->T, s->a->region[1], s->active + 1) : NULL;
    ok = b.region[1] && op_dispatch(s->T, OP_cond, &b, in, nin, out, nout);
    graph_unref(b.region[0]);
    graph_unref(b.region[1]);
    return ok;
}

/* -- the two regions ----------------------------------------------------------------------------------------------------------------- */

static bool call_reverse(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Lin *s = self;

    *nout = 0;
    if (s->op == OP_cond)
        return cond_reverse(s, in, nin, out, nout);
    if (s->op == OP_call)
        return graph_pull(s->T, s->body, in, in + s->nin, s->active, out, nout);
    return loop_reverse(s, in, out, nout);
}

static bool call_forward(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Lin *s = self;
    int room = graph_max_results(s->op, s->a), ny = 0, k = s->nin + s->nsaved;
    Tensor **y = tsr_calloc(sizeof *y * (size_t)(2 * room + nin)), **dy = y + room, **t = dy + room;
    bool ok;

    for (int i = 0; i < s->nin; i++)
        t[i] = s->active[i] ? in[k++] : NULL;
    ok = control_forward(s->T, s->op, s->a, in, t, s->nin, y, dy, &ny);
    *nout = 0;
    for (int i = 0; i < ny && ok; i++) {
        TType type = tensor_type(y[i]);
        if (inexact(&type) && (ok = (out[*nout] = tangent_of(s->T, y[i], dy[i])) != NULL))
            ++*nout;
    }
    tensors_unref(y, 2 * room);
    tsr_free(y);
    return ok;
}

/* -- the forward pass ------------------------------------------------------------------------------------------------------------------ */

typedef struct Saver { Trace *T; Graph *body; int ncap, ncarry; } Saver;

static bool call_saver(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Saver *s = self;

    if (!graph_apply(s->T, s->body, in, nin, out, nout))
        return false;
    for (int i = 0; i < s->ncarry; i++)
        out[(*nout)++] = tensor_ref(in[s->ncap + i]);
    return true;
}

/* The scan with the carries of every round as further ys. */
static bool scan_saving(Trace *T, const Attr *a, Tensor *const *x, int nin, Tensor **y, int *ny)
{
    Graph *body = a->region[0];
    Saver s = {T, body, a->n, a->m};
    TType *types = tsr_alloc(sizeof *types * (size_t)(nin + 1));
    Attr b = *a;
    bool ok;

    for (int i = 0; i < nin; i++)
        types[i] = *param_of(body, i);
    b.region[0] = stage(T, body->name, (TensorFn){call_saver, &s, body->results.n + a->m}, types, nin, NULL, NULL);
    ok = b.region[0] && op_dispatch(T, OP_scan, &b, x, nin, y, ny);
    graph_unref(b.region[0]);
    tsr_free(types);
    return ok;
}

/* Primal results in y[0 .. ny), saved carries behind them. */
static bool run_primal(Lin *s, Tensor *const *x, Tensor **y, int *ny)
{
    Attr b = *s->a;
    int n = 0;
    bool ok;

    *ny = s->body->results.n << taped(s);
    switch (s->op) {
    case OP_scan:
        ok = scan_saving(s->T, s->a, x, s->nin, y, &n);
        break;
    case OP_while:
        if (!b.kind) {
            b.kind = 1;
            b.nd[0] = 1;
            b.d[0][0] = dim_var(sym("rounds"), 0, INT64_MAX);
        }
        ok = op_dispatch(s->T, OP_while, &b, x, s->nin, y, &n);
        break;
    default:
        ok = op_dispatch(s->T, s->op, s->a, x, s->nin, y, &n);
        break;
    }
    s->nsaved = !ok ? 0 : taped(s) ? *ny / 2 : n - *ny;
    return ok;
}

/* Both regions of the linear node, over types of residuals and tangents or cotangents. */
static bool stage_regions(Lin *s, const Tensors *res, Tensor *const *t, Tensor *const *y, int ny, Attr *b)
{
    int nres = res->n, n = nres;
    TType *types = tsr_alloc(sizeof *types * (size_t)(nres + s->nin + ny + 1));

    for (int i = 0; i < nres; i++)
        types[i] = tensor_type(res->at[i]);
    for (int i = 0; i < s->nin; i++)
        if (t[i])
            types[n++] = tensor_type(t[i]);
    s->T->mute++;
    b->region[0] = stage(s->T, sym("tangent"), (TensorFn){call_forward, s, ny}, types, n, NULL, NULL);
    n = nres;
    for (int i = 0; i < ny; i++)
        if (dtype_is_inexact((DType)y[i]->dtype))
            types[n++] = tensor_type(y[i]);
    if (b->region[0])
        b->region[1] = stage(s->T, sym("transpose"), (TensorFn){call_reverse, s, s->nin}, types, n, NULL, NULL);
    s->T->mute--;
    tsr_free(types);
    return b->region[0] && b->region[1];
}

static bool record(Lin *s, Tensors *res, Tensor *const *t, Tensor **y, Tensor **dy, int ny)
{
    Attr b = attr_default();
    Tensor **d = tsr_calloc(sizeof *d * (size_t)(ny + 4));
    int k = 0, nd = 0;
    bool ok;

    b.n = (int16_t)res->n;
    b.kind = s->op == OP_call;
    ok = stage_regions(s, res, t, y, ny, &b);
    for (int i = 0; i < s->nin; i++)
        if (t[i])
            vec_push(res, tensor_ref(t[i]));
    ok = ok && op_dispatch(s->T, OP_custom_lin, &b, res->at, res->n, d, &nd);
    for (int i = 0; i < ny && ok; i++)
        dy[i] = dtype_is_inexact((DType)y[i]->dtype) ? d[k++] : NULL;
    graph_unref(b.region[0]);
    graph_unref(b.region[1]);
    tsr_free(d);
    return ok;
}

bool control_linear(Trace *T, OpId op, const Attr *a, Tensor *const *x, Tensor *const *t, int nin, Tensor **y, Tensor **dy, int *ny)
{
    Lin s = {.T = T, .op = op, .a = a, .body = a->region[op == OP_while], .nin = nin};
    bool *active = tsr_calloc((size_t)nin + 1);
    int room = graph_max_results(op, a) + 2 * nin;
    Tensor **all = tsr_calloc(sizeof *all * (size_t)room);
    Tensors res = {0};
    Attr known = *a;
    bool ok;

    for (int i = 0; i < nin; i++)
        active[i] = t[i] != NULL;
    s.active = active;
    ok = run_primal(&s, x, all, ny);
    if (ok) {
        if (taped(&s) && s.nsaved) {    /* as many rounds as there were */
            known.d[0][0] = all[*ny / 2]->shape[0];
            s.a = &known;
        }
        tensors_push(&res, x, nin);
        if (taped(&s))                  /* the tape is both a result and what the backward pass needs */
            tensors_push(&res, all + *ny / 2, s.nsaved);
        for (int i = 0; i < s.nsaved && !taped(&s); i++)
            vec_push(&res, all[*ny + i]);
        memcpy(y, all, sizeof *y * (size_t)*ny);
        ok = record(&s, &res, t, y, dy, *ny);
        if (!ok)
            tensors_unref(y, *ny);
    }
    tensors_done(&res);
    tsr_free(all);
    tsr_free(active);
    return ok;
}
