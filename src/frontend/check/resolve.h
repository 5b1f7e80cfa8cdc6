/*
 * resolve.h - what the files of name resolution share: frames, and where a name was found.
 *
 * A Frame is a scope while it is being walked.  frame.c finds names, annot.c
 * reads types, scope_bind.c collects what a scope binds, scope.c walks statements and expressions.
 */
#ifndef TSR_FRONTEND_RESOLVE_H
#define TSR_FRONTEND_RESOLVE_H

#include "frontend/check/scope.h"

/* A dimension or type variable that a signature declares. */
typedef struct DimDecl {
    Sym name;
    int16_t param;              /* the parameter whose size it is, or -1 */
    int8_t axis;
    int8_t path[2];             /* elements on the way to the tensor; -1: none */
} DimDecl;

/* A comprehension whose variables are visible. */
typedef struct Comp {
    Scope *scope;
    struct Comp *up;
} Comp;

typedef struct Frame {
    Scope *scope;
    struct Frame *up;
    Comp *comp;                 /* innermost */
    Map decl;                   /* Sym -> DECL_...; of names that are only used or bound once something is declared */
    Vec(DimDecl) dims;          /* functions: dims of the signature; classes: type parameters */
    int loops;                  /* break and continue are allowed inside */
    int asked;                  /* how many of the Res's were, outside */
} Frame;

enum { DECL_USED = 1, DECL_BOUND = 2, DECL_GLOBAL = 4, DECL_NONLOCAL = 8 };

typedef struct { AstName *name; Scope *scope; int local; } Use;     /* local: index in scope->locals */
typedef struct { AstAttribute *attr; Frame *frame; } AttrUse;

typedef struct Res {
    Unit *u;
    DiagSink *sink;
    ScopeOptions opt;
    Scope *globals;
    Frame *frame;               /* innermost */
    Frame *sig;                 /* function whose signature is being read, not yet entered; NULL */
    Vec(Use) uses;              /* of frame slots: LOCAL or CELL is known only at the end */
    Vec(Ast *) attrs;           /* attributes to look up once all bindings are known */
    int depth;
    Vec(Sym) asked;             /* names that hasattr() was asked about, where that holds */
    int guarded, prepared;      /* inside try: ... except ImportError, AttributeError */
} Res;

typedef struct Found {
    Bind bind;
    uint32_t slot;
    Scope *scope;               /* LOCAL: owner, and index of its local */
    int local;
} Found;

/* frame.c */
Scope *scope_make(Res *R, ScopeKind kind, Ast *node, Sym name, Scope *parent);
int scope_add_local(Scope *s, Sym name, Span decl, Ast *node);      /* index in locals; the same name gives the same index */
void scope_announce(Scope *s, Sym name);                /* a name of the module that is bound later */
Found frame_find(Res *R, Frame *f, Sym name, bool direct);
void frame_bind(Res *R, Frame *f, Sym name, Span span, Ast *node);
void frame_done(Frame *f);
const DimDecl *frame_dim(const Frame *f, Sym name);
bool name_is_type_var(Res *R, Sym name);        /* of the signature being read, or of one around */
void name_set(Res *R, AstName *n, Found f);
/* E0201 with the nearest name that is visible here. */
void name_unknown(Res *R, AstName *n, DiagCode code);

/* annot.c */
void annot_gather(Res *R, Frame *f, AstFunctionDef *fn);            /* the dims of fn's signature into f */
void annot_gather_typarams(Frame *f, AstSeq typarams);
void annot_resolve(Res *R, Ast *annotation);

/* scope.c */
void resolve_expr(Res *R, Ast *e);

/* scope_bind.c: the names that a body binds become locals of the frame's scope; what it may not bind or declare is reported. */
void scope_bind_block(Res *R, Frame *f, AstSeq body);
void scope_bind_expr(Res *R, Frame *f, Ast *e);         /* of a lambda's body: x := v */

/* place.c: E0211 */
void place_check(Res *R, Ast *n);

/* early.c: E0218 for names of a module that are read before they are bound. */
void early_check(Res *R);
/* The same of the variables of a comprehension, in what its clauses behind the first go through. */
void early_clauses(Res *R, Scope *scope, AstSeq clauses);

/* unset.c: E0219 for variables that are read where some way here has given them no value. */
void unset_check(Res *R);

/* asked.c: walks a statement or expression whose test may ask hasattr(m, "name"); false: it is none. */
bool asked_visit(Res *R, Ast *n);
bool was_asked(const Res *R, Sym name);                 /* is that name of a module there, or its absence provided for? */
bool catches(AstSeq handlers, const char *const *names);        /* one of these exceptions, up to NULL, or others */
void res_visit(Ast *n, Res *R);                         /* scope.c */

/* attrs.c: E0202 for what modules and namespaces do not hold, once all bindings are known. */
void attrs_check(Res *R);
/* Is this import's name there? Reports E0801, E0203. */
void import_check(Res *R, Ast *stmt);

#endif
