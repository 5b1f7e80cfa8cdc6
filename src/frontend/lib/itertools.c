/* The module itertools: iterators over iterators.  Those over index patterns are in combinatorics.c. */
#include "frontend/lib/lazy.h"

#include "frontend/syntax/ast.h"

/* ------------------------------------------------------------- endless ones */

static Value count_next(Interp *I, void *p)
{
    Lazy *z = p;
    Value now = z->v[0], next;

    if (is_err(now))
        return raise(I, EXC_OverflowError, "count() has passed the largest int");
    next = value_binary(I, AOP_ADD, now, z->v[1]);
    if (is_err(next)) {
        if (!exc_matches(I, EXC_OverflowError))
            return VERR;
        exc_clear(I);
    }
    z->v[0] = next;
    return now;
}

static void count_repr(Interp *I, void *p, StrBuf *b)
{
    Lazy *z = p;

    sb_puts(b, "count(");
    value_repr_to(I, z->v[0], b);
    if (z->v[1].tag != V_INT || z->v[1].i != 1) {
        sb_puts(b, ", ");
        value_repr_to(I, z->v[1], b);
    }
    sb_putc(b, ')');
}

static const NativeType count_type = {"count", lazy_free, lazy_visit, count_next, .repr = count_repr};

static Value f_count(Interp *I, Value *a)
{
    return lazy_new(&count_type, value_ref(a[0]), value_ref(a[1]), VERR, VERR);
}

/* v0 the source while it lasts, v1 what it gave; n0 the place in v1 */
static Value cycle_next(Interp *I, void *p)
{
    Lazy *z = p;
    ListObj *seen = as_list(z->v[1]);
    Value x = lazy_pull(I, z, 0);

    if (!is_err(x)) {
        list_push(seen, value_ref(x));
        return x;
    }
    if (exc_pending(I) || !seen->n)
        return VERR;
    x = value_ref(seen->at[z->n[0]]);
    z->n[0] = (z->n[0] + 1) % seen->n;
    return x;
}

static const NativeType cycle_type = LAZY_TYPE("cycle", cycle_next);

static Value f_cycle(Interp *I, Value *a)
{
    Value it = value_iter(I, a[0]);
    return is_err(it) ? VERR : lazy_new(&cycle_type, it, list_new(0), VERR, VERR);
}

static Value repeat_next(Interp *I, void *p)
{
    Lazy *z = p;

    if (z->n[0] == 0)
        return VERR;
    if (z->n[0] > 0)
        z->n[0]--;
    return value_ref(z->v[0]);
}

static const NativeType repeat_type = LAZY_TYPE("repeat", repeat_next);

static Value f_repeat(Interp *I, Value *a)
{
    int64_t n = -1;
    Value z;

    if (!is_err(a[1])) {
        if (!value_as_int(I, a[1], &n))
            return VERR;
        n = n < 0 ? 0 : n;
    }
    z = lazy_new(&repeat_type, value_ref(a[0]), VERR, VERR, VERR);
    as_lazy(z)->n[0] = n;
    return z;
}

/* ------------------------------------------------------------- chain */

/* v0 the iterator of iterables, v1 the current one */
static Value chain_next(Interp *I, void *p)
{
    Lazy *z = p;

    for (;;) {
        Value x = lazy_pull(I, z, 1), next;
        if (!is_err(x) || exc_pending(I))
            return x;
        next = lazy_pull(I, z, 0);
        if (is_err(next))
            return VERR;
        z->v[1] = value_iter(I, next);
        value_unref(next);
        if (is_err(z->v[1]))
            return VERR;
    }
}

static const NativeType chain_type = LAZY_TYPE("chain", chain_next);

static Value chain_of(Interp *I, Value iterables)
{
    Value it = value_iter(I, iterables);
    return is_err(it) ? VERR : lazy_new(&chain_type, it, VERR, VERR, VERR);
}

static Value chain_make(Interp *I, Value *a) { return chain_of(I, a[1]); }
static Value chain_from_iterable(Interp *I, Value *a) { return chain_of(I, a[0]); }

/* ------------------------------------------------------------- running totals, windows */

