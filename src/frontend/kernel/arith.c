/*
 * Operators and functions on the numbers of a kernel: Python's ints, elements,
 * block values and vectors of a lane, with the dtypes and extents that meet.
 */
#include "frontend/kernel/oper.h"

#include "frontend/tensor/tensor_ops.h"
#include "runtime/loops.h"

#include <math.h>
#include <string.h>

/* ------------------------------------------------------------- extents */

static bool join_shape(Body *B, const TileType *x, int *rank, int32_t *shape)
{
    if (x->rank > *rank) {
        memmove(shape + (x->rank - *rank), shape, sizeof *shape * (size_t)*rank);
        for (int i = 0; i < x->rank - *rank; i++)
            shape[i] = 1;
        *rank = x->rank;
    }
    for (int i = 1; i <= x->rank; i++) {
        int32_t *y = &shape[*rank - i], e = x->extent[x->rank - i];
        if (*y != e && *y != 1 && e != 1) {
            kb_fail(B, "E0606: block values of extents %d and %d do not go together", *y, e);
            return false;
        }
        *y = *y == 1 ? e : *y;
    }
    return true;
}

/* A tile with leading axes of 1, so that all have as many. */
static TileRef with_rank(Body *B, TileRef x, int rank)
{
    int32_t shape[VIEW_RANK];
    int own = x.node ? tile_type(x)->rank : 0;

    if (!own || own == rank)
        return x;
    for (int i = 0; i < rank; i++)
        shape[i] = i < rank - own ? 1 : tile_type(x)->extent[i - (rank - own)];
    return kb_reshape(B, x, rank, shape);
}

static void join_tags(AxisTag *to, int rank, KVal v)
{
    if (v.kind != K_BLOCK)
        return;
    for (int i = 1; i <= tile_type(v.ref)->rank; i++) {
        const AxisTag *t = &v.tag[tile_type(v.ref)->rank - i];
        if ((t->dim && !to[rank - i].dim && tile_type(v.ref)->extent[tile_type(v.ref)->rank - i] > 1) || t->none)
            to[rank - i] = *t;
    }
}

/* ------------------------------------------------------------- elementwise */

/* The dtype that operands work in together; DT_NONE: all are Python's own. */
static bool common_dtype(Body *B, OpId op, const KVal *in, int n, DType *out)
{
    bool floats = false, ints = false;

    *out = DT_NONE;
    for (int i = op == OP_where; i < n; i++) {
        DType dt = kb_dtype(in[i]);
        floats |= (in[i].kind == K_SCALAR && in[i].weak) || kb_static_of(in[i], V_FLOAT);
        ints |= kb_is_int(in[i]) && !kb_static_of(in[i], V_BOOL);
        if (dt != DT_NONE && *out != DT_NONE && !dtype_promote(*out, dt, out)) {
            kb_fail(B, "E0609: %s and %s do not go together: tile.cast one of them", dtype_info[*out].name, dtype_info[dt].name);
            return false;
        }
        *out = *out == DT_NONE ? dt : *out;
    }
    if (*out == DT_NONE)
        *out = floats ? DT_f64 : DT_int64;
    else if (floats && !dtype_is_inexact(*out))
        *out = DT_f32;
    else if (ints && *out == DT_bool)
        *out = DT_int64;
    return true;
}

static bool needs_float(OpId op)
{
    return !strcmp(op_info[op].typing, "FLOAT");
}

static bool all_weak(const KVal *in, int n)
{
    for (int i = 0; i < n; i++)
        if (kb_dtype(in[i]) != DT_NONE)
            return false;
    return true;
}

static KVal vector_apply(Body *B, OpId op, KVal *in, int n)
{
    KVal y = {.kind = K_VECTOR}, part[3];

    for (int i = 0; i < n; i++)
        if (in[i].kind == K_VECTOR)
            y.n = in[i].n;
    y.item = kb_alloc(B, sizeof *y.item * (size_t)y.n);
    for (int e = 0; e < y.n; e++) {
        for (int i = 0; i < n; i++) {
            if (in[i].kind == K_VECTOR && in[i].n != y.n)
                return kb_fail(B, "vectors of %d and %d elements do not go together", y.n, in[i].n);
            part[i] = in[i].kind == K_VECTOR ? in[i].item[e] : in[i];
        }
        y.item[e] = kb_apply(B, op, part, n);
    }
    return B->failed ? KBAD : y;
}

