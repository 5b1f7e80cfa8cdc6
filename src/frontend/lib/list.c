/* The methods of list, tuple and range. */
#include "frontend/lib/lib.h"
#include "frontend/syntax/ast.h"

#include <string.h>

static ListObj *self_list(Interp *I, Value v)
{
    v = unwrap_base(v);
    if (v.tag == V_LIST)
        return as_list(v);
    raise(I, EXC_TypeError, "this method of 'list' doesn't apply to a '%s' object", value_type_name(v));
    return NULL;
}

static TupleObj *self_tuple(Interp *I, Value v)
{
    v = unwrap_base(v);
    if (v.tag == V_TUPLE)
        return as_tuple(v);
    raise(I, EXC_TypeError, "this method of 'tuple' doesn't apply to a '%s' object", value_type_name(v));
    return NULL;
}

/* ------------------------------------------------------------- constructors */

static Value list_make(Interp *I, Value *a)
{
    return is_err(a[1]) ? list_new(0) : value_to_list(I, a[1]);
}

static Value tuple_from_list(Value l)
{
    Value t = tuple_new(as_list(l)->n);

    for (int64_t i = 0; i < as_list(l)->n; i++)
        as_tuple(t)->at[i] = value_ref(as_list(l)->at[i]);
    value_unref(l);
    return t;
}

static Value tuple_make(Interp *I, Value *a)
{
    Value l;

    if (is_err(a[1]))
        return tuple_new(0);
    if (a[1].tag == V_TUPLE)
        return value_ref(a[1]);
    l = value_to_list(I, a[1]);
    return is_err(l) ? VERR : tuple_from_list(l);
}

Value tuple_from(Interp *I, Value iterable)
{
    Value a[2] = {VNONE, iterable};
    return tuple_make(I, a);
}

/* ------------------------------------------------------------- growing and shrinking */

static Value m_append(Interp *I, Value *a)
{
    ListObj *l = self_list(I, a[0]);

    if (!l)
        return VERR;
    list_push(l, value_ref(a[1]));
    return VNONE;
}

static Value m_extend(Interp *I, Value *a)
{
    ListObj *l = self_list(I, a[0]);
    Value items;

    if (!l || is_err(items = value_to_list(I, a[1])))
        return VERR;
    for (int64_t i = 0; i < as_list(items)->n; i++)
        list_push(l, value_ref(as_list(items)->at[i]));
    value_unref(items);
    return VNONE;
}

static Value m_insert(Interp *I, Value *a)
{
    ListObj *l = self_list(I, a[0]);
    int64_t i;

    if (!l || !value_as_int(I, a[1], &i))
        return VERR;
    if (i < 0)
        i = i < -l->n ? 0 : i + l->n;
    if (i > l->n)
        i = l->n;
    list_push(l, VNONE);
    memmove(l->at + i + 1, l->at + i, (size_t)(l->n - 1 - i) * sizeof *l->at);
    l->at[i] = value_ref(a[2]);
    return VNONE;
}

/* Take element i out; the caller owns it. */
static Value take_out(ListObj *l, int64_t i)
{
    Value v = l->at[i];

    memmove(l->at + i, l->at + i + 1, (size_t)(l->n - 1 - i) * sizeof *l->at);
    l->n--;
    return v;
}

static Value m_pop(Interp *I, Value *a)
{
    ListObj *l = self_list(I, a[0]);
    int64_t i;

    if (!l || !value_as_int(I, a[1], &i))
        return VERR;
    if (!l->n)
        return raise(I, EXC_IndexError, "pop from empty list");
    if (i < 0)
        i += l->n;
    if (i < 0 || i >= l->n)
        return raise(I, EXC_IndexError, "pop index out of range");
    return take_out(l, i);
}

/* Index of the first element equal to x in [lo, hi), -1 absent, -2 pending. */
static int64_t find_in(Interp *I, Value seq, Value x, int64_t lo, int64_t hi)
{
    for (int64_t i = lo; i < hi; i++) {
        bool list = seq.tag == V_LIST;
        if (i >= (list ? as_list(seq)->n : as_tuple(seq)->n))
            break;
        Value y = value_ref(list ? as_list(seq)->at[i] : as_tuple(seq)->at[i]);
        int same = value_is(x, y) ? 1 : value_equal(I, y, x);
        value_unref(y);
        if (same)
            return same < 0 ? -2 : i;
    }
    return -1;
}

static Value m_remove(Interp *I, Value *a)
{
    ListObj *l = self_list(I, a[0]);
    int64_t i = l ? find_in(I, vobj(l), a[1], 0, l->n) : -2;

    if (i == -1)
        return raise(I, EXC_ValueError, "list.remove(x): x not in list");
    if (i >= 0)
        value_unref(take_out(l, i));
    return i < 0 ? VERR : VNONE;
}

