/*
 * shapes.c - the same elements in another arrangement; joining and padding.
 */
#include "frontend/tensor/bind.h"

#include <string.h>

/* ------------------------------------------------------------- reshape */

/* One -1 among the sizes stands for whatever fits. */
static bool infer_size(Interp *I, const Tensor *x, int rank, Dim *shape)
{
    Dim have = shape_product(x->rank, x->shape), known = 1;
    int hole = -1;
    for (int i = 0; i < rank; i++) {
        if (size_is(shape[i], -1) && hole < 0)
            hole = i;
        else if (size_is_negative(shape[i])) {
            raise(I, EXC_ShapeError, "reshape: only one size can be -1, and none can be %s", dim_text(shape[i]));
            return false;
        } else
            known = dim_mul(known, shape[i]);
    }
    if (hole < 0)
        return true;
    if (dim_ask_ge(known, 1) != DIM_PROVED || !dim_same(dim_mod(have, known), 0)) {
        raise(I, EXC_ShapeError, "reshape: %s elements do not divide into rows of %s", dim_text(have), dim_text(known));
        return false;
    }
    shape[hole] = dim_floordiv(have, known);
    return true;
}

static bool sizes_star(Interp *I, Value star, int *rank, Dim *shape)
{
    TupleObj *t = as_tuple(star);
    bool one = t->n == 1 && (t->at[0].tag == V_TUPLE || t->at[0].tag == V_LIST);
    return arg_size_list(I, one ? t->at[0] : star, shape, RANK_MAX, rank, "a shape");
}

static bool axes_star(Interp *I, Value star, int *n, int64_t *axes)
{
    TupleObj *t = as_tuple(star);
    bool one = t->n == 1 && (t->at[0].tag == V_TUPLE || t->at[0].tag == V_LIST);
    return arg_int_list(I, one ? t->at[0] : star, axes, RANK_MAX, n, "a shape");
}

/* Takes x: its axes from the last to the first. */
static Tensor *turned(Interp *I, Tensor *x)
{
    int perm[RANK_MAX];

    for (int i = 0; x && i < x->rank; i++)
        perm[i] = x->rank - 1 - i;
    return x && x->rank > 1 ? do_permute(I, x, perm) : x;
}

/* NumPy's order of elements: "F", the first axis runs fastest, or "C" ("A" and "K": tensors are values, which lie as in C). */
static bool arg_order(Interp *I, Value v, bool *fortran)
{
    const char *s = v.tag == V_STR ? as_str(v)->s : "";

    *fortran = !strcmp(s, "F");
    if (!*fortran && (strlen(s) != 1 || !strchr("CAK", *s)))
        raise(I, EXC_ValueError, "order is \"C\", the last axis runs fastest, or \"F\", the first does");
    return !exc_pending(I);
}

static Value reshaped(Interp *I, Value xv, Value sizes, bool fortran)
{
    int rank;
    Dim shape[RANK_MAX], back[RANK_MAX];
    Tensor *x = arg_tensor(I, xv, "reshape");
    if (!x || !sizes_star(I, sizes, &rank, shape) || !infer_size(I, x, rank, shape)) {
        tensor_unref(x);
        return VERR;
    }
    if (!fortran)
        return value_of(do_reshape(I, x, rank, shape));
    for (int i = 0; i < rank; i++)
        back[i] = shape[rank - 1 - i];
    return value_of(turned(I, do_reshape(I, turned(I, x), rank, back)));
}

static Value f_reshape(Interp *I, Value *a)             /* x, sizes, order */
{
    bool fortran;

    return arg_order(I, a[2], &fortran) ? reshaped(I, a[0], a[1], fortran) : VERR;
}

static Value f_view(Interp *I, Value *a) { return reshaped(I, a[0], a[1], false); }

