/*
 * Branches and loops that a staged tensor decides.
 *
 * In a staged function a tensor has no value while the function runs.  A test on
 * one makes both arms run, and the graph has room for one kind of result:
 * what a variable holds behind the arms, what they return, and the state that
 * goes round in a loop keep their sizes and dtypes (frontend/eval/scene.c).
 *
 * Only what is staged for certain is judged.  That is what comes from the function's tensors by
 * operations on values; x.shape, zeros_like(x) and attributes of objects
 * may be known while staging.  Which variables hold nothing else, whichever statement ran last, follows
 * from all that are assigned to them: each is taken for staged until something else is found.
 */
#include "frontend/check/checker.h"

#include "frontend/check/scope.h"
#include "frontend/check/ways.h"
#include "frontend/eval/later.h"

#include <stdio.h>
#include <string.h>

enum { DEEPEST = 200 };

/* By slot, of a frame in which something may be staged. */
enum { STAGED_NOT, STAGED_PARAM, STAGED_LOCAL };

/* ------------------------------------------------------------- what is staged for certain */

static bool is_value(Check *C, CFrame *f, const Ast *e, int depth);

static bool any_value(Check *C, CFrame *f, AstSeq e, int depth)
{
    for (int i = 0; i < e.n; i++)
        if (is_value(C, f, e.at[i], depth))
            return true;
    return false;
}

static bool is_name_in(const char *s, const char *const *names)
{
    for (; *names; names++)
        if (!strcmp(s, *names))
            return true;
    return false;
}

static bool ends_in(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);

    return n >= m && !strcmp(s + n - m, end);
}

/* Of a tensor: what looks at its sizes alone, or makes a number of it. */
static bool gives_value(const char *method)
{
    static const char *const others[] = {"size", "dim", "numel", "item", "tolist", "element_size", "stride", "new_zeros", "new_ones", "new_full",
                                         "is_contiguous", "__len__", NULL};

    return !ends_in(method, "_like") && !is_name_in(method, others);
}

static bool called_value(Check *C, CFrame *f, const AstCall *c, int depth)
{
    const AstAttribute *m = AST_IS(c->func, Attribute) ? AST_AS(c->func, Attribute) : NULL;
    const Type *of = m ? type_found(m->value) : NULL;
    const char *name = m ? m->attr->text : AST_IS(c->func, Name) ? AST_AS(c->func, Name)->id->text : "";

    if (!gives_value(name))
        return false;
    if (m && is_value(C, f, m->value, depth))
        return true;
    if (m ? !of || of->kind != TY_SPACE : !AST_IS(c->func, Name) || AST_AS(c->func, Name)->bind != BIND_PRELUDE)
        return false;
    return tensor_has_rule(C, name) && any_value(C, f, c->args, depth);
}

static bool compared_value(Check *C, CFrame *f, const AstCompare *c, int depth)
{
    const AstCompareItem *first = c->rest.n ? AST_AS(c->rest.at[0], CompareItem) : NULL;

    if (!first || (first->op != AOP_EQ && first->op != AOP_NE && first->op != AOP_LT && first->op != AOP_LE && first->op != AOP_GT &&
                   first->op != AOP_GE))
        return false;
    return is_value(C, f, c->left, depth) || is_value(C, f, first->right, depth);
}

