/*
 * op_cases.h - sample calls of every op of ops.def, for tests that go over the table.
 *
 * A case is an op, attributes and concrete operands.  Operands of a case vary
 * the way users' do: contiguous, strided views, broadcast, size 1, size 0,
 * 0-d, the same tensor twice.
 */
#ifndef TSR_TESTS_OP_CASES_H
#define TSR_TESTS_OP_CASES_H

#include "ir/graph/trace.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct Case {
    OpId op;
    Attr a;
    Tensor *in[8];
    int nin;
    char what[64];
} Case;

typedef Vec(Case) Cases;

static uint64_t case_state = 88172645463325252u;

static double case_random(double lo, double hi)         /* xorshift: the same samples everywhere */
{
    case_state ^= case_state << 13;
    case_state ^= case_state >> 7;
    case_state ^= case_state << 17;
    return lo + (hi - lo) * (double)(case_state >> 11) / 9007199254740992.0;
}

static Tensor *case_tensor(DType dt, int rank, const Dim *shape, double lo, double hi)
{
    Tensor *t = tensor_new(dt, rank, shape);
    int64_t n = tensor_size(t);

    for (int64_t i = 0; i < n; i++) {
        double v = case_random(lo, hi);
        if (dtype_is_complex(dt))
            elem_set_c(t, i, v, case_random(lo, hi));
        else if (dtype_is_inexact(dt))
            elem_set_f(t, i, v);
        else
            elem_set_i(t, i, (int64_t)floor(v));
    }
    return t;
}

#define DIMS(...) ((const Dim[]){__VA_ARGS__})
#define F64(lo, hi, ...) case_tensor(DT_f64, (int)(sizeof(DIMS(__VA_ARGS__)) / sizeof(Dim)), DIMS(__VA_ARGS__), lo, hi)

/* [a, b] as the transpose of a contiguous [b, a] */
static Tensor *case_strided(Dim a, Dim b, double lo, double hi)
{
    Tensor *t = F64(lo, hi, b, a), *v = tensor_view(t, 2, DIMS(a, b), (int64_t[]){1, a}, 0);

    tensor_unref(t);
    return v;
}

static Tensor *case_scalar(double lo, double hi) { return tensor_scalar_f(DT_f64, case_random(lo, hi)); }

static Tensor *case_ints(int n, const int64_t *v, int rank, const Dim *shape)
{
    Tensor *t = tensor_new(DT_int32, rank, shape);

    for (int i = 0; i < n; i++)
        elem_set_i(t, i, v[i]);
    return t;
}
#define INTS(shape, rank, ...) case_ints((int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]){__VA_ARGS__}, rank, shape)

/* Takes over the operands. */
static Case *case_add(Cases *c, OpId op, const char *what, int nin, Tensor *x, Tensor *y, Tensor *z)
{
    Case k = {.op = op, .a = attr_default(), .nin = nin, .in = {x, y, z}};

    snprintf(k.what, sizeof k.what, "%s", what);
    vec_push(c, k);
    return &vec_last(c);
}

static inline void cases_free(Cases *c)
{
    for (int i = 0; i < c->n; i++)
        for (int k = 0; k < c->at[i].nin; k++)
            tensor_unref(c->at[i].in[k]);
    vec_free(c);
}

/* Where an elementwise op is smooth. */
static void case_domain(OpId op, double *lo, double *hi)
{
    *lo = 0.2, *hi = 0.9;
    switch (op) {
    case OP_log: case OP_log2: case OP_log10: case OP_sqrt: case OP_rsqrt: case OP_lgamma: case OP_digamma: case OP_div: case OP_pow:
        *lo = 0.3, *hi = 2.5;
        break;
    case OP_acosh:
        *lo = 1.3, *hi = 2.5;
        break;
    case OP_neg: case OP_sin: case OP_cos: case OP_tanh: case OP_erf: case OP_sigmoid: case OP_exp: case OP_add: case OP_mul: case OP_sub:
    case OP_where: case OP_fma: case OP_minimum: case OP_maximum:
        *lo = -2, *hi = 2;
        break;
    default:
        break;
    }
}

