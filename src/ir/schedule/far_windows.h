/*
 * far_windows.h - convolutions by matrix units whose windows are read where the image lies (far_windows.c: the kernels;
 * far_window_ways.c: their schedules; far_images.c: operands; far_conv_windows.c: what is done).
 *
 * An image is seen as [x, lines, places, channels], the channels side by side.  Where places of the sums step by a stride, an image falls into
 * phases, which are further along the first axis: place j's tap t, at start + j * stride + t * each, is at j + (start + t * each) // stride of the
 * phase that is the rest of that division.
 */
#ifndef TSR_IR_FAR_WINDOWS_H
#define TSR_IR_FAR_WINDOWS_H

#include "ir/schedule/far_conv.h"

enum { WINDOW_STEPS = 16 };     /* of which groups have whole numbers: outputs, and channels */
enum { PLANE = 2, OF_DEPTH = 2 };       /* axes of a plane, lines and places, by which it is told where one is; the third is depth */

/* What a kernel is for. Numbers of taps are those of the kernel that meet elements, of which the first is tap, then every tap_each'th. */
typedef struct WindowKind {
    uint8_t dt, sum, out;
    bool by_kernel;             /* the derivative by it: rows are outputs, columns channels of a tap, steps places */
    bool grouped;               /* do outputs meet the channels of their group alone? */
    bool across;                /* do the kernel's elements lie side by side along the outputs, and not along the channels? */
    int8_t warps, sets, stages;
    int16_t block[3], box[3];   /* rows, columns, steps; images, lines and places of a line that are rows, or steps */
    bool deep;                  /* images have depths: the planes of a sum's places are one behind the other, a box is of one of them */
    int16_t taps[SPATIAL], start[SPATIAL], each[SPATIAL], stride[SPATIAL], tap[SPATIAL], tap_each[SPATIAL];
} WindowKind;

/*
 * Sizes of a launch: boxes along images, lines and places; blocks of outputs; rounds of a sum, and of a part of it; parts; blocks of channels;
 * how far images, depths, and phases along lines and places, are apart along x; places of the sums
 * along depth; how far images and depths are apart along the result, or the cotangent; lines from one depth of the kernel to the next;
 * outputs of a group, and
 * blocks of WINDOW_STEPS of its channels.
 */
typedef enum {
    W_N, W_H, W_W, W_O, W_ROUNDS, W_PART, W_PARTS, W_CHANNELS, W_XN, W_XD, W_XH, W_XW, W_D, W_YN, W_YD, W_WD, W_GROUP, W_EACH, W_SIZES
} WindowSize;

/* Parameters: the image; the kernel [o, lines, places, c], or the cotangent [n, lines, places, o]; the result [n, lines, places, o], or
 * parts of it [part, o, tap, c]. */
FarKernel *windows_kernel(const WindowKind *k);

/* far_conv_windows.c: as phase() of far_conv.c, for all phases. NULL: it is not done so, or something failed. */
Tensor *far_windows(FarConv *v, const ConvSpread *d, Tensor *x);

#endif
