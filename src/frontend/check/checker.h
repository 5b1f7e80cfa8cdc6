/*
 * checker.h - what the files of the type checker share.
 *
 * check.c walks statements, exprs.c expressions, calls.c binds arguments,
 * classes.c knows classes, annotype.c reads annotations, tensors.c applies the
 * tensor rules.  A CFrame is a function (or module) being walked, with a type
 * for each variable at the point of the walk.
 */
#ifndef TSR_FRONTEND_CHECKER_H
#define TSR_FRONTEND_CHECKER_H

#include "frontend/check/check.h"
#include "frontend/check/type.h"

typedef struct Check Check;
typedef struct CFrame CFrame;
typedef struct Cls Cls;

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
    bool checked;               /* its body was walked once for its own sake */
    bool dynamic;               /* generator, async: results are not followed */
    int active;                 /* calls being followed */
    bool is_static, is_class, is_property;
} Fn;

struct CFrame {
    CFrame *up;                 /* the frame around, for captured variables */
    Fn *fn;                     /* NULL: module or class body */
    Scope *scope;
    const Type **var;           /* by slot of the frame */
    const Type **decl;          /* declared types of variables, by slot; NULL: none */
    int nvar;
    DimNames dims;              /* the function's own dims */
    const Type *ret;            /* join of what was returned; NULL: nothing yet */
    const Type *declared;       /* result type, NULL when undeclared */
    bool dead;                  /* nothing gets here: after return, raise, break */
    Cls *cls;                   /* class body */
};

struct Cls {
    AstClassDef *def;
    Sym name;
    Cls *base;
    bool open;                  /* has a base or decorator that is not followed: attributes are not known */
    bool is_module;             /* derives from the library's Module: calls run forward */
    bool is_dataclass;
    Map attrs;                  /* Sym -> Type *: methods, class variables */
    Map declared;               /* Sym -> Type *: annotated attributes */
    Map stored;                 /* Sym -> Type *: self.x = ..., joined; 0: not yet seen */
    Map stores;                 /* Sym -> number of statements that store it */
};

struct Check {
    Unit *u;
    DiagSink *sink;
    CheckOptions opt;
    Arena arena;
    CFrame *module, *frame;
    const Type **glob, **glob_decl;     /* by slot of the module */
    int nglob;
    Vec(Fn *) fns;
    Vec(CFrame *) frames;       /* whose dims are to be freed */
    Map fn_of, cls_of;          /* Ast * -> Fn *, Cls * */
    Map stored_attrs;           /* Sym -> 1: assigned through an attribute somewhere in the unit */
    Map reported;               /* position -> 1 */
    int quiet;                  /* > 0: nothing is reported: trial passes, try bodies */
    Ast *stmt;                  /* being walked */
    int mixed;                  /* inside `with precision("mixed")` */
    int depth, calls;
    long fuel;
    bool setattr_used;
};

enum { CHECK_FUEL = 3000000, CALL_DEPTH = 12 };

/* The arguments of one call, as written. */
typedef struct CallArg { Sym name; const Type *type; Ast *node; uint8_t stars; } CallArg;
typedef struct CallArgs { CallArg *at; int n; bool open; } CallArgs;     /* open: has *args or **kw of unknown length */

/* Reports unless quiet or already reported there; the Diag is never NULL. */
Diag *report(Check *C, DiagCode code, Span span, const char *const *args, int nargs);
#define REPORT(C, code, span, ...) \
    report(C, code, span, (const char *const[]){__VA_ARGS__}, (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))

/* exprs.c */
const Type *expr(Check *C, Ast *e);
const Type *name_type(Check *C, AstName *n);
void bind_target(Check *C, Ast *target, const Type *t, Ast *value);
void set_name(Check *C, AstName *n, const Type *t, Ast *value);
const Type *element_of(const Type *t);                  /* of iterating it */
int truth(Check *C, Ast *test);                         /* 1, 0, -1: not known */
const Type *attribute(Check *C, const Type *t, Sym attr, Ast *node);
const Type *subscript(Check *C, const Type *t, Ast *index, Ast *node);

/* check.c */
void block(Check *C, AstSeq body);
Fn *fn_make(Check *C, Ast *node);
/* Walk a function's body with these parameter types (by slot; NULL: declared or unknown); the type it returns. */
void fn_check(Check *C, Fn *f);                         /* its body for its own sake, once */
const Type *fn_walk(Check *C, Fn *f, const Type *const *params, const DimNames *bound);

/* Functions made of functions: what a call of them means for the inner one. */
typedef enum { TRANSFORM_GRAD, TRANSFORM_VALUE_AND_GRAD, TRANSFORM_VMAP } Transform;

/* calls.c */
const Type *call(Check *C, AstCall *c);
const Type *call_type(Check *C, const Type *f, CallArgs *a, Ast *node);
const char *callee_text(const Type *f);

/* classes.c */
Cls *cls_make(Check *C, AstClassDef *def);
const Type *cls_find(const Cls *c, Sym name);           /* method or class variable; NULL: none */
const Type *cls_declared(const Cls *c, Sym name);
bool cls_has(const Cls *c, Sym name);                   /* any kind of attribute, or open */
bool cls_is_open(const Cls *c);
bool cls_derives(const Cls *c, const Cls *base);
const char *cls_name(const void *cls);
const Type *cls_attribute(Check *C, const Cls *c, const Type *self, Sym attr, Ast *node);
void cls_store(Check *C, Cls *c, Sym attr, const Type *t, Ast *target, Ast *value);
const Type *cls_call(Check *C, Cls *c, CallArgs *a, Ast *node);

/* annotype.c */
Sig *fn_sig(Check *C, Fn *f);
const Type *annotation(Check *C, Ast *a);               /* in the frame of C; dims by dims_name */
Dim dims_name(Check *C, Sym name);                      /* of this function or one around; made on first use */
typedef enum { FITS, FITS_NOT, FITS_MAYBE } Fit;
Fit type_fits(Check *C, const Type *from, const Type *to);
/* Reports why `from` is not what `to` declares; what: "argument 'x' of f()". The code is by kind of mistake. */
Diag *report_dtype(Check *C, Span span, const char *what, const TType *from, const TType *to);
void report_misfit(Check *C, Span span, const char *what, const Type *from, const Type *to);

/* tensors.c */
const Type *tensor_binary(Check *C, int op, const Type *a, const Type *b, Ast *node);
const Type *tensor_unary(Check *C, OpId op, const Type *a, Ast *node);
const Type *tensor_attribute(Check *C, const Type *t, Sym attr, Ast *node);
const Type *tensor_subscript(Check *C, const Type *t, Ast *index, Ast *node);
/* The result of a native that has a tensor rule; false: it has none. */
bool tensor_call(Check *C, const char *owner, const char *name, const Type *self, CallArgs *a, Ast *node, const Type **out);

#endif
