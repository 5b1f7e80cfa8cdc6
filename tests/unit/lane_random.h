/*
 * lane_random.h - random kernels whose groups have several lanes, as text.
 *
 * Statements take what is in scope: indices, floats and bools, some the same
 * in all lanes and some not.  Shared memory is stored to, met over and read;
 * what a lane has at last it stores to a place of its own.
 */
#ifndef TSR_TESTS_LANE_RANDOM_H
#define TSR_TESTS_LANE_RANDOM_H

#include "tensors.h"

#include "base/strbuf.h"

enum { LR_SCOPE = 200, LR_OUT = 6 };

typedef struct LaneRandom {
    StrBuf text;
    int lanes, next, depth, budget;
    int ints[LR_SCOPE], floats[LR_SCOPE], nints, nfloats;
    bool split;                         /* may lanes be missing here? */
    int varying;                        /* ints from here on may vary; those before are the same in all lanes */
    int zero, one;
} LaneRandom;

static inline int lr_int(LaneRandom *r) { return r->ints[rnd_to((uint64_t)r->nints)]; }
static inline int lr_float(LaneRandom *r) { return r->floats[rnd_to((uint64_t)r->nfloats)]; }

static inline void lr_keep_int(LaneRandom *r, int v) { r->ints[r->nints < LR_SCOPE ? r->nints++ : LR_SCOPE - 1] = v; }
static inline void lr_keep_float(LaneRandom *r, int v) { r->floats[r->nfloats < LR_SCOPE ? r->nfloats++ : LR_SCOPE - 1] = v; }

static inline int lr_number(LaneRandom *r, int64_t i)
{
    sb_printf(&r->text, "%%%d: index = index {i=%lld}\n", r->next, (long long)i);
    return r->next++;
}

static inline int lr_two(LaneRandom *r, const char *op, const char *type, int a, int b)
{
    sb_printf(&r->text, "%%%d: %s = %s %%%d, %%%d\n", r->next, type, op, a, b);
    return r->next++;
}

static inline void lr_index(LaneRandom *r)
{
    static const char *const ops[] = {"iadd", "isub", "imul", "imin", "imax", "idiv", "imod", "idiv", "imod"};
    size_t op = rnd_to(9);
    int b = lr_int(r);

    if (op >= 5)
        b = rnd_to(2) ? lr_number(r, 1 + (int64_t)rnd_to(rnd_to(2) ? 5 : 40)) : lr_two(r, "imax", "index", b, r->one);
    b = lr_two(r, ops[op], "index", lr_int(r), b);
    if (op == 2)
        b = lr_two(r, "imod", "index", b, lr_number(r, 77));
    lr_keep_int(r, b);
}

static inline int lr_flag(LaneRandom *r)
{
    int b = lr_number(r, (int64_t)rnd_to(20));

    return lr_two(r, rnd_to(3) ? "ilt" : "ieq", "bool[]", lr_int(r), rnd_to(2) ? b : lr_int(r));
}

static inline void lr_map(LaneRandom *r)
{
    static const char *const ops[] = {"add", "mul", "maximum", "sub"};
    int flag;

    switch (rnd_to(4)) {
    case 0:
        flag = lr_flag(r);
        sb_printf(&r->text, "%%%d: f32[] = map where %%%d, %%%d, %%%d\n", r->next, flag, lr_float(r), lr_float(r));
        break;
    case 1: sb_printf(&r->text, "%%%d: f32[] = map abs %%%d\n", r->next, lr_float(r)); break;
    default: sb_printf(&r->text, "%%%d: f32[] = map %s %%%d, %%%d\n", r->next, ops[rnd_to(4)], lr_float(r), lr_float(r));
    }
    lr_keep_float(r, r->next++);
}

static inline void lr_load(LaneRandom *r)
{
    if (rnd_to(2))
        sb_printf(&r->text, "%%%d: f32[] = load %%x[%%%d] {shape=(1) drop=1 f=2.5}\n", r->next, lr_int(r));
    else
        sb_printf(&r->text, "%%%d: f32[] = load %%m[%%%d, %%%d] {shape=(1, 1) drop=3}\n", r->next, lr_int(r), lr_int(r));
    lr_keep_float(r, r->next++);
}

static inline void lr_convert(LaneRandom *r)
{
    int small = lr_two(r, "imod", "index", lr_int(r), lr_number(r, 1000));

    sb_printf(&r->text, "%%%d: int32[] = to_tile %%%d {dtype=int32}\n", r->next, small);
    sb_printf(&r->text, "%%%d: f32[] = map convert %%%d {dtype=f32}\n", r->next + 1, r->next);
    lr_keep_float(r, r->next + 1);
    r->next += 2;
}

