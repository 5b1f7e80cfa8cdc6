/*
 * Control flow on tensors that have no value yet.
 *
 * While a function is staged, a test may be a tensor without a value.  Then
 * both arms run, each from the same state of the frame, and a cond node picks
 * between what they assigned; a while loop becomes a while node that carries
 * the variables its body assigns.
 *
 * An arm that leaves (return, break, continue) makes the rest of the block
 * part of the other arm.  The `if` then answers X_STAGED; each block on the way
 * out adds what it has left to Frame.pending, and the function's end (for
 * return) or the staged loop (for break, continue) runs both arms with that rest.
 */
#include "frontend/eval/staged.h"

#include "frontend/tensor/bind.h"
#include "frontend/tensor/transform.h"

#include <string.h>

bool staged_truth(Value v)
{
    return value_is_staged(v);
}

Value staged_not(Interp *I, Value v)
{
    Tensor *t = do_convert(I, tensor_ref(as_tensor(v)), DT_bool);
    Value b, r;

    if (!t)
        return VERR;
    b = tensor_value(t);
    r = tensor_op_unary(I, AOP_INVERT, b);
    value_unref(b);
    return r;
}

/* a and b, a or b, as bools: the choice between them is the tensor's. */
static Value as_bool(Interp *I, Value v)
{
    Value lifted = tree_lift_numbers(I, v), r = VERR;
    Tensor *t;

    if (lifted.tag == V_TENSOR) {
        t = do_convert(I, tensor_ref(as_tensor(lifted)), DT_bool);
        r = t ? tensor_value(t) : VERR;
    } else if (!exc_pending(I)) {
        raise(I, EXC_TypeError, "a condition on staged tensors must be a tensor or a number, not %s", value_type_name(v));
    }
    value_unref(lifted);
    return r;
}

Value staged_logic(Interp *I, int is_or, Value a, Value b)
{
    Value x = as_bool(I, a), y = is_err(x) ? VERR : as_bool(I, b), r = VERR;

    if (!is_err(y))
        r = value_binary(I, is_or ? AOP_BITOR : AOP_BITAND, x, y);
    value_unref(x);
    value_unref(y);
    return r;
}

/* ------------------------------------------------------------- what is left of a block */

typedef struct Rest { const Step *block; int from; } Rest;

/* A staged `if` with an arm that leaves, on its way out. */
typedef struct Pending {
    const Step *branch;
    Value test;
    Vec(Rest) rest;
} Pending;

static void pending_free(Pending *p)
{
    value_unref(p->test);
    vec_free(&p->rest);
    tsr_free(p);
}

void staged_add_rest(Frame *f, const Step *block, int from)
{
    Pending *p = f->pending;
    Rest r = {block, from};

    vec_push(&p->rest, r);
}

Exit staged_refuse(Frame *f, const char *where)
{
    if (f->pending)
        pending_free(f->pending);
    f->pending = NULL;
    raise(f->I, EXC_TypeError, "return, break or continue that depends on a staged tensor cannot leave %s; "
          "choose a value with where() or cond() instead", where);
    return X_RAISE;
}

/* Run the rest of the blocks from the innermost outwards. */
static Exit run_rest(Frame *f, const Rest *rest, int n)
{
    for (int k = 0; k < n; k++) {
        const StepSeq *s = rest[k].block->seq;
        for (int i = rest[k].from; i < s->n; i++) {
            Exit x = s->at[i]->exec(s->at[i], f);
            if (x == X_STAGED) {
                staged_add_rest(f, rest[k].block, i + 1);
                for (k++; k < n; k++)
                    staged_add_rest(f, rest[k].block, rest[k].from);
            }
            if (x != X_NORMAL)
                return x;
        }
    }
    return X_NORMAL;
}

/* ------------------------------------------------------------- arms */

typedef enum { ARM_PLACES, ARM_LOOP, ARM_RETURN, ARM_VALUE } ArmMode;

typedef struct Arm {
    Interp *I;
    Frame *f;
    ArmMode mode;
    const Step *body;           /* a block, or an expression for ARM_VALUE; NULL: empty */
    const Rest *rest;
    int nrest;
    Vars *places;
    Value skeleton;             /* of what it gave; owned */
    bool leaves;                /* ARM_LOOP: running to its end leaves the loop */
} Arm;

