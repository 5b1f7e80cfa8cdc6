/*
 * Random numbers as ops of a kernel: Philox4x32-10 (runtime/philox.h) with the number of an element as its counter, on tiles.
 *
 * The formulas are those of runtime/random.c, whose bits these are: 32-bit words are taken out of 64-bit products, and what a
 * draw does not look at nobody computes, as nodes without users go.
 */
#include "ir/schedule/schedule.h"

#include "runtime/convert.h"
#include "runtime/draw.h"
#include "runtime/kernels.h"
#include "runtime/scalar.h"

#include <math.h>

enum { ROUNDS = 10 };

typedef struct Words { TileBuilder *b; bool ok; } Words;

static TileRef map(Words *w, OpId op, DType dt, const TileRef *in, int nin)
{
    TAttr a = tattr_none;
    TileNode *n;

    a.op = (uint8_t)op;
    a.dtype = (uint8_t)dt;
    n = w->ok ? tile_add(w->b, TOP_map, &a, in, nin) : NULL;
    w->ok &= n != NULL;
    return (TileRef){n, 0};
}

static TileRef constant(Words *w, DType dt, int64_t i, double f)
{
    TAttr a = tattr_none;
    TileNode *n;

    a.dtype = (uint8_t)dt;
    a.i = i;
    a.f = f;
    n = w->ok ? tile_add(w->b, TOP_const, &a, NULL, 0) : NULL;
    w->ok &= n != NULL;
    return (TileRef){n, 0};
}

static TileRef to(Words *w, DType dt, TileRef x) { return w->ok && tile_type(x)->dtype == dt ? x : map(w, OP_convert, dt, &x, 1); }

static TileRef with(Words *w, OpId op, DType dt, TileRef x, int64_t i)
{
    return map(w, op, dt, (TileRef[]){x, constant(w, dt, i, 0)}, 2);
}

static TileRef both(Words *w, OpId op, DType dt, TileRef x, TileRef y) { return map(w, op, dt, (TileRef[]){x, y}, 2); }

/* The words of 64 bits. */
static TileRef low(Words *w, TileRef x) { return to(w, DT_uint32, with(w, OP_bitand, DT_uint64, x, 0xffffffff)); }
static TileRef high(Words *w, TileRef x) { return to(w, DT_uint32, with(w, OP_shr, DT_uint64, x, 32)); }
static TileRef joined(Words *w, TileRef lo, TileRef hi)
{
    return both(w, OP_bitor, DT_uint64, to(w, DT_uint64, lo), with(w, OP_shl, DT_uint64, to(w, DT_uint64, hi), 32));
}

static TileRef xor3(Words *w, TileRef x, TileRef y, TileRef z) { return both(w, OP_bitxor, DT_uint32, both(w, OP_bitxor, DT_uint32, x, y), z); }

/* The first two words of block (key, number); the counter's upper half is 0. */
static void block(Words *w, TileRef key, TileRef number, TileRef out[2])
{
    TileRef n = to(w, DT_uint64, number), k[2] = {low(w, key), high(w, key)}, zero = constant(w, DT_uint32, 0, 0);
    TileRef c[4] = {low(w, n), high(w, n), zero, zero};

    for (int round = 0; round < ROUNDS; round++) {
        TileRef p = with(w, OP_mul, DT_uint64, to(w, DT_uint64, c[0]), 0xD2511F53);
        TileRef q = with(w, OP_mul, DT_uint64, to(w, DT_uint64, c[2]), 0xCD9E8D57);
        TileRef first = xor3(w, high(w, q), k[0], c[1]), third = xor3(w, high(w, p), k[1], c[3]);
        c[1] = low(w, q);
        c[3] = low(w, p);
        c[0] = first;
        c[2] = third;
        k[0] = with(w, OP_add, DT_uint32, k[0], 0x9E3779B9);
        k[1] = with(w, OP_add, DT_uint32, k[1], 0xBB67AE85);
    }
    out[0] = c[0];
    out[1] = c[1];
}

/* Multiples of 2^-digits in [0, 1), exact in the dtype. */
static TileRef uniform(Words *w, const TileRef word[2], DType dt)
{
    int digits = uniform_digits(dt);
    TileRef x;

    if (dt == DT_f64) {
        x = to(w, DT_f64, to(w, DT_int64, with(w, OP_shr, DT_uint64, joined(w, word[0], word[1]), 11)));
        return both(w, OP_mul, DT_f64, x, constant(w, DT_f64, 0, 0x1p-53));
    }
    x = to(w, DT_f32, to(w, DT_int32, with(w, OP_shr, DT_uint32, word[0], 32 - digits)));
    return to(w, dt, both(w, OP_mul, DT_f32, x, constant(w, DT_f32, 0, 1.0 / (double)(1u << digits))));
}

/* ---- normal numbers: draw.c's in double ---- */

static TileRef real(Words *w, double f) { return constant(w, DT_f64, 0, f); }
static TileRef times(Words *w, TileRef x, TileRef y) { return both(w, OP_mul, DT_f64, x, y); }
static TileRef plus(Words *w, TileRef x, double f) { return both(w, OP_add, DT_f64, x, real(w, f)); }
static TileRef fma3(Words *w, TileRef x, TileRef y, TileRef z) { return map(w, OP_fma, DT_f64, (TileRef[]){x, y, z}, 3); }
static TileRef chosen(Words *w, TileRef which, TileRef x, TileRef y) { return map(w, OP_where, DT_f64, (TileRef[]){which, x, y}, 3); }