/* The lane's own buffer. */
static inline void lr_local(LaneRandom *r)
{
    int at = lr_two(r, "imod", "index", lr_int(r), lr_number(r, 4));

    sb_printf(&r->text, "store %%8[%%%d], %%%d {drop=1}\n%%%d: f32[] = load %%8[%%%d] {shape=(1) drop=1}\n", at, lr_float(r), r->next, at);
    lr_keep_float(r, r->next++);
}

static inline void lr_shared(LaneRandom *r)
{
    int at = lr_two(r, "iadd", "index", 3, lr_int(r)), count = lr_number(r, r->lanes);

    at = lr_two(r, "imod", "index", at, count);
    sb_printf(&r->text, "barrier\nstore %%7[%%3], %%%d {drop=1}\nbarrier\n", lr_float(r));
    sb_printf(&r->text, "%%%d: f32[] = load %%7[%%%d] {shape=(1) drop=1}\n", r->next, at);
    lr_keep_float(r, r->next++);
}

static inline void lr_together(LaneRandom *r)
{
    static const char *const ops[] = {"sum", "max", "min"};
    int run = 1 << rnd_to(6);

    if (!r->split && !rnd_to(3))
        run = 0;
    switch (rnd_to(4)) {
    case 0:
        sb_printf(&r->text, "%%%d: f32[] = shuffle %%%d, %%%d {i=%d}\n", r->next, lr_float(r), lr_int(r), run);
        lr_keep_float(r, r->next++);
        break;
    case 1:
        sb_printf(&r->text, "%%%d: index = match %%%d {i=%d}\n", r->next, lr_int(r), run ? run : 4);
        lr_keep_int(r, r->next++);
        break;
    default:
        sb_printf(&r->text, "%%%d: f32[] = lane_reduce %s %%%d {i=%d}\n", r->next, ops[rnd_to(3)], lr_float(r), run);
        lr_keep_float(r, r->next++);
    }
}

static inline void lr_atomic(LaneRandom *r)
{
    int at = lr_two(r, "imod", "index", lr_int(r), lr_number(r, 5)), v;

    if (rnd_to(2)) {
        sb_printf(&r->text, "atomic sum %%w[%%%d], %%%d {drop=1}\n", at, lr_float(r));
        return;
    }
    v = lr_two(r, "imod", "index", lr_int(r), lr_number(r, 9));
    sb_printf(&r->text, "%%%d: int32[] = to_tile %%%d {dtype=int32}\n", r->next, v);
    sb_printf(&r->text, "atomic %s %%z[%%%d], %%%d {drop=1}\n", rnd_to(2) ? "sum" : "max", at, r->next);
    r->next++;
}

static inline void lr_block(LaneRandom *r, int statements);

typedef struct LaneScope { int nints, nfloats; bool split; } LaneScope;

static inline LaneScope lr_enter(LaneRandom *r, bool split)
{
    LaneScope s = {r->nints, r->nfloats, r->split};

    r->depth++;
    r->split |= split;
    return s;
}

static inline void lr_leave(LaneRandom *r, LaneScope s)
{
    r->depth--;
    r->nints = s.nints;
    r->nfloats = s.nfloats;
    r->split = s.split;
}

static inline void lr_yield(LaneRandom *r) { sb_printf(&r->text, "yield %%%d, %%%d\n", lr_float(r), lr_int(r)); }

/* A bool or a number that is the same in all lanes, or one of which that is not known. */
static inline int lr_common(LaneRandom *r) { return rnd_to(2) ? r->zero : 2; }

static inline void lr_if(LaneRandom *r)
{
    bool common = rnd_to(3) == 0;
    int flag = common ? lr_two(r, "ieq", "bool[]", lr_common(r), r->one) : lr_flag(r), y = r->next;
    LaneScope s;

    r->next += 2;
    sb_printf(&r->text, "%%%d: f32[], %%%d: index = if %%%d {\n", y, y + 1, flag);
    for (int side = 0; side < 2; side++) {
        s = lr_enter(r, !common);
        lr_block(r, (int)rnd_to(5));
        lr_yield(r);
        lr_leave(r, s);
        sb_puts(&r->text, side ? "}\n" : "} else {\n");
    }
    lr_keep_float(r, y);
    lr_keep_int(r, y + 1);
}

static inline void lr_for(LaneRandom *r)
{
    bool common = rnd_to(2) == 0;
    int hi = common ? lr_number(r, (int64_t)rnd_to(5)) : lr_two(r, "imod", "index", lr_int(r), lr_number(r, 7));
    int step = lr_number(r, 1 + (int64_t)rnd_to(3));
    int lo = common || rnd_to(2) ? r->zero : lr_two(r, "imin", "index", 3, lr_number(r, 5)), y = r->next;
    LaneScope s;

    r->next += 5;
    sb_printf(&r->text, "%%%d: f32[], %%%d: index = for %%%d = %%%d to %%%d step %%%d carry(%%%d = %%%d, %%%d = %%%d) {\n", y, y + 1, y + 2, lo, hi, step,
              y + 3, lr_float(r), y + 4, lr_int(r));
    s = lr_enter(r, !common);
    lr_keep_int(r, y + 2);
    lr_keep_int(r, y + 4);
    lr_keep_float(r, y + 3);
    lr_block(r, 1 + (int)rnd_to(5));
    lr_yield(r);
    lr_leave(r, s);
    sb_puts(&r->text, "}\n");
    lr_keep_float(r, y);
    lr_keep_int(r, y + 1);
}

