/*
 * vary.h - which values of a kernel differ between the lanes of a group, and
 * where only some of the lanes may be.
 *
 * The oracle runs what is the same in all lanes once; code for CPUs makes
 * vectors of what varies; on a GPU what varies is in a lane's registers.  A
 * value varies when it is computed from `lane`, is loaded from a place that
 * varies or from memory of the lane's own, depends on a choice that varies, or
 * comes from a run of lanes shorter than the group.  A block is split when a
 * choice or a loop around it may keep lanes out.  In a group of one lane
 * nothing varies.
 */
#ifndef TSR_IR_TILE_VARY_H
#define TSR_IR_TILE_VARY_H

#include "ir/tile/tile.h"

typedef struct TileVary {
    uint32_t *number;           /* of each value, by node id: tile_numbers */
    uint8_t *value;             /* by number */
    uint8_t *split;             /* by node id: does the node stand where some lanes may be missing? */
    uint8_t *parts;             /* by node id of if, for and while: may its lanes go different ways? */
    int lanes;
    bool warps;                 /* of warps, not of the group */
} TileVary;

void tile_vary(const TileKernel *k, TileVary *out);
/* The same within warps of 32 lanes: what differs between warps alone does not vary, and where whole warps are missing is not split. */
void tile_vary_warps(const TileKernel *k, TileVary *out);
void tile_vary_done(TileVary *v);
bool tile_varies(const TileVary *v, TileRef x);
/* Does any result or operand vary? */
bool tile_node_varies(const TileVary *v, const TileNode *n);
/* Is the op the group's work, which it does once, and not each lane's? */
bool tile_is_groups(const TileNode *n);

/*
 * The rules of groups of several lanes: what is the group's takes nothing that varies and stands where all lanes are.
 * NULL, or the node that breaks one, and *why.
 */
const TileNode *tile_vary_broken(const TileKernel *k, const TileVary *v, const char **why);

#endif
