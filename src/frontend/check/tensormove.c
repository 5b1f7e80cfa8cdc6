/* Functions that move, join and cut: sizes change, elements do not. */
#include "frontend/check/binding.h"
#include "frontend/check/tensorcalls.h"

#include <stdio.h>
#include <string.h>

/* A size that is divided by a number that need not divide it: what would have to be declared. */
static void suggest_divisors(Diag *d, const TType *x, const Attr *a)
{
    StrBuf size = {0};
    int64_t k;

    for (int axis = 0; axis < x->rank; axis++)
        for (int i = 0; i < a->nd[0]; i++) {
            if (dim_is_const(x->shape[axis]) || !dim_const_value(a->d[0][i], &k) || k < 2 || dim_divides(k, x->shape[axis]) == DIM_PROVED)
                continue;
            for (int part = 0; part < a->nd[0]; part++)
                if (a->d[0][part] == dim_floordiv(x->shape[axis], k)) {
                    sb_clear(&size);
                    dim_print(x->shape[axis], &size);
                    diag_help(d, "declare that it divides, after the signature: where %s %% %lld == 0", sb_str(&size), (long long)k);
                    i = a->nd[0];                   /* once for the axis */
                    break;
                }
        }
    sb_done(&size);
}

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
    if (!ok && !open) {
        Diag *d = REPORT(c->C, E0306, c->node->span, sb_str(&err));
        diag_note(d, "the shape here is %s", shape_of(x));
        if (op == OP_reshape) {
            suggest_divisors(d, x, a);
            diag_help(d, "give it sizes with as many elements; -1 stands for the one that makes them fit");
        } else {
            diag_help(d, "count the axes from 0, or from -1 at the end, and name each once");
        }
    }
    sb_done(&err);
    if (!ok)
        return tensor_of_dtype(x);
    out[0].dtype = x->dtype;
    return type_tensor(&out[0]);
}

const Type *rule_reshape(TCall *c)
{
    const TType *x = tcall_tensor(c, 0);
    Attr a = attr_default();
    Dim d[16], known = 1, all = 1;
    int n = tcall_sizes(c, 1, "shape", d), minus = -1;
    int64_t v;

    if (!x)
        return T_ANY;
    for (int i = 0; i < n && x->rank == RANK_UNKNOWN; i++)
        if (dim_const_value(d[i], &v) && v == -1)
            d[i] = dim_open();
    if (n < 0 || x->rank == RANK_UNKNOWN)
        return n < 0 ? tensor_of_dtype(x) : tensor_made(x, n, d);
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
            diag_help(REPORT(c->C, E0306, c->node->span, sb_str(&e)), "give sizes whose product divides %lld", (long long)all);
            sb_done(&e);
            return tensor_of_dtype(x);
        }
        d[minus] = dim_const_value(known, &v) && v <= 0 ? dim_open() : dim_floordiv(all, known);
        if (d[minus] == DIM_BAD || dim_is_open(all) || dim_is_open(known) || dim_mul(d[minus], known) != all)
            d[minus] = dim_open();
        return tensor_made(x, n, d);
    }
    a.nd[0] = (uint8_t)n;
    memcpy(a.d[0], d, sizeof *d * (size_t)n);
    {
        long findings = c->C->findings;
        const Type *r = infer_move(c, OP_reshape, &a, x);
        return r->tensor->rank == RANK_UNKNOWN && findings == c->C->findings ? tensor_made(x, n, d) : r;
    }
}

