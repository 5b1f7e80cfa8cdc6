/* verbs.h - what the driver does with bundles: build, run and inspect them. */
#ifndef TSR_TOOLS_BUNDLE_VERBS_H
#define TSR_TOOLS_BUNDLE_VERBS_H

#include "ir/tile/tile.h"
#include "tools/options.h"

/* The compiler: the object of a kernel for a CPU ("base", "v3", "v4"). Set by the driver. */
extern bool (*build_object)(const TileKernel *k, const char *cpu, StrBuf *object, StrBuf *err);

void bundles_begin(void);               /* programs may make and open bundles from now on: frontend/tensor/bundles.h */

bool is_bundle(const char *path);       /* a folder with a manifest */
int build_verb(const Options *o);
int bundle_run_verb(const Options *o);
int bundle_inspect_verb(const Options *o);

#endif
