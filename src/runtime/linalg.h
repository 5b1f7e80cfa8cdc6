/*
 * linalg.h - dense factorisations of one matrix, row-major, in double.
 * Work space comes from the caller. The kernels over batches are in linalg_kernel.c.
 */
#ifndef TSR_RUNTIME_LINALG_H
#define TSR_RUNTIME_LINALG_H

#include <stdbool.h>
#include <stdint.h>

typedef double _Complex Cx;

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

/* The same of complex matrices, with L^H for L^T; transposing stays plain. la_eigh_c works in n n + 3 n. */
int64_t la_cholesky_c(Cx *a, int64_t n);
void la_triangular_c(const Cx *a, Cx *b, int64_t n, int64_t m, bool upper, bool transpose, bool unit);
void la_lu_c(Cx *a, int32_t *perm, int64_t n);
void la_qr_c(const Cx *a, Cx *q, Cx *r, int64_t m, int64_t n, Cx *work);
bool la_eigh_c(const Cx *a, double *w, Cx *v, int64_t n, Cx *work);
bool la_svd_c(const Cx *a, Cx *u, double *s, Cx *vh, int64_t m, int64_t n, Cx *work);
/* Schur's form: t becomes upper triangular, u unitary, with u t u^H what t was, by QR steps on a Hessenberg matrix. work: 2 n. false: it has
 * an element that is not finite, or does not converge. */
bool la_schur_c(Cx *t, Cx *u, int64_t n, Cx *work);

/* What both kinds use. Length of a vector without overflow in the squares; rows x, y become c x - s y, s x + c y. */
double la_norm(const double *x, int64_t n);
void la_rotate(double *x, double *y, double c, double s, int64_t n);
/* Eigenvalues into d of the tridiagonal matrix with diagonal d, off-diagonal e; rows of qt (width doubles) rotate along. */
bool la_tridiagonal(double *d, double *e, double *qt, int64_t n, int64_t width);

#endif
