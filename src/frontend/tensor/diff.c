/*
 * diff.c - grad, value_and_grad, vjp and jvp.
 *
 * Which arguments grad differentiates by (C-23): argnums when given; else all
 * arguments made by Parameter, in order; else the first.  The gradient has the
 * tree of the argument.  jacfwd, jacrev and hessian are written with these, in stdlib/.
 */
#include "frontend/tensor/transform.h"

#include <string.h>

/* ------------------------------------------------------------- the arguments to differentiate */

typedef struct Wrt { int at[64], n; bool tuple; } Wrt;

static bool wrt_argnums(Interp *I, Value argnums, const CallArgs *c, Wrt *w)
{
    int64_t k[64];
    if (!arg_int_list(I, argnums, k, 64, &w->n, "argnums"))
        return false;
    w->tuple = argnums.tag != V_INT;
    for (int i = 0; i < w->n; i++) {
        if (k[i] < -c->n || k[i] >= c->n) {
            raise(I, EXC_ValueError, "argnums names argument %lld, the call has %d", (long long)k[i], c->n);
            return false;
        }
        w->at[i] = (int)(k[i] < 0 ? k[i] + c->n : k[i]);
    }
    return true;
}

static bool wrt_find(Interp *I, Value argnums, const CallArgs *c, Wrt *w)
{
    *w = (Wrt){0};
    if (is_given(argnums))
        return wrt_argnums(I, argnums, c, w);
    for (int i = 0; i < c->n && w->n < 64; i++)
        if (c->args[i].tag == V_TENSOR && (c->args[i].o->flags & TENSOR_IS_PARAMETER))
            w->at[w->n++] = i;
    w->tuple = w->n > 1;
    if (w->n)
        return true;
    if (!c->n) {
        raise(I, EXC_TypeError, "grad differentiates by positional arguments, and there are none");
        return false;
    }
    w->n = 1;
    return true;
}

/* ------------------------------------------------------------- grad */

/* One differentiated call, from arguments to the tree of gradients. */
typedef struct Grad {
    HostFn h;
    Wrt w;
    Value *args;                /* the positional arguments, numbers to differentiate made tensors */
    bool *moving;
    TensorVec in, made;
    Tensor **out;
    int nout;
    Pullback *pull;
} Grad;

static bool grad_prepare(Interp *I, Value f, Value argnums, const CallArgs *c, Grad *g)
{
    memset(g, 0, sizeof *g);
    g->h.result = VERR;
    if (!wrt_find(I, argnums, c, &g->w))
        return false;
    g->args = tsr_calloc(sizeof *g->args * (size_t)(c->n + 1));
    g->moving = tsr_calloc((size_t)(c->n + c->nkw) + 1);
    for (int i = 0; i < g->w.n; i++)
        g->moving[g->w.at[i]] = true;
    for (int i = 0; i < c->n; i++) {
        g->args[i] = g->moving[i] ? tree_lift_numbers(I, c->args[i]) : value_ref(c->args[i]);
        if (is_err(g->args[i]))
            return false;
    }
    g->h = (HostFn){.I = I, .f = f, .a = {g->args, c->n, c->kwvals, c->kwnames, c->nkw}, .moving = g->moving, .mode = TREE_TRAINED,
                    .skip_ints = true, .derived = true, .keeps = true, .result = VERR};
    if (!host_fn_leaves(&g->h, &g->in) || !host_fn_wide(I, &g->in, &g->made))
        return false;
    if (!g->in.n) {
        raise(I, EXC_TypeError, "grad needs an argument of floats; argument %d has none", g->w.at[0]);
        return false;
    }
    return true;
}

static void grad_done(Grad *g, int nargs)
{
    for (int i = 0; g->args && i < nargs; i++)
        value_unref(g->args[i]);
    for (int i = 0; g->out && i < g->nout; i++)
        tensor_unref(g->out[i]);
    if (g->pull)
        pullback_free(g->pull);
    host_fn_done(&g->h);
    vec_free(&g->in);
    tensor_vec_free(&g->made);
    tsr_free(g->args);
    tsr_free(g->moving);
    tsr_free(g->out);
}

static bool run_forward(Interp *I, Grad *g)
{
    g->out = tsr_calloc(sizeof *g->out * MAX_RESULTS);
    g->pull = trace_vjp(trace_of(I), host_fn(&g->h), g->in.at, g->in.n, g->out, &g->nout);
    if (!g->pull)
        raise_op_error(I);
    return g->pull != NULL;
}

