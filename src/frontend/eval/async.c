/*
 * async and await.
 *
 * Awaiting runs the coroutine as yield from does: what it yields goes up to
 * the event loop.  The only things yielded there are waits: a time to wake at
 * (sleep) or a task to be finished (gather).  Asynchronous generators mark
 * what they yield to their consumer, so that an await inside them still
 * reaches the loop.
 */
#include "frontend/eval/eval.h"

#include <time.h>

/* A coroutine under way in the loop. */
typedef struct Task {
    NativeInst inst;
    Value coro, result, error;  /* error V_ERR: none */
    Value wait;                 /* the Task or Wait it waits on; V_ERR: ready */
    double wake;
    bool done;
    struct Task *next;
} Task;

static void task_free(void *self)
{
    Task *t = self;

    value_unref(t->coro);
    value_unref(t->result);
    value_unref(t->error);
    value_unref(t->wait);
}

static const NativeType task_type = {.name = "Task", .free = task_free};

/* What a coroutine yields to the loop: be woken at a time, or when a task is done. */
typedef struct Wait { NativeInst inst; double wake; Value task; } Wait;

static void wait_free(void *self)
{
    value_unref(((Wait *)self)->task);
}

static const NativeType wait_type = {.name = "Wait", .free = wait_free};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool is_native(Value v, const NativeType *t) { return v.tag == V_NATIVEOBJ && ((NativeInst *)v.o)->type == t; }

static Value wait_new(double wake, Value task)
{
    Wait *w = nativeobj_new(&wait_type, sizeof *w);

    w->wake = wake;
    w->task = value_ref(task);
    return vobj(w);
}

static Value task_new(Value coro)
{
    Task *t = nativeobj_new(&task_type, sizeof *t);

    t->coro = value_ref(coro);
    return vobj(t);
}

/* ------------------------------------------------------------- the loop */

static bool task_ready(Task *t)
{
    if (is_err(t->wait))
        return now() >= t->wake;
    if (!((Task *)t->wait.o)->done)
        return false;
    value_unref(t->wait);
    t->wait = VERR;
    return true;
}

static void task_step(Interp *I, Task *t)
{
    GenObj *g = (GenObj *)t->coro.o;
    Value y = gen_resume(I, g, VNONE, 0);

    if (is_err(y)) {
        t->done = true;
        if (exc_pending(I)) {
            t->error = exc_take(I);
        } else {
            t->result = is_err(g->out) ? VNONE : g->out;
            g->out = VERR;
        }
        return;
    }
    t->wake = now();
    if (is_native(y, &wait_type)) {
        t->wake = ((Wait *)y.o)->wake > 0 ? ((Wait *)y.o)->wake : t->wake;
        t->wait = value_ref(((Wait *)y.o)->task);
    }
    value_unref(y);
}

static void task_add(Interp *I, Task *t)
{
    Task **p = (Task **)&I->tasks;

    while (*p)
        p = &(*p)->next;
    t->next = NULL;
    *p = t;
    t->inst.obj.refs++;
}

static void drop_done(Interp *I)
{
    Task **p = (Task **)&I->tasks;

    while (*p) {
        Task *t = *p;
        if (!t->done) {
            p = &t->next;
            continue;
        }
        *p = t->next;
        t->next = NULL;
        obj_unref(t);
    }
}

/* Sleep until the first task can go on. */
static bool idle(Interp *I)
{
    double wake = -1, left;
    struct timespec ts;

    for (Task *t = (Task *)I->tasks; t; t = t->next)
        if (is_err(t->wait) && (wake < 0 || t->wake < wake))
            wake = t->wake;
    if (wake < 0) {
        raise(I, EXC_RuntimeError, "deadlock: every task waits for another one");
        return false;
    }
    left = wake - now();
    if (left > 0.05)
        left = 0.05;            /* ctrl-C is looked at in between */
    if (left > 0) {
        ts.tv_sec = 0;
        ts.tv_nsec = (long)(left * 1e9);
        nanosleep(&ts, NULL);
    }
    return interp_poll(I);
}

/* One step of the task that should have gone on first, so that a slow machine keeps the order. false: none is ready. */
static bool step_any(Interp *I)
{
    Task *first = NULL;

    for (Task *t = (Task *)I->tasks; t; t = t->next)
        if (!t->done && task_ready(t) && (!first || t->wake < first->wake))
            first = t;
    if (!first)
        return false;
    first->inst.obj.refs++;
    task_step(I, first);
    obj_unref(first);
    drop_done(I);
    return true;
}

