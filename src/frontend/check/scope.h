/*
 * scope.h - names resolved to places.
 *
 * scope_resolve walks a unit once and gives every AstName its binding, every
 * function, lambda, class, generator expression and module its Scope, and
 * every binding statement (def, class, import, except-as, capture patterns)
 * an AstName in its NOTE field `bound` so that storing is one mechanism.
 *
 * Slots.  A function's frame has nslots values: parameters first, in
 * declaration order, then other locals.  A local that an inner function uses
 * lives in a cell, kept in its slot (BIND_CELL); the inner function sees it
 * through its closure (BIND_FREE, index into frees).  List, set and dict
 * comprehensions are part of the enclosing frame (hidden slots, own names);
 * their NOTE `scope` (SCOPE_COMP) lists these slots: those with is_cell need a
 * fresh cell each time the comprehension starts.  Generator expressions are
 * functions of their own with the first iterable as their one parameter.
 * Module variables live in the module's slot vector; the frames of module and
 * class bodies have slots (nslots) only for comprehensions.
 *
 * Types.  Names in annotations resolve where the annotation stands; a
 * dimension or type variable there is BIND_DIM: it is known by its text alone.
 * A dimension name that a function's body uses as a value (SYN-144) is a local
 * with is_dim: the call sets it to size `dim_axis` (from the end when negative)
 * of parameter `dim_param`, when that argument is a tensor, or of the tensor at
 * dim_path in it: List[Tensor["N"]] has the path 0, -1.
 *
 * `from m import *` gets an Alias with its `bound` for each public name of m in
 * ImportFrom.names.  A module's first globals are __name__ __doc__ __file__.
 * A module's variable that one import binds to a namespace of the prelude, and whose attributes are used, has that row
 * of the prelude + 1 in its NOTE `space`: `import tessera as ts` makes ts what the prelude's ts is.
 * __class__ in a method stays BIND_NONE: it is the function's owner.
 */
#ifndef TSR_FRONTEND_SCOPE_H
#define TSR_FRONTEND_SCOPE_H

#include "base/diag.h"
#include "base/map.h"
#include "frontend/syntax/ast.h"

typedef enum Bind {
    BIND_NONE,          /* unknown; already reported (or allowed: see ScopeOptions) */
    BIND_LOCAL,         /* slot of the frame */
    BIND_CELL,          /* slot of the frame that holds a cell */
    BIND_FREE,          /* index into the closure's cells */
    BIND_GLOBAL,        /* slot of the module */
    BIND_CLASS,         /* in a class body: its namespace by name, then (outer, outer_slot) */
    BIND_PRELUDE,       /* row of the prelude (prelude.h) */
    BIND_DIM            /* in a type: a dimension or type variable, no value */
} Bind;

typedef enum { SCOPE_MODULE, SCOPE_FUNCTION, SCOPE_LAMBDA, SCOPE_GENEXP, SCOPE_CLASS, SCOPE_COMP } ScopeKind;

typedef struct Local {
    Sym name;
    uint8_t is_param, is_cell, is_dim;
    uint8_t is_shared;          /* a function inside binds it too, by global or nonlocal: any call may change it */
    int8_t dim_axis;            /* is_dim: where its value comes from; dim_param -1: not from one axis alone */
    int8_t dim_path[2];         /* the tensor inside the parameter: element of a list or tuple, value of a dict; -1: none */
    int16_t dim_param;
    uint32_t slot;              /* of the frame; of a module's globals: its index */
    uint32_t nbinds;            /* places that bind it */
    Span decl;
    Ast *node;                  /* the last binding statement: FunctionDef, ClassDef, Alias ...; NULL: a plain name */
} Local;
typedef struct { Sym name; uint8_t from_cell; uint32_t index; } Free;  /* from the parent's cell slot, or its frees[index] */

typedef struct Scope {
    ScopeKind kind;
    struct Scope *parent;
    Ast *node;
    Sym name;
    Vec(Local) locals;          /* module: its globals, in order of appearance */
    Vec(Free) frees;
    int nslots, nparams;
    bool is_generator, is_async;    /* has yield; async def */
    bool ways;                  /* a variable is first bound below an if, try or match, or is deleted */
    bool uses_class_cell;       /* mentions super() without arguments or __class__ */
    Map index_of;               /* Sym -> index in locals + 1, once there are more than LOCALS_FEW: ask scope_find */
    struct Scope *owned;        /* next of the scopes that the module scope owns */
} Scope;

enum { LOCALS_FEW = 8 };        /* so many are found by looking at one after the other */

/* The index in locals of a name, as the source has it (hidden slots of comprehensions have none); -1: it is none of this scope. */
static inline int scope_find(const Scope *s, Sym name)
{
    uintptr_t i = 0;

    if (s->index_of.n)
        return map_look(&s->index_of, (uintptr_t)name, &i) ? (int)i - 1 : -1;
    for (int k = 0; k < s->locals.n; k++)
        if (s->locals.at[k].name == name)
            return k;
    return -1;
}

/* The same as a place in it; NULL: it is none. */
static inline Local *scope_local(const Scope *s, Sym name)
{
    int i = scope_find(s, name);

    return i < 0 ? NULL : &s->locals.at[i];
}

typedef struct ScopeOptions {
    bool repl;                  /* unknown globals are not errors, earlier inputs' globals persist */
} ScopeOptions;

/* Resolve a parsed unit. `globals` persists for a module: pass the same Scope again for each REPL input. */
void scope_resolve(Unit *u, Scope *globals, ScopeOptions opt, DiagSink *sink);
Scope *scope_new_module(Sym name);
void scope_free_module(Scope *s);

#endif
