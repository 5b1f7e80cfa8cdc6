/*
 * ranks.h - one function on every rank of a mesh.
 *
 * Ranks are fibers of the evaluator: one runs until it comes to a collective,
 * then the next, in rank order.  When all members of a group wait in the same
 * collective it is computed (ir/graph/collective.h) and they go on.  So every run takes
 * the same course, and a rank that waits for nobody is found at once.
 */
#ifndef TSR_FRONTEND_RANKS_H
#define TSR_FRONTEND_RANKS_H

#include "frontend/eval/interp.h"
#include "runtime/mesh.h"

/*
 * f(*args[i], **kwargs[i]) on rank i; args and kwargs are lists of tuples and of dicts.  The list of results; V_ERR: a rank raised, or they
 * did not meet: the exception names the ranks and lines.
 */
Value ranks_run(Interp *I, const Mesh *mesh, Value f, Value args, Value kwargs);

int ranks_current(Interp *I, const Mesh **mesh);        /* the running rank and its mesh; -1: no rank runs */

#endif
