/*
 * random.c - the namespace `random`: with a shape tensors, without one Python's kind of values.
 *
 * All numbers come from Philox with keys fold_key(base, draw): seed() sets the base, key()
 * scopes replace it for a block.  Equal seeds and equal programs give equal bits.
 */
#include "frontend/tensor/bind.h"

#include "frontend/syntax/ast.h"

#include <math.h>
#include <string.h>

enum { DIST_BITS, DIST_UNIFORM, DIST_NORMAL, DIST_BERNOULLI, DIST_RANDINT };

/* A draw of the given distribution; key NULL: the next ambient one. Consumes key. */
static Tensor *draw(Interp *I, int kind, DType dt, int rank, const Dim *shape, double f, int64_t range, Tensor *key)
{
    Attr a = attr_default();
    a.kind = (uint8_t)kind;
    a.dtype = (uint8_t)dt;
    a.f = f;
    a.i = range;
    a.nd[0] = (uint8_t)rank;
    memcpy(a.d[0], shape, sizeof(Dim) * (size_t)rank);
    trace_of(I)->span = interp_span(I);
    if (!key && !interp_may(I, SUSPEND_RANDOM, "a draw from the ambient generator; pass key="))
        return NULL;
    if (!key && !(key = trace_key(trace_of(I)))) {
        raise_op_error(I);
        return NULL;
    }
    return chain1(I, OP_random, &a, key);
}

static bool arg_key(Interp *I, Value v, Tensor **key)
{
    *key = NULL;
    if (!is_given(v))
        return true;
    if (v.tag == V_INT) {
        Dim two = 2;
        *key = tensor_new(DT_uint32, 1, &two);
        if (!*key) {
            raise(I, EXC_MemoryError, "not enough memory for a key");
            return false;
        }
        uint32_t *p = tensor_data(*key);
        p[0] = (uint32_t)v.i;
        p[1] = (uint32_t)((uint64_t)v.i >> 32);
        return true;
    }
    if (v.tag == V_TENSOR && as_tensor(v)->dtype == DT_uint32) {
        *key = tensor_ref(as_tensor(v));
        return true;
    }
    Value inner = value_getattr_opt(I, v, sym("data"));
    if (inner.tag == V_TENSOR) {
        *key = tensor_ref(as_tensor(inner));
        value_unref(inner);
        return true;
    }
    value_unref(inner);
    raise(I, EXC_TypeError, "a random key is made by random.key(seed) or an int, not by %s", value_type_name(v));
    return false;
}

/* ------------------------------------------------------------- host values */

/* Host draws are concrete also while a function is staged: their base is the seed's. */
static uint64_t host_bits(Interp *I)
{
    Trace *T = trace_of(I);
    Tensor *key = T->key;
    Level *top = T->top;
    Dim two = 2;
    uint64_t bits = 0;
    if (key && key->tracer)
        T->key = NULL;
    T->top = NULL;
    Tensor *t = draw(I, DIST_BITS, DT_uint32, 1, &two, 0, 0, NULL);
    T->key = key;
    T->top = top;
    if (t)
        bits = (uint64_t)elem_get_i(t, 0) << 32 | (uint64_t)elem_get_i(t, 1);
    tensor_unref(t);
    return bits;
}

static double host_uniform(Interp *I) { return (double)(host_bits(I) >> 11) * 0x1p-53; }

/* 0 <= result < n, without bias beyond n / 2^64 */
static uint64_t host_below(Interp *I, uint64_t n)
{
    uint64_t x = host_bits(I), lo = (uint32_t)x, hi = x >> 32;      /* the high half of x * n */
    uint64_t nl = (uint32_t)n, nh = n >> 32, mid = (lo * nl >> 32) + (uint32_t)(hi * nl) + (uint32_t)(lo * nh);
    return hi * nh + (hi * nl >> 32) + (lo * nh >> 32) + (mid >> 32);
}

static double host_normal(Interp *I)
{
    double u = 1.0 - host_uniform(I), v = host_uniform(I);
    return sqrt(-2.0 * log(u)) * cos(2.0 * 3.14159265358979323846 * v);
}

static Value guard(Interp *I, Value v) { return exc_pending(I) ? VERR : v; }

static Value f_random(Interp *I, Value *a) { return guard(I, vfloat(host_uniform(I))); }

