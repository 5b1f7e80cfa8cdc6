/*
 * dict: its methods and its live views.
 *
 * The table itself is the evaluator's.  A view holds the dictionary and looks
 * when asked; an iterator remembers the dictionary's version and refuses to go
 * on after a structural change.
 */
#include "frontend/lib/lib.h"

#include "frontend/lib/lazy.h"
#include "frontend/syntax/ast.h"

#include <string.h>

DictObj *self_dict(Interp *I, Value v)
{
    v = unwrap_base(v);
    if (v.tag == V_DICT)
        return as_dict(v);
    raise(I, EXC_TypeError, "this method of 'dict' doesn't apply to a '%s' object", value_type_name(v));
    return NULL;
}

/* ------------------------------------------------------------- making and merging */

static bool put_pair(Interp *I, DictObj *d, Value pair, int64_t at)
{
    Value p = value_to_list(I, pair);
    bool ok;

    if (is_err(p)) {
        if (exc_matches(I, EXC_TypeError)) {
            exc_clear(I);
            raise(I, EXC_TypeError, "cannot convert dictionary update sequence element #%lld to a sequence", (long long)at);
        }
        return false;
    }
    ok = as_list(p)->n == 2;
    if (!ok)
        raise(I, EXC_ValueError, "dictionary update sequence element #%lld has length %lld; 2 is required", (long long)at,
              (long long)as_list(p)->n);
    ok = ok && dict_set(I, d, as_list(p)->at[0], as_list(p)->at[1]);
    value_unref(p);
    return ok;
}

static bool put_pairs(Interp *I, DictObj *d, Value pairs)
{
    Value it = value_iter(I, pairs), x;
    int64_t at = 0;
    bool ok = true;

    if (is_err(it))
        return false;
    while (ok && !is_err(x = value_next(I, it))) {
        ok = put_pair(I, d, x, at++);
        value_unref(x);
    }
    value_unref(it);
    return ok && !exc_pending(I);
}

/* d[k] = m[k] for the keys that m.keys() lists. */
static bool put_mapping(Interp *I, DictObj *d, Value m, Value keys)
{
    Value it = value_iter(I, keys), k;
    bool ok = true;

    if (is_err(it))
        return false;
    while (ok && !is_err(k = value_next(I, it))) {
        Value v = value_getitem(I, m, k);
        ok = !is_err(v) && dict_set(I, d, k, v);
        value_unref(v);
        value_unref(k);
    }
    value_unref(it);
    return ok && !exc_pending(I);
}

static bool put_dict(Interp *I, DictObj *d, DictObj *from)
{
    Value k, v;
    int64_t pos = 0;
    uint32_t version = from->version;

    if (from == d)
        return true;
    while (dict_next(from, &pos, &k, &v)) {
        value_ref(k), value_ref(v);             /* a key's __eq__ may change the dictionaries */
        bool ok = dict_set(I, d, k, v);
        value_unref(k), value_unref(v);
        if (ok && from->version != version)
            ok = (raise(I, EXC_RuntimeError, "dict mutated during update"), false);
        if (!ok)
            return false;
    }
    return true;
}

bool dict_update(Interp *I, DictObj *d, Value other)
{
    Value m = unwrap_base(other), keys, list;
    bool ok;

    if (m.tag == V_DICT)
        return put_dict(I, d, as_dict(m));
    keys = value_getattr_opt(I, other, sym("keys"));
    if (is_err(keys))
        return !exc_pending(I) && put_pairs(I, d, other);
    list = value_call(I, keys, NULL, 0);
    value_unref(keys);
    ok = !is_err(list) && put_mapping(I, d, other, list);
    value_unref(list);
    return ok;
}

Value dict_copy(Interp *I, DictObj *d)
{
    Value out = dict_new();

    if (put_dict(I, as_dict(out), d))
        return out;
    value_unref(out);
    return VERR;
}

