/*
 * gpu.h - kernels of the Tile IR as code for NVIDIA GPUs.
 *
 * A kernel NAME becomes a function of a unit for sm_80 or sm_90a, whose PTX llvm_object gives.  A group is a block of threads,
 * whose number lies along the grid's first axis in row-major order; its lanes are the threads, and of a kernel that does not
 * speak of lanes as many as its schedule's warps have.  Parameters are 8-byte words: the sizes of the launch in the kernel's order, the
 * numbers of groups along three axes, then of each view its base, its extents and its strides in elements.
 *
 * The bits are the oracle's (ir/tile/tile.h); of NaNs only that they are NaNs.
 */
#ifndef TSR_CODEGEN_GPU_H
#define TSR_CODEGEN_GPU_H

#include "codegen/llvm.h"
#include "ir/tile/tile.h"

typedef struct GpuFrame {
    int threads;                /* of a group */
    int64_t shared;             /* bytes of shared memory of a group, without its allocs, which depend on sizes */
} GpuFrame;

/* Add a verified kernel to a unit. false: *err names what code for GPUs does not cover; the unit is then of no use. */
bool gpu_emit(Llvm *u, const TileKernel *k, const char *name, GpuFrame *frame, StrBuf *err);

/* Bytes of shared memory that a group of this launch takes. -1: more than 2^31. */
int64_t gpu_shared(const TileKernel *k, const GpuFrame *f, const int64_t *sizes);

/* The parameters of a launch; groups: tile_groups. */
enum { GPU_WORDS = 512 };
int gpu_words(const TileKernel *k, const int64_t *sizes, const int64_t *groups, const TileArg *args, uint64_t *words);

#endif
