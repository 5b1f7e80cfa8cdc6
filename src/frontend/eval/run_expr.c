/*
 * Expressions at work: names, displays, attributes, subscripts, logic.
 *
 * Every function returns a new reference.  `f->at = n` comes before anything
 * that may raise out of line, so that tracebacks know the place.
 */
#include "frontend/eval/lower.h"

#include "frontend/prelude.h"

#include <string.h>

Value ev_const(const Step *n, Frame *f)
{
    (void)f;
    return value_ref(n->k);
}

/* ------------------------------------------------------------- names */

static __attribute__((noinline)) Value unbound(const Step *n, Frame *f, bool is_free)
{
    Span branch, at;

    f->at = n;
    if (!is_free && interp_half_find(f->I, f->code, n->slot, &branch, &at))
        return raise(f->I, EXC_UnboundLocalError, "E0542: '%s' may have no value here: only line %d sets it, and the statement on line %d "
                     "runs that line depending on a staged tensor; give '%s' a value before line %d", n->sym->text,
                     (int)source_place(at.lo).line, (int)source_place(branch.lo).line, n->sym->text, (int)source_place(branch.lo).line);
    return raise(f->I, is_free ? EXC_NameError : EXC_UnboundLocalError,
                 "cannot access %s variable '%s' where it is not associated with a value%s", is_free ? "free" : "local",
                 n->sym->text, is_free ? " in enclosing scope" : "");
}

Value ev_local(const Step *n, Frame *f)
{
    Value v = f->slot[n->slot];

    return __builtin_expect(is_err(v), 0) ? unbound(n, f, false) : value_ref(v);
}

Value ev_cell(const Step *n, Frame *f)
{
    Value v = f->slot[n->slot].tag == V_CELL ? ((CellObj *)f->slot[n->slot].o)->v : VERR;

    return is_err(v) ? unbound(n, f, false) : value_ref(v);
}

Value ev_free(const Step *n, Frame *f)
{
    Value v = f->closure[n->slot]->v;

    if (__builtin_expect(f->I->reads != NULL, 0))
        f->I->reads->cell(f->I->reads, f->closure[n->slot]);
    return is_err(v) ? unbound(n, f, true) : value_ref(v);
}

Value raise_no_global(Interp *I, Sym name)
{
    return raise(I, EXC_NameError, "name '%s' is not defined", name->text);
}

static __attribute__((noinline)) Value no_global(const Step *n, Frame *f)
{
    int row = prelude_find(n->sym);

    f->at = n;
    if (row >= 0)               /* a global of this name exists but is not set yet: the prelude's stands */
        return value_ref(prelude_value(f->I, row));
    return raise_no_global(f->I, n->sym);
}

Value ev_global(const Step *n, Frame *f)
{
    Value v = (int)n->slot < f->module->nslots ? f->module->slot[n->slot] : VERR;

    if (__builtin_expect(f->I->reads != NULL, 0) && !is_err(v))
        f->I->reads->global(f->I->reads, f->module, n->slot);
    return __builtin_expect(is_err(v), 0) ? no_global(n, f) : value_ref(v);
}

Value ev_class_name(const Step *n, Frame *f)
{
    Value v = f->ns ? dict_get_sym(f->ns, n->sym) : VERR;

    return is_err(v) ? n->a->eval(n->a, f) : value_ref(v);
}

Value ev_prelude(const Step *n, Frame *f)
{
    Value v = f->I->prelude[n->slot];

    if (is_err(v)) {
        f->at = n;
        v = prelude_value(f->I, (int)n->slot);
    }
    return value_ref(v);
}

Value ev_unknown(const Step *n, Frame *f)
{
    f->at = n;
    return n->sym ? raise_no_global(f->I, n->sym) : raise(f->I, EXC_RuntimeError, "this expression has no value");
}

Value ev_class_cell(const Step *n, Frame *f)
{
    if (f->func && f->func->owner)
        return value_ref(vobj(f->func->owner));
    return ev_unknown(n, f);
}

/* ------------------------------------------------------------- logic */

static bool is_staged(Value v) { return v.tag == V_TENSOR && staged_truth(v); }

