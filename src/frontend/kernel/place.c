/*
 * Memory in a kernel: which part of which view an expression names, what is
 * loaded from it and stored to it.
 *
 * A place is a view with a start and an extent on each axis; indexing and
 * slicing only move these.  Extents of slices are exactly what is written, and
 * what lies outside of the view reads as 0 and is not stored.  Of a slice that
 * ends where a number of the run says, as the rows of one group among others
 * do, what is taken further is of a view that ends there, too.
 */
#include "frontend/kernel/body.h"

#include <string.h>

/* ------------------------------------------------------------- axes */

KVal kplace_value(Body *B, const KPlace *p)
{
    KPlace *own = kb_alloc(B, sizeof *own);

    *own = *p;
    return (KVal){.kind = K_PLACE, .place = own};
}

int kplace_free(const KPlace *p)
{
    int n = 0;

    for (int i = 0; i < p->rank; i++)
        n += !p->axis[i].gone;
    return n;
}

int kplace_axis(const KPlace *p, int i)
{
    for (int k = 0; k < p->rank; k++)
        if (!p->axis[k].gone && i-- == 0)
            return k;
    return -1;
}

bool kplace_extent(Body *B, const KPlace *p, int axis, int32_t *out)
{
    int64_t v;

    if (!kb_need_number(B, &p->axis[axis].extent, "the extent of a block", &v))
        return false;
    if (v < 0 || v > TILE_ELEMENTS_MAX) {
        kb_fail(B, v < 0 ? "a block of %lld elements: an extent is at least 0" : "a block of %lld elements along one axis is too large",
                (long long)v);
        return false;
    }
    *out = v ? (int32_t)v : 1;
    return true;
}

/* It has no elements, after kplace_extent. */
static bool lacks(const KPlace *p, int axis)
{
    int64_t v;

    return !p->axis[axis].gone && lin_number_of(&p->axis[axis].extent, &v) && v == 0;
}

KVal kb_shape(Body *B, KVal v)
{
    KVal y = {.kind = K_TUPLE};

    y.item = kb_alloc(B, sizeof *y.item * VIEW_RANK);
    for (int i = 0; v.kind == K_PLACE && i < v.place->rank; i++)
        B->asks_extent |= v.place->axis[i].cut && !v.place->axis[i].gone;
    for (int i = 0; v.kind == K_BLOCK && i < tile_type(v.ref)->rank; i++)
        B->asks_extent |= v.tag[i].cut;
    if (v.kind == K_PLACE)
        for (int i = 0; i < v.place->rank; i++)
            if (!v.place->axis[i].gone)
                y.item[y.n++] = kb_int(B, v.place->axis[i].extent);
    if (v.kind == K_BLOCK)
        for (int i = 0; i < tile_type(v.ref)->rank; i++)
            y.item[y.n++] = kb_number(v.tag[i].none ? 0 : tile_type(v.ref)->extent[i]);
    return y;
}

/* ------------------------------------------------------------- indexing */

static bool no_value(KVal v) { return v.kind == K_STATIC && v.v.tag == V_NONE; }
static bool is_ellipsis(KVal v) { return v.kind == K_STATIC && v.v.tag == V_ELLIPSIS; }
/* Slices are tuples of three that expr.c names so. */
static bool is_slice(KVal v) { return v.kind == K_TUPLE && v.name; }

/* An index of Python's that is negative as it stands counts from the end. */
static bool from_end(Body *B, const PlaceAxis *a, Lin *at)
{
    int64_t v;

    B->asks_extent |= a->cut && lin_number_of(at, &v) && v < 0;
    return !lin_number_of(at, &v) || v >= 0 || lin_add(B, *at, a->extent, 1, at);
}

static bool take_index(Body *B, PlaceAxis *a, KVal v)
{
    Lin at;

    if (!kb_to_lin(B, v, &at) || !from_end(B, a, &at))
        return false;
    a->gone = true;
    a->extent = lin_number(1);
    if (!lin_add(B, a->start, at, 1, &a->start)) {
        TileRef r = lin_ref(B, &a->start);
        a->start = lin_of(kb_emit2(B, TOP_iadd, NULL, r, lin_ref(B, &at)));
    }
    return !B->failed;
}

