/*
 * Builtin functions of host values whose results depend on what they are given:
 * tuple(range(2, x.ndim)) is a tuple of known numbers when the tensor's rank is.
 */
#include "frontend/check/hostcalls.h"

#include "base/words.h"
#include "frontend/check/binding.h"
#include "frontend/check/tensorcalls.h"
#include "frontend/eval/native.h"

#include <string.h>

const Type *host_arg(const CallArgs *a, int i)
{
    return i < a->n && !a->at[i].name && !a->open && !type_is_any(a->at[i].type) ? a->at[i].type : NULL;
}

int type_items(const Type *t, const Type *const **out)
{
    t = record_tuple(t);
    if (type_is_any(t) || t->n < 0 || t->n > ITEMS_MAX ||
        (t->kind != TY_TUPLE && t->kind != TY_RANGE && t->kind != TY_LIST && t->kind != TY_OBJECT) || (t->kind != TY_TUPLE && !t->exact))
        return -1;
    *out = t->item;
    return t->n;
}

static const Type *known_range(const CallArgs *a)
{
    const Type *m[ITEMS_MAX];
    int64_t v[3] = {0, 0, 1};
    int n = 0;

    if (a->n < 1 || a->n > 3)
        return NULL;
    for (int i = 0; i < a->n; i++)
        if (!host_arg(a, i) || !type_int_value(host_arg(a, i), &v[a->n == 1 ? 1 : i]))
            return NULL;
    if (!v[2])
        return NULL;
    for (int64_t i = v[0]; v[2] > 0 ? i < v[1] : i > v[1]; i += v[2]) {
        if (n == ITEMS_MAX)
            return NULL;
        m[n++] = type_int(dim_const(i));
    }
    return type_range_of(m, n);
}

static const Type *host_range(Check *C, const CallArgs *a, Ast *node)
{
    const Type *t = known_range(a);

    for (int i = 0; i < a->n && i < 3; i++)
        if (host_arg(a, i) && host_arg(a, i)->kind == TY_FLOAT && host_arg(a, i)->exact)
            diag_help(REPORT(C, E0906, a->at[i].node->span, "an argument of range()", "an int", "float"),
                      "divide with //, which gives an int, or convert with int(...)");

    return t || !C->kernel ? t : type_of_kind(TY_RANGE);
}

static const Type *host_tuple(Check *C, const CallArgs *a, Ast *node)
{
    const Type *const *m = NULL, *t = host_arg(a, 0);
    int n = type_items(t, &m);

    if (!a->n)
        return type_tuple(NULL, 0);
    return n >= 0 ? type_tuple(m, n) : t ? type_tuple_any(element_of(t)) : NULL;
}

static const Type *host_list(Check *C, const CallArgs *a, Ast *node)
{
    const Type *const *m = NULL, *t = host_arg(a, 0);
    int n = type_items(t, &m);

    if (!t)
        return NULL;
    return n > 0 ? type_list_of(m, n) : type_list(n == 0 ? T_ANY : element_of(t));
}

static const Type *host_len(Check *C, const CallArgs *a, Ast *node)
{
    const Type *t = host_arg(a, 0);

    if (!t || a->n != 1)
        return NULL;
    optional_used(C, value_of_arg(a->at[0].node), "None has no length");
    if (object_lacks(C, t, "__len__"))
        diag_help(REPORT(C, E0906, a->at[0].node->span, "the argument of len()", "a list, a text, another container or a tensor", type_text(t)),
                  "define %s.__len__(self)", cls_name(t->ref));
    if (t->kind == TY_INT || t->kind == TY_BOOL || t->kind == TY_NONE || t->kind == TY_FUNC ||
        (t->kind == TY_OBJECT && native_has_owner(t->text->text) && !native_find(t->text->text, "__len__")))
        diag_help(REPORT(C, E0906, a->at[0].node->span, "the argument of len()", "a list, a text, another container or a tensor", type_text(t)),
                  t->kind == TY_INT ? "the number of its digits is len(str(n))" :
                  t->kind == TY_OBJECT ? "it has no length before it has run: len(list(g))" : "pass what has elements");
    if (t->kind == TY_TENSOR)
        return type_int(t->tensor->rank == RANK_UNKNOWN || !t->tensor->rank ? DIM_BAD : t->tensor->shape[0]);
    if (t->kind == TY_STR && t->text)
        return NULL;                                /* in code points */
    return t->n >= 0 && (t->kind == TY_TUPLE || ((t->kind == TY_LIST || t->kind == TY_RANGE) && t->exact)) ? type_int(t->n) : NULL;
}

