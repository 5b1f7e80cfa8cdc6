/*
 * Forward and reverse mode.
 *
 * A JVP level pairs primals with tangents; each op's rule computes the
 * result's tangent with ops one level down.  Reverse mode is two levels: a
 * STAGE level that records a linear graph, and above it a LIN level whose
 * tangents are values of that graph.  Primals are computed below both, so the
 * linear graph's captures are exactly the residuals; transposing it, node by
 * node in reverse order, gives the pullback.  As the transposes are ordinary
 * ops too, derivatives nest in any order.
 */
#include "ir/graph/control.h"
#include "runtime/mesh.h"

#include <string.h>

#define OP(name, nin, nout, fam, shape, dtype, flags, attrs, jvp, transpose, ...) \
    void jvp_##jvp(Jvp *j); \
    void transpose_##transpose(Transpose *t);
#include "ir/core/ops.def"

const JvpRule jvp_of[OP_COUNT] = {
#define OP(name, nin, nout, fam, shape, dtype, flags, attrs, jvp, ...) [OP_##name] = jvp_##jvp,
#include "ir/core/ops.def"
};

static const TransposeRule transpose_of[OP_COUNT] = {
#define OP(name, nin, nout, fam, shape, dtype, flags, attrs, jvp, transpose, ...) [OP_##name] = transpose_##transpose,
#include "ir/core/ops.def"
};

/* -- JVP levels ---------------------------------------------------------------------------------------------------------- */

/* The pair as a tensor of the level, or the primal itself when there is no tangent. A new reference. */
static Tensor *paired(Level *lv, Tensor *y, Tensor *dy)
{
    TType type;

    if (!dy || !dtype_is_inexact((DType)y->dtype))
        return tensor_ref(y);
    type = tensor_type(y);
    return level_tensor(lv, &type, (Tracer){.primal = tensor_ref(y), .tangent = tensor_ref(dy)});
}

static Tensor *primal_of(const Level *lv, Tensor *t, Tensor **tangent)
{
    Tracer *tr = tracer_of(lv, t);

    *tangent = tr ? tr->tangent : NULL;
    return tr ? tr->primal : t;
}

/* Results that the rule gave are made to fit and put together with the primals. */
static bool finish(Level *lv, Rule *r, Tensor **y, Tensor **dy, int ny, Tensor **out)
{
    for (int i = 0; i < ny && !r->failed; i++)
        if (dy[i] && dtype_is_inexact((DType)y[i]->dtype)) {
            TType type = tensor_type(y[i]);
            dy[i] = r_fit(r, dy[i], &type);
        }
    for (int i = 0; i < ny && !r->failed; i++)
        out[i] = paired(lv, y[i], dy[i]);
    return !r->failed;
}

static bool plain_jvp(Trace *T, Level *lv, OpId op, const Attr *a, Tensor **x, Tensor **t, int nin, Tensor **out, int *nout)
{
    Tensor *y[4] = {NULL}, *dy[4] = {NULL};
    Rule r = rule_begin(T);
    bool any = false, ok = op_dispatch(T, op, a, x, nin, y, nout);

    for (int i = 0; i < nin; i++)
        any |= t[i] != NULL;
    if (ok && any) {
        r.fast = a && a->fast;
        Jvp j = {.r = &r, .op = op, .a = a, .x = x, .t = t, .n = nin, .y = y, .ny = *nout, .dy = dy};
        jvp_of[op](&j);
    }
    ok = ok && finish(lv, &r, y, dy, *nout, out);
    tensors_unref(y, 4);
    rule_end(&r);
    return ok;
}

bool apply_jvp(Trace *T, Level *lv, OpId op, const Attr *a, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Tensor *few[16], **x = nin <= 8 ? few : tsr_alloc(sizeof *x * 2 * (size_t)nin), **t = x + (nin <= 8 ? 8 : nin);
    bool ok;

    for (int i = 0; i < nin; i++)
        x[i] = primal_of(lv, in[i], &t[i]);
    if (op_info[op].family == FAM_CONTROL)
        ok = control_jvp(T, lv, op, a, in, x, t, nin, out, nout);
    else
        ok = plain_jvp(T, lv, op, a, x, t, nin, out, nout);
    if (x != few)
        tsr_free(x);
    return ok;
}

