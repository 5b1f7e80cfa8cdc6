/* Elementwise functions and reductions. */
#include "frontend/check/tensorcalls.h"

#include <stdio.h>
#include <string.h>

const Type *rule_elementwise(TCall *c)
{
    const TType *x = tcall_tensor(c, 0);

    if (!x)
        return c->n && (c->at[0].type->kind == TY_FLOAT || c->at[0].type->kind == TY_INT) &&
                       (c->rule->op == OP_sqrt || c->rule->op == OP_exp || c->rule->op == OP_log)
                   ? type_of_kind(TY_FLOAT)
                   : T_ANY;
    return tensor_unary(c->C, (OpId)c->rule->op, c->at[0].type, c->node);
}

/* relu and its kin: the same shape and float dtype. */
const Type *rule_same(TCall *c)
{
    const TType *x = tcall_tensor(c, 0);

    return x ? type_tensor(x) : T_ANY;
}

/* clip: of the shape that x has with its bounds, where these are tensors. */
const Type *rule_clip(TCall *c)
{
    const TType *x = tcall_tensor(c, 0);
    const Type *r = x ? type_tensor(x) : T_ANY;
    const Attr none = attr_default();

    for (int i = 1; x && i < c->n; i++) {
        const Type *bound = c->at[i].type;
        if (type_is_any(bound) || bound->kind != TY_TENSOR)
            continue;
        r = tensor_infer(c->C, OP_maximum, &none, (TType[]){*r->tensor, *bound->tensor}, 2, c->node);
        if (type_is_any(r) || r->kind != TY_TENSOR)
            return T_ANY;
    }
    return r;
}

/* stop_gradient: the same, of trees of tensors too. */
const Type *rule_same_tree(TCall *c)
{
    const TType *x = tcall_tensor(c, 0);
    const Type *t = c->n && !c->at[0].name && !c->at[0].stars ? c->at[0].type : T_ANY;

    return x ? type_tensor(x) : type_is_container(t) ? type_forget(t) : t->kind == TY_INSTANCE ? t : T_ANY;
}

/* softmax, cumsum, flip: the same shape, along an axis that must be there. */
const Type *rule_same_axis(TCall *c)
{
    const TType *x = tcall_tensor(c, 0);

    if (!x)
        return T_ANY;
    return tcall_axis(c, x, tcall_arg(c, 1, "dim", "axis")) == -2 ? tensor_unknown() : type_tensor(x);
}

/* What ranks do together: sums and extremes have the shape of each part, what is joined and cut has one along a dimension that must be there. */
const Type *rule_collective(TCall *c)
{
    const CallArg *what = tcall_arg(c, 0, "op", NULL);
    const TType *x = tcall_tensor(c, 1);
    const char *op = what && what->type->kind == TY_STR && what->type->text ? what->type->text->text : NULL, *name = c->name;
    int axis;

    if (!op || !x)
        return T_ANY;
    if (!strcmp(op, "all_reduce") || !strcmp(op, "all_extreme"))
        return type_tensor(x);
    if (strcmp(op, "all_gather") && strcmp(op, "reduce_scatter"))
        return T_ANY;
    c->name = op;
    axis = tcall_axis(c, x, tcall_arg(c, -1, "dim", NULL));
    c->name = name;
    return axis == -2 ? tensor_unknown() : tensor_of_dtype(x);
}

/* Lists of lists of what Python has for the dtype. */
const Type *rule_tolist(TCall *c)
{
    const TType *x = tcall_tensor(c, 0);
    const Type *t = T_ANY;

    if (!x || x->rank == RANK_UNKNOWN || !x->rank)
        return T_ANY;
    if (x->dtype == DT_bool)
        t = type_of_kind(TY_BOOL);
    else if (x->dtype != DT_NONE && dtype_is_int((DType)x->dtype))
        t = type_int(DIM_BAD);
    else if (x->dtype != DT_NONE && dtype_is_float((DType)x->dtype))
        t = type_of_kind(TY_FLOAT);
    for (int i = 0; i < x->rank; i++)
        t = type_list(t);
    return t;
}

/* tril, triu: of matrices. */
const Type *rule_tri(TCall *c)
{
    const TType *x = tcall_tensor(c, 0);
    char text[96];

    if (!x)
        return T_ANY;
    if (x->rank < 2) {
        snprintf(text, sizeof text, "%s() takes matrices, not %s", c->name, shape_of(x));
        diag_help(REPORT(c->C, E0306, c->node->span, text), "give it the axis that is missing: x[None], x[:, None]");
        return tensor_unknown();
    }
    return type_tensor(x);
}

/* roll: an axis, where one is given. */
const Type *rule_roll(TCall *c)
{
    const TType *x = tcall_tensor(c, 0);

    if (!x)
        return T_ANY;
    return tcall_axis(c, x, tcall_arg(c, 2, "dim", "axis")) == -2 ? tensor_unknown() : type_tensor(x);
}

