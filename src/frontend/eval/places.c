/*
 * Which variables a statement may change.
 *
 * Staged control flow runs both arms of a branch and joins what they assigned,
 * so it needs the assigned names (and attributes of names: self.state) before
 * it runs anything.  They are read off the syntax tree; functions and classes
 * defined inside are not entered.
 */
#include "frontend/eval/staged.h"

#include <string.h>

/* ------------------------------------------------------------- collecting */

static void add_place(Vars *p, const AstName *name, Sym attr)
{
    if (!name || (name->bind != BIND_LOCAL && name->bind != BIND_CELL && name->bind != BIND_FREE && name->bind != BIND_GLOBAL))
        return;
    for (int i = 0; i < p->n; i++)
        if (p->at[i].bind == name->bind && p->at[i].slot == name->slot && p->at[i].attr == attr)
            return;
    Var q = {name->bind, name->slot, name->id, attr, name->ast.span};
    vec_push(p, q);
}

static void add_target(Vars *p, const Ast *t)
{
    const Ast *base;

    switch (t->kind) {
    case AST_Name: add_place(p, AST_AS(t, Name), NULL); break;
    case AST_Starred: add_target(p, AST_AS(t, Starred)->value); break;
    case AST_Tuple:
        for (int i = 0; i < AST_AS(t, Tuple)->elts.n; i++)
            add_target(p, AST_AS(t, Tuple)->elts.at[i]);
        break;
    case AST_List:
        for (int i = 0; i < AST_AS(t, List)->elts.n; i++)
            add_target(p, AST_AS(t, List)->elts.at[i]);
        break;
    case AST_Subscript:         /* a tensor that is stored into is rebound */
        add_target(p, AST_AS(t, Subscript)->value);
        break;
    case AST_Attribute:
        base = AST_AS(t, Attribute)->value;
        if (AST_IS(base, Name))
            add_place(p, AST_AS(base, Name), AST_AS(t, Attribute)->attr);
        break;
    default: break;
    }
}

static bool collect(Ast *n, void *st)
{
    Vars *p = st;

    switch (n->kind) {
    case AST_FunctionDef: add_place(p, AST_AS(n, FunctionDef)->bound, NULL); return true;
    case AST_ClassDef: add_place(p, AST_AS(n, ClassDef)->bound, NULL); return true;
    case AST_Lambda: case AST_ListComp: case AST_SetComp: case AST_DictComp: case AST_GenExp: return true;
    case AST_Assign:
        for (int i = 0; i < AST_AS(n, Assign)->targets.n; i++)
            add_target(p, AST_AS(n, Assign)->targets.at[i]);
        break;
    case AST_AugAssign: add_target(p, AST_AS(n, AugAssign)->target); break;
    case AST_AnnAssign:
        if (AST_AS(n, AnnAssign)->value)
            add_target(p, AST_AS(n, AnnAssign)->target);
        break;
    case AST_For: add_target(p, AST_AS(n, For)->target); break;
    case AST_WithItem:
        if (AST_AS(n, WithItem)->target)
            add_target(p, AST_AS(n, WithItem)->target);
        break;
    case AST_NamedExpr: add_target(p, AST_AS(n, NamedExpr)->target); break;
    case AST_Handler: add_place(p, AST_AS(n, Handler)->bound, NULL); break;
    case AST_Alias: add_place(p, AST_AS(n, Alias)->bound, NULL); break;
    case AST_PatCapture: add_place(p, AST_AS(n, PatCapture)->bound, NULL); break;
    case AST_PatAs: add_place(p, AST_AS(n, PatAs)->bound, NULL); break;
    default: break;
    }
    return ast_walk(n, collect, st);
}

void places_of(AstSeq body, Vars *out)
{
    for (int i = 0; i < body.n; i++)
        collect(body.at[i], out);
}

void places_of_target(const Ast *target, Vars *out)
{
    add_target(out, target);
}

/* ------------------------------------------------------------- leaving */

typedef struct { int loops; bool found[3]; } Leaves;

static bool look(Ast *n, void *st)
{
    Leaves *l = st;

    switch (n->kind) {
    case AST_FunctionDef: case AST_ClassDef: case AST_Lambda: case AST_GenExp: return true;
    case AST_Return: l->found[LEAVES_RETURN] = true; return true;
    case AST_Break: l->found[LEAVES_BREAK] |= !l->loops; return true;
    case AST_Continue: l->found[LEAVES_CONTINUE] |= !l->loops; return true;
    case AST_For: case AST_While:
        l->loops++;
        ast_walk(n, look, st);
        l->loops--;
        return true;
    default: return ast_walk(n, look, st);
    }
}

