/*
 * Generators and coroutines: functions that stop in the middle.
 *
 * The body runs on a fiber of its own, made at the first step and given back
 * at the end, with slots that the generator owns.  A yield switches back to
 * whoever asked for the next value.  Closing throws GeneratorExit into the
 * body, so that its finally blocks run, also when the last reference goes away.
 */
#include "frontend/eval/eval.h"

#include <string.h>

Value gen_new(Interp *I, FuncObj *fn, Value *slot)
{
    const Code *c = fn->code;
    GenObj *g = obj_new(c->is_async && !c->is_generator ? V_COROUTINE : V_GENERATOR, sizeof *g);
    size_t n = (size_t)c->nslots * sizeof *slot;

    g->I = I;
    g->func = fn;
    fn->obj.refs++;
    g->is_async_gen = c->is_async && c->is_generator;
    g->slot = tsr_alloc(n + sizeof *slot);
    g->nslots = c->nslots;
    memcpy(g->slot, slot, n);
    return vobj(g);
}

/* ------------------------------------------------------------- on the fiber */

static void gen_entry(void *arg)
{
    GenObj *g = arg;
    Interp *I = g->I;
    Frame f = {.slot = g->slot, .I = I, .closure = g->func->closure, .module = g->func->module, .code = g->func->code,
               .func = g->func, .gen = g, .up = I->frame};
    Value r;

    g->frame = &f;
    I->frame = &f;
    r = g->throwing ? VERR : run_code(I, &f);
    if (is_err(r))
        traceback_add(I, &f);
    g->frame = NULL;
    value_unref(g->out);
    g->out = r;
    g->state = GEN_DONE;
}

static void drop_slots(GenObj *g)
{
    if (!g->slot)
        return;
    Value *slot = g->slot;
    g->slot = NULL;
    slots_drop(slot, g->nslots);
    tsr_free(slot);
}

/* ------------------------------------------------------------- stepping */

static Value already_running(Interp *I, GenObj *g)
{
    return raise(I, EXC_ValueError, "%s already executing", g->obj.kind == V_COROUTINE ? "coroutine" : "generator");
}

static bool start(Interp *I, GenObj *g)
{
    g->fiber = fiber_new(FIBER_SMALL, gen_entry, g);
    if (g->fiber)
        return true;
    raise(I, EXC_RecursionError, "maximum recursion depth exceeded: no stack left for a generator");
    return false;
}

/* Switch to the generator's stack and back; the Interp's view of the stack goes along. */
static void switch_to(Interp *I, GenObj *g)
{
    Fiber *cur = I->fiber;
    char *limit = I->stack_limit;
    Frame *frame = I->frame;
    Value handling = I->handling;
    int depth = I->depth;

    if (g->frame)
        g->frame->up = frame;
    if (!is_err(g->handling))
        I->handling = g->handling;
    I->fiber = g->fiber;
    I->stack_limit = g->fiber->limit;
    I->depth += GEN_DEPTH;
    g->state = GEN_RUNNING;
    if (g->frame)
        I->frame = g->frame;
    fiber_resume(cur, g->fiber);
    I->fiber = cur;
    I->stack_limit = limit;
    I->frame = frame;
    I->depth = depth;
    I->handling = handling;
}

/* StopIteration that leaves a generator would end the loop around it silently. */
static void stop_is_an_error(Interp *I)
{
    if (exc_pending(I) && (exc_matches(I, EXC_StopIteration) || exc_matches(I, EXC_StopAsyncIteration))) {
        Value stop = exc_take(I);
        raise(I, EXC_RuntimeError, "generator raised %s", value_type_name(stop));
        exc_set_cause(I, stop);
        value_unref(stop);
    }
}

/* After the body ended: V_ERR, with the exception that left it, or with none and g->out the result. */
static Value finished(Interp *I, GenObj *g)
{
    fiber_free(g->fiber);
    g->fiber = NULL;
    drop_slots(g);
    if (g->obj.kind == V_GENERATOR)
        stop_is_an_error(I);
    return VERR;
}

Value gen_resume(Interp *I, GenObj *g, Value v, int how)
{
    Value out;

    if (g->state == GEN_RUNNING)
        return already_running(I, g);
    g->rounds++;
    if (g->state == GEN_DONE) {
        value_unref(g->out);
        g->out = VERR;
        return how ? raise_value(I, v) : VERR;
    }
    if (g->state == GEN_NEW && how) {       /* thrown into before it began: it ends there */
        g->state = GEN_DONE;
        drop_slots(g);
        return raise_value(I, v);
    }
    if (g->state == GEN_NEW && v.tag != V_NONE)
        return raise(I, EXC_TypeError, "can't send non-None value to a just-started generator");
    if (I->depth + GEN_DEPTH >= I->depth_limit)
        return raise(I, EXC_RecursionError, "maximum recursion depth exceeded");
    if (!g->fiber && !start(I, g))
        return VERR;
    g->obj.refs++;
    g->obj.flags++;                     /* how far it went: snapshot.c */
    g->in = value_ref(v);
    g->throwing = how != 0;
    g->arms = I->arms;
    switch_to(I, g);
    if (g->state == GEN_DONE) {
        out = finished(I, g);
    } else {
        out = g->out;
        g->out = VERR;
    }
    obj_unref(g);
    return out;
}

