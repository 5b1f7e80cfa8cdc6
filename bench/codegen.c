/*
 * codegen.c - compiled elementwise loops against the C loops, and how long compiling takes.
 *
 *     ninja -C build bench/bench_codegen && build/bench/bench_codegen [OP...]
 *
 * The first lines are the first compile of a process and later ones, in milliseconds of this thread's time; then, for
 * each op, nanoseconds an element of the C loop and of the best width, and their ratio.
 */
#include "../tests/unit/flow.h"

#include "codegen/lanes.h"
#include "runtime/code.h"
#include "runtime/loops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N = 4096, ROUNDS = 60 };
static _Alignas(64) char data[3][N * 8], out[N * 8];

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void build(Llvm *u, OpId op, DType as, int width, int unroll)
{
    LLVMTypeRef p = llvm_pointer_type(u), param[] = {llvm_int_type(u), p, p, p, p};
    LLVMValueRef fn = llvm_function(u, "f", param, 5), x[3];
    Loop l = llvm_loop(u, llvm_int(u, 0), LLVMGetParam(fn, 0), width * unroll);

    for (int j = 0; j < unroll; j++) {
        LLVMValueRef i = LLVMBuildAdd(u->builder, l.i, llvm_int(u, j * width), "");
        for (int k = 0; k < op_info[op].nin; k++)
            x[k] = lanes_load(u, as, LLVMGetParam(fn, 2 + (unsigned)k), i, width);
        lanes_store(u, as, LLVMGetParam(fn, 1), i, formula_emit(u, op, as, x, op_info[op].nin, width), width);
    }
    llvm_loop_end(u, &l);
    LLVMBuildRetVoid(u->builder);
}

static LoopFn *compile(OpId op, DType as, int width, int unroll, Level level, Code **code, double took[4])
{
    StrBuf object = {0}, err = {0};
    double t = now();
    Llvm *u = llvm_new("bench", machine_host());
    bool ok;

    build(u, op, as, width, unroll);
    took[0] = now() - t, t = now();
    ok = llvm_optimise(u, level, &err);
    took[1] = now() - t, t = now();
    ok = ok && llvm_object(u, level, &object, &err);
    took[2] = now() - t, t = now();
    *code = ok ? code_load(object.s, object.n, &err) : NULL;
    took[3] = now() - t;
    if (!*code) {
        fprintf(stderr, "%s\n", sb_str(&err));
        exit(1);
    }
    sb_done(&object);
    llvm_free(u);
    return (LoopFn *)code_find(*code, "f");
}

static void time_compiling(const char *name, OpId op, Level level)
{
    double t[4];
    Code *code;

    compile(op, DT_f32, 16, 1, level, &code, t);
    printf("{\"name\": \"compile %s\", \"milliseconds\": %.2f, \"build\": %.2f, \"optimise\": %.2f, \"emit\": %.2f, \"load\": %.2f}\n", name,
           t[0] + t[1] + t[2] + t[3], t[0], t[1], t[2], t[3]);
    code_free(code);
}

static double best_of(LoopFn *fn, double best)
{
    for (int i = 0; i < ROUNDS; i++) {
        double t = now();
        for (int k = 0; k < 8; k++)
            fn(N, out, data[0], data[1], data[2]);
        t = (now() - t) * 1e6 / (8.0 * N);
        best = t < best ? t : best;
    }
    return best;
}

static void fill(DType t)
{
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < N; i++) {
            double v = (double)((i * 7919 + k * 104729) % 10007) / 2000 + 0.01;
            if (t == DT_f32)
                ((float *)(void *)data[k])[i] = (float)v;
            else
                ((double *)(void *)data[k])[i] = v;
        }
}

static void compare(OpId op, DType as)
{
    static const int widths[] = {8, 16, 32};
    LoopFn *loop = loop_find(op, as);
    double c = 1e9, best = 1e9, took[4];
    int at = 0;

    fill(as);
    for (int k = 0; k < 6; k++) {
        Code *code;
        LoopFn *fn = compile(op, as, widths[k % 3], 1 + k / 3, LEVEL_O3, &code, took);
        c = best_of(loop, c);
        double t = best_of(fn, 1e9);
        if (t < best)
            best = t, at = k;
        code_free(code);
    }
    printf("{\"name\": \"%s %s\", \"loop_ns\": %.3f, \"compiled_ns\": %.3f, \"width\": %d, \"unroll\": %d, \"ratio\": %.2f}\n",
           op_info[op].name, dtype_info[as].name, c, best, widths[at % 3], 1 + at / 3, c / best);
}

int main(int argc, char **argv)
{
    static const OpId ops[] = {OP_exp, OP_tanh, OP_erf, OP_sigmoid, OP_log, OP_sin, OP_pow, OP_rsqrt, OP_atan2, OP_add, OP_maximum, OP_floor};
    OpId op;

    time_compiling("first, exp -O3", OP_exp, LEVEL_O3);
    time_compiling("exp -O3", OP_exp, LEVEL_O3);
    time_compiling("exp -O1", OP_exp, LEVEL_O1);
    time_compiling("exp -O0", OP_exp, LEVEL_O0);
    time_compiling("add -O3", OP_add, LEVEL_O3);
    for (int i = 1; i < argc; i++)
        if (op_find(argv[i], &op))
            compare(op, DT_f32), compare(op, DT_f64);
    for (size_t i = 0; argc == 1 && i < sizeof ops / sizeof *ops; i++)
        compare(ops[i], DT_f32), compare(ops[i], DT_f64);
    return 0;
}
