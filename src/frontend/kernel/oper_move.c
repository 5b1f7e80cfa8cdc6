/*
 * Blocks moved and searched: transposes and reshapes, where the largest element is, running sums and products.
 *
 * A running sum adds up, for each place, the elements up to it: the block gets
 * one axis more, along which what lies behind is 0.  So it is exact wherever
 * sums are, and infinities stay where they belong; it costs the square of the axis.
 */
#include "frontend/kernel/oper.h"

#include <string.h>

/* ------------------------------------------------------------- moving */

static KVal permute(Body *B, KVal v, const int8_t *axes)
{
    TAttr a = tattr_none;
    AxisTag tag[VIEW_RANK] = {{0}};

    a.rank = (int8_t)kb_type(v)->rank;
    for (int i = 0; i < a.rank; i++) {
        a.axes[i] = axes[i];
        tag[i] = v.tag[axes[i]];
    }
    return kb_block(B, kb_emit1(B, TOP_permute, &a, v.ref), tag);
}

static KVal swapped(Body *B, KVal v, int x, int y)
{
    int8_t axes[VIEW_RANK];

    for (int i = 0; i < VIEW_RANK; i++)
        axes[i] = (int8_t)(i == x ? y : i == y ? x : i);
    return permute(B, v, axes);
}

/* Axes as arguments, in a row or as one tuple; how many, -1: not numbers of axes. */
static int axes_of(Body *B, KVal v, const KVal *arg, int n, int8_t *out)
{
    KVal *item;
    int rank = kb_type(v)->rank;
    int64_t x;

    if (n == 1 && (n = kb_sequence(B, arg[0], &item)) >= 0)
        arg = item;
    n = n < 0 ? 1 : n;
    for (int i = 0; i < n; i++) {
        if (i == VIEW_RANK || !kb_static_int(B, arg[i], "an axis", &x))
            return -1;
        if (x < -rank || x >= rank)
            return kb_fail(B, "there is no axis %lld of %d", (long long)x, rank), -1;
        out[i] = (int8_t)(x < 0 ? x + rank : x);
    }
    return n;
}

KVal kb_transpose(Body *B, KVal v, const KVal *arg, int n)
{
    int8_t axes[VIEW_RANK];
    int rank = kb_type(v)->rank, seen = 0;

    if (rank < 2)
        return v;
    if (!n)
        return swapped(B, v, rank - 2, rank - 1);
    n = axes_of(B, v, arg, n, axes);
    if (n == 2)
        return swapped(B, v, axes[0], axes[1]);
    for (int i = 0; i < n; i++)
        seen |= 1 << axes[i];
    if (n >= 0 && (n != rank || seen != (1 << rank) - 1))
        return kb_fail(B, "a transpose takes two axes, or all %d in their new order", rank);
    return n < 0 ? KBAD : permute(B, v, axes);
}

static KVal reversed(Body *B, KVal v)
{
    int8_t axes[VIEW_RANK];
    int rank = kb_type(v)->rank;

    for (int i = 0; i < rank && i < VIEW_RANK; i++)
        axes[i] = (int8_t)(rank - 1 - i);
    return rank < 2 ? v : permute(B, v, axes);
}

static KVal reshaped(Body *B, KVal v, const KVal *arg, int n)
{
    KVal *item;
    int32_t shape[VIEW_RANK];
    int64_t left = 1, x;
    int open = -1;

    if (n == 1 && (n = kb_sequence(B, arg[0], &item)) >= 0)
        arg = item;
    n = n < 0 ? 1 : n;
    if (n > VIEW_RANK)
        return kb_fail(B, "a block value has at most %d axes", VIEW_RANK);
    for (int i = 0; i < kb_type(v)->rank; i++)
        left *= kb_type(v)->extent[i];
    for (int i = 0; i < n; i++) {
        if (!kb_static_int(B, arg[i], "an extent", &x))
            return KBAD;
        if (x == -1 && open < 0)
            open = i;
        else if (x < 1 || left % x)
            return kb_fail(B, "a block value of other extents does not reshape to these");
        else
            left /= x;
        shape[i] = (int32_t)x;
    }
    if (open >= 0)
        shape[open] = (int32_t)left;
    else if (left != 1)
        return kb_fail(B, "a block value of other extents does not reshape to these");
    return kb_block(B, kb_reshape(B, v.ref, n, shape), NULL);
}

/* ------------------------------------------------------------- along an axis */

