/*
 * Variables that are read where some way there has given them no value: E0219, a warning.
 *
 * A walk over the statements of one body, in order, knows of each variable whether every way here has set it, some have, or
 * none.  Branches are walked apart from the same beginning: a log of stores takes back what the first did, and the two are
 * joined.  Programs know more than that, so much is believed:
 *   - a loop runs, and what its rounds set is set behind it, or in the next round;
 *   - tests that speak of the same: what is set under `if flag` is there under a later test of flag, or of anything else that
 *     the statement which set it sets or tests; behind `assert flag` and `if not flag: return`, too;
 *   - a row of elif about one thing covers all that it can be, and so do the cases of a match;
 *   - what try began is there for its handlers.
 * What no way has set is the checker's (E0218), which knows which tests are decided; but what `del` or the end of a handler
 * takes away is said here.  Only bodies in which a variable is first set below a test, or deleted, are walked.
 */
#include "frontend/check/unset.h"

#include "frontend/check/collect.h"
#include "frontend/check/depth.h"
#include "frontend/check/spaces.h"

#include <string.h>

/* ------------------------------------------------------------- expressions */

/* Of a constant that is tested: 1, 0; -1: it is none. */
static int decided(const Ast *e)
{
    if (AST_IS(e, Int))
        return AST_AS(e, Int)->value != 0;
    return !AST_IS(e, Const) ? -1 : AST_AS(e, Const)->value == CONST_TRUE ? 1 : AST_AS(e, Const)->value == CONST_ELLIPSIS ? -1 : 0;
}

static bool visit(Ast *n, void *state);

static void each(UnsetWalk *w, AstSeq seq)
{
    for (int i = 0; i < seq.n; i++)
        visit(seq.at[i], w);
}

static void comprehension(UnsetWalk *w, AstSeq clauses, Ast *key, Ast *value)
{
    for (int i = 0; i < clauses.n; i++) {
        AstCompFor *c = AST_AS(clauses.at[i], CompFor);
        visit(c->iter, w);
        each(w, c->ifs);
    }
    visit(key, w);
    visit(value, w);
}

static void defaults(UnsetWalk *w, AstSeq params)
{
    for (int i = 0; i < params.n; i++)
        if (AST_IS(params.at[i], Param))
            visit(AST_AS(params.at[i], Param)->dflt, w);
}

static void tested(UnsetWalk *w, Ast *test, Ast *yes, Ast *no)
{
    int mark = w->hushed.n;

    visit(test, w);
    unset_believe(w, test);
    visit(decided(test) == 0 ? NULL : yes, w);
    visit(decided(test) == 1 ? NULL : no, w);
    unset_unhush(w, mark);
}

static bool visit(Ast *n, void *state)
{
    UnsetWalk *w = state;
    int mark;

    if (!n || w->depth >= WALK_DEPTH)
        return true;
    w->depth++;
    switch (n->kind) {
    case AST_Name:
        unset_read(w, AST_AS(n, Name));
        break;
    case AST_Lambda:
        defaults(w, AST_AS(n, Lambda)->params);
        break;
    case AST_GenExp:
        if (AST_AS(n, GenExp)->clauses.n)
            visit(AST_AS(AST_AS(n, GenExp)->clauses.at[0], CompFor)->iter, w);
        break;
    case AST_ListComp:
        comprehension(w, AST_AS(n, ListComp)->clauses, AST_AS(n, ListComp)->elt, NULL);
        break;
    case AST_SetComp:
        comprehension(w, AST_AS(n, SetComp)->clauses, AST_AS(n, SetComp)->elt, NULL);
        break;
    case AST_DictComp:
        comprehension(w, AST_AS(n, DictComp)->clauses, AST_AS(n, DictComp)->key, AST_AS(n, DictComp)->value);
        break;
    case AST_NamedExpr:
        visit(AST_AS(n, NamedExpr)->value, w);
        if (AST_IS(AST_AS(n, NamedExpr)->target, Name))
            unset_bind(w, AST_AS(AST_AS(n, NamedExpr)->target, Name));
        break;
    case AST_IfExp:
        tested(w, AST_AS(n, IfExp)->test, AST_AS(n, IfExp)->body, AST_AS(n, IfExp)->orelse);
        break;
    case AST_BoolOp:
        mark = w->hushed.n;
        for (int i = 0; i < AST_AS(n, BoolOp)->values.n; i++) {
            visit(AST_AS(n, BoolOp)->values.at[i], w);
            unset_believe(w, AST_AS(n, BoolOp)->values.at[i]);
        }
        unset_unhush(w, mark);
        break;
    default:
        ast_walk(n, visit, w);
    }
    w->depth--;
    return true;
}

/* ------------------------------------------------------------- statements */

