/*
 * Discrete Fourier transforms of any length along the last axis, computed in
 * double and rounded once.
 *
 * A length that factors into primes up to 31 is transformed in one pass for
 * each factor, between two buffers, with real and imaginary parts apart, so
 * that neighbours are vectors (fft_pass.h).  Any other is a convolution with a
 * chirp, done with a length of small factors (Bluestein 1970).  Even lengths of
 * real data are transformed as half as many complex numbers.  The plan of the
 * last length is kept, unless it is large.
 * kind: 0 fft, 1 ifft (divided by the length), 2 rfft, 3 irfft.
 */
#include "runtime/cpu.h"
#include "runtime/fft_pass.h"
#include "runtime/kernel_util.h"

#include "base/alloc.h"

#include <math.h>
#include <string.h>

enum { FACTORS = 64, ROOTS_AT_ONCE = 256, KEPT_MAX = 1 << 17 };

/* A forward transform of one length. */
typedef struct Plan {
    int64_t n;                  /* its length */
    int64_t size;               /* n, or the length that Bluestein convolves with */
    int factor[FACTORS];        /* of size, ended by 1 */
    Parts root;                 /* e^(-2 pi i k / size) for k < size */
    Parts turn;                 /* the factors w of all passes, one behind another */
    Parts chirp, filter;        /* Bluestein: n chirps e^(-pi i k^2 / n), and the transformed filter */
    Parts fold;                 /* once 2 n real numbers were transformed: e^(-pi i k / n) for k <= n */
} Plan;

/* ---- roots of unity ---- */

static Parts parts_of(double *room, int64_t n) { return (Parts){room, room ? room + n : NULL}; }

static Parts parts_new(KCtx *c, int64_t n) { return parts_of(k_scratch(c, 2 * n + 2, sizeof(double)), n + 1); }

static void parts_free(Parts x) { tsr_free_aligned(x.re); }

/* e^(-2 pi i at[j] / n), from the first octant, where sin and cos are most exact. */
static void some_roots(int64_t n, const int64_t *at, int64_t count, double *re, double *im)
{
    double angle[ROOTS_AT_ONCE], c[ROOTS_AT_ONCE], s[ROOTS_AT_ONCE];
    int turns[ROOTS_AT_ONCE];

    for (int64_t j = 0; j < count; j++) {
        int64_t k = at[j], eighth = 8 * k / n;
        angle[j] = 2 * M_PI * ((double)(8 * k - (eighth + (eighth & 1)) * n) / 8) / (double)n;
        turns[j] = (int)((eighth + 1) / 2 & 3);     /* the rest is so many quarter turns */
    }
    loop_find(OP_cos, DT_f64)(count, c, angle, NULL, NULL);
    loop_find(OP_sin, DT_f64)(count, s, angle, NULL, NULL);
    for (int64_t j = 0; j < count; j++) {
        double x = turns[j] & 1 ? s[j] : c[j], y = turns[j] & 1 ? c[j] : s[j];
        re[j] = turns[j] == 0 || turns[j] == 3 ? x : -x;
        im[j] = turns[j] < 2 ? -y : y;
    }
}

/* The first `count` of them; squares: at k^2 / 2 instead of k. */
static void roots(int64_t n, int64_t count, bool squares, Parts out)
{
    int64_t at[ROOTS_AT_ONCE], square = 0;

    for (int64_t lo = 0; lo < count; lo += ROOTS_AT_ONCE) {
        int64_t k = count - lo < ROOTS_AT_ONCE ? count - lo : ROOTS_AT_ONCE;
        for (int64_t j = 0; j < k; j++) {
            at[j] = squares ? square : lo + j;
            square = (square + 2 * (lo + j) + 1) % (2 * n);
        }
        some_roots(squares ? 2 * n : n, at, k, out.re + lo, out.im + lo);
    }
}

/* ---- transforms of complex numbers ---- */

