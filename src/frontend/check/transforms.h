/*
 * transforms.h - what the files that check functions made of functions share.
 *
 *   transforms.c       which function makes which, their options, vmap and scan, calls of what they made
 *   transform_grad.c   derivatives
 *   transform_flow.c   cond, while_loop, tree_map
 *   transform_partial.c  partial, compose, pipe
 */
#ifndef TSR_FRONTEND_TRANSFORMS_H
#define TSR_FRONTEND_TRANSFORMS_H

#include "frontend/check/checker.h"

/* How each tensor of a tree changes, in place; NULL: that is not known of it. */
typedef struct TreeChange { TType *(*change)(TType *t, const void *with); const void *with; } TreeChange;

/* A tree of tensors with each one changed; NULL: something in it is not known. */
const Type *tree_changed(const Type *t, const TreeChange *c);
bool call_has_names(const CallArgs *a);                 /* is one of the arguments given by name? */

/* transform_grad.c: types of results, T_ANY where they are not known; what is surely wrong is reported at `node` */
/* argnums= and has_aux=, of the arguments from `at` on, into the value of a TY_TRANSFORM; false: something else is asked for. */
bool transform_grad_options(const CallArgs *a, int at, Dim *value);
/* t(a...) of a t that grad or value_and_grad made: calls the function, too. */
const Type *transform_grad(Check *C, const Type *t, CallArgs *a, Ast *node);
const Type *transform_jacobian(Check *C, const Type *t, CallArgs *a, Ast *node, int times);     /* times 2: a hessian */
const Type *transform_vjp(Check *C, const Type *f, const CallArgs *a, Ast *node);       /* vjp(f, *xs): a[0] is f */
const Type *transform_pullback(Check *C, const Type *t, const CallArgs *a, Ast *node);  /* t(cotangent): what vjp made */
const Type *transform_jvp(Check *C, const Type *f, const Type *xs, const Type *vs, Ast *node);

/* transform_flow.c: of that many arguments or more, all by position */
const Type *transform_cond(Check *C, const CallArgs *a, Ast *node);
const Type *transform_while(Check *C, const CallArgs *a, Ast *node);
const Type *transform_tree_map(Check *C, const CallArgs *a, Ast *node);

/* transform_partial.c */
/* partial(f, ...)(...): what was given first, names again with new values. */
const Type *transform_partial(Check *C, const Type *t, const CallArgs *a, Ast *node);
bool transform_pipe(const CallArgs *a, const char *name, const Type **out);
const Type *transform_piped(Check *C, const Type *t, CallArgs *a, Ast *node);           /* a call of what that made */

#endif