int dict_equal(Interp *I, DictObj *a, DictObj *b)
{
    Value k, v, w;
    int64_t pos = 0;
    int same = 1;

    if (a == b)
        return 1;
    if (a->n != b->n)
        return 0;
    if (!interp_enter(I))
        return -1;
    while (same == 1 && dict_next(a, &pos, &k, &v)) {
        value_ref(k), value_ref(v);
        w = dict_get(I, b, k);
        if (is_err(w)) {
            same = exc_pending(I) ? -1 : 0;
        } else if (!value_is(v, w)) {
            value_ref(w);
            same = value_equal(I, v, w);
            value_unref(w);
        }
        value_unref(k), value_unref(v);
    }
    interp_leave(I);
    return same;
}

/* dict(arg, **kw) into d; arg V_ERR: none. */
static bool dict_fill(Interp *I, DictObj *d, Value arg, Value kw)
{
    return (is_err(arg) || dict_update(I, d, arg)) && (kw.tag != V_DICT || put_dict(I, d, as_dict(kw)));
}

static Value dict_make(Interp *I, Value *a)
{
    Value d = dict_new();

    if (dict_fill(I, as_dict(d), a[1], a[2]))
        return d;
    value_unref(d);
    return VERR;
}

static Value m_update(Interp *I, Value *a)
{
    DictObj *d = self_dict(I, a[0]);
    return d && dict_fill(I, d, a[1], a[2]) ? VNONE : VERR;
}

static Value m_fromkeys(Interp *I, Value *a)
{
    bool plain = a[0].tag == V_CLASS && !strcmp(((ClassObj *)a[0].o)->name->text, "dict");
    Value d = plain ? dict_new() : value_call(I, a[0], NULL, 0), it, k;
    DictObj *to = is_err(d) ? NULL : self_dict(I, d);
    bool ok = to != NULL;

    it = ok ? value_iter(I, a[1]) : VERR;
    ok = ok && !is_err(it);
    while (ok && !is_err(k = value_next(I, it))) {
        ok = dict_set(I, to, k, a[2]);
        value_unref(k);
    }
    value_unref(it);
    if (ok && !exc_pending(I))
        return d;
    value_unref(d);
    return VERR;
}

/* ------------------------------------------------------------- one key */

static Value m_get(Interp *I, Value *a)
{
    DictObj *d = self_dict(I, a[0]);
    Value v = d ? dict_get(I, d, a[1]) : VERR;

    if (!is_err(v))
        return value_ref(v);
    return exc_pending(I) ? VERR : value_ref(a[2]);
}

static Value m_setdefault(Interp *I, Value *a)
{
    DictObj *d = self_dict(I, a[0]);
    Value v = d ? dict_get(I, d, a[1]) : VERR;

    if (!is_err(v))
        return value_ref(v);
    if (exc_pending(I) || !dict_set(I, d, a[1], a[2]))
        return VERR;
    return value_ref(a[2]);
}

static Value m_pop(Interp *I, Value *a)
{
    DictObj *d = self_dict(I, a[0]);
    Value v = d ? dict_get(I, d, a[1]) : VERR;

    if (is_err(v)) {
        if (exc_pending(I))
            return VERR;
        return is_err(a[2]) ? raise_key_error(I, a[1]) : value_ref(a[2]);
    }
    value_ref(v);
    if (dict_del(I, d, a[1]) >= 0)
        return v;
    value_unref(v);
    return VERR;
}

/* The last live entry; false when there is none. */
static bool dict_last(DictObj *d, Value *key, Value *val)
{
    for (int64_t i = d->used - 1; i >= 0; i--)
        if (d->entry[i].live) {
            *key = d->entry[i].key;
            *val = d->entry[i].val;
            return true;
        }
    return false;
}

static Value m_popitem(Interp *I, Value *a)
{
    DictObj *d = self_dict(I, a[0]);
    Value k, v, pair, text;

    if (!d)
        return VERR;
    if (!dict_last(d, &k, &v)) {
        text = str_c("popitem(): dictionary is empty");
        raise_key_error(I, text);
        value_unref(text);
        return VERR;
    }
    pair = tuple_of(2, value_ref(k), value_ref(v));
    if (dict_del(I, d, as_tuple(pair)->at[0]) >= 0)
        return pair;
    value_unref(pair);
    return VERR;
}