static void add_unary(Cases *c, OpId op)
{
    double lo, hi;

    case_domain(op, &lo, &hi);
    case_add(c, op, "contiguous", 1, F64(lo, hi, 3, 4), NULL, NULL);
    case_add(c, op, "strided", 1, case_strided(3, 4, lo, hi), NULL, NULL);
    case_add(c, op, "size 1", 1, F64(lo, hi, 1, 1), NULL, NULL);
    case_add(c, op, "size 0", 1, F64(lo, hi, 0, 3), NULL, NULL);
    case_add(c, op, "0-d", 1, case_scalar(lo, hi), NULL, NULL);
    case_add(c, op, "rank 3", 1, F64(lo, hi, 2, 1, 3), NULL, NULL);
    if (op == OP_convert)
        for (int i = 1; i <= 6; i++)
            c->at[c->n - i].a.dtype = DT_f64;
}

static void add_binary(Cases *c, OpId op)
{
    double lo, hi;
    Tensor *x;

    case_domain(op, &lo, &hi);
    case_add(c, op, "same shape", 2, F64(lo, hi, 3, 4), F64(lo, hi, 3, 4), NULL);
    case_add(c, op, "broadcast left", 2, F64(lo, hi, 4), F64(lo, hi, 3, 4), NULL);
    case_add(c, op, "broadcast right", 2, F64(lo, hi, 3, 4), F64(lo, hi, 3, 1), NULL);
    case_add(c, op, "broadcast both", 2, F64(lo, hi, 3, 1), F64(lo, hi, 1, 4), NULL);
    case_add(c, op, "strided", 2, case_strided(3, 4, lo, hi), F64(lo, hi, 3, 4), NULL);
    case_add(c, op, "0-d", 2, case_scalar(lo, hi), F64(lo, hi, 2), NULL);
    case_add(c, op, "size 0", 2, F64(lo, hi, 0, 4), F64(lo, hi, 4), NULL);
    x = F64(lo, hi, 5);
    if (op != OP_maximum && op != OP_minimum && op != OP_mod)
        case_add(c, op, "repeated", 2, x, tensor_ref(x), NULL);
    else
        tensor_unref(x);
}

static void add_ternary(Cases *c, OpId op)
{
    bool where = op == OP_where;
    DType dt = where ? DT_bool : DT_f64;
    double lo = where ? 0 : -1, hi = where ? 2 : 1;

    case_add(c, op, "same shape", 3, case_tensor(dt, 2, DIMS(3, 4), lo, hi), F64(-1, 1, 3, 4), F64(-1, 1, 3, 4));
    case_add(c, op, "broadcast 1", 3, case_tensor(dt, 1, DIMS(4), lo, hi), F64(-1, 1, 3, 4), F64(-1, 1, 3, 4));
    case_add(c, op, "broadcast 2", 3, case_tensor(dt, 2, DIMS(3, 4), lo, hi), F64(-1, 1, 3, 1), case_scalar(-1, 1));
    case_add(c, op, "size 0", 3, case_tensor(dt, 2, DIMS(0, 4), lo, hi), F64(-1, 1, 4), F64(-1, 1, 1, 4));
}

static Case *axes(Case *k, int n, int a, int b)
{
    k->a.naxes = (uint8_t)n;
    k->a.axis[0] = (int8_t)a;
    k->a.axis[1] = (int8_t)b;
    return k;
}

static void add_reduce(Cases *c, OpId op)
{
    bool arg = op == OP_argmax || op == OP_argmin;

    axes(case_add(c, op, "last", 1, F64(-1, 1, 3, 4), NULL, NULL), 1, -1, 0);
    axes(case_add(c, op, "first", 1, F64(-1, 1, 3, 4), NULL, NULL), 1, -2, 0);
    axes(case_add(c, op, "strided", 1, case_strided(3, 4, -1, 1), NULL, NULL), 1, -1, 0);
    axes(case_add(c, op, "size 1", 1, F64(-1, 1, 3, 1), NULL, NULL), 1, -1, 0);
    axes(case_add(c, op, "size 0 kept", 1, F64(-1, 1, 0, 4), NULL, NULL), 1, -1, 0);
    if (arg)
        return;
    axes(case_add(c, op, "both", 1, F64(-1, 1, 3, 4), NULL, NULL), 2, -2, -1);
    axes(case_add(c, op, "outer two", 1, F64(-1, 1, 2, 3, 4), NULL, NULL), 2, -3, -1);
    axes(case_add(c, op, "none", 1, F64(-1, 1, 3), NULL, NULL), 0, 0, 0);
}

