/*
 * gpu.h - kernels of the Tile IR as code for NVIDIA GPUs.
 *
 * A kernel NAME becomes a function of a unit for sm_80 or sm_90a, whose PTX llvm_object gives.  A group is a block of threads,
 * whose number lies along the grid's first axis in row-major order; its lanes are the threads, and of a kernel that does not
 * speak of lanes as many as its schedule's warps have.  Launches, and parameters: ir/schedule/far_code.h.
 *
 * The bits are the oracle's (ir/tile/tile.h); of NaNs only that they are NaNs.
 */
#ifndef TSR_CODEGEN_GPU_H
#define TSR_CODEGEN_GPU_H

#include "codegen/llvm.h"
#include "ir/schedule/far_code.h"
#include "ir/tile/tile.h"

/*
 * Add a verified kernel to a unit. tensor: where it has a product for warpgroups, tensor copies bring its operands (gpu_roles.c), which have
 * to lie as far_code.h says; else operands may lie in any way.  false: *err names what code for GPUs does not cover; the unit is then of no use.
 */
bool gpu_emit(Llvm *u, const TileKernel *k, const char *name, bool tensor, GpuFrame *frame, StrBuf *err);

#endif