static Value f_seed(Interp *I, Value *a)
{
    Trace *T = trace_of(I);
    int64_t s = 0;
    if (is_given(a[0]) && !value_as_int(I, a[0], &s))
        return VERR;
    tensor_unref(T->key);
    T->key = NULL;
    T->seed = (uint64_t)s;
    T->draws = 0;
    return VNONE;
}

/* (seed, draws, key): all that the next draw follows from. */
static Value f_getstate(Interp *I, Value *a)
{
    Trace *T = trace_of(I);
    return tuple_of(3, vint((int64_t)T->seed), vint((int64_t)T->draws), T->key ? tensor_value(tensor_ref(T->key)) : VNONE);
}

static Value f_setstate(Interp *I, Value *a)
{
    Trace *T = trace_of(I);
    const TupleObj *t = a[0].tag == V_TUPLE ? as_tuple(a[0]) : NULL;
    if (!t || t->n != 3 || t->at[0].tag != V_INT || t->at[1].tag != V_INT || (t->at[2].tag != V_NONE && t->at[2].tag != V_TENSOR))
        return raise(I, EXC_TypeError, "setstate takes what getstate gave");
    tensor_unref(T->key);
    T->key = t->at[2].tag == V_TENSOR ? tensor_ref(as_tensor(t->at[2])) : NULL;
    T->seed = (uint64_t)t->at[0].i;
    T->draws = (uint64_t)t->at[1].i;
    return VNONE;
}

static Value f_randrange(Interp *I, Value *a)           /* start, stop, step */
{
    int64_t lo = 0, hi, step = 1;
    if (!value_as_int(I, a[0], &hi) || (is_given(a[1]) && (lo = hi, !value_as_int(I, a[1], &hi))))
        return VERR;
    if (is_given(a[2]) && !value_as_int(I, a[2], &step))
        return VERR;
    int64_t n = step > 0 ? (hi - lo + step - 1) / step : step < 0 ? (lo - hi - step - 1) / -step : 0;
    if (n <= 0)
        return raise(I, EXC_ValueError, "randrange(%lld, %lld, %lld) is empty", (long long)lo, (long long)hi, (long long)step);
    return guard(I, vint(lo + step * (int64_t)host_below(I, (uint64_t)n)));
}

static Value f_choice(Interp *I, Value *a)
{
    int64_t n = value_len(I, a[0]);
    if (n <= 0)
        return n < 0 ? VERR : raise(I, EXC_IndexError, "choice from nothing");
    return value_getitem(I, a[0], vint((int64_t)host_below(I, (uint64_t)n)));
}

static Value f_choices(Interp *I, Value *a)             /* population, weights, k */
{
    int64_t k, n;
    Value pop = value_to_list(I, a[0]), w = is_given(a[1]) ? value_to_list(I, a[1]) : VNONE, out;
    if (is_err(pop) || is_err(w) || !value_as_int(I, a[2], &k) || (n = as_list(pop)->n) == 0 || (w.tag == V_LIST && as_list(w)->n != n)) {
        value_unref(pop);
        value_unref(w);
        return exc_pending(I) ? VERR : raise(I, EXC_ValueError, "choices needs a population, and as many weights");
    }
    double total = 0, x;
    for (int64_t i = 0; w.tag == V_LIST && i < n; i++)
        if (value_as_float(I, as_list(w)->at[i], &x))
            total += x;
    out = list_new(k);
    for (int64_t j = 0; j < k; j++) {
        int64_t pick = 0;
        if (w.tag == V_LIST) {
            double r = host_uniform(I) * total;
            for (; pick < n - 1 && value_as_float(I, as_list(w)->at[pick], &x) && (r -= x) >= 0; pick++)
                ;
        } else
            pick = (int64_t)host_below(I, (uint64_t)n);
        list_push(as_list(out), value_ref(as_list(pop)->at[pick]));
    }
    value_unref(pop);
    value_unref(w);
    return guard(I, out);
}

static void shuffle(Interp *I, Value *at, int64_t n)
{
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = (int64_t)host_below(I, (uint64_t)i + 1);
        Value t = at[i];
        at[i] = at[j];
        at[j] = t;
    }
}

static Tensor *permuted(Interp *I, Dim n, Tensor *key);

/* A list in place; a tensor's rows as a new tensor. */
static Value f_shuffle(Interp *I, Value *a)
{
    if (a[0].tag == V_TENSOR) {
        Value p = value_of(permuted(I, tensor_op_len(I, a[0]), NULL));
        Value r = is_err(p) ? VERR : tensor_op_getitem(I, a[0], p);
        value_unref(p);
        return r;
    }
    Value list = unwrap_base(a[0]);
    if (list.tag != V_LIST)
        return raise(I, EXC_TypeError, "shuffle changes a list, not %s", value_type_name(a[0]));
    shuffle(I, as_list(list)->at, as_list(list)->n);
    return guard(I, VNONE);
}