static bool take_slice(Body *B, PlaceAxis *a, KVal s)
{
    Lin lo = lin_number(0), hi = a->extent, extent;
    int64_t step = 1;

    if (!no_value(s.item[2]) && (!kb_static_int(B, s.item[2], "the step of a slice", &step) || step != 1))
        return B->failed ? false : (kb_fail(B, "a slice of memory has the step 1; tile.load_strided loads with another"), false);
    if (!no_value(s.item[0]) && (!kb_to_lin(B, s.item[0], &lo) || !from_end(B, a, &lo)))
        return false;
    if (!no_value(s.item[1]) && (!kb_to_lin(B, s.item[1], &hi) || !from_end(B, a, &hi)))
        return false;
    if (!lin_add(B, hi, lo, -1, &extent) || !lin_add(B, a->start, lo, 1, &a->start)) {
        kb_fail(B, "a slice with too many parts");
        return false;
    }
    a->extent = extent;
    a->ends = !no_value(s.item[1]) && !lin_number_of(&extent, &step);
    return true;
}

static bool is_uniform(Body *B, const Lin *l)
{
    for (int i = 0; i < l->n; i++)
        if (kb_lane_dependent(B, l->t[i].r))
            return false;
    return true;
}

/* Does an axis end before its view does, at the same place for all lanes? */
static bool ends_early(Body *B, const PlaceAxis *a) { return a->ends && !a->gone && is_uniform(B, &a->start) && is_uniform(B, &a->extent); }

/* A place of a view of its own that ends where such axes do. */
static bool end_view(Body *B, KPlace *p)
{
    TileRef in[1 + 2 * VIEW_RANK] = {p->view}, none = {0}, start, extent;
    TAttr axis = tattr_none;
    bool any = false;

    for (int i = 0; i < p->rank; i++)
        any |= ends_early(B, &p->axis[i]);
    if (!any)
        return true;
    none = kb_index(B, 0);
    for (int i = 0; i < p->rank; i++) {
        PlaceAxis *a = &p->axis[i];
        axis.axis = (int8_t)i;
        start = none;
        extent = kb_emit(B, TOP_extent, &axis, &p->view, 1);
        if (ends_early(B, a)) {
            TileRef size = extent;
            start = kb_emit2(B, TOP_imin, NULL, kb_emit2(B, TOP_imax, NULL, lin_ref(B, &a->start), none), size);
            extent = kb_emit2(B, TOP_imax, NULL, lin_ref(B, &a->extent), none);
            extent = kb_emit2(B, TOP_imin, NULL, extent, kb_emit2(B, TOP_isub, NULL, size, start));
            *a = (PlaceAxis){.start = lin_number(0), .extent = a->extent, .size = lin_of(extent)};
        }
        in[1 + i] = start;
        in[1 + p->rank + i] = extent;
    }
    p->view = kb_emit(B, TOP_part, NULL, in, 1 + 2 * p->rank);
    return !B->failed;
}

static KVal kplace_subscript(Body *B, KVal base, const KVal *index, int n);

