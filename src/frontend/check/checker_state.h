/*
 * checker_state.h - what the type checker knows while it walks: functions, classes, objects, frames, and the Check with all of it.
 *
 * A Check lives as long as one program is checked. A CFrame is a function (or module) being walked, with a type for
 * each variable at the point of the walk.
 */
#ifndef TSR_FRONTEND_CHECKER_STATE_H
#define TSR_FRONTEND_CHECKER_STATE_H

#include "frontend/check/check.h"
#include "frontend/check/type.h"

typedef struct Check Check;
struct NativeDef;
typedef struct Home Home;
typedef struct Inst Inst;
typedef struct CFrame CFrame;
typedef struct Cls Cls;
typedef struct Kernel Kernel;
typedef struct Spare Spare;

/* Type * of a function and its arguments -> Type * of the result. `quiet`: walks that found something and said nothing. */
typedef struct { Map said, quiet; } Memo;

/* The program's call into a library: where, in which frame, among how many branches and rounds of loops that are walked one by one. */
typedef struct {
    Ast *node;
    CFrame *frame;
    int branches, unrolled;
} Blame;

/* What the dims of a signature are at one call. */
typedef struct {
    Dim from[32], to[32];
    int n;
    const TType *rest;                  /* the tensor that tells what "..." is: rest_n sizes from rest_at on; NULL: none does */
    int rest_at, rest_n, rest_front;    /* rest_front: how many of them are in front of the caller's own "..."; -1: there is none */
} Bound;

/* There is one for each call: the arrays stay as they are. */
static inline void bound_init(Bound *b)
{
    b->n = b->rest_at = b->rest_n = 0;
    b->rest = NULL;
}

typedef struct { Sym name; Dim dim; } NamedDim;
typedef Vec(NamedDim) DimNames;

/* What a function's annotations say, in terms of its own dims. */
typedef struct Sig {
    const Type **param;         /* by slot; NULL: unannotated */
    const Type *ret;            /* NULL: undeclared */
    DimNames dims;
    bool ready;
} Sig;

/* A function of the program. */
typedef struct Fn {
    Sig sig;
    Ast *node;                  /* FunctionDef or Lambda */
    AstSeq params;
    Scope *scope;
    CFrame *around;             /* where it was defined */
    Cls *cls;                   /* whose method it is */
    Sym name;
    const Dim *example;         /* the sizes of the first call seen, as for dim_subst: example_n of from, then of to; NULL: none yet */
    int example_n;
    bool checked;               /* its body was walked once for its own sake */
    bool dynamic;               /* generator, async: results are not followed */
    bool mixed;                 /* defined inside `with precision(...)` or `with numerics(...)` */
    int active;                 /* calls being followed */
    bool is_static, is_class, is_property, is_staged;
} Fn;

/* What variables were before they were stored, while a branch is open: ways.h. */
typedef struct { const Type **at; const Type *was; } Put;
typedef struct Trail { Vec(Put) put; int forks; } Trail;

/* What a test says of sizes: a == b, a >= b, a divides b. */
typedef enum FactKind { FACT_EQ, FACT_GE, FACT_DIVIDES } FactKind;
typedef struct Fact { FactKind kind; Dim a, b; } Fact;
enum { FACTS_MAX = 16 };
typedef struct Facts { Fact at[FACTS_MAX]; int n; } Facts;

struct CFrame {
    CFrame *up;                 /* the frame around, for captured variables */
    Home *home;
    Fn *fn;                     /* NULL: module or class body */
    Scope *scope;
    const Type **var;           /* by slot of the frame; stored by var_put */
    Trail *trail;               /* of its variables: its own, a class body's that of the code around it; NULL: has no branches */
    Trail own;
    const Type **decl;          /* declared types of variables, by slot; NULL: none */
    Ast **from;                 /* by slot: the expression or parameter that a variable was last given */
    CFrame *caller;             /* of a body that is followed: where the call is, its arguments by slot, and what *args and **kw got; or NULL */
    Ast **arg;
    const struct Slots *slots;
    Ast *call;
    int nvar;
    DimNames dims;              /* the function's own dims */
    const Type *ret;            /* join of what was returned; NULL: nothing yet */
    const Type *yields;         /* join of what it yielded; NULL: nothing yet */
    const Type *declared;       /* result type, NULL when undeclared */
    bool dead;                  /* nothing gets here: after return, raise, break */
    bool several;               /* a variable here is declared to be one of several types */
    bool staged_known;          /* staged says it of the locals too */
    uint8_t *staged;            /* by slot, whether it holds what is surely staged (staged_ways.c); NULL: nothing here is */
    int staged_arms;            /* branches around that a staged tensor decides */
    AstReturn *first_return;    /* the first in such a branch, and what it returns; NULL: none yet */
    const Type *first_type;
    int branches;               /* C->branches at the start of the body */
    int guards;                 /* branches around, in the body, that something not known decides; loops are none */
    Vec(Fact) facts;            /* tested outside of branches, for the functions that are defined here */
    Cls *cls;                   /* class body */
};

