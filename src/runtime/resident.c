/*
 * On which side the bytes of a storage are, and how they get to the other.
 *
 *     away               host        GPU
 *     0                  valid       no room, or stale
 *     WRITE              valid       valid
 *     READ | WRITE       stale       valid, or nobody has written any yet (!valid), or they are to be zeros (blank)
 *
 * Reading on one side makes both valid; writing makes the other stale.  A storage of a GPU has no memory on the host before somebody
 * there asks; then it is `apart`, and goes again when the GPU writes.  What the GPU holds goes back to its pool when the host writes.
 *
 * Of a GPU's bytes the host can have a part as a copy (far_part, far_here), which leaves it as it is.  Asking takes as long as copying some
 * bytes more, so parts are brought until they have cost what all would have: then all are brought, and whoever reads element by element
 * pays twice that at most.
 *
 * A flag away from 0 is looked at by every access on the host, in any thread; it is changed under the GPUs' lock, and the bytes
 * are there before the flag says so.
 */
#include "runtime/storage.h"

#include "runtime/gpu_device.h"
#include "runtime/mesh.h"

#include <string.h>

static void set_away(Storage *s, int away) { __atomic_store_n(&s->away, (uint8_t)away, __ATOMIC_RELEASE); }

static void leave_gpu(Storage *s)
{
    if (s->remote)
        gpu_free(gpu_of(s->gpu), s->remote);
    s->remote = 0;
    s->valid = false;
}

static void far_leave(Storage *s)
{
    gpu_lock();
    leave_gpu(s);
    s->blank = false;
    set_away(s, 0);
    gpu_unlock();
}

GpuDevice *device_gpu(int device) { return device_is_far(device) ? gpu_device(device - 1) : NULL; }
/* The GPU of the driver's that it is to live on, started; NULL: none (or a fault). */
static GpuDevice *storage_gpu(const Storage *s) { return device_gpu((int)s->device); }

/* ---- to the host ---- */

static void bring(Storage *s)
{
    storage_room(s);
    if (s->blank) {
        memset(s->data, 0, s->nbytes);
        s->blank = false;
    }
    if (s->valid && !gpu_download(gpu_of(s->gpu), s->data, s->remote, s->nbytes)) {
        memset(s->data, 0, s->nbytes);
        leave_gpu(s);
    }
}

static void far_bring(Storage *s, bool write)
{
    gpu_lock();
    if (s->away & AWAY_READ)
        bring(s);
    if (write)
        leave_gpu(s);
    set_away(s, s->valid ? AWAY_WRITE : 0);
    gpu_unlock();
}

/* As on the host's asking, but for all of it: the GPU's room is free. */
void storage_off_device(Storage *s)
{
    gpu_lock();
    if (s->away & AWAY_READ)
        bring(s);
    leave_gpu(s);
    set_away(s, 0);
    gpu_unlock();
}

bool storage_shift(Storage *s, GpuDevice *g, uint64_t to)
{
    const GpuNotes *notes;
    bool ok;

    gpu_lock();
    notes = gpu_notes;
    gpu_notes = NULL;                                   /* a run that is put down need not do this again */
    ok = !s->valid || gpu_copy(g, to, g, s->remote, s->nbytes);
    gpu_notes = notes;
    if (ok) {
        s->remote = to;
        gpu_own(g, to, s);
    }
    gpu_unlock();
    return ok;
}

/* ---- a part of it to the host ---- */

enum { ASKING = 256 << 10 };            /* bytes that could be copied while one waits for an answer */

static bool is_worth_it(Storage *s, size_t n)
{
    size_t cost = s->seen + n + ASKING;

    if (cost > s->nbytes || (!s->valid && !s->blank))
        return false;
    s->seen = cost;
    return true;
}

static bool far_part(Storage *s, size_t at, void *to, size_t n)
{
    bool done;

    gpu_lock();
    done = s->away & AWAY_READ && is_worth_it(s, n);
    if (done && s->blank)
        memset(to, 0, n);
    else if (done && !gpu_download(gpu_of(s->gpu), to, s->remote + at, n))
        memset(to, 0, n);
    gpu_unlock();
    return done;
}

static Tensor *far_here(Tensor *t)
{
    bool worth, blank = t->store->blank;
    Tensor *c;
    int was;

    gpu_lock();
    worth = (t->contiguous || storage_gpu(t->store)) && is_worth_it(t->store, tensor_nbytes(t));
    gpu_unlock();
    if (!worth)
        return tensor_ref(t);
    was = device_enter(0);
    if (blank) {
        c = tensor_zeros((DType)t->dtype, t->rank, t->shape);
    } else {
        c = tensor_contiguous(t);
        if (c && !tensor_on(&c, 0)) {
            tensor_unref(c);
            c = NULL;
        }
    }
    device_enter(was);
    return c;
}

/* ---- to a GPU ---- */

