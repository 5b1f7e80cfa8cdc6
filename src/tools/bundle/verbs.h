/* verbs.h - what the driver does with bundles: build, run and inspect them. */
#ifndef TSR_TOOLS_BUNDLE_VERBS_H
#define TSR_TOOLS_BUNDLE_VERBS_H

#include "ir/schedule/far_code.h"
#include "ir/tile/tile.h"
#include "tools/options.h"

/* The compiler: the object of a kernel for a CPU ("base", "v3", "v4"). Set by the driver. */
extern bool (*build_object)(const TileKernel *k, const char *cpu, StrBuf *object, StrBuf *err);

/* The same for GPUs, with what a launch has to know: PTX for "sm_80" or "sm_90a", an object for "sm_0", which is the driver of the tests. */
extern bool (*build_gpu_code)(const TileKernel *k, const char *machine, GpuFrame *frame, StrBuf *image, StrBuf *err);

void bundles_begin(void);               /* programs may make and open bundles from now on: frontend/tensor/bundles.h */

bool is_bundle(const char *path);       /* a folder with a manifest */
int build_verb(const Options *o);
int bundle_run_verb(const Options *o);
int bundle_inspect_verb(const Options *o);

#endif