/* The first result is the value to differentiate: one float. */
static bool check_scalar(Interp *I, const Grad *g, bool has_aux)
{
    StrBuf s = {0};
    Value r = g->h.result;
    if (!has_aux && r.tag != V_NOTIMPL) {
        raise(I, EXC_TypeError, "grad needs a function whose result is one number; this one gives %s (has_aux=True allows (value, anything))",
              value_type_name(r));
        return false;
    }
    if (has_aux && (r.tag != V_TUPLE || as_tuple(r)->n != 2 || as_tuple(r)->at[0].tag != V_NOTIMPL)) {
        raise(I, EXC_TypeError, "with has_aux=True the function gives a pair (value, aux)");
        return false;
    }
    const Tensor *t = g->out[0];
    if (!dim_same(shape_product(t->rank, t->shape), 1)) {
        put_shape(&s, t->rank, t->shape);
        raise(I, EXC_ShapeError, "grad needs a function whose result is one number, this one has shape %s; for all derivatives of a vector result "
              "use jacrev(f), for second derivatives jacfwd(grad(f)) or hessian(f)", sb_str(&s));
        sb_done(&s);
        return false;
    }
    if (!dtype_is_inexact((DType)t->dtype)) {
        raise(I, EXC_DTypeError, "grad needs a float result, not %s", dtype_info[t->dtype].name);
        return false;
    }
    return true;
}

static Tensor *zeros_as(Interp *I, const Tensor *t)
{
    Attr a = attr_default();
    a.dtype = t->dtype;
    a.nd[0] = t->rank;
    memcpy(a.d[0], t->shape, sizeof(Dim) * t->rank);
    return run_op(I, OP_full, &a, NULL, 0);
}

/* Gradients as trees: bare for one argument, a tuple for several. */
static Value gradient_trees(Interp *I, Grad *g, Tensor *const *ct)
{
    int pos = 0;
    Value t = tuple_new(g->w.n);
    for (int i = 0; i < g->w.n; i++) {
        TensorVec leaf = {0};
        Value v = VERR;
        int zero = 0;
        Vec(Tensor *) zeros = {0};
        if (tree_leaves(I, g->args[g->w.at[i]], TREE_TRAINED, &leaf)) {
            for (int k = 0; k < leaf.n; k++)
                if (dtype_is_inexact((DType)leaf.at[k]->dtype)) {
                    leaf.at[k] = ct[pos++];
                } else {                                /* integers move by nothing */
                    Tensor *z = zeros_as(I, leaf.at[k]);
                    vec_push(&zeros, z);
                    leaf.at[k] = z;
                }
            v = tree_rebuild(I, g->args[g->w.at[i]], TREE_TRAINED, leaf.at, &zero);
        }
        for (int k = 0; k < zeros.n; k++)
            tensor_unref(zeros.at[k]);
        vec_free(&zeros);
        vec_free(&leaf);
        as_tuple(t)->at[i] = v;
        if (is_err(v)) {
            value_unref(t);
            return VERR;
        }
    }
    if (g->w.tuple)
        return t;
    Value only = value_ref(as_tuple(t)->at[0]);
    value_unref(t);
    return only;
}

static Value pull_back(Interp *I, Grad *g)
{
    Tensor **ct = tsr_calloc(sizeof *ct * (size_t)g->nout), **back = tsr_calloc(sizeof *back * (size_t)g->in.n);
    Value v = VERR;
    Attr one = attr_default();
    one.dtype = g->out[0]->dtype;
    one.f = 1.0;
    one.nd[0] = g->out[0]->rank;
    memcpy(one.d[0], g->out[0]->shape, sizeof(Dim) * g->out[0]->rank);
    ct[0] = run_op(I, OP_full, &one, NULL, 0);
    if (ct[0] && !pullback_call(trace_of(I), g->pull, ct, back))
        raise_op_error(I);
    else if (ct[0]) {
        v = gradient_trees(I, g, back);
        for (int i = 0; i < g->in.n; i++)
            tensor_unref(back[i]);
    }
    tensor_unref(ct[0]);
    tsr_free(ct);
    tsr_free(back);
    return v;
}

/* The whole result of the function at the primal level; a new tree. */
static Value primal_result(Interp *I, Grad *g)
{
    int pos = 0;
    return tree_rebuild(I, g->h.result, TREE_ALL, g->out, &pos);
}

enum { OPT_ARGNUMS, OPT_AUX };

