/*
 * A GPU that is none: what asks for kernels there goes all its ways, and nothing is computed.
 */
#include "ir/schedule/far.h"

#include "runtime/gpu_device.h"
#include "runtime/storage.h"

#include <string.h>

bool far_pretends;
int far_made_for = -1;
_Alignas(512) char far_pretended[512];

static int launch(void *code, const TileKernel *k, int device, const int64_t *sizes, const TileArg *args, Span where) { return 1; }

/* ---- code that does nothing ---- */

static void nothing(const int64_t *size, const TileArg *arg, char *scratch, int64_t lo, int64_t hi) {}
static KernelFn *entry(const void *code) { return nothing; }
static int64_t scratch(const void *code, const int64_t *size) { return 0; }
static uint32_t users(const void *code) { return 1; }
static void drop(void *code) {}

KernelCompiler far_notes(void *(*take)(const TileKernel *k, StrBuf *err))
{
    return (KernelCompiler){take, entry, scratch, users, drop, .idle = true};
}

/* ---- storage without memory: who reads on the host finds zeros, but what is on a GPU that is one stays there ---- */

static const StorageFar *beneath;       /* in force otherwise */

static int one(void) { return 1; }
static bool fits(int device, size_t bytes) { return true; }
static bool is_real(const Storage *s) { return s->remote || s->blank; }

static void bring(Storage *s, bool write)
{
    if (is_real(s)) {
        beneath->bring(s, write);
        return;
    }
    storage_room(s);
    memset(s->data, 0, s->nbytes);
    s->away = 0;
}

static void leave(Storage *s)
{
    if (is_real(s))
        beneath->leave(s);
}

static void zero(Storage *s)
{
    if (is_real(s))
        beneath->zero(s);
    else if (s->data)
        memset(s->data, 0, s->nbytes);
}

static bool no_copy(Storage *dst, size_t at, Storage *src, size_t from, size_t n) { return false; }

static void place(Storage *s, uint32_t device)
{
    if (is_real(s))
        beneath->place(s, device);
    else
        s->device = device;
}

static bool no_part(Storage *s, size_t at, void *to, size_t n) { return false; }
static Tensor *all_of(Tensor *t) { return tensor_ref(t); }

static const StorageFar nowhere = {one, fits, bring, leave, zero, no_copy, place, no_part, all_of};

/* ---- in force, and not ---- */

int far_chip(int device)
{
    const GpuDevice *g = far_made_for < 0 ? gpu_look(device - 1) : NULL;

    return far_made_for >= 0 ? far_made_for : g ? g->sm : 0;
}

void far_pretend(const KernelCompiler *notes, int chip)
{
    far_begin(notes, launch);
    far_made_for = chip;
    beneath = storage_far == &nowhere ? beneath : storage_far;
    storage_far = &nowhere;
    far_pretends = true;
}

void far_go(FarWay w)
{
    far_begin(w.compiler, w.launch);
    storage_far = w.storage;
    far_pretends = w.pretends;
    far_made_for = w.made_for;
}
