/*
 * custom.c - custom_vjp and custom_jvp: functions that bring their own derivative.
 *
 * Called on plain tensors such a function just runs.  On traced ones its body is
 * staged and becomes the region of a custom op, whose host object is a CustomCall: it knows
 * the trees of arguments, result and residuals, so that the rules are called as they were written.
 * Graphs point to CustomCalls and hold their regions: one is let go when its function is gone and no graph
 * holds its region any more.
 */
#include "frontend/tensor/custom.h"

#include "frontend/tensor/transform.h"

#include <string.h>

enum { ARGS_MAX = 64 };

typedef struct Custom {
    NativeInst inst;
    bool forward;               /* custom_jvp */
    Value f, fwd, bwd;          /* of custom_jvp: fwd is the rule; f VERR: the decorator, which has no function yet */
    uint64_t apart;             /* nondiff_argnums: bit i stands for argument i, which rules get in front and give nothing for */
    uint32_t ncalls;            /* CustomCalls that hold it */
} Custom;

typedef struct CustomCall {
    Custom *owner;              /* counted */
    Value args;                 /* skeleton of the arguments as one tuple */
    Value result, residual;     /* skeletons */
    int n, ncaptures, nout, nres;
    TType *type;                /* of operands after captures, then of results */
    Graph *graph;
    Tensor **capture;
    const Policy *numerics;     /* the scope that the graph was made in */
    struct CustomCall *next;
} CustomCall;

static CustomCall *all_calls;
static int ncalls, sweep_at = 64;

static Custom *as_custom(Value v) { return (Custom *)v.o; }

static const char *custom_name(const Custom *c)
{
    return c->forward ? "custom_jvp" : "custom_vjp";
}

/* ------------------------------------------------------------- rules, called back by the trace */

/* NULL stands for zero. */
static Tensor *or_zero(Interp *I, Tensor *t, const TType *type)
{
    Attr a = attr_default();
    if (t)
        return tensor_ref(t);
    a.dtype = type->dtype;
    a.nd[0] = type->rank;
    memcpy(a.d[0], type->shape, sizeof(Dim) * type->rank);
    return run_op(I, OP_full, &a, NULL, 0);
}

/* The tuple of argument trees around in[0 .. n), zeros for NULL. */
static Value tree_around(Interp *I, Value skeleton, Tensor *const *in, int n, const TType *type)
{
    Tensor **x = tsr_calloc(sizeof *x * (size_t)(n + 1));
    int pos = 0;
    for (int i = 0; i < n; i++)
        x[i] = or_zero(I, in[i], &type[i]);
    Value v = tree_rebuild(I, skeleton, TREE_ALL, x, &pos);
    for (int i = 0; i < n; i++)
        tensor_unref(x[i]);
    tsr_free(x);
    return v;
}

static bool rule_failed(Interp *I)
{
    trace_of(I)->error = OPERR_HOST;
    return false;
}

/* Flatten v into out; it must have n tensors. */
static bool take(Interp *I, CustomCall *c, Value v, int n, const char *what, Tensor **out)
{
    Value skeleton = VERR;
    int got = 0;
    bool ok = flatten_result(I, v, &skeleton, out, &got);
    value_unref(skeleton);
    if (ok && got != n) {
        raise(I, EXC_ValueError, "%s of a %s function: %d tensors are needed, it gives %d", what, custom_name(c->owner), n, got);
        for (int i = 0; i < got; i++)
            tensor_unref(out[i]);
        ok = false;
    }
    return ok;
}

static bool pair_of(Interp *I, Value v, const char *what)
{
    if (v.tag == V_TUPLE && as_tuple(v)->n == 2)
        return true;
    if (!is_err(v))
        raise(I, EXC_TypeError, "%s gives a pair, not %s", what, value_type_name(v));
    return false;
}

/* An argument of nondiff_argnums? */
static bool is_apart(const Custom *c, int64_t i) { return i < ARGS_MAX && c->apart >> i & 1; }

/* A rule called with the arguments of nondiff_argnums, which are no tensors, and then a and b. */
static Value call_rule(Interp *I, const CustomCall *c, Value rule, Value a, Value b)
{
    const TupleObj *args = as_tuple(c->args);
    Value list[ARGS_MAX + 2];
    int n = 0;

    for (int64_t i = 0; i < args->n; i++)
        if (is_apart(c->owner, i))
            list[n++] = args->at[i];
    list[n++] = a;
    list[n++] = b;
    return value_call(I, rule, list, n);
}

