/*
 * plan.h - what memory a graph needs: lifetimes, who may take over whose
 * memory, and the most that is in use at once.
 *
 * Values lie in blocks.  A view lies in the block of the value that it shows;
 * an elementwise result may take over the block of an operand that dies there.
 * Sizes are expressions, so a plan is made once for all sizes of a graph.  It
 * promises an upper bound of what the executor (apply.c) holds in tensors.
 * A compiler places blocks by the same lifetimes.
 */
#ifndef TSR_IR_PLAN_H
#define TSR_IR_PLAN_H

#include "ir/graph/graph.h"

typedef enum { BLOCK_OWN, BLOCK_OPERAND /* the caller's */, BLOCK_CONSTANT /* part of the graph */ } BlockKind;

typedef struct PlanBlock {
    uint8_t kind;
    Dim bytes;
    int from, to;               /* first and last step that needs it; results of the graph: to == nsteps */
    GValue maker;               /* the value that it was made for */
} PlanBlock;

typedef struct Plan {
    int nsteps;                 /* the graph's nodes in order, parameters apart */
    const Node **step;
    uint32_t *slot;             /* by node id: place of its first result in `block` */
    int *block;                 /* by slot: the block in which the value lies */
    int *also;                  /* by slot: a second block that it may lie in, -1: none */
    Vec(PlanBlock) blocks;
    int *takes;                 /* by step: the operand whose block the result takes over, -1: none */
    Dim *live;                  /* by step: bytes of own blocks while it runs, with what its regions need inside */
    Vec(int) peaks;             /* the steps of which one needs the most, whatever the sizes; one where that can be decided */
} Plan;

Plan *graph_plan(const Graph *g);
void plan_free(Plan *p);
Dim plan_peak(const Plan *p);               /* the most bytes of own blocks at once: results and everything between */
void plan_print(const Plan *p, StrBuf *out);

/* The rules, for those who follow a graph themselves. */
typedef enum { LIES_APART, LIES_WITHIN /* a view of its first operand */, LIES_EITHER, LIES_NOWHERE /* it takes no memory of its own */ } Lies;
Lies node_lies(const Node *n, bool row_major);          /* its results; row_major: is its first operand in row-major order? */
bool node_row_major(const Node *n, bool operand);       /* is its result, when its first operand is (operand)? */
bool node_may_take(const Node *n, int k);               /* may its result have operand k's memory, if that dies here? */
int node_returns(const Node *n, int result);            /* the operand that a region may hand out as this result, -1: none */
bool node_is_kept(const Graph *g, const Node *n);       /* does the executor keep its value for later calls with the same sizes? */
Dim ttype_bytes(const TType *t);
Dim node_inside(const Node *n, uint64_t scattered);     /* what it needs while it runs, results apart; bit i: operand i is not in row-major order */

#endif
