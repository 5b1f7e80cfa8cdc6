/*
 * cpu.h - the inner loops that exist once for each instruction set.
 *
 * base is plain x86-64 (or any other machine), v3 has AVX2 and FMA, v4 AVX-512.
 * Results do not depend on which is used: nothing is reassociated, and fused
 * operations are explicit. TESSERA_CPU=base or v3 asks for less, for tests.
 */
#ifndef TSR_RUNTIME_CPU_H
#define TSR_RUNTIME_CPU_H

#include "runtime/codecs.h"
#include "runtime/draw.h"
#include "runtime/fft_pass.h"
#include "runtime/gemm.h"
#include "runtime/loops.h"
#include "runtime/sums.h"

typedef struct Cpu {
    const char *name;
    const LoopTable *loops;
    const FarFns *far;
    const GemmKernels *gemm;
    const Dots *dots;
    const Sums *sums;
    const Draw *draw;
    const Codecs *codecs;
    const FftPasses *fft;
} Cpu;

const Cpu *cpu(void);                   /* the best one here */
const Cpu *cpu_find(const char *name);  /* that one, if it was built and this machine can run it, else NULL */

#endif
