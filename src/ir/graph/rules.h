/*
 * rules.h - the small language that derivative and batching rules are written in.
 *
 * A rule is a function over tensors of any level.  What r_* functions return
 * belongs to the running rule and dies with it, so rules read like formulas.
 * NULL means zero: linear ops pass it on, r_add takes it as an addend.  After
 * a failure (r->failed) everything returns NULL and the rule's result is
 * discarded, so rules need no error paths.
 */
#ifndef TSR_IR_RULES_H
#define TSR_IR_RULES_H

#include "ir/graph/level.h"

typedef struct Rule {
    Trace *T;
    int mark;                   /* temps above it are this rule's */
    bool failed;
    bool fast;                  /* the op that the rule is for is under fast numerics, so what the rule computes is, too */
} Rule;

Rule rule_begin(Trace *T);
void rule_end(Rule *r);                                 /* drops the temporaries */
Tensor *r_keep(Rule *r, Tensor *t);                     /* a reference that the rule takes over; NULL: failed */

/* One op. NULL when an operand is NULL. */
Tensor *r_op(Rule *r, OpId op, const Attr *a, Tensor *const *x, int n);
static inline Tensor *r1(Rule *r, OpId op, Tensor *x) { return r_op(r, op, NULL, &x, 1); }
static inline Tensor *r2(Rule *r, OpId op, Tensor *x, Tensor *y) { return r_op(r, op, NULL, (Tensor *[]){x, y}, 2); }
static inline Tensor *r3(Rule *r, OpId op, Tensor *x, Tensor *y, Tensor *z) { return r_op(r, op, NULL, (Tensor *[]){x, y, z}, 3); }
static inline Tensor *r_mul(Rule *r, Tensor *x, Tensor *y) { return r2(r, OP_mul, x, y); }
static inline Tensor *r_div(Rule *r, Tensor *x, Tensor *y) { return r2(r, OP_div, x, y); }
static inline Tensor *r_neg(Rule *r, Tensor *x) { return r1(r, OP_neg, x); }
Tensor *r_add(Rule *r, Tensor *x, Tensor *y);           /* NULL is zero */
Tensor *r_sub(Rule *r, Tensor *x, Tensor *y);           /* likewise */

/* Numbers and fresh tensors. */
Tensor *r_num(Rule *r, Tensor *like, double v);         /* 0-d, in like's dtype */
Tensor *r_int(Rule *r, int64_t v);                      /* 0-d int32 */
Tensor *r_full(Rule *r, const TType *y, double v);
Tensor *r_zeros(Rule *r, const TType *y);
Tensor *r_iota(Rule *r, const TType *shape, int axis);  /* int32; axis negative: counts along that axis */
Tensor *r_or_zeros(Rule *r, Tensor *t, const Tensor *like);     /* t, or zeros like the other */

/* Moving. Axes are negative, from the end; `to` gives shapes. */
Tensor *r_reshape(Rule *r, Tensor *x, int rank, const Dim *shape);
Tensor *r_broadcast(Rule *r, Tensor *x, int rank, const Dim *shape);
Tensor *r_permute(Rule *r, Tensor *x, int n, const int *axis);
Tensor *r_swap(Rule *r, Tensor *x, int a, int b);       /* two axes, negative */
Tensor *r_mT(Rule *r, Tensor *x);                       /* transposed matrices, conjugated when complex */
Tensor *r_slice(Rule *r, Tensor *x, int axis, Dim start, Dim stop);
Tensor *r_flip(Rule *r, Tensor *x, int axis);
Tensor *r_concat(Rule *r, Tensor *x, Tensor *y, int axis);
Tensor *r_sum(Rule *r, Tensor *x, int n, const int *axis);
Tensor *r_expand(Rule *r, Tensor *x, int axis);         /* a new axis of 1 that becomes `axis` */
Tensor *r_convert(Rule *r, Tensor *x, uint8_t dtype);
Tensor *r_matmul(Rule *r, Tensor *x, Tensor *y);
Tensor *r_take_last(Rule *r, Tensor *x, Tensor *idx);   /* x [..., n], idx [..., k]: along the last axis */
Tensor *r_tri(Rule *r, Tensor *x, bool upper, bool diagonal);   /* that triangle of matrices, zeros elsewhere */

/* A tangent as its result's type: broadcast and converted. */
Tensor *r_fit(Rule *r, Tensor *t, const TType *y);
/* A cotangent as its operand's type: summed over what was broadcast, converted. */
Tensor *r_unfit(Rule *r, Tensor *ct, const TType *x);

/*
 * -- JVP rules: dy[k] from primals x, tangents t (NULL: zero) and results y.  Rules of control flow make y too, and
 * both are references for the caller. -------------------------------------------------------------------------------
 */
typedef struct Jvp {
    Rule *r;
    OpId op;
    const Attr *a;
    Tensor *const *x, *const *t;
    int n;
    Tensor **y;
    int ny;
    Tensor **dy;
} Jvp;
typedef void (*JvpRule)(Jvp *j);
extern const JvpRule jvp_of[OP_COUNT];

/* -- transposes: ct[k] of results to dx[i] of the operands marked linear -------------------------------------------- */
typedef struct Transpose {
    Rule *r;
    OpId op;
    const Attr *a;
    const TType *xt;            /* types of operands */
    Tensor *const *x;           /* their values; NULL for the linear ones */
    const bool *linear;
    int n;
    Tensor *const *ct;          /* NULL: zero */
    const TType *yt;            /* types of results */
    int ny;
    bool masked;                /* some of ct's zeros come from a where: what they meet must not turn them into NaN */
    Tensor **dx;
} Transpose;
typedef void (*TransposeRule)(Transpose *t);

/* -- batching: x[i] has the batch axis in front when in[i]; results y[k], out[k] says whether batched ------------------ */
typedef struct Batch {
    Rule *r;
    OpId op;
    const Attr *a;
    Dim size;
    Tensor *const *x;
    const bool *in;
    int n;
    Tensor **y;
    bool *out;
    int ny;
} Batch;
typedef void (*BatchRule)(Batch *b);
Tensor *batch_stretched(Batch *b, int i);       /* operand i as [size, own...], whether or not it varies */

#endif
