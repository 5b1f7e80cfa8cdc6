/*
 * whole.h - library functions of several ops, whose calls on large tensors are one graph.
 */
#ifndef TSR_FRONTEND_TENSOR_WHOLE_H
#define TSR_FRONTEND_TENSOR_WHOLE_H

#include "frontend/eval/eval.h"

/* What a call of a function with FuncObj.whole gives: by its graph where that pays, else by its body. V_ERR: an exception is pending. */
Value whole_run(Interp *I, Frame *f);
/*
 * What the native of that name, in the prelude and perhaps as a method, gives for its arguments: body's result, or that of its graph where the first
 * one is a large tensor. All arguments have values (no default is `...`). V_ERR: an exception is pending.
 */
Value whole_native(Interp *I, WholeId id, const char *name, NativeFn body, Value *a);
/* jit of f under the name that profiles and caches know for such functions: a Transform, a new reference. */
Obj *jit_when_large(Value f);

#endif
