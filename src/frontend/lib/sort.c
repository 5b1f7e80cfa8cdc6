/*
 * Sorting: stable, keys called once, comparisons by `<` alone.
 *
 * A merge sort that takes the runs it finds: each ascending or strictly
 * descending run is used as it is, short ones are grown to MIN_RUN by binary
 * insertion, and runs on the stack are merged so that their lengths shrink
 * geometrically (Peters' timsort without galloping).  While sorting the list
 * is empty, so a key or __lt__ that looks at it does no harm; on an exception
 * the elements go back in some order.
 *
 * Lists of only ints, only floats or only strings compare without calls.
 */
#include "frontend/lib/lib.h"

#include <string.h>

enum { MIN_RUN = 24, RUNS_MAX = 64 };

typedef struct Item { Value key, val; } Item;
typedef struct Run { int64_t at, n; } Run;

typedef struct Sorter {
    Interp *I;
    Item *a, *tmp;
    int (*less)(struct Sorter *s, Value a, Value b);    /* 1, 0, -1 pending */
    Run run[RUNS_MAX];
    int nruns;
    bool failed;
} Sorter;

static int less_int(Sorter *s, Value a, Value b) { return a.i < b.i; }
static int less_float(Sorter *s, Value a, Value b) { return a.f < b.f; }
static int less_str(Sorter *s, Value a, Value b) { return str_compare(as_str(a), as_str(b)) < 0; }
static int less_any(Sorter *s, Value a, Value b) { return value_less(s->I, a, b); }

static bool less(Sorter *s, const Item *a, const Item *b)
{
    int r = s->failed ? 0 : s->less(s, a->key, b->key);

    if (r < 0)
        s->failed = true;
    return r > 0;
}

static void reverse(Item *a, int64_t n)
{
    for (int64_t i = 0, j = n - 1; i < j; i++, j--) {
        Item t = a[i];
        a[i] = a[j];
        a[j] = t;
    }
}

/* Length of the run at a, made ascending. */
static int64_t find_run(Sorter *s, Item *a, int64_t n)
{
    int64_t i = 1;

    if (n < 2)
        return n;
    if (less(s, &a[1], &a[0])) {                    /* strictly descending: reversing keeps equals in order */
        for (i = 2; i < n && less(s, &a[i], &a[i - 1]);)
            i++;
        reverse(a, i);
    } else {
        for (i = 2; i < n && !less(s, &a[i], &a[i - 1]);)
            i++;
    }
    return i;
}

/* Sort a[0..n) of which a[0..sorted) already is. */
static void insertion(Sorter *s, Item *a, int64_t sorted, int64_t n)
{
    for (int64_t i = sorted; i < n; i++) {
        Item x = a[i];
        int64_t lo = 0, hi = i;
        while (lo < hi) {
            int64_t mid = (lo + hi) / 2;
            if (less(s, &x, &a[mid]))
                hi = mid;
            else
                lo = mid + 1;
        }
        memmove(a + lo + 1, a + lo, (size_t)(i - lo) * sizeof *a);
        a[lo] = x;
    }
}

/* Merge the neighbours a[0..n) and a[n..n+m). */
static void merge(Sorter *s, Item *a, int64_t n, int64_t m)
{
    Item *left = s->tmp, *right = a + n, *out = a;
    int64_t i = 0, j = 0;

    memcpy(left, a, (size_t)n * sizeof *a);
    while (i < n && j < m)
        *out++ = less(s, &right[j], &left[i]) ? right[j++] : left[i++];
    memcpy(out, left + i, (size_t)(n - i) * sizeof *a);
}

static void merge_at(Sorter *s, int i)
{
    Run *r = s->run;

    merge(s, s->a + r[i].at, r[i].n, r[i + 1].n);
    r[i].n += r[i + 1].n;
    s->nruns--;
    if (i + 1 < s->nruns)
        r[i + 1] = r[i + 2];
}

/* Keep run[i-2] > run[i-1] + run[i] and run[i-1] > run[i]. */
static void collapse(Sorter *s, bool all)
{
    while (s->nruns > 1) {
        int i = s->nruns - 2;
        Run *r = s->run;
        bool unbalanced = (i > 0 && r[i - 1].n <= r[i].n + r[i + 1].n) || (i > 1 && r[i - 2].n <= r[i - 1].n + r[i].n);
        if (!all && !unbalanced && r[i].n > r[i + 1].n)
            return;
        if (i > 0 && (all || unbalanced) && r[i - 1].n < r[i + 1].n)
            i--;
        merge_at(s, i);
    }
}

static void sort_items(Sorter *s, int64_t n)
{
    for (int64_t at = 0; at < n;) {
        int64_t left = n - at, len = find_run(s, s->a + at, left);
        if (len < MIN_RUN && len < left) {
            int64_t want = left < MIN_RUN ? left : MIN_RUN;
            insertion(s, s->a + at, len, want);
            len = want;
        }
        s->run[s->nruns++] = (Run){at, len};
        at += len;
        collapse(s, false);
        if (!interp_poll(s->I))
            s->failed = true;
    }
    collapse(s, true);
}

static void choose_less(Sorter *s, int64_t n)
{
    uint32_t tag = n ? s->a[0].key.tag : V_NONE;

    s->less = less_any;
    for (int64_t i = 0; i < n; i++)
        if (s->a[i].key.tag != tag)
            return;
    if (tag == V_INT)
        s->less = less_int;
    else if (tag == V_FLOAT)
        s->less = less_float;
    else if (tag == V_STR)
        s->less = less_str;
}

/* Keys of all elements; false: a call failed, and the keys made so far are dropped. */
static bool make_keys(Sorter *s, const Value *at, int64_t n, Value key)
{
    bool keyed = is_given(key);

    for (int64_t i = 0; i < n; i++) {
        s->a[i].val = at[i];
        s->a[i].key = keyed ? value_call(s->I, key, &at[i], 1) : value_ref(at[i]);
        if (is_err(s->a[i].key)) {
            while (i--)
                value_unref(s->a[i].key);
            return false;
        }
    }
    return true;
}

bool list_sort(Interp *I, ListObj *l, Value key, bool descending)
{
    Sorter s = {.I = I};
    ListObj held = *l;
    int64_t n = l->n;
    bool ok;

    if (n < 2 && !is_given(key))
        return true;
    l->at = NULL;
    l->n = l->cap = 0;
    s.a = tsr_alloc((size_t)(n ? n : 1) * 2 * sizeof *s.a);
    s.tmp = s.a + n;
    ok = make_keys(&s, held.at, n, key);
    if (ok) {
        choose_less(&s, n);
        if (descending)                             /* reversing before and after keeps equals in order */
            reverse(s.a, n);
        sort_items(&s, n);
        if (descending)
            reverse(s.a, n);
        for (int64_t i = 0; i < n; i++) {
            held.at[i] = s.a[i].val;
            value_unref(s.a[i].key);
        }
        ok = !s.failed;
    }
    tsr_free(s.a);
    if (l->n || l->at) {
        for (int64_t i = 0; i < l->n; i++)
            value_unref(l->at[i]);
        if (ok && l->n) {
            raise(I, EXC_ValueError, "list modified during sort");
            ok = false;
        }
        tsr_free(l->at);
    }
    l->at = held.at;
    l->n = held.n;
    l->cap = held.cap;
    return ok;
}
