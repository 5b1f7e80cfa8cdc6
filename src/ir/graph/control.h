/*
 * control.h - deriving graphs from graphs: what control flow needs of
 * differentiation and batching (private to ir/graph).
 */
#ifndef TSR_IR_CONTROL_H
#define TSR_IR_CONTROL_H

#include "ir/graph/rules.h"

typedef Vec(Tensor *) Tensors;          /* owned references */
void tensors_push(Tensors *v, Tensor *const *t, int n);         /* more references */
void tensors_done(Tensors *v);

/* A graph as a function. */
typedef struct GraphFn { Trace *T; Graph *g; } GraphFn;
TensorFn graph_fn(GraphFn *self);

/* A control-flow op at a JVP or LIN level: in as given, x primals, t tangents (NULL: zero). */
bool control_jvp(Trace *T, Level *lv, OpId op, const Attr *a, Tensor *const *in, Tensor **x, Tensor **t, int nin, Tensor **out, int *nout);
/* The forward-mode op on primals and tangents: results to y, tangents to dy (NULL: none), all new references. */
bool control_forward(Trace *T, OpId op, const Attr *a, Tensor *const *x, Tensor *const *t, int nin, Tensor **y, Tensor **dy, int *ny);
/* Reverse mode of an op whose region runs again in the backward pass: y like above, dy values of the linear graph. */
bool control_linear(Trace *T, OpId op, const Attr *a, Tensor *const *x, Tensor *const *t, int nin, Tensor **y, Tensor **dy, int *ny);
/* custom_jvp, custom_vjp */
bool custom_forward(Trace *T, const Attr *a, Tensor *const *x, Tensor *const *t, int nin, Tensor **y, Tensor **dy, int *ny);
bool custom_linear(Trace *T, const Attr *a, Tensor *const *x, Tensor *const *t, int nin, Tensor **y, Tensor **dy, int *ny);

/* Run g as checkpointed calls that together keep its operands and what keep says (remat.c). */
bool checkpoint_keeping(Trace *T, const Graph *g, const Keep *keep, Tensor *const *in, int nin, Tensor **out, int *nout);

/* g with a truth as its first parameter, without which (or with which, when = false) it fails nowhere (guarded.c). */
Graph *graph_guarded(const Graph *g, bool when);
bool graph_wants_guard(const Graph *g);             /* may it fail? */

static inline bool inexact(const TType *y) { return dtype_is_inexact((DType)y->dtype); }
static inline const TType *param_of(const Graph *g, int i) { return &g->params.at[i]->type[0]; }
static inline const TType *result_of(const Graph *g, int i) { return gvalue_type(g->results.at[i]); }

#endif
