/*
 * Kernels in staged functions: a launch is one op of the graph.
 *
 * The op's operands are the tensors among the arguments, its results those of
 * them that the kernel stores to, as it leaves them, so it has no effect and keeps
 * no order.  What else the launch was given stays with the op as a language
 * object: (name, function, args, kwargs, grid, block, schedule, places, numerics), with None
 * where an operand goes; places says where, by position, by name, or by either and the key in a pack (packed.c); numerics whether
 * products are fast (1) and of tf32 (2). What a kernel
 * returns are further operands, zeros whose place is None, which it makes the result.
 */
#include "frontend/kernel/launch_impl.h"

#include "frontend/tensor/tensor_ops.h"
#include "ir/schedule/far.h"

#include <string.h>

enum { OPERANDS = 64, FIELDS = 9, FAST = 1, TF32 = 2 };

typedef struct Staged {
    Tensor *in[OPERANDS];
    Value place[OPERANDS];
    int n, nresults;                    /* the last are what is returned */
    bool tuple;
    Vec(Value) held;                    /* alive until the op is made */
} Staged;

static bool take_operand(Interp *I, Staged *s, Value v, Value place)
{
    if (s->n == OPERANDS)
        return raise(I, EXC_RuntimeError, "a launch in a staged function has at most %d tensors", OPERANDS), false;
    s->in[s->n] = as_tensor(v);
    s->place[s->n++] = place;
    return true;
}

/* The tensors of a pack at one place. */
typedef struct InPack { Interp *I; Staged *s; Value place; } InPack;

static Value take_packed(void *state, Value key, Value tensor)
{
    InPack *p = state;

    vec_push(&p->s->held, tuple_of(2, value_ref(p->place), value_ref(key)));
    return take_operand(p->I, p->s, tensor, vec_last(&p->s->held)) ? VNONE : VERR;
}

/* An argument without its tensors, which become operands. A new reference; V_ERR: an exception is pending. */
static Value without_tensors(Interp *I, Staged *s, Value v, Value place)
{
    InPack p = {I, s, place};
    Value own = v;

    if (v.tag == V_TENSOR)
        return take_operand(I, s, v, place) ? VNONE : VERR;
    if (pack_traced(v))
        return pack_mapped(I, v, take_packed, &p);
    value_ref(v);
    if (symint_settle_inside(I, &own))
        return own;
    value_unref(own);
    return VERR;
}

/* The arguments without the tensors, which become operands. */
static Value positions(Interp *I, Staged *s, Value args)
{
    Value y = tuple_new(as_tuple(args)->n);

    for (int64_t i = 0; i < as_tuple(args)->n; i++)
        as_tuple(y)->at[i] = VNONE;
    for (int64_t i = 0; i < as_tuple(args)->n; i++) {
        Value own = without_tensors(I, s, as_tuple(args)->at[i], vint(i));
        if (is_err(own))
            return value_unref(y), VERR;
        as_tuple(y)->at[i] = own;
    }
    return y;
}

static Value keywords(Interp *I, Staged *s, Value kwargs)
{
    Value y = dict_new(), key, v;
    int64_t at = 0;

    while (kwargs.tag == V_DICT && dict_next(as_dict(kwargs), &at, &key, &v)) {
        Value own = without_tensors(I, s, v, key);
        bool ok = !is_err(own) && (v.tag == V_TENSOR || dict_set(I, as_dict(y), key, own));
        value_unref(own);
        if (!ok)
            return value_unref(y), VERR;
    }
    return y;
}

/* ------------------------------------------------------------- objects among the arguments */

/* The argument of a parameter; VERR: there is none. Borrowed. */
static Value argument_of(const KernelForm *f, int param, Value args, Value kwargs)
{
    int at = 0;

    for (int i = 0; i < param; i++)
        at += f->param[i].param->kind != PARAM_KWONLY;
    if (f->param[param].param->kind != PARAM_KWONLY && at < as_tuple(args)->n)
        return as_tuple(args)->at[at];
    return kwargs.tag == V_DICT ? dict_get_sym(as_dict(kwargs), f->param[param].param->name) : VERR;
}