static inline void lr_while(LaneRandom *r)
{
    int start = rnd_to(2) ? r->zero : lr_two(r, "imod", "index", lr_int(r), lr_number(r, 4)), bound = lr_number(r, 4), y = r->next, flag, count;
    LaneScope s;

    r->next += 6;
    sb_printf(&r->text, "%%%d: f32[], %%%d: index = while carry(%%%d = %%%d, %%%d = %%%d) {\n", y, y + 1, y + 2, lr_float(r), y + 3, start);
    s = lr_enter(r, true);
    flag = lr_two(r, "ilt", "bool[]", y + 3, bound);
    sb_printf(&r->text, "yield %%%d\n} do(%%%d, %%%d) {\n", flag, y + 4, y + 5);
    lr_keep_float(r, y + 4);
    lr_keep_int(r, y + 5);
    lr_block(r, 1 + (int)rnd_to(4));
    count = lr_two(r, "iadd", "index", y + 5, r->one);
    sb_printf(&r->text, "yield %%%d, %%%d\n", lr_float(r), count);
    lr_leave(r, s);
    sb_puts(&r->text, "}\n");
    lr_keep_float(r, y);
    lr_keep_int(r, y + 1);
}

static inline void lr_statement(LaneRandom *r)
{
    switch (rnd_to(20)) {
    case 0: case 1: case 2: case 3: case 4: lr_index(r); break;
    case 5: case 6: case 7: lr_map(r); break;
    case 8: case 9: lr_load(r); break;
    case 10: lr_convert(r); break;
    case 11: lr_local(r); break;
    case 12: case 13: lr_together(r); break;
    case 14: lr_atomic(r); break;
    case 15: if (!r->split) lr_shared(r); break;
    default:
        if (r->depth >= 3)
            break;
        if (rnd_to(2))
            lr_if(r);
        else if (rnd_to(3))
            lr_for(r);
        else
            lr_while(r);
    }
}

static inline void lr_block(LaneRandom *r, int statements)
{
    while (statements-- > 0 && r->budget-- > 0)
        lr_statement(r);
}

/* A kernel over %x f32[N], %m f32[R, C], %y f32[groups * lanes, LR_OUT], %z int32[5], %w f32[5]. */
static inline void lr_kernel(LaneRandom *r, int lanes, int groups)
{
    *r = (LaneRandom){.lanes = lanes, .next = 20, .budget = 40, .zero = 0, .one = 1};
    sb_puts(&r->text, "tessera.tile v1\nkernel @f(%x: view f32[1], %m: view f32[?, 1], %y: view f32[?, 1], %z: view int32[1], %w: view f32[1]) ");
    sb_printf(&r->text, "sizes(N) grid(%d) lanes=%d {\n", groups, lanes);
    sb_puts(&r->text, "%0: index = index {i=0}\n%1: index = index {i=1}\n%2: index = group {axis=0}\n%3: index = lane\n");
    sb_printf(&r->text, "%%4: index = index {i=%d}\n%%5: index = imul %%2, %%4\n%%6: index = iadd %%5, %%3\n", lanes);
    sb_puts(&r->text, "%7: view f32[1] shared = alloc %4 {name=\"buf\" dtype=f32 space=shared}\n%9: index = index {i=4}\n"
                      "%8: view f32[1] local = alloc %9 {name=\"own\" dtype=f32 space=local}\n"
                      "%10: f32[] = load %x[%6] {shape=(1) drop=1}\n%11: f32[] = const {dtype=f32 f=0.75}\n");
    for (int i = 0; i < 4; i++) {
        int at = lr_number(r, i);
        sb_printf(&r->text, "store %%8[%%%d], %%11 {drop=1}\n", at);
    }
    for (int i = 0; i < 7; i++)
        if (i != 4)
            lr_keep_int(r, i);
    lr_keep_float(r, 10);
    lr_keep_float(r, 11);
    lr_block(r, 30);
    for (int i = 0; i < LR_OUT; i++) {
        int at = lr_number(r, i), v = i < 2 || i >= r->nfloats ? lr_float(r) : r->floats[r->nfloats + 1 - i];      /* the last ones, and some */
        sb_printf(&r->text, "store %%y[%%6, %%%d], %%%d {drop=3}\n", at, v);
    }
    sb_puts(&r->text, "}\n");
}

#endif