Value ev_not(const Step *n, Frame *f)
{
    Value v = n->a->eval(n->a, f), r;
    int t;

    if (is_err(v))
        return VERR;
    f->at = n;
    if (is_staged(v)) {
        r = staged_not(f->I, v);
        value_unref(v);
        return r;
    }
    t = truth(f->I, v);
    value_unref(v);
    return t < 0 ? VERR : vbool(!t);
}

/* and, or: the operand that decides. A staged one joins with the rest as tensors. */
static Value logic(const Step *n, Frame *f, int stop_at)
{
    Value v = VNONE;

    for (int i = 0; i < n->seq->n; i++) {
        v = n->seq->at[i]->eval(n->seq->at[i], f);
        if (is_err(v) || i + 1 == n->seq->n)
            return v;
        f->at = n;
        if (is_staged(v)) {
            Step tail = *n;
            StepSeq *seq = tsr_alloc(sizeof *seq + (size_t)(n->seq->n - i - 1) * sizeof *seq->at);
            seq->n = n->seq->n - i - 1;
            memcpy(seq->at, n->seq->at + i + 1, (size_t)seq->n * sizeof *seq->at);
            tail.seq = seq;
            Value r = staged_right(&tail, f, stop_at, v);
            tsr_free(seq);
            value_unref(v);
            return r;
        }
        int t = truth(f->I, v);
        if (t == stop_at)
            return v;
        value_unref(v);
        if (t < 0)
            return VERR;
    }
    return v;
}

Value ev_and(const Step *n, Frame *f) { return logic(n, f, 0); }
Value ev_or(const Step *n, Frame *f) { return logic(n, f, 1); }

Value ev_ifexp(const Step *n, Frame *f)
{
    Value v = n->a->eval(n->a, f);
    const Step *arm;
    int t;

    if (is_err(v))
        return VERR;
    if (v.tag == V_BOOL) {
        t = (int)v.i;
    } else {
        f->at = n;
        if (is_staged(v))
            return staged_ifexp(n, f, v);
        t = truth(f->I, v);
        value_unref(v);
        if (t < 0)
            return VERR;
    }
    arm = t ? n->b : n->c;
    return arm->eval(arm, f);
}

Value ev_named(const Step *n, Frame *f)
{
    Value v = n->a->eval(n->a, f);

    if (is_err(v))
        return VERR;
    value_ref(v);
    if (n->b->store(n->b, f, v))
        return v;
    value_unref(v);
    return VERR;
}

/* ------------------------------------------------------------- attributes, subscripts */

Value ev_attr(const Step *n, Frame *f)
{
    Value v = n->a->eval(n->a, f), r;

    if (is_err(v))
        return VERR;
    f->at = n;
    r = attr_load(f->I, v, n->p);
    value_unref(v);
    return r;
}

static inline bool list_at(Value v, Value k, Value *out)
{
    int64_t i;

    if (v.tag != V_LIST || k.tag != V_INT)
        return false;
    i = k.i + (k.i < 0 ? as_list(v)->n : 0);
    if ((uint64_t)i >= (uint64_t)as_list(v)->n)
        return false;
    *out = value_ref(as_list(v)->at[i]);
    return true;
}

/* The operand's value, borrowed when it is a local: *held is what to unref afterwards. */
static inline Value borrow(const Step *n, Frame *f, Value *held)
{
    if (n->eval == ev_local && !is_err(f->slot[n->slot])) {
        *held = VNONE;
        return f->slot[n->slot];
    }
    return *held = n->eval(n, f);
}

Value ev_item(const Step *n, Frame *f)
{
    Value hv, hk, v = borrow(n->a, f, &hv), k, r;

    if (is_err(v))
        return VERR;
    if (n->b->eval == ev_const)
        hk = VNONE, k = n->b->k;
    else {
        if (hv.tag == V_NONE)
            hv = value_ref(v);  /* the key's evaluation may rebind the local */
        if (n->b->eval == ev_local && !is_err(f->slot[n->b->slot]))
            hk = VNONE, k = f->slot[n->b->slot];
        else
            hk = k = n->b->eval(n->b, f);
    }
    if (is_err(k)) {
        value_unref(hv);
        return VERR;
    }
    if (!list_at(v, k, &r)) {
        f->at = n;
        value_ref(v);
        r = value_getitem(f->I, v, k);
        value_unref(v);
    }
    value_unref(hv);
    value_unref(hk);
    return r;
}

