/*
 * steps_impl.h - what the files that run steps share.
 */
#ifndef TSR_IR_STEPS_IMPL_H
#define TSR_IR_STEPS_IMPL_H

#include "ir/schedule/fused_impl.h"

/* A tensor of that type and shape without elements: what stands for what is made part by part. */
Tensor *steps_phantom(DType dt, int rank, const Dim *shape);
/* What the body takes for v: an operand, a constant; NULL: something computes it. */
Tensor *steps_value(const Graph *body, Tensor *const *in, GValue v);

/* steps.slices (steps_slices.c): 1 done, 0 it is to be run node by node. slices: where results had better lie; NULL: anywhere. */
int steps_in_slices(Trace *T, const Graph *body, Tensor *const *in, Tensor *const *slices, Tensor **out, int *nout);

#endif