/* The tuple without the arguments of nondiff_argnums; takes v. */
static Value differentiated(const Custom *c, Value v)
{
    const TupleObj *all = as_tuple(v);
    Value rest;
    int64_t n = 0;

    if (!c->apart)
        return v;
    rest = tuple_new(all->n - __builtin_popcountll(c->apart));
    for (int64_t i = 0; i < all->n; i++)
        if (!is_apart(c, i))
            as_tuple(rest)->at[n++] = value_ref(all->at[i]);
    value_unref(v);
    return rest;
}

static bool rule_jvp(Interp *I, CustomCall *c, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    int n = nin / 2, cap = c->ncaptures;
    Value x = tree_around(I, c->args, in + cap, c->n, c->type), r = VERR;
    Value dx = is_err(x) ? VERR : tree_around(I, c->args, in + n + cap, c->n, c->type);
    if (!is_err(dx)) {
        x = differentiated(c->owner, x);
        dx = differentiated(c->owner, dx);
        r = call_rule(I, c, c->owner->fwd, x, dx);
    }
    bool ok = pair_of(I, r, "the rule of custom_jvp") && take(I, c, as_tuple(r)->at[0], c->nout, "the value", out) &&
              take(I, c, as_tuple(r)->at[1], c->nout, "the tangent", out + c->nout);
    *nout = 2 * c->nout;
    value_unref(x);
    value_unref(dx);
    value_unref(r);
    return ok || rule_failed(I);
}

static bool rule_fwd(Interp *I, CustomCall *c, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Value x = tree_around(I, c->args, in + c->ncaptures, c->n, c->type), r = VERR, skeleton = VERR;
    int nres = 0;
    if (!is_err(x))
        r = value_call(I, c->owner->fwd, as_tuple(x)->at, (int)as_tuple(x)->n);
    bool ok = pair_of(I, r, "the forward rule (first function of defvjp)") &&
              take(I, c, as_tuple(r)->at[0], c->nout, "the value", out) &&
              flatten_result(I, as_tuple(r)->at[1], &skeleton, out + c->nout, &nres);
    if (ok) {
        value_unref(c->residual);
        c->residual = skeleton;
        c->nres = nres;
        *nout = c->nout + nres;
    }
    value_unref(x);
    value_unref(r);
    return ok || rule_failed(I);
}

/* bwd gives one value for one argument, else a tuple: as the argument trees, or None for zero; nothing for those of nondiff_argnums. */
static bool spread_cotangents(Interp *I, CustomCall *c, Value r, Tensor **out)
{
    TupleObj *args = as_tuple(c->args);
    int64_t needed = args->n - __builtin_popcountll(c->owner->apart), given = 0;
    Value single = VERR;
    if (needed == 1 && !(r.tag == V_TUPLE && as_tuple(r)->n == 1))
        r = single = tuple_of(1, value_ref(r));
    bool ok = r.tag == V_TUPLE && as_tuple(r)->n == needed;
    if (!ok)
        raise(I, EXC_ValueError, "the backward rule gives one cotangent for each of the %lld arguments, as a tuple", (long long)needed);
    int at = 0;
    for (int64_t i = 0; ok && i < args->n; i++) {
        TensorVec leaf = {0};
        Value v = is_apart(c->owner, i) ? VNONE : as_tuple(r)->at[given++];
        ok = tree_leaves(I, args->at[i], TREE_ALL, &leaf);
        int n = leaf.n;
        vec_free(&leaf);
        if (ok && v.tag == V_NONE)
            for (int k = 0; k < n; k++)
                out[at + k] = or_zero(I, NULL, &c->type[at + k]);
        else
            ok = ok && take(I, c, v, n, "the cotangent", out + at);
        for (int k = 0; ok && k < n; k++) {
            TType t = tensor_type(out[at + k]);
            const TType *want = &c->type[at + k];
            if (!shape_is(out[at + k], want->rank, want->shape)) {
                StrBuf s = {0};
                put_shape(&s, t.rank, t.shape);
                sb_puts(&s, ", the argument ");
                put_shape(&s, want->rank, want->shape);
                raise(I, EXC_ShapeError, "the backward rule gives argument %lld a cotangent of shape %s", (long long)i, sb_str(&s));
                sb_done(&s);
                ok = false;
            } else if (t.dtype != want->dtype)
                ok = (out[at + k] = do_convert(I, out[at + k], (DType)want->dtype)) != NULL;
        }
        at += n;
    }
    value_unref(single);
    return ok;
}

