/*
 * Operations on block values, elements and lanes: what each gives.
 */
#include "frontend/check/kernels.h"

#include <stdio.h>
#include <string.h>

static const Type *arg_value(const KernelCall *k, int i)
{
    return k->arg[i] && !type_is_any(k->arg[i]->type) ? kernel_value(k->arg[i]->type) : T_ANY;
}

const Type *kernel_rule_same(KernelCall *k) { return arg_value(k, 0); }
const Type *kernel_rule_method_same(KernelCall *k) { return arg_value(k, 1); }
const Type *kernel_rule_truth(KernelCall *k) { return type_of_kind(TY_BOOL); }

/* ------------------------------------------------------------- made of sizes */

static const Type *made(KernelCall *k, uint8_t dtype)
{
    Dim shape[16];
    int rank = kernel_shape_arg(k, 0, shape);

    for (int i = 0; i < rank; i++)
        if (dim_ge(0, shape[i], NULL, NULL) == DIM_PROVED) {
            REPORT(k->C, E0621, at_call(k->node, k->arg[0]->node), "this shape");
            rank = -1;
        }
    return kernel_block(dtype, rank < 0 ? RANK_UNKNOWN : rank, shape);
}

const Type *kernel_rule_zeros(KernelCall *k) { return made(k, kernel_dtype_arg(k, 1, DT_f32)); }

const Type *kernel_rule_full(KernelCall *k)
{
    uint8_t dtype = kernel_dtype_arg(k, 2, DT_f32);
    char what[80];

    snprintf(what, sizeof what, "%s()", k->name);
    kernel_dtype_goes(k->C, what, k->arg[1]->type, dtype, k->node);
    return made(k, dtype);
}

/* ------------------------------------------------------------- one operand */

const Type *kernel_rule_cast(KernelCall *k)
{
    const Type *t = arg_value(k, 0);
    TType x = {.rank = 0};

    if (type_is_any(t))
        return T_ANY;
    if (t->tensor)
        x = *t->tensor;
    x.dtype = kernel_dtype_arg(k, 1, DT_NONE);
    x.weak = 0;
    x.policy = NULL;
    return type_tensor(&x);
}

const Type *kernel_rule_transpose(KernelCall *k)
{
    const TType *x = kernel_tensor(k, 0);
    TType r;

    if (!x)
        return arg_value(k, 0);
    if (x->rank < 2) {
        REPORT(k->C, E0614, at_call(k->node, k->arg[0]->node), k->name, "x", "a block of rows and columns", shape_of(x));
        return T_ANY;
    }
    r = *x;
    r.shape[r.rank - 1] = x->shape[r.rank - 2];
    r.shape[r.rank - 2] = x->shape[r.rank - 1];
    return type_tensor(&r);
}

const Type *kernel_rule_float_like(KernelCall *k)
{
    const Type *t = arg_value(k, 0);
    TType x;

    if (t->kind != TY_TENSOR)
        return type_is_any(t) ? T_ANY : type_of_kind(TY_FLOAT);
    x = *t->tensor;
    if (x.dtype != DT_NONE && !dtype_is_float((DType)x.dtype))
        x.dtype = DT_f32;
    return type_tensor(&x);
}

const Type *kernel_rule_broadcast(KernelCall *k)
{
    const Type *t = arg_value(k, 0);
    TType to = {.rank = 0}, r;
    Dim shape[16];
    int rank = kernel_shape_arg(k, 1, shape);

    if (rank < 0 || type_is_any(t))
        return type_tensor_unknown();
    to.rank = (uint8_t)rank;
    memcpy(to.shape, shape, sizeof(Dim) * (size_t)rank);
    to.dtype = t->tensor ? t->tensor->dtype : t->kind == TY_FLOAT ? DT_f32 : DT_int32;
    r = to;
    if (t->tensor && t->tensor->rank != RANK_UNKNOWN && t->tensor->rank > rank) {
        REPORT(k->C, E0606, k->node->span, shape_of(t->tensor), shape_of(&to));
        return type_tensor_unknown();
    }
    if (t->tensor && !kernel_extents(k->C, t->tensor, &to, &r, k->node))
        return type_tensor_unknown();
    return type_tensor(&to);
}

/* ------------------------------------------------------------- products */

