/*
 * linalg.h - dense factorisations of one real matrix, row-major, in double.
 * Work space comes from the caller. The kernels over batches are in linalg_kernel.c.
 */
#ifndef TSR_RUNTIME_LINALG_H
#define TSR_RUNTIME_LINALG_H

#include <stdbool.h>
#include <stdint.h>

/* Lower L with L L^T = a, from a's lower triangle, in place; the upper one becomes zero. -1, or the first bad pivot. */
int64_t la_cholesky(double *a, int64_t n);
/* Solve op(a) x = b in place, b is n by m. */
void la_triangular(const double *a, double *b, int64_t n, int64_t m, bool upper, bool transpose, bool unit);
/* a becomes L below the diagonal and U on and above it; row i of the product is row perm[i] of what a was. */
void la_lu(double *a, int32_t *perm, int64_t n);
/* m by n: q is m by k, r is k by n, k the smaller; the diagonal of r is not negative. work: m n + k m + n. */
void la_qr(const double *a, double *q, double *r, int64_t m, int64_t n, double *work);
/* Ascending eigenvalues, and eigenvectors in the columns of v, from a's lower triangle. work: n n + 2 n. */
bool la_eigh(const double *a, double *w, double *v, int64_t n, double *work);
/* m >= n: u is m by n, s descending, vt is n by n. work: m n. */
bool la_svd(const double *a, double *u, double *s, double *vt, int64_t m, int64_t n, double *work);

#endif
