/*
 * Staging one call: the function runs on abstract tensors, and what it did becomes the graph of an Entry.
 *
 * Results are those of the function, then what it stored outside (guard.h).  What it reads there is noted while it runs; numbers
 * that it leaves outside are settled, for no graph computes them.  The program's own passes go over the graph before it is kept.
 */
#include "frontend/tensor/ir_values.h"
#include "frontend/tensor/jit_entry.h"
#include "frontend/tensor/jit_mode.h"
#include "frontend/tensor/whole.h"

#include <string.h>

const char jit_whole_name[] = "staged_when_large";

static bool key_used(const Graph *g, int at) { return g->params.at[at]->nuse > 0; }

typedef struct Staging { HostFn *h; Guard *guard; } Staging;

/* Sizes that it left outside, in lists and dicts that came as arguments too, are numbers from now on; false: an exception is pending. */
static bool settle_outside(const Staging *s)
{
    const CallArgs *c = &s->h->a;
    bool ok = guard_settle(s->guard);
    for (int i = 0; ok && i < c->n + c->nkw; i++) {
        Value v = i < c->n ? c->args[i] : c->kwvals[i - c->n];
        ok = symint_settle_inside(s->h->I, &v);
    }
    return ok;
}

static void drop_results(Tensor **out, int *nout)
{
    for (int i = 0; i < *nout; i++)
        tensor_unref(out[i]);
    *nout = 0;
}

/* The function, followed by what it stored outside as further results. */
static bool call_staged(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Staging *s = self;
    TensorFn f = host_fn(s->h);
    if (f.call(f.self, in, nin, out, nout) && guard_take_writes(s->guard, out, nout, MAX_RESULTS) && settle_outside(s))
        return true;
    Interp *I = s->h->I;                                /* it failed: put back what it stored */
    Value exc = exc_pending(I) ? exc_take(I) : VERR;
    drop_results(out, nout);
    guard_take_writes(s->guard, out, nout, MAX_RESULTS);
    drop_results(out, nout);
    if (!is_err(exc)) {
        exc_clear(I);
        raise_value(I, exc);
        value_unref(exc);
    }
    trace_of(I)->error = OPERR_HOST;
    return false;
}

/* Might what it stands for change while it stays the same? */
static bool is_object(Value v)
{
    return v.tag == V_INSTANCE || v.tag == V_BOUND || v.tag == V_FUNC || v.tag == V_CLASS || v.tag == V_SET || v.tag == V_NATIVEOBJ;
}

/* Objects that come as static arguments, and what is staged itself (its object, its defaults), are read from outside too. */
static void note_objects(Interp *I, Guard *g, Value f, const CallArgs *c)
{
    if (is_object(f))
        guard_note_value(g, f);
    for (int i = 0; i < c->n + c->nkw; i++) {
        Value v = i < c->n ? c->args[i] : c->kwvals[i - c->n];
        TensorVec leaf = {0};
        if (is_object(v) && tree_leaves(I, v, TREE_ALL, &leaf) && !leaf.n)
            guard_note_value(g, v);
        vec_free(&leaf);
    }
}

static Sym label_of(Interp *I, Value f)
{
    Value name = value_getattr_opt(I, f, sym("__name__"));
    Sym label = name.tag == V_STR ? sym_n(as_str(name)->s, as_str(name)->len) : sym("function");

    value_unref(name);
    return label;
}

/* Stage the call into e->graph, over sizes of its own unless a staged function around it has them. type: of the key, then of the n operands. */
static void stage_call(Interp *I, Transform *t, HostFn *h, Entry *e, TType *type, int n, const SizeDeclare *declare)
{
    Sym label = label_of(I, t->f);      /* before what is asked counts for the guard */
    SizeVars sizes = {0};
    Staging staging = {h, NULL};
    JitBlock block;
    bool own;

    e->within = dim_asking_id();
    own = size_vars_begin(I, &sizes, t->f, &h->a, declare, type + 1, n);
    e->guard = staging.guard = guard_begin(I);
    note_objects(I, e->guard, t->f, &h->a);
    block = jit_block_begin(I, t->opt[OPT_BLOCK]);
    e->graph = stage(trace_of(I), label, (TensorFn){call_staged, &staging, MAX_RESULTS}, type, n + 1, &e->capture, &e->ncaptures);
    jit_block_end(I, &block);
    guard_end(e->guard);
    if (e->graph)
        graph_optimise(e->graph);
    if (own)
        e->graph = size_vars_end(&sizes, e->graph, type + 1, n);
}

Entry *jit_build(Interp *I, Transform *t, const CallArgs *c, const TensorVec *in, Value tree, const SizeDeclare *declare)
{
    HostFn h = {.I = I, .f = t->f, .a = *c, .key_first = true, .keeps = t->opt[OPT_EXPORT].tag != V_TUPLE && !declare, .result = VERR};
    TType *type = tsr_calloc(sizeof *type * (size_t)(in->n + 1));
    Entry *e = tsr_calloc(sizeof *e);

    e->skeleton = e->result = VERR;
    type[0] = (TType){.dtype = DT_uint32, .rank = 1, .shape = {2}};
    for (int i = 0; i < in->n; i++)
        type[i + 1] = tensor_type(in->at[i]);
    stage_call(I, t, &h, e, type, in->n, declare);
    if (!e->graph) {
        guard_free(e->guard);
        raise_op_error(I);
        host_fn_done(&h);
        tsr_free(type);
        tsr_free(e);
        return NULL;
    }
    guard_bind_captures(e->guard, e->capture, e->ncaptures);
    e->random = key_used(e->graph, e->ncaptures);
    e->result = h.result;
    e->nout = h.nresult;
    e->kept = h.kept, e->nkept = h.nkept;
    e->n = in->n;
    e->numerics = trace_of(I)->numerics;
    e->place = trace_of(I)->place;
    e->scope = scope_lasting(trace_of(I)->scope);
    memmove(type, type + 1, sizeof *type * (size_t)in->n);
    e->type = type;
    e->skeleton = tree_skeleton(I, tree);
    if (!e->within && !graph_passes_run(I, &e->graph)) {
        jit_entry_free(e);
        return NULL;
    }
    if (!e->within && !jit_is_whole(t)) {
        value_unref(I->last_graph);
        I->last_graph = graph_value(e->graph);
    }
    return e;
}
