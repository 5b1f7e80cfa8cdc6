/*
 * batch.c - vmap: a function of one example becomes a function of a batch.
 *
 * in_dims says for each argument which axis counts the examples: an int, None for
 * an argument shared by all, or a tree of these matching the argument.
 */
#include "frontend/tensor/transform.h"

#include "ir/graph/trace.h"

#include <limits.h>
#include <string.h>

typedef Vec(int) AxisVec;

/* A list of keys is an axis of them: one key with all their data. Else v; V_ERR: pending. */
static Value keys_as_axis(Interp *I, Value v)
{
    const Value *x = v.tag == V_LIST ? as_list(v)->at : v.tag == V_TUPLE ? as_tuple(v)->at : NULL;
    int64_t n = x ? value_len(I, v) : 0;
    for (int64_t i = 0; i < n; i++)
        if (random_key_data(x[i]).tag != V_TENSOR)
            return value_ref(v);
    if (!n)
        return value_ref(v);
    Value all = list_new(n);
    for (int64_t i = 0; i < n; i++)
        list_push(as_list(all), value_ref(random_key_data(x[i])));
    Tensor *t = arg_tensor(I, all, "a list of keys");
    value_unref(all);
    return t ? random_key_of(tensor_value(t)) : VERR;
}

static bool spread_axes(Interp *I, Value v, Value spec, AxisVec *out);

static bool spread_dict(Interp *I, DictObj *v, DictObj *spec, AxisVec *out)
{
    int64_t pos = 0;
    Value key, val;
    while (v && dict_next(v, &pos, &key, &val)) {
        Value s = spec ? dict_get(I, spec, key) : VERR;
        if (!spread_axes(I, val, is_err(s) ? VNONE : s, out))
            return false;
    }
    return true;
}

/* One axis for each tensor of v, by its spec; INT_MIN: shared. */
static bool spread_axes(Interp *I, Value v, Value spec, AxisVec *out)
{
    Value data = random_key_data(v);
    if (spec.tag == V_INT && data.tag == V_TENSOR) {
        vec_push(out, as_tensor(data)->rank > 1 ? 0 : INT_MIN);
        return true;
    }
    if (spec.tag == V_NONE || spec.tag == V_INT) {
        TensorVec leaf = {0};
        bool ok = tree_leaves(I, v, TREE_ALL, &leaf);
        for (int i = 0; ok && i < leaf.n; i++) {
            int64_t k = spec.tag == V_INT ? spec.i : 0, r = leaf.at[i]->rank;
            if (spec.tag == V_INT && (k < -r || k >= r)) {
                raise(I, EXC_ShapeError, "vmap: dimension %lld of an argument with %lld axes", (long long)k, (long long)r);
                ok = false;
            } else
                vec_push(out, spec.tag == V_NONE ? INT_MIN : (int)(k < 0 ? k + r : k));
        }
        vec_free(&leaf);
        return ok;
    }
    bool alike = spec.tag == V_INSTANCE && v.tag == V_INSTANCE && ((InstanceObj *)spec.o)->cls == ((InstanceObj *)v.o)->cls;
    if (alike && is_err(((InstanceObj *)v.o)->base))
        return spread_dict(I, ((InstanceObj *)v.o)->attrs, ((InstanceObj *)spec.o)->attrs, out);
    spec = unwrap_base(spec);                           /* of a named tuple */
    v = unwrap_base(v);
    bool list = (spec.tag == V_TUPLE || spec.tag == V_LIST) && (v.tag == V_TUPLE || v.tag == V_LIST);
    if (list && value_len(I, spec) == value_len(I, v)) {
        const Value *s = spec.tag == V_TUPLE ? as_tuple(spec)->at : as_list(spec)->at, *x = v.tag == V_TUPLE ? as_tuple(v)->at : as_list(v)->at;
        bool ok = true;
        for (int64_t i = 0, n = value_len(I, v); ok && i < n; i++)
            ok = spread_axes(I, x[i], s[i], out);
        return ok;
    }
    if (spec.tag == V_DICT && v.tag == V_DICT)
        return spread_dict(I, as_dict(v), as_dict(spec), out);
    raise(I, EXC_TypeError, "vmap: in_dims must be an int, None, or have the tree of the argument");
    return false;
}

