/*
 * What happens at the edges of a call besides binding arguments.
 *
 * Conditions of a signature (constraint: D % 8 == 0, where ...) are tested at
 * entry, once the named dims have their sizes; the checker reports what it can
 * know, this is for sizes known only now.
 *
 * Tensors are values, so a function that changes a region changes its own
 * copy.  At its end such a function leaves the copies with the Interp; the call
 * that ran it stores them where its arguments came from: a variable, an
 * attribute, an element or a slice.  A region argument that is no such place is
 * simply dropped, and so is everything when the function raises.
 */
#include "frontend/eval/lower.h"

#include "frontend/check/privilege.h"

#include <string.h>

/* ------------------------------------------------------------- conditions */

typedef struct Shown { AstName *name[4]; Step *value[4]; int n; } Shown;
struct EntryTest { Step *test; const char *text; Shown shown; };

typedef struct Names { Lower *L; Shown *shown; } Names;

static bool find_names(Ast *n, void *state)
{
    Names *s = state;

    if (AST_IS(n, Name)) {
        for (int i = 0; i < s->shown->n; i++)
            if (s->shown->name[i]->id == AST_AS(n, Name)->id)
                return true;
        if (s->shown->n < 4) {
            s->shown->name[s->shown->n] = AST_AS(n, Name);
            s->shown->value[s->shown->n++] = lower_expr(s->L, n);
        }
    } else if (n) {
        ast_walk(n, find_names, s);
    }
    return true;
}

static void add_test(Lower *L, Code *c, Ast *cond)
{
    EntryTest *t = &c->tests[c->ntests++];
    Names s = {L, &t->shown};
    StrBuf b = {0};

    ast_print(cond, &b);
    t->text = arena_strdup(L->arena, sb_str(&b));
    t->test = lower_expr(L, cond);
    find_names(cond, &s);
    sb_done(&b);
}

void lower_entry(Lower *L, Code *c, const AstFunctionDef *d)
{
    int n = d->where.n;

    for (int i = 0; i < d->params.n; i++) {
        const AstParam *p = AST_AS(d->params.at[i], Param);
        n += p->ast.kind == AST_Param && p->kind == PARAM_CONSTRAINT;
        if (p->ast.kind == AST_Param && p->kind < PARAM_KWARGS && p->slot < 64 && privilege_changes(privilege_of(p->annotation)))
            c->regions |= 1ull << p->slot;
    }
    c->simple = c->simple && !c->regions;
    c->tests = n ? arena_array(L->arena, EntryTest, n) : NULL;
    for (int i = 0; i < d->params.n; i++) {
        const AstParam *p = AST_AS(d->params.at[i], Param);
        if (p->ast.kind == AST_Param && p->kind == PARAM_CONSTRAINT && p->annotation)
            add_test(L, c, p->annotation);
    }
    for (int i = 0; i < d->where.n; i++)
        add_test(L, c, d->where.at[i]);
}

static bool violated(Frame *f, const EntryTest *t)
{
    StrBuf b = {0};

    for (int i = 0; i < t->shown.n; i++) {
        Value v = t->shown.value[i]->eval(t->shown.value[i], f), s = is_err(v) ? VERR : value_repr(f->I, v);
        if (is_err(s))
            exc_clear(f->I);
        else
            sb_printf(&b, "%s%s = %s", b.n ? ", " : "", t->shown.name[i]->id->text, as_str(s)->s);
        value_unref(v);
        value_unref(s);
    }
    f->at = NULL;
    raise(f->I, EXC_ShapeError, "constraint %s violated: %s", t->text, b.n ? sb_str(&b) : "it does not hold");
    sb_done(&b);
    return false;
}

/* A condition about sizes that no argument gives says nothing. */
bool entry_tests(Frame *f)
{
    for (int i = 0; i < f->code->ntests; i++) {
        const EntryTest *t = &f->code->tests[i];
        Value v = t->test->eval(t->test, f);
        int ok = is_err(v) ? -1 : value_truth(f->I, v);
        value_unref(v);
        if (ok < 0 && !exc_matches(f->I, EXC_NameError))
            return false;
        if (ok < 0)
            exc_clear(f->I);
        else if (!ok)
            return violated(f, t);
    }
    return true;
}

/* ------------------------------------------------------------- regions */

void regions_drop(Interp *I)
{
    slots_drop(I->region, I->nregions);
    I->nregions = 0;
    I->region_code = NULL;
}

void regions_leave(Frame *f)
{
    Interp *I = f->I;

    regions_drop(I);
    I->region_code = f->code;
    for (int slot = 0; slot < 64 && I->nregions < REGIONS_MAX; slot++)
        if (f->code->regions >> slot & 1) {
            Value v = f->slot[slot];
            if (v.tag == V_CELL)
                v = ((CellObj *)v.o)->v;
            I->region[I->nregions++] = value_ref(v);
        }
}

/* The store that puts a value where the expression `load` reads one; steps[0] is it. false: there is no such place. */
static bool place_of(const Step *load, Step *steps, int room)
{
    static const struct { EvalFn load; StoreFn store; } pairs[] = {
        {ev_local, st_local}, {ev_cell, st_cell}, {ev_free, st_free}, {ev_global, st_global}, {ev_attr, st_attr}, {ev_item, st_item}};

    for (size_t i = 0; room && i < sizeof pairs / sizeof *pairs; i++) {
        if (load->eval != pairs[i].load)
            continue;
        *steps = *load;
        steps->store = pairs[i].store;
        if (load->eval == ev_item)
            steps->c = place_of(load->a, steps + 1, room - 1) ? steps + 1 : NULL;
        return true;
    }
    return false;
}

/* The argument expression for a parameter; NULL: none stands there. */
static const Step *argument(const Step *call, const Code *c, int slot, int skip)
{
    const StepSeq *args = call->seq;
    int at = skip;

    for (int i = 0; i < args->n; i++) {
        const Step *a = args->at[i];
        if (call->eval != ev_call_general) {
            if (i + skip == slot)
                return a;
        } else if (a->flag) {
            return NULL;
        } else if (a->sym ? a->sym == c->param[slot] : at++ == slot) {
            return a->a;
        }
    }
    return NULL;
}

bool regions_back(const Step *call, Frame *f, Value callee, bool with_self)
{
    Interp *I = f->I;
    Value func = callee.tag == V_BOUND ? ((BoundObj *)callee.o)->func : callee;
    const FuncObj *fn = func.tag == V_FUNC ? (FuncObj *)func.o : NULL;
    const Code *c = I->region_code;
    Value left[REGIONS_MAX];
    int n = 0, k = 0;
    bool ok = true;

    if (!fn || fn->code != c) {
        regions_drop(I);
        return true;
    }
    for (; n < I->nregions; n++)
        left[n] = I->region[n];
    I->nregions = 0;
    I->region_code = NULL;
    for (int slot = 0; slot < 64 && k < n; slot++) {
        Step steps[6];
        const Step *a;
        if (!(c->regions >> slot & 1))
            continue;
        a = argument(call, c, slot, with_self || callee.tag == V_BOUND);
        if (ok && a && !is_err(left[k]) && place_of(a, steps, 6))
            ok = store_to(steps, f, left[k]);
        else
            value_unref(left[k]);
        k++;
    }
    return ok;
}
