/*
 * cuda.h - NVIDIA's driver, found at run time.
 *
 * Nothing of CUDA is needed to build Tessera, or to run it on a CPU: the types below
 * are those of the driver's ABI that are used here, the entry points rows of cuda.def.
 * The library is opened when somebody first asks for a GPU, never before.
 *
 * Calls fail in two ways.  What the program asked for and cannot be had is a fault
 * with the number of a diagnostic; it is kept, the call gives false or NULL, and
 * whoever stands next to the program takes it (fault_take) and raises it.  Later faults
 * are consequences, and dropped.  A device whose kernels went wrong stays unusable: the
 * driver answers every further call with the same error.
 */
#ifndef TSR_RUNTIME_CUDA_H
#define TSR_RUNTIME_CUDA_H

#include "base/strbuf.h"

#include <stdbool.h>

/* ---- the driver's types ---- */

typedef int CUresult, CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUlinkState_st *CUlinkState;
typedef struct CUtensorMap { _Alignas(64) uint64_t opaque[16]; } CUtensorMap;

typedef struct CUgraphUpdate { int result; void *node, *from; } CUgraphUpdate;

typedef struct CUlaunchAttribute {
    int id;
    char pad[4];
    union { char pad[64]; uint32_t size[3]; int value; } value;
} CUlaunchAttribute;

typedef struct CUlaunchConfig {
    unsigned grid[3], block[3], shared;
    CUstream stream;
    CUlaunchAttribute *attribute;
    unsigned nattributes;
} CUlaunchConfig;

enum {                          /* results that mean something here */
    CUDA_SUCCESS = 0, CUDA_ERROR_OUT_OF_MEMORY = 2, CUDA_ERROR_NOT_INITIALIZED = 3, CUDA_ERROR_DEINITIALIZED = 4, CUDA_ERROR_STUB_LIBRARY = 34,
    CUDA_ERROR_NO_DEVICE = 100, CUDA_ERROR_ECC_UNCORRECTABLE = 214, CUDA_ERROR_NOT_READY = 600, CUDA_ERROR_ILLEGAL_ADDRESS = 700,
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701, CUDA_ERROR_LAUNCH_TIMEOUT = 702, CUDA_ERROR_CONTEXT_IS_DESTROYED = 709, CUDA_ERROR_ASSERT = 710,
    CUDA_ERROR_HARDWARE_STACK_ERROR = 714, CUDA_ERROR_LAUNCH_FAILED = 719,
};
enum {                          /* CU_DEVICE_ATTRIBUTE_ ... */
    CUDA_CLOCK_RATE = 13, CUDA_MULTIPROCESSOR_COUNT = 16, CUDA_MEMORY_CLOCK_RATE = 36, CUDA_MEMORY_BUS_WIDTH = 37, CUDA_L2_CACHE_SIZE = 38,
    CUDA_CAPABILITY_MAJOR = 75, CUDA_CAPABILITY_MINOR = 76, CUDA_SHARED_PER_MULTIPROCESSOR = 81, CUDA_REGISTERS_PER_MULTIPROCESSOR = 82,
    CUDA_SHARED_PER_BLOCK_OPTIN = 97,
};
enum { CUDA_MAX_DYNAMIC_SHARED = 8, CUDA_NON_PORTABLE_CLUSTER = 14 };                 /* attributes of functions that are set */
enum { CUDA_LAUNCH_CLUSTER = 4, CUDA_LAUNCH_OVERLAP = 6 };                            /* of launches */
enum { CUDA_STREAM_NON_BLOCKING = 1, CUDA_EVENT_NO_TIMING = 2, CUDA_HOST_PORTABLE = 1, CUDA_CAPTURE_RELAXED = 2, CUDA_JIT_PTX = 1 };
enum { CUDA_CAPTURE_SET = 1 };   /* of cuStreamUpdateCaptureDependencies: these alone */
enum { CUDA_JIT_INFO_LOG = 3, CUDA_JIT_INFO_LOG_BYTES = 4, CUDA_JIT_ERROR_LOG = 5, CUDA_JIT_ERROR_LOG_BYTES = 6 };
enum { CUDA_JIT_OPTIMIZATION_LEVEL = 7, CUDA_JIT_LOG_VERBOSE = 12 };

/* ---- the entry points ---- */

typedef struct CudaApi {
#define CUDA(name, symbol, parameters) CUresult (*name)parameters;
#include "runtime/cuda.def"
} CudaApi;
extern CudaApi cu;              /* filled by cuda_load: cu.MemAlloc(&at, n) */

/*
 * Open the library (TESSERA_CUDA_LIBRARY; empty: there is none) and start the driver, once.  false: it cannot be used; the reason,
 * which begins with its number, is cuda_reason.  No fault is kept: asking whether there is a GPU is no mistake.
 */
bool cuda_load(void);
const char *cuda_reason(void);          /* "" where cuda_load gave true */
const char *cuda_library(void);         /* the name that was opened, or was to be */
int cuda_version(void);                 /* 12040: CUDA 12.4; 0: not known */
enum { CUDA_OLDEST = 12000 };

/*
 * Call fn in a thread with a large stack, and wait for it: a generator's stack is small, and starting the driver or assembling takes a lot.  What fn
 * needs of a context it makes current itself; it takes no lock of the GPUs', which its caller may hold.
 */
void cuda_aside(void (*fn)(void *), void *arg);

/* "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)", in the driver's own words. */
void cuda_say(StrBuf *out, CUresult error);

/* ---- faults ---- */

extern bool fault_kept;                 /* is there one? A plain flag: cheap to look at */
typedef enum { FAULT_RUN, FAULT_MEMORY, FAULT_VALUE, FAULT_INDEX } FaultKind;
/* Keep one, unless there is one already; the text begins with its code. Gives false. Any thread. */
bool fault(FaultKind kind, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Hand the fault over, appended to *out, and forget it. false: there is none. */
bool fault_take(StrBuf *out, FaultKind *kind);

#endif
