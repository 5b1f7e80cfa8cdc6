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
 *
 * sig:   "(x: float, /) -> float"      a function
 *        "(self, sep: str | None = None, /, maxsplit: int = -1) -> list[str]"
 *                      a method: it names self, so a[0] is self here too. A first parameter `cls` gets the
 *                      class (fromkeys, __new__); with neither it is a static method (maketrans)
 *        "float"       no parenthesis: a constant of that type; fn(I, NULL) makes its value on first use
 *        "property[int]"   an attribute of the owner's instances; fn gets self (range.start)
 *        "type[deque]" a class; fn NULL: native_class makes it (math.pi: "float"; prelude int: "type[int]")
 *
 * A default of `...` makes a parameter optional without a value: a[i] is V_ERR when it is omitted.
 *
 * A class in C is the set of natives with its name as owner.  `__new__` (cls, ...) makes the value when the class
 * is called; a subclass written in Tessera puts that value into InstanceObj.base.  Classes that are instances of
 * themselves (no C layout) have `__init__` (self, ...) instead.  Dunders (__len__, __getitem__, __eq__ ...) work as in
 * a class written in Tessera.  The row {"OrderedDict", "__base__", NULL, "type[dict]"} names a base other than object.
 * The class of a NativeInst is native_class(type->name).
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
    int npos, varargs, kwargs;  /* parameters that positions fill; indices of *args and **kw, -1 none */
    int least;                  /* positions alone suffice from this many on; INT_MAX: they never do, or there are stars */
    struct Unit *unit;          /* where the annotations live */
    bool symints, symfloats;    /* it takes symbolic ints, and floats, as they are (symint.def) */
} NativeSig;
const NativeSig *native_sig(const NativeDef *d);    /* parsed on first use */
/* Symbolic ints and floats among s->n arguments become numbers, inside of containers too, unless the native takes them. false: pending. */
bool native_settle(Interp *I, const NativeSig *s, Value *a);
enum { NATIVE_FAST = 8 };       /* natives of at most so many parameters are called without binding when positions suffice */

/* The class whose methods are the natives of `owner` (int, deque, Counter ...): made once. */
ClassObj *native_class(Interp *I, const char *owner);
/* A new instance of a NativeType, zeroed after its header; tracked by the collector when the type has `visit`. */
void *nativeobj_new(const NativeType *t, size_t size);
/* An instance of c without attributes yet; __init__ does not run. */
Value instance_new(ClassObj *c);
/* A new class: its attributes are those of ns (may be NULL). */
Value class_new(Interp *I, Sym name, ClassObj *base, DictObj *ns);

#endif
