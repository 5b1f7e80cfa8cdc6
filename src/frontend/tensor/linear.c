/*
 * linear.c - matrix products, convolutions, factorisations, Fourier transforms.
 *
 * The op multiplies stacks of matrices of equal rank rules; NumPy's treatment of vectors is
 * added here.  What can be written with these (solve, inv, det, einsum) is in stdlib/.
 */
#include "frontend/tensor/linear.h"

#include "runtime/storage.h"
#include "runtime/linalg.h"

#include <string.h>

/* ------------------------------------------------------------- products */

static bool scalar_operand(Interp *I, const Tensor *a, const Tensor *b)
{
    if (a->rank && b->rank)
        return false;
    raise(I, EXC_ShapeError, "@ multiplies vectors and matrices; an operand has no axes (use *)");
    return true;
}

/* result dtype: DT_NONE as the operands'. */
static Tensor *matmul_as(Interp *I, Tensor *a, Tensor *b, DType result)
{
    if (scalar_operand(I, a, b))
        return NULL;
    bool va = a->rank == 1, vb = b->rank == 1;
    Tensor *x = tensor_ref(a), *y = tensor_ref(b);
    if (va)
        x = do_reshape(I, x, 2, (Dim[]){1, x->shape[0]});
    if (x && vb)
        y = do_reshape(I, y, 2, (Dim[]){y->shape[0], 1});
    Attr at = attr_default();
    at.dtype = (uint8_t)result;
    Tensor *z = chain2(I, OP_matmul, &at, x, y);
    if (z && (va || vb)) {
        Dim shape[RANK_MAX];
        int n = 0;
        for (int i = 0; i < z->rank; i++)
            if (!(va && i == z->rank - 2) && !(vb && i == z->rank - 1))
                shape[n++] = z->shape[i];
        z = do_reshape(I, z, n, shape);
    }
    return z;
}

Tensor *matmul_op(Interp *I, Tensor *a, Tensor *b) { return matmul_as(I, a, b, DT_NONE); }

/* What products of narrow operands are accumulated in, which is what gemm gives of them; DT_NONE where a scope says how to store. */
static DType accumulated(Interp *I, const Tensor *x, const Tensor *y)
{
    const Policy *scope = trace_of(I)->numerics, *own = x->policy ? x->policy : y->policy;
    if (!dtype_is_float((DType)x->dtype))
        return DT_int32;
    if (scope && scope->storage != DT_NONE)
        return DT_NONE;
    if (own && own->accum != DT_NONE)
        return (DType)own->accum;
    return scope && scope->accum != DT_NONE && dtype_is_float((DType)scope->accum) ? (DType)scope->accum : DT_f32;
}

static Value product(Interp *I, Value *a, bool wide)    /* x, y, dtype */
{
    DType dt = DT_NONE;
    Tensor *x = arg_tensor(I, a[0], "matmul"), *y = x ? arg_tensor(I, a[1], "matmul") : NULL, *z = NULL;
    if (y && arg_dtype(I, a[2], &dt)) {
        if (dt == DT_NONE && wide && dtype_info[x->dtype].bits < 16)    /* narrow inputs give what was accumulated */
            dt = accumulated(I, x, y);
        z = matmul_as(I, x, y, dt);
    }
    tensor_unref(x);
    tensor_unref(y);
    return value_of(z);
}

static Value f_matmul(Interp *I, Value *a) { return product(I, a, false); }
static Value f_gemm(Interp *I, Value *a) { return product(I, a, true); }

/* ------------------------------------------------------------- convolutions */

enum { SPATIAL_MAX = 3 };

static bool per_axis(Interp *I, Value v, int n, Dim *out, Dim dflt, const char *what)
{
    int k = 1;
    out[0] = dflt;
    if (is_given(v) && !arg_int_list(I, v, out, n, &k, what))
        return false;
    if (k != 1 && k != n) {
        raise(I, EXC_ShapeError, "conv%dd: %d values of %s for %d axes", n, k, what, n);
        return false;
    }
    for (int i = k; i < n; i++)
        out[i] = out[0];
    for (int i = 0; i < n; i++)
        if (out[i] < dflt) {
            raise(I, EXC_ValueError, "conv%dd: %s cannot be %lld", n, what, (long long)out[i]);
            return false;
        }
    return true;
}