static void block(UnsetWalk *w, AstSeq body);

static void target(UnsetWalk *w, Ast *t)
{
    if (!t)
        return;
    if (t->kind == AST_Name)
        unset_bind(w, AST_AS(t, Name));
    else if (t->kind == AST_Starred)
        target(w, AST_AS(t, Starred)->value);
    else if (t->kind == AST_Tuple || t->kind == AST_List) {
        AstSeq elts = t->kind == AST_Tuple ? AST_AS(t, Tuple)->elts : AST_AS(t, List)->elts;
        for (int i = 0; i < elts.n; i++)
            target(w, elts.at[i]);
    } else
        visit(t, w);
}

static const Ast *last_of(AstSeq body) { return body.n ? body.at[body.n - 1] : NULL; }

/* What the program's or an imported function of that name is; NULL: none, or one of several. */
static const AstFunctionDef *function_of(const UnsetWalk *w, const AstName *n)
{
    const Local *l = n->bind == BIND_GLOBAL ? scope_local(w->R->globals, n->id) : NULL;
    const AstImportFrom *from = l && l->nbinds == 1 ? AST_AS(l->node, ImportFrom) : NULL;
    const Space *s = AST_IS(l ? l->node : NULL, ImportFrom) && from && from->module
                         ? space_import(from->module->text, (int)from->level, w->R->u->src->path) : NULL;
    const Ast *def = s && !from->star ? space_definition(s, n->id) : l && l->nbinds == 1 ? l->node : NULL;

    return AST_IS(def, FunctionDef) ? AST_AS(def, FunctionDef) : NULL;
}

/* raise; sys.exit(), parser.error(...), or a function that ends in one of these */
static bool is_end(const UnsetWalk *w, const Ast *s, int depth)
{
    static const char *const names[] = {"exit", "quit", "_exit", "abort", "error", "fail", "skip", NULL};
    const Ast *call = AST_IS(s, ExprStmt) ? AST_AS(s, ExprStmt)->value : NULL;
    const Ast *f = AST_IS(call, Call) ? AST_AS(call, Call)->func : NULL;
    const AstFunctionDef *def = AST_IS(f, Name) ? function_of(w, AST_AS(f, Name)) : NULL;
    Sym name = AST_IS(f, Name) ? AST_AS(f, Name)->id : AST_IS(f, Attribute) ? AST_AS(f, Attribute)->attr : NULL;

    if (def || !name)
        return def ? depth < 4 && is_end(w, last_of(def->body), depth + 1) : AST_IS(s, Raise);
    for (int i = 0; names[i]; i++)
        if (!strcmp(name->text, names[i]))
            return true;
    return false;
}

/* elif that tests what the test before it did */
static bool goes_on(const AstIf *s, const AstIf *before)
{
    UnsetTopics a = {0}, b = {0};

    if (!before)
        return false;
    unset_names(s->test, &a);
    unset_names(before->test, &b);
    return unset_share(&a, &b);
}

static void if_stmt(UnsetWalk *w, AstIf *s, const AstIf *before)
{
    int from, mark = w->hushed.n;
    UnsetWay yes, no;
    bool goes;

    visit(s->test, w);
    unset_believe(w, s->test);
    if (decided(s->test) >= 0) {
        block(w, decided(s->test) ? s->body : s->orelse);
        return;
    }
    from = w->log.n;
    block(w, s->body);
    yes = unset_end(w, from);
    if (s->orelse.n == 1 && AST_IS(s->orelse.at[0], If))
        if_stmt(w, AST_AS(s->orelse.at[0], If), s);
    else
        block(w, s->orelse);
    w->dead |= !s->orelse.n && goes_on(s, before);
    no = unset_end(w, from);
    goes = yes.dead != no.dead;
    unset_join(w, &yes, &no, (Ast *)s);
    if (!goes)                                  /* else what the test says holds from here on */
        unset_unhush(w, mark);
}

static void each_bound(void *state, CollectEvent e, Sym name, Ast *node)
{
    UnsetWalk *w = state;
    const Local *l = e == COLLECT_BIND ? scope_local(w->scope, name) : NULL;

    if (l && (int)l->slot < w->n && w->var[l->slot].state != IS_SET)
        unset_hush(w, (int)l->slot);
}

/* What a round sets is set, as far as some round set it. */
static void loop_ends(UnsetWalk *w, int from)
{
    for (int i = from, n = w->log.n; i < n; i++)
        if (w->var[w->log.at[i].slot].state != TAKEN)
            unset_put(w, w->log.at[i].slot, IS_SET, NULL);
}

