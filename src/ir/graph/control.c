/*
 * Control flow on functions, for the language: bodies are staged into regions,
 * what they capture becomes operands, and the op goes through op_apply.
 *
 * Ambient random draws inside a loop body get a key of their own for each
 * round: the body counts rounds and folds the count into the key; a body that
 * draws nothing loses the counter again.
 */
#include "ir/graph/control.h"

#include <limits.h>
#include <string.h>

/* -- ambient randomness ------------------------------------------------------------------------------------------------------------ */

static Tensor *seed_key(uint64_t seed)
{
    Tensor *k = tensor_new(DT_uint32, 1, (Dim[]){2});

    if (!k)
        return NULL;
    elem_set_i(k, 0, (int64_t)(seed & UINT32_MAX));
    elem_set_i(k, 1, (int64_t)(seed >> 32));
    return k;
}

static Tensor *fold_key(Trace *T, Tensor *key, Tensor *n)
{
    Tensor *k = key && n ? op_binary(T, OP_fold_key, key, n) : NULL;

    if (!k && T->error == OPERR_NONE)
        T->error = OPERR_MEMORY;
    tensor_unref(key);
    tensor_unref(n);
    return k;
}

/* int32 0, 1, ... n-1 */
static Tensor *first_numbers(Trace *T, Dim n)
{
    Attr a = attr_iota(DT_int32, 1, &n, -1);

    return op1(T, OP_iota, &a, NULL, 0);
}

/* Fold the example's number in, for every vmap from the outermost. */
static Tensor *fold_batches(Trace *T, Level *lv, Tensor *key)
{
    Tensor *iota, *example;

    if (!lv || !key)
        return key;
    key = fold_batches(T, lv->outer, key);
    if (lv->kind != TRACE_BATCH || !key)
        return key;
    if (!(iota = first_numbers(T, lv->batch))) {
        tensor_unref(key);
        return NULL;
    }
    example = batch_wrap(lv, iota);
    tensor_unref(iota);
    return fold_key(T, key, example);
}

/* A loop body in the making: its key is the next one outside with the round folded in, made when first asked for. */
typedef struct KeyScope {
    Tensor *round, *key;
    Tensor *outer_key;
    uint64_t outer_seed, outer_draws;
    struct KeyScope *outer;
} KeyScope;

static void scope_enter(Trace *T, KeyScope *s, Tensor *round)
{
    *s = (KeyScope){.round = round, .outer_key = T->key, .outer_seed = T->seed, .outer_draws = T->draws, .outer = T->rounds};
    T->rounds = s;
}

static void scope_leave(Trace *T, KeyScope *s)
{
    T->rounds = s->outer;
    if (!s->key)
        return;
    tensor_unref(s->key);
    T->key = s->outer_key;
    T->draws = s->outer_draws;
}

/* The first draw of a body, unless the program chose a seed inside it. */
static bool scope_open(Trace *T, KeyScope *s)
{
    Tensor *base;

    if (!s || s->key || T->key != s->outer_key || T->seed != s->outer_seed)
        return true;
    T->rounds = s->outer;
    base = trace_key(T);
    T->rounds = s;
    if (!base)
        return false;
    s->outer_draws = T->draws;
    s->key = fold_key(T, base, tensor_ref(s->round));
    T->key = s->key;
    T->draws = 0;
    return s->key != NULL;
}

Tensor *trace_no_key(void)
{
    static Tensor *key;
    Dim two = 2;

    if (!key)
        key = tensor_zeros(DT_uint32, 1, &two);
    return key ? tensor_ref(key) : NULL;
}

Tensor *trace_key(Trace *T)
{
    Tensor *base;

    if (!scope_open(T, T->rounds))
        return NULL;
    base = T->key ? tensor_ref(T->key) : seed_key(T->seed);
    return fold_batches(T, T->top, fold_key(T, base, tensor_scalar_i(DT_int64, (int64_t)T->draws++)));
}

bool trace_drew(const Trace *T)
{
    return T->rounds && T->rounds->key;
}

/* -- staging bodies ------------------------------------------------------------------------------------------------------------------ */

typedef struct Body {
    Graph *g;
    Tensor **cap;
    int ncap;
} Body;

