/*
 * Statements that compute a value for nothing: `x.sort()` of a tensor, `s.strip()` of a text, alone on a line.
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

void unused_result(Check *C, const Ast *s)
{
    const Ast *call = AST_IS(s, ExprStmt) ? AST_AS(s, ExprStmt)->value : NULL;
    const AstAttribute *f = call && AST_IS(call, Call) ? AST_AS(AST_AS(call, Call)->func, Attribute) : NULL;
    char name[96], done[112];

    if (!f || f->ast.kind != AST_Attribute || C->kernel || C->tries || C->home->library || !name_of(f->value, name, sizeof name) ||
        !gives_value(C, type_found(f->value), type_found(call), f->attr->text))
        return;
    snprintf(done, sizeof done, "%s = ", name);
    REPORT(C, E0919, call->span, f->attr->text, name);
    if (C->shown)
        diag_fix(C->last, (Span){call->span.lo, call->span.lo}, done);
}
