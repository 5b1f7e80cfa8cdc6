/* Expressions. */
#include "frontend/syntax/build.h"

#include <string.h>

#define SEAL(p, n) seal((p), &(n)->ast)

/* ---- atoms ---- */

Ast *mk_name(Parser *p, const Token *t)
{
    AstName *n = ast_new(p->arena, Name, t->span);

    n->id = t->u.sym;
    n->ast.height = 1;
    return &n->ast;
}

Ast *mk_int(Parser *p, const Token *t)
{
    AstInt *n = ast_new(p->arena, Int, t->span);

    n->value = t->u.i;
    return SEAL(p, n);
}

Ast *mk_float(Parser *p, const Token *t)
{
    AstFloat *n = ast_new(p->arena, Float, t->span);

    n->value = t->u.r;
    return SEAL(p, n);
}

Ast *mk_imag(Parser *p, const Token *t)
{
    AstImag *n = ast_new(p->arena, Imag, t->span);

    n->value = t->u.r;
    return SEAL(p, n);
}

Ast *mk_const(Parser *p, const Token *t, int value)
{
    AstConst *n = ast_new(p->arena, Const, t->span);

    n->value = value;
    return SEAL(p, n);
}

/* ---- strings ---- */

Ast *mk_str(Parser *p, const Token *t)
{
    AstStr *n = ast_new(p->arena, Str, t->span);

    n->value = *t->u.text;
    return SEAL(p, n);
}

Ast *mk_bytes(Parser *p, const Token *t)
{
    AstBytes *n = ast_new(p->arena, Bytes, t->span);

    n->value = *t->u.text;
    return SEAL(p, n);
}

Ast *mk_fstring(Parser *p, const Token *t, AstSeq parts, const Token *end)
{
    AstFString *n = ast_new(p->arena, FString, span_join(t->span, end->span));

    n->parts = parts;
    return SEAL(p, n);
}

Ast *mk_fspec(Parser *p, const Token *t, AstSeq parts)
{
    AstFString *n = ast_new(p->arena, FString, parts.n ? span_join(t->span, parts.at[parts.n - 1]->span) : t->span);

    n->parts = parts;
    return SEAL(p, n);
}

Ast *mk_hole(Parser *p, const Token *t, Ast *value, const Token *debug, const Token *conversion, Ast *spec,
             const Token *end)
{
    AstHole *n = ast_new(p->arena, Hole, span_join(t->span, end->span));

    n->value = value;
    n->spec = spec;
    if (conversion) {
        const char *c = conversion->u.sym->text;
        if (c[1] || !strchr("rsa", *c))
            syntax_error(p, E0118, conversion->span,
                         arena_printf(p->arena, "invalid conversion '%s': expected 's', 'r' or 'a'", c), NULL);
        n->conversion = *c;
    }
    if (debug) {
        const char *text = p->unit->src->text - p->unit->src->base;
        n->debug.n = debug->span.hi - t->span.hi;
        n->debug.s = arena_strndup(p->arena, text + t->span.hi, n->debug.n);
    }
    return SEAL(p, n);
}

static AstText concat(Parser *p, AstSeq parts, AstKind kind)
{
    AstText all = {0};
    char *s;

    for (int i = 0; i < parts.n; i++)
        all.n += AST_AS(parts.at[i], Str)->value.n;
    all.s = s = arena_alloc(p->arena, (size_t)all.n + 1);
    for (int i = 0; i < parts.n; i++) {
        const AstText *t = &AST_AS(parts.at[i], Str)->value;     /* Bytes has the same layout */
        if (t->n)
            memcpy(s, t->s, t->n);
        s += t->n;
    }
    (void)kind;
    return all;
}