bool jvp_raw(Trace *T, TraceKind kind, TensorFn fn, Tensor *const *primals, Tensor *const *tangents, int n, Tensor **out,
             Tensor **dout, int *nout)
{
    Level *lv = level_push(T, kind, apply_jvp);
    Tensor **in = tsr_alloc(sizeof *in * (size_t)(n + 1)), **y = tsr_calloc(sizeof *y * (size_t)(fn.max_out + 1));
    bool ok;

    for (int i = 0; i < n; i++)
        in[i] = paired(lv, primals[i], tangents[i]);
    ok = fn.call(fn.self, in, n, y, nout);
    for (int i = 0; ok && i < *nout; i++) {
        out[i] = tensor_ref(primal_of(lv, y[i], &dout[i]));
        if (dout[i])
            tensor_ref(dout[i]);
    }
    if (ok)
        tensors_unref(y, *nout);
    tensors_unref(in, n);
    tsr_free(in);
    tsr_free(y);
    level_pop(T, lv);
    return ok;
}

Tensor *tangent_of(Trace *T, Tensor *x, Tensor *t)
{
    TType y = tensor_type(x);

    return t ? tensor_ref(t) : zeros_like(T, &y);
}

Tensor *zeros_like(Trace *T, const TType *y)
{
    Rule r = rule_begin(T);
    Tensor *z = r_zeros(&r, y);

    if (z)
        tensor_ref(z);
    rule_end(&r);
    return z;
}

static bool fill_zeros(Trace *T, Tensor *const *like, Tensor **t, int n)
{
    bool ok = true;

    for (int i = 0; i < n && ok; i++)
        if (!t[i]) {
            TType y = tensor_type(like[i]);
            ok = (t[i] = zeros_like(T, &y)) != NULL;
        }
    return ok;
}

bool trace_jvp(Trace *T, TensorFn fn, Tensor *const *primals, Tensor *const *tangents, int n, Tensor **out, Tensor **dout, int *nout)
{
    bool ok = jvp_raw(T, TRACE_JVP, fn, primals, tangents, n, out, dout, nout);

    if (ok && !fill_zeros(T, out, dout, *nout)) {
        tensors_unref(out, *nout);
        tensors_unref(dout, *nout);
        ok = false;
    }
    return ok;
}

/* -- reverse mode ----------------------------------------------------------------------------------------------------------- */

struct Pullback {
    Graph *g;                   /* the linear map: residuals, then tangents of the inexact inputs */
    Tensor **res;
    int nres, nin, nout;
    TType *in, *out;
    int *result;                /* which graph result is an output's tangent; -1: it is always zero */
    Tensor **primal;            /* of the inputs, where meshes are in use: derivatives lie as they do; NULL */
};

/* Tangents of the inputs: parameters of the linear graph. */
static void linear_inputs(Level *lin, Tensor *const *in, int n, Node **param, Tensor **t)
{
    for (int i = 0; i < n; i++) {
        TType y = tensor_type(in[i]);
        y.weak = 0;
        param[i] = NULL;
        t[i] = NULL;
        if (!dtype_is_inexact((DType)y.dtype))
            continue;
        param[i] = graph_append(lin->graph, (OpId)GRAPH_PARAM, NULL, NULL, 0, &y, 1, (Span){0, 0});
        t[i] = level_tensor(lin, &y, (Tracer){.node = {param[i], 0}});
    }
}

static bool linear_results(Trace *T, Level *lin, Pullback *p, Tensor **y, Tensor **dy)
{
    p->out = tsr_alloc(sizeof *p->out * (size_t)(p->nout + 1));
    p->result = tsr_alloc(sizeof *p->result * (size_t)(p->nout + 1));
    for (int i = 0; i < p->nout; i++) {
        GValue v;
        p->out[i] = tensor_type(y[i]);
        p->result[i] = -1;
        if (!dy[i])
            continue;
        v = stage_lift(T, lin, dy[i]);
        if (!v.node)
            return false;
        p->result[i] = p->g->results.n;
        graph_result(p->g, v);
    }
    return true;
}

static void take_residuals(Pullback *p, Level *lin)
{
    p->nres = lin->captures.n;
    p->res = tsr_alloc(sizeof *p->res * (size_t)(p->nres + 1));
    for (int i = 0; i < p->nres; i++)
        p->res[i] = tensor_ref(lin->captures.at[i]);
}

