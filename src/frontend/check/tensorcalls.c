/*
 * Functions and methods of tensors: one rule a shape of behaviour, a table of
 * which name has which rule.  A name without a row is not followed.
 */
#include "frontend/check/checker.h"

#include "frontend/eval/native.h"

#include <stdio.h>
#include <string.h>

typedef struct Rule Rule;
typedef struct TCall {
    Check *C;
    const char *name;
    CallArg *at;                /* the receiver of a method first */
    int n;
    bool open;
    Ast *node;
    const Rule *rule;
} TCall;
struct Rule { const char *name; const Type *(*fn)(TCall *c); int op; };

/* ------------------------------------------------------------- arguments */

static const CallArg *arg(const TCall *c, int pos, const char *a, const char *b)
{
    int at = 0;

    for (int i = 0; i < c->n; i++) {
        const CallArg *x = &c->at[i];
        if (x->name ? (a && !strcmp(x->name->text, a)) || (b && !strcmp(x->name->text, b)) : at == pos)
            return x;
        at += !x->name;
    }
    return NULL;
}

static int positional(const TCall *c)
{
    int n = 0;

    for (int i = 0; i < c->n; i++)
        n += !c->at[i].name;
    return n;
}

static const TType *tensor_arg(const TCall *c, int pos)
{
    const CallArg *x = arg(c, pos, NULL, NULL);

    return x && !type_is_any(x->type) && x->type->kind == TY_TENSOR ? x->type->tensor : NULL;
}

static bool int_of(const Type *t, int64_t *out)
{
    return !type_is_any(t) && t->kind == TY_INT && t->value != DIM_BAD && dim_const_value(t->value, out);
}

static bool flag(const TCall *c, int pos, bool *out)
{
    const CallArg *x = arg(c, pos, "keepdim", "keepdims");

    *out = false;
    if (!x)
        return true;
    if (!x->node)
        return false;
    Ast *v = x->node->kind == AST_Arg ? AST_AS(x->node, Arg)->value : x->node;
    if (v->kind != AST_Const)
        return false;
    *out = AST_AS(v, Const)->value == CONST_TRUE;
    return true;
}

/* dtype=: false when given but not known. */
static bool dtype_arg(const TCall *c, int pos, uint8_t *out)
{
    const CallArg *x = arg(c, pos, "dtype", NULL);
    DType dt;

    if (!x || x->type->kind == TY_NONE)
        return true;
    if (x->type->kind == TY_DTYPE)
        *out = (uint8_t)x->type->value;
    else if (x->type->kind == TY_STR && x->type->text && dtype_find(x->type->text->text, &dt))
        *out = (uint8_t)dt;
    else
        return false;
    return true;
}

static const Type *made(uint8_t dtype, int rank, const Dim *shape)
{
    TType t = {.dtype = dtype, .rank = (uint8_t)rank};

    for (int i = 0; rank != RANK_UNKNOWN && i < rank; i++)
        t.shape[i] = shape[i];
    return type_tensor(&t);
}

static Dim size_of(const Type *t)
{
    return !type_is_any(t) && t->kind == TY_INT && t->value != DIM_BAD ? t->value : dim_open();
}

/* Sizes from position `from` on: several ints, or one tuple or list. -1: not known how many. */
static int sizes(const TCall *c, int from, const char *name, Dim *out)
{
    const CallArg *first = arg(c, from, name, NULL);
    int n = 0, at = 0;

    if (c->open || !first)
        return c->open ? -1 : 0;
    if (type_is_any(first->type))
        return -1;
    if (first->type->kind == TY_TUPLE || first->type->kind == TY_LIST) {
        const Type *t = first->type;
        if (t->n < 0 || t->n > 16 || (t->kind == TY_LIST && !t->exact))
            return -1;
        for (; n < t->n; n++)
            out[n] = size_of(t->item[n]);
        return n;
    }
    if (first->name) {
        out[0] = size_of(first->type);
        return first->type->kind == TY_INT ? 1 : -1;
    }
    for (int i = 0; i < c->n; i++) {
        if (c->at[i].name)
            continue;
        if (at++ < from)
            continue;
        if (type_is_any(c->at[i].type))
            return -1;
        if (c->at[i].type->kind != TY_INT || n == 16)
            break;
        out[n++] = size_of(c->at[i].type);
    }
    return n;
}

static const Type *unknown(void)
{
    return type_tensor_unknown();
}

static const Type *keep_dtype(const TType *t)
{
    return made(t->dtype, RANK_UNKNOWN, NULL);
}

/* ------------------------------------------------------------- making */

