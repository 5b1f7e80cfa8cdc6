/* The tree as source text: expressions and patterns. */
#include "frontend/syntax/print.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t op_prec[AOP_COUNT] = {
    [AOP_ADD] = PREC_SUM, [AOP_SUB] = PREC_SUM, [AOP_MUL] = PREC_TERM, [AOP_DIV] = PREC_TERM,
    [AOP_FLOORDIV] = PREC_TERM, [AOP_MOD] = PREC_TERM, [AOP_MATMUL] = PREC_TERM, [AOP_POW] = PREC_POWER,
    [AOP_LSHIFT] = PREC_SHIFT, [AOP_RSHIFT] = PREC_SHIFT, [AOP_BITAND] = PREC_BITAND, [AOP_BITOR] = PREC_BITOR,
    [AOP_BITXOR] = PREC_BITXOR, [AOP_NEG] = PREC_UNARY, [AOP_POS] = PREC_UNARY, [AOP_INVERT] = PREC_UNARY,
    [AOP_NOT] = PREC_NOT, [AOP_AND] = PREC_AND, [AOP_OR] = PREC_OR,
};

static Prec prec_of(const Ast *n)
{
    switch (n->kind) {
    case AST_Tuple: return AST_AS(n, Tuple)->elts.n ? PREC_LIST : PREC_PRIMARY;
    case AST_Yield: case AST_YieldFrom: case AST_Starred: return PREC_LIST;
    case AST_NamedExpr: return PREC_NAMED;
    case AST_IfExp: case AST_Lambda: return PREC_EXPR;
    case AST_BoolOp: return op_prec[AST_AS(n, BoolOp)->op];
    case AST_UnaryOp: return op_prec[AST_AS(n, UnaryOp)->op];
    case AST_BinOp: return op_prec[AST_AS(n, BinOp)->op];
    case AST_Compare: return PREC_COMPARE;
    case AST_Await: return PREC_AWAIT;
    case AST_Int: return AST_AS(n, Int)->value < 0 ? PREC_UNARY : PREC_PRIMARY;
    default: return PREC_PRIMARY;
    }
}

/* ---- literals ---- */

static void real(StrBuf *out, double v)
{
    char buf[40];

    if (isinf(v)) {
        sb_puts(out, "1e999");
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(buf, sizeof buf, "%.*g", digits, v);
        if (strtod(buf, NULL) == v)
            break;
    }
    sb_puts(out, buf);
    if (!strpbrk(buf, ".e"))
        sb_puts(out, ".0");
}

typedef enum { TEXT_STR, TEXT_BYTES, TEXT_FSTRING, TEXT_SPEC } TextForm;

static void text(StrBuf *out, const AstText *t, TextForm form)
{
    for (uint32_t i = 0; i < t->n; i++) {
        unsigned char c = (unsigned char)t->s[i];
        if (c == '"' || c == '\\')
            sb_printf(out, "\\%c", c);
        else if (c == '\n')
            sb_puts(out, "\\n");
        else if (c == '\t')
            sb_puts(out, "\\t");
        else if (c < 32 || c == 127 || (c >= 128 && form == TEXT_BYTES))
            sb_printf(out, "\\x%02x", c);
        else if ((c == '{' || c == '}') && form == TEXT_FSTRING)
            sb_printf(out, "%c%c", c, c);
        else if ((c == '{' || c == '}') && form == TEXT_SPEC)
            sb_printf(out, "\\x%02x", c);
        else
            sb_putc(out, (char)c);
    }
}

static void quoted(Printer *pr, const char *prefix, const AstText *t, TextForm form)
{
    sb_printf(pr->out, "%s\"", prefix);
    text(pr->out, t, form);
    sb_putc(pr->out, '"');
}

static void fstring_parts(Printer *pr, const AstSeq *parts, TextForm form);

/* The expression of a hole: in brackets where a ':' could end it too early. */
static void hole_value(Printer *pr, const Ast *v)
{
    size_t at = pr->out->n;

    print_expr(pr, v, v->parens ? PREC_NAMED : PREC_OR);
    if (pr->out->s[at] == '{') {
        sb_putc(pr->out, ' ');
        memmove(pr->out->s + at + 1, pr->out->s + at, pr->out->n - at - 1);
        pr->out->s[at] = ' ';
    }
}

