/* One table of types; constructors build a candidate on the stack and look it up. */
#include "frontend/check/type.h"

#include "frontend/check/checker.h"
#include "frontend/eval/native.h"

#include "base/arena.h"
#include "base/hash.h"

#include <stdio.h>
#include <string.h>

/*
 * Open addressing at a load of at most one half; a slot has the hash too, so that other types are not looked at.
 * What was asked for last is asked for again: `recent` is small enough to stay near the processor.
 */
typedef struct { uint32_t at, hash; } Slot;             /* at: place in `types`, from 1 */
typedef struct { const Type *type; uint32_t hash; } Recent;
enum { FIRST_SLOTS = 1 << 12, RECENT = 1 << 10 };
static Arena pool;
static Slot *slots;
static Recent recent[RECENT];
static uint32_t nslots;
static Vec(const Type *) types;         /* of this check, in the order of their making */
const Type *type_plain[TY_LAZY + 1];
static uint32_t before = 1;             /* the number of the first of them: those of earlier checks have the lower ones */

/* How many sizes of a tensor are known. */
static int sizes_of(const Type *t)
{
    return t->tensor->rank != RANK_UNKNOWN ? t->tensor->rank : type_front(t) + type_back(t);
}

/* A callable has its parameters and its result; of unknown parameters the result alone. */
static int item_count(const Type *t)
{
    int some = t->kind == TY_CALLABLE ? 0 : 1;

    return t->item ? (t->n < 0 ? some : t->n) + (t->kind == TY_CALLABLE) : 0;
}

static uint32_t hash_type(const Type *t)
{
    uint64_t h = t->kind * 31u + t->exact + (uint64_t)t->n * 7;

    h = h * 1099511628211u ^ ((uint64_t)t->value + (uintptr_t)t->text);     /* no kind has both */
    h = h * 1099511628211u ^ (uintptr_t)t->ref;
    h = h * 1099511628211u ^ ((uintptr_t)t->self + (uintptr_t)t->inst);
    for (int i = 0; i < item_count(t); i++)
        h = h * 1099511628211u ^ (uintptr_t)t->item[i];
    if (t->tensor) {
        h = h * 31 + t->tensor->dtype * 256u + t->tensor->rank;
        for (int i = 0; i < sizes_of(t); i++)
            h = h * 1099511628211u ^ (uint64_t)t->tensor->shape[i];
    }
    return (uint32_t)hash_u64(h);
}

static bool same_tensor(const Type *s, const Type *t)
{
    const TType *a = s->tensor, *b = t->tensor;

    if (!a || !b)
        return a == b;
    return a->dtype == b->dtype && a->rank == b->rank && a->weak == b->weak && a->policy == b->policy &&
           !memcmp(a->shape, b->shape, sizeof(Dim) * (size_t)sizes_of(s));
}

static bool same_items(const Type *a, const Type *b)
{
    size_t n = (size_t)item_count(a);

    if (!n || a->item == b->item)
        return true;
    return a->item && b->item && !memcmp(a->item, b->item, sizeof *a->item * n);
}

static bool same(const Type *a, const Type *b)
{
    return a->kind == b->kind && a->exact == b->exact && a->n == b->n && a->value == b->value && a->text == b->text &&
           a->ref == b->ref && a->self == b->self && a->inst == b->inst && item_count(a) == item_count(b) &&
           same_items(a, b) && same_tensor(a, b);
}

static Slot *free_slot(uint32_t hash)
{
    uint32_t i = hash & (nslots - 1);

    while (slots[i].at)
        i = (i + 1) & (nslots - 1);
    return &slots[i];
}

static void grow(void)
{
    Slot *old = slots;
    uint32_t n = nslots;

    nslots = n ? n * 2 : FIRST_SLOTS;
    slots = tsr_calloc(nslots * sizeof *slots);
    for (uint32_t i = 0; i < n; i++)
        if (old[i].at)
            *free_slot(old[i].hash) = old[i];
    tsr_free(old);
}