/* How many positional sizes: all but trailing non-ints. full(shape, value) has its shape in one argument. */
static const Type *make_sized(TCall *c)
{
    Dim d[16];
    int n = sizes(c, 0, "shape", d);
    uint8_t dt = DT_f32;

    if (!dtype_arg(c, -1, &dt))
        dt = DT_NONE;
    for (int i = 0; i < c->n; i++)
        if (!c->at[i].name && c->at[i].type->kind == TY_DTYPE)
            dt = (uint8_t)c->at[i].type->value;
    if (n < 0)
        return made(dt, RANK_UNKNOWN, NULL);
    for (int i = 0; i < n; i++)
        if (dim_const_value(d[i], &(int64_t){0}) && !dim_is_const(d[i]))
            return unknown();
    return made(dt, n, d);
}

static const Type *make_full(TCall *c)
{
    const CallArg *shape = arg(c, 0, "shape", NULL), *fill = arg(c, 1, "fill_value", "value");
    CallArg one[1];
    TCall only = *c;
    Dim d[16];
    uint8_t dt = DT_NONE;
    int n;

    if (!shape || c->open)
        return unknown();
    one[0] = *shape;
    one[0].name = NULL;
    only.at = one;
    only.n = 1;
    n = sizes(&only, 0, NULL, d);
    if (fill && fill->type->kind == TY_FLOAT)
        dt = DT_f32;
    if (!dtype_arg(c, 2, &dt))
        dt = DT_NONE;
    return n < 0 ? unknown() : made(dt, n, d);
}

static const Type *make_eye(TCall *c)
{
    const CallArg *n = arg(c, 0, "n", NULL), *m = arg(c, 1, "m", NULL);
    Dim d[2];
    uint8_t dt = DT_f32;

    if (!n || c->open || !dtype_arg(c, -1, &dt) || (m && m->type->kind != TY_INT))
        return unknown();
    d[0] = size_of(n->type);
    d[1] = m ? size_of(m->type) : d[0];
    return made(dt, 2, d);
}

static const Type *make_arange(TCall *c)
{
    int n = positional(c);
    int64_t step = 1;
    uint8_t dt = DT_NONE;
    Dim lo = 0, hi, d;

    if (c->open || n < 1 || n > 3)
        return unknown();
    for (int i = 0; i < n; i++)
        if (c->at[i].name || c->at[i].type->kind != TY_INT)
            return unknown();
    if (!dtype_arg(c, -1, &dt))
        dt = DT_NONE;
    if (n > 1)
        lo = size_of(c->at[0].type);
    hi = size_of(c->at[n > 1].type);
    if (n == 3 && (!int_of(c->at[2].type, &step) || step < 1))
        return unknown();
    d = dim_cdiv(dim_sub(hi, lo), step);
    if (dim_ge(d, 0, NULL, NULL) != DIM_PROVED)
        d = dim_open();
    return made(dt, 1, &d);
}

/* The shape of nested displays. */
static int data_shape(const Type *t, Dim *d, int depth, uint8_t *dt)
{
    int n;

    if (type_is_any(t))
        return -1;
    if (t->kind == TY_BOOL || t->kind == TY_INT || t->kind == TY_FLOAT) {
        uint8_t k = t->kind == TY_BOOL ? DT_bool : t->kind == TY_INT ? DT_int32 : DT_f32;
        *dt = *dt == DT_NONE ? k : *dt == k ? k : DT_f32;
        return depth;
    }
    if ((t->kind != TY_LIST && t->kind != TY_TUPLE) || t->n < 0 || depth == 8 || (t->kind == TY_LIST && !t->exact))
        return -1;
    d[depth] = t->n;
    if (!t->n)
        return -1;
    n = data_shape(t->item[0], d, depth + 1, dt);
    for (int i = 1; i < t->n; i++) {
        Dim other[16] = {0};
        if (data_shape(t->item[i], other, depth + 1, dt) != n || n < 0)
            return -1;
        for (int k = depth + 1; k < n; k++)
            if (other[k] != d[k])
                return -1;
    }
    return n;
}

/* Nested displays lose their inner lists' lengths when they are settled: read them from the source. */
static int source_shape(const Ast *e, Dim *d, int depth, uint8_t *dt)
{
    AstSeq elts;
    int n = -1;

    if (e->kind == AST_UnaryOp)
        return source_shape(AST_AS(e, UnaryOp)->operand, d, depth, dt);
    if (e->kind == AST_Int || e->kind == AST_Float || (e->kind == AST_Const && AST_AS(e, Const)->value != CONST_NONE)) {
        uint8_t k = e->kind == AST_Int ? DT_int32 : e->kind == AST_Float ? DT_f32 : DT_bool;
        *dt = *dt == DT_NONE || *dt == k ? k : *dt == DT_f32 || k == DT_f32 ? DT_f32 : DT_int32;
        return depth;
    }
    if ((e->kind != AST_List && e->kind != AST_Tuple) || depth == 8)
        return -1;
    elts = e->kind == AST_List ? AST_AS(e, List)->elts : AST_AS(e, Tuple)->elts;
    d[depth] = elts.n;
    for (int i = 0; i < elts.n; i++) {
        Dim other[16] = {0};
        int k = source_shape(elts.at[i], i ? other : d, depth + 1, dt);
        if (k < 0 || (i && k != n))
            return -1;
        for (int j = depth + 1; i && j < k; j++)
            if (other[j] != d[j])
                return -1;
        n = k;
    }
    return elts.n ? n : -1;
}