const Type *rule_where(TCall *c)
{
    TType cond, sum;
    const Type *t;

    if (c->n == 1 && !c->open && tcall_tensor(c, 0) && tcall_tensor(c, 0)->rank != RANK_UNKNOWN)
        return tensor_places(tcall_tensor(c, 0));
    if (c->n == 2 && !c->open)
        diag_help(REPORT(c->C, E0902, c->node->span, "where", "y"),
                  "where(condition, x, y) chooses, where(condition) gives the places where it holds");
    if (c->n != 3 || c->open)
        return T_ANY;
    for (int i = 0; i < 3; i++)
        if (type_is_any(c->at[i].type))
            return T_ANY;
    t = c->at[1].type->kind == TY_TENSOR || c->at[2].type->kind == TY_TENSOR
            ? tensor_binary(c->C, AOP_ADD, c->at[1].type, c->at[2].type, c->node)
            : NULL;
    if (c->at[0].type->kind != TY_TENSOR)
        return T_ANY;
    if (!t || t->kind != TY_TENSOR)
        return tensor_unknown();
    cond = *c->at[0].type->tensor;
    sum = *t->tensor;
    cond.dtype = sum.dtype;
    cond.weak = 0;
    cond.policy = sum.policy;
    return tensor_binary(c->C, AOP_ADD, type_tensor(&cond), t, c->node);
}

const Type *rule_product(TCall *c)
{
    const CallArg *a = tcall_arg(c, 0, NULL, NULL), *b = tcall_arg(c, 1, NULL, NULL);

    if (!a || !b || type_is_any(a->type) || type_is_any(b->type) || a->type->kind != TY_TENSOR || b->type->kind != TY_TENSOR)
        return T_ANY;
    return tensor_binary(c->C, AOP_MATMUL, a->type, b->type, c->node);
}

/* ------------------------------------------------------------- reductions */

static int axis_twice(TCall *c, int axis)
{
    char text[64];

    snprintf(text, sizeof text, "%s: axis %d is named twice", c->name, axis);
    diag_help(REPORT(c->C, E0306, c->node->span, text), "name each axis once; negative ones count from the end");
    return -2;
}

/* Axes named by dim= or axis=, or position 1: a set of indices from the front. -1: not known; -2: reported. */
static int axes_of(TCall *c, const TType *x, bool *gone)
{
    const CallArg *a = tcall_arg(c, 1, "dim", "axis");
    int n = 0;

    if (!a || a->type->kind == TY_NONE) {
        for (int i = 0; i < x->rank; i++)
            gone[i] = true;
        return x->rank;
    }
    if (type_is_any(a->type))
        return -1;
    if (a->type->kind == TY_TUPLE || a->type->kind == TY_LIST) {
        if (a->type->n < 0 || (a->type->kind == TY_LIST && !a->type->exact))
            return -1;
        for (int i = 0; i < a->type->n; i++) {
            CallArg one = {NULL, a->type->item[i], a->node, 0};
            int k = tcall_axis(c, x, &one);
            if (k < 0)
                return k;
            if (gone[k])
                return axis_twice(c, k);
            gone[k] = true;
            n++;
        }
        return n;
    }
    n = tcall_axis(c, x, a);
    if (n >= 0)
        gone[n] = true;
    return n < 0 ? n : 1;
}

const Type *rule_reduce(TCall *c)
{
    const TType *x = tcall_tensor(c, 0);
    TType r;
    bool gone[16] = {false}, keep;
    int n;

    if (!x)
        return T_ANY;
    r = *x;
    if ((c->rule->op == 2 || c->rule->op == 4) && x->dtype != DT_NONE && dtype_is_complex((DType)x->dtype)) {
        char text[96];
        snprintf(text, sizeof text, "%s is not defined for complex numbers (%s)", c->name, dtype_info[x->dtype].name);
        diag_help(REPORT(c->C, E0401, c->node->span, text), "complex numbers have no order: compare abs(x), or x.real");
        return T_ANY;
    }
    if (c->rule->op == 1 && r.dtype != DT_NONE && !dtype_is_inexact((DType)r.dtype))
        r.dtype = DT_f32;                           /* mean and its kin */
    if (c->rule->op == 2)
        r.dtype = DT_int32;                         /* argmax */
    if (c->rule->op == 3)
        r.dtype = DT_bool;
    if (c->rule->op == 0 && r.dtype != DT_NONE && !dtype_is_inexact((DType)r.dtype))
        r.dtype = dtype_accum((DType)r.dtype);      /* sums of integers widen */
    if (r.dtype != x->dtype)
        r.policy = NULL;
    tcall_element(c, -1, &r);
    if (x->rank == RANK_UNKNOWN || c->open)
        return tensor_made(&r, RANK_UNKNOWN, NULL);
    n = axes_of(c, x, gone);
    if (n < 0 || !tcall_keepdim(c, -1, &keep))
        return tensor_made(&r, RANK_UNKNOWN, NULL);
    r.rank = 0;
    for (int i = 0; i < x->rank; i++)
        if (!gone[i])
            r.shape[r.rank++] = x->shape[i];
        else if (keep)
            r.shape[r.rank++] = 1;
    return type_tensor(&r);
}

