/*
 * Variables that may be None, or of several types.
 *
 * A parameter that is declared T | None, and a variable that is declared so for a value that is not known, is one of both until the
 * program asks: what None does not have or take is a mistake there (E0921; of other types several.c says it).  What a test tells holds
 * in its branches, and behind one whose other branch ends:
 *
 *     if x is None:                here x is None
 *         return 0
 *     return x + 1                 and here it is not
 *
 * Tests that are read: `is None`, `is not None`, ==, !=, x itself, isinstance, walrus, and `not`, `and`, `or` of them.  A variable that
 * another test mentions is believed from there on, and so is each in a branch that something else decides: the program may know why.
 */
#include "frontend/check/ways.h"

#include <stdarg.h>
#include <stdio.h>

const Type *optional_untested(const Type *declared)
{
    return declared && declared->kind == TY_UNION ? type_untested(declared) : declared;
}

void optional_declared(Check *C, const AstName *n, const Type *declared)
{
    Trail *trail;
    const Type **at = C->frame->fn ? flow_variable(C, n, &trail) : NULL;

    if (at && *at == declared) {
        var_put(trail, at, optional_untested(declared));
        C->frame->several |= type_is_untested(*at);
    }
}

const Type **optional_variable(const Check *C, const Ast *e, Trail **trail)
{
    const AstName *n = AST_IS(e, NamedExpr) ? AST_AS(AST_AS(e, NamedExpr)->target, Name) : AST_AS(e, Name);
    const Local *l;

    if (!AST_IS(e, Name) && !(AST_IS(e, NamedExpr) && AST_IS(AST_AS(e, NamedExpr)->target, Name)))
        return NULL;
    l = C->frame->scope ? scope_local(C->frame->scope, n->id) : NULL;
    return l && !l->is_shared ? flow_variable(C, n, trail) : NULL;
}

/* ------------------------------------------------------------- what tests tell */

static const Type *told_of(const Narrowing *out, const Type **at)
{
    for (int i = 0; i < out->n; i++)
        if (out->var[i].at == at)
            return out->var[i].t;
    return *at;
}

static void tell(Narrowing *out, Trail *trail, const Type **at, const Type *t)
{
    int i = 0;

    while (i < out->n && out->var[i].at != at)
        i++;
    if (i < (int)(sizeof out->var / sizeof *out->var)) {
        out->var[i] = (Told){trail, at, type_is_untested(*at) ? optional_untested(t) : t, NULL};
        out->n = i == out->n ? i + 1 : out->n;
    }
}

/* The members that a test leaves; keep(member) 0: not this one. NULL: none is left. */
static const Type *members(const Type *t, int (*keep)(const Type *, const Type *), const Type *cls)
{
    const Type *left = NULL;

    for (int i = 0; i < t->n; i++)
        if (keep(t->item[i], cls))
            left = left ? type_union(left, t->item[i]) : t->item[i];
    return left;
}

static int may_be(const Type *t, const Type *cls) { return t->kind == TY_NONE ? truth_of_class(t, cls) > 0 : truth_of_class(t, cls) != 0; }
static int may_not_be(const Type *t, const Type *cls) { return truth_of_class(t, cls) <= 0; }

static void read_none(const Check *C, const Ast *e, bool none, Narrowing *out)
{
    Trail *trail;
    const Type **at = optional_variable(C, e, &trail), *t = at ? told_of(out, at) : NULL;

    if (!t || (t->kind != TY_UNION && !(none && t->kind == TY_ANY && C->frame->fn)))
        return;
    if (none && type_has_none(t))
        tell(out, trail, at, T_NONE);
    else if (!none && type_some(t) != t)
        tell(out, trail, at, type_some(t));
}

static void read_class(Check *C, const AstCall *c, bool holds, Narrowing *out)
{
    Trail *trail;
    const Ast *x = AST_AS(c->args.at[0], Arg)->value;
    const Type **at = optional_variable(C, x, &trail), *t = at ? told_of(out, at) : NULL, *cls;

    if (!t || t->kind != TY_UNION)
        return;
    cls = expr(C, AST_AS(c->args.at[1], Arg)->value);
    if (!type_is_any(cls) && (t = members(t, holds ? may_be : may_not_be, cls)))
        tell(out, trail, at, t);
}

