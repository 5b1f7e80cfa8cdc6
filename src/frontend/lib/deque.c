/* deque: a ring buffer that grows at both ends, with an optional longest length. */
#include "frontend/lib/lib.h"

#include "frontend/syntax/ast.h"

typedef struct Deque {
    NativeInst head;
    Value *at;
    int64_t first, n, cap, max; /* element i is at[(first + i) % cap]; max -1: no limit */
    uint32_t version;           /* changes with every structural change */
} Deque;

static Value *slot(const Deque *d, int64_t i)
{
    int64_t k = d->first + i;
    return &d->at[k >= d->cap ? k - d->cap : k];
}

static void deque_free(void *p)
{
    Deque *d = p;

    while (d->n)
        value_unref(*slot(d, --d->n));
    tsr_free(d->at);
    d->at = NULL;
}

static void deque_visit(void *p, void (*fn)(Value *, void *), void *st)
{
    Deque *d = p;

    for (int64_t i = 0; i < d->n; i++)
        fn(slot(d, i), st);
}

static void deque_repr(Interp *I, void *p, StrBuf *b)
{
    Deque *d = p;

    sb_puts(b, "deque([");
    for (int64_t i = 0; i < d->n && !exc_pending(I); i++) {
        Value x = value_ref(*slot(d, i));
        if (i)
            sb_puts(b, ", ");
        value_repr_to(I, x, b);
        value_unref(x);
    }
    sb_putc(b, ']');
    if (d->max >= 0)
        sb_printf(b, ", maxlen=%lld", (long long)d->max);
    sb_putc(b, ')');
}

static int64_t deque_len(void *p) { return ((Deque *)p)->n; }

static Value *deque_item(void *p, int64_t i) { return slot(p, i); }
static void deque_resize(void *p, int64_t n);

static const NativeType deque_type = {"deque", deque_free, deque_visit, .repr = deque_repr, .len = deque_len, .count = deque_len,
                                      .item = deque_item, .resize = deque_resize};

static Deque *self_deque(Interp *I, Value v)
{
    v = unwrap_base(v);
    if (v.tag == V_NATIVEOBJ && ((NativeInst *)v.o)->type == &deque_type)
        return (Deque *)v.o;
    raise(I, EXC_TypeError, "this method of 'deque' doesn't apply to a '%s' object", value_type_name(v));
    return NULL;
}

/* ------------------------------------------------------------- growing and shrinking */

static void grow(Deque *d)
{
    int64_t cap = d->cap ? d->cap * 2 : 8;
    Value *at = tsr_alloc((size_t)cap * sizeof *at);

    for (int64_t i = 0; i < d->n; i++)
        at[i] = *slot(d, i);
    tsr_free(d->at);
    d->at = at;
    d->first = 0;
    d->cap = cap;
}

static Value take_last(Deque *d)
{
    d->version++;
    return *slot(d, --d->n);
}

static Value take_first(Deque *d)
{
    Value v = *slot(d, 0);

    d->first = d->first + 1 == d->cap ? 0 : d->first + 1;
    d->n--;
    d->version++;
    return v;
}

/* Steals v; what falls out at the other end is dropped. */
static void push_last(Deque *d, Value v)
{
    if (d->max == 0) {
        value_unref(v);
        return;
    }
    Value out = d->max > 0 && d->n == d->max ? take_first(d) : VNONE;
    if (d->n == d->cap)
        grow(d);
    *slot(d, d->n++) = v;
    d->version++;
    value_unref(out);
}

static void deque_resize(void *p, int64_t n)
{
    Deque *d = p;

    while (d->n > n)
        value_unref(take_last(d));
    while (d->n < n)
        push_last(d, VNONE);
}

static void push_first(Deque *d, Value v)
{
    if (d->max == 0) {
        value_unref(v);
        return;
    }
    Value out = d->max > 0 && d->n == d->max ? take_last(d) : VNONE;
    if (d->n == d->cap)
        grow(d);
    d->first = d->first ? d->first - 1 : d->cap - 1;
    d->n++;
    *slot(d, 0) = v;
    d->version++;
    value_unref(out);
}

