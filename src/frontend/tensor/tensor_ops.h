/*
 * tensor_ops.h - what the evaluator's core asks of tensors and dtypes.
 *
 * The core decides by tag and calls these; everything else about tensors is
 * natives.  All functions take borrowed values and give new references; an
 * exception is pending when they return V_ERR, false or -1 unless said otherwise.
 *
 * While a function is staged (jit, scan, cond ...) a tensor may have no value.
 * value_is_staged tells; the core then turns `if`, `while`, `for`, `and`, `or` and
 * conditional expressions on such values into trace_cond, trace_while and trace_scan,
 * carrying variables as trees (tree.h).
 */
#ifndef TSR_FRONTEND_TENSOR_OPS_H
#define TSR_FRONTEND_TENSOR_OPS_H

#include "frontend/eval/interp.h"
#include "ir/graph/trace.h"

/* The object behind V_DTYPE: an element type, with a policy (bf16 @accum(f32)) or without. */
typedef struct DTypeObj { Obj obj; DType dtype; const Policy *policy; } DTypeObj;
Value dtype_value(DType t, const Policy *p);
static inline DTypeObj *as_dtype(Value v) { return (DTypeObj *)v.o; }
/* An object or class with fields as NumericalPolicy has them: 1 its storage dtype and policy, 0 it has no storage, -1 pending. */
int policy_of_object(Interp *I, Value v, DType *dt, const Policy **policy);

/* Tensor v as a declaration says: of that policy (V_DTYPE, a policy object, a class with quantize). Its dtype must be the
 * declared one, except in a numerics scope, where it becomes that. A type that is no dtype: v. */
Value tensor_as_declared(Interp *I, Value v, Value type);

/* The tensor of a random key, or the mark of a skeleton's, borrowed; V_ERR: v is no key, or the scope of a seed. */
Value random_key_data(Value v);
Value random_key_of(Value data);                        /* takes data */

enum { TENSOR_IS_PARAMETER = 1 };                       /* TensorObj.obj.flags */

/* At least one operand is V_TENSOR (or V_DTYPE for @). VNOTIMPL: the other one is nothing tensors combine with. */
Value tensor_op_binary(Interp *I, int ast_op, Value a, Value b);
Value tensor_op_unary(Interp *I, int ast_op, Value a);
Value tensor_op_compare(Interp *I, int ast_op, Value a, Value b);       /* elementwise EQ NE LT LE GT GE; a bool tensor */
Value dtype_op_binary(Interp *I, int ast_op, Value a, Value b);         /* f32 == f32, bf16 @accum(f32) */

/* V_ERR without a pending exception: no such attribute (methods are found by owner "Tensor", "dtype" after this). */
Value tensor_op_getattr(Interp *I, Value v, Sym name);
bool tensor_op_setattr(Interp *I, Value v, Sym name, Value x);          /* .grad */
Value dtype_op_getattr(Interp *I, Value v, Sym name);
void dtype_repr(Value v, StrBuf *out);                  /* "f32", "bf16 @accum(f32)"; str and repr alike */

Value tensor_op_getitem(Interp *I, Value v, Value key);
/* *v is the variable, slot or element being stored to. It is changed in place when it is the only reference to its
 * elements and replaced by a changed copy otherwise, so no other variable sees the store. */
bool tensor_op_setitem(Interp *I, Value *v, Value key, Value x);

Value tensor_op_iter(Interp *I, Value v);               /* over the first axis; 0-d raises TypeError */
int64_t tensor_op_len(Interp *I, Value v);              /* -1 pending */
int tensor_op_contains(Interp *I, Value v, Value x);
int tensor_op_truth(Interp *I, Value v);                /* 1, 0, -1; more than one element, or staged: an exception */
bool tensor_op_as_int(Interp *I, Value v, int64_t *out);        /* one int or bool element (floats only through int()) */
bool tensor_op_as_float(Interp *I, Value v, double *out);
bool tensor_op_repr(Interp *I, Value v, StrBuf *out);
Value tensor_op_item(Interp *I, Value v);               /* the one element as int, float, bool or complex */
Value tensor_op_format(Interp *I, Value v, const char *spec, size_t n); /* 0-d: its number by spec; else repr */

/* A tensor without a concrete value: being staged, or batched by vmap. */
bool value_is_staged(Value v);
/* The exception for T->error and T->message after an op failed; V_ERR. */
Value raise_op_error(Interp *I);

/* print() while staging: 1 it was recorded as an effect of the graph, 0 nothing here is staged (print now), -1 pending. */
int tensor_staged_print(Interp *I, const Value *args, int nargs, const char *sep, const char *end);

/* assert on a staged tensor: recorded, so that running the graph raises AssertionError(message) when it is false. */
bool tensor_staged_assert(Interp *I, Value test, Value message);

/* raise in an arm that a staged tensor chooses: running the graph raises exc (an instance) when ok is false. */
bool tensor_staged_raise(Interp *I, Value ok, Value exc);

/* The trace's callbacks and the random state; called once by interp_new and interp_free. */
void tensor_init(Interp *I);
void tensor_done(Interp *I);

#endif
