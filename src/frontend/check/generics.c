/*
 * def first(xs: list[T]) -> T: a result that is of the kind of an argument.
 *
 * T is a name that stands for no size and no class: a free name of an annotation, or what TypeVar makes.  What the arguments say that it is, the
 * result is; where they say nothing, or different things, the body is asked as for any other function.
 */
#include "frontend/check/binding.h"

#include <string.h>

enum { NAMES_MAX = 6 };

typedef struct Generics { Check *C; const Fn *fn; Sym name[NAMES_MAX]; const Type *is[NAMES_MAX]; int n; } Generics;

static AstSeq elements(Ast **index)
{
    return AST_IS(*index, Tuple) ? AST_AS(*index, Tuple)->elts : (AstSeq){index, 1};
}

static const char *form_name(const Ast *e)
{
    return AST_IS(e, Name) ? AST_AS(e, Name)->id->text : AST_IS(e, Attribute) ? AST_AS(e, Attribute)->attr->text : "";
}

/* T: free, or given by TypeVar("T") */
static bool is_variable(const Generics *g, const Ast *a)
{
    const AstName *n = AST_IS(a, Name) ? AST_AS(a, Name) : NULL;
    const Local *l;

    if (!n || n->bind == BIND_DIM)
        return n != NULL;
    l = n->bind == BIND_GLOBAL ? scope_local(g->fn->around->home->scope, n->id) : NULL;
    return l && l->nbinds == 1 && AST_IS(l->node, Assign) && AST_IS(AST_AS(l->node, Assign)->value, Call) &&
           !strcmp(form_name(AST_AS(AST_AS(l->node, Assign)->value, Call)->func), "TypeVar");
}

static void stands_for(Generics *g, Sym name, const Type *t)
{
    for (int i = 0; i < g->n; i++)
        if (g->name[i] == name) {
            g->is[i] = type_is_any(t) || type_is_any(g->is[i]) ? T_ANY : type_join(g->is[i], t);
            return;
        }
    if (g->n < NAMES_MAX) {
        g->name[g->n] = name;
        g->is[g->n++] = t ? t : T_ANY;
    }
}

static bool is_list(const char *form)
{
    static const char *const forms[] = {"list", "List", "Sequence", "Iterable", "Iterator", "set", "Set", "deque"};

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (!strcmp(forms[i], form))
            return true;
    return false;
}

/* What an argument of type t says of the names in its parameter's annotation. */
static void read_names(Generics *g, Ast *a, const Type *t)
{
    const char *form = AST_IS(a, Subscript) ? form_name(AST_AS(a, Subscript)->value) : "";
    AstSeq e = AST_IS(a, Subscript) ? elements(&AST_AS(a, Subscript)->index) : (AstSeq){0};
    const Type *const *item;

    if (is_variable(g, a))
        stands_for(g, AST_AS(a, Name)->id, t);
    else if (is_list(form) && e.n == 1)
        read_names(g, e.at[0], type_is_any(t) ? T_ANY : element_of(t));
    else if ((!strcmp(form, "tuple") || !strcmp(form, "Tuple")))
        for (int i = 0; i < e.n; i++)
            read_names(g, e.at[i], type_items(t, &item) == e.n ? item[i] : T_ANY);
    else if (!strcmp(form, "dict") || !strcmp(form, "Dict"))
        for (int i = 0; i < e.n && i < 2; i++)
            read_names(g, e.at[i], !type_is_any(t) && t->kind == TY_DICT ? type_settle(t)->item[i] : T_ANY);
}

/* The result; NULL: it has no such names, or one of them is not known. */
static const Type *written(Generics *g, Ast *a)
{
    const char *form = AST_IS(a, Subscript) ? form_name(AST_AS(a, Subscript)->value) : "";
    AstSeq e = AST_IS(a, Subscript) ? elements(&AST_AS(a, Subscript)->index) : (AstSeq){0};
    const Type *m[ITEMS_MAX];

    if (is_variable(g, a)) {
        for (int i = 0; i < g->n; i++)
            if (g->name[i] == AST_AS(a, Name)->id)
                return type_is_any(g->is[i]) ? NULL : g->is[i];
        return NULL;
    }
    if ((strcmp(form, "tuple") && strcmp(form, "Tuple")) || e.n > ITEMS_MAX)
        return is_list(form) && e.n == 1 && (form[0] == 'l' || form[0] == 'L') && (m[0] = written(g, e.at[0])) ? type_list(m[0]) : NULL;
    for (int i = 0; i < e.n; i++) {
        m[i] = written(g, e.at[i]);
        if (!m[i] && !AST_IS(e.at[i], Name))
            return NULL;
        m[i] = m[i] ? m[i] : is_variable(g, e.at[i]) ? T_ANY : annotation(g->C, e.at[i]);
    }
    return e.n ? type_tuple(m, e.n) : NULL;
}

static bool find_variable(Ast *n, void *state)
{
    Generics *g = state;

    if (n && !g->n) {
        if (is_variable(g, n))
            stands_for(g, AST_AS(n, Name)->id, T_ANY);
        else if (!AST_IS(n, Subscript) || strcmp(form_name(AST_AS(n, Subscript)->value), "Tensor"))
            ast_walk(n, find_variable, g);
    }
    return true;
}

const Type *generic_result(Check *C, const Fn *f, const Slots *s, Ast *node)
{
    const AstFunctionDef *def = AST_IS(f->node, FunctionDef) ? AST_AS(f->node, FunctionDef) : NULL;
    Generics g = {.C = C, .fn = f};
    const Type *t;
    int k = 0;

    if (!def || !def->returns)
        return NULL;
    find_variable(def->returns, &g);
    if (!g.n)
        return NULL;
    g.n = 0;
    for (int i = 0; i < f->params.n && k < s->n; i++) {
        AstParam *p = AST_AS(f->params.at[i], Param);
        if (p->ast.kind != AST_Param || p->kind == PARAM_CONSTRAINT || p->kind == PARAM_ANY || !p->name)
            continue;
        if (p->annotation && s->at[k].arg)
            read_names(&g, p->annotation, s->at[k].arg->type);
        k++;
    }
    t = written(&g, def->returns);
    return t && !type_is_any(t) ? t : NULL;
}
