/*
 * Block values put together: concat([a, b], dim), stack([a, b], dim).
 *
 * As parts are taken through shared memory (part.c), so a whole is made of
 * parts there: each is stored where it belongs, and the whole is loaded.
 */
#include "frontend/kernel/body.h"

#include <string.h>

enum { GLUED_MOST = 64 };       /* values joined by one call */

typedef struct Glue {
    Body *B;
    const char *name;
    TileRef part[GLUED_MOST];
    int n, axis, rank;
    int32_t shape[VIEW_RANK];   /* of the whole */
    AxisTag tag[VIEW_RANK];
    DType dtype;
} Glue;

/* The axis among dim= and axis=, from the end where it is negative; it is one of so many. */
static bool axis_given(Glue *g, const KVal *arg, const Sym *names, int n, int axes)
{
    int64_t at = 0;

    for (int i = 1; i < n; i++) {
        bool known = !names || !names[i] || names[i] == sym("dim") || names[i] == sym("axis");
        if (!known || i > 1)
            return kb_fail(g->B, "%s() takes values and one axis", g->name), false;
        if (!kb_static_int(g->B, arg[i], "the axis along which block values are joined", &at))
            return false;
    }
    if (at < -axes || at >= axes)
        return kb_fail(g->B, "axis %lld is out of range for %d axes", (long long)at, axes), false;
    g->axis = (int)(at < 0 ? at + axes : at);
    return true;
}

/* A part as a block value: an element that all tiles agree about is one without axes. */
static TileRef part_of(Glue *g, KVal v, bool stack)
{
    TileRef none = {0};

    v = kb_value(g->B, v);
    if (kb_bad(v))
        return none;
    if (v.kind == K_BLOCK)
        return v.ref;
    if (stack && v.kind == K_SCALAR && !kb_lane_dependent(g->B, v.ref))
        return v.ref;
    kb_fail(g->B, "E0614: %s() takes block values here", g->name);
    return none;
}

static TileRef with_axis(Glue *g, TileRef x, int axis)
{
    const TileType *t = tile_type(x);
    int32_t shape[VIEW_RANK];

    for (int i = 0; i <= t->rank; i++)
        shape[i] = i < axis ? t->extent[i] : i == axis ? 1 : t->extent[i - 1];
    return t->rank ? kb_reshape(g->B, x, t->rank + 1, shape) : kb_splat(g->B, x, 1, shape);
}

/* The whole's shape with part i: all axes but one are those of the first. */
static bool fits(Glue *g, int i)
{
    const TileType *t = tile_type(g->part[i]);

    if (!i) {
        g->rank = t->rank;
        g->dtype = (DType)t->dtype;
        memcpy(g->shape, t->extent, sizeof *g->shape * (size_t)t->rank);
        return true;
    }
    if (t->rank != g->rank)
        return kb_fail(g->B, "E0606: %s() of block values of %d and of %d axes", g->name, g->rank, t->rank), false;
    if (t->dtype != g->dtype)
        return kb_fail(g->B, "E0609: %s and %s do not go together: tile.cast one of them", dtype_info[g->dtype].name, dtype_info[t->dtype].name),
               false;
    for (int a = 0; a < t->rank; a++)
        if (a != g->axis && t->extent[a] != g->shape[a])
            return kb_fail(g->B, "E0606: block values of extents %d and %d do not go together", g->shape[a], t->extent[a]), false;
    g->shape[g->axis] += t->extent[g->axis];
    return true;
}

/* The whole lies along its other axes where its first part does. */
static void keep_tag(Glue *g, int axis, const AxisTag *tag, bool more)
{
    if (!more && axis != g->axis)
        g->tag[axis] = *tag;
    g->tag[axis].none |= tag->none;
}