static void hole(Printer *pr, const AstHole *h)
{
    sb_putc(pr->out, '{');
    if (h->debug.n)
        sb_write(pr->out, h->debug.s, h->debug.n);
    else
        hole_value(pr, h->value);
    if (h->conversion)
        sb_printf(pr->out, "!%c", (char)h->conversion);
    if (h->spec) {
        sb_putc(pr->out, ':');
        fstring_parts(pr, &AST_AS(h->spec, FString)->parts, TEXT_SPEC);
    }
    sb_putc(pr->out, '}');
}

static void fstring_parts(Printer *pr, const AstSeq *parts, TextForm form)
{
    for (int i = 0; i < parts->n; i++) {
        if (AST_IS(parts->at[i], Hole))
            hole(pr, AST_AS(parts->at[i], Hole));
        else
            text(pr->out, &AST_AS(parts->at[i], Str)->value, form);
    }
}

/* ---- lists ---- */

static void comma_list(Printer *pr, const AstSeq *s, Prec least)
{
    for (int i = 0; i < s->n; i++) {
        sb_puts(pr->out, i ? ", " : "");
        print_expr(pr, s->at[i], AST_IS(s->at[i], Starred) || AST_IS(s->at[i], Slice) ? PREC_LIST : least);
    }
}

static void tuple_items(Printer *pr, const AstSeq *s, Prec least)
{
    comma_list(pr, s, least);
    if (s->n == 1)
        sb_putc(pr->out, ',');
}

void print_list(Printer *pr, const Ast *n)
{
    if (AST_IS(n, Tuple) && !n->parens && AST_AS(n, Tuple)->elts.n)
        tuple_items(pr, &AST_AS(n, Tuple)->elts, PREC_EXPR);
    else
        print_expr(pr, n, AST_IS(n, Starred) ? PREC_LIST : PREC_EXPR);
}

void print_value(Printer *pr, const Ast *n)
{
    if ((AST_IS(n, Yield) || AST_IS(n, YieldFrom)) && !n->parens)
        print_expr(pr, n, PREC_LIST);
    else
        print_list(pr, n);
}

void print_args(Printer *pr, const AstSeq *args)
{
    for (int i = 0; i < args->n; i++) {
        AstArg *a = AST_AS(args->at[i], Arg);
        sb_printf(pr->out, "%s%s", i ? ", " : "", a->stars == 1 ? "*" : a->stars ? "**" : "");
        if (a->name)
            sb_printf(pr->out, "%s=", a->name->text);
        print_expr(pr, a->value, a->name || a->stars ? PREC_EXPR : PREC_NAMED);
    }
}

static void print_param(Printer *pr, const AstParam *a)
{
    sb_puts(pr->out, a->kind == PARAM_VARARGS ? "*" : a->kind == PARAM_KWARGS ? "**" : "");
    sb_puts(pr->out, a->name ? a->name->text : "...");
    if (a->annotation) {
        sb_puts(pr->out, ": ");
        print_expr(pr, a->annotation, AST_IS(a->annotation, Starred) ? PREC_LIST : PREC_EXPR);
    }
    if (a->dflt) {
        sb_puts(pr->out, a->annotation ? " = " : "=");
        print_expr(pr, a->dflt, PREC_EXPR);
    }
}

void print_params(Printer *pr, const AstSeq *params)
{
    bool star = false;
    int slash = -1;

    for (int i = 0; i < params->n; i++)
        if (AST_AS(params->at[i], Param)->kind == PARAM_POSONLY)
            slash = i;
    for (int i = 0; i < params->n; i++) {
        const AstParam *a = AST_AS(params->at[i], Param);
        sb_puts(pr->out, i ? ", " : "");
        if (a->kind == PARAM_KWONLY && !star)
            sb_puts(pr->out, "*, ");
        star |= a->kind == PARAM_KWONLY || a->kind == PARAM_VARARGS;
        print_param(pr, a);
        if (i == slash)
            sb_puts(pr->out, ", /");
    }
}

/* ---- expressions ---- */

static void clauses(Printer *pr, const AstSeq *s)
{
    for (int i = 0; i < s->n; i++) {
        AstCompFor *c = AST_AS(s->at[i], CompFor);
        sb_puts(pr->out, c->is_async ? " async for " : " for ");
        print_list(pr, c->target);
        sb_puts(pr->out, " in ");
        print_expr(pr, c->iter, PREC_OR);
        for (int k = 0; k < c->ifs.n; k++) {
            sb_puts(pr->out, " if ");
            print_expr(pr, c->ifs.at[k], PREC_OR);
        }
    }
}