KVal kb_apply(Body *B, OpId op, KVal *in, int n)
{
    TileRef ref[3];
    int32_t shape[VIEW_RANK] = VIEW_ONES;
    AxisTag tag[VIEW_RANK] = {{0}};
    int rank = 0;
    bool weak;
    DType dt;

    for (int i = 0; i < n; i++) {
        in[i] = kb_value(B, in[i]);
        if (in[i].kind == K_VECTOR)
            return vector_apply(B, op, in, n);
        if (!kb_bad(in[i]) && !kb_is_value(in[i]))
            return kb_fail(B, "%s() takes numbers, elements and block values", op_info[op].name);
    }
    if (B->failed || !common_dtype(B, op, in, n, &dt))
        return KBAD;
    weak = all_weak(in + (op == OP_where), n - (op == OP_where));
    if (needs_float(op) && !dtype_is_inexact(dt))
        dt = weak ? DT_f64 : DT_f32;
    if (!loop_find(op, dt) && !dtype_is_inexact(dt))
        dt = weak ? DT_f64 : DT_f32;
    if (op == OP_where && in[0].kind == K_BLOCK && weak && dt == DT_f64)
        dt = DT_f32;                                        /* a block of Python's floats, as tile.full makes it */
    for (int i = 0; i < n; i++) {
        ref[i] = op == OP_where && i == 0 ? kb_ref(B, kb_truth(B, in[i]), DT_bool) : kb_ref(B, in[i], dt);
        if (!ref[i].node || (tile_type(ref[i])->rank && !join_shape(B, tile_type(ref[i]), &rank, shape)))
            return KBAD;
    }
    for (int i = 0; i < n; i++) {
        ref[i] = with_rank(B, ref[i], rank);
        join_tags(tag, rank, in[i]);
    }
    ref[0] = kb_map(B, op, ref, n);
    if (!ref[0].node)
        return KBAD;
    for (int i = 0; i < rank; i++)
        if (tag[i].none && tile_type(ref[0])->extent[i] > 1)
            return kb_fail(B, "E0606: extents 0 and %d do not go together", tile_type(ref[0])->extent[i]);
    return rank ? kb_block(B, ref[0], tag) : kb_scalar(ref[0], weak && tile_type(ref[0])->dtype == DT_f64);
}

/* ------------------------------------------------------------- ints */

static const OpId op_of[AOP_COUNT] = {
    [AOP_ADD] = OP_add, [AOP_SUB] = OP_sub, [AOP_MUL] = OP_mul, [AOP_DIV] = OP_div, [AOP_FLOORDIV] = OP_floordiv, [AOP_MOD] = OP_mod,
    [AOP_POW] = OP_pow, [AOP_LSHIFT] = OP_shl, [AOP_RSHIFT] = OP_shr, [AOP_BITAND] = OP_bitand, [AOP_BITOR] = OP_bitor, [AOP_BITXOR] = OP_bitxor,
    [AOP_EQ] = OP_eq, [AOP_NE] = OP_ne, [AOP_LT] = OP_lt, [AOP_LE] = OP_le, [AOP_GT] = OP_gt, [AOP_GE] = OP_ge,
};

/* Two ints by an op on 64-bit data. */
static KVal int_map(Body *B, OpId op, KVal a, KVal b)
{
    TileRef in[2], y;

    in[0] = kb_ref(B, a, DT_int64);
    in[1] = kb_ref(B, b, DT_int64);
    y = kb_map(B, op, in, 2);
    return y.node ? kb_int(B, lin_of(kb_emit1(B, TOP_to_index, NULL, y))) : KBAD;
}

static KVal int_product(Body *B, const Lin *a, const Lin *b)
{
    Lin y = lin_number(0);
    int64_t k;

    if (lin_number_of(a, &k) || lin_number_of(b, &k)) {
        const Lin *l = a->n ? a : b;
        lin_add(B, y, *l, k, &y);
        return kb_int(B, y);
    }
    return kb_index_op(B, TOP_imul, a, b);
}

/* x = v * times + rest, where the rest is a number or the lane plus one, and lies in [0, v). */
static bool whole_times(const Body *B, const Lin *x, int64_t v, Lin *times, Lin *rest)
{
    int64_t most;

    *times = lin_number(x->c / v - (x->c % v < 0));
    *rest = lin_number(x->c - v * times->c);
    most = rest->c;
    for (int i = 0; i < x->n; i++) {
        Lin *into = x->t[i].k % v ? rest : times;
        into->t[into->n] = x->t[i];
        into->t[into->n++].k /= into == times ? v : 1;
    }
    if (rest->n)
        most += B->spec->lanes - 1;
    return most < v && (rest->n == 0 || (rest->n == 1 && rest->t[0].k == 1 && rest->t[0].r.node == B->lane.node));
}

