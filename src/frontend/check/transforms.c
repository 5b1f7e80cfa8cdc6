/* Functions made of functions: what calling grad(f), value_and_grad(f), vmap(f) or jit(f) asks of f and gives. */
#include "frontend/check/checker.h"

#include <stdio.h>
#include <string.h>

static Type const *without_axis(const Type *t)
{
    TType x;

    if (type_is_any(t) || t->kind != TY_TENSOR || t->tensor->rank == RANK_UNKNOWN || !t->tensor->rank)
        return t;
    x = *t->tensor;
    x.rank--;
    for (int i = 0; i < x.rank; i++)
        x.shape[i] = t->tensor->shape[i + 1];
    return type_tensor(&x);
}

/* vmap(f)(x, y): f on slices of the first axis, whose sizes must agree. */
const Type *transform_vmap(Check *C, const Type *f, CallArgs *a, Ast *node)
{
    CallArg inner[64];
    CallArgs in = {inner, a->n, a->open};
    const Type *r;
    Dim lead = DIM_BAD;
    TType x;

    for (int i = 0; i < a->n; i++) {
        const Type *t = a->at[i].type;
        inner[i] = a->at[i];
        inner[i].type = without_axis(t);
        if (type_is_any(t) || t->kind != TY_TENSOR || t->tensor->rank == RANK_UNKNOWN || !t->tensor->rank)
            continue;
        if (lead == DIM_BAD)
            lead = t->tensor->shape[0];
        else if (dim_is_const(lead) && dim_is_const(t->tensor->shape[0]) && lead != t->tensor->shape[0]) {
            char text[128];
            snprintf(text, sizeof text, "vmap: the mapped axes have sizes %lld and %lld", (long long)lead,
                     (long long)t->tensor->shape[0]);
            REPORT(C, E0306, node->span, text);
            return T_ANY;
        }
    }
    r = call_type(C, f, &in, node);
    if (type_is_any(r) || r->kind != TY_TENSOR || r->tensor->rank == RANK_UNKNOWN || r->tensor->rank > 14 || lead == DIM_BAD)
        return T_ANY;
    x = *r->tensor;
    memmove(x.shape + 1, x.shape, sizeof(Dim) * x.rank);
    x.shape[0] = lead;
    x.rank++;
    return type_tensor(&x);
}

/* Without argnums, Parameters among the arguments come first; what Parameter() gives has no type here. */
static bool no_parameters(const CallArgs *a)
{
    for (int i = 0; i < a->n; i++)
        if (type_is_any(a->at[i].type))
            return false;
    return true;
}

const Type *transform_grad(Check *C, const Type *t, CallArgs *a, Ast *node)
{
    const Type *f = t->ref, *r = call_type(C, f, a, node), *pair[2];
    int which = (int)(t->value >> 8) & 255;
    bool sure = t->value >> 16 || no_parameters(a);
    const Type *g = a->n > which && !a->at[which].name && !a->open && sure ? a->at[which].type : T_ANY;

    if (g->kind != TY_TENSOR)           /* numbers become tensors, trees of them trees */
        g = T_ANY;

    if (!type_is_any(r) && r->kind == TY_TENSOR && r->tensor->rank != RANK_UNKNOWN && r->tensor->rank) {
        Diag *d = REPORT(C, E0309, node->span, shape_of(r->tensor));
        diag_help(d, "reduce the result to one number, for example with .sum() or .mean()");
        diag_help(d, "for all derivatives use jacrev(f), and jacfwd(grad(f)) for second ones");
        return T_ANY;
    }
    if ((t->value & 255) == TRANSFORM_GRAD)
        return g;
    pair[0] = r;
    pair[1] = g;
    return type_tuple(pair, 2);
}

/* argnums=k: one position; false: something else is asked for. */
static bool argnum(const CallArgs *a, int *out)
{
    int64_t k = 0;

    if (a->n > 2 || (a->n == 2 && (a->at[1].type->kind != TY_INT || !dim_const_value(a->at[1].type->value, &k) || k < 0 || k > 30 ||
                                   (a->at[1].name && strcmp(a->at[1].name->text, "argnums")))))
        return false;
    *out = (int)k;
    return true;
}

/* jit(f) is f to its callers; grad(f), vmap(f) call it their way. false: not one of them. */
bool transform_make(const char *name, CallArgs *a, const Type **out)
{
    const Type *f = a->n ? a->at[0].type : NULL;
    int which = 0;

    if (!f || (f->kind != TY_FUNC && f->kind != TY_TRANSFORM && f->kind != TY_METHOD))
        return false;
    if (!strcmp(name, "jit") || !strcmp(name, "checkpoint"))
        *out = f;
    else if (!strcmp(name, "grad") && argnum(a, &which))
        *out = type_transform(TRANSFORM_GRAD | which << 8 | (a->n > 1) << 16, f);
    else if (!strcmp(name, "value_and_grad") && argnum(a, &which))
        *out = type_transform(TRANSFORM_VALUE_AND_GRAD | which << 8 | (a->n > 1) << 16, f);
    else if (!strcmp(name, "vmap") && a->n == 1)
        *out = type_transform(TRANSFORM_VMAP, f);
    else
        return false;
    return true;
}