/* Memory by steps is a value: what lies between the ends is loaded, then every other element of it, or all in reverse, taken. */
static KVal every_other(Body *B, KVal base, const KVal *index, int n)
{
    KVal plain[VIEW_RANK + 1], part[VIEW_RANK + 1], all = {.kind = K_TUPLE, .n = 3, .name = sym("slice")};
    int kept = 0;

    all.item = kb_alloc(B, sizeof *all.item * 3);
    for (int k = 0; k < 3; k++)
        all.item[k] = (KVal){.kind = K_STATIC, .v = VNONE};
    if (n > VIEW_RANK)
        return kb_fail(B, "%d indices where there are %d axes", n, kplace_free(base.place));
    for (int i = 0; i < n; i++) {
        plain[i] = index[i];
        if (kpart_steps(index[i])) {
            plain[i].item = kb_alloc(B, sizeof *all.item * 3);
            memcpy(plain[i].item, index[i].item, sizeof *all.item * 3);
            plain[i].item[2] = all.item[2];
            part[kept] = all;
            part[kept].item = kb_alloc(B, sizeof *all.item * 3);
            memcpy(part[kept].item, all.item, sizeof *all.item * 3);
            part[kept++].item[2] = index[i].item[2];
            if (index[i].item[2].v.i < 0 && (!no_value(index[i].item[0]) || !no_value(index[i].item[1])))
                return kb_fail(B, "a slice of memory in reverse is of a whole axis: slice it first, x[a:b][::-1]");
        } else if (is_slice(index[i]) || is_ellipsis(index[i]) || no_value(index[i])) {
            part[kept++] = is_slice(index[i]) ? all : index[i];
            if (no_value(index[i]))
                return kb_fail(B, "a new axis and steps of memory in one index: load it first");
        }
    }
    base = kplace_subscript(B, base, plain, n);
    base = kb_bad(base) ? base : kplace_load(B, base.place);
    return kb_bad(base) ? base : kb_subscript(B, base, part, kept);
}

static KVal kplace_subscript(Body *B, KVal base, const KVal *index, int n)
{
    KPlace p = *base.place;
    int at = 0, given = 0;
    bool steps = false;

    for (int i = 0; i < n; i++) {
        given += !is_ellipsis(index[i]) && !no_value(index[i]);
        steps |= kpart_steps(index[i]);
    }
    if (steps)
        return every_other(B, base, index, n);
    if (kplace_is_spots(index, n))
        return kplace_spots(B, base, index, n);
    if (given > kplace_free(&p))
        return kb_fail(B, "%d indices where there are %d axes", given, kplace_free(&p));
    if (!p.buffer && !end_view(B, &p))
        return KBAD;
    for (int i = 0; i < n; i++) {
        int k = kplace_axis(&p, at);
        if (no_value(index[i]))
            return kb_subscript(B, kplace_load(B, &p), index, n);
        if (is_ellipsis(index[i])) {
            at += kplace_free(&p) - at - (given - i);
        } else if (is_slice(index[i])) {
            if (!take_slice(B, &p.axis[k], index[i]))
                return KBAD;
            at++;
        } else if (!take_index(B, &p.axis[k], index[i])) {
            return KBAD;
        }
    }
    return kplace_value(B, &p);
}

/* ------------------------------------------------------------- lists */

static bool same_array(const KPlace *a, const KPlace *b)
{
    return a->buffer && b->buffer && a->dtype == b->dtype && a->rank == b->rank;
}

/* Buffers that one expression chooses among are one array with an axis more. */
static KVal choose_buffer(Body *B, KVal list, const Lin *at)
{
    KPlace p;
    bool ready = list.n > 0;
    int64_t at_i;

    for (int i = 0; i < list.n; i++)
        if (list.item[i].kind == K_PLACE && !held_leave(B, list.item[i].place))
            return KBAD;
    for (int i = 0; i < list.n; i++) {
        if (list.item[i].kind != K_PLACE || !same_array(list.item[0].place, list.item[i].place))
            return kb_fail(B, "a list is indexed by a number that is known before the launch, unless all in it are shared arrays of one shape");
        ready &= list.item[i].place->stacked && list.item[i].place->view.node == list.item[0].place->view.node &&
                 lin_number_of(&list.item[i].place->axis[0].start, &at_i) && at_i == i;
    }
    if (!ready) {
        int stack = ++*B->nstacks;
        for (int i = 0; i < list.n && i < STACK_MAX; i++)
            map_set(B->stack, list.item[i].place->buffer, (uintptr_t)(stack * STACK_MAX + i));
        return list.n > STACK_MAX ? kb_fail(B, "more than %d shared arrays in a list", STACK_MAX) : kb_again(B);
    }
    p = *list.item[0].place;
    if (!lin_add(B, p.axis[0].start, *at, 1, &p.axis[0].start))
        return kb_fail(B, "an index with too many parts");
    return kplace_value(B, &p);
}

