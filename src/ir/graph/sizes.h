/*
 * sizes.h - the sizes of a graph in one call (private to ir/graph).
 *
 * A graph's parameters bind its size variables, its conditions say which sizes
 * it serves, and its attributes hold expressions of them.  The plan lists all
 * three once for each graph, so that a call evaluates each expression once and
 * a call with the sizes of the last one evaluates nothing.
 */
#ifndef TSR_IR_SIZES_H
#define TSR_IR_SIZES_H

#include "ir/graph/trace.h"

enum { SIZE_KEPT_MAX = 1 << 16 };          /* bytes of a value that is kept from call to call */

typedef enum { SIZE_IS, SIZE_BINDS, SIZE_EQUALS } SizeKind;

typedef struct SizeStep {       /* one axis of a parameter */
    uint8_t kind;
    int param, axis;
    Dim d;                      /* IS: the number. BINDS: the variable. EQUALS: an expression of bound variables */
    int slot;                   /* BINDS: place in var */
} SizeStep;

typedef struct SizePlan {
    Vec(SizeStep) step;         /* axes that any size suits (expressions of outer variables) have none */
    Vec(Dim) var, expr;
    Vec(int) home;              /* by var: the axis that binds it */
    Map slot;                   /* variable -> its place in var, from 1 */
    Map at;                     /* expression -> its place in expr, from 1 */
    bool known;                 /* last, bound and value are those of a call that was served */
    int64_t *last;              /* by step */
    Dim *bound, *value;         /* by var, by expr */
    bool *fixed;                /* by node id: the value follows from the sizes alone; NULL: no node's does */
    struct Tensor **made;       /* by node id: the small ones among these values, for the sizes of last */
    uint32_t nnodes, serial;    /* serial changes with the sizes */
} SizePlan;

const SizePlan *size_plan(Graph *g);            /* made on first use */
void size_plan_free(SizePlan *p);

/* Sizes as the running graph knows them; regions see those of the graphs around them. */
typedef struct DimEnv {
    const SizePlan *plan;
    Dim *bound, *value;         /* by the plan's var and expr; value NULL: a size is symbolic in this call, or there is no variable */
    uint32_t serial;            /* the plan's, when it began: another call of the graph may run inside of this one */
    Dim *from, *to;             /* further variables: sizes that only the run knows */
    int n, cap;
    struct DimEnv *outer;
} DimEnv;

/* Bind the sizes of the operands. false: the graph does not take them, T says why. */
bool env_init(DimEnv *e, Trace *T, Graph *g, Tensor *const *in);
void env_done(DimEnv *e);
/* A copy of the graph for the sizes of these operands alone. NULL: it does not take them, T says why. */
Graph *graph_at_sizes(Trace *T, Graph *g, Tensor *const *in);
Dim env_subst(const DimEnv *e, Dim d);
/* The value of a node that follows from the sizes, as an earlier call with them made it; NULL: make it. Borrowed. */
Tensor *env_made(const DimEnv *e, const Node *n);
void env_keep(DimEnv *e, const Node *n, Tensor *t);     /* it was made: keep it for later calls, if it is small */
/* Bind what is new in the type of a result. */
bool env_bind_type(DimEnv *e, Trace *T, const TType *y, const Tensor *t);

#endif
