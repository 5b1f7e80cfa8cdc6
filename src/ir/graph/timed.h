/*
 * timed.h - where the time of staged functions goes: a table with a line for each kernel and each operation of their graphs.
 *
 * Nodes that compute the same on values of the same sizes share a line.  What is counted is the time from call to
 * return, so the layers of a model add up, the processors' time in it, which other programs disturb less, and the bytes
 * of operands and results, which is what a kernel that goes over its memory once has to move.
 */
#ifndef TSR_IR_TIMED_H
#define TSR_IR_TIMED_H

#include "ir/graph/graph.h"
#include "runtime/tensor.h"

extern bool timed_on;           /* set by those who ask for the table */

typedef struct Timed { double seconds, cpu; } Timed;       /* by the clock, and of all threads together */
Timed timed_now(void);
/* The node took from then until now on these values. */
void timed_add(const Node *n, Tensor *const *in, Tensor *const *out, int nout, Timed since);
/* The table, the dearest line first; it is empty afterwards. */
void timed_print(StrBuf *out);

#endif
