/*
 * A driver without a device; see fake_cuda.h.
 *
 * It is as strict as the real one where that has cost people days: calls need a current context in their thread, streams and functions
 * belong to their context, shared memory beyond 48 KB needs its attribute, a wait inside a capture breaks it, and an error sticks.
 */
#include "fake_cuda.h"

#include "runtime/called.h"             /* with a compiler: what its kernels call */
#include "runtime/code.h"
#include "runtime/cuda.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

#define CUDA(name, symbol, parameters) CUresult symbol parameters;
#include "runtime/cuda.def"

enum { DEVICES_MAX = 16, POISON = 0xEE, PAGE = 4096, SHARED_PLAIN = 48 << 10, SHARED_OPTIN = 227 << 10 };
enum { INVALID_VALUE = 1, INVALID_CONTEXT = 201, INVALID_IMAGE = 200, INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_SUPPORTED = 801,
       CAPTURE_UNSUPPORTED = 900, INVALID_DEVICE = 101, GRAPH_UPDATE_FAILURE = 910, UPDATE_FAILED = 1 };

/* ---- state ---- */

struct CUctx_st { int device; };

typedef struct Memory { char *at; size_t size; struct CUctx_st *owner; struct Memory *next; } Memory;
typedef struct Pinned { char *at; size_t size; struct Pinned *next; } Pinned;

typedef enum { OP_UP, OP_DOWN, OP_COPY, OP_FILL, OP_LAUNCH, OP_EVENT } OpKind;
typedef struct Op {
    OpKind kind;
    void *to;
    const void *from;
    size_t n;
    void *own;                  /* a copy of pageable memory, or of parameters */
    int byte;
    FakeKernel *kernel;
    FakeLaunch launch;
    int number, *after, nafter; /* of what is captured: its place in the graph, and the places of those that it waits for */
    struct Op *next;
} Op;

typedef struct Queue { Op *first, **last; } Queue;

