/*
 * Sizes as text: "B*S+4*D+1", and back.
 *
 * Terms go by degree, then name, the constant last.  A variable that stands for
 * part of another prints as what it is: D//H.
 */
#include "ir/core/dim_impl.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------- printing */

enum { SUM, PRODUCT, OPERAND };         /* how tightly the text must hold together */

static void print(Dim d, int level, StrBuf *out);

static int compare_names(uint32_t a, uint32_t b)
{
    const Mono *x = &dim_monos.at[a], *y = &dim_monos.at[b];

    for (int i = 0; i < x->n && i < y->n; i++) {
        const Atom *p = &dim_atoms.at[x->f[i].atom], *q = &dim_atoms.at[y->f[i].atom];
        int c = p->kind != q->kind ? (int)p->kind - (int)q->kind : p->kind == ATOM_VAR ? strcmp(p->name->text, q->name->text) : 0;
        if (c)
            return c;
        if (x->f[i].exp != y->f[i].exp)
            return (int)y->f[i].exp - (int)x->f[i].exp;
    }
    return y->n - x->n;
}

static int by_text(const void *a, const void *b)
{
    const Term *x = a, *y = b;
    int dx = dim_monos.at[x->m].degree, dy = dim_monos.at[y->m].degree, c;

    if (dx != dy)
        return dy - dx;
    c = compare_names(x->m, y->m);
    return c ? c : (x->m > y->m) - (x->m < y->m);
}

/* min's operands in the order of their texts, numbers last: which was made first depends on the program, the text must not. */
static void print_min(Dim a, Dim b, StrBuf *out)
{
    StrBuf x = {0}, y = {0};
    bool swap;

    print(a, SUM, &x);
    print(b, SUM, &y);
    swap = a >= 0 || (b < 0 && strcmp(sb_str(&x), sb_str(&y)) > 0);
    sb_printf(out, "min(%s, %s)", swap ? y.s : sb_str(&x), swap ? x.s : sb_str(&y));
    sb_done(&x);
    sb_done(&y);
}

static void print_atom(uint32_t atom, int level, StrBuf *out)
{
    Atom a = dim_atoms.at[atom];
    bool wrap = level == OPERAND && (a.kind == ATOM_FDIV || a.kind == ATOM_MUL);

    if (a.kind == ATOM_VAR && a.def) {
        print(a.def, level, out);
        return;
    }
    if (a.kind == ATOM_VAR) {
        sb_puts(out, a.name->text);
        return;
    }
    if (a.kind == ATOM_MIN) {
        print_min(a.a, a.b, out);
        return;
    }
    sb_puts(out, wrap ? "(" : "");
    print(a.a, PRODUCT, out);
    sb_puts(out, a.kind == ATOM_MUL ? "*" : "//");
    print(a.b, OPERAND, out);
    sb_puts(out, wrap ? ")" : "");
}

static int text_order(uint32_t x, uint32_t y)
{
    StrBuf a = {0}, b = {0};
    int c;

    print_atom(x, SUM, &a);
    print_atom(y, SUM, &b);
    c = strcmp(sb_str(&a), sb_str(&b));
    sb_done(&a);
    sb_done(&b);
    return c;
}

static int factor_order(const void *a, const void *b)
{
    uint32_t i = ((const Fac *)a)->atom, k = ((const Fac *)b)->atom;
    AtomKind x = dim_atoms.at[i].kind, y = dim_atoms.at[k].kind;

    return x != y ? (int)x - (int)y : text_order(i, k);
}

static void print_term(Term t, bool first, int level, StrBuf *out)
{
    Mono m = dim_monos.at[t.m];
    int64_t c = t.c < 0 ? -t.c : t.c;
    Fac f[64];
    bool alone = m.n == 1 && m.f[0].exp == 1 && c == 1;

    sb_puts(out, t.c < 0 ? "-" : first ? "" : "+");
    if (c != 1 || !m.n)
        sb_printf(out, "%" PRId64 "%s", c, m.n ? "*" : "");
    if (m.n)
        memcpy(f, m.f, sizeof *f * (size_t)m.n);
    qsort(f, (size_t)m.n, sizeof *f, factor_order);
    for (int i = 0; i < m.n; i++)
        for (uint32_t e = 0; e < f[i].exp; e++) {
            sb_puts(out, i || e ? "*" : "");
            print_atom(f[i].atom, alone ? level : OPERAND, out);
        }
}

static void print(Dim d, int level, StrBuf *out)
{
    Term one, t[TERMS_MAX * 2];
    int n, first = 0;
    const Term *from = dim_terms(d, &one, &n);
    bool wrap;

    if (!n) {
        sb_putc(out, '0');
        return;
    }
    memcpy(t, from, sizeof *t * (size_t)n);
    qsort(t, (size_t)n, sizeof *t, by_text);
    while (first < n - 1 && t[first].c < 0 && t[first + 1].m && t[0].c < 0)
        first++;                                /* begin with a positive term: "S-B", not "-B+S" */
    if (t[first].c < 0)
        first = 0;
    wrap = (n > 1 && level > SUM) || (level == OPERAND && dim_monos.at[t[0].m].degree > (t[0].c == 1)) ||
           (t[0].c < 0 && level > SUM);
    sb_puts(out, wrap ? "(" : "");
    print_term(t[first], true, n > 1 || wrap ? PRODUCT : level, out);
    for (int i = 0; i < n; i++)
        if (i != first)
            print_term(t[i], false, PRODUCT, out);
    sb_puts(out, wrap ? ")" : "");
}

