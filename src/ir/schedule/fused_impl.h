/*
 * fused_impl.h - what the files that run `fused` nodes share: a body and the kernels made of it (fused_code.c).
 */
#ifndef TSR_IR_FUSED_IMPL_H
#define TSR_IR_FUSED_IMPL_H

#include "ir/schedule/fused.h"
#include "ir/schedule/schedule.h"

enum { OPERANDS = REGION_OPERANDS };

/* A kernel of a body, for operands that lie in memory in a certain way. */
typedef struct Variant {
    struct Variant *next;
    StrideClass stride[OPERANDS];
    Schedule schedule;
    TileKernel *tile;           /* NULL: it could not be lowered */
    const struct KernelCompiler *by;    /* whose code it is: another compiler may have begun since */
    int effort;
    void *code;                 /* the compiler's; NULL: there is none */
    LaunchKernel launch;
} Variant;

/* What a body becomes. */
typedef struct FusedCode {
    uint32_t refs;
    Graph *whole, *body;        /* copies of its own, which bodies of the same key share; body: without the product */
    const Node *product;        /* in whole; NULL: none.  Its lanes are the last operand of body */
    int factor[2];              /* which operands the product is of */
    Region r;
    Schedule s;
    bool able;                  /* is the body a region at all? */
    const RegionValue *value[OPERANDS];     /* of its operands, then its results; NULL: an operand that nothing uses */
    Variant *first;
    double work;                /* element operations so far */
    StrBuf key;                 /* body and schedule */
} FusedCode;

/* The compiler that is at work (NULL: the oracle), what a function asked of it (0: none did), and what has been made. */
typedef struct FusedState { const KernelCompiler *compiler; int effort; FusedStats stats; } FusedState;
extern FusedState fused_state;

FusedCode *fused_code_of(Graph *body, const Attr *a);   /* kept with the body; bodies that differ in the names of sizes alone share it */
void fused_code_free(FusedCode *c);                     /* drop a reference */
/* The kernel for these strides and this schedule, made if there is none yet. */
Variant *fused_variant(FusedCode *c, const StrideClass *stride, int n, Schedule s);
/* Bytes that are the same for bodies that differ in the names of sizes alone. */
void fused_body_key(const Graph *body, StrBuf *out);

#endif