/* The residuals that only the backward pass still holds: not the inputs and weights, which are there anyway. */
static void tell_saved(Trace *T, const Pullback *p)
{
    Tensor **value = tsr_alloc(sizeof *value * (size_t)(p->nres + 1));
    Span *at = tsr_alloc(sizeof *at * (size_t)(p->nres + 1));
    int n = 0;

    for (int i = 0; i < p->nres; i++)
        if (!p->res[i]->tracer && p->res[i]->refs == 1) {
            value[n] = p->res[i];
            at[n++] = p->g->params.at[i]->span;
        }
    T->saved(T->host, n, value, at);
    tsr_free(value);
    tsr_free(at);
}

Pullback *trace_vjp(Trace *T, TensorFn fn, Tensor *const *in, int n, Tensor **out, int *nout)
{
    Level *lin = level_push(T, TRACE_STAGE, apply_stage);
    Pullback *p = tsr_calloc(sizeof *p);
    Node **param = tsr_alloc(sizeof *param * (size_t)(n + 1));
    Tensor **t = tsr_alloc(sizeof *t * (size_t)(n + 1)), **dy = tsr_calloc(sizeof *dy * (size_t)(fn.max_out + 1));
    int nparam = 0;
    bool ok;

    lin->linear = true;
    p->g = lin->graph = graph_new(sym("linear"));
    p->nin = n;
    p->in = tsr_alloc(sizeof *p->in * (size_t)(n + 1));
    for (int i = 0; i < n; i++)
        p->in[i] = tensor_type(in[i]);
    if (mesh_any()) {
        p->primal = tsr_alloc(sizeof *p->primal * (size_t)(n + 1));
        for (int i = 0; i < n; i++)
            p->primal[i] = tensor_ref(in[i]);
    }
    linear_inputs(lin, in, n, param, t);
    *nout = 0;
    ok = jvp_raw(T, TRACE_LIN, fn, in, t, n, out, dy, nout);
    p->nout = *nout;
    if (ok && !linear_results(T, lin, p, out, dy)) {
        tensors_unref(out, *nout);
        ok = false;
    }
    graph_dce(p->g);
    for (int i = 0; i < n; i++)
        if (param[i])
            param[nparam++] = param[i];
    stage_settle(lin, param, nparam);
    if (ok)
        take_residuals(p, lin);
    tensors_unref(t, n);
    tensors_unref(dy, ok ? p->nout : 0);
    tsr_free(t);
    tsr_free(dy);
    tsr_free(param);
    level_pop(T, lin);
    if (ok && T->saved && !T->mute)
        tell_saved(T, p);
    if (ok)
        return p;
    pullback_free(p);
    return NULL;
}

void pullback_free(Pullback *p)
{
    if (!p)
        return;
    graph_unref(p->g);
    if (p->primal)
        tensors_unref(p->primal, p->nin);
    tsr_free(p->primal);
    tensors_unref(p->res, p->nres);
    tsr_free(p->res);
    tsr_free(p->in);
    tsr_free(p->out);
    tsr_free(p->result);
    tsr_free(p);
}

/* -- transposing a linear graph ---------------------------------------------------------------------------------------------- */

typedef struct Back {
    Trace *T;
    Rule r;
    const Graph *g;
    uint32_t *base;             /* node id -> slot */
    bool *linear;               /* by node id */
    Tensor **val;               /* slot -> value of a node that is not linear */
    Tensor **ct;                /* slot -> cotangent so far; NULL: zero */
    bool *masked;               /* slot -> has ct come through a where, element by element? */
} Back;

static uint32_t slot(const Back *b, GValue v) { return b->base[v.node->id] + (uint32_t)v.index; }

static void back_init(Back *b, Trace *T, const Graph *g)
{
    uint32_t n = 0;

    *b = (Back){.T = T, .r = rule_begin(T), .g = g};
    b->base = tsr_alloc(sizeof *b->base * (g->nnodes + 1));
    b->linear = tsr_calloc(g->nnodes + 1);
    for (Node *k = g->first; k; k = k->next) {
        b->base[k->id] = n;
        n += k->nout;
    }
    b->val = tsr_calloc(sizeof *b->val * (n + 1));
    b->ct = tsr_calloc(sizeof *b->ct * (n + 1));
    b->masked = tsr_calloc(n + 1);
}

static void back_done(Back *b)
{
    rule_end(&b->r);
    tsr_free(b->base);
    tsr_free(b->linear);
    tsr_free(b->val);
    tsr_free(b->ct);
    tsr_free(b->masked);
}

