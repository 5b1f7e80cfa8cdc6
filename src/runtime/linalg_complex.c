/*
 * The factorisations of linalg.c for complex matrices.
 *
 * What is open is a phase instead of a sign, fixed the same way: R's diagonal
 * and the largest component of an eigenvector or left singular vector are real
 * and not negative.  A hermitian matrix reflects to a tridiagonal one, which a
 * diagonal of phases makes real; from there on its eigenvalues are linalg.c's
 * problem, for a row of n complex numbers rotates as one of 2 n doubles.
 */
#include "runtime/linalg.h"

#include <complex.h>
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

/* x^H y */
static Cx dot(const Cx *x, const Cx *y, int64_t n)
{
    Cx s = 0;

    for (int64_t i = 0; i < n; i++)
        s += conj(x[i]) * y[i];
    return s;
}

#define FIELD Cx
#define MAGNITUDE cabs
#define OF_FIELD(name) name##_c
#include "runtime/linalg_elim.def"

static void scale(Cx f, Cx *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] *= f;
}

static double norm(const Cx *x, int64_t n) { return la_norm((const double *)x, 2 * n); }
static double square(const Cx *x, int64_t n) { return creal(dot(x, x, n)); }

/* z / |z|; 1 for 0 */
static Cx phase(Cx z)
{
    double size = cabs(z);

    return size > 0 ? z / size : 1;
}

static bool is_finite(Cx z) { return isfinite(creal(z)) && isfinite(cimag(z)); }

int64_t la_cholesky_c(Cx *a, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < i; j++)
            a[i * n + j] = (a[i * n + j] - dot(a + j * n, a + i * n, j)) / creal(a[j * n + j]);
        double s = creal(a[i * n + i]) - square(a + i * n, i);
        if (!(s > 0))
            return i;
        a[i * n + i] = sqrt(s);
        memset(a + i * n + i + 1, 0, (size_t)(n - i - 1) * sizeof *a);
    }
    return -1;
}

/* The reflection I - 2 v v^H that maps x to (*first, 0, ...); x becomes v. Returns whether there is something to do. */
static bool reflector(Cx *x, int64_t n, Cx *first)
{
    *first = x[0];
    if (n < 2 || norm(x + 1, n - 1) == 0)
        return false;
    *first = -phase(x[0]) * norm(x, n);
    x[0] -= *first;                                 /* no cancellation: the phases are opposite */
    scale(1 / norm(x, n), x, n);
    return true;
}

/* rows [0, n) of a (width apart), columns [from, to): a -= 2 v (v^H a). */
static void reflect(Cx *a, int64_t width, int64_t n, int64_t from, int64_t to, const Cx *v, Cx *tmp)
{
    memset(tmp, 0, (size_t)(to - from) * sizeof *tmp);
    for (int64_t i = 0; i < n; i++)
        axpy(conj(v[i]), a + i * width + from, tmp, to - from);
    for (int64_t i = 0; i < n; i++)
        axpy(-2 * v[i], tmp, a + i * width + from, to - from);
}

/* Row i of r by the phase that makes its diagonal real, column i of q by the opposite one. */
static void fix_phase(Cx *q, Cx *r, int64_t m, int64_t n, int64_t k, int64_t i)
{
    Cx p = phase(r[i * n + i]);

    if (p == 1)
        return;
    scale(conj(p), r + i * n + i, n - i);
    r[i * n + i] = creal(r[i * n + i]);
    for (int64_t j = 0; j < m; j++)
        q[j * k + i] *= p;
}

void la_qr_c(const Cx *a, Cx *q, Cx *r, int64_t m, int64_t n, Cx *work)
{
    int64_t k = m < n ? m : n;
    Cx *w = work, *vs = work + m * n, *tmp = vs + k * m;        /* as in la_qr */

    memcpy(w, a, (size_t)(m * n) * sizeof *a);
    memset(vs, 0, (size_t)(k * m) * sizeof *vs);
    for (int64_t j = 0; j < k; j++) {
        Cx *v = vs + j * m + j, first;
        for (int64_t i = j; i < m; i++)
            v[i - j] = w[i * n + j];
        if (!reflector(v, m - j, &first)) {
            memset(v, 0, (size_t)(m - j) * sizeof *v);
            continue;
        }
        reflect(w + j * n, n, m - j, j, n, v, tmp);
        w[j * n + j] = first;
    }
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < n; j++)
            r[i * n + j] = j < i ? 0 : w[i * n + j];
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < k; j++)
            q[i * k + j] = i == j;
    for (int64_t j = k - 1; j >= 0; j--)
        reflect(q + j * k, k, m - j, j, k, vs + j * m + j, tmp);
    for (int64_t i = 0; i < k; i++)
        fix_phase(q, r, m, n, k, i);
}

