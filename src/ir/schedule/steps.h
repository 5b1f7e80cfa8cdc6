/*
 * steps.h - `fused` nodes that hold others: several kernels run as one.
 *
 *     steps.rows      each step gives rows that the next one's product multiplies: blocks of rows go through all of them
 *     steps.slices    steps that need of each other what they have at the same place of the leading axes: slice after slice goes through all
 *     steps.beside    steps that do not wait for each other: threads share the groups of all
 *
 * The body of such a node has parameters, constants and the `fused` nodes that are its steps; of slices also products, and permutations of
 * the last two axes.
 */
#ifndef TSR_IR_STEPS_H
#define TSR_IR_STEPS_H

#include "ir/graph/trace.h"

typedef enum { STEPS_NONE, STEPS_ROWS, STEPS_SLICES, STEPS_BESIDE } StepsKind;

StepsKind steps_kind(const Attr *a);
Sym steps_name(StepsKind kind);

/* Run one: 1 done, 0 it is to be run node by node, -1: T->error. slices: as in Run of fused_impl.h. NULL before steps_begin (fused.h). */
extern int (*fused_run_steps)(Trace *T, Graph *body, const Attr *a, Tensor *const *in, int nin, Tensor *const *slices, Tensor **out, int *nout);

/* Join the `fused` nodes of a graph where the program asks for it: in blocks of tessera.fusion, and calls that are to be one kernel. */
void schedule_together(Graph *g);
/* Join products of batches and what follows them where the same slices of them do (sliced.c). Whether there were any. */
bool schedule_slices(Graph *g);
bool schedule_asks(const Graph *g);             /* is there any such block? */
/* A region that is to be one kernel, fused as it is to run; a new reference. */
Graph *schedule_one(Graph *region);
/* Would that be one? false: *why says why not. */
bool schedule_one_kernel(Graph *region, StrBuf *why);

#endif
