/*
 * storage.h - where tensor elements live.
 *
 * Blocks are counted, 64-byte aligned and come in size classes; freed ones are
 * kept for the next request of their class, because programs ask for the same
 * few sizes again and again.  Only the main thread makes and frees storage.
 *
 * The elements of a storage are on the host, on a GPU of the driver's, or on both,
 * whichever was asked for last (tensor.h's `away`).  Nobody takes `data` from it but
 * storage_read and storage_data, which bring the elements to the host first where
 * they are not; storage_on_device is the same for a GPU.  So what has no kernel for
 * GPUs is right there too, on the host.  Where the elements go is a matter of `device`
 * for new storage and for nothing else: a host's tensor is lent to a GPU like any.
 * Bringing fails only with the device; the elements are then zeros and a fault is kept.
 */
#ifndef TSR_RUNTIME_STORAGE_H
#define TSR_RUNTIME_STORAGE_H

#include "runtime/tensor.h"

Storage *storage_new(size_t nbytes);            /* one reference; NULL: no memory */
Storage *storage_ref(Storage *s);
void storage_unref(Storage *s);
/* Told of each block that is taken (made) and given back; NULL: nobody asks. */
extern void (*storage_noted)(const Storage *s, bool made);
void storage_fill(int byte);                            /* new blocks hold this byte everywhere, which no result may show; -1: whatever there is */
size_t storage_live_bytes(void);                /* in use now, without kept blocks */
size_t storage_peak_bytes(void);                /* the most there were in use since the start, or the last reset */
void storage_reset_peak(void);
void storage_raise_peak(size_t former);         /* after a reset of one's own: the peak is at least what it was */
void storage_limit(size_t bytes);               /* more than this in use is as if there were no memory; 0: no limit */
uint64_t storage_made_bytes(void);              /* all that were ever asked for */

/*
 * Where new storage takes its elements from instead of the system (reserve.h); NULL: the system. far: those on a GPU, which has memory of its own for
 * them: they are only counted. take gives NULL where there is no room; give gets what it gave (far: NULL).
 */
typedef struct StoragePool {
    void *(*take)(struct StoragePool *p, size_t n, bool far);
    void (*give)(struct StoragePool *p, void *at, size_t n);
} StoragePool;
extern StoragePool *storage_pool;

/* ---- on a GPU ---- */

struct GpuDevice;

/* The op that runs, counted. Addresses on a GPU that were given since it began stay; what earlier ones used may have to make room. */
extern uint64_t storage_op;

/* READ: the bytes are read; UPDATE: and written; FILL: all of them are written and none is read, which spares a copy. */
typedef enum { DEVICE_READ, DEVICE_UPDATE, DEVICE_FILL } StorageUse;

/*
 * Where the bytes are on the GPU, which has them as they are after all that came before on its main stream; written ones make
 * the host's copy stale.  0: a fault is kept.  The address holds until the storage is next written on the host, used on
 * another GPU, freed, or until another op runs that needs room on the GPU.
 */
uint64_t storage_on_device(Storage *s, struct GpuDevice *g, StorageUse use);
void storage_off_device(Storage *s);                     /* its elements are on the host alone */
/* They are at `to`, room on the GPU where they are. false: a fault is kept. */
bool storage_shift(Storage *s, struct GpuDevice *g, uint64_t to);
void storage_zero(Storage *s);                  /* all bytes 0, where they live */
/* dst's n bytes from src's, without passing the host where they need not: false: this way is not open, nothing was done. */
bool storage_copy_far(Storage *dst, size_t at, Storage *src, size_t from, size_t n);
/* Move to where `device` (mesh.h) is; the bytes stay what they are. */
void storage_place(Storage *s, uint32_t device);

/*
 * What the GPUs' runtime does for storage. It is no part of a process that has not called gpus_offer, such as a bundle's: there are then no
 * GPUs but simulated ones.
 */
typedef struct StorageFar {
    int (*count)(void);                         /* how many GPUs the driver has */
    bool (*fits)(int device, size_t bytes);     /* has a device (mesh.h) so much in all? false: a fault is kept */
    void (*bring)(Storage *s, bool write);
    void (*leave)(Storage *s);                  /* one that dies: what it has on a GPU goes back */
    void (*zero)(Storage *s);
    bool (*copy)(Storage *dst, size_t at, Storage *src, size_t from, size_t n);
    void (*place)(Storage *s, uint32_t device);
    bool (*part)(Storage *s, size_t at, void *to, size_t n);        /* n bytes for the host; false: all of them are to be brought */
    Tensor *(*here)(Tensor *t);                                     /* tensor_here, of one whose storage has AWAY_READ */
} StorageFar;
extern const StorageFar *storage_far;           /* NULL: nobody offered */

/*
 * t, or where it is a part of what a GPU has, and bringing that part costs less, a copy of its elements on the host: to be read there. A new
 * reference; NULL: no memory, or a fault.
 */
static inline Tensor *tensor_here(Tensor *t)
{
    return t->store && t->store->away & AWAY_READ ? storage_far->here(t) : tensor_ref(t);
}

void gpus_offer(void);                          /* idempotent; opens nothing */

/* For these: memory on the host for a storage that has it apart, and none any more. */
void storage_room(Storage *s);
void storage_unroom(Storage *s);
int storage_filled(void);                       /* what storage_fill was told */

#endif