/* Where an attribute was stored: the expression, and the frame that it stands in. */
typedef struct { Ast *value; CFrame *frame; } Site;

/* A source whose code is walked: the program, or a library file or module that it calls into. */
struct Home {
    const struct Space *space;  /* NULL: the program */
    Scope *scope;
    CFrame frame;               /* its body */
    const Type **glob, **decl;  /* by slot of the module; on the frame's trail */
    Ast **from;
    int nglob;
    bool *walked;               /* by piece of the space: its statements were */
    bool library;               /* mistakes inside are the caller's: they are reported at the program's call */
    Map mutated;                /* Sym -> MUTATED_ITSELF, MUTATED_PARTS: variables and attributes whose value some statement changes in place */
    bool mutates_any;           /* ... or one that has no name */
};

/* An object made by a call that is known: what its attributes are after __init__. */
struct Inst {
    Cls *cls;
    Map stored;                 /* Sym -> Type *; T_ANY once another type is stored from outside */
    Map sites;                  /* Sym -> Site * */
    const Type *key;            /* class and arguments: before one with a name a TY_LAZY of it */
    Ast *made;                  /* the call */
    Inst *older;                /* of an equal call, which no longer tells what this one makes; NULL: there was none */
    long era;                   /* the Check's, when __init__ read attributes of other objects: it may have others in another one; else -1 */
    bool making;                /* __init__ is being walked: stores replace */
    bool refused;               /* a mistake showed there, in a library: the next call like this one has it too */
    bool wild;                  /* changed in ways that are not followed */
    Bound dims;                 /* what the class's sizes are here */
};

struct Cls {
    AstClassDef *def;
    Home *home;
    Sym name;
    Cls *base;
    bool open;                  /* has a base or decorator that is not followed: attributes are not known */
    const char *builtin;        /* the builtin class that it derives from, where nothing else leaves it open; NULL: none */
    DimNames dims;              /* class C[D]: sizes of each object */
    bool far;                   /* derives from a class of a module that is not followed: its calls are not known either */
    bool is_protocol;           /* names what others can do: any object may stand for one */
    bool is_dict;               /* derives from TypedDict: what it describes are dicts */
    bool is_module;             /* derives from the library's Module: calls run forward */
    bool is_dataclass, is_frozen, makes_init, is_ordered;
    bool is_record;             /* derives from NamedTuple: its objects are tuples of its fields */
    Map attrs;                  /* Sym -> Type *: methods, class variables */
    Map declared;               /* Sym -> Type *: annotated attributes */
    Map stored;                 /* Sym -> Type *: self.x = ..., joined; 0: not yet seen */
    Map sites;                  /* Sym -> Site * */
    Map stores;                 /* Sym -> number of statements that store it */
};

enum { ATTR_DERIVED = 1, ATTR_STORED = 2, ATTR_HIDDEN = 4 };

/* The first round of a loop, walked quietly with what is so at its entry: outside of branches its sizes are sure. loop NULL: none. */
typedef struct FirstRound { struct Loop *loop; int quiet, branches, calls; } FirstRound;

