/*
 * reader.h - the elements of a strided tensor as one row-major sequence.
 *
 * A Reader walks an operand stretched to a shape; reading n elements from
 * linear index i gives a plain run, in place when the elements already lie in a
 * row.  So kernels see runs only, and strides, broadcasting, packed bits and
 * dtypes are dealt with once.  A Writer is the same for storing.
 */
#ifndef TSR_RUNTIME_READER_H
#define TSR_RUNTIME_READER_H

#include "runtime/convert.h"
#include "runtime/tensor.h"

/*
 * Kernels work through runs on the stack, which may be a small one (a generator's): a TileBuf holds TILE elements of any
 * dtype, or tile_length of narrower ones.  Both are multiples of 4, for packed bytes.
 */
enum { TILE = 256, TILE_BYTES = TILE * 16, TILE_MAX = 1024 };
typedef struct { _Alignas(64) char at[TILE_BYTES]; } TileBuf;

/* Elements that fit a TileBuf when the widest form they take has so many bytes. */
static inline int64_t tile_length(size_t widest)
{
    int64_t n = (int64_t)(TILE_BYTES / widest);

    return n < TILE_MAX ? n : TILE_MAX;
}

typedef struct Reader {
    DType dtype, as;            /* as stored; as wanted (the dtype whose lanes reader_lanes gives) */
    int rank;                   /* of the merged axes */
    int64_t shape[RANK_MAX], stride[RANK_MAX], offset;
    char *base;                 /* element 0 of the storage */
} Reader;

/* All elements of t in row-major order. */
void reader_init(Reader *r, const Tensor *t);
/* t stretched to the shape, aligned at the last axes. */
void reader_stretch(Reader *r, const Tensor *t, int rank, const int64_t *shape);
/* Any view of t's storage. */
void reader_view(Reader *r, const Tensor *t, int rank, const int64_t *shape, const int64_t *stride, int64_t offset);

/* n raw elements from linear index i: in place if they lie in a row, else gathered into buf. */
const void *reader_raw(const Reader *r, int64_t i, int64_t n, void *buf);
/* The same as lanes of r->as, rounded to that dtype on the way. buf and spare hold n of the widest form. */
size_t reader_width(const Reader *r);               /* bytes of that form */
const void *reader_lanes(const Reader *r, int64_t i, int64_t n, void *buf, void *spare);
/* Is the whole sequence one row of memory? Then its first byte, else NULL. */
char *reader_row(const Reader *r);

/* The same as reader_init and reader_view, for storing (no axis stretched), and for reading, too. */
void writer_init(Reader *w, const Tensor *t);
void writer_view(Reader *w, const Tensor *t, int rank, const int64_t *shape, const int64_t *stride, int64_t offset);

/* Store n raw elements at linear index i on. */
void writer_raw(const Reader *w, int64_t i, int64_t n, const void *raw);

/* dst = src, same linear order, elements [lo, hi); opts may be NULL. */
void copy_run(const Reader *dst, const Reader *src, int64_t lo, int64_t hi, const ConvOpts *o);

#endif
