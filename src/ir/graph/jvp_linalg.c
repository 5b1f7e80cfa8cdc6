/*
 * JVP rules of linear algebra.  a the matrix, da its tangent, H the conjugate
 * transpose; formulas as in Giles (2008) and Walter & Lehmann (2010).
 */
#include "ir/graph/rules.h"

#define OP(name, nin, nout, fam, shape, dtype, flags, attrs, jvp, ...) void jvp_##jvp(Jvp *j);
#include "ir/core/ops.def"

enum { UPPER = 1, TRANSPOSED = 2, UNIT = 4 };   /* Attr.kind of triangular_solve */

static Tensor *solve(Rule *r, int kind, Tensor *a, Tensor *b)
{
    Attr at = attr_default();

    at.kind = (uint8_t)kind;
    return r_op(r, OP_triangular_solve, &at, (Tensor *[]){a, b}, 2);
}

static Tensor *mm(Rule *r, Tensor *a, Tensor *b) { return r_matmul(r, a, b); }

/* Where the mask of the diagonal holds, x, else y. */
static Tensor *on_diagonal(Rule *r, Tensor *x, Tensor *y, Tensor *like)
{
    TType m = {.rank = 2};

    if (!like)
        return NULL;
    m.shape[0] = like->shape[like->rank - 2], m.shape[1] = like->shape[like->rank - 1];
    return r3(r, OP_where, r2(r, OP_eq, r_iota(r, &m, -2), r_iota(r, &m, -1)), x, y);
}

/* x with zeros outside the diagonal */
static Tensor *only_diagonal(Rule *r, Tensor *x)
{
    return x ? on_diagonal(r, x, r_num(r, x, 0), x) : NULL;
}

/* The imaginary part, as a complex tensor; NULL, which is zero, of a real one. */
static Tensor *imaginary(Rule *r, Tensor *x)
{
    return x && dtype_is_complex((DType)x->dtype) ? r_sub(r, x, r_convert(r, r1(r, OP_real, x), x->dtype)) : NULL;
}

/* The hermitian matrix that the kernels see: they read the lower triangle, and of the diagonal the real part. */
static Tensor *hermitian(Rule *r, Tensor *t)
{
    Tensor *full = r_add(r, r_tri(r, t, false, true), r_mT(r, r_tri(r, t, false, false)));

    return r_sub(r, full, imaginary(r, only_diagonal(r, t)));
}

static Tensor *diagonal(Rule *r, Tensor *x)
{
    return x ? r_sum(r, only_diagonal(r, x), 1, (int[]){-1}) : NULL;
}

/* a = L L^H: dL = L phi(L^-1 da L^-H), phi the lower triangle with half the diagonal */
void jvp_cholesky(Jvp *j)
{
    Rule *r = j->r;
    Tensor *L = j->y[0], *s = solve(r, 0, L, hermitian(r, j->t[0])), *half;

    s = r_mT(r, solve(r, 0, L, r_mT(r, s)));
    half = s ? on_diagonal(r, r_mul(r, s, r_num(r, s, 0.5)), r_tri(r, s, false, false), s) : NULL;
    j->dy[0] = mm(r, L, half);
}

/* a x = b: dx = a^-1 (db - da x), da within the triangle */
void jvp_triangular_solve(Jvp *j)
{
    Rule *r = j->r;
    int kind = j->a->kind;
    Tensor *da = r_tri(r, j->t[0], kind & UPPER, !(kind & UNIT)), *rhs;

    if (kind & TRANSPOSED)
        da = r_swap(r, da, -2, -1);
    rhs = r_sub(r, j->t[1], mm(r, da, j->y[0]));
    j->dy[0] = r_op(r, OP_triangular_solve, j->a, (Tensor *[]){j->x[0], rhs}, 2);
}

/* p a = L U: with M = L^-1 p da U^-1, dL = L lower(M) and dU = upper(M) U; both stay in their triangle */
void jvp_lu(Jvp *j)
{
    Rule *r = j->r;
    Tensor *lu = j->y[0], *perm = j->y[1], *L, *U, *m, *dL, *dU;
    Attr rows = attr_default();

    if (!dim_same(lu->shape[lu->rank - 1], lu->shape[lu->rank - 2])) {
        r->failed = true;
        trace_fail(r->T, OPERR_VALUE, "lu: the derivative needs a square matrix");
        return;
    }
    rows.n = 1;
    rows.m = (int16_t)(lu->rank - 2);
    m = r_op(r, OP_index, &rows, (Tensor *[]){j->t[0], perm}, 2);
    U = r_tri(r, lu, true, true);
    L = on_diagonal(r, r_num(r, lu, 1), r_tri(r, lu, false, false), lu);
    m = solve(r, UNIT, lu, m);
    m = r_swap(r, solve(r, UPPER | TRANSPOSED, U, r_swap(r, m, -2, -1)), -2, -1);
    dL = mm(r, L, r_tri(r, m, false, false));
    dU = mm(r, r_tri(r, m, true, true), U);
    j->dy[0] = r_add(r, dL, dU);
}

