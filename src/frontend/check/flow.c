/*
 * Control flow.  Branches are walked separately and joined.  Loops are walked
 * quietly until the types at their head stand still, then once aloud.  A
 * variable that an undecided condition is about is hidden in its branches, so
 * that a program that guards itself is believed.
 */
#include "frontend/check/kernels.h"
#include "frontend/check/ways.h"

#include "frontend/check/collect.h"

#include <string.h>

static const Type *wider(const Check *C, const Type *now, const Type *before)
{
    TType t;

    if (now == before)
        return now;
    if (type_is_any(now) || type_is_any(before) || now->kind != TY_TENSOR || before->kind != TY_TENSOR ||
        now->tensor->rank != before->tensor->rank || now->tensor->rank == RANK_UNKNOWN)
        return now && before && now->kind == TY_INT && before->kind == TY_INT ? type_int(C->kernel ? kernel_unknown() : DIM_BAD) : T_ANY;
    t = *now->tensor;
    for (int i = 0; i < t.rank; i++)
        if (t.shape[i] != before->tensor->shape[i])
            t.shape[i] = dim_open();
    if (t.dtype != before->tensor->dtype)
        t.dtype = DT_NONE;
    return type_tensor(&t);
}

/* What still changes from round to round could be anything; a tensor keeps the sizes that stay. */
static void widen(const Check *C, Way *w)
{
    for (int i = 0; i < w->changes.n; i++)
        w->changes.at[i].now = wider(C, w->changes.at[i].now, w->changes.at[i].was);
}

/* ------------------------------------------------------------- hiding what a condition is about */

const Type **flow_variable(const Check *C, const AstName *name, Trail **trail)
{
    CFrame *f = C->frame;

    *trail = f->trail;
    if ((name->bind == BIND_LOCAL || name->bind == BIND_CELL) && (int)name->slot < f->nvar)
        return &f->var[name->slot];
    if (name->bind != BIND_GLOBAL || f->fn || (int)name->slot >= C->home->nglob)
        return NULL;
    *trail = C->home->frame.trail;
    return &C->home->glob[name->slot];
}

/* sum, isnan: f(x) and x.f() tell of elements, and nothing of sizes. */
static bool tells_elements(const Ast *f)
{
    static const char *const names[] = {"sum", "mean", "max", "min", "any", "all", "norm", "prod", "item", "abs", "std", "var", "isnan", "isinf",
                                        "isfinite", "argmax", "argmin", "median", "float", "bool", "allclose", "exp", "log", "sqrt"};
    Sym name = AST_IS(f, Attribute) ? AST_AS(f, Attribute)->attr :
               AST_IS(f, Name) && AST_AS(f, Name)->bind == BIND_PRELUDE ? AST_AS(f, Name)->id : NULL;

    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
        if (!strcmp(name->text, names[i]))
            return true;
    return false;
}

/* x < y, which is about sizes only where sizes stand there. */
static bool is_ordering(const Ast *n)
{
    const AstCompare *c = AST_AS(n, Compare);

    for (int i = 0; AST_IS(n, Compare) && i < c->rest.n; i++)
        if (AST_AS(c->rest.at[i], CompareItem)->op < AOP_LT || AST_AS(c->rest.at[i], CompareItem)->op > AOP_GE)
            return false;
    return AST_IS(n, Compare);
}

/* Is a tensor below n there for its elements? A size, a subscript and the argument of another function are not. inside: n is there for them. */
static bool about_elements(const Ast *n, bool inside)
{
    switch (n->kind) {
    case AST_Call: return tells_elements(AST_AS(n, Call)->func);
    case AST_Compare: return inside || is_ordering(n);
    case AST_Attribute: return inside && tells_elements(n);
    default: return inside && (n->kind == AST_BinOp || n->kind == AST_UnaryOp || n->kind == AST_CompareItem || n->kind == AST_Arg);
    }
}

