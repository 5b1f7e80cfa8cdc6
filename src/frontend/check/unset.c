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
#include "frontend/check/resolve.h"

#include "frontend/check/collect.h"
#include "frontend/check/depth.h"
#include "frontend/check/foreign.h"
#include "frontend/check/spaces.h"

#include <string.h>

typedef enum { NOT_SET, TAKEN, PARTLY, IS_SET } State;      /* TAKEN: by del, or by the end of its handler */

typedef struct { uint8_t state, other; int hushed, stamp; const Ast *why; } Var;        /* why: the statement that sets it on some ways */
typedef struct { int slot; uint8_t state; const Ast *why; } Put;
typedef struct { Vec(Put) put; bool dead; } Way;        /* what changed, each variable once */

enum { TOPICS_MAX = 24 };
/* The names that a statement tests and sets. */
typedef struct { Sym at[TOPICS_MAX]; int n, depth; } Topics;

/* A variable that was PARTLY, and what the statement that set it speaks of, once that was asked. */
typedef struct { int slot; const Ast *why; Topics of; } Doubt;
enum { DOUBTS_MAX = 64 };

typedef struct Walk {
    Res *R;
    Scope *scope;
    Var *var;                   /* by slot */
    int n, stamp, depth, tries;
    Vec(Put) log;               /* what variables were before each store */
    Vec(int) hushed;            /* slots: believed until the block ends */
    Vec(Doubt) doubts;
    bool dead;
    int breaks;                 /* out of the innermost loop */
} Walk;

/* ------------------------------------------------------------- variables */

static Var *var_of(Walk *w, const AstName *n)
{
    bool own = w->scope->kind == SCOPE_MODULE ? n->bind == BIND_GLOBAL : n->bind == BIND_LOCAL || n->bind == BIND_CELL;

    return own && (int)n->slot < w->n ? &w->var[n->slot] : NULL;
}

static void put(Walk *w, int slot, uint8_t state, const Ast *why)
{
    Var *v = &w->var[slot];

    if (v->state == state)
        return;
    vec_push(&w->log, ((Put){slot, v->state, v->why}));
    if (state == PARTLY && w->doubts.n < DOUBTS_MAX)
        vec_push(&w->doubts, ((Doubt){.slot = slot}));
    v->state = state;
    v->why = why;
}

static void bind(Walk *w, const AstName *n)
{
    Var *v = n ? var_of(w, n) : NULL;

    if (v)
        put(w, (int)(v - w->var), IS_SET, NULL);
}

static void read_name(Walk *w, const AstName *n)
{
    Var *v = var_of(w, n);
    const Local *l;
    Diag *d;

    if (!v || v->state == IS_SET || v->state == NOT_SET || v->hushed || w->tries || w->dead)
        return;
    l = scope_local(w->scope, n->id);
    if (l && v->state == PARTLY && v->why) {
        d = DIAG_AT(w->R->sink, E0219, n->ast.span, n->id->text);
        diag_label(d, span_head(v->why->span, v->why->kind == AST_Try ? "try" : v->why->kind == AST_Match ? "match" : "if"),
                   "not every way through this assigns it");
        diag_label(d, l->decl, "assigned here");
    } else if (v->state == TAKEN) {
        d = DIAG_AT(w->R->sink, E0218, n->ast.span, n->id->text);
        if (v->why && v->why->kind == AST_Handler)
            diag_label(d, span_head(v->why->span, "except"), "the name is gone when this handler ends");
        else if (v->why)
            diag_label(d, v->why->span, "deleted here");
        if (v->why)
            diag_help(d, v->why->kind == AST_Handler ? "give it to another variable in the handler" : "read it before, or do not delete it");
    }
    put(w, (int)(v - w->var), IS_SET, NULL);                /* said once */
}

/* ------------------------------------------------------------- ways */

static Way way_end(Walk *w, int from)
{
    Way way = {.dead = w->dead};

    w->stamp++;
    for (int i = from; i < w->log.n; i++) {
        Var *v = &w->var[w->log.at[i].slot];
        if (v->stamp != w->stamp)
            vec_push(&way.put, ((Put){w->log.at[i].slot, v->state, v->why}));
        v->stamp = w->stamp;
    }
    while (w->log.n > from) {
        Put p = w->log.at[--w->log.n];
        w->var[p.slot].state = p.state;
        w->var[p.slot].why = p.why;
    }
    w->dead = false;
    return way;
}

