/* numerics.h - what the files about numeric policies share (private to ir/graph). */
#ifndef TSR_IR_NUMERICS_H
#define TSR_IR_NUMERICS_H

#include "ir/graph/level.h"

/* A product of two floats by way of the integers p->quant. */
bool quantized_product(Trace *T, const Policy *p, OpId id, const Attr *a, Tensor *const *in, Tensor **out);

/* Has the op, on such an operand, an order or a rounding that fast numerics give up? */
bool may_be_fast(OpId op, const Tensor *x);

#endif