/* Values of the nodes that do not depend on the tangents. */
static bool eval_constants(Back *b, Tensor *const *res, int nres)
{
    for (int i = 0; i < b->g->params.n; i++)
        if (i < nres)
            b->val[b->base[b->g->params.at[i]->id]] = res[i];
        else
            b->linear[b->g->params.at[i]->id] = true;
    for (Node *n = b->g->first; n; n = n->next) {
        Tensor *in[16];
        int nout;
        for (int i = 0; i < n->nin; i++)
            b->linear[n->id] |= b->linear[n->in[i].node->id];
        if (n->op == GRAPH_PARAM || b->linear[n->id])
            continue;
        if (n->nin > 16 || n->nout > 4)
            return trace_fail(b->T, OPERR_TRACE, "%s does not belong in a linear graph", op_info[n->op].name);
        for (int i = 0; i < n->nin; i++)
            in[i] = b->val[slot(b, n->in[i])];
        if (!op_dispatch(b->T, (OpId)n->op, n->attr, in, n->nin, &b->val[b->base[n->id]], &nout))
            return false;
        for (int i = 0; i < nout; i++)
            r_keep(&b->r, b->val[b->base[n->id] + (uint32_t)i]);
    }
    return true;
}

/* Do zeros of the result's cotangent stay zeros of the operands'? */
static bool keeps_zeros(OpId op)
{
    return op_info[op].family == FAM_MAP || (op_info[op].family == FAM_MOVE && op != OP_window && op != OP_unwindow);
}

static void transpose_into(Back *b, Node *n, const TType *xt, Tensor **x, Tensor **dx, bool *linear)
{
    Transpose t = {.r = &b->r, .op = (OpId)n->op, .a = n->attr, .xt = xt, .x = x, .linear = linear, .n = n->nin,
                   .ct = &b->ct[b->base[n->id]], .yt = n->type, .ny = n->nout, .dx = dx};

    for (int i = 0; i < n->nout; i++)
        t.masked |= b->masked[b->base[n->id] + (uint32_t)i];
    b->r.fast = n->attr->fast;
    transpose_of[n->op](&t);
    for (int i = 0; i < n->nin && !b->r.failed; i++)
        if (linear[i] && dx[i]) {
            uint32_t s = slot(b, n->in[i]);
            b->masked[s] |= n->op == OP_where || (t.masked && keeps_zeros((OpId)n->op));
            b->ct[s] = r_add(&b->r, b->ct[s], r_unfit(&b->r, dx[i], &xt[i]));
        }
    b->r.fast = false;
}

static bool transpose_node(Back *b, Node *n)
{
    bool any = false, linear_few[16], *linear = n->nin <= 16 ? linear_few : tsr_alloc(n->nin);
    TType xt_few[4], *xt = n->nin <= 4 ? xt_few : tsr_alloc(sizeof *xt * n->nin);
    Tensor *few[32], **x = n->nin <= 16 ? few : tsr_alloc(sizeof *x * 2 * n->nin), **dx = x + (n->nin <= 16 ? 16 : n->nin);

    for (int i = 0; i < n->nout; i++)
        any |= b->ct[b->base[n->id] + (uint32_t)i] != NULL;
    for (int i = 0; any && i < n->nin; i++) {
        linear[i] = b->linear[n->in[i].node->id];
        x[i] = linear[i] ? NULL : b->val[slot(b, n->in[i])];
        xt[i] = *gvalue_type(n->in[i]);
        dx[i] = NULL;
    }
    if (any) {
        if (n->span.hi)
            b->T->span = n->span;
        Sym scope = b->T->scope;
        b->T->scope = n->scope ? n->scope : scope;      /* the with blocks of an op are those of its adjoint */
        transpose_into(b, n, xt, x, dx, linear);
        b->T->scope = scope;
    }
    if (linear != linear_few)
        tsr_free(linear);
    if (xt != xt_few)
        tsr_free(xt);
    if (x != few)
        tsr_free(x);
    return !b->r.failed;
}

