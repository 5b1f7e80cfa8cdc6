/*
 * Block values in order: sort, argsort, take_along, and the first places that topk asks for.
 *
 * A block has no places that an element could move to, so each element counts those that come before it, which is the place it goes to;
 * an element of the result is the one that goes there.  Equal elements keep their order, and NaN comes last, as with tensors.  As a running
 * sum does, this takes the square of the axis.
 */
#include "frontend/kernel/oper.h"

#include <math.h>
#include <string.h>

static KVal swapped(Body *B, KVal v, int axis)
{
    KVal axes[2] = {kb_number(axis), kb_number(-1)};

    return axis == kb_type(v)->rank - 1 ? v : kb_transpose(B, v, axes, 2);
}

/* The last axis of v becomes one of its last two, the other is 1 long. */
static KVal laid(Body *B, KVal v, bool down)
{
    int rank = kb_type(v)->rank;
    int32_t shape[VIEW_RANK + 1];

    memcpy(shape, kb_type(v)->extent, sizeof(int32_t) * (size_t)rank);
    shape[rank] = down ? 1 : shape[rank - 1];
    shape[rank - 1] = down ? shape[rank - 1] : 1;
    return kb_block(B, kb_reshape(B, v.ref, rank + 1, shape), NULL);
}

/* 0, 1 ... n - 1 along one of the last two axes of a block of rank + 1. */
static KVal count_up(Body *B, int rank, int32_t n, bool down)
{
    int32_t shape[VIEW_RANK] = VIEW_ONES;
    Lin zero = lin_number(0);
    int axis = rank - down;

    shape[axis] = n;
    return kb_block(B, kb_iota(B, &zero, rank + 1, shape, axis), NULL);
}

static bool fits(Body *B, KVal v, int64_t n)
{
    int rank = kb_type(v)->rank;

    for (int i = 0; i < rank; i++)
        n *= kb_type(v)->extent[i];
    if (rank == VIEW_RANK || n > TILE_ELEMENTS_MAX)
        kb_fail(B, "blocks of at most %d axes whose elements times their axis are at most %d are put in order", VIEW_RANK - 1, TILE_ELEMENTS_MAX);
    return !B->failed;
}

static KVal both(Body *B, OpId op, KVal a, KVal b)
{
    return kb_bad(a) || kb_bad(b) ? KBAD : kb_apply(B, op, (KVal[]){a, b}, 2);
}

/* How many elements of its row come before each one: along the last axis. */
static KVal counted(Body *B, KVal v, bool descending)
{
    DType dt = (DType)kb_type(v)->dtype;
    int rank = kb_type(v)->rank;
    int32_t n = kb_type(v)->extent[rank - 1];
    KVal own = laid(B, v, true), other = laid(B, v, false), before, same, sooner;

    before = kb_compare(B, descending ? AOP_GT : AOP_LT, other, own);
    same = kb_compare(B, AOP_EQ, other, own);
    if (dtype_is_float(dt)) {
        KVal none = kb_compare(B, AOP_NE, own, own), other_none = kb_compare(B, AOP_NE, other, other);
        before = both(B, OP_bitor, before, both(B, OP_bitand, none, kb_compare(B, AOP_EQ, other, other)));
        same = both(B, OP_bitor, same, both(B, OP_bitand, none, other_none));
    }
    sooner = kb_compare(B, AOP_LT, count_up(B, rank, n, false), count_up(B, rank, n, true));
    before = both(B, OP_bitor, before, both(B, OP_bitand, same, sooner));
    return kb_bad(before) ? KBAD : kb_reduce_axis(B, OP_sum, kb_cast(B, before, DT_int32), rank, false);
}

/* The places of the first k elements, by what counted() gives. */
static KVal places(Body *B, KVal before, int32_t k)
{
    int rank = kb_type(before)->rank;
    KVal hit = kb_compare(B, AOP_EQ, laid(B, before, false), count_up(B, rank, k, true));
    KVal at = kb_cast(B, count_up(B, rank, kb_type(before)->extent[rank - 1], false), DT_int32);

    at = kb_bad(hit) ? KBAD : kb_apply(B, OP_where, (KVal[]){hit, at, kb_number(0)}, 3);
    return kb_bad(at) ? KBAD : kb_reduce_axis(B, OP_sum, at, rank, false);
}

/* The elements of v at places along the last axis; 0 at those that there are not. */
static KVal taken(Body *B, KVal v, KVal at)
{
    DType dt = (DType)kb_type(v)->dtype;
    int rank = kb_type(v)->rank;
    int32_t n = kb_type(v)->extent[rank - 1];
    bool exact = dtype_is_float(dt);
    KVal x = laid(B, exact ? v : kb_cast(B, v, dt == DT_bool ? DT_int32 : dt), false), hit, y;

    hit = kb_compare(B, AOP_EQ, laid(B, at, true), count_up(B, rank, n, false));
    y = kb_bad(hit) ? KBAD : kb_apply(B, OP_where, (KVal[]){hit, x, exact ? kb_static_item(vfloat(-INFINITY)) : kb_number(0)}, 3);
    y = kb_bad(y) ? KBAD : kb_reduce_axis(B, exact ? OP_max : OP_sum, y, rank, false);
    if (exact && !kb_bad(y))
        y = kb_apply(B, OP_where, (KVal[]){kb_reduce_axis(B, OP_any, hit, rank, false), y, kb_static_item(vfloat(0))}, 3);
    return kb_bad(y) || exact ? y : kb_cast(B, y, dt);
}

