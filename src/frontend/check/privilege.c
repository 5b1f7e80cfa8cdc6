/* Region annotations are read here, for the checker and for the evaluator alike. */
#include "frontend/check/privilege.h"

#include <string.h>

static const char *last_name(const Ast *e)
{
    return AST_IS(e, Attribute) ? AST_AS(e, Attribute)->attr->text : AST_IS(e, Name) ? AST_AS(e, Name)->id->text : "";
}

static const struct { const char *name; AstOp op; const char *text; } reductions[] = {
    {"+", AOP_ADD, "reduce(+)"}, {"add", AOP_ADD, "reduce(+)"}, {"sum", AOP_ADD, "reduce(+)"},
    {"*", AOP_MUL, "reduce(*)"}, {"mul", AOP_MUL, "reduce(*)"}, {"prod", AOP_MUL, "reduce(*)"},
    {"&", AOP_BITAND, "reduce(and)"}, {"and", AOP_BITAND, "reduce(and)"}, {"|", AOP_BITOR, "reduce(or)"}, {"or", AOP_BITOR, "reduce(or)"},
};

/* reduce alone adds up. */
static Privilege reduction(const Ast *e)
{
    const AstCall *c = AST_AS(e, Call);
    const Ast *a = AST_IS(e, Call) && c->args.n == 1 && AST_IS(c->args.at[0], Arg) ? AST_AS(c->args.at[0], Arg)->value : NULL;
    const char *name = !a ? "+" : AST_IS(a, Str) ? AST_AS(a, Str)->value.s : last_name(a);

    for (size_t i = 0; i < sizeof reductions / sizeof *reductions; i++)
        if (!strcmp(reductions[i].name, name))
            return (Privilege){PRIV_REDUCE, reductions[i].op, reductions[i].text};
    return (Privilege){PRIV_NONE, AOP_COUNT, ""};
}

Privilege privilege_of(const Ast *annotation)
{
    static const struct { const char *name; PrivilegeKind kind; } plain[] = {
        {"read", PRIV_READ}, {"write", PRIV_WRITE}, {"readwrite", PRIV_READWRITE}, {"read_write", PRIV_READWRITE}};
    const Ast *e;
    const char *name;

    if (!AST_IS(annotation, Subscript) || strcmp(last_name(AST_AS(annotation, Subscript)->value), "Region"))
        return (Privilege){PRIV_NONE, AOP_COUNT, ""};
    e = AST_AS(annotation, Subscript)->index;
    if (AST_IS(e, Tuple) && AST_AS(e, Tuple)->elts.n)
        e = AST_AS(e, Tuple)->elts.at[0];
    name = AST_IS(e, Str) ? AST_AS(e, Str)->value.s : AST_IS(e, Call) ? last_name(AST_AS(e, Call)->func) : last_name(e);
    if (!strcmp(name, "reduce"))
        return reduction(e);
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (!strcmp(plain[i].name, name))
            return (Privilege){plain[i].kind, AOP_COUNT, plain[i].name};
    return (Privilege){PRIV_NONE, AOP_COUNT, ""};
}
