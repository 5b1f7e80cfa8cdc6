/*
 * gpu_impl.h - what code for GPUs adds to that for CPUs (cpu_impl.h).
 *
 * Both walk the same kernel in the same clusters and compute elements in the same way; what differs is who does it.  Of a
 * group's work each thread does a share; what clusters hand to each other lies in shared memory, and a fence stands between
 * who wrote there and who reads.  Indices, scalars and the control of a kernel are each thread's own.
 */
#ifndef TSR_CODEGEN_GPU_IMPL_H
#define TSR_CODEGEN_GPU_IMPL_H

#include "codegen/cpu_impl.h"
#include "base/arena.h"
#include "codegen/gpu.h"
#include "ir/tile/vary.h"

enum { GPU_LEVELS = 26, GPU_WARP = 32 };        /* subtrees that wait in a tree: of 2^26 chunks */

/*
 * Tiles of whole rows in registers (gpu_rows.c): of [rows, columns] a row is chunks of at most 256 elements, and of each chunk eight
 * neighbouring threads have every eighth element. A chunk is what a sum adds up in one go, or one of its two halves.
 */
/* A sum over the pieces of a row of which each thread has a part of its own until all of them are gone over. */
typedef struct LooseSum { const TileNode *tree, *reduce, *push, *total; LLVMValueRef slot; } LooseSum;     /* slot: in order, of all chunks' sums */
enum { LOOSE_MOST = 8, SENT_MOST = 4, HELD_MOST = 2, STAY_MOST = 2, STAY_SLOTS = 2 };

typedef struct WholeRows {
    int32_t rows, columns;
    int chunk, chunks;          /* elements of a chunk, 0: the kernel has no such tiles; of a row */
    int halves;                 /* chunks that are added up in one go: 1 or 2 */
    int blocks, here;           /* of threads that have a row together (gpu_rows_blocks.c), and each one's chunks of it */
    LLVMValueRef meetings;      /* their barriers in shared memory, one for each cluster of sums, */
    int nmeetings;              /* so many so far */
    bool met;                   /* have all of them begun? */
    int run;                    /* elements of a thread that lie side by side: 1, or under fast numerics as many as vectors have */
    int wide, each;             /* lanes of a thread that lie side by side, 1 or 2 (2: run and halves are 1), and so threads of a chunk, 8 or 4 */
    int64_t pitch;              /* bytes of such a room */
    LLVMValueRef stage;         /* rooms where eight threads turn vectors into elements of their own */
    LLVMValueRef ahead;         /* rooms for pieces of long rows that are under way (gpu_rows_ahead.c); NULL: there are none */
    int kept;                   /* tiles so far */
    bool ragged;                /* in the way at hand rows end before their chunks do, with a vector */
    bool begun;                 /* has the kernel come to its first tile of whole rows? */
    const TileNode *sent[SENT_MOST];    /* loads of one row for all rows that were sent for then, */
    LLVMValueRef sent_to[SENT_MOST];    /* and this thread's chunk of where they land */
    int nsent;
    LLVMValueRef held;          /* room for rows that stay in shared memory (gpu_rows_held.c); NULL: there are none */
    LLVMValueRef is_sent;       /* a slot: have they been sent for? */
    const TileNode *held_load[HELD_MOST];       /* the first load of each */
    int nheld;
    bool two_held;              /* is there room for two groups? */
    const TileNode *stay[STAY_MOST];    /* loads of rows that come to blocks that stay (gpu_rows_stay.c) */
    int nstay;                  /* 0: a block does one group */
    LLVMValueRef ring, full;    /* their slots, and the barriers of those; */
    LLVMValueRef turn;          /* a slot for the number of the row at hand among the block's; */
    LLVMValueRef sent_for;      /* an i1: are rows sent for? */
    LooseSum loose[LOOSE_MOST];
    int nloose;
    int most;                   /* those are in order: chunks of a row at most; 0: in any order */
} WholeRows;