static Value f_sample(Interp *I, Value *a)              /* population, k */
{
    int64_t k;
    Value list = value_to_list(I, a[0]);
    if (is_err(list) || !value_as_int(I, a[1], &k))
        return VERR;
    if (k < 0 || k > as_list(list)->n) {
        int64_t n = as_list(list)->n;
        value_unref(list);
        return raise(I, EXC_ValueError, "cannot take %lld of %lld elements", (long long)k, (long long)n);
    }
    shuffle(I, as_list(list)->at, as_list(list)->n);
    ListObj *l = as_list(list);
    while (l->n > k)
        value_unref(l->at[--l->n]);
    return guard(I, list);
}

static Value f_gauss(Interp *I, Value *a)
{
    double mu, sigma;
    if (!value_as_float(I, a[0], &mu) || !value_as_float(I, a[1], &sigma))
        return VERR;
    return guard(I, vfloat(mu + sigma * host_normal(I)));
}

/* ------------------------------------------------------------- tensors */

/* Do the positional arguments name a shape? Floats, or two plain numbers, are Python's bounds. */
static bool is_shape(const TupleObj *t)
{
    if (t->n == 1 && (t->at[0].tag == V_TUPLE || t->at[0].tag == V_LIST))
        return true;
    for (int64_t i = 0; i < t->n; i++)
        if (t->at[i].tag != V_INT && !is_symint(t->at[i]))
            return false;
    return t->n == 1 || t->n > 2;
}

static bool is_sizes(Value v) { return v.tag == V_TUPLE || v.tag == V_LIST; }

/*
 * NumPy's order, (low, high, shape), and (shape, low, high): three positions, of which one end is a shape in brackets, or a number of
 * elements behind bounds that are no ints.  The bounds go to first and second, the shape to where shape= stands.
 */
static bool bounds_told(Value *a, int first, int second)
{
    const TupleObj *t = as_tuple(a[0]);
    bool floats = t->n == 3 && (t->at[0].tag == V_FLOAT || t->at[1].tag == V_FLOAT);
    int at = t->n == 3 && !is_given(a[1]) ? is_sizes(t->at[0]) ? 0 : is_sizes(t->at[2]) || floats ? 2 : -1 : -1;

    if (at < 0)
        return false;
    a[1] = t->at[at];
    a[first] = t->at[at ? 0 : 1];
    a[second] = t->at[at ? 1 : 2];
    return true;
}

static Value scaled(Interp *I, Tensor *x, Value scale, Value shift)
{
    Value v = value_of(x), w;
    if (!is_err(v) && !(scale.tag == V_FLOAT && scale.f == 1.0) && !(scale.tag == V_INT && scale.i == 1)) {
        w = tensor_op_binary(I, AOP_MUL, v, scale);
        value_unref(v);
        v = w;
    }
    if (!is_err(v) && !(shift.tag == V_FLOAT && shift.f == 0.0) && !(shift.tag == V_INT && shift.i == 0)) {
        w = tensor_op_binary(I, AOP_ADD, v, shift);
        value_unref(v);
        v = w;
    }
    return v;
}

/* *shape, shape=, low, high, dtype, key */
static Value f_uniform(Interp *I, Value *a)
{
    TupleObj *t = as_tuple(a[0]);
    int rank;
    Dim shape[RANK_MAX];
    DType dt = DT_f32;
    Tensor *key;
    double lo, hi;
    bool told = bounds_told(a, 2, 3);
    if (!is_given(a[1]) && !is_shape(t)) {
        lo = 0, hi = 1;
        if (t->n == 2 && (!value_as_float(I, t->at[0], &lo) || !value_as_float(I, t->at[1], &hi)))
            return VERR;
        return guard(I, vfloat(lo + (hi - lo) * host_uniform(I)));
    }
    if (!(told ? arg_shape(I, a[1], &rank, shape) : arg_shape_star(I, a[0], a[1], &rank, shape)))
        return VERR;
    if (!arg_dtype(I, a[4], &dt) || !arg_key(I, a[5], &key))
        return VERR;
    Tensor *u = draw(I, DIST_UNIFORM, dt, rank, shape, 0, 0, key);
    if (!value_as_float(I, a[2], &lo) || !value_as_float(I, a[3], &hi)) {
        tensor_unref(u);
        return VERR;
    }
    return with_policy(I, scaled(I, u, vfloat(hi - lo), vfloat(lo)), a[4]);
}