static bool rule_bwd(Interp *I, CustomCall *c, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    int pos = 0;
    Value res = tree_rebuild(I, c->residual, TREE_ALL, in, &pos), ct = VERR, r = VERR;
    if (!is_err(res))
        ct = tree_around(I, c->result, in + c->nres, c->nout, c->type + c->n);
    if (!is_err(ct))
        r = call_rule(I, c, c->owner->bwd, res, ct);
    bool ok = !is_err(r) && spread_cotangents(I, c, r, out + c->ncaptures);
    for (int i = 0; ok && i < c->ncaptures; i++) {      /* captured tensors are not differentiated here */
        TType t = tensor_type(c->capture[i]);
        out[i] = or_zero(I, NULL, &t);
    }
    *nout = c->ncaptures + c->n;
    value_unref(res);
    value_unref(ct);
    value_unref(r);
    return ok || rule_failed(I);
}

bool custom_host_rule(void *host, void *object, int rule, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Interp *I = host;
    CustomCall *c = object;
    if (is_err(c->owner->fwd)) {
        raise(I, EXC_TypeError, "%s has no derivative rule: give it one with .%s", custom_name(c->owner),
              c->owner->forward ? "defjvp(rule)" : "defvjp(fwd, bwd)");
        return rule_failed(I);
    }
    Trace *T = trace_of(I);
    const Policy *numerics = T->numerics;
    int settled = T->settled;
    T->numerics = c->numerics && c->numerics->fast ? fast_numerics(NULL) : NULL;        /* a function of its own: types say what they say */
    T->settled = 0;
    bool ok = rule == 0 ? rule_jvp(I, c, in, nin, out, nout) : rule == 1 ? rule_fwd(I, c, in, nin, out, nout) : rule_bwd(I, c, in, nin, out, nout);
    T->numerics = numerics;
    T->settled = settled;
    return ok;
}

static Value make(Interp *I, Value f, bool forward, uint64_t apart);

/* ------------------------------------------------------------- calling the function */

static bool same_types(const CustomCall *c, const TensorVec *in)
{
    for (int i = 0; i < in->n; i++) {
        TType t = tensor_type(in->at[i]);
        if (t.dtype != c->type[i].dtype || t.rank != c->type[i].rank || memcmp(t.shape, c->type[i].shape, sizeof(Dim) * t.rank))
            return false;
    }
    return true;
}

static CustomCall *find(Interp *I, const Custom *owner, Value args, const TensorVec *in)
{
    for (CustomCall *c = all_calls; c; c = c->next)
        if (c->owner == owner && c->n == in->n && !c->ncaptures && c->numerics == trace_of(I)->numerics && same_types(c, in) &&
            tree_same(I, c->args, args) == 1)
            return c;
    return NULL;
}

/* A float of a surrounding derivative that is no argument would lose its share. */
static bool captures_allowed(Interp *I, const CustomCall *c)
{
    for (int i = 0; i < c->ncaptures; i++) {
        Tracer *t = c->capture[i]->tracer;
        if (t && (t->level->kind == TRACE_JVP || t->level->kind == TRACE_LIN) && t->tangent) {
            raise(I, EXC_TypeError, "a %s function reads a tensor that is being differentiated from outside; pass it as an argument",
                  custom_name(c->owner));
            return false;
        }
    }
    return true;
}

static void call_free(CustomCall *c)
{
    value_unref(vobj(c->owner));
    value_unref(c->args);
    value_unref(c->result);
    value_unref(c->residual);
    for (int i = 0; i < c->ncaptures; i++)
        tensor_unref(c->capture[i]);
    tsr_free(c->capture);
    tsr_free(c->type);
    graph_unref(c->graph);
    tsr_free(c);
}

void custom_done(void)
{
    while (all_calls) {
        CustomCall *c = all_calls;
        all_calls = c->next;
        call_free(c);
    }
}

/* Let go of calls that nobody can make and no graph contains. */
static void sweep(void)
{
    for (CustomCall **p = &all_calls; *p; ) {
        CustomCall *c = *p;
        if (c->owner->inst.obj.refs != c->owner->ncalls || c->graph->refs != 1) {
            p = &c->next;
            continue;
        }
        *p = c->next;
        c->owner->ncalls--;
        ncalls--;
        call_free(c);
    }
    sweep_at = 2 * ncalls + 64;
}