static const Type *make_tensor(TCall *c)
{
    const CallArg *data = arg(c, 0, "data", NULL);
    Dim d[16] = {0};
    uint8_t dt = DT_NONE, given = DT_NONE;
    Ast *src;
    int n;

    if (!data || c->open || !dtype_arg(c, 1, &given))
        return unknown();
    src = data->node->kind == AST_Arg ? AST_AS(data->node, Arg)->value : data->node;
    n = source_shape(src, d, 0, &dt);
    if (n < 0) {
        dt = DT_NONE;
        n = data_shape(data->type, d, 0, &dt);
    }
    if (given != DT_NONE)
        dt = given;
    return n < 0 ? made(given, RANK_UNKNOWN, NULL) : made(dt, n, d);
}

static const Type *like(TCall *c)
{
    const TType *x = tensor_arg(c, 0);
    TType t;

    if (!x)
        return unknown();
    t = *x;
    if (!dtype_arg(c, -1, &t.dtype))
        t.dtype = DT_NONE;
    return type_tensor(&t);
}

/* ------------------------------------------------------------- elementwise */

static const Type *elementwise(TCall *c)
{
    const TType *x = tensor_arg(c, 0);

    if (!x)
        return c->n && c->at[0].type->kind == TY_FLOAT ? type_of_kind(TY_FLOAT) : T_ANY;
    return tensor_unary(c->C, (OpId)c->rule->op, c->at[0].type, c->node);
}

static const Type *elementwise2(TCall *c)
{
    static const int as_ast[] = {AOP_ADD, AOP_SUB, AOP_MUL};
    const CallArg *a = arg(c, 0, NULL, NULL), *b = arg(c, 1, NULL, NULL);

    if (!a || !b || c->open || type_is_any(a->type) || type_is_any(b->type) ||
        (a->type->kind != TY_TENSOR && b->type->kind != TY_TENSOR))
        return T_ANY;
    return tensor_binary(c->C, as_ast[c->rule->op], a->type, b->type, c->node);
}

/* relu and its kin: the same shape and float dtype. */
static const Type *same(TCall *c)
{
    const TType *x = tensor_arg(c, 0);

    return x ? type_tensor(x) : T_ANY;
}

static int axis_of(TCall *c, const TType *x, const CallArg *a)
{
    int64_t k;
    char axis[24], rank[24];

    if (!a || !int_of(a->type, &k) || x->rank == RANK_UNKNOWN)
        return -1;
    if (k >= x->rank || k < -x->rank) {
        snprintf(axis, sizeof axis, "%d", (int)k);
        snprintf(rank, sizeof rank, "%d", x->rank);
        diag_note(REPORT(c->C, E0308, c->node->span, axis, shape_of(x), rank), "in %s()", c->name);
        return -2;
    }
    return (int)(k < 0 ? k + x->rank : k);
}

/* softmax, cumsum, flip: the same shape, along an axis that must be there. */
static const Type *same_axis(TCall *c)
{
    const TType *x = tensor_arg(c, 0);

    if (!x)
        return T_ANY;
    return axis_of(c, x, arg(c, 1, "dim", "axis")) == -2 ? unknown() : type_tensor(x);
}

static const Type *where(TCall *c)
{
    TType cond, sum;
    const Type *t;

    if (c->n != 3 || c->open)
        return T_ANY;
    for (int i = 0; i < 3; i++)
        if (type_is_any(c->at[i].type))
            return T_ANY;
    t = c->at[1].type->kind == TY_TENSOR || c->at[2].type->kind == TY_TENSOR
            ? tensor_binary(c->C, AOP_ADD, c->at[1].type, c->at[2].type, c->node)
            : NULL;
    if (c->at[0].type->kind != TY_TENSOR)
        return T_ANY;
    if (!t || t->kind != TY_TENSOR)
        return unknown();
    cond = *c->at[0].type->tensor;
    sum = *t->tensor;
    cond.dtype = sum.dtype;
    cond.weak = 0;
    cond.policy = sum.policy;
    return tensor_binary(c->C, AOP_ADD, type_tensor(&cond), t, c->node);
}

