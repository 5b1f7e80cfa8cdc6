/*
 * bounds.h - between which numbers a kernel's values lie, whatever is in its tensors: interval analysis.
 */
#ifndef TSR_IR_TILE_BOUNDS_H
#define TSR_IR_TILE_BOUNDS_H

#include "ir/tile/tile.h"

/* From lo to hi, both included; nan: it may be no number. lo > hi: there is no value at all. */
typedef struct TileBounds { double lo, hi; bool nan; } TileBounds;

/*
 * What is stored to parameter number `param` of a launch with these sizes: loads give anything that their dtype has. Every rounding
 * is allowed for. What atomics leave behind is anything.
 */
TileBounds tile_bounds(const TileKernel *k, const int64_t *sizes, int param);

#endif
