/*
 * Calls at work.
 *
 * Arguments are evaluated straight into the callee's window when it is a plain
 * function with that many parameters; otherwise they are gathered and bound.
 * A method call looks the function up without making a bound method.
 */
#include "frontend/eval/lower.h"
#include "frontend/eval/symint.h"

#include "runtime/cuda.h"

#include <alloca.h>
#include <string.h>

static bool fits(const FuncObj *fn, int nargs) { return fn->code->simple && fn->code->nparams == nargs; }

/* Evaluate args into at[0..n). false: pending, and nothing is held. */
static inline bool eval_args(const StepSeq *args, Frame *f, Value *at)
{
    for (int i = 0; i < args->n; i++) {
        at[i] = args->at[i]->eval(args->at[i], f);
        if (__builtin_expect(is_err(at[i]), 0)) {
            slots_drop(at, i);
            return false;
        }
    }
    return true;
}

/* Call a fitting function; slot 0 is self when given (stolen). */
static inline Value call_direct(const Step *n, Frame *f, FuncObj *fn, const Value *self)
{
    int nslots = fn->code->nslots, at = 0;
    Value *w = alloca(((size_t)nslots + 1) * sizeof *w), r;

    if (self)
        w[at++] = *self;
    if (__builtin_expect(!eval_args(n->seq, f, w + at), 0)) {
        if (self)
            value_unref(*self);
        return VERR;
    }
    for (at += n->seq->n; at < nslots; at++)
        w[at].tag = V_ERR;
    f->at = n;
    r = func_enter(f->I, fn, w);
    return r;
}

/* What the called function left in regions goes where its arguments came from; start: see regions_back. */
static inline Value with_regions(const Step *n, const int *start, Frame *f, Value fv, bool with_self, Value r)
{
    if (__builtin_expect(f->I->region_code == NULL, 1))
        return r;
    if (is_err(r))
        regions_drop(f->I);
    else if (!regions_back(n, start, f, fv, with_self)) {
        value_unref(r);
        return VERR;
    }
    return r;
}

/* May n's positions alone be the arguments of a native, with `extra` in front? */
static inline bool native_fits(const NativeObj *nf, int nargs)
{
    const NativeSig *s = nf->sig;

    return s && is_err(nf->self) && nargs >= s->least && nargs <= s->npos && s->n <= NATIVE_FAST;
}

/* Call such a native: the arguments are evaluated where it takes them. self (borrowed) goes in front when given. */
static inline Value call_native(const Step *n, Frame *f, NativeObj *nf, const Value *self)
{
    const NativeSig *s = nf->sig;
    int extra = self != NULL, nargs = n->seq->n + extra;
    Value a[NATIVE_FAST], held[NATIVE_FAST], r;

    if (self)
        a[0] = self->tag == V_INSTANCE && (nf->obj.flags & NATIVE_UNWRAP) ? unwrap_base(*self) : *self;
    for (int i = extra; i < nargs; i++) {
        const Step *arg = n->seq->at[i - extra];
        a[i] = held[i] = arg->eval(arg, f);
        if (__builtin_expect(is_err(held[i]), 0)) {
            slots_drop(held + extra, i - extra);
            return VERR;
        }
    }
    for (int i = nargs; i < s->n; i++) {
        a[i] = s->dflt[i];
        __asm__("" : "+r"(i));  /* one or two values: no call of memmove */
    }
    f->at = n;
    if (__builtin_expect(dim_ask_open, 0) && !native_settle(f->I, s, a)) {
        slots_drop(held + extra, nargs - extra);
        return VERR;
    }
    if (!self && nargs && a[0].tag == V_INSTANCE &&
        (nf->obj.flags & (NATIVE_METHOD | NATIVE_UNWRAP)) == (NATIVE_METHOD | NATIVE_UNWRAP))
        a[0] = unwrap_base(a[0]);
    r = nf->def->fn(f->I, a);
    if (__builtin_expect(fault_kept, 0))
        r = fault_raise(f->I, r);
    for (int i = extra; i < nargs; i++)
        value_unref(held[i]);
    return r;
}

