/*
 * far.h - what runs on GPUs of the driver's: bodies of `fused` nodes (fused.h), single ops, matrix products.
 *
 * An op whose operands are on such a GPU runs there where it is elementwise, a sum or an extreme, or a matrix product; any other has its
 * operands brought to the host by who reads them, and its result belongs to the GPU again.  The bits are the host's, except
 * of products of bf16, f16, fp8 and bytes, which matrix units do.
 */
#ifndef TSR_IR_FAR_H
#define TSR_IR_FAR_H

#include "ir/schedule/fused.h"

/* A kernel's code on a device. 1: it is on its way; 0: the device has no room for it; -1: there is a fault (runtime/cuda.h). */
typedef int FarLaunch(void *code, const TileKernel *k, int device, const int64_t *sizes, const TileArg *args, Span where);
void far_begin(const KernelCompiler *compiler, FarLaunch *launch);

/*
 * The chip that kernels for a device are chosen for: 80, 90, ..., 0 the driver of the tests. far_made_for: whatever the device is,
 * since there is code for that one (a bundle's, a rehearsal's); -1: the device's own.
 */
int far_chip(int device);
extern int far_made_for;

/* The kernel that `prefetch` is on a GPU (far_prefetch.c), not folded. */
TileKernel *far_prefetch_kernel(void);

/* What does that now, to be put back later. */
typedef struct FarWay { const KernelCompiler *compiler; FarLaunch *launch; const struct StorageFar *storage; bool pretends; int made_for; } FarWay;
FarWay far_way(void);
void far_go(FarWay w);

/*
 * For rehearsals (rehearse.h), until far_go: bodies, products and ops on gpu:0 go all the way to their launches, which do nothing; its tensors take
 * no memory, and there need be no GPU.  `notes` is asked for the code of all of them.  chip: -1 is that of the device, as a call takes it.
 */
void far_pretend(const KernelCompiler *notes, int chip);
extern bool far_pretends;
/* One whose code does nothing, and which `take` is told of. */
KernelCompiler far_notes(void *(*take)(const TileKernel *k, StrBuf *err));
extern char far_pretended[];            /* where all tensors are meanwhile, which nobody looks at */

#endif
