/*
 * Names resolved to places: the walk over statements and expressions.
 *
 * Each scope is walked after its bindings were collected, so a use may stand
 * before the binding.  Whether a local is a cell is known only when the whole
 * unit was walked: uses of locals are kept and settled at the end.
 */
#include "frontend/check/resolve.h"

#include "frontend/check/collect.h"
#include "frontend/check/depth.h"
#include "frontend/check/spaces.h"
#include "frontend/kernel/kernel.h"

#include <stdio.h>
#include <string.h>

static bool visit(Ast *n, void *state);

static void each(Res *R, AstSeq seq)
{
    for (int i = 0; i < seq.n; i++)
        visit(seq.at[i], R);
}

void resolve_expr(Res *R, Ast *e)
{
    visit(e, R);
}

static AstName *bound_name(Res *R, Sym name, Span span)
{
    AstName *n = ast_new(&R->u->arena, Name, span);

    n->id = name;
    name_set(R, n, frame_find(R, R->frame, name, true));
    return n;
}

static bool in_kernel(const Frame *f)
{
    for (; f; f = f->up)
        if (f->scope->kind == SCOPE_FUNCTION)
            if (kernel_def(AST_AS(f->scope->node, FunctionDef)))
                return true;
    return false;
}

static void use(Res *R, AstName *n)
{
    Found f = frame_find(R, R->frame, n->id, true);

    name_set(R, n, f);
    if (f.bind != BIND_NONE || R->opt.repl)
        return;
    if (!strcmp(n->id->text, "__class__"))
        R->frame->scope->uses_class_cell = true;
    else if (name_is_type_var(R, n->id) || (schedule_is_implicit(n->id->text) && in_kernel(R->frame)))
        n->bind = BIND_DIM;                         /* class Linear[I, O]: O in a method */
    else
        name_unknown(R, n, E0201);
}

static void enter(Res *R, Frame *f, Scope *s)
{
    f->scope = s;
    f->asked = R->asked.n;
    f->up = R->frame;
    R->frame = f;
}

/* Which locals are cells is known. */
static void settle_uses(Res *R)
{
    for (int i = 0; i < R->uses.n; i++) {
        Use *u = &R->uses.at[i];
        if (u->scope->locals.at[u->local].is_cell)
            u->name->bind = BIND_CELL;
    }
    R->uses.n = 0;
}

/* Nothing captures what a definition of the module met once it is behind; an open comprehension of the module still may. */
static void leave(Res *R)
{
    Frame *f = R->frame;

    R->asked.n = f->asked;
    R->frame = f->up;
    if (f->up && !f->up->up && !f->up->comp)
        settle_uses(R);
    frame_done(f);
}

/* ------------------------------------------------------------- functions */

static void check_duplicate(Res *R, Scope *s, AstParam *p)
{
    Local *first = scope_local(s, p->name);

    if (first && first->is_param)
        diag_label(DIAG_AT(R->sink, E0208, p->ast.span, p->name->text), first->decl, "first here");
}

/* Parameters take the first slots, in order of declaration. */
static void add_params(Res *R, Scope *s, AstSeq params)
{
    for (int i = 0; i < params.n; i++) {
        AstParam *p = AST_AS(params.at[i], Param);
        int k;
        if (p->ast.kind != AST_Param || p->kind == PARAM_CONSTRAINT || p->kind == PARAM_ANY || !p->name)
            continue;
        check_duplicate(R, s, p);
        k = scope_add_local(s, p->name, p->ast.span, (Ast *)p);
        s->locals.at[k].is_param = 1;
        p->slot = s->locals.at[k].slot;
        s->nparams = s->nslots;
    }
}

static void settle_params(Scope *s, AstSeq params)
{
    for (int i = 0; i < params.n; i++) {
        AstParam *p = AST_AS(params.at[i], Param);
        Local *l = p->ast.kind == AST_Param && p->name ? scope_local(s, p->name) : NULL;
        if (l)
            p->is_cell = l->is_cell;
    }
}

static void defaults(Res *R, AstSeq params)
{
    for (int i = 0; i < params.n; i++)
        if (AST_IS(params.at[i], Param))
            visit(AST_AS(params.at[i], Param)->dflt, R);
}