static Value m_clear(Interp *I, Value *a)
{
    DictObj *d = self_dict(I, a[0]);

    if (!d)
        return VERR;
    dict_clear(d);
    return VNONE;
}

static Value m_copy(Interp *I, Value *a)
{
    DictObj *d = self_dict(I, a[0]);
    return d ? dict_copy(I, d) : VERR;
}

/* ------------------------------------------------------------- views and iterators */

typedef enum { KEYS, VALUES, ITEMS } ViewKind;
typedef struct View { NativeInst head; Value dict; ViewKind kind; } View;
typedef struct ViewIter { NativeInst head; Value dict, pair; ViewKind kind; int64_t pos; uint32_t version; bool reverse; } ViewIter;

static void view_free(void *p) { value_unref(((View *)p)->dict); }
static void view_visit(void *p, void (*fn)(Value *, void *), void *st) { fn(&((View *)p)->dict, st); }
static void iter_free(void *p)
{
    value_unref(((ViewIter *)p)->dict);
    value_unref(((ViewIter *)p)->pair);
}

static void iter_visit(void *p, void (*fn)(Value *, void *), void *st)
{
    fn(&((ViewIter *)p)->dict, st);
    fn(&((ViewIter *)p)->pair, st);
}

static Value entry_value(Value k, Value v, ViewKind kind, Value *kept)
{
    Value out;

    if (kind != ITEMS)
        return value_ref(kind == KEYS ? k : v);
    out = tuple_again(kept, 2);
    as_tuple(out)->at[0] = value_ref(k);
    as_tuple(out)->at[1] = value_ref(v);
    return out;
}

static bool prev_entry(DictObj *d, int64_t *pos, Value *k, Value *v)
{
    while (--*pos >= 0)
        if (d->entry[*pos].live) {
            *k = d->entry[*pos].key;
            *v = d->entry[*pos].val;
            return true;
        }
    return false;
}

static Value iter_next(Interp *I, void *p)
{
    ViewIter *it = p;
    DictObj *d = as_dict(it->dict);
    Value k, v;

    if (it->version != d->version)
        return raise(I, EXC_RuntimeError, "dictionary changed size during iteration");
    if (it->reverse ? !prev_entry(d, &it->pos, &k, &v) : !dict_next(d, &it->pos, &k, &v))
        return VERR;
    return entry_value(k, v, it->kind, &it->pair);
}

static const NativeType iter_types[3] = {
    {"dict_keyiterator", iter_free, iter_visit, iter_next},
    {"dict_valueiterator", iter_free, iter_visit, iter_next},
    {"dict_itemiterator", iter_free, iter_visit, iter_next},
};

static Value iter_over(DictObj *d, ViewKind kind, bool reverse)
{
    ViewIter *it = nativeobj_new(&iter_types[kind], sizeof *it);

    it->dict = value_ref(vobj(d));
    it->kind = kind;
    it->version = d->version;
    it->reverse = reverse;
    it->pos = reverse ? d->used : 0;
    return vobj(it);
}

static void view_repr(Interp *I, void *p, StrBuf *b)
{
    static const char *const name[] = {"dict_keys", "dict_values", "dict_items"};
    View *w = p;
    Value it = iter_over(as_dict(w->dict), w->kind, false), x;
    bool first = true;

    sb_printf(b, "%s([", name[w->kind]);
    while (!is_err(x = value_next(I, it))) {
        if (!first)
            sb_puts(b, ", ");
        first = false;
        value_repr_to(I, x, b);
        value_unref(x);
    }
    value_unref(it);
    sb_puts(b, "])");
}

static const NativeType view_types[3] = {
    {"dict_keys", view_free, view_visit, .repr = view_repr},
    {"dict_values", view_free, view_visit, .repr = view_repr},
    {"dict_items", view_free, view_visit, .repr = view_repr},
};