static const Type *host_reversed(Check *C, const CallArgs *a, Ast *node)
{
    const Type *m[ITEMS_MAX], *const *x = NULL;
    int n = type_items(host_arg(a, 0), &x);

    if (n <= 0)
        return host_arg(a, 0) && host_arg(a, 0)->kind == TY_LIST ? type_iterable(sym("reversed"), element_of(host_arg(a, 0))) : NULL;
    for (int i = 0; i < n; i++)
        m[i] = x[n - 1 - i];
    return type_view_of(sym("reversed"), m, n);
}

static const Type *host_enumerate(Check *C, const CallArgs *a, Ast *node)
{
    const Type *pair[2] = {type_int(DIM_BAD), NULL}, *rows[ITEMS_MAX], *const *item;
    int n = type_items(host_arg(a, 0), &item);

    if (!host_arg(a, 0))
        return NULL;
    for (int i = 0; a->n == 1 && i < n; i++)
        rows[i] = type_tuple((const Type *[]){type_int(i), item[i]}, 2);
    if (a->n == 1 && n > 0)
        return type_view_of(sym("enumerate"), rows, n);
    pair[1] = element_of(host_arg(a, 0));
    return type_iterable(sym("enumerate"), type_tuple(pair, 2));
}

static const Type *host_zip(Check *C, const CallArgs *a, Ast *node)
{
    const Type *row[ITEMS_MAX], *rows[ITEMS_MAX], *const *m[ITEMS_MAX];
    int least = ITEMS_MAX + 1;

    if (!a->n || a->n > ITEMS_MAX)
        return NULL;
    for (int i = 0; i < a->n; i++) {
        int n = host_arg(a, i) ? type_items(host_arg(a, i), &m[i]) : -1;
        if (a->at[i].name)
            return NULL;
        row[i] = element_of(a->at[i].type);
        least = n < 0 || least < 0 ? -1 : n < least ? n : least;
    }
    if (least <= 0)
        return type_iterable(sym("zip"), type_tuple(row, a->n));
    for (int k = 0; k < least; k++) {
        for (int i = 0; i < a->n; i++)
            row[i] = m[i][k];
        rows[k] = type_tuple(row, a->n);
    }
    return type_view_of(sym("zip"), rows, least);
}

const Type *host_each(Check *C, const Type *f, const Type *x, Ast *arg, Ast *node)
{
    const Fn *fn = f->kind == TY_FUNC ? f->ref : NULL;
    bool inside = fn && fn->node->kind == AST_Lambda && fn->around == C->frame;
    const Type *r;

    C->calls -= inside;
    r = call_type(C, f, &(CallArgs){&(CallArg){NULL, x, arg, 0}, 1, false}, node);
    C->calls += inside;
    return r;
}

/* partial(f, x, k=v): f with these arguments in front of others. */
static const Type *host_partial(Check *C, const CallArgs *a, Ast *node)
{
    const Type *m[ITEMS_MAX];
    int n = 0;

    if (a->open || !a->n || a->at[0].name || type_is_any(a->at[0].type) || a->n > ITEMS_MAX / 2)
        return NULL;
    for (int i = 1; i < a->n; i++) {
        m[n++] = a->at[i].name ? type_str(a->at[i].name) : T_NONE;
        m[n++] = a->at[i].type;
    }
    return type_partial(TRANSFORM_PARTIAL, a->at[0].type, m, n);
}

/* reduce(f, xs, first) */
const Type *host_reduce(Check *C, const CallArgs *a, Ast *node)
{
    const Type *t = host_arg(a, 1), *const *item, *e[2], *r = host_arg(a, 2), *was;
    int n = type_items(t, &item), i = 0;
    CallArg pair[2] = {{NULL, NULL, node, 0}, {NULL, NULL, node, 0}};

    if (!t || t->kind == TY_TENSOR || a->n > 3 || (a->n == 3 && !r))
        return NULL;
    e[0] = e[1] = element_of(t);
    if (n <= 0)
        item = e, n = r ? 1 : 2;
    was = r = r ? r : item[i++];
    for (; i < n; i++) {
        pair[0].type = r;
        pair[1].type = item[i];
        r = call_type(C, a->at[0].type, &(CallArgs){pair, 2, false}, node);
    }
    return type_items(t, &item) > 0 || r == was ? r : T_ANY;
}

