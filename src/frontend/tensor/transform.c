/*
 * transform.c - what all transformations share: calling language functions on
 * rebuilt trees, and the callable objects that jit, grad, vmap ... give.
 */
#include "frontend/tensor/transform.h"

#include "ir/graph/trace.h"

#include <string.h>

/* ------------------------------------------------------------- calling the function */

static Value arg_at(const HostFn *h, int i) { return i < h->a.n ? h->a.args[i] : h->a.kwvals[i - h->a.n]; }
static bool moves(const HostFn *h, int i) { return !h->moving || h->moving[i]; }

bool host_fn_leaves(HostFn *h, TensorVec *out)
{
    for (int i = 0; i < h->a.n + h->a.nkw; i++) {
        TensorVec one = {0};
        bool ok = !moves(h, i) || tree_leaves(h->I, arg_at(h, i), h->mode, &one);
        for (int k = 0; ok && k < one.n; k++)
            if (!h->skip_ints || dtype_is_inexact((DType)one.at[k]->dtype))
                vec_push(out, one.at[k]);
        vec_free(&one);
        if (!ok)
            return false;
    }
    return true;
}

/* Are derivatives by this tensor f32, whatever it is itself? */
static bool goes_wide(const Tensor *t)
{
    return t->policy && (t->policy->has_scale || t->policy->master) && dtype_is_float((DType)t->dtype) && dtype_info[t->dtype].bits < 32;
}

bool host_fn_wide(Interp *I, TensorVec *leaf, TensorVec *made)
{
    for (int i = 0; i < leaf->n; i++) {
        Tensor *t = leaf->at[i];
        if (!goes_wide(t))
            continue;
        if (!(t = do_convert(I, tensor_ref(t), DT_f32)))
            return false;
        vec_push(made, t);
        leaf->at[i] = t;
    }
    return true;
}

void tensor_vec_free(TensorVec *v)
{
    for (int i = 0; i < v->n; i++)
        tensor_unref(v->at[i]);
    vec_free(v);
}

/* What came wide is what it was again. */
static bool narrow_again(Interp *I, Tensor **t, const Tensor *was, TensorVec *made)
{
    if (!goes_wide(was))
        return true;
    *t = do_declare(I, tensor_ref(*t), (DType)was->dtype, was->policy);
    if (*t)
        vec_push(made, *t);
    return *t != NULL;
}

/* The tree of argument v around the next tensors of in. */
static Value rebuild(HostFn *h, Value v, Tensor *const *in, int *pos)
{
    if (!h->skip_ints && !h->derived)
        return tree_rebuild(h->I, v, h->mode, in, pos);
    TensorVec old = {0}, made = {0};                    /* ints among the leaves keep their place */
    if (!tree_leaves(h->I, v, h->mode, &old))
        return VERR;
    int zero = 0;
    bool ok = true;
    for (int i = 0; ok && i < old.n; i++)
        if (!h->skip_ints || dtype_is_inexact((DType)old.at[i]->dtype)) {
            const Tensor *was = old.at[i];
            old.at[i] = in[(*pos)++];
            ok = !h->derived || narrow_again(h->I, &old.at[i], was, &made);
        }
    Value r = ok ? tree_rebuild(h->I, v, h->mode, old.at, &zero) : VERR;
    vec_free(&old);
    tensor_vec_free(&made);
    return r;
}

/* Results leave loss-scaled types: their cotangents come unscaled. */
static bool leave_scales(Interp *I, Tensor **out, int n)
{
    for (int i = 0; i < n; i++)
        if (out[i]->policy && out[i]->policy->has_scale) {
            Policy p = *out[i]->policy;
            p.has_scale = false, p.scale = 0;
            Tensor *t = do_declare(I, tensor_ref(out[i]), (DType)out[i]->dtype, policy_intern(p));
            if (!t)
                return false;
            tensor_unref(out[i]);
            out[i] = t;
        }
    return true;
}

/* Consumes lifted: v without numbers. */
static bool flatten(Interp *I, Value lifted, Value *skeleton, Tensor **out, int *nout)
{
    TensorVec leaf = {0};
    *nout = 0;
    bool ok = !is_err(lifted) && tree_leaves(I, lifted, TREE_ALL, &leaf);
    if (ok && leaf.n > MAX_RESULTS) {
        raise(I, EXC_ValueError, "a transformed function gives at most %d tensors, this one %d", MAX_RESULTS, leaf.n);
        ok = false;
    }
    if (ok) {
        for (int i = 0; i < leaf.n; i++)
            out[i] = tensor_ref(leaf.at[i]);
        *nout = leaf.n;
        *skeleton = tree_skeleton(I, lifted);
        ok = !is_err(*skeleton);
    }
    vec_free(&leaf);
    value_unref(lifted);
    return ok;
}