/* Is e, where it is a tensor, one that has no value while the function is staged? */
static bool is_value(Check *C, CFrame *f, const Ast *e, int depth)
{
    static const char *const views[] = {"T", "mT", "mH", "H", "real", "imag", "at", NULL};
    const AstName *n;

    if (!e || ++depth > DEEPEST)
        return false;
    switch (e->kind) {
    case AST_Name:
        n = AST_AS(e, Name);
        return (n->bind == BIND_LOCAL || n->bind == BIND_CELL) && (int)n->slot < f->nvar && f->staged[n->slot];
    case AST_Arg:
        return !AST_AS(e, Arg)->stars && is_value(C, f, AST_AS(e, Arg)->value, depth);
    case AST_Tuple:
        return any_value(C, f, AST_AS(e, Tuple)->elts, depth);
    case AST_List:
        return any_value(C, f, AST_AS(e, List)->elts, depth);
    case AST_BinOp:
        return is_value(C, f, AST_AS(e, BinOp)->left, depth) || is_value(C, f, AST_AS(e, BinOp)->right, depth);
    case AST_UnaryOp:
        return is_value(C, f, AST_AS(e, UnaryOp)->operand, depth);
    case AST_BoolOp:
        return is_value(C, f, AST_AS(e, BoolOp)->values.at[0], depth);
    case AST_Compare:
        return compared_value(C, f, AST_AS(e, Compare), depth);
    case AST_Subscript:
        return is_value(C, f, AST_AS(e, Subscript)->value, depth);
    case AST_Attribute:
        return is_name_in(AST_AS(e, Attribute)->attr->text, views) && is_value(C, f, AST_AS(e, Attribute)->value, depth);
    case AST_Call:
        return called_value(C, f, AST_AS(e, Call), depth);
    case AST_NamedExpr:
        return is_value(C, f, AST_AS(e, NamedExpr)->value, depth);
    default:
        return false;
    }
}

/* ------------------------------------------------------------- variables */

typedef struct { Check *C; CFrame *f; uint8_t *puts; bool changed; int depth; } Reading;

/* The target gets a part or all of value; NULL: something else. */
static void put(Reading *r, const Ast *target, const Ast *value)
{
    const AstName *n;

    if (AST_IS(target, Tuple) || AST_IS(target, List)) {
        AstSeq e = AST_IS(target, Tuple) ? AST_AS(target, Tuple)->elts : AST_AS(target, List)->elts;
        bool parts = AST_IS(value, Tuple) && AST_AS(value, Tuple)->elts.n == e.n;
        for (int i = 0; i < e.n; i++)
            put(r, e.at[i], parts ? AST_AS(value, Tuple)->elts.at[i] : value);
        return;
    }
    if (!AST_IS(target, Name))
        return;
    n = AST_AS(target, Name);
    if ((n->bind != BIND_LOCAL && n->bind != BIND_CELL) || (int)n->slot >= r->f->nvar)
        return;
    if (r->puts && r->puts[n->slot] < 255)
        r->puts[n->slot]++;
    if (r->f->staged[n->slot] && !is_value(r->C, r->f, value, 0)) {
        r->f->staged[n->slot] = STAGED_NOT;
        r->changed = true;
    }
}

static bool look(Ast *n, void *state)
{
    Reading *r = state;

    if (!n || n->kind == AST_FunctionDef || n->kind == AST_Lambda || n->kind == AST_ClassDef || r->depth > DEEPEST)
        return true;
    if (n->kind == AST_Assign)
        for (int i = 0; i < AST_AS(n, Assign)->targets.n; i++)
            put(r, AST_AS(n, Assign)->targets.at[i], AST_AS(n, Assign)->value);
    if (n->kind == AST_AnnAssign && AST_AS(n, AnnAssign)->value)
        put(r, AST_AS(n, AnnAssign)->target, AST_AS(n, AnnAssign)->value);
    if (n->kind == AST_AugAssign)
        put(r, AST_AS(n, AugAssign)->target, AST_AS(n, AugAssign)->target);
    if (n->kind == AST_For)
        put(r, AST_AS(n, For)->target, AST_AS(n, For)->iter);
    r->depth++;
    ast_walk(n, look, r);
    r->depth--;
    return true;
}

/* The locals that hold what is staged, in all that is assigned to them. */
static void find_locals(Check *C, CFrame *f)
{
    AstSeq body = AST_AS(f->fn->node, FunctionDef)->body;
    Reading r = {.C = C, .f = f, .puts = arena_array(&C->arena, uint8_t, f->nvar + 1)};

    f->staged_known = true;
    for (int i = 0; i < f->scope->locals.n; i++) {
        const Local *l = &f->scope->locals.at[i];
        if ((int)l->slot < f->nvar && !f->staged[l->slot] && !l->is_param && !l->is_shared && !l->is_dim)
            f->staged[l->slot] = STAGED_LOCAL;
        else if ((int)l->slot < f->nvar && l->is_shared)
            f->staged[l->slot] = STAGED_NOT;
    }
    do {
        r.changed = false;
        for (int i = 0; i < body.n; i++)
            look(body.at[i], &r);
        for (int i = 0; r.puts && i < f->scope->locals.n; i++) {
            const Local *l = &f->scope->locals.at[i];
            if ((int)l->slot < f->nvar && f->staged[l->slot] && r.puts[l->slot] + l->is_param != (int)l->nbinds) {
                f->staged[l->slot] = STAGED_NOT;            /* bound in other ways, too: import, with, except */
                r.changed = true;
            }
        }
        r.puts = NULL;
    } while (r.changed);
}

