/*
 * resources.h - what a group of a kernel takes of a multiprocessor: registers of each lane and shared memory, estimated from its code.
 */
#ifndef TSR_IR_TILE_RESOURCES_H
#define TSR_IR_TILE_RESOURCES_H

#include "ir/tile/tile.h"

typedef struct TileResources {
    int registers;              /* of 32 bits, of a lane */
    int64_t shared;             /* bytes of arrays that the kernel asks for */
    int64_t staged;             /* ... and of operands of products, which matrix units read from there */
} TileResources;

/*
 * Of a launch with these sizes and `lanes` lanes in a group.  Scalars and indices are in registers while they are alive, blocks are
 * spread over the lanes.  Constants and what is loaded for products alone take none.
 */
void tile_resources(const TileKernel *k, const int64_t *sizes, int lanes, TileResources *out);

#endif
