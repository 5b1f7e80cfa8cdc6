/*
 * reserve.h - memory that a program sets aside for tensors (tessera.memory.Pool).
 *
 * While storage_pool is a reserve's hook, new storage takes its elements from there.  What was taken stays there until its storage is
 * freed; the reserve lives as long as anyone has it or anything of it.
 */
#ifndef TSR_RUNTIME_RESERVE_H
#define TSR_RUNTIME_RESERVE_H

#include "runtime/storage.h"

typedef struct Reserve Reserve;

typedef struct ReserveFacts {
    size_t capacity, used, peak;        /* bytes */
    int64_t grows, defrags;
} ReserveFacts;

/* growth: what the size is multiplied by when it does not suffice; 1: never. One reference; NULL: no memory. */
Reserve *reserve_new(size_t size, double growth);
void reserve_unref(Reserve *r);                 /* NULL allowed */
StoragePool *reserve_hook(Reserve *r);          /* for storage_pool */
ReserveFacts reserve_facts(const Reserve *r);

#endif
