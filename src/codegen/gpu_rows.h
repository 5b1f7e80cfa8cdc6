/*
 * gpu_rows.h - what the files of whole rows in registers share (gpu_rows.c, gpu_rows_ahead.c).
 */
#ifndef TSR_CODEGEN_GPU_ROWS_H
#define TSR_CODEGEN_GPU_ROWS_H

#include "codegen/gpu_impl.h"

enum { ROW_VECTOR = 16 };       /* bytes */

/* The row of this thread, where its chunk begins, and which of the eight of the chunk it is. */
typedef struct RowPlace { LLVMValueRef row, column, lane; } RowPlace;

static inline DType row_dtype(const TileNode *access) { return (DType)tile_type(access->in[0])->dtype; }        /* in memory */

bool rows_by_vectors(const CpuCode *e, const TileNode *n);      /* may eight threads access a chunk of it in vectors? */
int rows_vectors(const CpuCode *e, const TileNode *n);          /* a thread's of a chunk */
int64_t rows_pitch(const WholeRows *w, int64_t bytes);          /* bytes of a chunk in shared memory: those of the next lie on other banks */
LLVMValueRef rows_octet(CpuCode *e);                            /* this thread's eight */
/* Vector i of this thread in memory, and in its chunk's room. */
LLVMValueRef rows_vector_place(CpuCode *e, const TileNode *n, const RowPlace *p, int i);
LLVMValueRef rows_stage_vector(CpuCode *e, LLVMValueRef stage, const RowPlace *p, int i);
/* This thread's elements of that room are the load's value. */
void rows_take(CpuCode *e, const TileNode *n, const RowPlace *p, LLVMValueRef stage);

/* ---- gpu_rows_ahead.c: pieces of long rows ---- */
bool rows_come_ahead(const CpuCode *e, const TileNode *load);   /* does the piece of the loop's next round come during this one? */
void rows_ahead_memory(CpuCode *e);
void rows_bring(CpuCode *e, const Cluster *c, const RowPlace *p);       /* this round's pieces are the loads' values */
void rows_end_ahead(CpuCode *e, const Cluster *c);              /* nothing is under way */

#endif