/* *shape, shape=, mean, std, dtype, key */
static Value f_normal(Interp *I, Value *a)
{
    TupleObj *t = as_tuple(a[0]);
    int rank;
    Dim shape[RANK_MAX];
    DType dt = DT_f32;
    Tensor *key;
    bool told = bounds_told(a, 2, 3);
    if (!is_given(a[1]) && t->n != 0 && !(t->n == 1 && (t->at[0].tag == V_TUPLE || t->at[0].tag == V_LIST)))
        for (int64_t i = 0; i < t->n; i++)
            if (t->at[i].tag == V_FLOAT) {
                double mu = 0, sigma = 1;
                if (!value_as_float(I, t->at[0], &mu) || (t->n > 1 && !value_as_float(I, t->at[1], &sigma)))
                    return VERR;
                return guard(I, vfloat(mu + sigma * host_normal(I)));
            }
    if (!(told ? arg_shape(I, a[1], &rank, shape) : arg_shape_star(I, a[0], a[1], &rank, shape)))
        return VERR;
    if (!arg_dtype(I, a[4], &dt) || !arg_key(I, a[5], &key))
        return VERR;
    return with_policy(I, scaled(I, draw(I, DIST_NORMAL, dt, rank, shape, 0, 0, key), a[3], a[2]), a[4]);
}

static Value f_bernoulli(Interp *I, Value *a)           /* p, shape, dtype, key */
{
    int rank = 0;
    Dim shape[RANK_MAX];
    DType dt = DT_f32;
    Tensor *key, *p = arg_tensor(I, a[0], "bernoulli");
    if (!p || !arg_dtype(I, a[2], &dt) || !arg_key(I, a[3], &key) || (is_given(a[1]) && !arg_shape(I, a[1], &rank, shape))) {
        tensor_unref(p);
        return VERR;
    }
    if (!is_given(a[1])) {
        rank = p->rank;
        memcpy(shape, p->shape, sizeof(Dim) * (size_t)rank);
    }
    p = do_convert(I, p, DT_f32);
    Tensor *u = draw(I, DIST_UNIFORM, DT_f32, rank, shape, 0, 0, key);
    return with_policy(I, value_of(do_convert(I, chain2(I, OP_lt, NULL, u, p), dt)), a[2]);
}

static Value f_randint(Interp *I, Value *a)             /* lo, hi, shape, dtype, key */
{
    int64_t lo, hi;
    int rank;
    Dim shape[RANK_MAX];
    DType dt = DT_int32;
    Tensor *key;
    if (!value_as_int(I, a[0], &lo) || !value_as_int(I, a[1], &hi))
        return VERR;
    if (!is_given(a[2])) {                              /* Python's: both ends included */
        if (hi < lo)
            return raise(I, EXC_ValueError, "randint(%lld, %lld) is empty", (long long)lo, (long long)hi);
        return guard(I, vint(lo + (int64_t)host_below(I, (uint64_t)(hi - lo) + 1)));
    }
    if (hi <= lo)
        return raise(I, EXC_ValueError, "randint(%lld, %lld, shape) is empty: the upper end is not included", (long long)lo, (long long)hi);
    if (!arg_shape(I, a[2], &rank, shape) || !arg_dtype(I, a[3], &dt) || !arg_key(I, a[4], &key))
        return VERR;
    return scaled(I, draw(I, DIST_RANDINT, dt, rank, shape, 0, hi - lo, key), vint(1), vint(lo));
}

static Tensor *permuted(Interp *I, Dim n, Tensor *key)
{
    Attr a = attr_default();
    return chain1(I, OP_argsort, &a, draw(I, DIST_BITS, DT_uint32, 1, &n, 0, 0, key));
}

static Value f_permutation(Interp *I, Value *a)         /* n or tensor, key */
{
    Tensor *key;
    Dim n;
    if (!arg_key(I, a[1], &key))
        return VERR;
    if (a[0].tag != V_TENSOR || !as_tensor(a[0])->rank) {
        if (!value_as_size(I, a[0], &n))
            return VERR;
        return size_is_negative(n) ? raise(I, EXC_ValueError, "permutation of %s elements", dim_text(n)) : value_of(permuted(I, n, key));
    }
    Value p = value_of(permuted(I, as_tensor(a[0])->shape[0], key));
    Value r = is_err(p) ? VERR : tensor_op_getitem(I, a[0], p);
    value_unref(p);
    return r;
}

