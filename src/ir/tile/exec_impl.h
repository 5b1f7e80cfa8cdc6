/*
 * exec_impl.h - the parts of the oracle: views whose every access is checked, and values of tiles.
 */
#ifndef TSR_IR_TILE_EXEC_IMPL_H
#define TSR_IR_TILE_EXEC_IMPL_H

#include "ir/tile/tile_impl.h"

#include "runtime/convert.h"

/*
 * What is known of an element of a group's buffer.  A copy that is under way makes its elements COMING;
 * the wait that covers it makes them LANDED, which the next barrier turns into WRITTEN.
 */
enum { NEVER_WRITTEN, WRITTEN, COMING, LANDED };

typedef struct View {
    char *base;                         /* of its first element */
    uint8_t *state;                     /* of the first element of a buffer; NULL: global memory */
    int rank;
    DType dtype;
    int64_t extent[TILE_RANK_MAX], stride[TILE_RANK_MAX];
} View;

/* A tree: complete subtrees of 2^k values wait like the bits of a counter. */
typedef struct Tree {
    int64_t count;
    int depth;
    int64_t n;                          /* elements of a value */
    char *wait;                         /* depth values */
    int room;
} Tree;

typedef struct Buffer {
    char *data;
    uint8_t *state;
    int64_t n;
    struct Buffer *next;
} Buffer;

/* An elementwise walk over a block of a view, row-major; outside: no address. */
typedef struct Walk {
    int64_t at[TILE_RANK_MAX];          /* in the block */
    int64_t place;                      /* element of the view, in elements from its base */
    bool inside;
} Walk;

bool view_part(View *v, const int64_t *start, const int64_t *extent, StrBuf *err);
/* Elements shape[0..rank) from start: those outside are fill. *err: which element may not be read, and why. */
bool view_load(const View *v, const int64_t *start, const int32_t *shape, const void *fill, char *out, StrBuf *err);
bool view_store(const View *v, const int64_t *start, const int32_t *shape, const char *in, StrBuf *err);
/* Element by element combined with what is there. */
bool view_atomic(const View *v, const int64_t *start, const int32_t *shape, OpId step, const char *in, StrBuf *err);
/* All of `to`; `state`: what its elements become. */
bool view_copy(const View *to, const View *from, const void *fill, int state, StrBuf *err);
/* Elements that are not `need` are an error; need < 0: any that may be written. */
bool view_mark(const View *to, int need, int state, StrBuf *err);

void tree_push(const TileType *t, Tree *tree, const char *value);
void tree_total(const TileType *t, Tree *tree, char *out);
void eval_reduce(const TileNode *n, const char *in, int64_t count, char *out);
void eval_dot(const TileNode *n, const char *a, const char *b, const char *acc, int64_t count, char *out);
void eval_stretch(const TileType *from, const char *in, const TileType *to, char *out);      /* extents of 1, and scalars */
void eval_permute(const TileNode *n, const char *in, char *out);
void eval_iota(const TileNode *n, int64_t first, char *out);

#endif