/* The tree's size; beyond TYPE_NODES nobody counts on. */
static uint32_t nodes_of(const Type *t)
{
    uint32_t n = 1 + (t->self ? t->self->nodes : 0);

    for (int i = 0; t->item && i < item_count(t) && n <= TYPE_NODES; i++)
        n += t->item[i] ? t->item[i]->nodes : 0;
    return n;
}

/* What is known of a container that is too large to be followed. */
static const Type *too_large(const Type *t)
{
    switch (t->kind) {
    case TY_LIST: return type_list(T_ANY);
    case TY_TUPLE: return type_tuple_any(T_ANY);
    case TY_DICT: return type_dict(T_ANY, T_ANY);
    case TY_SET: return type_set(T_ANY);
    default: return T_ANY;
    }
}

static const Type *look_up(const Type *t, uint32_t h)
{
    uint32_t i;
    Type *made;

    if ((uint32_t)types.n * 2 >= nslots)
        grow();
    for (i = h & (nslots - 1); slots[i].at; i = (i + 1) & (nslots - 1))
        if (slots[i].hash == h && same(types.at[slots[i].at - 1], t))
            return types.at[slots[i].at - 1];
    if (nodes_of(t) > TYPE_NODES)
        return too_large(t);
    made = arena_alloc(&pool, sizeof *t + (t->tensor ? sizeof *t->tensor : 0));     /* beside each other: one look into memory */
    *made = *t;
    made->nodes = nodes_of(t);
    if (t->item)
        made->item = arena_copy(&pool, t->item, sizeof *t->item * (size_t)item_count(t));
    if (t->tensor)
        made->tensor = memcpy(made + 1, t->tensor, sizeof *t->tensor);
    made->number = before + (uint32_t)types.n;
    vec_push(&types, made);
    slots[i] = (Slot){(uint32_t)types.n, h};
    return made;
}

static const Type *intern(const Type *t)
{
    uint32_t h = hash_type(t);
    Recent *s = &recent[h >> 16 & (RECENT - 1)];

    if (!s->type || s->hash != h || !same(s->type, t))
        *s = (Recent){look_up(t, h), h};
    return s->type;
}

void types_done(void)
{
    before += (uint32_t)types.n;
    arena_done(&pool);
    vec_free(&types);
    tsr_free(slots);
    slots = NULL;
    nslots = 0;
    memset(recent, 0, sizeof recent);
    memset(type_plain, 0, sizeof type_plain);
}

const Type *type_found(const Ast *e)
{
    uint32_t i = e->found - before;

    return i < (uint32_t)types.n ? types.at[i] : NULL;
}

void type_note(Ast *e, const Type *t) { e->found = t->number; }

/* ------------------------------------------------------------- making */

const Type *type_plain_new(TypeKind k)
{
    return type_plain[k] = intern(&(Type){.kind = (uint8_t)k});
}

const Type *type_bool(bool value)
{
    return intern(&(Type){.kind = TY_BOOL, .value = value ? BOOL_TRUE : BOOL_FALSE});
}

const Type *type_instance(const void *cls, const void *inst)
{
    return intern(&(Type){.kind = TY_INSTANCE, .ref = cls, .inst = inst});
}

const Type *type_int(Dim value)
{
    return intern(&(Type){.kind = TY_INT, .value = value});
}

const Type *type_float(double value)
{
    int64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return intern(&(Type){.kind = TY_FLOAT, .exact = 1, .value = bits});
}

bool type_float_value(const Type *t, double *out)
{
    int64_t n;

    if (t->kind == TY_INT && t->value != DIM_BAD && dim_const_value(t->value, &n)) {
        *out = (double)n;
        return n >= -(1ll << 53) && n <= 1ll << 53;
    }
    if (t->kind == TY_FLOAT && t->exact)
        memcpy(out, &t->value, sizeof *out);
    return t->kind == TY_FLOAT && t->exact;
}

const Type *type_str(Sym text)
{
    return intern(&(Type){.kind = TY_STR, .text = text});
}

const Type *type_object(Sym cls)
{
    return intern(&(Type){.kind = TY_OBJECT, .text = cls});
}

