/*
 * Derivatives of functions as types: grad, value_and_grad, jacobians, the hessian, vjp with its pullback, jvp.
 *
 * A gradient is like what it is derived by.  The function is called with the arguments as they are given; that its result is one
 * number, that argument `argnum` has floats, and that tangents and cotangents have the sizes of what they belong to is judged here.
 */
#include "frontend/check/transforms.h"

#include <stdio.h>
#include <string.h>

/*
 * value of a TY_TRANSFORM, from bit 8: 8 bits argnum, 1 bit argnums was given, 1 bit has_aux;
 * argnums of a tuple: 4 bits how many and one more, then 5 bits for each
 */
enum { ARGNUM = 8, GIVEN = 16, AUX = 17, ARGNUMS = 18, ARGNUMS_MAX = 8 };

/* May they be the same? */
static bool sizes_agree(const TType *a, const TType *b)
{
    if (a->rank == RANK_UNKNOWN || b->rank == RANK_UNKNOWN)
        return true;
    for (int i = 0; i < a->rank && i < b->rank; i++)
        if (dims_differ(a->shape[i], b->shape[i]))
            return false;
    return a->rank == b->rank;
}

/* Without argnums, Parameters among the arguments come first: any tensor may be one, and a module holds some. */
static bool may_be_parameter(const Check *C, const Type *t)
{
    if (type_is_any(t) || (C->parameters && t->kind == TY_TENSOR) || (t->kind == TY_INSTANCE && ((const Cls *)t->ref)->is_module))
        return true;
    for (int i = 0; (t->kind == TY_TUPLE || t->kind == TY_LIST || t->kind == TY_DICT) && i < t->n; i++)
        if (may_be_parameter(C, t->item[i]))
            return true;
    return false;
}

/* The first of several alone may be a module: its gradient is like it. */
static bool no_parameters(const Check *C, const CallArgs *a)
{
    for (int i = a->n > 1 && !type_is_any(a->at[0].type) && a->at[0].type->kind == TY_INSTANCE; i < a->n; i++)
        if ((a->n > 1 || type_is_any(a->at[0].type)) && may_be_parameter(C, a->at[i].type))
            return false;
    return true;
}

/* By a narrow tensor with a loss scale or a master copy it is f32 (docs/numerics.md). */
static TType *gradient_like(TType *g, const void *with)
{
    if (g->policy && (g->policy->has_scale || g->policy->master) && dtype_is_float((DType)g->dtype) && dtype_info[g->dtype].bits < 32) {
        g->dtype = DT_f32;
        g->policy = NULL;
    }
    return g;
}

/* May that be a scalar? false: no, reported. */
static bool is_scalar(Check *C, const Type *value, Ast *node)
{
    Diag *d;

    if (type_is_any(value))
        return true;
    if (value->kind == TY_TUPLE || value->kind == TY_LIST || value->kind == TY_DICT || value->kind == TY_STR || value->kind == TY_NONE) {
        diag_help(REPORT(C, E0309, node->span, type_text(value)), value->kind == TY_TUPLE ? "has_aux=True allows (value, anything)"
                                                                                          : "return one number");
        return false;
    }
    if (value->kind != TY_TENSOR || value->tensor->rank == RANK_UNKNOWN || !value->tensor->rank)
        return true;
    d = REPORT(C, E0309, node->span, shape_of(value->tensor));
    diag_help(d, "reduce the result to one number, for example with .sum() or .mean()");
    diag_help(d, "for all derivatives use jacrev(f), and jacfwd(grad(f)) for second ones");
    return false;
}

static const Ast *value_of(const Ast *arg) { return AST_IS(arg, Arg) ? AST_AS(arg, Arg)->value : arg; }

static void argnum_judged(Check *C, const char *transform, int which, const CallArgs *a, Ast *node)
{
    char text[96];

    if (which < a->n || a->open || call_has_names(a))
        return;
    snprintf(text, sizeof text, "%s: argnums has %d, the call %d argument%s", transform, which, a->n, a->n == 1 ? "" : "s");
    diag_help(REPORT(C, E0306, node->span, text), "argnums counts the arguments from 0");
}

/* The gradient of argument `which`; numbers become tensors. */
static const Type *gradient_of(Check *C, const CallArgs *a, int which, Ast *node)
{
    const Type *g = a->n > which && !a->at[which].name && !a->open ? a->at[which].type : T_ANY;
    char text[96];

    argnum_judged(C, "grad", which, a, node);
    if (type_is_any(g))
        return T_ANY;
    if (g->kind == TY_STR || g->kind == TY_BOOL || g->kind == TY_NONE || (g->kind == TY_INT && AST_IS(value_of(a->at[which].node), Int)) ||
        (g->kind == TY_TENSOR && !C->branches && g->tensor->dtype != DT_NONE && !dtype_is_float((DType)g->tensor->dtype) &&
         !dtype_is_complex((DType)g->tensor->dtype))) {
        snprintf(text, sizeof text, "grad: argument %d, by which is derived, has no floats", which);
        diag_help(REPORT(C, E0401, node->span, text), "derive by a tensor of floats: x.to(f32), or name another argument with argnums=");
        return T_ANY;
    }
    if (g->kind == TY_INSTANCE)
        return g->inst ? g : T_ANY;
    g = tree_changed(g, &(TreeChange){gradient_like, NULL});
    return g ? g : T_ANY;
}

