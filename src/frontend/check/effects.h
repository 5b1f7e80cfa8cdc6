/*
 * effects.h - what functions do besides computing, found by looking at their code.
 *
 * An effect is one of a closed set; effects only join, so the effect of a
 * function is a set of bits, a mask of the parameters that it calls, and a mask
 * of those whose objects it changes.  Each bit keeps a witness: the place that
 * brings it in, and the function called there.
 *
 * given.c reads a unit, things.c says which functions, classes and modules an expression may be,
 * without regard to the order of statements; effect_walk.c (with effect_calls.c and effect_sources.c) goes through bodies,
 * effects.c to a fixed point over the call graph; declared.c holds functions to what they
 * declare; variance.c finds collectives that ranks may reach differently.
 * Library files are read like the program's own.
 */
#ifndef TSR_FRONTEND_EFFECTS_H
#define TSR_FRONTEND_EFFECTS_H

#include "frontend/check/check.h"
#include "frontend/check/spaces.h"

struct NativeDef;

typedef enum Effect { EFF_random, EFF_io, EFF_memory, EFF_state, EFF_collective, EFF_COUNT } Effect;
enum { EFFECTS_ALL = (1 << EFF_COUNT) - 1 };
enum { EFFECTS_MORE = 1 << EFF_COUNT };     /* beside the bits of effects: there may be more, what is called was not followed to its end */

typedef struct EffFn EffFn;
typedef struct EffCls EffCls;
typedef struct Effects Effects;

/* A value that a variable, an attribute or a result may have; a chain of them. */
typedef struct Given {
    Ast *value;
    Scope *scope;               /* where the expression stands */
    bool held;                  /* put into what the variable holds: it is not the variable's own value */
    struct Given *next;
} Given;

typedef struct Why {
    Span span;
    const char *what;           /* the name called there, or "" */
    const EffFn *next;          /* whose effect it is; NULL: a native's, or the function's own */
} Why;

/* Variables of functions around that a function changes. */
enum { CAPTURED_MAX = 8, DETAILS_MAX = 8 };

struct EffFn {
    Ast *node;                  /* FunctionDef or Lambda */
    Scope *scope;
    AstSeq params;
    Sym name;                   /* NULL: a lambda */
    EffCls *cls;                /* whose method */
    const char *owner;          /* of the library: its class or module; NULL: the program's own */
    Given *returns;
    bool is_static, is_property;
    bool own;                   /* of the program that is checked; else of a module it uses */

    uint8_t bits;               /* inferred; EFF_state includes what follows */
    Why why[EFF_COUNT];
    bool state_outside;         /* changes something that no argument holds */
    uint64_t writes, calls;     /* masks of parameters */
    const Local *captured[CAPTURED_MAX];
    int ncaptured;
    const char *detail[DETAILS_MAX];    /* of EFF_state: "append", "write self.x" */
    int ndetail;

    Why more;                   /* with EFFECTS_MORE: the call that was not followed to its end */
    const Ast *declared_at;     /* the decorator @pure or @effects; NULL: undeclared */
    uint8_t declares;
    bool is_pure, is_stateful, is_all;
    uint8_t walk;               /* 0 never walked, 1 being walked, 2 walked */

    uint64_t result;            /* variance.c: why its result may differ from rank to rank */
    uint64_t param_varies;      /* variance.c: parameters that are passed what differs */
};

struct EffCls {
    AstClassDef *def;
    Scope *scope;               /* where the class statement stands */
    const char *owner;
    Map attrs;                  /* Sym -> Given *: stored through self, or bound in the class body */
    Map methods;                /* Sym -> EffFn * */
};

struct Effects {
    Unit *u;
    DiagSink *sink;
    Arena arena;
    Map fn_of, cls_of;          /* Ast * -> EffFn *, EffCls * */
    Map given;                  /* Local * -> Given * */
    Map units;                  /* Unit * -> 1: read */
    Map spaces;                 /* Scope * of a module -> Space *: what stands between its definitions is read */
    Map found;                  /* Ast * -> what things_of found */
    int leans;                  /* things.c: the outermost open expression that was asked for */
    Vec(EffFn *) own;           /* functions of the program, in order */
    Vec(EffFn *) all;
    Vec(EffCls *) classes;
    bool changed, unsettled;    /* unsettled: after all rounds there is more to come */
    int depth;                  /* of inference through calls */
    Map rooted;                 /* Local * -> the search for the origin of a changed object that has been there */
    uintptr_t searches;
    Map varies;                 /* variance.c: Local * -> mask */
};

/* ------------------------------------------------------------- given.c, things.c */

typedef enum ThingKind { THING_FN, THING_NATIVE, THING_CLASS, THING_INSTANCE, THING_SPACE, THING_PARAM,
               THING_OBJECT } ThingKind;