const Type *type_iterable(Sym cls, const Type *elem)
{
    return intern(&(Type){.kind = TY_OBJECT, .text = cls, .n = 1, .item = &elem});
}

const Type *type_view_of(Sym cls, const Type *const *items, int n)
{
    return n ? intern(&(Type){.kind = TY_OBJECT, .text = cls, .exact = 1, .n = n, .item = items}) : type_iterable(cls, T_ANY);
}

const Type *type_lazy(const void *space, Sym name)
{
    return intern(&(Type){.kind = TY_LAZY, .ref = space, .text = name});
}

const Type *type_dtype(DType dt, const Policy *policy)
{
    return intern(&(Type){.kind = TY_DTYPE, .value = dt, .ref = policy});
}

const Type *type_list(const Type *elem)
{
    return intern(&(Type){.kind = TY_LIST, .n = 1, .item = &elem});
}

const Type *type_list_of(const Type *const *items, int n)
{
    const Type *elem = NULL;

    if (n && n <= ITEMS_MAX)
        return intern(&(Type){.kind = TY_LIST, .exact = 1, .n = n, .item = items});
    for (int i = 0; i < n; i++)
        elem = elem ? type_join(elem, items[i]) : items[i];
    return type_list(elem ? elem : T_ANY);
}

const Type *type_range_of(const Type *const *items, int n)
{
    return intern(&(Type){.kind = TY_RANGE, .exact = 1, .n = n, .item = n ? items : NULL});
}

const Type *type_tuple(const Type *const *items, int n)
{
    return intern(&(Type){.kind = TY_TUPLE, .n = n, .item = items});
}

const Type *type_tuple_any(const Type *elem)
{
    return intern(&(Type){.kind = TY_TUPLE, .n = -1, .item = &elem});
}

const Type *type_dict(const Type *key, const Type *val)
{
    const Type *kv[2] = {key, val};

    return intern(&(Type){.kind = TY_DICT, .n = 2, .item = kv});
}

const Type *type_dict_of(const Type *const *items, int n)
{
    return intern(&(Type){.kind = TY_DICT, .exact = 1, .n = n, .item = items});
}

const Type *type_dict_get(const Type *t, Sym key)
{
    for (int i = 0; t->exact && i + 1 < t->n; i += 2)
        if (t->item[i]->text == key)
            return t->item[i + 1];
    return NULL;
}

const Type *type_dict_find(const Type *t, const Type *key)
{
    for (int i = 0; t->exact && i + 1 < t->n; i += 2)
        if (t->item[i] == key)
            return t->item[i + 1];
    return NULL;
}

const Type *type_set(const Type *elem)
{
    return intern(&(Type){.kind = TY_SET, .n = 1, .item = &elem});
}

const Type *type_ref(TypeKind k, const void *ref)
{
    return intern(&(Type){.kind = (uint8_t)k, .ref = ref});
}

const Type *type_method(const Type *self, const Type *func)
{
    return intern(&(Type){.kind = TY_METHOD, .self = self, .ref = func});
}

const Type *type_partial(int64_t which, const Type *func, const Type *const *items, int n)
{
    return intern(&(Type){.kind = TY_TRANSFORM, .value = which, .ref = func, .n = n, .item = items});
}

const Type *type_transform(int64_t which, const Type *func)
{
    return intern(&(Type){.kind = TY_TRANSFORM, .value = which, .ref = func});
}

const Type *type_callable(const Type *const *params, int n, const Type *result)
{
    const Type *all[ITEMS_MAX + 1];

    if (n > ITEMS_MAX)
        return T_ANY;
    for (int i = 0; i < n; i++)
        all[i] = params[i];
    all[n < 0 ? 0 : n] = result;
    return intern(&(Type){.kind = TY_CALLABLE, .n = n, .item = all});
}

const Type *type_tensor(const TType *t)
{
    return intern(&(Type){.kind = TY_TENSOR, .tensor = t});
}

const Type *type_tensor_rest(const TType *t, int front, int back)
{
    return intern(&(Type){.kind = TY_TENSOR, .tensor = t, .n = front | back << 8});
}

