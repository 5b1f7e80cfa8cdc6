/*
 * body.h - what the files that make Tile IR of a kernel's body share.
 *
 * A body is evaluated once over values that stand for those of a launch: what
 * is known when the kernel is made stays a value of the language (STATIC), the
 * rest is code.  Host functions that it calls are evaluated in place.  Choices
 * and loops that depend on the launch become regions, whose variables join.
 *
 *   lead.c      matrices in stacks: the leading axes of a KTile, of what is loaded beside it, of what is returned
 *   make.c      one kernel for these dtypes, ranks, static values, sizes and lanes: parameters, the result
 *   body.c      statements: choices, leaving blocks        loops.c     loops        match.c     match        inline.c    functions of the host
 *   expr.c      expressions, names, indices        calls.c     builtins, functions of the host        library.c   the tensor library's
 *   number.c    emitting nodes; ints as sums of indices        arith.c     operators and functions on numbers and block values
 *   place.c     memory: indexing, slicing, loading, storing
 *   part.c      parts of block values        ordered.c   their elements in order
 *   spots.c     memory at blocks of ints        slope.c     derivatives of elements
 *   oper.h      the operations of kernel.def        methods.c   methods of values
 *   join.c      two ways to one variable; what loops carry
 *   launch.c    arguments, the grid, running, results
 *
 * Two things are found out late, and then all is made again with what was found
 * out: that a size must be a number (an extent of a block), that a loop must
 * be written out, or that two shared arrays take turns under one name.
 */
#ifndef TSR_FRONTEND_KERNEL_BODY_H
#define TSR_FRONTEND_KERNEL_BODY_H

#include "base/interrupt.h"
#include "base/map.h"
#include "base/vec.h"
#include "frontend/eval/eval.h"
#include "frontend/kernel/spec.h"
#include "ir/tile/tile.h"

/* ------------------------------------------------------------- values */

typedef enum KKind {
    K_BAD,                      /* it failed; reported */
    K_UNSET,                    /* a variable without a value */
    K_STATIC,                   /* a value of the language, known now */
    K_INT,                      /* an int of the launch: a sum of indices */
    K_SCALAR,                   /* an element, or with `weak` a float of Python's; or a truth */
    K_BLOCK,
    K_PLACE,                    /* memory, or a part of it; without free axes an element */
    K_TUPLE, K_LIST,
    K_VECTOR,                   /* of one lane: its elements */
    K_FRAGMENT,                 /* of a matrix; what it holds is a variable */
    K_CONTEXT, K_GROUP,         /* tile.context(), tile.cooperative_group() */
    K_METHOD,                   /* of the item, by name */
    K_RANGE,                    /* lo, hi, step; how: who visits them */
    K_PARTS                     /* of a place, by tile.split */
} KKind;

enum { LIN_TERMS = 6 };
/* c plus the sum of k * r. */
typedef struct Lin { int n; int64_t c; struct { TileRef r; int64_t k; } t[LIN_TERMS]; } Lin;

/*
 * What is known of an axis of a block: it begins at `start` of a dimension with `size` elements; moved: start is not known.
 * none: it has no elements. Code's blocks have some, so its extent is 1 there, of which sums and products take none and stores nothing.
 */
typedef struct AxisTag { Sym dim; bool cut, moved, none; Lin start, size; } AxisTag;

typedef struct PlaceAxis {
    Lin start, extent, size;    /* size: of the whole axis */
    bool gone;                  /* an index took it */
    bool cut;                   /* start is the group's own */
    bool ends;                  /* a slice's end, a number of the run, is the program's: nothing of it lies behind */
    Sym dim;
} PlaceAxis;

typedef struct Held Held;

typedef struct KPlace {
    TileRef view;
    const Held *held;           /* an array whose elements are variables, which has no view */
    DType dtype;
    int rank;
    int param;                  /* of the kernel, or -1 */
    uint64_t buffer;            /* which allocation; 0: none */
    bool stacked;               /* axis 0 of the view says which of several buffers */
    bool reduces;               /* a Region[reduce(...)]: += is atomic */
    PlaceAxis axis[VIEW_RANK];
} KPlace;

typedef struct KVal KVal;
struct KVal {
    uint8_t kind;               /* KKind */
    bool weak;                  /* SCALAR: a float of Python's */
    uint8_t how;                /* RANGE: KRangeHow */
    int n;                      /* items */
    Value v;                    /* STATIC; FRAGMENT: its number; GROUP: its size */
    TileRef ref;                /* SCALAR, BLOCK */
    union {
        const Lin *lin;         /* INT */
        const AxisTag *tag;         /* BLOCK: one an axis */
        const KPlace *place;    /* PLACE, PARTS */
        KVal *item;             /* TUPLE, LIST, VECTOR, RANGE: lo, hi, step; METHOD: of what */
    };
    Sym name;                   /* METHOD; PARTS: the level */
};

