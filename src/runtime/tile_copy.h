/* tile_copy.h - copying between views, for compiled kernels. */
#ifndef TSR_RUNTIME_TILE_COPY_H
#define TSR_RUNTIME_TILE_COPY_H

#include "runtime/launch.h"

/* All elements of `to`, of `size` bytes: those of `from` at the same places, or *fill where it has none. */
void tile_copy(const TileArg *to, const TileArg *from, int64_t rank, int64_t size, const void *fill);

#endif
