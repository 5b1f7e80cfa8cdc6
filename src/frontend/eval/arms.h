/* arms.h - running and joining the two arms of a staged branch: staged.c and leave.c. */
#ifndef TSR_FRONTEND_ARMS_H
#define TSR_FRONTEND_ARMS_H

#include "frontend/eval/scene.h"

/* What is left of a block. */
typedef struct Rest { const Step *block; int from; } Rest;

/* How an arm starts: with a block or an expression, or by leaving. START_GIVEN: it is over, and left as given. */
typedef enum { START_BLOCK, START_VALUE, START_EXIT, START_LEFT, START_GIVEN } StartKind;
typedef struct Start {
    StartKind kind;
    const Step *body;           /* START_BLOCK: NULL is empty; START_LEFT: what comes where it does not leave */
    AstSeq written;             /* the same as syntax */
    Exit exit;                  /* START_EXIT */
    Left left;                  /* START_EXIT: what it returns; START_LEFT: the rest of the decision. Owned */
    Span at;
} Start;

typedef struct Arm {
    Scene *s;
    const Start *start;
    const Rest *rest;
    int nrest;
    GiveKind give;              /* GIVE_RETURN: it runs to the function's end, and what it returns is what counts */
    struct Arm *first;          /* the second arm: compared with this one */
    Gift gift;
    unsigned ways;
    Value raised;               /* it ends by a raise statement: the exception */
} Arm;

/* Run both arms and join them: the host is then as after the one that counts, *left says how it left. Consumes test. */
bool arms_join(Arm *yes, Arm *no, Value test, Left *left);
Exit arm_run(const Start *start, Frame *f, const Rest *rest, int nrest);
/* Resolve what is pending in the frame up to here (to_end: up to the function's end). */
Exit pending_resolve(Frame *f, bool to_end, Left *left);
Exit pend(Frame *f, Value test, Start yes, Start no);           /* X_STAGED; consumes all */

#endif