/* x, start, end, order, start_dim, end_dim; one element without axes counts as an axis of one. The order may be said first, as in NumPy. */
static Value f_flatten(Interp *I, Value *a)
{
    Tensor *x = arg_tensor(I, a[0], "flatten");
    int lo = 0, hi = -1, n = 0, rank = x && x->rank ? x->rank : 1;
    Dim shape[RANK_MAX + 1], mid = 1;
    Value start = is_given(a[4]) ? a[4] : a[1].tag == V_STR ? vint(0) : a[1], end = is_given(a[5]) ? a[5] : a[2];
    bool fortran;
    if (!x || !arg_axis(I, start, rank, &lo) || !arg_axis(I, end, rank, &hi) || !arg_order(I, a[1].tag == V_STR ? a[1] : a[3], &fortran)) {
        tensor_unref(x);
        return VERR;
    }
    x = fortran ? turned(I, x) : x;
    lo += rank, hi += rank;
    for (int i = 0; i < lo; i++)
        shape[n++] = x->shape[i];
    for (int i = lo; i <= hi && i < x->rank; i++)
        mid = dim_mul(mid, x->shape[i]);
    shape[n++] = mid;
    for (int i = hi + 1; i < x->rank; i++)
        shape[n++] = x->shape[i];
    return value_of(do_reshape(I, x, n, shape));
}

static Value f_squeeze(Interp *I, Value *a)             /* x, axis, dim */
{
    Tensor *x = arg_tensor(I, a[0], "squeeze");
    Value axis = arg_either(a[1], a[2]);
    Attr at = attr_default();
    Dim shape[RANK_MAX];
    int n = 0;
    if (!x || (is_given(axis) && !arg_axes(I, axis, x->rank, &at))) {
        tensor_unref(x);
        return VERR;
    }
    for (int i = 0; i < x->rank; i++) {
        bool named = !is_given(axis);
        for (int k = 0; k < at.naxes; k++)
            named |= at.axis[k] + x->rank == i;
        bool one = named && dim_same(x->shape[i], 1);
        if (named && is_given(axis) && !one) {
            raise(I, EXC_ShapeError, "squeeze: axis %d has size %s, not 1", i, dim_text(x->shape[i]));
            tensor_unref(x);
            return VERR;
        }
        if (!one)
            shape[n++] = x->shape[i];
    }
    return value_of(do_reshape(I, x, n, shape));
}

static Value f_unsqueeze(Interp *I, Value *a)           /* x, axis, dim */
{
    Tensor *x = arg_tensor(I, a[0], "unsqueeze");
    Dim shape[RANK_MAX + 1];
    int k;
    if (!x || !arg_axis(I, arg_either(a[1], a[2]), x->rank + 1, &k)) {
        tensor_unref(x);
        return VERR;
    }
    k += x->rank + 1;
    for (int i = 0, n = 0; i <= x->rank; i++)
        shape[i] = i == k ? 1 : x->shape[n++];
    return value_of(do_reshape(I, x, x->rank + 1, shape));
}

/* x.expand(2, 3, -1): -1 keeps the size. */
static Value f_expand(Interp *I, Value *a)
{
    int rank;
    Dim shape[RANK_MAX];
    Tensor *x = arg_tensor(I, a[0], "expand");
    if (!x || !sizes_star(I, a[1], &rank, shape)) {
        tensor_unref(x);
        return VERR;
    }
    for (int i = 0; i < rank; i++)
        if (size_is(shape[i], -1) && i >= rank - x->rank)
            shape[i] = x->shape[i - (rank - x->rank)];
    return value_of(do_broadcast(I, x, rank, shape));
}

/* ------------------------------------------------------------- order of axes */

static Value f_permute(Interp *I, Value *a)             /* x, *axes */
{
    int64_t axes[RANK_MAX];
    int n, perm[RANK_MAX];
    bool used[RANK_MAX] = {false};
    Tensor *x = arg_tensor(I, a[0], "permute");
    if (!x || !axes_star(I, a[1], &n, axes))
        goto fail;
    if (n != x->rank) {
        raise(I, EXC_ShapeError, "permute names %d axes, the tensor has %d", n, x->rank);
        goto fail;
    }
    for (int i = 0; i < n; i++) {
        int k;
        if (!arg_axis(I, vint(axes[i]), n, &k))
            goto fail;
        perm[i] = k + n;
        if (used[perm[i]]) {
            raise(I, EXC_ShapeError, "permute names axis %d twice", perm[i]);
            goto fail;
        }
        used[perm[i]] = true;
    }
    return value_of(do_permute(I, x, perm));
fail:
    tensor_unref(x);
    return VERR;
}

