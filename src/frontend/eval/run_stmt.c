/*
 * Statements at work: blocks, branches, loops, definitions, imports.
 */
#include "frontend/eval/loop.h"
#include "frontend/eval/staged.h"

#include <string.h>

Exit ex_block(const Step *n, Frame *f)
{
    const StepSeq *s = n->seq;

    for (int i = 0; i < s->n; i++) {
        Exit x = s->at[i]->exec(s->at[i], f);
        if (__builtin_expect(x != X_NORMAL, 0)) {
            if (x == X_STAGED)
                staged_add_rest(f, n, i + 1);
            return x;
        }
    }
    return X_NORMAL;
}

Exit run_block(const Step *n, Frame *f)
{
    return n->exec(n, f);
}

Exit ex_expr(const Step *n, Frame *f)
{
    Value v = n->a->eval(n->a, f);

    value_unref(v);
    return is_err(v) ? X_RAISE : X_NORMAL;
}

Exit ex_return(const Step *n, Frame *f)
{
    f->ret = n->a ? n->a->eval(n->a, f) : VNONE;
    f->at = n;
    return is_err(f->ret) ? X_RAISE : X_RETURN;
}

Exit ex_pass(const Step *n, Frame *f) { (void)n, (void)f; return X_NORMAL; }
Exit ex_break(const Step *n, Frame *f) { (void)n, (void)f; return X_BREAK; }
Exit ex_continue(const Step *n, Frame *f) { (void)n, (void)f; return X_CONTINUE; }

/* ------------------------------------------------------------- branches */

static bool is_staged(Value v) { return v.tag == V_TENSOR && staged_truth(v); }

Exit ex_if(const Step *n, Frame *f)
{
    Value v = n->a->eval(n->a, f);
    int t;

    if (v.tag == V_BOOL) {
        t = (int)v.i;
    } else {
        if (is_err(v))
            return X_RAISE;
        f->at = n->a;
        if (is_staged(v))
            return staged_if(n, f, v);
        t = truth(f->I, v);
        value_unref(v);
        if (t < 0)
            return X_RAISE;
    }
    if (t)
        return n->b->exec(n->b, f);
    return n->c ? n->c->exec(n->c, f) : X_NORMAL;
}

Exit ex_assert(const Step *n, Frame *f)
{
    Value v = n->a->eval(n->a, f), msg;
    int t;

    if (is_err(v))
        return X_RAISE;
    f->at = n;
    if (is_staged(v)) {         /* checked when the graph runs */
        msg = n->b ? n->b->eval(n->b, f) : VNONE;
        t = !is_err(msg) && tensor_staged_assert(f->I, v, msg);
        value_unref(v);
        value_unref(msg);
        return t ? X_NORMAL : X_RAISE;
    }
    t = truth(f->I, v);
    value_unref(v);
    if (t)
        return t < 0 ? X_RAISE : X_NORMAL;
    if (!n->b) {
        Value e = class_call(f->I, exc_class(f->I, EXC_AssertionError), NULL, 0, NULL, NULL, 0);
        raise_value(f->I, e);
        value_unref(e);
        return X_RAISE;
    }
    msg = n->b->eval(n->b, f);
    f->at = n;
    if (!is_err(msg)) {
        Value e = class_call(f->I, exc_class(f->I, EXC_AssertionError), &msg, 1, NULL, NULL, 0);
        raise_value(f->I, e);
        value_unref(e);
        value_unref(msg);
    }
    return X_RAISE;
}

/* ------------------------------------------------------------- loops */

/* What a body's exit means for its loop: true to go on. *x is the loop's own exit otherwise. */
static inline bool goes_on(Exit *x, Frame *f)
{
    if (*x == X_NORMAL || *x == X_CONTINUE)
        return true;
    if (*x == X_BREAK)
        *x = X_NORMAL;
    else if (*x == X_STAGED)
        *x = staged_refuse(f, "a loop that is unrolled");
    return false;
}

static Exit run_else(const Step *n, Frame *f)
{
    const Step *orelse = ((const ForParts *)n->p)->orelse;

    return orelse ? orelse->exec(orelse, f) : X_NORMAL;
}

Exit ex_while(const Step *n, Frame *f)
{
    for (;;) {
        Value v = n->a->eval(n->a, f);
        int t;
        Exit x;
        if (is_err(v))
            return X_RAISE;
        f->at = n->a;
        if (is_staged(v))
            return staged_while(n, f, v);
        t = truth(f->I, v);
        value_unref(v);
        if (t <= 0)
            return t ? X_RAISE : n->c ? n->c->exec(n->c, f) : X_NORMAL;
        if (n->flag && f->I->trace.top) {
            bool staged;
            x = staged_watch(n, f, &staged);
            if (staged)
                return x;
        } else {
            x = n->b->exec(n->b, f);
        }
        if (!goes_on(&x, f))
            return x;
        if (!interp_poll(f->I))
            return X_RAISE;
    }
}