static void restore(Arm *a)
{
    for (int i = 0; i < a->places->n; i++)
        place_set(&a->places->at[i], a->f, place_copy(a->I, a->places->at[i].before));
}

static Value places_tuple(Interp *I, Frame *f, Vars *p, int extra)
{
    Value t = tuple_new(p->n + extra);

    for (int i = 0; i < p->n; i++) {
        as_tuple(t)->at[i] = place_get(&p->at[i], f);
        if (is_err(as_tuple(t)->at[i])) {
            value_unref(t);
            return raise(I, EXC_UnboundLocalError, "'%s' must be set on each branch of control flow on a staged tensor",
                         p->at[i].name->text);
        }
    }
    return t;
}

static Exit resolve_in_loop(Frame *f, Vars *places, Value *flag);
static Exit resolve_return(Frame *f);

/* The arm's result as a tree, after exit x. */
static Value arm_result(Arm *a, Exit x)
{
    Frame *f = a->f;
    Value t, flag = VERR;

    if (x == X_STAGED && a->mode == ARM_RETURN)
        x = resolve_return(f);
    if (x == X_STAGED && a->mode == ARM_LOOP) {
        x = resolve_in_loop(f, a->places, &flag);
        if (x == X_RAISE)
            return VERR;
    }
    if (x == X_STAGED)
        x = staged_refuse(f, "this branch");
    if (x == X_RAISE)
        return VERR;
    if (a->mode == ARM_RETURN) {
        t = x == X_RETURN ? f->ret : VNONE;
        f->ret = VERR;
        return t;
    }
    if (x == X_RETURN) {
        value_unref(f->ret);
        staged_refuse(f, "a staged loop");
        return VERR;
    }
    t = places_tuple(a->I, f, a->places, a->mode == ARM_LOOP);
    if (!is_err(t) && a->mode == ARM_LOOP)
        as_tuple(t)->at[a->places->n] = is_err(flag) ? vbool(x == X_BREAK || a->leaves) : flag;
    return t;
}

static bool arm_call(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Arm *a = self;
    Value r;
    bool ok;

    (void)in, (void)nin;
    if (a->mode == ARM_VALUE) {
        r = a->body->eval(a->body, a->f);
    } else {
        restore(a);
        Exit x = a->body ? a->body->exec(a->body, a->f) : X_NORMAL;
        if (x == X_STAGED)
            for (int k = 0; k < a->nrest; k++)
                staged_add_rest(a->f, a->rest[k].block, a->rest[k].from);
        else if (x == X_NORMAL)
            x = run_rest(a->f, a->rest, a->nrest);
        r = arm_result(a, x);
    }
    value_unref(a->skeleton);
    a->skeleton = VERR;
    ok = !is_err(r) && flatten_result(a->I, r, &a->skeleton, out, nout);
    value_unref(r);
    if (!ok)
        interp_trace(a->I)->error = OPERR_HOST;
    return ok;
}

static TensorFn arm_fn(Arm *a) { return (TensorFn){.call = arm_call, .self = a, .max_out = MAX_RESULTS}; }

/* Run both arms and join them: the tree of joined results, V_ERR pending. Consumes test. */
static Value join(Arm *yes, Arm *no, Value test)
{
    Interp *I = yes->I;
    Tensor *pred = do_convert(I, tensor_ref(as_tensor(test)), DT_bool), **out = tsr_calloc(sizeof *out * MAX_RESULTS);
    Value r = VERR;
    int n = 0, same;

    value_unref(test);
    if (pred && !trace_cond(interp_trace(I), pred, arm_fn(yes), arm_fn(no), NULL, 0, out, &n)) {
        if (!exc_pending(I))
            raise_op_error(I);
        n = 0;
    } else if (pred) {
        same = is_err(no->skeleton) || is_err(yes->skeleton) ? 1 : tree_same(I, yes->skeleton, no->skeleton);
        if (!same)
            raise(I, EXC_TypeError, "the branches of control flow on a staged tensor must give the same kinds of values: "
                  "the first branch and the other branch differ in structure or in values that are no tensors");
        if (same == 1) {
            r = result_tree(I, is_err(yes->skeleton) ? no->skeleton : yes->skeleton, out, n);
            n = 0;
        }
    }
    for (int i = 0; i < n; i++)
        tensor_unref(out[i]);
    if (pred)
        tensor_unref(pred);
    value_unref(yes->skeleton);
    value_unref(no->skeleton);
    tsr_free(out);
    return r;
}

