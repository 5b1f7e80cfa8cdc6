/*
 * heapq and bisect: lists kept as heaps, and sorted lists.
 *
 * Both compare with < alone, as Python's do.  A comparison may run the
 * program's code, which may change the list: every index is checked after one.
 */
#include "frontend/lib/lib.h"

static ListObj *need_list(Interp *I, Value v)
{
    Value l = unwrap_base(v);

    if (l.tag == V_LIST)
        return as_list(l);
    raise(I, EXC_TypeError, "heap argument must be a list, not %s", value_type_name(v));
    return NULL;
}

/* a < b, with a function for plain numbers first. 1, 0, -1 pending. */
static inline int less(Interp *I, Value a, Value b)
{
    if (a.tag == V_INT && b.tag == V_INT)
        return a.i < b.i;
    if (a.tag == V_FLOAT && b.tag == V_FLOAT)
        return a.f < b.f;
    return value_less(I, a, b);
}

static bool changed(Interp *I, const ListObj *l, int64_t n)
{
    if (l->n == n)
        return false;
    raise(I, EXC_RuntimeError, "list changed size during iteration");
    return true;
}

/* ------------------------------------------------------------- heaps */

/* The element at pos moves towards the root until its parent is not larger; max: not smaller. */
static bool sift_up(Interp *I, ListObj *l, int64_t start, int64_t pos, bool max)
{
    int64_t n = l->n;

    while (pos > start) {
        int64_t parent = (pos - 1) >> 1;
        Value a = value_ref(l->at[pos]), b = value_ref(l->at[parent]), t;
        int r = max ? less(I, b, a) : less(I, a, b);
        value_unref(a);
        value_unref(b);
        if (r < 0 || changed(I, l, n))
            return false;
        if (!r)
            return true;
        t = l->at[pos];
        l->at[pos] = l->at[parent];
        l->at[parent] = t;
        pos = parent;
    }
    return true;
}

/* The smaller child follows down to a leaf, then the element climbs back: fewer comparisons than stopping early. */
static bool sift_down(Interp *I, ListObj *l, int64_t pos, bool max)
{
    int64_t start = pos, n = l->n;

    while (2 * pos + 1 < n) {
        int64_t child = 2 * pos + 1;
        Value t;
        if (child + 1 < n) {
            Value a = value_ref(l->at[child]), b = value_ref(l->at[child + 1]);
            int r = max ? less(I, b, a) : less(I, a, b);
            value_unref(a);
            value_unref(b);
            if (r < 0 || changed(I, l, n))
                return false;
            child += !r;
        }
        t = l->at[pos];
        l->at[pos] = l->at[child];
        l->at[child] = t;
        pos = child;
    }
    return sift_up(I, l, start, pos, max);
}

static Value heap_push(Interp *I, Value *a)
{
    ListObj *l = need_list(I, a[0]);

    if (!l)
        return VERR;
    list_push(l, value_ref(a[1]));
    return sift_up(I, l, 0, l->n - 1, false) ? VNONE : VERR;
}

static Value pop_root(Interp *I, Value heap, bool max)
{
    ListObj *l = need_list(I, heap);
    Value last, root;

    if (!l)
        return VERR;
    if (!l->n)
        return raise(I, EXC_IndexError, "index out of range");
    last = l->at[--l->n];
    if (!l->n)
        return last;
    root = l->at[0];
    l->at[0] = last;
    if (sift_down(I, l, 0, max))
        return root;
    value_unref(root);
    return VERR;
}

static Value heap_pop(Interp *I, Value *a) { return pop_root(I, a[0], false); }
static Value heap_pop_max(Interp *I, Value *a) { return pop_root(I, a[0], true); }

static Value replace_root(Interp *I, ListObj *l, Value item, bool max)
{
    Value root = l->at[0];

    l->at[0] = value_ref(item);
    if (sift_down(I, l, 0, max))
        return root;
    value_unref(root);
    return VERR;
}

static Value heap_replace(Interp *I, Value *a)
{
    ListObj *l = need_list(I, a[0]);

    if (!l)
        return VERR;
    return l->n ? replace_root(I, l, a[1], false) : raise(I, EXC_IndexError, "index out of range");
}

static Value heap_pushpop(Interp *I, Value *a)
{
    ListObj *l = need_list(I, a[0]);
    int r = l && l->n ? less(I, l->at[0], a[1]) : 0;

    if (!l || r < 0)
        return VERR;
    return r && l->n ? replace_root(I, l, a[1], false) : value_ref(a[1]);
}