static KVal list_item(Body *B, KVal list, KVal index)
{
    Lin l;
    int64_t at;

    if (!kb_to_lin(B, index, &l))
        return KBAD;
    if (!lin_number_of(&l, &at) && list.n && list.item[0].kind == K_PLACE && list.item[0].place->buffer)
        return choose_buffer(B, list, &l);
    if (!kb_need_number(B, &l, "the index of a list", &at))
        return KBAD;
    at += at < 0 ? list.n : 0;
    if (at < 0 || at >= list.n)
        return kb_fail(B, "index %lld of %d elements", (long long)at, list.n);
    return list.item[at];
}

static KVal list_slice(Body *B, KVal list, KVal s)
{
    int64_t lo = 0, hi = list.n, step = 1;
    KVal y = {.kind = list.kind};

    if ((!no_value(s.item[0]) && !kb_static_int(B, s.item[0], "the start of a slice", &lo)) ||
        (!no_value(s.item[1]) && !kb_static_int(B, s.item[1], "the end of a slice", &hi)) ||
        (!no_value(s.item[2]) && !kb_static_int(B, s.item[2], "the step of a slice", &step)))
        return KBAD;
    lo += lo < 0 ? list.n : 0;
    hi += hi < 0 ? list.n : 0;
    if (step < 1)
        return kb_fail(B, "a slice in a kernel has a positive step");
    y.item = kb_alloc(B, sizeof *y.item * (size_t)(list.n + 1));
    for (int64_t i = lo < 0 ? 0 : lo; i < hi && i < list.n; i += step)
        y.item[y.n++] = list.item[i];
    return y;
}

/* A part of a text, or of what else only the host cuts. */
static KVal static_slice(Body *B, KVal base, KVal slice)
{
    SliceObj *s = obj_new(V_SLICE, sizeof *s);
    Value *part[3] = {&s->lo, &s->hi, &s->step}, key = vobj(s), v;
    bool known = true;

    for (int i = 0; i < 3; i++) {
        known &= slice.item[i].kind == K_STATIC;
        *part[i] = slice.item[i].kind == K_STATIC ? value_ref(slice.item[i].v) : VNONE;
    }
    v = known ? value_getitem(B->I, base.v, key) : VERR;
    value_unref(key);
    return !known ? kb_fail(B, "this slice is not known before the launch") : is_err(v) ? kb_pending(B) : kb_static(B, v);
}

KVal kb_subscript(Body *B, KVal base, const KVal *index, int n)
{
    if (kb_bad(base))
        return base;
    switch (base.kind) {
    case K_PLACE: return kplace_subscript(B, base, index, n);
    case K_BLOCK: return kpart_of(B, base, index, n);
    case K_TUPLE: case K_LIST: case K_VECTOR:
        if (n != 1)
            return kb_fail(B, "a list has one index");
        return is_slice(index[0]) ? list_slice(B, base, index[0]) : list_item(B, base, index[0]);
    case K_STATIC:
        if (n == 1 && index[0].kind == K_STATIC) {
            Value v = value_getitem(B->I, base.v, index[0].v);
            return is_err(v) ? kb_pending(B) : kb_static(B, v);
        } else {
            KVal *item;
            int count = kb_sequence(B, base, &item);
            if (count < 0 && n == 1 && is_slice(index[0]))
                return static_slice(B, base, index[0]);
            KVal list = {.kind = K_LIST, .n = count, .item = item};
            return count >= 0 && n == 1 ? (is_slice(index[0]) ? list_slice(B, list, index[0]) : list_item(B, list, index[0]))
                                        : kb_fail(B, "this cannot be indexed in a kernel");
        }
    default: return kb_fail(B, "this cannot be indexed in a kernel");
    }
}

/* ------------------------------------------------------------- loading and storing */

