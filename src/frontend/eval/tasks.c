/*
 * Futures, tasks, and the loop that runs them.
 *
 * The loop keeps what is ready in the order in which it became ready, and timers in the order of their times; a turn
 * runs what was ready when it began.  That is the order of Python's loop, so that programs interleave as there.  A task
 * runs its coroutine to the next wait (async.c says what a wait is) and is put behind the others when that wait ends.
 * Cancelling throws CancelledError into the coroutine where it waits; what it waits for is cancelled first.
 * Queues, locks, timeouts and the like are made of these in asyncio.tsr.
 */
#include "frontend/eval/tasks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* A task to step, a timer's future to fulfil, or a function to call with the future that is done. */
typedef struct Turn { Value who, with; } Turn;
typedef struct Timer { double at; Value future; } Timer;

typedef struct TaskLoop {
    Vec(Turn) ready;
    int first;                  /* of ready that has not had its turn */
    Vec(Timer) timers;          /* the next one last */
    Vec(Future *) alive;        /* tasks that are not done, in the order of making */
    Future *running;            /* NULL: none */
    int64_t made;
} TaskLoop;

static TaskLoop *loop_of(Interp *I)
{
    if (!I->tasks)
        I->tasks = tsr_calloc(sizeof *I->tasks);
    return I->tasks;
}

