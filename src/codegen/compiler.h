/*
 * compiler.h - the compiler for this machine, as ir/schedule/fused.h wants one.
 */
#ifndef TSR_CODEGEN_COMPILER_H
#define TSR_CODEGEN_COMPILER_H

#include "ir/schedule/fused.h"

extern const KernelCompiler cpu_compiler;

/* How hard LLVM tries from now on: 0, 1 (unless told) or 3. The bits of results are the same. */
void compile_level(int level);

/* The object file of a kernel for a machine, its functions named "kernel" and "kernel.scratch". false: *err says why. */
struct Machine;
bool compile_object(const TileKernel *k, const struct Machine *m, StrBuf *object, StrBuf *err);

/* The kernel as assembly text for the machine that is shown. */
bool compile_assembly(const TileKernel *k, StrBuf *out, StrBuf *err);
void compile_shown(const struct Machine *m);            /* from now on; this one, until told */

/* The kernel, its function named "kernel", as PTX for a GPU; tensor: as gpu_emit has it; *frame: for launches. false: *err says why. */
struct GpuFrame;
bool compile_ptx(const TileKernel *k, const struct Machine *m, bool tensor, struct GpuFrame *frame, StrBuf *ptx, StrBuf *err);
bool compile_tensor_copies(void);                       /* are kernels made for tensor copies where they may be? */


/* The same for the driver of the tests: an x86 object (tests/fake). */
bool compile_stand_in(const TileKernel *k, struct GpuFrame *frame, StrBuf *object, StrBuf *err);
void gpu_kernels_begin(void);           /* from now on GPUs run kernels (ir/schedule/far.h) */

#endif
