/*
 * Reading the text of graphs: words, numbers, sizes, types, constants and
 * attributes (text.c says how they look; parse.c puts nodes together).
 *
 * Nothing in it is trusted: numbers and sizes are bounded, and the first thing
 * that is wrong is reported with its line.
 */
#include "ir/graph/read.h"
#include "runtime/tensor.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMENTS_MAX = 1 << 22 };

bool read_fail(Reader *p, const char *fmt, ...)
{
    va_list ap;
    int line = 1;

    if (p->bad)
        return false;
    p->bad = true;
    for (const char *s = p->start; s < p->at; s++)
        line += *s == '\n';
    sb_printf(p->err, "line %d: ", line);
    va_start(ap, fmt);
    sb_vprintf(p->err, fmt, ap);
    va_end(ap);
    return false;
}

void read_skip(Reader *p)
{
    while (p->at < p->end && (isspace((unsigned char)*p->at) || *p->at == '#')) {
        if (*p->at == '#')
            while (p->at < p->end && *p->at != '\n')
                p->at++;
        else
            p->at++;
    }
}

bool read_accept(Reader *p, const char *text)
{
    size_t n = strlen(text);

    read_skip(p);
    if (p->bad || (size_t)(p->end - p->at) < n || memcmp(p->at, text, n))
        return false;
    p->at += n;
    return true;
}

bool read_expect(Reader *p, const char *text)
{
    return read_accept(p, text) || read_fail(p, "expected '%s'", text);
}

static bool word_byte(char c) { return isalnum((unsigned char)c) || c == '_' || c == '.' || (unsigned char)c >= 0x80; }

/* The next word; empty when there is none. */
Sym read_word(Reader *p)
{
    const char *from;

    read_skip(p);
    from = p->at;
    while (p->at < p->end && word_byte(*p->at))
        p->at++;
    return sym_n(from, (size_t)(p->at - from));
}

int64_t read_integer(Reader *p)
{
    char *end;
    long long v;

    read_skip(p);
    v = strtoll(p->at, &end, 10);
    if (end == p->at)
        read_fail(p, "expected a number");
    p->at = end;
    return v;
}

static double number(Reader *p)
{
    char *end;
    double v;

    read_skip(p);
    v = strtod(p->at, &end);
    if (end == p->at)
        read_fail(p, "expected a number");
    p->at = end;
    return v;
}

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

/* An expression up to one of the characters that end it. */
Dim read_size(Reader *p, const char *ends)
{
    const char *from;
    int depth = 0;
    StrBuf b = {0};
    Dim d = 0;

    read_skip(p);
    for (from = p->at; p->at < p->end && *p->at != '\n'; p->at++) {
        if (depth == 0 && strchr(ends, *p->at))
            break;
        depth += *p->at == '(' ? 1 : *p->at == ')' ? -1 : 0;
    }
    sb_write(&b, from, (size_t)(p->at - from));
    if (!dim_parse(sb_str(&b), size_variable, p, &d))
        read_fail(p, "'%.40s' is not a size", sb_str(&b));
    sb_done(&b);
    return d;
}

static Dim size(Reader *p) { return read_size(p, ",]"); }

static int sizes(Reader *p, Dim *d)
{
    int n = 0;

    read_expect(p, "[");
    if (read_accept(p, "]"))
        return 0;
    do {
        if (n == 16) {
            read_fail(p, "more than 16 sizes");
            return 0;
        }
        d[n++] = size(p);
    } while (!p->bad && read_accept(p, ","));
    read_expect(p, "]");
    return n;
}

static uint8_t dtype(Reader *p)
{
    Sym w = read_word(p);
    DType dt = DT_f32;

    if (!dtype_find(w->text, &dt))
        read_fail(p, "'%.40s' is not a dtype", w->text);
    return (uint8_t)dt;
}

TType read_type(Reader *p)
{
    TType y = {0};

    y.weak = read_accept(p, "weak ");
    y.dtype = dtype(p);
    y.rank = (uint8_t)sizes(p, y.shape);
    for (int i = 0; i < y.rank; i++) {
        int64_t v;
        if (dim_const_value(y.shape[i], &v) && v < 0)
            read_fail(p, "a size cannot be negative");
    }
    return y;
}

static uint8_t policy_dtype(Reader *p, const char *key)
{
    read_expect(p, key);
    if (read_accept(p, "none"))
        return DT_NONE;
    return dtype(p);
}

static uint8_t small_number(Reader *p, const char *key, int64_t max)
{
    int64_t v;

    read_expect(p, key);
    v = read_integer(p);
    if (v < 0 || v > max)
        read_fail(p, "%lld is out of range", (long long)v);
    return (uint8_t)v;
}

static uint8_t rounding(Reader *p)
{
    Sym name = read_word(p);
    Rounding r = ROUND_NEAREST;

    if (!p->bad && !rounding_find(name->text, &r))
        read_fail(p, "there is no rounding '%s'", name->text);
    return (uint8_t)r;
}

/* What follows "policy(". */
const Policy *read_policy(Reader *p)
{
    Policy q = policy_none;

    q.storage = policy_dtype(p, "storage=");
    q.compute = policy_dtype(p, ", compute=");
    q.accum = policy_dtype(p, ", accum=");
    read_expect(p, ", rounding=");
    q.rounding = read_accept(p, "none") ? DT_NONE : rounding(p);
    q.saturate = small_number(p, ", saturate=", 1);
    q.denorm = small_number(p, ", flush=", 1) ? DENORM_FLUSH : DENORM_PRESERVE;
    q.master = read_accept(p, ", master=1");
    if ((q.has_scale = read_accept(p, ", scale=")))
        q.scale = number(p);
    read_expect(p, ")");
    return p->bad ? NULL : policy_intern(q);
}

