/*
 * collective.h - what ranks do together.
 *
 * A collective is an op like others (ops.def, family COLLECTIVE): levels record,
 * differentiate and batch it.  Where it runs, the ranks of its mesh axes meet
 * (Trace.host_collective), and collective_run makes each one's result from all
 * operands, by ordinary ops in a fixed order.  So results never depend on who
 * came first, and transformations around the ranks see plain arithmetic.
 */
#ifndef TSR_IR_COLLECTIVE_H
#define TSR_IR_COLLECTIVE_H

#include "ir/graph/rules.h"
#include "runtime/mesh.h"

/* out[i], new references, for in[i], of n ranks in order. false: T has the error. */
bool collective_run(Trace *T, OpId op, const Attr *a, Tensor *const *in, int n, Tensor **out);

/* The sum by a balanced tree: ((x0 + x1) + (x2 + x3)) + ..., narrow floats in f32 and rounded once. */
Tensor *r_sum_ranks(Rule *r, Tensor *const *x, int n);
/* Joined along an axis, counted from the end. */
Tensor *r_join(Rule *r, Tensor *const *x, int n, int axis);
/* Part k of n along an axis. */
Tensor *r_part(Rule *r, Tensor *x, int axis, int k, int n);
Tensor *r_extreme(Rule *r, Tensor *const *x, int n, bool smallest);

/* What has been communicated: one line for each op and mesh axes. */
typedef struct CommLine {
    OpId op;
    Sym axes;
    int ranks;
    int64_t calls, bytes;       /* bytes that cross between devices, of the best algorithm for a ring */
    double seconds;
} CommLine;
void comm_note(OpId op, Sym axes, int ranks, size_t nbytes, double seconds);    /* nbytes: one rank's operand */
int comm_lines(const CommLine **out);
void comm_reset(void);

#endif
