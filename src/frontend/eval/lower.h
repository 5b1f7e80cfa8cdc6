/* lower.h - shared by the files that turn syntax into nodes. */
#ifndef TSR_FRONTEND_LOWER_H
#define TSR_FRONTEND_LOWER_H

#include "frontend/eval/eval.h"

/* A name, or a field of self, whose declared type acts on what is assigned to it. */
typedef struct DeclaredName { Sym name; Ast *annotation; bool field; const struct DeclaredName *next; } DeclaredName;

typedef struct Lower {
    Interp *I;
    Arena *arena;
    Scope *scope;               /* of the function, class or module being lowered */
    bool in_class;
    bool guards;                /* a try or with was lowered */
    const char *prefix;         /* "A." in the qualified names of what A holds */
    Ast *returns;               /* the declared type of what the function returns, or NULL */
    Sym self;                   /* in a method: its first parameter */
    const DeclaredName *declared;
} Lower;

Step *step_new(Lower *L, const Ast *at);
Step *lower_expr(Lower *L, const Ast *e);
Value lower_keep(Lower *L, Value v);                    /* v, owned by the Interp from now on: code borrows it */
StepSeq *lower_exprs(Lower *L, AstSeq s);
Step *lower_block(Lower *L, AstSeq body);               /* of one statement: that statement */
bool lower_is_idle(const Ast *s);                       /* a statement that does nothing: no node is made of it */
Step *lower_pattern(Lower *L, const Ast *p);
Step *lower_target(Lower *L, const Ast *t);             /* a place to store to: Step.store */
Step *lower_name_store(Lower *L, const AstName *n);
Step *lower_arith(Lower *L, const Ast *at, int op, Step *a, Step *b);
Step *lower_compare1(Lower *L, const Ast *at, int op, Step *a, Step *b);
Code *lower_code(Lower *L, const Ast *def, const Scope *scope, Sym name);
Step *lower_comp(Lower *L, const Ast *e);
void lower_entry(Lower *L, Code *c, const AstFunctionDef *d);    /* conditions and regions of the signature: entry.c */
void lower_signature(Lower *L, Code *c, const AstFunctionDef *d);       /* sizes and dtypes of its tensors: signature.c */
AstSubscript *tensor_brackets(Ast *annotation, bool *region);        /* of Tensor[...] and Region[...]; NULL: it is another type */
/* Declared types that act: declare.c.  value, or value as declared. in_frame: the annotation was resolved in the frame that runs it. */
Step *lower_declared(Lower *L, Step *value, Ast *annotation, bool in_frame);
Step *lower_assigned(Lower *L, Step *value, const Ast *target);
void lower_declared_params(Lower *L, Code *c, const AstFunctionDef *d);
void lower_declared_fields(Lower *L, AstSeq body);
Step *lower_element_type(Lower *L, Ast *annotation);
void lower_declare_name(Lower *L, Sym name, Ast *annotation, bool field);
AttrCache *cache_new(Lower *L, Sym name);
StepSeq *seq_new(Lower *L, int n);
const char *qualified(Lower *L, Sym name);

/* Functions of nodes: run_*.c.  EVAL and STORE and EXEC declare one each. */
#define EVAL(name) Value name(const Step *n, Frame *f);
#define EXEC(name) Exit name(const Step *n, Frame *f);
#define STORE(name) bool name(const Step *n, Frame *f, Value v);
#define MATCH(name) int name(const Step *n, Frame *f, Value v);
#include "frontend/eval/nodes.def"

/* Is n a plain local or a constant? Then its value can be looked at without a call. */
static inline bool is_local(const Step *n) { return n->eval == ev_local; }
static inline bool is_const(const Step *n) { return n->eval == ev_const; }

#endif