struct CUstream_st { struct CUctx_st *context; bool capturing, broken; Queue captured; int ncaptured, *after, nafter; };
struct CUevent_st { bool recorded, done; };
struct CUmod_st { struct CUctx_st *context; Code *code; };
struct CUfunc_st { struct CUmod_st *module; FakeKernel *kernel; int shared; struct CUfunc_st *next; };
struct CUgraph_st { Queue q; };
struct CUgraphExec_st { Queue q; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUctx_st context[DEVICES_MAX];
static _Thread_local struct CUctx_st *current;
static bool started;
static int sticky;
static int capturing;           /* streams that are */
static Memory *memory;
static Pinned *pinned;
static Queue queue;
static struct CUfunc_st *functions;

static const char *const counter_name[] = {"alloc", "free", "upload", "download", "copy", "fill", "launch", "sync", "init", "module", "graph", "live", "used", "update",
                                           "down"};
enum { ALLOC, FREE, UPLOAD, DOWNLOAD, COPY, FILL, LAUNCH, SYNC, INIT, MODULE, GRAPH, LIVE, USED, UPDATE, DOWN, COUNTERS };
static int64_t counter[COUNTERS];

EXPORT int64_t fake_count(const char *name)
{
    for (int i = 0; i < COUNTERS; i++)
        if (!strcmp(name, counter_name[i]))
            return counter[i];
    return -1;
}

/* The number behind a word of FAKE_CUDA; *second: what stands behind a colon. */
static int64_t told(const char *word, int64_t otherwise, int64_t *second)
{
    const char *s = getenv("FAKE_CUDA");
    size_t n = strlen(word);

    for (; s && *s; s += strcspn(s, ","), s += *s == ',')
        if (!strncmp(s, word, n) && s[n] == '=') {
            char *end;
            int64_t v = strtoll(s + n + 1, &end, 10);
            if (second && *end == ':')
                *second = strtoll(end + 1, NULL, 10);
            return v;
        }
    return otherwise;
}

static int devices(void) { return (int)told("devices", 1, NULL); }
static size_t capacity(void) { return (size_t)told("memory", 64, NULL) << 20; }
static int chip(void) { return (int)told("chip", 0, NULL); }

__attribute__((destructor)) static void write_log(void)
{
    const char *path = getenv("FAKE_CUDA_LOG");
    FILE *f = started && path ? fopen(path, "w") : NULL;

    for (int i = 0; f && i < COUNTERS; i++)
        fprintf(f, "%s %lld\n", counter_name[i], (long long)counter[i]);
    if (f)
        fclose(f);
}

/* ---- memory ---- */

static void protect(int how)
{
    for (Memory *m = memory; m; m = m->next)
        mprotect(m->at, m->size, how);
}

/* The block that has all of the range; NULL: none. */
static Memory *block_of(CUdeviceptr at, size_t n)
{
    for (Memory *m = memory; m; m = m->next)
        if (at >= (CUdeviceptr)(uintptr_t)m->at && at + n <= (CUdeviceptr)(uintptr_t)m->at + m->size)
            return m;
    return NULL;
}

static bool is_pinned(const void *p)
{
    for (Pinned *b = pinned; b; b = b->next)
        if ((const char *)p >= b->at && (const char *)p < b->at + b->size)
            return true;
    return false;
}

/* ---- the queue ---- */

static void push(Queue *q, Op op)
{
    Op *o = malloc(sizeof *o);

    *o = op;
    o->next = NULL;
    if (!q->first)
        q->last = &q->first;
    *q->last = o;
    q->last = &o->next;
}

/* On a chip nothing is computed; what the host reads is zeros; events come to pass. */
static void run(Op *o)
{
    if (chip() && o->kind != OP_EVENT) {
        counter[USED] += o->kind == OP_LAUNCH;
        if (o->kind == OP_DOWN)
            memset(o->to, 0, o->n);
        return;
    }
    switch (o->kind) {
    case OP_UP:
    case OP_DOWN:
    case OP_COPY:
        memmove(o->to, o->from, o->n);
        break;
    case OP_FILL:
        memset(o->to, o->byte, o->n);
        break;
    case OP_LAUNCH:
        o->launch.params = o->own;
        counter[USED]++;
        int r = o->kernel(&o->launch);
        sticky = sticky ? sticky : r;
        break;
    case OP_EVENT:
        ((struct CUevent_st *)o->to)->done = true;
        break;
    }
}

static void queue_free(Queue *q)
{
    while (q->first) {
        Op *o = q->first;
        q->first = o->next;
        free(o->own);
        free(o->after);
        free(o);
    }
}

/* All that waits is done; behind an error nothing is. */
static void flush(void)
{
    bool touched = queue.first && !chip();

    if (touched)
        protect(PROT_READ | PROT_WRITE);
    for (Op *o = queue.first; o && !sticky; o = o->next)
        run(o);
    if (touched)
        protect(PROT_NONE);
    queue_free(&queue);
}

static CUresult wait_for_all(void)
{
    int64_t code = CUDA_ERROR_ILLEGAL_ADDRESS, at = told("fail-at", 0, &code);

    if (capturing)
        return CAPTURE_UNSUPPORTED;
    counter[SYNC]++;
    flush();
    if (at && counter[SYNC] >= at)
        sticky = sticky ? sticky : (int)code;
    return sticky;
}

/* Every entry point: one at a time, with a context. */
static CUresult leave(CUresult r)
{
    pthread_mutex_unlock(&lock);
    return r;
}

static CUresult enter(void)
{
    pthread_mutex_lock(&lock);
    if (!started)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (sticky)
        return sticky;
    return current ? CUDA_SUCCESS : INVALID_CONTEXT;
}

#define ENTER() do { CUresult e_ = enter(); if (e_) return leave(e_); } while (0)

/* What is captured next waits for these. */
static void wait_for(CUstream s, const int *number, int n)
{
    free(s->after);
    s->after = malloc(sizeof *number * (size_t)(n + 1));
    for (int i = 0; i < n; i++)
        s->after[i] = number[i];
    s->nafter = n;
}

static CUresult put(CUstream s, Op op)
{
    if (!s || s->context != current)
        return INVALID_HANDLE;
    if (!s->capturing) {
        push(&queue, op);
        return CUDA_SUCCESS;
    }
    op.number = s->ncaptured++;
    op.after = s->after;
    op.nafter = s->nafter;
    s->after = NULL;
    push(&s->captured, op);
    wait_for(s, &op.number, 1);
    return CUDA_SUCCESS;
}

/* ---- the driver ---- */

EXPORT CUresult cuInit(unsigned flags)
{
    FILE *f;
    const char *path = getenv("FAKE_CUDA_LOG");

    pthread_mutex_lock(&lock);
    counter[INIT]++;
    if (told("init", 0, NULL))
        return leave((CUresult)told("init", 0, NULL));
    if (!devices())
        return leave(CUDA_ERROR_NO_DEVICE);
    for (int i = 0; i < DEVICES_MAX; i++)
        context[i].device = i;
    if (!started && path && (f = fopen(path, "w")))
        fclose(f);
    started = true;
#ifdef FAKE_CALLED
    called_offer();
#endif
    return leave(flags ? INVALID_VALUE : CUDA_SUCCESS);
}

EXPORT CUresult cuDriverGetVersion(int *version)
{
    *version = (int)told("version", 13000, NULL);
    return CUDA_SUCCESS;
}

static const struct { int code; const char *name, *text; } errors[] = {
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"}, {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"}, {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"}, {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"}, {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"}, {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"}, {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"}, {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
};

static int error_at(CUresult e)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == e)
            return (int)i;
    return -1;
}

