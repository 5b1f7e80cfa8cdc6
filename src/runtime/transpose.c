/*
 * Copying crosswise: where the elements of a row of the result lie far apart in
 * the source, while neighbours in the source go to different rows.  Reading row
 * by row would touch a cache line and a page for each element; squares of
 * SIDE by SIDE elements use each line that they touch in full.  So do squares of
 * short runs of elements, which may be reversed: the taps of a kernel, as the
 * derivative of a convolution by its input takes them.
 */
#include "runtime/transpose.h"

#include "runtime/cpu.h"
#include "runtime/gemm.h"
#include "runtime/kernels.h"

#include <string.h>

enum { SIDE = 16, WORTH = 4096, RUN = 32, LINE = 64 };             /* elements: fewer stay in cache anyway; of a run, at most */

typedef struct Crosswise {
    const char *from;           /* the source's first element */
    char *to;
    size_t size;                /* of an element */
    const Reader *src;
    int down, last;             /* the axis along which the source's elements are neighbours; the last, or the last before those of a run */
    int64_t rows, columns, step;        /* sizes of these axes; step of the last in the source */
    int64_t run, by;            /* elements of a run, and the step between them in the source */
    int64_t line;               /* step of the down axis in the result */
    int64_t strips;             /* of SIDE rows, for each place of the other axes */
} Crosswise;

/* The axis of the step that is not the last; -1: none, or not worth it. */
static int down_axis(const Reader *r, int last, int64_t step)
{
    if (last < 1 || is_packed(r->dtype) || r->stride[last] == step || r->stride[last] == 0 || r->shape[last] < SIDE)
        return -1;
    for (int i = 0; i < last; i++)
        if (r->stride[i] == step && r->shape[i] >= SIDE)
            return i;
    return -1;
}

/* How the source is read: its axes, and the run. down is -1: not crosswise. */
static Crosswise crosswise_of(const Reader *r)
{
    int last = r->rank - 1;
    Crosswise w = {.src = r, .last = last, .down = down_axis(r, last, 1), .run = 1};

    if (w.down < 0 && last > 1 && r->shape[last] <= RUN && (r->stride[last] == 1 || r->stride[last] == -1)) {
        w.last = last - 1;
        w.run = r->shape[last];
        w.by = r->stride[last];
        w.down = down_axis(r, w.last, w.run);
    }
    return w;
}

bool is_crosswise(const Reader *r)
{
    int64_t n = 1;

    for (int i = 0; i < r->rank; i++)
        n *= r->shape[i];
    return n >= WORTH && crosswise_of(r).down >= 0;
}

#define SQUARE(T) \
    do { \
        const T *s = (const T *)(const void *)from; \
        T *d = (T *)(void *)to; \
        for (int64_t j = 0; j < columns; j++) \
            for (int64_t i = 0; i < rows; i++) \
                d[i * w->line + j] = s[i + j * w->step]; \
    } while (0)

/* Of runs a row of the result at a time, which is what is written in one piece; the next square has been asked for. */
#define RUNS(T) \
    do { \
        const T *s = (const T *)(const void *)from; \
        T *d = (T *)(void *)to; \
        for (int64_t j = 0; j < columns; j++) \
            for (int64_t i = 0; i < rows * w->run; i += LINE / sizeof(T)) \
                __builtin_prefetch(s + (SIDE + j) * w->step + i); \
        for (int64_t i = 0; i < rows; i++) \
            for (int64_t j = 0; j < columns; j++) \
                for (int64_t t = 0; t < w->run; t++) \
                    d[i * w->line + j * w->run + t] = s[i * w->run + j * w->step + t * w->by]; \
    } while (0)

typedef struct { uint64_t half[2]; } Sixteen;

/* Turned in registers, and written a row at a time: rows of the result are often a power of two apart, and then share lines of the first cache. */
static void turn_square(const Crosswise *w, const char *from, char *to, int64_t rows, int64_t columns)
{
    _Alignas(64) uint32_t turned[SIDE * SIDE];

    cpu()->gemm->f32.turn(from, w->step, columns, rows, turned, SIDE);
    for (int64_t i = 0; i < rows; i++, to += w->line * 4)
        if (columns == SIDE)
            memcpy(to, turned + i * SIDE, SIDE * 4);
        else
            memcpy(to, turned + i * SIDE, (size_t)columns * 4);
}

static void square(const Crosswise *w, const char *from, char *to, int64_t rows, int64_t columns)
{
    switch (w->size) {
    case 1: SQUARE(uint8_t); break;
    case 2: SQUARE(uint16_t); break;
    case 4: turn_square(w, from, to, rows, columns); break;
    case 8: SQUARE(uint64_t); break;
    default: SQUARE(Sixteen); break;
    }
}

static void square_of_runs(const Crosswise *w, const char *from, char *to, int64_t rows, int64_t columns)
{
    switch (w->size) {
    case 1: RUNS(uint8_t); break;
    case 2: RUNS(uint16_t); break;
    case 4: RUNS(uint32_t); break;
    case 8: RUNS(uint64_t); break;
    default: RUNS(Sixteen); break;
    }
}

/* Where place q of the axes before the last, but the down axis, is, in elements: in the source, and in the result. */
static void outer_place(const Crosswise *w, int64_t q, int64_t *from, int64_t *to)
{
    const Reader *r = w->src;
    int64_t step = w->columns * w->run;

    *from = *to = 0;
    for (int k = w->last - 1; k >= 0; k--) {
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
        from += i * w->run;
        to += i * w->line;
        for (int64_t j = 0; j < w->columns; j += SIDE)
            (w->run > 1 ? square_of_runs : square)(w, w->from + (from + j * w->step) * (int64_t)w->size, w->to + (to + j * w->run) * (int64_t)w->size,
                                                   rows, w->columns - j < SIDE ? w->columns - j : SIDE);
    }
}

void copy_crosswise(char *to, const Reader *src)
{
    Crosswise w = crosswise_of(src);
    int64_t outer = 1;

    w.to = to;
    w.size = raw_size(src->dtype);
    w.columns = src->shape[w.last];
    w.step = src->stride[w.last];
    w.line = w.run;
    w.from = src->base + src->offset * (int64_t)w.size;
    w.rows = src->shape[w.down];
    w.strips = (w.rows + SIDE - 1) / SIDE;
    for (int k = w.down + 1; k <= w.last; k++)
        w.line *= src->shape[k];
    for (int k = 0; k < w.last; k++)
        outer *= k == w.down ? 1 : src->shape[k];
    pool_for(outer * w.strips, 65536 / (SIDE * w.columns * w.run) + 1, strips_part, &w);
}