static const Type *product(TCall *c)
{
    const CallArg *a = arg(c, 0, NULL, NULL), *b = arg(c, 1, NULL, NULL);

    if (!a || !b || type_is_any(a->type) || type_is_any(b->type) || a->type->kind != TY_TENSOR || b->type->kind != TY_TENSOR)
        return T_ANY;
    return tensor_binary(c->C, AOP_MATMUL, a->type, b->type, c->node);
}

/* ------------------------------------------------------------- reductions */

/* Axes named by dim= or axis=, or position 1: a set of indices from the front. -1: not known; -2: reported. */
static int axes_of(TCall *c, const TType *x, bool *gone)
{
    const CallArg *a = arg(c, 1, "dim", "axis");
    int n = 0;

    if (!a || a->type->kind == TY_NONE) {
        for (int i = 0; i < x->rank; i++)
            gone[i] = true;
        return x->rank;
    }
    if (type_is_any(a->type))
        return -1;
    if (a->type->kind == TY_TUPLE || a->type->kind == TY_LIST) {
        if (a->type->n < 0 || (a->type->kind == TY_LIST && !a->type->exact))
            return -1;
        for (int i = 0; i < a->type->n; i++) {
            CallArg one = {NULL, a->type->item[i], a->node, 0};
            int k = axis_of(c, x, &one);
            if (k < 0)
                return k;
            gone[k] = true;
            n++;
        }
        return n;
    }
    n = axis_of(c, x, a);
    if (n >= 0)
        gone[n] = true;
    return n < 0 ? n : 1;
}

static const Type *reduce(TCall *c)
{
    const TType *x = tensor_arg(c, 0);
    TType r;
    bool gone[16] = {false}, keep;
    int n;

    if (!x)
        return T_ANY;
    r = *x;
    if (c->rule->op == 1 && r.dtype != DT_NONE && !dtype_is_inexact((DType)r.dtype))
        r.dtype = DT_f32;                           /* mean and its kin */
    if (c->rule->op == 2)
        r.dtype = DT_int32;                         /* argmax */
    if (c->rule->op == 3)
        r.dtype = DT_bool;
    if (c->rule->op == 0 && r.dtype != DT_NONE && !dtype_is_inexact((DType)r.dtype))
        r.dtype = DT_NONE;                          /* sums of integers widen */
    if (!dtype_arg(c, -1, &r.dtype))
        r.dtype = DT_NONE;
    if (x->rank == RANK_UNKNOWN || c->open)
        return made(r.dtype, RANK_UNKNOWN, NULL);
    n = axes_of(c, x, gone);
    if (n < 0 || !flag(c, -1, &keep))
        return made(r.dtype, RANK_UNKNOWN, NULL);
    r.rank = 0;
    for (int i = 0; i < x->rank; i++)
        if (!gone[i])
            r.shape[r.rank++] = x->shape[i];
        else if (keep)
            r.shape[r.rank++] = 1;
    return type_tensor(&r);
}

/* ------------------------------------------------------------- moving */

static const Type *infer_move(TCall *c, OpId op, const Attr *a, const TType *x)
{
    TType out[2];
    int n = 0, code = 0;
    StrBuf err = {0};
    bool ok, open = ttype_is_open(x) && x->dtype != DT_NONE;
    TType in = *x;

    for (int i = 0; i < x->rank; i++)
        open |= dim_is_open(x->shape[i]);
    for (int i = 0; i < a->nd[0]; i++)
        open |= dim_is_open(a->d[0][i]);
    memset(out, 0, sizeof out);
    if (in.dtype == DT_NONE)
        in.dtype = DT_f32;
    ok = op_infer(op, a, &in, 1, out, &n, &err, &code);
    if (!ok && !open)
        diag_help(REPORT(c->C, E0306, c->node->span, sb_str(&err)), "the shape here is %s", shape_of(x));
    sb_done(&err);
    if (!ok)
        return keep_dtype(x);
    out[0].dtype = x->dtype;
    return type_tensor(&out[0]);
}

static const Type *reshape(TCall *c)
{
    const TType *x = tensor_arg(c, 0);
    Attr a = attr_default();
    Dim d[16], known = 1, all = 1;
    int n = sizes(c, 1, "shape", d), minus = -1;
    int64_t v;

    if (!x)
        return T_ANY;
    if (n < 0 || x->rank == RANK_UNKNOWN)
        return n < 0 ? keep_dtype(x) : made(x->dtype, n, d);
    for (int i = 0; i < n; i++) {
        if (dim_const_value(d[i], &v) && v == -1)
            minus = i;
        else
            known = dim_mul(known, d[i]);
    }
    for (int i = 0; i < x->rank; i++)
        all = dim_mul(all, x->shape[i]);
    if (minus >= 0) {
        if (dim_is_const(all) && dim_is_const(known) && known && all % known) {
            StrBuf e = {0};
            sb_printf(&e, "cannot reshape %s: %lld elements do not divide by %lld", shape_of(x), (long long)all, (long long)known);
            REPORT(c->C, E0306, c->node->span, sb_str(&e));
            sb_done(&e);
            return keep_dtype(x);
        }
        d[minus] = dim_const_value(known, &v) && v <= 0 ? dim_open() : dim_floordiv(all, known);
        if (d[minus] == DIM_BAD || dim_is_open(all) || dim_is_open(known))
            d[minus] = dim_open();
        return made(x->dtype, n, d);
    }
    a.nd[0] = (uint8_t)n;
    memcpy(a.d[0], d, sizeof *d * (size_t)n);
    {
        const Type *r = infer_move(c, OP_reshape, &a, x);
        return r->tensor->rank == RANK_UNKNOWN ? made(x->dtype, n, d) : r;
    }
}

