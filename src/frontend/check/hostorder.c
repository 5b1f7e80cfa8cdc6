/*
 * min, max and sorted: builtins that compare what they are given, each element with others.
 *
 * Sizes and ints that are known give known results; else the elements are only judged: have they an order, does key= take them?
 */
#include "frontend/check/hostcalls.h"

#include <stdlib.h>
#include <string.h>

/* Of ints that are all known, given one by one; NULL: they are not. */
static const Type *extreme(const CallArgs *a, Dim (*pick)(Dim, Dim))
{
    Dim d = DIM_BAD;

    for (int i = 0; i < a->n; i++) {
        const Type *t = host_arg(a, i);
        if (!t || t->kind != TY_INT || t->value == DIM_BAD)
            return NULL;
        d = i ? pick(d, t->value) : t->value;
    }
    return a->n > 1 ? type_int(d) : NULL;
}

/* The function given as key= gets each element. */
static void judge_key(Check *C, const CallArgs *a, const Type *e, Ast *node)
{
    for (int i = 1; i < a->n; i++)
        if (a->at[i].name && !strcmp(a->at[i].name->text, "key") && !type_is_any(e) && a->at[i].type->kind != TY_NONE)
            host_each(C, a->at[i].type, e, node, node);
}

/* What is sorted, or the least of, is compared, each element with others: two of kinds that have no order are enough. */
static void judge_order(Check *C, const CallArgs *a, Ast *node)
{
    const Type *const *item;
    int n = type_items(host_arg(a, 0), &item);
    long findings = C->findings;

    for (int i = 1; i < a->n; i++)
        if (a->at[i].name && !strcmp(a->at[i].name->text, "key"))
            return;
    for (int i = 1; i < n && findings == C->findings; i++)
        if (!type_is_any(item[0]) && !type_is_any(item[i]))
            host_order(C, AOP_LT, item[0], item[i], a->at[0].node, a->at[0].node);
}

/* The same of the ints of a container. */
static const Type *extreme_of_ints(const Type *t, Dim (*pick)(Dim, Dim))
{
    const Type *const *item;
    int n = type_items(t, &item);
    Dim d = DIM_BAD;

    for (int i = 0; i < n; i++) {
        if (type_is_any(item[i]) || item[i]->kind != TY_INT || item[i]->value == DIM_BAD)
            return NULL;
        d = i ? pick(d, item[i]->value) : item[i]->value;
    }
    return n > 0 ? type_int(d) : NULL;
}

/* The least or largest of the elements of one container. */
static const Type *extreme_element(Check *C, const CallArgs *a, Dim (*pick)(Dim, Dim), Ast *node)
{
    const Type *t = host_arg(a, 0), *e, *known;

    if (!t || t->kind == TY_TENSOR || (a->n > 1 && !a->at[1].name))
        return NULL;
    e = element_of(t);
    judge_key(C, a, e, node);
    judge_order(C, a, node);
    if (a->n == 1 && (known = extreme_of_ints(t, pick)))
        return known;
    return a->n == 1 || (a->n == 2 && !strcmp(a->at[1].name->text, "key")) ? type_settle(e->kind == TY_INT ? type_int(DIM_BAD) : e) : NULL;
}

/* max(a, b) of tensors without an axis: numbers that are tensors, or elements of floats. NULL: not that. */
static const Type *elements_compared(const CallArgs *a)
{
    const Type *t = a->n > 1 && !a->at[0].name && !type_is_any(a->at[0].type) ? a->at[0].type : NULL, *s;

    if (!t || t->kind != TY_TENSOR || a->open || a->at[1].name)
        return NULL;
    s = a->at[1].type;
    if (t->tensor->rank == 0)
        return s->kind == TY_TENSOR && !type_is_any(s) ? T_ANY : t;
    if (type_is_any(s) || t->tensor->rank == RANK_UNKNOWN || s->kind == TY_FLOAT)
        return s->kind == TY_FLOAT && !type_is_any(s) ? t : T_ANY;
    return s->kind == TY_TENSOR && (s->tensor->dtype == DT_NONE || dtype_is_float((DType)s->tensor->dtype)) ? T_ANY : NULL;
}

/* min(a, b) of floats */
static const Type *floats_compared(const CallArgs *a)
{
    for (int i = 0; i < a->n; i++)
        if (a->open || a->at[i].name || a->at[i].type->kind != TY_FLOAT)
            return NULL;
    return a->n > 1 ? type_of_kind(TY_FLOAT) : NULL;
}

void host_alone_judged(Check *C, const CallArgs *a)
{
    const Type *t = host_arg(a, 0);

    if (a->n == 1 && t && (t->kind == TY_INT || t->kind == TY_BOOL || t->kind == TY_NONE))
        host_iterated(C, t, a->at[0].node);
}

/* max(3, "4"): each is compared with another. */
static void judge_pairs(Check *C, const CallArgs *a)
{
    long findings = C->findings;

    for (int i = 1; i < a->n && a->n > 1 && findings == C->findings; i++)
        if (!a->open && !a->at[a->n - 1].name && !type_is_any(a->at[0].type) && !type_is_any(a->at[i].type))
            host_order(C, AOP_LT, a->at[0].type, a->at[i].type, a->at[0].node, a->at[i].node);
}

/* max() of nothing. */
static void some_given(Check *C, const CallArgs *a, const char *name, Ast *node)
{
    if (!a->n && !a->open)
        diag_help(REPORT(C, E0902, node->span, name, "xs"), "give it a list, or the values to compare: %s(a, b)", name);
}

/* min(...), max(...): `pick` of two sizes */
static const Type *host_extreme(Check *C, const CallArgs *a, const char *name, Dim (*pick)(Dim, Dim), Ast *node)
{
    const Type *t = extreme(a, pick);

    some_given(C, a, name, node);
    host_alone_judged(C, a);
    judge_pairs(C, a);
    t = t ? t : floats_compared(a);
    t = t ? t : elements_compared(a);
    return t ? t : extreme_element(C, a, pick, node);
}

const Type *host_min(Check *C, const CallArgs *a, Ast *node) { return host_extreme(C, a, "min", dim_min, node); }
const Type *host_max(Check *C, const CallArgs *a, Ast *node) { return host_extreme(C, a, "max", dim_max, node); }

static int by_value(const void *a, const void *b)
{
    const Dim x = (*(const Type *const *)a)->value, y = (*(const Type *const *)b)->value;

    return x < y ? -1 : x > y;
}

/* Of ints that are all known. NULL: they are not. */
static const Type *ints_sorted(const CallArgs *a)
{
    const Type *const *item, *m[ITEMS_MAX];
    int n = a->n == 1 ? type_items(host_arg(a, 0), &item) : -1;

    for (int i = 0; i < n; i++) {
        if (type_is_any(item[i]) || item[i]->kind != TY_INT || item[i]->value == DIM_BAD || !dim_is_const(item[i]->value))
            return NULL;
        m[i] = item[i];
    }
    if (n <= 0)
        return NULL;
    qsort(m, (size_t)n, sizeof *m, by_value);
    return type_list_of(m, n);
}

/* key=f is called with each element. */
const Type *host_sorted(Check *C, const CallArgs *a, Ast *node)
{
    const Type *t = host_arg(a, 0), *e = t ? element_of(t) : T_ANY;

    if (!t || t->kind == TY_TENSOR)
        return NULL;
    judge_key(C, a, e, node);
    judge_order(C, a, node);
    t = ints_sorted(a);
    return t ? t : type_list(e);
}