/* padding="same": the output has ceil(size / stride) positions. */
static void same_padding(const Tensor *x, const Tensor *w, int n, Attr *a)
{
    for (int i = 0; i < n; i++) {
        Dim size = x->shape[2 + i], stride = a->d[0][i], reach = dim_add(dim_mul(dim_sub(w->shape[2 + i], 1), a->d[3][n + i]), 1);
        Dim total = dim_sub(dim_add(dim_mul(dim_sub(dim_cdiv(size, stride), 1), stride), reach), size);
        if (dim_ask_ge(total, 0) == DIM_REFUTED)
            total = 0;
        a->d[1][i] = dim_floordiv(total, 2);
        a->d[2][i] = dim_sub(total, a->d[1][i]);
    }
}

static Tensor *add_bias(Interp *I, Tensor *y, Value bias, int n)
{
    Tensor *b = y && is_given(bias) ? arg_tensor(I, bias, "conv") : NULL;
    if (!is_given(bias) || !y)
        return y;
    Dim shape[RANK_MAX] = {b ? shape_product(b->rank, b->shape) : 0};
    for (int i = 1; i <= n; i++)
        shape[i] = 1;
    b = b ? do_reshape(I, b, n + 1, shape) : NULL;
    Tensor *z = b ? binary_op(I, OP_add, y, b) : NULL;
    tensor_unref(b);
    tensor_unref(y);
    return z;
}

/* How far the windows of a weight reach is part of what is compiled: sizes of outputs are then those of inputs less a number. */
static void settle_windows(const Tensor *w, int n)
{
    int64_t reach;

    for (int i = 0; i < n; i++)
        dim_settle(w->shape[2 + i], &reach);
}

static Value conv(Interp *I, Value *a, int n)           /* x, w, bias, stride, padding, dilation, groups */
{
    Tensor *x = arg_tensor(I, a[0], "conv"), *w = x ? arg_tensor(I, a[1], "conv") : NULL;
    Attr at = attr_default();
    int64_t groups = 1;
    bool same = a[4].tag == V_STR && !strcmp(as_str(a[4])->s, "same"), valid = a[4].tag == V_STR && !strcmp(as_str(a[4])->s, "valid");
    if (!w || !per_axis(I, a[3], n, at.d[0], 1, "stride") || !per_axis(I, same || valid ? VNONE : a[4], n, at.d[1], 0, "padding") ||
        !per_axis(I, a[5], n, at.d[3] + n, 1, "dilation") || (is_given(a[6]) && !value_as_int(I, a[6], &groups)))
        goto fail;
    if (x->rank != n + 2 || w->rank != n + 2) {
        raise(I, EXC_ShapeError, "conv%dd takes an input [N, C, sizes...] and a weight [O, C, sizes...] of %d axes each, not %d and %d", n, n + 2,
              x->rank, w->rank);
        goto fail;
    }
    settle_windows(w, n);
    at.n = (int16_t)n;
    at.m = (int16_t)groups;
    for (int i = 0; i < n; i++)
        at.d[2][i] = at.d[1][i], at.d[3][i] = 1;
    at.nd[0] = at.nd[1] = at.nd[2] = (uint8_t)n;
    at.nd[3] = (uint8_t)(2 * n);
    if (same)
        same_padding(x, w, n, &at);
    return value_of(add_bias(I, chain2(I, OP_conv, &at, x, w), a[2], n));
fail:
    tensor_unref(x);
    tensor_unref(w);
    return VERR;
}

static Value f_conv1d(Interp *I, Value *a) { return conv(I, a, 1); }
static Value f_conv2d(Interp *I, Value *a) { return conv(I, a, 2); }
static Value f_conv3d(Interp *I, Value *a) { return conv(I, a, 3); }

/*
 * The weight [I, O/g, k...] of a transposed convolution as that of the plain one which computes it:
 * [O, I/g, k...], its windows turned around. Takes w over.
 */