/* v0 source, v1 function or None, v2 total so far, v3 initial; n0: started */
static Value accumulate_next(Interp *I, void *p)
{
    Lazy *z = p;
    Value x, total;

    if (!z->n[0]) {
        z->n[0] = 1;
        z->v[2] = is_given(z->v[3]) ? value_ref(z->v[3]) : lazy_pull(I, z, 0);
        return value_ref(z->v[2]);
    }
    x = lazy_pull(I, z, 0);
    if (is_err(x))
        return VERR;
    total = is_given(z->v[1]) ? value_call(I, z->v[1], (Value[]){z->v[2], x}, 2) : value_binary(I, AOP_ADD, z->v[2], x);
    value_unref(x);
    if (is_err(total))
        return VERR;
    value_unref(z->v[2]);
    z->v[2] = total;
    return value_ref(total);
}

static const NativeType accumulate_type = LAZY_TYPE("accumulate", accumulate_next);

static Value f_accumulate(Interp *I, Value *a)
{
    Value it = value_iter(I, a[0]);
    return is_err(it) ? VERR : lazy_new(&accumulate_type, it, value_ref(a[1]), VERR, value_ref(a[2]));
}

static Value pairwise_next(Interp *I, void *p)
{
    Lazy *z = p;
    Value x, pair;

    if (is_err(z->v[1]) && is_err(z->v[1] = lazy_pull(I, z, 0)))
        return VERR;
    x = lazy_pull(I, z, 0);
    if (is_err(x))
        return VERR;
    pair = tuple_of(2, z->v[1], value_ref(x));
    z->v[1] = x;
    return pair;
}

static const NativeType pairwise_type = LAZY_TYPE("pairwise", pairwise_next);

static Value f_pairwise(Interp *I, Value *a)
{
    Value it = value_iter(I, a[0]);
    return is_err(it) ? VERR : lazy_new(&pairwise_type, it, VERR, VERR, VERR);
}

static Value batched_next(Interp *I, void *p)
{
    Lazy *z = p;
    Value l = list_new(z->n[0]), x, t;

    while (as_list(l)->n < z->n[0] && !is_err(x = lazy_pull(I, z, 0)))
        list_push(as_list(l), x);
    t = as_list(l)->n && !exc_pending(I) ? tuple_from(I, l) : VERR;
    value_unref(l);
    return t;
}

static const NativeType batched_type = LAZY_TYPE("batched", batched_next);

static Value f_batched(Interp *I, Value *a)
{
    int64_t n;
    Value it, z;

    if (!value_as_int(I, a[1], &n))
        return VERR;
    if (n < 1)
        return raise(I, EXC_ValueError, "n must be at least one");
    it = value_iter(I, a[0]);
    if (is_err(it))
        return VERR;
    z = lazy_new(&batched_type, it, VERR, VERR, VERR);
    as_lazy(z)->n[0] = n;
    return z;
}

/* ------------------------------------------------------------- choosing */

static int test(Interp *I, Value f, Value x)
{
    Value r = value_call(I, f, &x, 1);
    int t = is_err(r) ? -1 : value_truth(I, r);

    value_unref(r);
    return t;
}

static Value takewhile_next(Interp *I, void *p)
{
    Lazy *z = p;
    Value x = lazy_pull(I, z, 1);
    int t;

    if (is_err(x) || (t = test(I, z->v[0], x)) == 1)
        return x;
    value_unref(x);
    if (!t) {                               /* the rest is not asked for again */
        value_unref(z->v[1]);
        z->v[1] = VERR;
    }
    return VERR;
}

static Value dropwhile_next(Interp *I, void *p)
{
    Lazy *z = p;
    Value x;

    while (!is_err(x = lazy_pull(I, z, 1)) && !z->n[0]) {
        int t = test(I, z->v[0], x);
        if (t == 0) {
            z->n[0] = 1;
            return x;
        }
        value_unref(x);
        if (t < 0)
            return VERR;
    }
    return x;
}

static const NativeType takewhile_type = LAZY_TYPE("takewhile", takewhile_next);
static const NativeType dropwhile_type = LAZY_TYPE("dropwhile", dropwhile_next);

static Value over(Interp *I, Value *a, const NativeType *t)
{
    Value it = value_iter(I, a[1]);
    return is_err(it) ? VERR : lazy_new(t, value_ref(a[0]), it, VERR, VERR);
}

