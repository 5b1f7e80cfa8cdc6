/*
 * watch.h - one group of a launch, run by the oracle to see what its warps do:
 * banks and sectors that their accesses take, and which barriers hold anything apart.
 *
 * What lint says is what was seen, so it holds for swizzled, computed and
 * data-dependent addresses alike; what a group never did is not known.
 */
#ifndef TSR_IR_TILE_WATCH_H
#define TSR_IR_TILE_WATCH_H

#include "ir/tile/tile.h"

/* What a node did, all warps of the groups that were watched together. */
typedef struct TileUse {
    int64_t times;              /* accesses of warps; of a barrier, how often it was reached */
    int ways, padded, xored;    /* shared memory: the worst of bank_ways; with an element more in each row, and swizzled */
    int64_t sectors, fewest;    /* global memory: sums of bank_sectors */
    bool held;                  /* a barrier: something that lanes do before it and others do behind it would race without it */
} TileUse;

typedef struct TileWatch { TileUse *use; } TileWatch;       /* by node id; of a vector's elements the first one has the use */

void tile_watch_init(TileWatch *w, const TileKernel *k);
void tile_watch_done(TileWatch *w);
/*
 * Run group number `group` of the launch on copies of what it writes, as far as `work` steps of lanes go, and add what it did.
 * false: the group does not exist, or *err says at which fault it ended; what was seen until then is added.
 */
bool tile_watch(const TileKernel *k, const int64_t *sizes, const TileArg *args, int64_t group, int64_t work, TileWatch *w, StrBuf *err);

#endif
