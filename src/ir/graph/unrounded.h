/*
 * unrounded.h - operands of products that go to tf32, which who brings them to the units rounds (private to ir/graph).
 *
 * A conversion of f32 to tf32 goes over memory and back.  Where only products use what it gives, and the device's tensor copies round on their
 * way (trace_rounds), it is left out: the product gets the f32 elements as a tensor of tf32, to the same bits.  Otherwise it is done when its
 * value is used.
 */
#ifndef TSR_IR_UNROUNDED_H
#define TSR_IR_UNROUNDED_H

#include "ir/graph/trace.h"

typedef struct Unrounded {
    bool *may;                  /* slot -> do only products, and permutations for them, use what a conversion to tf32 gives? NULL: there is none */
    bool *is;                   /* slot -> it has the f32 tensor yet */
    const uint32_t *base;       /* node id -> slot of its first result */
} Unrounded;

void unrounded_find(Unrounded *u, const Graph *g, const uint32_t *base, int nslots);
void unrounded_done(Unrounded *u);
/* Is the node a conversion that is to be left out for now? Then its value is its operand. */
bool unrounded_begins(const Unrounded *u, const Node *n, Tensor *x);
/*
 * The operands of a node that is to run, of which some may be such values: taken as they are, in views that `made` (of two) has until the node
 * has run, or converted, in their slots from now on.
 */
bool unrounded_meet(Unrounded *u, Trace *T, const Node *n, Tensor **in, Tensor **slot, Tensor **made);
/* The same of the two operands of a product without a graph, f32 ones. false: units take neither, and all is as it was. *ok false: T->error. */
bool unrounded_pair(Trace *T, Tensor **x, const Attr *product, bool *ok);

#endif