/* ---- hermitian eigenvalues ---- */

/* sub -= v p^H + p v^H */
static void rank_two(Cx *sub, int64_t width, const Cx *v, const Cx *p, int64_t len)
{
    for (int64_t i = 0; i < len; i++)
        for (int64_t j = 0; j < len; j++)
            sub[i * width + j] -= v[i] * conj(p[j]) + p[i] * conj(v[j]);
}

/* a becomes tridiagonal, with the diagonal d and the sizes of the off-diagonal in e; qh collects reflections and phases. */
static void tridiagonalise(Cx *a, Cx *qh, double *d, double *e, int64_t n, Cx *v, Cx *p)
{
    Cx turn = 1;

    for (int64_t k = 0; k + 2 < n; k++) {
        int64_t len = n - k - 1;
        Cx first, *sub = a + (k + 1) * n + k + 1;
        for (int64_t i = 0; i < len; i++)
            v[i] = a[(k + 1 + i) * n + k];
        if (!reflector(v, len, &first))
            continue;
        for (int64_t i = 0; i < len; i++) {
            p[i] = 0;
            for (int64_t j = 0; j < len; j++)
                p[i] += 2 * sub[i * n + j] * v[j];
        }
        axpy(-dot(v, p, len), v, p, len);
        rank_two(sub, n, v, p, len);
        a[(k + 1) * n + k] = first;
        reflect(qh + (k + 1) * n, n, len, 0, n, v, p);
    }
    for (int64_t i = 0; i < n; i++) {
        Cx below = i + 1 < n ? a[(i + 1) * n + i] : 0;
        d[i] = creal(a[i * n + i]);
        e[i] = cabs(below);
        scale(conj(turn), qh + i * n, n);
        turn *= phase(below);
    }
}

/* What makes the component of largest size real and positive; of equal ones the first. */
static Cx straighten(const Cx *x, int64_t n)
{
    int64_t big = 0;

    for (int64_t i = 1; i < n; i++)
        if (cabs(x[i]) > cabs(x[big]) * (1 + 1e-10))
            big = i;
    return n > 0 ? conj(phase(x[big])) : 1;
}

bool la_eigh_c(const Cx *a, double *w, Cx *v, int64_t n, Cx *work)
{
    Cx *t = work, *tmp = work + n * n, *sums = tmp + n;
    double *e = (double *)(sums + n);

    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            t[i * n + j] = i > j ? a[i * n + j] : i == j ? creal(a[i * n + i]) : conj(a[j * n + i]);
            v[i * n + j] = i == j;
            if (!is_finite(t[i * n + j]))
                return false;
        }
    tridiagonalise(t, v, w, e, n, tmp, sums);
    if (!la_tridiagonal(w, e, (double *)v, n, 2 * n))
        return false;
    for (int64_t i = 0; i < n; i++) {               /* ascending: rows of v are the conjugated vectors still */
        int64_t low = i;
        for (int64_t j = i + 1; j < n; j++)
            if (w[j] < w[low])
                low = j;
        if (low != i) {
            double x = w[i];
            w[i] = w[low];
            w[low] = x;
            swap_rows(v + i * n, v + low * n, n);
        }
        scale(straighten(v + i * n, n), v + i * n, n);
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            Cx x = v[i * n + j];
            v[i * n + j] = conj(v[j * n + i]);
            v[j * n + i] = conj(x);
        }
    return true;
}

/* ---- singular values ---- */

/* As in linalg.c, after y has turned so that x^H y is real: what follows is linalg_svd.def's. */
static bool orthogonalise(Cx *x, Cx *y, Cx *vx, Cx *vy, int64_t m, int64_t n, double noise)
{
    double a = square(x, m), b = square(y, m);
    Cx h = dot(x, y, m), turn = conj(phase(h));
    double g = cabs(h);

    if (g <= DBL_EPSILON * sqrt(a) * sqrt(b) || g == 0 || fmin(a, b) <= noise)
        return false;
    double z = (b - a) / (2 * g), t = copysign(1, z) / (fabs(z) + hypot(1, z)), c = 1 / hypot(1, t), s = c * t;
    scale(turn, y, m);
    scale(turn, vy, n);
    la_rotate((double *)x, (double *)y, c, s, 2 * m);
    la_rotate((double *)vx, (double *)vy, c, s, 2 * n);
    return true;
}

static void divide(Cx *x, double by, int64_t n) { scale(1 / by, x, n); }

static void face(Cx *x, Cx *y, int64_t m, int64_t n)
{
    Cx turn = straighten(x, m);

    scale(turn, x, m);
    scale(turn, y, n);
}

static Cx conjugate(Cx x) { return conj(x); }

#define FIELD Cx
#define OF_FIELD(name) name##_c
#include "runtime/linalg_svd.def"
