/*
 * rehearse.h - a graph gone through for sizes, without computing anything.
 *
 * Fused nodes are run on operands that lie as they would in a call, so that the
 * compiler in use (fused.h) is asked for the kernels that calls with such sizes need.
 * All regions are gone through, whatever values would decide.
 */
#ifndef TSR_IR_REHEARSE_H
#define TSR_IR_REHEARSE_H

#include "ir/graph/trace.h"

/* Go through g for usual, small and large numbers of each of the sizes in its parameters' types. */
void graph_rehearse(Trace *T, Graph *g);
/* The same as it would run on a GPU with this chip (80, 90), of which there need be none: `notes` is asked for all its code (far.h). */
struct KernelCompiler;
void graph_rehearse_far(Trace *T, Graph *g, const struct KernelCompiler *notes, int chip);
/* Make the kernels that a call with these operands is going to ask for, together, where the compiler and the threads can; else nothing. */
void graph_prepare(Trace *T, Graph *g, Tensor *const *in);

#endif