static void annotations(Res *R, AstFunctionDef *fn)
{
    for (int i = 0; i < fn->params.n; i++) {
        AstParam *p = AST_AS(fn->params.at[i], Param);
        if (p->ast.kind == AST_Param && p->kind != PARAM_CONSTRAINT)
            annot_resolve(R, p->annotation);
    }
    for (int i = 0; i < fn->typarams.n; i++) {
        AstTypeParam *t = AST_AS(fn->typarams.at[i], TypeParam);
        if (t->bound && !(t->bound->kind == AST_Name && !strcmp(AST_AS(t->bound, Name)->id->text, "static")))
            annot_resolve(R, t->bound);
    }
    annot_resolve(R, fn->returns);
}

/* Conditions on dims read them as values, inside the function. */
static void constraints(Res *R, AstFunctionDef *fn)
{
    each(R, fn->where);
    for (int i = 0; i < fn->params.n; i++) {
        AstParam *p = AST_AS(fn->params.at[i], Param);
        if (p->ast.kind == AST_Param && p->kind == PARAM_CONSTRAINT)
            visit(p->annotation, R);
    }
}

static void function_def(Res *R, AstFunctionDef *fn)
{
    Frame f = {0}, *outer_sig = R->sig;
    Scope *s = scope_make(R, SCOPE_FUNCTION, (Ast *)fn, fn->name, R->frame->scope);

    each(R, fn->decorators);
    defaults(R, fn->params);
    f.scope = s;
    annot_gather(R, &f, fn);
    R->sig = &f;
    annotations(R, fn);
    R->sig = outer_sig;
    if (fn->name)
        fn->bound = bound_name(R, fn->name, fn->ast.span);
    fn->scope = s;
    s->is_async = fn->is_async;
    enter(R, &f, s);
    add_params(R, s, fn->params);
    scope_bind_block(R, &f, fn->body);
    constraints(R, fn);
    each(R, fn->body);
    leave(R);
    settle_params(s, fn->params);
}

static void lambda(Res *R, AstLambda *fn)
{
    Frame f = {0};

    defaults(R, fn->params);
    fn->scope = scope_make(R, SCOPE_LAMBDA, (Ast *)fn, sym("<lambda>"), R->frame->scope);
    enter(R, &f, fn->scope);
    add_params(R, fn->scope, fn->params);
    scope_bind_expr(R, &f, fn->body);
    visit(fn->body, R);
    leave(R);
    settle_params(fn->scope, fn->params);
}

/* ------------------------------------------------------------- classes */

static void check_bases(Res *R, AstClassDef *c)
{
    int n = 0;
    char count[16];

    for (int i = 0; i < c->bases.n; i++) {
        AstArg *a = AST_AS(c->bases.at[i], Arg);
        if (a->ast.kind != AST_Arg)
            continue;
        if (a->name && !strcmp(a->name->text, "metaclass"))
            diag_help(DIAG_AT(R->sink, E0213, a->ast.span, "metaclass"), "a class decorator can change a class");
        n += !a->name && !ast_is_marker_base(a->value);
    }
    snprintf(count, sizeof count, "%d", n);
    if (n > 1)
        diag_help(DIAG_AT(R->sink, E0212, c->bases.at[1]->span, c->name ? c->name->text : "?", count),
                  "keep one base and hold the other objects as attributes");
}

/* Methods by which Python's descriptors answer for an attribute: here only property does, so that they would never run. */
static void check_descriptor(Res *R, const AstClassDef *c)
{
    static const char *const methods[] = {"__get__", "__set__", "__delete__", "__set_name__"};

    for (int i = 0; i < c->body.n; i++) {
        const AstFunctionDef *f = AST_AS(c->body.at[i], FunctionDef);
        for (size_t k = 0; f->ast.kind == AST_FunctionDef && f->name && k < sizeof methods / sizeof *methods; k++)
            if (!strcmp(f->name->text, methods[k]))
                diag_help(DIAG_AT(R->sink, E0210, f->ast.span, methods[k]),
                          "a property computes and checks one attribute; __getattr__ and __setattr__ see all of an object's");
    }
}

