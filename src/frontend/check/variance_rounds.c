/*
 * How often a loop runs, rank by rank.
 *
 * Ranks hold different values in containers of the same length (len() is the
 * same on all of them, too), so a loop over one runs as often everywhere,
 * unless what its length comes from varies: a range of the rank, a slice up to
 * it, a condition on it.
 */
#include "frontend/check/variance.h"

#include <string.h>

static uint64_t rounds_of_each(Vary *v, AstSeq s)
{
    uint64_t m = 0;

    for (int i = 0; i < s.n; i++)
        m |= vary_rounds(v, AST_IS(s.at[i], Arg) ? AST_AS(s.at[i], Arg)->value : s.at[i]);
    return m;
}

/* [a, b, *rest] */
static uint64_t rounds_of_display(Vary *v, AstSeq s)
{
    uint64_t m = 0;

    for (int i = 0; i < s.n; i++)
        m |= AST_IS(s.at[i], Starred) ? vary_rounds(v, s.at[i]) : 0;
    return m;
}

/* {k: a, **rest} */
static uint64_t rounds_of_dict(Vary *v, AstSeq items)
{
    uint64_t m = 0;

    for (int i = 0; i < items.n; i++) {
        AstDictItem *x = AST_AS(items.at[i], DictItem);
        m |= x->key ? vary_mask(v, x->key) : vary_rounds(v, x->value);
    }
    return m;
}

uint64_t vary_clauses(Vary *v, AstSeq clauses)
{
    uint64_t m = 0;

    for (int i = 0; i < clauses.n; i++) {
        AstCompFor *c = AST_AS(clauses.at[i], CompFor);
        m |= vary_rounds(v, c->iter);
        for (int k = 0; k < c->ifs.n; k++)
            m |= vary_mask(v, c->ifs.at[k]);
    }
    return m;
}

static uint64_t rounds_of_name(Vary *v, AstName *n)
{
    const Local *l = things_local(v->E, v->scope, n, NULL);
    uint64_t m = 0;

    for (const Given *g = things_given(v->E, l); g; g = g->next)
        if (!g->held && g->scope == v->scope)
            m |= vary_rounds(v, g->value);
    return m;
}

/* The results of a function of the program: of its parameters nothing is known there. */
static uint64_t rounds_of_results(Vary *v, EffFn *f)
{
    Vary inside = {.E = v->E, .fn = f, .scope = f->scope, .depth = v->depth, .inside_rounds = 1, .fuel = v->fuel};
    uint64_t m = 0;

    for (const Given *g = f->returns; g; g = g->next)
        m |= vary_rounds(&inside, g->value);
    v->fuel = inside.fuel;
    return vary_resolves(&inside, m) ? VARIES : 0;
}

static uint64_t rounds_of_call(Vary *v, AstCall *c)
{
    static const char *const through[] = {"zip", "enumerate", "reversed", "sorted", "list", "tuple", "iter", "map", "tree_leaves", "tree_map", NULL};
    static const char *const views[] = {"items", "keys", "values", "parameters", NULL};

    bool bound;
    EffFn *f = vary_callee(v, c, &bound);

    if (f)
        return rounds_of_results(v, f);
    if (vary_listed(through, vary_name(c->func)))
        return rounds_of_each(v, c->args);
    if (AST_IS(c->func, Attribute) && vary_listed(views, vary_name(c->func)))
        return vary_rounds(v, AST_AS(c->func, Attribute)->value);
    return vary_mask(v, (Ast *)c);
}

uint64_t vary_rounds(Vary *v, Ast *e)
{
    uint64_t m = 0;

    if (!v->inside_rounds)
        v->fuel = ROUNDS_FUEL;
    if (!e || v->depth > DEPTH || v->fuel-- <= 0)
        return 0;
    v->depth++;
    v->inside_rounds++;
    switch (e->kind) {
    case AST_Name: m = rounds_of_name(v, AST_AS(e, Name)); break;
    case AST_Call: m = rounds_of_call(v, AST_AS(e, Call)); break;
    case AST_List: m = rounds_of_display(v, AST_AS(e, List)->elts); break;
    case AST_Tuple: m = rounds_of_display(v, AST_AS(e, Tuple)->elts); break;
    case AST_Dict: m = rounds_of_dict(v, AST_AS(e, Dict)->items); break;
    case AST_Starred: m = vary_rounds(v, AST_AS(e, Starred)->value); break;
    case AST_ListComp: m = vary_clauses(v, AST_AS(e, ListComp)->clauses); break;
    case AST_GenExp: m = vary_clauses(v, AST_AS(e, GenExp)->clauses); break;
    case AST_Subscript: m = vary_mask(v, AST_AS(e, Subscript)->index); break;
    case AST_IfExp:
        m = vary_mask(v, AST_AS(e, IfExp)->test) | vary_rounds(v, AST_AS(e, IfExp)->body) | vary_rounds(v, AST_AS(e, IfExp)->orelse);
        break;
    case AST_BinOp:
        m = AST_AS(e, BinOp)->op == AOP_ADD ? vary_rounds(v, AST_AS(e, BinOp)->left) | vary_rounds(v, AST_AS(e, BinOp)->right) : vary_mask(v, e);
        break;
    case AST_Attribute: break;
    default: m = vary_mask(v, e);
    }
    v->inside_rounds--;
    v->depth--;
    return m;
}
