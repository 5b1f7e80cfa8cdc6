/*
 * Functions of the host that a kernel calls: their bodies are walked in place, with variables of their own.
 *
 * Parameters are bound as Python does; names that annotations give to sizes are variables, too, unless an argument has the name.
 * A path of calls has a number, by which what is found about a place in a function holds for that call alone.
 */
#include "frontend/kernel/launch_impl.h"

enum { INLINE_DEPTH = 64 };

static bool bind_args(Body *B, const FuncObj *fn, const KVal *arg, const Sym *names, int n, Vars *vars)
{
    const Code *c = fn->code;
    bool given[64] = {false};
    KVal rest = {.kind = K_TUPLE};
    int at = 0;

    if (c->nparams > 64 || c->kwargs >= 0 || c->any_params || c->is_generator || c->is_async) {
        kb_fail(B, "a kernel calls functions with plain parameters");
        return false;
    }
    rest.item = kb_alloc(B, sizeof *rest.item * (size_t)(n + 1));
    for (int i = 0; i < n; i++) {
        int p = at;
        if (!(names && names[i]) && at >= c->npos && c->varargs >= 0) {
            rest.item[rest.n++] = kb_now(B, arg[i]);
            continue;
        }
        if (names && names[i])
            for (p = 0; p < c->nparams && c->param[p] != names[i]; p++)
                ;
        else
            at++;
        if (p >= c->nparams || given[p]) {
            kb_fail(B, "the arguments of %s() do not fit its parameters", c->name->text);
            return false;
        }
        given[p] = true;
        vec_push(vars, ((Var){c->param[p], kb_now(B, arg[i])}));
    }
    for (int p = 0; p < c->nparams; p++) {
        if (given[p])
            continue;
        if (p == c->varargs) {
            vec_push(vars, ((Var){c->param[p], rest}));
            continue;
        }
        if (!fn->defaults || is_err(fn->defaults[p])) {
            kb_fail(B, "%s() misses the argument '%s'", c->name->text, c->param[p]->text);
            return false;
        }
        vec_push(vars, ((Var){c->param[p], kb_static(B, value_ref(fn->defaults[p]))}));
    }
    return !B->failed;
}

static bool has_var(const Vars *vars, Sym name)
{
    for (int i = 0; i < vars->n; i++)
        if (vars->at[i].name == name)
            return true;
    return false;
}

/* The extent of an axis of memory or of a block; UNSET: it has no such axis. */
static KVal extent_of(Body *B, KVal v, int axis)
{
    int at = v.kind == K_PLACE ? kplace_axis(v.place, axis) : -1;

    if (at >= 0)
        return kb_int(B, v.place->axis[at].extent);
    return v.kind == K_BLOCK && axis < tile_type(v.ref)->rank ? kb_number(tile_type(v.ref)->extent[axis]) : KUNSET;
}

/* Names of dimensions that a function's annotations give to what it was passed. */
static void bind_dims(Body *B, const AstFunctionDef *def, Vars *vars)
{
    for (int i = 0; i < def->params.n; i++) {
        const AstParam *p = AST_IS(def->params.at[i], Param) ? AST_AS(def->params.at[i], Param) : NULL;
        const Ast *item[12];
        int n = p && p->annotation ? kernel_annotation_items(p->annotation, item) : 0, axis = 0;
        KVal v = n ? vars_value(vars, p->name) : KUNSET, extent;
        for (int k = 0; k < n; k++) {
            Sym name;
            int64_t number;
            if (!kernel_axis_item(item[k], &name, &number))
                continue;
            extent = extent_of(B, v, axis++);
            if (name && extent.kind != K_UNSET && !has_var(vars, name))
                vec_push(vars, ((Var){name, extent}));
        }
    }
}

KVal kb_inline(Body *B, FuncObj *fn, const KVal *arg, const Sym *names, int n, const Ast *at)
{
    Inlined in = {.fn = fn, .scope = fn->code->scope, .up = B->fn, .depth = B->fn->depth + 1};
    const Ast *ast = fn->code->ast;
    Span span = B->b.span;
    KVal y = {.kind = K_STATIC, .v = VNONE};

    in.path = (B->fn->path ^ (uintptr_t)at) * 0xff51afd7ed558ccdu + 1;
    if (in.depth > INLINE_DEPTH)
        return kb_fail(B, "functions call each other too deeply for a kernel");
    if (!bind_args(B, fn, arg, names, n, &in.vars)) {
        vec_free(&in.vars);
        return KBAD;
    }
    if (AST_IS(ast, FunctionDef))
        bind_dims(B, AST_AS(ast, FunctionDef), &in.vars);
    B->fn = &in;
    if (AST_IS(ast, Lambda)) {
        y = kb_expr(B, AST_AS(ast, Lambda)->body);
    } else {
        kb_body_of(B, AST_AS(ast, FunctionDef)->body);
        if (!B->failed) {
            KVal v = vars_value(&in.vars, kb_flags().value);
            y = v.kind == K_UNSET ? y : v;
        }
    }
    B->fn = in.up;
    vec_free(&in.vars);
    B->b.span = span;
    return B->failed ? KBAD : y;
}
