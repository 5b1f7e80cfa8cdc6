/*
 * Reading the text of graphs: sizes, types, constants and attributes (text.c
 * says how they look; parse.c puts nodes together; the words are scan.h's).
 *
 * Nothing in it is trusted: numbers and sizes are bounded.
 */
#include "ir/graph/read.h"
#include "runtime/tensor.h"

#include <stdlib.h>

enum { ELEMENTS_MAX = 1 << 22 };

/* -- sizes, types, constants -------------------------------------------------------------------------------------------------- */

static Dim size_variable(void *st, Sym name)
{
    Reader *p = st;
    uintptr_t v;

    if (!map_find(&p->sizes, (uintptr_t)name, &v)) {
        v = (uintptr_t)dim_var(name, 0, INT64_MAX);
        map_set(&p->sizes, (uintptr_t)name, v);
    }
    return (Dim)v;
}

Dim read_size(Reader *p, const char *ends) { return scan_size(&p->s, ends, size_variable, p); }

static Dim size(Reader *p) { return read_size(p, ",]"); }

static int sizes(Reader *p, Dim *d)
{
    int n = 0;

    scan_expect(&p->s, "[");
    if (scan_accept(&p->s, "]"))
        return 0;
    do {
        if (n == 16) {
            scan_fail(&p->s, "more than 16 sizes");
            return 0;
        }
        d[n++] = size(p);
    } while (!p->s.bad && scan_accept(&p->s, ","));
    scan_expect(&p->s, "]");
    return n;
}

TType read_type(Reader *p)
{
    TType y = {0};

    y.weak = scan_accept(&p->s, "weak ");
    y.dtype = scan_dtype(&p->s);
    y.rank = (uint8_t)sizes(p, y.shape);
    for (int i = 0; i < y.rank; i++) {
        int64_t v;
        if (dim_const_value(y.shape[i], &v) && v < 0)
            scan_fail(&p->s, "a size cannot be negative");
    }
    return y;
}

static uint8_t policy_dtype(Reader *p, const char *key)
{
    scan_expect(&p->s, key);
    if (scan_accept(&p->s, "none"))
        return DT_NONE;
    return scan_dtype(&p->s);
}

static uint8_t flag(Reader *p, const char *key)
{
    scan_expect(&p->s, key);
    return (uint8_t)scan_between(&p->s, 0, 1);
}

static uint8_t rounding(Reader *p)
{
    Sym name = scan_word(&p->s);
    Rounding r = ROUND_NEAREST;

    if (!p->s.bad && !rounding_find(name->text, &r))
        scan_fail(&p->s, "there is no rounding '%s'", name->text);
    return (uint8_t)r;
}

/* What follows "policy(". */
const Policy *read_policy(Reader *p)
{
    Policy q = policy_none;

    q.storage = policy_dtype(p, "storage=");
    q.compute = policy_dtype(p, ", compute=");
    q.accum = policy_dtype(p, ", accum=");
    scan_expect(&p->s, ", rounding=");
    q.rounding = scan_accept(&p->s, "none") ? DT_NONE : rounding(p);
    q.saturate = flag(p, ", saturate=");
    q.denorm = flag(p, ", flush=") ? DENORM_FLUSH : DENORM_PRESERVE;
    q.master = scan_accept(&p->s, ", master=1");
    if ((q.has_scale = scan_accept(&p->s, ", scale=")))
        q.scale = scan_number(&p->s);
    scan_expect(&p->s, ")");
    return p->s.bad ? NULL : policy_intern(q);
}

static void element(Reader *p, Tensor *t, int64_t at)
{
    if (dtype_is_complex((DType)t->dtype)) {
        double re = scan_number(&p->s);
        scan_expect(&p->s, ":");
        elem_set_c(t, at, re, scan_number(&p->s));
    } else if (dtype_is_float((DType)t->dtype))
        elem_set_f(t, at, scan_number(&p->s));
    else if (t->dtype == DT_uint64) {
        char *end;
        scan_skip(&p->s);
        elem_set_i(t, at, (int64_t)strtoull(p->s.at, &end, 10));
        if (end == p->s.at)
            scan_fail(&p->s, "expected a number");
        p->s.at = end;
    } else
        elem_set_i(t, at, scan_integer(&p->s));
}