static Value swap(Interp *I, Value xv, Value p, Value q)
{
    Tensor *x = arg_tensor(I, xv, "transpose");
    int perm[RANK_MAX], i, j;
    if (!x || !arg_axis(I, p, x->rank, &i) || !arg_axis(I, q, x->rank, &j)) {
        tensor_unref(x);
        return VERR;
    }
    for (int k = 0; k < x->rank; k++)
        perm[k] = k;
    i += x->rank, j += x->rank;
    perm[i] = j, perm[j] = i;
    return value_of(do_permute(I, x, perm));
}

/* transpose(a, b) swaps two axes, transpose() reverses all, transpose((2, 0, 1)) permutes. */
static Value f_transpose(Interp *I, Value *a)
{
    TupleObj *t = as_tuple(a[1]);
    if (t->n == 2)
        return swap(I, a[0], t->at[0], t->at[1]);
    if (t->n)
        return f_permute(I, a);
    return value_of(turned(I, arg_tensor(I, a[0], "transpose")));
}

static Value f_swapaxes(Interp *I, Value *a) { return swap(I, a[0], a[1], a[2]); }

static Value f_moveaxis(Interp *I, Value *a)            /* x, source, destination */
{
    Tensor *x = arg_tensor(I, a[0], "moveaxis");
    int perm[RANK_MAX], from, to, n = 0;
    if (!x || !arg_axis(I, a[1], x->rank, &from) || !arg_axis(I, a[2], x->rank, &to)) {
        tensor_unref(x);
        return VERR;
    }
    from += x->rank, to += x->rank;
    for (int i = 0; n < x->rank; i++) {
        if (n == to)
            perm[n++] = from;
        if (i != from && i < x->rank && n < x->rank)
            perm[n++] = i;
    }
    return value_of(do_permute(I, x, perm));
}

static Value f_flip(Interp *I, Value *a)                /* x, axis, dim */
{
    Tensor *x = arg_tensor(I, a[0], "flip");
    Attr at = attr_default();
    if (!x || !arg_axes(I, arg_either(a[1], a[2]), x->rank, &at)) {
        tensor_unref(x);
        return VERR;
    }
    return value_of(chain1(I, OP_flip, &at, x));
}

/* ------------------------------------------------------------- joining */

/* The elements of a list of tensors, of one dtype; false: pending. */
static bool parts_of(Interp *I, Value list, const char *name, Tensor ***out, int *n)
{
    Value items = value_to_list(I, list);
    if (is_err(items))
        return false;
    int64_t k = as_list(items)->n;
    Tensor **t = tsr_calloc(sizeof *t * (size_t)(k + 1));
    DType dt = DT_NONE;
    bool ok = k > 0;
    if (!ok)
        raise(I, EXC_ValueError, "%s needs at least one tensor", name);
    for (int64_t i = 0; ok && i < k; i++)
        ok = (t[i] = arg_tensor(I, as_list(items)->at[i], name)) != NULL;
    value_unref(items);
    for (int64_t i = 0; ok && i < k; i++)               /* the dtype they all combine in */
        if (i == 0)
            dt = (DType)t[0]->dtype;
        else if (t[i]->dtype != dt && !dtype_promote(dt, (DType)t[i]->dtype, &dt)) {
            raise(I, EXC_DTypeError, "%s: cannot combine %s with %s: add an explicit cast", name, dtype_info[t[0]->dtype].name,
                  dtype_info[t[i]->dtype].name);
            ok = false;
        }
    for (int64_t i = 0; ok && i < k; i++)
        ok = (t[i] = do_convert(I, t[i], dt)) != NULL;
    *out = t;
    *n = (int)k;
    return ok;
}

static void parts_free(Tensor **t, int n)
{
    for (int i = 0; i < n; i++)
        tensor_unref(t[i]);
    tsr_free(t);
}

static Tensor *concat_op(Interp *I, Tensor **t, int n, int axis)
{
    Attr a = attr_default();
    a.naxes = 1;
    a.axis[0] = (int8_t)axis;
    return n == 1 ? tensor_ref(t[0]) : run_op(I, OP_concat, &a, t, n);
}

