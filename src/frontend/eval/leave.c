/*
 * return, break and continue that depend on a staged tensor.
 *
 * A branch with an arm that always leaves answers X_STAGED and waits in
 * Frame.pending; each block on the way out adds what it has left, and that rest belongs to
 * the other arm.  The function's end runs both arms.  Where the rest cannot go into an arm
 * (the end of a loop's body, of a with or try block, a branch of which no arm always
 * leaves) the arms end there, and say how they left with a number of the
 * graph and with the value they return: a Left.  Outside it is a branch again.
 */
#include "frontend/eval/arms.h"

typedef struct Pending {
    Start yes, no;
    Value test;
    Vec(Rest) rest;
} Pending;

void left_drop(Left *l)
{
    value_unref(l->code);
    value_unref(l->ret);
    *l = NOT_LEFT;
}

static void pending_free(Pending *p)
{
    left_drop(&p->yes.left);
    left_drop(&p->no.left);
    value_unref(p->test);
    vec_free(&p->rest);
    tsr_free(p);
}

Exit pend(Frame *f, Value test, Start yes, Start no)
{
    Pending *p = tsr_calloc(sizeof *p);

    p->yes = yes;
    p->no = no;
    p->test = test;
    f->pending = p;
    return X_STAGED;
}

void staged_add_rest(Frame *f, const Step *block, int from)
{
    Pending *p = f->pending;
    Rest r = {block, from};

    vec_push(&p->rest, r);
}

void staged_forget(Frame *f)
{
    if (f->pending)
        pending_free(f->pending);
    f->pending = NULL;
}

Exit staged_refuse(Frame *f, const char *where)
{
    staged_forget(f);
    raise(f->I, EXC_TypeError, "E0541: return, break or continue that depends on a staged tensor cannot leave %s; "
          "choose a value with where() or cond() instead", where);
    return X_RAISE;
}

/* ------------------------------------------------------------- running arms */

/* The rest of the blocks from the innermost outwards. */
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

static Exit begin_arm(const Start *s, Frame *f)
{
    Left l;

    switch (s->kind) {
    case START_BLOCK: return s->body ? s->body->exec(s->body, f) : X_NORMAL;
    case START_VALUE:
        f->ret = s->body->eval(s->body, f);
        return is_err(f->ret) ? X_RAISE : X_RETURN;
    case START_EXIT:
        if (s->exit == X_RETURN)
            f->ret = value_ref(s->left.ret);
        return s->exit;
    case START_LEFT:
        l = (Left){value_ref(s->left.code), value_ref(s->left.ret), s->left.ways};
        return staged_leave(f, &l, s->body);
    case START_GIVEN: break;
    }
    return X_NORMAL;
}

Exit arm_run(const Start *start, Frame *f, const Rest *rest, int nrest)
{
    Exit x = begin_arm(start, f);

    if (x == X_STAGED)
        for (int k = 0; k < nrest; k++)
            staged_add_rest(f, rest[k].block, rest[k].from);
    return x == X_NORMAL ? run_rest(f, rest, nrest) : x;
}

/* The variables that the arms and the rest assign. */
static void add_written(Scene *s, const Pending *p)
{
    Vars v = {0};

    places_of(p->yes.written, &v);
    places_of(p->no.written, &v);
    for (int i = 0; i < p->rest.n; i++) {
        const Rest *r = &p->rest.at[i];
        AstSeq left = {(Ast **)r->block->p + r->from, r->block->seq->n - r->from};
        places_of(left, &v);
    }
    scene_add(s, &v);
    vec_free(&v);
}

Exit pending_resolve(Frame *f, bool to_end, Left *left)
{
    Pending *p = f->pending;
    Scene scene;
    Arm yes = {.s = &scene, .start = &p->yes, .rest = p->rest.at, .nrest = p->rest.n, .give = to_end ? GIVE_RETURN : GIVE_LEFT, .raised = VERR};
    Arm no = yes;
    Value test = p->test;
    bool ok;

    no.start = &p->no;
    yes.gift = no.gift = NO_GIFT;
    p->test = VNONE;
    f->pending = NULL;
    scene_begin(&scene, f);
    scene.locals = !to_end;
    if (!to_end)
        add_written(&scene, p);
    ok = arms_join(&yes, &no, test, left);
    scene_end(&scene);
    pending_free(p);
    return ok ? X_NORMAL : X_RAISE;
}

