/*
 * fused_impl.h - what the files that run `fused` nodes share: a body and the kernels made of it (fused_code.c).
 */
#ifndef TSR_IR_FUSED_IMPL_H
#define TSR_IR_FUSED_IMPL_H

#include "ir/schedule/fused.h"
#include "ir/schedule/schedule.h"
#include "ir/schedule/steps.h"

#include "base/vec.h"
#include "runtime/tensor.h"

enum { OPERANDS = REGION_OPERANDS };

/* A kernel of a body, for operands that lie in memory in a certain way. */
typedef struct Variant {
    struct Variant *next;
    StrideClass stride[OPERANDS];
    Schedule schedule;
    TileKernel *tile;           /* NULL: it could not be lowered */
    const struct KernelCompiler *by;    /* whose code it is: another compiler may have begun since */
    int effort;
    void *code;                 /* the compiler's; NULL: there is none */
    bool waits;                 /* for the end of a rehearsal, when it gets code */
    LaunchKernel launch;
} Variant;

/* What a body becomes. */
typedef struct FusedCode {
    uint32_t refs;
    Graph *whole, *body;        /* copies of its own, which bodies of the same key share; body: without the product */
    const Node *product;        /* in whole; NULL: none.  Its lanes are the last operand of body */
    int factor[2];              /* which operands the product is of */
    Region r;
    Schedule s;
    bool able;                  /* is the body a region at all? */
    bool looks_up;              /* in tables: places (fused_table.c) are operands of body, behind those of whole */
    const RegionValue *value[OPERANDS];     /* of its operands, then its results; NULL: an operand that nothing uses */
    Variant *first;
    Graph *divided;             /* the same as two bodies, once a GPU asks; NULL: it is better done as one */
    int divided_cost;           /* of the formula that is divided off, an element */
    bool divided_tabled;        /* is that of one bf16, which warpgroups look up? */
    bool divides_asked;
    Graph *one;                 /* the same of one row (fused_one.c), once that is asked for; NULL: there is none */
    bool one_asked;
    double work;                /* element operations so far */
    StrBuf key;                 /* body and schedule */
} FusedCode;

typedef struct Worked { FusedCode *code; double work; } Worked;

/* The compiler that is at work (NULL: the oracle), what a function asked of it (0: none did), and what has been made. */
typedef struct FusedState {
    const KernelCompiler *compiler;
    int effort;
    FusedStats stats;
    bool rehearses;
    Vec(Worked) worked;         /* before the rehearsal, which computes nothing, in the order of its questions */
    Vec(Variant *) waiting;
} FusedState;
extern FusedState fused_state;

/* One run of a body. */
typedef struct Run {
    Trace *T;
    FusedCode *c;
    uint32_t dying;             /* operands whose memory a result may take over */
    Tensor *const *slices;      /* where results had better lie; NULL: anywhere */
    int nin, nout;
    Tensor *x[OPERANDS];        /* operands (owned), then results */
    int64_t size[REGION_AXES];
    LaunchSpace space;          /* axes merged */
    LaunchSpace *lies;          /* NULL, or the space as its operands lie, whose rows are brought for the kernel (fused_brought.c). Owned */
    int device;                 /* of the driver's GPUs; 0: here */
    Span where;
    bool in_blocks;             /* is the product nowhere in memory? */
    int64_t total;              /* of a region that reduces over everything: its elements */
    Tensor *part[OPERANDS];     /* by result: its parts' totals; NULL: it has none. Owned */
    Variant *sums;              /* of rows in parts, which the kernel at hand joins; NULL: rows are not in parts */
    int64_t parts, each;        /* parts of a row, elements of each but the last */
} Run;

