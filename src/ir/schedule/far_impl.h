/* far_impl.h - what the files that run work on GPUs share: kernels by what they are for, and words to build them with. */
#ifndef TSR_IR_FAR_IMPL_H
#define TSR_IR_FAR_IMPL_H

#include "ir/schedule/far.h"
#include "ir/schedule/schedule.h"
#include "ir/tile/build.h"
#include "runtime/tensor.h"

/* ---- far.c ---- */
extern FarLaunch *far_launcher;

/* The kernel of so many bytes of `what`, which build makes when they are first asked for. code NULL: it cannot be made. */
typedef struct FarKernel { TileKernel *tile; void *code; } FarKernel;
typedef bool FarBuild(TileBuilder *b, const void *what);
FarKernel *far_kernel_for(const void *what, size_t n, const char *name, FarBuild *build);

FarKernel *far_kernel(const char *text);                /* the same of a kernel's text */
FarKernel *far_kernel_of(const char *format, ...) __attribute__((format(printf, 1, 2)));
int far_launch(const FarKernel *f, int device, const int64_t *sizes, const TileArg *args);     /* as FarLaunch does */
uint64_t far_key(const void *what, size_t n);           /* of what a kernel is for, and of who makes its code */
FarKernel *far_known(uint64_t key);                     /* the kernel that was made under this key; NULL: none yet */
FarKernel *far_made(uint64_t key, TileKernel *tile);    /* tile, which is taken, folded and compiled under the key; NULL: it cannot be made */
FarKernel *far_read(uint64_t key, const char *text);     /* the same of a text, which is long to write for each call */

/* In a kernel's text, for lanes=256: %q is the lane's number in all groups. */
#define FAR_LANE \
    "  %%block: index = index {i=256}\n" \
    "  %%g: index = group {axis=0}\n" \
    "  %%g0: index = imul %%g, %%block\n" \
    "  %%lane: index = lane\n" \
    "  %%q: index = iadd %%g0, %%lane\n"

/*
 * A step of a search by halves, in a loop that carries %lo and %hi: %j is the place to look at, of %n; then, with %open, it is passed by (%up), or
 * the search ends there at the latest (%down).
 */
#define FAR_MIDDLE \
    "      %%open: bool[] = ilt %%lo, %%hi\n" \
    "      %%sum: index = iadd %%lo, %%hi\n" \
    "      %%mid: index = idiv %%sum, %%two\n" \
    "      %%last: index = isub %%n, %%one\n" \
    "      %%j: index = imin %%mid, %%last\n"
#define FAR_HALF \
    "      %%above: index = iadd %%mid, %%one\n" \
    "      %%lo1: index = if %%up {\n" \
    "        yield %%above\n" \
    "      } else {\n" \
    "        yield %%lo\n" \
    "      }\n" \
    "      %%hi1: index = if %%down {\n" \
    "        yield %%mid\n" \
    "      } else {\n" \
    "        yield %%hi\n" \
    "      }\n" \
    "      yield %%lo1, %%hi1\n" \
    "    }\n"

char *far_address(Tensor *t, int device, bool write, bool fresh);      /* as FusedFar has it */
char *far_element(Tensor *t, int device, int64_t at, bool write, bool fresh);   /* the same of an element of t's storage; NULL: a fault */

TileRef far_view(TileBuilder *b, const char *name, DType dt, int rank, const int8_t *stride);     /* a parameter; else as build.h */

struct Trace;
/* As trace_run_far, of an op that a body may be. */
int far_body(struct Trace *T, OpId op, const Attr *a, Tensor *const *in, int nin, const TType *y, Tensor **out);

/* ---- far_extreme.c ---- */
int far_reduce(struct Trace *T, OpId op, const Attr *a, Tensor *const *in, const TType *y, Tensor **out);        /* likewise */