/* Wait for the next step; what was sent in, or V_ERR with what was thrown in. */
static Value suspend(Frame *f, GenObj *g)
{
    Interp *I = f->I;
    Value in;

    g->state = GEN_SUSPENDED;
    g->frame = f;
    fiber_suspend(g->fiber);
    in = g->in;
    g->in = VERR;
    if (!g->throwing)
        return in;
    g->throwing = 0;
    raise_value(I, in);
    value_unref(in);
    return VERR;
}

/* ------------------------------------------------------------- driven by a loop */

bool gen_drivable(Interp *I, Value v)
{
    GenObj *g = (GenObj *)v.o;

    return v.tag == V_GENERATOR && g->state == GEN_NEW && g->obj.refs == 1 && !g->is_async_gen && !g->func->code->guards &&
           !I->trace.top && I->depth < I->depth_limit && (char *)__builtin_frame_address(0) > I->stack_limit;
}

/* A value for the taker, in the taker's frame.  When it wants no more, an exception unwinds the generator, which has
 * no try to notice it by. */
static Value give_away(Frame *f, GenObj *g, Value v)
{
    Interp *I = f->I;
    Value handling = I->handling;
    bool more;

    I->frame = g->caller;
    I->handling = g->handling;
    more = g->give(g->taker, v);
    I->handling = handling;
    I->frame = f;
    if (__builtin_expect(more, 1))
        return VNONE;
    g->stopped = true;
    g->quiet = !exc_pending(I);
    return g->quiet ? raise(I, EXC_GeneratorExit, "generator") : VERR;
}

bool gen_drive(Interp *I, Value v, GiveFn give, void *taker)
{
    GenObj *g = (GenObj *)v.o;
    Frame f = {.slot = g->slot, .I = I, .closure = g->func->closure, .module = g->func->module, .code = g->func->code,
               .func = g->func, .gen = g, .up = I->frame};
    Value r;

    g->obj.refs++;
    g->give = give;
    g->taker = taker;
    g->caller = I->frame;
    g->arms = I->arms;
    g->handling = I->handling;
    g->state = GEN_RUNNING;
    I->frame = &f;
    I->depth++;
    r = run_code(I, &f);
    I->depth--;
    if (is_err(r) && !g->stopped)
        traceback_add(I, &f);
    I->frame = f.up;
    I->handling = g->handling;
    g->handling = VERR;
    g->give = NULL;
    g->state = GEN_DONE;
    drop_slots(g);
    if (g->quiet)
        exc_clear(I);
    else if (!g->stopped)
        stop_is_an_error(I);
    g->out = r;                 /* what it returned, for yield from */
    obj_unref(g);
    return !is_err(r);
}

Value gen_yield(Frame *f, Value v)
{
    GenObj *g = f->gen;
    Value was;

    if (f->I->arms != g->arms) {        /* as what stands behind a `continue` that a tensor decides */
        value_unref(v);
        return staged_no_yield(f->I);
    }
    if (g->give)
        return give_away(f, g, v);
    was = g->handling;
    g->out = v;
    g->handling = f->I->handling;
    v = suspend(f, g);
    g->handling = was;
    return v;
}

/* ------------------------------------------------------------- yield from */

/* One step of what yield from waits on: the next value it yields, V_ERR when it ended or raised. */
static Value delegate_step(Interp *I, Value it, Value sent, Value thrown)
{
    Value m, r;

    if (it.tag == V_GENERATOR || it.tag == V_COROUTINE)
        return is_err(thrown) ? gen_resume(I, (GenObj *)it.o, sent, 0) : gen_resume(I, (GenObj *)it.o, thrown, 1);
    if (is_err(thrown) && sent.tag == V_NONE)
        return value_next(I, it);
    m = value_getattr_opt(I, it, sym(is_err(thrown) ? "send" : "throw"));
    if (is_err(m))
        return is_err(thrown) ? value_next(I, it) : raise_value(I, thrown);
    r = value_call(I, m, is_err(thrown) ? &sent : &thrown, 1);
    value_unref(m);
    return r;
}

static bool delegate_give(void *taker, Value v)
{
    return !is_err(gen_yield(taker, v));
}

static Value delegate_result(Interp *I, Value it)
{
    Value r = VNONE;

    if (exc_pending(I)) {
        if (!exc_matches(I, EXC_StopIteration) || it.tag == V_GENERATOR || it.tag == V_COROUTINE)
            return VERR;
        Value stop = exc_take(I);
        r = value_getattr(I, stop, I->s_value);
        value_unref(stop);
        return r;
    }
    if (it.tag == V_GENERATOR || it.tag == V_COROUTINE) {
        GenObj *g = (GenObj *)it.o;
        r = is_err(g->out) ? VNONE : g->out;
        g->out = VERR;
    }
    return r;
}

