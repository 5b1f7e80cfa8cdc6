/*
 * async and await.
 *
 * Awaiting runs the coroutine as yield from does: what it yields goes up to the event loop (tasks.c).  The only things
 * yielded there are waits: for a future, or for another turn.  Asynchronous generators mark what they yield to their
 * consumer by not being waits, so that an await inside them still reaches the loop.
 */
#include "frontend/eval/tasks.h"

/* ------------------------------------------------------------- await */

/* Yield to the loop from inside a coroutine; at the top level run the loop here. Steals wait. */
static Value wait_for(Frame *f, Value wait)
{
    Value on = ((Wait *)wait.o)->future;
    bool ok;

    if (f->gen && (f->gen->obj.kind == V_COROUTINE || f->gen->is_async_gen))
        return gen_yield(f, wait);
    ok = is_err(on) ? loop_turn(f->I) : loop_until(f->I, (Future *)on.o);
    value_unref(wait);
    return ok ? VNONE : VERR;
}

/* The result of a future or task, once it is there. Steals v. */
static Value await_future(Frame *f, Value v)
{
    Future *t = (Future *)v.o;
    Value r = VNONE;

    while (!is_err(r) && !t->done) {
        r = wait_for(f, wait_new(v));
        value_unref(r);
    }
    if (!is_err(r)) {
        t->seen = true;
        r = is_err(t->error) ? value_ref(t->result) : VERR;
        if (!is_err(t->error))
            f->I->exc = value_ref(t->error);
    }
    value_unref(v);
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

static bool is_agen_step(Value v);
static Value await_step(Frame *f, Value step);

Value gen_await(Frame *f, Value v)
{
    Value m, it;

    if (v.tag == V_COROUTINE)
        return await_coroutine(f, v);
    if (is_future(v))
        return await_future(f, v);
    if (is_native(v, &wait_type))
        return wait_for(f, v);
    if (is_agen_step(v))
        return await_step(f, v);
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
    if (is_future(it))
        return await_future(f, it);
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

/* ------------------------------------------------------------- asynchronous generators */

/* Run an asynchronous generator to its next value; its waits go to the loop. V_ERR without pending: exhausted. */
static Value agen_resume(Frame *f, GenObj *g, Value v, int how)
{
    Value y = gen_resume(f->I, g, v, how), thrown;

    while (!is_err(y) && is_native(y, &wait_type)) {
        y = wait_for(f, y);
        if (is_err(y)) {                /* cancelled: it is told where it waits */
            thrown = exc_take(f->I);
            y = gen_resume(f->I, g, thrown, 1);
            value_unref(thrown);
        } else {
            value_unref(y);
            y = gen_resume(f->I, g, VNONE, 0);
        }
    }
    return y;
}

/* The next value of an asynchronous iterator. */
Value anext_value(Interp *I, Frame *f, Value ait)
{
    Value r;

    if (ait.tag == V_GENERATOR)
        return agen_resume(f, (GenObj *)ait.o, VNONE, 0);
    r = value_call_method(I, ait, sym("__anext__"), NULL, 0);
    if (!is_err(r))
        r = gen_await(f, r);
    if (is_err(r) && exc_matches(I, EXC_StopAsyncIteration))
        exc_clear(I);
    return r;
}

/* What __anext__, asend, athrow and aclose give: awaiting it steps the generator. */
typedef struct AgenStep { NativeInst inst; Value gen, v, otherwise; int how; bool closes; } AgenStep;     /* otherwise: at the end; V_ERR raises */

static void step_free(void *self)
{
    value_unref(((AgenStep *)self)->gen);
    value_unref(((AgenStep *)self)->v);
    value_unref(((AgenStep *)self)->otherwise);
}

static const NativeType step_type = {.name = "async_generator_step", .free = step_free};

static bool is_agen_step(Value v) { return is_native(v, &step_type); }

static AgenStep *step_new(Value it, Value v, int how)
{
    AgenStep *s = nativeobj_new(&step_type, sizeof *s);

    s->gen = value_ref(it);
    s->v = value_ref(v);
    s->otherwise = VERR;
    s->how = how;
    return s;
}

static Value agen_step(Interp *I, Value gen, Value v, int how)
{
    if (gen.tag != V_GENERATOR || !((GenObj *)gen.o)->is_async_gen)
        return raise(I, EXC_TypeError, "'%s' object is not an asynchronous generator", value_type_name(gen));
    return vobj(step_new(gen, v, how));
}

/* After GeneratorExit was thrown in: None, unless it raised something else or went on. */
static Value agen_closed(Interp *I, Value r)
{
    if (!is_err(r)) {
        value_unref(r);
        return raise(I, EXC_RuntimeError, "async generator ignored GeneratorExit");
    }
    if (exc_pending(I) && !exc_matches(I, EXC_GeneratorExit) && !exc_matches(I, EXC_StopAsyncIteration))
        return VERR;
    exc_clear(I);
    return VNONE;
}

static Value await_step(Frame *f, Value v)
{
    AgenStep *s = (AgenStep *)v.o;
    Value r = s->gen.tag == V_GENERATOR ? agen_resume(f, (GenObj *)s->gen.o, s->v, s->how) : anext_value(f->I, f, s->gen);

    if (s->closes)
        r = agen_closed(f->I, r);
    else if (is_err(r) && !exc_pending(f->I) && !is_err(s->otherwise))
        r = value_ref(s->otherwise);
    else if (is_err(r) && !exc_pending(f->I))
        raise_value(f->I, vobj(exc_class(f->I, EXC_StopAsyncIteration)));
    value_unref(v);
    return r;
}

/* ------------------------------------------------------------- natives */

static Value method_aiter(Interp *I, Value *a) { return value_ref(a[0]); }

static Value method_anext(Interp *I, Value *a) { return agen_step(I, a[0], VNONE, 0); }
static Value method_asend(Interp *I, Value *a) { return agen_step(I, a[0], a[1], 0); }
static Value method_athrow(Interp *I, Value *a) { return agen_step(I, a[0], a[1], 1); }

static Value method_aclose(Interp *I, Value *a)
{
    Value s = agen_step(I, a[0], vobj(exc_class(I, EXC_GeneratorExit)), 1);

    if (!is_err(s))
        ((AgenStep *)s.o)->closes = true;
    return s;
}

static Value native_anext(Interp *I, Value *a)
{
    AgenStep *s;

    if (a[0].tag != V_GENERATOR && is_err(value_dunder(I, a[0], D_anext)))
        return raise(I, EXC_TypeError, "'%s' object is not an async iterator", value_type_name(a[0]));
    s = step_new(a[0], VNONE, 0);
    s->otherwise = value_ref(a[1]);
    return vobj(s);
}

static Value native_aiter(Interp *I, Value *a)
{
    return a[0].tag == V_GENERATOR ? value_ref(a[0]) : value_call_method(I, a[0], sym("__aiter__"), NULL, 0);
}

const NativeDef natives_async[] = {
    {"", "aiter", native_aiter, "(iterable: Any, /) -> Any", "the asynchronous iterator of something"},
    {"", "anext", native_anext, "(iterator: Any, default: Any = ..., /) -> Any", "await it: the next value, or default at the end"},
    {"generator", "__aiter__", method_aiter, "(self) -> Any", "itself"},
    {"generator", "__anext__", method_anext, "(self) -> Any", "await it for the next value"},
    {"generator", "asend", method_asend, "(self, value: Any, /) -> Any", "await it: the value is sent in, and the next one comes out"},
    {"generator", "athrow", method_athrow, "(self, exception: Any, /) -> Any", "await it: the exception is raised where it waits"},
    {"generator", "aclose", method_aclose, "(self) -> Any", "await it: GeneratorExit is raised where it waits, so that it ends"},
    {"coroutine", "__await__", method_aiter, "(self) -> Any", "itself"},
    {0},
};