static bool hide_names(Ast *n, void *state)
{
    Hiding *h = state;
    bool inside = h->elements;
    const Type **at;
    Trail *trail;

    if (!n || h->depth > 100)
        return true;
    if (n->kind == AST_Name) {
        at = flow_variable(h->C, AST_AS(n, Name), &trail);
        if (inside && at && !type_is_any(*at) && (*at)->kind == TY_TENSOR && (*at)->tensor->rank != RANK_UNKNOWN)
            return true;
        if (at && *at && (*at)->kind > TY_UNSET && (*at)->kind != TY_BOOL && (*at)->kind != TY_FUNC &&
            (*at)->kind != TY_SPACE && (*at)->kind != TY_CLASS && h->n < 16) {
            h->var[h->n++] = (Hidden){trail, at, type_tested(*at)};
            var_put(trail, at, type_of_kind(TY_HIDDEN));
        }
        return true;
    }
    h->elements = about_elements(n, inside);
    h->depth++;
    ast_walk(n, hide_names, h);
    h->depth--;
    h->elements = inside;
    return true;
}

void flow_hide(Check *C, Hiding *h, Ast *test)
{
    h->C = C;
    h->n = h->depth = h->elements = 0;
    h->around = C->hiding;
    C->hiding = h;
    if (test && !C->kernel)                         /* a kernel's types are its own: no condition is about them */
        hide_names(test, h);
}

static void hide_again(Hiding *h)
{
    h->C->hiding = h;
    for (int i = 0; i < h->n; i++)
        var_put(h->var[i].trail, h->var[i].at, type_of_kind(TY_HIDDEN));
}

void flow_unhide(const Hiding *h)
{
    for (int i = h->n - 1; i >= 0; i--)
        if (*h->var[i].at && (*h->var[i].at)->kind == TY_HIDDEN)
            var_put(h->var[i].trail, h->var[i].at, h->var[i].was);
    h->C->hiding = h->around;
}

void flow_forget_hidden(const Check *C, const Type **at)
{
    for (Hiding *h = C->hiding; h; h = h->around)
        for (int i = 0; i < h->n; i++)
            if (h->var[i].at == at)
                h->var[i].was = type_forget(h->var[i].was);
}

const Type *flow_hidden(const Check *C, Ast *e)
{
    Trail *trail;
    const Type **at = AST_IS(e, Name) ? flow_variable(C, AST_AS(e, Name), &trail) : NULL;

    for (const Hiding *h = C->hiding; at && h; h = h->around)
        for (int i = 0; i < h->n; i++)
            if (h->var[i].at == at && h->var[i].was->kind != TY_HIDDEN)
                return h->var[i].was;
    return T_ANY;
}

/* ------------------------------------------------------------- branches */

/* Does the condition hold? -1: not known. One behind which a library raises is its check of arguments. */
static int condition(Check *C, AstIf *s)
{
    int r = truth(C, s->test);

    if (r >= 0 || !C->home->library || C->kernel || s->body.n != 1 || s->body.at[0]->kind != AST_Raise)
        return r;
    C->apart = true;
    r = truth(C, s->test);
    C->apart = false;
    return r > 0 ? r : -1;
}

void flow_if(Check *C, AstIf *s)
{
    int r = condition(C, s), facts = C->facts;
    Hiding h;
    Fork at;
    Way first, second;
    Facts yes, no;
    Narrowing told, told_no;
    bool staged, ends;

    expr_looked(C, s->test);
    truth_judged(C, s->test);
    if (r >= 0) {
        block(C, r ? s->body : s->orelse);
        return;
    }
    facts_read(C, s->test, true, &yes);
    facts_read(C, s->test, false, &no);
    narrow_read(C, s->test, true, &told);
    narrow_read(C, s->test, false, &told_no);
    staged = staging_decides(C, s->test);               /* then both arms run: none of them is guarded */
    C->branches++;
    C->frame->guards++;
    C->frame->staged_arms += staged;
    at = way_fork(C);
    facts_assume(C, &yes);
    flow_hide(C, &h, staged ? NULL : s->test);
    narrow_take(&told);
    block(C, s->body);
    flow_unhide(&h);
    first = way_end(C, at);
    facts_drop(C, facts);
    at = way_fork(C);
    facts_assume(C, &no);
    hide_again(&h);
    narrow_take(&told_no);
    block(C, s->orelse);
    flow_unhide(&h);
    second = way_end(C, at);
    C->branches--;
    C->frame->guards--;
    C->frame->staged_arms -= staged;
    if (staged)
        staging_arms(C, s, &first, &second);
    if (!first.dead || C->frame->dead)
        facts_drop(C, facts);
    if (second.dead && !first.dead)
        facts_assume(C, &yes);
    ends = first.dead != second.dead;
    way_merge(&second, &first);
    way_take(C, &second);
    if (C->frame->several && ends)
        several_believed(C, &told, &told_no);
}

