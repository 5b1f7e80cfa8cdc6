/* gpu.h - the driver of the tests (tests/fake) for C tests: begun before anything else asks for a GPU. */
#ifndef TSR_TESTS_GPU_H
#define TSR_TESTS_GPU_H

#include "unit.h"

#include "../fake/fake_cuda.h"
#include "runtime/gpu_launch.h"
#include "runtime/mesh.h"
#include "runtime/storage.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is wrong with it is said as FAKE_CUDA has it. */
static inline void fake_begin(const char *how)
{
    setenv("TESSERA_CUDA_LIBRARY", FAKE_CUDA_LIBRARY, 1);
    setenv("FAKE_CUDA", how, 1);
    gpus_offer();
}

/* A counter of the fake. */
static inline int64_t counted(const char *name)
{
    void *library = dlopen(FAKE_CUDA_LIBRARY, RTLD_NOW | RTLD_NOLOAD);
    FakeCount *count = NULL;
    void *f = library ? dlsym(library, "fake_count") : NULL;

    memcpy(&count, &f, sizeof f);
    if (library)
        dlclose(library);
    return count ? count(name) : -1;
}

/* A kernel of the module "builtin". */
static inline GpuFunction *builtin(GpuDevice *g, const char *name)
{
    static GpuModule *m[16];

    if (!m[g->index])
        m[g->index] = gpu_module_load(g, "builtin", sizeof "builtin" - 1);
    return gpu_module_function(m[g->index], name);
}

typedef struct Axpb { uint64_t x; int64_t n; float a, b; } Axpb;

/* x = a x + b over n floats at an address of the device. */
static inline bool axpb(GpuDevice *g, uint64_t x, int64_t n, float a, float b)
{
    Axpb p = {x, n, a, b};

    return gpu_launch(builtin(g, "axpb"), &(GpuLaunch){.grid = {(uint32_t)n}, .block = {32}, .params = &p, .nbytes = sizeof p});
}

/* The fault that is kept, which is taken; "" where there is none. */
static inline const char *fault_text(FaultKind *kind)
{
    static char text[2048];
    FaultKind own;
    StrBuf b = {0};

    fault_take(&b, kind ? kind : &own);
    snprintf(text, sizeof text, "%s", sb_str(&b));
    sb_done(&b);
    return text;
}

#endif
