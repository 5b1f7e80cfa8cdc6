/*
 * Dense factorisations.
 *
 * Loops run along rows, where memory is contiguous; vectors that rotate or
 * reflect are kept as rows for the same reason.  Signs that the mathematics
 * leaves open are fixed: R's diagonal is not negative, and of an eigenvector or
 * left singular vector the largest component is positive.
 */
#include "runtime/linalg.h"

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

static double dot(const double *x, const double *y, int64_t n)
{
    double s = 0;

    for (int64_t i = 0; i < n; i++)
        s += x[i] * y[i];
    return s;
}

#define FIELD double
#define MAGNITUDE fabs
#define OF_FIELD(name) name
#include "runtime/linalg_elim.def"

double la_norm(const double *x, int64_t n)
{
    double big = 0, s = 0;

    for (int64_t i = 0; i < n; i++)
        big = fmax(big, fabs(x[i]));
    if (big == 0 || !isfinite(big))
        return big;
    for (int64_t i = 0; i < n; i++)
        s += x[i] / big * (x[i] / big);
    return big * sqrt(s);
}

int64_t la_cholesky(double *a, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j <= i; j++) {
            double s = a[i * n + j] - dot(a + i * n, a + j * n, j);
            if (i != j)
                a[i * n + j] = s / a[j * n + j];
            else if (s > 0)
                a[i * n + i] = sqrt(s);
            else
                return i;
        }
        memset(a + i * n + i + 1, 0, (size_t)(n - i - 1) * sizeof *a);
    }
    return -1;
}

/*
 * The reflection I - beta v v^T that maps x to (+-|x|, 0, ...); x becomes v. Returns beta, 0 when there is nothing to do;
 * *first is what x[0] turns into.
 */
static double reflector(double *x, int64_t n, double *first)
{
    double len = la_norm(x, n), tail = n > 1 ? la_norm(x + 1, n - 1) : 0;

    *first = x[0];
    if (tail == 0)
        return 0;
    *first = x[0] > 0 ? -len : len;
    x[0] -= *first;                                 /* no cancellation: the signs differ */
    double scale = la_norm(x, n);
    for (int64_t i = 0; i < n; i++)
        x[i] /= scale;
    return 2;
}

/* rows [0, n) of a (width apart), columns [from, to): a -= beta v (v^T a). */
static void reflect(double *a, int64_t width, int64_t n, int64_t from, int64_t to, const double *v, double beta, double *tmp)
{
    memset(tmp, 0, (size_t)(to - from) * sizeof *tmp);
    for (int64_t i = 0; i < n; i++)
        axpy(v[i], a + i * width + from, tmp, to - from);
    for (int64_t i = 0; i < n; i++)
        axpy(-beta * v[i], tmp, a + i * width + from, to - from);
}

void la_qr(const double *a, double *q, double *r, int64_t m, int64_t n, double *work)
{
    int64_t k = m < n ? m : n;
    double *w = work, *vs = work + m * n, *tmp = vs + k * m;    /* the matrix; a reflector a row; a row of sums */

    memcpy(w, a, (size_t)(m * n) * sizeof *a);
    memset(vs, 0, (size_t)(k * m) * sizeof *vs);
    for (int64_t j = 0; j < k; j++) {
        double *v = vs + j * m + j, first;
        for (int64_t i = j; i < m; i++)
            v[i - j] = w[i * n + j];
        double beta = reflector(v, m - j, &first);
        if (beta == 0) {
            memset(v, 0, (size_t)(m - j) * sizeof *v);
            continue;
        }
        reflect(w + j * n, n, m - j, j, n, v, beta, tmp);
        w[j * n + j] = first;
    }
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < n; j++)
            r[i * n + j] = j < i ? 0 : w[i * n + j];
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < k; j++)
            q[i * k + j] = i == j;
    for (int64_t j = k - 1; j >= 0; j--)
        reflect(q + j * k, k, m - j, j, k, vs + j * m + j, 2, tmp);
    for (int64_t i = 0; i < k; i++)
        if (r[i * n + i] < 0) {
            for (int64_t j = i; j < n; j++)
                r[i * n + j] = -r[i * n + j];
            for (int64_t j = 0; j < m; j++)
                q[j * k + i] = -q[j * k + i];
        }
}

/* ---- symmetric eigenvalues: reflect to tridiagonal form, then QL with implicit shifts (Bowdler et al. 1968) ---- */

/* a becomes tridiagonal with diagonal d and off-diagonal e; qt collects the reflections. */
static void tridiagonalise(double *a, double *qt, double *d, double *e, int64_t n, double *v)
{
    for (int64_t k = 0; k + 2 < n; k++) {
        int64_t len = n - k - 1;
        double first, *p = e;                       /* e is free until the end */
        for (int64_t i = 0; i < len; i++)
            v[i] = a[(k + 1 + i) * n + k];
        double beta = reflector(v, len, &first);
        if (beta == 0)
            continue;
        double *sub = a + (k + 1) * n + k + 1;
        for (int64_t i = 0; i < len; i++)
            p[i] = beta * dot(sub + i * n, v, len);
        axpy(-beta / 2 * dot(p, v, len), v, p, len);
        for (int64_t i = 0; i < len; i++) {         /* a -= v p^T + p v^T */
            axpy(-v[i], p, sub + i * n, len);
            axpy(-p[i], v, sub + i * n, len);
        }
        a[(k + 1) * n + k] = first;
        for (int64_t i = k + 2; i < n; i++)
            a[i * n + k] = 0;
        reflect(qt + (k + 1) * n, n, len, 0, n, v, beta, p);
    }
    for (int64_t i = 0; i < n; i++) {
        d[i] = a[i * n + i];
        e[i] = i + 1 < n ? a[(i + 1) * n + i] : 0;
    }
}