static bool factorise(int64_t n, int *factor)
{
    int k = 0;

    for (; n % 4 == 0; n /= 4)
        factor[k++] = 4;
    for (int p = 2; p <= FFT_PRIME_MAX && n > 1; p++)
        for (; n % p == 0; n /= p)
            factor[k++] = p;
    factor[k] = 1;
    return n == 1;
}

/* Of size numbers in a; b is room for as many. Which of the two has the result? */
static Parts passes(const Plan *p, Parts a, Parts b)
{
    const FftPasses *pass = cpu()->fft;
    Parts w = p->turn;

    for (int64_t k = 0, s = 1; p->factor[k] > 1; s *= p->factor[k++]) {
        int r = p->factor[k];
        int64_t m = p->size / s / r;
        double re[FFT_PRIME_MAX], im[FFT_PRIME_MAX];
        for (int t = 0; t < r && r > 5; t++) {
            re[t] = p->root.re[p->size / r * t];
            im[t] = p->root.im[p->size / r * t];
        }
        if (r > 5)
            pass->any(r, m, s, a, b, w, (Parts){re, im});
        else
            pass->by[r](m, s, a, b, w);
        w = (Parts){w.re + (r - 1) * m, w.im + (r - 1) * m};
        Parts t = a;
        a = b, b = t;
    }
    return a;
}

static void multiply(int64_t n, Parts x, Parts y, Parts out)
{
    for (int64_t i = 0; i < n; i++) {
        double r = x.re[i] * y.re[i] - x.im[i] * y.im[i], s = x.re[i] * y.im[i] + x.im[i] * y.re[i];
        out.re[i] = r;
        out.im[i] = s;
    }
}

static Parts swapped(Parts x) { return (Parts){x.im, x.re}; }       /* its forward transform is the swapped inverse one */

/* Of n numbers in a, which has room for size, as b does; the result is in either. */
static Parts forward(const Plan *p, Parts a, Parts b)
{
    if (!p->chirp.re)
        return passes(p, a, b);
    multiply(p->n, a, p->chirp, a);
    memset(a.re + p->n, 0, (size_t)(p->size - p->n) * sizeof *a.re);
    memset(a.im + p->n, 0, (size_t)(p->size - p->n) * sizeof *a.im);
    Parts y = passes(p, a, b), other = y.re == a.re ? b : a;
    multiply(p->size, y, p->filter, y);
    y = swapped(passes(p, swapped(y), swapped(other)));
    multiply(p->n, y, p->chirp, y);
    for (int64_t i = 0; i < p->n; i++) {
        y.re[i] /= (double)p->size;
        y.im[i] /= (double)p->size;
    }
    return y;
}

static void plan_done(Plan *p)
{
    parts_free(p->root);
    parts_free(p->turn);
    parts_free(p->chirp);
    parts_free(p->filter);
    parts_free(p->fold);
    *p = (Plan){0};
}

/* The turns of all passes. */
static bool plan_turns(KCtx *c, Plan *p)
{
    int64_t all = 0, at = 0;

    for (int64_t k = 0, left = p->size; p->factor[k] > 1; left /= p->factor[k++])
        all += left / p->factor[k] * (p->factor[k] - 1);
    p->turn = parts_new(c, all);
    for (int64_t k = 0, s = 1; p->turn.re && p->factor[k] > 1; s *= p->factor[k++]) {
        int64_t m = p->size / s / p->factor[k];
        for (int64_t t = 1; t < p->factor[k]; t++)
            for (int64_t i = 0; i < m; i++, at++) {
                p->turn.re[at] = p->root.re[i * t * s];
                p->turn.im[at] = p->root.im[i * t * s];
            }
    }
    return p->turn.re != NULL;
}