const Type *rule_permute(TCall *c)
{
    const TType *x = tcall_tensor(c, 0);
    Dim d[16];
    TType r;
    bool used[16] = {false};
    int n = tcall_sizes(c, 1, "dims", d);
    StrBuf e = {0};
    bool bad;

    if (!x)
        return T_ANY;
    if (n < 0 || x->rank == RANK_UNKNOWN || (!n && c->n > 1))
        return tensor_of_dtype(x);
    r = *x;
    bad = n != x->rank;
    for (int i = 0; i < n && !bad; i++) {
        int64_t k;
        if (!dim_const_value(d[i], &k))
            return tensor_of_dtype(x);
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
    diag_help(REPORT(c->C, E0306, c->node->span, sb_str(&e)), "name each of the axes 0 to %d once", x->rank - 1);
    sb_done(&e);
    return tensor_of_dtype(x);
}

const Type *rule_swap(TCall *c)
{
    const TType *x = tcall_tensor(c, 0);
    const Type *const *axes;
    TType r;
    int a, b;

    if (!x)
        return T_ANY;
    if (x->rank == RANK_UNKNOWN || c->open)
        return tensor_of_dtype(x);
    if (!strcmp(c->name, "transpose") &&
        (tcall_positional(c) > 3 || (tcall_positional(c) == 2 && c->n == 2 && type_items(c->at[1].type, &axes) >= 0)))
        return rule_permute(c);
    if (tcall_positional(c) == 2)
        return tensor_of_dtype(x);
    r = *x;
    if (tcall_positional(c) == 1 && c->n == 1) {
        for (int i = 0; i < x->rank; i++)
            r.shape[i] = x->shape[x->rank - 1 - i];
        return type_tensor(&r);
    }
    if (tcall_positional(c) > 3)
        return tensor_of_dtype(x);
    a = tcall_axis(c, x, tcall_arg(c, 1, "dim0", "axis1"));
    b = a == -2 ? -2 : tcall_axis(c, x, tcall_arg(c, 2, "dim1", "axis2"));
    if (a < 0 || b < 0)
        return a == -2 || b == -2 ? tensor_unknown() : tensor_of_dtype(x);
    r.shape[a] = x->shape[b];
    r.shape[b] = x->shape[a];
    return type_tensor(&r);
}

const Type *rule_unsqueeze(TCall *c)
{
    const TType *x = tcall_tensor(c, 0);
    TType r;
    int64_t k;
    const CallArg *a = tcall_arg(c, 1, "dim", "axis");

    if (!x)
        return T_ANY;
    if (x->rank == RANK_UNKNOWN || x->rank > 15 || !a || !type_int_value(a->type, &k))
        return tensor_of_dtype(x);
    if (k < -x->rank - 1 || k > x->rank) {
        tensor_axis_report(c->C, x, k, c->name, c->node);
        return tensor_of_dtype(x);
    }
    k = k < 0 ? k + x->rank + 1 : k;
    r = *x;
    r.rank++;
    for (int i = 0, j = 0; i < r.rank; i++)
        r.shape[i] = i == k ? 1 : x->shape[j++];
    return type_tensor(&r);
}

static void not_single(TCall *c, int axis, Dim size)
{
    StrBuf text = {0};

    sb_printf(&text, "squeeze: axis %d has size ", axis);
    dim_print(size, &text);
    sb_puts(&text, ", not 1");
    diag_help(REPORT(c->C, E0306, c->node->span, sb_str(&text)), "only an axis of size 1 can go: take one element with an index, or reduce over it");
    sb_done(&text);
}

const Type *rule_squeeze(TCall *c)
{
    const TType *x = tcall_tensor(c, 0);
    const CallArg *a = tcall_arg(c, 1, "dim", "axis");
    TType r;
    int k;

    if (!x)
        return T_ANY;
    if (x->rank == RANK_UNKNOWN || !a)
        return tensor_of_dtype(x);
    k = tcall_axis(c, x, a);
    if (k < 0)
        return tensor_of_dtype(x);
    if (dim_eq(x->shape[k], 1, NULL, NULL) == DIM_REFUTED) {
        not_single(c, k, x->shape[k]);
        return tensor_of_dtype(x);
    }
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

/* Where one tensor's size is not known another one's is taken, except along the joined axis. true: that axis has one that is not known. */
static bool fill_open(TType *in, int n, int axis)
{
    bool open = false;

    for (int k = 0; k < in[0].rank; k++) {
        Dim known = DIM_BAD;
        for (int i = 0; i < n && k != axis; i++)
            if (k < in[i].rank && known == DIM_BAD && !dim_is_open(in[i].shape[k]))
                known = in[i].shape[k];
        for (int i = 0; i < n; i++)
            if (k < in[i].rank && dim_is_open(in[i].shape[k])) {
                open |= k == axis;
                in[i].shape[k] = k == axis ? in[i].shape[k] : known == DIM_BAD ? in[0].shape[k] : known;
            }
    }
    return open;
}

/* Of any number of tensors like this one. */
static const Type *join_many(TCall *c, const TType *each, const CallArg *a, bool stacking)
{
    TType r = *each;
    int64_t axis = 0;

    r.rank += r.rank != RANK_UNKNOWN && stacking;
    if (tcall_axis(c, &r, a) == -2 || r.rank == RANK_UNKNOWN || r.rank > 15 || !r.rank || (a && !type_int_value(a->type, &axis)))
        return tensor_unknown();
    axis = axis < 0 ? axis + r.rank : axis;
    if (stacking)
        memmove(r.shape + axis + 1, r.shape + axis, sizeof(Dim) * (size_t)(r.rank - 1 - axis));
    r.shape[axis] = dim_open();
    r.weak = 0;
    return type_tensor(&r);
}

static const Type *join_list(TCall *c, bool stacking)
{
    TType in[ITEMS_MAX], out[2];
    const CallArg *list = tcall_arg(c, 0, "tensors", "xs"), *a = tcall_arg(c, 1, "dim", "axis");
    const Type *each;
    Attr at = attr_default();
    int64_t axis = 0;
    int n = list ? tensors_of(list->type, in) : -1, nout, code;
    StrBuf err = {0};
    bool ok, open = false, no_dtype = false;

    if (n < 0 && list && !type_is_any(list->type) && list->type->kind == TY_LIST && (each = element_of(list->type))->kind == TY_TENSOR)
        return join_many(c, each->tensor, a, stacking);
    if (n < 0 || (a && !type_int_value(a->type, &axis)))
        return tensor_unknown();
    for (int i = 0; i < n; i++)
        no_dtype |= in[i].dtype == DT_NONE;
    for (int i = 0; i < n && no_dtype; i++)
        in[i].dtype = DT_f32;
    for (int i = 0; i < n && stacking; i++) {
        int k = (int)(axis < 0 ? axis + in[i].rank + 1 : axis);
        if (k < 0 || k > in[i].rank) {
            tcall_axis(c, &in[i], a);
            return tensor_unknown();
        }
        if (in[i].rank > 14)
            return tensor_unknown();
        memmove(in[i].shape + k + 1, in[i].shape + k, sizeof(Dim) * (size_t)(in[i].rank - k));
        in[i].shape[k] = 1;
        in[i].rank++;
    }
    at.naxes = 1;
    at.axis[0] = (int8_t)(axis < 0 ? axis : axis - in[0].rank);
    if (tcall_axis(c, &in[0], a) == -2)
        return tensor_unknown();
    memset(out, 0, sizeof out);
    open = fill_open(in, n, (int)(axis < 0 ? axis + in[0].rank : axis));
    ok = op_infer(OP_concat, &at, in, n, out, &nout, &err, &code);
    if (!ok)
        diag_help(REPORT(c->C, code == 4 ? E0401 : E0306, c->node->span, sb_str(&err)), "%s",
                  code == 4 ? "cast explicitly with .to(dtype)" : "sizes may differ only along the joined axis");
    sb_done(&err);
    if (!ok)
        return tensor_unknown();
    if (no_dtype)
        out[0].dtype = DT_NONE;
    if (open)
        out[0].shape[axis < 0 ? axis + out[0].rank : axis] = dim_open();
    return type_tensor(&out[0]);
}

const Type *rule_concat(TCall *c) { return join_list(c, false); }
const Type *rule_stack(TCall *c) { return join_list(c, true); }

const Type *rule_expand(TCall *c)
{
    const TType *x = tcall_tensor(c, 0);
    Attr a = attr_default();
    Dim d[16];
    int n = tcall_sizes(c, 1, "shape", d);
    int64_t v;

    if (!x)
        return T_ANY;
    if (n < 0 || x->rank == RANK_UNKNOWN)
        return tensor_of_dtype(x);
    for (int i = 0; i < n; i++) {
        int k = i - (n - x->rank);
        if (dim_const_value(d[i], &v) && v == -1 && k >= 0)
            d[i] = x->shape[k];
    }
    a.nd[0] = (uint8_t)n;
    memcpy(a.d[0], d, sizeof *d * (size_t)n);
    return infer_move(c, OP_broadcast, &a, x);
}

const Type *rule_flatten(TCall *c)
{
    const TType *x = tcall_tensor(c, 0);
    const CallArg *from = tcall_arg(c, 1, "start", "start_dim"), *end = tcall_arg(c, 2, "end", "end_dim");
    TType r;
    int a, b;

    if (!x || x->rank == RANK_UNKNOWN || c->open)
        return x ? tensor_of_dtype(x) : T_ANY;
    if (!x->rank)
        return tensor_made(x, 1, &(Dim){1});
    from = from && from->type->kind == TY_STR ? NULL : from;          /* NumPy's order of elements */
    a = from ? tcall_axis(c, x, from) : 0;
    b = a < 0 ? a : end ? tcall_axis(c, x, end) : x->rank - 1;
    if (a < 0 || b < a)
        return tensor_of_dtype(x);
    r = *x;
    r.weak = 0;
    r.shape[a] = 1;
    for (int i = a; i <= b; i++)
        r.shape[a] = dim_mul(r.shape[a], x->shape[i]);
    for (int i = b + 1; i < x->rank; i++)
        r.shape[i - (b - a)] = x->shape[i];
    r.rank = (uint8_t)(x->rank - (b - a));
    return type_tensor(&r);
}

/* What one argument makes of x: another dtype, or another place. */
static void converted_by(TCall *c, const CallArg *a, TType *x)
{
    DType dt;

    if (!a || a->type->kind == TY_NONE)
        return;
    if (a->type->kind != TY_STR || (a->type->text && dtype_find(a->type->text->text, &dt)))
        element_of_type(c->C, a->type, x);          /* else a place */
    else if (device_misnamed(a->type))
        report_device(c->C, a->type, true, a->node, c->node);
}

const Type *rule_convert(TCall *c)
{
    const TType *x = tcall_tensor(c, 0);
    bool to = !strcmp(c->name, "to");
    TType r;

    if (!x)
        return T_ANY;
    r = *x;
    r.weak = 0;
    converted_by(c, tcall_arg(c, 1, to ? "target" : "dtype", NULL), &r);
    if (to) {
        converted_by(c, tcall_arg(c, 2, "dtype", NULL), &r);
        converted_by(c, tcall_arg(c, ITEMS_MAX, "device", NULL), &r);
    }
    return type_tensor(&r);
}

