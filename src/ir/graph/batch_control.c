/*
 * Batching of control flow.
 *
 * The bodies are batched by evaluating them on batched values inside a sealed
 * graph.  A branch that differs between examples runs both arms and selects; a
 * loop whose condition differs runs while any example wants to, and examples
 * that are done keep their carries.  Both need arms without IO.
 */
#include "ir/graph/control.h"

#include <string.h>

#define OP(name, nin, nout, fam, shape, dtype, flags, attrs, jvp, transpose, batch, doc) void batch_##batch(Batch *b);
#include "ir/core/ops.def"

static void fail(Batch *b) { b->r->failed = true; }

static bool forbid_io(Batch *b, const Graph *g, const char *what)
{
    bool ranks = graph_has_effect(g, OPF_COLLECTIVE);

    if (!ranks && !graph_has_effect(g, OPF_IO))
        return true;
    fail(b);
    return trace_fail(b->r->T, OPERR_TRACE, "a %s with %s in it cannot depend on the example under vmap", what, ranks ? "a collective" : "output");
}

/* -- batched regions ------------------------------------------------------------------------------------------------------------- */

typedef struct BatchBody {
    Trace *T;
    Graph *g;
    Dim size;
    const bool *in;             /* parameters */
    bool *out;                  /* results: those set are forced; others are told */
    bool observe;               /* only tell */
} BatchBody;

static bool call_batch_body(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    BatchBody *b = self;
    Level *lv = level_push(b->T, TRACE_BATCH, apply_batch);
    int nr = b->g->results.n, ny = 0;
    Tensor **x = tsr_calloc(sizeof *x * (size_t)(nin + nr + 1)), **y = x + nin;
    bool ok;

    lv->batch = b->size;
    for (int i = 0; i < nin; i++)
        x[i] = b->in[i] ? batch_wrap(lv, in[i]) : tensor_ref(in[i]);
    ok = graph_apply(b->T, b->g, x, nin, y, &ny);
    *nout = 0;
    for (int i = 0; i < ny && ok; i++) {
        Tracer *tr = tracer_of(lv, y[i]);
        bool batched = tr && tr->batched;
        if (b->observe)
            b->out[i] |= batched;
        if (b->out[i])
            out[i] = batch_unwrap(b->T, lv, y[i]);
        else
            out[i] = tensor_ref(tr ? tr->primal : y[i]);
        ok = out[i] != NULL;
        *nout += ok;
    }
    tensors_unref(x, nin + ny);
    tsr_free(x);
    level_pop(b->T, lv);
    return ok;
}

/* The region over batched parameters. With observe, out[] is only told and grows; else it decides. */
static Graph *batch_region(Batch *b, Graph *g, const bool *in, bool *out, bool observe)
{
    BatchBody body = {b->r->T, g, b->size, in, out, observe};
    TType *types = tsr_alloc(sizeof *types * (size_t)(g->params.n + 1));
    Graph *batched;

    for (int i = 0; i < g->params.n; i++) {
        types[i] = *param_of(g, i);
        if (!in[i])
            continue;
        memmove(types[i].shape + 1, types[i].shape, sizeof(Dim) * types[i].rank);
        types[i].shape[0] = b->size;
        types[i].rank++;
    }
    batched = stage(b->r->T, g->name, (TensorFn){call_batch_body, &body, g->results.n}, types, g->params.n, NULL, NULL);
    tsr_free(types);
    if (!batched)
        fail(b);
    return batched;
}

/* Run an op over derived regions; results go to b->y as temporaries. */
static void run(Batch *b, OpId op, const Attr *a, Tensor *const *x, int n)
{
    for (int i = 0; i < n; i++)
        if (!x[i])
            fail(b);
    if (b->r->failed || !op_dispatch(b->r->T, op, a, x, n, b->y, &b->ny)) {
        fail(b);
        b->ny = 0;
    }
    for (int i = 0; i < b->ny; i++)
        r_keep(b->r, b->y[i]);
}

/* A batch of truths, shaped to choose between tensors [B, ...] with `rank` axes. */
static Tensor *per_example(Rule *r, Tensor *p, int rank)
{
    Dim shape[16];

    if (!p)
        return NULL;
    shape[0] = p->shape[0];
    for (int i = 1; i < rank; i++)
        shape[i] = 1;
    return r_reshape(r, p, rank, shape);
}