const Type *type_tensor_unknown(void)
{
    TType t = {.dtype = DT_NONE, .rank = RANK_UNKNOWN};

    return type_tensor(&t);
}

const Type *type_tensor_like(const TType *x)
{
    TType t = {.dtype = x->dtype, .policy = x->policy, .rank = RANK_UNKNOWN};

    return type_tensor(&t);
}

bool type_has_none(const Type *t)
{
    if (type_is_any(t) || t->kind == TY_NONE)
        return true;
    for (int i = 0; t->kind == TY_UNION && i < t->n; i++)
        if (type_has_none(t->item[i]))
            return true;
    return false;
}

const Type *type_some(const Type *t)
{
    const Type *left = NULL;

    for (int i = 0; t && t->kind == TY_UNION && i < t->n; i++)
        if (t->item[i]->kind != TY_NONE)
            left = left ? type_union(left, t->item[i]) : t->item[i];
    return left ? left : t;
}

const Type *type_placed(const Type *tensor, const void *place)
{
    Type made = *tensor;

    made.ref = place;
    return intern(&made);
}

const Type *type_kernel(int which, const Type *item, const TType *t)
{
    return intern(&(Type){.kind = TY_KERNEL, .value = which, .n = item != NULL, .item = item ? &item : NULL, .tensor = t});
}

/* ------------------------------------------------------------- unknown sizes */

Dim dim_open(void)
{
    return dim_var(sym("?"), 0, INT64_MAX);
}

Dim dim_chosen(Sym name)
{
    char text[64];

    snprintf(text, sizeof text, "?%s", name->text);
    return dim_var(sym(text), -(INT64_C(1) << 40), INT64_MAX);
}

bool dim_is_chosen(Dim d)
{
    Dim vars[8];
    StrBuf name = {0};
    int n = dim_is_const(d) || d == DIM_BAD ? 0 : dim_vars(d, vars, 8);
    bool all = n > 0 && n < 8;

    for (int i = 0; all && i < n; i++) {
        sb_clear(&name);
        dim_print(vars[i], &name);
        all = dim_is_open(vars[i]) && sb_str(&name)[0] != '?' && !strchr(sb_str(&name), '.');
    }
    sb_done(&name);
    return all;
}

/* What a size is that is one thing or the other: one of them where that tells nothing anyway, so that loops come to an end. */
static Dim either_size(Dim a, Dim b)
{
    if (dim_is_open(a) && !dim_is_chosen(a))
        return a;
    return dim_is_open(b) && !dim_is_chosen(b) ? b : dim_open();
}

bool dim_mentions_open(Dim d)
{
    return d == DIM_BAD || dim_has_var(d, '?');
}

bool ttype_is_open(const TType *t)
{
    if (t->rank == RANK_UNKNOWN || t->dtype == DT_NONE)
        return true;
    for (int i = 0; i < t->rank; i++)
        if (dim_is_open(t->shape[i]))
            return true;
    return false;
}

/* ------------------------------------------------------------- joining */

static const Type *join_tensors(const TType *a, const TType *b)
{
    TType t = *a;

    if (a->dtype != b->dtype)
        t.dtype = DT_NONE;
    t.weak = a->weak && b->weak;
    if (a->policy != b->policy)
        t.policy = NULL;
    if (a->rank != b->rank)
        t.rank = RANK_UNKNOWN;
    for (int i = 0; t.rank != RANK_UNKNOWN && i < t.rank; i++)
        if (a->shape[i] != b->shape[i])
            t.shape[i] = either_size(a->shape[i], b->shape[i]);
    return type_tensor(&t);
}