/* Append a piece of text to an f-string's parts, joining neighbours. */
static AstSeq add_text(Parser *p, AstSeq parts, Ast *text)
{
    AstStr *last = parts.n && AST_IS(parts.at[parts.n - 1], Str) ? AST_AS(parts.at[parts.n - 1], Str) : NULL;
    AstStr *both;

    if (!AST_AS(text, Str)->value.n)
        return parts;
    if (!last)
        return seq_add(p, parts, text);
    both = ast_new(p->arena, Str, span_join(last->ast.span, text->span));
    both->value = concat(p, (AstSeq){(Ast *[]){&last->ast, text}, 2}, AST_Str);
    parts.at[parts.n - 1] = SEAL(p, both);
    return parts;
}

static Ast *join_fstrings(Parser *p, AstSeq strings, Span span)
{
    AstFString *n = ast_new(p->arena, FString, span);

    for (int i = 0; i < strings.n; i++) {
        AstSeq inner = AST_IS(strings.at[i], FString) ? AST_AS(strings.at[i], FString)->parts
                                                      : (AstSeq){&strings.at[i], 1};
        for (int k = 0; k < inner.n; k++)
            n->parts = AST_IS(inner.at[k], Str) ? add_text(p, n->parts, inner.at[k]) : seq_add(p, n->parts, inner.at[k]);
    }
    return SEAL(p, n);
}

/* Adjacent literals are one. */
Ast *mk_strings(Parser *p, AstSeq parts)
{
    Span span = span_join(parts.at[0]->span, parts.at[parts.n - 1]->span);
    int bytes = 0, f = 0;
    AstStr *n;

    if (parts.n == 1 && parts.at[0]->kind != AST_FString)
        return parts.at[0];
    for (int i = 0; i < parts.n; i++) {
        bytes += parts.at[i]->kind == AST_Bytes;
        f += parts.at[i]->kind == AST_FString;
    }
    if (bytes && bytes < parts.n)
        syntax_error(p, E0116, span, "cannot join bytes and string literals", NULL);
    if (f)
        return bytes ? seal(p, ast_alloc(p->arena, AST_Error, span)) : join_fstrings(p, parts, span);
    n = (AstStr *)ast_alloc(p->arena, bytes ? AST_Bytes : AST_Str, span);
    n->value = concat(p, parts, AST_Str);
    return SEAL(p, n);
}

/* ---- brackets ---- */

static Ast *tuple(Parser *p, AstSeq items, Span span)
{
    AstTuple *n = ast_new(p->arena, Tuple, span);

    n->elts = items;
    return SEAL(p, n);
}

Ast *mk_list_or_one(Parser *p, AstSeq items)
{
    if (items.n == 1)
        return items.at[0];
    return tuple(p, items, span_join(items.at[0]->span, items.at[items.n - 1]->span));
}

Ast *mk_tuple(Parser *p, AstSeq items, const Token *end)
{
    return tuple(p, items, span_join(items.at[0]->span, end->span));
}

Ast *mk_paren_tuple(Parser *p, const Token *t, AstSeq items, const Token *end)
{
    Ast *n = tuple(p, items, span_join(t->span, end->span));

    n->parens = 1;
    return n;
}

/* ( ) around one expression only groups; the span keeps the brackets. */
Ast *mk_paren(Parser *p, const Token *t, AstSeq items, const Token *end)
{
    Ast *e = items.at[0];

    if (items.n > 1)
        return mk_paren_tuple(p, t, items, end);
    if (AST_IS(e, Starred)) {
        syntax_error(p, E0133, e->span, "cannot use a starred expression here: add a comma to make a tuple", NULL);
        return e;
    }
    e->parens = 1;
    e->span = span_join(t->span, end->span);
    return e;
}

Ast *mk_list(Parser *p, const Token *t, AstSeq items, const Token *end)
{
    AstList *n = ast_new(p->arena, List, span_join(t->span, end->span));

    n->elts = items;
    return SEAL(p, n);
}

Ast *mk_set(Parser *p, const Token *t, AstSeq items, const Token *end)
{
    AstSet *n = ast_new(p->arena, Set, span_join(t->span, end->span));

    n->elts = items;
    return SEAL(p, n);
}

Ast *mk_dict(Parser *p, const Token *t, AstSeq items, const Token *end)
{
    AstDict *n = ast_new(p->arena, Dict, span_join(t->span, end->span));

    n->items = items;
    return SEAL(p, n);
}