typedef enum KRangeHow { RANGE_ALL, RANGE_SHARED } KRangeHow;

/* ------------------------------------------------------------- the making of one kernel */

typedef struct Var { Sym name; KVal val; } Var;
typedef Vec(Var) Vars;

/* A function that is being evaluated: the kernel, or one that it calls. */
typedef struct Inlined {
    Vars vars;
    const FuncObj *fn;
    const Scope *scope;
    uint64_t path;              /* of the calls that led here, and of the rounds written out */
    struct Inlined *up;
    int depth;
} Inlined;

typedef struct Known { int64_t v; uint64_t sizes; } Known;
typedef struct KSize { Sym name; int64_t v; TileRef ref; bool is_static; } KSize;

enum { KERNEL_SIZES = 64, WARP = 32 };

typedef struct IndexNode { TileOp op; Lin a, b; const TileBlock *at; TileRef y; } IndexNode;

/*
 * A value that the kernel returns: its parameter, and of a block what is known of each axis. Where groups share the dimension, each puts its block at
 * its own place in the whole of it.
 */
typedef struct KResultAxis {
    int32_t extent;             /* of the block */
    Sym dim;                    /* the dimension it is of; NULL: none, or one whose size is a number */
    int64_t whole;              /* that number */
    bool cut;                   /* groups share it */
    int8_t along;               /* ... though no tile is cut: by rows (1) or columns (2) */
    Sym said;                   /* what the annotation says how large it is: a dimension, or a number, -1: neither */
    int64_t number;
} KResultAxis;

typedef struct KResult { int param, rank; bool led; DType dtype; KResultAxis axis[VIEW_RANK]; } KResult;
/* A variable outside, and what it was. A tensor is memory that is only read: its place, and which parameter of the code it is; -1: none. */
typedef struct KRead { const Value *at; Value v; const KPlace *place; int param; } KRead;
typedef Vec(KRead) KReads;

enum { KERNEL_RESULTS = 8, STACK_MAX = 64 };

typedef struct Body {
    Interp *I;
    const KSpec *spec;
    TileKernel *k;
    TileBuilder b;
    StrBuf build_err;
    Arena arena;
    Inlined *fn;
    KSize size[KERNEL_SIZES];
    int nsizes;
    TileRef group, lane;        /* once they were asked for */
    KVal *offset[3];
    KVal *lead;                 /* the group's number among the matrices */
    uint64_t shared_leads;      /* 1 << parameter: its matrices are shared out as those of the KTile are */
    Map known;                  /* node id + 1 -> Known *: indices that follow from sizes */
    Map loop_of;                /* node id + 1 -> Ast *: the number of a loop that can be written out */
    Vec(IndexNode) indices;     /* that were made, to give equal ones the same node */
    Map lane_dep;               /* node id + 1 -> 1 no, 2 yes */
    Map buffers;                /* path -> KPlace * */
    Map guess;                  /* loop and path -> KVal *: types that its variables came to */
    TileNode *front;            /* the last of the nodes that stand before all others: kb_to_front */
    KParam param[KERNEL_PARAMS];
    Sym target;                 /* of the assignment being made: what an array is called */
    const Ast *targets;         /* of one whose values stand in a row, and are to be made next; NULL: none */
    bool uses_lanes;            /* it asks who it is, or its tiles do something one by one */
    bool updates;               /* it adds to elements in place: each tile does where there are no blocks, else the group */
    bool uses_blocks;
    bool asks_group;            /* the program asks for its group's number */
    bool asks_extent;           /* ... or how large its block of a dimension is that groups share */
    int ranges;                 /* shared ranges around */
    int fragments, draws;
    int warp;                   /* whose fragments are at hand */
    bool in_fragments;          /* an operation goes through those of all warps */
    int held;                   /* variables that are elements of arrays */
    KResult result[KERNEL_RESULTS];
    int nresults;
    bool returns_tuple;
    Vec(Value) kept;            /* alive while it is made */
    KReads reads;
    Vec(Sym) positive;          /* sizes that are above 0 wherever this version runs */
    /* found out late: kept over the attempts */
    Map *unroll;                /* Ast * -> 1 */
    Map *stack;                 /* path of a buffer that takes turns -> STACK_MAX * number of the stack + its place there */
    Map *fixed;                 /* Sym of a size that must be a number -> 1 */
    Map *in_memory;             /* path of an array of a lane that is no variables -> 1 */
    int *nstacks;
    bool *fragments_apart;      /* each warp of the group has fragments of its own */
    bool failed, again;         /* again: with what was found out */
    StrBuf err;
    Span err_at;
    Map fixed_names;            /* of the kernel that was made: what `fixed` held; the caller's */
} Body;