static Value view_new(Interp *I, Value self, ViewKind kind)
{
    DictObj *d = self_dict(I, self);
    View *w;

    if (!d)
        return VERR;
    w = nativeobj_new(&view_types[kind], sizeof *w);
    w->dict = value_ref(vobj(d));
    w->kind = kind;
    return vobj(w);
}

static Value m_keys(Interp *I, Value *a) { return view_new(I, a[0], KEYS); }
static Value m_values(Interp *I, Value *a) { return view_new(I, a[0], VALUES); }
static Value m_items(Interp *I, Value *a) { return view_new(I, a[0], ITEMS); }

static View *self_view(Value v) { return (View *)v.o; }
static Value v_len(Interp *I, Value *a) { return vint(as_dict(self_view(a[0])->dict)->n); }
static Value v_iter(Interp *I, Value *a) { return iter_over(as_dict(self_view(a[0])->dict), self_view(a[0])->kind, false); }
static Value v_reversed(Interp *I, Value *a) { return iter_over(as_dict(self_view(a[0])->dict), self_view(a[0])->kind, true); }

static Value m_reversed(Interp *I, Value *a)
{
    DictObj *d = self_dict(I, a[0]);
    return d ? iter_over(d, KEYS, true) : VERR;
}

/* Is x in the view? 1, 0, -1. */
static int view_has(Interp *I, View *w, Value x)
{
    DictObj *d = as_dict(w->dict);
    Value v;

    if (w->kind == KEYS) {
        v = dict_get(I, d, x);
        return is_err(v) ? (exc_pending(I) ? -1 : 0) : 1;
    }
    if (x.tag != V_TUPLE || as_tuple(x)->n != 2)
        return 0;
    v = dict_get(I, d, as_tuple(x)->at[0]);
    if (is_err(v))
        return exc_pending(I) ? -1 : 0;
    return value_is(v, as_tuple(x)->at[1]) ? 1 : value_equal(I, v, as_tuple(x)->at[1]);
}

static Value v_contains(Interp *I, Value *a)
{
    View *w = self_view(a[0]);
    int r;

    if (w->kind == VALUES) {
        Value it = v_iter(I, a), x;
        for (r = 0; !r && !is_err(x = value_next(I, it)); value_unref(x))
            r = value_is(x, a[1]) ? 1 : value_equal(I, x, a[1]);
        value_unref(it);
        r = exc_pending(I) ? -1 : r;
    } else {
        r = view_has(I, w, a[1]);
    }
    return r < 0 ? VERR : vbool(r);
}

static Value as_set(Interp *I, Value iterable)
{
    Value s = set_new();

    if (set_update(I, as_dict(s), iterable))
        return s;
    value_unref(s);
    return VERR;
}

static Value view_binary(Interp *I, int op, Value a, Value b)
{
    Value x = as_set(I, a), y = is_err(x) ? VERR : as_set(I, b);
    Value r = is_err(y) ? VERR : set_binary(I, op, x, y);

    value_unref(x);
    value_unref(y);
    return r;
}

/* The elements of the other that are in the view: what the dict holds need not be hashable. */
static Value v_and(Interp *I, Value *a)
{
    Value s = set_new(), it = value_iter(I, a[1]), x;
    bool ok = !is_err(it);

    while (ok && !is_err(x = value_next(I, it))) {
        int has = view_has(I, self_view(a[0]), x);
        ok = has >= 0 && (!has || set_add(I, as_dict(s), x));
        value_unref(x);
    }
    value_unref(it);
    if (ok && !exc_pending(I))
        return s;
    value_unref(s);
    return VERR;
}

static Value v_ror(Interp *I, Value *a) { return view_binary(I, AOP_BITOR, a[1], a[0]); }
static Value v_or(Interp *I, Value *a) { return view_binary(I, AOP_BITOR, a[0], a[1]); }
static Value v_rxor(Interp *I, Value *a) { return view_binary(I, AOP_BITXOR, a[1], a[0]); }
static Value v_xor(Interp *I, Value *a) { return view_binary(I, AOP_BITXOR, a[0], a[1]); }
static Value v_rsub(Interp *I, Value *a) { return view_binary(I, AOP_SUB, a[1], a[0]); }
static Value v_sub(Interp *I, Value *a) { return view_binary(I, AOP_SUB, a[0], a[1]); }