static void read_one(Check *C, Ast *test, bool holds, void *state)
{
    const AstCompare *c = AST_AS(test, Compare);
    const AstCompareItem *x;
    Narrowing *out = state;

    switch (test->kind) {
    case AST_Compare:
        x = AST_AS(c->rest.at[0], CompareItem);
        if (c->rest.n == 1 && ast_is_const(x->right, CONST_NONE) && (x->op == AOP_IS || x->op == AOP_EQ || x->op == AOP_IS_NOT || x->op == AOP_NE))
            read_none(C, c->left, holds == (x->op == AOP_IS || x->op == AOP_EQ), out);
        break;
    case AST_Call:
        if (truth_is_isinstance(test))
            read_class(C, AST_AS(test, Call), holds, out);
        break;
    case AST_Name:
    case AST_NamedExpr:
        if (holds)
            read_none(C, test, false, out);
        break;
    default:
        break;
    }
}

void narrow_more(Check *C, Ast *test, bool holds, Narrowing *out)
{
    if (C->kernel)
        return;
    C->quiet++;
    test_read(C, test, holds, read_one, out);
    C->quiet--;
}

void narrow_read(Check *C, Ast *test, bool holds, Narrowing *out)
{
    out->n = 0;
    narrow_more(C, test, holds, out);
}

void narrow_take(Narrowing *n)
{
    for (int i = 0; i < n->n; i++) {
        n->var[i].was = *n->var[i].at;
        var_put(n->var[i].trail, n->var[i].at, n->var[i].t);
    }
}

void narrow_back(const Narrowing *n)
{
    for (int i = 0; i < n->n; i++)
        if (*n->var[i].at == n->var[i].t)
            var_put(n->var[i].trail, n->var[i].at, n->var[i].was);
}

static bool believe(Ast *n, void *state)
{
    Check *C = state;
    Trail *trail;
    const Type **at = n ? optional_variable(C, n, &trail) : NULL;

    if (at && type_is_untested(*at))
        var_put(trail, at, type_tested(*at));
    if (n)
        ast_walk(n, believe, C);
    return true;
}

void narrow_asserted(Check *C, Ast *test)
{
    Narrowing told;

    narrow_read(C, test, true, &told);
    believe(test, C);
    narrow_take(&told);
}

/* ------------------------------------------------------------- uses */

/* Where the variable was declared: the parameter, or the annotated assignment. */
static Ast *declaration(const Check *C, const AstName *n)
{
    const CFrame *f = C->frame;
    Ast *from = (int)n->slot < f->nvar ? f->from[n->slot] : NULL;

    return AST_IS(from, Param) && AST_AS(from, Param)->annotation ? AST_AS(from, Param)->annotation : NULL;
}

void optional_report(Check *C, const Ast *name, const char *what, const char *why)
{
    const AstName *n = AST_AS(name, Name);
    Trail *trail;
    Diag *d = REPORT(C, E0921, name->span, n->id->text, what, why);

    if (C->shown && declaration(C, n))
        diag_label(d, declaration(C, n)->span, "declared %s here", type_text(*optional_variable(C, name, &trail)));
}

bool optional_used(Check *C, const Ast *e, const char *format, ...)
{
    Trail *trail;
    const Type **at;
    char text[160], test[80];
    va_list args;

    if (!AST_IS(e, Name) || C->quiet || C->calls || C->kernel || C->trial || C->frame->guards || C->home->library ||
        !(at = optional_variable(C, e, &trail)) || !type_is_untested(*at) || !type_has_none(*at))
        return false;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    optional_report(C, e, "None", text);
    snprintf(test, sizeof test, "if %.30s is None:", AST_AS(e, Name)->id->text);
    if (C->last)
        diag_help(C->last, "test it before: %s return, raise, or give it a value", test);
    var_put(trail, at, type_tested(*at));
    return true;
}