static void comprehension(Printer *pr, const char *brackets, const Ast *elt, const Ast *value, const AstSeq *s)
{
    sb_putc(pr->out, brackets[0]);
    print_expr(pr, elt, value ? PREC_EXPR : PREC_NAMED);
    if (value) {
        sb_puts(pr->out, ": ");
        print_expr(pr, value, PREC_EXPR);
    }
    clauses(pr, s);
    sb_putc(pr->out, brackets[1]);
}

static void binary(Printer *pr, const AstBinOp *n)
{
    Prec p = op_prec[n->op];
    bool power = n->op == AOP_POW;

    print_expr(pr, n->left, power ? PREC_AWAIT : p);
    sb_printf(pr->out, " %s ", ast_op_text[n->op]);
    print_expr(pr, n->right, power ? PREC_UNARY : (Prec)(p + 1));
}

static void boolean(Printer *pr, const AstBoolOp *n)
{
    for (int i = 0; i < n->values.n; i++) {
        if (i)
            sb_printf(pr->out, " %s ", ast_op_text[n->op]);
        print_expr(pr, n->values.at[i], (Prec)(op_prec[n->op] + 1));
    }
}

static void compare(Printer *pr, const AstCompare *n)
{
    print_expr(pr, n->left, PREC_BITOR);
    for (int i = 0; i < n->rest.n; i++) {
        AstCompareItem *c = AST_AS(n->rest.at[i], CompareItem);
        sb_printf(pr->out, " %s ", ast_op_text[c->op]);
        print_expr(pr, c->right, PREC_BITOR);
    }
}

static void dict(Printer *pr, const AstDict *n)
{
    sb_putc(pr->out, '{');
    for (int i = 0; i < n->items.n; i++) {
        AstDictItem *d = AST_AS(n->items.at[i], DictItem);
        sb_puts(pr->out, i ? ", " : "");
        if (d->key) {
            print_expr(pr, d->key, PREC_EXPR);
            sb_puts(pr->out, ": ");
            print_expr(pr, d->value, PREC_EXPR);
        } else {
            sb_puts(pr->out, "**");
            print_expr(pr, d->value, PREC_BITOR);
        }
    }
    sb_putc(pr->out, '}');
}

static void slice(Printer *pr, const AstSlice *n)
{
    if (n->lo)
        print_expr(pr, n->lo, PREC_EXPR);
    sb_putc(pr->out, ':');
    if (n->hi)
        print_expr(pr, n->hi, PREC_EXPR);
    if (n->step) {
        sb_putc(pr->out, ':');
        print_expr(pr, n->step, PREC_EXPR);
    }
}

static void subscript(Printer *pr, const AstSubscript *n)
{
    const Ast *i = n->index;

    print_expr(pr, n->value, PREC_PRIMARY);
    sb_putc(pr->out, '[');
    if (AST_IS(i, Tuple) && !i->parens && AST_AS(i, Tuple)->elts.n)
        tuple_items(pr, &AST_AS(i, Tuple)->elts, PREC_NAMED);
    else
        print_expr(pr, i, PREC_NAMED);
    sb_putc(pr->out, ']');
}

static void lambda(Printer *pr, const AstLambda *n)
{
    sb_puts(pr->out, n->params.n ? "lambda " : "lambda");
    print_params(pr, &n->params);
    sb_puts(pr->out, ": ");
    print_expr(pr, n->body, PREC_EXPR);
}

static void bracketed(Printer *pr, const char *open, const AstSeq *s, const char *close)
{
    sb_puts(pr->out, open);
    comma_list(pr, s, PREC_NAMED);
    sb_puts(pr->out, close);
}

static void word_value(Printer *pr, const char *word, const Ast *value, bool list)
{
    sb_puts(pr->out, word);
    if (!value)
        return;
    sb_putc(pr->out, ' ');
    if (list)
        print_list(pr, value);
    else
        print_expr(pr, value, PREC_EXPR);
}

static void call(Printer *pr, const AstCall *n)
{
    print_expr(pr, n->func, PREC_PRIMARY);
    sb_putc(pr->out, '(');
    print_args(pr, &n->args);
    sb_putc(pr->out, ')');
}

static void attribute(Printer *pr, const AstAttribute *n)
{
    bool number = AST_IS(n->value, Int) && !n->value->parens;

    sb_puts(pr->out, number ? "(" : "");
    print_expr(pr, n->value, PREC_PRIMARY);
    sb_printf(pr->out, "%s.%s", number ? ")" : "", n->attr->text);
}