/* dim=, axis= and keepdim=; none: all elements in a row. */
static bool along(Body *B, KVal *v, const KVal *arg, const Sym *names, int n, int *axis, bool *keep)
{
    int8_t at[VIEW_RANK];
    bool given = false;

    *axis = 0;
    *keep = false;
    for (int i = 0; i < n; i++) {
        const char *name = names && names[i] ? names[i]->text : i ? "keepdim" : "dim";
        if (!strcmp(name, "keepdim") || !strcmp(name, "keepdims")) {
            *keep = kb_is_static_true(arg[i]);
        } else if (strcmp(name, "dim") != 0 && strcmp(name, "axis") != 0) {
            return kb_fail(B, "there is no argument '%s' here", name), false;
        } else if (arg[i].kind != K_STATIC || arg[i].v.tag != V_NONE) {
            if (axes_of(B, *v, arg + i, 1, at) != 1)
                return false;
            *axis = at[0];
            given = true;
        }
    }
    if (!given && kb_type(*v)->rank != 1)
        *v = reshaped(B, *v, (KVal[]){kb_number(-1)}, 1);
    return !kb_bad(*v);
}

/* The first place of the largest or smallest element, or of the first NaN, in int32 as tensors give it. */
static KVal place_of_extreme(Body *B, KVal v, OpId op, int axis, bool keep)
{
    int rank = kb_type(v)->rank;
    int32_t shape[VIEW_RANK] = VIEW_ONES;
    Lin zero = lin_number(0);
    KVal top, hit, odd, at;

    if (v.tag[axis].none)
        return kb_no_extreme(B, op == OP_max ? "argmax" : "argmin", v, axis);
    top = kb_reduce_axis(B, op, v, axis, true);
    shape[axis] = kb_type(v)->extent[axis];
    hit = kb_bad(top) ? top : kb_compare(B, AOP_EQ, v, top);
    odd = kb_bad(top) ? top : kb_compare(B, AOP_NE, v, v);
    if (B->failed)
        return KBAD;
    at = kb_block(B, kb_iota(B, &zero, rank, shape, axis), NULL);
    hit = kb_apply(B, OP_bitor, (KVal[]){hit, odd}, 2);
    at = kb_apply(B, OP_where, (KVal[]){hit, at, kb_number(shape[axis])}, 3);
    at = kb_bad(at) ? at : kb_reduce_axis(B, OP_min, at, axis, keep);
    return kb_bad(at) ? at : kb_cast(B, at, DT_int32);
}

static KVal running(Body *B, KVal v, int axis, OpId op)
{
    const TileType *t = kb_type(v);
    int rank = t->rank;
    int64_t n = t->extent[axis], all = n;
    int32_t shape[VIEW_RANK], row[VIEW_RANK] = VIEW_ONES, column[VIEW_RANK] = VIEW_ONES;
    Lin zero = lin_number(0);
    KVal wide, behind, y;

    for (int i = 0; i < rank; i++)
        all *= t->extent[i];
    if (rank == VIEW_RANK || all > TILE_ELEMENTS_MAX)
        return kb_fail(B, "a running sum or product goes over blocks of at most %d axes whose elements times their axis are at most %d",
                       VIEW_RANK - 1, TILE_ELEMENTS_MAX);
    v = swapped(B, v, axis, rank - 1);
    if (kb_bad(v))
        return v;
    memcpy(shape, kb_type(v)->extent, sizeof shape);
    shape[rank] = shape[rank - 1];
    shape[rank - 1] = 1;
    row[rank - 1] = column[rank] = (int32_t)n;
    wide = kb_block(B, kb_reshape(B, v.ref, rank + 1, shape), NULL);
    behind = kb_block(B, kb_iota(B, &zero, rank + 1, column, rank), NULL);
    behind = kb_compare(B, AOP_GT, behind, kb_block(B, kb_iota(B, &zero, rank + 1, row, rank - 1), NULL));
    y = kb_apply(B, OP_where, (KVal[]){behind, kb_number(op == OP_prod), wide}, 3);
    y = kb_bad(y) ? y : kb_reduce_axis(B, op, y, rank, false);
    if (kb_bad(y))
        return y;
    y = kb_block(B, y.ref, v.tag);
    return swapped(B, y, axis, rank - 1);
}

/* ------------------------------------------------------------- other axes */

