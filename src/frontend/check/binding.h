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
    bool any;
    const Type *rest;           /* what *args gets, and **kw, when they are known */
    const Type *names;
    const CallArg *extra[32];   /* the arguments that they get */
    int nextra;
} Slots;

void slots_init(Slots *s, const char *callee, AstSeq params);
bool slots_read(AstSeq params, Slots *s);               /* one for each parameter; false: there are too many */
/* Fills in what each one gets; the first `skip` are taken (self). false: they do not go together, reported. */
bool slots_bind(Check *C, Slots *s, CallArgs *a, int skip, Ast *node);

/* natives.c: do the arguments go together with the native's parameters? What each gets is in *s; false: reported. */
bool native_bind(Check *C, const struct NativeDef *d, bool method, CallArgs *a, Ast *node, Slots *s);
/* E0906 for the first argument that the native surely does not take; they are bound. */
void native_judged(Check *C, const struct NativeDef *d, const Slots *s, const CallArgs *a, Ast *node);

#endif
