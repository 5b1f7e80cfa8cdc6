/*
 * control.c - scan, while_loop, cond and fold as functions.
 *
 * A loop whose condition is visible (no jit or vmap around it) runs as it
 * would in Python, and is differentiated through; otherwise it becomes an op.
 */
#include "frontend/tensor/transform.h"
#include "frontend/tensor/watch.h"

#include "frontend/eval/code.h"

#include <string.h>

/* ------------------------------------------------------------- a body over flat lists */

/* A function of one or two trees: body(carry, x) of scan, body(*state) of while. */
typedef struct Body {
    Interp *I;
    Value f, carry, x;          /* skeletons; x V_ERR: none */
    int ncarry;
    bool star;                  /* carry is a tuple whose elements are the arguments */
    bool condition;             /* gives one bool */
    bool pair;                  /* gives (carry, y) */
    Value y;                    /* skeleton of y, owned */
    int ny;
} Body;

static Value call_body(Body *b, Tensor *const *in)
{
    Interp *I = b->I;
    int pos = 0;
    Value c = tree_rebuild(I, b->carry, TREE_ALL, in, &pos), x = VERR, r = VERR;
    if (is_err(c))
        return VERR;
    if (b->star) {
        r = value_call(I, b->f, as_tuple(c)->at, (int)as_tuple(c)->n);
    } else {
        x = is_err(b->x) ? VNONE : tree_rebuild(I, b->x, TREE_ALL, in, &pos);
        if (!is_err(x))
            r = value_call(I, b->f, (Value[]){c, x}, 2);
    }
    value_unref(c);
    value_unref(x);
    return r;
}

static bool same_carry(Interp *I, const Tensor *was, const Tensor *now, int i)
{
    TType a = tensor_type(was), b = tensor_type(now);
    StrBuf s = {0};
    if (a.dtype == b.dtype && shape_is(now, a.rank, a.shape))
        return true;
    ttype_print(&a, &s);
    sb_puts(&s, " and comes back as ");
    ttype_print(&b, &s);
    raise(I, a.dtype != b.dtype ? EXC_DTypeError : EXC_ShapeError, "the state of a loop keeps its type; tensor %d of it starts as %s", i, sb_str(&s));
    sb_done(&s);
    return false;
}

static void drop_results(Tensor **out, int *nout)
{
    for (int i = 0; i < *nout; i++)
        tensor_unref(out[i]);
    *nout = 0;
}

/* A carry must come back with the tree and the types it had; a lone state may come back bare. false: out has nothing. */
static bool carry_out(Body *b, Value v, Tensor *const *in, Tensor **out, int *nout)
{
    Interp *I = b->I;
    Value wrapped = VERR, skeleton = VERR;
    if (b->star && v.tag != V_TUPLE && as_tuple(b->carry)->n == 1)
        wrapped = tuple_of(1, value_ref(v));
    else if (b->star && v.tag == V_LIST)
        wrapped = value_ref(v);
    bool ok = flatten_result(I, is_err(wrapped) ? v : wrapped, &skeleton, out, nout);
    value_unref(wrapped);
    if (ok && *nout != b->ncarry) {
        raise(I, EXC_ValueError, "the body gives a state of %d tensors, it got one of %d", *nout, b->ncarry);
        ok = false;
    }
    for (int i = 0; ok && i < b->ncarry; i++)
        ok = same_carry(I, in[i], out[i], i);
    if (!ok)
        drop_results(out, nout);
    value_unref(skeleton);
    return ok;
}

static bool body_call(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Body *b = self;
    Interp *I = b->I;
    Value r = call_body(b, in), skeleton = VERR;
    bool ok = !is_err(r);
    if (ok && b->condition) {
        Value lifted = tree_lift_numbers(I, r);
        ok = lifted.tag == V_TENSOR;
        if (ok)
            out[0] = do_convert(I, tensor_ref(as_tensor(lifted)), DT_bool), *nout = 1, ok = out[0] != NULL;
        else if (!exc_pending(I))
            raise(I, EXC_TypeError, "a loop's condition gives one bool, not %s", value_type_name(r));
        value_unref(lifted);
    } else if (ok && b->pair) {
        int nc = 0, ny = 0;
        ok = r.tag == V_TUPLE && as_tuple(r)->n == 2;
        if (!ok)
            raise(I, EXC_TypeError, "the function of a scan gives a pair (carry, output), not %s", value_type_name(r));
        ok = ok && carry_out(b, as_tuple(r)->at[0], in, out, &nc) && flatten_result(I, as_tuple(r)->at[1], &skeleton, out + nc, &ny);
        if (ok) {
            value_unref(b->y);
            b->y = skeleton;
            b->ny = ny;
            *nout = nc + ny;
        } else {
            drop_results(out, &nc);
        }
    } else if (ok)
        ok = carry_out(b, r, in, out, nout);
    value_unref(r);
    if (!ok)
        trace_of(I)->error = OPERR_HOST;
    return ok;
}

