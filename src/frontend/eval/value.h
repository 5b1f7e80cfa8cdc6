/*
 * value.h - what a Tessera variable holds.
 *
 * A Value is 16 bytes and travels in two registers: a tag, and either the
 * thing itself (none, bool, int, float) or a pointer to a counted object.
 * V_ERR is no value: it says that an exception is pending in the Interp.
 *
 * Ownership.  A function returns a new reference and borrows its arguments;
 * `steals` in a contract marks the exceptions.  Values in containers are owned
 * by them.  Cycles are found by a backup collector over GC-tracked objects.
 */
#ifndef TSR_FRONTEND_VALUE_H
#define TSR_FRONTEND_VALUE_H

#include "base/alloc.h"
#include "base/source.h"
#include "base/strbuf.h"
#include "base/sym.h"

typedef struct Interp Interp;
typedef struct Obj Obj;
typedef struct Tensor Tensor;

typedef enum Tag {
    V_ERR,                      /* exception pending; also "absent" in unset slots */
    V_NONE, V_ELLIPSIS, V_NOTIMPL, V_BOOL, V_INT, V_FLOAT,
    V_SYMINT,                   /* an int whose value is a symbolic size, while staging: the Dim in i */
    V_SYMFLOAT,                 /* a float that follows from such: a row of symfloat.c's table in i */
    V_OBJ,                      /* from here on counted; the tag equals the object's kind */
    V_STR = V_OBJ, V_BYTES, V_COMPLEX,
    V_LIST, V_TUPLE, V_DICT, V_SET, V_RANGE, V_SLICE,
    V_TENSOR,                   /* TensorObj: concrete or being traced */
    V_DTYPE,                    /* f32, bf16 @accum(f32), ... */
    V_TYPEFORM,                 /* Tensor["B", 4], list[int], int | None: a type as a value */
    V_FUNC, V_NATIVE, V_BOUND,  /* closures, C functions, bound methods */
    V_CLASS, V_INSTANCE, V_MODULE, V_PROPERTY, V_STATICMETHOD, V_CLASSMETHOD, V_SUPER,
    V_CELL, V_ITER, V_GENERATOR, V_COROUTINE, V_FILE,
    V_NATIVEOBJ,                /* anything else made in C: a NativeType says what */
    V_COUNT
} Tag;

typedef struct Value {
    uint32_t tag;
    uint32_t aux;
    union {
        int64_t i;
        double f;
        Obj *o;
        void *p;
    };
} Value;

struct Obj {
    uint32_t refs;
    uint8_t kind;               /* Tag */
    uint8_t gc;                 /* tracked by the collector; its own bits */
    uint16_t flags;
};

#define VNONE ((Value){.tag = V_NONE})
#define VERR ((Value){.tag = V_ERR})
#define VNOTIMPL ((Value){.tag = V_NOTIMPL})
static inline Value vint(int64_t i) { return (Value){.tag = V_INT, .i = i}; }
static inline Value vfloat(double f) { return (Value){.tag = V_FLOAT, .f = f}; }
static inline Value vbool(bool b) { return (Value){.tag = V_BOOL, .i = b}; }
static inline Value vobj(void *o) { return (Value){.tag = ((Obj *)o)->kind, .o = o}; }
static inline bool is_err(Value v) { return v.tag == V_ERR; }
static inline bool is_obj(Value v) { return v.tag >= V_OBJ; }

void obj_free(Obj *o);          /* called at count 0; destructors iterate, never recurse deeply */
static inline Value value_ref(Value v) { if (v.tag >= V_OBJ) v.o->refs++; return v; }
static inline void value_unref(Value v) { if (v.tag >= V_OBJ && !--v.o->refs) obj_free(v.o); }
static inline void obj_unref(void *o) { if (o && !--((Obj *)o)->refs) obj_free(o); }

/* ------------------------------------------------------------- objects */

typedef struct StrObj {         /* immutable UTF-8 */
    Obj obj;
    uint32_t hash;              /* 0: not yet computed */
    uint32_t len;               /* bytes */
    uint32_t nchars;            /* code points; UINT32_MAX: not yet counted */
    Sym sym;                    /* its symbol when interned, else NULL */
    char s[];
} StrObj;

typedef struct BytesObj { Obj obj; uint32_t len; char s[]; } BytesObj;
typedef struct ComplexObj { Obj obj; double re, im; } ComplexObj;
typedef struct ListObj { Obj obj; int64_t n, cap; Value *at; } ListObj;
typedef struct TupleObj { Obj obj; int64_t n; uint32_t hash; Value at[]; } TupleObj;
typedef struct RangeObj { Obj obj; int64_t start, stop, step, n; } RangeObj;
typedef struct SliceObj { Obj obj; Value lo, hi, step; } SliceObj;