static Value f_bits(Interp *I, Value *a)                /* shape, key */
{
    int rank;
    Dim shape[RANK_MAX];
    Tensor *key;
    if (!arg_shape(I, a[0], &rank, shape) || !arg_key(I, a[1], &key))
        return VERR;
    return value_of(draw(I, DIST_BITS, DT_uint32, rank, shape, 0, 0, key));
}

/* ------------------------------------------------------------- keys and state */

/* A key, whose data is a tensor or, in a skeleton, a mark: with random.key(5): draws start from it. Also the saved state of deterministic scopes. */
typedef struct Key { NativeInst inst; Value data; uint64_t seed, draws; bool seeded; struct Saved { Tensor *key; uint64_t seed, draws; } was; } Key;

static void key_free(void *self)
{
    value_unref(((Key *)self)->data);
    tensor_unref(((Key *)self)->was.key);
}

static Value key_getattr(Interp *I, void *self, Sym name)
{
    Key *k = self;
    return !strcmp(name->text, "data") && k->data.tag == V_TENSOR ? value_ref(k->data) : VERR;
}

static const NativeType key_type = {.name = "random_key", .free = key_free, .getattr = key_getattr};

static Key *key_new(Value data)
{
    Key *k = nativeobj_new(&key_type, sizeof *k);
    k->data = data;
    return k;
}

Value random_key_of(Value data) { return vobj(key_new(data)); }

Value random_key_data(Value v)
{
    const Key *k = (const Key *)v.o;
    return v.tag != V_NATIVEOBJ || k->inst.type != &key_type || k->seeded ? VERR : k->data;
}

static Value f_key(Interp *I, Value *a)
{
    Tensor *t;
    if (!arg_key(I, a[0], &t))
        return VERR;
    return random_key_of(tensor_value(t ? t : trace_key(trace_of(I))));
}

/* A scope in which the generator restarts from a seed; the former state returns after it. */
static Value f_scope(Interp *I, Value *a)
{
    int64_t seed;
    if (!value_as_int(I, a[0], &seed))
        return VERR;
    Key *k = key_new(VNONE);
    k->seed = (uint64_t)seed;
    k->seeded = true;
    return vobj(k);
}

static Value key_enter(Interp *I, Value *a)
{
    Key *k = (Key *)a[0].o;
    Trace *T = trace_of(I);
    tensor_unref(k->was.key);
    k->was = (struct Saved){T->key, T->seed, T->draws};
    T->key = k->seeded ? NULL : tensor_ref(as_tensor(k->data));
    T->seed = k->seeded ? k->seed : T->seed;
    T->draws = 0;
    return value_ref(a[0]);
}

static Value key_exit(Interp *I, Value *a)
{
    Key *k = (Key *)a[0].o;
    Trace *T = trace_of(I);
    tensor_unref(T->key);
    T->key = k->was.key;
    T->seed = k->was.seed;
    T->draws = k->was.draws;
    k->was.key = NULL;
    return vbool(false);
}

static Value f_split(Interp *I, Value *a)               /* key, n */
{
    Tensor *key;
    int64_t n;
    if (!arg_key(I, a[0], &key) || !value_as_int(I, a[1], &n))
        return VERR;
    Value out = list_new(n);
    for (int64_t i = 0; i < n; i++) {
        Tensor *at = tensor_scalar_i(DT_int32, i), *sub = run_op(I, OP_fold_key, NULL, (Tensor *[]){key, at}, 2);
        tensor_unref(at);
        if (!sub)
            break;
        list_push(as_list(out), random_key_of(tensor_value(sub)));
    }
    tensor_unref(key);
    return guard(I, out);
}

/* What is written in the library's file random_classes. */
static Value of_library(Interp *I, const char *name)
{
    Value space = prelude_get(I, "random_classes");
    return is_err(space) ? VERR : value_getattr(I, space, sym(name));
}

#define OF_LIBRARY(name) static Value c_##name(Interp *I, Value *a) { return of_library(I, #name); }
OF_LIBRARY(Random) OF_LIBRARY(expovariate) OF_LIBRARY(triangular) OF_LIBRARY(lognormvariate) OF_LIBRARY(paretovariate) OF_LIBRARY(weibullvariate)
OF_LIBRARY(vonmisesvariate)
OF_LIBRARY(gammavariate) OF_LIBRARY(betavariate) OF_LIBRARY(getrandbits) OF_LIBRARY(randbytes)

