/*
 * type.h - what the checker knows about a value.
 *
 * Types are interned: equal types are equal pointers, until types_done at the
 * end of the check; trees outlive it, so they have a type's number, which no
 * later check uses again, and type_found says whether it is of this one.  TY_ANY
 * is "could be anything" and is accepted everywhere; a part that is not known
 * (a size, a dtype, an element) is unknown in itself, so knowledge is never
 * all or nothing.
 */
#ifndef TSR_FRONTEND_TYPE_H
#define TSR_FRONTEND_TYPE_H

#include "ir/core/op.h"

typedef enum TypeKind {
    TY_ANY,
    TY_HIDDEN,                  /* as TY_ANY: a variable inside a branch whose condition is about it */
    TY_UNSET,                   /* declared by an annotation, not yet assigned */
    TY_NONE, TY_BOOL, TY_INT, TY_FLOAT, TY_COMPLEX, TY_STR, TY_BYTES,
    TY_LIST, TY_TUPLE, TY_DICT, TY_SET, TY_RANGE,
    TY_FUNC, TY_LIBRARY, TY_NATIVE, TY_METHOD, TY_TRANSFORM, TY_CLASS, TY_INSTANCE, TY_SPACE, TY_CALLABLE,
    TY_DTYPE, TY_TENSOR, TY_UNION,
    TY_OBJECT,                  /* of a native class: an open file */
    TY_KERNEL,                  /* what only kernels have: a context, a group, a fragment (kernels.h) */
    TY_LAZY                     /* an imported name, looked at when it is used */
} TypeKind;

enum { RANK_UNKNOWN = 255, ITEMS_MAX = 32 };
enum { TYPE_NODES = 1 << 11 };  /* a larger container is one of anything, so that x = (x, x) again and again stays small */

typedef struct Type Type;
struct Type {
    uint8_t kind;
    uint8_t exact;              /* FLOAT: value has its bits;
                                   DICT: item[] are its keys and values in turn; LIST, RANGE, OBJECT: item[] are its elements, one by one;
                                   UNION: type_untested; else item[0] is any element */
    int n;                      /* TENSOR of unknown rank: axes known in front of "..." | behind it << 8, in tensor->shape */
    const Type *const *item;    /* OBJECT: what a generator gives;
                                   TUPLE elements (n -1: any number of item[0]); LIST, SET element; DICT key, value;
                                   UNION members; CALLABLE parameters (n -1: any), then the result in item[n] */
    Dim value;                  /* INT: its value when known, else DIM_BAD; BOOL: BOOL_*; DTYPE: DType */
    Sym text;                   /* STR: its text when known; OBJECT: the class's name */
    const void *ref;            /* FUNC: Fn; LIBRARY: FunctionDef of a library file; NATIVE: NativeDef; CLASS, INSTANCE: Cls;
                                   SPACE, LAZY: Space, with LAZY's name in text; METHOD, TRANSFORM: Type of the function;
                                   TENSOR in a kernel: the memory that it lies in (KernelPlace), NULL: it is a value;
                                   DTYPE: Policy */
    const Type *self;           /* METHOD: the object */
    const void *inst;           /* INSTANCE: Inst, when the call that made it is known */
    const TType *tensor;        /* TENSOR: dtype DT_NONE, rank RANK_UNKNOWN when unknown; policy NULL when there is none, too */
    uint32_t nodes;             /* of the tree it stands for: shared parts count each time; at most TYPE_NODES */
    uint32_t number;            /* among all types of all checks */
};