static TensorFn body_fn(Body *b) { return (TensorFn){.call = body_call, .self = b, .max_out = b->pair ? 2 * MAX_RESULTS : MAX_RESULTS}; }

/* ------------------------------------------------------------- scan */

static Value scan_from(Interp *I, Value f, Value start, Value xs, bool reverse)
{
    Value v = VERR;
    TensorVec carry = {0}, x = {0};
    Tensor **out = tsr_calloc(sizeof *out * 2 * MAX_RESULTS);
    int nout = 0;
    Body b = {.I = I, .f = f, .carry = start, .x = xs, .pair = true, .y = VERR};
    bool ok = !is_err(start) && tree_leaves(I, start, TREE_ALL, &carry) && tree_leaves(I, xs, TREE_ALL, &x);
    b.ncarry = carry.n;
    for (int i = 0; ok && i < x.n; i++)
        if (!x.at[i]->rank || !dim_same(x.at[i]->shape[0], x.at[0]->shape[0])) {
            raise(I, EXC_ShapeError, "scan: the inputs need a first axis of one length");
            ok = false;
        }
    if (ok && !x.n) {
        raise(I, EXC_ValueError, "scan needs tensors to run over");
        ok = false;
    }
    if (ok && !trace_scan(trace_of(I), body_fn(&b), carry.at, carry.n, x.at, x.n, reverse, out, &nout)) {
        raise_op_error(I);
        ok = false;
    }
    if (ok) {
        Value last = result_tree(I, start, out, carry.n), ys = result_tree(I, b.y, out + carry.n, nout - carry.n);
        v = is_err(last) || is_err(ys) ? VERR : tuple_of(2, value_ref(last), value_ref(ys));
        value_unref(last);
        value_unref(ys);
    }
    value_unref(b.y);
    vec_free(&carry);
    vec_free(&x);
    tsr_free(out);
    return v;
}

/* A carry that starts as a Python int may turn out to be a float: then it starts as one. */
static Value run_scan(Interp *I, Value f, Value init, Value xs, bool reverse)
{
    Value start = tree_lift_numbers(I, init), v = is_err(start) ? VERR : scan_from(I, f, start, xs, reverse);
    if (is_err(v) && exc_matches(I, EXC_DTypeError) && tree_same(I, init, start) == 0) {
        Value first = exc_take(I), floats = tree_lift_numbers_as(I, init, DT_f32);
        v = is_err(floats) ? VERR : scan_from(I, f, floats, xs, reverse);
        if (is_err(v)) {
            exc_clear(I);
            raise_value(I, first);
        }
        value_unref(first);
        value_unref(floats);
    }
    value_unref(start);
    return v;
}

static Value call_scan(Interp *I, Transform *t, const CallArgs *c)
{
    if (c->n != 2 || c->nkw)
        return raise(I, EXC_TypeError, "a scanned function is called with the initial carry and the inputs");
    return run_scan(I, t->f, c->args[0], c->args[1], t->opt[0].tag == V_BOOL && t->opt[0].i);
}

static Value f_scan(Interp *I, Value *a)                /* f, init, xs, reverse, length */
{
    bool reverse;
    if (!arg_bool(I, a[3], &reverse))
        return VERR;
    if (is_err(a[1]) || a[1].tag == V_ELLIPSIS) {
        Value r = vbool(reverse);
        return transform_new("scan", call_scan, is_given(a[0]) ? a[0] : VERR, &r, 1);
    }
    if (is_given(a[4]) && !is_given(a[2])) {            /* no inputs: rounds are numbered */
        Value rounds = value_call(I, prelude_get(I, "arange"), &a[4], 1), r;
        r = is_err(rounds) ? VERR : run_scan(I, a[0], a[1], rounds, reverse);
        value_unref(rounds);
        return r;
    }
    return run_scan(I, a[0], a[1], a[2], reverse);
}

