/*
 * staged.h - control flow on tensors that have no value yet: what places.c and staged.c share.
 */
#ifndef TSR_FRONTEND_STAGED_H
#define TSR_FRONTEND_STAGED_H

#include "frontend/eval/lower.h"

/* A variable, or an attribute of one. */
typedef struct Var {
    uint8_t bind;               /* Bind */
    uint32_t slot;
    Sym name, attr;             /* attr NULL: the variable itself */
    Value before;               /* its value before the construct; owned */
} Var;
typedef Vec(Var) Vars;

typedef enum { LEAVES_RETURN, LEAVES_BREAK, LEAVES_CONTINUE } LeaveKind;

void places_of(AstSeq body, Vars *out);
bool block_leaves(AstSeq body, LeaveKind how);          /* break and continue: of the loop around it */
Value place_get(const Var *p, Frame *f);              /* V_ERR: unset */
void place_set(const Var *p, Frame *f, Value v);
Value place_copy(Interp *I, Value v);

/* One round of an unrolled loop whose leaving depends on a tensor: *left (a bool tensor, V_ERR: not yet) is updated.
 * x: how the body ended, X_STAGED when it stopped at a staged branch; ignored when *left is set: then the body runs here. */
Exit staged_round(const Step *loop, Frame *f, Exit x, Value *left);

#endif
