/*
 * Calls: binding arguments to parameters, entering functions.
 *
 * A function runs on a window of slots that its caller filled; func_enter owns
 * them and drops them at the end.  When the machine stack runs low, the call
 * continues on a new stack, so that recursion is bounded by the depth limit
 * alone, wherever it happens.
 */
#include "frontend/eval/eval.h"

#include "base/interrupt.h"
#include "frontend/tensor/ranges.h"
#include "frontend/tensor/whole.h"

#include <alloca.h>
#include <string.h>

void slots_drop(Value *slot, int n)
{
    for (int i = 0; i < n; i++)
        value_unref(slot[i]);
}

/* ------------------------------------------------------------- entering */

/* Slots that inner functions use become cells; parameters move in. */
static bool frame_cells(Frame *f)
{
    for (int i = 0; i < f->code->ncells; i++) {
        CellObj *c = obj_new(V_CELL, sizeof *c);
        Value *s = &f->slot[f->code->cells[i]];
        c->v = *s;
        *s = vobj(c);
        if (f->I->reads)
            f->I->reads->made(f->I->reads, c);
    }
    return true;
}

/* p.shape[axis] */
static Value axis_size(Interp *I, Value p, int axis)
{
    Value shape = value_getattr(I, p, sym("shape")), r;

    if (is_err(shape))
        return VERR;
    r = value_getitem(I, shape, vint(axis));
    value_unref(shape);
    return r;
}

/* The tensor inside a list, tuple or dict argument that a signature's dim is read from. Borrowed. */
static Value inside(Value v, const int8_t *path)
{
    for (int i = 0; i < 2 && path[i] >= 0; i++) {
        int64_t pos = 0;
        Value key, val = VERR;
        if (v.tag == V_LIST)
            v = path[i] < as_list(v)->n ? as_list(v)->at[path[i]] : VERR;
        else if (v.tag == V_TUPLE)
            v = path[i] < as_tuple(v)->n ? as_tuple(v)->at[path[i]] : VERR;
        else if (v.tag == V_DICT)
            v = dict_next(as_dict(v), &pos, &key, &val) ? val : VERR;
        else
            return VERR;
    }
    return v;
}

static void bind_dims(Frame *f)
{
    for (int i = 0; i < f->code->ndims; i++) {
        const DimBind *d = &f->code->dims[i];
        Value p = f->slot[d->param], *at = &f->slot[d->slot], size;
        if (p.tag == V_CELL)
            p = ((CellObj *)p.o)->v;
        p = inside(p, d->path);
        if (p.tag != V_TENSOR)
            continue;
        size = axis_size(f->I, p, d->axis);
        if (is_err(size)) {
            exc_clear(f->I);
            continue;
        }
        if (at->tag == V_CELL)
            at = &((CellObj *)at->o)->v;
        value_unref(*at);
        *at = size;
    }
}

Value run_code(Interp *I, Frame *f)
{
    const Code *c = f->code;
    Exit x;

    if (c->ncells)
        frame_cells(f);
    if (c->ndims)
        bind_dims(f);
    if (__builtin_expect((c->ntests | c->ndeclared | c->nsignature) != 0, 0) &&
        (!declared_enter(f) || !signature_holds(f) || !entry_tests(f)))
        return VERR;
    if (c->expr) {
        Value r = c->expr->eval(c->expr, f);
        if (__builtin_expect(c->regions != 0, 0) && !is_err(r))
            regions_leave(f);
        return r;
    }
    x = c->body->exec(c->body, f);
    if (__builtin_expect(c->regions != 0, 0) && x != X_RAISE)
        regions_leave(f);
    if (__builtin_expect(x == X_STAGED, 0))
        x = staged_return(f);
    return x == X_NORMAL ? VNONE : x == X_RETURN ? f->ret : VERR;
}

static bool too_deep(Interp *I)
{
    raise(I, EXC_RecursionError, "maximum recursion depth exceeded");
    return false;
}