static CustomCall *build(Interp *I, Custom *owner, Value args, const TensorVec *in)
{
    HostFn h = {.I = I, .f = owner->f, .a = {as_tuple(args)->at, (int)as_tuple(args)->n}, .result = VERR};
    CustomCall *c = tsr_calloc(sizeof *c);
    TType *type = tsr_calloc(sizeof *type * (size_t)(in->n + 1));
    for (int i = 0; i < in->n; i++)
        type[i] = tensor_type(in->at[i]);
    *c = (CustomCall){.owner = owner, .args = tree_skeleton(I, args), .result = VERR, .residual = VERR, .n = in->n,
                      .numerics = trace_of(I)->numerics};
    owner->inst.obj.refs++;
    c->graph = stage(trace_of(I), sym(custom_name(owner)), host_fn(&h), type, in->n, &c->capture, &c->ncaptures);
    c->result = h.result;
    c->nout = h.nresult;
    c->type = type;
    if (!c->graph || !captures_allowed(I, c)) {
        if (!c->graph)
            raise_op_error(I);
        c->ncaptures = c->graph ? c->ncaptures : 0;
        if (!c->graph)
            c->capture = NULL;
        call_free(c);
        return NULL;
    }
    c->type = tsr_realloc(type, sizeof *type * (size_t)(in->n + c->nout + 1));
    for (int i = 0; i < c->nout; i++)
        c->type[in->n + i] = *gvalue_type(c->graph->results.at[i]);
    owner->ncalls++;
    if (++ncalls > sweep_at)
        sweep();
    c->next = all_calls;
    return all_calls = c;
}

static Value apply(Interp *I, CustomCall *c, const TensorVec *in)
{
    Trace *T = trace_of(I);
    int n = c->ncaptures + in->n, nout = 0;
    Tensor **x = tsr_calloc(sizeof *x * (size_t)(n + 1)), **out = tsr_calloc(sizeof *out * (size_t)(c->nout + 1));
    Attr a = attr_default();
    Value v = VERR;
    a.region[0] = c->graph;
    a.host = c;
    a.name = sym(custom_name(c->owner));
    if (c->ncaptures)
        memcpy(x, c->capture, sizeof *x * (size_t)c->ncaptures);
    if (in->n)
        memcpy(x + c->ncaptures, in->at, sizeof *x * (size_t)in->n);
    T->span = interp_span(I);
    if (op_apply(T, c->owner->forward ? OP_custom_jvp : OP_custom_vjp, &a, x, n, out, &nout))
        v = result_tree(I, c->result, out, nout);
    else
        raise_op_error(I);
    tsr_free(x);
    tsr_free(out);
    return v;
}

/* Arguments of nondiff_argnums are there, and no tensors: rules get them as they are. */
static bool apart_allowed(Interp *I, const Custom *k, const Value *args, int nargs)
{
    for (int i = 0; i < ARGS_MAX && k->apart >> i; i++) {
        TensorVec leaf = {0};
        if (!is_apart(k, i))
            continue;
        bool ok = i < nargs && tree_leaves(I, args[i], TREE_ALL, &leaf) && !leaf.n;
        int n = leaf.n;
        vec_free(&leaf);
        if (ok)
            continue;
        if (i >= nargs)
            raise(I, EXC_ValueError, "nondiff_argnums has %d, the call %d arguments by position", i, nargs);
        else if (n)
            raise(I, EXC_TypeError, "argument %d is one of nondiff_argnums and holds a tensor: pass it as another, "
                                    "and give None for its cotangent", i);
        return false;
    }
    return true;
}

static Value custom_call(Interp *I, void *self, Value *args, int nargs, Value *kwvals, Sym *kwnames, int nkw)
{
    Custom *k = self;
    if (is_err(k->f))
        return nargs == 1 && !nkw ? make(I, args[0], k->forward, k->apart)
                                  : raise(I, EXC_TypeError, "@%s(nondiff_argnums=...) is called with a function", custom_name(k));
    TensorVec in = {0};
    Value tuple = tuple_new(nargs), v = VERR;
    bool traced = false;
    for (int i = 0; i < nargs; i++)
        as_tuple(tuple)->at[i] = value_ref(args[i]);
    bool ok = tree_leaves(I, tuple, TREE_ALL, &in);
    for (int i = 0; i < in.n; i++)
        traced |= in.at[i]->tracer != NULL;
    if (ok && (!traced || nkw))
        v = value_call_kw(I, k->f, args, nargs, kwvals, kwnames, nkw);
    else if (ok && apart_allowed(I, k, args, nargs)) {
        CustomCall *c = find(I, k, tuple, &in);
        if (!c)
            c = build(I, k, tuple, &in);
        if (c)
            v = apply(I, c, &in);
    }
    vec_free(&in);
    value_unref(tuple);
    return v;
}

