/*
 * Parts of block values: v[:, 3], v[2:4], v[:, ::-1], v[i, j].
 *
 * A value has no places, so a part of one goes through shared memory: it is
 * stored, and loaded from where the part begins.  Every other element, or all
 * in reverse, are gathered along the first axis, to which the axis is turned.
 */
#include "frontend/kernel/oper.h"

#include <string.h>

typedef struct Axis {
    Lin start;
    int32_t extent, step;       /* step 1, unless elements are passed over or reversed */
    bool gone, whole;
} Axis;

static bool none(KVal v) { return v.kind == K_STATIC && v.v.tag == V_NONE; }
static bool ellipsis(KVal v) { return v.kind == K_STATIC && v.v.tag == V_ELLIPSIS; }
static bool slice(KVal v) { return v.kind == K_TUPLE && v.name; }

bool kpart_steps(KVal index)
{
    int64_t step;
    Lin l;

    if (!slice(index) || none(index.item[2]) || index.item[2].kind != K_STATIC || index.item[2].v.tag != V_INT)
        return false;
    l = lin_number(index.item[2].v.i);
    return lin_number_of(&l, &step) && step != 1;
}

/* ------------------------------------------------------------- which part */

/* One end of a slice as Python counts it: from the end where it is negative, and within the axis. */
static bool end_of(Body *B, KVal v, int64_t missing, int64_t size, bool down, int64_t *out)
{
    *out = missing;
    if (none(v))
        return true;
    if (!kb_static_int(B, v, "an end of this slice of a block value", out))
        return false;
    *out += *out < 0 ? size : 0;
    *out = *out < (down ? -1 : 0) ? (down ? -1 : 0) : *out > size - down ? size - down : *out;
    return true;
}

static bool stepped(Body *B, KVal s, int64_t size, int64_t step, Axis *a)
{
    int64_t lo, hi, n;

    if (!step || step > INT32_MAX || step < -INT32_MAX)
        return kb_fail(B, "a slice has a step, and not 0"), false;
    if (!end_of(B, s.item[0], step < 0 ? size - 1 : 0, size, step < 0, &lo) || !end_of(B, s.item[1], step < 0 ? -1 : size, size, step < 0, &hi))
        return false;
    n = step > 0 ? (hi - lo + step - 1) / step : (lo - hi - step - 1) / -step;
    if (n < 1)
        return kb_fail(B, "E0621: this slice of a block value has no elements"), false;
    a->start = lin_number(lo);
    a->extent = (int32_t)n;
    a->step = (int32_t)step;
    return true;
}

static bool bounded(Body *B, KVal s, int64_t size, Axis *a)
{
    Lin lo = lin_number(0), hi = lin_number(size), length;
    int64_t from, to, n;

    if ((!none(s.item[0]) && !kb_to_lin(B, s.item[0], &lo)) || (!none(s.item[1]) && !kb_to_lin(B, s.item[1], &hi)))
        return false;
    if (lin_number_of(&lo, &from) && lin_number_of(&hi, &to))
        return stepped(B, s, size, 1, a);
    if (!lin_add(B, hi, lo, -1, &length) || !kb_need_number(B, &length, "the extent of a part of a block value", &n))
        return B->failed ? false : (kb_fail(B, "a slice with too many parts"), false);
    if (n < 1 || n > size)
        return kb_fail(B, "E0621: a slice of %lld elements of an axis of %lld", (long long)n, (long long)size), false;
    a->start = lo;
    a->extent = (int32_t)n;
    return true;
}

static bool index_of(Body *B, KVal v, int64_t size, Axis *a)
{
    int64_t at;

    a->gone = true;
    a->extent = 1;
    if (!kb_to_lin(B, v, &a->start))
        return false;
    if (!lin_number_of(&a->start, &at))
        return true;
    if (at < -size || at >= size)
        return kb_fail(B, "index %lld is out of range for an axis of %lld", (long long)at, (long long)size), false;
    a->start = lin_number(at < 0 ? at + size : at);
    return true;
}

static bool take(Body *B, KVal index, int64_t size, Axis *a)
{
    int64_t step = 1;

    *a = (Axis){.start = lin_number(0), .extent = (int32_t)size, .step = 1, .whole = true};
    if (slice(index) && none(index.item[0]) && none(index.item[1]) && none(index.item[2]))
        return true;
    a->whole = false;
    if (!slice(index))
        return index_of(B, index, size, a);
    if (!none(index.item[2]) && !kb_static_int(B, index.item[2], "the step of a slice", &step))
        return false;
    return step == 1 ? bounded(B, index, size, a) : stepped(B, index, size, step, a);
}

/* ------------------------------------------------------------- through memory */

/* The value in shared memory, seen by all. */
static TileRef in_memory(Body *B, TileRef x)
{
    const TileType *t = tile_type(x);
    uint64_t path = (B->fn->path ^ B->b.span.lo) * 0x9e3779b97f4a7c15u ^ t->dtype;
    TileRef in[2 + VIEW_RANK];
    KVal memory;

    for (int i = 0; i < t->rank; i++)
        path = (path ^ (uint64_t)t->extent[i]) * 0xff51afd7ed558ccdu;
    memory = kb_alloc_shared(B, path | 1, sym("part"), t->rank, t->extent, (DType)t->dtype, SPACE_SHARED, 0, false);
    if (kb_bad(memory))
        return (TileRef){0};
    in[0] = memory.place->view;
    for (int i = 0; i < t->rank; i++)
        in[1 + i] = kb_index(B, 0);
    in[1 + t->rank] = x;
    kb_emit(B, TOP_store, NULL, in, 2 + t->rank);
    kb_emit(B, TOP_barrier, NULL, NULL, 0);
    B->uses_blocks = true;
    return in[0];
}