/* @jit(static_argnums=...), @jit(compile_mode="interpret"): not all tensors are staged. */
static bool has_choices(const AstFunctionDef *def)
{
    for (int i = 0; i < def->decorators.n; i++) {
        const AstCall *c = AST_IS(def->decorators.at[i], Call) ? AST_AS(def->decorators.at[i], Call) : NULL;
        for (int k = 0; c && k < c->args.n; k++) {
            const AstArg *a = AST_IS(c->args.at[k], Arg) ? AST_AS(c->args.at[k], Arg) : NULL;
            if (a && a->name && (!strncmp(a->name->text, "static", 6) || strstr(a->name->text, "mode")))
                return true;
        }
    }
    return false;
}

void staging_begin(Check *C, CFrame *f)
{
    const Fn *fn = f->fn;
    CFrame *caller = f->caller && f->caller->staged && f->arg ? f->caller : NULL;
    bool own = fn->is_staged && AST_IS(fn->node, FunctionDef) && !has_choices(AST_AS(fn->node, FunctionDef));

    if ((!own && !caller) || C->kernel || !AST_IS(fn->node, FunctionDef) || fn->scope->is_generator || C->home->library)
        return;
    f->staged = arena_array(&C->arena, uint8_t, f->nvar + 1);
    if (caller && !caller->staged_known)
        find_locals(C, caller);
    for (int i = 0; i < fn->params.n; i++) {
        const AstParam *p = AST_IS(fn->params.at[i], Param) ? AST_AS(fn->params.at[i], Param) : NULL;
        if (p && p->name && p->kind < PARAM_VARARGS && (int)p->slot < f->nvar && f->var[p->slot] && f->var[p->slot]->kind == TY_TENSOR &&
            (own || is_value(C, caller, f->arg[p->slot], 0)))
            f->staged[p->slot] = STAGED_PARAM;
    }
}

bool staging_decides(Check *C, const Ast *test)
{
    CFrame *f = C->frame;
    const Type *t;

    while (f->staged && (AST_IS(test, BoolOp) || (AST_IS(test, UnaryOp) && AST_AS(test, UnaryOp)->op == AOP_NOT)))
        test = AST_IS(test, BoolOp) ? AST_AS(test, BoolOp)->values.at[0] : AST_AS(test, UnaryOp)->operand;
    t = test && f->staged ? type_found(test) : NULL;

    if (!t || t->kind != TY_TENSOR || C->kernel)
        return false;
    if (!f->staged_known)
        find_locals(C, f);
    return is_value(C, f, test, 0);
}

bool staging_counts(Check *C, const Ast *iter)
{
    const AstCall *c = C->frame->staged && AST_IS(iter, Call) ? AST_AS(iter, Call) : NULL;
    bool range = c && AST_IS(c->func, Name) && AST_AS(c->func, Name)->bind == BIND_PRELUDE && !strcmp(AST_AS(c->func, Name)->id->text, "range");

    for (int i = 0; range && i < c->args.n; i++)
        if (AST_IS(c->args.at[i], Arg) && staging_decides(C, AST_AS(c->args.at[i], Arg)->value))
            return true;
    return false;
}

/* ------------------------------------------------------------- kinds that differ */

/* "[2]", "a tuple of 2", "None": what an arm gives. */
void put_result(const Type *t, StrBuf *out)
{
    if (t->kind == TY_TENSOR)
        sb_printf(out, "%s", type_text(t));
    else if (t->kind == TY_TUPLE)
        sb_printf(out, "a tuple of %d", t->n);
    else
        sb_puts(out, type_text(t));
}