/* ------------------------------------------------------------- while_loop */

static Value as_state(Interp *I, Value init)
{
    if (init.tag == V_TUPLE)
        return value_ref(init);
    if (init.tag == V_LIST) {
        Value t = tuple_new(as_list(init)->n);
        for (int64_t i = 0; i < as_list(init)->n; i++)
            as_tuple(t)->at[i] = value_ref(as_list(init)->at[i]);
        return t;
    }
    return tuple_of(1, value_ref(init));
}

static Value staged_while(Interp *I, Value cond, Value body, Value init)
{
    Value state = tree_lift_numbers(I, init), v = VERR;
    TensorVec in = {0};
    Tensor **out = tsr_calloc(sizeof *out * MAX_RESULTS);
    if (!is_err(state) && tree_leaves(I, state, TREE_ALL, &in)) {
        Body c = {.I = I, .f = cond, .carry = state, .x = VERR, .ncarry = in.n, .star = true, .condition = true, .y = VERR};
        Body b = {.I = I, .f = body, .carry = state, .x = VERR, .ncarry = in.n, .star = true, .y = VERR};
        if (trace_while(trace_of(I), body_fn(&c), body_fn(&b), in.at, in.n, out))
            v = result_tree(I, state, out, in.n);
        else
            raise_op_error(I);
    }
    vec_free(&in);
    value_unref(state);
    tsr_free(out);
    return v;
}

/* One step of the visible loop; the state is replaced. whole: it is one value, even where that is a tuple. */
static bool step(Interp *I, Value body, Value *state, bool whole)
{
    Value r = value_call(I, body, as_tuple(*state)->at, (int)as_tuple(*state)->n);
    if (is_err(r))
        return false;
    Value next = whole ? tuple_of(1, value_ref(r)) : as_state(I, r);
    value_unref(r);
    if (as_tuple(next)->n != as_tuple(*state)->n) {
        raise(I, EXC_ValueError, "the body of a loop gives %lld values for a state of %lld", (long long)as_tuple(next)->n,
              (long long)as_tuple(*state)->n);
        value_unref(next);
        return false;
    }
    value_unref(*state);
    *state = next;
    return true;
}

/* Must the loop become an op: is a part of the state known only when staged code runs? */
static bool hidden(Interp *I, Value state)
{
    TensorVec leaf = {0};
    bool yes = false;
    if (tree_leaves(I, state, TREE_ALL, &leaf))
        for (int i = 0; i < leaf.n; i++)
            yes |= !tensor_concrete(leaf.at[i]);
    vec_free(&leaf);
    return yes;
}

/* The state, a tuple of what the functions take, when the loop is over. Consumes state. */
static Value run_while(Interp *I, Value cond, Value body, Value state, bool whole)
{
    if (hidden(I, state)) {
        Value v = staged_while(I, cond, body, state);
        value_unref(state);
        return v;
    }
    for (;;) {
        Value c = value_call(I, cond, as_tuple(state)->at, (int)as_tuple(state)->n);
        if (!is_err(c) && value_is_staged(c)) {         /* it reads something hidden from outside */
            value_unref(c);
            Value v = staged_while(I, cond, body, state);
            value_unref(state);
            return v;
        }
        int go = is_err(c) ? -1 : value_truth(I, c);
        value_unref(c);
        if (go == 0)
            return state;
        if (go < 0 || !interp_poll(I) || !step(I, body, &state, whole)) {
            value_unref(state);
            return VERR;
        }
    }
}

static bool takes_one(Value f)
{
    const Code *c = f.tag == V_FUNC ? ((FuncObj *)f.o)->code : NULL;
    return c && c->npos == 1 && c->varargs < 0;
}

/* A tuple is the state's parts, each an argument, unless both functions take one; what is no tuple comes back as it went. */
static Value while_loop(Interp *I, Value cond, Value body, Value init)
{
    bool parts = init.tag == V_TUPLE || init.tag == V_LIST;
    bool whole = init.tag == V_TUPLE && as_tuple(init)->n != 1 && takes_one(cond) && takes_one(body);
    Value last = run_while(I, cond, body, whole ? tuple_of(1, value_ref(init)) : as_state(I, init), whole), v;
    if (is_err(last) || (parts && !whole))
        return last;
    v = value_ref(as_tuple(last)->at[0]);
    value_unref(last);
    return v;
}

