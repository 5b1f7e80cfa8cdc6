/*
 * Sizes as text: "B*S+4*D+1", and back.
 *
 * Terms go by degree, then name, the constant last.  A variable that stands for
 * part of another prints as what it is: D//H.
 */
#include "ir/core/dim_impl.h"

#include "base/alloc.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------- printing */

enum { SUM, PRODUCT, OPERAND };         /* how tightly the text must hold together */

/*
 * Terms and factors as texts, put in order before they are joined: the order in which a program made them must not show,
 * or what is printed would read back as something that prints otherwise.  Each is rendered once, however deep it lies.
 */
typedef struct Factor { AtomKind kind; uint32_t exp; StrBuf text; } Factor;
typedef struct Shown { int64_t c; int degree, n; Factor *f; } Shown;

static void print(Dim d, int level, StrBuf *out);

/* The two operands of what commutes (min, an unexpanded product), in the order of their texts, numbers last. */
static void print_pair(Dim a, Dim b, int level, const char *between, StrBuf *out)
{
    StrBuf x = {0}, y = {0};
    bool swap;

    print(a, level, &x);
    print(b, level, &y);
    swap = a >= 0 || (b < 0 && strcmp(sb_str(&x), sb_str(&y)) > 0);
    sb_printf(out, "%s%s%s", swap ? y.s : sb_str(&x), between, swap ? x.s : sb_str(&y));
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
        sb_puts(out, dim_name_shown(a.name->text));
        return;
    }
    if (a.kind == ATOM_MIN) {
        sb_puts(out, "min(");
        print_pair(a.a, a.b, SUM, ", ", out);
        sb_putc(out, ')');
        return;
    }
    sb_puts(out, wrap ? "(" : "");
    if (a.kind == ATOM_MUL) {
        print_pair(a.a, a.b, OPERAND, "*", out);
    } else {
        print(a.a, PRODUCT, out);
        sb_puts(out, "//");
        print(a.b, OPERAND, out);
    }
    sb_puts(out, wrap ? ")" : "");
}

static int factor_order(const void *a, const void *b)
{
    const Factor *x = a, *y = b;

    return x->kind != y->kind ? (int)x->kind - (int)y->kind : strcmp(x->text.s, y->text.s);
}

static int by_factors(const Shown *x, const Shown *y)
{
    for (int i = 0; i < x->n && i < y->n; i++) {
        int c = factor_order(&x->f[i], &y->f[i]);
        if (c)
            return c;
        if (x->f[i].exp != y->f[i].exp)
            return (int)y->f[i].exp - (int)x->f[i].exp;
    }
    return y->n - x->n;
}

static int term_order(const void *a, const void *b)
{
    const Shown *x = a, *y = b;

    return x->degree != y->degree ? y->degree - x->degree : by_factors(x, y);
}

static Shown show_term(Term t, int level)
{
    Mono m = dim_monos.at[t.m];                         /* a copy: printing does not move it, making sizes may */
    Shown s = {t.c, m.degree, m.n, m.n ? tsr_calloc(sizeof(Factor) * (size_t)m.n) : NULL};
    bool alone = m.n == 1 && m.f[0].exp == 1 && (t.c == 1 || t.c == -1);

    for (int i = 0; i < m.n; i++) {
        s.f[i] = (Factor){(AtomKind)dim_atoms.at[m.f[i].atom].kind, m.f[i].exp, {0}};
        print_atom(m.f[i].atom, alone ? level : OPERAND, &s.f[i].text);
    }
    if (s.n > 1)
        qsort(s.f, (size_t)s.n, sizeof *s.f, factor_order);
    return s;
}

static void hide_term(Shown *s)
{
    for (int i = 0; i < s->n; i++)
        sb_done(&s->f[i].text);
    tsr_free(s->f);
}

static void print_term(const Shown *t, bool first, StrBuf *out)
{
    int64_t c = t->c < 0 ? -t->c : t->c;

    sb_puts(out, t->c < 0 ? "-" : first ? "" : "+");
    if (c != 1 || !t->n)
        sb_printf(out, "%" PRId64 "%s", c, t->n ? "*" : "");
    for (int i = 0; i < t->n; i++)
        for (uint32_t e = 0; e < t->f[i].exp; e++) {
            sb_puts(out, i || e ? "*" : "");
            sb_puts(out, t->f[i].text.s);
        }
}

/* Does the text begin with a minus? "S-B" and not "-B+S", but "-B+1". Then "-B//2" would read as (-B)//2. */
static bool begins_negative(const Term *t, int n)
{
    for (int i = 0; i < n; i++)
        if (t[i].m && t[i].c > 0)
            return false;
    return n > 1 || t->c < 0;
}

static int first_shown(const Shown *t, int n)
{
    int first = 0;

    while (first < n - 1 && t[first].c < 0 && t[first + 1].n)
        first++;
    return t[first].c < 0 ? 0 : first;
}

static void print(Dim d, int level, StrBuf *out)
{
    Term one;
    int n, first;
    const Term *t = dim_terms(d, &one, &n);
    bool wrap, minus;
    Shown *shown;

    if (!n) {
        sb_putc(out, '0');
        return;
    }
    wrap = (n > 1 && level > SUM) || (n == 1 && level == OPERAND && dim_monos.at[t->m].degree > (t->c == 1)) ||
           (n == 1 && t->c < 0 && level > SUM);
    shown = tsr_alloc(sizeof *shown * (size_t)n);
    minus = begins_negative(t, n);
    for (int i = 0; i < n; i++)
        shown[i] = show_term(t[i], minus ? OPERAND : n > 1 || wrap ? PRODUCT : level);
    qsort(shown, (size_t)n, sizeof *shown, term_order);
    first = first_shown(shown, n);
    sb_puts(out, wrap ? "(" : "");
    print_term(&shown[first], true, out);
    for (int i = 0; i < n; i++)
        if (i != first)
            print_term(&shown[i], false, out);
    sb_puts(out, wrap ? ")" : "");
    for (int i = 0; i < n; i++)
        hide_term(&shown[i]);
    tsr_free(shown);
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
