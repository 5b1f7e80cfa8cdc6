/*
 * dim_float.h - floats that sizes give: 1.0 / n, n ** 0.5, log2(n), as OP_dim_float computes them when a graph runs.
 *
 * A formula is words with blanks between: numbers, sizes ($0 is the first), and names of functions behind their operands:
 * "1 $0 0.5 ** /".  The functions are those that the language's floats have, so that the bits are theirs.
 */
#ifndef TSR_IR_DIM_FLOAT_H
#define TSR_IR_DIM_FLOAT_H

#include "base/strbuf.h"
#include "ir/core/dim.h"

enum { DIM_FLOAT_SIZES = 8, DIM_FLOAT_DEPTH = 16 };

typedef enum DimFloatOp { DF_ADD, DF_SUB, DF_MUL, DF_DIV, DF_POW, DF_NEG, DF_SQRT, DF_LOG, DF_LOG2, DF_LOG10, DF_LOG1P, DF_SIN, DF_COS, DF_TANH,
                          DF_COUNT } DimFloatOp;

double dim_float_apply(DimFloatOp op, double a, double b);     /* b: of those with two operands */
int dim_float_arity(DimFloatOp op);
void dim_float_word(DimFloatOp op, StrBuf *out);
bool dim_float_find(const char *name, DimFloatOp *out);

/* The formula of n sizes, whose numbers are given; NULL: any. false: it is malformed. */
bool dim_float_eval(const char *formula, const int64_t *size, int n, double *out);

#endif
