/* gpu.h - models of GPUs: what a kernel may take there and how fast they are at most. */
#ifndef TSR_RUNTIME_GPU_H
#define TSR_RUNTIME_GPU_H

#include <stddef.h>

typedef struct GpuModel {
    const char *name, *arch;
    int processors, shared_group, shared_processor;     /* KB */
    int registers;                                      /* of a multiprocessor, 32 bits each */
    int cache, memory;                                  /* MB, GB */
    double flops, bandwidth, links;
} GpuModel;

enum { GPU_LANE_REGISTERS = 255, GPU_PROCESSOR_LANES = 2048 };      /* what a lane may have; how many of them a multiprocessor holds */

/* The model whose name stands in `text`, such as "NVIDIA H100 80GB"; NULL: none. */
const GpuModel *gpu_model(const char *text);
/* The model that an architecture, such as "sm_80", is known by; NULL: none. */
const GpuModel *gpu_of_arch(const char *text, size_t n);
/* The model that kernels are made for: what TESSERA_FAKE_DEVICE names, else the first row. */
const GpuModel *gpu_target(void);

#endif
