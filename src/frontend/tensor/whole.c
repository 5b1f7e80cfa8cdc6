/*
 * Library functions whose calls on large tensors are one graph.
 *
 *     y = softmax(x)       # outside of jit: a maximum, a difference, exp, a sum and a product would each go over all of x
 *
 * `@_core.staged_when_large` marks such a function of the library's, and natives that are several ops call whole_native.  When its calls
 * have gone over PAYS elements, a call on a tensor of at least LARGE is one of jit(f), which has the bits of op after op: what is staged
 * once serves all later calls.  Smaller ones, and those that something follows op by op (a transformation, a profile, a check of each
 * result), run the body.  So does a call that cannot be staged: the body says what is wrong with it.
 */
#include "frontend/tensor/whole.h"

#include "frontend/eval/native.h"
#include "frontend/tensor/transform.h"

enum { LARGE = 1 << 12, PAYS = 1 << 20 };      /* elements */
enum { NAMED_MOST = 16 };                       /* parameters of a native that are given by name */

/* Nothing but this call's values is at hand: no level of a transformation, no rule, no rank, nobody who follows ops. */
static bool is_plain(Interp *I)
{
    const Trace *T = trace_of(I);

    return trace_run_fused && !T->top && !T->rule && !T->place && !T->guarded && !T->watch && !T->timed && !interp_options(I)->memory_limit;
}

/* Elements of the largest tensor among the arguments; 0: one is being transformed. */
static int64_t largest(const Value *v, int n)
{
    int64_t most = 0;

    for (int i = 0; i < n; i++) {
        const Tensor *t = v[i].tag == V_TENSOR ? as_tensor(v[i]) : NULL;
        if (t && t->tracer)
            return 0;
        if (t && tensor_size(t) > most)
            most = tensor_size(t);
    }
    return most;
}

/* worked: elements that calls of the body went over. */
static bool pays(const Value *v, int n, int64_t *worked)
{
    int64_t size = largest(v, n);

    *worked += size < LARGE ? 0 : size;
    return size >= LARGE && *worked >= PAYS;
}

/* The call of what was staged. false: it cannot be, the body says why. */
static bool by_graph(Interp *I, Obj *staged, const CallArgs *call, Value *out)
{
    Transform *t = (Transform *)staged;

    *out = t->call(I, t, call);
    if (!is_err(*out) || exc_matches(I, EXC_KeyboardInterrupt) || exc_matches(I, EXC_MemoryError))
        return true;
    exc_clear(I);
    return false;
}

Value whole_run(Interp *I, Frame *f)
{
    const Code *c = f->code;
    CallArgs call = {f->slot, c->npos, f->slot + c->npos, c->param + c->npos, c->nparams - c->npos};
    Value v;

    if (is_plain(I) && pays(f->slot, c->nparams, &f->func->worked) && by_graph(I, f->func->whole, &call, &v))
        return v;
    return run_code(I, f);
}

/* The call of a native with the arguments that it got, those that were left out among them. */
static bool native_by_graph(Interp *I, WholeNative *w, const NativeSig *s, const Value *a, Value *out)
{
    Sym names[NAMED_MOST];
    int n = s->n - s->npos;

    for (int i = 0; i < n && i < NAMED_MOST; i++)
        names[i] = s->param[s->npos + i].name;
    return n <= NAMED_MOST && by_graph(I, w->staged, &(CallArgs){a, s->npos, a + s->npos, names, n}, out);
}

Value whole_native(Interp *I, WholeId id, const char *name, NativeFn body, Value *a)
{
    WholeNative *w = &I->whole[id];
    const NativeDef *d;
    const NativeSig *s;
    Value v;

    if (!is_plain(I) || !pays(a, 1, &w->worked))
        return body(I, a);
    d = native_find("", name);
    s = native_sig(d);
    if (!w->staged) {
        v = native_value(I, d);
        w->staged = jit_when_large(v);
        value_unref(v);
    }
    return native_by_graph(I, w, s, a, &v) ? v : body(I, a);
}
