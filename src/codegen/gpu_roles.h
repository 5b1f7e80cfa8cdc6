/*
 * gpu_roles.h - kernels around a product that warpgroups do (sm_90a).
 *
 * Found before code is made; the files that make it (gpu_roles.c) ask what is planned here.
 */
#ifndef TSR_CODEGEN_GPU_ROLES_H
#define TSR_CODEGEN_GPU_ROLES_H

#include "codegen/gpu_assembly.h"

enum { GROUP_THREADS = 128, GROUP_ROWS = 64 };          /* of a warpgroup; rows of its product */
enum { OUT_SLOTS = 2 };

/* An operand in the slots of the ring: slabs one after the other, rows of a slab of `span` bytes, permuted as TMA and wgmma do it. */
typedef struct RoleOperand {
    const TileNode *load;
    bool turned;                /* do its rows, or columns, lie side by side, and not its steps? */
    int span, slabs, box[2];    /* box: elements of a slab, the inner ones first */
    int64_t bytes, slab;        /* of a slot, of a slab in it */
    int64_t at;                 /* in shared memory, of the first slot */
} RoleOperand;

/* A store of the sums' shape, by tensor copies: slabs of 64 rows of `span` bytes. */
typedef struct RoleStore { const TileNode *store; int span, map; } RoleStore;

typedef struct Roles {
    const TileNode *loop, *dot;
    DType in, out;
    int extent[3], bytes;       /* rows, columns, steps of a round; of an element */
    int threads, stages, order; /* threads: consumers of one tile; order: rows of tiles that are done together */
    bool promotes;              /* are the sums of a round added to the others in f32? */
    int sets;                   /* 2: sets of consumers take turns, so that one multiplies while the other one stores */
    Wgmma unit;
    RoleOperand o[2];
    RoleStore store[GPU_MAPS - 2];
    int nstores;
    bool reads_own;             /* does it load from what it stores to? */
    int64_t slots, barriers, shared;    /* in shared memory: where stored tiles pass through, the barriers; all that is planned */
    LLVMValueRef map[GPU_MAPS]; /* addresses of tensor maps */
    LLVMValueRef base;          /* of shared memory */
    LLVMValueRef stage, phase;  /* a role's place in the ring: in slots */
    LLVMValueRef set;           /* this consumer's, an i32 */
} Roles;

static inline int roles_groups(const Roles *r) { return r->sets * r->threads / GROUP_THREADS; }
/* Of a block: a warp that brings operands, or, where warpgroups share registers unevenly, a warpgroup of which one thread does. */
static inline int roles_threads(const Roles *r)
{
    return r->sets * r->threads + (roles_groups(r) > 1 ? GROUP_THREADS : GPU_WARP);
}

bool roles_find(CpuCode *e, Roles *r);                  /* is the kernel one of these? Then all but the values is set */
bool roles_is_known(const Roles *r, const TileNode *n);        /* does it follow from sizes, the group and the loop's number? */
void roles_maps(const CpuCode *e, const Roles *r, GpuFrame *frame);

/* ---- gpu_roles.c ---- */
void roles_emit(CpuCode *e);                            /* the kernel's body */
bool roles_node(CpuCode *e, const TileNode *n);         /* the loop and the stores; false: another node */
void roles_fence(CpuCode *e);                           /* the consumers have come here */
LLVMValueRef roles_load_if(CpuCode *e, LLVMValueRef place, LLVMValueRef inside, LLVMValueRef fill);    /* as gpu_load_if */

#endif