/* Of one argument, or a tuple of those of several. */
static const Type *gradients(Check *C, const Type *t, const CallArgs *a, Ast *node)
{
    const Type *m[ARGNUMS_MAX];
    int n = (int)(t->value >> ARGNUMS & 15) - 1;

    if (n < 0)
        return (t->value >> GIVEN & 1) || no_parameters(C, a) ? gradient_of(C, a, (int)(t->value >> ARGNUM) & 255, node) : T_ANY;
    for (int i = 0; i < n; i++)
        m[i] = gradient_of(C, a, (int)(t->value >> (ARGNUMS + 4 + 5 * i) & 31), node);
    return type_tuple(m, n);
}

const Type *transform_grad(Check *C, const Type *t, CallArgs *a, Ast *node)
{
    const Type *r = call_type(C, t->ref, a, node), *pair[2], *value = r, *g = gradients(C, t, a, node);
    bool aux = t->value >> AUX & 1;

    if (aux && !type_is_any(r) && (r->kind == TY_TENSOR || r->kind == TY_FLOAT || (r->kind == TY_TUPLE && r->n >= 0 && r->n != 2))) {
        diag_help(REPORT(C, E0906, node->span, "with has_aux=True the result of the function", "a pair (value, aux)", type_text(r)),
                  "return value, aux; or leave has_aux out");
        return T_ANY;
    }
    if (aux)
        value = !type_is_any(r) && r->kind == TY_TUPLE && r->n == 2 ? r->item[0] : T_ANY;
    if (!is_scalar(C, value, node))
        return T_ANY;
    pair[0] = (t->value & 255) == TRANSFORM_GRAD ? g : r;
    pair[1] = (t->value & 255) == TRANSFORM_GRAD ? (aux && !type_is_any(r) && r->kind == TY_TUPLE && r->n == 2 ? r->item[1] : T_ANY) : g;
    return (t->value & 255) == TRANSFORM_GRAD && !aux ? g : type_tuple(pair, 2);
}

/* All derivatives of f at one tensor: the result's axes, then the argument's (twice for a hessian). */
const Type *transform_jacobian(Check *C, const Type *t, CallArgs *a, Ast *node, int times)
{
    bool given = t->value >> GIVEN & 1, several = t->value >> ARGNUMS & 15, aux = t->value >> AUX & 1;
    int which = (int)(t->value >> ARGNUM) & 255;
    const Type *r = call_type(C, t->ref, a, node), *x = a->n > which && !a->at[which].name ? a->at[which].type : T_ANY;
    TType j;

    if (given && !several)
        argnum_judged(C, times == 2 ? "hessian" : "the jacobian", which, a, node);
    if (aux || (times == 2 && !is_scalar(C, r, node)))
        return T_ANY;
    if (several || type_is_any(r) || type_is_any(x) || r->kind != TY_TENSOR || x->kind != TY_TENSOR || r->tensor->rank == RANK_UNKNOWN ||
        x->tensor->rank == RANK_UNKNOWN || r->tensor->rank + times * x->tensor->rank > 15 || (a->n != 1 && !given))
        return T_ANY;
    j = *r->tensor;
    for (int i = 0; i < times; i++)
        for (int k = 0; k < x->tensor->rank; k++)
            j.shape[j.rank++] = x->tensor->shape[k];
    return type_tensor(&j);
}

/* vjp(f, *xs): f's result, and its pullback, which has that result and the arguments as its items. */
const Type *transform_vjp(Check *C, const Type *f, const CallArgs *a, Ast *node)
{
    const Type *r = call_type(C, f, &(CallArgs){a->at + 1, a->n - 1, a->open}, node), *m[ITEMS_MAX] = {r};
    bool known = !a->open && !call_has_names(a) && a->n <= ITEMS_MAX;

    for (int i = 1; known && i < a->n; i++)
        m[i] = a->at[i].type;
    return type_tuple((const Type *[]){r, known ? type_partial(TRANSFORM_PULLBACK, f, m, a->n) : T_ANY}, 2);
}

/* Does a cotangent of that shape surely not broadcast to the result's? */
static bool broadcasts_not(const Type *ct, const Type *r)
{
    const TType *c = ct->tensor, *t = r->tensor;

    if (c->rank == RANK_UNKNOWN || t->rank == RANK_UNKNOWN)
        return false;
    for (int i = 1; i <= c->rank && i <= t->rank; i++)
        if (dims_differ(c->shape[c->rank - i], t->shape[t->rank - i]) && dims_differ(c->shape[c->rank - i], 1))
            return true;
    return c->rank > t->rank;
}

