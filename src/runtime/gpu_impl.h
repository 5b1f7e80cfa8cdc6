/* gpu_impl.h - what the parts of the GPU's runtime share: gpu_device.c, gpu_pool.c, gpu_copy.c, gpu_launch.c, gpu_later.c,
 * gpu_report.c. */
#ifndef TSR_RUNTIME_GPU_IMPL_H
#define TSR_RUNTIME_GPU_IMPL_H

#include "base/map.h"
#include "base/vec.h"
#include "runtime/gpu_device.h"
#include "runtime/gpu_report.h"

/* ---- the pool: gpu_pool.c ---- */

/* A part of a segment. Neighbours are linked in the order of addresses; free ones are in the list of their class as well. */
typedef struct GpuBlock {
    CUdeviceptr at;
    size_t size, segment;               /* of the block, of the segment */
    struct GpuBlock *before, *after;    /* in the segment */
    struct GpuBlock *last, *next;       /* in the list of free ones */
    bool taken, aside;                  /* aside: free, but in no list */
    struct Storage *owner;              /* whose elements are in it; NULL: none's, or free */
} GpuBlock;

enum { POOL_CLASSES = 160 };

typedef struct GpuPool {
    GpuBlock *free[POOL_CLASSES];
    Map taken;                          /* address -> GpuBlock; NULL again once it is free */
    GpuMemory sum;
} GpuPool;

/* ---- pinned memory that copies go through: gpu_copy.c ---- */

enum { LANES = 4, LANE_BYTES = 4 << 20 };

/* Memory of the host in LANES parts, which are filled one after the other; each is used again when its copies are done. */
typedef struct GpuStaging {
    char *at;                           /* NULL: not made */
    CUevent done[LANES];
    bool busy[LANES];                   /* was the event recorded? */
    int lane;
    size_t used;                        /* of the lane */
} GpuStaging;

/* ---- a device ---- */

enum { RING = 8, KERNEL_NAME = 64 };

typedef struct GpuLaunched { char kernel[KERNEL_NAME]; Span span; } GpuLaunched;

typedef struct GpuState {
    CUcontext context;
    CUstream stream[GPU_STREAMS];
    GpuLaunched launched[GPU_STREAMS][RING];    /* since the last wait: the latest, in a ring */
    int64_t nlaunched[GPU_STREAMS];
    GpuPool pool;
    GpuStaging up, down;
    int capturing;                      /* 1 + the stream that is; 0: none */
    Vec(CUdeviceptr) held;              /* given back while a graph is captured */
    int64_t *report;                    /* words in pinned memory; NULL: not made */
    Vec(GpuAsked) asked;                /* what each is for */
    bool lost;                          /* kernels went wrong: every call fails from now on */
    bool one_by_one;                    /* TESSERA_GPU_SYNC: wait behind each launch */
} GpuState;

/* As gpu_enter, but what waits goes on waiting (gpu_later.c): for what does not touch the device's memory. */
bool gpu_enter_beside(GpuDevice *g);

/* ---- code that is assembled meanwhile: gpu_assemble.c ---- */

typedef struct GpuMaking GpuMaking;
GpuMaking *gpu_making_begin(const GpuDevice *g, const char *ptx, size_t n);     /* by a thread of its own; NULL: that is not possible */
bool gpu_making_end(GpuMaking *m, StrBuf *cubin);       /* waits; false: it is not taken. m is gone */
int gpu_makings(void);                  /* how many threads are at it */

/* ---- what waits for such code: gpu_later.c ---- */

struct GpuFunction;
struct GpuLaunch;
bool gpu_settle(void);                  /* does all that waits; false: a fault of a part of it */
/* They wait, if anything does, or if the function has no code yet. false: they are to be done now. */
bool gpu_launch_later(struct GpuFunction *f, const struct GpuLaunch *l, bool ready);
bool gpu_upload_later(GpuDevice *g, CUdeviceptr to, const void *from, size_t bytes);
bool gpu_fill_later(GpuDevice *g, CUdeviceptr at, int byte, size_t bytes);
/* What they are done by, then. */
bool gpu_launch_now(struct GpuFunction *f, const struct GpuLaunch *l);
bool gpu_upload_now(GpuDevice *g, CUdeviceptr to, const void *from, size_t bytes);
bool gpu_fill_now(GpuDevice *g, CUdeviceptr at, int byte, size_t bytes);

#endif
