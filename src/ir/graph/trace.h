/*
 * trace.h - one door for every tensor op, and the transformations behind it.
 *
 * op_apply looks at its operands.  All concrete: the reference kernel runs.
 * Otherwise the operand with the highest level decides, as in JAX:
 *
 *   STAGE   builds a Graph: the op becomes a node, the result is abstract
 *   JVP     a pair (primal, tangent): the op's JVP rule, in terms of op_apply one level down
 *   LIN     a JVP level whose tangents are values of a STAGE level just below it: primal parts are
 *           computed further down, linear parts are recorded. Transposing that graph gives vjp.
 *   BATCH   a tensor with a batch axis in front: the op's batching rule, one level down
 *   SHARD   a tensor laid out over a mesh, below all others (shard.h): the op on its parts
 *
 * So every transformation is written once, nests in any order, and works alike
 * on concrete values (values stay visible: print, if, while, item) and while
 * staging.  A Graph is transformed by evaluating it (graph_apply) on such
 * tracers.  Each Tracer is owned by its Tensor.
 */
#ifndef TSR_IR_TRACE_H
#define TSR_IR_TRACE_H

#include "ir/graph/graph.h"
#include "runtime/tensor.h"

struct Trace;
typedef enum { TRACE_STAGE, TRACE_JVP, TRACE_LIN, TRACE_BATCH, TRACE_SHARD,
               TRACE_DONATED /* a tensor that was given away */ } TraceKind;

struct Level;
/* Runs an op whose operands are promoted and whose highest tracer is of the level. */
typedef bool LevelApply(struct Trace *T, struct Level *lv, OpId op, const Attr *a, Tensor *const *in, int nin, Tensor **out, int *nout);

typedef struct Level {          /* one active transformation; counted by its tracers */
    uint32_t refs;
    int depth;                  /* 1, 2, ... ; concrete is 0 */
    TraceKind kind;
    LevelApply *apply;          /* a program that transforms nothing thus needs none of the rules */
    bool closed;                /* the transformation is over: a tracer that got away must not be used */
    bool sealed;                /* STAGE: no captures, concrete tensors become constants (regions) */
    bool arm;                   /* STAGE: of a function that may not run (TensorFn) */
    bool linear;                /* STAGE: the tangent graph of a LIN level; effects do not belong here */
    Graph *graph;               /* STAGE: being built */
    Dim batch;                  /* BATCH: size of the batch axis */
    struct Level *outer;
    /* STAGE: tensors from below that were met become parameters: */
    Vec(Tensor *) captures;
    Vec(Node *) capture_nodes;
    Map capture_of;             /* Tensor * -> its place in captures, from 1 */
} Level;

typedef struct Tracer {
    Level *level;
    GValue node;                /* STAGE: the value */
    Tensor *primal;             /* JVP, LIN: one level down.  BATCH: with the batch axis in front */
    Tensor *tangent;            /* JVP, LIN: NULL when zero */
    uint8_t space;              /* in which memory the program says that it is, as Storage.space */
    bool batched;               /* BATCH: false when the value is the same for all */
    struct Shards *shards;      /* SHARD: its parts */
} Tracer;

typedef enum { OPERR_NONE, OPERR_SHAPE, OPERR_DTYPE, OPERR_INDEX, OPERR_VALUE, OPERR_MEMORY, OPERR_ZERODIV,
               OPERR_NUMERIC, OPERR_HOST /* a language exception is already pending */ , OPERR_TRACE, OPERR_ASSERT, OPERR_DEVICE } OpError;

enum { HOST_RESULTS = 256 };

/* A rule that runs: what it does without operands is not for its own level or those further in, which were there before it. */
typedef struct RuleFrame {
    const Level *top;           /* when it began */
    Level *below;               /* beneath its own level */
    struct RuleFrame *outer;
} RuleFrame;