EXPORT CUresult cuGetErrorName(CUresult e, const char **name)
{
    int i = error_at(e);

    *name = i < 0 ? NULL : errors[i].name;
    return i < 0 ? INVALID_VALUE : CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorString(CUresult e, const char **text)
{
    int i = error_at(e);

    *text = i < 0 ? NULL : errors[i].text;
    return i < 0 ? INVALID_VALUE : CUDA_SUCCESS;
}

/* ---- devices and contexts ---- */

EXPORT CUresult cuDeviceGetCount(int *n) { *n = devices(); return started ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED; }

EXPORT CUresult cuDeviceGet(CUdevice *d, int i) { *d = i; return i >= 0 && i < devices() ? CUDA_SUCCESS : INVALID_DEVICE; }

EXPORT CUresult cuDeviceGetName(char *name, int n, CUdevice d)
{
    (void)d;
    snprintf(name, (size_t)n, "Tessera Fake GPU");
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetAttribute(int *v, int which, CUdevice d)
{
    (void)d;
    *v = which == CUDA_MULTIPROCESSOR_COUNT ? chip() ? 132 : 4 : which == CUDA_CAPABILITY_MAJOR ? chip() / 10 : which == CUDA_CAPABILITY_MINOR ? chip() % 10 : which == CUDA_SHARED_PER_BLOCK_OPTIN ? SHARED_OPTIN :
         which == CUDA_SHARED_PER_MULTIPROCESSOR ? 228 << 10 : which == CUDA_REGISTERS_PER_MULTIPROCESSOR ? 65536 :
         which == CUDA_L2_CACHE_SIZE ? 50 << 20 : which == CUDA_CLOCK_RATE ? 1000000 : which == CUDA_MEMORY_CLOCK_RATE ? 1000000 :
         which == CUDA_MEMORY_BUS_WIDTH ? 1024 : 0;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *n, CUdevice d) { (void)d; *n = capacity(); return CUDA_SUCCESS; }

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d)
{
    *c = &context[d];
    return started ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice d) { (void)d; return CUDA_SUCCESS; }
EXPORT CUresult cuCtxSetCurrent(CUcontext c) { current = c; return CUDA_SUCCESS; }

EXPORT CUresult cuCtxSynchronize(void)
{
    ENTER();
    return leave(wait_for_all());
}

/* ---- memory ---- */

EXPORT CUresult cuMemGetInfo_v2(size_t *available, size_t *total)
{
    ENTER();
    *total = capacity();
    *available = capacity() - (size_t)counter[LIVE];
    return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *at, size_t n)
{
    int64_t from = told("oom-at", 0, NULL), once = told("oom-once", 0, NULL);
    Memory *m;

    ENTER();
    counter[ALLOC]++;
    if (!n || (from && counter[ALLOC] >= from) || counter[ALLOC] == once || (size_t)counter[LIVE] + n > capacity())
        return leave(n ? CUDA_ERROR_OUT_OF_MEMORY : INVALID_VALUE);
    m = malloc(sizeof *m);
    *m = (Memory){.size = (n + PAGE - 1) / PAGE * PAGE, .owner = current, .next = memory};
    m->at = mmap(NULL, m->size, chip() ? PROT_NONE : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!chip()) {
        memset(m->at, POISON, m->size);
        mprotect(m->at, m->size, PROT_NONE);
    }
    memory = m;
    counter[LIVE] += (int64_t)m->size;
    *at = (CUdeviceptr)(uintptr_t)m->at;
    return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr at)
{
    ENTER();
    if (wait_for_all())
        return leave(sticky);
    for (Memory **p = &memory; *p; p = &(*p)->next)
        if ((CUdeviceptr)(uintptr_t)(*p)->at == at) {
            Memory *m = *p;
            *p = m->next;
            munmap(m->at, m->size);
            counter[LIVE] -= (int64_t)m->size;
            counter[FREE]++;
            free(m);
            return leave(CUDA_SUCCESS);
        }
    return leave(INVALID_VALUE);
}

EXPORT CUresult cuMemHostAlloc(void **at, size_t n, unsigned flags)
{
    Pinned *b;

    (void)flags;
    ENTER();
    b = malloc(sizeof *b);
    *b = (Pinned){.at = aligned_alloc(PAGE, (n + PAGE - 1) / PAGE * PAGE), .size = n, .next = pinned};
    pinned = b;
    *at = b->at;
    return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemFreeHost(void *at)
{
    ENTER();
    for (Pinned **p = &pinned; *p; p = &(*p)->next)
        if ((*p)->at == at) {
            Pinned *b = *p;
            *p = b->next;
            free(b->at);
            free(b);
            return leave(CUDA_SUCCESS);
        }
    return leave(INVALID_VALUE);
}

/* Pageable memory is read before the call returns, pinned memory when the copy is done. */
EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n, CUstream s)
{
    Op op = {.kind = OP_UP, .to = (void *)(uintptr_t)to, .from = from, .n = n};
    CUresult r;

    ENTER();
    counter[UPLOAD]++;
    if (!block_of(to, n))
        return leave(INVALID_VALUE);
    if (!is_pinned(from)) {
        op.own = malloc(n ? n : 1);
        memcpy(op.own, from, n);
        op.from = op.own;
    }
    if ((r = put(s, op)))
        free(op.own);
    return leave(r);
}

EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, CUstream s)
{
    CUresult r;

    ENTER();
    counter[DOWNLOAD]++;
    counter[DOWN] += (int64_t)n;
    if (!block_of(from, n))
        return leave(INVALID_VALUE);
    r = put(s, (Op){.kind = OP_DOWN, .to = to, .from = (const void *)(uintptr_t)from, .n = n});
    if (!r && !is_pinned(to) && !s->capturing)
        r = wait_for_all();
    return leave(r);
}

EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s)
{
    ENTER();
    counter[COPY]++;
    if (!block_of(to, n) || !block_of(from, n))
        return leave(INVALID_VALUE);
    return leave(put(s, (Op){.kind = OP_COPY, .to = (void *)(uintptr_t)to, .from = (const void *)(uintptr_t)from, .n = n}));
}

EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, size_t n, CUstream s)
{
    Memory *a, *b;

    ENTER();
    counter[COPY]++;
    a = block_of(to, n);
    b = block_of(from, n);
    if (!a || !b || a->owner != there || b->owner != here)
        return leave(INVALID_VALUE);
    return leave(put(s, (Op){.kind = OP_COPY, .to = (void *)(uintptr_t)to, .from = (const void *)(uintptr_t)from, .n = n}));
}

EXPORT CUresult cuMemsetD8Async(CUdeviceptr at, unsigned char byte, size_t n, CUstream s)
{
    ENTER();
    counter[FILL]++;
    if (!block_of(at, n))
        return leave(INVALID_VALUE);
    return leave(put(s, (Op){.kind = OP_FILL, .to = (void *)(uintptr_t)at, .byte = byte, .n = n}));
}

/* ---- streams and events ---- */

EXPORT CUresult cuStreamCreate(CUstream *s, unsigned flags)
{
    (void)flags;
    ENTER();
    *s = calloc(1, sizeof **s);
    (*s)->context = current;
    return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuStreamDestroy_v2(CUstream s) { free(s); return CUDA_SUCCESS; }

EXPORT CUresult cuStreamSynchronize(CUstream s)
{
    ENTER();
    return leave(s->context == current ? wait_for_all() : INVALID_HANDLE);
}

EXPORT CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned flags)
{
    (void)flags;
    ENTER();
    return leave(s->context == current && e ? CUDA_SUCCESS : INVALID_HANDLE);      /* one queue: what was recorded comes first anyway */
}

