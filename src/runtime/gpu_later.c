/*
 * Work for a GPU that waits for code.
 *
 * An assembler takes 30 ms for the smallest kernel, most of it to start.  A program that begins with many of them, one after the other, as
 * one that makes the weights of a model does, would wait for each.  So a module's text may be assembled by a thread of its own
 * (gpu_module_begin).  The launches of its functions wait in a list, and with them all launches, fills and small copies to the device
 * that come behind, so that the order on the device is that of the calls.
 *
 * The list is gone through, waiting for the code of each launch, as soon as anything else is asked of a device (gpu_enter), no thread is
 * at work, or it has become long.  Memory may be taken meanwhile: what is given back is taken by work behind.
 */
#include "runtime/gpu_impl.h"
#include "runtime/gpu_launch.h"

#include <string.h>

enum { WAITING_MOST = 4096, COPIED_MOST = 4096 };       /* pieces of work; bytes of a copy */

typedef enum { WORK_LAUNCH, WORK_UPLOAD, WORK_FILL } WorkKind;

typedef struct Work {
    WorkKind kind;
    GpuFunction *f;
    GpuLaunch l;                /* its parameters and its name are in `bytes` and `name` */
    GpuDevice *g;
    CUdeviceptr at;
    int byte;
    size_t n;
    StrBuf bytes, name;
} Work;

static Vec(Work) waiting;       /* under the lock */

static bool do_work(Work *w)
{
    switch (w->kind) {
    case WORK_UPLOAD: return gpu_enter_beside(w->g) && gpu_upload_now(w->g, w->at, w->bytes.s, w->n);
    case WORK_FILL: return gpu_enter_beside(w->g) && gpu_fill_now(w->g, w->at, w->byte, w->n);
    default:
        w->l.params = w->bytes.s;
        w->l.where.kernel = w->name.n ? sb_str(&w->name) : NULL;
        return gpu_launch_now(w->f, &w->l);
    }
}

bool gpu_settle(void)
{
    bool ok = true;

    if (!waiting.n)
        return true;
    gpu_lock();
    Work *all = waiting.at;
    int n = waiting.n;
    memset(&waiting, 0, sizeof waiting);        /* what is done below may ask again */
    for (int i = 0; i < n; i++) {
        ok = ok && do_work(&all[i]);
        sb_done(&all[i].bytes);
        sb_done(&all[i].name);
    }
    tsr_free(all);
    gpu_unlock();
    return ok;
}

/* Is any code under way, and the list not long? Else all that waits is better done. */
static bool may_wait(void) { return waiting.n < WAITING_MOST && gpu_makings() > 0; }

bool gpu_launch_later(GpuFunction *f, const GpuLaunch *l, bool ready)
{
    Work w = {.kind = WORK_LAUNCH, .f = f, .l = *l};

    if ((ready && !waiting.n) || l->each || !may_wait())
        return false;
    sb_write(&w.bytes, l->params, l->nbytes);
    if (l->where.kernel)
        sb_puts(&w.name, l->where.kernel);
    vec_push(&waiting, w);
    return true;
}

bool gpu_upload_later(GpuDevice *g, CUdeviceptr to, const void *from, size_t bytes)
{
    Work w = {.kind = WORK_UPLOAD, .g = g, .at = to, .n = bytes};

    if (!waiting.n || bytes > COPIED_MOST || !may_wait())
        return false;
    sb_write(&w.bytes, from, bytes);
    vec_push(&waiting, w);
    return true;
}

bool gpu_fill_later(GpuDevice *g, CUdeviceptr at, int byte, size_t bytes)
{
    if (!waiting.n || !may_wait())
        return false;
    vec_push(&waiting, ((Work){.kind = WORK_FILL, .g = g, .at = at, .byte = byte, .n = bytes}));
    return true;
}