/* The view and a start for each axis. */
static int kplace_operands(Body *B, const KPlace *p, TileRef *in)
{
    in[0] = p->view;
    for (int i = 0; i < p->rank; i++)
        in[1 + i] = lin_ref(B, &p->axis[i].start);
    return 1 + p->rank;
}

static bool kplace_shape(Body *B, const KPlace *p, TAttr *a)
{
    a->rank = (int8_t)p->rank;
    for (int i = 0; i < p->rank; i++) {
        a->shape[i] = 1;
        if (p->axis[i].gone)
            a->drop |= (uint8_t)(1u << i);
        else if (!kplace_extent(B, p, i, &a->shape[i]))
            return false;
    }
    return true;
}

static void kplace_tags(const KPlace *p, AxisTag *tag)
{
    int n = 0;

    for (int i = 0; i < p->rank; i++)
        if (!p->axis[i].gone)
            tag[n++] = (AxisTag){p->axis[i].dim, p->axis[i].cut, false, lacks(p, i), p->axis[i].start, p->axis[i].size};
}

static bool has_none(const KPlace *p)
{
    for (int i = 0; i < p->rank; i++)
        if (lacks(p, i))
            return true;
    return false;
}

/* What a load gives of which no element is there: nothing looks at it. */
static TileRef no_elements(Body *B, const KPlace *p, const TAttr *a)
{
    int32_t shape[VIEW_RANK];
    int rank = 0;

    for (int i = 0; i < p->rank; i++)
        if (!p->axis[i].gone)
            shape[rank++] = a->shape[i];
    B->uses_blocks = true;
    return kb_splat(B, kb_const(B, p->dtype, 0, 0), rank, shape);
}

KVal kplace_load(Body *B, const KPlace *p)
{
    TileRef in[1 + VIEW_RANK];
    TAttr a = tattr_none;
    AxisTag tag[VIEW_RANK] = {{0}};
    int n;
    TileRef y;

    if (p->held)
        return held_load(B, p);
    if (!kplace_shape(B, p, &a))
        return KBAD;
    kplace_tags(p, tag);
    if (has_none(p))
        return kb_block(B, no_elements(B, p, &a), tag);
    n = kplace_operands(B, p, in);
    y = kb_emit(B, TOP_load, &a, in, n);
    if (!y.node)
        return KBAD;
    if (!tile_type(y)->rank)
        return kb_scalar(y, false);
    B->uses_blocks = true;
    return kb_block(B, y, tag);
}

static bool may_store(Body *B, const KPlace *p)
{
    if (p->param < 0)
        return p->buffer || (kb_fail(B, "E0613: a kernel writes through its parameters only"), false);
    if (B->spec->param[p->param].field) {
        kb_fail(B, "E0613: '%s' is a part of what was passed, which is only read: pass the tensor itself", B->spec->param[p->param].name->text);
        return false;
    }
    B->param[p->param].written = true;
    return true;
}

/* The value with the place's extents and dtype. */
static TileRef fitting(Body *B, const KPlace *p, KVal v, const TAttr *a)
{
    int32_t shape[VIEW_RANK];
    int rank = 0;
    TileRef x;
    const TileType *t;

    for (int i = 0; i < p->rank; i++)
        if (!p->axis[i].gone)
            shape[rank++] = a->shape[i];
    x = kb_ref(B, v, p->dtype);
    if (!x.node)
        return x;
    t = tile_type(x);
    if (t->rank > rank) {
        kb_fail(B, "E0608: a block value of %d axes does not fit the place's %d", t->rank, rank);
        return (TileRef){0};
    }
    for (int i = 1; i <= t->rank; i++)
        if (t->extent[t->rank - i] != shape[rank - i] && t->extent[t->rank - i] != 1) {
            kb_fail(B, "E0608: extent %d does not fit the place's %d", t->extent[t->rank - i], shape[rank - i]);
            return (TileRef){0};
        }
    if (t->rank && t->rank < rank) {
        int32_t full[VIEW_RANK];
        for (int i = 0; i < rank; i++)
            full[i] = i < rank - t->rank ? 1 : t->extent[i - (rank - t->rank)];
        x = kb_reshape(B, x, rank, full);
    }
    return rank && x.node && memcmp(tile_type(x)->extent, shape, sizeof *shape * (size_t)rank) ? kb_splat(B, x, rank, shape)
         : rank && x.node && !tile_type(x)->rank                                            ? kb_splat(B, x, rank, shape)
                                                                                            : x;
}

