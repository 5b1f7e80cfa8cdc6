/*
 * The operations of the kernel language on memory: arrays that are allocated, blocks, elements and vectors that are loaded and stored, copies
 * and the waits for them, updates of elements by several at once.
 */
#include "frontend/kernel/oper.h"

#include <string.h>

/* ------------------------------------------------------------- memory */

static KVal op_alloc_shared(KArgs *a)
{
    int32_t shape[VIEW_RANK];
    int rank;
    DType dt;
    int64_t align = 0;
    uint64_t path = (a->B->fn->path ^ (uintptr_t)a->call) * 0x9e3779b97f4a7c15u | 1;
    bool swizzle = kb_given(a, 2) && a->at[2].kind == K_STATIC && a->at[2].v.tag == V_STR && !strcmp(as_str(a->at[2].v)->s, "xor");

    if (!kb_shape_arg(a, 0, &rank, shape) || !kb_dtype_arg(a, 1, DT_f32, &dt) || (kb_given(a, 3) && !kb_static_int(a->B, a->at[3],
            "an alignment", &align)))
        return KBAD;
    return kb_alloc_shared(a->B, path, a->B->target ? a->B->target : sym("shared"), rank, shape, dt, SPACE_SHARED, align, swizzle);
}

static KVal op_alloc_register(KArgs *a)
{
    int32_t shape[VIEW_RANK];
    int rank;
    DType dt;
    uint64_t path = (a->B->fn->path ^ (uintptr_t)a->call) * 0x9e3779b97f4a7c15u | 1;
    KVal held;

    a->B->uses_lanes = true;
    if (!kb_given(a, 1) && a->at[0].kind == K_STATIC && a->at[0].v.tag == V_DTYPE)
        return kb_scalar(kb_const(a->B, as_dtype(a->at[0].v)->dtype, 0, 0), false);
    if (!kb_shape_arg(a, 0, &rank, shape) || !kb_dtype_arg(a, 1, DT_f32, &dt))
        return KBAD;
    held = held_new(a->B, path, rank, shape, dt);
    return held.kind != K_UNSET ? held
                                : kb_alloc_shared(a->B, path, a->B->target ? a->B->target : sym("register"), rank, shape, dt, SPACE_LOCAL, 0, false);
}

static bool set_extent(KArgs *a, KPlace *p, int k, KVal extent)
{
    int64_t v;

    if (k < 0)
        return kb_fail(a->B, "%s(): the memory has no such axis", a->name), false;
    if (!kb_static_int(a->B, extent, "the extent of a block", &v))
        return false;
    p->axis[k].extent = lin_number(v);
    return true;
}

/* view, block, shape, rows, cols */
/* vector=, stages= and prefetch= are for the passes that know how memory is moved (ir/tile/pass.def). */
static KVal with_hints(KArgs *a, KVal v)
{
    TAttr own;
    int64_t vector = 0, stages = 0, prefetch = 0;

    if (v.kind != K_BLOCK || v.ref.node->op != TOP_load)
        return v;
    if ((kb_given(a, 5) && !kb_static_int(a->B, a->at[5], "a vector's width", &vector)) ||
        (kb_given(a, 6) && !kb_static_int(a->B, a->at[6], "how far a load is brought ahead", &prefetch)) ||
        (kb_given(a, 7) && !kb_static_int(a->B, a->at[7], "the buffers of a pipeline", &stages)))
        return KBAD;
    stages = stages ? stages : prefetch ? prefetch + 1 : 0;
    own = *v.ref.node->attr;
    own.vector = (uint8_t)(vector == 1 || vector == 2 || vector == 4 || vector == 8 || vector == 16 ? vector : 0);
    own.stages = (uint8_t)(stages < 0 ? 0 : stages > 16 ? 16 : stages);
    tile_set_attr(a->B->k, v.ref.node, &own);
    return v;
}

