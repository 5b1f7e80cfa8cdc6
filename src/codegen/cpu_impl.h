/* cpu_impl.h - what the files that make code for CPUs share. */
#ifndef TSR_CODEGEN_CPU_IMPL_H
#define TSR_CODEGEN_CPU_IMPL_H

#include "codegen/cpu.h"
#include "codegen/lanes.h"
#include "ir/tile/tile_impl.h"

/* What a value of the kernel is in the code. */
typedef struct Val {
    LLVMValueRef x;             /* index; lanes of a scalar; where a tile's or tree's elements or a view's base are; NULL: not there yet */
    LLVMValueRef count;         /* of a tree: where its number of values is */
    LLVMValueRef extent[TILE_RANK_MAX], stride[TILE_RANK_MAX];      /* of a view */
    LLVMValueRef staged;        /* on GPUs, where a tile lies as an operand of matrix units (gpu_matrix.c); else NULL */
    int pitch;                  /* on GPUs, of a tile of two axes at x: elements from row to row, where they are more than a row's; else 0 */
    LLVMValueRef parked;        /* on GPUs, where those wait that this thread has no registers for (gpu_park.c); else NULL */
    LLVMValueRef *fragment;     /* on GPUs, the elements of a tile that this thread has in registers (gpu_fragment.c); else NULL */
} Val;

/* Where an element of a tile is: a place along each axis; the lanes of a vector lie along axis `strip`, -1: all are that element. */
typedef struct Spot {
    LLVMValueRef at[TILE_RANK_MAX];
    int strip;
} Spot;

typedef struct Lanes { LLVMValueRef lane, raw; } Lanes;         /* either may be NULL until asked for */

typedef struct Known { const TileNode *node; Spot spot; Lanes lanes; } Known;

enum { SUMS_MAX = 4 };                  /* rows that are summed side by side, because a sum alone waits for its adder */

/* Something that a cluster does with each element of a tile. node NULL: the tile goes to a buffer. */
typedef struct Sink {
    const TileNode *node;
    TileRef v;
    LLVMValueRef buffer;        /* of its result */
    int panel;                  /* columns that lie together in the buffer, see cpu_packed_at; 0: all of a row */
    LLVMValueRef acc[SUMS_MAX]; /* reduce: the lanes of the sums, in a slot for each row at hand, or in one buffer */
    LLVMValueRef depth, joins;  /* push: subtrees that wait, and how many of them join with this one */
    LLVMValueRef count;         /* push: values so far; reduce: how many to take */
    const struct Stage *stage;  /* the buffer is an operand of a matrix unit (gpu_matrix.c); else NULL */
    LLVMValueRef *kept;         /* the result stays in registers (gpu_fragment.c) and has no buffer; else NULL */
} Sink;

static inline bool sink_reduces(const Sink *s) { return s->node && s->node->op == TOP_reduce; }
static inline DType sink_dtype(const Sink *s) { return (DType)tile_type(s->v)->dtype; }         /* of its elements, as they are before it */

/* Sinks of one shape, done in one walk over it. */
typedef struct Cluster {
    int rank, axis;             /* axis: of its reductions, -1: there is none */
    int32_t shape[TILE_RANK_MAX];
    int strip;                  /* axis of the vectors */
    int width, plain_width, masked_width;       /* their lanes: at hand, and where accesses are not and are masked */
    int rows, row;              /* rows that are walked side by side, and which of them is at hand */
    bool masked;                /* is each access checked? */
    Vec(Sink) sinks;
    Vec(const TileNode *) nodes;        /* evaluated in it */
} Cluster;

/* An operand of a product that is kept for the next group (cpu_keep.c); values are those of the function at hand. */
typedef struct Kept {
    const TileNode *node, *loop;
    int operand;
    bool units;                 /* as matrix units take it (cpu_units.c); node is the load */
    int64_t bytes;              /* of a slot */
    LLVMValueRef rounds, slots, offset, base;
} Kept;

