/*
 * Random numbers as ops of a kernel: Philox4x32-10 (runtime/philox.h) with the number of an element as its counter, on tiles.
 *
 * The formulas are those of runtime/random.c, whose bits these are: 32-bit words are taken out of 64-bit products, and what a
 * draw does not look at nobody computes, as nodes without users go.
 */
#include "ir/schedule/schedule.h"

#include "runtime/draw.h"
#include "runtime/kernels.h"

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

TileRef schedule_random(TileBuilder *b, const Node *node, TileRef key, TileRef number)
{
    DType dt = (DType)node->type[0].dtype;
    Words w = {b, key.node && number.node};
    TileRef word[2], x = {NULL, 0};

    if (w.ok)
        block(&w, key, number, word);
    if (w.ok)
        x = node->attr->kind == DIST_UNIFORM ? uniform(&w, word, dt) : to(&w, dt, to(&w, DT_int64, joined(&w, word[0], word[1])));
    return w.ok ? x : (TileRef){NULL, 0};
}
