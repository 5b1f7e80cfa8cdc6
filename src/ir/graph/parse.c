/*
 * Reading graphs from text (text.c says how they look).
 *
 * A recursive descent over the text.  Nothing in it is trusted: numbers,
 * nesting and sizes are bounded, every node is typed by the op table and must
 * agree with the type that is written, and the result is verified.
 */
#include "ir/graph/graph.h"
#include "runtime/tensor.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 32, VALUES_MAX = 1 << 20, ELEMENTS_MAX = 1 << 22 };

typedef struct Parser {
    const char *at, *end, *start;
    StrBuf *err;
    bool bad;
    int depth;
    Map sizes;                  /* name -> variable */
} Parser;

typedef struct Scope {
    Graph *g;
    Vec(GValue) value;          /* by number */
} Scope;

static bool fail(Parser *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool fail(Parser *p, const char *fmt, ...)
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

static void skip(Parser *p)
{
    while (p->at < p->end && (isspace((unsigned char)*p->at) || *p->at == '#')) {
        if (*p->at == '#')
            while (p->at < p->end && *p->at != '\n')
                p->at++;
        else
            p->at++;
    }
}

static bool accept(Parser *p, const char *text)
{
    size_t n = strlen(text);

    skip(p);
    if (p->bad || (size_t)(p->end - p->at) < n || memcmp(p->at, text, n))
        return false;
    p->at += n;
    return true;
}

static bool expect(Parser *p, const char *text)
{
    return accept(p, text) || fail(p, "expected '%s'", text);
}

static bool word_byte(char c) { return isalnum((unsigned char)c) || c == '_' || c == '.' || (unsigned char)c >= 0x80; }

/* The next word; empty when there is none. */
static Sym word(Parser *p)
{
    const char *from;

    skip(p);
    from = p->at;
    while (p->at < p->end && word_byte(*p->at))
        p->at++;
    return sym_n(from, (size_t)(p->at - from));
}

static int64_t integer(Parser *p)
{
    char *end;
    long long v;

    skip(p);
    v = strtoll(p->at, &end, 10);
    if (end == p->at)
        fail(p, "expected a number");
    p->at = end;
    return v;
}

static double number(Parser *p)
{
    char *end;
    double v;

    skip(p);
    v = strtod(p->at, &end);
    if (end == p->at)
        fail(p, "expected a number");
    p->at = end;
    return v;
}

/* -- sizes, types, constants -------------------------------------------------------------------------------------------------- */

static Dim size_variable(void *st, Sym name)
{
    Parser *p = st;
    uintptr_t v;

    if (!map_find(&p->sizes, (uintptr_t)name, &v)) {
        v = (uintptr_t)dim_var(name, 0, INT64_MAX);
        map_set(&p->sizes, (uintptr_t)name, v);
    }
    return (Dim)v;
}

/* An expression up to one of the characters that end it. */
static Dim size_until(Parser *p, const char *ends)
{
    const char *from;
    int depth = 0;
    StrBuf b = {0};
    Dim d = 0;

    skip(p);
    for (from = p->at; p->at < p->end && *p->at != '\n'; p->at++) {
        if (depth == 0 && strchr(ends, *p->at))
            break;
        depth += *p->at == '(' ? 1 : *p->at == ')' ? -1 : 0;
    }
    sb_write(&b, from, (size_t)(p->at - from));
    if (!dim_parse(sb_str(&b), size_variable, p, &d))
        fail(p, "'%.40s' is not a size", sb_str(&b));
    sb_done(&b);
    return d;
}

static Dim size(Parser *p) { return size_until(p, ",]"); }

static int sizes(Parser *p, Dim *d)
{
    int n = 0;

    expect(p, "[");
    if (accept(p, "]"))
        return 0;
    do {
        if (n == 16) {
            fail(p, "more than 16 sizes");
            return 0;
        }
        d[n++] = size(p);
    } while (!p->bad && accept(p, ","));
    expect(p, "]");
    return n;
}

static uint8_t dtype(Parser *p)
{
    Sym w = word(p);
    DType dt = DT_f32;

    if (!dtype_find(w->text, &dt))
        fail(p, "'%.40s' is not a dtype", w->text);
    return (uint8_t)dt;
}

static TType type(Parser *p)
{
    TType y = {0};

    y.weak = accept(p, "weak ");
    y.dtype = dtype(p);
    y.rank = (uint8_t)sizes(p, y.shape);
    for (int i = 0; i < y.rank; i++) {
        int64_t v;
        if (dim_const_value(y.shape[i], &v) && v < 0)
            fail(p, "a size cannot be negative");
    }
    return y;
}

static uint8_t policy_dtype(Parser *p, const char *key)
{
    expect(p, key);
    if (accept(p, "none"))
        return DT_NONE;
    return dtype(p);
}

static uint8_t small_number(Parser *p, const char *key, int64_t max)
{
    int64_t v;

    expect(p, key);
    v = integer(p);
    if (v < 0 || v > max)
        fail(p, "%lld is out of range", (long long)v);
    return (uint8_t)v;
}

static const Policy *policy(Parser *p)
{
    Policy q = {0};

    q.storage = policy_dtype(p, "storage=");
    q.compute = policy_dtype(p, ", compute=");
    q.accum = policy_dtype(p, ", accum=");
    q.rounding = small_number(p, ", rounding=", 255);
    q.denorm = small_number(p, ", denorm=", 255);
    q.saturate = small_number(p, ", saturate=", 1);
    q.has_scale = small_number(p, ", scaled=", 1);
    expect(p, ", scale=");
    q.scale = number(p);
    expect(p, ")");
    return p->bad ? NULL : policy_intern(q);
}

static void element(Parser *p, Tensor *t, int64_t at)
{
    if (dtype_is_complex((DType)t->dtype)) {
        double re = number(p);
        expect(p, ":");
        elem_set_c(t, at, re, number(p));
    } else if (dtype_is_float((DType)t->dtype))
        elem_set_f(t, at, number(p));
    else if (t->dtype == DT_uint64) {
        char *end;
        skip(p);
        elem_set_i(t, at, (int64_t)strtoull(p->at, &end, 10));
        if (end == p->at)
            fail(p, "expected a number");
        p->at = end;
    } else
        elem_set_i(t, at, integer(p));
}

static Tensor *constant(Parser *p)
{
    TType y = type(p);
    int64_t n = 1;
    Tensor *t;

    for (int i = 0; i < y.rank && !p->bad; i++) {
        if (!dim_is_const(y.shape[i]) || (y.shape[i] && n > ELEMENTS_MAX / y.shape[i]))
            fail(p, "a constant needs known, moderate sizes");
        else
            n *= y.shape[i];
    }
    expect(p, "(");
    if (p->bad || !(t = tensor_new((DType)y.dtype, y.rank, y.shape)))
        return NULL;
    t->weak = y.weak;
    for (int64_t i = 0; i < n && !p->bad; i++) {
        if (i)
            expect(p, ",");
        element(p, t, i);
    }
    expect(p, ")");
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

static uint32_t unicode_escape(Parser *p)
{
    uint32_t v = 0;

    for (int i = 0; i < 4; i++) {
        int h = p->at < p->end ? hex(*p->at) : -1;
        if (h < 0) {
            fail(p, "bad escape");
            return 0;
        }
        v = v * 16 + (uint32_t)h;
        p->at++;
    }
    return v;
}

static Sym quoted(Parser *p)
{
    static const char from[] = "nrtbf", to[] = "\n\r\t\b\f";
    StrBuf b = {0};
    Sym s;

    expect(p, "\"");
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
    expect(p, "\"");
    s = sym_n(sb_str(&b), b.n);
    sb_done(&b);
    return s;
}

static void axes(Parser *p, Attr *a)
{
    expect(p, "(");
    if (accept(p, ")"))
        return;
    do {
        int64_t v = integer(p);
        if (a->naxes == 16 || v < -16 || v > 15) {
            fail(p, "bad axes");
            return;
        }
        a->axis[a->naxes++] = (int8_t)v;
    } while (!p->bad && accept(p, ","));
    expect(p, ")");
}

static uint8_t byte(Parser *p)
{
    return small_number(p, "", 255);
}

static int16_t short_number(Parser *p)
{
    int64_t v = integer(p);

    if (v < INT16_MIN || v > INT16_MAX)
        fail(p, "%lld is out of range", (long long)v);
    return (int16_t)v;
}

/* One key=value; false: there is no such key. */
static bool attribute(Parser *p, Attr *a)
{
    if (accept(p, "dtype="))
        a->dtype = dtype(p);
    else if (accept(p, "accum="))
        a->accum = dtype(p);
    else if (accept(p, "rounding="))
        a->rounding = byte(p);
    else if (accept(p, "saturate="))
        a->saturate = byte(p);
    else if (accept(p, "flush="))
        a->flush = byte(p);
    else if (accept(p, "kind="))
        a->kind = byte(p);
    else if (accept(p, "axes="))
        axes(p, a);
    else if (accept(p, "name="))
        a->name = quoted(p);
    else if (accept(p, "n="))
        a->n = short_number(p);
    else if (accept(p, "m="))
        a->m = short_number(p);
    else if (accept(p, "f="))
        a->f = number(p);
    else if (accept(p, "i="))
        a->i = integer(p);
    else if (accept(p, "seed="))
        a->seed = integer(p);
    else if (accept(p, "value=")) {
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

/* -- nodes ------------------------------------------------------------------------------------------------------------------------ */

static Graph *graph(Parser *p);

static GValue value(Parser *p, Scope *s)
{
    int64_t v;

    expect(p, "%");
    v = integer(p);
    if (p->bad || v < 0 || v >= s->value.n) {
        fail(p, "%%%lld is not defined", (long long)v);
        return (GValue){NULL, 0};
    }
    return s->value.at[v];
}

static void define(Parser *p, Scope *s, int64_t n, GValue v)
{
    if (n != s->value.n || n >= VALUES_MAX)
        fail(p, "expected %%%d here", s->value.n);
    else
        vec_push(&s->value, v);
}

typedef struct Line {           /* what a line of a node says */
    Vec(int64_t) number;
    Vec(TType) type;
    Vec(GValue) in;
    OpId op;
    Attr a;
} Line;

static void results(Parser *p, Line *l)
{
    if (!accept(p, "%"))
        return;
    do {
        vec_push(&l->number, integer(p));
        expect(p, ":");
        vec_push(&l->type, type(p));
    } while (!p->bad && accept(p, ",") && expect(p, "%"));
    expect(p, "=");
}

static void operands(Parser *p, Scope *s, Line *l)
{
    expect(p, "(");
    if (accept(p, ")"))
        return;
    do
        vec_push(&l->in, value(p, s));
    while (!p->bad && l->in.n < 4096 && accept(p, ","));
    expect(p, ")");
}

static void rest(Parser *p, Line *l)
{
    l->a = attr_default();
    if (accept(p, "{")) {
        skip(p);
        while (!p->bad && attribute(p, &l->a))
            skip(p);
        expect(p, "}");
    }
    while (accept(p, "effects=[")) {    /* follow from the ops */
        (void)word(p);
        expect(p, "]");
    }
    if (accept(p, "order="))
        (void)integer(p);
    while (!p->bad && accept(p, "region")) {
        int64_t k = integer(p);
        if (k < 0 || k > 3 || l->a.region[k])
            fail(p, "bad region");
        else
            l->a.region[k] = graph(p);
    }
}

/* Type the node, compare with what is written, append it. */
static void append(Parser *p, Scope *s, Line *l)
{
    int n = l->in.n, nout = 0, code;
    TType *x = tsr_alloc(sizeof *x * (size_t)(n + 1)), *y = tsr_alloc(sizeof *y * (size_t)graph_max_results(l->op, &l->a));
    StrBuf why = {0};
    Node *node;

    for (int i = 0; i < n; i++)
        x[i] = *gvalue_type(l->in.at[i]);
    if (!op_infer(l->op, &l->a, x, n, y, &nout, &why, &code))
        fail(p, "%s", sb_str(&why));
    else if (nout != l->type.n)
        fail(p, "%s gives %d results, %d are written", op_info[l->op].name, nout, l->type.n);
    for (int i = 0; i < nout && !p->bad; i++) {
        if (!result_fits(l->op, &l->type.at[i], &y[i]))
            fail(p, "result %d of %s has another type", i, op_info[l->op].name);
        l->type.at[i].weak = y[i].weak;
        l->type.at[i].policy = y[i].policy;
    }
    if (!p->bad) {
        node = graph_append(s->g, l->op, &l->a, l->in.at, n, l->type.at, nout, (Span){0, 0});
        for (int i = 0; i < nout; i++)
            define(p, s, l->number.at[i], (GValue){node, i});
    }
    sb_done(&why);
    tsr_free(x);
    tsr_free(y);
}

static void node(Parser *p, Scope *s)
{
    Line l = {.a = attr_default()};
    Sym name;

    results(p, &l);
    name = word(p);
    if (!p->bad && !op_find(name->text, &l.op))
        fail(p, "'%.40s' is not an op", name->text);
    if (!p->bad)
        operands(p, s, &l);
    if (!p->bad)
        rest(p, &l);
    if (!p->bad)
        append(p, s, &l);
    for (int k = 0; k < 4; k++)
        graph_unref(l.a.region[k]);
    tensor_unref(l.a.value);
    vec_free(&l.number);
    vec_free(&l.type);
    vec_free(&l.in);
}

static void params(Parser *p, Scope *s)
{
    expect(p, "(");
    if (accept(p, ")"))
        return;
    do {
        TType y;
        int64_t n;
        expect(p, "%");
        n = integer(p);
        expect(p, ":");
        y = type(p);
        if (accept(p, "policy("))
            y.policy = policy(p);
        if (!p->bad)
            define(p, s, n, graph_param(s->g, &y));
    } while (!p->bad && accept(p, ","));
    expect(p, ")");
}

static void conditions(Parser *p, Graph *g)
{
    if (!accept(p, "where "))
        return;
    do {
        DimCond c = {.a = size_until(p, "=!>")};
        if (accept(p, "=="))
            c.rel = DIM_IS_EQ;
        else if (accept(p, "!="))
            c.rel = DIM_IS_NE;
        else if (expect(p, ">="))
            c.rel = DIM_IS_GE;
        c.b = size_until(p, ",{");
        vec_push(&g->conds, c);
        dim_cond_assume(&c);                            /* what the types of the graph may rest on */
    } while (!p->bad && accept(p, ","));
}

static Graph *graph(Parser *p)
{
    Scope s = {0};
    Vec(int64_t) result = {0};

    if (++p->depth > DEPTH_MAX)
        fail(p, "regions are nested too deeply");
    expect(p, "graph");
    expect(p, "@");
    s.g = graph_new(word(p));
    params(p, &s);
    expect(p, "->");
    expect(p, "(");
    if (!accept(p, ")")) {
        do {
            expect(p, "%");
            vec_push(&result, integer(p));
        } while (!p->bad && accept(p, ","));
        expect(p, ")");
    }
    conditions(p, s.g);
    expect(p, "{");
    while (!p->bad && !accept(p, "}"))
        node(p, &s);
    for (int i = 0; i < result.n && !p->bad; i++)
        if (result.at[i] < 0 || result.at[i] >= s.value.n)
            fail(p, "result %%%lld is not defined", (long long)result.at[i]);
        else
            graph_result(s.g, s.value.at[result.at[i]]);
    p->depth--;
    vec_free(&result);
    vec_free(&s.value);
    return s.g;
}

Graph *graph_parse(const char *text, size_t len, StrBuf *err)
{
    StrBuf copy = {0};          /* with a NUL at the end, for strtod and friends */
    Parser p = {.err = err};
    Graph *g = NULL;

    sb_write(&copy, text, len);
    p.at = p.start = sb_str(&copy);
    p.end = p.start + strlen(p.start);
    if (p.end - p.start != (ptrdiff_t)len)
        fail(&p, "the text contains a zero byte");
    expect(&p, "tessera.graph v");
    if (!p.bad && integer(&p) != 1)
        fail(&p, "only version 1 of the text form is known");
    if (accept(&p, "hash="))            /* says what the text was; whoever edits it need not compute it */
        (void)word(&p);
    dim_push();
    if (!p.bad)
        g = graph(&p);
    skip(&p);
    if (!p.bad && p.at != p.end)
        fail(&p, "text behind the graph");
    if (!p.bad && !graph_verify(g, err))
        p.bad = true;
    dim_pop();
    map_done(&p.sizes);
    sb_done(&copy);
    if (p.bad) {
        graph_unref(g);
        return NULL;
    }
    return g;
}