/* Room on this GPU and on no other; what another has comes along. */
static bool take_room(Storage *s, GpuDevice *g)
{
    CUdeviceptr at;

    if (s->remote && s->gpu == g->index)
        return true;
    if (!(at = gpu_alloc(g, s->nbytes)))
        return false;
    if (s->valid) {
        GpuDevice *from = gpu_of(s->gpu);
        if (!gpu_copy(g, at, from, s->remote, s->nbytes)) {
            gpu_free(g, at);
            return false;
        }
        gpu_free(from, s->remote);
    } else {
        leave_gpu(s);
        if (storage_filled() >= 0 && !gpu_fill(g, at, storage_filled(), s->nbytes)) {
            gpu_free(g, at);
            return false;
        }
    }
    s->remote = at;
    s->gpu = (int16_t)g->index;
    gpu_own(g, at, s);
    return true;
}

static bool send(Storage *s, GpuDevice *g, StorageUse use)
{
    if (!take_room(s, g))
        return false;
    if (gpu_notes)
        gpu_notes->room(g, s, use != DEVICE_READ);
    if (s->blank && use != DEVICE_FILL && !gpu_fill(g, s->remote, 0, s->nbytes))
        return false;
    s->blank = false;
    if (s->valid || use == DEVICE_FILL || s->away & AWAY_READ)
        return true;
    if (gpu_notes)
        gpu_notes->sent(s);
    if (gpu_upload(g, s->remote, s->data, s->nbytes))
        return true;
    leave_gpu(s);
    return false;
}

uint64_t storage_on_device(Storage *s, GpuDevice *g, StorageUse use)
{
    uint64_t at = 0;

    gpu_lock();
    if (send(s, g, use)) {
        at = s->remote;
        s->valid = true;
        s->used = storage_op;
        if (use == DEVICE_READ) {
            set_away(s, s->away | AWAY_WRITE);
        } else {
            set_away(s, AWAY_READ | AWAY_WRITE);
            storage_unroom(s);
            s->seen = 0;
        }
    }
    gpu_unlock();
    return at;
}

/* One of a GPU: zeros when somebody asks for them. */
static void far_zero(Storage *s)
{
    gpu_lock();
    if (storage_gpu(s)) {
        s->valid = false;
        s->blank = true;
        set_away(s, AWAY_READ | AWAY_WRITE);
        storage_unroom(s);
    }
    gpu_unlock();
    if (!s->blank && s->nbytes)
        memset(storage_data(s), 0, s->nbytes);
}

/* ---- from one to another ---- */

/* To a storage of a GPU, from wherever the bytes are. */
static bool copy_to_gpu(Storage *dst, size_t at, Storage *src, size_t from, size_t n)
{
    GpuDevice *g = storage_gpu(dst);
    uint64_t to;

    if (g && src->blank && n == dst->nbytes) {
        far_zero(dst);
        return true;
    }
    to = g ? storage_on_device(dst, g, n == dst->nbytes ? DEVICE_FILL : DEVICE_UPDATE) : 0;
    if (!to)
        return false;
    if (gpu_notes && src->valid)
        gpu_notes->room(gpu_of(src->gpu), src, false);
    else if (gpu_notes && !src->blank)
        gpu_notes->sent(dst);
    if (src->blank)
        return gpu_fill(g, to + at, 0, n);
    return src->valid ? gpu_copy(g, to + at, gpu_of(src->gpu), src->remote + from, n) : gpu_upload(g, to + at, storage_read(src) + from, n);
}

static bool far_copy(Storage *dst, size_t at, Storage *src, size_t from, size_t n)
{
    bool done = false;

    gpu_lock();
    if (device_is_far((int)dst->device))
        done = copy_to_gpu(dst, at, src, from, n);
    else if (src->valid && src->away & AWAY_READ && dst->away == 0)
        done = gpu_download(gpu_of(src->gpu), (char *)dst->data + at, src->remote + from, n);
    gpu_unlock();
    return done;
}

static void far_place(Storage *s, uint32_t device)
{
    gpu_lock();
    if ((s->remote && (uint32_t)s->gpu + 1 != device) || !device_is_far((int)device))
        far_bring(s, true);
    s->device = device;
    gpu_unlock();
}

static bool far_fits(int device, size_t bytes)
{
    const GpuDevice *g = gpu_look(device - 1);

    return (g && bytes <= g->memory) ||
           fault(FAULT_MEMORY, "E0744: a tensor of %.1f GB is larger than the memory of gpu:%d, which has %.1f GB", (double)bytes / (1 << 30),
                 device - 1, (double)(g ? g->memory : 0) / (1 << 30));
}

static const StorageFar far = {gpu_count, far_fits, far_bring, far_leave, far_zero, far_copy, far_place, far_part, far_here};

void gpus_offer(void) { storage_far = &far; }