static void add_scan(Cases *c, OpId op)
{
    for (int back = 0; back < 2; back++) {
        axes(case_add(c, op, "last", 1, F64(-1, 1, 3, 4), NULL, NULL), 1, -1, 0)->a.i = back;
        axes(case_add(c, op, "first", 1, F64(-1, 1, 3, 4), NULL, NULL), 1, -2, 0)->a.i = back;
        axes(case_add(c, op, "strided", 1, case_strided(3, 4, -1, 1), NULL, NULL), 1, -1, 0)->a.i = back;
        axes(case_add(c, op, "size 1", 1, F64(-1, 1, 3, 1), NULL, NULL), 1, -1, 0)->a.i = back;
        axes(case_add(c, op, "size 0", 1, F64(-1, 1, 3, 0), NULL, NULL), 1, -1, 0)->a.i = back;
    }
}

static Case *dims(Case *k, int which, int n, const Dim *d)
{
    k->a.nd[which] = (uint8_t)n;
    memcpy(k->a.d[which], d, sizeof(Dim) * (size_t)n);
    return k;
}

/* start, stop, step of n trailing axes */
static void slices(Case *k, int n, const Dim *start, const Dim *stop, const Dim *step)
{
    dims(dims(dims(k, 0, n, start), 1, n, stop), 2, n, step);
}

