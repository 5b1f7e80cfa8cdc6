/*
 * Exceptions in control flow: raise, try, with.
 *
 * While a handler's type is compared and while a finally block or an __exit__
 * runs, the exception is out of the Interp, and counts as the one being
 * handled, so that what is raised meanwhile is chained to it.
 */
#include "frontend/eval/staged.h"

Exit ex_raise(const Step *n, Frame *f)
{
    Interp *I = f->I;
    Value e, cause;

    f->at = n;
    if (!n->a) {
        if (is_err(I->handling)) {
            raise(I, EXC_RuntimeError, "No active exception to reraise");
        } else {
            value_unref(I->exc);
            I->exc = value_ref(I->handling);
            I->reraised = true;
        }
        return X_RAISE;
    }
    e = n->a->eval(n->a, f);
    if (is_err(e))
        return X_RAISE;
    cause = n->b ? n->b->eval(n->b, f) : VNONE;
    f->at = n;
    if (!is_err(cause)) {
        raise_value(I, e);
        I->raised = I->exc.o;
    }
    value_unref(e);
    if (n->b && !is_err(cause))
        exc_set_cause(I, cause);
    value_unref(cause);
    return X_RAISE;
}

/* ------------------------------------------------------------- try */

/* Does the exception fit the handler's type? 1, 0, -1: evaluating the type raised. */
static int fits(const Step *h, Frame *f, Value exc)
{
    Value t;
    int r;

    if (!h->a)
        return 1;
    t = h->a->eval(h->a, f);
    if (is_err(t))
        return -1;
    f->at = h->a;
    r = exc_fits(f->I, exc, t);
    value_unref(t);
    return r;
}

static Exit run_handler(const Step *h, Frame *f, Value exc)
{
    Interp *I = f->I;
    Value outer = I->handling;
    Exit x = X_NORMAL;

    I->handling = exc;
    if (h->b && !store_to(h->b, f, value_ref(exc)))
        x = X_RAISE;
    if (x == X_NORMAL)
        x = h->c->exec(h->c, f);
    if (h->b) {
        if (h->b->store == st_class_name)
            dict_del_sym(f->ns, h->b->sym);
        else
            store_to(h->b, f, VERR);
    }
    I->handling = outer;
    return x;
}

/* Find and run the handler of the pending exception. */
static Exit handle(const Step *n, Frame *f)
{
    Interp *I = f->I;
    const Step *at = f->at;
    bool again = I->reraised;
    Value exc = exc_take(I), outer = I->handling;

    for (int i = 0; i < n->seq->n; i++) {
        const Step *h = n->seq->at[i];
        int r;
        Exit x;
        I->handling = exc;
        r = fits(h, f, exc);
        I->handling = outer;
        if (r < 0) {
            value_unref(exc);
            return X_RAISE;
        }
        if (!r)
            continue;
        f->at = at;
        I->exc = exc;
        I->reraised = again;
        exc = exc_catch(I, f);
        x = run_handler(h, f, exc);
        value_unref(exc);
        return x;
    }
    f->at = at;
    I->exc = exc;
    I->reraised = again;
    return X_RAISE;
}

/* Run the finally block after exit x; what it raises or returns replaces x. */
static Exit finish(const Step *final, Frame *f, Exit x)
{
    Interp *I = f->I;
    const Step *at = f->at;
    Value ret = x == X_RETURN ? f->ret : VNONE, outer = I->handling, exc = VERR;
    bool again = I->reraised;
    Exit y;

    if (x == X_RAISE) {
        exc = exc_take(I);
        I->handling = exc;
    }
    y = final->exec(final, f);
    I->handling = outer;
    if (y == X_STAGED && x != X_NORMAL)
        y = staged_refuse(f, "a finally block after a return or an exception");
    if (y != X_NORMAL) {
        value_unref(ret);
        value_unref(exc);
        return y;
    }
    if (x == X_RAISE) {
        I->exc = exc;
        I->reraised = again;
        f->at = at;
    }
    if (x == X_RETURN)
        f->ret = ret;
    return x;
}

/* A staged branch that leaves ends here: outside it goes on as *left says. */
static Exit settle(Frame *f, Exit x, Left *left)
{
    return x == X_STAGED ? staged_settle(f, left) : x;
}

