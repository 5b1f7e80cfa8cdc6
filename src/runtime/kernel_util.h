/* kernel_util.h - what kernels share: messages, results, attributes as numbers. */
#ifndef TSR_RUNTIME_KERNEL_UTIL_H
#define TSR_RUNTIME_KERNEL_UTIL_H

#include "runtime/kernels.h"
#include "runtime/reader.h"

#define KERNEL_ARGS KCtx *c, OpId op, const Attr *a, Tensor *const *in, int nin, const TType *type, Tensor **out

/* Say why, return s. */
KStatus k_fail(KCtx *c, KStatus s, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* A fresh tensor of a result type; NULL after saying that there is no memory. */
Tensor *k_result(KCtx *c, const TType *type);
/* A plain row of n bytes for the length of a kernel; NULL after saying that there is no memory. Free with tsr_free_aligned. */
void *k_scratch(KCtx *c, int64_t n, size_t size);
/* Should a long loop stop? */
bool k_stopped(KCtx *c);
int64_t dim_int(Dim d);                             /* a concrete size, which may be negative */
int axis_of(int axis, int rank);                    /* counted from the front */
bool is_reduced(const Attr *a, int rank, int axis); /* is this axis (from the front) among a's axes? */
Tensor *share(Tensor *t);                           /* a new header on the same elements */

#define FAMILY(f) KStatus f(KERNEL_ARGS);
FAMILY(kernel_map) FAMILY(kernel_reduce) FAMILY(kernel_arg) FAMILY(kernel_scan)
FAMILY(kernel_reshape) FAMILY(kernel_permute) FAMILY(kernel_broadcast) FAMILY(kernel_slice) FAMILY(kernel_pad)
FAMILY(kernel_flip) FAMILY(kernel_concat) FAMILY(kernel_window) FAMILY(kernel_unwindow)
FAMILY(kernel_constant) FAMILY(kernel_full) FAMILY(kernel_iota) FAMILY(kernel_dim_value)
#undef FAMILY

/* The MAP driver with the choice to write over operands in the mask `dying`. */
KStatus map_run(KERNEL_ARGS, uint32_t dying);

#endif