/* One arm: aloud without what the test is about, then its type with it. */
static const Type *arm(Check *C, Ast *e, Ast *test, bool holds)
{
    int mark = C->facts;
    const Type *t;
    Facts facts;
    Narrowing told;
    Hiding h;

    facts_read(C, test, holds, &facts);
    narrow_read(C, test, holds, &told);
    facts_assume(C, &facts);
    if (!C->quiet) {
        flow_hide(C, &h, staging_decides(C, test) ? NULL : test);
        narrow_take(&told);
        expr(C, e);
        narrow_back(&told);
        flow_unhide(&h);
    }
    narrow_take(&told);
    C->quiet++;
    t = expr(C, e);
    C->quiet--;
    narrow_back(&told);
    facts_drop(C, mark);
    return type_settle(t);
}

const Type *flow_conditional(Check *C, AstIfExp *e)
{
    const Type *a, *b;

    C->branches++;
    C->frame->guards++;
    a = arm(C, e->body, e->test, true);
    b = arm(C, e->orelse, e->test, false);
    C->branches--;
    C->frame->guards--;
    if (staging_decides(C, e->test))
        staging_choice(C, e, a, b);
    return type_join(a, b);
}

typedef struct Loop { Fork head; Way out; bool any; struct Loop *up; } Loop;

/* Where break and continue go: their state counts at the loop's head and end. */
void flow_leave_loop(Check *C)
{
    Loop *l = C->loop;
    Way here;

    if (l && !C->frame->dead) {
        here = way_here(C, l->head);
        if (l->any)
            way_merge(&here, &l->out);
        l->out = here;
        l->any = true;
    }
    C->frame->dead = true;
}

/* for x in xs, where something changes x in place: what xs holds is not known then. */
static void forget_elements(Check *C, AstFor *f)
{
    AstSeq e = AST_IS(f->target, Tuple) ? AST_AS(f->target, Tuple)->elts : (AstSeq){&f->target, 1};

    for (int i = 0; i < e.n; i++)
        if (e.at[i]->kind == AST_Name && is_mutated(C->home, AST_AS(e.at[i], Name)->id))
            forget_place(C, f->iter);
}

/* Not behind a way out of the round: if i == 0: prev = x; continue. */
bool flow_first_round(const Check *C)
{
    const FirstRound *r = &C->first;

    return r->loop && r->loop == C->loop && !r->loop->any && r->quiet == C->quiet && r->branches == C->branches && r->calls == C->calls;
}

/* One round; what it changes is undone and given back. */
static Way loop_once(Check *C, AstFor *f, AstWhile *w, bool sure, bool staged)
{
    Loop l = {.up = C->loop, .head = way_fork(C)};
    FirstRound outer = C->first;
    int facts = C->facts;
    Narrowing told;
    Hiding h;
    Way round;

    C->loop = &l;
    C->branches++;
    C->first = (FirstRound){sure ? &l : NULL, C->quiet, C->branches, C->calls};
    told.n = 0;
    if (w)
        narrow_read(C, w->test, true, &told);
    flow_hide(C, &h, w && !staged ? w->test : NULL);
    narrow_take(&told);
    if (f)
        bind_target(C, f->target, f->is_async ? T_ANY : element_of(expr_looked(C, f->iter)), NULL);
    block(C, f ? f->body : w->body);
    flow_unhide(&h);
    facts_drop(C, facts);
    C->branches--;
    C->loop = l.up;
    C->first = outer;
    round = way_end(C, l.head);
    if (l.any)
        way_merge(&round, &l.out);
    return round;
}

/* break or continue of this loop, or a way out of its function. */
static bool leaves(Ast *n, void *state)
{
    bool *found = state;

    if (!n || *found)
        return true;
    if (n->kind == AST_Break || n->kind == AST_Continue || n->kind == AST_Return || n->kind == AST_Try || n->kind == AST_With)
        *found = true;
    else if (n->kind != AST_FunctionDef && n->kind != AST_Lambda && n->kind != AST_ClassDef)
        ast_walk(n, leaves, found);
    return true;
}