EXPORT CUresult cuEventCreate(CUevent *e, unsigned flags)
{
    (void)flags;
    ENTER();
    *e = calloc(1, sizeof **e);
    return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuEventRecord(CUevent e, CUstream s)
{
    ENTER();
    e->recorded = true;
    e->done = false;
    return leave(put(s, (Op){.kind = OP_EVENT, .to = e}));
}

EXPORT CUresult cuEventSynchronize(CUevent e)
{
    ENTER();
    return leave(e->recorded && !e->done ? wait_for_all() : CUDA_SUCCESS);
}

/* It may be in the queue still. */
EXPORT CUresult cuEventDestroy_v2(CUevent e)
{
    pthread_mutex_lock(&lock);
    if (!e->recorded || e->done)
        free(e);
    else if (!capturing)
        flush(), free(e);
    return leave(CUDA_SUCCESS);
}

/* ---- modules ---- */

EXPORT CUresult cuLinkCreate_v2(unsigned n, int *option, void **value, CUlinkState *s)
{
    (void)n, (void)option, (void)value;
    *s = NULL;
    return NOT_SUPPORTED;
}

EXPORT CUresult cuLinkAddData_v2(CUlinkState s, int type, void *data, size_t bytes, const char *name, unsigned n, int *option, void **value)
{
    (void)s, (void)type, (void)data, (void)bytes, (void)name, (void)n, (void)option, (void)value;
    return NOT_SUPPORTED;
}

EXPORT CUresult cuLinkComplete(CUlinkState s, void **image, size_t *n) { (void)s, (void)image, (void)n; return NOT_SUPPORTED; }
EXPORT CUresult cuLinkDestroy(CUlinkState s) { (void)s; return CUDA_SUCCESS; }

/* An ELF file says itself how long it is: the table of sections is its end. */
static size_t elf_size(const unsigned char *e)
{
    uint64_t table;
    uint16_t size, n;

    memcpy(&table, e + 40, sizeof table);
    memcpy(&size, e + 58, sizeof size);
    memcpy(&n, e + 60, sizeof n);
    return (size_t)table + (size_t)size * n;
}

EXPORT CUresult cuModuleLoadDataEx(CUmodule *m, const void *image, unsigned n, int *option, void **value)
{
    StrBuf err = {0};
    Code *code = NULL;

    ENTER();
    counter[MODULE]++;
    if (chip()) {
        ;
    } else if (!memcmp(image, "\177ELF", 4)) {
        code = code_load(image, elf_size(image), &err);
        for (unsigned i = 0; !code && i < n; i++)
            if (option[i] == CUDA_JIT_ERROR_LOG)
                snprintf(value[i], 1000, "%s", sb_str(&err));
        sb_done(&err);
        if (!code)
            return leave(INVALID_IMAGE);
    } else if (strcmp(image, "builtin") != 0) {
        return leave(INVALID_IMAGE);
    }
    *m = malloc(sizeof **m);
    **m = (struct CUmod_st){current, code};
    return leave(CUDA_SUCCESS);
}

extern FakeKernel *fake_builtin(const char *name);
static int idle(const FakeLaunch *l) { return (void)l, 0; }

EXPORT CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name)
{
    CodeFn *at;
    FakeKernel *k;

    ENTER();
    if (m->context != current)
        return leave(INVALID_HANDLE);
    at = m->code ? code_find(m->code, name) : NULL;
    k = chip() ? idle : m->code ? (FakeKernel *)at : fake_builtin(name);
    if (!k)
        return leave(NOT_FOUND);
    *f = calloc(1, sizeof **f);
    **f = (struct CUfunc_st){.module = m, .kernel = k, .shared = SHARED_PLAIN, .next = functions};
    functions = *f;
    return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuFuncSetAttribute(CUfunction f, int which, int v)
{
    ENTER();
    if (which == CUDA_MAX_DYNAMIC_SHARED && v > SHARED_OPTIN)
        return leave(INVALID_VALUE);
    if (which == CUDA_MAX_DYNAMIC_SHARED)
        f->shared = v;
    return leave(CUDA_SUCCESS);
}

static CUresult launch_op(const CUlaunchConfig *c, CUfunction f, void **extra, Op *op)
{
    uint64_t threads = (uint64_t)c->block[0] * c->block[1] * c->block[2];
    size_t n = extra ? *(const size_t *)extra[3] : 0;

    if (f->module->context != current)
        return INVALID_HANDLE;
    if (!c->grid[0] || !c->grid[1] || !c->grid[2] || !threads || threads > 1024 || c->shared > (unsigned)f->shared)
        return INVALID_VALUE;
    *op = (Op){.kind = OP_LAUNCH, .kernel = f->kernel, .own = calloc(1, n + 64), .launch = {.cluster = {1, 1, 1}, .shared = c->shared, .nbytes = n}};
    memcpy(op->launch.grid, c->grid, sizeof c->grid);
    memcpy(op->launch.block, c->block, sizeof c->block);
    for (unsigned i = 0; i < c->nattributes; i++)
        if (c->attribute[i].id == CUDA_LAUNCH_CLUSTER)
            memcpy(op->launch.cluster, c->attribute[i].value.size, sizeof op->launch.cluster);
    if (n)
        memcpy(op->own, extra[1], n);
    for (int i = 0; i < 3; i++)
        if (!op->launch.cluster[i] || c->grid[i] % op->launch.cluster[i])
            return INVALID_VALUE;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **params, void **extra)
{
    Op op = {0};
    CUresult r;

    ENTER();
    counter[LAUNCH]++;
    r = params && !chip() ? NOT_SUPPORTED : launch_op(c, f, extra, &op);
    if (r || (r = put(c->stream, op)))
        free(op.own);
    return leave(r);
}

EXPORT CUresult cuOccupancyMaxActiveClusters(int *n, CUfunction f, const CUlaunchConfig *c) { (void)f, (void)c; *n = chip() ? 66 : 4; return CUDA_SUCCESS; }

EXPORT CUresult cuTensorMapEncodeTiled(CUtensorMap *map, int type, uint32_t rank, void *at, const uint64_t *extent, const uint64_t *stride,
                                       const uint32_t *box, const uint32_t *step, int interleave, int swizzle, int l2, int fill)
{
    (void)type, (void)extent, (void)stride, (void)box, (void)step, (void)interleave, (void)swizzle, (void)l2, (void)fill;
    if ((uintptr_t)map % 64 || (uintptr_t)at % 16 || !rank || rank > 5)
        return INVALID_VALUE;
    memset(map, 0, sizeof *map);
    map->opaque[0] = (uintptr_t)at;
    return CUDA_SUCCESS;
}

/* ---- graphs ---- */

EXPORT CUresult cuStreamBeginCapture_v2(CUstream s, int mode)
{
    (void)mode;
    ENTER();
    if (s->capturing || s->context != current)
        return leave(INVALID_HANDLE);
    s->capturing = true;
    s->ncaptured = 0;
    wait_for(s, NULL, 0);
    capturing++;
    return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuStreamEndCapture(CUstream s, CUgraph *g)
{
    ENTER();
    if (!s->capturing)
        return leave(INVALID_HANDLE);
    s->capturing = false;
    capturing--;
    *g = calloc(1, sizeof **g);
    (*g)->q = s->captured;
    if ((*g)->q.first)
        s->captured = (Queue){0};
    return leave(CUDA_SUCCESS);
}

static Op *captured_at(CUstream s, int number)
{
    Op *o = s->captured.first;

    while (o && o->number != number)
        o = o->next;
    return o;
}

EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream s, int *status, uint64_t *id, CUgraph *g, const CUgraphNode **after, size_t *n)
{
    static CUgraphNode last;

    ENTER();
    *status = s->capturing;
    *id = 1;
    *g = NULL;
    *n = s->nafter == 1;
    last = *n ? (CUgraphNode)captured_at(s, s->after[0]) : NULL;
    *after = &last;
    return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuStreamUpdateCaptureDependencies(CUstream s, CUgraphNode *after, size_t n, unsigned flags)
{
    int *number = malloc(sizeof *number * (n + 1));

    ENTER();
    for (size_t i = 0; i < n; i++)
        number[i] = ((const Op *)after[i])->number;
    wait_for(s, number, (int)n);
    free(number);
    return leave(flags == 1 && s->capturing ? CUDA_SUCCESS : INVALID_VALUE);
}

static Op copied(const Op *o)
{
    Op c = *o;

    if (o->own) {
        size_t n = o->kind == OP_LAUNCH ? o->launch.nbytes + 64 : o->n;
        c.own = malloc(n);
        memcpy(c.own, o->own, n);
        if (o->kind == OP_UP)
            c.from = c.own;
    }
    if (o->after) {
        c.after = malloc(sizeof *c.after * (size_t)(o->nafter + 1));
        memcpy(c.after, o->after, sizeof *c.after * (size_t)o->nafter);
    }
    return c;
}

static void push_all(Queue *to, const Queue *from)
{
    for (const Op *o = from->first; o; o = o->next)
        push(to, copied(o));
}

static bool is_ready(const Op *o, const bool *done)
{
    for (int i = 0; i < o->nafter; i++)
        if (!done[o->after[i]])
            return false;
    return true;
}

/* In an order that the graph allows, and as different as can be from that in which it was captured. */
static void push_graph(const Queue *q)
{
    int n = 0;

    for (const Op *o = q->first; o; o = o->next)
        n++;
    const Op **at = malloc(sizeof *at * (size_t)(n + 1));
    bool *done = calloc((size_t)n + 1, 1);
    for (const Op *o = q->first; o; o = o->next)
        at[o->number] = o;
    for (int i = 0, k; i < n; i++) {
        for (k = n - 1; done[k] || !is_ready(at[k], done); )
            k--;
        push(&queue, copied(at[k]));
        done[k] = true;
    }
    free(done);
    free(at);
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *e, CUgraph g, unsigned long long flags)
{
    (void)flags;
    ENTER();
    *e = calloc(1, sizeof **e);
    push_all(&(*e)->q, &g->q);
    return leave(CUDA_SUCCESS);
}

/* As the driver does: what is launched, filled and copied stays, their numbers change. */
EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec e, CUgraph g, CUgraphUpdate *how)
{
    const Op *a = e->q.first, *b = g->q.first;

    ENTER();
    for (; a && b && a->kind == b->kind && a->kernel == b->kernel && a->nafter == b->nafter; a = a->next, b = b->next)
        ;
    how->result = a || b ? UPDATE_FAILED : CUDA_SUCCESS;
    if (a || b)
        return leave(GRAPH_UPDATE_FAILURE);
    counter[UPDATE]++;
    queue_free(&e->q);
    push_all(&e->q, &g->q);
    return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuGraphLaunch(CUgraphExec e, CUstream s)
{
    ENTER();
    counter[GRAPH]++;
    if (s->context != current)
        return leave(INVALID_HANDLE);
    push_graph(&e->q);
    return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec e)
{
    queue_free(&e->q);
    free(e);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphDestroy(CUgraph g)
{
    queue_free(&g->q);
    free(g);
    return CUDA_SUCCESS;
}
