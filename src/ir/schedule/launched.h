/*
 * launched.h - whole kernels by compiled code: those that programs write.
 *
 * A kernel that code covers is compiled when that pays, its groups are shared
 * among threads, and its results are the oracle's bits.  Where atomics of
 * floats show the order of groups, one thread does them in turn.
 */
#ifndef TSR_IR_LAUNCHED_H
#define TSR_IR_LAUNCHED_H

#include "ir/schedule/fused.h"

/* From now on kernels run by this compiler's code; NULL: the oracle's. lazily: when they have worked for as long as compiling takes. */
void launched_begin(const KernelCompiler *compiler, bool lazily);

/*
 * Run all groups of a kernel. *code is kept between its launches, NULL at first; launched_free takes it.
 * 1: done; 0: nothing was done, it is the oracle's; -1: no memory, or interrupted (tsr_interrupted), and *err says which.
 */
int launched_run(void **code, const TileKernel *k, const int64_t *sizes, const TileArg *args, StrBuf *err);
/* The same on a GPU of the driver's; args are addresses there. 0: the kernel is the host's; -1: a fault (runtime/cuda.h). */
int launched_far(void **code, const TileKernel *k, int device, const int64_t *sizes, const TileArg *args, Span where);
void launched_free(void *code);

/*
 * All groups of a kernel by its code. size: the launch's, then three numbers of groups; scratch: bytes that a thread needs; work: nodes of lanes
 * in a group. false: no memory.
 */
bool launched_groups(KernelFn *fn, int64_t scratch, const int64_t *size, const TileArg *args, int64_t groups, bool in_turn, double work);

/* Kernels made and refused so far, launches by code and by the oracle, seconds of compiling. */
typedef struct LaunchedStats { int made, refused, launches, interpreted; double seconds; } LaunchedStats;
LaunchedStats launched_stats(void);

/* Kernels whose launches a GPU was chosen for and the host did: which, why, and how often. */
typedef struct LaunchedOnHost { char name[64], why[96]; int64_t times; } LaunchedOnHost;
const LaunchedOnHost *launched_on_host(int *n);

#endif
