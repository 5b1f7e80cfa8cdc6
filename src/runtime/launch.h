/*
 * launch.h - running a compiled kernel over an iteration space.
 *
 * A kernel works on views with two axes, an outer and an inner one, group by
 * group.  A space has up to sixteen axes, and each operand strides along them
 * as it happens to lie in memory.  launch_plan merges axes that all operands
 * walk in one go, so that what is left over two is a loop around the kernel,
 * and threads share the groups of all rounds.
 */
#ifndef TSR_RUNTIME_LAUNCH_H
#define TSR_RUNTIME_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

enum { LAUNCH_AXES = 16, LAUNCH_ARGS = 24, LAUNCH_COUNTERS = 4, VIEW_RANK = 8 };

/* A view of a kernel: base is its first element; strides count elements. */
typedef struct TileArg { void *base; int64_t extent[VIEW_RANK], stride[VIEW_RANK]; } TileArg;

/*
 * Runs the groups lo..hi of a launch; size: n0, n1, three words for each counter, the groups along each axis. scratch is the
 * memory of one thread, in which a program's kernel keeps something for the next call of the same launch: its first word is 0 before the first one.
 */
typedef void KernelFn(const int64_t *size, const TileArg *arg, char *scratch, int64_t lo, int64_t hi);

typedef struct LaunchArg {
    char *base;
    int64_t bytes;                      /* of an element */
    int64_t stride[LAUNCH_AXES];        /* 0 where the operand does not have the axis */
    int64_t places;                     /* of a table: the elements from base on, by which its view has one more axis, the first; 0: it is none */
} LaunchArg;

/*
 * A number that elements have: base of the first, and steps along each axis.  A kernel gets it as three of the launch's sizes: that of
 * the round's first element, and the steps along the outer and the inner axis.
 */
typedef struct LaunchCounter { int64_t base, stride[LAUNCH_AXES]; } LaunchCounter;

typedef struct LaunchSpace {
    int naxes, nkept;                   /* the axes from nkept on belong together: they are the inner one */
    int64_t size[LAUNCH_AXES];
    int nargs;
    LaunchArg arg[LAUNCH_ARGS];
    int ncounters;
    LaunchCounter counter[LAUNCH_COUNTERS];
} LaunchSpace;

/*
 * Merge axes, in place.  Afterwards naxes - nkept is at most 1.  false: some operand does not walk the inner axes in
 * one go, *which says which one; -1: a counter.  Without inner axes (naxes == nkept) the last one left takes their place.
 */
bool launch_merge(LaunchSpace *s, int *which);

/*
 * Run fn over a merged space: groups(n0, n1) of it for each combination of the axes before the last two, scratch(n0, n1)
 * bytes for each thread.  false: no memory for them.
 */
typedef struct LaunchKernel {
    KernelFn *fn;
    int64_t rows, columns;              /* of n0 and n1 that a group does; columns 0: all */
    bool upright;                       /* its views have the inner axis first */
    const void *code;
    int64_t (*scratch)(const void *code, const int64_t *size);      /* bytes that a group's buffers take; NULL: none */
} LaunchKernel;
bool launch_run(const LaunchSpace *s, const LaunchKernel *k);
/* Several that do not wait for each other, n of them, whose groups threads share as those of one. */
typedef struct LaunchOne { const LaunchSpace *space; const LaunchKernel *kernel; } LaunchOne;
bool launch_beside(const LaunchOne *of, int n);
/*
 * Run a rectangle of a merged space with an outer and an inner axis, in this thread: rows count over all rounds.  scratch:
 * launch_scratch(s, k) bytes.
 */
void launch_part(const LaunchSpace *s, const LaunchKernel *k, char *scratch, int64_t row, int64_t rows, int64_t column, int64_t columns);
int64_t launch_scratch(const LaunchSpace *s, const LaunchKernel *k);
/* Call fn once for each round, with all of its groups to do; it says whether to go on, and so does the result. */
bool launch_each(const LaunchSpace *s, bool upright, bool (*fn)(void *st, const int64_t *size, const TileArg *arg), void *st);

#endif