static Tensor *turned(Interp *I, Tensor *w, int n, int64_t groups)
{
    Attr flip = attr_default();
    int swap[RANK_MAX] = {0, 2, 1};
    Dim in = w->shape[0], out = w->shape[1], shape[RANK_MAX] = {groups, dim_floordiv(in, groups), out};

    flip.naxes = (uint8_t)n;
    for (int i = 0; i < n; i++)
        flip.axis[i] = (int8_t)(i - n);
    for (int i = 0; i < n; i++) {
        shape[3 + i] = w->shape[2 + i];
        swap[3 + i] = 3 + i;
    }
    w = chain1(I, OP_flip, &flip, w);
    w = w ? do_reshape(I, w, n + 3, shape) : NULL;
    w = w ? do_permute(I, w, swap) : NULL;
    shape[0] = dim_mul(out, groups);
    shape[1] = dim_floordiv(in, groups);
    for (int i = 0; i < n; i++)
        shape[2 + i] = shape[3 + i];
    return w ? do_reshape(I, w, n + 2, shape) : NULL;
}

static Value conv_transpose(Interp *I, Value *a, int n)     /* x, w, bias, stride, padding, output_padding, groups, dilation */
{
    Tensor *x = arg_tensor(I, a[0], "conv_transpose"), *w = x ? arg_tensor(I, a[1], "conv_transpose") : NULL;
    Attr at = attr_default();
    Dim pad[SPATIAL_MAX], more[SPATIAL_MAX];
    int64_t groups = 1;

    if (!w || !per_axis(I, a[3], n, at.d[3], 1, "stride") || !per_axis(I, a[4], n, pad, 0, "padding") ||
        !per_axis(I, a[5], n, more, 0, "output_padding") || !per_axis(I, a[7], n, at.d[3] + n, 1, "dilation") ||
        (is_given(a[6]) && !value_as_int(I, a[6], &groups)))
        goto fail;
    if (x->rank != n + 2 || w->rank != n + 2) {
        raise(I, EXC_ShapeError, "conv_transpose%dd takes an input [N, C, sizes...] and a weight [C, O, sizes...] of %d axes each, not %d and %d",
              n, n + 2, x->rank, w->rank);
        goto fail;
    }
    if (groups < 1 || dim_ask_eq(dim_mul(groups, dim_floordiv(w->shape[0], groups)), w->shape[0]) != DIM_PROVED ||
        dim_ask_eq(x->shape[1], w->shape[0]) == DIM_REFUTED) {
        raise(I, EXC_ShapeError, "conv_transpose%dd: the input has %s channels, the weight takes %s in %lld groups", n, dim_text(x->shape[1]),
              dim_text(w->shape[0]), (long long)groups);
        goto fail;
    }
    settle_windows(w, n);
    at.n = (int16_t)n;
    at.m = (int16_t)groups;
    at.nd[0] = at.nd[1] = at.nd[2] = (uint8_t)n;
    at.nd[3] = (uint8_t)(2 * n);
    for (int i = 0; i < n; i++) {
        Dim reach = dim_mul(dim_sub(w->shape[2 + i], 1), at.d[3][n + i]);
        at.d[0][i] = 1;
        at.d[1][i] = dim_sub(reach, pad[i]);
        at.d[2][i] = dim_add(at.d[1][i], more[i]);
    }
    w = turned(I, w, n, groups);
    if (!w)
        goto fail;
    return value_of(add_bias(I, chain2(I, OP_conv, &at, x, w), a[2], n));
fail:
    tensor_unref(x);
    tensor_unref(w);
    return VERR;
}

static Value f_conv_transpose1d(Interp *I, Value *a) { return conv_transpose(I, a, 1); }
static Value f_conv_transpose2d(Interp *I, Value *a) { return conv_transpose(I, a, 2); }

/* ------------------------------------------------------------- factorisations */

/*
 * x/2 + x'/2, x' the adjoint: x itself where that is what it should be, and otherwise what its derivative is of: each half of the
 * matrix has its part in it. Another shape is the op's to refuse.
 */