/* Gather the arguments, with self (borrowed) in front when given, and call. */
static __attribute__((noinline)) Value call_gathered(const Step *n, Frame *f, Value fv, const Value *self)
{
    int extra = self != NULL, nargs = n->seq->n + extra;
    Value *args = alloca(((size_t)nargs + 1) * sizeof *args), r;

    if (self)
        args[0] = *self;
    if (!eval_args(n->seq, f, args + extra))
        return VERR;
    f->at = n;
    if (fv.tag == V_NATIVE)
        r = native_call(f->I, (NativeObj *)fv.o, args, nargs, NULL, NULL, 0);
    else
        r = value_call_kw(f->I, fv, args, nargs, NULL, NULL, 0);
    slots_drop(args + extra, n->seq->n);
    return with_regions(n, NULL, f, fv, extra, r);
}

/* C(args) of a plain class with a fitting __init__: the instance goes straight into the window. */
static Value construct(const Step *n, Frame *f, ClassObj *c)
{
    FuncObj *init = (FuncObj *)c->dunder[D_init].o;
    Value self = instance_new(c), r;

    value_ref(self);
    init->obj.refs++;
    r = call_direct(n, f, init, &self);
    obj_unref(init);
    if (r.tag == V_NONE)
        return self;
    value_unref(self);
    if (!is_err(r)) {
        raise(f->I, EXC_TypeError, "__init__() should return None, not '%s'", value_type_name(r));
        value_unref(r);
    }
    return VERR;
}

static bool plain_class(const Step *n, Frame *f, ClassObj *c)
{
    return c->layout == V_INSTANCE && !(c->flags & (CLASS_ABSTRACT | CLASS_HOOKS)) && is_err(c->dunder[D_new]) && c->dunder[D_init].tag == V_FUNC &&
           fits((FuncObj *)c->dunder[D_init].o, n->seq->n + 1) && !is_exc_class(f->I, c);
}

Value ev_call(const Step *n, Frame *f)
{
    Value fv = n->a->eval(n->a, f), r;

    if (__builtin_expect(fv.tag == V_FUNC && fits((FuncObj *)fv.o, n->seq->n), 1))
        r = call_direct(n, f, (FuncObj *)fv.o, NULL);
    else if (fv.tag == V_NATIVE && native_fits((NativeObj *)fv.o, n->seq->n))
        r = call_native(n, f, (NativeObj *)fv.o, NULL);
    else if (is_err(fv))
        return VERR;
    else if (fv.tag == V_CLASS && plain_class(n, f, (ClassObj *)fv.o))
        r = construct(n, f, (ClassObj *)fv.o);
    else
        r = call_gathered(n, f, fv, NULL);
    value_unref(fv);
    return r;
}

Value ev_call_method(const Step *n, Frame *f)
{
    Value self = n->a->eval(n->a, f), fv, r;
    bool with_self;

    if (is_err(self))
        return VERR;
    f->at = n;
    fv = attr_method(f->I, self, n->p, &with_self);
    if (is_err(fv)) {
        value_unref(self);
        return VERR;
    }
    if (with_self && fv.tag == V_FUNC && fits((FuncObj *)fv.o, n->seq->n + 1)) {
        r = call_direct(n, f, (FuncObj *)fv.o, &self);
        value_unref(fv);
        return r;
    }
    if (fv.tag == V_NATIVE && native_fits((NativeObj *)fv.o, n->seq->n + with_self)) {
        r = call_native(n, f, (NativeObj *)fv.o, with_self ? &self : NULL);
    } else if (!with_self && fv.tag == V_FUNC && fits((FuncObj *)fv.o, n->seq->n))
        r = call_direct(n, f, (FuncObj *)fv.o, NULL);
    else
        r = call_gathered(n, f, fv, with_self ? &self : NULL);
    value_unref(fv);
    value_unref(self);
    return r;
}

/* ------------------------------------------------------------- keywords and stars */

/* start: the position, without the object, that each argument begins at, and the one after all of them. */
typedef struct { Vec(Value) pos, kwval; Vec(Sym) kwname; Vec(int) start; } Gathered;

static void gathered_done(Gathered *g)
{
    slots_drop(g->pos.at, g->pos.n);
    slots_drop(g->kwval.at, g->kwval.n);
    vec_free(&g->pos);
    vec_free(&g->kwval);
    vec_free(&g->kwname);
    vec_free(&g->start);
}