typedef struct GpuCode {
    int threads;
    LLVMValueRef thread;        /* this one's number in the group, an i32 */
    bool clean;                 /* has nobody touched the group's memory since the last barrier? */
    TileVary vary, in_warps;    /* of a group of several lanes, and of the warps of it */
    Vec(const TileNode *) vectors;      /* accesses whose strips at hand are aligned as vectors */
    Vec(const TileNode *) taken;        /* accesses of lanes that went with one before them */
    int at_register;            /* of the fragments that the strip at hand belongs to; -1: it is of no fragment */
    int at_line;                /* and of the columns that go with them */
    int32_t fragment[2];        /* extents of those */
    bool staging;               /* is one operand of a product under way, and the memory of the other one free? */
    bool sums_rows;             /* does the kernel sum along the rows of tiles? */
    bool units;                 /* does the kernel have a product for matrix units? Then fragments are theirs */
    int run[2];                 /* rows and columns that a thread of a product by threads has side by side */
    bool parks;                 /* do sums wait in shared memory (gpu_park.c)? */
    bool in_order;              /* are there long formulas abreast, whose order the assembler is to keep? */
    bool copies;                /* does the program copy asynchronously? Then nothing else does */
    WholeRows whole;
    uint8_t *kept;              /* by node id: may its first result stay a fragment, whatever is done with it? 0: not asked, 1: no, 2: yes */
    const Cluster *unmasked;    /* at hand, where its masks leave out nothing; else NULL */
    const TileBlock *decided;   /* the loop's body at hand of whose masks it is known whether they leave out nothing, `keeps`; else NULL */
    bool keeps;
    Arena arena;                /* lists of registers */
    struct Roles *roles;        /* of a product by warpgroups (gpu_roles.h), whose consumers are the threads here; else NULL */
} GpuCode;

/*
 * How the elements of a tile [rows, columns] lie in the registers of a group.  Of products by matrix units: the fragments of mma and of
 * wgmma. A warp has 16 rows, again after those of the other warps that lie above each other, and all columns, or its share of
 * them where warps stand side by side.  Of products by threads: a thread has side[0] by side[1] elements, runs of which are as far apart as there are
 * threads between them; threads beyond the last element have what others have.
 *
 * A column, [rows, 1] or [rows], lies beside the products of as many rows: a thread has the elements of the rows that it has there.
 */
typedef struct Fragment {
    int32_t extent[2];
    int side[2];                /* 0: of matrix units, or whole rows */
    int run[2];                 /* so many of a side lie side by side */
    int whole;                  /* of whole rows: a thread's registers; else 0 */
    int high, wide;             /* warps above each other, side by side */
    int rows, columns;          /* 16-row and 8-column pieces of a warp; four registers each. columns 0: a column, two registers for 16 rows */
} Fragment;
enum { GPU_SIDE = 8, GPU_OCTET = 8 };
enum { PIECE_ROWS = 16, PIECE_COLUMNS = 8, ROW_LANES = 4 };      /* what a matrix unit leaves; so many threads have a row of it */

/* How an operand of a matrix unit lies in shared memory: raw elements in rows of `pitch`. */
typedef struct Stage {
    int pitch;
    bool turned;                /* rows of it are columns of the tile */
    int axis;                   /* of the tile: that of the steps */
    LLVMValueRef steps;         /* beyond so many there are zeros; NULL: all count */
    bool by_copies;             /* 16 bytes at a time are copied asynchronously, where they can be */
} Stage;

static inline LLVMTypeRef i32_type(const CpuCode *e) { return LLVMInt32TypeInContext(e->u->context); }
static inline LLVMTypeRef i64_type(const CpuCode *e) { return LLVMInt64TypeInContext(e->u->context); }
static inline LLVMValueRef i32_number(const CpuCode *e, int64_t v) { return LLVMConstInt(i32_type(e), (uint64_t)v, true); }

/* ---- gpu.c: one thread, and threads together ---- */
bool gpu_writes(const TileBlock *b, const TileNode *memory);    /* may something in the block write a parameter or a buffer? */
bool gpu_node(CpuCode *e, const TileNode *n);           /* false: the node is done as on CPUs */
LLVMValueRef gpu_lane(CpuCode *e);                      /* as an i64 */
void gpu_fence(CpuCode *e);                             /* all see what was written; nothing on CPUs */
void gpu_written(CpuCode *e);                           /* the group's memory is not what it was */
LLVMValueRef gpu_load_if(CpuCode *e, DType dt, LLVMValueRef place, LLVMValueRef inside, LLVMValueRef fill);     /* raw */
void gpu_store_if(CpuCode *e, DType dt, LLVMValueRef place, LLVMValueRef inside, LLVMValueRef raw);
typedef struct GpuIf { LLVMBasicBlockRef done; } GpuIf;
GpuIf gpu_if(CpuCode *e, LLVMValueRef is);
void gpu_end_if(CpuCode *e, GpuIf *i);
/* The value of the lane of this warp whose number differs by these bits; of the lane with a number (an i32). */
LLVMValueRef gpu_other(CpuCode *e, LLVMValueRef x, int bits, LLVMValueRef mask);
LLVMValueRef gpu_any(CpuCode *e, LLVMValueRef is);      /* an i1: is it so for any thread of the warp, all of which are here? */
LLVMValueRef gpu_from(CpuCode *e, LLVMValueRef x, LLVMValueRef lane, LLVMValueRef mask);

