/*
 * Values that were given away: pmap(f, donate={0})(x) takes the memory of x.
 *
 * A walk in the order of execution knows which variables hold a donated value;
 * reading one is an error, storing a new value ends it.  Branches are joined,
 * and a loop is walked twice, so that its second round is seen.
 */
#include "frontend/check/effects.h"

#include <string.h>

enum { DEPTH = 400, MOVED_MAX = 32 };

/* path: "self.w", 'p["a"]'; NULL: the variable. waited: it is the handle of a collective, which gives its result once. */
typedef struct Moved { const Local *local; Sym path; const Ast *call; bool inplace, waited; } Moved;
typedef struct State { Moved at[MOVED_MAX]; int n; bool dead; } State;
typedef struct Walk { Effects *E; Scope *scope; State now; int depth, tries; } Walk;

/* ------------------------------------------------------------- which arguments a call takes */

typedef struct Taken { uint64_t mask; AstSeq params; bool inplace; } Taken;     /* positions; the parameters of what is called, n 0: not known */

/* The position of a parameter; -1: there is none of that name. */
static int position(AstSeq params, const char *name)
{
    for (int i = 0; i < params.n && i < 64; i++)
        if (AST_IS(params.at[i], Param) && !strcmp(AST_AS(params.at[i], Param)->name->text, name))
            return i;
    return -1;
}

/* 0, (0, 1), {"x"}: the positions that are meant. */
static uint64_t indices(const Ast *e, AstSeq params)
{
    AstSeq s = {(Ast **)&e, 1};
    uint64_t m = 0;

    if (AST_IS(e, Tuple)) s = AST_AS(e, Tuple)->elts;
    if (AST_IS(e, List)) s = AST_AS(e, List)->elts;
    if (AST_IS(e, Set)) s = AST_AS(e, Set)->elts;
    for (int i = 0; i < s.n; i++) {
        int64_t k = AST_IS(s.at[i], Int) ? AST_AS(s.at[i], Int)->value :
                    AST_IS(s.at[i], Str) ? position(params, AST_AS(s.at[i], Str)->value.s) : -1;
        if (k >= 0 && k < 64)
            m |= 1ull << k;
    }
    return m;
}

/* memory.inplace, of whatever name the memory is reached by. */
static bool is_inplace(const Ast *e)
{
    return (AST_IS(e, Attribute) && !strcmp(AST_AS(e, Attribute)->attr->text, "inplace")) ||
           (AST_IS(e, Name) && !strcmp(AST_AS(e, Name)->id->text, "inplace"));
}

/* @memory.inplace and @memory.inplace(...) */
static bool overwrites(const Ast *maker)
{
    return is_inplace(AST_IS(maker, Call) ? AST_AS(maker, Call)->func : maker);
}

/* pmap(f, donate={0}), @pmap(donate=(0, 1)), @memory.inplace: its first argument unless it says donate= */
static uint64_t donated_by(const Ast *maker, AstSeq params)
{
    const AstCall *c = AST_AS(maker, Call);

    if (is_inplace(maker))
        return 1;

    for (int i = 0; AST_IS(maker, Call) && i < c->args.n; i++) {
        const AstArg *a = AST_AS(c->args.at[i], Arg);
        if (a->ast.kind == AST_Arg && a->name && (!strcmp(a->name->text, "donate") || !strcmp(a->name->text, "donate_argnums")))
            return indices(a->value, params);
    }
    return AST_IS(maker, Call) && is_inplace(c->func);
}

/* The only value that a name is given; NULL: it has several, or is none of the program's. */
static Ast *only_value(Walk *w, Ast *name)
{
    const Given *g = things_given(w->E, things_local(w->E, w->scope, AST_AS(name, Name), NULL));

    return g && !g->next ? g->value : NULL;
}

/* The parameters of the function that a transform is given. */
static AstSeq wrapped(Walk *w, const Ast *maker)
{
    AstSeq args = AST_IS(maker, Call) ? AST_AS(maker, Call)->args : (AstSeq){0};
    Ast *f = args.n && AST_IS(args.at[0], Arg) && !AST_AS(args.at[0], Arg)->name ? AST_AS(args.at[0], Arg)->value : NULL;

    if (AST_IS(f, Name))
        f = only_value(w, f);
    return AST_IS(f, FunctionDef) ? AST_AS(f, FunctionDef)->params : AST_IS(f, Lambda) ? AST_AS(f, Lambda)->params : (AstSeq){0};
}

