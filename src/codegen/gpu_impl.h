/*
 * gpu_impl.h - what code for GPUs adds to that for CPUs (cpu_impl.h).
 *
 * Both walk the same kernel in the same clusters and compute elements in the same way; what differs is who does it.  Of a
 * group's work each thread does a share; what clusters hand to each other lies in shared memory, and a fence stands between
 * who wrote there and who reads.  Indices, scalars and the control of a kernel are each thread's own.
 */
#ifndef TSR_CODEGEN_GPU_IMPL_H
#define TSR_CODEGEN_GPU_IMPL_H

#include "codegen/cpu_impl.h"
#include "codegen/gpu.h"
#include "ir/tile/vary.h"

enum { GPU_LEVELS = 26, GPU_WARP = 32 };        /* subtrees that wait in a tree: of 2^26 chunks */

typedef struct GpuCode {
    int threads;
    LLVMValueRef thread;        /* this one's number in the group, an i32 */
    bool clean;                 /* has nobody touched the group's memory since the last barrier? */
    TileVary vary;              /* of a group of several lanes */
    Vec(const TileNode *) vectors;      /* accesses whose strips at hand are aligned as vectors */
} GpuCode;

/* ---- gpu.c: one thread, and threads together ---- */
bool gpu_node(CpuCode *e, const TileNode *n);           /* false: the node is done as on CPUs */
LLVMValueRef gpu_lane(CpuCode *e);                      /* as an i64 */
void gpu_fence(CpuCode *e);                             /* all see what was written; nothing on CPUs */
void gpu_written(CpuCode *e);                           /* the group's memory is not what it was */
LLVMValueRef gpu_load_if(CpuCode *e, DType dt, LLVMValueRef place, LLVMValueRef inside, LLVMValueRef fill);     /* raw */
void gpu_store_if(CpuCode *e, DType dt, LLVMValueRef place, LLVMValueRef inside, LLVMValueRef raw);
typedef struct GpuIf { LLVMBasicBlockRef done; } GpuIf;
GpuIf gpu_if(CpuCode *e, LLVMValueRef is);
void gpu_end_if(CpuCode *e, GpuIf *i);
/* The value of the lane of this warp whose number differs by these bits; of the lane with a number (an i32). */
LLVMValueRef gpu_other(CpuCode *e, LLVMValueRef x, int bits, LLVMValueRef mask);
LLVMValueRef gpu_from(CpuCode *e, LLVMValueRef x, LLVMValueRef lane, LLVMValueRef mask);

/* ---- gpu_walk.c: a group's work among its threads ---- */
void gpu_cluster(CpuCode *e, Cluster *c);
void gpu_copy_tile(CpuCode *e, const TileType *t, LLVMValueRef to, LLVMValueRef from);
CpuLoop cpu_spread(CpuCode *e, int64_t n, int64_t step);       /* from 0 to n: on GPUs this thread's share of it */
CpuLoop gpu_share(CpuCode *e, LLVMValueRef n);          /* the same of a number of the run */
void gpu_decode(CpuCode *e, LLVMValueRef number, const int32_t *extent, int rank, int except, LLVMValueRef *at);

/* ---- gpu_dot.c ---- */
void gpu_dot(CpuCode *e, const TileNode *n);

#endif