/* Does what is stored lie across: block_n along rows and block_m along columns? */
static void note_turn(Body *B, const KPlace *p)
{
    int r = p->rank;
    KParam *param = p->param >= 0 ? &B->param[p->param] : NULL;
    Lin m, n;

    if (!param || r < 2 || !B->offset[0] || !B->offset[1] || !kb_to_lin(B, *B->offset[0], &m) || !kb_to_lin(B, *B->offset[1], &n))
        return;
    if (lin_same(&p->axis[r - 2].start, &n) && lin_same(&p->axis[r - 1].start, &m))
        param->turned = true;
    else
        param->upright = true;
}

static bool put(Body *B, TileOp op, OpId how, const KPlace *p, KVal v)
{
    TileRef in[2 + VIEW_RANK];
    TAttr a = tattr_none;
    int n;

    v = kb_value(B, v);
    if (kb_bad(v) || !may_store(B, p) || !kplace_shape(B, p, &a))
        return false;
    B->uses_blocks |= a.drop != (1u << p->rank) - 1;
    note_turn(B, p);
    if (has_none(p))
        return true;
    in[1 + p->rank] = fitting(B, p, v, &a);
    n = kplace_operands(B, p, in);
    if (!in[n].node)
        return false;
    a.op = (uint8_t)how;
    kb_emit(B, op, &a, in, n + 1);
    return !B->failed;
}

bool kplace_store(Body *B, const KPlace *p, KVal v) { return held_leave(B, p) && put(B, TOP_store, OP_COUNT, p, v); }

bool kplace_assign(Body *B, const KPlace *p, KVal v) { return p->held ? held_store(B, p, v) : put(B, TOP_store, OP_COUNT, p, v); }

bool kplace_update(Body *B, const KPlace *p, OpId op, KVal v)
{
    B->updates = true;
    return held_leave(B, p) && put(B, TOP_atomic, op, p, v);
}

KVal kplace_take(Body *B, const KPlace *p, OpId op, const KVal *expected, KVal v)
{
    TileRef in[3 + VIEW_RANK], y, last[2];
    TAttr a = tattr_none;
    int n;

    B->updates = true;
    v = kb_value(B, v);
    if (kb_bad(v) || !held_leave(B, p) || !may_store(B, p) || !kplace_shape(B, p, &a))
        return KBAD;
    if (has_none(p))
        return kb_scalar(kb_const(B, p->dtype, 0, 0), false);
    if ((op == OP_bitand || op == OP_bitor || op == OP_bitxor) && !dtype_is_int(p->dtype))
        return kb_fail(B, "E0609: bits of %s: there are bits of integers alone", dtype_info[p->dtype].name);
    last[0] = expected ? fitting(B, p, kb_value(B, *expected), &a) : (TileRef){0};
    last[1] = fitting(B, p, v, &a);
    n = kplace_operands(B, p, in);
    if (!in[n - 1].node || !last[1].node || (expected && !last[0].node))
        return KBAD;
    if (expected)
        in[n++] = last[0];
    in[n++] = last[1];
    a.op = (uint8_t)op;
    y = kb_emit(B, TOP_update, &a, in, n);
    return y.node ? kb_scalar(y, false) : KBAD;
}

/* ------------------------------------------------------------- buffers */