static void add_move(Cases *c, OpId op)
{
    Tensor *x = case_strided(3, 4, -1, 1), *y = F64(-1, 1, 3, 4);
    Case *k;

    switch (op) {
    case OP_reshape:
        dims(case_add(c, op, "join", 1, tensor_ref(y), NULL, NULL), 0, 1, DIMS(12));
        dims(case_add(c, op, "strided", 1, tensor_ref(x), NULL, NULL), 0, 3, DIMS(2, 1, 6));
        dims(case_add(c, op, "0-d", 1, case_scalar(-1, 1), NULL, NULL), 0, 2, DIMS(1, 1));
        dims(case_add(c, op, "size 0", 1, F64(-1, 1, 0, 3), NULL, NULL), 0, 2, DIMS(5, 0));
        break;
    case OP_permute:
        axes(case_add(c, op, "swap", 1, tensor_ref(y), NULL, NULL), 2, -1, -2);
        k = axes(case_add(c, op, "three", 1, F64(-1, 1, 2, 3, 4), NULL, NULL), 3, -1, -3);
        k->a.axis[2] = -2;
        axes(case_add(c, op, "strided", 1, tensor_ref(x), NULL, NULL), 2, -1, -2);
        break;
    case OP_broadcast:
        dims(case_add(c, op, "lead", 1, tensor_ref(y), NULL, NULL), 0, 3, DIMS(2, 3, 4));
        dims(case_add(c, op, "stretch", 1, F64(-1, 1, 3, 1), NULL, NULL), 0, 2, DIMS(3, 4));
        dims(case_add(c, op, "0-d", 1, case_scalar(-1, 1), NULL, NULL), 0, 1, DIMS(3));
        dims(case_add(c, op, "size 0", 1, F64(-1, 1, 1, 3), NULL, NULL), 0, 2, DIMS(0, 3));
        break;
    case OP_slice:
        slices(case_add(c, op, "plain", 1, tensor_ref(y), NULL, NULL), 2, DIMS(1, 0), DIMS(3, 3), DIMS(1, 1));
        slices(case_add(c, op, "step", 1, tensor_ref(x), NULL, NULL), 2, DIMS(0, 1), DIMS(3, 4), DIMS(2, 2));
        slices(case_add(c, op, "back", 1, tensor_ref(y), NULL, NULL), 1, DIMS(3), DIMS(dim_const(-1)), DIMS(dim_const(-2)));
        slices(case_add(c, op, "empty", 1, tensor_ref(y), NULL, NULL), 1, DIMS(2), DIMS(2), DIMS(1));
        break;
    case OP_pad:
        slices(case_add(c, op, "plain", 1, tensor_ref(y), NULL, NULL), 2, DIMS(1, 0), DIMS(0, 2), DIMS(0, 0));
        k = case_add(c, op, "spread", 1, tensor_ref(x), NULL, NULL);
        slices(k, 2, DIMS(0, 1), DIMS(1, 1), DIMS(1, 2));
        k->a.f = 0.5;
        slices(case_add(c, op, "size 0", 1, F64(-1, 1, 0), NULL, NULL), 1, DIMS(2), DIMS(1), DIMS(0));
        break;
    case OP_flip:
        axes(case_add(c, op, "last", 1, tensor_ref(y), NULL, NULL), 1, -1, 0);
        axes(case_add(c, op, "both", 1, tensor_ref(x), NULL, NULL), 2, -1, -2);
        break;
    case OP_concat:
        axes(case_add(c, op, "two", 2, tensor_ref(y), F64(-1, 1, 3, 2), NULL), 1, -1, 0);
        axes(case_add(c, op, "three", 3, tensor_ref(x), tensor_ref(y), F64(-1, 1, 0, 4)), 1, -2, 0);
        axes(case_add(c, op, "repeated", 2, tensor_ref(y), tensor_ref(y), NULL), 1, -1, 0);
        break;
    case OP_window:
        for (int d = 1; d < 3; d++) {
            k = case_add(c, op, d == 1 ? "stride 1" : "dilated", 1, F64(-1, 1, 2, 6, 7), NULL, NULL);
            slices(k, 2, DIMS(2, 3), DIMS(d, 2), DIMS(d, 1));
            k->a.n = 2;
        }
        break;
    case OP_unwindow:
        k = case_add(c, op, "overlap", 1, F64(-1, 1, 2, 5, 3), NULL, NULL);
        slices(k, 1, DIMS(3), DIMS(1), DIMS(1));
        dims(k, 3, 1, DIMS(7));
        k->a.n = 1;
        break;
    default:
        break;
    }
    tensor_unref(x);
    tensor_unref(y);
}

static Case *counts(Case *k, int n, int m)
{
    k->a.n = (int16_t)n;
    k->a.m = (int16_t)m;
    return k;
}

static Case *fourth(Case *k, Tensor *t)
{
    k->in[k->nin++] = t;
    return k;
}