Ast *mk_dict_item(Parser *p, const Token *stars, Ast *key, Ast *value)
{
    AstDictItem *n = ast_new(p->arena, DictItem, span_join(stars ? stars->span : key->span, value->span));

    n->key = key;
    n->value = value;
    return SEAL(p, n);
}

Ast *mk_comp(Parser *p, AstKind kind, const Token *t, Ast *elt, AstSeq clauses, const Token *end)
{
    /* ListComp, SetComp and GenExp begin alike: elt, clauses */
    AstListComp *n = (AstListComp *)ast_alloc(p->arena, kind, span_join(t->span, end->span));

    if (AST_IS(elt, Starred))
        syntax_error(p, E0133, elt->span, "iterable unpacking cannot be used in a comprehension", NULL);
    n->elt = elt;
    n->clauses = clauses;
    return SEAL(p, n);
}

Ast *mk_dict_comp(Parser *p, const Token *t, Ast *key, Ast *value, AstSeq clauses, const Token *end)
{
    AstDictComp *n = ast_new(p->arena, DictComp, span_join(t->span, end->span));

    n->key = key;
    n->value = value;
    n->clauses = clauses;
    return SEAL(p, n);
}

Ast *mk_comp_for(Parser *p, const Token *t, const Token *async, Ast *target, Ast *iter)
{
    AstCompFor *n = ast_new(p->arena, CompFor, span_join(async ? async->span : t->span, iter->span));

    target_check(p, target, TARGET_FOR);
    n->is_async = async != NULL;
    n->target = target;
    n->iter = iter;
    return SEAL(p, n);
}

AstSeq comp_if(Parser *p, AstSeq clauses, Ast *cond)
{
    AstCompFor *last = AST_AS(clauses.at[clauses.n - 1], CompFor);

    last->ifs = seq_add(p, last->ifs, cond);
    clauses.at[clauses.n - 1] = seal_more(p, &last->ast, cond);
    return clauses;
}

/* ---- operators ---- */

Ast *mk_yield(Parser *p, const Token *t, Ast *value)
{
    AstYield *n = ast_new(p->arena, Yield, value ? span_join(t->span, value->span) : t->span);

    n->value = value;
    return SEAL(p, n);
}

Ast *mk_yield_from(Parser *p, const Token *t, Ast *value)
{
    AstYieldFrom *n = ast_new(p->arena, YieldFrom, span_join(t->span, value->span));

    n->value = value;
    return SEAL(p, n);
}

Ast *mk_starred(Parser *p, const Token *t, Ast *value)
{
    AstStarred *n = ast_new(p->arena, Starred, span_join(t->span, value->span));

    n->value = value;
    return SEAL(p, n);
}

Ast *mk_named(Parser *p, Ast *target, Ast *value)
{
    AstNamedExpr *n = ast_new(p->arena, NamedExpr, span_join(target->span, value->span));

    if (target->kind != AST_Name || target->parens) {
        Diag *d = syntax_error(p, E0130, target->span, expr_kind_name(target), NULL);
        if (d)
            diag_help(d, "':=' gives a value to a single name");
    }
    n->target = target;
    n->value = value;
    return SEAL(p, n);
}

Ast *mk_if_exp(Parser *p, Ast *body, Ast *test, Ast *orelse)
{
    AstIfExp *n = ast_new(p->arena, IfExp, span_join(body->span, orelse->span));

    n->body = body;
    n->test = test;
    n->orelse = orelse;
    return SEAL(p, n);
}

Ast *mk_lambda(Parser *p, const Token *t, AstSeq params, Ast *body)
{
    AstLambda *n = ast_new(p->arena, Lambda, span_join(t->span, body->span));

    n->params = params_finish(p, params);
    n->body = body;
    return SEAL(p, n);
}