static const Type *swap(TCall *c)
{
    const TType *x = tensor_arg(c, 0);
    TType r;
    int a, b;

    if (!x)
        return T_ANY;
    if (x->rank == RANK_UNKNOWN || c->open || positional(c) == 2)
        return keep_dtype(x);
    r = *x;
    if (positional(c) == 1 && c->n == 1) {
        for (int i = 0; i < x->rank; i++)
            r.shape[i] = x->shape[x->rank - 1 - i];
        return type_tensor(&r);
    }
    if (positional(c) > 3)
        return keep_dtype(x);
    a = axis_of(c, x, arg(c, 1, "dim0", "axis1"));
    b = a == -2 ? -2 : axis_of(c, x, arg(c, 2, "dim1", "axis2"));
    if (a < 0 || b < 0)
        return a == -2 || b == -2 ? unknown() : keep_dtype(x);
    r.shape[a] = x->shape[b];
    r.shape[b] = x->shape[a];
    return type_tensor(&r);
}

static const Type *permute(TCall *c)
{
    const TType *x = tensor_arg(c, 0);
    Dim d[16];
    TType r;
    bool used[16] = {false};
    int n = sizes(c, 1, "dims", d);
    StrBuf e = {0};
    bool bad;

    if (!x)
        return T_ANY;
    if (n < 0 || x->rank == RANK_UNKNOWN || (!n && c->n > 1))
        return keep_dtype(x);
    r = *x;
    bad = n != x->rank;
    for (int i = 0; i < n && !bad; i++) {
        int64_t k;
        if (!dim_const_value(d[i], &k))
            return keep_dtype(x);
        k = k < 0 ? k + x->rank : k;
        bad = k < 0 || k >= x->rank || used[k];
        if (!bad) {
            used[k] = true;
            r.shape[i] = x->shape[k];
        }
    }
    if (!bad)
        return type_tensor(&r);
    sb_printf(&e, "permute: the axes given are not a permutation of the %d axes of %s", x->rank, shape_of(x));
    REPORT(c->C, E0306, c->node->span, sb_str(&e));
    sb_done(&e);
    return keep_dtype(x);
}

static const Type *unsqueeze(TCall *c)
{
    const TType *x = tensor_arg(c, 0);
    TType r;
    int64_t k;
    const CallArg *a = arg(c, 1, "dim", "axis");

    if (!x)
        return T_ANY;
    if (x->rank == RANK_UNKNOWN || x->rank > 15 || !a || !int_of(a->type, &k))
        return keep_dtype(x);
    k = k < 0 ? k + x->rank + 1 : k;
    if (k < 0 || k > x->rank)
        return keep_dtype(x);
    r = *x;
    r.rank++;
    for (int i = 0, j = 0; i < r.rank; i++)
        r.shape[i] = i == k ? 1 : x->shape[j++];
    return type_tensor(&r);
}

static const Type *squeeze(TCall *c)
{
    const TType *x = tensor_arg(c, 0);
    const CallArg *a = arg(c, 1, "dim", "axis");
    TType r;
    int k;

    if (!x)
        return T_ANY;
    if (x->rank == RANK_UNKNOWN || !a)
        return keep_dtype(x);
    k = axis_of(c, x, a);
    if (k < 0)
        return keep_dtype(x);
    r = *x;
    r.rank = 0;
    for (int i = 0; i < x->rank; i++)
        if (i != k)
            r.shape[r.rank++] = x->shape[i];
    return type_tensor(&r);
}

/* The tensors of a list or tuple, or -1. */
static int tensors_of(const Type *t, TType *out)
{
    if (type_is_any(t) || (t->kind != TY_LIST && t->kind != TY_TUPLE) || t->n < 1 || t->n > ITEMS_MAX ||
        (t->kind == TY_LIST && !t->exact))
        return -1;
    for (int i = 0; i < t->n; i++) {
        if (type_is_any(t->item[i]) || t->item[i]->kind != TY_TENSOR || t->item[i]->tensor->rank == RANK_UNKNOWN)
            return -1;
        out[i] = *t->item[i]->tensor;
    }
    return t->n;
}

