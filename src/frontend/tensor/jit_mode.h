/*
 * jit_mode.h - compile_mode= of jit: how hard a staged function is worked on.
 *
 *     interpret    not at all: it is called as it is, op by op
 *     default      kernels where they pay, as the command line says
 *     optimize     kernels from the first call on, LLVM at its hardest
 *     fast         the same, and sums and products may be reassociated, contracted, and left unrounded in between: other bits
 */
#ifndef TSR_FRONTEND_JIT_MODE_H
#define TSR_FRONTEND_JIT_MODE_H

#include "frontend/tensor/transform.h"

typedef enum { MODE_INTERPRET, MODE_DEFAULT, MODE_OPTIMIZE, MODE_FAST } JitMode;

/* The argument of compile_mode=, V_ERR or None: default. false: ValueError is pending, which lists them. */
bool jit_mode_of(Interp *I, Value v, JitMode *out);

/* What a call in a mode changes, and puts back. */
typedef struct JitManner { JitMode mode; bool lazily; int effort; const Policy *numerics; } JitManner;
JitManner jit_manner_begin(Interp *I, JitMode mode);
void jit_manner_end(Interp *I, const JitManner *m);

/* Blocks that a function stands in while it is staged: a tuple of ((key, value), ...) and the names of calls to tell apart, or no tuple. */
typedef struct JitBlock { Sym scope; struct ListObj *named; } JitBlock;
JitBlock jit_block_begin(Interp *I, Value block);
void jit_block_end(Interp *I, const JitBlock *b);

#endif
