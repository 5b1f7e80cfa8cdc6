/*
 * gpu_device.h - the GPUs that the driver has: what they are, their memory, their streams.
 *
 * A device is started at its first use (its primary context is retained) and lives to the
 * end.  Work goes to streams: everything that touches the elements of tensors to GPU_MAIN,
 * in the order of the program, so memory that is given back can be taken again at once.
 * GPU_COPY is for copies that are meant to go beside; its users order it with events.
 *
 * Memory comes from a pool: segments of the driver's are cut into blocks, neighbours that
 * are free become one again.  Where the driver has no more, segments that are free go
 * back and it is asked again.
 *
 * What fails keeps a fault (cuda.h) and gives false, 0 or NULL.  Any thread may call; one
 * lock is held throughout (gpu_lock, which may be taken again by its holder).
 */
#ifndef TSR_RUNTIME_GPU_DEVICE_H
#define TSR_RUNTIME_GPU_DEVICE_H

#include "base/source.h"
#include "runtime/cuda.h"
#include "runtime/gpu.h"

typedef enum { GPU_MAIN, GPU_COPY, GPU_STREAMS } GpuStream;

typedef struct GpuDevice {
    int index;                  /* gpu:index */
    CUdevice handle;
    char name[64];              /* as the driver has it */
    const GpuModel *model;      /* the row of gpu.def; NULL: none has its name or its architecture */
    int sm;                     /* 90: compute capability 9.0; 0: the driver of the tests, whose kernels are x86 (tests/fake) */
    int processors, registers;  /* multiprocessors; registers of one of them */
    int shared_group, shared_processor;     /* bytes of shared memory: of a group that asks for it, of a multiprocessor */
    int cache;                  /* bytes */
    int clock, memory_clock;    /* kHz */
    int bus;                    /* bits */
    size_t memory;              /* bytes */
    struct GpuState *state;     /* NULL: not started */
} GpuDevice;

/* ---- which there are ---- */

int gpu_count(void);                    /* 0 where there is no driver; opens it at the first call */
const GpuDevice *gpu_look(int index);   /* what is known of it, not started; NULL: there is none */
void gpu_facts(const GpuDevice *g, GpuModel *out);      /* a row as gpu.def has them, of what the driver says; links are the known model's */
GpuDevice *gpu_of(int index);           /* one that was started before, whatever became of it */
GpuDevice *gpu_device(int index);       /* started, its context current in this thread; NULL: a fault is kept */
bool gpu_enter(GpuDevice *g);           /* make its context current in this thread, as every call below does by itself */
void gpu_lock(void);
void gpu_unlock(void);

/* How the driver answered. false: a fault is kept that names the call, or, of kernels that went wrong, the last ones launched. */
bool gpu_check(GpuDevice *g, CUresult r, const char *call);
/* Wait until all that was put on the device is done. */
bool gpu_sync(GpuDevice *g);
bool gpu_finish(void);                  /* gpu_sync of each device that has launches nobody waited for: at the end of a program */
bool gpu_sync_stream(GpuDevice *g, GpuStream s);

/* What is remembered of a launch until a wait has shown that it went well. */
typedef struct GpuWhere { const char *kernel; Span span; } GpuWhere;
void gpu_remember(GpuDevice *g, GpuStream s, GpuWhere where);

/* ---- memory ---- */

struct Storage;

typedef struct GpuMemory {
    size_t used, kept, peak;            /* bytes: in blocks that are taken; in free ones; the most of the former */
    int64_t blocks, segments, calls;    /* taken now; of the driver's; how often it was asked for one */
    int64_t moved;                      /* how often elements went to the host to make room */
    int64_t shifted;                    /* how often elements went elsewhere on the GPU, so that what is free lies in one piece */
} GpuMemory;

CUdeviceptr gpu_alloc(GpuDevice *g, size_t bytes);      /* aligned to 512 bytes; 0: a fault says what holds the memory */
void gpu_own(GpuDevice *g, CUdeviceptr at, struct Storage *s);      /* its elements are there, and may make room */
void gpu_free(GpuDevice *g, CUdeviceptr at);            /* 0 allowed. It may be taken again by what comes later on GPU_MAIN */
void gpu_trim(GpuDevice *g);                            /* free segments go back to the driver */
GpuMemory gpu_memory(const GpuDevice *g);
bool gpu_available(GpuDevice *g, size_t *bytes);        /* what the driver has left */

/* ---- copies, on GPU_MAIN ---- */

bool gpu_upload(GpuDevice *g, CUdeviceptr to, const void *from, size_t bytes);          /* `from` may change afterwards */
bool gpu_download(GpuDevice *g, void *to, CUdeviceptr from, size_t bytes);              /* waits: the bytes are there */
bool gpu_copy(GpuDevice *to_gpu, CUdeviceptr to, GpuDevice *from_gpu, CUdeviceptr from, size_t bytes);
bool gpu_fill(GpuDevice *g, CUdeviceptr at, int byte, size_t bytes);

/* ---- who asks ---- */

/*
 * Told of what is put on devices, so that it can be put there again (ir/schedule/recording.h); NULL: nobody asks.  Launches are told by
 * who knows which words of theirs are addresses (far_noted).
 */
typedef struct GpuNotes {
    void (*fill)(GpuDevice *g, CUdeviceptr at, int byte, size_t bytes);
    void (*copy)(GpuDevice *g, CUdeviceptr to, CUdeviceptr from, size_t bytes);
    void (*room)(GpuDevice *g, struct Storage *s, bool written);    /* the storage is used, where it is now */
    void (*sent)(const struct Storage *s);                          /* the host's elements go there */
    void (*left)(GpuDevice *g, CUdeviceptr at);                     /* memory is given back */
    void (*moved)(GpuDevice *g, CUdeviceptr from, CUdeviceptr to);  /* what is at `from` is at `to` from now on */
    void (*stands)(const char *why);                                /* what cannot be put there again: the host waits, or is asked */
} GpuNotes;
extern const GpuNotes *gpu_notes;

/* ---- events ---- */

typedef struct GpuEvent { CUevent event; GpuDevice *g; } GpuEvent;
bool gpu_event(GpuDevice *g, GpuEvent *out);                    /* which orders work of two streams; gpu_event_done when it is past */
bool gpu_record(GpuEvent *e, GpuStream s);
bool gpu_wait(GpuDevice *g, GpuStream s, const GpuEvent *e);        /* what comes later on the stream waits for it */
void gpu_event_done(GpuEvent *e);

#endif