static void class_def(Res *R, AstClassDef *c)
{
    Frame f = {0}, *outer_sig = R->sig;

    each(R, c->decorators);
    annot_gather_typarams(&f, c->typarams);
    f.scope = R->frame->scope;
    R->sig = &f;
    for (int i = 0; i < c->bases.n; i++)
        if (AST_IS(c->bases.at[i], Arg) && AST_IS(AST_AS(c->bases.at[i], Arg)->value, Subscript) &&
            ast_is_marker_base(AST_AS(c->bases.at[i], Arg)->value))
            annot_resolve(R, AST_AS(c->bases.at[i], Arg)->value);
        else
            visit(c->bases.at[i], R);
    R->sig = outer_sig;
    check_bases(R, c);
    check_descriptor(R, c);
    if (c->name)
        c->bound = bound_name(R, c->name, c->ast.span);
    c->scope = scope_make(R, SCOPE_CLASS, (Ast *)c, c->name, R->frame->scope);
    enter(R, &f, c->scope);
    scope_bind_block(R, &f, c->body);
    each(R, c->body);
    leave(R);
}

/* ------------------------------------------------------------- comprehensions */

static void comp_bind(void *state, CollectEvent e, Sym name, Ast *node)
{
    Scope *s = state;

    if (e == COLLECT_BIND)
        scope_add_local(s, name, node->span, node);
}

/* Targets of every clause are the comprehension's own variables. */
static void comp_targets(Scope *s, AstSeq clauses)
{
    for (int i = 0; i < clauses.n; i++) {
        AstCompFor *c = AST_AS(clauses.at[i], CompFor);
        AstFor loop = {.ast = {.kind = AST_For}, .target = c->target};
        Ast *body[1] = {(Ast *)&loop};
        if (c->target)
            collect_block((AstSeq){body, 1}, comp_bind, s);
    }
}

static void comp_clauses(Res *R, AstSeq clauses)
{
    for (int i = 0; i < clauses.n; i++) {
        AstCompFor *c = AST_AS(clauses.at[i], CompFor);
        if (i)
            visit(c->iter, R);
        visit(c->target, R);
        each(R, c->ifs);
    }
}

/* The variables live in hidden slots of the enclosing frame, under names seen only inside. */
static Scope *list_comp(Res *R, Ast *n, AstSeq clauses, Ast *key, Ast *value)
{
    Scope *s = scope_make(R, SCOPE_COMP, n, NULL, R->frame->scope);
    Comp c = {s, R->frame->comp};

    if (clauses.n)
        visit(AST_AS(clauses.at[0], CompFor)->iter, R);
    s->nslots = R->frame->scope->nslots;
    comp_targets(s, clauses);
    R->frame->scope->nslots = s->nslots;
    R->frame->comp = &c;
    comp_clauses(R, clauses);
    early_clauses(R, s, clauses);
    visit(key, R);
    visit(value, R);
    R->frame->comp = c.up;
    return s;
}

static bool awaits(AstSeq clauses)
{
    for (int i = 0; i < clauses.n; i++)
        if (AST_AS(clauses.at[i], CompFor)->is_async)
            return true;
    return false;
}

static void gen_exp(Res *R, AstGenExp *g)
{
    Frame f = {0};
    int first;

    if (g->clauses.n)
        visit(AST_AS(g->clauses.at[0], CompFor)->iter, R);
    g->scope = scope_make(R, SCOPE_GENEXP, (Ast *)g, sym("<genexpr>"), R->frame->scope);
    g->scope->is_generator = true;
    g->scope->is_async = awaits(g->clauses);
    enter(R, &f, g->scope);
    first = scope_add_local(g->scope, sym(".0"), g->ast.span, NULL);
    g->scope->locals.at[first].is_param = 1;
    g->scope->nparams = 1;
    comp_targets(g->scope, g->clauses);
    comp_clauses(R, g->clauses);
    visit(g->elt, R);
    leave(R);
}

