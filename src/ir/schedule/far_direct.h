/*
 * far_direct.h - convolutions by threads that have some outputs each, in the order of M4 (far_direct.c: places; far_direct_kernel.c: the derivative
 * by the kernel; far_conv_direct.c: what is done with them).
 */
#ifndef TSR_IR_FAR_DIRECT_H
#define TSR_IR_FAR_DIRECT_H

#include "ir/schedule/far_images.h"

enum { CHUNK = 256 };           /* steps that are added up before they join others */
enum { D_DEPTH, D_LINE, D_PLACE };              /* axes, as SPATIAL has them */

/* What a kernel is for. Numbers of taps are those that meet elements, of which the first is tap, then every tap_each'th, of `window` in all. */
typedef struct DirectKind {
    uint8_t dt, sum, out;
    bool by_kernel, deep;
    bool grouped, inputs;       /* do outputs meet a part of the channels; several of them? */
    bool pairs;                 /* are a lane's two outputs side by side, each of a channel of its own? Steps are even then, but along outputs */
    bool whole, broken;         /* are lines whole numbers of strips; have sums more than one chunk of steps? */
    int16_t lanes, outputs, places;             /* lanes along outputs; outputs of a lane, `lanes` apart; places of a strip of it */
    int16_t beside;             /* lines that a lane has at once */
    int16_t lines;              /* so often, one after the other, of which there are whole numbers; by the kernel: of taps, all at once */
    int16_t taps[SPATIAL], start[SPATIAL], each[SPATIAL], stride[SPATIAL], tap[SPATIAL], tap_each[SPATIAL], window[SPATIAL];
    int32_t step[3];            /* elements between places of a line: of the image, of the result or the cotangent; from tap to tap of the kernel */
} DirectKind;

/* Lanes of a group: whole warps, and whole runs of outputs. */
static inline int direct_lanes(const DirectKind *k)
{
    int all = 256;

    while (all % k->lanes)
        all -= 32;
    return all;
}

/*
 * Sizes of a launch: images; depths, lines, places, runs of lines and strips of the result (or cotangent), its outputs, and blocks of them; channels
 * that each meets, outputs of a group; how far images, channels, depths and lines are apart, of the image and of the result; the image's extents.
 * By the kernel: chunks of steps; steps in all.
 */
typedef enum {
    D_N, D_D, D_H, D_W, D_LINES, D_STRIPS, D_O, D_BLOCKS, D_C, D_GROUP, D_XN, D_XC, D_XD, D_XH,
    D_YN, D_YD, D_YH, D_HD, D_HH, D_HW, D_CHUNKS, D_STEPS, D_SIZES
} DirectSize;

/*
 * Parameters: the image from its first element on; the kernel, [channel, tap, o]; the result.
 * By the kernel: the image, which has zeros as far as taps reach; the cotangent; sums of chunks, [chunk, channel, tap, o].
 */
FarKernel *direct_kernel(const DirectKind *k);

/* ---- far_direct.c: words for both kernels ---- */
TileRef direct_size(TileBuilder *b, DirectSize s);
TileRef direct_step(TileBuilder *b, const DirectKind *k, DirectSize s);         /* one that elements are apart by */
TileRef direct_add(TileBuilder *b, TileRef x, TileRef y);
TileRef direct_times(TileBuilder *b, TileRef x, TileRef y);
TileRef direct_plus(TileBuilder *b, TileRef x, int64_t n);
TileRef direct_over(TileBuilder *b, TileRef x, int64_t n);
TileRef direct_rest(TileBuilder *b, TileRef x, int64_t n);
TileRef direct_max(TileBuilder *b, TileRef x, TileRef y);
TileRef direct_load(TileBuilder *b, const DirectKind *k, TileRef view, TileRef at, int64_t by);         /* an element that is there */
TileRef direct_convert(TileBuilder *b, uint8_t dt, TileRef x);
TileRef direct_fma(TileBuilder *b, TileRef x, TileRef y, TileRef sum);
bool direct_store(TileBuilder *b, const DirectKind *k, TileRef view, TileRef at, int64_t by, TileRef x);
TileRef direct_lane(TileBuilder *b, const DirectKind *k, TileRef *row);                 /* a lane's place along outputs, and *row: among the others */
TileRef direct_zero(TileBuilder *b, const DirectKind *k);

/* A loop that carries n values; the index, and in its body what it carries. direct_loop_end closes it with what they have become. */
typedef struct DirectLoop { TileBlock *outside; TileNode *node; } DirectLoop;
TileRef direct_loop(TileBuilder *b, DirectLoop *l, TileRef lo, TileRef hi, int64_t step, TileRef *carried, int n);
bool direct_loop_end(TileBuilder *b, DirectLoop *l, TileRef *carried, int n);

/* Code where `is`, then what is done else, then behind both. false: it cannot be. */
bool direct_if(TileBuilder *b, DirectLoop *l, TileRef is);
bool direct_else(TileBuilder *b, DirectLoop *l, const TileRef *x, int n);
bool direct_end_if(TileBuilder *b, DirectLoop *l, TileRef *x, int n);

/* From one output of a lane to the next. */
static inline int direct_apart(const DirectKind *k) { return k->pairs ? 1 : k->lanes; }

/* Places of a line that `places` windows meet, as offsets in increasing order; at[place * taps + tap]: which one. Returns how many. */
enum { DIRECT_VALUES = 64, DIRECT_SUMS = 64, DIRECT_TAPS = 64, OUTPUTS_MOST = 4 };
int direct_offsets(const DirectKind *k, int places, int16_t *offset, int16_t *at);
/* That line of the image, counted from the first one, by one of those that a lane has at once? */
bool direct_line_is_met(const DirectKind *k, int at);

bool direct_build_kernel(TileBuilder *b, const DirectKind *k);         /* far_direct_kernel.c */

#endif