/* pull(ct): a tuple of the gradients of all arguments. */
const Type *transform_pullback(Check *C, const Type *t, const CallArgs *a, Ast *node)
{
    const Type *m[ITEMS_MAX], *r = t->item[0], *ct = a->n == 1 ? a->at[0].type : T_ANY;
    char text[96];

    if (!a->open && a->n != 1) {
        snprintf(text, sizeof text, "%d given, it takes 1 by position", a->n);
        diag_help(REPORT(C, E0903, node->span, "a pullback", text), "a pullback takes one argument, the cotangent of the function's result");
    } else if (!type_is_any(ct) && !type_is_any(r) && ct->kind == TY_TENSOR && r->kind == TY_TENSOR && broadcasts_not(ct, r)) {
        StrBuf why = {0};
        sb_printf(&why, "the cotangent has shape %s, the result %s", shape_of(ct->tensor), shape_of(r->tensor));
        diag_help(REPORT(C, E0306, node->span, sb_str(&why)), "a cotangent has the shape of what the function gives");
        origins(C, C->last, node, &(Dim){DIM_BAD}, 1);
        sb_done(&why);
    }
    for (int i = 1; i < t->n; i++) {
        m[i - 1] = type_is_any(t->item[i]) ? NULL : tree_changed(t->item[i], &(TreeChange){gradient_like, NULL});
        m[i - 1] = m[i - 1] ? m[i - 1] : T_ANY;
    }
    return type_tuple(m, t->n - 1);
}

/* jvp(f, xs, vs): f's result twice; each tangent has the sizes of its primal. */
const Type *transform_jvp(Check *C, const Type *f, const Type *xs, const Type *vs, Ast *node)
{
    const Type *const *x, *const *v, *pair[2];
    CallArg arg[ITEMS_MAX];
    int n = type_items(xs, &x), nv = type_items(vs, &v);

    if (n < 0 || n > ITEMS_MAX)
        return T_ANY;
    if (nv >= 0 && n != nv) {
        char text[96];
        snprintf(text, sizeof text, "jvp: %d primal%s and %d tangent%s", n, n == 1 ? "" : "s", nv, nv == 1 ? "" : "s");
        diag_help(REPORT(C, E0306, node->span, text), "each primal has a tangent: zeros_like(x) where it does not change");
        return T_ANY;
    }
    for (int i = 0; i < n; i++) {
        arg[i] = (CallArg){NULL, x[i], node, 0};
        if (i >= nv || type_is_any(x[i]) || type_is_any(v[i]) || x[i]->kind != TY_TENSOR || v[i]->kind != TY_TENSOR ||
            sizes_agree(x[i]->tensor, v[i]->tensor))
            continue;
        StrBuf text = {0};
        sb_printf(&text, "jvp: the primal has shape %s, its tangent %s", shape_of(x[i]->tensor), shape_of(v[i]->tensor));
        diag_help(REPORT(C, E0306, node->span, sb_str(&text)), "a tangent has the shape of what it changes");
        origins(C, C->last, node, &(Dim){DIM_BAD}, 1);
        sb_done(&text);
    }
    pair[0] = pair[1] = call_type(C, f, &(CallArgs){arg, n, false}, node);
    return type_tuple(pair, 2);
}

/* ------------------------------------------------------------- options */

static bool argnum(const Type *t, int64_t *k)
{
    return !type_is_any(t) && t->kind == TY_INT && dim_const_value(t->value, k) && *k >= 0 && *k <= 30;
}

/* argnums=k or argnums=(0, 2): false: not known. */
static bool read_argnums(const Type *t, Dim *value)
{
    const Type *const *m;
    int n = type_is_any(t) ? -1 : type_items(t, &m);
    int64_t k;

    *value |= (Dim)1 << GIVEN;
    if (n < 0 && argnum(t, &k)) {
        *value |= k << ARGNUM;
        return true;
    }
    if (n < 0 || n > ARGNUMS_MAX)
        return false;
    *value |= (Dim)(n + 1) << ARGNUMS;
    for (int i = 0; i < n; i++) {
        if (!argnum(m[i], &k))
            return false;
        *value |= k << (ARGNUMS + 4 + 5 * i);
    }
    return true;
}

/* false: something else is asked for. */
bool transform_grad_options(const CallArgs *a, int at, Dim *value)
{
    for (int i = at; i < a->n; i++) {
        const CallArg *x = &a->at[i];
        if ((!x->name && i == 1) || (x->name && !strcmp(x->name->text, "argnums"))) {
            if (!read_argnums(x->type, value))
                return false;
        } else if (x->name && !strcmp(x->name->text, "has_aux") && x->type->kind == TY_BOOL && x->type->value != BOOL_UNKNOWN) {
            *value |= (Dim)(x->type->value == BOOL_TRUE) << AUX;
        } else {
            return false;
        }
    }
    return true;
}
