/*
 * gpu_rows.h - what the files of whole rows in registers share (gpu_rows*.c).
 */
#ifndef TSR_CODEGEN_GPU_ROWS_H
#define TSR_CODEGEN_GPU_ROWS_H

#include "codegen/gpu_impl.h"

enum { ROW_VECTOR = 16, ROW_WIDEST = 8 };       /* bytes of a vector, and of an element that goes in one */

/* The row of this thread, where its chunk begins, and which of the chunk's threads it is. */
typedef struct RowPlace { LLVMValueRef row, column, lane; } RowPlace;

static inline DType row_dtype(const TileNode *access) { return (DType)tile_type(access->in[0])->dtype; }        /* in memory */

static inline int64_t row_bytes(DType dt) { return (int64_t)raw_size(dt); }
static inline LLVMValueRef row_wide(CpuCode *e, LLVMValueRef x) { return LLVMBuildZExt(e->u->builder, x, i64_type(e), ""); }

/* ---- gpu_rows_find.c ---- */
bool rows_has_loops(const TileKernel *k, int often);            /* are rows gone over in pieces, so often? */

/* ---- gpu_rows.c ---- */
int64_t rows_pitch(const WholeRows *w, int64_t bytes);          /* bytes of a chunk in shared memory: those of the next lie on other banks */
LLVMValueRef rows_octet(CpuCode *e);                            /* which of the group's chunks is this thread's */
static inline int rows_registers(const CpuCode *e) { return e->gpu->whole.chunk / e->gpu->whole.each; }        /* of a tile that a thread has */
RowPlace rows_place(CpuCode *e);                                /* of this thread */
Spot rows_spot(CpuCode *e, const RowPlace *p, int number);      /* of the element in a register */
int64_t rows_behind_first(const CpuCode *e, int number);        /* how far that is from the thread's first one */

/* ---- gpu_rows_sums.c ---- */
LLVMValueRef rows_identity(CpuCode *e, const Sink *s);          /* of the sink's reduction */
LLVMValueRef rows_sink_join(CpuCode *e, const Sink *s, LLVMValueRef a, LLVMValueRef b);
/* Do the halves of a chunk follow each other in the sum? Then its elements are kept until both are known. */
bool rows_in_turn(const CpuCode *e, const Sink *s);
/* What the lanes of a chunk add up to, or of its two halves: ((0+4)+(2+6))+((1+5)+(3+7)), the same in all of its threads. */
LLVMValueRef rows_chunk_sum(CpuCode *e, const Sink *s, LLVMValueRef *slot);
/* The threads' sums together, from the slots of each sink: the results of its reductions. */
void rows_join(CpuCode *e, const Cluster *c, LLVMValueRef *const *slot);
/* Sums of `chunks` chunks of each row, `most` of them at most and known to be so many, that lie in `meet`, to the sink's buffer. */
void rows_join_chunks(CpuCode *e, const Sink *s, LLVMValueRef meet, LLVMValueRef chunks, int most);

/* ---- gpu_rows_blocks.c: rows that several blocks of threads have ---- */
bool rows_may_divide(const CpuCode *e, bool tensor);    /* may a kernel whose schedule says so be done in this way? */
LLVMValueRef rows_first_chunk(CpuCode *e);              /* of the row, that this block has: an i32 */
void rows_enter_blocks(CpuCode *e);                     /* what the kernel begins with */
/* This block's sum of chunk `at` of the row's, an i32, goes to all blocks; thread: this one's number among those that have it, four at least. */
void rows_give(CpuCode *e, const Sink *s, LLVMValueRef meet, LLVMValueRef at, LLVMValueRef thread, LLVMValueRef x);
void rows_meet_blocks(CpuCode *e);                              /* all blocks have begun; and they do so many rows */
void rows_await(CpuCode *e, int64_t bytes);             /* so many bytes of sums have come to this block */

/* ---- gpu_rows_loose.c: sums of pieces in any order ---- */
void rows_find_loose(WholeRows *w, const TileKernel *k);
bool rows_is_loose(const CpuCode *e, const Sink *s);
/* This thread's part of a piece, to its part of those before; in order: its chunk's sum, to those of the row's others. */
void rows_add_loose(CpuCode *e, const Sink *s, LLVMValueRef x);

