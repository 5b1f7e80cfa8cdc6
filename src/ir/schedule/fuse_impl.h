/*
 * fuse_impl.h - what the files of `fuse` share: which nodes run as one (fuse.c), and the graph in which they do (fuse_write.c).
 */
#ifndef TSR_IR_FUSE_IMPL_H
#define TSR_IR_FUSE_IMPL_H

#include "ir/schedule/schedule.h"

#include "base/vec.h"

typedef struct Group {
    Vec(Node *) node;           /* in graph order; empty: it joined another */
    Node *product;              /* the matrix product that it begins with; NULL: none */
} Group;

typedef struct Fuser {
    Graph *g;
    Node **at;                  /* place in order -> node */
    int n;
    int *place;                 /* node id -> place in order */
    int *group;                 /* place -> group, -1: none */
    Group *groups;              /* by the place of its first node */
    int *slot, *order;          /* unit -> its slot in an order in which each comes after all that it uses; slot -> unit, -1: none */
    int *first_use;             /* place -> where its users begin in `user` */
    int *user;                  /* places of users */
    bool *result;               /* place -> is it a result of the graph? */
    int *mark, stamp, led;      /* place -> the search that was here; how many it marked that have a slot before the end */
    int *stack;                 /* of the search */
} Fuser;

/* Two groups, taken as one. */
typedef struct FuseUnion { const Fuser *f; int a, b; } FuseUnion;
bool fuse_seen_outside(void *st, const Node *n);        /* is the value seen outside the union st, itself or through moves inside it? */

/*
 * A few elements of something large that the graph computes, such as the logits of labels.  It stays a node of its own, which runs before whoever
 * else reads the table: so what is computed from it may take its place.
 */
bool fuse_is_pick(const Node *n);

/* The graph with a `fused` node for each group, whose body it is. */
Graph *fuse_write(Fuser *f);

#endif
