/*
 * STAGE levels: ops become nodes.
 *
 * Operands from below the level are captured: they become leading parameters
 * of the graph, whose values the caller gets back.  Concrete scalars are part
 * of the program and become constants.  In a sealed level (a region made from
 * another graph) there is nothing to capture and every concrete tensor is a
 * constant.
 */
#include "ir/graph/level.h"

#include <string.h>

static GValue constant(Trace *T, Level *lv, Tensor *t)
{
    Attr a = attr_default();
    int code;
    Node *n;

    a.value = t;
    lv->graph->scope = T->scope;
    n = graph_add(lv->graph, OP_constant, &a, NULL, 0, T->span, &T->message, &code);
    return (GValue){n, 0};
}

static GValue capture(Trace *T, Level *lv, Tensor *t)
{
    uintptr_t at;
    TType y;

    if (map_find(&lv->capture_of, (uintptr_t)t, &at))
        return (GValue){lv->capture_nodes.at[at - 1], 0};
    y = tensor_type(t);
    y.weak = 0;
    lv->graph->scope = NULL;
    vec_push(&lv->captures, tensor_ref(t));
    vec_push(&lv->capture_nodes, graph_append(lv->graph, (OpId)GRAPH_PARAM, NULL, NULL, 0, &y, 1, T->span));
    map_set(&lv->capture_of, (uintptr_t)t, (uintptr_t)lv->captures.n);
    return (GValue){vec_last(&lv->capture_nodes), 0};
}

GValue stage_lift(Trace *T, Level *lv, Tensor *t)
{
    Tracer *tr = tracer_of(lv, t);

    if (tr)
        return tr->node;
    if (!t->tracer && (lv->sealed || (t->rank == 0 && (t->weak || !T->all_staged))))
        return constant(T, lv, t);
    if (lv->sealed) {
        trace_fail(T, OPERR_TRACE, "a region refers to a value outside of it");
        return (GValue){NULL, 0};
    }
    return capture(T, lv, t);
}

static Tensor *wrap(Level *lv, GValue v)
{
    return level_tensor(lv, gvalue_type(v), (Tracer){.node = v});
}

bool apply_stage(Trace *T, Level *lv, OpId op, const Attr *a, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    GValue few[16], *v = nin <= 16 ? few : tsr_alloc(sizeof *v * (size_t)nin);
    Node *n = NULL;
    int code = 3;
    bool ok = true;

    for (int i = 0; ok && i < nin; i++)
        ok = (v[i] = stage_lift(T, lv, in[i])).node != NULL;
    if (ok) {
        sb_clear(&T->message);
        lv->graph->scope = T->scope;
        n = graph_add(lv->graph, op, a, v, nin, T->span, &T->message, &code);
        if (!n)
            T->error = code == 4 ? OPERR_DTYPE : OPERR_SHAPE;
    }
    *nout = n ? n->nout : 0;
    for (int i = 0; i < *nout; i++)
        out[i] = wrap(lv, (GValue){n, i});
    if (v != few)
        tsr_free(v);
    return n != NULL;
}

void stage_settle(Level *lv, Node *const *inputs, int nin)
{
    Graph *g = lv->graph;
    int kept = 0;

    for (int i = 0; i < lv->captures.n; i++) {
        Node *p = lv->capture_nodes.at[i];
        if (!p->nuse) {
            graph_unlink(g, p);
            tensor_unref(lv->captures.at[i]);
            continue;
        }
        vec_push(&g->params, p);
        lv->captures.at[kept++] = lv->captures.at[i];
    }
    lv->captures.n = kept;
    for (int i = 0; i < nin; i++)
        vec_push(&g->params, inputs[i]);
}

static bool stage_body(Trace *T, Level *lv, TensorFn fn, Node *const *inputs, int nin)
{
    Tensor **in = tsr_calloc(sizeof *in * (size_t)(nin + 1)), **out = tsr_calloc(sizeof *out * (size_t)(fn.max_out + 1));
    int nout = 0;
    bool ok;

    for (int i = 0; i < nin; i++)
        in[i] = wrap(lv, (GValue){inputs[i], 0});
    ok = fn.call(fn.self, in, nin, out, &nout);
    for (int i = 0; ok && i < nout; i++) {
        GValue v = stage_lift(T, lv, out[i]);
        ok = v.node != NULL;
        if (ok)
            graph_result(lv->graph, v);
    }
    tensors_unref(in, nin);
    tensors_unref(out, nout);
    tsr_free(in);
    tsr_free(out);
    return ok;
}

Graph *stage(Trace *T, Sym name, TensorFn fn, const TType *in, int nin, Tensor ***captures, int *ncaptures)
{
    Level *lv = level_push(T, TRACE_STAGE, apply_stage);
    Graph *g = lv->graph = graph_new(name);
    Node **inputs = tsr_alloc(sizeof *inputs * (size_t)(nin + 1));
    Sym scope = T->scope;
    bool ok;

    T->scope = scope_lasting(scope);
    lv->sealed = !captures;
    lv->arm = fn.arm;
    for (int i = 0; i < nin; i++)
        inputs[i] = graph_append(g, (OpId)GRAPH_PARAM, NULL, NULL, 0, &in[i], 1, (Span){0, 0});
    ok = stage_body(T, lv, fn, inputs, nin);
    T->scope = scope;
    g->scope = NULL;
    graph_dce(g);
    stage_settle(lv, inputs, nin);
    if (ok && captures) {
        *ncaptures = lv->captures.n;
        *captures = tsr_alloc(sizeof **captures * (size_t)(lv->captures.n + 1));
        for (int i = 0; i < lv->captures.n; i++)
            (*captures)[i] = tensor_ref(lv->captures.at[i]);
    }
    tsr_free(inputs);
    level_pop(T, lv);
    if (!ok) {
        graph_unref(g);
        return NULL;
    }
    return g;
}
