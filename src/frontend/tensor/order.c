/*
 * order.c - sorting, searching and the primitive scatter operations.
 */
#include "frontend/tensor/index.h"

#include <string.h>

static Tensor *swap_last(Interp *I, Tensor *x, int axis)
{
    int perm[RANK_MAX];
    for (int i = 0; x && i < x->rank; i++)
        perm[i] = i;
    if (x && x->rank) {
        perm[x->rank + axis] = x->rank - 1;
        perm[x->rank - 1] = x->rank + axis;
    }
    return do_permute(I, x, perm);
}

static Value sorted(Interp *I, Value *a, OpId op, const char *name)            /* x, axis, dim, descending, stable */
{
    Tensor *x = arg_tensor(I, a[0], name);
    Attr at = attr_default();
    Value ax = arg_either(a[1], a[2]);
    bool down, stable;                                  /* every sort is stable: who asks for less gets it, too */
    int axis = -1;
    if (!x || !arg_bool(I, a[3], &down) || !arg_bool(I, a[4], &stable) || (is_given(ax) && !arg_axis(I, ax, x->rank, &axis))) {
        tensor_unref(x);
        return VERR;
    }
    at.i = down;
    return value_of(swap_last(I, chain1(I, op, &at, swap_last(I, x, axis)), axis));
}

static Value f_sort(Interp *I, Value *a) { return sorted(I, a, OP_sort, "sort"); }
static Value f_argsort(Interp *I, Value *a) { return sorted(I, a, OP_argsort, "argsort"); }

/* The places of the first k along the last axis; k: as many as an attribute holds. */
static Value f_first_places(Interp *I, Value *a)        /* x, k, descending */
{
    Tensor *x = arg_tensor(I, a[0], "topk");
    Attr at = attr_default();
    int64_t k;
    bool down;

    if (!x || !value_as_int(I, a[1], &k) || !arg_bool(I, a[2], &down)) {
        tensor_unref(x);
        return VERR;
    }
    at.i = down;
    at.n = (int16_t)k;
    return value_of(chain1(I, OP_argsort, &at, x));
}

static Value f_searchsorted(Interp *I, Value *a)        /* edges, values, right */
{
    Tensor *x = arg_tensor(I, a[0], "searchsorted"), *v = x ? arg_beside(I, a[1], x, "searchsorted") : NULL;
    Attr at = attr_default();
    bool right;
    if (!v || !arg_bool(I, a[2], &right)) {
        tensor_unref(x);
        tensor_unref(v);
        return VERR;
    }
    at.i = right;
    int rank = v->rank;
    bool one = x->rank == 1;                            /* a list of edges that serves values of any shape */
    Dim shape[RANK_MAX], n = shape_product(rank, v->shape);
    memcpy(shape, v->shape, sizeof(Dim) * (size_t)rank);
    if (one)
        v = do_reshape(I, v, 1, &n);
    Tensor *y = chain2(I, OP_searchsorted, &at, x, v);
    return value_of(one ? do_reshape(I, y, rank, shape) : y);
}

/* Takes x: the places of its true elements, a row each. */
static Tensor *true_places(Interp *I, Tensor *x)
{
    if (x && x->dtype != DT_bool)
        x = do_convert(I, x, DT_bool);
    return chain1(I, OP_nonzero, NULL, x);
}

Value tensor_true_places(Interp *I, Tensor *x)
{
    int rank = x ? x->rank : 0;
    Tensor *at = true_places(I, x);
    Value t = at ? tuple_new(rank) : VERR;

    for (int i = 0; at && i < rank && !is_err(t); i++) {
        Index column = {.n = 2, .item = {{.kind = IX_SLICE, .step = 1, .count = at->shape[0]}, {.kind = IX_INT, .start = i}}};
        Tensor *y = index_basic(I, at, &column, false);
        as_tuple(t)->at[i] = y ? tensor_value(y) : VNONE;
        if (!y) {
            value_unref(t);
            t = VERR;
        }
    }
    tensor_unref(at);
    return t;
}

static Value f_nonzero(Interp *I, Value *a)             /* x, as_tuple */
{
    Tensor *x = arg_tensor(I, a[0], "nonzero");
    bool columns;
    if (!arg_bool(I, a[1], &columns)) {
        tensor_unref(x);
        return VERR;
    }
    return columns ? tensor_true_places(I, x) : value_of(true_places(I, x));
}

/* ------------------------------------------------------------- scatter */

static Value update(Interp *I, Value *a, OpId op, const char *name)            /* x, values, *indices */
{
    TupleObj *idx = as_tuple(a[2]);
    Tensor *in[RANK_MAX + 2] = {0}, *y = NULL;
    Attr at = attr_default();
    if (idx->n < 1 || idx->n > RANK_MAX)
        return raise(I, EXC_TypeError, "%s needs one index tensor for each leading axis", name);
    int n = (int)idx->n;
    bool ok = (in[0] = arg_tensor(I, a[0], name)) != NULL && (in[1] = do_convert(I, arg_beside(I, a[1], in[0], name), (DType)in[0]->dtype)) != NULL;
    for (int i = 0; ok && i < n; i++)
        ok = (in[2 + i] = arg_tensor(I, idx->at[i], name)) != NULL;
    if (ok && n <= in[0]->rank) {                       /* values broadcast to index shape + rest */
        int rb = 0, r = 0;
        Dim shape[2 * RANK_MAX];
        for (int i = 0; i < n; i++)
            rb = in[2 + i]->rank > rb ? in[2 + i]->rank : rb;
        for (int k = 0; k < rb; k++) {
            shape[r] = 1;
            for (int i = 0; i < n; i++) {
                int at_axis = k - (rb - in[2 + i]->rank);
                if (at_axis >= 0 && !dim_join(shape[r], in[2 + i]->shape[at_axis], &shape[r]))
                    shape[r] = in[2 + i]->shape[at_axis];       /* the op says what is wrong */
            }
            r++;
        }
        for (int k = n; k < in[0]->rank; k++)
            shape[r++] = in[0]->shape[k];
        ok = (in[1] = do_broadcast(I, in[1], r, shape)) != NULL;
    }
    at.n = (int16_t)n;
    if (ok)
        y = run_op(I, op, &at, in, n + 2);
    for (int i = 0; i < n + 2; i++)
        tensor_unref(in[i]);
    return value_of(y);
}