/* -- cond, call ------------------------------------------------------------------------------------------------------------------ */

/* Both arms on all examples, then a choice for each. */
static void select_arms(Batch *b)
{
    Trace *T = b->r->T;
    int nr = b->a->region[0]->results.n, n = b->n - 1;
    bool *out = tsr_calloc((size_t)nr + 1);
    Tensor **y = tsr_calloc(sizeof *y * (size_t)(2 * nr + 1));

    memset(out, true, (size_t)nr);
    for (int k = 0; k < 2 && !b->r->failed; k++) {
        bool guard = graph_wants_guard(b->a->region[k]);           /* the predicate is then the arm's first operand */
        Graph *code = guard ? graph_guarded(b->a->region[k], k == 0) : graph_ref(b->a->region[k]);
        Graph *arm = forbid_io(b, code, "branch") ? batch_region(b, code, b->in + !guard, out, false) : NULL;
        int ny = 0;
        if (arm && !graph_apply(T, arm, b->x + !guard, n + guard, y + k * nr, &ny))
            fail(b);
        graph_unref(code);
        for (int i = 0; i < ny; i++)
            r_keep(b->r, y[k * nr + i]);
        graph_unref(arm);
    }
    for (int i = 0; i < nr && !b->r->failed; i++) {
        b->y[i] = r3(b->r, OP_where, per_example(b->r, b->x[0], y[i]->rank), y[i], y[nr + i]);
        b->out[i] = true;
    }
    b->ny = nr;
    tsr_free(y);
    tsr_free(out);
}

static void batch_arms(Batch *b, OpId op, int narms, int first)
{
    int nr = b->a->region[0]->results.n;
    Attr a = *b->a;

    memset(b->out, true, (size_t)nr);
    for (int k = 0; k < narms && !b->r->failed; k++)
        a.region[k] = batch_region(b, b->a->region[k], b->in + first, b->out, false);
    if (!b->r->failed)
        run(b, op, &a, b->x, b->n);
    for (int k = 0; k < narms; k++)
        if (a.region[k] != b->a->region[k])
            graph_unref(a.region[k]);
}

void batch_cond(Batch *b)
{
    if (b->in[0])
        select_arms(b);
    else
        batch_arms(b, OP_cond, 2, 1);
}

void batch_call(Batch *b) { batch_arms(b, OP_call, 1, 0); }

/* -- loops: which carries vary is a fixpoint, from those that do at the start ----------------------------------------------------- */

static void loop_flags(Batch *b, Graph *body, int ncap, int ncarry, bool *in, bool *out)
{
    bool changed = true;

    memcpy(in, b->in, (size_t)b->n);
    while (changed && !b->r->failed) {
        changed = false;
        memset(out, false, (size_t)body->results.n);
        graph_unref(batch_region(b, body, in, out, true));
        for (int i = 0; i < ncarry; i++)
            if (out[i] && !in[ncap + i])
                changed = in[ncap + i] = true;
    }
    for (int i = 0; i < ncarry; i++)
        out[i] = in[ncap + i];
}

void batch_scan(Batch *b)
{
    Graph *body = b->a->region[0];
    int nstate = b->a->n + b->a->m, nr = body->results.n;
    bool *in = tsr_calloc((size_t)(b->n + nr + 1)), *out = in + b->n;
    Tensor **x = tsr_alloc(sizeof *x * (size_t)(b->n + 1));
    Attr a = *b->a;

    loop_flags(b, body, b->a->n, b->a->m, in, out);
    for (int i = 0; i < b->n; i++) {
        x[i] = in[i] ? batch_stretched(b, i) : b->x[i];
        if (i >= nstate && in[i] && x[i])       /* [B, T, ...] to [T, B, ...] */
            x[i] = r_swap(b->r, x[i], -x[i]->rank, 1 - x[i]->rank);
    }
    a.region[0] = b->r->failed ? NULL : batch_region(b, body, in, out, false);
    if (a.region[0])
        run(b, OP_scan, &a, x, b->n);
    for (int i = 0; i < b->ny && !b->r->failed; i++) {
        b->out[i] = out[i];
        if (i >= b->a->m && out[i])
            b->y[i] = r_swap(b->r, b->y[i], -b->y[i]->rank, 1 - b->y[i]->rank);
    }
    graph_unref(a.region[0]);
    tsr_free(x);
    tsr_free(in);
}