/* A loop over a sequence that is known element by element is walked round by round. false: it is not one. */
static bool unrolled(Check *C, AstFor *f)
{
    const Type *const *item = NULL;
    const Type *t = f->is_async ? NULL : iterated(expr_looked(C, f->iter));
    int n = type_items(t, &item);
    bool left = false;

    for (int i = 0; i < f->body.n; i++)
        leaves(f->body.at[i], &left);
    if (n <= 0 || left || C->unrolled * n > UNROLL_MAX)
        return false;
    C->unrolled *= n;
    for (int i = 0; i < n && !C->frame->dead; i++) {
        bind_target(C, f->target, item[i], f->iter);
        block(C, f->body);
    }
    C->unrolled /= n;
    block(C, f->orelse);
    return true;
}

/* break of this loop */
static bool breaks(Ast *n, void *state)
{
    bool *found = state;

    if (!n || *found)
        return true;
    if (n->kind == AST_Break)
        *found = true;
    else if (n->kind != AST_FunctionDef && n->kind != AST_Lambda && n->kind != AST_ClassDef && n->kind != AST_For && n->kind != AST_While)
        ast_walk(n, breaks, found);
    return true;
}

/* Of a loop that may be left by a break, which goes past it. */
static void loop_else(Check *C, AstSeq orelse, AstSeq body)
{
    bool found = false;
    Fork at;
    Way way;

    for (int i = 0; orelse.n && i < body.n; i++)
        breaks(body.at[i], &found);
    if (!found) {
        block(C, orelse);
        return;
    }
    at = way_fork(C);
    C->branches++;
    block(C, orelse);
    C->branches--;
    way = way_end(C, at);
    if (way.dead)
        way.changes.n = 0;
    way_join_start(&way);
    way.dead = at.dead;
    way_take(C, &way);
}

void flow_loop(Check *C, AstFor *f, AstWhile *w)
{
    enum { ROUNDS = 2 };
    bool dead, staged, same = false, sure = !C->quiet && !C->kernel;
    Way round;

    if (f)
        forget_elements(C, f);
    if (f && unrolled(C, f))
        return;
    if (w) {
        expr(C, w->test);
        truth_judged(C, w->test);
    } else {
        const Type *t = expr_looked(C, f->iter);
        host_iterated(C, t, f->iter);
        if (C->kernel)
            kernel_iterated(C, t, f->iter);
    }
    if (w && truth(C, w->test) == 0)
        return;
    dead = C->frame->dead;
    staged = w ? staging_decides(C, w->test) : staging_counts(C, f->iter);
    for (int i = 0; i <= ROUNDS && !same; i++) {
        bool aloud = C->kernel && i == 0;           /* a kernel's types do not change: the first round shows what is wrong */
        C->quiet += !aloud;
        round = loop_once(C, f, w, sure && !i, staged);
        C->quiet -= !aloud;
        if (staged && !i)
            staging_round(C, w ? w->test : f->iter, w ? w->body : f->body, &round);
        if (round.dead)
            round.changes.n = 0;                    /* the loop is left in its first round */
        way_join_start(&round);
        same = !way_changes(&round);
        if (!same && i == ROUNDS)
            widen(C, &round);
        way_take(C, &round);
        C->frame->dead = dead;
    }
    round = loop_once(C, f, w, false, staged);
    way_join_start(&round);
    way_take(C, &round);
    C->frame->dead = dead;
    loop_else(C, f ? f->orelse : w->orelse, f ? f->body : w->body);
}

/* Anything that the block binds may have been bound, or not, when it was left half-way. */
static void forget_bound(void *state, CollectEvent e, Sym name, Ast *node)
{
    Check *C = state;
    CFrame *f = C->frame;
    const Local *l = e == COLLECT_BIND ? scope_local(f->scope, name) : NULL;

    if (e == COLLECT_USE && is_mutated(C->home, name))
        forget_place(C, node);                      /* what was in it may be more, or less */
    if (!l)
        return;
    if (f->scope->kind == SCOPE_MODULE)
        var_put(C->home->frame.trail, &C->home->glob[l->slot], T_ANY);
    else if ((int)l->slot < f->nvar)
        var_put(f->trail, &f->var[l->slot], T_ANY);
}

