/*
 * Linear algebra over batches: each matrix is read into doubles, factored by
 * linalg.c, and written back rounded once.  A complex element is two doubles,
 * and linalg_complex.c factors those.
 */
#include "runtime/kernel_util.h"
#include "runtime/linalg.h"

#include "base/alloc.h"

#include <string.h>

/* Work of one op: operands as batches of matrices in double or double complex, results likewise. */
typedef struct Linalg {
    KCtx *c;
    int64_t batch, m, n;        /* matrices, rows and columns of the first operand */
    Reader in[2], out[3];
    DType as;                   /* f64 or c128 */
    int64_t wide;               /* doubles of an element */
    double *work;
} Linalg;

static Cx *cx(double *x) { return (Cx *)x; }

/* Elements [at, at + n) of operand k. */
static void load(const Linalg *l, int k, int64_t at, int64_t n, double *out)
{
    const Reader *r = &l->in[k];
    TileBuf buf, spare;

    for (int64_t i = 0; i < n; i += TILE) {
        int64_t len = n - i < TILE ? n - i : TILE;
        lane_convert(l->as, out + i * l->wide, lane_dtype(r->as), reader_lanes(r, at + i, len, buf.at, spare.at), len);
    }
}

static void store_as(const Linalg *l, int k, int64_t at, int64_t n, DType from, const double *x)
{
    const Reader *w = &l->out[k];
    int64_t wide = from == DT_c128 ? 2 : 1;
    TileBuf raw;

    for (int64_t i = 0; i < n; i += TILE) {
        int64_t len = n - i < TILE ? n - i : TILE;
        raw_convert(w->dtype, raw.at, from, x + i * wide, len, NULL, 0);
        writer_raw(w, at + i, len, raw.at);
    }
}

static void store(const Linalg *l, int k, int64_t at, int64_t n, const double *x) { store_as(l, k, at, n, l->as, x); }
static void store_real(const Linalg *l, int k, int64_t at, int64_t n, const double *x) { store_as(l, k, at, n, DT_f64, x); }

/* Results, readers and `room` elements of work. */
static KStatus la_open(Linalg *l, KCtx *c, OpId op, Tensor *const *in, int nin, const TType *type, Tensor **out, int64_t room)
{
    const Tensor *x = in[0];
    int nout = op_info[op].nout;

    memset(l, 0, sizeof *l);
    l->c = c;
    l->as = DT_f64;
    for (int i = 0; i < nin; i++)
        if (dtype_is_complex((DType)in[i]->dtype))
            l->as = DT_c128;
    l->wide = l->as == DT_c128 ? 2 : 1;
    l->m = x->shape[x->rank - 2];
    l->n = x->shape[x->rank - 1];
    l->batch = 1;
    for (int i = 0; i + 2 < x->rank; i++)
        l->batch *= x->shape[i];
    if (!(l->work = k_scratch(c, l->wide * room + 1, sizeof(double))))
        return K_NOMEM;
    for (int i = 0; i < nout; i++)
        if (!(out[i] = k_result(c, &type[i]))) {
            while (i--)
                tensor_unref(out[i]);
            tsr_free_aligned(l->work);
            return K_NOMEM;
        }
    for (int i = 0; i < nout; i++)
        writer_init(&l->out[i], out[i]);
    for (int i = 0; i < nin; i++)
        reader_init(&l->in[i], in[i]);
    return K_OK;
}

static KStatus la_close(Linalg *l, KStatus s, OpId op, Tensor **out)
{
    tsr_free_aligned(l->work);
    for (int i = 0; s != K_OK && i < op_info[op].nout; i++)
        tensor_unref(out[i]);
    return s;
}

/* Rows and columns of an operand's matrices. */
static int64_t rows_of(const Tensor *t) { return t->shape[t->rank - 2]; }
static int64_t cols_of(const Tensor *t) { return t->shape[t->rank - 1]; }

KStatus kernel_cholesky(KERNEL_ARGS)
{
    int64_t n = cols_of(in[0]), size = n * n;
    Linalg l;
    KStatus s = la_open(&l, c, op, in, nin, type, out, size);

    (void)a;
    if (s != K_OK)
        return s;
    for (int64_t b = 0; b < l.batch && s == K_OK; b++) {
        load(&l, 0, b * size, size, l.work);
        int64_t bad = l.wide == 2 ? la_cholesky_c(cx(l.work), n) : la_cholesky(l.work, n);
        if (bad >= 0)
            s = k_fail(c, K_NUMERIC, "cholesky: the matrix is not positive definite (its leading %lld by %lld part is not)",
                       (long long)bad + 1, (long long)bad + 1);
        else
            store(&l, 0, b * size, size, l.work);
    }
    return la_close(&l, s, op, out);
}

KStatus kernel_triangular_solve(KERNEL_ARGS)
{
    int64_t n = cols_of(in[0]), m = cols_of(in[1]), shape[RANK_MAX], batch = 1;
    Linalg l;
    KStatus s = la_open(&l, c, op, in, nin, type, out, n * n + n * m);

    if (s != K_OK)
        return s;
    memcpy(shape, type->shape, sizeof shape);
    for (int i = 0; i + 2 < type->rank; i++)
        batch *= shape[i];
    reader_stretch(&l.in[1], in[1], type->rank, shape);
    shape[type->rank - 1] = n;
    reader_stretch(&l.in[0], in[0], type->rank, shape);
    double *mat = l.work, *x = l.work + l.wide * n * n;
    for (int64_t b = 0; b < batch; b++) {
        load(&l, 0, b * n * n, n * n, mat);
        load(&l, 1, b * n * m, n * m, x);
        if (l.wide == 2)
            la_triangular_c(cx(mat), cx(x), n, m, a->kind & 1, a->kind & 2, a->kind & 4);
        else
            la_triangular(mat, x, n, m, a->kind & 1, a->kind & 2, a->kind & 4);
        store(&l, 0, b * n * m, n * m, x);
    }
    return la_close(&l, s, op, out);
}