static KVal op_load(KArgs *a)
{
    const KPlace *from;
    KPlace p;
    Lin start;

    if (a->at[0].kind == K_BLOCK || a->at[0].kind == K_SCALAR)
        return a->at[0];
    from = oper_memory_arg(a, 0);
    if (!from)
        return KBAD;
    p = *from;
    if ((kb_given(a, 1) || kb_given(a, 3) || kb_given(a, 4)) && kplace_free(&p) > 2 && !lead_take(a->B, &p, kplace_free(&p) - 2))
        return KBAD;
    if (kb_given(a, 2)) {
        KVal *item;
        int n = kb_sequence(a->B, a->at[2], &item);
        if (n != kplace_free(&p))
            return kb_fail(a->B, "%s(): the shape has %d extents where the memory has %d axes", a->name, n, kplace_free(&p));
        for (int i = 0; i < n; i++)
            if (!set_extent(a, &p, kplace_axis(&p, i), item[i]))
                return KBAD;
    }
    if ((kb_given(a, 3) && !set_extent(a, &p, kplace_axis(&p, 0), a->at[3])) ||
        (kb_given(a, 4) && !set_extent(a, &p, kplace_axis(&p, kplace_free(&p) - 1), a->at[4])))
        return KBAD;
    if (kb_given(a, 1)) {
        int k = kplace_axis(&p, 0);
        KVal rows = kb_given(a, 3) ? a->at[3] : kb_field(a->B, SCHED_block_n);
        if (k < 0 || (!kb_given(a, 3) && !kb_given(a, 2) && !set_extent(a, &p, k, rows)))
            return kb_fail(a->B, "%s(): there are no rows to take a block of", a->name);
        if (!kb_to_lin(a->B, kb_binary(a->B, AOP_MUL, a->at[1], kb_int(a->B, p.axis[k].extent)), &start) ||
            !lin_add(a->B, p.axis[k].start, start, 1, &p.axis[k].start))
            return KBAD;
    }
    return with_hints(a, kplace_load(a->B, &p));
}

static KVal op_store(KArgs *a)
{
    const KPlace *p = oper_memory_arg(a, 0);
    KPlace q;
    KVal v = kb_value(a->B, a->at[1]);

    if (!p || kb_bad(v))
        return KBAD;
    q = *p;
    if (v.kind == K_BLOCK && tile_type(v.ref)->rank == kplace_free(p) && p->param >= 0)      /* a tile of the group's own is as large as the value */
        for (int i = 0; i < kplace_free(p); i++) {
            PlaceAxis *x = &q.axis[kplace_axis(p, i)];
            int64_t n;
            if (!lin_number_of(&x->extent, &n))
                x->extent = lin_number(tile_type(v.ref)->extent[i]);
        }
    kplace_store(a->B, &q, v);
    return (KVal){.kind = K_STATIC, .v = VNONE};
}

/* A view with the place's free axes that begin at 0; what the place has outside of its view stays outside. */
static TileRef window(KArgs *a, const KPlace *p)
{
    TileRef in[1 + 2 * VIEW_RANK];
    TAttr attr = tattr_none;

    if (!held_leave(a->B, p))
        return (TileRef){0};
    in[0] = p->view;
    for (int i = 0; i < p->rank; i++) {
        TileRef size = lin_ref(a->B, &p->axis[i].size), start = lin_ref(a->B, &p->axis[i].start), extent = lin_ref(a->B, &p->axis[i].extent);
        int64_t s, e, n;
        bool inside = lin_number_of(&p->axis[i].start, &s) && lin_number_of(&p->axis[i].extent, &e) && lin_number_of(&p->axis[i].size, &n) &&
                s >= 0 && s + e <= n;
        if (p->axis[i].gone)
            attr.drop |= (uint8_t)(1u << i);
        if (!inside && !p->axis[i].gone && !p->stacked) {
            start = kb_emit2(a->B, TOP_imin, NULL, start, size);
            extent = kb_emit2(a->B, TOP_imin, NULL, extent, kb_emit2(a->B, TOP_isub, NULL, size, start));
        }
        in[1 + i] = start;
        in[1 + p->rank + i] = extent;
    }
    return kb_emit(a->B, TOP_part, &attr, in, 1 + 2 * p->rank);
}