/* The chirp, and its convolution's filter, transformed. */
static bool plan_chirp(KCtx *c, Plan *p)
{
    Parts f = parts_new(c, p->size), room = parts_new(c, p->size);
    bool ok;

    p->chirp = parts_new(c, p->n);
    p->filter = parts_new(c, p->size);
    ok = f.re && room.re && p->chirp.re && p->filter.re;
    if (ok) {
        roots(p->n, p->n, true, p->chirp);
        memset(f.re, 0, (size_t)p->size * sizeof *f.re);
        memset(f.im, 0, (size_t)p->size * sizeof *f.im);
        for (int64_t k = 0; k < p->n; k++) {
            f.re[k] = f.re[(p->size - k) % p->size] = p->chirp.re[k];
            f.im[k] = f.im[(p->size - k) % p->size] = -p->chirp.im[k];
        }
        Parts y = passes(p, f, room);
        memcpy(p->filter.re, y.re, (size_t)p->size * sizeof *y.re);
        memcpy(p->filter.im, y.im, (size_t)p->size * sizeof *y.im);
    }
    parts_free(f);
    parts_free(room);
    return ok;
}

/* The least product of twos, threes and fives from n on. */
static int64_t good_length(int64_t n)
{
    int64_t best = INT64_MAX;

    for (int64_t five = 1; five < 5 * n; five *= 5)
        for (int64_t three = five; three < 3 * n; three *= 3) {
            int64_t two = three;
            while (two < n)
                two *= 2;
            best = two < best ? two : best;
        }
    return best;
}

static bool plan_init(KCtx *c, Plan *p, int64_t n)
{
    bool smooth;

    *p = (Plan){.n = n, .size = n};
    smooth = factorise(n, p->factor);
    if (!smooth) {
        p->size = good_length(2 * n - 1);
        factorise(p->size, p->factor);
    }
    p->root = parts_new(c, p->size);
    if (!p->root.re)
        return false;
    roots(p->size, p->size, false, p->root);
    return plan_turns(c, p) && (smooth || plan_chirp(c, p));
}

/* ---- the plan at hand ---- */

static Plan kept;

/* A plan of that length, with `fold` if it is wanted: the kept one, or *own, which is to be ended. NULL: no memory. */
static const Plan *plan_find(KCtx *c, int64_t n, bool fold, Plan *own)
{
    Plan *p = kept.n == n ? &kept : own;

    if (p == own && !plan_init(c, own, n))
        return NULL;
    if (fold && !p->fold.re) {
        if (!(p->fold = parts_new(c, n + 1)).re)
            return NULL;
        roots(2 * n, n + 1, false, p->fold);
    }
    if (p == own && own->size <= KEPT_MAX) {
        plan_done(&kept);
        kept = *own;
        *own = (Plan){0};
        p = &kept;
    }
    return p;
}

/* ---- rows ---- */

typedef struct FftJob {
    const Plan *plan;           /* of length n, or n / 2 when `half` */
    int kind;
    bool half, inverse;         /* half: the numbers on one side are real, and n is even */
    int64_t n, nin, nout;       /* the transform's length; row lengths */
    Reader in, out;
    int64_t rows, parts, room;  /* room: scratch doubles of a part */
    double *scratch;
} FftJob;

/* `have` numbers of a row as parts of complex ones. */
static void load_complex(const FftJob *j, int64_t row, int64_t have, Parts x)
{
    TileBuf buf, spare;
    double wide[2 * TILE];

    for (int64_t i = 0; i < have; i += TILE) {
        int64_t k = have - i < TILE ? have - i : TILE;
        lane_convert(DT_c128, wide, lane_dtype(j->in.as), reader_lanes(&j->in, row * j->nin + i, k, buf.at, spare.at), k);
        for (int64_t q = 0; q < k; q++) {
            x.re[i + q] = wide[2 * q];
            x.im[i + q] = wide[2 * q + 1];
        }
    }
}

