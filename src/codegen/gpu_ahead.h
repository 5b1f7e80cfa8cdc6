/* gpu_ahead.h - operands of products in shared memory (gpu_ahead.c). */
#ifndef TSR_CODEGEN_GPU_AHEAD_H
#define TSR_CODEGEN_GPU_AHEAD_H

#include "codegen/gpu_impl.h"

enum { GAP_BYTES = 16, WIDE_GAP_BYTES = 32 };   /* between rows; of f64 for units, whose half warps take four elements of four rows */

typedef struct Operand {
    Stage stage;
    int bytes;                  /* of an element */
    bool turned;                /* it lies across: rows along the other axis than matrix units take it, unless ldmatrix turns it */
    LLVMValueRef at;            /* its address in shared memory, an i32 */
} Operand;

bool operand_is_turned(TileRef v);      /* is it a tile with its axes exchanged? */
/* How the operand is to lie, and what of: *v, a tile of which it may be turned. Rows are those of the sums for the left one; of the right one
   its columns are. units: matrix units take it, and zeros beyond the steps that count. */
Operand operand_form(CpuCode *e, const TileNode *n, int operand, bool units, TileRef *v, int *rows);
LLVMValueRef operand_address(CpuCode *e, LLVMValueRef place);

/* The rounds of a loop of which a product's operands are loaded. */
typedef struct Ring {
    const TileNode *loop, *n;
    const TileNode *around;     /* a loop whose chunks that one goes through, so that its rounds follow each other; else loop */
    LLVMValueRef i, round;      /* of this round: the loop's number, and how many came before */
    LLVMValueRef base[2];       /* the slots of an operand */
    LLVMValueRef now[2];        /* the slot of this round's */
    int slots;
    int64_t bytes[2];           /* of a slot */
    TileRef v[2];
    Operand o[2];
    bool on[2];                 /* is this operand brought ahead? */
} Ring;

/* left: is the left operand in memory? Those that come ahead leave room for another product's. false: none comes ahead. */
bool ring_find(CpuCode *e, const TileNode *n, bool left, bool units, Ring *r);
void ring_turn(CpuCode *e, Ring *r);    /* this round's operands are there, and those of a later round are on their way */

#endif
