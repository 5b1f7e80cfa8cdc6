/*
 * guard.h - what a staged function read from outside, and whether it still holds.
 *
 * A graph made by jit stands for a call only while the variables that the
 * function read are as they were.  While it is being staged, every read of a
 * global or a closure's cell is noted here with its value: the whole tree of
 * lists, tuples, dicts and objects below it.  A later call compares: tensors
 * may have changed (they are inputs of the graph), anything else that differs
 * means staging again.  So a staged function means what the plain one does.
 *
 * Stores go the same way.  A tensor that the function put into an outside
 * variable, list, dict or object while staged becomes one more result of the graph;
 * guard_write puts the real one there after each run.
 */
#ifndef TSR_FRONTEND_TENSOR_GUARD_H
#define TSR_FRONTEND_TENSOR_GUARD_H

#include "frontend/eval/reads.h"
#include "frontend/tensor/bind.h"

typedef struct Guard Guard;

/* Begin noting reads: until guard_end, also those of functions staged within. */
Guard *guard_begin(Interp *I);
/* Count v as read too: objects that arrive as static arguments or as the function itself. */
void guard_note_value(Guard *g, Value v);
void guard_end(Guard *g);
void guard_free(Guard *g);
void guard_visit(Guard *g, void (*fn)(Value *v, void *st), void *st);   /* its Values, for the collector */

/*
 * After the function ran, still staged: restore what it stored, and append the stored tensors to out.
 * false: an exception is pending (a store that the graph cannot repeat), and all that was read is again as it was.
 */
bool guard_take_writes(Guard *g, Tensor **out, int *nout, int max);
/* Symbolic ints that the function stored outside become numbers: what is stored must be right for every call. */
bool guard_settle(Guard *g);
int guard_nwrites(const Guard *g);

/* A place outside that holds a tensor: where (holder, at) is, what it is called ("model.layers.0.w"), and what it holds. */
typedef struct GuardPlace { const void *holder; int64_t at; const char *name; Tensor *t; int capture; /* -1: none */ } GuardPlace;
void guard_places(Guard *g, void (*fn)(void *st, const GuardPlace *p), void *st);
/* After staging: is all that was read as it was? false: also that the graph will not repeat has changed, and is put back. */
bool guard_unchanged(Guard *g);
/* Where the i-th stored tensor goes; t NULL: there is no tensor now. The name is empty. */
GuardPlace guard_write_place(const Guard *g, int i);

/* Tie noted tensors to the graph's captures. */
void guard_bind_captures(Guard *g, Tensor *const *capture, int n);

/*
 * Does everything that was read still hold? Then capture[i] (new references) become the tensors as they are now.
 * 1, 0, -1 pending. Prepares guard_write for the same places.
 */
int guard_check(Guard *g, Tensor **capture);
/* What of it does not hold any more, "the global rate is 2.0 and was 1.0"; false: all of it does. The graph has n captures. */
bool guard_explain(Guard *g, int n, StrBuf *out);
/* Put the last guard_nwrites results where the function stored them. Consumes nothing. */
bool guard_write(Guard *g, Tensor *const *result);
/* Note all places of a valid guard in the one that is open now, if any. */
void guard_renote(Guard *g);

#endif
