/*
 * ways.h - branches of the program while it is typed: what changed on each, and how they meet.
 *
 *     Fork at = way_fork(C);  ... walk a branch ...  Way a = way_end(C, at);
 *     at = way_fork(C);       ... the other ...      Way b = way_end(C, at);
 *     way_merge(&b, &a);
 *     way_take(C, &b);
 *
 * Forks nest, and each is ended in the frame that began it.
 */
#ifndef TSR_FRONTEND_WAYS_H
#define TSR_FRONTEND_WAYS_H

#include "frontend/check/checker.h"

struct Change {
    const Type **at;                /* the variable */
    const Type *was, *now;          /* at the fork; at the end */
    const Type *kept;               /* of way_merge */
};
typedef struct Way { Vec(struct Change) changes; bool dead, kernel; } Way;      /* kernel: joined by the rules of kernels */
typedef struct Fork { int mark; bool dead; } Fork;

/* What a condition is about is not known in its branches: flow.c. */
typedef struct { Trail *trail; const Type **at; const Type *was; } Hidden;
typedef struct Hiding { Check *C; Hidden var[16]; int n, depth, elements; struct Hiding *around; } Hiding;
void flow_hide(Check *C, Hiding *h, Ast *test);         /* test NULL: nothing */
void flow_unhide(const Hiding *h);

const Type **flow_variable(const Check *C, const AstName *name, Trail **trail);      /* NULL: none that is kept by the walk */

/* The variable that an expression is, which this function alone sets; NULL: it is none. */
const Type **optional_variable(const Check *C, const Ast *e, Trail **trail);
void optional_report(Check *C, const Ast *name, const char *what, const char *why);     /* E0921: the variable may be that */

/* What a test tells of variables, T | None above all: optional.c. */
typedef struct { Trail *trail; const Type **at; const Type *t, *was; } Told;
typedef struct Narrowing { Told var[8]; int n; } Narrowing;
void narrow_read(Check *C, Ast *test, bool holds, Narrowing *out);
void narrow_more(Check *C, Ast *test, bool holds, Narrowing *out);      /* and what this test tells, too */
void narrow_take(Narrowing *n);                         /* from here on, to the end of the branch */
void several_believed(Check *C, const Narrowing *yes, const Narrowing *no);      /* several.c */
void narrow_back(const Narrowing *n);                   /* the end of a branch that is no way of its own */

Fork way_fork(Check *C);
Way way_end(Check *C, Fork from);       /* what changed since, which is undone; the caller takes or drops it */
Way way_here(Check *C, Fork from);      /* the same, with nothing undone: for break and continue */
/* w becomes the join of both, which began at one fork; a dead one adds nothing. `other` is used up. */
void way_merge(Way *w, Way *other);
void way_join_start(Way *w);            /* w becomes the join of itself and what was at its fork */
void way_drop(Way *w);
bool way_changes(const Way *w);
void way_take(Check *C, Way *w);        /* what it ended with is what is now; w is used up */

#endif