static void conditional(Printer *pr, const AstIfExp *n)
{
    print_expr(pr, n->body, PREC_OR);
    sb_puts(pr->out, " if ");
    print_expr(pr, n->test, PREC_OR);
    sb_puts(pr->out, " else ");
    print_expr(pr, n->orelse, PREC_EXPR);
}

static void named(Printer *pr, const AstNamedExpr *n)
{
    print_expr(pr, n->target, PREC_PRIMARY);
    sb_puts(pr->out, " := ");
    print_expr(pr, n->value, PREC_EXPR);
}

static void unary(Printer *pr, const AstUnaryOp *n)
{
    sb_puts(pr->out, n->op == AOP_NOT ? "not " : ast_op_text[n->op]);
    print_expr(pr, n->operand, op_prec[n->op]);
}

static void bare(Printer *pr, const Ast *n)
{
    static const char *const constant[] = {"None", "False", "True", "..."};

    switch (n->kind) {
    case AST_Name: sb_puts(pr->out, AST_AS(n, Name)->id->text); break;
    case AST_Int: sb_printf(pr->out, "%lld", (long long)AST_AS(n, Int)->value); break;
    case AST_Float: real(pr->out, AST_AS(n, Float)->value); break;
    case AST_Imag: real(pr->out, AST_AS(n, Imag)->value); sb_putc(pr->out, 'j'); break;
    case AST_Str: quoted(pr, "", &AST_AS(n, Str)->value, TEXT_STR); break;
    case AST_Bytes: quoted(pr, "b", &AST_AS(n, Bytes)->value, TEXT_BYTES); break;
    case AST_Const: sb_puts(pr->out, constant[AST_AS(n, Const)->value]); break;
    case AST_FString:
        sb_puts(pr->out, "f\"");
        fstring_parts(pr, &AST_AS(n, FString)->parts, TEXT_FSTRING);
        sb_putc(pr->out, '"');
        break;
    case AST_BinOp: binary(pr, AST_AS(n, BinOp)); break;
    case AST_UnaryOp: unary(pr, AST_AS(n, UnaryOp)); break;
    case AST_BoolOp: boolean(pr, AST_AS(n, BoolOp)); break;
    case AST_Compare: compare(pr, AST_AS(n, Compare)); break;
    case AST_Call: call(pr, AST_AS(n, Call)); break;
    case AST_Attribute: attribute(pr, AST_AS(n, Attribute)); break;
    case AST_Subscript: subscript(pr, AST_AS(n, Subscript)); break;
    case AST_BraceIndex:
        print_expr(pr, AST_AS(n, BraceIndex)->value, PREC_PRIMARY);
        bracketed(pr, "{", &AST_AS(n, BraceIndex)->index, "}");
        break;
    case AST_Slice: slice(pr, AST_AS(n, Slice)); break;
    case AST_Tuple: tuple_items(pr, &AST_AS(n, Tuple)->elts, PREC_NAMED); break;
    case AST_List: bracketed(pr, "[", &AST_AS(n, List)->elts, "]"); break;
    case AST_Set: bracketed(pr, "{", &AST_AS(n, Set)->elts, "}"); break;
    case AST_Dict: dict(pr, AST_AS(n, Dict)); break;
    case AST_IfExp: conditional(pr, AST_AS(n, IfExp)); break;
    case AST_Lambda: lambda(pr, AST_AS(n, Lambda)); break;
    case AST_ListComp: comprehension(pr, "[]", AST_AS(n, ListComp)->elt, NULL, &AST_AS(n, ListComp)->clauses); break;
    case AST_SetComp: comprehension(pr, "{}", AST_AS(n, SetComp)->elt, NULL, &AST_AS(n, SetComp)->clauses); break;
    case AST_GenExp: comprehension(pr, "()", AST_AS(n, GenExp)->elt, NULL, &AST_AS(n, GenExp)->clauses); break;
    case AST_DictComp:
        comprehension(pr, "{}", AST_AS(n, DictComp)->key, AST_AS(n, DictComp)->value, &AST_AS(n, DictComp)->clauses);
        break;
    case AST_Await: sb_puts(pr->out, "await "); print_expr(pr, AST_AS(n, Await)->value, PREC_PRIMARY); break;
    case AST_Yield: word_value(pr, "yield", AST_AS(n, Yield)->value, true); break;
    case AST_YieldFrom: word_value(pr, "yield from", AST_AS(n, YieldFrom)->value, false); break;
    case AST_NamedExpr: named(pr, AST_AS(n, NamedExpr)); break;
    case AST_Starred: sb_putc(pr->out, '*'); print_expr(pr, AST_AS(n, Starred)->value, PREC_BITOR); break;
    default: sb_puts(pr->out, "<error>"); break;
    }
}