/* ---- gpu_together.c: what threads of a group do together ---- */

/* TOP_lane_reduce, TOP_shuffle, TOP_match and TOP_uniform; false: refused. */
bool gpu_together(CpuCode *e, const TileNode *n);

/* ---- gpu_walk.c: a group's work among its threads ---- */
void gpu_cluster(CpuCode *e, Cluster *c);
void gpu_copy_tile(CpuCode *e, const TileType *t, LLVMValueRef to, LLVMValueRef from);
CpuLoop cpu_spread(CpuCode *e, int64_t n, int64_t step);       /* from 0 to n: on GPUs this thread's share of it */
CpuLoop gpu_share(CpuCode *e, LLVMValueRef n);          /* the same of a number of the run */
void gpu_decode(CpuCode *e, LLVMValueRef number, const int32_t *extent, int rank, int except, LLVMValueRef *at);

/* ---- gpu_shares.c: who has which elements of a tile ---- */
/* This thread's number in its warp, and the warp's place among those above each other and side by side: i32s. */
typedef struct Warp { LLVMValueRef lane, high, wide; } Warp;
Warp gpu_warp(CpuCode *e, const Fragment *f);
bool gpu_fragment_of(const CpuCode *e, const TileType *t, Fragment *f);        /* false: no tile of this shape lies so */
static inline int gpu_registers(const Fragment *f)
{
    return f->whole ? f->whole : f->side[0] ? f->side[0] * f->side[1] : f->columns ? 4 * f->rows * f->columns : 2 * f->rows;
}
Spot gpu_register_spot(CpuCode *e, const Fragment *f, int number);
/* The register of v's fragment that is this spot, if it goes with the one at hand; -1. */
int gpu_register_at(const CpuCode *e, TileRef v, const Spot *p);
bool gpu_is_column(const TileType *t);
bool gpu_has_rows(const CpuCode *e, const TileType *t);         /* do warps have whole rows of it, so that they can be summed? */
bool gpu_sums_to_column(const CpuCode *e, const TileType *t);   /* the same of one whose sums are a column in registers */

/* ---- gpu_fragment.c: tiles in registers ---- */
void gpu_enter_register(CpuCode *e, const Fragment *f, int number);     /* what is computed next is the thread's register of that number */
/* The thread's number so far, which becomes a new one: between the walks of a chain places of elements take no registers. */
LLVMValueRef gpu_enter_thread(CpuCode *e);
bool gpu_is_of_units(const CpuCode *e, const TileType *t);      /* does a tile lie in the registers of units, or a column beside them? */
LLVMValueRef *gpu_fragment_values(CpuCode *e, TileRef v, const Fragment *f);   /* the registers of any tile */
LLVMValueRef gpu_register_of(CpuCode *e, TileRef v, const Fragment *f, int number);     /* one of them, computed here, in a walk */
/* A row in memory that lies beside the columns of such a tile is in registers from here on. */
void gpu_keep_row(CpuCode *e, TileRef v, const TileType *beside);
void gpu_fragment_some(CpuCode *e, TileRef v, const Fragment *f, int first, int n, LLVMValueRef *x);   /* n of them */
bool gpu_made_of_registers(CpuCode *e, TileRef v);      /* is it in registers, or computed from what is? */
LLVMValueRef *gpu_fragment_now(CpuCode *e, TileRef v, int *n);         /* registers of a tile that is computed from what is known, n of them */
void gpu_columns_now(CpuCode *e, TileRef v);            /* the columns that v is computed from are in registers from here on */
void gpu_fragment_raw(CpuCode *e, TileRef v, const Fragment *f, LLVMValueRef *x);      /* the registers of such a tile as bits */
void gpu_set_fragment(CpuCode *e, TileRef v, LLVMValueRef *x);  /* and a buffer, where its uses ask for one. x becomes the kernel's */
bool gpu_store_fragment(CpuCode *e, TileRef v, LLVMValueRef to);        /* to a buffer. false: it has one, or is none */
/* Buffers for the fragments that a cluster uses in another way, for as long as it takes. */
typedef Vec(TileRef) FragmentBuffers;
void gpu_lend_buffers(CpuCode *e, const Cluster *c, FragmentBuffers *made);
void gpu_end_buffers(CpuCode *e, FragmentBuffers *made);
void gpu_turn_loads(CpuCode *e, const Cluster *c, FragmentBuffers *made);       /* gpu_turn.c: those across memory get buffers, too */
bool gpu_carries_fragment(const CpuCode *e, TileRef param);     /* does a loop keep it in registers? */
void gpu_fragment_begin(CpuCode *e, TileRef param, TileRef from);
void gpu_fragment_phis(CpuCode *e, TileRef param, LLVMBasicBlockRef before);
LLVMValueRef *gpu_fragment_next(CpuCode *e, TileRef param, TileRef yields);     /* the registers of the next round; NULL: they wait elsewhere */
void gpu_fragment_again(CpuCode *e, TileRef param, LLVMValueRef *next, LLVMBasicBlockRef from);
bool gpu_stays(CpuCode *e, TileRef v);                  /* may it be in registers alone, whatever is done with it? */
bool gpu_yields_fragment(const CpuCode *e, const TileBlock *b, int i); /* does a loop's block hand value i on in registers? */