void loop_free(TaskLoop *l)
{
    if (!l)
        return;
    for (; l->first < l->ready.n; l->first++) {
        value_unref(l->ready.at[l->first].who);
        value_unref(l->ready.at[l->first].with);
    }
    for (int i = 0; i < l->timers.n; i++)
        value_unref(l->timers.at[i].future);
    for (int i = 0; i < l->alive.n; i++)
        obj_unref(l->alive.at[i]);
    vec_free(&l->ready);
    vec_free(&l->timers);
    vec_free(&l->alive);
    tsr_free(l);
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ------------------------------------------------------------- futures */

/* An error that nobody will see any more is told on stderr, once. */
static void tell_unseen(Future *f)
{
    StrBuf b = {0};

    if (is_err(f->coro) || is_err(f->error) || f->cancelled || f->seen)
        return;
    interp_flush(f->I);
    sb_puts(&b, "Task exception was never retrieved\n");
    exc_render(f->I, f->error, &b);
    fwrite(b.s, 1, b.n, stderr);
    sb_done(&b);
}

static void future_free(void *self)
{
    Future *f = self;

    tell_unseen(f);
    value_unref(f->coro);
    value_unref(f->result);
    value_unref(f->error);
    value_unref(f->waits);
    value_unref(f->told);
}

static void future_visit(void *self, void (*fn)(Value *v, void *st), void *st)
{
    Future *f = self;

    fn(&f->coro, st);
    fn(&f->result, st);
    fn(&f->error, st);
    fn(&f->waits, st);
    fn(&f->told, st);
}

static void future_repr(Interp *I, void *self, StrBuf *out)
{
    Future *f = self;
    const char *state = !f->done ? "pending" : f->cancelled ? "cancelled" : "finished";

    if (is_err(f->coro))
        sb_printf(out, "<Future %s>", state);
    else
        sb_printf(out, "<Task %s name='Task-%lld'>", state, (long long)f->number);
}

const NativeType future_type = {.name = "Future", .free = future_free, .visit = future_visit, .repr = future_repr};
const NativeType task_type = {.name = "Task", .free = future_free, .visit = future_visit, .repr = future_repr};

static void wait_free(void *self) { value_unref(((Wait *)self)->future); }

const NativeType wait_type = {.name = "Wait", .free = wait_free};

Value wait_new(Value future)
{
    Wait *w = nativeobj_new(&wait_type, sizeof *w);

    w->future = value_ref(future);
    return vobj(w);
}

static Future *make(Interp *I, const NativeType *type, Value coro)
{
    Future *f = nativeobj_new(type, sizeof *f);

    f->I = I;
    f->coro = value_ref(coro);
    f->result = f->error = f->waits = f->told = VERR;
    return f;
}

static Value future_new(Interp *I) { return vobj(make(I, &future_type, VERR)); }

static void ready_push(TaskLoop *l, Value who, Value with)
{
    Turn t = {value_ref(who), value_ref(with)};

    vec_push(&l->ready, t);
}

/* A task for a coroutine; anything else raises TypeError. */
static Value task_new(Interp *I, Value coro)
{
    TaskLoop *l = loop_of(I);
    Future *f;

    if (coro.tag != V_COROUTINE)
        return raise(I, EXC_TypeError, "a coroutine was expected, got '%s'", value_type_name(coro));
    f = make(I, &task_type, coro);
    f->number = ++l->made;
    f->inst.obj.refs++;
    vec_push(&l->alive, f);
    ready_push(l, vobj(f), VERR);
    return vobj(f);
}

static void alive_drop(TaskLoop *l, Future *f)
{
    for (int i = 0; i < l->alive.n; i++) {
        if (l->alive.at[i] != f)
            continue;
        memmove(l->alive.at + i, l->alive.at + i + 1, (size_t)(l->alive.n - i - 1) * sizeof *l->alive.at);
        l->alive.n--;
        obj_unref(f);
        return;
    }
}

/* Done, with a result, or with an error; both are stolen. Who waits for it goes on. */
static void future_finish(Future *f, Value result, Value error)
{
    TaskLoop *l = loop_of(f->I);
    Value told = f->told;

    f->done = true;
    f->result = result;
    f->error = error;
    value_unref(f->waits);
    f->waits = f->told = VERR;
    for (int64_t i = 0; !is_err(told) && i < as_list(told)->n; i++)
        ready_push(l, as_list(told)->at[i], vobj(f));
    value_unref(told);
    if (!is_err(f->coro))
        alive_drop(l, f);
}

/* Whoever it is has its turn when f is done: a task, or a function that is called with f. */
static void future_tell(Future *f, Value who)
{
    if (f->done) {
        ready_push(loop_of(f->I), who, vobj(f));
        return;
    }
    if (is_err(f->told))
        f->told = list_new(1);
    list_push(as_list(f->told), value_ref(who));
}

static Value cancelled_error(Interp *I)
{
    raise_value(I, vobj(exc_class(I, EXC_CancelledError)));
    return exc_take(I);
}

static bool cancel(Future *f);

static bool cancel_waits(Future *f)
{
    Value w = value_ref(f->waits);
    bool any = false;

    if (w.tag == V_LIST) {
        for (int64_t i = 0; i < as_list(w)->n; i++)
            any |= cancel((Future *)as_list(w)->at[i].o);
    } else if (!is_err(w)) {
        any = cancel((Future *)w.o);
    }
    value_unref(w);
    return any;
}

/* Ask that it ends with CancelledError. false: it is done already. */
static bool cancel(Future *f)
{
    if (f->done)
        return false;
    f->cancels++;
    if (cancel_waits(f))
        return true;
    if (!is_err(f->coro)) {
        f->must_cancel = true;
        return true;
    }
    f->cancelled = true;
    future_finish(f, VERR, cancelled_error(f->I));
    return true;
}

/* ------------------------------------------------------------- a task's step */

static bool leaves_the_loop(Interp *I)
{
    return exc_matches(I, EXC_KeyboardInterrupt) || exc_matches(I, EXC_SystemExit);
}

/* The coroutine returned or raised. false: what it raised ends the loop, too. */
static bool task_end(Interp *I, Future *t)
{
    GenObj *g = (GenObj *)t->coro.o;
    Value out = VERR, error = VERR;
    bool go = true;

    if (exc_pending(I)) {
        go = !leaves_the_loop(I);
        t->cancelled = exc_matches(I, EXC_CancelledError);
        error = exc_take(I);
    } else if (t->must_cancel) {
        t->cancelled = true;
        error = cancelled_error(I);
    } else {
        out = is_err(g->out) ? VNONE : g->out;
        g->out = VERR;
    }
    if (!go) {
        t->seen = true;
        raise_value(I, error);
    }
    future_finish(t, out, error);
    return go;
}

/* The coroutine yielded: steals y. */
static void task_wait(Interp *I, Future *t, Value y)
{
    Value on = is_native(y, &wait_type) ? ((Wait *)y.o)->future : VERR;

    if (is_err(on)) {
        ready_push(loop_of(I), vobj(t), VERR);
    } else {
        t->waits = value_ref(on);
        future_tell((Future *)on.o, vobj(t));
        if (t->must_cancel && cancel((Future *)on.o))
            t->must_cancel = false;
    }
    value_unref(y);
}

static bool task_step(Interp *I, Future *t)
{
    TaskLoop *l = loop_of(I);
    Future *outer = l->running;
    Value y, thrown = VERR;

    if (t->done)
        return true;
    value_unref(t->waits);
    t->waits = VERR;
    if (t->must_cancel) {
        t->must_cancel = false;
        thrown = cancelled_error(I);
    }
    l->running = t;
    y = is_err(thrown) ? gen_resume(I, (GenObj *)t->coro.o, VNONE, 0) : gen_resume(I, (GenObj *)t->coro.o, thrown, 1);
    l->running = outer;
    value_unref(thrown);
    if (is_err(y))
        return task_end(I, t);
    task_wait(I, t, y);
    return true;
}

/* ------------------------------------------------------------- the loop */

static void timers_drop_done(TaskLoop *l)
{
    while (l->timers.n && ((Future *)vec_last(&l->timers).future.o)->done) {
        Value f = vec_pop(&l->timers).future;
        value_unref(f);
    }
}

/* Sleep until the next timer, or for a moment: ctrl-C is looked at in between. */
static bool loop_sleep(Interp *I, TaskLoop *l)
{
    struct timespec ts = {0};
    double left;

    if (!l->timers.n) {
        raise(I, EXC_RuntimeError, "deadlock: every task waits for another one");
        return false;
    }
    left = fmin(vec_last(&l->timers).at - now(), 0.05);
    if (left > 0) {
        ts.tv_nsec = (long)(left * 1e9);
        nanosleep(&ts, NULL);
    }
    return interp_poll(I);
}

static void timers_ring(TaskLoop *l)
{
    double t = l->timers.n ? now() : 0;

    while (l->timers.n && vec_last(&l->timers).at <= t) {
        Turn turn = {vec_pop(&l->timers).future, VERR};
        vec_push(&l->ready, turn);
    }
}

static bool turn_take(Interp *I, Turn t)
{
    bool ok = true;

    if (is_native(t.who, &task_type)) {
        ok = task_step(I, (Future *)t.who.o);
    } else if (is_native(t.who, &future_type)) {
        if (!((Future *)t.who.o)->done)
            future_finish((Future *)t.who.o, VNONE, VERR);
    } else {
        Value r = value_call(I, t.who, &t.with, 1);
        ok = !is_err(r);
        value_unref(r);
    }
    value_unref(t.who);
    value_unref(t.with);
    return ok;
}

bool loop_turn(Interp *I)
{
    TaskLoop *l = loop_of(I);
    int n;

    timers_drop_done(l);
    if (l->first == l->ready.n && !loop_sleep(I, l))
        return false;
    timers_ring(l);
    n = l->ready.n - l->first;
    for (int i = 0; i < n && l->first < l->ready.n; i++) {      /* a turn may run the loop itself */
        Turn t = l->ready.at[l->first++];
        if (!turn_take(I, t))
            return false;
    }
    memmove(l->ready.at, l->ready.at + l->first, (size_t)(l->ready.n - l->first) * sizeof *l->ready.at);
    l->ready.n -= l->first;
    l->first = 0;
    return interp_poll(I);
}

bool loop_until(Interp *I, const Future *f)
{
    while (!f->done)
        if (!loop_turn(I))
            return false;
    return true;
}

/* Cancel the tasks made after `number`, and run until they have ended. What is pending stays so. */
static void cancel_rest(Interp *I, int64_t number)
{
    TaskLoop *l = loop_of(I);
    Value was = exc_pending(I) ? exc_take(I) : VERR, rest = list_new(l->alive.n);
    bool ok = true;

    for (int i = 0; i < l->alive.n; i++)
        if (l->alive.at[i]->number >= number)
            list_push(as_list(rest), value_ref(vobj(l->alive.at[i])));
    for (int64_t i = 0; i < as_list(rest)->n; i++)
        cancel((Future *)as_list(rest)->at[i].o);
    for (int64_t i = 0; ok && i < as_list(rest)->n; i++)
        ok = loop_until(I, (Future *)as_list(rest)->at[i].o);
    value_unref(rest);
    if (is_err(was))
        return;
    exc_clear(I);
    I->exc = was;
}

/* asyncio.run: the coroutine's result; what it leaves running is cancelled. */
static Value async_run(Interp *I, Value coro)
{
    TaskLoop *l = loop_of(I);
    int64_t number = l->made + 1;
    Value tv, r = VERR;
    Future *t;

    if (l->running)
        return raise(I, EXC_RuntimeError, "asyncio.run() cannot be called from a running event loop; use await");
    tv = task_new(I, coro);
    if (is_err(tv))
        return VERR;
    t = (Future *)tv.o;
    if (loop_until(I, t)) {
        t->seen = true;
        if (is_err(t->error))
            r = value_ref(t->result);
        else
            I->exc = value_ref(t->error);
    }
    cancel_rest(I, number);
    value_unref(tv);
    if (!exc_pending(I))
        return r;
    value_unref(r);
    return VERR;
}

/* ------------------------------------------------------------- natives */

static Value native_run(Interp *I, Value *a) { return async_run(I, a[0]); }
static Value native_task(Interp *I, Value *a) { return task_new(I, a[0]); }
static Value native_turn(Interp *I, Value *a) { return wait_new(VERR); }

/* A future that is fulfilled after so many seconds; of equal times the first made is the first. */
static Value native_timer(Interp *I, Value *a)
{
    TaskLoop *l = loop_of(I);
    Timer t = {.future = VERR};
    double s;
    int i;

    if (!value_as_float(I, a[0], &s))
        return VERR;
    t.at = now() + (isnan(s) ? 0 : s);
    t.future = future_new(I);
    vec_push(&l->timers, t);
    for (i = l->timers.n - 1; i > 0 && l->timers.at[i - 1].at <= t.at; i--)
        l->timers.at[i] = l->timers.at[i - 1];
    l->timers.at[i] = t;
    return value_ref(t.future);
}

static Value native_current(Interp *I, Value *a)
{
    Future *t = loop_of(I)->running;

    return t ? value_ref(vobj(t)) : VNONE;
}

static Value native_all(Interp *I, Value *a)
{
    TaskLoop *l = loop_of(I);
    Value out = list_new(l->alive.n);

    for (int i = 0; i < l->alive.n; i++)
        list_push(as_list(out), value_ref(vobj(l->alive.at[i])));
    return out;
}

static Value c_cancelled(Interp *I, Value *a) { return value_ref(vobj(exc_class(I, EXC_CancelledError))); }
static Value c_invalid(Interp *I, Value *a) { return value_ref(vobj(exc_class(I, EXC_InvalidStateError))); }
static Value c_timeout(Interp *I, Value *a) { return value_ref(vobj(exc_class(I, EXC_TimeoutError))); }
static Value make_future(Interp *I, Value *a) { return future_new(I); }

static Value invalid_state(Interp *I, const char *what) { return raise(I, EXC_InvalidStateError, "%s", what); }

static Value f_done(Interp *I, Value *a) { return vbool(((Future *)a[0].o)->done); }
static Value f_cancelled(Interp *I, Value *a) { return vbool(((Future *)a[0].o)->cancelled); }
static Value f_cancel(Interp *I, Value *a) { return vbool(cancel((Future *)a[0].o)); }
static Value f_cancelling(Interp *I, Value *a) { return vint(((Future *)a[0].o)->cancels); }

static Value f_uncancel(Interp *I, Value *a)
{
    Future *f = (Future *)a[0].o;

    f->cancels -= f->cancels > 0;
    return vint(f->cancels);
}

static Value f_result(Interp *I, Value *a)
{
    Future *f = (Future *)a[0].o;

    if (!f->done)
        return invalid_state(I, "Result is not ready.");
    f->seen = true;
    if (is_err(f->error))
        return value_ref(f->result);
    I->exc = value_ref(f->error);
    return VERR;
}

static Value f_exception(Interp *I, Value *a)
{
    Future *f = (Future *)a[0].o;

    if (!f->done)
        return invalid_state(I, "Exception is not set.");
    if (f->cancelled)
        return f_result(I, a);
    f->seen = true;
    return is_err(f->error) ? VNONE : value_ref(f->error);
}

static Value f_set_result(Interp *I, Value *a)
{
    Future *f = (Future *)a[0].o;

    if (f->done || !is_err(f->coro))
        return invalid_state(I, f->done ? "the future is done already" : "a task's result is its coroutine's");
    future_finish(f, value_ref(a[1]), VERR);
    return VNONE;
}

static Value f_set_exception(Interp *I, Value *a)
{
    Future *f = (Future *)a[0].o;

    if (f->done || !is_err(f->coro))
        return invalid_state(I, f->done ? "the future is done already" : "a task's exception is its coroutine's");
    raise_value(I, a[1]);
    f->cancelled = exc_matches(I, EXC_CancelledError);
    future_finish(f, VERR, exc_take(I));
    return VNONE;
}

static Value f_add_done(Interp *I, Value *a)
{
    future_tell((Future *)a[0].o, a[1]);
    return VNONE;
}

/* Cancelling this future cancels those of the list. */
static Value f_depends_on(Interp *I, Value *a)
{
    Future *f = (Future *)a[0].o;

    for (int64_t i = 0; i < as_list(a[1])->n; i++)
        if (!is_future(as_list(a[1])->at[i]))
            return raise(I, EXC_TypeError, "a future was expected, got '%s'", value_type_name(as_list(a[1])->at[i]));
    value_unref(f->waits);
    f->waits = value_ref(a[1]);
    return VNONE;
}

static Value f_get_name(Interp *I, Value *a)
{
    char name[32];

    snprintf(name, sizeof name, "Task-%lld", (long long)((Future *)a[0].o)->number);
    return str_c(name);
}

static Value f_await(Interp *I, Value *a) { return value_ref(a[0]); }

/* What futures and tasks have in common. */
#define FUTURE_METHODS(owner) \
    {owner, "done", f_done, "(self) -> bool", "is it done: with a result, an exception, or cancelled?"}, \
    {owner, "cancelled", f_cancelled, "(self) -> bool", "was it cancelled?"}, \
    {owner, "cancel", f_cancel, "(self, msg: Any = None) -> bool", "ask that it ends with CancelledError; False when it is done"}, \
    {owner, "result", f_result, "(self) -> Any", "its result, or its exception raised; InvalidStateError while it is not done"}, \
    {owner, "exception", f_exception, "(self) -> Any", "its exception or None; InvalidStateError while it is not done"}, \
    {owner, "add_done_callback", f_add_done, "(self, f: Callable, /) -> None", "call f with it when it is done"}, \
    {owner, "__await__", f_await, "(self) -> Any", "itself"}

const NativeDef natives_tasks[] = {
    {"", "run", native_run, "(coroutine: Any, /) -> Any", "run a coroutine to its end; its result"},
    {"_asyncio", "run", native_run, "(coroutine: Any, /) -> Any", "run a coroutine to its end; its result"},
    {"_asyncio", "task", native_task, "(coroutine: Any, /) -> Any", "start a coroutine; await the task for its result"},
    {"_asyncio", "turn", native_turn, "() -> Any", "await it to let the others have their turn"},
    {"_asyncio", "timer", native_timer, "(seconds: float, /) -> Any", "a future that is done after so many seconds"},
    {"_asyncio", "current_task", native_current, "() -> Any", "the task that runs; None outside of one"},
    {"_asyncio", "all_tasks", native_all, "() -> list", "the tasks that are not done"},
    {"_asyncio", "Future", NULL, "type[Future]", "a result that will be there"},
    {"_asyncio", "Task", NULL, "type[Task]", "the future of a coroutine that runs"},
    {"_asyncio", "CancelledError", c_cancelled, "type[CancelledError]", "raised where a cancelled task waits; a BaseException"},
    {"_asyncio", "InvalidStateError", c_invalid, "type[InvalidStateError]", "a future is not in the state for this"},
    {"_asyncio", "TimeoutError", c_timeout, "type[TimeoutError]", "the time has passed"},
    {"Future", "__new__", make_future, "(cls) -> Future", "a result that will be there; set_result gives it"},
    {"Future", "set_result", f_set_result, "(self, result: Any, /) -> None", "it is done, with this result"},
    {"Future", "set_exception", f_set_exception, "(self, exception: Any, /) -> None", "it is done, with this exception"},
    {"Future", "depends_on", f_depends_on, "(self, futures: list, /) -> None", "cancelling it cancels these"},
    {"Task", "uncancel", f_uncancel, "(self) -> int", "take one call of cancel back; how many are left"},
    {"Task", "cancelling", f_cancelling, "(self) -> int", "how often cancel was called"},
    {"Task", "get_name", f_get_name, "(self) -> str", "Task-1, Task-2 and so on"},
    FUTURE_METHODS("Future"),
    FUTURE_METHODS("Task"),
    {0},
};
