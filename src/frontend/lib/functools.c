/*
 * Function tools in C: partial, lru_cache, reduce, cmp_to_key, and the getters
 * of module operator.  functools.tsr builds the rest on them.
 *
 * A cache is a dict from argument keys to results, in order of use: a hit
 * moves its entry to the end, so the first entry is the one to drop.
 */
#include "frontend/lib/lib.h"

#include <string.h>

/* ------------------------------------------------------------- calling with more arguments */

typedef struct Partial { NativeInst head; Value f, args, kw; } Partial;

static void partial_free(void *p)
{
    Partial *x = p;

    value_unref(x->f);
    value_unref(x->args);
    value_unref(x->kw);
}

static void partial_visit(void *p, void (*fn)(Value *, void *), void *st)
{
    Partial *x = p;

    fn(&x->f, st);
    fn(&x->args, st);
    fn(&x->kw, st);
}

/* Call f with an argument tuple and a keyword dict. */
Value call_with(Interp *I, Value f, Value args, Value kw)
{
    int n = (int)as_dict(kw)->n, i = 0;
    Value *vals = tsr_alloc((size_t)(n + 1) * sizeof *vals), k, v, r;
    Sym *names = tsr_alloc((size_t)(n + 1) * sizeof *names);
    int64_t pos = 0;

    while (dict_next(as_dict(kw), &pos, &k, &v)) {
        names[i] = sym_n(as_str(k)->s, as_str(k)->len);
        vals[i++] = v;
    }
    r = value_call_kw(I, f, as_tuple(args)->at, (int)as_tuple(args)->n, vals, names, n);
    tsr_free(vals);
    tsr_free(names);
    return r;
}

static Value join_args(const TupleObj *first, const Value *args, int nargs)
{
    Value t = tuple_new(first->n + nargs);

    for (int64_t i = 0; i < first->n; i++)
        as_tuple(t)->at[i] = value_ref(first->at[i]);
    for (int i = 0; i < nargs; i++)
        as_tuple(t)->at[first->n + i] = value_ref(args[i]);
    return t;
}

static Value partial_call(Interp *I, void *p, Value *args, int nargs, Value *kwvals, Sym *kwnames, int nkw)
{
    Partial *x = p;
    Value all = join_args(as_tuple(x->args), args, nargs), kw = value_ref(x->kw), r;

    if (nkw && as_dict(kw)->n) {
        value_unref(kw);
        kw = dict_copy(I, as_dict(x->kw));
        for (int i = 0; i < nkw; i++)
            dict_set_sym(as_dict(kw), kwnames[i], kwvals[i]);
        r = call_with(I, x->f, all, kw);
    } else if (nkw) {
        r = value_call_kw(I, x->f, as_tuple(all)->at, (int)as_tuple(all)->n, kwvals, kwnames, nkw);
    } else {
        r = call_with(I, x->f, all, kw);
    }
    value_unref(all);
    value_unref(kw);
    return r;
}

static Value partial_getattr(Interp *I, void *p, Sym name)
{
    Partial *x = p;

    if (!strcmp(name->text, "func"))
        return value_ref(x->f);
    if (!strcmp(name->text, "args"))
        return value_ref(x->args);
    return !strcmp(name->text, "keywords") ? value_ref(x->kw) : VERR;
}

static void partial_repr(Interp *I, void *p, StrBuf *b)
{
    Partial *x = p;
    Value k, v;
    int64_t pos = 0;

    sb_puts(b, "functools.partial(");
    value_repr_to(I, x->f, b);
    for (int64_t i = 0; i < as_tuple(x->args)->n; i++) {
        sb_puts(b, ", ");
        value_repr_to(I, as_tuple(x->args)->at[i], b);
    }
    while (dict_next(as_dict(x->kw), &pos, &k, &v)) {
        sb_printf(b, ", %s=", as_str(k)->s);
        value_repr_to(I, v, b);
    }
    sb_putc(b, ')');
}

static int64_t partial_count(void *p) { return 3; }

static Value *partial_item(void *p, int64_t i)
{
    Partial *x = p;

    return i == 0 ? &x->f : i == 1 ? &x->args : &x->kw;
}

static const NativeType partial_type = {"partial", partial_free, partial_visit, .call = partial_call,
                                        .getattr = partial_getattr, .repr = partial_repr, .count = partial_count, .item = partial_item};

/* a = func, *args, **keywords */
static Value f_partial(Interp *I, Value *a)
{
    Partial *x;

    if (!value_is_callable(a[0]))
        return raise(I, EXC_TypeError, "the first argument must be callable");
    x = nativeobj_new(&partial_type, sizeof *x);
    x->f = value_ref(a[0]);
    x->args = value_ref(a[1]);
    x->kw = value_ref(a[2]);
    return vobj(x);
}

