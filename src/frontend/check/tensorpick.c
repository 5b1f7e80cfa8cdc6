/* Selecting, ordering, transforming along axes; windows and spectra; numbers drawn at random. */
#include "frontend/check/tensorcalls.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------- any op of the table by its name */

/* An elementwise op of up to three operands: what op_infer says. */
const Type *rule_by_name(TCall *c)
{
    OpId op = (OpId)c->rule->op;

    if (c->open || c->n < op_info[op].nin)
        return T_ANY;
    if (op_info[op].nin == 1)
        return c->at[0].type && c->at[0].type->kind == TY_TENSOR ? tensor_unary(c->C, op, c->at[0].type, c->node) : T_ANY;
    return op_info[op].nin == 2 ? tensor_op2(c->C, op, c->at[0].type, c->at[1].type, c->node)
                                : tensor_op3(c->C, op, c->at[0].type, c->at[1].type, c->at[2].type, c->node);
}

/* ------------------------------------------------------------- picking and putting */

/* PyTorch's gather(x, 1, index) and scatter(x, 1, index, values): the arguments, in our order, stand in at. false: they are in our order. */
static bool axis_before_index(TCall *c, CallArg at[4])
{
    bool values = strncmp(c->name, "scatter", 7) == 0;

    if (c->open || c->n < 3 || c->n > 4 || !strcmp(c->name, "take_along"))
        return false;
    for (int i = 1; i < c->n; i++)
        if (c->at[i].name)
            return false;
    if (c->at[1].type->kind != TY_INT || c->n != 3 + values)
        return false;
    at[0] = c->at[0];
    for (int i = 1; i + 1 < c->n; i++)
        at[i] = c->at[i + 1];
    at[c->n - 1] = c->at[1];
    return true;
}

/* take_along: the index's shape, the tensor's dtype; both have the same axes. */
const Type *rule_along(TCall *c)
{
    CallArg turned[4];
    TCall ours = *c;
    const TType *x, *i;
    char want[24], text[128];

    if (axis_before_index(c, turned))
        ours.at = turned;
    c = &ours;
    x = tcall_tensor(c, 0);
    i = tcall_tensor(c, 1);
    if (!x || !i || tcall_not_index(c, i))
        return x ? tensor_of_dtype(x) : T_ANY;
    if (x->rank == RANK_UNKNOWN || i->rank == RANK_UNKNOWN)
        return tensor_of_dtype(x);
    if (x->rank != i->rank) {
        snprintf(want, sizeof want, "%d", x->rank);
        snprintf(text, sizeof text, "%s: an index of %d axes for a tensor of %s", c->name, i->rank, want);
        diag_help(REPORT(c->C, E0306, c->node->span, text), "unsqueeze the index: it has one place for each element taken");
        return tensor_of_dtype(x);
    }
    if (tcall_axis(c, x, tcall_arg(c, 2, "axis", "dim")) == -2)
        return tensor_of_dtype(x);
    return tensor_made(x, i->rank, i->shape);
}

/* scatter(x, index, values, axis): as many axes as x, values of the index's shape or broadcast to it. */
const Type *rule_scatter(TCall *c)
{
    CallArg turned[4];
    TCall ours = *c;
    const TType *x, *i, *v;
    bool torch = axis_before_index(c, turned);
    char text[96];

    if (torch)
        ours.at = turned;
    c = &ours;
    x = tcall_tensor(c, 0);
    i = tcall_tensor(c, 1);
    v = torch ? NULL : tcall_tensor(c, 2);              /* PyTorch takes the first of more values */
    if (!x || !i || tcall_not_index(c, i))
        return x ? type_tensor(x) : T_ANY;
    if (x->rank != RANK_UNKNOWN && i->rank != RANK_UNKNOWN && x->rank != i->rank) {
        snprintf(text, sizeof text, "%s: an index of %d axes for a tensor of %d", c->name, i->rank, x->rank);
        diag_help(REPORT(c->C, E0306, c->node->span, text),
                  "unsqueeze the index: it has one place for each value; whole rows are written by x[rows] = v, or x[rows] += v");
        return type_tensor(x);
    }
    if (tcall_axis(c, x, tcall_arg(c, 3, "axis", "dim")) != -2 && v && v->rank != RANK_UNKNOWN && i->rank != RANK_UNKNOWN)
        broadcast_judged(c->C, v, i, c->node);
    return type_tensor(x);
}

