/*
 * fake_cuda.h - kernels of the fake driver, and what tests ask it.
 *
 * The library libfake_cuda.so has the entry points of NVIDIA's driver (src/runtime/cuda.def) over memory of the host, which nobody but its
 * own copies and kernels can touch: a device address that the host reads or writes is a segmentation fault.  All work waits in a
 * queue until somebody waits for it, as late as a real device may do it; copies from pinned memory read it then.
 *
 * Its devices are called "Tessera Fake GPU" and have compute capability 0.0 (GpuDevice.sm == 0): kernels are x86.  A module is
 *
 *     an object file for x86-64 (what compile_object makes, or cc -c), linked as src/runtime/code.h does: each of its functions
 *     is a kernel and has the type FakeKernel; or
 *     the text "builtin": the kernels of fake_kernels.c.
 *
 * FAKE_CUDA in the environment says what is wrong with it, words separated by commas:
 *
 *     devices=N       how many there are (1); 0: cuInit says that there is none
 *     version=N       what cuDriverGetVersion says (13000)
 *     init=N          what cuInit gives
 *     memory=N        megabytes of each device (64)
 *     chip=N          they are of compute capability N (90: 9.0) with the processors of an H200, take any module, and compute nothing: what is asked of
 *                     a real device, and how much of its memory, shows without one
 *     oom-at=N        the N-th cuMemAlloc and all later ones fail
 *     oom-once=N      the N-th fails
 *     fail-at=N:CODE  the N-th wait gives CODE, and so does every later call (700: illegal address)
 *
 * FAKE_CUDA_LOG names a file: at the end it has a line "NAME COUNT" of each counter below.  It is made when the library is started,
 * so where it is not there nobody asked for a GPU.
 */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

typedef struct FakeLaunch {
    uint32_t grid[3], block[3], cluster[3];
    uint32_t shared;            /* bytes of dynamic shared memory */
    const void *params;         /* as gpu_launch was given them; addresses of the device are plain addresses meanwhile */
    size_t nbytes;
} FakeLaunch;

/* The whole grid at once. 0, or the error that the next wait gives. */
typedef int FakeKernel(const FakeLaunch *l);

/* Counters: alloc free upload download copy fill launch sync init module graph live (bytes that are allocated now), used (kernels run), update (graphs that got other
 * numbers), down (bytes that went to the host). */
typedef int64_t FakeCount(const char *name);
int64_t fake_count(const char *name);

#endif
