/*
 * shard.h - tensors laid out over a mesh, seen as a whole.
 *
 * A distributed tensor is a tensor like others: its shape and dtype are those
 * of the whole, and every op and transformation takes it.  Its tracer belongs to the one SHARD
 * level, below all others, and holds each rank's local part.  An op on such
 * tensors becomes the op on the parts where a rule of shard_rules.c says how,
 * with what has to be communicated before; otherwise its operands are gathered.
 * So a program means the same on one device and on many.
 *
 * Layout goes by axis: axis d of the tensor, counted from the end, is cut by
 * the mesh axes in cut[d] (a mask, first axis slowest) into equal parts.  Over
 * the mesh axes in `partial` the parts are addends that nobody has added yet.
 * Ranks that differ in no other axis hold one and the same Tensor.
 */
#ifndef TSR_IR_SHARD_H
#define TSR_IR_SHARD_H

#include "ir/graph/collective.h"

typedef struct Placement {
    const Mesh *mesh;
    uint16_t cut[RANK_MAX];     /* cut[0]: the last axis */
    uint16_t partial;
} Placement;

typedef struct Shards {
    Placement at;
    Tensor *whole;              /* gathered for somebody who looked; NULL */
    Tensor *local[];            /* by rank */
} Shards;

/* NULL: the tensor is not distributed (or is followed by another level). */
Shards *shards_of(const Tensor *t);
void shards_free(Shards *s);
/* The tensor whose parts these are; takes new references. */
Tensor *shards_tensor(const Placement *at, const TType *whole, Tensor *const *local);
/* The whole tensor, borrowed; NULL: T has the error. T NULL: nobody asks why. */
Tensor *shards_whole(Trace *T, Tensor *t);
/* "shard(dim=0)", "replicate", "partial(sum)", with mesh axes where there are several: "shard(dim=0, axis=dp)". */
void placement_print(const Placement *p, int rank, StrBuf *out);

/* The op as the SHARD level runs it. */
LevelApply apply_shard;
/* OP_place where it runs. */
bool run_place(Trace *T, const Attr *a, Tensor *x, Tensor **out);

/* How one op goes over the parts. Rules get x, y, and `in` as the operands lie; they say how they must lie. */
typedef struct ShardPlan {
    OpId op;
    const Attr *a;
    const Mesh *mesh;
    const TType *x, *y;         /* of the whole */
    int nin, nout;
    bool exact;                 /* no sum may be cut: its order of addition would change */
    Placement *in;
    Placement out[4];
    Attr local;                 /* the attributes for the parts */
    uint16_t extreme;           /* mesh axes over which results are still to be compared: max, min, any, all */
    bool smallest;
    StrBuf *err;                /* why the layouts do not go together */
} ShardPlan;
/* false: err says why, or is empty: there is no way but to gather. */
bool shard_plan(ShardPlan *p);

#endif
