/*
 * kernel.h - the kernel language as facts: its operations, the fields of a
 * schedule, and what a function decorated with @kernel asks of a launch.
 *
 * Nothing here types or runs a kernel.  check/kernel_*.c types its body; what
 * executes kernels reads the same rows and the same KernelForm, so that both
 * agree on who does an operation and which memory it touches.
 */
#ifndef TSR_FRONTEND_KERNEL_H
#define TSR_FRONTEND_KERNEL_H

#include "frontend/check/scope.h"

struct NativeDef;

/* ------------------------------------------------------------- operations */

typedef enum KernelOpId {
#define KERNEL(id, ...) KOP_##id,
#include "frontend/kernel/kernel.def"
    KOP_COUNT
} KernelOpId;

typedef enum KernelLevel { KERNEL_LANE, KERNEL_WARP, KERNEL_BLOCK, KERNEL_FRAGMENT } KernelLevel;
typedef enum KernelVary { VARY_UNIFORM, VARY_LANE, VARY_ARGS, VARY_UNSURE } KernelVary;

enum {                          /* effects: reads and writes of the memory of argument 0 or 1, and the rest */
    KERNEL_R0 = 1, KERNEL_R1 = 2, KERNEL_W0 = 4, KERNEL_W1 = 8,
    KERNEL_SYNC = 16, KERNEL_ASYNC = 32, KERNEL_ATOMIC = 64, KERNEL_ALLOC = 128, KERNEL_RANDOM = 256, KERNEL_COLLECTIVE = 512,
};

typedef struct KernelOp {
    const char *owner, *name, *sig, *doc;
    uint8_t level, varies;      /* KernelLevel, KernelVary */
    uint16_t effects;
} KernelOp;

extern const KernelOp kernel_ops[KOP_COUNT];
const KernelOp *kernel_op_of(const struct NativeDef *d);        /* NULL: not of the kernel language */
static inline KernelOpId kernel_op_id(const KernelOp *op) { return (KernelOpId)(op - kernel_ops); }
bool kernel_is_group_work(const KernelOp *op);          /* a barrier, or what the group, or a warp with its matrix unit, does to memory or computes */
/* "tile.warp.shuffle"; lives until the next few calls. */
const char *kernel_op_text(const KernelOp *op);

/* ------------------------------------------------------------- schedules */

typedef enum ScheduleField {
#define FIELD(name, ...) SCHED_##name,
#include "frontend/kernel/schedule.def"
    SCHED_COUNT
} ScheduleField;

typedef enum ScheduleKind { SCHED_SIZE, SCHED_KIND_COUNT, SCHED_WORD } ScheduleKind;
typedef struct ScheduleInfo { const char *name; uint8_t kind; int dflt; const char *doc; } ScheduleInfo;
extern const ScheduleInfo schedule_fields[SCHED_COUNT];
extern const char *const schedule_swizzles[];                   /* ended by NULL */

/* Another name of one field, or of several in turn. */
typedef struct ScheduleName { const char *name; uint8_t first, last; } ScheduleName;
extern const ScheduleName schedule_aliases[], schedule_groups[], schedule_shorts[], schedule_implicit[];    /* ended by a NULL name */

/* The row of `name` in one of these lists; NULL when there is none. */
const ScheduleName *schedule_name(const ScheduleName *list, const char *name);
/* A field by its own name or an alias; SCHED_COUNT when there is none. */
ScheduleField schedule_field(const char *name);
bool schedule_takes(const char *name);                          /* a keyword of Schedule(...) */
const char *schedule_nearest(const char *wrong);                /* such a keyword; NULL when none is near */
/* A value visible in kernels that the schedule gives: BM, or the group's offset block_m. */
bool schedule_is_implicit(const char *name);

/* ------------------------------------------------------------- kernels */

enum { KERNEL_PARAMS = 48, KERNEL_FIELDS = 16, KERNEL_GROUP_MAX = 1024 };

typedef enum KernelParamKind {
    KPARAM_NUMBER,              /* int, float, bool: passed by value */
    KPARAM_TENSOR,              /* Tensor[...]: the whole tensor, in every group */
    KPARAM_TILE,                /* Tile, KTile: the group's own block of it */
    KPARAM_REGION,              /* Region[privilege]: a tensor with a privilege */
    KPARAM_OTHER                /* KVCache and what has no annotation */
} KernelParamKind;

typedef struct KernelParam { const AstParam *param; KernelParamKind kind; bool read, written; } KernelParam;
/* cache.K: what the body reads of a parameter that is an object. */
typedef struct KernelField { int param; Sym attr; } KernelField;

/* What a launch has to know of a kernel, from its text alone. */
typedef struct KernelForm {
    KernelParam param[KERNEL_PARAMS];
    int n;
    KernelField field[KERNEL_FIELDS];
    int nfields;
    uint32_t levels;            /* 1 << KernelLevel of each operation that stands in the body */
    bool numbered;              /* asks for linear_id, local_id or lane_id: one tile an element */
    bool in_launch;             /* ... for linear_id */
    bool shares;                /* tiles share out the numbers of a tile.range */
    bool blocks;                /* asks for the place of its block, or assigns to slices of what it is passed */
    bool returns;               /* gives a value */
    bool atomic;                /* updates memory atomically */
    bool meets;                 /* warps do something together: barriers, shared memory, block values */
} KernelForm;

bool kernel_decorator(const AstFunctionDef *def, const Ast *d);     /* @kernel, @tessera.kernel.schedule(s), @kernel.autotune(...) */
bool kernel_def(const AstFunctionDef *def);             /* has one, and `kernel` is the prelude's */
KernelParamKind kernel_param_kind(const AstParam *p);
/* KTile[lead..., rows, columns] of a kernel that works in blocks: each group has one of its matrices. */
bool kernel_param_leads(const KernelForm *form, const AstParam *p);
void kernel_form(const AstFunctionDef *def, KernelForm *out);
/* Which memory operand, 0 or 1, an argument is: the next by position, *at of which are gone, or the one of that name; -1: none. */
int kernel_memory_arg(const KernelOp *op, Sym name, int *at);
/* The operation that a call names; NULL: none. Names must be resolved. */
const KernelOp *kernel_called(const AstCall *c);

#endif