void dim_print(Dim d, StrBuf *out)
{
    if (d >= 0)
        sb_printf(out, "%" PRId64, d);
    else if (d == DIM_BAD)
        sb_puts(out, "<impossible>");
    else
        print(d, SUM, out);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(dim_atoms.at[*(const uint32_t *)a].name->text, dim_atoms.at[*(const uint32_t *)b].name->text);
}

int dim_vars(Dim d, Dim *out, int max)
{
    uint32_t v[64];
    int n = 0;

    dim_var_atoms(dim_surface(d), v, &n, max < 64 ? max : 64);
    qsort(v, (size_t)n, sizeof *v, by_name);
    for (int i = 0; i < n; i++)
        out[i] = dim_of_atom(v[i]);
    return n;
}

/* ------------------------------------------------------------- reading */

typedef struct {
    const char *s;
    Dim (*var)(void *st, Sym name);
    void *st;
    int depth;
    bool bad;
} Reader;

static Dim read_sum(Reader *r);

static void skip(Reader *r)
{
    while (*r->s == ' ' || *r->s == '\t')
        r->s++;
}

static bool accept(Reader *r, const char *text)
{
    size_t n = strlen(text);

    skip(r);
    if (strncmp(r->s, text, n))
        return false;
    r->s += n;
    return true;
}

static Dim fail(Reader *r)
{
    r->bad = true;
    return 0;
}

/* 768, or 1K 1M 1G 1T in powers of 1024. */
static Dim read_number(Reader *r)
{
    static const char units[] = "KMGT";
    int64_t v = 0;
    const char *u;

    for (; isdigit((unsigned char)*r->s); r->s++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *r->s - '0', &v))
            return fail(r);
    u = *r->s ? strchr(units, *r->s) : NULL;
    if (u && !isalnum((unsigned char)r->s[1]) && r->s[1] != '_') {
        if (__builtin_mul_overflow(v, (int64_t)1 << (10 * (u - units + 1)), &v))
            return fail(r);
        r->s++;
    }
    return v;
}

static Dim read_call(Reader *r, const char *name, size_t n)
{
    Dim a = read_sum(r), b;

    if (!accept(r, ","))
        return fail(r);
    b = read_sum(r);
    if (!accept(r, ")"))
        return fail(r);
    if (n == 4 && !strncmp(name, "cdiv", n))
        return dim_cdiv(a, b);
    if (n == 3 && !strncmp(name, "min", n))
        return dim_min(a, b);
    if (n == 3 && !strncmp(name, "max", n))
        return dim_max(a, b);
    return fail(r);
}

static bool is_name_byte(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

static Dim read_factor(Reader *r)
{
    const char *from, *end;
    Dim d;

    skip(r);
    if (r->bad || r->depth > 64)
        return fail(r);
    if (isdigit((unsigned char)*r->s))
        return read_number(r);
    if (accept(r, "(") || accept(r, "-")) {
        bool minus = r->s[-1] == '-';
        r->depth++;
        d = minus ? dim_sub(0, read_factor(r)) : read_sum(r);
        r->depth--;
        return minus || accept(r, ")") ? d : fail(r);
    }
    from = r->s;
    while (is_name_byte(*r->s))
        r->s++;
    if (r->s == from)
        return fail(r);
    end = r->s;
    if (accept(r, "(")) {
        r->depth++;
        d = read_call(r, from, (size_t)(end - from));
        r->depth--;
        return d;
    }
    d = r->var(r->st, sym_n(from, (size_t)(end - from)));
    return d == DIM_BAD ? fail(r) : d;
}

static Dim read_product(Reader *r)
{
    Dim d = read_factor(r);

    while (!r->bad) {
        if (accept(r, "//"))
            d = dim_floordiv(d, read_factor(r));
        else if (accept(r, "*"))
            d = dim_mul(d, read_factor(r));
        else if (accept(r, "%"))
            d = dim_mod(d, read_factor(r));
        else
            break;
    }
    return d;
}

static Dim read_sum(Reader *r)
{
    Dim d = read_product(r);

    while (!r->bad) {
        if (accept(r, "+"))
            d = dim_add(d, read_product(r));
        else if (accept(r, "-"))
            d = dim_sub(d, read_product(r));
        else
            break;
    }
    return d;
}

bool dim_parse(const char *s, Dim (*var)(void *st, Sym name), void *st, Dim *out)
{
    Reader r = {s, var, st, 0, false};
    Dim d = read_sum(&r);

    skip(&r);
    if (r.bad || *r.s || d == DIM_BAD)
        return false;
    *out = d;
    return true;
}