static Taken donated(Walk *w, Ast *callee)
{
    Ast *maker = AST_IS(callee, Name) ? only_value(w, callee) : callee;
    AstFunctionDef *def = AST_AS(maker, FunctionDef);
    Taken t = {0};

    if (!maker)
        return t;
    t.params = AST_IS(maker, FunctionDef) ? def->params : wrapped(w, maker);
    t.mask = donated_by(maker, t.params);
    t.inplace = t.mask && overwrites(maker);
    for (int i = 0; AST_IS(maker, FunctionDef) && i < def->decorators.n; i++) {
        t.mask |= donated_by(def->decorators.at[i], t.params);
        t.inplace |= overwrites(def->decorators.at[i]);
    }
    return t;
}

/* ------------------------------------------------------------- variables */

/* The variable in front of x.a.b["c"][0]; NULL: it is no such chain. */
static AstName *root_of(Ast *e)
{
    for (;;) {
        if (AST_IS(e, Attribute))
            e = AST_AS(e, Attribute)->value;
        else if (AST_IS(e, Subscript) && (AST_IS(AST_AS(e, Subscript)->index, Str) || AST_IS(AST_AS(e, Subscript)->index, Int)))
            e = AST_AS(e, Subscript)->value;
        else
            return AST_IS(e, Name) ? AST_AS(e, Name) : NULL;
    }
}

static Sym path_of(Ast *e)
{
    StrBuf text = {0};
    Sym s;

    if (AST_IS(e, Name))
        return NULL;
    ast_print(e, &text);
    s = sym(sb_str(&text));
    sb_done(&text);
    return s;
}

static void give_away(Walk *w, Ast *e, const Taken *t, const Ast *call)
{
    AstName *root = root_of(e);
    const Local *l = root ? things_local(w->E, w->scope, root, NULL) : NULL;
    Sym path = l ? path_of(e) : NULL;

    for (int i = 0; i < w->now.n; i++)
        if (w->now.at[i].local == l && w->now.at[i].path == path)
            return;
    if (l && w->now.n < MOVED_MAX)
        w->now.at[w->now.n++] = (Moved){l, path, call, t->inplace, false};
}

/* The variable has a new value, and with it all that is reached through it; path not NULL: that alone has one. */
static void stored(Walk *w, const Local *l, Sym path)
{
    for (int i = 0; i < w->now.n; i++)
        if (w->now.at[i].local == l && (!path || w->now.at[i].path == path))
            w->now.at[i--] = w->now.at[--w->now.n];
}

/* What a tensor tells without its elements. */
static bool outlives(Sym attr)
{
    static const char *const names[] = {"shape", "dtype", "ndim", "size"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], attr->text))
            return true;
    return false;
}

static void read_place(Walk *w, Ast *e, AstName *root)
{
    const Local *l = things_local(w->E, w->scope, root, NULL);
    Sym path = l && w->now.n ? path_of(e) : NULL;
    Moved *m = w->now.at;

    for (int i = 0; l && !w->now.dead && i < w->now.n; i++, m++)
        if (m->local == l && m->path == path && !m->waited) {
            Diag *d = DIAG_AT(w->E->sink, E0512, e->span, m->inplace ? "overwritten" : "donated", path ? path->text : root->id->text);
            diag_label(d, m->call->span, m->inplace ? "overwritten here" : "donated here");
            diag_help(d, m->inplace ? "use what the call gave instead, or keep a copy that is not handed over"
                                    : "use what the call gave instead, or do not donate this argument");
            stored(w, l, path);                     /* one report */
            return;
        }
}

/* Whoever is given an object, or whose method is called, may store its attributes anew. */
static void reaches(Walk *w, Ast *e)
{
    const Local *l = AST_IS(e, Name) ? things_local(w->E, w->scope, AST_AS(e, Name), NULL) : NULL;

    for (int i = 0; l && i < w->now.n; i++)
        if (w->now.at[i].local == l && w->now.at[i].path)
            w->now.at[i--] = w->now.at[--w->now.n];
}

