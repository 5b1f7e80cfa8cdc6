/*
 * Statements that compute a value for nothing: `x.sort()` of a tensor, `s.strip()` of a text, `sorted(xs)`, `n == 3`, alone on a line.
 *
 * Tensors and texts are values, their methods give new ones; who comes from lists, or from in-place methods, forgets to store them.
 * A method is called for nothing only where it does nothing else: those of tensors that have a rule, and those of texts that give a text.
 * A body of one statement is left alone, which times it or waits for what it raises; so is what stands below a try.
 */
#include "frontend/check/checker.h"

#include <stdio.h>
#include <string.h>

/* "x" or "self.x"; false: the value has no such name. */
static bool name_of(const Ast *e, char *out, size_t size)
{
    const AstAttribute *a = AST_AS(e, Attribute);

    if (e->kind == AST_Name)
        return snprintf(out, size, "%s", AST_AS(e, Name)->id->text) < (int)size;
    if (e->kind != AST_Attribute || !AST_IS(a->value, Name))
        return false;
    return snprintf(out, size, "%s.%s", AST_AS(a->value, Name)->id->text, a->attr->text) < (int)size;
}

/* Does the method of such a value give another, and nothing else? */
static bool gives_value(Check *C, const Type *self, const Type *result, const char *method)
{
    if (type_is_any(self) || type_is_any(result) || self->kind != result->kind)
        return false;
    return self->kind == TY_STR || (self->kind == TY_TENSOR && tensor_has_rule(C, method));
}

static void said(Check *C, const Ast *call, const char *function, const char *kept)
{
    char who[80], rest[140] = "";

    snprintf(who, sizeof who, "%s()", function);
    if (kept)
        snprintf(rest, sizeof rest, ": %s stays as it is", kept);
    REPORT(C, E0919, call->span, who, rest);
}

/* sorted(xs): a builtin that does nothing but give a value, or would do something only when that is gone through. */
static void unused_builtin(Check *C, const AstCall *c)
{
    static const char *const names[] = {"sorted", "reversed", "map", "filter", "zip", "enumerate", "len", "abs", "range", NULL};
    const AstName *f = AST_IS(c->func, Name) ? AST_AS(c->func, Name) : NULL;
    const AstArg *x = c->args.n && AST_IS(c->args.at[0], Arg) ? AST_AS(c->args.at[0], Arg) : NULL;
    char name[96], done[112];
    bool named = x && (AST_IS(x->value, Name) || AST_IS(x->value, Attribute)) && name_of(x->value, name, sizeof name);
    int i = 0;

    while (names[i] && (!f || f->bind != BIND_PRELUDE || strcmp(f->id->text, names[i])))
        i++;
    if (!names[i])
        return;
    said(C, (Ast *)c, names[i], i < 2 && named ? name : NULL);
    if (!C->shown)
        return;
    if (i < 2 && named) {
        snprintf(done, sizeof done, "%s = ", name);
        diag_help(C->last, "store it: %s = %s(%s)", name, names[i], name);
        diag_fix(C->last, (Span){c->ast.span.lo, c->ast.span.lo}, done);
    } else
        diag_help(C->last, i == 2 ? "map runs its function when its results are taken: for x in xs: f(x), or list(map(f, xs))"
                                  : "store the value, or leave it out");
}

/* n == 3 alone on a line is n = 3 with a slip of the pen. */
static void unused_comparison(Check *C, const AstCompare *c)
{
    char name[96];
    const AstCompareItem *x = c->rest.n == 1 ? AST_AS(c->rest.at[0], CompareItem) : NULL;
    const Type *t = type_found(c->left);

    if (!x || x->op != AOP_EQ || !AST_IS(c->left, Name) || type_is_any(t) || t->kind == TY_INSTANCE || t->kind >= TY_TENSOR ||
        !name_of(c->left, name, sizeof name))
        return;
    REPORT(C, E0919, c->ast.span, "'=='", "");
    if (C->shown)
        diag_help(C->last, "'=' assigns: %s = ...", name);
}

/* The tensor x of x.at[i].set(v), and of x.sort(); NULL: something else. */
static const Ast *stays(Check *C, const AstAttribute *f, const Ast *call)
{
    const AstSubscript *place = AST_AS(f->value, Subscript);
    const AstAttribute *at = AST_IS(f->value, Subscript) ? AST_AS(place->value, Attribute) : NULL;

    if (at && AST_IS(place->value, Attribute) && !strcmp(at->attr->text, "at")) {
        const Type *t = type_found(at->value), *made = type_found(call);
        return !type_is_any(t) && t->kind == TY_TENSOR && !type_is_any(made) && made->kind == TY_TENSOR ? at->value : NULL;
    }
    return gives_value(C, type_found(f->value), type_found(call), f->attr->text) ? f->value : NULL;
}

void unused_result(Check *C, const Ast *s)
{
    const Ast *call = AST_IS(s, ExprStmt) ? AST_AS(s, ExprStmt)->value : NULL;
    const AstAttribute *f = AST_IS(call, Call) ? AST_AS(AST_AS(call, Call)->func, Attribute) : NULL;
    const Ast *self;
    char name[96], done[112];

    if (!call || C->kernel || C->tries || C->home->library)
        return;
    if (call->kind == AST_Compare)
        unused_comparison(C, AST_AS(call, Compare));
    if (call->kind == AST_Call)
        unused_builtin(C, AST_AS(call, Call));
    if (!f || f->ast.kind != AST_Attribute || !(self = stays(C, f, call)) || !name_of(self, name, sizeof name))
        return;
    said(C, call, f->attr->text, name);
    if (!C->shown)
        return;
    snprintf(done, sizeof done, "%s = ", name);
    diag_help(C->last, "store it: %s%s%s.%s(...)", done, name, self == f->value ? "" : ".at[...]", f->attr->text);
    diag_fix(C->last, (Span){call->span.lo, call->span.lo}, done);
}
