/*
 * tile.h - the Tile IR: what one group of a launch does with blocks of tensors.
 *
 * A TileKernel runs as a grid of groups that know nothing of each other.  A
 * group's values are tiles: small arrays of a dtype with extents known when
 * the kernel is made, immutable, SSA.  Memory is seen through views, which have
 * run-time extents and strides: the kernel's parameters, and buffers of the
 * group.  Kernels that users write and kernels that the compiler makes from
 * regions of the Schedule IR meet here; below are the oracle, which executes a
 * kernel as this page says (exec.c), and code for CPUs and GPUs (src/codegen).
 *
 * Blocks have parameters and yield results, so there is no phi.  Inner blocks
 * see the values of the blocks around them.  Everything lives in the kernel's
 * arena and dies with it.  The order of sums is that of R4 of docs/numerics.md, by the
 * ops that make it explicit: `reduce` for a chunk, `push` for the tree over
 * chunks, `dot` for the steps inside a block of 32; so a kernel gives the same
 * bits wherever it runs, whatever its grid.
 */
#ifndef TSR_IR_TILE_H
#define TSR_IR_TILE_H

#include "base/arena.h"
#include "base/hash.h"
#include "base/source.h"
#include "base/vec.h"
#include "ir/core/op.h"
#include "ir/core/pass.h"
#include "runtime/launch.h"

#include <math.h>

typedef enum TileOp {
#define TOP(name, nin, nout, regions, typing, flags, attrs, doc) TOP_##name,
#include "ir/tile/tile.def"
    TOP_COUNT
} TileOp;

enum { TF_PURE = 0, TF_READ = 1, TF_WRITE = 2, TF_ORDER = 4 };
enum { TILE_RANK_MAX = VIEW_RANK, TILE_REDUCE_MAX = 256, TILE_ELEMENTS_MAX = 1 << 20, STRIDE_ANY = -1, ALIGN_MOST = 256 };

typedef struct TileOpInfo {
    const char *name, *typing, *attrs, *doc;
    int8_t nin, nout, regions;
    uint8_t flags;
} TileOpInfo;
extern const TileOpInfo tile_op_info[TOP_COUNT];

typedef enum { TILE_INDEX, TILE_VALUE, TILE_TREE, TILE_VIEW } TileKind;
typedef enum { SPACE_GLOBAL, SPACE_SHARED, SPACE_LOCAL } TileSpace;     /* SHARED: of the group; LOCAL: of one lane (or one CPU task) */

/*
 * How a buffer lies.  XOR: bank_xor, for lanes; 32, 64, 128: 16-byte pieces of a row of so many bytes are permuted by the number of the
 * row, as matrix units and tensor copies read and write them; ROWS: one row after the other, which is also what 0 means.
 */
enum { SWIZZLE_XOR = 1, SWIZZLE_ROWS = 2, SWIZZLE_32 = 32, SWIZZLE_64 = 64, SWIZZLE_128 = 128 };

typedef struct TileType {
    uint8_t kind, dtype, rank;
    uint8_t space;                      /* VIEW */
    uint8_t op;                         /* TREE: its OpId */
    int8_t stride[TILE_RANK_MAX];       /* VIEW: 0, 1 element, or STRIDE_ANY */
    int32_t extent[TILE_RANK_MAX];      /* VALUE, TREE */
} TileType;

typedef struct TileNode TileNode;
typedef struct TileBlock TileBlock;
typedef struct TileRef { TileNode *node; int index; } TileRef;

typedef struct TAttr {
    uint8_t op;                         /* OpId of map, reduce, tree, atomic */
    uint8_t dtype, space, rounding, saturate, flush, fast, drop;
    uint8_t swizzle;                    /* SWIZZLE_... of a buffer */
    uint8_t vector;                     /* elements that a lane moves at once; 0: nobody said */
    uint8_t within;                     /* all of it is known to lie in the view */
    uint8_t stages, producers;          /* of a pipeline: rounds in flight; warps that only bring blocks */
    uint16_t align;                     /* a power of two that is known to divide a size, or what is left of a view; 0: nobody said */
    int8_t axis, rank;                  /* rank: of shape and axes */
    int32_t shape[TILE_RANK_MAX];
    int8_t axes[TILE_RANK_MAX];
    int64_t i;
    double f;
    Sym name;
} TAttr;

static inline bool tile_is_atomic(unsigned op) { return op == TOP_atomic || op == TOP_update; }
enum { TILE_PARAM = TOP_COUNT };        /* TileNode.op of a parameter of a kernel or block */

