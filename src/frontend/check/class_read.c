/*
 * What a class statement says of its objects: bases, methods, fields, and what its own methods store.
 *
 * A class is open, and none of its attributes surely missing, where a base is not known, something computes
 * attributes, or a decorator may have made another class of it.
 */
#include "frontend/check/kernels.h"

#include "frontend/eval/native.h"

#include <string.h>

/* Bases that add nothing to an object. */
static bool is_plain_base(const Ast *e)
{
    return ast_is_marker_base(e) || (AST_IS(e, Name) && !strcmp(AST_AS(e, Name)->id->text, "object"));
}

/* builtin: the base that is not followed, but known; NULL: what leaves it open is not known. */
static void opened(Cls *c, const char *builtin)
{
    c->open = true;
    c->builtin = builtin;
}

/* "dict": the class that a native makes objects of. */
static const char *builtin_class(const Type *t)
{
    static const char *const known[] = {"dict", "list", "set", "str", "tuple", "int", "float"};
    const NativeDef *d = t && t->kind == TY_NATIVE ? t->ref : NULL;

    for (size_t i = 0; d && i < sizeof known / sizeof *known; i++)
        if (!strcmp(d->name, known[i]))
            return known[i];
    return NULL;
}

typedef struct { Sym name; bool other; } GivesBack;

/* Returns of something else than the parameter, stores into it or over it. */
static bool find_other(Ast *n, void *state)
{
    GivesBack *g = state;
    const Ast *t = NULL;

    if (!n || g->other || n->kind == AST_FunctionDef || n->kind == AST_Lambda)
        return true;
    if (n->kind == AST_Return)
        g->other = !AST_IS(AST_AS(n, Return)->value, Name) || AST_AS(AST_AS(n, Return)->value, Name)->id != g->name;
    for (int i = 0; n->kind == AST_Assign && i < AST_AS(n, Assign)->targets.n; i++) {
        t = AST_AS(n, Assign)->targets.at[i];
        t = AST_IS(t, Attribute) ? AST_AS(t, Attribute)->value : t;
        g->other |= AST_IS(t, Name) && AST_AS(t, Name)->id == g->name;
    }
    if (n->kind == AST_Call && AST_IS(AST_AS(n, Call)->func, Name) && !strcmp(AST_AS(AST_AS(n, Call)->func, Name)->id->text, "setattr"))
        g->other = true;
    ast_walk(n, find_other, g);
    return true;
}

/* Is it a function of the program that returns the class that it gets, as it was: a decorator that registers it? */
static bool gives_back(const Type *t)
{
    const Fn *f = !type_is_any(t) && t->kind == TY_FUNC ? t->ref : NULL;
    const AstFunctionDef *def = f && AST_IS(f->node, FunctionDef) ? AST_AS(f->node, FunctionDef) : NULL;
    GivesBack g = {0};

    if (!def || f->around->home->library || def->decorators.n || def->params.n != 1 || !AST_IS(def->params.at[0], Param) || !def->body.n ||
        !AST_IS(def->body.at[def->body.n - 1], Return))
        return false;
    g.name = AST_AS(def->params.at[0], Param)->name;
    for (int i = 0; i < def->body.n; i++)
        find_other(def->body.at[i], &g);
    return !g.other;
}

static void read_base(Check *C, Cls *c, AstClassDef *def)
{
    for (int i = 0; i < def->bases.n; i++) {
        AstArg *a = AST_AS(def->bases.at[i], Arg);
        const Type *t = a->ast.kind == AST_Arg && !a->name && a->value ? expr(C, a->value) : NULL;
        bool positional = a->ast.kind == AST_Arg && !a->name && a->value;
        if (positional && AST_IS(a->value, Name) && !strcmp(AST_AS(a->value, Name)->id->text, "Protocol"))
            c->is_protocol = true;
        if (positional && AST_IS(a->value, Name) && !strcmp(AST_AS(a->value, Name)->id->text, "TypedDict"))
            c->is_dict = true;
        if (t && t->kind == TY_CLASS && a->value == ast_class_base(def)) {
            c->base = (Cls *)t->ref;
            c->is_record |= c->base->is_record || (c->base->home->library && c->base->name && !strcmp(c->base->name->text, "NamedTuple"));
            c->is_dict |= c->base->is_dict;
        }
        if (!(t && t->kind == TY_CLASS) && (!positional || !is_plain_base(a->value)))
            opened(c, positional && !c->open ? builtin_class(t) : NULL);
        if (c->open && a->ast.kind == AST_Arg && a->value && !a->name &&
            !(AST_IS(a->value, Name) && AST_AS(a->value, Name)->bind == BIND_PRELUDE))
            c->far = true;
        if (AST_IS(a->value, Name) && AST_AS(a->value, Name)->bind == BIND_PRELUDE &&
            !strcmp(AST_AS(a->value, Name)->id->text, "Module"))
            c->is_module = true;
    }
    if ((c->base && c->base->is_module) || (C->home->library && c->name && !strcmp(c->name->text, "Module")))
        c->is_module = true;
    if (c->base && c->base->far)
        c->far = true;
    for (int i = 0; i < def->decorators.n; i++) {
        if (!strcmp(decorator_name(def->decorators.at[i]), "dataclass"))
            c->is_dataclass = true, c->is_frozen = decorator_says(def->decorators.at[i], "frozen"),
            c->makes_init = !decorator_denies(def->decorators.at[i], "init"), c->is_ordered = decorator_says(def->decorators.at[i], "order");
        else if (!gives_back(expr(C, def->decorators.at[i])))
            opened(c, NULL);
    }
}