/* What a call looks at now and then: the stack, the depth, ctrl-C, the collector. false: an exception is pending. */
static bool interp_slow(Interp *I)
{
    if (tsr_interrupted) {
        tsr_interrupted = 0;
        raise(I, EXC_KeyboardInterrupt, "interrupted");
        return false;
    }
    if (heap_wants_collect())
        heap_collect();
    return true;
}

bool interp_poll(Interp *I)
{
    return !(tsr_interrupted | heap_full) || interp_slow(I);
}

bool interp_enter(Interp *I)
{
    if (I->depth >= I->depth_limit || (char *)__builtin_frame_address(0) < I->stack_limit)
        return too_deep(I);
    I->depth++;
    return true;
}

void interp_leave(Interp *I)
{
    I->depth--;
}

typedef struct { Interp *I; FuncObj *fn; Value *slot, result; } FreshCall;

static void fresh_entry(void *arg)
{
    FreshCall *c = arg;

    c->result = func_enter(c->I, c->fn, c->slot);
}

/* The same call on a new, large stack. */
static Value call_on_fresh_stack(Interp *I, FuncObj *fn, Value *slot)
{
    FreshCall call = {I, fn, slot, VERR};

    if (!run_on_large_stack(I, fresh_entry, &call)) {
        too_deep(I);
        slots_drop(slot, fn->code->nslots);
        return VERR;
    }
    return call.result;
}

/* What keeps a call from starting at once. true: go on. */
static __attribute__((noinline)) bool enter_slow(Interp *I)
{
    if (I->depth >= I->depth_limit)
        return too_deep(I);
    return interp_slow(I);
}

/* Is it a function whose calls graphs are to remember? */
static bool is_named(const Interp *I, const FuncObj *fn)
{
    for (int i = 0; I->named && i < I->named->n; i++)
        if (!strcmp(as_str(I->named->at[i])->s, fn->code->name->text))
            return true;
    return false;
}

/* A call within which others are not told apart. */
static __attribute__((noinline)) Value enter_named(Interp *I, FuncObj *fn, Value *slot)
{
    ListObj *named = I->named;
    StrBuf number = {0};
    Sym former;
    Value r;

    sb_printf(&number, "%s#%d", fn->code->name->text, ++I->named_calls);
    former = trace_enter(&I->trace, "call", sb_str(&number));
    sb_done(&number);
    I->named = NULL;
    r = func_enter(I, fn, slot);
    I->named = named;
    I->trace.scope = former;
    return r;
}

Value func_enter(Interp *I, FuncObj *fn, Value *slot)
{
    const Code *c = fn->code;
    Frame f;
    Value r;

    if (__builtin_expect((char *)__builtin_frame_address(0) < I->stack_limit, 0))
        return call_on_fresh_stack(I, fn, slot);
    if (__builtin_expect((I->depth >= I->depth_limit) | tsr_interrupted | heap_full | (I->named != NULL), 0)) {
        if (is_named(I, fn))
            return enter_named(I, fn, slot);
        if (!enter_slow(I)) {
            slots_drop(slot, c->nslots);
            return VERR;
        }
    }
    if (__builtin_expect(c->is_generator | c->is_async, 0))
        return gen_new(I, fn, slot);
    I->depth++;
    f.slot = slot;
    f.I = I;
    f.at = NULL;
    f.closure = fn->closure;
    f.module = fn->module;
    f.code = c;
    f.func = fn;
    f.ns = NULL;
    f.gen = NULL;
    f.pending = NULL;
    f.up = I->frame;
    I->frame = &f;
    if (__builtin_expect(I->ranges != NULL, 0))
        range_push(I, c->name, &f);
    r = __builtin_expect(fn->whole != NULL, 0) ? whole_run(I, &f) : run_code(I, &f);
    if (__builtin_expect(I->ranges != NULL, 0))
        range_pop(I, &f);
    if (__builtin_expect(is_err(r), 0))
        traceback_add(I, &f);
    I->frame = f.up;
    I->depth--;
    for (int i = 0; i < c->nslots; i++)
        value_unref(slot[i]);
    return r;
}

/* ------------------------------------------------------------- binding */

