/*
 * count.h - how much work a launch of a kernel is, found without running it.
 *
 * Indices are followed as numbers and as steps from lane to lane, so the trips
 * of loops and the lanes that a guard lets through are known where they follow
 * from sizes.  Groups are alike or nearly so: the first, the middle and the last
 * one stand for all.  What depends on data is taken as if it were done once.
 */
#ifndef TSR_IR_TILE_COUNT_H
#define TSR_IR_TILE_COUNT_H

#include "ir/tile/tile.h"

/* How the lanes of a group, or the elements of a block, lie in memory. From the best to the worst. */
typedef enum { ACCESS_BROADCAST, ACCESS_COALESCED, ACCESS_STRIDED, ACCESS_RANDOM } TileAccess;
extern const char *const tile_access_names[];           /* "broadcast", "coalesced", "strided", "random" */

typedef struct TileCount {
    double groups;
    double flops;               /* arithmetic on floats: one for an element of a map or a sum; two for a step of a product, of ints too */
    double loaded, stored;      /* bytes that loads, copies, stores and atomics of global memory ask for */
    double local;               /* bytes to and from buffers */
    TileAccess access;          /* the worst of the accesses to global memory */
} TileCount;

/* What a node does with the memory of its first operand: called once for each access that the kernel's text has. */
typedef struct TileAccessSink { void (*see)(void *state, const TileNode *n, TileAccess a); void *state; } TileAccessSink;

/*
 * args has the extents of the parameters; their memory is not looked at. sink may be NULL.
 * false: the grid is too large to number.
 */
bool tile_count(const TileKernel *k, const int64_t *sizes, const TileArg *args, const TileAccessSink *sink, TileCount *out);

#endif