/* x := v binds in the function around the comprehensions. */
static void walrus(Res *R, AstNamedExpr *w)
{
    Frame *f = R->frame;
    AstName *t = AST_IS(w->target, Name) ? AST_AS(w->target, Name) : NULL;
    bool inside = f->comp || f->scope->kind == SCOPE_GENEXP;

    visit(w->value, R);
    if (!t) {
        visit(w->target, R);
        return;
    }
    for (Comp *c = f->comp; c; c = c->up)
        if (scope_local(c->scope, t->id)) {
            diag_label(DIAG_AT(R->sink, E0215, t->ast.span, t->id->text), scope_local(c->scope, t->id)->decl, "bound by the comprehension");
            return;
        }
    while (f->scope->kind == SCOPE_GENEXP && f->up)
        f = f->up;
    if (inside && f->scope->kind == SCOPE_CLASS)
        DIAG_AT(R->sink, E0214, t->ast.span, t->id->text);
    else
        visit(w->target, R);
}

/* ------------------------------------------------------------- all nodes */

static void loop(Res *R, AstSeq body, AstSeq orelse)
{
    R->frame->loops++;
    each(R, body);
    R->frame->loops--;
    each(R, orelse);
}

static void try_stmt(Res *R, AstTry *t)
{
    bool guarded = catches(t->handlers, (const char *const[]){"ImportError", "ModuleNotFoundError", "Exception", NULL}),
         prepared = catches(t->handlers, (const char *const[]){"AttributeError", "Exception", NULL});

    R->guarded += guarded;
    R->prepared += prepared;
    each(R, t->body);
    R->guarded -= guarded;
    R->prepared -= prepared;
    each(R, t->handlers);
    each(R, t->orelse);
    each(R, t->final);
}

static void imports(Res *R, Ast *stmt, AstSeq names, bool from)
{
    if (!R->guarded)
        import_check(R, stmt);
    for (int i = 0; i < names.n; i++) {
        AstAlias *a = AST_AS(names.at[i], Alias);
        if (a->ast.kind == AST_Alias && alias_binds(a, from))
            a->bound = bound_name(R, alias_binds(a, from), a->ast.span);
    }
}

static void check_call(Res *R, AstCall *c)
{
    for (int i = 0; i < c->args.n; i++) {
        AstArg *a = AST_AS(c->args.at[i], Arg);
        for (int k = 0; a->ast.kind == AST_Arg && a->name && k < i; k++)
            if (AST_IS(c->args.at[k], Arg) && AST_AS(c->args.at[k], Arg)->name == a->name) {
                diag_label(DIAG_AT(R->sink, E0901, a->ast.span, a->name->text), c->args.at[k]->span, "given here first");
                break;
            }
    }
    if (AST_IS(c->func, Name) && !c->args.n && !strcmp(AST_AS(c->func, Name)->id->text, "super"))
        R->frame->scope->uses_class_cell = true;
}

static void type_alias(Res *R, AstTypeAlias *t)
{
    Frame f = {0}, *outer = R->sig;

    visit(t->name, R);
    f.scope = R->frame->scope;
    annot_gather_typarams(&f, t->typarams);
    R->sig = &f;
    annot_resolve(R, t->value);
    R->sig = outer;
    frame_done(&f);
}

/* Definitions and other nodes whose children do not all belong to this scope; false: walk the children. */
static bool special(Res *R, Ast *n)
{
    switch (n->kind) {
    case AST_Name: return use(R, AST_AS(n, Name)), true;
    case AST_FunctionDef: return function_def(R, AST_AS(n, FunctionDef)), true;
    case AST_Lambda: return lambda(R, AST_AS(n, Lambda)), true;
    case AST_ClassDef: return class_def(R, AST_AS(n, ClassDef)), true;
    case AST_TypeAlias: return type_alias(R, AST_AS(n, TypeAlias)), true;
    case AST_ListComp:
        AST_AS(n, ListComp)->scope = list_comp(R, n, AST_AS(n, ListComp)->clauses, AST_AS(n, ListComp)->elt, NULL);
        return true;
    case AST_SetComp:
        AST_AS(n, SetComp)->scope = list_comp(R, n, AST_AS(n, SetComp)->clauses, AST_AS(n, SetComp)->elt, NULL);
        return true;
    case AST_DictComp:
        AST_AS(n, DictComp)->scope = list_comp(R, n, AST_AS(n, DictComp)->clauses, AST_AS(n, DictComp)->key,
                                               AST_AS(n, DictComp)->value);
        return true;
    case AST_GenExp: return gen_exp(R, AST_AS(n, GenExp)), true;
    case AST_NamedExpr: return walrus(R, AST_AS(n, NamedExpr)), true;
    case AST_AnnAssign:
        annot_resolve(R, AST_AS(n, AnnAssign)->annotation);
        visit(AST_AS(n, AnnAssign)->value, R);
        visit(AST_AS(n, AnnAssign)->target, R);
        return true;
    case AST_For:
        visit(AST_AS(n, For)->iter, R);
        visit(AST_AS(n, For)->target, R);
        loop(R, AST_AS(n, For)->body, AST_AS(n, For)->orelse);
        return true;
    case AST_While:
        visit(AST_AS(n, While)->test, R);
        loop(R, AST_AS(n, While)->body, AST_AS(n, While)->orelse);
        return true;
    case AST_Try: return try_stmt(R, AST_AS(n, Try)), true;
    case AST_Import: return imports(R, n, AST_AS(n, Import)->names, false), true;
    case AST_ImportFrom: return imports(R, n, AST_AS(n, ImportFrom)->names, true), true;
    case AST_Global:
    case AST_Nonlocal:
        return true;
    default:
        return false;
    }
}