static void loop(UnsetWalk *w, Ast *iter, Ast *to, AstSeq body, AstSeq orelse, bool endless)
{
    int from, mark = w->hushed.n, outer = w->breaks;

    visit(iter, w);
    from = w->log.n;
    w->breaks = 0;
    collect_block(body, each_bound, w);
    target(w, to);
    block(w, body);
    unset_unhush(w, mark);
    w->dead = endless && !w->breaks;
    if (!w->dead)
        block(w, orelse);
    w->dead &= !w->breaks;
    w->breaks = outer;
    loop_ends(w, from);
}

/* What the body set, some of it, is there for the handler. */
static UnsetWay handler(UnsetWalk *w, AstHandler *h, const UnsetWay *body)
{
    int from = w->log.n, mark = w->hushed.n;

    for (int i = 0; i < body->put.n; i++)
        unset_hush(w, body->put.at[i].slot);
    visit(h->type, w);
    unset_bind(w, h->bound);
    block(w, h->body);
    unset_unhush(w, mark);
    if (h->bound && unset_var(w, h->bound))
        unset_put(w, (int)(unset_var(w, h->bound) - w->var), TAKEN, (Ast *)h);
    return unset_end(w, from);
}

static void try_stmt(UnsetWalk *w, AstTry *t)
{
    int from = w->log.n, mark = w->hushed.n;
    UnsetWay body, all = {.dead = true}, one;
    bool dead;

    w->tries += t->handlers.n > 0;
    block(w, t->body);
    w->tries -= t->handlers.n > 0;
    if (!w->dead)
        block(w, t->orelse);
    body = unset_end(w, from);
    for (int i = 0; i < t->handlers.n; i++) {
        one = handler(w, AST_AS(t->handlers.at[i], Handler), &body);
        unset_join(w, &all, &one, (Ast *)t);
        all = unset_end(w, from);
    }
    unset_join(w, &body, &all, (Ast *)t);
    for (int i = from; i < w->log.n && t->has_final; i++)
        unset_hush(w, w->log.at[i].slot);
    dead = w->dead;
    w->dead = false;
    block(w, t->final);
    w->dead |= dead;
    unset_unhush(w, mark);
}

static bool pattern(Ast *n, void *state)
{
    UnsetWalk *w = state;

    if (!n)
        return true;
    switch (n->kind) {
    case AST_PatCapture: unset_bind(w, AST_AS(n, PatCapture)->bound); break;
    case AST_PatStar: unset_bind(w, AST_AS(n, PatStar)->bound); break;
    case AST_PatMapping: unset_bind(w, AST_AS(n, PatMapping)->bound); ast_walk(n, pattern, w); break;
    case AST_PatAs: unset_bind(w, AST_AS(n, PatAs)->bound); ast_walk(n, pattern, w); break;
    case AST_Name: unset_read(w, AST_AS(n, Name)); break;
    default: ast_walk(n, pattern, w);
    }
    return true;
}

static void match_stmt(UnsetWalk *w, AstMatch *m)
{
    UnsetWay all = {.dead = true}, one;
    int from;

    visit(m->subject, w);
    from = w->log.n;
    for (int i = 0; i < m->cases.n; i++) {
        AstMatchCase *c = AST_AS(m->cases.at[i], MatchCase);
        pattern(c->pattern, w);
        visit(c->guard, w);
        block(w, c->body);
        one = unset_end(w, from);
        unset_join(w, &all, &one, (Ast *)m);
        all = unset_end(w, from);
    }
    one = (UnsetWay){.dead = m->cases.n > 1 || AST_IS(AST_AS(m->cases.at[0], MatchCase)->pattern, PatCapture)};
    unset_join(w, &all, &one, (Ast *)m);
}

static void delete(UnsetWalk *w, Ast *t, const Ast *s)
{
    UnsetVar *v = AST_IS(t, Name) ? unset_var(w, AST_AS(t, Name)) : NULL;

    if (v && v->state == NOT_SET && !v->hushed)
        unset_put(w, (int)(v - w->var), TAKEN, NULL);
    visit(t, w);
    if (v)
        unset_put(w, (int)(v - w->var), TAKEN, s);
}

static void imports(UnsetWalk *w, AstSeq names)
{
    for (int i = 0; i < names.n; i++)
        if (AST_IS(names.at[i], Alias))
            unset_bind(w, AST_AS(names.at[i], Alias)->bound);
}