/* Parts without elements along the axis add nothing to it; the last one stays. */
static void keep_filled(Glue *g, const KVal *item, bool stack)
{
    int kept = 0, given = g->n;

    for (int i = 0; i < given; i++) {
        bool empty = !stack && item[i].kind == K_BLOCK && item[i].tag[g->axis].none;
        if (empty && (kept || i < given - 1))
            continue;
        for (int a = 0; item[i].kind == K_BLOCK && a < tile_type(g->part[i])->rank; a++)
            keep_tag(g, a + (stack && a >= g->axis), &item[i].tag[a], kept > 0);
        g->part[kept++] = g->part[i];
    }
    g->n = kept;
}

static bool gather_parts(Glue *g, const KVal *arg, const Sym *names, int n, bool stack)
{
    KVal *item;
    int axes;

    g->n = n && !(names && names[0]) ? kb_sequence(g->B, arg[0], &item) : -1;
    if (g->n < 1 || g->n > GLUED_MOST)
        return kb_fail(g->B, "%s() takes a list of 1 to %d block values here", g->name, GLUED_MOST), false;
    for (int i = 0; i < g->n; i++)
        if (!(g->part[i] = part_of(g, item[i], stack)).node)
            return false;
    axes = tile_type(g->part[0])->rank + stack;
    if (axes > VIEW_RANK)
        return kb_fail(g->B, "a block value has at most %d axes", VIEW_RANK), false;
    if (!axis_given(g, arg, names, n, axes))
        return false;
    keep_filled(g, item, stack);
    for (int i = 0; i < g->n; i++) {
        if (stack && tile_type(g->part[i])->rank + 1 == axes)
            g->part[i] = with_axis(g, g->part[i], g->axis);
        if (!g->part[i].node || !fits(g, i))
            return false;
    }
    return !stack || g->shape[g->axis] == g->n || (kb_fail(g->B, "E0606: stack() of block values of other shapes"), false);
}

static TileRef whole(Glue *g)
{
    Body *B = g->B;
    uint64_t path = (B->fn->path ^ B->b.span.lo) * 0x9e3779b97f4a7c15u ^ g->dtype;
    TileRef in[2 + VIEW_RANK], y;
    TAttr attr = tattr_none;
    int64_t at = 0;
    KVal memory;

    for (int i = 0; i < g->rank; i++)
        path = (path ^ (uint64_t)g->shape[i]) * 0xff51afd7ed558ccdu;
    memory = kb_alloc_shared(B, path | 1, sym("whole"), g->rank, g->shape, g->dtype, SPACE_SHARED, 0, false);
    if (kb_bad(memory))
        return (TileRef){0};
    in[0] = memory.place->view;
    for (int i = 0; i < g->n; i++) {
        for (int a = 0; a < g->rank; a++)
            in[1 + a] = kb_index(B, a == g->axis ? at : 0);
        in[1 + g->rank] = g->part[i];
        kb_emit(B, TOP_store, NULL, in, 2 + g->rank);
        at += tile_type(g->part[i])->extent[g->axis];
    }
    kb_emit(B, TOP_barrier, NULL, NULL, 0);
    for (int a = 0; a < g->rank; a++)
        in[1 + a] = kb_index(B, 0);
    attr.rank = (int8_t)g->rank;
    memcpy(attr.shape, g->shape, sizeof *attr.shape * (size_t)g->rank);
    y = kb_emit(B, TOP_load, &attr, in, 1 + g->rank);
    kb_emit(B, TOP_barrier, NULL, NULL, 0);
    B->uses_blocks = true;
    return y;
}

KVal kglued(Body *B, const char *name, const KVal *arg, const Sym *names, int n)
{
    Glue g = {.B = B, .name = name};
    TileRef y = {0};

    if (gather_parts(&g, arg, names, n, !strcmp(name, "stack")))
        y = whole(&g);
    return y.node ? kb_block(B, y, g.tag) : KBAD;
}

bool kglues(const char *name) { return !strcmp(name, "stack") || !strcmp(name, "concat") || !strcmp(name, "concatenate") || !strcmp(name, "cat"); }