static TileRef polynomial(Words *w, TileRef x, const double *c, int n)
{
    TileRef y = real(w, c[0]);

    for (int i = 1; i < n; i++)
        y = fma3(w, y, x, real(w, c[i]));
    return y;
}

/* x_log(m 2^-32) for whole numbers m from 1 to 2^32: m is halved, exactly, until it is below 2, and once more from twice sqrt(1/2) on. */
static TileRef log_of(Words *w, TileRef m)
{
    static const double c[] = {X_LOG_POLY};
    TileRef k = real(w, -32), f, big;

    for (int step = 32; step; step /= 2) {
        big = both(w, OP_ge, DT_f64, m, real(w, (double)(1ll << step)));
        m = chosen(w, big, times(w, m, real(w, 1 / (double)(1ll << step))), m);
        k = chosen(w, big, plus(w, k, step), k);
    }
    big = both(w, OP_ge, DT_f64, m, real(w, 0x1.6a09e667f3bcdp0));
    f = plus(w, chosen(w, big, times(w, m, real(w, 0.5)), m), -1);
    k = chosen(w, big, plus(w, k, 1), k);
    return fma3(w, k, real(w, M_LN2), fma3(w, times(w, f, f), polynomial(w, f, c, sizeof c / sizeof *c), f));
}

/* x_sin(x, 0.5) for 0 < x < 2 pi. */
static TileRef cos_of(Words *w, TileRef x)
{
    static const double c[] = {X_SIN_POLY};
    TileRef s = plus(w, fma3(w, x, real(w, M_1_PI), real(w, 0.5)), X_MAGIC), whole = plus(w, s, -X_MAGIC), n = plus(w, whole, -0.5);
    TileRef minus = map(w, OP_neg, DT_f64, &n, 1), r = fma3(w, minus, real(w, X_PI_LOW), fma3(w, minus, real(w, M_PI), x)), z = times(w, r, r);
    TileRef y = fma3(w, times(w, r, z), polynomial(w, z, c, sizeof c / sizeof *c), r);
    TileRef odd = both(w, OP_eq, DT_f64, whole, real(w, 1));

    return chosen(w, odd, map(w, OP_neg, DT_f64, &y, 1), y);
}

static TileRef normal(Words *w, const TileRef word[2])
{
    TileRef m = plus(w, to(w, DT_f64, word[0]), 1), turn = times(w, plus(w, to(w, DT_f64, word[1]), 0.5), real(w, 0x1p-32 * 2 * M_PI));
    TileRef square = times(w, real(w, -2), log_of(w, m));

    return to(w, DT_f32, times(w, map(w, OP_sqrt, DT_f64, &square, 1), cos_of(w, turn)));
}

/* ---- whole numbers ---- */

/* The high half of x * range: random.c's. */
static TileRef below(Words *w, const TileRef word[2], TileRef limit)
{
    TileRef range = to(w, DT_uint64, limit), a = with(w, OP_shr, DT_uint64, range, 32), b = with(w, OP_bitand, DT_uint64, range, 0xffffffff);
    TileRef x[2] = {to(w, DT_uint64, word[0]), to(w, DT_uint64, word[1])};
    TileRef low_b = with(w, OP_shr, DT_uint64, both(w, OP_mul, DT_uint64, x[0], b), 32);
    TileRef mid = both(w, OP_add, DT_uint64, both(w, OP_mul, DT_uint64, x[1], b), low_b);
    TileRef mid2 = both(w, OP_add, DT_uint64, both(w, OP_mul, DT_uint64, x[0], a), with(w, OP_bitand, DT_uint64, mid, 0xffffffff));
    TileRef top = both(w, OP_add, DT_uint64, both(w, OP_mul, DT_uint64, x[1], a), with(w, OP_shr, DT_uint64, mid, 32));

    return both(w, OP_add, DT_uint64, top, with(w, OP_shr, DT_uint64, mid2, 32));
}

static TileRef drawn(Words *w, int kind, DType dt, const TileRef word[2], TileRef limit)
{
    TileRef x;

    switch (kind) {
    case DIST_UNIFORM:
        return uniform(w, word, dt);
    case DIST_NORMAL:
        return to(w, dt, normal(w, word));
    case DIST_BERNOULLI:
        x = to(w, DT_int64, with(w, OP_shr, DT_uint64, joined(w, word[0], word[1]), 11));
        return to(w, dt, to(w, DT_int64, both(w, OP_lt, DT_int64, x, limit)));
    case DIST_RANDINT:
        return to(w, dt, to(w, DT_int64, below(w, word, limit)));
    default:
        return to(w, dt, to(w, DT_int64, joined(w, word[0], word[1])));
    }
}

bool schedule_draws(int kind, DType dt)
{
    if (is_packed(dt) || dtype_is_complex(dt))
        return false;
    switch (kind) {
    case DIST_UNIFORM: return dtype_is_float(dt);
    case DIST_NORMAL: return dtype_is_float(dt) && lane_dtype(dt) == DT_f32;
    default: return true;
    }
}

TileRef schedule_random(TileBuilder *b, int kind, DType dt, TileRef key, TileRef number, TileRef limit)
{
    Words w = {b, key.node && number.node};
    TileRef word[2], x = {NULL, 0};

    if (w.ok)
        block(&w, key, number, word);
    if (w.ok)
        x = drawn(&w, kind, dt, word, limit);
    return w.ok ? x : (TileRef){NULL, 0};
}