static Value f_takewhile(Interp *I, Value *a) { return over(I, a, &takewhile_type); }
static Value f_dropwhile(Interp *I, Value *a) { return over(I, a, &dropwhile_type); }

static Value starmap_next(Interp *I, void *p)
{
    Lazy *z = p;
    Value x = lazy_pull(I, z, 1), args, r;

    if (is_err(x))
        return VERR;
    args = tuple_from(I, x);
    value_unref(x);
    if (is_err(args))
        return VERR;
    r = value_call(I, z->v[0], as_tuple(args)->at, (int)as_tuple(args)->n);
    value_unref(args);
    return r;
}

static const NativeType starmap_type = LAZY_TYPE("starmap", starmap_next);
static Value f_starmap(Interp *I, Value *a) { return over(I, a, &starmap_type); }

static Value compress_next(Interp *I, void *p)
{
    Lazy *z = p;
    Value x, keep;

    while (!is_err(x = lazy_pull(I, z, 0))) {
        int t;
        keep = lazy_pull(I, z, 1);
        t = is_err(keep) ? -1 : value_truth(I, keep);
        value_unref(keep);
        if (t == 1)
            return x;
        value_unref(x);
        if (t < 0)
            break;
    }
    return VERR;
}

static const NativeType compress_type = LAZY_TYPE("compress", compress_next);

static Value f_compress(Interp *I, Value *a)
{
    Value x = value_iter(I, a[0]), y = is_err(x) ? VERR : value_iter(I, a[1]);

    if (!is_err(y))
        return lazy_new(&compress_type, x, y, VERR, VERR);
    value_unref(x);
    return VERR;
}

/* n0 next index wanted, n1 stop or -1, n2 step, n3 index of the source */
static Value islice_next(Interp *I, void *p)
{
    Lazy *z = p;
    Value x;

    if (z->n[1] >= 0 && z->n[0] >= z->n[1]) {
        for (; z->n[3] < z->n[1] && !is_err(x = lazy_pull(I, z, 0)); z->n[3]++)     /* CPython skips to stop too */
            value_unref(x);
        return VERR;
    }
    for (; z->n[3] < z->n[0]; z->n[3]++) {
        x = lazy_pull(I, z, 0);
        if (is_err(x))
            return VERR;
        value_unref(x);
    }
    x = lazy_pull(I, z, 0);
    if (is_err(x))
        return VERR;
    z->n[3]++;
    if (__builtin_add_overflow(z->n[0], z->n[2], &z->n[0]))
        z->n[0] = INT64_MAX;
    return x;
}

static const NativeType islice_type = LAZY_TYPE("islice", islice_next);

static bool slice_number(Interp *I, Value v, int64_t dflt, int64_t least, const char *what, int64_t *out)
{
    *out = dflt;
    if (!is_given(v))
        return true;
    if (value_as_int(I, v, out) && *out >= least)
        return true;
    exc_clear(I);
    raise(I, EXC_ValueError, "%s for islice() must be None or an integer: %lld <= x <= sys.maxsize.", what, (long long)least);
    return false;
}

/* a = iterable, start-or-stop, stop, step */
static Value f_islice(Interp *I, Value *a)
{
    bool one = is_err(a[2]);
    int64_t start, stop, step;
    Value it, z;

    if (!slice_number(I, one ? VNONE : a[1], 0, 0, "Indices", &start) ||
        !slice_number(I, one ? a[1] : a[2], -1, 0, "Stop argument", &stop) ||
        !slice_number(I, a[3], 1, 1, "Step", &step))
        return VERR;
    it = value_iter(I, a[0]);
    if (is_err(it))
        return VERR;
    z = lazy_new(&islice_type, it, VERR, VERR, VERR);
    as_lazy(z)->n[0] = start;
    as_lazy(z)->n[1] = stop;
    as_lazy(z)->n[2] = step;
    return z;
}

/* ------------------------------------------------------------- zip_longest */

