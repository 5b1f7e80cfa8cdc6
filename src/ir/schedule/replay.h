/*
 * replay.h - graphs on a GPU that are called again.
 *
 * What a run puts on a GPU follows from the graph and from how its operands lie, unless the host looks at values on the way.  So a run is
 * put down (recording.h), and a later one whose operands lie likewise is one launch, without a look at the graph: same kernels,
 * same order, same bits.
 */
#ifndef TSR_IR_REPLAY_H
#define TSR_IR_REPLAY_H

#include "ir/graph/trace.h"

typedef struct Replay Replay;   /* of one graph: the runs that can be done again. NULL: there are none yet */

/* 1: done again; 0: it is to be run; -1: T->error says why. */
int replay_again(Trace *T, Replay *r, const char *name, Tensor *const *in, int nin, Tensor **out, int *nout);
/* A run begins, and is put down where that may be of use. Its operands outlive it. */
void replay_begin(Trace *T, Replay **r, Tensor *const *in, int nin);
/* It ended; false: it failed. wanted: also where the runs to come would take much memory in one piece. */
void replay_end(Replay *r, bool ok, bool wanted, Tensor *const *out, int nout);
const char *replay_why_not(const Replay *r);    /* why the last run cannot be done again; NULL: it can, or nobody tried */
void replay_free(Replay *r);                    /* NULL allowed */

#endif
