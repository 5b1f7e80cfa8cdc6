/*
 * Discrete Fourier transforms of any length along the last axis, computed in
 * double and rounded once.
 *
 * A length that factors into primes up to 31 is split factor by factor
 * (decimation in time, with a table of all N-th roots of unity); any other is
 * a convolution with a chirp, done with a power of two (Bluestein 1970).
 * kind: 0 fft, 1 ifft (divided by the length), 2 rfft, 3 irfft.
 */
#include "runtime/kernel_util.h"
#include "runtime/scalar.h"

#include "base/alloc.h"

#include <string.h>

typedef double _Complex Cx;

enum { FACTORS = 64, PRIME_MAX = 31 };

/* A transform of one length and direction. */
typedef struct Plan {
    int64_t n;                  /* its length */
    int64_t size;               /* n, or the power of two that Bluestein convolves with */
    int factor[FACTORS];        /* of size, ended by 1 */
    Cx *root;                   /* size roots: e^(-2 pi i k / size) */
    Cx *chirp, *filter;         /* Bluestein: n chirps e^(-pi i k^2 / n), and the transformed filter */
} Plan;

/* e^(-2 pi i k / n), from the first octant, where sin and cos are most exact. */
static Cx unit_root(int64_t k, int64_t n)
{
    int64_t eighth = 8 * k / n;
    double c, s, a;

    a = 2 * M_PI * ((double)(8 * k - (eighth + (eighth & 1)) * n) / 8) / (double)n;
    c = cos(a), s = sin(a);                         /* the rest is a multiple of a quarter turn */
    switch ((eighth + 1) / 2 & 3) {
    case 0: return f64_cmplx(c, -s);
    case 1: return f64_cmplx(-s, -c);
    case 2: return f64_cmplx(-c, s);
    default: return f64_cmplx(s, c);
    }
}

static bool factorise(int64_t n, int *factor)
{
    int k = 0;

    for (; n % 4 == 0; n /= 4)
        factor[k++] = 4;
    for (int p = 2; p <= PRIME_MAX && n > 1; p++)
        for (; n % p == 0; n /= p)
            factor[k++] = p;
    factor[k] = 1;
    return n == 1;
}

/* One combining step of p parts of m results each. */
static void butterflies(const Plan *p, Cx *out, int64_t m, int radix, int64_t step)
{
    Cx t[PRIME_MAX + 1];
    int64_t n = m * radix;

    for (int64_t k = 0; k < m; k++) {
        t[0] = out[k];
        for (int q = 1; q < radix; q++)
            t[q] = c128_cmul(out[q * m + k], p->root[q * k * step]);
        if (radix == 2) {
            out[k] = t[0] + t[1];
            out[m + k] = t[0] - t[1];
        } else if (radix == 4) {
            Cx a = t[0] + t[2], b = t[0] - t[2], c = t[1] + t[3], d = t[1] - t[3];
            Cx id = f64_cmplx(cimag(d), -creal(d));
            out[k] = a + c;
            out[m + k] = b + id;
            out[2 * m + k] = a - c;
            out[3 * m + k] = b - id;
        } else {
            for (int r = 0; r < radix; r++) {
                Cx sum = t[0];
                for (int q = 1; q < radix; q++)
                    sum += c128_cmul(t[q], p->root[(int64_t)q * r * m % n * step]);
                out[r * m + k] = sum;
            }
        }
    }
}

/* n inputs `stride` apart; step = size / n is the stride into the roots. */
static void transform(const Plan *p, const Cx *in, int64_t stride, Cx *out, int64_t n, int64_t step, const int *factor)
{
    int radix = *factor;
    int64_t m = n / radix;

    if (n == 1) {
        out[0] = in[0];
        return;
    }
    for (int q = 0; q < radix; q++)
        transform(p, in + q * stride, stride * radix, out + q * m, m, step * radix, factor + 1);
    butterflies(p, out, m, radix, step);
}

/* Forward transform of x (n) into y; work holds 2 * size numbers, used by Bluestein only. */
static void forward(const Plan *p, const Cx *x, Cx *y, Cx *work)
{
    Cx *a = work, *b = work + p->size;

    if (!p->chirp) {
        transform(p, x, 1, y, p->n, 1, p->factor);
        return;
    }
    for (int64_t i = 0; i < p->size; i++)
        a[i] = i < p->n ? c128_cmul(x[i], p->chirp[i]) : 0;
    transform(p, a, 1, b, p->size, 1, p->factor);
    for (int64_t i = 0; i < p->size; i++)           /* conjugated: the inverse is a forward transform of it */
        b[i] = conj(c128_cmul(b[i], p->filter[i]));
    transform(p, b, 1, a, p->size, 1, p->factor);
    for (int64_t i = 0; i < p->n; i++)
        y[i] = c128_cmul(conj(a[i]), p->chirp[i]) / (double)p->size;
}

static void plan_done(Plan *p)
{
    tsr_free_aligned(p->root);
    tsr_free_aligned(p->chirp);
    tsr_free_aligned(p->filter);
}