static void body_done(Body *b)
{
    graph_unref(b->g);
    tensors_unref(b->cap, b->ncap);
    tsr_free(b->cap);
}

static bool stage_body(Trace *T, const char *name, TensorFn fn, const TType *in, int nin, Body *b)
{
    b->g = stage(T, sym(name), fn, in, nin, &b->cap, &b->ncap);
    return b->g != NULL;
}

static TType strong_type(const Tensor *t)
{
    TType y = tensor_type(t);

    y.weak = 0;
    return y;
}

/* Give g the n captures of all bodies as leading parameters: its own stay, others are added unused. */
static Graph *widen(const Body *b, const Body *all, int nall)
{
    Graph *w = graph_clone(b->g);
    Vec(Node *) params = {0};
    int at = 0;

    for (int k = 0; k < nall; k++)
        for (int i = 0; i < all[k].ncap; i++) {
            TType y = strong_type(all[k].cap[i]);
            if (all[k].g == b->g)
                vec_push(&params, w->params.at[at++]);
            else
                vec_push(&params, graph_append(w, (OpId)GRAPH_PARAM, NULL, NULL, 0, &y, 1, (Span){0, 0}));
        }
    for (int i = at; i < w->params.n; i++)
        vec_push(&params, w->params.at[i]);
    vec_free(&w->params);
    w->params.at = params.at;
    w->params.n = params.n;
    w->params.cap = params.cap;
    return w;
}

static bool same_results(Trace *T, const Graph *a, const Graph *b)
{
    if (a->results.n != b->results.n)
        return trace_fail(T, OPERR_SHAPE, "one branch gives %d values, the other branch %d", a->results.n, b->results.n);
    for (int i = 0; i < a->results.n; i++)
        if (!ttype_fits(result_of(a, i), result_of(b, i))) {
            T->error = result_of(a, i)->dtype != result_of(b, i)->dtype ? OPERR_DTYPE : OPERR_SHAPE;
            sb_clear(&T->message);
            sb_puts(&T->message, "both branches must give the same type: the first branch gives ");
            ttype_print(result_of(a, i), &T->message);
            sb_puts(&T->message, ", the other branch ");
            ttype_print(result_of(b, i), &T->message);
            return false;
        }
    return true;
}

bool trace_cond(Trace *T, Tensor *pred, TensorFn on_true, TensorFn on_false, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Tensor *known = tensor_concrete(pred);
    Body b[2] = {{0}};
    Tensors v = {0};
    TType *types;
    Attr a = attr_default();
    bool ok;

    if (known) {
        TensorFn *f = elem_get_i(known, known->offset) ? &on_true : &on_false;
        return f->call(f->self, in, nin, out, nout);
    }
    on_true.arm = on_false.arm = true;
    types = tsr_alloc(sizeof *types * (size_t)(nin + 1));
    for (int i = 0; i < nin; i++)
        types[i] = strong_type(in[i]);
    ok = stage_body(T, "true", on_true, types, nin, &b[0]) && stage_body(T, "false", on_false, types, nin, &b[1]) &&
         same_results(T, b[0].g, b[1].g);
    if (ok) {
        a.region[0] = widen(&b[0], b, 2);
        a.region[1] = widen(&b[1], b, 2);
        tensors_push(&v, &pred, 1);
        tensors_push(&v, b[0].cap, b[0].ncap);
        tensors_push(&v, b[1].cap, b[1].ncap);
        tensors_push(&v, in, nin);
        ok = op_dispatch(T, OP_cond, &a, v.at, v.n, out, nout);
    }
    graph_unref(a.region[0]);
    graph_unref(a.region[1]);
    tensors_done(&v);
    body_done(&b[0]);
    body_done(&b[1]);
    tsr_free(types);
    return ok;
}

/* -- loops: a body may draw random numbers ------------------------------------------------------------------------------------------- */

/* Runs fn, whose random draws depend on the round number, the last input; fn does not see it. */
typedef struct Rounds { Trace *T; TensorFn fn; } Rounds;

