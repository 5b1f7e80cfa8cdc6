/*
 * itertools over index patterns: product, permutations, combinations.
 *
 * Each holds its pools and an array of indices; a step moves the indices to
 * the next pattern and builds one tuple.
 */
#include "frontend/lib/lib.h"

#include <string.h>

typedef struct Pattern {
    NativeInst head;
    Value pool;                 /* a tuple of elements; for product a tuple of such tuples */
    int64_t r, *at;             /* r indices; permutations keep n indices and r cycle counts behind them */
    bool started, done;
} Pattern;

static void pattern_free(void *p)
{
    value_unref(((Pattern *)p)->pool);
    tsr_free(((Pattern *)p)->at);
}

static void pattern_visit(void *p, void (*fn)(Value *, void *), void *st)
{
    fn(&((Pattern *)p)->pool, st);
}

static Value pattern_new(const NativeType *t, Value pool, int64_t r, int64_t room)
{
    Pattern *x = nativeobj_new(t, sizeof *x);

    x->pool = pool;
    x->r = r;
    x->at = tsr_calloc((size_t)(room + 1) * sizeof *x->at);
    return vobj(x);
}

static Value pick(const Pattern *x)
{
    Value out = tuple_new(x->r);

    for (int64_t i = 0; i < x->r; i++)
        as_tuple(out)->at[i] = value_ref(as_tuple(x->pool)->at[x->at[i]]);
    return out;
}

/* ------------------------------------------------------------- combinations */

static Value combinations_next(Interp *I, void *p)
{
    Pattern *x = p;
    int64_t n = as_tuple(x->pool)->n, i = x->r - 1;

    if (x->done)
        return VERR;
    if (x->started) {
        while (i >= 0 && x->at[i] == i + n - x->r)
            i--;
        if (i < 0) {
            x->done = true;
            return VERR;
        }
        x->at[i]++;
        for (i++; i < x->r; i++)
            x->at[i] = x->at[i - 1] + 1;
    }
    x->started = true;
    return pick(x);
}

static Value replacement_next(Interp *I, void *p)
{
    Pattern *x = p;
    int64_t n = as_tuple(x->pool)->n, i = x->r - 1;

    if (x->done)
        return VERR;
    if (x->started) {
        while (i >= 0 && x->at[i] == n - 1)
            i--;
        if (i < 0) {
            x->done = true;
            return VERR;
        }
        int64_t v = x->at[i] + 1;
        for (; i < x->r; i++)
            x->at[i] = v;
    }
    x->started = true;
    return pick(x);
}

static const NativeType combinations_type = {"combinations", pattern_free, pattern_visit, combinations_next};
static const NativeType replacement_type = {"combinations_with_replacement", pattern_free, pattern_visit, replacement_next};

/* a = iterable, r; the pool, or V_ERR pending */
static Value pool_and_r(Interp *I, Value *a, int64_t *r)
{
    Value pool = tuple_from(I, a[0]);

    if (is_err(pool))
        return VERR;
    *r = as_tuple(pool)->n;
    if (is_given(a[1]) && !value_as_int(I, a[1], r)) {
        value_unref(pool);
        return VERR;
    }
    if (*r < 0) {
        value_unref(pool);
        return raise(I, EXC_ValueError, "r must be non-negative");
    }
    return pool;
}

static Value f_combinations(Interp *I, Value *a)
{
    int64_t r;
    Value pool = pool_and_r(I, a, &r), v;
    Pattern *x;

    if (is_err(pool))
        return VERR;
    bool none = r > as_tuple(pool)->n;
    v = pattern_new(&combinations_type, pool, none ? 0 : r, none ? 0 : r);
    x = (Pattern *)v.o;
    x->done = none;
    for (int64_t i = 0; i < x->r; i++)
        x->at[i] = i;
    return v;
}

static Value f_replacement(Interp *I, Value *a)
{
    int64_t r;
    Value pool = pool_and_r(I, a, &r), v;

    if (is_err(pool))
        return VERR;
    if (r > INT32_MAX) {
        value_unref(pool);
        return raise(I, EXC_MemoryError, "r is too large");
    }
    v = pattern_new(&replacement_type, pool, r, r);
    ((Pattern *)v.o)->done = r && !as_tuple(pool)->n;
    return v;
}

/* ------------------------------------------------------------- permutations */

