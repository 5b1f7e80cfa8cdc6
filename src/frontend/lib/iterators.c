/* The lazy builtins: map, filter, zip, enumerate, reversed, iter with a sentinel. */
#include "frontend/lib/lazy.h"

#include "frontend/lib/text.h"

#include <string.h>

void lazy_free(void *p)
{
    for (int i = 0; i < 4; i++)
        value_unref(((Lazy *)p)->v[i]);
}

void lazy_visit(void *p, void (*fn)(Value *v, void *st), void *st)
{
    for (int i = 0; i < 4; i++)
        fn(&((Lazy *)p)->v[i], st);
}

Value lazy_new(const NativeType *t, Value a, Value b, Value c, Value d)
{
    Lazy *z = nativeobj_new(t, sizeof *z);

    z->v[0] = a, z->v[1] = b, z->v[2] = c, z->v[3] = d;
    return vobj(z);
}

Value tuple_again(Value *kept, int64_t n)
{
    TupleObj *t = as_tuple(*kept);

    if (kept->tag == V_TUPLE && t->obj.refs == 1 && t->n == n) {
        for (int64_t i = 0; i < n; i++) {
            Value old = t->at[i];
            t->at[i] = VERR;
            value_unref(old);
        }
        t->hash = 0;
        return value_ref(*kept);
    }
    value_unref(*kept);
    *kept = tuple_new(n);
    return value_ref(*kept);
}

Value iterators_of(Interp *I, const Value *at, int64_t n)
{
    Value out = tuple_new(n);

    for (int64_t i = 0; i < n; i++) {
        Value it = value_iter(I, at[i]);
        if (is_err(it)) {
            for (; i < n; i++)
                as_tuple(out)->at[i] = VNONE;
            value_unref(out);
            return VERR;
        }
        as_tuple(out)->at[i] = it;
    }
    return out;
}

Value lazy_pull(Interp *I, Lazy *z, int i)
{
    Value x, it = z->v[i];

    if (is_err(it))
        return VERR;
    value_ref(it);              /* running it may end this iterator */
    x = value_next(I, it);
    if (is_err(x) && !exc_pending(I) && !is_err(z->v[i])) {
        value_unref(z->v[i]);
        z->v[i] = VERR;
    }
    value_unref(it);
    return x;
}

/* ------------------------------------------------------------- map, filter */

/* One element of each iterator in the tuple into out; how many, short when one ends. */
static int64_t pull_all(Interp *I, TupleObj *its, Value *out)
{
    int64_t i;

    for (i = 0; i < its->n; i++)
        if (is_err(out[i] = value_next(I, its->at[i])))
            break;
    return i;
}

static void drop_all(Value *at, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        value_unref(at[i]);
}

static Value map_next(Interp *I, void *p)
{
    Lazy *z = p;
    Value its = value_ref(z->v[1]), f = value_ref(z->v[0]), few[4], *at, r = VERR;
    int64_t n = as_tuple(its)->n, got;

    at = n > 4 ? tsr_alloc((size_t)n * sizeof *at) : few;
    got = pull_all(I, as_tuple(its), at);
    if (got == n)
        r = value_call(I, f, at, (int)n);
    drop_all(at, got);
    if (at != few)
        tsr_free(at);
    value_unref(its);
    value_unref(f);
    return r;
}

static Value filter_next(Interp *I, void *p)
{
    Lazy *z = p;
    Value x;

    while (!is_err(x = lazy_pull(I, z, 1))) {
        int t;
        if (z->v[0].tag == V_NONE) {
            t = value_truth(I, x);
        } else {
            Value f = value_ref(z->v[0]), r = value_call(I, f, &x, 1);
            t = is_err(r) ? -1 : value_truth(I, r);
            value_unref(r);
            value_unref(f);
        }
        if (t == !z->n[0])
            return x;
        value_unref(x);
        if (t < 0)
            return VERR;
    }
    return VERR;
}

static const NativeType map_type = LAZY_TYPE("map", map_next);
static const NativeType filter_type = LAZY_TYPE("filter", filter_next);
static const NativeType filterfalse_type = LAZY_TYPE("filterfalse", filter_next);

/* a = function, *iterables */
static Value map_of(Interp *I, Value *a)
{
    TupleObj *args = as_tuple(a[1]);
    Value its;

    if (!args->n)
        return raise(I, EXC_TypeError, "map() must have at least two arguments.");
    if (args->at[0].tag == V_TENSOR && args->n == 1)
        return value_call_method(I, args->at[0], sym("map"), a, 1);
    its = iterators_of(I, args->at, args->n);
    return is_err(its) ? VERR : lazy_new(&map_type, value_ref(a[0]), its, VERR, VERR);
}