static void places_done(Vars *p)
{
    for (int i = 0; i < p->n; i++)
        value_unref(p->at[i].before);
    vec_free(p);
}

/* Remember what the places hold; drop those that `keep` says no to. */
static void places_begin(Vars *p, Frame *f)
{
    for (int i = 0; i < p->n; i++)
        p->at[i].before = place_get(&p->at[i], f);
}

static void places_end(Vars *p, Frame *f, Value joined)
{
    for (int i = 0; i < p->n; i++)
        place_set(&p->at[i], f, value_ref(as_tuple(joined)->at[i]));
}

static void put_back(Vars *p, Frame *f)
{
    for (int i = 0; i < p->n; i++)
        place_set(&p->at[i], f, value_ref(p->at[i].before));
}

/* ------------------------------------------------------------- if */

static bool in_both(const Vars *a, const Vars *b, const Var *p)
{
    bool x = false, y = false;

    for (int i = 0; i < a->n; i++)
        x |= a->at[i].bind == p->bind && a->at[i].slot == p->slot && a->at[i].attr == p->attr;
    for (int i = 0; i < b->n; i++)
        y |= b->at[i].bind == p->bind && b->at[i].slot == p->slot && b->at[i].attr == p->attr;
    return x && y;
}

/* Names that only one arm sets, unset before, are its own affair: they end with it. */
static void drop_one_sided(const AstIf *s, Vars *p, Vars *own)
{
    Vars yes = {0}, no = {0};
    int n = 0;

    places_of(s->body, &yes);
    places_of(s->orelse, &no);
    for (int i = 0; i < p->n; i++) {
        if (is_err(p->at[i].before) && !in_both(&yes, &no, &p->at[i])) {
            vec_push(own, p->at[i]);
        } else {
            p->at[n++] = p->at[i];
        }
    }
    p->n = n;
    vec_free(&yes);
    vec_free(&no);
}

static Exit branch(const Step *n, Frame *f, Value test, const AstIf *s)
{
    Vars p = {0}, own = {0};
    Arm yes = {f->I, f, ARM_PLACES, n->b, NULL, 0, &p, VERR, false}, no = yes;
    Value joined;

    no.body = n->c;
    places_of(s->body, &p);
    places_of(s->orelse, &p);
    places_begin(&p, f);
    drop_one_sided(s, &p, &own);
    joined = join(&yes, &no, test);
    put_back(&own, f);
    if (is_err(joined))
        put_back(&p, f);
    else
        places_end(&p, f, joined);
    value_unref(joined);
    places_done(&p);
    vec_free(&own);
    return exc_pending(f->I) ? X_RAISE : X_NORMAL;
}

static bool leaves(const AstIf *s)
{
    for (LeaveKind k = LEAVES_RETURN; k <= LEAVES_CONTINUE; k++)
        if (block_leaves(s->body, k) || block_leaves(s->orelse, k))
            return true;
    return false;
}

Exit staged_if(const Step *n, Frame *f, Value test)
{
    const AstIf *s = n->p;
    Pending *p;

    if (!leaves(s))
        return branch(n, f, test, s);
    p = tsr_calloc(sizeof *p);
    p->branch = n;
    p->test = test;
    f->pending = p;
    return X_STAGED;
}

Value staged_ifexp(const Step *n, Frame *f, Value test)
{
    Vars none = {0};
    Arm yes = {f->I, f, ARM_VALUE, n->b, NULL, 0, &none, VERR, false}, no = yes;

    no.body = n->c;
    return join(&yes, &no, test);
}

/* ------------------------------------------------------------- arms that leave */

/* Take the pending branch out of the frame, with arms of this mode made from it. */
static Pending *take_pending(Frame *f, ArmMode mode, Vars *places, Arm *yes, Arm *no)
{
    Pending *p = f->pending;

    f->pending = NULL;
    *yes = (Arm){f->I, f, mode, p->branch->b, p->rest.at, p->rest.n, places, VERR, false};
    *no = *yes;
    no->body = p->branch->c;
    return p;
}