static const Type *join_list(TCall *c, bool stacking)
{
    TType in[ITEMS_MAX], out[2];
    const CallArg *list = arg(c, 0, "tensors", "xs"), *a = arg(c, 1, "dim", "axis");
    Attr at = attr_default();
    int64_t axis = 0;
    int n = list ? tensors_of(list->type, in) : -1, nout, code;
    StrBuf err = {0};
    bool ok, open = false, no_dtype = false;

    if (n < 0 || (a && !int_of(a->type, &axis)))
        return unknown();
    for (int i = 0; i < n; i++) {
        no_dtype |= in[i].dtype == DT_NONE;
        for (int k = 0; k < in[i].rank; k++)
            open |= dim_is_open(in[i].shape[k]);
    }
    for (int i = 0; i < n && no_dtype; i++)
        in[i].dtype = DT_f32;
    for (int i = 0; i < n && stacking; i++) {
        int k = (int)(axis < 0 ? axis + in[i].rank + 1 : axis);
        if (k < 0 || k > in[i].rank || in[i].rank > 14)
            return unknown();
        memmove(in[i].shape + k + 1, in[i].shape + k, sizeof(Dim) * (size_t)(in[i].rank - k));
        in[i].shape[k] = 1;
        in[i].rank++;
    }
    at.naxes = 1;
    at.axis[0] = (int8_t)(axis < 0 ? axis : axis - in[0].rank);
    if (axis >= in[0].rank)
        return unknown();
    memset(out, 0, sizeof out);
    ok = op_infer(OP_concat, &at, in, n, out, &nout, &err, &code);
    if (!ok && !open)
        diag_help(REPORT(c->C, code == 4 ? E0401 : E0306, c->node->span, sb_str(&err)), "%s",
                  code == 4 ? "cast explicitly with .to(dtype)" : "sizes may differ only along the joined axis");
    sb_done(&err);
    if (!ok)
        return unknown();
    if (no_dtype)
        out[0].dtype = DT_NONE;
    return type_tensor(&out[0]);
}

static const Type *concat(TCall *c) { return join_list(c, false); }
static const Type *stack(TCall *c) { return join_list(c, true); }

static const Type *pieces(TCall *c)
{
    const TType *x = tensor_arg(c, 0);
    const CallArg *count = arg(c, 1, "chunks", "n");
    const Type *m[ITEMS_MAX];
    TType p;
    int64_t n, v;
    int k;
    const CallArg *a = arg(c, 2, "dim", "axis");

    if (!x)
        return T_ANY;
    if (x->rank == RANK_UNKNOWN || !count || !int_of(count->type, &n) || n < 1 || n > ITEMS_MAX)
        return T_ANY;
    k = a ? axis_of(c, x, a) : 0;
    if (k < 0 || !x->rank)
        return T_ANY;
    p = *x;
    if (dim_divides(n, x->shape[k]) != DIM_PROVED)
        p.shape[k] = dim_open();
    else
        p.shape[k] = dim_const_value(x->shape[k], &v) ? v / n : dim_floordiv(x->shape[k], n);
    for (int i = 0; i < n; i++)
        m[i] = type_tensor(&p);
    return type_tuple(m, (int)n);
}

static const Type *expand(TCall *c)
{
    const TType *x = tensor_arg(c, 0);
    Attr a = attr_default();
    Dim d[16];
    int n = sizes(c, 1, "shape", d);
    int64_t v;

    if (!x)
        return T_ANY;
    if (n < 0 || x->rank == RANK_UNKNOWN)
        return keep_dtype(x);
    for (int i = 0; i < n; i++) {
        int k = i - (n - x->rank);
        if (dim_const_value(d[i], &v) && v == -1 && k >= 0)
            d[i] = x->shape[k];
    }
    a.nd[0] = (uint8_t)n;
    memcpy(a.d[0], d, sizeof *d * (size_t)n);
    return infer_move(c, OP_broadcast, &a, x);
}

static const Type *flatten(TCall *c)
{
    const TType *x = tensor_arg(c, 0);
    Dim all = 1;

    if (!x || x->rank == RANK_UNKNOWN || c->n > 1)
        return x ? keep_dtype(x) : T_ANY;
    for (int i = 0; i < x->rank; i++)
        all = dim_mul(all, x->shape[i]);
    return made(x->dtype, 1, &all);
}

