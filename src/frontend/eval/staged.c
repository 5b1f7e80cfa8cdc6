/*
 * Branches on tensors that have no value yet.
 *
 * While a function is staged, a test may be a tensor without a value.  Then
 * both arms run, each from the same host state, and a cond node picks between
 * what they leave behind (scene.h).
 *
 * An arm that ends by a raise statement becomes a check of the graph: the
 * other arm is all that is left of the branch, and the exception is raised when the graph
 * runs and the test says so.
 */
#include "frontend/eval/arms.h"

#include "frontend/tensor/bind.h"

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

/* v as a bool tensor: the choice is the tensor's. */
Value staged_bool(Interp *I, Value v)
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
    Value x = staged_bool(I, a), y = is_err(x) ? VERR : staged_bool(I, b), r = VERR;

    if (!is_err(y))
        r = value_binary(I, is_or ? AOP_BITOR : AOP_BITAND, x, y);
    value_unref(x);
    value_unref(y);
    return r;
}

/* ------------------------------------------------------------- one arm */

/* What the arm's end means: *left. Takes the frame's returned value. */
static Exit arm_end(Arm *a, Exit x, Left *left)
{
    Frame *f = a->s->f;

    if (x == X_STAGED) {
        x = pending_resolve(f, a->give == GIVE_RETURN, left);
        a->ways |= left->ways;
        return x;
    }
    a->gift.ret_at = f->at ? f->at->span : a->start->at;
    if (a->give == GIVE_RETURN && x != X_RAISE) {
        left->ret = x == X_RETURN ? f->ret : VNONE;
        x = X_RETURN;
    } else if (x == X_RETURN) {
        left->ret = f->ret;
    }
    if (x == X_RAISE)
        return X_RAISE;
    f->ret = VERR;
    left->code = vint(x);
    a->ways |= 1u << x;
    return X_NORMAL;
}

static bool host_failed(Interp *I)
{
    interp_trace(I)->error = OPERR_HOST;
    return false;
}

static bool raised_by_statement(Interp *I)
{
    return exc_pending(I) && I->exc.o == I->raised;
}

static bool arm_call(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Arm *a = self;
    Scene *s = a->s;
    Left left = NOT_LEFT;
    Exit x;
    bool ok;

    (void)in, (void)nin;
    scene_reset(s);
    if (a->start->kind == START_GIVEN) {
        left = (Left){value_ref(a->start->left.code), value_ref(a->start->left.ret), a->start->left.ways};
        x = X_NORMAL;
    } else {
        s->I->arms++;
        x = arm_end(a, arm_run(a->start, s->f, a->rest, a->nrest), &left);
        s->I->arms--;
    }
    if (x == X_RAISE && raised_by_statement(s->I))
        a->raised = exc_take(s->I);
    a->gift.at = a->start->at;
    ok = x != X_RAISE && scene_settled(s) && scene_give(s, &a->gift, a->give, &left, out, nout);
    if (ok && a->first && !is_err(a->first->gift.raw))
        ok = scene_compare(s, &a->first->gift, &a->gift, "the first branch", "the other branch");
    left_drop(&left);
    if (!ok || s->again) {
        while (*nout > 0)
            tensor_unref(out[--*nout]);
        return host_failed(s->I);
    }
    return true;
}

static TensorFn arm_fn(Arm *a) { return (TensorFn){.call = arm_call, .self = a, .max_out = MAX_RESULTS}; }

/* ------------------------------------------------------------- joining */

static void arm_done(Arm *a)
{
    gift_done(&a->gift);
    value_unref(a->raised);
    a->raised = VERR;
}

static bool apply_joined(Arm *yes, Arm *no, Tensor **out, int n, Left *left)
{
    Arm *ran = is_err(yes->gift.raw) ? no : yes;
    bool ok = scene_take(yes->s, &ran->gift, &(ran == yes ? no : yes)->gift, yes->give, out, n, left);

    left->ways = yes->ways | no->ways;
    return ok;
}

/* The arm that raises becomes a check; the other one is what the program does. */
static bool run_other(Arm *yes, Arm *no, Value test, Left *left)
{
    Scene *s = yes->s;
    bool first = !is_err(yes->raised);
    Arm *other = first ? no : yes;
    Value ok = first ? staged_not(s->I, test) : value_ref(test);
    bool done = !is_err(ok) && tensor_staged_raise(s->I, ok, first ? yes->raised : no->raised);

    value_unref(ok);
    scene_reset(s);
    if (!done || arm_end(other, arm_run(other->start, s->f, other->rest, other->nrest), left) == X_RAISE)
        return false;
    left->ways = other->ways;
    return true;
}

static bool join_once(Arm *yes, Arm *no, Tensor *pred, Value test, Left *left)
{
    Interp *I = yes->s->I;
    Tensor **out = tsr_calloc(sizeof *out * MAX_RESULTS);
    int n = 0;
    bool ok = trace_cond(interp_trace(I), pred, arm_fn(yes), arm_fn(no), NULL, 0, out, &n);

    scene_reset(yes->s);
    if (ok)
        ok = apply_joined(yes, no, out, n, left);
    else if (!is_err(yes->raised) || !is_err(no->raised))
        ok = run_other(yes, no, test, left);
    else if (!yes->s->again && !exc_pending(I))
        raise_op_error(I);
    tsr_free(out);
    return ok;
}

