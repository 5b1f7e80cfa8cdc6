/*
 * ranges.h - from when to when functions ran: for profiles, and for tools that listen through NVTX.
 *
 * A tool that traces programs, such as nsys, names its library in NVTX_INJECTION64_PATH; each call of a function is then told to it as a
 * range (nvtxRangePush, nvtxRangePop), by the function's name.  A profile keeps those with operations inside.
 */
#ifndef TSR_FRONTEND_TENSOR_RANGES_H
#define TSR_FRONTEND_TENSOR_RANGES_H

#include "frontend/eval/eval.h"

typedef struct Range {
    int64_t began, took;                /* nanoseconds, of CLOCK_MONOTONIC; took -1: it has not ended */
    Sym name;
    int depth;                          /* ranges around it */
    int event;                          /* how many events there were when it began */
} Range;

/* Tell NVTX of calls from now on, if a tool listens. */
void ranges_begin(Interp *I);
/* Keep ranges too; `event` tells how many events there are (profile.c). */
void ranges_keep(Interp *I, int (*event)(void));
/* Those that are kept, in the order of their ends; they are kept no longer after ranges_forget. */
const Range *ranges_kept(const Interp *I, int *n);
void ranges_forget(Interp *I);
void ranges_end(Interp *I);             /* no more is told */

/* A call of this name begins and ends; key, an address, is the same at both. NULL-safe for I->ranges. */
void range_push(Interp *I, Sym name, const void *key);
void range_pop(Interp *I, const void *key);

#endif