Value kernel_traced_field(Interp *I, const KernelForm *f, const KernelField *at, Value args, Value kwargs)
{
    Value of = argument_of(f, at->param, args, kwargs), v = of.tag == V_INSTANCE ? value_getattr_opt(I, of, at->attr) : VERR;

    if (v.tag == V_TENSOR && as_tensor(v)->tracer)
        return v;
    value_unref(v);
    return VERR;
}

/* They are operands by their own names: cache.K. */
static bool take_parts(Interp *I, Staged *s, const KernelForm *f, Value args, Value kwargs)
{
    for (int i = 0; i < f->nfields; i++) {
        Value v = kernel_traced_field(I, f, &f->field[i], args, kwargs);
        if (is_err(v))
            continue;
        vec_push(&s->held, v);
        vec_push(&s->held, str_c(kernel_field_name(f->param[f->field[i].param].param->name, f->field[i].attr)->text));
        if (!take_operand(I, s, v, vec_last(&s->held)))
            return false;
    }
    return true;
}

bool kernel_traced(Interp *I, Value fn, Value args, Value kwargs)
{
    Value key, v;
    int64_t at = 0;
    bool objects = false, traced = false;
    KernelForm form;

    for (int64_t i = 0; i < as_tuple(args)->n; i++) {
        v = as_tuple(args)->at[i];
        traced |= (v.tag == V_TENSOR && as_tensor(v)->tracer) || pack_traced(v);
        objects |= v.tag == V_INSTANCE;
    }
    while (kwargs.tag == V_DICT && dict_next(as_dict(kwargs), &at, &key, &v)) {
        traced |= (v.tag == V_TENSOR && as_tensor(v)->tracer) || pack_traced(v);
        objects |= v.tag == V_INSTANCE;
    }
    if (traced || !objects || fn.tag != V_FUNC || !AST_IS(((FuncObj *)fn.o)->code->ast, FunctionDef))
        return traced;
    kernel_form(AST_AS(((FuncObj *)fn.o)->code->ast, FunctionDef), &form);
    for (int i = 0; i < form.nfields && !traced; i++) {
        v = kernel_traced_field(I, &form, &form.field[i], args, kwargs);
        traced = !is_err(v);
        value_unref(v);
    }
    return traced;
}

/* ------------------------------------------------------------- the op */

/* Does the kernel store to the parameter that an argument is for, or return the operand? */
static bool writes(const KernelForm *f, Value place)
{
    if (place.tag == V_NONE || place.tag == V_TUPLE)
        return place.tag == V_NONE;
    for (int i = 0; i < f->n; i++)
        if (place.tag == V_INT ? place.i == i : as_str(place)->sym == f->param[i].param->name || !strcmp(as_str(place)->s,
                f->param[i].param->name->text))
            return f->param[i].written;
    return false;
}

static Value triple_of(Staged *s, const Attr *a, Tensor **out, int64_t npos)
{
    Value outs = tuple_new(npos), named = dict_new(), returned = s->tuple ? tuple_new(s->nresults) : VNONE;
    int n = 0;

    for (int64_t i = 0; i < npos; i++)
        as_tuple(outs)->at[i] = VNONE;
    for (int i = 0; i < a->nd[0]; i++) {
        Value place = s->place[a->d[0][i]], t = tensor_value(out[i]);
        if (place.tag == V_NONE) {
            *(s->tuple ? &as_tuple(returned)->at[n++] : &returned) = t;
        } else if (place.tag == V_INT) {
            as_tuple(outs)->at[place.i] = t;
        } else {
            dict_set_sym(as_dict(named), str_to_sym(as_str(place)), t);
            value_unref(t);
        }
    }
    return tuple_of(3, returned, outs, named);
}