static bool call_axes(Interp *I, Value in_dims, const CallArgs *c, AxisVec *out)
{
    bool each = in_dims.tag == V_TUPLE || in_dims.tag == V_LIST;
    int64_t n = each ? value_len(I, in_dims) : 0;
    if (each && n != c->n) {
        raise(I, EXC_ValueError, "vmap: in_dims has %lld entries, the call %d arguments", (long long)n, c->n);
        return false;
    }
    for (int i = 0; i < c->n; i++) {
        Value spec = !each ? in_dims : in_dims.tag == V_TUPLE ? as_tuple(in_dims)->at[i] : as_list(in_dims)->at[i];
        if (!spread_axes(I, c->args[i], spec, out))
            return false;
    }
    return true;
}

static bool check_sizes(Interp *I, const TensorVec *in, const AxisVec *axis)
{
    Dim size = DIM_BAD;
    for (int i = 0; i < in->n; i++) {
        if (axis->at[i] == INT_MIN)
            continue;
        Dim d = in->at[i]->shape[axis->at[i]];
        if (size != DIM_BAD && !dim_same(d, size)) {
            raise(I, EXC_ShapeError, "vmap: the mapped axes have sizes %s and %s", dim_text(size), dim_text(d));
            return false;
        }
        size = d;
    }
    if (size == DIM_BAD)
        raise(I, EXC_ValueError, "vmap: no argument is mapped");
    return size != DIM_BAD;
}

/* Axis 0 of a tensor at the place that spec says: None takes its first element, as all are the same. NULL: an error is pending. */
static Tensor *place_axis(Interp *I, Tensor *t, Value spec)
{
    int perm[RANK_MAX], r = t->rank, to, n = 0;

    if (spec.tag == V_NONE) {
        Value first = tensor_op_getitem(I, tensor_value(tensor_ref(t)), vint(0));
        Tensor *x = is_err(first) ? NULL : tensor_ref(as_tensor(first));
        value_unref(first);
        return x;
    }
    if (!arg_axis(I, spec, r, &to))
        return NULL;
    to += r;
    for (int k = 1; n < r; ) {
        if (n == to)
            perm[n++] = 0;
        else
            perm[n++] = k++;
    }
    return do_permute(I, tensor_ref(t), perm);
}

/* All tensors of v by one spec. */
static Value place_leaves(Interp *I, Value v, Value spec)
{
    TensorVec leaf = {0};
    Tensor **moved;
    Value out;
    bool ok = true;
    int pos = 0;

    if (!tree_leaves(I, v, TREE_ALL, &leaf))
        return VERR;
    moved = tsr_calloc(sizeof *moved * (size_t)(leaf.n + 1));
    for (int i = 0; ok && i < leaf.n; i++)
        ok = (moved[i] = place_axis(I, leaf.at[i], spec)) != NULL;
    out = ok ? tree_rebuild(I, v, TREE_ALL, moved, &pos) : VERR;
    for (int i = 0; i < leaf.n; i++)
        tensor_unref(moved[i]);
    tsr_free(moved);
    vec_free(&leaf);
    return out;
}

/* The batch axis, now in front, goes where out_dims says. */
static Value place_axes(Interp *I, Value v, Value spec)
{
    if (v.tag == V_INSTANCE && unwrap_base(v).tag == V_TUPLE && unwrap_base(spec).tag == V_TUPLE) {     /* a named tuple */
        Value parts = place_axes(I, unwrap_base(v), unwrap_base(spec)), copy = is_err(parts) ? VERR : instance_new(((InstanceObj *)v.o)->cls);
        if (!is_err(parts))
            ((InstanceObj *)copy.o)->base = parts;
        return copy;
    }
    if (spec.tag == V_TUPLE && v.tag == V_TUPLE && as_tuple(spec)->n == as_tuple(v)->n) {
        Value out = tuple_new(as_tuple(v)->n);
        for (int64_t i = 0; i < as_tuple(v)->n; i++)
            if (is_err(as_tuple(out)->at[i] = place_axes(I, as_tuple(v)->at[i], as_tuple(spec)->at[i]))) {
                value_unref(out);
                return VERR;
            }
        return out;
    }
    if (spec.tag == V_INT && spec.i == 0)
        return value_ref(v);
    return place_leaves(I, v, spec);
}