static bool matrix(KernelCall *k, int i, const char *param)
{
    const TType *x = kernel_tensor(k, i);
    const Type *t = k->arg[i]->type;

    if (!type_is_any(t) && !t->tensor) {
        REPORT(k->C, E0614, at_call(k->node, k->arg[i]->node), k->name, param, "a matrix", type_text(t));
        return false;
    }
    if (x && x->rank != 2) {
        REPORT(k->C, E0614, at_call(k->node, k->arg[i]->node), k->name, param, "a matrix", shape_of(x));
        return false;
    }
    return true;
}

/* Sums of products: f32 for floats up to that width, int32 for ints. */
static uint8_t sum_dtype(uint8_t a, uint8_t b)
{
    if (a == DT_NONE || b == DT_NONE)
        return DT_NONE;
    if (!dtype_is_float((DType)a))
        return DT_int32;
    return a == DT_f64 || b == DT_f64 ? DT_f64 : DT_f32;
}

static bool inner_agrees(KernelCall *k, const TType *a, const TType *b)
{
    Diag *d;

    if (!a || !b || !kernel_differ(k->C, a->shape[1], b->shape[0]))
        return true;
    d = REPORT(k->C, E0607, k->node->span, k->name, shape_of(a), shape_of(b));
    if (!kernel_differ(k->C, a->shape[1], b->shape[1]))
        diag_help(d, "tile.transpose(b) exchanges the rows and columns of b");
    else
        diag_help(d, "give the columns of the first and the rows of the second the same extent");
    return false;
}

static bool operand_dtypes(KernelCall *k, int i, int j)
{
    const Type *a = k->arg[i]->type, *b = k->arg[j]->type;
    uint8_t p = !type_is_any(a) && a->tensor ? a->tensor->dtype : DT_NONE, q = !type_is_any(b) && b->tensor ? b->tensor->dtype : DT_NONE;
    char text[120];

    if (p == DT_NONE || q == DT_NONE || p == q)
        return true;
    snprintf(text, sizeof text, "%s: %s and %s do not mix", k->name, dtype_info[p].name, dtype_info[q].name);
    diag_help(REPORT(k->C, E0401, k->node->span, text), "cast one side: tile.cast(value, %s)%s", dtype_info[p].name,
              dtype_info[p].bits == 8 && dtype_info[q].bits == 8 ? "; tile.mma_mixed takes two 8-bit formats" : "");
    return false;
}

/* a @ b of arguments i and j, added to argument acc (-1: none). */
static const Type *product(KernelCall *k, int i, int j, int acc, bool mixed)
{
    const TType *a, *b, *c;
    uint8_t dtype;
    Dim shape[2];
    TType sum;

    if (!matrix(k, i, i == 1 ? "a" : "the left operand") || !matrix(k, j, "the right operand") || (!mixed && !operand_dtypes(k, i, j)))
        return type_tensor_unknown();
    a = kernel_tensor(k, i);
    b = kernel_tensor(k, j);
    dtype = sum_dtype(a ? a->dtype : DT_NONE, b ? b->dtype : DT_NONE);
    if (!inner_agrees(k, a, b))
        return type_tensor_unknown();
    shape[0] = a ? a->shape[0] : kernel_unknown();
    shape[1] = b ? b->shape[1] : kernel_unknown();
    sum = (TType){.dtype = dtype, .rank = 2, .shape = {shape[0], shape[1]}};
    c = acc >= 0 && k->arg[acc] ? kernel_tensor(k, acc) : NULL;
    if (c && c->dtype != DT_NONE && dtype != DT_NONE && c->dtype != dtype) {
        diag_help(REPORT(k->C, E0609, k->node->span, k->name, dtype_info[dtype].name, dtype_info[c->dtype].name),
                  "make the accumulator of dtype %s", dtype_info[dtype].name);
        return type_tensor_unknown();
    }
    if (c && (c->rank != 2 || kernel_differ(k->C, c->shape[0], shape[0]) || kernel_differ(k->C, c->shape[1], shape[1]))) {
        REPORT(k->C, E0606, k->node->span, shape_of(&sum), shape_of(c));
        return type_tensor_unknown();
    }
    return type_tensor(&sum);
}

const Type *kernel_rule_dot(KernelCall *k) { return product(k, 0, 1, 2, false); }

/* mma(a, b), mma(a, b, acc), mma(d, a, b, c). */
const Type *kernel_rule_mma(KernelCall *k)
{
    if (!k->arg[3])
        return product(k, 0, 1, 2, false);
    product(k, 1, 2, 3, false);
    return T_NONE;
}

