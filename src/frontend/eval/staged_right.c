/*
 * The right side of `and` and `or` where a staged tensor on the left decides.
 *
 * As a rule both sides are computed and joined as tensors, which is what a formula of comparisons means.  But what must not be done
 * where the left side decides makes the right side an arm of a branch: a change of something on the host (z := ..., a call that
 * counts), output, and what may fail there, such as i < n and t[i] > 0.  Which of them it is a trial says: the right side staged by
 * itself.  A trial without any of that is applied as it is.
 *
 * A variable that gets its first value there, and nothing else, is no change: who reads it asks the condition first.
 */
#include "frontend/eval/arms.h"

#include "frontend/tensor/bind.h"
#include "ir/graph/graph.h"

typedef struct Right { const Step *step; Frame *f; } Right;

/* The trial: its graph and what it takes from outside. */
typedef struct Trial {
    Graph *g;
    Tensor **taken;
    int n;
} Trial;

static Value as_truth(Frame *f, Value v)
{
    Value r = is_err(v) ? VERR : staged_bool(f->I, v);

    value_unref(v);
    return r;
}

static Value ev_right(const Step *n, Frame *f) { return as_truth(f, n->a->eval(n->a, f)); }

/* Run in any case, but its checks hold back where the left side decides. */
static Value run_always(const Right *r, int is_or, Value left)
{
    Interp *I = r->f->I;
    Value outer = I->active, mine = is_or ? staged_not(I, left) : staged_bool(I, left), v = VERR;

    if (!is_err(mine)) {
        I->active = is_err(outer) ? value_ref(mine) : staged_logic(I, 0, outer, mine);
        I->arms++;
        v = is_err(I->active) ? VERR : r->step->eval(r->step, r->f);
        I->arms--;
        value_unref(I->active);
    }
    I->active = outer;
    value_unref(mine);
    return v;
}

/* Run where the left side does not decide: what it changes is joined with what was there. */
static Value run_as_arm(const Right *right, int is_or, Value left)
{
    Frame *f = right->f;
    Span at = right->step->span;
    Step truth = {.eval = ev_right, .span = at, .a = (Step *)right->step};
    Scene scene;
    Start ys = {.kind = START_VALUE, .body = &truth, .at = at};
    Start ns = {.kind = START_EXIT, .exit = X_RETURN, .left = {VERR, as_truth(f, vbool(is_or)), 0}, .at = at};
    Arm yes = {.s = &scene, .start = is_or ? &ns : &ys, .give = GIVE_RETURN, .raised = VERR}, no = yes;
    Left out = NOT_LEFT;
    Value test = staged_bool(f->I, left), r = VERR;

    no.start = is_or ? &ys : &ns;
    yes.gift = no.gift = NO_GIFT;
    scene_begin(&scene, f);
    scene.locals = true;
    if (!is_err(test) && !is_err(ns.left.ret) && arms_join(&yes, &no, test, &out))
        r = value_ref(out.ret);
    scene_end(&scene);
    left_drop(&out);
    value_unref(ns.left.ret);
    return r;
}

/* ------------------------------------------------------------- the trial */

static bool trial_call(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    const Right *r = self;
    Value v;

    (void)in, (void)nin;
    r->f->I->arms++;
    v = as_truth(r->f, r->step->eval(r->step, r->f));
    r->f->I->arms--;
    *nout = !is_err(v);
    if (*nout)
        out[0] = tensor_ref(as_tensor(v));
    else
        interp_trace(r->f->I)->error = OPERR_HOST;
    value_unref(v);
    return *nout == 1;
}

static bool try_right(Right *r, Trial *t)
{
    Trace *T = interp_trace(r->f->I);

    *t = (Trial){0};
    t->g = stage(T, sym("right"), (TensorFn){trial_call, r, 1, true}, NULL, 0, &t->taken, &t->n);
    if (!t->g && !exc_pending(r->f->I))
        raise_op_error(r->f->I);
    T->error = OPERR_NONE;
    return t->g != NULL;
}

static void trial_done(Trial *t)
{
    for (int i = 0; i < t->n; i++)
        tensor_unref(t->taken[i]);
    tsr_free(t->taken);
    if (t->g)
        graph_unref(t->g);
}

static Value trial_result(Interp *I, const Trial *t)
{
    Tensor *out = NULL;
    int n = 0;

    if (graph_apply(interp_trace(I), t->g, t->taken, t->n, &out, &n))
        return tensor_value(out);
    raise_op_error(I);
    return VERR;
}

/* Reductions fail at sizes that are known before, the division of floats never. */
static bool node_may_fail(const Node *n)
{
    if (n->op == OP_floordiv || n->op == OP_mod)
        return !n->attr->i && !dtype_is_inexact((DType)n->type[0].dtype);
    return op_info[n->op].flags & OPF_RAISE && op_info[n->op].family != FAM_REDUCE;
}

/* Would it show that it ran where it must not? */
static bool graph_shows(const Graph *g)
{
    for (const Node *n = g->first; n; n = n->next) {
        if (n->op >= OP_COUNT)
            continue;
        if (op_info[n->op].flags & (OPF_IO | OPF_STATE) || node_may_fail(n))
            return true;
        for (int i = 0; n->attr && i < 4; i++)
            if (n->attr->region[i] && graph_shows(n->attr->region[i]))
                return true;
    }
    return false;
}

/* Did the trial, since the scene began, give variables that had no value one, and change nothing else? The host is as before it. */
static bool only_sets(Scene *s)
{
    bool absent = true;

    scene_reset(s);
    for (int i = 0; i < s->place.n; i++) {
        const Spot *p = &s->place.at[i];
        Value was = spot_read(s->I, p, s->f);
        absent &= is_err(was) && (p->kind == SPOT_LOCAL || p->kind == SPOT_CELL);
        value_unref(was);
    }
    return absent;
}

Value staged_right(const Step *step, Frame *f, int is_or, Value left)
{
    Right right = {step, f};
    Trial trial;
    Scene scene;
    Value v = VERR, r = VERR;

    if (step->flag) {
        scene_begin(&scene, f);
        bool ok = try_right(&right, &trial), changes, arm;
        scene.locals = true;
        ok = ok && scene_settled(&scene);
        changes = ok && scene.place.n;
        arm = ok && (changes ? !only_sets(&scene) : graph_shows(trial.g));
        scene_end(&scene);
        if (ok && !changes && !arm)
            v = trial_result(f->I, &trial);
        trial_done(&trial);
        if (arm)
            return run_as_arm(&right, is_or, left);
        if (!ok || (!changes && is_err(v)))
            return VERR;
    }
    if (is_err(v))
        v = run_always(&right, is_or, left);
    r = is_err(v) ? VERR : staged_logic(f->I, is_or, left, v);
    value_unref(v);
    return r;
}
