/*
 * Forward mode of control flow: regions that carry tangents beside values.
 *
 * A cond whose condition is known takes its branch at once.  Loops give every
 * inexact carry a tangent, so that types stay the same from round to round.
 */
#include "ir/graph/control.h"

#include <string.h>

#define OP(name, nin, nout, fam, shape, dtype, flags, attrs, jvp, ...) void jvp_##jvp(Jvp *j);
#include "ir/core/ops.def"

void tensors_push(Tensors *v, Tensor *const *t, int n)
{
    for (int i = 0; i < n; i++)
        vec_push(v, tensor_ref(t[i]));
}

void tensors_done(Tensors *v)
{
    tensors_unref(v->at, v->n);
    vec_free(v);
}

static bool call_graph(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    GraphFn *f = self;

    return graph_apply(f->T, f->g, in, nin, out, nout);
}

TensorFn graph_fn(GraphFn *self)
{
    return (TensorFn){call_graph, self, self->g->results.n};
}

/* -- regions with tangents -------------------------------------------------------------------------------------------------- */

typedef struct JvpBody {
    Trace *T;
    Graph *g;
    const int *group;           /* parameters in each of the three groups */
    const bool *active;
    int ncarry;                 /* results that are carries */
} JvpBody;

/* Results [lo, hi): values, then tangents of the inexact ones. */
static bool put_group(Trace *T, int lo, int hi, Tensor **y, Tensor **dy, Tensor **out, int *n)
{
    for (int i = lo; i < hi; i++)
        out[(*n)++] = tensor_ref(y[i]);
    for (int i = lo; i < hi; i++) {
        TType type = tensor_type(y[i]);
        if (!inexact(&type))
            continue;
        if (!(out[*n] = tangent_of(T, y[i], dy[i])))
            return false;
        ++*n;
    }
    return true;
}

static bool call_jvp_body(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    JvpBody *b = self;
    GraphFn f = {b->T, b->g};
    int np = b->g->params.n, nr = b->g->results.n, at = 0, k = 0, ny;
    Tensor **x = tsr_calloc(sizeof *x * (size_t)(2 * np + 1)), **t = x + np;
    Tensor **y = tsr_calloc(sizeof *y * (size_t)(2 * nr + 1)), **dy = y + nr;
    bool ok;

    for (int s = 0; s < 3; s++) {
        for (int i = 0; i < b->group[s]; i++)
            x[k + i] = in[at++];
        for (int i = 0; i < b->group[s]; i++)
            t[k + i] = b->active[k + i] ? in[at++] : NULL;
        k += b->group[s];
    }
    *nout = 0;
    ok = at == nin && jvp_raw(b->T, TRACE_JVP, graph_fn(&f), x, t, np, y, dy, &ny);
    ok = ok && put_group(b->T, 0, b->ncarry, y, dy, out, nout) && put_group(b->T, b->ncarry, nr, y, dy, out, nout);
    tensors_unref(y, 2 * nr);
    tsr_free(x);
    tsr_free(y);
    return ok;
}

/*
 * (captures, their tangents, carries, their tangents, xs, theirs) -> (carries, tangents, ys, tangents) from a body
 * (captures, carries, xs) -> (carries, ys). active[i]: parameter i has a tangent. All inexact results get one.
 */
static Graph *jvp_body(Trace *T, Graph *body, const int group[3], const bool *active, int ncarry)
{
    JvpBody b = {T, body, group, active, ncarry};
    int n = 0, k = 0;
    TType *types = tsr_alloc(sizeof *types * (size_t)(2 * body->params.n + 1));
    Graph *g;

    for (int s = 0; s < 3; k += group[s++]) {
        for (int i = 0; i < group[s]; i++)
            types[n++] = *param_of(body, k + i);
        for (int i = 0; i < group[s]; i++)
            if (active[k + i])
                types[n++] = *param_of(body, k + i);
    }
    g = stage(T, sym("jvp"), (TensorFn){call_jvp_body, &b, 2 * body->results.n}, types, n, NULL, NULL);
    tsr_free(types);
    return g;
}

/* -- operands ------------------------------------------------------------------------------------------------------------------ */

/* Operands of one group with their tangents behind them; zeros where an active one has none. */
static bool push_group(Trace *T, Tensors *v, Tensor *const *x, Tensor *const *t, const bool *active, int n)
{
    tensors_push(v, x, n);
    for (int i = 0; i < n; i++)
        if (active[i]) {
            Tensor *d = tangent_of(T, x[i], t[i]);
            if (!d)
                return false;
            vec_push(v, d);
        }
    return true;
}

/* Which operands carry tangents: carries when inexact, the others when they have one. */
static void mark_active(const int group[3], Tensor *const *x, Tensor *const *t, bool *active)
{
    int n = group[0] + group[1] + group[2];

    for (int i = 0; i < n; i++)
        active[i] = i >= group[0] && i < group[0] + group[1] ? dtype_is_inexact((DType)x[i]->dtype) : t[i] != NULL;
}

