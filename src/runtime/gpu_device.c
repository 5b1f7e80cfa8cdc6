/*
 * The GPUs that the driver has: looked at once, started when they are used.
 *
 * The context is the primary one of the device, which other libraries in the process share; it is made current in each thread that
 * comes here.  Kernels run long after their launch, and what goes wrong in one is told by some later call, to which it means nothing:
 * so the launches since the last wait are remembered, and named.
 */
#include "runtime/gpu_impl.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GPUS_MAX = 64 };

static GpuDevice device[GPUS_MAX];
static int ndevices;
static pthread_once_t looked = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock;
static pthread_once_t lock_made = PTHREAD_ONCE_INIT;
static _Thread_local CUcontext current;         /* in this thread, as far as is known here */
const GpuNotes *gpu_notes;

static void make_lock(void)
{
    pthread_mutexattr_t a;

    pthread_mutexattr_init(&a);
    pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&lock, &a);
    pthread_mutexattr_destroy(&a);
}

void gpu_lock(void)
{
    pthread_once(&lock_made, make_lock);
    pthread_mutex_lock(&lock);
}

void gpu_unlock(void) { pthread_mutex_unlock(&lock); }

/* ---- what they are ---- */

static int attribute(CUdevice d, int which)
{
    int v = 0;

    return cu.DeviceGetAttribute(&v, which, d) == CUDA_SUCCESS ? v : 0;
}

/* The row of its name, else of its architecture: a chip that is not known is like the last one known of its kind. */
static const GpuModel *model_of(const GpuDevice *g)
{
    const GpuModel *m = gpu_model(g->name);
    char arch[16];
    int n = snprintf(arch, sizeof arch, "sm_%d", g->sm);

    return m ? m : gpu_of_arch(arch, (size_t)n);
}

static bool look_at(GpuDevice *g, int ordinal)
{
    if (cu.DeviceGet(&g->handle, ordinal) != CUDA_SUCCESS || cu.DeviceGetName(g->name, sizeof g->name, g->handle) != CUDA_SUCCESS ||
        cu.DeviceTotalMem(&g->memory, g->handle) != CUDA_SUCCESS)
        return false;
    g->index = ordinal;
    g->name[sizeof g->name - 1] = 0;
    g->sm = attribute(g->handle, CUDA_CAPABILITY_MAJOR) * 10 + attribute(g->handle, CUDA_CAPABILITY_MINOR);
    g->processors = attribute(g->handle, CUDA_MULTIPROCESSOR_COUNT);
    g->registers = attribute(g->handle, CUDA_REGISTERS_PER_MULTIPROCESSOR);
    g->shared_group = attribute(g->handle, CUDA_SHARED_PER_BLOCK_OPTIN);
    g->shared_processor = attribute(g->handle, CUDA_SHARED_PER_MULTIPROCESSOR);
    g->cache = attribute(g->handle, CUDA_L2_CACHE_SIZE);
    g->clock = attribute(g->handle, CUDA_CLOCK_RATE);
    g->memory_clock = attribute(g->handle, CUDA_MEMORY_CLOCK_RATE);
    g->bus = attribute(g->handle, CUDA_MEMORY_BUS_WIDTH);
    g->model = model_of(g);
    return true;
}

static void look(void)
{
    int n = 0;

    if (!cuda_load() || cu.DeviceGetCount(&n) != CUDA_SUCCESS)
        return;
    while (ndevices < n && ndevices < GPUS_MAX && look_at(&device[ndevices], ndevices))
        ndevices++;
}

int gpu_count(void)
{
    pthread_once(&looked, look);
    return ndevices;
}

const GpuDevice *gpu_look(int index) { return index >= 0 && index < gpu_count() ? &device[index] : NULL; }

/* Units for f32 in a multiprocessor: 64 in the chips for data centres before sm_90, else 128. */
static double lanes_of(int sm) { return sm == 70 || sm == 75 || sm == 80 ? 64 : 128; }

void gpu_facts(const GpuDevice *g, GpuModel *out)
{
    *out = g->model ? *g->model : (GpuModel){.arch = ""};
    out->name = g->name;
    out->processors = g->processors;
    out->shared_group = g->shared_group >> 10;
    out->shared_processor = g->shared_processor >> 10;
    out->registers = g->registers;
    out->cache = g->cache >> 20;
    out->memory = (int)((g->memory + (1 << 29)) >> 30);
    if (g->clock)
        out->flops = 2 * lanes_of(g->sm) * g->processors * g->clock * 1e3;
    if (g->memory_clock && g->bus)
        out->bandwidth = 2 * g->memory_clock * 1e3 * g->bus / 8;
}

/* ---- starting ---- */