/* fold(f, xs, init) over the rows of a tensor: its first step. */
static const Type *host_fold(Check *C, const CallArgs *a, Ast *node)
{
    const Type *xs = host_arg(a, 1), *row, *init, *r;
    CallArg pair[2] = {{NULL, NULL, node, 0}, {NULL, NULL, node, 0}};

    if (!host_arg(a, 0) || !xs || xs->kind != TY_TENSOR || xs->tensor->rank == RANK_UNKNOWN || !xs->tensor->rank || a->n > 3)
        return NULL;
    row = element_of(xs);
    init = a->n == 3 ? a->at[2].type : row;
    pair[0].type = init;
    pair[1].type = row;
    r = call_type(C, a->at[0].type, &(CallArgs){pair, 2, false}, node);
    return r == init ? r : T_ANY;
}

/* Of tensors: what adding them up gives. */
static const Type *host_sum(Check *C, const CallArgs *a, Ast *node)
{
    const Type *t = host_arg(a, 0), *const *item, *e, *sum = type_int(0);
    int n = type_items(t, &item);

    host_alone_judged(C, a);
    if (t && a->n == 1 && t->kind == TY_STR)
        diag_help(REPORT(C, E0906, a->at[0].node->span, "an element of what sum() adds up", "a number or a tensor", "str"),
                  "sum adds numbers: sum(len(w) for w in words)");
    if (!t || a->n != 1 || t->kind == TY_TENSOR || t->kind == TY_STR)
        return NULL;
    e = element_of(t);
    if (n <= 0)
        item = &e, n = 1;
    for (int i = 0; i < n; i++) {
        if (item[i]->kind == TY_STR)
            diag_help(REPORT(C, E0906, a->at[0].node->span, "an element of what sum() adds up", "a number or a tensor", "str"),
                      "texts are put together by \"\".join(xs)");
        if (type_is_any(item[i]) || item[i]->kind != TY_TENSOR)
            return NULL;
        sum = tensor_binary(C, AOP_ADD, sum, item[i], node);
    }
    return sum;
}

/* map(f, tensor): f of each row, stacked. */
static const Type *mapped_rows(Check *C, const Type *f, const Type *xs, Ast *arg, Ast *node)
{
    const Type *r = host_each(C, f, element_of(xs), arg, node);
    TType t;

    if (type_is_any(r) || r->kind != TY_TENSOR || r->tensor->rank == RANK_UNKNOWN || r->tensor->rank > 14 || r->tensor->weak)
        return T_ANY;
    t = *r->tensor;
    t.rank++;
    t.shape[0] = xs->tensor->shape[0];
    for (int i = 1; i < t.rank; i++)
        t.shape[i] = r->tensor->shape[i - 1];
    return type_tensor(&t);
}

/* map(f, xs): f of each element, once for all or one by one. */
static const Type *host_map(Check *C, const CallArgs *a, Ast *node)
{
    const Type *t = host_arg(a, 1), *const *item, *e, *m[ITEMS_MAX];
    int n = type_items(t, &item);

    if (a->n == 2 && host_arg(a, 0) && t && t->kind == TY_TENSOR && t->tensor->rank != RANK_UNKNOWN && t->tensor->rank > 0)
        return mapped_rows(C, a->at[0].type, t, a->at[1].node, node);
    if (a->n != 2 || !t || t->kind == TY_TENSOR || !host_arg(a, 0))
        return NULL;
    e = element_of(t);
    if (n <= 0)
        return type_iterable(sym("map"), host_each(C, a->at[0].type, e, a->at[1].node, node));
    for (int i = 0; i < n; i++)
        m[i] = host_each(C, a->at[0].type, item[i], a->at[1].node, node);
    return type_view_of(sym("map"), m, n);
}

