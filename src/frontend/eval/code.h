/*
 * code.h - the executable form of a program.
 *
 * lower_*.c turns the syntax tree into Nodes: one cache line each, holding the
 * function that evaluates it and its operands inline.  Evaluating a node is one
 * indirect call; hot shapes (arithmetic on a local and a constant, `for i in
 * range`, x[i] on lists, calls of known functions) have functions of their
 * own.  Values come back in two registers, control flow as an Exit.
 *
 * A Frame is one running function.  Its slots are a window on the machine
 * stack that the caller filled with the arguments, so a call allocates nothing.
 */
#ifndef TSR_FRONTEND_CODE_H
#define TSR_FRONTEND_CODE_H

#include "frontend/check/scope.h"
#include "frontend/eval/native.h"
#include "frontend/syntax/ast.h"

typedef struct Step Step;
typedef struct Frame Frame;
typedef enum { X_NORMAL, X_BREAK, X_CONTINUE, X_RETURN, X_RAISE,
               X_STAGED         /* a staged branch that leaves: staged.c */ } Exit;

typedef Value (*EvalFn)(const Step *n, Frame *f);               /* an expression: a new reference */
typedef Exit (*ExecFn)(const Step *n, Frame *f);                /* a statement */
typedef bool (*StoreFn)(const Step *n, Frame *f, Value v);      /* a target: steals v */
typedef int (*MatchFn)(const Step *n, Frame *f, Value v);       /* a pattern: 1, 0, -1 pending */

typedef struct StepSeq { int n; Step *at[]; } StepSeq;

/* What a field means is said where the node is made and run; unused ones are zero. */
struct Step {
    union { EvalFn eval; ExecFn exec; StoreFn store; MatchFn match; };
    Span span;
    uint8_t op, flag;
    uint16_t small;
    uint32_t slot;
    Step *a, *b;
    union {
        Value k;
        struct { Step *c; StepSeq *seq; };
    };
    union { Sym sym; void *p; };
};

/* Attribute access remembers where it last found the name. */
typedef struct AttrCache {
    Sym name;
    StrObj *key;                /* the name's interned string */
    int32_t hint;               /* entry of the instance's dict */
    int32_t index;              /* entry of the holder's namespace */
    ClassObj *cls;              /* class that was looked up, valid while version matches */
    ClassObj *holder;           /* where the class chain has the name, NULL: nowhere */
    uint64_t version;
} AttrCache;

/* What a for statement has beside iterable, target and body. */
typedef struct ForParts { Step *orelse; const AstFor *ast; } ForParts;

/* A named dim of an annotated parameter that the body reads: slot = param.shape[axis]. */
typedef struct DimBind { uint32_t param, slot; int32_t axis; int8_t path[2]; uint8_t is_cell; } DimBind;

typedef struct EntryTest EntryTest;
struct Declared;
struct TensorGuard;

typedef struct Code {
    Sym name;
    const char *qualname;
    int nslots, nparams, npos, nposonly;        /* npos: parameters that positions fill */
    int varargs, kwargs;                        /* their slots, -1: none */
    bool simple;                                /* plain positional parameters, no generator: the fast path */
    bool any_params;                            /* (...) */
    bool is_generator, is_async, is_class;
    bool guards;                                /* has try or with: its generator sees what is thrown into it */
    const Sym *param;                           /* names, nparams of them */
    const uint8_t *required;                    /* parameter has no default */
    const uint32_t *cells; int ncells;          /* slots that hold cells: made at entry */
    const DimBind *dims; int ndims;
    struct EntryTest *tests; int ntests;        /* conditions of the signature: entry.c */
    struct TensorGuard *signature; int nsignature;  /* what it says of its tensors: signature.c */
    struct Declared *declared; int ndeclared;   /* parameters whose types act: declare.c */
    uint64_t regions;                           /* parameters whose tensors the caller gets back */
    Step *body;                                 /* a block, or NULL */
    Step *expr;                                 /* lambda, or a body that is one `return expr` */
    StepSeq *defaults;                          /* evaluated at the def, by parameter; NULL entries: none */
    Value doc;
    const Scope *scope;
    const Ast *ast;
} Code;

struct Frame {
    Value *slot;
    Interp *I;
    const Step *at;             /* what runs now, for tracebacks */
    CellObj **closure;
    ModuleObj *module;
    const Code *code;
    FuncObj *func;              /* NULL: a module or class body */
    DictObj *ns;                /* class body: its namespace */
    struct GenObj *gen;         /* generator or coroutine body */
    Frame *up;
    Value ret;
    void *pending;              /* with X_STAGED: the branch */
};

/* Takes what a driven generator yields, and owns it; false: no more, with an exception pending or without. */
typedef bool (*GiveFn)(void *taker, Value v);

/* Generators and coroutines: a frame that owns its slots and a stack to run on. */
typedef enum { GEN_NEW, GEN_SUSPENDED, GEN_RUNNING, GEN_DONE } GenState;
typedef struct GenObj {
    Obj obj;
    uint8_t state, is_async_gen, throwing;
    FuncObj *func;
    Value *slot;
    int nslots;
    struct Fiber *fiber;
    Frame *frame;
    Value in, out;              /* sent or thrown in; yielded or returned */
    Value handling;             /* its own exception being handled */
    Value delegate;             /* what yield from or await is waiting on */
    GiveFn give;                /* driven: who takes what it yields, running on the same stack; NULL: not driven */
    void *taker;
    Frame *caller;              /* driven: the frame that takes */
    bool stopped, quiet;        /* driven: the taker wants no more; it raised nothing itself */
    uint32_t rounds;            /* how often it went on */
    int arms;                   /* that were being staged (Interp) when it went on: those inside of it cannot yield */
    Interp *I;
} GenObj;

/* Compile a resolved unit into an arena; its constants belong to the Interp. */
Code *lower_module(Interp *I, Unit *u, Arena *a);
Code *lower_module_expr(Interp *I, Unit *u, const Ast *e);      /* one expression of it alone, into the unit's own */

#endif