/* Divisors that may be 0 or less go the way of data, where x // 0 is 0. */
static KVal int_quotient(Body *B, AstOp op, KVal a, KVal b, const Lin *x, const Lin *y)
{
    bool number = lin_number_of(y, &(int64_t){0}), known;
    int64_t u, v, q;
    Lin times, rest;
    KVal z;

    if (number && y->c > 0 && whole_times(B, x, y->c, &times, &rest))
        return kb_int(B, op == AOP_FLOORDIV ? times : rest);
    known = lin_known(B, x, &u) && lin_known(B, y, &v);
    if ((number || known) && kb_positive(B, y))
        return kb_index_op(B, op == AOP_FLOORDIV ? TOP_idiv : TOP_imod, x, y);
    z = int_map(B, op_of[op], a, b);
    if (known && v && v != -1 && !kb_bad(z)) {
        q = u / v - (u % v && (u < 0) != (v < 0));
        kb_know_from(B, z.lin->t[0].r, op == AOP_FLOORDIV ? q : u - q * v, x, y);
    }
    return z;
}

static KVal ints_binary(Body *B, AstOp op, KVal a, KVal b)
{
    Lin x, y, z;

    if (!kb_to_lin(B, a, &x) || !kb_to_lin(B, b, &y))
        return KBAD;
    switch (op) {
    case AOP_ADD: case AOP_SUB:
        if (lin_add(B, x, y, op == AOP_ADD ? 1 : -1, &z))
            return kb_int(B, z);
        return kb_index_op(B, op == AOP_ADD ? TOP_iadd : TOP_isub, &x, &y);
    case AOP_MUL: return int_product(B, &x, &y);
    case AOP_FLOORDIV: case AOP_MOD: return int_quotient(B, op, a, b, &x, &y);
    case AOP_DIV:
        a = kb_to_float(B, a);
        b = kb_to_float(B, b);
        return kb_apply(B, OP_div, (KVal[]){a, b}, 2);
    default: return int_map(B, op_of[op], a, b);
    }
}

/* ------------------------------------------------------------- operators */

enum { LIST_MOST = 4096 };      /* items that a * n may make */

static KVal dot_operator(Body *B, KVal a, KVal b);

static bool both_static(KVal a, KVal b) { return a.kind == K_STATIC && b.kind == K_STATIC; }

static KVal host_value(Body *B, Value v) { return is_err(v) ? kb_pending(B) : kb_static(B, v); }

KVal kb_binary(Body *B, AstOp op, KVal a, KVal b)
{
    if (kb_bad(a) || kb_bad(b))
        return KBAD;
    if (both_static(a, b))
        return host_value(B, value_binary(B->I, (int)op, a.v, b.v));
    if ((a.kind == K_TUPLE || a.kind == K_LIST) && a.kind == b.kind && op == AOP_ADD) {
        KVal y = {.kind = a.kind, .n = a.n + b.n};
        y.item = kb_alloc(B, sizeof *y.item * (size_t)y.n);
        memcpy(y.item, a.item, sizeof *y.item * (size_t)a.n);
        memcpy(y.item + a.n, b.item, sizeof *y.item * (size_t)b.n);
        return y;
    }
    if (a.kind == K_LIST && op == AOP_MUL && kb_static_of(b, V_INT)) {
        KVal y = {.kind = K_LIST, .n = (int)(b.v.i > 0 && b.v.i <= LIST_MOST ? b.v.i * a.n : 0)};
        if (b.v.i > LIST_MOST || y.n > LIST_MOST)
            return kb_fail(B, "a list of more than %d elements is too long for a kernel", LIST_MOST);
        y.item = kb_alloc(B, sizeof *y.item * (size_t)(y.n + 1));
        for (int i = 0; i < y.n; i++)
            y.item[i] = a.item[i % a.n];
        return y;
    }
    if (op == AOP_MATMUL)
        return dot_operator(B, a, b);
    if (!kb_is_value(a) || !kb_is_value(b))
        return kb_fail(B, "'%s' is not for these operands in a kernel", ast_op_text[op]);
    if (kb_is_int(a) && kb_is_int(b))
        return ints_binary(B, op, a, b);
    return kb_apply(B, op_of[op], (KVal[]){a, b}, 2);
}

