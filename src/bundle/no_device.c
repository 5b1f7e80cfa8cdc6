/* The runtime part of bundles without code for GPUs: of devices it knows the CPU. */
#include "bundle/bundle.h"

#include <string.h>

int bundle_use_device(struct tsr_bundle *b, const BundleFiles *files, const char *name, StrBuf *err)
{
    if (!strcmp(name, "cpu"))
        return TSR_OK;
    sb_printf(err, "this library has no part for GPUs, so there is no device '%.40s': build the bundle with --gpu=sm_80,sm_90a", name);
    return TSR_NO_CODE;
}

int bundle_wait(struct tsr_bundle *b, StrBuf *err) { return TSR_OK; }
void bundle_leave_device(struct tsr_bundle *b) {}
