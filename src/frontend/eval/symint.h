/*
 * symint.h - ints that are symbolic sizes.
 *
 * Inside a staged function x.shape[0] is an int whose value the call at hand
 * knows but the graph does not fix: V_SYMINT, with the Dim in Value.i and its staging in Value.aux.  Sums,
 * products, floor divisions, minima and comparisons keep it symbolic, so the
 * graph serves every size; what needs the number itself (text, hashes, list
 * indices, range) settles it: from then on the graph is for that size
 * only (ir/core/dim_ask.h).
 */
#ifndef TSR_FRONTEND_SYMINT_H
#define TSR_FRONTEND_SYMINT_H

#include "frontend/eval/interp.h"
#include "ir/core/dim_ask.h"

/* The int of that value: V_INT where the conditions so far fix it. */
Value size_value(Dim d);
static inline bool is_plain_int(Value v) { return v.tag == V_INT || v.tag == V_BOOL; }
static inline bool is_symint(Value v) { return v.tag == V_SYMINT; }
static inline bool is_symbolic(Value v) { return v.tag == V_SYMINT || v.tag == V_SYMFLOAT; }
/* The size of a V_SYMINT. One that was kept from an earlier staging is the number that it was. */
Dim symint_size(Value v);
/* An int, bool or symbolic int as a size expression; false: v is none of them. */
bool symint_dim(Value v, Dim *out);
/* The int as a size expression; what is no int is asked as value_as_int does. */
bool value_as_size(Interp *I, Value v, Dim *out);

/* The number; false: it is known only when the graph runs, and an exception is pending. */
bool symint_number(Interp *I, Value v, int64_t *out);
Value symint_settled(Interp *I, Value v);               /* V_INT or V_FLOAT, or V_ERR */

/* a op b where one is V_SYMINT or V_SYMFLOAT: symbolic, or settled where the other or the operator needs a number. */
Value symint_binary(Interp *I, int op, Value a, Value b);
Value symint_compare(Interp *I, int op, Value a, Value b);
Value symint_unary(Interp *I, int op, Value a);
int symint_truth(Interp *I, Value v);

/* Settle every symbolic int and float in *v, in lists, tuples and dicts too; floats alone. false: pending. */
bool symint_settle_inside(Interp *I, Value *v);
bool symfloat_settle_inside(Interp *I, Value *v);

/*
 * Floats that follow from sizes (symfloat.c), V_SYMFLOAT: sums, products, quotients, powers, and what is named `function` in the module
 * math.  V_NOTIMPL: it is to be computed with numbers.
 */
extern bool symfloat_made;                              /* was there ever one? */
Value symfloat_binary(int op, Value a, Value b);
Value symfloat_unary(int op, Value a);
Value symfloat_call(const char *function, Value a);
/* The float; its sizes are settled. false: pending. */
bool symfloat_number(Interp *I, Value v, double *out);
/* What OP_dim_float takes: room for DIM_FLOAT_SIZES. false: it is of an earlier staging, and so the number that it was. */
bool symfloat_formula(Value v, StrBuf *out, Dim *size, int *n);

#endif