static const Type *host_filter(Check *C, const CallArgs *a, Ast *node)
{
    const Type *t = host_arg(a, 1);

    if (a->n == 2 && t && t->kind != TY_TENSOR && host_arg(a, 0) && host_arg(a, 0)->kind == TY_FUNC)
        host_each(C, a->at[0].type, element_of(t), a->at[1].node, node);
    return a->n == 2 && t && t->kind != TY_TENSOR ? type_iterable(sym("filter"), element_of(t)) : NULL;
}

/* One element of each; with repeat= it is not known how many. */
static const Type *host_product(Check *C, const CallArgs *a, Ast *node)
{
    const Type *row[ITEMS_MAX];

    if (!a->n || a->n > ITEMS_MAX || a->open || a->at[a->n - 1].name || C->home->library)     /* which calls f with any of its arguments */
        return NULL;
    for (int i = 0; i < a->n; i++)
        row[i] = element_of(a->at[i].type);
    return type_iterable(sym("product"), type_tuple(row, a->n));
}

/* combinations(xs, k), permutations(xs, k): tuples of k elements. */
static const Type *host_chosen(Check *C, const CallArgs *a, Ast *node)
{
    const Type *row[ITEMS_MAX];
    int64_t k;

    if (a->n != 2 || !host_arg(a, 0) || !host_arg(a, 1) || host_arg(a, 1)->kind != TY_INT ||
        !dim_const_value(host_arg(a, 1)->value, &k) || k < 1 || k > 8)
        return NULL;
    for (int i = 0; i < k; i++)
        row[i] = element_of(a->at[0].type);
    return type_iterable(sym("combinations"), type_tuple(row, (int)k));
}

/* chain(xs, ys): one by one where all are known so, else any element of any. */
static const Type *host_chain(Check *C, const CallArgs *a, Ast *node)
{
    const Type *m[ITEMS_MAX], *const *item, *any = NULL;
    int n = 0;

    for (int i = 0; i < a->n; i++) {
        int k = host_arg(a, i) ? type_items(host_arg(a, i), &item) : -1;
        if (!host_arg(a, i) || a->at[i].stars)
            return NULL;
        any = any ? type_join(any, element_of(host_arg(a, i))) : element_of(host_arg(a, i));
        n = k < 0 || n < 0 || n + k > ITEMS_MAX ? -1 : n + k;
        for (int e = 0; n >= 0 && e < k; e++)
            m[n - k + e] = item[e];
    }
    return n > 0 ? type_view_of(sym("chain"), m, n) : any ? type_iterable(sym("chain"), any) : NULL;
}

/* islice(xs, n), islice(xs, from, to) */
static const Type *host_islice(Check *C, const CallArgs *a, Ast *node)
{
    const Type *const *item;
    int64_t lo = 0, hi = 0;
    int n = type_items(host_arg(a, 0), &item);

    if (!host_arg(a, 0) || a->n < 2 || a->n > 4)
        return NULL;
    if (n < 0 || a->n == 4 || !host_arg(a, a->n - 1) || !type_int_value(host_arg(a, a->n - 1), &hi) ||
        (a->n == 3 && (!host_arg(a, 1) || !type_int_value(host_arg(a, 1), &lo))))
        return type_iterable(sym("islice"), element_of(host_arg(a, 0)));
    hi = hi > n ? n : hi;
    return lo >= 0 && lo < hi ? type_view_of(sym("islice"), item + lo, (int)(hi - lo)) : type_iterable(sym("islice"), element_of(host_arg(a, 0)));
}

/* cycle(xs), takewhile(f, xs) and their kin: some of the elements of their last argument. */
static const Type *some_of(const CallArgs *a, const char *cls)
{
    const Type *t = a->n ? host_arg(a, a->n - 1) : NULL;

    return t && t->kind != TY_TENSOR ? type_iterable(sym(cls), element_of(t)) : NULL;
}

static const Type *host_cycle(Check *C, const CallArgs *a, Ast *node) { return a->n == 1 ? some_of(a, "cycle") : NULL; }

static const Type *host_while(Check *C, const CallArgs *a, Ast *node) { return a->n == 2 ? some_of(a, "takewhile") : NULL; }

