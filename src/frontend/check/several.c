/*
 * Variables that may be of several types.
 *
 * A parameter that is declared int | str, and a variable that is declared so for a value that is not known, is each of them until the
 * program asks which (optional.c reads the tests).  What is done with it has to go well for each:
 *
 *     def twice(x: int | str):
 *         return x / 2             E0921: x may be str here
 *
 * So an expression with such an operand is tried with each of the types in turn.  What a try changes is undone, and what it would report goes
 * into a sink of its own, whose first message is the reason.  Operators that fail for all of them are left to their own report.  None
 * among the types is optional.c's.
 */
#include "frontend/check/ways.h"

#include <stdio.h>

enum { TRIED_MAX = 4 };

typedef struct { Ast *at[TRIED_MAX]; int n; } Operands;

static void operand(Operands *out, Ast *e)
{
    if (AST_IS(e, Arg))
        e = AST_AS(e, Arg)->value;
    if (AST_IS(e, Name) && out->n < TRIED_MAX)
        out->at[out->n++] = e;
}

/* The names that an expression or statement itself does something with. */
static void operands(Ast *e, Operands *out)
{
    const AstCompare *c = AST_AS(e, Compare);

    switch (e->kind) {
    case AST_BinOp:
        operand(out, AST_AS(e, BinOp)->left);
        operand(out, AST_AS(e, BinOp)->right);
        break;
    case AST_UnaryOp:
        if (AST_AS(e, UnaryOp)->op != AOP_NOT)
            operand(out, AST_AS(e, UnaryOp)->operand);
        break;
    case AST_Compare:
        operand(out, c->left);
        for (int i = 0; i < c->rest.n; i++)
            operand(out, AST_AS(c->rest.at[i], CompareItem)->right);
        break;
    case AST_Call:
        operand(out, AST_AS(e, Call)->func);
        for (int i = 0; i < AST_AS(e, Call)->args.n; i++)
            operand(out, AST_AS(e, Call)->args.at[i]);
        break;
    case AST_Attribute:
        operand(out, AST_AS(e, Attribute)->value);
        break;
    case AST_AugAssign:
        operand(out, AST_AS(e, AugAssign)->target);
        operand(out, AST_AS(e, AugAssign)->value);
        break;
    case AST_For:
        operand(out, AST_AS(e, For)->iter);
        break;
    case AST_Subscript:
        operand(out, AST_AS(e, Subscript)->value);
        operand(out, AST_AS(e, Subscript)->index);
        break;
    default:
        break;
    }
}

/* What is tried: an expression, an assignment, the start of a loop. */
static void walk(Check *C, Ast *e)
{
    if (e->kind == AST_AugAssign)
        aug_assign(C, AST_AS(e, AugAssign));
    else if (e->kind == AST_For)
        host_iterated(C, expr_looked(C, AST_AS(e, For)->iter), AST_AS(e, For)->iter);
    else
        expr(C, e);
}

/* Does it go well with the variable as t? Else what is said of it is in `text`. */
static bool goes_well(Check *C, Ast *e, Trail *trail, const Type **at, const Type *t, char *text, size_t size)
{
    DiagSink sink = {.limit = 1}, *around = C->trial;
    Fork from = way_fork(C);
    bool well;
    Way w;

    var_put(trail, at, t);
    C->trial = &sink;
    walk(C, e);
    C->trial = around;
    w = way_end(C, from);
    way_drop(&w);
    well = !sink.all.n;
    if (!well)
        snprintf(text, size, "%s", sink.all.at[0]->message);
    diag_sink_done(&sink);
    return well;
}

static void tell(Check *C, Ast *name, const Type **at, Trail *trail, const Type *wrong, const char *why)
{
    char what[80];

    snprintf(what, sizeof what, "%s", type_text(wrong));
    optional_report(C, name, what, why);
    if (C->last)
        diag_help(C->last, "ask before which it is: if isinstance(%.30s, %.40s):", AST_AS(name, Name)->id->text, what);
    var_put(trail, at, type_tested(*at));
}

/* The variable `name` in e, with each of its types. */
static void judge(Check *C, Ast *e, Ast *name)
{
    Trail *trail;
    const Type **at = optional_variable(C, name, &trail), *u = at ? *at : NULL, *wrong = NULL, *other = NULL;
    bool own = e->kind == AST_BinOp || e->kind == AST_UnaryOp || e->kind == AST_Compare || e->kind == AST_AugAssign;
    char text[200] = "";

    if (!type_is_untested(u) || type_some(u)->kind != TY_UNION)
        return;
    for (int i = 0; i < u->n; i++) {
        if (u->item[i]->kind == TY_NONE)
            continue;
        if (!wrong && !goes_well(C, e, trail, at, u->item[i], text, sizeof text))
            wrong = u->item[i];
        else
            other = u->item[i];
    }
    if (wrong && (other || !own))
        tell(C, name, at, trail, wrong, text);
}

/* What is returned has to be what is declared, whichever it is. */
static void judge_returned(Check *C, Ast *name)
{
    const CFrame *f = C->frame;
    Trail *trail;
    const Type **at = optional_variable(C, name, &trail), *u = at ? *at : NULL;
    char text[200];

    if (!type_is_untested(u) || !f->declared || fn_is_held_back(f->fn))
        return;
    for (int i = 0; i < u->n; i++)
        if (u->item[i]->kind != TY_NONE && type_fits(C, u->item[i], f->declared) == FITS_NOT && type_fits(C, u, f->declared) != FITS_NOT) {
            snprintf(text, sizeof text, "%.60s() is declared to return %.100s", f->fn->name ? f->fn->name->text : "lambda", type_text(f->declared));
            tell(C, name, at, trail, u->item[i], text);
            return;
        }
}

void several_judged(Check *C, Ast *e)
{
    Operands all = {.n = 0};

    if (C->quiet || C->calls || C->kernel || C->trial || C->frame->guards || C->home->library)
        return;
    if (AST_IS(e, Return) && AST_IS(AST_AS(e, Return)->value, Name))
        judge_returned(C, AST_AS(e, Return)->value);
    operands(e, &all);
    for (int i = 0; i < all.n; i++)
        judge(C, e, all.at[i]);
}

/* A branch ended whose test told nothing of the variable: the program may know by that which it is. */
void several_believed(Check *C, const Narrowing *yes, const Narrowing *no)
{
    CFrame *f = C->frame;

    for (int i = 0; i < f->nvar; i++) {
        bool told = false;
        for (int k = 0; k < yes->n + no->n; k++)
            told |= (k < yes->n ? yes->var[k].at : no->var[k - yes->n].at) == &f->var[i];
        if (!told && type_is_untested(f->var[i]) && type_some(f->var[i])->kind == TY_UNION)
            var_put(f->trail, &f->var[i], type_tested(f->var[i]));
    }
}
