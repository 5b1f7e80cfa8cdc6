/*
 * blocks.c - see blocks.h.
 *
 *     piece   | a | b | . . . |     cut from the front; a block that is left gives its pages back and keeps its place for
 *                                   the next one of its class
 *
 * Pieces stay.  The first is too small for huge pages, so that a program of a few tensors takes what they have and no more;
 * each later one is twice the size of the one before, up to 32 MB.
 */
#include "runtime/blocks.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdint.h>
#include <sys/mman.h>

enum { LEAST = 64 << 10, MOST = 4 << 20, FIRST = 2 << 20, LARGEST = 32 << 20, PAGE = 4096, LINE = 64, CLASSES = 160 };

static char *piece;                 /* what is left of the last one */
static size_t left, last;
static void *empty[CLASSES];        /* left blocks, linked through their first bytes */

bool block_serves(size_t size) { return size >= LEAST && size < MOST; }

static bool new_piece(size_t size)
{
    size_t n = last ? last * 2 : FIRST;
    char *p;

    n = n < LARGEST ? n : LARGEST;
    n = n < size ? MOST : n;
    if (!(p = tsr_try_alloc(n, LINE)))
        return false;
    piece = p;
    left = last = n;
    return true;
}

void *block_take(int size_class, size_t size)
{
    void **p = empty[size_class];

    assert(block_serves(size) && size_class < CLASSES);
    size = (size + LINE - 1) / LINE * LINE;
    if (p) {
        empty[size_class] = *p;
        return p;
    }
    if (left < size && !new_piece(size))
        return NULL;
    p = (void **)(void *)piece;
    piece += size;
    left -= size;
    return p;
}

void block_leave(void *p, int size_class, size_t size)
{
    uintptr_t from = ((uintptr_t)p + sizeof(void *) + PAGE - 1) / PAGE * PAGE, to = ((uintptr_t)p + size) / PAGE * PAGE;

    madvise((void *)from, to - from, MADV_DONTNEED);        /* where it is refused, they stay */
    *(void **)p = empty[size_class];
    empty[size_class] = p;
}
