/*
 * region.h - regions of the Schedule IR: nodes of a graph that share one
 * iteration space, and how each of their values lies in it.
 *
 * A region's axes are found, not given: every axis of every value is a
 * variable, each op says which of them go together (elementwise ops align
 * operands from the last axis, a reduction keeps all but its axes, a
 * permutation reorders them, broadcasting adds some), and what comes out as one
 * class is one axis of the region.  So permutations, broadcasts and added or
 * dropped axes of one element cost nothing: they are in the access maps.
 *
 * A region may reduce, over one set of its axes: then a value is of an element
 * or of a row (it lacks those axes), and rows are gone over several times when
 * a reduction's result is used on the elements again, as in softmax.
 */
#ifndef TSR_IR_REGION_H
#define TSR_IR_REGION_H

#include "ir/graph/graph.h"

enum { REGION_AXES = 16, REGION_VALUES = 160, REGION_OPERANDS = 24, REGION_COUNTERS = 4 };

typedef struct RegionValue {
    const Node *node;
    int8_t axis[REGION_AXES];   /* of each axis of the value: the region's axis; -1: it has one element */
    uint16_t has;               /* which of the region's axes, as bits */
    int8_t pass;                /* the time a row is gone over when it is first known; of a row's values: before that time */
    bool inside;                /* computed by the region; else it comes from outside */
    bool out;                   /* used outside */
    bool key;                   /* keys of random numbers, which come from outside: pairs of words, each pair one element */
    uint8_t lead;               /* of a table that `index` looks up in, from outside: its first axes, which are none of the region's; 0: it is none */
    int8_t counter;             /* of a value that its elements' numbers give (`iota`, `random`): which of the region's; -1: none */
} RegionValue;

/* A number that each element of the region has: its place in row-major order along these axes. */
typedef struct RegionCounter { int8_t n, axis[REGION_AXES]; } RegionCounter;

typedef struct Region {
    int naxes, nkept;           /* the axes that are reduced come last, in row-major order */
    Dim size[REGION_AXES];
    int ncounters;
    RegionCounter counter[REGION_COUNTERS];
    int nvalues;
    RegionValue value[REGION_VALUES];
    int npasses;                /* 1: without a reduction */
} Region;

/*
 * What a region may hold: elementwise ops, sums and extremes, moves that only rename axes, what follows from elements' numbers, and
 * what `index` looks up in a table from outside, by numbers from outside.
 */
bool region_takes(const Node *n);
/* The region looks it up; a kernel alone does nothing else, so by itself it is better left to the reference kernel. */
bool region_looks_up(const Node *n);
static inline int index_rest(const Node *n) { return gvalue_type(n->in[0])->rank - n->attr->m - n->attr->n; }   /* axes that it does not look up */
/* Values that each region makes for itself: constants of one element, `full`. */
bool region_copies(const Node *n);
/* The node gives its operand's elements in another order or shape and computes nothing. */
bool region_moves(const Node *n);

/*
 * The region of n nodes that it may hold, in graph order; is_out says which are used outside.  false: they are none.
 * Values from outside follow the operands in order of use.
 */
bool region_of(Node *const *node, int n, bool (*is_out)(void *st, const Node *n), void *st, Region *out);
/* The region of a whole graph: the body of a `fused` node. */
bool region_of_body(const Graph *body, Region *out);
const RegionValue *region_value(const Region *r, const Node *n);    /* NULL: not one of its values */
static inline uint16_t region_all(const Region *r) { return (uint16_t)((1u << r->naxes) - 1); }
static inline uint16_t region_kept(const Region *r) { return (uint16_t)((1u << r->nkept) - 1); }
static inline bool region_is_row(const Region *r, const RegionValue *v) { return !(v->has & ~region_kept(r)); }

#endif
