/*
 * Builtin functions of host values whose results depend on what they are given:
 * tuple(range(2, x.ndim)) is a tuple of known numbers when the tensor's rank is.
 */
#include "frontend/check/tensorcalls.h"

#include "base/words.h"
#include "frontend/eval/native.h"

#include <string.h>

typedef const Type *HostFn(Check *C, const CallArgs *a);

static const Type *arg(const CallArgs *a, int i)
{
    return i < a->n && !a->at[i].name && !a->open && !type_is_any(a->at[i].type) ? a->at[i].type : NULL;
}

int type_items(const Type *t, const Type *const **out)
{
    if (type_is_any(t) || t->n < 0 || t->n > ITEMS_MAX || (t->kind != TY_TUPLE && t->kind != TY_RANGE && t->kind != TY_LIST) ||
        (t->kind != TY_TUPLE && !t->exact))
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
        if (!arg(a, i) || !type_int_value(arg(a, i), &v[a->n == 1 ? 1 : i]))
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

static const Type *host_range(Check *C, const CallArgs *a)
{
    const Type *t = known_range(a);

    return t || !C->kernel ? t : type_of_kind(TY_RANGE);
}

static const Type *host_tuple(Check *C, const CallArgs *a)
{
    const Type *const *m = NULL, *t = arg(a, 0);
    int n = type_items(t, &m);

    if (!a->n)
        return type_tuple(NULL, 0);
    return n >= 0 ? type_tuple(m, n) : t ? type_tuple_any(element_of(t)) : NULL;
}

static const Type *host_list(Check *C, const CallArgs *a)
{
    const Type *const *m = NULL, *t = arg(a, 0);
    int n = type_items(t, &m);

    if (!t)
        return NULL;
    return n > 0 ? type_list_of(m, n) : type_list(n == 0 ? T_ANY : element_of(t));
}

static const Type *host_len(Check *C, const CallArgs *a)
{
    const Type *t = arg(a, 0);

    if (!t || a->n != 1)
        return NULL;
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

static const Type *host_reversed(Check *C, const CallArgs *a)
{
    const Type *m[ITEMS_MAX], *const *x = NULL;
    int n = type_items(arg(a, 0), &x);

    if (n <= 0)
        return arg(a, 0) && arg(a, 0)->kind == TY_LIST ? type_list(element_of(arg(a, 0))) : NULL;
    for (int i = 0; i < n; i++)
        m[i] = x[n - 1 - i];
    return type_list_of(m, n);
}

static const Type *host_enumerate(Check *C, const CallArgs *a)
{
    const Type *pair[2] = {type_int(DIM_BAD), NULL};

    if (!arg(a, 0))
        return NULL;
    pair[1] = element_of(arg(a, 0));
    return type_list(type_tuple(pair, 2));
}

static const Type *host_zip(Check *C, const CallArgs *a)
{
    const Type *row[ITEMS_MAX], *rows[ITEMS_MAX], *const *m[ITEMS_MAX];
    int least = ITEMS_MAX + 1;

    if (!a->n || a->n > ITEMS_MAX)
        return NULL;
    for (int i = 0; i < a->n; i++) {
        int n = arg(a, i) ? type_items(arg(a, i), &m[i]) : -1;
        if (a->at[i].name)
            return NULL;
        row[i] = element_of(a->at[i].type);
        least = n < 0 || least < 0 ? -1 : n < least ? n : least;
    }
    if (least <= 0)
        return type_list(type_tuple(row, a->n));
    for (int k = 0; k < least; k++) {
        for (int i = 0; i < a->n; i++)
            row[i] = m[i][k];
        rows[k] = type_tuple(row, a->n);
    }
    return type_list_of(rows, least);
}

static const Type *extreme(const CallArgs *a, Dim (*pick)(Dim, Dim))
{
    Dim d = DIM_BAD;

    for (int i = 0; i < a->n; i++) {
        const Type *t = arg(a, i);
        if (!t || t->kind != TY_INT || t->value == DIM_BAD)
            return NULL;
        d = i ? pick(d, t->value) : t->value;
    }
    return a->n > 1 ? type_int(d) : NULL;
}

static const Type *host_min(Check *C, const CallArgs *a) { return extreme(a, dim_min); }
static const Type *host_max(Check *C, const CallArgs *a) { return extreme(a, dim_max); }

static const Type *host_int(Check *C, const CallArgs *a)
{
    return a->n == 1 && arg(a, 0) && arg(a, 0)->kind == TY_INT ? arg(a, 0) : NULL;
}

static const Type *host_str(Check *C, const CallArgs *a)
{
    const Type *t = a->n == 1 ? arg(a, 0) : NULL;

    return t && t->kind == TY_DTYPE ? type_str(sym(element_text((uint8_t)t->value, t->ref))) : t && t->kind == TY_STR ? t : NULL;
}

/* A file of texts, unless the mode has b or is not known. */
static const Type *host_open(Check *C, const CallArgs *a)
{
    const Type *mode = arg(a, 1);

    for (int i = 0; i < a->n; i++)
        if (a->at[i].name && !strcmp(a->at[i].name->text, "mode"))
            mode = a->at[i].type;
    if (a->open || (mode ? mode->kind != TY_STR || !mode->text || strchr(mode->text->text, 'b') : a->n > 1 && !a->at[1].name))
        return T_ANY;
    return NULL;                                    /* as the signature says */
}

static const struct { const char *name; HostFn *fn; } rules[] = {
    {"range", host_range}, {"tuple", host_tuple}, {"list", host_list}, {"len", host_len}, {"reversed", host_reversed},
    {"enumerate", host_enumerate}, {"zip", host_zip}, {"min", host_min}, {"max", host_max}, {"int", host_int}, {"str", host_str},
    {"open", host_open},
};

/* Builtins whose argument is iterated over; what may be a tensor of no axes is left to them. */
static void iterated(Check *C, const char *name, const CallArgs *a)
{
    static const char *const names[] = {"list", "tuple", "set", "frozenset", "sorted", "enumerate", "reversed", "zip"};
    const Type *t = arg(a, 0);

    for (size_t i = 0; t && t->kind != TY_FLOAT && i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], name))
            host_iterated(C, t, a->at[0].node);
}

const Type *dict_view(const Type *dict, const char *method)
{
    const Type *pair[2] = {type_settle(dict)->item[0], type_settle(dict)->item[1]};

    if (!strcmp(method, "items"))
        return type_iterable(sym("dict_items"), type_tuple(pair, 2));
    return !strcmp(method, "keys") ? type_iterable(sym("dict_keys"), pair[0]) :
           !strcmp(method, "values") ? type_iterable(sym("dict_values"), pair[1]) : NULL;
}

bool host_call(Check *C, const char *name, const CallArgs *a, const Type **out)
{
    static Word slot[64];
    static Words words = {slot, 64, 0};
    bool empty = !words.n;
    int rule;

    for (size_t i = 0; empty && i < sizeof rules / sizeof *rules; i++)
        words_add_all(&words, rules[i].name, (int)i);
    rule = words_find(&words, name);
    if (a->n && !type_is_any(a->at[0].type) && a->at[0].type->kind < TY_STR)
        iterated(C, name, a);
    *out = rule >= 0 ? rules[rule].fn(C, a) : NULL;
    return *out != NULL;
}