enum { OPT_IN, OPT_OUT };

static Value run_vmap(Interp *I, Transform *t, const CallArgs *c)
{
    bool *moving = tsr_calloc((size_t)(c->n + c->nkw) + 1);
    Tensor **out = tsr_calloc(sizeof *out * MAX_RESULTS);
    int *out_axis = tsr_calloc(sizeof *out_axis * MAX_RESULTS), nout = 0;
    HostFn h = {.I = I, .f = t->f, .a = *c, .moving = moving, .result = VERR};
    TensorVec in = {0};
    AxisVec axis = {0};
    Value v = VERR;
    for (int i = 0; i < c->n; i++)
        moving[i] = true;
    if (call_axes(I, t->opt[OPT_IN], c, &axis) && host_fn_leaves(&h, &in) && check_sizes(I, &in, &axis)) {
        if (trace_vmap(trace_of(I), host_fn(&h), in.at, axis.at, in.n, out_axis, out, &nout))
            v = result_tree(I, h.result, out, nout);
        else
            raise_op_error(I);
    }
    if (!is_err(v)) {
        Value placed = place_axes(I, v, t->opt[OPT_OUT]);
        value_unref(v);
        v = placed;
    }
    host_fn_done(&h);
    vec_free(&in);
    vec_free(&axis);
    tsr_free(moving);
    tsr_free(out);
    tsr_free(out_axis);
    return v;
}

static Value call_vmap(Interp *I, Transform *t, const CallArgs *c)
{
    Value *args = tsr_calloc(sizeof *args * (size_t)(c->n + 1)), in_dims = t->opt[OPT_IN], r = VERR;
    CallArgs with = *c;
    bool ok = true;
    int n = 0;
    for (; ok && n < c->n; n++) {
        bool each = in_dims.tag == V_TUPLE || in_dims.tag == V_LIST;
        Value spec = in_dims;
        if (each)
            spec = n >= value_len(I, in_dims) ? VNONE : in_dims.tag == V_TUPLE ? as_tuple(in_dims)->at[n] : as_list(in_dims)->at[n];
        args[n] = spec.tag == V_INT ? keys_as_axis(I, c->args[n]) : value_ref(c->args[n]);
        ok = !is_err(args[n]);
    }
    with.args = args;
    if (ok)
        r = run_vmap(I, t, &with);
    while (n--)
        value_unref(args[n]);
    tsr_free(args);
    return r;
}

static bool named(Value v) { return v.tag != V_ERR && v.tag != V_ELLIPSIS; }     /* None is meaningful here */

static Value f_vmap(Interp *I, Value *a)                /* f, in_dims, out_dims, in_axes, out_axes */
{
    Value opt[2] = {named(a[3]) ? a[3] : a[1], named(a[4]) ? a[4] : a[2]};
    if (is_given(a[0]) && !value_is_callable(a[0]))
        return raise(I, EXC_TypeError, "vmap takes a function, not %s", value_type_name(a[0]));
    return transform_new("vmap", call_vmap, is_given(a[0]) ? a[0] : VERR, opt, 2);
}

/* Through the levels of derivatives: is the value below one for each example of a batch? */
static Value f_is_batched(Interp *I, Value *a)
{
    const Tensor *t = a[0].tag == V_TENSOR ? as_tensor(a[0]) : NULL;

    for (; t && t->tracer; t = t->tracer->primal)
        if (t->tracer->level->kind == TRACE_BATCH && t->tracer->batched)
            return vbool(true);
    return vbool(false);
}

const NativeDef tensor_batch_natives[] = {
    {"", "vmap", f_vmap, "(f: Callable | None = None, /, in_dims=0, out_dims=0, *, in_axes=..., out_axes=...) -> Callable",
     "f applied to every example of a batch at once. in_dims: the axis of each argument that counts examples (an int for all arguments, "
     "or a tuple; None: shared by all); out_dims: where that axis goes in the results. Random numbers differ between examples."},
    {"_core", "is_batched", f_is_batched, "(x) -> bool", "Does x have a value for each example of a vmap around?"},
    {0},
};