/* x.index_add(dim, index, source): the source has x's sizes, but along the axis as many as the index. */
static const Type *put_along(TCall *c, const TType *x)
{
    const CallArg *dim = tcall_arg(c, 1, "dim", NULL), *at = tcall_arg(c, 2, "index", NULL), *from = tcall_arg(c, 3, "source", NULL);
    const TType *i = at && at->type->kind == TY_TENSOR ? at->type->tensor : NULL;
    const TType *v = from && from->type->kind == TY_TENSOR ? from->type->tensor : NULL;
    TType place = *x;
    int axis = strcmp(c->name, "index_add") || !dim ? -1 : tcall_axis(c, x, dim);

    if (axis < 0 || !i || tcall_not_index(c, i) || i->rank != 1 || !v || v->rank == RANK_UNKNOWN)
        return type_tensor(x);
    place.shape[axis] = i->shape[0];
    broadcast_judged(c->C, v, &place, c->node);
    return type_tensor(x);
}

/* The function with the arguments of the method: index_add(x, 0, index, source). */
static bool put_as_method(TCall *c)
{
    const TType *source = tcall_tensor(c, 3);
    char text[96];

    if (c->at[1].type->kind != TY_INT || c->n != 4 || !source || source->dtype == DT_NONE || dtype_is_int((DType)source->dtype))
        return false;
    snprintf(text, sizeof text, "%s(): indices are ints, not %s", c->name, dtype_info[source->dtype].name);
    diag_help(REPORT(c->C, E0401, c->node->span, text),
              "the function is %s(x, values, *indices); the method has PyTorch's order: x.%s(dim, index, source)", c->name, c->name);
    return true;
}

/* index_put(x, values, *indices): an index for each of the first axes; the values are broadcast to what they select. */
const Type *rule_put(TCall *c)
{
    const TType *x = tcall_tensor(c, 0), *v = tcall_tensor(c, 1), *i;
    TType place = {.dtype = DT_NONE};
    int n = tcall_positional(c) - 2;
    char rank[24], count[24];

    if (!x || c->open || x->rank == RANK_UNKNOWN || n < 1)
        return x ? type_tensor(x) : T_ANY;
    if (c->at[0].node == c->node)                       /* the method, whose arguments come in PyTorch's order */
        return put_along(c, x);
    if (put_as_method(c))
        return type_tensor(x);
    if (n > x->rank) {
        snprintf(rank, sizeof rank, "%d", x->rank);
        snprintf(count, sizeof count, "%d", n);
        REPORT(c->C, E0307, c->node->span, count, shape_of(x), rank);
        return type_tensor(x);
    }
    for (int k = 0; k < n; k++)
        if ((i = tcall_tensor(c, 2 + k)) && tcall_not_index(c, i))
            return type_tensor(x);
    i = tcall_tensor(c, 2);
    if (n > 1 || !i || i->rank == RANK_UNKNOWN || i->dtype == DT_bool || i->rank + x->rank > 15 || !v || v->rank == RANK_UNKNOWN)
        return type_tensor(x);
    memcpy(place.shape, i->shape, sizeof *i->shape * i->rank);
    memcpy(place.shape + i->rank, x->shape + 1, sizeof *x->shape * (size_t)(x->rank - 1));
    place.rank = (uint8_t)(i->rank + x->rank - 1);
    broadcast_judged(c->C, v, &place, c->node);
    return type_tensor(x);
}