/* ---- gpu_rows_vectors.c ---- */
bool rows_by_vectors(const CpuCode *e, const TileNode *n);      /* may eight threads access a chunk of it in vectors? */
/* Is it so, and are all rows of the access aligned as vectors? The same in all threads. */
LLVMValueRef rows_are_aligned(CpuCode *e, const TileNode *n, LLVMValueRef is);
bool rows_end_with_vectors(const TileNode *n);                  /* is it known that what lies in its view is whole vectors, and else zeros? */
int rows_vectors(const CpuCode *e, const TileNode *n);          /* a thread's of a chunk */
/* Vector i of this thread in memory, and in its chunk's room. */
LLVMValueRef rows_vector_place(CpuCode *e, const TileNode *n, const RowPlace *p, int i);
/* `at`, or, where vector i of the chunk `further` elements on is past the row's end, the row's first. */
LLVMValueRef rows_vector_within(CpuCode *e, const TileNode *n, const RowPlace *p, int i, int64_t further, LLVMValueRef at);
LLVMValueRef rows_stage_vector(CpuCode *e, LLVMValueRef stage, const RowPlace *p, int i);
/* Elements of some registers, `wide` of them from r on, raw, to their place in that room. */
void rows_stage_store(CpuCode *e, DType dt, const RowPlace *p, LLVMValueRef *raw, int r);
/* This thread's elements of that room are the load's value. */
void rows_take(CpuCode *e, const TileNode *n, const RowPlace *p, LLVMValueRef stage);

/* Rows that are the same for all rows of a group, in its shared memory. */
typedef struct Near { const TileNode *node; LLVMValueRef stage; } Near;
typedef Vec(Near) Nears;

/* What the kernel will load as near rows is sent for, before it comes to its first tile of whole rows. */
void rows_send_near(CpuCode *e);
/* All vectors that a cluster loads become registers, but for near rows, whose elements are taken for the register at hand. */
void rows_load(CpuCode *e, const Cluster *c, const RowPlace *p, Nears *near);
void rows_take_near(CpuCode *e, const Nears *near, const RowPlace *p, int r);
void rows_forget(CpuCode *e, const Cluster *c);
/* Raw elements of each register, NULL where they are in place already, turned and stored; the vector that ends with register r stored. */
void rows_store_turned(CpuCode *e, const TileNode *n, const RowPlace *p, LLVMValueRef *raw);
void rows_store_run(CpuCode *e, const TileNode *n, const RowPlace *p, LLVMValueRef *raw, int r);

/* ---- gpu_rows_held.c: long rows that stay in shared memory ---- */
bool rows_is_held(const CpuCode *e, const TileNode *load);
void rows_held_memory(CpuCode *e);
/* Does a cluster take such rows? Then *may, whether it may go by vectors, says too that they are there, or it is the one that brings them. */
bool rows_may_take(CpuCode *e, const Cluster *c, LLVMValueRef *may);
void rows_take_held(CpuCode *e, const Cluster *c, const RowPlace *p);   /* this round's pieces are the loads' values */

/* ---- gpu_rows_stay.c: rows that come to blocks that stay ---- */
void rows_find_stay(WholeRows *w, const TileKernel *k);
bool rows_stays(const CpuCode *e, const TileNode *load);
int rows_stay_beside(const CpuCode *e);                         /* blocks of a processor, once the kernel is known */
void rows_stay_memory(CpuCode *e);
LLVMValueRef rows_parity(CpuCode *e);                           /* of the row at hand among the block's, an i32 */
LLVMValueRef rows_stay_stage(CpuCode *e);                       /* where this thread's chunk is turned */
/* For operands that are not aligned as vectors: this thread's chunk of a row to its room, or from where it was turned to the row. */
void rows_bring_by_elements(CpuCode *e, const TileNode *load, const RowPlace *p, LLVMValueRef stage);
void rows_store_by_elements(CpuCode *e, const TileNode *store, const RowPlace *p);
void rows_take_stay(CpuCode *e, const Cluster *c, const RowPlace *p);   /* this group's rows are the loads' values */

/* ---- gpu_rows_ahead.c: pieces of long rows ---- */
bool rows_is_piece(const CpuCode *e, const TileNode *load);     /* of a row, at the place that its loop's number says? */
bool rows_come_ahead(const CpuCode *e, const TileNode *load);   /* does the piece of the loop's next round come during this one? */
void rows_ahead_memory(CpuCode *e);
void rows_bring(CpuCode *e, const Cluster *c, const RowPlace *p);       /* this round's pieces are the loads' values */
void rows_end_ahead(CpuCode *e, const Cluster *c);              /* nothing is under way */

#endif
