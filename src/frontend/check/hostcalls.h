/* hostcalls.h - the rules of builtins whose results depend on what they are given, for the files that have them. */
#ifndef TSR_FRONTEND_HOSTCALLS_H
#define TSR_FRONTEND_HOSTCALLS_H

#include "frontend/check/checker.h"

/* What a call of the builtin gives; NULL: its signature says all that is known. Arguments that are surely wrong are reported. */
typedef const Type *HostFn(Check *C, const CallArgs *a, Ast *node);

const Type *host_arg(const CallArgs *a, int i);         /* argument i by position; NULL: there is none, or its type is not known */
/* f(x), for each element; a lambda that is written there is part of the expression, not a function that is called. */
const Type *host_each(Check *C, const Type *f, const Type *x, Ast *arg, Ast *node);

/* hostorder.c */
HostFn host_min, host_max, host_sorted;
void host_alone_judged(Check *C, const CallArgs *a);    /* max(3): one argument alone is gone through */

#endif
