/*
 * steps.h - `fused` nodes that hold others: several kernels run as one.
 *
 *     steps.rows      each step gives rows that the next one's product multiplies: blocks of rows go through all of them
 *     steps.beside    steps that do not wait for each other: threads share the groups of all
 *
 * The body of such a node has parameters, constants and the `fused` nodes that are its steps.
 */
#ifndef TSR_IR_STEPS_H
#define TSR_IR_STEPS_H

#include "ir/graph/trace.h"

typedef enum { STEPS_NONE, STEPS_ROWS, STEPS_BESIDE } StepsKind;

StepsKind steps_kind(const Attr *a);
Sym steps_name(StepsKind kind);

/* Run one: 1 done, 0 it is to be run node by node, -1: T->error. NULL before steps_begin (fused.h). */
extern int (*fused_run_steps)(Trace *T, Graph *body, const Attr *a, Tensor *const *in, int nin, Tensor **out, int *nout);

/* Join the `fused` nodes of a graph where the program asks for it: in blocks of tessera.fusion, and calls that are to be one kernel. */
void schedule_together(Graph *g);
bool schedule_asks(const Graph *g);             /* is there any such block? */
/* A region that is to be one kernel, fused as it is to run; a new reference. */
Graph *schedule_one(Graph *region);
/* Would that be one? false: *why says why not. */
bool schedule_one_kernel(Graph *region, StrBuf *why);

#endif
