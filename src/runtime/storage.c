/*
 * Storage blocks: header and elements in one allocation, the header in the 64
 * bytes before the data.  Classes are four to a power of two, so at most a
 * quarter is wasted.
 *
 * Freed blocks are kept, because fresh memory costs more than most operations
 * on it: its pages are cleared as they are first touched.  What is kept and in
 * use together stays below the most that ever was in use, and a quarter, which
 * blocks of a training step's sizes need to be there again in the next one;
 * where a block of another size is needed, kept ones make room for it.  Under AddressSanitizer nothing is
 * kept, so that it sees every use after free.
 */
#include "runtime/storage.h"

#include "base/alloc.h"
#include "runtime/blocks.h"
#include "runtime/mesh.h"

#include <string.h>
#include <sys/mman.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KEEP_NOTHING 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define KEEP_NOTHING 1
#endif
#ifndef KEEP_NOTHING
#define KEEP_NOTHING 0
#endif

enum { HEADER = 64, NCLASS = 160, SLACK = 64 << 20 };
enum { PAGE = 4096, LAZY = 1 << 28 };    /* zeros of so many bytes are those that the system gives to whoever touches them */
_Static_assert(sizeof(Storage) <= HEADER, "the header fits before the data");

static Storage *kept[NCLASS];           /* free blocks of a class, linked through data */
static size_t kept_bytes, live_bytes, peak_bytes, limit_bytes;
static size_t most_bytes;               /* the most that were ever in use */
static size_t apart_bytes;              /* host memory of storage of GPUs; under their lock */
static uint64_t made_bytes;
static int filled = -1;                 /* the byte that new blocks are filled with; -1: they are as they come */

/* Smallest class of at least n bytes, and its size. */
static int class_of(size_t n, size_t *size)
{
    if (n <= 64) {
        *size = 64;
        return 0;
    }
    int p = 63 - __builtin_clzll(n - 1);            /* 2^p < n <= 2^(p+1) */
    size_t step = (size_t)1 << (p - 2);
    int q = (int)((n - 1 - ((size_t)1 << p)) / step);
    *size = ((size_t)1 << p) + (size_t)(q + 1) * step;
    return 1 + (p - 6) * 4 + q;
}

static size_t keep_limit(void) { return most_bytes + most_bytes / 4 + SLACK; }

static bool in_blocks(size_t size) { return !KEEP_NOTHING && block_serves(size + HEADER); }

/* From the system, and back to it. */
static Storage *get(int c, size_t size)
{
    return in_blocks(size) ? block_take(c, size + HEADER) : tsr_try_alloc(size + HEADER, 64);
}

static void put(Storage *s, int c, size_t size)
{
    if (in_blocks(size))
        block_leave(s, c, size + HEADER);
    else
        tsr_free_aligned(s);
}

static void storage_keep(Storage *s)
{
    size_t size;
    int c = class_of(s->nbytes, &size);

    if (KEEP_NOTHING || c >= NCLASS || live_bytes + kept_bytes + size > keep_limit()) {
        put(s, c, size);
        return;
    }
    s->data = kept[c];
    kept[c] = s;
    kept_bytes += size;
}

static void drop_kept(int c)
{
    Storage *s = kept[c];
    size_t size;

    class_of(s->nbytes, &size);
    kept[c] = s->data;
    kept_bytes -= size;
    put(s, c, size);
}

void (*storage_noted)(const Storage *s, bool made);
StoragePool *storage_pool;

/* What is on a GPU goes back there, what is from a pool to that; of memory apart only the header, as a block of the least size, is kept. */
static void leave(Storage *s)
{
    size_t n = s->nbytes;

    if (s->remote)
        storage_far->leave(s);
    if (!s->apart)
        live_bytes -= n;
    if (s->pool)
        s->pool->give(s->pool, s->apart ? NULL : s->data, n);
    if (s->apart)
        storage_unroom(s);
    if (s->apart || s->pool)
        s->nbytes = 0;
}

static void storage_free(Storage *s)
{
    if (storage_noted)
        storage_noted(s, false);
    if (__builtin_expect(s->apart || s->remote || s->pool, 0))
        leave(s);
    else
        live_bytes -= s->nbytes;
    storage_keep(s);
}

/* Kept blocks go, the largest first, until `size` more bytes are within the limit. */
static void make_room(size_t size)
{
    for (int c = NCLASS - 1; c >= 0 && kept_bytes; c--)
        while (kept[c] && live_bytes + kept_bytes + size > keep_limit())
            drop_kept(c);
}

static void storage_trim(void);

/* A block of at least so many bytes, as it comes; NULL: no memory. */
static Storage *take(size_t nbytes)
{
    size_t size;
    int c = class_of(nbytes, &size);
    Storage *s = c < NCLASS ? kept[c] : NULL;

    if (s) {
        kept[c] = s->data;
        kept_bytes -= size;
        return s;
    }
    make_room(size);
    if (!(s = get(c, size))) {
        storage_trim();
        s = get(c, size);
    }
    return s;
}

