/*
 * launch_impl.h - what the files of a launch share: the call at hand, and the versions of a kernel.
 */
#ifndef TSR_FRONTEND_KERNEL_LAUNCH_IMPL_H
#define TSR_FRONTEND_KERNEL_LAUNCH_IMPL_H

#include "frontend/kernel/body.h"
#include "frontend/kernel/launch.h"

typedef struct Fixed { Sym name; int64_t v; bool least; } Fixed;     /* a size is v, or least: v or more */

/* One version of a kernel. */
typedef struct Version {
    char *key;
    TileKernel *k;
    KReads reads;
    Vec(Fixed) fixed;
    KResult result[KERNEL_RESULTS];
    int nresults;
    bool returns_tuple, uses_blocks;
    int8_t index[KERNEL_PARAMS];
    bool written[KERNEL_PARAMS];
    uint64_t shared_leads;
    void *code;
} Version;

typedef struct Versions { NativeInst inst; Vec(Version *) at; } Versions;

typedef struct Launch {
    Interp *I;
    const char *name;
    KSpec spec;
    KernelForm form;
    int arg[KERNEL_PARAMS];             /* which of args a parameter is; -1: another way */
    Sym keyword[KERNEL_PARAMS];         /* ... by this name */
    int64_t grid[3], block;
    int ngrid;
    bool plain;                         /* no grid was given */
    Vec(Value) held;
} Launch;

/* args.c: args and kwargs become the parameters of L->spec. false: an exception is pending. */
bool launch_bind(Launch *L, Value args, Value kwargs);
bool launch_refuse(Launch *L, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Rows and columns of the work: its sizes, and the dimensions that groups share. */
typedef struct Extent2 { int64_t size[2]; Sym dim[2]; } Extent2;

/* launch.c */
bool launch_begin(Launch *L, Value fn, Value grid, Value block, Value schedule);
void launch_done(Launch *L);                            /* frees it */
bool launch_plan(Launch *L);                            /* work out the grid and which dimensions groups share; false: pending */
Version *launch_version(Launch *L);                     /* the version for this launch, made if there is none; NULL: pending */
int64_t launch_size(const KSpec *s, Sym name);          /* a size of this launch by its name in the kernel */
bool launch_tiles(const Launch *L);                     /* are there Tile parameters? */
bool launch_by_element(const Launch *L);                /* has a tile one element of the output? */
/* The parameter that says how large the work is: the largest that is written. -1: none. */
int launch_output(const Launch *L, const bool *written);
Extent2 launch_extent(const Launch *L, int out);
void launch_grid(Launch *L, const Extent2 *e);          /* groups along rows and columns, as far as the launch does not say */

/* launch_go.c: run it; (result, outputs by position, outputs by name), or an exception is pending. */
Value launch_go(Launch *L, Version *v, Value args);

#endif