/* taken: what took it, on one of the ways */
static void put_both(Walk *w, int slot, uint8_t a, uint8_t b, const Ast *why, const Ast *taken)
{
    uint8_t most = a > b ? a : b;

    if (a == b || most <= TAKEN)
        put(w, slot, most, a == PARTLY ? why : most == TAKEN ? taken : NULL);
    else
        put(w, slot, w->var[slot].hushed && most == IS_SET ? IS_SET : PARTLY, why);
}

/* What is so behind both, which began here. */
static void way_join(Walk *w, Way *a, Way *b, const Ast *why)
{
    const Way *one = a->dead ? b : a;
    int stamp = ++w->stamp;

    w->dead = a->dead && b->dead;
    for (int i = 0; (a->dead || b->dead) && i < one->put.n; i++)
        put(w, one->put.at[i].slot, one->put.at[i].state, one->put.at[i].why);
    for (int i = 0; !a->dead && !b->dead && i < a->put.n; i++) {
        w->var[a->put.at[i].slot].stamp = stamp;
        w->var[a->put.at[i].slot].other = a->put.at[i].state;
    }
    for (int i = 0; !a->dead && !b->dead && i < b->put.n; i++) {
        Var *v = &w->var[b->put.at[i].slot];
        put_both(w, b->put.at[i].slot, v->stamp == stamp ? v->other : v->state, b->put.at[i].state, why, b->put.at[i].why);
        v->stamp = 0;
    }
    for (int i = 0; !a->dead && !b->dead && i < a->put.n; i++)
        if (w->var[a->put.at[i].slot].stamp == stamp)
            put_both(w, a->put.at[i].slot, w->var[a->put.at[i].slot].state, a->put.at[i].state, why, a->put.at[i].why);
    vec_free(&a->put);
    vec_free(&b->put);
}

/* ------------------------------------------------------------- what a statement tests and sets */

static void add_topic(Topics *t, Sym s)
{
    if (t->n < TOPICS_MAX)
        t->at[t->n++] = s;
}

static bool add_names(Ast *n, void *state)
{
    Topics *t = state;

    if (!n || t->depth > 100)
        return true;
    if (n->kind == AST_Name)
        add_topic(t, AST_AS(n, Name)->id);
    if (n->kind == AST_Attribute)
        add_topic(t, AST_AS(n, Attribute)->attr);
    t->depth++;
    ast_walk(n, add_names, t);
    t->depth--;
    return true;
}

static bool add_tests(Ast *n, void *state);

static void add_targets(Topics *t, AstSeq targets)
{
    for (int i = 0; i < targets.n; i++)
        add_names(targets.at[i], t);
}

static bool add_tests(Ast *n, void *state)
{
    Topics *t = state;

    if (!n || t->depth > 100 || n->kind == AST_FunctionDef || n->kind == AST_ClassDef || n->kind == AST_Lambda)
        return true;
    if (n->kind == AST_If)
        add_names(AST_AS(n, If)->test, t);
    if (n->kind == AST_Match)
        add_names(AST_AS(n, Match)->subject, t);
    if (n->kind == AST_Assign)
        add_targets(t, AST_AS(n, Assign)->targets);
    t->depth++;
    ast_walk(n, add_tests, t);
    t->depth--;
    return true;
}

static bool share(const Topics *a, const Topics *b)
{
    for (int i = 0; i < a->n; i++)
        for (int k = 0; k < b->n; k++)
            if (a->at[i] == b->at[k])
                return true;
    return false;
}

static void hush(Walk *w, int slot)
{
    w->var[slot].hushed++;
    vec_push(&w->hushed, slot);
}

/* Where the test holds, or fails, variables that were set under a like one are believed to be there. */
static void believe(Walk *w, Ast *test)
{
    Topics of = {0};

    if (!w->doubts.n)
        return;
    add_names(test, &of);
    for (int i = 0; i < w->doubts.n; i++) {
        Doubt *d = &w->doubts.at[i];
        Var *v = &w->var[d->slot];
        if (v->state != PARTLY || v->hushed || !v->why)
            continue;
        if (d->why != v->why) {
            *d = (Doubt){.slot = d->slot, .why = v->why};
            add_tests((Ast *)v->why, &d->of);
        }
        if (share(&of, &d->of))
            hush(w, d->slot);
    }
}

