/* cpu_dot.h - where the operands and the result of a dot lie. */
#ifndef TSR_CODEGEN_CPU_DOT_H
#define TSR_CODEGEN_CPU_DOT_H

#include "codegen/cpu_impl.h"

enum { DOT_WIDE = 2 };                  /* vectors of a block's rows */

/*
 * Elements of an operand lie at base[row * down + column * across]; of a right one that is for the first column of a block, and its other
 * columns follow.
 */
typedef struct Matrix { LLVMValueRef base, down, across; } Matrix;

/* After cpu_dot_settle: operand 0, whose elements are taken one by one, or 1, whose rows are vectors; of so many steps. */
Matrix dot_operand(CpuCode *e, const TileNode *n, int operand, LLVMValueRef steps);
/* The memory of its result, which may be that of the sums that it adds to: each block reads its part of them before it writes it. */
LLVMValueRef dot_result(CpuCode *e, const TileNode *n);
void dot_need_operands(CpuCode *e, const TileNode *n);         /* those not read where they lie, or packed, will have buffers */
bool dot_adds_to_map(CpuCode *e, const TileNode *n);    /* is acc one elementwise op, for this product alone, of tiles with buffers? */
/*
 * How many steps are made of the *all that there are: those behind the ends of both operands, of zeros times zeros, do no more than turn a sum of
 * -0 to 0.
 */
LLVMValueRef dot_steps(CpuCode *e, const TileNode *n, LLVMValueRef *all);

#endif