/* ------------------------------------------------------------- making them */

static void custom_free(void *self)
{
    Custom *c = self;
    value_unref(c->f);
    value_unref(c->fwd);
    value_unref(c->bwd);
}

static Value custom_getattr(Interp *I, void *self, Sym name)
{
    Custom *c = self;
    if (name->text[0] == '_')
        return value_getattr_opt(I, c->f, name);
    return VERR;
}

static const NativeType vjp_type = {.name = "custom_vjp", .free = custom_free, .call = custom_call, .getattr = custom_getattr, .binds = true};
static const NativeType jvp_type = {.name = "custom_jvp", .free = custom_free, .call = custom_call, .getattr = custom_getattr, .binds = true};

Value custom_function(Value v)
{
    const NativeType *t = v.tag == V_NATIVEOBJ ? ((NativeInst *)v.o)->type : NULL;

    return t && (t == &vjp_type || t == &jvp_type) ? ((Custom *)v.o)->f : VERR;
}

static Value make(Interp *I, Value f, bool forward, uint64_t apart)
{
    if (is_given(f) && !value_is_callable(f))
        return raise(I, EXC_TypeError, "%s takes a function, not %s", forward ? "custom_jvp" : "custom_vjp", value_type_name(f));
    Custom *c = nativeobj_new(forward ? &jvp_type : &vjp_type, sizeof *c);
    c->forward = forward;
    c->f = is_given(f) ? value_ref(f) : VERR;
    c->apart = apart;
    return vobj(c);
}

static Value made(Interp *I, Value *a, bool forward)    /* f, nondiff_argnums */
{
    int64_t at[ARGS_MAX];
    uint64_t apart = 0;
    int n = 0;
    if (is_given(a[1]) && !arg_int_list(I, a[1], at, ARGS_MAX, &n, "nondiff_argnums"))
        return VERR;
    for (int i = 0; i < n; i++) {
        if (at[i] < 0 || at[i] >= ARGS_MAX)
            return raise(I, EXC_ValueError, "nondiff_argnums counts the arguments from 0, not %lld", (long long)at[i]);
        apart |= (uint64_t)1 << at[i];
    }
    return make(I, a[0], forward, apart);
}

static Value f_custom_vjp(Interp *I, Value *a) { return made(I, a, false); }
static Value f_custom_jvp(Interp *I, Value *a) { return made(I, a, true); }

static Value m_defvjp(Interp *I, Value *a)
{
    Custom *c = as_custom(a[0]);
    value_unref(c->fwd);
    value_unref(c->bwd);
    c->fwd = value_ref(a[1]);
    c->bwd = value_ref(a[2]);
    return value_ref(a[0]);
}

static Value m_defjvp(Interp *I, Value *a)
{
    Custom *c = as_custom(a[0]);
    value_unref(c->fwd);
    c->fwd = value_ref(a[1]);
    return value_ref(a[1]);
}

const NativeDef tensor_custom_natives[] = {
    {"", "custom_vjp", f_custom_vjp, "(f: Callable | None = None, nondiff_argnums: int | tuple | list | None = None) -> custom_vjp",
     "f with a reverse rule of its own: f.defvjp(fwd, bwd), where fwd(*args) gives (result, residuals) and bwd(residuals, cotangent) the cotangents of the arguments. "
     "Arguments of nondiff_argnums are no tensors: bwd gets them in front, and gives nothing for them."},
    {"", "custom_jvp", f_custom_jvp, "(f: Callable | None = None, nondiff_argnums: int | tuple | list | None = None) -> custom_jvp",
     "f with a forward rule of its own: f.defjvp(rule), where rule(primals, tangents) gives (result, tangent). grad uses it too. Arguments of nondiff_argnums are no tensors: "
     "the rule gets them in front, and neither primals nor tangents have them."},
    {"custom_vjp", "defvjp", m_defvjp, "(self, fwd: Callable, bwd: Callable) -> custom_vjp", "Sets the rule."},
    {"custom_jvp", "defjvp", m_defjvp, "(self, rule: Callable) -> Callable", "Sets the rule."},
    {0},
};
