/*
 * Tensors with "..." in their shape.  An operation's rules know the number of
 * axes, so they are asked for each of some lengths that "..." may have: as no
 * axis, as one and as two, whose sizes are names of their own.  What comes out
 * alike is the result, with "..." where these axes have gone; what fails for
 * every length is a mistake.
 */
#include "frontend/check/checker.h"

#include <string.h>

enum { LENGTHS = 3 };

/* Is it, or does it hold, a tensor with "..."? out: the first of them. */
static bool holds_segment(const Type *t, const Type **out)
{
    if (type_is_any(t))
        return false;
    if (type_is_segmented(t)) {
        *out = *out ? *out : t;
        return true;
    }
    for (int i = 0; (t->kind == TY_LIST || t->kind == TY_TUPLE) && i < t->n; i++)
        if (holds_segment(t->item[i], out))
            return true;
    return false;
}

bool type_is_segmented(const Type *t)
{
    return !type_is_any(t) && t->kind == TY_TENSOR && t->tensor->rank == RANK_UNKNOWN && t->n;
}

static const Dim *segment(Check *C)
{
    for (int i = 0; !C->segment[0] && i < LENGTHS - 1; i++)
        C->segment[LENGTHS - 2 - i] = dim_var(sym("..."), 1, INT64_MAX);
    return C->segment;
}

/* t with "..." of so many axes. */
static const Type *of_length(Check *C, const Type *t, int length)
{
    const Type *m[ITEMS_MAX];
    TType x;
    int front;

    if (type_is_segmented(t)) {
        front = type_front(t);
        if (front + length + type_back(t) > 15)
            return type_tensor_unknown();
        x = *t->tensor;
        x.rank = (uint8_t)(front + length + type_back(t));
        memcpy(x.shape + front, segment(C), sizeof(Dim) * (size_t)length);
        memcpy(x.shape + front + length, t->tensor->shape + front, sizeof(Dim) * (size_t)type_back(t));
        return type_tensor(&x);
    }
    if (type_is_any(t) || (t->kind != TY_LIST && t->kind != TY_TUPLE) || t->n < 1 || t->n > ITEMS_MAX)
        return t;
    for (int i = 0; i < t->n; i++)
        m[i] = of_length(C, t->item[i], length);
    return t->kind == TY_TUPLE ? type_tuple(m, t->n) : t->exact ? type_list_of(m, t->n) : type_list(m[0]);
}

/* Where the axis of "..." is among the sizes of t; -1: not alone, or not at all. */
static int place_of(Check *C, const TType *t, Dim size)
{
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] == size)
            return i;
    return -1;
}

static bool mentions(Dim d)
{
    return dim_has_var(d, '.');
}

/* From what came out for one axis and for two. */
static const Type *tensors_folded(Check *C, const Type *one, const Type *two)
{
    TType a = *one->tensor, b = *two->tensor;
    const TType unknown = {.dtype = a.dtype == b.dtype ? a.dtype : DT_NONE, .policy = a.policy == b.policy ? a.policy : NULL, .rank = RANK_UNKNOWN};
    int k = a.rank == RANK_UNKNOWN ? -1 : place_of(C, &a, C->segment[0]), grown = k >= 0;

    if (a.rank == RANK_UNKNOWN || b.rank != a.rank + grown || unknown.dtype != a.dtype)
        return type_tensor(&unknown);
    for (int i = 0; grown && i < LENGTHS - 1; i++)
        if (b.shape[k + i] != C->segment[i])
            return type_tensor(&unknown);
    if (grown) {
        memmove(a.shape + k, a.shape + k + 1, sizeof(Dim) * (size_t)(a.rank - k - 1));
        memmove(b.shape + k, b.shape + k + 2, sizeof(Dim) * (size_t)(b.rank - k - 2));
    }
    for (int i = 0; i < a.rank - grown; i++)
        if (a.shape[i] != b.shape[i] || mentions(a.shape[i]))
            a.shape[i] = dim_open();
    if (!grown)
        return type_tensor(&a);
    k = (int)a.rank - 1 - k;
    a.rank = RANK_UNKNOWN;
    return type_tensor_rest(&a, (int)one->tensor->rank - 1 - k, k);
}

static const Type *folded(Check *C, const Type *one, const Type *two)
{
    const Type *m[ITEMS_MAX];

    if (type_is_any(one) || type_is_any(two) || one->kind != two->kind)
        return T_ANY;
    if (one->kind == TY_TENSOR)
        return tensors_folded(C, one, two);
    if ((one->kind != TY_LIST && one->kind != TY_TUPLE) || one->n != two->n || one->exact != two->exact || one->n < 1 || one->n > ITEMS_MAX)
        return one == two && one->kind != TY_INT ? one : T_ANY;
    for (int i = 0; i < one->n; i++)
        m[i] = folded(C, one->item[i], two->item[i]);
    return one->kind == TY_TUPLE ? type_tuple(m, one->n) : one->exact ? type_list_of(m, one->n) : type_list(m[0]);
}

/* "..." of different operands is known to be the same only where they look the same. */
static bool alike(const CallArgs *a, const Type *first)
{
    const Type *t = NULL;

    for (int i = 0; i < a->n; i++, t = NULL)
        if (holds_segment(a->at[i].type, &t) && (t->n != first->n || a->at[i].type->kind != TY_TENSOR))
            return false;
    return true;
}

bool segments_infer(Check *C, const CallArgs *a, SegmentFn *fn, const void *with, const Type **out)
{
    CallArg all[64];
    const Type *first = NULL, *r[LENGTHS];
    bool any = false, ok[LENGTHS];
    long found;

    for (int i = 0; i < a->n && !any; i++)
        any = holds_segment(a->at[i].type, &first);
    if (!any || C->kernel || a->n > 64)
        return false;
    for (int length = LENGTHS; length-- > 0;) {
        found = C->findings;
        for (int i = 0; i < a->n; i++) {
            all[i] = a->at[i];
            all[i].type = of_length(C, a->at[i].type, length);
        }
        C->quiet++;
        r[length] = fn(C, &(CallArgs){all, a->n, a->open}, with);
        C->quiet--;
        ok[length] = C->findings == found;
    }
    if (!ok[0] && !ok[1] && !ok[2] && alike(a, first)) {
        for (int i = 0; i < a->n; i++)
            all[i].type = of_length(C, a->at[i].type, 1);
        fn(C, &(CallArgs){all, a->n, a->open}, with);
    }
    *out = ok[1] && ok[2] ? folded(C, r[1], r[2]) : T_ANY;
    if (type_is_any(*out) && !type_is_any(r[0]) && r[0]->kind == TY_TENSOR)
        *out = type_tensor(&(TType){.dtype = r[0]->tensor->dtype, .policy = r[0]->tensor->policy, .rank = RANK_UNKNOWN});
    return true;
}