/* ------------------------------------------------------------- caches */

typedef struct Cache {
    NativeInst head;
    Value f, table, attrs;      /* attrs: dict of what is set on it, such as __wrapped__ */
    int64_t max, hits, misses;  /* max < 0: no limit */
    bool typed;
} Cache;

static void cache_free(void *p)
{
    Cache *c = p;

    value_unref(c->f);
    value_unref(c->table);
    value_unref(c->attrs);
}

static void cache_visit(void *p, void (*fn)(Value *, void *), void *st)
{
    Cache *c = p;

    fn(&c->f, st);
    fn(&c->table, st);
    fn(&c->attrs, st);
}

/* The key of a call: the one plain argument itself, or a tuple of all, keywords after a mark, types when they count. */
static Value cache_key(Interp *I, const Cache *c, const Value *args, int nargs, const Value *kwvals, const Sym *kwnames, int nkw)
{
    int64_t n = nargs + (nkw ? 1 + 2 * nkw : 0), at = 0;
    Value t;

    if (nargs == 1 && !nkw && !c->typed && (args[0].tag == V_INT || args[0].tag == V_STR))
        return value_ref(args[0]);
    t = tuple_new(c->typed ? n + nargs + nkw : n);
    for (int i = 0; i < nargs; i++)
        as_tuple(t)->at[at++] = value_ref(args[i]);
    if (nkw)
        as_tuple(t)->at[at++] = (Value){.tag = V_ELLIPSIS};
    for (int i = 0; i < nkw; i++) {
        as_tuple(t)->at[at++] = value_ref(str_sym(kwnames[i]));
        as_tuple(t)->at[at++] = value_ref(kwvals[i]);
    }
    for (int i = 0; c->typed && i < nargs; i++)
        as_tuple(t)->at[at++] = value_type(I, args[i]);
    for (int i = 0; c->typed && i < nkw; i++)
        as_tuple(t)->at[at++] = value_type(I, kwvals[i]);
    return t;
}

static bool drop_oldest(Interp *I, DictObj *d)
{
    Value k, v;
    int64_t pos = 0;
    int r;

    if (!dict_next(d, &pos, &k, &v))
        return true;
    value_ref(k);
    r = dict_del(I, d, k);
    value_unref(k);
    return r >= 0;
}

/* Keep a new result, dropping the oldest when full. */
static bool remember(Interp *I, Cache *c, Value key, Value r)
{
    DictObj *d = as_dict(c->table);

    if (c->max == 0)
        return true;
    if (c->max > 0 && d->n >= c->max && !drop_oldest(I, d))
        return false;
    return dict_set(I, d, key, r);
}

static bool move_to_end(Interp *I, DictObj *d, Value key, Value r)
{
    return dict_del(I, d, key) >= 0 && dict_set(I, d, key, r);
}

static Value cache_call(Interp *I, void *p, Value *args, int nargs, Value *kwvals, Sym *kwnames, int nkw)
{
    Cache *c = p;
    DictObj *d = as_dict(c->table);
    Value key = cache_key(I, c, args, nargs, kwvals, kwnames, nkw), r;
    bool ok = true;

    r = dict_get(I, d, key);
    if (is_err(r) && exc_pending(I)) {
        value_unref(key);
        return VERR;
    }
    if (!is_err(r)) {
        value_ref(r);
        c->hits++;
        if (c->max > 0 && d->n > 1)
            ok = move_to_end(I, d, key, r);
    } else {
        c->misses++;
        value_ref(vobj(c));
        r = value_call_kw(I, c->f, args, nargs, kwvals, kwnames, nkw);
        ok = is_err(r) || remember(I, c, key, r);
        value_unref(vobj(c));
    }
    value_unref(key);
    if (ok)
        return r;
    value_unref(r);
    return VERR;
}

static Value cache_getattr(Interp *I, void *p, Sym name)
{
    Cache *c = p;
    Value v = dict_get_sym(as_dict(c->attrs), name);

    if (!is_err(v))
        return value_ref(v);
    if (!strcmp(name->text, "__wrapped__"))
        return value_ref(c->f);
    if (!strncmp(name->text, "cache_", 6))
        return VERR;
    return value_getattr_opt(I, c->f, name);
}

static bool cache_setattr(Interp *I, void *p, Sym name, Value v)
{
    dict_set_sym(as_dict(((Cache *)p)->attrs), name, v);
    return true;
}

static void cache_repr(Interp *I, void *p, StrBuf *b)
{
    value_repr_to(I, ((Cache *)p)->f, b);
}