static const Type *host_pairwise(Check *C, const CallArgs *a, Ast *node)
{
    const Type *t = host_arg(a, 0), *const *item, *m[ITEMS_MAX], *pair[2];
    int n = type_items(t, &item);

    if (!t || a->n != 1 || t->kind == TY_TENSOR)
        return NULL;
    for (int i = 0; i + 1 < n; i++)
        m[i] = type_tuple(&item[i], 2);
    pair[0] = pair[1] = element_of(t);
    return n > 1 ? type_view_of(sym("pairwise"), m, n - 1) : type_iterable(sym("pairwise"), type_tuple(pair, 2));
}

/* random.split(key, n): a list of n keys. */
static const Type *host_keys(Check *C, const CallArgs *a, Ast *node)
{
    const Type *m[ITEMS_MAX], *count = a->n > 1 ? a->at[1].type : NULL;
    int64_t n = 2;

    if (a->open || !a->n || (count && (!type_int_value(count, &n) || n < 1 || n > ITEMS_MAX)))
        return NULL;
    for (int i = 0; i < n; i++)
        m[i] = T_ANY;
    return type_list_of(m, (int)n);
}

static const Type *host_next(Check *C, const CallArgs *a, Ast *node)
{
    const Type *t = host_arg(a, 0);

    return a->n == 1 && t && t->kind == TY_OBJECT && t->item ? element_of(t) : NULL;
}

/* Only a tensor of one element is a number. */
static void judge_one(Check *C, const char *name, const CallArgs *a, Ast *node)
{
    const Type *t = a->n ? host_arg(a, 0) : NULL;

    if (t && t->kind == TY_TENSOR)
        tcall_judge_number(&(TCall){.C = C, .name = name, .node = node}, &a->at[0]);
}

static const Type *host_float(Check *C, const CallArgs *a, Ast *node)
{
    judge_one(C, "float", a, node);
    return NULL;
}

static const Type *host_int(Check *C, const CallArgs *a, Ast *node)
{
    judge_one(C, "int", a, node);
    return a->n == 1 && host_arg(a, 0) && host_arg(a, 0)->kind == TY_INT ? host_arg(a, 0) : NULL;
}

static const Type *host_str(Check *C, const CallArgs *a, Ast *node)
{
    const Type *t = a->n == 1 ? host_arg(a, 0) : NULL;

    return t && t->kind == TY_DTYPE ? type_str(sym(element_text((uint8_t)t->value, t->ref))) : t && t->kind == TY_STR ? t : NULL;
}

/* A file of texts, unless the mode has b or is not known. */
/* "rb", "w+", "at" */
static bool is_mode(const char *s)
{
    int kinds = 0, plus = 0, forms = 0;

    for (; *s; s++) {
        kinds += strchr("rwax", *s) != NULL;
        plus += *s == '+';
        forms += strchr("bt", *s) != NULL;
        if (!strchr("rwax+bt", *s))
            return false;
    }
    return kinds == 1 && plus <= 1 && forms <= 1;
}

static const Type *host_open(Check *C, const CallArgs *a, Ast *node)
{
    const Type *mode = host_arg(a, 1);

    for (int i = 0; i < a->n; i++)
        if (a->at[i].name && !strcmp(a->at[i].name->text, "mode"))
            mode = a->at[i].type;
    if (mode && mode->kind == TY_STR && mode->text && !is_mode(mode->text->text))
        diag_help(REPORT(C, E0920, node->span, "open() knows no such mode"),
                  "r reads, w replaces, a appends, x creates; + reads and writes, b is for bytes");
    if (a->open || (mode ? mode->kind != TY_STR || !mode->text || strchr(mode->text->text, 'b') : a->n > 1 && !a->at[1].name))
        return T_ANY;
    return NULL;                                    /* as the signature says */
}

/* dict(pairs), of which only the kinds of keys and values are known. */
static const Type *host_dict(Check *C, const CallArgs *a, Ast *node)
{
    const Type *t = a->n == 1 ? host_arg(a, 0) : NULL, *pair = t && (t->kind == TY_OBJECT || t->kind == TY_LIST) ? element_of(t) : T_ANY;

    return !type_is_any(pair) && pair->kind == TY_TUPLE && pair->n == 2 ? type_dict(type_settle(pair->item[0]), type_settle(pair->item[1])) : NULL;
}