/* The function's locals, all of them: the second arm starts where the first did. */
static void all_locals(Frame *f, Vars *out)
{
    const Code *c = f->code;

    for (int i = 0; i < c->nslots; i++) {
        Var p = {BIND_LOCAL, (uint32_t)i, NULL, NULL, value_ref(f->slot[i])};
        if (f->slot[i].tag == V_CELL) {
            p.bind = BIND_CELL;
            value_unref(p.before);
            p.before = value_ref(((CellObj *)f->slot[i].o)->v);
        }
        vec_push(out, p);
    }
}

static Exit resolve_return(Frame *f)
{
    Vars p = {0};
    Arm yes, no;
    Pending *pending = take_pending(f, ARM_RETURN, &p, &yes, &no);
    Value test = pending->test;

    pending->test = VNONE;
    all_locals(f, &p);
    f->ret = join(&yes, &no, test);
    put_back(&p, f);
    places_done(&p);
    pending_free(pending);
    return is_err(f->ret) ? X_RAISE : X_RETURN;
}

Exit staged_return(Frame *f)
{
    return resolve_return(f);
}

/* Variables that the body sets and that are unset before live in one round only. */
static void drop_unset(Vars *p)
{
    int n = 0;

    for (int i = 0; i < p->n; i++)
        if (!is_err(p->at[i].before))
            p->at[n++] = p->at[i];
    p->n = n;
}

/* In a staged loop: both arms run to the end of the body; *flag says whether the loop is left. */
static Exit resolve_in_loop(Frame *f, Vars *outer, Value *flag)
{
    Vars p = {0};
    Arm yes, no;
    Pending *pending = take_pending(f, ARM_LOOP, &p, &yes, &no);
    Value test = pending->test, joined;

    pending->test = VNONE;
    for (int i = 0; i < outer->n; i++) {
        vec_push(&p, outer->at[i]);
        vec_last(&p).before = VERR;
    }
    places_begin(&p, f);
    drop_unset(&p);
    joined = join(&yes, &no, test);
    if (!is_err(joined)) {
        places_end(&p, f, joined);
        *flag = value_ref(as_tuple(joined)->at[p.n]);
    }
    value_unref(joined);
    places_done(&p);
    pending_free(pending);
    return exc_pending(f->I) ? X_RAISE : X_NORMAL;
}

/* ------------------------------------------------------------- while */

typedef struct StagedLoop {
    Arm body;
    const Step *test;
    Value skeleton;             /* of (places..., left) */
} StagedLoop;

static bool set_places(StagedLoop *l, Tensor *const *in, Value *left)
{
    int pos = 0;
    Value t = tree_rebuild(l->body.I, l->skeleton, TREE_ALL, in, &pos);

    if (is_err(t))
        return false;
    places_end(l->body.places, l->body.f, t);
    *left = value_ref(as_tuple(t)->at[l->body.places->n]);
    value_unref(t);
    return true;
}

static bool host_failed(Interp *I)
{
    interp_trace(I)->error = OPERR_HOST;
    return false;
}

/* test and not left */
static bool loop_test(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    StagedLoop *l = self;
    Interp *I = l->body.I;
    Value left, v, go = VERR, not_left = VERR, b = VERR;

    (void)nin;
    if (!set_places(l, in, &left))
        return host_failed(I);
    v = l->test->eval(l->test, l->body.f);
    if (!is_err(v))
        b = as_bool(I, v);
    if (!is_err(b))
        not_left = staged_not(I, left);
    if (!is_err(not_left))
        go = value_binary(I, AOP_BITAND, b, not_left);
    if (go.tag == V_TENSOR) {
        out[0] = tensor_ref(as_tensor(go));
        *nout = 1;
    }
    value_unref(left);
    value_unref(v);
    value_unref(b);
    value_unref(not_left);
    value_unref(go);
    return go.tag == V_TENSOR || host_failed(I);
}