static const NativeType cache_type = {"lru_cache_wrapper", cache_free, cache_visit, .call = cache_call, .getattr = cache_getattr,
                                      .setattr = cache_setattr, .repr = cache_repr, .binds = true};

static Value cache_new(Value f, int64_t max, bool typed)
{
    Cache *c = nativeobj_new(&cache_type, sizeof *c);

    c->f = value_ref(f);
    c->table = dict_new();
    c->attrs = dict_new();
    c->max = max;
    c->typed = typed;
    return vobj(c);
}

/* The decorator that lru_cache(maxsize=...) gives: remembers the options until it meets the function. */
typedef struct CacheMaker { NativeInst head; int64_t max; bool typed; } CacheMaker;

static Value maker_call(Interp *I, void *p, Value *args, int nargs, Value *kwvals, Sym *kwnames, int nkw)
{
    CacheMaker *m = p;

    if (nargs != 1 || nkw || !value_is_callable(args[0]))
        return raise(I, EXC_TypeError, "the cache decorator takes one function");
    return cache_new(args[0], m->max, m->typed);
}

static const NativeType maker_type = {"lru_cache", .call = maker_call};

/* a = maxsize or function, typed */
static Value f_lru_cache(Interp *I, Value *a)
{
    CacheMaker *m;
    int64_t max = -1;
    int typed = value_truth(I, a[1]);

    if (typed < 0)
        return VERR;
    if (a[0].tag != V_INT && a[0].tag != V_NONE && value_is_callable(a[0]))
        return cache_new(a[0], 128, typed);
    if (is_given(a[0]) && !value_as_int(I, a[0], &max)) {
        exc_clear(I);
        return raise(I, EXC_TypeError, "Expected first argument to be an integer, a callable, or None");
    }
    if (is_given(a[0]) && max < 0)
        max = 0;
    m = nativeobj_new(&maker_type, sizeof *m);
    m->max = max;
    m->typed = typed;
    return vobj(m);
}

static Value f_cache(Interp *I, Value *a)
{
    return cache_new(a[0], -1, false);
}

static Value m_cache_clear(Interp *I, Value *a)
{
    Cache *c = (Cache *)a[0].o;

    dict_clear(as_dict(c->table));
    c->hits = c->misses = 0;
    return VNONE;
}

typedef struct CacheInfo { NativeInst head; Value parts; } CacheInfo;

static void info_free(void *p) { value_unref(((CacheInfo *)p)->parts); }

static Value info_getattr(Interp *I, void *p, Sym name)
{
    static const char *const names[] = {"hits", "misses", "maxsize", "currsize"};

    for (int i = 0; i < 4; i++)
        if (!strcmp(names[i], name->text))
            return value_ref(as_tuple(((CacheInfo *)p)->parts)->at[i]);
    return VERR;
}

static void info_repr(Interp *I, void *p, StrBuf *b)
{
    const Value *at = as_tuple(((CacheInfo *)p)->parts)->at;

    sb_printf(b, "CacheInfo(hits=%lld, misses=%lld, maxsize=", (long long)at[0].i, (long long)at[1].i);
    value_repr_to(I, at[2], b);
    sb_printf(b, ", currsize=%lld)", (long long)at[3].i);
}

static const NativeType info_type = {"CacheInfo", info_free, .getattr = info_getattr, .repr = info_repr};

static Value m_cache_info(Interp *I, Value *a)
{
    Cache *c = (Cache *)a[0].o;
    CacheInfo *x = nativeobj_new(&info_type, sizeof *x);

    x->parts = tuple_of(4, vint(c->hits), vint(c->misses), c->max < 0 ? VNONE : vint(c->max), vint(as_dict(c->table)->n));
    return vobj(x);
}

/* ------------------------------------------------------------- reduce, cmp_to_key */

/* a = function, iterable, initial */
static Value f_reduce(Interp *I, Value *a)
{
    Value it = value_iter(I, a[1]), acc, x;

    if (is_err(it))
        return VERR;
    acc = is_err(a[2]) ? value_next(I, it) : value_ref(a[2]);
    if (is_err(acc) && !exc_pending(I))
        raise(I, EXC_TypeError, "reduce() of empty iterable with no initial value");
    while (!is_err(acc) && !is_err(x = value_next(I, it))) {
        Value next = value_call(I, a[0], (Value[]){acc, x}, 2);
        value_unref(acc);
        value_unref(x);
        acc = next;
    }
    value_unref(it);
    if (!exc_pending(I))
        return acc;
    value_unref(acc);
    return VERR;
}