static Tensor *symmetric(Interp *I, Tensor *x)
{
    int perm[RANK_MAX], n = x ? x->rank : 0;
    Tensor *t;

    if (n < 2 || !dim_same(x->shape[n - 1], x->shape[n - 2]))
        return x;
    for (int i = 0; i < n; i++)
        perm[i] = i < n - 2 ? i : 2 * n - 3 - i;
    x = chain2(I, OP_mul, NULL, x, scalar_as((DType)x->dtype, 0.5, 0));
    t = x ? do_permute(I, tensor_ref(x), perm) : NULL;
    t = t && dtype_is_complex((DType)t->dtype) ? chain1(I, OP_conj, NULL, t) : t;
    return chain2(I, OP_add, NULL, x, t);
}

/* An op of several results as a tuple. */
static Value several(Interp *I, Value v, OpId op, const char *name, int want)
{
    Tensor *x = arg_tensor(I, v, name), *out[4] = {0};
    int n = 0;
    Trace *T = trace_of(I);
    if (x && !dtype_is_inexact((DType)x->dtype))
        x = do_convert(I, x, DT_f32);
    if (op == OP_cholesky || op == OP_eigh)
        x = symmetric(I, x);
    if (!x)
        return VERR;
    T->span = interp_span(I);
    bool ok = op_apply(T, op, NULL, &x, 1, out, &n);
    tensor_unref(x);
    if (!ok)
        return raise_op_error(I);
    if (want == 1 && n == 1)
        return tensor_value(out[0]);
    Value t = tuple_new(n);
    for (int i = 0; i < n; i++)
        as_tuple(t)->at[i] = tensor_value(out[i]);
    return t;
}

static Value f_cholesky(Interp *I, Value *a) { return several(I, a[0], OP_cholesky, "cholesky", 1); }
static Value f_lu(Interp *I, Value *a) { return several(I, a[0], OP_lu, "lu_factor", 2); }
static Value f_qr(Interp *I, Value *a) { return several(I, a[0], OP_qr, "qr", 2); }
static Value f_eigh(Interp *I, Value *a) { return several(I, a[0], OP_eigh, "eigh", 2); }
static Value f_svd(Interp *I, Value *a) { return several(I, a[0], OP_svd, "svd", 3); }

/* a, b, lower, transpose, unit */
static Value f_triangular_solve(Interp *I, Value *a)
{
    Tensor *x = arg_tensor(I, a[0], "solve_triangular"), *b = x ? arg_tensor(I, a[1], "solve_triangular") : NULL;
    bool lower, transpose, unit;
    if (!b || !arg_bool(I, a[2], &lower) || !arg_bool(I, a[3], &transpose) || !arg_bool(I, a[4], &unit)) {
        tensor_unref(x);
        tensor_unref(b);
        return VERR;
    }
    Attr at = attr_default();
    at.kind = (uint8_t)((lower ? 0 : 1) | (transpose ? 2 : 0) | (unit ? 4 : 0));
    bool vec = b->rank == 1;
    if (vec)
        b = do_reshape(I, b, 2, (Dim[]){b->shape[0], 1});
    Tensor *y = chain2(I, OP_triangular_solve, &at, x, b);
    return value_of(vec && y ? do_reshape(I, y, 1, y->shape) : y);
}

/* ------------------------------------------------------------- Fourier transforms */

/* With the transformed axis last, and back; n: pad or cut to that many points. */
static Tensor *axis_last(Interp *I, Tensor *x, int axis)
{
    int perm[RANK_MAX];
    for (int i = 0; x && i < x->rank; i++)
        perm[i] = i;
    if (x) {
        perm[x->rank + axis] = x->rank - 1;
        perm[x->rank - 1] = x->rank + axis;
    }
    return do_permute(I, x, perm);
}

static Tensor *resize_last(Interp *I, Tensor *x, int64_t n)
{
    Dim have = x->shape[x->rank - 1];
    Attr a = attr_default();
    a.nd[0] = a.nd[1] = a.nd[2] = 1;
    if (dim_same(n, have))
        return x;
    if (dim_ask_ge(n, have) == DIM_PROVED) {
        a.d[1][0] = dim_sub(n, have);
        return chain1(I, OP_pad, &a, x);
    }
    a.d[1][0] = n;
    a.d[2][0] = 1;
    return chain1(I, OP_slice, &a, x);
}

