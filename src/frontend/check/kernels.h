/*
 * kernels.h - what the files that check kernels share.
 *
 * The body of a kernel is walked by the same walk as any function, with
 * C->kernel set; where kernels mean something else the walk asks here.
 *
 *   kernel_body.c      the walk of one kernel, the sizes that its schedule gives, what may not stand in it
 *   kernel_place.c     memory: indexing and slicing it, storing into it
 *   kernel_values.c    block values: operators, extents that go together, dtypes
 *   kernel_calls.c     calls of operations: which argument goes where, and whether it is of the right kind
 *   kernel_memory.c    kernel_math.c    the result of each operation, one rule a column entry of kernel.def
 *   kernel_barrier.c   barriers that only some tiles of a group reach
 *   schedules.c        Schedule(...), launches, and what a kernel offers to the host
 *
 * A block value is a TY_TENSOR.  With `ref` it lies in memory: a Place says where.  Extents are exact, never clipped
 * to the tensor.  Sizes that are not known are fresh variables, so that i:i+4 has four elements for every i.
 */
#ifndef TSR_FRONTEND_KERNELS_H
#define TSR_FRONTEND_KERNELS_H

#include "frontend/check/checker.h"
#include "frontend/kernel/kernel.h"

typedef enum Memory { MEM_TENSOR, MEM_TILE, MEM_SHARED, MEM_REGISTER } Memory;
typedef struct KernelPlace { Memory memory; const char *text; } KernelPlace;
extern const KernelPlace kernel_places[];

/* What a TY_KERNEL is, in its `value`: item[0] is what PARTS gives, tensor what a FRAGMENT holds. */
typedef enum KernelThing { KT_CONTEXT, KT_GROUP, KT_FRAGMENT_A, KT_FRAGMENT_B, KT_FRAGMENT_C, KT_PARTS } KernelThing;

/* The kernel being walked. */
typedef struct Kernel {
    Fn *fn;
    Dim size[SCHED_COUNT];      /* what the schedule gives; a variable where the text does not tell */
    Dim offset[4];              /* block_m, block_n, block_k, block_d: the group's place */
    int64_t shared;             /* bytes of shared memory so far */
    Map allocated;              /* Ast * of an allocation -> 1 */
    bool leads;                 /* a KTile may have leading axes, which groups share */
} Kernel;

/* kernel_body.c */
void kernel_check(Check *C, Fn *f);                     /* its body, for its own sake */
const Type *kernel_name(Check *C, Sym name);            /* BM, block_m: a name that the schedule gives; NULL: it gives none */
Dim kernel_field(const Check *C, ScheduleField f);
Dim kernel_unknown(void);                               /* an int that nothing tells: a variable of its own, of either sign */
const Type *kernel_attribute(Check *C, const Type *t, Sym attr, Ast *node);      /* of a TY_KERNEL */
void kernel_statement(Check *C, Ast *s);                /* reports what may not stand in a kernel */
/* Of a builtin that only the host has; true: reported. */
bool kernel_host_call(Check *C, const struct NativeDef *d, const CallArgs *a, Ast *node);
bool kernel_takes(Check *C, const Type *value, Ast *node);      /* false: reported; None, a text and a list go nowhere in memory */
void kernel_iterated(Check *C, const Type *t, Ast *iter);
bool kernel_list_grows(Check *C, const char *method, Ast *node);         /* append, extend ...: true: reported */
void kernel_condition(Check *C, Ast *test);             /* whose type is known: it must be one truth */
const Type *kernel_fresh(const Type *t);                /* an int that is not known becomes a size of its own */
const Type *kernel_join(const Type *a, const Type *b);  /* two ways to one variable */
void report_outside(Check *C, const KernelOp *op, Ast *node);   /* an operation of kernels in code that is none */