static bool run_until(Interp *I, Task *main)
{
    while (!main->done)
        if (!step_any(I) && !idle(I))
            return false;
    return true;
}

Value async_run(Interp *I, Value coro)
{
    Value tv, r = VERR;
    Task *t;

    if (coro.tag != V_COROUTINE)
        return raise(I, EXC_TypeError, "a coroutine was expected, got '%s'", value_type_name(coro));
    tv = task_new(coro);
    t = (Task *)tv.o;
    task_add(I, t);
    if (run_until(I, t)) {
        if (is_err(t->error))
            r = value_ref(t->result);
        else {
            value_unref(I->exc);
            I->exc = value_ref(t->error);
        }
    } else {
        t->done = true;
        drop_done(I);
    }
    value_unref(tv);
    return r;
}

/* ------------------------------------------------------------- await */

/* Yield to the loop from inside a coroutine; at the top level run the loop here. */
static Value wait_for(Frame *f, Value wait)
{
    Interp *I = f->I;
    Wait *w = (Wait *)wait.o;
    bool ok = true;

    if (f->gen && (f->gen->obj.kind == V_COROUTINE || f->gen->is_async_gen))
        return gen_yield(f, wait);
    while (ok && (is_err(w->task) ? now() < w->wake : !((Task *)w->task.o)->done)) {
        if (!step_any(I))
            ok = is_err(w->task) ? interp_poll(I) : idle(I);
    }
    value_unref(wait);
    return ok ? VNONE : VERR;
}

static Value await_task(Frame *f, Value tv)
{
    Task *t = (Task *)tv.o;
    Value r;

    while (!t->done) {
        r = wait_for(f, wait_new(0, tv));
        if (is_err(r)) {
            value_unref(tv);
            return VERR;
        }
        value_unref(r);
    }
    if (is_err(t->error)) {
        r = value_ref(t->result);
    } else {
        value_unref(f->I->exc);
        f->I->exc = value_ref(t->error);
        r = VERR;
    }
    value_unref(tv);
    return r;
}

/* Step a coroutine to its end, passing its waits on to the loop. Steals coro. */
static Value await_coroutine(Frame *f, Value coro)
{
    GenObj *g = (GenObj *)coro.o;
    Interp *I = f->I;
    Value y, r, thrown = VERR;

    if (g->state == GEN_DONE) {
        value_unref(coro);
        return raise(I, EXC_RuntimeError, "cannot reuse already awaited coroutine");
    }
    for (;;) {
        y = is_err(thrown) ? gen_resume(I, g, VNONE, 0) : gen_resume(I, g, thrown, 1);
        value_unref(thrown);
        thrown = VERR;
        if (is_err(y))
            break;
        r = is_native(y, &wait_type) ? wait_for(f, y) : y;
        if (is_err(r))
            thrown = exc_take(I);
        else
            value_unref(r);
    }
    r = VERR;
    if (!exc_pending(I)) {
        r = is_err(g->out) ? VNONE : g->out;
        g->out = VERR;
    }
    value_unref(coro);
    return r;
}

static bool is_gathering(Value v);
static Value await_all(Frame *f, Value gathering);

Value gen_await(Frame *f, Value v)
{
    Value m, it;

    if (v.tag == V_COROUTINE)
        return await_coroutine(f, v);
    if (is_native(v, &task_type))
        return await_task(f, v);
    if (is_native(v, &wait_type))
        return wait_for(f, v);
    if (is_gathering(v))
        return await_all(f, v);
    m = v.tag == V_INSTANCE ? class_of(f->I, v)->dunder[D_await] : VERR;
    if (is_err(m)) {
        raise(f->I, EXC_TypeError, "object %s can't be used in 'await' expression", value_type_name(v));
        value_unref(v);
        return VERR;
    }
    it = value_call(f->I, m, &v, 1);
    value_unref(v);
    if (is_err(it))
        return VERR;
    if (it.tag == V_COROUTINE)
        return await_coroutine(f, it);
    for (;;) {                  /* an iterator: run it through */
        Value y = value_next(f->I, it);
        if (is_err(y))
            break;
        value_unref(y);
    }
    Value r = VERR;
    if (!exc_pending(f->I))
        r = it.tag == V_GENERATOR && !is_err(((GenObj *)it.o)->out) ? value_ref(((GenObj *)it.o)->out) : VNONE;
    value_unref(it);
    return r;
}

