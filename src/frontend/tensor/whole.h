/*
 * whole.h - library functions of several ops, whose calls on large tensors are one graph.
 */
#ifndef TSR_FRONTEND_TENSOR_WHOLE_H
#define TSR_FRONTEND_TENSOR_WHOLE_H

#include "frontend/eval/eval.h"

/* What a call of a function with FuncObj.whole gives: by its graph where that pays, else by its body. V_ERR: an exception is pending. */
Value whole_run(Interp *I, Frame *f);

#endif