/* n real numbers as n / 2 complex ones. */
static void load_pairs(const FftJob *j, int64_t row, Parts x)
{
    TileBuf buf, spare;
    double wide[TILE];

    for (int64_t i = 0; i < j->n; i += TILE) {
        int64_t k = j->n - i < TILE ? j->n - i : TILE;
        lane_convert(DT_f64, wide, lane_dtype(j->in.as), reader_lanes(&j->in, row * j->nin + i, k, buf.at, spare.at), k);
        for (int64_t q = 0; q < k / 2; q++) {
            x.re[i / 2 + q] = wide[2 * q];
            x.im[i / 2 + q] = wide[2 * q + 1];
        }
    }
}

static void store_complex(const FftJob *j, int64_t row, Parts y)
{
    double wide[2 * TILE];
    TileBuf raw;

    for (int64_t i = 0; i < j->nout; i += TILE) {
        int64_t k = j->nout - i < TILE ? j->nout - i : TILE;
        for (int64_t q = 0; q < k; q++) {
            wide[2 * q] = y.re[i + q];
            wide[2 * q + 1] = y.im[i + q];
        }
        raw_convert(j->out.dtype, raw.at, DT_c128, wide, k, NULL, 0);
        writer_raw(&j->out, row * j->nout + i, k, raw.at);
    }
}

static void store_pairs(const FftJob *j, int64_t row, Parts y)
{
    double wide[TILE];
    TileBuf raw;

    for (int64_t i = 0; i < j->nout; i += TILE) {
        int64_t k = j->nout - i < TILE ? j->nout - i : TILE;
        for (int64_t q = 0; q < k / 2; q++) {
            wide[2 * q] = y.re[i / 2 + q];
            wide[2 * q + 1] = y.im[i / 2 + q];
        }
        raw_convert(j->out.dtype, raw.at, DT_f64, wide, k, NULL, 0);
        writer_raw(&j->out, row * j->nout + i, k, raw.at);
    }
}

/*
 * z = even + i odd of n real numbers, transformed to Z: the transforms of the two are E = (Z_k + Z'_-k) / 2 and
 * O = (Z_k - Z'_-k) / 2i, and the whole is E + w^k O.  All n + 1 or n / 2 + 1 points.
 */
static void unfold(const FftJob *j, Parts z, Parts y)
{
    int64_t h = j->n / 2;

    for (int64_t k = 0; k <= h; k++) {
        int64_t a = k == h ? 0 : k, b = k == 0 || k == h ? 0 : h - k;
        double er = 0.5 * (z.re[a] + z.re[b]), ei = 0.5 * (z.im[a] - z.im[b]), or = 0.5 * (z.im[a] + z.im[b]), oi = 0.5 * (z.re[b] - z.re[a]);
        y.re[k] = er + (j->plan->fold.re[k] * or - j->plan->fold.im[k] * oi);
        y.im[k] = ei + (j->plan->fold.re[k] * oi + j->plan->fold.im[k] * or);
    }
    for (int64_t k = h + 1; k < j->nout; k++) {
        y.re[k] = y.re[j->n - k];
        y.im[k] = -y.im[j->n - k];
    }
}

/* The other way: Z = E + i O, twice, from n / 2 + 1 points of a real transform. */
static void fold(const FftJob *j, Parts x, Parts z)
{
    int64_t h = j->n / 2;

    for (int64_t k = 0; k < h; k++) {
        double er = x.re[k] + x.re[h - k], ei = x.im[k] - x.im[h - k], dr = x.re[k] - x.re[h - k], di = x.im[k] + x.im[h - k];
        double or = dr * j->plan->fold.re[k] + di * j->plan->fold.im[k], oi = di * j->plan->fold.re[k] - dr * j->plan->fold.im[k];
        z.re[k] = er - oi;
        z.im[k] = ei + or;
    }
}

/* What an inverse of real numbers leaves out of its first half: they are conjugates. */
static void mirror(const FftJob *j, Parts x)
{
    x.im[0] = 0;
    for (int64_t i = j->n / 2 + 1; i < j->n; i++) {
        x.re[i] = x.re[j->n - i];
        x.im[i] = -x.im[j->n - i];
    }
    if (j->n % 2 == 0)
        x.im[j->n / 2] = 0;
}