static const Type *convert(TCall *c)
{
    const TType *x = tensor_arg(c, 0);
    TType r;
    DType dt;
    const CallArg *a = arg(c, 1, "dtype", NULL);

    if (!x)
        return T_ANY;
    r = *x;
    r.weak = 0;
    r.policy = NULL;
    if (a && a->type->kind == TY_DTYPE)
        r.dtype = (uint8_t)a->type->value;
    else if (a && a->type->kind == TY_STR && a->type->text && dtype_find(a->type->text->text, &dt))
        r.dtype = (uint8_t)dt;
    else if (a && a->type->kind != TY_STR)
        r.dtype = DT_NONE;
    return type_tensor(&r);
}

/* ------------------------------------------------------------- indexing functions */

/* table[ids]: the shape of the ids, then the rest of the table. */
static const Type *lookup(TCall *c)
{
    const TType *t = tensor_arg(c, 0), *ids = tensor_arg(c, 1);
    bool swapped = c->rule->op == 1;
    const CallArg *a = arg(c, 2, "axis", "dim");
    TType r;
    int k = 0;

    if (swapped && t && ids && t->dtype != DT_NONE && dtype_is_int((DType)t->dtype) && ids->dtype != DT_NONE &&
        !dtype_is_int((DType)ids->dtype)) {
        const TType *x = t;
        t = ids;
        ids = x;
    }
    if (!t || !ids || t->rank == RANK_UNKNOWN || ids->rank == RANK_UNKNOWN || !t->rank || t->rank + ids->rank > 16)
        return t ? keep_dtype(t) : T_ANY;
    if (a && (k = axis_of(c, t, a)) < 0)
        return keep_dtype(t);
    r = *t;
    r.rank = 0;
    for (int i = 0; i < k; i++)
        r.shape[r.rank++] = t->shape[i];
    for (int i = 0; i < ids->rank; i++)
        r.shape[r.rank++] = ids->shape[i];
    for (int i = k + 1; i < t->rank; i++)
        r.shape[r.rank++] = t->shape[i];
    return type_tensor(&r);
}

static const Type *one_hot(TCall *c)
{
    const TType *ids = tensor_arg(c, 0);
    const CallArg *n = arg(c, 1, "num_classes", "n");
    TType r;

    if (!ids || ids->rank == RANK_UNKNOWN || ids->rank > 15 || !n)
        return unknown();
    r = *ids;
    r.dtype = DT_NONE;
    r.shape[r.rank++] = size_of(n->type);
    return type_tensor(&r);
}

static const Type *to_float(TCall *c)
{
    return T_ANY;
}

/* ------------------------------------------------------------- einsum */

static const Type *einsum(TCall *c)
{
    const char *s, *arrow;
    Dim size[128];
    TType r = {.dtype = DT_NONE};
    int operand = 0, axis = 0;
    char text[64];

    if (!c->n || c->at[0].type->kind != TY_STR || !c->at[0].type->text)
        return unknown();
    s = c->at[0].type->text->text;
    arrow = strstr(s, "->");
    if (!arrow || strstr(s, "...") || strpbrk(s, " "))
        return unknown();
    for (int i = 0; i < 128; i++)
        size[i] = DIM_BAD;
    for (const char *p = s; p <= arrow; p++) {
        const TType *x = tensor_arg(c, operand + 1);
        if (!x || x->rank == RANK_UNKNOWN)
            return unknown();
        if (*p == ',' || p == arrow) {
            if (axis != x->rank) {
                snprintf(text, sizeof text, "einsum: \"%.20s\" names %d axes", s, axis);
                diag_note(REPORT(c->C, E0306, c->node->span, text), "operand %d is %s", operand + 1, shape_of(x));
                return unknown();
            }
            operand++;
            axis = 0;
            continue;
        }
        if ((unsigned char)*p >= 128 || axis >= x->rank) {
            axis++;
            continue;
        }
        Dim d = x->shape[axis++], *have = &size[(unsigned char)*p];
        DimAnswer a = *have == DIM_BAD ? DIM_PROVED : dim_eq(*have, d, NULL, NULL);
        if ((a == DIM_REFUTED || a == DIM_DIFFERS) && *have != 1 && d != 1 && !dim_is_open(*have) && !dim_is_open(d)) {
            StrBuf e = {0};
            sb_printf(&e, "einsum: letter %c stands for sizes ", *p);
            dim_print(*have, &e);
            sb_puts(&e, " and ");
            dim_print(d, &e);
            REPORT(c->C, E0306, c->node->span, sb_str(&e));
            sb_done(&e);
            return unknown();
        }
        if (*have == DIM_BAD || *have == 1)
            *have = d;
    }
    for (const char *p = arrow + 2; *p && r.rank < 16; p++)
        r.shape[r.rank++] = (unsigned char)*p < 128 && size[(unsigned char)*p] != DIM_BAD ? size[(unsigned char)*p] : dim_open();
    r.dtype = tensor_arg(c, 1)->dtype;
    return type_tensor(&r);
}

