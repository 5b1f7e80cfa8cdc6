/* lowered.h - what a graph becomes below the Graph IR, as text: inspect --ir schedule, tile, target. */
#ifndef TSR_TOOLS_LOWERED_H
#define TSR_TOOLS_LOWERED_H

#include "ir/graph/graph.h"
#include "ir/tile/tile.h"

/* A kernel as the machine's assembly text; set by the driver where a compiler is built in, NULL: there is none. */
extern bool (*lowered_assemble)(const TileKernel *k, StrBuf *out, StrBuf *err);

/* Print the graph at a level: "graph", "schedule", "tile" or "target". false: *err says what could not be lowered. */
bool lowered_print(Graph *g, const char *level, StrBuf *out, StrBuf *err);

#endif