/* Sizes, places of the group and buffers stand before all other nodes, in the order in which they were asked for. */
void kb_to_front(Body *B, TileNode *n)
{
    TileBlock *b = &B->k->body;
    TileNode *after = B->front;

    B->front = n;
    if (n->prev == after)
        return;
    *(n->prev ? &n->prev->next : &b->first) = n->next;
    *(n->next ? &n->next->prev : &b->last) = n->prev;
    n->prev = after;
    n->next = after ? after->next : b->first;
    *(n->prev ? &n->prev->next : &b->first) = n;
    *(n->next ? &n->next->prev : &b->last) = n;
}

static TileRef make_buffer(Body *B, Sym name, int rank, const int32_t *shape, DType dt, int space, int64_t align, bool swizzle)
{
    TileBlock *at = B->b.at;
    TileRef extent[VIEW_RANK] = {{0}}, y;
    TAttr a = tattr_none;

    B->b.at = &B->k->body;
    for (int i = 0; i < rank; i++)
        extent[i] = kb_index(B, shape[i]);
    a.dtype = (uint8_t)dt;
    a.space = (uint8_t)space;
    a.name = name;
    a.i = align;
    a.swizzle = swizzle;
    y = kb_emit(B, TOP_alloc, &a, extent, rank);
    for (int i = 0; i < rank; i++)
        if (extent[i].node)
            kb_to_front(B, extent[i].node);
    if (y.node)
        kb_to_front(B, y.node);
    B->b.at = at;
    return y;
}

static KVal buffer_place(Body *B, TileRef view, uint64_t path, int rank, const int32_t *shape, DType dt)
{
    KPlace p = {.view = view, .dtype = dt, .rank = rank, .param = -1, .buffer = path};

    if (!view.node)
        return KBAD;
    for (int i = 0; i < rank; i++)
        p.axis[i].extent = p.axis[i].size = lin_number(shape[i]);
    return kplace_value(B, &p);
}

/* Of the buffers that take turns, the one allocated at `path`; stack: which of them, and its place among them. */
static KVal stacked_buffer(Body *B, uint64_t path, uintptr_t stack, Sym name, int rank, const int32_t *shape, DType dt, int64_t align, bool swizzle)
{
    uint64_t id = 0x51ac0000u + stack / STACK_MAX;
    uintptr_t known;
    int32_t full[VIEW_RANK];
    int64_t at = (int64_t)(stack % STACK_MAX), count = 0;
    KPlace p;

    for (uint32_t i = 0; i < B->stack->cap; i++)
        count += B->stack->key[i] && B->stack->val[i] / STACK_MAX == stack / STACK_MAX;
    if (rank == VIEW_RANK)
        return kb_fail(B, "shared arrays that take turns have at most %d axes", VIEW_RANK - 1);
    full[0] = (int32_t)count;
    memcpy(full + 1, shape, sizeof *shape * (size_t)rank);
    if (!map_find(&B->buffers, id, &known)) {
        KVal v = buffer_place(B, make_buffer(B, name, rank + 1, full, dt, SPACE_SHARED, align, swizzle), path, rank + 1, full, dt);
        if (kb_bad(v))
            return v;
        map_set(&B->buffers, id, (uintptr_t)v.place);
        known = (uintptr_t)v.place;
    }
    p = *(const KPlace *)known;
    p.stacked = true;
    p.buffer = path;
    p.axis[0].gone = true;
    p.axis[0].start = lin_number(at);
    p.axis[0].extent = lin_number(1);
    return kplace_value(B, &p);
}

KVal kb_alloc_shared(Body *B, uint64_t path, Sym name, int rank, const int32_t *shape, DType dt, int space, int64_t align, bool swizzle)
{
    uintptr_t known;
    KVal v;

    if (space == SPACE_SHARED && map_find(B->stack, path, &known))
        return stacked_buffer(B, path, known, name, rank, shape, dt, align, swizzle);
    if (map_find(&B->buffers, path, &known))
        return (KVal){.kind = K_PLACE, .place = (const KPlace *)known};
    v = buffer_place(B, make_buffer(B, name, rank, shape, dt, space, align, swizzle), path, rank, shape, dt);
    if (!kb_bad(v))
        map_set(&B->buffers, path, (uintptr_t)v.place);
    return v;
}
