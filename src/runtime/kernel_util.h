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
KStatus k_no_memory(KCtx *c, const TType *type);         /* K_NOMEM, said with shape and dtype */
/* A plain row of n bytes for the length of a kernel; NULL after saying that there is no memory. Free with tsr_free_aligned. */
void *k_scratch(KCtx *c, int64_t n, size_t size);
/* Should a long loop stop? */
bool k_stopped(KCtx *c);
int64_t dim_int(Dim d);                             /* a concrete size, which may be negative */
int axis_of(int axis, int rank);                    /* counted from the front */
bool is_reduced(const Attr *a, int rank, int axis); /* is this axis (from the front) among a's axes? */
/* The dtype in which two operands meet; a weak one (a Python scalar) adopts the other's as long as its kind can hold it. */
DType common_dtype(const Tensor *x, const Tensor *y);
/* The dtypes as which an elementwise op with a result of dtype `out` takes its operands. */
void map_operand_dtypes(OpId op, int nin, const DType *dtype, const bool *weak, DType out, DType *as);
/* Accumulator of sums and products of `in` that end as `out`: a's, else the default, at least as wide as both. */
DType accum_dtype(const Attr *a, DType in, DType out);
/* t's elements as lanes of dtype `as` (rounded to it first): t itself where it fits, else a row-major copy. NULL: no memory. */
Tensor *lanes_of(KCtx *c, Tensor *t, DType as);
Tensor *share(Tensor *t);                           /* a new header on the same elements */
/* Strides that show t's elements in row-major order under another shape; false: only a copy can. */
bool reshape_strides(const Tensor *t, int rank, const int64_t *shape, int64_t *stride);

/* Drivers of families, and a kernel for each op of the families without one. */
KStatus kernel_map(KERNEL_ARGS);
KStatus kernel_reduce(KERNEL_ARGS);
KStatus kernel_scan(KERNEL_ARGS);
#define DECLARE_MAP(n)
#define DECLARE_REDUCE(n)
#define DECLARE_SCAN(n)
#define DECLARE_CONTROL(n)
#define DECLARE_EFFECT(n)
#define DECLARE_COLLECTIVE(n)
#define DECLARE_MOVE(n) KStatus kernel_##n(KERNEL_ARGS);
#define DECLARE_CONTRACT DECLARE_MOVE
#define DECLARE_INDEX DECLARE_MOVE
#define DECLARE_SORT DECLARE_MOVE
#define DECLARE_RANDOM DECLARE_MOVE
#define DECLARE_LINALG DECLARE_MOVE
#define DECLARE_FFT DECLARE_MOVE
#define DECLARE_MAKE DECLARE_MOVE
#define OP(name, nin, nout, fam, ...) DECLARE_##fam(name)
#include "ir/core/ops.def"

#endif
