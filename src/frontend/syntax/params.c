/*
 * Parameters, arguments and targets: right in form, checked here by rule.
 *
 * The grammar accepts any order of parameters and any expression left of `=`,
 * so that what is wrong can be named instead of being a mere syntax error.
 * What needs names (duplicates, repeated keywords) is left to check/scope.c.
 */
#include "frontend/syntax/build.h"

#include <string.h>

#define SEAL(p, n) seal((p), &(n)->ast)

/* ---- parameters ---- */

Ast *mk_typaram(Parser *p, const Token *name, Ast *bound, int stars)
{
    AstTypeParam *n = ast_new(p->arena, TypeParam, bound ? span_join(name->span, bound->span) : name->span);

    n->name = name->u.sym;
    n->bound = bound;
    n->stars = stars;
    return SEAL(p, n);
}

/* `constraint: D % 8 == 0` states a condition; `constraint: int` is a parameter of that name. */
static bool is_condition(const Ast *e)
{
    return AST_IS(e, Compare) || AST_IS(e, BoolOp) || (AST_IS(e, UnaryOp) && AST_AS(e, UnaryOp)->op == AOP_NOT);
}

Ast *mk_param(Parser *p, ParamKind kind, const Token *name, Ast *annotation, Ast *dflt)
{
    Ast *last = dflt ? dflt : annotation;
    AstParam *n = ast_new(p->arena, Param, last ? span_join(name->span, last->span) : name->span);

    n->kind = kind;
    n->name = name->u.sym;
    n->annotation = annotation;
    n->dflt = dflt;
    if (kind == PARAM_NORMAL && !dflt && is_condition(annotation) && !strcmp(n->name->text, "constraint"))
        n->kind = PARAM_CONSTRAINT;
    return SEAL(p, n);
}

/* `*`, `/` or `...`: a parameter without a name until params_finish. */
Ast *mk_param_mark(Parser *p, ParamKind kind, const Token *t)
{
    AstParam *n = ast_new(p->arena, Param, t->span);

    n->kind = kind;
    return &n->ast;
}

typedef struct ParamState {
    Parser *p;
    AstSeq out;
    const AstParam *star, *slash, *kwargs, *bare, *dflt;
} ParamState;

static bool is_mark(const AstParam *a, ParamKind kind)
{
    return !a->name && a->kind == kind;
}

static void param_error(ParamState *s, Span at, const char *text)
{
    syntax_error(s->p, E0139, at, text, NULL);
}

static void check_default(ParamState *s, const AstParam *a)
{
    Diag *d;

    if (a->kind != PARAM_NORMAL || s->star)
        return;
    if (a->dflt) {
        s->dflt = a;
    } else if (s->dflt) {
        d = syntax_error(s->p, E0138, a->ast.span, a->name->text, s->dflt->name->text);
        if (d) {
            diag_label(d, s->dflt->ast.span, "this one has a default");
            diag_help(d, "give '%s' a default too, or move it before '%s'", a->name->text, s->dflt->name->text);
        }
    }
}

static void take_slash(ParamState *s, const AstParam *a)
{
    if (s->slash)
        param_error(s, a->ast.span, "'/' may stand only once");
    else if (s->star)
        param_error(s, a->ast.span, "'/' must stand before '*'");
    else if (!s->out.n)
        param_error(s, a->ast.span, "at least one parameter must stand before '/'");
    for (int i = 0; i < s->out.n; i++)
        if (AST_AS(s->out.at[i], Param)->kind == PARAM_NORMAL)
            AST_AS(s->out.at[i], Param)->kind = PARAM_POSONLY;
    s->slash = a;
}

static void take_star(ParamState *s, const AstParam *a)
{
    if (s->star)
        param_error(s, a->ast.span, "'*' may stand only once in a parameter list");
    s->star = a;
    s->bare = a->name ? NULL : a;
}

