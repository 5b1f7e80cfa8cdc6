/* binding.h - which argument of a call meets which parameter. */
#ifndef TSR_FRONTEND_BINDING_H
#define TSR_FRONTEND_BINDING_H

#include "frontend/check/checker.h"

/* One parameter, of a function or a native. */
typedef struct { Sym name; uint8_t kind; bool required; const CallArg *arg; int taken; } Slot;
typedef struct Slots {
    Slot at[64];
    AstSeq params;              /* as the program wrote them; empty: a native's, or the library's */
    int n;
    const char *callee;
    bool any, open;             /* open: the call has *t or **t that are not known, which may be for any parameter */
    const Type *rest;           /* what *args gets, and **kw, when they are known */
    const Type *names;
    const CallArg *extra[32];   /* the arguments that they get */
    int nextra;
} Slots;

void slots_init(Slots *s, const char *callee, AstSeq params);
bool slots_read(AstSeq params, Slots *s);               /* one for each parameter; false: there are too many */
/* Fills in what each one gets; the first `skip` are taken (self). false: they do not go together, reported. */
bool slots_bind(Check *C, Slots *s, CallArgs *a, int skip, Ast *node);

/* followed.c: what a call of f comes to, whose arguments are bound; self: of a method, the object. */
const Type *fn_result(Check *C, Fn *f, Slots *s, const Type *self, const Bound *b, Ast *node);
const Type *fn_running(Check *C, Fn *f, Slots *s, const Type *self, const Bound *b, Ast *node);     /* of a generator or an async function, at once */
const Type *fn_declared_result(const Fn *f, const Bound *b);        /* in the caller's sizes */

/* fitting.c: false: the argument does not fit what its parameter is declared as, reported. */
bool argument_judged(Check *C, const Fn *f, const AstParam *p, const CallArg *a, const Type *want, const Bound *b, Ast *node);
Ast *value_of_arg(Ast *a);                              /* x of k=x */

/* natives.c: do the arguments go together with the native's parameters? What each gets is in *s; false: reported. */
bool native_bind(Check *C, const struct NativeDef *d, bool method, CallArgs *a, Ast *node, Slots *s);
/* E0906 for the first argument that the native surely does not take, which are bound: false. */
void native_judged(Check *C, const struct NativeDef *d, const Slots *s, const CallArgs *a, Ast *node);
bool native_refuses(const Type *t, const Ast *want);     /* surely nothing that such an annotation takes */
AstSeq native_choices(const Ast *want);                 /* the texts of Literal["mean", "sum"]; none: it is another annotation */
/* E0906: what, "the argument 'p' of f()", must be `want`, and gets x. */
void native_report(Check *C, const char *what, const char *want, const CallArg *x, Ast *node);

/* libargs.c: E0906, E0747 for host arguments that a function of the library surely does not take, which are bound: false. */
bool library_judged(Check *C, AstSeq params, const char *callee, const Slots *s, Ast *node);
bool device_misnamed(const Type *t);                    /* a text that is known, and names no device */
void report_device(Check *C, const Type *t, bool or_dtype, const Ast *arg, const Ast *node);

#endif