static KVal copy(KArgs *a, int dst, int src, bool async)
{
    const KPlace *to = oper_memory_arg(a, dst), *from = to ? oper_memory_arg(a, src) : NULL;
    KVal none = {.kind = K_STATIC, .v = VNONE}, v;
    TileRef x, y;

    if (!from)
        return KBAD;
    a->B->uses_blocks = true;
    if (!to->buffer || to->dtype != from->dtype || kplace_free(to) != kplace_free(from)) {    /* only shared memory is copied to beside the lanes */
        KPlace p = *from;
        for (int i = 0; i < kplace_free(to) && i < kplace_free(from) && to->buffer; i++)
            p.axis[kplace_axis(&p, i)].extent = to->axis[kplace_axis(to, i)].extent;
        v = kplace_load(a->B, &p);
        return !kb_bad(v) && kplace_store(a->B, to, v) ? none : KBAD;
    }
    x = window(a, to);
    y = window(a, from);
    kb_emit2(a->B, async ? TOP_copy_async : TOP_copy, NULL, x, y);
    return a->B->failed ? KBAD : none;
}

static KVal op_wait(KArgs *a, bool barrier)
{
    TAttr attr = tattr_none;

    if (kb_given(a, 0) && !kb_static_int(a->B, a->at[0], "the number of copies under way", &attr.i))
        return KBAD;
    attr.i = attr.i < 0 ? 0 : attr.i;
    kb_emit(a->B, TOP_wait, &attr, NULL, 0);
    if (barrier)
        kb_emit(a->B, TOP_barrier, NULL, NULL, 0);
    return kb_none(a->B);
}

/* Elements of axis 0 by number. inside: one that is outside is the program's mistake. */
static KVal gather(KArgs *a, const KPlace *p, TileRef index, bool inside)
{
    TAttr attr = tattr_none;
    AxisTag tag[VIEW_RANK] = {{0}};
    int rank = kplace_free(p);

    if (rank != p->rank || !rank)
        return kb_fail(a->B, "%s() takes memory without indices", a->name);
    attr.rank = (int8_t)rank;
    for (int i = 0; i < rank; i++)
        if (i && !kplace_extent(a->B, p, i, &attr.shape[i]))
            return KBAD;
    if (!index.node)
        return KBAD;
    attr.shape[0] = tile_type(index)->extent[0];
    attr.i = 2 * inside;
    a->B->uses_blocks = true;
    return kb_block(a->B, kb_emit2(a->B, TOP_gather, &attr, window(a, p), index), tag);
}

static KVal op_load_strided(KArgs *a)
{
    const KPlace *p = oper_memory_arg(a, 0);
    int64_t stride;
    int32_t extent, shape[1];
    TileRef in[2];
    Lin zero = lin_number(0);

    if (!p || !kb_static_int(a->B, a->at[1], "a stride", &stride) || !kplace_extent(a->B, p, 0, &extent))
        return KBAD;
    if (stride < 1)
        return kb_fail(a->B, "%s(): a stride is at least 1", a->name);
    shape[0] = (int32_t)((extent + stride - 1) / stride);
    in[0] = kb_iota(a->B, &zero, 1, shape, 0);
    in[1] = kb_const(a->B, DT_int64, 0, stride);
    return gather(a, p, kb_map(a->B, OP_mul, in, 2), false);
}

static KVal op_load_gather(KArgs *a)
{
    const KPlace *p = oper_memory_arg(a, 0);
    KVal index = p ? kb_value(a->B, a->at[1]) : KBAD;

    if (kb_bad(index))
        return KBAD;
    if (index.kind != K_BLOCK || tile_type(index.ref)->rank != 1 || !dtype_is_int((DType)tile_type(index.ref)->dtype))
        return kb_fail(a->B, "%s() takes one axis of ints as indices", a->name);
    return gather(a, p, index.ref, true);
}

/* The place of element k of a vector: along the last axis, from where it begins. */
static KPlace vector_element(Body *B, const KPlace *p, int k)
{
    KPlace q = *p;
    PlaceAxis *x = &q.axis[q.rank - 1];

    lin_add(B, x->start, lin_number(k), 1, &x->start);
    x->gone = true;
    x->extent = lin_number(1);
    return q;
}