static bool tensors_differ(const TType *a, const TType *b)
{
    if (a->dtype != b->dtype && a->dtype != DT_NONE && b->dtype != DT_NONE && !a->weak && !b->weak)
        return true;
    if (a->rank == RANK_UNKNOWN || b->rank == RANK_UNKNOWN)
        return false;
    for (int i = 0; a->rank == b->rank && i < a->rank; i++)
        if (dims_differ(a->shape[i], b->shape[i]) && !dim_is_open(a->shape[i]) && !dim_is_open(b->shape[i]))
            return true;
    return a->rank != b->rank;
}

static bool is_number(const Type *t) { return t->kind == TY_INT || t->kind == TY_FLOAT || t->kind == TY_BOOL; }

static bool has_axes(const Type *t) { return t->kind == TY_TENSOR && t->tensor->rank != RANK_UNKNOWN && t->tensor->rank > 0; }

bool results_differ(const Type *a, const Type *b, const Type **x, const Type **y)
{
    *x = a;
    *y = b;
    if (type_is_any(a) || type_is_any(b) || a->n < 0 || b->n < 0)
        return false;
    if (a->kind == TY_TENSOR && b->kind == TY_TENSOR)
        return tensors_differ(a->tensor, b->tensor);
    if (a->kind != TY_TUPLE || b->kind != TY_TUPLE)
        return (a->kind == TY_TUPLE && b->kind == TY_TENSOR) || (a->kind == TY_TENSOR && b->kind == TY_TUPLE);
    for (int i = 0; i < a->n && i < b->n; i++)
        if (results_differ(a->item[i], b->item[i], x, y))
            return true;
    return a->n != b->n;
}

/* The same for what a staged branch leaves, where a number becomes a tensor without axes, and None stays None. */
static bool leavings_differ(const Type *a, const Type *b, const Type **x, const Type **y)
{
    *x = a;
    *y = b;
    if (type_is_any(a) || type_is_any(b))
        return false;
    if ((is_number(a) && has_axes(b)) || (has_axes(a) && is_number(b)))
        return true;
    if ((a->kind == TY_NONE && b->kind == TY_TENSOR) || (a->kind == TY_TENSOR && b->kind == TY_NONE))
        return true;
    return results_differ(a, b, x, y);
}

/* ------------------------------------------------------------- reports */

typedef struct { Sym name; Ast *at; } Last;

static bool find_last(Ast *n, void *state)
{
    Last *l = state;

    if (!n || n->kind == AST_FunctionDef || n->kind == AST_Lambda || n->kind == AST_ClassDef)
        return true;
    if (n->kind == AST_Assign)
        for (int i = 0; i < AST_AS(n, Assign)->targets.n; i++)
            find_last(AST_AS(n, Assign)->targets.at[i], state);
    else if (n->kind == AST_AugAssign)
        find_last(AST_AS(n, AugAssign)->target, state);
    else if (n->kind == AST_AnnAssign)
        find_last(AST_AS(n, AnnAssign)->target, state);
    else if (n->kind == AST_Name)
        l->at = AST_AS(n, Name)->id == l->name ? n : l->at;
    else if (n->kind == AST_Tuple || n->kind == AST_List || n->kind == AST_If || n->kind == AST_For || n->kind == AST_While || n->kind == AST_With ||
             n->kind == AST_Try || n->kind == AST_MatchCase || n->kind == AST_Match || n->kind == AST_Handler)
        ast_walk(n, find_last, state);
    return true;
}

/* Says at the place in body that last gives the variable something what that is. */
static void label_last(Diag *d, AstSeq body, Sym name, const Type *t)
{
    Last l = {name, NULL};
    StrBuf text = {0};

    for (int i = 0; i < body.n; i++)
        find_last(body.at[i], &l);
    if (!l.at)
        return;
    put_result(t, &text);
    diag_label(d, l.at->span, "%s here", sb_str(&text));
    sb_done(&text);
}

/* "what is A <first>, and B <second>; a staged tensor decides" */
static Diag *report_ways(Check *C, Span span, const char *what, const Type *x, const char *first, const Type *y, const char *second)
{
    StrBuf s = {0};
    Diag *d;

    sb_printf(&s, "%s is ", what);
    put_result(x, &s);
    sb_printf(&s, " %s, and ", first);
    put_result(y, &s);
    sb_printf(&s, " %s; a staged tensor decides, so it must be of one kind", second);
    d = REPORT(C, E0306, span, sb_str(&s));
    sb_done(&s);
    return d;
}