Exit staged_settle(Frame *f, Left *left)
{
    return pending_resolve(f, false, left);
}

Exit staged_return(Frame *f)
{
    Left left = NOT_LEFT;
    Exit x = pending_resolve(f, true, &left);

    f->ret = VERR;
    if (x != X_RAISE) {
        f->ret = value_ref(left.ret);
        x = X_RETURN;
    }
    left_drop(&left);
    return x;
}

/* ------------------------------------------------------------- leaving by number */

/* code == x, as a bool of the graph. */
static Value is_code(Interp *I, Value code, Exit x, int op)
{
    return value_compare(I, op, code, vint(x));
}

static Start exit_start(Exit x, const Left *l)
{
    return (Start){.kind = START_EXIT, .exit = x, .left = {VERR, x == X_RETURN ? value_ref(l->ret) : VERR, 0}};
}

static Exit leave_known(Frame *f, Left *l, const Step *otherwise)
{
    Exit x = (Exit)l->code.i;

    if (x == X_RETURN)
        f->ret = value_ref(l->ret);
    left_drop(l);
    return x == X_NORMAL && otherwise ? otherwise->exec(otherwise, f) : x;
}

/* The first way there is against the others. */
Exit staged_leave(Frame *f, Left *l, const Step *otherwise)
{
    Exit x = X_BREAK;
    unsigned others;
    Start no;
    Value test;

    if (is_err(l->code) || l->code.tag == V_INT) {
        l->code = is_err(l->code) ? vint(X_NORMAL) : l->code;
        return leave_known(f, l, otherwise);
    }
    while (x < X_RETURN && !(l->ways >> x & 1))
        x++;
    others = l->ways & ~(1u << x);
    if (!(l->ways >> x & 1) || !others) {       /* one way only */
        value_unref(l->code);
        l->code = vint(l->ways >> x & 1 ? x : X_NORMAL);
        return leave_known(f, l, otherwise);
    }
    test = is_code(f->I, l->code, x, AOP_EQ);
    if (is_err(test)) {
        left_drop(l);
        return X_RAISE;
    }
    if (others == 1u << X_NORMAL)
        no = (Start){.kind = START_BLOCK, .body = otherwise, .left = NOT_LEFT};
    else
        no = (Start){.kind = START_LEFT, .left = {value_ref(l->code), value_ref(l->ret), others}, .body = otherwise};
    Exit r = pend(f, test, exit_start(x, l), no);
    left_drop(l);
    return r;
}

/* The code without what the loop has consumed: broken out of, then the rest goes on without its else. */
Exit staged_leave_loop(Frame *f, Left *l, const Step *otherwise)
{
    unsigned ways = l->ways & (1u << X_NORMAL | 1u << X_BREAK | 1u << X_RETURN);
    Value test;
    Start broken, whole = {.kind = START_BLOCK, .body = otherwise, .left = NOT_LEFT};
    Exit x;

    if (is_err(l->code) || l->code.tag == V_INT) {
        if (l->code.tag == V_INT && l->code.i == X_BREAK) {
            left_drop(l);
            return X_NORMAL;
        }
        return staged_leave(f, l, otherwise);
    }
    if (!(ways >> X_BREAK & 1) || !otherwise) {         /* breaking and ending are one */
        l->ways = (ways & ~(1u << X_BREAK)) | 1u << X_NORMAL;
        return staged_leave(f, l, otherwise);
    }
    test = is_code(f->I, l->code, X_BREAK, AOP_EQ);
    if (is_err(test)) {
        left_drop(l);
        return X_RAISE;
    }
    broken = (Start){.kind = START_BLOCK, .left = NOT_LEFT};
    if (ways >> X_RETURN & 1)
        whole = (Start){.kind = START_LEFT, .body = otherwise, .left = {value_ref(l->code), value_ref(l->ret), ways & ~(1u << X_BREAK)}};
    x = pend(f, test, broken, whole);
    left_drop(l);
    return x;
}
