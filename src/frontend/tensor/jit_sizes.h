/*
 * jit_sizes.h - the sizes of a staged function's arguments as variables.
 */
#ifndef TSR_FRONTEND_JIT_SIZES_H
#define TSR_FRONTEND_JIT_SIZES_H

#include "frontend/tensor/transform.h"
#include "ir/graph/graph.h"

typedef struct SizeVars { Vec(Dim) var; } SizeVars;

/* Who knows the sizes better: puts variables, made by dim_sized, or numbers into the types and lists the variables. */
typedef struct SizeDeclare {
    void (*declare)(void *st, SizeVars *v, TType *type, int n);
    void *st;
} SizeDeclare;

/*
 * Replace the sizes in the types of f's argument tensors by variables, and note conditions from now on.  false, and nothing
 * is changed: another function is being staged (its variables and conditions serve this one too), or sizes are symbolic.
 * declare NULL: each axis has a variable of its own.
 */
bool size_vars_begin(Interp *I, SizeVars *v, Value f, const CallArgs *c, const SizeDeclare *declare, TType *type, int n);
/* The graph (consumed; NULL: staging failed) with its conditions; types are brought in line. */
Graph *size_vars_end(SizeVars *v, Graph *g, TType *type, int n);

#endif