typedef struct Trace {
    Level *top;                 /* innermost active level, NULL: none */
    RuleFrame *rule;            /* the innermost one; NULL: none runs */
    OpError error;              /* set when op_apply and friends return false */
    StrBuf message;
    Span span;                  /* recorded on new nodes */
    Sym scope;                  /* the with blocks around (Node.scope), recorded on new nodes */
    const Policy *numerics;     /* of the enclosing with tessera.numerics(...); NULL: default */
    bool guarded;               /* results that are not finite are errors: sentinel.c */
    OpId failed;                /* with OPERR_NUMERIC: the op that gave one */
    int fused;                  /* > 0: a fused node runs, whose operands' addresses hold until it is done */
    int settled;                /* > 0: graphs and rules are running, in which policies have become converts already */
    uint64_t seed, draws;       /* ambient random state: key of draw k is fold_key(key, k) */
    Tensor *key;                /* base key of the ambient draws, uint32 [2]; NULL: made from seed. Counted. */
    struct KeyScope *rounds;    /* the loop body being staged, whose rounds draw from keys of their own */
    bool (*poll)(void *st);     /* called now and then in long kernels and loops; false stops them */
    void *poll_state;
    struct DimEnv *dims;        /* sizes known to the running graphs (graph_apply) */
    bool all_staged;            /* ops on values from outside are part of the graph, too, not computed once while it is made */
    bool coded;                 /* launches of kernels become ops that need no language: functions that are exported */
    int mute;                   /* > 0: a recomputation, whose effects have happened already */
    Vec(Tensor *) temps;        /* owned by the rules that are running */
    uint32_t dying;             /* operands of the next kernel that the executor gives up */
    Tensor *const *slices;      /* where the results of the next fused node or launch had better lie; NULL, or one is: anywhere */
    bool exact;                 /* sums keep the order of whole tensors, however these are distributed */
    /* While a rank of a mesh runs (SPMD): */
    int floor;                  /* levels above it are the rank's own */
    int64_t place;              /* which rank of which mesh, as one number; 0: none */
    bool (*host_collective)(void *host, OpId op, const Attr *a, Tensor *x, Tensor **out);   /* meet the others; x NULL: a barrier */
    void *host;                 /* the Interp: print and custom rules call back into it */
    /* Calls back into the language; each false: OPERR_HOST. */
    void (*watch)(void *host, OpId op, Tensor *const *in, int nin, Tensor *const *out, int nout);    /* every op that ran; NULL: nobody */
    /* Every op that ran, with what it began at (see began); NULL: nobody profiles. */
    void (*timed)(void *host, OpId op, const Attr *a, Tensor *const *in, int nin, Tensor *const *out, int nout, int64_t began);
    int64_t (*began)(void *host);       /* called before an op, where `timed` is set */
    bool (*host_print)(void *host, const Attr *a, Tensor *const *in, int nin);
    /* dying: operands that nobody looks at afterwards (kernels.h): a result may take the memory of one that nobody else has. */
    bool (*host_launch)(void *host, const Attr *a, Tensor *const *in, int nin, uint32_t dying, Tensor **out, int *nout);
    void (*saved)(void *host, int n, Tensor *const *value, const Span *at);     /* what a backward pass keeps; NULL: nobody asks */
    void (*host_raise)(void *host, void *object);       /* the exception of a check that failed becomes pending */
    /*
     * The rules of a custom_jvp or custom_vjp op. Operands before attr.m are captures and not passed; n counts the others.
     * rule 0: n primals, n tangents -> results, their tangents.  1: n primals -> results, residuals.
     * 2: residuals, cotangents of all results -> n cotangents (NULL: zero).  out has room for HOST_RESULTS new references.
     */
    bool (*host_rule)(void *host, void *object, int rule, Tensor *const *in, int nin, Tensor **out, int *nout);
} Trace;

/* Had results of fused nodes better lie in slices of one tensor, where that saves a copy? NULL: nobody runs such nodes. */
extern bool (*trace_fused_slices)(void);

/*
 * Run the body of a `fused` node on concrete operands by a compiled kernel; set by whoever compiles, NULL: nobody.
 * 1: done. 0: it cannot, and the body is to be run op by op. -1: T->error says why.
 */
extern int (*trace_run_fused)(Trace *T, Graph *body, const Attr *a, Tensor *const *in, int nin, Tensor **out, int *nout);

