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

/* After cpu_dot_settle: operand 0, whose elements are taken one by one, or 1, whose rows are vectors. */
Matrix dot_operand(CpuCode *e, const TileNode *n, int operand);
/* The memory of its result, which may be that of the sums that it adds to: each block reads its part of them before it writes it. */
LLVMValueRef dot_result(CpuCode *e, const TileNode *n);

#endif
