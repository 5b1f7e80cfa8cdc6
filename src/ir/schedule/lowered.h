/*
 * lowered.h - what a graph becomes below the Graph IR, as text: inspect --ir schedule, tile, target.
 * Each level names, as comments, the lines of the program that its ops are from.
 */
#ifndef TSR_IR_LOWERED_H
#define TSR_IR_LOWERED_H

#include "ir/graph/graph.h"
#include "ir/tile/tile.h"

/* A kernel as the machine's assembly text; set by the driver where a compiler is built in, NULL: there is none. */
extern bool (*lowered_assemble)(const TileKernel *k, StrBuf *out, StrBuf *err);

/* Are kernels shown as GPUs have them, rows of guessed lengths whole? */
extern bool lowered_for_gpu;

typedef enum { LEVEL_GRAPH, LEVEL_SCHEDULE, LEVEL_TILE, LEVEL_TARGET, LEVEL_COUNT } IrLevel;
extern const char *const level_name[LEVEL_COUNT];
bool level_find(const char *name, IrLevel *out);

/* Print the graph at a level. false: *err says what could not be lowered. */
bool lowered_print(Graph *g, IrLevel level, StrBuf *out, StrBuf *err);
bool lowered_print_kernel(const TileKernel *k, IrLevel level, StrBuf *out, StrBuf *err);      /* tile or target */

#endif