bool block_leaves(AstSeq body, LeaveKind how)
{
    Leaves l = {0};

    for (int i = 0; i < body.n; i++)
        look(body.at[i], &l);
    return l.found[how];
}

/* The block's last statement decides. */
bool block_ends(AstSeq body)
{
    const Ast *last = body.n ? body.at[body.n - 1] : NULL;

    if (!last)
        return false;
    switch (last->kind) {
    case AST_Return: case AST_Break: case AST_Continue: case AST_Raise: return true;
    case AST_If: return block_ends(AST_AS(last, If)->body) && block_ends(AST_AS(last, If)->orelse);
    default: return false;
    }
}

static bool look_yield(Ast *n, void *st)
{
    switch (n->kind) {
    case AST_FunctionDef: case AST_ClassDef: case AST_Lambda: case AST_GenExp: return true;
    case AST_Yield: case AST_YieldFrom: case AST_Await: *(bool *)st = true; return true;
    default: return ast_walk(n, look_yield, st);
    }
}

bool block_yields(AstSeq body)
{
    bool found = false;

    for (int i = 0; i < body.n; i++)
        look_yield(body.at[i], &found);
    return found;
}

/* ------------------------------------------------------------- loop variables */

typedef struct { Sym name; bool found; } Uses;

static bool look_use(Ast *n, void *st);

/* i, i + 1, i - 1: places in a tensor, where a number that the graph counts will do. */
static void look_index(Ast *n, Uses *u)
{
    const AstBinOp *b = AST_AS(n, BinOp);

    if (AST_IS(n, Name) && AST_AS(n, Name)->id == u->name)
        return;
    if (AST_IS(n, BinOp) && (b->op == AOP_ADD || b->op == AOP_SUB) && AST_IS(b->right, Int)) {
        look_index(b->left, u);
        return;
    }
    if (AST_IS(n, Tuple)) {
        for (int i = 0; i < AST_AS(n, Tuple)->elts.n; i++)
            look_index(AST_AS(n, Tuple)->elts.at[i], u);
        return;
    }
    look_use(n, u);
}

static bool look_use(Ast *n, void *st)
{
    Uses *u = st;

    if (AST_IS(n, Name) && AST_AS(n, Name)->id == u->name)
        u->found = true;
    if (!AST_IS(n, Subscript))
        return ast_walk(n, look_use, st);
    look_use(AST_AS(n, Subscript)->value, st);
    look_index(AST_AS(n, Subscript)->index, u);
    return true;
}

bool needs_number(AstSeq body, Sym name)
{
    Uses u = {name, false};

    for (int i = 0; i < body.n; i++)
        look_use(body.at[i], &u);
    return u.found;
}

typedef struct { Sym name; uint32_t after; bool found; } Later;

static bool look_later(Ast *n, void *st)
{
    Later *l = st;

    if (AST_IS(n, Name) && AST_AS(n, Name)->id == l->name && n->span.lo >= l->after)
        l->found = true;
    if (!AST_IS(n, Assign))
        return ast_walk(n, look_later, st);
    for (int i = 0; i < AST_AS(n, Assign)->targets.n; i++)
        if (!AST_IS(AST_AS(n, Assign)->targets.at[i], Name))
            look_later(AST_AS(n, Assign)->targets.at[i], st);
    return look_later(AST_AS(n, Assign)->value, st);
}

static bool look_end(Ast *n, void *st)
{
    uint32_t *end = st;

    *end = n->span.hi > *end ? n->span.hi : *end;
    return ast_walk(n, look_end, st);
}

uint32_t block_end(AstSeq body)
{
    uint32_t end = 0;

    for (int i = 0; i < body.n; i++)
        look_end(body.at[i], &end);
    return end;
}

bool read_later(const Ast *function, Sym name, uint32_t after)
{
    Later l = {name, after, false};

    ast_walk((Ast *)(uintptr_t)function, look_later, &l);
    return l.found;
}

typedef struct { uint32_t at, start; } Around;

static bool look_loop(Ast *n, void *st)
{
    Around *a = st;
    bool loop = AST_IS(n, For) || AST_IS(n, While);

    if (loop && n->span.lo < a->at && a->at < block_end(AST_IS(n, For) ? AST_AS(n, For)->body : AST_AS(n, While)->body) && n->span.lo < a->start)
        a->start = n->span.lo;
    return ast_walk(n, look_loop, st);
}

bool read_behind(const Ast *function, Sym name, const AstIf *branch)
{
    uint32_t body = block_end(branch->body), orelse = block_end(branch->orelse);
    Around a = {branch->ast.span.lo, body > orelse ? body : orelse};

    ast_walk((Ast *)(uintptr_t)function, look_loop, &a);
    return read_later(function, name, a.start);
}
