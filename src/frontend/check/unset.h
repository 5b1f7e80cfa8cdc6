/*
 * unset.h - what the two files that warn of variables without a value share (E0219).
 *
 *   unset.c        the walk over statements and expressions
 *   unset_ways.c   what is known of variables on the ways of that walk, and which tests are believed
 *
 * A walk owns what its vectors hold; the caller of a way's beginning frees nothing: unset_join takes both ways.
 */
#ifndef TSR_FRONTEND_UNSET_H
#define TSR_FRONTEND_UNSET_H

#include "frontend/check/resolve.h"

typedef enum UnsetState { NOT_SET, TAKEN, PARTLY, IS_SET } UnsetState;      /* TAKEN: by del, or by the end of its handler */

typedef struct UnsetVar { uint8_t state, other; int hushed, stamp; const Ast *why; } UnsetVar;      /* why: the statement that sets it on some ways */
typedef struct UnsetPut { int slot; uint8_t state; const Ast *why; } UnsetPut;
typedef struct UnsetWay { Vec(UnsetPut) put; bool dead; } UnsetWay;     /* what changed, each variable once */

enum { TOPICS_MAX = 24 };
/* The names that a statement tests and sets. */
typedef struct UnsetTopics { Sym at[TOPICS_MAX]; int n, depth; } UnsetTopics;

/* A variable that was PARTLY, and what the statement that set it speaks of, once that was asked. */
typedef struct UnsetDoubt { int slot; const Ast *why; UnsetTopics of; } UnsetDoubt;

typedef struct UnsetWalk {
    Res *R;
    Scope *scope;
    UnsetVar *var;              /* by slot */
    int n, stamp, depth, tries;
    Vec(UnsetPut) log;          /* what variables were before each store */
    Vec(int) hushed;            /* slots: believed until the block ends */
    Vec(UnsetDoubt) doubts;
    bool dead;
    int breaks;                 /* out of the innermost loop */
} UnsetWalk;

UnsetVar *unset_var(UnsetWalk *w, const AstName *n);    /* NULL: it is none of this body's own */
void unset_put(UnsetWalk *w, int slot, uint8_t state, const Ast *why);
void unset_bind(UnsetWalk *w, const AstName *n);        /* it is set; n may be NULL */
void unset_read(UnsetWalk *w, const AstName *n);        /* E0219 where some way has not set it; said once */

UnsetWay unset_end(UnsetWalk *w, int from);             /* what changed since log.n was `from`, taken back */
/* What is so behind both, which began here; frees them. */
void unset_join(UnsetWalk *w, UnsetWay *a, UnsetWay *b, const Ast *why);

bool unset_names(Ast *n, void *topics);                 /* adds the names in n to UnsetTopics; an AstVisit */
bool unset_share(const UnsetTopics *a, const UnsetTopics *b);           /* does a name stand in both? */
void unset_hush(UnsetWalk *w, int slot);                /* believed to be set until unset_unhush to what hushed.n is now */
void unset_unhush(UnsetWalk *w, int mark);
/* Where the test holds, or fails, variables that were set under a like one are believed to be there. */
void unset_believe(UnsetWalk *w, Ast *test);

#endif