static void add_index(Cases *c, OpId op)
{
    const int64_t at[] = {2, 0, 2, 1};

    switch (op) {
    case OP_index:
        counts(case_add(c, op, "rows", 2, F64(-1, 1, 3, 4), case_ints(4, at, 1, DIMS(4)), NULL), 1, 0);
        counts(case_add(c, op, "scalar", 2, F64(-1, 1, 3, 4), tensor_scalar_i(DT_int32, -1), NULL), 1, 0);
        counts(case_add(c, op, "pairs", 3, F64(-1, 1, 3, 4), case_ints(4, at, 2, DIMS(4, 1)), case_ints(2, at, 1, DIMS(2))), 2, 0);
        counts(case_add(c, op, "batch", 2, F64(-1, 1, 2, 3), case_ints(4, at, 2, DIMS(2, 2)), NULL), 1, 1);
        counts(case_add(c, op, "none", 2, F64(-1, 1, 3, 4), case_ints(0, at, 1, DIMS(0)), NULL), 1, 0);
        break;
    case OP_index_put: case OP_index_add:
        counts(case_add(c, op, "duplicates", 3, F64(-1, 1, 3, 4), F64(-1, 1, 4, 4), case_ints(4, at, 1, DIMS(4))), 1, 0);
        counts(case_add(c, op, "scalar", 3, F64(-1, 1, 3, 4), F64(-1, 1, 4), tensor_scalar_i(DT_int32, -1)), 1, 0);
        fourth(counts(case_add(c, op, "pairs", 3, F64(-1, 1, 3, 4), F64(-1, 1, 4), case_ints(4, at, 1, DIMS(4))), 2, 0),
               INTS(DIMS(4), 1, 3, 3, 3, 0));
        counts(case_add(c, op, "batch", 3, F64(-1, 1, 2, 3), F64(-1, 1, 2, 2), case_ints(4, at, 2, DIMS(2, 2))), 1, 1);
        break;
    case OP_dynamic_slice:
        fourth(dims(counts(case_add(c, op, "inside", 2, F64(-1, 1, 3, 5), tensor_scalar_i(DT_int32, 1), NULL), 2, 0), 0, 2, DIMS(2, 3)),
               tensor_scalar_i(DT_int32, 2));
        dims(counts(case_add(c, op, "clamped", 2, F64(-1, 1, 2, 5), tensor_scalar_i(DT_int32, 9), NULL), 1, 0), 0, 1, DIMS(3));
        break;
    case OP_dynamic_update:
        fourth(counts(case_add(c, op, "inside", 3, F64(-1, 1, 3, 5), F64(-1, 1, 2, 3), tensor_scalar_i(DT_int32, 1)), 2, 0),
               tensor_scalar_i(DT_int32, 0));
        counts(case_add(c, op, "clamped", 3, F64(-1, 1, 2, 5), F64(-1, 1, 2, 3), tensor_scalar_i(DT_int32, 9)), 1, 0);
        break;
    case OP_nonzero:
        case_add(c, op, "bools", 1, case_tensor(DT_bool, 2, DIMS(3, 4), 0, 2), NULL, NULL);
        break;
    default:
        break;
    }
}

static void add_sort(Cases *c, OpId op)
{
    if (op == OP_searchsorted) {
        Tensor *a = tensor_new(DT_f64, 1, DIMS(5));
        for (int i = 0; i < 5; i++)
            elem_set_f(a, i, i * 0.5 - 1);
        case_add(c, op, "left", 2, tensor_ref(a), F64(-1, 1, 3, 4), NULL);
        case_add(c, op, "right", 2, a, F64(-1, 1, 4), NULL)->a.i = 1;
        return;
    }
    for (int down = 0; down < 2; down++) {
        case_add(c, op, "rows", 1, F64(-1, 1, 3, 5), NULL, NULL)->a.i = down;
        case_add(c, op, "strided", 1, case_strided(3, 4, -1, 1), NULL, NULL)->a.i = down;
        case_add(c, op, "size 1", 1, F64(-1, 1, 3, 1), NULL, NULL)->a.i = down;
        case_add(c, op, "size 0", 1, F64(-1, 1, 0), NULL, NULL)->a.i = down;
    }
}

static void conv_case(Cases *c, const char *what, Dim groups, Dim stride, Dim before, Dim after, Dim spread, Dim dilation)
{
    Case *k = case_add(c, OP_conv, what, 2, F64(-1, 1, 2, 4, 7), F64(-1, 1, 6, 4 / groups, 3), NULL);

    counts(k, 1, (int)groups);
    slices(k, 1, DIMS(stride), DIMS(before), DIMS(after));
    dims(k, 3, 2, DIMS(spread, dilation));
}