/* CPython's algorithm: indices 0..n-1 and, behind them, how many more rotations each place has. */
static bool permute(Pattern *x, int64_t n)
{
    int64_t *at = x->at, *cycle = x->at + n;

    for (int64_t i = x->r - 1; i >= 0; i--) {
        if (--cycle[i] == 0) {
            int64_t first = at[i];
            memmove(at + i, at + i + 1, (size_t)(n - 1 - i) * sizeof *at);
            at[n - 1] = first;
            cycle[i] = n - i;
            continue;
        }
        int64_t j = n - cycle[i], t = at[i];
        at[i] = at[j];
        at[j] = t;
        return true;
    }
    return false;
}

static Value permutations_next(Interp *I, void *p)
{
    Pattern *x = p;

    if (x->done)
        return VERR;
    if (x->started && !permute(x, as_tuple(x->pool)->n)) {
        x->done = true;
        return VERR;
    }
    x->started = true;
    return pick(x);
}

static const NativeType permutations_type = {"permutations", pattern_free, pattern_visit, permutations_next};

static Value f_permutations(Interp *I, Value *a)
{
    int64_t r, n;
    Value pool = pool_and_r(I, a, &r), v;
    Pattern *x;

    if (is_err(pool))
        return VERR;
    n = as_tuple(pool)->n;
    v = pattern_new(&permutations_type, pool, r > n ? 0 : r, n + (r > n ? 0 : r));
    x = (Pattern *)v.o;
    x->done = r > n;
    for (int64_t i = 0; i < n; i++)
        x->at[i] = i;
    for (int64_t i = 0; i < x->r; i++)
        x->at[n + i] = n - i;
    return v;
}

/* ------------------------------------------------------------- product */

static Value product_next(Interp *I, void *p)
{
    Pattern *x = p;
    TupleObj *pools = as_tuple(x->pool);
    int64_t i = x->r - 1;
    Value out;

    if (x->done)
        return VERR;
    if (x->started) {
        while (i >= 0 && ++x->at[i] == as_tuple(pools->at[i])->n)
            x->at[i--] = 0;
        if (i < 0) {
            x->done = true;
            return VERR;
        }
    }
    x->started = true;
    out = tuple_new(x->r);
    for (i = 0; i < x->r; i++)
        as_tuple(out)->at[i] = value_ref(as_tuple(pools->at[i])->at[x->at[i]]);
    return out;
}

static const NativeType product_type = {"product", pattern_free, pattern_visit, product_next};

/* a = *iterables, repeat */
static Value f_product(Interp *I, Value *a)
{
    TupleObj *args = as_tuple(a[0]);
    int64_t repeat, n = args->n, total;
    Value pools, v;
    bool empty = false, ok = true;

    if (!value_as_int(I, a[1], &repeat))
        return VERR;
    if (repeat < 0)
        return raise(I, EXC_ValueError, "repeat argument cannot be negative");
    if (__builtin_mul_overflow(n, repeat, &total) || total > INT32_MAX)
        return raise(I, EXC_MemoryError, "repeat argument too large");
    pools = tuple_new(total);
    for (int64_t i = 0; i < total; i++)
        as_tuple(pools)->at[i] = VNONE;
    for (int64_t i = 0; ok && i < total; i++) {
        Value pool = i < n ? tuple_from(I, args->at[i]) : value_ref(as_tuple(pools)->at[i - n]);
        ok = !is_err(pool);
        as_tuple(pools)->at[i] = ok ? pool : VNONE;
        empty = empty || (ok && !as_tuple(pool)->n);
    }
    if (!ok) {
        value_unref(pools);
        return VERR;
    }
    v = pattern_new(&product_type, pools, total, total);
    ((Pattern *)v.o)->done = empty;
    return v;
}

const NativeDef natives_combinatorics[] = {
    {"itertools", "combinations", f_combinations, "(iterable: Iterable, r: int) -> Iterator[tuple]", "All r elements in order, each at most once."},
    {"", "combinations", f_combinations, "(iterable: Iterable, r: int) -> Iterator[tuple]", "All r elements in order, each at most once."},
    {"itertools", "combinations_with_replacement", f_replacement, "(iterable: Iterable, r: int) -> Iterator[tuple]", "All r elements in order, each any number of times."},
    {"itertools", "permutations", f_permutations, "(iterable: Iterable, r: int | None = None) -> Iterator[tuple]", "All orders of r elements."},
    {"", "permutations", f_permutations, "(iterable: Iterable, r: int | None = None) -> Iterator[tuple]", "All orders of r elements."},
    {"itertools", "product", f_product, "(*iterables, repeat: int = 1) -> Iterator[tuple]", "One element of each: nested loops."},
    {"", "product", f_product, "(*iterables, repeat: int = 1) -> Iterator[tuple]", "One element of each: nested loops."},
    {0},
};