/* An operand that is packed for matrix units (cpu_units.c): where, and whether it was refused, not 0. */
typedef struct UnitPacked { TileRef v; int operand, parts; bool turned; LLVMValueRef at, odd; } UnitPacked;

/* A loop whose rounds add products up, being emitted (cpu_sums.c). */
typedef struct LoopSums {
    const TileNode *dot, *store;        /* its product, NULL: there is none; the store that alone takes the sums, NULL: there is none */
    bool in_registers;                  /* the sums begin there */
    LLVMValueRef first, last;           /* is the round the first one, and the one whose sums go to `to`? NULL: it never is */
    LLVMValueRef fits, to;              /* do they all lie in what is stored to; the place of the first one */
    LLVMValueRef seen[2];               /* rows and columns of the sums that lie there */
} LoopSums;

typedef struct CpuCode {
    Llvm *u;
    const TileKernel *k;
    StrBuf *err;
    bool failed;
    uint32_t nvals, *first;     /* values, and the first of each node by id */
    Val *val;
    uint32_t *seen;             /* uses of a node's value that clusters have come by, by id */
    bool *waits;                /* is the node's result made by the open cluster? */
    bool *gathered;             /* is it among the open cluster's nodes? */
    uint32_t *asked, question;  /* by id: the last cpu_in_tree that came by */
    bool *visited;              /* has the walk over the kernel come by it? */
    LLVMValueRef fn, size, arg, scratch, group[3];
    const LLVMValueRef *word;   /* sizes and numbers of groups, where they are no memory; else NULL */
    LLVMValueRef fixed;         /* bytes of scratch for buffers known now: a constant that is set at the end */
    LLVMValueRef allocated;     /* bytes of scratch in use by allocs so far */
    int64_t stack, fixed_bytes;
    Cluster open;               /* sinks.n == 0: none */
    Vec(Known) known;           /* values in the strip at hand */
    int width;
    int rows_ahead;             /* of what is being packed: rows that are asked for before their turn; else 0 */
    bool masked;
    Spot spot;                  /* of the strip at hand, in the shape of the cluster */
    Vec(const TileNode *) loads;        /* of this block, not evaluated yet */
    const TileNode *done;       /* a push that the dot before it has done */
    Vec(Kept) kept;
    LoopSums sums;
    Vec(UnitPacked) ahead;      /* what the loops at hand take from outside */
    LLVMValueRef strip_columns; /* of the strips that groups run in, if something is kept */
    struct LaneCode *lanes;     /* of a group of several lanes (cpu_lane.h), else NULL */
    struct GpuCode *gpu;        /* of a kernel for GPUs (gpu_impl.h), else NULL */
} CpuCode;