static const Local *local_at(const CFrame *f, const Type *const *at)
{
    for (int i = 0; at >= (const Type *const *)f->var && at < (const Type *const *)f->var + f->nvar && i < f->scope->locals.n; i++)
        if ((int)f->scope->locals.at[i].slot == at - (const Type *const *)f->var)
            return &f->scope->locals.at[i];
    return NULL;
}

static const char *quoted(const Local *l, char *buf, size_t n)
{
    snprintf(buf, n, "'%s'", l->name->text);
    return buf;
}

static const Type *type_on(const Way *w, const struct Change *c)
{
    for (int i = 0; i < w->changes.n; i++)
        if (w->changes.at[i].at == c->at)
            return w->changes.at[i].now;
    return c->was;
}

static void judge_arm(Check *C, AstIf *s, const struct Change *c, const Type *a, const Type *b)
{
    const Local *l = local_at(C->frame, c->at);
    const Type *x, *y;
    char what[96];
    Diag *d;

    if (!l || !a || !b || !leavings_differ(a, b, &x, &y) || !read_behind(C->frame->fn->node, l->name, s))
        return;
    d = report_ways(C, s->test->span, quoted(l, what, sizeof what), x, "where this holds", y, "where not");
    label_last(d, s->body, l->name, a);
    label_last(d, s->orelse, l->name, b);
    diag_help(d, "give both arms the same sizes and dtypes: pad or convert what differs, or choose with where()");
}

void staging_arms(Check *C, AstIf *s, const Way *yes, const Way *no)
{
    if (yes->dead || no->dead)
        return;
    for (int i = 0; i < yes->changes.n; i++)
        judge_arm(C, s, &yes->changes.at[i], yes->changes.at[i].now, type_on(no, &yes->changes.at[i]));
    for (int i = 0; i < no->changes.n; i++)
        if (type_on(yes, &no->changes.at[i]) == no->changes.at[i].was)
            judge_arm(C, s, &no->changes.at[i], no->changes.at[i].was, no->changes.at[i].now);
}

void staging_choice(Check *C, AstIfExp *e, const Type *a, const Type *b)
{
    const Type *x, *y;

    if (leavings_differ(a, b, &x, &y))
        diag_help(report_ways(C, e->ast.span, "what this gives", x, "where the test holds", y, "where not"),
                  "give both sides the same sizes and dtypes, or choose element by element with where()");
}

void staging_round(Check *C, Ast *test, AstSeq body, const Way *round)
{
    const Type *x, *y;
    char what[96];
    Diag *d;

    for (int i = 0; !round->dead && i < round->changes.n; i++) {
        const struct Change *c = &round->changes.at[i];
        const Local *l = local_at(C->frame, c->at);
        if (!l || !c->was || !leavings_differ(c->was, c->now, &x, &y) || !read_later(C->frame->fn->node, l->name, test->span.lo))
            continue;
        d = report_ways(C, test->span, quoted(l, what, sizeof what), x, "at the start of this loop", y, "after a round");
        label_last(d, body, l->name, c->now);
        diag_help(d, "a loop keeps sizes and dtypes from round to round: write into a tensor that is large enough (at[i].set), or collect with scan");
    }
}

void staging_return(Check *C, AstReturn *r, const Type *t)
{
    CFrame *f = C->frame;
    const Type *x, *y;
    Diag *d;

    if (!f->staged || C->branches - f->branches != f->staged_arms)
        return;
    if (!f->first_return) {
        if (f->staged_arms) {
            f->first_return = r;
            f->first_type = t;
        }
        return;
    }
    if (f->first_return == r || !leavings_differ(f->first_type, t, &x, &y))
        return;
    d = report_ways(C, r->ast.span, "the result", x, "where another return is reached", y, "here");
    diag_label(d, f->first_return->ast.span, "the other return");
    diag_help(d, "return the same sizes and dtypes from both: pad or convert what differs, or choose with where()");
}