/* The next value of an asynchronous iterator. */
Value anext_value(Interp *I, Frame *f, Value ait)
{
    Value r;

    if (ait.tag == V_GENERATOR) {
        for (;;) {              /* its waits go to the loop, the rest is for us */
            r = gen_resume(I, (GenObj *)ait.o, VNONE, 0);
            if (is_err(r) || !is_native(r, &wait_type))
                return r;
            r = wait_for(f, r);
            if (is_err(r))
                return VERR;
            value_unref(r);
        }
    }
    r = value_call_method(I, ait, sym("__anext__"), NULL, 0);
    if (!is_err(r))
        r = gen_await(f, r);
    if (is_err(r) && exc_matches(I, EXC_StopAsyncIteration))
        exc_clear(I);
    return r;
}

/* ------------------------------------------------------------- natives */

static Value native_run(Interp *I, Value *a) { return async_run(I, a[0]); }

static Value native_sleep(Interp *I, Value *a)
{
    double s;

    return value_as_float(I, a[0], &s) ? wait_new(now() + s, VERR) : VERR;
}

static Value native_task(Interp *I, Value *a)
{
    Value t;

    if (a[0].tag != V_COROUTINE)
        return raise(I, EXC_TypeError, "a coroutine was expected, got '%s'", value_type_name(a[0]));
    t = task_new(a[0]);
    task_add(I, (Task *)t.o);
    return t;
}

/* gather(*coroutines): all run; awaiting it gives the list of their results. */
typedef struct Gather { NativeInst inst; Value tasks; } Gather;

static void gather_free(void *self)
{
    value_unref(((Gather *)self)->tasks);
}

static const NativeType gather_type = {.name = "gathering", .free = gather_free};

static bool is_gathering(Value v) { return is_native(v, &gather_type); }

static Value native_gather(Interp *I, Value *a)
{
    TupleObj *coros = as_tuple(a[0]);
    Gather *g;

    for (int64_t i = 0; i < coros->n; i++)
        if (coros->at[i].tag != V_COROUTINE && !is_native(coros->at[i], &task_type))
            return raise(I, EXC_TypeError, "a coroutine was expected, got '%s'", value_type_name(coros->at[i]));
    g = nativeobj_new(&gather_type, sizeof *g);
    g->tasks = list_new(coros->n);
    for (int64_t i = 0; i < coros->n; i++) {
        Value t = coros->at[i].tag == V_COROUTINE ? task_new(coros->at[i]) : value_ref(coros->at[i]);
        if (coros->at[i].tag == V_COROUTINE)
            task_add(I, (Task *)t.o);
        list_push(as_list(g->tasks), t);
    }
    return vobj(g);
}

static Value await_all(Frame *f, Value gathering)
{
    ListObj *tasks = as_list(((Gather *)gathering.o)->tasks);
    Value out = list_new(tasks->n), r = VNONE;

    for (int64_t i = 0; i < tasks->n && !is_err(r); i++)
        if (!is_err(r = await_task(f, value_ref(tasks->at[i]))))
            list_push(as_list(out), r);
    value_unref(gathering);
    if (!is_err(r))
        return out;
    value_unref(out);
    return VERR;
}

static Value method_aiter(Interp *I, Value *a) { return value_ref(a[0]); }

static Value method_anext(Interp *I, Value *a)
{
    Value r;

    if (a[0].tag != V_GENERATOR)
        return raise(I, EXC_TypeError, "'%s' object is not an asynchronous generator", value_type_name(a[0]));
    r = anext_value(I, I->frame, a[0]);
    if (is_err(r)) {
        if (!exc_pending(I))
            raise_value(I, vobj(exc_class(I, EXC_StopAsyncIteration)));
        return VERR;
    }
    Task *t = (Task *)task_new(VNONE).o;    /* awaiting a finished task gives the value */
    t->done = true;
    t->result = r;
    return vobj(t);
}

const NativeDef natives_async[] = {
    {"", "run", native_run, "(coroutine: Any, /) -> Any", "run a coroutine to its end; its result"},
    {"asyncio", "run", native_run, "(coroutine: Any, /) -> Any", "run a coroutine to its end; its result"},
    {"asyncio", "sleep", native_sleep, "(seconds: float = 0, /) -> Any", "await it to let others run for a while"},
    {"asyncio", "create_task", native_task, "(coroutine: Any, /) -> Any", "start a coroutine; await the task for its result"},
    {"asyncio", "gather", native_gather, "(*coroutines) -> Any", "start all; await it for the list of their results"},
    {"generator", "__aiter__", method_aiter, "(self) -> Any", "itself"},
    {"generator", "__anext__", method_anext, "(self) -> Any", "await it for the next value"},
    {0},
};
