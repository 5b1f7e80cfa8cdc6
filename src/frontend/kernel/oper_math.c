/*
 * The operations of the kernel language on block values: products, constructors,
 * attention's helpers.  Each is a few ops of tiles.  oper_fragment.c has fragments.
 */
#include "frontend/kernel/oper.h"

#include <math.h>
#include <string.h>

static TileRef f32_const(Body *B, double f) { return kb_const(B, DT_f32, f, 0); }

TileRef kb_iota(Body *B, const Lin *first, int rank, const int32_t *shape, int axis)
{
    TAttr a = tattr_none;

    a.dtype = DT_int64;
    a.axis = (int8_t)axis;
    a.rank = (int8_t)rank;
    memcpy(a.shape, shape, sizeof *shape * (size_t)rank);
    return kb_emit1(B, TOP_iota, &a, lin_ref(B, first));
}

static TileRef map2(Body *B, OpId op, TileRef a, TileRef b) { return kb_map(B, op, (TileRef[]){a, b}, 2); }
static TileRef map1(Body *B, OpId op, TileRef a) { return kb_map(B, op, &a, 1); }
static TileRef where(Body *B, TileRef test, TileRef a, TileRef b) { return kb_map(B, OP_where, (TileRef[]){test, a, b}, 3); }

static KVal block_arg(KArgs *a, int i, int rank)
{
    KVal v = kb_value(a->B, a->at[i]);

    if (kb_bad(v))
        return v;
    if (v.kind != K_BLOCK || (rank && kb_type(v)->rank != rank))
        return kb_fail(a->B, rank ? "%s() takes block values of %d axes" : "%s() takes block values", a->name, rank);
    return v;
}

/* ------------------------------------------------------------- products */

static DType product_dtype(DType a, DType b)
{
    if (a == DT_f64 || b == DT_f64)
        return DT_f64;
    if (dtype_is_float(a) || dtype_is_float(b))
        return DT_f32;
    return dtype_info[a].bits == 64 || dtype_info[b].bits == 64 ? DT_int64 : DT_int32;
}

/* An operand as the scope has it multiplied. */
static TileRef factor(Body *B, TileRef x, DType sums)
{
    return B->spec->tf32 && sums == DT_f32 && tile_type(x)->dtype == DT_f32 ? kb_convert(B, x, DT_tf32) : x;
}

/* a @ b + acc of two blocks of two axes; acc UNSET: nothing. */
static KVal product(KArgs *a, KVal x, KVal y, KVal acc, DType dt)
{
    Body *B = a->B;
    int32_t shape[2];
    AxisTag tag[VIEW_RANK] = {{0}};
    TAttr at = tattr_none;
    TileRef in[4];

    if (kb_bad(x) || kb_bad(y))
        return KBAD;
    if (kb_type(x)->extent[1] != kb_type(y)->extent[0] || x.tag[1].none != y.tag[0].none)
        return kb_fail(B, "E0607: %s: inner extents of [%d, %d] and [%d, %d] differ", a->name, kb_type(x)->extent[0], kb_type(x)->extent[1],
                      kb_type(y)->extent[0], kb_type(y)->extent[1]);
    shape[0] = kb_type(x)->extent[0];
    shape[1] = kb_type(y)->extent[1];
    acc = acc.kind == K_UNSET ? acc : kb_value(B, acc);
    if (kb_bad(acc))
        return acc;
    if (acc.kind == K_BLOCK)
        dt = (DType)kb_type(acc)->dtype;
    in[0] = factor(B, x.ref, dt);
    in[1] = factor(B, y.ref, dt);
    in[2] = acc.kind == K_UNSET ? kb_const(B, dt, 0, 0) : kb_ref(B, acc, dt);
    if (in[2].node && memcmp(tile_type(in[2])->extent, shape, sizeof shape) != 0)
        in[2] = kb_splat(B, in[2], 2, shape);
    tag[0] = x.tag[0];
    tag[1] = y.tag[1];
    if (x.tag[1].none)
        return kb_block(B, tile_type(in[2])->rank == 2 ? in[2] : kb_splat(B, in[2], 2, shape), tag);
    in[3] = kb_index(B, kb_type(x)->extent[1]);
    at.fast = B->spec->fast && dt == DT_f32;
    return kb_block(B, kb_emit(B, TOP_dot, &at, in, 4), tag);
}

KVal oper_dot(KArgs *a)
{
    KVal x = block_arg(a, 0, 2), y = block_arg(a, 1, 2);

    if (kb_bad(x) || kb_bad(y))
        return KBAD;
    return product(a, x, y, kb_given(a, 2) ? a->at[2] : KUNSET, product_dtype((DType)kb_type(x)->dtype, (DType)kb_type(y)->dtype));
}