static Tensor *constant(Reader *p)
{
    TType y = read_type(p);
    int64_t n = 1;
    Tensor *t;

    for (int i = 0; i < y.rank && !p->s.bad; i++) {
        if (!dim_is_const(y.shape[i]) || (y.shape[i] && n > ELEMENTS_MAX / y.shape[i]))
            scan_fail(&p->s, "a constant needs known, moderate sizes");
        else
            n *= y.shape[i];
    }
    scan_expect(&p->s, "(");
    if (p->s.bad || !(t = tensor_new((DType)y.dtype, y.rank, y.shape)))
        return NULL;
    t->weak = y.weak;
    for (int64_t i = 0; i < n && !p->s.bad; i++) {
        if (i)
            scan_expect(&p->s, ",");
        element(p, t, i);
    }
    scan_expect(&p->s, ")");
    if (p->s.bad) {
        tensor_unref(t);
        return NULL;
    }
    return t;
}

/* -- attributes ------------------------------------------------------------------------------------------------------------------ */

static void axes(Reader *p, Attr *a)
{
    scan_expect(&p->s, "(");
    if (scan_accept(&p->s, ")"))
        return;
    do {
        int64_t v = scan_integer(&p->s);
        if (a->naxes == 16 || v < -16 || v > 15) {
            scan_fail(&p->s, "bad axes");
            return;
        }
        a->axis[a->naxes++] = (int8_t)v;
    } while (!p->s.bad && scan_accept(&p->s, ","));
    scan_expect(&p->s, ")");
}

/* One key=value; false: there is no such key. */
bool read_attribute(Reader *p, Attr *a)
{
    if (scan_accept(&p->s, "dtype="))
        a->dtype = scan_dtype(&p->s);
    else if (scan_accept(&p->s, "accum="))
        a->accum = scan_dtype(&p->s);
    else if (scan_accept(&p->s, "compute="))
        a->compute = scan_dtype(&p->s);
    else if (scan_accept(&p->s, "rounding="))
        a->rounding = rounding(p);
    else if (scan_accept(&p->s, "policy("))
        a->policy = read_policy(p);
    else if (scan_accept(&p->s, "saturate="))
        a->saturate = (uint8_t)scan_between(&p->s, 0, UINT8_MAX);
    else if (scan_accept(&p->s, "flush="))
        a->flush = (uint8_t)scan_between(&p->s, 0, UINT8_MAX);
    else if (scan_accept(&p->s, "fast="))
        a->fast = (uint8_t)scan_between(&p->s, 0, UINT8_MAX);
    else if (scan_accept(&p->s, "kind="))
        a->kind = (uint8_t)scan_between(&p->s, 0, UINT8_MAX);
    else if (scan_accept(&p->s, "axes="))
        axes(p, a);
    else if (scan_accept(&p->s, "name="))
        a->name = scan_quoted(&p->s);
    else if (scan_accept(&p->s, "n="))
        a->n = (int16_t)scan_between(&p->s, INT16_MIN, INT16_MAX);
    else if (scan_accept(&p->s, "m="))
        a->m = (int16_t)scan_between(&p->s, INT16_MIN, INT16_MAX);
    else if (scan_accept(&p->s, "f="))
        a->f = scan_number(&p->s);
    else if (scan_accept(&p->s, "i="))
        a->i = scan_integer(&p->s);
    else if (scan_accept(&p->s, "seed="))
        a->seed = scan_integer(&p->s);
    else if (scan_accept(&p->s, "value=")) {
        tensor_unref(a->value);
        a->value = constant(p);
    } else if (p->s.end - p->s.at > 3 && p->s.at[0] == 'd' && p->s.at[1] >= '0' && p->s.at[1] <= '3' && p->s.at[2] == '=') {
        int k = p->s.at[1] - '0';
        p->s.at += 3;
        a->nd[k] = (uint8_t)sizes(p, a->d[k]);
    } else
        return false;
    return true;
}
