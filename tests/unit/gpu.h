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

/* With TESSERA_TEST_GPU the machine's own driver takes its place, and PTX that of the kernels of fake_kernels.c. */
static inline bool is_real(void) { return getenv("TESSERA_TEST_GPU") != NULL; }

/* What is wrong with the fake is said as FAKE_CUDA has it. */
static inline void fake_begin(const char *how)
{
    if (!is_real())
        setenv("TESSERA_CUDA_LIBRARY", FAKE_CUDA_LIBRARY, 1);
    setenv("FAKE_CUDA", how, 1);
    gpus_offer();
}

#define ENTRY(name) ".visible .entry " name "(.param .u64 p, .param .u64 n, .param .f32 a, .param .f32 b)\n{\n" \
    ".reg .b64 %rd<8>;\n.reg .b32 %r<4>;\n.reg .f32 %f<6>;\n.reg .pred %p<3>;\n"
#define INDEX "ld.param.u64 %rd1, [p];\nld.param.u64 %rd2, [n];\nld.param.f32 %f1, [a];\nld.param.f32 %f2, [b];\nmov.u32 %r1, %tid.x;\n" \
    "mov.u32 %r2, %ctaid.x;\nor.b32 %r1, %r1, %r2;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra done;\nmov.u64 %rd3, 0;\n" \
    "next:\nsetp.ge.u64 %p2, %rd3, %rd2;\n@%p2 bra done;\nshl.b64 %rd4, %rd3, 2;\nadd.u64 %rd4, %rd4, %rd1;\n"
#define END "st.global.f32 [%rd4], %f4;\nadd.u64 %rd3, %rd3, 1;\nbra next;\ndone:\nret;\n}\n"
static const char real_kernels[] =                      /* one lane does all, as on the host */
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ENTRY("axpb") INDEX "ld.global.f32 %f3, [%rd4];\nmul.rn.f32 %f4, %f1, %f3;\nadd.rn.f32 %f4, %f4, %f2;\n" END
    ENTRY("count") INDEX "cvt.rn.f32.u64 %f4, %rd3;\n" END
    ENTRY("illegal") "mov.u64 %rd1, 64;\nmov.f32 %f1, 0f3F800000;\nst.global.f32 [%rd1], %f1;\nret;\n}\n"
    ".visible .entry nothing()\n{\nret;\n}\n";

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

/* The second device; where there is one only, that. */
static inline int second(void) { return gpu_count() > 1; }

/* A kernel of the module "builtin". */
static inline GpuFunction *builtin(GpuDevice *g, const char *name)
{
    static GpuModule *m[16];

    if (!m[g->index])
        m[g->index] = is_real() ? gpu_module_load(g, real_kernels, sizeof real_kernels - 1) : gpu_module_load(g, "builtin", sizeof "builtin" - 1);
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