static bool extend(Interp *I, Deque *d, Value iterable, void (*push)(Deque *, Value))
{
    Value l = value_to_list(I, iterable);       /* a copy: d.extend(d) ends */

    if (is_err(l))
        return false;
    for (int64_t i = 0; i < as_list(l)->n; i++)
        push(d, value_ref(as_list(l)->at[i]));
    value_unref(l);
    return true;
}

static Deque *deque_new(int64_t max)
{
    Deque *d = nativeobj_new(&deque_type, sizeof *d);

    d->max = max;
    return d;
}

/* a = cls, iterable, maxlen */
static Value deque_make(Interp *I, Value *a)
{
    int64_t max = -1;
    Deque *d;

    if (is_given(a[2])) {
        if (!value_as_int(I, a[2], &max))
            return VERR;
        if (max < 0)
            return raise(I, EXC_ValueError, "maxlen must be non-negative");
    }
    d = deque_new(max);
    if (is_err(a[1]) || extend(I, d, a[1], push_last))
        return vobj(d);
    value_unref(vobj(d));
    return VERR;
}

static Value m_append(Interp *I, Value *a)
{
    Deque *d = self_deque(I, a[0]);

    if (!d)
        return VERR;
    push_last(d, value_ref(a[1]));
    return VNONE;
}

static Value m_appendleft(Interp *I, Value *a)
{
    Deque *d = self_deque(I, a[0]);

    if (!d)
        return VERR;
    push_first(d, value_ref(a[1]));
    return VNONE;
}

static Value m_extend(Interp *I, Value *a)
{
    Deque *d = self_deque(I, a[0]);
    return d && extend(I, d, a[1], push_last) ? VNONE : VERR;
}

static Value m_extendleft(Interp *I, Value *a)
{
    Deque *d = self_deque(I, a[0]);
    return d && extend(I, d, a[1], push_first) ? VNONE : VERR;
}

static Value m_pop(Interp *I, Value *a)
{
    Deque *d = self_deque(I, a[0]);
    return !d ? VERR : d->n ? take_last(d) : raise(I, EXC_IndexError, "pop from an empty deque");
}

static Value m_popleft(Interp *I, Value *a)
{
    Deque *d = self_deque(I, a[0]);
    return !d ? VERR : d->n ? take_first(d) : raise(I, EXC_IndexError, "pop from an empty deque");
}

static Value m_clear(Interp *I, Value *a)
{
    Deque *d = self_deque(I, a[0]);

    if (!d)
        return VERR;
    while (d->n)
        value_unref(take_last(d));
    return VNONE;
}

static void rotate(Deque *d, int64_t by)
{
    by = d->n ? by % d->n : 0;
    for (; by > 0; by--) {
        Value v = take_last(d);
        if (d->n == d->cap)
            grow(d);
        d->first = d->first ? d->first - 1 : d->cap - 1;
        d->n++;
        *slot(d, 0) = v;
    }
    for (; by < 0; by++) {
        Value v = take_first(d);
        *slot(d, d->n++) = v;
    }
}

static Value m_rotate(Interp *I, Value *a)
{
    Deque *d = self_deque(I, a[0]);
    int64_t by;

    if (!d || !value_as_int(I, a[1], &by))
        return VERR;
    rotate(d, by);
    return VNONE;
}

static Value m_reverse(Interp *I, Value *a)
{
    Deque *d = self_deque(I, a[0]);

    for (int64_t i = 0, j = d ? d->n - 1 : -1; i < j; i++, j--) {
        Value t = *slot(d, i);
        *slot(d, i) = *slot(d, j);
        *slot(d, j) = t;
    }
    return d ? VNONE : VERR;
}

/* ------------------------------------------------------------- looking */

/* Index of the first element equal to x from lo, -1 absent, -2 pending. */
static int64_t find(Interp *I, Deque *d, Value x, int64_t lo)
{
    for (int64_t i = lo; i < d->n; i++) {
        uint32_t version = d->version;
        Value y = value_ref(*slot(d, i));
        int same = value_is(x, y) ? 1 : value_equal(I, y, x);
        value_unref(y);
        if (same < 0)
            return -2;
        if (version != d->version) {
            raise(I, EXC_RuntimeError, "deque mutated during iteration");
            return -2;
        }
        if (same)
            return i;
    }
    return -1;
}

static Value m_contains(Interp *I, Value *a)
{
    Deque *d = self_deque(I, a[0]);
    int64_t i = d ? find(I, d, a[1], 0) : -2;

    return i == -2 ? VERR : vbool(i >= 0);
}