static Value part(const Step *n, Frame *f)
{
    return n ? n->eval(n, f) : VNONE;
}

Value ev_slice(const Step *n, Frame *f)
{
    Value lo = part(n->a, f), hi = is_err(lo) ? VERR : part(n->b, f), step = is_err(hi) ? VERR : part(n->c, f);
    SliceObj *s;

    if (is_err(step)) {
        value_unref(lo);
        value_unref(hi);
        return VERR;
    }
    s = obj_new(V_SLICE, sizeof *s);
    s->lo = lo;
    s->hi = hi;
    s->step = step;
    return vobj(s);
}

/* ------------------------------------------------------------- displays */

static bool push_all(Interp *I, Value list, Value v)
{
    Value more = value_to_list(I, v);

    if (is_err(more))
        return false;
    for (int64_t i = 0; i < as_list(more)->n; i++)
        list_push(as_list(list), value_ref(as_list(more)->at[i]));
    value_unref(more);
    return true;
}

/* The elements, stars spread, as a list. */
static Value elements(const Step *n, Frame *f)
{
    Value l = list_new(n->seq->n), v;
    bool ok = true;

    for (int i = 0; ok && i < n->seq->n; i++) {
        const Step *e = n->seq->at[i];
        bool star = !e->eval;
        v = star ? e->a->eval(e->a, f) : e->eval(e, f);
        f->at = n;
        if (is_err(v)) {
            ok = false;
        } else if (star) {
            ok = push_all(f->I, l, v);
            value_unref(v);
        } else {
            list_push(as_list(l), v);
        }
    }
    if (ok)
        return l;
    value_unref(l);
    return VERR;
}

Value ev_list(const Step *n, Frame *f)
{
    return elements(n, f);
}

Value ev_tuple(const Step *n, Frame *f)
{
    Value t, l;

    if (n->flag) {
        l = elements(n, f);
        if (is_err(l))
            return VERR;
        t = tuple_new(as_list(l)->n);
        if (as_list(l)->n)
            memcpy(as_tuple(t)->at, as_list(l)->at, (size_t)as_list(l)->n * sizeof(Value));
        as_list(l)->n = 0;
        value_unref(l);
        return t;
    }
    t = tuple_new(n->seq->n);
    for (int i = 0; i < n->seq->n; i++)
        if (is_err(as_tuple(t)->at[i] = n->seq->at[i]->eval(n->seq->at[i], f))) {
            value_unref(t);
            return VERR;
        }
    return t;
}

Value ev_set(const Step *n, Frame *f)
{
    Value l = elements(n, f), s;
    bool ok = true;

    if (is_err(l))
        return VERR;
    s = set_new();
    for (int64_t i = 0; ok && i < as_list(l)->n; i++)
        ok = set_add(f->I, (SetObj *)s.o, as_list(l)->at[i]);
    value_unref(l);
    if (ok)
        return s;
    value_unref(s);
    return VERR;
}

static bool dict_entry(const Step *n, Frame *f, Value d, int i)
{
    const Step *kn = n->seq->at[i], *vn = n->seq->at[i + 1];
    Value k = kn ? kn->eval(kn, f) : VNONE, v;
    bool ok;

    if (is_err(k))
        return false;
    v = vn->eval(vn, f);
    f->at = n;
    if (is_err(v))
        ok = false;
    else if (kn)
        ok = dict_set(f->I, as_dict(d), k, v);
    else
        ok = dict_update(f->I, as_dict(d), v);
    value_unref(k);
    value_unref(v);
    return ok;
}

Value ev_dict(const Step *n, Frame *f)
{
    Value d = dict_new();

    for (int i = 0; i < n->seq->n; i += 2)
        if (!dict_entry(n, f, d, i)) {
            value_unref(d);
            return VERR;
        }
    return d;
}

/* ------------------------------------------------------------- f-strings */

static bool put_part(const Step *n, Frame *f, StrBuf *b)
{
    Value v = n->eval(n, f);

    if (is_err(v))
        return false;
    sb_write(b, as_str(v)->s, as_str(v)->len);
    value_unref(v);
    return true;
}

