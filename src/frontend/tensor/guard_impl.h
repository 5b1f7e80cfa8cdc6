/*
 * guard_impl.h - what the files of guards share: the tree of what was read, and the parts of the containers in it.
 */
#ifndef TSR_FRONTEND_TENSOR_GUARD_IMPL_H
#define TSR_FRONTEND_TENSOR_GUARD_IMPL_H

#include "frontend/tensor/guard.h"

#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "frontend/check/spaces.h"
#include "frontend/eval/code.h"
#include "frontend/eval/eval.h"

#include <string.h>

typedef struct Item {
    Value v;                    /* owned */
    Value now;                  /* the container as guard_check last saw it; borrowed */
    struct Item **child;        /* of list, deque, tuple, dict and set (by order of keys), instance, class, function */
    Value *key;                 /* dict, set, instance and class: keys of the children */
    int n;
    int capture;                /* tensor: index among the graph's captures, -1 none */
    int64_t position;           /* iterator: how far it was */
} Item;

typedef enum { PLACE_CELL, PLACE_GLOBAL, PLACE_VALUE } RootKind;
typedef struct Root {
    RootKind kind;
    Value holder;               /* cell; module; the value itself. Owned */
    uint32_t slot;
    Item *root;
} Root;

/* One store: into child `at` of `in`, or into the place itself when in is NULL. */
typedef struct Write { int place; Item *in; int at; } Write;

struct Guard {
    ReadLog log;                /* first: the evaluator calls through it */
    Interp *I;
    ReadLog *outer;             /* until guard_end: who was told of reads before, not always a guard */
    Arena arena;
    Map seen_place, seen_obj;   /* place key, object -> Item */
    Map inside;                 /* cells made since guard_begin */
    Vec(Value) made;            /* the same, held until guard_end so that no other takes the address */
    Vec(Root) place;
    Vec(Item *) item;
    Vec(Write) write;
    bool spent;                 /* the function took from an iterator outside: the next call takes what comes next */
    Tensor **fresh;             /* guard_check: the captures being gathered */
    Map compared;               /* objects of this comparison */
    Item *odd;                  /* the innermost item that differed in it, NULL: none */
    Value odd_now;              /* what stands there now; V_ERR: nothing. Borrowed */
};

static inline const NativeType *native_type(Value v) { return ((NativeInst *)v.o)->type; }

/* A list, or an object made in C whose Values are replaced in place: a deque, a partial. */
static inline bool has_items(Value v) { return v.tag == V_LIST || (v.tag == V_NATIVEOBJ && native_type(v)->item); }
static inline int64_t item_count(Value v) { return v.tag == V_LIST ? as_list(v)->n : native_type(v)->count(v.o); }
static inline Value *item_place(Value v, int64_t i) { return v.tag == V_LIST ? &as_list(v)->at[i] : native_type(v)->item(v.o, i); }

/* A class of the program, whose attributes may change. */
static inline bool is_own_class(const ClassObj *c)
{
    return !(c->flags & CLASS_NATIVE) && c->module && c->module->path && !is_of_library(c->module->path);
}

static inline bool is_shared(uint32_t tag)
{
    return tag == V_LIST || tag == V_DICT || tag == V_SET || tag == V_INSTANCE || tag == V_NATIVEOBJ;
}

/* A function that others may change: by attributes, or by what its defaults hold. */
static inline bool is_changeable(const FuncObj *f)
{
    for (int i = 0; f->defaults && i < f->code->nparams; i++)
        if (is_shared(f->defaults[i].tag))
            return true;
    return f->attrs;
}

/* Builtin storage that is walked; the others are leaves. */
static inline bool is_container(Value v)
{
    switch (v.tag) {
    case V_TUPLE: case V_DICT: case V_SET: case V_INSTANCE: case V_BOUND: return true;
    case V_CLASS: return is_own_class((ClassObj *)v.o);
    case V_FUNC: return is_changeable((FuncObj *)v.o);
    default: return has_items(v);
    }
}

/* Are its parts known by place, not by key? */
static inline bool is_sequence(Value v) { return has_items(v) || v.tag == V_TUPLE || v.tag == V_BOUND || v.tag == V_FUNC; }

static inline int64_t position_of(Value v)
{
    switch (v.tag) {
    case V_ITER: return ((IterObj *)v.o)->at;
    case V_GENERATOR: return ((GenObj *)v.o)->rounds;
    case V_NATIVEOBJ: return ((NativeInst *)v.o)->turns;
    default: return 0;
    }
}

static inline Value place_value(const Root *p)
{
    if (p->kind == PLACE_CELL)
        return ((CellObj *)p->holder.o)->v;
    if (p->kind == PLACE_GLOBAL)
        return ((ModuleObj *)p->holder.o)->slot[p->slot];
    return p->holder;
}

/* Of what has parts by key. */
static inline DictObj *dict_of(Value v)
{
    return v.tag == V_INSTANCE ? ((InstanceObj *)v.o)->attrs : v.tag == V_CLASS ? ((ClassObj *)v.o)->ns : as_dict(v);
}

/*
 * Besides what it has by key, an instance has what is inside of it (the tuple of a named tuple) and its class, and a class its base:
 * extra parts, with V_ERR and V_NOTIMPL for a key.
 */
static inline Value inside_of(Value v) { return v.tag == V_INSTANCE ? ((InstanceObj *)v.o)->base : VERR; }

static inline Value class_behind(Value v)
{
    ClassObj *c = v.tag == V_INSTANCE ? ((InstanceObj *)v.o)->cls : v.tag == V_CLASS ? ((ClassObj *)v.o)->base : NULL;

    return c && is_own_class(c) ? vobj(c) : VERR;
}

/* Child i of a container that has the item's keys; V_ERR: absent. Borrowed. */
static inline Value part(Guard *g, const Item *it, Value v, int i)
{
    FuncObj *f = (FuncObj *)v.o;
    DictObj *d;

    if (has_items(v))
        return i < item_count(v) ? *item_place(v, i) : VERR;
    switch (v.tag) {
    case V_TUPLE: return i < as_tuple(v)->n ? as_tuple(v)->at[i] : VERR;
    case V_BOUND: return i ? ((BoundObj *)v.o)->func : ((BoundObj *)v.o)->self;
    case V_FUNC: return !i ? (f->attrs ? vobj(f->attrs) : VNONE) : f->defaults && !is_err(f->defaults[i - 1]) ? f->defaults[i - 1] : VNONE;
    default: break;
    }
    if (it->key[i].tag == V_NOTIMPL)
        return class_behind(v);
    d = dict_of(v);
    return is_err(it->key[i]) ? inside_of(v) : d ? dict_get(g->I, d, it->key[i]) : VERR;
}

static inline int64_t part_count(Value v)
{
    if (has_items(v))
        return item_count(v);
    switch (v.tag) {
    case V_TUPLE: return as_tuple(v)->n;
    case V_BOUND: return 2;
    case V_FUNC: return 1 + ((FuncObj *)v.o)->code->nparams;
    default: return (dict_of(v) ? dict_of(v)->n : 0) + !is_err(inside_of(v)) + !is_err(class_behind(v));
    }
}

static inline Tensor *tensor_at(const Item *it) { return it->v.tag == V_TENSOR ? as_tensor(it->v) : NULL; }

#endif