static void take_param(ParamState *s, AstParam *a)
{
    if (s->kwargs)
        param_error(s, a->ast.span, "nothing may follow the '**' parameter");
    if (is_mark(a, PARAM_POSONLY)) {
        take_slash(s, a);
        return;
    }
    if (is_mark(a, PARAM_KWONLY)) {
        take_star(s, a);
        return;
    }
    check_default(s, a);
    if (a->kind == PARAM_VARARGS)
        take_star(s, a);
    else if (a->kind == PARAM_KWARGS)
        s->kwargs = a;
    else if (a->kind == PARAM_NORMAL && s->star)
        a->kind = PARAM_KWONLY;
    if (a->kind == PARAM_KWONLY)
        s->bare = NULL;
    s->out = seq_add(s->p, s->out, &a->ast);
}

AstSeq params_finish(Parser *p, AstSeq params)
{
    ParamState s = {.p = p};

    for (int i = 0; i < params.n; i++) {
        AstParam *a = AST_AS(params.at[i], Param);
        if (is_mark(a, PARAM_ANY)) {
            if (params.n > 1)
                param_error(&s, a->ast.span, "'...' stands for the whole parameter list");
            return params;
        }
        take_param(&s, a);
    }
    if (s.bare)
        param_error(&s, s.bare->ast.span, "named parameters must follow the bare '*'");
    return s.out;
}

/* ---- arguments ---- */

Ast *mk_arg(Parser *p, const Token *stars, int n, Ast *value)
{
    AstArg *a = ast_new(p->arena, Arg, stars ? span_join(stars->span, value->span) : value->span);

    a->stars = n;
    a->value = value;
    return SEAL(p, a);
}

Ast *mk_keyword_arg(Parser *p, Ast *name, Ast *value)
{
    AstArg *a = ast_new(p->arena, Arg, span_join(name->span, value->span));

    if (AST_IS(name, Name) && !name->parens)
        a->name = AST_AS(name, Name)->id;
    else if (AST_IS(name, Const))
        syntax_error(p, E0130, name->span, expr_kind_name(name), NULL);
    else
        syntax_error(p, E0143, a->ast.span, NULL, NULL);
    a->value = value;
    return SEAL(p, a);
}

/* A generator expression as an argument; its brackets are the call's, which args_check must know. */
Ast *mk_arg_comp(Parser *p, Ast *elt, AstSeq clauses)
{
    AstGenExp *g = ast_new(p->arena, GenExp, span_join(elt->span, clauses.at[clauses.n - 1]->span));

    g->elt = elt;
    g->clauses = clauses;
    return mk_arg(p, NULL, 0, SEAL(p, g));
}

/* mk_arg_comp's generators have the span of their contents, bracketed ones that of their brackets. */
static bool is_bare_generator(const AstArg *a)
{
    return AST_IS(a->value, GenExp) && AST_AS(a->value, GenExp)->elt->span.lo == a->value->span.lo;
}

/* A comma after a generator expression asks for brackets of its own. */
AstSeq args_comma(Parser *p, AstSeq args)
{
    if (args.n == 1 && is_bare_generator(AST_AS(args.at[0], Arg)))
        syntax_error(p, E0142, args.at[0]->span, NULL, NULL);
    return args;
}

static void after_keyword(Parser *p, const AstArg *a, const AstArg *keyword)
{
    Diag *d = syntax_error(p, E0141, a->ast.span, "positional argument follows keyword argument", NULL);

    if (d)
        diag_label(d, keyword->ast.span, "this one is given by name");
}

void args_check(Parser *p, AstSeq args)
{
    const AstArg *keyword = NULL, *mapping = NULL;

    for (int i = 0; i < args.n; i++) {
        const AstArg *a = AST_AS(args.at[i], Arg);
        if (args.n > 1 && is_bare_generator(a))
            syntax_error(p, E0142, a->ast.span, NULL, NULL);
        if (a->name)
            keyword = a;
        else if (a->stars == 2)
            mapping = a;
        else if (mapping)
            syntax_error(p, E0141, a->ast.span, a->stars ? "iterable argument unpacking follows keyword argument unpacking"
                                                         : "positional argument follows keyword argument unpacking", NULL);
        else if (keyword && !a->stars)
            after_keyword(p, a, keyword);
    }
}

