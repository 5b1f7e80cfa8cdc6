/*
 * gpu_launch.h - kernels of GPUs: from PTX to a launch.
 *
 * PTX becomes a cubin by ptxas where it is installed (TESSERA_PTXAS, PATH, /usr/local/cuda/bin), else by libnvJitLink, else
 * by the driver, and is kept in the store of compiled kernels (store.h): the key is the text, the chip, and what assembles.
 * What an assembler says that costs speed, spilled registers and serialised wgmma, is kept with it.
 *
 * A module may also be bytes that are ready: a cubin, or for the driver of the tests an x86 object (tests/fake/fake_cuda.h).
 *
 * Faults and threads are those of gpu_device.h.
 */
#ifndef TSR_RUNTIME_GPU_LAUNCH_H
#define TSR_RUNTIME_GPU_LAUNCH_H

#include "runtime/gpu_device.h"

/* ---- assembling ---- */

typedef struct GpuAssembly {
    StrBuf cubin;
    StrBuf log;                 /* what the assembler said, a line each */
    int spills;                 /* bytes of registers kept in memory, stores and loads, the most of any kernel */
    int registers;              /* of a lane, the most of any kernel; 0: not told */
    bool serialised;            /* wgmma runs one by one (C7510 to C7519) */
    bool found;                 /* it was in the store */
} GpuAssembly;

/*
 * PTX to a cubin for g's chip; a .target with an a behind it (sm_90a) is for that chip alone. `g` may be NULL where ptxas or nvJitLink
 * is there: the chip is then what .target names.
 * false: a fault E0746 with what the assembler said.  gpu_assembly_done is due in either case.
 */
bool gpu_assemble(GpuDevice *g, const char *ptx, size_t n, GpuAssembly *out);
bool gpu_assemble_for(const char *arch, const char *ptx, size_t n, GpuAssembly *out);       /* for that chip; no GPU is needed */
void gpu_assembly_done(GpuAssembly *a);
/*
 * A text for g's chip, by any thread: its cubin, where there is ptxas or nvJitLink and it takes it.  Others stay PTX, of which gpu_module_load
 * says what is wrong.
 */
void gpu_assemble_text(const GpuDevice *g, StrBuf *ptx, StrBuf *cubin);
/*
 * A text with this in it is assembled about in the order in which it stands (ptxas -O1): -O3 would rather save registers, and have formulas of
 * several elements one after the other.
 */
#define GPU_IN_ORDER "// tessera: in order"
const char *gpu_assembler(void);        /* the path of ptxas or of nvJitLink's library; NULL: neither is here, the driver assembles */

/* ---- modules ---- */

typedef struct GpuModule GpuModule;
typedef struct GpuFunction GpuFunction;

GpuModule *gpu_module_load(GpuDevice *g, const void *image, size_t n);      /* PTX (a text), a cubin, an object of the tests */
/*
 * The same, but a text may be assembled meanwhile: launches of its functions, and what is asked of the device behind them, wait for it
 * then.  What is wrong with it is a fault of a later call.
 */
GpuModule *gpu_module_begin(GpuDevice *g, const void *image, size_t n);
GpuFunction *gpu_module_function(GpuModule *m, const char *name);           /* owned by the module; NULL: a fault */

struct GpuLaunch;

struct GpuLaunch;
bool gpu_max_clusters(GpuFunction *f, const struct GpuLaunch *l, int *clusters);    /* that the device holds at once */

/* ---- launches ---- */

/*
 * A launch. Sizes of 0 count as 1. params: the kernel's parameters as they lie in its parameter space, each at a multiple of its own
 * size; the driver copies them.  each: where they are one by one, instead; tensor maps have to be passed so, because where parameter
 * space begins, of which their places are multiples of 64, is the assembler's choice.
 * shared: bytes of dynamic shared memory; beyond 48 KB the function is told once.
 */
typedef struct GpuLaunch {
    uint32_t grid[3], block[3], cluster[3];
    int shared;
    GpuStream stream;
    bool overlap;               /* may start before the kernel ahead has ended; waits for it itself (griddepcontrol.wait) */
    const void *params;
    size_t nbytes;
    void **each;
    GpuWhere where;             /* named by errors that show later; the kernel's name is copied */
} GpuLaunch;

bool gpu_launch(GpuFunction *f, const GpuLaunch *l);
int64_t gpu_launches(void);             /* kernels launched by this process, on all devices, without those of graphs */

/* A tensor map of a TMA copy; arguments as cuTensorMapEncodeTiled has them, strides in bytes of the axes from the second on. */
bool gpu_tensor_map(GpuDevice *g, CUtensorMap *out, int type, int rank, CUdeviceptr at, const uint64_t *extent, const uint64_t *stride,
                    const uint32_t *box, int swizzle, int l2);

/* ---- graphs ---- */

/*
 * Launches, fills and copies on a device between gpu_capture_begin and gpu_capture_end are put down instead of done. Meanwhile nothing may be
 * brought to the host, and memory that the graph uses must live as long as it: memory that is given back while a graph is
 * captured stays taken until the graph is freed.
 */
typedef struct GpuGraph GpuGraph;
bool gpu_capture_begin(GpuDevice *g, GpuStream s);
GpuGraph *gpu_capture_end(GpuDevice *g);        /* NULL: a fault; nothing is captured any more in either case */
bool gpu_capture_into(GpuDevice *g, GpuGraph *p);       /* the same, in the place of what p was; cheap where only numbers differ */
bool gpu_capturing(const GpuDevice *g);
/* What is captured next waits for these alone, and not for all before it; one of them is what gpu_captured says just behind it. NULL: a fault. */
typedef struct CUgraphNode_st *GpuNode;
bool gpu_capture_after(GpuDevice *g, GpuNode *after, int n);
GpuNode gpu_captured(GpuDevice *g);
bool gpu_graph_launch(GpuGraph *p, GpuStream s, GpuWhere where);
int64_t gpu_graph_launches(void);
void gpu_graph_free(GpuGraph *p);               /* NULL allowed */

#endif