/* The body of an unrolled loop once, with v (taken) as the target's value. left: how a staged branch left the loop. */
static inline Exit run_round(const Step *n, Frame *f, Value v, Left *left)
{
    Exit x;

    if (__builtin_expect(!is_err(left->code), 0))
        return staged_round(n, f, X_STAGED, v, left);
    if (!n->b->store(n->b, f, v))
        return X_RAISE;
    x = n->c->exec(n->c, f);
    return __builtin_expect(x == X_STAGED, 0) ? staged_round(n, f, x, VNONE, left) : x;
}

/* After the last round: the else clause, unless a staged branch left the loop. */
static Exit end_rounds(const Step *n, Frame *f, Left *left)
{
    return is_err(left->code) ? run_else(n, f) : staged_leave_loop(f, left, ((const ForParts *)n->p)->orelse);
}

/* The loop that a driven generator gives to. */
typedef struct { const Step *n; Frame *f; Left left; Exit x; bool leaves; } ForTaker;

static bool take_round(void *taker, Value v)
{
    ForTaker *t = taker;
    const Step *n = t->n;
    Frame *f = t->f;

    f->at = n;
    t->x = run_round(n, f, v, &t->left);
    if (!goes_on(&t->x, f)) {
        t->leaves = true;
        return false;
    }
    f->at = n->a;
    return interp_poll(f->I);
}

static Exit for_driven(const Step *n, Frame *f, Value src)
{
    ForTaker t = {n, f, NOT_LEFT, X_NORMAL, false};
    bool ended = gen_drive(f->I, src, take_round, &t);
    Exit x = ended ? end_rounds(n, f, &t.left) : t.leaves ? t.x : X_RAISE;

    value_unref(src);
    left_drop(&t.left);
    return x;
}

static Exit for_each(const Step *n, Frame *f, Value src)
{
    Loop l;
    Value v;
    Left left = NOT_LEFT;
    Exit x = X_NORMAL;

    f->at = n->a;
    if (src.tag == V_GENERATOR && gen_drivable(f->I, src))
        return for_driven(n, f, src);
    if (!loop_init(f->I, &l, src))
        return X_RAISE;
    while (!is_err(v = loop_next(f->I, &l))) {
        f->at = n;
        x = run_round(n, f, v, &left);
        if (!goes_on(&x, f))
            goto out;
        f->at = n->a;
        if (!interp_poll(f->I)) {
            x = X_RAISE;
            goto out;
        }
    }
    x = exc_pending(f->I) ? X_RAISE : end_rounds(n, f, &left);
out:
    left_drop(&left);
    loop_done(&l);
    return x;
}

/* Over a tensor's rows, where a graph is being made: one loop of the graph, if that can be. */
static bool staged_rows(const Step *n, Frame *f, Value src, Exit *x)
{
    Rounds r = {.rows = src, .first = vint(0), .step = 1};
    bool done = false;

    if (!f->I->trace.top || as_tensor(src)->rank == 0)
        return false;
    r.n = vint(tensor_op_len(f->I, src));
    if (r.n.i < 0)
        exc_clear(f->I);
    else if (staged_worthwhile(f->I, r.n.i))
        *x = staged_for(n, f, &r, &done);
    return done || *x == X_RAISE;
}

Exit ex_for(const Step *n, Frame *f)
{
    Value src = n->a->eval(n->a, f);
    Exit x = X_NORMAL;

    if (is_err(src))
        return X_RAISE;
    if (src.tag == V_TENSOR && staged_rows(n, f, src, &x)) {
        value_unref(src);
        return x;
    }
    return for_each(n, f, src);
}

