/* indices.h - what `index` looks up, for kernels that do so themselves. */
#ifndef TSR_RUNTIME_INDICES_H
#define TSR_RUNTIME_INDICES_H

#include "ir/core/op.h"
#include "runtime/tensor.h"

/* Sizes of the batch axes, then of the joined axes, of the index operands from lo on. How many there are. */
int index_shape(const Attr *a, Tensor *const *in, int lo, int64_t *shape);
/*
 * Where in the storage of in[0] the elements begin that its index operands, in[1] and on, name: int64, of that shape.  NULL: some index is
 * out of range, or there is no memory.
 */
Tensor *index_places(const Attr *a, Tensor *const *in);

#endif