void print_expr(Printer *pr, const Ast *n, Prec least)
{
    bool wrap = n->parens || prec_of(n) < least || (AST_IS(n, Tuple) && (!AST_AS(n, Tuple)->elts.n || least > PREC_LIST));

    if (n->kind == AST_GenExp)
        wrap = false;               /* it has its brackets already */
    sb_puts(pr->out, wrap ? "(" : "");
    bare(pr, n);
    sb_puts(pr->out, wrap ? ")" : "");
}

/* ---- patterns ---- */

static void pattern_list(Printer *pr, const AstSeq *s)
{
    for (int i = 0; i < s->n; i++) {
        sb_puts(pr->out, i ? ", " : "");
        print_pattern(pr, s->at[i]);
    }
}

static void pattern_or(Printer *pr, const AstPatOr *n)
{
    for (int i = 0; i < n->alts.n; i++) {
        bool wrap = !n->alts.at[i]->parens && (AST_IS(n->alts.at[i], PatOr) || AST_IS(n->alts.at[i], PatAs));
        sb_puts(pr->out, i ? " | " : "");
        sb_puts(pr->out, wrap ? "(" : "");
        print_pattern(pr, n->alts.at[i]);
        sb_puts(pr->out, wrap ? ")" : "");
    }
}

static void pattern_mapping(Printer *pr, const AstPatMapping *n)
{
    sb_putc(pr->out, '{');
    for (int i = 0; i < n->items.n; i++) {
        AstPatItem *m = AST_AS(n->items.at[i], PatItem);
        sb_puts(pr->out, i ? ", " : "");
        print_expr(pr, m->key, PREC_SUM);
        sb_puts(pr->out, ": ");
        print_pattern(pr, m->pattern);
    }
    if (n->has_rest)
        sb_printf(pr->out, "%s**%s", n->items.n ? ", " : "", n->rest->text);
    sb_putc(pr->out, '}');
}

static void pattern_as(Printer *pr, const AstPatAs *n)
{
    bool wrap = AST_IS(n->pattern, PatAs) && !n->pattern->parens;

    sb_puts(pr->out, wrap ? "(" : "");
    print_pattern(pr, n->pattern);
    sb_printf(pr->out, "%s as %s", wrap ? ")" : "", n->name->text);
}

static void bare_pattern(Printer *pr, const Ast *n)
{
    switch (n->kind) {
    case AST_PatValue: print_expr(pr, AST_AS(n, PatValue)->value, PREC_SUM); break;
    case AST_PatCapture: sb_puts(pr->out, AST_AS(n, PatCapture)->name ? AST_AS(n, PatCapture)->name->text : "_"); break;
    case AST_PatStar: sb_printf(pr->out, "*%s", AST_AS(n, PatStar)->name ? AST_AS(n, PatStar)->name->text : "_"); break;
    case AST_PatSequence:
        sb_putc(pr->out, '[');
        pattern_list(pr, &AST_AS(n, PatSequence)->elts);
        sb_putc(pr->out, ']');
        break;
    case AST_PatMapping: pattern_mapping(pr, AST_AS(n, PatMapping)); break;
    case AST_PatClass:
        print_expr(pr, AST_AS(n, PatClass)->cls, PREC_PRIMARY);
        sb_putc(pr->out, '(');
        pattern_list(pr, &AST_AS(n, PatClass)->args);
        sb_putc(pr->out, ')');
        break;
    case AST_PatKeyword:
        sb_printf(pr->out, "%s=", AST_AS(n, PatKeyword)->name->text);
        print_pattern(pr, AST_AS(n, PatKeyword)->pattern);
        break;
    case AST_PatOr: pattern_or(pr, AST_AS(n, PatOr)); break;
    case AST_PatAs: pattern_as(pr, AST_AS(n, PatAs)); break;
    default: sb_puts(pr->out, "<error>"); break;
    }
}

void print_pattern(Printer *pr, const Ast *n)
{
    bool wrap = n->parens && n->kind != AST_PatSequence;

    sb_puts(pr->out, wrap ? "(" : "");
    bare_pattern(pr, n);
    sb_puts(pr->out, wrap ? ")" : "");
}