/* Sort results (carries, tangents, ys, tangents) into y and dy; a tape is arranged like the carries. */
static int take_results(const Graph *body, int ncarry, bool tape, Tensor **got, Tensor **y, Tensor **dy)
{
    int n = tape ? 2 * ncarry : body->results.n, at = 0;

    for (int lo = 0, hi = ncarry; lo < n; lo = hi, hi = n) {
        for (int i = lo; i < hi; i++)
            y[i] = got[at++];
        for (int i = lo; i < hi; i++)
            dy[i] = inexact(result_of(body, tape ? i % ncarry : i)) ? got[at++] : NULL;
    }
    return n;
}

static bool run_derived(Trace *T, OpId op, const Attr *a, const Graph *body, int ncarry, Tensors *v, Tensor **y, Tensor **dy, int *ny)
{
    Tensor **got = tsr_calloc(sizeof *got * (size_t)graph_max_results(op, a));
    int n;
    bool ok = op_dispatch(T, op, a, v->at, v->n, got, &n);

    if (ok)
        *ny = take_results(body, ncarry, op == OP_while && a->kind, got, y, dy);
    tsr_free(got);
    return ok;
}

/* -- the ops ------------------------------------------------------------------------------------------------------------------- */

static bool forward_cond(Trace *T, const Attr *a, Tensor *const *x, Tensor *const *t, int nin, Tensor **y, Tensor **dy, int *ny)
{
    int group[3] = {nin - 1, 0, 0};
    bool *active = tsr_calloc((size_t)nin), ok;
    Tensors v = {0};
    Attr b = *a;

    mark_active(group, x + 1, t + 1, active);
    b.region[0] = jvp_body(T, a->region[0], group, active, 0);
    b.region[1] = b.region[0] ? jvp_body(T, a->region[1], group, active, 0) : NULL;
    tensors_push(&v, x, 1);
    ok = b.region[1] && push_group(T, &v, x + 1, t + 1, active, nin - 1) && run_derived(T, OP_cond, &b, a->region[0], 0, &v, y, dy, ny);
    tensors_done(&v);
    graph_unref(b.region[0]);
    graph_unref(b.region[1]);
    tsr_free(active);
    return ok;
}

/* The condition of a loop over values and tangents looks at the values. */
typedef struct Condition { Trace *T; Graph *g; const int *group; const bool *active; } Condition;

static bool call_condition(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Condition *c = self;
    Tensor **x = tsr_alloc(sizeof *x * (size_t)(nin + 1));
    int at = 0, k = 0, n = 0;
    bool ok;

    for (int s = 0; s < 3; k += c->group[s++]) {
        for (int i = 0; i < c->group[s]; i++)
            x[n++] = in[at++];
        for (int i = 0; i < c->group[s]; i++)
            at += c->active[k + i];
    }
    ok = graph_apply(c->T, c->g, x, n, out, nout);
    tsr_free(x);
    return ok;
}

static Graph *wider_condition(Trace *T, Graph *cond, const Graph *body, const int group[3], const bool *active)
{
    Condition c = {T, cond, group, active};
    TType *types = tsr_alloc(sizeof *types * (size_t)body->params.n);
    Graph *g;

    for (int i = 0; i < body->params.n; i++)
        types[i] = *param_of(body, i);
    g = stage(T, sym("condition"), (TensorFn){call_condition, &c, 1}, types, body->params.n, NULL, NULL);
    tsr_free(types);
    return g;
}

static bool forward_while(Trace *T, const Attr *a, Tensor *const *x, Tensor *const *t, int nin, Tensor **y, Tensor **dy, int *ny)
{
    int group[3] = {a->n, nin - a->n, 0};
    bool *active = tsr_calloc((size_t)nin + 1), ok;
    Tensors v = {0};
    Attr b = *a;

    mark_active(group, x, t, active);
    b.region[1] = jvp_body(T, a->region[1], group, active, group[1]);
    b.region[0] = b.region[1] ? wider_condition(T, a->region[0], b.region[1], group, active) : NULL;
    ok = b.region[0] && push_group(T, &v, x, t, active, group[0]);
    b.n = (int16_t)v.n;
    ok = ok && push_group(T, &v, x + group[0], t + group[0], active + group[0], group[1]) &&
         run_derived(T, OP_while, &b, a->region[1], group[1], &v, y, dy, ny);
    tensors_done(&v);
    graph_unref(b.region[0]);
    graph_unref(b.region[1]);
    tsr_free(active);
    return ok;
}

static bool forward_scan(Trace *T, const Attr *a, Tensor *const *x, Tensor *const *t, int nin, Tensor **y, Tensor **dy, int *ny)
{
    int group[3] = {a->n, a->m, nin - a->n - a->m}, at = 0;
    bool *active = tsr_calloc((size_t)nin + 1), ok;
    Tensors v = {0};
    Attr b = *a;

    mark_active(group, x, t, active);
    b.region[0] = jvp_body(T, a->region[0], group, active, group[1]);
    ok = b.region[0] != NULL;
    for (int s = 0; s < 3 && ok; at += group[s++]) {
        ok = push_group(T, &v, x + at, t + at, active + at, group[s]);
        if (s == 0)
            b.n = (int16_t)v.n;
        if (s == 1)
            b.m = (int16_t)(v.n - b.n);
    }
    ok = ok && run_derived(T, OP_scan, &b, a->region[0], group[1], &v, y, dy, ny);
    tensors_done(&v);
    graph_unref(b.region[0]);
    tsr_free(active);
    return ok;
}