static void simple(UnsetWalk *w, Ast *s)
{
    switch (s->kind) {
    case AST_Assign:
        visit(AST_AS(s, Assign)->value, w);
        for (int i = 0; i < AST_AS(s, Assign)->targets.n; i++)
            target(w, AST_AS(s, Assign)->targets.at[i]);
        break;
    case AST_AugAssign:
        visit(AST_AS(s, AugAssign)->value, w);
        visit(AST_AS(s, AugAssign)->target, w);
        target(w, AST_AS(s, AugAssign)->target);
        break;
    case AST_AnnAssign:
        visit(AST_AS(s, AnnAssign)->value, w);
        if (AST_AS(s, AnnAssign)->value)
            target(w, AST_AS(s, AnnAssign)->target);
        break;
    case AST_TypeAlias:
        target(w, AST_AS(s, TypeAlias)->name);
        break;
    case AST_Import:
        imports(w, AST_AS(s, Import)->names);
        break;
    case AST_ImportFrom:
        imports(w, AST_AS(s, ImportFrom)->names);
        break;
    case AST_Del:
        for (int i = 0; i < AST_AS(s, Del)->targets.n; i++)
            delete(w, AST_AS(s, Del)->targets.at[i], s);
        break;
    case AST_FunctionDef:
        each(w, AST_AS(s, FunctionDef)->decorators);
        defaults(w, AST_AS(s, FunctionDef)->params);
        unset_bind(w, AST_AS(s, FunctionDef)->bound);
        break;
    case AST_ClassDef:
        each(w, AST_AS(s, ClassDef)->decorators);
        each(w, AST_AS(s, ClassDef)->bases);
        unset_bind(w, AST_AS(s, ClassDef)->bound);
        break;
    case AST_Global: case AST_Nonlocal: case AST_Pass: case AST_Break: case AST_Continue:
        break;
    default:
        visit(s, w);
    }
    w->breaks += s->kind == AST_Break;
    w->dead |= s->kind == AST_Return || s->kind == AST_Break || s->kind == AST_Continue || is_end(w, s, 0);
    if (s->kind == AST_Assert)
        unset_believe(w, AST_AS(s, Assert)->test);
}

static void statement(UnsetWalk *w, Ast *s)
{
    switch (s->kind) {
    case AST_If:
        if_stmt(w, AST_AS(s, If), NULL);
        break;
    case AST_For:
        loop(w, AST_AS(s, For)->iter, AST_AS(s, For)->target, AST_AS(s, For)->body, AST_AS(s, For)->orelse, false);
        break;
    case AST_While:
        loop(w, AST_AS(s, While)->test, NULL, AST_AS(s, While)->body, AST_AS(s, While)->orelse, decided(AST_AS(s, While)->test) == 1);
        break;
    case AST_With:
        for (int i = 0; i < AST_AS(s, With)->items.n; i++) {
            visit(AST_AS(AST_AS(s, With)->items.at[i], WithItem)->context, w);
            target(w, AST_AS(AST_AS(s, With)->items.at[i], WithItem)->target);
        }
        block(w, AST_AS(s, With)->body);
        break;
    case AST_On:
        visit(AST_AS(s, On)->place, w);
        block(w, AST_AS(s, On)->body);
        break;
    case AST_Try:
        try_stmt(w, AST_AS(s, Try));
        break;
    case AST_Match:
        match_stmt(w, AST_AS(s, Match));
        break;
    default:
        simple(w, s);
    }
}

static void block(UnsetWalk *w, AstSeq body)
{
    int mark = w->hushed.n;

    if (w->depth < WALK_DEPTH) {
        w->depth++;
        for (int i = 0; i < body.n && !w->dead; i++)
            statement(w, body.at[i]);
        w->depth--;
    }
    unset_unhush(w, mark);
}

/* ------------------------------------------------------------- bodies */

static void check_body(Res *R, Scope *s, AstSeq body)
{
    UnsetWalk w = {.R = R, .scope = s, .n = s->kind == SCOPE_MODULE ? s->locals.n : s->nslots};

    w.var = tsr_calloc(sizeof *w.var * (size_t)(w.n + 1));
    for (int i = 0; i < w.n; i++)
        w.var[i].state = IS_SET;
    for (int i = 0; i < s->locals.n; i++) {
        const Local *l = &s->locals.at[i];
        bool handler = l->nbinds == 1 && AST_IS(l->node, Handler);
        if (!l->is_param && !l->is_dim && !l->is_shared && l->decl.hi && (int)l->slot < w.n)
            w.var[l->slot] = (UnsetVar){.state = handler ? TAKEN : NOT_SET, .why = handler ? l->node : NULL};
    }
    block(&w, body);
    vec_free(&w.log);
    vec_free(&w.hushed);
    vec_free(&w.doubts);
    tsr_free(w.var);
}

void unset_check(Res *R)
{
    if (R->sink->errors || R->opt.repl || is_of_library(R->u->src->path))
        return;
    if (R->globals->ways)
        check_body(R, R->globals, R->u->module->body);
    for (Scope *s = R->globals->owned; s; s = s->owned)
        if (s->ways && s->kind == SCOPE_FUNCTION)
            check_body(R, s, AST_AS(s->node, FunctionDef)->body);
}
