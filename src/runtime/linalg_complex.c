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

/* ---- eigenvalues of any square matrix ---- */

/* row [0, n) := row (I - 2 v v^H) */
static void reflect_row(Cx *row, const Cx *v, int64_t n)
{
    Cx s = 0;

    for (int64_t i = 0; i < n; i++)
        s += row[i] * v[i];
    for (int64_t i = 0; i < n; i++)
        row[i] -= 2 * s * conj(v[i]);
}

/* t := Q^H t Q with zeros below its first subdiagonal, u := Q, by reflections. work: 2 n. */
static void hessenberg(Cx *t, Cx *u, int64_t n, Cx *work)
{
    Cx *v = work, *tmp = work + n, first;

    for (int64_t i = 0; i < n * n; i++)
        u[i] = i % (n + 1) == 0;
    for (int64_t k = 0; k + 2 < n; k++) {
        int64_t left = n - k - 1;
        for (int64_t i = 0; i < left; i++)
            v[i] = t[(k + 1 + i) * n + k];
        if (!reflector(v, left, &first))
            continue;
        reflect(t + (k + 1) * n, n, left, k, n, v, tmp);
        for (int64_t i = 0; i < n; i++) {
            reflect_row(t + i * n + k + 1, v, left);
            reflect_row(u + i * n + k + 1, v, left);
        }
        t[(k + 1) * n + k] = first;
        for (int64_t i = k + 2; i < n; i++)
            t[i * n + k] = 0;
    }
}

/* The eigenvalue of the 2 by 2 block that ends at `last` which is nearer to its corner (Wilkinson); now and then another number, against cycles. */
static Cx shift_of(const Cx *t, int64_t n, int64_t last, int step)
{
    Cx a = t[(last - 1) * n + last - 1], b = t[(last - 1) * n + last], c = t[last * n + last - 1], d = t[last * n + last];
    Cx half = (a + d) / 2, root = csqrt((a - d) / 2 * ((a - d) / 2) + b * c);

    if (step % 10 == 9)
        return d + cabs(c);
    return cabs(half + root - d) < cabs(half - root - d) ? half + root : half - root;
}

/* One QR step of the block of rows [low, last]: rotations make t - shift upper triangular, and go on to its columns and to those of u. */
static void qr_step(Cx *t, Cx *u, int64_t n, int64_t low, int64_t last, Cx shift, Cx *turns)
{
    for (int64_t k = low; k <= last; k++)
        t[k * n + k] -= shift;
    for (int64_t k = low; k < last; k++) {
        Cx *x = t + k * n, *y = x + n, a = x[k], b = y[k];
        double r = hypot(cabs(a), cabs(b));
        Cx c = r > 0 ? a / r : 1, s = r > 0 ? b / r : 0;
        for (int64_t j = k; j < n; j++) {
            Cx was = x[j];
            x[j] = conj(c) * was + conj(s) * y[j];
            y[j] = c * y[j] - s * was;
        }
        turns[2 * k] = c;
        turns[2 * k + 1] = s;
    }
    for (int64_t k = low; k < last; k++) {
        Cx c = turns[2 * k], s = turns[2 * k + 1];
        for (int64_t i = 0; i < k + 2 + n; i++) {               /* what is not zero in t, then all of u */
            Cx *x = i < k + 2 ? t + i * n + k : u + (i - k - 2) * n + k, was = x[0];
            x[0] = c * was + s * x[1];
            x[1] = conj(c) * x[1] - conj(s) * was;
        }
    }
    for (int64_t k = low; k <= last; k++)
        t[k * n + k] += shift;
}

/* Where the block that ends at `last` begins: below it the subdiagonal is zero but for rounding, and becomes zero. */
static int64_t block_begin(Cx *t, int64_t n, int64_t last, double size)
{
    for (int64_t k = last; k > 0; k--) {
        double near = cabs(t[k * n + k]) + cabs(t[(k - 1) * n + k - 1]);
        if (cabs(t[k * n + k - 1]) <= DBL_EPSILON * (near > 0 ? near : size)) {
            t[k * n + k - 1] = 0;
            return k;
        }
    }
    return 0;
}

bool la_schur_c(Cx *t, Cx *u, int64_t n, Cx *work)
{
    double size = norm(t, n * n);
    int step = 0;

    if (!isfinite(size))
        return false;
    hessenberg(t, u, n, work);
    for (int64_t last = n - 1, low; last > 0; ) {
        low = block_begin(t, n, last, size);
        if (low == last) {
            last--;
            step = 0;
        } else if (step++ == 60)
            return false;
        else
            qr_step(t, u, n, low, last, shift_of(t, n, last, step), work);
    }
    return true;
}
