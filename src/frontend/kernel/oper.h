/*
 * oper.h - the operations of kernel.def, and what is done with block values.
 *
 * An operation's arguments are bound to its parameters once (KArgs) and go from file to file until one knows it: oper.c, oper_memory.c,
 * oper_math.c, oper_fragment.c.  All of these return K_BAD where something failed, which is reported then.
 */
#ifndef TSR_FRONTEND_KERNEL_OPER_H
#define TSR_FRONTEND_KERNEL_OPER_H

#include "frontend/kernel/body.h"

enum { OPER_PARAMS = 12 };

/* The arguments of a call, by parameter: UNSET where none is given. node: the expressions that they are; name: as messages have it. */
typedef struct KArgs {
    Body *B;
    const KernelOp *op;
    const AstCall *call;
    KVal at[OPER_PARAMS];
    Ast *node[OPER_PARAMS];
    const char *name;
} KArgs;

/* ---- oper.c: arguments; false: they are something else, which is reported ---- */
bool kb_given(const KArgs *a, int i);                   /* is there one, and not None? */
bool kb_shape_arg(const KArgs *a, int i, int *rank, int32_t *shape);
/* The same of a block value, whose extents may be 0. */
bool kb_block_shape_arg(const KArgs *a, int i, int *rank, int32_t *shape, AxisTag *tag);
bool kb_dtype_arg(const KArgs *a, int i, DType missing, DType *out);    /* missing: what it is where none is given */
static inline KVal kb_none(const Body *B) { return B->failed ? KBAD : (KVal){.kind = K_STATIC, .v = VNONE}; }        /* what has no value returns */
KVal kb_group_method(Body *B, KVal group, const char *name, const KVal *arg, const Sym *names, int n);   /* of a cooperative group */

/* ---- oper_memory.c ---- */
KVal oper_memory(KArgs *a);
const KPlace *oper_memory_arg(KArgs *a, int i);         /* NULL: it is no memory, reported */

/* ---- oper_math.c: block values ---- */
KVal oper_math(KArgs *a);
KVal oper_dot(KArgs *a);                                /* of the first two arguments, and a third that is added */
KVal oper_filled(KArgs *a, int dtype_at, KVal value);   /* a block whose shape is the first argument */
TileRef kb_iota(Body *B, const Lin *first, int rank, const int32_t *shape, int axis);

/* ---- methods.c ---- */
KVal block_method(Body *B, KVal self, const char *name, const KVal *arg, const Sym *names, int n);
KVal kb_no_extreme(Body *B, const char *what, KVal v, int axis);        /* fails: what() of no elements has no value */
KVal kb_reduce_axis(Body *B, OpId op, KVal v, int axis, bool keep);

/* ---- oper_move.c ---- */
KVal kb_transpose(Body *B, KVal v, const KVal *arg, int n);     /* the last two axes of a block; those of two arguments; or all in this order */
/* Methods of blocks that put elements elsewhere, or say where they are. false: there is none of that name. */
bool kb_block_moved(Body *B, KVal v, const char *name, const KVal *arg, const Sym *names, int n, KVal *out);

/* ---- ordered.c: sort, argsort, take_along, first_places of a block ---- */
bool kb_block_ordered(Body *B, KVal v, const char *name, const KVal *arg, const Sym *names, int n, KVal *out);

/* ---- oper_fragment.c ---- */
KVal oper_fragment(KArgs *a);
KVal fragment_value(Body *B, KVal f);                   /* what the fragment holds */

#endif
