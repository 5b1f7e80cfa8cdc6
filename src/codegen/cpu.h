/*
 * cpu.h - kernels of the Tile IR as code for CPUs.
 *
 * A kernel NAME becomes two functions of a unit:
 *
 *     void NAME(const int64_t *size, const TileArg *arg, char *scratch, int64_t lo, int64_t hi)
 *     int64_t NAME.scratch(const int64_t *size)
 *
 * The first runs the groups lo..hi of the grid in row-major order, in the bits of the oracle (ir/tile/tile.h).  size has
 * the sizes of the launch in the kernel's order, then the numbers of groups along each axis of the grid (tile_groups).
 * scratch is the memory of one thread, 64-byte aligned, of as many bytes as the second says.  Both are for ordinary C
 * stacks: a frame has at most some 16 KB.
 */
#ifndef TSR_CODEGEN_CPU_H
#define TSR_CODEGEN_CPU_H

#include "codegen/llvm.h"
#include "ir/tile/tile.h"

/* Add the functions of a verified kernel to a unit. false: *err names what code for CPUs does not cover; the unit is then of no use. */
bool cpu_emit(Llvm *u, const TileKernel *k, const char *name, StrBuf *err);

#endif