static void unhush(Walk *w, int mark)
{
    while (w->hushed.n > mark)
        w->var[w->hushed.at[--w->hushed.n]].hushed--;
}

/* ------------------------------------------------------------- expressions */

/* Of a constant that is tested: 1, 0; -1: it is none. */
static int decided(const Ast *e)
{
    if (AST_IS(e, Int))
        return AST_AS(e, Int)->value != 0;
    return !AST_IS(e, Const) ? -1 : AST_AS(e, Const)->value == CONST_TRUE ? 1 : AST_AS(e, Const)->value == CONST_ELLIPSIS ? -1 : 0;
}

static bool visit(Ast *n, void *state);

static void each(Walk *w, AstSeq seq)
{
    for (int i = 0; i < seq.n; i++)
        visit(seq.at[i], w);
}

static void comprehension(Walk *w, AstSeq clauses, Ast *key, Ast *value)
{
    for (int i = 0; i < clauses.n; i++) {
        AstCompFor *c = AST_AS(clauses.at[i], CompFor);
        visit(c->iter, w);
        each(w, c->ifs);
    }
    visit(key, w);
    visit(value, w);
}

static void defaults(Walk *w, AstSeq params)
{
    for (int i = 0; i < params.n; i++)
        if (AST_IS(params.at[i], Param))
            visit(AST_AS(params.at[i], Param)->dflt, w);
}

static void tested(Walk *w, Ast *test, Ast *yes, Ast *no)
{
    int mark = w->hushed.n;

    visit(test, w);
    believe(w, test);
    visit(decided(test) == 0 ? NULL : yes, w);
    visit(decided(test) == 1 ? NULL : no, w);
    unhush(w, mark);
}

static bool visit(Ast *n, void *state)
{
    Walk *w = state;
    int mark;

    if (!n || w->depth >= WALK_DEPTH)
        return true;
    w->depth++;
    switch (n->kind) {
    case AST_Name:
        read_name(w, AST_AS(n, Name));
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
            bind(w, AST_AS(AST_AS(n, NamedExpr)->target, Name));
        break;
    case AST_IfExp:
        tested(w, AST_AS(n, IfExp)->test, AST_AS(n, IfExp)->body, AST_AS(n, IfExp)->orelse);
        break;
    case AST_BoolOp:
        mark = w->hushed.n;
        for (int i = 0; i < AST_AS(n, BoolOp)->values.n; i++) {
            visit(AST_AS(n, BoolOp)->values.at[i], w);
            believe(w, AST_AS(n, BoolOp)->values.at[i]);
        }
        unhush(w, mark);
        break;
    default:
        ast_walk(n, visit, w);
    }
    w->depth--;
    return true;
}

/* ------------------------------------------------------------- statements */

static void block(Walk *w, AstSeq body);

static void target(Walk *w, Ast *t)
{
    if (!t)
        return;
    if (t->kind == AST_Name)
        bind(w, AST_AS(t, Name));
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
static const AstFunctionDef *function_of(const Walk *w, const AstName *n)
{
    const Local *l = n->bind == BIND_GLOBAL ? scope_local(w->R->globals, n->id) : NULL;
    const AstImportFrom *from = l && l->nbinds == 1 ? AST_AS(l->node, ImportFrom) : NULL;
    const Space *s = AST_IS(l ? l->node : NULL, ImportFrom) && from && from->module
                         ? space_import(from->module->text, (int)from->level, w->R->u->src->path) : NULL;
    const Ast *def = s && !from->star ? space_definition(s, n->id) : l && l->nbinds == 1 ? l->node : NULL;

    return AST_IS(def, FunctionDef) ? AST_AS(def, FunctionDef) : NULL;
}

/* raise; sys.exit(), parser.error(...), or a function that ends in one of these */
static bool is_end(const Walk *w, const Ast *s, int depth)
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
    Topics a = {0}, b = {0};

    if (!before)
        return false;
    add_names(s->test, &a);
    add_names(before->test, &b);
    return share(&a, &b);
}