static KVal dot_operator(Body *B, KVal a, KVal b)
{
    KArgs args = {.B = B, .op = &kernel_ops[KOP_dot], .name = "@", .at = {a, b}};

    for (int i = 2; i < OPER_PARAMS; i++)
        args.at[i] = KUNSET;
    return oper_math(&args);
}

KVal kb_unary(Body *B, AstOp op, KVal a)
{
    Lin x, y = lin_number(0);
    KVal t;

    if (kb_bad(a))
        return KBAD;
    if (a.kind == K_STATIC)
        return host_value(B, value_unary(B->I, (int)op, a.v));
    if (op == AOP_NOT) {
        t = kb_truth(B, a);
        return t.kind == K_STATIC ? (KVal){.kind = K_STATIC, .v = vbool(!t.v.i)} : kb_bad(t) ? t : kb_apply(B, OP_lnot, &t, 1);
    }
    if (op == AOP_POS)
        return kb_value(B, a);
    if (kb_is_int(a) && op == AOP_NEG)
        return kb_to_lin(B, a, &x) && lin_add(B, y, x, -1, &y) ? kb_int(B, y) : KBAD;
    if (kb_is_int(a))
        return kb_to_lin(B, a, &x) && lin_add(B, lin_number(-1), x, -1, &y) ? kb_int(B, y) : KBAD;
    a = kb_value(B, a);
    return kb_apply(B, op == AOP_NEG ? OP_neg : OP_bitnot, &a, 1);
}

static KVal flip(Body *B, KVal v) { return kb_apply(B, OP_lnot, &v, 1); }

/* Ints compare as they are; elements of int dtypes with them, too. */
static KVal compare_ints(Body *B, AstOp op, KVal a, KVal b)
{
    Lin x, y, d;
    int64_t c;
    bool swap = op == AOP_GT || op == AOP_LE, eq = op == AOP_EQ || op == AOP_NE;
    TileRef r[2];
    KVal v;

    if (!kb_to_lin(B, a, &x) || !kb_to_lin(B, b, &y))
        return KBAD;
    if (lin_add(B, x, y, -1, &d) && lin_number_of(&d, &c)) {        /* they differ by a number */
        bool yes = op == AOP_EQ ? c == 0 : op == AOP_NE ? c != 0 : op == AOP_LT ? c < 0 : op == AOP_LE ? c <= 0 : op == AOP_GT ? c > 0 : c >= 0;
        return (KVal){.kind = K_STATIC, .v = vbool(yes)};
    }
    r[0] = lin_ref(B, swap ? &y : &x);
    r[1] = lin_ref(B, swap ? &x : &y);
    v = kb_scalar(kb_emit(B, eq ? TOP_ieq : TOP_ilt, NULL, r, 2), false);
    return op == AOP_NE || op == AOP_LE || op == AOP_GE ? flip(B, v) : v;
}

static bool int_like(KVal v)
{
    return kb_is_int(v) || (v.kind == K_SCALAR && !v.weak && dtype_is_int((DType)tile_type(v.ref)->dtype));
}

KVal kb_compare(Body *B, AstOp op, KVal a, KVal b)
{
    if (kb_bad(a) || kb_bad(b))
        return KBAD;
    if (both_static(a, b) && (op == AOP_IS || op == AOP_IS_NOT))
        return (KVal){.kind = K_STATIC, .v = vbool(value_is(a.v, b.v) == (op == AOP_IS))};
    if (both_static(a, b) && (op == AOP_IN || op == AOP_NOT_IN)) {
        int yes = value_contains(B->I, b.v, a.v);
        return yes < 0 ? kb_pending(B) : (KVal){.kind = K_STATIC, .v = vbool(yes == (op == AOP_IN))};
    }
    if (both_static(a, b))
        return host_value(B, value_compare(B->I, (int)op, a.v, b.v));
    if (op == AOP_IS || op == AOP_IS_NOT)                   /* with None: a value of the launch is something */
        return (KVal){.kind = K_STATIC, .v = vbool(op == AOP_IS_NOT)};
    if (op == AOP_IN || op == AOP_NOT_IN) {
        KVal *item, found = {.kind = K_STATIC, .v = vbool(false)};
        int n = kb_sequence(B, b, &item);
        for (int i = 0; i < n; i++) {
            KVal e = kb_compare(B, AOP_EQ, a, item[i]);
            found = kb_is_static_false(found) ? e : kb_is_static_false(e) ? found : kb_apply(B, OP_bitor, (KVal[]){found, e}, 2);
        }
        return n < 0 ? kb_fail(B, "'in' needs a tuple or a list here") : op == AOP_IN ? found : kb_unary(B, AOP_NOT, found);
    }
    a = kb_value(B, a);
    b = kb_value(B, b);
    if (B->failed)
        return KBAD;
    if (!kb_is_value(a) || !kb_is_value(b))
        return kb_fail(B, "'%s' is not for these operands in a kernel", ast_op_text[op]);
    if (int_like(a) && int_like(b))
        return compare_ints(B, op, a, b);
    return kb_apply(B, op_of[op], (KVal[]){a, b}, 2);
}