static Value m_clear(Interp *I, Value *a)
{
    ListObj *l = self_list(I, a[0]);
    ListObj old;

    if (!l)
        return VERR;
    old = *l;
    l->at = NULL;
    l->n = l->cap = 0;
    for (int64_t i = 0; i < old.n; i++)
        value_unref(old.at[i]);
    tsr_free(old.at);
    return VNONE;
}

/* ------------------------------------------------------------- looking */

static bool index_bounds(Interp *I, Value *a, int64_t n, int64_t *lo, int64_t *hi)
{
    *lo = 0;
    *hi = n;
    if (is_given(a[2]) && !value_as_int(I, a[2], lo))
        return false;
    if (is_given(a[3]) && !value_as_int(I, a[3], hi))
        return false;
    *lo = *lo < -n ? 0 : *lo < 0 ? *lo + n : *lo;
    *hi = *hi < 0 ? *hi + n : *hi > n ? n : *hi;
    return true;
}

static Value m_index(Interp *I, Value *a)
{
    ListObj *l = self_list(I, a[0]);
    int64_t lo, hi, i;

    if (!l || !index_bounds(I, a, l->n, &lo, &hi))
        return VERR;
    i = find_in(I, vobj(l), a[1], lo, hi);
    if (i == -1) {
        Value r = value_repr(I, a[1]);
        if (!is_err(r))
            raise(I, EXC_ValueError, "%s is not in list", as_str(r)->s);
        value_unref(r);
    }
    return i < 0 ? VERR : vint(i);
}

static Value count_in(Interp *I, Value seq, Value x, int64_t n)
{
    int64_t count = 0, i = -1;

    while ((i = find_in(I, seq, x, i + 1, n)) >= 0)
        count++;
    return i == -2 ? VERR : vint(count);
}

static Value m_count(Interp *I, Value *a)
{
    ListObj *l = self_list(I, a[0]);
    return l ? count_in(I, vobj(l), a[1], l->n) : VERR;
}

static Value m_copy(Interp *I, Value *a)
{
    ListObj *l = self_list(I, a[0]);
    return l ? value_to_list(I, vobj(l)) : VERR;
}

static Value m_reverse(Interp *I, Value *a)
{
    ListObj *l = self_list(I, a[0]);

    if (!l)
        return VERR;
    for (int64_t i = 0, j = l->n - 1; i < j; i++, j--) {
        Value t = l->at[i];
        l->at[i] = l->at[j];
        l->at[j] = t;
    }
    return VNONE;
}

static Value m_sort(Interp *I, Value *a)
{
    ListObj *l = self_list(I, a[0]);
    int reverse = l ? value_truth(I, a[2]) : -1;

    return reverse >= 0 && list_sort(I, l, a[1], reverse) ? VNONE : VERR;
}

/* ------------------------------------------------------------- tuple */

static Value t_index(Interp *I, Value *a)
{
    TupleObj *t = self_tuple(I, a[0]);
    int64_t lo, hi, i;

    if (!t || !index_bounds(I, a, t->n, &lo, &hi))
        return VERR;
    i = find_in(I, vobj(t), a[1], lo, hi);
    if (i == -1)
        return raise(I, EXC_ValueError, "tuple.index(x): x not in tuple");
    return i < 0 ? VERR : vint(i);
}

static Value t_count(Interp *I, Value *a)
{
    TupleObj *t = self_tuple(I, a[0]);
    return t ? count_in(I, vobj(t), a[1], t->n) : VERR;
}

/* ------------------------------------------------------------- range, slice */

static Value range_of(Interp *I, int64_t start, int64_t stop, int64_t step)
{
    uint64_t span, n = 0;

    if (!step)
        return raise(I, EXC_ValueError, "range() arg 3 must not be zero");
    if (step > 0 ? start < stop : start > stop) {
        span = step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
        n = (span - 1) / (step > 0 ? (uint64_t)step : 0 - (uint64_t)step) + 1;
    }
    if (n > INT64_MAX)
        return raise(I, EXC_OverflowError, "range has more elements than an int can count");
    return range_new(start, stop, step, (int64_t)n);
}

static Value range_make(Interp *I, Value *a)
{
    int64_t start = 0, stop, step = 1;

    if (is_err(a[2]) ? !value_as_int(I, a[1], &stop) : !value_as_int(I, a[1], &start) || !value_as_int(I, a[2], &stop))
        return VERR;
    if (!is_err(a[3]) && !value_as_int(I, a[3], &step))
        return VERR;
    return range_of(I, start, stop, step);
}

static Value r_start(Interp *I, Value *a) { return vint(((RangeObj *)a[0].o)->start); }
static Value r_stop(Interp *I, Value *a) { return vint(((RangeObj *)a[0].o)->stop); }
static Value r_step(Interp *I, Value *a) { return vint(((RangeObj *)a[0].o)->step); }

static int64_t range_find(const RangeObj *r, Value x)
{
    int64_t v, i;

    if (x.tag == V_FLOAT && x.f == (double)(int64_t)x.f)
        x = vint((int64_t)x.f);
    if (x.tag != V_INT && x.tag != V_BOOL)
        return -1;
    v = x.i;
    if (r->n == 0 || (r->step > 0 ? v < r->start : v > r->start))
        return -1;
    i = (v - r->start) / r->step;
    return i < r->n && r->start + i * r->step == v ? i : -1;
}

