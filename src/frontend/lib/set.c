/* set and frozenset: their algebra, for the operators and for the methods that take any iterable. */
#include "frontend/lib/lib.h"

#include "frontend/eval/symint.h"
#include "frontend/syntax/ast.h"

enum { FROZEN = 1 };

static SetObj *self_set(Interp *I, Value v)
{
    v = unwrap_base(v);
    if (v.tag == V_SET)
        return as_dict(v);
    raise(I, EXC_TypeError, "this method of 'set' doesn't apply to a '%s' object", value_type_name(v));
    return NULL;
}

bool set_add(Interp *I, SetObj *s, Value v)
{
    if (is_symint(v) && is_err(v = symint_settled(I, v)))
        return false;
    return dict_set(I, s, v, VNONE);
}

int set_has(Interp *I, SetObj *s, Value v)
{
    Value r = dict_get(I, s, v);

    return is_err(r) ? (exc_pending(I) ? -1 : 0) : 1;
}

/* The keys of another set or dict: their hashes are known, and into an empty set they go without being looked for. */
static bool add_all(Interp *I, SetObj *s, DictObj *from)
{
    bool fresh = !s->n;

    if (fresh)
        dict_reserve(s, from->n);
    for (int64_t i = 0; i < from->used; i++) {
        DictEntry e = from->entry[i];
        bool ok = true;
        if (!e.live)
            continue;
        value_ref(e.key);
        if (fresh)
            dict_add_new(s, e.key, e.hash, VNONE);
        else
            ok = dict_set_hash(I, s, e.key, e.hash, VNONE);
        value_unref(e.key);
        if (!ok)
            return false;
    }
    return true;
}

typedef struct { Interp *I; SetObj *set; } SetTaker;

static bool take_into_set(void *taker, Value x)
{
    SetTaker *t = taker;
    bool ok = set_add(t->I, t->set, x);

    value_unref(x);
    return ok;
}

bool set_update(Interp *I, SetObj *s, Value iterable)
{
    Value from = unwrap_base(iterable);

    if (from.tag == V_SET || from.tag == V_DICT)
        return as_dict(from) == s || add_all(I, s, as_dict(from));
    return value_each(I, iterable, take_into_set, &(SetTaker){I, s});
}

static Value new_set(bool frozen)
{
    Value s = set_new();

    s.o->flags = (uint16_t)(frozen ? s.o->flags | FROZEN : s.o->flags & ~FROZEN);
    return s;
}

static Value set_of(Interp *I, Value iterable, bool frozen)
{
    Value s = new_set(frozen);

    if (is_err(iterable) || set_update(I, as_dict(s), iterable))
        return s;
    value_unref(s);
    return VERR;
}

static Value set_make(Interp *I, Value *a) { return set_of(I, a[1], false); }

static Value frozenset_make(Interp *I, Value *a)
{
    if (a[1].tag == V_SET && (a[1].o->flags & FROZEN))
        return value_ref(a[1]);
    return set_of(I, a[1], true);
}

/* ------------------------------------------------------------- algebra */

/* The elements of a for which being in b is `in`. */
static bool select_into(Interp *I, SetObj *out, SetObj *a, SetObj *b, bool in)
{
    bool fresh = !out->n;       /* elements of one set differ: no search where they go */

    for (int64_t i = 0; i < a->used; i++) {
        DictEntry e = a->entry[i];
        int has;
        if (!e.live)
            continue;
        value_ref(e.key);
        has = dict_has_hash(I, b, e.key, e.hash);
        if (has == in && fresh)
            dict_add_new(out, e.key, e.hash, VNONE);
        else if (has == in && !dict_set_hash(I, out, e.key, e.hash, VNONE))
            has = -1;
        value_unref(e.key);
        if (has < 0)
            return false;
    }
    return true;
}

Value set_binary(Interp *I, int op, Value a, Value b)
{
    Value out = new_set(a.o->flags & FROZEN);
    SetObj *x = as_dict(a), *y = as_dict(b), *o = as_dict(out);
    bool ok;

    switch (op) {
    case AOP_BITOR: ok = set_update(I, o, a) && set_update(I, o, b); break;
    case AOP_BITAND: ok = select_into(I, o, x, y, true); break;
    case AOP_SUB: ok = select_into(I, o, x, y, false); break;
    case AOP_BITXOR: ok = select_into(I, o, x, y, false) && select_into(I, o, y, x, false); break;
    default: value_unref(out); return VNOTIMPL;
    }
    if (ok)
        return out;
    value_unref(out);
    return VERR;
}