const Type *kernel_rule_mma_mixed(KernelCall *k)
{
    const Type *t = product(k, 0, 1, -1, true);
    uint8_t dtype = kernel_dtype_arg(k, 2, DT_f32);
    TType x;

    for (int i = 0; i < 2; i++) {
        const Type *a = k->arg[i]->type;
        if (!type_is_any(a) && a->tensor && a->tensor->dtype != DT_NONE && dtype_info[a->tensor->dtype].bits > 8) {
            diag_help(REPORT(k->C, E0614, at_call(k->node, k->arg[i]->node), k->name, i ? "B" : "A", "an 8-bit float format",
                             dtype_info[a->tensor->dtype].name), "tile.dot takes the wider dtypes");
            return type_tensor_unknown();
        }
    }
    if (t->kind != TY_TENSOR)
        return t;
    x = *t->tensor;
    x.dtype = dtype;
    return type_tensor(&x);
}

/* ------------------------------------------------------------- attention */

const Type *kernel_rule_mask_causal(KernelCall *k)
{
    const TType *s = kernel_tensor(k, 0);

    if (s && s->rank != 2)
        REPORT(k->C, E0614, at_call(k->node, k->arg[0]->node), k->name, "S", "a block of rows and columns", shape_of(s));
    return T_NONE;
}

const Type *kernel_rule_softmax_online(KernelCall *k)
{
    const TType *s = kernel_tensor(k, 0);
    const Type *m[3];

    if (!s)
        return type_tuple((const Type *[]){arg_value(k, 0), type_tensor_unknown(), type_tensor_unknown()}, 3);
    if (s->rank != 2) {
        REPORT(k->C, E0614, at_call(k->node, k->arg[0]->node), k->name, "S", "a block of rows and columns", shape_of(s));
        return T_ANY;
    }
    m[0] = arg_value(k, 0);
    m[1] = m[2] = kernel_block(s->dtype, 1, s->shape);
    return type_tuple(m, 3);
}

/* Rows of acc, m, l, P, m_c and l_c are the same; the columns of P are the rows of V, those of V those of acc. */
const Type *kernel_rule_softmax_accumulate(KernelCall *k)
{
    static const char *const names[] = {"acc", "m", "l", "P", "V", "m_c", "l_c"};
    static const int ranks[] = {2, 1, 1, 2, 2, 1, 1};
    const TType *t[7];
    const Type *m[3] = {arg_value(k, 0), arg_value(k, 1), arg_value(k, 2)};

    for (int i = 0; i < 7; i++) {
        t[i] = kernel_tensor(k, i);
        if (t[i] && t[i]->rank != ranks[i]) {
            REPORT(k->C, E0614, at_call(k->node, k->arg[i]->node), k->name, names[i],
                   ranks[i] == 2 ? "a block of rows and columns" : "a value for each row", shape_of(t[i]));
            return T_ANY;
        }
    }
    if (t[3] && t[4] && !inner_agrees(k, t[3], t[4]))
        return T_ANY;
    for (int i = 0; i < 7; i++)
        if (i != 4 && t[0] && t[i] && kernel_differ(k->C, t[0]->shape[0], t[i]->shape[0])) {
            REPORT(k->C, E0606, k->node->span, shape_of(t[0]), shape_of(t[i]));
            return T_ANY;
        }
    if (t[0] && t[4] && kernel_differ(k->C, t[0]->shape[1], t[4]->shape[1])) {
        REPORT(k->C, E0606, k->node->span, shape_of(t[0]), shape_of(t[4]));
        return T_ANY;
    }
    return type_tuple(m, 3);
}

/* ------------------------------------------------------------- groups */

const Type *kernel_rule_group(KernelCall *k)
{
    const Type *t = k->arg[0]->type;
    int64_t n;
    char text[32];

    if (t->kind == TY_INT && t->value != DIM_BAD && dim_const_value(t->value, &n) &&
        (n < 1 || n > KERNEL_GROUP_MAX || (n & (n - 1)))) {
        Diag *d;
        int64_t near = 1;
        while (near * 2 <= n && near < KERNEL_GROUP_MAX)
            near *= 2;
        snprintf(text, sizeof text, "%lld", (long long)n);
        d = REPORT(k->C, E0604, at_call(k->node, k->arg[0]->node), text);
        diag_help(d, "size=%lld is a power of two", (long long)near);
    }
    return type_kernel(KT_GROUP, NULL, NULL);
}
