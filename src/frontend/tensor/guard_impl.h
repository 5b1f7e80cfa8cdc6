/*
 * guard_impl.h - what the files of guards share: the tree of what was read, and the parts of the containers in it.
 */
#ifndef TSR_FRONTEND_TENSOR_GUARD_IMPL_H
#define TSR_FRONTEND_TENSOR_GUARD_IMPL_H

#include "frontend/tensor/guard.h"

#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"

typedef struct Item {
    Value v;                    /* owned */
    Value now;                  /* the container as guard_check last saw it; borrowed */
    struct Item **child;        /* of list, deque, tuple, dict and set (by order of keys), instance */
    Value *key;                 /* dict, set and instance: keys of the children; V_ERR: what is inside an instance of a class of the builtins' */
    int n;
    int capture;                /* tensor: index among the graph's captures, -1 none */
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
    Guard *outer;
    ReadLog *outer_log;
    Arena arena;
    Map seen_place, seen_obj;   /* place key, object -> Item */
    Map inside;                 /* cells made since guard_begin */
    Vec(Value) made;            /* the same, held until guard_end so that no other takes the address */
    Vec(Root) place;
    Vec(Item *) item;
    Vec(Write) write;
    Tensor **fresh;             /* guard_check: the captures being gathered */
    Map compared;               /* objects of this comparison */
    Item *odd;                  /* the innermost item that differed in it, NULL: none */
    Value odd_now;              /* what stands there now; V_ERR: nothing. Borrowed */
};

static inline const NativeType *native_type(Value v) { return ((NativeInst *)v.o)->type; }

/* A list or what is like one, a deque: its elements are replaced in place. */
static inline bool is_mutable_sequence(Value v) { return v.tag == V_LIST || (v.tag == V_NATIVEOBJ && native_type(v)->item); }

/* Builtin storage that is walked; the others are leaves. */
static inline bool is_container(Value v)
{
    return is_mutable_sequence(v) || v.tag == V_TUPLE || v.tag == V_DICT || v.tag == V_SET || v.tag == V_INSTANCE || v.tag == V_BOUND;
}

static inline Value place_value(const Root *p)
{
    if (p->kind == PLACE_CELL)
        return ((CellObj *)p->holder.o)->v;
    if (p->kind == PLACE_GLOBAL)
        return ((ModuleObj *)p->holder.o)->slot[p->slot];
    return p->holder;
}

static inline DictObj *dict_of(Value v) { return v.tag == V_DICT || v.tag == V_SET ? as_dict(v) : ((InstanceObj *)v.o)->attrs; }

/* The list, tuple, dict or text inside an instance of a class that derives from theirs; V_ERR: there is none. */
static inline Value inside_of(Value v) { return v.tag == V_INSTANCE ? ((InstanceObj *)v.o)->base : VERR; }

static inline int64_t sequence_len(Value v) { return v.tag == V_LIST ? as_list(v)->n : native_type(v)->len(v.o); }
static inline Value *sequence_item(Value v, int64_t i) { return v.tag == V_LIST ? &as_list(v)->at[i] : native_type(v)->item(v.o, i); }

/* Child i of a container that has the item's keys; V_ERR: absent. Borrowed. */
static inline Value part(Guard *g, const Item *it, Value v, int i)
{
    DictObj *d;

    if (is_mutable_sequence(v))
        return i < sequence_len(v) ? *sequence_item(v, i) : VERR;
    switch (v.tag) {
    case V_TUPLE: return i < as_tuple(v)->n ? as_tuple(v)->at[i] : VERR;
    case V_BOUND: return i ? ((BoundObj *)v.o)->func : ((BoundObj *)v.o)->self;
    default:
        d = dict_of(v);
        return is_err(it->key[i]) ? inside_of(v) : d ? dict_get(g->I, d, it->key[i]) : VERR;
    }
}

static inline int64_t part_count(Value v)
{
    if (is_mutable_sequence(v))
        return sequence_len(v);
    switch (v.tag) {
    case V_TUPLE: return as_tuple(v)->n;
    case V_BOUND: return 2;
    default: return (dict_of(v) ? dict_of(v)->n : 0) + !is_err(inside_of(v));
    }
}

static inline Tensor *tensor_at(const Item *it) { return it->v.tag == V_TENSOR ? as_tensor(it->v) : NULL; }

#endif