static Value make_heap(Interp *I, Value list, bool max)
{
    ListObj *l = need_list(I, list);

    if (!l)
        return VERR;
    for (int64_t i = l->n / 2; i-- > 0;)
        if (!sift_down(I, l, i, max))
            return VERR;
    return VNONE;
}

static Value heapify(Interp *I, Value *a) { return make_heap(I, a[0], false); }
static Value heapify_max(Interp *I, Value *a) { return make_heap(I, a[0], true); }

/* ------------------------------------------------------------- sorted lists */

/* key(x), or x itself without a key. */
static Value key_of(Interp *I, Value key, Value x)
{
    return is_given(key) ? value_call(I, key, &x, 1) : value_ref(x);
}

/* Where x goes in the sorted a[lo:hi]: after what equals it (right) or before. x is compared as it is. -1 pending. */
static int64_t find_place(Interp *I, Value seq, Value x, Value lo_v, Value hi_v, Value key, bool right)
{
    int64_t lo = 0, hi;

    if (!value_as_int(I, lo_v, &lo))
        return -1;
    if (lo < 0) {
        raise(I, EXC_ValueError, "lo must be non-negative");
        return -1;
    }
    if (is_given(hi_v) ? !value_as_int(I, hi_v, &hi) : (hi = value_len(I, seq)) < 0)
        return -1;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        Value e = value_getitem(I, seq, vint(mid)), k = is_err(e) ? VERR : key_of(I, key, e);
        int r;
        value_unref(e);
        if (is_err(k))
            return -1;
        r = right ? less(I, x, k) : less(I, k, x);
        value_unref(k);
        if (r < 0)
            return -1;
        if (right == (r != 0))
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

static Value bisect(Interp *I, Value *a, bool right)
{
    int64_t at = find_place(I, a[0], a[1], a[2], a[3], a[4], right);

    return at < 0 ? VERR : vint(at);
}

static Value insort(Interp *I, Value *a, bool right)
{
    Value k = key_of(I, a[4], a[1]);
    int64_t at = is_err(k) ? -1 : find_place(I, a[0], k, a[2], a[3], a[4], right);

    value_unref(k);
    return at < 0 ? VERR : value_call_method(I, a[0], sym("insert"), (Value[]){vint(at), a[1]}, 2);
}

static Value bisect_left(Interp *I, Value *a) { return bisect(I, a, false); }
static Value bisect_right(Interp *I, Value *a) { return bisect(I, a, true); }
static Value insort_left(Interp *I, Value *a) { return insort(I, a, false); }
static Value insort_right(Interp *I, Value *a) { return insort(I, a, true); }

#define FIND_SIG "(a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Any = None) -> "

const NativeDef natives_ordered[] = {
    {"_heapq", "heappush", heap_push, "(heap: list, item: Any, /) -> None", "add item, keeping the heap"},
    {"_heapq", "heappop", heap_pop, "(heap: list, /) -> Any", "take out the smallest item"},
    {"_heapq", "heapreplace", heap_replace, "(heap: list, item: Any, /) -> Any", "take out the smallest item, then add item"},
    {"_heapq", "heappushpop", heap_pushpop, "(heap: list, item: Any, /) -> Any", "add item, then take out the smallest"},
    {"_heapq", "heapify", heapify, "(x: list, /) -> None", "make a list a heap, in linear time"},
    {"_heapq", "_heappop_max", heap_pop_max, "(heap: list, /) -> Any", "take out the largest item of a max-heap"},
    {"_heapq", "_heapify_max", heapify_max, "(x: list, /) -> None", "make a list a max-heap"},
    {"bisect", "bisect_left", bisect_left, FIND_SIG "int", "where x goes in sorted a, before equal items"},
    {"bisect", "bisect_right", bisect_right, FIND_SIG "int", "where x goes in sorted a, after equal items"},
    {"bisect", "bisect", bisect_right, FIND_SIG "int", "bisect_right"},
    {"bisect", "insort_left", insort_left, FIND_SIG "None", "insert x into sorted a, before equal items"},
    {"bisect", "insort_right", insort_right, FIND_SIG "None", "insert x into sorted a, after equal items"},
    {"bisect", "insort", insort_right, FIND_SIG "None", "insort_right"},
    {0},
};