/* Insertion-ordered hash table, as in CPython: index[] into a dense entry array; also behind sets and namespaces. */
typedef struct { Value key, val; uint32_t hash; uint32_t live; } DictEntry;
typedef struct DictObj {
    Obj obj;
    int32_t *index;             /* -1 empty, -2 deleted; size is a power of two */
    DictEntry *entry;
    int64_t n;                  /* live entries */
    int64_t used, cap;          /* entries in use including dead ones; room */
    uint32_t mask;
    uint32_t version;           /* changes with every structural change: iterators check it */
    uint32_t deleted;           /* marks of deleted keys in index[] */
} DictObj;
typedef DictObj SetObj;         /* kind V_SET; val unused; flags bit 0: frozen */

/* A type as a value: origin[args], a | b, form @ policy. args is a tuple; op '[' '|' '@'. */
typedef struct TypeFormObj { Obj obj; char op; Value origin, args; } TypeFormObj;
typedef struct TensorObj { Obj obj; Tensor *t; Value grad; } TensorObj;   /* flags bit 0: Parameter */
typedef struct CellObj { Obj obj; Value v; } CellObj;

struct Code;                    /* a function's executable form: code.h */
typedef struct FuncObj {
    Obj obj;
    const struct Code *code;
    struct ModuleObj *module;
    Value *defaults;            /* one for each parameter, V_ERR: none; evaluated at the def, as in Python */
    CellObj **closure;
    struct ClassObj *owner;     /* class whose body defined it, for super() */
    DictObj *attrs;             /* f.x = 1; NULL until used */
    Obj *whole;                 /* by what its calls on large tensors may run (whole.h); NULL: by its body, as all do */
    int64_t worked;             /* with whole: elements that calls of the body went over */
    Value name, doc;
} FuncObj;

/* Arguments of a native arrive bound to its signature: a[i] is parameter i, V_ERR when omitted without a default;
 * *args arrives as a tuple, **kw as a dict.  The arguments are borrowed. */
typedef Value (*NativeFn)(Interp *I, Value *a);

typedef struct NativeDef {
    const char *owner;          /* "" prelude, "str" a type's method, "math" a module, "random" a namespace ... */
    const char *name;
    NativeFn fn;
    const char *sig;            /* Tessera syntax: "(self, sep: str | None = None, /, maxsplit: int = -1) -> list[str]"; native.h */
    const char *doc;            /* first line says what it gives; then shapes, errors */
} NativeDef;

typedef struct NativeObj { Obj obj; const NativeDef *def; struct NativeSig *sig; Value self; } NativeObj; /* self V_ERR: none */
typedef struct BoundObj { Obj obj; Value self, func; } BoundObj;
typedef struct PropertyObj { Obj obj; Value get, set, del; } PropertyObj;
typedef struct WrapObj { Obj obj; Value func; } WrapObj;            /* staticmethod, classmethod */
typedef struct SuperObj { Obj obj; struct ClassObj *after; Value self; } SuperObj;

typedef struct ClassObj {
    Obj obj;
    Sym name;
    struct ClassObj *base;      /* NULL: object. Single inheritance */
    DictObj *ns;                /* attributes by name (StrObj keys) */
    struct ModuleObj *module;
    uint32_t layout;            /* Tag of builtin storage it extends (V_LIST, V_DICT, V_STR, an exception: V_INSTANCE) */
    uint32_t flags;             /* ClassFlag */
    const char *qualname;       /* "Outer.Inner"; NULL: its name */
    struct ClassObj *subs, *next_sub;   /* classes derived from this one (not owned), for updates of their tables */
    const struct NativeDef *ctor;       /* builtin classes: the native that calling it runs, NULL: generic */
    Value dunder[64];           /* resolved special methods by Dunder, V_ERR absent; see dunder.def */
} ClassObj;

/* Facts about a class; all but CLASS_NATIVE and CLASS_ABSTRACT hold for what derives from it too. */
enum {
    CLASS_NATIVE = 1,           /* made in C */
    CLASS_ABSTRACT = 2,         /* abstract methods are left: no instances */
    CLASS_GETATTRIBUTE = 4,     /* has __getattribute__ */
    CLASS_HOOKS = 8,            /* has __class_iter__ or another of what a class answers itself */
    CLASS_SLOTS = 16,           /* instances have the attributes of __slots__ only */
    CLASS_CHECKS = 32,          /* has __class_instancecheck__ or __class_subclasscheck__ */
};

/* Special methods by number: D_repr, D_add ... */
typedef enum Dunder {
#define DUNDER(id, text) D_##id,
#include "frontend/eval/dunder.def"
    D_COUNT
} Dunder;