struct Check {
    DiagSink *sink;
    CheckOptions opt;
    Arena arena;
    const char *path;           /* of the program */
    Home *home, *program;       /* being walked; the one that is checked */
    CFrame *frame;
    Vec(Fn *) fns, signed_fns;  /* the program's; those whose signatures were read and have dims to be freed */
    Vec(CFrame *) frames;       /* that were left and stay (frames.h): their lists are to be freed */
    Spare *spare[58];           /* memory of others, by the power of two that it is large */
    long captures;              /* how often something took hold of a frame for later */
    Map fn_of, cls_of;          /* Ast * -> Fn *, Cls * */
    Map stored_attrs;           /* Sym -> ATTR_STORED: assigned through an attribute somewhere in the unit, ATTR_DERIVED: made by a derived class,
                                   ATTR_HIDDEN: assigned by functions that are called out of sight */
    Map subclassed;             /* Sym -> 1: names of classes that others derive from */
    const Type **prelude;       /* by row: prelude_type of it, once known */
    Map rule_of;                /* Sym of a tensor function -> Rule * */
    Map home_of;                /* Space * -> Home * */
    Map inst_of;                /* Type * of class and arguments -> Inst * */
    Map wild;                   /* Sym -> 1: attributes stored in objects that are not known */
    Memo result_of;             /* of functions followed before */
    Memo held_result_of;        /* the same, of walks that read attributes of objects: of held_era alone */
    long held_era;
    long era;                   /* how often something that was known of an attribute changed */
    long held;                  /* how often an attribute of an object was read, ... */
    long held_made;             /* ... of one that is not being made */
    Map reported;               /* position -> 1 */
    Blame blame;
    Ast **arg;                  /* of the call that is about to be followed, by slot; how its arguments met the parameters; the call */
    const struct Slots *slots;
    Ast *called;
    long handed;                /* how many calls stood for their caller's */
    bool shown;                 /* the last report was not muted */
    Diag *last;                 /* it; NULL when muted */
    DiagSink *trial;            /* takes what is reported: an expression is tried (several.c); NULL */
    long findings;              /* reports, muted ones too */
    int branches;               /* undecided branches and loops around, in this function */
    int quiet;                  /* > 0: nothing is reported: trial passes, try bodies */
    int tries;                  /* statements around that catch what is raised, also around the calls that are followed */
    int facts;                  /* sets of facts in force; the number of the latest of all that were, 0: none in force; how many were */
    int64_t facts_id, facts_made;
    Ast *stmt;                  /* being walked */
    Ast *hold;                  /* a name whose value is only looked at there: it gets no other name */
    bool growing;               /* the call is of a method that changes a container whose growth is followed */
    bool leaving;               /* ... as the elements of the tuple that is about to be looked at */
    Ast *spent;                 /* the statement, not inside a call, at which there was no fuel left */
    Kernel *kernel;             /* the kernel being walked (kernels.h), also in the functions that it calls; NULL: none */
    struct Loop *loop;          /* innermost loop of the function, of flow.c */
    struct Hiding *hiding;      /* what the tests of the branches around are about, of flow.c */
    FirstRound first;
    int unrolled;               /* the rounds of the loops around that are walked one by one, multiplied; 1: none */
    int lenient;                /* in a step that scan runs: its names may stand for the sizes of what it captures */
    int mixed;                  /* inside `with precision(...)` or `with numerics(...)` */
    int depth, calls;
    int aliases;                /* names of types around the annotation that is read (annotype.c) */
    long fuel;
    bool apart;                 /* deciding whether a library raises: sizes of other names differ */
    bool names_wrong;           /* names were reported before: what they mean is not sure */
    Dim segment[2];             /* sizes of the axes that "..." stands for, made when they are needed */
    bool setattr_used;
    bool hasattr_used;          /* the program asks what has an attribute */
    bool catches;               /* somewhere a function that is a value is called where what it raises is caught: lambdas may be made to fail */
    bool parameters;            /* the program makes Parameters of tensors */
    bool constants;             /* reading a result type: names that no parameter declares may be the module's numbers */
};

enum { UNROLL_MAX = 1024 };     /* rounds of loops in loops that are walked one by one */
/* Expressions that a check may look at, following calls and unrolling loops included: some 50 ms, and 10 us a token. */
enum { FUEL = 180000, FUEL_BYTE = 12, CALL_DEPTH = 24, RECURSION = 3 };

/* The arguments of one call, as written. */
typedef struct CallArg { Sym name; const Type *type; Ast *node; uint8_t stars; } CallArg;
typedef struct CallArgs { CallArg *at; int n; bool open; } CallArgs;     /* open: has *args or **kw of unknown length */

#endif
