/*
 * watch.h - what a run tells about itself on standard error, when the command line asks for it.
 *
 *   --trace-shapes   each op as it runs:  file.tsr:3 matmul f32[2, 3] f32[3, 4] -> f32[2, 4]
 *   --trace-memory   what each backward pass keeps:  file.tsr:3 saved f32[2, 4] 32 bytes
 *   --rng            each random op with the key that its numbers come from
 *   --trace-fold     each level of a fold
 *   --stats          at the end, what became of every staged function
 */
#ifndef TSR_FRONTEND_TENSOR_WATCH_H
#define TSR_FRONTEND_TENSOR_WATCH_H

#include "frontend/tensor/bind.h"

typedef enum StatKind {
#define STAT(name, summary) STAT_##name,
#include "frontend/tensor/stats.def"
    STAT_COUNT
} StatKind;

/* Count for the function f (its __name__); nothing happens unless the run keeps statistics. */
void stats_add(Interp *I, Value f, StatKind kind, int64_t n);
void stats_note(Interp *I, Value f, const char *what);          /* said behind the numbers; a constant text; NULL: nothing */

/* One level of a fold is done: `calls` calls of its function. */
void watch_fold(Interp *I, int level, int64_t calls);

/* Record what runs (profile.c). */
void profile_begin(Interp *I);
void profile_end(Interp *I);
/* What went on beside the program, and a wait of the program's, for the trace: nanoseconds of CLOCK_MONOTONIC. Nothing without a profile. */
void profile_beside(Sym what, int64_t began, int64_t took, double bytes);
void profile_wait(int64_t began, int64_t took);
/* The end of what began then, by the trace's `began`: a whole graph of kernels, launched at once; ran: false: it was none. */
void profile_graph(Interp *I, bool ran, Tensor *const *in, int nin, Tensor *const *out, int nout, int64_t began);

/* Begin what the options ask for; the end prints the statistics. */
void watch_begin(Interp *I);
void watch_end(Interp *I);

#endif