static bool holds(const State *s, const Moved *m)
{
    for (int k = 0; k < s->n; k++)
        if (s->at[k].local == m->local && s->at[k].path == m->path)
            return true;
    return false;
}

/* A handle is waited for behind both, or a program may know which way it came. */
static void join(State *into, const State *s)
{
    if (s->dead)
        return;
    if (into->dead) {
        *into = *s;
        return;
    }
    for (int i = 0; i < into->n; i++)
        if (into->at[i].waited && !holds(s, &into->at[i]))
            into->at[i--] = into->at[--into->n];
    for (int i = 0; i < s->n; i++) {
        if (!s->at[i].waited && !holds(into, &s->at[i]) && into->n < MOVED_MAX)
            into->at[into->n++] = s->at[i];
    }
}

/* ------------------------------------------------------------- the walk */

static bool walk(Ast *n, void *state);

static void each(Walk *w, AstSeq s)
{
    for (int i = 0; i < s.n; i++)
        walk(s.at[i], w);
}

static void target(Walk *w, Ast *t)
{
    AstSeq s = AST_IS(t, Tuple) ? AST_AS(t, Tuple)->elts : AST_IS(t, List) ? AST_AS(t, List)->elts : (AstSeq){0};

    if (AST_IS(t, Name))
        stored(w, things_local(w->E, w->scope, AST_AS(t, Name), NULL), NULL);
    else if (w->now.n && root_of(t))
        stored(w, things_local(w->E, w->scope, root_of(t), NULL), path_of(t));
    else if (s.n)
        for (int i = 0; i < s.n; i++)
            target(w, s.at[i]);
    else
        walk(t, w);
}

/* A collective that was begun, and is waited for here? */
static bool waits(Walk *w, AstCall *c)
{
    Ast *handle = AST_IS(c->func, Attribute) && !strcmp(AST_AS(c->func, Attribute)->attr->text, "wait") ? AST_AS(c->func, Attribute)->value : NULL;
    const AstCall *begun = AST_IS(handle, Name) ? AST_AS(only_value(w, handle), Call) : NULL;
    const char *name = AST_IS((Ast *)begun, Call) ? AST_IS(begun->func, Name) ? AST_AS(begun->func, Name)->id->text :
                       AST_IS(begun->func, Attribute) ? AST_AS(begun->func, Attribute)->attr->text : "" : "";

    return !strcmp(name, "all_reduce_async") || !strcmp(name, "all_gather_async") || !strcmp(name, "reduce_scatter_async");
}

static void wait_once(Walk *w, AstCall *c)
{
    AstName *n = AST_AS(AST_AS(c->func, Attribute)->value, Name);
    const Local *l = things_local(w->E, w->scope, n, NULL);

    for (int i = 0; l && !w->now.dead && !w->tries && i < w->now.n; i++)
        if (w->now.at[i].local == l && w->now.at[i].waited) {
            Diag *d = DIAG_AT(w->E->sink, E0512, c->ast.span, "awaited", n->id->text);
            diag_label(d, w->now.at[i].call->span, "waited for here");
            diag_help(d, "wait() gives the result once: keep it, y = %s.wait()", n->id->text);
            stored(w, l, NULL);
            return;
        }
    if (l && w->now.n < MOVED_MAX)
        w->now.at[w->now.n++] = (Moved){l, NULL, (Ast *)c, false, true};
}

static void call(Walk *w, AstCall *c)
{
    Taken t = donated(w, c->func);
    int next = 0;

    ast_walk((Ast *)c, walk, w);
    if (waits(w, c))
        wait_once(w, c);
    for (int i = 0; t.mask && i < c->args.n; i++) {
        AstArg *a = AST_AS(c->args.at[i], Arg);
        if (a->ast.kind != AST_Arg || a->stars)
            continue;
        int k = a->name ? position(t.params, a->name->text) : next++;
        if (k >= 0 && k < 64 && t.mask >> k & 1)
            give_away(w, a->value, &t, (Ast *)c);
    }
    for (int i = 0; !t.mask && w->now.n && i < c->args.n; i++)
        if (AST_IS(c->args.at[i], Arg))
            reaches(w, AST_AS(c->args.at[i], Arg)->value);
    if (w->now.n && AST_IS(c->func, Attribute))
        reaches(w, AST_AS(c->func, Attribute)->value);
}

