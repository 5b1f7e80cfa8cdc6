/*
 * kept.h - decisions about large graphs, kept on disk from one process to the next.
 *
 * What to fuse, and what to compute again, follows from what a graph's nodes are and which use which; finding it takes most of the time
 * of a program whose kernels are kept already.  A decision's key is a hash of all that it was made from, so none is ever out of
 * date; what is not found, or damaged, is decided again.
 */
#ifndef TSR_IR_KEPT_H
#define TSR_IR_KEPT_H

#include "base/hash.h"
#include "ir/graph/graph.h"

typedef struct Kept { bool in_use; Hash128 key; } Kept;

Kept kept_of(const Graph *g, const char *what);     /* what: which decision. Not in use: the graph is small, or there is no store */
bool kept_read(const Kept *k, void *data, size_t n);        /* true: *data is what was written, of so many bytes */
void kept_write(const Kept *k, const void *data, size_t n);

#endif