typedef struct Key { NativeInst head; Value cmp, v; } Key;

static void key_free(void *p)
{
    value_unref(((Key *)p)->cmp);
    value_unref(((Key *)p)->v);
}

static void key_visit(void *p, void (*fn)(Value *, void *), void *st)
{
    fn(&((Key *)p)->cmp, st);
    fn(&((Key *)p)->v, st);
}

static const NativeType key_type = {"KeyWrapper", key_free, key_visit};

/* Sign of cmp(a, b); 2 pending. */
static int key_sign(Interp *I, Value *a)
{
    Key *x = (Key *)a[0].o, *y;
    Value r;
    int less, more;

    if (a[1].tag != V_NATIVEOBJ || ((NativeInst *)a[1].o)->type != &key_type) {
        raise(I, EXC_TypeError, "other argument must be K instance");
        return 2;
    }
    y = (Key *)a[1].o;
    r = value_call(I, x->cmp, (Value[]){x->v, y->v}, 2);
    if (is_err(r))
        return 2;
    if (r.tag == V_INT)
        return r.i < 0 ? -1 : r.i > 0;
    less = value_less(I, r, vint(0));
    more = less ? 0 : value_less(I, vint(0), r);
    value_unref(r);
    return less < 0 || more < 0 ? 2 : more - less;
}

static Value k_lt(Interp *I, Value *a) { int s = key_sign(I, a); return s == 2 ? VERR : vbool(s < 0); }
static Value k_le(Interp *I, Value *a) { int s = key_sign(I, a); return s == 2 ? VERR : vbool(s <= 0); }
static Value k_gt(Interp *I, Value *a) { int s = key_sign(I, a); return s == 2 ? VERR : vbool(s > 0); }
static Value k_ge(Interp *I, Value *a) { int s = key_sign(I, a); return s == 2 ? VERR : vbool(s >= 0); }
static Value k_eq(Interp *I, Value *a) { int s = key_sign(I, a); return s == 2 ? VERR : vbool(s == 0); }

typedef struct KeyMaker { NativeInst head; Value cmp; } KeyMaker;

static void keymaker_free(void *p) { value_unref(((KeyMaker *)p)->cmp); }
static void keymaker_visit(void *p, void (*fn)(Value *, void *), void *st) { fn(&((KeyMaker *)p)->cmp, st); }

static Value keymaker_call(Interp *I, void *p, Value *args, int nargs, Value *kwvals, Sym *kwnames, int nkw)
{
    Key *k;

    if (nargs != 1 || nkw)
        return raise(I, EXC_TypeError, "the key function takes one argument");
    k = nativeobj_new(&key_type, sizeof *k);
    k->cmp = value_ref(((KeyMaker *)p)->cmp);
    k->v = value_ref(args[0]);
    return vobj(k);
}

static const NativeType keymaker_type = {"cmp_to_key", keymaker_free, keymaker_visit, .call = keymaker_call};

static Value f_cmp_to_key(Interp *I, Value *a)
{
    KeyMaker *m = nativeobj_new(&keymaker_type, sizeof *m);

    m->cmp = value_ref(a[0]);
    return vobj(m);
}

const NativeDef natives_functools[] = {
    {"_functools", "partial", f_partial, "(func: Callable, /, *args, **keywords)", "func with its first arguments and some keywords already given."},
    {"_functools", "lru_cache", f_lru_cache, "(maxsize: int | Callable | None = 128, typed: bool = False)", "Decorator: remember the results of the last maxsize calls."},
    {"_functools", "cache", f_cache, "(user_function: Callable, /)", "Decorator: remember all results."},
    {"lru_cache_wrapper", "cache_clear", m_cache_clear, "(self) -> None", "Forget all results."},
    {"lru_cache_wrapper", "cache_info", m_cache_info, "(self)", "Hits, misses, limit and size."},
    {"_functools", "reduce", f_reduce, "(function: Callable, iterable: Iterable, initial=..., /)", "The elements folded from the left by function."},
    {"_functools", "cmp_to_key", f_cmp_to_key, "(mycmp: Callable) -> Callable", "A key function that orders as a comparison function does."},
    {"KeyWrapper", "__lt__", k_lt, "(self, other) -> bool", "Before other?"},
    {"KeyWrapper", "__le__", k_le, "(self, other) -> bool", "Not after other?"},
    {"KeyWrapper", "__gt__", k_gt, "(self, other) -> bool", "After other?"},
    {"KeyWrapper", "__ge__", k_ge, "(self, other) -> bool", "Not before other?"},
    {"KeyWrapper", "__eq__", k_eq, "(self, other) -> bool", "Neither before nor after?"},
    {0},
};