/* yield from in a driven generator: a fresh generator is driven in turn, anything else is stepped. Steals it. */
static Value delegate_driven(Frame *f, Value it)
{
    Interp *I = f->I;
    Value v, r = VERR;

    if (gen_drivable(I, it)) {
        if (gen_drive(I, it, delegate_give, f))
            r = delegate_result(I, it);
    } else {
        while (!is_err(v = delegate_step(I, it, VNONE, VERR)) && !is_err(gen_yield(f, v)))
            ;
        if (is_err(v))
            r = delegate_result(I, it);
    }
    value_unref(it);
    return r;
}

static bool gen_close(Interp *I, GenObj *g);

Value gen_delegate(Frame *f, Value it, const Step *at)
{
    Interp *I = f->I;
    Value sent = VNONE, thrown = VERR, y, r;

    f->at = at;
    if (f->gen->give)
        return delegate_driven(f, it);

    for (;;) {
        y = delegate_step(I, it, sent, thrown);
        value_unref(sent);
        value_unref(thrown);
        thrown = VERR;
        if (is_err(y))
            break;
        f->at = at;
        sent = gen_yield(f, y);
        if (!is_err(sent))
            continue;
        thrown = exc_take(I);
        sent = VNONE;
        if (class_derives(class_of(I, thrown), exc_class(I, EXC_GeneratorExit)) && it.tag == V_GENERATOR) {
            bool ok = gen_close(I, (GenObj *)it.o);
            if (ok)
                raise_value(I, thrown);
            value_unref(thrown);
            value_unref(it);
            return VERR;
        }
    }
    r = delegate_result(I, it);
    value_unref(it);
    return r;
}

/* ------------------------------------------------------------- closing */

static bool gen_close(Interp *I, GenObj *g)
{
    Value e, r;

    if (g->state == GEN_NEW) {
        g->state = GEN_DONE;
        drop_slots(g);
    }
    if (g->state == GEN_DONE)
        return true;
    e = instance_new(exc_class(I, EXC_GeneratorExit));
    r = gen_resume(I, g, e, 1);
    value_unref(e);
    if (!is_err(r)) {
        value_unref(r);
        raise(I, EXC_RuntimeError, "generator ignored GeneratorExit");
        return false;
    }
    if (exc_matches(I, EXC_GeneratorExit) || exc_matches(I, EXC_StopIteration))
        exc_clear(I);
    return !exc_pending(I);
}

/* The last reference is gone: finally blocks still run, what they raise is lost. */
void gen_free(GenObj *g)
{
    Interp *I = g->I;

    if (g->state == GEN_SUSPENDED && g->func->code) {   /* else the Interp has ended: nothing can run */
        Value exc = I->exc;
        bool again = I->reraised;
        I->exc = VERR;
        g->obj.refs++;
        gen_close(I, g);
        if (exc_pending(I))
            exc_clear(I);
        I->exc = exc;
        I->reraised = again;
    }
    drop_slots(g);
    if (g->fiber)
        fiber_free(g->fiber);
    value_unref(g->in);
    value_unref(g->out);
    obj_unref(g->func);
}

/* ------------------------------------------------------------- methods */

static bool is_gen(Interp *I, Value v)
{
    if (v.tag == V_GENERATOR || v.tag == V_COROUTINE)
        return true;
    raise(I, EXC_TypeError, "a generator expected, got '%s'", value_type_name(v));
    return false;
}

static Value stepped(Interp *I, Value self, Value r)
{
    return is_err(r) && !exc_pending(I) ? raise_stop(I, self) : r;
}

static Value method_send(Interp *I, Value *a)
{
    return is_gen(I, a[0]) ? stepped(I, a[0], gen_resume(I, (GenObj *)a[0].o, a[1], 0)) : VERR;
}

static Value method_next(Interp *I, Value *a)
{
    return is_gen(I, a[0]) ? stepped(I, a[0], gen_resume(I, (GenObj *)a[0].o, VNONE, 0)) : VERR;
}

static Value method_throw(Interp *I, Value *a)
{
    Value e = a[2].tag != V_ERR && a[2].tag != V_NONE ? a[2] : a[1];

    return is_gen(I, a[0]) ? stepped(I, a[0], gen_resume(I, (GenObj *)a[0].o, e, 1)) : VERR;
}

static Value method_close(Interp *I, Value *a)
{
    return is_gen(I, a[0]) && gen_close(I, (GenObj *)a[0].o) ? VNONE : VERR;
}

const NativeDef natives_generator[] = {
    {"generator", "send", method_send, "(self, value: Any, /) -> Any", "resume with a value for the yield; the next value"},
    {"generator", "throw", method_throw, "(self, kind: Any, value: Any = None, /) -> Any", "raise inside the generator; the next value"},
    {"generator", "close", method_close, "(self) -> None", "end the generator: its finally blocks run"},
    {"generator", "__next__", method_next, "(self) -> Any", "the next value"},
    {"coroutine", "send", method_send, "(self, value: Any, /) -> Any", "resume the coroutine"},
    {"coroutine", "throw", method_throw, "(self, kind: Any, value: Any = None, /) -> Any", "raise inside the coroutine"},
    {"coroutine", "close", method_close, "(self) -> None", "end the coroutine: its finally blocks run"},
    {0},
};