static const char *plural(int n) { return n == 1 ? "" : "s"; }

static bool too_many(Interp *I, FuncObj *fn, int given)
{
    const Code *c = fn->code;
    int least = 0;

    for (int i = 0; i < c->npos; i++)
        least += is_err(fn->defaults ? fn->defaults[i] : VERR);
    if (least == c->npos)
        raise(I, EXC_TypeError, "%s() takes %d positional argument%s but %d %s given", c->qualname, c->npos,
              plural(c->npos), given, given == 1 ? "was" : "were");
    else
        raise(I, EXC_TypeError, "%s() takes from %d to %d positional arguments but %d were given", c->qualname, least,
              c->npos, given);
    return false;
}

static bool missing(Interp *I, FuncObj *fn, const Value *slot)
{
    const Code *c = fn->code;
    StrBuf names = {0};
    int n = 0, left, from = 0, end = c->npos;
    bool kwonly;

    for (int i = 0; i < end; i++)
        n += is_err(slot[i]) && c->required[i];
    kwonly = !n;
    if (kwonly) {
        from = c->npos;
        end = c->nparams;
        for (int i = from; i < end; i++)
            n += is_err(slot[i]) && c->required[i];
    }
    left = n;
    for (int i = from; i < end; i++)
        if (is_err(slot[i]) && c->required[i]) {
            sb_printf(&names, "%s'%s'", left == n ? "" : left > 1 ? ", " : n > 2 ? ", and " : " and ", c->param[i]->text);
            left--;
        }
    raise(I, EXC_TypeError, "%s() missing %d required %s argument%s: %s", c->qualname, n,
          kwonly ? "keyword-only" : "positional", plural(n), sb_str(&names));
    sb_done(&names);
    return false;
}

static int find_param(const Code *c, Sym name)
{
    for (int i = c->nposonly; i < c->nparams; i++)
        if (c->param[i] == name && i != c->varargs && i != c->kwargs)
            return i;
    return -1;
}

static bool bind_keyword(Interp *I, FuncObj *fn, Value *slot, Sym name, Value v)
{
    const Code *c = fn->code;
    int i = find_param(c, name);

    if (i < 0 && c->kwargs >= 0) {
        if (!is_err(dict_get_sym(as_dict(slot[c->kwargs]), name))) {
            raise(I, EXC_TypeError, "%s() got multiple values for keyword argument '%s'", c->qualname, name->text);
            return false;
        }
        dict_set_sym(as_dict(slot[c->kwargs]), name, v);
        return true;
    }
    if (i < 0) {
        bool posonly = false;
        for (int k = 0; k < c->nposonly; k++)
            posonly |= c->param[k] == name;
        raise(I, EXC_TypeError, posonly ? "%s() got some positional-only arguments passed as keyword arguments: '%s'"
                                        : "%s() got an unexpected keyword argument '%s'", c->qualname, name->text);
        return false;
    }
    if (!is_err(slot[i])) {
        raise(I, EXC_TypeError, "%s() got multiple values for argument '%s'", c->qualname, name->text);
        return false;
    }
    slot[i] = value_ref(v);
    return true;
}

static bool bind_positions(Interp *I, FuncObj *fn, Value *slot, const Value *args, int nargs)
{
    const Code *c = fn->code;
    int n = nargs < c->npos ? nargs : c->npos;

    for (int i = 0; i < n; i++)
        slot[i] = value_ref(args[i]);
    if (c->varargs >= 0) {
        Value t = tuple_new(nargs - n);
        for (int i = n; i < nargs; i++)
            as_tuple(t)->at[i - n] = value_ref(args[i]);
        slot[c->varargs] = t;
    } else if (nargs > n && !c->any_params) {
        return too_many(I, fn, nargs);
    }
    return true;
}

static bool bind_defaults(Interp *I, FuncObj *fn, Value *slot)
{
    const Code *c = fn->code;

    for (int i = 0; i < c->nparams; i++) {
        if (!is_err(slot[i]))
            continue;
        if (c->required[i])
            return missing(I, fn, slot);
        if (fn->defaults)
            slot[i] = value_ref(fn->defaults[i]);
    }
    return true;
}