static Value filter_of(Interp *I, Value *a, const NativeType *t, int64_t negate)
{
    Value it = value_iter(I, a[1]), z;

    if (is_err(it))
        return VERR;
    z = lazy_new(t, value_ref(a[0]), it, VERR, VERR);
    as_lazy(z)->n[0] = negate;
    return z;
}

/* map, filter, zip, enumerate, reversed are classes, so that isinstance knows them: a[0] is the class. */
static Value f_map(Interp *I, Value *a) { return map_of(I, a + 1); }
static Value f_filter(Interp *I, Value *a) { return filter_of(I, a + 1, &filter_type, 0); }
static Value f_filterfalse(Interp *I, Value *a) { return filter_of(I, a, &filterfalse_type, 1); }

/* ------------------------------------------------------------- zip, enumerate */

static Value raise_unequal(Interp *I, int64_t i, bool shorter)
{
    const char *s = i == 1 ? " " : "s 1-";

    return raise(I, EXC_ValueError, "zip() argument %lld is %s than argument%s%lld", (long long)i + 1,
                 shorter ? "shorter" : "longer", s, (long long)i);
}

/* strict: when iterator i ended, those before it must not have given anything, and those after it must end too. */
static Value zip_end(Interp *I, TupleObj *its, int64_t ended)
{
    Value x;

    if (exc_pending(I))
        return VERR;
    if (ended)
        return raise_unequal(I, ended, true);
    for (int64_t i = 1; i < its->n; i++) {
        x = value_next(I, its->at[i]);
        if (!is_err(x)) {
            value_unref(x);
            return raise_unequal(I, i, false);
        }
        if (exc_pending(I))
            return VERR;
    }
    return VERR;
}

static Value zip_next(Interp *I, void *p)
{
    Lazy *z = p;
    Value its = value_ref(z->v[0]), out;
    int64_t n = as_tuple(its)->n, got;

    if (!n) {
        value_unref(its);
        return VERR;
    }
    out = tuple_again(&z->v[1], n);
    got = pull_all(I, as_tuple(its), as_tuple(out)->at);
    if (got < n) {
        for (int64_t i = got; i < n; i++)
            as_tuple(out)->at[i] = VNONE;
        value_unref(out);
        out = z->n[0] ? zip_end(I, as_tuple(its), got) : VERR;
    }
    value_unref(its);
    return out;
}

static const NativeType zip_type = LAZY_TYPE("zip", zip_next);

/* a = *iterables, strict */
static Value zip_of(Interp *I, Value *a)
{
    int strict = value_truth(I, a[1]);
    Value its = strict < 0 ? VERR : iterators_of(I, as_tuple(a[0])->at, as_tuple(a[0])->n), z;

    if (is_err(its))
        return VERR;
    z = lazy_new(&zip_type, its, VERR, VERR, VERR);
    as_lazy(z)->n[0] = strict;
    return z;
}

static Value enumerate_next(Interp *I, void *p)
{
    Lazy *z = p;
    Value x = lazy_pull(I, z, 0), out;

    if (is_err(x))
        return VERR;
    out = tuple_again(&z->v[1], 2);
    as_tuple(out)->at[0] = vint(z->n[0]++);
    as_tuple(out)->at[1] = x;
    return out;
}

static const NativeType enumerate_type = LAZY_TYPE("enumerate", enumerate_next);

static Value enumerate_of(Interp *I, Value *a)
{
    int64_t start;
    Value it, z;

    if (!value_as_int(I, a[1], &start) || is_err(it = value_iter(I, a[0])))
        return VERR;
    z = lazy_new(&enumerate_type, it, VERR, VERR, VERR);
    as_lazy(z)->n[0] = start;
    return z;
}

/* ------------------------------------------------------------- reversed, iter */

static Value reversed_next(Interp *I, void *p)
{
    Lazy *z = p;
    Value s = z->v[0];

    if (--z->n[0] < 0 || is_err(s))
        return VERR;
    if (s.tag == V_LIST && z->n[0] >= as_list(s)->n)
        return VERR;
    return s.tag == V_INSTANCE || s.tag == V_TENSOR || s.tag == V_NATIVEOBJ ? value_getitem(I, s, vint(z->n[0]))
                                                                            : seq_item(I, s, z->n[0]);
}

static const NativeType reversed_type = LAZY_TYPE("reversed", reversed_next);