static bool loop_body(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    StagedLoop *l = self;
    Arm *a = &l->body;
    Value left, r, skeleton = VERR;
    bool ok;

    (void)nin;
    if (!set_places(l, in, &left))
        return host_failed(a->I);
    value_unref(left);
    r = arm_result(a, a->body->exec(a->body, a->f));
    ok = !is_err(r) && flatten_result(a->I, r, &skeleton, out, nout);
    if (ok && tree_same(a->I, l->skeleton, skeleton) != 1) {
        if (!exc_pending(a->I))
            raise(a->I, EXC_TypeError, "a variable changes its kind in the body of a loop on staged tensors");
        for (int i = 0; i < *nout; i++)
            tensor_unref(out[i]);
        ok = false;
    }
    value_unref(skeleton);
    value_unref(r);
    return ok || host_failed(a->I);
}

static Exit run_loop(StagedLoop *l, Frame *f)
{
    Interp *I = f->I;
    Vars *p = l->body.places;
    Tensor **init = tsr_calloc(sizeof *init * 2 * MAX_RESULTS), **out = init + MAX_RESULTS;
    Value start = places_tuple(I, f, p, 1), end = VERR;
    int n = 0;
    bool ok = !is_err(start);

    if (ok) {
        as_tuple(start)->at[p->n] = vbool(false);
        ok = flatten_result(I, start, &l->skeleton, init, &n);
    }
    if (ok && !trace_while(interp_trace(I), (TensorFn){loop_test, l, 1}, (TensorFn){loop_body, l, MAX_RESULTS}, init, n, out)) {
        if (!exc_pending(I))
            raise_op_error(I);
        ok = false;
    }
    if (ok)
        end = result_tree(I, l->skeleton, out, n);
    for (int i = 0; i < n; i++)
        tensor_unref(init[i]);
    if (!is_err(end))
        places_end(p, f, end);
    value_unref(end);
    value_unref(start);
    value_unref(l->skeleton);
    tsr_free(init);
    return is_err(end) ? X_RAISE : X_NORMAL;
}

/* A round whose body may stop at a staged branch, of a loop whose test is known: when it does, the loop is
 * staged from the state before the round. */
Exit staged_watch(const Step *n, Frame *f, bool *staged)
{
    Vars p = {0};
    Exit x;

    places_of(((const AstWhile *)n->p)->body, &p);
    places_begin(&p, f);
    x = n->b->exec(n->b, f);
    *staged = x == X_STAGED;
    if (*staged) {
        pending_free(f->pending);
        f->pending = NULL;
        put_back(&p, f);
        x = staged_while(n, f, VNONE);
    }
    places_done(&p);
    return x;
}

Exit staged_while(const Step *n, Frame *f, Value test)
{
    const AstWhile *s = n->p;
    Vars p = {0};
    StagedLoop l = {.body = {f->I, f, ARM_LOOP, n->b, NULL, 0, &p, VERR, false}, .test = n->a, .skeleton = VERR};
    Exit x;

    value_unref(test);
    places_of(s->body, &p);
    places_begin(&p, f);
    drop_unset(&p);
    x = run_loop(&l, f);
    if (x == X_RAISE)
        put_back(&p, f);
    places_done(&p);
    return x == X_NORMAL && n->c ? n->c->exec(n->c, f) : x;
}

/* ------------------------------------------------------------- for, unrolled */

/* The body once more, unless the loop was left before. */
static Exit guarded_round(const Step *loop, Frame *f, Vars *p, Value *left)
{
    Arm skip = {f->I, f, ARM_LOOP, NULL, NULL, 0, p, VERR, false}, body = skip;
    Value joined;

    skip.leaves = true;
    body.body = loop->c;
    places_begin(p, f);
    drop_unset(p);
    joined = join(&skip, &body, value_ref(*left));
    if (is_err(joined)) {
        put_back(p, f);
        return X_RAISE;
    }
    places_end(p, f, joined);
    value_unref(*left);
    *left = value_ref(as_tuple(joined)->at[p->n]);
    value_unref(joined);
    return X_NORMAL;
}

Exit staged_round(const Step *loop, Frame *f, Exit x, Value *left)
{
    Vars p = {0};

    places_of(((const ForParts *)loop->p)->ast->body, &p);
    if (is_err(*left)) {
        x = resolve_in_loop(f, &p, left);
    } else {
        x = guarded_round(loop, f, &p, left);
    }
    places_done(&p);
    return x;
}