static Tensor *fft_axis(Interp *I, Tensor *x, int kind, int64_t n, int axis)
{
    enum { FFT, IFFT, RFFT, IRFFT };
    x = axis_last(I, x, axis);
    Attr a = attr_default();
    a.kind = (uint8_t)kind;
    if (x && kind == IRFFT) {
        int64_t have = 0;                               /* the result's length is a number: a graph is for one */
        dim_settle(x->shape[x->rank - 1], &have);
        a.i = n > 0 ? n : 2 * (have - 1);
    }
    if (x && kind == IRFFT && n > 0)
        x = resize_last(I, x, n / 2 + 1);
    else if (x && n > 0)
        x = resize_last(I, x, n);
    if (x && kind != RFFT && !dtype_is_complex((DType)x->dtype))
        x = do_convert(I, x, dtype_complex((DType)x->dtype));
    if (x && kind == RFFT && !dtype_is_inexact((DType)x->dtype))
        x = do_convert(I, x, DT_f32);
    return axis_last(I, chain1(I, OP_fft, &a, x), axis);
}

static Value fourier(Interp *I, Value *a, int kind, const char *name)          /* x, n, axis, dim */
{
    Tensor *x = arg_tensor(I, a[0], name);
    int64_t n = 0;
    int axis;
    Value ax = is_given(a[3]) ? a[3] : a[2];
    if (!x || (is_given(a[1]) && !value_as_int(I, a[1], &n)) || !arg_axis(I, ax, x->rank, &axis)) {
        tensor_unref(x);
        return VERR;
    }
    if (!x->rank || (is_given(a[1]) && n < 1)) {
        bool points = x->rank > 0;
        tensor_unref(x);
        if (points)
            return raise(I, EXC_ValueError, "%s of %lld points: at least one is needed; fft(x, n, axis) takes the axis third", name, (long long)n);
        return raise(I, EXC_ShapeError, "%s needs at least one axis", name);
    }
    return value_of(fft_axis(I, x, kind, n, axis));
}

static Value f_fft(Interp *I, Value *a) { return fourier(I, a, 0, "fft"); }
static Value f_ifft(Interp *I, Value *a) { return fourier(I, a, 1, "ifft"); }
static Value f_rfft(Interp *I, Value *a) { return fourier(I, a, 2, "rfft"); }
static Value f_irfft(Interp *I, Value *a) { return fourier(I, a, 3, "irfft"); }

static Value fourier2(Interp *I, Value v, int kind, const char *name)
{
    Tensor *x = arg_tensor(I, v, name);
    if (x && x->rank < 2) {
        tensor_unref(x);
        return raise(I, EXC_ShapeError, "%s needs at least two axes", name);
    }
    x = x ? fft_axis(I, x, kind, 0, -1) : NULL;
    return value_of(x ? fft_axis(I, x, kind, 0, -2) : NULL);
}

static Value f_fft2(Interp *I, Value *a) { return fourier2(I, a[0], 0, "fft2"); }
static Value f_ifft2(Interp *I, Value *a) { return fourier2(I, a[0], 1, "ifft2"); }

#define MM "(x: Tensor, y: Tensor, dtype: dtype | str | None = None) -> Tensor"
#define CONV(n) "(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | tuple | list = 1, padding: int | tuple | list | str = 0, " \
    "dilation: int | tuple | list = 1, groups: int = 1) -> Tensor"
#define CONV_T "(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | tuple | list = 1, padding: int | tuple | list = 0, " \
    "output_padding: int | tuple | list = 0, groups: int = 1, dilation: int | tuple | list = 1) -> Tensor"
#define FT "(x: Tensor, n: int | None = None, axis: int = -1, dim: int | None = None) -> Tensor"

