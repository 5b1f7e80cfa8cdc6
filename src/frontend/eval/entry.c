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
 * attribute, an element or a slice; for f(*parts) the elements of the list.  A
 * region argument that is no such place is simply dropped, and so is everything
 * when the function raises.  *args: Region[...] leaves a tuple, for each argument
 * a tensor, or None; or (A,) for the projection A.part[i], whose place is A's.
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
        if (p->ast.kind == AST_Param && p->kind <= PARAM_KWARGS && p->slot < 64 && privilege_changes(privilege_of(p->annotation)))
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

/* May this step make a partition of what it is taken from? */
static bool makes_parts(const Step *s)
{
    static const char *const names[] = {"part", "tiles", "equal", "halo", "by"};
    bool named = s->eval == ev_attr || (s->flag && (s->eval == ev_call_method || s->eval == ev_call_general));

    for (size_t i = 0; named && i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], ((const AttrCache *)s->p)->name->text))
            return true;
    return false;
}

/* The step that reads the tensor A in A.part.tiles(4)[i]; NULL: it is written otherwise, or something is pending. */
static const Step *beneath_parts(const Step *load, Frame *f)
{
    const Step *s = load->eval == ev_item ? load->a : NULL;
    bool part = false, tensor;
    Value v;

    if (!s || !makes_parts(s))
        return NULL;
    for (; makes_parts(s) && !part; s = s->a)
        part = !strcmp(((const AttrCache *)s->p)->name->text, "part");
    if (part && makes_parts(s) && s->eval != ev_attr)
        return NULL;
    v = s->eval(s, f);
    tensor = v.tag == V_TENSOR;                     /* of P.tiles(4)[i] the base may be a partition */
    if (!is_err(v))
        value_unref(v);
    return tensor ? s : NULL;
}

/* Where among the positions the i-th argument of a call begins. */
static int begins(const int *start, int i) { return start ? start[i] : i; }

/* The argument expression for a parameter; NULL: none stands there. */
static const Step *argument(const Step *call, const int *start, const Code *c, int slot, int skip)
{
    const StepSeq *args = call->seq;

    for (int i = 0; i < args->n; i++) {
        const Step *a = args->at[i];
        bool general = call->eval == ev_call_general;
        if (general && a->flag)
            continue;
        if (general && a->sym ? a->sym == c->param[slot] : begins(start, i) + skip == slot)
            return general ? a->a : a;
    }
    return NULL;
}

/* Store v, which is stolen, where the expression came from; nothing where that is no place. */
static bool store_back(const Step *from, Frame *f, Value v)
{
    Step steps[6];

    if (from && !is_err(v) && place_of(from, steps, 6))
        return store_to(steps, f, v);
    value_unref(v);
    return true;
}

/* One element of what *args: Region[...] left. */
static bool store_left(const Step *a, Frame *f, Value left)
{
    if (left.tag == V_TUPLE && as_tuple(left)->n == 1) {
        left = as_tuple(left)->at[0];
        a = beneath_parts(a, f);
    }
    if (exc_pending(f->I))
        return false;
    return left.tag == V_NONE || store_back(a, f, value_ref(left));
}

/* f(*parts): the element of the list that stood at a position of the call becomes v. */
static void store_in_list(const Step *call, const int *start, Frame *f, int position, Value v)
{
    Step steps[6];

    for (int i = 0; start && i < call->seq->n; i++) {
        const Step *a = call->seq->at[i];
        if (a->flag == 1 && position >= start[i] && position < start[i + 1] && place_of(a->a, steps, 6)) {
            Value list = a->a->eval(a->a, f);
            int64_t k = position - start[i];
            if (list.tag == V_LIST && k < as_list(list)->n) {
                value_unref(as_list(list)->at[k]);
                as_list(list)->at[k] = value_ref(v);
            }
            value_unref(list);
        }
    }
}

/* What *args: Region[...] left: for each argument that no parameter took its tensor, or None. */
static bool store_each(const Step *call, const int *start, const Code *c, Frame *f, int skip, Value v)
{
    const TupleObj *left = v.tag == V_TUPLE ? as_tuple(v) : NULL;
    int taken = c->npos - skip;                     /* positions that parameters took */
    bool ok = true;

    for (int i = 0; ok && left && i < call->seq->n; i++) {
        const Step *a = call->seq->at[i];
        int k = begins(start, i) - taken;
        if (call->eval == ev_call_general) {
            if (a->flag || a->sym)
                continue;
            a = a->a;
        }
        if (k >= 0 && k < left->n)
            ok = store_left(a, f, left->at[k]);
    }
    for (int k = 0; ok && left && start && k < left->n; k++)
        if (left->at[k].tag == V_TENSOR)
            store_in_list(call, start, f, k + taken, left->at[k]);
    value_unref(v);
    return ok;
}

/* What **kwargs: Region[...] left: for an argument by name its tensor. */
static bool store_named(const Step *call, Frame *f, Value v)
{
    bool ok = true;

    for (int i = 0; ok && v.tag == V_DICT && call->eval == ev_call_general && i < call->seq->n; i++) {
        const Step *a = call->seq->at[i];
        Value left = a->sym && !a->flag ? dict_get_sym(as_dict(v), a->sym) : VERR;
        if (left.tag == V_TENSOR)
            ok = store_back(a->a, f, value_ref(left));
    }
    value_unref(v);
    return ok;
}

bool regions_back(const Step *call, const int *start, Frame *f, Value callee, bool with_self)
{
    Interp *I = f->I;
    bool object = callee.tag == V_INSTANCE;
    Value func = callee.tag == V_BOUND ? ((BoundObj *)callee.o)->func : object ? ((InstanceObj *)callee.o)->cls->dunder[D_call] : callee;
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
        int skip = with_self || object || callee.tag == V_BOUND;
        const Step *a;
        if (!(c->regions >> slot & 1))
            continue;
        a = ok ? argument(call, start, c, slot, skip) : NULL;
        if (ok && slot == c->kwargs)
            ok = store_named(call, f, left[k]);
        else if (ok && slot == c->varargs)
            ok = store_each(call, start, c, f, skip, left[k]);
        else {
            if (ok && !a && !is_err(left[k]))
                store_in_list(call, start, f, slot - skip, left[k]);
            ok = store_back(a, f, left[k]) && ok;
        }
        k++;
    }
    return ok;
}