/* ------------------------------------------------------------- the table */

static const Rule rules[] = {
    {"zeros", make_sized, 0}, {"ones", make_sized, 0}, {"empty", make_sized, 0}, {"full", make_full, 0}, {"eye", make_eye, 0},
    {"arange", make_arange, 0}, {"tensor", make_tensor, 0}, {"zeros_like", like, 0}, {"ones_like", like, 0},
    {"empty_like", like, 0}, {"full_like", like, 0},
    {"exp", elementwise, OP_exp}, {"log", elementwise, OP_log}, {"sqrt", elementwise, OP_sqrt}, {"rsqrt", elementwise, OP_rsqrt},
    {"sin", elementwise, OP_sin}, {"cos", elementwise, OP_cos}, {"tan", elementwise, OP_tan}, {"tanh", elementwise, OP_tanh},
    {"sigmoid", elementwise, OP_sigmoid}, {"erf", elementwise, OP_erf}, {"abs", elementwise, OP_abs}, {"exp2", elementwise, OP_exp2},
    {"log2", elementwise, OP_log2}, {"log1p", elementwise, OP_log1p}, {"expm1", elementwise, OP_expm1}, {"neg", elementwise, OP_neg},
    {"floor", elementwise, OP_floor}, {"ceil", elementwise, OP_ceil}, {"sign", elementwise, OP_sign},
    {"isnan", elementwise, OP_isnan}, {"isinf", elementwise, OP_isinf}, {"isfinite", elementwise, OP_isfinite},
    {"maximum", elementwise2, 0}, {"minimum", elementwise2, 0},
    {"relu", same, 0}, {"gelu", same, 0}, {"silu", same, 0}, {"clone", same, 0}, {"contiguous", same, 0}, {"tril", same, 0},
    {"triu", same, 0}, {"clip", same, 0}, {"stop_gradient", same, 0}, {"detach", same, 0}, {"layer_norm", same, 0},
    {"rms_norm", same, 0}, {"dropout", same, 0}, {"leaky_relu", same, 0},
    {"softmax", same_axis, 0}, {"log_softmax", same_axis, 0}, {"cumsum", same_axis, 0},
    {"where", where, 0}, {"matmul", product, 0}, {"dot", product, 0},
    {"sum", reduce, 0}, {"prod", reduce, 0}, {"max", reduce, 4}, {"min", reduce, 4}, {"mean", reduce, 1}, {"std", reduce, 1},
    {"var", reduce, 1}, {"logsumexp", reduce, 1}, {"argmax", reduce, 2}, {"argmin", reduce, 2}, {"any", reduce, 3}, {"all", reduce, 3},
    {"reshape", reshape, 0}, {"view", reshape, 0}, {"transpose", swap, 0}, {"swapaxes", swap, 0}, {"permute", permute, 0},
    {"unsqueeze", unsqueeze, 0}, {"expand_dims", unsqueeze, 0}, {"squeeze", squeeze, 0}, {"concat", concat, 0}, {"stack", stack, 0},
    {"chunk", pieces, 0}, {"expand", expand, 0}, {"broadcast_to", expand, 0}, {"flatten", flatten, 0}, {"to", convert, 0},
    {"astype", convert, 0}, {"embedding", lookup, 1}, {"take", lookup, 0}, {"one_hot", one_hot, 0}, {"einsum", einsum, 0},
    {"item", to_float, 0},
};

static const Rule *find(const char *name)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (!strcmp(rules[i].name, name))
            return &rules[i];
    return NULL;
}

/* f32.add(x, y): the operands must have that dtype. */
static bool typed_call(TCall *c, const char *owner, const Type **out)
{
    DType dt;

    if (!dtype_find(owner, &dt))
        return false;
    *out = T_ANY;
    for (int i = 0; i < c->n; i++) {
        const TType *x = tensor_arg(c, i);
        if (!x || x->dtype == DT_NONE || x->dtype == dt)
            continue;
        REPORT(c->C, E0404, c->node->span, owner, c->name, dtype_info[x->dtype].name);
        return true;
    }
    return true;
}

bool tensor_call(Check *C, const char *owner, const char *name, const Type *self, CallArgs *a, Ast *node, const Type **out)
{
    CallArg all[65];
    TCall c = {C, name, all, 0, a->open, node, find(name)};
    bool method = self && self->kind == TY_TENSOR;

    if (self && !method)
        return false;
    if (method)
        all[c.n++] = (CallArg){NULL, self, node, 0};
    for (int i = 0; i < a->n && c.n < 65; i++)
        all[c.n++] = a->at[i];
    if (*owner && strcmp(owner, "Tensor"))
        return typed_call(&c, owner, out);
    if (!c.rule)
        return false;
    *out = c.rule->fn(&c);
    return *out != NULL;
}