static KVal op_mma_mixed(KArgs *a)
{
    KVal x = block_arg(a, 0, 2), y = block_arg(a, 1, 2);
    DType dt;

    return kb_bad(x) || kb_bad(y) || !kb_dtype_arg(a, 2, DT_f32, &dt) ? KBAD : product(a, x, y, KUNSET, dt);
}

/* ------------------------------------------------------------- constructors */

KVal oper_filled(KArgs *a, int dtype_at, KVal value)
{
    int32_t shape[VIEW_RANK];
    AxisTag tag[VIEW_RANK] = {{0}};
    int rank;
    DType dt;
    TileRef x;

    if (!kb_block_shape_arg(a, 0, &rank, shape, tag) || !kb_dtype_arg(a, dtype_at, DT_f32, &dt))
        return KBAD;
    x = kb_ref(a->B, value, dt);
    a->B->uses_blocks = true;
    return x.node ? kb_block(a->B, rank ? kb_splat(a->B, x, rank, shape) : x, tag) : KBAD;
}

static KVal op_broadcast(KArgs *a)
{
    int32_t shape[VIEW_RANK];
    int rank;
    KVal v = kb_value(a->B, a->at[0]);
    TileRef x;

    if (kb_bad(v) || !kb_shape_arg(a, 1, &rank, shape))
        return KBAD;
    x = kb_ref(a->B, v, v.kind == K_STATIC || v.kind == K_INT ? DT_f32 : (DType)kb_type(v)->dtype);
    if (x.node && tile_type(x)->rank && tile_type(x)->rank < rank) {
        int32_t full[VIEW_RANK];
        for (int i = 0; i < rank; i++)
            full[i] = i < rank - tile_type(x)->rank ? 1 : tile_type(x)->extent[i - (rank - tile_type(x)->rank)];
        x = kb_reshape(a->B, x, rank, full);
    }
    return x.node ? kb_block(a->B, kb_splat(a->B, x, rank, shape), NULL) : KBAD;
}

static KVal op_rsqrt(KArgs *a)
{
    KVal v = kb_value(a->B, a->at[0]);
    double f;

    if (kb_static_number(v, &f))
        return (KVal){.kind = K_STATIC, .v = vfloat(1 / sqrt(f))};
    return kb_bad(v) ? v : kb_apply(a->B, OP_rsqrt, &v, 1);
}

/* exp2 or log2, marked: who makes code may take the machine's own. */
static KVal op_quick(KArgs *a, OpId op, double (*known)(double))
{
    KVal v = kb_value(a->B, a->at[0]), y;
    double f;

    if (kb_static_number(v, &f))
        return (KVal){.kind = K_STATIC, .v = vfloat(known(f))};
    y = kb_bad(v) ? v : kb_apply(a->B, op, &v, 1);
    if ((y.kind == K_BLOCK || y.kind == K_SCALAR) && y.ref.node->op == TOP_map) {
        TAttr marked = *y.ref.node->attr;
        marked.fast = 1;
        tile_set_attr(a->B->k, y.ref.node, &marked);
    }
    return y;
}

static KVal op_cast(KArgs *a)
{
    DType dt;

    return kb_dtype_arg(a, 1, DT_f32, &dt) ? kb_cast(a->B, a->at[0], dt) : KBAD;
}

/* ------------------------------------------------------------- attention */

/* Numbers along an axis of S: from a first one, or a block of them. */
static TileRef numbers_along(Body *B, KVal v, KVal s, int axis)
{
    int32_t shape[2] = {1, 1};
    Lin first;

    shape[axis] = kb_type(s)->extent[axis];
    if (v.kind == K_BLOCK && kb_type(v)->rank == 1)
        return kb_reshape(B, kb_convert(B, v.ref, DT_int64), 2, shape);
    if (v.kind == K_BLOCK)
        return kb_convert(B, v.ref, DT_int64);
    return kb_to_lin(B, v, &first) ? kb_iota(B, &first, 2, shape, axis) : (TileRef){0};
}

static TileRef minus_infinity(Body *B, KVal s) { return kb_const(B, (DType)kb_type(s)->dtype, -INFINITY, 0); }

static KVal op_mask_causal(KArgs *a)
{
    KVal s = block_arg(a, 0, 2), y;
    TileRef rows, cols;

    if (kb_bad(s))
        return s;
    rows = numbers_along(a->B, kb_value(a->B, a->at[1]), s, 0);
    cols = numbers_along(a->B, kb_value(a->B, a->at[2]), s, 1);
    rows = map2(a->B, OP_le, cols, rows);
    y = kb_block(a->B, where(a->B, rows, s.ref, minus_infinity(a->B, s)), s.tag);
    if (AST_IS(a->node[0], Name) && !kb_bad(y))
        kb_set(a->B, AST_AS(a->node[0], Name)->id, y);
    return y;
}

