/* One table of types; constructors build a candidate on the stack and look it up. type_join.c has what holds several. */
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

const Type *type_intern(const Type *t)
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
    return type_plain[k] = type_intern(&(Type){.kind = (uint8_t)k});
}

const Type *type_bool(bool value)
{
    return type_intern(&(Type){.kind = TY_BOOL, .value = value ? BOOL_TRUE : BOOL_FALSE});
}

const Type *type_instance(const void *cls, const void *inst)
{
    return type_intern(&(Type){.kind = TY_INSTANCE, .ref = cls, .inst = inst});
}

const Type *type_int(Dim value)
{
    return type_intern(&(Type){.kind = TY_INT, .value = value});
}

const Type *type_float(double value)
{
    int64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return type_intern(&(Type){.kind = TY_FLOAT, .exact = 1, .value = bits});
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
    return type_intern(&(Type){.kind = TY_STR, .text = text});
}

const Type *type_object(Sym cls)
{
    return type_intern(&(Type){.kind = TY_OBJECT, .text = cls});
}

const Type *type_iterable(Sym cls, const Type *elem)
{
    return type_intern(&(Type){.kind = TY_OBJECT, .text = cls, .n = 1, .item = &elem});
}

const Type *type_view_of(Sym cls, const Type *const *items, int n)
{
    return n ? type_intern(&(Type){.kind = TY_OBJECT, .text = cls, .exact = 1, .n = n, .item = items}) : type_iterable(cls, T_ANY);
}

const Type *type_lazy(const void *space, Sym name)
{
    return type_intern(&(Type){.kind = TY_LAZY, .ref = space, .text = name});
}

const Type *type_dtype(DType dt, const Policy *policy)
{
    return type_intern(&(Type){.kind = TY_DTYPE, .value = dt, .ref = policy});
}

const Type *type_list(const Type *elem)
{
    return type_intern(&(Type){.kind = TY_LIST, .n = 1, .item = &elem});
}

const Type *type_list_of(const Type *const *items, int n)
{
    const Type *elem = NULL;

    if (n && n <= ITEMS_MAX)
        return type_intern(&(Type){.kind = TY_LIST, .exact = 1, .n = n, .item = items});
    for (int i = 0; i < n; i++)
        elem = elem ? type_join(elem, items[i]) : items[i];
    return type_list(elem ? elem : T_ANY);
}

const Type *type_range_of(const Type *const *items, int n)
{
    return type_intern(&(Type){.kind = TY_RANGE, .exact = 1, .n = n, .item = n ? items : NULL});
}

const Type *type_tuple(const Type *const *items, int n)
{
    return type_intern(&(Type){.kind = TY_TUPLE, .n = n, .item = items});
}

const Type *type_tuple_any(const Type *elem)
{
    return type_intern(&(Type){.kind = TY_TUPLE, .n = -1, .item = &elem});
}

const Type *type_dict(const Type *key, const Type *val)
{
    const Type *kv[2] = {key, val};

    return type_intern(&(Type){.kind = TY_DICT, .n = 2, .item = kv});
}

const Type *type_dict_of(const Type *const *items, int n)
{
    return type_intern(&(Type){.kind = TY_DICT, .exact = 1, .n = n, .item = items});
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
    return type_intern(&(Type){.kind = TY_SET, .n = 1, .item = &elem});
}

const Type *type_ref(TypeKind k, const void *ref)
{
    return type_intern(&(Type){.kind = (uint8_t)k, .ref = ref});
}

const Type *type_method(const Type *self, const Type *func)
{
    return type_intern(&(Type){.kind = TY_METHOD, .self = self, .ref = func});
}

const Type *type_partial(int64_t which, const Type *func, const Type *const *items, int n)
{
    return type_intern(&(Type){.kind = TY_TRANSFORM, .value = which, .ref = func, .n = n, .item = items});
}

const Type *type_transform(int64_t which, const Type *func)
{
    return type_intern(&(Type){.kind = TY_TRANSFORM, .value = which, .ref = func});
}

const Type *type_callable(const Type *const *params, int n, const Type *result)
{
    const Type *all[ITEMS_MAX + 1];

    if (n > ITEMS_MAX)
        return T_ANY;
    for (int i = 0; i < n; i++)
        all[i] = params[i];
    all[n < 0 ? 0 : n] = result;
    return type_intern(&(Type){.kind = TY_CALLABLE, .n = n, .item = all});
}

const Type *type_tensor(const TType *t)
{
    return type_intern(&(Type){.kind = TY_TENSOR, .tensor = t});
}

const Type *type_tensor_rest(const TType *t, int front, int back)
{
    return type_intern(&(Type){.kind = TY_TENSOR, .tensor = t, .n = front | back << 8});
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
    return type_intern(&made);
}

const Type *type_kernel(int which, const Type *item, const TType *t)
{
    return type_intern(&(Type){.kind = TY_KERNEL, .value = which, .n = item != NULL, .item = item ? &item : NULL, .tensor = t});
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
    return type_intern(&made);
}
