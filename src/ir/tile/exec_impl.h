/*
 * exec_impl.h - the parts of the oracle: views whose every access is checked, and values of tiles.
 */
#ifndef TSR_IR_TILE_EXEC_IMPL_H
#define TSR_IR_TILE_EXEC_IMPL_H

#include "ir/tile/tile_impl.h"
#include "ir/tile/vary.h"

#include "runtime/convert.h"

/*
 * What is known of an element of a group's buffer.  A copy that is under way makes its elements COMING;
 * the wait that covers it makes them LANDED, which the next barrier turns into WRITTEN.
 */
enum { NEVER_WRITTEN, WRITTEN, COMING, LANDED };

/* Memory with what is known of who touched its elements, where races are looked for (exec_check.c). */
typedef struct Memory Memory;
typedef struct Buffer Buffer;
typedef struct Watch Watch;

typedef struct View {
    char *base;                         /* of its first element; of local memory, lane 0's */
    uint8_t *state;                     /* of the first element of a buffer; NULL: global memory, or nobody asks */
    int64_t lane_step;                  /* local memory: elements from one lane's to the next one's */
    Memory *memory;                     /* NULL: races are not looked for */
    Buffer *buffer;                     /* of which it is a part; NULL: global memory */
    Sym name;                           /* what messages call it; may be NULL */
    bool shared;
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

struct Buffer {
    char *data;
    uint8_t *state;
    const TileNode **copier;            /* by element: the last asynchronous copy to it; NULL where nobody asks */
    int64_t n, cols;                    /* cols: elements of a row, its last axis */
    bool swizzle;
    Memory *memory;
    Buffer *next;
};

/* What a value is at the moment. A value that varies has an element for each lane. */
typedef struct Slot {
    char *data;
    int64_t index, *indices;
    View view;
    Tree tree;
} Slot;

typedef struct Pending {
    View to, from;
    int64_t batch;
    _Alignas(16) char fill[16];
    const TileNode *node;
} Pending;

typedef struct Exec {
    const TileKernel *k;
    const int64_t *sizes;
    unsigned checks;                    /* TILE_CHECK_... */
    int64_t group[3], group_number;
    uint32_t count, *first;             /* slots: all, and the first of each node */
    uint32_t *number;
    Slot *slot;
    Buffer *buffers;
    Vec(Pending) pending;
    int64_t batch;                      /* copies from now on belong to it */
    TileVary vary;
    uint8_t *mask;                      /* of several lanes, those that are here */
    uint32_t epoch;                     /* barriers that the group has passed */
    Watch *watch;                       /* NULL: nobody looks on */
    StrBuf *err;
} Exec;

/* exec.c: false stands for a fault, whose text *e->err has */
bool exec_block(Exec *e, const TileBlock *b);           /* its nodes in order, checked as e->checks asks */
/* Keeps the text, with the node's line in the program; false. */
bool exec_fault(Exec *e, const TileNode *n, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
bool exec_interrupted(Exec *e, const TileNode *n);      /* by ctrl-C: true, and a fault is kept */
Slot *exec_slot(Exec *e, TileRef v);                    /* of a value that is there */
Slot *exec_result(Exec *e, const TileNode *n, int i);   /* where result i of a node goes; its memory is made when it is first asked for */
void exec_move(Slot *to, Slot *from, const TileType *t);        /* of what is the same in all lanes */
bool exec_index(Exec *e, const TileNode *n, int64_t a, int64_t b, int64_t *out);       /* iadd ... imax; a divisor must be positive */
void exec_fill(const TAttr *a, DType dt, void *raw);    /* the attributes' number, one element of dt as it lies in memory */
static inline int64_t exec_index_in(Exec *e, const TileNode *n, int i) { return exec_slot(e, n->in[i])->index; }         /* operand i, an index */
static inline const char *exec_data_in(Exec *e, const TileNode *n, int i) { return exec_slot(e, n->in[i])->data; }      /* ... a tile */
static inline size_t exec_bytes(const TileType *t) { return (size_t)tile_elements(t) * raw_size((DType)t->dtype); }     /* of a tile */
static inline bool exec_varies(const Exec *e, TileRef v) { return e->k->lanes > 1 && tile_varies(&e->vary, v); }

/* exec_memory.c */
bool exec_memory(Exec *e, const TileNode *n);           /* does what n says with memory */
bool exec_land(Exec *e, int64_t until);                 /* copies happen as late as they may: those of batches before `until`, now */
void exec_give_buffers(Exec *e);                        /* frees the group's */
/* What an update leaves in the place of `old`; expected: NULL, or what must be there for a change. next may be where old was copied from. */
void exec_updated(const TileNode *n, const char *old, const char *expected, const char *with, char *next);

/* exec_lane.c: nodes of groups of several lanes that are not done once for all of them. */
bool lane_does(const Exec *e, const TileNode *n);       /* is it one of them? */
bool lane_run(Exec *e, const TileNode *n);              /* for the lanes of e->mask */
void exec_say(Exec *e, const TileNode *n, int lane);    /* what `say` prints there */

/* exec_watch.c, where a group is watched */
bool exec_watched(const TileKernel *k, const int64_t *sizes, const TileArg *args, int64_t group, Watch *w, StrBuf *err);       /* of exec.c */
void exec_seen_access(Exec *e, const TileNode *n, const View *v);            /* the next scalar access, and then each lane's element */
void exec_seen_lane(Exec *e, const View *v, const char *element, int lane);
void exec_seen_barrier(Exec *e, const TileNode *n);                         /* it ends the epoch */
void exec_seen_order(Exec *e, uint32_t since);                            /* what would race was done in this earlier epoch */
bool exec_seen_step(Exec *e);                                               /* false: that was enough */
void exec_seen_end(Exec *e);

/* exec_numbers.c: false when the node made NaN or infinity of finite numbers, which *e->err says. */
bool exec_finite(Exec *e, const TileNode *n);

/* exec_check.c */
enum { WHO_GROUP = -1, WHO_COPY = -2 };      /* else a lane */
typedef enum { TOUCH_READ, TOUCH_WRITE, TOUCH_ATOMIC, TOUCH_KINDS } Touch;
Memory *memory_new(const View *v);                      /* who touched which element of the view since the last barrier; the caller frees it */
void memory_free(Memory *m);
/* Say that an element of a view is touched; false: by somebody else too, with no barrier between, and *e->err says by whom. */
bool memory_touch(Exec *e, const TileNode *n, const View *v, const char *element, int who, Touch touch);
/* All elements of the block shape[0..rank) from start that lie in the view, by the group or by a copy beside it. */
bool memory_touch_block(Exec *e, const TileNode *n, const View *v, const int64_t *start, const int64_t *shape, Touch touch);
/* May a lane use an element of a buffer? Not read what was never written, nor touch what a copy brings, or has brought with no barrier since. */
bool memory_usable(Exec *e, const TileNode *n, const View *v, const uint8_t *state, const char *element);
void memory_put_line(StrBuf *b, const TileNode *n);     /* " at line 3" of the program, where it is from one */

/* An elementwise walk over a block of a view, row-major; outside: no address. */
typedef struct Walk {
    int64_t at[TILE_RANK_MAX];          /* in the block */
    int64_t place;                      /* element of the view, in elements from its base */
    bool inside;
} Walk;

bool view_part(View *v, const int64_t *start, const int64_t *extent, StrBuf *err);     /* v becomes a part of itself; false: it reaches out of v */
/* Elements shape[0..rank) from start: those outside are fill. *err: which element may not be read, and why. */
bool view_load(const View *v, const int64_t *start, const int32_t *shape, const void *fill, char *out, StrBuf *err);
bool view_store(const View *v, const int64_t *start, const int32_t *shape, const char *in, StrBuf *err);
/* Element by element combined with what is there. */
bool view_atomic(const View *v, const int64_t *start, const int32_t *shape, OpId step, const char *in, StrBuf *err);
/* All of `to`; `state`: what its elements become. */
bool view_copy(const View *to, const View *from, const void *fill, int state, StrBuf *err);
/* Elements that are not `need` are an error; need < 0: any that may be written. by: the copy that they wait for, if any. */
bool view_mark(const View *to, int need, int state, const TileNode *by, StrBuf *err);
/* The asynchronous copy that brings an element; NULL: not known. */
const TileNode *view_copier(const View *v, const char *element);

void tree_push(const TileType *t, Tree *tree, const char *value);       /* one value more: pairs of equal size are joined (docs/numerics.md) */
void tree_total(const TileType *t, Tree *tree, char *out);              /* what all came to, asked for once; the identity of none */
/* Operations on whole tiles, raw and row-major. count: how many of the elements along the reduced axis, or of the steps, count. */
void eval_reduce(const TileNode *n, const char *in, int64_t count, char *out);
void eval_dot(const TileNode *n, const char *a, const char *b, const char *acc, int64_t count, char *out);
void eval_stretch(const TileType *from, const char *in, const TileType *to, char *out);      /* extents of 1, and scalars */
void eval_permute(const TileNode *n, const char *in, char *out);
void eval_iota(const TileNode *n, int64_t first, char *out);

#endif
