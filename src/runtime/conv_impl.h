/* conv_impl.h - what the files of convolutions share: a phase (conv.c), and the windows of a span of its places (conv_windows.c). */
#ifndef TSR_RUNTIME_CONV_IMPL_H
#define TSR_RUNTIME_CONV_IMPL_H

#include "runtime/conv.h"

#include "base/ints.h"
#include "runtime/kernel_util.h"
#include "runtime/storage.h"

#include <stdatomic.h>
#include <string.h>

typedef struct Conv {
    int n;                      /* spatial axes, at least two */
    ConvAxis axis[RANK_MAX];
    DType accum;
    int64_t size;               /* bytes of an element */
    int64_t batch, groups, c, o;            /* images; groups, and channels of one, in and out */
    int64_t xbatch, xchannel, image;        /* strides in elements; places of an image of the result */
    int64_t wrow, wchannel;     /* the same of the kernel: of an output channel, of one in; its taps are neighbours */
    bool beside;                /* groups side by side in vectors (conv_groups.c) */
    const char *x, *w;
    char *y;
    /* Of the phase. */
    Storage *own;               /* its taps of the kernel; NULL: they are all of w's */
    int64_t taps, k;            /* of a channel; of a row: c * taps */
    int64_t line, lines;        /* places along the last axis; such lines in an image */
    bool lies, joined, whole;   /* x is read as it lies; spans have several images; places lie side by side in the result */
    bool turned;                /* sums are a row for each place: the windows times the kernel */
    bool columns;               /* windows are written a column at a time, */
    bool laid;                  /* and from lines that are laid out for it (conv_laid_bytes) */
    int64_t block, kept;        /* rows of windows that are multiplied at once, whole chunks; and that there is room for */
    int64_t span_lines, span_places;        /* in a span: lines, and places of each (all, or one line's part) */
    int64_t units, downs, acrosses;         /* images, or 1 when joined; spans of each: over lines, along a line */
    int64_t spans;
    char *room;                 /* of all threads */
    int64_t windows_bytes, sums_bytes, laid_bytes;          /* of a thread: its span's windows, sums, and lines laid out; */
    int64_t room_bytes;         /* all, with what gemm_here needs */
    KCtx *ctx;
    _Atomic int64_t next;       /* span that nobody has taken */
    _Atomic int status;
} Conv;

/* Some places: lines from..to of all images (counted through), places at..end of each. */
typedef struct Span { int64_t group, from, to, at, end, columns; } Span;

/* The runs of a line: run j has n elements, from start + j * other on and `by` apart. */
typedef struct ConvRuns { int64_t start, by, n, other, others; } ConvRuns;

/* As a line is laid out: so many sets, those of elements that are `by` apart, of so many elements each, which begin so far from each other. */
int64_t conv_sets(const ConvRuns *r);
int64_t conv_set_size(const ConvRuns *r);
int64_t conv_set_step(const ConvRuns *r);
int64_t conv_run_place(const ConvRuns *r, int64_t j);           /* where run j begins there */

/* n elements of so many bytes, from those that are `step` of them apart to those that are `to_step`. */
void conv_copy_apart(char *to, int64_t to_step, const char *from, int64_t step, int64_t n, int64_t size);

/* Short copies of the same length, without calls: the last piece may overlap the one before. */
static inline void conv_copy_short(char *to, const char *from, int64_t bytes)
{
    if (bytes >= 64) {
        for (int64_t i = 0; i + 64 <= bytes; i += 64)
            memcpy(to + i, from + i, 64);
        memcpy(to + bytes - 64, from + bytes - 64, 64);
    } else if (bytes >= 32) {
        memcpy(to, from, 32);
        memcpy(to + bytes - 32, from + bytes - 32, 32);
    } else if (bytes >= 16) {
        memcpy(to, from, 16);
        memcpy(to + bytes - 16, from + bytes - 16, 16);
    } else if (bytes >= 8) {
        memcpy(to, from, 8);
        memcpy(to + bytes - 8, from + bytes - 8, 8);
    } else {
        memcpy(to, from, (size_t)bytes);
    }
}

/* The place of the result that line `line` of an image begins with, in elements. */
int64_t conv_place(const Conv *v, int64_t line);

/* Can groups of this op be computed side by side? x, w: f32 whose planes lie well for that (conv_planes_lie). */
bool conv_is_beside(const Conv *v);
bool conv_planes_lie(const Tensor *t, int n);           /* the last n axes */
KStatus conv_run_beside(Conv *v);                       /* the phase */

/* Is the phase computed sooner without windows (conv_flat.c)? */
bool conv_is_flat(const Conv *v);
bool conv_is_direct(const Conv *v);     /* would products with windows be written where they belong? */
KStatus conv_run_flat(Conv *v);

/* Are lines of the input laid out before their windows are written (v->laid), and how much room do they take? For spans that are planned. */
int64_t conv_laid_bytes(Conv *v);
/*
 * The windows of a span: a matrix [k, columns], or a column after the other (v->columns), of which it is rows from..to, after as many as are given
 * back.  laid: room for conv_laid_bytes, which the first rows fill.
 */
int64_t conv_write_windows(const Conv *v, const Span *s, int64_t from, int64_t to, char *windows, char *laid);
int64_t conv_unit(const Conv *v);       /* rows that are written together */

#endif