/*
 * Tall a = Q R: C = Q^H da R^-1, W = lower(C) - lower(C)^H + i im(diag(C)), which keeps R's diagonal real,
 * dQ = Q (W - C) + da R^-1, dR = Q^H (da - dQ R)
 */
void jvp_qr(Jvp *j)
{
    Rule *r = j->r;
    Tensor *Q = j->y[0], *R = j->y[1], *da = j->t[0], *square = R, *left = da, *c, *low, *w, *dQ;
    Dim k = Q->shape[Q->rank - 1];

    if (!dim_same(R->shape[R->rank - 1], k)) {           /* wide: Q comes from the first k columns */
        square = r_slice(r, R, -1, 0, k);
        left = r_slice(r, da, -1, 0, k);
    }
    left = r_swap(r, solve(r, UPPER | TRANSPOSED, square, r_swap(r, left, -2, -1)), -2, -1);
    c = mm(r, r_mT(r, Q), left);
    low = r_tri(r, c, false, false);
    w = r_add(r, r_sub(r, low, r_mT(r, low)), imaginary(r, only_diagonal(r, c)));
    dQ = r_add(r, mm(r, Q, r_sub(r, w, c)), left);
    j->dy[0] = dQ;
    j->dy[1] = r_tri(r, mm(r, r_mT(r, Q), r_sub(r, da, mm(r, dQ, R))), true, true);
}

/* 1 / d where d is not 0, else 0 */
static Tensor *safe_inverse(Rule *r, Tensor *d)
{
    Tensor *zero, *one;

    if (!d)
        return NULL;
    one = r_num(r, d, 1);
    zero = r2(r, OP_eq, d, r_num(r, d, 0));
    return r3(r, OP_where, zero, r_num(r, d, 0), r_div(r, one, r3(r, OP_where, zero, one, d)));
}

/* v_j - v_i as a matrix */
static Tensor *differences(Rule *r, Tensor *v)
{
    return r2(r, OP_sub, r_expand(r, v, -2), r_expand(r, v, -1));
}

/* dw = diag(V^H da V), dV = V (F * V^H da V), F_ij = 1 / (w_j - w_i); equal eigenvalues share a space, F is 0 there */
void jvp_eigh(Jvp *j)
{
    Rule *r = j->r;
    Tensor *w = j->y[0], *V = j->y[1], *m = mm(r, mm(r, r_mT(r, V), hermitian(r, j->t[0])), V), *d;

    if (!m)
        return;
    d = diagonal(r, m);
    j->dy[0] = dtype_is_complex((DType)m->dtype) ? r1(r, OP_real, d) : d;
    j->dy[1] = mm(r, V, r_mul(r, r_convert(r, safe_inverse(r, differences(r, w)), m->dtype), m));
}

/* (1 - u u^H) x: the part of x outside the columns of u */
static Tensor *outside(Rule *r, Tensor *u, Tensor *x)
{
    return r_sub(r, x, mm(r, u, mm(r, r_mT(r, u), x)));
}

/*
 * a = U S Vh, m = U^H da V: dS = diag(m), F_ij = 1 / (s_j^2 - s_i^2),
 * dU = U (F * (m S + S m^H)) + (1 - U U^H) da V S^-1, and V likewise with a^H.
 * The phases between the vectors of a pair turn with im(diag(m)) S^-1, which dU takes.
 */
void jvp_svd(Jvp *j)
{
    Rule *r = j->r;
    Tensor *U = j->y[0], *s = j->y[1], *Vh = j->y[2], *da = j->t[0], *V = r_mT(r, Vh), *m = mm(r, mm(r, r_mT(r, U), da), V);
    Tensor *f, *row, *inv, *d, *mh, *du, *dv;

    if (!m)
        return;
    d = diagonal(r, m);
    j->dy[1] = dtype_is_complex((DType)m->dtype) ? r1(r, OP_real, d) : d;
    f = r_convert(r, safe_inverse(r, differences(r, r_mul(r, s, s))), m->dtype);
    s = r_convert(r, s, m->dtype);
    row = r_expand(r, s, -2);
    inv = safe_inverse(r, row);
    mh = r_mT(r, m);
    du = r_mul(r, f, r_add(r, r_mul(r, m, row), r_mul(r, r_expand(r, s, -1), mh)));
    if ((d = imaginary(r, only_diagonal(r, m))))
        du = r_add(r, du, r_mul(r, d, inv));
    dv = r_mul(r, f, r_add(r, r_mul(r, mh, row), r_mul(r, r_expand(r, s, -1), m)));
    j->dy[0] = r_add(r, mm(r, U, du), outside(r, U, r_mul(r, mm(r, da, V), inv)));
    dv = r_add(r, mm(r, V, dv), outside(r, V, r_mul(r, mm(r, r_mT(r, da), U), inv)));
    j->dy[2] = r_mT(r, dv);
}
