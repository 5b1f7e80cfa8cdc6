/*
 * memory.h - staged functions within a limit of memory.
 *
 * A call whose plan (ir/graph/plan.h) stays below the limit runs its graph as
 * it is, fused when that fits too.  Otherwise a variant for these sizes is made that computes values again
 * (ir/graph/fit.h), fused in turn when that still fits, and kept for the next call with them.
 */
#ifndef TSR_FRONTEND_MEMORY_H
#define TSR_FRONTEND_MEMORY_H

#include "base/hash.h"
#include "frontend/eval/interp.h"
#include "ir/graph/trace.h"

typedef struct Fitted {         /* zeroed: none yet. Belongs to one graph */
    Hash128 sizes;              /* of the operands */
    bool planned;
    int64_t fused;              /* bytes that the graph with its kernels needs for them */
    int64_t plain;              /* bytes that the graph itself needs for them, its operands apart */
    Graph *variant;             /* NULL: none was needed yet */
    int64_t needs;              /* bytes that the variant needs */
    int again;                  /* how many nodes it computes again */
} Fitted;

/* The memories that a tensor may be said to be in, ended by NULL; the first is the device's own. oper.c */
extern const char *const tensor_spaces[];
uint8_t *tensor_space(Tensor *t);                        /* which of them the program says that it is in; NULL: nobody says */

/* "64MB", "2 GB", "512": bytes; units are powers of 1024. false: it is none, or not above 0. */
bool quantity_of_bytes(const char *text, int64_t *out);

/*
 * The graph to run for these concrete operands: g, the same with kernels (fused; NULL: nothing is to be fused),
 * or a variant that with its operands stays within `limit` bytes (0: no limit)
 * and leaves the program within its own. Borrowed. NULL: there is none, MemoryError is pending.
 */
Graph *memory_fit(Interp *I, Fitted *f, Graph *g, Graph *fused, Tensor *const *in, int nin, int64_t limit);
void fitted_done(Fitted *f);

/* Run it, and tell what it took when --trace-memory asks. As graph_apply. */
bool memory_run(Interp *I, const Fitted *f, Graph *run, Tensor *const *in, int nin, Tensor **out, int *nout);

#endif