static void stop(GpuDevice *g, GpuState *s)
{
    for (int i = 0; i < GPU_STREAMS; i++)
        if (s->stream[i])
            cu.StreamDestroy(s->stream[i]);
    if (s->context)
        cu.DevicePrimaryCtxRelease(g->handle);
    tsr_free(s);
}

typedef struct Retain { GpuDevice *g; GpuState *s; CUresult r; } Retain;

static void retain(void *arg)
{
    Retain *t = arg;

    t->r = cu.DevicePrimaryCtxRetain(&t->s->context, t->g->handle);
}

static CUresult begin(GpuDevice *g, GpuState *s, const char **call)
{
    Retain t = {.g = g, .s = s};
    CUresult r;

    *call = "cuDevicePrimaryCtxRetain";
    cuda_aside(retain, &t);
    if (t.r != CUDA_SUCCESS)
        return t.r;
    *call = "cuCtxSetCurrent";
    if ((r = cu.CtxSetCurrent(s->context)) != CUDA_SUCCESS)
        return r;
    *call = "cuStreamCreate";
    for (int i = 0; i < GPU_STREAMS && r == CUDA_SUCCESS; i++)
        r = cu.StreamCreate(&s->stream[i], CUDA_STREAM_NON_BLOCKING);
    return r;
}

static bool start(GpuDevice *g)
{
    const char *wait = getenv("TESSERA_GPU_SYNC"), *call;
    GpuState *s = tsr_calloc(sizeof *s);
    CUresult r = begin(g, s, &call);
    StrBuf why = {0};

    if (r == CUDA_SUCCESS) {
        s->one_by_one = wait && *wait && strcmp(wait, "0");
        current = s->context;
        g->state = s;
        return true;
    }
    cuda_say(&why, r);
    fault(r == CUDA_ERROR_OUT_OF_MEMORY ? FAULT_MEMORY : FAULT_RUN, "E0746: gpu:%d cannot be started: %s: %s", g->index, call, sb_str(&why));
    sb_done(&why);
    stop(g, s);
    return false;
}

bool gpu_enter(GpuDevice *g) { return gpu_settle() && gpu_enter_beside(g); }

bool gpu_enter_beside(GpuDevice *g)
{
    if (!cuda_load())
        return fault(FAULT_RUN, "%s", cuda_reason());
    if (current == g->state->context)
        return true;
    if (!gpu_check(g, cu.CtxSetCurrent(g->state->context), "cuCtxSetCurrent"))
        return false;
    current = g->state->context;
    return true;
}

GpuDevice *gpu_of(int index) { return &device[index]; }

GpuDevice *gpu_device(int index)
{
    GpuDevice *g = index >= 0 && index < gpu_count() ? &device[index] : NULL;
    bool ok;

    if (!g) {
        fault(FAULT_VALUE, "%s", gpu_count() || cuda_load() ? "E0741: there is no such GPU" : cuda_reason());
        return NULL;
    }
    gpu_lock();
    ok = g->state ? gpu_enter_beside(g) : cuda_load() ? start(g) : fault(FAULT_RUN, "%s", cuda_reason());
    gpu_unlock();
    return ok ? g : NULL;
}

/* ---- how it went ---- */

void gpu_remember(GpuDevice *g, GpuStream s, GpuWhere where)
{
    GpuLaunched *l;

    gpu_lock();
    l = &g->state->launched[s][g->state->nlaunched[s]++ % RING];
    snprintf(l->kernel, sizeof l->kernel, "%s", where.kernel ? where.kernel : "a kernel");
    l->span = where.span;
    gpu_unlock();
}

static void forget_stream(GpuDevice *g, GpuStream s) { g->state->nlaunched[s] = 0; }

/* All streams are idle, or the context is gone: what was launched went well, or is told already. */
static void gpu_forget_launches(GpuDevice *g)
{
    for (int s = 0; s < GPU_STREAMS; s++)
        forget_stream(g, (GpuStream)s);
}

static void put_launched(const GpuLaunched *l, StrBuf *out)
{
    Place p = source_place(l->span.lo);

    sb_puts(out, l->kernel);
    if (p.src)
        sb_printf(out, " (%s:%u)", p.src->path, p.line);
}

/* The launches that the error may come from: each that nobody has waited for, the first ones first. */
static void put_suspects(const GpuState *s, StrBuf *out)
{
    bool one = s->nlaunched[GPU_MAIN] + s->nlaunched[GPU_COPY] == 1;
    int64_t n = 0, known = 0;

    for (int k = 0; k < GPU_STREAMS; k++) {
        int64_t first = s->nlaunched[k] > RING ? s->nlaunched[k] - RING : 0;
        for (int64_t i = first; i < s->nlaunched[k]; i++) {
            sb_puts(out, known++ ? ", " : one ? "; the kernel is " : "; it was one of these kernels: ");
            put_launched(&s->launched[k][i % RING], out);
        }
        n += s->nlaunched[k];
    }
    if (n > known)
        sb_printf(out, ", or one of %lld before them", (long long)(n - known));
    if (n > 1)
        sb_puts(out, " (TESSERA_GPU_SYNC=1 waits behind each launch, and tells which)");
}

