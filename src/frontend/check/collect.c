/* Statements bind through a handful of shapes; everything else is walked for uses. */
#include "frontend/check/collect.h"

#include "frontend/check/depth.h"

#include <string.h>

typedef struct { CollectFn *fn; void *state; int depth; } Walk;

static bool visit(Ast *n, void *state);

static void emit(Walk *w, CollectEvent e, Sym name, Ast *node)
{
    w->fn(w->state, e, name, node);
}

static void each(Walk *w, AstSeq seq)
{
    for (int i = 0; i < seq.n; i++)
        visit(seq.at[i], w);
}

static void bind_target(Walk *w, Ast *t)
{
    AstSeq elts;

    if (!t)
        return;
    switch (t->kind) {
    case AST_Name:
        emit(w, COLLECT_BIND, AST_AS(t, Name)->id, t);
        return;
    case AST_Starred:
        bind_target(w, AST_AS(t, Starred)->value);
        return;
    case AST_Tuple:
    case AST_List:
        elts = t->kind == AST_Tuple ? AST_AS(t, Tuple)->elts : AST_AS(t, List)->elts;
        for (int i = 0; i < elts.n && w->depth < WALK_DEPTH; i++) {
            w->depth++;
            bind_target(w, elts.at[i]);
            w->depth--;
        }
        return;
    default:
        visit(t, w);
    }
}

static void bind_targets(Walk *w, AstSeq targets)
{
    for (int i = 0; i < targets.n; i++)
        bind_target(w, targets.at[i]);
}

Sym alias_binds(const AstAlias *a, bool from)
{
    const char *dot;

    if (a->asname)
        return a->asname;
    if (from || !a->name || !(dot = strchr(a->name->text, '.')))
        return a->name;
    return sym_n(a->name->text, (size_t)(dot - a->name->text));
}

static void imports(Walk *w, AstSeq names, bool from, Ast *stmt)
{
    for (int i = 0; i < names.n; i++)
        if (AST_IS(names.at[i], Alias) && alias_binds(AST_AS(names.at[i], Alias), from))
            emit(w, COLLECT_BIND, alias_binds(AST_AS(names.at[i], Alias), from), stmt);
}

static void params(Walk *w, AstSeq list)
{
    for (int i = 0; i < list.n; i++)
        if (AST_IS(list.at[i], Param))
            visit(AST_AS(list.at[i], Param)->dflt, w);
}

static void clauses(Walk *w, AstSeq list)
{
    for (int i = 0; i < list.n; i++) {
        AstCompFor *c = AST_AS(list.at[i], CompFor);
        visit(c->iter, w);
        each(w, c->ifs);
    }
}

static void declared(Walk *w, CollectEvent e, AstSeq names)
{
    for (int i = 0; i < names.n; i++)
        if (AST_IS(names.at[i], Name))
            emit(w, e, AST_AS(names.at[i], Name)->id, names.at[i]);
}

static void deletes(Walk *w, AstSeq targets)
{
    for (int i = 0; i < targets.n; i++) {
        visit(targets.at[i], w);
        bind_target(w, targets.at[i]);
    }
}

/* Statements and expressions that bind; false: n is none of them. */
static bool binds(Walk *w, Ast *n)
{
    switch (n->kind) {
    case AST_Assign:
        visit(AST_AS(n, Assign)->value, w);
        bind_targets(w, AST_AS(n, Assign)->targets);
        return true;
    case AST_AugAssign:
        visit(AST_AS(n, AugAssign)->value, w);
        visit(AST_AS(n, AugAssign)->target, w);
        bind_target(w, AST_AS(n, AugAssign)->target);
        return true;
    case AST_AnnAssign:
        visit(AST_AS(n, AnnAssign)->value, w);
        bind_target(w, AST_AS(n, AnnAssign)->target);
        return true;
    case AST_TypeAlias:
        bind_target(w, AST_AS(n, TypeAlias)->name);
        return true;
    case AST_NamedExpr:
        visit(AST_AS(n, NamedExpr)->value, w);
        bind_target(w, AST_AS(n, NamedExpr)->target);
        return true;
    case AST_For:
        visit(AST_AS(n, For)->iter, w);
        bind_target(w, AST_AS(n, For)->target);
        each(w, AST_AS(n, For)->body);
        each(w, AST_AS(n, For)->orelse);
        return true;
    case AST_WithItem:
        visit(AST_AS(n, WithItem)->context, w);
        bind_target(w, AST_AS(n, WithItem)->target);
        return true;
    case AST_Del:
        emit(w, COLLECT_WAYS, NULL, n);
        deletes(w, AST_AS(n, Del)->targets);
        emit(w, COLLECT_MEET, NULL, n);
        return true;
    case AST_Import:
        imports(w, AST_AS(n, Import)->names, false, n);
        return true;
    case AST_ImportFrom:
        if (AST_AS(n, ImportFrom)->star)
            emit(w, COLLECT_STAR, NULL, n);
        else
            imports(w, AST_AS(n, ImportFrom)->names, true, n);
        return true;
    case AST_Global:
        declared(w, COLLECT_GLOBAL, AST_AS(n, Global)->names);
        return true;
    case AST_Nonlocal:
        declared(w, COLLECT_NONLOCAL, AST_AS(n, Nonlocal)->names);
        return true;
    default:
        return false;
    }
}