static bool call_round(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Rounds *r = self;
    KeyScope s;
    bool ok;

    scope_enter(r->T, &s, in[nin - 1]);
    ok = r->fn.call(r->fn.self, in, nin - 1, out, nout);
    scope_leave(r->T, &s);
    return ok;
}

static bool scan_types(Trace *T, Tensor *const *carry, int ncarry, Tensor *const *xs, int nxs, TType *types)
{
    for (int i = 0; i < ncarry; i++)
        types[i] = strong_type(carry[i]);
    for (int i = 0; i < nxs; i++) {
        TType *y = &types[ncarry + i];
        *y = strong_type(xs[i]);
        if (!y->rank)
            return trace_fail(T, OPERR_SHAPE, "scan goes over a leading axis, a 0-d tensor has none");
        if (y->shape[0] != xs[0]->shape[0] && dim_ask_eq(y->shape[0], xs[0]->shape[0]) == DIM_REFUTED)
            return trace_fail(T, OPERR_SHAPE, "scan: leading sizes %s and %s differ", dim_text(xs[0]->shape[0]),
                              dim_text(y->shape[0]));
        y->rank--;
        memmove(y->shape, y->shape + 1, sizeof(Dim) * y->rank);
    }
    types[ncarry + nxs] = (TType){.dtype = DT_int32};
    return nxs > 0 || trace_fail(T, OPERR_VALUE, "scan needs something to go over");
}

static bool apply_scan(Trace *T, Body *b, Tensor *const *carry, int ncarry, Tensor *const *xs, int nxs, bool reverse, Tensor **out,
                       int *nout)
{
    Node *count = vec_last(&b->g->params);
    Tensors v = {0};
    Attr a = attr_default();
    bool ok = true;

    tensors_push(&v, b->cap, b->ncap);
    tensors_push(&v, carry, ncarry);
    tensors_push(&v, xs, nxs);
    if (!count->nuse) {
        (void)vec_pop(&b->g->params);
        graph_unlink(b->g, count);
    } else {
        Tensor *numbers = first_numbers(T, xs[0]->shape[0]);
        ok = numbers != NULL;
        if (ok)
            vec_push(&v, numbers);
    }
    a.n = (int16_t)b->ncap;
    a.m = (int16_t)ncarry;
    a.i = reverse;
    a.nd[0] = 1;
    a.d[0][0] = xs[0]->shape[0];
    a.region[0] = b->g;
    ok = ok && op_dispatch(T, OP_scan, &a, v.at, v.n, out, nout);
    tensors_done(&v);
    return ok;
}

bool trace_scan(Trace *T, TensorFn body, Tensor *const *carry, int ncarry, Tensor *const *xs, int nxs, bool reverse, Tensor **out,
                int *nout)
{
    Rounds r = {T, body};
    TType *types = tsr_alloc(sizeof *types * (size_t)(ncarry + nxs + 1));
    Body b = {0};
    bool ok = scan_types(T, carry, ncarry, xs, nxs, types) &&
              stage_body(T, "scan", (TensorFn){call_round, &r, body.max_out}, types, ncarry + nxs + 1, &b);

    ok = ok && apply_scan(T, &b, carry, ncarry, xs, nxs, reverse, out, nout);
    body_done(&b);
    tsr_free(types);
    return ok;
}

static bool call_counted(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Rounds *r = self;
    Tensor *one;

    if (!call_round(self, in, nin, out, nout))
        return false;
    one = tensor_scalar_i(DT_int32, 1);
    out[*nout] = op_binary(r->T, OP_add, in[nin - 1], one);
    tensor_unref(one);
    return out[(*nout)++] != NULL;
}

static bool call_uncounted(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    TensorFn *fn = self;

    return fn->call(fn->self, in, nin - 1, out, nout);
}

/* The counter leaves a loop whose body only counts with it. */
static bool drop_counter(Body *cond, Body *body)
{
    Graph *g = body->g;
    Node *count = vec_last(&g->params);
    GValue next = vec_last(&g->results);

    if (count->nuse != 1 || next.node->nuse != 1)
        return false;
    (void)vec_pop(&g->results);
    next.node->nuse--;
    graph_dce(g);
    (void)vec_pop(&g->params);
    graph_unlink(g, count);
    count = vec_pop(&cond->g->params);
    graph_unlink(cond->g, count);
    return true;
}