static Value reversed_of(Interp *I, Value *a)
{
    Value s = unwrap_base(a[0]), m = a[0].tag == V_LIST ? VERR : value_getattr_opt(I, a[0], sym("__reversed__")), z;
    int64_t n;

    if (!is_err(m)) {
        z = value_call(I, m, NULL, 0);
        value_unref(m);
        return z;
    }
    if (exc_pending(I))
        return VERR;
    /* as a list: characters without walking back through UTF-8 for each, members of an enum */
    if (s.tag == V_STR || (s.tag == V_CLASS && ((ClassObj *)s.o)->flags & CLASS_HOOKS)) {
        z = value_to_list(I, s);
        if (is_err(z))
            return VERR;
    } else if (s.tag == V_SET || s.tag == V_DICT || (s.tag == V_INSTANCE && is_err(value_dunder(I, s, D_getitem))) ||
               (s.tag == V_NATIVEOBJ && ((NativeInst *)s.o)->type->next)) {
        return raise(I, EXC_TypeError, "'%s' object is not reversible", value_type_name(a[0]));
    } else {
        z = value_ref(s);
    }
    n = value_len(I, z);
    if (n < 0) {
        value_unref(z);
        if (!exc_matches(I, EXC_TypeError))
            return VERR;
        exc_clear(I);
        return raise(I, EXC_TypeError, "'%s' object is not reversible", value_type_name(a[0]));
    }
    z = lazy_new(&reversed_type, z, VERR, VERR, VERR);
    as_lazy(z)->n[0] = n;
    return z;
}

static Value callable_next(Interp *I, void *p)
{
    Lazy *z = p;
    Value f, x;
    int same;

    if (is_err(z->v[0]))
        return VERR;
    f = value_ref(z->v[0]);
    x = value_call(I, f, NULL, 0);
    value_unref(f);
    if (is_err(x))
        return VERR;
    same = value_equal(I, x, z->v[1]);
    if (!same)
        return x;
    value_unref(x);
    if (same > 0) {
        value_unref(z->v[0]);
        z->v[0] = VERR;
    }
    return VERR;
}

static const NativeType callable_type = LAZY_TYPE("callable_iterator", callable_next);

static Value f_iter(Interp *I, Value *a)
{
    if (is_err(a[1]))
        return value_iter(I, a[0]);
    if (!value_is_callable(a[0]))
        return raise(I, EXC_TypeError, "iter(v, w): v must be callable");
    return lazy_new(&callable_type, value_ref(a[0]), value_ref(a[1]), VERR, VERR);
}

static Value f_zip(Interp *I, Value *a) { return zip_of(I, a + 1); }
static Value f_enumerate(Interp *I, Value *a) { return enumerate_of(I, a + 1); }
static Value f_reversed(Interp *I, Value *a) { return reversed_of(I, a + 1); }

const NativeDef natives_iterators[] = {
    {"", "map", NULL, "type[map]", "function of the elements, one by one as they are asked for; of a tensor, elementwise."},
    {"map", "__new__", f_map, "(cls, function: Callable, /, *iterables)", "function of the elements, one by one as they are asked for; of a tensor, elementwise."},
    {"", "filter", NULL, "type[filter]", "The elements for which function is true; None: the true ones."},
    {"filter", "__new__", f_filter, "(cls, function: Callable | None, iterable: Iterable, /) -> Iterator", "The elements for which function is true; None: the true ones."},
    {"", "zip", NULL, "type[zip]", "Tuples of one element of each; ends with the shortest, or with strict raises when lengths differ."},
    {"zip", "__new__", f_zip, "(cls, *iterables, strict: bool = False) -> Iterator[tuple]", "Tuples of one element of each; ends with the shortest, or with strict raises when lengths differ."},
    {"", "enumerate", NULL, "type[enumerate]", "(index, element) pairs."},
    {"enumerate", "__new__", f_enumerate, "(cls, iterable: Iterable, start: int = 0) -> Iterator[tuple]", "(index, element) pairs."},
    {"", "reversed", NULL, "type[reversed]", "The elements from the last to the first."},
    {"reversed", "__new__", f_reversed, "(cls, sequence, /) -> Iterator", "The elements from the last to the first."},
    {"", "iter", f_iter, "(object, sentinel=..., /) -> Iterator", "An iterator; with sentinel, over the results of calling object until it gives sentinel."},
    {"itertools", "filterfalse", f_filterfalse, "(function: Callable | None, iterable: Iterable, /) -> Iterator", "The elements for which function is false."},
    {0},
};