/* Columns past the end of their dimension do not count. */
static TileRef columns_that_are(Body *B, KVal s)
{
    const AxisTag *t = &s.tag[1];
    int32_t shape[2] = {1, kb_type(s)->extent[1]};
    int64_t start, size;
    TAttr a = tattr_none;
    TileRef limit;

    if (!t->dim || t->moved)
        return s.ref;
    if (lin_number_of(&t->start, &start) && lin_number_of(&t->size, &size) && start + shape[1] <= size)
        return s.ref;
    a.dtype = DT_int64;
    limit = kb_emit1(B, TOP_to_tile, &a, lin_ref(B, &t->size));
    limit = map2(B, OP_lt, kb_iota(B, &t->start, 2, shape, 1), limit);
    return where(B, limit, s.ref, minus_infinity(B, s));
}

/* exp(x - m) where m may be -inf, of which nothing is left. */
static TileRef exp_below(Body *B, TileRef x, TileRef m)
{
    DType dt = m.node ? (DType)tile_type(m)->dtype : DT_f32;
    TileRef low = kb_const(B, dt, -INFINITY, 0), zero = kb_const(B, dt, 0, 0);

    return map1(B, OP_exp, map2(B, OP_sub, x, where(B, map2(B, OP_eq, m, low), zero, m)));
}

static TileRef column(Body *B, TileRef x)
{
    int32_t shape[2] = {x.node ? tile_type(x)->extent[0] : 1, 1};

    return kb_reshape(B, x, 2, shape);
}

static KVal triple(Body *B, KVal a, KVal b, KVal c)
{
    KVal y = {.kind = K_TUPLE, .n = 3};

    y.item = kb_alloc(B, sizeof *y.item * 3);
    y.item[0] = a;
    y.item[1] = b;
    y.item[2] = c;
    return B->failed ? KBAD : y;
}

static KVal op_softmax_online(KArgs *a)
{
    KVal s = block_arg(a, 0, 2), m, p;
    Body *B = a->B;

    if (kb_bad(s))
        return s;
    s = kb_cast(B, s, kb_type(s)->dtype == DT_f64 ? DT_f64 : DT_f32);
    s = kb_bad(s) ? s : kb_block(B, columns_that_are(B, s), s.tag);
    if (kb_bad(s))
        return s;
    m = kb_reduce_axis(B, OP_max, s, 1, false);
    p = kb_bad(m) ? m : kb_block(B, exp_below(B, s.ref, column(B, m.ref)), s.tag);
    return kb_bad(p) ? p : triple(B, p, m, kb_reduce_axis(B, OP_sum, p, 1, false));
}

/* a * x + b * y */
static TileRef weighed(Body *B, TileRef a, TileRef x, TileRef b, TileRef y)
{
    x = map2(B, OP_mul, a, x);
    return map2(B, OP_add, x, map2(B, OP_mul, b, y));
}

static KVal op_softmax_accumulate(KArgs *a)
{
    Body *B = a->B;
    KVal acc = block_arg(a, 0, 2), m = block_arg(a, 1, 1), l = block_arg(a, 2, 1), p = block_arg(a, 3, 2), v = block_arg(a, 4, 2);
    KVal m_c = block_arg(a, 5, 1), l_c = block_arg(a, 6, 1), pv, sum;
    TileRef top, old, new, sums[2];
    DType dt;

    if (B->failed)
        return KBAD;
    dt = (DType)kb_type(acc)->dtype;
    pv = product(a, p, v, KUNSET, dt);
    if (kb_bad(pv))
        return pv;
    old = kb_convert(B, m.ref, dt);
    new = kb_convert(B, m_c.ref, dt);
    top = map2(B, OP_maximum, old, new);
    old = exp_below(B, old, top);
    new = exp_below(B, new, top);
    sums[0] = kb_convert(B, l.ref, dt);
    sums[1] = kb_convert(B, l_c.ref, dt);
    sum = kb_block(B, weighed(B, sums[0], old, sums[1], new), m_c.tag);
    old = column(B, old);
    new = column(B, new);
    return triple(B, kb_block(B, weighed(B, acc.ref, old, pv.ref, new), pv.tag), kb_block(B, top, m_c.tag), sum);
}

/* ------------------------------------------------------------- dropout */

