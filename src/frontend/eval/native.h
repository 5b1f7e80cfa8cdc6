/*
 * native.h - the tables of everything the language offers from C.
 *
 * A file of natives exports one NULL-terminated NativeDef table and has a row in
 * natives.def.  The signature text is the single fact about a native's
 * parameters: calls are bound by it, the checker types by it, ?name and
 * completion show it.
 *
 * owner: ""            a prelude name (and tessera.name)
 *        "str" "list" "dict" "set" "tuple" "int" "float" "range" "bytes" "complex" "Tensor" "dtype" ...  a method
 *        "math" "json" "os.path" ...   a function of an importable module
 *        "random" "numerics" ...       a function of a tessera namespace: tessera.random.normal
 */
#ifndef TSR_FRONTEND_NATIVE_H
#define TSR_FRONTEND_NATIVE_H

#include "frontend/eval/interp.h"

#define NATIVES(table) extern const NativeDef table[];
#include "frontend/eval/natives.def"

/* All tables, ended by NULL. */
extern const NativeDef *const native_tables[];

/* The native `owner.name`, NULL when there is none. */
const NativeDef *native_find(const char *owner, const char *name);
/* Is `owner` a module or namespace that has natives? */
bool native_has_owner(const char *owner);

typedef struct NativeParam {
    Sym name;
    uint8_t kind;               /* ParamKind of ast.h */
    bool required;
    struct Ast *annotation;
    struct Ast *dflt;
} NativeParam;

typedef struct NativeSig {      /* a parsed signature; lives for the session */
    int n;
    NativeParam *param;
    struct Ast *returns;
    Value *dflt;                /* constant defaults as values, V_ERR none */
} NativeSig;
const NativeSig *native_sig(const NativeDef *d);    /* parsed on first use */

#endif
