/*
 * Rules of calls that the text of a program tells: what a backward rule gives, and on which GPUs two operands lie.
 *
 * custom_vjp: f.defvjp(forward, backward) has a backward that gives a cotangent for each argument of f, as a tuple where there are several.  It is
 * judged where f and backward are functions of the program with plain parameters, and each `return` writes its tuple out.
 *
 * A variable that one statement gives x.to("gpu:1"), and what operators make of it, lies there; an operator of two GPUs is an error (E0725).
 * What is on the host may meet anything.
 */
#include "frontend/check/effects.h"

#include "runtime/mesh.h"

#include <stdio.h>
#include <string.h>

enum { DEPTH = 600, HOPS = 16, HOST = 0, UNKNOWN = -1 };

typedef struct Walk { Effects *E; Scope *scope; int depth, hops; bool rules, devices; } Walk;

/* The positional arguments of a call; n -1: there are others, too. */
static int plain_arguments(const AstCall *c, Ast **value, int max)
{
    for (int i = 0; i < c->args.n; i++) {
        const AstArg *a = AST_AS(c->args.at[i], Arg);
        if (i == max || a->ast.kind != AST_Arg || a->name || a->stars)
            return -1;
        value[i] = a->value;
    }
    return c->args.n;
}

/* The only value that a name is given, where that stands in a scope that is seen from here; NULL: it has several, or is not known. */
static Ast *only_value(Walk *w, Ast *name, Scope **scope)
{
    const Local *l = AST_IS(name, Name) ? things_local(w->E, w->scope, AST_AS(name, Name), NULL) : NULL;
    const Given *g = l && l->nbinds == 1 && !l->is_param ? things_given(w->E, l) : NULL;

    if (!g || g->next || g->held)
        return NULL;
    *scope = g->scope;
    return g->value;
}

/* ------------------------------------------------------------- backward rules */

/* How many arguments a function takes that are all plain; -1: not so simple. */
static int plain_parameters(AstSeq params)
{
    for (int i = 0; i < params.n; i++) {
        const AstParam *p = AST_AS(params.at[i], Param);
        if (p->ast.kind != AST_Param || p->kind != PARAM_NORMAL || p->dflt)
            return -1;
    }
    return params.n;
}

static bool is_custom(const AstFunctionDef *f)
{
    const Ast *d = f->decorators.n == 1 ? f->decorators.at[0] : NULL;

    return (AST_IS(d, Name) && !strcmp(AST_AS(d, Name)->id->text, "custom_vjp")) ||
           (AST_IS(d, Attribute) && !strcmp(AST_AS(d, Attribute)->attr->text, "custom_vjp"));
}

typedef struct Gives { Walk *w; int want; const AstFunctionDef *of; const Ast *rule; } Gives;

static void judge_given(const Gives *g, const Ast *value)
{
    AstSeq elts = AST_IS(value, Tuple) ? AST_AS(value, Tuple)->elts : (AstSeq){0};
    char want[160], have[32];
    Diag *d;

    for (int i = 0; i < elts.n; i++)
        if (AST_IS(elts.at[i], Starred))
            return;
    if (!AST_IS(value, Tuple) || elts.n == g->want)
        return;
    snprintf(want, sizeof want, "%d cotangent%s, one for each argument of %.100s()", g->want, g->want == 1 ? "" : "s", g->of->name->text);
    snprintf(have, sizeof have, "%d", elts.n);
    d = DIAG_AT(g->w->E->sink, E0906, value->span, "what a backward rule gives", want, have);
    diag_label(d, g->of->ast.span.hi ? g->of->params.n ? g->of->params.at[0]->span : g->of->ast.span : value->span, "the arguments");
    diag_help(d, "give a tuple of them; zeros_like(x) for one that has no derivative");
}

static bool find_returns(Ast *n, void *state)
{
    if (!n || n->kind == AST_FunctionDef || n->kind == AST_Lambda || n->kind == AST_ClassDef)
        return true;
    if (n->kind == AST_Return && AST_AS(n, Return)->value)
        judge_given(state, AST_AS(n, Return)->value);
    ast_walk(n, find_returns, state);
    return true;
}