/* v0 iterators (None where ended), v1 fill value; n0 how many still run */
static Value zip_longest_next(Interp *I, void *p)
{
    Lazy *z = p;
    TupleObj *its = as_tuple(z->v[0]);
    Value out;

    if (!z->n[0])
        return VERR;
    out = tuple_new(its->n);
    for (int64_t i = 0; i < its->n; i++)
        as_tuple(out)->at[i] = value_ref(z->v[1]);
    for (int64_t i = 0; i < its->n; i++) {
        Value x;
        if (its->at[i].tag == V_NONE)
            continue;
        x = value_next(I, its->at[i]);
        if (!is_err(x)) {
            value_unref(as_tuple(out)->at[i]);
            as_tuple(out)->at[i] = x;
            continue;
        }
        value_unref(its->at[i]);
        its->at[i] = VNONE;
        if (exc_pending(I) || !--z->n[0]) {
            value_unref(out);
            return VERR;
        }
    }
    return out;
}

static const NativeType zip_longest_type = LAZY_TYPE("zip_longest", zip_longest_next);

static Value f_zip_longest(Interp *I, Value *a)
{
    Value its = iterators_of(I, as_tuple(a[0])->at, as_tuple(a[0])->n), z;

    if (is_err(its))
        return VERR;
    z = lazy_new(&zip_longest_type, its, value_ref(a[1]), VERR, VERR);
    as_lazy(z)->n[0] = as_tuple(its)->n;
    return z;
}

/* ------------------------------------------------------------- groupby */

/*
 * v0 source, v1 key function or None, v2 element read ahead, v3 its key;
 * n0 number of the current group, n1: ended, n2: the element read ahead may belong to the current group
 */
static bool group_advance(Interp *I, Lazy *z)
{
    Value x = lazy_pull(I, z, 0), k;

    value_unref(z->v[2]);
    value_unref(z->v[3]);
    z->v[2] = z->v[3] = VERR;
    if (is_err(x)) {
        z->n[1] = 1;
        return false;
    }
    k = is_given(z->v[1]) ? value_call(I, z->v[1], &x, 1) : value_ref(x);
    if (is_err(k)) {
        value_unref(x);
        return false;
    }
    z->v[2] = x;
    z->v[3] = k;
    return true;
}

/* A group: v0 the groupby, v1 the key; n0 its number */
static Value group_next(Interp *I, void *p)
{
    Lazy *g = p, *z = as_lazy(g->v[0]);
    Value x;
    int same;

    if (g->n[0] != z->n[0] || z->n[1])
        return VERR;
    if (is_err(z->v[2]) && !group_advance(I, z))
        return VERR;
    same = value_equal(I, g->v[1], z->v[3]);
    if (same != 1) {
        z->n[2] = 0;
        return VERR;
    }
    x = z->v[2];
    z->v[2] = VERR;
    return x;
}

static const NativeType group_type = LAZY_TYPE("_grouper", group_next);

/* v2 may be taken by the group while v3 keeps its key: then the next element has to be read first. */
static Value groupby_next(Interp *I, void *p)
{
    Lazy *z = p;
    Value key = z->n[0] ? value_ref(z->v[3]) : VERR, g;     /* the key of the last group, if one was given out */

    for (;;) {
        int same;
        if (is_err(z->v[2]) && !group_advance(I, z)) {
            value_unref(key);
            return VERR;
        }
        same = is_err(key) || !z->n[2] ? 0 : value_equal(I, key, z->v[3]);
        if (same < 0) {
            value_unref(key);
            return VERR;
        }
        if (!same)
            break;
        value_unref(z->v[2]);
        z->v[2] = VERR;
    }
    value_unref(key);
    z->n[0]++;
    z->n[2] = 1;
    g = lazy_new(&group_type, value_ref(vobj(z)), value_ref(z->v[3]), VERR, VERR);
    as_lazy(g)->n[0] = z->n[0];
    return tuple_of(2, value_ref(z->v[3]), g);
}

static const NativeType groupby_type = LAZY_TYPE("groupby", groupby_next);

static Value f_groupby(Interp *I, Value *a)
{
    Value it = value_iter(I, a[0]);
    return is_err(it) ? VERR : lazy_new(&groupby_type, it, value_ref(a[1]), VERR, VERR);
}

/* ------------------------------------------------------------- tee */

