/*
 * launch_impl.h - what the files of a launch share: the call at hand, and the versions of a kernel.
 */
#ifndef TSR_FRONTEND_KERNEL_LAUNCH_IMPL_H
#define TSR_FRONTEND_KERNEL_LAUNCH_IMPL_H

#include "frontend/kernel/body.h"
#include "frontend/kernel/launch.h"
#include "runtime/kernels.h"

typedef struct Fixed { Sym name; int64_t v; bool least; } Fixed;     /* a size is v, or least: v or more */

typedef Vec(Value) KHeld;

/* One version of a kernel. */
typedef struct Version {
    char *key;
    TileKernel *k;
    KReads reads;
    KHeld held;                         /* objects whose addresses are in the key */
    Vec(Fixed) fixed;
    KResult result[KERNEL_RESULTS];
    int nresults;
    bool returns_tuple, uses_blocks;
    bool any_extent;                    /* what it returns is the same in blocks that reach over the ends of its tensors and in such that do not */
    uint64_t turned;                    /* parameters to which all stores are of blocks that lie across */
    bool asks_group, down, across;      /* what of its place a group asks for: its number, rows, columns */
    int8_t index[KERNEL_PARAMS];
    bool written[KERNEL_PARAMS];
    uint64_t shared_leads;
    void *code;
    int64_t *filled_at;                 /* sizes and extents of a launch that wrote all of parameters, and of which */
    uint64_t filled, discards;          /* discards: which ones a launch writes by what the program says */
} Version;

typedef struct Versions { NativeInst inst; Vec(Version *) at; } Versions;

/* Rows and columns of the work: its sizes, and the dimensions that groups share; placed: groups return blocks of it, though no tile is cut. */
typedef struct Extent2 { int64_t size[2]; Sym dim[2]; bool placed[2]; } Extent2;

/* What the number of groups comes from. */
typedef struct GridPlan {
    enum { GRID_ONE, GRID_GIVEN, GRID_ELEMENTS, GRID_BLOCKS } by;
    int out;                            /* the parameter that says how large the work is; -1: none */
    bool down_one, across_one;          /* groups along an axis that no group asks about are one */
    bool beside;                        /* the one axis of what is stored to goes along columns: groups ask for block_n alone */
    bool turned;                        /* its columns go along rows: groups store blocks at [block_n, block_m] */
    Extent2 e;                          /* what it comes from where no parameter says so */
} GridPlan;

/*
 * own: tensors among the arguments whose memory nobody else has and nobody looks at afterwards.  into: by position, where what the kernel makes of an
 * argument had better lie; NULL: anywhere.
 */
typedef struct LaunchCall {
    const char *name;
    Value fn, args, kwargs, grid, block, schedule;
    Tensor *own[DYING_MAX];
    int nown;
    Tensor *into[KERNEL_PARAMS];
    const Policy *numerics;             /* the scope's of where the launch stands */
} LaunchCall;

typedef struct Launch {
    Interp *I;
    const char *name;
    const LaunchCall *call;             /* NULL: nothing runs */
    KSpec spec;
    KernelForm form;
    int arg[KERNEL_PARAMS];             /* which of args a parameter is; -1: another way */
    Sym keyword[KERNEL_PARAMS];         /* ... by this name */
    int64_t grid[3], block;
    int ngrid;
    bool plain;                         /* no grid was given */
    GridPlan plan;
    Vec(Value) held;
} Launch;

/* said.c: op `say`, for an interpreter of the language. */
void kernel_said(void *I, const TileNode *n, const void *const *in);

/* packed.c: lists, tuples and dicts with tensors. */
typedef Value (*PackItem)(void *state, Value key, Value tensor);        /* a new reference; V_ERR: an exception is pending */
bool pack_traced(Value v);              /* is v one with a tensor that is followed? */
Value pack_mapped(Interp *I, Value v, PackItem of, void *state);        /* a copy, of whose tensors each is what `of` says; NULL: is itself */
void pack_put(Interp *I, Value v, Value key, Value item);       /* in its place in a copy; refs item */

/* args.c: args and kwargs become the parameters of L->spec. false: an exception is pending. */
bool launch_bind(Launch *L, Value args, Value kwargs);
const char *kernel_annotation_word(const Ast *a);       /* its last name, "": none */
/* Parts of Tensor["M", 16, f32]: at most 12 that stand in the brackets. Of Region[read, "M"] and Region[read, Tensor["M"]] those of the tensor. */
int kernel_annotation_items(const Ast *a, const Ast **item);
bool kernel_axis_item(const Ast *a, Sym *name, int64_t *number);        /* does it say an axis? Its name (NULL) or its number (-1) */
bool launch_refuse(Launch *L, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

bool kernel_returns_number(const AstFunctionDef *def, DType *dt);       /* result.c: does the annotation say so, as -> f32? */
/* result.c: are results as large as the annotation says? false: pending. */
bool kresult_keeps(Launch *L, const KResult *r);

/* launch.c */
Value launch_call(Interp *I, const LaunchCall *c);      /* as kernel_launch */
bool launch_begin(Launch *L, Value fn, Value grid, Value block, Value schedule);
void launch_done(Launch *L);                            /* frees it */
Version *launch_version(Launch *L);                     /* the version for this launch, made if there is none; NULL: pending */
int64_t launch_size(const KSpec *s, Sym name);          /* a size of this launch by its name in the kernel */
bool launch_size_from(const KSpec *s, Sym name, int *param, int *axis);    /* it is an axis of a tensor, or (-1) an int; false: of the grid */
bool launch_holds(Launch *L, const Version *v);         /* may the version run so? false: pending */
bool launch_axis_written(const Launch *L, int param, int axis);         /* args.c: is its size a number in the annotation, or no mere name? */

/* launch_plan.c */
bool launch_plan(Launch *L);                            /* work out the grid and which dimensions groups share; false: pending */
bool launch_tiles(const Launch *L);                     /* are there Tile parameters? */
bool launch_by_element(const Launch *L);                /* has a tile one element of the output? */
/* The parameter that says how large the work is: the largest that is written. -1: none. */
void launch_counted(const Launch *L, bool *counted);
int launch_output(const Launch *L, const bool *written);
Extent2 launch_extent(const Launch *L, int out);
void launch_grid(Launch *L, const Extent2 *e);          /* groups along rows and columns, as far as the launch does not say */

/* stage.c: a part of an object among the arguments that the kernel reads, when it is a traced tensor; VERR: it is none. A new reference. */
Value kernel_traced_field(Interp *I, const KernelForm *f, const KernelField *at, Value args, Value kwargs);

/* launch_go.c: run it; (result, outputs by position, outputs by name), or an exception is pending. */
Value launch_go(Launch *L, Version *v, Value args);

#endif