/* Elements along the first axis: start, start + step, ... */
static TileRef gathered(Body *B, TileRef x, const Axis *a)
{
    TAttr attr = tattr_none;
    TileRef view = in_memory(B, x), index, y;
    int32_t shape[1] = {a->extent};
    Lin zero = lin_number(0);

    if (!view.node)
        return view;
    attr.rank = (int8_t)tile_type(x)->rank;
    memcpy(attr.shape, tile_type(x)->extent, sizeof *attr.shape * (size_t)attr.rank);
    attr.shape[0] = a->extent;
    index = kb_iota(B, &zero, 1, shape, 0);
    index = kb_map(B, OP_mul, (TileRef[]){index, kb_const(B, DT_int64, 0, a->step)}, 2);
    index = kb_map(B, OP_add, (TileRef[]){index, kb_const(B, DT_int64, 0, a->start.c)}, 2);
    y = kb_emit2(B, TOP_gather, &attr, view, index);
    kb_emit(B, TOP_barrier, NULL, NULL, 0);
    return y;
}

static TileRef turned(Body *B, TileRef x, int axis)
{
    TAttr a = tattr_none;

    if (!axis || !x.node)
        return x;
    a.rank = (int8_t)tile_type(x)->rank;
    for (int i = 0; i < a.rank && i < VIEW_RANK; i++)
        a.axes[i] = (int8_t)(i == 0 ? axis : i == axis ? 0 : i);
    return kb_emit1(B, TOP_permute, &a, x);
}

static TileRef loaded(Body *B, TileRef x, const Axis *axis)
{
    TAttr a = tattr_none;
    TileRef in[1 + VIEW_RANK], y;

    in[0] = in_memory(B, x);
    a.rank = (int8_t)tile_type(x)->rank;
    for (int i = 0; i < a.rank && in[0].node; i++) {
        bool here = axis[i].step == 1;
        in[1 + i] = here ? lin_ref(B, &axis[i].start) : kb_index(B, 0);
        a.shape[i] = axis[i].extent;
        a.drop |= (uint8_t)(axis[i].gone << i);
    }
    y = kb_emit(B, TOP_load, &a, in, 1 + a.rank);
    kb_emit(B, TOP_barrier, NULL, NULL, 0);
    return y;
}

/* ------------------------------------------------------------- the part */

static KVal taken(Body *B, KVal v, const Axis *axis)
{
    TileRef x = v.ref;
    AxisTag tag[VIEW_RANK] = {{0}};
    int rank = tile_type(x)->rank, left = 0;
    bool moves = false;

    for (int i = 0; i < rank && x.node; i++) {
        if (axis[i].step != 1)
            x = turned(B, gathered(B, turned(B, x, i), &axis[i]), i);
        else
            moves |= !axis[i].whole;
        if (!axis[i].gone && axis[i].whole)
            tag[left] = v.tag[i];
        else if (!axis[i].gone)
            tag[left].none = v.tag[i].none;
        left += !axis[i].gone;
    }
    if (moves && x.node)
        x = loaded(B, x, axis);
    if (!x.node)
        return KBAD;
    return tile_type(x)->rank ? kb_block(B, x, tag) : kb_scalar(x, false);
}

/* None among the indices: axes of extent 1. */
static KVal widened(Body *B, KVal v, const KVal *index, int n)
{
    int32_t shape[VIEW_RANK];
    AxisTag tag[VIEW_RANK] = {{0}};
    int rank = 0, from = 0, have = v.kind == K_BLOCK ? tile_type(v.ref)->rank : 0, kept = 0;

    for (int i = 0; i < n; i++)
        kept += slice(index[i]);
    for (int i = 0; i <= n; i++) {
        int more = i == n ? have - from : ellipsis(index[i]) ? have - kept : slice(index[i]) ? 1 : none(index[i]) ? -1 : 0;
        if (rank + (more < 0 ? 1 : more) > VIEW_RANK)
            return kb_fail(B, "a block value has at most %d axes", VIEW_RANK);
        if (more < 0)
            shape[rank++] = 1;
        for (; more > 0; more--) {
            tag[rank] = v.tag[from];
            shape[rank++] = tile_type(v.ref)->extent[from++];
        }
    }
    if (v.kind != K_BLOCK)
        return kb_block(B, kb_splat(B, v.ref, rank, shape), tag);
    return kb_block(B, kb_reshape(B, v.ref, rank, shape), tag);
}

KVal kpart_of(Body *B, KVal base, const KVal *index, int n)
{
    const TileType *t = tile_type(base.ref);
    Axis axis[VIEW_RANK];
    int from = 0, given = 0;
    bool new_axes = false;

    for (int i = 0; i < n; i++) {
        given += !none(index[i]) && !ellipsis(index[i]);
        new_axes |= none(index[i]);
    }
    if (given > t->rank)
        return kb_fail(B, "%d indices where the block value has %d axes", given, t->rank);
    for (int i = 0; i <= n; i++) {
        int whole = i == n ? t->rank - from : ellipsis(index[i]) ? t->rank - given : 0;
        for (; whole > 0; whole--, from++)
            axis[from] = (Axis){.start = lin_number(0), .extent = t->extent[from], .step = 1, .whole = true};
        if (i < n && !none(index[i]) && !ellipsis(index[i])) {
            if (!take(B, index[i], t->extent[from], &axis[from]))
                return KBAD;
            from++;
        }
    }
    base = taken(B, base, axis);
    return kb_bad(base) || !new_axes ? base : widened(B, base, index, n);
}