bool flatten_result(Interp *I, Value v, Value *skeleton, Tensor **out, int *nout)
{
    return flatten(I, tree_lift_numbers(I, v), skeleton, out, nout);
}

bool flatten_weak(Interp *I, Value v, Value *skeleton, Tensor **out, int *nout)
{
    return flatten(I, tree_lift_weak(I, v), skeleton, out, nout);
}

/* ------------------------------------------------------------- buffers */

static void buffers_of(const Value *v, const bool *moving, int n, PlaceVec *out)
{
    for (int i = 0; i < n; i++)
        if (!moving || moving[i])
            tree_buffers(v[i], out);
}

/* What buffers hold before the call, with references. */
static void note_buffers(HostFn *h, const Value *args, TensorVec *was)
{
    PlaceVec at = {0};
    buffers_of(args, h->moving, h->a.n + h->a.nkw, &at);
    for (int i = 0; i < at.n; i++)
        vec_push(was, tensor_ref(as_tensor(at.at[i].val)));
    vec_free(&at);
}

/* Those that changed follow the results. */
static void add_buffers(HostFn *h, const Value *args, const TensorVec *was, Tensor **out, int *nout)
{
    PlaceVec at = {0};
    buffers_of(args, h->moving, h->a.n + h->a.nkw, &at);
    tsr_free(h->kept);
    h->kept = tsr_calloc(sizeof *h->kept * (size_t)(at.n + 1));
    h->nkept = 0;
    for (int i = 0; at.n == was->n && i < at.n && *nout < MAX_RESULTS; i++)
        if (as_tensor(at.at[i].val) != was->at[i]) {
            out[(*nout)++] = tensor_ref(as_tensor(at.at[i].val));
            h->kept[h->nkept++] = i;
        }
    vec_free(&at);
}

static bool many(const Tensor *t)
{
    const Tracer *r = t->tracer;
    return r && r->level->kind == TRACE_BATCH && r->batched;
}

bool buffers_keep(Interp *I, const CallArgs *given, const bool *moving, const int *kept, int nkept, Tensor *const *value)
{
    PlaceVec at = {0};
    bool ok = true;
    if (nkept) {
        buffers_of(given->args, moving, given->n, &at);
        buffers_of(given->kwvals, moving ? moving + given->n : NULL, given->nkw, &at);
    }
    for (int k = 0; ok && k < nkept; k++) {
        const TreePlace *p = &at.at[kept[k]];
        if (many(value[k]) && !as_tensor(p->val)->tracer)               /* one for each element of a batch: no Module can hold them */
            continue;
        Value v = tensor_value(tensor_ref(value[k]));
        ok = value_setattr(I, vobj(p->owner), sym_n(as_str(p->key)->s, as_str(p->key)->len), v);
        value_unref(v);
    }
    vec_free(&at);
    return ok;
}

static bool host_call(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    HostFn *h = self;
    Interp *I = h->I;
    Trace *T = trace_of(I);
    int total = h->a.n + h->a.nkw, pos = h->key_first, made = 0;
    Value *args = tsr_alloc(sizeof *args * (size_t)(total + 1));
    Tensor *key = T->key;
    uint64_t draws = T->draws;
    Value skeleton = VERR;
    bool ok = true;

    for (; ok && made < total; made++) {
        args[made] = moves(h, made) ? rebuild(h, arg_at(h, made), in, &pos) : value_ref(arg_at(h, made));
        ok = !is_err(args[made]);
    }
    TensorVec was = {0};
    if (ok && h->keeps)
        note_buffers(h, args, &was);
    if (h->key_first)
        T->key = tensor_ref(in[0]), T->draws = 0;
    Value r = ok ? value_call_kw(I, h->f, args, h->a.n, args + h->a.n, h->a.kwnames, h->a.nkw) : VERR;
    if (h->key_first) {
        tensor_unref(T->key);
        T->key = key, T->draws = draws;
    }
    ok = !is_err(r) && flatten_result(I, r, &skeleton, out, nout);
    if (ok && h->derived && !leave_scales(I, out, *nout)) {
        for (int i = 0; i < *nout; i++)
            tensor_unref(out[i]);
        value_unref(skeleton);
        ok = false;
    }
    value_unref(r);
    if (ok) {
        value_unref(h->result);
        h->result = skeleton;
        h->nresult = *nout;
        if (h->keeps)
            add_buffers(h, args, &was, out, nout);
    }
    tensor_vec_free(&was);
    for (int i = 0; i < made; i++)
        value_unref(args[i]);
    tsr_free(args);
    if (!ok)
        T->error = OPERR_HOST;
    return ok;
}