static bool is_setlike(Value v)
{
    return v.tag == V_SET || (v.tag == V_NATIVEOBJ && ((NativeInst *)v.o)->type->next == NULL &&
                              (((NativeInst *)v.o)->type == &view_types[KEYS] || ((NativeInst *)v.o)->type == &view_types[ITEMS]));
}

static Value view_compare(Interp *I, int op, Value *a)
{
    Value x, y;
    int r;

    if (!is_setlike(a[1]))
        return VNOTIMPL;
    x = as_set(I, a[0]);
    y = is_err(x) ? VERR : as_set(I, a[1]);
    r = is_err(y) ? -1 : set_compare(I, op, x, y);
    value_unref(x);
    value_unref(y);
    return r < 0 ? VERR : vbool(r);
}

static Value v_eq(Interp *I, Value *a) { return view_compare(I, AOP_EQ, a); }
static Value v_ne(Interp *I, Value *a) { return view_compare(I, AOP_NE, a); }
static Value v_le(Interp *I, Value *a) { return view_compare(I, AOP_LE, a); }
static Value v_lt(Interp *I, Value *a) { return view_compare(I, AOP_LT, a); }
static Value v_ge(Interp *I, Value *a) { return view_compare(I, AOP_GE, a); }
static Value v_gt(Interp *I, Value *a) { return view_compare(I, AOP_GT, a); }

static Value v_isdisjoint(Interp *I, Value *a)
{
    Value both = v_and(I, a);
    bool none = !is_err(both) && !as_dict(both)->n;

    if (is_err(both))
        return VERR;
    value_unref(both);
    return vbool(none);
}