static void check_rule(Walk *w, const AstCall *c)
{
    Ast *part[2], *f, *backward;
    Scope *scope = w->scope;
    Gives g = {.w = w};

    if (!AST_IS(c->func, Attribute) || strcmp(AST_AS(c->func, Attribute)->attr->text, "defvjp") || plain_arguments(c, part, 2) != 2)
        return;
    f = only_value(w, AST_AS(c->func, Attribute)->value, &scope);
    backward = AST_IS(part[1], Name) ? only_value(w, part[1], &scope) : part[1];
    if (!AST_IS(f, FunctionDef) || !is_custom(AST_AS(f, FunctionDef)) || (g.want = plain_parameters(AST_AS(f, FunctionDef)->params)) < 1)
        return;
    g.of = AST_AS(f, FunctionDef);
    if (AST_IS(backward, Lambda))
        judge_given(&g, AST_AS(backward, Lambda)->body);
    else if (AST_IS(backward, FunctionDef) && !AST_AS(backward, FunctionDef)->decorators.n)
        for (int i = 0; i < AST_AS(backward, FunctionDef)->body.n; i++)
            find_returns(AST_AS(backward, FunctionDef)->body.at[i], &g);
}

/* ------------------------------------------------------------- devices */

static int device_of(Walk *w, Ast *e);

/* x.to("gpu:1"), its number; x.to(f32) stays where x is. */
static int device_of_call(Walk *w, AstCall *c)
{
    Ast *to;
    int n;

    if (!AST_IS(c->func, Attribute) || strcmp(AST_AS(c->func, Attribute)->attr->text, "to") || plain_arguments(c, &to, 1) != 1 || !AST_IS(to, Str))
        return UNKNOWN;
    n = device_number(AST_AS(to, Str)->value.s);
    return n < 0 ? device_of(w, AST_AS(c->func, Attribute)->value) : n;
}

static int device_of(Walk *w, Ast *e)
{
    Scope *scope = w->scope, *was = w->scope;
    int a = UNKNOWN, b;
    Ast *value;

    if (!e || w->hops >= HOPS)
        return UNKNOWN;
    w->hops++;
    switch (e->kind) {
    case AST_Name:
        value = only_value(w, e, &scope);
        if (value && value->kind != AST_Name && scope == was)       /* in the same body: what runs elsewhere may come before */
            a = device_of(w, value);
        break;
    case AST_Call:
        a = device_of_call(w, AST_AS(e, Call));
        break;
    case AST_BinOp:
        a = device_of(w, AST_AS(e, BinOp)->left);
        b = device_of(w, AST_AS(e, BinOp)->right);
        a = a > HOST ? a : b > HOST ? b : UNKNOWN;
        break;
    case AST_UnaryOp:
        a = device_of(w, AST_AS(e, UnaryOp)->operand);
        break;
    case AST_Subscript:
        a = device_of(w, AST_AS(e, Subscript)->value);
        break;
    default:
        break;
    }
    w->hops--;
    return a;
}

static void check_operands(Walk *w, Ast *node, Ast *left, Ast *right)
{
    int a = device_of(w, left), b = device_of(w, right);
    Diag *d;

    if (a <= HOST || b <= HOST || a == b)
        return;
    d = DIAG_AT(w->E->sink, E0725, node->span, "");
    diag_label(d, left->span, "on gpu:%d", a - 1);
    diag_label(d, right->span, "on gpu:%d", b - 1);
    diag_help(d, "move one of them: .to(\"gpu:%d\")", a - 1);
}

/* ------------------------------------------------------------- the walk */

static bool walk(Ast *n, void *state)
{
    Walk *w = state;

    if (!n || w->depth > DEPTH || n->kind == AST_FunctionDef || n->kind == AST_Lambda)
        return true;
    if (n->kind == AST_Call && w->rules)
        check_rule(w, AST_AS(n, Call));
    if (n->kind == AST_BinOp && w->devices)
        check_operands(w, n, AST_AS(n, BinOp)->left, AST_AS(n, BinOp)->right);
    w->depth++;
    if (n->kind == AST_Try && AST_AS(n, Try)->handlers.n) {     /* where an error may be meant */
        bool devices = w->devices;
        w->devices = false;
        ast_walk(n, walk, w);
        w->devices = devices;
    } else
        ast_walk(n, walk, w);
    w->depth--;
    return true;
}

void told_check(Effects *E)
{
    const char *text = E->u->src->text;
    Walk module = {.E = E, .scope = E->u->module->scope, .rules = strstr(text, "defvjp") != NULL,
                   .devices = strstr(text, "gpu:1") || strstr(text, "cuda:1")};

    if (!module.rules && !module.devices)
        return;
    for (int i = 0; i < E->u->module->body.n; i++)
        walk(E->u->module->body.at[i], &module);
    for (int i = 0; i < E->own.n; i++) {
        EffFn *f = E->own.at[i];
        Walk w = module;
        w.scope = f->scope;
        for (int k = 0; f->scope && f->node->kind == AST_FunctionDef && k < AST_AS(f->node, FunctionDef)->body.n; k++)
            walk(AST_AS(f->node, FunctionDef)->body.at[k], &w);
    }
}
