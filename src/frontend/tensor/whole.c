/*
 * Library functions whose calls on large tensors are one graph.
 *
 *     y = softmax(x)       # outside of jit: a maximum, a difference, exp, a sum and a product would each go over all of x
 *
 * `@_core.staged_when_large` marks such a function.  When its calls have gone over PAYS elements, a call on a tensor of at least LARGE is
 * one of jit(f), which has the bits of op after op: what is staged once serves all later calls.  Smaller ones, and those that
 * something follows op by op (a transformation, a profile, a check of each result), run the body.  So does a call that cannot be staged:
 * the body says what is wrong with it.
 */
#include "frontend/tensor/whole.h"

#include "frontend/tensor/transform.h"

enum { LARGE = 1 << 12, PAYS = 1 << 20 };      /* elements */

/* Nothing but this call's values is at hand: no level of a transformation, no rule, no rank, nobody who follows ops. */
static bool is_plain(Interp *I)
{
    const Trace *T = trace_of(I);

    return trace_run_fused && !T->top && !T->rule && !T->place && !T->guarded && !T->watch && !T->timed && !interp_options(I)->memory_limit;
}

/* Elements of the largest tensor that the call has; 0: one is being transformed. */
static int64_t largest(const Frame *f)
{
    int64_t most = 0;

    for (int i = 0; i < f->code->nparams; i++) {
        const Tensor *t = f->slot[i].tag == V_TENSOR ? as_tensor(f->slot[i]) : NULL;
        if (t && t->tracer)
            return 0;
        if (t && tensor_size(t) > most)
            most = tensor_size(t);
    }
    return most;
}

static bool pays(const Frame *f)
{
    int64_t n = largest(f);

    f->func->worked += n < LARGE ? 0 : n;
    return n >= LARGE && f->func->worked >= PAYS;
}

/* The call once more, of the staged function. */
static Value call_graph(Interp *I, const Frame *f)
{
    const Code *c = f->code;
    Transform *t = (Transform *)f->func->whole;
    CallArgs call = {f->slot, c->npos, f->slot + c->npos, c->param + c->npos, c->nparams - c->npos};

    return t->call(I, t, &call);
}

Value whole_run(Interp *I, Frame *f)
{
    Value v;

    if (!is_plain(I) || !pays(f))
        return run_code(I, f);
    v = call_graph(I, f);
    if (!is_err(v) || exc_matches(I, EXC_KeyboardInterrupt) || exc_matches(I, EXC_MemoryError))
        return v;
    exc_clear(I);
    return run_code(I, f);
}
