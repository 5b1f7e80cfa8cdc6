/*
 * What the program asks of a module before it uses it: names that hasattr(m, "name") was asked about are
 * there where the answer is yes, and who catches AttributeError is prepared for the other case.
 */
#include "frontend/check/resolve.h"

#include "frontend/check/depth.h"

#include <string.h>

/* The names in the hasattr calls of a test. */
static bool find_asked(Ast *n, void *state)
{
    Res *R = state;
    AstCall *c = n && AST_IS(n, Call) ? AST_AS(n, Call) : NULL;
    const Ast *name = c && c->args.n == 2 && AST_IS(c->args.at[1], Arg) ? AST_AS(c->args.at[1], Arg)->value : NULL;

    if (!n || R->depth >= WALK_DEPTH)
        return true;
    if (AST_IS(name, Str) && AST_IS(c->func, Name) && !strcmp(AST_AS(c->func, Name)->id->text, "hasattr"))
        vec_push(&R->asked, sym_n(AST_AS(name, Str)->value.s, AST_AS(name, Str)->value.n));
    R->depth++;
    ast_walk(n, find_asked, R);
    R->depth--;
    return true;
}

static void each(Res *R, AstSeq s)
{
    for (int i = 0; i < s.n; i++)
        res_visit(s.at[i], R);
}

static bool ends(AstSeq body)
{
    AstKind k = body.n ? body.at[body.n - 1]->kind : AST_Pass;

    return k == AST_Return || k == AST_Raise || k == AST_Continue || k == AST_Break;
}

bool asked_visit(Res *R, Ast *n)
{
    int before = R->asked.n;
    AstSeq values;

    switch (n->kind) {
    case AST_If:
        res_visit(AST_AS(n, If)->test, R);
        find_asked(AST_AS(n, If)->test, R);
        each(R, AST_AS(n, If)->body);
        each(R, AST_AS(n, If)->orelse);
        if (!ends(AST_AS(n, If)->body))                 /* else what follows is behind the test, too */
            R->asked.n = before;
        return true;
    case AST_IfExp:
        res_visit(AST_AS(n, IfExp)->test, R);
        find_asked(AST_AS(n, IfExp)->test, R);
        res_visit(AST_AS(n, IfExp)->body, R);
        res_visit(AST_AS(n, IfExp)->orelse, R);
        R->asked.n = before;
        return true;
    case AST_BoolOp:
        values = AST_AS(n, BoolOp)->values;
        for (int i = 0; i < values.n; i++) {
            res_visit(values.at[i], R);
            find_asked(values.at[i], R);
        }
        R->asked.n = before;
        return true;
    case AST_Assert:
        res_visit(AST_AS(n, Assert)->test, R);
        res_visit(AST_AS(n, Assert)->msg, R);
        find_asked(AST_AS(n, Assert)->test, R);
        return true;
    default:
        return false;
    }
}

bool was_asked(const Res *R, Sym name)
{
    for (int i = 0; i < R->asked.n; i++)
        if (R->asked.at[i] == name)
            return true;
    return R->prepared > 0;
}

bool catches(AstSeq handlers, const char *const *names)
{
    for (int i = 0; i < handlers.n; i++) {
        Ast *t = AST_AS(handlers.at[i], Handler)->type;
        if (!t || t->kind == AST_Tuple)
            return true;
        for (int k = 0; t->kind == AST_Name && names[k]; k++)
            if (!strcmp(AST_AS(t, Name)->id->text, names[k]))
                return true;
    }
    return false;
}