typedef struct Thing {
    ThingKind kind;
    bool bound;                 /* FN: its first parameter is the object it was taken from */
    int param;                  /* PARAM: its number in fn */
    const void *p;              /* EffFn, NativeDef, EffCls, Space; PARAM: EffFn; OBJECT: text of the natives' owner */
    const EffCls *of;           /* bound FN that a class inherits: that class; else NULL */
} Thing;

enum { THINGS_MAX = 32 };
typedef struct Things { int n; bool more; Thing at[THINGS_MAX]; } Things;       /* more: and others, which a limit cut off */

/* Read a resolved unit: its functions, classes and what is given to its variables. */
void things_read(Effects *E, Unit *u, const char *owner);
/* A module's functions and classes are read when they are asked for: what makes `name` in the module of this scope. */
void things_read_space(Effects *E, const struct Space *s);
void things_need(Effects *E, const Scope *module, Sym name);
Things things_of(Effects *E, Scope *scope, Ast *e);
EffFn *things_method(Effects *E, const EffCls *c, const char *name);
/* Does c derive from the library's class of that name? */
bool things_derives(Effects *E, const EffCls *c, const char *library);
/* The variable that a name is, seen from scope; NULL when it is none that a statement binds. *module: it is the module's. */
Local *things_local(Effects *E, Scope *scope, const AstName *n, Scope **owner);
Given *things_given(const Effects *E, const Local *l);
AstParam *things_param(const EffFn *f, int slot);

/* ------------------------------------------------------------- effects.c */

extern const char *const effect_name[EFF_COUNT];
bool effect_find(const char *name, Effect *out);
/* Bits of calling `name` of `owner`; -1: no row. */
int effect_row(const char *owner, const char *name);
bool effects_mutates(const struct NativeDef *d);        /* a method that changes its object */
bool effects_mutator(const char *name);                 /* the name of one */

/* One source of an effect, as a walk finds it. */
typedef struct EffSource {
    uint8_t bits;
    Span span;
    const char *what;
    const EffFn *next;
} EffSource;

typedef struct EffWalk EffWalk;
struct EffWalk {
    Effects *E;
    EffFn *fn;                  /* NULL: the module's own statements */
    Scope *scope;
    uint8_t masked;             /* effects that the scope around makes repeatable */
    uint8_t suspended;
    const Ast *suspended_at[EFF_COUNT];
    /* What a reporting walk does with a source; NULL: only infer. */
    void (*found)(EffWalk *w, const EffSource *s);
    Ast *statement;             /* the expression that stands as a statement */
    int depth;
    bool lost;                  /* the origin of a changed object is too far away */
};

/* Walk one function's body, or the module's statements, handing over each source in order. */
void effects_walk(EffWalk *w);
/* As if the functions that an expression may be were called at `span`. */
void effects_passed(EffWalk *w, Scope *scope, Ast *value, Span span);
/* The bits that a caller sees: what is declared, else what was inferred. */
uint8_t effects_seen(const EffFn *f);
/* The bits of calling the things that an expression may be, as at the call `c`. */
uint8_t effects_of_call(Effects *E, Scope *scope, AstCall *c);
void effects_infer_fn(Effects *E, EffFn *f);            /* one walk, and of what it calls when that was never walked */
/* Is e the library's function or method `name` of `owner` (a module or class)? */
bool effects_is_library(Effects *E, Scope *scope, Ast *e, const char *owner, const char *name);

/* ------------------------------------------------------------- declared.c, variance.c */

/* What f's decorators say; of the program's own functions, names that are no effects are errors. */
void declared_read(Effects *E, EffFn *f);
void declared_check(Effects *E);
const char *effects_callee(Effects *E, const char *name);     /* "f()", as E0514 says it */
void declared_print(const Effects *E, StrBuf *out);
void variance_check(Effects *E);

/* ------------------------------------------------------------- regions.c, launches.c, placement.c, meshes.c, moved.c */

void regions_check(Effects *E);
void launches_check(Effects *E);
/* Of index_launch(...)(f)(...) the call that names f; NULL: c is another call. */
AstCall *launch_called(AstCall *c);
void placement_check(Effects *E);
const char *placement_declared(const Ast *annotation);      /* the space in it: "shared"; NULL: it names none */
void meshes_check(Effects *E);
void moved_check(Effects *E);

/* told.c: cotangents of backward rules, operands on two GPUs */
void told_check(Effects *E);

bool effects_spoken_of(const Unit *u);                  /* programs that say nothing of effects are not held to any */
/* All of it, for a unit that was resolved and typed; does nothing when no word of the text speaks of effects. */
void effects_check(Unit *u, CheckOptions opt, DiagSink *sink);

#endif