static Value raise_absent(Interp *I, Value x)
{
    Value r = value_repr(I, x);

    if (!is_err(r))
        raise(I, EXC_ValueError, "%s is not in deque", as_str(r)->s);
    value_unref(r);
    return VERR;
}

static Value m_index(Interp *I, Value *a)
{
    Deque *d = self_deque(I, a[0]);
    int64_t lo, hi = INT64_MAX, i;

    if (!d || !value_as_int(I, a[2], &lo) || (!is_err(a[3]) && !value_as_int(I, a[3], &hi)))
        return VERR;
    lo = lo < 0 ? (lo + d->n < 0 ? 0 : lo + d->n) : lo;
    hi = hi < 0 ? hi + d->n : hi;
    i = find(I, d, a[1], lo);
    if (i >= hi)
        i = -1;
    return i == -1 ? raise_absent(I, a[1]) : i < 0 ? VERR : vint(i);
}

static Value m_count(Interp *I, Value *a)
{
    Deque *d = self_deque(I, a[0]);
    int64_t n = 0, i = -1;

    if (!d)
        return VERR;
    while ((i = find(I, d, a[1], i + 1)) >= 0)
        n++;
    return i == -2 ? VERR : vint(n);
}

static Value m_remove(Interp *I, Value *a)
{
    Deque *d = self_deque(I, a[0]);
    int64_t i = d ? find(I, d, a[1], 0) : -2;

    if (i == -1)
        return raise_absent(I, a[1]);
    if (i < 0)
        return VERR;
    rotate(d, -i);
    Value v = take_first(d);
    rotate(d, i);
    value_unref(v);
    return VNONE;
}

static Value m_insert(Interp *I, Value *a)
{
    Deque *d = self_deque(I, a[0]);
    int64_t i;

    if (!d || !value_as_int(I, a[1], &i))
        return VERR;
    if (d->max >= 0 && d->n >= d->max)
        return raise(I, EXC_IndexError, "deque already at its maximum size");
    i = i < -d->n ? 0 : i < 0 ? i + d->n : i > d->n ? d->n : i;
    rotate(d, -i);
    push_first(d, value_ref(a[2]));
    rotate(d, i);
    return VNONE;
}

static Value m_copy(Interp *I, Value *a)
{
    Deque *d = self_deque(I, a[0]), *c;

    if (!d)
        return VERR;
    c = deque_new(d->max);
    for (int64_t i = 0; i < d->n; i++)
        push_last(c, value_ref(*slot(d, i)));
    return vobj(c);
}

static Value m_len(Interp *I, Value *a)
{
    Deque *d = self_deque(I, a[0]);
    return d ? vint(d->n) : VERR;
}

static bool resolve(Interp *I, Deque *d, Value index, int64_t *i)
{
    if (!value_as_int(I, index, i))
        return false;
    if (*i < 0)
        *i += d->n;
    if (*i >= 0 && *i < d->n)
        return true;
    raise(I, EXC_IndexError, "deque index out of range");
    return false;
}

static Value m_getitem(Interp *I, Value *a)
{
    Deque *d = self_deque(I, a[0]);
    int64_t i;

    return d && resolve(I, d, a[1], &i) ? value_ref(*slot(d, i)) : VERR;
}

static Value m_setitem(Interp *I, Value *a)
{
    Deque *d = self_deque(I, a[0]);
    Value old;
    int64_t i;

    if (!d || !resolve(I, d, a[1], &i))
        return VERR;
    old = *slot(d, i);
    *slot(d, i) = value_ref(a[2]);
    value_unref(old);
    return VNONE;
}

static Value m_delitem(Interp *I, Value *a)
{
    Deque *d = self_deque(I, a[0]);
    int64_t i;

    if (!d || !resolve(I, d, a[1], &i))
        return VERR;
    rotate(d, -i);
    Value v = take_first(d);
    rotate(d, i);
    value_unref(v);
    return VNONE;
}

static Value p_maxlen(Interp *I, Value *a)
{
    Deque *d = self_deque(I, a[0]);
    return !d ? VERR : d->max < 0 ? VNONE : vint(d->max);
}

/* ------------------------------------------------------------- iterating, comparing, joining */