static Storage *made(Storage *s)
{
    made_bytes += s->nbytes;
    if (storage_noted)
        storage_noted(s, true);
    return s;
}

/* A header alone: the elements get memory where they are first asked for. */
static Storage *new_far(size_t nbytes)
{
    Storage *s = !storage_far->fits(device_now, nbytes) || (storage_pool && !storage_pool->take(storage_pool, nbytes, true)) ? NULL : take(0);

    if (!s)
        return NULL;
    *s = (Storage){.refs = 1, .device = (uint32_t)device_now, .nbytes = nbytes, .away = AWAY_READ | AWAY_WRITE, .apart = true, .pool = storage_pool};
    return made(s);
}

/* A header and elements from the pool. */
static Storage *new_pooled(size_t nbytes)
{
    void *at = storage_pool->take(storage_pool, nbytes, false);
    Storage *s = at ? take(0) : NULL;

    if (!s) {
        if (at)
            storage_pool->give(storage_pool, at, nbytes);
        return NULL;
    }
    *s = (Storage){.data = at, .pool = storage_pool};
    return s;
}

Storage *storage_new(size_t nbytes)
{
    Storage *s;

    if (__builtin_expect(device_now != 0, 0) && device_is_far(device_now))
        return new_far(nbytes);
    if (nbytes > PTRDIFF_MAX / 2 || (limit_bytes && live_bytes + nbytes > limit_bytes))
        return NULL;
    if (!(s = storage_pool ? new_pooled(nbytes) : take(nbytes)))
        return NULL;
    *s = (Storage){.refs = 1, .device = (uint32_t)device_now, .nbytes = nbytes, .data = storage_pool ? s->data : (char *)s + HEADER,
                   .pool = storage_pool};
    if (filled >= 0)
        memset(s->data, filled, nbytes);
    live_bytes += nbytes;
    peak_bytes = live_bytes > peak_bytes ? live_bytes : peak_bytes;
    most_bytes = live_bytes > most_bytes ? live_bytes : most_bytes;
    return made(s);
}

Storage *storage_ref(Storage *s)
{
    s->refs++;
    return s;
}

void storage_unref(Storage *s)
{
    if (s && !--s->refs)
        storage_free(s);
}

/* Give kept blocks back to the system. */
static void storage_trim(void)
{
    for (int c = 0; c < NCLASS; c++)
        while (kept[c])
            drop_kept(c);
}

void storage_fill(int byte) { filled = byte; }

int storage_filled(void) { return filled; }

size_t storage_live_bytes(void) { return live_bytes + apart_bytes; }
size_t storage_peak_bytes(void) { return peak_bytes; }
void storage_reset_peak(void) { peak_bytes = live_bytes; }
void storage_raise_peak(size_t former) { peak_bytes = former > peak_bytes ? former : peak_bytes; }
void storage_limit(size_t bytes) { limit_bytes = bytes; }
uint64_t storage_made_bytes(void) { return made_bytes; }

/* ---- on a GPU ---- */

const StorageFar *storage_far;
uint64_t storage_op;

void storage_bring(Storage *s, bool write) { storage_far->bring(s, write); }

void storage_zero(Storage *s)
{
    uintptr_t from = ((uintptr_t)s->data + PAGE - 1) / PAGE * PAGE, to = ((uintptr_t)s->data + s->nbytes) / PAGE * PAGE;

    if (s->away)
        storage_far->zero(s);
    else if (s->nbytes < LAZY || madvise((void *)from, to - from, MADV_DONTNEED) != 0)
        memset(s->data, 0, s->nbytes);
    else {
        memset(s->data, 0, from - (uintptr_t)s->data);
        memset((void *)to, 0, (uintptr_t)s->data + s->nbytes - to);
    }
}

bool storage_copy_far(Storage *dst, size_t at, Storage *src, size_t from, size_t n) { return storage_far->copy(dst, at, src, from, n); }

void storage_place(Storage *s, uint32_t device)
{
    if (s->apart || s->remote)
        storage_far->place(s, device);
    else
        s->device = device;
}

void storage_room(Storage *s)
{
    if (s->data)
        return;
    if (!(s->data = tsr_try_alloc(s->nbytes ? s->nbytes : 1, 64))) {
        storage_trim();
        if (!(s->data = tsr_try_alloc(s->nbytes ? s->nbytes : 1, 64)))
            tsr_out_of_memory();
    }
    if (filled >= 0)
        memset(s->data, filled, s->nbytes);
    apart_bytes += s->nbytes;
}

void storage_unroom(Storage *s)
{
    if (!s->apart || !s->data)
        return;
    tsr_free_aligned(s->data);
    s->data = NULL;
    apart_bytes -= s->nbytes;
}