static Value grad_and_value(Interp *I, Transform *t, const CallArgs *c, bool want_value)
{
    Grad g;
    Value v = VERR, grads = VERR, value = VERR;
    bool aux = t->opt[OPT_AUX].tag == V_BOOL && t->opt[OPT_AUX].i;
    if (grad_prepare(I, t->f, t->opt[OPT_ARGNUMS], c, &g) && run_forward(I, &g) && check_scalar(I, &g, aux))
        grads = pull_back(I, &g);
    if (!is_err(grads) && !buffers_keep(I, c, g.moving, g.h.kept, g.h.nkept, g.out + g.h.nresult)) {
        value_unref(grads);
        grads = VERR;
    }
    if (!is_err(grads) && (want_value || aux))
        value = primal_result(I, &g);
    grad_done(&g, c->n);
    if (is_err(grads) || (!want_value && !aux))
        return grads;
    if (is_err(value)) {
        value_unref(grads);
        return VERR;
    }
    if (want_value)
        v = tuple_of(2, value, grads);
    else {
        v = tuple_of(2, grads, value_ref(as_tuple(value)->at[1]));
        value_unref(value);
    }
    return v;
}

static Value call_grad(Interp *I, Transform *t, const CallArgs *c) { return grad_and_value(I, t, c, false); }
static Value call_value_and_grad(Interp *I, Transform *t, const CallArgs *c) { return grad_and_value(I, t, c, true); }

static Value make_grad(Interp *I, Value *a, const char *name, TransformCall call)
{
    if (is_given(a[0]) && !value_is_callable(a[0]))
        return raise(I, EXC_TypeError, "%s takes a function, not %s", name, value_type_name(a[0]));
    if (a[1].tag == V_TENSOR && as_tensor(a[1])->rank)
        return raise(I, EXC_TypeError, "%s(f) gives a function, which is called with the arguments: %s(f)(x)", name, name);
    return transform_new(name, call, is_given(a[0]) ? a[0] : VERR, a + 1, 2);
}

static Value f_grad(Interp *I, Value *a) { return make_grad(I, a, "grad", call_grad); }
static Value f_value_and_grad(Interp *I, Value *a) { return make_grad(I, a, "value_and_grad", call_value_and_grad); }

/* ------------------------------------------------------------- vjp */

typedef struct VjpObj { NativeInst inst; Pullback *pull; Value args, result; int nin, nout; } VjpObj;

static void vjp_free(void *self)
{
    VjpObj *p = self;
    pullback_free(p->pull);
    value_unref(p->args);
    value_unref(p->result);
}

/* The cotangent's leaves must match the result's; numbers are allowed. */
static Value vjp_call(Interp *I, void *self, Value *args, int nargs, Value *kwvals, Sym *kwnames, int nkw)
{
    VjpObj *p = self;
    if (nargs != 1 || nkw)
        return raise(I, EXC_TypeError, "a pullback takes one argument, the cotangent of the result");
    Value ct = tree_lift_numbers(I, args[0]), r = VERR;
    TensorVec leaf = {0};
    Tensor **back = tsr_calloc(sizeof *back * (size_t)(p->nin + 1));
    if (!is_err(ct) && tree_leaves(I, ct, TREE_ALL, &leaf)) {
        if (leaf.n != p->nout)
            raise(I, EXC_ValueError, "the cotangent has %d tensors, the function's result %d", leaf.n, p->nout);
        else if (!pullback_call(trace_of(I), p->pull, leaf.at, back))
            raise_op_error(I);
        else
            r = result_tree(I, p->args, back, p->nin);
    }
    vec_free(&leaf);
    tsr_free(back);
    value_unref(ct);
    return r;
}

static const NativeType vjp_type = {.name = "pullback", .free = vjp_free, .call = vjp_call};

static Value f_vjp(Interp *I, Value *a)                 /* f, *xs */
{
    TupleObj *xs = as_tuple(a[1]);
    Value args = tree_lift_numbers(I, a[1]), value = VERR;
    TensorVec in = {0}, made = {0};
    Tensor **out = tsr_calloc(sizeof *out * MAX_RESULTS);
    int nout = 0;
    HostFn h = {.I = I, .f = a[0], .a = {is_err(args) ? NULL : as_tuple(args)->at, (int)xs->n}, .derived = true, .result = VERR};
    VjpObj *p = NULL;
    if (!is_err(args) && host_fn_leaves(&h, &in) && host_fn_wide(I, &in, &made)) {
        Pullback *pull = trace_vjp(trace_of(I), host_fn(&h), in.at, in.n, out, &nout);
        if (!pull)
            raise_op_error(I);
        else {
            p = nativeobj_new(&vjp_type, sizeof *p);
            p->pull = pull;
            p->args = tree_skeleton(I, args);
            p->result = value_ref(h.result);
            p->nin = in.n;
            p->nout = nout;
            value = result_tree(I, h.result, out, nout);
        }
    }
    host_fn_done(&h);
    vec_free(&in);
    tensor_vec_free(&made);
    tsr_free(out);
    value_unref(args);
    if (p && is_err(value))
        obj_unref(p);
    return is_err(value) ? VERR : tuple_of(2, value, vobj(p));
}