/* ---- fused_plan.c ---- */
void fused_sizes(Run *u);                               /* as the operands show them */
bool fused_all_sizes(Run *u, const Graph *body);        /* those that no operand shows follow from the graph's around */
bool fused_is_empty_extreme(const Run *u);
/* Has the device no place for an operand or a result, or is it lost? Nothing may be launched then. */
bool fused_has_fault(const Run *u);
int64_t fused_total_row(const Run *u);                  /* elements of a part of a total */
Tensor *fused_result(const Run *u, int i);              /* room for a result */
int fused_result_in_place(const Run *u);                /* the result that takes the product's place; -1: none */
bool fused_make_results(Run *u);                        /* room for all of them; false: no memory */
/* The kernel for how operands and results lie, and u->space for it; operands that lie awkwardly are copied. NULL: no memory, or a fault. */
Variant *fused_prepare(Run *u);
void fused_lie_whole(Run *u);                           /* no rows are brought */
/* How operands and results lie from p's rows to its columns, u->space being those two axes and others before them. false: one has to be copied. */
bool fused_blocks(Run *u, const Tensor *p, StrideClass *class);
/* The kernel for the rows of p as they are, when no operand needs to be copied for it; NULL: there is none. */
Variant *fused_plan_blocks(Run *u, const Tensor *p);
/* The kernel of a body without a product, u->space and the results ready for it; NULL: it is to be run in another way. */
Variant *fused_plan(Run *u, const Graph *body);

/* ---- fused_product.c ---- */
bool fused_product(Run *u);                             /* room for the product, the last operand */
/* All of a body with a product on its device, as one kernel: as FusedFar's blocks. */
int fused_far_product(Run *u, const Graph *body);

/* ---- fused_brought.c ---- */
bool fused_brings(Run *u);                              /* may rows be? u->space, no axis merged, becomes that of brought rows then */
bool fused_run_brought(Run *u, const Variant *v);       /* false: no memory */

/* ---- fused_table.c ---- */
bool fused_looks_up(const Graph *body);
bool fused_places(Run *u);                              /* the operands that say where; false: it is to be done apart */
/* The body as a graph in which tables are looked up by nodes of their own. A new reference. */
Graph *fused_apart(const Graph *body, const Attr *how);
int fused_run_apart(Trace *T, const Graph *body, const Attr *a, Tensor *const *in, int nin, Tensor **out, int *nout);   /* as trace_run_fused */

/* ---- fused_one.c ---- */
Graph *fused_one_row(Run *u);                           /* the body's graph for one long row, which these operands are; NULL: as it is */

/* ---- fused_divided.c ---- */
bool fused_divides(FusedCode *c, Tensor *const *in, int device);      /* had the body better be divided (c->divided) for these operands on a GPU? */
int fused_divided_cost(const FusedCode *c);              /* of what is divided off, an element, where warpgroups compute it */

/* ---- fused_fit.c ---- */
/* The part of the schedule's align that divides the inner axis as it is now: 0, or all of it, unless a condition was broken. */
int16_t fused_aligned(const Run *u);
/*
 * Are the results larger than the caches, and their own memory? Then they go past them: each line of a result is read before it is
 * written else, and drives out what is to be read.
 */
bool fused_goes_past(const Run *u);
Schedule fused_fitting(const Run *u, const StrideClass *class, bool crosswise);         /* the body's for operands that lie so */

/* ---- fused_far.c: on GPUs ---- */
static inline bool fused_is_total(const Run *u) { return u->c->r.naxes && !u->c->r.nkept && u->c->s.kind != SCHEDULE_MAP; }
bool fused_far_turns(const Run *u);                     /* are operands that lie across the others turned by tiles? */
Schedule fused_far_fitting(const Run *u, const StrideClass *class, bool crosswise);
Variant *fused_far_variant(Run *u, const StrideClass *class, bool crosswise);
int fused_far_run(Run *u, const Variant *v);            /* 0: there is no room; -1: a fault */

FusedCode *fused_code_of(Graph *body, const Attr *a);   /* kept with the body; bodies that differ in the names of sizes alone share it */
void fused_code_free(FusedCode *c);                     /* drop a reference */
/* The kernel for these strides and this schedule, made if there is none yet. */
Variant *fused_variant(FusedCode *c, const StrideClass *stride, int n, Schedule s);
/* A tensor of these sizes, row by row, whose elements are all in one place: for rehearsals, where nobody looks at them. NULL: no memory. */
Tensor *fused_ghost(DType dt, int rank, const Dim *shape);
/* Bytes that are the same for bodies that differ in the names of sizes alone. */
void fused_body_key(const Graph *body, StrBuf *out);

#endif
