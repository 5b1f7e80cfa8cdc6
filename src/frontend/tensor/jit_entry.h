/*
 * jit_entry.h - what jit keeps of a staged function: the graphs that it became, and for which calls each of them stands.
 */
#ifndef TSR_FRONTEND_JIT_ENTRY_H
#define TSR_FRONTEND_JIT_ENTRY_H

#include "frontend/tensor/guard.h"
#include "frontend/tensor/jit_sizes.h"
#include "frontend/tensor/memory.h"
#include "frontend/tensor/transform.h"
#include "ir/schedule/replay.h"

/* What Transform.opt holds of a staged function; unset: V_ERR or None. */
enum { OPT_STATIC, OPT_MEMORY, OPT_EXPORT, OPT_MODE, OPT_BLOCK, OPT_CAPTURE };

typedef struct Entry {
    Value skeleton;             /* (args, kwargs) with marks for tensors */
    Value result;
    TType *type;
    int n, nout, ncaptures;
    int *kept, nkept;           /* results behind the nout: what goes into buffers of the arguments (transform.h) */
    const Policy *numerics;
    Sym scope;                  /* SCOPE_MANUAL: staged in a function of @tessera.custom */
    int64_t place;              /* staged on a rank: what the graph means may depend on which one */
    Graph *graph;
    Graph *fused;               /* the same with kernels to be; NULL: none, or not looked yet */
    bool looked;
    Tensor **capture;
    bool random;                /* the graph uses the key */
    Guard *guard;               /* what it read from outside */
    uint64_t within;            /* staged within another function: serves it alone. 0: at the top */
    Replay *replay;             /* runs on a GPU that are done again */
    Fitted fitted;              /* under a limit of memory: what runs instead of the graph */
    struct Entry *next;
} Entry;

typedef struct Staged {
    Entry *first;
    int entries, runs;
    bool *lift;                 /* which numbers of the arguments are passed as tensors; NULL: none */
    int nlift;
    bool never;                 /* it was tried, and the function needs its numbers */
} Staged;

/* The call as one tree: (args..., {name: value}). */
Value jit_call_tree(Interp *I, const CallArgs *c);
/* jit_make.c: a graph for these arguments, which nobody keeps, with sizes as `declare` has them (jit_sizes.h); NULL: an exception is pending. */
Entry *jit_build(Interp *I, Transform *t, const CallArgs *c, const TensorVec *in, Value tree, const SizeDeclare *declare);
/* What export() was told besides its function: (name, sizes, args), each None where nothing was said. V_ERR: v was not made by it. */
Value export_options(Value v);
void jit_entry_free(Entry *e);
/* The name of a library function that the program did not stage itself (whole.c): tools that say what was staged leave it out. */
extern const char jit_whole_name[];
static inline bool jit_is_whole(const Transform *t) { return t->name == jit_whole_name; }
/* Does a tensor have this type, sizes apart? The graph has conditions for them. */
bool jit_same_kind(const TType *t, const Tensor *x);
/* Do the sizes of these arguments meet the conditions of the graph? */
bool jit_sizes_fit(const Entry *e, const TensorVec *in);

/* For `tessera why-compile` (jit_why.c): say on standard error why a call, for which no graph was found, becomes one of its own. */
void jit_why(Interp *I, const Transform *t, const Staged *s, const TensorVec *in, Value tree);

#endif
