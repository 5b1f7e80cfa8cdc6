/*
 * Exceptions in control flow: raise, try, with.
 *
 * While a handler's type is compared and while a finally block or an __exit__
 * runs, the exception is out of the Interp, and counts as the one being
 * handled, so that what is raised meanwhile is chained to it.
 */
#include "frontend/eval/lower.h"

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
    if (!is_err(cause))
        raise_value(I, e);
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

Exit ex_try(const Step *n, Frame *f)
{
    Exit x = n->a->exec(n->a, f);

    if (x == X_STAGED)
        x = staged_refuse(f, "a try block");
    if (x == X_RAISE && n->seq->n)
        x = handle(n, f);
    else if (x == X_NORMAL && n->b)
        x = n->b->exec(n->b, f);
    return n->c ? finish(n->c, f, x) : x;
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
    if (x == X_STAGED)
        x = staged_refuse(f, "a with block");
    x = leave(n, f, exit, mgr, x, is_async);
    value_unref(exit);
    value_unref(mgr);
    return x;
}

Exit ex_with(const Step *n, Frame *f) { return run_with(n, f, false); }
Exit ex_with_async(const Step *n, Frame *f) { return run_with(n, f, true); }