/* sort keeps dtype, argsort gives places. */
const Type *rule_order(TCall *c)
{
    const TType *x = tcall_tensor(c, 0);
    TType r;

    if (!x || tcall_axis(c, x, tcall_arg(c, 1, "axis", "dim")) == -2)
        return x ? tensor_of_dtype(x) : T_ANY;
    r = *x;
    r.weak = 0;
    if (c->rule->op)
        r.dtype = DT_int32, r.policy = NULL;
    return type_tensor(&r);
}

/* [count, axes] of places; how many is seen only when it runs. */
/* Where a tensor is true: an index tensor for each axis, all of one size. */
const Type *tensor_places(const TType *x)
{
    TType place = {.dtype = DT_int32, .rank = 1, .shape = {dim_open()}};
    const Type *m[sizeof place.shape / sizeof *place.shape];

    for (int i = 0; i < x->rank; i++)
        m[i] = type_tensor(&place);
    return type_tuple(m, x->rank);
}

const Type *rule_nonzero(TCall *c)
{
    const TType *x = tcall_tensor(c, 0);
    const CallArg *columns = tcall_arg(c, 1, "as_tuple", NULL);
    TType places = {.dtype = DT_int32};
    Dim d[2] = {dim_open(), x && x->rank != RANK_UNKNOWN ? x->rank : dim_open()};

    if (columns && columns->type->kind == TY_BOOL && columns->type->value == BOOL_TRUE)
        return x && x->rank != RANK_UNKNOWN ? tensor_places(x) : T_ANY;
    return x && !columns ? tensor_made(&places, 2, d) : T_ANY;
}

const Type *rule_dynamic_slice(TCall *c)
{
    const TType *x = tcall_tensor(c, 0);
    const CallArg *sizes = tcall_arg(c, 2, "sizes", NULL);
    TType r;

    if (!x || !sizes || x->rank == RANK_UNKNOWN || type_is_any(sizes->type) ||
        (sizes->type->kind != TY_TUPLE && !(sizes->type->kind == TY_LIST && sizes->type->exact)) || sizes->type->n < 0 ||
        sizes->type->n > x->rank)
        return x ? tensor_of_dtype(x) : T_ANY;
    r = *x;
    for (int i = 0; i < sizes->type->n; i++)
        r.shape[x->rank - sizes->type->n + i] = size_of_type(sizes->type->item[i]);
    return type_tensor(&r);
}

/* ------------------------------------------------------------- cutting */

static const Type *open_list(void)
{
    return type_list(tensor_unknown());
}

static const Type *equal_parts(TCall *c, const TType *x, int axis, int64_t n)
{
    const Type *m[ITEMS_MAX];
    TType p = *x;
    Dim size = x->shape[axis];

    if (n < 1 || dim_divides(n, size) == DIM_REFUTED) {
        StrBuf text = {0};
        sb_puts(&text, "split: ");
        dim_print(size, &text);
        sb_printf(&text, " elements along axis %d of %s do not divide into %lld equal parts", axis, shape_of(x), (long long)n);
        diag_help(REPORT(c->C, E0306, c->node->span, sb_str(&text)), "chunk allows a smaller last part; a list of places cuts anywhere");
        sb_done(&text);
        return open_list();
    }
    if (n > ITEMS_MAX)
        return open_list();
    p.shape[axis] = dim_divides(n, size) == DIM_PROVED ? dim_floordiv(size, n) : dim_open();
    p.weak = 0;
    for (int i = 0; i < n; i++)
        m[i] = type_tensor(&p);
    return type_list_of(m, (int)n);
}

/* chunk: as many of the same size as there is room for, and what is left. */
static const Type *uneven_parts(const TType *x, int axis, int64_t n)
{
    const Type *m[ITEMS_MAX];
    int64_t left = x->shape[axis], size = (left + n - 1) / n;
    TType p = *x;
    int k = 0;

    p.weak = 0;
    for (; left > 0 && k < ITEMS_MAX; left -= size) {
        p.shape[axis] = dim_const(left < size ? left : size);
        m[k++] = type_tensor(&p);
    }
    return left > 0 ? open_list() : type_list_of(m, k);
}

