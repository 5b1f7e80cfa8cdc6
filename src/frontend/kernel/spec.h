/*
 * spec.h - what one version of a kernel is made for: its arguments as far as code depends on them, the schedule, the numerics.
 *
 * A launch fills it in (launch.c); a body is made by it (body.h), and a version is found again by it.  It borrows what it names: the
 * function, tensors and values live as long as the launch.
 */
#ifndef TSR_FRONTEND_KERNEL_SPEC_H
#define TSR_FRONTEND_KERNEL_SPEC_H

#include "frontend/eval/eval.h"
#include "frontend/kernel/kernel.h"
#include "ir/tile/tile.h"

typedef struct KParam {
    Sym name;
    KernelParamKind kind;
    const Tensor *tensor;       /* NULL: no tensor */
    Value v;                    /* what is passed */
    Sym dim[VIEW_RANK];         /* their names, NULL: none */
    int index;                  /* of the TileKernel's parameter, -1: none */
    bool written, reduces;
    bool discards;              /* a Region[write]: what was there is of no use */
    bool plain;                 /* of its axes none but the last one is known to have elements side by side: what is stored to is a copy */
    bool field;                 /* a part of an object among the arguments: read only */
    bool leads;                 /* a KTile whose leading axes groups share */
    bool apart;                 /* an object of which only its parts are looked at */
    bool turned, upright;       /* stores put block_n along rows and block_m along columns; others do not */
    bool holds;                 /* a list, tuple or dict with tensors, each of which is a parameter of its own: xs[0] */
} KParam;

/*
 * What a launch knows of itself, each a size of the code under its name with `_` before it:
 *   groups   of the code, over all axes, matrices and warps
 *   across   along the columns
 *   deeps    along the grid's third axis
 *   per      groups of one matrix of a stack
 *   leads    matrices of the stack
 */
#define LAUNCH_SIZES(X) X(groups) X(across) X(deeps) X(per) X(leads)

typedef enum LaunchSize {
#define X(name) LAUNCH_##name,
    LAUNCH_SIZES(X)
#undef X
} LaunchSize;

/* What one version of a kernel is made for. */
typedef struct KSpec {
    FuncObj *fn;
    const AstFunctionDef *def;
    KParam param[KERNEL_PARAMS];
    int nparams;
    int lanes;
    int warps;                  /* groups of the code that are one of the program's: each warp has matrix units of its own */
#define X(name) int64_t name;   /* of this launch; the kernel holds for others */
    LAUNCH_SIZES(X)
#undef X
    int led;                            /* which KTile has most matrices, each a launch of `per` groups of its own; -1: none has leading axes */
    int64_t sched[SCHED_COUNT];
    bool sched_given[SCHED_COUNT];
    Sym cut[2];                 /* dimensions that groups share by rows and by columns; NULL: none */
    bool sample;                /* only to see what it returns: dimensions are cut to a block's */
    bool any;                   /* groups share dimensions of tiles even where one block holds them: for launches of any size */
    bool deep;                  /* the grid has three axes */
    bool debug;
    bool literal;               /* all sizes are numbers */
    bool fast, tf32;            /* numerics: products may be summed in another order; what is multiplied goes to tf32 first */
    bool watched;               /* somebody looks at its launches: barriers stay as they are written */
} KSpec;

/* ---- make.c ---- */
int64_t kspec_extent(const KSpec *spec, int param, int axis);
bool kspec_dimension(const KSpec *spec, Sym name, int64_t *out);        /* the size of a dimension by its name */
Sym kparam_axis_name(const KParam *p, int axis);         /* what the size of an axis is called */
/* of a tensor the axis along which elements lie side by side, the last one if it may be; -1: none */
int kparam_side(const KParam *p);

/* ---- lead.c: KTiles whose leading axes groups share ---- */
int kspec_leading(const KSpec *spec, int param);         /* the leading axes of a KTile, which groups share; 0: it is no stack of matrices */
bool lead_plan(KSpec *spec, char *why, size_t n);        /* groups become so many for each matrix; false: stacks that do not go together */
bool lead_holds(const KSpec *spec, uint64_t shared, char *why, size_t n);    /* do the stacks that are shared out go with the KTile's? */

#endif
