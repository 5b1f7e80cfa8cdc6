/*
 * The tree as data: one table made from ast.def, and what can be done with any
 * node by following it - walking, comparing, dumping.
 */
#include "frontend/syntax/ast.h"

#include <stddef.h>
#include <string.h>

const char *const ast_op_text[AOP_COUNT] = {
    [AOP_ADD] = "+", [AOP_SUB] = "-", [AOP_MUL] = "*", [AOP_DIV] = "/", [AOP_FLOORDIV] = "//", [AOP_MOD] = "%",
    [AOP_POW] = "**", [AOP_MATMUL] = "@", [AOP_LSHIFT] = "<<", [AOP_RSHIFT] = ">>", [AOP_BITAND] = "&",
    [AOP_BITOR] = "|", [AOP_BITXOR] = "^", [AOP_NEG] = "-", [AOP_POS] = "+", [AOP_INVERT] = "~", [AOP_NOT] = "not",
    [AOP_AND] = "and", [AOP_OR] = "or", [AOP_EQ] = "==", [AOP_NE] = "!=", [AOP_LT] = "<", [AOP_LE] = "<=",
    [AOP_GT] = ">", [AOP_GE] = ">=", [AOP_IS] = "is", [AOP_IS_NOT] = "is not", [AOP_IN] = "in",
    [AOP_NOT_IN] = "not in",
};

#define NODE(K, f) {#f, FIELD_NODE, offsetof(Ast##K, f)},
#define LIST(K, f) {#f, FIELD_LIST, offsetof(Ast##K, f)},
#define SYM(K, f) {#f, FIELD_SYM, offsetof(Ast##K, f)},
#define INT(K, f) {#f, FIELD_INT, offsetof(Ast##K, f)},
#define STR(K, f) {#f, FIELD_STR, offsetof(Ast##K, f)},
#define REAL(K, f) {#f, FIELD_REAL, offsetof(Ast##K, f)},
#define NOTE(K, t, f)
#define AST(K, cat, fields) [AST_##K] = {#K, CAT_##cat, {fields {NULL, FIELD_NODE, 0}}, sizeof(Ast##K)},
const AstInfo ast_info[AST_COUNT] = {
#include "frontend/syntax/ast.def"
};

Ast *ast_alloc(Arena *a, AstKind kind, Span span)
{
    Ast *n = arena_alloc(a, ast_info[kind].size);

    n->kind = (uint8_t)kind;
    n->span = span;
    return n;
}

/* Fields end at the first without a name: the table cannot count them. */
#define EACH_FIELD(n, f) for (const AstField *f = ast_info[(n)->kind].field; f->name; f++)

#define NODE(K, f) {CHILD_NODE, offsetof(Ast##K, f)},
#define LIST(K, f) {CHILD_LIST, offsetof(Ast##K, f)},
#define SYM(K, f)
#define INT(K, f)
#define STR(K, f)
#define REAL(K, f)
#define NOTE(K, t, f)
#define AST(K, cat, fields) [AST_##K] = {fields {CHILD_END, 0}},
const AstChild ast_child[AST_COUNT][8] = {
#include "frontend/syntax/ast.def"
};

bool ast_walk(Ast *n, bool (*fn)(Ast *child, void *state), void *state)
{
    for (const AstChild *f = ast_child[n->kind]; f->kind; f++) {
        if (f->kind == CHILD_NODE) {
            Ast *c = *ast_child_node(n, f);
            if (c && !fn(c, state))
                return false;
        } else {
            AstSeq *s = ast_child_list(n, f);
            for (int i = 0; i < s->n; i++)
                if (!fn(s->at[i], state))
                    return false;
        }
    }
    return true;
}

bool ast_is_marker_base(const Ast *e)
{
    static const char *const markers[] = {"Generic", "Protocol", "ABC"};
    const Ast *b = AST_IS(e, Subscript) ? AST_AS(e, Subscript)->value : e;
    Sym name = AST_IS(b, Name) ? AST_AS(b, Name)->id : AST_IS(b, Attribute) ? AST_AS(b, Attribute)->attr : NULL;

    for (size_t i = 0; name && i < sizeof markers / sizeof *markers; i++)
        if (!strcmp(name->text, markers[i]))
            return true;
    return false;
}