static Value apply(Interp *I, Staged *s, const KernelForm *form, const char *name, Value host, int64_t npos)
{
    Attr a = attr_default();
    Tensor *out[16];
    int nout = 0;

    a.name = sym(name);
    a.host = interp_keep(I, host);
    for (int i = 0; i < s->n; i++)
        if (writes(form, s->place[i])) {
            if (a.nd[0] == 16)
                return raise(I, EXC_RuntimeError, "E0623: kernel '%s' writes more than 16 tensors in a staged function", name);
            a.d[0][a.nd[0]++] = i;
        }
    if (!a.nd[0])
        return raise(I, EXC_RuntimeError, "E0623: kernel '%s' stores to no parameter by name, and returns nothing", name);
    interp_trace(I)->span = interp_span(I);
    if (!op_apply(interp_trace(I), OP_launch, &a, s->in, s->n, out, &nout)) {
        raise_op_error(I);
        return VERR;
    }
    return triple_of(s, &a, out, npos);
}

static Value numerics_now(Interp *I)
{
    const Policy *p = interp_trace(I)->numerics;

    return vint((p && p->fast ? FAST : 0) | (p && p->compute == DT_tf32 ? TF32 : 0));
}

/* What the kernel returns, as operands. */
static bool take_results(Interp *I, Staged *s, const char *name, Value fn, Value args, Value kwargs, Value grid, Value block, Value schedule)
{
    Tensor *blank[KERNEL_RESULTS];
    bool ok = kernel_blank_results(I, name, fn, args, kwargs, grid, block, schedule, blank, &s->nresults, &s->tuple);

    for (int i = 0; ok && i < s->nresults; i++) {
        vec_push(&s->held, tensor_value(blank[i]));
        ok = take_operand(I, s, vec_last(&s->held), VNONE);
    }
    return ok;
}

static void drop_held(Staged *s)
{
    for (int i = 0; i < s->held.n; i++)
        value_unref(s->held.at[i]);
    vec_free(&s->held);
}

Value kernel_stage(Interp *I, const char *name, Value fn, Value args, Value kwargs, Value grid, Value block, Value schedule)
{
    Staged s = {.n = 0};
    KernelForm form;
    Value pos, named, places, host, g = value_ref(grid), y = VERR;

    if (fn.tag != V_FUNC || !AST_IS(((FuncObj *)fn.o)->code->ast, FunctionDef))
        return raise(I, EXC_TypeError, "E0623: '%s' is no function that can be a kernel", name);
    kernel_form(AST_AS(((FuncObj *)fn.o)->code->ast, FunctionDef), &form);
    pos = positions(I, &s, args);
    named = is_err(pos) ? VERR : keywords(I, &s, kwargs);
    if (is_err(named) || !symint_settle_inside(I, &g) || !take_parts(I, &s, &form, args, kwargs) ||
        (form.returns && !take_results(I, &s, name, fn, args, kwargs, grid, block, schedule))) {
        value_unref(pos);
        value_unref(named);
        value_unref(g);
        drop_held(&s);
        return VERR;
    }
    places = tuple_new(s.n);
    for (int i = 0; i < s.n; i++)
        as_tuple(places)->at[i] = value_ref(s.place[i]);
    host = tuple_of(FIELDS, str_c(name), value_ref(fn), pos, named, g, value_ref(block), value_ref(schedule), places, numerics_now(I));
    y = apply(I, &s, &form, name, host, as_tuple(args)->n);
    drop_held(&s);
    value_unref(host);
    return y;
}

/* ------------------------------------------------------------- when the graph runs */

static bool is_pack(Value v) { return v.tag == V_LIST || v.tag == V_TUPLE || v.tag == V_DICT; }

/* Arguments of this run's own: packs are copies, which get their tensors back. */
static Value own_argument(Interp *I, Value v) { return is_pack(v) ? pack_mapped(I, v, NULL, NULL) : value_ref(v); }