static int is_subset(Interp *I, SetObj *a, SetObj *b)
{
    Value x, ignore;
    int64_t pos = 0;

    if (a->n > b->n)
        return 0;
    while (dict_next(a, &pos, &x, &ignore)) {
        int has;
        value_ref(x);
        has = set_has(I, b, x);
        value_unref(x);
        if (has != 1)
            return has;
    }
    return 1;
}

int set_compare(Interp *I, int op, Value a, Value b)
{
    SetObj *x = as_dict(a), *y = as_dict(b);
    int r;

    switch (op) {
    case AOP_LE: return is_subset(I, x, y);
    case AOP_LT: return x->n < y->n ? is_subset(I, x, y) : 0;
    case AOP_GE: return is_subset(I, y, x);
    case AOP_GT: return y->n < x->n ? is_subset(I, y, x) : 0;
    default:
        r = x->n == y->n ? is_subset(I, x, y) : 0;
        return r < 0 || op == AOP_EQ ? r : !r;
    }
}

/* The other operand of a method: a set as it is, anything else made one. New reference. */
static Value operand(Interp *I, Value v)
{
    Value s = unwrap_base(v);

    return s.tag == V_SET ? value_ref(s) : set_of(I, v, false);
}

/* self op each of the others, from left to right. */
static Value fold(Interp *I, Value self, Value others, int op)
{
    SetObj *s = self_set(I, self);
    Value acc;

    if (!s)
        return VERR;
    acc = set_of(I, vobj(s), s->obj.flags & FROZEN);
    for (int64_t i = 0; i < as_tuple(others)->n && !is_err(acc); i++) {
        Value o = operand(I, as_tuple(others)->at[i]);
        Value next = is_err(o) ? VERR : set_binary(I, op, acc, o);
        value_unref(o);
        value_unref(acc);
        acc = next;
    }
    return acc;
}

static Value m_union(Interp *I, Value *a) { return fold(I, a[0], a[1], AOP_BITOR); }
static Value m_intersection(Interp *I, Value *a) { return fold(I, a[0], a[1], AOP_BITAND); }
static Value m_difference(Interp *I, Value *a) { return fold(I, a[0], a[1], AOP_SUB); }

static Value m_symmetric_difference(Interp *I, Value *a)
{
    Value one = tuple_of(1, value_ref(a[1])), r = fold(I, a[0], one, AOP_BITXOR);

    value_unref(one);
    return r;
}

/* Make self hold what r holds; consumes r. */
static Value become(Interp *I, Value self, Value r)
{
    SetObj *s = self_set(I, self);
    bool ok = s && !is_err(r);

    if (ok) {
        dict_clear(s);
        ok = set_update(I, s, r);
    }
    value_unref(r);
    return ok ? VNONE : VERR;
}

static Value m_update(Interp *I, Value *a)
{
    SetObj *s = self_set(I, a[0]);

    if (!s)
        return VERR;
    for (int64_t i = 0; i < as_tuple(a[1])->n; i++)
        if (!set_update(I, s, as_tuple(a[1])->at[i]))
            return VERR;
    return VNONE;
}

static Value m_intersection_update(Interp *I, Value *a) { return become(I, a[0], m_intersection(I, a)); }
static Value m_difference_update(Interp *I, Value *a) { return become(I, a[0], m_difference(I, a)); }
static Value m_symmetric_difference_update(Interp *I, Value *a) { return become(I, a[0], m_symmetric_difference(I, a)); }

static Value test(Interp *I, Value *a, int op)
{
    SetObj *s = self_set(I, a[0]);
    Value o = s ? operand(I, a[1]) : VERR;
    int r = is_err(o) ? -1 : set_compare(I, op, vobj(s), o);

    value_unref(o);
    return r < 0 ? VERR : vbool(r);
}

static Value m_issubset(Interp *I, Value *a) { return test(I, a, AOP_LE); }
static Value m_issuperset(Interp *I, Value *a) { return test(I, a, AOP_GE); }

static Value m_isdisjoint(Interp *I, Value *a)
{
    Value one = tuple_of(1, value_ref(a[1])), both = fold(I, a[0], one, AOP_BITAND);
    bool none = !is_err(both) && !as_dict(both)->n;

    value_unref(one);
    if (is_err(both))
        return VERR;
    value_unref(both);
    return vbool(none);
}

/* ------------------------------------------------------------- elements */

static Value m_add(Interp *I, Value *a)
{
    SetObj *s = self_set(I, a[0]);
    return s && set_add(I, s, a[1]) ? VNONE : VERR;
}

static Value m_discard(Interp *I, Value *a)
{
    SetObj *s = self_set(I, a[0]);
    return s && dict_del(I, s, a[1]) >= 0 ? VNONE : VERR;
}

