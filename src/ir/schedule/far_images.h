/* far_images.h - images of convolutions, as kernels for windows see them (far_images.c). */
#ifndef TSR_IR_FAR_IMAGES_H
#define TSR_IR_FAR_IMAGES_H

#include "ir/schedule/far_windows.h"

enum { IMAGE, LINE, PLACE, CHANNEL, AXES };
enum { UNIT = 8 };              /* elements of which axes are multiples */

/* A tensor's elements along these axes; of axes that it has not, one. It holds the tensor. */
typedef struct Image { Tensor *t; int64_t extent[AXES], step[AXES], offset; } Image;
Image image_of(Tensor *t, int image, int channel);
void image_done(Image *m);

bool image_lies_well(const Image *m, int inner);        /* can tensor copies bring boxes of it, elements of that axis side by side? */
bool image_argument(const Image *m, int device, bool write, TileArg *arg);      /* false: a fault */

/* A copy, in the axes' order, with so many zeros around lines and places, and channels a multiple of `unit` apart. false: something failed. */
typedef struct Edges { int64_t before[PLANE], behind[PLANE]; } Edges;
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

/* ---- far_window_ways.c ---- */
static inline int64_t blocks(int64_t n, int64_t by) { return (n + by - 1) / by; }
/* A schedule for sums of images of these extents, with at most so many images in a box: steps are some channels of a tap. Returns its clocks. */
double windows_of_places(WindowKind *k, const int64_t *extent, int64_t images, int64_t outputs, int64_t channels);
/* The same of the derivative by the kernel, in parts of so many rounds; whole: images of a box divide them. false: there is none. */
bool windows_of_kernel(WindowKind *k, const int64_t *extent, int64_t images, bool whole, int64_t outputs, int64_t channels, int64_t *sizes);

#endif
