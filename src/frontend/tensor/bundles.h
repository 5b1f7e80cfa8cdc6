/*
 * bundles.h - bundles as a running program makes and opens them.
 *
 * What bundles are is known to those who build and read them (tools/bundle, src/bundle); they put themselves here.
 * Every int is TSR_OK, 0, or the number of an error of tessera.h, with a line in *err.
 */
#ifndef TSR_FRONTEND_BUNDLES_H
#define TSR_FRONTEND_BUNDLES_H

#include "frontend/tensor/export.h"

typedef struct BundleTools {
    /* Make one of these functions, whose memory it takes. facts: members of a JSON object that its manifest gets, or NULL. */
    bool (*save)(Interp *I, const char *folder, Exports *x, const char *facts, StrBuf *err);
    int (*open)(const char *folder, void **out, StrBuf *err);
    void (*close)(void *bundle);
    const char *(*manifest)(void *bundle);              /* JSON text */
    int (*count)(void *bundle, const char *function);   /* of its results; -1: there is no such function */
    int (*call)(void *bundle, const char *function, Tensor *const *in, int nin, Tensor **out, int nout, StrBuf *err);
} BundleTools;

extern const BundleTools *bundle_tools;                 /* NULL: this build has no compiler */

#endif