typedef struct DequeIter { NativeInst head; Value deque; int64_t i; uint32_t version; bool reverse; } DequeIter;

static void iter_free(void *p) { value_unref(((DequeIter *)p)->deque); }
static void iter_visit(void *p, void (*fn)(Value *, void *), void *st) { fn(&((DequeIter *)p)->deque, st); }

static Value iter_next(Interp *I, void *p)
{
    DequeIter *it = p;
    Deque *d = (Deque *)it->deque.o;

    if (it->i >= d->n)
        return VERR;
    if (it->version != d->version)
        return raise(I, EXC_RuntimeError, "deque mutated during iteration");
    int64_t i = it->i++;
    return value_ref(*slot(d, it->reverse ? d->n - 1 - i : i));
}

static const NativeType iter_type = {"deque_iterator", iter_free, iter_visit, iter_next};

static Value iterate(Interp *I, Value self, bool reverse)
{
    Deque *d = self_deque(I, self);
    DequeIter *it;

    if (!d)
        return VERR;
    it = nativeobj_new(&iter_type, sizeof *it);
    it->deque = value_ref(vobj(d));
    it->version = d->version;
    it->reverse = reverse;
    return vobj(it);
}

static Value m_iter(Interp *I, Value *a) { return iterate(I, a[0], false); }
static Value m_reversed(Interp *I, Value *a) { return iterate(I, a[0], true); }

static Value compare(Interp *I, Value *a, int op)
{
    Value other = unwrap_base(a[1]), x, y;
    int r;

    if (other.tag != V_NATIVEOBJ || ((NativeInst *)other.o)->type != &deque_type)
        return VNOTIMPL;
    x = value_to_list(I, unwrap_base(a[0]));
    y = value_to_list(I, other);
    r = is_err(x) || is_err(y) ? -1 : seq_compare(I, op, x, y);
    value_unref(x);
    value_unref(y);
    return r < 0 ? VERR : vbool(r);
}

static Value m_eq(Interp *I, Value *a) { return compare(I, a, AOP_EQ); }
static Value m_ne(Interp *I, Value *a) { return compare(I, a, AOP_NE); }
static Value m_lt(Interp *I, Value *a) { return compare(I, a, AOP_LT); }
static Value m_le(Interp *I, Value *a) { return compare(I, a, AOP_LE); }
static Value m_gt(Interp *I, Value *a) { return compare(I, a, AOP_GT); }
static Value m_ge(Interp *I, Value *a) { return compare(I, a, AOP_GE); }

static Value m_add(Interp *I, Value *a)
{
    Value other = unwrap_base(a[1]), c;

    if (other.tag != V_NATIVEOBJ || ((NativeInst *)other.o)->type != &deque_type)
        return raise(I, EXC_TypeError, "can only concatenate deque (not \"%s\") to deque", value_type_name(a[1]));
    c = m_copy(I, a);
    if (!is_err(c) && extend(I, (Deque *)c.o, other, push_last))
        return c;
    value_unref(c);
    return VERR;
}

static Value m_iadd(Interp *I, Value *a)
{
    return is_err(m_extend(I, a)) ? VERR : value_ref(a[0]);
}

static Value m_mul(Interp *I, Value *a)
{
    Deque *d = self_deque(I, a[0]), *c;
    int64_t times;

    if (!d || !value_as_int(I, a[1], &times))
        return VERR;
    c = deque_new(d->max);
    for (int64_t k = 0; k < times; k++)
        for (int64_t i = 0; i < d->n; i++)
            push_last(c, value_ref(*slot(d, i)));
    return vobj(c);
}

/* counts[x] += 1 for each x, in a dict or what derives from one: Counter's inner loop. */
typedef struct { Interp *I; DictObj *counts; } Tally;

static bool tally_one(void *taker, Value x)
{
    Tally *t = taker;
    uint32_t hash;
    DictEntry *e;
    bool ok = value_hash(t->I, x, &hash) && dict_find_hash(t->I, t->counts, x, hash, &e);

    if (ok && e && e->val.tag == V_INT && e->val.i < INT64_MAX) {
        e->val.i++;
    } else if (ok && e) {
        Value n = value_binary(t->I, AOP_ADD, e->val, vint(1));
        ok = !is_err(n) && dict_set_hash(t->I, t->counts, x, hash, n);
        value_unref(n);
    } else if (ok) {
        dict_add_new(t->counts, x, hash, vint(1));
    }
    value_unref(x);
    return ok;
}

