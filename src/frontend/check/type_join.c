/*
 * What holds several types: the type of a variable that two ways set, of elements that a list collects, of what rounds of a loop change.
 * Parts that differ are forgotten one by one: sizes first, then items, then classes; what has nothing in common is one of both, or unknown.
 */
#include "frontend/check/type.h"

#include "frontend/check/checker.h"

#include <stdio.h>

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
    return n == 1 ? m[0] : type_intern(&(Type){.kind = TY_UNION, .n = n, .item = m});
}

const Type *type_untested(const Type *u)
{
    return type_intern(&(Type){.kind = TY_UNION, .exact = 1, .n = u->n, .item = u->item});
}

const Type *type_tested(const Type *t)
{
    return type_is_untested(t) ? type_intern(&(Type){.kind = TY_UNION, .n = t->n, .item = t->item}) : t;
}

static const Type *join_items(const Type *a, const Type *b)
{
    const Type *m[ITEMS_MAX];

    for (int i = 0; i < a->n; i++)
        m[i] = type_join(a->item[i], b->item[i]);
    return type_intern(&(Type){.kind = a->kind, .n = a->n, .item = m});
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
    return type_intern(&made);
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