Exit ex_try(const Step *n, Frame *f)
{
    Left left = NOT_LEFT;
    Exit x = settle(f, n->a->exec(n->a, f), &left);

    if (x == X_RAISE && n->seq->n)
        x = settle(f, handle(n, f), &left);
    else if (x == X_NORMAL && n->b)
        x = settle(f, is_err(left.code) ? n->b->exec(n->b, f) : staged_leave(f, &left, n->b), &left);
    if (n->c)
        x = finish(n->c, f, x);
    if (x == X_STAGED && !is_err(left.code))
        x = staged_refuse(f, "a finally block of a try block that it may also leave");
    if (x == X_NORMAL && !is_err(left.code))
        return staged_leave(f, &left, NULL);
    left_drop(&left);
    return x;
}

/* ------------------------------------------------------------- with */

static Value special(Frame *f, Value mgr, Dunder d, const char *name)
{
    Value m = class_of(f->I, mgr)->dunder[d];

    if (is_err(m))
        return raise(f->I, EXC_TypeError, "'%s' object does not support the context manager protocol (missed %s method)",
                     value_type_name(mgr), name);
    return value_ref(m);
}

static Value maybe_await(Frame *f, Value v, bool is_async)
{
    return is_async && !is_err(v) ? gen_await(f, v) : v;
}

/* Tell __exit__ of the exception: 1 it swallows it, 0 not, -1 it raised itself. */
static int exit_with(Frame *f, Value exit, Value mgr, Value exc, bool is_async)
{
    Value tb = value_getattr_opt(f->I, exc, sym("__traceback__")), r;
    int t;

    r = value_call(f->I, exit, (Value[]){mgr, vobj(class_of(f->I, exc)), exc, is_err(tb) ? VNONE : tb}, 4);
    value_unref(tb);
    r = maybe_await(f, r, is_async);
    if (is_err(r))
        return -1;
    t = truth(f->I, r);
    value_unref(r);
    return t;
}

static Exit leave_raising(const Step *n, Frame *f, Value exit, Value mgr, bool is_async)
{
    Interp *I = f->I;
    const Step *at = f->at;
    bool again = I->reraised;
    Value exc = exc_take(I), outer = I->handling;
    int swallow;

    I->handling = exc;
    f->at = n;
    swallow = exit_with(f, exit, mgr, exc, is_async);
    I->handling = outer;
    if (swallow) {
        value_unref(exc);
        return swallow > 0 ? X_NORMAL : X_RAISE;
    }
    f->at = at;
    I->exc = exc;
    I->reraised = again;
    return X_RAISE;
}

static Exit leave(const Step *n, Frame *f, Value exit, Value mgr, Exit x, bool is_async)
{
    Value ret = x == X_RETURN ? f->ret : VNONE, r;

    if (x == X_RAISE)
        return leave_raising(n, f, exit, mgr, is_async);
    f->at = n;
    r = value_call(f->I, exit, (Value[]){mgr, VNONE, VNONE, VNONE}, 4);
    r = maybe_await(f, r, is_async);
    value_unref(r);
    if (is_err(r)) {
        value_unref(ret);
        return X_RAISE;
    }
    if (x == X_RETURN)
        f->ret = ret;
    return x;
}

static Exit run_with(const Step *n, Frame *f, bool is_async)
{
    Value mgr = n->a->eval(n->a, f), enter, exit, got;
    Left left = NOT_LEFT;
    Exit x = X_NORMAL;

    if (is_err(mgr))
        return X_RAISE;
    f->at = n;
    enter = special(f, mgr, is_async ? D_aenter : D_enter, is_async ? "__aenter__" : "__enter__");
    exit = is_err(enter) ? VERR : special(f, mgr, is_async ? D_aexit : D_exit, is_async ? "__aexit__" : "__exit__");
    got = is_err(exit) ? VERR : maybe_await(f, value_call(f->I, enter, &mgr, 1), is_async);
    value_unref(enter);
    if (is_err(got)) {
        value_unref(exit);
        value_unref(mgr);
        return X_RAISE;
    }
    if (n->b)
        x = store_to(n->b, f, got) ? X_NORMAL : X_RAISE;
    else
        value_unref(got);
    if (x == X_NORMAL)
        x = n->c->exec(n->c, f);
    x = leave(n, f, exit, mgr, settle(f, x, &left), is_async);
    value_unref(exit);
    value_unref(mgr);
    if (x == X_NORMAL && !is_err(left.code))
        return staged_leave(f, &left, NULL);
    left_drop(&left);
    return x;
}

Exit ex_with(const Step *n, Frame *f) { return run_with(n, f, false); }
Exit ex_with_async(const Step *n, Frame *f) { return run_with(n, f, true); }