static void bind_if(Walk *w, Sym name, Ast *n)
{
    if (name)
        emit(w, COLLECT_BIND, name, n);
}

/* Definitions, and pieces of try and match that bind; false: none of them. */
static bool defines(Walk *w, Ast *n)
{
    switch (n->kind) {
    case AST_FunctionDef:
        each(w, AST_AS(n, FunctionDef)->decorators);
        params(w, AST_AS(n, FunctionDef)->params);
        bind_if(w, AST_AS(n, FunctionDef)->name, n);
        return true;
    case AST_ClassDef:
        each(w, AST_AS(n, ClassDef)->decorators);
        each(w, AST_AS(n, ClassDef)->bases);
        bind_if(w, AST_AS(n, ClassDef)->name, n);
        return true;
    case AST_Lambda:
        params(w, AST_AS(n, Lambda)->params);
        return true;
    case AST_Handler:
        visit(AST_AS(n, Handler)->type, w);
        bind_if(w, AST_AS(n, Handler)->name, n);
        each(w, AST_AS(n, Handler)->body);
        return true;
    case AST_PatCapture:
        bind_if(w, AST_AS(n, PatCapture)->name, n);
        return true;
    case AST_PatStar:
        bind_if(w, AST_AS(n, PatStar)->name, n);
        return true;
    case AST_PatMapping:
        each(w, AST_AS(n, PatMapping)->items);
        bind_if(w, AST_AS(n, PatMapping)->rest, n);
        return true;
    case AST_PatAs:
        visit(AST_AS(n, PatAs)->pattern, w);
        bind_if(w, AST_AS(n, PatAs)->name, n);
        return true;
    default:
        return false;
    }
}

/* Comprehensions: their own targets belong to them, walrus targets inside do not. */
static bool comprehends(Walk *w, Ast *n)
{
    switch (n->kind) {
    case AST_ListComp:
        clauses(w, AST_AS(n, ListComp)->clauses);
        visit(AST_AS(n, ListComp)->elt, w);
        return true;
    case AST_SetComp:
        clauses(w, AST_AS(n, SetComp)->clauses);
        visit(AST_AS(n, SetComp)->elt, w);
        return true;
    case AST_GenExp:
        clauses(w, AST_AS(n, GenExp)->clauses);
        visit(AST_AS(n, GenExp)->elt, w);
        return true;
    case AST_DictComp:
        clauses(w, AST_AS(n, DictComp)->clauses);
        visit(AST_AS(n, DictComp)->key, w);
        visit(AST_AS(n, DictComp)->value, w);
        return true;
    default:
        return false;
    }
}

static bool visit(Ast *n, void *state)
{
    Walk *w = state;
    bool ways;

    if (!n || w->depth >= WALK_DEPTH)
        return true;
    w->depth++;
    if (n->kind == AST_Name)
        emit(w, COLLECT_USE, AST_AS(n, Name)->id, n);
    else if (!binds(w, n) && !defines(w, n) && !comprehends(w, n)) {
        if (n->kind == AST_Yield || n->kind == AST_YieldFrom)
            emit(w, COLLECT_YIELD, NULL, n);
        if (n->kind == AST_Await)
            emit(w, COLLECT_AWAIT, NULL, n);
        ways = n->kind == AST_If || n->kind == AST_Try || n->kind == AST_Match;
        if (ways)
            emit(w, COLLECT_WAYS, NULL, n);
        ast_walk(n, visit, w);
        if (ways)
            emit(w, COLLECT_MEET, NULL, n);
    }
    w->depth--;
    return true;
}

void collect_block(AstSeq body, CollectFn *fn, void *state)
{
    Walk w = {fn, state, 0};

    each(&w, body);
}

void collect_expr(Ast *expr, CollectFn *fn, void *state)
{
    Walk w = {fn, state, 0};

    visit(expr, &w);
}
