/*
 * collect.h - which names a block of statements binds, uses and declares.
 *
 * One walk over one scope's statements: it enters comprehensions for their
 * walrus targets, and stays out of the bodies of functions, lambdas and classes.
 * Events come in source order, as Python's rules about global need.
 */
#ifndef TSR_FRONTEND_COLLECT_H
#define TSR_FRONTEND_COLLECT_H

#include "frontend/syntax/ast.h"

typedef enum {
    COLLECT_BIND,           /* name is bound; node: the statement (FunctionDef, ClassDef, Import...) or the target */
    COLLECT_USE,            /* name is read; node: the Name */
    COLLECT_GLOBAL, COLLECT_NONLOCAL,       /* name is declared; node: the Name in the declaration */
    COLLECT_STAR,           /* from m import *; node: the ImportFrom */
    COLLECT_YIELD,
    COLLECT_WAYS, COLLECT_MEET,             /* around an if, try, match or del: what it binds is not bound on every way */
    COLLECT_AWAIT
} CollectEvent;

typedef void CollectFn(void *state, CollectEvent e, Sym name, Ast *node);

void collect_block(AstSeq body, CollectFn *fn, void *state);
void collect_expr(Ast *expr, CollectFn *fn, void *state);

/* The variable that `import a.b as c` binds: c, or a. */
Sym alias_binds(const AstAlias *a, bool from);

#endif