/* for i in range(...) with int bounds: a counter, no objects. */
static Exit for_ints(const Step *n, Frame *f, int64_t i, int64_t stop, int64_t step)
{
    uint64_t count = step > 0 ? (i < stop ? ((uint64_t)stop - (uint64_t)i - 1) / (uint64_t)step + 1 : 0)
                              : (i > stop ? ((uint64_t)i - (uint64_t)stop - 1) / (0 - (uint64_t)step) + 1 : 0);
    bool local = n->b->store == st_local;
    Left left = NOT_LEFT;
    Exit x;

    if (f->I->trace.top && staged_worthwhile(f->I, count > INT32_MAX ? 0 : (int64_t)count)) {
        Rounds r = {VERR, vint((int64_t)count), vint(i), step};
        bool done;
        x = staged_for(n, f, &r, &done);
        if (done || x == X_RAISE)
            return x;
    }
    for (; count; count--, i = (int64_t)((uint64_t)i + (uint64_t)step)) {
        if (local && is_err(left.code)) {
            Value *slot = &f->slot[n->b->slot];
            value_unref(*slot);
            *slot = vint(i);
            x = n->c->exec(n->c, f);
            if (__builtin_expect(x == X_STAGED, 0))
                x = staged_round(n, f, x, VNONE, &left);
        } else {
            x = run_round(n, f, vint(i), &left);
        }
        if (!goes_on(&x, f) || !interp_poll(f->I)) {
            left_drop(&left);
            return exc_pending(f->I) ? X_RAISE : x;
        }
    }
    return end_rounds(n, f, &left);
}

/* range() of tensors that are being staged: the number of rounds is one of them. *ok false: none of the bounds is staged. */
static Exit for_staged_range(const Step *n, Frame *f, Value *a, bool *ok)
{
    Interp *I = f->I;
    int count = n->seq->n;
    Value lo = count == 1 ? vint(0) : a[0], hi = a[count == 1 ? 0 : 1], step = count == 3 ? a[2] : vint(1);
    Rounds r = {VERR, VERR, lo, step.i};
    bool done;
    Exit x = X_RAISE;

    *ok = (is_staged(lo) || is_staged(hi)) && step.tag == V_INT && step.i;
    if (!*ok)
        return X_NORMAL;
    r.n = staged_trip_count(I, lo, hi, step.i);
    if (!is_err(r.n))
        x = staged_for(n, f, &r, &done);
    value_unref(r.n);
    return x;
}

Exit ex_for_range(const Step *n, Frame *f)
{
    Value a[3];
    bool ints = true, staged = false;

    for (int i = 0; i < n->seq->n; i++) {
        a[i] = n->seq->at[i]->eval(n->seq->at[i], f);
        if (is_err(a[i])) {
            while (i--)
                value_unref(a[i]);
            return X_RAISE;
        }
        ints &= a[i].tag == V_INT || a[i].tag == V_BOOL;
    }
    if (!ints || (n->seq->n == 3 && !a[2].i)) {
        Value src = VERR;
        f->at = n->a;
        Exit x = for_staged_range(n, f, a, &staged);
        if (!staged)
            src = value_call(f->I, prelude_get(f->I, "range"), a, n->seq->n);
        for (int i = 0; i < n->seq->n; i++)
            value_unref(a[i]);
        return staged ? x : is_err(src) ? X_RAISE : for_each(n, f, src);
    }
    if (n->seq->n == 1)
        return for_ints(n, f, 0, a[0].i, 1);
    return for_ints(n, f, a[0].i, a[1].i, n->seq->n == 3 ? a[2].i : 1);
}

Exit ex_for_async(const Step *n, Frame *f)
{
    Value src = n->a->eval(n->a, f), it, v;
    Exit x = X_NORMAL;

    if (is_err(src))
        return X_RAISE;
    f->at = n->a;
    it = value_call_method(f->I, src, sym("__aiter__"), NULL, 0);
    value_unref(src);
    if (is_err(it))
        return X_RAISE;
    while (!is_err(v = anext_value(f->I, f, it))) {
        if (!n->b->store(n->b, f, v)) {
            x = X_RAISE;
            break;
        }
        x = n->c->exec(n->c, f);
        if (!goes_on(&x, f)) {
            value_unref(it);
            return x;
        }
        f->at = n->a;
    }
    value_unref(it);
    if (x == X_RAISE || exc_pending(f->I))
        return X_RAISE;
    return run_else(n, f);
}

/* ------------------------------------------------------------- definitions */

/* Apply decorators from the last to the first; steals v. */
static Value decorate(const Step *n, Frame *f, Value v)
{
    Value fn[32], r;
    int count = n->seq->n;

    if (count > 32) {
        value_unref(v);
        return raise(f->I, EXC_TypeError, "more than 32 decorators");
    }
    for (int i = 0; i < count; i++)
        if (is_err(fn[i] = n->seq->at[i]->eval(n->seq->at[i], f))) {
            slots_drop(fn, i);
            value_unref(v);
            return VERR;
        }
    for (int i = count; i-- > 0;) {
        f->at = n->seq->at[i];
        r = is_err(v) ? VERR : value_call(f->I, fn[i], &v, 1);
        value_unref(v);
        value_unref(fn[i]);
        v = r;
    }
    return v;
}