const Ast *ast_class_base(const AstClassDef *c)
{
    const Ast *first = NULL;

    for (int i = 0; i < c->bases.n; i++) {
        const AstArg *a = AST_AS(c->bases.at[i], Arg);
        const Ast *b = !AST_IS(c->bases.at[i], Arg) ? c->bases.at[i] : a->name || a->stars ? NULL : a->value;
        if (b && !ast_is_marker_base(b))
            return b;
        if (!first)
            first = b;
    }
    return first;
}

static bool seq_equal(const AstSeq *a, const AstSeq *b)
{
    if (a->n != b->n)
        return false;
    for (int i = 0; i < a->n; i++)
        if (!ast_equal(a->at[i], b->at[i]))
            return false;
    return true;
}

static bool field_equal(const AstField *f, const char *a, const char *b)
{
    switch (f->kind) {
    case FIELD_NODE: return ast_equal(*(Ast *const *)a, *(Ast *const *)b);
    case FIELD_LIST: return seq_equal((const AstSeq *)a, (const AstSeq *)b);
    case FIELD_SYM: return *(const Sym *)a == *(const Sym *)b;
    case FIELD_INT: return *(const int64_t *)a == *(const int64_t *)b;
    case FIELD_REAL: return !memcmp(a, b, sizeof(double));
    case FIELD_STR: {
        const AstText *x = (const AstText *)a, *y = (const AstText *)b;
        return x->n == y->n && !memcmp(x->n ? x->s : "", y->n ? y->s : "", x->n);
    }
    }
    return false;
}

bool ast_equal(const Ast *a, const Ast *b)
{
    if (!a || !b || a->kind != b->kind)
        return a == b;
    EACH_FIELD(a, f)
        if (!field_equal(f, (const char *)a + f->offset, (const char *)b + f->offset))
            return false;
    return true;
}

/* ---- dump ---- */

static void dump(const Ast *n, int depth, const char *label, StrBuf *out);

static void dump_list(const AstSeq *s, int depth, const char *label, StrBuf *out)
{
    if (!s->n)
        return;
    sb_pad(out, ' ', (size_t)depth * 2);
    sb_printf(out, "%s:\n", label);
    for (int i = 0; i < s->n; i++)
        dump(s->at[i], depth + 1, NULL, out);
}

/* Plain fields stand on the node's own line, children below it. */
static void dump_value(const Ast *n, const AstField *f, StrBuf *out)
{
    const char *p = (const char *)n + f->offset;

    if (f->kind == FIELD_SYM && *(const Sym *)p)
        sb_printf(out, " %s=%s", f->name, (*(const Sym *)p)->text);
    else if (f->kind == FIELD_INT && !strcmp(f->name, "op"))
        sb_printf(out, " %s", ast_op_text[*(const int64_t *)p]);
    else if (f->kind == FIELD_INT && !strcmp(f->name, "conversion") && *(const int64_t *)p)
        sb_printf(out, " conversion=%c", (char)*(const int64_t *)p);
    else if (f->kind == FIELD_INT && (*(const int64_t *)p || !strcmp(f->name, "value")))
        sb_printf(out, " %s=%lld", f->name, (long long)*(const int64_t *)p);
    else if (f->kind == FIELD_REAL)
        sb_printf(out, " %s=%.17g", f->name, *(const double *)p);
    else if (f->kind == FIELD_STR && (((const AstText *)p)->n || !strcmp(f->name, "value"))) {
        sb_printf(out, " %s=", f->name);
        sb_put_json(out, ((const AstText *)p)->n ? ((const AstText *)p)->s : "", ((const AstText *)p)->n);
    }
}

static void dump(const Ast *n, int depth, const char *label, StrBuf *out)
{
    sb_pad(out, ' ', (size_t)depth * 2);
    if (label)
        sb_printf(out, "%s: ", label);
    sb_puts(out, ast_info[n->kind].name);
    EACH_FIELD(n, f)
        dump_value(n, f, out);
    sb_putc(out, '\n');
    EACH_FIELD(n, f) {
        if (f->kind == FIELD_NODE && *ast_node_field(n, f))
            dump(*ast_node_field(n, f), depth + 1, f->name, out);
        else if (f->kind == FIELD_LIST)
            dump_list(ast_list_field(n, f), depth + 1, f->name, out);
    }
}

void ast_dump(const Ast *n, StrBuf *out)
{
    dump(n, 0, NULL, out);
}