static void clear_from(Parts x, int64_t at, int64_t n)
{
    for (int64_t i = at; i < n; i++)
        x.re[i] = x.im[i] = 0;
}

static void scale(Parts y, int64_t n, double by)
{
    for (int64_t i = 0; i < n; i++) {
        y.re[i] /= by;
        y.im[i] /= by;
    }
}

/* One row; a and b have room for the plan's size and for n numbers. */
static void do_row(const FftJob *j, int64_t row, Parts a, Parts b)
{
    int64_t half = j->n / 2 + 1, have = j->kind == 3 && half < j->nin ? half : j->nin;
    Parts y;

    if (j->half && !j->inverse) {
        load_pairs(j, row, a);
        y = forward(j->plan, a, b);
        b = y.re == a.re ? b : a;
        unfold(j, y, b);
        store_complex(j, row, b);
        return;
    }
    load_complex(j, row, have, a);
    clear_from(a, have, j->kind == 3 ? half : j->n);
    if (j->half) {
        a.im[0] = a.im[j->n / 2] = 0;
        fold(j, a, b);
        y = swapped(forward(j->plan, swapped(b), swapped(a)));
        scale(y, j->n / 2, (double)j->n);
        store_pairs(j, row, y);
        return;
    }
    if (j->kind == 3)
        mirror(j, a);
    y = j->inverse ? swapped(forward(j->plan, swapped(a), swapped(b))) : forward(j->plan, a, b);
    if (j->inverse)
        scale(y, j->n, (double)j->n);
    store_complex(j, row, y);
}

static void fft_part(int64_t lo, int64_t hi, void *st)
{
    const FftJob *j = st;

    for (int64_t part = lo; part < hi; part++) {
        Parts a = parts_of(j->scratch + part * j->room, j->room / 4), b = parts_of(a.re + j->room / 2, j->room / 4);
        for (int64_t row = part * j->rows / j->parts; row < (part + 1) * j->rows / j->parts; row++)
            do_row(j, row, a, b);
    }
}

static bool job_init(KCtx *c, FftJob *j, bool real, Plan *own)
{
    j->half = real && j->n % 2 == 0;
    j->inverse = j->kind & 1;
    if (!(j->plan = plan_find(c, j->half ? j->n / 2 : j->n, j->half, own)))
        return false;
    j->room = 4 * ((j->plan->size > j->n ? j->plan->size : j->n) + 16);
    j->scratch = k_scratch(c, j->parts * j->room + 1, sizeof(double));
    return j->scratch != NULL;
}

KStatus kernel_fft(KERNEL_ARGS)
{
    const Tensor *x = in[0];
    FftJob j = {.kind = a->kind, .nin = x->shape[x->rank - 1], .nout = type->shape[type->rank - 1]};
    bool real = j.kind == 3 || (!dtype_is_complex((DType)x->dtype) && j.kind != 1), ok;
    Plan own = {0};

    (void)op, (void)nin;
    if (j.nout == 0 || j.nin == 0)
        return k_fail(c, K_VALUE, "fft of an empty axis");
    if (!(out[0] = k_result(c, type)))
        return K_NOMEM;
    reader_init(&j.in, x);
    writer_init(&j.out, out[0]);
    j.n = j.kind == 3 ? j.nout : j.nin;
    j.rows = tensor_size(x) / j.nin;
    j.parts = j.rows < 4 * pool_threads() ? j.rows : 4 * pool_threads();
    ok = job_init(c, &j, real, &own);
    if (ok)
        pool_for(j.parts, 1, fft_part, &j);
    else
        tensor_unref(out[0]);
    tsr_free_aligned(j.scratch);
    plan_done(&own);
    return ok ? K_OK : K_NOMEM;
}