static const Type *cut_at(const TType *x, int axis, const Type *places)
{
    const Type *m[ITEMS_MAX];
    Dim from = 0, size = x->shape[axis];
    TType p = *x;

    if (places->n < 0 || places->n >= ITEMS_MAX || (places->kind == TY_LIST && !places->exact))
        return open_list();
    for (int i = 0; i <= places->n; i++) {
        Dim to = i == places->n ? size : size_of_type(places->item[i]);
        bool ordered = dim_ge(from, 0, NULL, NULL) == DIM_PROVED && dim_ge(to, from, NULL, NULL) == DIM_PROVED &&
                       dim_ge(size, to, NULL, NULL) == DIM_PROVED;
        p.shape[axis] = ordered ? dim_sub(to, from) : dim_open();
        m[i] = type_tensor(&p);
        from = to;
    }
    return type_list_of(m, places->n + 1);
}

const Type *rule_split(TCall *c)
{
    const TType *x = tcall_tensor(c, 0);
    const CallArg *parts = tcall_arg(c, 1, "sections", "chunks"), *a = tcall_arg(c, 2, "dim", "axis");
    bool chunks = c->rule->op;
    int64_t n;
    int axis;

    if (!x)
        return T_ANY;
    if (x->rank == RANK_UNKNOWN || !x->rank || !parts || c->open || type_is_any(parts->type))
        return open_list();
    axis = a && a->type->kind != TY_NONE ? tcall_axis(c, x, a) : 0;
    if (axis < 0)
        return open_list();
    if (chunks && type_int_value(parts->type, &n) && n > 0 && dim_is_const(x->shape[axis]) && dim_divides(n, x->shape[axis]) == DIM_REFUTED)
        return uneven_parts(x, axis, n);
    if (type_int_value(parts->type, &n))
        return chunks && (n < 1 || dim_divides(n, x->shape[axis]) != DIM_PROVED) ? open_list() : equal_parts(c, x, axis, n);
    return !chunks && (parts->type->kind == TY_LIST || parts->type->kind == TY_TUPLE) ? cut_at(x, axis, parts->type) : open_list();
}

/* pad(x, ((before, after), ...)) */
const Type *rule_pad(TCall *c)
{
    const TType *x = tcall_tensor(c, 0);
    const CallArg *w = tcall_arg(c, 1, "widths", NULL);
    const Type *t = w ? w->type : NULL;
    TType r;
    bool nested;

    if (!x || x->rank == RANK_UNKNOWN || type_is_any(t))
        return x ? tensor_of_dtype(x) : T_ANY;
    r = *x;
    if (t->kind == TY_INT) {
        for (int i = 0; i < x->rank; i++)
            r.shape[i] = dim_add(x->shape[i], dim_mul(2, size_of_type(t)));
        return type_tensor(&r);
    }
    if ((t->kind != TY_TUPLE && t->kind != TY_LIST) || t->n < 1 || (t->kind == TY_LIST && !t->exact))
        return tensor_of_dtype(x);
    nested = t->item[0]->kind == TY_TUPLE;
    if (nested && t->n != 1 && t->n != x->rank) {
        StrBuf text = {0};
        sb_printf(&text, "pad: %d pairs of widths for the %d axes of %s", t->n, x->rank, shape_of(x));
        diag_help(REPORT(c->C, E0306, c->node->span, sb_str(&text)), "give one pair (before, after) for each axis");
        sb_done(&text);
        return tensor_of_dtype(x);
    }
    for (int i = 0; i < x->rank; i++) {
        const Type *pair = nested ? t->item[t->n == 1 ? 0 : i] : t;
        if (type_is_any(pair) || pair->kind != TY_TUPLE || pair->n != 2)
            return tensor_of_dtype(x);
        r.shape[i] = dim_add(x->shape[i], dim_add(size_of_type(pair->item[0]), size_of_type(pair->item[1])));
    }
    return type_tensor(&r);
}