/* ---- far_moves.c ---- */
struct FarMoves;
extern const struct FarMoves far_moves_made;
const char *far_bits(const Tensor *t);                  /* integers of as many bytes as an element has; NULL: there are none */
bool far_flat(const Tensor *t, int device, bool write, int64_t from, TileArg *arg);    /* elements of t's storage from one on; false: a fault */
int far_width(int64_t n, int most);                     /* the smallest power of two from 16 to `most` that is not below n */
Tensor *far_numbers(DType dt, const void *v, int64_t n);        /* n of the host's for a GPU. NULL: there is no memory */

/* ---- far_points.c ---- */
struct FarPoints;
Tensor *far_places(const Attr *a, Tensor *const *index, const Tensor *target, int rank, const int64_t *shape);         /* as FarMoves has them */
bool far_scatter(OpId op, const Tensor *to, const Tensor *values, const struct FarPoints *p);

/* ---- far_scan.c ---- */
bool far_scan(OpId step, DType accum, Tensor *y, Tensor *x, int axis, bool reverse);    /* as FarMoves has it */

/* ---- far_radix.c ---- */

/* The r rows of n elements of x, which are contiguous, in order, and their places. As far_launch's: 1, 0: it cannot, -1: a fault. */
int far_radix(Tensor *x, int64_t r, int64_t n, bool descending, Tensor *value, Tensor *place);

/* 32-bit keys of the r rows of n elements of x, which are contiguous: the smallest is the first. NULL: there are none, or no memory. */
Tensor *far_keys(Tensor *x, int64_t r, int64_t n, bool descending);
/* Of each run of `each` int32 what is before each of them, and what all come to; elements by place in rows of n. Both as far_launch. */
int far_sums(Tensor *from, Tensor *before, Tensor *totals, int64_t runs, int64_t each, int device);
int far_fetch(Tensor *x, Tensor *place, Tensor *y, int64_t r, int64_t n, int device);

/* ---- far_select.c ---- */
Tensor *far_first(Tensor *x, bool descending, int64_t k);      /* the places of the first k along the last axis. NULL: it is not done so */

/* ---- far_sort.c ---- */
Tensor *far_sort(Tensor *x, bool descending, bool places);      /* likewise */
bool far_sort_both(Tensor *x, bool descending, Tensor **value, Tensor **place);        /* both of them */

/* ---- far_find.c ---- */
Tensor *far_nonzero(Tensor *x);                         /* as FarMoves has them */
bool far_search(const Tensor *y, Tensor *x, Tensor *v, DType as, bool right);

/* ---- far_prefetch.c ---- */
bool far_prefetch(const Tensor *x);                      /* likewise */

/* ---- far_conv.c ---- */
int far_conv(struct Trace *T, const Attr *a, Tensor *const *in, const TType *y, Tensor **out);         /* as trace_run_far */

/* ---- far_random.c ---- */
int far_random(struct Trace *T, int device, const Attr *a, Tensor *key, const TType *y, Tensor **out);    /* likewise */

/* ---- far_product.c ---- */
/* What fast numerics leave to matrix units: which bits of the sums they keep, and that they take no more of f32 operands than tf32 has. */
enum { SLACK_SUMS = 1, SLACK_TF32 = 2 };
int product_slack(const Attr *a);                       /* of a product */
/* out = x @ y, summed in `accum` and then rounded to out's dtype. 0: it cannot; -1: a fault. */
int far_product(int device, Tensor *x, Tensor *y, Tensor *out, DType accum, int slack, Span where);
int product_rounds(Tensor *const *x, const Attr *a);    /* trace_rounds (ir/graph/trace.h) */

/* ---- far_parts.c ---- */
int far_join_parts(Tensor *parts, Tensor *sum, int device);     /* sum's elements, those of the parts added up, and rounded; as far_launch */

/* ---- far_blocks.c ---- */
struct Run;
int far_blocks(struct Run *u, const StrideClass *lies);         /* as FusedFar has it */

#endif