static void add_contract(Cases *c, OpId op)
{
    Tensor *x;
    Case *k;

    if (op == OP_conv) {
        conv_case(c, "plain", 1, 1, 0, 0, 1, 1);
        conv_case(c, "strided", 1, 2, 1, 1, 1, 1);
        conv_case(c, "ragged", 1, 3, 0, 1, 1, 1);
        conv_case(c, "groups", 2, 1, 2, 0, 1, 2);
        conv_case(c, "spread", 2, 2, 1, 2, 2, 1);
        conv_case(c, "wide pad", 1, 1, 3, 4, 1, 1);
        k = case_add(c, op, "2-d", 2, F64(-1, 1, 1, 2, 5, 6), F64(-1, 1, 3, 2, 2, 3), NULL);
        slices(counts(k, 2, 1), 2, DIMS(1, 2), DIMS(1, 0), DIMS(0, 1));
        return;
    }
    case_add(c, op, "plain", 2, F64(-1, 1, 3, 4), F64(-1, 1, 4, 5), NULL);
    case_add(c, op, "strided", 2, case_strided(3, 4, -1, 1), case_strided(4, 5, -1, 1), NULL);
    case_add(c, op, "batched", 2, F64(-1, 1, 2, 3, 4), F64(-1, 1, 2, 4, 5), NULL);
    case_add(c, op, "broadcast", 2, F64(-1, 1, 2, 1, 3, 4), F64(-1, 1, 3, 4, 2), NULL);
    case_add(c, op, "shared right", 2, F64(-1, 1, 2, 3, 4), F64(-1, 1, 4, 5), NULL);
    case_add(c, op, "size 1", 2, F64(-1, 1, 1, 1), F64(-1, 1, 1, 1), NULL);
    case_add(c, op, "empty", 2, F64(-1, 1, 3, 0), F64(-1, 1, 0, 2), NULL);
    x = F64(-1, 1, 3, 3);
    case_add(c, op, "repeated", 2, x, tensor_ref(x), NULL);
}

/* a a^T + n: positive definite */
static Tensor *definite(Dim batch, Dim n)
{
    Tensor *t = F64(-1, 1, batch, n, n), *s = F64(0, 0, batch, n, n);

    for (Dim b = 0; b < batch; b++)
        for (Dim i = 0; i < n; i++)
            for (Dim j = 0; j < n; j++) {
                double v = i == j ? (double)n : 0;
                for (Dim k = 0; k < n; k++)
                    v += elem_get_f(t, (b * n + i) * n + k) * elem_get_f(t, (b * n + j) * n + k);
                elem_set_f(s, (b * n + i) * n + j, v);
            }
    tensor_unref(t);
    return s;
}

/* Triangular or not, with a strong diagonal; distinct scale along it. */
static Tensor *strong(Dim batch, Dim m, Dim n)
{
    Tensor *t = F64(-1, 1, batch, m, n);

    for (Dim b = 0; b < batch; b++)
        for (Dim i = 0; i < m && i < n; i++)
            elem_set_f(t, (b * m + i) * n + i, 2.0 + 1.3 * (double)i);
    return t;
}

static void add_linalg(Cases *c, OpId op)
{
    switch (op) {
    case OP_cholesky: case OP_eigh:
        case_add(c, op, "one", 1, definite(1, 3), NULL, NULL);
        case_add(c, op, "batch", 1, definite(2, 4), NULL, NULL);
        break;
    case OP_triangular_solve:
        for (int kind = 0; kind < 8; kind++)
            case_add(c, op, "kinds", 2, strong(2, 3, 3), F64(-1, 1, 2, 3, 2), NULL)->a.kind = (uint8_t)kind;
        break;
    case OP_lu:
        case_add(c, op, "one", 1, strong(1, 3, 3), NULL, NULL);
        case_add(c, op, "batch", 1, strong(2, 4, 4), NULL, NULL);
        break;
    default:
        case_add(c, op, "square", 1, strong(1, 3, 3), NULL, NULL);
        case_add(c, op, "tall", 1, strong(2, 4, 3), NULL, NULL);
        case_add(c, op, "wide", 1, strong(1, 3, 4), NULL, NULL);
        break;
    }
}

static void add_fft(Cases *c)
{
    for (Dim n = 1; n < 8; n += n < 3 ? 1 : 2) {
        case_add(c, OP_fft, "fft", 1, case_tensor(DT_c128, 2, DIMS(2, n), -1, 1), NULL, NULL);
        case_add(c, OP_fft, "ifft", 1, case_tensor(DT_c128, 2, DIMS(2, n), -1, 1), NULL, NULL)->a.kind = 1;
        case_add(c, OP_fft, "rfft", 1, F64(-1, 1, 2, n), NULL, NULL)->a.kind = 2;
    }
    case_add(c, OP_fft, "rfft even", 1, F64(-1, 1, 6), NULL, NULL)->a.kind = 2;
    for (int n = 5; n < 7; n++) {
        Case *k = case_add(c, OP_fft, "irfft", 1, case_tensor(DT_c128, 2, DIMS(2, n / 2 + 1), -1, 1), NULL, NULL);
        k->a.kind = 3;
        k->a.i = n;
    }
}

