/*
 * fused.h - `fused` nodes run by compiled kernels.
 *
 * A body is compiled when it first runs, once for each way in which its
 * operands may step along the inner axis, and for all sizes.  Bodies of the
 * same text share their kernels.  What cannot be compiled, or an operand that
 * no kernel walks, is run op by op; the results are the same bits.
 */
#ifndef TSR_IR_FUSED_H
#define TSR_IR_FUSED_H

#include "base/hash.h"
#include "ir/tile/tile.h"

/* Makes code of Tile IR kernels: src/codegen/cpu.h has the one for this machine. */
typedef struct KernelCompiler {
    /* A reference; kernels of the same text share their code. NULL: it cannot, *err says why. */
    void *(*compile)(const TileKernel *k, StrBuf *err);
    KernelFn *(*entry)(const void *code);
    int64_t (*scratch)(const void *code, const int64_t *size);     /* bytes that a group's buffers take */
    uint32_t (*users)(const void *code);    /* references to it */
    void (*free)(void *code);               /* drop one */
    int (*effort)(int level);               /* how hard it tries from now on: 0, 1 or 3; gives what was in force. NULL: it knows one way */
    /*
     * n kernels at once, on the threads there are: a reference to the code of each, NULL where there is none.  NULL: it makes one after
     * the other.
     */
    void (*compile_all)(const TileKernel *const *k, int n, void **code);
    /*
     * The same of kernels that come one by one: will k have code, as far as can be said soon?  And all that were taken since, on the threads
     * there are, to be found by compile.  NULL: it has compile_all.
     */
    bool (*takes)(const TileKernel *k);
    void (*make_taken)(void);
    bool (*origin)(Hash128 *out);           /* what code follows from besides kernels; false: that is not known. NULL: nothing is to be kept */
    bool idle;                              /* its code does nothing, so products need not be computed either (rehearse.h) */
} KernelCompiler;

/*
 * From now on `fused` nodes run by kernels; NULL: by the oracle, which interprets them and checks every access.
 * lazily: a body is compiled when what it has computed op by op would have paid for that.
 */
void fused_begin(const KernelCompiler *compiler, bool lazily);
/* What runs fused nodes now, to be put back later. */
typedef struct FusedWay { const KernelCompiler *compiler; bool lazily, on; } FusedWay;
FusedWay fused_way(void);
void fused_go(FusedWay w);

/* For a while, for a function that asks for it: each gives what was in force. effort: as KernelCompiler has it, 0: as it is without. */
bool fused_lazily(bool lazily);
int fused_effort(int level);
/* For tests: rows that can be are done in turn, so many times each group, whether that pays or not; 0: where it pays. */
extern int32_t fused_turns;
/* From now on fused nodes of several steps (steps.h) are one launch each; without it their steps are launched one by one. */
void steps_begin(void);

/*
 * Bodies whose operands are on a GPU of the driver's (mesh.h) run there, always by kernels.  NULL: nobody offered (far.h); they run
 * op by op.  What goes wrong on the device is a fault (runtime/cuda.h); then false.
 */
struct Tensor;
struct Trace;
struct Run;
struct StrideClass;
typedef struct FusedFar {
    const KernelCompiler *compiler;         /* whose code only `launch` runs */
    /* Where t's storage begins on the device; to be written: all of it if it is fresh. NULL: a fault. */
    char *(*address)(struct Tensor *t, int device, bool write, bool fresh);
    /* A launch, its sizes as tile_groups takes them, its arguments addresses of the device. 0: there is no room for it; -1: a fault. */
    int (*launch)(void *code, const TileKernel *k, int device, const int64_t *sizes, const TileArg *args, Span where);
    /* sum = x @ y, whose lanes are those of the accumulator. 0: it cannot; -1: a fault. */
    int (*product)(int device, struct Tensor *x, struct Tensor *y, struct Tensor *sum, const Attr *a, Span where);
    /*
     * The run of a body with a product, all of it: its results, and `lies` of its operands and results, are ready; of the product's there
     * is no memory.  0: it is to be computed in two steps; -1: a fault.
     */
    int (*blocks)(struct Run *u, const struct StrideClass *lies);
    /* A row-major copy, made there; NULL: it cannot, or a fault. */
    struct Tensor *(*copy)(struct Trace *T, struct Tensor *t);
    /* All elements of `parts` combined: neighbours, then neighbours of those (R4 of docs/numerics.md), into the one of `total`. */
    bool (*combine)(int device, OpId reduction, struct Tensor *parts, struct Tensor *total, Span where);
} FusedFar;
extern const FusedFar *fused_far;

/* The oracle, tile_exec: set by those who ask for it, so that nobody else need have it. */
extern bool (*fused_oracle)(const TileKernel *k, const int64_t *size, const TileArg *arg, StrBuf *err);
/*
 * How the body of a fused node would be launched on these operands: the launch with places for operands, then results that lie row
 * by row.  It holds for all operands and results of the same sizes and strides.  false: there is none, the node is to be run.
 */
struct Trace;
struct Tensor;
bool fused_launch(struct Trace *T, struct Graph *body, const struct Attr *a, struct Tensor *const *in, int nin, LaunchSpace *space,
                  LaunchKernel *k);
/*
 * From now on nodes only say which kernels they want, and give results of the right sizes without elements; what the compiler
 * can make together waits for the end of the rehearsal.  true: begin; false: end it, and make them.
 */
void fused_rehearse(bool begin);
/* Kernels made so far in this process, those of the same text once, and how long that took. */
typedef struct FusedStats { int kernels, launches, fallbacks; double seconds; } FusedStats;
FusedStats fused_stats(void);

#endif