/* ------------------------------------------------------------- jvp */

static bool as_args(Interp *I, Value v, const char *what, Value *out)
{
    if (v.tag != V_TUPLE && v.tag != V_LIST) {
        raise(I, EXC_TypeError, "jvp takes its %s as a tuple, one for each argument: jvp(f, (x,), (v,))", what);
        return false;
    }
    Value lifted = tree_lift_numbers(I, v), list = is_err(lifted) ? VERR : value_to_list(I, lifted);
    value_unref(lifted);
    *out = list;
    return !is_err(list);
}

static bool jvp_run(Interp *I, HostFn *h, TensorVec *x, TensorVec *dx, Value *value, Value *tangent)
{
    Tensor **out = tsr_calloc(sizeof *out * 2 * MAX_RESULTS), **dout = out + MAX_RESULTS;
    int n = 0;
    bool ok = trace_jvp(trace_of(I), host_fn(h), x->at, dx->at, x->n, out, dout, &n);
    if (!ok) {
        raise_op_error(I);
    } else {
        for (int i = 0; i < n; i++)
            if (!dout[i]) {                             /* it does not depend on the arguments */
                dout[i] = zeros_as(I, out[i]);
            }
        *value = result_tree(I, h->result, out, n);
        *tangent = result_tree(I, h->result, dout, n);
        ok = !is_err(*value) && !is_err(*tangent);
    }
    tsr_free(out);
    return ok;
}

static Value f_jvp(Interp *I, Value *a)                 /* f, primals, tangents */
{
    Value xs = VERR, vs = VERR, value = VERR, tangent = VERR;
    TensorVec x = {0}, dx = {0}, made = {0};
    HostFn h = {.I = I, .f = a[0], .derived = true, .result = VERR};
    bool ok = as_args(I, a[1], "primals", &xs) && as_args(I, a[2], "tangents", &vs);
    if (ok) {
        h.a = (CallArgs){as_list(xs)->at, (int)as_list(xs)->n};
        ok = tree_leaves(I, xs, TREE_ALL, &x) && tree_leaves(I, vs, TREE_ALL, &dx);
    }
    if (ok && x.n != dx.n) {
        raise(I, EXC_ValueError, "jvp: %d tensors in the primals, %d in the tangents", x.n, dx.n);
        ok = false;
    }
    for (int i = 0; ok && i < x.n; i++)
        if (!shape_is(x.at[i], dx.at[i]->rank, dx.at[i]->shape)) {
            raise(I, EXC_ShapeError, "jvp: tangent %d does not have the shape of its primal", i);
            ok = false;
        } else if (!dtype_is_inexact((DType)x.at[i]->dtype))
            dx.at[i] = NULL;
    ok = ok && host_fn_wide(I, &x, &made) && jvp_run(I, &h, &x, &dx, &value, &tangent);
    host_fn_done(&h);
    tensor_vec_free(&made);
    vec_free(&x);
    vec_free(&dx);
    value_unref(xs);
    value_unref(vs);
    if (ok)
        return tuple_of(2, value, tangent);
    value_unref(value);
    value_unref(tangent);
    return VERR;
}

const NativeDef tensor_diff_natives[] = {
    {"", "grad", f_grad, "(f: Callable | None = None, /, argnums: int | tuple | list | None = None, has_aux: bool = False) -> Callable",
     "The gradient function of f, whose result is one number. By argnums; else by all arguments that are Parameters; else by the first. "
     "The gradient has the argument's tree. With has_aux f gives (value, aux), the gradient function (gradient, aux)."},
    {"", "value_and_grad", f_value_and_grad, "(f: Callable | None = None, /, argnums: int | tuple | list | None = None, has_aux: bool = False) -> Callable",
     "Like grad, giving (value, gradient) from one run of f."},
    {"", "vjp", f_vjp, "(f: Callable, /, *xs) -> tuple", "f(*xs), and the pullback: a function from a cotangent of the result to the tuple of cotangents of xs."},
    {"", "jvp", f_jvp, "(f: Callable, primals: tuple | list, tangents: tuple | list, /) -> tuple",
     "f(*primals), and its directional derivative along the tangents (forward mode)."},
    {0},
};