enum { LAUNCH_OPERANDS = 64 };

/* The launch of one example: which of the loop's values each of its operands is. */
typedef struct Each { Trace *T; const Attr *a; int at[LAUNCH_OPERANDS], n; } Each;

static bool call_launch(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    const Each *e = self;
    Tensor *x[LAUNCH_OPERANDS];

    (void)nin;
    for (int i = 0; i < e->n; i++)
        x[i] = in[e->at[i]];
    return op_apply(e->T, OP_launch, e->a, x, e->n, out, nout);
}

/* A kernel is launched for each example: a scan without a carry, over the operands that differ between examples. */
void batch_launch(Batch *b)
{
    Each e = {.T = b->r->T, .a = b->a, .n = b->n};
    Attr a = attr_default();
    Tensor *x[LAUNCH_OPERANDS];
    TType types[LAUNCH_OPERANDS];
    int n = 0;

    if (b->n > LAUNCH_OPERANDS) {
        fail(b);
        return;
    }
    if (!memchr(b->in, true, (size_t)b->n)) {               /* as for one */
        run(b, OP_launch, b->a, b->x, b->n);
        return;
    }
    a.d[0][a.nd[0]++] = b->size;
    for (int batched = 0; batched < 2; batched++)
        for (int i = 0; i < b->n; i++)
            if (b->in[i] == batched) {
                types[n] = tensor_type(b->x[i]);
                if (batched)
                    memmove(types[n].shape, types[n].shape + 1, sizeof(Dim) * --types[n].rank);
                else
                    a.n++;
                e.at[i] = n;
                x[n++] = b->x[i];
            }
    a.region[0] = stage(b->r->T, b->a->name, (TensorFn){call_launch, &e, b->a->nd[0]}, types, n, NULL, NULL);
    if (a.region[0])
        run(b, OP_scan, &a, x, n);
    else
        fail(b);
    for (int i = 0; i < b->ny; i++)
        b->out[i] = true;
    graph_unref(a.region[0]);
}

/* A loop with a condition of its own for each example: any(condition), and a body that keeps finished examples. */
typedef struct Masked { Trace *T; Graph *cond, *body; int ncap; bool guard; /* the body takes the condition first */ } Masked;

static bool call_any(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Masked *m = self;
    Attr a = attr_default();
    Tensor *p = NULL;
    bool ok = graph_apply(m->T, m->cond, in, nin, &p, nout);

    a.naxes = 1;
    a.axis[0] = -1;
    ok = ok && (out[0] = op1(m->T, OP_any, &a, &p, 1)) != NULL;
    tensor_unref(p);
    *nout = ok;
    return ok;
}

static bool call_masked(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Masked *m = self;
    int ncarry = nin - m->ncap, k;
    Rule r = rule_begin(m->T);
    Tensor *p = NULL, **y = tsr_calloc(sizeof *y * (size_t)(ncarry + nin + 2)), **x = y + ncarry + 1;
    bool ok = graph_apply(m->T, m->cond, in, nin, &p, &k);

    memcpy(x + 1, in, sizeof *x * (size_t)nin);
    x[0] = p;
    ok = ok && graph_apply(m->T, m->body, m->guard ? x : x + 1, nin + m->guard, y, &k);

    *nout = 0;
    for (int i = 0; i < ncarry && ok; i++) {
        Tensor *next = r3(&r, OP_where, per_example(&r, p, y[i]->rank), y[i], in[m->ncap + i]);
        ok = next != NULL;
        if (ok)
            out[(*nout)++] = tensor_ref(next);
    }
    tensor_unref(p);
    tensors_unref(y, ncarry);
    tsr_free(y);
    rule_end(&r);
    return ok;
}

static Graph *restage(Batch *b, Masked *m, bool (*fn)(void *, Tensor *const *, int, Tensor **, int *), const Graph *like, int max_out)
{
    TType *types = tsr_alloc(sizeof *types * (size_t)(like->params.n + 1));
    Graph *g;

    for (int i = 0; i < like->params.n; i++)
        types[i] = *param_of(like, i);
    g = stage(m->T, like->name, (TensorFn){fn, m, max_out}, types, like->params.n, NULL, NULL);
    tsr_free(types);
    if (!g)
        fail(b);
    return g;
}