static Value f_while_loop(Interp *I, Value *a)          /* cond, body, init */
{
    if (is_given(a[0]) && !is_given(a[1]) && (is_err(a[2]) || a[2].tag == V_ELLIPSIS))
        return value_ref(a[0]);         /* as a decorator it marks a function that loops */
    if (!value_is_callable(a[0]) || !value_is_callable(a[1]))
        return raise(I, EXC_TypeError, "while_loop takes the functions cond and body, and the initial state");
    return while_loop(I, a[0], a[1], a[2]);
}

/* ------------------------------------------------------------- cond */

static Value staged_cond(Interp *I, Tensor *pred, Value yes, Value no, Value operands)
{
    TupleObj *ops = as_tuple(operands);
    CallArgs c = {ops->at, (int)ops->n};
    HostFn t = {.I = I, .f = yes, .a = c, .result = VERR}, f = {.I = I, .f = no, .a = c, .result = VERR};
    TensorVec in = {0};
    Tensor **out = tsr_calloc(sizeof *out * MAX_RESULTS), *p = do_convert(I, tensor_ref(pred), DT_bool);
    int nout = 0;
    Value v = VERR;
    if (p && host_fn_leaves(&t, &in)) {
        if (!trace_cond(trace_of(I), p, host_fn(&t), host_fn(&f), in.at, in.n, out, &nout))
            raise_op_error(I);
        else
            v = result_tree(I, t.result, out, nout);
    }
    tensor_unref(p);
    host_fn_done(&t);
    host_fn_done(&f);
    vec_free(&in);
    tsr_free(out);
    return v;
}

static Value f_cond(Interp *I, Value *a)                /* pred, on_true, on_false, *operands */
{
    TupleObj *ops = as_tuple(a[3]);
    if (value_is_staged(a[0]))
        return staged_cond(I, as_tensor(a[0]), a[1], a[2], a[3]);
    int truth = value_truth(I, a[0]);
    return truth < 0 ? VERR : value_call(I, truth ? a[1] : a[2], ops->at, (int)ops->n);
}

/* ------------------------------------------------------------- fold */

/* A balanced tree over elements [lo, hi), in order: pairs first, as a reduction does. */
static Value fold_range(Interp *I, Value f, Value *x, int64_t n)
{
    for (int level = 1; n > 1; level++) {
        int64_t half = 0;
        watch_fold(I, level, n / 2);
        for (int64_t i = 0; i + 1 < n; i += 2) {
            Value r = value_call(I, f, (Value[]){x[i], x[i + 1]}, 2);
            value_unref(x[i]);
            value_unref(x[i + 1]);
            x[i] = x[i + 1] = VNONE;
            x[half++] = r;
            if (is_err(r)) {
                for (int64_t k = half; k < n; k++)
                    value_unref(x[k]), x[k] = VNONE;
                return VERR;
            }
        }
        if (n % 2) {
            x[half] = x[n - 1];
            if (half != n - 1)
                x[n - 1] = VNONE;
            half++;
        }
        n = half;
    }
    Value r = x[0];
    x[0] = VNONE;
    return r;
}

/* Halves of a tensor's rows folded at once: log2(n) calls through vmap would need f batched, so f sees rows. */
static Value run_fold(Interp *I, Value f, Value xs, Value init)
{
    Value rows = value_to_list(I, xs);
    if (is_err(rows))
        return VERR;
    ListObj *l = as_list(rows);
    if (!l->n) {
        value_unref(rows);
        return is_given(init) ? value_ref(init) : raise(I, EXC_ValueError, "fold of nothing needs an init");
    }
    Value r = fold_range(I, f, l->at, l->n);
    value_unref(rows);
    if (is_err(r) || !is_given(init))
        return r;
    Value with = value_call(I, f, (Value[]){init, r}, 2);
    value_unref(r);
    return with;
}

static Value call_fold(Interp *I, Transform *t, const CallArgs *c)
{
    if (c->n < 1 || c->n > 2 || c->nkw)
        return raise(I, EXC_TypeError, "a folded function is called with the values, and perhaps an initial one");
    return run_fold(I, t->f, c->args[0], c->n == 2 ? c->args[1] : VNONE);
}