Exit ex_def(const Step *n, Frame *f)
{
    Value v;

    f->at = n;
    v = func_new(f->I, n->p, f);
    if (!is_err(v) && n->seq->n)
        v = decorate(n, f, v);
    return !is_err(v) && store_to(n->b, f, v) ? X_NORMAL : X_RAISE;
}

/* The first class that b, an object standing for classes, gives for itself as a base; b where it gives none. Steals b. */
static Value mro_entry(Interp *I, Value b)
{
    Value m = value_getattr_opt(I, b, sym("__mro_entries__")), bases = tuple_new(0), r, first;

    if (is_err(m)) {
        value_unref(bases);
        return exc_pending(I) ? (value_unref(b), VERR) : b;
    }
    r = value_call(I, m, &bases, 1);
    first = r.tag == V_TUPLE && as_tuple(r)->n ? value_ref(as_tuple(r)->at[0]) : is_err(r) ? VERR : value_ref(b);
    value_unref(r);
    value_unref(bases);
    value_unref(m);
    value_unref(b);
    return first;
}

static ClassObj *base_class(const Step *n, Frame *f)
{
    Value b = n->a->eval(n->a, f);

    f->at = n;
    if (b.tag == V_TYPEFORM && ((TypeFormObj *)b.o)->origin.tag == V_CLASS) {       /* class A(Base[T]) */
        Value origin = value_ref(((TypeFormObj *)b.o)->origin);
        value_unref(b);
        b = origin;
    }
    if (b.tag == V_INSTANCE)
        b = mro_entry(f->I, b);
    if (b.tag == V_CLASS)
        return (ClassObj *)b.o;
    if (!is_err(b))
        raise(f->I, EXC_TypeError, "a base must be a class, not '%s'", value_type_name(b));
    value_unref(b);
    return NULL;
}

/* Functions and wrapped functions of a class body learn whose they are, for super(). */
static void adopt(Value v, ClassObj *c, const Scope *body)
{
    FuncObj *fn = (FuncObj *)v.o;

    if (v.tag == V_PROPERTY) {
        adopt(((PropertyObj *)v.o)->get, c, body);
        adopt(((PropertyObj *)v.o)->set, c, body);
        adopt(((PropertyObj *)v.o)->del, c, body);
    } else if (v.tag == V_STATICMETHOD || v.tag == V_CLASSMETHOD) {
        adopt(((WrapObj *)v.o)->func, c, body);
    } else if (v.tag == V_FUNC && !fn->owner && fn->code->scope->parent == body) {
        fn->owner = (ClassObj *)value_ref(vobj(c)).o;
    }
}

static bool run_class_body(const Step *n, Frame *f, DictObj *ns)
{
    Interp *I = f->I;
    Value fv = func_new(I, n->p, f);
    FuncObj *fn = (FuncObj *)fv.o;
    const Code *c = fn->code;
    Value *slot = tsr_calloc(((size_t)c->nslots + 1) * sizeof *slot);
    Frame body = {.slot = slot, .I = I, .closure = fn->closure, .module = f->module, .code = c, .func = fn, .ns = ns, .up = f};
    Exit x = X_RAISE;

    if (interp_enter(I)) {
        I->frame = &body;
        x = c->body->exec(c->body, &body);
        if (x == X_RAISE)
            traceback_add(I, &body);
        I->frame = f;
        interp_leave(I);
    }
    slots_drop(slot, c->nslots);
    tsr_free(slot);
    value_unref(fv);
    return x != X_RAISE;
}

static Value class_value(const Step *n, Frame *f, ClassObj *base)
{
    const Code *c = n->p;
    Value ns = dict_new(), cls, k, v;
    int64_t pos = 0;

    if (!is_err(c->doc))
        dict_set_sym(as_dict(ns), f->I->s_doc, c->doc);
    if (!run_class_body(n, f, as_dict(ns))) {
        value_unref(ns);
        return VERR;
    }
    cls = class_new(f->I, c->name, base, as_dict(ns));
    ((ClassObj *)cls.o)->qualname = c->qualname;
    class_complete(f->I, (ClassObj *)cls.o);
    while (dict_next(as_dict(ns), &pos, &k, &v))
        adopt(v, (ClassObj *)cls.o, c->scope);
    value_unref(ns);
    return cls;
}