/* a or b or c is one node. */
Ast *mk_bool(Parser *p, Ast *left, AstOp op, Ast *right)
{
    AstBoolOp *l = AST_AS(left, BoolOp), *n;

    if (AST_IS(left, BoolOp) && !left->parens && l->op == op) {
        l->values = seq_add(p, l->values, right);
        l->ast.span = span_join(left->span, right->span);
        return seal_more(p, left, right);
    }
    n = ast_new(p->arena, BoolOp, span_join(left->span, right->span));
    n->op = op;
    n->values = seq_add(p, seq1(p, left), right);
    return SEAL(p, n);
}

Ast *mk_unary(Parser *p, const Token *t, AstOp op, Ast *operand)
{
    AstUnaryOp *n = ast_new(p->arena, UnaryOp, span_join(t->span, operand->span));

    n->op = op;
    n->operand = operand;
    return SEAL(p, n);
}

Ast *mk_binop(Parser *p, Ast *left, AstOp op, Ast *right)
{
    AstBinOp *n = ast_new(p->arena, BinOp, span_join(left->span, right->span));

    n->left = left;
    n->op = op;
    n->right = right;
    return SEAL(p, n);
}

static Ast *compare_item(Parser *p, const Token *op, Ast *right)
{
    AstCompareItem *c = ast_new(p->arena, CompareItem, span_join(op->span, right->span));

    c->op = op->op;
    c->right = right;
    return SEAL(p, c);
}

AstCompare *mk_compare(Parser *p, Ast *left, const Token *op, Ast *right)
{
    AstCompare *n = ast_new(p->arena, Compare, span_join(left->span, right->span));

    n->left = left;
    n->rest = seq1(p, compare_item(p, op, right));
    return n;
}

AstCompare *compare_more(Parser *p, AstCompare *c, const Token *op, Ast *right)
{
    c->rest = seq_add(p, c->rest, compare_item(p, op, right));
    c->ast.span = span_join(c->ast.span, right->span);
    return c;
}

Ast *compare_done(Parser *p, AstCompare *c)
{
    return SEAL(p, c);
}

Ast *mk_await(Parser *p, const Token *t, Ast *value)
{
    AstAwait *n = ast_new(p->arena, Await, span_join(t->span, value->span));

    n->value = value;
    return SEAL(p, n);
}

/* ---- what follows a primary ---- */

Ast *mk_attribute(Parser *p, Ast *value, const Token *name)
{
    AstAttribute *n = ast_new(p->arena, Attribute, span_join(value->span, name->span));

    n->value = value;
    n->attr = name->u.sym;
    return SEAL(p, n);
}

Ast *mk_call(Parser *p, Ast *func, AstSeq args, const Token *end)
{
    AstCall *n = ast_new(p->arena, Call, span_join(func->span, end->span));

    args_check(p, args);
    n->func = func;
    n->args = args;
    return SEAL(p, n);
}

Ast *mk_subs(Parser *p, AstSeq items)
{
    return items.n == 1 && !AST_IS(items.at[0], Starred)
               ? items.at[0]
               : tuple(p, items, span_join(items.at[0]->span, items.at[items.n - 1]->span));
}

Ast *mk_subscript(Parser *p, Ast *value, Ast *index, const Token *end)
{
    AstSubscript *n = ast_new(p->arena, Subscript, span_join(value->span, end->span));

    n->value = value;
    n->index = index;
    return SEAL(p, n);
}

Ast *mk_slice(Parser *p, const Token *t, Ast *lo, Ast *hi, const Token *t2, Ast *step)
{
    Span s = lo ? span_join(lo->span, t->span) : t->span;
    AstSlice *n;

    s = hi ? span_join(s, hi->span) : s;
    s = t2 ? span_join(s, t2->span) : s;
    n = ast_new(p->arena, Slice, step ? span_join(s, step->span) : s);
    n->lo = lo;
    n->hi = hi;
    n->step = step;
    return SEAL(p, n);
}

Ast *mk_brace_index(Parser *p, Ast *value, AstSeq index, const Token *end)
{
    AstBraceIndex *n = ast_new(p->arena, BraceIndex, span_join(value->span, end->span));

    n->value = value;
    n->index = index;
    return SEAL(p, n);
}
