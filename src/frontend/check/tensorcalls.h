/*
 * tensorcalls.h - what the rules for tensor functions share.
 *
 * A TCall is one call of a tensor function or method, the receiver first.  A
 * rule reads its arguments and gives the result's type; NULL or TY_ANY when it
 * cannot tell.
 */
#ifndef TSR_FRONTEND_TENSORCALLS_H
#define TSR_FRONTEND_TENSORCALLS_H

#include "frontend/check/checker.h"

typedef struct Rule Rule;
typedef struct TCall {
    Check *C;
    const char *name;
    CallArg *at;
    int n;
    bool open;                  /* has *args or **kw */
    Ast *node;
    const Rule *rule;
} TCall;
typedef const Type *RuleFn(TCall *c);
struct Rule { const char *owner, *name; RuleFn *fn; int op; };      /* op: what the rule's functions differ in */

/* The argument at this position or with one of these names; NULL when absent. */
const CallArg *tcall_arg(const TCall *c, int pos, const char *a, const char *b);
int tcall_positional(const TCall *c);                       /* how many have no name */
bool tcall_not_index(TCall *c, const TType *index);         /* reported: an index tensor that holds no ints */
const TType *tcall_tensor(const TCall *c, int pos);         /* NULL: not known to be a tensor */
bool type_int_value(const Type *t, int64_t *out);           /* a known number */
bool tcall_keepdim(const TCall *c, int pos, bool *out);     /* false: given but not known */
bool tcall_dtype(const TCall *c, int pos);              /* is a dtype given, or may one be? None is none */
void tcall_element(const TCall *c, int pos, TType *out);    /* dtype=: its dtype, DT_NONE when not known, and policy; else as it was */
/* Sizes from position `from` on: several ints, or one tuple or list. -1: not known how many. */
int tcall_sizes(const TCall *c, int from, const char *name, Dim *out);
void tcall_judge_number(const TCall *c, const CallArg *x);      /* reported: a tensor of several elements where a number is meant */
/* An axis argument counted from the front; -1: not known, -2: out of range, reported. */
int tcall_axis(TCall *c, const TType *x, const CallArg *a);
const Type *tensor_made(const TType *element, int rank, const Dim *shape);     /* of its dtype and policy */
const Type *tensor_unknown(void);
const Type *tensor_places(const TType *x);                  /* where(x): an index tensor for each axis of x, whose rank is known */
const Type *tensor_of_dtype(const TType *t);                /* of t's dtype, nothing else known */
Dim size_of_type(const Type *t);                            /* unknown unless an int with a known value */

/* operands.c */
bool operands_conflict(Check *C, OpId op, const TType *in, int nin);    /* other sizes are unknown, but two that must agree do not */
/* Sizes that must agree, of which one is not known, made one. false: there are none. */
bool operands_agreed(const Check *C, OpId op, TType *in, int nin);

RuleFn rule_by_name;                                        /* the elementwise op that rule->op is */
#define RULE(name, fn, op) RuleFn rule_##fn;
#define DRAWN(name, fn, op) RuleFn rule_##fn;
#define SHARED(name, fn, op) RuleFn rule_##fn;
#include "frontend/check/tensorrules.def"

#endif