static bool spread(Interp *I, Gathered *g, Value v)
{
    Value l = value_to_list(I, v);

    if (is_err(l)) {
        if (exc_matches(I, EXC_TypeError) && v.tag != V_INSTANCE) {
            exc_clear(I);
            raise(I, EXC_TypeError, "argument after * must be an iterable, not %s", value_type_name(v));
        }
        return false;
    }
    for (int64_t i = 0; i < as_list(l)->n; i++)
        vec_push(&g->pos, value_ref(as_list(l)->at[i]));
    value_unref(l);
    return true;
}

static bool spread_dict(Interp *I, Gathered *g, Value v)
{
    Value u = unwrap_base(v), k, x, made = VERR;
    int64_t pos = 0;
    bool ok = true;

    if (u.tag != V_DICT) {
        made = dict_new();
        if (!dict_update(I, as_dict(made), v)) {
            value_unref(made);
            return false;
        }
        u = made;
    }
    while (ok && dict_next(as_dict(u), &pos, &k, &x)) {
        if (k.tag != V_STR) {
            raise(I, EXC_TypeError, "keywords must be strings");
            ok = false;
        } else {
            vec_push(&g->kwname, str_to_sym(as_str(k)));
            vec_push(&g->kwval, value_ref(x));
        }
    }
    value_unref(made);
    return ok;
}

/* Keywords but no stars: how many there are is known, so that the stack holds them. */
static Value call_keywords(const Step *n, Frame *f, Value fv, const Value *self)
{
    const StepSeq *args = n->seq;
    int npos = self != NULL, nkw = 0, done = 0;
    Value *pos = alloca((size_t)(args->n + 1) * sizeof *pos), *kw = alloca((size_t)(args->n + 1) * sizeof *kw), r = VERR;
    Sym *name = alloca((size_t)(args->n + 1) * sizeof *name);

    if (self)
        pos[0] = *self;
    for (; done < args->n; done++) {
        const Step *a = args->at[done];
        Value v = a->a->eval(a->a, f);
        if (is_err(v))
            break;
        if (a->sym) {
            name[nkw] = a->sym;
            kw[nkw++] = v;
        } else {
            pos[npos++] = v;
        }
    }
    f->at = n;
    if (done == args->n) {
        r = value_call_kw(f->I, fv, pos, npos, kw, name, nkw);
        r = with_regions(n, NULL, f, fv, self != NULL, r);
    }
    slots_drop(pos + (self != NULL), npos - (self != NULL));
    slots_drop(kw, nkw);
    return r;
}

static bool has_stars(const StepSeq *args)
{
    for (int i = 0; i < args->n; i++)
        if (args->at[i]->flag)
            return true;
    return false;
}

static bool gather(const StepSeq *args, Frame *f, Gathered *g)
{
    int object = g->pos.n;

    for (int i = 0; i < args->n; i++) {
        const Step *a = args->at[i];
        Value v = a->a->eval(a->a, f);
        bool ok = true;
        if (is_err(v))
            return false;
        vec_push(&g->start, g->pos.n - object);
        if (a->flag) {
            ok = a->flag == 1 ? spread(f->I, g, v) : spread_dict(f->I, g, v);
            value_unref(v);
        } else if (a->sym) {
            vec_push(&g->kwname, a->sym);
            vec_push(&g->kwval, v);
        } else {
            vec_push(&g->pos, v);
        }
        if (!ok)
            return false;
    }
    vec_push(&g->start, g->pos.n - object);
    return true;
}

Value ev_call_general(const Step *n, Frame *f)
{
    Value self = n->a->eval(n->a, f), fv = self, r = VERR;
    bool with_self = false;
    Gathered g = {0};

    if (is_err(self))
        return VERR;
    f->at = n;
    if (n->flag) {
        fv = attr_method(f->I, self, n->p, &with_self);
        if (is_err(fv)) {
            value_unref(self);
            return VERR;
        }
    }
    if (!has_stars(n->seq)) {
        r = call_keywords(n, f, fv, with_self ? &self : NULL);
        if (n->flag)
            value_unref(fv);
        value_unref(self);
        return r;
    }
    if (with_self)
        vec_push(&g.pos, value_ref(self));
    if (gather(n->seq, f, &g)) {
        f->at = n;
        r = value_call_kw(f->I, fv, g.pos.at, g.pos.n, g.kwval.at, g.kwname.at, g.kwval.n);
        r = with_regions(n, g.start.at, f, fv, with_self, r);
    }
    gathered_done(&g);
    if (n->flag)
        value_unref(fv);
    value_unref(self);
    return r;
}