static void branches(Walk *w, AstSeq a, AstSeq b)
{
    State entry = w->now, first;

    each(w, a);
    first = w->now;
    w->now = entry;
    each(w, b);
    join(&w->now, &first);
}

static void loop(Walk *w, Ast *to, AstSeq body, AstSeq orelse)
{
    State entry = w->now;

    for (int round = 0; round < 2; round++) {
        for (int i = 0; w->now.dead && i < w->now.n; i++)       /* nobody came to the end of the first round */
            if (w->now.at[i].waited)
                w->now.at[i--] = w->now.at[--w->now.n];
        w->now.dead = false;
        if (to)
            target(w, to);
        each(w, body);
    }
    w->now.dead = false;
    join(&w->now, &entry);
    each(w, orelse);
}

/* A handler sees the beginning, or anything up to the end. */
static void try_stmt(Walk *w, const AstTry *s)
{
    State entry = w->now;

    w->tries += s->handlers.n > 0;
    each(w, s->body);
    w->tries -= s->handlers.n > 0;
    each(w, s->orelse);
    for (int i = 0; i < s->handlers.n; i++) {
        State done = w->now;
        w->now = entry;
        each(w, AST_AS(s->handlers.at[i], Handler)->body);
        join(&w->now, &done);
    }
    each(w, s->final);
}

static bool walk(Ast *n, void *state)
{
    Walk *w = state;

    if (!n || w->depth > DEPTH)
        return true;
    w->depth++;
    switch (n->kind) {
    case AST_FunctionDef: case AST_Lambda: case AST_ClassDef:
        break;
    case AST_Attribute:
    case AST_Subscript:
        if (w->now.n && root_of(n) && !(AST_IS(n, Attribute) && outlives(AST_AS(n, Attribute)->attr)))
            read_place(w, n, root_of(n));
        if (!w->now.n || !AST_IS(n, Attribute) || !outlives(AST_AS(n, Attribute)->attr) || !root_of(n))
            ast_walk(n, walk, w);
        break;
    case AST_Name:
        read_place(w, n, AST_AS(n, Name));
        break;
    case AST_Call:
        call(w, AST_AS(n, Call));
        break;
    case AST_Assign:
        walk(AST_AS(n, Assign)->value, w);
        for (int i = 0; i < AST_AS(n, Assign)->targets.n; i++)
            target(w, AST_AS(n, Assign)->targets.at[i]);
        break;
    case AST_AnnAssign:
        if (AST_AS(n, AnnAssign)->value) {
            walk(AST_AS(n, AnnAssign)->value, w);
            target(w, AST_AS(n, AnnAssign)->target);
        }
        break;
    case AST_If:
        walk(AST_AS(n, If)->test, w);
        branches(w, AST_AS(n, If)->body, AST_AS(n, If)->orelse);
        break;
    case AST_For:
        walk(AST_AS(n, For)->iter, w);
        loop(w, AST_AS(n, For)->target, AST_AS(n, For)->body, AST_AS(n, For)->orelse);
        break;
    case AST_While:
        walk(AST_AS(n, While)->test, w);
        loop(w, NULL, AST_AS(n, While)->body, AST_AS(n, While)->orelse);
        break;
    case AST_Try:
        try_stmt(w, AST_AS(n, Try));
        break;
    case AST_Return: case AST_Raise: case AST_Break: case AST_Continue:
        ast_walk(n, walk, w);
        w->now.dead = true;
        break;
    default:
        ast_walk(n, walk, w);
    }
    w->depth--;
    return true;
}

void moved_check(Effects *E)
{
    Walk module = {.E = E, .scope = E->u->module->scope};

    if (!strstr(E->u->src->text, "donate") && !strstr(E->u->src->text, "inplace") && !strstr(E->u->src->text, "_async"))
        return;
    each(&module, E->u->module->body);
    for (int i = 0; i < E->own.n; i++) {
        EffFn *f = E->own.at[i];
        Walk w = {.E = E, .scope = f->scope};
        if (f->scope && f->node->kind == AST_FunctionDef)
            each(&w, AST_AS(f->node, FunctionDef)->body);
    }
}
