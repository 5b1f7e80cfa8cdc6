/*
 * kernels.h - the reference kernels behind the op table.
 *
 * One Kernel an op, found through kernel_of[].  Operands are concrete, of any
 * strides; broadcasting operands arrive as they are and the kernel (or the MAP
 * driver) stretches them.  `type` holds the nout inferred result types, all
 * sizes concrete.  A kernel makes its results (a view where OPF_VIEW allows).
 */
#ifndef TSR_RUNTIME_KERNELS_H
#define TSR_RUNTIME_KERNELS_H

#include "ir/core/op.h"
#include "runtime/tensor.h"

typedef enum { K_OK, K_NOMEM, K_INDEX, K_VALUE, K_ZERODIV, K_NUMERIC } KStatus;

typedef struct KCtx {
    StrBuf *err;                /* a line for the user when the status is not K_OK */
    bool (*poll)(void *st);     /* called now and then in long loops; false: stop with K_VALUE */
    void *poll_state;
    uint32_t dying;             /* set by kernel_run_dying */
    Tensor *slice;              /* where the result of a product had better lie; NULL: anywhere */
} KCtx;

typedef KStatus (*Kernel)(KCtx *c, OpId op, const Attr *a, Tensor *const *in, int nin, const TType *type, Tensor **out);
extern const Kernel kernel_of[OP_COUNT];    /* NULL for control flow, which the graph executor runs */

/*
 * Run an op. Operands are borrowed and never changed; out gets nout new references.
 * Results carry their type's policy. No kernel for the op is our mistake.
 */
KStatus kernel_run(KCtx *c, OpId op, const Attr *a, Tensor *const *in, int nin, const TType *type, Tensor **out);
/*
 * The same for a caller that gives up the operands in the mask `dying` (bit i: in[i] is not used again,
 * though still the caller's to unref): their memory may become the result's when nothing else refers to it.
 * With DYING_ROWS results lie as rows, which a plan of their memory counts on; elsewhere as is easiest.
 */
enum { DYING_MAX = 30, DYING_ROWS = 1 << 30 };
KStatus kernel_run_dying(KCtx *c, OpId op, const Attr *a, Tensor *const *in, int nin, const TType *type, Tensor **out,
                         uint32_t dying);

/*
 * An elementwise op on small concrete operands in the short way; attributes are the default.  NULL: the op, the
 * operands or the memory are not such that it applies, and kernel_run is to be asked.
 */
Tensor *kernel_map_small(OpId op, Tensor *const *in, int nin);

typedef enum { DIST_BITS, DIST_UNIFORM, DIST_NORMAL, DIST_BERNOULLI, DIST_RANDINT } Dist;      /* Attr.kind of OP_random */

/* Threads: results never depend on their number. */
void pool_init(int threads);                /* 0: TESSERA_THREADS, else the machine's cores */
int pool_threads(void);
void pool_for(int64_t n, int64_t grain, void (*fn)(int64_t lo, int64_t hi, void *st), void *st);
void pool_each(int64_t n, void (*fn)(int64_t lo, int64_t hi, void *st), void *st);      /* one at a time: they take long */

#endif