static Value f_concat(Interp *I, Value *a)              /* tensors, axis, dim */
{
    Tensor **t = NULL, *y = NULL;
    int n = 0, axis;
    if (parts_of(I, a[0], "concat", &t, &n) && arg_axis(I, arg_either(a[1], a[2]), t[0]->rank, &axis))
        y = concat_op(I, t, n, axis);
    parts_free(t, t ? n : 0);
    return value_of(y);
}

/* x with a new axis of one at `at`. */
static Tensor *new_axis(Interp *I, Tensor *x, int at)
{
    Dim shape[RANK_MAX + 1];
    for (int i = 0, k = 0; x && i <= x->rank; i++)
        shape[i] = i == at ? 1 : x->shape[k++];
    return x ? do_reshape(I, x, x->rank + 1, shape) : NULL;
}

static Value f_stack(Interp *I, Value *a)               /* tensors, axis, dim */
{
    Tensor **t = NULL, *y = NULL;
    int n = 0, axis;
    bool ok = parts_of(I, a[0], "stack", &t, &n) && arg_axis(I, arg_either(a[1], a[2]), t[0]->rank + 1, &axis);
    int rank = ok ? t[0]->rank : 0;
    for (int i = 0; ok && i < n; i++)
        if (t[i]->rank != rank) {
            raise(I, EXC_ShapeError, "stack: tensors of %d and of %d axes", rank, t[i]->rank);
            ok = false;
        }
    for (int i = 0; ok && i < n; i++)
        ok = (t[i] = new_axis(I, t[i], axis + rank + 1)) != NULL;
    if (ok)
        y = concat_op(I, t, n, axis);
    parts_free(t, t ? n : 0);
    return value_of(y);
}

/* ------------------------------------------------------------- pad, triangles */

/* NumPy's widths: ((before, after), ...), (before, after) for every axis, or one number. */
static bool pad_widths(Interp *I, Value w, int rank, Dim *before, Dim *after)
{
    Dim pair[2];
    int n;
    if (w.tag == V_INT || is_symint(w) || ((w.tag == V_TUPLE || w.tag == V_LIST) && value_len(I, w) == 2 &&
                           symint_dim((w.tag == V_TUPLE ? as_tuple(w)->at : as_list(w)->at)[0], pair))) {
        if (!arg_size_list(I, w, pair, 2, &n, "pad"))
            return false;
        for (int i = 0; i < rank; i++)
            before[i] = pair[0], after[i] = pair[n - 1];
        return true;
    }
    Value list = value_to_list(I, w);
    if (is_err(list))
        return false;
    bool ok = as_list(list)->n == rank || as_list(list)->n == 1;
    if (!ok)
        raise(I, EXC_ShapeError, "pad: %lld pairs of widths for %d axes", (long long)as_list(list)->n, rank);
    for (int i = 0; ok && i < rank; i++) {
        ok = arg_size_list(I, as_list(list)->at[as_list(list)->n == 1 ? 0 : i], pair, 2, &n, "pad");
        if (ok)
            before[i] = pair[0], after[i] = pair[n - 1];
    }
    value_unref(list);
    return ok;
}

/* x, widths, value or NumPy's mode, mode, constant_values, end_values, stat_length, reflect_type: other modes are the library's. */
static Value f_pad(Interp *I, Value *a)
{
    Value mode = a[2].tag == V_STR ? a[2] : a[3];
    if (is_given(a[4]) && arg_is_number(a[4]) && !(is_given(mode) && strcmp(as_str(mode)->s, "constant")))
        a[2] = a[4];
    else if (is_given(mode) || is_given(a[4])) {
        Value constant = is_given(mode) ? VNONE : str_c("constant"), zero = vint(0), r;
        Value how = is_given(mode) ? mode : constant, around = is_given(a[4]) ? a[4] : zero, ends = is_given(a[5]) ? a[5] : zero;
        r = from_library(I, "np_padding", "padded", (Value[]){a[0], a[1], how, around, ends, a[6], a[7]}, 7);
        value_unref(constant);
        return r;
    }
    Tensor *x = arg_tensor(I, a[0], "pad");
    Attr at = attr_default();
    if (!x || !pad_widths(I, a[1], x->rank, at.d[0], at.d[1]) || !value_as_float(I, a[2], &at.f)) {
        tensor_unref(x);
        return VERR;
    }
    at.nd[0] = at.nd[1] = at.nd[2] = x->rank;
    for (int i = 0; i < x->rank; i++)
        at.kind |= dim_ask_ge(at.d[0][i], 0) != DIM_PROVED || dim_ask_ge(at.d[1][i], 0) != DIM_PROVED;
    return value_of(chain1(I, OP_pad, &at, x));
}

