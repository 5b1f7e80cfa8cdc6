/*
 * Placements: which memory a tensor lies in, as types say it.
 *
 *     Tensor["N", f32] @ memory("global")      Tile @ memory.shared
 *
 * A value's space is known when its annotation, or the function that made it,
 * says so.  Handing it to where another space is declared is an error, moving
 * it there (to_global(x), async_copy(x, to="global")) is not.
 */
#include "frontend/check/effects.h"

#include <string.h>

enum { DEPTH = 600, SPACE_MAX = 16 };

static const char *const spaces[] = {"register", "shared", "global", "host", "disk", "local", "constant"};
#define SPACE_NAMES "register, shared, global, host, disk, local, constant"

static bool is_space(const char *s)
{
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (!strcmp(spaces[i], s))
            return true;
    return false;
}

static const char *last_name(const Ast *e)
{
    return AST_IS(e, Attribute) ? AST_AS(e, Attribute)->attr->text : AST_IS(e, Name) ? AST_AS(e, Name)->id->text : "";
}

/* memory("host"), memory.host: its text, known or not; NULL: it is no placement. */
static const char *space_text(const Ast *e)
{
    const AstCall *c = AST_AS(e, Call);

    if (AST_IS(e, Call))
        return !strcmp(last_name(c->func), "memory") && c->args.n == 1 && AST_IS(c->args.at[0], Arg) &&
               AST_IS(AST_AS(c->args.at[0], Arg)->value, Str) ? AST_AS(AST_AS(c->args.at[0], Arg)->value, Str)->value.s : NULL;
    if (AST_IS(e, Attribute) && !strcmp(last_name(AST_AS(e, Attribute)->value), "memory"))
        return AST_AS(e, Attribute)->attr->text;
    return NULL;
}

const char *placement_declared(const Ast *a)
{
    const AstBinOp *b = AST_AS(a, BinOp);

    if (!AST_IS(a, BinOp) || b->op != AOP_MATMUL)
        return NULL;
    return space_text(b->right) ? space_text(b->right) : placement_declared(b->left);
}

typedef struct Placing {
    Effects *E;
    EffFn *fn;
    Scope *scope;
    int depth;
} Placing;

/* ------------------------------------------------------------- where a value lies */

static const char *space_of(Placing *p, Ast *e);

static const AstParam *param_of(Placing *p, const Local *l, const Scope *owner)
{
    EffFn *f = map_get_ptr(&p->E->fn_of, owner->node);

    return f && l->is_param ? things_param(f, (int)l->slot) : NULL;
}

static const char *space_of_name(Placing *p, AstName *n)
{
    Scope *owner = NULL;
    const Local *l = things_local(p->E, p->scope, n, &owner);
    const AstParam *param = l ? param_of(p, l, owner) : NULL;
    const Given *g = things_given(p->E, l);
    const char *s;

    if (!l || (param && l->nbinds > 1))
        return NULL;
    if (param)
        return placement_declared(param->annotation);
    if (l->node && AST_IS(l->node, AnnAssign) && (s = placement_declared(AST_AS(l->node, AnnAssign)->annotation)))
        return s;
    if (!g || g->next || l->nbinds > 1 || p->depth > SPACE_MAX)
        return NULL;
    p->depth++;
    s = g->scope == p->scope ? space_of(p, g->value) : NULL;
    p->depth--;
    return s;
}

static EffFn *own_callee(Placing *p, AstCall *c, bool *bound)
{
    Things t = things_of(p->E, p->scope, c->func);

    for (int i = 0; i < t.n; i++)
        if (t.at[i].kind == THING_FN && !((EffFn *)t.at[i].p)->owner) {
            *bound = t.at[i].bound;
            return (EffFn *)t.at[i].p;
        }
    return NULL;
}

static const char *keyword_text(const AstCall *c, const char *name)
{
    for (int i = 0; i < c->args.n; i++) {
        const AstArg *a = AST_AS(c->args.at[i], Arg);
        if (a->ast.kind == AST_Arg && a->name && !strcmp(a->name->text, name) && AST_IS(a->value, Str))
            return AST_AS(a->value, Str)->value.s;
    }
    return NULL;
}

/* What a call gives: its declared place, or where the library moves it. */
static const char *space_of_call(Placing *p, AstCall *c)
{
    const char *name = last_name(c->func), *to;
    bool bound;
    EffFn *f = own_callee(p, c, &bound);

    if (f)
        return f->node->kind == AST_FunctionDef ? placement_declared(AST_AS(f->node, FunctionDef)->returns) : NULL;
    if (!strncmp(name, "to_", 3) && is_space(name + 3))
        return name + 3;
    to = !strcmp(name, "async_copy") ? keyword_text(c, "to") : NULL;
    if (to)
        return is_space(to) ? to : NULL;
    if (!strcmp(name, "wait") && AST_IS(c->func, Attribute))
        return space_of(p, AST_AS(c->func, Attribute)->value);
    return NULL;
}

