/*
 * privilege.h - what the annotation Region[...] allows a function to do with the tensor passed.
 *
 *     Region[read]   Region[write, "N", f32]   Region[readwrite]   Region[reduce("+")]
 *
 * The caller's variable gets what a function left in a region that it may change.
 */
#ifndef TSR_FRONTEND_PRIVILEGE_H
#define TSR_FRONTEND_PRIVILEGE_H

#include "frontend/syntax/ast.h"

typedef enum PrivilegeKind { PRIV_NONE, PRIV_READ, PRIV_WRITE, PRIV_READWRITE, PRIV_REDUCE } PrivilegeKind;
typedef struct Privilege {
    PrivilegeKind kind;
    AstOp op;                   /* REDUCE: of the updates x[i] op= v */
    const char *text;           /* "read", "reduce(+)" */
} Privilege;

/* PRIV_NONE: the annotation is no Region, or names no privilege. */
Privilege privilege_of(const Ast *annotation);
static inline bool privilege_changes(Privilege p) { return p.kind > PRIV_READ; }

#endif
