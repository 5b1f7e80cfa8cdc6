/* variance.h - what the files of the check that every rank reaches every collective share (private to variance*.c). */
#ifndef TSR_FRONTEND_VARIANCE_H
#define TSR_FRONTEND_VARIANCE_H

#include "frontend/check/effects.h"

enum { VARIES = 1, VARIANCE_ROUNDS = 200, DEPTH = 600, ROUNDS_FUEL = 60 };

typedef struct Vary {
    Effects *E;
    EffFn *fn;                  /* NULL: the module's statements */
    Scope *scope;
    uint64_t control;           /* of the conditions around */
    const Ast *why;             /* the condition that varies; NULL: every rank gets here */
    const char *how;
    const Ast *seen;            /* walked before: where a comprehension begins, which runs once */
    bool report, changed;
    int depth, inside_rounds;
    int fuel;                   /* expressions that a look for the rounds of a loop may still see */
} Vary;

bool vary_listed(const char *const *list, const char *name);
const char *vary_name(const Ast *callee);               /* "f" of f and of m.f */
/* The program's own function that a call runs; NULL: the library's, or not known. */
EffFn *vary_callee(Vary *v, AstCall *c, bool *bound);
uint64_t vary_mask(Vary *v, Ast *e);                    /* does the value vary? */
uint64_t vary_rounds(Vary *v, Ast *iter);               /* does the number of rounds of a loop over it? */
uint64_t vary_clauses(Vary *v, AstSeq clauses);         /* how often a comprehension of these goes round */
bool vary_resolves(const Vary *v, uint64_t mask);       /* what the mask says, for the parameters as they are known by now */

#endif
