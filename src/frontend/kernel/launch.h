/*
 * launch.h - kernels at work: one call, from arguments to results.
 */
#ifndef TSR_FRONTEND_KERNEL_LAUNCH_H
#define TSR_FRONTEND_KERNEL_LAUNCH_H

#include "frontend/eval/interp.h"
#include "ir/core/op.h"
#include "ir/tile/tile.h"

/*
 * Launch fn over args and kwargs; grid and block are tuples of ints or None, schedule a dict of the fields that are given.
 * A new reference to (result, outputs, named): what the kernel returns, for each of args the tensor that it has become or None,
 * and a dict of such tensors for kwargs. V_ERR: an exception is pending.
 */
Value kernel_launch(Interp *I, const char *name, Value fn, Value args, Value kwargs, Value grid, Value block, Value schedule);

/* Told of each kernel that is made for a launch; NULL: nobody asks. Set before the program runs. */
extern void (*kernel_made)(void *st, const TileKernel *k);
/* Told of each launch: who gave its schedule, and the fields of it. NULL: nobody asks. */
extern void (*kernel_scheduled)(void *st, const char *text);
extern void *kernel_made_state;

/* Told of each launch before it runs. */
typedef struct KernelLaunch { const char *name; const TileKernel *k; const int64_t *size; const TileArg *arg;
                              int64_t groups; int lanes; } KernelLaunch;
extern void (*kernel_launched)(void *st, const KernelLaunch *l);
extern void *kernel_launched_state;

/*
 * A launch on traced tensors becomes one op `launch`, whose results are the tensors that the kernel writes and what it returns: the same triple.
 * kernel_staged_run is that op on tensors that have values.
 */
bool kernel_traced(Interp *I, Value fn, Value args, Value kwargs);      /* is a tensor of the arguments followed, or computed later? */
Value kernel_stage(Interp *I, const char *name, Value fn, Value args, Value kwargs, Value grid, Value block, Value schedule);
bool kernel_staged_run(void *host, const Attr *a, Tensor *const *in, int nin, uint32_t dying, Tensor **out, int *nout);

/*
 * The same as an op that runs without the language, while Trace.coded is set: operands are the parameters of its code, which is found by its
 * key (ir/core/ops.def), here and wherever the graph goes.
 */
Value kernel_stage_coded(Interp *I, const char *name, Value fn, Value args, Value kwargs, Value grid, Value block, Value schedule);
/*
 * What a launch on traced tensors returns: zeros of those dtypes and sizes, n of them, each a new reference; tuple: it returns them as one.
 * What the sizes follow from becomes conditions of the graph. false: an exception is pending.
 */
bool kernel_blank_results(Interp *I, const char *name, Value fn, Value args, Value kwargs, Value grid, Value block, Value schedule, Tensor **out,
                          int *n, bool *tuple);
const TileKernel *kernel_coded(Hash128 key);            /* the code of such a launch; NULL: nothing has that key */

/* Told of what was proved of a kernel, with kernel_launched_state. NULL: nobody asks. */
extern void (*kernel_proved)(void *st, const char *text);

/*
 * The work of one launch with these arguments, without running it; args None: of any, where all sizes are written out. A dict:
 * flops, bytes that have to move, bytes loaded, stored and local that accesses ask for, groups; access: how lanes read.
 */
/* (dtype, shape) of each parameter as annotations write them out, (None, None) of a float; E0625 where one leaves sizes open. */
Value kernel_written(Interp *I, const char *name, Value fn, Value schedule);
Value kernel_count(Interp *I, const char *name, Value fn, Value args, Value kwargs, Value schedule);

/*
 * (least, largest, may be NaN) of what a launch with arguments like these returns, or stores where it returns nothing, whatever the
 * elements of its tensors are.
 */
Value kernel_bounds(Interp *I, const char *name, Value fn, Value args, Value kwargs, Value schedule);

#endif