static void masked_while(Batch *b, Attr *a, bool *in, bool *out)
{
    Masked m = {b->r->T, NULL, NULL, b->a->n, graph_wants_guard(b->a->region[1])};
    Graph *body = m.guard ? graph_guarded(b->a->region[1], true) : graph_ref(b->a->region[1]);
    int ncarry = b->n - b->a->n;
    bool yes = true, *guarded_in;

    if (!forbid_io(b, body, "loop") || !forbid_io(b, b->a->region[0], "loop")) {
        graph_unref(body);
        return;
    }
    memset(in + b->a->n, true, (size_t)ncarry);
    memset(out, true, (size_t)ncarry);
    guarded_in = tsr_calloc((size_t)b->n + 1);
    guarded_in[0] = true;
    memcpy(guarded_in + 1, in, (size_t)b->n);
    m.cond = batch_region(b, b->a->region[0], in, &yes, false);
    m.body = m.cond ? batch_region(b, body, guarded_in + !m.guard, out, false) : NULL;
    a->region[0] = m.body ? restage(b, &m, call_any, m.cond, 1) : NULL;
    a->region[1] = a->region[0] ? restage(b, &m, call_masked, m.cond, ncarry) : NULL;
    tsr_free(guarded_in);
    graph_unref(body);
    graph_unref(m.cond);
    graph_unref(m.body);
}

void batch_while(Batch *b)
{
    int ncap = b->a->n, ncarry = b->n - ncap;
    bool *in = tsr_calloc((size_t)(2 * b->n + 1)), *out = in + b->n, varies = false;
    Tensor **x = tsr_alloc(sizeof *x * (size_t)(b->n + 1));
    Attr a = *b->a;

    a.region[0] = a.region[1] = NULL;
    loop_flags(b, b->a->region[1], ncap, ncarry, in, out);
    if (!b->r->failed)
        a.region[0] = batch_region(b, b->a->region[0], in, &varies, true);
    if (varies && !b->r->failed) {
        graph_unref(a.region[0]);
        a.region[0] = NULL;
        masked_while(b, &a, in, out);
    } else if (!b->r->failed)
        a.region[1] = batch_region(b, b->a->region[1], in, out, false);
    for (int i = 0; i < b->n; i++)
        x[i] = in[i] ? batch_stretched(b, i) : b->x[i];
    if (a.region[1])
        run(b, OP_while, &a, x, b->n);
    for (int i = 0; i < b->ny && !b->r->failed; i++) {
        b->out[i] = out[i % ncarry];
        if (i >= ncarry && b->out[i])           /* the tape, [T, B, ...] */
            b->y[i] = r_swap(b->r, b->y[i], -b->y[i]->rank, 1 - b->y[i]->rank);
    }
    graph_unref(a.region[0]);
    graph_unref(a.region[1]);
    tsr_free(x);
    tsr_free(in);
}

/* -- custom rules ------------------------------------------------------------------------------------------------------------------ */

void batch_custom(Batch *b)
{
    int nr = b->a->region[0]->results.n, w = b->a->nd[0], lead = b->op == OP_custom_lin ? b->a->n : b->a->m;
    Attr a = *b->a;
    Dim mask = 0;

    if (b->op == OP_custom_lin || w >= 16 || b->n - lead > 60) {
        fail(b);
        trace_fail(b->r->T, OPERR_TRACE, "%s cannot be batched here", op_info[b->op].name);
        return;
    }
    for (int i = lead; i < b->n; i++)
        if (b->in[i])
            mask |= (Dim)1 << (i - lead);
    a.nd[0] = a.nd[1] = (uint8_t)(w + 1);
    a.d[0][w] = b->size;
    a.d[1][w] = mask;
    memset(b->out, true, (size_t)nr);
    a.region[0] = batch_region(b, b->a->region[0], b->in, b->out, false);
    if (a.region[0])
        run(b, b->op, &a, b->x, b->n);
    graph_unref(a.region[0]);
}