/* Errors after which the context is of no use. */
static bool is_sticky(CUresult r)
{
    return r == CUDA_ERROR_ECC_UNCORRECTABLE || r == CUDA_ERROR_ILLEGAL_ADDRESS || r == CUDA_ERROR_LAUNCH_TIMEOUT ||
           r == CUDA_ERROR_CONTEXT_IS_DESTROYED || r == CUDA_ERROR_ASSERT || (r >= CUDA_ERROR_HARDWARE_STACK_ERROR && r <= CUDA_ERROR_LAUNCH_FAILED);
}

static void say_lost(GpuDevice *g, StrBuf *why, const char *call)
{
    StrBuf out = {0};

    sb_printf(&out, "E0745: a kernel went wrong on gpu:%d: %s", g->index, sb_str(why));
    if (g->state->lost)
        sb_printf(&out, "; it was told before, and what was on the GPU is lost (%s)", call);
    else
        put_suspects(g->state, &out);
    g->state->lost = true;
    gpu_forget_launches(g);
    fault(FAULT_RUN, "%s", sb_str(&out));
    sb_done(&out);
}

bool gpu_check(GpuDevice *g, CUresult r, const char *call)
{
    StrBuf why = {0};

    if (r == CUDA_SUCCESS)
        return true;
    cuda_say(&why, r);
    gpu_lock();
    if (is_sticky(r))
        say_lost(g, &why, call);
    else
        fault(r == CUDA_ERROR_OUT_OF_MEMORY ? FAULT_MEMORY : FAULT_RUN, "%s: gpu:%d: %s: %s", r == CUDA_ERROR_OUT_OF_MEMORY ? "E0744" : "E0746",
              g->index, call, sb_str(&why));
    gpu_unlock();
    sb_done(&why);
    return false;
}

bool gpu_sync_stream(GpuDevice *g, GpuStream s)
{
    bool ok;

    gpu_lock();
    if (gpu_notes)
        gpu_notes->stands("the host waits for the GPU");
    ok = gpu_enter(g) && gpu_check(g, cu.StreamSynchronize(g->state->stream[s]), "cuStreamSynchronize");
    if (ok) {
        forget_stream(g, s);
        gpu_reports_read(g);
    }
    gpu_unlock();
    return ok;
}

bool gpu_sync(GpuDevice *g)
{
    bool ok;

    gpu_lock();
    if (gpu_notes)
        gpu_notes->stands("the host waits for the GPU");
    ok = gpu_enter(g) && gpu_check(g, cu.CtxSynchronize(), "cuCtxSynchronize");
    if (ok) {
        gpu_forget_launches(g);
        gpu_reports_read(g);
    }
    gpu_unlock();
    return ok;
}

bool gpu_finish(void)
{
    bool ok = gpu_settle();

    for (int i = 0; i < ndevices && ok; i++) {
        const GpuState *s = device[i].state;
        if (s && (s->nlaunched[GPU_MAIN] || s->nlaunched[GPU_COPY]))
            ok = gpu_sync(&device[i]);
    }
    return ok && !fault_kept;
}

/* ---- events ---- */

bool gpu_event(GpuDevice *g, GpuEvent *out)
{
    bool ok;

    gpu_lock();
    *out = (GpuEvent){.g = g};
    ok = gpu_enter(g) && gpu_check(g, cu.EventCreate(&out->event, CUDA_EVENT_NO_TIMING), "cuEventCreate");
    gpu_unlock();
    return ok;
}

bool gpu_record(GpuEvent *e, GpuStream s)
{
    bool ok;

    gpu_lock();
    ok = gpu_enter(e->g) && gpu_check(e->g, cu.EventRecord(e->event, e->g->state->stream[s]), "cuEventRecord");
    gpu_unlock();
    return ok;
}

bool gpu_wait(GpuDevice *g, GpuStream s, const GpuEvent *e)
{
    bool ok;

    gpu_lock();
    ok = gpu_enter(g) && gpu_check(g, cu.StreamWaitEvent(g->state->stream[s], e->event, 0), "cuStreamWaitEvent");
    gpu_unlock();
    return ok;
}

void gpu_event_done(GpuEvent *e)
{
    if (e->event)
        cu.EventDestroy(e->event);
    e->event = NULL;
}