/*
 * Run one op whose operands are on a GPU of the driver's (mesh.h), or whose result is to be there; likewise.  Results y are those that
 * the op's types give.  0: the host runs it.
 */
/*
 * Operands of a product, of f32 that are to go to tf32: which ones do tensor copies of their GPU round on the way to the units, as they lie? Bits by
 * their numbers; the others had better be converted so that their steps lie side by side. 0: units take neither.
 */
extern int (*trace_rounds)(Tensor *const *x, const Attr *product);
extern int (*trace_run_far)(Trace *T, OpId op, const Attr *a, Tensor *const *in, int nin, const TType *y, int nout, Tensor **out);

/*
 * Told of each op that the host ran, and of those that decide by values or show them; NULL: nobody asks.  Where its operands were on a GPU
 * alone, and still are, it has only moved them there.
 */
extern void (*trace_begins)(Tensor *const *in, int nin);        /* and told before */
extern void (*trace_noted)(OpId op, const Attr *a, Tensor *const *in, int nin, Tensor *const *out, int nout);

/* How often the host computed what belongs to a GPU, by op. Where elements only move there, or come to the host anyway, it did not. */
extern int64_t trace_on_host[OP_COUNT];

/* A program says itself when a tensor goes from one GPU to another; what it computes on them must lie together: else T->error (E0725), and false. */
bool trace_lie_together(Trace *T, OpId op, Tensor *const *in, int nin);
bool trace_device_failed(Trace *T);             /* a GPU failed meanwhile: its fault (runtime/cuda.h) becomes T->error. false */

/* A tracer without levels: operations are computed at once. done frees what it holds; levels must be closed. */
void trace_init(Trace *T);
void trace_done(Trace *T);

/* The key of the next ambient random draw (a new reference): fold_key(base, draws++), with the index in the batch
 * folded in under vmap and the iteration under scan and while, so that no two examples share numbers. NULL on error. */
Tensor *trace_key(Trace *T);
Tensor *trace_no_key(void);                             /* of functions that draw nothing: a new reference, NULL without memory */

/* Enter a with block that nodes remember: key=value inside the present ones. The former ones, to be put back into T->scope. */
Sym trace_enter(Trace *T, const char *key, const char *value);
/* The block of a @tessera.custom function: regions and functions staged within are in it too, and nothing in it is fused. */
#define SCOPE_MANUAL "auto=off"
bool scope_is_manual(Sym scope);        /* NULL, no block: false */
/* The block of a function that says what becomes one kernel (tessera.fusion): schedule/together.c. */
#define SCOPE_FUSION "fusion="
typedef enum { FUSION_PLAIN, FUSION_AUTO, FUSION_HORIZONTAL } FusionWay;
FusionWay scope_fusion(Sym scope);
Sym scope_lasting(Sym scope);           /* what regions and functions that are staged within a block are in, too; NULL: nothing */
/* A call that a pass is to know by name, "call=layernorm#3"; operations in it may be in a group with others around it. */
#define SCOPE_CALL "call="
Sym scope_around(Sym scope);            /* the blocks without such calls */

/* Did the loop body that is being staged draw random numbers so far? */
bool trace_drew(const Trace *T);

/* Run one op. Operands are borrowed; out gets *nout new references. false: T->error and T->message say why. */
bool op_apply(Trace *T, OpId op, const Attr *a, Tensor *const *in, int nin, Tensor **out, int *nout);
/* The common case of one result; NULL on error. */
Tensor *op1(Trace *T, OpId op, const Attr *a, Tensor *const *in, int nin);
Tensor *op_unary(Trace *T, OpId op, Tensor *x);
Tensor *op_binary(Trace *T, OpId op, Tensor *x, Tensor *y);

/* Evaluate a graph on operands of any level. With all-concrete operands this is the reference executor. */
bool graph_apply(Trace *T, Graph *g, Tensor *const *in, int nin, Tensor **out, int *nout);
/* The same; places: as T->slices, of the graph's results. */
bool graph_apply_placing(Trace *T, Graph *g, Tensor *const *in, int nin, Tensor *const *places, Tensor **out, int *nout);
/* graph_apply, and the caller's references to in[given..kept) are given up, and NULL afterwards where it ran: results may lie in their memory. */
bool graph_apply_giving(Trace *T, Graph *g, Tensor **in, int nin, int given, int kept, Tensor **out, int *nout);