static void if_stmt(Walk *w, AstIf *s, const AstIf *before)
{
    int from, mark = w->hushed.n;
    Way yes, no;
    bool goes;

    visit(s->test, w);
    believe(w, s->test);
    if (decided(s->test) >= 0) {
        block(w, decided(s->test) ? s->body : s->orelse);
        return;
    }
    from = w->log.n;
    block(w, s->body);
    yes = way_end(w, from);
    if (s->orelse.n == 1 && AST_IS(s->orelse.at[0], If))
        if_stmt(w, AST_AS(s->orelse.at[0], If), s);
    else
        block(w, s->orelse);
    w->dead |= !s->orelse.n && goes_on(s, before);
    no = way_end(w, from);
    goes = yes.dead != no.dead;
    way_join(w, &yes, &no, (Ast *)s);
    if (!goes)                                  /* else what the test says holds from here on */
        unhush(w, mark);
}

static void each_bound(void *state, CollectEvent e, Sym name, Ast *node)
{
    Walk *w = state;
    const Local *l = e == COLLECT_BIND ? scope_local(w->scope, name) : NULL;

    if (l && (int)l->slot < w->n && w->var[l->slot].state != IS_SET)
        hush(w, (int)l->slot);
}

/* What a round sets is set, as far as some round set it. */
static void loop_ends(Walk *w, int from)
{
    for (int i = from, n = w->log.n; i < n; i++)
        if (w->var[w->log.at[i].slot].state != TAKEN)
            put(w, w->log.at[i].slot, IS_SET, NULL);
}

static void loop(Walk *w, Ast *iter, Ast *to, AstSeq body, AstSeq orelse, bool endless)
{
    int from, mark = w->hushed.n, outer = w->breaks;

    visit(iter, w);
    from = w->log.n;
    w->breaks = 0;
    collect_block(body, each_bound, w);
    target(w, to);
    block(w, body);
    unhush(w, mark);
    w->dead = endless && !w->breaks;
    if (!w->dead)
        block(w, orelse);
    w->dead &= !w->breaks;
    w->breaks = outer;
    loop_ends(w, from);
}

/* What the body set, some of it, is there for the handler. */
static Way handler(Walk *w, AstHandler *h, const Way *body)
{
    int from = w->log.n, mark = w->hushed.n;

    for (int i = 0; i < body->put.n; i++)
        hush(w, body->put.at[i].slot);
    visit(h->type, w);
    bind(w, h->bound);
    block(w, h->body);
    unhush(w, mark);
    if (h->bound && var_of(w, h->bound))
        put(w, (int)(var_of(w, h->bound) - w->var), TAKEN, (Ast *)h);
    return way_end(w, from);
}

static void try_stmt(Walk *w, AstTry *t)
{
    int from = w->log.n, mark = w->hushed.n;
    Way body, all = {.dead = true}, one;
    bool dead;

    w->tries += t->handlers.n > 0;
    block(w, t->body);
    w->tries -= t->handlers.n > 0;
    if (!w->dead)
        block(w, t->orelse);
    body = way_end(w, from);
    for (int i = 0; i < t->handlers.n; i++) {
        one = handler(w, AST_AS(t->handlers.at[i], Handler), &body);
        way_join(w, &all, &one, (Ast *)t);
        all = way_end(w, from);
    }
    way_join(w, &body, &all, (Ast *)t);
    for (int i = from; i < w->log.n && t->has_final; i++)
        hush(w, w->log.at[i].slot);
    dead = w->dead;
    w->dead = false;
    block(w, t->final);
    w->dead |= dead;
    unhush(w, mark);
}

static bool pattern(Ast *n, void *state)
{
    Walk *w = state;

    if (!n)
        return true;
    switch (n->kind) {
    case AST_PatCapture: bind(w, AST_AS(n, PatCapture)->bound); break;
    case AST_PatStar: bind(w, AST_AS(n, PatStar)->bound); break;
    case AST_PatMapping: bind(w, AST_AS(n, PatMapping)->bound); ast_walk(n, pattern, w); break;
    case AST_PatAs: bind(w, AST_AS(n, PatAs)->bound); ast_walk(n, pattern, w); break;
    case AST_Name: read_name(w, AST_AS(n, Name)); break;
    default: ast_walk(n, pattern, w);
    }
    return true;
}

