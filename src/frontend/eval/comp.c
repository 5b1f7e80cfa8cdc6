/*
 * Comprehensions and generator expressions.
 *
 * A list, set or dict comprehension runs in the frame around it: its
 * variables are hidden slots, emptied when it ends, with fresh cells for those
 * that a lambda inside captures.  A generator expression is a generator
 * function whose parameter is the first iterator.
 */
#include "frontend/eval/loop.h"
#include "frontend/eval/lower.h"

#include <string.h>

typedef struct Clause {
    Step *iter, *target;
    StepSeq *ifs;
    bool is_async;
} Clause;

typedef struct Comp {
    uint8_t kind;               /* AST_ListComp ... AST_GenExp */
    int n;
    Clause *clause;
    Step *elt, *key;
    const Scope *scope;         /* hidden slots; NULL for generator expressions */
} Comp;

/* ------------------------------------------------------------- lowering */

static void lower_clauses(Lower *L, Comp *c, AstSeq clauses, bool first_given)
{
    c->n = clauses.n;
    c->clause = arena_array(L->arena, Clause, clauses.n);
    for (int i = 0; i < clauses.n; i++) {
        const AstCompFor *f = AST_AS(clauses.at[i], CompFor);
        c->clause[i].iter = i || !first_given ? lower_expr(L, f->iter) : NULL;
        c->clause[i].target = lower_target(L, f->target);
        c->clause[i].ifs = lower_exprs(L, f->ifs);
        c->clause[i].is_async = f->is_async;
    }
}

Step *lower_comp(Lower *L, const Ast *e)
{
    Step *n = step_new(L, e);
    Comp *c = arena_new(L->arena, Comp);

    n->eval = ev_comp;
    n->p = c;
    c->kind = e->kind;
    switch (e->kind) {
    case AST_DictComp:
        lower_clauses(L, c, AST_AS(e, DictComp)->clauses, false);
        c->key = lower_expr(L, AST_AS(e, DictComp)->key);
        c->elt = lower_expr(L, AST_AS(e, DictComp)->value);
        c->scope = AST_AS(e, DictComp)->scope;
        break;
    case AST_GenExp:
        n->eval = ev_genexp_body;
        lower_clauses(L, c, AST_AS(e, GenExp)->clauses, true);
        c->elt = lower_expr(L, AST_AS(e, GenExp)->elt);
        break;
    case AST_SetComp:
        lower_clauses(L, c, AST_AS(e, SetComp)->clauses, false);
        c->elt = lower_expr(L, AST_AS(e, SetComp)->elt);
        c->scope = AST_AS(e, SetComp)->scope;
        break;
    default:
        lower_clauses(L, c, AST_AS(e, ListComp)->clauses, false);
        c->elt = lower_expr(L, AST_AS(e, ListComp)->elt);
        c->scope = AST_AS(e, ListComp)->scope;
        break;
    }
    return n;
}

/* ------------------------------------------------------------- running */

static bool emit_pair(const Comp *c, Frame *f, Value out)
{
    Value k = c->key->eval(c->key, f), v;
    bool ok;

    if (is_err(k))
        return false;
    v = c->elt->eval(c->elt, f);
    ok = !is_err(v) && dict_set(f->I, as_dict(out), k, v);
    value_unref(k);
    value_unref(v);
    return ok;
}

static bool emit(const Comp *c, Frame *f, Value out)
{
    Value v;
    bool ok = true;

    if (c->kind == AST_DictComp)
        return emit_pair(c, f, out);
    v = c->elt->eval(c->elt, f);
    if (is_err(v))
        return false;
    switch (c->kind) {
    case AST_ListComp:
        list_push(as_list(out), v);
        return true;
    case AST_SetComp:
        ok = set_add(f->I, (SetObj *)out.o, v);
        value_unref(v);
        return ok;
    default:
        v = gen_yield(f, v);
        value_unref(v);
        return !is_err(v);
    }
}

/* 1 all conditions hold, 0 not, -1 pending */
static int conditions(const StepSeq *ifs, Frame *f)
{
    for (int i = 0; i < ifs->n; i++) {
        Value v = ifs->at[i]->eval(ifs->at[i], f);
        int t = is_err(v) ? -1 : truth(f->I, v);
        value_unref(v);
        if (t <= 0)
            return t;
    }
    return 1;
}

static bool run_clause(const Comp *c, int i, Frame *f, Value src, Value out);