/* A tensor goes back into the pack that it came from. */
static void put_back(Interp *I, Value args, Value kwargs, Value place, Value t)
{
    Value where = as_tuple(place)->at[0];
    Value pack = where.tag == V_INT ? as_tuple(args)->at[where.i] : dict_get_sym(as_dict(kwargs), str_to_sym(as_str(where)));

    pack_put(I, pack, as_tuple(place)->at[1], t);
}

static Value with_operands(Interp *I, Value pos, Value named, Value places, Tensor *const *in, Value *kwargs)
{
    Value args = tuple_new(as_tuple(pos)->n), key, v;
    int64_t at = 0;

    *kwargs = dict_new();
    for (int64_t i = 0; i < as_tuple(pos)->n; i++)
        as_tuple(args)->at[i] = own_argument(I, as_tuple(pos)->at[i]);
    while (dict_next(as_dict(named), &at, &key, &v)) {
        Value own = own_argument(I, v);
        dict_set_sym(as_dict(*kwargs), str_to_sym(as_str(key)), own);
        value_unref(own);
    }
    for (int64_t i = 0; i < as_tuple(places)->n; i++) {
        Value place = as_tuple(places)->at[i], t;
        if (place.tag == V_NONE)
            continue;
        t = tensor_value(tensor_ref(in[i]));
        if (place.tag == V_INT) {
            as_tuple(args)->at[place.i] = t;
            continue;
        }
        if (place.tag == V_TUPLE)
            put_back(I, args, *kwargs, place, t);
        else
            dict_set_sym(as_dict(*kwargs), str_to_sym(as_str(place)), t);
        value_unref(t);
    }
    return args;
}

bool kernel_staged_run(void *host, const Attr *a, Tensor *const *in, int nin, uint32_t dying, Tensor **out, int *nout)
{
    Interp *I = host;
    const Value *f = ((TupleObj *)a->host)->at;
    Policy numerics = policy_none;
    LaunchCall c = {as_str(f[0])->s, f[1], VNONE, VNONE, f[4], f[5], f[6], .numerics = &numerics};
    Value kwargs, y;
    int nreturned = 0;

    numerics.fast = f[8].i & FAST;
    numerics.compute = f[8].i & TF32 ? DT_tf32 : DT_NONE;
    for (int i = 0; i < nin && i < DYING_MAX; i++)
        if (dying >> i & 1 && tensor_is_own(in[i]))
            c.own[c.nown++] = in[i];
    for (int i = 0; interp_trace(I)->slices && i < a->nd[0]; i++) {
        Value place = as_tuple(f[7])->at[a->d[0][i]];
        if (place.tag == V_INT && place.i < KERNEL_PARAMS)
            c.into[place.i] = interp_trace(I)->slices[i];
    }
    interp_trace(I)->slices = NULL;
    c.args = with_operands(I, f[2], f[3], f[7], in, &kwargs);
    c.kwargs = kwargs;
    y = launch_call(I, &c);
    *nout = 0;
    for (int i = 0; !is_err(y) && i < a->nd[0]; i++) {
        Value place = as_tuple(f[7])->at[a->d[0][i]], t, returned = as_tuple(y)->at[0];
        if (place.tag == V_NONE)
            t = returned.tag == V_TUPLE ? as_tuple(returned)->at[nreturned++] : returned;
        else
            t = place.tag == V_INT ? as_tuple(as_tuple(y)->at[1])->at[place.i] : dict_get_sym(as_dict(as_tuple(y)->at[2]), str_to_sym(as_str(place)));
        out[(*nout)++] = tensor_ref(t.tag == V_TENSOR ? as_tensor(t) : in[a->d[0][i]]);
    }
    value_unref(c.args);
    value_unref(kwargs);
    if (is_err(y)) {
        if (far_pretends)                       /* a rehearsal: the launch itself will say so */
            exc_clear(I);
        return false;
    }
    value_unref(y);
    return true;
}