static bool plan_init(KCtx *c, Plan *p, int64_t n)
{
    *p = (Plan){.n = n, .size = n};
    if (!factorise(n, p->factor)) {
        for (p->size = 1; p->size < 2 * n - 1;)
            p->size *= 2;
        factorise(p->size, p->factor);
        p->chirp = k_scratch(c, n, sizeof(Cx));
        p->filter = k_scratch(c, p->size * 2, sizeof(Cx));
        if (!p->chirp || !p->filter)
            return false;
    }
    if (!(p->root = k_scratch(c, p->size, sizeof(Cx))))
        return false;
    for (int64_t k = 0; k < p->size; k++)
        p->root[k] = unit_root(k, p->size);
    if (p->chirp) {
        Cx *f = p->filter + p->size;
        memset(f, 0, (size_t)p->size * sizeof(Cx));
        for (int64_t k = 0, square = 0; k < n; square = (square + 2 * k + 1) % (2 * n), k++) {
            p->chirp[k] = unit_root(square, 2 * n);     /* square is k^2 mod 2n */
            f[k] = f[(p->size - k) % p->size] = conj(p->chirp[k]);
        }
        transform(p, f, 1, p->filter, p->size, 1, p->factor);
    }
    return true;
}

typedef struct FftJob {
    Plan plan;
    int kind;
    int64_t nin, nout;          /* row lengths */
    Reader in, out;
    int64_t rows, parts, room;  /* room: scratch numbers of a part */
    Cx *scratch;
} FftJob;

/* Row `row` as plan.n complex numbers: irfft fills in the other half, the inverses conjugate. */
static void load_row(const FftJob *j, int64_t row, Cx *x)
{
    TileBuf buf, spare;
    int64_t n = j->plan.n, have = j->kind == 3 && n / 2 + 1 < j->nin ? n / 2 + 1 : j->nin;

    memset(x, 0, (size_t)n * sizeof *x);
    for (int64_t i = 0; i < have; i += TILE) {
        int64_t k = have - i < TILE ? have - i : TILE;
        lane_convert(DT_c128, x + i, lane_dtype(j->in.as), reader_lanes(&j->in, row * j->nin + i, k, buf.at, spare.at), k);
    }
    if (j->kind == 3) {
        x[0] = creal(x[0]);
        for (int64_t i = n / 2 + 1; i < n; i++)
            x[i] = conj(x[n - i]);
        if (n % 2 == 0)
            x[n / 2] = creal(x[n / 2]);
    }
    for (int64_t i = 0; j->kind & 1 && i < n; i++)
        x[i] = conj(x[i]);
}

static void store_row(const FftJob *j, int64_t row, Cx *y)
{
    TileBuf raw;

    for (int64_t i = 0; j->kind & 1 && i < j->nout; i++)
        y[i] = conj(y[i]) / (double)j->plan.n;
    for (int64_t i = 0; i < j->nout; i += TILE) {
        int64_t k = j->nout - i < TILE ? j->nout - i : TILE;
        raw_convert(j->out.dtype, raw.at, DT_c128, y + i, k, NULL, 0);
        writer_raw(&j->out, row * j->nout + i, k, raw.at);
    }
}

static void fft_part(int64_t lo, int64_t hi, void *st)
{
    const FftJob *j = st;

    for (int64_t part = lo; part < hi; part++) {
        Cx *x = j->scratch + part * j->room, *y = x + j->plan.n;
        for (int64_t row = part * j->rows / j->parts; row < (part + 1) * j->rows / j->parts; row++) {
            load_row(j, row, x);
            forward(&j->plan, x, y, y + j->plan.n);
            store_row(j, row, y);
        }
    }
}

KStatus kernel_fft(KERNEL_ARGS)
{
    const Tensor *x = in[0];
    FftJob j = {.kind = a->kind, .nin = x->shape[x->rank - 1], .nout = type->shape[type->rank - 1]};
    KStatus s = K_NOMEM;

    (void)op, (void)nin;
    if (j.nout == 0 || j.nin == 0)
        return k_fail(c, K_VALUE, "fft of an empty axis");
    if (!(out[0] = k_result(c, type)))
        return K_NOMEM;
    reader_init(&j.in, x);
    reader_init(&j.out, out[0]);
    if (plan_init(c, &j.plan, j.kind == 3 ? j.nout : j.nin)) {
        j.rows = tensor_size(x) / j.nin;
        j.parts = j.rows < 4 * pool_threads() ? j.rows : 4 * pool_threads();
        j.room = 2 * j.plan.n + (j.plan.chirp ? 2 * j.plan.size : 0);
        j.scratch = k_scratch(c, j.parts * j.room + 1, sizeof(Cx));
        if (j.scratch) {
            pool_for(j.parts, 1, fft_part, &j);
            s = K_OK;
        }
        tsr_free_aligned(j.scratch);
    }
    plan_done(&j.plan);
    if (s != K_OK)
        tensor_unref(out[0]);
    return s;
}