#define KEYED ", dtype: dtype | str | None = None, key=None"
const NativeDef tensor_random_natives[] = {
    {"random", "Random", c_Random, "type[Random]", "A generator of its own."},
    {"random", "expovariate", c_expovariate, "Callable", "An exponentially distributed float."},
    {"random", "triangular", c_triangular, "Callable", "A float between two, most often near a third."},
    {"random", "lognormvariate", c_lognormvariate, "Callable", "exp of a normally distributed float."},
    {"random", "paretovariate", c_paretovariate, "Callable", "A Pareto distributed float, from 1."},
    {"random", "weibullvariate", c_weibullvariate, "Callable", "A Weibull distributed float."},
    {"random", "vonmisesvariate", c_vonmisesvariate, "Callable", "An angle that is distributed around another."},
    {"random", "gammavariate", c_gammavariate, "Callable", "A gamma distributed float."},
    {"random", "betavariate", c_betavariate, "Callable", "A beta distributed float."},
    {"random", "getrandbits", c_getrandbits, "Callable", "An int of so many random bits."},
    {"random", "random", f_random, "() -> float", "A float in [0, 1)."},
    {"random", "randbytes", c_randbytes, "Callable", "So many random bytes."},
    {"random", "getstate", f_getstate, "() -> tuple", "What setstate takes to draw the same numbers again."},
    {"random", "setstate", f_setstate, "(state: tuple, /) -> None", "Go on from where getstate was asked."},
    {"random", "seed", f_seed, "(seed: int = 0) -> None", "Restart the generator: equal seeds give equal numbers."},
    {"random", "randrange", f_randrange, "(start: int, stop: int | None = None, step: int | None = None) -> int", "An int of range(start, stop, step)."},
    {"random", "choice", f_choice, "(seq)", "One element of a sequence."},
    {"random", "choices", f_choices, "(population, weights: list | None = None, k: int = 1) -> list", "k elements, with replacement."},
    {"random", "shuffle", f_shuffle, "(x)", "A list shuffled in place; a tensor's rows shuffled into a new tensor."},
    {"random", "sample", f_sample, "(population, k: int) -> list", "k different elements."},
    {"random", "gauss", f_gauss, "(mu: float = 0.0, sigma: float = 1.0) -> float", "A normally distributed float."},
    {"random", "normalvariate", f_gauss, "(mu: float = 0.0, sigma: float = 1.0) -> float", "A normally distributed float."},
    {"random", "uniform", f_uniform, "(*shape, shape=None, low: float = 0.0, high: float = 1.0" KEYED ")",
     "With a shape a tensor of numbers in [low, high); uniform(a, b) a float. uniform(low, high, shape) is NumPy's order."},
    {"random", "normal", f_normal, "(*shape, shape=None, mean: float | Tensor = 0.0, std: float | Tensor = 1.0" KEYED ")",
     "With a shape a tensor of normally distributed numbers; normal(mu, sigma) of floats a float. normal(mean, std, shape) is NumPy's order."},
    {"random", "bernoulli", f_bernoulli, "(p: float | Tensor, shape=None" KEYED ") -> Tensor", "1 with probability p, else 0; f32."},
    {"random", "randint", f_randint, "(lo: int, hi: int, shape=None" KEYED ")",
     "With a shape an int32 tensor of numbers lo <= x < hi; without one an int lo <= x <= hi, as in Python."},
    {"random", "permutation", f_permutation, "(x: int | Tensor, key=None) -> Tensor", "The numbers 0 .. x-1 in random order, or the tensor's rows so."},
    {"random", "bits", f_bits, "(shape, key=None) -> Tensor", "Random uint32."},
    {"random", "key", f_key, "(seed: int | None = None) -> random_key", "A key: pass it as key=, or use it as a scope, `with random.key(5):`."},
    {"random", "split", f_split, "(key, n: int = 2) -> list", "n independent keys made from one."},
    {"random", "scope", f_scope, "(seed: int) -> random_key", "A scope whose draws start from the seed; the state before it returns afterwards."},
    {"random_key", "__enter__", key_enter, "(self)", "Begin drawing from the key."},
    {"random_key", "__exit__", key_exit, "(self, kind, value, traceback)", "Return to the former state."},
    {0},
};
