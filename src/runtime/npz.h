/*
 * npz.h - several named .npy files in one zip archive, as numpy.savez writes.
 *
 * Reading accepts stored and deflated members and zip64; it refuses archives
 * that unpack to more than NPZ_RATIO times their size.
 */
#ifndef TSR_RUNTIME_NPZ_H
#define TSR_RUNTIME_NPZ_H

#include "base/strbuf.h"
#include "runtime/tensor.h"

enum { NPZ_COUNT_MAX = 65536, NPZ_RATIO = 1000 };

typedef struct NpzEntry { char *name; Tensor *t; } NpzEntry;
typedef struct Npz {
    NpzEntry *at;               /* in the order of the archive; names without ".npy" */
    int n, cap;
} Npz;

/* Parse a whole archive. false: err has one line (without the path), and *out is empty. */
bool npz_read(const void *data, size_t n, Npz *out, StrBuf *err);
/* Append an archive of stored members. false: err says which tensor cannot be held. */
bool npz_write(const NpzEntry *e, int n, StrBuf *out, StrBuf *err);
void npz_free(Npz *z);

#endif
