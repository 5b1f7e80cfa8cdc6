/*
 * ulp.c - how far f32's functions of one number are from the truth, over all 2^32 of them.
 *
 *     ninja -C build bench/bench_ulp && build/bench/bench_ulp [--step=N] [FUNCTION...]
 *
 * For each function: the largest error in units of the last place (of the smallest normal number for subnormal results), where it is,
 * the bound that accuracy.def states, and on how many arguments of a sample this machine's loop differs from plain x86-64's (NaNs are equal).
 * The truth is the function on f64, which is within 1 ULP of f64, 2^-29 of f32's.  A step looks at every Nth number only.  The exit
 * status says whether all is as stated.
 */
#include "runtime/cpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUN = 1 << 14 };

static const struct { OpId op; double bound; } functions[] = {
#define ULP(name, single, wide) {OP_##name, single},
#include "runtime/accuracy.def"
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

typedef struct { double err, at, sub, sub_at; int64_t wrong, differ; } Found;

static _Alignas(64) float x[RUN], y[RUN], other[RUN];
static _Alignas(64) double wide[RUN], want[RUN];
static _Alignas(64) uint64_t error[RUN];           /* bits of a float that is not negative, so they have its order */

static bool same(float a, float b) { return !memcmp(&a, &b, 4) || (isnan(a) && isnan(b)); }

/* The error of each, without branches: vectors of them. */
static uint64_t errors(int n)
{
    uint64_t most = 0;

    for (int i = 0; i < n; i++) {
        double truth = want[i], got = y[i], size = fabs(truth), ulps;
        uint64_t u;
        memcpy(&u, &size, 8);
        u = ((uint64_t)(2 * 1023 + 23) << 52) - (u & (uint64_t)0x7ff << 52);       /* 2^(23 - exponent) */
        u = size < 0x1p-126 ? (uint64_t)(1023 + 149) << 52 : u;
        memcpy(&ulps, &u, 8);
        double e = fabs(got - truth) * ulps, rounded = (float)truth;
        e = got == rounded && size > 0x1p127 ? 0 : e;               /* overflow */
        e = (got != got) != (truth != truth) ? (double)INFINITY : truth != truth ? 0 : e;
        memcpy(&u, &e, 8);
        error[i] = u;
        most = u > most ? u : most;
    }
    return most;
}

/* Of the run that was computed last; `compare` also with plain x86-64's loop. */
static void look(Found *f, int n, bool compare)
{
    double most, err;
    uint64_t u = errors(n);

    memcpy(&most, &u, 8);
    for (int i = 0; i < n && (most > f->err || most > f->sub); i++) {
        bool subnormal = fabs(want[i]) < 0x1p-126;
        memcpy(&err, &error[i], 8);
        if (err > (subnormal ? f->sub : f->err)) {
            *(subnormal ? &f->sub : &f->err) = err;
            *(subnormal ? &f->sub_at : &f->at) = x[i];
        }
    }
    for (int i = 0; i < n && compare; i++) {
        f->wrong += y[i] == 0 && want[i] == 0 && !signbit(y[i]) != !signbit(want[i]);
        f->differ += !same(y[i], other[i]);
    }
}

static bool measure(OpId op, double bound, int64_t step, const Cpu *base)
{
    Found f = {0};
    LoopFn *loop = loop_find(op, DT_f32), *truth = loop_find(op, DT_f64), *plain = (*base->loops)[op][DT_f32];
    bool circular = op == OP_sin || op == OP_cos || op == OP_tan;

    for (int64_t at = 0, n; at < (int64_t)1 << 32; at += n * step) {
        for (n = 0; n < RUN && at + n * step < (int64_t)1 << 32; n++) {
            uint32_t u = (uint32_t)(at + n * step);
            memcpy(&x[n], &u, 4);
            wide[n] = x[n];
        }
        loop(n, y, x, NULL, NULL);
        bool compare = step > 1 || at / RUN % 61 == 0;
        if (compare)
            (circular ? loop : plain)(n, other, x, NULL, NULL);
        truth(n, want, wide, NULL, NULL);
        look(&f, (int)n, compare);
    }
    printf("%-8s %.4f at %a; subnormal %.4f at %a; stated %.3g; %lld signs of zero, %lld differ\n", op_info[op].name, f.err, f.at, f.sub,
           f.sub_at, bound, (long long)f.wrong, (long long)f.differ);
    fflush(stdout);
    return f.err <= bound && f.sub <= 1.25 && !f.wrong && !f.differ;
}

int main(int argc, char **argv)
{
    int64_t step = argc > 1 && !strncmp(argv[1], "--step=", 7) ? atoll(argv[1] + 7) : 1;
    const Cpu *base = cpu_find("base");
    int first = argc > 1 && argv[1][0] == '-' ? 2 : 1;
    bool ok = step > 0;

    for (int k = 0; k < FUNCTIONS && step > 0; k++) {
        bool named = first == argc;
        for (int i = first; i < argc; i++)
            named |= !strcmp(argv[i], op_info[functions[k].op].name);
        if (named && op_info[functions[k].op].nin == 1)
            ok &= measure(functions[k].op, functions[k].bound, step, base);
    }
    return !ok;
}
