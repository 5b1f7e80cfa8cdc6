/*
 * Host arguments of the library's own functions: dropout(x, p="0.5"), Linear("4", 8), device("gpuu:0").
 *
 * A parameter of the library is annotated where a call can get it wrong in a way that its body does not tell; an annotation there
 * means what it means in the signature of a native, so a float may be any number.  Where there is none its default tells: what is
 * 0.5 or "mean" unless it is given is no text, or no number.  The body is not walked for this.
 */
#include "frontend/check/binding.h"
#include "frontend/check/foreign.h"

#include "frontend/eval/native.h"
#include "runtime/mesh.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------- devices */

bool device_misnamed(const Type *t)
{
    return t->kind == TY_STR && t->text && device_number(t->text->text) < 0;
}

static const char *next_device(void *state)
{
    static const char *const names[] = {"cpu", "gpu", "gpu:0", "gpu:1", "host", "cuda", "cuda:0", NULL};
    int *i = state;

    return names[*i] ? names[(*i)++] : NULL;
}

static const char *next_place(void *state)
{
    int *i = state;
    int far = *i - DT_COUNT;

    if (*i >= DT_COUNT) {
        const char *name = next_device(&far);
        *i = far + DT_COUNT;
        return name;
    }
    return dtype_info[(*i)++].name;
}

void report_device(Check *C, const Type *t, bool or_dtype, const Ast *arg, const Ast *node)
{
    Span span = at_call(node, arg);
    Ast *value = AST_IS(arg, Arg) ? AST_AS(arg, Arg)->value : (Ast *)arg;
    Diag *d = REPORT(C, E0747, span, or_dtype ? "dtype or device" : "device", t->text->text);
    int i = or_dtype ? 0 : DT_COUNT;
    const char *near = closest_name(t->text->text, next_place, &i);

    if (near && AST_IS(value, Str))
        diag_guess(d, span_quoted(value->span), t->text->text, near);
    else
        diag_help(d, "devices are \"cpu\" and \"gpu:0\", \"gpu:1\", ...%s", or_dtype ? "; dtypes f32, bf16, int8 and the like" : "");
    origin_of(C, d, value, DIM_BAD);
}

/* ------------------------------------------------------------- arguments */

/* Kinds that surely do not stand for such a default. */
static bool never_instead(const Type *t, const Ast *dflt)
{
    TypeKind k = t->kind;
    bool text = k == TY_STR || k == TY_BYTES, keyed = k == TY_DICT || k == TY_SET;

    switch (dflt->kind) {
    case AST_Float:
        return text || keyed || k == TY_LIST || k == TY_TUPLE;
    case AST_Int:
        return k == TY_BYTES || keyed;
    case AST_Str:
        return k == TY_INT || k == TY_FLOAT || k == TY_BOOL || k == TY_BYTES || keyed || k == TY_TENSOR;
    case AST_Const:
        return AST_AS(dflt, Const)->value != CONST_NONE && AST_AS(dflt, Const)->value != CONST_ELLIPSIS && (text || keyed);
    default:
        return false;
    }
}

static const char *kind_of_default(const Ast *dflt)
{
    return dflt->kind == AST_Float ? "float" : dflt->kind == AST_Int ? "int" : dflt->kind == AST_Str ? "str" : "bool";
}

static bool names_type(const Ast *want, const char *name)
{
    if (AST_IS(want, BinOp))
        return names_type(AST_AS(want, BinOp)->left, name) || names_type(AST_AS(want, BinOp)->right, name);
    return AST_IS(want, Name) && !strcmp(AST_AS(want, Name)->id->text, name);
}

typedef struct { AstSeq texts; int i; } Choices;

static const char *next_choice(void *state)
{
    Choices *c = state;

    while (c->i < c->texts.n && !AST_IS(c->texts.at[c->i], Str))
        c->i++;
    return c->i < c->texts.n ? AST_AS(c->texts.at[c->i++], Str)->value.s : NULL;
}

/* A text that is none of those that a parameter takes. */
static void report_choice(Check *C, const char *what, AstSeq texts, const CallArg *x, Ast *node)
{
    Ast *value = AST_IS(x->node, Arg) ? AST_AS(x->node, Arg)->value : x->node;
    Choices all = {texts, 0};
    const char *near = closest_name(x->type->text->text, next_choice, &all);
    StrBuf want = {0}, got = {0};
    Diag *d;

    for (int i = 0; i < texts.n; i++) {
        sb_puts(&want, i == 0 ? "" : i == texts.n - 1 ? " or " : ", ");
        ast_print(texts.at[i], &want);
    }
    sb_printf(&got, "\"%s\"", x->type->text->text);
    d = REPORT(C, E0906, at_call(node, x->node), what, sb_str(&want), sb_str(&got));
    if (near && AST_IS(value, Str))
        diag_guess(d, span_quoted(value->span), x->type->text->text, near);
    else
        diag_help(d, "pass one of these texts");
    origin_of(C, d, value, DIM_BAD);
    sb_done(&want);
    sb_done(&got);
}

static bool judge(Check *C, const char *callee, const AstParam *p, const CallArg *x, Ast *node)
{
    StrBuf want = {0};
    char what[160];

    if (type_is_any(x->type) || x->type->kind == TY_UNION || (x->type->kind == TY_NONE && AST_IS(p->dflt, Const)))
        return true;
    if (p->annotation ? !native_refuses(x->type, p->annotation) : !p->dflt || !never_instead(x->type, p->dflt))
        return true;
    if (p->annotation && names_type(p->annotation, "Device") && device_misnamed(x->type)) {
        report_device(C, x->type, names_type(p->annotation, "DType"), x->node, node);
        return false;
    }
    snprintf(what, sizeof what, "the argument '%s' of %s()", p->name->text, callee);
    if (native_choices(p->annotation).n && x->type->kind == TY_STR) {
        report_choice(C, what, native_choices(p->annotation), x, node);
        return false;
    }
    if (p->annotation)
        ast_print(p->annotation, &want);
    else
        sb_puts(&want, kind_of_default(p->dflt));
    native_report(C, what, sb_str(&want), x, node);
    sb_done(&want);
    return false;
}

bool library_judged(Check *C, AstSeq params, const char *callee, const Slots *s, Ast *node)
{
    bool fit = true;
    int k = 0;

    for (int i = 0; i < params.n && k < s->n; i++) {
        const AstParam *p = AST_AS(params.at[i], Param);
        const CallArg *x;
        if (p->ast.kind != AST_Param || p->kind == PARAM_CONSTRAINT || p->kind == PARAM_ANY || !p->name)
            continue;
        x = s->at[k++].arg;
        if (x && p->kind != PARAM_VARARGS && p->kind != PARAM_KWARGS)
            fit &= judge(C, callee, p, x, node);
    }
    return fit;
}