static Value f_index_put(Interp *I, Value *a) { return update(I, a, OP_index_put, "index_put"); }
static Value f_index_add(Interp *I, Value *a) { return update(I, a, OP_index_add, "index_add"); }

/* x, starts, sizes: clamped windows with starts that may be traced. */
static Value f_dynamic_slice(Interp *I, Value *a)
{
    Tensor *in[RANK_MAX + 1] = {arg_tensor(I, a[0], "dynamic_slice")}, *y = NULL;
    Attr at = attr_default();
    int n = 0;
    Value starts = value_to_list(I, a[1]);
    bool ok = in[0] && !is_err(starts) && arg_size_list(I, a[2], at.d[0], RANK_MAX, &n, "dynamic_slice");
    if (ok && (as_list(starts)->n != n || n > in[0]->rank)) {
        raise(I, EXC_ShapeError, "dynamic_slice: %lld starts and %d sizes for a tensor of %d axes", (long long)as_list(starts)->n, n, in[0]->rank);
        ok = false;
    }
    for (int i = 0; ok && i < n; i++)
        ok = (in[1 + i] = arg_tensor(I, as_list(starts)->at[i], "dynamic_slice")) != NULL;
    at.n = (int16_t)n;
    at.nd[0] = (uint8_t)n;
    if (ok)
        y = run_op(I, OP_dynamic_slice, &at, in, n + 1);
    for (int i = 0; i <= n; i++)
        tensor_unref(in[i]);
    value_unref(starts);
    return value_of(y);
}

static Value f_dynamic_update(Interp *I, Value *a)      /* x, value, starts */
{
    Tensor *in[RANK_MAX + 2] = {arg_tensor(I, a[0], "dynamic_update")}, *y = NULL;
    Attr at = attr_default();
    Value starts = value_to_list(I, a[2]);
    bool ok = in[0] && !is_err(starts) && (in[1] = do_convert(I, arg_beside(I, a[1], in[0], "dynamic_update"), (DType)in[0]->dtype)) != NULL;
    int n = ok ? (int)as_list(starts)->n : 0;
    if (ok && n > in[0]->rank) {
        raise(I, EXC_ShapeError, "dynamic_update: %d starts for a tensor of %d axes", n, in[0]->rank);
        ok = false;
    }
    for (int i = 0; ok && i < n; i++)
        ok = (in[2 + i] = arg_tensor(I, as_list(starts)->at[i], "dynamic_update")) != NULL;
    at.n = (int16_t)n;
    if (ok)
        y = run_op(I, OP_dynamic_update, &at, in, n + 2);
    for (int i = 0; i < RANK_MAX + 2; i++)
        tensor_unref(in[i]);
    value_unref(starts);
    return value_of(y);
}

#define SORT "axis: int | None = -1, *, dim: int | None = None, descending: bool = False, stable: bool = True"
const NativeDef tensor_order_natives[] = {
    {"", "sort", f_sort, "(x: Tensor, " SORT ") -> Tensor", "Sorted along an axis (the last by default), NaN last; stable."},
    {"Tensor", "sort", f_sort, "(self, " SORT ") -> Tensor", "Sorted along an axis."},
    {"", "argsort", f_argsort, "(x: Tensor, " SORT ") -> Tensor", "The int32 indices that sort along an axis; stable."},
    {"Tensor", "argsort", f_argsort, "(self, " SORT ") -> Tensor", "The indices that sort along an axis."},
    {"_core", "first_places", f_first_places, "(x: Tensor, k: int, descending: bool) -> Tensor", "The indices of the first k < 2^15 along the last axis."},
    {"", "searchsorted", f_searchsorted, "(edges: Tensor, values: Tensor | float, right: bool = False) -> Tensor",
     "Where each value would go among ascending edges; int32."},
    {"", "nonzero", f_nonzero, "(x: Tensor, as_tuple: bool = False) -> Tensor | tuple",
     "The indices of the nonzero elements [count, ndim], in row-major order; int32. as_tuple: their columns."},
    {"", "index_put", f_index_put, "(x: Tensor, values: Tensor | float, *indices) -> Tensor",
     "x with x[indices] = values; of equal indices the last wins."},
    {"", "index_add", f_index_add, "(x: Tensor, values: Tensor | float, *indices) -> Tensor",
     "x with values added at x[indices]; equal indices add up, in row-major order."},
    {"", "dynamic_slice", f_dynamic_slice, "(x: Tensor, starts: list | tuple, sizes: list | tuple) -> Tensor",
     "The window of the given sizes of the trailing axes at starts, which may be traced and clamp to fit."},
    {"", "dynamic_update", f_dynamic_update, "(x: Tensor, value: Tensor, starts: list | tuple) -> Tensor",
     "x with value written at starts, which clamp to fit."},
    {0},
};
