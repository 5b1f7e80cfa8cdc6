/*
 * Copying crosswise: where the elements of a row of the result lie far apart in
 * the source, while neighbours in the source go to different rows.  Reading row
 * by row would touch a cache line and a page for each element; squares of
 * SIDE by SIDE elements use each line that they touch in full.
 */
#include "runtime/transpose.h"

#include "runtime/kernels.h"

#include <string.h>

enum { SIDE = 16, WORTH = 4096 };       /* elements: fewer stay in cache anyway */

typedef struct Crosswise {
    const char *from;           /* the source's first element */
    char *to;
    size_t size;                /* of an element */
    const Reader *src;
    int down;                   /* the axis along which the source's elements are neighbours */
    int64_t rows, columns, step;        /* sizes of that axis and the last; step of the last in the source */
    int64_t line;               /* step of the down axis in the result */
    int64_t strips;             /* of SIDE rows, for each place of the other axes */
} Crosswise;

/* The axis of step 1 that is not the last; -1: none, or not worth it. */
static int down_axis(const Reader *r)
{
    int last = r->rank - 1;

    if (last < 1 || is_packed(r->dtype) || r->stride[last] == 1 || r->stride[last] == 0 || r->shape[last] < SIDE)
        return -1;
    for (int i = 0; i < last; i++)
        if (r->stride[i] == 1 && r->shape[i] >= SIDE)
            return i;
    return -1;
}

bool is_crosswise(const Reader *r)
{
    int64_t n = 1;

    for (int i = 0; i < r->rank; i++)
        n *= r->shape[i];
    return n >= WORTH && down_axis(r) >= 0;
}

#define SQUARE(T) \
    do { \
        const T *s = (const T *)(const void *)from; \
        T *d = (T *)(void *)to; \
        for (int64_t j = 0; j < columns; j++) \
            for (int64_t i = 0; i < rows; i++) \
                d[i * w->line + j] = s[i + j * w->step]; \
    } while (0)

typedef struct { uint64_t half[2]; } Sixteen;

static void square(const Crosswise *w, const char *from, char *to, int64_t rows, int64_t columns)
{
    switch (w->size) {
    case 1: SQUARE(uint8_t); break;
    case 2: SQUARE(uint16_t); break;
    case 4: SQUARE(uint32_t); break;
    case 8: SQUARE(uint64_t); break;
    default: SQUARE(Sixteen); break;
    }
}

/* Where place q of the axes other than the last and the down axis is, in elements: in the source, and in the result. */
static void outer_place(const Crosswise *w, int64_t q, int64_t *from, int64_t *to)
{
    const Reader *r = w->src;
    int64_t step = r->shape[r->rank - 1];

    *from = *to = 0;
    for (int k = r->rank - 2; k >= 0; k--) {
        if (k != w->down) {
            *from += q % r->shape[k] * r->stride[k];
            *to += q % r->shape[k] * step;
            q /= r->shape[k];
        }
        step *= r->shape[k];
    }
}

static void strips_part(int64_t lo, int64_t hi, void *st)
{
    const Crosswise *w = st;

    for (int64_t t = lo; t < hi; t++) {
        int64_t i = t % w->strips * SIDE, rows = w->rows - i < SIDE ? w->rows - i : SIDE, from, to;
        outer_place(w, t / w->strips, &from, &to);
        from += i;
        to += i * w->line;
        for (int64_t j = 0; j < w->columns; j += SIDE)
            square(w, w->from + (from + j * w->step) * (int64_t)w->size, w->to + (to + j) * (int64_t)w->size, rows,
                   w->columns - j < SIDE ? w->columns - j : SIDE);
    }
}

void copy_crosswise(char *to, const Reader *src)
{
    int last = src->rank - 1;
    Crosswise w = {.to = to, .src = src, .size = raw_size(src->dtype), .down = down_axis(src), .columns = src->shape[last],
                   .step = src->stride[last], .line = 1};
    int64_t outer = 1;

    w.from = src->base + src->offset * (int64_t)w.size;
    w.rows = src->shape[w.down];
    w.strips = (w.rows + SIDE - 1) / SIDE;
    for (int k = w.down + 1; k <= last; k++)
        w.line *= src->shape[k];
    for (int k = 0; k < last; k++)
        outer *= k == w.down ? 1 : src->shape[k];
    pool_for(outer * w.strips, 65536 / (SIDE * w.columns) + 1, strips_part, &w);
}