/* getattr(x, "name"), where there is no other answer to fall back on; that it is missing is left to the run. */
static const Type *host_getattr(Check *C, const CallArgs *a, Ast *node)
{
    const Type *name = host_arg(a, 1), *t = NULL;

    if (a->n != 2 || !host_arg(a, 0) || !name || name->kind != TY_STR || !name->text)
        return NULL;
    C->quiet++;
    t = attribute(C, a->at[0].type, name->text, node);
    C->quiet--;
    return t;
}

static const struct { const char *name; HostFn *fn; } rules[] = {
    {"range", host_range}, {"tuple", host_tuple}, {"list", host_list}, {"len", host_len}, {"reversed", host_reversed},
    {"enumerate", host_enumerate}, {"zip", host_zip}, {"min", host_min}, {"max", host_max}, {"int", host_int}, {"float", host_float}, {"str", host_str},
    {"open", host_open}, {"sum", host_sum}, {"sorted", host_sorted}, {"map", host_map}, {"filter", host_filter}, {"next", host_next},
    {"partial", host_partial}, {"reduce", host_reduce}, {"fold", host_fold}, {"getattr", host_getattr}, {"dict", host_dict}, {"product", host_product},
    {"combinations", host_chosen}, {"permutations", host_chosen}, {"replace", dataclass_replace}, {"chain", host_chain}, {"islice", host_islice},
    {"cycle", host_cycle}, {"takewhile", host_while}, {"dropwhile", host_while}, {"pairwise", host_pairwise}, {"random.split", host_keys},
};

/* Builtins whose argument is iterated over; what may be a tensor of no axes is left to them. */
static void judge_iterated(Check *C, const char *name, const CallArgs *a)
{
    static const char *const names[] = {"list", "tuple", "set", "frozenset", "sorted", "enumerate", "reversed", "zip"};
    const Type *t = host_arg(a, 0);

    for (size_t i = 0; t && t->kind != TY_FLOAT && i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], name))
            host_iterated(C, t, a->at[0].node);
}

/* The rows of a dict whose keys are known: of its keys, of its values, or of pairs of both. */
static const Type *known_view(const Type *dict, const char *cls)
{
    const Type *m[ITEMS_MAX];
    bool keys = !strcmp(cls, "dict_keys"), values = !strcmp(cls, "dict_values");

    for (int i = 0; i < dict->n / 2; i++)
        m[i] = keys ? dict->item[2 * i] : values ? dict->item[2 * i + 1] : type_tuple(&dict->item[2 * i], 2);
    return type_view_of(sym(cls), m, dict->n / 2);
}

const Type *dict_view(const Type *dict, const char *method)
{
    const Type *t = type_settle(dict), *pair[2] = {t->item[0], t->item[1]};
    const char *cls = !strcmp(method, "items") ? "dict_items" : !strcmp(method, "keys") ? "dict_keys" :
                      !strcmp(method, "values") ? "dict_values" : NULL;

    if (!cls)
        return NULL;
    if (dict->exact)
        return known_view(dict, cls);
    return type_iterable(sym(cls), cls[5] == 'i' ? type_tuple(pair, 2) : pair[cls[5] == 'v']);
}

bool host_owner(const char *owner)
{
    return !*owner || !strcmp(owner, "_functools") || !strcmp(owner, "dataclasses") || !strcmp(owner, "itertools") || !strcmp(owner, "random");
}

bool host_call(Check *C, const struct NativeDef *d, const CallArgs *a, Ast *node, const Type **out)
{
    const char *name = d->owner[0] == 'r' && !strcmp(d->owner, "random") && !strcmp(d->name, "split") ? "random.split" : d->name;
    static Word slot[128];
    static Words words = {slot, 128, 0};
    bool empty = !words.n;
    int rule;

    for (size_t i = 0; empty && i < sizeof rules / sizeof *rules; i++)
        words_add_all(&words, rules[i].name, (int)i);
    rule = words_find(&words, name);
    if (a->n && !type_is_any(a->at[0].type) && a->at[0].type->kind < TY_STR)
        judge_iterated(C, name, a);
    *out = rule >= 0 ? rules[rule].fn(C, a, node) : NULL;
    return *out != NULL;
}
