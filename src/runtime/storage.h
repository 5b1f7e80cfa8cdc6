/*
 * storage.h - where tensor elements live.
 *
 * Blocks are counted, 64-byte aligned and come in size classes; freed ones are
 * kept for the next request of their class, because programs ask for the same
 * few sizes again and again.  Only the main thread makes and frees storage.
 */
#ifndef TSR_RUNTIME_STORAGE_H
#define TSR_RUNTIME_STORAGE_H

#include "runtime/tensor.h"

Storage *storage_new(size_t nbytes);            /* one reference; NULL: no memory */
Storage *storage_ref(Storage *s);
void storage_unref(Storage *s);
void storage_trim(void);                        /* give kept blocks back to the system */
/* Told of each block that is taken (made) and given back; NULL: nobody asks. */
extern void (*storage_noted)(const Storage *s, bool made);
void storage_fill(int byte);                            /* new blocks hold this byte everywhere, which no result may show; -1: whatever there is */
size_t storage_live_bytes(void);                /* in use now, without kept blocks */
size_t storage_peak_bytes(void);                /* the most there were in use since the start, or the last reset */
void storage_reset_peak(void);
void storage_raise_peak(size_t former);         /* after a reset of one's own: the peak is at least what it was */
void storage_limit(size_t bytes);               /* more than this in use is as if there were no memory; 0: no limit */
uint64_t storage_made_bytes(void);              /* all that were ever asked for */

#endif
