/*
 * far_code.h - launches of a kernel's code on GPUs, whoever made it: the compiler (codegen/gpu_compiler.c), or a bundle (bundle/device.c).
 *
 * Parameters of the function, which is called "kernel", are 8-byte words: the sizes of the launch in the kernel's order, the
 * numbers of groups along three axes, then of each view its base, its extents and its strides in elements.
 */
#ifndef TSR_IR_FAR_CODE_H
#define TSR_IR_FAR_CODE_H

#include "base/strbuf.h"
#include "ir/schedule/far.h"

/*
 * A tensor map: boxes of box[0] by box[1] elements along one axis of a parameter, `inner`, and another one, `second`, in shared memory rows of
 * `swizzle` bytes, or 0: as they lie; box[2] and box[3] are along the other axes as gpu_map_axis has them, 0: one element.
 * Elements of the inner axis have to lie side by side, all else at multiples of 16 bytes.  f32s of a view of tf32 are rounded on their way.
 *
 * Where boxes end with a part of the parameter (`ends`), as those of one group of rows among others do, the map has three axes for its rows: a
 * long one of GPU_END rows, the parameter's own, and one whose step takes GPU_END rows back, in 64 bits, when its place is GPU_END.  A box that
 * begins v rows before the end of the long axis has v rows and zeros behind them, or stores no more than these; where it begins is the sum of the
 * first two places (as Triton has it, python/triton/tools/ragged_tma.py).
 */
enum { MAP_AXES = 5 };
typedef struct GpuMap { uint8_t param, bytes, swizzle, inner, second; bool tf32, ends; uint32_t box[MAP_AXES]; } GpuMap;
/* GPU_ENDED: axes of a parameter whose boxes end so, at most */
enum { GPU_MAPS = 8, GPU_ENDED = MAP_AXES - 2, GPU_END = 1 << 30 };

/* Which axis of a parameter of this rank is coordinate i of such a map: the box's two come first, then the others, the last one first. */
static inline int gpu_map_axis(int rank, int inner, int second, int i)
{
    int axis = rank - 1;

    for (int others = i - 2; i > 1 && (axis == inner || axis == second || others--); axis--)
        ;
    return i == 0 ? inner : i == 1 ? second : axis;
}

/* What a launch has to know of code. In bundles, whose kernels have no tensor maps, it is a text: far_frame_print, far_frame_read. */
typedef struct GpuFrame {
    int threads;                /* of a group */
    int64_t shared;             /* bytes of shared memory of a group, without its allocs, which depend on sizes */
    int resident;               /* blocks that a processor holds, which take all groups in turn; 0: a block is a group */
    int cluster;                /* so many of those work together; 0 or 1: each for itself */
    int share;                  /* at groups side by side along this axis of the grid; -1: at one */
    int nmaps;
    GpuMap map[GPU_MAPS];       /* behind the words */
} GpuFrame;

enum { FAR_GPUS = 64, GPU_WORDS = 512 };

typedef struct FarCode {
    GpuFrame frame;
    StrBuf image;               /* PTX, a cubin, or an object for the driver of the tests */
    struct GpuFunction *function[FAR_GPUS];     /* by device's index; made at the first launch there. Modules live to the end. */
    int clusters[FAR_GPUS];     /* that the device holds at once; 0: not asked yet */
} FarCode;

/* "threads 128 shared 4096". false: it is no such text, or one of numbers that no launch has. */
void far_frame_print(const GpuFrame *f, StrBuf *out);
bool far_frame_read(const char *s, GpuFrame *f);

enum { FAR_MISFIT = 2 };        /* tensor maps cannot describe the operands: this code is not for them */
/* As a FarLaunch, or FAR_MISFIT. */
int far_code_launch(FarCode *c, const TileKernel *k, int device, const int64_t *sizes, const TileArg *args, Span where);

/* The map of a parameter. 1; FAR_MISFIT: there is none; -1: there is a fault. */
struct GpuDevice;
struct CUtensorMap;
int far_map(struct GpuDevice *g, const GpuMap *m, int rank, const TileArg *arg, struct CUtensorMap *out);

/* Told of each launch before it; NULL: nobody asks. */
struct GpuLaunch;
extern void (*far_noted)(struct GpuFunction *f, const struct GpuLaunch *l, const FarCode *c, const TileKernel *k, const TileArg *args);

#endif
