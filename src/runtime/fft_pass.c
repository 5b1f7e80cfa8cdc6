/* Passes of Fourier transforms, along the axis in which neighbours lie: q, or p in the first pass. */
#include "runtime/fft_pass.h"

#include "runtime/each.h"

/* ---- butterflies: numbers ar, ai and so on from parts of x, results into parts of y ---- */

#define LOAD(v, k) double v##r = x.re[IN(k)], v##i = x.im[IN(k)];
#define STORE(t, r_, i_) \
    { \
        double r = r_, i = i_; \
        y.re[OUT(t)] = r; \
        y.im[OUT(t)] = i; \
    }
#define STORE_TURNED(t, r_, i_) \
    { \
        double r = r_, i = i_, c = W(t).re, d = W(t).im; \
        y.re[OUT(t)] = r * c - i * d; \
        y.im[OUT(t)] = r * d + i * c; \
    }

#define BUTTERFLY_2 \
    LOAD(a, 0) LOAD(b, 1) \
    STORE(0, ar + br, ai + bi) STORE_TURNED(1, ar - br, ai - bi)

#define HALF_SQRT3 0x1.bb67ae8584caap-1
#define BUTTERFLY_3 \
    LOAD(a, 0) LOAD(b, 1) LOAD(c, 2) \
    double sr = br + cr, si = bi + ci, dr = (bi - ci) * HALF_SQRT3, di = (cr - br) * HALF_SQRT3, mr = ar - 0.5 * sr, mi = ai - 0.5 * si; \
    STORE(0, ar + sr, ai + si) STORE_TURNED(1, mr + dr, mi + di) STORE_TURNED(2, mr - dr, mi - di)

#define BUTTERFLY_4 \
    LOAD(a, 0) LOAD(b, 1) LOAD(c, 2) LOAD(d, 3) \
    double er = ar + cr, ei = ai + ci, fr = ar - cr, fi = ai - ci, gr = br + dr, gi = bi + di, hr = bi - di, hi = dr - br; \
    STORE(0, er + gr, ei + gi) STORE_TURNED(1, fr + hr, fi + hi) STORE_TURNED(2, er - gr, ei - gi) STORE_TURNED(3, fr - hr, fi - hi)

#define COS1 0x1.3c6ef372fe950p-2       /* cos and sin of 72 and 144 degrees */
#define COS2 -0x1.9e3779b97f4a8p-1
#define SIN1 0x1.e6f0e134454ffp-1
#define SIN2 0x1.2cf2304755a5ep-1
#define BUTTERFLY_5 \
    LOAD(a, 0) LOAD(b, 1) LOAD(c, 2) LOAD(d, 3) LOAD(e, 4) \
    double pr = br + er, pi = bi + ei, qr = cr + dr, qi = ci + di, ur = bi - ei, ui = er - br, vr = ci - di, vi = dr - cr; \
    double gr = ar + (COS1 * pr + COS2 * qr), gi = ai + (COS1 * pi + COS2 * qi); \
    double hr = ar + (COS2 * pr + COS1 * qr), hi = ai + (COS2 * pi + COS1 * qi); \
    double jr = SIN1 * ur + SIN2 * vr, ji = SIN1 * ui + SIN2 * vi, kr = SIN2 * ur - SIN1 * vr, ki = SIN2 * ui - SIN1 * vi; \
    STORE(0, ar + (pr + qr), ai + (pi + qi)) STORE_TURNED(1, gr + jr, gi + ji) STORE_TURNED(2, hr + kr, hi + ki) \
    STORE_TURNED(3, hr - kr, hi - ki) STORE_TURNED(4, gr - jr, gi - ji)

/* ---- loops ---- */

typedef struct { double re, im; } One;

/* The first pass: s = 1. */
#define FIRST(r) \
    static void first_##r(int64_t m, Parts x, Parts y, Parts w) \
    { \
        EACH(p, m) { \
            const int radix = r; \
            BUTTERFLY_##r \
        } \
    }
#define IN(k) (p + m * (k))
#define OUT(t) (radix * p + (t))
#define W(t) ((One){w.re[((t) - 1) * m + p], w.im[((t) - 1) * m + p]})
FIRST(2)
FIRST(3)
FIRST(4)
FIRST(5)
#undef IN
#undef OUT
#undef W

/* The others: x and y begin at their numbers of one p, whose turns are w. */
#define ALONG(r) \
    static void along_##r(int64_t m, int64_t s, Parts x, Parts y, const One *w) \
    { \
        EACH(q, s) { \
            BUTTERFLY_##r \
        } \
    }
#define IN(k) (q + s * m * (k))
#define OUT(t) (q + s * (t))
#define W(t) w[t]
ALONG(2)
ALONG(3)
ALONG(4)
ALONG(5)

static Parts from(Parts x, int64_t at) { return (Parts){x.re + at, x.im + at}; }

#define PASS(r) \
    static void pass_##r(int64_t m, int64_t s, Parts x, Parts y, Parts w) \
    { \
        if (s == 1) { \
            first_##r(m, x, y, w); \
            return; \
        } \
        for (int64_t p = 0; p < m; p++) { \
            One turn[r]; \
            for (int t = 1; t < r; t++) \
                turn[t] = (One){w.re[(t - 1) * m + p], w.im[(t - 1) * m + p]}; \
            along_##r(m, s, from(x, s * p), from(y, s * r * p), turn); \
        } \
    }
PASS(2)
PASS(3)
PASS(4)
PASS(5)

/* y += x c, for a number c. */
static void add_times(int64_t s, Parts y, Parts x, One c)
{
    EACH(q, s) {
        double r = x.re[q], i = x.im[q];
        y.re[q] += r * c.re - i * c.im;
        y.im[q] += r * c.im + i * c.re;
    }
}

static void times(int64_t s, Parts y, One c)
{
    EACH(q, s) {
        double r = y.re[q], i = y.im[q];
        y.re[q] = r * c.re - i * c.im;
        y.im[q] = r * c.im + i * c.re;
    }
}

static void pass_any(int r, int64_t m, int64_t s, Parts x, Parts y, Parts w, Parts root)
{
    for (int64_t p = 0; p < m; p++)
        for (int t = 0; t < r; t++) {
            Parts out = from(y, s * (r * p + t));
            for (int64_t q = 0; q < s; q++)
                out.re[q] = out.im[q] = 0;
            for (int k = 0; k < r; k++)
                add_times(s, out, from(x, s * (p + m * k)), (One){root.re[k * t % r], root.im[k * t % r]});
            if (t)
                times(s, out, (One){w.re[(t - 1) * m + p], w.im[(t - 1) * m + p]});
        }
}

const FftPasses PASTE(fft, VARIANT) = {{[2] = pass_2, [3] = pass_3, [4] = pass_4, [5] = pass_5}, pass_any};