/* What is known of the other axes holds for the result as well. */
static KVal as_rows_of(Body *B, KVal v, KVal y, int axis)
{
    AxisTag tag[VIEW_RANK];
    int rank = kb_type(v)->rank;

    if (kb_bad(y))
        return y;
    memcpy(tag, v.tag, sizeof *tag * (size_t)rank);
    tag[rank - 1] = (AxisTag){.none = v.tag[rank - 1].none};
    return swapped(B, kb_block(B, y.ref, tag), axis);
}

/* axis=, dim= and descending=; stable= is so in any case. */
static bool order_args(Body *B, KVal v, const KVal *arg, const Sym *names, int n, int *axis, bool *descending)
{
    int64_t at = -1;
    int rank = kb_type(v)->rank;

    *descending = false;
    for (int i = 0; i < n; i++) {
        const char *name = names && names[i] ? names[i]->text : i ? "" : "axis";
        if (!strcmp(name, "descending"))
            *descending = kb_is_static_true(arg[i]);
        else if (!strcmp(name, "stable"))
            continue;
        else if (strcmp(name, "axis") != 0 && strcmp(name, "dim") != 0)
            return kb_fail(B, "sort() and argsort() take axis, descending and stable"), false;
        else if (!kb_static_int(B, arg[i], "an axis", &at))
            return false;
    }
    if (at < -rank || at >= rank)
        return kb_fail(B, "there is no axis %lld of %d", (long long)at, rank), false;
    *axis = (int)(at < 0 ? at + rank : at);
    return true;
}

static KVal sorted(Body *B, KVal v, const KVal *arg, const Sym *names, int n, bool values)
{
    bool descending, truths = kb_type(v)->dtype == DT_bool;
    KVal x, y;
    int axis;

    if (!order_args(B, v, arg, names, n, &axis, &descending))
        return KBAD;
    x = swapped(B, truths ? kb_cast(B, v, DT_int32) : v, axis);
    n = kb_type(x)->extent[kb_type(x)->rank - 1];
    if (!fits(B, x, n))
        return KBAD;
    y = counted(B, x, descending);
    y = kb_bad(y) ? y : places(B, y, n);
    y = kb_bad(y) || !values ? y : taken(B, x, y);
    y = as_rows_of(B, x, y, axis);
    return kb_bad(y) || !values || !truths ? y : kb_cast(B, y, DT_bool);
}

/* first_places(x, k, descending): along the last axis. */
static KVal first_places(Body *B, KVal v, const KVal *arg, int n)
{
    int64_t k;
    KVal y;

    if (n != 2 || !kb_static_int(B, arg[0], "how many are the first", &k) || !fits(B, v, kb_type(v)->extent[kb_type(v)->rank - 1]))
        return KBAD;
    y = counted(B, kb_type(v)->dtype == DT_bool ? kb_cast(B, v, DT_int32) : v, kb_is_static_true(arg[1]));
    return as_rows_of(B, v, kb_bad(y) ? y : places(B, y, (int32_t)k), kb_type(v)->rank - 1);
}

/* take_along(x, places, axis): places below 0 count from the end. */
static KVal take_along(Body *B, KVal v, const KVal *arg, const Sym *names, int n)
{
    int axis, rank = kb_type(v)->rank;
    bool descending;
    KVal at = n ? kb_value(B, arg[0]) : KUNSET, x;

    if (at.kind != K_BLOCK || kb_type(at)->rank != rank || dtype_is_float((DType)kb_type(at)->dtype))
        return kb_fail(B, "take_along() takes a block of ints with as many axes as the block that it takes from");
    if (!order_args(B, v, arg + 1, names ? names + 1 : NULL, n - 1, &axis, &descending))
        return KBAD;
    x = swapped(B, v, axis);
    at = swapped(B, kb_cast(B, at, DT_int32), axis);
    if (!fits(B, x, kb_type(at)->extent[rank - 1]))
        return KBAD;
    at = kb_apply(B, OP_where, (KVal[]){kb_compare(B, AOP_LT, at, kb_number(0)),
                                        kb_binary(B, AOP_ADD, at, kb_number(kb_type(x)->extent[rank - 1])), at}, 3);
    return kb_bad(at) ? at : as_rows_of(B, x, taken(B, x, at), axis);
}

bool kb_block_ordered(Body *B, KVal v, const char *name, const KVal *arg, const Sym *names, int n, KVal *out)
{
    if (!kb_type(v)->rank)
        return false;
    if (!strcmp(name, "sort") || !strcmp(name, "argsort"))
        *out = sorted(B, v, arg, names, n, name[0] == 's');
    else if (!strcmp(name, "take_along"))
        *out = take_along(B, v, arg, names, n);
    else if (!strcmp(name, "first_places"))
        *out = first_places(B, v, arg, n);
    else
        return false;
    return true;
}