Value ev_fstring(const Step *n, Frame *f)
{
    StrBuf b = {0};

    for (int i = 0; i < n->seq->n; i++)
        if (!put_part(n->seq->at[i], f, &b)) {
            sb_done(&b);
            return VERR;
        }
    return str_steal(&b);
}

static Value convert(Interp *I, Value v, int how)
{
    Value r = how == 's' ? value_str(I, v) : value_repr(I, v), a;
    StrBuf b = {0};

    if (how != 'a' || is_err(r))
        return r;
    repr_ascii(&b, as_str(r)->s, as_str(r)->len);
    value_unref(r);
    a = str_steal(&b);
    return a;
}

Value ev_hole(const Step *n, Frame *f)
{
    Value v = n->a->eval(n->a, f), t, spec = VERR;

    if (is_err(v))
        return VERR;
    f->at = n;
    if (n->small) {
        t = convert(f->I, v, n->small);
        value_unref(v);
        v = t;
    }
    if (n->b && !is_err(v))
        spec = n->b->eval(n->b, f);
    if (is_err(v) || (n->b && is_err(spec))) {
        value_unref(v);
        return VERR;
    }
    f->at = n;
    if (v.tag == V_STR && !n->b)
        return v;
    t = value_format(f->I, v, n->b ? as_str(spec)->s : "", n->b ? as_str(spec)->len : 0);
    value_unref(v);
    value_unref(spec);
    return t;
}

/* ------------------------------------------------------------- functions, generators */

Value ev_lambda(const Step *n, Frame *f)
{
    return func_new(f->I, n->p, f);
}

Value ev_yield(const Step *n, Frame *f)
{
    Value v = part(n->a, f);

    if (is_err(v))
        return VERR;
    f->at = n;
    return gen_yield(f, v);
}

Value ev_yield_from(const Step *n, Frame *f)
{
    Value v = n->a->eval(n->a, f), it;

    if (is_err(v))
        return VERR;
    f->at = n;
    it = value_iter(f->I, v);
    value_unref(v);
    return is_err(it) ? VERR : gen_delegate(f, it, n);
}

Value ev_await(const Step *n, Frame *f)
{
    Value v = n->a->eval(n->a, f);

    if (is_err(v))
        return VERR;
    f->at = n;
    return gen_await(f, v);
}

Value ev_unary(const Step *n, Frame *f)
{
    Value v = n->a->eval(n->a, f), r;

    if (is_err(v))
        return VERR;
    if (n->op == AOP_NEG && v.tag == V_FLOAT)
        return vfloat(-v.f);
    f->at = n;
    r = value_unary(f->I, n->op, v);
    value_unref(v);
    return r;
}

/* a < b with b staged, and from number i on what follows, as `and` would have it. Steals r and b. */
static Value chain_staged(const Step *n, Frame *f, int i, Value r, Value b)
{
    Step held = {.eval = ev_const, .span = n->span, .k = b}, tail = *n;
    StepSeq *seq = tsr_alloc(sizeof *seq + (size_t)(n->seq->n - i) * sizeof *seq->at);
    Value both;

    seq->n = n->seq->n - i;
    memcpy(seq->at, n->seq->at + i, (size_t)seq->n * sizeof *seq->at);
    tail.a = &held;
    tail.seq = seq;
    both = staged_right(&tail, f, 0, r);
    tsr_free(seq);
    value_unref(b);
    value_unref(r);
    return both;
}

Value ev_chain(const Step *n, Frame *f)
{
    Value a = n->a->eval(n->a, f), b, r = VERR;

    for (int i = 0; i < n->seq->n; i++) {
        const Step *item = n->seq->at[i];
        if (is_err(a))
            return VERR;
        b = item->a->eval(item->a, f);
        f->at = n;
        r = is_err(b) ? VERR : compare_op(f->I, item->op, a, b);
        value_unref(a);
        a = b;
        if (is_err(r) || i + 1 == n->seq->n)
            break;
        if (is_staged(r))
            return chain_staged(n, f, i + 1, r, a);
        int t = truth(f->I, r);
        if (t <= 0) {
            if (t < 0) {
                value_unref(r);
                r = VERR;
            }
            break;
        }
        value_unref(r);
    }
    value_unref(a);
    return r;
}