/* Steps of a hash of 32-bit numbers (shifts, xors, odd factors), on tiles. */
static TileRef u32(Body *B, uint32_t v) { return kb_const(B, DT_uint32, 0, (int64_t)v); }
static TileRef fold(Body *B, TileRef x, unsigned by) { return map2(B, OP_bitxor, x, map2(B, OP_shr, x, u32(B, by))); }

static TileRef scatter(Body *B, TileRef x)
{
    x = fold(B, x, 16);
    x = map2(B, OP_mul, x, u32(B, 0x7feb352du));
    x = fold(B, x, 15);
    x = map2(B, OP_mul, x, u32(B, 0x846ca68bu));
    return fold(B, x, 16);
}

static TileRef lin_u32(Body *B, KVal v) { return kb_ref(B, kb_to_int(B, v), DT_uint32); }

/* A number for each element that depends on the seed, the call, the group and the place alone. */
static TileRef noise(Body *B, KVal v, KVal seed)
{
    int32_t shape[VIEW_RANK];
    Lin zero = lin_number(0);
    int rank = kb_type(v)->rank;
    TileRef x = lin_u32(B, seed);

    x = scatter(B, map2(B, OP_add, x, u32(B, 0x9e3779b9u * (uint32_t)++B->draws)));
    x = scatter(B, map2(B, OP_bitxor, x, lin_u32(B, kb_group_id(B))));
    for (int i = 0; i < rank; i++)
        shape[i] = kb_type(v)->extent[i];
    for (int i = 0; i < rank; i++)
        x = scatter(B, map2(B, OP_bitxor, x, kb_convert(B, kb_iota(B, &zero, rank, shape, i), DT_uint32)));
    return x;
}

static KVal op_dropout(KArgs *a)
{
    Body *B = a->B;
    KVal v = block_arg(a, 0, 0), seed = kb_given(a, 2) ? a->at[2] : kb_number(0);
    TileRef x, p, u, keep, one, scale;
    DType dt;

    if (kb_bad(v))
        return v;
    dt = dtype_is_float((DType)kb_type(v)->dtype) ? (DType)kb_type(v)->dtype : DT_f32;
    x = noise(B, v, seed);
    u = kb_convert(B, map2(B, OP_shr, x, u32(B, 8)), DT_f32);
    u = map2(B, OP_mul, u, f32_const(B, 0x1p-24));
    p = kb_ref(B, kb_value(B, a->at[1]), DT_f32);
    keep = map2(B, OP_ge, u, p);
    one = f32_const(B, 1);
    scale = kb_convert(B, map2(B, OP_div, one, map2(B, OP_sub, one, p)), dt);
    x = map2(B, OP_mul, kb_convert(B, v.ref, dt), scale);
    return kb_block(B, where(B, keep, x, kb_const(B, dt, 0, 0)), v.tag);
}

/* ------------------------------------------------------------- all of them */

KVal oper_math(KArgs *a)
{
    KVal v;

    a->B->uses_blocks = true;
    switch (kernel_op_id(a->op)) {
    case KOP_dot: case KOP_matmul: return oper_dot(a);      /* C of matmul(A, B, C) is added, but where the result goes it is not read */
    case KOP_mma: return a->at[0].kind == K_FRAGMENT && kb_given(a, 3) ? oper_fragment(a) : oper_dot(a);
    case KOP_mma_mixed: return op_mma_mixed(a);
    case KOP_fragment_a: case KOP_fragment_b: case KOP_fragment_c: case KOP_load_matrix: case KOP_store_matrix: return oper_fragment(a);
    case KOP_zeros: return oper_filled(a, 1, kb_number(0));
    case KOP_full: return oper_filled(a, 2, a->at[1]);
    case KOP_cast: return op_cast(a);
    case KOP_transpose:
        v = block_arg(a, 0, 0);
        return kb_bad(v) ? v : kb_transpose(a->B, v, NULL, 0);
    case KOP_rsqrt: return op_rsqrt(a);
    case KOP_quick: case KOP_slope:
        v = kb_value(a->B, a->at[0]);
        return (kernel_op_id(a->op) == KOP_quick ? kquick : kslope)(a->B, v, kb_value(a->B, a->at[1]));
    case KOP_quick_exp2: return op_quick(a, OP_exp2, exp2);
    case KOP_quick_log2: return op_quick(a, OP_log2, log2);
    case KOP_broadcast: return op_broadcast(a);
    case KOP_mask_causal: return op_mask_causal(a);
    case KOP_softmax_online: return op_softmax_online(a);
    case KOP_softmax_accumulate: return op_softmax_accumulate(a);
    case KOP_dropout_in_kernel: return op_dropout(a);
    default: return kb_fail(a->B, "%s() is not executed here", a->name);
    }
}
