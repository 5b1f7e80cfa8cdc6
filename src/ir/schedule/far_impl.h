/* far_impl.h - what the files of far.h share. */
#ifndef TSR_IR_FAR_IMPL_H
#define TSR_IR_FAR_IMPL_H

#include "ir/tile/tile.h"
#include "runtime/tensor.h"

typedef struct FarKernel { TileKernel *tile; void *code; } FarKernel;   /* code NULL: it cannot be made */

/* The kernel of this text, to the end of the process. */
FarKernel *far_kernel(const char *text);
/* As FarLaunch does. */
int far_launch(const FarKernel *f, int device, const int64_t *sizes, const TileArg *args);
/* As FusedFar's `address` does. */
char *far_address(Tensor *t, int device, bool write, bool fresh);

struct FarMoves;
extern const struct FarMoves far_moves_made;    /* far_moves.c */

#endif