/* A complex matrix that has values, in double precision; its Schur form is no op: no derivative is known of it. */
static Value f_schur(Interp *I, Value *a)
{
    Tensor *x = tensor_concrete(as_tensor(a[0])), *t = x ? tensor_here(x) : NULL, *u = NULL;
    int64_t n = t ? t->shape[0] : 0;
    bool ok = t && t->rank == 2 && t->shape[1] == n && t->dtype == DT_c128;
    Cx *work = ok ? tsr_calloc(sizeof *work * (size_t)(2 * n + 1)) : NULL;

    if (!ok) {
        tensor_unref(t);
        return raise(I, EXC_TypeError, "schur takes a square matrix of c128 that has values");
    }
    x = tensor_copy(t);
    u = x ? tensor_copy(t) : NULL;
    tensor_unref(t);
    ok = u && la_schur_c(tensor_data(x), tensor_data(u), n, work);
    tsr_free(work);
    if (!ok) {
        bool none = !u;
        tensor_unref(x);
        tensor_unref(u);
        return none ? raise(I, EXC_MemoryError, "out of memory")
                    : raise(I, EXC_NumericalError, "eig: the matrix has elements that are not finite, or does not converge");
    }
    Value both = tuple_new(2);
    as_tuple(both)->at[0] = tensor_value(x);
    as_tuple(both)->at[1] = tensor_value(u);
    return both;
}

const NativeDef tensor_linear_natives[] = {
    {"", "matmul", f_matmul, MM, "x @ y: vectors, matrices, and stacks of them with broadcast leading axes. ShapeError when the inner sizes differ."},
    {"Tensor", "matmul", f_matmul, "(self, y: Tensor, dtype: dtype | str | None = None) -> Tensor", "x @ y."},
    {"", "gemm", f_gemm, MM, "x @ y; operands narrower than 16 bits give the dtype they were accumulated in (f32, int32)."},
    {"", "conv1d", f_conv1d, CONV(1), "Correlation of [N, C, L] with weights [O, C/groups, K], as in PyTorch: [N, O, L']."},
    {"", "conv2d", f_conv2d, CONV(2), "Correlation of [N, C, H, W] with weights [O, C/groups, KH, KW], as in PyTorch: [N, O, H', W']."},
    {"", "conv3d", f_conv3d, CONV(3), "Correlation of [N, C, D, H, W] with weights [O, C/groups, KD, KH, KW]."},
    {"", "conv_transpose1d", f_conv_transpose1d, CONV_T, "The transpose of conv1d: [N, C, L] with weights [C, O/groups, K], as in PyTorch: [N, O, L']."},
    {"", "conv_transpose2d", f_conv_transpose2d, CONV_T,
     "The transpose of conv2d: [N, C, H, W] with weights [C, O/groups, KH, KW], as in PyTorch: [N, O, H', W']."},
    {"", "cholesky", f_cholesky, "(a: Tensor) -> Tensor", "Lower triangular L with L @ L.T = (a + a.T) / 2 (complex: conj(a).mT); ValueError unless that is positive definite."},
    {"", "lu_factor", f_lu, "(a: Tensor) -> tuple", "Packed LU factors with partial pivoting, and the row permutation."},
    {"_core", "qr", f_qr, "(a: Tensor) -> tuple", "Reduced Q and R with a = Q @ R; the diagonal of R is not negative."},
    {"", "eigh", f_eigh, "(a: Tensor) -> tuple", "Ascending eigenvalues and the eigenvectors (columns) of a symmetric or hermitian matrix."},
    {"_core", "svd", f_svd, "(a: Tensor) -> tuple", "U, S, Vh with a = U @ diag(S) @ Vh, S descending."},
    {"_core", "schur", f_schur, "(a: Tensor) -> tuple", "T, upper triangular, and unitary U with a = U @ T @ U^H, of one matrix of c128 with values."},
    {"", "solve_triangular", f_triangular_solve, "(a: Tensor, b: Tensor, lower: bool = True, transpose: bool = False, unit: bool = False) -> Tensor",
     "x with a @ x = b for triangular a."},
    {"", "fft", f_fft, FT, "Discrete Fourier transform along one axis, any length."},
    {"", "ifft", f_ifft, FT, "Inverse discrete Fourier transform."},
    {"", "rfft", f_rfft, FT, "Fourier transform of real data: n // 2 + 1 points."},
    {"", "irfft", f_irfft, FT, "Inverse of rfft, of n points (default 2 * (points - 1))."},
    {"", "fft2", f_fft2, "(x: Tensor) -> Tensor", "Fourier transform over the last two axes."},
    {"", "ifft2", f_ifft2, "(x: Tensor) -> Tensor", "Inverse Fourier transform over the last two axes."},
    {0},
};