/* v0 the shared source (a Lazy of tee_source: v0 iterator, v1 list, n0 how many were dropped from its front); n0 place */
static Value tee_source_next(Interp *I, void *p) { return lazy_pull(I, p, 0); }
static const NativeType tee_source_type = LAZY_TYPE("_tee_source", tee_source_next);

static Value tee_next(Interp *I, void *p)
{
    Lazy *z = p, *src = as_lazy(z->v[0]);
    ListObj *held = as_list(src->v[1]);

    if (z->n[0] == held->n) {
        Value x = lazy_pull(I, src, 0);
        if (is_err(x))
            return VERR;
        list_push(held, x);
    }
    return value_ref(held->at[z->n[0]++]);
}

static const NativeType tee_type = LAZY_TYPE("tee", tee_next);

static Value f_tee(Interp *I, Value *a)
{
    int64_t n;
    Value it, src, out;

    if (!value_as_int(I, a[1], &n))
        return VERR;
    if (n < 0)
        return raise(I, EXC_ValueError, "n must be >= 0");
    it = value_iter(I, a[0]);
    if (is_err(it))
        return VERR;
    src = lazy_new(&tee_source_type, it, list_new(0), VERR, VERR);
    out = tuple_new(n);
    for (int64_t i = 0; i < n; i++)
        as_tuple(out)->at[i] = lazy_new(&tee_type, value_ref(src), VERR, VERR, VERR);
    value_unref(src);
    return out;
}

const NativeDef natives_itertools[] = {
    {"itertools", "count", f_count, "(start=0, step=1) -> Iterator", "start, start + step, ... without end."},
    {"itertools", "cycle", f_cycle, "(iterable: Iterable, /) -> Iterator", "The elements over and over."},
    {"itertools", "repeat", f_repeat, "(object, times: int = ...) -> Iterator", "The object, times times or without end."},
    {"itertools", "chain", NULL, "type[chain]", "The elements of one iterable after the other."},
    {"", "chain", NULL, "type[chain]", "The elements of one iterable after the other."},
    {"chain", "__new__", chain_make, "(cls, *iterables) -> Iterator", "The elements of the first, then of the second ..."},
    {"chain", "from_iterable", chain_from_iterable, "(iterable: Iterable, /) -> Iterator", "The elements of the iterables that an iterable gives."},
    {"itertools", "accumulate", f_accumulate, "(iterable: Iterable, func: Callable | None = None, *, initial=None) -> Iterator", "Running totals."},
    {"", "accumulate", f_accumulate, "(iterable: Iterable, func: Callable | None = None, *, initial=None) -> Iterator", "Running totals."},
    {"itertools", "pairwise", f_pairwise, "(iterable: Iterable, /) -> Iterator[tuple]", "Neighbours: (a, b), (b, c), ..."},
    {"itertools", "batched", f_batched, "(iterable: Iterable, n: int) -> Iterator[tuple]", "Tuples of n elements; the last may be shorter."},
    {"itertools", "takewhile", f_takewhile, "(predicate: Callable, iterable: Iterable, /) -> Iterator", "The elements until predicate is false."},
    {"itertools", "dropwhile", f_dropwhile, "(predicate: Callable, iterable: Iterable, /) -> Iterator", "The elements from the first for which predicate is false."},
    {"itertools", "starmap", f_starmap, "(function: Callable, iterable: Iterable, /) -> Iterator", "function(*element) of each element."},
    {"itertools", "compress", f_compress, "(data: Iterable, selectors: Iterable) -> Iterator", "The elements whose selector is true."},
    {"itertools", "islice", f_islice, "(iterable: Iterable, start, stop=..., step=..., /) -> Iterator", "islice(it, stop), islice(it, start, stop[, step]): a slice of what it gives."},
    {"itertools", "zip_longest", f_zip_longest, "(*iterables, fillvalue=None) -> Iterator[tuple]", "Like zip, up to the longest, with fillvalue for what is missing."},
    {"itertools", "groupby", f_groupby, "(iterable: Iterable, key: Callable | None = None) -> Iterator[tuple]", "(key, group) for each run of elements with equal keys."},
    {"itertools", "tee", f_tee, "(iterable: Iterable, n: int = 2, /) -> tuple", "n independent iterators over one."},
    {0},
};