struct TileNode {
    uint16_t op, nin, nout;
    uint32_t id;                        /* dense within the kernel */
    uint32_t nuse;
    Span span;
    const TAttr *attr;
    TileType *type;                     /* nout of them */
    TileRef *in;
    TileBlock *region[2];
    TileBlock *block;                   /* where it stands */
    TileNode *prev, *next;
};

struct TileBlock {
    TileNode *owner;                    /* the op whose region it is; NULL: the kernel's body */
    Vec(TileNode *) params;
    TileNode *first, *last;
    Vec(TileRef) yields;
    bool closed;                        /* has it yielded? (the kernel's body does not) */
};

typedef struct TileKernel {
    Arena arena;
    Sym name;
    Vec(TileNode *) params;             /* views, one result each; Sym names in param_name */
    Vec(Sym) param_name;
    Vec(Sym) size;                      /* sizes of a launch, in the order in which they are passed */
    Vec(Dim) size_var;                  /* the variable of each, for grid expressions */
    Vec(Dim) grid;                      /* 1 to 3 numbers of groups, over the size variables */
    int32_t lanes;                      /* of a group; 1 where the kernel does not speak of lanes */
    Sym schedule;                       /* how it was scheduled, for readers; may be NULL */
    TileBlock body;
    Vec(TileBlock *) blocks;            /* of all regions ever made: what tile_kernel_free goes by */
    uint32_t nnodes;
} TileKernel;

TileKernel *tile_kernel_new(Sym name);
void tile_kernel_free(TileKernel *k);
TileRef tile_param(TileKernel *k, Sym name, const TileType *view);
/* A size of the launch, new or there: its variable, for grid expressions. */
Dim tile_size(TileKernel *k, Sym name);

/* Building: nodes go to the end of a block. */
typedef struct TileBuilder { TileKernel *k; TileBlock *at; Span span; StrBuf *err; } TileBuilder;
/* Append an op with fresh blocks for its regions, whose parameters its typing rule makes. NULL: *b->err says why it does not fit. */
TileNode *tile_add(TileBuilder *b, TileOp op, const TAttr *a, const TileRef *in, int nin);
/*
 * Close the block b->at. Ops with regions are added with their operands, then their blocks are filled and closed in order;
 * the types of yields must be those of the results.  The results of `if` are made when its first block is closed.
 */
bool tile_yield(TileBuilder *b, const TileRef *out, int n);
/* The first result, or a node NULL: for building in one expression. */
static inline TileRef tile_out(TileNode *n) { return (TileRef){n, 0}; }
extern const TAttr tattr_none;
/* Are elements outside of what a load is of 0, and not -0? */
static inline bool tile_fills_zeros(const TileNode *load) { return load->attr->f == 0 && !signbit(load->attr->f); }
static inline const TileType *tile_type(TileRef r) { return &r.node->type[r.index]; }
static inline bool tile_expects(const TileNode *n) { return n->nin > 2 + tile_type(n->in[0])->rank; }    /* an update: of what must be there */
/* A conversion that rounds to nearest, where it rounds at all. */
static inline bool tile_converts_plainly(const TileNode *n)
{
    return n->op == TOP_map && n->attr->op == OP_convert && !n->attr->rounding && !n->attr->saturate && !n->attr->flush;
}
bool tile_type_equal(const TileType *a, const TileType *b);
void tile_type_print(const TileType *t, StrBuf *out);       /* "f32[4, 256]", "view f32[?, 1] shared" by strides, "index", "tree sum f32[8]" */

/* Text: tile_print and tile_parse are inverses. Verifying names the first broken rule. */
void tile_print(const TileKernel *k, StrBuf *out);
Hash128 tile_key(const TileKernel *k);              /* of its text: what its code is found by */
void tile_print_placed(const TileKernel *k, StrBuf *out);    /* and behind each op, as a comment, the line of the program it is from */
TileKernel *tile_parse(const char *text, size_t len, StrBuf *err);
bool tile_verify(const TileKernel *k, StrBuf *err);

/* Passes, in pass.def of this folder: true when something changed. */
typedef bool (*TilePass)(TileKernel *k);
TilePass tile_pass_find(const char *name);
extern const PassIr tile_ir;             /* for pass_done, which knows the passes of this level as "tile.fold" */
bool tile_fold(TileKernel *k);          /* index arithmetic, maps of constants, what nobody uses, equal pure nodes of one block */
bool tile_sync(TileKernel *k);          /* barriers between what the group does to memory and does with it */
bool tile_barriers(TileKernel *k);      /* barriers that hold nothing apart go */
/* A copy of a kernel without products whose loads ask for it (stages=, prefetch=) with rings of at most so many bytes, and how many;
 * NULL: as it is. */
