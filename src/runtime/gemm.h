/*
 * gemm.h - matrix products in one order.
 *
 * c[i, j] sums a[i, k] * b[k, j] over k in chunks of 256: in a chunk acc = fma(a, b, acc) from 0, left to right; the
 * sums of chunks are added left to right.  Tiling, threads and batches change no bit.
 */
#ifndef TSR_RUNTIME_GEMM_H
#define TSR_RUNTIME_GEMM_H

#include "runtime/kernel_util.h"

enum { GEMM_CHUNK = 256, GEMM_FEW = 4, GEMM_THIN = 3 };
enum { GEMM_SMALL = 1 << 18 };          /* multiplications that are not worth a second thread */

/*
 * What is called for rectangles of c as they are finished, by the thread `slot` that computed them, so that they are still in its
 * caches: rows are counted over all batches.  Calls for different rectangles may run at once.
 */
typedef struct GemmDone {
    void (*fn)(void *st, int64_t slot, int64_t row, int64_t rows, int64_t column, int64_t columns);
    void *st;
    bool whole_rows;            /* only rows with all of their columns */
} GemmDone;

/*
 * One batch after another: matrix x starts at a + x * abatch, and so on; strides count elements of the accumulator's
 * lanes.  Columns of c are neighbours.
 */
typedef struct Gemm {
    DType accum;                /* dtype whose lanes a, b and c hold; narrow ones round after every step */
    int64_t batch, m, n, k;
    const void *a, *b;
    int64_t abatch, arow, acol, bbatch, brow, bcol;
    void *c;
    int64_t cbatch, crow;
    bool more;                  /* c has the sums of whole chunks of steps before these, and their sums join them. Of gemm_here */
    const GemmDone *done;       /* NULL: nothing. Of f32 and f64, with cbatch = m * crow and more than one column */
} Gemm;

KStatus gemm_run(KCtx *c, Gemm g);
/*
 * x @ y into sum, lanes of accum whose columns are neighbours; with done (NULL: nobody), row-major, rows are counted over all batches.
 * a: of the product. Fast ones are computed by units of the machine that sum in another order (gemm_amx.h), where it has some and the product is
 * large enough.
 */
KStatus matmul_into(KCtx *c, Tensor *x, Tensor *y, DType accum, const Attr *a, Tensor *sum, const GemmDone *done);
bool matmul_by_units(const Tensor *x, const Tensor *y, DType accum, const Attr *a, const TType *type);      /* does it take such? */
/* Lanes of the accumulator become a result of that type: in place when they are the same, else converted. Takes sum. */
KStatus sum_as(KCtx *c, Tensor *sum, const TType *type, Tensor **out);
/* Few columns by an a whose steps lie by rows (gemm_turned.c): are they, and their product. */
bool gemm_is_turned(const Gemm *g);
KStatus gemm_turned(KCtx *c, const Gemm *g);
KStatus gemm_plain(KCtx *c, const Gemm *g);     /* a row of some sums at a time: for what has no tiles */

/* One sum of k > 0 products, of a and b whose elements are neighbours (dots.c), for each instruction set. */
typedef struct Dots { void (*f32)(int64_t k, const void *a, const void *b, void *c), (*f64)(int64_t k, const void *a, const void *b, void *c); } Dots;
extern const Dots dots_base, dots_v3, dots_v4;

int64_t gemm_room_max(void);            /* bytes that one thread of gemm_run takes at most */
int64_t gemm_room(const Gemm *g);       /* and gemm_here of this one */
/* One matrix of f32 or f64, by this thread alone, with gemm_room_max() bytes of room. */
void gemm_here(const Gemm *g, void *room);
/* x @ y as a gemm of their lanes, for a result of this type: all but c. false: batches of x or y do not lie in equal steps. */
bool matmul_plan(const Tensor *x, const Tensor *y, DType accum, const TType *type, Gemm *out);

/* c, rows crow apart, is (add: plus) the sums over k steps, at most GEMM_CHUNK. Steps of b are brow apart, its columns neighbours. */
typedef void GemmTileFn(int64_t k, const void *a, int64_t arow, int64_t acol, const void *b, int64_t brow, void *c, int64_t crow, bool add);
typedef struct GemmTile { int rows, vectors; GemmTileFn *run; } GemmTile;

/* The same where step q + 1 of b is by[q] bytes after step q. */
typedef void GemmStrewnFn(int64_t k, const void *a, int64_t arow, int64_t acol, const void *b, const int64_t *by, void *c, int64_t crow, bool add);
typedef struct GemmStrewn { int rows, vectors; GemmStrewnFn *run; } GemmStrewn;

/*
 * Sums of products element by element, each lane's its own: rows `sums_row` bytes apart of so many vectors, `times` such pieces side by side.
 * Step q multiplies vector q of w and those at x + places[q] bytes, rows `row` bytes apart.  more: the sums go on from what they are.
 */
typedef void GemmBesideFn(int64_t k, const void *w, const void *x, const int64_t *places, int64_t row, int64_t times, void *sums, int64_t sums_row,
                          bool more);
enum { BESIDE_ROWS = 3, BESIDE_COLUMNS = 8 };

/* What one instruction set has for one dtype. */
typedef struct GemmTiles {
    int lanes, rows, vectors;           /* of a vector; of the largest tile, which is also what panels are packed for */
    const GemmTile *tile;               /* most rows first, then most vectors, down to 1 x 1; ends with rows 0 */
    GemmTileFn *panel, *narrow;         /* the largest tile, and one of a single vector, for a packed panel of a: steps `rows` apart */
    /* dst[step * width + line] = line `line` of src at `step`, zeros for lines up to width; a line's steps are neighbours. */
    void (*turn)(const void *src, int64_t line, int64_t lines, int64_t k, void *dst, int64_t width);
    /* The same where lines are neighbours, for any number of them: a panel after each k * width elements. */
    void (*copy)(const void *src, int64_t step, int64_t lines, int64_t k, void *dst, int64_t width);
    /* Rows of sums over k steps, at most GEMM_CHUNK, row i at sums + i * row, with room for whole vectors. Columns of b are neighbours. */
    void (*few)(int64_t rows, int64_t k, const void *a, int64_t arow, int64_t acol, const void *b, int64_t brow, int64_t n, void *sums,
                int64_t row);
    /* The same for at most GEMM_FEW rows where steps of b are neighbours, its columns `line` apart; NULL: there is none. */
    void (*across)(int64_t rows, int64_t k, const void *a, int64_t arow, int64_t acol, const void *b, int64_t line, int64_t n, void *sums,
                   int64_t row);
    /* Rows of c, crow apart, over 1 to GEMM_THIN steps. Columns of b are neighbours. */
    void (*thin)(int64_t rows, int64_t k, const void *a, int64_t arow, int64_t acol, const void *b, int64_t brow, int64_t n, void *c, int64_t crow);
    GemmBesideFn *const (*beside)[BESIDE_COLUMNS];      /* by rows and columns, from 1 on; some are NULL. NULL: there are none */
    const GemmStrewn *strewn;           /* as `tile`, the last of one row and least vectors; NULL: there are none */
} GemmTiles;

typedef struct GemmKernels { GemmTiles f32, f64; } GemmKernels;         /* of one instruction set */
extern const GemmKernels gemm_base, gemm_v3, gemm_v4;
enum { GEMM_TILE_BYTES = 14 * 2 * 64 };         /* of the largest tile of all */

#endif