/* ---- cpu.c ---- */
bool cpu_refuse(CpuCode *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
Val *cpu_val(CpuCode *e, TileRef v);
LLVMValueRef cpu_number(CpuCode *e, int64_t v);
LLVMValueRef cpu_op(CpuCode *e, LLVMOpcode op, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef cpu_compare(CpuCode *e, LLVMIntPredicate p, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef cpu_smaller(CpuCode *e, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef cpu_choose(CpuCode *e, LLVMValueRef c, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef cpu_intrinsic(CpuCode *e, const char *name, const LLVMTypeRef *over, int nover, LLVMValueRef *in, int n);
LLVMValueRef cpu_buffer(CpuCode *e, int64_t bytes);        /* 64-byte aligned memory of the group */
LLVMBasicBlockRef cpu_block(CpuCode *e);
LLVMValueRef cpu_arithmetic(CpuCode *e, const TileNode *n, LLVMValueRef a, LLVMValueRef b);     /* iadd ... imax */
LLVMValueRef cpu_index(CpuCode *e, const TileNode *n);     /* the number that an index node gives to all lanes alike */

/* for i from lo to hi by step: what follows cpu_loop is its body. One that runs once is no loop, unless it has a phi of its own. */
typedef struct CpuLoop { LLVMBasicBlockRef head, body, done; LLVMValueRef i, step; } CpuLoop;
CpuLoop cpu_loop(CpuCode *e, LLVMValueRef lo, LLVMValueRef hi, LLVMValueRef step);
void cpu_loop_end(CpuCode *e, CpuLoop *l);

void cpu_emit_block(CpuCode *e, const TileBlock *b);
LLVMValueRef cpu_uniform(CpuCode *e, const TileNode *n);       /* an index that follows from sizes, anywhere in a function */
bool cpu_begin(CpuCode *e);                             /* is the kernel covered? Then its values are numbered */
void cpu_end(CpuCode *e);
void cpu_set_groups(CpuCode *e, LLVMValueRef g);        /* the group's place in the grid, of its number */
void cpu_begin_function(CpuCode *e, const char *name, LLVMTypeRef type);
LLVMValueRef cpu_fixed_begin(CpuCode *e, const char *name);    /* makes e->fixed, to be told at the end */
void cpu_fixed_end(CpuCode *e, LLVMValueRef fixed);
void cpu_set_strides(CpuCode *e, Val *v, const TileType *t);   /* those that its type knows */
LLVMValueRef cpu_size(CpuCode *e, Sym name);            /* of the launch; NULL: there is none */
LLVMValueRef cpu_groups(CpuCode *e, int axis);          /* of the launch */

/* ---- cpu_control.c: blocks in blocks ---- */
void cpu_control(CpuCode *e, const TileNode *n);        /* for, if, while */
void cpu_settle(CpuCode *e, const TileNode *n);         /* what n and its blocks use has buffers, and the open cluster is done */
void cpu_fill_tile(CpuCode *e, TileRef v, LLVMValueRef to);
bool cpu_trees_stay(CpuCode *e, const TileBlock *b);    /* else it is refused */

/* ---- cpu_eval.c: values of tiles in vectors ---- */
int64_t cpu_tile_bytes(const TileType *t);              /* of a buffer of its lanes, with room for a vector behind it */
int64_t cpu_level_elements(const CpuCode *e, const TileType *tree);    /* of one level of a tree */
int cpu_levels(const CpuCode *e);                       /* of a tree */
LLVMValueRef cpu_lanes(CpuCode *e, TileRef v, const Spot *p);
LLVMValueRef cpu_raw(CpuCode *e, TileRef v, const Spot *p);
LLVMValueRef cpu_step(CpuCode *e, OpId op, DType dt, LLVMValueRef a, LLVMValueRef b, int width);   /* rounded to the dtype */
LLVMValueRef cpu_rounded(CpuCode *e, DType dt, LLVMValueRef lanes, int width);
LLVMValueRef cpu_identity(CpuCode *e, OpId reduction, DType dt, int width);        /* in lanes */
LLVMValueRef cpu_fill(CpuCode *e, DType dt, const TileNode *n);     /* what the node has for elements outside its view, raw */
LLVMValueRef cpu_scalar(CpuCode *e, const TileNode *n);    /* a node of rank 0, in lanes */
LLVMValueRef cpu_map_lanes(CpuCode *e, const TileNode *n);     /* of rank 0 and e->width lanes */

/* ---- cpu_access.c: elements of memory ---- */
LLVMValueRef cpu_load_strip(CpuCode *e, const TileNode *n, const Spot *p);         /* raw lanes of a load */
LLVMValueRef cpu_gather_strip(CpuCode *e, const TileNode *n, const Spot *p);       /* and of a gather */
LLVMValueRef cpu_place(CpuCode *e, const TileNode *n, const Spot *p);              /* where a load or store finds its first element */
void cpu_store(CpuCode *e, const TileNode *n, TileRef v, const Spot *p);           /* of a store node's strip */
void cpu_atomic(CpuCode *e, const TileNode *n, TileRef v, const Spot *p);
/* An atomic or update of one element, at once: what was there. expected: what must be there for a change, or NULL. */
LLVMValueRef cpu_update(CpuCode *e, const TileNode *n, DType dt, LLVMValueRef place, LLVMValueRef lane, LLVMValueRef expected);
LLVMValueRef cpu_expected(CpuCode *e, const TileNode *n, LLVMValueRef (*lanes)(CpuCode *e, TileRef v));    /* of an update; NULL: nothing is */
/* An update by one lane, which gets what was there. who: does it take place? NULL: yes. */
void cpu_take(CpuCode *e, const TileNode *n, LLVMValueRef who);
/*
 * all && an access lies within its view, along all axes but `except` (-1: none), of which its place is no more than not negative.
 * upto: how much of the block is taken along an axis, NULL: all; there may be none.
 */
LLVMValueRef cpu_fits(CpuCode *e, const TileNode *n, int except, const LLVMValueRef *upto, LLVMValueRef all);
void cpu_ask(CpuCode *e, LLVMValueRef place, int cache);    /* the line of a place will be wanted soon, in the first or the second cache */
LLVMValueRef cpu_room(CpuCode *e, const TileNode *n, int axis);                    /* elements from an access's place to the end of its view */
/* 0 <= from + lane < hi, in all lanes only if `all` (NULL: so it is); counts: from is never negative */
LLVMValueRef cpu_lane_mask(CpuCode *e, LLVMValueRef from, LLVMValueRef hi, bool counts, LLVMValueRef all);
LLVMValueRef cpu_flat(CpuCode *e, const TileType *t, const Spot *p, int *stride);  /* row-major place, and that of the next lane after it */
LLVMValueRef cpu_load_flat(CpuCode *e, DType dt, LLVMValueRef base, LLVMValueRef at, int stride);
void cpu_store_flat(CpuCode *e, DType dt, LLVMValueRef base, LLVMValueRef at, LLVMValueRef lanes, LLVMValueRef mask);

/* ---- cpu_gather.c: clusters ---- */
const TileNode *cpu_root(TileRef view);                 /* the memory that it is a part of */
static inline bool cpu_same(TileRef a, TileRef b) { return a.node == b.node && a.index == b.index; }
void cpu_sink(CpuCode *e, const TileNode *n, TileRef v);        /* n NULL: v gets a buffer */
void cpu_stage(CpuCode *e, TileRef v, const struct Stage *stage, LLVMValueRef to);      /* v lies there, as a matrix unit takes it */
void cpu_need(CpuCode *e, TileRef v);                   /* v has a buffer, or form, after the next cpu_close */
bool cpu_is_virtual(const TileNode *n);                 /* computed where it is used */
static inline bool cpu_reads(const TileNode *n) { return n->op == TOP_load || n->op == TOP_gather; }    /* a tile from memory */
bool cpu_is_cheap(const TileNode *n);                   /* and never worth a buffer */
bool cpu_has_shape(const Cluster *c, const TileType *t, int axis);      /* may a sink of a tile, summed over an axis or -1, join? */
bool cpu_in_tree(CpuCode *e, TileRef v, const TileNode *part);          /* is a node computed for v? */
void cpu_forget_load(CpuCode *e, const TileNode *n);    /* it does not wait any more */

/* ---- cpu_walk.c: their code ---- */
/* What the open cluster's code is made of, for those who walk it in another way. */
/* Along an axis: up to where no access needs a mask, and where anything is seen; along the others that, NULL: all of the shape. */
typedef struct Ends { LLVMValueRef plain, end, outer[TILE_RANK_MAX]; } Ends;
Ends cpu_find_ends(CpuCode *e, const Cluster *c);
void cpu_begin_sink(CpuCode *e, Sink *s);
void cpu_end_sink(CpuCode *e, const Sink *s);
void cpu_sink_strip(CpuCode *e, Cluster *c, Sink *s);   /* a store, an atomic, a push or a tile for a buffer: in the strip at hand */
int cpu_cluster_cost(const Cluster *c);                 /* instructions of an element */
LLVMValueRef cpu_part_of(CpuCode *e, LLVMValueRef x, int from, int n);     /* lanes from .. from + n of a vector */
void cpu_begin_push(CpuCode *e, Sink *s);               /* node and v are set */
void cpu_end_push(CpuCode *e, const Sink *s);
/*
 * A load gets its buffer now, in a walk of its own.  to NULL: a new one.  panel: 0, or columns that lie together, row after row,
 * before the next ones; it divides the tile's.
 */
void cpu_buffered(CpuCode *e, const TileNode *n, LLVMValueRef to, int panel);
LLVMValueRef cpu_packed_at(CpuCode *e, const TileType *t, const Spot *p, int panel);   /* place of an element in such a buffer */
void cpu_close(CpuCode *e);                             /* emit the open cluster */
void cpu_total(CpuCode *e, const TileNode *n);

/* ---- cpu_pick.c ---- */
void cpu_pick(CpuCode *e, const TileNode *n);           /* gather */

/* ---- cpu_turn.c: rows become columns ---- */
bool cpu_turns(const CpuCode *e, TileRef v);            /* is v a transposed tile that vectors can turn, and has no buffer? */
void cpu_turn(CpuCode *e, const TileNode *n, LLVMValueRef to, int panel);      /* it gets its buffer now, as cpu_buffered says */

/* ---- cpu_keep.c: operands of products, packed, and what groups share of them ---- */
LLVMValueRef cpu_keep_begin(CpuCode *e);                /* before all groups: what is kept, and the bytes of it, behind the fixed ones */
LLVMValueRef cpu_keep_bytes(CpuCode *e);                /* the same bytes in another function */
LLVMValueRef cpu_keep_group(CpuCode *e, LLVMValueRef place);   /* the number of the group that is at a place in the order of groups */
bool cpu_is_packed(CpuCode *e, const TileNode *dot, int operand);      /* does it pack this operand itself? */
LLVMValueRef cpu_packed(CpuCode *e, const TileNode *dot, int operand);  /* where the elements are, in panels */
int cpu_panel(const CpuCode *e, const TileNode *dot, int operand);     /* columns of a panel; 0: it has none */

/* ---- cpu_sums.c: loops that add products up ---- */
void cpu_sums_begin(CpuCode *e, const TileNode *loop);         /* sets e->sums */
void cpu_sums_round(CpuCode *e, LLVMValueRef lo, LLVMValueRef i, LLVMValueRef next, LLVMValueRef hi);   /* in a round's code, before the block's */
void cpu_sums_end(CpuCode *e, const TileNode *loop);           /* behind the loop: what is left of the store */

/* ---- cpu_units.c: products on matrix units ---- */
int cpu_unit_parts(const CpuCode *e, const TileNode *dot);     /* bf16 of each number, where units may compute it; else 0 */
bool cpu_units_settle(CpuCode *e, const TileNode *dot);        /* so they may: its operands have buffers, or lie where they can be packed */
/* Packs what the products of a loop take from outside; e->ahead.n before, which is set again behind it. */
int cpu_units_ahead(CpuCode *e, const TileNode *loop);
bool cpu_unit_begins(CpuCode *e, const TileNode *dot);         /* ... and it adds to nothing */
/* The product, and what follows it is code for when it is refused; what goes on behind that code. acc_is_map: what it adds to goes to `out`. */
LLVMBasicBlockRef cpu_unit_dot(CpuCode *e, const TileNode *dot, bool acc_is_map, LLVMValueRef out);
/* The load that a right operand is, if groups may share it packed, and the bytes of that; NULL: it is none. */
const TileNode *cpu_unit_keeps(CpuCode *e, const TileNode *dot, int64_t *bytes);
LLVMValueRef cpu_unit_fill(CpuCode *e, const TileNode *dot, LLVMValueRef to);
LLVMValueRef cpu_unit_kept(CpuCode *e, const TileNode *dot, const TileNode *load);     /* cpu_keep.c: where it is; NULL: it is not kept */

/* ---- cpu_dot.c ---- */
/* push: the node after it, which takes its result and nobody else does, or NULL. */
void cpu_dot(CpuCode *e, const TileNode *n, const TileNode *push);
int cpu_dot_width(const CpuCode *e, const TileNode *n);        /* lanes of its vectors, but for a narrow rest */
void cpu_dot_settle(CpuCode *e, const TileNode *n);    /* its operands have buffers, or lie where it can read them */

#endif