/* The mask of a triangle whose sizes are symbolic: column - row against k. */
static Tensor *triangle_mask(Interp *I, const Dim *shape, int64_t k, bool lower)
{
    Tensor *column = matrix_places(I, shape, -1), *row = matrix_places(I, shape, -2);
    Tensor *off = chain2(I, OP_sub, NULL, column, row);
    return chain2(I, lower ? OP_le : OP_ge, NULL, off, tensor_scalar_i(DT_int64, k));
}

static Tensor *known_mask(Interp *I, const Dim *shape, int64_t k, bool lower)
{
    Tensor *mask = tensor_new(DT_bool, 2, shape);
    if (!mask) {
        raise(I, EXC_MemoryError, "not enough memory for a mask");
        return NULL;
    }
    uint8_t *p = tensor_data(mask);
    for (Dim i = 0; i < shape[0]; i++)
        for (Dim j = 0; j < shape[1]; j++)
            p[i * shape[1] + j] = lower ? j - i <= k : j - i >= k;
    return mask;
}

/* Keep what is on the right side of diagonal k. */
static Value triangle(Interp *I, Value *a, bool lower)  /* x, k */
{
    Tensor *x = arg_tensor(I, a[0], lower ? "tril" : "triu");
    int64_t k;
    if (!x || !value_as_int(I, a[1], &k)) {
        tensor_unref(x);
        return VERR;
    }
    if (x->rank < 2) {
        tensor_unref(x);
        return raise(I, EXC_ShapeError, "%s needs a matrix", lower ? "tril" : "triu");
    }
    Dim shape[2] = {x->shape[x->rank - 2], x->shape[x->rank - 1]};
    bool known = dim_is_const(shape[0]) && dim_is_const(shape[1]);
    Tensor *mask = known ? known_mask(I, shape, k, lower) : triangle_mask(I, shape, k, lower);
    if (!mask) {
        tensor_unref(x);
        return VERR;
    }
    Tensor *zero = scalar_as((DType)x->dtype, 0, 0);
    Tensor *y = run_op(I, OP_where, NULL, (Tensor *[]){mask, x, zero}, 3);
    tensor_unref(mask);
    tensor_unref(zero);
    tensor_unref(x);
    return value_of(y);
}

static Value f_tril(Interp *I, Value *a) { return triangle(I, a, true); }
static Value f_triu(Interp *I, Value *a) { return triangle(I, a, false); }

/* ------------------------------------------------------------- windows */

/* Sliding windows of the last n axes: [..., out..., size...]. */
static Value f_windows(Interp *I, Value *a)             /* x, size, stride, dilation */
{
    Tensor *x = arg_tensor(I, a[0], "windows");
    Attr at = attr_default();
    int n, k;
    if (!x || !arg_int_list(I, a[1], at.d[0], RANK_MAX, &n, "a window"))
        goto fail;
    for (int which = 1; which <= 2; which++) {
        Value v = is_given(a[1 + which]) ? a[1 + which] : vint(1);
        if (!arg_int_list(I, v, at.d[which], RANK_MAX, &k, "a window"))
            goto fail;
        if (k != 1 && k != n) {
            raise(I, EXC_ShapeError, "windows: %d sizes but %d steps", n, k);
            goto fail;
        }
        for (int i = k; i < n; i++)
            at.d[which][i] = at.d[which][0];
    }
    for (int i = 0; i < n; i++)
        if (at.d[0][i] < 1 || at.d[1][i] < 1 || at.d[2][i] < 1) {
            raise(I, EXC_ValueError, "windows: sizes, strides and dilations are at least 1");
            goto fail;
        }
    at.n = (int16_t)n;
    at.nd[0] = at.nd[1] = at.nd[2] = (uint8_t)n;
    return value_of(chain1(I, OP_window, &at, x));
fail:
    tensor_unref(x);
    return VERR;
}