bool pullback_call(Trace *T, Pullback *p, Tensor *const *ct, Tensor **ct_in)
{
    Span span = T->span;
    int k = p->nres;
    Back b;
    bool ok;

    T->settled++;
    back_init(&b, T, p->g);
    ok = eval_constants(&b, p->res, p->nres);
    for (int i = 0; i < p->nout && ok; i++)
        if (p->result[i] >= 0 && ct[i]) {
            uint32_t s = slot(&b, p->g->results.at[p->result[i]]);
            b.ct[s] = r_add(&b.r, b.ct[s], r_fit(&b.r, ct[i], &p->out[i]));
            ok = !b.r.failed;
        }
    for (Node *n = p->g->last; n && ok; n = n->prev)
        if (n->op != GRAPH_PARAM && b.linear[n->id])
            ok = transpose_node(&b, n);
    for (int i = 0; i < p->nin && ok; i++) {
        Tensor *d = dtype_is_inexact((DType)p->in[i].dtype) ? b.ct[b.base[p->g->params.at[k++]->id]] : NULL;
        ct_in[i] = !d ? zeros_like(T, &p->in[i]) : p->primal ? op1(T, OP_lay_as, NULL, (Tensor *[]){d, p->primal[i]}, 2) : tensor_ref(d);
        ok = ct_in[i] != NULL;
        if (!ok)
            tensors_unref(ct_in, i);
    }
    back_done(&b);
    T->settled--;
    T->span = span;
    return ok;
}

/* -- a tape left open ---------------------------------------------------------------------------------------------------------- */

struct GradTape {
    Level *lin, *lv;
    Vec(Tensor *) in;
    Vec(Node *) param;
};

GradTape *tape_open(Trace *T)
{
    GradTape *tape;

    if (T->top)
        return NULL;
    tape = tsr_calloc(sizeof *tape);
    tape->lin = level_push(T, TRACE_STAGE, apply_stage);
    tape->lin->linear = true;
    tape->lin->graph = graph_new(sym("linear"));
    tape->lv = level_push(T, TRACE_LIN, apply_jvp);
    return tape;
}

bool tape_on_top(const Trace *T, const GradTape *tape) { return T->top == tape->lv; }

Tensor *tape_watch(GradTape *tape, Tensor *x)
{
    Node *param;
    Tensor *t, *y;

    linear_inputs(tape->lin, &x, 1, &param, &t);
    if (!t)
        return tensor_ref(x);
    vec_push(&tape->in, tensor_ref(x));
    vec_push(&tape->param, param);
    y = paired(tape->lv, x, t);
    tensor_unref(t);
    return y;
}

static void tape_done(GradTape *tape)
{
    tensors_unref(tape->in.at, tape->in.n);
    vec_free(&tape->in);
    vec_free(&tape->param);
    tsr_free(tape);
}

/* The recorded linear map from what was watched to y, as a pullback. */
static Pullback *tape_pullback(Trace *T, GradTape *tape, Tensor *y, Tensor *dy)
{
    Pullback *p = tsr_calloc(sizeof *p);
    bool ok;

    p->g = tape->lin->graph;
    p->nin = tape->in.n;
    p->nout = 1;
    p->in = tsr_alloc(sizeof *p->in * (size_t)(p->nin + 1));
    for (int i = 0; i < p->nin; i++)
        p->in[i] = tensor_type(tape->in.at[i]);
    ok = linear_results(T, tape->lin, p, &y, &dy);
    graph_dce(p->g);
    stage_settle(tape->lin, tape->param.at, tape->param.n);
    if (ok)
        take_residuals(p, tape->lin);
    level_pop(T, tape->lin);
    if (ok)
        return p;
    pullback_free(p);
    return NULL;
}

bool tape_pull(Trace *T, GradTape *tape, Tensor *loss, Tensor **grad)
{
    Tensor *dy, *y = primal_of(tape->lv, loss, &dy), *ct;
    TType type = tensor_type(y);
    Pullback *p;
    Attr one = attr_default();
    bool ok;

    tensor_ref(y);
    dy = dy ? tensor_ref(dy) : NULL;
    level_pop(T, tape->lv);
    p = tape_pullback(T, tape, y, dy);
    one.dtype = type.dtype;
    one.f = 1;
    one.nd[0] = type.rank;
    memcpy(one.d[0], type.shape, sizeof(Dim) * type.rank);
    ct = p ? op1(T, OP_full, &one, NULL, 0) : NULL;
    ok = ct && pullback_call(T, p, &ct, grad);
    pullback_free(p);
    tensor_unref(ct);
    tensor_unref(y);
    tensor_unref(dy);
    tape_done(tape);
    return ok;
}

void tape_close(Trace *T, GradTape *tape)
{
    Level *lin = tape->lin;

    level_pop(T, tape->lv);
    graph_unref(lin->graph);
    level_pop(T, lin);
    tape_done(tape);
}