typedef struct InstanceObj {
    Obj obj;
    ClassObj *cls;
    DictObj *attrs;             /* created on first store */
    Value base;                 /* instance of a builtin subclass: the list, dict or str inside; else V_ERR */
} InstanceObj;                  /* exceptions are instances of classes below BaseException; args in attrs["args"] */

typedef struct ModuleObj {
    Obj obj;
    Sym name;
    Value *slot;                /* globals by slot (scope.h); V_ERR unset */
    int nslots;
    struct Scope *scope;
    struct Unit *unit;
    DictObj *attrs;             /* native modules and namespaces: attributes by name */
    const char *path;
    const Interp *I;            /* whose it is */
} ModuleObj;

/* Objects made in C (files, random state, compiled functions, iterators of itertools ...). */
typedef struct NativeType {
    const char *name;
    void (*free)(void *self);                       /* releases what it holds, not the struct itself; NULL: nothing */
    void (*visit)(void *self, void (*fn)(Value *v, void *st), void *st);    /* its Values, for the collector; NULL: none */
    Value (*next)(Interp *I, void *self);           /* iterators: V_ERR without an exception pending: exhausted */
    Value (*call)(Interp *I, void *self, Value *args, int nargs, Value *kwvals, Sym *kwnames, int nkw);
    Value (*getattr)(Interp *I, void *self, Sym name);      /* V_ERR without pending: no such attribute; then methods by owner name */
    bool (*setattr)(Interp *I, void *self, Sym name, Value v);
    void (*repr)(Interp *I, void *self, StrBuf *out);
    int64_t (*len)(void *self);                     /* len(x), where it cannot fail; NULL: by __len__ */
    int64_t (*count)(void *self);                   /* of what others may change: how many Values it has */
    Value *(*item)(void *self, int64_t i);          /* the same: number i, in its place */
    void (*resize)(void *self, int64_t n);          /* the same: some leave and None comes at the right end; NULL: always so many */
    bool binds;                 /* found in a class it binds the instance, as functions do (lru_cache, jit on methods) */
} NativeType;
/* The first member of each such object. turns: how often it was asked for the next element. */
typedef struct NativeInst { Obj obj; const NativeType *type; int64_t turns; } NativeInst;

/* ------------------------------------------------------------- making and reading them */

Value str_new(const char *s, size_t n);
Value str_room(size_t n);                               /* n bytes for the caller to fill with UTF-8, and a 0 behind them */
Value str_c(const char *s);                             /* from a C string */
Value str_sym(Sym s);                                   /* the interned string object of a symbol */
Value str_steal(StrBuf *b);                             /* from a buffer, which is emptied */
Value list_new(int64_t cap);
void list_push(ListObj *l, Value v);                    /* steals v */
Value tuple_new(int64_t n);                             /* elements V_ERR until filled */
Value tuple_of(int n, ...);                             /* of Values, which it steals */
Value dict_new(void);
Value set_new(void);
Value complex_new(double re, double im);
Value tensor_value(Tensor *t);                          /* steals t */
static inline Tensor *as_tensor(Value v) { return ((TensorObj *)v.o)->t; }
static inline StrObj *as_str(Value v) { return (StrObj *)v.o; }
static inline BytesObj *as_bytes(Value v) { return (BytesObj *)v.o; }
static inline ListObj *as_list(Value v) { return (ListObj *)v.o; }
static inline TupleObj *as_tuple(Value v) { return (TupleObj *)v.o; }
static inline DictObj *as_dict(Value v) { return (DictObj *)v.o; }

/* Dictionaries. Hashing a user object may run code and fail: then V_ERR/false with an exception pending. */
Value dict_get(Interp *I, DictObj *d, Value key);       /* borrowed; V_ERR absent (or pending) */
bool dict_set(Interp *I, DictObj *d, Value key, Value val);         /* refs both */
int dict_del(Interp *I, DictObj *d, Value key);         /* 1 removed, 0 absent, -1 pending */
Value dict_get_sym(DictObj *d, Sym key);                /* borrowed; V_ERR absent; cannot fail */
void dict_set_sym(DictObj *d, Sym key, Value val);      /* refs val */
bool dict_next(DictObj *d, int64_t *pos, Value *key, Value *val);   /* iterate: *pos starts at 0; borrowed */
/* The same with hashes that are known already, as between two sets. */
bool dict_find_hash(Interp *I, DictObj *d, Value key, uint32_t hash, DictEntry **out);     /* *out NULL: absent; false: pending */
int dict_has_hash(Interp *I, DictObj *d, Value key, uint32_t hash);     /* 1, 0, -1 pending */
bool dict_set_hash(Interp *I, DictObj *d, Value key, uint32_t hash, Value val);
void dict_add_new(DictObj *d, Value key, uint32_t hash, Value val);     /* key must be absent; refs both */
void dict_reserve(DictObj *d, int64_t n);               /* room for n entries in all */

#endif
