/*
 * launch.h - kernels at work: one call, from arguments to results.
 */
#ifndef TSR_FRONTEND_KERNEL_LAUNCH_H
#define TSR_FRONTEND_KERNEL_LAUNCH_H

#include "frontend/eval/interp.h"
#include "ir/tile/tile.h"

/*
 * Launch fn over args and kwargs; grid and block are tuples of ints or None, schedule a dict of the fields that are given.
 * A new reference to (result, outputs, named): what the kernel returns, for each of args the tensor that it has become or None,
 * and a dict of such tensors for kwargs. V_ERR: an exception is pending.
 */
Value kernel_launch(Interp *I, const char *name, Value fn, Value args, Value kwargs, Value grid, Value block, Value schedule);

/* The arithmetic operations ("flops") or bytes ("bytes") of one launch of a kernel whose sizes are all written out, or how it reads ("access"). */
Value kernel_count(Interp *I, const char *name, Value fn, Value schedule, const char *what);

#endif