/* ---- targets ---- */

const char *expr_kind_name(const Ast *e)
{
    switch (e->kind) {
    case AST_Name: return "name";
    case AST_Int: case AST_Float: case AST_Imag: case AST_Str: case AST_Bytes: return "literal";
    case AST_FString: return "f-string expression";
    case AST_Const: {
        static const char *const name[] = {"None", "False", "True", "ellipsis"};
        return name[AST_AS(e, Const)->value];
    }
    case AST_Call: return "function call";
    case AST_BinOp: case AST_UnaryOp: case AST_BoolOp: return "expression";
    case AST_Compare: return "comparison";
    case AST_IfExp: return "conditional expression";
    case AST_Lambda: return "lambda";
    case AST_Dict: return "dict literal";
    case AST_Set: return "set display";
    case AST_List: return "list";
    case AST_Tuple: return "tuple";
    case AST_ListComp: return "list comprehension";
    case AST_SetComp: return "set comprehension";
    case AST_DictComp: return "dict comprehension";
    case AST_GenExp: return "generator expression";
    case AST_Await: return "await expression";
    case AST_Yield: case AST_YieldFrom: return "yield expression";
    case AST_NamedExpr: return "named expression";
    case AST_Starred: return "starred expression";
    case AST_BraceIndex: return "braced dimensions";
    case AST_Attribute: return "attribute";
    case AST_Subscript: return "subscript";
    default: return "this";
    }
}

static bool refuse(Parser *p, const Ast *e, TargetUse use)
{
    Diag *d = syntax_error(p, use == TARGET_DEL ? E0131 : E0130, e->span, expr_kind_name(e), NULL);

    if (d && use == TARGET_ASSIGN && (AST_IS(e, Call) || AST_IS(e, BinOp) || AST_IS(e, Compare) || AST_IS(e, Int)))
        diag_help(d, "did you mean '==' to compare?");
    return false;
}

/* The elements of a tuple or list of targets; at most one starred. */
static bool check_elements(Parser *p, const AstSeq *s, TargetUse use)
{
    int stars = 0;

    for (int i = 0; i < s->n; i++) {
        Ast *e = s->at[i];
        if (AST_IS(e, Starred) && use != TARGET_DEL) {
            if (++stars > 1) {
                syntax_error(p, E0133, e->span, "only one target of an assignment may be starred", NULL);
                return false;
            }
            e = AST_AS(e, Starred)->value;
        }
        if (!target_check(p, e, use))
            return false;
    }
    return true;
}

bool target_check(Parser *p, Ast *t, TargetUse use)
{
    bool single = use == TARGET_AUG || use == TARGET_ANN;

    switch (t->kind) {
    case AST_Name: case AST_Attribute: case AST_Subscript: case AST_Error:
        return true;
    case AST_Tuple: case AST_List:
        if (!single)
            return check_elements(p, t->kind == AST_Tuple ? &AST_AS(t, Tuple)->elts : &AST_AS(t, List)->elts, use);
        syntax_error(p, E0132, t->span, expr_kind_name(t),
                     use == TARGET_AUG ? "augmented assignment" : "annotation");
        return false;
    case AST_Starred:
        if (use == TARGET_DEL || single)
            return refuse(p, t, use);
        syntax_error(p, E0133, t->span, "a starred target must be in a list or tuple", NULL);
        return false;
    default:
        if (!single)
            return refuse(p, t, use);
        syntax_error(p, E0132, t->span, expr_kind_name(t),
                     use == TARGET_AUG ? "augmented assignment" : "annotation");
        return false;
    }
}
