/*
 * Functions, class bodies and modules to code: parameters, local variables, and a body of statements.
 */
#include "frontend/eval/lower.h"

static Value doc_of(Lower *L, AstSeq body)
{
    const Ast *s = body.n ? body.at[0] : NULL;

    if (!AST_IS(s, ExprStmt) || !AST_IS(AST_AS(s, ExprStmt)->value, Str))
        return VERR;
    AstText t = AST_AS(AST_AS(s, ExprStmt)->value, Str)->value;
    return lower_keep(L, str_new(t.s, t.n));
}

static void code_params(Lower *L, Code *c, AstSeq params, Lower *outer)
{
    Sym *names = arena_array(L->arena, Sym, c->nparams + 1);
    uint8_t *required = arena_array(L->arena, uint8_t, c->nparams + 1);
    bool defaults = false;

    c->param = names;
    c->required = required;
    c->defaults = seq_new(L, c->nparams);
    c->simple = true;
    for (int i = 0; i < params.n; i++) {
        const AstParam *p = AST_AS(params.at[i], Param);
        if (p->kind == PARAM_ANY)
            c->any_params = true;
        if (p->kind > PARAM_KWARGS)
            continue;
        names[p->slot] = p->name;
        required[p->slot] = !p->dflt && p->kind != PARAM_VARARGS && p->kind != PARAM_KWARGS;
        if (p->dflt) {
            c->defaults->at[p->slot] = lower_expr(outer, p->dflt);
            defaults = true;
        }
        c->npos += p->kind == PARAM_POSONLY || p->kind == PARAM_NORMAL;
        c->nposonly += p->kind == PARAM_POSONLY;
        if (p->kind == PARAM_VARARGS)
            c->varargs = (int)p->slot;
        if (p->kind == PARAM_KWARGS)
            c->kwargs = (int)p->slot;
    }
    c->simple = c->npos == c->nparams && !c->any_params;
    if (!defaults)
        c->defaults = NULL;
}

static void code_locals(Lower *L, Code *c, const Scope *s)
{
    uint32_t *cells = arena_array(L->arena, uint32_t, s->locals.n + 1);
    DimBind *dims = arena_array(L->arena, DimBind, s->locals.n + 1);

    for (int i = 0; i < s->locals.n; i++) {
        const Local *l = &s->locals.at[i];
        if (l->is_cell)
            cells[c->ncells++] = l->slot;
        if (l->is_dim && l->dim_param >= 0)
            dims[c->ndims++] = (DimBind){(uint32_t)l->dim_param, l->slot, l->dim_axis, {l->dim_path[0], l->dim_path[1]}, l->is_cell};
    }
    c->cells = cells;
    c->dims = dims;
}

/* The one `return e` of a body, or NULL. */
static const Ast *only_return(AstSeq body)
{
    const Ast *found = NULL;

    for (int i = 0; i < body.n; i++) {
        if (lower_is_idle(body.at[i]))
            continue;
        if (found || !AST_IS(body.at[i], Return) || !AST_AS(body.at[i], Return)->value)
            return NULL;
        found = AST_AS(body.at[i], Return)->value;
    }
    return found;
}

static Code *code_new(Lower *L, const Ast *def, const Scope *scope, Sym name)
{
    Code *c = arena_new(L->arena, Code);

    c->name = name;
    c->qualname = qualified(L, name);
    c->scope = scope;
    c->ast = def;
    c->nslots = scope->nslots;
    c->nparams = scope->nparams;
    c->varargs = c->kwargs = -1;
    c->is_generator = scope->is_generator;
    c->is_async = scope->is_async;
    return c;
}

Code *lower_code(Lower *L, const Ast *def, const Scope *scope, Sym name)
{
    Code *c = code_new(L, def, scope, name);
    Lower in = {.I = L->I, .arena = L->arena, .scope = (Scope *)(uintptr_t)scope,
                .prefix = arena_printf(L->arena, "%s.<locals>.", c->qualname)};

    if (AST_IS(def, FunctionDef)) {
        const AstFunctionDef *d = AST_AS(def, FunctionDef);
        const Ast *value = only_return(d->body);
        code_params(&in, c, d->params, L);
        lower_entry(&in, c, d);
        lower_signature(&in, c, d);
        lower_declared_params(&in, c, d);
        in.returns = c->is_generator ? NULL : d->returns;
        in.declared = L->in_class ? L->declared : NULL;
        in.self = L->in_class && c->nparams ? c->param[0] : NULL;
        c->doc = doc_of(&in, d->body);
        if (value && !c->is_generator && !c->is_async)
            c->expr = lower_declared(&in, lower_expr(&in, value), d->returns, false);
        else
            c->body = lower_block(&in, d->body);
    } else if (AST_IS(def, Lambda)) {
        code_params(&in, c, AST_AS(def, Lambda)->params, L);
        c->expr = lower_expr(&in, AST_AS(def, Lambda)->body);
    } else if (AST_IS(def, GenExp)) {
        c->simple = true;
        c->npos = 1;
        c->is_generator = true;
        c->param = arena_array(L->arena, Sym, 2);
        c->required = arena_array(L->arena, uint8_t, 2);
        c->expr = lower_comp(&in, def);
    } else {
        in.in_class = true;
        in.prefix = arena_printf(L->arena, "%s.", c->qualname);
        c->is_class = true;
        lower_declared_fields(&in, AST_AS(def, ClassDef)->body);
        c->doc = doc_of(&in, AST_AS(def, ClassDef)->body);
        c->body = lower_block(&in, AST_AS(def, ClassDef)->body);
    }
    if (scope->kind != SCOPE_CLASS)
        code_locals(&in, c, scope);
    c->guards = in.guards;
    return c;
}

Code *lower_module(Interp *I, Unit *u, Arena *a)
{
    Lower L = {.I = I, .arena = a, .scope = u->module->scope, .prefix = ""};
    Code *c = code_new(&L, &u->module->ast, u->module->scope, sym("<module>"));

    c->nparams = 0;
    c->doc = doc_of(&L, u->module->body);
    c->body = lower_block(&L, u->module->body);
    return c;
}

Code *lower_module_expr(Interp *I, Unit *u, const Ast *e)
{
    Lower L = {.I = I, .arena = &u->arena, .scope = u->module->scope, .prefix = ""};
    Code *c = code_new(&L, &u->module->ast, u->module->scope, sym("<module>"));

    c->nparams = 0;
    c->expr = lower_expr(&L, e);
    return c;
}
