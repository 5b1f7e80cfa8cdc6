/*
 * far_moves.h - what kernels of the host (move.c, index.c, elem.c, scan.c, sort.c) have a GPU do: moves from place to place, scans, sorts, searches.
 *
 * Those kernels find out what goes where; where the elements go to a storage of a GPU of the driver's, these move them there.
 * Each gives false where it does not: the host moves them then.  A fault (cuda.h) counts as done.
 */
#ifndef TSR_RUNTIME_FAR_MOVES_H
#define TSR_RUNTIME_FAR_MOVES_H

#include "base/source.h"
#include "ir/core/op.h"
#include "runtime/mesh.h"

/* Elements of a tensor: rank axes of these strides from an offset in its storage. */
typedef struct FarPlace { const Tensor *t; const int64_t *stride; int64_t offset; } FarPlace;

/* Where blocks begin in a storage: in the host's memory, or (there, int64 too) on the GPU, where some may be outside: those are no place. */
typedef struct FarPoints { const int64_t *at; Tensor *there; int64_t count, block; } FarPoints;

typedef struct FarMoves {
    /* `size` elements of `from` to `to`, of the same dtype. */
    bool (*box)(FarPlace to, FarPlace from, int rank, const int64_t *size);
    /*
     * The points of an op's index operands in target's storage, found on its GPU: int64, row-major over `shape`, of `rank` axes (indices.h).  While a
     * recording is written, an index that is out of range is told when the host waits (gpu_report.h).  NULL: the host finds them, and what is wrong.
     */
    Tensor *(*places)(const Attr *a, Tensor *const *index, const Tensor *target, int rank, const int64_t *shape);
    /* Block i of the row-major `to` is the elements of x's storage from point i on, zeros where that is no place. */
    bool (*gather)(const Tensor *to, const Tensor *x, const FarPoints *p);
    /*
     * Block i of `values`, row-major, goes to to's storage from point i on; the last one of equal places wins (index_put).
     * index_add: it is added there in order, in to's accumulator, which is rounded once.
     */
    bool (*scatter)(OpId op, const Tensor *to, const Tensor *values, const FarPoints *p);
    /* y, row-major and of x's shape, is x's running combination along an axis by `step`, in the order of scan.c. */
    bool (*scan)(OpId step, DType accum, Tensor *y, Tensor *x, int axis, bool reverse);
    /* x sorted along its last axis, or the int32 places that its elements come from: a new tensor of the GPU's. NULL: the host does it. */
    Tensor *(*sort)(Tensor *x, bool descending, bool places);
    /* The places of the first k alone. NULL: likewise, or by sorting all of them. */
    Tensor *(*first)(Tensor *x, bool descending, int64_t k);
    /* The places of x's true elements: int32 [count, rank]. NULL: likewise. */
    Tensor *(*nonzero)(Tensor *x);
    /* Row-major y is where v's elements, as dtype `as`, would go in x, which is sorted along its last axis (sort.c). */
    bool (*search)(const Tensor *y, Tensor *x, Tensor *v, DType as, bool right);
    /* Ask for all lines that x's elements lie in, into the cache that the GPU's processors share. */
    bool (*prefetch)(const Tensor *x);
} FarMoves;
extern const FarMoves *far_moves;       /* NULL: nobody offered */
extern Span far_moves_where;            /* the line of the op that asks */

static inline const FarMoves *far_moves_of(const Tensor *to)
{
    return __builtin_expect(devices_used, 0) && to->store && device_is_far((int)to->store->device) ? far_moves : NULL;
}

#endif
