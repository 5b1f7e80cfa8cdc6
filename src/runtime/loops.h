/*
 * loops.h - the inner loops of elementwise ops, a function for each op and lane dtype.
 *
 * loops.c is compiled once for each instruction set; results do not depend on which
 * is used, because no loop lets the compiler reassociate or fuse.
 */
#ifndef TSR_RUNTIME_LOOPS_H
#define TSR_RUNTIME_LOOPS_H

#include "ir/core/op.h"

/* out[i] = op(a[i], b[i], c[i]) for i < n; runs may be the same memory, not otherwise overlap. */
typedef void LoopFn(int64_t n, void *out, const void *a, const void *b, const void *c);
typedef LoopFn *LoopTable[OP_COUNT][DT_COUNT];      /* by op and lane dtype of the operands; NULL: not defined */

/* Is one of n floats too large for the loops of sin, cos and tan (FN(is_far) of scalar.h)? */
typedef struct FarFns { bool (*f32)(int64_t n, const float *x), (*f64)(int64_t n, const double *x); } FarFns;

extern const FarFns far_base, far_v3, far_v4;
extern const LoopTable loops_base, loops_v3, loops_v4;      /* by instruction set: cpu.h */
/* The loop for an op on operands of dtype `as`, whose lanes are of lane_dtype(as); NULL: not defined. */
LoopFn *loop_find(OpId op, DType as);

#endif