static void add_member(const Type **out, int *n, const Type *t)
{
    for (int i = 0; t->kind == TY_UNION && i < t->n; i++)
        add_member(out, n, t->item[i]);
    if (t->kind == TY_UNION || *n > 8)
        return;
    for (int i = 0; i < *n; i++) {
        if (out[i] == t)
            return;
        if (out[i]->kind == TY_INSTANCE && t->kind == TY_INSTANCE && out[i]->ref == t->ref) {
            out[i] = type_instance(t->ref, NULL);
            return;
        }
        if (out[i]->kind == t->kind && t->kind != TY_FUNC && t->kind != TY_INSTANCE && t->kind != TY_CLASS) {
            out[i] = type_join(out[i], t);
            return;
        }
    }
    if (*n < 8)
        out[(*n)++] = t;
    else
        *n = 9;
}

const Type *type_union(const Type *a, const Type *b)
{
    const Type *m[10];
    int n = 0;

    if (type_is_any(a) || type_is_any(b))
        return T_ANY;
    add_member(m, &n, a);
    if (n <= 8)
        add_member(m, &n, b);
    if (n > 8)
        return T_ANY;
    return n == 1 ? m[0] : intern(&(Type){.kind = TY_UNION, .n = n, .item = m});
}

const Type *type_untested(const Type *u)
{
    return intern(&(Type){.kind = TY_UNION, .exact = 1, .n = u->n, .item = u->item});
}

const Type *type_tested(const Type *t)
{
    return type_is_untested(t) ? intern(&(Type){.kind = TY_UNION, .n = t->n, .item = t->item}) : t;
}

static const Type *join_items(const Type *a, const Type *b)
{
    const Type *m[ITEMS_MAX];

    for (int i = 0; i < a->n; i++)
        m[i] = type_join(a->item[i], b->item[i]);
    return intern(&(Type){.kind = a->kind, .n = a->n, .item = m});
}

const Type *type_started(const Type *t)
{
    const Type *elem = NULL;

    if (!t || t->kind != TY_OBJECT || !t->exact || !strncmp(t->text->text, "dict_", 5))
        return t;
    for (int i = 0; i < t->n; i++)
        elem = elem ? type_join(elem, t->item[i]) : t->item[i];
    return type_iterable(t->text, elem);
}

const Type *type_forget(const Type *t)
{
    const Type *m[ITEMS_MAX];

    if (!t)
        return t;
    switch (t->kind) {
    case TY_LIST:
        return type_list(T_ANY);
    case TY_DICT:
        return type_dict(T_ANY, T_ANY);
    case TY_SET:
        return type_set(T_ANY);
    case TY_TUPLE:
        if (t->n > ITEMS_MAX)
            return type_tuple_any(T_ANY);
        for (int i = 0; i < (t->n < 0 ? 1 : t->n); i++)
            m[i] = type_forget(t->item[i]);
        return t->n < 0 ? type_tuple_any(m[0]) : type_tuple(m, t->n);
    default:
        return type_started(t);
    }
}

const Type *type_forget_parts(const Type *t)
{
    const Type *m[ITEMS_MAX];

    if (!type_is_container(t) || !t->exact || t->n > ITEMS_MAX)
        return type_forget(t);
    for (int i = 0; i < t->n; i++)
        m[i] = t->kind == TY_DICT && i % 2 == 0 ? t->item[i] : type_forget(t->item[i]);
    return t->kind == TY_DICT ? type_dict_of(m, t->n) : type_list_of(m, t->n);
}

bool type_is_container(const Type *t)
{
    return t && (t->kind == TY_LIST || t->kind == TY_DICT || t->kind == TY_SET);
}

static const Type *keep(const Type *t, int deep);

static const Type *keep_inner(const Type *t, int deep)
{
    return deep < 4 ? keep(t, deep + 1) : type_forget(t);
}

static const Type *keep(const Type *t, int deep)
{
    const Type *m[ITEMS_MAX];
    Type made;

    if (!type_is_container(t) || !t->item || t->n > ITEMS_MAX)
        return type_forget(t);
    for (int i = 0; i < t->n; i++)
        m[i] = keep_inner(t->item[i], deep);
    made = *t;
    made.item = m;
    return intern(&made);
}

const Type *type_keep(const Type *t)
{
    return keep(t, 0);
}