/* As rows of the op table: these make the results too. */
static void settle(Jvp *j, bool ok)
{
    if (!ok)
        j->r->failed = true;
}

void jvp_cond(Jvp *j) { settle(j, forward_cond(j->r->T, j->a, j->x, j->t, j->n, j->y, j->dy, &j->ny)); }
void jvp_while(Jvp *j) { settle(j, forward_while(j->r->T, j->a, j->x, j->t, j->n, j->y, j->dy, &j->ny)); }
void jvp_scan(Jvp *j) { settle(j, forward_scan(j->r->T, j->a, j->x, j->t, j->n, j->y, j->dy, &j->ny)); }
void jvp_custom_jvp(Jvp *j) { settle(j, custom_forward(j->r->T, j->a, j->x, j->t, j->n, j->y, j->dy, &j->ny)); }
void jvp_custom_vjp(Jvp *j) { settle(j, custom_linear(j->r->T, j->a, j->x, j->t, j->n, j->y, j->dy, &j->ny)); }

void jvp_launch(Jvp *j)
{
    settle(j, trace_fail(j->r->T, OPERR_TRACE, "E0622: kernel '%s' is called under grad: wrap it in a function with a custom_vjp; "
            "jvp and hessian, which go forward, ask for a custom_jvp", j->a->name->text));
}

void jvp_call(Jvp *j)
{
    GraphFn f = {j->r->T, j->a->region[0]};

    settle(j, jvp_raw(f.T, TRACE_JVP, graph_fn(&f), j->x, j->t, j->n, j->y, j->dy, &j->ny));
}

bool control_forward(Trace *T, OpId op, const Attr *a, Tensor *const *x, Tensor *const *t, int nin, Tensor **y, Tensor **dy, int *ny)
{
    Rule r = rule_begin(T);
    Jvp j = {.r = &r, .op = op, .a = a, .x = x, .t = t, .n = nin, .y = y, .dy = dy};

    jvp_of[op](&j);
    *ny = j.ny;
    rule_end(&r);
    return !r.failed;
}

/* -- dispatch -------------------------------------------------------------------------------------------------------------------- */

/* Can the op be taken apart here, its regions running at the level itself? */
static bool opens(OpId op, const Attr *a, Level *lv, Tensor *const *x)
{
    if (op == OP_cond)
        return tensor_concrete(x[0]) != NULL;
    if (op == OP_call)
        return a->kind != CALL_CHECKPOINT || lv->kind == TRACE_JVP;
    if (op == OP_custom_vjp)
        return lv->kind == TRACE_JVP;           /* a reverse rule says nothing forwards: differentiate the body */
    return op == OP_custom_lin && !a->host;
}

static bool run_open(Trace *T, OpId op, const Attr *a, Tensor *const *in, Tensor *const *x, int nin, Tensor **out, int *nout)
{
    if (op == OP_cond) {
        Tensor *c = tensor_concrete(x[0]);
        return graph_apply(T, a->region[elem_get_i(c, c->offset) ? 0 : 1], in + 1, nin - 1, out, nout);
    }
    return graph_apply(T, a->region[0], in, nin, out, nout);
}

static bool pair_up(Level *lv, Tensor **y, Tensor **dy, int n, Tensor **out)
{
    for (int i = 0; i < n; i++) {
        TType type = tensor_type(y[i]);
        if (!dy[i] || !inexact(&type)) {
            out[i] = y[i];
            tensor_unref(dy[i]);
        } else
            out[i] = level_tensor(lv, &type, (Tracer){.primal = y[i], .tangent = dy[i]});
    }
    return true;
}

bool control_jvp(Trace *T, Level *lv, OpId op, const Attr *a, Tensor *const *in, Tensor **x, Tensor **t, int nin, Tensor **out, int *nout)
{
    int room = graph_max_results(op, a), n = 0;
    Tensor **y, **dy;
    bool any = false, ok;

    for (int i = 0; i < nin; i++)
        any |= t[i] != NULL;
    if (!any)
        return op_dispatch(T, op, a, x, nin, out, nout);
    if (opens(op, a, lv, x))
        return run_open(T, op, a, in, x, nin, out, nout);
    y = tsr_calloc(sizeof *y * 2 * (size_t)room);
    dy = y + room;
    if (lv->kind == TRACE_LIN && op != OP_custom_jvp && op != OP_custom_vjp)
        ok = control_linear(T, op, a, x, t, nin, y, dy, &n);
    else
        ok = control_forward(T, op, a, x, t, nin, y, dy, &n);
    if (ok)
        pair_up(lv, y, dy, *nout = n, out);
    tsr_free(y);
    return ok;
}
