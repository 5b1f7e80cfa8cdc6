/*
 * bind.h - what the natives of this folder share: values to tensors and back.
 *
 * Functions that give a Tensor give a new reference, or NULL with an exception
 * pending.  Axes leave here counted from the end, as attributes want them.
 */
#ifndef TSR_FRONTEND_TENSOR_BIND_H
#define TSR_FRONTEND_TENSOR_BIND_H

#include "frontend/eval/native.h"
#include "frontend/eval/symint.h"
#include "frontend/lib/lib.h"
#include "frontend/tensor/tensor_ops.h"

/* ------------------------------------------------------------- arguments */

/* Any tensor-like value: a tensor, a number (0-d, weak), a list of them (nested: stacked). */
Tensor *arg_tensor(Interp *I, Value v, const char *what);
/* A number takes the dtype it would have beside `like`; tensors stay as they are. */
Tensor *arg_beside(Interp *I, Value v, const Tensor *like, const char *what);
/* Data to a tensor of dtype (DT_NONE: inferred as tensor() does). */
Value tensor_true_places(Interp *I, Tensor *x);         /* takes x: where it is true, a tuple of an index tensor for each axis */
Tensor *tensor_from_data(Interp *I, Value v, DType dtype);

/* None: all axes of the operand. Else an int or a sequence of ints; a negative one counts from the end. */
bool arg_axes(Interp *I, Value v, int rank, Attr *a);
/* One axis, from the end. */
bool arg_axis(Interp *I, Value v, int rank, int *axis);
/* The first given one of axis= and dim=. */
static inline Value arg_either(Value a, Value b) { return is_given(b) ? b : a; }
bool arg_bool(Interp *I, Value v, bool *out);
/* Ints that may be symbolic, or one: as arg_int_list. Negative ones are dim_const of them. */
bool arg_size_list(Interp *I, Value v, Dim *out, int max, int *n, const char *what);
/* An int, a tuple or list of ints. */
bool arg_shape(Interp *I, Value v, int *rank, Dim *shape);
/* *sizes as a tuple: ints, or one sequence. `shape` (may be V_ERR) is the keyword form. */
bool arg_shape_star(Interp *I, Value star, Value shape, int *rank, Dim *out);
/* A dtype value, its name, or a type (int, float, bool); None keeps *out. */
bool arg_dtype(Interp *I, Value v, DType *out);
bool class_dtype(Value v, DType *out);                  /* what Python's int, float, bool and complex stand for as dtypes */
/* The same, with the policy that it carries; *policy NULL: none. Policy objects and classes with `storage` are dtypes, too. */
bool arg_dtype_policy(Interp *I, Value v, DType *out, const Policy **policy);
bool arg_rounding(Interp *I, Value v, uint8_t *out);    /* "nearest", "stochastic" ...; None keeps *out */
bool arg_denorm(Interp *I, Value v, uint8_t *out);      /* "flush", "preserve" */
bool arg_int_list(Interp *I, Value v, int64_t *out, int max, int *n, const char *what);
bool arg_is_number(Value v);                            /* bool, int, float, complex */

/* ------------------------------------------------------------- results */

static inline Trace *trace_of(Interp *I) { return interp_trace(I); }
/* t as a value; NULL: the pending op error as an exception. Steals t. */
static inline Value give(Interp *I, Tensor *t) { return t ? tensor_value(t) : raise_op_error(I); }
/* Run an op of one result; NULL with the exception pending. */
Tensor *run_op(Interp *I, OpId op, const Attr *a, Tensor *const *in, int n);
static inline Tensor *run1(Interp *I, OpId op, const Attr *a, Tensor *x) { return x ? run_op(I, op, a, &x, 1) : NULL; }
/* The same, consuming the operand's reference: for chains. */
Tensor *chain1(Interp *I, OpId op, const Attr *a, Tensor *x);
Tensor *chain2(Interp *I, OpId op, const Attr *a, Tensor *x, Tensor *y);
Value from_library(Interp *I, const char *file, const char *maker, const Value *args, int n);   /* what a library file makes of a tensor */
static inline Value value_of(Tensor *t) { return t ? tensor_value(t) : VERR; }  /* NULL: already pending */

/* ------------------------------------------------------------- common steps; all consume their operand */

Tensor *do_convert(Interp *I, Tensor *x, DType dt);     /* x itself when it has that dtype */
/* A new tensor of dtype `dtype` (an argument), with the policy that this carries; takes v. */
Value with_policy(Interp *I, Value v, Value dtype);
Tensor *do_declare(Interp *I, Tensor *x, DType dt, const Policy *policy);       /* of that dtype and policy (NULL: none) */
Tensor *do_reshape(Interp *I, Tensor *x, int rank, const Dim *shape);
Tensor *do_broadcast(Interp *I, Tensor *x, int rank, const Dim *shape);
Tensor *do_permute(Interp *I, Tensor *x, const int *perm);      /* perm[i]: source axis from the front */
/* x op y; borrows. op_apply finds the dtype in which they combine. */
Tensor *binary_op(Interp *I, OpId op, Tensor *x, Tensor *y);
Tensor *scalar_as(DType dt, double f, int64_t i);       /* 0-d; from f for inexact dtypes, from i otherwise */
Tensor *iota_axis(Interp *I, DType dt, Dim n);          /* 0, 1, ..., n-1 */
Tensor *matrix_places(Interp *I, const Dim *shape, int axis);   /* int64 of two axes: each element's row (axis -2) or column (-1) */
Dim shape_product(int rank, const Dim *shape);          /* DIM_BAD: too large */
bool shape_is(const Tensor *t, int rank, const Dim *shape);     /* asks: sizes may be symbolic */
bool size_is_negative(Dim d);
bool size_is(Dim d, int64_t number);                    /* is it that very number? asks nothing */
Tensor *size_tensor(Interp *I, Dim d, DType dt);        /* 0-d; OverflowError when an integer dtype cannot hold it */
Tensor *size_float(Interp *I, Value v, DType dt);       /* a V_SYMFLOAT, 0-d, of an inexact dtype */
Tensor *size_number(Interp *I, Dim d);                  /* as a Python int: weak int32, or int64 when it needs that */
/* Start, step and count of a slice of an axis, as slice_resolve; counts from the end and limits are resolved. */
bool slice_sizes(Interp *I, const SliceObj *s, Dim size, Dim *start, Dim *step, Dim *count);
void put_shape(StrBuf *b, int rank, const Dim *shape); /* "[2, 3]" */

#endif