static void match_stmt(Walk *w, AstMatch *m)
{
    Way all = {.dead = true}, one;
    int from;

    visit(m->subject, w);
    from = w->log.n;
    for (int i = 0; i < m->cases.n; i++) {
        AstMatchCase *c = AST_AS(m->cases.at[i], MatchCase);
        pattern(c->pattern, w);
        visit(c->guard, w);
        block(w, c->body);
        one = way_end(w, from);
        way_join(w, &all, &one, (Ast *)m);
        all = way_end(w, from);
    }
    one = (Way){.dead = m->cases.n > 1 || AST_IS(AST_AS(m->cases.at[0], MatchCase)->pattern, PatCapture)};
    way_join(w, &all, &one, (Ast *)m);
}

static void delete(Walk *w, Ast *t, const Ast *s)
{
    Var *v = AST_IS(t, Name) ? var_of(w, AST_AS(t, Name)) : NULL;

    if (v && v->state == NOT_SET && !v->hushed)
        put(w, (int)(v - w->var), TAKEN, NULL);
    visit(t, w);
    if (v)
        put(w, (int)(v - w->var), TAKEN, s);
}

static void imports(Walk *w, AstSeq names)
{
    for (int i = 0; i < names.n; i++)
        if (AST_IS(names.at[i], Alias))
            bind(w, AST_AS(names.at[i], Alias)->bound);
}

static void simple(Walk *w, Ast *s)
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
        bind(w, AST_AS(s, FunctionDef)->bound);
        break;
    case AST_ClassDef:
        each(w, AST_AS(s, ClassDef)->decorators);
        each(w, AST_AS(s, ClassDef)->bases);
        bind(w, AST_AS(s, ClassDef)->bound);
        break;
    case AST_Global: case AST_Nonlocal: case AST_Pass: case AST_Break: case AST_Continue:
        break;
    default:
        visit(s, w);
    }
    w->breaks += s->kind == AST_Break;
    w->dead |= s->kind == AST_Return || s->kind == AST_Break || s->kind == AST_Continue || is_end(w, s, 0);
    if (s->kind == AST_Assert)
        believe(w, AST_AS(s, Assert)->test);
}

static void statement(Walk *w, Ast *s)
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

static void block(Walk *w, AstSeq body)
{
    int mark = w->hushed.n;

    if (w->depth < WALK_DEPTH) {
        w->depth++;
        for (int i = 0; i < body.n && !w->dead; i++)
            statement(w, body.at[i]);
        w->depth--;
    }
    unhush(w, mark);
}

/* ------------------------------------------------------------- bodies */

static void check_body(Res *R, Scope *s, AstSeq body)
{
    Walk w = {.R = R, .scope = s, .n = s->kind == SCOPE_MODULE ? s->locals.n : s->nslots};

    w.var = tsr_calloc(sizeof *w.var * (size_t)(w.n + 1));
    for (int i = 0; i < w.n; i++)
        w.var[i].state = IS_SET;
    for (int i = 0; i < s->locals.n; i++) {
        const Local *l = &s->locals.at[i];
        bool handler = l->nbinds == 1 && AST_IS(l->node, Handler);
        if (!l->is_param && !l->is_dim && !l->is_shared && l->decl.hi && (int)l->slot < w.n)
            w.var[l->slot] = (Var){.state = handler ? TAKEN : NOT_SET, .why = handler ? l->node : NULL};
    }
    block(&w, body);
    vec_free(&w.log);
    vec_free(&w.hushed);
    vec_free(&w.doubts);
    tsr_free(w.var);
}

void unset_check(Res *R)
{
    if (R->sink->errors || R->opt.repl || !strncmp(R->u->src->path, LIBRARY_FOLDER, strlen(LIBRARY_FOLDER)))
        return;
    if (R->globals->ways)
        check_body(R, R->globals, R->u->module->body);
    for (Scope *s = R->globals->owned; s; s = s->owned)
        if (s->ways && s->kind == SCOPE_FUNCTION)
            check_body(R, s, AST_AS(s->node, FunctionDef)->body);
}
