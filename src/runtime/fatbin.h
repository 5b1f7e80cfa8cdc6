/*
 * fatbin.h - NVIDIA's fat binaries: code of one kernel for several chips in one file, as cuModuleLoadData and cuobjdump take it.
 *
 * A header, then entries, each a header and a payload whose size is a multiple of 8.  An entry is PTX (a text, with a 0 behind it) or a
 * cubin.  "sm_90a" is for that chip alone: such PTX, and such a cubin, do not run on later ones.  Nothing is compressed.
 */
#ifndef TSR_RUNTIME_FATBIN_H
#define TSR_RUNTIME_FATBIN_H

#include "base/strbuf.h"

#include <stdbool.h>

typedef enum { FATBIN_PTX = 1, FATBIN_CUBIN = 2 } FatbinKind;

typedef struct FatbinEntry {
    FatbinKind kind;
    int sm;                     /* 80; 0: an object for the driver of the tests */
    bool own;                   /* for that chip alone: sm_90a */
    const char *image;
    size_t n;                   /* of PTX: without the 0 */
} FatbinEntry;

/* "sm_90a", "sm_80". false: it is no such name. */
bool fatbin_chip(const char *name, size_t n, int *sm, bool *own);

void fatbin_begin(StrBuf *out);
void fatbin_add(StrBuf *out, const FatbinEntry *e);
void fatbin_end(StrBuf *out);           /* the header gets the size */

/* Is it one from end to end? Unknown kinds of entries are passed over. */
bool fatbin_check(const char *s, size_t n);
/* The i-th entry of one that fatbin_check took; false: there are no more. */
bool fatbin_entry(const char *s, size_t n, int i, FatbinEntry *out);

#endif