/* Simple types: type_of_kind(TY_FLOAT). */
extern const Type *type_plain[TY_LAZY + 1];             /* those that were asked for */
const Type *type_plain_new(TypeKind k);
static inline const Type *type_of_kind(TypeKind k) { return type_plain[k] ? type_plain[k] : type_plain_new(k); }
#define T_ANY type_of_kind(TY_ANY)
#define T_NONE type_of_kind(TY_NONE)
enum { BOOL_UNKNOWN, BOOL_FALSE, BOOL_TRUE };
const Type *type_bool(bool value);                      /* type_of_kind(TY_BOOL): unknown */
const Type *type_instance(const void *cls, const void *inst);
const Type *type_int(Dim value);                        /* DIM_BAD: unknown */
const Type *type_float(double value);                   /* one number; type_of_kind(TY_FLOAT): any */
bool type_float_value(const Type *t, double *out);      /* of a float or an int; false: not known */
static inline const Type *type_any_float(const Type *t) { return t && t->kind == TY_FLOAT ? type_of_kind(TY_FLOAT) : t; }
const Type *type_str(Sym text);                         /* NULL: unknown */
const Type *type_object(Sym cls);                       /* of the native class of that name */
const Type *type_iterable(Sym cls, const Type *elem);   /* of the native class: a generator, the items of a dict */
const Type *type_view_of(Sym cls, const Type *const *items, int n);     /* of such a class, going through it gives these */
const Type *type_lazy(const void *space, Sym name);
const Type *type_dtype(DType dt, const Policy *policy);     /* policy NULL: none, or it is not known */
const Type *type_list(const Type *elem);
const Type *type_list_of(const Type *const *items, int n);
const Type *type_range_of(const Type *const *items, int n);     /* of these numbers; type_of_kind(TY_RANGE): not known */
const Type *type_tuple(const Type *const *items, int n);
const Type *type_tuple_any(const Type *elem);
const Type *type_dict(const Type *key, const Type *val);
const Type *type_dict_of(const Type *const *items, int n);     /* keys and values in turn, keys that are known texts or ints */
const Type *type_dict_get(const Type *t, Sym key);             /* of type_dict_of; NULL: not there */
const Type *type_dict_find(const Type *t, const Type *key);    /* the same, of any known key */
const Type *type_set(const Type *elem);
const Type *type_ref(TypeKind k, const void *ref);
const Type *type_method(const Type *self, const Type *func);
const Type *type_callable(const Type *const *params, int n, const Type *result);
const Type *type_transform(int64_t which, const Type *func);     /* value: Transform of checker.h */
const Type *type_partial(int64_t which, const Type *func, const Type *const *items, int n);     /* names (None: by position) and values in turn */
const Type *type_tensor(const TType *t);
const Type *type_tensor_unknown(void);
const Type *type_tensor_like(const TType *x);           /* of x's element type, nothing else known */
/* "..." with `front` sizes before it and `back` behind, all in t->shape; t->rank is RANK_UNKNOWN. */
const Type *type_tensor_rest(const TType *t, int front, int back);
static inline int type_front(const Type *t) { return t->n & 255; }
static inline int type_back(const Type *t) { return t->n >> 8; }
const Type *type_placed(const Type *tensor, const void *place);        /* the tensor, lying there; NULL: as a value */
const Type *type_kernel(int which, const Type *item, const TType *t);  /* KernelThing of kernels.h; item, t may be NULL */
const Type *type_union(const Type *a, const Type *b);
/* UNION: what a variable holds that was declared so, before the program asked which of them it is (optional.c); and behind that. */
const Type *type_untested(const Type *u);
static inline bool type_is_untested(const Type *t) { return t && t->kind == TY_UNION && t->exact; }
const Type *type_tested(const Type *t);

/* ---- type_join.c ---- */
/* The least type that holds both; sizes that differ become unknown. */
const Type *type_join(const Type *a, const Type *b);
/* A list display kept in a variable may grow: only what its elements share is known. */
const Type *type_settle(const Type *t);
/* An iterator that is kept may have given some of its elements already: which are left is not known. */
const Type *type_started(const Type *t);
/* A container that others can change: what it holds later is not known. */
const Type *type_forget(const Type *t);
const Type *type_forget_parts(const Type *t);           /* only its elements change: how many there are, and their keys, stay */
/* Kept in a variable that nothing changes in place: its elements stay, what they hold in turn may not. */
const Type *type_keep(const Type *t);
/* The elements of a sequence that is known one by one; -1: it is not. */
int type_items(const Type *t, const Type *const **out);
bool type_is_container(const Type *t);
bool type_is_segmented(const Type *t);                  /* a tensor with "..." among sizes that are known */
static inline bool type_is_any(const Type *t) { return !t || t->kind <= TY_HIDDEN; }     /* ANY, HIDDEN, or NULL */
bool type_has_none(const Type *t);
const Type *type_some(const Type *t);                   /* of T | None: T */
bool dim_mentions_open(Dim d);                          /* of one that is no number */
/* Does it mention an unknown size, not only the program's names? */
static inline bool dim_is_open(Dim d) { return !dim_is_const(d) && dim_mentions_open(d); }
Dim dim_open(void);                                     /* a fresh unknown size */
/* A number that a caller chooses, of either sign: open, but its own, so that what is made of it is compared. */
Dim dim_chosen(Sym name);
bool dim_is_chosen(Dim d);                          /* made of such alone, and of constants; no constant itself */
bool ttype_is_open(const TType *t);
Dim ttype_count(const TType *t);                        /* of its elements; DIM_BAD: not known */
int64_t ttype_elements(const TType *t);                  /* -1: not known */
bool dims_differ(Dim a, Dim b);                         /* surely: whatever the unknown sizes are */
const Type *type_subst(const Type *t, const Dim *from, const Dim *to, int n);
const char *type_text(const Type *t);                   /* the same; lives until the next few calls */
const char *shape_known(const Type *t);                  /* of a TENSOR, with what is known around "..." */
const char *shape_of(const TType *t);                   /* "[B, 4]", likewise */
struct Ast;
const Type *type_found(const struct Ast *e);            /* what this check found e to be; NULL: it was not there */
void type_note(struct Ast *e, const Type *t);
const Type *type_intern(const Type *t);                  /* the one that is equal to *t, which need not live on, nor its items */
void types_done(void);

#endif