/* __init_subclass__ of the base, when it has one, with the keywords that stand beside the base. */
static bool tell_base(const Step *n, Frame *f, Value cls)
{
    ClassObj *base = ((ClassObj *)cls.o)->base;
    Value hook = base ? class_find(base, sym("__init_subclass__"), NULL) : VERR, v[8], r = VNONE;
    int nkw = n->c ? n->c->seq->n : 0;
    Sym name[8];

    for (int i = 0; i < nkw; i++) {
        name[i] = n->c->seq->at[i]->sym;
        if (is_err(v[i] = n->c->seq->at[i]->a->eval(n->c->seq->at[i]->a, f))) {
            slots_drop(v, i);
            return false;
        }
    }
    f->at = n;
    if (!is_err(hook)) {
        hook = hook.tag == V_CLASSMETHOD ? ((WrapObj *)hook.o)->func : hook;
        r = value_call_kw(f->I, hook, &cls, 1, v, name, nkw);
    } else if (nkw) {
        r = raise(f->I, EXC_TypeError, "%s.__init_subclass__() takes no keyword arguments", ((ClassObj *)cls.o)->name->text);
    }
    slots_drop(v, nkw);
    value_unref(r);
    return !is_err(r);
}

Exit ex_class(const Step *n, Frame *f)
{
    ClassObj *base = NULL;
    Value v;

    f->at = n;
    if (n->a && !(base = base_class(n, f)))
        return X_RAISE;
    v = class_value(n, f, base);
    obj_unref(base);
    f->at = n;
    if (!is_err(v) && !tell_base(n, f, v)) {
        value_unref(v);
        v = VERR;
    }
    if (!is_err(v) && n->seq->n)
        v = decorate(n, f, v);
    return !is_err(v) && store_to(n->b, f, v) ? X_NORMAL : X_RAISE;
}

/* The value of a type alias never fails: what cannot be evaluated is known by its name. */
Exit ex_type_alias(const Step *n, Frame *f)
{
    Value v = n->a->eval(n->a, f);

    if (is_err(v)) {
        exc_clear(f->I);
        v = str_sym(n->sym);
    }
    return store_to(n->b, f, v) ? X_NORMAL : X_RAISE;
}

/* ------------------------------------------------------------- imports */

Exit ex_import(const Step *n, Frame *f)
{
    for (int i = 0; i < n->seq->n; i++) {
        const Step *m = n->seq->at[i];
        Value v;
        f->at = m;
        v = m->flag ? import_dotted(f->I, m->sym, 0, f->module) : import_top(f->I, m->sym, f->module);
        if (is_err(v) || !store_to(m->b, f, v))
            return X_RAISE;
    }
    return X_NORMAL;
}

/* from m import name: an attribute of m, or a module inside the package m. */
static Value import_name(const Step *n, Frame *f, Value m, Sym name)
{
    Value v = value_getattr_opt(f->I, m, name);
    StrBuf dotted = {0};

    if (!is_err(v) || exc_pending(f->I))
        return v;
    if (m.tag == V_MODULE && ((ModuleObj *)m.o)->path) {
        sb_printf(&dotted, "%s%s%s", n->sym ? n->sym->text : "", n->sym ? "." : "", name->text);
        v = import_dotted(f->I, sym(sb_str(&dotted)), n->small, f->module);
        sb_done(&dotted);
        if (!is_err(v) || !exc_matches(f->I, EXC_ModuleNotFoundError))
            return v;
        exc_clear(f->I);
    }
    return raise(f->I, EXC_ImportError, "cannot import name '%s' from '%s'", name->text, n->sym ? n->sym->text : ".");
}

Exit ex_import_from(const Step *n, Frame *f)
{
    Value m, v;
    bool ok = true;

    f->at = n;
    m = import_dotted(f->I, n->sym, n->small, f->module);
    if (is_err(m))
        return X_RAISE;
    for (int i = 0; ok && i < n->seq->n; i++) {
        const Step *a = n->seq->at[i];
        v = import_name(n, f, m, a->sym);
        ok = !is_err(v) && store_to(a->b, f, v);
    }
    value_unref(m);
    return ok ? X_NORMAL : X_RAISE;
}

Exit ex_import_star(const Step *n, Frame *f)
{
    Value m, v;

    f->at = n;
    m = import_dotted(f->I, n->sym, n->small, f->module);
    if (is_err(m))
        return X_RAISE;
    for (int i = 0; i < n->seq->n; i++) {       /* the resolver listed the public names */
        const Step *a = n->seq->at[i];
        v = value_getattr_opt(f->I, m, a->sym);
        if (is_err(v) && exc_pending(f->I)) {
            value_unref(m);
            return X_RAISE;
        }
        if (!is_err(v) && a->b)
            store_to(a->b, f, v);
        else
            value_unref(v);
    }
    value_unref(m);
    return X_NORMAL;
}
