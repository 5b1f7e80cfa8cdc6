/*
 * memory.h - which memory a node reads and writes: bits, one for each buffer of the group and each parameter.
 */
#ifndef TSR_IR_TILE_MEMORY_H
#define TSR_IR_TILE_MEMORY_H

#include "ir/tile/tile.h"

typedef struct TileTouch { uint64_t read, written; } TileTouch;

typedef struct TileMemory {
    int8_t *bit;                /* by node id of parameters and allocs; -1: none, as of a lane's own memory */
    uint64_t written;           /* by any node of the kernel */
    uint64_t copied;            /* what asynchronous copies write */
} TileMemory;

/* false: there is more memory than bits. Done with tile_memory_done either way. */
bool tile_memory(const TileKernel *k, TileMemory *m);
void tile_memory_done(TileMemory *m);
/* The parameter or alloc that a view is a part of. */
const TileNode *tile_memory_of(TileRef view);
/* What the node itself touches, without its regions. A wait writes what copies bring. */
TileTouch tile_touch(const TileMemory *m, const TileNode *n);

static inline TileTouch touch_both(TileTouch a, TileTouch b) { return (TileTouch){a.read | b.read, a.written | b.written}; }
static inline bool touch_clash(TileTouch a, TileTouch b) { return (a.written & (b.read | b.written)) || (a.read & b.written); }
static inline bool touch_equal(TileTouch a, TileTouch b) { return a.read == b.read && a.written == b.written; }

#endif
