/*
 * gpu_assembly.h - instructions of sm_90a that LLVM 19 has no names for, as inline PTX.
 *
 * Addresses in shared memory are i32s of its window.  Barriers (mbarrier) count arrivals and bytes; a wait for parity p is over
 * once the phase of that parity is.
 */
#ifndef TSR_CODEGEN_GPU_ASSEMBLY_H
#define TSR_CODEGEN_GPU_ASSEMBLY_H

#include "codegen/gpu_impl.h"

LLVMValueRef gpu_count_up(CpuCode *e, LLVMValueRef counter, LLVMValueRef last);   /* what *counter was; it is one more then, or 0 behind `last` */

LLVMValueRef gpu_shared_address(CpuCode *e, LLVMValueRef place);        /* of a generic pointer into shared memory */

void gpu_barrier_init(CpuCode *e, LLVMValueRef bar, int arrivals);
void gpu_barriers_ready(CpuCode *e);                    /* those made are seen by tensor copies; a barrier of the block is due behind it */
void gpu_barrier_wait(CpuCode *e, LLVMValueRef bar, LLVMValueRef parity);
/* Is that over by now, or soon? Not 0: it is. Then a wait that knows of it does not ask again. */
LLVMValueRef gpu_barrier_peek(CpuCode *e, LLVMValueRef bar, LLVMValueRef parity);
void gpu_barrier_wait_unless(CpuCode *e, LLVMValueRef over, LLVMValueRef bar, LLVMValueRef parity);
void gpu_barrier_arrive(CpuCode *e, LLVMValueRef bar);
void gpu_barrier_expect(CpuCode *e, LLVMValueRef bar, int64_t bytes);  /* arrive, and so many bytes are to come */
void gpu_barrier_expect_some(CpuCode *e, LLVMValueRef bar, LLVMValueRef bytes);        /* an i32 */
/* The same between the blocks of a cluster: `at` is an address in the memory of any of them, as gpu_in_block gives it. */
LLVMValueRef gpu_in_block(CpuCode *e, LLVMValueRef at, LLVMValueRef block);    /* what lies at `at` here, in that block */
void gpu_cluster_barrier(CpuCode *e);                   /* of all threads of all blocks; says nothing of what they wrote */
void gpu_cluster_arrive(CpuCode *e);                    /* its two halves */
void gpu_cluster_wait(CpuCode *e);
void gpu_cluster_meet(CpuCode *e);                      /* the same, and what any thread wrote is seen */
void gpu_barrier_arrive_at(CpuCode *e, LLVMValueRef at);               /* says nothing of what other blocks could see */
void gpu_barrier_wait_others(CpuCode *e, LLVMValueRef bar, LLVMValueRef parity);       /* what other blocks stored by then is seen */
void gpu_store_at(CpuCode *e, LLVMValueRef at, LLVMValueRef x, LLVMValueRef bar);      /* four or eight bytes that `bar` there counts */
void gpu_named_barrier(CpuCode *e, LLVMValueRef id, int threads);      /* of the block's sixteen; 0 is that of all threads */
void gpu_named_arrive(CpuCode *e, LLVMValueRef id, int threads);       /* the same without waiting */

void gpu_keep_registers(CpuCode *e, int n, bool more);  /* so many for each thread from here on, more or fewer than it had; whole warpgroups */

/* So many bytes, an i32, that lie side by side at a multiple of 16, into shared memory, which `bar` counts. */
void gpu_bulk_load(CpuCode *e, LLVMValueRef to, LLVMValueRef from, LLVMValueRef bytes, LLVMValueRef bar);
/* Tensor copies: `at` are coordinates, the innermost first. */
void gpu_tensor_load(CpuCode *e, LLVMValueRef to, LLVMValueRef map, LLVMValueRef *at, int rank, LLVMValueRef bar);
/* To the same place of each block whose bit is in `blocks`, an i16, and to the barrier there. */
void gpu_tensor_load_all(CpuCode *e, LLVMValueRef to, LLVMValueRef map, LLVMValueRef *at, int rank, LLVMValueRef bar, LLVMValueRef blocks);
void gpu_tensor_store(CpuCode *e, LLVMValueRef map, LLVMValueRef *at, int rank, LLVMValueRef from);
void gpu_tensor_commit(CpuCode *e);
void gpu_tensor_wait(CpuCode *e, int but, bool read);   /* read: until the memory they read may be written */
void gpu_proxy_fence(CpuCode *e);                       /* what this thread wrote to shared memory is seen by tensor copies and by wgmma */
void gpu_prefetch(CpuCode *e, LLVMValueRef at);          /* the line of an address in global memory, into the L2 cache */
void gpu_prefetch_map(CpuCode *e, LLVMValueRef map);

/* Four matrices of 8 rows of 16 bytes to shared memory; each lane gives the address of a row. */
void gpu_store_matrices(CpuCode *e, LLVMValueRef at, LLVMValueRef *word);
void gpu_load_matrices(CpuCode *e, LLVMValueRef at, bool turned, LLVMValueRef *word);  /* the same from there; turned: rows become columns */
LLVMValueRef gpu_pack(CpuCode *e, DType dt, LLVMValueRef low, LLVMValueRef high);      /* two f32 as bf16 or f16 of one word */

/* A product of a warpgroup: 64 rows, `columns` columns, 32 bytes of steps. */
typedef struct Wgmma {
    const char *name;           /* "f32.bf16.bf16" */
    bool real;                  /* sums are f32, else s32 */
    int columns, steps;         /* steps: that 32 bytes are */
    int turned[2];              /* do rows, columns of an operand lie side by side? Of 16-bit operands only */
} Wgmma;
void gpu_wgmma_fence(CpuCode *e);
void gpu_wgmma(CpuCode *e, const Wgmma *w, LLVMValueRef a, LLVMValueRef b, bool add, LLVMValueRef *sum);        /* add: to what the sums are */
/* The same with a left operand in registers: four words of two elements, as the sums of 16 columns lie. */
void gpu_wgmma_registers(CpuCode *e, const Wgmma *w, const LLVMValueRef *a, LLVMValueRef b, bool add, LLVMValueRef *sum);
void gpu_wgmma_commit(CpuCode *e);
/* All batches but the last `but` are done; the sums are threaded through, so that nobody reads them before. */
void gpu_wgmma_wait(CpuCode *e, int but, LLVMValueRef *sum, int n);
void gpu_compute_here(CpuCode *e, LLVMValueRef *x, int n);      /* n values of one type are computed before this, not where they are used */

#endif