/* Extents of axes, of which none was said yet. */
#define VIEW_ONES {1, 1, 1, 1, 1, 1, 1, 1}
_Static_assert(VIEW_RANK == 8, "an extent for each axis");

#define KBAD ((KVal){.kind = K_BAD})
#define KUNSET ((KVal){.kind = K_UNSET})
static inline bool kb_bad(KVal v) { return v.kind == K_BAD; }

/* It cannot be made: the first reason counts. */
KVal kb_fail(Body *B, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
KVal kb_again(Body *B);          /* start over, with what was found out */
/* The message of a pending exception becomes the reason. */
KVal kb_pending(Body *B);
void *kb_alloc(Body *B, size_t n);

/* make.c */
TileKernel *body_make(Interp *I, const KSpec *spec, Body *out);      /* NULL: out->err says why; body_done either way */
void body_done(Body *B);
void kb_give_results(Body *B);                           /* result.c: store what the body returned */
int64_t kresult_extent(const KSpec *s, const KResultAxis *x);           /* how long an axis of a result is in this launch */
KVal kb_tensor_outside(Body *B, Tensor *t, Sym name);   /* a place; K_UNSET: its elements have no places of their own */
KVal kb_size(Body *B, Sym name, int64_t v);          /* a size of the launch, as an int */
KVal kb_launch_size(Body *B, LaunchSize which);          /* one that it has of itself */
KVal group_offset(Body *B, int axis);                   /* block_m, block_n, block_k */
KVal kb_group_id(Body *B);
KVal kb_local_id(Body *B);
KVal kb_linear_id(Body *B);
int kb_group_size(const Body *B);                        /* the tiles of a group, as the program has them */
KVal kb_group_count(Body *B);
KVal kb_field(Body *B, ScheduleField f);                 /* a field of the schedule, or what stands for it */
KVal kb_dimension(Body *B, Sym name, bool block);        /* of a parameter, as the group sees it or whole; UNSET: no such name */

void kb_to_front(Body *B, TileNode *n);                  /* a node at the body's end goes before all that is not like it */
void kb_know(Body *B, TileRef r, int64_t v, uint64_t sizes);     /* an index follows from these sizes, and is v in this launch */
void kb_know_from(Body *B, TileRef r, int64_t v, const Lin *a, const Lin *b);    /* ... from those that two known sums follow from */

/* lead.c */
bool lead_take(Body *B, KPlace *p, int axes);            /* the first axes that are free become indices: of the group's own matrix */
KVal lead_inside(Body *B);                               /* the group's number among those of its matrix */

/* number.c: emitting */
TileRef kb_emit(Body *B, TileOp op, const TAttr *a, const TileRef *in, int n);
TileRef kb_emit1(Body *B, TileOp op, const TAttr *a, TileRef x);
TileRef kb_emit2(Body *B, TileOp op, const TAttr *a, TileRef x, TileRef y);
TileRef kb_map(Body *B, OpId op, const TileRef *in, int n);
TileRef kb_index(Body *B, int64_t v);
TileRef kb_const(Body *B, DType dt, double f, int64_t i);
TileRef kb_convert(Body *B, TileRef x, DType to);
TileRef kb_splat(Body *B, TileRef x, int rank, const int32_t *shape);
TileRef kb_reshape(Body *B, TileRef x, int rank, const int32_t *shape);
bool kb_lane_dependent(Body *B, TileRef r);
void kb_lane_mark(Body *B, TileRef r, bool depends);

/* number.c: values */
KVal kb_static(Body *B, Value v);                        /* steals v */
KVal kb_number(int64_t v);
KVal kb_scalar(TileRef r, bool weak);
KVal kb_block(Body *B, TileRef r, const AxisTag *tag);       /* tag: one an axis, or NULL */
static inline const TileType *kb_type(KVal v) { return tile_type(v.ref); }       /* of a scalar or a block */
KVal kb_int(Body *B, Lin l);
Lin lin_number(int64_t v);
Lin lin_of(TileRef r);
bool lin_same(const Lin *a, const Lin *b);              /* the same sum of the same indices */
bool lin_add(Body *B, Lin a, Lin b, int64_t k, Lin *out);       /* a + k * b */
TileRef lin_ref(Body *B, const Lin *l);
bool lin_number_of(const Lin *l, int64_t *out);         /* is it a number as it stands? */
bool lin_known(Body *B, const Lin *l, int64_t *out);    /* its value in this launch */
bool kb_positive(Body *B, const Lin *l);                /* is it above 0 in this launch, and all others that the version will be for? */
bool kb_need_number(Body *B, const Lin *l, const char *what, int64_t *out);      /* ... which then the kernel is made for */
bool kb_to_lin(Body *B, KVal v, Lin *out);               /* an index; false: it is none, reported */
bool kb_is_int(KVal v);                                  /* of Python's */
bool kb_is_value(KVal v);                                /* a number, an element, a block or what loads as one */
bool kb_static_number(KVal v, double *out);
bool kb_static_int(Body *B, KVal v, const char *what, int64_t *out);
bool kb_static_of(KVal v, unsigned tag);
KVal kb_index_op(Body *B, TileOp op, const Lin *a, const Lin *b);       /* what follows from sizes is known for this launch */
KVal kb_value(Body *B, KVal v);                          /* places load, fragments are what they hold */
KVal kb_now(Body *B, KVal v);                            /* an element is read now, an array stays memory */
DType kb_dtype(KVal v);                                  /* of a value; DT_NONE: Python's own number */
TileRef kb_ref(Body *B, KVal v, DType dt);               /* as a tile of that dtype */
KVal kb_apply(Body *B, OpId op, KVal *in, int n);        /* an elementwise op */
KVal kb_binary(Body *B, AstOp op, KVal a, KVal b);
KVal kb_unary(Body *B, AstOp op, KVal a);
KVal kb_compare(Body *B, AstOp op, KVal a, KVal b);
KVal kb_truth(Body *B, KVal v);                          /* a static bool or a bool scalar */
KVal kb_to_int(Body *B, KVal v);
KVal kb_to_float(Body *B, KVal v);
KVal kb_extreme(Body *B, bool max, KVal a, KVal b);
KVal kb_cast(Body *B, KVal v, DType dt);
bool kb_is_static_true(KVal v);
bool kb_is_static_false(KVal v);

/* place.c */
KVal kplace_value(Body *B, const KPlace *p);
int kplace_free(const KPlace *p);
int kplace_axis(const KPlace *p, int i);                 /* the i-th axis that no index took */
KVal kplace_load(Body *B, const KPlace *p);              /* an element or a block */
bool kplace_store(Body *B, const KPlace *p, KVal v);
bool kplace_assign(Body *B, const KPlace *p, KVal v);    /* the same, in an assignment, of which loops know */
/* An update of one element: what was there. expected: NULL, or what must be there for a change. */
KVal kplace_take(Body *B, const KPlace *p, OpId op, const KVal *expected, KVal v);
bool kplace_update(Body *B, const KPlace *p, OpId op, KVal v);   /* atomic: sum, max, min */
bool kplace_extent(Body *B, const KPlace *p, int axis, int32_t *out);
KVal kpart_of(Body *B, KVal base, const KVal *index, int n);      /* part.c: of a block value */
KVal kglued(Body *B, const char *name, const KVal *arg, const Sym *names, int n);    /* glued.c: concat, stack of block values */
bool kglues(const char *name);                           /* is it one of these? */
bool kpart_steps(KVal index);                            /* a slice whose step is not 1 */
KVal kb_subscript(Body *B, KVal base, const KVal *index, int n);
KVal kslope(Body *B, KVal y, KVal x);                    /* of y, computed from x, by x */
KVal kquick(Body *B, KVal y, KVal x);                    /* y, by quick formulas from x on */
bool kplace_is_spots(const KVal *index, int n);         /* is one of them a block of ints? */
KVal kplace_spots(Body *B, KVal base, const KVal *index, int n);        /* memory at such */
Sym kernel_field_name(Sym param, Sym attr);              /* expr.c: "cache.K" */
Sym kernel_item_name(Interp *I, Sym param, Value key);  /* args.c: "xs[0]", "p['w']" */
KVal kb_alloc_shared(Body *B, uint64_t path, Sym name, int rank, const int32_t *shape, DType dt, int space, int64_t align, bool swizzle);
KVal kb_shape(Body *B, KVal v);

/* held.c: arrays of a lane as variables */
KVal held_new(Body *B, uint64_t path, int rank, const int32_t *shape, DType dt);    /* its elements 0; UNSET: it must be memory */
KVal held_load(Body *B, const KPlace *p);               /* of a place with `held`; BAD: failed, or made again */
bool held_store(Body *B, const KPlace *p, KVal v);
bool held_leave(Body *B, const KPlace *p);              /* the place must be memory: false where it was not, and the kernel is made again */

/* oper.c */
KVal kb_operation(Body *B, const KernelOp *op, const AstCall *c);

/* expr.c */
KVal kb_expr(Body *B, Ast *e);
KVal kb_and_test(Body *B, KVal stay, Ast *test);         /* stay and test, which is evaluated only where stay holds */
int kb_indices(Body *B, Ast *index, KVal *out);          /* what stands in [ ], at most 8; -1: failed */
KVal kb_name(Body *B, const AstName *n);
KVal kb_static_item(Value v);                           /* borrowed: it lives as long as the kernel is made */
KVal kb_call(Body *B, AstCall *c);                      /* calls.c */
KVal kb_print(Body *B, const AstCall *c);               /* said.c */
KVal *kb_var(Body *B, Sym name);                         /* NULL: no such variable */
void kb_set(Body *B, Sym name, KVal v);
int kb_sequence(Body *B, KVal v, KVal **items);          /* of what is known to have them; -1: it is none */
int kb_iterated(Body *B, KVal v, KVal **items);          /* ... or gives them once: zip(...), the items of a dict, a set */

/* library.c: the tensor library on values of a kernel. false: there is nothing of that name. */
bool klibrary(Body *B, const char *name, const KVal *arg, const Sym *names, int n, KVal *out);  /* a native of several operations */
/* A function that the library has in the language itself. owner: "math", or "". */
bool klibrary_written(Body *B, const char *owner, const char *name, const KVal *arg, const Sym *names, int n, KVal *out);
KVal klibrary_of_arrays(Body *B, KVal f, Sym name);     /* np.exp is exp here; other functions are what they are */

/* body.c */
void kb_block_of(Body *B, AstSeq body);
void kb_body_of(Body *B, AstSeq body);                  /* of a function */
/* A value by a choice: test ? yes : no, each made in its own region. */
KVal kb_choose(Body *B, KVal test, KVal (*make)(Body *, void *), void *yes, void *no);

/* inline.c: what fn gives for these arguments, its body walked in place; names: NULL, or by name, NULL for by position. at: the call. */
KVal kb_inline(Body *B, FuncObj *fn, const KVal *arg, const Sym *names, int n, const Ast *at);

/* body.c and loops.c */
typedef struct Flags { Sym ret, brk, cont, value; } Flags;      /* truths that say who left, and the value returned: variables */
Flags kb_flags(void);
extern const KVal kb_no, kb_yes;
Vars vars_copy(const Vars *v);
KVal vars_value(const Vars *v, Sym name);
void vars_take(Body *B, Vars *v);                       /* they become the function's */
typedef struct Merge { Vec(Sym) name; Vec(KVal) type; } Merge;
void merge_add(Merge *m, Sym name);
void merge_done(Merge *m);
void held_assigned(Body *B, Merge *m);                  /* held.c: and the elements of arrays among them */
bool kb_any_group_work(Body *B, AstSeq s);
KVal kb_for_all(Body *B, KVal test, bool group_work);   /* a truth on which the group's work depends is the same for all lanes */
KVal kb_either(Body *B, KVal a, KVal b);
void kb_if_block(Body *B, KVal test, AstSeq *body);     /* the block where the test holds */
void kb_unless(Body *B, KVal gone, AstSeq body);       /* the block where they did not leave */
void kb_bind(Body *B, Ast *target, KVal v);
Sym kb_called(const Ast *target);                      /* its name; NULL: it is none */
void kb_for(Body *B, AstFor *s);
void kb_while(Body *B, AstWhile *s);
void kb_match(Body *B, const AstMatch *m);               /* match.c */

/* join.c */
KVal join_types(Body *B, KVal a, KVal b);               /* what holds both; K_BAD: nothing, reported */
bool join_same(KVal a, KVal b);                         /* the same type and static parts */
KVal join_convert(Body *B, KVal v, KVal type);          /* v as a value of that type */
/* Put the parts of v that are code in the type behind out[0..n): how many there are then. v: a converted value. */
int join_flatten(Body *B, KVal v, KVal type, TileRef *out, int n);
KVal join_rebuild(Body *B, KVal type, const TileRef *ref, int *at);
enum { JOIN_REFS = 256 };

#endif
