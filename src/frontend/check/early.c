/*
 * Names of a module that its own statements read before any of them binds it.  Only statements that surely run, in order, are
 * looked at: those of the top level themselves, not what stands in their blocks, in functions or in lambdas.
 */
#include "frontend/check/resolve.h"

#include "frontend/prelude.h"

typedef struct { Res *R; const Ast *stmt, *value; int depth; } Early;

/* Is the first statement that binds it this one, or a later one? */
static bool is_early(const Early *x, const Local *l)
{
    return l->decl.hi && l->decl.lo >= x->stmt->span.lo && (l->decl.lo >= x->stmt->span.hi || l->decl.lo < x->value->span.lo);
}

static bool read_name(Ast *n, void *state)
{
    Early *x = state;
    const AstName *name = n && AST_IS(n, Name) ? AST_AS(n, Name) : NULL;
    const Local *l = name && name->bind == BIND_GLOBAL ? scope_local(x->R->globals, name->id) : NULL;

    if (!n || n->kind == AST_Lambda || n->kind == AST_GenExp || x->depth > 200)
        return true;
    if (l && !l->is_shared && prelude_find(name->id) < 0 && is_early(x, l)) {
        Diag *d = DIAG_AT(x->R->sink, E0218, n->span, name->id->text);
        diag_label(d, l->decl, "assigned here");
    }
    x->depth++;
    ast_walk(n, read_name, x);
    x->depth--;
    return true;
}

/* n += 1 reads n, which no statement before has bound. */
static void read_changed(const Early *x, const Ast *n)
{
    const AstName *name = AST_AS(n, Name);
    const Local *l = name->bind == BIND_GLOBAL ? scope_local(x->R->globals, name->id) : NULL;

    if (l && !l->is_shared && prelude_find(name->id) < 0 && l->decl.hi && l->decl.lo >= n->span.lo)
        DIAG_AT(x->R->sink, E0218, n->span, name->id->text);
}

static Ast *value_of(const Ast *s)
{
    switch (s->kind) {
    case AST_ExprStmt: return AST_AS(s, ExprStmt)->value;
    case AST_Assign: return AST_AS(s, Assign)->value;
    case AST_AnnAssign: return AST_AS(s, AnnAssign)->value;
    case AST_AugAssign: return AST_AS(s, AugAssign)->value;
    default: return NULL;
    }
}

void early_check(Res *R)
{
    for (int i = 0; i < R->u->module->body.n; i++) {
        Early x = {R, R->u->module->body.at[i], value_of(R->u->module->body.at[i]), 0};
        if (x.value)
            read_name((Ast *)x.value, &x);
        if (AST_IS(x.stmt, AugAssign) && AST_IS(AST_AS(x.stmt, AugAssign)->target, Name))
            read_changed(&x, AST_AS(x.stmt, AugAssign)->target);
    }
}

/* ------------------------------------------------------------- comprehensions */

typedef struct Clause { Res *R; Scope *scope; AstSeq clauses; int at, depth; } Clause;

static bool binds(const Ast *target, Sym name)
{
    AstSeq s = AST_IS(target, Tuple) ? AST_AS(target, Tuple)->elts : AST_IS(target, List) ? AST_AS(target, List)->elts : (AstSeq){0};

    for (int i = 0; i < s.n; i++)
        if (binds(s.at[i], name))
            return true;
    if (AST_IS(target, Starred))
        return binds(AST_AS(target, Starred)->value, name);
    return AST_IS(target, Name) && AST_AS(target, Name)->id == name;
}

static bool read_clause(Ast *n, void *state)
{
    Clause *c = state;
    const Local *l = AST_IS(n, Name) ? scope_local(c->scope, AST_AS(n, Name)->id) : NULL;
    bool bound = false;

    if (!n || n->kind == AST_Lambda || n->kind == AST_GenExp || n->kind == AST_ListComp || n->kind == AST_SetComp || n->kind == AST_DictComp ||
        c->depth > 200)
        return true;
    for (int i = 0; i < c->at; i++)
        bound |= l && binds(AST_AS(c->clauses.at[i], CompFor)->target, AST_AS(n, Name)->id);
    if (l && !bound)
        diag_label(DIAG_AT(c->R->sink, E0218, n->span, AST_AS(n, Name)->id->text), AST_AS(c->clauses.at[c->at], CompFor)->target->span,
                   "assigned here");
    c->depth++;
    ast_walk(n, read_clause, c);
    c->depth--;
    return true;
}

void early_clauses(Res *R, Scope *scope, AstSeq clauses)
{
    for (int i = 1; i < clauses.n; i++)
        read_clause(AST_AS(clauses.at[i], CompFor)->iter, &(Clause){R, scope, clauses, i, 0});
}