/* ---- gpu_fragment_walk.c ---- */
bool gpu_keep_sinks(CpuCode *e, Cluster *c);    /* results of a cluster in fragments that may stay there; does another go to memory? */
bool gpu_in_fragments(CpuCode *e, const Cluster *c);    /* is the cluster one of tiles in registers? */
void gpu_walk_fragment(CpuCode *e, Cluster *c);

/* ---- gpu_park.c: sums that wait in shared memory ---- */
bool gpu_parks(const CpuCode *e, TileRef param);        /* does what a loop carries wait there? */
void gpu_park(CpuCode *e, TileRef param, TileRef from); /* its elements are those of `from` */
LLVMValueRef gpu_parked(CpuCode *e, TileRef v, int number);     /* an element of it, by its register */

/* ---- gpu_mask.c: masks that leave out nothing ---- */
LLVMValueRef gpu_masks_keep(CpuCode *e, const Cluster *c, const Fragment *f);  /* an i1: do all of a cluster? NULL: it has none that may */
/* The same of all of a loop's body, which no number of its nodes is known of yet. NULL: there are none, or it shows only later. */
LLVMValueRef gpu_masks_keep_all(CpuCode *e, const TileBlock *body);
int gpu_mask_leaves(const CpuCode *e, const TileNode *n);       /* the operand that a map is, where its mask leaves out nothing; 0: it is computed */

/* ---- gpu_abreast.c ---- */
/* What was emitted for each of some elements goes on abreast. last: of the block, before the first element, and behind each of them; NULL: none. */
void gpu_abreast(CpuCode *e, const LLVMValueRef *last, int elements);

/* Instructions of the formulas that v is computed by, from registers and memory on; fast ones are short, and count for one. */
enum { LONG_FORMULA = 24 };     /* from so many on the assembler is to keep their order */
int gpu_formula_length(CpuCode *e, TileRef v);

/* ---- gpu_assembly.c ---- */
/* Inline PTX; effects: it may not be left out or moved. */
LLVMValueRef gpu_assembly(CpuCode *e, LLVMTypeRef result, const char *text, const char *constraints, LLVMValueRef *in, int n, bool effects);
/* The same i32, but none that is known earlier: what follows from it is computed behind this, and takes no registers before. */
LLVMValueRef gpu_anew(CpuCode *e, LLVMValueRef x);
void gpu_assembly_pure(CpuCode *e, LLVMValueRef call);  /* it follows from its operands alone, and each lane's from its own */

/* ---- gpu_roles_ring.c ---- */
bool gpu_is_chain(const CpuCode *e);                    /* is it a kernel of several products by warpgroups (gpu_chain.h)? */
void roles_enter_register(CpuCode *e, int number);      /* tiles that came with the product have their element of this register */
void roles_take_all(CpuCode *e);                        /* those of all registers are there */
bool roles_store_shape(const CpuCode *e, const TileNode *n);   /* is a reshape but the shape of a store by tensor copies? */
bool roles_read_own(const CpuCode *e);                  /* does the kernel load from what it stores to? */