/* Nodes that bind besides their children, or that are looked at again later. */
static void binds(Res *R, Ast *n)
{
    switch (n->kind) {
    case AST_Handler:
        if (AST_AS(n, Handler)->name)
            AST_AS(n, Handler)->bound = bound_name(R, AST_AS(n, Handler)->name, n->span);
        break;
    case AST_PatCapture:
        if (AST_AS(n, PatCapture)->name)
            AST_AS(n, PatCapture)->bound = bound_name(R, AST_AS(n, PatCapture)->name, n->span);
        break;
    case AST_PatStar:
        if (AST_AS(n, PatStar)->name)
            AST_AS(n, PatStar)->bound = bound_name(R, AST_AS(n, PatStar)->name, n->span);
        break;
    case AST_PatMapping:
        if (AST_AS(n, PatMapping)->rest)
            AST_AS(n, PatMapping)->bound = bound_name(R, AST_AS(n, PatMapping)->rest, n->span);
        break;
    case AST_PatAs:
        if (AST_AS(n, PatAs)->name)
            AST_AS(n, PatAs)->bound = bound_name(R, AST_AS(n, PatAs)->name, n->span);
        break;
    case AST_Attribute:
        if (!was_asked(R, AST_AS(n, Attribute)->attr))
            vec_push(&R->attrs, n);
        break;
    case AST_Call:
        check_call(R, AST_AS(n, Call));
        break;
    default:
        break;
    }
}

static bool visit(Ast *n, void *state)
{
    Res *R = state;

    if (!n || R->depth >= WALK_DEPTH)
        return true;
    R->depth++;
    place_check(R, n);
    if (!special(R, n) && !asked_visit(R, n)) {
        binds(R, n);
        ast_walk(n, visit, R);
    }
    R->depth--;
    return true;
}

void res_visit(Ast *n, Res *R) { visit(n, R); }

/* ------------------------------------------------------------- the unit */

void scope_resolve(Unit *u, Scope *globals, ScopeOptions opt, DiagSink *sink)
{
    Res R = {.u = u, .sink = sink, .opt = opt, .globals = globals};
    Frame f = {0};

    if (!is_of_library(u->src->path))
        spaces_look_again();
    u->module->scope = globals;
    globals->node = (Ast *)u->module;
    enter(&R, &f, globals);
    scope_bind_block(&R, &f, u->module->body);
    each(&R, u->module->body);
    settle_uses(&R);
    attrs_check(&R);
    unset_check(&R);
    early_check(&R);
    leave(&R);
    vec_free(&R.uses);
    vec_free(&R.attrs);
    vec_free(&R.asked);
}

Scope *scope_new_module(Sym name)
{
    static const char *const given[] = {"__name__", "__doc__", "__file__"};
    Scope *s = tsr_calloc(sizeof *s);

    s->kind = SCOPE_MODULE;
    s->name = name;
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        scope_add_local(s, sym(given[i]), (Span){0, 0}, NULL);
    return s;
}

void scope_free_module(Scope *s)
{
    while (s) {
        Scope *next = s->owned;
        vec_free(&s->locals);
        vec_free(&s->frees);
        map_done(&s->index_of);
        tsr_free(s);
        s = next;
    }
}