static void element(Reader *p, Tensor *t, int64_t at)
{
    if (dtype_is_complex((DType)t->dtype)) {
        double re = number(p);
        read_expect(p, ":");
        elem_set_c(t, at, re, number(p));
    } else if (dtype_is_float((DType)t->dtype))
        elem_set_f(t, at, number(p));
    else if (t->dtype == DT_uint64) {
        char *end;
        read_skip(p);
        elem_set_i(t, at, (int64_t)strtoull(p->at, &end, 10));
        if (end == p->at)
            read_fail(p, "expected a number");
        p->at = end;
    } else
        elem_set_i(t, at, read_integer(p));
}

static Tensor *constant(Reader *p)
{
    TType y = read_type(p);
    int64_t n = 1;
    Tensor *t;

    for (int i = 0; i < y.rank && !p->bad; i++) {
        if (!dim_is_const(y.shape[i]) || (y.shape[i] && n > ELEMENTS_MAX / y.shape[i]))
            read_fail(p, "a constant needs known, moderate sizes");
        else
            n *= y.shape[i];
    }
    read_expect(p, "(");
    if (p->bad || !(t = tensor_new((DType)y.dtype, y.rank, y.shape)))
        return NULL;
    t->weak = y.weak;
    for (int64_t i = 0; i < n && !p->bad; i++) {
        if (i)
            read_expect(p, ",");
        element(p, t, i);
    }
    read_expect(p, ")");
    if (p->bad) {
        tensor_unref(t);
        return NULL;
    }
    return t;
}

/* -- attributes ------------------------------------------------------------------------------------------------------------------ */

static int hex(char c)
{
    return isdigit((unsigned char)c) ? c - '0' : isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10 : -1;
}

static uint32_t unicode_escape(Reader *p)
{
    uint32_t v = 0;

    for (int i = 0; i < 4; i++) {
        int h = p->at < p->end ? hex(*p->at) : -1;
        if (h < 0) {
            read_fail(p, "bad escape");
            return 0;
        }
        v = v * 16 + (uint32_t)h;
        p->at++;
    }
    return v;
}

Sym read_quoted(Reader *p)
{
    static const char from[] = "nrtbf", to[] = "\n\r\t\b\f";
    StrBuf b = {0};
    Sym s;

    read_expect(p, "\"");
    while (!p->bad && p->at < p->end && *p->at != '"') {
        char c = *p->at++;
        const char *esc;
        if (c != '\\') {
            sb_putc(&b, c);
            continue;
        }
        c = p->at < p->end ? *p->at++ : 0;
        if (c == 'u')
            sb_put_utf8(&b, unicode_escape(p));
        else if (c && (esc = strchr(from, c)))
            sb_putc(&b, to[esc - from]);
        else
            sb_putc(&b, c);
    }
    read_expect(p, "\"");
    s = sym_n(sb_str(&b), b.n);
    sb_done(&b);
    return s;
}

static void axes(Reader *p, Attr *a)
{
    read_expect(p, "(");
    if (read_accept(p, ")"))
        return;
    do {
        int64_t v = read_integer(p);
        if (a->naxes == 16 || v < -16 || v > 15) {
            read_fail(p, "bad axes");
            return;
        }
        a->axis[a->naxes++] = (int8_t)v;
    } while (!p->bad && read_accept(p, ","));
    read_expect(p, ")");
}

static uint8_t byte(Reader *p)
{
    return small_number(p, "", 255);
}

static int16_t short_number(Reader *p)
{
    int64_t v = read_integer(p);

    if (v < INT16_MIN || v > INT16_MAX)
        read_fail(p, "%lld is out of range", (long long)v);
    return (int16_t)v;
}

/* One key=value; false: there is no such key. */
bool read_attribute(Reader *p, Attr *a)
{
    if (read_accept(p, "dtype="))
        a->dtype = dtype(p);
    else if (read_accept(p, "accum="))
        a->accum = dtype(p);
    else if (read_accept(p, "compute="))
        a->compute = dtype(p);
    else if (read_accept(p, "rounding="))
        a->rounding = rounding(p);
    else if (read_accept(p, "policy("))
        a->policy = read_policy(p);
    else if (read_accept(p, "saturate="))
        a->saturate = byte(p);
    else if (read_accept(p, "flush="))
        a->flush = byte(p);
    else if (read_accept(p, "fast="))
        a->fast = byte(p);
    else if (read_accept(p, "kind="))
        a->kind = byte(p);
    else if (read_accept(p, "axes="))
        axes(p, a);
    else if (read_accept(p, "name="))
        a->name = read_quoted(p);
    else if (read_accept(p, "n="))
        a->n = short_number(p);
    else if (read_accept(p, "m="))
        a->m = short_number(p);
    else if (read_accept(p, "f="))
        a->f = number(p);
    else if (read_accept(p, "i="))
        a->i = read_integer(p);
    else if (read_accept(p, "seed="))
        a->seed = read_integer(p);
    else if (read_accept(p, "value=")) {
        tensor_unref(a->value);
        a->value = constant(p);
    } else if (p->end - p->at > 3 && p->at[0] == 'd' && p->at[1] >= '0' && p->at[1] <= '3' && p->at[2] == '=') {
        int k = p->at[1] - '0';
        p->at += 3;
        a->nd[k] = (uint8_t)sizes(p, a->d[k]);
    } else
        return false;
    return true;
}
