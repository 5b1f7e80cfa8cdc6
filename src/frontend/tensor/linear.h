/*
 * linear.h - products of matrices as other files of this folder need them.
 */
#ifndef TSR_FRONTEND_TENSOR_LINEAR_H
#define TSR_FRONTEND_TENSOR_LINEAR_H

#include "frontend/tensor/bind.h"

/* a @ b with NumPy's rules for vectors and broadcast batch axes; borrows. */
Tensor *matmul_op(Interp *I, Tensor *a, Tensor *b);

#endif