static KVal op_load_vector(KArgs *a)
{
    const KPlace *p = oper_memory_arg(a, 0);
    KVal y = {.kind = K_VECTOR};
    int64_t n, row;

    if (!p || !kb_static_int(a->B, a->at[1], "a vector's width", &n))
        return KBAD;
    if (n != 2 && n != 4 && n != 8 && n != 16)
        return kb_fail(a->B, "E0616: a vector's width is 2, 4, 8 or 16, not %lld", (long long)n);
    if (kplace_free(p) > 1 || !p->rank)
        return kb_fail(a->B, "%s() takes a row of memory, or the element where it begins", a->name);
    if (kplace_free(p) == 1 && lin_known(a->B, &p->axis[p->rank - 1].extent, &row) && row % n)
        return kb_fail(a->B, "E0616: a vector's width %lld does not divide the row's %lld elements", (long long)n, (long long)row);
    y.n = (int)n;
    y.item = kb_alloc(a->B, sizeof *y.item * (size_t)n);
    for (int k = 0; k < y.n; k++) {
        KPlace q = vector_element(a->B, p, k);
        y.item[k] = kplace_load(a->B, &q);
    }
    return a->B->failed ? KBAD : y;
}

static KVal op_store_vector(KArgs *a)
{
    const KPlace *p = oper_memory_arg(a, 0);
    KVal v = a->at[1];

    if (!p)
        return KBAD;
    if (v.kind != K_VECTOR)
        return kb_fail(a->B, "%s() stores a vector, which load_vector gives", a->name);
    for (int k = 0; k < v.n; k++) {
        KPlace q = vector_element(a->B, p, k);
        kplace_store(a->B, &q, v.item[k]);
    }
    return kb_none(a->B);
}

/* ------------------------------------------------------------- atomics */

/* The last argument is the value; before it stands what is expected, if anything is. */
static KVal op_atomic(KArgs *a, OpId op, bool expects)
{
    KVal at = a->at[0], index[8], *item;
    const KPlace *p = oper_memory_arg(a, 0);
    int n;

    if (!p)
        return KBAD;
    n = kb_sequence(a->B, a->at[1], &item);
    if (n > 8)
        return kb_fail(a->B, "%s(): too many indices", a->name);
    for (int i = 0; i < n; i++)
        index[i] = kb_value(a->B, item[i]);
    if (n < 0)
        index[0] = kb_value(a->B, a->at[1]);
    at = kb_subscript(a->B, at, index, n < 0 ? 1 : n);
    if (kb_bad(at))
        return at;
    if (at.kind != K_PLACE || kplace_free(at.place))
        return kb_fail(a->B, "E0610: %s() updates one element: give an index for each axis", a->name);
    return kplace_take(a->B, at.place, op, expects ? &a->at[2] : NULL, a->at[2 + expects]);
}

KVal oper_memory(KArgs *a)
{
    KVal y;

    switch (kernel_op_id(a->op)) {
    case KOP_alloc_shared: return op_alloc_shared(a);
    case KOP_alloc_register: return op_alloc_register(a);
    case KOP_load: case KOP_load_shared: return op_load(a);
    case KOP_store: case KOP_store_shared: return op_store(a);
    case KOP_load_strided: return op_load_strided(a);
    case KOP_load_gather: return op_load_gather(a);
    case KOP_load_coalesced: case KOP_load_broadcast: return kb_value(a->B, a->at[0]);
    case KOP_load_vector: return op_load_vector(a);
    case KOP_store_vector: return op_store_vector(a);
    case KOP_cp_async: return copy(a, 0, 1, true);
    case KOP_cp_commit_group: return kb_emit(a->B, TOP_commit, NULL, NULL, 0), kb_none(a->B);
    case KOP_cp_wait_group: return op_wait(a, false);
    case KOP_async_copy:
        y = copy(a, 1, 0, true);
        kb_emit(a->B, TOP_commit, NULL, NULL, 0);
        return y;
    case KOP_wait_async: return op_wait(a, true);
    case KOP_atomic_add: return op_atomic(a, OP_sum, false);
    case KOP_atomic_max: return op_atomic(a, OP_max, false);
    case KOP_atomic_min: return op_atomic(a, OP_min, false);
    case KOP_atomic_and: return op_atomic(a, OP_bitand, false);
    case KOP_atomic_or: return op_atomic(a, OP_bitor, false);
    case KOP_atomic_xor: return op_atomic(a, OP_bitxor, false);
    case KOP_atomic_xchg: return op_atomic(a, OP_where, false);
    case KOP_atomic_cas: return op_atomic(a, OP_where, true);
    default: return oper_math(a);
    }
}