/* kernel_place.c */
static inline const KernelPlace *place_of(const Type *t)
{
    return !type_is_any(t) && t->kind == TY_TENSOR ? t->ref : NULL;
}
const Type *kernel_subscript(Check *C, const Type *t, Ast *index, Ast *node);
void kernel_store(Check *C, AstSubscript *s, const Type *base, const Type *value);
/* A tensor that is no parameter: it was found outside the kernel, and is memory that is read only. */
bool kernel_is_captured(Ast *e);
/* Storing into what `e` names: false when it may not be stored to, reported. */
bool kernel_is_own(Check *C, Ast *e, Ast *node);         /* ... because it was found outside the kernel */
bool kernel_is_row(Check *C, Ast *e);                   /* x[i] of a matrix, where an element is needed: reported */

/* kernel_values.c */
bool kernel_differ(const Check *C, Dim a, Dim b);       /* do two extents surely differ? */
const Type *kernel_elementwise(Check *C, OpId op, const TType *in, int nin, Ast *node);
bool kernel_extents(Check *C, const TType *a, const TType *b, TType *out, Ast *node);    /* broadcast; false: reported */
/* Does a value of that dtype go into memory of that one as it is? false: reported. what: "tile.store()". */
bool kernel_dtype_goes(Check *C, const char *what, const Type *value, uint8_t into, Ast *node);
const char *kernel_by_steps(Ast *e);                    /* what to do instead of a store to x[a:b:c]; NULL: e is another */
const Type *kernel_value(const Type *t);                /* without its place */
const Type *kernel_block(uint8_t dtype, int rank, const Dim *shape);
/* Is what a kernel returns of the kind and the dtype that its annotation says? Sizes are seen at the launch. */
void kernel_returned(Check *C, const AstFunctionDef *def, const Type *t, AstReturn *r);
bool kernel_is_scalar(const Type *t);                   /* a number or an element */

/* kernel_calls.c */
typedef struct KernelCall {
    Check *C;
    const KernelOp *op;
    const char *name;           /* "tile.load" */
    const Type *self;
    const CallArg *arg[12];     /* by parameter; NULL: not given */
    Ast *node;
} KernelCall;
typedef const Type *KernelRule(KernelCall *k);
const Type *kernel_call(Check *C, const KernelOp *op, const struct NativeDef *d, const Type *self, CallArgs *a, Ast *node);
const TType *kernel_tensor(const KernelCall *k, int i);         /* argument i as a tensor of known rank; NULL */
uint8_t kernel_dtype_arg(const KernelCall *k, int i, uint8_t missing);  /* DT_NONE: given but not known */
int kernel_shape_arg(const KernelCall *k, int i, Dim *out);     /* the sizes; -1: not known */
Ast *kernel_arg_node(const KernelCall *k, int i);
/* A builtin of Python on elements: false when it is none of those that look at single elements. */
bool kernel_builtin(Check *C, const char *name, CallArgs *a, Ast *node, const Type **out);
#define KERNEL(id, owner, name, sig, rule, ...) KernelRule kernel_rule_##rule;
#include "frontend/kernel/kernel.def"

/* kernel_barrier.c */
void kernel_barriers(Check *C, AstFunctionDef *def);

/* schedules.c */
const Type *kernel_type(const Type *fn);                /* of a function that @kernel made a kernel */
bool type_is_kernel(const Type *t);
const Type *kernel_member(Check *C, const Type *t, Sym attr, Ast *node);         /* k.launch */
const Type *kernel_used(Check *C, const Type *t, CallArgs *a, Ast *node);        /* k(...), k.launch(...)(...), k.with_schedule(s) */
bool is_kernel_class(const Cls *c);                     /* what @kernel makes, and the decorators themselves: their attributes are known */
bool is_schedule_class(const Cls *c);                   /* Schedule, or the chain that stands for one */
/* The fields that Schedule(...), derive(...) and their kin name; f: whose own parameters are none, NULL: it has none. */
void schedule_check_call(Check *C, const Fn *f, const CallArgs *a, Ast *node);
bool schedule_takes_fields(const Fn *f);                /* is it one of their kin? */
const Type *schedule_attribute(Check *C, const Cls *c, Sym attr, Ast *node);     /* that the class itself has not */
/* What the decorators of a kernel say of its schedule, as far as they are written out. */
void schedule_of(Check *C, const AstFunctionDef *def, Dim *size);

#endif