const Type *rule_moveaxis(TCall *c)
{
    const TType *x = tcall_tensor(c, 0);
    int from, to, k = 0;
    TType r;

    if (!x || x->rank == RANK_UNKNOWN)
        return x ? tensor_of_dtype(x) : T_ANY;
    from = tcall_axis(c, x, tcall_arg(c, 1, "source", NULL));
    to = from < 0 ? from : tcall_axis(c, x, tcall_arg(c, 2, "destination", NULL));
    if (from < 0 || to < 0)
        return tensor_of_dtype(x);
    r = *x;
    for (int i = 0; i < x->rank; i++) {
        k += k == from;
        r.shape[i] = i == to ? x->shape[from] : x->shape[k++];
    }
    return type_tensor(&r);
}

/* ------------------------------------------------------------- spectra */

/* op: 0 fft, 1 ifft, 2 rfft, 3 irfft. */
const Type *rule_fft(TCall *c)
{
    const TType *x = tcall_tensor(c, 0);
    const CallArg *n = tcall_arg(c, 1, "n", NULL), *a = tcall_arg(c, 2, "axis", "dim");
    bool given = n && n->type->kind != TY_NONE;
    int axis, kind = c->rule->op;
    TType r;
    Dim points;

    if (!x)
        return T_ANY;
    r = *x;
    r.weak = 0;
    r.policy = NULL;
    if (x->dtype != DT_NONE)
        r.dtype = kind == 3 ? (x->dtype == DT_c128 ? DT_f64 : DT_f32) : x->dtype == DT_f64 || x->dtype == DT_c128 ? DT_c128 : DT_c64;
    if (x->rank == RANK_UNKNOWN || !x->rank || c->open)
        return tensor_of_dtype(&r);
    axis = a ? tcall_axis(c, x, a) : x->rank - 1;
    if (axis < 0)
        return tensor_of_dtype(&r);
    points = given ? size_of_type(n->type) : x->shape[axis];
    if (kind == 2)
        points = dim_add(dim_floordiv(points, 2), 1);
    else if (kind == 3 && !given)
        points = dim_mul(2, dim_sub(points, 1));
    r.shape[axis] = points;
    return type_tensor(&r);
}

/* ------------------------------------------------------------- factorisations */

/* qr, svd, eigh, lu: all results of one op. */
const Type *rule_factors(TCall *c)
{
    const TType *x = tcall_tensor(c, 0);
    const Type *m[4];
    Attr a = attr_default();
    TType in, out[4];
    int n = 0, code = 0;
    StrBuf err = {0};
    bool ok, no_dtype = x && x->dtype == DT_NONE;

    if (!x || x->rank == RANK_UNKNOWN || c->n > 1)     /* arguments choose other results */
        return T_ANY;
    in = *x;
    if (no_dtype)
        in.dtype = DT_f32;
    if (ttype_is_open(&in))
        return T_ANY;
    memset(out, 0, sizeof out);
    ok = op_infer((OpId)c->rule->op, &a, &in, 1, out, &n, &err, &code);
    if (!ok)
        diag_help(REPORT(c->C, code == 4 ? E0401 : E0306, c->node->span, sb_str(&err)), "the shape here is %s", shape_of(x));
    sb_done(&err);
    if (!ok || n > 4)
        return T_ANY;
    for (int i = 0; i < n; i++) {
        if (no_dtype && out[i].dtype != DT_int32)
            out[i].dtype = DT_NONE;
        m[i] = type_tensor(&out[i]);
    }
    return n == 1 ? m[0] : type_tuple(m, n);
}

/* solve_triangular(a, b): b's sizes, or their mistake. */
const Type *rule_triangular(TCall *c)
{
    const TType *a = tcall_tensor(c, 0), *b = tcall_tensor(c, 1);
    Attr at = attr_default();
    TType in[2];
    const Type *r;

    if (!a || !b || a->rank == RANK_UNKNOWN || b->rank == RANK_UNKNOWN || b->rank < 1)
        return tensor_unknown();
    in[0] = *a;
    in[1] = *b;
    if (b->rank == 1)
        in[1].rank = 2, in[1].shape[1] = 1;
    r = tensor_infer(c->C, OP_triangular_solve, &at, in, 2, c->node);
    if (b->rank > 1 || r->kind != TY_TENSOR || r->tensor->rank != 2)
        return r;
    in[1] = *r->tensor;
    in[1].rank = 1;
    return type_tensor(&in[1]);
}