const Type *type_settle(const Type *t)
{
    const Type *elem = NULL;

    if (t && t->kind == TY_RANGE)
        return type_of_kind(TY_RANGE);
    if (t && t->kind == TY_DICT && t->exact) {
        const Type *key = NULL, *val = NULL;
        for (int i = 0; i < t->n; i += 2) {
            key = key ? type_join(key, t->item[i]) : t->item[i]->kind == TY_STR ? type_str(NULL) : type_int(DIM_BAD);
            val = val ? type_join(val, t->item[i + 1]) : t->item[i + 1];
        }
        return type_dict(key ? key : T_ANY, val ? val : T_ANY);
    }
    if (!t || t->kind != TY_LIST || !t->exact)
        return t;
    for (int i = 0; i < t->n; i++)
        elem = elem ? type_join(elem, t->item[i]) : t->item[i];
    return type_list(elem ? elem : T_ANY);
}

static bool same_keys(const Type *a, const Type *b)
{
    for (int i = 0; a->exact && b->exact && a->n == b->n && i < a->n; i += 2)
        if (a->item[i] != b->item[i])
            return false;
    return a->exact && b->exact && a->n == b->n;
}

static const Type *join_records(const Type *a, const Type *b)
{
    const Type *m[ITEMS_MAX];

    for (int i = 0; i < a->n; i++)
        m[i] = i & 1 ? type_join(a->item[i], b->item[i]) : a->item[i];
    return type_dict_of(m, a->n);
}

const Type *type_join(const Type *a, const Type *b)
{
    if (a == b)
        return a;
    if (type_is_any(a) || type_is_any(b))
        return T_ANY;
    if (a->kind == TY_UNSET || b->kind == TY_UNSET)
        return a->kind == TY_UNSET ? b : a;
    if (a->kind != b->kind)
        return type_union(a, b);
    switch (a->kind) {
    case TY_INT:
        return type_int(DIM_BAD);
    case TY_BOOL: case TY_FLOAT:
        return type_of_kind((TypeKind)a->kind);
    case TY_STR:
        return type_str(NULL);
    case TY_TENSOR:
        return a->ref && a->ref == b->ref ? type_placed(join_tensors(a->tensor, b->tensor), a->ref) : join_tensors(a->tensor, b->tensor);
    case TY_LIST:
        a = type_settle(a);
        b = type_settle(b);
        return a == b ? a : join_items(a, b);
    case TY_SET:
        return join_items(a, b);
    case TY_DICT:
        return same_keys(a, b) ? join_records(a, b) : join_items(type_settle(a), type_settle(b));
    case TY_RANGE:
        return type_of_kind(TY_RANGE);
    case TY_TUPLE:
        return a->n == b->n && a->n >= 0 && a->n <= ITEMS_MAX ? join_items(a, b) : type_tuple_any(T_ANY);
    case TY_FUNC:
    case TY_CLASS:
    case TY_INSTANCE:
    case TY_UNION:
        return type_union(a, b);
    default:
        return T_ANY;
    }
}

const Type *type_subst(const Type *t, const Dim *from, const Dim *to, int n)
{
    const Type *m[ITEMS_MAX + 1];
    TType x;
    Type made;
    bool same = true;
    int count;

    if (type_is_any(t) || !n)
        return t;
    if (t->kind == TY_INT)
        return t->value == DIM_BAD ? t : type_int(dim_subst(t->value, from, to, n));
    if (t->kind == TY_TENSOR) {
        x = *t->tensor;
        for (int i = 0; i < sizes_of(t); i++) {
            x.shape[i] = dim_subst(x.shape[i], from, to, n);
            same &= x.shape[i] == t->tensor->shape[i];
        }
        if (same)
            return t;
        return x.rank == RANK_UNKNOWN ? type_tensor_rest(&x, type_front(t), type_back(t)) : type_tensor(&x);
    }
    count = item_count(t);
    if (!count || count > ITEMS_MAX)
        return t;
    for (int i = 0; i < count; i++) {
        m[i] = type_subst(t->item[i], from, to, n);
        same &= m[i] == t->item[i];
    }
    if (same)
        return t;
    made = *t;
    made.item = m;
    return intern(&made);
}
