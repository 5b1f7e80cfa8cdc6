/*
 * blocks.h - memory for storage of 64 KB to 4 MB.
 *
 * A program makes many tensors of such a size at once, as the parameters of a model.  From the heap each of their pages is a page fault of
 * its own; here they are cut from pieces that ask for huge pages.
 */
#ifndef TSR_RUNTIME_BLOCKS_H
#define TSR_RUNTIME_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>

bool block_serves(size_t size);
void *block_take(int size_class, size_t size);              /* aligned to 64, as it comes; NULL: no memory. One size for each class. */
void block_leave(void *p, int size_class, size_t size);     /* its pages go back to the system */

#endif