/* ------------------------------------------------------------- random numbers */

static bool is_sizes(const Type *t) { return t->kind == TY_TUPLE || t->kind == TY_LIST; }

/* uniform(low, high, shape), uniform(shape, low, high); NULL: the sizes stand there alone, or there are none. */
static const CallArg *bounded(TCall *c)
{
    const CallArg *a = c->at;
    int n = tcall_positional(c);

    if (n != 3)
        return NULL;
    return is_sizes(a[0].type) ? a : is_sizes(a[2].type) || a[0].type->kind == TY_FLOAT || a[1].type->kind == TY_FLOAT ? a + 2 : NULL;
}

/* uniform(shape), normal(shape): f32 unless said; without sizes a number. */
const Type *rule_drawn(TCall *c)
{
    const CallArg *named = tcall_arg(c, -1, "shape", NULL), *shape = named ? named : bounded(c);
    TCall only = *c;
    CallArg one;
    Dim d[16];
    TType e = {.dtype = DT_f32};
    int n;

    if (c->open)
        return T_ANY;
    tcall_element(c, -1, &e);
    if (shape) {
        one = *shape;
        one.name = NULL;
        only.at = &one;
        only.n = 1;
    } else if (!tcall_positional(c) || c->at[0].type->kind == TY_FLOAT) {
        return T_ANY;
    }
    n = tcall_sizes(&only, 0, NULL, d);
    return n < 0 ? tensor_made(&e, RANK_UNKNOWN, NULL) : n ? tensor_made(&e, n, d) : T_ANY;
}

/* randint(lo, hi, shape), bernoulli(p, shape); op: the position of the shape. */
const Type *rule_drawn_at(TCall *c)
{
    const CallArg *shape = tcall_arg(c, c->rule->op, "shape", NULL);
    TCall only = *c;
    CallArg one;
    Dim d[16];
    TType e = {.dtype = c->rule->op == 2 ? DT_int32 : DT_f32};
    int n;

    if (c->open)
        return T_ANY;
    tcall_element(c, -1, &e);
    if (!shape)
        return c->rule->op == 2 ? type_int(DIM_BAD) : tcall_tensor(c, 0) ? type_tensor(tcall_tensor(c, 0)) : T_ANY;
    one = *shape;
    one.name = NULL;
    only.at = &one;
    only.n = 1;
    n = tcall_sizes(&only, 0, NULL, d);
    return n < 0 ? tensor_made(&e, RANK_UNKNOWN, NULL) : tensor_made(&e, n, d);
}

const Type *rule_permutation(TCall *c)
{
    TType places = {.dtype = DT_int32};
    Dim n;

    if (!c->n || type_is_any(c->at[0].type))
        return T_ANY;
    if (c->at[0].type->kind == TY_TENSOR)
        return c->at[0].type;
    n = size_of_type(c->at[0].type);
    return tensor_made(&places, 1, &n);
}

/* ------------------------------------------------------------- as a number */

const Type *rule_item(TCall *c)
{
    const TType *x = tcall_tensor(c, 0);

    if (x && c->n == 1 && !c->open && ttype_elements(x) > 1) {
        char text[128];
        snprintf(text, sizeof text, "item() needs a tensor of one element, %s has %lld", shape_of(x), (long long)ttype_elements(x));
        diag_help(REPORT(c->C, E0306, c->node->span, text), "reduce it first: .sum(), .mean(), .max(), or take one: x[0]; .tolist() gives all");
    }
    if (!x || x->dtype == DT_NONE)
        return T_ANY;
    return x->dtype == DT_bool ? type_of_kind(TY_BOOL) : dtype_is_int((DType)x->dtype) ? type_int(DIM_BAD) :
           x->dtype == DT_c64 || x->dtype == DT_c128 ? T_ANY : type_of_kind(TY_FLOAT);
}