KStatus kernel_lu(KERNEL_ARGS)
{
    int64_t n = cols_of(in[0]), size = n * n;
    Linalg l;
    KStatus s = la_open(&l, c, op, in, nin, type, out, size);

    (void)a;
    if (s != K_OK)
        return s;
    for (int64_t b = 0; b < l.batch; b++) {
        load(&l, 0, b * size, size, l.work);
        int32_t *perm = (int32_t *)(void *)storage_data(out[1]->store) + b * n;
        if (l.wide == 2)
            la_lu_c(cx(l.work), perm, n);
        else
            la_lu(l.work, perm, n);
        store(&l, 0, b * size, size, l.work);
    }
    return la_close(&l, s, op, out);
}

KStatus kernel_qr(KERNEL_ARGS)
{
    int64_t m = rows_of(in[0]), n = cols_of(in[0]), k = m < n ? m : n;
    Linalg l;
    KStatus s = la_open(&l, c, op, in, nin, type, out, 2 * m * n + m * k * 2 + k * n + n + m);

    (void)a;
    if (s != K_OK)
        return s;
    double *mat = l.work, *q = mat + l.wide * m * n, *r = q + l.wide * m * k, *work = r + l.wide * k * n;
    for (int64_t b = 0; b < l.batch; b++) {
        load(&l, 0, b * m * n, m * n, mat);
        if (l.wide == 2)
            la_qr_c(cx(mat), cx(q), cx(r), m, n, cx(work));
        else
            la_qr(mat, q, r, m, n, work);
        store(&l, 0, b * m * k, m * k, q);
        store(&l, 1, b * k * n, k * n, r);
    }
    return la_close(&l, s, op, out);
}

KStatus kernel_eigh(KERNEL_ARGS)
{
    int64_t n = cols_of(in[0]), size = n * n;
    Linalg l;
    KStatus s = la_open(&l, c, op, in, nin, type, out, 3 * size + 4 * n);

    (void)a;
    if (s != K_OK)
        return s;
    double *mat = l.work, *v = mat + l.wide * size, *w = v + l.wide * size, *work = w + l.wide * n;
    for (int64_t b = 0; b < l.batch && s == K_OK; b++) {
        load(&l, 0, b * size, size, mat);
        if (l.wide == 2 ? !la_eigh_c(cx(mat), w, cx(v), n, cx(work)) : !la_eigh(mat, w, v, n, work))
            s = k_fail(c, K_NUMERIC, "eigh: the matrix has elements that are not finite, or does not converge");
        store_real(&l, 0, b * n, n, w);
        store(&l, 1, b * size, size, v);
    }
    return la_close(&l, s, op, out);
}

static void transpose(const double *x, int64_t m, int64_t n, double *out, int64_t wide)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            memcpy(out + (j * m + i) * wide, x + (i * n + j) * wide, (size_t)wide * sizeof *x);
}

/* m >= n */
static bool svd(const Linalg *l, double *a, double *u, double *s, double *vh, int64_t m, int64_t n, double *work)
{
    return l->wide == 2 ? la_svd_c(cx(a), cx(u), s, cx(vh), m, n, cx(work)) : la_svd(a, u, s, vh, m, n, work);
}

KStatus kernel_svd(KERNEL_ARGS)
{
    int64_t m = rows_of(in[0]), n = cols_of(in[0]), k = m < n ? m : n, tall = m < n ? n : m;
    Linalg l;
    KStatus s = la_open(&l, c, op, in, nin, type, out, 2 * m * n + tall * k + k * k + k + (tall + k) * k + tall * k);

    (void)a;
    if (s != K_OK)
        return s;
    int64_t wide = l.wide;
    double *mat = l.work, *flip = mat + wide * m * n, *u = flip + wide * m * n, *vt = u + wide * tall * k;
    double *sv = vt + wide * k * k, *work = sv + wide * k;
    for (int64_t b = 0; b < l.batch && s == K_OK; b++) {
        load(&l, 0, b * m * n, m * n, mat);
        if (m < n)                                  /* a^T = u s vt, so a = vt^T s u^T */
            transpose(mat, m, n, flip, wide);
        if (!svd(&l, m < n ? flip : mat, u, sv, vt, tall, k, work)) {
            s = k_fail(c, K_NUMERIC, "svd: the matrix has elements that are not finite, or does not converge");
            continue;
        }
        store_real(&l, 1, b * k, k, sv);
        if (m < n) {
            transpose(vt, k, k, work, wide);
            store(&l, 0, b * m * k, m * k, work);
            transpose(u, tall, k, work, wide);
            store(&l, 2, b * k * n, k * n, work);
        } else {
            store(&l, 0, b * m * k, m * k, u);
            store(&l, 2, b * k * n, k * n, vt);
        }
    }
    return la_close(&l, s, op, out);
}