TensorFn host_fn(HostFn *h) { return (TensorFn){.call = host_call, .self = h, .max_out = MAX_RESULTS}; }

void host_fn_done(HostFn *h)
{
    value_unref(h->result);
    tsr_free(h->kept);
}

Value result_tree(Interp *I, Value skeleton, Tensor **out, int n)
{
    int pos = 0;
    Value r = tree_rebuild(I, skeleton, TREE_ALL, out, &pos);
    for (int i = 0; i < n; i++)
        tensor_unref(out[i]);
    return r;
}

/* ------------------------------------------------------------- transformed functions as objects */

static void t_free(void *self)
{
    Transform *t = self;
    value_unref(t->f);
    for (int i = 0; i < TRANSFORM_OPTIONS; i++)
        value_unref(t->opt[i]);
    if (t->state_free)
        t->state_free(t->state);
}

static void t_visit(void *self, void (*fn)(Value *v, void *st), void *st)
{
    Transform *t = self;
    fn(&t->f, st);
    for (int i = 0; i < TRANSFORM_OPTIONS; i++)
        fn(&t->opt[i], st);
    if (t->state && t->state_visit)
        t->state_visit(t->state, fn, st);
}

static Value t_call(Interp *I, void *self, Value *args, int nargs, Value *kwvals, Sym *kwnames, int nkw)
{
    Transform *t = self;
    if (is_err(t->f)) {                                 /* @grad(argnums=1) meets its function */
        if (nargs != 1 || nkw || !value_is_callable(args[0]))
            return raise(I, EXC_TypeError, "%s(...) decorates one function", t->name);
        return transform_new(t->name, t->call, args[0], t->opt, TRANSFORM_OPTIONS);
    }
    if (!interp_enter(I))
        return VERR;
    Value r = t->call(I, t, &(CallArgs){args, nargs, kwvals, kwnames, nkw});
    interp_leave(I);
    return r;
}

/* What a transformed function does not say itself, its function says. */
static Value t_getattr(Interp *I, void *self, Sym name)
{
    Transform *t = self;
    if (native_find(t->inst.type->name, name->text))    /* a method of its own */
        return VERR;
    if (!strcmp(name->text, "__wrapped__") && !is_err(t->f))
        return value_ref(t->f);
    return is_err(t->f) ? VERR : value_getattr_opt(I, t->f, name);
}

static void t_repr(Interp *I, void *self, StrBuf *out)
{
    Transform *t = self;
    sb_printf(out, "<%s of ", t->name);
    if (is_err(t->f) || !value_repr_to(I, t->f, out)) {
        exc_clear(I);
        sb_puts(out, "a function");
    }
    sb_putc(out, '>');
}

const NativeType staged_type = {.name = "tessera.function", .free = t_free, .visit = t_visit, .call = t_call, .getattr = t_getattr,
                                .repr = t_repr, .binds = true};
static const NativeType transform_type = {.name = "tessera.transform", .free = t_free, .visit = t_visit, .call = t_call, .getattr = t_getattr,
                                          .repr = t_repr, .binds = true};

Transform *transform_of(Value v)
{
    bool is = v.tag == V_NATIVEOBJ && (((NativeInst *)v.o)->type == &transform_type || ((NativeInst *)v.o)->type == &staged_type);
    return is ? (Transform *)v.o : NULL;
}

Value transform_new(const char *name, TransformCall call, Value f, const Value *opt, int nopt)
{
    bool staged = !strcmp(name, "jit") || !strcmp(name, "function") || !strcmp(name, "compile") || !strcmp(name, "export");
    Transform *t = nativeobj_new(staged ? &staged_type : &transform_type, sizeof *t);
    t->name = name;
    t->call = call;
    t->f = value_ref(f);
    for (int i = 0; i < nopt; i++)
        t->opt[i] = value_ref(opt[i]);
    return vobj(t);
}
