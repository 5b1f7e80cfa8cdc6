/*
 * Copies between the host and GPUs, and on them.
 *
 * The driver copies fast, and without waiting, from memory of the host that is pinned; tensors are in ordinary memory.  So bytes go
 * through a pinned ring: LANES parts, each with an event that says when its copies are done.  A program that uploads a scalar each step
 * never waits that way; large copies fill one lane while another travels.
 */
#include "runtime/gpu_impl.h"

#include "runtime/kernels.h"

#include <string.h>

enum { PIECE = 1 << 20, ALIGN = 64 };           /* bytes that one thread moves at least; of pieces in a lane */

/* ---- pinned memory ---- */

/* false: there is none; copies go the slow way, and nothing is wrong. */
static bool make(GpuStaging *s)
{
    void *at = NULL;

    if (s->at)
        return true;
    if (cu.MemHostAlloc(&at, (size_t)LANES * LANE_BYTES, CUDA_HOST_PORTABLE) != CUDA_SUCCESS)
        return false;
    for (int i = 0; i < LANES; i++)
        if (cu.EventCreate(&s->done[i], CUDA_EVENT_NO_TIMING) != CUDA_SUCCESS) {
            while (i--)
                cu.EventDestroy(s->done[i]);
            cu.MemFreeHost(at);
            return false;
        }
    s->at = at;
    return true;
}

static char *lane_at(const GpuStaging *s, int lane) { return s->at + (size_t)lane * LANE_BYTES; }

static bool close_lane(GpuDevice *g, GpuStaging *s, int lane)
{
    s->busy[lane] = true;
    return gpu_check(g, cu.EventRecord(s->done[lane], g->state->stream[GPU_MAIN]), "cuEventRecord");
}

static bool open_lane(GpuDevice *g, GpuStaging *s, int lane)
{
    if (!s->busy[lane])
        return true;
    s->busy[lane] = false;
    return gpu_check(g, cu.EventSynchronize(s->done[lane]), "cuEventSynchronize");
}

typedef struct Move { char *to; const char *from; } Move;

static void move_part(int64_t lo, int64_t hi, void *st)
{
    const Move *m = st;

    memcpy(m->to + lo, m->from + lo, (size_t)(hi - lo));
}

static void move(char *to, const char *from, size_t n)
{
    Move m = {to, from};

    pool_for((int64_t)n, PIECE, move_part, &m);
}

/* ---- up ---- */

static bool upload_piece(GpuDevice *g, CUdeviceptr to, const char *from, size_t n)
{
    GpuStaging *s = &g->state->up;
    char *at = lane_at(s, s->lane) + s->used;

    move(at, from, n);
    s->used += (n + ALIGN - 1) / ALIGN * ALIGN;
    return gpu_check(g, cu.MemcpyHtoDAsync(to, at, n, g->state->stream[GPU_MAIN]), "cuMemcpyHtoDAsync");
}

static bool upload(GpuDevice *g, CUdeviceptr to, const char *from, size_t bytes)
{
    GpuStaging *s = &g->state->up;

    while (bytes) {
        if (s->used >= LANE_BYTES) {
            int next = (s->lane + 1) % LANES;
            if (!close_lane(g, s, s->lane) || !open_lane(g, s, next))
                return false;
            s->lane = next;
            s->used = 0;
        }
        size_t room = LANE_BYTES - s->used, n = bytes < room ? bytes : room;
        if (!upload_piece(g, to, from, n))
            return false;
        to += n;
        from += n;
        bytes -= n;
    }
    return true;
}

/* The driver takes pageable memory, too; it has read it when the stream is idle. */
static bool upload_slowly(GpuDevice *g, CUdeviceptr to, const void *from, size_t bytes)
{
    return gpu_check(g, cu.MemcpyHtoDAsync(to, from, bytes, g->state->stream[GPU_MAIN]), "cuMemcpyHtoDAsync") && gpu_sync_stream(g, GPU_MAIN);
}

/* A graph would copy again what its lanes hold by then. */
static bool may_copy(GpuDevice *g)
{
    return !g->state->capturing || fault(FAULT_RUN, "E0746: gpu:%d: bytes go between the host and the GPU while a graph is captured", g->index);
}

bool gpu_upload_now(GpuDevice *g, CUdeviceptr to, const void *from, size_t bytes)
{
    return !bytes || (make(&g->state->up) ? upload(g, to, from, bytes) : upload_slowly(g, to, from, bytes));
}

bool gpu_upload(GpuDevice *g, CUdeviceptr to, const void *from, size_t bytes)
{
    bool ok;

    gpu_lock();
    ok = gpu_upload_later(g, to, from, bytes) || (gpu_enter(g) && may_copy(g) && gpu_upload_now(g, to, from, bytes));
    gpu_unlock();
    return ok;
}

