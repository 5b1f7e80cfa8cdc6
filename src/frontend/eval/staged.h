/*
 * staged.h - control flow on tensors that have no value yet: what its files share.
 *
 * places.c reads off the syntax what a statement assigns, snapshot.c what the
 * host held, scene.c compares and joins what arms leave behind, staged.c runs the arms of a
 * branch, leave.c carries return, break and continue out of arms, staged_loop.c makes loops.
 */
#ifndef TSR_FRONTEND_STAGED_H
#define TSR_FRONTEND_STAGED_H

#include "frontend/eval/later.h"
#include "frontend/eval/lower.h"

/* A variable, or an attribute of one. */
typedef struct Var {
    uint8_t bind;               /* Bind */
    uint32_t slot;
    Sym name, attr;             /* attr NULL: the variable itself */
    Span at;                    /* where it is assigned */
} Var;
typedef Vec(Var) Vars;

typedef enum { LEAVES_RETURN, LEAVES_BREAK, LEAVES_CONTINUE } LeaveKind;

void places_of(AstSeq body, Vars *out);
void places_of_target(const Ast *target, Vars *out);
bool block_leaves(AstSeq body, LeaveKind how);          /* break and continue: of the loop around it */
bool block_ends(AstSeq body);                           /* does every way through it leave? */
bool block_yields(AstSeq body);
bool needs_number(AstSeq body, Sym name);               /* is the variable used other than as an index? */

/*
 * How staged code was left: an Exit as a number, known (V_INT) or a tensor of the graph. ret: what it returns where it returns.
 * V_ERR as code: not left. ways: the exits there are, as bits.
 */
typedef struct Left {
    Value code, ret;
    unsigned ways;
} Left;
#define NOT_LEFT ((Left){VERR, VERR, 0})
void left_drop(Left *l);

/* Resolve X_STAGED here: run both arms up to this point. X_NORMAL with *left set, or X_RAISE. Consumes nothing else. */
Exit staged_settle(Frame *f, Left *left);
/* Leave as l says, which is consumed; where it does not leave, run `otherwise` (NULL: go on). X_STAGED when a tensor decides. */
Exit staged_leave(Frame *f, Left *l, const Step *otherwise);
/* The same after a loop, for which breaking is done with. */
Exit staged_leave_loop(Frame *f, Left *l, const Step *otherwise);

/* One round of an unrolled loop whose leaving depends on a tensor; *left is updated. x: how the body ended; ignored when
 * *left is set: then the target is stored and the body runs here, unless the loop was left. Takes item. */
Exit staged_round(const Step *loop, Frame *f, Exit x, Value item, Left *left);

/* A `for` as a loop of the graph: over a tensor's rows, or (rows V_ERR) from first by step; n rounds, an int or a staged
 * tensor. *done false: it has to be unrolled, and nothing has happened. */
typedef struct Rounds { Value rows, n, first; int64_t step; } Rounds;
Exit staged_for(const Step *loop, Frame *f, const Rounds *r, bool *done);
Value staged_trip_count(Interp *I, Value lo, Value hi, int64_t step);      /* of a range, as a tensor */
bool staged_worthwhile(Interp *I, int64_t rounds);

#endif
