/*
 * gpu_report.h - what kernels find wrong with numbers that only they see, such as an index out of range.
 *
 * A kernel puts down, by an atomic minimum of int64, `place << 32 | number + 2^31`: the first place counts.  It goes on as if nothing were there.
 * The host looks whenever it has waited for the GPU, and raises then.
 */
#ifndef TSR_RUNTIME_GPU_REPORT_H
#define TSR_RUNTIME_GPU_REPORT_H

#include "runtime/gpu_device.h"

#define GPU_FINE INT64_MAX      /* nothing is wrong */

/* Numbers of this axis, by this line of the program. */
typedef struct GpuAsked { Span where; int axis; int64_t size; } GpuAsked;

int64_t *gpu_report(GpuDevice *g, GpuAsked of);         /* the word for it. NULL: there are none left, or a fault is kept */
int64_t *gpu_report_now(GpuDevice *g);                  /* a word for whoever waits for the GPU and looks himself, and makes it GPU_FINE again */
bool gpu_reports(const GpuDevice *g, const void *at);   /* is it the address of such a word? */
void gpu_reports_read(GpuDevice *g);                    /* the GPU was waited for: keep a fault of what was put down */

#endif