/* ---- down ---- */

static size_t piece_at(size_t bytes, size_t i)
{
    size_t from = i * LANE_BYTES;

    return from >= bytes ? 0 : bytes - from < LANE_BYTES ? bytes - from : LANE_BYTES;
}

static bool ask(GpuDevice *g, CUdeviceptr from, size_t bytes, size_t i)
{
    GpuStaging *s = &g->state->down;
    size_t n = piece_at(bytes, i);
    int lane = (int)(i % LANES);

    return !n || (gpu_check(g, cu.MemcpyDtoHAsync(lane_at(s, lane), from + i * LANE_BYTES, n, g->state->stream[GPU_MAIN]), "cuMemcpyDtoHAsync") &&
                  close_lane(g, s, lane));
}

/* Each lane is asked for anew as soon as it is emptied. */
static bool download(GpuDevice *g, char *to, CUdeviceptr from, size_t bytes)
{
    GpuStaging *s = &g->state->down;

    for (size_t i = 0; i < LANES; i++)
        if (!ask(g, from, bytes, i))
            return false;
    for (size_t i = 0; piece_at(bytes, i); i++) {
        if (!open_lane(g, s, (int)(i % LANES)))
            return false;
        move(to + i * LANE_BYTES, lane_at(s, (int)(i % LANES)), piece_at(bytes, i));
        if (!ask(g, from, bytes, i + LANES))
            return false;
    }
    return true;
}

static bool download_slowly(GpuDevice *g, void *to, CUdeviceptr from, size_t bytes)
{
    return gpu_check(g, cu.MemcpyDtoHAsync(to, from, bytes, g->state->stream[GPU_MAIN]), "cuMemcpyDtoHAsync") && gpu_sync_stream(g, GPU_MAIN);
}

bool gpu_download(GpuDevice *g, void *to, CUdeviceptr from, size_t bytes)
{
    bool ok;

    gpu_lock();
    if (gpu_notes)
        gpu_notes->stands("elements are read on the host");
    ok = gpu_enter(g) && may_copy(g) && (!bytes || (make(&g->state->down) ? download(g, to, from, bytes) : download_slowly(g, to, from, bytes)));
    if (ok && bytes) {
        g->state->nlaunched[GPU_MAIN] = 0;              /* the copy was behind them */
        gpu_reports_read(g);
    }
    gpu_unlock();
    return ok;
}

/* ---- on the device ---- */

/* What comes on `then` waits for all that is on `first` now. */
static bool order(GpuDevice *first, GpuDevice *then)
{
    GpuEvent e;
    bool ok = gpu_event(first, &e) && gpu_record(&e, GPU_MAIN) && gpu_wait(then, GPU_MAIN, &e);

    gpu_event_done(&e);
    return ok;
}

static bool copy_across(GpuDevice *to_gpu, CUdeviceptr to, GpuDevice *g, CUdeviceptr from, size_t bytes)
{
    CUstream s = g->state->stream[GPU_MAIN];

    return order(to_gpu, g) && gpu_enter(g) &&
           gpu_check(g, cu.MemcpyPeerAsync(to, to_gpu->state->context, from, g->state->context, bytes, s), "cuMemcpyPeerAsync") && order(g, to_gpu);
}

bool gpu_copy(GpuDevice *to_gpu, CUdeviceptr to, GpuDevice *g, CUdeviceptr from, size_t bytes)
{
    bool ok;

    gpu_lock();
    if (gpu_notes && to_gpu == g)
        gpu_notes->copy(g, to, from, bytes);
    else if (gpu_notes)
        gpu_notes->stands("elements go from one GPU to another");
    if (!bytes)
        ok = true;
    else if (to_gpu != g)
        ok = copy_across(to_gpu, to, g, from, bytes);
    else
        ok = gpu_enter(g) && gpu_check(g, cu.MemcpyDtoDAsync(to, from, bytes, g->state->stream[GPU_MAIN]), "cuMemcpyDtoDAsync");
    gpu_unlock();
    return ok;
}

bool gpu_fill_now(GpuDevice *g, CUdeviceptr at, int byte, size_t bytes)
{
    return gpu_check(g, cu.MemsetD8Async(at, (unsigned char)byte, bytes, g->state->stream[GPU_MAIN]), "cuMemsetD8Async");
}

bool gpu_fill(GpuDevice *g, CUdeviceptr at, int byte, size_t bytes)
{
    bool ok;

    gpu_lock();
    if (gpu_notes)
        gpu_notes->fill(g, at, byte, bytes);
    ok = !bytes || gpu_fill_later(g, at, byte, bytes) || (gpu_enter(g) && gpu_fill_now(g, at, byte, bytes));
    gpu_unlock();
    return ok;
}