bool arms_join(Arm *yes, Arm *no, Value test, Left *left)
{
    Interp *I = yes->s->I;
    Tensor *pred = do_convert(I, tensor_ref(as_tensor(test)), DT_bool);
    bool ok = false;

    no->first = yes;
    yes->s->may_drop = true;
    while (pred) {
        ok = join_once(yes, no, pred, test, left);
        arm_done(yes);
        arm_done(no);
        if (ok || !scene_retry(yes->s))
            break;
    }
    if (pred)
        tensor_unref(pred);
    value_unref(test);
    return ok && !exc_pending(I);
}

/* ------------------------------------------------------------- if */

static Start block_start(const Step *body, AstSeq written, Span otherwise)
{
    return (Start){.kind = START_BLOCK, .body = body, .written = written, .left = NOT_LEFT, .at = body ? body->span : otherwise};
}

static bool has_place(const Vars *v, const Var *p)
{
    for (int i = 0; i < v->n; i++)
        if (v->at[i].bind == p->bind && v->at[i].slot == p->slot && v->at[i].attr == p->attr)
            return true;
    return false;
}

/* Variables that only one arm sets and that were unset are the arm's own: unset afterwards, and using them says why. */
static void drop_one_sided(Scene *s, const Vars *in, const Vars *other, Span branch)
{
    for (int i = 0; i < s->place.n; i++) {
        Spot *p = &s->place.at[i];
        for (int k = 0; p->kind == SPOT_LOCAL && k < in->n; k++)
            if (in->at[k].bind == BIND_LOCAL && (int64_t)in->at[k].slot == p->at && !in->at[k].attr && is_err(s->slot[p->at]) &&
                !has_place(other, &in->at[k])) {
                p->dropped = true;
                interp_half_set(s->I, s->f->code, (uint32_t)p->at, branch, in->at[k].at);
            }
    }
}

static Exit branch(const Step *n, Frame *f, Value test, const AstIf *s, GiveKind give)
{
    Scene scene;
    Vars yes_vars = {0}, no_vars = {0};
    Start ys = block_start(n->b, s->body, n->span), ns = block_start(n->c, s->orelse, n->span);
    Arm yes = {.s = &scene, .start = &ys, .give = give, .raised = VERR}, no = yes;
    Left left = NOT_LEFT;
    bool ok;

    no.start = &ns;
    yes.gift = no.gift = NO_GIFT;
    scene_begin(&scene, f);
    scene.locals = true;
    scene.branch = s;
    places_of(s->body, &yes_vars);
    places_of(s->orelse, &no_vars);
    scene_add(&scene, &yes_vars);
    scene_add(&scene, &no_vars);
    drop_one_sided(&scene, &yes_vars, &no_vars, n->span);
    drop_one_sided(&scene, &no_vars, &yes_vars, n->span);
    ok = arms_join(&yes, &no, test, &left);
    vec_free(&yes_vars);
    vec_free(&no_vars);
    scene_end(&scene);
    if (ok)
        return staged_leave(f, &left, NULL);
    left_drop(&left);
    return X_RAISE;
}

static bool leaves(const AstIf *s)
{
    for (LeaveKind k = LEAVES_RETURN; k <= LEAVES_CONTINUE; k++)
        if (block_leaves(s->body, k) || block_leaves(s->orelse, k))
            return true;
    return false;
}

Value staged_no_yield(Interp *I)
{
    return raise(I, EXC_TypeError, "E0541: yield depends on a staged tensor here; yield both values, or choose with where() before");
}

/* An arm that always leaves makes the rest of the block the other arm's; else the arms end here and say how they left. */
Exit staged_if(const Step *n, Frame *f, Value test)
{
    const AstIf *s = n->p;

    if (block_yields(s->body) || block_yields(s->orelse)) {
        value_unref(test);
        staged_no_yield(f->I);
        return X_RAISE;
    }
    if (!leaves(s))
        return branch(n, f, test, s, GIVE_PLACES);
    if (!block_ends(s->body) && !block_ends(s->orelse))
        return branch(n, f, test, s, GIVE_LEFT);
    return pend(f, test, block_start(n->b, s->body, n->span), block_start(n->c, s->orelse, n->span));
}

Value staged_ifexp(const Step *n, Frame *f, Value test)
{
    Scene scene;
    Start ys = {.kind = START_VALUE, .body = n->b, .at = n->b->span}, ns = {.kind = START_VALUE, .body = n->c, .at = n->c->span};
    Arm yes = {.s = &scene, .start = &ys, .give = GIVE_RETURN, .raised = VERR}, no = yes;
    Left left = NOT_LEFT;
    Value r = VERR;

    no.start = &ns;
    yes.gift = no.gift = NO_GIFT;
    scene_begin(&scene, f);
    scene.locals = true;
    if (arms_join(&yes, &no, test, &left))
        r = value_ref(left.ret);
    scene_end(&scene);
    left_drop(&left);
    return r;
}