static Value f_fold(Interp *I, Value *a)                /* f, xs, init */
{
    if (is_err(a[1]) || a[1].tag == V_ELLIPSIS)
        return transform_new("fold", call_fold, is_given(a[0]) ? a[0] : VERR, NULL, 0);
    if (a[0].tag == V_TENSOR)
        return raise(I, EXC_TypeError, "fold(f, xs, init) takes a function first; fold_patches(x, output_size, kernel_size) is PyTorch's F.fold");
    return run_fold(I, a[0], a[1], a[2]);
}

/* ------------------------------------------------------------- trees */

static Value f_tree_map(Interp *I, Value *a)            /* f, tree, *others */
{
    TupleObj *rest = as_tuple(a[2]);
    Value trees[16] = {a[1]};
    if (rest->n > 15)
        return raise(I, EXC_TypeError, "tree_map takes at most 16 trees");
    for (int64_t i = 0; i < rest->n; i++)
        trees[i + 1] = rest->at[i];
    return tree_map_values(I, a[0], trees, (int)rest->n + 1);
}

static Value f_tree_leaves(Interp *I, Value *a)
{
    ValueVec leaf = {0};
    Value out = VERR;
    if (tree_values(I, a[0], TREE_TRAINED | TREE_NUMBERS, &leaf)) {
        out = list_new(leaf.n);
        for (int i = 0; i < leaf.n; i++)
            list_push(as_list(out), value_ref(leaf.at[i]));
    }
    vec_free(&leaf);
    return out;
}

/* map(f, t): f of each row, stacked. */
static Value m_map(Interp *I, Value *a)
{
    int64_t n = tensor_op_len(I, a[0]);
    Tensor **row = tsr_calloc(sizeof *row * (size_t)(n > 0 ? n : 1)), *y = NULL;
    int made = 0;
    bool ok = n > 0;
    if (n == 0)
        raise(I, EXC_ValueError, "map over a tensor without rows");
    for (; ok && made < n; made++) {
        Value x = tensor_op_getitem(I, a[0], vint(made)), r = is_err(x) ? VERR : value_call(I, a[1], &x, 1);
        Tensor *t = is_err(r) ? NULL : arg_tensor(I, r, "map over a tensor");
        Dim shape[RANK_MAX + 1] = {1};
        if (t)
            memcpy(shape + 1, t->shape, sizeof(Dim) * t->rank);
        row[made] = t ? do_reshape(I, t, t->rank + 1, shape) : NULL;
        ok = row[made] != NULL;
        value_unref(x);
        value_unref(r);
    }
    if (ok) {
        Attr at = attr_default();
        at.naxes = 1;
        at.axis[0] = (int8_t)-row[0]->rank;
        y = run_op(I, OP_concat, &at, row, (int)n);
    }
    for (int i = 0; i < made; i++)
        tensor_unref(row[i]);
    tsr_free(row);
    return value_of(y);
}

const NativeDef tensor_control_natives[] = {
    {"Tensor", "map", m_map, "(self, f: Callable) -> Tensor", "f of each row, stacked."},
    {"", "scan", f_scan, "(f: Callable | None = None, init=..., xs=..., reverse: bool = False, length: int | None = None)",
     "f(carry, x) -> (carry, y) along the first axis of xs: gives the last carry and the stacked ys. Carry, xs and y may be trees. "
     "scan(f) alone is a function of (init, xs). Without xs there are `length` rounds, and x is the round's number."},
    {"", "while_loop", f_while_loop, "(cond: Callable, body: Callable | None = None, init=...)",
     "Repeats state = body(*state) while cond(*state) and gives the final state. A state that is no tuple, or goes to functions of one parameter, stays one value."},
    {"", "cond", f_cond, "(pred: Tensor | bool, on_true: Callable, on_false: Callable, *operands)",
     "on_true(*operands) or on_false(*operands); both give the same types when pred is a traced tensor."},
    {"", "fold", f_fold, "(f: Callable | None = None, xs=..., init=None)",
     "Combines the rows of xs by the associative f in a balanced tree, keeping their order. fold(f) alone is a function of xs."},
    {"", "tree_map", f_tree_map, "(f: Callable, tree, *others)", "f over the leaves of trees with equal structure; gives that structure."},
    {"", "tree_leaves", f_tree_leaves, "(tree) -> list", "The tensors (and numbers in containers) of a tree, in order."},
    {0},
};