static const char *space_of(Placing *p, Ast *e)
{
    if (AST_IS(e, Name))
        return space_of_name(p, AST_AS(e, Name));
    return AST_IS(e, Call) ? space_of_call(p, AST_AS(e, Call)) : NULL;
}

/* ------------------------------------------------------------- judging */

static void judge(Placing *p, Span span, const char *what, Ast *value, const char *want, Span declared)
{
    const char *have = value && want && is_space(want) ? space_of(p, value) : NULL;
    Diag *d;

    if (!have || !is_space(have) || !strcmp(have, want))
        return;
    d = DIAG_AT(p->E->sink, E0509, span, what, want, have);
    if (declared.hi)
        diag_label(d, declared, "declared here");
    diag_help(d, "move it there: to_%s(...)", want);
}

static void judge_call(Placing *p, AstCall *c)
{
    bool bound = false;
    EffFn *f = own_callee(p, c, &bound);
    int k = bound;
    StrBuf what = {0};

    for (int i = 0; f && i < c->args.n; i++) {
        AstArg *a = AST_AS(c->args.at[i], Arg);
        AstParam *to = NULL;
        if (a->ast.kind != AST_Arg || a->stars)
            break;
        for (int j = 0; a->name && j < f->params.n; j++)
            if (AST_IS(f->params.at[j], Param) && AST_AS(f->params.at[j], Param)->name == a->name)
                to = AST_AS(f->params.at[j], Param);
        if (!a->name)
            to = things_param(f, k++);
        if (!to || !placement_declared(to->annotation))
            continue;
        sb_clear(&what);
        sb_printf(&what, "parameter '%s'", to->name->text);
        judge(p, a->value->span, sb_str(&what), a->value, placement_declared(to->annotation), to->ast.span);
    }
    sb_done(&what);
}

static void check_space(Effects *E, const Ast *a)
{
    const AstBinOp *b = AST_AS(a, BinOp);
    const char *s;

    if (!AST_IS(a, BinOp) || b->op != AOP_MATMUL)
        return;
    s = space_text(b->right);
    if (s && !is_space(s))
        diag_note(DIAG_AT(E->sink, E0511, b->right->span, s), "the spaces are " SPACE_NAMES);
    check_space(E, b->left);
}

static bool walk(Ast *n, void *state)
{
    Placing *p = state;

    if (!n || p->depth > DEPTH)
        return true;
    switch (n->kind) {
    case AST_FunctionDef: case AST_Lambda:
        return true;
    case AST_AnnAssign:
        check_space(p->E, AST_AS(n, AnnAssign)->annotation);
        judge(p, n->span, "the variable", AST_AS(n, AnnAssign)->value, placement_declared(AST_AS(n, AnnAssign)->annotation), (Span){0, 0});
        break;
    case AST_Return:
        if (p->fn && p->fn->node->kind == AST_FunctionDef)
            judge(p, n->span, "the result", AST_AS(n, Return)->value, placement_declared(AST_AS(p->fn->node, FunctionDef)->returns),
                  AST_AS(p->fn->node, FunctionDef)->returns ? AST_AS(p->fn->node, FunctionDef)->returns->span : (Span){0, 0});
        break;
    case AST_Call:
        judge_call(p, AST_AS(n, Call));
        break;
    default:
        break;
    }
    p->depth++;
    ast_walk(n, walk, p);
    p->depth--;
    return true;
}

void placement_check(Effects *E)
{
    Placing module = {.E = E, .scope = E->u->module->scope};

    if (!strstr(E->u->src->text, "memory"))
        return;
    ast_walk((Ast *)E->u->module, walk, &module);
    for (int i = 0; i < E->own.n; i++) {
        EffFn *f = E->own.at[i];
        Placing p = {.E = E, .fn = f, .scope = f->scope};
        if (!f->scope)
            continue;
        for (int k = 0; k < f->params.n; k++)
            if (AST_IS(f->params.at[k], Param))
                check_space(E, AST_AS(f->params.at[k], Param)->annotation);
        if (f->node->kind == AST_Lambda) {
            walk(AST_AS(f->node, Lambda)->body, &p);
            continue;
        }
        check_space(E, AST_AS(f->node, FunctionDef)->returns);
        for (int k = 0; k < AST_AS(f->node, FunctionDef)->body.n; k++)
            walk(AST_AS(f->node, FunctionDef)->body.at[k], &p);
    }
}
