/*
 * level.h - what the files behind trace.h share (private to ir/graph).
 *
 * Every apply_* function runs one op whose operands are already promoted and
 * whose highest tracer belongs to `lv`; results are new references.
 */
#ifndef TSR_IR_LEVEL_H
#define TSR_IR_LEVEL_H

#include "ir/core/dim_ask.h"
#include "ir/graph/trace.h"

/* Report; always false. */
bool trace_fail(Trace *T, OpError e, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

Level *level_push(Trace *T, TraceKind kind, LevelApply *apply);
void level_pop(Trace *T, Level *lv);                    /* closes lv, which must be on top, and drops the caller's hold */
/* A tensor that lv follows. Takes over the references in primal and tangent. */
Tensor *level_tensor(Level *lv, const TType *type, Tracer tr);
/* This tensor's tracer if lv made it, else NULL. */
static inline Tracer *tracer_of(const Level *lv, const Tensor *t)
{
    return t->tracer && t->tracer->level == lv ? t->tracer : NULL;
}
void tensors_unref(Tensor **t, int n);

/* Without promotion and numerics: for executors and rules that know their operands fit. */
bool op_dispatch(Trace *T, OpId op, const Attr *a, Tensor *const *in, int nin, Tensor **out, int *nout);
bool apply_concrete(Trace *T, OpId op, const Attr *a, Tensor *const *in, int nin, Tensor **out, int *nout);
bool apply_region(Trace *T, OpId op, const Attr *a, Tensor *const *in, int nin, Tensor **out, int *nout);
LevelApply apply_stage, apply_jvp, apply_batch;

/* The tensor as a value of a STAGE level's graph; node NULL on error. */
GValue stage_lift(Trace *T, Level *lv, Tensor *t);
/* Captures that turned out useless leave; the others become leading parameters before the inputs. */
void stage_settle(Level *lv, Node *const *inputs, int nin);
/* trace_jvp that leaves symbolic zeros: dout[i] NULL. kind is TRACE_JVP or TRACE_LIN. */
bool jvp_raw(Trace *T, TraceKind kind, TensorFn fn, Tensor *const *primals, Tensor *const *tangents, int n, Tensor **out,
             Tensor **dout, int *nout);
Tensor *zeros_like(Trace *T, const TType *y);           /* a new reference; NULL on error */
Tensor *tangent_of(Trace *T, Tensor *x, Tensor *t);     /* t, or zeros like x where that is NULL: likewise */

/* BATCH levels: a tensor with the batch axis in front as one of the level (a new reference), and back (broadcast if it is
 * the same for all; NULL on error). */
Tensor *batch_wrap(Level *lv, Tensor *t);
Tensor *batch_unwrap(Trace *T, Level *lv, Tensor *t);

/* Bring operands to the dtypes the kernels want: in[] gets new references. */
bool promote_operands(Trace *T, OpId op, const Attr *a, Tensor **in, int nin);
/* The op under the ambient numerics: false when it does not apply, *ok tells how it went otherwise. */
bool apply_numerics(Trace *T, OpId op, const Attr *a, Tensor *const *in, int nin, Tensor **out, int *nout, bool *ok);

/* Is all that the op made finite, or was it not given finite numbers? false: reported, T->failed is the op. */
bool sentinel_passes(Trace *T, OpId op, Tensor *const *in, int nin, Tensor *const *out, int nout);

#endif
