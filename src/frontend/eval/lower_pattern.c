/*
 * The patterns of `match` to nodes.
 */
#include "frontend/eval/lower.h"

static Step *pattern(Lower *L, const Ast *at, MatchFn fn)
{
    Step *n = step_new(L, at);

    n->match = fn;
    return n;
}

static Step *bound_or_null(Lower *L, const AstName *bound)
{
    return bound ? lower_name_store(L, bound) : NULL;
}

static Step *lower_pat_sequence(Lower *L, const AstPatSequence *p)
{
    Step *n = pattern(L, &p->ast, pm_sequence);

    n->seq = seq_new(L, p->elts.n);
    n->small = UINT16_MAX;      /* index of the star; its node is the store, or NULL */
    for (int i = 0; i < p->elts.n; i++)
        if (AST_IS(p->elts.at[i], PatStar)) {
            n->small = (uint16_t)i;
            n->seq->at[i] = bound_or_null(L, AST_AS(p->elts.at[i], PatStar)->bound);
        } else {
            n->seq->at[i] = lower_pattern(L, p->elts.at[i]);
        }
    return n;
}

/* seq: key expression, pattern, ...; b: store of **rest */
static Step *lower_pat_mapping(Lower *L, const AstPatMapping *p)
{
    Step *n = pattern(L, &p->ast, pm_mapping);

    n->seq = seq_new(L, p->items.n * 2);
    for (int i = 0; i < p->items.n; i++) {
        n->seq->at[2 * i] = lower_expr(L, AST_AS(p->items.at[i], PatItem)->key);
        n->seq->at[2 * i + 1] = lower_pattern(L, AST_AS(p->items.at[i], PatItem)->pattern);
    }
    n->b = bound_or_null(L, p->bound);
    return n;
}

/* a: class; seq: wrappers whose a is the pattern and sym the attribute, NULL for positions */
static Step *lower_pat_class(Lower *L, const AstPatClass *p)
{
    Step *n = pattern(L, &p->ast, pm_class);

    n->a = lower_expr(L, p->cls);
    n->seq = seq_new(L, p->args.n);
    for (int i = 0; i < p->args.n; i++) {
        const Ast *a = p->args.at[i];
        Step *m = step_new(L, a);
        bool kw = AST_IS(a, PatKeyword);
        m->a = lower_pattern(L, kw ? AST_AS(a, PatKeyword)->pattern : a);
        m->sym = kw ? AST_AS(a, PatKeyword)->name : NULL;
        n->seq->at[i] = m;
    }
    return n;
}

Step *lower_pattern(Lower *L, const Ast *p)
{
    Step *n;

    switch (p->kind) {
    case AST_PatValue:
        n = pattern(L, p, pm_value);
        n->a = lower_expr(L, AST_AS(p, PatValue)->value);
        return n;
    case AST_PatCapture:
        n = pattern(L, p, pm_capture);
        n->b = bound_or_null(L, AST_AS(p, PatCapture)->bound);
        return n;
    case AST_PatSequence: return lower_pat_sequence(L, AST_AS(p, PatSequence));
    case AST_PatMapping: return lower_pat_mapping(L, AST_AS(p, PatMapping));
    case AST_PatClass: return lower_pat_class(L, AST_AS(p, PatClass));
    case AST_PatOr:
        n = pattern(L, p, pm_or);
        n->seq = seq_new(L, AST_AS(p, PatOr)->alts.n);
        for (int i = 0; i < n->seq->n; i++)
            n->seq->at[i] = lower_pattern(L, AST_AS(p, PatOr)->alts.at[i]);
        return n;
    case AST_PatAs:
        n = pattern(L, p, pm_as);
        n->a = lower_pattern(L, AST_AS(p, PatAs)->pattern);
        n->b = bound_or_null(L, AST_AS(p, PatAs)->bound);
        return n;
    default: return pattern(L, p, pm_capture);
    }
}