TileKernel *tile_pipelined(const TileKernel *k, int64_t most, int64_t *bytes);
bool tile_pipeline(TileKernel *k);      /* blocks that loops load are brought rounds ahead, by asynchronous copies */
bool tile_layout(TileKernel *k);        /* how buffers lie */
bool tile_vectors(TileKernel *k);       /* how many elements a lane moves at once */
int64_t tile_factor(TileRef index);     /* a power of two that divides it, whatever sizes and lanes there are */
bool tile_carries(TileKernel *k);       /* what loops and choices hand on and nobody uses */
bool tile_outward(TileKernel *k);       /* the group's work out of where only some lanes may be: what the verifier would refuse may come in */
bool tile_widen(TileKernel *k);         /* rounds of products become longer products: for machines with caches */
TileKernel *tile_widened(const TileKernel *k);  /* a copy after tile_widen; NULL: it does nothing */

/* A number that the schedule names, as in "stages=3 warps=4"; `otherwise` where it does not. */
int64_t tile_schedule(const TileKernel *k, const char *field, int64_t otherwise);
/* A node like those of tile_add, in front of `at`. */
TileNode *tile_insert(TileKernel *k, TileNode *at, TileOp op, const TAttr *a, const TileRef *in, int nin);

void tile_set_attr(TileKernel *k, TileNode *n, const TAttr *a);         /* n gets a copy of *a */
/* All uses of a value become uses of another one. */
void tile_replace(TileKernel *k, TileRef old, TileRef now);

/* Take a node that nobody uses out of its block, with what stands in its regions. */
void tile_unlink(TileNode *n);
/* Put a node in front of another one, of the same block or not. */
void tile_move(TileNode *n, TileNode *where);

/*
 * Where a launch works: TileArg of runtime/launch.h.  Sizes are in the order of k->size.  Different parameters do not
 * overlap where one of them is written, except that two may be the same elements in the same places when each group loads
 * an element from one before it stores it to the other, with the same starts and shape.
 */

/* padding.c: may what is stored depend on how far blocks reach over the ends of their tensors? */
bool tile_padding_shows(const TileKernel *k);
/* memory.c: do atomics show the order of the kernel's groups, which then run one after another? */
bool tile_in_turn(const TileKernel *k);
/* The numbers of groups along the three axes of the grid. false: a number is too large. */
bool tile_groups(const TileKernel *k, const int64_t *sizes, int64_t *groups);
/* fills.c: does the launch write all of a parameter, and never read it? It is asked by working through all groups. */
bool tile_fills(const TileKernel *k, int param, const int64_t *sizes, const TileArg *args);
bool tile_writes_to(const TileKernel *k, int param);     /* may it write to that parameter? */

/*
 * The oracle: run groups one after another, each op as tile.def says, with every access checked.
 * false: *err names the op, its line and what was wrong (a place outside a view, a value never written, ...).
 */
bool tile_exec(const TileKernel *k, const int64_t *sizes, const TileArg *args, StrBuf *err);

/*
 * The same with the checks that are asked for.  BUFFERS: elements of buffers that were never written, or are under a copy;
 * without it, they are 0 or what they were, and copies under way at the end land.  RACES: two lanes or groups that touch an
 * element with no barrier between them, one of them writing, and scalars outside their view; messages name the user's lines.
 * NUMBERS: NaN or infinity that is made of finite numbers.
 */
/* How over_ranks meets the other ranks: it may leave this stack and come back. in and out have the tile's elements. NULL: there are none. */
extern bool (*tile_ranks)(void *st, Sym axes, const TileType *t, const void *in, void *out);
/* What op `say` prints: a place in memory for each operand. NULL: nobody listens. */
extern void (*tile_said)(void *st, const TileNode *n, const void *const *in);
extern void *tile_host;                  /* `st` of both */

enum { TILE_CHECK_BUFFERS = 1, TILE_CHECK_RACES = 2, TILE_CHECK_NUMBERS = 4 };
/* Run all groups: sizes in the order of k->size, args in that of the parameters. false: *err says what went wrong, at which op and line. */
bool tile_run(const TileKernel *k, const int64_t *sizes, const TileArg *args, unsigned checks, StrBuf *err);

#endif