/* ---- gpu_chain.c ---- */
bool gpu_is_brought(const CpuCode *e, TileRef v);       /* a row beside a chain's block, or sums: it is there */
void chain_cluster(CpuCode *e, const Cluster *c);       /* products under way that a cluster uses have arrived */
void chain_value(CpuCode *e, TileRef v);                /* the same of what v is computed from */
bool chain_joins_late(CpuCode *e, const TileNode *reduce);     /* gpu_chain_late.c: do threads keep their sums of rows apart until the loop ends? */
void chain_arrive(CpuCode *e, int but);                 /* all of them but the last ones */
enum { GUESSES_MOST = 64, LEFT_BEHIND = 8, OF_ELEMENTS = 16 };        /* half of the elements are computed behind the wait */
/* The first elements of a tile that a cluster sums along rows, computed before a column is known (gpu_chain_guess.c): how many; 0: none are. */
int chain_guess(CpuCode *e, const Cluster *c, const Fragment *f, LLVMValueRef thread, TileRef *v, LLVMValueRef *x);
void chain_wait_within(CpuCode *e);                     /* before the last of such elements: the late product is waited for */

/* ---- gpu_rows.c: whole rows in registers ---- */
int gpu_rows_begin(GpuCode *g, const TileKernel *k, bool stay);     /* stay: blocks may */
int gpu_rows_beside(const CpuCode *e);    /* threads, where the kernel's tiles are whole rows; 0: they are not */
void gpu_rows_memory(CpuCode *e);                       /* what the walks need of the group's memory */
LLVMValueRef gpu_rows_group(CpuCode *e, LLVMValueRef block);    /* the group's number, of that of a block of threads */
bool gpu_rows_refuse(CpuCode *e, bool tensor);          /* does the schedule ask for what cannot be done here? */
bool gpu_rows_stay(CpuCode *e);                         /* all of such a kernel whose blocks stay; false: they do not */
void gpu_rows_apart(CpuCode *e, const Cluster *c);      /* before a cluster that all blocks of a row do, each for itself */
Spot gpu_rows_spot(CpuCode *e, int number);
bool gpu_has_whole_rows(const CpuCode *e, const Cluster *c);
bool gpu_is_kept_row(const CpuCode *e, const Cluster *c, const Sink *s);
void gpu_keep_rows(CpuCode *e, Cluster *c);             /* what is used again after the cluster, and is dear, stays in registers */
void gpu_walk_rows(CpuCode *e, Cluster *c);
/* Is the register's place in[k]? NULL: n asks something else. */
bool gpu_rows_tree(CpuCode *e, const TileNode *n);        /* a sum over pieces, whose threads meet at its end; false: it is none */
LLVMValueRef gpu_rows_is_place(CpuCode *e, const TileNode *n, LLVMValueRef *in);
void gpu_leave_registers(CpuCode *e);
void gpu_warp_fence(CpuCode *e);                        /* the threads of a warp see what each other wrote */

/* ---- asynchronous copies (gpu_assembly.c) ---- */
/* 16 bytes from global to shared memory, at some time before a wait. shared: groups beside this one want them too, so L1 keeps them. */
void gpu_copy_piece(CpuCode *e, LLVMValueRef to, LLVMValueRef from, bool shared);
void gpu_copy_part(CpuCode *e, LLVMValueRef to, LLVMValueRef from, LLVMValueRef bytes);      /* so many of them, and zeros */
void gpu_commit_copies(CpuCode *e);                     /* what has been sent for is a batch */
void gpu_wait_copies(CpuCode *e, int but);              /* all batches of this thread but the last `but` have landed */

/* ---- gpu_lane_vectors.c ---- */

bool gpu_lane_vector(CpuCode *e, const TileNode *n);    /* a scalar access of lanes goes with its neighbours; false: it has none */

/* ---- gpu_copies.c: copies that the kernel asks for ---- */

void gpu_copy_view(CpuCode *e, const TileNode *n);
void gpu_copy_batch(CpuCode *e, const TileNode *n);         /* a batch of them, or the wait for batches */

/* ---- gpu_dot.c, gpu_matrix.c: products by threads, by matrix units ---- */
void gpu_find_runs(CpuCode *e);         /* before there are fragments */
bool gpu_dot(CpuCode *e, const TileNode *n);
bool gpu_is_matrix(const CpuCode *e, const TileNode *n);        /* is the product one of matrix units? */
void gpu_matrix(CpuCode *e, const TileNode *n);
void gpu_stage_strip(CpuCode *e, const Sink *s);
bool gpu_is_operand(CpuCode *e, TileRef v);             /* is it a block from memory, perhaps turned, that only products of matrix units use? */
void gpu_stage_sink(CpuCode *e, Sink *s);               /* one that gives such a block a place gives it that of an operand */

#endif
