/*
 * op.h - the op table: everything a layer needs to know about a Graph op.
 *
 * ops.def has a row an op.  Rules are shared by name: a row says SHAPE_BROADCAST
 * or BATCH_MAP, and each layer has one function for each such rule.
 * Axes in attributes count from the end (-1 is the last), so that a leading
 * batch axis changes nothing.
 */
#ifndef TSR_IR_OP_H
#define TSR_IR_OP_H

#include "ir/core/dim.h"
#include "ir/core/dtype.h"

#include "base/strbuf.h"

typedef enum OpId {
#define OP(name, nin, nout, fam, shape, dtype, flags, attrs, jvp, transpose, batch, doc) OP_##name,
#include "ir/core/ops.def"
    OP_COUNT
} OpId;

typedef enum OpFamily { FAM_MAP, FAM_REDUCE, FAM_SCAN, FAM_MOVE, FAM_CONTRACT, FAM_INDEX, FAM_SORT, FAM_RANDOM, FAM_LINALG,
                        FAM_FFT, FAM_MAKE, FAM_CONTROL, FAM_EFFECT, FAM_COLLECTIVE } OpFamily;

enum {                              /* flags */
    OPF_COMMUTES = 1, OPF_ASSOC = 2, OPF_LINEAR = 4,     /* LINEAR: in all operands together */
    OPF_MULTILINEAR = 8,            /* linear in each operand alone */
    OPF_NODIFF = 16,                /* no tangent: integers, comparisons, floor */
    OPF_IO = 32, OPF_RANDOM = 64, OPF_STATE = 128, OPF_RAISE = 256,     /* effects */
    OPF_VIEW = 512,                 /* the kernel may return a view */
    OPF_REGIONS = 1024,             /* has sub-graphs */
    OPF_COLLECTIVE = 2048,          /* the ranks of a mesh meet in it: an effect, kept in order */
    OPF_MEMORY = 4096               /* moves data nearer: an effect that no value shows */
};

/* The effects that text and reports name. Ops of an ordered effect stay in program order, each effect for itself. */
enum { EFFECT_COUNT = 6 };
typedef struct OpEffect { const char *name; uint16_t flag; bool ordered; } OpEffect;
extern const OpEffect op_effect[EFFECT_COUNT];

/* A type of a graph value or tensor: what shape and dtype rules work on. */
typedef struct TType {
    uint8_t dtype, rank;
    uint8_t weak;
    const Policy *policy;
    Dim shape[16];
} TType;

struct Graph;
struct Tensor;

/* Attributes of one op instance; which fields mean something is the row's `attrs` text. */
typedef struct Attr {
    uint8_t dtype;                  /* result dtype where the op does not infer it; DT_NONE: inferred */
    uint8_t accum;                  /* accumulator of reductions and contractions; DT_NONE: default */
    uint8_t compute;                /* of contractions: what the operands were taken to by a policy; DT_NONE: nothing said */
    uint8_t rounding, saturate, flush;      /* of convert; flush: subnormals to zero, any MAP op */
    uint8_t fast;                   /* of MAP ops, sums and products: code may reassociate, contract, and leave the rounding out */
    const Policy *policy;           /* of convert: the result's; of contractions: the operands', told for readers.
                                       `f` of convert: what tangents are multiplied by besides, 0: nothing */
    uint8_t kind;                   /* op-specific choice, e.g. distribution, fft direction, window op */
    uint8_t naxes;
    int8_t axis[16];                /* from the end, negative */
    int16_t n, m;                   /* op-specific counts: operands, batch dims, groups ... */
    double f;                       /* op-specific number: fill value of pad/full, lower bound ... */
    int64_t i, seed;
    uint8_t nd[4];
    Dim d[4][16];                   /* op-specific sizes: new shape; slice starts, stops, steps; pads */
    struct Graph *region[4];        /* counted; control flow */
    struct Tensor *value;           /* counted; of OP_constant */
    Sym name;                       /* print text, custom rule name ... */
    void *host;                     /* counted by the owner of OP kinds custom_*; an opaque language object */
} Attr;

typedef struct OpInfo {
    const char *name, *doc, *attrs;
    const char *typing;             /* name of the dtype rule */
    int8_t nin, nout;               /* -1: any */
    uint8_t family;
    uint16_t flags;
    const char *jvp, *transpose, *batch;    /* rule names; "none" */
    const char *shape, *adjoint;    /* name of the shape rule; the adjoint as a formula, "": not linear */
} OpInfo;
extern const OpInfo op_info[OP_COUNT];

bool op_find(const char *name, OpId *out);
/* What the op does besides giving results, as OPF_ flags. An op that may raise has no effect: its results are what it is for. */
unsigned op_effects(OpId op);

/*
 * Result types of an op. false: *err says what was expected and found, in the user's words
 * ("[32, 784] @ [512, 10]: inner sizes 784 and 512 differ"); *code is 3 for a shape, 4 for a dtype error.
 */
bool op_infer(OpId op, const Attr *a, const TType *in, int nin, TType *out, int *nout, StrBuf *err, int *code);

/* ir/graph types the rows whose attributes core cannot look into: constants and regions. */
typedef bool (*InferOuter)(OpId op, const Attr *a, const TType *in, int nin, TType *out, int *nout, StrBuf *err, int *code);
void op_set_infer_outer(InferOuter fn);

/* The dtype two operands meet in; false when two different floats do. Weak ones come from Python scalars and adapt. */
bool op_join_dtypes(const TType *a, const TType *b, uint8_t *dtype, uint8_t *weak);

extern const Attr attr_none;                            /* all zero, dtypes DT_NONE */
Attr attr_default(void);                                /* a copy of it to fill in */
Attr attr_iota(DType dt, int rank, const Dim *shape, int axis);        /* of OP_iota: places along an axis of this shape */
bool attr_equal(const Attr *a, const Attr *b);
void policy_print(const Policy *q, StrBuf *out);        /* "policy(storage=fp8_e4m3, compute=none, accum=f32, ...)" */
void attr_print(OpId op, const Attr *a, StrBuf *out);   /* "axes=(-1,) accum=f32" */
void ttype_print(const TType *t, StrBuf *out);          /* "f32[B, 4]" */

#endif