static bool bind_all(Interp *I, FuncObj *fn, Value *slot, const Value *args, int nargs, const Value *kwvals,
                     const Sym *kwnames, int nkw)
{
    const Code *c = fn->code;

    if (c->kwargs >= 0)
        slot[c->kwargs] = dict_new();
    if (!bind_positions(I, fn, slot, args, nargs))
        return false;
    for (int i = 0; i < nkw; i++)
        if (!c->any_params && !bind_keyword(I, fn, slot, kwnames[i], kwvals[i]))
            return false;
    return bind_defaults(I, fn, slot);
}

Value func_call(Interp *I, FuncObj *fn, const Value *args, int nargs, const Value *kwvals, const Sym *kwnames, int nkw)
{
    const Code *c = fn->code;
    Value *slot = alloca(((size_t)c->nslots + 1) * sizeof *slot), r;

    memset(slot, 0, ((size_t)c->nslots + 1) * sizeof *slot);
    if (!bind_all(I, fn, slot, args, nargs, kwvals, kwnames, nkw)) {
        slots_drop(slot, c->nslots);
        return VERR;
    }
    fn->obj.refs++;
    r = func_enter(I, fn, slot);
    obj_unref(fn);
    return r;
}

/* ------------------------------------------------------------- calling anything */

static Value call_shifted(Interp *I, Value f, Value first, const Value *args, int nargs, const Value *kwvals,
                          const Sym *kwnames, int nkw)
{
    Value few[8], *all = nargs < 8 ? few : tsr_alloc(((size_t)nargs + 1) * sizeof *all), r;

    all[0] = first;
    copy_values(all + 1, args, nargs);
    r = value_call_kw(I, f, all, nargs + 1, kwvals, kwnames, nkw);
    if (all != few)
        tsr_free(all);
    return r;
}

static Value call_bound(Interp *I, BoundObj *b, const Value *args, int nargs, const Value *kwvals, const Sym *kwnames, int nkw)
{
    Value r;

    b->obj.refs++;
    r = call_shifted(I, b->func, b->self, args, nargs, kwvals, kwnames, nkw);
    obj_unref(b);
    return r;
}

static Value not_callable(Interp *I, Value f)
{
    return raise(I, EXC_TypeError, "'%s' object is not callable", value_type_name(f));
}

static Value call_object(Interp *I, Value f, const Value *args, int nargs, const Value *kwvals, const Sym *kwnames, int nkw)
{
    Value m = class_of(I, f)->dunder[D_call], bound, r;

    if (f.tag == V_NATIVEOBJ && ((NativeInst *)f.o)->type->call)
        return ((NativeInst *)f.o)->type->call(I, f.o, (Value *)(uintptr_t)args, nargs, (Value *)(uintptr_t)kwvals,
                                               (Sym *)(uintptr_t)kwnames, nkw);
    if (is_err(m))
        return not_callable(I, f);
    if (m.tag == V_FUNC)
        return call_shifted(I, m, f, args, nargs, kwvals, kwnames, nkw);
    if (!interp_enter(I))               /* __call__ may be an object of the same class */
        return VERR;
    bound = bind_attr(I, m, f, class_of(I, f));
    r = is_err(bound) ? VERR : value_call_kw(I, bound, args, nargs, kwvals, kwnames, nkw);
    value_unref(bound);
    interp_leave(I);
    return r;
}

/* A module that has a `__call__` is called like it: tessera.time(). */
static Value call_module(Interp *I, Value f, const Value *args, int nargs, const Value *kwvals, const Sym *kwnames, int nkw)
{
    const ModuleObj *module = (ModuleObj *)f.o;
    const NativeDef *d = module->path ? NULL : native_find(module->name->text, "__call__");
    Value m = d ? native_value(I, d) : VERR, r;

    if (is_err(m))
        return not_callable(I, f);
    r = value_call_kw(I, m, args, nargs, kwvals, kwnames, nkw);
    value_unref(m);
    return r;
}