/* Names that methods store through their first parameter. */
typedef struct { Cls *c; Sym self; int depth; } Stores;

/* Both kinds of stores change what is there; `a.n += 1` reads it first, so that another has to have made it. */
static void note_change(Stores *s, Sym attr)
{
    uintptr_t n = 0;

    map_find(&s->c->stores, (uintptr_t)attr, &n);
    map_set(&s->c->stores, (uintptr_t)attr, n + 1);
}

static bool is_own(const Stores *s, const Ast *t)
{
    return t->kind == AST_Attribute && AST_IS(AST_AS(t, Attribute)->value, Name) && AST_AS(AST_AS(t, Attribute)->value, Name)->id == s->self;
}

static void note_store(Stores *s, Ast *t)
{
    if (!t)
        return;
    if (t->kind == AST_Tuple || t->kind == AST_List) {
        AstSeq e = t->kind == AST_Tuple ? AST_AS(t, Tuple)->elts : AST_AS(t, List)->elts;
        for (int i = 0; i < e.n; i++)
            note_store(s, e.at[i]);
    } else if (t->kind == AST_Starred) {
        note_store(s, AST_AS(t, Starred)->value);
    } else if (is_own(s, t)) {
        note_change(s, AST_AS(t, Attribute)->attr);
        map_set(&s->c->stored, (uintptr_t)AST_AS(t, Attribute)->attr, 0);
    }
}

static bool is_self(const Stores *s, const AstArg *a)
{
    return a->ast.kind == AST_Arg && AST_IS(a->value, Name) && AST_AS(a->value, Name)->id == s->self;
}

static bool find_stores(Ast *n, void *state)
{
    Stores *s = state;

    if (!n || s->depth > 400)
        return true;
    s->depth++;
    if (n->kind == AST_Assign)
        for (int i = 0; i < AST_AS(n, Assign)->targets.n; i++)
            note_store(s, AST_AS(n, Assign)->targets.at[i]);
    else if (n->kind == AST_AugAssign && is_own(s, AST_AS(n, AugAssign)->target))
        note_change(s, AST_AS(AST_AS(n, AugAssign)->target, Attribute)->attr);
    else if (n->kind == AST_AnnAssign)
        note_store(s, AST_AS(n, AnnAssign)->target);
    else if (n->kind == AST_For)
        note_store(s, AST_AS(n, For)->target);
    else if (n->kind == AST_WithItem)
        note_store(s, AST_AS(n, WithItem)->target);
    else if (n->kind == AST_Call && AST_IS(AST_AS(n, Call)->func, Name) && AST_AS(n, Call)->args.n &&
             (!strcmp(AST_AS(AST_AS(n, Call)->func, Name)->id->text, "setattr") || !strcmp(AST_AS(AST_AS(n, Call)->func, Name)->id->text, "vars")))
        if (is_self(s, AST_AS(AST_AS(n, Call)->args.at[0], Arg)))
            opened(s->c, NULL);
    if (is_own(s, n) && !strcmp(AST_AS(n, Attribute)->attr->text, "__dict__") && !s->c->home->library)     /* which knows what it does */
        opened(s->c, NULL);
    ast_walk(n, find_stores, s);
    s->depth--;
    return true;
}

/* local: of a class that a function makes, whose attributes it may make as well, by names that it is given. */
static void read_methods(Cls *c, AstClassDef *def, bool local)
{
    for (int i = 0; i < def->body.n; i++) {
        AstFunctionDef *f = AST_AS(def->body.at[i], FunctionDef);
        Stores s = {c, NULL, 0};
        if (f->ast.kind != AST_FunctionDef)
            continue;
        if (f->name && (!strcmp(f->name->text, "__getattr__") || !strcmp(f->name->text, "__getattribute__") ||
                        !strcmp(f->name->text, "__setattr__")))
            opened(c, NULL);
        if (f->name && !strcmp(f->name->text, "__new__"))       /* what it stores in the object is stored somewhere in the unit */
            opened(c, local ? NULL : c->builtin);
        if (!f->params.n || !AST_IS(f->params.at[0], Param))
            continue;
        s.self = AST_AS(f->params.at[0], Param)->name;
        find_stores((Ast *)f, &s);
    }
}

Cls *cls_make(Check *C, AstClassDef *def)
{
    Cls *c = map_get_ptr(&C->cls_of, def);

    if (c)
        return c;
    c = arena_new(&C->arena, Cls);
    map_set_ptr(&C->cls_of, def, c);
    c->def = def;
    c->home = C->home;
    c->name = def->name;
    for (int i = 0; i < def->typarams.n; i++) {
        Sym name = AST_AS(def->typarams.at[i], TypeParam)->name;
        vec_push(&c->dims, ((NamedDim){name, dim_var(name, 1, INT64_MAX)}));
    }
    read_base(C, c, def);
    read_methods(c, def, C->frame->fn != NULL);
    return c;
}
