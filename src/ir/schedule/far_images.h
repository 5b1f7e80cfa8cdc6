/* far_images.h - images of convolutions, as kernels for windows see them (far_images.c). */
#ifndef TSR_IR_FAR_IMAGES_H
#define TSR_IR_FAR_IMAGES_H

#include "ir/schedule/far_windows.h"

enum { IMAGE, DEPTH, LINE, PLACE, CHANNEL, AXES };
static inline int image_axis(int i) { return i == OF_DEPTH ? DEPTH : LINE + i; }    /* of arrays that are as a WindowKind has them */
enum { UNIT = 8 };              /* elements of which axes are multiples */

/* A tensor's elements along these axes; of axes that it has not, one. It holds the tensor. */
typedef struct Image { Tensor *t; int64_t extent[AXES], step[AXES], offset; } Image;
Image image_of(Tensor *t, int image, int channel);
void image_done(Image *m);

bool image_lies_well(const Image *m, int inner);        /* can tensor copies bring boxes of it, elements of that axis side by side? */
/*
 * As a view of four axes, of which the first has images and depths: they are so many apart there; kernel: the second one has depths and lines,
 * depths so many lines apart. false: a fault.
 */
typedef struct Planes { int64_t images, depths; } Planes;
bool image_argument(const Image *m, int device, bool write, TileArg *arg);
Planes image_planes(const Image *m);
int64_t image_depth_lines(const Image *m);
bool image_kernel(const Image *m, int device, TileArg *arg);

/* A copy, in the axes' order, with so many zeros around lines, places and depths, and channels a multiple of `unit` apart. false: it failed. */
typedef struct Edges { int64_t before[SPATIAL], behind[SPATIAL]; } Edges;
bool image_lay(Trace *T, Image *m, const Edges *e, int unit);
Edges image_whole(const Image *m, const int16_t *stride);       /* those with which lines and places are multiples of strides */

bool image_has_phases(const Image *m, const int16_t *stride);   /* as it lies, as one that was laid so has */
/* What a kernel sees of an image that has phases, and how far along its first axis images and phases are apart. boxed: boxes are of one image. */
bool image_see(Image *m, const int16_t *stride, bool boxed, int64_t *sizes);

/* Along axes of one tap strides pick places of the image, where they are all in it: a view of these. extent: of the sums. */
void image_pick(Image *x, WindowKind *k, const int64_t *extent);

/* Elements that a place takes where a line of taps is one run of memory, because channels are few. 0: they are many. */
int image_run(const Image *x, const WindowKind *k);
/* The image so, of windows at so many places of a line; k is then of lines of taps. */
bool image_merge(Trace *T, Image *x, WindowKind *k, int unit, int64_t places);

/* ---- far_conv_windows.c ---- */
bool windows_by_kernel(const FarConv *v, const ConvSpread *d);         /* is it the derivative by its kernel of another convolution? */
/* What lies [images, depths, lines, places, channels] as v's result; by_kernel: [o, depths, lines, places, c]. It may have more channels. Takes y
 * over. */
Tensor *windows_result(const FarConv *v, Tensor *y, bool by_kernel);
/* A phase's sums go to their places in y. 1; 0: it is not done so, -1: something failed. Images are taken over. */
typedef int RunPhase(const FarConv *v, Image x, Image w, const Image *y);
Tensor *windows_sums(FarConv *v, const ConvSpread *d, Image x, Image w, RunPhase *run);        /* the result of all phases. NULL: as far_windows */

/* ---- far_window_ways.c ---- */
static inline int64_t blocks(int64_t n, int64_t by) { return (n + by - 1) / by; }
/*
 * A schedule for sums of these extents, with at most so many images in a box, outputs of so many in a group that each meet so many channels: steps
 * are some channels of a tap. Returns its clocks.
 */
double windows_of_places(WindowKind *k, const int64_t *extent, int64_t images, int64_t group, int64_t channels);
/* The same of the derivative by the kernel, in parts of so many rounds; whole: images of a box divide them. false: there is none. */
bool windows_of_kernel(WindowKind *k, const int64_t *extent, int64_t images, bool whole, int64_t outputs, int64_t channels, int64_t *sizes);

#endif
