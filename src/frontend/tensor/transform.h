/*
 * transform.h - language functions as functions of flat tensor lists.
 *
 * A HostFn calls a language function on trees rebuilt from the tensors it is
 * given and flattens what comes back; it is what trace.h's transformations run.
 */
#ifndef TSR_FRONTEND_TRANSFORM_H
#define TSR_FRONTEND_TRANSFORM_H

#include "frontend/tensor/bind.h"
#include "frontend/tensor/tree.h"

enum { MAX_RESULTS = 4096 };    /* tensors that one transformed function may give */

/* The arguments of a call: positional, then named. */
typedef struct CallArgs {
    const Value *args;
    int n;
    const Value *kwvals;
    const Sym *kwnames;
    int nkw;
} CallArgs;

typedef struct HostFn {
    Interp *I;
    Value f;
    CallArgs a;
    const bool *moving;         /* which of the n + nkw arguments are rebuilt from tensors; NULL: all */
    TreeMode mode;
    bool key_first;             /* the first tensor is the base of random keys */
    bool skip_ints;             /* leaves that are not floats stay as they are */
    bool derived;               /* the arguments come as host_fn_wide made them; results leave loss-scaled types */
    bool keeps;                 /* what the function leaves in buffers of its arguments' Modules follows the results */
    Value result;               /* skeleton of the last result; V_ERR before. Owned */
    int nresult;
    int *kept, nkept;           /* which buffers (tree_buffers of the moving arguments, in order) those are. Owned */
} HostFn;

/* The HostFn as trace.h wants it. */
TensorFn host_fn(HostFn *h);
void host_fn_done(HostFn *h);
/* Put what followed the results into the buffers of the arguments that the caller gave. false: an exception is pending. */
bool buffers_keep(Interp *I, const CallArgs *given, const bool *moving, const int *kept, int nkept, Tensor *const *value);
/* The tensors among the moving arguments, in order (borrowed). */
bool host_fn_leaves(HostFn *h, TensorVec *out);

/*
 * What a function is differentiated by: of loss-scaled tensors and of those with an f32 master the f32 value, so that the
 * derivative is f32 too.  New tensors replace leaves and are collected in made, whose references are the caller's.
 */
bool host_fn_wide(Interp *I, TensorVec *leaf, TensorVec *made);
void tensor_vec_free(TensorVec *v);                     /* with the references in it */

/* The result tree around these tensors, which are consumed. */
Value result_tree(Interp *I, Value skeleton, Tensor **out, int n);
/* Flatten a result: numbers become tensors; *skeleton is new. out has room for MAX_RESULTS. */
bool flatten_result(Interp *I, Value v, Value *skeleton, Tensor **out, int *nout);
/* The same with weak numbers: they take the dtype of what they meet. */
bool flatten_weak(Interp *I, Value v, Value *skeleton, Tensor **out, int *nout);

/* A function made by a transformation, or a decorator still waiting for its function. */
typedef struct Transform Transform;
enum { TRANSFORM_OPTIONS = 6 };
typedef Value (*TransformCall)(Interp *I, Transform *t, const CallArgs *c);
struct Transform {
    NativeInst inst;
    TransformCall call;
    const char *name;
    Value f;                    /* V_ERR: waiting */
    Value opt[TRANSFORM_OPTIONS];               /* the transformation's own */
    void *state;
    void (*state_free)(void *state);
    void (*state_visit)(void *state, void (*fn)(Value *v, void *st), void *st);     /* its Values; NULL: none */
};
extern const NativeType staged_type;    /* of jit, function and compile */
Transform *transform_of(Value v);       /* NULL: v is none */
Value transform_new(const char *name, TransformCall call, Value f, const Value *opt, int nopt);

#endif