void flow_try(Check *C, AstTry *t)
{
    int facts = C->facts;
    Fork at = way_fork(C);
    Way done, way;

    C->quiet += t->handlers.n > 0;
    C->tries += t->handlers.n > 0;
    C->branches++;
    block(C, t->body);
    block(C, t->orelse);
    facts_drop(C, facts);
    C->quiet -= t->handlers.n > 0;
    C->tries -= t->handlers.n > 0;
    done = way_end(C, at);
    C->branches += t->handlers.n > 0 ? 0 : -1;
    for (int i = 0; i < t->handlers.n; i++) {
        AstHandler *h = AST_AS(t->handlers.at[i], Handler);
        at = way_fork(C);
        collect_block(t->body, forget_bound, C);
        if (h->bound)
            set_name(C, h->bound, T_ANY, NULL);
        block(C, h->body);
        facts_drop(C, facts);
        way = way_end(C, at);
        way_merge(&way, &done);
        done = way;
    }
    way_take(C, &done);
    C->branches -= t->handlers.n > 0;
    if (t->final.n) {
        bool dead = C->frame->dead;
        C->frame->dead = false;
        block(C, t->final);
        C->frame->dead |= dead;
    }
}

/* ------------------------------------------------------------- with */

static const char *callee_name(const Ast *e)
{
    if (!e || e->kind != AST_Call)
        return "";
    e = AST_AS(e, Call)->func;
    if (e->kind == AST_Attribute)
        return AST_AS(e, Attribute)->attr->text;
    return e->kind == AST_Name ? AST_AS(e, Name)->id->text : "";
}

/* with precision(...), with numerics(...) */
static bool is_mixed(const Ast *e)
{
    const char *name = callee_name(e);

    return !strcmp(name, "precision") || !strcmp(name, "numerics");
}

bool flow_swallows(const Ast *e)
{
    const char *s = callee_name(e);

    return !strcmp(s, "suppress") || !strcmp(s, "raises");
}

/* What `with ... as` gives: an open file gives itself, an object what its __enter__ does. */
static const Type *entered(Check *C, const Type *t, Ast *context)
{
    const Type *m = t->kind == TY_INSTANCE ? cls_find(t->ref, sym("__enter__")) : NULL;

    if (!C->kernel && ((t->kind >= TY_NONE && t->kind <= TY_FUNC && !type_is_any(t)) || t->kind == TY_TENSOR))
        diag_help(REPORT(C, E0906, context->span, "what 'with' opens", "an object with __enter__ and __exit__", type_text(t)),
                  t->kind == TY_FUNC ? "call it: what it gives may be such an object"
                                     : "define both in a class, or decorate a generator with @contextmanager");
    if (object_lacks(C, t, "__enter__") && object_lacks(C, t, "__aenter__"))
        diag_help(REPORT(C, E0906, context->span, "what 'with' opens", "an object with __enter__ and __exit__", type_text(t)),
                  "define both in %s, or decorate a generator with @contextmanager", cls_name(t->ref));

    if (m && m->kind == TY_FUNC && (!((const Fn *)m->ref)->around->home->library || t->inst))
        return call_type(C, type_method(t, m), &(CallArgs){0}, context);
    return t->kind == TY_OBJECT ? t : T_ANY;
}

void flow_with(Check *C, AstWith *w)
{
    int mixed = 0, quiet = 0, facts = C->facts;

    for (int i = 0; i < w->items.n; i++) {
        AstWithItem *x = AST_AS(w->items.at[i], WithItem);
        const Type *t = expr(C, x->context);
        mixed += is_mixed(x->context);
        quiet += flow_swallows(x->context);
        t = entered(C, t, x->context);
        if (x->target)
            bind_target(C, x->target, t, NULL);
    }
    C->mixed += mixed;
    C->quiet += quiet;
    C->tries += quiet;
    block(C, w->body);
    C->mixed -= mixed;
    C->quiet -= quiet;
    C->tries -= quiet;
    if (quiet) {
        collect_block(w->body, forget_bound, C);
        facts_drop(C, facts);
        C->frame->dead = false;
    }
}