static Value r_index(Interp *I, Value *a)
{
    int64_t i = range_find((RangeObj *)a[0].o, a[1]);
    Value r;

    if (i >= 0)
        return vint(i);
    r = value_repr(I, a[1]);
    if (!is_err(r))
        raise(I, EXC_ValueError, "%s is not in range", as_str(r)->s);
    value_unref(r);
    return VERR;
}

static Value r_count(Interp *I, Value *a)
{
    return vint(range_find((RangeObj *)a[0].o, a[1]) >= 0);
}

static Value slice_make(Interp *I, Value *a)
{
    SliceObj *s = obj_new(V_SLICE, sizeof *s);
    bool one = is_err(a[2]);

    s->lo = one ? VNONE : value_ref(a[1]);
    s->hi = value_ref(one ? a[1] : a[2]);
    s->step = is_err(a[3]) ? VNONE : value_ref(a[3]);
    return vobj(s);
}

static Value s_start(Interp *I, Value *a) { return value_ref(((SliceObj *)a[0].o)->lo); }
static Value s_stop(Interp *I, Value *a) { return value_ref(((SliceObj *)a[0].o)->hi); }
static Value s_step(Interp *I, Value *a) { return value_ref(((SliceObj *)a[0].o)->step); }

static Value s_indices(Interp *I, Value *a)
{
    int64_t n, start, stop, step;

    if (!value_as_int(I, a[1], &n) || !slice_bounds(I, (SliceObj *)a[0].o, n, &start, &stop, &step))
        return VERR;
    return tuple_of(3, vint(start), vint(stop), vint(step));
}

const NativeDef natives_list[] = {
    {"", "list", NULL, "type[list]", "A sequence that can change."},
    {"list", "__new__", list_make, "(cls, iterable: Iterable = ..., /) -> list", "A new list of the elements."},
    {"list", "append", m_append, "(self, object, /) -> None", "Add one element at the end."},
    {"list", "extend", m_extend, "(self, iterable: Iterable, /) -> None", "Add all elements at the end."},
    {"list", "insert", m_insert, "(self, index: int, object, /) -> None", "Add an element before the index."},
    {"list", "pop", m_pop, "(self, index: int = -1, /)", "Take out the last element, or the one at the index."},
    {"list", "remove", m_remove, "(self, value, /) -> None", "Take out the first element equal to value; ValueError when there is none."},
    {"list", "clear", m_clear, "(self, /) -> None", "Take out all elements."},
    {"list", "index", m_index, "(self, value, start: int | None = None, stop: int | None = None, /) -> int", "Index of the first element equal to value; ValueError when there is none."},
    {"list", "count", m_count, "(self, value, /) -> int", "How many elements equal value."},
    {"list", "copy", m_copy, "(self, /) -> list", "A new list of the same elements."},
    {"list", "reverse", m_reverse, "(self, /) -> None", "Reverse the order in place."},
    {"list", "sort", m_sort, "(self, /, *, key: Callable | None = None, reverse: bool = False) -> None", "Sort in place; equal elements keep their order."},
    {"", "tuple", NULL, "type[tuple]", "A sequence that cannot change."},
    {"tuple", "__new__", tuple_make, "(cls, iterable: Iterable = ..., /) -> tuple", "A tuple of the elements."},
    {"tuple", "index", t_index, "(self, value, start: int | None = None, stop: int | None = None, /) -> int", "Index of the first element equal to value; ValueError when there is none."},
    {"tuple", "count", t_count, "(self, value, /) -> int", "How many elements equal value."},
    {"", "range", NULL, "type[range]", "Equally spaced ints."},
    {"range", "__new__", range_make, "(cls, start: int, stop: int = ..., step: int = ..., /) -> range", "range(stop), range(start, stop[, step])."},
    {"range", "start", r_start, "property[int]", "First number."},
    {"range", "stop", r_stop, "property[int]", "Where it ends, itself not included."},
    {"range", "step", r_step, "property[int]", "From one number to the next."},
    {"range", "index", r_index, "(self, value, /) -> int", "Index of the number; ValueError when it is not in the range."},
    {"range", "count", r_count, "(self, value, /) -> int", "1 when the number is in the range, else 0."},
    {"", "slice", NULL, "type[slice]", "start:stop:step as a value."},
    {"slice", "__new__", slice_make, "(cls, start, stop=..., step=..., /) -> slice", "slice(stop), slice(start, stop[, step])."},
    {"slice", "start", s_start, "property[int | None]", "First index, or None."},
    {"slice", "stop", s_stop, "property[int | None]", "End index, or None."},
    {"slice", "step", s_step, "property[int | None]", "Step, or None."},
    {"slice", "indices", s_indices, "(self, length: int, /) -> tuple[int, int, int]", "Start, stop and step for a sequence of that length."},
    {0},
};