static void add_other(Cases *c, OpId op)
{
    Tensor *key = case_tensor(DT_uint32, 1, DIMS(2), 0, 1e9);
    Case *k;

    switch (op) {
    case OP_random:
        for (int kind = 0; kind < 5; kind++) {
            k = dims(case_add(c, op, "kinds", 1, tensor_ref(key), NULL, NULL), 0, 2, DIMS(3, 4));
            k->a.kind = (uint8_t)kind;
            k->a.dtype = kind == 0 ? DT_uint32 : kind == 4 ? DT_int32 : DT_f32;
            k->a.f = 0.3;
            k->a.i = 10;
        }
        break;
    case OP_dither:
        case_add(c, op, "exact", 2, F64(-2, 2, 3, 4), tensor_ref(key), NULL)->a.dtype = DT_f64;
        case_add(c, op, "rounds", 2, INTS(DIMS(4), 1, 1001, -777, 12345, 300), tensor_ref(key), NULL)->a.dtype = DT_bf16;
        break;
    case OP_fold_key:
        case_add(c, op, "one", 2, tensor_ref(key), tensor_scalar_i(DT_int32, 7), NULL);
        case_add(c, op, "many", 2, tensor_ref(key), INTS(DIMS(3), 1, 0, 1, 2), NULL);
        break;
    case OP_full: case OP_iota:
        k = dims(case_add(c, op, "plain", 0, NULL, NULL, NULL), 0, 2, DIMS(3, 4));
        k->a.dtype = DT_f32;
        k->a.f = 1.5;
        axes(k, op == OP_iota, -1, 0);
        break;
    case OP_dim_value:
        dims(case_add(c, op, "known", 0, NULL, NULL, NULL), 0, 1, DIMS(5));
        break;
    case OP_dim_float:
        k = dims(case_add(c, op, "known", 0, NULL, NULL, NULL), 0, 2, DIMS(5, 3));
        k->a.name = sym("1 $0 0.5 ** / $1 +");
        break;
    default:
        break;
    }
    tensor_unref(key);
}

/* Ops of integers alone: the samples scaled to small ints. */
static void make_ints(Cases *c)
{
    for (int i = 0; i < c->n; i++)
        for (int k = 0; k < c->at[i].nin; k++) {
            Tensor **x = &c->at[i].in[k], *t = tensor_new(DT_int32, (*x)->rank, (*x)->shape), *f = tensor_copy(*x);
            for (int64_t e = 0; e < tensor_size(t); e++)
                elem_set_i(t, e, (int64_t)(elem_get_f(f, e) * 10));
            tensor_unref(f);
            tensor_unref(*x);
            *x = t;
        }
}

static bool ints_only(OpId op)
{
    return op == OP_bitnot || op == OP_bitand || op == OP_bitor || op == OP_bitxor || op == OP_shl || op == OP_shr;
}

static inline void cases_of(Cases *c, OpId op)
{
    switch (op_info[op].family) {
    case FAM_MAP:
        if (op_info[op].nin == 1)
            add_unary(c, op);
        else if (op_info[op].nin == 2)
            add_binary(c, op);
        else
            add_ternary(c, op);
        break;
    case FAM_REDUCE:
        add_reduce(c, op);
        break;
    case FAM_SCAN:
        add_scan(c, op);
        break;
    case FAM_MOVE:
        add_move(c, op);
        break;
    case FAM_INDEX:
        add_index(c, op);
        break;
    case FAM_SORT:
        add_sort(c, op);
        break;
    case FAM_CONTRACT:
        add_contract(c, op);
        break;
    case FAM_LINALG:
        add_linalg(c, op);
        break;
    case FAM_FFT:
        add_fft(c);
        break;
    default:
        add_other(c, op);
        break;
    }
    if (ints_only(op))
        make_ints(c);
}

#endif
