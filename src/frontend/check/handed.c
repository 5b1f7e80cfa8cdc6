/*
 * Functions that are called out of sight: handed on to others, decorated by
 * the program's own decorators, generators, lambdas, and whatever those call.
 * What they store in attributes is stored at no known time, so such an
 * attribute is not taken for what statements in sight gave it.
 *
 * Functions are told apart by name alone, methods too.
 */
#include "frontend/check/checker.h"

#include <string.h>

enum { DEEPEST = 1000, ROUNDS = 20 };

typedef struct Handed {
    Check *C;
    Map def;                    /* Sym -> 1: functions and methods of the unit */
    Map hidden;                 /* Sym -> 1: names whose functions are called out of sight */
    int depth, within;          /* within: of how many such functions */
    bool classes, grew;
} Handed;

static void hide(Handed *h, Sym name)
{
    if (!name || !map_find(&h->def, (uintptr_t)name, NULL) || map_find(&h->hidden, (uintptr_t)name, NULL))
        return;
    map_set(&h->hidden, (uintptr_t)name, 1);
    h->grew = true;
}

static bool find_defs(Ast *n, void *state)
{
    Handed *h = state;

    if (!n || h->depth > DEEPEST)
        return true;
    h->classes |= n->kind == AST_ClassDef;
    if (AST_IS(n, FunctionDef) && AST_AS(n, FunctionDef)->name && strcmp(AST_AS(n, FunctionDef)->name->text, "__init__") != 0)
        map_set(&h->def, (uintptr_t)AST_AS(n, FunctionDef)->name, 1);
    h->depth++;
    ast_walk(n, find_defs, h);
    h->depth--;
    return true;
}

typedef struct { bool found; int depth; } YieldLook;

static bool find_yield(Ast *n, void *state)
{
    YieldLook *y = state;

    if (!n || y->found || n->kind == AST_FunctionDef || n->kind == AST_Lambda || n->kind == AST_ClassDef || y->depth > DEEPEST)
        return true;
    y->found = n->kind == AST_Yield || n->kind == AST_YieldFrom;
    y->depth++;
    ast_walk(n, find_yield, y);
    y->depth--;
    return true;
}

static bool is_generator(const AstFunctionDef *def)
{
    YieldLook y = {0};

    for (int i = 0; i < def->body.n && !y.found; i++)
        find_yield(def->body.at[i], &y);
    return y.found;
}

/* Is the function given to something that the program itself made or imported? */
static bool is_registered(const AstFunctionDef *def)
{
    for (int i = 0; i < def->decorators.n; i++) {
        const Ast *e = def->decorators.at[i];
        while (AST_IS(e, Call) || AST_IS(e, Attribute))
            e = AST_IS(e, Call) ? AST_AS(e, Call)->func : AST_AS(e, Attribute)->value;
        if (AST_IS(e, Name) && AST_AS(e, Name)->bind != BIND_PRELUDE)
            return true;
    }
    return false;
}

static void store(Handed *h, const Ast *target)
{
    AstSeq e = AST_IS(target, Tuple) ? AST_AS(target, Tuple)->elts : (AstSeq){0};

    for (int i = 0; i < e.n; i++)
        store(h, e.at[i]);
    if (h->within && AST_IS(target, Attribute))
        survey_stored(h->C, AST_AS(target, Attribute)->attr);
}

static bool visit(Ast *n, void *state);

static void visit_each(Handed *h, AstSeq s)
{
    for (int i = 0; i < s.n; i++)
        visit(s.at[i], h);
}

static void visit_def(Handed *h, const AstFunctionDef *def)
{
    bool hidden;

    if (is_registered(def) || is_generator(def))
        hide(h, def->name);
    hidden = def->name && map_find(&h->hidden, (uintptr_t)def->name, NULL);
    visit_each(h, def->decorators);
    visit_each(h, def->params);
    h->within += hidden;
    visit_each(h, def->body);
    h->within -= hidden;
}

/* A call in sight says what becomes of its function; one out of sight hides what it calls. */
static void visit_call(Handed *h, const AstCall *c)
{
    if (AST_IS(c->func, Attribute))
        visit(AST_AS(c->func, Attribute)->value, h);
    else if (!AST_IS(c->func, Name))
        visit(c->func, h);
    if (h->within && AST_IS(c->func, Attribute))
        hide(h, AST_AS(c->func, Attribute)->attr);
    else if (h->within && AST_IS(c->func, Name))
        hide(h, AST_AS(c->func, Name)->id);
    visit_each(h, c->args);
}

static bool visit(Ast *n, void *state)
{
    Handed *h = state;
    bool lambda = n && n->kind == AST_Lambda;

    if (!n || h->depth > DEEPEST)
        return true;
    h->depth++;
    h->within += lambda;
    switch (n->kind) {
    case AST_FunctionDef: visit_def(h, AST_AS(n, FunctionDef)); break;
    case AST_Call: visit_call(h, AST_AS(n, Call)); break;
    case AST_Name: hide(h, AST_AS(n, Name)->id); break;
    case AST_Attribute:
        hide(h, AST_AS(n, Attribute)->attr);
        visit(AST_AS(n, Attribute)->value, h);
        break;
    case AST_Assign:
        for (int i = 0; i < AST_AS(n, Assign)->targets.n; i++)
            store(h, AST_AS(n, Assign)->targets.at[i]);
        ast_walk(n, visit, h);
        break;
    case AST_AnnAssign:
        store(h, AST_AS(n, AnnAssign)->target);
        ast_walk(n, visit, h);
        break;
    case AST_AugAssign:
        store(h, AST_AS(n, AugAssign)->target);
        ast_walk(n, visit, h);
        break;
    default: ast_walk(n, visit, h); break;
    }
    h->within -= lambda;
    h->depth--;
    return true;
}

void handed_stores(Check *C, Unit *u)
{
    Handed h = {.C = C, .grew = true};

    find_defs((Ast *)u->module, &h);
    for (int round = 0; h.classes && h.grew && round < ROUNDS; round++) {
        h.grew = false;
        visit((Ast *)u->module, &h);
    }
    map_done(&h.def);
    map_done(&h.hidden);
}