const NativeDef natives_dict[] = {
    {"", "dict", NULL, "type[dict]", "A mapping that keeps the order of insertion."},
    {"dict", "__new__", dict_make, "(cls, iterable=..., /, **kwargs) -> dict", "A new dict from a mapping or pairs, and from keywords."},
    {"dict", "fromkeys", m_fromkeys, "(cls, iterable: Iterable, value=None, /) -> dict", "A dict of the keys, each with the value."},
    {"dict", "get", m_get, "(self, key, default=None, /)", "The value of key, or default."},
    {"dict", "setdefault", m_setdefault, "(self, key, default=None, /)", "The value of key, stored as default when it is absent."},
    {"dict", "pop", m_pop, "(self, key, default=..., /)", "Take out key and give its value; without it default, or KeyError."},
    {"dict", "popitem", m_popitem, "(self, /) -> tuple", "Take out the newest pair; KeyError when empty."},
    {"dict", "update", m_update, "(self, other=..., /, **kwargs) -> None", "Store the pairs of a mapping or an iterable of pairs, and the keywords."},
    {"dict", "clear", m_clear, "(self, /) -> None", "Take out all."},
    {"dict", "copy", m_copy, "(self, /) -> dict", "A new dict of the same pairs."},
    {"dict", "keys", m_keys, "(self, /) -> Iterable", "A live view of the keys."},
    {"dict", "values", m_values, "(self, /) -> Iterable", "A live view of the values."},
    {"dict", "items", m_items, "(self, /) -> Iterable", "A live view of the (key, value) pairs."},
    {"dict", "__reversed__", m_reversed, "(self, /) -> Iterator", "The keys from newest to oldest."},
    {"dict_keys", "__len__", v_len, "(self) -> int", "Number of entries."},
    {"dict_keys", "__iter__", v_iter, "(self) -> Iterator", "Iterate in order."},
    {"dict_keys", "__reversed__", v_reversed, "(self) -> Iterator", "Iterate in reverse."},
    {"dict_keys", "__contains__", v_contains, "(self, key) -> bool", "Is it there?"},
    {"dict_keys", "__and__", v_and, "(self, other: Iterable) -> set", "Common keys."},
    {"dict_keys", "__rand__", v_and, "(self, other: Iterable) -> set", "Common keys."},
    {"dict_keys", "__or__", v_or, "(self, other: Iterable) -> set", "All keys."},
    {"dict_keys", "__ror__", v_ror, "(self, other: Iterable) -> set", "All keys."},
    {"dict_keys", "__xor__", v_xor, "(self, other: Iterable) -> set", "Keys of one alone."},
    {"dict_keys", "__rxor__", v_rxor, "(self, other: Iterable) -> set", "Keys of one alone."},
    {"dict_keys", "__sub__", v_sub, "(self, other: Iterable) -> set", "Keys not in other."},
    {"dict_keys", "__rsub__", v_rsub, "(self, other: Iterable) -> set", "Keys not in other."},
    {"dict_keys", "__eq__", v_eq, "(self, other) -> bool", "Equal as sets?"},
    {"dict_keys", "__ne__", v_ne, "(self, other) -> bool", "Different as sets?"},
    {"dict_keys", "__le__", v_le, "(self, other) -> bool", "Subset?"},
    {"dict_keys", "__lt__", v_lt, "(self, other) -> bool", "Proper subset?"},
    {"dict_keys", "__ge__", v_ge, "(self, other) -> bool", "Superset?"},
    {"dict_keys", "__gt__", v_gt, "(self, other) -> bool", "Proper superset?"},
    {"dict_keys", "isdisjoint", v_isdisjoint, "(self, other: Iterable, /) -> bool", "Nothing in common?"},
    {"dict_values", "__len__", v_len, "(self) -> int", "Number of entries."},
    {"dict_values", "__iter__", v_iter, "(self) -> Iterator", "Iterate in order."},
    {"dict_values", "__reversed__", v_reversed, "(self) -> Iterator", "Iterate in reverse."},
    {"dict_values", "__contains__", v_contains, "(self, value) -> bool", "Is it there?"},
    {"dict_items", "__len__", v_len, "(self) -> int", "Number of entries."},
    {"dict_items", "__iter__", v_iter, "(self) -> Iterator", "Iterate in order."},
    {"dict_items", "__reversed__", v_reversed, "(self) -> Iterator", "Iterate in reverse."},
    {"dict_items", "__contains__", v_contains, "(self, pair) -> bool", "Is it there?"},
    {"dict_items", "__and__", v_and, "(self, other: Iterable) -> set", "Common pairs."},
    {"dict_items", "__rand__", v_and, "(self, other: Iterable) -> set", "Common pairs."},
    {"dict_items", "__or__", v_or, "(self, other: Iterable) -> set", "All pairs."},
    {"dict_items", "__ror__", v_ror, "(self, other: Iterable) -> set", "All pairs."},
    {"dict_items", "__xor__", v_xor, "(self, other: Iterable) -> set", "Pairs of one alone."},
    {"dict_items", "__rxor__", v_rxor, "(self, other: Iterable) -> set", "Pairs of one alone."},
    {"dict_items", "__sub__", v_sub, "(self, other: Iterable) -> set", "Pairs not in other."},
    {"dict_items", "__rsub__", v_rsub, "(self, other: Iterable) -> set", "Pairs not in other."},
    {"dict_items", "__eq__", v_eq, "(self, other) -> bool", "Equal as sets?"},
    {"dict_items", "__ne__", v_ne, "(self, other) -> bool", "Different as sets?"},
    {"dict_items", "__le__", v_le, "(self, other) -> bool", "Subset?"},
    {"dict_items", "__lt__", v_lt, "(self, other) -> bool", "Proper subset?"},
    {"dict_items", "__ge__", v_ge, "(self, other) -> bool", "Superset?"},
    {"dict_items", "__gt__", v_gt, "(self, other) -> bool", "Proper superset?"},
    {"dict_items", "isdisjoint", v_isdisjoint, "(self, other: Iterable, /) -> bool", "Nothing in common?"},
    {0},
};