KVal kb_truth(Body *B, KVal v)
{
    if (kb_bad(v))
        return v;
    if (v.kind == K_STATIC) {
        int t = value_truth(B->I, v.v);
        return t < 0 ? kb_pending(B) : (KVal){.kind = K_STATIC, .v = vbool(t)};
    }
    if (v.kind == K_TUPLE || v.kind == K_LIST)
        return (KVal){.kind = K_STATIC, .v = vbool(v.n != 0)};
    v = kb_value(B, v);
    if (kb_bad(v) || kb_dtype(v) == DT_bool)
        return v;
    if (!kb_is_value(v))
        return (KVal){.kind = K_STATIC, .v = vbool(true)};
    return kb_compare(B, AOP_NE, v, kb_number(0));
}

/* ------------------------------------------------------------- functions on numbers */

KVal kb_to_int(Body *B, KVal v)
{
    v = kb_value(B, v);
    if (kb_bad(v) || v.kind == K_INT || kb_static_of(v, V_INT))
        return v;
    if (v.kind == K_STATIC) {
        double f;
        return kb_static_number(v, &f) && isfinite(f) ? kb_number((int64_t)f) : kb_fail(B, "int() takes a number here");
    }
    if (v.kind != K_SCALAR)
        return kb_fail(B, "int() takes a number or an element, not a block value");
    return kb_int(B, lin_of(kb_emit1(B, TOP_to_index, NULL, kb_convert(B, v.ref, DT_int64))));
}

KVal kb_to_float(Body *B, KVal v)
{
    double f;

    v = kb_value(B, v);
    if (kb_bad(v) || (v.kind == K_SCALAR && v.weak))
        return v;
    if (kb_static_number(v, &f))
        return (KVal){.kind = K_STATIC, .v = vfloat(f)};
    if (v.kind == K_STATIC && v.v.tag == V_STR) {           /* float("inf") */
        Value x, c = prelude_get(B->I, "float");
        x = value_call(B->I, c, &v.v, 1);
        return is_err(x) ? kb_pending(B) : kb_static(B, x);
    }
    if (v.kind != K_INT && v.kind != K_SCALAR)
        return kb_fail(B, "float() takes a number or an element, not a block value");
    return kb_scalar(kb_ref(B, v, DT_f64), true);
}

KVal kb_extreme(Body *B, bool max, KVal a, KVal b)
{
    Lin x, y;

    a = kb_value(B, a);
    b = kb_value(B, b);
    if (kb_bad(a) || kb_bad(b))
        return KBAD;
    if (both_static(a, b)) {
        int less = value_less(B->I, max ? a.v : b.v, max ? b.v : a.v);
        return less < 0 ? kb_pending(B) : less ? b : a;
    }
    if (kb_is_int(a) && kb_is_int(b))
        return kb_to_lin(B, a, &x) && kb_to_lin(B, b, &y) ? kb_index_op(B, max ? TOP_imax : TOP_imin, &x, &y) : KBAD;
    return kb_apply(B, max ? OP_maximum : OP_minimum, (KVal[]){a, b}, 2);
}

KVal kb_cast(Body *B, KVal v, DType dt)
{
    TileRef r;

    v = kb_value(B, v);
    if (v.kind == K_VECTOR) {
        KVal y = v;
        y.item = kb_alloc(B, sizeof *y.item * (size_t)v.n);
        for (int i = 0; i < v.n; i++)
            y.item[i] = kb_cast(B, v.item[i], dt);
        return y;
    }
    r = kb_ref(B, v, dt);
    return v.kind == K_BLOCK ? kb_block(B, r, v.tag) : kb_scalar(r, false);
}