static Value m_remove(Interp *I, Value *a)
{
    SetObj *s = self_set(I, a[0]);
    int r = s ? dict_del(I, s, a[1]) : -1;

    return r < 0 ? VERR : r ? VNONE : raise_key_error(I, a[1]);
}

static Value m_pop(Interp *I, Value *a)
{
    SetObj *s = self_set(I, a[0]);
    Value x, ignore, text;
    int64_t pos = 0;

    if (!s)
        return VERR;
    if (!dict_next(s, &pos, &x, &ignore)) {
        text = str_c("pop from an empty set");
        raise_key_error(I, text);
        value_unref(text);
        return VERR;
    }
    value_ref(x);
    if (dict_del(I, s, x) >= 0)
        return x;
    value_unref(x);
    return VERR;
}

static Value m_clear(Interp *I, Value *a)
{
    SetObj *s = self_set(I, a[0]);

    if (!s)
        return VERR;
    dict_clear(s);
    return VNONE;
}

static Value m_copy(Interp *I, Value *a)
{
    SetObj *s = self_set(I, a[0]);
    return s ? set_of(I, vobj(s), s->obj.flags & FROZEN) : VERR;
}

const NativeDef natives_set[] = {
    {"", "set", NULL, "type[set]", "Distinct hashable elements."},
    {"set", "__new__", set_make, "(cls, iterable: Iterable = ..., /) -> set", "A new set of the elements."},
    {"set", "add", m_add, "(self, element, /) -> None", "Put the element in."},
    {"set", "discard", m_discard, "(self, element, /) -> None", "Take the element out if it is there."},
    {"set", "remove", m_remove, "(self, element, /) -> None", "Take the element out; KeyError when it is not there."},
    {"set", "pop", m_pop, "(self, /)", "Take out any element; KeyError when empty."},
    {"set", "clear", m_clear, "(self, /) -> None", "Take out all."},
    {"set", "update", m_update, "(self, /, *others: Iterable) -> None", "Put in all elements of the others."},
    {"set", "intersection_update", m_intersection_update, "(self, /, *others: Iterable) -> None", "Keep what is in all others."},
    {"set", "difference_update", m_difference_update, "(self, /, *others: Iterable) -> None", "Take out what is in the others."},
    {"set", "symmetric_difference_update", m_symmetric_difference_update, "(self, other: Iterable, /) -> None", "Keep what is in one of both alone."},
    {"set", "union", m_union, "(self, /, *others: Iterable) -> set", "What is in any."},
    {"set", "intersection", m_intersection, "(self, /, *others: Iterable) -> set", "What is in all."},
    {"set", "difference", m_difference, "(self, /, *others: Iterable) -> set", "What is in none of the others."},
    {"set", "symmetric_difference", m_symmetric_difference, "(self, other: Iterable, /) -> set", "What is in one of both alone."},
    {"set", "issubset", m_issubset, "(self, other: Iterable, /) -> bool", "Is all of it in other?"},
    {"set", "issuperset", m_issuperset, "(self, other: Iterable, /) -> bool", "Is all of other in it?"},
    {"set", "isdisjoint", m_isdisjoint, "(self, other: Iterable, /) -> bool", "Nothing in common?"},
    {"set", "copy", m_copy, "(self, /) -> set", "A new set of the same elements."},
    {"", "frozenset", NULL, "type[frozenset]", "A set that cannot change, and so can be an element or key."},
    {"frozenset", "__new__", frozenset_make, "(cls, iterable: Iterable = ..., /) -> frozenset", "A frozenset of the elements."},
    {"frozenset", "union", m_union, "(self, /, *others: Iterable) -> frozenset", "What is in any."},
    {"frozenset", "intersection", m_intersection, "(self, /, *others: Iterable) -> frozenset", "What is in all."},
    {"frozenset", "difference", m_difference, "(self, /, *others: Iterable) -> frozenset", "What is in none of the others."},
    {"frozenset", "symmetric_difference", m_symmetric_difference, "(self, other: Iterable, /) -> frozenset", "What is in one of both alone."},
    {"frozenset", "issubset", m_issubset, "(self, other: Iterable, /) -> bool", "Is all of it in other?"},
    {"frozenset", "issuperset", m_issuperset, "(self, other: Iterable, /) -> bool", "Is all of other in it?"},
    {"frozenset", "isdisjoint", m_isdisjoint, "(self, other: Iterable, /) -> bool", "Nothing in common?"},
    {"frozenset", "copy", m_copy, "(self, /) -> frozenset", "Itself."},
    {0},
};
