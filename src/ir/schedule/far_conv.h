/* far_conv.h - a convolution on a GPU, as the files that do it see it. */
#ifndef TSR_IR_FAR_CONV_H
#define TSR_IR_FAR_CONV_H

#include "ir/schedule/far_impl.h"

#include "ir/graph/level.h"
#include "runtime/conv.h"

enum { SPATIAL = 3 };           /* axes, at most */

/* A convolution, or one of its phases. */
typedef struct FarConv { Trace *T; const Attr *a; const Tensor *w; const TType *y; ConvAxis axis[SPATIAL]; } FarConv;

/* ---- far_conv_direct.c ---- */
/* By threads that have some outputs each (far_direct.h). NULL: as far_windows. */
Tensor *far_direct(FarConv *v, const ConvSpread *d, Tensor *x);

#endif