static Value count_elements(Interp *I, Value *a)
{
    DictObj *d = self_dict(I, unwrap_base(a[0]));

    return d && value_each(I, a[1], tally_one, &(Tally){I, d}) ? VNONE : VERR;
}

const NativeDef natives_deque[] = {
    {"_collections", "count_elements", count_elements, "(counts: dict, iterable: Iterable, /) -> None", "Add 1 to the count of each element."},
    {"", "deque", NULL, "type[deque]", "A queue with two fast ends."},
    {"_collections", "deque", NULL, "type[deque]", "A queue with two fast ends."},
    {"deque", "__new__", deque_make, "(cls, iterable: Iterable = ..., maxlen: int | None = None) -> deque", "A queue of the elements; with maxlen, adding at one end drops at the other."},
    {"deque", "append", m_append, "(self, x, /) -> None", "Add at the right end."},
    {"deque", "appendleft", m_appendleft, "(self, x, /) -> None", "Add at the left end."},
    {"deque", "extend", m_extend, "(self, iterable: Iterable, /) -> None", "Add all at the right end."},
    {"deque", "extendleft", m_extendleft, "(self, iterable: Iterable, /) -> None", "Add one after the other at the left end."},
    {"deque", "pop", m_pop, "(self, /)", "Take out the last; IndexError when empty."},
    {"deque", "popleft", m_popleft, "(self, /)", "Take out the first; IndexError when empty."},
    {"deque", "clear", m_clear, "(self, /) -> None", "Take out all."},
    {"deque", "rotate", m_rotate, "(self, n: int = 1, /) -> None", "Move the last n to the front; a negative n the other way."},
    {"deque", "reverse", m_reverse, "(self, /) -> None", "Reverse the order in place."},
    {"deque", "index", m_index, "(self, value, start: int = 0, stop: int = ..., /) -> int", "Index of the first element equal to value; ValueError when there is none."},
    {"deque", "count", m_count, "(self, value, /) -> int", "How many elements equal value."},
    {"deque", "remove", m_remove, "(self, value, /) -> None", "Take out the first element equal to value; ValueError when there is none."},
    {"deque", "insert", m_insert, "(self, index: int, value, /) -> None", "Add before the index."},
    {"deque", "copy", m_copy, "(self, /) -> deque", "A new queue of the same elements."},
    {"deque", "maxlen", p_maxlen, "property[int | None]", "The longest length, or None."},
    {"deque", "__len__", m_len, "(self) -> int", "Number of elements."},
    {"deque", "__getitem__", m_getitem, "(self, index: int)", "The element at an index."},
    {"deque", "__setitem__", m_setitem, "(self, index: int, value) -> None", "Replace the element at an index."},
    {"deque", "__delitem__", m_delitem, "(self, index: int) -> None", "Take out the element at an index."},
    {"deque", "__contains__", m_contains, "(self, value) -> bool", "Is it there?"},
    {"deque", "__iter__", m_iter, "(self) -> Iterator", "From left to right."},
    {"deque", "__reversed__", m_reversed, "(self) -> Iterator", "From right to left."},
    {"deque", "__eq__", m_eq, "(self, other) -> bool", "Equal elements in the same order?"},
    {"deque", "__ne__", m_ne, "(self, other) -> bool", "Not equal?"},
    {"deque", "__lt__", m_lt, "(self, other) -> bool", "Before other in lexicographic order?"},
    {"deque", "__le__", m_le, "(self, other) -> bool", "Not after other?"},
    {"deque", "__gt__", m_gt, "(self, other) -> bool", "After other?"},
    {"deque", "__ge__", m_ge, "(self, other) -> bool", "Not before other?"},
    {"deque", "__add__", m_add, "(self, other: deque) -> deque", "Both, one after the other."},
    {"deque", "__iadd__", m_iadd, "(self, iterable: Iterable) -> deque", "Add all at the right end."},
    {"deque", "__mul__", m_mul, "(self, times: int) -> deque", "The elements times over."},
    {"deque", "__rmul__", m_mul, "(self, times: int) -> deque", "The elements times over."},
    {0},
};