static bool apply_while(Trace *T, Body *b, Tensor *const *init, int n, bool counted, Tensor **out)
{
    Tensors v = {0};
    Attr a = attr_default();
    Tensor **got = tsr_calloc(sizeof *got * (size_t)(2 * n + 8));
    int nout = 0;
    bool ok;

    a.n = (int16_t)(b[0].ncap + b[1].ncap);
    a.region[0] = widen(&b[0], b, 2);
    a.region[1] = widen(&b[1], b, 2);
    tensors_push(&v, b[0].cap, b[0].ncap);
    tensors_push(&v, b[1].cap, b[1].ncap);
    tensors_push(&v, init, n);
    if (counted)
        vec_push(&v, tensor_scalar_i(DT_int32, 0));
    ok = op_dispatch(T, OP_while, &a, v.at, v.n, got, &nout);
    for (int i = 0; i < n && ok; i++)
        out[i] = tensor_ref(got[i]);
    tensors_unref(got, nout);
    tsr_free(got);
    graph_unref(a.region[0]);
    graph_unref(a.region[1]);
    tensors_done(&v);
    return ok;
}

bool trace_while(Trace *T, TensorFn cond, TensorFn body, Tensor *const *init, int n, Tensor **out)
{
    Rounds r = {T, body};
    TType *types = tsr_alloc(sizeof *types * (size_t)(n + 1));
    Body b[2] = {{0}};
    bool ok, counted = true;

    for (int i = 0; i < n; i++)
        types[i] = strong_type(init[i]);
    types[n] = (TType){.dtype = DT_int32};
    ok = stage_body(T, "condition", (TensorFn){call_uncounted, &cond, 1}, types, n + 1, &b[0]) &&
         stage_body(T, "body", (TensorFn){call_counted, &r, (body.max_out > n ? body.max_out : n) + 1}, types, n + 1, &b[1]);
    if (ok && b[1].g->results.n != n + 1)
        ok = trace_fail(T, OPERR_VALUE, "the loop's body gives %d values for %d carried ones", b[1].g->results.n - 1, n);
    if (ok && drop_counter(&b[0], &b[1]))
        counted = false;
    ok = ok && apply_while(T, b, init, n, counted, out);
    body_done(&b[0]);
    body_done(&b[1]);
    tsr_free(types);
    return ok;
}

bool trace_checkpoint(Trace *T, TensorFn fn, const Keep *keep, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    TType *types;
    Tensors v = {0};
    Attr a = attr_default();
    Body b = {0};
    bool ok, traced = false;

    for (int i = 0; i < nin; i++)
        traced |= in[i]->tracer != NULL;
    if (!traced && !T->top)
        return fn.call(fn.self, in, nin, out, nout);
    types = tsr_alloc(sizeof *types * (size_t)(nin + 1));
    for (int i = 0; i < nin; i++)
        types[i] = strong_type(in[i]);
    ok = stage_body(T, "checkpoint", fn, types, nin, &b);
    if (ok) {
        a.kind = CALL_CHECKPOINT;
        a.region[0] = b.g;
        tensors_push(&v, b.cap, b.ncap);
        tensors_push(&v, in, nin);
        ok = keep ? checkpoint_keeping(T, b.g, keep, v.at, v.n, out, nout) : op_dispatch(T, OP_call, &a, v.at, v.n, out, nout);
    }
    tensors_done(&v);
    body_done(&b);
    tsr_free(types);
    return ok;
}

Tensor *trace_mark(Trace *T, Tensor *x, const char *name)
{
    Graph *g = graph_new(sym("keep"));
    TType y = strong_type(x);
    Attr a = attr_default();
    Tensor *out[1] = {NULL};
    StrBuf s = {0};
    int n;

    graph_result(g, graph_param(g, &y));
    sb_printf(&s, KEEP_MARK "%s", name);
    a.name = sym(sb_str(&s));
    a.region[0] = g;
    sb_done(&s);
    if (!op_dispatch(T, OP_call, &a, &x, 1, out, &n))
        out[0] = NULL;
    graph_unref(g);
    return out[0];
}