#define BOTH(name, fn, args, doc) {"", name, fn, "(x: Tensor" args ") -> Tensor", doc}, {"Tensor", name, fn, "(self" args ") -> Tensor", doc}
#define FLATTENED ", start: int | str = 0, end: int = -1, order: str = 'C', *, start_dim: int | None = None, end_dim: int | None = None"
#define AXIS ", axis: int | tuple | list | None = None, *, dim: int | tuple | list | None = None"

const NativeDef tensor_shape_natives[] = {
    BOTH("reshape", f_reshape, ", *sizes, order: str = 'C'",
         "The same elements in row-major order (order=\"F\": the first axis runs fastest) with another shape; one size may be -1. ShapeError when they do not fit."),
    {"Tensor", "view", f_view, "(self, *sizes) -> Tensor", "reshape under PyTorch's name."},
    BOTH("flatten", f_flatten, FLATTENED, "The axes from start to end joined into one; order \"F\": the first axis runs fastest."),
    {"", "ravel", f_flatten, "(x: Tensor" FLATTENED ") -> Tensor", "All elements on one axis; order \"F\": the first axis runs fastest."},
    BOTH("squeeze", f_squeeze, AXIS, "Without the axes of size 1 (or without those named)."),
    BOTH("unsqueeze", f_unsqueeze, ", axis: int | None = None, *, dim: int | None = None", "With a new axis of size 1 at that place."),
    BOTH("expand_dims", f_unsqueeze, ", axis: int | None = None, *, dim: int | None = None", "unsqueeze under NumPy's name."),
    BOTH("expand", f_expand, ", *sizes", "Axes of 1 stretched and leading axes added; -1 keeps a size."),
    BOTH("broadcast_to", f_expand, ", *sizes", "expand under NumPy's name."),
    BOTH("permute", f_permute, ", *axes", "The axes in another order."),
    BOTH("transpose", f_transpose, ", *axes", "Two axes swapped; without arguments all reversed."),
    BOTH("swapaxes", f_swapaxes, ", a: int, b: int", "Two axes swapped."),
    BOTH("moveaxis", f_moveaxis, ", source: int, destination: int", "One axis moved, the others keeping their order."),
    BOTH("flip", f_flip, AXIS, "Axes reversed (all by default)."),
    {"", "concat", f_concat, "(tensors: list | tuple, axis: int = 0, *, dim: int | None = None) -> Tensor", "Joined along an axis; the other sizes must agree."},
    {"", "concatenate", f_concat, "(tensors: list | tuple, axis: int = 0, *, dim: int | None = None) -> Tensor", "concat under NumPy's name."},
    {"", "cat", f_concat, "(tensors: list | tuple, axis: int = 0, *, dim: int | None = None) -> Tensor", "concat under PyTorch's name."},
    {"", "stack", f_stack, "(tensors: list | tuple, axis: int = 0, *, dim: int | None = None) -> Tensor", "Joined along a new axis; the shapes must be equal."},
    BOTH("pad", f_pad, ", widths: tuple | list | int, value: float | str = 0.0, *, mode: str | None = None, "
         "constant_values: float | tuple | list | None = None, end_values: float | tuple | list = 0, "
         "stat_length: int | tuple | list | None = None, reflect_type: str = 'even'",
     "Surrounded by `value`: widths ((before, after), ...) one pair an axis. Negative ones cut. The rest is NumPy's: a mode such as \"edge\" or \"reflect\", also in value's place."),
    BOTH("tril", f_tril, ", k: int = 0", "Zero above diagonal k of the last two axes."),
    BOTH("triu", f_triu, ", k: int = 0", "Zero below diagonal k of the last two axes."),
    BOTH("sliding_windows", f_windows, ", size: int | tuple | list, stride: int | tuple | list = 1, dilation: int | tuple | list = 1",
         "Sliding windows over the trailing axes: [..., positions..., size...]."),
    {0},
};