/* An axis of one element more, or those of one less. */
static KVal stretched(Body *B, KVal v, const KVal *arg, int n, bool more)
{
    int32_t shape[VIEW_RANK + 1];
    AxisTag tag[VIEW_RANK] = {{0}};
    int rank = kb_type(v)->rank, out = 0;
    int64_t at = INT64_MIN;

    if (n > 1 || (more && n != 1) || (n && !kb_static_int(B, arg[0], "an axis", &at)))
        return n > 1 || (more && !n) ? kb_fail(B, "this takes one axis") : KBAD;
    if (n && (at < -(rank + more) || at >= rank + more))
        return kb_fail(B, "there is no axis %lld of %d", (long long)at, rank + more);
    at += n && at < 0 ? rank + more : 0;
    if (more && rank == VIEW_RANK)
        return kb_fail(B, "a block value has at most %d axes", VIEW_RANK);
    for (int i = 0; i < rank + more; i++) {
        int from = more && i > at ? i - 1 : i;
        if (!more && kb_type(v)->extent[i] == 1 && (!n || i == at))
            continue;
        if (!more || i != at)
            tag[out] = v.tag[from];
        shape[out++] = more && i == at ? 1 : kb_type(v)->extent[from];
    }
    return kb_block(B, kb_reshape(B, v.ref, out, shape), tag);
}

static KVal flipped(Body *B, KVal v, const KVal *arg, int n)
{
    KVal part[3] = {kb_static_item(VNONE), kb_static_item(VNONE), kb_number(-1)}, whole[3] = {part[0], part[0], part[0]}, index[VIEW_RANK];
    int8_t axes[VIEW_RANK];
    int rank = kb_type(v)->rank, count = n ? axes_of(B, v, arg, n, axes) : rank;

    for (int i = 0; i < rank; i++)
        index[i] = (KVal){.kind = K_TUPLE, .n = 3, .item = n ? whole : part, .name = sym("slice")};
    for (int i = 0; n && i < count; i++)
        index[axes[i]].item = part;
    return count < 0 ? KBAD : kpart_of(B, v, index, rank);
}

/* Elements on one side of diagonal k; 0 elsewhere. */
static KVal triangle(Body *B, KVal v, const KVal *arg, int n, bool lower)
{
    Lin zero = lin_number(0);
    int32_t shape[2][VIEW_RANK] = {VIEW_ONES, VIEW_ONES};
    int rank = kb_type(v)->rank;
    KVal at[2], k = n ? arg[0] : kb_number(0);

    if (rank < 2 || n > 1)
        return kb_fail(B, "this takes a block of rows and columns, and a diagonal");
    for (int c = 0; c < 2; c++) {
        int axis = rank - 2 + c;
        shape[c][axis] = kb_type(v)->extent[axis];
        at[c] = kb_block(B, kb_iota(B, &zero, rank, shape[c], axis), NULL);
    }
    at[0] = kb_binary(B, AOP_ADD, at[0], k);
    at[0] = kb_compare(B, lower ? AOP_LE : AOP_GE, at[1], at[0]);
    return kb_bad(at[0]) ? KBAD : kb_apply(B, OP_where, (KVal[]){at[0], v, kb_number(0)}, 3);
}

/* ------------------------------------------------------------- methods */

static bool shaped(Body *B, KVal v, const char *name, const KVal *arg, int n, KVal *out)
{
    if (!strcmp(name, "flip"))
        *out = flipped(B, v, arg, n);
    else if (!strcmp(name, "unsqueeze") || !strcmp(name, "expand_dims") || !strcmp(name, "squeeze"))
        *out = stretched(B, v, arg, n, name[0] != 's');
    else if (!strcmp(name, "flatten") && !n)
        *out = reshaped(B, v, (KVal[]){kb_number(-1)}, 1);
    else if (!strcmp(name, "tril") || !strcmp(name, "triu"))
        *out = triangle(B, v, arg, n, name[3] == 'l');
    else
        return false;
    return true;
}

bool kb_block_moved(Body *B, KVal v, const char *name, const KVal *arg, const Sym *names, int n, KVal *out)
{
    bool min = !strcmp(name, "argmin"), sum = !strcmp(name, "cumsum") || !strcmp(name, "cumprod"), keep;
    int axis;

    if (shaped(B, v, name, arg, n, out))
        return true;
    if (!strcmp(name, "T") || (!n && !strcmp(name, "transpose")))
        *out = reversed(B, v);
    else if (!strcmp(name, "transpose") || !strcmp(name, "swapaxes") || !strcmp(name, "mT") || !strcmp(name, "permute"))
        *out = kb_transpose(B, v, arg, n);
    else if (!strcmp(name, "reshape") || !strcmp(name, "view"))
        *out = reshaped(B, v, arg, n);
    else if (!min && !sum && strcmp(name, "argmax") != 0)
        return false;
    else if (!along(B, &v, arg, names, n, &axis, &keep))
        *out = KBAD;
    else
        *out = sum ? running(B, v, axis, name[3] == 'p' ? OP_prod : OP_sum) : place_of_extreme(B, v, min ? OP_min : OP_max, axis, keep);
    return true;
}
