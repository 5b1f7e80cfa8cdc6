/*
 * Linear algebra over batches: each matrix is read into doubles, factored by
 * linalg.c, and written back rounded once.
 */
#include "runtime/kernel_util.h"
#include "runtime/linalg.h"

#include "base/alloc.h"

#include <string.h>

/* Work of one op: operands as batches of double matrices, results likewise. */
typedef struct Linalg {
    KCtx *c;
    int64_t batch, m, n;        /* matrices, rows and columns of the first operand */
    Reader in[2], out[3];
    double *work;
} Linalg;

static bool is_real_matrix(KCtx *c, OpId op, const Tensor *t)
{
    if (!dtype_is_complex((DType)t->dtype))
        return true;
    k_fail(c, K_VALUE, "%s of complex matrices is not available", op_info[op].name);
    return false;
}

static void load(const Reader *r, int64_t at, int64_t n, double *out)
{
    TileBuf buf, spare;

    for (int64_t i = 0; i < n; i += TILE) {
        int64_t k = n - i < TILE ? n - i : TILE;
        lane_convert(DT_f64, out + i, lane_dtype(r->as), reader_lanes(r, at + i, k, buf.at, spare.at), k);
    }
}

static void store(const Reader *w, int64_t at, int64_t n, const double *x)
{
    TileBuf raw;

    for (int64_t i = 0; i < n; i += TILE) {
        int64_t k = n - i < TILE ? n - i : TILE;
        raw_convert(w->dtype, raw.at, DT_f64, x + i, k, NULL, 0);
        writer_raw(w, at + i, k, raw.at);
    }
}

/* Results, readers and `room` doubles of work. */
static KStatus la_open(Linalg *l, KCtx *c, OpId op, Tensor *const *in, int nin, const TType *type, Tensor **out, int64_t room)
{
    const Tensor *x = in[0];
    int nout = op_info[op].nout;

    memset(l, 0, sizeof *l);
    for (int i = 0; i < nin; i++)
        if (!is_real_matrix(c, op, in[i]))
            return K_VALUE;
    l->c = c;
    l->m = x->shape[x->rank - 2];
    l->n = x->shape[x->rank - 1];
    l->batch = 1;
    for (int i = 0; i + 2 < x->rank; i++)
        l->batch *= x->shape[i];
    if (!(l->work = k_scratch(c, room + 1, sizeof(double))))
        return K_NOMEM;
    for (int i = 0; i < nout; i++)
        if (!(out[i] = k_result(c, &type[i]))) {
            while (i--)
                tensor_unref(out[i]);
            tsr_free_aligned(l->work);
            return K_NOMEM;
        }
    for (int i = 0; i < nout; i++)
        reader_init(&l->out[i], out[i]);
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
        load(&l.in[0], b * size, size, l.work);
        int64_t bad = la_cholesky(l.work, n);
        if (bad >= 0)
            s = k_fail(c, K_NUMERIC, "cholesky: the matrix is not positive definite (its leading %lld by %lld part is not)",
                       (long long)bad + 1, (long long)bad + 1);
        else
            store(&l.out[0], b * size, size, l.work);
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
    double *mat = l.work, *x = l.work + n * n;
    for (int64_t b = 0; b < batch; b++) {
        load(&l.in[0], b * n * n, n * n, mat);
        load(&l.in[1], b * n * m, n * m, x);
        la_triangular(mat, x, n, m, a->kind & 1, a->kind & 2, a->kind & 4);
        store(&l.out[0], b * n * m, n * m, x);
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
        load(&l.in[0], b * size, size, l.work);
        la_lu(l.work, (int32_t *)out[1]->store->data + b * n, n);
        store(&l.out[0], b * size, size, l.work);
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
    double *mat = l.work, *q = mat + m * n, *r = q + m * k, *work = r + k * n;
    for (int64_t b = 0; b < l.batch; b++) {
        load(&l.in[0], b * m * n, m * n, mat);
        la_qr(mat, q, r, m, n, work);
        store(&l.out[0], b * m * k, m * k, q);
        store(&l.out[1], b * k * n, k * n, r);
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
    double *mat = l.work, *v = mat + size, *w = v + size, *work = w + n;
    for (int64_t b = 0; b < l.batch && s == K_OK; b++) {
        load(&l.in[0], b * size, size, mat);
        if (!la_eigh(mat, w, v, n, work))
            s = k_fail(c, K_NUMERIC, "eigh: the matrix has elements that are not finite, or does not converge");
        store(&l.out[0], b * n, n, w);
        store(&l.out[1], b * size, size, v);
    }
    return la_close(&l, s, op, out);
}

static void transpose(const double *x, int64_t m, int64_t n, double *out)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            out[j * m + i] = x[i * n + j];
}

KStatus kernel_svd(KERNEL_ARGS)
{
    int64_t m = rows_of(in[0]), n = cols_of(in[0]), k = m < n ? m : n, tall = m < n ? n : m;
    Linalg l;
    KStatus s = la_open(&l, c, op, in, nin, type, out, 2 * m * n + tall * k + k * k + k + (tall + k) * k + tall * k);

    (void)a;
    if (s != K_OK)
        return s;
    double *mat = l.work, *flip = mat + m * n, *u = flip + m * n, *vt = u + tall * k, *sv = vt + k * k, *work = sv + k;
    for (int64_t b = 0; b < l.batch && s == K_OK; b++) {
        load(&l.in[0], b * m * n, m * n, mat);
        if (m < n)                                  /* a^T = u s vt, so a = vt^T s u^T */
            transpose(mat, m, n, flip);
        if (!la_svd(m < n ? flip : mat, u, sv, vt, tall, k, work)) {
            s = k_fail(c, K_NUMERIC, "svd: the matrix has elements that are not finite, or does not converge");
            continue;
        }
        store(&l.out[1], b * k, k, sv);
        if (m < n) {
            transpose(vt, k, k, work);
            store(&l.out[0], b * m * k, m * k, work);
            transpose(u, tall, k, work);
            store(&l.out[2], b * k * n, k * n, work);
        } else {
            store(&l.out[0], b * m * k, m * k, u);
            store(&l.out[2], b * k * n, k * n, vt);
        }
    }
    return la_close(&l, s, op, out);
}