void la_rotate(double *x, double *y, double c, double s, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        double f = y[k];
        y[k] = s * x[k] + c * f;
        x[k] = c * x[k] - s * f;
    }
}

/* One QL sweep from m up to l. */
static void ql_sweep(double *d, double *e, double *qt, int64_t l, int64_t m, int64_t width)
{
    double g = (d[l + 1] - d[l]) / (2 * e[l]), r = hypot(g, 1), s = 1, c = 1, p = 0;
    int64_t i;

    g = d[m] - d[l] + e[l] / (g + copysign(r, g));
    for (i = m - 1; i >= l; i--) {
        double f = s * e[i], b = c * e[i];
        e[i + 1] = r = hypot(f, g);
        if (r == 0) {                               /* the matrix falls apart here */
            d[i + 1] -= p;
            e[m] = 0;
            return;
        }
        s = f / r;
        c = g / r;
        g = d[i + 1] - p;
        r = (d[i] - g) * s + 2 * c * b;
        p = s * r;
        d[i + 1] = g + p;
        g = c * r - b;
        la_rotate(qt + i * width, qt + (i + 1) * width, c, s, width);
    }
    d[l] -= p;
    e[l] = g;
    e[m] = 0;
}

bool la_tridiagonal(double *d, double *e, double *qt, int64_t n, int64_t width)
{
    for (int64_t l = 0; l < n; l++)
        for (int tries = 0;; tries++) {
            int64_t m = l;
            while (m + 1 < n && fabs(e[m]) > DBL_EPSILON * (fabs(d[m]) + fabs(d[m + 1])))
                m++;
            if (m == l)
                break;
            if (tries == 60)
                return false;
            ql_sweep(d, e, qt, l, m, width);
        }
    return true;
}

/* Make the component of largest size positive; of equal ones the first. */
static bool wants_flip(const double *x, int64_t n)
{
    int64_t big = 0;

    for (int64_t i = 1; i < n; i++)
        if (fabs(x[i]) > fabs(x[big]) * (1 + 1e-10))
            big = i;
    return n > 0 && x[big] < 0;
}

static void negate(double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = -x[i];
}

bool la_eigh(const double *a, double *w, double *v, int64_t n, double *work)
{
    double *t = work, *e = work + n * n, *tmp = e + n;

    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            t[i * n + j] = i >= j ? a[i * n + j] : a[j * n + i];
            v[i * n + j] = i == j;
            if (!isfinite(t[i * n + j]))
                return false;
        }
    tridiagonalise(t, v, w, e, n, tmp);
    if (!la_tridiagonal(w, e, v, n, n))
        return false;
    for (int64_t i = 0; i < n; i++) {               /* ascending: rows of v are the vectors still */
        int64_t low = i;
        for (int64_t j = i + 1; j < n; j++)
            if (w[j] < w[low])
                low = j;
        if (low != i) {
            swap_rows(v + i * n, v + low * n, n);
            swap_rows(w + i, w + low, 1);
        }
        if (wants_flip(v + i * n, n))
            negate(v + i * n, n);
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++) {
            double x = v[i * n + j];
            v[i * n + j] = v[j * n + i];
            v[j * n + i] = x;
        }
    return true;
}

/* ---- singular values ---- */

/* Rotate rows x, y of the transposed matrix until they are orthogonal. Returns whether they were not. */
static bool orthogonalise(double *x, double *y, double *vx, double *vy, int64_t m, int64_t n, double noise)
{
    double a = dot(x, x, m), b = dot(y, y, m), g = dot(x, y, m);

    if (fabs(g) <= DBL_EPSILON * sqrt(a) * sqrt(b) || g == 0 || fmin(a, b) <= noise)
        return false;
    double z = (b - a) / (2 * g), t = copysign(1, z) / (fabs(z) + hypot(1, z)), c = 1 / hypot(1, t), s = c * t;
    la_rotate(x, y, c, s, m);
    la_rotate(vx, vy, c, s, n);
    return true;
}

static double norm(const double *x, int64_t n) { return la_norm(x, n); }
static bool is_finite(double x) { return isfinite(x); }

static void divide(double *x, double by, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] /= by;
}

static void face(double *x, double *y, int64_t m, int64_t n)
{
    if (wants_flip(x, m)) {
        negate(x, m);
        negate(y, n);
    }
}

static double conjugate(double x) { return x; }

#define FIELD double
#define OF_FIELD(name) name
#include "runtime/linalg_svd.def"