/* Is a concrete value known beneath all JVP/LIN levels? The borrowed concrete tensor, else NULL. */
Tensor *tensor_concrete(Tensor *t);
TType tensor_type(const Tensor *t);
void tensor_donate(Tensor *t);              /* its memory goes; an op on it says so from now on */

/* Transformations take a function of flat tensor lists. */
typedef struct TensorFn {
    bool (*call)(void *self, Tensor *const *in, int nin, Tensor **out, int *nout);  /* room for max_out results */
    void *self;
    int max_out;
    bool arm;                   /* it may not run: when it is staged, ops on staged values from outside are part of it too */
} TensorFn;

/* Stage fn on abstract inputs. Captured tensors become leading parameters, returned in *captures (new references). */
Graph *stage(Trace *T, Sym name, TensorFn fn, const TType *in, int nin, Tensor ***captures, int *ncaptures);
bool trace_jvp(Trace *T, TensorFn fn, Tensor *const *primals, Tensor *const *tangents /* NULL entries: zero */, int n,
               Tensor **out, Tensor **dout, int *nout);
/* Reverse mode: run fn forward once, keep its linearisation. out: new references to its results, *nout of them; NULL: T->error says why. */
typedef struct Pullback Pullback;
Pullback *trace_vjp(Trace *T, TensorFn fn, Tensor *const *in, int n, Tensor **out, int *nout);
/* Cotangents of the n inputs, new references, for those of the results; false: T->error says why. As often as one likes. */
bool pullback_call(Trace *T, Pullback *p, Tensor *const *ct /* NULL entries: zero */, Tensor **ct_in /* NULL never: zeros */);
void pullback_free(Pullback *p);
/* Reverse mode without a function: what is computed from watched tensors is recorded until the tape is pulled.
 * For the outermost level only: tape_open gives NULL inside another transformation. */
typedef struct GradTape GradTape;
GradTape *tape_open(Trace *T);
bool tape_on_top(const Trace *T, const GradTape *tape);     /* may it be pulled or closed now? */
Tensor *tape_watch(GradTape *tape, Tensor *x);              /* x, followed by the tape; x itself when it is no float */
/* The derivative of loss (one element) by each watched float, in order: new references. Ends the tape. */
bool tape_pull(Trace *T, GradTape *tape, Tensor *loss, Tensor **grad);
void tape_close(Trace *T, GradTape *tape);
/* vmap: axis[i] is the batch axis of in[i] (from the front), INT_MIN when not batched; out_axis likewise for results. */
bool trace_vmap(Trace *T, TensorFn fn, Tensor *const *in, const int *axis, int n, const int *out_axis, Tensor **out, int *nout);

/* Control flow on functions: stage the bodies, then apply cond, while or scan. */
bool trace_cond(Trace *T, Tensor *pred, TensorFn on_true, TensorFn on_false, Tensor *const *in, int nin, Tensor **out, int *nout);
bool trace_while(Trace *T, TensorFn cond, TensorFn body, Tensor *const *init, int n, Tensor **out);
bool trace_scan(Trace *T, TensorFn body, Tensor *const *carry, int ncarry, Tensor *const *xs, int nxs, bool reverse,
                Tensor **out, int *nout);
/* fn, whose inner values are computed again in the backward pass, except those that keep says (NULL: none).
 * Marked values are results of plain calls whose name begins with KEEP_MARK; then a name of their own may follow. */
#define KEEP_MARK "keep:"
typedef enum { KEEP_MARKED, KEEP_NAMED, KEEP_DOTS } KeepKind;
typedef struct Keep { KeepKind kind; const Sym *name; int nnames; } Keep;
bool trace_checkpoint(Trace *T, TensorFn fn, const Keep *keep, Tensor *const *in, int nin, Tensor **out, int *nout);
/* x, marked for checkpoints around. */
Tensor *trace_mark(Trace *T, Tensor *x, const char *name);

#endif