Value value_call_kw(Interp *I, Value f, const Value *args, int nargs, const Value *kwvals, const Sym *kwnames, int nkw)
{
    Value r;

    switch (f.tag) {
    case V_FUNC: return func_call(I, (FuncObj *)f.o, args, nargs, kwvals, kwnames, nkw);
    case V_NATIVE: return native_call(I, (NativeObj *)f.o, args, nargs, kwvals, kwnames, nkw);
    case V_BOUND: return call_bound(I, (BoundObj *)f.o, args, nargs, kwvals, kwnames, nkw);
    case V_CLASS: return class_call(I, (ClassObj *)f.o, args, nargs, kwvals, kwnames, nkw);
    case V_STATICMETHOD: case V_CLASSMETHOD:
        return value_call_kw(I, ((WrapObj *)f.o)->func, args, nargs, kwvals, kwnames, nkw);
    case V_TYPEFORM:
        return value_call_kw(I, ((TypeFormObj *)f.o)->origin, args, nargs, kwvals, kwnames, nkw);
    case V_INSTANCE: case V_NATIVEOBJ: case V_DTYPE: case V_TENSOR:
        value_ref(f);
        r = call_object(I, f, args, nargs, kwvals, kwnames, nkw);
        value_unref(f);
        return r;
    case V_MODULE: return call_module(I, f, args, nargs, kwvals, kwnames, nkw);
    default: return not_callable(I, f);
    }
}

Value value_call(Interp *I, Value f, const Value *args, int nargs)
{
    return value_call_kw(I, f, args, nargs, NULL, NULL, 0);
}

Value value_call_method(Interp *I, Value self, Sym name, const Value *args, int nargs)
{
    AttrCache a = {.name = name, .key = sym_obj(name), .hint = -1};
    bool with_self;
    Value f = attr_method(I, self, &a, &with_self), r;

    if (is_err(f))
        return VERR;
    r = with_self ? call_shifted(I, f, self, args, nargs, NULL, NULL, 0) : value_call(I, f, args, nargs);
    value_unref(f);
    return r;
}

bool value_is_callable(Value v)
{
    switch (v.tag) {
    case V_FUNC: case V_NATIVE: case V_BOUND: case V_CLASS: case V_STATICMETHOD: return true;
    case V_INSTANCE: return ((InstanceObj *)v.o)->cls->dunder[D_call].tag != V_ERR;
    case V_NATIVEOBJ: return ((NativeInst *)v.o)->type->call != NULL;
    case V_TYPEFORM: return ((TypeFormObj *)v.o)->op == '[';
    default: return false;
    }
}

/* ------------------------------------------------------------- functions as values */

Value func_new(Interp *I, const Code *c, Frame *f)
{
    FuncObj *fn = obj_new(V_FUNC, sizeof *fn);
    int nfrees = c->scope->frees.n;

    fn->code = c;
    fn->module = (ModuleObj *)value_ref(vobj(f->module)).o;
    fn->name = str_sym(c->name);
    if (f->func && f->func->owner && !f->ns)
        fn->owner = (ClassObj *)value_ref(vobj(f->func->owner)).o;
    fn->doc = is_err(c->doc) ? VNONE : value_ref(c->doc);
    if (nfrees) {
        fn->closure = tsr_calloc((size_t)nfrees * sizeof *fn->closure);
        for (int i = 0; i < nfrees; i++) {
            const Free *fr = &c->scope->frees.at[i];
            CellObj *cell = fr->from_cell ? (CellObj *)f->slot[fr->index].o : f->closure[fr->index];
            cell->obj.refs++;
            fn->closure[i] = cell;
        }
    }
    if (!c->defaults)
        return vobj(fn);
    fn->defaults = tsr_calloc((size_t)c->nparams * sizeof *fn->defaults);
    for (int i = 0; i < c->nparams; i++) {
        const Step *d = c->defaults->at[i];
        if (d && is_err(fn->defaults[i] = d->eval(d, f))) {
            obj_unref(fn);
            return VERR;
        }
    }
    return vobj(fn);
}
