/*
 * checkpoint.c - functions whose inner values are computed again in the backward pass.
 *
 * A policy says which inner values are kept all the same: those marked by
 * checkpoint_here, those marked with certain names, or the results of matrix
 * products.  Marks mean nothing outside.
 */
#include "frontend/tensor/transform.h"

#include <string.h>

enum { OPT_POLICY, NAMES_MAX = 64 };

static bool any_traced(const TensorVec *in)
{
    for (int i = 0; i < in->n; i++)
        if (in->at[i]->tracer)
            return true;
    return false;
}

/* The policy as trace.h wants it; names has room for NAMES_MAX. */
static const Keep *keep_of(Value policy, Keep *k, Sym *names)
{
    *k = (Keep){.name = names};
    if (policy.tag == V_TUPLE) {
        k->kind = KEEP_NAMED;
        for (int64_t i = 0; i < as_tuple(policy)->n && i < NAMES_MAX; i++)
            names[k->nnames++] = sym(as_str(as_tuple(policy)->at[i])->s);
        return k;
    }
    if (policy.tag != V_STR || !strcmp(as_str(policy)->s, "full"))
        return NULL;
    k->kind = !strcmp(as_str(policy)->s, "dots") ? KEEP_DOTS : KEEP_MARKED;
    return k;
}

static Value call_remat(Interp *I, Transform *t, const CallArgs *c)
{
    HostFn h = {.I = I, .f = t->f, .a = *c, .result = VERR};
    TensorVec in = {0};
    Tensor **out;
    Sym names[NAMES_MAX];
    Keep keep;
    int nout = 0;
    Value v = VERR;
    if (!host_fn_leaves(&h, &in))
        return VERR;
    if (!any_traced(&in) && !trace_of(I)->top) {
        vec_free(&in);
        return value_call_kw(I, t->f, c->args, c->n, c->kwvals, c->kwnames, c->nkw);
    }
    out = tsr_calloc(sizeof *out * MAX_RESULTS);
    trace_of(I)->span = interp_span(I);
    if (trace_checkpoint(trace_of(I), host_fn(&h), keep_of(t->opt[OPT_POLICY], &keep, names), in.at, in.n, out, &nout))
        v = result_tree(I, h.result, out, nout);
    else
        raise_op_error(I);
    host_fn_done(&h);
    vec_free(&in);
    tsr_free(out);
    return v;
}

/* "full", "selective", "dots", or a tuple of names: the library has looked at it. */
static bool policy_ok(Interp *I, Value p)
{
    bool ok = !is_given(p) || p.tag == V_STR || (p.tag == V_TUPLE && as_tuple(p)->n <= NAMES_MAX);
    for (int64_t i = 0; ok && p.tag == V_TUPLE && i < as_tuple(p)->n; i++)
        ok = as_tuple(p)->at[i].tag == V_STR;
    if (!ok)
        raise(I, EXC_TypeError, "remat: a policy is \"full\", \"selective\", \"dots\" or a tuple of at most %d names", NAMES_MAX);
    return ok;
}

static Value f_remat(Interp *I, Value *a)               /* f, policy */
{
    return policy_ok(I, a[1]) ? transform_new("checkpoint", call_remat, is_given(a[0]) ? a[0] : VERR, &a[1], 1) : VERR;
}

static Value f_checkpoint_here(Interp *I, Value *a)     /* x, name */
{
    TensorVec leaf = {0};
    Value v = VERR;
    int pos = 0, made = 0;
    if (!trace_of(I)->top)
        return value_ref(a[0]);
    if (!tree_leaves(I, a[0], TREE_ALL, &leaf))
        return VERR;
    Tensor **marked = tsr_calloc(sizeof *marked * (size_t)(leaf.n + 1));
    trace_of(I)->span = interp_span(I);
    for (; made < leaf.n; made++)
        if (!(marked[made] = trace_mark(trace_of(I), leaf.at[made], is_given(a[1]) ? as_str(a[1])->s : "")))
            break;
    v = made == leaf.n ? tree_rebuild(I, a[0], TREE_ALL, marked, &pos) : raise_op_error(I);
    while (made > 0)
        tensor_unref(marked[--made]);
    tsr_free(marked);
    vec_free(&leaf);
    return v;
}

/* How often is what runs now being differentiated? At least once; a graph may be differentiated later, three times exactly. */
static Value f_derivative_order(Interp *I, Value *a)
{
    int64_t n = 0, staged = 0;
    (void)a;
    for (const Level *lv = trace_of(I)->top; lv; lv = lv->outer) {
        n += lv->kind == TRACE_JVP || lv->kind == TRACE_LIN;
        staged |= lv->kind == TRACE_STAGE && !lv->linear;
    }
    return vint(n + (staged ? 3 : 1) - (n > 0 && !staged));
}

static Value f_is_staged(Interp *I, Value *a)
{
    (void)I;
    return vbool(value_is_staged(a[0]));
}

const NativeDef tensor_checkpoint_natives[] = {
    {"_core", "is_staged", f_is_staged, "(x) -> bool", "Is x a tensor without a value: being staged, or batched?"},
    {"_core", "derivative_order", f_derivative_order, "() -> int", "How many derivatives may be taken of what is computed now."},
    {"", "remat", f_remat, "(f: Callable | None = None, policy=None) -> Callable",
     "checkpoint: f whose inner values are computed again in the backward pass instead of kept."},
    {"", "checkpoint_here", f_checkpoint_here, "(x, name: str | None = None)",
     "x itself; inside a function with a selective checkpoint it is kept for the backward pass."},
    {0},
};