static bool run_inner(const Comp *c, int i, Frame *f, Value out)
{
    int t = conditions(c->clause[i].ifs, f);

    if (t <= 0)
        return !t;
    if (i + 1 == c->n)
        return emit(c, f, out);
    Value src = c->clause[i + 1].iter->eval(c->clause[i + 1].iter, f);
    return !is_err(src) && run_clause(c, i + 1, f, src, out);
}

static bool run_async_clause(const Comp *c, int i, Frame *f, Value src, Value out)
{
    Value it = value_call_method(f->I, src, sym("__aiter__"), NULL, 0), x;

    value_unref(src);
    if (is_err(it))
        return false;
    while (!is_err(x = anext_value(f->I, f, it)))
        if (!c->clause[i].target->store(c->clause[i].target, f, x) || !run_inner(c, i, f, out))
            break;
    value_unref(it);
    return !exc_pending(f->I);
}

typedef struct { const Comp *c; int i; Frame *f; Value out; } ClauseTaker;

static bool take_element(void *taker, Value x)
{
    ClauseTaker *t = taker;
    const Step *target = t->c->clause[t->i].target;

    return target->store(target, t->f, x) && run_inner(t->c, t->i, t->f, t->out) && interp_poll(t->f->I);
}

/* One `for` clause over src, which it steals. */
static bool run_clause(const Comp *c, int i, Frame *f, Value src, Value out)
{
    const Step *target = c->clause[i].target;
    Loop l;
    Value x;
    bool ok = true;

    if (c->clause[i].is_async)
        return run_async_clause(c, i, f, src, out);
    if (src.tag == V_GENERATOR && gen_drivable(f->I, src)) {
        ok = gen_drive(f->I, src, take_element, &(ClauseTaker){c, i, f, out});
        value_unref(src);
        return ok;
    }
    if (!loop_init(f->I, &l, src))
        return false;
    while (ok && !is_err(x = loop_next(f->I, &l)))
        ok = target->store(target, f, x) && run_inner(c, i, f, out) && interp_poll(f->I);
    loop_done(&l);
    return ok && !exc_pending(f->I);
}

static void fresh_slots(const Scope *s, Frame *f, bool cells)
{
    for (int i = 0; i < s->locals.n; i++) {
        Value *slot = &f->slot[s->locals.at[i].slot];
        value_unref(*slot);
        *slot = VERR;
        if (!cells || !s->locals.at[i].is_cell)
            continue;
        *slot = vobj(obj_new(V_CELL, sizeof(CellObj)));
        if (f->I->reads)
            f->I->reads->made(f->I->reads, (CellObj *)slot->o);
    }
}

Value ev_comp(const Step *n, Frame *f)
{
    const Comp *c = n->p;
    Value out, src;
    bool ok;

    if (c->scope)
        fresh_slots(c->scope, f, true);
    f->at = n;
    src = c->clause[0].iter->eval(c->clause[0].iter, f);
    if (is_err(src))
        return VERR;
    out = c->kind == AST_ListComp ? list_new(0) : c->kind == AST_SetComp ? set_new() : dict_new();
    ok = run_clause(c, 0, f, src, out);
    if (c->scope)
        fresh_slots(c->scope, f, false);
    if (ok)
        return out;
    value_unref(out);
    return VERR;
}

/* The body of a generator expression: slot 0 holds the first iterator. */
Value ev_genexp_body(const Step *n, Frame *f)
{
    const Comp *c = n->p;
    Value *at = f->slot[0].tag == V_CELL ? &((CellObj *)f->slot[0].o)->v : &f->slot[0], first = *at;

    f->at = n;
    *at = VERR;                 /* the loop alone holds it */
    return run_clause(c, 0, f, first, VERR) ? VNONE : VERR;
}

Value ev_genexp(const Step *n, Frame *f)
{
    const Code *code = n->p;
    Value src = n->a->eval(n->a, f), it, fn, g;

    if (is_err(src))
        return VERR;
    f->at = n;
    it = src.tag == V_INSTANCE && !is_err(class_of(f->I, src)->dunder[D_aiter]) ? value_ref(src)
       : src.tag == V_GENERATOR ? value_ref(src) : value_iter(f->I, src);
    value_unref(src);
    if (is_err(it))
        return VERR;
    fn = func_new(f->I, code, f);
    g = is_err(fn) ? VERR : func_call(f->I, (FuncObj *)fn.o, &it, 1, NULL, NULL, 0);
    value_unref(fn);
    value_unref(it);
    return g;
}
