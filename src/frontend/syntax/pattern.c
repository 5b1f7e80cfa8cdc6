/* Patterns of match statements. */
#include "frontend/syntax/build.h"

#include <string.h>

#define SEAL(p, n) seal((p), &(n)->ast)

/* `_` binds nothing. */
static Sym binding(const Token *name)
{
    return strcmp(name->u.sym->text, "_") ? name->u.sym : NULL;
}

static Ast *sequence(Parser *p, AstSeq items, Span span)
{
    AstPatSequence *n = ast_new(p->arena, PatSequence, span);
    const Ast *star = NULL;

    for (int i = 0; i < items.n; i++) {
        Diag *d = star && AST_IS(items.at[i], PatStar)
                      ? syntax_error(p, E0151, items.at[i]->span, "a sequence pattern may have one starred name", NULL) : NULL;
        if (d)
            diag_label(d, star->span, "this one is starred");
        if (AST_IS(items.at[i], PatStar))
            star = items.at[i];
    }
    n->elts = items;
    return SEAL(p, n);
}

Ast *mk_pat_sequence(Parser *p, const Token *t, AstSeq items, const Token *end)
{
    return sequence(p, items, span_join(t ? t->span : items.at[0]->span, end->span));
}

/* One starred name alone makes a sequence only with brackets or a comma; in ( ) it needs the comma. */
static Ast *one(Parser *p, Ast *e)
{
    if (AST_IS(e, PatStar))
        syntax_error(p, E0151, e->span, "a starred name must stand in a sequence pattern: add a comma or brackets", NULL);
    return e;
}

Ast *pat_list_or_one(Parser *p, AstSeq items)
{
    if (items.n == 1)
        return one(p, items.at[0]);
    return sequence(p, items, span_join(items.at[0]->span, items.at[items.n - 1]->span));
}

Ast *pat_paren(Parser *p, const Token *t, AstSeq items, const Token *end)
{
    Ast *e;

    if (items.n > 1)
        return mk_pat_sequence(p, t, items, end);
    e = one(p, items.at[0]);
    e->parens = 1;
    return e;
}

Ast *mk_pat_star(Parser *p, const Token *t, const Token *name)
{
    AstPatStar *n = ast_new(p->arena, PatStar, span_join(t->span, name->span));

    n->name = binding(name);
    return SEAL(p, n);
}

Ast *mk_pat_as(Parser *p, Ast *pattern, const Token *name)
{
    AstPatAs *n = ast_new(p->arena, PatAs, span_join(pattern->span, name->span));

    n->pattern = pattern;
    n->name = name->u.sym;
    if (!binding(name))
        syntax_error(p, E0151, name->span, "cannot use '_' as a target", NULL);
    return SEAL(p, n);
}

Ast *mk_pat_or(Parser *p, Ast *left, Ast *right)
{
    AstPatOr *n;

    if (AST_IS(left, PatOr) && !left->parens) {
        n = AST_AS(left, PatOr);
        n->alts = seq_add(p, n->alts, right);
        n->ast.span = span_join(left->span, right->span);
        return seal_more(p, left, right);
    }
    if (AST_IS(left, PatCapture))
        syntax_error(p, E0151, left->span, "this alternative matches everything, so those after it are never tried", NULL);
    n = ast_new(p->arena, PatOr, span_join(left->span, right->span));
    n->alts = seq_add(p, seq1(p, left), right);
    return SEAL(p, n);
}

/* A plain name captures; a dotted one is a value. */
Ast *mk_pat_name(Parser *p, Ast *name)
{
    AstPatCapture *n;

    if (name->kind != AST_Name)
        return mk_pat_value(p, name);
    n = ast_new(p->arena, PatCapture, name->span);
    if (strcmp(AST_AS(name, Name)->id->text, "_"))
        n->name = AST_AS(name, Name)->id;
    return SEAL(p, n);
}

Ast *mk_pat_value(Parser *p, Ast *value)
{
    AstPatValue *n = ast_new(p->arena, PatValue, value->span);

    if (AST_IS(value, FString))
        syntax_error(p, E0151, value->span, "a pattern cannot be an f-string", NULL);
    n->value = value;
    return SEAL(p, n);
}

Ast *mk_pat_class(Parser *p, Ast *cls, AstSeq args, const Token *end)
{
    AstPatClass *n = ast_new(p->arena, PatClass, span_join(cls->span, end->span));
    bool keyword = false;

    for (int i = 0; i < args.n; i++) {
        if (keyword && !AST_IS(args.at[i], PatKeyword))
            syntax_error(p, E0151, args.at[i]->span, "positional patterns follow keyword patterns", NULL);
        keyword |= AST_IS(args.at[i], PatKeyword);
        for (int k = 0; k < i && AST_IS(args.at[i], PatKeyword); k++)
            if (AST_IS(args.at[k], PatKeyword) &&
                AST_AS(args.at[k], PatKeyword)->name == AST_AS(args.at[i], PatKeyword)->name)
                syntax_error(p, E0151, args.at[i]->span, "attribute name repeated in a class pattern", NULL);
    }
    n->cls = cls;
    n->args = args;
    return SEAL(p, n);
}

Ast *mk_pat_keyword(Parser *p, const Token *name, Ast *pattern)
{
    AstPatKeyword *n = ast_new(p->arena, PatKeyword, span_join(name->span, pattern->span));

    n->name = name->u.sym;
    n->pattern = pattern;
    return SEAL(p, n);
}

Ast *mk_pat_item(Parser *p, Ast *key, Ast *pattern)
{
    AstPatItem *n = ast_new(p->arena, PatItem, span_join(key->span, pattern->span));

    if (AST_IS(key, Name))
        syntax_error(p, E0151, key->span, "the keys of a mapping pattern are literals or dotted names", NULL);
    n->key = key;
    n->pattern = pattern;
    return SEAL(p, n);
}

/* `**rest` travels as an item without key until the mapping takes it. */
Ast *mk_pat_rest(Parser *p, const Token *t, const Token *name)
{
    AstPatItem *n = ast_new(p->arena, PatItem, span_join(t->span, name->span));
    AstPatCapture *c = ast_new(p->arena, PatCapture, name->span);

    c->name = name->u.sym;
    if (!binding(name))
        syntax_error(p, E0151, name->span, "'**_' is not allowed: a mapping pattern ignores other keys anyway", NULL);
    n->pattern = SEAL(p, c);
    return SEAL(p, n);
}

Ast *mk_pat_mapping(Parser *p, const Token *t, AstSeq items, const Token *end)
{
    AstPatMapping *n = ast_new(p->arena, PatMapping, span_join(t->span, end->span));
    AstPatItem *last = items.n ? AST_AS(items.at[items.n - 1], PatItem) : NULL;

    for (int i = 0; i + 1 < items.n; i++)
        if (!AST_AS(items.at[i], PatItem)->key)
            syntax_error(p, E0151, items.at[i]->span, "'**' must stand last in a mapping pattern", NULL);
    if (last && !last->key) {
        n->has_rest = 1;
        n->rest = AST_AS(last->pattern, PatCapture)->name;
        items.n--;
    }
    n->items = items;
    return SEAL(p, n);
}
